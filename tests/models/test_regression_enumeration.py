"""Four records of three kinds against brute force: parameters drawn from their prior, by SciPy.

A number, a count given it, and two levels given both. Each regression's marginal likelihood is the
mean likelihood under its prior (the number's is a multivariate t); nothing is conditioned on.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import bayes_risk as br
from tests.oracles.regression_integrals import Sampled
from tests.oracles.regression_oracle import (
    Normal,
    columns_of,
    guess_values,
    with_values,
)

Prior = br.models.RegressionPrior
N, S = 4, 50_000
TABLE = pd.DataFrame(
    {"x": [0.0, 1.0, 2.0, 4.0], "y": [1.0, 3.5, 2.0, 4.0], "k": [0, 2, 1, 3], "b": list("nyyn")}
)
Z1 = TABLE.assign(y=[2.5, 2.0, 4.5, 3.0], k=[1, 1, 4, 2], b=list("ynyy"))
Z2 = TABLE.assign(y=[0.5, 4.0, 3.0, 3.5], k=[0, 3, 1, 1], b=list("nyny"))
FORMULAS = {"y": "1 + x", "k": "1 + y", "b": "1 + k + y"}
PRIORS = {
    "y": Prior(intercept=2.0, slopes=1.0, sigma2=(3.0, 2.0)),
    "k": Prior(intercept=1.0, slopes=0.5),
    "b": Prior(intercept=1.5, slopes=1.0),
}
GRIDS = {"y": br.Grid(additive=1.5, n=3), "k": br.Grid(additive=1, n=3)}


def columns(*names):
    return lambda c: np.column_stack([np.ones(len(c["y"])), *(c[n] for n in names)])


NUMBER = Normal("y", columns("x"), intercept=2.0, slopes=1.0, a=3.0, b=2.0)
COUNT = Sampled("k", "poisson", columns("y"), PRIORS["k"])
LEVELS = Sampled("b", "bernoulli", columns("k", "y"), PRIORS["b"], levels=["n", "y"])


def log_means(part, i, guesses, releases, rng):
    """sum over releases of log p(Z, y*, y_-i) - log p(y*, y_-i), and S deviations of each."""
    table = columns_of(TABLE)
    k = part.design(table).shape[1]
    location = part.location(table) if part.family == "poisson" else 0.0
    scale = np.append(part.prior.intercept, np.full(k - 1, part.prior.slopes))
    theta = (np.arange(k) == 0) * location + scale * rng.standard_normal((S, k))
    X, y = part.rows(table, table)
    others = np.arange(N) != i
    known = part.log_rows(X[others], y[others], theta).sum(axis=0)
    star = [part.rows(table, with_values(table, i, g)) for g in guesses]
    before = known + np.stack([part.log_rows(A[[i]], b[[i]], theta)[0] for A, b in star])
    log_e, deviations = 0.0, 0.0
    for Z in releases:
        after = before + part.log_rows(*part.rows(table, columns_of(Z)), theta).sum(axis=0)
        log_e = log_e + logsumexp(after, axis=1) - logsumexp(before, axis=1)
        deviations = deviations + shares(after) - shares(before)
    return log_e, deviations


def shares(terms):
    """Likelihoods over their mean, (G, S)."""
    return S * np.exp(terms - logsumexp(terms, axis=1, keepdims=True))


def brute_force(i, guesses, truth, releases, names):
    """Log evidence relative to the truth, and its error."""
    rng = np.random.default_rng(i)
    table = columns_of(TABLE)
    log_e, variance = np.zeros(len(guesses)), np.zeros(len(guesses))
    if "y" in names:
        for g, values in enumerate(guesses):
            guessed = with_values(table, i, values)
            before = NUMBER.log_marginal(table, guessed)
            for Z in releases:
                log_e[g] += NUMBER.log_marginal(table, guessed, columns_of(Z)) - before
    for part in (COUNT, LEVELS):
        if part.name in names:
            more, deviations = log_means(part, i, guesses, releases, rng)
            log_e += more
            variance += (deviations - deviations[truth]).var(axis=1) / S
    return log_e - log_e[truth], np.sqrt(variance)


@pytest.fixture(scope="module")
def fit():
    model = br.models.Regression(FORMULAS, {"k": "poisson"}, priors=PRIORS)
    return model.fit(TABLE, draws=250, tune=150, chains=4, random_seed=1)


CASES = {
    "all, two releases": (["y", "k", "b"], [Z1, Z2], None),
    "the first and the last": (["y", "b"], [Z1, Z2], None),
    "all, of two records": (["y", "k", "b"], [Z2], np.array([True, False, True, False])),
}


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
@pytest.mark.parametrize(
    ("case", "evidence"),
    [
        pytest.param("all, two releases", "predictive", marks=pytest.mark.slow),
        ("all, of two records", "predictive"),
        pytest.param("the first and the last", "predictive", marks=pytest.mark.check),
        ("the first and the last", "refit"),
    ],
)
def test_three_kinds_of_variables(fit, case, evidence):
    """Four records strain the weights, so predictive may refit them all."""
    names, files, mask = CASES[case]
    keep = np.ones(N, dtype=bool) if mask is None else mask
    full = [TABLE.assign(**{c: Z[c].where(keep, TABLE[c]) for c in names}) for Z in files]
    release = br.Release(datasets=full, synthesized=names, records=mask)
    grids = {name: GRIDS[name] for name in names if name in GRIDS}
    targets = [0] if evidence == "refit" else [0, 2]
    options = {"guesses": grids, "targets": targets, "random_seed": 2}
    risk = br.attribute_risk(fit, release, evidence=evidence, **options)
    for label, u in zip(risk.index, risk.case, strict=True):
        counted = np.isfinite(risk.log_prior[:, u])
        guesses = guess_values(risk, u)
        exact, error = brute_force(
            int(label), guesses, risk.truth[u], [Z[keep] for Z in full], names
        )
        gap = np.abs(risk.log_evidence[:, :, u].sum(axis=0) - exact)
        assert error.max() < 0.05, "brute force is not sharp"
        limit = 4 * np.hypot(risk.mcse_log_evidence[:, u], error)
        assert counted.sum() > 5 and (gap <= limit)[counted].all(), (gap, limit)
