"""What a guess would move in cheap models: against exact evidence, and by hand."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.models.simulator import scores
from bayes_risk.models.simulator.features import Features
from bayes_risk.models.simulator.scores import scores_of
from tests.oracles.generator_exact import Cells

pytestmark = pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")  # few runs


def evidence(y, levels, j, Z, rows, guesses):
    """Of guesses (G,) or (U, G) of column j for some rows, by name of the model."""
    W = np.repeat(y[rows][:, None], np.shape(guesses)[-1], axis=1)
    W[:, :, j] = guesses
    known = [k for k in range(y.shape[1]) if k != j]
    models = scores_of(y, np.array(levels), np.array([j]), {j: known})
    return {name: score.evidence(y, Z, W, rows) for name, score in models}


def off_mean(x):
    return x - x.mean(axis=1, keepdims=True)


def test_of_a_category_they_are_half_the_exact_evidence():
    rng, n = np.random.default_rng(4), 600
    x = rng.integers(0, 4, n)
    s = np.where(rng.random(n) < 0.4, x, rng.integers(0, 4, n))
    cells = Cells(x, 4, 0.5)
    z = cells.draw(s, rng)
    y, file = np.column_stack([x, s]).astype(float), np.column_stack([x, z]).astype(float)
    found = off_mean(evidence(y, [4, 4], 1, file[None], np.arange(n), np.arange(4.0))["1"])
    exact = off_mean(cells.log_evidence(s, z))
    slope = (found * exact).sum() / (found**2).sum()
    assert np.corrcoef(found.ravel(), exact.ravel())[0, 1] > 0.97 and abs(slope - 0.5) < 0.06


def two_classes(n, rng):
    """Five levels of each of three columns, independent within two classes."""
    shares = np.random.default_rng(5).dirichlet(np.full(5, 0.4), (2, 3))
    k = rng.integers(0, 2, n)
    return np.array([[rng.choice(5, p=shares[c, j]) for j in range(3)] for c in k]).astype(float)


def test_of_classes_they_follow_a_mixture_fitted_with_and_without_the_files(monkeypatch):
    """log p(g | y_-i and Z) - log p(g | y_-i), each by EM from the true classes on."""
    monkeypatch.setattr(scores, "CLASSES", (2,))
    rng, n = np.random.default_rng(6), 600
    y, Z = two_classes(n, rng), two_classes(n, rng)[None]
    rows, guesses = np.arange(0, n, 10), np.arange(5.0)

    def log_p(table, known):
        """Of the guesses of the last column."""
        X = np.eye(5)[table.astype(int)]  # (rows, 3, 5)
        shares = np.random.default_rng(5).dirichlet(np.full(5, 0.4), (2, 3)) + 1e-3
        weight = np.full(2, 0.5)
        for _ in range(200):
            r = weight * np.exp(np.einsum("njl,cjl->nc", X, np.log(shares)))
            r /= r.sum(axis=1, keepdims=True)
            weight = r.mean(axis=0)
            shares = np.einsum("nc,njl->cjl", r, X) + 0.5
            shares /= shares.sum(axis=2, keepdims=True)
        by_class = weight * np.prod([shares[:, j, int(known[j])] for j in range(2)], axis=0)
        p = by_class @ shares[:, 2]
        return np.log(p / p.sum())

    exact = []
    for i in rows:
        others = np.delete(y, i, axis=0)
        exact.append(log_p(np.concatenate([others, Z[0]]), y[i]) - log_p(others, y[i]))
    found = evidence(y, [5, 5, 5], 2, Z, rows, guesses)["classes 2"]
    assert np.corrcoef(off_mean(found).ravel(), off_mean(np.array(exact)).ravel())[0, 1] > 0.8


@pytest.mark.parametrize("j", [0, 2])
def test_they_do_not_look_at_the_guessed_value_of_the_record(j):
    """But for the shape of the models, which is that of all records."""
    rng, n = np.random.default_rng(7), 300
    y = np.column_stack([rng.integers(0, 3, n), rng.normal(size=n), rng.normal(size=n)])
    Z, W, other = rng.permuted(y, axis=0)[None], np.repeat(y[:1, None], 3, axis=1), y.copy()
    W[0, :, j], other[0, j] = np.arange(3), 2.0 - y[0, j]
    order = {j: [k for k in range(3) if k != j]}
    for name, score in scores_of(y, np.array([3, 0, 0]), np.array([j]), order):
        found = [score.evidence(table, Z, W, np.array([0])) for table in (y, other)]
        assert np.allclose(*found), name


def test_tables_of_few_records_wide_categories_and_constants():
    rng = np.random.default_rng(8)
    y = np.column_stack([rng.integers(0, 90, 60), np.full(60, 4.2), np.zeros(60)])
    found = evidence(y, [90, 0, 2], 0, y[None], np.arange(3), np.arange(90.0))
    assert found and all(np.isfinite(value).all() for value in found.values())


def test_a_table_too_wide_for_scores_keeps_the_likelihood_in_regressions():
    """Six columns of twenty levels: no model of them is small enough for a score."""
    rng = np.random.default_rng(9)
    df = pd.DataFrame({f"c{k}": rng.permutation(80) % 20 for k in range(6)}).astype("category")
    data = br.Microdata.from_frame(df.assign(pay=rng.normal(size=80)), numbers=["pay"])
    y, guesses = data.codes.astype(float), np.linspace(-1, 1, 4)[:, None, None] * np.ones((4, 3, 1))
    numbers = {}
    for whole in (True, False):
        how = Features.of(data, np.array([6]), linked=False, whole=whole).with_sizes(y, y[None])
        assert how.scores == []
        numbers[whole] = how.made(y, y[None], np.arange(3), guesses)[0].shape[-1]
    assert numbers[True] - numbers[False] == 4  # on none, one, two and all of the known columns


@pytest.mark.check
@pytest.mark.parametrize("kind", ["null", "known"])
def test_a_regression_of_the_package_is_found_and_a_null_is_not(kind):
    """30 runs, m = 5: half of the exact information at least, which is .02 to .03 a record."""
    gains = []
    for seed in range(3):
        rng, n = np.random.default_rng([8, seed]), 500
        x, c = rng.normal(size=n).round(2), rng.integers(0, 4, n)
        pay = (20 + 3 * x + np.array([0, 2, 5, 1])[c] + rng.normal(0, 4, n)).round(1)
        df = pd.DataFrame({"c": pd.Categorical.from_codes(c, list("pqrs")), "x": x, "pay": pay})
        known = br.models.Regression({"pay": "1 + x + C(c)"})

        def make(table, m, seed, first=df, known=known):
            table = table if kind == "known" else first
            fit = known.fit(table, draws=10, chains=1, random_seed=seed)
            return list(fit.synthesize(m, random_seed=seed + 1).datasets)

        fit = br.models.Simulator(make, columns=["pay"]).fit(df)
        grid = {"pay": br.Grid(percent=40, n=11)}
        release = fit.synthesize(5, random_seed=1)
        risk = br.attribute_risk(fit, release, guesses=grid, random_seed=2)
        gains.append(risk.learnt.gain)
        assert not risk.learnt.overconfident
    assert np.mean(gains) > 0.012 if kind == "known" else max(gains) == 0


def test_members_are_found_in_tables_with_numbers():
    rng = np.random.default_rng(3)
    df = pd.DataFrame({"a": rng.choice(list("pqrs"), 300), "x": rng.normal(size=300).round(2)})

    def make(table, m, seed):
        return table.sample(frac=1, replace=True, random_state=seed, ignore_index=True)

    fit = br.models.Simulator(make, runs=10).fit(df)
    found = br.membership(fit, fit.synthesize(1, random_seed=1), random_seed=2)
    auc = found.summary().loc["auc"]
    assert 0.65 < auc["value"] < 0.82 + 4 * auc["standard_error"]  # 63 % of them are drawn
