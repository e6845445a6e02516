"""Progress of a run as a whole."""

from collections import defaultdict

import numpy as np
import pandas as pd
import pytest

from bayes_risk._core.progress import Overall, in_part
from bayes_risk.app.run.runner import run_study
from bayes_risk.app.study.study import parse_study

M, N = 3, 80
MODEL = {"draws": 24, "tune": 12, "thin": 4, "chains": 4}
STARTS, IN_MODE = "chains started from the release", "base fit in the mode"
RELEASES = [f"release {l + 1}" for l in range(M)]


def table():
    """Columns that two groups tell apart."""
    rng = np.random.default_rng(1)
    group = rng.integers(0, 2, N)
    rows = {c: np.where(rng.random(N) < 0.8, group, 1 - group).astype(str) for c in "abcdef"}
    return pd.DataFrame(rows)


def study_of(tmp_path):
    table().to_csv(tmp_path / "a.csv", index=False)
    return parse_study(
        {
            "data": {"path": str(tmp_path / "a.csv")},
            "model": {"kind": "DPMPM", "n_classes": 8, **MODEL},
            "release": {"m": M},
            "attribute": {"evidence": "predictive"},
            "random_seed": 3,
        }
    )


def whole(told):
    return [done for step, done, _ in told if step == "in all"]


@pytest.mark.filterwarnings("ignore")
def test_the_whole_of_an_audit_moves_in_each_step_and_ends(tmp_path):
    told, study = [], study_of(tmp_path)
    run_study(study, n_jobs=1, progress=lambda *step: told.append(step))
    shown = whole(told)
    assert shown == sorted(shown) and shown[-1] == 1_000
    steps = [step for step in told if step[0] != "in all"]
    by_step = defaultdict(list)
    for (step, *_), done in zip(steps[-len(shown) :], shown, strict=True):
        by_step[step].append(done)
    for step in ("fit", STARTS, IN_MODE, "base fit", "evidence", *RELEASES):
        assert by_step[step][-1] > by_step[step][0] or len(by_step[step]) == 1, step


def test_steps_of_a_stage_each_take_a_third_of_what_is_left():
    told = []
    overall = Overall({"fit": 10, "membership": 10}, lambda *step: told.append(step))
    steps = [("fit", 10, 10), ("membership", 0, 1), ("starts", 10, 20), ("starts", 20, 20)]
    steps += [("starts", 5, 20), ("base", 3, 3), ("membership", 1, 1)]  # threads in any order
    for step in steps:
        overall(*step)
    at = [1, 0, 1 / 6, 1 / 3, 1 / 3, 5 / 9, 1]
    assert whole(told) == [int(1_000 * (x if not k else 1 + x) / 2) for k, x in enumerate(at)]


def test_a_step_that_is_told_to_take_longer_never_leads_back():
    told = []
    overall = Overall({"attribute risk": 40, "report": 3}, lambda *step: told.append(step))
    overall("attribute risk", 0, 1)
    for step in [("base", 5, 10), ("base", 6, 20), ("base", 20, 20)]:  # chains were put back
        overall(*step)
    shown = whole(told)
    assert shown == sorted(shown) and shown[-1] == int(1_000 * 40 / 3 / 43)


def test_what_was_found_of_an_earlier_run_is_over():
    told = []
    stages = {"data": 2, "fit": 30, "attribute risk": 9}
    overall = Overall(stages, lambda *step: told.append(step))
    overall("attribute risk", 0, 1)
    overall("attribute risk", 1, 1)
    assert whole(told) == [int(1_000 * 32 / 41), 1_000]


def test_part_of_something_is_told_by_its_steps():
    told = []
    tell = in_part(lambda *step: told.append(step), "trees", 2, 5)
    for step in [("fit", 1, 2), ("fit", 2, 2), ("fit", 1, 2), ("release 1", 4, 4)]:
        tell(*step)
    assert [step[0] for step in told] == ["trees"] * 4 and {step[2] for step in told} == {5}
    assert [step[1] for step in told] == pytest.approx(
        [2 + x for x in (1 / 6, 1 / 3, 1 / 3, 5 / 9)]
    )
