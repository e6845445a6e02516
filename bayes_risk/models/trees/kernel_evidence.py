"""What smoothed values say of the composition of a leaf: the bootstrap integrated by simulation.

The evidence of a guess over the truth's is a mean over draws of the records' weights given what was
released; that of a whole table goes by allocating released values to records one after another
(Kong, Liu & Wong 1994). Questions to a node are pairs of the target's own value and the guessed
one, minus infinity where it is not in the node. See `docs/trees.md`, "Smoothed leaves".

*The ratio of guess and truth.* Split w into the target's b ~ Beta(1, N-1) and the others' w_-t =
(1-b) w'; then w' ~ Dirichlet(1, ..., 1) over N-1 records, independent of b. With f(z) = sum_{i !=
t} w'_i K(z | y_i),

    p(z|y) = E_w' I(w'),      I(w') = E_b prod_r [ (1-b) f(z_r) + b K(z_r | y_t) ].

A guess changes only kernels (f' for f); I' = prod_r f'(z_r) if it leads elsewhere. The posterior of
w' given z has density I(w') / p(z|y), hence

    p(z|y*,y_-t) / p(z|y) = E[ I'(w') / I(w') | z, y ].

Draws of all N weights serve every target of the node, because w_i / (1-w_t) has this posterior.
They come from data augmentation: a_r (the record behind value r) in proportion to w_i K(z_r | y_i),
then w ~ Dirichlet(1+n).
"""

import math
from typing import NamedTuple

import numba
import numpy as np

from bayes_risk._core.arrays import Array, Ints
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.data.precision import SAME

from .kernels import beta_rule, log_shown, of_node, points_for, records, reference
from .tree import PLAIN, Moves, Tree

BATCHES = 8
PARTICLES = 32  # in each batch, at most
MAX_LOG_GAP = 7.0  # log evidence below the best guess's, from which a guess does not count
MIN_ESS = 60.0  # effective draws
MORE_DRAWS = 10  # times as many draws where they are fewer
SEED_SALT = np.uint64(0x5851F42D4C957F2D)  # between the seeds of both
NO_DRAWS = (np.uint64(0), 1, 0)


@numba.njit(cache=True, nogil=True)
def changes(genuine, z, whole, draws, questions, answers):
    """log E[p(Z | others' weights, guess) / p(Z | ..., truth)] for each question, by `draws`."""
    batches, kept, seed = draws
    wanted = np.ones(len(questions[0]), np.bool_)
    node = reference(genuine, z, whole, (batches, kept), seed)
    _answer_questions(node, whole, wanted, questions, answers)
    wanted = _undecided(questions[0], answers[0], answers[2])
    if wanted.any():
        node = reference(genuine, z, whole, (batches, MORE_DRAWS * kept), seed + SEED_SALT)
        _answer_questions(node, whole, wanted, questions, answers)


@numba.njit(cache=True, nogil=True)
def _undecided(old, gain, ess):
    """Questions that few draws answer, unless another guess of that target is far likelier."""
    out = ess < MIN_ESS
    start = 0
    for t in range(len(old)):
        if old[t] != old[start]:
            start = t
        last = t + 1 == len(old) or old[t + 1] != old[t]
        if last:
            out[start : t + 1] &= gain[start : t + 1] > gain[start : t + 1].max() - MAX_LOG_GAP
    return out


@numba.njit(cache=True, nogil=True)
def _answer_questions(node, whole, wanted, questions, answers):
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
        inside = old[t] > -np.inf
        mine = np.searchsorted(y, old[t]) if inside else -1
        if old[t] != known:
            known = old[t]
            log_shown(node, whole, (mine, old[t]), rules[0] if inside else certain, before)
        rule = certain
        if new[t] > -np.inf:
            rule = rules[0] if inside else rules[1]
        log_shown(node, whole, (mine, new[t]), rule, after)
        gain[t], ess[t] = _mean_ratio(after, before, off[t])


@numba.njit(cache=True, nogil=True)
def exact_changes(genuine, z, whole, questions, gain):
    """The same without weights: plain draws, or one released value."""
    old, new = questions
    out = np.empty(1)
    sure, first = whole or not whole, np.int64(0)  # no literals: `of_node` is compiled once
    of_node(genuine, z, (whole, sure, not sure), NO_DRAWS, first, out)
    before = out[0]
    atom = not whole and genuine.min() == genuine.max()
    for t in range(len(old)):
        guessed = records(genuine, old[t], new[t])
        of_node(guessed, z, (whole, sure, atom), NO_DRAWS, first, out)
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


class SmoothedValues(NamedTuple):
    """What one data set shows of one tree: values by node, and the genuine ones by donor."""

    begin: Ints  # (nodes + 1,): the values shown by a node are z[begin[node] : begin[node + 1]]
    z: Array
    y: Array  # (n,) genuine values, in the order of the tree's donors
    whole: bool

    @classmethod
    def from_rows(
        cls, tree: Tree, data: Microdata, rows: Codes, *, whole: bool
    ) -> "SmoothedValues":
        """Sort what coded rows (R, p) show by node."""
        y, z, nodes = data.codes[:, tree.column], rows[:, tree.column], tree.node(rows)
        order = np.lexsort((z, nodes))
        begin = np.searchsorted(nodes[order], np.arange(tree.n_nodes + 1))
        return cls(begin, z[order].astype(float), y[tree.donors].astype(float), whole)

    def n_beyond(self, tree: Tree) -> int:
        """Number of shown values beyond the range of their node's genuine ones."""
        n = 0
        for node in np.flatnonzero(np.diff(self.begin)).tolist():
            genuine = self.y[tree.begin[node] : tree.end[node]]
            near = SAME * np.abs(genuine).max()
            z = self.z[self.begin[node] : self.begin[node + 1]]
            n += int(((z < genuine.min() - near) | (z > genuine.max() + near)).sum())
        return n


def log_gain_smoothed(
    tree: Tree,
    shown: SmoothedValues,
    kind: int,
    own: tuple[Ints, Array],
    guess: tuple[Ints, Array],
    seed: int,
) -> tuple[Array, Array, Array]:
    """log p(Z | y*, y_-i) less that of the truth (G, U), its deviations (B, G, U), ESS (U,).

    Each distinct node, own value and guessed value is done once; a node costs some tens of sweeps.
    """
    log_p, ess = np.zeros(guess[0].shape), np.full(len(own[0]), np.inf)
    deviations = np.zeros((BATCHES, *guess[0].shape))
    node, taken, put, g, u = Moves.of(tree, np.diff(shown.begin) > 0, own[0], guess[0])
    old, new = np.where(taken, own[1][u], -np.inf), np.where(put, guess[1][g, u], -np.inf)
    order = np.lexsort((new, old, node))
    old, new, node, g, u = (x[order] for x in (old, new, node, g, u))
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (np.diff(node) > 0) | (old[1:] != old[:-1]) | (new[1:] != new[:-1])
    questions = node[first], old[first], new[first]
    answers = _answered((tree.begin, tree.end), shown, kind == PLAIN, np.uint64(seed), questions)
    gain, off, size = (x[np.cumsum(first) - 1] for x in answers)
    np.add.at(log_p, (g, u), gain)
    np.add.at(deviations.transpose(1, 2, 0), (g, u), off)
    counts = (log_p > -np.inf) & (log_p >= log_p.max(axis=0) - MAX_LOG_GAP)  # not hopeless
    np.minimum.at(ess, u[counts[g, u]], size[counts[g, u]])
    return log_p, deviations, ess


def log_p_smoothed(tree: Tree, shown: SmoothedValues, kind: int, seed: int) -> tuple[float, Array]:
    """log p(Z | y) of all nodes of a tree, and the deviations of its batches (B,)."""
    total, deviations = 0.0, np.zeros(BATCHES)
    for node in np.flatnonzero(np.diff(shown.begin)).tolist():
        genuine = shown.y[tree.begin[node] : tree.end[node]]
        values = shown.z[shown.begin[node] : shown.begin[node + 1]]
        batch, how = np.empty(BATCHES), (shown.whole, kind == PLAIN, False)
        draws = np.uint64(seed), BATCHES, PARTICLES
        of_node(genuine, values, how, draws, node, batch)
        top = batch.max()
        if top == -np.inf:
            return -np.inf, np.zeros(BATCHES)
        mean = np.exp(batch - top).mean()
        total += top + np.log(mean)
        deviations += np.exp(batch - top) / mean - 1.0
    return total, deviations


@numba.njit(cache=True, nogil=True)
def _answered(tree, shown, plain, seed, wanted):
    """Change of log p of a node, deviations and effective draws, for each distinct question."""
    begin, end = tree
    first, z, y, whole = shown
    node, old, new = wanted
    gain, ess = np.empty(len(node)), np.full(len(node), np.inf)
    off = np.zeros((len(node), BATCHES))
    for k in np.unique(node):
        here = slice(np.searchsorted(node, k), np.searchsorted(node, k, side="right"))
        genuine, values = y[begin[k] : end[k]], z[first[k] : first[k + 1]]
        questions = (old[here], new[here])
        answers = (gain[here], off[here], ess[here])
        if plain or len(values) == 1:
            exact_changes(genuine, values, whole, questions, answers[0])
        else:
            # in each batch more draws of the weights in small nodes, where they vary more
            kept = max(8, min(64, int(200.0 / math.sqrt(len(genuine)))))
            draws = (off.shape[1], kept, seed + np.uint64(k))
            changes(genuine, values, whole, draws, questions, answers)
    return gain, off, ess
