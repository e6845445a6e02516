"""Checks of public arguments: one small function a rule, every message says what would be right."""

from collections.abc import Collection, Sequence
from typing import Any

from .errors import InputError


def at_least(name: str, value: Any, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(f"{name}={value!r} is not a whole number; give an integer >= {minimum}")
    if int(value) < minimum:
        raise InputError(f"{name}={value} is too small; give an integer >= {minimum}")
    return int(value)


def positive(name: str, value: Any) -> float:
    """Return `value` as a finite float above zero."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name}={value!r} is not a number; give a positive number") from None
    if not 0 < number < float("inf"):
        raise InputError(f"{name}={value!r} must be positive and finite")
    return number


def one_of(name: str, value: Any, allowed: Collection[str]) -> str:
    """Return `value` if it is one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{name}={value!r} is not known; give one of {sorted(allowed)}")
    return value


def known_columns(name: str, wanted: Sequence[str], present: Sequence[str]) -> list[str]:
    """Return `wanted` as a list of distinct columns, all of them in `present`."""
    if isinstance(wanted, str):
        raise InputError(f"{name}={wanted!r} is a single string; give a list of column names")
    columns = list(wanted)
    for column in columns:
        if column not in present:
            raise InputError(
                f"{name} names column {column!r}, which the table does not have; "
                f"it has {list(present)}"
            )
    repeated = sorted({str(c) for c in columns if columns.count(c) > 1})
    if repeated:
        raise InputError(f"{name} names {repeated} more than once; name each column once")
    return columns
