"""The Python blocks of the page on utility run in their order; every context measure is on it."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from bayes_risk.data.measures import CONTEXT

pytestmark = pytest.mark.check

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "utility.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_blocks_of_the_page_run_in_order():
    names: dict[str, object] = {}
    blocks = BLOCK.findall(PAGE)
    assert blocks
    for block in blocks:
        exec(compile(block, "utility.md", "exec"), names)
    plt.close("all")


def test_every_measure_is_defined_on_the_page():
    assert [name for name in CONTEXT if f"`{name}`" not in PAGE] == []
