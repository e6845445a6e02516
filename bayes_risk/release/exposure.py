"""What released files show without any model: identical records, genuine values, uniques.

Nothing is estimated here. Columns are coded one after the other over all files, records become one
integer each, and integers are counted: a million records take seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import Combinations
from bayes_risk._core.validate import known_columns
from bayes_risk.data.base_result import Result
from bayes_risk.data.columns import ROW_NUMBERS, names_households, of_households
from bayes_risk.data.measures import EXPOSURE, EXPOSURE_OF_VALUES
from bayes_risk.data.microdata import Microdata

from .links import links
from .links_result import Links
from .persons import holders, person_columns
from .tables import Released, Tables, tables_with_release
from .totals import KeptTotals, kept_exactly

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
        Records that the `Release` states were released as they are; they count as identical.
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
        Records that no other original record equals in all columns.
    any_row, any_row_synthesized : ndarray of int, shape (m,)
        Released records that equal some record of the original in all, or in the synthesised
        columns.
    unique : ndarray of bool, shape (n,)
        Records whose keys no other original record has.
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
    household : str
        The column that plainly names households of records; empty: none does.
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
    household: str = ""

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
        `exposure`); ``original_alone``, records of the original that no other record there equals
        in all columns, and ``identical_alone``, those that some row of the file equals; ``uniques``
        of the original on the keys, and ``replicated_uniques`` of them; ``rows_correspond``;
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
            **person_columns(self, self.persons),
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
        """Synthesised numbers whose genuine values are evidence."""
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


def exposure(
    original: pd.DataFrame | Microdata,
    release: Released | pd.DataFrame | Sequence[pd.DataFrame],
    *,
    keys: Sequence[str] | None = None,
    corresponds: bool | None = None,
    person: str | None = None,
) -> Exposure:
    r"""Count what released files show of the original without any model.

    For each file: records identical to the original's; values of numeric columns that occur in the
    original, and that occur there once; and replicated uniques, with :math:`d_q` and :math:`s_q`
    records of the original and the file that carry key q (Raab, Nowok & Dibben 2024),

    .. math:: \#\{q: d_q = 1, s_q = 1\}.

    Parameters
    ----------
    original : DataFrame or Microdata, n records
        The confidential file. Never changed.
    release : Release, DataFrame, or list of m DataFrames
        The released files. Of a `Release`, columns that were not synthesised may be left out. Of
        DataFrames those columns count as synthesised that differ from the original's in some
        file whose rows correspond; all of them if there is no such file or no such column.
    keys : list of str, optional
        On which columns records are unique. By default all categories: columns of a Microdata that
        are not numbers; of a DataFrame those of text or of at most 20 distinct numbers; and
        if none of these was synthesised, the synthesised numbers besides.
    corresponds : bool, optional
        Whether row i of a file is record i; by default where it has as many and the same index.
    person : str, optional
        The column that names persons, where some have several records (waves, members of a
        household): alone or unique is then what no other person has.

    Returns
    -------
    Exposure
        Counts with their denominators; no confidential value.

    Raises
    ------
    InputError
        No file, or one without records or without a column of the original; keys that the
        original or some file lacks; a `Release` that leaves columns out and whose records do not
        correspond.

    See Also
    --------
    context_measures : Replicated uniques as a share, DiSCO, CAP, distances.

    Notes
    -----
    *Rows* correspond where a file has as many as the original and the same index. Only then are
    identical records counted in the same row; those of any row need no correspondence.

    *Equal*: ``docs/files.md`` defines it. Columns that name or number the records (identifiers,
    row numbers) are counted apart: they are not part of "all columns" unless they are keys.

    *Fresh sample.* With :math:`N_1` and :math:`N_2` values that occur once and twice among the n
    values of a column, a fresh record of the same population has a value that is in the original
    with probability about :math:`1 - N_1/n`, and one that occurs once in it with probability
    about :math:`2 N_2/n` (Good 1953); so of whole records. Where :math:`N_1` is below 1 % of n
    (codes, ages, rounded amounts) genuine values mean little: ``judged`` is False there.

    *Identical records* of a `Release` that replaced some records contain the others
    (``not_replaced``); values are those of the replaced records alone.

    References
    ----------
    Raab, G. M., Nowok, B. and Dibben, C. (2024). Practical privacy metrics for synthetic data.
    arXiv:2406.16826.
    Good, I. J. (1953). The population frequencies of species and the estimation of population
    parameters. Biometrika 40, 237-264.

    Examples
    --------
    >>> import pandas as pd
    >>> original = pd.DataFrame({"sex": list("ffmm"), "pay": [10.5, 20.0, 20.0, 31.0]})
    >>> shown = exposure(original, original.assign(pay=[10.5, 31.0, 20.0, 25.0]), keys=["pay"])
    >>> shown.files[["identical", "identical_any_row", "replicated_uniques"]].loc[1].tolist()
    [2, 2, 2]
    >>> shown.columns[["genuine", "unique"]].iloc[0].tolist()
    [3, 2]
    """
    tables = tables_with_release(original, release, corresponds)
    return exposure_of_tables(tables.by_person(person), keys)


def exposure_of_tables(tables: Tables, keys: Sequence[str] | None = None) -> Exposure:
    """`exposure` of tables that were read; their coded columns are kept for others."""
    names = list(tables.names)
    wanted = None if keys is None else known_columns("keys", keys, names, least=1)
    values_too = {*(wanted or ()), *(tables.made or ())}
    values_too -= {tables.person}
    identifiers = {c: why for c, why in tables.identifiers().items() if c not in values_too}
    if len(identifiers) == len(names):  # there is nothing else to compare
        identifiers = {}
    everything, made, by_keys = (Combinations(int(tables.sizes.sum())) for _ in range(3))
    compared, synthesized, chosen = [], [], []
    values: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        column = None if name in identifiers else tables.compared(name)
        if column is None:
            continue
        compared.append(name)
        codes = tables.stacked(name), column.size
        everything.add(*codes)
        if column.kind == "numbers":
            values[name] = _values(tables, *codes)
        if tables.is_made(name):
            synthesized.append(name)
            made.add(*codes)
        if name in wanted if wanted is not None else tables.is_category(name):
            chosen.append(name)
            by_keys.add(*codes)
    if not compared:
        raise InputError("the files share no column with the original; see their columns")
    for name in set(wanted or ()) - set(compared):
        if name in tables.known and not tables.known[name].refusal:
            continue  # `why_left_out` says why
        raise InputError(f"keys names {name!r}, which cannot be compared: {tables.left_out[name]}")
    if not synthesized:  # nothing differs: the original itself
        synthesized, made = compared, everything
    if not wanted and not set(chosen) & set(synthesized):
        chosen += synthesized
        by_keys.add(made.dense(), made.size)
    parts = y, *_ = tables.parts(by_keys.dense())
    once = [holders(part, tables.of_person(l), by_keys.size) == 1 for l, part in enumerate(parts)]
    counted = [name for name in synthesized if name in values]
    rows = pd.MultiIndex.from_product(
        [range(1, tables.m + 1), counted], names=["release", "column"]
    )
    of_made = _equal(tables, made)
    return Exposure(
        index=tables.index,
        compared=tuple(compared),
        synthesized=tuple(synthesized),
        keys=tuple(wanted or chosen),
        why_left_out=dict(tables.left_out),
        identifiers={name: _shown(tables, name, why) for name, why in identifiers.items()},
        notes=tuple(tables.notes),
        n_released=tables.sizes[1:],
        not_replaced=0 if tables.replaced is None else int((~tables.replaced).sum()),
        corresponds=tables.corresponds,
        **_equal(tables, everything),
        identical_synthesized=of_made["identical"],
        any_row_synthesized=of_made["any_row"],
        unique=once[0][y],
        replicated=np.column_stack([(once[0] & shown)[y] for shown in once[1:]]),
        columns=pd.DataFrame(
            [values[name][l - 1] for l, name in rows], index=rows, columns=list(OF_VALUES)
        ),
        links=links(tables, keys=wanted or chosen),
        exact=kept_exactly(tables),
        persons=tables.of_person(0),
        household=next((name for name in names if _names_households(tables, name)), ""),
    )


def _names_households(tables: Tables, name: str) -> bool:
    if name == tables.person or not names_households(name) or tables.compared(name) is None:
        return False
    return of_households(tables.n, len(np.unique(tables.column(name).codes[0])))


def _shown(tables: Tables, name: str, why: str) -> str:
    """What a column that names records is, and how many of its values the files show."""
    if why == ROW_NUMBERS:
        return "it numbers the persons" if name == tables.person else why
    try:
        y, *files = tables.column(name).codes[: tables.m + 1]
    except InputError:
        return f"{why}; no file has it"
    shown = np.isin(y, np.concatenate(files)) & (y > 0)
    return f"{why}; the files show {int(shown.sum()):,} of its {len(np.unique(y)):,} values"


def _equal(tables: Tables, records: Combinations) -> dict[str, Any]:
    """Which records are equal, as `Exposure` has it."""
    y, *released = tables.parts(records.dense())
    counts = np.bincount(y, minlength=records.size)
    own, found, any_row, same = [], [], [], []
    for z, there in zip(released, tables.corresponds, strict=True):
        shown = np.bincount(z, minlength=records.size)
        own.append(z == y if there else np.zeros(len(y), dtype=bool))
        found.append(shown[y] > 0)
        any_row.append(int(shown[counts > 0].sum()))
        same.append(np.array_equal(shown, counts))
    return {
        "identical": np.column_stack(own),
        "found": np.column_stack(found),
        "alone": holders(y, tables.of_person(0), records.size)[y] == 1,
        "any_row": np.array(any_row),
        "same_as_original": np.array(same) & (not tables.left_out),
    }


def _values(tables: Tables, codes: Ints, size: int) -> list[dict[str, Any]]:
    """A numeric column in each file: rows of `Exposure.columns`."""
    y, *released = tables.parts(codes)
    times = np.bincount(y, minlength=size)
    n_holders = holders(y, tables.of_person(0), size)
    times[0] = n_holders[0] = 0  # missing
    given, (once, twice) = n_holders.sum(), ((n_holders == k).sum() for k in (1, 2))
    expected = 1 - once / max(given, 1), 2 * twice / max(given, 1)
    of_original = once, given, (times > 0).sum(), *expected, once >= JUDGED * max(given, 1)
    found = []
    for z in released:
        z = z if tables.replaced is None else z[tables.replaced]
        shown = np.bincount(z, minlength=size)
        shown[0] = 0
        N, genuine, unique = shown.sum(), shown[times > 0].sum(), shown[n_holders == 1].sum()
        shares = (genuine / N, unique / N) if N else (np.nan, np.nan)
        of_file = N, genuine, shares[0], unique, shares[1], (shown[n_holders == 1] > 0).sum()
        found.append(dict(zip(OF_VALUES, (*of_file, *of_original), strict=True)))
    return found
