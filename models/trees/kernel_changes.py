"""What a guess changes in the evidence of one node: target replaced, gone or come.

Questions are pairs of the target's own value and the guessed one, sorted; minus infinity where it
is not in the node. See `docs/trees.md`, "Smoothed leaves".
"""

import math

import numba
import numpy as np

from .kernel_nodes import of_node
from .kernel_ratios import beta_rule, log_joint, points_for, reference

HOPELESS = 7.0  # log evidence below the best guess's, from which a guess does not count
ENOUGH = 60.0  # effective draws
MORE = 10  # times as many draws where they are fewer
AGAIN = np.uint64(0x5851F42D4C957F2D)  # between the seeds of both
NO_DRAWS = (np.uint64(0), 1, 0)


@numba.njit(cache=True, nogil=True)
def draws_for(N):
    """Draws of the weights in each batch: more in small nodes, whose weights vary more."""
    return max(8, min(64, int(200.0 / math.sqrt(N))))


@numba.njit(cache=True, nogil=True)
def changes(held, z, whole, draws, questions, answers):
    """log E[p(Z | others' weights, guess) / p(Z | others' weights, truth)] for each question.

    ``draws``: batches, draws in each, and a seed. What too few draws decide is asked once more of
    `MORE` times as many.
    """
    batches, kept, seed = draws
    wanted = np.ones(len(questions[0]), np.bool_)
    node = reference(held, z, whole, (batches, kept), seed)
    _asked_of(node, whole, wanted, questions, answers)
    wanted = _undecided(questions[0], answers[0], answers[2])
    if wanted.any():
        node = reference(held, z, whole, (batches, MORE * kept), seed + AGAIN)
        _asked_of(node, whole, wanted, questions, answers)


@numba.njit(cache=True, nogil=True)
def _undecided(old, gain, ess):
    """Questions that few draws answer, unless another guess of that target is far likelier."""
    out = ess < ENOUGH
    start = 0
    for t in range(len(old)):
        if old[t] != old[start]:
            start = t
        last = t + 1 == len(old) or old[t + 1] != old[t]
        if last:
            out[start : t + 1] &= gain[start : t + 1] > gain[start : t + 1].max() - HOPELESS
    return out


@numba.njit(cache=True, nogil=True)
def _asked_of(node, whole, wanted, questions, answers):
    """Answer the wanted questions from the draws of a node."""
    old, new = questions
    gain, off, ess = answers
    N, y = len(node[0]), node[1][0]
    points = points_for(N, node[2][1].sum())
    rules = beta_rule(N - 1.0, points), beta_rule(N * 1.0, points)
    certain = np.zeros(1), np.ones(1)
    before, after = np.empty(len(node[4][0])), np.empty(len(node[4][0]))
    known = np.nan
    for t in np.flatnonzero(wanted):
        inside, through = old[t] > -np.inf, new[t] > -np.inf
        mine = np.searchsorted(y, old[t]) if inside else -1
        if old[t] != known:
            known = old[t]
            rule = rules[0] if inside else certain
            log_joint(node, whole, (mine, inside, old[t]), rule, before)
        rule = certain
        if through:
            rule = rules[0] if inside else rules[1]
        log_joint(node, whole, (mine, through, new[t]), rule, after)
        gain[t], ess[t] = _mean_ratio(after, before, off[t])


@numba.njit(cache=True, nogil=True)
def exact_changes(held, z, whole, questions, gain):
    """The same without weights: plain draws, or one released value."""
    old, new = questions
    out = np.empty(1)
    of_node(held, z, (whole, True, False), NO_DRAWS, 0, out)
    before = out[0]
    atom = not whole and held.min() == held.max()
    for t in range(len(old)):
        others = held
        if old[t] > -np.inf:
            others = np.delete(held, np.argmax(held == old[t]))
        if new[t] > -np.inf:
            others = np.append(others, new[t])
        of_node(others, z, (whole, True, atom), NO_DRAWS, 0, out)
        gain[t] = out[0] - before


@numba.njit(cache=True, nogil=True)
def _mean_ratio(after, before, off):
    """Log mean of the ratios; deviations of the batches are filled in; effective draws."""
    ratio = after - before
    top = ratio.max()
    if top == -np.inf:
        return -np.inf, np.inf
    ratio = np.exp(ratio - top)
    mean, size = ratio.mean(), len(ratio) // len(off)
    for b in range(len(off)):
        off[b] = ratio[b * size : (b + 1) * size].mean() / mean - 1.0
    return top + np.log(mean), ratio.sum() ** 2 / (ratio**2).sum()
