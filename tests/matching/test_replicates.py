"""An intruder who knows the model draws the confidential values anew."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.matching.replicates import Replicates


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    x = rng.choice(["a", "b", "c"], 400, p=[0.6, 0.3, 0.1])
    y = np.where(rng.random(400) < 0.8, x, rng.choice(["a", "b", "c"], 400))
    z = rng.choice(["u", "v"], 400)
    return pd.DataFrame({"x": x, "y": y, "z": z}).astype("category")


def test_knowing_the_model_draws_from_each_release(table):
    model = br.models.CART(order=["y"])
    release = model.fit(table, random_seed=1).synthesize(m=3, random_seed=2)
    drawn = br.replicates(release, model, n_tables=7, random_seed=3)
    assert drawn.release_of == (1, 1, 1, 2, 2, 3, 3)  # seven, as asked for
    assert (len(drawn), drawn.n_releases) == (7, 3)
    assert [table is copy for table, copy in zip(drawn, drawn.datasets, strict=True)] == [True] * 7
    assert "7 tables of ['y'] drawn given 3 releases" in repr(drawn)
    assert drawn.synthesized == release.synthesized
    for copy in drawn.datasets:
        pd.testing.assert_frame_equal(copy[["x", "z"]], table[["x", "z"]])
    again = br.replicates(release, model, n_tables=7, random_seed=3)
    assert all(a.equals(b) for a, b in zip(drawn.datasets, again.datasets, strict=True))


def test_the_draws_have_the_model_s_distribution(table):
    """y given x: tables drawn from the release agree with it as two samples of 400 do."""
    model = br.models.CART(order=["y"], min_leaf=20)
    fit = model.fit(table, random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    for drawn in (
        br.replicates(release, model, n_tables=40, random_seed=3),
        br.replicates(release, fit, n_tables=40, random_seed=4),
    ):
        share = np.array([(t["y"] == "a").mean() for t in drawn.datasets])
        given = np.array([(t["y"] == "a").mean() for t in release.datasets]).mean()
        assert abs(share.mean() - given) < 4 * np.hypot(
            share.std(ddof=1) / np.sqrt(2), np.sqrt(0.25 / 400)
        )


def test_who_knows_the_model_alone_picks_by_chance(table):
    """Drawn values are exchangeable within cells of x and z: one right match a cell is expected."""
    fit = br.models.CART(order=["y"]).fit(table, random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    keys = {"known": ["x", "z"], "synthesized": ["y"]}
    found = []
    for seed in range(12):
        drawn = br.replicates(release, fit, n_tables=8, random_seed=seed)
        risk = br.identification_risk(table, drawn, **keys)
        assert risk.m == 8
        assert risk.baseline_expected_match_risk == pytest.approx(6)
        found.append(risk.summary().loc["pooled", "expected_match_risk"])
    assert abs(np.mean(found) - 6) < 4 * np.std(found, ddof=1) / np.sqrt(12)


def test_records_that_stay_are_known_to_stay(table):
    kept = np.arange(400) < 300
    model = br.models.CART(order=["y"])
    release = model.fit(table, random_seed=1).synthesize(m=2, records=~kept, random_seed=2)
    drawn = br.replicates(release, model, n_tables=4, random_seed=3)
    for copy in drawn.datasets:
        assert (copy["y"][kept] == table["y"][kept]).all()
    np.testing.assert_array_equal(drawn.records, ~kept)


def test_what_cannot_be_drawn_is_said(table):
    model = br.models.CART(order=["y"])
    fit = model.fit(table, random_seed=1)
    release = fit.synthesize(m=3, random_seed=2)
    with pytest.raises(br.InputError, match="n_tables=2"):
        br.replicates(release, model, n_tables=2)
    with pytest.raises(br.InputError, match="'tune'.* fitted already"):
        br.replicates(release, fit, n_tables=5, tune=3)
    own = br.Release(datasets=release.datasets, synthesized=["y"], classes="own")
    with pytest.raises(br.InputError, match='classes="own"'):
        br.replicates(own, model, n_tables=5)


# --- errors: the real releases count, not the tables --------------------------------------------


def by_hand(m=7, release_of=(1, 1, 1, 2, 2, 3, 3), n=60):
    """Tables as if drawn given three releases."""
    rng = np.random.default_rng(5)
    original = pd.DataFrame({"a": rng.integers(0, 4, n), "b": rng.integers(0, 6, n)})
    tables = [original.assign(b=rng.integers(0, 6, n)) for _ in range(m)]
    return original, Replicates(datasets=tables, synthesized=["b"], release_of=release_of)


def jackknife(values):
    values = np.array(values)
    return np.sqrt((len(values) - 1) / len(values) * ((values - values.mean()) ** 2).sum())


KEYS = {"known": ["a"], "synthesized": ["b"]}
POPULATION = np.full(60, 5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"radius": {"b": br.Absolute(1)}},
        {"radius": {"a": 0.5, "b": br.Absolute(1)}, "shape": "ellipse"},
        {"population": POPULATION, "strategy": "likeliest"},
    ],
)
def test_all_tables_of_a_release_are_left_out_together(options):
    original, drawn = by_hand()
    risk = br.identification_risk(original, drawn, **KEYS, **options)
    plain = br.identification_risk(original, drawn.datasets, **KEYS, **options)
    np.testing.assert_array_equal(risk.pooled_c, plain.pooled_c)

    def pooled_without(left):
        kept = [table for k, table in enumerate(drawn) if k not in left]
        summary = br.identification_risk(original, kept, **KEYS, **options).summary()
        return summary.loc["pooled", "expected_match_risk"]

    releases = jackknife([pooled_without(left) for left in ((0, 1, 2), (3, 4), (5, 6))])
    parts = jackknife([pooled_without(left) for left in ((0, 1, 3, 5), (2, 4, 6))])
    assert risk.expected_match_risk_mcse["pooled"] == pytest.approx(releases)
    assert risk.draws_mcse["pooled"] == pytest.approx(parts)
    assert plain.draws_mcse.isna().all()
    each = plain.summary()["expected_match_risk"].iloc[:7].to_numpy()
    means = [part.mean() for part in np.split(each, [3, 5])]
    assert risk.expected_match_risk_mcse["mean"] == pytest.approx(
        np.std(means, ddof=1) / np.sqrt(3)
    )
    within = sum(len(part) * part.var(ddof=1) for part in np.split(each, [3, 5]))
    assert risk.draws_mcse["mean"] == pytest.approx(np.sqrt(within) / 7)


def test_more_tables_leave_the_error_between_releases(table):
    model = br.models.CART(order=["y"], min_leaf=20)
    release = model.fit(table, random_seed=1).synthesize(m=4, random_seed=2)
    keys = {"known": ["x", "z"], "synthesized": ["y"]}
    few, many = (
        br.identification_risk(
            table, br.replicates(release, model, n_tables=n, random_seed=3), **keys
        )
        for n in (8, 128)
    )
    assert many.draws_mcse["mean"] < few.draws_mcse["mean"] / 2.5  # a fourth is expected
    assert many.expected_match_risk_mcse["mean"] > many.draws_mcse["mean"] / 2
    assert (many.n_releases, many.m) == (4, 128)
    assert "in 128 tables drawn from the model given 4 releases" in many.sentence()
    assert "between releases; +- " in many.sentence()
    assert "With one table only" in many.sentence()
    assert many.summary().index.name == "table"
    assert many.dataset["release_of"].to_numpy().tolist() == np.repeat([1, 2, 3, 4], 32).tolist()


def test_one_release_has_no_error_between_releases():
    original, drawn = by_hand(release_of=(1,) * 7)
    risk = br.identification_risk(original, drawn, **KEYS)
    assert risk.expected_match_risk_mcse.isna().all()
    assert risk.summary()["mcse"].isna().all()
    assert risk.records["mcse"].isna().all()
    assert (risk.draws_mcse > 0).all()
    assert "7 tables drawn from the model given the release " in risk.sentence()
    assert "(unknown between releases; +- " in risk.sentence()


def test_who_knows_the_parameters_draws_given_no_release(table):
    fit = br.models.CART(order=["y"]).fit(table, random_seed=1)
    drawn = br.replicates(fit.synthesize(m=2, random_seed=2), fit, n_tables=5, random_seed=3)
    assert (drawn.n_releases, drawn.release_of) == (0, (0,) * 5)
    risk = br.identification_risk(table, drawn, known=["x", "z"], synthesized=["y"])
    assert risk.n_releases == 0
    assert "5 tables drawn from the model, its parameters known" in risk.sentence()
    assert risk.expected_match_risk_mcse.isna().all()
    assert (risk.draws_mcse > 0).all()


def test_one_table_a_release_has_no_error_of_drawing():
    original, drawn = by_hand(m=3, release_of=(1, 2, 3))
    risk = br.identification_risk(original, drawn, **KEYS)
    plain = br.identification_risk(original, drawn.datasets, **KEYS)
    pd.testing.assert_series_equal(risk.expected_match_risk_mcse, plain.expected_match_risk_mcse)
    assert risk.draws_mcse.isna().all()
    assert "; unknown from the drawing alone)" in risk.sentence()


def test_a_population_fitted_to_each_release_goes_with_its_tables():
    original, drawn = by_hand()
    sizes = [100, 200, 300]
    fitted = [br.Population.log_linear(original, ["a", "b"], size=size) for size in sizes]
    risk = br.identification_risk(original, drawn, population=fitted, **KEYS)
    by_table = [fitted[l - 1] for l in drawn.release_of]
    plain = br.identification_risk(original, drawn.datasets, population=by_table, **KEYS)
    np.testing.assert_array_equal(risk.pooled_outside, plain.pooled_outside)


def test_a_sweep_takes_the_tables_of_the_first_releases():
    original, drawn = by_hand()
    sweep = br.identification_sweep(original, drawn, over={"m": [1, 3]}, **KEYS)
    first = br.identification_risk(original, drawn.of_first(1), **KEYS)
    assert len(drawn.of_first(1)) == 3
    found = sweep.dataset["expected_match_risk"].sel(rule="pooled", m=1).item()
    assert found == first.summary().loc["pooled", "expected_match_risk"]
    with pytest.raises(
        br.InputError, match="over\\[.m.\\]=4 is more than the release has; give at most 3"
    ):
        br.identification_sweep(original, drawn, over={"m": [4]}, **KEYS)
    _, given = by_hand(release_of=(0,) * 7)
    with pytest.raises(br.InputError, match="drawn given no release; leave 'm' out"):
        br.identification_sweep(original, given, over={"m": [1]}, **KEYS)


# --- bad input -----------------------------------------------------------------------------------


def test_wrong_types_are_refused_in_words(table):
    model = br.models.CART(order=["y"])
    release = model.fit(table, random_seed=1).synthesize(m=2, random_seed=2)
    for given, message in (
        ((table, model), {"match": "release is a DataFrame; give a Release"}),
        ((release.datasets, model), {"match": "release is a list; give a Release"}),
        ((release, "CART"), {"match": "model is a str; give the model that made the release"}),
        ((release, None), {"match": "model is a NoneType; give"}),
        ((release, br.models.CART), {"match": "model is a class CART; give"}),
    ):
        with pytest.raises(br.InputError, **message):
            br.replicates(*given)
    for options, message in (
        ({"n_tables": 2.5}, "n_tables=2.5 is not a whole number"),
        ({"random_seed": "one"}, "random_seed='one' is not a seed; give a whole number"),
        ({"random_seed": -1}, "random_seed=-1 is not a seed"),
        ({"drwas": 3}, "fit of CART takes no 'drwas'; its options are .'columns', 'levels'"),
    ):
        with pytest.raises(br.InputError, match=message):
            br.replicates(release, model, **options)


def test_a_model_whose_fit_takes_no_seed_draws_too(table):
    """Predictive mean matching fits without chance, and says itself which records it replaces."""
    rare = table["z"].astype(str).where(np.arange(400) % 40 > 0, "w").astype("category")
    df = table.assign(z=rare)
    model = br.models.PMM(["y"], identifying=["z"], threshold=15)
    made = model.fit(df).synthesize(2, random_seed=1)
    with pytest.raises(br.InputError, match='classes="own"'):
        br.replicates(made, model, n_tables=4)
    release = br.Release(datasets=made.datasets, synthesized=["y"], records=made.records)
    drawn = br.replicates(release, model, n_tables=4, random_seed=2)
    kept = ~release.records
    assert 0 < release.records.sum() < 400
    for copy in drawn:
        assert (copy["y"][kept] == df["y"][kept]).all()
    other = br.models.PMM(["y"], identifying=["z", "x"], threshold=15)
    with pytest.raises(
        br.InputError, match="replaces .* of 22 of 400 records and the release .* of 10, or"
    ):
        br.replicates(release, other, n_tables=4, random_seed=2)
