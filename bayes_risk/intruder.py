"""What the intruder knows."""

from collections.abc import Sequence
from dataclasses import dataclass

from bayes_risk._core.errors import InputError


@dataclass(frozen=True, slots=True)
class Intruder:
    """What the intruder knows of the records (A) and of the target.

    Parameters
    ----------
    knows_records : {"all-but-target"}
        The worst case ``A = y_-i``: every record except the target's.
    knows_columns : sequence of str
        Columns of the target that the intruder knows beyond the unsynthesised ones. Guesses leave
        them at their true values.

    Raises
    ------
    InputError
        An intruder that this version does not know.

    Examples
    --------
    >>> Intruder().knows_records
    'all-but-target'
    """

    knows_records: str = "all-but-target"
    knows_columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.knows_records != "all-but-target":
            raise InputError(
                f'knows_records={self.knows_records!r} is not available; give "all-but-target"'
            )
        if isinstance(self.knows_columns, str):
            raise InputError(
                f"knows_columns={self.knows_columns!r} is a single string; give a list of column "
                "names"
            )

    def in_words(self) -> str:
        """One sentence for reports."""
        known = (
            f" and the target's {', '.join(map(str, self.knows_columns))}"
            if self.knows_columns
            else ""
        )
        return f"The intruder knows every record but the target's{known}."
