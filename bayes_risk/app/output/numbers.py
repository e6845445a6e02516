"""Numbers as JSON, tables as CSV."""

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

# What a spreadsheet would compute: text that begins so, and is no number.
FORMULA = re.compile(r"[=@\t\r\n]|[+-](?!(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\Z)", re.IGNORECASE)


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table that people open: text that a spreadsheet would compute gets an apostrophe.

    Cells, labels and names alike; numbers stay as they are.
    """
    safe = table.copy()
    for name in table:
        if table[name].dtype.kind == "O":  # text, categories, anything
            safe[name] = table[name].map(_guarded)
    safe = safe.rename(index=_guarded, columns=_guarded).rename_axis(index=_guarded)
    safe.to_csv(path, lineterminator="\n")


def _guarded(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else value


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON into a new file, its owner's alone; nothing that is there is written over.

    Numbers that do not exist are null, infinities the text ``"inf"`` or ``"-inf"``.
    """
    text = json.dumps(plain(content), indent=2, allow_nan=False) + "\n"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


def plain(value: Any) -> Any:
    """Turn tables, arrays, paths and mappings into what JSON knows."""
    if isinstance(value, pd.DataFrame):
        return {str(k): plain(row.to_dict()) for k, row in value.iterrows()}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray | pd.Index):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)
