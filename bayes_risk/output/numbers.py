"""Numbers as JSON."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON in which numbers that do not exist (NaN, infinities) are null."""
    path.write_text(json.dumps(plain(content), indent=2, allow_nan=False) + "\n", encoding="utf-8")


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
