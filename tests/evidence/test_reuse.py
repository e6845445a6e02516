"""The published estimator says when it is worthless, and only then."""

import warnings
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import bayes_risk as br
from tests.helpers.fits import encoded
from tests.oracles.kernel_twins import simulate


@pytest.mark.check
def test_it_warns_on_the_acs_file(shared_data):
    """3,000 records of 14 variables: log p(Z | Theta) spreads over hundreds."""
    table = pd.read_csv(shared_data / "nist_acs_national2019_cat14.csv.gz", nrows=3_000, dtype=str)
    fit = br.models.DPMPM(n_classes=30).fit(
        table, draws=150, tune=150, chains=2, thin=1, random_seed=1
    )
    release = fit.synthesize(2, random_seed=2)
    assert np.ptp(fit.log_release(encoded(fit, release)), axis=1).min() > 100
    with pytest.warns(br.UnreliableWeightsWarning, match='100 of 100 .*use .evidence="predictive"'):
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


def enumerated(H, R, theta, weight):
    """All (probability, Theta_1..H, Z): the first draw makes Z of R answers, on a grid of Theta."""
    for places in product(range(len(theta)), repeat=H):
        at = theta[list(places)]
        for z in range(R + 1):
            chance = binom.pmf(z, R, at[0]) * weight[list(places)].prod()
            yield chance, at, z


@pytest.mark.parametrize("H", [2, 4])
def test_what_the_draw_that_made_a_release_does_to_both_estimators(H):
    """Sums over all draws: docs/evidence.md, of a yes or no whose truth is yes."""
    R, theta = 6, np.array([0.1, 0.3, 0.6, 0.8])
    weight = np.array([0.2, 0.3, 0.4, 0.1])  # p(Theta | y)
    p_z = binom.pmf(np.arange(R + 1)[:, None], R, theta)  # shape (R + 1, 4)
    says = (1 - theta) / theta  # p(y* | Theta) / p(y_i | Theta)
    of_z, ratio = p_z @ weight, says @ weight
    evidence = p_z @ (weight * says) / of_z / ratio  # R(Z), relative to the truth
    mean = {"kept": np.zeros(R + 1), "left out": np.zeros(R + 1), "base": np.zeros(R + 1)}
    for chance, at, z in enumerated(H, R, theta, weight):
        likelihood = binom.pmf(z, R, at)
        mean["kept"][z] += chance * likelihood.mean()
        mean["left out"][z] += chance * likelihood[1:].mean()
        mean["base"][z] += chance * ((1 - at) / at).mean()
    given_z = {name: total / of_z for name, total in mean.items()}
    squares = (p_z**2 @ weight) / of_z**2  # 1 + cv^2
    assert given_z["left out"] == pytest.approx(of_z)
    assert given_z["kept"] == pytest.approx(of_z * (1 + (squares - 1) / H))
    assert given_z["base"] == pytest.approx(ratio * (1 + (evidence - 1) / H))
    assert of_z @ evidence == pytest.approx(1.0)  # so that nothing is off over releases
    moved = np.sqrt(of_z @ (evidence - 1) ** 2) / H
    error = np.sqrt(weight @ (says / ratio - 1) ** 2 / H)
    assert 0 < moved < np.sqrt(1 / H) * error


def test_predictives_keep_the_draws_that_made_the_release():
    table = simulate(60, (2, 3, 2), seed=62)
    fit = br.models.DPMPM(n_classes=6).fit(
        table, draws=50, tune=50, chains=2, thin=1, random_seed=1
    )
    release = fit.synthesize(2, parameters="independent", random_seed=2)
    named, anonymous = (
        br.attribute_risk(fit, r, targets=5, refit_budget=0, random_seed=3, prior="uniform")
        for r in (release, replace(release, draw_index=None))
    )
    assert named.log_evidence.tobytes() == anonymous.log_evidence.tobytes()


@pytest.mark.parametrize("evidence", ["exact", "reuse", ""])
def test_other_evidence_is_an_error(evidence):
    fit = thirty_records()
    with pytest.raises(br.InputError, match="evidence="):
        br.attribute_risk(fit, fit.synthesize(1, random_seed=2), evidence=evidence)
