"""``[attribute.intruder]`` of a study file: what the intruder knows of the records."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from bayes_risk._core.errors import InputError
from bayes_risk.intruder.intruder import Intruder

from .keys import Float, Label, Number, Section, Switch, as_keys, told

Named = Literal["all-but-target", "none", "second-largest", "second-largest-value", "all-but-two"]
Fraction = Annotated[Float, Field(gt=0, lt=1)]
Records = Named | Fraction | Annotated[list[Label], Field(min_length=1)]
OF_TRADE = ("second-largest", "second-largest-value", "all-but-two")
BY_MODEL = (
    "evidence",
    "target_mcse",
    "max_doublings",
    "refit_budget",
)  # not asked of an intruder of the trade


class IntruderSection(Section):
    """``[attribute.intruder]``: the fields of ``Intruder``, but for its columns and beliefs.

    knows_records: other records that are known; of counts also business competitors: the record
        with the second largest value, that value alone, all but the target and `other`
    largest: the count of which the target has the largest value; it alone is guessed, `targets` is
        left out
    other: label of the second record that is not known, beside `"all-but-two"`
    knows_totals: the total of a guessed column is known (needed by `"all-but-two"`)
    groups: whether it is known which records share a total; `"inferred"` (of MM) from the release
    """

    knows_records: Records = Field(
        "all-but-target",
        description=" or ".join(f'"{name}"' for name in get_args(Named))
        + ", or a fraction above 0 and below 1, or a list of record labels",
    )
    largest: str | None = Field(None, description="a column name")
    other: Label | None = Field(None, description="the label of a record")
    knows_totals: Switch | dict[str, Number] = Field(
        False, description="true or false, or a table of column = total"
    )
    groups: Literal["known", "inferred"] = Field("known", description='"known" or "inferred"')

    @model_validator(mode="before")
    @classmethod
    def _no_code(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "others" in value:
            raise told(
                "[attribute.intruder] others is a distribution of SciPy, which is code and has no "
                "place in a study file; leave it out, or audit in a script: Intruder(others=...)"
            )
        return value

    @model_validator(mode="after")
    def _says_what_it_must(self) -> "IntruderSection":
        self.declared()
        return self

    @property
    def knows_less(self) -> bool:
        """Whether records besides the target's are unknown."""
        return self.knows_records != "all-but-target"

    @property
    def of_trade(self) -> bool:
        """Whether this is an intruder of the trade, whom the model itself has to answer."""
        return self.knows_records in OF_TRADE

    @property
    def said(self) -> str:
        """The knowledge of records as the file says it, lists of labels in short."""
        known = self.knows_records
        shown = f'"{known}"' if isinstance(known, str) else f"{known}"
        key = "[attribute.intruder] knows_records"
        return f"{key} = {shown}" if not isinstance(known, list) else f"{key} = [labels]"

    @property
    def labels(self) -> list[int | str]:
        """Labels of known records, where they are listed."""
        return self.knows_records if isinstance(self.knows_records, list) else []

    @property
    def asks_of_groups(self) -> bool:
        """Whether it matters if this intruder knows which synthetic records share a total."""
        return self.knows_records in ("second-largest", "second-largest-value")

    def declared(self, columns: list[str] | None = None) -> Intruder:
        """Return what the library is told; ``columns`` of the target are known too."""
        try:
            return Intruder(knows_columns=tuple(columns or ()), **self.model_dump())
        except InputError as error:
            raise ValueError(as_keys(str(error))) from None


def attribute_settings(settings: dict[str, Any], intruder: IntruderSection) -> dict[str, Any]:
    """Settings of ``[attribute]`` that mean something to this intruder."""
    said = dict(settings["intruder"])
    said["knows_totals"] = bool(said["knows_totals"])
    if not intruder.asks_of_groups:
        del said["groups"]
    needless = BY_MODEL if intruder.of_trade else ()
    return {k: v for k, v in settings.items() if k not in needless} | {"intruder": said}
