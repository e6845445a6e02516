"""Context measures of a study, and the ends of the scale that its numbers stand on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.release.release import Release
from bayes_risk.studies.comparing.measuring import Number, of_identification, of_utility
from bayes_risk.utilities.context_result import ContextMeasures
from bayes_risk.utilities.result import Utility

from .declare import matching_options
from .inherent import PLACES, WRITTEN, InherentBounds
from .making import Made
from .outsiders import holdout_of
from .study import Study


def context_of(study: Study, made: Made, *, random_seed: int) -> ContextMeasures:
    """Measures that users of other tools know, of the release.

    Parameters
    ----------
    study : Study
        With ``[context]``.
    made : Made
    random_seed : int

    Returns
    -------
    ContextMeasures
    """
    section = study.context
    assert section is not None
    holdout = holdout_of(study, made.df)
    return br.context_measures(
        made.df, made.release, holdout=holdout, random_seed=random_seed, **section.options
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """What was measured of the release; None: not asked for."""

    identification: IdentificationRisk | None
    utility: Utility | None
    context: ContextMeasures | None

    def numbers(self) -> dict[str, Number]:
        """File-level numbers by name."""
        found: dict[str, Number] = {}
        if self.identification is not None:
            found |= of_identification(self.identification)
        if self.utility is not None:
            found |= of_utility(self.utility)
        return found | ({} if self.context is None else _of_context(self.context))


def bounds_of(
    study: Study, made: Made, measured: Measured, *, random_seed: int, n_jobs: int
) -> InherentBounds | None:
    """The numbers of the release beside those at both ends of the scale.

    Parameters
    ----------
    study : Study
        With ``[bounds]``.
    made : Made
    measured : Measured
        What was found of the release.
    random_seed, n_jobs : int

    Returns
    -------
    InherentBounds, or None where nothing was measured that the ends have.

    Notes
    -----
    *Cost.* Matching, utility and context measures (without distances) three times more.
    """
    assert study.bounds is not None
    own = measured.numbers()
    if not own:
        return None
    seeds = np.random.SeedSequence(random_seed).generate_state(2)
    usual: dict[str, Any] = {"synthesized": made.release.synthesized, "m": made.release.m}
    ends = br.release_bounds(made.df, random_seed=int(seeds[0]), **usual | study.bounds.options)
    at = {"release": own}
    for place in (name for name in PLACES if name != "release"):
        found = _at_end(study, made.df, getattr(ends, place), int(seeds[1]), n_jobs)
        at[place] = found.numbers()
    names = tuple(name for name in own if all(name in numbers for numbers in at.values()))
    return InherentBounds(
        measures=names,
        values=np.array([[at[place][name].value for place in PLACES] for name in names]),
        mcse=np.array([own[name].mcse for name in names]),
        patterns=tuple(map(str, ends.patterns)),
        alone=ends.alone,
        n=len(made.df),
        m=ends.minimum.m,
        seed_entropy=str(random_seed),
    )


def _at_end(study: Study, df: pd.DataFrame, end: Release, seed: int, n_jobs: int) -> Measured:
    """What the study measures, of a release at an end of the scale."""
    matching = useful = context = None
    if study.identification is not None:
        options = matching_options(study, df, end.datasets)
        matching = br.identification_risk(df, end, **options)
    if study.utility is not None:
        options = study.utility.options
        useful = br.utility(df, end, random_seed=seed, n_jobs=n_jobs, **options)
    if study.context is not None:
        options = study.context.options | {"distances": False}
        context = br.context_measures(df, end, random_seed=seed, **options)
    return Measured(identification=matching, utility=useful, context=context)


def _of_context(found: ContextMeasures) -> dict[str, Number]:
    nan, value = float("nan"), found.summary()["value"].tolist()
    return {
        f"{name} ({target})" if target else name: Number(number, nan, nan)
        for (target, name), number in zip(found.rows, value, strict=True)
        if name in WRITTEN
    }
