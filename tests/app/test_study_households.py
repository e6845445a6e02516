"""Studies of households: their column is read and kept from models; results, report, refusals."""

import warnings

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.app.run.runner import run
from bayes_risk.app.study.study import parse_study

rng = np.random.default_rng(1)
TABLE = pd.DataFrame(
    {
        "hid": np.repeat(np.arange(40), 2) + 100,
        "relate": np.tile(["head", "other"], 40),
        "sex": rng.choice(["f", "m"], 80),
        "rooms": np.repeat(rng.choice(["few", "many"], 40), 2),
        "age": rng.integers(20, 26, 80),
        "job": rng.choice(list("abc"), 80),
    }
)


def study(tmp_path, table=TABLE, **sections):
    table.to_csv(tmp_path / "persons.csv", index=False)
    data = {
        **{"path": "persons.csv", "household": "hid", "relate": "relate", "head": "head"},
        **{"household_variables": ["rooms"], "columns": ["sex", "rooms", "age", "job"]},
    }
    content = {
        "data": data | sections.pop("data", {}),
        "model": {"kind": "CART", "order": ["job", "age"], "min_leaf": 5},
        "release": {"m": 3},
        "attribute": {"guesses": {"age": "levels", "job": "levels"}},
        "identification": {
            "known": ["sex", "rooms"],
            "synthesized": ["job", "age"],
            "radius": {"age": 0.1},
        },
        "random_seed": 1,
    }
    return parse_study(content | sections, folder=tmp_path)


def audited(study, what="audit", **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(study, what=what, **how)


@pytest.mark.check
def test_households_stand_beside_persons(tmp_path):
    out = tmp_path / "out"
    found = audited(study(tmp_path, output={"folder": str(out)}))
    assert "hid" not in found.release.datasets[0] and "relate" not in found.release.datasets[0]
    table = TABLE[["sex", "rooms", "age", "job", "hid"]]
    right = br.household_matching(
        table, found.release, household="hid", known=["sex", "rooms"], synthesized=["job"]
    )  # age has a radius
    assert found.household_matching.summary().equals(right.summary())
    assert found.household_matching.variables == ("rooms",)
    for name in ("identification", "attribute"):
        key = "household_risk" if name == "identification" else "household_attribute_risk"
        right = br.household_risk(getattr(found, name), TABLE["hid"])
        assert getattr(found, key).summary().equals(right.summary())
    page = (out / "report.html").read_text()
    assert "Households: does the intruder find the household?" in page
    assert "Household risk, identification" in page and "Household risk, attribute" in page
    files = {path.name for path in out.iterdir()}
    assert {f"households-{k}.csv" for k in ("matching", "identification", "attribute")} <= files


def test_a_column_of_households_that_is_not_named_is_a_warning(tmp_path):
    table = TABLE.assign(hid=rng.permutation(TABLE["hid"]))
    shown = br.exposure(table, table)
    assert shown.household == "hid"
    others = ({"person": "hid"}, table), ({}, table.drop(columns="hid"))
    assert [br.exposure(t, t, **how).household for how, t in others] == ["", ""]
    page = br.report(shown, path=tmp_path / "page.html").read_text()
    assert "Column hid names households" in page and "household of [data]" in page


NESTED = {
    "model": {
        **{"kind": "NestedDPMPM", "n_classes": 2, "n_members": 2},
        **{"draws": 10, "tune": 10, "chains": 2},
    },
    "data": {"columns": ["relate", "sex", "rooms", "job"]},
    "release": {"m": 2},
    "identification": {"known": [], "synthesized": ["sex", "rooms", "job"]},
}


@pytest.mark.check
@pytest.mark.parametrize("household", ["all but the target", "unknown"])
def test_the_model_and_the_intruder_have_the_households_of_the_data(tmp_path, household):
    out, limits = tmp_path / "out", {"household_match_rate": 0.0}
    audit = {"targets": 3, "intruder": {"household": household}}
    found = audited(
        study(
            tmp_path,
            **NESTED,
            attribute=audit,
            membership={"held_out": 0.25, "records": 4, "alternatives": 10},
            thresholds=limits,
            output={"folder": str(out)},
        )
    )
    assert (~found.membership.member).sum() == 10  # households
    assert "the household that is not known" in found.membership.assumptions["question"]
    made = found.release.datasets[0]
    assert (made["hid"] == TABLE["hid"]).all() and (made["relate"] == TABLE["relate"]).all()
    assert ("but those of" in found.attribute.assumptions["records"]) == (household == "unknown")
    judged = next(r for r in found.verdict.reasons if r.measure == "matching of households")
    rate = found.household_matching.summary()["value"]["households_true"]
    assert (judged.outcome == "above your thresholds") == (rate > 0)
    assert "of the 40 households uniquely" in (out / "report.html").read_text()


@pytest.mark.check
def test_candidates_are_compared_by_households_too(tmp_path):
    model = {"kind": "CART", "order": ["job"], "min_leaf": 5}
    tried = {"replicates": 1, "few": {"model": model | {"min_leaf": 30}}, "many": {"model": model}}
    keys = {"known": ["sex", "rooms"], "synthesized": ["job"], "members": 1}
    more = {"identification": keys, "compare": tried, "attribute": None, "utility": None}
    limits = {"household_match_rate": 0.0}
    found = audited(study(tmp_path, **more, thresholds=limits), what="compare").comparison
    of_study = found.summary()["mean"]
    right = br.compare(
        {
            name: br.Candidate(br.models.CART(order=["job"], min_leaf=k), m=3)
            for name, k in {"few": 30, "many": 5}.items()
        },
        TABLE[["sex", "rooms", "age", "job"]],
        identification=keys | {"households": TABLE["hid"]},
        utility=None,
        replicates=1,
        random_seed=1,
    ).summary()["mean"]
    for name in ("expected", "true", "false"):
        np.testing.assert_array_equal(
            of_study.xs(f"households_{name}", level=1), right.xs(f"households_{name}", level=1)
        )
    rate = of_study["few", "households_true"]
    assert (found.outcomes[0][0] == "above your thresholds") == (rate > 0)


@pytest.mark.parametrize("wrong", [{"households": "hid"}, {"members": 1}])
def test_candidates_need_the_household_of_each_record(wrong):
    keys = {"known": ["sex"], "synthesized": ["job"]} | wrong
    with pytest.raises(InputError, match="identification: households must be a Series"):
        br.compare({"a": br.models.CART(order=["job"])}, TABLE, identification=keys)


def test_persons_of_a_mixture_are_unknown_together(tmp_path):
    model = {"kind": "DPMPM", "n_classes": 2, "draws": 10, "tune": 10, "chains": 2}
    audit = {"targets": 2, "intruder": {"household": "unknown"}}
    sections = NESTED | {"model": model, "attribute": audit, "release": {"m": 1}}
    del sections["identification"]
    columns = {"columns": ["sex", "rooms", "job"]}
    found = audited(study(tmp_path, identification=None, **sections | {"data": columns}))
    assert found.attribute.assumptions["evidence"].startswith("household: ")


SECTIONS = [
    (
        {**NESTED, "data": {"relate": None, "head": None, "household_variables": []}},
        "kind needs household, relate",
    ),
    ({"data": {"household": None}}, "relate needs household"),
    ({"data": {"household": "no"}}, "household names column 'no'"),
    ({"data": {"head": "chief"}}, "head='chief' does not occur|head = \"chief\" does not occur"),
    ({"data": {"household_variables": ["job"]}}, "household variable 'job' has two values"),
    ({"data": {"household_variables": ["no"]}}, "names column 'no'"),
]


@pytest.mark.parametrize(("sections", "message"), SECTIONS, ids=[m[:30] for _, m in SECTIONS])
def test_what_cannot_be_is_named_before_a_model_is_sampled(tmp_path, sections, message):
    with pytest.raises(InputError, match=message):
        audited(study(tmp_path, **sections))


def test_members_need_households(tmp_path):
    own = {"known": ["sex"], "synthesized": ["job"], "members": 1}
    found = audited(study(tmp_path, identification=own)).household_matching
    assert found.known_members == 1
    with pytest.raises(InputError, match="members needs household of .data."):
        parse_study({"data": {"demo": "visits"}, "identification": own})


def test_the_file_is_read_once(tmp_path, monkeypatch):
    """A table that changes while the models are fitted changes nothing of the households."""
    from bayes_risk.app.study import declare

    reads, read = [], declare.read_table
    monkeypatch.setattr(declare, "read_table", lambda *a, **k: reads.append(a) or read(*a, **k))
    found = audited(study(tmp_path))
    assert len(reads) == 1 and found.household_matching is not None
