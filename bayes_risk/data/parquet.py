"""Parquet files: columns are what they are stored as, decimals are numbers."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns

from .kinds import broken, check_header, check_package, check_unpacked, readers_errors
from .reader import read_apart

if TYPE_CHECKING:
    import pandas as pd

CURE = "; is it whole? Times of day and dates outside the years 1 to 9999 are to be text"


def read_parquet(file: Path, columns: Sequence[str] | None = None) -> "pd.DataFrame":
    """Read a Parquet file; an index that pandas keeps in it is a column if it has a name."""
    import pandas as pd

    check_package("pyarrow", file, "'bayes_risk[parquet]', or give a CSV")
    names, numbers, whole, content = read_apart(file, ".parquet")
    import pyarrow as pa

    stored = pa.table({})
    try:
        stored = pa.ipc.open_file(pa.py_buffer(content)).read_all()
        for name, column in zip(stored.column_names, stored.columns, strict=True):
            try:  # text keeps its bytes until somebody looks at it: broken ones are found here
                column.validate(full=True)
            except ValueError:
                raise InputError(
                    f"column {name!r} of {str(file)!r} holds text that is not UTF-8; the file is "
                    "damaged, or was written wrongly: write it again"
                ) from None
        table = pd.read_feather(io.BytesIO(content))
        rounded = [name for name in whole if name in table and table[name].dtype == float]
        exact = stored.select(rounded).replace_schema_metadata()
        for name, column in exact.to_pandas(types_mapper=lambda kind: pd.Int64Dtype()).items():
            table[name] = column.set_axis(table.index)
    except InputError:
        raise
    except Exception as error:  # their words may hold values of the data
        wrong = next((name for name in stored.column_names if not _is_readable(stored, name)), None)
        if wrong is not None:
            raise InputError(
                f"column {wrong!r} of {str(file)!r} is stored as {stored.schema.field(wrong).type} "
                f"and holds a value that cannot be read ({type(error).__name__}){CURE}"
            ) from None
        raise broken(
            file, f"is not a readable Parquet file ({type(error).__name__}){CURE}"
        ) from None
    table = table.reset_index([name for name in table.index.names if name in names])
    table = table.reset_index(drop=True)
    if columns is not None:
        table = table[known_columns("columns", columns, table, repr(str(file)))]
    return table.astype({name: float for name in numbers if name in table.columns})


def _is_readable(table: Any, name: str) -> bool:
    """Whether pandas has values for all those of a column."""
    try:
        table.select([name]).replace_schema_metadata().to_pandas()
    except Exception:
        return False
    return True


# --- in the process that reads --------------------------------------------------------------------


def stored(
    file: Path, suffix: str, *, columns: Sequence[str] | None = None, batch: int | None = None
) -> Any:
    """Names of columns, odd and whole numbers among them, the table in Arrow; or it by `batch`."""
    import pyarrow as pa
    from pyarrow import parquet

    if batch is not None:
        return _parts(file, columns, batch)
    with readers_errors(file, f"is not a readable Parquet file ({{}}){CURE}"):
        found = _columns(file, suffix)
        table = parquet.read_table(str(file))
        if table.num_columns and table.column(0).num_chunks > 1:
            table = table.unify_dictionaries()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as written:
            written.write_table(table)
        return [*found, sink.getvalue()]


def _parts(file: Path, columns: Sequence[str] | None, batch: int) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import parquet

    message = "is not a readable Parquet file ({}), or its pages are damaged; write it again"
    with readers_errors(file, message), parquet.ParquetFile(str(file)) as opened:
        schema, groups = opened.schema_arrow, range(opened.num_row_groups)
        sizes = [opened.metadata.row_group(g).num_rows for g in groups]
        noted = (schema.pandas_metadata or {}).get("columns", [])
        if min(sizes, default=0) < 0 or not all({"name", "pandas_type"} <= {*c} for c in noted):
            raise ValueError("its footer is inconsistent")
        yield [sum(sizes), schema.serialize()]
        for rows in opened.iter_batches(batch, columns=columns) if columns is not None else ():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as written:
                written.write_batch(rows)
            yield sink.getvalue()


def _columns(file: Path, suffix: str) -> list[list[str]]:
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(str(file)) as opened:
        schema, footer = opened.schema_arrow, opened.metadata
        groups = [footer.row_group(k) for k in range(footer.num_row_groups)]
        widths = [max(footer.schema.column(j).length, 8) for j in range(len(footer.schema))]
    check_header(schema.names, file)
    unpacked = sum(group.total_byte_size for group in groups)
    check_unpacked(max(sum(widths) * footer.num_rows, unpacked), file, suffix)
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_nested(kind):
            raise InputError(
                f"column {field.name!r} of {str(file)!r} holds lists or tables in its cells; "
                "store one value a cell"
            )
    _check_texts(file, suffix, schema)
    other = (pa.types.is_decimal, pa.types.is_float16)
    numbers = [field.name for field in schema if any(is_it(field.type) for is_it in other)]
    exact = [field.name for field in schema if pa.types.is_signed_integer(field.type)]
    return [list(schema.names), numbers, exact]


def _check_texts(file: Path, suffix: str, schema: Any) -> None:
    """Bytes of text, counted without being written out: a long value may stand there once."""
    import pyarrow as pa
    from pyarrow import compute, parquet

    kinds = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
    long = [getattr(pa.types, f"is_{kind}") for kind in kinds]
    names = [field.name for field in schema if any(is_it(field.type) for is_it in long)]
    size = 0
    if not names:
        return
    with parquet.ParquetFile(str(file), read_dictionary=names) as opened:
        for batch in opened.iter_batches(columns=names):
            for column in batch.columns:
                if pa.types.is_dictionary(column.type):
                    lengths = compute.binary_length(column.dictionary).cast("int64")
                    size += compute.sum(lengths.take(column.indices)).as_py() or 0
                else:
                    size += column.nbytes
            check_unpacked(size, file, suffix)
