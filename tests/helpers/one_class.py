"""Tables of level codes, and mixtures of one class: whatever is drawn, closed forms hold."""

from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from tests.oracles.kernel_twins import categories


def table_of(codes: Any, levels: Any) -> pd.DataFrame:
    """Every level is declared."""
    codes = np.asarray(codes)
    return pd.DataFrame({f"x{j}": categories(codes[:, j], d) for j, d in enumerate(levels)})


def release_of(tables: Any, **how: Any) -> br.Release:
    return br.Release(datasets=list(tables), synthesized=list(tables[0]), **how)


def one_class(table: pd.DataFrame, draws: int = 4, weights: Any = None, **model: Any) -> Any:
    """Nothing is lost without tuning and thinning: draws are independent."""
    how: Any = {"draws": draws, "tune": 0, "chains": 2, "thin": 1, "random_seed": 1}
    return br.models.DPMPM(n_classes=1, **model).fit(table, weights=weights, **how)
