"""What smoothed values say of the composition of a leaf: the bootstrap integrated by simulation.

A value released from a node with N records is z ~ sum_i w_i K(z | y_i): a Gaussian kernel around
record i's value, cut off at the node's range, with w ~ Dirichlet(1, ..., 1). The weights go out by
allocating the released values to records one after another (Kong, Liu & Wong 1994), which is
unbiased for p(z_1, ..., z_R | y); drawn plainly the values are independent, and nothing is left to
simulate. A guess changes the kernel of one record, and with it bandwidth and range. Every guess
sees the same random numbers. Derivation: `docs/trees.md`.
"""

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from .kernel_nodes import SAME, mean_of, of_node
from .leaf_evidence import PLAIN
from .trees import Tree

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
BATCHES = 8
PARTICLES = 32  # in each batch


class Released(NamedTuple):
    """What one data set shows of one tree: values by node, and the genuine ones by donor."""

    begin: Ints  # (nodes + 1,): the values shown by a node are z[begin[node] : begin[node + 1]]
    z: Array
    y: Array  # (n,) genuine values, in the order of the tree's donors
    whole: bool

    @classmethod
    def of(cls, tree: Tree, y: Array, nodes: Ints, z: Array, *, whole: bool) -> "Released":
        """Sort by node: genuine values y (n,) of all records; nodes and values z of rows (R,)."""
        order = np.argsort(nodes, kind="stable")
        begin = np.searchsorted(nodes[order], np.arange(tree.n_nodes + 1))
        return cls(begin, z[order].astype(float), y[tree.donors].astype(float), whole)

    def n_beyond(self, tree: Tree) -> int:
        """Number of shown values beyond the range of their node's genuine ones."""
        n = 0
        for node in np.flatnonzero(np.diff(self.begin)).tolist():
            held = self.y[tree.begin[node] : tree.end[node]]
            near = SAME * np.abs(held).max()
            z = self.z[self.begin[node] : self.begin[node + 1]]
            n += int(((z < held.min() - near) | (z > held.max() + near)).sum())
        return n


class Simulation(NamedTuple):
    """How much to simulate, and from which seed."""

    seed: int
    batches: int = BATCHES
    particles: int = PARTICLES


def log_gain_smoothed(
    tree: Tree,
    shown: Released,
    kind: int,
    own: Ints,
    guess: tuple[Ints, Array],
    simulation: Simulation,
) -> tuple[Array, Array, Array]:
    """log p(Z | y*, y_-i) less that of the truth, its deviations, and effective particles.

    Parameters
    ----------
    tree : Tree
    shown : Released
    kind : int
        `PLAIN` or `BAYESIAN`.
    own : ndarray of int, shape (2, U)
        Leaf of each target, and its place among the tree's donors.
    guess : tuple of ndarrays, shape (G, U)
        Leaf and value.
    simulation : Simulation

    Returns
    -------
    log_p : ndarray, shape (G, U)
    deviations : ndarray, shape (B, G, U)
        Relative deviation of each batch of particles.
    ess : ndarray, shape (U,)
        Least effective number of particles over the nodes that show something of the target.

    Notes
    -----
    For each target and guess, in every node on the way of either that shows R values of N records:
    N R kernels, and R^2 / 2 steps for each of the particles.
    """
    G, U = guess[0].shape
    log_p, ess = np.empty((G, U)), np.full(U, np.inf)
    deviations = np.zeros((simulation.batches, G, U))
    _gains(
        (tree.parent, tree.begin, tree.end),
        (shown.begin, shown.z, shown.y, shown.whole),
        kind == PLAIN,
        (np.uint64(simulation.seed), simulation.batches, simulation.particles),
        own,
        guess,
        (log_p, deviations, ess),
    )
    return log_p, deviations, ess


def log_p_smoothed(
    tree: Tree, shown: Released, kind: int, simulation: Simulation
) -> tuple[float, Array]:
    """log p(Z | y) of all nodes of a tree, and the deviations of its batches (B,)."""
    total, deviations = 0.0, np.zeros(simulation.batches)
    for node in np.flatnonzero(np.diff(shown.begin)).tolist():
        held = shown.y[tree.begin[node] : tree.end[node]]
        values = shown.z[shown.begin[node] : shown.begin[node + 1]]
        batch = np.empty(simulation.batches)
        of_node(
            held,
            values,
            (shown.whole, kind == PLAIN, False),
            (np.uint64(simulation.seed), simulation.batches, simulation.particles),
            node,
            batch,
        )
        top = batch.max()
        if top == -np.inf:
            return -np.inf, np.zeros(simulation.batches)
        mean = np.exp(batch - top).mean()
        total += top + np.log(mean)
        deviations += np.exp(batch - top) / mean - 1.0
    return total, deviations


@numba.njit(cache=True, nogil=True)
def _gains(tree, shown, plain, simulation, own, guess, out):
    """Every target and guess: nodes above the guess's leaf, then others above the target's."""
    parent, begin, end = tree
    leaf, value = guess
    log_p, deviations, ess = out
    as_is = np.empty((len(parent), simulation[1]))  # with the target last, where it is there
    stamp = np.full(len(parent), -2)
    for u in range(own.shape[1]):
        place = own[1, u]
        for g in range(leaf.shape[0]):
            like = _met(leaf, value, g, u)
            if like < g:
                log_p[g, u], deviations[:, g, u] = log_p[like, u], deviations[:, like, u]
                continue
            log_p[g, u] = 0.0
            first = begin[leaf[g, u]]
            for way in range(2):
                node = leaf[g, u] if way == 0 else own[0, u]
                while node >= 0:
                    through = begin[node] <= first and first < end[node]
                    if shown[0][node + 1] > shown[0][node] and (way == 0 or not through):
                        inside = begin[node] <= place and place < end[node]
                        mine = place - begin[node] if inside else -1
                        case = (node, begin[node], end[node], mine)
                        if stamp[node] != (u if inside else -1):
                            stamp[node] = u if inside else -1
                            size = _as_is(shown, plain, simulation, case, as_is[node])
                            if inside:
                                ess[u] = min(ess[u], size)
                        log_p[g, u] += _change(
                            shown,
                            plain,
                            simulation,
                            case,
                            (way == 0, value[g, u]),
                            as_is[node],
                            deviations[:, g, u],
                        )
                    node = parent[node]


@numba.njit(cache=True, nogil=True)
def _met(leaf, value, g, u):
    """First guess with the same leaf and value: itself, or one that is done."""
    for like in range(g):
        if leaf[like, u] == leaf[g, u] and value[like, u] == value[g, u]:
            return like
    return g


@numba.njit(cache=True, nogil=True)
def _as_is(shown, plain, simulation, case, out):
    """log p of what a node shows, given its records as they are; returns effective particles."""
    first, z, y, whole = shown
    node, begin, end, mine = case
    held = y[begin:end].copy()
    if mine >= 0:
        held[mine:-1] = y[begin + mine + 1 : end]
        held[-1] = y[begin + mine]
    return of_node(
        held, z[first[node] : first[node + 1]], (whole, plain, False), simulation, node, out
    )


@numba.njit(cache=True, nogil=True)
def _change(shown, plain, simulation, case, guess, before, deviations):
    """Change of log p when the target goes, comes, or is given another value."""
    first, z, y, whole = shown
    node, begin, end, mine = case
    through, value = guess
    others = y[begin:end].copy() if mine < 0 else np.delete(y[begin:end], mine)
    held = np.append(others, value) if through else others
    genuine = y[begin:end]
    atom = not whole and genuine.min() == genuine.max()
    after = np.empty(len(before))
    how = (whole, plain, atom)
    of_node(held, z[first[node] : first[node + 1]], how, simulation, node, after)
    if after.max() == -np.inf:
        return -np.inf
    return mean_of(after, deviations, 1.0) - mean_of(before, deviations, -1.0)
