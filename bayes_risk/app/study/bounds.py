"""``[bounds]`` of a study file: the same measures at both ends of the scale of risk."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from .keys import Count, Section, SomeColumns, unknown

if TYPE_CHECKING:
    from .study import Study


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


def check_bounds(study: "Study") -> None:
    """There is something to measure at the ends, and patterns stay. Raises ValueError."""
    section, columns = study.bounds, study.synthesized
    if section is None:
        return
    asked = (study.identification, study.utility, study.context)
    compared = study.compare is not None and study.compare.bounds
    if all(part is None for part in asked) and not compared:
        raise ValueError(
            "[bounds] measures at both ends of the scale what [identification], [utility] and "
            "[context] measure of the release; add one of them"
        )
    if columns is None:
        return
    for name in section.patterns or []:
        if name in columns:
            raise ValueError(
                f"[bounds] patterns names {name!r}, which is synthesised; leave it out"
            )
    for name in section.numbers or []:
        if name not in columns:
            raise ValueError(unknown(name, "[bounds] numbers", columns))
