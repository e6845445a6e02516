"""Survey weights above 1 as powers of the likelihood: enumeration, replicated rows, refusals."""

from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.models import CART, DPMPM, Chain, Marginals, Regression

LEVELS = ["x", "y", "z"]
Y, W = "xxyzy", [4, 1, 2, 1, 2]
PRIOR = Fraction(1, 2)


def table(values=Y, weights=W, **more):
    columns = {"a": pd.Categorical(list(values), LEVELS), "w": weights}
    return pd.DataFrame({k: v for k, v in (columns | more).items() if v is not None})


def rising(a, n):
    out = Fraction(1)
    for k in range(n):
        out *= a + k
    return out


def p_file(z, y, alpha):
    """p(Z | y): Dirichlet-multinomial with the powers as fractional counts, in fractions."""
    a = [
        PRIOR + sum((w for v, w in zip(y, alpha, strict=True) if v == c), Fraction())
        for c in LEVELS
    ]
    found = Fraction(1)
    for c, a_c in zip(LEVELS, a, strict=True):
        found *= rising(a_c, z.count(c))
    return found / rising(sum(a), len(z))


def scaled(weights):
    return [Fraction(w * len(weights), sum(weights)) for w in weights]


def audit(fit, z, maker=None, **how):
    release = br.Release(datasets=[table(z, None)], synthesized=["a"], maker=maker)
    return br.attribute_evidence(fit, release, random_seed=1, **how)


@pytest.mark.parametrize("model", [Marginals(0.5), DPMPM(n_classes=1, level_prior=0.5)], ids=str)
def test_every_release_by_enumeration(model):
    """Fractional counts by hand; over all releases the posterior is the prior."""
    how = {} if isinstance(model, Marginals) else {"draws": 4, "chains": 2, "random_seed": 1}
    fit, alpha = model.fit(table(), weights="w", **how), scaled(W)
    files = [z for z in product(LEVELS, repeat=3)] if not how else [tuple("xyz"), tuple("yyx")]
    mass = np.zeros((5, 3))
    for z in files:
        rows = pd.DataFrame({"a": pd.Categorical(list(z), LEVELS)})
        release = br.Release(datasets=[rows], synthesized=["a"])
        evidence = br.attribute_evidence(fit, release, random_seed=1)
        risk = evidence.risk("uniform", warn=False)
        for i in range(5):
            exact = [p_file(z, Y[:i] + v + Y[i + 1 :], alpha) for v in LEVELS]
            found = risk.posterior(i).set_index("a")["probability"].loc[LEVELS]
            np.testing.assert_allclose(found, [float(p / sum(exact)) for p in exact], rtol=1e-6)
            mass[i] += [float(p) for p in exact]
    assert how or np.allclose(mass, 1.0)
    assert "survey weights from 0.5 to 2" in risk.assumptions["synthesis"]


def test_a_weight_is_so_many_equal_records():
    """Regression: the posterior is that of rows replicated, of which the guess moves all."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=8).round(2)
    df = pd.DataFrame({"x": x, "y": (1 + x + rng.normal(size=8)).round(2)})
    weights = np.array([3, 1, 1, 2, 1, 1, 2, 1])  # whole after the scaling too: 12 records
    alpha = weights * 8 / 12
    fit = Regression({"y": "1 + x"}).fit(df.assign(w=weights), weights="w", draws=8, random_seed=1)
    assert fit.microdata.columns == ["x", "y"]
    np.testing.assert_allclose(fit.weights, alpha, atol=1e-9)
    part = fit.posterior.parts[0]
    rows = part.part.rows(fit.microdata.codes)
    many = np.repeat(np.arange(8), weights * 2)  # powers of 3: 3 alpha = 2 w
    X, y = rows.X[many], rows.y[many]
    near = {"rtol": 1e-7, "atol": 1e-7}  # weights are multiples of 2^-30
    np.testing.assert_allclose(part.known.data.xx * 3, X.T @ X, **near)
    np.testing.assert_allclose(part.known.data.xy * 3, X.T @ y, **near)
    assert part.known.data.n == pytest.approx(8)


@pytest.mark.parametrize("weights", [[1] * 5, [7.5] * 5], ids=["ones", "equal"])
def test_equal_weights_change_no_byte(weights):
    rng = np.random.default_rng(1)
    df = table(weights=weights, b=rng.choice(["u", "v"], 5), x=rng.normal(size=5))
    how = {"draws": 4, "chains": 2, "random_seed": 1}
    for model, names, more in (
        (Marginals(), ["a", "b"], {}),
        (DPMPM(n_classes=9), ["a", "b"], how),
        (Regression({"x": "1 + C(b)"}), ["b", "x"], how),
        (CART(["a"]), ["a", "b"], {"random_seed": 1}),
        (Chain([Marginals(columns=["a"]), CART(["b"])]), ["a", "b"], {"random_seed": 1}),
    ):
        fits = [
            model.fit(df[[*names, "w"]], weights="w", **more),
            model.fit(df[names], **more),
        ]
        assert fits[0].weights is None
        made = [fit.synthesize(2, random_seed=2) for fit in fits]
        for one, other in zip(*(release.datasets for release in made), strict=True):
            pd.testing.assert_frame_equal(one, other)


def test_chains_and_trees_take_them():
    df = table(b=list("uvuvu"))
    fit = Chain([Marginals(0.5, columns=["a"]), CART(["b"])]).fit(df, weights="w", random_seed=1)
    np.testing.assert_allclose(fit.weights, [float(a) for a in scaled(W)], atol=1e-9)
    risk = br.attribute_risk(fit, fit.synthesize(1, random_seed=1), random_seed=1)
    assert "survey weights from 0.5 to 2" in risk.assumptions["synthesis"]
    alone = Marginals(0.5).fit(df[["a", "w"]], weights="w")
    z = [*fit.synthesize(1, random_seed=1).datasets[0]["a"]]
    one = br.attribute_risk(alone, br.Release(datasets=[table(z, None)], synthesized=["a"]))
    assert one.log_evidence.shape[1] == 3


@pytest.mark.parametrize(
    ("df", "words"),
    [
        (table(weights=[0, 1, 2, 1, 1]), "'w' of the table is 0 or negative in 1 of 5 rows"),
        (table(weights=[np.nan, 1, 2, 1, 1]), "'w' of the table is missing or infinite in 1"),
        (table(weights=list("abcde")), "'w' .* does not hold numbers"),
        (table(weights=None), "weights names column 'w'|weights.*'w'"),
    ],
    ids=["zero", "missing", "text", "absent"],
)
def test_columns_that_are_no_weights(df, words):
    with pytest.raises(br.InputError, match=words):
        Marginals().fit(df, weights="w")


def test_weights_by_name_need_a_table():
    data = br.Microdata.from_frame(table(weights=None))
    with pytest.raises(br.InputError, match="names a column of a DataFrame"):
        DPMPM().fit(data, weights="w")


def test_margins_are_reweighted():
    df = pd.DataFrame({"a": list("xxxxxxxxxy")})
    done = br.reweight(
        Marginals(0.01), df, until=0.01, rounds=1, audit={"prior": "uniform"}, random_seed=1
    )
    assert done.weights.min() < 1 and len(done.rounds) == 2


def test_who_is_in_the_file_is_not_asked_of_a_weighted_fit():
    fit = Marginals().fit(table(), weights="w")
    with pytest.raises(br.InputError, match="not offered for a fit with record weights"):
        audit(fit, Y, intruder=br.Intruder(in_file=0.5))
