"""Checks of public arguments: one small function a rule, every message says what would be right."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from .errors import Argument, InputError

# The most that an argument of this name, and the key of a study file, may be: beyond it nothing
# could be finished, or counted to tell how long it takes.
MOST: Mapping[str, int] = (
    {"max_doublings": 20, "chains": 100, "splits": 100, "distance": 9_999}
    | dict.fromkeys(("m", "n_classes", "thin", "rounds", "n_jobs"), 1_000)
    | dict.fromkeys(("bins", "groups", "permutations", "replicates"), 10_000)
    | dict.fromkeys(("n_trees", "alternatives", "comparisons"), 100_000)
    | dict.fromkeys(("draws", "tune", "n", "keep", "steps", "n_tables"), 1_000_000)
    | dict.fromkeys(("budget", "guess_budget"), 10_000_000)
    | dict.fromkeys(("targets", "records", "refit_budget", "lookups"), 1_000_000_000)
    | dict.fromkeys(("min_leaf", "threshold", "donors", "min_count"), 1_000_000_000)
    | dict.fromkeys(("batch", "trials", "binomial"), 1_000_000_000)
    | {"size": 100_000_000_000, "random_seed": 2**128 - 1}
)

# Positive numbers beyond which sums of counts and them lose their digits.
WITHIN: Mapping[str, tuple[float, float]] = {"level_prior": (1e-9, 1e9)}


def most_of(name: Argument) -> int | None:
    """Return the bound of an argument; None: it has none."""
    return MOST.get(name if isinstance(name, str) else name[0])


def is_number(value: Any) -> bool:
    """Whether a value is a number: truth values and text that reads as one are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def at_least(name: Argument, value: Any, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(name, value, f"is not a whole number; give an integer >= {minimum}")
    if int(value) < minimum:
        raise InputError(name, value, f"is too small; give an integer >= {minimum}")
    most = most_of(name)
    if most is not None and int(value) > most:
        raise InputError(name, value, f"is too large; give an integer <= {most:,}")
    return int(value)


def number(name: Argument, value: Any, right: str = "a number") -> Any:
    """Return `value` if it is a number, of any size."""
    if not is_number(value):
        raise InputError(name, value, f"is not a number; give {right}")
    return value


def positive(name: Argument, value: Any) -> float:
    """Return `value` as a finite float above zero."""
    number(name, value, "a positive number")
    try:
        found = float(value)
    except OverflowError:  # a whole number that no float holds
        found = float("inf")
    if not 0 < found < float("inf"):
        raise InputError(name, value, "must be positive and finite")
    low, high = WITHIN.get(str(name), (0, float("inf")))
    if not low <= found <= high:
        size = "small" if found < low else "large"
        raise InputError(name, value, f"is too {size}; give {low:g} to {high:g}")
    return found


def positives(name: Argument, values: Any, example: Sequence[float]) -> tuple[float, ...]:
    """Return as many finite floats above zero as the example has."""
    given = isinstance(values, Sequence) and not isinstance(values, str)
    if not given or len(values) != len(example):
        raise InputError(name, values, f"; give {len(example)} positive numbers: {example}")
    return tuple(positive(name, value) for value in values)


def one_of(name: Argument, value: Any, allowed: Collection[str]) -> str:
    """Return `value` if it is one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(name, value, f"is not known; give one of {sorted(allowed)}")
    return value


def known_columns(
    name: Argument,
    wanted: Iterable[Any],
    present: Sequence[Any],
    source: str = "the table",
    *,
    least: int = 0,
) -> list[str]:
    """Return `wanted` as a list of distinct columns, all of them in `present`."""
    if isinstance(wanted, str):
        raise InputError(name, wanted, "is a single string; give a list of column names")
    columns, held = list(wanted), set(present)
    if len(columns) < least:
        raise InputError(name, "is empty; name at least one column")
    for column in columns:
        if not isinstance(column, Hashable) or column not in held:
            raise InputError(
                name,
                f"names column {column!r}, which {source} does not have; it has {list(present)}",
            )
    repeated = sorted(str(c) for c, times in Counter(columns).items() if times > 1)
    if repeated:
        raise InputError(name, f"names {repeated} more than once; name each column once")
    return columns
