"""Progress of a run as a whole: what steps are expected to cost, and how far it is shown to be."""

from collections import defaultdict

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk._core.progress import Overall
from bayes_risk.app.run.audit import BEGUN, CELL, tried_of
from bayes_risk.app.run.runner import run_study
from bayes_risk.app.study.declare import read_data
from bayes_risk.app.study.study import parse_study
from bayes_risk.evidence import runner
from bayes_risk.models.fits import lengths
from bayes_risk.models.mixture import led, sampler
from bayes_risk.models.mixture.fit import MixtureFit

M, N = 3, 80
MODEL = {"draws": 24, "tune": 12, "thin": 4, "chains": 4}
STARTS, IN_MODE = "starts led by the release", "base fit in the mode"
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


# --- what steps are expected to cost -----------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("columns", [None, list("abc")], ids=["all", "some"])
def test_costs_are_the_sweeps_that_chains_are_asked_for(monkeypatch, columns):
    swept, asked, now = defaultdict(float), [], [""]
    names = {"led": STARTS, "carried": IN_MODE, "lengthened": "base fit", "without": "refits"}
    run_chain, costs = sampler.run_chain, MixtureFit.costs
    monkeypatch.setattr(lengths, "READ", 0)
    monkeypatch.setattr(lengths, "LARGE", 1)
    monkeypatch.setattr(lengths, "SCORED", 0)  # of its costs, not of what is scored
    fit = br.models.DPMPM(n_classes=8).fit(table(), random_seed=1, **MODEL)
    release = fit.synthesize(M, columns, random_seed=2)
    of = lengths.Table.of(fit.posterior.units)

    def counted(prior, units, start, **how):
        given = units.given
        rows = units.multiplicity.sum() + (0 if given is None else given.rows.multiplicity.sum())
        moves = prior.splits if given is None else 0
        tables = (rows + (now[0] == "refits")) / N  # one record is left out
        swept[now[0]] += (how["tune"] + how["draws"] * how["thin"]) * of.sweep(tables, moves)
        return run_chain(prior, units, start, **how)

    def noted(method, name):
        def call(self, *args, **how):
            now[0] = name or f"release {args[1] + 1}"
            return method(self, *args, **how)

        return call

    def remembered(self, *args):
        asked.append(costs(self, *args))
        return asked[-1]

    for module in (sampler, led):
        monkeypatch.setattr(module, "run_chain", counted)
    monkeypatch.setattr(MixtureFit, "costs", remembered)
    for method, name in {**names, "augmented": ""}.items():
        monkeypatch.setattr(MixtureFit, method, noted(getattr(MixtureFit, method), name))
    told = Overall({"fit": 1, "attribute risk": 1}, lambda *step: None)
    how = {"random_seed": 4, "progress": told, "targets": [0]}
    risk = br.attribute_risk(fit, release, refit_budget=0, **how)
    br.attribute_risk(fit, release, evidence="refit", **how)
    assert risk.modes.put_back == 0 and len(risk.modes.mode) == 12  # one round of starts
    found = {name: cost * units for name, (cost, units) in asked[-1].items()}
    assert found.pop("fit") == 4 * 24 * 4 * of.sweep(1, 5)
    once = {name: swept[name] / (1 if name == "refits" else 2) for name in found}
    once["evidence"] = found.pop("evidence")
    assert found == pytest.approx({name: once[name] for name in found})


@pytest.mark.filterwarnings("ignore")
def test_a_study_expects_its_audit_before_it_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "POOR", 20)
    study = study_of(tmp_path)
    one = tried_of(study, "audit", read_data(study.data)[0])[""]
    cost, sweeps = one.steps["fit"]
    assert sweeps == 4 * (24 + 12) * 4 + BEGUN / cost
    assert cost == lengths.Table.of(one.fit.posterior.units).sweep(1, 5)
    audit = [STARTS, IN_MODE, "base fit", "evidence", *RELEASES, "refits"]
    assert [*one.steps] == ["fit", *audit, "data", "report"]
    assert one.steps["data"] == one.steps["report"] == (CELL, N * 6)
    (_, starts), (_, carried) = one.steps[STARTS], one.steps[IN_MODE]
    assert starts == 4 * 50 + 12 * 6  # the mode sought from four, draws of twelve scored
    assert carried == 8 * 12  # chains, draws
    assert one.steps["refits"][1] == -(-(one.work[0]["cases"] ** 2) // (20 * N))


@pytest.mark.filterwarnings("ignore")
def test_the_whole_of_an_audit_moves_in_each_step_and_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "POOR", 1)
    monkeypatch.setattr("bayes_risk.app.run.audit.BEGUN", 0)  # which is nearly all of a small run
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
    ends = [by_step[step][-1] for step in ("fit", STARTS, IN_MODE, "base fit", *RELEASES)]
    assert ends == sorted({*ends}) and ends[-1] < 1_000


@pytest.mark.filterwarnings("ignore")
def test_what_is_left_is_expected_anew_as_it_is_known(tmp_path, monkeypatch):
    said, expect = [], Overall.expect

    def heard(self, steps, stage=""):
        said.append(steps)
        expect(self, steps, stage)

    monkeypatch.setattr(Overall, "expect", heard)
    told, study = [], study_of(tmp_path)
    result = run_study(study, n_jobs=1, progress=lambda *step: told.append(step))
    before, first, *_ = said
    assert {k: before[k] for k in first if k != "fit"} == {k: first[k] for k in first if k != "fit"}
    carried = next(steps for steps in said if steps[STARTS][1] == 0)
    assert carried[IN_MODE][1] == 12 * len(result.attribute.modes.used)
    refits = [steps["refits"][1] for steps in said if [*steps] == ["refits"]]
    mended = [total for step, _, total in told if step == "refits"]
    assert len(refits) == M + 1 + bool(mended)
    assert refits[-1] == refits[M] == max(mended, default=0)  # by then known


# --- how far a run is shown to be ---------------------------------------------------------------


def begun(steps, stages=None):
    """A run whose fit is done, and whose audit begins: what it is told to expect and what it tells.

    The fit has a share of 30 and costs 10, so that a unit of cost has a share of 3.
    """
    told = []
    overall = Overall(
        stages or {"fit": 30, "attribute risk": 40, "report": 3}, lambda *step: told.append(step)
    )
    overall.expect({"fit": (0.5, 20), **steps}, "attribute risk")
    overall("fit", 20, 20)
    overall("attribute risk", 0, 1)
    return overall, told


def test_steps_weigh_as_they_cost():
    overall, told = begun({"starts": (1.0, 12), "base": (2.0, 4), "release 1": (0.0, 7)})
    steps = [("starts", 6, 12), ("starts", 4, 12)]  # threads tell in any order
    for step in [*steps, ("base", 1, 2), ("base", 2, 2), ("base", 1, 2)]:
        overall(*step)
    at = [30, 30, 48, 48, 54, 60, 66]  # of 30 + 60 + 3; of the second lot of chains one half
    assert whole(told) == [int(1_000 * x / 93) for x in at]
    overall("something else", 1, 2)
    overall("attribute risk", 1, 1)
    overall("report", 1, 1)
    assert whole(told)[len(at) :] == [int(1_000 * 90 / 93), 1_000]


def test_more_than_expected_slows_the_whole_down_and_never_leads_it_back():
    overall, told = begun({"starts": (1.0, 10), "base": (1.0, 10)})
    for done in range(1, 11):
        overall("starts", done, 10)
    before = whole(told)[-1]
    assert before == int(1_000 * 60 / 93)
    overall.expect({"starts": (1.0, 20), "base": (1.0, 10)})  # two more rounds
    for _ in range(2):
        for done in range(1, 11):
            overall("starts", done, 10)
    shown = whole(told)[12:]
    assert shown == sorted({*shown}) and shown[0] > before
    assert shown[0] - before < 1_000 * 3 / 153  # slower than the run, and its end is not reached
    assert 0 <= shown[-1] - int(1_000 * 120 / 153) < 5  # it has caught up, nearly
    for done in range(1, 11):
        overall("base", done, 10)
    assert whole(told)[-1] == int(1_000 * 150 / 153)


def test_a_step_that_is_told_to_take_longer_has_more_left():
    overall, told = begun({"base": (1.0, 10), "refits": (1.0, 10)})
    overall("base", 5, 10)
    assert whole(told)[-1] == int(1_000 * 45 / 93)
    overall("base", 6, 20)  # chains were put back
    assert 45 / 93 < whole(told)[-1] / 1_000 < 48 / 93
    for done in range(7, 21):
        overall("base", done, 20)
    assert whole(told) == sorted(whole(told)) and whole(told)[-1] == int(1_000 * 90 / 123)


def test_less_than_expected_leads_it_forward():
    overall, told = begun({"starts": (1.0, 20), "base": (1.0, 10)})
    overall("starts", 10, 10)
    assert whole(told)[-1] == int(1_000 * 60 / 123)
    overall.expect({"starts": (1.0, 0)})
    overall("base", 5, 10)
    assert whole(told)[-1] == int(1_000 * 75 / 93)


def test_what_was_found_of_an_earlier_run_is_over():
    overall, told = begun({"starts": (1.0, 20)}, {"data": 2, "fit": 30, "attribute risk": 9})
    overall("attribute risk", 1, 1)
    assert whole(told)[0] == int(1_000 * 32 / 92) and whole(told)[-1] == 1_000


def test_other_stages_weigh_as_they_cost_where_that_is_expected():
    told = []
    stages = {"data": 2, "fit": 30, "attribute risk": 40, "report": 3}
    overall = Overall(stages, lambda *step: told.append(step))
    steps = {"starts": (1.0, 10), "data": (2.0, 5), "report": (0.5, 20)}
    overall.expect({"fit": (0.5, 20), **steps}, "attribute risk")
    for stage in ("fit", "attribute risk", "report"):
        overall(stage, 0, 1)
        overall(stage, 1, 1)
    at = [30, 60, 60, 90, 90, 120]  # of 120: each costs ten
    assert whole(told) == [int(1_000 * x / 120) for x in at]


def test_a_stage_that_expects_nothing_has_its_share():
    told = []
    overall = Overall({"fit": 10, "membership": 10}, lambda *step: told.append(step))
    overall("membership", 0, 1)
    overall.expect({"fit": (1.0, 1), "starts": (1.0, 20)})
    overall("starts", 1, 20)
    overall("membership", 1, 4)
    assert whole(told) == [500, 625]
