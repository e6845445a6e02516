"""The loop of audits and weights: when it ends and why, what it reports, and its warning."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.data.microdata import Microdata
from bayes_risk.studies.reweighting import _standard_error, table_distances

N = 40
MODEL = br.models.Regression({"y": "1 + x"})
OPTIONS = {
    "fit": {"draws": 100, "chains": 1},
    "synthesis": {"m": 10},
    "audit": {"guesses": {"y": br.Grid(additive=4.0, n=9)}},
}


def business(n=N):
    """A line with one record far out in x, which decides the slope."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=n)
    x[0] = 12.0
    return pd.DataFrame({"x": x, "y": x + rng.normal(size=n)}, index=[f"r{i}" for i in range(n)])


def reweighted(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.DisplacedRiskWarning)
        return br.reweight(MODEL, business(), **{"random_seed": 3, **OPTIONS, **options})


@pytest.fixture(scope="module")
def held():
    return reweighted(until=0.25, rounds=12)


def test_it_ends_when_the_threshold_holds(held):
    rows = held.summary()
    assert held.reason == "the threshold holds: no record above 0.25"
    assert rows["max_probability"].iloc[-1] <= 0.25 < rows["max_probability"].iloc[:-1].min()
    assert rows["above"].iloc[-1] == 0 and (rows["above"].iloc[:-1] > 0).all()
    assert f"round {len(rows) - 1}: the threshold holds" in held.sentence()
    assert held.weights["r0"] < 0.5 and held.weights.index.equals(business().index)


def test_records_before_and_after(held):
    table = held.records
    first, last = held.rounds[0].risk.records, held.risk.records
    pd.testing.assert_series_equal(table["before"], first["probability"], check_names=False)
    pd.testing.assert_series_equal(table["after"], last["probability"], check_names=False)
    assert table.loc["r0", "after"] < table.loc["r0", "before"] == table["before"].max()
    assert not table.loc["r0", "moderate"] and not table.loc["r0", "rose"]
    assert (table["beyond"] > 0).equals(table["rose"])
    assert (table["weight"] == held.weights).all()


def test_weights_fall_and_later_only_above_the_threshold(held):
    for before, after in zip(held.rounds[:-1], held.rounds[1:], strict=True):
        assert (after.weights <= before.weights).all()
    for before, after in zip(held.rounds[1:-1], held.rounds[2:], strict=True):
        quiet = (before.risk.records["probability"] <= 0.25).to_numpy()
        np.testing.assert_array_equal(after.weights[quiet], before.weights[quiet])


def test_it_ends_when_the_rounds_are_spent():
    spent = reweighted(until=0.01, rounds=2)
    assert spent.reason == "2 rounds are spent" and len(spent.rounds) == 3
    assert spent.summary()["above"].iloc[-1] > 0


def test_it_ends_when_no_weight_changes():
    stuck = reweighted(until=0.01, rounds=9, weights_from=lambda risk, weights: weights)
    assert stuck.reason.startswith("no weight changes any more") and len(stuck.rounds) == 1


def test_without_a_threshold_all_follow_the_audit():
    result = reweighted(rounds=1)
    expected = br.LinearWeights()(result.rounds[0].risk, np.ones(len(result.weights)))
    np.testing.assert_allclose(result.weights, expected, atol=1e-8)
    assert result.summary()["above"].isna().all()


def test_a_share_may_stay_above():
    result = reweighted(until=0.25, share=0.1, rounds=12)
    above = (result.risk.records["probability"] > 0.25).mean()
    assert above <= 0.1 and result.reason.endswith("at most 10 % of the records above 0.25")


def test_others_than_the_targets_keep_weight_one():
    audit = OPTIONS["audit"] | {"targets": ["r0", "r7"]}
    result = reweighted(rounds=1, audit=audit)
    assert list(result.records.index) == ["r0", "r7"]
    assert (result.weights.drop(["r0", "r7"]) == 1).all() and result.weights["r0"] < 1


def test_latent_classes():
    """Independent columns: the record in a cell of its own loses its weight."""
    cells = [("a", "u")] * 30 + [("b", "v")] * 30 + [("c", "w")]
    df = pd.DataFrame(cells, columns=["x", "y"])
    model = br.models.DPMPM(n_classes=1, level_prior=0.1)
    options = {
        "fit": {"draws": 40, "tune": 20, "chains": 2},
        "synthesis": {"m": 10},
        "random_seed": 2,
    }
    result = br.reweight(model, df, until=0.4, rounds=12, **options)
    assert result.reason.startswith("the threshold holds") and len(result.rounds) > 1
    table = result.records
    assert table["before"].idxmax() == 60 and table.loc[60, "weight"] == table["weight"].min() < 1
    assert f"weights from {table['weight'].min():.3g}" in result.risk.assumptions["synthesis"]


def test_trees():
    """Leaves of eight: records whose value their leaf gives away lose their weight."""
    rng = np.random.default_rng(3)
    df = pd.DataFrame({"x": np.repeat(list("abcdefgh"), 8), "y": rng.choice(list("pqr"), 64)})
    model = br.models.CART(["y"], min_leaf=4)
    options = {"synthesis": {"m": 3}, "random_seed": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.DisplacedRiskWarning)
        result = br.reweight(model, df, until=0.8, rounds=8, **options)
    assert result.reason.startswith("the threshold holds") and len(result.rounds) > 1
    table = result.records
    risky = table["before"] > 0.8
    assert 0 < risky.sum() < 16 and table["weight"][risky].max() < table["weight"].mean()
    assert "record weights from" in result.risk.assumptions["synthesis"]


def test_equal_seeds_give_equal_results(held):
    again = reweighted(until=0.25, rounds=12)
    pd.testing.assert_frame_equal(again.records, held.records)
    pd.testing.assert_frame_equal(again.summary(), held.summary())


def test_progress_names_the_round():
    stages = []
    reweighted(rounds=1, until=0.01, progress=lambda stage, done, total: stages.append(stage))
    told = {s.split(",")[0] for s in stages}
    assert told <= {"round 0", "round 1"}


@pytest.mark.check
def test_whack_a_mole_is_found_and_said():
    """Records that alone keep their weight decide the fit: their risk must rise."""
    df = business(400)
    kept = np.arange(400) < 6
    options = OPTIONS | {"synthesis": {"m": 60}, "rounds": 1, "until": 0.45, "random_seed": 3}

    def rule(risk, weights):
        return np.where(kept, 1.0, 0.001)

    with pytest.warns(br.DisplacedRiskWarning, match="have exposed other records"):
        result = br.reweight(MODEL, df, weights_from=rule, **options)
    table = result.records
    assert table.loc["r0", "before"] > 0.45
    assert set(table.index[table["newly_above"]]) == {"r1", "r2", "r3", "r4", "r5"}
    assert table.loc[kept, "rose"].sum() > 2 and (table["beyond"] > 0).equals(table["rose"])
    assert result.risk_rose and "5 are above the threshold now" in result.moderate_in_words()


def test_a_record_newly_above_the_threshold_is_said():
    with pytest.warns(br.DisplacedRiskWarning, match="above the threshold now"):
        result = br.reweight(MODEL, business(), until=0.2, rounds=1, random_seed=3, **OPTIONS)
    table = result.records
    new = (table["before"] <= 0.2) & (table["after"] > 0.2)
    assert new.any() and new.equals(table["newly_above"])


@pytest.mark.check
def test_error_of_a_probability_counts_the_luck_of_the_release():
    """Against the spread over fresh releases from the same fit."""
    df = business()
    fit = MODEL.fit(df, draws=300, chains=1, random_seed=1)
    p, errors = [], []
    for seed in range(40):
        release = fit.synthesize(m=8, random_seed=seed)
        risk = br.attribute_risk(fit, release, **OPTIONS["audit"])
        p.append(risk.records["probability"].to_numpy())
        errors.append(_standard_error(risk))
    ratio = np.sqrt(np.mean(np.square(errors), axis=0)) / np.std(p, axis=0, ddof=1)
    # the standard deviation of 40 releases has a relative error of 1 / sqrt(78); records share them
    assert abs(np.median(ratio) - 1) < 4 / np.sqrt(78)


def test_distances_of_tables_by_hand():
    df = pd.DataFrame({"a": list("xxyy"), "b": list("uvuv"), "c": [1.0, 2.0, 3.0, 4.0]})
    data = Microdata.from_frame(df, numbers=["c"])
    released = df.assign(a=list("xxxy"))
    release = br.Release(datasets=[released], synthesized=["a"])
    # margin of a: 2, 2 -> 3, 1 of 4; pairs with b and c: one record of four moves to another cell
    assert table_distances(data, release) == {"margins": 0.25, "pairs": 0.25}
    alone = Microdata.from_frame(df[["a"]])
    found = table_distances(alone, br.Release(datasets=[released[["a"]]], synthesized=["a"]))
    assert found["margins"] == 0.25 and np.isnan(found["pairs"])


def test_linear_weights():
    def weights(p, prior, before=1.0, **how):
        records = pd.DataFrame({"probability": p, "prior": prior})
        return br.LinearWeights(**how)(SimpleNamespace(records=records), before * np.ones(len(p)))

    p, prior = np.array([0.05, 0.1, 0.4, 0.7, 1.0]), np.full(5, 0.1)
    found = weights(p, prior, steps=1000)
    np.testing.assert_allclose(found, [1.0, 1.0, 2 / 3, 1 / 3, 0.02], atol=1e-3)
    np.testing.assert_array_equal(weights(p[1:4:2], prior[:2]), [1.0, 0.32])
    assert (weights(p, prior, c=0.0, g=0.5) == 0.5).all()
    assert (weights(np.ones(2), np.ones(2)) == 1).all()  # no guess but the truth
    assert (weights(p, prior, before=0.5, steps=1000) <= found).all()


class NoWeights:
    """A model of someone else's, which knows no weights."""

    def fit(self, df, *, random_seed=None):
        raise AssertionError("it should not come to this")


BAD = {
    "forest": (
        {"model": br.models.Forest(order=["y"]), "fit": {}},
        "Forest takes no record weights: .* give DPMPM, Regression, CART",
    ),
    "another": ({"model": NoWeights()}, "NoWeights takes no record weights; give a model whose"),
    "until": ({"until": 1.5}, "until=1.5 is outside"),
    "share": ({"share": 1.0}, "share=1.0 is outside; give"),
    "rounds": ({"rounds": 0}, "rounds=0 is too small"),
    "word": ({"weights_from": "cubic"}, "weights_from='cubic' is not a rule"),
    "rule": ({"weights_from": 3}, "is not a rule"),
    "seed": ({"fit": {"random_seed": 1}}, r"fit has \['random_seed'\]"),
    "weights": (
        {"weights_from": lambda risk, weights: weights - 1.0, "rounds": 1},
        r"outside \(0, 1\]",
    ),
    "length": ({"weights_from": lambda risk, weights: weights[:3]}, "one weight a record"),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_are_named(case):
    options, message = BAD[case]
    options = dict(options)
    with pytest.raises(br.InputError, match=message):
        br.reweight(options.pop("model", MODEL), business(), **OPTIONS | options, random_seed=1)


def test_pictures_show_every_record_and_round(held):
    axes = held.plot()
    assert sum(len(line.get_xdata()) for line in axes.lines[:2]) == N
    path = held.plot_path()
    assert len(path.texts) == 2 * len(held.rounds)
    assert "Reweighting" in repr(held)
