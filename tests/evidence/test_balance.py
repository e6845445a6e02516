"""Balance of the evidence: silent when all is right, loud when something was planted."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import bayes_risk as br
from bayes_risk.evidence.balance import ALARM, balance
from bayes_risk.reporting.verdicts.verdict import judge
from tests.helpers.edge_results import attribute, identification
from tests.helpers.fits import fit_of, release_of

N, CELLS, RECORDS, GUESSES = 3000, 400, 200, 8


def multinomial(seed, m=5, planted="nothing"):
    """Log ratios (m, P) of guess and truth: cells of a table, Dirichlet-multinomial, exact.

    ``p(Z | y*) / p(Z | y) = ((a_g + z_g) / a_g) / ((a_i + z_i) / a_i)``: a without the target.
    """
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(N, rng.dirichlet(np.full(CELLS, 0.6)))
    cell, after = np.repeat(np.arange(CELLS), counts), counts + 1.0
    target = cell[rng.choice(N, RECORDS, replace=False)]
    guess = rng.integers(CELLS, size=(RECORDS, GUESSES))
    theta = rng.dirichlet(after)
    z = []
    for _ in range(m):
        if planted != "one draw of the parameters":
            theta = rng.dirichlet(counts / 2 + 1.0 if planted == "another mechanism" else after)
        own = rng.random(N) < (0.3 if planted == "own classes" else 0.0)
        fresh = rng.multinomial(int((~own).sum()), theta)
        z.append(np.bincount(cell[own], minlength=CELLS) + fresh)
    shown, a_i, a_g = np.array(z), (after[target] - 1)[:, None], after[guess]
    log_r = np.log1p(shown[:, guess] / a_g) - np.log1p(shown[:, target][..., None] / a_i)
    shift = -0.05 if planted == "base fit stopped early" else 0.0
    return log_r[:, guess != target[:, None]] + shift


def marginal(y, X, prior):
    """Posterior of a conjugate normal regression, and log marginal likelihood of y."""
    precision, mean, a, d = prior
    after = precision + X.T @ X
    centre = np.linalg.solve(after, precision @ mean + X.T @ y)
    a_n = a + len(y) / 2
    d_n = d + (y @ y + mean @ precision @ mean - centre @ after @ centre) / 2
    logs = np.linalg.slogdet(precision)[1] / 2 - np.linalg.slogdet(after)[1] / 2
    logs += a * np.log(d) - a_n * np.log(d_n) + gammaln(a_n) - gammaln(a)
    return (after, centre, a_n, d_n), logs


def regression(seed, m=5, planted="nothing", n=300, records=60):
    """Log ratios (m, P) of a normal regression, exact."""
    rng = np.random.default_rng(seed)
    X = np.c_[np.ones(n), rng.normal(size=(n, 3))]
    y = X @ rng.normal(size=4) + rng.normal(size=n)
    prior = (np.eye(4) * 0.01, np.zeros(4), 1.0, 1.0)
    (precision, centre, a, d), _ = marginal(y, X, prior)
    root, z = np.linalg.cholesky(np.linalg.inv(precision)), []
    for l in range(m):
        if l == 0 or planted != "one draw of the parameters":
            variance = d / rng.gamma(a)
            beta = centre + root @ rng.normal(size=4) * np.sqrt(variance)
        spread = np.sqrt(variance * (0.8 if planted == "another mechanism" else 1.0))
        z.append(X @ beta + spread * rng.normal(size=n))
    out = []
    for i in rng.choice(n, records, replace=False):
        logs = []
        for off in (0.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5):
            moved = y.copy()
            moved[i] += off
            given, _ = marginal(moved, X, prior)
            logs.append([marginal(one, X, given)[1] for one in z])
        out.append(np.array(logs[1:]) - np.array(logs[0]))
    return np.concatenate(out).T


def of(log_r, deviations=None):
    """Balance of log ratios (m, P), each pair a case of its own."""
    P = log_r.shape[1]
    dev = np.zeros((1, 2, P)) if deviations is None else deviations
    return balance(log_r[:, None], dev[:, :, None], np.ones((1, P), bool), np.ones(P, int))


def outcomes(simulate, seeds, **how):
    return Counter(of(simulate(seed, **how)).outcome for seed in seeds)


def most(n, rate=ALARM):
    """Alarms that n sound audits pass with probability 1e-4 at most."""
    return stats.binom.isf(1e-4, n, rate)


def test_sound_evidence_is_in_balance():
    found = outcomes(multinomial, range(40))
    assert found["balanced"] >= 40 - most(40) and not found["not tested"]


@pytest.mark.parametrize("m", [3, 5])
def test_its_mean_is_one_within_its_error(m):
    found = [of(multinomial(seed, m)).mean for seed in range(40)]
    z = np.array([(one.value - 1) / one.error for one in found])
    assert abs(np.mean([one.value for one in found]) - 1) < 4 * np.std(
        [one.value for one in found]
    ) / np.sqrt(40)
    assert np.mean(np.abs(z) < stats.t.isf(0.025, m - 1)) > 0.8


def test_what_all_files_share_is_told():
    found = outcomes(multinomial, range(20), planted="one draw of the parameters")
    assert found["shared"] >= 18


@pytest.mark.parametrize("planted", ["another mechanism", "own classes", "base fit stopped early"])
def test_what_is_planted_moves_the_mean(planted):
    """At m = 10 most are told; at m = 5 the mean of repetitions shows it."""
    found = outcomes(multinomial, range(20), planted=planted, m=10)
    assert found["unbalanced"] + found["shared"] >= 12
    mean = np.mean([of(multinomial(seed, planted=planted)).mean.value for seed in range(20)])
    assert mean > 1.05 if planted == "another mechanism" else mean < 0.98


def test_a_pair_is_chosen_by_the_other_releases_alone():
    log_r = np.array([[0.1, 5.0], [0.1, 0.0], [-0.1, 0.0]])
    wild = np.repeat(log_r, [60, 40], axis=1)
    found = of(wild)
    assert found.mean.pairs == 60  # in releases 2 and 3 the wild ones are left out
    each = [(60 * np.exp(0.1) + 40 * np.exp(5.0)) / 100, np.exp(0.1), np.exp(-0.1)]
    assert found.mean.value == pytest.approx(np.mean(each))


@pytest.mark.parametrize("base", [False, True], ids=["of releases", "of the base"])
def test_noise_is_taken_out(base):
    """Noise of sd s lifts the mean ratio by exp(s^2 / 2), the base's lifts what is shared too."""
    m, B, sd = 5, 8, 0.1 if base else 0.2
    lifted, found = [], []
    for seed in range(20):
        rng, log_r = np.random.default_rng(seed), multinomial(seed)
        dev = np.zeros((m + 1, B, log_r.shape[1]))
        for f in [0] if base else range(1, m + 1):
            dev[f] = sd * np.sqrt(B) * rng.normal(size=dev[f].shape) * (m if base else 1)
        noise = np.repeat(-dev[:1].mean(axis=1) / m, m, axis=0) if base else dev[1:].mean(axis=1)
        lifted.append(of(log_r + noise).mean.value)
        found.append(of(log_r + noise, dev))
    assert np.mean(lifted) > 1 + 0.4 * sd**2
    means = np.array([one.mean.value for one in found])
    assert abs(means.mean() - 1) < 4 * means.std() / np.sqrt(20) + 0.004  # s^2 is estimated
    assert sum(one.outcome in ("unbalanced", "shared") for one in found) <= most(20)


def test_few_releases_or_pairs_say_nothing():
    assert of(multinomial(1, m=2)).outcome == of(multinomial(1, m=1)).outcome == "not tested"
    few = of(multinomial(1)[:, :20])
    assert few.outcome == "not tested" and "could not be tested: " in few.sentence()


def test_the_verdict_and_the_summary_have_it():
    risk, calm = attribute([0.2]), identification(n=60, ages=7)
    sound = replace(risk, balance=of(multinomial(0)))
    assert judge(sound, calm).outcome == "within your thresholds"
    assert sound.summary().at["balance", "baseline"] == 1
    assert sound.summary().at["shared_by_releases", "baseline"] == 0
    shared = replace(risk, balance=of(multinomial(0, planted="one draw of the parameters")))
    verdict = judge(shared, calm)
    assert verdict.outcome == "inconclusive"
    assert "one draw of the parameters" in verdict.deciding[0].sentence
    assert verdict.deciding[0].cure.startswith("parameters = ")
    wrong = multinomial(0, planted="own classes", m=10)
    verdict = judge(replace(risk, balance=of(wrong)), calm)
    assert verdict.outcome == "inconclusive"
    assert "another mechanism than the one audited" in verdict.deciding[0].sentence
    assert verdict.deciding[0].cure.startswith('targets = "all", or a fit with more')
    silent = replace(risk, balance=of(multinomial(0, m=2)))
    assert len(judge(silent, calm).reasons) == len(judge(risk, calm).reasons)


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_audits_have_it_where_its_expectation_is_known():
    how = {"targets": 5, "random_seed": 3}
    assert br.attribute_risk(fit_of("DPMPM"), release_of("DPMPM"), **how).balance is not None
    assert br.attribute_risk(fit_of("Forest"), release_of("Forest"), **how).balance is None


@pytest.mark.slow
@pytest.mark.parametrize("m", [3, 5, 10])
@pytest.mark.parametrize("simulate", [multinomial, regression], ids=lambda f: f.__name__)
def test_false_alarms_are_as_rare_as_stated(simulate, m):
    found = outcomes(simulate, range(1000, 1200), m=m)
    assert found["unbalanced"] + found["shared"] <= most(200)


def test_releases_that_say_nothing_share_nothing():
    """It was a division by nought."""
    m, pairs = 5, np.ones((3, 4), dtype=bool)
    found = balance(np.zeros((m, 3, 4)), np.zeros((m + 1, 20, 3, 4)), pairs, np.ones(4))
    assert found.mean.value == 1 and np.isnan(found.shared.value)
