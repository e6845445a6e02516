"""Chains of a mixture of any families and options: one loop for all, its starts, what is kept.

Order of classes, sticks and concentration are those of `sweep.py`; what the families say stands in
`families.py`, the step for columns that a release keeps in `kept_columns.py`, that for structural
zeros in `zeros.py`, moves of whole classes in `split_merge.py`. Labels drawn anew for kept draws
give sums by class instead of parameters.

The same sweep serves PyMC (one call a draw, `pymc_model.py`) and the many fits of an audit, which
run here without PyMC's bookkeeping: two chains of a fit are two threads outside the interpreter
lock.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.parallel import Ticks, in_order

from .families import draw_labels, draw_parameters
from .kept_columns import part_masses, update_given
from .kernel_arguments import (
    ChainPoint,
    ClassSums,
    CollapsedDraws,
    DrawArrays,
    Labels,
    LabelSums,
    SweepLayout,
)
from .split_merge import individuals, split_merge
from .state import DRAWN, Draws, Prior, Units, joined_chains, n_normalised, sampled
from .sweep import TINY, class_weights, draw_alpha, draw_sticks, swap_neighbours
from .zeros import fall, fall_given

CHUNK = 20
LOG_NOBODY = -36.0  # log(1 - V) of a class that has nearly all that is left


@numba.njit(cache=True, nogil=True, error_model="numpy")
def sums_of(rng, units, given, zero, layout, N, pi, phi, sums, sums_z, label, flags):
    """Labels anew, then sums: of records, and of synthetic rows drawn given others (sums_z).

    Returns how many fell into structural zeros, what divides each part, and part_masses.
    """
    n, M, size = sums.n, sums.M, np.empty(0, np.int64)
    draw_labels(rng, units, pi, phi, layout, n, M, label, flags, size)
    fallen, c, g = 0, np.empty(0, np.int64), np.empty((0, 0))
    if zero is not None:
        fallen = fall(rng, N, zero, pi, phi, n, M)
    if given is not None:
        rows, c, no_flags = given.rows, given.divides, np.zeros((0, 0), np.bool_)
        other = np.empty(rows.multiplicity.shape[0], np.int16)
        draw_labels(rng, rows, pi, phi, layout, sums_z.n, sums_z.M, other, no_flags, size)
        g = part_masses(given.parts, phi, layout)
        if zero is not None:
            us, us_columns = given.levels, given.columns
            c = fall_given(rng, zero, us, us_columns, c, pi, phi, g, sums_z.n, sums_z.M)
    return fallen, c, g


@numba.njit(cache=True, nogil=True, error_model="numpy")
def sample_draws(rng, units, given, zero, layout, prior, state, thin, swaps, out, first, last):
    """Draws first .. last - 1 of one chain, `thin` sweeps each; arrays of `state` are updated.

    Nothing is split or merged where rows are drawn ``given`` others, whose divisors the moves do
    not know, nor with boxes of ``zero``, whose records have classes but no labels.
    """
    families, N, splits = layout.families, layout.n_normalised, layout.splits
    alpha, log_left, pi, phi = state.alpha, state.log_left, state.pi, state.phi
    K, extra = pi.shape[0], 2 * families.shape.shape[0] + families.reals.shape[0]
    n, M = np.zeros(K), np.zeros((phi.shape[0] + extra, K))
    sums, sums_z = LabelSums(n, M), LabelSums(np.zeros(K), np.zeros(M.shape))
    label, flags = np.zeros(units.multiplicity.shape[0], np.int16), np.zeros((0, 0), np.bool_)
    if given is not None or zero is not None:
        splits = 0
    rows, z, sides = individuals(units, families, splits > 0)
    classes, tally = ClassSums(n, np.zeros(K, np.int64), M), np.zeros((2, 2), np.int64)
    for h in range(first, last):
        for _ in range(thin):
            if splits > 0:
                draw_labels(rng, units, pi, phi, families, n, M, z, rows.flags, classes.size)
                split_merge(rng, splits, rows, families, alpha[0], classes, z, sides, tally)
            else:
                _, c, g = sums_of(
                    rng, units, given, zero, families, N, pi, phi, sums, sums_z, label, flags
                )
                if given is not None:
                    if c.shape[0] > 0:
                        alpha[0] = update_given(
                            rng, given.parts, given, c, families, prior, alpha[0],
                            log_left, pi, phi, sums, sums_z, g,
                        )  # fmt: skip
                        continue
            if swaps:
                swap_neighbours(rng, alpha[0], n, M)
            log_rest = draw_sticks(rng, n, alpha[0], log_left, pi)
            draw_parameters(rng, M, families, phi)
            alpha[0] = draw_alpha(rng, K - 1, log_rest, prior)
        out.alpha[h], out.n_occupied[h] = alpha[0], (n > 0).sum()
        for k in range(K):  # number by number: arrays put into arrays compile for seconds
            out.pi[h, k] = pi[k]
            for row in range(phi.shape[0]):
                out.phi[h, row, k] = phi[row, k]
        for k in range(K - 1):
            out.log_left[h, k] = log_left[k]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def collapse_draws(rng, units, given, zero, layout, all_pi, all_phi, wanted, out):
    """Labels anew for each draw; fills n, M, label and structural zeros of wanted units."""
    U, (_, rows, K) = units.multiplicity.shape[0], out.M.shape
    sums_z = LabelSums(np.zeros(K), np.zeros((rows, K)))
    label, flags = np.zeros(U, np.int16), np.zeros((U, out.flags.shape[2]), np.bool_)
    for h in range(all_pi.shape[0]):
        out.fallen[h] = sums_of(
            rng, units, given, zero, layout.families, layout.n_normalised, all_pi[h], all_phi[h],
            LabelSums(out.n[h], out.M[h]), sums_z, label, flags,
        )[0]  # fmt: skip
        if given is not None:
            for row in range(rows):
                for k in range(K):
                    out.M[h, row, k] += sums_z.M[row, k]
        for i in range(wanted.shape[0]):
            out.label[h, i] = label[wanted[i]]
            for c in range(flags.shape[1]):
                out.flags[h, i, c] = flags[wanted[i], c]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_weights(n, alpha, pi, integrated, order, out):
    """out[h, s, t]: weight of class order[h, t], one of class s taken out; of nobody at s = S."""
    (H, K), S = n.shape, order.shape[1]
    weights = np.empty(K)
    for h in range(H):
        for s in range(S + 1):
            if integrated:
                class_weights(n[h], alpha[h], order[h, s] if s < S else K, weights)
            rest = 0.0
            for k in range(K if integrated else 0):
                if n[h, k] == 0.0:
                    rest += weights[k]
            for t in range(S):
                k = order[h, t]
                out[h, s, t] = max(weights[k], TINY) if integrated else pi[h, k]
                if integrated and n[h, k] == 0.0:
                    out[h, s, t], rest = max(rest, 0.0), 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sums:
    """What the predictives need of each draw."""

    draws: Draws
    n: Array  # (H, K): weights of classes
    M: Array  # (H, D + 2 p + r, K): sums, as in `families.py`
    fixed: Flags  # (V,): variables kept at their drawn parameters
    integrated: bool  # whether the weights of classes are integrated out
    fallen: Ints  # (H,): records that fell into the structural zeros
    # (H, S): classes that M and phi have, where these are only the `occupied` ones
    order: Ints | None = None

    @classmethod
    def at_theta(cls, draws: Draws, prior: Prior) -> "Sums":
        """Nothing integrated out."""
        H, K = draws.pi.shape
        return cls(
            draws=draws,
            n=np.zeros((H, K)),
            M=np.zeros((H, prior.n_sums, K)),
            fixed=np.ones(prior.n_numbers + len(prior.starts) - 1, dtype=bool),
            integrated=False,
            fallen=np.zeros(H, np.int64),
        )


def occupied(sums: Sums, label: Labels) -> tuple[Sums, Labels, Array]:
    """Sums of the classes of each draw with people, one more for the others; labels; weights."""
    (H, K), S = sums.n.shape, sums.n.shape[1]
    order = np.broadcast_to(np.arange(K), (H, K))
    if sums.integrated:
        S = min(int((sums.n > 0).sum(axis=1).max()) + 1, K)
        order = np.argsort(sums.n == 0, axis=1, kind="stable")
        place = np.full((H, K + 1), S, np.int16)
        np.put_along_axis(place, order, np.arange(K, dtype=np.int16)[None], axis=1)
        label = np.take_along_axis(place, label.astype(np.int64), axis=1)
        some = order[:, None, :S]
        M, phi = (np.take_along_axis(x, some, axis=2) for x in (sums.M, sums.draws.phi))
        sums = replace(sums, M=M, draws=replace(sums.draws, phi=phi))
    order, draws = order[:, :S].copy(), sums.draws  # writeable: compiled once
    weights = np.empty((H, S + 1, S))
    fill_weights(sums.n, draws.alpha, draws.pi, sums.integrated, order, weights)
    return replace(sums, order=order), label, weights


def collapse(
    prior: Prior, units: Units, draws: Draws, fixed: Flags, wanted: Ints, *, rng: Rng
) -> tuple[Sums, Labels, Flags]:
    """Labels anew for each draw, then sums by class instead of parameters.

    Labels (H, U) and structural zeros (H, U, 2 p) are kept of the ``wanted`` units (U,) alone; -1:
    of nobody, class K. Cost: one sweep a draw.
    """
    (H, K), p = draws.pi.shape, prior.n_counts
    kept, place = np.unique(wanted[wanted >= 0], return_inverse=True)
    n, M = np.empty((H, K)), np.empty((H, prior.n_sums, K))
    c = 0 if prior.inflation is None else units.data.counts.shape[1]
    label, flags = np.empty((H, len(kept)), np.int16), np.zeros((H, len(kept), c), np.bool_)
    fallen = np.zeros(H, np.int64)
    collapse_draws(
        rng,
        *sampled(units, prior),
        SweepLayout(prior.layout, n_normalised(units), 0),
        draws.pi,
        draws.phi,
        kept,
        CollapsedDraws(n, M, label, flags, fallen),
    )
    labels = np.full((H, len(wanted)), K, np.int16)
    labels[:, wanted >= 0] = label[:, place]
    drawn = np.zeros((H, len(wanted), 2 * p), np.bool_)
    drawn[:, wanted >= 0, :c] = flags[:, place]
    sums = Sums(draws=draws, n=n, M=M, fixed=fixed, integrated=not fixed.any(), fallen=fallen)
    return sums, labels, drawn


def at_means(sums: Sums, prior: Prior) -> Draws:
    """The draws, their parameters replaced by means given the labels; concentrations stay."""
    draws, M, D = sums.draws, sums.M, sums.draws.phi.shape[1]
    p, r, phi = prior.n_counts, prior.n_reals, sums.draws.phi.copy()
    n, zero = M[:, D + 2 * p :], M[:, p : 2 * p]
    phi[:, :p] = (prior.shape[:, None] + M[:, :p]) / (prior.rate[:, None] + M[:, D : D + p])
    if prior.inflation is not None:
        a, b = prior.inflation
        phi[:, p : 2 * p] = (a + zero) / (a + b + zero + M[:, D + p : D + 2 * p])
    if r:
        mean, kappa, a, b = prior.reals.T[:, :, None]
        total, squares = M[:, 2 * p : 2 * p + r], M[:, 2 * p + r : 2 * p + 2 * r]
        centre = (kappa * mean + total) / (kappa + n)
        left = squares + kappa * mean**2 - (kappa + n) * centre**2
        phi[:, 2 * p : 2 * p + r] = centre
        phi[:, 2 * p + r : 2 * p + 2 * r] = (a + n / 2) / (b + np.maximum(left, 0.0) / 2)
    for begin, end in itertools.pairwise(prior.starts):
        some = M[:, begin:end] + prior.level
        phi[:, begin:end] = some / some.sum(axis=1, keepdims=True)
    return replace(draws, pi=stick_breaking(sums.n, draws.alpha), phi=phi)


def stick_breaking(n: Array, alpha: Array) -> Array:
    """E[pi | labels] of classes with n (H, K) records: prod_{l<k} E[1 - V_l] times E[V_k]."""
    after = n.sum(axis=1, keepdims=True) - n.cumsum(axis=1)
    total = 1.0 + alpha[:, None] + n + after
    weights: Array = (1.0 + n) / total
    weights[:, -1] = 1.0
    weights[:, 1:] *= ((alpha[:, None] + after) / total)[:, :-1].cumprod(axis=1)
    return weights


def initial_state(prior: Prior, units: Units, rng: Rng) -> Draws:
    """A start: everybody in one class, or classes scattered over the table.

    Where classes are split and merged everybody is together: chains soon agree, while many classes
    are slow to merge (docs/mixtures.md). Elsewhere every class has the numbers of some record and
    half its levels, records far apart likelier (k-means++).
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
    scatter_levels(phi, prior, units, units.data.positions[seeds])
    return start_at(phi)


def _number_parameters(prior: Prior, units: Units, group: Ints, m: npt.NDArray[Any]) -> Array:
    """Means of rates, structural zeros and precisions given groups of units; means of reals."""
    p, r, n_groups = prior.n_counts, prior.n_reals, int(group.max()) + 1
    counts, exposure, reals = units.data.counts, units.data.exposure, units.data.reals
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


def _far_apart(prior: Prior, units: Units, own: Array, rng: Rng) -> Ints:
    """Unit of each class's seed, shape (K,); ``own`` parameters of numbers (.., U)."""
    p, r, m = prior.n_counts, prior.n_reals, units.multiplicity
    counts, exposure, reals = units.data.counts, units.data.exposure, units.data.reals
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


def scatter_levels(phi: Array, prior: Prior, units: Units, seeds: npt.NDArray[np.integer]) -> None:
    """Fill phi's levels: half those of each class's seed (K, w), half those of everybody."""
    a, positions = prior.level, units.data.positions
    times = np.repeat(units.multiplicity, positions.shape[1])
    counts = np.bincount(positions.ravel(), weights=times, minlength=prior.width)
    for begin, end in zip(prior.starts[:-1], prior.starts[1:], strict=True):
        marginal = (counts[begin:end] + a) / (counts[begin:end] + a).sum()
        here = (seeds[:, :, None] == np.arange(begin, end)).any(axis=1)  # shape (K, d_j)
        mixed = marginal + here
        phi[begin:end] = (mixed / mixed.sum(axis=1, keepdims=True)).T


def start_at(phi: Array) -> Draws:
    """Classes of equal weight with these level probabilities or rates."""
    K = phi.shape[1]
    log_left = np.log1p(-1.0 / np.arange(K, 1, -1))
    return Draws.point(1.0, log_left, np.full(K, 1.0 / K), phi)


def start_together(phi: Array) -> Draws:
    """Nearly all weight on the first class."""
    K = phi.shape[1]
    log_left = np.full(K - 1, LOG_NOBODY)
    pi = np.exp(LOG_NOBODY * np.arange(K))
    pi[0] = 1.0 - pi[1:].sum()
    return Draws.point(1.0, log_left, pi, phi)


def run_chain(
    prior: Prior,
    units: Units,
    start: Draws,
    *,
    draws: int,
    tune: int,
    thin: int,
    rng: Rng,
    tick: Callable[[int], None] = lambda done: None,
) -> Draws:
    """One chain: `tune` sweeps thrown away, then `draws` draws kept, `thin` sweeps apart."""
    K, D = prior.n_classes, prior.width
    of_chain = (getattr(start, name)[0].copy() for name in DRAWN[1:-1])
    state = ChainPoint(start.alpha[:1].copy(), *of_chain)
    layout = SweepLayout(prior.layout, n_normalised(units), prior.splits)
    fixed = *sampled(units, prior), layout, np.array(prior.concentration), state
    sample_draws(rng, *fixed, tune, prior.swaps, _empty_draws(1, K, D), 0, int(tune > 0))
    out = _empty_draws(draws, K, D)
    for first in range(0, draws, CHUNK):  # in chunks, so that progress shows and Ctrl-C is heard
        last = min(first + CHUNK, draws)
        sample_draws(rng, *fixed, thin, prior.swaps, out, first, last)
        tick(last - first)
    return Draws(**out._asdict(), n_chains=1)


def run_chains(prior: Prior, units: Units, starts: Sequence[Draws], **how: Any) -> Draws:
    """Several chains; see `run_chain` and `chains_of`."""
    return joined_chains(chains_of(partial(run_chain, prior, units), starts, **how))


def chains_of(
    run_one: Callable[..., Any],
    starts: Sequence[Any],
    *,
    draws: int,
    rng: Rng,
    n_jobs: int = 1,
    tick: Callable[[int], None] = lambda done: None,
    **how: Any,
) -> list[Any]:
    """What chains return, each with its own child generator, so `n_jobs` does not change them."""
    jobs = [
        partial(run_one, start, draws=draws, rng=child, **how)
        for start, child in zip(starts, rng.spawn(len(starts)), strict=True)
    ]
    return list(in_order(jobs, n_jobs=n_jobs, what="chains", ticks=Ticks(tick, draws)))


def _empty_draws(draws: int, K: int, D: int) -> DrawArrays:
    return DrawArrays(
        np.empty(draws),
        np.empty((draws, K - 1)),
        np.empty((draws, K)),
        np.empty((draws, D, K)),
        np.empty(draws, np.int64),
    )
