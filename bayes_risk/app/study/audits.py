"""Sections of a study file beyond the two risks: membership, the full table, reweighting."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from .intruder import Fraction
from .keys import AtLeastTwo, Count, Float, FromZero, Label, NotNegative, Number, Positive, Section

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
