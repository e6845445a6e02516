"""The figures of `docs/evidence.md`, in closed form: risk, balance, and variance of estimates."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import bayes_risk as br
from bayes_risk.demo import fair

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "evidence.md").read_text()
N, CELLS, M, GUESSES, RECORDS, SETS = 10_000, 2_000, 5, 36, 250, 40
WAYS = ("independent", "shared", "plug-in")
WRONG = (
    ("shared", "independent"),
    ("independent", "shared"),
    ("plug-in", "independent"),
    ("plug-in", "shared"),
)

pytestmark = pytest.mark.check


def log_evidence(way, left, z, a):
    """Of guesses in cells with ``left`` other records and z (m, ...) released ones."""
    if way == "independent":
        return np.log((a + left + z) / (a + left)).sum(axis=0)
    if way == "shared":
        return np.log((a + left + z.sum(axis=0)) / (a + left))
    return z.sum(axis=0) * np.log((a + left + 1) / (a + left))


@cache
def figures(a):
    """Mean risk, 95 % quantile, balance of the evidence, by how made and how audited."""
    rng = np.random.default_rng(1)
    y = rng.multinomial(N, rng.dirichlet(np.ones(CELLS)))
    unique = rng.choice(np.flatnonzero(y == 1), RECORDS, replace=False)
    others = [rng.choice(np.delete(np.arange(CELLS), c), GUESSES - 1, False) for c in unique]
    guess = np.column_stack([unique, others])
    left = y[guess] - (np.arange(GUESSES) == 0)
    found = {(made, taken): [] for made in WAYS for taken in WAYS}
    for _ in range(SETS):
        theta = rng.dirichlet(a + y, size=M)
        estimate = (a + y) / (a + y).sum()
        made = {
            "independent": np.stack([rng.multinomial(N, t) for t in theta]),
            "shared": rng.multinomial(N, theta[0], size=M),
            "plug-in": rng.multinomial(N, estimate, size=M),
        }
        for how, taken in found:
            log_e = log_evidence(taken, left, made[how][:, guess], a)
            found[how, taken].append(log_e - log_e[:, :1])
    out = {}
    for pair, logs in found.items():
        e = np.exp(np.array(logs))  # shape (sets, records, guesses)
        p = 1.0 / e.sum(axis=2)
        balance = e[:, :, 1:].mean(axis=(1, 2))
        out[pair] = p.mean(), np.quantile(p, 0.95), balance.mean(), balance.std() / SETS**0.5
    return out


def row_of(first):
    """Numbers of the line of the page's tables that begins so."""
    (line,) = re.findall(rf"^\|{re.escape(first)}\|(.*)\|$", PAGE, flags=re.MULTILINE)
    return [float(x) for x in re.findall(r"[\d.]+", line)]


@pytest.mark.parametrize("way", WAYS)
def test_risk_of_sample_uniques_is_what_the_page_says(way):
    told = row_of(f"`{way}`")
    found = [figures(a)[way, way][k] for a in (1.0, 0.1) for k in (0, 1)]
    np.testing.assert_allclose(told[:4], found, atol=0.0051)


def test_right_audits_balance_and_wrong_ones_do_not():
    for made, taken in WRONG:
        risk, _, balance, error = figures(1.0)[made, taken]
        assert abs(balance - 1.0) > 4 * error, (made, taken)
        told = row_of(f"`{made}` audited as `{taken}`")
        np.testing.assert_allclose(told[0], risk, atol=0.0051)
        np.testing.assert_allclose(told[1], balance, rtol=0.05)
    for way in WAYS:
        _, _, balance, error = figures(1.0)[way, way]
        assert abs(balance - 1.0) < 4 * error, way


def drawn(way, m, rng):
    """Estimates of a mean whose variance within is 1, from m data sets; the truth is 0."""
    observed = rng.normal()
    centre = observed + (rng.normal() if way == "shared" else 0.0)
    spread = 2.0 if way == "independent" else 1.0
    return centre + np.sqrt(spread) * rng.normal(size=m)


@pytest.mark.parametrize(
    ("way", "times"), [("independent", 1.4), ("shared", 2.2), ("plug-in", 1.2)]
)
def test_variance_of_a_combined_estimate_and_coverage_of_its_interval(way, times):
    """u + b/m estimates what it should, but where all data sets come from one draw."""
    rng, runs = np.random.default_rng(3), 2_000
    rows = [br.combine(drawn(way, M, rng), np.ones(M)).table.iloc[0] for _ in range(runs)]
    estimate = np.array([row["estimate"] for row in rows])
    assert abs(estimate.var() - times) < 4 * times * np.sqrt(2 / runs)
    covered = np.mean([row["low"] <= 0 <= row["high"] for row in rows])
    said = 1.2 if way == "shared" else times
    exact = 1 - 2 * norm.sf(1.96 * np.sqrt(said / times))
    assert abs(covered - exact) < 4 * np.sqrt(exact * (1 - exact) / runs) + 0.005
    told = row_of(f"one estimate, `{way}`")
    np.testing.assert_allclose(told, [times, said, 100 * exact], atol=0.051)


def test_files_from_one_draw_of_the_parameters_have_one_evidence():
    table = fair()[["religious", "occupation", "rate_marriage"]].head(500)
    model = br.models.CART(["occupation", "rate_marriage"], min_leaf=30)
    fit = model.fit(table, random_seed=1)
    release = fit.synthesize(3, parameters="shared", random_seed=2)
    assert release.parameters == "shared"
    risk = br.attribute_risk(fit, release, targets=20, random_seed=3)
    assert risk.assumptions["releases"] == "m = 3, all from one draw of the parameters"
    assert len(risk.log_evidence) == 1
