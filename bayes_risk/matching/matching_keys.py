"""The keys of one matching task, coded and numbered: exact ones as cells, others as numbers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.boxes import box_up
from bayes_risk._core.matching import Cells, cell_codes, number_keys
from bayes_risk._core.windows import NumericKey

from .input import Targets
from .keys import Key, synthesized_key, unsynthesized_key
from .numeric_keys import Compared, code_key, numeric_key
from .radii import Radius

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
