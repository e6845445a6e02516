"""Counts as ranges: each is wide enough for what it hides, and no other range narrows it."""

from typing import NamedTuple

import numpy as np


class Range(NamedTuple):
    """Where a number of records lies, both ends included."""

    low: float
    high: float


def range_of(value: float, n: int, min_count: int, *, whole: bool) -> Range | None:
    """The range that a number of records, or a sum of probabilities over records, is given as.

    All ranges begin at multiples of ``min_count``, the first at 0. The last ends at n and begins at
    the largest multiple that leaves it ``min_count`` numbers. So "none" and "all" are not told
    from "few" and "all but few", and of two numbers of which one cannot exceed the other
    neither narrows the range of the other.

    Parameters
    ----------
    value : float
        From 0 to n.
    n : int
        Records in all.
    min_count : int
    whole : bool
        A count; False: a sum of probabilities.

    Returns
    -------
    Range or None
        None where n is too small for two ranges, or there is no number.

    Examples
    --------
    >>> range_of(3, 100, 10, whole=True), range_of(57, 100, 10, whole=True)
    (Range(low=0, high=9), Range(low=50, high=59))
    >>> range_of(100, 100, 10, whole=True)
    Range(low=90, high=100)
    """
    if n < 2 * min_count or not np.isfinite(value):
        return None
    last = (n - min_count + whole) // min_count * min_count
    given = round(value) if whole else value + 1e-9 * n  # sums that should be whole are not quite
    low = min(int(given // min_count) * min_count, last)
    return Range(low, n if low == last else low + min_count - whole)


def rounded(value: float, digits: int = 2) -> float:
    """A number with so many significant digits."""
    return float(f"{value:.{digits}g}")
