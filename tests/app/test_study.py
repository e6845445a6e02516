import inspect
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayes_risk as br
from bayes_risk._core.progress import Overall
from bayes_risk.app.run import audit, run_study
from bayes_risk.app.run import runner as run
from bayes_risk.app.run.audit import stages_of
from bayes_risk.app.study.declare import read_data
from bayes_risk.app.study.sections import AttributeSection, IdentificationSection
from bayes_risk.app.study.study import parse_study, read_study
from bayes_risk.demo import STUDIES
from tests.helpers.edge_results import LEVELS, MARK, attribute, confidential, study_result

ROOT = Path(__file__).resolve().parents[2]
KEYS: dict[str, Any] = {"known": ["age"], "synthesized": ["job"]}


def fair_with(**changes):
    """The demo study with some keys of some sections changed."""
    content = dict(STUDIES["fair"])
    for name, value in changes.items():
        both = isinstance(value, dict) and isinstance(content.get(name), dict)
        content[name] = content[name] | value if both else value
    return content


# --- the file --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "demo"), [("study.toml", "fair"), ("regression_study.toml", "visits")]
)
def test_the_examples_are_the_demo_studies(file, demo):
    study, ours = read_study(ROOT / "examples" / file), parse_study(STUDIES[demo])
    # the example names the evidence that is chosen where none is named
    said = {"evidence": study.attribute.evidence}
    assert said["evidence"] in (None, "predictive")
    made = {"classes": study.release.classes}  # likewise
    assert made["classes"] in (None, "new")
    update = {"attribute": ours.attribute.model_copy(update=said)}
    update["release"] = ours.release.model_copy(update=made)
    assert study == ours.model_copy(update=update)


@pytest.mark.parametrize(
    ("section", "function"),
    [
        (AttributeSection, br.attribute_risk),
        (IdentificationSection, br.identification_risk),
    ],
)
def test_defaults_are_those_of_the_library(section, function):
    ours = {k: f.default for k, f in section.model_fields.items() if not f.is_required()}
    theirs = {
        k: [] if p.default == () else p.default
        for k, p in inspect.signature(function).parameters.items()
        if p.default is not inspect.Parameter.empty
    }
    shared = (ours.keys() & theirs.keys()) - {"guesses", "targets"}  # said in other words
    assert shared
    assert {k: ours[k] for k in shared} == {k: theirs[k] for k in shared}


def test_several_problems_are_told_at_once():
    with pytest.raises(br.InputError) as caught:
        parse_study(fair_with(model={"draws": "0"}, release={"m": 0}), source="s.toml")
    assert str(caught.value).startswith("s.toml: ")
    assert str(caught.value).count("does not fit") == 2


def test_files_that_are_missing_or_no_toml_are_named(tmp_path):
    with pytest.raises(br.InputError, match="there is no study file .*nowhere.toml"):
        read_study(tmp_path / "nowhere.toml")
    (tmp_path / "bad.toml").write_text("title = \n")
    with pytest.raises(br.InputError, match=r"bad\.toml is not a readable TOML file: .*line 1"):
        read_study(tmp_path / "bad.toml")
    with pytest.raises(br.InputError, match="not a readable TOML file"):
        read_study(tmp_path)


def test_paths_count_from_the_folder_of_the_file(tmp_path):
    (tmp_path / "s.toml").write_text(
        '[data]\npath = "a.csv"\n[release]\nfiles = ["syn/1.csv"]\ncolumns = ["job"]\n'
        '[attribute]\n[output]\nfolder = "/elsewhere"\n'
    )
    study = read_study(tmp_path / "s.toml")
    assert study.data.path == tmp_path / "a.csv"
    assert study.release.files == [tmp_path / "syn" / "1.csv"]
    assert study.output.folder == Path("/elsewhere")
    assert study.with_output(Path("x")).output.folder == Path("x")


def test_studies_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        parse_study(STUDIES["fair"]).title = "other"


# --- running it ------------------------------------------------------------------------------


def small_study(tmp_path, files=1, **sections):
    """A study of a small CSV file and of releases made elsewhere."""
    df = confidential(60)
    df.to_csv(tmp_path / "a.csv", index_label="id")
    for l in range(1, files + 1):
        released = df.assign(job=np.roll(df["job"].to_numpy(), l)).iloc[::-1]
        released.to_csv(tmp_path / f"syn{l}.csv", index_label="id")
    content = {
        "random_seed": 1,
        "data": {"path": str(tmp_path / "a.csv"), "index": "id"},
        "release": {
            "files": [str(tmp_path / f"syn{l}.csv") for l in range(1, files + 1)],
            "columns": ["job"],
        },
        "identification": KEYS,
    }
    return parse_study(content | sections)


def test_identification_of_releases_made_elsewhere_needs_no_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(audit, "fit_model", lambda *_, **__: pytest.fail("fitted"))
    result = run_study(small_study(tmp_path, files=2))
    assert result.identification is not None and result.identification.m == 2
    assert result.attribute is None and result.diagnostics == {}
    assert "attribute risk was not measured" in result.verdict.assumptions
    matches = next(r for r in result.verdict.reasons if r.measure == "true match rate")
    assert matches.outcome == "within your thresholds"
    df = confidential(60)
    df = df.rename_axis("id")  # whose numbers are names
    direct = br.identification_risk(df, list(result.release.datasets), **KEYS)
    assert direct.summary().equals(result.identification.summary())


SMALL_FIT = {"n_classes": 3, "draws": 60, "tune": 60, "chains": 2}
DOUBT = "ignore::bayes_risk.UnreliableWeightsWarning"
BINDS = "ignore::bayes_risk.TruncationWarning"


@pytest.mark.check
@pytest.mark.filterwarnings(DOUBT, BINDS)
def test_a_whole_run_gives_the_same_numbers_for_any_number_of_workers(tmp_path):
    study = small_study(
        tmp_path,
        release={"m": 2, "columns": ["job"]},
        model=SMALL_FIT,
        attribute={"targets": 20, "refit_budget": 0},
    )
    stages = []
    one = run_study(study, n_jobs=1, progress=lambda stage, *_: stages.append(stage))
    two = run_study(study, n_jobs=2)
    assert one.attribute is not None and two.attribute is not None
    assert one.identification is not None and two.identification is not None
    assert one.attribute.records.equals(two.attribute.records)
    assert one.identification.records.equals(two.identification.records)
    assert len(one.attribute.index) == 20
    assert one.release.m == 2 and list(one.release.synthesized) == ["job"]
    assert {"fit", "evidence", "in all"} <= set(stages)
    assert {"data", "fit", "release", "attribute risk", "identification risk"} == set(one.seconds)
    assert one.diagnostics["chains"] == 2
    assert "Verdict:" in repr(one)


@pytest.mark.check
@pytest.mark.filterwarnings(DOUBT, BINDS)
def test_attribute_risk_of_releases_made_elsewhere_with_declared_levels(tmp_path):
    study = small_study(
        tmp_path,
        model=SMALL_FIT,
        attribute={"prior": {"truth_factor": 10}, "guesses": "hamming-2", "refit_budget": 0},
        data={
            "path": str(tmp_path / "a.csv"),
            "index": "id",
            "levels": {"job": [*LEVELS, "nobody"]},
        },
    )
    result = run_study(study)
    assert result.attribute is not None and result.attribute.n_guesses == 4
    assert result.attribute.records["prior"].to_numpy() == pytest.approx(10 / 13)


def test_a_seed_is_drawn_and_told_if_none_is_given(tmp_path):
    study = small_study(tmp_path).model_copy(update={"random_seed": None})
    assert run_study(study).random_seed != run_study(study).random_seed


def test_declared_text_keeps_its_zeros(tmp_path):
    (tmp_path / "a.csv").write_text("age,job\n01,a\n02,b\n")
    data = {"path": str(tmp_path / "a.csv"), "levels": {"age": ["01", "02", "03"]}}
    df, _ = read_data(parse_study({"data": data, "identification": KEYS}).data)
    assert df["age"].tolist() == ["01", "02"] and len(df["age"].cat.categories) == 3


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"identification": KEYS | {"known": ["agee"]}}, "'agee'"),
        ({"data": {"path": "nowhere.csv"}}, "there is no file 'nowhere.csv'"),
        (
            {"data": {"demo": "italy", "columns": ["AGE", "agee"]}},
            r"\[data\] columns names column 'agee'",
        ),
        ({"data": {"demo": "italy"}}, r"\[release\] columns names column 'job', which release 1"),
    ],
)
def test_data_that_do_not_fit_are_named(tmp_path, sections, message):
    with pytest.raises(br.InputError, match=message):
        run_study(small_study(tmp_path, **sections))


# --- its folder ------------------------------------------------------------------------------


def test_a_run_with_a_folder_writes_it(tmp_path):
    result = run_study(small_study(tmp_path).with_output(tmp_path / "out"))
    assert sorted(os.listdir(tmp_path / "out")) == [
        "manifest.json",
        "records.csv",
        "report.html",
        "risk.nc",
        "summary.json",
    ]
    assert result.study.output.folder == tmp_path / "out"
    held = [f.name for f in (tmp_path / "out").iterdir() if MARK.encode() in f.read_bytes()]
    assert held == []


def test_an_existing_folder_stops_the_run_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "result_of", lambda *_, **__: pytest.fail("worked"))
    (tmp_path / "out").mkdir()
    with pytest.raises(br.InputError, match="exists"):
        run_study(small_study(tmp_path).with_output(tmp_path / "out"))


@pytest.mark.parametrize("stage", ["result_of", "write_run"])
def test_an_interruption_leaves_nothing(tmp_path, monkeypatch, stage):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    study = small_study(tmp_path).with_output(tmp_path / "out")
    before = sorted(os.listdir(tmp_path))
    monkeypatch.setattr(run, stage, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_study(study)
    assert sorted(os.listdir(tmp_path)) == before


def test_an_interruption_leaves_the_older_folder(tmp_path, monkeypatch):
    study = small_study(tmp_path).with_output(tmp_path / "out")
    run_study(study)
    before = (tmp_path / "out" / "summary.json").read_bytes()

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(audit, "judge", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, overwrite=True)
    assert (tmp_path / "out" / "summary.json").read_bytes() == before


def test_results_can_be_written_by_hand(tmp_path):
    from bayes_risk.app.output import output_folder, write_run

    with output_folder(tmp_path / "out") as folder:
        write_run(folder, study_result(risk=attribute([0.9, 0.2])))
    assert (tmp_path / "out" / "report.html").exists()


# --- the run as a whole ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sections", "what", "stages"),
    [
        ({"attribute": {}}, "audit", ["data", "fit", "release", "attribute risk"]),
        (
            {"attribute": {}, "reweight": {"until": 0.5}, "output": {"folder": "out"}},
            "audit",
            ["data", "reweighting", "attribute risk", "report"],
        ),
        (
            {
                "release": {"files": ["z.csv"], "columns": ["PRO"]},
                "identification": {"known": [], "synthesized": ["PRO"]},
                "context": {"keys": ["AGE"]},
            },
            "audit",
            ["data", "identification risk", "context measures"],
        ),
        ({"attribute": {}, "sweep": {"m": [1]}}, "sweep", ["data", "fit", "release", "sweep"]),
        ({"attribute": {}, "compare": {"own": {}}}, "compare", ["data", "comparison"]),
    ],
    ids=["audit", "reweighting", "files", "sweep", "comparison"],
)
def test_stages_are_those_of_the_run(sections, what, stages):
    study = parse_study({"data": {"demo": "italy"}} | sections)
    assert [*stages_of(study, what)] == stages


def test_a_comparison_goes_on_with_its_candidates():
    told = []
    overall = Overall({"data": 2, "comparison": 200}, lambda *step: told.append(step))
    steps = [("comparison", 0, 1), ("a", 0, 2), ("b", 0, 2), ("a", 0.5, 2), ("a", 1, 2)]
    for step in [*steps, ("b", 2, 2), ("a", 2, 2)]:
        overall(*step)
    assert [step[1:] for step in told if step[0] == "comparison"][2:] == [
        (0, 4),
        (0.5, 4),
        (1, 4),
        (3, 4),
    ]
    whole = [done for step, done, _ in told if step == "in all"]
    assert whole == sorted(whole) and whole[-1] == 1_000
    assert whole[3] == int((2 + 200 / 8) / 202 * 1_000)


def test_the_whole_goes_on_with_each_step_and_never_back():
    told = []
    overall = Overall(
        {"data": 2, "fit": 30, "attribute risk": 40, "report": 2}, lambda *step: told.append(step)
    )
    steps = [("fit", 0, 1), ("fit", 5, 10), ("fit", 1, 10), ("fit", 1, 1)]
    steps += [("attribute risk", 0, 1), ("release 1", 7, 7), ("evidence", 1, 2)]
    steps += [("attribute risk", 1, 1), ("report", 1, 1)]
    for step in steps:
        overall(*step)
    assert [step for step in told if step[0] != "in all"] == steps
    found = [done for step, done, total in told if step == "in all" and total == 1_000]
    assert found == sorted(found) and found[0] == int(2 / 74 * 1_000) and found[-1] == 1_000
    assert found[1] == found[2] == int(17 / 74 * 1_000) and len(found) == len(steps)
