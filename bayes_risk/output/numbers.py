"""Numbers as JSON."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON in which numbers that do not exist are null; a new file is its owner's alone."""
    text = json.dumps(plain(content), indent=2, allow_nan=False) + "\n"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
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
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)
