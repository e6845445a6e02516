"""Bayesian regressions in sequence: each variable given those before it.

p(y_i | Theta) = prod_j f_j(y_ij | x_ij, theta_j), where x_ij is what the formula of variable j
makes of the record's other values. The variables are synthesised in the order of the mapping.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.progress import ProgressOption, shows_progress
from bayes_risk._core.validate import known_columns, one_of, positive
from bayes_risk.data.microdata import Microdata, Number, checked_table
from bayes_risk.data.record_weights import checked_weights, survey_weights
from bayes_risk.data.variables import is_numeric
from bayes_risk.models.fits.sampling import Length
from bayes_risk.models.fits.synthesis import Declaration

from .families import (
    Binomial,
    Family,
    OrderedLogit,
    RegressionPrior,
    family_of,
    power_scaled_prior,
    trials_column,
)
from .fit import RegressionFit, fitted_regressions, from_external
from .formulas import parse
from .part import Part, check_family

SMALLEST = float(np.nextafter(0.0, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Regression(Declaration):
    """Declaration of regressions in sequence.

    Parameters
    ----------
    formulas : mapping of column to formula
        In the order of synthesis; each a right-hand side in formulaic's syntax, "1 + x + C(z)". A
        formula may use columns that are not modelled, and modelled ones that come before, and
        listed functions alone (``docs/reading-the-numbers.md``): it is never run as a program.
    families : mapping of column to family, optional
        "normal", "lognormal", "student", "bernoulli", "poisson", "negative-binomial", "ordered",
        "categorical", or ``Binomial(trials=...)``. By default numbers are normal, categories of two
        levels Bernoulli and of more levels categorical.
    prior : RegressionPrior
        Of every regression that ``priors`` does not name.
    priors : mapping of column to RegressionPrior, optional

    Raises
    ------
    InputError
        No formula, one that cannot be read, uses its own column or a later one; unknown families;
        families or priors of columns without a formula.

    Examples
    --------
    >>> model = Regression({"income": "1 + age", "visits": "1 + income"}, {"visits": "poisson"})
    >>> list(model.formulas)
    ['income', 'visits']
    """

    formulas: Mapping[str, str]
    families: Mapping[str, str | Binomial] = field(default_factory=dict)
    prior: RegressionPrior = field(default_factory=RegressionPrior)
    priors: Mapping[str, RegressionPrior] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.formulas, Mapping) or not self.formulas:
            raise InputError(
                "formulas", 'is not a mapping with a formula; give {"income": "1 + age", ...}'
            )
        names = list(self.formulas)
        known_columns("families", list(self.families), names)
        known_columns("priors", list(self.priors), names)
        for family in self.families.values():
            family_of(family)
        for place, (name, formula) in enumerate(self.formulas.items()):
            columns = {*parse(name, formula).columns, *trials_column(self.families.get(name))}
            for column in sorted(columns):
                if column in names[place:]:
                    raise InputError(
                        f"the formula of {name!r} uses {column!r}, which "
                        f"{'is itself' if column == name else 'comes later'}; order the formulas "
                        "so that each uses earlier ones"
                    )

    def power_scaled(self, power: float) -> "Regression":
        """Every hyper-prior raised to a power: below 1 weaker, above 1 stronger.

        Above 0, and no prior may become improper (Kallioinen et al. 2023).
        """
        positive("power", power)
        priors = {name: power_scaled_prior(p, power) for name, p in self.priors.items()}
        return replace(self, prior=power_scaled_prior(self.prior, power), priors=priors)

    def synthesizes(self, columns: Sequence[str]) -> list[str]:
        return list(self.formulas)

    @shows_progress
    def fit(
        self,
        df: pd.DataFrame,
        draws: int = 1000,
        *,
        weights: Any = None,
        tune: int = 1000,
        chains: int = 4,
        nuts_sampler: str = "pymc",
        levels: Mapping[str, Iterable[Hashable]] | None = None,
        releases: Sequence[pd.DataFrame] = (),
        missing: str = "error",
        sample: bool = True,
        random_seed: int | np.random.Generator | None = None,
        n_jobs: int = 1,
        progress: ProgressOption = None,
    ) -> RegressionFit:
        """Sample p(Theta | y): normal and log-normal regressions exactly, the others by NUTS.

        Parameters
        ----------
        df : DataFrame
            The confidential table. Columns in formulas that are stored as numbers are numbers, all
            others categories; outcomes are what their family requires.
        weights, draws, tune, chains, sample, random_seed, n_jobs, progress
            As in `DPMPM.fit`; chains run one after the other.
        nuts_sampler : {"pymc", "nutpie"}
            Whose NUTS; nutpie comes with ``pip install "bayes-risk[fast]"``.
        levels, releases, missing
            See `Microdata.from_frame`.

        Raises
        ------
        InputError
            Absent columns, outcomes that do not fit their family, terms that are not finite;
            weights of another length, missing or outside (0, 1].
        ModelError
            A flat prior with collinear predictors; a sampler that cannot start.

        Notes
        -----
        Cost of a NUTS part: some seconds to compile, then n k multiplications a leapfrog step.
        """
        length = Length.checked(draws=draws, tune=tune, chains=chains)
        one_of("nuts_sampler", nuts_sampler, ("pymc", "nutpie"))
        if nuts_sampler == "nutpie" and find_spec("nutpie") is None:
            raise InputError(
                "nuts_sampler",
                "nutpie",
                'needs nutpie: pip install "bayes-risk[fast]", or leave it out',
            )
        df, weights = survey_weights(df, weights)
        data = self._microdata(df, levels=levels, releases=releases, missing=missing)
        rng, alpha = np.random.default_rng(random_seed), checked_weights(weights, data.index)
        parts = self._parts(data)
        return fitted_regressions(
            self, data, parts, alpha, length, (nuts_sampler, rng, progress, sample)
        )

    def from_draws(
        self,
        df: pd.DataFrame,
        draws: Mapping[str, pd.DataFrame] | Any,
        *,
        levels: Mapping[str, Iterable[Hashable]] | None = None,
        releases: Sequence[pd.DataFrame] = (),
        missing: str = "error",
    ) -> RegressionFit:
        """Draws of p(Theta | y) brought from elsewhere (Stan, brms, JAGS): nothing is fitted.

        Parameters
        ----------
        df : DataFrame
            The confidential table.
        draws : mapping of column to DataFrame or ArviZ object, or one ArviZ object
            For each modelled column a table with one row a draw and one column a coefficient,
            named as the formula prints it ("Intercept", "age", "C(sex)[T.m]"; brms' ``b_`` in front
            is accepted), and "sigma", "nu", "alpha"; thresholds are "cut[1]", "cut[2]", ...;
            coefficients of nominal outcomes "age[level]" for every level but the first. Or an
            ArviZ object (DataTree or InferenceData) whose posterior has scalar variables of these
            names. Or the ``idata`` of an earlier fit.
        levels, releases, missing
            See `Microdata.from_frame`.

        Returns
        -------
        RegressionFit
            It offers the evidence "importance", which needs no further fit.

        Raises
        ------
        InputError
            Draws that lack a coefficient (named), are not finite, or of unequal number.
        """
        data = self._microdata(df, levels=levels, releases=releases, missing=missing)
        return from_external(self, data, self._parts(data), draws)

    def _parts(self, data: Microdata) -> list[Part]:
        return [
            Part.from_formula(name, formula, self._family(name, data), self.prior_of(name), data)
            for name, formula in self.formulas.items()
        ]

    def prior_of(self, name: str) -> RegressionPrior:
        """The prior of one regression."""
        return self.priors.get(name, self.prior)

    def _family(self, name: str, data: Microdata) -> Family:
        if name in self.families:
            return family_of(self.families[name])
        n_levels = data.variables[data.columns.index(name)].n_levels
        return family_of({0: "normal", 2: "bernoulli"}.get(n_levels, "categorical"))

    def _microdata(self, df: pd.DataFrame, **how: Any) -> Microdata:
        """The columns that formulas name, each a number or a category."""
        checked_table(df)
        names = self.columns_of(df)
        counted = {c: family_of(given).kind != "category" for c, given in self.families.items()}
        numbers = [c for c in names if counted.get(c, is_numeric(df[c].dtype))]
        data = Microdata.from_frame(df, columns=names, numbers=numbers, **how)
        variables = (
            _of_family(v, self._family(v.name, data)) if isinstance(v, Number) else v
            for v in data.variables
        )
        data = replace(data, variables=tuple(variables))
        for name in self.formulas:
            family = self._family(name, data)
            check_family(name, family, data, data.codes)
            kind = df[name].dtype  # levels of text have no order but that of the alphabet
            ordered = isinstance(kind, pd.CategoricalDtype) and kind.ordered
            ordered = ordered or pd.api.types.is_numeric_dtype(kind)
            ordered = ordered or name in (how.get("levels") or {})
            if isinstance(family, OrderedLogit) and not ordered:
                raise InputError(
                    f"column {name!r} is to be ordered, and its order is not given; list its "
                    "`levels` from lowest to highest (or make it an ordered `pandas.Categorical`)"
                )
        return data

    def columns_of(self, df: pd.DataFrame) -> list[str]:
        """Columns of the table that the formulas name, in the table's order."""
        wanted = dict.fromkeys(self.formulas)
        for name, formula in self.formulas.items():
            wanted.update(dict.fromkeys(parse(name, formula).columns))
            wanted.update(dict.fromkeys(trials_column(self.families.get(name))))
        known_columns("formulas", wanted, df)
        return [c for c in df.columns if c in wanted]


def _of_family(number: Number, family: Family) -> Number:
    """What the family knows of the outcome: its least value, and whether it is whole."""
    if family.kind == "count":
        return replace(number, whole=True, lowest=0.0)
    return replace(number, lowest=SMALLEST) if family.kind == "positive" else number
