"""Whether row i of a released file is record i of the original, as far as kept columns tell."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayes_risk.data.base_result import Result

from .input import codes_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RowCorrespondence(Result):
    """What m files have of the columns of an original of n records, row by row; holds no value.

    A column is *kept* if it differs from the original in fewer than half of the rows in which it
    would differ in a random order; *reordered* if it is not kept and has the original's values in
    other rows. A column with one value tells nothing. Of columns that are no synthesised keys.
    """

    n: int  # records
    shared: tuple[int, ...]  # (m,): columns that file and original both have
    kept: tuple[tuple[str, ...], ...]  # (m,)
    reordered: tuple[tuple[str, ...], ...]  # (m,)

    @property
    def unmatched(self) -> tuple[int, ...]:
        """Files, counted from 1, whose rows are not seen to be the original's: none was kept."""
        return tuple(l for l, names in enumerate(self.kept, start=1) if not names)

    @property
    def elsewhere(self) -> tuple[tuple[int, str], ...]:
        """File, counted from 1, and column with the original's values in other rows.

        Of files without a kept column: there these were kept, and the rows stand in another order.
        """
        return tuple((l, name) for l in self.unmatched for name in self.reordered[l - 1])

    def doubts(self) -> dict[str, str]:
        """What is in question of which files, by what would settle it: moved rows, and unknown."""
        moved = ", ".join(str(l) for l in self.unmatched if self.reordered[l - 1])
        unknown = ", ".join(str(l) for l in self.unmatched if not self.reordered[l - 1])
        names = ", ".join(sorted({name for _, name in self.elsewhere}))
        said = {
            "rows moved": f"No column of release {moved} stands in the original's rows, and the "
            f"same values of {names} stand in other rows: they are not the original's.",
            "rows unknown": f"No column of release {unknown} was kept, so that it cannot be "
            "checked whether its rows are the original's.",
        }
        return {cure: said[cure] for cure, l in zip(said, (moved, unknown), strict=True) if l}

    def sentence(self) -> str:
        """Say it in plain words."""
        fewest = min(len(names) for names in self.kept)
        return " ".join(self.doubts().values()) or (
            f"Released rows are the original's {self.n:,} records, as kept columns show, at least "
            f"{fewest:,} in each."
        )

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
    original: pd.DataFrame, tables: Sequence[pd.DataFrame], synthesized: Sequence[str]
) -> RowCorrespondence:
    """Compare each file, in the original's order, with it column by column: O(m p n log n)."""
    shared = [[c for c in original.columns if c in table.columns] for table in tables]
    kept, reordered = [], []
    for names, table in zip(shared, tables, strict=True):
        found = {c: _compared(original[c], table[c]) for c in names if c not in synthesized}
        own = [c for c, (differs, by_chance, _) in found.items() if differs < by_chance / 2]
        moved = [c for c, (_, by_chance, equal) in found.items() if equal and by_chance]
        kept.append(tuple(own))
        reordered.append(tuple(c for c in moved if c not in own))
    return RowCorrespondence(
        n=len(original),
        shared=tuple(map(len, shared)),
        kept=tuple(kept),
        reordered=tuple(reordered),
    )


def _compared(genuine: pd.Series, released: pd.Series) -> tuple[float, float, bool]:
    """Share of rows that differ; the same in a random order; whether the values are the same."""
    found = codes_of(str(genuine.name), [genuine, released])
    if found is None:
        return 1.0, 1.0, False
    first, second = np.split(found[0], 2)
    counts = [np.bincount(codes, minlength=found[1]) for codes in (first, second)]
    by_chance = 1 - float(counts[0] @ counts[1]) / len(first) ** 2
    varies = (counts[0] > 0).sum() > 1
    return float((first != second).mean()), by_chance * varies, np.array_equal(counts[0], counts[1])
