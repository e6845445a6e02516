"""Releases made elsewhere, however many files or folders they are."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_risk.data.table import Missing

from .alike import read_like
from .synthpop import read_synthpop
from .synthpop_files import found_files


def read_releases(
    paths: Sequence[Path],
    original: pd.DataFrame,
    *,
    index: str | None = None,
    missing: Missing = "error",
    na: Collection[str] = (),
) -> list[pd.DataFrame]:
    """Read the releases of `original`: each path a data set, or what synthpop left.

    A folder, or a ``synthesis_info_<name>.txt``, stands for all data sets of one synthesis. Rows of
    a file without the column `index` are the original's in its order, as an audit writes them.
    """
    tables: list[pd.DataFrame] = []
    for path in paths:
        if _of_synthpop(path):
            tables += read_synthpop(path, original=original, index=index, missing=missing).datasets
        else:
            how: dict[str, Any] = {"index": index, "missing": missing, "na": na}
            tables.append(read_like(path, original, **how, same_rows=True))
    return tables


def files_of_releases(paths: Sequence[Path]) -> list[Path]:
    """The file of each data set that `read_releases` reads, in the same order."""
    return [file for p in paths for file in (found_files(p)[0] if _of_synthpop(p) else [p])]


def _of_synthpop(path: Path) -> bool:
    return path.is_dir() or path.suffix in (".txt", ".tab")
