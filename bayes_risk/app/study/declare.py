"""From the sections of a study to what the library takes: models, guesses, priors.

The population of a study: a table with a row for everybody, read as the data are.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.data.kinds import checked_file
from bayes_risk.data.table import Missing, stored_table
from bayes_risk.release.alike import aligned, text_columns, words
from bayes_risk.release.synthpop_models import read_models
from bayes_risk.release.tables import read_table

from .counts import PoissonMixtureSection
from .functions import functions_in, guarded
from .identification import IdentificationSection, RadiusSection
from .intruder import BY_MODEL
from .models import (
    BinomialSection,
    DPMPMSection,
    ModelSection,
    PMMSection,
    PyMCSection,
    RegressionPriorSection,
    RegressionSection,
)
from .priors import DistributionSection, PriorDensity, PriorFactor, PriorInterval, PriorMixture
from .sections import AttributeSection, GridSection
from .study import Study
from .trees import CARTSection, ForestSection


def read_people(
    path: Path,
    original: pd.DataFrame,
    *,
    missing: Missing = "error",
    na: Collection[str] = (),
) -> pd.DataFrame:
    """Read a population: text, codes, dates and missing values as in the original.

    Values that the original lacks stay: the population holds people who cannot be in the file.

    Parameters
    ----------
    path : Path
    original : DataFrame
        The keys of the confidential table.
    missing, na
        As in `read_table`.

    Returns
    -------
    DataFrame
        All columns of the file.

    Raises
    ------
    InputError
        As `read_table`; text that is no date where the original holds dates.
    """
    file = checked_file(path)
    table = stored_table(
        file,
        None,
        among=[str(c) for c in original.columns],
        text=text_columns(original),
        how=words(file, original),
        missing=missing,
        na=na,
    )
    return aligned(table, _plain(original), repr(str(file)))


def _plain(original: pd.DataFrame) -> pd.DataFrame:
    """Without categories, whose levels would bind everybody."""
    kept = [c for c in original if not isinstance(original[c].dtype, pd.CategoricalDtype)]
    return original[kept]


FIT_TAKES = {
    "CART": ("random_seed", "progress"),
    "Forest": ("random_seed", "progress", "n_jobs"),
    "PMM": ("progress",),
}


@dataclass(frozen=True, slots=True)
class KeptTrees:
    """The trees that synthpop kept, as a declaration: its fit takes them, and grows none."""

    section: CARTSection

    def fit(
        self,
        df: pd.DataFrame,
        *,
        missing: str = "error",
        releases: Sequence[pd.DataFrame] = (),
        random_seed: Any = None,
        progress: Any = None,
    ) -> Any:
        """The trees on the confidential table.

        Raises
        ------
        InputError
            Models that are not of this table, or of other columns than ``order`` says.
        """
        own = self.section
        fit = br.models.CART.from_rpart(
            read_models(str(own.models)),
            df,
            missing=missing,
            releases=releases,
            missing_numbers=own.missing_numbers,
            floor=own.floor,
        )
        if list(own.order) != fit.order:
            raise InputError(
                f"[model] order = {list(own.order)} and the trees of {str(own.models)!r} are of "
                f"{fit.order}, in this order; give it as the models have it"
            )
        return fit


def declare_model(model: ModelSection) -> Any:
    """The declaration that a ``[model]`` stands for; no work yet."""
    if isinstance(model, DPMPMSection):
        return br.models.DPMPM(
            n_classes=model.n_classes,
            concentration_prior=model.concentration_prior,
            level_prior=model.level_prior,
        )  # what is impossible, `with_zeros` tells it, which needs the data
    if isinstance(model, PyMCSection):
        (build,) = functions_in([model.file], key="build")
        told = guarded(build, model.file[0], key="build")
        return br.models.PyMCModel(told, columns=model.columns)
    if isinstance(model, RegressionSection):
        return br.models.Regression(
            model.formulas,
            families={name: _family(family) for name, family in model.families.items()},
            prior=_regression_prior(model.prior),
            priors={name: _regression_prior(prior) for name, prior in model.priors.items()},
        )
    if isinstance(model, PoissonMixtureSection):
        return _declare_counts(model)
    return _declare_unsampled(model)


def _declare_counts(model: PoissonMixtureSection) -> Any:
    """A mixture of Poissons: the keys are the arguments, but for those of sampling."""
    keys = model.model_dump(exclude={"kind", "synthesizer", "draws", "tune", "chains", "thin"})
    return br.models.PoissonMixture(kind=model.synthesizer, **keys)


def _declare_unsampled(model: CARTSection | ForestSection | PMMSection) -> Any:
    """Trees, forests and matching: the keys are the arguments."""
    keys = model.model_dump(exclude={"kind"})
    if isinstance(model, CARTSection):
        own = {key: value for key, value in keys.items() if key not in model.KEPT}
        return br.models.CART(**own) if model.models is None else KeptTrees(model)
    if isinstance(model, ForestSection):
        return br.models.Forest(**keys)
    functions = functions_in(model.files, key="constraints")
    constraints = [
        guarded(function, path, key="constraints")
        for function, (path, _) in zip(functions, model.files, strict=True)
    ]
    return br.models.PMM(**keys | {"constraints": constraints})


def fit_model(study: Study, declaration: Any, df: pd.DataFrame, **how: Any) -> Any:
    """Fit a declaration to the table, or take the draws that the study brings."""
    model, missing = study.model, study.data.missing
    if isinstance(model, CARTSection | ForestSection | PMMSection):
        how = {key: value for key, value in how.items() if key in FIT_TAKES[model.kind]}
    if isinstance(model, RegressionSection) and isinstance(model.draws, dict):
        tables = {name: read_table(path) for name, path in model.draws.items()}
        return declaration.from_draws(df, tables, missing=missing)
    return declaration.fit(df, **fit_options(study), **how)


def fit_options(study: Study) -> dict[str, Any]:
    """``[model]`` and ``[data]`` as options of the declaration's ``fit``."""
    model, options = study.model, {"missing": study.data.missing}
    if isinstance(model, CARTSection | ForestSection | PMMSection):
        return options
    keys = ["draws", "tune", "chains"]
    if isinstance(model, RegressionSection):
        keys.append("nuts_sampler")
    if isinstance(model, PoissonMixtureSection):
        keys.append("thin")
    if isinstance(model, DPMPMSection):
        keys.append("splits")
    return options | {key: getattr(model, key) for key in keys}


def attribute_options(section: AttributeSection) -> dict[str, Any]:
    """``[attribute]`` as keyword arguments of ``attribute_risk``."""
    named = {} if section.prior is None else {"prior": declare_prior(section.prior)}
    return {
        "intruder": _intruder(section),
        "guesses": declare_guesses(section.guesses, section.guess_budget),
        **named,
        "targets": None if section.targets == "all" else section.targets,
        **{key: getattr(section, key) for key in BY_MODEL},
    }


def placed_anywhere(section: AttributeSection) -> AttributeSection:
    """The same guesses for any record: a grid without a place for the truth stops nothing here.

    Whether there is one is asked of the targets, when they are audited.
    """
    given = section.guesses
    guesses: Any = _anywhere(given)
    if isinstance(given, dict):
        guesses = {name: _anywhere(grid) for name, grid in given.items()}
    return section.model_copy(update={"guesses": guesses})


def _anywhere(grid: Any) -> Any:
    stops = isinstance(grid, GridSection) and grid.truth == "error"
    return grid.model_copy(update={"truth": "nearest"}) if stops else grid


def _intruder(section: AttributeSection) -> Any:
    if section.intruder is None:
        return br.Intruder(knows_columns=tuple(section.knows_columns))
    return section.intruder.declared(section.knows_columns)


def matching_options(
    study: Study, df: pd.DataFrame, releases: Sequence[pd.DataFrame]
) -> dict[str, Any]:
    """``[identification]`` as keyword arguments of ``identification_risk``."""
    section = study.identification
    assert section is not None
    options = section.model_dump(exclude={"radius", "population"})
    options["radius"] = {c: _radius(r) for c, r in (section.radius or {}).items()} or None
    options["population"] = _population(study, section, df, releases)
    return options


def _radius(given: float | RadiusSection) -> Any:
    if not isinstance(given, RadiusSection):
        return given
    if given.absolute is not None:
        return br.Absolute(given.absolute)
    if given.quantile is not None:
        return br.Quantile(given.quantile)
    return br.SD(given.sd or 0.0, groups=given.groups or 1)


def _population(
    study: Study,
    section: IdentificationSection,
    df: pd.DataFrame,
    releases: Sequence[pd.DataFrame],
) -> Any:
    """Counts of a file, or of a log-linear model of the exact keys."""
    if section.population is None:
        return None
    given = section.population
    keys = [*section.known, *section.synthesized]
    if given.file is not None:
        data = study.data
        people = read_people(given.file, df[keys], missing=data.missing_codes, na=data.na)
        return br.Population.counted(people, keys)
    size = given.size
    if given.fitted_to == "original":
        return br.Population.log_linear(df, keys, size=size)
    return [br.Population.log_linear(table, keys, size=size) for table in releases]


def declare_guesses(guesses: str | GridSection | Mapping[str, Any], budget: int) -> Any:
    """Neighbourhood, grid for all numbers, or joint grid."""
    if isinstance(guesses, GridSection):
        return br.Grid(**guesses.model_dump())
    if isinstance(guesses, str):
        return br.Neighbourhood(1 if guesses == "neighbourhood" else int(guesses.split("-")[1]))
    grids = {
        name: br.Levels() if grid == "levels" else br.Grid(**grid.model_dump())
        for name, grid in guesses.items()
    }
    return br.JointGrid(grids, budget=budget)


def _family(family: str | BinomialSection) -> Any:
    return br.models.Binomial(trials=family.binomial) if not isinstance(family, str) else family


def _regression_prior(prior: str | RegressionPriorSection) -> Any:
    if isinstance(prior, str):
        return br.models.RegressionPrior.reference()
    return br.models.RegressionPrior(**prior.model_dump())


def declare_prior(prior: Any) -> Any:
    """A word, or the section of a prior, as the library is told."""
    if isinstance(prior, PriorFactor):
        return br.TruthFactor(prior.truth_factor)
    if isinstance(prior, PriorInterval):
        how = prior.model_dump(exclude={"interval"})
        return br.Interval(*prior.interval, **how)
    if isinstance(prior, PriorDensity):
        return br.Density({name: _frozen(given) for name, given in prior.density.items()})
    if isinstance(prior, PriorMixture):
        return br.Mixture([(weight, declare_prior(part)) for weight, part in prior.mixture])
    return prior


def _frozen(given: DistributionSection) -> Any:
    """A frozen distribution of SciPy."""
    from scipy import stats

    if given.normal is not None:
        return stats.norm(*given.normal)
    if given.lognormal is not None:
        mu, sigma = given.lognormal
        return stats.lognorm(s=sigma, scale=np.exp(mu))
    if given.uniform is None:
        raise InputError("a density needs a distribution: { normal = [10.0, 1.0] }")
    low, high = given.uniform
    return stats.uniform(loc=low, scale=high - low)
