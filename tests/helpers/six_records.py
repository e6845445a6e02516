"""Six records and two releases made by hand, random ones, and their identification risk."""

from typing import Any

import numpy as np
import pandas as pd

from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.matching.risk import identification_risk


def frame(us: str, s: str, index: Any = None) -> pd.DataFrame:
    return pd.DataFrame({"a": list(us), "b": list(s)}, index=index)


def risk_of(original: pd.DataFrame, releases: Any, **options: Any) -> IdentificationRisk:
    options = {"known": ["a"], "synthesized": ["b"]} | options
    found = identification_risk(original, releases, **options)
    assert isinstance(found, IdentificationRisk)
    return found


ORIGINAL = frame("xxxyyy", "ppqpqr")
FIRST = frame("xxxyyy", "pqqpqq")  # nobody is (y, r)
SECOND = frame("xxxyyy", "pppqqp")  # nobody is (x, q) or (y, r)


def random_files(m: int, n: int = 60) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    rng = np.random.default_rng(3)
    original = pd.DataFrame({"a": rng.integers(0, 4, n), "b": rng.integers(0, 6, n)})
    return original, [original.assign(b=rng.integers(0, 6, n)) for _ in range(m)]
