"""Evidence against brute force: three records, binary variables, two classes."""

from functools import cache
from itertools import product

import numpy as np
import pytest

import bayes_risk as br
from tests.helpers.against import agree, each
from tests.oracles import three_records
from tests.oracles.label_sums import exact_log_evidence, monte_carlo_log_evidence
from tests.oracles.three_records import (
    GUESSES,
    PRIOR,
    Z1,
    Z2,
    Y,
    log_evidence,
    of_cells,
    partly,
    released,
    table,
)


@pytest.fixture(scope="module")
def fit():
    with pytest.warns(br.TruncationWarning):
        return three_records.fitted()


def audit(fit, release, **options):
    return br.attribute_risk(fit, release, guesses=br.Neighbourhood(2), random_seed=7, **options)


CLOSE = 1e-4
SAMPLED = ["predictive", "refit"]
RELEASES = {  # data sets, synthesised columns, how they were made
    "fresh classes": ([Z1], [0, 1], {}),
    "two releases": ([Z1, Z2], [0, 1], {}),
    "two releases from one draw": ([Z1, Z2], [0, 1], {"parameters": "shared"}),
    "own classes": ([Z1], [0, 1], {"classes": "own"}),
    "own classes, one column": ([Z1], [1], {"classes": "own"}),
}


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        *product(list(RELEASES)[1:], SAMPLED),
        *product(["fresh classes", "own classes"], ["importance"]),  # the published estimator
    ],
)
def test_evidence_is_the_sum_over_labels(fit, name, evidence):
    Zs, columns, how = RELEASES[name]
    Zs, own = [partly(Z, columns) for Z in Zs], "classes" in how
    risk = audit(fit, released(Zs, columns, **how), evidence=evidence)
    if "parameters" in how:  # one Theta behind both: their rows stand below one another
        assert len(risk.log_evidence) == 1
        Zs = [np.vstack(Zs)]
    agree(risk, each(lambda i, guess: log_evidence(Zs, i, guess, columns, own)), CLOSE)


@cache
def given_columns(m, level_prior=1.0, concentration=(0.5, 0.5)):
    """m tables of x1 given x0 from one draw; their log evidence by draws from the prior, errors."""
    Z = np.stack([partly(Z, [1]) for Z in (Z1, Z2)[:m]])
    rng = np.random.default_rng(11)
    prior = {"concentration": concentration, "level_prior": level_prior}
    by_draws = monte_carlo_log_evidence(
        Y, Z, GUESSES, 2, (2, 2), [1], draws=500_000, rng=rng, prior=prior
    )
    exact, error = (of_cells(found, [1]) for found in by_draws)
    return released(Z, [1], parameters="shared"), exact, error


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("evidence", SAMPLED)
def test_fresh_classes_given_unsynthesized_columns(fit, evidence, m):
    release, exact, error = given_columns(m)
    agree(audit(fit, release, evidence=evidence), exact, CLOSE, noise=error)


@pytest.mark.check
def test_given_columns_with_sparse_levels():
    """Sparse levels: masses range over many powers of ten, and sums must not lose the small."""
    model = br.models.DPMPM(n_classes=2, concentration_prior=(1.0, 1.0), level_prior=0.05)
    with pytest.warns(br.TruncationWarning):
        fit = model.fit(table(Y), draws=1000, tune=200, chains=4, thin=10, random_seed=5)
    _, exact, error = given_columns(1, 0.05, (1.0, 1.0))
    agree(audit(fit, released([partly(Z1, [1])], [1])), exact, CLOSE, noise=error)


def test_the_two_oracles_agree():
    i = 1
    log_e = [exact_log_evidence(Y, Z1, i, g, 2, (2, 2), **PRIOR) for g in GUESSES[i]]
    rng = np.random.default_rng(3)
    value, error = monte_carlo_log_evidence(
        Y, Z1, {i: GUESSES[i]}, 2, (2, 2), [0, 1], draws=400_000, rng=rng, prior=PRIOR
    )
    assert (np.abs(np.array(log_e) - log_e[0] - value[i]) <= 4 * error[i] + 1e-12).all()
