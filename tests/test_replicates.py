"""An intruder who knows the model draws the confidential values anew."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br


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
    assert drawn.m == 9  # three a release
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
        br.replicates(release, model, n_tables=60, random_seed=3),
        br.replicates(release, fit, n_tables=60, random_seed=4),
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
        drawn = br.replicates(release, fit, n_tables=20, random_seed=seed)
        risk = br.identification_risk(table, drawn, **keys)
        assert risk.m == 20
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
