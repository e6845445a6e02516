"""What the intruder knows."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import one_of

# What each knowledge of records must say (needs) and may say (allows). One that is to come (a
# fraction, a mask, none) joins here and in `_WORDS`.
_NEEDS = {
    "all-but-target": (),
    "second-largest": ("largest",),
    "second-largest-value": ("largest",),
    "all-but-two": ("other", "knows_totals"),
}
_ALLOWS = {
    "all-but-target": (),
    "second-largest": ("largest", "knows_totals", "groups", "others"),
    "second-largest-value": ("largest", "knows_totals", "groups", "others"),
    "all-but-two": ("largest", "other", "knows_totals"),
}
_UNSAID = {
    "largest": None,
    "other": None,
    "knows_totals": False,
    "groups": "known",
    "others": None,
}
_WORDS = {
    "all-but-target": "The intruder knows every record but the target's",
    "second-largest": "The intruder knows the record with the second largest {largest}",
    "second-largest-value": "The intruder knows the second largest value of {largest}",
    "all-but-two": "The intruder knows every record but the target's and that of {other}",
}


@dataclass(frozen=True, slots=True)
class Intruder:
    """What the intruder knows of the records (A) and of the target.

    Parameters
    ----------
    knows_records : str
        ``"all-but-target"``: every record except the target's, the worst case ``A = y_-i``.
        ``"second-largest"``: the record with the second largest value of the column ``largest``;
        ``"second-largest-value"``: only that value of it. ``"all-but-two"``: every record but the
        target's and that of ``other``, and the sum of these two. The last three are intruders of
        the trade (Wei & Reiter 2016), for models that offer them: `models.PoissonMixture`.
    knows_columns : sequence of str
        Columns of the target that the intruder knows beyond the unsynthesised ones. Guesses leave
        them at their true values.
    largest : str, optional
        The column of which the target is known to hold the largest value: guesses below the known
        values are impossible. Only this column is guessed.
    other : hashable, optional
        Label of the second record that is not known (``"all-but-two"``).
    knows_totals : bool, or mapping of column to total
        Whether the confidential total of a guessed column is known; a mapping gives it, and is
        checked. Of ``"all-but-two"`` it must be True: the sum of the two then follows.
    groups : {"known", "inferred"}
        Releases dealt by totals: whether the intruder knows which synthetic records share a total
        (the worst case), or infers it from the release.
    others : frozen distribution of SciPy, optional
        What the intruder believes of every other value above the threshold, where a release has
        collapsed a tail; a power law of unknown exponent, from the threshold to the second largest,
        by default.

    Raises
    ------
    InputError
        An intruder that this version does not know, or one who is told too little, or what does not
        concern them.

    Examples
    --------
    >>> Intruder().knows_records
    'all-but-target'
    >>> Intruder(knows_records="second-largest", largest="skilled").in_words()
    'The intruder knows the record with the second largest skilled and that the target has more.'
    """

    knows_records: str = "all-but-target"
    knows_columns: Sequence[str] = ()
    largest: str | None = None
    other: Hashable = None
    knows_totals: bool | Mapping[str, float] = False
    groups: str = "known"
    others: Any = None

    def __post_init__(self) -> None:
        if self.knows_records not in _NEEDS:
            raise InputError(
                f"knows_records={self.knows_records!r} is not available; give one of {list(_NEEDS)}"
            )
        if isinstance(self.knows_columns, str):
            raise InputError(
                f"knows_columns={self.knows_columns!r} is a single string; give a list of column "
                "names"
            )
        one_of("groups", self.groups, ("known", "inferred"))
        self._check_said()
        self._check_others()

    @property
    def knows_less(self) -> bool:
        """Whether records besides the target's are unknown."""
        return self.knows_records != "all-but-target"

    def in_words(self) -> str:
        """What is known of records and target, in a sentence or two for reports."""
        parts = [_WORDS[self.knows_records].format(largest=self.largest, other=repr(self.other))]
        if self.knows_columns:
            parts.append(f"the target's {', '.join(map(str, self.knows_columns))}")
        if self.knows_records == "all-but-two":
            parts.append("the sum of these two")
        elif self.knows_totals:
            parts.append("the total of the column")
        if self.largest is not None:
            more = "" if self.knows_records != "all-but-two" else f" {self.largest} than anybody"
            parts.append(f"that the target has more{more}")
        return f"{_joined(parts)}.{self._beliefs()}"

    def _beliefs(self) -> str:
        """Further sentences: what is inferred, what is believed."""
        said = ""
        if self.groups == "inferred":
            said += " Which synthetic records share a total the intruder infers."
        if self.others is not None:
            said += (
                " Of the other values of a collapsed tail the intruder has a belief of their own."
            )
        return said

    def _check_said(self) -> None:
        for name, unsaid in _UNSAID.items():
            value = getattr(self, name)
            said = value is not unsaid and value != unsaid
            if name in _NEEDS[self.knows_records] and not said:
                cure = {
                    "largest": 'the column of which the target holds the largest value: "skilled"',
                    "other": "the label of the second record that is not known",
                    "knows_totals": "True: the sum of the two is what this intruder knows",
                }[name]
                raise InputError(f"knows_records={self.knows_records!r} needs {name}: give {cure}")
            if said and name not in _ALLOWS[self.knows_records]:
                raise InputError(
                    f"{name}={value!r} says nothing to an intruder with knows_records="
                    f"{self.knows_records!r}; leave it out, or give another knows_records"
                )
        if self.largest is not None and self.largest in self.knows_columns:
            raise InputError(
                f"knows_columns names {self.largest!r}, which is to be guessed; leave it out"
            )

    def _check_others(self) -> None:
        if self.others is not None and not hasattr(self.others, "cdf"):
            raise InputError(
                f"others={self.others!r} has no cdf; give one of SciPy's frozen distributions: "
                "scipy.stats.loguniform(200, 900)"
            )


def _joined(parts: list[str]) -> str:
    """A list in words."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
