"""Sweeps are identification_risk called for every combination of settings, labelled."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br


@pytest.fixture(scope="module")
def files():
    rng = np.random.default_rng(7)
    n = 200
    original = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "job": rng.choice(list("abcd"), n),
            "pay": rng.lognormal(3, 0.5, n).round(1),
        }
    )
    released = [
        original.assign(
            job=np.where(rng.random(n) < 0.6, original["job"], rng.choice(list("abcd"), n)),
            pay=(original["pay"] * rng.normal(1, 0.1, n)).round(1),
        )
        for _ in range(4)
    ]
    return original, released


def sweep_of(files, over, **options):
    original, released = files
    return br.identification_sweep(
        original, released, known=["sex"], synthesized=["job", "pay"], over=over, **options
    )


def test_every_combination_is_one_call(files):
    original, released = files
    sweep = sweep_of(files, {"radius": {"pay": [0.05, 0.2]}, "m": [1, 3, 4]})
    assert dict(sweep.dataset.sizes) == {"radius of pay": 2, "m": 3, "rule": 2}
    for r in (0.05, 0.2):
        for m in (1, 3, 4):
            alone = br.identification_risk(
                original,
                released[:m],
                known=["sex"],
                synthesized=["job", "pay"],
                radius={"pay": r},
            )
            there = sweep.dataset.sel({"radius of pay": r, "m": m})
            for rule in ("pooled", "mean"):
                shown = ["identical_records", "replicated_uniques"]  # files, whatever is matched
                for measure, value in alone.summary().loc[rule].drop(shown).items():
                    np.testing.assert_equal(float(there.sel(rule=rule)[measure]), value)
                np.testing.assert_equal(
                    float(there.sel(rule=rule)["mcse"]), alone.expected_match_risk_mcse[rule]
                )
            assert float(there["baseline"]) == alone.baseline_expected_match_risk


def test_subsets_of_known_columns(files):
    sweep = sweep_of(files, {"known": 3}, radius={"pay": 0.1})
    names = sweep.dataset["known"].to_numpy().tolist()
    assert names == ["sex", "job", "pay", "sex + job", "sex + pay", "job + pay", "sex + job + pay"]
    risks = sweep.dataset["expected_match_risk"].sel(rule="pooled")
    assert float(risks.sel(known="sex")) == 2.0  # two cells, nothing synthetic
    listed = sweep_of(files, {"known": [["sex"], ["sex", "job", "pay"]]}, radius={"pay": 0.1})
    assert listed.dataset["known"].to_numpy().tolist() == ["sex", "sex + job + pay"]


def test_the_worst_is_the_largest(files):
    sweep = sweep_of(
        files,
        {"radius": {"pay": [0.01, 0.05, 0.1, 0.3]}, "strategy": ["always", 0.5]},
        population=np.full(200, 3),
    )
    worst = sweep.worst()
    risks = sweep.dataset["expected_match_risk"].sel(rule="pooled")
    assert worst["expected_match_risk"] == float(risks.max())
    at = {name: worst[name] for name in sweep.swept}
    assert float(risks.sel(at)) == worst["expected_match_risk"]
    assert worst["mcse"] > 0
    assert worst["baseline"] == 2.0


def test_labels_stand_for_values(files):
    original, _ = files
    women = (original["sex"] == "f").to_numpy()
    over = {"targets": {"all": None, "women": women}, "fallback": [True, False]}
    sweep = sweep_of(files, over, radius={"pay": 0.1})
    assert sweep.dataset["n"].sel(targets="women", fallback="True").item() == women.sum()
    assert sweep.dataset["fallback"].to_numpy().tolist() == ["True", "False"]


@pytest.mark.parametrize(
    ("over", "options", "message"),
    [
        ({}, {}, "over is empty"),
        ({"radii": [1]}, {}, "over='radii' is not known; give one of"),
        ({"m": [5]}, {}, "over\\['m'\\]=5 is more than the release has; give at most 4"),
        ({"m": []}, {}, "over\\['m'\\]=\\[\\]; give a dict of label"),
        ({"radius": [0.1]}, {}, "over\\['radius'\\]=\\[0.1\\]; give a dict"),
        ({"known": [["age"]]}, {}, "names 'age', which is not a key"),
        ({"strategy": ["always"]}, {"strategy": "always"}, "in over and beside it"),
        ({"radius": {"age": [0.1]}}, {}, "radius names 'age', which is not a key"),
        ({"m": [1]}, {"radius": {"pya": 0.1}}, "radius names 'pya', which is not a key"),
        (
            {"closed": True},
            {"radius": {"pay": 0.1}},
            "over\\['closed'\\]=True; give a dict of label",
        ),
    ],
)
def test_what_cannot_be_swept_is_said(files, over, options, message):
    with pytest.raises(br.InputError, match=message):
        sweep_of(files, over, **options)


def test_a_sweep_can_be_read_and_drawn(files):
    sweep = sweep_of(files, {"radius": {"pay": [0.01, 0.1]}, "known": [["sex", "pay"], ["pay"]]})
    table = sweep.summary()
    assert list(table.columns[:3]) == ["expected_match_risk", "mcse", "baseline"]
    assert len(table) == 4
    assert "The expected number of correct matches is largest" in repr(sweep)
    axes = sweep.plot()
    assert axes.get_xlabel() == "radius of pay"
    lines = [line.get_ydata().tolist() for line in axes.get_lines()]
    risks = sweep.dataset["expected_match_risk"].sel(rule="pooled", known="pay")
    assert risks.to_numpy().tolist() in lines
    over = {"strategy": ["always", "likeliest"]}
    bars = sweep_of(files, over, radius={"pay": 0.1}, population=np.full(200, 3)).plot()
    assert [t.get_text() for t in bars.get_xticklabels()] == ["always", "likeliest"]
    with pytest.raises(br.InputError, match="measure='risk'"):
        sweep.worst("risk")
    with pytest.raises(br.InputError, match="rule='both'"):
        sweep.plot(rule="both")
    with pytest.raises(br.InputError, match="3 settings were swept"):
        sweep_of(
            files, {"m": [1], "closed": [True], "fallback": [True]}, radius={"pay": 0.1}
        ).plot()


def test_a_report_leaves_out_the_picture_of_too_many_curves(files, tmp_path):
    sweep = sweep_of(files, {"m": [1, 2], "known": 3}, radius={"pay": 0.1})  # seven sets of keys
    with pytest.raises(br.InputError, match="2 settings were swept"):
        sweep.plot()
    assert "<svg" not in br.report(sweep, path=tmp_path / "r.html").read_text()
