"""The published estimator says when it is worthless, and only then."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from tests.fits import encoded
from tests.oracles import simulate


def test_it_warns_on_the_acs_file(shared_data):
    """3,000 records of 14 variables: log p(Z | Theta) spreads over hundreds."""
    table = pd.read_csv(shared_data / "nist_acs_national2019_cat14.csv.gz", nrows=3_000, dtype=str)
    fit = br.models.DPMPM(n_classes=30).fit(
        table, draws=150, tune=150, chains=2, thin=1, random_seed=1
    )
    release = fit.synthesize(2, random_seed=2)
    assert np.ptp(fit.log_release(encoded(fit, release)), axis=1).min() > 100
    with pytest.warns(br.UnreliableWeightsWarning, match='100 of 100 .*use evidence="predictive"'):
        risk = br.attribute_risk(fit, release, targets=100, evidence="importance", random_seed=3)
    assert not risk.reliable.any()
    assert (risk.ess < 10).all()
    assert risk.summary().loc["unreliable", "value"] == 100
    assert "100 records are marked unreliable" in risk.sentence()


@cache
def thirty_records():
    table = simulate(30, (2, 3), seed=61)
    return br.models.DPMPM(n_classes=1).fit(
        table, draws=2000, tune=100, chains=2, thin=1, random_seed=1
    )


def test_it_is_content_with_thirty_records():
    fit = thirty_records()
    release = fit.synthesize(1, parameters="independent", random_seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        risk = br.attribute_risk(fit, release, evidence="importance", random_seed=3)
    assert risk.reliable.all() and (risk.ess > 100).all() and (risk.khat < 0.7).all()
    exact = br.attribute_risk(fit, release, random_seed=3)
    others = np.arange(risk.n_guesses)[:, None] != risk.truth
    gap = (risk.log_evidence - exact.log_evidence).sum(axis=0)[others]
    z = gap / risk.mcse_log_evidence[others]
    assert np.abs(z).max() < 4 and np.sqrt((z**2).mean()) < 2


def test_draws_that_made_the_release_are_left_out():
    """They lie where p(Z | Theta) is largest, and would count as evidence for themselves."""
    fit = thirty_records()
    release = fit.synthesize(2, random_seed=2)
    anonymous = br.Release(datasets=release.datasets, synthesized=release.synthesized)
    found = [
        br.attribute_risk(fit, r, evidence="importance", random_seed=3).log_evidence
        for r in (release, anonymous)
    ]
    gap = np.abs(found[0] - found[1])
    assert 0 < gap.max() < 0.05


@pytest.mark.parametrize("evidence", ["exact", "reuse", ""])
def test_other_evidence_is_an_error(evidence):
    fit = thirty_records()
    with pytest.raises(br.InputError, match="evidence="):
        br.attribute_risk(fit, fit.synthesize(1, random_seed=2), evidence=evidence)
