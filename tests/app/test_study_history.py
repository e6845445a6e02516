"""``[history]``: a new release judged given those before it; numbers, screen, report, refusals."""

import hashlib
import io
import json
import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.app.output import differences, render_study, write_run
from bayes_risk.app.run import run_study
from bayes_risk.app.run.runner import estimate, identity
from bayes_risk.app.study.study import parse_study
from bayes_risk.reporting.terminal import print_result
from bayes_risk.reporting.verdicts.verdict import judge

N = 80
LABELS = ["before", "alone", "after", "added"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("history"), np.random.default_rng(4)
    table = pd.DataFrame({"id": np.arange(100, 100 + N), "area": rng.choice(["n", "s"], N)})
    table["job"] = np.where(rng.random(N) < 0.6, "clerk", rng.choice(["cook", "pilot"], N))
    table["w"] = 1 + np.arange(N) % 7
    table.to_csv(folder / "data.csv", index=False)
    table.assign(job=table["job"].replace("cook", "pilot")).to_csv(
        folder / "other.csv", index=False
    )
    return folder


def study(place, seed, earlier=None, *, prior=0.3, weights=None, **more):
    content = {
        "random_seed": seed,
        "data": {"path": place / "data.csv", "index": "id", "columns": ["area", "job", "w"]},
        "model": {"kind": "Marginals", "level_prior": prior, "weights": weights},
        "release": {"m": 2, "columns": ["job"]},
        "attribute": {},
        "output": {"confidential": True},
        **({} if earlier is None else {"history": {"evidence": [str(p) for p in earlier]}}),
    }
    return parse_study(content | more)


@pytest.fixture(scope="module")
def earlier(place):
    """Two years on disk: the folders' risk.nc."""
    paths = []
    for year in (2023, 2024):
        folder = place / str(year)
        folder.mkdir()
        write_run(folder, run_study(study(place, year, weights=None if year == 2023 else "w")))
        paths.append(folder / "risk.nc")
    return paths


@pytest.fixture(scope="module")
def result(place, earlier):
    return run_study(study(place, 2025, earlier, prior=1.0))


def test_the_risk_is_that_of_all_releases(result, earlier):
    each = [*map(br.open_evidence, earlier), result.evidence]
    expected = br.join(each)
    pd.testing.assert_frame_equal(result.attribute.records, expected.records)
    assert result.attribute.assumptions == expected.assumptions
    table = result.attribute.history.table
    assert list(table.index) == LABELS and result.attribute.history.releases == 2
    means = {
        "before": br.join(each[:2], prior="uniform"),
        "alone": each[2].risk("uniform"),
        "after": br.join(each, prior="uniform"),
    }
    for row, risk in means.items():
        mean = risk.records["probability"].mean()
        assert table.loc[row, "mean_probability"] == pytest.approx(mean, rel=1e-12)
    gained = table.loc["after"] - table.loc["before"]
    assert table.loc["added", "mean_probability"] == gained["mean_probability"]
    # the predictive prior is that of the new release's model, before it too
    own = each[2].risk("predictive").records["prior"].mean()
    assert table["baseline_predictive"].dropna().to_numpy() == pytest.approx(own, rel=1e-12)


def test_the_verdict_is_over_all(place, result, earlier):
    each = [*map(br.open_evidence, earlier), result.evidence]
    limits = study(place, 1).thresholds.made()
    whole, alone = (judge(br.join(e), None, limits) for e in (each, each[2:]))
    assert result.verdict.outcome == whole.outcome
    of = [[one.of_allowed for one in verdict.reasons] for verdict in (result.verdict, whole, alone)]
    assert of[0] == of[1] != of[2]
    assert "The releases are this one and the 2 before it." in result.verdict.reasons[0].sentence
    said = result.verdict.reasons[0].figures[0]
    assert said.endswith("of the true values, all releases, flat prior")


def test_screen_report_and_file(result, tmp_path):
    screen = io.StringIO()
    print_result(result, [], console=Console(file=screen, width=100))
    said = re.search(
        r"Mean before this release (\S+), alone (\S+), after it (\S+): adds (\S+)",
        screen.getvalue(),
    )
    behind = f"_{result.verdict.prior}" * bool(result.verdict.prior)
    table = result.attribute.history.table[f"mean_probability{behind}"]
    assert said and [float(x) for x in said.groups()[:3]] == pytest.approx(
        table.loc[LABELS[:3]].to_list(), abs=6e-4
    )
    page = render_study(result)
    for words in (
        *("What this release adds", "Before this release", "given the 2 released before"),
        "release 2: each column by itself, from its frequencies; parameters from a pseudo-",
        "posterior with survey weights from 0.25",
    ):
        assert words in page
    write_run(tmp_path, result)
    written = pd.read_csv(tmp_path / "history.csv", index_col=0)
    np.testing.assert_allclose(
        written["mean_probability"], result.attribute.history.table["mean_probability"]
    )
    back = br.open_result(tmp_path)
    pd.testing.assert_frame_equal(back.history.table, result.attribute.history.table)
    again = br.open_evidence(tmp_path)  # of this year alone
    pd.testing.assert_frame_equal(
        again.risk("uniform").records, result.evidence.risk("uniform").records
    )


def test_without_a_history_there_is_none(place):
    found = run_study(study(place, 2030))
    assert found.attribute.history is None
    assert "What this release adds" not in render_study(found)


def test_privacy_loss_and_groups_are_over_all(place, earlier):
    more = {"attribute": {"privacy_loss": True, "by": ["area"]}}
    found = run_study(study(place, 2025, earlier, prior=1.0, **more))
    total = found.attribute.log_evidence.sum(axis=0)
    spread = (total.max(axis=0) - total.min(axis=0))[found.attribute.case]
    np.testing.assert_allclose(found.privacy_loss.records["privacy_loss"], spread)
    assert found.attribute.groups is not None


def test_an_estimate_of_cost_leaves_it_aside(place, earlier):
    assert estimate(study(place, 2025, earlier)).peak > 0


def test_evidence_that_has_changed_is_another_run(place, earlier, tmp_path):
    """Its file is part of the identity of a run, named by itself or by the folder of its run."""
    folder = tmp_path / "2024"
    folder.mkdir()
    (folder / "risk.nc").write_bytes(earlier[1].read_bytes())
    for named in (folder, folder / "risk.nc"):
        begun = identity(study(place, 1, [named]), "audit")
        assert not differences(begun, identity(study(place, 1, [named]), "audit"))
        whole = (folder / "risk.nc").read_bytes()
        (folder / "risk.nc").write_bytes(earlier[0].read_bytes())
        (said,) = differences(begun, identity(study(place, 1, [named]), "audit"))
        assert "risk.nc" in said
        (folder / "risk.nc").write_bytes(whole)


def refused(study, match):
    with pytest.raises(InputError, match=match):
        run_study(study)


def test_files_that_cannot_be_read(place, earlier, tmp_path):
    refused(study(place, 1, [tmp_path / "2020.nc"]), r"\[history\] there is no file")
    (tmp_path / "text.nc").write_text("text")
    refused(study(place, 1, [tmp_path / "text.nc"]), "is damaged, or no NetCDF file")
    shut = study(place, 5, output={"confidential": False})
    write_run(tmp_path, run_study(shut))
    refused(study(place, 1, [tmp_path / "risk.nc"]), "confidential = true")


def test_what_cannot_be_joined(place, earlier):
    refused(study(place, 1, [earlier[0], earlier[0]]), "evidence 2 is data set 1 of evidence 1")
    other = {"data": {"path": place / "other.csv", "index": "id"}}
    refused(
        study(place, 1, earlier, **other),
        r"evidence 1 is of another table than the new release: column 'job' differs in \d+ of 80",
    )
    refused(study(place, 2024, earlier), "adds nothing; leave it out")


def test_tables_of_other_years_if_the_study_says_so(place, earlier):
    other = {
        "data": {"path": place / "other.csv", "index": "id"},
        "history": {"evidence": [str(p) for p in earlier], "same_table": False},
    }
    found = run_study(study(place, 9, prior=1.0, **other)).attribute
    then, now = (pd.read_csv(place / f"{name}.csv", index_col="id") for name in ("data", "other"))
    assert list(found.index) == list(then.index[then["job"] == now["job"]])


def test_values_that_change_over_waves(place, earlier, tmp_path):
    """A panel, or a table on disk: the risk of `join`, of records whose values changed too."""
    moves = pd.DataFrame(
        [[0.8, 0.1, 0.1], [0.1, 0.5, 0.4], [0.2, 0.2, 0.6]],
        pd.Index(["clerk", "cook", "pilot"], name="job"),
        ["clerk", "cook", "pilot"],
    )
    moves.to_csv(tmp_path / "moves.csv")
    other = {"data": {"path": place / "changed.csv", "index": "id"}}
    table = pd.read_csv(place / "data.csv")
    table.loc[::7, "job"] = "pilot"
    table.to_csv(place / "changed.csv", index=False)
    by_file = {"job": str(tmp_path / "moves.csv")}
    for given, made in (("panel", "panel"), (by_file, moves)):
        how = {"evidence": [str(p) for p in earlier[1:]], "transition": given}
        result = run_study(study(place, 9, prior=1.0, history=how, **other))
        each = [br.open_evidence(earlier[1]), result.evidence]
        expected = br.join(each, transition=made)
        pd.testing.assert_frame_equal(result.attribute.records, expected.records)
        assert len(expected.records) == N
        rows = result.attribute.history.table
        # the last year's values before its release: what the chain expects of them
        assert rows.loc["before", "baseline"] == pytest.approx(rows.loc["after", "baseline"])
    (tmp_path / "2025").mkdir()
    write_run(tmp_path / "2025", result)
    read = json.loads((tmp_path / "2025" / "manifest.json").read_text())["files"]
    found = {file["role"]: file for file in read}
    for role, path in (("evidence 1", earlier[1]), ("transition", tmp_path / "moves.csv")):
        assert found[role]["name"] == path.name and found[role]["rows"] is None
        assert found[role]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert "moves.csv" in (tmp_path / "2025" / "report.html").read_text()
    moves.assign(cook=0.9).to_csv(tmp_path / "moves.csv")
    wrong = study(place, 9, history=how, **other)
    refused(wrong, r"\[history\] transition.*of 'job' from wave 1 to wave 2 has 3 rows whose")


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"attribute": None, "identification": {"known": ["area"], "synthesized": ["job"]}},
         r"\[history\] needs \[attribute\], to whose evidence it adds"),
        ({"sweep": {"priors": ["uniform", "marginal"]}}, r"\[history\] does not go with \[sweep\]"),
        ({"compare": {"a": {"release": {"m": 1}}}}, r"\[history\] does not go with \[compare\]"),
        ({"attribute": {"intruder": {"in_file": 0.5}}}, r"in_file does not go with \[history"),
        ({"history": {"evidence": []}}, "evidence"),
        ({"history": {}}, "evidence"),
    ],
)  # fmt: skip
def test_sections_that_do_not_go_together(place, earlier, more, match):
    with pytest.raises(InputError, match=match):
        study(place, 1, earlier, **more)
