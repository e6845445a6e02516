"""What the footers of Parquet files say: one file, or a folder of them in natural order."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from bayes_risk._core.errors import InputError
from bayes_risk.data.kinds import checked_file
from bayes_risk.data.reader import read_in_parts

ABSENT = "__HIVE_DEFAULT_PARTITION__"
# of bytes, of metadata
_BROKEN = (OSError, ValueError, TypeError, AttributeError, KeyError, pa.ArrowException)


class ParquetPart(NamedTuple):
    """One file: its path, records and columns, and the columns that its folders name."""

    path: str
    n: int
    names: tuple[str, ...]
    fixed: Mapping[str, Any]


class ParquetTable(NamedTuple):
    """A table in one or many files.

    ``name``: what messages call it ("release 1"); ``parts``: in the order of the records;
    ``types``: columns and how the first part stores them; ``names``: columns, as often as they
    stand there; ``categories``: columns that were written as categories, numbers among them.
    """

    name: str
    parts: tuple[ParquetPart, ...]
    types: Mapping[str, Any]
    names: tuple[str, ...]
    categories: frozenset[str]

    @classmethod
    def of(cls, path: Any, name: str) -> "ParquetTable":
        """Find the files and read their footers, no record."""
        root, files = _files_of(path, name)
        fixed = _fixed_columns(root, files)
        footers = [_footer(str(file)) for file in files]
        schema = footers[0][0]
        added = [column for column in fixed[0] if column not in schema.names]
        return cls(
            name,
            tuple(
                ParquetPart(str(file), n, tuple(part.names), values)
                for file, (part, n), values in zip(files, footers, fixed, strict=True)
            ),
            dict(zip(schema.names, schema.types, strict=True))
            | {name: pa.array([values[name] for values in fixed]).type for name in fixed[0]},
            (*schema.names, *added),
            frozenset(_categories(schema)),
        )

    @property
    def n(self) -> int:
        """Number of records."""
        return sum(part.n for part in self.parts)

    def batches(self, columns: Sequence[str], size: int) -> Iterator[Any]:
        """Columns of `size` records at a time, of one type whatever the part."""
        rest = None
        for part in self.parts:
            for batch in _read(part, [name for name in columns if name not in part.fixed], size):
                found = {name: self._column(part, batch, name) for name in columns}
                rows = pa.table(found)
                rest = rows if rest is None else pa.concat_tables([rest, rows])
                while len(rest) >= size:
                    yield rest.slice(0, size)
                    rest = rest.slice(size)
        if rest is not None and len(rest):
            yield rest

    def _column(self, part: ParquetPart, batch: Any, name: str) -> Any:
        kind = value_type(self.types[name])
        if name in part.fixed:
            return pa.array([part.fixed[name]] * batch.num_rows, kind)
        stored = batch.column(name)
        try:
            return stored.cast(kind)
        except pa.ArrowException:
            raise InputError(
                f"column {name!r} of {part.path!r} is stored as {stored.type}, and as {kind} in "
                "the first file of its folder; write all files with one type"
            ) from None

    def is_number(self, name: str) -> bool:
        """Whether a column holds numbers that are no categories."""
        kind = value_type(self.types[name])
        number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
        return number and name not in self.categories

    def check(self, keys: Sequence[str], read: Sequence[str]) -> None:
        """Columns to be read stand in every part; keys are values that can be looked up."""
        for part in self.parts:
            for column in read:
                if column not in part.names and column not in part.fixed:
                    raise InputError(
                        f"{part.path!r} lacks column {column!r}, which other files of {self.name} "
                        "have; write all of them with the same columns"
                    )
        for key in keys:
            kind, types = self.types[key], pa.types
            if types.is_nested(kind) or types.is_float16(kind) or types.is_decimal256(kind):
                raise InputError(
                    f"key {key!r} of {self.name} is stored as {kind}, of which values cannot be "
                    "matched; write it as text or as a number"
                )


def value_type(kind: Any) -> Any:
    """How the values themselves are stored."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _footer(path: str) -> tuple[Any, int]:
    """Schema and number of records."""
    ((n, schema),) = read_in_parts(Path(path), ".parquet", batch=1)
    with _damage_named(path):
        return pa.ipc.read_schema(pa.py_buffer(schema)), n


def _read(part: ParquetPart, columns: list[str], size: int) -> Iterator[Any]:
    """Batches of one file, which another process reads; what is broken in them is not told."""
    parts = read_in_parts(Path(part.path), ".parquet", columns=columns, batch=size)
    for content in islice(parts, 1, None):
        with _damage_named(part.path):
            batch = pa.ipc.open_stream(pa.py_buffer(content)).read_next_batch()
            batch.validate(full=True)
            if not {*columns} <= {*batch.schema.names}:
                raise ValueError("other columns than its footer lists")
        yield batch


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    """Say which file is broken, nothing of what stands in it."""
    try:
        yield
    except _BROKEN:
        raise InputError(
            f"{path!r} is not a readable Parquet file: its pages are damaged"
        ) from None


def _categories(schema: Any) -> list[str]:
    """Columns that Arrow or pandas says were categories: Parquet itself does not keep it."""
    stored = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    noted = (schema.pandas_metadata or {}).get("columns", [])
    return stored + [c["name"] for c in noted if c["pandas_type"] == "categorical"]


def _files_of(path: Any, name: str) -> tuple[Path, list[Path]]:
    """A file; or those below a folder, numbers in names as numbers: part.2 before part.10."""
    if not isinstance(path, (str, PathLike)):
        raise InputError(
            f"{name} is a {type(path).__name__}; give the path of a Parquet file or of a folder of "
            "them (DataFrames go to identification_risk)"
        )
    root = Path(path)
    if not root.exists():
        raise InputError(f"there is no file or folder {str(path)!r} for {name}; check the path")
    if not root.is_dir():
        return root, [checked_file(root)]
    files = [
        checked_file(file)
        for file in root.rglob("*.parquet")
        if not any(step.startswith((".", "_")) for step in file.relative_to(root).parts)
    ]
    if not files:
        raise InputError(f"folder {str(root)!r} of {name} holds no file ending in .parquet")

    def steps(file: Path) -> list[tuple[int, str]]:
        pieces = re.split(r"(\d+)", str(file.relative_to(root)))
        return [(int(s), "") if s.isdigit() else (-1, s) for s in pieces]

    return root, sorted(files, key=steps)


def _fixed_columns(root: Path, files: Sequence[Path]) -> list[dict[str, Any]]:
    """Columns that folders name, ``region=3/``: numbers if all of them are, else text."""
    found: list[dict[str, Any]] = []
    for file in files:
        steps = [] if file == root else file.relative_to(root).parts[:-1]
        pairs = [step.partition("=") for step in steps if "=" in step]
        found.append({name: unquote(value) for name, _, value in pairs})
    for name in {name for values in found for name in values}:
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
