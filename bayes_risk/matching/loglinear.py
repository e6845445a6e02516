"""Log-linear models of a contingency table: fitted by proportional fitting, or drawn by NUTS.

Letters: ``q`` keys with ``d_a`` levels, ``U`` observed cells with counts ``N``, ``C`` cells that
can be populated, ``mu`` fitted counts, ``K`` effects, ``P`` pairs of keys; ``X`` (C, K) gives ``log
mu = X theta``. The full cross-classification is never written out: where a fitted margin is 0, so
is the fit. PyMC is imported only when draws are asked for. Mathematics: ``docs/population.md``.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import prod
from typing import Any

import numpy as np
from scipy.linalg import helmert

from bayes_risk._compat import group
from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk.evidence.diagnostics import ess_and_rhat

Terms = tuple[tuple[int, ...], ...]
MAX_CELLS = 2_000_000
MAX_CYCLES = 1_000
TOLERANCE = 1e-6  # records: no margin is missed by more
ACCEPTED = 0.5  # records: after MAX_CYCLES
BLOCK = 1_024


def margins_of(q: int, interactions: int) -> Terms:
    """Margins that the model fits: single keys, or all pairs."""
    return tuple(combinations(range(q), min(interactions, q)))


def fit_loglinear(
    codes: Ints, count: Array, n_levels: Sequence[int]
) -> tuple[Ints, Array, dict[str, float]]:
    """Cells (C, q) that can be populated, counts of all pairs fitted to them, how the fit ended."""
    terms = margins_of(codes.shape[1], 2)
    observed = [_margin(codes, count, term, n_levels) for term in terms]
    cells = support(codes, n_levels, terms, limit=MAX_CELLS)
    margins = [
        (_places(cells, term, margin.shape), margin.ravel())
        for term, margin in zip(terms, observed, strict=True)
    ]
    mu = np.ones(len(cells))
    gap, cycle = np.inf, 0
    while gap > TOLERANCE and cycle < MAX_CYCLES:
        gap, cycle = 0.0, cycle + 1
        for where, target in margins:
            fitted = np.bincount(where, mu, len(target))
            gap = max(gap, float(np.abs(fitted - target).max()))
            mu *= (target / np.where(fitted > 0, fitted, 1.0))[where]
    if gap > ACCEPTED:
        raise ModelError(
            f"the log-linear model has not converged: after {cycle:,} cycles a fitted margin "
            f"misses the observed one by {gap:.3g} records; give coarser keys, or `interactions=1`"
        )
    return cells, mu, {"cells": float(len(cells)), "cycles": float(cycle), "gap": gap}


def independent_mean(n: float, shares: Sequence[Array], codes: Ints) -> Array:
    """``n`` times the product of the keys' shares, of cells (U, q); 0 where a code is negative."""
    mu = np.full(len(codes), n)
    for a, share in enumerate(shares):
        mu *= np.where(codes[:, a] < 0, 0.0, share[codes[:, a]])
    return mu


def support(codes: Ints, n_levels: Sequence[int], terms: Terms, *, limit: int) -> Ints:
    """Cells all of whose fitted margins are positive, shape (C, q), in no particular order.

    Key after key is added to blocks of partial cells; the block added last is taken up first, so no
    more than a few blocks wait, however large the cross-classification. ``limit``: largest number
    of cells, or of partial cells.
    """
    q = codes.shape[1]
    positive = {
        term: _margin(codes, np.ones(len(codes)), term, n_levels) > 0
        for term in {*terms, *margins_of(q, 1)}
    }
    waiting = [np.flatnonzero(positive[(0,)])[:, None]]
    seen, whole = np.zeros(q + 1, dtype=np.int64), []
    while waiting:
        block = waiting.pop()
        j = block.shape[1]
        seen[j] += len(block)
        if seen[j] > limit:
            levels = [int(positive[(a,)].sum()) for a in range(q)]
            raise InputError(
                f"more than {limit:,} of the {prod(levels):,} cells that {q} keys make "
                f"({' x '.join(map(str, levels))} levels) could be populated under this model; "
                "give fewer or coarser keys, or `interactions=1` without draws"
            )
        if j == q:
            whole.append(block)
            continue
        allowed = np.repeat(positive[(j,)][None], len(block), axis=0)
        for a in range(j):
            if (a, j) in positive:
                allowed &= positive[(a, j)][block[:, a]]
        row, level = np.nonzero(allowed)
        longer = np.column_stack([block[row], level])
        waiting += [longer[k : k + BLOCK] for k in range(0, len(longer), BLOCK)]
    return np.concatenate(whole)


def _margin(codes: Ints, count: Array, term: tuple[int, ...], n_levels: Sequence[int]) -> Array:
    shape = tuple(n_levels[a] for a in term)
    flat = np.bincount(_places(codes, term, shape), count, prod(shape)).reshape(shape)
    return flat.astype(np.float64, copy=False)


def _places(codes: Ints, term: tuple[int, ...], shape: tuple[int, ...]) -> Ints:
    return np.asarray(np.ravel_multi_index(tuple(codes[:, a] for a in term), shape))


CONSTANT_SCALE, MAIN_SCALE = 5.0, 2.0
PAIR_CENTRE, PAIR_SPREAD = float(np.log(0.5)), 0.7  # of the log scale of a pair's interactions
ROUNDS = 30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Effects:
    """The constant, then the main effects of each key, then the interactions of each pair."""

    cells: Ints  # level codes (C, q); every level occurs
    terms: Terms  # blocks of effects: keys (a,) and pairs (a, b)
    # orthonormal contrasts of each key, (d_a, d_a - 1), Helmert's: independent normal coordinates
    # make effects that are normal, sum to 0, and treat all levels alike
    basis: tuple[Array, ...]
    shapes: list[tuple[int, ...]]  # of each block of effects
    blocks: list[slice]  # where each stands in theta
    pair_of: Ints  # (K,): number of the pair of each effect; -1: the constant and main effects
    n_pairs: int

    @classmethod
    def from_cells(cls, cells: Ints, pairs: Sequence[tuple[int, ...]]) -> "Effects":
        """Lay out the effects of keys, and of the pairs given."""
        columns = [np.unique(column, return_inverse=True) for column in cells.T]
        basis = tuple(helmert(len(levels)).T for levels, _ in columns)
        every = [(a,) for a in range(len(basis))] + list(pairs)
        terms = tuple(t for t in every if all(basis[a].shape[1] for a in t))
        shapes = [tuple(basis[a].shape[1] for a in term) for term in terms]
        sizes = [prod(shape) for shape in shapes]
        is_pair = np.array([len(term) == 2 for term in terms], dtype=bool)
        ends = np.cumsum([1, *sizes]).tolist()  # the constant comes first
        pair_of = np.where(is_pair, np.cumsum(is_pair) - 1, -1)
        return cls(
            cells=np.column_stack([c for _, c in columns]),
            terms=terms,
            basis=basis,
            shapes=shapes,
            blocks=[slice(*block) for block in pairwise(ends)],
            pair_of=np.repeat([-1, *pair_of], [1, *sizes]),
            n_pairs=int(is_pair.sum()),
        )

    @property
    def n_effects(self) -> int:
        """Number K of effects."""
        return len(self.pair_of)

    @property
    def fixed_scale(self) -> Array:
        """Prior scale of the constant and main effects, 1 of interactions; shape (K,)."""
        scale = np.where(self.pair_of < 0, MAIN_SCALE, 1.0)
        scale[0] = CONSTANT_SCALE
        return scale

    def design(self) -> Array:
        """X, shape (C, K)."""
        columns = [np.ones((len(self.cells), 1))]
        for term in self.terms:
            block = columns[0]
            for a in term:
                part = self.basis[a][self.cells[:, a]]
                block = (block[:, :, None] * part[:, None, :]).reshape(len(part), -1)
            columns.append(block)
        return np.hstack(columns)


def posterior_mode(effects: Effects, count: Array, centre: float) -> tuple[Array, Array, Array]:
    """Mode of theta (K,), log scales of interactions (P,), and covariance of theta there."""
    X, pair = effects.design(), effects.pair_of
    prior_mean = np.where(np.arange(effects.n_effects) == 0, centre, 0.0)
    theta, log_scale = prior_mean.copy(), np.full(effects.n_pairs, PAIR_CENTRE)
    for _ in range(ROUNDS):
        scale = np.append(np.exp(log_scale), 1.0)[pair] * effects.fixed_scale
        theta, covariance = _newton(X, count, theta, prior_mean, scale**-2.0)
        moved = _log_scales(theta**2 + covariance.diagonal(), pair, log_scale)
        rest = np.abs(moved - log_scale).max(initial=0.0) < 0.01
        log_scale = moved
        if rest:
            break
    return theta, log_scale, covariance


def _newton(
    X: Array, count: Array, theta: Array, prior_mean: Array, precision: Array
) -> tuple[Array, Array]:
    """Mode of a concave log posterior by damped Newton steps, and its inverse curvature."""

    def height(at: Array) -> float:
        eta = X @ at
        with np.errstate(over="ignore"):
            return float(count @ eta - np.exp(eta).sum() - precision @ (at - prior_mean) ** 2 / 2)

    now = height(theta)
    for _ in range(100):
        mu = np.exp(X @ theta)
        curvature = (X * mu[:, None]).T @ X + np.diag(precision)
        step = np.linalg.solve(curvature, X.T @ (count - mu) - precision * (theta - prior_mean))
        length = 1.0
        while height(theta + length * step) < now and length > 1e-8:
            length /= 2
        gain = height(theta + length * step) - now
        theta, now = theta + length * step, now + gain
        if gain < 1e-6:
            break
    return theta, np.asarray(np.linalg.inv(curvature), dtype=np.float64)


def _log_scales(square: Array, pair: Ints, log_scale: Array) -> Array:
    """Maximise ``-k s - E2 exp(-2 s) / 2 - (s - m)^2 / (2 v)`` for each pair's log scale s."""
    found = log_scale.copy()
    for number in range(len(log_scale)):
        mine = square[pair == number]
        for _ in range(20):
            ratio = mine.sum() * np.exp(-2 * found[number])
            slope = ratio - len(mine) - (found[number] - PAIR_CENTRE) / PAIR_SPREAD**2
            found[number] += np.clip(slope / (2 * ratio + PAIR_SPREAD**-2), -0.5, 0.5)
    return found


CHAINS = 4
TUNE = 200  # finds the step size only: the mass matrix is known
MAX_DRAWN_CELLS = 100_000
MAX_SIZE = 50_000_000  # draws x cells, and effects x cells
AT_MOST = 200  # observed cells whose means are diagnosed


def posterior_means(
    cells: Ints, count: Ints, *, terms: Terms, draws: int, rng: np.random.Generator
) -> tuple[Array, dict[str, float]]:
    r"""Draws of mu_t (S, C), chain after chain, given the counts of all cells; and their quality.

    .. math:: N_t \sim \mathrm{Poisson}(\mu_t), \quad
              \log\mu_t = \alpha + \sum_a \beta^a_{t_a} + \sum_{a<b} \gamma^{ab}_{t_a t_b}

    with alpha ~ Normal(log(n/C), 5), beta ~ Normal(0, 2) and gamma ~ Normal(0, tau_ab), both
    summing to 0 over each key's levels, log tau_ab ~ Normal(log 0.5, 0.7). Draws: a multiple of 4.
    R-hat and ESS are of log mu over (up to 200) observed cells.
    """
    effects = Effects.from_cells(cells, [term for term in terms if len(term) == 2])
    K = effects.n_effects
    if max(draws, K) * len(cells) > MAX_SIZE:
        raise InputError(
            "draws",
            draws,
            f"of {K:,} effects on {len(cells):,} cells need more than {MAX_SIZE:,} numbers; give "
            "fewer draws, fewer or coarser keys, or `interactions=1`",
        )
    theta, diverged = _sampled(effects, count, draws, rng)
    eta = theta @ effects.design().T
    some = np.flatnonzero(count)
    some = some[np.linspace(0, len(some) - 1, min(AT_MOST, len(some))).astype(int)]
    ess, rhat = ess_and_rhat(eta[:, some], CHAINS)
    diagnostics = {
        "rhat": float(rhat.max()),
        "ess": float(ess.min()),
        "divergences": float(diverged),
        "chains": float(CHAINS),
        "cells": float(len(cells)),
    }
    return np.exp(eta), diagnostics


def _model(effects: Effects, count: Ints, centre: float) -> Any:
    """Declare the model in coordinates of the effects' contrasts."""
    import pymc as pm
    import pytensor.tensor as pt

    with pm.Model() as model:
        log_scale = pm.Normal("log_scale", PAIR_CENTRE, PAIR_SPREAD, shape=effects.n_pairs)
        own = pt.exp(pt.concatenate([log_scale, np.zeros(1)]))[effects.pair_of]
        mean = np.where(np.arange(effects.n_effects) == 0, centre, 0.0)
        theta = pm.Normal("theta", mean, own * effects.fixed_scale, shape=effects.n_effects)
        eta: Any = theta[0] + np.zeros(len(count))
        for term, where, shape in zip(effects.terms, effects.blocks, effects.shapes, strict=True):
            effect = theta[where].reshape(shape)
            for a in term:
                effect = pt.tensordot(effect, effects.basis[a], axes=[[0], [1]])
            eta += effect[tuple(effects.cells[:, a] for a in term)]
        pm.Poisson("N", mu=pm.math.exp(eta), observed=count)
    return model


def _sampled(
    effects: Effects, count: Ints, draws: int, rng: np.random.Generator
) -> tuple[Array, int]:
    """Draws of theta (S, K), chain after chain, and the number of divergences."""
    import pymc as pm
    from pymc.step_methods.hmc.quadpotential import QuadPotentialFull

    centre = float(np.log(count.sum() / len(count)))
    covariance, starts = _approximation(effects, count, centre, rng)
    with warnings.catch_warnings(), np.errstate(all="ignore"), _model(effects, count, centre):
        # PyTensor's linker warns, and while the step size is found there are overflows
        warnings.simplefilter("ignore")
        step = pm.NUTS(potential=QuadPotentialFull(covariance), target_accept=0.8)
        idata = pm.sample(
            step=step,
            initvals=starts,
            draws=draws // CHAINS,
            tune=TUNE,
            chains=CHAINS,
            cores=1,
            random_seed=rng,
            progressbar=False,
            compute_convergence_checks=False,
            quiet=True,
        )
    theta = group(idata, "posterior")["theta"].to_numpy().reshape(draws, -1)
    return theta, int(group(idata, "sample_stats")["diverging"].sum())


def _approximation(
    effects: Effects, count: Ints, centre: float, rng: np.random.Generator
) -> tuple[Array, list[dict[str, Array]]]:
    """Normal approximation at the mode: mass matrix of (log_scale, theta), and the starts."""
    theta, log_scale, of_theta = posterior_mode(effects, count.astype(float), centre)
    P, pair = len(log_scale), effects.pair_of
    info = np.bincount(pair + 1, (theta * np.exp(-np.append(log_scale, 0.0)[pair])) ** 2, P + 1)
    covariance = np.zeros((P + len(theta),) * 2)
    covariance[:P, :P] = np.diag(1 / (PAIR_SPREAD**-2 + info[1:]))
    covariance[P:, P:] = of_theta
    mode = np.append(log_scale, theta)
    points = rng.multivariate_normal(mode, covariance, size=CHAINS, method="cholesky")
    return covariance, [{"log_scale": point[:P], "theta": point[P:]} for point in points]
