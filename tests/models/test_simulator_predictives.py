"""What cheap models predict with and without the files: against closed forms, and by hand."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.models.simulator import predictives
from bayes_risk.models.simulator.features import Features
from bayes_risk.models.simulator.predictives import LEVEL, OTHER, predictive_ratio, predictives_of
from tests.oracles.generator_exact import Cells, Line

pytestmark = pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")  # few runs


def each(y, levels, j, Z, rows, guesses, rest=None):
    """Evidence of guesses (G,) or (U, G) of column j for some rows, by name of the model."""
    W = np.repeat(y[rows][:, None], np.shape(guesses)[-1], axis=1)
    W[:, :, j] = guesses
    known = [k for k in range(y.shape[1]) if k != j]
    models = predictives_of(
        y if rest is None else rest, np.array(levels), np.array([j]), {j: known}
    )
    return {name: predictive_ratio(some, y, Z, W, rows) for name, some in models}


def off_mean(x):
    return x - x.mean(axis=1, keepdims=True)


def as_ratio(found):
    """What was a ratio, of mean 1 under the predictive, before it was mixed with 1."""
    return np.log((np.exp((1 - OTHER) * found) - OTHER) / (1 - OTHER))


def test_of_margins_they_are_the_exact_evidence(monkeypatch):
    """log (a + k + z) / (a + k), k without the record itself; two files."""
    monkeypatch.setattr(predictives, "CLASSES", (1,))
    rng, n = np.random.default_rng(4), 60
    s, files = rng.integers(0, 4, n), rng.integers(0, 4, (2, n))
    cells = Cells(np.zeros(n, dtype=int), 4, LEVEL)
    y, Z = (np.stack([0.0 * v, v], axis=-1) for v in (s, files))
    found = each(y, [1, 4], 1, Z, np.arange(n), np.arange(4.0))["classes"]
    exact = sum(cells.log_evidence(s, z) for z in files)
    assert np.allclose(off_mean(as_ratio(found)), off_mean(exact))


@pytest.mark.parametrize("m", [1, 3])
def test_of_a_regression_they_are_the_exact_evidence(m):
    rng, n = np.random.default_rng(3), 200
    x = rng.integers(0, 6, n).astype(float)
    pay = 20 + 3 * x + rng.normal(0, 3, n)
    line, rows = Line(x), np.arange(0, n, 16)
    guesses = (20 + 3 * x[rows])[:, None] + np.linspace(-6, 6, 9)  # two deviations
    Z, exact = np.stack([line.draw(pay, rng) for _ in range(m)]), []
    for i, tried in zip(rows, guesses, strict=True):
        placed = np.repeat(pay[None], len(tried), axis=0)
        placed[:, i] = tried
        exact.append([line.log_evidence(one, Z) for one in placed])
    y = np.column_stack([x, pay])
    files = np.stack([np.column_stack([x, z]) for z in Z])
    found = off_mean(as_ratio(each(y, [0, 0], 1, files, rows, guesses)["line 1"]))
    exact = off_mean(np.array(exact))
    slope = (found * exact).sum() / (found**2).sum()
    assert np.corrcoef(found.ravel(), exact.ravel())[0, 1] > 0.99 and abs(slope - 1.0) < 0.05


def two_classes(n, rng):
    """Five levels of each of three columns, independent within two classes."""
    shares = np.random.default_rng(5).dirichlet(np.full(5, 0.4), (2, 3))
    k = rng.integers(0, 2, n)
    return np.array([[rng.choice(5, p=shares[c, j]) for j in range(3)] for c in k]).astype(float)


def test_of_classes_they_follow_a_mixture_fitted_with_and_without_the_files(monkeypatch):
    """log p(g | y_-i and Z) - log p(g | y_-i), each by EM from the true classes on."""
    monkeypatch.setattr(predictives, "CLASSES", (2,))
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
            shares = np.einsum("nc,njl->cjl", r, X) + LEVEL
            shares /= shares.sum(axis=2, keepdims=True)
        by_class = weight * np.prod([shares[:, j, int(known[j])] for j in range(2)], axis=0)
        p = by_class @ shares[:, 2]
        return np.log(p / p.sum())

    exact = []
    for i in rows:
        others = np.delete(y, i, axis=0)
        exact.append(log_p(np.concatenate([others, Z[0]]), y[i]) - log_p(others, y[i]))
    found = each(y, [5, 5, 5], 2, Z, rows, guesses)["classes"]
    assert np.corrcoef(off_mean(found).ravel(), off_mean(np.array(exact)).ravel())[0, 1] > 0.9


@pytest.mark.parametrize("j", [0, 2])
def test_they_do_not_look_at_the_guessed_value_of_the_record(j):
    """But for what classes are, which is read off all records."""
    rng, n = np.random.default_rng(7), 300
    y = np.column_stack([rng.integers(0, 3, n), rng.normal(size=n), rng.normal(size=n)])
    Z, guesses, other = rng.permuted(y, axis=0)[None], np.arange(3.0), y.copy()
    other[0, j] = 2.0 - y[0, j]
    found = [each(t, [3, 0, 0], j, Z, np.array([0]), guesses, rest=y) for t in (y, other)]
    for name, value in found[0].items():
        assert np.allclose(value, found[1][name]), name


def test_tables_of_few_records_wide_categories_and_constants():
    rng = np.random.default_rng(8)
    y = np.column_stack([rng.integers(0, 90, 60), np.full(60, 4.2), np.zeros(60)])
    for j, guesses in ((0, np.arange(90.0)), (1, np.arange(3.0))):
        found = each(y, [90, 0, 2], j, y[None], np.arange(3), guesses)
        assert found and all(np.isfinite(value).all() for value in found.values())


def test_members_are_judged_without_predictives():
    """They would tell how many records were left out."""
    rng = np.random.default_rng(9)
    df = pd.DataFrame({"a": pd.Categorical(rng.integers(0, 20, 80)), "pay": rng.normal(size=80)})
    data = br.Microdata.from_frame(df, numbers=["pay"])
    y, guesses = data.codes.astype(float), np.linspace(-1, 1, 4)[:, None, None] * np.ones((4, 3, 1))
    numbers = {}
    for whole in (True, False):
        how = Features.of(data, np.array([1]), linked=False, whole=whole)
        how.learn([(y, y[None])])
        numbers[whole] = how.made(y, y[None], np.arange(3), guesses)[0].shape[-1]
    assert numbers[True] - numbers[False] == 3  # of classes; regressions on none and on one


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
