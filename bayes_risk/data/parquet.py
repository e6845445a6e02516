"""Tables from Parquet files."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from bayes_risk._core.errors import InputError

from .kinds import broken, check_header, check_unpacked
from .levels import chosen


def read_parquet(file: Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a Parquet file; its columns are what they are stored as, decimals are numbers.

    An index that pandas keeps in the file labels nothing: under a name it is a column like the
    others, else it is left out.
    """
    try:
        names, numbers = _names(file)
        table = pd.read_parquet(file)
        _check_text(table, file)
    except ImportError:
        raise InputError(
            f"reading {str(file)!r} needs pyarrow: pip install 'bayes_risk[parquet]', or give a CSV"
        ) from None
    except InputError:
        raise
    except Exception as error:  # pyarrow and pandas stumble over broken bytes in many ways
        raise broken(file, f"is no readable Parquet file: {_first_line(error)}") from None
    table = table.reset_index([name for name in table.index.names if name in names])
    table = table.reset_index(drop=True).astype(
        {name: float for name in numbers if name in table.columns}
    )
    return table if columns is None else table[chosen(columns, list(table.columns), file)]


def _names(file: Path) -> tuple[set[str], list[str]]:
    """Names of the columns, and those stored as numbers of another kind than NumPy's usual ones."""
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(file) as opened:
        schema, rows = opened.schema_arrow, opened.metadata.num_rows
    check_header(schema.names, file)
    check_unpacked(8 * rows * len(schema.names), file, ".parquet")
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_nested(kind):
            raise InputError(
                f"column {field.name!r} of {str(file)!r} holds lists or tables in its cells; "
                "store one value a cell"
            )
    other = (pa.types.is_decimal, pa.types.is_float16)
    numbers = [field.name for field in schema if any(is_it(field.type) for is_it in other)]
    return set(schema.names), numbers


def _check_text(table: pd.DataFrame, file: Path) -> None:
    """Text keeps its bytes until somebody looks at it: broken ones are found here, not there."""
    import pyarrow as pa

    for name, column in table.items():
        values = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
        if isinstance(values.dtype, pd.StringDtype):
            try:
                pa.array(pd.Series(values)).validate(full=True)
            except pa.ArrowInvalid:
                raise InputError(
                    f"column {name!r} of {str(file)!r} holds text that is not UTF-8; the file is "
                    "damaged, or was written wrongly: write it again"
                ) from None


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
