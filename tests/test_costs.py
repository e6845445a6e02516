"""The ceiling changes no bit, the estimate is near what is measured, the impossible is refused."""

import json
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.app.costs import beneath, bytes_of
from bayes_risk.app.run import run_study
from bayes_risk.app.run.costs import estimate
from bayes_risk.app.study.study import parse_study
from bayes_risk.evidence import evidence
from bayes_risk.evidence import leave_one_out as log_ratios
from bayes_risk.models.mixture.categorical import predictive as latent_predictive

pytestmark = pytest.mark.check

FACTOR = 1.5  # the compiled code is one constant, and the allocator keeps some of what it is given
MEASURED = """
import json, sys
from pathlib import Path
from bayes_risk.run import run_study
from bayes_risk.run.costs import estimate
from bayes_risk.study.study import parse_study
study = parse_study(json.loads(sys.argv[1]))
cost = estimate(study, n_jobs=1, time=False)
run_study(study, n_jobs=1)
line = next(s for s in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in s)
print(cost.peak, 1024 * int(line.split()[1]))
"""


def table(n, p=5, d=4, seed=3):
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.poisson(1.0, (n, p)), d - 1)
    return pd.DataFrame({f"v{j}": [f"c{k}" for k in codes[:, j]] for j in range(p)})


def study_of(path, **more):
    model = {"kind": "CART", "order": ["v1", "v2", "v3", "v4"]}
    content = {"data": {"path": str(path)}, "random_seed": 1, "model": model}
    return content | {"release": {"m": 2}, "attribute": {}} | more


@pytest.fixture
def audit():
    """An audit by predictives: a fit and a release."""
    fit = br.models.DPMPM(12).fit(table(70), draws=12, tune=10, chains=2, random_seed=1)
    return fit, fit.synthesize(m=2, random_seed=2)


def found_by(audit):
    with pytest.warns(br.UnreliableWeightsWarning):
        return br.attribute_risk(*audit, refit_budget=0, random_seed=3)


def same(one, other):
    arrays = [f.name for f in fields(one) if isinstance(getattr(one, f.name), np.ndarray)]
    return all(getattr(one, a).tobytes() == getattr(other, a).tobytes() for a in arrays)


@pytest.mark.parametrize(
    ("text", "size"), [("2GiB", 2**31), ("1.5 MB", 1_500_000), ("7", 7), (" 3kib ", 3072)]
)
def test_amounts_are_read(text, size):
    assert bytes_of(text) == size


def test_block_size_changes_no_bit(audit):
    """Blocks of 8 targets, and of 25."""
    usual = found_by(audit)
    with beneath(1):
        assert same(usual, found_by(audit))


def test_a_lone_last_target_joins_the_block_before():
    class Draws:
        batch = np.arange(4)

    class Few:
        def __init__(self, n):
            self.n = n
            self.guesses = type("Guessed", (), {"codes": np.zeros((3, n, 1))})

        def __len__(self):
            return self.n

    with beneath(1):
        for n in range(1, 40):
            blocks = log_ratios.blocks_of(Draws(), Few(n))
            assert [k for b in blocks for k in range(b.start, b.stop)] == list(range(n))
            assert n == 1 or min(b.stop - b.start for b in blocks) > 1


def test_labels_kept_a_few_draws_at_a_time_are_the_same(audit, monkeypatch):
    usual = found_by(audit)
    monkeypatch.setattr(latent_predictive, "LABELS", 1)
    assert same(usual, found_by(audit))


def test_errors_in_parts_are_those_of_the_whole(monkeypatch):
    deviations = np.random.default_rng(1).normal(size=(3, 4, 5, 83)).astype(np.float32)
    none = np.zeros(83)
    found = evidence.Evidence(
        log_evidence=np.zeros((2, 5, 83)),
        deviations=deviations,
        khat=none,
        ess=none,
        refitted=none > 0,
    )
    whole = found.mcse()
    monkeypatch.setattr(evidence, "PART", 1)
    assert found.mcse().tobytes() == whole.tobytes()


def test_what_cannot_be_held_is_refused_before_the_work(tmp_path):
    table(300).to_csv(tmp_path / "t.csv", index=False)
    output = {"folder": str(tmp_path / "out")}
    study = parse_study(study_of(tmp_path / "t.csv", output=output))
    with pytest.raises(InputError, match=r"needs about .* and .* s, and max_memory is 100 MiB"):
        run_study(study, n_jobs=1, max_memory="100MiB")
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_a_ceiling_that_holds_changes_no_result(tmp_path):
    table(300).to_csv(tmp_path / "t.csv", index=False)
    study = parse_study(study_of(tmp_path / "t.csv"))
    free, bound = (run_study(study, n_jobs=2, max_memory=size) for size in (None, "8GiB"))
    assert same(free.attribute, bound.attribute)


def test_tight_ceilings_make_blocks_smaller_then_workers_fewer(tmp_path):
    table(300).to_csv(tmp_path / "t.csv", index=False)
    model = {"kind": "DPMPM", "draws": 20_000, "chains": 4, "n_classes": 2}
    study = parse_study(study_of(tmp_path / "t.csv", model=model))
    free = estimate(study, n_jobs=4, time=False)
    found = [
        estimate(study, n_jobs=4, max_memory=free.peak - k * 10**7, time=False) for k in (0, 1)
    ]
    assert (found[0].block, found[0].workers) == (free.block, 4)
    assert found[1].block < free.block
    assert found[1].workers == 4
    assert all(cost.fits for cost in found)


def test_estimate_is_near_what_is_measured(tmp_path):
    table(20_000, p=7, d=8).to_csv(tmp_path / "t.csv", index=False)
    content = study_of(tmp_path / "t.csv", output={"folder": str(tmp_path / "out")})
    command = [sys.executable, "-c", MEASURED, json.dumps(content)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected, peak = map(int, done.stdout.split()[-2:])
    assert 1 / FACTOR < peak / expected < FACTOR
