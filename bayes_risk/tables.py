"""Reading tables from files: what pandas would repair in silence is an error here."""

import csv
import gzip
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from bayes_risk._core.errors import InputError

SUFFIXES = (".csv", ".csv.gz", ".parquet")


def read_table(path: Path, *, index: str | None = None, text: Collection[str] = ()) -> pd.DataFrame:
    """Read a CSV (plain or gzipped, UTF-8, comma, one header line) or Parquet file.

    Whole columns of numbers become numbers; all else stays text as it stands (``None``, ``NA`` and
    ``n/a`` too). Only an empty field is a missing value.

    Parameters
    ----------
    path : Path
        A file ending in ``.csv``, ``.csv.gz`` or ``.parquet``.
    index : str, optional
        Column with the record labels; by default rows are numbered 0, 1, 2, ...
    text : collection of str
        Columns of a CSV file that stay text whatever they look like (``01`` stays ``01``).

    Returns
    -------
    DataFrame

    Raises
    ------
    InputError
        A file that is missing, empty, no text, of another kind, or whose rows or header do not fit.
    """
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}; check the path")
    if path.name.endswith(".parquet"):
        table = _read_parquet(path)
    elif path.name.endswith((".csv", ".csv.gz")):
        with _read_errors(path):
            _check_rows(path)
            table = pd.read_csv(
                path, keep_default_na=False, na_values=[""], dtype=dict.fromkeys(text, str)
            )
    else:
        raise InputError(
            f"{str(path)!r} is of no known kind; give a file ending in {', '.join(SUFFIXES)}"
        )
    return table if index is None else _indexed(table, index, path)


def read_like(path: Path, original: pd.DataFrame, *, index: str | None = None) -> pd.DataFrame:
    """Read a release of `original`: columns that are text there are read as text here.

    A code list such as ``1, 2, x`` makes the original's column text; a release that happens to hold
    only ``1`` and ``2`` must not turn into numbers that match nothing.
    """
    text = [str(c) for c in original.columns if holds_text(original[c])]
    return read_table(path, index=index, text=text)


def holds_text(column: pd.Series) -> bool:
    """Whether a column's values (or levels, for a category) are text."""
    values = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
    return pd.api.types.is_string_dtype(values.dtype) or any(isinstance(v, str) for v in values)


def declare_levels(
    df: pd.DataFrame, levels: Mapping[str, Sequence[Hashable]], source: str
) -> pd.DataFrame:
    """Make columns categories with the declared levels; a value outside them is an error."""
    declared = {}
    for name, values in levels.items():
        if name not in df.columns:
            raise InputError(
                f"[data.levels] names column {name!r}; {source} has {list(df.columns)}"
            )
        strange = df[name].dropna()[lambda column, v=values: ~column.isin(list(v))]
        if len(strange):
            raise InputError(
                f"column {name!r} of {source} holds {strange.iloc[0]!r}, which is not among its "
                f"declared levels {list(values)}; add it in [data.levels], or mend the file"
            )
        declared[name] = pd.CategoricalDtype(list(values))
    return df.astype(declared)


def _check_rows(path: Path) -> None:
    """Every row has as many fields as the header, and the header names each column once."""
    opener = gzip.open if path.name.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        header = next(rows, None)
        if not header:
            raise InputError(f"{str(path)!r} is empty; its first line must name the columns")
        repeated = sorted({name for name in header if header.count(name) > 1})
        if repeated:
            raise InputError(
                f"the header of {str(path)!r} names {repeated} more than once; rename one"
            )
        for row in rows:
            if row and len(row) != len(header):
                raise InputError(
                    f"line {rows.line_num} of {str(path)!r} has {len(row)} fields and the header "
                    f"{len(header)}; quote fields that hold commas, and fill or delete the row"
                )


@contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise InputError(
            f"{str(path)!r} is not UTF-8 text ({error.reason}); save it as UTF-8"
        ) from None
    except (gzip.BadGzipFile, EOFError, csv.Error, pd.errors.ParserError) as error:
        raise InputError(
            f"{str(path)!r} could not be read: {error}; is it whole, and a CSV?"
        ) from None


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except ImportError:
        raise InputError(
            f"reading {str(path)!r} needs pyarrow: pip install 'bayes_risk[parquet]', or give a CSV"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path)!r} is no readable Parquet file: {error}") from None


def _indexed(table: pd.DataFrame, index: str, path: Path) -> pd.DataFrame:
    if index not in table.columns:
        raise InputError(
            f"index={index!r} is no column of {str(path)!r}; it has {list(table.columns)}"
        )
    labels = table[index]
    if labels.isna().any() or labels.duplicated().any():
        wrong = labels[labels.isna() | labels.duplicated()].iloc[0]
        raise InputError(
            f"column {index!r} of {str(path)!r} labels the records, but {wrong} is missing or "
            f"not unique; give each record a label of its own"
        )
    return table.set_index(index)
