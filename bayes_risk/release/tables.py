"""The original and its releases, read once: equal values, corresponding rows, what is compared.

Every measure that looks at files takes `Tables`: matching, exposure, correspondence of rows,
utility and context measures. Columns are coded on demand, once, by `data.equality`, which defines
when two values are equal.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError, place_of
from bayes_risk._core.validate import known_columns
from bayes_risk.data.columns import missing_code, why_identifier
from bayes_risk.data.equality import Coded, coded, coded_numbers, numbers_of
from bayes_risk.data.microdata import Microdata, require_columns
from bayes_risk.data.variables import FEW, check_cells, is_numeric

from .alike import coded_as_in, like_original
from .persons import persons_of, persons_of_file, why_person
from .release import EncodedRelease, Release, read_rows
from .top_coding import FEWEST, cut_ends, cut_off


@runtime_checkable
class Released(Protocol):
    """What a release has: m tables, and the names of the synthesised columns."""

    @property
    def datasets(self) -> Sequence[pd.DataFrame]:
        """The m released tables."""

    @property
    def synthesized(self) -> Sequence[str]:
        """Names of the synthesised columns."""


@dataclass(slots=True, eq=False)
class Tables:
    """An original of n records, m releases, and further tables, coded column by column.

    ``sizes`` (1 + m,): records of the original and of each file; ``corresponds`` (m,): whether row
    i is record i; ``made``, ``replaced`` (n,), ``categories``: columns and records that the release
    says were synthesised, columns known to be categories (None: not said); ``left_out``: columns
    that could not be compared so far, and why; ``notes``: how values were read that have another
    form; ``persons``: each table's rows by the column ``person``; without: empty; ``keys``: columns
    that were compared as keys; ``cuts``: what files cut off of them, in words, and whether surely.
    """

    index: pd.Index
    names: tuple[str, ...]
    sizes: Ints
    corresponds: Flags
    made: frozenset[str] | None
    replaced: Flags | None
    code: Callable[[str], Coded] | None  # a column of tables that were coded before
    frames: tuple[pd.DataFrame, ...] = ()  # the original, the files, further tables
    places: tuple[str, ...] = ()  # how messages name them
    categories: tuple[str, ...] | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    known: dict[str, Coded] = field(default_factory=dict)
    person: str | None = None
    persons: tuple[Ints, ...] = ()
    keys: dict[str, Coded] = field(default_factory=dict)
    cuts: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        original: pd.DataFrame,
        release: Any,
        *,
        own: bool | None = None,
        others: Mapping[str, pd.DataFrame] | None = None,
        cure: str = "",
    ) -> "Tables":
        """Files beside the original, in its order where rows are its own; others are coded too."""
        tables, declared = as_tables(release), declared_columns(release)
        part = isinstance(release, Release) and release.records is not None
        tables, corresponds = read_rows(original.index, tables, own, cure)
        more, made = others or {}, None if declared is None else frozenset(declared)
        tables = [coded_as_in(original, table) for table in tables]
        frames = (original, *tables, *more.values())
        places = [place_of(l, table) for l, table in enumerate([original, *tables])] + [*more]
        return cls(
            index=original.index,
            names=tuple(original.columns),
            sizes=np.array([len(original), *map(len, tables)]),
            corresponds=np.array(corresponds),
            made=made,
            replaced=release.replaced(len(original)) if part else None,
            code=None,
            frames=frames,
            places=tuple(places),
        )

    @classmethod
    def of_encoded(cls, release: EncodedRelease) -> "Tables":
        """The same of a release that was read against a `Microdata`: its codes are taken."""
        data, n = release.microdata, len(release.microdata.codes)
        part = release.source.records is not None

        def code(name: str) -> Coded:
            j = data.columns.index(name)
            parts = [data.codes[:, j], *release.codes[:, :, j]]
            if not data.n_levels[j]:
                return coded_numbers(name, [part.astype(float) for part in parts])
            kind = "numbers" if is_numeric(data.variables[j].dtype) else "text"
            codes = tuple(part.astype(np.int64) + 1 for part in parts)
            return Coded(codes, int(data.n_levels[j]) + 1, kind, np.zeros(0))

        return cls(
            index=data.index,
            names=tuple(data.columns),
            sizes=np.array([n, *[release.codes.shape[1]] * release.m]),
            corresponds=np.full(release.m, release.corresponds),
            made=frozenset(release.synthesized),
            replaced=release.replaced if part else None,
            code=code,
            categories=tuple(v.name for v in data.variables if v.n_levels),
        )

    @property
    def m(self) -> int:
        """Number of files."""
        return len(self.sizes) - 1

    @property
    def n(self) -> int:
        """Number of the original's records."""
        return int(self.sizes[0])

    def by_person(self, name: str | None) -> "Tables":
        """The same, with rows that belong to the persons whom a column of the original names."""
        if name is not None:
            own = persons_of(self.frames[0][known_columns("person", [name], list(self.names))[0]])
            files = zip(self.frames[1 : self.m + 1], self.corresponds, strict=True)
            self.persons = (own, *(persons_of_file(f, name, own, bool(c)) for f, c in files))
            self.person = name
        return self

    def of_person(self, l: int, rows: Any = slice(None)) -> Ints | None:
        """Persons of some rows of table l; None: each row is one."""
        return self.persons[l][rows] if self.persons else None

    @property
    def n_persons(self) -> int:
        """Number of the original's persons."""
        return 1 + int(self.persons[0].max()) if self.persons else self.n

    def column(self, name: str) -> Coded:
        """A column of all tables, 0 where missing; an error where it cannot be compared."""
        if name not in self.known:
            own = self.code
            columns = [] if own else self._columns(name)
            found = own(name) if own else coded(name, columns, self.places)
            if found.apart and self.persons:  # rows of a person are alike by themselves
                first = (np.sort(np.unique(p, return_index=True)[1]) for p in self.persons)
                once = [part.iloc[at] for part, at in zip(columns, first, strict=False)]
                rest = columns[self.m + 1 :]
                found = found._replace(apart=coded(name, [*once, *rest], self.places).apart)
            self.known[name] = found
            self.notes |= dict.fromkeys(self.known[name].notes)
        return self.known[name]

    def key(self, name: str) -> Coded:
        """A column as an intruder compares it: the original is cut off where all files are.

        Values that became a cut have one code, and its number, in all tables.
        """
        if name not in self.keys:
            self.keys[name] = self._cut(name, self.column(name))
        return self.keys[name]

    def _cut(self, name: str, found: Coded) -> Coded:
        if found.kind != "numbers":
            return found
        own, *files = (np.bincount(p, minlength=found.size) for p in found.codes[: self.m + 1])
        missing = missing_code(pd.Series(np.repeat(found.values, own)))
        ends = cut_ends(found.values, [own, *files], missing)
        most = [end._replace(beyond=end.most, certain=True) for end in ends]
        ends = most if self._is_kept(found, cut_off(found, self.m, most)) else ends
        certain = [end for end in ends if end.certain]
        words = {f"{name} is {e.words}": e.certain for e in ends if e.certain or e.possible}
        for count, place in zip(files, self.places[1:], strict=False):
            if self.m > 1 and not words:  # one file, or each in its own way
                alone = cut_ends(found.values, [own, count], missing)
                self.cuts |= {f"{name} of {place} is {e.words}": False for e in alone if e.possible}
        self.cuts |= words
        cut = cut_off(found, self.m, certain)
        if found.apart and certain and not self.persons:
            pairs = zip(self._columns(name), cut.codes, strict=True)
            rest = [column[part < found.size] for column, part in pairs]
            cut = cut._replace(apart=coded(name, rest, self.places).apart)
        return cut

    def _is_kept(self, column: Coded, cut: Coded) -> bool:
        """Whether records that were not replaced have the original's codes if it is cut off."""
        if not self.corresponds.all():
            return False
        rows = slice(None) if self.replaced is None else ~self.replaced
        own, y, *files = (c[rows] for c in (column.codes[0], *cut.codes[: self.m + 1]))
        at = [(y == k) & (own != column.codes[1][rows]) for k in range(column.size, cut.size)]
        shown = all(moved.any() and (y == y[moved.argmax()]).sum() >= FEWEST for moved in at)
        return shown and all(np.array_equal(z, y) for z in files)

    def _columns(self, name: str) -> list[pd.Series]:
        """A column of all frames; what a release did not synthesise and leaves out is kept."""
        parts = []
        for l, frame in enumerate(self.frames):
            times = int((frame.columns == name).sum())
            released = 0 < l <= self.m and self.made is not None
            if times == 0 and released and not self.is_made(name):
                parts.append(self.frames[0][name])
            elif times == 0 and l > self.m:
                parts.append(self.frames[0][name].iloc[:0])
            elif times == 1:
                check_cells(frame[name], name, self.places[l])
                parts.append(frame[name])
            else:
                raise InputError(_absent(name, frame, self.places[l], times))
        return parts

    def compared(self, name: str) -> Coded | None:
        """A column of all tables; None: it cannot be compared, and `left_out` says why."""
        if name in self.left_out:
            return None
        try:
            found = self.column(name)
            self.left_out |= {name: found.apart} if found.apart else {}
        except InputError as error:
            self.left_out[name] = str(error)
        return None if name in self.left_out else found

    def numbers(self, name: str) -> list[Array]:
        """Numbers of all tables at their own precision, NaN where missing; text is an error."""
        return numbers_of(name, self._columns(name), self.places)

    def parts(self, codes: Ints) -> list[Ints]:
        """Codes of the original and of each file, of those one below the other."""
        return np.split(codes, np.cumsum(self.sizes)[:-1])

    def stacked(self, name: str) -> Ints:
        """Codes of the original and all files, one below the other."""
        return np.concatenate(self.column(name).codes[: self.m + 1])

    def is_made(self, name: str) -> bool:
        """Whether a column was synthesised: as the release says, or because it differs."""
        if self.made is not None:
            return name in self.made
        y, *files = self.column(name).codes[: self.m + 1]
        there = [z for z, same in zip(files, self.corresponds, strict=True) if same]
        return not there or any(bool((z != y).any()) for z in there)

    def is_category(self, name: str) -> bool:
        """Whether a column is text, truth values or of few numbers."""
        if self.categories is not None:
            return name in self.categories
        column = self.column(name)
        counts = np.bincount(column.codes[0], minlength=column.size)[1:]
        return column.kind not in ("numbers", "dates") or int((counts > 0).sum()) <= FEW

    def identifiers(self) -> dict[str, str]:
        """Columns of the original that name or number records, and how that is seen."""
        found = {}
        for place, name in enumerate(self.names if self.categories is None else ()):
            check_cells(self.frames[0][name], name, self.places[0])
            if why := why_identifier(self.frames[0][name], str(name), first=place == 0):
                found[name] = why
        if self.person is not None:
            found[self.person] = why_person(self.frames[0][self.person], "id")
        return found

    def outside(self) -> tuple[str, ...]:
        """Columns of files that the original does not have."""
        frames = self.frames[1 : self.m + 1]
        return tuple(dict.fromkeys(str(c) for f in frames for c in f if c not in self.names))

    def aligned(self, names: Sequence[str]) -> list[pd.DataFrame]:
        """These columns of the original and of each file, in the original's terms."""
        found = [self.frames[0][list(names)]]
        for l, frame in enumerate(self.frames[1 : self.m + 1], start=1):
            kept = {c: self.frames[0][c] for c in names if c not in frame}
            found.append(like_original(frame.assign(**kept)[list(names)], found[0], self.places[l]))
        return found

    def check_kept(self, name: str) -> None:
        """A column that was not synthesised is the original's in every file."""
        y, *files = self.key(name).codes[: self.m + 1]
        for z, place in zip(files, self.places[1:], strict=False):
            check_unchanged(name, int((z != y).sum()), self.n, place)


def _absent(name: str, frame: pd.DataFrame, place: str, times: int) -> str:
    if times:
        return f"{place} has column {name!r} more than once; rename or drop one"
    like = [c for c in map(str, frame.columns) if _letters(c) == _letters(str(name))]
    if like:
        return f"{place} lacks column {name!r} and has {like[0]!r}; give it the original's name"
    return f"{place} lacks column {name!r}; it has {list(frame.columns)}"


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def as_tables(releases: Any) -> list[pd.DataFrame]:
    """The tables of a release; one table or several, as a list."""
    tables = releases if declared_columns(releases) is None else releases.datasets
    tables = [tables] if isinstance(tables, pd.DataFrame) else tables
    if not isinstance(tables, Sequence) or isinstance(tables, str):
        raise InputError(
            f"releases is a {type(releases).__name__}; give a Release, a DataFrame or a list of "
            f"DataFrames"
        )
    if not len(tables):
        raise InputError("releases is empty (m = 0); give at least one released file")
    for l, table in enumerate(tables, start=1):
        require_columns(table, (), source := place_of(l, table))
        for name, column in table.items():
            check_cells(column, name, source)
    return list(tables)


def together(releases: Any) -> Any:
    """Several Releases of one table as one: what any of them keeps is genuine in all files.

    Its values are left out of the files that synthesised it, and are read from the original.
    """
    each = list(releases) if isinstance(releases, list | tuple) else []
    several = [isinstance(one, Release) for one in each]
    if not any(several):
        return releases
    if not all(several) or any(one.records is not None for one in each):
        raise InputError(
            "releases mixes a Release with tables, or with one of some records (records); give "
            "Releases of all records alone"
        )
    made = [c for c in each[0].synthesized if all(c in list(one.synthesized) for one in each)]
    if not made:
        raise InputError(
            "each column is unchanged in one of the releases, so that all values are genuine; "
            "match one of them by its unchanged columns (known)"
        )
    tables = []
    for one in each:
        kept = [c for c in one.synthesized if c not in made]
        tables += [table.drop(columns=kept) for table in one.datasets]
    return Release(datasets=tables, synthesized=made)


def declared_columns(releases: Any) -> list[str] | None:
    """Which columns a release says were synthesised; None: bare tables."""
    if isinstance(releases, pd.DataFrame) or not isinstance(releases, Released):
        return None
    return list(releases.synthesized)


def group_edges(y: Array, groups: int) -> Array:
    """Where to cut a number: its quantiles in the original, missing values left out."""
    seen = y[~np.isnan(y)]
    return np.unique(np.quantile(seen, np.linspace(0, 1, groups + 1)[1:-1]))


def group_of(values: Array, edges: Array) -> Ints:
    """Group of each value, ``0 .. len(edges)``; one more for missing values."""
    return np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values))


def check_unchanged(name: str, n_changed: int, n: int, where: str) -> None:
    """A column that was not synthesised is the original's in every release."""
    if n_changed:
        raise InputError(
            f"column {name!r} of {where} differs from the original in {n_changed:,} of {n:,} "
            "records; if it was synthesised, name it in `synthesized`; else put the rows in the "
            "original's order, or give them its labels (`index`)"
        )


def tables_with_release(
    original: pd.DataFrame | Microdata, release: Any, own: bool | None
) -> Tables:
    """Tables of an original and its release; what was kept, of columns or records, is its own."""
    categories = None
    if isinstance(original, Microdata):
        categories = tuple(v.name for v in original.variables if v.n_levels)
        original = original.decode(original.codes)
    declared = declared_columns(release)
    part = isinstance(release, Release) and release.records is not None
    lacks = declared is not None and any(
        set(original) - {*declared, *table} for table in as_tables(release)
    )
    tables = Tables.of(original, release, own=True if lacks or part else own)
    tables.categories = categories
    return tables
