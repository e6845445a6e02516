"""Dirichlet-process mixture of products of Poissons, for files of large counts.

Wei & Reiter (2016), as described in Hu (2019), section 3.3.3:

x_ij | z_i = k ~ Poisson(e_i lambda_kj),  lambda_kj ~ Gamma(shape_j, rate_j),  z_i ~ Multinomial(pi)
pi_k = V_k prod_{l<k} (1 - V_l),  V_k ~ Beta(1, alpha),  V_K = 1,  alpha ~ Gamma(a, b)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pandas as pd

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns, one_of, positives
from bayes_risk.data.microdata import Microdata, Number, checked_table
from bayes_risk.data.record_weights import no_weights
from bayes_risk.models.mixture.business.totals import checked_quantile
from bayes_risk.models.mixture.columns import (
    Columns,
    RatePrior,
    checked_count,
    powers_of,
    prior_of,
    refuse,
    whole_from_zero,
)
from bayes_risk.models.mixture.poisson_fit import PoissonMixtureFit
from bayes_risk.models.mixture.state import Prior
from bayes_risk.models.mixture_model import MixtureModel

PAIR = (0.5, 0.5)


@dataclass(frozen=True, slots=True)
class PoissonMixture(MixtureModel[PoissonMixtureFit]):
    """Declaration of a truncated Dirichlet-process mixture of products of Poissons.

    Parameters
    ----------
    n_classes : int
        Truncation K, at least 1. One class: independent Poisson counts.
    kind : {"MP", "MM", "TCMM"}
        What is released. MP: counts drawn from the mixture. MM: the confidential total of each
        component, column by column, dealt to its records, so that every margin is the confidential
        one. TCMM: the same, after the tail of each column was made a component of its own.
    quantile : float, optional
        TCMM: records above this quantile of a column are its tail; between 0 and 1.
    concentration_prior : tuple of two floats
        Shape and rate of the gamma prior of the concentration.
    rate_prior : tuple of two floats, or mapping of column to such, optional
        Shape and rate of the gamma prior of the rates. By default shape 0.5 and as mean the next
        power of ten above the column's mean.
    zeros : tuple of two floats, optional
        Beta prior of each component's chance of a structural zero; by default there are none.
    covariates : sequence of str
        Categorical columns, never synthesised, that tell about a record's component.
    exposure : str, optional
        Column of positive numbers that multiply a record's rates; known, never synthesised.
    level_prior : float
        Every entry of the Dirichlet prior of the covariates' levels.

    Examples
    --------
    >>> PoissonMixture(n_classes=10, kind="TCMM", quantile=0.95).kind
    'TCMM'
    """

    n_classes: int = 20
    kind: str = "MP"
    quantile: float | None = None
    concentration_prior: tuple[float, float] = (0.25, 0.25)
    rate_prior: RatePrior = None
    zeros: tuple[float, float] | None = None
    covariates: Sequence[str] = ()
    exposure: str | None = None
    level_prior: float = 1.0
    _FIT: ClassVar[Any] = PoissonMixtureFit

    def __post_init__(self) -> None:
        MixtureModel.__post_init__(self)
        one_of("kind", self.kind, ("MP", "MM", "TCMM"))
        if self.quantile is not None:
            checked_quantile(self.kind, self.quantile)
        if self.zeros is not None and self.kind != "MP":
            raise InputError(
                f"zeros={self.zeros} goes with kind='MP': dealing the totals of kind="
                f"{self.kind!r} knows no structural zeros; leave zeros out"
            )
        if isinstance(self.rate_prior, Mapping):
            for column, pair in self.rate_prior.items():
                positives(f"rate_prior of column {column!r}", pair, PAIR)
        elif self.rate_prior is not None:
            positives("rate_prior", self.rate_prior, PAIR)
        if isinstance(self.covariates, str):
            raise InputError(f"covariates={self.covariates!r} is a single string; give a list")

    def synthesizes(self, columns: Sequence[str]) -> list[str]:
        return [c for c in columns if c not in (*self.covariates, self.exposure)]

    def _coded(self, df: pd.DataFrame, **how: Any) -> Microdata:
        known_columns("covariates", list(self.covariates), list(checked_table(df).columns))
        numbers = [c for c in df.columns if c not in self.covariates]
        return Microdata.from_frame(df, numbers=numbers, **how)

    def _read(
        self, data: Microdata, weights: Any
    ) -> tuple[Microdata, Columns, Prior, Array | None]:
        names, exposure, covariates = data.columns, self.exposure, list(self.covariates)
        known_columns("covariates", covariates, names)
        known_columns("exposure", [] if exposure is None else [exposure], names)
        if exposure in covariates:
            raise InputError(f"column {exposure!r} is both exposure and covariate; it can be one")
        counts = [c for c in names if c not in {*covariates, exposure}]
        for j, v in enumerate(data.variables):
            if isinstance(v, Number) and v.name in covariates:
                raise InputError(
                    f"covariate {v.name!r} is read as a number; read it as a category: leave it "
                    "out of numbers="
                )
            if not isinstance(v, Number) and v.name not in covariates:
                raise InputError(
                    f"column {v.name!r} is a category, and PoissonMixture models counts; name it "
                    "in covariates=, use models.Mixture, or drop it"
                )
            if v.name == exposure:
                refuse(v.name, "not positive", data.codes[:, j] <= 0, "exposures are positive")
            elif isinstance(v, Number):
                checked_count(v.name, data.codes[:, j])
        if not counts:
            raise InputError("the table has no column of counts; name fewer covariates")
        if self.kind != "MP":
            why = "the totals that it deals are the confidential ones, whatever the weights"
            no_weights(weights, f'PoissonMixture(kind="{self.kind}")', why)
        data = replace(data, variables=whole_from_zero(data, counts))
        columns = Columns.of(
            counts=[names.index(c) for c in counts],
            levels=[names.index(c) for c in covariates],
            exposure=None if exposure is None else names.index(exposure),
        )
        alpha = powers_of(weights, data, "zeros" if self.zeros else "")
        return data, columns, prior_of(self, data, columns), alpha
