"""The Python blocks of the pages on identification run in their order."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

pytestmark = pytest.mark.check

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["identification.md", "population.md"])
def test_the_blocks_of_a_page_run_in_order(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    plt.close("all")
