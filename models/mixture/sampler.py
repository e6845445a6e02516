"""Chains of a mixture: what is sampled, from where, and what is kept.

The same sweep serves PyMC (one call a draw, `pymc_model.py`) and the many fits of an audit, which
run here without PyMC's bookkeeping: two chains of a fit are two threads outside the interpreter
lock.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.parallel import Ticks, in_order

from .gibbs import run
from .state import (
    Draws,
    Prior,
    State,
    Units,
    joined,
    n_normalised,
    sampled,
)

Progress = Callable[[str, int, int], None]

CHUNK = 20
LOG_NOBODY = -36.0  # log(1 - V) of a class that has nearly all that is left


def initial_state(prior: Prior, units: Units, rng: np.random.Generator) -> State:
    """A start: everybody in one class, or classes scattered over the table.

    Where classes are split and merged (not with structural zeros) everybody is together and all
    classes are alike, with the parameters of the whole table: from there chains soon agree, while
    many classes are slow to merge (docs/mixtures.md). Elsewhere every class has the numbers of some
    record and half its levels, records far apart likelier (k-means++): the few large ones, which no
    class of small ones can hold, have classes to begin with.
    """
    K, m = prior.n_classes, units.multiplicity
    whole = _number_parameters(prior, units, np.zeros(len(m), np.int64), m)
    phi = np.ones((prior.width, K))
    phi[: len(whole)] = whole
    if prior.splits > 0 and prior.zeros is None:
        scatter_levels(phi, prior, units, np.empty((K, 0), np.int64))
        return start_together(phi)
    own = _number_parameters(prior, units, np.arange(len(m)), np.ones(len(m)))
    precision = slice(2 * prior.n_counts + prior.n_reals, len(whole))
    own[precision] = whole[precision]
    seeds = _far_apart(prior, units, own, rng)
    phi[: len(whole)] = own[:, seeds]
    scatter_levels(phi, prior, units, units.positions[seeds])
    return start_at(phi)


def _number_parameters(prior: Prior, units: Units, group: Ints, m: npt.NDArray[Any]) -> Array:
    """Means of rates, structural zeros and precisions given groups of units; means of reals."""
    p, r, n_groups = prior.n_counts, prior.n_reals, int(group.max()) + 1
    _, counts, exposure, reals = units.data
    out = np.zeros((2 * p + 2 * r, n_groups))

    def sums(x: Array, j: int, n_columns: int) -> Array:
        """Of the values of column j, however many a unit has."""
        x = m * x[:, j::n_columns].sum(axis=1)
        return np.bincount(group, weights=x, minlength=n_groups).astype(np.float64)

    for j in range(p):
        out[j] = (prior.shape[j] + sums(counts, j, p)) / (prior.rate[j] + sums(exposure, j, p))
        out[p + j] = prior.inflation[0] / sum(prior.inflation) if prior.inflation else 0.0
    seen, x = np.isfinite(reals).astype(float), np.nan_to_num(reals)
    for j, (mean, _, a, b) in enumerate(prior.reals):
        n, total = sums(seen, j, r), sums(x, j, r)
        centre = np.where(n > 0, total / np.maximum(n, 1.0), mean)
        left = np.maximum(sums(x * x, j, r) - n * centre**2, 0.0)
        out[2 * p + j], out[2 * p + r + j] = centre, (a + n / 2) / (b + left / 2)
    return out


def _far_apart(prior: Prior, units: Units, own: Array, rng: np.random.Generator) -> Ints:
    """Unit of each class's seed, shape (K,); ``own`` parameters of numbers (.., U)."""
    p, r, m = prior.n_counts, prior.n_reals, units.multiplicity
    _, counts, exposure, reals = units.data
    seeds = np.empty(prior.n_classes, np.int64)
    chances = m / m.sum()
    nearest = np.full(len(m), np.inf)
    for k in range(prior.n_classes):
        seeds[k] = rng.choice(len(m), p=chances)
        phi, gaps = own[:, seeds[k]], np.zeros(len(m))
        for j in range(counts.shape[1]):
            x, mean = counts[:, j], exposure[:, j] * phi[j % p]
            ratio = np.where(x > 0, x, 1.0) / np.where(mean > 0, mean, 1.0)
            gaps += np.where(x > 0, x * np.log(ratio), 0.0) - x + mean
        for j in range(reals.shape[1]):
            square = (reals[:, j] - phi[2 * p + j % r]) ** 2
            gaps += np.nan_to_num(0.5 * phi[2 * p + r + j % r] * square)
        nearest = np.minimum(nearest, np.maximum(gaps, 0.0))
        weights = m * (nearest + 1e-3)  # where all are near: anyone
        chances = weights / weights.sum()
    return seeds


def scatter_levels(
    phi: Array,
    prior: Prior,
    units: Units,
    seeds: npt.NDArray[np.integer],
) -> None:
    """Fill phi's levels: half those of each class's seed (K, w), half those of everybody."""
    a, given = prior.level, units.positions.ravel() >= 0
    counts = np.bincount(
        units.positions.ravel()[given],
        weights=np.repeat(units.multiplicity, units.positions.shape[1])[given],
        minlength=prior.width,
    )
    for begin, end in zip(prior.starts[:-1], prior.starts[1:], strict=True):
        marginal = (counts[begin:end] + a) / (counts[begin:end] + a).sum()
        here = (seeds[:, :, None] == np.arange(begin, end)).any(axis=1)  # shape (K, d_j)
        mixed = marginal + here
        phi[begin:end] = (mixed / mixed.sum(axis=1, keepdims=True)).T


def start_at(phi: Array) -> State:
    """Classes of equal weight with these level probabilities or rates."""
    K = phi.shape[1]
    log_left = np.log1p(-1.0 / np.arange(K, 1, -1))
    return State(alpha=1.0, log_left=log_left, pi=np.full(K, 1.0 / K), phi=phi)


def start_together(phi: Array) -> State:
    """Nearly all weight on the first class."""
    K = phi.shape[1]
    log_left = np.full(K - 1, LOG_NOBODY)
    pi = np.exp(LOG_NOBODY * np.arange(K))
    pi[0] = 1.0 - pi[1:].sum()
    return State(alpha=1.0, log_left=log_left, pi=pi, phi=phi)


def run_chain(
    prior: Prior,
    units: Units,
    start: State,
    *,
    draws: int,
    tune: int,
    thin: int,
    rng: np.random.Generator,
    tick: Callable[[int], None] = lambda done: None,
) -> Draws:
    """One chain: `tune` sweeps thrown away, then `draws` draws kept, `thin` sweeps apart."""
    K, D = prior.n_classes, prior.width
    alpha = np.array([start.alpha])
    state = (alpha, start.log_left.copy(), start.pi.copy(), start.phi.copy())
    layout = prior.layout, n_normalised(units), prior.splits
    fixed = *sampled(units, prior), layout, np.array(prior.concentration), state
    run(rng, *fixed, tune, prior.swaps, _room(1, K, D), 0, int(tune > 0))
    out = _room(draws, K, D)
    for first in range(0, draws, CHUNK):  # in chunks, so that progress shows and Ctrl-C is heard
        last = min(first + CHUNK, draws)
        run(rng, *fixed, thin, prior.swaps, out, first, last)
        tick(last - first)
    return Draws(
        alpha=out[0], log_left=out[1], pi=out[2], phi=out[3], n_occupied=out[4], n_chains=1
    )


def run_chains(
    prior: Prior,
    units: Units,
    starts: Sequence[State],
    *,
    rng: np.random.Generator,
    n_jobs: int = 1,
    tick: Callable[[int], None] = lambda done: None,
    **how: Any,
) -> Draws:
    """Several chains, each with ``draws``, ``tune`` and ``thin`` as of `run_chain`."""
    return joined(chains_of(partial(run_chain, prior, units), starts, rng, n_jobs, tick, **how))


def chains_of(
    run_one: Callable[..., Any],
    starts: Sequence[Any],
    rng: np.random.Generator,
    n_jobs: int,
    tick: Callable[[int], None],
    *,
    draws: int,
    **how: Any,
) -> list[Any]:
    """What chains return, each with its own child generator, so `n_jobs` does not change them."""
    jobs = [
        partial(run_one, start, draws=draws, rng=child, **how)
        for start, child in zip(starts, rng.spawn(len(starts)), strict=True)
    ]
    return list(in_order(jobs, n_jobs=n_jobs, what="chains", ticks=Ticks(tick, draws)))


def doubled(
    prior: Prior, units: Units, old: Draws, *, thin: int, rng: np.random.Generator, n_jobs: int
) -> Draws:
    """Twice the sweeps in the same memory: every other old draw, then new ones twice apart."""
    size, C = len(old) // old.n_chains, old.n_chains
    how: Any = {"draws": size - size // 2, "tune": 0, "thin": 2 * thin, "n_jobs": n_jobs}
    new = run_chains(prior, units, [old.last(c) for c in range(C)], rng=rng, **how)
    halves = [c.take(np.arange(1, size, 2), 1) for c in old.chains()]
    merged = zip(halves, new.chains(), strict=True)
    return joined([replace(joined(pair), n_chains=1) for pair in merged])


def _room(draws: int, K: int, D: int) -> tuple[Array, Array, Array, Array, Ints]:
    return (
        np.empty(draws),
        np.empty((draws, K - 1)),
        np.empty((draws, K)),
        np.empty((draws, D, K)),
        np.empty(draws, np.int64),
    )
