"""Several releases of normal regressions, the rows that an intruder does not know imputed.

A sweep draws theta^(l) ~ p(theta | y, Z^(l)) in closed form, proposes a row for every unknown
record between them, and takes or leaves them one after another. Other unknown rows are integrated
out of the target's density; both are derived in `docs/regression.md`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.errors import ModelError
from bayes_risk._core.parallel import Ticks, in_order
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Predictive, Targets
from bayes_risk.models.fits.sampling import blocks, log_sums_of_batches

from .families import LogNormal
from .kernels import draw, impute, posteriors, tempered
from .part import Part
from .posterior import ExactPart

SOURCE = "the imputed records"


class Sums(NamedTuple):
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
    def of(cls, held: ExactPart, tables: Sequence[Codes], n_imputed: int) -> "Sums":
        """Join known rows and those of each data set."""
        prior, known = held.known.prior, held.known.data
        rows = [known, *(known.plus(z) for z in held.moments(tables))]
        xx, xy, yy, n = (np.stack(x) for x in zip(*rows, strict=True))
        a = prior.a + 0.5 * (n + n_imputed - np.isinf(prior.tau).sum())
        return cls(xx, xy, yy, a, prior.precision, prior.b)


class Fits(NamedTuple):
    """Posteriors of one regression, in closed form: V (m + 1, k, k), mean (m + 1, k), b (m + 1,).

    Of all rows of the table, then of these and each data set; V is half'half.
    """

    V: Array
    mean: Array
    b: Array
    half: Array


# Of the unknown rows: outcomes y (J, n_U), codes (n_U, p), predictors X (J, n_U, k), padded
State = tuple[Array, Codes, Array]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unknown:
    """What every chain works on."""

    parts: Sequence[Part]  # J of them, the regressions that made the release, in its order
    sums: Sequence[Sums]  # by regression
    records: Ints  # shape (n_U,): row numbers of the unknown records
    codes: Codes  # shape (n_U, p): their rows as the first data set has them

    @classmethod
    def of(
        cls, parts: Sequence[ExactPart], seen: Flags, tables: Sequence[Codes], first: Codes
    ) -> "Unknown":
        """``tables`` of released rows; ``first``: the first data set, whole."""
        records = np.flatnonzero(~seen)
        return cls(
            parts=[p.part for p in parts],
            sums=[Sums.of(p, tables, len(records)) for p in parts],
            records=records,
            codes=first[records].astype(float),
        )

    @property
    def m(self) -> int:
        """Number of data sets."""
        return len(self.sums[0].yy) - 1

    def start(self, c: int) -> State:
        """Outcomes as the first data set shows them."""
        y = np.stack([inside(part, self.codes[:, part.column]) for part in self.parts])
        codes, X = self.codes.copy(), np.zeros((*y.shape, max(map(self.width, range(len(y))))))
        if y.shape[1]:
            for part, values in zip(self.parts, y, strict=True):
                codes[:, part.column] = outside(part, values)
            for j in range(len(y)):
                X[j, :, : self.width(j)] = self.predictors(j, codes)
        return y, codes, X

    def sweep(self, state: State, rng: np.random.Generator) -> None:
        """Draw theta^(1..m), propose a row for everybody, take or leave them one by one."""
        y, codes, X = state
        if not y.shape[1]:
            return
        found = self.fits(state)
        (new_y, new_codes, new_X), log_ratio = self._proposed(state, found, rng)
        before, tables = y.copy(), self._padded(state, found)
        if not impute(rng, *tables, 1.0 - self.m, (X, y), (new_X, new_y), log_ratio):
            raise ModelError(
                "a record alone determines a coefficient, which has no posterior without it under "
                "a flat prior; give finite prior scales"
            )
        taken = (y != before).any(axis=0)
        codes[taken] = new_codes[taken]

    def drawn(self, state: State) -> tuple[Array, list[Fits]]:
        """Outcomes as they are, and what they say of the parameters."""
        return state[0].copy(), self.fits(state)

    def concerns(self, guessed: set[int]) -> bool:
        """Imputed rows tie all regressions together."""
        return True

    def predictive(self, draws: list[Any], n_chains: int, targets: Targets) -> "ImputedPredictive":
        """Posteriors of every draw, in closed form."""
        tables = []
        for c, sums in enumerate(self.sums):
            V, mean, b, _ = (np.stack(x) for x in zip(*(fits[c] for _, fits in draws), strict=True))
            tables.append((V, mean, sums.a, b))
        return ImputedPredictive(
            unknown=self,
            parts=self.parts,
            y=np.stack([y for y, _ in draws]),
            tables=tables,
            targets=targets,
            batch=batch_of_draws(len(draws), n_chains),
        )

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

    def fits(self, state: State) -> list[Fits]:
        """Posteriors given all rows as they are now, by regression."""
        out = []
        for c, (sums, y, padded) in enumerate(zip(self.sums, state[0], state[2], strict=True)):
            X = padded[:, : self.width(c)]
            found = Fits(*(np.empty(x.shape) for x in (sums.xx, sums.xy, sums.yy, sums.xx)))
            imputed, prior = (X.T @ X, X.T @ y, float(y @ y)), (sums.precision, sums.b)
            proper = (sums.a > 0.5).all()
            if not proper or not posteriors((sums.xx, sums.xy, sums.yy), imputed, prior, *found):
                raise ModelError(
                    f"the records do not determine the coefficients of {self.parts[c].name!r}, and "
                    "its prior is flat; give finite prior scales"
                )
            out.append(found)
        return out

    def _proposed(
        self, state: State, found: list[Fits], rng: np.random.Generator
    ) -> tuple[State, Array]:
        """Rows between those of theta^(l), and the log ratio prod_l f_l / q of new to old."""
        y, codes, X = np.empty_like(state[0]), state[1].copy(), state[2].copy()
        log_ratio = np.zeros(y.shape[1])
        for c, part in enumerate(self.parts):
            beta, precision = np.empty(found[c].mean[1:].shape), np.empty(self.m)
            a, fits, k = self.sums[c].a, found[c], self.width(c)
            draw(rng, fits.mean[1:], a[1:], fits.b[1:], fits.half[1:], beta, precision)
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

    def _padded(self, state: State, found: list[Fits]) -> tuple[Array, Array, Array, Array, Array]:
        """V, X'y, y'y, a (one row left out) and the prior's b, of the table's own posteriors."""
        y, _, X = state
        sums, k = self.sums, X.shape[2]
        V, xy = np.zeros((len(found), k, k)), np.zeros((len(found), k))
        for c, fits in enumerate(found):
            d = self.width(c)
            V[c, :d, :d] = fits.V[0]
            xy[c, :d] = sums[c].xy[0] + X[c, :, :d].T @ y[c]
        yy = np.array([s.yy[0] for s in sums]) + (y**2).sum(axis=1)
        a = np.array([s.a[0] - 0.5 for s in sums])
        return V, xy, yy, a, np.array([s.b for s in sums])


def _log_between(eta: Array, y: Array, precision: Array) -> Array:
    """log prod_l f(y | theta^(l)) / q(y), up to a constant, shape (n_U,); eta (n_U, m)."""
    each = -0.5 * (y[:, None] - eta) ** 2 @ precision
    centre = eta @ (precision / precision.sum())
    return np.asarray(each + 0.5 * precision.mean() * (y - centre) ** 2)


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


def run_chain(
    unknown: Any,
    state: Any,
    *,
    draws: int,
    tune: int,
    rng: np.random.Generator,
    tick: Callable[[int], None],
) -> tuple[list[Any], Any]:
    """`tune` sweeps thrown away, then draws, and where the chain stopped."""
    state, kept = tuple(x.copy() for x in state), []
    for _ in range(tune):
        unknown.sweep(state, rng)
    for _ in range(draws):
        for _ in range(THIN):
            unknown.sweep(state, rng)
        kept.append(unknown.drawn(state))
        tick(1)
    return kept, state


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImputedPosterior:
    """Draws of the unknown rows, of regressions that go together and chain by chain.

    ``unknown``: what the chains of each work on, an `Unknown` alone or some `UnknownCounts`; they
    say how a chain starts, move its state in place, and make the predictive of its draws.
    """

    unknown: Sequence[Any]
    draws: Sequence[Sequence[list[Any]]]
    states: Sequence[Sequence[Any]]

    @classmethod
    def sampled(
        cls, unknown: Sequence[Any], *, chains: int, draws: int, tune: int, **how: Any
    ) -> "ImputedPosterior":
        """Some chains of each; ``how``: rng, n_jobs and tick."""
        starts = [[one.start(c) for c in range(chains)] for one in unknown]
        begun = cls(unknown=unknown, draws=[[[]] * chains for _ in unknown], states=starts)
        return begun._longer(draws, tune, **how)

    def _longer(
        self, draws: int, tune: int, *, rng: np.random.Generator, n_jobs: int, tick: Any
    ) -> "ImputedPosterior":
        """Go on with every chain, each with its own generator: `n_jobs` does not matter."""
        found, states = [], []
        alone = isinstance(self.unknown[0], Unknown)
        children = [rng] if alone else rng.spawn(len(self.unknown))
        for k, child in enumerate(children):
            jobs = [
                partial(run_chain, self.unknown[k], start, draws=draws, tune=tune, rng=own)
                for start, own in zip(self.states[k], child.spawn(len(self.states[k])), strict=True)
            ]
            new = list(in_order(jobs, n_jobs=n_jobs, what="chains", ticks=Ticks(tick, draws)))
            found.append([old + kept for old, (kept, _) in zip(self.draws[k], new, strict=True)])
            states.append([state for _, state in new])
        return replace(self, draws=found, states=states)

    @property
    def n_draws(self) -> int:
        """Number H of draws."""
        return sum(map(len, self.draws[0]))

    def predictives(self, targets: Targets, *, rng: np.random.Generator) -> list[Predictive]:
        """One for all regressions that go together and in which a guess may appear."""
        guessed = set(targets.columns.tolist())
        return [
            one.predictive([draw for chain in chains for draw in chain], len(chains), targets)
            for one, chains in zip(self.unknown, self.draws, strict=True)
            if one.concerns(guessed)
        ]

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "ImputedPosterior":
        """As many draws again, chains going on where they stopped."""
        size = len(self.draws[0][0])
        return self._longer(size, 0, rng=rng, n_jobs=n_jobs, tick=lambda done: None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowsPredictive(ABC):
    """Draws of p(row | other rows, Z^(1..m)), rows as the target's and as guessed."""

    unknown: Any
    parts: Sequence[Part]  # the regressions whose parameters are integrated out together
    targets: Targets
    batch: Ints  # shape (H,)

    @abstractmethod
    def _masses(
        self, block: slice, guesses: Sequence[Codes], *, normed: bool
    ) -> tuple[list[Array], Array]:
        """log g of rows (G_c, U, p) by regression, (H, G_c, U); if ``normed`` log c, (H, U)."""

    def log_truth(self, block: slice) -> Array:
        """log p_h(y_i), shape (H, block)."""
        rows = self.targets.profiles[block].astype(float)[None]  # shape (1, U, p)
        found, norm = self._masses(block, [rows] * len(self.parts), normed=True)
        return np.asarray(np.sum(found, axis=0)[:, 0] - norm)

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h p_h(y*) / p_h(y_i): (B, G, block)."""
        truth = self.targets.profiles[block].astype(float)[None]
        asked = [self.targets.rows(part.uses, block) for part in self.parts]
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImputedPredictive(RowsPredictive):
    """Of normal regressions."""

    y: Array  # shape (H, J, n_U): the imputed outcomes as they are sampled
    # V (H, m + 1, k, k), mean (H, m + 1, k), a (m + 1,), b (H, m + 1) of each regression: given the
    # table alone, and with each data set of the release
    tables: Sequence[tuple[Array, Array, Array, Array]]

    def _masses(
        self, block: slice, guesses: Sequence[Codes], *, normed: bool
    ) -> tuple[list[Array], Array]:
        m, H, U = self.unknown.m, len(self.y), guesses[0].shape[1]
        powers = np.array([1.0 - m] + [1.0] * m)
        own, norm = self._own(block), np.zeros((H, U))
        found = []
        for c, part in enumerate(self.parts):
            G, p = len(guesses[c]), guesses[c].shape[2]
            codes, out = guesses[c].astype(float), np.zeros((H, G, U))
            positive = isinstance(part.family, LogNormal)
            impossible = positive & (codes[:, :, part.column] <= 0)
            codes[impossible, part.column] = 1.0
            rows = part.rows(codes.reshape(-1, p), SOURCE)
            pair = np.ascontiguousarray(rows.X).reshape(G, U, -1), rows.y.reshape(G, U)
            tempered(self.tables[c], powers, self._own_rows(c, own), pair, out, norm, normed)
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
        for c, part in enumerate(self.parts):
            codes[:, hidden, part.column] = outside(part, self.y[:, c, place])
        return codes

    def _own_rows(self, c: int, own: Codes) -> tuple[Array, Array]:
        """Of regression c: predictors (H, U, k) and outcomes (H, U)."""
        (H, U, p), part, k = own.shape, self.parts[c], self.unknown.width(c)
        rows = own.reshape(-1, p) if self.unknown.moves(c) else own[0]
        X = self.unknown.predictors(c, rows).reshape(-1, U, k)
        X = np.ascontiguousarray(np.broadcast_to(X, (H, U, k)))
        return X, inside(part, own[:, :, part.column])
