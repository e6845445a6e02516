"""The estimate of every stage is 1 to 2 times what its arrays were seen to take."""

import gc
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from bayes_risk.app.costs import memory_by_stage
from bayes_risk.app.costs.samplers import DISTANCES, MATCHED
from bayes_risk.app.run import audit
from bayes_risk.app.run.sizes import sizes_of
from bayes_risk.app.study import making
from bayes_risk.app.study.study import parse_study
from bayes_risk.models.pmm import evidence as pmm_evidence
from bayes_risk.models.pmm import match as pmm_match

pytestmark = pytest.mark.check

COLUMNS = [f"v{j}" for j in range(8)]
STAGES = {  # stages of the clock, and what the estimate calls them
    "identification risk": ["identification"],
    "utility": ["utility"],
    "context measures": ["context"],
    "bounds": ["bounds"],
    "membership": ["membership"],
    "full table": ["full table"],
    "attribute risk": ["guesses", "evidence", "posterior"],
}
BASE = ("program", "table and releases", "draws of the fits", "attribute risk")
ASKED = {
    "identification": {"known": ["v0"], "synthesized": ["v5", "v6"]},
    "utility": {"permutations": 2, "columns": ["v4", "v5", "v6", "v7"]},
    "context": {"keys": ["v0", "v1"], "target": ["v5"], "lookups": 100},
    "bounds": {},
}
DPMPM = {"kind": "DPMPM", "n_classes": 12, "draws": 30, "tune": 10, "chains": 2}


def table(n, d, seed=2, *, skewed=False):
    rng = np.random.default_rng(seed)
    codes = rng.integers(d, size=(n, len(COLUMNS)))
    if skewed:
        codes = np.minimum(rng.geometric(0.5, size=codes.shape) - 1, d - 1)
    names = np.array([f"c{k}" for k in range(d)])
    return pd.DataFrame({c: names[codes[:, j]] for j, c in enumerate(COLUMNS)})


@pytest.fixture
def seen(monkeypatch):
    """What was allocated in each stage above what stood at its beginning."""
    found = {}

    @contextmanager
    def stage(self, name):
        gc.collect()
        tracemalloc.reset_peak()
        at, _ = tracemalloc.get_traced_memory()
        yield
        found[name] = tracemalloc.get_traced_memory()[1] - at
        self.seconds[name] = 0.0

    monkeypatch.setattr(making.Clock, "__call__", stage)
    return found


def measured(content, df, tmp_path, seen):
    """Estimate over measurement of every stage."""
    path, few = tmp_path / "t.csv", tmp_path / "few.csv"
    df.to_csv(path, index=False)
    df[:500].to_csv(few, index=False)
    study, small = (
        parse_study(content | {"data": {"path": str(p)}, "random_seed": 1}) for p in (path, few)
    )
    sizes = sizes_of(study, df)
    block = max(128, 2**18 // max(sizes.sampler.draws, 1))
    memory = memory_by_stage(sizes, block=min(block, max(sizes.cases, 1)), workers=1)
    audit.run_study(small, n_jobs=1)  # whatever is imported and compiled, before
    seen.clear()
    tracemalloc.start()
    try:
        audit.run_study(study, n_jobs=1)
    finally:
        tracemalloc.stop()
    return {
        name: max(sum(v for k, v in memory[s].items() if k not in BASE) for s in STAGES[name])
        / seen[name]
        for name in STAGES
        if name in seen
    }


def check(ratios, *expected):
    assert set(ratios) == set(expected)
    assert all(1 < ratio < 2 for ratio in ratios.values()), ratios


def test_trees_and_all_that_looks_at_the_release(tmp_path, seen):
    model = {"kind": "CART", "order": COLUMNS[5:]}
    content = ASKED | {"model": model, "release": {"m": 3}, "attribute": {"targets": 5_000}}
    ratios = measured(content, table(6_000, d=16), tmp_path, seen)
    check(ratios, "attribute risk", "identification risk", "utility", "context measures", "bounds")


def test_forests(tmp_path, seen):
    model = {"kind": "Forest", "order": ["v7"], "n_trees": 60}
    content = {"model": model, "release": {"m": 2}, "attribute": {"targets": 500}}
    check(measured(content, table(4_000, d=6), tmp_path, seen), "attribute risk")


def test_blocks_of_mean_matching_are_those_that_are_counted():
    assert (MATCHED, DISTANCES) == (pmm_evidence.ROWS, pmm_match.BLOCK)


@pytest.mark.parametrize("n", [3_000, 9_000])
def test_mean_matching(n, tmp_path, seen):
    order = COLUMNS[6:]
    model = {"kind": "PMM", "order": order, "identifying": COLUMNS[3:], "threshold": 10}
    content = {"model": model, "release": {"m": 3}, "attribute": {}}
    check(measured(content, table(n, d=4, skewed=True), tmp_path, seen), "attribute risk")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
@pytest.mark.filterwarnings("ignore::bayes_risk.TruncationWarning")
def test_mixtures_their_members_and_their_full_table(tmp_path, seen):
    content = {
        "model": DPMPM,
        "release": {"m": 2},
        "attribute": {"targets": 800, "refit_budget": 0},
        "membership": {"records": 150, "alternatives": 100, "refit_budget": 0},
        "full_table": {"targets": 1, "draws": 30},
    }
    df = table(1_000, d=4)
    check(measured(content, df, tmp_path, seen), "attribute risk", "membership", "full table")
