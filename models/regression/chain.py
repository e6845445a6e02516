"""Chains over the rows that an intruder does not know, given several releases.

Target: p(y_U | y_A, Z^(1..m)) proportional to p(y)^(1-m) prod_l p(y, Z^(l)), for normal and
log-normal regressions in sequence. One sweep draws theta^(l) ~ p(theta | y, Z^(l)) in closed form,
proposes a row for every unknown record from a normal distribution between the theta^(l), and takes
or leaves them one after another. The derivation stands in `docs/regression.md`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import ModelError
from bayes_risk._core.parallel import Ticks, in_order
from bayes_risk.data.microdata import Codes

from .families import LogNormal
from .kernels import draw, impute
from .part import Part
from .unknown import Fits, Unknown, outside

Array = npt.NDArray[np.float64]
WARM_UP = 150  # sweeps; they forget half of where they were in each
THIN = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImputedDraws:
    """Kept draws, chain after chain.

    ``y`` (H, J, n_U) the imputed outcomes as they are sampled; ``fits``: H lists of the posteriors
    given all rows, by regression; ``moved`` share of proposals that were taken.
    """

    y: Array
    fits: Sequence[Sequence[Fits]]
    n_chains: int
    moved: float

    def __len__(self) -> int:
        return len(self.fits)


def run_chains(
    unknown: Unknown,
    starts: Sequence[Array],
    *,
    draws: int,
    tune: int,
    rng: np.random.Generator,
    n_jobs: int,
    tick: Callable[[int], None],
) -> ImputedDraws:
    """Chains from outcomes ``starts``, each (J, n_U), with a generator of its own."""
    jobs = [
        partial(_run, unknown, start, draws=draws, tune=tune, rng=child)
        for start, child in zip(starts, rng.spawn(len(starts)), strict=True)
    ]
    return joined(list(in_order(jobs, n_jobs=n_jobs, what="chains", ticks=Ticks(tick, draws))))


def joined(chains: Sequence[ImputedDraws]) -> ImputedDraws:
    """Chains put after one another."""
    return ImputedDraws(
        y=np.concatenate([c.y for c in chains]),
        fits=[one for c in chains for one in c.fits],
        n_chains=len(chains),
        moved=float(np.mean([c.moved for c in chains])),
    )


def _run(
    unknown: Unknown,
    start: Array,
    *,
    draws: int,
    tune: int,
    rng: np.random.Generator,
    tick: Callable[[int], None],
) -> ImputedDraws:
    chain = _Chain(unknown, start)
    for _ in range(tune):
        chain.sweep(rng)
    chain.moved = chain.offered = 0
    y, fits = np.empty((draws, *start.shape)), []
    for h in range(draws):
        for _ in range(THIN):
            chain.sweep(rng)
        y[h] = chain.y
        fits.append(chain.fits())
        tick(1)
    return ImputedDraws(y=y, fits=fits, n_chains=1, moved=chain.moved / max(chain.offered, 1))


class _Chain:
    """Unknown rows now: ``codes`` (n_U, p), predictors ``X`` (J, n_U, k) padded, ``y`` (J, n_U)."""

    def __init__(self, unknown: Unknown, y: Array) -> None:
        self.unknown, self.y = unknown, y.copy()
        self.codes = unknown.codes.astype(float)
        self.J = range(len(unknown.parts))
        self.X = np.zeros((*y.shape, max(unknown.width(c) for c in self.J)))
        self.moved = self.offered = 0
        for c in self.J if y.shape[1] else ():
            self.codes[:, unknown.parts[c].column] = outside(unknown.parts[c], y[c])
        for c in self.J if y.shape[1] else ():
            self._place(c, self.codes, self.X)

    def fits(self) -> list[Fits]:
        """Posteriors given all rows as they are now, by regression."""
        return [
            self.unknown.fits(c, self.X[c, :, : self.unknown.width(c)], self.y[c]) for c in self.J
        ]

    def sweep(self, rng: np.random.Generator) -> None:
        """Draw theta^(1..m), propose a row for everybody, take or leave them one by one."""
        if not self.y.shape[1]:
            return
        found = self.fits()
        codes, X, y, log_ratio = self._proposed(found, rng)
        before, power = self.y.copy(), 1.0 - self.unknown.m
        tables = self._padded(found)
        moved = impute(rng, *tables, power, (self.X, self.y), (X, y), log_ratio)
        if moved < 0:
            raise ModelError(
                "a record alone determines a coefficient, which has no posterior without it under "
                "a flat prior; give finite prior scales"
            )
        self.moved, self.offered = self.moved + moved, self.offered + y.shape[1]
        taken = (self.y != before).any(axis=0)
        self.codes[taken] = codes[taken]

    def _proposed(
        self, found: list[Fits], rng: np.random.Generator
    ) -> tuple[Codes, Array, Array, Array]:
        """Rows between those of theta^(l), and the log ratio prod_l f_l / q of new to old."""
        codes, X, y = self.codes.copy(), self.X.copy(), np.empty_like(self.y)
        log_ratio = np.zeros(y.shape[1])
        for c, part in enumerate(self.unknown.parts):
            beta, precision = self._drawn(c, found[c], rng)
            if self.unknown.moves(c):
                self._place(c, codes, X)
            k = self.unknown.width(c)
            new, old = X[c, :, :k] @ beta.T, self.X[c, :, :k] @ beta.T  # shape (n_U, m)
            noise = rng.standard_normal(len(new)) / np.sqrt(precision.mean())
            y[c] = new @ (precision / precision.sum()) + noise
            log_ratio += _log_between(new, y[c], precision)
            log_ratio -= _log_between(old, self.y[c], precision)
            codes[:, part.column] = self._outside(part, y[c], log_ratio)
        return codes, X, y, log_ratio

    def _drawn(self, c: int, found: Fits, rng: np.random.Generator) -> tuple[Array, Array]:
        """Coefficients (m, k) and 1 / sigma^2 (m,), one draw for each data set."""
        beta, precision = np.empty(found.mean[1:].shape), np.empty(len(found.b) - 1)
        a = self.unknown.sums[c].a
        draw(rng, found.mean[1:], a[1:], found.b[1:], found.half[1:], beta, precision)
        return beta, precision

    def _outside(self, part: Part, y: Array, log_ratio: Array) -> Array:
        """Proposed values; those too large or small to be numbers are not taken."""
        values = outside(part, y)
        wrong = ~np.isfinite(values) | (isinstance(part.family, LogNormal) & (values <= 0.0))
        log_ratio[wrong] = -np.inf
        return np.where(wrong, self.codes[:, part.column], values)

    def _place(self, c: int, codes: Codes, X: Array) -> None:
        X[c, :, : self.unknown.width(c)] = self.unknown.predictors(c, codes)

    def _padded(self, found: list[Fits]) -> tuple[Array, Array, Array, Array, Array]:
        """V, X'y, y'y, a (one row left out) and the prior's b, of the table's own posteriors."""
        k = self.X.shape[2]
        V, xy = np.zeros((len(found), k, k)), np.zeros((len(found), k))
        for c, fits in enumerate(found):
            d = self.unknown.width(c)
            V[c, :d, :d] = fits.V[0]
            xy[c, :d] = self.unknown.sums[c].xy[0] + self.X[c, :, :d].T @ self.y[c]
        sums = self.unknown.sums
        yy = np.array([s.yy[0] for s in sums]) + (self.y**2).sum(axis=1)
        a = np.array([s.a[0] - 0.5 for s in sums])
        return V, xy, yy, a, np.array([s.b for s in sums])


def _log_between(eta: Array, y: Array, precision: Array) -> Array:
    """log prod_l f(y | theta^(l)) / q(y), up to a constant, shape (n_U,); eta (n_U, m)."""
    each = -0.5 * (y[:, None] - eta) ** 2 @ precision
    centre = eta @ (precision / precision.sum())
    log_ratio: Array = each + 0.5 * precision.mean() * (y - centre) ** 2
    return log_ratio
