"""Whether row i of a released file is record i of the original, as far as kept columns tell."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import gammaln

from bayes_risk._core.arrays import Ints
from bayes_risk._core.matching import distinct_rows
from bayes_risk.data.base_result import Result

from .tables import Tables

LUCK = math.log(1e-3)  # that a random order agrees as well


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RowCorrespondence(Result):
    """What m files have of the columns of an original of n records, row by row; holds no value.

    A column is *kept* if it differs from the original in fewer than half of the rows in which it
    would differ in a random order, and a random order would agree as well with a probability below
    1 in 1,000, for all columns looked at; *reordered* if it is not kept and has the original's
    values in other rows. A column with one value, and one that numbers the records, says nothing.
    Of columns that are no synthesised keys.
    """

    n: int  # records
    shared: tuple[int, ...]  # (m,): columns that file and original both have
    kept: tuple[tuple[str, ...], ...]  # (m,)
    reordered: tuple[tuple[str, ...], ...]  # (m,)
    stated: bool = False  # somebody who knows says that rows correspond

    @property
    def unmatched(self) -> tuple[int, ...]:
        """Files, counted from 1, whose rows are not seen to be the original's: none was kept."""
        return tuple(l for l, names in enumerate(self.kept, start=1) if not names)

    @property
    def elsewhere(self) -> tuple[tuple[int, str], ...]:
        """File, counted from 1, and column with the original's values in other rows."""
        return tuple((l, name) for l in self.unmatched for name in self.reordered[l - 1])

    def doubts(self) -> dict[str, str]:
        """What is in question of which files, by what would settle it: moved rows, and unknown."""
        moved = ", ".join(str(l) for l in self.unmatched if self.reordered[l - 1])
        unknown = ", ".join(str(l) for l in self.unmatched if not self.reordered[l - 1])
        names = ", ".join(sorted({name for _, name in self.elsewhere}))
        texts = {
            "rows moved": f"No column of release {moved} stands in the original's rows, and the "
            f"same values of {names} stand in other rows: they are not the original's.",
            "rows unknown": f"No column of release {unknown} was kept, so that it cannot be "
            "checked whether its rows are the original's.",
        }
        unknown = "" if self.stated else unknown
        return {cure: texts[cure] for cure, l in zip(texts, (moved, unknown), strict=True) if l}

    def summary(self) -> pd.DataFrame:
        """One row per file: columns shared with the original, kept, and in other rows."""
        return pd.DataFrame(
            {
                "columns_shared": self.shared,
                "kept": [len(names) for names in self.kept],
                "values_in_other_rows": [len(names) for names in self.reordered],
            },
            index=pd.RangeIndex(1, len(self.shared) + 1, name="release"),
        )


def correspondence(
    tables: Tables, synthesized: Sequence[str], *, stated: bool = False
) -> RowCorrespondence:
    """Compare files, row by row, with the original, in every column that names no records."""
    numbered = tables.identifiers()
    names = [c for c in tables.names if c not in synthesized and c not in numbered]
    shared = [[c for c in tables.names if c in frame.columns] for frame in tables.frames[1:]]
    kept, reordered = [], []
    for l, present in enumerate(shared, start=1):
        found = {
            c: _Agreement(tables.n, 0.0, 0.0, False)
            if (column := tables.compared(c)) is None
            else _agreement(column.codes[0], column.codes[l], column.size)
            for c in names
            if c in present
        }
        kept.append(_kept(tables, found, l))
        same = [c for c, one in found.items() if one.same_values and one.by_chance]
        reordered.append(tuple(c for c in same if c not in kept[-1]))
    return RowCorrespondence(
        n=tables.n,
        shared=tuple(len(present) for present in shared),
        kept=tuple(kept),
        reordered=tuple(reordered),
        stated=stated,
    )


class _Agreement(NamedTuple):
    """How a column of a file agrees with the original's, row by row.

    ``differs``: rows that do not; ``by_chance``: the share that would not in a random order;
    ``log_p``: of a bound on the probability that so few do not in a random order.
    """

    differs: int
    by_chance: float
    log_p: float
    same_values: bool


def _agreement(y: Ints, z: Ints, size: int) -> _Agreement:
    """With d of n rows different: ``p <= prod_v n_v! / (n - d)!``.

    Of the ``n! / prod_v n_v!`` orders of a file's values at most ``C(n, d) d!`` agree with the
    original in n - d rows or more.
    """
    n, differs = len(y), int((y != z).sum())
    counts = [np.bincount(codes, minlength=size) for codes in (y, z)]
    log_p = gammaln(counts[1] + 1.0).sum() - gammaln(n - differs + 1.0)
    varies = (counts[0] > 0).sum() > 1
    by_chance = 1 - float(counts[0] @ counts[1]) / n**2
    same = np.array_equal(counts[0], counts[1])
    return _Agreement(differs, by_chance * varies, min(float(log_p), 0.0), same)


def _kept(tables: Tables, found: Mapping[str, _Agreement], l: int) -> tuple[str, ...]:
    """Columns in the original's rows, if that is no luck: one by one, or all of them together."""
    near = [c for c, one in found.items() if one.differs < tables.n * one.by_chance / 2]
    sure = [c for c in near if found[c].log_p + math.log(len(found)) < LUCK]
    if sure or not near:
        return tuple(sure)
    codes = [tables.column(name).codes for name in near]
    both = [np.concatenate([of[0], of[l]]) for of in codes]
    first, row, _ = distinct_rows(np.column_stack(both))
    y, z = np.split(row, 2)
    together = _agreement(y, z, len(first))
    sets = len(found) * math.log(2)
    return tuple(near) if together.log_p + sets < LUCK else ()
