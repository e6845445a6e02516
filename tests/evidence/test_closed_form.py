"""One class: evidence, posterior and priors against the Dirichlet-multinomial closed form."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.demo import fair
from tests.helpers.one_class import one_class
from tests.oracles.kernel_twins import categories, simulate

A = 1.0  # the level prior
ROUNDING = 1e-8


def redbook():
    """Three columns of the 1974 Redbook survey, 6,366 women."""
    return fair()[["rate_marriage", "religious", "occupation"]]


def closed_form(table, release, i, guesses):
    """log prod_j prod_l (a + n_jc^{-i} + z_jc) / (a + n_jc^{-i}); guesses: level codes (G, q)."""
    log_e = np.zeros(len(guesses))
    for j, name in enumerate(release.synthesized):
        d, y = len(table[name].cat.categories), table[name].cat.codes.to_numpy()
        left = np.bincount(y, minlength=d) - (np.arange(d) == y[i])
        for Z in release.datasets:
            z = np.bincount(Z[name].cat.codes, minlength=d)
            log_e += np.log((A + left + z) / (A + left))[guesses[:, j]]
    return log_e


def posterior(log_e, prior=None):
    w = np.exp(log_e - log_e.max()) * (1.0 if prior is None else prior)
    return w / w.sum()


def total_variation(p, q):
    return 0.5 * np.abs(p - q).sum()


@cache
def simulated(n, levels, seed):
    return simulate(n, levels, seed=seed)


@cache
def fit_of_simulated(n, levels, seed):
    return one_class(simulated(n, levels, seed), 20)


def audit(table, m, *, draws=100, fit=None, columns=None, classes="new", **options):
    fit = fit or one_class(table, draws)
    release = fit.synthesize(m, columns, classes=classes, random_seed=2)
    return release, br.attribute_risk(fit, release, random_seed=3, **options)


def largest_distance(table, release, risk):
    """Largest total variation over all targets; records with the same case share the answer."""
    _, first = np.unique(risk.case, return_index=True)
    worst = 0.0
    for t in first:
        u, i = risk.case[t], table.index.get_loc(risk.index[t])
        exact = posterior(closed_form(table, release, i, risk.guesses[:, u]))
        worst = max(worst, total_variation(np.exp(risk.log_probability[:, u]), exact))
    return worst


@pytest.mark.parametrize(
    ("make", "m"),
    [
        (lambda: simulate(200, (4, 3, 6), seed=1), 1),
        (lambda: simulate(200, (4, 3, 6), seed=1), 5),
        pytest.param(redbook, 5, marks=pytest.mark.check),
    ],
    ids=["simulated-1", "simulated-5", "redbook-5"],
)
def test_every_record(make, m):
    """However few draws: evidence with one class has no Monte Carlo error."""
    table = make()
    release, risk = audit(table, m)
    assert len(risk.records) == len(table)
    assert risk.n_guesses == 1 + sum(len(table[c].cat.categories) - 1 for c in table)
    assert largest_distance(table, release, risk) < ROUNDING
    assert (risk.khat == 0).all() and risk.reliable.all()


@pytest.mark.parametrize("evidence", ["predictive", "refit"])
@pytest.mark.parametrize(
    ("columns", "classes"),
    [(None, "new"), (None, "own"), (["x1"], "new"), (["x0", "x2"], "new"), (["x0", "x2"], "own")],
)
def test_every_mechanism(evidence, columns, classes):
    """With one class the record's own class is everybody's, and given columns tell nothing."""
    table, fit = simulated(60, (4, 3, 6), 2), fit_of_simulated(60, (4, 3, 6), 2)
    options = {"fit": fit, "columns": columns, "classes": classes, "evidence": evidence}
    release, risk = audit(table, 3, **options, targets=table.index[:12].tolist())
    assert len(risk.index) == 12
    assert largest_distance(table, release, risk) < ROUNDING


@pytest.mark.check
@pytest.mark.filterwarnings("ignore:column .* levels, most of them with few")
def test_one_variable_of_300_cells():
    rng = np.random.default_rng(4)
    codes = rng.choice(300, p=rng.dirichlet(np.full(300, 0.7)), size=400)
    table = pd.DataFrame({"cell": categories(codes, 300)})
    release, risk = audit(table, 5, draws=20)
    assert risk.n_guesses == 300
    assert largest_distance(table, release, risk) < ROUNDING


def test_log_evidence_of_each_release_is_kept():
    table = simulate(50, (3, 4), seed=5)
    release, risk = audit(table, 4)
    for l, Z in enumerate(release.datasets):
        one = br.Release(datasets=[Z], synthesized=release.synthesized)
        u = risk.case[7]
        exact = closed_form(table, one, 7, risk.guesses[:, u])
        relative = exact - exact[risk.truth[u]]
        assert np.allclose(risk.log_evidence[l, :, u], relative, atol=ROUNDING)


def marginal_by_hand(table, i, guesses):
    p = np.ones(len(guesses))
    for j, name in enumerate(table):
        y, d = table[name].cat.codes.to_numpy(), len(table[name].cat.categories)
        left = np.bincount(np.delete(y, i), minlength=d)
        p *= ((left + 1) / (len(table) - 1 + d))[guesses[:, j]]
    return p


def by_function(guesses):
    """Takes the table of a target's guesses, as a user would write it."""
    return 1.0 + (guesses["x0"].astype(str) == "l2")


PRIORS = {
    "uniform": ("uniform", lambda table, i, g, truth: np.ones(6)),
    "marginal": ("marginal", lambda table, i, g, truth: marginal_by_hand(table, i, g)),
    "factor": (br.TruthFactor(10.0), lambda table, i, g, truth: 1.0 + 9.0 * truth),
    "array": (np.arange(1.0, 7.0), lambda table, i, g, truth: np.arange(1.0, 7.0)),
    "function": (by_function, lambda table, i, g, truth: 1.0 + (g[:, 0] == 2)),
}


@pytest.mark.parametrize("name", PRIORS)
def test_priors_enter_once_for_all_releases(name):
    """Posterior odds are evidence times prior odds, not prior odds to the power m."""
    prior, by_hand = PRIORS[name]
    table = simulated(80, (4, 3), 6)
    release, risk = audit(table, 5, fit=fit_of_simulated(80, (4, 3), 6), prior=prior)
    for i in (0, 11, 42):
        u = risk.case[i]
        guesses, truth = risk.guesses[:, u], np.arange(6) == risk.truth[u]
        expected = by_hand(table, i, guesses, truth)
        exact = posterior(closed_form(table, release, i, guesses), expected)
        assert np.allclose(np.exp(risk.log_prior[:, u]), expected / expected.sum())
        assert total_variation(np.exp(risk.log_probability[:, u]), exact) < ROUNDING
