"""Nested mixtures: audits of one release again from other seeds."""

import numpy as np
import pytest

import bayes_risk as br
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
