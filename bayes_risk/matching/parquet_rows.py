"""Records of Parquet files, a batch at a time: one file, or a folder of them in natural order."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from bayes_risk._core.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

ABSENT = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One file: its path, the rows of its row groups, and the columns that its folders name."""

    path: str
    groups: tuple[int, ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of records."""
        return sum(self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetTable:
    """A table in one or many files.

    Attributes
    ----------
    name : str
        What messages call it: "the original", "release 1".
    parts : tuple of Part
        In the order of the records.
    types : dict of str to pyarrow.DataType
        Columns and how they are stored, by the first part.
    names : tuple of str
        The columns, as often as they stand there.
    categories : frozenset of str
        Columns that were written as categories, numbers among them.
    """

    name: str
    parts: tuple[Part, ...]
    types: Mapping[str, Any]
    names: tuple[str, ...]
    categories: frozenset[str]

    @classmethod
    def of(cls, path: Any, name: str) -> "ParquetTable":
        """Find the files and read their footers, no record.

        Raises
        ------
        InputError
            No such file or folder, no Parquet in it, or pyarrow is not installed.
        """
        root = _checked_path(path, name)
        files = [root] if root.is_file() else _files_in(root, name)
        fixed = _fixed_columns(root, files)
        parts, schema = [], None
        for file, values in zip(files, fixed, strict=True):
            opened = opened_parquet(str(file))
            groups = [opened.metadata.row_group(g).num_rows for g in range(opened.num_row_groups)]
            parts.append(Part(path=str(file), groups=tuple(groups), fixed=values))
            schema = opened.schema_arrow if schema is None else schema
        assert schema is not None  # there is at least one file
        types = {**dict(zip(schema.names, schema.types, strict=True)), **_types(fixed)}
        added = [column for column in fixed[0] if column not in schema.names]
        return cls(
            name=name,
            parts=tuple(parts),
            types=types,
            names=(*schema.names, *added),
            categories=frozenset(_categories(schema)),
        )

    @property
    def n(self) -> int:
        """Number of records."""
        return sum(part.n for part in self.parts)

    def ranges(self, batch: int) -> list[tuple[int, int]]:
        """Cut the records at the ends of row groups, in ranges of `batch` or more."""
        ends, start, found = list(accumulate(n for p in self.parts for n in p.groups)), 0, []
        for end in ends:
            if end - start >= batch:
                found.append((start, end))
                start = end
        return [*found, (start, self.n)] if start < self.n else found

    def pieces(
        self, columns: Sequence[str], start: int, stop: int, batch: int
    ) -> Iterator[dict[str, "pa.Array"]]:
        """Yield records start .. stop - 1, at most `batch` at a time, as they come from the files.

        Row groups are opened one by one and decoded as they are read.
        """
        at = 0
        for part in self.parts:
            opened = None
            for group, n in enumerate(part.groups):
                if n and at < stop and at + n > start:
                    opened = opened_parquet(part.path) if opened is None else opened
                    rows = self._group(opened, part, group, columns, batch)
                    yield from _within(rows, start - at, stop - at)
                at += n

    def _group(
        self, opened: Any, part: Part, group: int, columns: Sequence[str], batch: int
    ) -> Iterator[tuple[int, dict[str, "pa.Array"]]]:
        """Yield the records of one row group: how many, and the columns."""
        stored = list(dict.fromkeys(c for c in columns if c not in part.fixed))
        self._check_columns(opened.schema_arrow.names, stored, part)
        if not stored:  # folders say it all
            yield part.groups[group], self._columns({}, part, columns, part.groups[group])
            return
        for rows in _batches(opened, part.path, batch, group, stored):
            arrays = {name: rows.column(name) for name in stored}
            yield len(rows), self._columns(arrays, part, columns, len(rows))

    def _columns(
        self, arrays: Mapping[str, Any], part: Part, columns: Sequence[str], n: int
    ) -> dict[str, "pa.Array"]:
        """Give the columns the types of the first part, those that folders name among them."""
        import pyarrow as pa

        return {
            name: pa.repeat(pa.scalar(part.fixed[name], self.types[name]), n)
            if name in part.fixed
            else _as_type(arrays[name], self.types[name], name, part.path)
            for name in columns
        }

    def _check_columns(self, names: Sequence[str], stored: Sequence[str], part: Part) -> None:
        for column in stored:
            if column not in names:
                raise InputError(
                    f"{part.path!r} lacks column {column!r}, which other files of {self.name} "
                    "have; write all of them with the same columns"
                )


def _within(
    rows: Iterator[tuple[int, dict[str, "pa.Array"]]], start: int, stop: int
) -> Iterator[dict[str, "pa.Array"]]:
    """Cut to the records start .. stop - 1, counted from the first."""
    at = 0
    for n, arrays in rows:
        low, high = max(start - at, 0), min(stop - at, n)
        if low < high:
            yield {name: array.slice(low, high - low) for name, array in arrays.items()}
        at += n
        if at >= stop:
            return


def opened_parquet(path: str) -> Any:
    """Open a Parquet file; text is read as codes of its dictionary."""
    pq = _pyarrow_parquet(path)
    import pyarrow as pa

    try:
        schema = pq.read_schema(path)
        text = [f.name for f in schema if pa.types.is_string(f.type) or _is_large(f.type)]
        opened = pq.ParquetFile(path, read_dictionary=text)
        noted = (schema.pandas_metadata or {}).get("columns", [])
        sizes = [opened.metadata.row_group(g).num_rows for g in range(opened.num_row_groups)]
        if min(sizes, default=0) < 0 or not all("pandas_type" in column for column in noted):
            raise ValueError("its footer says what cannot be")
        return opened
    except (*_BROKEN, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


_BROKEN = (OSError, ValueError, TypeError, AttributeError, KeyError)  # of bytes, of metadata


def _unreadable(path: str, error: Exception) -> InputError:
    first = str(error).partition("\n")[0][:200]
    return InputError(f"{path!r} is no readable Parquet file: {first}")


def _batches(
    opened: Any, path: str, batch: int, group: int, columns: Sequence[str]
) -> Iterator[Any]:
    """Yield the records of a row group as they are decoded; pages may be broken."""
    import pyarrow as pa

    try:
        yield from opened.iter_batches(batch_size=batch, row_groups=[group], columns=columns)
    except (*_BROKEN, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _categories(schema: Any) -> list[str]:
    """Columns that Arrow or pandas says were categories: Parquet itself does not keep it."""
    import pyarrow as pa

    stored = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    noted = (schema.pandas_metadata or {}).get("columns", [])
    return stored + [c["name"] for c in noted if c["pandas_type"] == "categorical"]


def _is_large(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_large_string(kind))


def _pyarrow_parquet(path: str) -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            f"reading {path!r} needs pyarrow: pip install 'bayes_risk[parquet]', or give "
            "DataFrames to identification_risk"
        ) from None
    return parquet


def _checked_path(path: Any, name: str) -> Path:
    if not isinstance(path, (str, Path)):
        raise InputError(
            f"{name} is a {type(path).__name__}; give the path of a Parquet file or of a folder of "
            "them (DataFrames go to identification_risk)"
        )
    if not Path(path).exists():
        raise InputError(f"there is no file or folder {str(path)!r} for {name}; check the path")
    return Path(path)


def _files_in(root: Path, name: str) -> list[Path]:
    """Parquet files below a folder, numbers in names as numbers: part.2 before part.10."""
    files = [
        file
        for file in root.rglob("*.parquet")
        if not any(step.startswith((".", "_")) for step in file.relative_to(root).parts)
    ]
    if not files:
        raise InputError(f"folder {str(root)!r} of {name} holds no file ending in .parquet")
    return sorted(files, key=lambda file: _natural(str(file.relative_to(root))))


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(s), "") if s.isdigit() else (-1, s) for s in re.split(r"(\d+)", text)]


def _fixed_columns(root: Path, files: Sequence[Path]) -> list[dict[str, Any]]:
    """Columns that folders name, ``region=3/``: numbers if all of them are, else text."""
    found: list[dict[str, Any]] = []
    for file in files:
        steps = [] if file == root else file.relative_to(root).parts[:-1]
        pairs = [step.partition("=") for step in steps if "=" in step]
        found.append({name: unquote(value) for name, _, value in pairs})
    names = {name for values in found for name in values}
    for name in names:
        if any(name not in values for values in found):
            raise InputError(
                f"some folders below {str(root)!r} name {name!r} and some do not; lay out all "
                "files alike"
            )
        given = {values[name] for values in found} - {ABSENT}
        whole = all(re.fullmatch(r"-?(0|[1-9]\d{0,17})", value) for value in given)
        for values in found:
            value = values[name]
            values[name] = None if value == ABSENT else int(value) if whole else value
    return found


def _types(fixed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    import pyarrow as pa

    return {name: pa.array([values[name] for values in fixed]).type for name in fixed[0]}


def _as_type(array: Any, kind: Any, column: str, path: str) -> Any:
    """An array as the first part stores it; dictionaries may differ from part to part."""
    import pyarrow as pa

    if array.type == kind or _value_type(array.type) == _value_type(kind):
        return array
    try:
        return plain(array).cast(_value_type(kind))
    except pa.ArrowException:
        raise InputError(
            f"column {column!r} of {path!r} is stored as {array.type}, and as {kind} in the first "
            "file of its folder; write all files with one type"
        ) from None


def plain(array: Any) -> Any:
    """An array of the values themselves."""
    import pyarrow as pa

    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _value_type(kind: Any) -> Any:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind
