"""Limits: a release that says nothing, one that says everything, intruders who know more."""

from functools import cache

import numpy as np
import pytest

import bayes_risk as br
from tests.oracles.kernel_twins import simulate

pytestmark = pytest.mark.filterwarnings("ignore::bayes_risk.TruncationWarning")
TABLE = simulate(40, (3, 2, 4), 2, seed=11)


def fitted(n_classes, draws=200, level_prior=1.0, table=TABLE):
    model = br.models.DPMPM(n_classes=n_classes, level_prior=level_prior)
    return model.fit(table, draws=draws, tune=50, chains=2, thin=1, random_seed=1)


@cache
def flat(n_classes):
    return fitted(n_classes, draws=100, level_prior=1e8)


@pytest.mark.parametrize("classes", ["new", "own"])
@pytest.mark.parametrize("columns", [None, ["x0", "x2"]])
@pytest.mark.parametrize("n_classes", [1, 3])
def test_a_release_without_information_leaves_the_prior(n_classes, columns, classes):
    """Under a prior of 10^8 levels are uniform whatever the table: evidence ratios are 1 + 1e-7."""
    fit = flat(n_classes)
    release = fit.synthesize(2, columns, classes=classes, random_seed=2)
    risk = br.attribute_risk(fit, release, prior=br.TruthFactor(3.0), random_seed=3)
    assert np.abs(np.exp(risk.log_probability) - np.exp(risk.log_prior)).max() < 1e-6
    assert risk.reliable.all()


@pytest.mark.check
def test_many_true_copies_find_every_truth():
    """m copies of the table itself: (2 n_c + 1) / (n_c + 1) is largest, 2, at the truth alone."""
    table = simulate(30, (3, 4), seed=12)
    fit = fitted(1, draws=4, table=table)
    by_m = {}
    for m in (1, 20, 250):
        release = br.Release(datasets=[table] * m, synthesized=list(table))
        by_m[m] = br.attribute_risk(fit, release, random_seed=3).records
    assert (by_m[1]["rank"] == 1).all()
    for few, many in ((1, 20), (20, 250)):
        assert (by_m[few]["probability"] < by_m[many]["probability"]).all()
    assert by_m[250]["probability"].min() > 0.99


def test_own_classes_tell_more_of_rare_records_than_fresh_ones():
    """A record alone in its class, released from its own class, gives itself away."""
    table = simulate(60, (4, 4, 4, 4), seed=13, sharpness=5.0).copy()
    table.iloc[:30] = table.iloc[0].to_numpy()
    table.iloc[30:] = table.iloc[-1].to_numpy()
    table.iloc[-1] = table.iloc[0].to_numpy()  # one group of 31, one of 29
    fit = fitted(3, table=table)
    Z = table.copy()
    risks = {}
    for classes in ("new", "own"):
        release = br.Release(datasets=[Z], synthesized=list(table), classes=classes)
        guesses = br.Listed(table.drop_duplicates())
        risk = br.attribute_risk(fit, release, guesses=guesses, random_seed=3)
        risks[classes] = risk.records["probability"]
    assert (risks["own"] > 0.999).all()
    assert (risks["new"] < 0.9).all()


def test_records_released_unchanged_are_disclosed():
    fit = fitted(3)
    changed = np.arange(len(TABLE)) % 4 != 0
    release = fit.synthesize(2, records=changed, random_seed=2)
    every = np.ones(len(TABLE), dtype=bool)
    risk = br.attribute_risk(fit, release, targets=every, random_seed=3)
    table = risk.records
    unchanged = table[~changed]
    assert (unchanged["probability"] == 1).all() and (unchanged["mcse"] == 0).all()
    assert (unchanged["rank"] == 1).all() and (unchanged["ties"] == 0).all()
    assert unchanged["disclosed"].all() and unchanged["reliable"].all()
    assert np.isposinf(unchanged["log_bayes_factor"]).all()
    assert not table[changed]["disclosed"].any() and (table[changed]["probability"] < 1).all()
    assert risk.summary().loc["disclosed", "value"] == (~changed).sum()
    assert "not replaced" in risk.sentence()


def test_unchanged_records_are_no_targets_by_default():
    fit = fitted(1, draws=4)
    release = fit.synthesize(2, records=[3, 5, 8], random_seed=2)
    risk = br.attribute_risk(fit, release, random_seed=3)
    assert risk.index.tolist() == [3, 5, 8]
    assert not risk.disclosed.any()


def test_known_columns_stay_at_the_truth():
    fit = fitted(1, draws=4)
    release = fit.synthesize(2, random_seed=2)
    whole = br.attribute_risk(fit, release, guesses=br.Neighbourhood(3), random_seed=3)
    knows = br.Intruder(knows_columns=["x1"])
    part = br.attribute_risk(
        fit, release, intruder=knows, guesses=br.Neighbourhood(2), random_seed=3
    )
    assert [v.name for v in part.variables] == ["x0", "x2"]
    assert part.n_guesses == 3 * 4
    for i in (0, 7, 21):  # the posterior given x1 is the whole one, restricted and normalised
        guesses = whole.posterior(i)
        guesses = guesses[guesses["x1"] == TABLE["x1"].iloc[i]]
        expected = guesses.set_index(["x0", "x2"])["probability"].astype(float)
        found = part.posterior(i).set_index(["x0", "x2"])["probability"].astype(float)
        assert np.allclose(found, (expected / expected.sum())[found.index], atol=1e-10)
    assert "x1" in part.assumptions["records"]


def test_an_intruder_who_knows_everything_is_an_error():
    fit = fitted(1, draws=4)
    release = fit.synthesize(1, ["x0", "x1"], random_seed=2)
    with pytest.raises(br.InputError, match="leave at least one to be guessed"):
        knows = br.Intruder(knows_columns=["x0", "x1"])
        br.attribute_risk(fit, release, intruder=knows, random_seed=3)
