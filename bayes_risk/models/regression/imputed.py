"""Several releases of normal regressions, the rows that an intruder does not know imputed.

A sweep draws theta^(l) ~ p(theta | y, Z^(l)) in closed form, proposes a row for every unknown
record between them, and takes or leaves them one after another. Other unknown rows are integrated
out of the target's density.

Arrays of the compiled part are padded to the widest design, with zeros, which change no quadratic
form. ``V`` (k, k) is the inverse of ``X'X`` and prior precision, ``mean`` (k,) the coefficients,
``xy`` (k,) is ``X'y``. A row is taken out by rank-one formulas.

Given theta^(l) ~ p(theta|y,Z^(l)), since p(y) = p(y_-j) p(y_j|y_-j),

    p(y_j|y_-j,theta^(1..m)) ∝ prod_l f(y_j|theta^(l)) / p(y_j|y_-j)^(m-1).

A sweep draws the theta^(l) and proposes for every unknown record a row from normals with mean
x'(sum tau_l beta_l / sum tau_l) and precision the mean of the tau_l = 1/sigma_l². This is
Metropolis within Gibbs, exact for any n. With t's row out of all sums its density is g(y*) / c,

    g(y*) = p(y*|y_-t)^(1-m) prod_l p(y*|y_-t,Z^(l)),   c = ∫ g,

c by the trapezoidal rule. The mean of g(y*) / c is the numerator. A known target leaves by smoothed
weights c / g(y_i) (Chen 1994).

Chen (1994), JASA 89, 818-824.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numba
import numpy as np
from scipy.special import logsumexp

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.errors import ModelError
from bayes_risk._core.parallel import Ticks, in_order
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Targets
from bayes_risk.models.fits.sampling import blocks, log_sums_of_batches

from .families import LogNormal
from .part import Part
from .posterior import CHAINS, LEVERAGE, ConjugatePrior, ExactPart, Moments, NormalInverseGamma

SOURCE = "the imputed records"
WARM_UP = 150  # sweeps; they forget half of where they were in each
THIN = 2
TINY = 1e-300
MIN_PRECISION = 0.1  # of one fit's precision, below which a product of powers is hardly one bell
POINTS, REACH = 20, 4.0
STEPS = np.linspace(-REACH, REACH, 2 * POINTS + 1)
PLACES, LOG_WIDTHS = np.sinh(STEPS), np.log(np.cosh(STEPS) * REACH / POINTS)


@numba.njit(cache=True, nogil=True)
def log_t(distance, scale2, a):
    """log of Student's t with 2 a degrees of freedom, up to a constant; scale2 = 2 b spread."""
    return -0.5 * np.log(scale2) - (a + 0.5) * np.log1p(distance * distance / scale2)


@numba.njit(cache=True, nogil=True)
def product(V, x, out):
    """out = V x; returns x'V x."""
    total = 0.0
    for i in range(x.shape[0]):
        out[i] = 0.0
        for j in range(x.shape[0]):
            out[i] += V[i, j] * x[j]
        total += out[i] * x[i]
    return total


@numba.njit(cache=True, nogil=True)
def moved(V, xy, x, y, sign, side):
    """V and X'y with a row more (sign 1) or less (-1), in place; False: it cannot be taken out."""
    left = 1.0 + sign * product(V, x, side)
    if left < LEVERAGE:
        return False
    for i in range(x.shape[0]):
        xy[i] += sign * x[i] * y
        for j in range(x.shape[0]):
            V[i, j] -= sign * side[i] * side[j] / left
    return True


@numba.njit(cache=True, nogil=True)
def predictive(V, xy, yy, a, b, x, y, side):
    """log p(y | x, data), up to a constant, the data being V, X'y, y'y; a, b of the posterior."""
    spread = 1.0 + product(V, x, side)
    centre = 0.0
    for i in range(x.shape[0]):
        centre += side[i] * xy[i]
    left_over = b + 0.5 * max(yy - product(V, xy, side), 0.0)
    return log_t(y - centre, max(2.0 * left_over * spread, TINY), a)


@numba.njit(cache=True, nogil=True)
def put(V, xy, to_V, to_xy):
    """Copy number by number: arrays put into arrays compile for seconds."""
    for i in range(xy.shape[0]):
        to_xy[i] = xy[i]
        for j in range(xy.shape[0]):
            to_V[i, j] = V[i, j]


@numba.njit(cache=True, nogil=True)
def impute(rng, V, xy, yy, a, b, power, now, proposed, log_ratio):
    """A Metropolis step for every row, in order; False: a row is too heavy to be taken out.

    ``V`` (J, k, k), ``xy`` (J, k), ``yy`` (J,) with all rows, changed in place; ``a`` (J,) with one
    row left out, ``b`` (J,) of the prior. ``now``, ``proposed``: predictors (J, n, k), outcomes (J,
    n). ``log_ratio`` (n,), by all that no other row matters to; the rest is p(row | others)^power.
    """
    X, y = now
    other_X, other_y = proposed
    J, n, k = X.shape
    side = np.empty(k)
    kept_V, kept_xy = np.empty((J, k, k)), np.empty((J, k))
    for i in range(n):
        if log_ratio[i] == -math.inf:
            continue
        change = 0.0
        for c in range(J):
            put(V[c], xy[c], kept_V[c], kept_xy[c])
            if not moved(V[c], xy[c], X[c, i], y[c, i], -1.0, side):
                return False
            rest = yy[c] - y[c, i] ** 2
            change += predictive(V[c], xy[c], rest, a[c], b[c], other_X[c, i], other_y[c, i], side)
            change -= predictive(V[c], xy[c], rest, a[c], b[c], X[c, i], y[c, i], side)
        if math.log(rng.random()) < log_ratio[i] + power * change:
            for c in range(J):
                yy[c] += other_y[c, i] ** 2 - y[c, i] ** 2
                y[c, i] = other_y[c, i]
                for r in range(k):
                    X[c, i, r] = other_X[c, i, r]
                moved(V[c], xy[c], X[c, i], y[c, i], 1.0, side)
        else:
            for c in range(J):
                put(kept_V[c], kept_xy[c], V[c], xy[c])
    return True


def tempered(
    posteriors: Sequence[Array],
    powers: Array,
    own: tuple[Array, Array],
    guesses: tuple[Array, Array],
    *,
    normed: bool,
) -> tuple[Any, Any]:
    """sum_l powers_l log p_l(row | data without the target's row) of rows, (H, G, U).

    ``posteriors``: V (H, L, k, k), mean (H, L, k), a (L,), b (H, L); ``own``: the target's row in
    each draw, (H, U, k), (H, U); ``guesses``: (G, U, k), (G, U). Also, if ``normed``, the log
    integral over the outcome at the target's own predictors, (H, U).
    """
    (V, mean, a, b), (own_x, own_y), (x, y) = posteriors, own, guesses
    out: Any = 0.0
    centres, scales = [], []
    for l, power in enumerate(powers):
        side = own_x @ V[:, l]  # shape (H, U, k)
        left = np.maximum(1.0 - (side * own_x).sum(axis=-1), LEVERAGE)
        fitted = (own_x @ mean[:, l, :, None])[..., 0]
        error = (own_y - fitted) / left  # from the prediction without the row
        less = np.maximum(b[:, l, None] - 0.5 * error * error * left, TINY)
        centres.append(own_y - error)
        scales.append(2.0 * less / left)
        cross = np.einsum("huk,guk->hgu", side, x)
        centre = np.einsum("hk,guk->hgu", mean[:, l], x) - cross * error[:, None]
        spread = 1.0 + np.einsum("guj,hjk,guk->hgu", x, V[:, l], x, optimize=True)
        scale2 = 2.0 * less[:, None] * (spread + cross * cross / left[:, None])
        out += power * log_t.py_func(y - centre, scale2, a[l] - 0.5)
    norm = log_integral(powers, np.stack(centres), np.stack(scales), a - 0.5) if normed else 0.0
    return out, norm


def log_integral(powers: Array, centre: Array, scale2: Array, df: Array) -> Any:
    """log of the integral of prod_l t_l(y)^powers_l over y; l is the first axis.

    The trapezoidal rule on y = middle + width sinh(t), smooth and bell-shaped: 41 points leave
    1e-6.
    """
    wide = (slice(None), *[None] * (centre.ndim - 1))
    powers, df = powers[wide], df[wide]
    curvature = (2.0 * df + 1.0) / scale2
    precision, pull = ((powers * x).sum(axis=0) for x in (curvature, curvature * centre))
    plain, plain_pull = (x.mean(axis=0) for x in (curvature, curvature * centre))
    hardly = precision < MIN_PRECISION * plain
    precision, pull = np.where(hardly, plain, precision), np.where(hardly, plain_pull, pull)
    middle, width = pull / precision, 1.0 / np.sqrt(precision)
    y = middle + width * PLACES[(slice(None), *wide[1:])]
    terms = LOG_WIDTHS[(slice(None), *wide[1:])] + np.zeros_like(y)
    for l in range(len(powers)):
        terms += powers[l] * log_t.py_func(y - centre[l], scale2[l], df[l])
    return logsumexp(terms, axis=0) + np.log(width)


# Of the unknown rows: outcomes y (J, n_U), codes (n_U, p), predictors X (J, n_U, k), padded
State = tuple[Array, Codes, Array]
# Outcomes y; of each regression's posteriors V (m + 1, k, k), mean (m + 1, k), a and b (m + 1,)
Draw = tuple[Array, list[tuple[Array, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unknown:
    """What every chain works on: J regressions, those that made the release, in its order."""

    parts: Sequence[Part]
    priors: Sequence[ConjugatePrior]
    # of each regression m + 1 times: of the known rows alone, then of them and each data set
    known: Sequence[Moments]
    records: Ints  # shape (n_U,): row numbers of the unknown records
    codes: Codes  # shape (n_U, p): their rows as the first data set has them

    @classmethod
    def of(
        cls, regressions: Sequence[ExactPart], seen: Flags, tables: Sequence[Codes], first: Codes
    ) -> "Unknown":
        """``tables`` of released rows; ``first``: the first data set, whole."""
        records, known = np.flatnonzero(~seen), []
        for one in regressions:
            data = one.known.data
            rows = zip(data, *(data.plus(z) for z in one.moments(tables)), strict=True)
            known.append(Moments(*map(np.stack, rows)))
        return cls(
            parts=[one.part for one in regressions],
            priors=[one.known.prior for one in regressions],
            known=known,
            records=records,
            codes=first[records].astype(float),
        )

    @property
    def m(self) -> int:
        """Number of data sets."""
        return len(self.known[0].n) - 1

    def start(self) -> State:
        """Outcomes as the first data set shows them."""
        y = np.stack([part.inside(self.codes[:, part.column]) for part in self.parts])
        codes, X = self.codes.copy(), np.zeros((*y.shape, max(map(self.width, range(len(y))))))
        if y.shape[1]:
            for part, values in zip(self.parts, y, strict=True):
                codes[:, part.column] = table_outcomes(part, values)
            for c in range(len(y)):
                X[c, :, : self.width(c)] = self.predictors(c, codes)
        return y, codes, X

    def chain(
        self, state: State, *, draws: int, tune: int, rng: Rng, tick: Callable[[int], None]
    ) -> tuple[list[Draw], State]:
        """`tune` sweeps thrown away, then draws, and where the chain stopped."""
        y, codes, X = (x.copy() for x in state)
        state, kept = (y, codes, X), list[Draw]()
        found = self.fits(state)
        for step in range(1 - tune, 1 + THIN * draws):
            found = self.sweep(state, found, rng)
            if step > 0 and step % THIN == 0:
                kept.append((y.copy(), [(f.V, f.mean, f.a, f.b) for f in found]))
                tick(1)
        return kept, state

    def sweep(
        self, state: State, found: list[NormalInverseGamma], rng: Rng
    ) -> list[NormalInverseGamma]:
        """Draw theta^(1..m), propose a row for everybody, take or leave them one by one."""
        y, codes, X = state
        if not y.shape[1]:
            return found
        (new_y, new_codes, new_X), log_ratio = self._proposed(state, found, rng)
        before, tables, power = y.copy(), self._padded(state, found), 1.0 - self.m
        proper = (tables[3] > 0.0).all()
        if not (proper and impute(rng, *tables, power, (X, y), (new_X, new_y), log_ratio)):
            raise ModelError(
                "a record alone determines a coefficient, which has no posterior without it under "
                "a flat prior; give finite prior scales"
            )
        taken = (y != before).any(axis=0)
        codes[taken] = new_codes[taken]
        return self.fits(state)

    def width(self, c: int) -> int:
        """Number of coefficients of a regression."""
        return len(self.parts[c].names)

    def moves(self, c: int) -> bool:
        """Whether the predictors of a regression are themselves imputed."""
        return bool({part.name for part in self.parts} & set(self.parts[c].columns))

    def predictors(self, c: int, codes: Codes) -> Array:
        """Standardised predictors of coded rows, shape (R, k)."""
        part = self.parts[c]
        return part.scaling.inside(part.matrix(codes, SOURCE))

    def fits(self, state: State) -> list[NormalInverseGamma]:
        """m + 1 posteriors of each regression: given all rows as they are, and each data set."""
        y, _, X = state
        imputed = (Moments.from_rows(X[c, :, : self.width(c)], y[c]) for c in range(len(y)))
        each = zip(self.priors, self.known, imputed, strict=True)
        return [prior.posterior(known.plus(rows)) for prior, known, rows in each]

    def _proposed(
        self, state: State, found: list[NormalInverseGamma], rng: Rng
    ) -> tuple[State, Array]:
        """Rows between those of theta^(l), and the log ratio prod_l f_l / q of new to old."""
        y, codes, X = np.empty_like(state[0]), state[1].copy(), state[2].copy()
        log_ratio = np.zeros(y.shape[1])
        for c, (part, fit) in enumerate(zip(self.parts, found, strict=True)):
            k, beta, precision = self.width(c), fit.mean[1:].copy(), np.empty(self.m)
            for l, (a, b, half) in enumerate(zip(fit.a[1:], fit.b[1:], fit.half[1:], strict=True)):
                precision[l] = rng.standard_gamma(a) / b
                beta[l] += (rng.standard_normal(k) / np.sqrt(precision[l])) @ half
            if self.moves(c):
                X[c, :, :k] = self.predictors(c, codes)
            new, old = X[c, :, :k] @ beta.T, state[2][c, :, :k] @ beta.T  # shape (n_U, m)
            noise = rng.standard_normal(len(new)) / np.sqrt(precision.mean())
            y[c] = new @ (precision / precision.sum()) + noise
            log_ratio += _log_between(new, y[c], precision)
            log_ratio -= _log_between(old, state[0][c], precision)
            values = table_outcomes(
                part, y[c]
            )  # those too large or small to be numbers are not taken
            wrong = ~np.isfinite(values) | (isinstance(part.family, LogNormal) & (values <= 0.0))
            log_ratio[wrong] = -np.inf
            codes[:, part.column] = np.where(wrong, state[1][:, part.column], values)
        return (y, codes, X), log_ratio

    def _padded(
        self, state: State, found: list[NormalInverseGamma]
    ) -> tuple[Array, Array, Array, Array, Array]:
        """V, X'y, y'y, a (one row left out) and the prior's b, of the table's own posteriors."""
        J, k = len(found), state[2].shape[2]
        V, xy = np.zeros((J, k, k)), np.zeros((J, k))
        for c, fit in enumerate(found):
            d = self.width(c)
            V[c, :d, :d], xy[c, :d] = fit.V[0], fit.data.xy[0]
        yy = np.array([fit.data.yy[0] for fit in found])
        a = np.array([fit.a[0] - 0.5 for fit in found])
        return V, xy, yy, a, np.array([float(prior.b) for prior in self.priors])


def _log_between(eta: Array, y: Array, precision: Array) -> Array:
    """log prod_l f(y | theta^(l)) / q(y), up to a constant, shape (n_U,); eta (n_U, m)."""
    each = -0.5 * (y[:, None] - eta) ** 2 @ precision
    centre = eta @ (precision / precision.sum())
    return np.asarray(each + 0.5 * precision.mean() * (y - centre) ** 2)


def table_outcomes(part: Part, y: Array) -> Array:
    """Outcomes as the table has them."""
    values: Array = part.scaling.at + part.scaling.by * y
    with np.errstate(over="ignore"):
        return np.exp(values) if isinstance(part.family, LogNormal) else values


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImputedPosterior:
    """Draws of the unknown rows, chain by chain, and where each chain stopped."""

    unknown: Unknown
    draws: Sequence[list[Draw]]
    states: Sequence[State]

    @classmethod
    def sampled(cls, unknown: Unknown, draws: int, **how: Any) -> "ImputedPosterior":
        """So many draws of each chain; ``how``: rng, n_jobs and tick."""
        begun = cls(unknown=unknown, draws=[[]] * CHAINS, states=[unknown.start()] * CHAINS)
        return begun._longer(draws, WARM_UP, **how)

    def _longer(
        self, draws: int, tune: int, *, rng: Rng, n_jobs: int, tick: Any
    ) -> "ImputedPosterior":
        """Go on with every chain, each with its own generator: `n_jobs` does not matter."""
        jobs = [
            partial(self.unknown.chain, state, draws=draws, tune=tune, rng=own)
            for state, own in zip(self.states, rng.spawn(len(self.states)), strict=True)
        ]
        new = list(in_order(jobs, n_jobs=n_jobs, what="chains", ticks=Ticks(tick, draws)))
        kept = [old + more for old, (more, _) in zip(self.draws, new, strict=True)]
        return replace(self, draws=kept, states=[state for _, state in new])

    @property
    def n_draws(self) -> int:
        return sum(map(len, self.draws))

    def predictives(self, targets: Targets, *, rng: Rng) -> list["ImputedRowsPredictive"]:
        """One of all regressions, which imputed rows tie together."""
        y, fits = zip(*(draw for chain in self.draws for draw in chain), strict=True)
        tables = [tuple(map(np.stack, zip(*each, strict=True))) for each in zip(*fits, strict=True)]
        batch = batch_of_draws(self.n_draws, len(self.draws))
        return [
            ImputedRowsPredictive(
                unknown=self.unknown, y=np.stack(y), tables=tables, targets=targets, batch=batch
            )
        ]

    def doubled(self, *, rng: Rng, n_jobs: int) -> "ImputedPosterior":
        """As many draws again, chains going on where they stopped."""
        return self._longer(len(self.draws[0]), 0, rng=rng, n_jobs=n_jobs, tick=lambda done: None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImputedRowsPredictive:
    """Draws of p(row | other rows, Z^(1..m)), rows as the target's and as guessed."""

    unknown: Unknown
    y: Array  # shape (H, J, n_U): the imputed outcomes as they are sampled
    # V (H, m + 1, k, k), mean (H, m + 1, k), a and b (H, m + 1) of each regression: given the
    # table alone, and with each data set of the release
    tables: Sequence[tuple[Array, ...]]
    targets: Targets
    batch: Ints  # shape (H,)

    def log_truth(self, block: slice) -> Array:
        rows = self.targets.profiles[block].astype(float)[None]  # shape (1, U, p)
        found, norm = self._masses(block, [rows] * len(self.tables), normed=True)
        return np.asarray(np.sum(found, axis=0)[:, 0] - norm)

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        truth = self.targets.profiles[block].astype(float)[None]
        queries = [self.targets.rows(part.uses, block) for part in self.unknown.parts]
        codes = [np.concatenate([rows, truth]) for rows, _ in queries]  # distinct, the truth last
        cells, cell = np.unique([c for _, c in queries], axis=1, return_inverse=True)
        U, G = log_weights.shape[1], cells.shape[1]
        out = np.empty((len(np.unique(self.batch)), G, U))
        for some in blocks(U, len(self.batch) * G):
            at = slice(block.start + some.start, block.start + some.stop)
            found, _ = self._masses(at, [c[:, some] for c in codes], normed=False)
            total = np.repeat(log_weights[:, None, some], G, axis=1)  # shape (H, G, some)
            for f, which in zip(found, cells, strict=True):
                total += f[:, which] - f[:, -1:]
            out[:, :, some] = log_sums_of_batches(total, self.batch, axis=0)
        return out[:, cell.reshape(-1)]

    def _masses(
        self, block: slice, guesses: Sequence[Codes], *, normed: bool
    ) -> tuple[list[Array], Array]:
        """log g of rows (G_c, U, p) by regression, (H, G_c, U); if ``normed`` log c, (H, U)."""
        unknown, H, U = self.unknown, len(self.y), guesses[0].shape[1]
        powers = np.array([1.0 - unknown.m] + [1.0] * unknown.m)
        own, norm, found = self._own(block), np.zeros((H, U)), []
        for c, (part, (V, mean, a, b)) in enumerate(zip(unknown.parts, self.tables, strict=True)):
            G, p = len(guesses[c]), guesses[c].shape[2]
            codes = guesses[c].astype(float)
            positive = isinstance(part.family, LogNormal)
            impossible = positive & (codes[:, :, part.column] <= 0)
            codes[impossible, part.column] = 1.0
            rows = part.rows(codes.reshape(-1, p), SOURCE)
            pair = rows.X.reshape(G, U, -1), rows.y.reshape(G, U)
            posteriors = V, mean, a[0], b
            X = unknown.predictors(c, own.reshape(-1, p) if unknown.moves(c) else own[0])
            X = np.broadcast_to(X.reshape(-1, U, unknown.width(c)), (H, U, unknown.width(c)))
            own_rows = X, part.inside(own[:, :, part.column])
            out, more = tempered(posteriors, powers, own_rows, pair, normed=normed)
            norm += more
            if positive:
                out -= pair[1] * part.scaling.by + part.scaling.at
            out[:, impossible] = -np.inf
            found.append(out)
        return found, norm

    def _own(self, block: slice) -> Codes:
        """The targets' rows in each draw, (H, U, p): their own where known, else as imputed."""
        codes = np.repeat(self.targets.profiles[block][None].astype(float), len(self.y), axis=0)
        record, records = self.targets.record[block], self.unknown.records
        hidden = np.isin(record, records)
        place = np.searchsorted(records, record[hidden])
        for c, part in enumerate(self.unknown.parts):
            codes[:, hidden, part.column] = table_outcomes(part, self.y[:, c, place])
        return codes
