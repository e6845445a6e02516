"""Simulation-based calibration: when model and prior are right, probabilities are frequencies.

Theta from its prior, y from Theta, Z from p(Z | Theta') with Theta' ~ p(Theta | y). An intruder
whose prior is the model's own p(y_i | y_-i) then has a posterior of which the truth is one draw.
Records of one table depend on one another, so every standard error is taken between tables.
"""

import itertools

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.evidence.leave_one_out import leave_one_out
from bayes_risk.evidence.problem import cases_of
from bayes_risk.intruder.grids import as_guesses
from tests.helpers.fits import encoded
from tests.oracles.kernel_twins import categories, codes_of, simulate
from tests.oracles.weaker_calibration import table_from_the_prior

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::bayes_risk.TruncationWarning", "ignore::bayes_risk.UnreliableWeightsWarning"
    ),
]
LEVELS = (3, 2, 3)
N, M = 30, 2
CONCENTRATION = (2.0, 2.0)
MECHANISMS = {
    "new": {},
    "new, given columns": {"columns": ["x0", "x2"]},
    "own": {"classes": "own"},
    "own, some columns": {"classes": "own", "columns": ["x0", "x2"]},
}
BINS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 1.0)


MIXED = br.models.Mixture(
    families={"count": "count", "amount": "normal"},
    n_classes=2,
    concentration_prior=CONCENTRATION,
    rate_prior=(2.0, 0.5),
    scales={"amount": (0.0, 1.0)},
    normal_prior=(0.0, 0.1, 2.0, 0.5),
)
MOST = 40  # a count above it has no chance that matters


def mixed_from_the_prior(rng):
    """A category, a count and an amount, of two classes."""
    V = rng.beta(1, rng.gamma(CONCENTRATION[0], 1 / CONCENTRATION[1]))
    z = (rng.random(N) > V).astype(int)
    phi, rate = rng.dirichlet(np.ones(LEVELS[0]), 2), rng.gamma(2.0, 1 / 0.5, 2)
    precision = rng.gamma(2.0, 1 / 0.5, 2)
    mean = rng.normal(0.0, 1 / np.sqrt(0.1 * precision))
    return pd.DataFrame(
        {
            "x": categories(np.array([rng.choice(LEVELS[0], p=phi[k]) for k in z]), LEVELS[0]),
            "count": rng.poisson(rate[z]),
            "amount": rng.normal(mean[z], 1 / np.sqrt(precision[z])),
        }
    )


def every_value(table, columns):
    cells = itertools.product(*(table[c].cat.categories for c in columns))
    return br.Listed(pd.DataFrame(list(cells), columns=columns))


def exact_predictive(table, risk):
    """One class: log of prod_j (1 + n_jc^{-i}) for the guessed variables, shape (G, cases)."""
    y, where = codes_of(table), [table.columns.get_loc(v.name) for v in risk.variables]
    _, first = np.unique(risk.case, return_index=True)
    out = np.zeros(risk.log_prior.shape)
    for u, i in enumerate(first):
        for q, j in enumerate(where):
            left = np.bincount(np.delete(y[:, j], i), minlength=LEVELS[j])
            out[:, u] += np.log1p(left[risk.guesses[:, u, q]])
    return out


def own_predictive(fit, release, guesses, rng):
    """Several classes: log p(y* | y_-i) from the fit's own leave-one-out predictive."""
    cases, _ = cases_of(encoded(fit, release), br.Intruder(), guesses, np.arange(N))
    return leave_one_out(fit.posterior.predictives(cases, rng=rng)[0], cases, 1).value


def replicate(seed, K, options):
    """Posterior of all records, shape (G, N), and which guess is true."""
    rng = np.random.default_rng(seed)
    table = table_from_the_prior(rng, K)
    model = br.models.DPMPM(n_classes=K, concentration_prior=CONCENTRATION)
    draws = 10 if K == 1 else 400
    fit = model.fit(table, draws=draws, tune=100, chains=2, thin=5, random_seed=rng)
    release = fit.synthesize(M, **options, random_seed=rng)
    guesses = every_value(table, release.synthesized)
    risk = br.attribute_risk(fit, release, guesses=guesses, random_seed=rng)
    if K == 1:
        log_prior = exact_predictive(table, risk)
    else:
        log_prior = own_predictive(fit, release, guesses, rng)
    log_p = (log_prior + risk.log_evidence.sum(axis=0))[:, risk.case]
    p = np.exp(log_p - log_p.max(axis=0))
    return p / p.sum(axis=0), risk.truth[risk.case], rng


def mixed_replicate(seed, classes):
    """The same of a table with numbers, category and count guessed together."""
    rng = np.random.default_rng(seed)
    table = mixed_from_the_prior(rng)
    fit = MIXED.fit(table, draws=200, tune=100, chains=2, thin=5, random_seed=rng)
    release = fit.synthesize(M, columns=["x", "count"], classes=classes, random_seed=rng)
    guesses = {"x": br.Levels(), "count": br.Grid(bounds=(0, MOST - 1), n=MOST)}
    risk = br.attribute_risk(fit, release, guesses=guesses, random_seed=rng)
    log_p = own_predictive(fit, release, as_guesses(guesses, []), rng) + risk.log_evidence.sum(
        axis=0
    )
    p = np.exp(log_p - log_p.max(axis=0))[:, risk.case]
    return p / p.sum(axis=0), risk.truth[risk.case], rng


@pytest.mark.parametrize("classes", ["new", "own"])
def test_probabilities_of_mixed_tables_are_frequencies(classes):
    rows = [statistics(*mixed_replicate([7, r], classes)) for r in range(80)]
    table = pd.DataFrame(rows)
    error = table.std() / np.sqrt(len(table))
    z = table.mean() / error
    assert (z[error > 0].abs() < 4).all(), z.to_string()
    assert error["probability of the truth"] < 0.02


def statistics(p, truth, rng):
    """Averages over records that are zero in expectation if the truth is a draw from p."""
    mine = p[truth, np.arange(N)]
    hit = np.arange(len(p))[:, None] == truth
    above = (p * (p > mine + 1e-12)).sum(axis=0)
    level = (p * (np.abs(p - mine) <= 1e-12)).sum(axis=0)
    u = above + rng.random(N) * level - 0.5  # uniform: likelier values first, ties at random
    logs = np.log(np.maximum(p, 1e-300))
    out = {
        "probability of the truth": (mine - (p**2).sum(axis=0)).mean(),
        "log probability of the truth": (np.log(mine) - (p * logs).sum(axis=0)).mean(),
        "rank": u.mean(),
        "spread of the rank": (u**2 - 1 / 12).mean(),
    }
    for low, high in itertools.pairwise(BINS):
        inside = (p > low) & (p <= high)
        out[f"bin up to {high}"] = ((hit - p) * inside).sum(axis=0).mean()
    return out


def z_scores(K, options, n_tables):
    rows = [statistics(*replicate([K, r], K, options)) for r in range(n_tables)]
    table = pd.DataFrame(rows)
    return table.mean() / (table.std() / np.sqrt(n_tables)), table.std() / np.sqrt(n_tables)


@pytest.mark.parametrize(
    ("K", "n_tables", "mechanism"),
    [
        (1, 200, "new"),
        (1, 200, "own, some columns"),
        (3, 100, "new"),
        (3, 100, "new, given columns"),
        (3, 100, "own"),
        (3, 100, "own, some columns"),
    ],
)
def test_probabilities_are_frequencies(K, n_tables, mechanism):
    z, error = z_scores(K, MECHANISMS[mechanism], n_tables)
    assert (z.abs() < 4).all(), z.to_string()
    # and the check is sharp: probabilities wrong by a few per cent would show
    assert error["probability of the truth"] < 0.02


def test_leaving_the_link_out_understates_the_risk():
    """Releases from the records' own classes, audited as if from fresh ones: understated."""
    gaps = []
    for r in range(60):
        rng = np.random.default_rng([9, r])
        table = table_from_the_prior(rng, 3)
        model = br.models.DPMPM(n_classes=3, concentration_prior=CONCENTRATION)
        fit = model.fit(table, draws=200, tune=100, chains=2, thin=5, random_seed=rng)
        own = fit.synthesize(M, classes="own", random_seed=rng)
        new = br.Release(datasets=own.datasets, synthesized=own.synthesized)
        found = [
            br.attribute_risk(fit, release, random_seed=rng).records["probability"]
            for release in (own, new)
        ]
        gaps.append((found[0] - found[1]).mean())
    assert np.mean(gaps) > 4 * np.std(gaps) / np.sqrt(len(gaps))


@pytest.mark.parametrize("mechanism", ["new", "new, given columns", "own"])
def test_reported_errors_are_the_errors_of_repeated_audits(mechanism):
    """z-scores of 40 short audits against a long one spread about 1."""
    table = simulate(60, (3, 2, 4), 2, seed=81)
    model = br.models.DPMPM(n_classes=3)
    options = {"tune": 200, "thin": 2, "chains": 4}
    long = model.fit(table, draws=10_000, **options, random_seed=1)
    release = long.synthesize(M, **MECHANISMS[mechanism], random_seed=2)
    risk = br.attribute_risk(long, release, random_seed=3)
    truth, small = risk.records["probability"], risk.records["mcse"]
    z = []
    for r in range(40):
        fit = model.fit(table, draws=200, **options, random_seed=[4, r])
        short = br.attribute_risk(fit, release, random_seed=[5, r]).records
        z.append((short["probability"] - truth) / np.hypot(short["mcse"], small))
    z = np.array(z)
    spread = np.median(np.abs(z), axis=0) / 0.6745
    assert 0.5 < np.median(spread) < 2
    assert 0.5 < np.sqrt((z**2).mean()) < 2
