"""Tables from Parquet files."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.tables.kinds import broken
from bayes_risk.tables.levels import chosen


def read_parquet(file: Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a Parquet file; its columns are what they are stored as."""
    try:
        table = pd.read_parquet(file)
    except ImportError:
        raise InputError(
            f"reading {str(file)!r} needs pyarrow: pip install 'bayes_risk[parquet]', or give a CSV"
        ) from None
    except (OSError, ValueError) as error:
        raise broken(file, f"is no readable Parquet file: {error}") from None
    return table if columns is None else table[chosen(columns, list(table.columns), file)]
