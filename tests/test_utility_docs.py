"""The Python blocks of the pages on utility and context measures run in their order."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from bayes_risk.utilities.meanings import MEANINGS

pytestmark = pytest.mark.check

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["utility.md", "context-measures.md"])
def test_the_blocks_of_a_page_run_in_order(page):
    names: dict[str, object] = {}
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    plt.close("all")


def test_every_measure_is_defined_on_the_page():
    text = (DOCS / "context-measures.md").read_text(encoding="utf-8")
    assert [name for name in MEANINGS if f"`{name}`" not in text] == []
