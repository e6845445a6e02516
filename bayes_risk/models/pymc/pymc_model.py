"""Bring your own PyMC model: a function that builds it from a table (`docs/own-pymc-model.md`)."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.progress import ProgressOption, shows_progress
from bayes_risk._core.validate import known_columns
from bayes_risk.data.microdata import Microdata
from bayes_risk.data.record_weights import checked_weights, survey_weights
from bayes_risk.models.fits.sampling import Length
from bayes_risk.models.fits.synthesis import Declaration, Ticker, microdata

from .density import Builder
from .fit import PyMCFit, sampled_fit


@dataclass(frozen=True, slots=True)
class PyMCModel(Declaration):
    """Declaration of a synthesis model that is written in PyMC.

    Parameters
    ----------
    build : callable
        ``build(table) -> pymc.Model``, the model of a table, with its priors. What it takes of the
        table's rows stands in `pm.Data` under the column's name: ``income = pm.Data("income",
        table["income"])``, ``sex = pm.Data("sex", table["sex"].cat.codes)``. Categories are pandas
        Categoricals with all their levels, in a fixed order.
    columns : list of str
        Columns that the model can draw, in the order in which they are drawn. The `pm.Data` of
        each is observed by one variable, of another name: ``pm.Normal("income_", mu, sigma,
        observed=income)``. It may depend on the columns before it and on those that are not named.

    Notes
    -----
    Let x_1 .. x_q be the columns in order, u the rest of a row, and f_c the variable of column c.
    Then ``log p(row | Theta) = sum_c log f_c(x_c | x_1 .. x_{c-1}, u, Theta)``. The log density of
    a release sums log f_c over replaced rows and synthesised columns. Each file has one posterior
    draw, and each column is drawn from f_c given the file so far. NUTS samples p(Theta | y, Z),
    given the rows of the table and of the release, from starts at draws of p(Theta | y).

    Examples
    --------
    >>> def build(table):
    ...     import pymc as pm
    ...
    ...     with pm.Model() as model:
    ...         income = pm.Data("income", table["income"])
    ...         mean, sd = pm.Normal("mean", 0, 10), pm.HalfNormal("sd", 5)
    ...         pm.Normal("income_", mean, sd, observed=income)
    ...     return model
    >>> PyMCModel(build, columns=["income"]).columns
    ('income',)
    """

    build: Callable[[pd.DataFrame], Any]
    columns: Sequence[str]

    def __post_init__(self) -> None:
        if not callable(self.build):
            raise InputError(
                f"build is a {type(self.build).__name__}; give a function that takes a table and "
                "returns a pymc.Model of it"
            )
        columns = known_columns("columns", self.columns, list(self.columns))
        if not columns:
            raise InputError("columns is empty; name the observed variables, in order of synthesis")
        object.__setattr__(self, "columns", tuple(columns))

    def synthesizes(self, columns: Sequence[str]) -> list[str]:
        return list(self.columns)

    @shows_progress
    def fit(
        self,
        df: pd.DataFrame | Microdata,
        draws: int = 1000,
        *,
        tune: int = 1000,
        chains: int = 4,
        numbers: Sequence[str] | None = None,
        nuts_sampler: str = "pymc",
        missing: str = "error",
        levels: Mapping[str, Iterable[Hashable]] | None = None,
        weights: Any = None,
        sample: bool = True,
        random_seed: int | np.random.Generator | None = None,
        n_jobs: int = 1,
        progress: ProgressOption = None,
    ) -> PyMCFit:
        """Sample p(Theta | y) by `pymc.sample`.

        Parameters
        ----------
        df : DataFrame or Microdata
            The confidential table; see `Microdata.from_frame` for ``missing`` and ``levels``.
        draws, tune, chains, weights, sample, random_seed, n_jobs, progress
            As in `DPMPM.fit`; without sampling a draw of the prior stands in the place of draws.
            Weights are powers of the likelihood of the modelled columns.
        numbers : list of str, optional
            Columns that are numbers; by default those of integer or float dtype for which
            ``levels`` names no levels. All others are categories.
        nuts_sampler : str
            Sampler of the table's own posterior, as `pymc.sample` knows it. The fits that see a
            release start from its draws and run in PyMC's own.

        Raises
        ------
        InputError
            Tables that `Microdata.from_frame` refuses; columns that the table lacks; counts out of
            range; weights of another length, missing or outside (0, 1].
        ModelError
            ``build`` returns no model, one that bakes values of the table in instead of keeping
            them in `pm.Data`, or one that cannot be evaluated row by row; the message names the
            column and shows what to write.

        Notes
        -----
        Besides the fit: a few calls of ``build``, a compilation before it and one at the first
        audit.
        """
        length = Length.checked(draws=draws, tune=tune, chains=chains)
        df, weights = survey_weights(df, weights)
        if not isinstance(df, Microdata):
            df = microdata(df, None, numbers=numbers, levels=levels, missing=missing)
        known_columns("columns", self.columns, df.columns)
        rng = np.random.default_rng(random_seed)
        options = length.options(n_jobs, rng) | {"nuts_sampler": nuts_sampler}
        if nuts_sampler == "pymc":
            tick = Ticker(progress, "fit", length.steps)
            options["callback"] = lambda trace, draw: tick(1)
        power = checked_weights(weights, df.index)
        builder = Builder.of(self.build, tuple(self.columns), df)
        return sampled_fit(self, builder, power, length, options, sample=sample)
