"""How near a released number must come to the target's: radii, and the intervals they give."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

import numpy as np

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError, shown
from bayes_risk._core.formats import plain
from bayes_risk._core.validate import is_number
from bayes_risk.data.precision import SAME

from .input import check_named

LAST = np.finfo(np.float64).max  # an end beyond the largest number is no end


@runtime_checkable
class Radius(Protocol):
    """A rule for the interval around each target's value."""

    def ends(self, y: Array, column: Array) -> tuple[Array, Array]:
        """Ends of the intervals around values y (n_t,); ``column``: the file's genuine values."""
        ...

    def in_words(self) -> str:
        """How reports call it."""
        ...


def _checked(name: str, value: Any, what: str) -> None:
    if not is_number(value) or not 0 <= float(value) < float("inf"):
        raise InputError(f"`{name}({shown(value)})` is not a {what}; give a finite number >= 0")


@dataclass(frozen=True, slots=True)
class Relative:
    """Within ``r |y|`` of the target's value y (Hornby & Hu 2021): at 0 that is the value itself.

    Parameters
    ----------
    r : float
        At least 0; 0.1 is 10 %.

    Examples
    --------
    >>> Relative(0.1).in_words()
    'within 10 %'
    """

    r: float

    def __post_init__(self) -> None:
        _checked("Relative", self.r, "relative radius")

    def ends(self, y: Array, column: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            return y - self.r * np.abs(y), y + self.r * np.abs(y)

    def in_words(self) -> str:
        return f"within {plain(100 * self.r, 6)} %"


@dataclass(frozen=True, slots=True)
class Absolute:
    """Within so many units of the target's value.

    Parameters
    ----------
    units : float
        At least 0, in units of the column.

    Examples
    --------
    >>> Absolute(1000).in_words()
    'within 1,000'
    """

    units: float

    def __post_init__(self) -> None:
        _checked("Absolute", self.units, "radius")

    def ends(self, y: Array, column: Array) -> tuple[Array, Array]:
        return y - self.units, y + self.units

    def in_words(self) -> str:
        return f"within {plain(self.units, 6)}"


@dataclass(frozen=True, slots=True)
class SD:
    """Within k standard deviations of the target's value (Drechsler & Reiter 2009).

    Parameters
    ----------
    k : float
        At least 0.
    groups : int
        The standard deviation is that of the records in the target's own one of so many groups of
        equal size, cut by the column's quantiles; by default of the whole file. Drechsler & Reiter
        (2009) took 20 groups and k = 1. A group needs two records at least.

    Raises
    ------
    InputError
        A negative or infinite k, fewer than one group; in `ends`: a target's group with fewer than
        two records.

    Examples
    --------
    >>> SD(1, groups=20).in_words()
    'within 1 standard deviation (20 groups)'
    """

    k: float
    groups: int = 1

    def __post_init__(self) -> None:
        _checked("SD", self.k, "multiple of the standard deviation")
        whole = isinstance(self.groups, Integral) and not isinstance(self.groups, bool)
        if not whole or self.groups < 1:
            raise InputError(f"`SD(groups={shown(self.groups)})`; give a whole number >= 1")
        object.__setattr__(self, "groups", int(self.groups))

    def ends(self, y: Array, column: Array) -> tuple[Array, Array]:
        cuts = np.quantile(column, np.arange(1, self.groups) / self.groups)
        group = np.searchsorted(cuts, column, side="right")
        own = np.searchsorted(cuts, y, side="right")
        count = np.bincount(group, minlength=self.groups)
        few, n = int((count[own] < 2).sum()), len(column)
        if few and self.groups > 1:  # one record, or none, has no standard deviation
            cure = f"`SD({self.k:g}, groups={max(n // 4, 1)})`" if n > 3 else "`Absolute(...)`"
            raise InputError(
                f"`SD(groups={self.groups})` of {n:,} records leaves {few:,} of {len(y):,} "
                f"targets in a group of fewer than two, of which there is no standard deviation; "
                f"give fewer groups: {cure}"
            )
        mean = np.bincount(group, column, self.groups) / np.maximum(count, 1)
        square = np.bincount(group, (column - mean[group]) ** 2, self.groups)
        reach = self.k * np.sqrt(square / np.maximum(count - 1, 1))[own]
        return y - reach, y + reach

    def in_words(self) -> str:
        what = "standard deviation" + "s" * (self.k != 1)
        of = f" ({self.groups:,} groups)" if self.groups > 1 else ""
        return f"within {plain(self.k, 6)} {what}{of}"


@dataclass(frozen=True, slots=True)
class Quantile:
    """Between the quantiles that lie q below and above the target's own place in the file.

    Parameters
    ----------
    q : float
        Share of the file on either side, from 0 to 1.

    Examples
    --------
    >>> Quantile(0.02).in_words()
    'within 2 % of the file on either side'
    """

    q: float

    def __post_init__(self) -> None:
        _checked("Quantile", self.q, "share")
        if self.q > 1:
            raise InputError(
                f"`Quantile({shown(self.q)})` is not a share; give a number from 0 to 1"
            )

    def ends(self, y: Array, column: Array) -> tuple[Array, Array]:
        ordered = np.sort(column)
        n = len(ordered)
        step = int(np.floor(round(self.q * n, 9)))  # 0.29 of 100 is 29, not 28.999...
        first = np.searchsorted(ordered, y, side="left")
        last = np.searchsorted(ordered, y, side="right") - 1
        low = ordered[np.clip(first - step, 0, n - 1)]
        high = ordered[np.clip(last + step, 0, n - 1)]
        return np.minimum(low, y), np.maximum(high, y)

    def in_words(self) -> str:
        return f"within {plain(100 * self.q, 6)} % of the file on either side"


def as_setting(radius: Radius) -> Any:
    """A radius as a study file writes it; rules of the user's own in words."""
    match radius:
        case Relative(r):
            return r
        case Absolute(units):
            return {"absolute": units}
        case Quantile(q):
            return {"quantile": q}
        case SD(k, groups):
            return {"sd": k, "groups": groups}
    return radius.in_words()


def checked_radius(
    radius: Mapping[str, float | Radius] | None, keys: Sequence[str]
) -> dict[str, Radius]:
    """Return the radius of each numeric key, in the order of the keys; none is ``{}``."""
    if radius is None:
        return {}
    if not isinstance(radius, Mapping):
        raise InputError(
            "radius",
            radius,
            f"is a {type(radius).__name__}; give a dict of column to radius, such as "
            "{'income': 0.1}",
        )
    check_named("radius", radius, keys, "list it in `known` or `synthesized`, or leave it out")
    return {name: _radius(name, radius[name]) for name in keys if name in radius}


def _radius(name: str, given: Any) -> Radius:
    if isinstance(given, Radius) and not isinstance(given, type):
        return given
    if not is_number(given) or not 0 <= float(given) < float("inf"):
        raise InputError(
            ("radius", name),
            given,
            "is not a radius; give a finite number >= 0 (0.1 is 10 %), or `Absolute(1000)`, "
            "`SD(1)`, `Quantile(0.02)` (or a `Radius`)",
        )
    if float(given) > 1:
        raise InputError(
            ("radius", name),
            given,
            f"would be {plain(100 * float(given), 6)} % of each value, as a number is a share "
            f"(0.1 is 10 %); for units of the column give `Absolute({given!r})`",
        )
    return Relative(float(given))


def checked_ends(
    name: str, radius: Radius, y: Array, column: Array, closed: bool
) -> tuple[Array, Array]:
    """Ends of the intervals around y, both inside, as `decided`; a user's own are looked at."""
    found: Any = radius.ends(y, column)
    what = f"radius[{name!r}]: ends of {type(radius).__name__} gives"
    cure = f"let it give two arrays of {len(y)} numbers, lower and upper ends"
    try:
        if not isinstance(found, tuple | list):
            raise TypeError
        low, high = (np.asarray(ends, dtype=np.float64) for ends in found)
    except (TypeError, ValueError):
        raise InputError(f"{what} a {type(found).__name__}; {cure}") from None
    if low.shape != y.shape or high.shape != y.shape:
        raise InputError(f"{what} shapes {low.shape} and {high.shape}; {cure}")
    wrong = int((~(low <= high)).sum())  # NaN too
    if wrong:
        raise InputError(
            f"{what} lower ends above the upper ones, or NaN, for {wrong:,} of {len(y):,} targets; "
            f"{cure}"
        )
    return decided(low, y, high, closed)


def decided(low: Array, y: Array, high: Array, closed: bool) -> tuple[Array, Array]:
    """Finite ends of intervals around y, moved so that `low <= x <= high` says what decimals say.

    Values and radii are decimals of up to 15 digits, stored with an error of 1e-16 of their size,
    and their sums with the like: what lies within `SAME` of an end, in units of the larger of value
    and radius, lies on it. It is inside if ends belong (``closed``), else outside. A value is
    always inside its own interval, and so is one that differs from it by rounding alone.
    """
    low, high = np.clip(low, -LAST, LAST), np.clip(high, -LAST, LAST)
    with np.errstate(over="ignore"):
        on = [_rounding(np.maximum(np.abs(end), np.abs(y))) for end in (low, high)]
        own = _rounding(np.abs(y))
        if closed:
            low, high = np.minimum(low, y) - on[0], np.maximum(high, y) + on[1]
        else:
            low, high = np.minimum(low + on[0], y - own), np.maximum(high - on[1], y + own)
    return np.clip(low, -LAST, LAST), np.clip(high, -LAST, LAST)


def _rounding(size: Array) -> Array:
    """What numbers of that size may be apart and equal: never two whole ones, up to 2^53."""
    return np.asarray(np.minimum(SAME * size, np.maximum(0.5, 4 * np.finfo(np.float64).eps * size)))
