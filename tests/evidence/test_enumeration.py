"""Evidence against brute force: three records, binary variables, two classes."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from tests.oracles.label_sums import exact_log_evidence, monte_carlo_log_evidence

PRIOR = {"concentration": (0.5, 0.5), "level_prior": 1.0}
Y = np.array([[0, 0], [0, 1], [1, 1]])
Z1 = np.array([[1, 1], [0, 0], [1, 1]])
Z2 = np.array([[0, 0], [0, 0], [1, 0]])
GUESSES = {i: [Y[i], [1 - Y[i][0], Y[i][1]], [Y[i][0], 1 - Y[i][1]], 1 - Y[i]] for i in range(3)}


def table(codes):
    return pd.DataFrame(
        {
            f"x{j}": pd.Categorical(np.array(["a", "b"])[codes[:, j]], ["a", "b"])
            for j in range(codes.shape[1])
        }
    )


@pytest.fixture(scope="module")
def fit():
    model = br.models.DPMPM(n_classes=2, concentration_prior=(0.5, 0.5))
    with pytest.warns(br.TruncationWarning):
        return model.fit(table(Y), draws=1500, tune=200, chains=4, thin=10, random_seed=5)


def audit(fit, release, **options):
    return br.attribute_risk(fit, release, guesses=br.Neighbourhood(2), random_seed=7, **options)


def compare(risk, exact, spread):
    """Within four standard errors of brute force, the error being the one that is reported."""
    guessed = [int(v.name[1]) for v in risk.variables]
    kept = [j for j in range(Y.shape[1]) if j not in guessed]
    for i in range(3):
        found = risk.posterior(i)
        for g, guess in enumerate(GUESSES[i]):
            if any(guess[j] != Y[i][j] for j in kept):
                continue
            same = [found[f"x{j}"].astype(str) == "ab"[guess[j]] for j in guessed]
            row = found[np.logical_and.reduce(same)]
            error = abs(row["log_evidence"].iloc[0] - exact[i][g])
            assert error < 4 * np.hypot(spread(i, g), 1e-4), (i, g, error)


def mcse_of(risk):
    def spread(i, g):
        u = risk.case[i]
        codes = risk.guesses[:, u, :]
        mine = np.array(GUESSES[i][g])[[int(v.name[1]) for v in risk.variables]]
        return risk.mcse_log_evidence[(codes == mine).all(axis=1), u][0]

    return spread


@pytest.mark.parametrize("evidence", ["predictive", "refit"])
def test_fresh_classes_two_releases(fit, evidence):
    release = br.Release(datasets=[table(Z1), table(Z2)], synthesized=["x0", "x1"])
    risk = audit(fit, release, evidence=evidence)
    exact = {}
    for i in range(3):
        log_e = [
            sum(exact_log_evidence(Y, Z, i, g, 2, (2, 2), **PRIOR) for Z in (Z1, Z2))
            for g in GUESSES[i]
        ]
        exact[i] = np.array(log_e) - log_e[0]
    compare(risk, exact, mcse_of(risk))


@pytest.mark.parametrize("evidence", ["predictive", "refit"])
def test_two_releases_from_one_draw(fit, evidence):
    """p(Z1, Z2 | y*, y_-i) with one Theta behind both: their rows stand below one another."""
    release = br.Release(
        datasets=[table(Z1), table(Z2)], synthesized=["x0", "x1"], parameters="shared"
    )
    risk = audit(fit, release, evidence=evidence)
    assert len(risk.log_evidence) == 1
    both = np.vstack([Z1, Z2])
    exact = {}
    for i in range(3):
        log_e = [exact_log_evidence(Y, both, i, g, 2, (2, 2), **PRIOR) for g in GUESSES[i]]
        exact[i] = np.array(log_e) - log_e[0]
    compare(risk, exact, mcse_of(risk))


@pytest.mark.parametrize("evidence", ["predictive", "refit"])
@pytest.mark.parametrize("columns", [[0, 1], [1]])
def test_own_classes(fit, evidence, columns):
    names = [f"x{j}" for j in columns]
    Z = Y.copy()
    Z[:, columns] = Z1[:, columns]
    release = br.Release(datasets=[table(Z)], synthesized=names, classes="own")
    risk = audit(fit, release, evidence=evidence)
    exact = {}
    for i in range(3):
        log_e = [
            exact_log_evidence(Y, Z, i, g, 2, (2, 2), own=True, columns=columns, **PRIOR)
            for g in GUESSES[i]
        ]
        exact[i] = np.array(log_e) - log_e[0]
    compare(risk, exact, mcse_of(risk))


@cache
def given_columns(m):
    """m tables of x1 given x0 from one draw, their log evidence by draws from the prior, errors."""
    Z = np.stack([Y] * m)
    Z[:, :, 1] = np.stack([Z1, Z2])[:m, :, 1]
    rng = np.random.default_rng(11)
    by_draws = monte_carlo_log_evidence(
        Y, Z, GUESSES, 2, (2, 2), [1], draws=500_000, rng=rng, prior=PRIOR
    )
    datasets = [table(z) for z in Z]
    return br.Release(datasets=datasets, synthesized=["x1"], parameters="shared"), *by_draws


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("evidence", ["predictive", "refit"])
def test_fresh_classes_given_unsynthesized_columns(fit, evidence, m):
    release, exact, error = given_columns(m)
    risk = audit(fit, release, evidence=evidence)
    mine = mcse_of(risk)
    compare(risk, exact, lambda i, g: np.hypot(mine(i, g), error[i][g]))


def test_given_columns_with_sparse_levels():
    """Sparse levels: masses range over many powers of ten, and sums must not lose the small."""
    prior = {"concentration": (1.0, 1.0), "level_prior": 0.05}
    model = br.models.DPMPM(n_classes=2, concentration_prior=(1.0, 1.0), level_prior=0.05)
    with pytest.warns(br.TruncationWarning):
        fit = model.fit(table(Y), draws=1000, tune=200, chains=4, thin=10, random_seed=5)
    Z = Y.copy()
    Z[:, 1] = Z1[:, 1]
    release = br.Release(datasets=[table(Z)], synthesized=["x1"])
    risk = audit(fit, release)
    rng = np.random.default_rng(12)
    exact, error = monte_carlo_log_evidence(
        Y, Z, GUESSES, 2, (2, 2), [1], draws=500_000, rng=rng, prior=prior
    )
    mine = mcse_of(risk)
    compare(risk, exact, lambda i, g: np.hypot(mine(i, g), error[i][g]))


def test_published_estimator_agrees_where_it_can(fit):
    release = br.Release(datasets=[table(Z1)], synthesized=["x0", "x1"])
    risk = audit(fit, release, evidence="importance")
    exact = {}
    for i in range(3):
        log_e = [exact_log_evidence(Y, Z1, i, g, 2, (2, 2), **PRIOR) for g in GUESSES[i]]
        exact[i] = np.array(log_e) - log_e[0]
    compare(risk, exact, mcse_of(risk))


def test_published_estimator_with_own_classes(fit):
    release = br.Release(datasets=[table(Z1)], synthesized=["x0", "x1"], classes="own")
    risk = audit(fit, release, evidence="importance")
    exact = {}
    for i in range(3):
        log_e = [
            exact_log_evidence(Y, Z1, i, g, 2, (2, 2), own=True, columns=[0, 1], **PRIOR)
            for g in GUESSES[i]
        ]
        exact[i] = np.array(log_e) - log_e[0]
    compare(risk, exact, mcse_of(risk))


def test_the_two_oracles_agree():
    i = 1
    log_e = [exact_log_evidence(Y, Z1, i, g, 2, (2, 2), **PRIOR) for g in GUESSES[i]]
    rng = np.random.default_rng(3)
    value, error = monte_carlo_log_evidence(
        Y, Z1, {i: GUESSES[i]}, 2, (2, 2), [0, 1], draws=400_000, rng=rng, prior=PRIOR
    )
    assert (np.abs(np.array(log_e) - log_e[0] - value[i]) <= 4 * error[i] + 1e-12).all()
