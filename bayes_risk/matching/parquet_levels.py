"""Key columns of Parquet files as codes: their levels in a first pass, their digits in a second."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import MAX_LEVELS

from .keys import coded, source
from .parquet_rows import ParquetTable

if TYPE_CHECKING:
    import pyarrow as pa

Digits = npt.NDArray[np.int32]


class Levels(NamedTuple):
    """The values of one key in one table, a pyarrow array, and the code of each."""

    values: Any
    codes: Digits


def distinct_values(
    table: ParquetTable,
    keys: Sequence[str],
    start: int,
    stop: int,
    batch: int,
    report: Callable[[int], None] | None = None,
) -> dict[str, "pa.Array"]:
    """Find the values that stand in records start .. stop - 1."""
    _check_types(table, keys)
    found: dict[str, pa.Array] = {}
    done = start
    for piece in table.pieces(keys, start, stop, batch):
        for key, array in piece.items():
            new = _values_of(array)
            found[key] = together([found[key], new]) if key in found else new
            if _continuous(table, key, found[key]):
                coded(key, [_series(table, key, found[key])], [table.name])  # says why not
        done += len(array)
        if report is not None:
            report(done)
    return found


def _check_types(table: ParquetTable, keys: Sequence[str]) -> None:
    """Keys are values that can be looked up: no lists, no tables, no half precision."""
    import pyarrow as pa

    for key in keys:
        if key not in table.types:
            raise InputError(
                f"{table.name} lacks column {key!r}; it has {list(table.types)}: its footer names "
                "columns in two ways"
            )
        kind = table.types[key]
        if pa.types.is_nested(kind) or pa.types.is_float16(kind):
            raise InputError(
                f"key {key!r} of {table.name} is stored as {kind}, of which values cannot be "
                "matched; write it as text or as a number"
            )


def together(arrays: Sequence["pa.Array"]) -> "pa.Array":
    """Values of several parts, each once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.unique(pa.concat_arrays(list(arrays)))


def coded_levels(
    tables: Sequence[ParquetTable], values: Sequence[Mapping[str, "pa.Array"]], key: str
) -> tuple[list[Levels], int]:
    """Give the values of a key one code in all tables, with the checks of the tables in memory.

    Returns the levels of each table, and the number of codes.
    """
    columns = [_series(table, key, v[key]) for table, v in zip(tables, values, strict=True)]
    codes, n_levels = coded(key, columns, [source(l) for l in range(len(tables))])
    return [
        Levels(v[key], np.asarray(c, dtype=np.int32)) for v, c in zip(values, codes, strict=True)
    ], n_levels


def digits(
    table: ParquetTable, levels: Mapping[str, Levels], start: int, stop: int, batch: int
) -> Iterator[Digits]:
    """Yield the codes of records start .. stop - 1, shapes (keys, `batch`), the last one less."""
    held: list[Digits] = []
    for piece in table.pieces(list(levels), start, stop, batch):
        held.append(np.stack([_codes(piece[key], known) for key, known in levels.items()]))
        while sum(block.shape[1] for block in held) >= batch:
            rows = np.concatenate(held, axis=1)
            yield rows[:, :batch]
            held = [rows[:, batch:]]
    rest = np.concatenate(held, axis=1)
    if rest.shape[1]:
        yield rest


def _codes(array: "pa.Array", levels: Levels) -> Digits:
    """Look up the codes of an array's values."""
    import pyarrow.compute as pc

    listed = _dictionary(array)
    place = pc.index_in(listed.dictionary, value_set=levels.values).fill_null(0)
    table = levels.codes[np.append(place.to_numpy(zero_copy_only=False), 0).astype(np.int64)]
    if listed.indices.null_count:  # the last entry: missing
        table[-1] = levels.codes[pc.index_in(_nothing(levels), value_set=levels.values)[0].as_py()]
    return table[_places(listed)]


def _values_of(array: "pa.Array") -> "pa.Array":
    """The values that an array holds, a missing one among them; unused categories left out."""
    import pyarrow as pa

    listed = _dictionary(array)
    used = np.flatnonzero(np.bincount(_places(listed)))
    absent = used == len(listed.dictionary)
    return listed.dictionary.take(pa.array(used, mask=absent))


def _dictionary(array: "pa.Array") -> "pa.Array":
    import pyarrow as pa

    return array if pa.types.is_dictionary(array.type) else array.dictionary_encode()


def _places(listed: "pa.Array") -> npt.NDArray[np.int64]:
    """Which value of the dictionary stands where; one past the last: missing."""
    places: npt.NDArray[np.int64] = (
        listed.indices.cast("int64").fill_null(len(listed.dictionary)).to_numpy()
    )
    return places


def _nothing(levels: Levels) -> "pa.Array":
    import pyarrow as pa

    return pa.nulls(1, levels.values.type)


def _series(table: ParquetTable, key: str, values: "pa.Array") -> pd.Series:
    """The values as a column in memory would hold them; whole numbers stay whole."""
    import pyarrow as pa

    whole = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
    column = values.to_pandas(types_mapper=whole.get if values.null_count else None)
    column = pd.Series(column, name=key)
    return column.astype("category") if key in table.categories else column


def _continuous(table: ParquetTable, key: str, values: "pa.Array") -> bool:
    import pyarrow as pa

    number = pa.types.is_floating(values.type) or pa.types.is_integer(values.type)
    return number and key not in table.categories and len(values) > MAX_LEVELS + 1
