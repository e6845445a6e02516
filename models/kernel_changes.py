"""What a guess changes in the evidence of one node: target replaced, gone or come.

Questions are pairs of the target's own value and the guessed one, sorted; minus infinity where it
is not in the node. See `docs/trees.md`, "Smoothed leaves".
"""

import math

import numba
import numpy as np

from .kernel_nodes import of_node
from .kernel_ratios import POINTS, beta_rule, log_joint, reference


@numba.njit(cache=True, nogil=True)
def draws_for(N, R):
    """Draws of the weights in each batch: more in small nodes, whose weights vary more."""
    return max(8, min(64, int(200.0 / math.sqrt(N))))


@numba.njit(cache=True, nogil=True)
def changes(held, z, whole, draws, questions, answers):
    """log E[p(Z | others' weights, guess) / p(Z | others' weights, truth)] for each question."""
    old, new = questions
    gain, off, ess = answers
    node = reference(held, z, whole, draws[:2], draws[2])
    y, points = node[1][0], min(POINTS, (len(z) + 2) // 2)
    rules = beta_rule(len(held) - 1.0, points), beta_rule(len(held) * 1.0, points)
    certain = np.zeros(1), np.zeros(1)
    before, after = np.empty(len(node[4][0])), np.empty(len(node[4][0]))
    for t in range(len(old)):
        mine = np.searchsorted(y, old[t]) if old[t] > -np.inf else -1
        rule = certain if mine < 0 else rules[0]
        if t == 0 or old[t] != old[t - 1]:
            log_joint(node, whole, (mine, mine >= 0, old[t]), rule, before)
        through = new[t] > -np.inf
        if through:
            rule = rules[0] if mine >= 0 else rules[1]
        else:
            rule = certain
        log_joint(node, whole, (mine, through, new[t]), rule, after)
        gain[t], ess[t] = _mean_ratio(after, before, off[t])


@numba.njit(cache=True, nogil=True)
def exact_changes(held, z, whole, questions, gain):
    """The same without weights: plain draws, one value, or one record."""
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


NO_DRAWS = (np.uint64(0), 1, 0)


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
