"""Several releases of normal regressions, the rows that an intruder does not know imputed.

A sweep draws theta^(l) ~ p(theta | y, Z^(l)) in closed form, proposes a row for every unknown
record between them, and takes or leaves them one after another. Other unknown rows are integrated
out of the target's density; both are derived in `docs/regression.md`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.errors import ModelError
from bayes_risk._core.parallel import Ticks, in_order
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Targets
from bayes_risk.models.fits.sampling import blocks, log_sums_of_batches

from .families import LogNormal
from .kernels import impute, tempered
from .part import Part
from .posterior import CHAINS, ConjugatePrior, ExactPart, Moments, NormalInverseGamma

SOURCE = "the imputed records"
WARM_UP = 150  # sweeps; they forget half of where they were in each
THIN = 2

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
        cls, held: Sequence[ExactPart], seen: Flags, tables: Sequence[Codes], first: Codes
    ) -> "Unknown":
        """``tables`` of released rows; ``first``: the first data set, whole."""
        records, known = np.flatnonzero(~seen), []
        for one in held:
            data = one.known.data
            rows = zip(data, *(data.plus(z) for z in one.moments(tables)), strict=True)
            known.append(Moments(*map(np.stack, rows)))
        return cls(
            parts=[one.part for one in held],
            priors=[one.known.prior for one in held],
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
                codes[:, part.column] = outside(part, values)
            for c in range(len(y)):
                X[c, :, : self.width(c)] = self.predictors(c, codes)
        return y, codes, X

    def chain(
        self,
        state: State,
        *,
        draws: int,
        tune: int,
        rng: np.random.Generator,
        tick: Callable[[int], None],
    ) -> tuple[list[Draw], State]:
        """`tune` sweeps thrown away, then draws, and where the chain stopped."""
        y, codes, X = (x.copy() for x in state)
        state, kept = (y, codes, X), list[Draw]()
        for _ in range(tune):
            self.sweep(state, rng)
        for _ in range(draws):
            for _ in range(THIN):
                self.sweep(state, rng)
            kept.append((y.copy(), [(f.V, f.mean, f.a, f.b) for f in self.fits(state)]))
            tick(1)
        return kept, state

    def sweep(self, state: State, rng: np.random.Generator) -> None:
        """Draw theta^(1..m), propose a row for everybody, take or leave them one by one."""
        y, codes, X = state
        if not y.shape[1]:
            return
        found = self.fits(state)
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
        self, state: State, found: list[NormalInverseGamma], rng: np.random.Generator
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
            values = outside(part, y[c])  # those too large or small to be numbers are not taken
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


def outside(part: Part, y: Array) -> Array:
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
        self, draws: int, tune: int, *, rng: np.random.Generator, n_jobs: int, tick: Any
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
        """Number H of draws."""
        return sum(map(len, self.draws))

    def predictives(
        self, targets: Targets, *, rng: np.random.Generator
    ) -> list["ImputedPredictive"]:
        """One of all regressions, which imputed rows tie together."""
        y, fits = zip(*(draw for chain in self.draws for draw in chain), strict=True)
        tables = [tuple(map(np.stack, zip(*each, strict=True))) for each in zip(*fits, strict=True)]
        batch = batch_of_draws(self.n_draws, len(self.draws))
        return [
            ImputedPredictive(
                unknown=self.unknown, y=np.stack(y), tables=tables, targets=targets, batch=batch
            )
        ]

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "ImputedPosterior":
        """As many draws again, chains going on where they stopped."""
        return self._longer(len(self.draws[0]), 0, rng=rng, n_jobs=n_jobs, tick=lambda done: None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImputedPredictive:
    """Draws of p(row | other rows, Z^(1..m)), rows as the target's and as guessed."""

    unknown: Unknown
    y: Array  # shape (H, J, n_U): the imputed outcomes as they are sampled
    # V (H, m + 1, k, k), mean (H, m + 1, k), a and b (H, m + 1) of each regression: given the
    # table alone, and with each data set of the release
    tables: Sequence[tuple[Array, ...]]
    targets: Targets
    batch: Ints  # shape (H,)

    def log_truth(self, block: slice) -> Array:
        """log p_h(y_i), shape (H, block)."""
        rows = self.targets.profiles[block].astype(float)[None]  # shape (1, U, p)
        found, norm = self._masses(block, [rows] * len(self.tables), normed=True)
        return np.asarray(np.sum(found, axis=0)[:, 0] - norm)

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h p_h(y*) / p_h(y_i): (B, G, block)."""
        truth = self.targets.profiles[block].astype(float)[None]
        asked = [self.targets.rows(part.uses, block) for part in self.unknown.parts]
        codes = [np.concatenate([rows, truth]) for rows, _ in asked]  # distinct, the truth last
        cells, cell = np.unique([c for _, c in asked], axis=1, return_inverse=True)
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
            out, more = tempered(posteriors, powers, self._own_rows(c, own), pair, normed)
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
            codes[:, hidden, part.column] = outside(part, self.y[:, c, place])
        return codes

    def _own_rows(self, c: int, own: Codes) -> tuple[Array, Array]:
        """Of regression c: predictors (H, U, k) and outcomes (H, U)."""
        (H, U, p), part, k = own.shape, self.unknown.parts[c], self.unknown.width(c)
        rows = own.reshape(-1, p) if self.unknown.moves(c) else own[0]
        X = self.unknown.predictors(c, rows).reshape(-1, U, k)
        return np.broadcast_to(X, (H, U, k)), part.inside(own[:, :, part.column])
