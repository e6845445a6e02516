"""One regression of a sequence: design, family, prior, scales, draws; and its model in PyMC.

Design matrices are formulas evaluated on coded rows, real or hypothetical. What leaves this module
is on the original scale, `SampledRows` excepted.
"""

import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._compat import group
from bayes_risk._core.arrays import Array, Flags, Rng
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import one_of
from bayes_risk.data.microdata import Codes, Microdata, Number
from bayes_risk.data.variables import is_numeric
from bayes_risk.models.fits.sampling import Length, kept_chains

from .families import (
    Bernoulli,
    Binomial,
    CategoricalLogit,
    Family,
    OrderedLogit,
    RegressionPrior,
    Scaling,
    first_cuts,
    trials_column,
)
from .formulas import Reading, UnseenLevels, parse

CONSTANT = "Intercept"
NO_SCALING = Scaling(centre=np.zeros(0), scale=np.ones(0), constant=-1, at=0.0, by=1.0)


def _failed(what: str, reading: Reading, error: BaseException) -> InputError:
    """The factor and the kind of error; what an error says may hold values of records."""
    inner = error.__cause__ or error.__context__ or error
    factors = [name for name in reading.factors if f"factor `{name}`" in str(error)]
    where = f"{max(factors, key=len)!r} fails" if factors else "it fails"
    return InputError(
        f"{what}: {where} with {type(inner).__name__}; check the kinds of its columns and its "
        "arguments"
    )


def frame_of(microdata: Microdata, codes: Codes, columns: Sequence[str]) -> pd.DataFrame:
    """Coded rows as formulas see them: numbers, and pandas categories with every level."""
    frame: dict[str, Any] = {}
    for name in columns:
        j = microdata.columns.index(name)
        variable, values = microdata.variables[j], codes[:, j]
        if isinstance(variable, Number):
            frame[name] = values.astype(float)
        elif is_numeric(variable.dtype) and not variable.missing:
            frame[name] = np.array(variable.levels, dtype=float)[values.astype(np.int64)]
        else:
            levels = pd.Index(variable.labels)
            frame[name] = pd.Categorical.from_codes(values.astype(np.int64), levels)
    return pd.DataFrame(frame, index=pd.RangeIndex(len(codes)))


class SampledRows(NamedTuple):
    """Rows on the scale that is sampled."""

    X: Array  # (n, k)
    y: Array  # (n,)
    trials: Array | None  # (n,), of binomial outcomes
    weights: Array | None = None  # (n,): of the records in a pseudo-posterior

    def and_also(self, other: "SampledRows") -> "SampledRows":
        """These rows and others, which count in full."""
        pairs = zip(self, (*other[:3], np.ones(len(other.y))), strict=True)
        both: Any = (None if a is None or b is None else np.concatenate([a, b]) for a, b in pairs)
        return SampledRows(*both)

    def only(self, some: Flags) -> "SampledRows":
        """Some of the rows."""
        rows: Any = (None if x is None else x[some] for x in self)
        return SampledRows(*rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coefficients:
    """H draws on the original scale, chain after chain."""

    beta: Array  # (H, k), or (H, k, K - 1) of nominal outcomes
    extra: Mapping[str, Array]  # further parameters, (H,), thresholds (H, K - 1)
    n_chains: int

    @classmethod
    def outside(
        cls, part: "Part", beta: Array, extra: Mapping[str, Array], n_chains: int
    ) -> "Coefficients":
        """Draws as they were sampled, taken to the original scale."""
        slopes, known = part.scaling.outside(beta, extra)
        return cls(beta=slopes, extra=known, n_chains=n_chains)

    def __len__(self) -> int:
        return len(self.beta)

    def and_then(self, more: "Coefficients") -> "Coefficients":
        """Further draws of the same chains behind these."""

        def together(a: Array, b: Array) -> Array:
            both = [x.reshape(self.n_chains, -1, *x.shape[1:]) for x in (a, b)]
            joined = np.concatenate(both, axis=1)
            return joined.reshape(-1, *joined.shape[2:])

        extra = {k: together(v, more.extra[k]) for k, v in self.extra.items()}
        return replace(self, beta=together(self.beta, more.beta), extra=extra)

    def take(self, which: npt.NDArray[np.integer]) -> "Coefficients":
        """Some of the draws, as one chain."""
        extra = {k: v[which] for k, v in self.extra.items()}
        return Coefficients(beta=self.beta[which], extra=extra, n_chains=1)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One regression: of column number ``column`` on what its formula makes of a row."""

    microdata: Microdata
    column: int
    formula: str
    names: tuple[str, ...]  # (k,): of the coefficients as formulaic prints them
    columns: tuple[str, ...]  # the table's, that the formula uses
    coding: Reading  # learnt from the confidential table
    family: Family
    prior: RegressionPrior
    scaling: Scaling = field(default_factory=lambda: NO_SCALING)
    KEPT_PARTS: ClassVar = ("microdata", "column", "formula", "family", "prior")

    @classmethod
    def of_parts(
        cls, microdata: Microdata, column: int, formula: str, family: Family, prior: Any
    ) -> "Part":
        """What was saved, its formula learnt anew."""
        return cls.from_formula(microdata.columns[column], formula, family, prior, microdata)

    @classmethod
    def from_formula(
        cls, response: str, formula: str, family: Family, prior: RegressionPrior, data: Microdata
    ) -> "Part":
        """Learn coding (levels, knots, centres) and scales from the confidential table."""
        ordered = isinstance(family, OrderedLogit)  # has thresholds in the place of an intercept
        reading, column = parse(response, formula), data.columns.index(response)
        columns = tuple(reading.columns)
        try:
            coding, matrix = reading.learnt(frame_of(data, data.codes, columns))
        except Exception as error:
            what = f"the formula of {response!r}, {formula!r}, cannot be evaluated"
            raise _failed(what, reading, error) from None
        kept = [not (ordered and name == CONSTANT) for name in coding.names]
        names = tuple(np.array(coding.names, dtype=object)[kept])
        part = cls(data, column, formula, names, columns, coding, family, prior)
        part._check_rows(matrix[:, kept])
        outcome = _outcome(family, data.codes[:, column])
        if outcome is not None and np.ptp(outcome) <= 1e-12 * np.abs(outcome).max():
            raise InputError(
                f"column {response!r} has the same value for every record; a "
                f"{type(family).__name__} regression cannot be fitted to it; leave it out"
            )
        if not (names or family.extra):
            raise InputError(
                f"the formula of {response!r}, {formula!r}, has no term, which leaves "
                f'{type(family).__name__} no parameter; give at least "1"'
            )
        constant = names.index(CONSTANT) if CONSTANT in names else -1
        X = part.matrix(data.codes, "the original")
        scaling = Scaling.from_design(X, outcome, constant, centred=constant >= 0 or ordered)
        return replace(part, scaling=scaling)

    def _check_rows(self, matrix: Array) -> None:
        """A row's terms must be its own: x - x.mean() would take the mean of the guesses."""
        some = np.array([len(matrix) - 1, 0])
        alone = self.matrix(self.microdata.codes[some], "the original")
        same = np.isclose(alone, matrix[some], rtol=1e-9, atol=1e-12, equal_nan=True)
        if not same.all():
            term = self.written[int(np.argmin(same.all(axis=0)))]
            raise InputError(
                f"term {term!r} of the formula of {self.name!r} looks at several records at "
                "once; use center(x), scale(x), poly(x, 2) or bs(x), which keep what they learn "
                "from the original"
            )

    def matrix(self, codes: Codes, source: str = "the guesses") -> Array:
        """Design matrix of coded rows (R, p), (R, k), of the original's levels alone."""
        try:
            found = self.coding.matrix(frame_of(self.microdata, codes, self.columns))
        except UnseenLevels as error:
            term, rows = error.args
            raise InputError(
                f"term {term!r} of the formula of {self.name!r} makes levels of numbers, "
                f"and {rows} rows of {source} have levels that the original does not; take "
                "guesses and releases from its levels, or use numbers as numbers"
            ) from None
        except Exception as error:
            what = f"the formula of {self.name!r}, {self.formula!r}, cannot be evaluated for"
            raise _failed(f"{what} {source}", self.coding, error) from None
        if len(self.names) < found.shape[1]:
            found = found[:, [name in self.names for name in self.coding.names]]
        bad = ~np.isfinite(found).all(axis=0)
        if bad.any():
            term = self.written[int(np.argmax(bad))]
            raise InputError(
                f"term {term!r} of the formula of {self.name!r} is not finite for some rows of "
                f"{source}; change the term, or the values that it is applied to"
            )
        return found

    @property
    def name(self) -> str:
        """The modelled column."""
        return self.microdata.columns[self.column]

    @property
    def written(self) -> list[str]:
        """What messages call the coefficients: by terms, without levels."""
        pairs = zip(self.coding.names, self.coding.written, strict=True)
        return [term for name, term in pairs if name in self.names]

    @property
    def n_levels(self) -> int:
        """Levels of the outcome; 0 for numbers."""
        return self.microdata.variables[self.column].n_levels

    @property
    def uses(self) -> frozenset[int]:
        """Numbers of all columns that its density depends on."""
        names = [*self.columns, self.name, *trials_column(self.family)]
        return frozenset(self.microdata.columns.index(c) for c in names)

    def rows(self, codes: Codes, source: str = "the guesses") -> SampledRows:
        """Coded rows (R, p) on the scale that is sampled."""
        X = self.scaling.inside(self.matrix(codes, source))
        y = self.inside(codes[:, self.column].astype(float))
        return SampledRows(X=X, y=y, trials=self.trials(codes))

    def inside(self, y: Array) -> Array:
        """Outcomes on the scale that is sampled."""
        outcome = _outcome(self.family, y)
        return y if outcome is None else (outcome - self.scaling.at) / self.scaling.by

    def trials(self, codes: Codes) -> Array | None:
        """Numbers of trials of coded rows, for binomial outcomes."""
        if not isinstance(self.family, Binomial):
            return None
        columns = trials_column(self.family)
        if not columns:
            return np.full(len(codes), float(self.family.trials))
        return codes[:, self.microdata.columns.index(columns[0])].astype(float)

    def eta(self, codes: Codes, draws: Coefficients, source: str = "the guesses") -> Array:
        """Linear predictors, shape (R, H) or (R, H, K - 1)."""
        X = self.matrix(codes, source)
        nominal = draws.beta.ndim == 3
        eta: Array = (
            np.einsum("rk,hkc->rhc", X, draws.beta, optimize=True) if nominal else X @ draws.beta.T
        )
        return eta

    def log_density(self, codes: Codes, draws: Coefficients) -> Array:
        """log p(y | x, theta_h) of coded rows (R, p), shape (R, H)."""
        y = codes[:, self.column].astype(float)
        eta = self.eta(codes, draws)
        return self.family.log_density(y, eta, draws.extra, self.trials(codes))

    def draw(self, codes: Codes, draw: Coefficients, rng: Rng) -> Array:
        """A synthetic value for each coded row, under one draw of the parameters."""
        eta = self.eta(codes, draw, "the synthetic table")[:, 0]
        extra = {k: v[0] for k, v in draw.extra.items()}
        return self.family.draw(eta, extra, self.trials(codes), rng)

    def centre(self) -> Array:
        """Prior means of the standardised coefficients: of a count's intercept its log mean."""
        out = np.zeros(len(self.names))
        if self.scaling.constant >= 0 and self.family.log_mean:
            mean = self.microdata.codes[:, self.column].mean()
            out[self.scaling.constant] = np.log(max(mean, 1e-3))
        return out

    def scales(self) -> Array:
        """Prior standard deviations of the standardised coefficients, shape (k,)."""
        scales = np.full(len(self.names), self.prior.slopes)
        if self.scaling.constant >= 0:
            scales[self.scaling.constant] = self.prior.intercept
        return scales


def n_outcomes(part: Part) -> tuple[int, ...]:
    """Trailing shape of the coefficients: (K - 1,) for nominal outcomes."""
    return (part.n_levels - 1,) if isinstance(part.family, CategoricalLogit) else ()


def _outcome(family: Family, y: npt.NDArray[Any]) -> Array | None:
    """The outcome as it is standardised; None for families that leave it as it is."""
    if family.kind == "positive":
        with np.errstate(divide="ignore", invalid="ignore"):
            logs: Array = np.log(y.astype(float))
        return logs
    return y.astype(float) if family.kind == "number" else None


def check_family(
    name: str, family: Family, data: Microdata, codes: Codes, source: str = ""
) -> None:
    """Outcomes that their family cannot have are an error; ``source``: "of release 1"."""
    y = codes[:, data.columns.index(name)]
    what, where = type(family).__name__, f"column {name!r} {source}".rstrip()
    if family.kind == "count" and (bad := int(((y < 0) | (y != np.round(y))).sum())):
        raise InputError(
            f"{where} has {bad} negative or fractional values, and {what} models counts; "
            'choose another family ("normal", "lognormal"), or round it first'
        )
    if family.kind == "positive" and (y <= 0).any():
        raise InputError(
            f"{where} has {int((y <= 0).sum())} values that are not above 0, and {what} "
            'models positive numbers; choose "normal", or shift the column'
        )
    levels = data.variables[data.columns.index(name)].n_levels
    if isinstance(family, Bernoulli) and levels != 2:
        raise InputError(
            f'{where} has {levels} levels, and Bernoulli models 2; choose "categorical" or '
            '"ordered"'
        )
    if isinstance(family, Binomial):
        trials, columns = family.trials, data.columns
        if isinstance(trials, str) and trials not in data.numbers:
            raise InputError(
                f"{where} has its trials in {trials!r}, which is not a number; convert it"
            )
        most = codes[:, columns.index(trials)] if isinstance(trials, str) else trials
        if (y > most).any():
            raise InputError(
                f"{where} exceeds the number of trials ({trials!r}) for {int((y > most).sum())} "
                "records; give trials that are large enough"
            )


Values = Mapping[str, Array]
TARGET_ACCEPT = 0.9


class Nuts:
    """PyMC's NUTS for one regression, slow to make (it compiles), quick to use again.

    After the first fit the metric is the covariance of its draws, so later fits need a short
    warm-up. One fit at a time: threads wait for each other.
    """

    def __init__(self, part: Part, nuts_sampler: str) -> None:
        self.part, self.nuts_sampler = part, nuts_sampler
        self.spread: Array | None = None  # the metric, once it is learnt
        self.model: Any = None
        self.step: Any = None
        self.compiled: Any = None  # nutpie's
        self.data: dict[str, Array] = {}
        self.others: dict[str, Nuts] = {}  # of the same regression under other priors
        self.lock = threading.Lock()

    KEPT_PARTS: ClassVar = ("part", "nuts_sampler", "spread")

    @classmethod
    def of_parts(cls, part: Part, nuts_sampler: str, spread: Array | None) -> "Nuts":
        """What was saved; it compiles when it samples."""
        found = cls(part, one_of("nuts_sampler", nuts_sampler, ("pymc", "nutpie")))
        found.spread = spread
        return found

    def of(self, part: Part) -> "Nuts":
        """The same regression under another prior, compiled once for each."""
        fresh = Nuts(part, self.nuts_sampler)
        return self.others.setdefault(repr(part.prior), fresh)

    def run(
        self,
        rows: SampledRows,
        length: Length,
        *,
        start: list[Values] | None,
        rng: Rng,
        tick: Any = lambda done: None,
    ) -> dict[str, Array]:
        """Draws of the sampled parameters by name, each of shape (chains, draws, ...)."""
        with self.lock:
            self._give(rows)
            points = start or [self._first(rng) for _ in range(length.chains)]
            trace = kept_chains(lambda: self._drawn(points, length, rng, tick), length)
            posterior = group(trace, "posterior")
            found = {str(k): v.to_numpy() for k, v in posterior.data_vars.items()}
            if start is None:
                self._learn_metric(found)
        return found

    def begun(self, rows: SampledRows, length: Length, *, rng: Rng, **how: Any) -> dict[str, Array]:
        """A chain's start in the place of all draws, as `run` gives them."""
        self._give(rows)
        shape = length.chains, length.draws
        return {k: np.broadcast_to(v, (*shape, *v.shape)) for k, v in self._first(rng).items()}

    def _give(self, rows: SampledRows) -> None:
        import pymc as pm

        self.data = data_of(self.part, rows)
        if self.model is None:
            self.model = pymc_regression(self.part, rows)
            return
        with self.model:
            pm.set_data(self.data)

    def _first(self, rng: Rng) -> dict[str, Array]:
        """Prior centres, slightly moved: chains start apart."""
        shapes = self.model.eval_rv_shapes()
        point = {}
        for rv in self.model.free_RVs:
            value = START.get(rv.name, np.zeros)(tuple(shapes[rv.name]))
            moved = 0.1 * rng.standard_normal(value.shape) if rv.name == "beta" else 0.0
            point[rv.name] = value + moved
        if "beta" in point:
            point["beta"] += self.part.centre().reshape(-1, *[1] * (point["beta"].ndim - 1))
        return point

    def _drawn(self, points: list[Any], length: Length, rng: Rng, tick: Any) -> Any:
        if self.nuts_sampler == "nutpie":
            return self._nutpie(length, rng)
        import pymc as pm

        options = length.options(1, rng) | {"initvals": points}
        with self.model, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTensor's linker, and of overflows when tuning
            self._compile()
            return pm.sample(step=self.step, callback=lambda trace, draw: tick(1), **options)

    def _compile(self) -> None:
        """The step, made once."""
        import pymc as pm

        if self.step is None:
            self.step = pm.NUTS(target_accept=TARGET_ACCEPT, rng=np.random.default_rng(0))
            if self.spread is not None:
                self._set_metric(self.spread)

    def _nutpie(self, length: Length, rng: Rng) -> Any:
        """The same by nutpie, which finds its own starts and metric."""
        import nutpie

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.compiled is None:
                self.compiled = nutpie.compile_pymc_model(self.model)
            return nutpie.sample(
                self.compiled.with_data(**self.data),
                draws=length.draws,
                tune=max(length.tune, 200),
                chains=length.chains,
                cores=1,
                target_accept=TARGET_ACCEPT,
                seed=int(rng.integers(2**31)),
                progress_bar=False,
            )

    def _learn_metric(self, found: Values) -> None:
        if self.nuts_sampler == "nutpie":
            return
        with self.model, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._compile()  # not yet, if the draws were kept by an earlier run
        columns = []
        for variable in self.step.vars:
            name, _, how = variable.name.partition("_")
            values = found[name].reshape(-1, *found[name].shape[2:])
            columns.append(UNBOUNDED[how](values).reshape(len(values), -1))
        draws = np.hstack(columns)
        spread = np.atleast_2d(np.cov(draws, rowvar=False))
        trusted = len(draws) / (len(draws) + 10.0 * len(spread))  # few draws tell no correlation
        self.spread = trusted * spread + (1.0 - trusted) * np.diag(np.diag(spread))
        self._set_metric(self.spread)

    def _set_metric(self, spread: Array) -> None:
        from pymc.step_methods.hmc.integration import CpuLeapfrogIntegrator
        from pymc.step_methods.hmc.quadpotential import QuadPotentialFull

        metric = QuadPotentialFull(spread, rng=np.random.default_rng(0))
        # The integrator holds the metric too. With another there, momenta and energies disagree,
        # and every warm fit samples a wrong distribution (test_warm_starts_sample_the_same).
        self.step.potential = metric
        self.step.integrator = CpuLeapfrogIntegrator(metric, self.step._logp_dlogp_func)


def _ordered(values: Array) -> Array:
    return np.hstack([values[:, :1], np.log(np.diff(values, axis=1))])


START: dict[str, Any] = {
    "sigma": np.ones,
    "nu": lambda shape: np.full(shape, 10.0),
    "spread": np.ones,
    "cut": first_cuts,
}
UNBOUNDED: dict[str, Any] = {"": np.asarray, "log__": np.log, "ordered__": _ordered}


def data_of(part: Part, rows: SampledRows) -> dict[str, Array]:
    """What the model is given; of nominal outcomes, level counts of distinct predictor rows."""
    if isinstance(part.family, CategoricalLogit):
        _, first, row = np.unique(rows.X, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)  # rows in the order in which they first come
        place = np.argsort(order)[row.reshape(-1)]
        counts = np.zeros((len(first), part.n_levels))
        once = 1.0 if rows.weights is None else rows.weights
        np.add.at(counts, (place, rows.y.astype(np.int64)), once)
        return {"X": rows.X[first[order]], "y": counts}
    trials = {} if rows.trials is None else {"trials": rows.trials}
    weights = {} if rows.weights is None else {"weights": rows.weights}
    return {"X": rows.X, "y": rows.y, **trials, **weights}


def pymc_regression(part: Part, rows: SampledRows) -> Any:
    """The regression as a PyMC model on standardised predictors; free variables named as draws."""
    import pymc as pm

    prior, k = part.prior, rows.X.shape[1]
    if not prior.proper:
        raise InputError(
            f"the prior of {part.name!r} is flat, which only normal and log-normal regressions can "
            "have; give finite scales"
        )
    scales, centre, tail = part.scales(), part.centre(), n_outcomes(part)
    with pm.Model() as model:
        data = {name: pm.Data(name, values) for name, values in data_of(part, rows).items()}
        wide = (slice(None), *[None] * len(tail))
        eta: Any = pm.math.zeros_like(data["y"][:, 1:] if tail else data["y"])
        if k:
            beta = pm.Normal("beta", centre[wide], scales[wide], shape=(k, *tail))
            eta = pm.math.dot(data["X"], beta)
        part.family.observe(pm, eta, data, prior, part.n_levels)
        if "weights" in data:  # of a pseudo-posterior: the rest of each record is taken back
            log_p = pm.logp(model["outcome"], data["y"])
            pm.Potential("taken_back", pm.math.sum((data["weights"] - 1.0) * log_p))
    return model


def extra_of(found: Values) -> dict[str, Array]:
    """Further parameters as families name them, from what was sampled."""
    extra = {k: v for k, v in found.items() if k not in ("beta", "spread")}
    if "spread" in found:
        extra["alpha"] = found["spread"] ** -2.0
    return extra
