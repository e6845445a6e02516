"""Exposure: what released files show of the original without any model, counted and frozen."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Flags, Ints
from bayes_risk.data.base_result import Result
from bayes_risk.data.measures import EXPOSURE, EXPOSURE_OF_VALUES

from .links_result import Links
from .persons import columns_of
from .totals import KeptTotals

JUDGED = 0.01  # share of values that occur once from which genuine values say something


OF_VALUES = (  # see `Exposure.columns`
    *("values", "genuine", "genuine_share", "unique", "unique_share", "uniques_shown"),
    *("original_uniques", "original_values", "original_distinct"),
    *("expected_genuine_share", "expected_unique_share", "judged"),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Exposure(Result):
    """What m released files show of an original of n records, counted; holds no value.

    Attributes
    ----------
    index : pandas.Index, length n
        Labels of the original's records.
    compared, synthesized, keys : tuple of str
        The columns compared ("all columns" below), those of them that were synthesised, and the
        keys of uniques.
    why_left_out : dict of str to str
        Columns of the original that could not be compared with those of some file, and why.
    identifiers : dict of str to str
        Columns that name or number the records, how that is seen, and how many values files show.
    notes : tuple of str
        How values were compared that a file has in another form than the original.
    n_released : ndarray of int, shape (m,)
        Records of each file.
    not_replaced : int
        Records that the `Release` says were released as they are; they count as identical.
    corresponds : ndarray of bool, shape (m,)
        Whether row i of the file is record i of the original: as many rows, and the same index.
    same_as_original : ndarray of bool, shape (m,)
        Whether the file is the original: the same records in all columns, in whatever order; False
        where some column was not compared.
    identical : ndarray of bool, shape (n, m)
        Whether the record's own row equals it in all columns; False where rows do not correspond.
    found : ndarray of bool, shape (n, m)
        Whether any row of the file equals it in all columns.
    identical_synthesized : ndarray of bool, shape (n, m)
        Whether the record's own row equals it in the synthesised columns.
    alone : ndarray of bool, shape (n,)
        Records that nobody else in the original equals in all columns.
    any_row, any_row_synthesized : ndarray of int, shape (m,)
        Released records that equal some record of the original in all, or in the synthesised
        columns.
    unique : ndarray of bool, shape (n,)
        Records whose keys nobody else in the original holds.
    replicated : ndarray of bool, shape (n, m)
        Unique records whose keys exactly one record of the file shows.
    columns : DataFrame
        One row per file and synthesised numeric column: ``values`` released (not missing, of
        records that were replaced); ``genuine``, those that occur in the original, and ``unique``,
        those that occur once there, with ``genuine_share`` and ``unique_share`` of ``values``;
        ``original_uniques``, the values that occur once in the original, and how many of them the
        file shows (``uniques_shown``); ``original_values`` and ``original_distinct``;
        ``expected_genuine_share`` and ``expected_unique_share``, of a fresh sample of the same
        population (see Notes of `exposure`); ``judged``.
    links : Links
        How many persons the files show beyond chance, as `links` counts them.
    exact : Shown
        Sums of synthesised amounts that files keep, and kept groups in which all have one value.
    persons : ndarray of int, shape (n,), or None
        Number of each record's person; None: each is one.
    """

    index: pd.Index
    compared: tuple[str, ...]
    synthesized: tuple[str, ...]
    keys: tuple[str, ...]
    why_left_out: dict[str, str]
    identifiers: dict[str, str]
    notes: tuple[str, ...]
    n_released: Ints
    not_replaced: int
    corresponds: Flags
    same_as_original: Flags
    identical: Flags
    found: Flags
    identical_synthesized: Flags
    alone: Flags
    any_row: Ints
    any_row_synthesized: Ints
    unique: Flags
    replicated: Flags
    columns: pd.DataFrame
    links: Links
    exact: KeptTotals = KeptTotals()
    persons: Ints | None = None

    @property
    def n(self) -> int:
        """Number of records of the original."""
        return len(self.index)

    @property
    def m(self) -> int:
        """Number of files."""
        return len(self.n_released)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Columns of the original that could not be compared with those of some file."""
        return tuple(self.why_left_out)

    @property
    def keys_synthesized(self) -> tuple[str, ...]:
        """Keys that were synthesised; if none was, every unique is replicated by design."""
        return tuple(name for name in self.keys if name in self.synthesized)

    @property
    def files(self) -> pd.DataFrame:
        """One row per file, ``1 .. m``; counts of records.

        Columns: ``records`` of the file, ``not_replaced`` of them; ``identical`` (same row; NaN
        where rows do not correspond) and ``identical_any_row``, in all columns;
        ``identical_synthesized`` and ``identical_synthesized_any_row``, in the synthesised ones
        (all of ``records``); ``expected_any_row_share``, of a fresh sample (see Notes of
        `exposure`); ``original_alone``, records of the original that nobody else there equals in
        all columns, and ``identical_alone``, those that some row of the file equals; ``uniques`` of
        the original on the keys, and ``replicated_uniques`` of them; ``rows_correspond``;
        ``same_as_original``; and, where a column names persons, ``persons`` of the original,
        ``identical_persons`` and ``replicated_persons``, of whom some record is.
        """
        there = self.corresponds
        own = [flags.sum(axis=0) for flags in (self.identical, self.identical_synthesized)]
        if not there.all():
            own = [np.where(there, count, np.nan) for count in own]
        columns = {
            "records": self.n_released,
            "not_replaced": self.not_replaced,
            "identical": own[0],
            "identical_any_row": self.any_row,
            "identical_synthesized": own[1],
            "identical_synthesized_any_row": self.any_row_synthesized,
            "expected_any_row_share": 1 - float(self.alone.mean()),
            "original_alone": int(self.alone.sum()),
            "identical_alone": self.found[self.alone].sum(axis=0),
            "uniques": int(self.unique.sum()),
            "replicated_uniques": self.replicated.sum(axis=0),
            "rows_correspond": there,
            "same_as_original": self.same_as_original,
            **columns_of(self, self.persons),
        }
        return pd.DataFrame(columns, index=pd.RangeIndex(1, self.m + 1, name="release"))

    @property
    def records(self) -> pd.DataFrame:
        """One row per record of the original: in how many files it is found.

        Columns: ``identical_files``, its own row equals it in all columns (NaN where rows of no
        file correspond); ``identical_any_row_files``, some row does; ``replicated_files``, it is a
        replicated unique.
        """
        own = self.identical.sum(axis=1)
        columns = {
            "identical_files": own if self.corresponds.any() else np.full(self.n, np.nan),
            "identical_any_row_files": self.found.sum(axis=1),
            "replicated_files": self.replicated.sum(axis=1),
        }
        return pd.DataFrame(columns, index=self.index)

    @property
    def judged(self) -> list[str]:
        """Synthesised numbers whose genuine values say something."""
        return [name for name, table in self.by_column().items() if table["judged"].iloc[0]]

    def by_column(self) -> dict[str, pd.DataFrame]:
        """Rows of `columns` of each synthesised number, by file."""
        groups = self.columns.groupby(level="column", sort=False)
        return {str(name): table.droplevel("column") for name, table in groups}

    def to_dict(self) -> dict[str, Any]:
        """Sentence, keys, and counts by file and by column."""
        return {
            "sentence": self.sentence(),
            "keys": self.keys,
            "keys_synthesized": self.keys_synthesized,
            "left_out": self.why_left_out,
            "identifiers": self.identifiers,
            "notes": self.notes,
            "files": self.files,
            "columns": self.by_column(),
        }

    def most(self) -> dict[str, float]:
        """Counts of the file that shows most: those that `AttributeRisk.summary` has too.

        ``identical_records`` in all columns, in the same row, or in any row where rows of no file
        correspond; ``replicated_uniques``; ``genuine_unique_values`` of the column with most, NaN
        where no column is judged.
        """
        unique = self.columns.loc[self.columns["judged"].astype(bool), "unique"]
        return {
            "identical_records": float(self.identical_records.max()),
            "replicated_uniques": float(self.replicated.sum(axis=0).max()),
            "genuine_unique_values": float(unique.max()),
        }

    @property
    def identical_records(self) -> Ints:
        """Identical records of each file, shape (m,): in the same row, or in any if none is it."""
        return np.where(self.corresponds, self.identical.sum(axis=0), self.any_row)

    def summary(self) -> pd.DataFrame:
        """One row per measure: ``least`` and ``most`` over the files, and what they go with.

        Rows: counts of `files`, then ``genuine_values`` and ``genuine_unique_values`` with each
        column in brackets. ``of``: records of the largest file, uniques of the original, or
        released values. ``any_file``: records of the original of which it holds in some file; NaN
        where released records or values are counted. ``share``, of the file that shows most;
        ``fresh``, of a fresh sample; NaN where that is not known.
        """
        files, found = self.files, self.found
        anywhere = {
            "identical": self.identical,
            "identical_any_row": found,
            "identical_synthesized": self.identical_synthesized,
            "identical_alone": found & self.alone[:, None],
            "replicated_uniques": self.replicated,
        }
        in_any = {name: flags.any(axis=1).sum() for name, flags in anywhere.items()}
        fresh = {"identical_any_row": files["expected_any_row_share"].iloc[0]}
        rows = {
            name: (files[name], files[m.of], in_any.get(name, np.nan), fresh.get(name, np.nan))
            for name, m in EXPOSURE.items()
        }
        for column, table in self.by_column().items():
            for name, m in EXPOSURE_OF_VALUES.items():
                expected = table[f"expected_{m.of}_share"].iloc[0]
                rows[f"{name}[{column}]"] = (table[m.of], table["values"], np.nan, expected)
        return pd.DataFrame.from_dict(
            {
                name: (n.min(), n.max(), of.max(), any_, (n / of.where(of > 0)).max(), expected)
                for name, (n, of, any_, expected) in rows.items()
            },
            orient="index",
            columns=["least", "most", "of", "any_file", "share", "fresh"],
            dtype=float,
        )

    def first(self, m: int) -> "Exposure":
        """The same of the first m files alone."""
        by_file = (
            *("n_released", "corresponds", "same_as_original", "identical", "found"),
            *("identical_synthesized", "any_row", "any_row_synthesized", "replicated"),
        )
        cut = {name: getattr(self, name)[..., :m] for name in by_file}
        rows = self.columns.index.get_level_values("release") <= m
        return replace(
            self,
            columns=self.columns[rows],
            links=self.links.first(m),
            exact=self.exact.first(m),
            **cut,
        )

    def __repr__(self) -> str:
        tables = [self.files.T, self.columns.T] if len(self.columns) else [self.files.T]
        return "\n\n".join([f"Exposure\n{self.sentence()}", *(t.to_string() for t in tables)])


def exposure_of(*risks: Any) -> Exposure | None:
    """What the first of some risks says that the files show; None: none of them says it."""
    found = (getattr(risk, "exposure", None) for risk in risks)
    return next((one for one in found if one is not None), None)
