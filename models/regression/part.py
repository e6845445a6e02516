"""One regression of a sequence: its design, family, prior and scales; and draws of its parameters.

What leaves this module is on the original scale, `Rows` excepted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import Codes, Microdata

from .design import CONSTANT, Design
from .families import (
    Bernoulli,
    Binomial,
    CategoricalLogit,
    Family,
    LogNormal,
    Normal,
    OrderedLogit,
    StudentT,
)
from .prior import RegressionPrior, Scaling

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Rows on the scale that is sampled: ``X`` (n, k), ``y`` (n,), ``trials`` (n,) or None.

    ``weights`` (n,) of the records in a pseudo-posterior, or None.
    """

    X: Array
    y: Array
    trials: Array | None
    weights: Array | None = None

    def and_also(self, other: "Rows") -> "Rows":
        """These rows and others."""
        trials = self.trials
        if trials is not None and other.trials is not None:
            trials = np.concatenate([trials, other.trials])
        weights = self.weights
        if weights is not None:  # synthetic rows count in full
            weights = np.append(weights, np.ones(len(other.y)))
        return Rows(
            X=np.vstack([self.X, other.X]),
            y=np.append(self.y, other.y),
            trials=trials,
            weights=weights,
        )

    def but(self, i: int) -> "Rows":
        """All rows but one."""
        return self.only(np.arange(len(self.y)) != i)

    def only(self, some: npt.NDArray[np.bool_]) -> "Rows":
        """Some of the rows."""
        trials = None if self.trials is None else self.trials[some]
        weights = None if self.weights is None else self.weights[some]
        return Rows(X=self.X[some], y=self.y[some], trials=trials, weights=weights)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coefficients:
    """H draws on the original scale.

    ``beta`` (H, k), or (H, k, K - 1) for nominal outcomes; ``extra`` further parameters by name,
    each (H,), thresholds (H, K - 1); ``n_chains``: draws are chain after chain.
    """

    beta: Array
    extra: Mapping[str, Array]
    n_chains: int

    def __len__(self) -> int:
        return len(self.beta)

    def at(self, h: int) -> "Coefficients":
        """One draw."""
        return self.take(np.array([h]))

    def take(self, which: npt.NDArray[np.integer]) -> "Coefficients":
        """Some of the draws, as one chain."""
        extra = {k: v[which] for k, v in self.extra.items()}
        return Coefficients(beta=self.beta[which], extra=extra, n_chains=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """One regression: of column number ``column`` on its design."""

    microdata: Microdata
    column: int
    design: Design
    family: Family
    prior: RegressionPrior
    scaling: Scaling

    @classmethod
    def of(
        cls, response: str, formula: str, family: Family, prior: RegressionPrior, data: Microdata
    ) -> "Part":
        """Learn coding and scales from the confidential table."""
        ordered = isinstance(family, OrderedLogit)
        design = Design.of(response, formula, data, intercept=not ordered)
        column = data.columns.index(response)
        constant = design.names.index(CONSTANT) if CONSTANT in design.names else -1
        outcome = _outcome(family, data.codes[:, column])
        _check_varies(response, family, outcome)
        if not (design.names or family.extra):
            raise InputError(
                f"the formula of {response!r}, {formula!r}, has no term, which leaves "
                f'{type(family).__name__} no parameter; give at least "1"'
            )
        X = design.matrix(data, data.codes, "the original")
        scaling = Scaling.of(X, outcome, constant, centred=constant >= 0 or ordered)
        return cls(
            microdata=data,
            column=column,
            design=design,
            family=family,
            prior=prior,
            scaling=scaling,
        )

    @property
    def name(self) -> str:
        """The modelled column."""
        return self.design.response

    @property
    def n_levels(self) -> int:
        """Levels of the outcome; 0 for numbers."""
        return self.microdata.variables[self.column].n_levels

    @property
    def exact(self) -> bool:
        """Whether the posterior is known in closed form."""
        return isinstance(self.family, Normal | LogNormal)

    @property
    def uses(self) -> frozenset[int]:
        """Numbers of all columns that its density depends on."""
        names = [*self.design.columns, self.name, *self._trials_column()]
        return frozenset(self.microdata.columns.index(c) for c in names)

    def check(self, codes: Codes, source: str) -> None:
        """Outcomes that the family cannot have are an error."""
        check_outcome(self.name, self.family, self.microdata, codes, source)

    def rows(self, codes: Codes, source: str = "the guesses") -> Rows:
        """Coded rows (R, p) on the scale that is sampled."""
        X = self.scaling.inside(self.design.matrix(self.microdata, codes, source))
        y = codes[:, self.column].astype(float)
        outcome = _outcome(self.family, y)
        inside = y if outcome is None else (outcome - self.scaling.at) / self.scaling.by
        return Rows(X=X, y=inside, trials=self.trials(codes))

    def trials(self, codes: Codes) -> Array | None:
        """Numbers of trials of coded rows, for binomial outcomes."""
        if not isinstance(self.family, Binomial):
            return None
        columns = self._trials_column()
        if not columns:
            return np.full(len(codes), float(self.family.trials))
        return codes[:, self.microdata.columns.index(columns[0])].astype(float)

    def eta(self, codes: Codes, draws: Coefficients, source: str = "the guesses") -> Array:
        """Linear predictors, shape (R, H) or (R, H, K - 1)."""
        X = self.design.matrix(self.microdata, codes, source)
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

    def draw(self, codes: Codes, draw: Coefficients, rng: np.random.Generator) -> Array:
        """A synthetic value for each coded row, under one draw of the parameters."""
        eta = self.eta(codes, draw, "the synthetic table")[:, 0]
        extra = {k: v[0] for k, v in draw.extra.items()}
        return self.family.draw(eta, extra, self.trials(codes), rng)

    def _trials_column(self) -> Sequence[str]:
        trials = getattr(self.family, "trials", None)
        return [trials] if isinstance(trials, str) else []

    def scales(self) -> Array:
        """Prior standard deviations of the standardised coefficients, shape (k,)."""
        scales = np.full(len(self.design.names), self.prior.slopes)
        if self.scaling.constant >= 0:
            scales[self.scaling.constant] = self.prior.intercept
        return scales


def n_outcomes(part: Part) -> tuple[int, ...]:
    """Trailing shape of the coefficients: (K - 1,) for nominal outcomes."""
    return (part.n_levels - 1,) if isinstance(part.family, CategoricalLogit) else ()


def _outcome(family: Family, y: npt.NDArray[Any]) -> Array | None:
    """The outcome as it is standardised; None for families that leave it as it is."""
    if isinstance(family, LogNormal):
        with np.errstate(divide="ignore", invalid="ignore"):
            logs: Array = np.log(y.astype(float))
        return logs
    return y.astype(float) if isinstance(family, Normal | StudentT) else None


def check_outcome(
    name: str, family: Family, data: Microdata, codes: Codes, source: str = ""
) -> None:
    """Outcomes that their family cannot have are an error; ``source``: "of release 1"."""
    y = codes[:, data.columns.index(name)]
    what, where = type(family).__name__, f"column {name!r} {source}".rstrip()
    if family.kind == "count" and ((y < 0).any() or (y != np.round(y)).any()):
        bad = int(((y < 0) | (y != np.round(y))).sum())
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
        _check_trials(where, y, family.trials, data, codes)


def _check_trials(
    where: str, y: npt.NDArray[Any], trials: int | str, data: Microdata, codes: Codes
) -> None:
    if isinstance(trials, str) and trials not in data.numbers:
        raise InputError(f"{where} has its trials in {trials!r}, which is no number; convert it")
    most = codes[:, data.columns.index(trials)] if isinstance(trials, str) else trials
    if (y > most).any():
        raise InputError(
            f"{where} exceeds the number of trials ({trials!r}) for {int((y > most).sum())} "
            "records; give trials that are large enough"
        )


def _check_varies(response: str, family: Family, outcome: Array | None) -> None:
    if outcome is not None and np.ptp(outcome) <= 1e-12 * np.abs(outcome).max():
        raise InputError(
            f"column {response!r} has the same value for every record; a {type(family).__name__} "
            "regression cannot be fitted to it; leave it out"
        )
