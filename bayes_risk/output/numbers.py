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
    """Write JSON; a new file is its owner's alone.

    Numbers that do not exist are null. JSON has no infinity: it is the text ``"inf"`` or
    ``"-inf"``, so that an R-hat of chains that stand still, or a boundless loss, is not taken for
    none.
    """
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
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)
