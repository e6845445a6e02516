"""Two priors by default: the predictive one beside the flat one, from the same evidence."""

from dataclasses import replace

import numpy as np
import pytest

import bayes_risk as br
from bayes_risk._core.batches import variance_of_estimate
from bayes_risk.evidence.evidence import Evidence
from bayes_risk.evidence.prior_weights import PriorWeights
from bayes_risk.risk.posterior import weigh
from bayes_risk.risk.result import BESIDE, MEASURED
from tests.helpers.fits import fit_of, release_of


def log_bayes_factor(found, prior, truth):
    """Of the truth, straight from its definition; shapes (G, U) and (U,)."""
    joint = np.exp(prior + found.log_evidence.sum(axis=0))
    at = np.arange(joint.shape[1])
    after, before = joint / joint.sum(axis=0), np.exp(prior) / np.exp(prior).sum(axis=0)
    odds = [p[truth, at] / (1 - p[truth, at]) for p in (after, before)]
    return np.log(odds[0]) - np.log(odds[1])


@pytest.mark.parametrize("m", [1, 3])
def test_the_error_of_the_change_is_that_of_batches_moved_one_by_one(m):
    rng = np.random.default_rng(m)
    G, U, B, tiny = 4, 5, 4, 1e-6
    truth = rng.integers(G, size=U)
    own = np.take_along_axis
    base = rng.normal(size=(G, U))
    base -= own(base, truth[None], axis=0)
    dev = tiny * rng.normal(size=(m + 1, B, G, U))
    dev -= own(dev, truth[None, None, None], axis=2)
    log_e = rng.normal(size=(m, G, U))
    log_e -= own(log_e, truth[None, None], axis=1)
    nothing = np.zeros(U)
    found = Evidence(
        log_evidence=log_e,
        deviations=dev.astype(np.float32),
        khat=nothing,
        ess=nothing + 400,
        base=base,
    )
    prior = PriorWeights(base - np.log(np.exp(base).sum(axis=0)), np.ones((G, U)))
    rest = np.full(U, -np.inf)
    got = weigh(found, prior, truth, rest, nothing > 0).mcse_log_bayes_factor
    moved = np.empty((m + 1, B, U))
    for f in range(m + 1):
        for b in range(B):
            shift = dev[f, b] / m
            before = base - shift if f == 0 else base  # deviations[0] are the base's times -m
            one = replace(found, log_evidence=log_e + shift)
            moved[f, b] = log_bayes_factor(one, before, truth)
    moved -= log_bayes_factor(found, base, truth)
    assert np.allclose(got, np.sqrt(variance_of_estimate(moved)), rtol=1e-3)


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_two_priors_are_computed_by_default_from_the_same_evidence():
    how = {"targets": 12, "random_seed": 3}
    fit, release = fit_of("DPMPM"), release_of("DPMPM")
    both = br.attribute_risk(fit, release, **how)
    assert list(both.priors) == ["predictive"]
    for name, risk in (("uniform", both), ("predictive", both.priors["predictive"])):
        alone = br.attribute_risk(fit, release, prior=name, **how)
        assert not alone.priors and np.array_equal(alone.log_probability, risk.log_probability)
    table, rows = both.records, both.summary()
    for column in BESIDE:
        assert (table[f"{column}_predictive"] == both.priors["predictive"].records[column]).all()
    assert {f"{row}_predictive" for row in MEASURED} <= set(rows.index)
    assert " and predictive (" in both.assumptions["prior"]


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_without_predictives_the_flat_prior_stands_alone_and_says_why():
    how = {"targets": 5, "evidence": "importance", "random_seed": 3}
    risk = br.attribute_risk(fit_of("DPMPM"), release_of("DPMPM"), **how)
    assert not risk.priors and "predictive prior is not there" in risk.assumptions["prior"]
    assert "needs a base fit" in risk.assumptions["prior"]
