"""What to do next: steps that change the file, each a key of the study; followed, they help."""

import io
import json
import re
import tomllib

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.metrics import mutual_info_score

from bayes_risk._core.formats import number, percent
from bayes_risk.app.output import render_study
from bayes_risk.app.run import run_study
from bayes_risk.app.run.next_steps import _coarser, _related
from bayes_risk.app.study.declare import read_data
from bayes_risk.app.study.study import parse_study
from bayes_risk.data.coarsening import coarsened, share_unique
from bayes_risk.reporting.terminal import print_result
from bayes_risk.reporting.verdicts.reason import GAINED
from bayes_risk.reporting.verdicts.reasons import MATCHES

N = 240
rng = np.random.default_rng(8)


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A survey whose ages identify and whose incomes are nearly all different."""
    rng = np.random.default_rng(3)
    income = np.where(rng.random(N) < 0.4, 0, np.round(rng.lognormal(7, 0.8, N), -1))
    income[rng.random(N) < 0.05] = -8
    pd.DataFrame(
        {"age": rng.integers(18, 90, N), "sex": rng.choice(["f", "m"], N), "income": income}
    ).to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return {
        "random_seed": 5,
        "data": {"path": "people.csv"},
        "model": {"kind": "CART", "order": ["income"], "missing_numbers": {"income": -8}},
        "release": {"m": 2, "columns": ["income"]},
        "attribute": {"guesses": {"income": "levels"}, "targets": 30},
        "identification": {
            "known": ["age", "sex"],
            "synthesized": ["income"],
            "radius": {"income": {"absolute": 100}},
        },
        "thresholds": {"share_not_audited": 1.0},
    }


RISE = "Largest rise of the probability of the true values, {} prior"


def test_steps_name_keys_and_what_they_change_and_help(study, tmp_path):
    first = run_study(parse_study(study))
    assert first.verdict.outcome == "above your thresholds"
    steps = first.verdict.steps
    assert [s.key for s in steps] == ["[data] coarsen", "[model] kind", "[release] m", ""]
    assert "income = { unit = " in steps[0].change and "keep = [-8] }" in steps[0].change
    assert "age = { unit = " in steps[0].change
    assert steps[1].change == (
        '"DPMPM", with [data.levels] age and income = "held"; '
        "remove [model] order, [model] missing_numbers, [identification] radius"
    )
    found = pd.read_csv(tmp_path / "people.csv")
    alone = (~found.duplicated(["age", "sex"], keep=False)).mean()
    assert f"{100 * alone:.1f} % of the records are unique in the keys now" in steps[0].effect
    screen = Console(file=io.StringIO(), width=100)
    print_result(first, [], console=screen)
    said = screen.file.getvalue().replace("\n", " ").replace("  ", " ")
    assert "Next: [data] coarsen = {" in said and "} } (3 more steps) Under" in said
    page = render_study(first)
    assert page.index("What to do next") < page.index("What the intruder is assumed")
    # as the page says
    unit = json.loads(steps[0].change.split("age = { unit = ")[1].split(" ")[0])
    income = dict(
        part.split(" = ") for part in steps[0].change.split("{ ")[2].split(", keep")[0].split(", ")
    )
    how = {key: float(value) for key, value in income.items()} | {"keep": [-8]}
    study["data"]["coarsen"] = {"age": {"unit": unit}, "income": how}
    study["data"]["levels"] = {"age": "held", "income": "held"}
    study["model"] = {"kind": "DPMPM", "n_classes": 8, "draws": 50, "tune": 50}
    study["identification"].pop("radius")
    then = run_study(parse_study(study))
    before, after = (one.attribute.records["probability"].mean() for one in (first, then))
    assert (
        then.attribute.certain().to_numpy().sum() == 0 < first.attribute.certain().to_numpy().sum()
    )
    assert after < before / 3 and not any(s.key == "[model] kind" for s in then.verdict.steps)


def test_keys_become_coarser_until_the_file_is_within(study):
    """The synthesised values match too, so that keys that alone would do may not be enough."""
    study["data"] |= {"coarsen": {"age": {"unit": 2}}, "levels": {"age": "held"}}
    table = pd.read_csv(study["data"]["path"])
    df = read_data(parse_study(study).data)[0]
    alone = share_unique(df[["age", "sex"]])
    study["thresholds"]["true_match_rate"] = 2 * alone
    for times in (1.5, 4.0):
        (step,) = (s for s in _coarser(parse_study(study), df, {MATCHES}, times))
        found = tomllib.loads(f"x = {step.change}")["x"]["age"]
        made = df.assign(age=coarsened(table["age"], **found))
        assert found["unit"] > 2 and share_unique(made[["age", "sex"]]) <= alone / times


def test_a_column_of_as_many_values_as_records_explains_nothing(study):
    """Nor do infinite values or missing ones stop the step."""
    table = pd.read_csv(study["data"]["path"])
    table["name"] = [f"p{k}" for k in range(N)]
    table["twice"] = [f"q{k // 2}" for k in rng.permutation(N)]
    table["age"] = table["age"].astype(float).where(np.arange(N) % 7 > 0)
    table.loc[:40, "age"] = np.inf
    table["level"] = (table["income"] > 900) * 1
    (step,) = _related(parse_study(study), table, {GAINED})
    assert step.change.startswith("Leave level out")
    (step,) = _related(parse_study(study), table.drop(columns="level"), {GAINED})
    said = float(re.search(r"explains ([\d.]+) % of", step.effect)[1])
    assert said < 10


def test_the_unchanged_column_that_explains_most_is_named(study):
    table = pd.read_csv(study["data"]["path"])
    table["level"] = (table["income"] > 900) * 1 + (table["income"] > 2_000)
    table["sex"] = table["sex"].where(np.arange(N) % 9 > 0, "m")
    table.to_csv(study["data"]["path"], index=False)
    parsed = parse_study(study)
    df = read_data(parsed.data)[0]
    (step,) = _related(parsed, df, {GAINED})
    assert step.change.startswith("Leave level out of [data] columns")
    bands = pd.qcut(df["income"], 10, labels=False, duplicates="drop")
    chance = np.mean([mutual_info_score(bands, rng.permutation(df["level"])) for _ in range(2_000)])
    share = mutual_info_score(bands, df["level"]) - chance
    share /= mutual_info_score(bands, bands) - chance
    said = float(re.search(r"explains ([\d.]+) % of the entropy of income", step.effect)[1])
    assert said == pytest.approx(100 * share, abs=0.3)  # chance by 2,000 permutations
    assert not [*_related(parsed, df, {MATCHES})]


def test_none_is_told_to_assume_less(study):
    study["thresholds"]["true_match_rate"] = 0.0
    steps = run_study(parse_study(study)).verdict.steps
    said = " ".join(step.setting() + step.effect for step in steps)
    assert "known" not in said and "[thresholds]" not in said


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_a_doubt_alone_is_a_step(study):
    study["thresholds"] = {
        **dict.fromkeys(["attribute_gain", "true_match_rate", "certain_persons"], 1.0),
        **dict.fromkeys(["identical_records", "unique_values", "replicated_uniques"], 1.0),
        "attribute_log_bayes_factor": 99.0,
    }
    study["model"] = {"kind": "DPMPM", "n_classes": 4, "draws": 50, "tune": 50}
    study["data"]["levels"] = {"age": "held", "income": "held"}
    study["data"]["coarsen"] = {"age": {"unit": 20}, "income": {"unit": 2_000}}
    study["identification"].pop("radius")
    found = run_study(parse_study(study)).verdict
    assert found.outcome == "inconclusive"
    assert [s.change for s in found.steps] == [f"[attribute] {r.cure}" for r in found.deciding]
    more = [
        "16" if "target_mcse" in r.cure else number(int(r.cure.split()[2]) / 30, 1)
        for r in found.deciding
    ]
    assert [s.effect for s in found.steps if "times as long" in s.effect] == [
        f"It settles: {r.measure}; the attribute risk "
        f"{'may take' if n == '16' else 'takes at most'} {n} times as long"
        for r, n in zip(found.deciding, more, strict=True)
    ]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"sex": {"unit": 2}}, "holds no numbers"),
        ({"pay": {"unit": 2}}, "names column 'pay'"),
        ({"age": {"unit": 0}}, "a number above 0"),
        ({"age": 5}, "unit = 500"),
        ({"age": {"unit": 5, "least": 30, "most": 20}}, "not below most 20"),
    ],
)
def test_what_cannot_be_coarsened_is_named(study, how, message):
    study["data"]["coarsen"] = how
    with pytest.raises(Exception, match=message) as caught:
        run_study(parse_study(study))
    assert type(caught.value).__name__ == "InputError" and "coarsen" in str(caught.value)


def test_the_table_beside_the_verdict_is_that_of_the_results(study):
    found = run_study(parse_study(study))
    table = {row[0]: row[1:] for row in found.verdict.table}
    certain = int(found.attribute.certain().any(axis=1).sum())
    assert table["Records with a value disclosed with certainty"] == (
        f"{certain} of 30",
        "",
        "none",
        "above",
    )
    value, without, allowed, judged = table[RISE.format(found.verdict.prior or "flat")]
    records = found.attribute.records if not found.verdict.prior else None
    if records is not None:
        most = (records["probability"] - records["prior"]).idxmax()
        assert value == number(records.loc[most, "probability"])
        assert without == number(records.loc[most, "prior"])
    assert allowed == "+0.2" and judged == "above"
    rate = found.identification.pooled_K.mean()
    each = [found.identification.K[:, l].mean() for l in range(2)]
    alone = found.identification.baseline_true_matches / N
    value, without, allowed, judged = table["Records matched uniquely and correctly"]
    assert value in {percent(one) for one in (rate, *each)}
    assert (without, judged) == (percent(alone), "above")
    by_chance = re.fullmatch(r"5.0 % \+ (\S+ %) by chance", allowed).group(1)
    (said,) = [r.sentence for r in found.verdict.reasons if r.measure == "true match rate"]
    assert f"{value} of the" in said and f", {by_chance} by chance among" in said
    linked = [name for name in table if name.startswith("Persons shown beyond chance by")]
    judged = [r for r in found.verdict.reasons if r.figures and "Persons" in r.figures.what]
    within = [r for r in judged if r.outcome == "within your thresholds"]
    assert len(linked) == len(judged) - len(within) + 1
    assert f"(the worst of {len(within)} tests)" in " ".join(linked)
    page = render_study(found)
    for row in found.verdict.table:
        assert row[0].replace(" %", "\N{NO-BREAK SPACE}%") in page
    assert page.index("verdict-table") < page.index("What to do next") < page.index("<h3>Why</h3>")


def test_records_at_highest_risk_are_named_with_the_reason(study, tmp_path):
    found = run_study(parse_study(study))
    df = pd.read_csv(tmp_path / "people.csv")
    risk = found.attribute.priors.get(found.verdict.prior, found.attribute)
    table, certain = risk.records, found.attribute.certain()["income"]
    assert len(found.verdict.at_risk) == 3
    for said in found.verdict.at_risk:
        label = int(said.split(":")[0].removeprefix("Record "))
        gained = table["probability"] - table["prior"]
        assert gained[label] > 0 and (gained > gained[label]).sum() < 3
        ends = (number(table[end][label]) for end in ("prior", "probability"))
        assert f"values rises from {' to '.join(ends)} " in said
        once = (df["income"] == df["income"][label]).sum() == 1
        files = sum((z["income"] == df["income"][label]).any() for z in found.release.datasets)
        assert once == ("its income occurs once in the original" in said)
        assert (once and files > 0) == (f"and appears in {files} file" in said)
        assert (certain[label] and not once) == (
            "the release leaves only its true income possible" in said
        )
        assert str(int(df["income"][label])) not in said.replace(str(label), "")
    assert found.verdict.at_risk[0] in render_study(found)
    study["thresholds"] |= {"attribute_gain": 1.0, "attribute_log_bayes_factor": 99.0}
    assert len(run_study(parse_study(study)).verdict.at_risk) == 3  # above by other reasons


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_a_probability_that_was_sampled_stands_beside_its_error(study):
    study["model"] = {"kind": "DPMPM", "n_classes": 4, "draws": 50, "tune": 50}
    study["data"]["levels"] = {"age": "held", "income": "held"}
    study["data"]["coarsen"] = {"age": {"unit": 20}, "income": {"unit": 2_000}}
    study["identification"].pop("radius")
    found = run_study(parse_study(study)).verdict
    table = {row[0]: row[1] for row in found.table}
    assert found.at_risk and all(" +- " in said for said in found.at_risk)
    assert "+- " in table[RISE.format(found.prior or "flat")]
