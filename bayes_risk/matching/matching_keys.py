"""The keys of one matching task, coded and numbered: exact ones as cells, others as numbers.

Keys that are compared as numbers: within a radius, or with missing values that are no level.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.boxes import box_up
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import Cells, cell_codes, number_keys
from bayes_risk._core.windows import NumericKey

from .input import Targets
from .keys import Key, check_unchanged, source, synthesized_key, unsynthesized_key
from .radii import Radius, checked_ends

Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
LAST = np.finfo(np.float64).max  # an end beyond the largest number is no end
SAME = 1e-12  # relative: what a number may lose on its way through a text file


class Compared(NamedTuple):
    """How a key is compared: as a number, by its level, or both (is it missing, and if not)."""

    key: NumericKey | None
    level: Key | None


def numeric_key(
    target: pd.Series,
    original: pd.Series,
    tables: Sequence[pd.DataFrame],
    radius: Radius,
    *,
    unsynthesized: bool,
    missing: str,
    closed: bool,
) -> Compared:
    """Compare a key as numbers: those of the targets with those of the releases.

    Released values have shape (m, n), or (1, n) if the key is unsynthesised.
    """
    name = str(original.name)
    column = _numbers(original, "the original", missing)
    y = _numbers(target, "the targets", missing)
    shown = [
        _numbers(table[original.name], source(l), missing)
        for l, table in enumerate(tables, start=1)
        if original.name in table or not unsynthesized
    ]
    if unsynthesized:
        for l, values in enumerate(shown, start=1):
            same = np.isclose(values, column, rtol=SAME, atol=0.0, equal_nan=True)
            check_unchanged(name, int((~same).sum()), len(column), source(l))
        shown = [column]
    present = column[~np.isnan(column)]
    if not len(present):
        raise InputError(f"key {name!r} is missing in every record of the original; leave it out")
    around = np.where(np.isnan(y), present[0], y)
    low, high = _finite(checked_ends(name, radius, around, present), around, closed)
    key = NumericKey(y, low, high, np.stack(shown))
    return _by_level(key) if missing == "level" else Compared(_by_rule(key, missing), None)


def _finite(ends: tuple[Reals, Reals], y: Reals, closed: bool) -> tuple[Reals, Reals]:
    """Finite ends of closed intervals. Open ones end a number earlier, but not before y itself.

    The file's smallest value is the lower end of its own `Quantile`: it belongs to it all the same.
    """
    low, high = (np.clip(end, -LAST, LAST) for end in ends)
    if closed:
        return low, high
    point = low == high  # nothing is inside
    return (
        np.where((low < y) | point, np.nextafter(low, np.inf), low),
        np.where((high > y) | point, np.nextafter(high, -np.inf), high),
    )


def code_key(key: Key, gone: tuple[Flags, Flags], missing: str) -> NumericKey:
    """A categorical key whose missing values are no level; ``gone``: targets', released ones."""
    y, value = key.target.astype(float), np.atleast_2d(key.released).astype(float)
    y[gone[0]], value[np.atleast_2d(gone[1])] = np.nan, np.nan
    return _by_rule(NumericKey(y, y, y, value), missing)


def _by_level(key: NumericKey) -> Compared:
    """Missing values match each other: whether a value is missing becomes a key of its own."""
    lost, gone = np.isnan(key.y), np.isnan(key.value)
    if not lost.any() and not gone.any():
        return Compared(key, None)
    y, low, high = (np.where(lost, 0.0, x) for x in key[:3])
    level = Key(lost.astype(np.int64), gone.astype(np.int64), 2)
    return Compared(NumericKey(y, low, high, np.where(gone, 0.0, key.value)), level)


def _by_rule(key: NumericKey, missing: str) -> NumericKey:
    """Missing values match anything, or nothing."""
    y, low, high, value = key
    lost, wild = np.isnan(y), missing == "wildcard"
    reach = (-np.inf, np.inf) if wild else (np.inf, -np.inf)
    return NumericKey(
        np.where(lost, 0.0, y),
        np.where(lost, reach[0], low),
        np.where(lost, reach[1], high),
        value if wild else np.where(np.isnan(value), np.inf, value),
    )


def _numbers(column: pd.Series, where: str, missing: str) -> Reals:
    dtype, is_a = column.dtype, pd.api.types
    if (
        not is_a.is_numeric_dtype(dtype)
        or is_a.is_bool_dtype(dtype)
        or is_a.is_complex_dtype(dtype)
    ):
        raise InputError(
            f"key {column.name!r} ({dtype}) of {where} holds no real numbers, which a radius "
            "needs; convert it (pandas.to_numeric), or leave it out of radius"
        )
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(values).any():
        raise InputError(
            f"key {column.name!r} of {where} has infinite values in {np.isinf(values).sum():,} of "
            f"{len(values):,} records, which lie within no radius; mend them, or cut the key into "
            "categories (pandas.cut) and leave it out of radius"
        )
    return values


Ids = npt.NDArray[np.int64]


class MatchingKeys(NamedTuple):
    """Keys of n_t targets and of n records in m releases.

    ``u``, ``z``: numbers of exact keys, shapes (n_t,) and (m, n), -1 where no target has it;
    ``u_us``, ``z_us``: those of the unsynthesised ones alone, (n_t,) and (1, n). ``numeric`` and
    ``numeric_us``: keys compared as numbers, all and the unsynthesised ones.
    """

    place: Ids
    u: Ids
    z: Ids
    u_us: Ids
    z_us: Ids
    numeric: Sequence[NumericKey]
    numeric_us: Sequence[NumericKey]

    @classmethod
    def of(
        cls,
        original: pd.DataFrame,
        tables: Sequence[pd.DataFrame],
        sought: Targets,
        known: Sequence[str],
        synthesized: Sequence[str],
        radius: Mapping[str, Radius],
        *,
        missing: Mapping[str, str],
        closed: bool,
        also: Sequence[Key] = (),
    ) -> "MatchingKeys":
        """Code every key over the targets, the original and the releases.

        ``also``: further unsynthesised keys, already coded.
        """
        exact: dict[bool, list[Key]] = {True: [*also], False: []}  # by whether it is unsynthesised
        numeric: dict[bool, list[NumericKey]] = {True: [], False: []}
        for name in [*known, *synthesized]:
            us = name in known
            column, how = original[name], missing[name]
            target = column if sought.frame is original else sought.frame[name]
            if name in radius:
                within = radius[name]
                found = numeric_key(
                    *(target, column, tables, within), unsynthesized=us, missing=how, closed=closed
                )
            else:
                found = _level_key(name, target, column, tables, unsynthesized=us, missing=how)
            numeric[us] += [] if found.key is None else [found.key]
            exact[us] += [] if found.level is None else [found.level]
        return cls._numbered(sought.place, exact, numeric, m=len(tables), n=len(original))

    @classmethod
    def _numbered(
        cls,
        place: Ids,
        exact: Mapping[bool, Sequence[Key]],
        numeric: Mapping[bool, Sequence[NumericKey]],
        *,
        m: int,
        n: int,
    ) -> "MatchingKeys":
        us = _codes(exact[True], len(place), (1, n))
        cells, cell = np.unique(us, return_inverse=True)  # targets first, then records
        digits = Key(cell[: len(place)], cell[len(place) :], len(cells))
        code = _codes([digits, *exact[False]], len(place), (m, n))
        u, z = number_keys(code[: len(place)], code[len(place) :].reshape(m, n))
        u_us, z_us = number_keys(digits.target, digits.released.reshape(1, n))
        wide = [k._replace(value=np.broadcast_to(k.value, (m, n))) for k in numeric[True]]
        return cls(place, u, z, u_us, z_us, [*wide, *numeric[False]], numeric[True])

    def cells(self, *, fallback: bool, certain: bool, limit: float) -> Cells:
        """Each target's records by the unsynthesised keys alone."""
        if self.numeric_us:
            boxes = box_up(self.u_us, self.z_us, self.place, self.numeric_us, limit=limit)
            return Cells(boxes.N[0], boxes.own[0], fallback and certain, certain)
        number, z = self.u_us, self.z_us[0]
        size = np.bincount(z + 1, minlength=int(number.max()) + 2)[1:]
        own = (self.place >= 0) & (z[self.place] == number)
        return Cells(size[number], own, fallback and certain, certain)


def _codes(keys: Sequence[Key], n_targets: int, shape: tuple[int, int]) -> Ids:
    """Cell codes of targets, then of the released records, release after release."""
    m, n = shape
    digits = [
        np.append(key.target, np.broadcast_to(key.released, shape).reshape(-1)) for key in keys
    ]
    return cell_codes(digits, [key.n_levels for key in keys], shape=(n_targets + m * n,))


def _level_key(
    name: str,
    target: pd.Series,
    original: pd.Series,
    tables: Sequence[pd.DataFrame],
    *,
    unsynthesized: bool,
    missing: str,
) -> Compared:
    """A categorical key; a number if its missing values are there, and no level of their own."""
    coded = unsynthesized_key if unsynthesized else synthesized_key
    key = coded(name, target, original, tables)
    if missing == "level":
        return Compared(None, key)
    shown = [original] if unsynthesized else [table[name] for table in tables]
    gone = target.isna().to_numpy(), np.stack([column.isna().to_numpy() for column in shown])
    if not (gone[0].any() or gone[1].any()):
        return Compared(None, key)
    return Compared(code_key(key, gone, missing), None)
