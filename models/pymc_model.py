"""Bring your own PyMC model: a function that builds it from a table is all that is asked.

Densities of guesses, synthesis and the fits that see a release are all taken from the graph of the
model that the function returns; `docs/own-pymc-model.md` says how, and what a model must keep to.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._compat import group
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns
from bayes_risk.data.microdata import Microdata
from bayes_risk.data.record_weights import checked_weights
from bayes_risk.evidence.contract import Progress
from bayes_risk.models.fits.kept_draws import kept_chains
from bayes_risk.models.fits.progress import ticker
from bayes_risk.models.fits.sampling import Length, mixing

if TYPE_CHECKING:
    from bayes_risk.models.pymc.fit import PyMCFit

DIAGNOSED = 300


@dataclass(frozen=True, slots=True)
class PyMCModel:
    """Declaration of a synthesis model that is written in PyMC.

    Parameters
    ----------
    build : callable
        ``build(table) -> pymc.Model``, the model of a table, with its priors. Numbers are numbers;
        categories are pandas Categoricals with all their levels, in a fixed order. The table is
        not always the confidential one: it may hold any rows, in any number.
    columns : list of str
        Columns that the model can draw, in the order in which they are drawn. Each is the name of
        an observed variable with one entry per row: ``pm.Normal("income", mu, sigma,
        observed=table["income"])``; categories are observed as ``table["sex"].cat.codes``. A
        variable may depend on the columns before it and on those that are not named.

    Raises
    ------
    InputError
        A ``build`` that is no function; no columns, or one twice.

    Examples
    --------
    >>> def build(table):
    ...     import pymc as pm
    ...
    ...     with pm.Model() as model:
    ...         mean, sd = pm.Normal("mean", 0, 10), pm.HalfNormal("sd", 5)
    ...         pm.Normal("income", mean, sd, observed=table["income"])
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
        random_seed: int | np.random.Generator | None = None,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> "PyMCFit":
        """Sample p(Theta | y) by `pymc.sample`.

        Parameters
        ----------
        df : DataFrame or Microdata
            The confidential table; see `Microdata.from_frame` for ``missing`` and ``levels``.
        draws, tune, chains : int
            Kept draws and warm-up of each chain, at least 4, 0 and 1.
        numbers : list of str, optional
            Columns that are numbers; by default those of integer or float dtype for which
            ``levels`` names no levels. All others are categories.
        nuts_sampler : str
            Sampler of the table's own posterior, as `pymc.sample` knows it. The fits that see a
            release start from its draws and run in PyMC's own.
        weights : array (n,) or Series, optional
            Record weights alpha_i in (0, 1], powers of the likelihood of the modelled columns of
            each record: Theta is drawn from the pseudo-posterior
            (docs/risk-weighted-synthesis.md). The model gets a potential
            ``sum_i (alpha_i - 1) log p(y_i | Theta)``.
        random_seed : int, Generator or None
            Same seed, same draws, for any ``n_jobs``.
        n_jobs : int
            Processes for the chains.
        progress : callable, optional
            Called as ``progress(stage, done, total)``.

        Returns
        -------
        PyMCFit

        Raises
        ------
        InputError
            Tables that `Microdata.from_frame` refuses; columns that the table lacks; counts out of
            range; weights of another length, missing or outside (0, 1].
        ModelError
            ``build`` returns no model, or one that cannot be evaluated row by row; the message
            says why.

        Notes
        -----
        Besides the fit: two compilations at the first audit, and one call of ``build`` for every
        1,024 rows whose density is wanted.
        """
        length = Length.checked(draws=draws, tune=tune, chains=chains)
        if not isinstance(df, Microdata):
            df = Microdata.from_frame(
                df, numbers=_numbers(df, numbers, levels), levels=levels, missing=missing
            )
        known_columns("columns", self.columns, df.columns)
        rng = np.random.default_rng(random_seed)
        options = length.options(n_jobs, rng) | {"nuts_sampler": nuts_sampler}
        if nuts_sampler == "pymc":
            tick = ticker(progress, "fit", length.steps)
            options["callback"] = lambda trace, draw: tick(1)
        return _fit(self, df, checked_weights(weights, df.index), length, options)


def _fit(
    model: PyMCModel,
    data: Microdata,
    power: npt.NDArray[np.float64] | None,
    length: Length,
    options: dict[str, Any],
) -> "PyMCFit":
    import pymc as pm

    from bayes_risk.models.pymc.density import Engine
    from bayes_risk.models.pymc.fit import PyMCFit
    from bayes_risk.models.pymc.posterior import MIN_TUNE, PyMCPosterior
    from bayes_risk.models.pymc.rows import Builder
    from bayes_risk.models.pymc.sampler import Condition, pseudo_posterior

    builder = Builder.of(model.build, tuple(model.columns), data)
    engine = Engine.of(builder)
    y, nothing = data.codes, np.zeros(len(data.codes), dtype=bool)
    condition = Condition(y=y, z=(), replaced=nothing, columns=(), power=power)
    pseudo = pseudo_posterior(engine, condition)
    idata = kept_chains(lambda: pm.sample(model=pseudo, **options), length)
    chains = group(idata, "posterior")
    theta = {name: _flat(chains[name]) for name in engine.layout.parameters}
    posterior = PyMCPosterior(
        engine=engine,
        condition=condition,
        theta=theta,
        base=theta,
        n_chains=length.chains,
        thin=1,
        tune=max(length.tune // 4, MIN_TUNE),
    )
    return PyMCFit(
        model=model,
        microdata=data,
        idata=idata,
        posterior=posterior,
        diagnostics=_diagnose(idata, theta, length.chains),
    )


def _numbers(
    df: pd.DataFrame, numbers: Sequence[str] | None, levels: Mapping[str, Any] | None
) -> list[str]:
    """Columns that are numbers: as told, or by their dtype."""
    if numbers is not None or not isinstance(df, pd.DataFrame):
        return list(numbers or [])
    kinds = zip(df.columns, df.dtypes, strict=True)
    return [str(name) for name, kind in kinds if _is_number(kind) and name not in (levels or {})]


def _is_number(dtype: Any) -> bool:
    types = pd.api.types
    return bool(types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype))


def _flat(draws: Any) -> Any:
    """Chain after chain."""
    values = draws.to_numpy()
    return values.reshape(-1, *values.shape[2:])


def _diagnose(idata: Any, theta: dict[str, Any], chains: int) -> dict[str, float]:
    from bayes_risk.evidence.diagnostics import ess_and_rhat

    flat = np.column_stack([x.reshape(len(x), -1).astype(float) for x in theta.values()])
    some = np.linspace(0, flat.shape[1] - 1, min(flat.shape[1], DIAGNOSED)).astype(int)
    with np.errstate(all="ignore"):  # a discrete parameter may never move
        ess, rhat = ess_and_rhat(flat[:, some], chains)
    stats = group(idata, "sample_stats")
    return {
        "draws": len(flat) // chains,
        "chains": chains,
        "parameters": flat.shape[1],
        **mixing(ess, rhat, chains),
        "divergences": int(stats["diverging"].sum()) if "diverging" in stats else 0,
        "parameters_diagnosed": len(some),
    }
