"""What to do next: steps that change the file, each a key of the study; followed, they help."""

import io
import re
import tomllib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.metrics import mutual_info_score

import bayes_risk as br
from bayes_risk._core.formats import number, percent
from bayes_risk.app.output import render_study
from bayes_risk.app.run import run_study
from bayes_risk.app.run.next_steps import (
    _coarser,
    _model,
    _related,
    _useful,
    finer_grids,
    lines_of_cure,
    next_steps,
)
from bayes_risk.app.study.declare import read_data
from bayes_risk.app.study.known_keys import KEYS
from bayes_risk.app.study.study import candidate_study, parse_study
from bayes_risk.data.coarsening import coarsened, share_unique
from bayes_risk.reporting.terminal import print_result
from bayes_risk.reporting.verdicts.doubts import CURES
from bayes_risk.reporting.verdicts.reason import GAINED, USE, Reason
from bayes_risk.reporting.verdicts.reasons import CERTAIN, MATCHES, TOGETHER
from bayes_risk.reporting.verdicts.verdict import judge

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


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_steps_name_keys_and_what_they_change_and_help(study, tmp_path):
    first = run_study(parse_study(study))
    assert first.verdict.outcome == "above your thresholds"
    steps = first.verdict.steps
    pasted = [tomllib.loads(step.lines) for step in steps]
    coarser = pasted[0]["data"]["coarsen"]
    assert {*coarser["income"]} >= {"unit", "keep"} and coarser["income"]["keep"] == [-8, 0]
    assert pasted[1:] == [
        {"model": {"kind": "DPMPM"}, "data": {"levels": {"age": "held", "income": "held"}}},
        {"release": {"m": 1}},
        {"data": {"columns": ["sex", "income"]}, "identification": {"known": ["sex"]}},
    ]
    assert steps[1].change == (
        "Use latent classes; remove [model] order, [model] missing_numbers, [identification] radius"
    )
    found = pd.read_csv(tmp_path / "people.csv")
    alone = (~found.duplicated(["age", "sex"], keep=False)).mean()
    assert f"{100 * alone:.1f} % of the records are unique in the keys now" in steps[0].effect
    assert steps[0].effect.startswith("income has ")  # no name is written in another way
    screen = Console(file=io.StringIO(), width=100)
    print_result(first, [], console=screen)
    said = screen.file.getvalue()
    assert "Next: [data] coarsen = { " in " ".join(said.split())
    assert "(3 more steps)" in " ".join(said.split())
    page = render_study(first)
    assert page.index("What to do next") < page.index("What the intruder is assumed")
    assert all(step.lines in page.replace("&#34;", '"') for step in steps)
    # as the page says
    study["data"] |= pasted[0]["data"] | pasted[1]["data"]
    study["model"] = pasted[1]["model"] | {"n_classes": 8, "draws": 50, "tune": 50}
    study["identification"].pop("radius")
    then = run_study(parse_study(study))
    before, after = (one.attribute.records["probability"].mean() for one in (first, then))
    assert (
        then.attribute.certain().to_numpy().sum() == 0 < first.attribute.certain().to_numpy().sum()
    )
    assert after < before / 3 and not any("kind" in s.lines for s in then.verdict.steps)


def test_keys_become_coarser_until_the_file_is_within(study):
    """The synthesised values match too, so that keys that alone would do may not be enough."""
    study["data"] |= {"coarsen": {"age": {"unit": 2}}, "levels": {"age": "held"}}
    table = pd.read_csv(study["data"]["path"])
    df = read_data(parse_study(study).data)[0]
    alone = share_unique(df[["age", "sex"]])
    study["thresholds"]["true_match_rate"] = 2 * alone
    for times in (1.5, 4.0):
        (step,) = (s for s in _coarser(parse_study(study), df, {MATCHES}, times))
        found = tomllib.loads(step.lines)["data"]["coarsen"]["age"]
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
    assert step.change.startswith("Leave level out of the file")
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
    said = " ".join(step.change + step.lines + step.effect for step in steps)
    assert "knows" not in said and "thresholds" not in said
    assert "known" not in " ".join(s.lines for s in steps if not s.change.startswith("Leave "))


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
    result = run_study(parse_study(study))
    found = result.verdict
    assert found.outcome == "inconclusive"
    wanted = {}  # the measures of each cure, cures with keys of another among those of it
    keys = {r.cure: tomllib.loads(lines_of_cure(r.cure))["attribute"] for r in found.deciding}
    for reason in found.deciding:
        own = keys[reason.cure]
        wider = [c for c in keys if own.items() < keys[c].items()]
        wanted.setdefault((wider or [reason.cure])[0], []).append(reason.measure)
    slow = any(r.measure.startswith(GAINED) and re.search(r"about (4|8|16) times", r.cure)
               for r in found.deciding)  # fmt: skip
    steps = {s.change: s for s in found.steps}
    assert {*steps} - {"Release one file"} == {*wanted} and len(steps) == len(found.steps)
    assert ("Release one file" in steps) == slow  # another file is audited sooner
    for step in (steps[cure] for cure in wanted):
        assert tomllib.loads(step.lines)["attribute"] == keys[step.change]
        effect = f"It settles: {'; '.join(wanted[step.change])}"
        if "target_mcse" in step.change:
            times = int(re.search(r"about (\d+) times as long", step.change)[1])
        else:
            times = int(step.change.split()[2]) / 30
            long = number(times, 1).removesuffix(".0")
            effect += f"; the attribute risk takes at most {long} times as long"
        assert step.effect == effect and step.times == times
    assert [s.times for s in found.steps] == sorted(s.times for s in found.steps)
    screen = Console(file=io.StringIO(), width=1_000)
    print_result(replace(result, seconds={"attribute risk": 90.0}), [], console=screen)
    first = found.steps[0].times
    cost = f"; attribute risk: up to {number(first * 1.5, 1)} min"
    assert (cost in screen.file.getvalue()) == (first > 1)


def opinion(*reasons):
    return replace(judge(None, None), reasons=reasons)


def test_the_same_change_is_one_step_and_a_file_of_no_use_is_made_anew_first(study):
    df = pd.read_csv(study["data"]["path"])
    exact = "target_mcse = 0.05 (about 16 times as long)"
    both = f"refit_budget = 2 and {exact}"
    reasons = [Reason(name, "inconclusive", "Perhaps.", cure) for name, cure in
               [("a", exact), ("b", exact), ("c", 'targets = 90 (drawn at random), or "all"'),
                ("d", "households are independent"), ("e", both)]]  # fmt: skip
    poor = Reason("utility", USE[0], "Of little use.")
    steps = next_steps(parse_study(study), df, opinion(*reasons, poor))
    assert [s.change.split(" ")[0] for s in steps] == ["Compare", "households", "targets",
                                                       "refit_budget"]  # fmt: skip
    gained = next_steps(parse_study(study), df, opinion(Reason(GAINED, "inconclusive", "", exact)))
    assert [s.times for s in gained] == [1, 1, 1, 16]
    assert [*map(tomllib.loads, (s.lines for s in gained[1:3]))] == [
        {"model": {"min_leaf": 10}}, {"release": {"m": 1}}]  # fmt: skip
    quick = Reason(GAINED, "inconclusive", "", exact.replace("16", "2"))
    assert [s.times for s in next_steps(parse_study(study), df, opinion(quick))] == [2]
    assert steps[-1].effect == "It settles: a; b; e" and steps[-1].times == 16
    assert steps[2].effect.endswith("takes at most 3 times as long")
    within = replace(opinion(), outcome="within your thresholds")
    (written,) = next_steps(parse_study(study), df, within)
    assert tomllib.loads(written.lines) == {"output": {"release": True}}
    kept = parse_study(study | {"output": {"release": True}})
    assert not next_steps(kept, df, within)
    alone = next_steps(parse_study(study), df, opinion(*reasons[:2]))
    assert [s.effect for s in alone] == ["It settles: a; b"]
    open_use = Reason("utility", USE[1], "Perhaps.", "permutations = 100 of utility")
    (step,) = next_steps(parse_study(study), df, opinion(open_use))
    assert tomllib.loads(step.lines) == {"utility": {"permutations": 100}}


def followed(study, step):
    """The study with the lines of a step, and without the keys that it removes."""
    found = {section: dict(keys) if isinstance(keys, dict) else keys
             for section, keys in study.items()}  # fmt: skip
    for section, keys in tomllib.loads(step.lines).items():
        found.setdefault(section, {}).update(keys)
    for section, key, name in re.findall(r"\[(\w+)\.(\w+)\] (\w+)", step.change):
        found[section] = found[section] | {key: dict(found[section][key])}
        del found[section][key][name]
    return found


@pytest.mark.parametrize("outcome", ["above your thresholds", "inconclusive"])
@pytest.mark.parametrize("measure", ["identifiers", "groups with one value", "unchanged columns"])
def test_a_column_that_decides_is_left_out_wherever_the_study_names_it(study, measure, outcome):
    """Its unit and its radius too; the study that is left runs."""
    study["data"] |= {"levels": {"sex": ["f", "m"]}, "coarsen": {"age": {"unit": 5}}}
    study["identification"]["radius"]["age"] = {"absolute": 5}
    study["attribute"]["by"] = ["sex", "age"]
    parsed = parse_study(study)
    df = read_data(parsed.data)[0]
    reason = Reason(measure, outcome, "Age does.", "leave it out", column="age")
    (step,) = next_steps(parsed, df, opinion(reason))[:1]
    assert step.change.startswith("Leave age out of the file, or synthesise it; remove [")
    assert ("public of [thresholds]" in step.effect) == (outcome == "inconclusive")
    then = followed(study, step)
    assert then["data"]["columns"] == ["sex", "income"] and then["attribute"]["by"] == ["sex"]
    assert then["identification"]["known"] == ["sex"]
    found = run_study(parse_study(then))
    assert "age" not in found.verdict.facts + " ".join(found.release.datasets[0].columns)


def test_a_group_with_one_value_has_a_step_that_settles_it(study):
    """The column that the group reveals is left out; of files that are there nothing is."""
    table = pd.read_csv(study["data"]["path"])
    table["area"] = [f"a{k % 6}" for k in range(N)]
    ill = (table["area"] == "a3") | (np.arange(N) % 11 == 0)
    table["ill"] = np.where(ill, "yes", "no")
    table.to_csv(study["data"]["path"], index=False)
    found = run_study(parse_study(study)).verdict
    (reason,) = [r for r in found.reasons if r.measure == "groups with one value"]
    parsed, df = parse_study(study), table
    (step,) = next_steps(parsed, df, opinion(reason))
    assert tomllib.loads(step.lines) == {"data": {"columns": ["age", "sex", "income", "area"]}}
    then = run_study(parse_study(followed(study, step))).verdict
    assert not [r for r in then.reasons if r.measure == "groups with one value"]
    study["release"] = {"files": ["z.csv", "z.csv"], "columns": ["income"]}
    (step,) = next_steps(parse_study(study), df, opinion(reason))
    assert not step.lines and step.change.startswith("Leave ill out")


def test_unchanged_columns_that_single_out_records_together_have_lines_that_settle_it(study):
    """Of files that are matched alone; numbers are coarsened, then columns are left out."""
    table = pd.read_csv(study["data"]["path"])
    table["area"] = rng.integers(40, size=N)
    table["job"] = rng.choice(list("abcdefgh"), N)
    table.to_csv(study["data"]["path"], index=False)
    del study["attribute"]
    study["identification"] |= {"known": ["sex"]}
    study["data"]["levels"] = {"area": "held"}
    study["data"]["coarsen"] = {"income": {"unit": 100}}
    coarsened_too = False
    for _ in range(4):
        found = run_study(parse_study(study))
        doubts = [r for r in found.verdict.reasons if r.measure == TOGETHER]
        if not doubts or doubts[0].outcome != "inconclusive":
            break
        df = read_data(parse_study(study).data)[0]
        steps = next_steps(parse_study(study), df, opinion(*doubts))
        assert all(step.lines and TOGETHER in step.effect for step in steps)
        assert all("public of [thresholds]" in step.effect for step in steps)
        coarsened_too |= "coarsen" in steps[0].lines
        study = followed(study, steps[0])
    assert coarsened_too and not doubts
    kept = read_data(parse_study(study).data)[0].drop(columns="income")
    assert share_unique(kept) <= 0.5 and {"sex", "age"} <= {*kept}
    study["release"] = {"files": ["z.csv", "z.csv"], "columns": ["income"]}
    of_files = next_steps(parse_study(study), table, opinion(Reason(TOGETHER, "inconclusive", "")))
    assert not any(step.lines for step in of_files)


def test_of_files_made_elsewhere_the_step_says_how_coarse(study):
    """They have no lines of the study: "Make numbers coarser" was all."""
    table = pd.read_csv(study["data"]["path"])
    study["release"] = {"files": ["z.csv", "z.csv"], "columns": ["income"]}
    certain = Reason("certain disclosure", "above your thresholds", "")
    step, *_ = next_steps(parse_study(study), table, opinion(certain))
    assert step.change.startswith("Make numbers coarser before the files are made: income to mult")
    assert not step.lines and re.search(r" multiples of [\d,]+", step.change)


def test_levels_of_a_column_that_is_left_out_are_refused_by_name(study):
    study["data"] |= {"columns": ["sex", "income"], "levels": {"age": "held"}}
    message = "levels names column 'age', which .data. columns leaves out; add it"
    with pytest.raises(br.InputError, match=message):
        parse_study(study)


def test_the_keys_that_cures_name_are_lines_of_a_study():
    """Of every cure with a key and its value: known keys, as TOML; other words give none."""
    settings = {"quarter": 0.05, "unreliable": 3, "chains": 8, "draws": 400, "targets": 120}
    settings = {name: str(value) for name, value in settings.items()}
    cures = {name: cure.format_map(Anything(settings)) for name, cure in CURES.items()}
    found = {name: tomllib.loads(lines_of_cure(cure)) for name, cure in cures.items()}
    assert found["unreliable"] == {"attribute": {"refit_budget": 3, "target_mcse": 0.05}}
    assert found["chains"] == {"model": {"chains": 8}}
    assert found["targets"] == {"attribute": {"targets": 120}}
    assert found["importance"] == {"attribute": {"evidence": "predictive"}}
    assert found["fit"] == found["population"] == {}
    for sections in found.values():
        for section, keys in sections.items():
            known = KEYS["model.DPMPM" if section == "model" else section]
            assert {*keys} <= {*known}
    named = {name for name, cure in cures.items() if re.search(r"\w = \S", cure)}
    assert {name for name, sections in found.items() if sections} >= named - {"model rejected"}


class Anything(dict):
    """A number for every name that a cure leaves open."""

    def __missing__(self, key):
        return "7"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("predictive", {"predictive": True, "n": 21}),
        ({"percent": 10, "n": 11}, {"percent": 10, "n": 21}),
        ({"income": "predictive"}, {"income": {"predictive": True, "n": 21}}),
        ({"income": {"additive": 500, "n": 5, "truth": "add"}, "sex": "levels"}, None),
    ],
)
def test_a_finer_grid_is_pasted_and_holds_the_values_of_the_coarser(study, given, wanted):
    made = parse_study(study | {"attribute": {"guesses": given}})
    table = pd.read_csv(study["data"]["path"])
    lines = tomllib.loads(finer_grids(made, table))["attribute"]["guesses"]
    assert lines == wanted or lines["income"] == {"additive": 500, "n": 9, "truth": "add"}
    assert parse_study(study | {"attribute": {"guesses": lines}}).attribute.guesses is not None


def test_files_made_elsewhere_are_left_out_and_no_key_of_a_model_changes(study, tmp_path):
    """What made them is only assumed; `m` does not go with `files`."""
    table = pd.read_csv(study["data"]["path"])
    table.to_csv("z.csv", index=False)
    study["release"] = {"files": ["z.csv", "z.csv"], "columns": ["income"]}
    steps = [*_model(parse_study(study), table, {GAINED, CERTAIN})]
    assert [(step.change, step.lines) for step in steps] == [("Release one of the files", "")]


def test_candidates_of_a_file_that_is_not_useful_enough_go_into_the_study(study):
    """As the step gives them, with the study around them."""
    df = pd.read_csv(study["data"]["path"])
    reason = Reason("utility", USE[0], "Of little use.")
    verdict = judge(None, None)
    (step,) = _useful(parse_study(study), df, replace(verdict, reasons=(reason,)))
    found = parse_study(study | tomllib.loads(step.lines))
    assert candidate_study(found, "other").model.min_leaf == parse_study(study).model.min_leaf // 2
    study["model"] = {"kind": "Marginals"}
    (step,) = _useful(parse_study(study), df, replace(verdict, reasons=(reason,)))
    found = parse_study(study | tomllib.loads(step.lines))
    assert candidate_study(found, "other").model.order == ["income"]


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
    of = dict(zip(["all files together", "file 1", "file 2"], [rate, *each], strict=True))
    ((which, row),) = [(k.split(", ")[1], v) for k, v in table.items() if "Records matched" in k]
    value, without, allowed, judged = row
    assert value == percent(of[which])
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
        assert f"the true value rises from {' to '.join(ends)} " in said
        once = (df["income"] == df["income"][label]).sum() == 1
        files = sum((z["income"] == df["income"][label]).any() for z in found.release.datasets)
        assert once == ("its value of income occurs once in the original" in said)
        assert (once and files > 0) == (f"and appears in {files} file" in said)
        assert (certain[label] and not once) == (
            "the release leaves only its true value of income possible" in said
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
