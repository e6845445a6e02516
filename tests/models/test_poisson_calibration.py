"""Probabilities that the intruder gives to counts are frequencies.

All records but one come from the prior of the model; the target's values are drawn from the guesses
with equal chances, Theta from its posterior given them all, the release from Theta. The intruder,
who believes in equal chances, is asked: over many tables the sum of (1[the value was g] - Pr(g)) is
zero in expectation, for every g and every size of Pr(g).
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.models.mixture.columns import prior_of
from bayes_risk.models.mixture.poisson_mixture import PoissonMixtureFit
from bayes_risk.models.mixture.posterior import MixturePosterior
from bayes_risk.models.mixture.sampler import initial_state, run_chains
from tests.models.test_tree_calibration import z_scores

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning"),
]
N, K, TARGET, TABLES = 10, 3, 4, 300
CONCENTRATION, RATES = (3.0, 2.0), (1.0, 0.1)
GUESSES = {"x0": [0, 2, 6, 15, 40], "x1": [1, 12]}
SETTINGS = {
    "new": ({}, {"classes": "new"}),
    "new, structural zeros": ({"zeros": (1.0, 2.0)}, {"classes": "new"}),
    "new, one column, covariate": ({"covariates": ["group"]}, {"columns": ["x0"]}),
    "own": ({}, {"classes": "own"}),
    "own, structural zeros": ({"zeros": (1.0, 2.0)}, {"classes": "own"}),
    "own, one column, covariate, exposure": (
        {"covariates": ["group"], "exposure": "size"},
        {"classes": "own", "columns": ["x0"]},
    ),
}


def table_from_the_prior(rng, model):
    """Classes, rates, chances of zeros, levels, records."""
    alpha = rng.gamma(CONCENTRATION[0], 1 / CONCENTRATION[1])
    V = np.append(rng.beta(1, alpha, K - 1), 1.0)
    pi = V * np.concatenate([[1.0], np.cumprod(1 - V[:-1])])
    k = rng.choice(K, N, p=pi / pi.sum())
    e = rng.choice([0.5, 1.0, 2.0], N) if model.exposure else np.ones(N)
    columns = {}
    for name in GUESSES:
        x = rng.poisson(e * rng.gamma(RATES[0], 1 / RATES[1], K)[k])
        if model.zeros:
            x[rng.random(N) < rng.beta(*model.zeros, K)[k]] = 0
        columns[name] = x
    if model.exposure:
        columns["size"] = e
    if model.covariates:
        chances = rng.dirichlet(np.ones(3), K)
        levels = [rng.choice(3, p=chances[c]) for c in k]
        columns["group"] = pd.Categorical.from_codes(levels, list("abc"))
    return pd.DataFrame(columns)


def fitted(model, table, rng):
    """The model's fit without PyMC's bookkeeping."""
    fit = model.fit(table, sample=False)
    data, columns = fit.microdata, fit.columns
    prior = prior_of(model, data, columns)
    units = columns.rows(data.codes, prior).units()
    starts = [initial_state(prior, units, rng) for _ in range(2)]
    draws = run_chains(prior, units, starts, draws=600, tune=500, thin=10, rng=rng)
    nothing = np.zeros(len(columns.order), bool)
    posterior = MixturePosterior(
        prior=prior, columns=columns, units=units, draws=draws, thin=10, conditional=nothing
    )
    return PoissonMixtureFit(
        model=model, microdata=data, idata=None, posterior=posterior, diagnostics={}
    )


def replicate(seed, model, options):
    """Which guess was true, and the probability of each."""
    rng = np.random.default_rng(seed)
    table = table_from_the_prior(rng, model)
    for name, values in GUESSES.items():
        table.loc[TARGET, name] = rng.choice(values)
    fit = fitted(model, table, rng)
    release = fit.synthesize(2, **options, random_seed=rng)
    guesses = {c: br.Grid(values=GUESSES[c]) for c in release.synthesized}
    risk = br.attribute_risk(
        fit, replace(release, draw_index=None), guesses=guesses, targets=[TARGET], random_seed=rng
    )
    order = np.lexsort(risk.guesses[:, 0].T)
    hit = np.arange(len(order)) == risk.truth[0]
    return hit[order], np.exp(risk.log_probability[order, 0])


@pytest.mark.parametrize("setting", SETTINGS)
def test_probabilities_are_frequencies(setting):
    declared, options = SETTINGS[setting]
    model = br.models.PoissonMixture(
        K, concentration_prior=CONCENTRATION, rate_prior=RATES, **declared
    )
    found = [replicate([7, seed], model, options) for seed in range(TABLES)]
    z = z_scores(*zip(*found, strict=True))
    assert np.abs(z).max() < 4
    assert np.sqrt((z**2).mean()) < 2
