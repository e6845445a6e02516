"""Realised privacy loss: closed forms, its meaning for posterior odds, bias, errors."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import bayes_risk as br
from bayes_risk.risk.privacy_loss import PrivacyLoss
from tests.helpers.one_class import one_class
from tests.oracles.kernel_twins import codes_of, simulate

A = 1.0  # the level prior


def evidence_of(table, m, **options):
    fit = one_class(table, draws=10)
    return br.attribute_evidence(fit, fit.synthesize(m, random_seed=2), random_seed=3, **options)


def by_hand(table, releases, i):
    """Log evidence of each level of the only column: Dirichlet-multinomial, one class."""
    d, y = len(table["x0"].cat.categories), codes_of(table)[:, 0]
    left = A + np.bincount(np.delete(y, i), minlength=d)
    return sum(
        np.log((left + np.bincount(codes_of(Z)[:, 0], minlength=d)) / left) for Z in releases
    )


@pytest.mark.parametrize("m", [1, 3])
def test_closed_form(m):
    table = simulate(40, (5,), seed=1)
    evidence = evidence_of(table, m)
    found = br.privacy_loss(evidence)
    exact = [np.ptp(by_hand(table, evidence.release.datasets, i)) for i in range(40)]
    assert found.records["privacy_loss"].to_numpy() == pytest.approx(exact, abs=1e-8)
    assert found.summary().loc["max_privacy_loss", "value"] == pytest.approx(max(exact), abs=1e-8)
    assert found.reliable.all() and found.mcse.max() < 1e-6
    assert found.low == pytest.approx(found.loss, abs=1e-6)


def test_no_prior_moves_the_odds_of_two_guesses_further():
    evidence = evidence_of(simulate(40, (5, 4), seed=2), 3, guesses=br.Neighbourhood(2))
    loss = br.privacy_loss(evidence).records["privacy_loss"].to_numpy()
    rng, attained = np.random.default_rng(1), []
    for prior in ("uniform", "marginal", br.TruthFactor(20.0), rng.dirichlet(np.ones(20))):
        risk = evidence.risk(prior)
        moved = (risk.log_probability - risk.log_prior)[:, risk.case]
        pairs = [np.abs(moved[a] - moved[b]) for a, b in combinations(range(20), 2)]
        assert (np.max(pairs, axis=0) <= loss + 1e-9).all()
        attained.append(np.max(pairs, axis=0))
    assert attained[0] == pytest.approx(loss)


@pytest.mark.parametrize("prior", [0.0, 0.001, 0.3, 1.0])
def test_bounds_hold_for_every_set_of_guesses(prior):
    evidence = evidence_of(simulate(25, (4,), seed=3), 2)
    found = br.privacy_loss(evidence)
    bounds = found.bounds(prior)
    rng = np.random.default_rng(2)
    for _ in range(50):
        weights = rng.dirichlet(np.full(4, 0.3))
        inside = rng.permutation(4) < rng.integers(1, 4)
        weights[inside] *= prior / weights[inside].sum()
        weights[~inside] *= (1 - prior) / weights[~inside].sum()
        if not weights.all():
            continue
        risk = evidence.risk(weights)
        p = np.exp(risk.log_probability)[inside].sum(axis=0)[risk.case]
        assert (p <= bounds["highest"] + 1e-9).all() and (p >= bounds["lowest"] - 1e-9).all()
    if prior in (0, 1):
        assert (bounds == prior).all(axis=None)
    with pytest.raises(br.InputError, match="prior=1.5 is not a probability"):
        found.bounds(1.5)


def test_even_odds_become_what_the_bound_says():
    found = br.privacy_loss(evidence_of(simulate(25, (4,), seed=3), 2))
    assert found.records["even_odds_become"].to_numpy() == pytest.approx(
        found.bounds(0.5)["highest"].to_numpy()
    )


def test_a_risk_gives_the_same_loss_and_an_error_that_is_no_smaller():
    table = simulate(60, (4, 3), n_classes=2, seed=4)
    fit = br.models.DPMPM(n_classes=15).fit(table, draws=100, tune=50, chains=2, random_seed=1)
    release = fit.synthesize(2, parameters="independent", random_seed=2)  # not Student's t
    evidence = br.attribute_evidence(fit, release, random_seed=3)
    of_evidence, of_risk = br.privacy_loss(evidence), br.privacy_loss(evidence.risk())
    assert of_risk.loss == pytest.approx(of_evidence.loss)
    assert (of_risk.mcse >= of_evidence.mcse - 1e-9).all() and of_evidence.mcse.min() > 0
    assert np.isnan(of_risk.low).all() and (of_evidence.low <= of_evidence.loss).all()


def test_guesses_without_prior_mass_do_not_count_in_a_risk():
    evidence = evidence_of(simulate(40, (5,), seed=1), 2)
    two = np.array([1.0, 1.0, 0.0, 0.0, 0.0])
    fewer, all_of_them = br.privacy_loss(evidence.risk(two)), br.privacy_loss(evidence)
    log_e = evidence.found.log_evidence.sum(axis=0)
    assert fewer.loss == pytest.approx(np.abs(log_e[0] - log_e[1]))
    assert (fewer.loss <= all_of_them.loss + 1e-12).all()


def test_impossible_guesses_make_the_loss_infinite_and_are_counted():
    table = simulate(30, (4,), seed=5)
    evidence = evidence_of(table, 1)
    unchanged = np.arange(len(evidence.cases)) == 1
    log_evidence = evidence.found.log_evidence.copy()
    log_evidence[:, 2, unchanged] = -np.inf
    found = br.privacy_loss(
        replace(evidence, found=replace(evidence.found, log_evidence=log_evidence))
    )
    assert np.isinf(found.loss).tolist() == unchanged.tolist()
    assert found.ruled_out.tolist() == unchanged.astype(int).tolist()
    left = np.delete(log_evidence.sum(axis=0)[:, 1], 2)
    assert found.among_possible[1] == pytest.approx(np.ptp(left))
    said = found.sentence()
    n = int((evidence.case == 1).sum())
    assert f"For {n} of 30 records this release excludes guesses with certainty" in said
    assert found.summary().loc["max_privacy_loss", "value"] == np.inf
    assert found.summary().loc["with_guesses_ruled_out", "value"] == n
    assert (found.bounds(0.2).loc[evidence.case == 1, "highest"] == 1).all()


def test_records_released_unchanged_lose_everything():
    table = simulate(30, (4,), seed=5)
    fit = one_class(table)
    release = fit.synthesize(1, records=np.arange(30) > 0, random_seed=2)
    evidence = br.attribute_evidence(fit, release, targets=[0, 1, 2], random_seed=3)
    found = br.privacy_loss(evidence).records
    assert np.isinf(found["privacy_loss"]).tolist() == [True, False, False]
    assert found["reliable"].all() and found["even_odds_become"].iloc[0] == 1


def test_the_largest_of_noisy_numbers_is_too_large_and_low_too_small():
    """Known evidence with noise of a known size, 400 cases of 12 guesses."""
    table = simulate(30, (12,), seed=6, sharpness=5)
    evidence = evidence_of(table, 1, targets=[0])
    rng = np.random.default_rng(1)
    truth = rng.normal(0, 1, 12)
    noise = rng.normal(0, 0.4, (1, 8, 12, 400))  # fits, batches, guesses, cases
    value = truth[:, None] + noise.mean(axis=1)[0]
    many = np.zeros(400, dtype=np.int64)
    cases = evidence.cases.only(many)
    given = replace(
        evidence,
        cases=cases,
        case=np.arange(400),
        index=pd.RangeIndex(400),
        disclosed=np.zeros(400, dtype=bool),
        found=replace(
            evidence.found,
            log_evidence=value[None],
            deviations=(noise - noise.mean(axis=1, keepdims=True)).astype(np.float32),
            khat=np.zeros(400),
            ess=np.full(400, np.inf),
            modes=None,
        ),
    )
    found, exact = br.privacy_loss(given), np.ptp(truth)

    def z(values):
        return (values.mean() - exact) / (values.std() / np.sqrt(400))

    assert z(found.loss) > 4 and z(found.low) < -4
    # with the extremes as they are, the error is that of a difference of two means of 8
    assert found.mcse.mean() == pytest.approx(0.4 * np.sqrt(2 / 8), rel=0.1)


def test_what_is_shown():
    table = simulate(30, (4, 3), seed=7)
    found = br.privacy_loss(evidence_of(table, 1))
    said = repr(found)
    assert (
        "not a guarantee of differential privacy" in " ".join(said.split())
        and "0 without the release" in said
    )
    assert found.summary().loc["max_privacy_loss", "baseline"] == 0
    assert found.summary().dtypes.eq(float).all()
    assert found.dataset["privacy_loss"].sizes == {"record": 30}
    ends = found.extreme_guesses(4)
    assert ends.index.tolist() == ["most", "least"] and list(ends) == ["x0", "x1"]
    with pytest.raises(br.InputError, match="99 is not among"):
        found.extreme_guesses(99)
    axes = found.plot()
    assert axes.get_xlabel() == "realised privacy loss"
    shown = axes.lines[0].get_xdata()
    assert shown == pytest.approx(np.sort(found.records["privacy_loss"]))


def test_extreme_guesses_are_those_the_release_speaks_for_most_and_least():
    table = simulate(30, (5,), seed=8)
    evidence = evidence_of(table, 2)
    ends = br.privacy_loss(evidence).extreme_guesses(3)["x0"].astype(str).tolist()
    log_e = by_hand(table, evidence.release.datasets, 3)
    assert ends == [f"l{log_e.argmax()}", f"l{log_e.argmin()}"]


def test_other_things_are_no_evidence():
    with pytest.raises(br.InputError, match="was given a DataFrame"):
        br.privacy_loss(simulate(5, (2,), seed=1))


# --- the beta-binomial synthesiser of McClure & Reiter (2012) ------------------------------------


def log_odds_of_release(a, b, n, s, z):
    """log p(z | y_i = 1) / p(z | y_i = 0), s ones among the n - 1 known, z among the n released."""
    return np.log((a + s + z) / (a + s)) + np.log((b + n - 1 - s) / (b + 2 * n - 1 - s - z))


@pytest.mark.parametrize(("n", "ones", "z"), [(12, 5, 7), (12, 1, 12), (20, 10, 0)])
def test_beta_binomial_loss_is_the_closed_form(n, ones, z):
    levels = ["no", "yes"]

    def binary(count):
        return pd.DataFrame({"x": pd.Categorical(["yes"] * count + ["no"] * (n - count), levels)})

    fit = one_class(binary(ones))
    release = br.Release(datasets=[binary(z)], synthesized=["x"])
    found = br.privacy_loss(br.attribute_evidence(fit, release, random_seed=1)).records
    for i, own in ((0, 1), (n - 1, 0)):
        exact = abs(log_odds_of_release(A, A, n, ones - own, z))
        assert found["privacy_loss"].iloc[i] == pytest.approx(exact, abs=1e-8)
    worst = max(abs(log_odds_of_release(A, A, n, s, z)) for s in range(n) for z in range(n + 1))
    assert worst == pytest.approx(np.log(1 + n / A))
    assert (found["privacy_loss"] <= worst + 1e-9).all()
    assert found["even_odds_become"].max() <= expit(worst)


def test_frozen():
    found = br.privacy_loss(evidence_of(simulate(30, (4,), seed=7), 1))
    assert isinstance(found, PrivacyLoss)
    with pytest.raises(AttributeError):
        found.loss = 0
