"""p(y* | y_-i) of models without draws, against fits and counts without the record."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayes_risk as br
from bayes_risk.evidence.prior_weights import PriorContext, prior_weights

N = 40


def predicted(fit, release, *, rows, **how):
    """Predictive prior of some targets, (G, n), and their guesses (G, n, q)."""
    kept = br.attribute_evidence(fit, release, targets=list(rows), random_seed=1, **how)
    context = PriorContext(kept.microdata, kept.cases, kept.encoded, kept.base)
    p = np.exp(prior_weights("predictive", context).log_p)
    return p[:, kept.case], kept.cases.guesses.codes[:, kept.case]


def categories(seed=1):
    rng = np.random.default_rng(seed)
    codes = rng.integers(3, size=(N, 3))
    codes[:, 1] = np.where(rng.random(N) < 0.7, codes[:, 0], codes[:, 1])
    return pd.DataFrame(
        {c: pd.Categorical(np.array(list("abc"))[codes[:, j]]) for j, c in enumerate("uvw")}
    )


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("parameters", ["independent", "plug-in"])
def test_exact_regressions_predict_as_all_rows_together(log, parameters):
    rng = np.random.default_rng(2)
    x = rng.normal(size=12)
    y = 1.0 + x + 0.5 * rng.normal(size=12)
    df = pd.DataFrame({"x": x, "y": np.exp(y) if log else y})
    family = {"y": "lognormal" if log else "normal"}
    fit = br.models.Regression({"y": "1 + x"}, families=family).fit(
        df, draws=20, chains=2, random_seed=1
    )
    release = fit.synthesize(2, parameters=parameters, random_seed=2)
    step = br.Grid(percent=30, n=5)
    got, guesses = predicted(fit, release, rows=[3], guesses={"y": step}, evidence="exact")
    at, scaling = guesses[:, 0, 0], fit.posterior.parts[0].part.scaling
    X = np.column_stack([np.ones(12), (x - scaling.centre[1]) / scaling.scale[1]])
    # all rows together: a Student t with 2 a degrees of freedom, beta and sigma^2 integrated out
    shape = np.eye(12) + X @ np.diag([10.0**2, 2.5**2]) @ X.T
    rows = np.repeat(((y - scaling.at) / scaling.by)[None], len(at), axis=0)
    rows[:, 3] = ((np.log(at) if log else at) - scaling.at) / scaling.by
    want = stats.multivariate_t(np.zeros(12), shape, df=2).pdf(rows) / (at if log else 1.0)
    assert np.allclose(got[:, 0], want / want.sum(), rtol=1e-9)


def test_margins_predict_as_counts_without_the_record():
    df = categories()
    fit = br.models.Marginals(level_prior=0.5).fit(df)
    release = fit.synthesize(2, random_seed=1)
    rows = range(4)
    got, guesses = predicted(fit, release, rows=rows, guesses=br.Neighbourhood(3))
    codes = np.stack([df[c].cat.codes for c in df], axis=1)
    for k, i in enumerate(rows):
        rest = np.delete(codes, i, axis=0)
        want = np.array(
            [np.prod([(rest[:, j] == g[j]).sum() + 0.5 for j in range(3)]) for g in guesses[:, k]]
        )
        assert np.allclose(got[:, k], want / want.sum(), rtol=1e-12)


def test_trees_predict_as_the_rest_of_their_leaves_and_one_more_record():
    df = categories()
    fit = br.models.CART(order=["u", "v"], min_leaf=6).fit(df, random_seed=1)
    release = fit.synthesize(2, random_seed=1)
    rows = range(5)
    got, guesses = predicted(fit, release, rows=rows, guesses=br.Neighbourhood(2))
    codes = np.stack([df[c].cat.codes for c in df], axis=1).astype(np.int64)
    for k, i in enumerate(rows):
        want = []
        for g in guesses[:, k].astype(int):
            p, row = 1.0, codes[i].copy()
            row[:2] = g
            for tree in fit.trees:
                alike = [
                    r
                    for r in range(N)
                    if r != i and tree.leaf(codes[[r]])[0] == tree.leaf(row[None])[0]
                ]
                held = sum(codes[r, tree.column] == row[tree.column] for r in alike)
                p *= (held + 1 / 3) / (len(alike) + 1)
            want.append(p)
        assert np.allclose(got[:, k], np.array(want) / np.sum(want), rtol=1e-12)


def test_trees_predict_amounts_by_a_density_that_is_one():
    rng = np.random.default_rng(3)
    df = pd.DataFrame({"x": rng.normal(size=N), "y": rng.gamma(2.0, 10.0, size=N)})
    fit = br.models.CART(order=["y"], min_leaf=8).fit(df, random_seed=1)
    release = fit.synthesize(1, random_seed=1)
    grid = br.Grid(bounds=(-2000.0, 2000.0), n=19_001, truth="nearest")
    kept = br.attribute_evidence(fit, release, guesses={"y": grid}, targets=[0, 1], random_seed=1)
    step = np.diff(kept.cases.guesses.codes[:2, 0, 0])[0]
    # the tails of t with 3 degrees of freedom beyond some 200 deviations are below 1e-6
    assert np.allclose(np.exp(kept.base).sum(axis=0) * step, 1.0, atol=1e-3)
    alone = df.drop(index=0)
    own = fit.trees[0].leaf(fit.microdata.codes)
    near = alone["y"][own[1:] == own[0]]
    h = 1.06 * np.sqrt(
        (((near - near.mean()) ** 2).sum() + alone["y"].var(ddof=0)) / (len(near) + 1)
    )
    h *= (len(near) + 1) ** -0.2
    at = kept.cases.guesses.codes[::2_000, 0, 0]
    k = int(kept.case[0])
    further = stats.t.pdf(at, 3, alone["y"].mean(), alone["y"].std(ddof=0))
    want = stats.norm.pdf(at[:, None], near.to_numpy(), h).sum(axis=1) + further
    at_case = kept.cases.guesses.codes[::2_000, k, 0]
    assert np.array_equal(at_case[:3], at[:3])
    assert np.allclose(
        np.exp(kept.base[::2_000, k]), want / (len(near) + 1), rtol=1e-9, atol=1e-300
    )


def test_one_forest_predicts_by_the_trees_that_have_not_seen_the_record():
    df = categories()
    fit = br.models.Forest(order=["u"], n_trees=30, dirichlet=1.0).fit(df, random_seed=1)
    release = fit.synthesize(1, random_seed=1)
    got, guesses = predicted(fit, release, rows=range(4))
    (trees,) = fit.forests
    for i in range(4):
        X = trees.encoded(fit.microdata.codes[[i]])
        votes = np.zeros(3)
        for t in np.flatnonzero(trees.bags[:, i] == 0):
            votes[trees.right[trees.start[t] + trees.leaves(X)[t, 0]]] += 1
        want = votes[guesses[:, i, 0].astype(int)] + 1 / 3
        assert np.allclose(got[:, i], want / want.sum(), rtol=1e-12)


def test_columns_that_do_not_depend_have_the_product_under_forests():
    """Brook's lemma: where conditionals are margins, their ratios are those of margins."""
    rng = np.random.default_rng(5)
    df = pd.DataFrame({c: pd.Categorical(rng.choice(list("ab"), N)) for c in "uvw"})
    fit = br.models.Forest(order=["u", "v"], n_trees=20, min_leaf=20, dirichlet=1.0).fit(
        df, random_seed=1
    )
    release = fit.synthesize(1, random_seed=1)
    got, guesses = predicted(fit, release, rows=[0], guesses=br.Neighbourhood(2))
    table = {tuple(g.astype(int)): p for g, p in zip(guesses[:, 0], got[:, 0], strict=True)}
    if all((trees.feature < 0).all() for trees in fit.forests):
        assert np.isclose(table[0, 0] * table[1, 1], table[0, 1] * table[1, 0], rtol=1e-12)
    assert np.isclose(sum(table.values()), 1.0)


def test_donors_predict_kept_values_and_one_more_record():
    rng = np.random.default_rng(6)
    df = categories(6).assign(x=rng.normal(size=N))
    fit = br.models.PMM(["u"], identifying=["u", "v", "w"], threshold=1, donors=3).fit(df)
    release = fit.synthesize(1, random_seed=1)
    rows = np.flatnonzero(fit.chosen)[:3]
    got, guesses = predicted(fit, release, rows=rows)
    (step,) = fit.base.steps
    for k, i in enumerate(rows):
        far = np.abs(step.donors.means - step.means(fit.rows[[i]])).sum(axis=1)
        assert len(far) == len(step.donors.count)
        chance = step.donors.chances(step.means(fit.rows[[i]]))[0]
        held = [(chance * (step.donors.values == g)).sum() for g in guesses[:, k, 0]]
        want = (3 * np.array(held) + 1 / 3) / 4
        assert np.allclose(got[:, k], want / want.sum(), rtol=1e-12)


def test_both_priors_are_there_for_models_without_draws():
    df = categories()
    for model in (br.models.CART(order=["u"]), br.models.Marginals()):
        fit = model.fit(df)
        risk = br.attribute_risk(fit, fit.synthesize(1, random_seed=1), random_seed=1)
        assert list(risk.priors) == ["predictive"]
