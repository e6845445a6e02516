"""Trees that synthpop kept: where rows fall, evidence by enumeration, real objects, refusals."""

import copy
import gzip
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.app.run import run_study
from bayes_risk.app.run.runner import estimate
from bayes_risk.app.study.declare import fit_model
from bayes_risk.app.study.study import parse_study, read_study
from bayes_risk.data.rpart_file import SynthpopModels, read_models
from bayes_risk.models.trees.rpart_import import TreeColumns, imported
from tests.helpers.against import each, gaps
from tests.helpers.fits import encoded, offered

LEAF = {"var": "<leaf>", "ncompete": 0, "nsurrogate": 0}
PEOPLE = pd.DataFrame(
    {
        "sex": list("ffffmmmm"),
        "age": [20, 30, 40, 50, 25, 35, 45, 55],
        "job": list("aabcbcca"),
        "pay": [10, 10, None, -8, 30, 20, None, 30],
        "own": list("nynynyny"),
    }
)
SEXES, JOBS, APART = ["f", "m"], ["a", "b", "c"], ["-8", "999", "NAtemp"]


def frame(*nodes):
    """Rows of a frame: number, variable or None, records, competitors, surrogates."""
    return [
        {"node": k, "n": n, "yval": 1}
        | (LEAF if var is None else {"var": var, "ncompete": c, "nsurrogate": s})
        for k, var, n, c, s in nodes
    ]


def split(var, ncat, index):
    return {"var": var, "count": 0, "ncat": ncat, "improve": 1.0, "index": index, "adj": 0}


def tree(nodes, splits=None, csplit=None, levels=None, outcome=None):
    return {
        "kind": "rpart",
        "method": "class" if outcome else "anova",
        "frame": frame(*nodes),
        "splits": splits,
        "csplit": csplit,
        "xlevels": levels,
        "ylevels": outcome,
    }


JOB = tree(
    [(1, "sex", 8, 0, 0), (2, None, 4, 0, 0), (3, None, 4, 0, 0)],
    [split("sex", 2, 1)],
    [[3, 1]],
    {"sex": SEXES},
    JOBS,
)
WHICH = tree(
    [(1, "job", 8, 1, 0), (2, None, 3, 0, 0), (3, None, 5, 0, 0)],
    [split("job", 3, 2), split("sex", 2, 1)],
    [[1, 3, 2], [1, 3, 3]],
    {"sex": SEXES, "job": JOBS},
    APART,
)
# +1: below the cut goes right; the second and third rows, a competitor and a surrogate, must not
PAY = tree(
    [(1, "age", 5, 1, 1), (2, None, 3, 0, 0), (3, None, 2, 0, 0)],
    [split("age", 1, 27.5), split("age", -1, 50.0), split("sex", 2, 1)],
    [[1, 3]],
    {"sex": SEXES},
)
OWN = tree(
    [
        (1, "pay.NA", 8, 0, 0),
        (2, None, 3, 0, 0),
        (3, "pay.0", 5, 0, 0),
        (6, None, 2, 0, 0),
        (7, None, 3, 0, 0),
    ],
    [split("pay.NA", 3, 1), split("pay.0", -1, 15.0)],
    [[1, 3, 1]],
    {"pay.NA": APART},
    ["n", "y"],
)
# of the second data set, whose trees differ
ALONE = tree([(1, None, 8, 0, 0)], outcome=JOBS)
YOUNG = tree(
    [(1, "age", 5, 0, 0), (2, None, 4, 0, 0), (3, None, 1, 0, 0)], [split("age", -1, 40.0)]
)
CONTENT = {
    "m": 2,
    "method": {"sex": "", "age": "", "job": "cart", "pay": "cart", "own": "cart"},
    "visit_sequence": ["sex", "age", "job", "pay", "own"],
    "proper": False,
    "smoothing": ["", "", "", "", ""],
    "models": [
        {"sex": None, "age": None, "job": JOB, "pay": PAY, "own": OWN, "pay.NA": WHICH},
        {"job": ALONE, "pay": YOUNG, "own": {"kind": "sample"}, "pay.NA": WHICH},
    ],
}
MODELS = SynthpopModels.of(CONTENT)
STAND_IN = {"pay": -9}


def fitted(content=CONTENT, df=PEOPLE, **options):
    models = SynthpopModels.of(content)
    return br.models.CART.from_rpart(models, df, missing_numbers=STAND_IN, **options)


# --- enumeration -----------------------------------------------------------------------------


def seen(row, name):
    """What a tree looks at in a row of values."""
    pay = row["pay"]
    if name == "pay.0":
        return 0 if pay in (-8, -9) else pay
    if name == "pay.NA":
        return {-8: "-8", -9: "NAtemp"}.get(pay, "999")
    return row[name]


def leaf_by_hand(grown, row):
    """Leaf of a row, by primary splits alone."""
    node, first, starts = 1, 0, {}
    for at in grown["frame"]:
        starts[at["node"]] = first
        first += 0 if at["var"] == "<leaf>" else 1 + at["ncompete"] + at["nsurrogate"]
    inner = {at["node"] for at in grown["frame"] if at["var"] != "<leaf>"}
    while node in inner:
        rule = grown["splits"][starts[node]]
        value = seen(row, rule["var"])
        if rule["ncat"] < 2:
            left = (value < rule["index"]) == (rule["ncat"] == -1)
        else:
            levels = grown["xlevels"][rule["var"]]
            left = grown["csplit"][rule["index"] - 1][levels.index(value)] == 1
        node = 2 * node if left else 2 * node + 1
    return node


def concerned(name, rows):
    """The records that a tree concerns."""
    return [row for row in rows if name != "pay" or row["pay"] not in (-8, -9)]


def log_p(rows, releases, floor=0.0):
    """log p(Z | y): for each released value its share in the leaf, one after another."""
    total = 0.0
    for models, release in zip(CONTENT["models"], releases, strict=True):
        for name in ("job", "pay.NA", "pay", "own"):
            model, V = models[name], {"job": 3, "own": 2, "pay.NA": 3, "pay": 5}[name]

            def leaf(row, model=model):
                return leaf_by_hand(model, row) if "frame" in model else 1

            leaves = {}
            for row in concerned(name, rows):
                leaves.setdefault(leaf(row), []).append(seen(row, name))
            for row in concerned(name, release):
                held = leaves.get(leaf(row), [])
                share = held.count(seen(row, name)) / len(held) if held else 1 / V
                p = floor + (1 - floor * V) * share if held else share * (floor > 0)
                total += np.log(p) if p > 0 else -np.inf
    return total


GUESSES = {
    "job": br.Levels(),
    "pay": br.Grid(values=[-9, -8, 10, 20, 30]),
    "own": br.Levels(),
}


@pytest.mark.parametrize("floor", [None, 0.01])
def test_evidence_is_enumeration(floor):
    release = fitted().synthesize(m=2, random_seed=3)
    shown = [t.fillna(-9).to_dict("records") for t in release.datasets]
    assert {row["pay"] for rows in shown for row in rows} <= {-9, -8, 10, 20, 30}
    fit = fitted(floor=floor)
    risk = br.attribute_risk(fit, release, guesses=GUESSES, evidence="exact")
    assert risk.n_guesses == 30
    rows = PEOPLE.fillna(-9).to_dict("records")

    def exact(i, values):
        job, pay, own = values
        guess = {"job": JOBS[int(job)], "pay": pay, "own": "ny"[int(own)]}
        return log_p([*rows[:i], rows[i] | guess, *rows[i + 1 :]], shown, floor or 0.0)

    gap, _ = gaps(risk, each(exact))
    assert np.abs(gap).max() < 1e-9
    assert floor is None or np.isfinite(risk.log_evidence).all()


def test_every_value_that_the_trees_draw_lies_in_its_leaf():
    fit = fitted()
    release = fit.synthesize(m=2, random_seed=5)
    found = fit.report_mismatch(release)
    assert found["column"].tolist() == ["job", "pay", "own"] * 2
    assert (found["elsewhere"] == 0).all() and (found["records"] == 8).all()
    assert all((t["pay"].isna() | (t["pay"] == -8)).any() for t in release.datasets)


def test_mismatch_counts_released_values_that_no_record_of_the_leaf_holds():
    fit = fitted()
    tables = [PEOPLE.copy(), PEOPLE.copy()]
    tables[0].loc[[1, 2], "job"] = "c", "a"  # sex f holds a, b and c
    tables[0].loc[4, "pay"] = 30.0
    tables[0].loc[0, "pay"] = 20.0  # age 20: the leaf holds 10 and 30
    release = br.Release(datasets=tables, synthesized=["job", "pay", "own"])
    found = fit.report_mismatch(release).set_index(["release", "column"])["elsewhere"]
    assert found[1, "job"] == 0 and found[1, "pay"] >= 1 and found[2].sum() == 0
    with pytest.raises(br.InputError, match=r"'pay'.*fit.report_mismatch\(release\)"):
        br.attribute_risk(fit, release, guesses=GUESSES)


def test_what_is_said_of_the_mechanism():
    fit = fitted()
    release = fit.synthesize(m=2, random_seed=3)
    assert fit.mechanism(encoded(fit, release)).startswith(
        "synthpop's own trees and the order job, pay, own"
    )
    assert offered(fit, release) == {"exact"}
    assert "floor" not in fit.mechanism(encoded(fit, release)) and "assumed" not in fit.mechanism(
        encoded(fit, release)
    )
    grown = br.models.CART(["job", "own"], bootstrap="none", min_leaf=2, floor=0.01)
    there = grown.fit(PEOPLE.drop(columns="pay"))
    said = there.mechanism(encoded(there, br.Release(datasets=[PEOPLE], synthesized=["job"])))
    assert "order job are assumed, not known to have made the files" in said


def test_files_whose_trees_are_gone_have_a_posterior_under_a_floor():
    """Against p(v) = f + (1 - f V) n_v / N on the grown tree, guess by guess."""
    rng = np.random.default_rng(2)
    df = pd.DataFrame({"x": rng.choice(list("ab"), 30), "w": rng.integers(0, 8, 30)})
    other = df.assign(w=rng.permutation(df["w"]))
    release = br.Release(datasets=[other], synthesized=["w"])
    grid = {"w": br.Grid(bounds=(0, 7), n=8)}
    plain = br.models.CART(["w"], bootstrap="none", min_leaf=3)
    fit = br.models.CART(["w"], bootstrap="none", min_leaf=3, floor=0.02).fit(df, random_seed=1)
    with pytest.raises(br.InputError, match="or give the trees a floor"):
        odd = other.assign(w=other["w"].where(other.index > 0, 9))
        br.attribute_risk(
            plain.fit(df, random_seed=1),
            br.Release(datasets=[odd], synthesized=["w"]),
            guesses=grid,
        )
    risk = br.attribute_risk(fit, release, guesses=grid, evidence="exact")
    t, z = fit.trees[0], other["w"].to_numpy()
    leaf, shown = t.leaf(fit.microdata.codes), t.node(release.codes(fit.microdata, 0))

    def exact(i, guess):
        y = df["w"].to_numpy().copy()
        y[i] = guess[0]
        shares = [np.mean(y[leaf == k] == v) for k, v in zip(shown, z, strict=True)]
        return np.log(0.02 + (1 - 0.02 * 8) * np.array(shares)).sum()

    gap, _ = gaps(risk, each(exact), range(0, 30, 7))
    assert np.abs(gap).max() < 1e-9 and np.isfinite(risk.log_evidence).all()
    refit = br.attribute_risk(fit, release, guesses=grid, targets=[0, 7], evidence="refit")
    assert np.isfinite(refit.log_evidence).all()


def test_a_release_of_trees_grown_here_has_no_mismatch_where_rows_stay_above_leaves():
    rng = np.random.default_rng(17)
    df = pd.DataFrame({"w": rng.normal(size=40), "a": rng.choice(list("uvwxyz"), 40)})
    df["b"], df["k"] = rng.choice(list("pqrs"), 40), rng.normal(size=40)
    fit = br.models.CART(["a", "b", "k"], min_leaf=2, smoothing="kde").fit(df, random_seed=1)
    release = fit.synthesize(m=3, random_seed=3)
    found = fit.report_mismatch(release)
    assert found["column"].tolist() == ["a", "b"] * 3 and (found["elsewhere"] == 0).all()
    another = br.models.CART(["a", "b", "k"], min_leaf=2)
    other = another.fit(df.assign(a=df["a"][::-1].to_numpy()), random_seed=1)
    assert (other.report_mismatch(release)["elsewhere"] > 0).any()


# --- rpart's rules ---------------------------------------------------------------------------


def test_levels_that_a_node_does_not_hold_go_by_surrogates_then_with_the_majority():
    df = pd.DataFrame({"c": list("uuvvvw"), "x": [1.0, 1, 5, 5, 5, 9], "y": [0.0, 0, 1, 1, 1, 1]})
    data = br.Microdata.from_frame(df, numbers=["x", "y"])

    def node_of(c, x, **changes):
        grown = (
            tree(
                [
                    (1, "x", 6, 0, 0),
                    (2, "c", 5, 0, 1),
                    (4, None, 2, 0, 0),
                    (5, None, 3, 0, 0),
                    (3, None, 1, 0, 0),
                ],
                [split("x", -1, 7.0), split("c", 3, 1), split("x", -1, 3.0)],
                [[1, 3, 2]],
                {"c": ["u", "v", "w"]},
            )
            | changes
        )
        content = CONTENT | {
            "method": {"y": "cart"},
            "visit_sequence": ["y"],
            "models": {"y": grown},
        }
        trees = SynthpopModels.of(content).trees[0]
        placed = imported(trees["y"], "y", TreeColumns(data, trees), "release 1")
        codes = data.encode(pd.DataFrame({"c": [c], "x": [x], "y": [0.0]}), "it")
        return placed.leaf(codes)[0]

    assert node_of("u", 6.0) == 2 and node_of("v", 1.0) == 3
    assert node_of("w", 1.0) == 2 and node_of("w", 6.0) == 3  # by the surrogate
    no_surrogates = {"usesurrogate": 0}
    assert node_of("w", 1.0, **no_surrogates) == 1  # told no side
    assert node_of("w", 9.0) == 4


def test_data_sets_share_equal_trees_and_others_have_their_own():
    fit = fitted()
    first, second = fit.of_release
    assert [t.name for t in first] == ["job", "pay.NA", "pay", "own"]
    assert first[0].n_leaves == 2 and second[0].n_leaves == 1
    same = fitted(CONTENT | {"models": [CONTENT["models"][0]] * 2})
    assert same.of_release[0] is same.of_release[1]
    assert repr(fit).startswith("CARTFit: 8 records; job (2 leaves), pay (2 leaves)")


def test_ordinary_attributes_of_r_are_read():
    """A vector of one value is written as the value; models of one data set without a list."""
    content = copy.deepcopy(CONTENT)
    content["models"] = content["models"][0]
    content["smoothing"] = dict.fromkeys(content["method"], "")
    models = SynthpopModels.of(content)
    assert models.m == 1 and models.synthesized == ["job", "pay", "own"]
    assert models.trees[0]["job"].rules[0][0].sides == (3, 1)


# --- refusals --------------------------------------------------------------------------------


def with_models(**changes):
    return CONTENT | {"models": [one | changes for one in CONTENT["models"]]}


BROKEN = JOB | {"splits": [split("age", -1, 3.0)]}
STRANGE = JOB | {
    "splits": [split("height", -1, 3.0)],
    "frame": frame((1, "height", 8, 0, 0), (2, None, 4, 0, 0), (3, None, 4, 0, 0)),
}
FEWER = JOB | {"frame": frame((1, "sex", 9, 0, 0), (2, None, 5, 0, 0), (3, None, 4, 0, 0))}
NUMBER = PEOPLE.assign(sex=[0, 0, 0, 0, 1, 1, 1, 1])
UNREAD = PEOPLE.assign(pay=[10.0, 10, 10, -8, 30, 20, 20, 30])


@pytest.mark.parametrize(
    ("content", "df", "message"),
    [
        ({"coefficients": [1.0]}, PEOPLE, "JSON of another object"),
        ([1, 2], PEOPLE, "JSON of another object"),
        (CONTENT | {"models": None}, PEOPLE, r"holds no models: call syn\(..., models = TRUE\)"),
        (with_models(job=BROKEN), PEOPLE, "'job' of release 1 is not a complete tree of rpart"),
        (with_models(job=JOB | {"frame": [{}]}), PEOPLE, "not a complete tree of rpart"),
        (with_models(job=STRANGE), PEOPLE, "know a column 'height' that the original lacks"),
        (CONTENT, PEOPLE.drop(columns="own"), "'own' that the original lacks"),
        (with_models(job=FEWER), PEOPLE, "'job' was grown on other records: 2 of its 3 nodes"),
        (CONTENT, NUMBER, "'sex' is a category in the trees and a number in the original"),
        (CONTENT, PEOPLE.assign(age=list("abcdefgh")), "'age' is a number in the trees"),
        (with_models(job={"kind": "ctree"}), PEOPLE, "'job' was made by 'ctree', which is "
        "not a tree"),
        (with_models(job=None), PEOPLE, "release 1 hold no tree of column 'job'"),
        (CONTENT | {"proper": True}, PEOPLE, "proper = TRUE: each tree was grown on a bootstrap"),
        (CONTENT | {"smoothing": ["", "", "", "spline", ""]}, PEOPLE, r"'pay' was smoothed \('spl"),
        (CONTENT | {"rules": {"own": "age < 18"}}, PEOPLE, "column 'own' was made under rules"),
    ],
)  # fmt: skip
def test_models_that_do_not_fit_are_named(content, df, message):
    with pytest.raises(br.InputError, match=message):
        fitted(content, df)


def test_what_stands_for_missing_values_is_asked_for():
    with pytest.raises(br.InputError, match=r"'pay' had missing values .*missing_numbers="):
        br.models.CART.from_rpart(MODELS, PEOPLE.fillna(-9))
    with pytest.raises(br.InputError, match="'pay' -8 for a missing value, which some record has"):
        br.models.CART.from_rpart(MODELS, PEOPLE, missing_numbers={"pay": -8})
    with pytest.raises(br.InputError, match="names column 'job'"):
        br.models.CART.from_rpart(MODELS, PEOPLE, missing_numbers={"job": -8})
    with pytest.raises(br.InputError, match="models is a NoneType; give what was read"):
        br.models.CART.from_rpart(None, PEOPLE)


def test_another_number_of_data_sets_is_named(tmp_path):
    fit = fitted()
    one = br.Release(datasets=[PEOPLE], synthesized=["job"])
    with pytest.raises(br.InputError, match="those of 2 data sets and there are 1"):
        br.attribute_risk(fit, one, guesses={"job": br.Levels()})
    path = written(tmp_path)
    PEOPLE.to_csv(tmp_path / "syn_1.csv", index=False, na_rep="NA")
    with pytest.raises(br.InputError, match="models of 2 data sets and there are 1 files"):
        br.read_synthpop([tmp_path / "syn_1.csv"], original=PEOPLE, models=path)


def test_kept_trees_and_those_with_a_floor_have_plain_draws_alone():
    floored = br.models.CART(["job"], bootstrap="none", floor=0.1).fit(PEOPLE.drop(columns="pay"))
    for fit in (fitted(), floored):
        assert fit.parameters == ("plug-in",)
    with pytest.raises(br.InputError, match="it offers 'plug-in'"):
        fitted().synthesize(2, parameters="shared")
    elsewhere = br.Release(
        datasets=[PEOPLE.drop(columns="pay")], synthesized=["job"], parameters="independent"
    )
    with pytest.raises(br.InputError, match=r"has no evidence for that; it has for 'plug-in'"):
        br.attribute_risk(floored, elsewhere, guesses={"job": br.Levels()})


def test_intruders_who_know_some_records_are_refused():
    fit = fitted()
    release = fit.synthesize(m=2, random_seed=3)
    known = br.Intruder(knows_records=PEOPLE.index[:4])
    with pytest.raises(br.InputError, match="trees that were not grown here, records that are not"):
        br.attribute_risk(fit, release, guesses=GUESSES, targets=[0], intruder=known)


def test_a_floor_has_its_limits():
    with pytest.raises(br.InputError, match="floor=1 is a probability; give less than 1"):
        br.models.CART(["job"], bootstrap="none", floor=1)
    with pytest.raises(br.InputError, match=r"floor=0.1 is for plain draws; give bootstrap='none'"):
        br.models.CART(["job"], floor=0.1)
    model = br.models.CART(["job"], bootstrap="none", floor=0.4)
    fit = model.fit(PEOPLE.drop(columns="pay"))
    release = br.Release(datasets=[PEOPLE.drop(columns="pay")], synthesized=["job"])
    with pytest.raises(br.InputError, match="for each of the 3 values of column 'job' leaves noth"):
        br.attribute_risk(fit, release, guesses={"job": br.Levels()})
    with pytest.raises(br.InputError, match="leave it out to synthesise"):
        fit.synthesize(m=1)
    with pytest.raises(br.InputError, match="floor=0.4 is not offered with weights"):
        model.fit(PEOPLE.drop(columns="pay"), weights=np.full(8, 0.5))
    with pytest.raises(br.InputError, match="there are no files to compare; give release"):
        fit.report_mismatch()


# --- files, and a study ------------------------------------------------------------------------


def written(folder, content=CONTENT):
    path = folder / "models.json.gz"
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    return path


def test_models_are_read_with_the_files(tmp_path):
    release = fitted().synthesize(m=2, random_seed=3)
    for l, table in enumerate(release.datasets, start=1):
        table.to_csv(tmp_path / f"syn_{l}.csv", index=False, na_rep="NA")
    made = br.read_synthpop(tmp_path, original=PEOPLE, models=written(tmp_path / "."))
    assert made.release().synthesized == ["job", "pay", "own"]
    assert made.release().parameters == "plug-in"  # the models say proper = FALSE
    fit = br.models.CART.from_rpart(
        made.models, PEOPLE, releases=made.datasets, missing_numbers=STAND_IN
    )
    assert fit.report_mismatch()["share"].eq(0).all()
    (tmp_path / "cut.json.gz").write_bytes(written(tmp_path).read_bytes()[:50])
    for name, message in (("cut.json.gz", "holds no JSON, or not all"), ("x.rds", "of R alone")):
        (tmp_path / name).touch()
        with pytest.raises(br.InputError, match=message):
            br.read_synthpop(tmp_path / "syn_1.csv", models=tmp_path / name)


@pytest.mark.check
def test_a_whole_study_of_trees_that_were_kept(tmp_path):
    release = fitted().synthesize(m=2, random_seed=3)
    for l, table in enumerate(release.datasets, start=1):
        table.to_csv(tmp_path / f"syn_{l}.csv", index=False, na_rep="NA")
    PEOPLE.to_csv(tmp_path / "original.csv", index=False, na_rep="NA")
    written(tmp_path)
    (tmp_path / "study.toml").write_text(
        'random_seed = 1\n[data]\npath = "original.csv"\nna = ["NA"]\n'
        '[model]\nkind = "CART"\norder = ["job", "pay", "own"]\nmodels = "models.json.gz"\n'
        "missing_numbers = { pay = -9 }\n"
        '[release]\nfiles = ["syn_1.csv", "syn_2.csv"]\ncolumns = ["job", "pay", "own"]\n'
        '[attribute]\nguesses = { job = "levels", own = "levels", '
        "pay = { values = [-9, -8, 10, 20, 30] } }\n"
        '[output]\nfolder = "out"\n'
    )
    study = read_study(tmp_path / "study.toml")
    assert "attribute risk" in estimate(study).seconds
    result = run_study(study)
    expected = br.attribute_risk(fitted(), release, guesses=GUESSES)
    found = result.attribute.records["probability"].to_numpy()
    assert np.allclose(found, expected.records["probability"].to_numpy())
    settings = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert "models.json.gz" in json.dumps(settings)


@pytest.mark.parametrize(("floor", "known"), [(None, True), (1e-6, False)])
def test_trees_that_were_kept_are_known_and_a_floor_says_that_they_may_not_be(floor, known):
    fit, own = fitted(floor=floor), fitted().synthesize(m=2, random_seed=3)
    release = br.Release(datasets=own.datasets, synthesized=own.synthesized, parameters="plug-in")
    found = br.attribute_risk(fit, release, guesses=GUESSES, random_seed=1)
    assert found.assumed and found.check.kept_models == known


def test_a_study_takes_the_models(tmp_path):
    model = {
        "kind": "CART",
        "order": ["job", "pay", "own"],
        "models": str(written(tmp_path)),
        "missing_numbers": STAND_IN,
    }
    sections: dict[str, Any] = {"data": {"path": "a.csv"}, "attribute": {}}
    study = parse_study(sections | {"model": model})
    fit = fit_model(study, study.model.declared(), PEOPLE)
    assert fit.order == ["job", "pay", "own"] and len(fit.of_release) == 2
    other = parse_study(sections | {"model": model | {"order": ["pay", "job"]}})
    with pytest.raises(br.InputError, match=r"order=\['pay', 'job'\] and the models are of"):
        fit_model(other, other.model.declared(), PEOPLE)
    for changed, message in (
        (model | {"min_leaf": 3}, "has no key 'min_leaf'; it knows kind, order, models"),
        (
            {"kind": "CART", "order": ["job"], "floor": 0.1},
            'give .model. bootstrap = "none", and no smoothing',
        ),
    ):
        with pytest.raises(br.InputError, match=message):
            parse_study(sections | {"model": changed})


# --- real objects --------------------------------------------------------------------------------

CODED = {
    "Urban": ["1", "2"],
    "Tenure": list("12456"),
    "Educ": ["0", *map(str, range(10, 17))],
    "Marital": list("12345"),
}


def real(folder, name, original):
    places = [folder / "synthpop_models" / f"{name}_models_release{l}.csv.gz" for l in (1, 2)]
    models = folder / "synthpop_models" / f"{name}_synthpop_models.json.gz"
    return br.read_synthpop(places, original=original, models=models)


def test_every_released_value_of_the_expenditure_survey_lies_in_its_leaf(shared_data):
    df = br.read_table(shared_data / "ce_hornby_hu_identification.csv.gz", levels=CODED)
    made = real(shared_data, "ce", df)
    fit = br.models.CART.from_rpart(made.models, df, releases=made.datasets)
    found = fit.report_mismatch()
    assert found["column"].tolist() == ["Tenure", "Expenditure", "Income"] * 2
    assert (found["records"] == 5571).all() and (found["elsewhere"] == 0).all()
    assert [t.n_leaves for t in fit.trees] == [249, 609, 635]
    swapped = br.Release(datasets=[df.assign(Income=df["Income"].to_numpy()[::-1])] * 2,
                         synthesized=fit.order)  # fmt: skip
    assert (fit.report_mismatch(swapped).query("column == 'Income'")["share"] > 0.5).all()


@pytest.mark.parametrize("na", [["NA"], None])
def test_every_released_value_of_the_social_diagnosis_lies_in_its_leaf(shared_data, na):
    """With missing numbers, and -8 kept apart; empty texts are missing, or texts."""
    path = shared_data / "synthpop_models" / "sd_models_original.csv.gz"
    df = br.read_table(path, na=["NA"])
    made = real(shared_data, "sd", df)
    tables = made.datasets
    if na is None:
        texts = [c for c in df.columns if c not in ("age", "income")]
        df, *tables = (t.fillna(dict.fromkeys(texts, "")) for t in (df, *tables))
    fit = br.models.CART.from_rpart(
        made.models, df, releases=tables, missing="level", missing_numbers={"income": -9}
    )
    found = fit.report_mismatch()
    assert len(found) == 14 and (found["elsewhere"] == 0).all()
    assert [t.name for t in fit.trees] == [
        "sex", "age", "edu", "marital", "income.NA", "income", "ls", "wkabint"
    ]  # fmt: skip


def test_what_a_file_of_models_unpacks_to_is_bounded(tmp_path):
    path = tmp_path / "models.json.gz"
    path.write_bytes(gzip.compress(b"[" + b"[]," * 8_000_000 + b"[]]"))
    with pytest.raises(br.InputError, match="unpacks to more than 20,000,000 bytes"):
        read_models(path)
