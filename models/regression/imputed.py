"""Several releases of normal regressions, the rows that an intruder does not know imputed.

A sweep draws theta^(l) ~ p(theta | y, Z^(l)) in closed form, proposes a row for every unknown
record between them, and takes or leaves them one after another. Other unknown rows are integrated
out of the target's density; both are derived in `docs/regression.md`.
"""

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
    def of(cls, held: ExactPart, tables: Sequence[Codes], n_imputed: int) -> "Sums":
        """Join known rows and those of each data set."""
        prior, known = held.known.prior, held.known.data
        rows = [known, *(known.plus(z) for z in held.moments(tables))]
        counts = np.array([r.n + n_imputed - np.isinf(prior.tau).sum() for r in rows])
        return cls(
            xx=np.stack([r.xx for r in rows]),
            xy=np.stack([r.xy for r in rows]),
            yy=np.array([r.yy for r in rows]),
            a=prior.a + 0.5 * counts,
            precision=prior.precision,
            b=prior.b,
        )


class Fits(NamedTuple):
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

    def start(self, c: int) -> Array:
        """Outcomes (J, n_U) as the first data set shows them."""
        return np.stack([inside(p, self.codes[:, p.column]) for p in self.parts])

    def chain(self, state: Array) -> "_Chain":
        """A chain from outcomes (J, n_U)."""
        return _Chain(self, state)

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

    def fits(self, c: int, X: Array, y: Array) -> Fits:
        """Posteriors of a regression, given imputed rows X (n_U, k) and outcomes y (n_U,)."""
        sums = self.sums[c]
        found = Fits(*(np.empty(x.shape) for x in (sums.xx, sums.xy, sums.yy, sums.xx)))
        imputed, prior = (X.T @ X, X.T @ y, float(y @ y)), (sums.precision, sums.b)
        proper = (sums.a > 0.5).all()
        if not proper or not posteriors((sums.xx, sums.xy, sums.yy), imputed, prior, *found):
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
    chain, kept = unknown.chain(state), []
    for _ in range(tune):
        chain.sweep(rng)
    for _ in range(draws):
        for _ in range(THIN):
            chain.sweep(rng)
        kept.append(chain.draw())
        tick(1)
    return kept, chain.state()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImputedPosterior:
    """Draws of the unknown rows, of regressions that go together and chain by chain.

    ``unknown``: what the chains of each work on, an `Unknown` alone or some `UnknownCounts`; they
    say how a chain starts and goes on from a state, and make the predictive of its draws.
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


class _Chain:
    """Unknown rows now: ``codes`` (n_U, p), predictors ``X`` (J, n_U, k) padded, ``y`` (J, n_U)."""

    def __init__(self, unknown: Unknown, y: Array) -> None:
        self.unknown, self.y = unknown, y.copy()
        self.codes = unknown.codes.astype(float)
        self.J = range(len(unknown.parts))
        self.X = np.zeros((*y.shape, max(unknown.width(c) for c in self.J)))
        for c in self.J if y.shape[1] else ():
            self.codes[:, unknown.parts[c].column] = outside(unknown.parts[c], y[c])
        for c in self.J if y.shape[1] else ():
            self._place(c, self.codes, self.X)

    def state(self) -> Array:
        """From where another chain goes on."""
        return self.y.copy()

    def draw(self) -> tuple[Array, list[Fits]]:
        """Outcomes as they are, and what they say of the parameters."""
        return self.y.copy(), self.fits()

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
        if not impute(rng, *tables, power, (self.X, self.y), (X, y), log_ratio):
            raise ModelError(
                "a record alone determines a coefficient, which has no posterior without it under "
                "a flat prior; give finite prior scales"
            )
        taken = (self.y != before).any(axis=0)
        self.codes[taken] = codes[taken]

    def _proposed(
        self, found: list[Fits], rng: np.random.Generator
    ) -> tuple[Codes, Array, Array, Array]:
        """Rows between those of theta^(l), and the log ratio prod_l f_l / q of new to old."""
        codes, X, y = self.codes.copy(), self.X.copy(), np.empty_like(self.y)
        log_ratio = np.zeros(y.shape[1])
        for c, part in enumerate(self.unknown.parts):
            beta, precision = np.empty(found[c].mean[1:].shape), np.empty(self.unknown.m)
            a, fits = self.unknown.sums[c].a, found[c]
            draw(rng, fits.mean[1:], a[1:], fits.b[1:], fits.half[1:], beta, precision)
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
class ImputedPredictive:
    """Draws of p(row | other rows, Z^(1..m)), rows as the target's and as guessed."""

    unknown: Unknown
    y: Array  # shape (H, J, n_U): the imputed outcomes as they are sampled
    # V (H, m + 1, k, k), mean (H, m + 1, k), a (m + 1,), b (H, m + 1) of each regression: given the
    # table alone, and with each data set of the release
    tables: Sequence[tuple[Array, Array, Array, Array]]
    targets: Targets
    batch: Ints  # shape (H,)

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
        m, H, U = self.unknown.m, len(self.y), guesses[0].shape[1]
        powers = np.array([1.0 - m] + [1.0] * m)
        own, norm = self._own(block), np.zeros((H, U))
        found = []
        for c, part in enumerate(self.unknown.parts):
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
        for c, part in enumerate(self.unknown.parts):
            codes[:, hidden, part.column] = outside(part, self.y[:, c, place])
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
