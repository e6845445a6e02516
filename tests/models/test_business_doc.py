"""The block of docs/business.md runs."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "business.md").read_text()


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_blocks_run():
    rng = np.random.default_rng(1)
    plants = pd.DataFrame({"skilled": [*rng.poisson(30, 40), 300, 700, 1000]})
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    names = {"plants": plants}
    exec(block, names)
    assert names["risk"].records["prior"].iloc[0] > 1 / 801
