"""The population of a study: a table with a row for everybody, read as the data are."""

from collections.abc import Collection
from pathlib import Path

import pandas as pd

from bayes_risk.data.kinds import checked_file
from bayes_risk.data.table import Missing, stored_table
from bayes_risk.release.alike import aligned, text_columns, words


def read_people(
    path: Path,
    original: pd.DataFrame,
    *,
    missing: Missing = "error",
    na: Collection[str] = (),
) -> pd.DataFrame:
    """Read a population: text, codes, dates and missing values as in the original.

    Values that the original lacks stay: the population holds people who cannot be in the file.

    Parameters
    ----------
    path : Path
    original : DataFrame
        The keys of the confidential table.
    missing, na
        As in `read_table`.

    Returns
    -------
    DataFrame
        All columns of the file.

    Raises
    ------
    InputError
        As `read_table`; text that is no date where the original holds dates.
    """
    file = checked_file(path)
    table = stored_table(
        file,
        None,
        among=[str(c) for c in original.columns],
        text=text_columns(original),
        how=words(file, original),
        missing=missing,
        na=na,
    )
    return aligned(table, _plain(original), repr(str(file)))


def _plain(original: pd.DataFrame) -> pd.DataFrame:
    """Without categories, whose levels would bind everybody."""
    kept = [c for c in original if not isinstance(original[c].dtype, pd.CategoricalDtype)]
    return original[kept]
