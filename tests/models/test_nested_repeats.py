"""Nested mixtures: audits again from other seeds, and ranks of true values among draws."""

import numpy as np
import pytest
from scipy.stats import chisquare

import bayes_risk as br
from bayes_risk.models.nested.masses import Masses, Theta
from tests.models.test_nested import with_rules
from tests.models.test_nested_rules import HOUSEHOLD
from tests.oracles.nested_households import (
    RULES,
    drawn_theta,
    every,
    possible,
    probability,
    table,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning"),  # short fits
]


def drawn(rng, theta, sizes):
    """Possible households of these numbers of persons."""
    found = []
    for h in sizes:
        some = [one for one in every(h) if possible(one)]
        p = np.array([probability(one, theta, h - 1) for one in some])
        found.append(some[rng.choice(len(some), p=p / p.sum())])
    return found


def test_audits_of_one_release_agree_within_their_errors():
    rng = np.random.default_rng(9)
    df = table(drawn(rng, drawn_theta(rng, 3, F=3), rng.integers(1, 4, 60)))
    rules = br.Impossible(RULES)
    model = br.models.NestedDPMPM(HOUSEHOLD, 4, 3, spouse="spouse", impossible=rules)
    release, found = None, []
    for seed in range(4):
        fit = model.fit(df, draws=100, tune=200, random_seed=seed)
        release = release or fit.synthesize(2, random_seed=9)
        how = {"targets": list(range(0, len(df), 3)), "guesses": br.Neighbourhood(1)}
        found.append(br.attribute_risk(fit, release, random_seed=seed, refit_budget=0, **how))
    z = []
    for k, one in enumerate(found):
        for other in found[:k]:
            gap = (one.log_evidence - other.log_evidence).sum(axis=0)
            error = np.hypot(one.mcse_log_evidence, other.mcse_log_evidence)
            some = np.isfinite(gap) & (error > 0)
            z.append(gap[some] / error[some])
    values = np.concatenate(z)
    inside, rms = (np.abs(values) < 1.96).mean(), np.sqrt((values**2).mean())
    print(len(values), inside, rms)
    assert len(values) > 300 and inside >= 0.93 and rms <= 1.2, (inside, rms)


def test_ranks_of_true_values_are_uniform():
    """Two hundred files of eight households, drawn from the prior under the rules."""
    rng, sizes = np.random.default_rng(10), [1, 1, 2, 2, 2, 3, 3, 3]
    asked = [("own", 50, (("spouse", 50),)), ("own", 70, (("spouse", 70), ("child", 30)))]
    ranks = []
    for k in range(200):
        one, other = np.maximum(rng.gamma(0.25, 4.0, 2), 1e-9)
        v, w = rng.beta(1.0, one, 3), rng.beta(1.0, other, 2)
        flat = drawn_theta(rng, 3)
        pi, omega = np.column_stack([v, 1 - v]), np.column_stack([w, 1 - w])
        truth = Theta(pi, flat.lam, omega, flat.phi)
        fit = with_rules().fit(
            table(drawn(rng, truth, sizes)), draws=50, tune=100, chains=2, thin=4, random_seed=k
        )
        draws, model = fit.posterior.draws, fit.posterior.model
        each = []
        for theta in [truth, *(draws.theta(h) for h in range(len(draws)))]:
            whole = Masses.of(theta, model.rules, model.layout).by_size()
            p = [probability(x, theta, len(x[2])) / whole[len(x[2])] for x in asked]
            each.append([*p, whole[2]])
        ranks.append((np.array(each[1:]) < each[0]).sum(axis=0))
    for rank in np.transpose(ranks):  # of 0 .. 100
        counts = np.bincount(rank * 10 // 101, minlength=10)
        assert chisquare(counts).pvalue > 1e-3, counts
