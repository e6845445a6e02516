"""One table from one file, whatever its kind: what others would repair in silence is an error."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from os import PathLike
from pathlib import Path

import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns

from .delimited import COMMA, read_delimited
from .kinds import STATISTICAL, checked_file, kind_of
from .labels import checked_missing, labelled_table
from .levels import Levels, checked_levels, declare_levels, texts
from .parquet import read_parquet
from .statistical import stored_columns

Missing = str | Mapping[str, str]


def read_table(
    path: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    index: str | None = None,
    levels: Mapping[str, Sequence[Hashable] | str] | None = None,
    missing: Missing = "error",
    na: Collection[str] = (),
) -> pd.DataFrame:
    r"""Read a table from a CSV, Parquet, Stata, SAS or SPSS file; value labels become levels.

    A column whose values all have labels becomes a category. Its levels are *all* labels of the
    file, in the order of their codes, held by somebody or not; they are ordered where the file says
    that the scale is ordinal (SPSS alone does).

    Parameters
    ----------
    path : path
        A file ending in ``.csv``, ``.csv.gz``, ``.parquet``, ``.dta``, ``.sav``, ``.zsav``,
        ``.sas7bdat`` or ``.xpt``. Value labels of a ``.sas7bdat`` stand in a catalog beside it,
        of the same name or ``formats.sas7bcat``.
    columns : list of str, optional
        Which columns to read, in this order; all of them by default.
    index : str, optional
        Column with the record labels; by default rows are numbered 0, 1, 2, ...
    levels : mapping of column to values, or to ``"labels"`` or ``"codes"``, optional
        The values that exist, held by somebody or not; where all of them are text, a CSV's column
        stays text (``01`` stays ``01``). ``"codes"`` takes the stored values and leaves the labels
        out; ``"labels"`` makes values without a label levels too, named by their codes.
    missing : {"error", "level", "blank"}, or a mapping of column to one of them
        What becomes of codes that a Stata, SAS or SPSS file declares as missing (refused, not
        applicable): an error if anybody holds one; levels of their own, after all others; or plain
        missing values.
    na : collection of str
        Texts of a CSV field without quotes that mean a missing value, besides the empty field:
        ``["NA"]`` for files that R wrote.

    Returns
    -------
    DataFrame
        Whole columns of numbers are numbers, dates of Parquet, Stata, SAS and SPSS files are
        datetimes, all else is text as it stands; an empty text is a missing value.

    Raises
    ------
    InputError
        A file that is missing, broken, or of another kind than its name says; a reader that is not
        installed (``pip install "bayes-risk[parquet]"`` for Parquet, ``"bayes-risk[formats]"`` for
        Stata, SAS and SPSS); columns that do not exist; a CSV whose rows do not fit its header;
        record labels that are not unique; values outside their levels; a column in which some
        values have labels and others none; two codes with one label; declared missing codes that
        are held.

    Notes
    -----
    CSV files are UTF-8, comma, one header line; they are read twice. More: ``docs/files.md``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.csv"
    ...     _ = path.write_text("id,sex\nx1,f\nx2,f\n")
    ...     table = read_table(path, index="id", levels={"sex": ["f", "m"]})
    >>> table["sex"].cat.categories.tolist()
    ['f', 'm']
    """
    file, how, missing = checked_file(path), checked_levels(levels), checked_missing(missing)
    text = [name for name, given in how.items() if texts(given)]
    table = stored_table(file, _wanted(columns, index), text=text, how=how, missing=missing, na=na)
    _check_named("levels", how, table, file)
    _check_named("missing", {} if isinstance(missing, str) else missing, table, file)
    lists = {name: given for name, given in how.items() if not isinstance(given, str)}
    table = indexed(declare_levels(table, lists, repr(str(file))), index, file)
    return table if columns is None else table[[c for c in columns if c != index]]


def stored_table(
    file: Path,
    columns: Sequence[str] | None,
    *,
    among: Collection[str] | None = None,
    text: Collection[str] = (),
    how: Levels | None = None,
    missing: Missing = "error",
    na: Collection[str] = (),
) -> pd.DataFrame:
    """What a file holds, by the kind that its name says; labels as levels, rows numbered.

    Of a file with labels only what is `among` some columns is looked at: the others may leave
    questions open.
    """
    suffix, how = kind_of(file), how or {}
    if suffix in STATISTICAL:
        return labelled_table(stored_columns(file, suffix, columns, among), how, missing, file)
    words = [name for name, given in how.items() if isinstance(given, str)]
    if words:
        raise InputError(
            f"levels[{words[0]!r}]={how[words[0]]!r} is for files with value labels, and "
            f"{str(file)!r} has none; give a list of values, or leave it out"
        )
    if suffix == ".parquet":
        return read_parquet(file, columns)
    return read_delimited(file, COMMA, columns=columns, text=text, na=na)


def indexed(table: pd.DataFrame, index: str | None, file: Path) -> pd.DataFrame:
    """Label the records by a column, in which each label stands once."""
    if index is None:
        return table
    if index not in table.columns:
        raise InputError(
            f"index={index!r} is no column of {str(file)!r}; it has {list(table.columns)}"
        )
    labels = table[index]
    if labels.isna().any() or labels.duplicated().any():
        wrong = int((labels.isna() | labels.duplicated()).to_numpy().argmax()) + 1
        raise InputError(
            f"column {index!r} of {str(file)!r} labels the records, but that of row {wrong} is "
            f"missing or not unique; give each record a label of its own"
        )
    return table.set_index(index)


def _check_named(what: str, given: Mapping[str, object], table: pd.DataFrame, file: Path) -> None:
    for name in given:
        if name not in table.columns:
            raise InputError(f"{what} names column {name!r}; {str(file)!r} has {list(table)}")


def _wanted(columns: Sequence[str] | None, index: str | None) -> list[str] | None:
    if columns is None:
        return None
    wanted = known_columns("columns", columns, list(columns))
    return wanted if index is None or index in wanted else [*wanted, index]
