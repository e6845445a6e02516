"""Arrays and generators as annotations name them; shapes stand beside arrays."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Rng = np.random.Generator


def scalar(value: Any) -> Hashable:
    """A value without NumPy's wrapping."""
    plain: Hashable = value.item() if isinstance(value, np.generic) else value
    return plain
