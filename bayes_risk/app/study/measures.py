"""Sections on what is measured beside attribute risk, and ``[thresholds]``, what is accepted.

``[identification]``, ``[utility]``, ``[context]``, ``[bounds]``, ``[membership]``,
``[full_table]`` and ``[reweight]``.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import BeforeValidator, Field, model_validator

from bayes_risk._core.validate import is_number
from bayes_risk.reporting.verdicts.verdict import Thresholds
from bayes_risk.studies.measures import UTILITIES

from .functions import functions_in, guarded
from .keys import (
    AtLeastTwo,
    Columns,
    Count,
    Float,
    FromZero,
    FunctionName,
    Functions,
    Label,
    NotNegative,
    Number,
    Positive,
    Section,
    Share,
    SomeColumns,
    Switch,
    check_one_given,
    misfit,
    read_each,
    read_section,
    told,
    unknown,
)
from .sections import Fraction


class ThresholdsSection(Section):
    """``[thresholds]``: what the agency accepts.

    attribute_probability: above when the release lifts some record's true values above this
    attribute_odds_factor: ... and raises its odds by more than this factor
    attribute_log_bayes_factor: above when the release raises the log odds of some record's truth by
        more
    true_match_rate: above when more records would be matched uniquely and correctly
    identical_records: above when a larger share of a file's records equals the original's of the
        same row, and nobody else's
    unique_values: above when a larger share of released values of a number are a single record's,
        beyond a fresh sample
    replicated_uniques: above when a larger share of records is unique on the keys in original and
        file
    share_unreliable: inconclusive when more targets than this have unreliable numbers
    rhat: errors are taken wider where the largest R-hat is above this, with fewer than 100
        effective draws a chain (not in led audits)
    membership_auc: above when the release points to the member rather than somebody else more
        often; needs people outside the data
    membership_log_bayes_factor: above when the release raises the log odds that some member is in
        the data by more
    utility: the most a measure may be (of `interval_overlap`, `lowest_interval_overlap` the least)
    """

    attribute_probability: Share = 0.5
    attribute_odds_factor: Annotated[Float, Field(ge=1, description="a number >= 1")] = 1.5
    attribute_log_bayes_factor: Positive = 3.0
    true_match_rate: Share = 0.05
    identical_records: Share = 0.05
    unique_values: Share = 0.05
    replicated_uniques: Share = 0.1
    share_unreliable: Share = 0.01
    rhat: Annotated[Float, Field(gt=1, description="a number above 1; inf: not judged")] = 1.05
    membership_auc: Share | None = Field(None, description="a number from 0 to 1")
    membership_log_bayes_factor: Positive | None = Field(None, description="a number above 0")
    utility: dict[str, Number] = Field(
        {}, description="a table of measure = number: { ratio_cart = 5 }"
    )

    @model_validator(mode="after")
    def _measures_exist(self) -> "ThresholdsSection":
        for name in self.utility:
            if name not in UTILITIES:
                raise told(unknown(name, "[thresholds] utility", UTILITIES))
        return self

    def limits(self) -> Thresholds:
        """Return what the verdict compares with."""
        return Thresholds(**self.model_dump(exclude={"utility"}), utility=self.utility or None)


class BoundsSection(Section):
    """``[bounds]``: the options of ``release_bounds``.

    patterns: columns whose combinations are the patterns; all unsynthesised ones if left out
    m: data sets of each end; as many as the release has if left out
    how: values within a pattern are drawn with replacement, or exchanged
    numbers: synthesised columns drawn over their range, the others over their levels; those with
        more than 20 values if left out
    """

    patterns: SomeColumns = None
    m: Count | None = Field(None, description="a whole number >= 1, or leave it out")
    how: Literal["bootstrap", "permute"] = Field(
        "bootstrap", description='"bootstrap" or "permute"'
    )
    numbers: SomeColumns = None

    @property
    def options(self) -> dict[str, Any]:
        """The section as keyword arguments; without ``m`` where it is the release's."""
        return self.model_dump(exclude={"m"} if self.m is None else set())


Some = Count | Literal["all"] | Annotated[list[Label], Field(min_length=1)]
SOME = '"all" or a number of records to draw at random, or a list of labels'
Weight = Annotated[Float, Field(gt=0, le=1, description="a number above 0 and at most 1")]


class MembershipSection(Section):
    """``[membership]``: can it be told who is in the data? The options of ``membership``.

    held_out: this share plays people outside the data: membership is asked of a release of a model
        fitted without them
    others: instead of `held_out`, of the same population; asked of the release itself
    records: members to ask about
    knows_records: other records that are known; less than all of one data set only
    prior_odds: odds of being in the data before the release
    comparisons: at most so many people outside the data for each member
    alternatives: draws of "somebody else" for each member, where there are several data sets
    refit_budget: at most so many records with poor weights are refitted
    """

    held_out: Fraction | None = Field(None, description="a fraction above 0 and below 1: 0.5")
    others: Path | None = Field(
        None, description="the path of a table of people who are not in the data"
    )
    records: Some = Field(200, description=SOME)
    knows_records: Literal["all-but-target", "none"] | Fraction = Field(
        "all-but-target",
        description='"all-but-target", "none" or a fraction above 0 and below 1',
    )
    prior_odds: Positive = 1.0
    comparisons: Count = 200
    alternatives: AtLeastTwo = 200
    refit_budget: NotNegative = 10

    @model_validator(mode="after")
    def _one_source(self) -> "MembershipSection":
        if self.held_out is not None and self.others is not None:
            raise ValueError(
                "gives held_out and others, two ways to people outside the data; leave one out"
            )
        return self


class FullTableSection(Section):
    """``[full_table]``: where the truth stands among all values. Options of ``full_table_risk``.

    targets: so many records, those at highest attribute risk (without `[attribute]` at random), or
        these
    prior: what the model says without the release, flat, or from margins
    draws: draws of each fit to use; by the size of the table if left out
    keep: so many of the likeliest values are kept
    """

    targets: Count | Annotated[list[Label], Field(min_length=1)] = Field(
        20, description="a number of records, or a list of labels"
    )
    prior: Literal["predictive", "uniform", "marginal"] = Field(
        "predictive", description='"predictive", "uniform" or "marginal"'
    )
    draws: Count | None = Field(None, description="a whole number >= 1, or leave it out")
    keep: Count = 20


class ReweightSection(Section):
    """``[reweight]``: weigh records at risk down and begin again. Options of ``reweight``.

    until: stop when no record's true values are more probable
    share: this share of records may stay above
    rounds: at most so many rounds after the first
    c: weights are multiplied by `c (1 - IR) + g`, IR the risk that the release adds
    g: see `c`
    floor: smallest weight
    steps: weights are rounded down to multiples of 1 / steps: fewer are quicker
    """

    until: Annotated[Float, Field(gt=0, lt=1, description="a number above 0 and below 1")]
    share: Annotated[Float, Field(ge=0, lt=1, description="a number from 0, below 1")] = 0.0
    rounds: Count = 4
    c: FromZero = 1.0
    g: Number = 0.0
    floor: Weight = 0.02
    steps: Count = 50


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class ContextSection(Section):
    """``[context]``: the options of ``context_measures``.

    keys: columns that somebody knows of a person
    target: columns to be found out; without one no DiSCO, DCAP and TCAP
    groups: number of groups into which a number is cut; others match by their exact value
    distances: to the closest record over all columns, these, or none
    holdout: is the release closer to the data than to these people of the same population?
    lookups: at most so many released records are looked up for distances
    """

    keys: Annotated[list[str], Field(min_length=1, description="a list of column names")]
    target: Annotated[SomeColumns, BeforeValidator(_listed)] = Field(
        None, description="a column name, or a list of column names"
    )
    groups: dict[str, AtLeastTwo] = Field({}, description="a table of column = a whole number >= 2")
    distances: Annotated[bool, Field(strict=True)] | list[str] = Field(
        True, description="true or false, or a list of column names"
    )
    holdout: Path | None = Field(
        None, description="the path of a table of people the model has not seen"
    )
    lookups: Count = 5_000

    @property
    def options(self) -> dict[str, Any]:
        """The section as keyword arguments, but for the holdout, which has to be read."""
        return self.model_dump(exclude={"holdout"})


Rules = Literal["partially synthetic", "fully synthetic"]


class UtilitySection(Section):
    """``[utility]``: how like the original the release is. The options of ``utility``.

    columns: columns to compare; all that the releases hold if left out
    numbers: columns that are numbers; those with more than 20 values if left out
    groups: into how many groups numbers are cut for tables
    missing: missing values are a level of their own, or stop the run
    permutations: trees grown for the null of CART
    analyses: functions of a table that return a fitted model of statsmodels; the file is run
    rules: combining rules; in fully synthetic files every record is a new draw
    confidence: of intervals
    """

    columns: SomeColumns = None
    numbers: SomeColumns = None
    groups: AtLeastTwo = 5
    missing: Literal["level", "error"] = Field("level", description='"level" or "error"')
    permutations: AtLeastTwo = 20
    analyses: Functions = Field(
        [], description='the text "file.py:function", or a list of such texts'
    )
    rules: Rules = Field(
        "partially synthetic", description='"partially synthetic" or "fully synthetic"'
    )
    confidence: Annotated[
        Float, Field(gt=0, lt=1, description="a number above 0 and below 1: 0.95")
    ] = 0.95

    @model_validator(mode="after")
    def _each_analysis_once(self) -> "UtilitySection":
        names = [FunctionName(analysis).place[1] for analysis in self.analyses]
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            raise ValueError(
                f"analyses names two functions {repeated[0]!r}, by which results are told apart; "
                "give each a name of its own"
            )
        return self

    @property
    def options(self) -> dict[str, Any]:
        """The section as keyword arguments of ``utility``; reads the files of the analyses."""
        return self.model_dump(exclude={"analyses"}) | {"analyses": self.functions() or None}

    def functions(self) -> dict[str, Callable[[pd.DataFrame], Any]]:
        """Analyses by name."""
        where = {"key": "analyses", "section": "[utility]"}
        places = [FunctionName(analysis).place for analysis in self.analyses]
        return {
            name: guarded(function, path, **where)
            for function, (path, name) in zip(functions_in(places, **where), places, strict=True)
        }


Missing = Literal["level", "wildcard", "never"]


class RadiusSection(Section):
    """``{ absolute = 1000 }``, or ``{ sd = 1, groups = 20 }``, or ``{ quantile = 0.02 }``.

    absolute: in the unit of the column
    sd: so many standard deviations
    groups: beside `sd`: of the one of so many equal parts of the file that the target is in; 1 if
        left out
    quantile: this share of the file on either side
    """

    absolute: FromZero | None = Field(None, description="a number >= 0")
    sd: FromZero | None = Field(None, description="a number >= 0")
    groups: Count | None = Field(None, description="a whole number >= 1, beside sd")
    quantile: Share | None = Field(None, description="a number from 0 to 1")

    @model_validator(mode="after")
    def _one_kind(self) -> "RadiusSection":
        check_one_given(self, ("absolute", "sd", "quantile"), "{ absolute = 1000 }")
        if self.groups is not None and self.sd is None:
            raise ValueError("groups belongs to sd: { sd = 1, groups = 20 }")
        return self


class PopulationSection(Section):
    """``{ file = "everybody.csv" }``, or ``{ size = 500_000, fitted_to = "original" }``.

    file: read as the data are; may have people and values that the data cannot
    size: instead: number of people; counts are estimated by an all-two-way log-linear model
    fitted_to: beside `size`: the original, or each release
    """

    file: Path | None = Field(None, description="the path of a table with a row for everybody")
    size: Count | None = None
    fitted_to: Literal["original", "releases"] = Field(
        "original", description='"original" or "releases"'
    )

    @model_validator(mode="after")
    def _one_source(self) -> "PopulationSection":
        if (self.file is None) == (self.size is None):
            raise ValueError('give either file = "everybody.csv" or size = 500000')
        return self


def _radii(value: Any) -> Any:
    right = "a table of column = radius"
    return None if value is None else read_each(value, "[identification] radius", right, _radius)


def _radius(name: str, given: Any) -> Any:
    where = f"[identification] radius.{name}"
    if isinstance(given, Mapping | Section):
        return read_section(RadiusSection, given, where)
    if not is_number(given) or not 0 <= given < 1e300:
        raise told(misfit(where, given, "a number >= 0 (0.1 is 10 %), or { absolute = 1000 }"))
    return float(given)


def _strategy(value: Any) -> Any:
    if value in ("always", "likeliest") or (is_number(value) and 0 < value <= 1):
        return value
    right = '"always", "likeliest" or a number above 0 and at most 1'
    raise told(misfit("[identification] strategy", value, right))


class IdentificationSection(Section):
    """``[identification]``: what the matching intruder holds.

    known: keys that were not synthesised
    synthesized: keys that were: true values are matched against synthetic ones
    radius: by column; a number is a share of the true value (0.1: 10 %), other kinds are tables;
        all other keys match exactly
    shape: with several radii each must hold, or all together
    closed: the ends of these intervals belong to them
    missing: missing values match missing ones, everything, or nothing
    population: the intruder does not know who is in the file; not beside `radius`
    strategy: `"always"`: a match is claimed for everybody; `"likeliest"`: unless the target is
        likeliest outside the file; a number: if it is outside with a probability below it
    fallback: when nothing matches, the intruder chooses among all who share the `known` keys
    """

    known: Columns
    synthesized: Columns
    radius: Annotated[dict[str, Float | RadiusSection] | None, BeforeValidator(_radii)] = None
    shape: Literal["box", "ellipse"] = Field("box", description='"box" or "ellipse"')
    closed: Switch = True
    missing: Missing | dict[str, Missing] = Field(
        "level",
        description='"level", "wildcard" or "never", or a table of column = one of them',
    )
    population: PopulationSection | None = Field(
        None, description='{ file = "everybody.csv" } or { size = 500000 }'
    )
    strategy: Annotated[Float | str, BeforeValidator(_strategy)] = "always"
    fallback: Switch = True
