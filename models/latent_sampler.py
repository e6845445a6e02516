"""Chains of latent-class draws: what is sampled, from where, and what is kept.

The same sweep serves PyMC (one call a draw, `dpmpm_pymc.py`) and the many fits of an audit, which
run here without PyMC's bookkeeping: two chains of a fit are two threads outside the interpreter
lock.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import joblib
import numba
import numpy as np
import numpy.typing as npt

from . import latent_class as kernel
from .latent_conditional import conditional_sweep

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Progress = Callable[[str, int, int], None]

CHUNK = 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prior:
    """Hyper-parameters and layout of a latent-class model.

    ``starts`` (p + 1,) says where the levels of each variable begin in the long row of levels;
    ``swaps`` whether a sweep also tries to swap neighbouring classes.
    """

    n_classes: int
    concentration: tuple[float, float]
    level: float
    starts: Ints
    swaps: bool = True

    @property
    def width(self) -> int:
        """Number of rows D of phi, the padding row included."""
        return int(self.starts[-1]) + 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Units:
    """What the sampler sees: distinct units, their multiplicities, and the unit of each record.

    ``positions`` (U, w) are rows of phi; ``unit`` (n,) finds the unit that record i's own values
    belong to. ``given`` holds, for releases synthesised conditionally on unsynthesised columns, the
    units of those releases and the denominators p(y_us | theta) that go with them.
    """

    positions: npt.NDArray[np.int32]
    multiplicity: Ints
    unit: Ints
    given: "Given | None" = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Given:
    """Synthetic rows drawn from p(Z_i | y_us,i, theta): rows, and what divides their density.

    ``positions`` (U', w) with ``multiplicity``: (y_us, Z) rows; ``us_positions`` (V, u) with
    ``us_multiplicity``: unsynthesised parts; ``us_columns``: which variables those are.
    """

    positions: npt.NDArray[np.int32]
    multiplicity: Ints
    us_positions: npt.NDArray[np.int32]
    us_multiplicity: Ints
    us_columns: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State:
    """One point of a chain.

    Concentration, log(1 - V) (K - 1,), weights (K,), level probabilities (D, K).
    """

    alpha: float
    log_left: Array
    pi: Array
    phi: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draws:
    """Kept draws of all chains, chain after chain.

    Shapes: ``alpha (H,)``, ``log_left (H, K-1)``, that is log(1 - V), ``pi (H, K)``, ``phi
    (H, D, K)``, ``n_occupied (H,)``.
    """

    alpha: Array
    log_left: Array
    pi: Array
    phi: Array
    n_occupied: Ints
    n_chains: int

    def __len__(self) -> int:
        return len(self.alpha)

    def last(self, chain: int) -> State:
        """Where a chain stopped."""
        h = (chain + 1) * (len(self) // self.n_chains) - 1
        return State(
            alpha=float(self.alpha[h]), log_left=self.log_left[h], pi=self.pi[h], phi=self.phi[h]
        )

    def chains(self) -> list["Draws"]:
        """The chains, one by one."""
        size = len(self) // self.n_chains
        return [self.take(np.arange(c * size, (c + 1) * size), 1) for c in range(self.n_chains)]

    def take(self, which: npt.NDArray[np.integer], n_chains: int) -> "Draws":
        """Some of the draws."""
        return Draws(
            alpha=self.alpha[which],
            log_left=self.log_left[which],
            pi=self.pi[which],
            phi=self.phi[which],
            n_occupied=self.n_occupied[which],
            n_chains=n_chains,
        )


def joined(chains: Sequence[Draws]) -> Draws:
    """Chains put after one another."""
    return Draws(
        alpha=np.concatenate([c.alpha for c in chains]),
        log_left=np.concatenate([c.log_left for c in chains]),
        pi=np.concatenate([c.pi for c in chains]),
        phi=np.concatenate([c.phi for c in chains]),
        n_occupied=np.concatenate([c.n_occupied for c in chains]),
        n_chains=len(chains),
    )


def units_of(
    positions: npt.NDArray[np.int32],
    given: Given | None = None,
    left_out: int | None = None,
) -> Units:
    """Distinct rows of ``positions``; a row that is left out has unit -1."""
    kept = np.ones(len(positions), dtype=bool)
    if left_out is not None:
        kept[left_out] = False
    rows, found, n = np.unique(positions[kept], axis=0, return_inverse=True, return_counts=True)
    unit = np.full(len(positions), -1, dtype=np.int64)
    unit[kept] = found
    return Units(
        positions=rows.astype(np.int32), multiplicity=n.astype(np.int64), unit=unit, given=given
    )


def initial_state(prior: Prior, units: Units, rng: np.random.Generator) -> State:
    """A scattered start: every class half like some record, half like everybody."""
    K, a = prior.n_classes, prior.level
    phi = np.ones((prior.width, K))
    chances = units.multiplicity / units.multiplicity.sum()
    seeds = units.positions[rng.choice(len(units.positions), size=K, p=chances)]
    counts = np.bincount(
        units.positions.ravel(),
        weights=np.repeat(units.multiplicity, units.positions.shape[1]),
        minlength=prior.width,
    )
    for begin, end in zip(prior.starts[:-1], prior.starts[1:], strict=True):
        marginal = (counts[begin:end] + a) / (counts[begin:end] + a).sum()
        here = (seeds[:, :, None] == np.arange(begin, end)).any(axis=1)  # shape (K, d_j)
        mixed = marginal + here
        phi[begin:end] = (mixed / mixed.sum(axis=1, keepdims=True)).T
    pi = np.full(K, 1.0 / K)
    log_left = np.log1p(-1.0 / np.arange(K, 1, -1))
    return State(alpha=1.0, log_left=log_left, pi=pi, phi=phi)


@numba.njit(cache=True, nogil=True)
def _run(  # type: ignore[no-untyped-def]  # a kernel: numba reads no annotations
    rng, data, given, starts, a, prior, state, thin, swaps, out, first, last
):
    """Draws first .. last - 1 of one chain, `thin` sweeps each; arrays of `state` are updated."""
    positions, multiplicity = data
    alpha, log_left, pi, phi = state
    out_alpha, out_left, out_pi, out_phi, out_occupied = out
    K = pi.shape[0]
    n, M = np.zeros(K, np.int64), np.zeros(phi.shape, np.int64)
    label = np.zeros(positions.shape[0], np.int64)
    for h in range(first, last):
        for _ in range(thin):
            if given[2].shape[0] == 0:
                alpha[0] = kernel.sweep(
                    rng, positions, multiplicity, starts, a, prior, swaps,
                    alpha[0], log_left, pi, phi, n, M, label,
                )  # fmt: skip
            else:
                alpha[0] = conditional_sweep(
                    rng, positions, multiplicity, given, starts, a, prior,
                    alpha[0], log_left, pi, phi, n, M, label,
                )  # fmt: skip
        out_alpha[h] = alpha[0]
        out_left[h] = log_left
        out_pi[h] = pi
        out_phi[h] = phi
        out_occupied[h] = (n > 0).sum()


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
    fixed = (
        (units.positions, units.multiplicity),
        _given_arrays(units.given),
        prior.starts,
        prior.level,
        np.array(prior.concentration),
        state,
    )
    _run(rng, *fixed, tune, prior.swaps, _room(1, K, D), 0, int(tune > 0))
    out = _room(draws, K, D)
    for first in range(0, draws, CHUNK):  # in chunks, so that progress shows and Ctrl-C is heard
        last = min(first + CHUNK, draws)
        _run(rng, *fixed, thin, prior.swaps, out, first, last)
        tick(last - first)
    return Draws(
        alpha=out[0], log_left=out[1], pi=out[2], phi=out[3], n_occupied=out[4], n_chains=1
    )


def run_chains(
    prior: Prior,
    units: Units,
    starts: Sequence[State],
    *,
    draws: int,
    tune: int,
    thin: int,
    rng: np.random.Generator,
    n_jobs: int = 1,
    tick: Callable[[int], None] = lambda done: None,
) -> Draws:
    """Several chains, each with its own child generator, so `n_jobs` does not change the draws."""
    jobs = [
        joblib.delayed(run_chain)(
            prior, units, start, draws=draws, tune=tune, thin=thin, rng=child, tick=tick
        )
        for start, child in zip(starts, rng.spawn(len(starts)), strict=True)
    ]
    return joined(joblib.Parallel(n_jobs=n_jobs, prefer="threads")(jobs))


def doubled(
    prior: Prior, units: Units, old: Draws, *, thin: int, rng: np.random.Generator, n_jobs: int
) -> Draws:
    """Twice the sweeps in the same memory: every other old draw, then new ones twice apart."""
    size = len(old) // old.n_chains
    new = run_chains(
        prior,
        units,
        [old.last(c) for c in range(old.n_chains)],
        draws=size - size // 2,
        tune=0,
        thin=2 * thin,
        rng=rng,
        n_jobs=n_jobs,
    )
    halves = [c.take(np.arange(1, size, 2), 1) for c in old.chains()]
    merged = [joined(pair) for pair in zip(halves, new.chains(), strict=True)]
    return replace(joined([replace(c, n_chains=1) for c in merged]), n_chains=old.n_chains)


def _room(draws: int, K: int, D: int) -> tuple[Array, Array, Array, Array, Ints]:
    return (
        np.empty(draws),
        np.empty((draws, K - 1)),
        np.empty((draws, K)),
        np.empty((draws, D, K)),
        np.empty(draws, np.int64),
    )


def _given_arrays(given: Given | None) -> tuple[npt.NDArray[np.integer], ...]:
    """The tuple that the compiled loop takes; empty arrays when nothing is conditional."""
    if given is None:
        rows, counts = np.empty((0, 0), np.int32), np.empty(0, np.int64)
        return rows, counts, rows, counts, counts
    return (
        given.positions,
        given.multiplicity,
        np.ascontiguousarray(given.us_positions.T),
        given.us_multiplicity,
        given.us_columns,
    )
