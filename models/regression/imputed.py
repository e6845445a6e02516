"""Several releases of normal regressions, the rows that an intruder does not know imputed.

Target: p(y_U | y_A, Z^(1..m)) proportional to p(y)^(1-m) prod_l p(y, Z^(l)), for normal and
log-normal regressions in sequence. One sweep draws theta^(l) ~ p(theta | y, Z^(l)) in closed form,
proposes a row for every unknown record from a normal distribution between the theta^(l), and takes
or leaves them one after another. The derivation stands in `docs/regression.md`.

Wanted is the density of the target's row, other unknown rows integrated out. Given these it is
g(y*) / c, where c is an integral over one outcome of g(y*) = p(y* | y_-t)^(1-m) prod_l
p(y* | y_-t, Z^(l)), powers of Student densities. Of several regressions each has its own c, given
the row's earlier outcomes as they are in the draw: p(y*) is E[g(y*) w(y_t) / g(y_t)] for any
normalised density w (Chen 1994), and w = prod g / c is one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.errors import ModelError
from bayes_risk._core.parallel import Ticks, in_order
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Predictive, Targets

from .conjugate import ConjugatePrior, Moments
from .families import LogNormal
from .kernels import draw, impute, posteriors, tempered
from .part import Part
from .posterior import blocks, log_sums_of_batches

SOURCE = "the imputed records"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sums:
    """What is known of one regression: sums over rows, and its prior, k coefficients.

    ``xx`` (m + 1, k, k), ``xy`` (m + 1, k), ``yy`` (m + 1,): of the known rows alone, then of them
    and each data set of the release; ``a`` (m + 1,) shapes of sigma^2 with the imputed rows
    counted, ``precision`` (k,) and ``b`` the prior's.
    """

    xx: Array
    xy: Array
    yy: Array
    a: Array
    precision: Array
    b: float

    @classmethod
    def from_moments(
        cls, prior: ConjugatePrior, known: Moments, released: Sequence[Moments], n_imputed: int
    ) -> "Sums":
        """Join known rows and those of each data set."""
        rows = [known, *(known.plus(z) for z in released)]
        flat = np.isinf(prior.tau)
        counts = np.array([r.n + n_imputed - flat.sum() for r in rows])
        return cls(
            xx=np.stack([r.xx for r in rows]),
            xy=np.stack([r.xy for r in rows]),
            yy=np.array([r.yy for r in rows]),
            a=prior.a + 0.5 * counts,
            precision=np.where(flat, 0.0, prior.tau**-2.0),
            b=prior.b,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fits:
    """Posteriors of one regression, in closed form: V (m + 1, k, k), mean (m + 1, k), b (m + 1,).

    Of all rows of the table, then of these and each data set; V is half'half.
    """

    V: Array
    mean: Array
    b: Array
    half: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unknown:
    """What every chain works on."""

    parts: Sequence[Part]  # J of them, the regressions that made the release, in its order
    sums: Sequence[Sums]  # by regression
    records: Ints  # shape (n_U,): row numbers of the unknown records
    codes: Codes  # shape (n_U, p): their rows as the first data set has them

    @property
    def m(self) -> int:
        """Number of data sets."""
        return len(self.sums[0].yy) - 1

    def width(self, c: int) -> int:
        """Number of coefficients of a regression."""
        return len(self.parts[c].design.names)

    def moves(self, c: int) -> bool:
        """Whether the predictors of a regression are themselves imputed."""
        return bool({part.name for part in self.parts} & set(self.parts[c].design.columns))

    def predictors(self, c: int, codes: Codes) -> Array:
        """Standardised predictors of coded rows, shape (R, k)."""
        part = self.parts[c]
        return part.scaling.inside(part.design.matrix(part.microdata, codes, SOURCE))

    def fits(self, c: int, X: Array, y: Array) -> Fits:
        """Posteriors of a regression, given imputed rows X (n_U, k) and outcomes y (n_U,)."""
        sums = self.sums[c]
        found = Fits(
            V=np.empty(sums.xx.shape),
            mean=np.empty(sums.xy.shape),
            b=np.empty(len(sums.yy)),
            half=np.empty(sums.xx.shape),
        )
        imputed, prior = (X.T @ X, X.T @ y, float(y @ y)), (sums.precision, sums.b)
        tables = (found.V, found.mean, found.b, found.half)
        proper = (sums.a > 0.5).all()
        if not proper or not posteriors((sums.xx, sums.xy, sums.yy), imputed, prior, *tables):
            raise ModelError(
                f"the records do not determine the coefficients of {self.parts[c].name!r}, and its "
                "prior is flat; give finite prior scales"
            )
        return found


def inside(part: Part, values: Array) -> Array:
    """Outcomes as they are sampled: standardised, in logs if log-normal."""
    logs = np.log(values) if isinstance(part.family, LogNormal) else values
    return (logs - part.scaling.at) / part.scaling.by


def outside(part: Part, y: Array) -> Array:
    """Outcomes as the table has them."""
    values: Array = part.scaling.at + part.scaling.by * y
    with np.errstate(over="ignore"):
        return np.exp(values) if isinstance(part.family, LogNormal) else values


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
    return np.asarray(each + 0.5 * precision.mean() * (y - centre) ** 2)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImputedPosterior:
    """Draws of the unknown rows."""

    unknown: Unknown
    draws: ImputedDraws

    @property
    def n_draws(self) -> int:
        """Number H of draws."""
        return len(self.draws)

    @property
    def n_sweeps(self) -> int:
        """Draws of each chain."""
        return len(self.draws) // self.draws.n_chains

    def predictives(self, targets: Targets, *, rng: np.random.Generator) -> list[Predictive]:
        """One for all regressions: imputed rows tie them together."""
        return [ImputedPredictive.from_draws(self.unknown, self.draws, targets)]

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "ImputedPosterior":
        """As many draws again, chains going on where they stopped."""
        size, old = self.n_sweeps, self.draws
        more = run_chains(
            self.unknown,
            [old.y[(c + 1) * size - 1] for c in range(old.n_chains)],
            draws=size,
            tune=0,
            rng=rng,
            n_jobs=n_jobs,
            tick=lambda done: None,
        )
        chains = [
            joined([_chain(draws, c, size) for draws in (old, more)]) for c in range(old.n_chains)
        ]
        return replace(self, draws=joined(chains))


def _chain(draws: ImputedDraws, c: int, size: int) -> ImputedDraws:
    some = slice(c * size, (c + 1) * size)
    return ImputedDraws(y=draws.y[some], fits=draws.fits[some], n_chains=1, moved=draws.moved)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImputedPredictive:
    """Draws of p(row | other rows, Z^(1..m)), rows as the target's and as guessed."""

    unknown: Unknown
    draws: ImputedDraws
    # V (H, m + 1, k, k), mean (H, m + 1, k), a (m + 1,), b (H, m + 1) of each regression: given the
    # table alone, and with each data set of the release
    tables: Sequence[tuple[Array, Array, Array, Array]]
    targets: Targets
    batch: Ints  # shape (H,)

    @classmethod
    def from_draws(
        cls, unknown: Unknown, draws: ImputedDraws, targets: Targets
    ) -> "ImputedPredictive":
        """Posteriors of every draw, in closed form."""
        tables = []
        for c, sums in enumerate(unknown.sums):
            found = [one[c] for one in draws.fits]
            V, mean = np.stack([f.V for f in found]), np.stack([f.mean for f in found])
            tables.append((V, mean, sums.a, np.stack([f.b for f in found])))
        return cls(
            unknown=unknown,
            draws=draws,
            tables=tables,
            targets=targets,
            batch=batch_of_draws(len(draws), draws.n_chains),
        )

    def log_truth(self, block: slice) -> Array:
        """log p_h(y_i), shape (H, block)."""
        rows = self.targets.profiles[block].astype(float)[None]  # shape (1, U, p)
        found, norm = self._masses(block, [rows] * len(self.unknown.parts), normed=True)
        return np.asarray(np.sum(found, axis=0)[:, 0] - norm)

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h p_h(y*) / p_h(y_i): (B, G, block)."""
        codes, cells = self._guesses(block)
        U, G = log_weights.shape[1], len(cells[0])
        out = np.empty((len(np.unique(self.batch)), G, U))
        for some in blocks(U, len(self.batch) * G):
            at = slice(block.start + some.start, block.start + some.stop)
            found, _ = self._masses(at, [c[:, some] for c in codes], normed=False)
            total = np.repeat(log_weights[:, None, some], G, axis=1)  # shape (H, G, some)
            for f, cell in zip(found, cells, strict=True):
                total += f[:, cell] - f[:, -1:]
            out[:, :, some] = log_sums_of_batches(total, self.batch, axis=0)
        return out

    def _guesses(self, block: slice) -> tuple[list[Codes], list[Ints]]:
        """By regression: distinct rows with guesses in place, the truth last; which has which."""
        found = [self.targets.rows(part.uses, block) for part in self.unknown.parts]
        truth = self.targets.profiles[block].astype(float)[None]
        return [np.concatenate([codes, truth]) for codes, _ in found], [cell for _, cell in found]

    def _masses(
        self, block: slice, guesses: Sequence[Codes], *, normed: bool
    ) -> tuple[list[Array], Array]:
        """log g of guesses (G_c, U, p) by regression, (H, G_c, U); if ``normed`` log c, (H, U)."""
        m, H, U = self.unknown.m, len(self.draws), guesses[0].shape[1]
        powers = np.array([1.0 - m] + [1.0] * m)
        own, norm = self._own(block), np.zeros((H, U))
        found = []
        for c, part in enumerate(self.unknown.parts):
            G, p = len(guesses[c]), guesses[c].shape[2]
            rows, possible = self._rows(c, guesses[c].reshape(-1, p))
            out = np.zeros((H, G, U))
            pair = rows[0].reshape(G, U, -1), rows[1].reshape(G, U)
            tempered(self.tables[c], powers, self._own_rows(c, own), pair, out, norm, normed)
            if isinstance(part.family, LogNormal):
                out -= rows[1].reshape(G, U) * part.scaling.by + part.scaling.at
            out[:, ~possible.reshape(G, U)] = -np.inf
            found.append(out)
        return found, norm

    def _rows(self, c: int, codes: Codes) -> tuple[tuple[Array, Array], Flags]:
        """Predictors and outcome of coded rows as sampled, and which the family allows."""
        part = self.unknown.parts[c]
        values = codes[:, part.column].astype(float)
        positive = values > 0 if isinstance(part.family, LogNormal) else np.ones(len(values), bool)
        y = inside(part, np.where(positive, values, 1.0))
        return (np.ascontiguousarray(self.unknown.predictors(c, codes)), y), positive

    def _own(self, block: slice) -> Codes:
        """The targets' rows in each draw, (H, U, p): their own where known, else as imputed."""
        codes = np.repeat(self.targets.profiles[block][None].astype(float), len(self.draws), axis=0)
        place = _places(self.unknown.records, self.targets.record[block])
        for c, part in enumerate(self.unknown.parts):
            imputed = outside(part, self.draws.y[:, c, place[place >= 0]])
            codes[:, place >= 0, part.column] = imputed
        return codes

    def _own_rows(self, c: int, own: Codes) -> tuple[Array, Array]:
        """Of regression c: predictors (H, U, k) and outcomes (H, U)."""
        H, U, p = own.shape
        k, part = self.unknown.width(c), self.unknown.parts[c]
        if self.unknown.moves(c):
            X = self.unknown.predictors(c, own.reshape(-1, p)).reshape(H, U, k)
        else:
            X = np.repeat(self.unknown.predictors(c, own[0])[None], H, axis=0)
        return np.ascontiguousarray(X), inside(part, own[:, :, part.column])


def _places(records: Ints, wanted: Ints) -> Ints:
    """Where each record stands among the unknown ones (in order); -1: it is known."""
    place = np.minimum(np.searchsorted(records, wanted), max(len(records) - 1, 0))
    if not len(records):
        return np.full(len(wanted), -1)
    return np.where(records[place] == wanted, place, -1)
