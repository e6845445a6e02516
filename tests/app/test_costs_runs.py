"""Estimates and ceilings of sweeps, comparisons, reweighting, and releases that were brought."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bayes_risk._core.errors import InputError
from bayes_risk.app.cli import app
from bayes_risk.app.run import run_compare, run_study, run_sweep
from bayes_risk.app.run import runner as costs
from bayes_risk.app.run.audit import tried_of
from bayes_risk.app.run.runner import estimate
from bayes_risk.app.study.declare import read_data
from bayes_risk.app.study.study import candidate_study, parse_study, read_study
from bayes_risk.demo import STUDIES

pytestmark = pytest.mark.check

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.toml"))
CART = {"kind": "CART", "order": ["v1", "v2", "v3"]}
COMPARE = {"replicates": 2, "few": {"model": {"kind": "CART", "order": ["v3"]}}, "all": {}}
SWEEP = {"priors": ["uniform", "marginal"], "guesses": ["neighbourhood", "hamming-2"], "m": [1, 2]}


@pytest.fixture
def content(tmp_path):
    """A study of a small table, and room beside it."""
    rng = np.random.default_rng(3)
    codes = np.minimum(rng.poisson(1.0, (300, 4)), 3)
    path = tmp_path / "t.csv"
    df = pd.DataFrame({f"v{j}": [f"c{k}" for k in codes[:, j]] for j in range(4)})
    df.to_csv(path, index=False)
    study = {"data": {"path": str(path)}, "random_seed": 1, "model": CART}
    return study | {"release": {"m": 2}, "attribute": {"targets": 50}}


@pytest.fixture
def brought(content, tmp_path):
    """The same with a release from files, whose v0 is the table's."""
    df = pd.read_csv(tmp_path / "t.csv")
    files = [tmp_path / f"z{l}.csv" for l in (1, 2)]
    for l, file in enumerate(files):
        v3 = df["v3"].sample(frac=1, random_state=l).to_numpy()
        df.assign(v3=v3).to_csv(file, index=False)
    release = {"files": [str(f) for f in files], "columns": ["v3"]}
    return content | {"release": release}


def works(study, kind="audit"):
    """Sizes with which each audit of attribute risk begins."""
    runs = tried_of(study, kind, read_data(study.data)[0])
    return [work for one in runs.values() for work in one.work]


# --- sweeps and comparisons ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "kind", "more"),
    [
        pytest.param(run_sweep, "sweep", {"sweep": SWEEP}, id="sweep"),
        pytest.param(
            run_compare, "compare", {"compare": COMPARE, "utility": None}, id="comparison"
        ),
    ],
)
def test_a_ceiling_changes_no_number_and_refuses_what_it_cannot_hold(
    content, tmp_path, run, kind, more
):
    folder = tmp_path / "out"
    study = parse_study(content | more | {"output": {"folder": str(folder)}})
    free = run(
        study.model_copy(update={"output": study.output.model_copy(update={"folder": None})})
    )
    bound = run(study, max_memory="8GiB")
    found = [getattr(r, "sensitivity", None) or r.comparison for r in (free, bound)]
    assert found[0].dataset.identical(found[1].dataset)
    with pytest.raises(InputError, match=r"needs up to .* and max_memory is 100 MiB"):
        run(study, max_memory="100MiB", overwrite=True)
    assert not (tmp_path / ".out.work").exists()


def test_settings_of_a_sweep_are_counted_the_study_s_own_among_them(content):
    sweep = SWEEP | {"classes": ["new", "own"]}
    model = {"kind": "DPMPM", "n_classes": 5, "draws": 10}
    for combinations, count in ((False, 3), (True, 4)):
        section = sweep | {"combinations": combinations}
        study = parse_study(content | {"model": model, "sweep": section})
        guesses = [work["guesses"] for work in works(study, "sweep")]
        assert (len(guesses), max(guesses)) == (count, 67)  # 1 + 4 x 3 + 6 x 9
        found = estimate(study, kind="sweep", time=False)
        assert found.data > estimate(study, time=False).data


def test_a_comparison_is_as_large_as_its_largest_candidate(content):
    study = parse_study(content | {"compare": COMPARE})
    found = estimate(study, kind="compare", time=False)
    alone = [estimate(candidate_study(study, c), time=False).data for c in ("few", "all")]
    assert found.data >= max(alone) > min(alone)
    assert max(work["guesses"] for work in works(study, "compare")) == 10


def test_keys_are_sorted_for_a_candidate_that_synthesises_every_column(content):
    mixture = {"model": {"kind": "DPMPM", "n_classes": 3, "draws": 10, "tune": 5, "chains": 2}}
    keys = {"known": ["v0"], "synthesized": ["v1", "v3"]}
    asked = {"attribute": None, "identification": keys, "compare": {"replicates": 1, "a": mixture}}
    study = parse_study({k: v for k, v in (content | asked).items() if v is not None})
    assert set(estimate(study, kind="compare").seconds) == {"a"}


def test_the_commands_tell_and_write_nothing(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = 'random_seed = 1\ndata = { path = "t.csv" }\nrelease = { m = 1 }\nattribute = {}\n'
    model = 'model = { kind = "CART", order = ["v3"] }\n'
    sweep = '[sweep]\npriors = ["uniform", "marginal"]\n'
    (tmp_path / "s.toml").write_text(lines + model + sweep)
    before = sorted(p.name for p in tmp_path.iterdir())
    result = CliRunner().invoke(app, ["sweep", "s.toml", "--dry-run", "--max-memory", "4GiB"])
    assert result.exit_code == 0, result.output
    assert "stages: data, fit, release, sweep" in result.output
    assert "memory: up to" in result.output
    assert "CPU time: about" in result.output
    assert "trying 300 records: done" in result.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == before


# --- the pilot -------------------------------------------------------------------------------


def test_the_time_of_matching_files_is_told(brought):
    keys = {"known": ["v0"], "synthesized": ["v3"]}
    cost = estimate(parse_study(brought | {"attribute": None, "identification": keys}))
    assert list(cost.seconds) == ["identification risk"]
    assert cost.seconds["identification risk"] > 0


def test_the_time_of_files_audited_by_a_mixture_is_told(brought):
    model = {"kind": "DPMPM", "n_classes": 12, "draws": 10, "tune": 5, "chains": 2}
    cost = estimate(parse_study(brought | {"model": model}))
    assert set(cost.seconds) == {"fit", "attribute risk"}
    assert min(cost.seconds.values()) > 0


def test_the_time_of_files_audited_by_trees_is_told(brought):
    """Values of the files may stand in leaves of few records where no record has them."""
    cost = estimate(parse_study(brought))
    assert set(cost.seconds) == {"fit", "attribute risk"}


@pytest.mark.filterwarnings("ignore")
def test_the_time_of_reweighting_is_told_round_by_round(content, monkeypatch):
    reweight = {"until": 0.01, "rounds": 5}
    study = parse_study(content | {"reweight": reweight})
    took = {"reweighting": 3.0}
    monkeypatch.setattr(costs, "_one", lambda *_: took)
    assert estimate(study).seconds == {"reweighting": 3.0 * 6 / 2}
    monkeypatch.undo()
    assert estimate(study).seconds["reweighting"] > 0


# --- what fits hold --------------------------------------------------------------------------


def test_processes_of_workers_count(content, monkeypatch):
    monkeypatch.setattr(costs, "resident", lambda: 2**30)  # what is freed between is not theirs
    study = parse_study(content)
    threads, processes = (
        estimate(study, n_jobs=2, backend=b, time=False).peak for b in ("threads", "loky")
    )
    assert processes - threads > 2 * costs.PROGRAM


# --- numbers ---------------------------------------------------------------------------------


@pytest.fixture
def counted(tmp_path):
    """A study of a category, a number and a count; one count is by far the largest."""
    rng = np.random.default_rng(5)
    df = pd.DataFrame({"s": rng.choice(list("abc"), 400), "x": rng.normal(size=400).round(2)})
    df["k"] = rng.poisson(4.0, 400)
    df.loc[7, "k"] = 60
    df.to_csv(tmp_path / "n.csv", index=False)
    return {"data": {"path": str(tmp_path / "n.csv")}, "random_seed": 1, "release": {"m": 2}}


NORMAL = {"kind": "Regression", "formulas": {"x": "1 + s"}, "draws": 20, "tune": 20, "chains": 2}
TREES = {"kind": "CART", "order": ["x", "s"]}
COUNTS = {
    "kind": "PoissonMixture",
    "n_classes": 5,
    "draws": 20,
    "tune": 20,
    "chains": 2,
    "covariates": ["s"],
}
DEALT = COUNTS | {"synthesizer": "TCMM", "quantile": 0.99}
SECOND = {"knows_records": "second-largest", "largest": "k"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "columns", "attribute", "guesses", "cases"),
    [
        (NORMAL, ["s", "x"], {"guesses": {"x": {"additive": 1, "n": 7}}}, 7, 331),
        (TREES, ["s", "x", "k"], {"guesses": {"x": {"additive": 1, "n": 5}, "s": "levels"}}, 15, 0),
        pytest.param(
            *(COUNTS, ["s", "k"], {"guesses": {"k": {"bounds": [0, 90], "n": 91}}}, 91, 0),
            marks=pytest.mark.slow,
        ),
        (
            DEALT,
            ["s", "k"],
            {"intruder": SECOND, "guesses": {"k": {"bounds": [20, 99], "n": 80}}},
            80,
            1,
        ),
    ],
    ids=["regression", "trees", "counts", "the largest"],
)
def test_numbers_are_estimated_as_they_are_audited(
    counted, model, columns, attribute, guesses, cases
):
    """As many guesses, no fewer cases; the time has all its stages."""
    own = {"classes": "own"} if model is COUNTS else {}
    content = counted | {"model": model, "attribute": attribute}
    content |= {"data": counted["data"] | {"columns": columns}, "release": {"m": 2} | own}
    study = parse_study(content)
    cost = estimate(study)
    risk = run_study(study).attribute
    (work,) = works(study)
    assert work["guesses"] == risk.guesses.shape[0] == guesses
    assert work["cases"] >= risk.guesses.shape[1] and cases in (0, work["cases"])
    assert {"fit", "attribute risk"} <= set(cost.seconds)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_has_an_estimate(file):
    kinds = {"sweep_study": "sweep", "compare_study": "compare"}
    study, kind = read_study(file), kinds.get(file.stem, "audit")
    assert estimate(study, kind=kind, time=False).peak > 0
    assert min(min(work["guesses"] - 1, work["cases"]) for work in works(study, kind)) >= 1


def test_small_runs_are_told_as_they_go_on(content):
    told = []
    estimate(
        parse_study(content | {"compare": COMPARE}),
        kind="compare",
        progress=lambda *step: told.append(step),
    )
    names = [f"trying {n} records of {name}" for name in ("few", "all") for n in (100, 300)]
    assert {step for step, *_ in told} == {*names, "in all"}
    assert all((name, 1, 1) in told for name in names)
    whole = [done for step, done, _ in told if step == "in all"]
    assert whole == sorted(whole) and len({*whole}) > 4 and whole[-1] == 1_000


@pytest.mark.parametrize(("m", "draws"), [(3, 10), (80, 80)])
def test_small_runs_have_a_draw_for_each_data_set(monkeypatch, m, draws):
    content = {**STUDIES["fair"], "release": STUDIES["fair"]["release"] | {"m": m}}
    sizes = []
    monkeypatch.setattr(costs, "_one", lambda _, df, size, *more: sizes.append(size) or {})
    estimate(parse_study(content))
    assert sizes == [(60, draws), (100, draws), (300, max(30, m))]
