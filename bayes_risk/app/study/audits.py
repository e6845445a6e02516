"""Audits beside the two risks, as a study asks for them.

Membership, the full table, utility, context measures, and where their numbers and those of
matching stand between the ends of the scale of risk.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.formats import NONE, PLUS_MINUS, begun, number, plain, significant
from bayes_risk.data.base_result import Result, Table, value
from bayes_risk.data.variables import Variable
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.matching.risk import identification_risk
from bayes_risk.release.release import Release
from bayes_risk.risk.full_table.result import FullTableRisk
from bayes_risk.risk.full_table.risk import full_table_risk
from bayes_risk.risk.membership.audit import membership
from bayes_risk.risk.membership.result import Membership
from bayes_risk.risk.result import AttributeRisk
from bayes_risk.studies.compare import Number, of_identification, of_utility
from bayes_risk.studies.measures import MEASURES
from bayes_risk.utilities.assess import utility
from bayes_risk.utilities.bounds import release_bounds
from bayes_risk.utilities.context import context_measures
from bayes_risk.utilities.context_result import ContextMeasures
from bayes_risk.utilities.result import Utility

from .declare import attribute_options, fit_model, matching_options, membership_options
from .prepare import Prepared, synthesize
from .reading import holdout_of, others_of
from .study import Study

Array = npt.NDArray[np.float64]
PLACES = ("minimum", "release", "maximum", "unchanged")
WRITTEN = {"repu": "repU", "disco": "DiSCO", "dcap": "DCAP", "tcap": "TCAP"}
HEADLINES = ("expected_match_risk", "pmse_cart", "repu")  # the first of each kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class InherentBounds(Result):
    """Measures of a release beside those at the ends of the scale; made by a study's ``[bounds]``.

    Attributes
    ----------
    measures : tuple of str, length K
        As in the results that they are of; context measures with their target, ``disco (job)``.
    values : ndarray, shape (K, 4)
        At the minimum (uniform values), of the release, at the maximum (values redrawn within
        patterns), and of the original released unchanged.
    mcse : ndarray, shape (K,)
        Monte Carlo error of the release's number; NaN: none is known.
    patterns : tuple of str
        Columns whose combinations are the patterns; empty: all records share one.
    alone, n : int
        Records with a pattern of their own, which keep their values at the maximum; all records.
    m : int
        Data sets of each end.
    seed_entropy : str
        The seed of the ends.

    See Also
    --------
    bayes_risk.release_bounds : Makes the releases; what they bound, and what not.
    """

    measures: tuple[str, ...]
    values: Array
    mcse: Array
    patterns: tuple[str, ...]
    alone: int
    n: int
    m: int
    seed_entropy: str

    def summary(self) -> pd.DataFrame:
        """One row per measure.

        Columns ``minimum``, ``release``, ``maximum``, ``unchanged``; ``position``, 0 as at the
        minimum and 1 as at the maximum (NaN where these are equal; outside 0 to 1 where the release
        is beyond); ``mcse`` of ``release``.
        """
        index = pd.Index(self.measures, name="measure")
        table = pd.DataFrame(self.values, index, list(PLACES))
        span = table["maximum"] - table["minimum"]
        table["position"] = (table["release"] - table["minimum"]) / span.where(span != 0)
        return table.assign(mcse=self.mcse)

    def sentence(self) -> str:
        """The result in plain words."""
        by = f"with the same {', '.join(self.patterns)}" if self.patterns else "of the whole file"
        told = [
            "The scale goes from values drawn uniformly (minimum) to values redrawn among records "
            f"{by} (maximum; {self.alone:,} of {self.n:,} records are alone there and keep theirs)."
        ]
        rows = self.summary().to_dict("index")
        told += [_stands(name, rows[name]) for name in self.headlines]
        return " ".join(told)

    @property
    def headlines(self) -> list[str]:
        """A measure of each kind: of identification, of utility, of context."""
        return [name for name in HEADLINES if name in self.measures]

    def line(self) -> str:
        """The first measure between the ends."""
        name = (self.headlines or self.measures)[0]
        row = self.summary().loc[name]
        return (
            f"{words_of(name)} {number(row['release'])}, between {number(row['minimum'])} (uniform "
            f"values) and {number(row['maximum'])} (redrawn within patterns)"
        )

    def tables(self) -> dict[str, Table]:
        """Each measure at both ends, of the release between them, and unchanged."""
        found = Table(
            note=(
                "The ends bound what synthesis given the patterns can do on average. A model that "
                "knows more columns, or copies records, can be above the maximum, and that is a "
                "finding. Where the ends are close together the position is noise."
            ),
            caption=f"Means over {self.m:,} data sets each.",
            frame=self.summary(),
            labels=lambda name: begun(words_of(str(name))),
            columns=[
                *((begun(place), value(place, significant, digits=4)) for place in PLACES),
                ("Release, 2 s.e.", _error),
                ("Position (0 to 1)", value("position", digits=2)),
            ],
            file="bounds",
        )
        return {"measures": found}


def _error(row: Mapping[str, float]) -> str:
    return NONE if pd.isna(row["mcse"]) else f"{PLUS_MINUS} {plain(2 * row['mcse'], 2)}"


def words_of(measure: str) -> str:
    """A measure in words: ``DiSCO of job``."""
    if measure in MEASURES:
        return MEASURES[measure].words
    name, _, target = measure.partition(" (")
    return f"{WRITTEN[name]} of {target[:-1]}" if target else WRITTEN[name]


def _stands(name: str, row: Mapping[Hashable, float]) -> str:
    where = "" if pd.isna(row["position"]) else f", at {number(row['position'], 2)} of the way"
    return (
        f"{begun(words_of(name))}: {number(row['release'])}, between {number(row['minimum'])} and "
        f"{number(row['maximum'])}{where} ({number(row['unchanged'])} unchanged)."
    )


def membership_of(study: Study, prepared: Prepared, *, random_seed: int, **how: Any) -> Membership:
    """Ask who is in the data: of the release, or of one made without the records held out."""
    section = study.membership
    assert section is not None
    fit, release, others = prepared.fit, prepared.release, None
    seeds = [int(s.generate_state(1)[0]) for s in np.random.SeedSequence(random_seed).spawn(4)]
    if section.held_out is not None:
        order = np.random.default_rng(seeds[0]).permutation(len(prepared.df))
        cut = min(max(round(section.held_out * len(order)), 1), len(order) - 1)
        others = prepared.df.iloc[np.sort(order[:cut])]
        kept = prepared.df.iloc[np.sort(order[cut:])]
        levels = {v.name: v.levels for v in fit.microdata.variables if isinstance(v, Variable)}
        how_fitted = {"levels": levels, "random_seed": seeds[1], **how}
        fit = fit_model(study, prepared.declaration, kept, **how_fitted)
        release = synthesize(fit, study, random_seed=seeds[2])
    else:
        others = others_of(study, prepared.df)
    return membership(
        fit, release, others=others, random_seed=seeds[3], **membership_options(section), **how
    )


def full_table_of(
    study: Study,
    prepared: Prepared,
    attribute: AttributeRisk | None,
    *,
    random_seed: int,
    **how: Any,
) -> FullTableRisk:
    """Where the truth stands among all values, of the records at highest risk."""
    section = study.full_table
    assert section is not None
    targets: Any = section.targets
    if isinstance(targets, int) and attribute is not None:
        targets = list(attribute.worst(targets).index)
    intruder = None if study.attribute is None else attribute_options(study.attribute)["intruder"]
    return full_table_risk(
        prepared.fit,
        prepared.release,
        targets=targets,
        prior=section.prior,
        draws=section.draws,
        keep=section.keep,
        intruder=intruder,
        random_seed=random_seed,
        **how,
    )


def utility_of(study: Study, prepared: Prepared, *, random_seed: int, n_jobs: int) -> Utility:
    """How like the confidential table the release is."""
    section = study.utility
    assert section is not None
    return utility(
        prepared.df, prepared.release, random_seed=random_seed, n_jobs=n_jobs, **section.options
    )


def context_of(study: Study, prepared: Prepared, *, random_seed: int) -> ContextMeasures:
    """Measures that users of other tools know, of the release."""
    section = study.context
    assert section is not None
    holdout = holdout_of(study, prepared.df)
    return context_measures(
        prepared.df, prepared.release, holdout=holdout, random_seed=random_seed, **section.options
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
    study: Study, prepared: Prepared, measured: Measured, *, random_seed: int, n_jobs: int
) -> InherentBounds | None:
    """The numbers of the release beside those at both ends of the scale."""
    assert study.bounds is not None
    own = measured.numbers()
    if not own:
        return None
    seeds = np.random.SeedSequence(random_seed).generate_state(2)
    usual: dict[str, Any] = {"synthesized": prepared.release.synthesized, "m": prepared.release.m}
    ends = release_bounds(prepared.df, random_seed=int(seeds[0]), **usual | study.bounds.options)
    at = {"release": own}
    for place in (name for name in PLACES if name != "release"):
        found = _at_end(study, prepared.df, getattr(ends, place), int(seeds[1]), n_jobs)
        at[place] = found.numbers()
    names = tuple(name for name in own if all(name in numbers for numbers in at.values()))
    return InherentBounds(
        measures=names,
        values=np.array([[at[place][name].value for place in PLACES] for name in names]),
        mcse=np.array([own[name].mcse for name in names]),
        patterns=tuple(map(str, ends.patterns)),
        alone=ends.alone,
        n=len(prepared.df),
        m=ends.minimum.m,
        seed_entropy=str(random_seed),
    )


def _at_end(study: Study, df: pd.DataFrame, end: Release, seed: int, n_jobs: int) -> Measured:
    """What the study measures, of a release at an end of the scale."""
    matching = useful = context = None
    if study.identification is not None:
        options = matching_options(study, df, end.datasets)
        matching = identification_risk(df, end, **options)
    if study.utility is not None:
        options = study.utility.options
        useful = utility(df, end, random_seed=seed, n_jobs=n_jobs, **options)
    if study.context is not None:
        options = study.context.options | {"distances": False}
        context = context_measures(df, end, random_seed=seed, **options)
    return Measured(identification=matching, utility=useful, context=context)


def _of_context(found: ContextMeasures) -> dict[str, Number]:
    nan, value = float("nan"), found.summary()["value"].tolist()
    return {
        f"{name} ({target})" if target else name: Number(number, nan, nan)
        for (target, name), number in zip(found.rows, value, strict=True)
        if name in WRITTEN
    }
