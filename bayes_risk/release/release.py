"""The released data sets Z: what was synthesised, of whom, and by which mechanism."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Flags, Ints
from bayes_risk._core.errors import InputError, place_of
from bayes_risk._core.shown import Shown
from bayes_risk._core.validate import known_columns, one_of
from bayes_risk.data.microdata import Codes, Microdata, checked_table, same_records
from bayes_risk.data.precision import SAME, snapped
from bayes_risk.data.writing import form_of, synthetic_name, write_tables

from .alike import like_original

# How the parameters behind m data sets were drawn.
PARAMETERS = {
    "one-mode": "each from its own draw of the parameters, all draws from one chain",
    "independent": "each from its own draw of the parameters",
    "shared": "all from one draw of the parameters",
    "plug-in": "all from one estimate of the parameters, computed from the confidential table",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Release(Shown):
    """m synthetic data sets of the same records, or of fresh ones, however they were made.

    Parameters
    ----------
    datasets : sequence of DataFrame
        The m files, one row per record of the original, in its order or with its index (whose
        labels may stand in another order if neither table merely numbers its rows). Columns that
        were not synthesised hold the original's values (or are absent). Where every column was
        synthesised, of all records and with fresh classes, rows need not correspond: any number N
        of them, the same in all files, in any order.
    synthesized : sequence of str
        The columns whose values were replaced.
    records : ndarray of bool, shape (n,), optional
        Which records had their values replaced; all of them by default.
    classes : {"new", "own"}
        The mechanism: a fresh latent class for each record (given its unsynthesised values), or the
        class that the record's own confidential values were drawn to. The second ties a synthetic
        record to its own confidential one, and the evidence takes that into account.
    draw_index : tuple of int, optional
        Which posterior draws made the data sets, where known.
    maker : str, optional
        Digest of the fit whose draws these are, where known.
    seed_entropy : str
        The seed that made it, where known.
    groups : ndarray of int, shape (m, n, q), optional
        For releases that keep totals: which records share one, by data set and synthesised column.
        Records of a group have the confidential total of that group between them.
    parameters : {"one-mode", "independent", "shared", "plug-in"}, optional
        How the parameters behind the data sets were drawn: each data set from its own draw of the
        posterior (``"independent"``), the draws of one chain alone (``"one-mode"``); all from one
        draw (``"shared"``); all from one estimate (``"plug-in"``). What ``fit.synthesize`` makes
        states so. None: not stated; an audit assumes what its model usually does, and states that.

    Raises
    ------
    InputError
        No data set, a data set that lacks a synthesised column, unequal lengths, an unknown
        mechanism or way to draw parameters, groups of another shape. Where it is read with the
        original: rows that ought to be its records and are not.

    Examples
    --------
    >>> import pandas as pd
    >>> release = Release(datasets=[pd.DataFrame({"sex": ["f", "m"]})], synthesized=["sex"])
    >>> release.m
    1
    """

    datasets: Sequence[pd.DataFrame]
    synthesized: Sequence[str]
    records: Flags | None = None
    classes: str = "new"
    draw_index: tuple[int, ...] | None = None
    maker: str | None = None
    seed_entropy: str = field(default="unknown")
    groups: Ints | None = None
    parameters: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.datasets, pd.DataFrame):
            raise InputError("datasets is one DataFrame; give a list: `datasets=[df]`")
        if not len(self.datasets):
            raise InputError("m = 0: datasets is empty; give at least one synthetic data set")
        if not len(self.synthesized):
            raise InputError("synthesized is empty; name the columns whose values were replaced")
        one_of("classes", self.classes)
        if self.parameters is not None:
            one_of("parameters", self.parameters, tuple(PARAMETERS))
        if isinstance(self.records, pd.Series):
            raise InputError(
                "records is a Series, whose labels are not looked at; give an array in the "
                "original's order: records.loc[original.index].to_numpy()"
            )
        if self.records is not None and not np.any(self.records):
            raise InputError("records selects no record; mark those whose values were replaced")
        for l, table in enumerate(self.datasets, start=1):
            source = place_of(l, table)
            checked_table(table, source)
            known_columns("synthesized", self.synthesized, table, source)
            check_rows(table, source)
            if len(table) != len(first := self.datasets[0]):
                raise InputError(
                    f"{source} has {len(table):,} rows and {place_of(1, first)} has "
                    f"{len(first):,}; give data sets of one length, and audit the others apart"
                )
        if self.groups is not None:
            groups = np.asarray(self.groups)
            wanted = (self.m, len(self.datasets[0]), len(self.synthesized))
            if groups.shape != wanted or not np.issubdtype(groups.dtype, np.integer):
                raise InputError(
                    f"groups has shape {groups.shape} and dtype {groups.dtype}; give whole numbers "
                    f"of shape (data sets, records, synthesised columns) = {wanted}"
                )

    @property
    def m(self) -> int:
        """Number of data sets."""
        return len(self.datasets)

    def __repr__(self) -> str:
        rows, columns = self.datasets[0].shape
        part = "" if self.records is None else f", values of {int(self.records.sum()):,} replaced"
        return (
            f"Release: m = {self.m} data sets of {rows:,} rows and {columns:,} columns{part}\n"
            f"  synthesised: {', '.join(map(str, self.synthesized))}\n"
            f"  parameters: {PARAMETERS.get(self.parameters or '', 'not stated')}; classes: "
            f"{self.classes}"
        )

    @property
    def by_draw(self) -> tuple[tuple[int, ...], ...]:
        """Data sets, counted from 0, of each draw of the parameters: what is evidence together."""
        if self.parameters == "shared":
            return (tuple(range(self.m)),)
        return tuple((l,) for l in range(self.m))

    @property
    def assumed(self) -> bool:
        """Whether the files come from elsewhere: the model they are audited under is assumed."""
        return self.seed_entropy == "unknown"

    def save(
        self,
        folder: str | PathLike[str],
        *,
        like: str | PathLike[str] | None = None,
        labels: bool = False,
        **reading: Any,
    ) -> list[Path]:
        """Write the data sets as CSV: ``synthetic-1.csv``, ``synthetic-2.csv``, ...

        Rows stand in the original's order: shuffle what is published if rows are persons.

        Parameters
        ----------
        folder : path
            Made if it does not exist.
        like : path, optional
            The original's CSV: separator, decimal mark, encoding, words for missing values and the
            form of dates are as there. None: commas, points, UTF-8, empty fields.
        labels : bool
            Write the index too, which may identify people.
        **reading
            ``na``, ``days``, ``separator``, ``decimal``, ``encoding``, if `read_table` was given
            them for ``like``.

        Returns
        -------
        list of pathlib.Path
            The files.

        Raises
        ------
        InputError
            A file of such a name exists; a ``like`` that cannot be read.
        """
        place = Path(folder)
        form = form_of(None if like is None else Path(like), self.datasets[0], **reading)
        for l in range(1, self.m + 1):
            if (path := place / synthetic_name(l)).exists():
                raise InputError("folder", str(folder), f"holds {path.name}; give another folder")
        place.mkdir(parents=True, exist_ok=True)
        return write_tables(place, self.datasets, labels=labels, form=form)

    def first(self, m: int) -> "Release":
        """The first m data sets."""
        if m == self.m:
            return self
        return replace(
            self,
            datasets=list(self.datasets)[:m],
            groups=None if self.groups is None else self.groups[:m],
            draw_index=None if self.draw_index is None else self.draw_index[:m],
        )

    def codes(self, microdata: Microdata, l: int | None = None) -> Codes:
        """Codes of all data sets, shape (m, N, p), or of data set l, counted from 0, shape (N, p).

        Unsynthesised columns and records are the original's, or refused where they differ from it.
        """
        known_columns("synthesized", self.synthesized, microdata.columns)
        tables, there = self._read(microdata)
        found = [
            self._codes_of(tables[k], place_of(k + 1, tables[k]), microdata)
            if there
            else _encoded(tables[k], place_of(k + 1, tables[k]), microdata.columns, microdata)
            for k in (range(self.m) if l is None else [l])
        ]
        return np.stack(found) if l is None else found[0]

    def corresponds(self, microdata: Microdata) -> bool:
        """Whether row i is record i; else rows are fresh draws of every column.

        Raises
        ------
        InputError
            They are not the original's records, and ought to be: something was not drawn afresh.
        """
        return self._read(microdata)[1]

    def _read(self, microdata: Microdata) -> tuple[list[pd.DataFrame], bool]:
        """The tables, in the original's order where rows are its records, and whether they are."""
        rows, n, why = len(self.datasets[0]), len(microdata.index), self._why_aligned(microdata)
        if why and rows != n:
            raise InputError(
                f"{place_of(1, self.datasets[0])} has {rows} records and the original {n}; any "
                "number will do only where every column of the model was synthesised afresh for "
                f"everybody, and {why}: give the original's records, one row each, or leave out of "
                "the model what stays"
            )
        tables, there = read_rows(microdata.index, self.datasets, True if why else None)
        return tables, all(there)

    def _why_aligned(self, microdata: Microdata) -> str:
        """What of a row is that of a record; empty: nothing."""
        kept = [c for c in microdata.columns if c not in list(self.synthesized)]
        if kept:
            return f"column {kept[0]!r} was not"
        if self.records is not None:
            return "`records` states that some records were not"
        if self.groups is not None:
            return "`groups` states which records share a total"
        return '`classes="own"` draws each row from a record\'s own class' * (self.classes == "own")

    def replaced(self, n: int) -> Flags:
        """Which of the n records had their values replaced."""
        if self.records is None:
            return np.ones(n, dtype=bool)
        if len(self.records) != n:
            raise InputError(
                f"records has {len(self.records)} entries; the original has {n} records"
            )
        return np.asarray(self.records, dtype=bool)

    def _codes_of(self, rows: pd.DataFrame, source: str, microdata: Microdata) -> Codes:
        """Codes of a table of the original's records, which differs from it where it may."""
        there = [c for c in microdata.columns if c in rows.columns]
        codes, made = microdata.codes.copy(), np.isin(microdata.columns, list(self.synthesized))
        codes[:, np.isin(microdata.columns, there)] = _encoded(rows, source, there, microdata)
        kept = ~self.replaced(len(codes))
        differs = ~np.isclose(codes, microdata.codes, rtol=SAME, atol=0.0)
        mend = " for records that `records` states were released unchanged; correct `records`"
        name_it = (
            "; if it was synthesised, name it in `synthesized`; else put the rows in the "
            "original's order, or give them its labels (`index`)"
        )
        wrongs = (made & differs[kept].any(axis=0), mend), (~made & differs.any(axis=0), name_it)
        for wrong, what in wrongs:
            if wrong.any():
                name = microdata.columns[int(np.argmax(wrong))]
                raise InputError(f"column {name!r} of {source} differs from the original{what}")
        codes[:, ~made] = microdata.codes[:, ~made]
        return codes


def check_rows(table: pd.DataFrame, source: str) -> None:
    """A data set has records."""
    if not len(table):
        raise InputError(f"{source} has no records; give files with at least one")


def read_rows(
    original: pd.Index, tables: Iterable[pd.DataFrame], own: bool | None, cure: str = ""
) -> tuple[list[pd.DataFrame], list[bool]]:
    """The released tables, and whether rows are the original's records, then in its order."""
    found, corresponds = [], []
    for l, table in enumerate(tables, start=1):
        check_rows(table, source := place_of(l, table))
        there = own is not False
        try:
            found.append(same_records(original, table, source) if there else table)
        except InputError as error:
            if own:
                raise InputError(f"{error.text}{cure}") from None
            there = False
            found.append(table)
        corresponds.append(there)
    return found, corresponds


def _encoded(table: pd.DataFrame, source: str, columns: list[str], microdata: Microdata) -> Codes:
    """Codes of a table, its values in the terms of the original's."""
    try:
        codes = microdata.encode(table, source, columns)
    except InputError:  # of values that are written otherwise, perhaps
        original = microdata.decode(microdata.codes)
        codes = microdata.encode(like_original(table, original, source), source, columns)
    for j, name in enumerate(columns):
        if name in microdata.numbers:
            codes[:, j] = snapped(codes[:, j], microdata.codes[:, microdata.columns.index(name)])
    return codes


# what an encoded release has as the release has it
GIVEN = ("m", "by_draw", "synthesized", "classes", "groups", "parameters")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedRelease:
    """A release read against a confidential table: encoded and checked once, for all."""

    source: Release
    microdata: Microdata
    # shape (m, N, p): codes of all data sets; unsynthesised columns and records are the original's
    codes: Codes
    corresponds: bool  # whether row i is record i, N = n; else rows are fresh draws, of any number
    replaced: Flags  # shape (n,): records whose values were replaced
    columns: Flags  # shape (p,): columns that were synthesised
    m: int  # as the release has it, from here on
    by_draw: tuple[tuple[int, ...], ...]
    synthesized: Sequence[str]
    classes: str
    groups: Ints | None
    parameters: str | None

    @classmethod
    def of(cls, release: Release, microdata: Microdata) -> "EncodedRelease":
        """Encode a release; errors as those of `Release.codes`, and of impossible records."""
        codes = release.codes(microdata)
        if microdata.impossible is not None:
            for l, table in enumerate(codes, start=1):
                microdata.impossible.refuse(table, place_of(l, release.datasets[l - 1]))
        return cls(
            source=release,
            microdata=microdata,
            codes=codes,
            corresponds=release.corresponds(microdata),
            replaced=release.replaced(len(microdata.codes)),
            columns=np.array([c in list(release.synthesized) for c in microdata.columns]),
            **{name: getattr(release, name) for name in GIVEN},
        )

    @property
    def rows(self) -> Flags:
        """Which rows hold synthetic values, shape (N,)."""
        return self.replaced if self.corresponds else np.ones(self.codes.shape[1], dtype=bool)

    def first(self, m: int) -> "EncodedRelease":
        """The first m data sets."""
        source = self.source.first(m)
        given = {name: getattr(source, name) for name in GIVEN}
        return replace(self, source=source, codes=self.codes[:m], **given)
