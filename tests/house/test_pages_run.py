"""The Python blocks of pages run in their order."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from bayes_risk.data.measures import CONTEXT
from tests.data.test_synthpop_files import info
from tests.house.test_docs import DOCS, PYTHON

Names = dict[str, Any]


def blocks_of(page: str, names: Names) -> Names:
    """What is named once the blocks of a page have run."""
    blocks = PYTHON.findall((DOCS / f"{page}.md").read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        exec(compile(block, f"{page}.md", "exec"), names)
    plt.close("all")
    return names


@pytest.mark.check
@pytest.mark.parametrize("page", ["identification", "population", "utility"])
def test_the_blocks_of_a_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = blocks_of(page, {})
    if page == "population":
        assert names["population"].counts(names["sample"]).shape == (1, 5)


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_the_page_on_business_runs() -> None:
    rng = np.random.default_rng(1)
    plants = pd.DataFrame({"skilled": [*rng.poisson(30, 40), 300, 700, 1000]})
    names = blocks_of("business", {"plants": plants})
    assert names["risk"].records["prior"].iloc[0] > 1 / 801


def test_the_page_on_files_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyreadstat")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "original.csv").write_text("sex,pay,job\nf,100,a\nm,NA,b\nm,250,a\nf,90,b\n")
    (tmp_path / "export").mkdir()
    methods = {"sex": "", "pay": "cart", "job": "cart"}
    rows = ['"f",90,"a"\n"m",250,"b"\n"m",NA,"b"', '"f",100,"b"\n"m",NA,"b"\n"m",90,"a"']
    for file, text in zip(info(tmp_path / "export", methods=methods), rows, strict=True):
        file.write_text(f'"sex","pay","job"\n{text}\n"f",90,"a"\n')
    assert blocks_of("files", {})["risk"].summary().index.tolist()[:2] == [1, 2]


def test_every_context_measure_is_defined_on_the_page_of_utility() -> None:
    page = (DOCS / "utility.md").read_text(encoding="utf-8")
    assert [name for name in CONTEXT if f"`{name}`" not in page] == []
