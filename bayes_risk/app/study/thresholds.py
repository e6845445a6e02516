"""``[thresholds]`` of a study file: what the agency accepts."""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from bayes_risk.reporting.verdicts.verdict import Thresholds
from bayes_risk.studies.comparing.words import UTILITIES

from .keys import Float, Number, Positive, Section, Share, told, unknown

if TYPE_CHECKING:
    from .study import Study

ESTIMATES = ("interval_overlap", "lowest_interval_overlap", "largest_standardized_difference")


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


def check_thresholds(study: "Study") -> None:
    """What is judged only when asked for is measured; raises ValueError."""
    wanted, given = study.thresholds, study.membership
    for key in ("membership_auc", "membership_log_bayes_factor"):
        if getattr(wanted, key) is not None and given is None:
            raise ValueError(f"[thresholds] {key} needs a section [membership]; add it")
    if wanted.membership_auc is not None and given is not None:
        if given.held_out is None and given.others is None:
            raise ValueError(
                "[thresholds] membership_auc compares members with people outside the data; give "
                "[membership] held_out or others"
            )
    if wanted.utility and study.utility is None:
        raise ValueError("[thresholds] utility needs a section [utility]; add it")
    for name in wanted.utility:
        check_estimate(study, name, f"[thresholds] utility.{name}")


def check_estimate(study: "Study", name: str | None, where: str) -> None:
    """Measures of estimates need analyses; raises ValueError."""
    if name in ESTIMATES and (study.utility is None or not study.utility.analyses):
        raise ValueError(
            f'{where} is of analyses; give [utility] analyses = "analyses.py:fit", or another '
            "measure"
        )
