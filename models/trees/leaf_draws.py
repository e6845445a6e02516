"""Draws from the leaves of trees: donors by the bootstrap, and kernels around their values."""

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from .kernel_nodes import bandwidth
from .leaf_evidence import PLAIN
from .tree import Tree

Array = npt.NDArray[np.float64]
Shares = dict[int, Array]  # of the records of a node, summed up


def draw_donors(
    tree: Tree,
    nodes: npt.NDArray[np.int64],
    kind: int,
    rng: np.random.Generator,
    weights: Array | None = None,
    shares: Shares | None = None,
) -> npt.NDArray[np.int64]:
    """A record of its node for each row (R,), whose value it is given.

    Bayesian bootstrap: the records of a node have weights Dirichlet(1, ..., 1), the same for all
    rows that draw from it; with record ``weights`` (n,) Dirichlet(alpha_1, alpha_2, ...). They are
    put into ``shares``, and taken from there if they were drawn before. Plain draws: all records
    alike, or in proportion to their weights.
    """
    out = np.empty(len(nodes), dtype=np.int64)
    order = np.argsort(nodes, kind="stable")
    used, first = np.unique(nodes[order], return_index=True)
    for node, rows in zip(used.tolist(), np.split(order, first[1:]), strict=True):
        held = tree.donors[tree.begin[node] : tree.end[node]]
        if kind == PLAIN and weights is None:
            out[rows] = held[rng.integers(len(held), size=len(rows))]
            continue
        if shares is not None and node in shares:
            edges = shares[node]
        elif weights is None:
            edges = np.cumsum(rng.standard_exponential(len(held)))
        elif kind == PLAIN:
            edges = np.cumsum(weights[held])
        else:
            edges = np.cumsum(_gammas(weights[held], rng))
        if shares is not None:
            shares[node] = edges
        out[rows] = held[np.searchsorted(edges, rng.random(len(rows)) * edges[-1])]
    return out


def _gammas(shape: Array, rng: np.random.Generator) -> Array:
    """Gamma draws up to a common factor, the largest 1, for shapes that may be tiny.

    ``Gamma(a) = Gamma(a + 1) U^(1/a)``, in logs: with small shapes all draws may underflow.
    """
    log_g = np.log(rng.standard_gamma(shape + 1.0)) + np.log1p(-rng.random(len(shape))) / shape
    scaled: Array = np.exp(log_g - log_g.max())
    return scaled


def smooth(
    tree: Tree,
    y: Array,
    nodes: npt.NDArray[np.int64],
    values: Array,
    rng: np.random.Generator,
) -> Array:
    """Draws from Gaussian kernels around values (R,), cut off at the range of each row's node.

    Inverse-cdf draws; the bandwidth is Silverman's for the node's genuine values ``y``. Nodes
    whose values are all equal keep them.
    """
    out = values.astype(float)
    for node in np.unique(nodes).tolist():
        held = y[tree.donors[tree.begin[node] : tree.end[node]]]
        rows = np.flatnonzero(nodes == node)
        low, high = float(held.min()), float(held.max())
        if low == high:
            continue
        h = bandwidth(held)
        edges = ndtr((low - out[rows]) / h), ndtr((high - out[rows]) / h)
        drawn = out[rows] + h * ndtri(rng.uniform(*edges))
        out[rows] = np.clip(drawn, low, high)
    return out
