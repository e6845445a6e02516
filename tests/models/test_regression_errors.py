"""What cannot be fitted or audited: each with a message that names it and a cure."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk._compat import draws_of_posterior

Regression, Prior, Binomial = br.models.Regression, br.models.RegressionPrior, br.models.Binomial
N = 20
RNG = np.random.default_rng(1)
DF = pd.DataFrame(
    {
        "x": RNG.normal(size=N),
        "y": RNG.normal(10, 1, N),
        "k": RNG.poisson(3, N),
        "sex": list("fm") * (N // 2),
        "job": (list("abc") * N)[:N],
        "zero": np.arange(N) % 3 * 1.0,
        "flat": 1.5,
    }
)

# --- declarations ------------------------------------------------------------------------------


JOBS = {"job": sorted(set(DF["job"]))}


# --- tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["student", "poisson", "bernoulli", "ordered", "categorical"])
@pytest.mark.parametrize("prior", [Prior.reference(), Prior(slopes=np.inf)])
def test_flat_priors_are_for_normal_regressions(family, prior):
    name = {"student": "y", "poisson": "k", "bernoulli": "sex"}.get(family, "job")
    model = Regression({name: "1 + x"}, {name: family}, prior)
    with pytest.raises(br.InputError, match=f"the prior of '{name}' is flat, which only normal"):
        model.fit(DF, draws=4, tune=4, chains=1, levels=JOBS if family == "ordered" else None)


# --- draws from elsewhere ----------------------------------------------------------------------

GOOD = {"Intercept": [10.0, 10.1, 9.9], "x": [0.1, 0.0, 0.2], "sigma": [1.0, 1.1, 0.9]}


def lacking(*names, **values):
    return pd.DataFrame({k: v for k, v in (GOOD | values).items() if k not in names})


def test_unequal_numbers_of_draws():
    draws = {"x": lacking("x"), "y": lacking().head(2)}
    with pytest.raises(br.InputError, match="numbers of draws differ .*'x': 3, 'y': 2"):
        Regression({"x": "1", "y": "1 + x"}).from_draws(DF, draws)


def test_thresholds_out_of_order():
    model = Regression({"job": "x"}, {"job": "ordered"})
    draws = pd.DataFrame({"x": [0.1, 0.2], "cut[1]": [0.0, 1.0], "cut[2]": [1.0, 0.5]})
    with pytest.raises(br.InputError, match="'cut' of 'job' must increase"):
        model.from_draws(DF, {"job": draws}, levels=JOBS)
    with pytest.raises(br.InputError, match="lack the coefficient 'cut\\[2\\]'"):
        model.from_draws(DF, {"job": draws.drop(columns="cut[2]")}, levels=JOBS)


def test_an_inference_data_without_the_variables():
    idata = draws_of_posterior({"Intercept": np.zeros((2, 5))})
    with pytest.raises(br.InputError, match="no variables of 'y'; they are named 'y: Intercept'"):
        Regression({"y": "1 + x"}).from_draws(DF, idata)


# --- audits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "term", ["C(w)", "C(w, Treatment(1))", "C(np.round(w))", "C(2 * w)", "C(w):x", "C(I(w))"]
)
def test_levels_that_the_original_does_not_have(term):
    """However the formula makes them: formulaic takes the first level instead, with a warning."""
    df = DF[["x"]].assign(w=np.arange(N) % 4, v=DF["y"])
    model = Regression({"w": "1", "v": f"1 + {term}"})
    fit = model.fit(df, draws=4, chains=2, random_seed=1)
    release = br.Release(datasets=[df.iloc[::-1].reset_index(drop=True).assign(x=df["x"])],
                         synthesized=["w", "v"])  # fmt: skip
    grids = {"v": br.Grid(additive=1, n=3)}
    seen = grids | {"w": br.Grid(bounds=(0, 3), n=4)}
    br.attribute_risk(fit, release, guesses=seen, evidence="exact")
    for values in ([0, 1, 2, 3, 5], [-1, 0, 1, 2, 3]):
        given = grids | {"w": br.Grid(values=values)}
        with pytest.raises(br.InputError, match="of 'v' makes levels .* rows of the guesses have"):
            br.attribute_risk(fit, release, guesses=given, evidence="exact")
    with pytest.raises(br.InputError, match="rows of the synthetic table have levels"):
        fit.synthesize(1, random_seed=1)
    other = br.Release(datasets=[df.assign(w=9)], synthesized=["w", "v"])
    with pytest.raises(br.InputError, match="20 rows of release 1 have levels"):
        br.attribute_risk(fit, other, guesses=seen, evidence="exact")


def test_a_release_of_a_column_without_formula():
    df = DF[["x", "y"]]
    fit = Regression({"y": "1 + x"}).fit(df, draws=4, chains=2, random_seed=1)
    release = br.Release(datasets=[df], synthesized=["x"])
    with pytest.raises(
        br.InputError, match="synthesized names 'x', for which the model has no formula"
    ):
        br.attribute_risk(fit, release, guesses=br.Grid(percent=5))


IMPOSSIBLE = [
    ("k", "poisson", [-1] + [2] * 19, "negative or fractional"),
    ("k", "poisson", [0.5] + [2] * 19, "negative or fractional"),
    ("k", Binomial(trials=30), [31] + [2] * 19, "exceeds the number of trials"),
    ("y", "lognormal", [0.0] + [2.0] * 19, "not above 0"),
]


@pytest.mark.parametrize(("name", "family", "values", "message"), IMPOSSIBLE)
@pytest.mark.parametrize("evidence", ["importance", "refit"])
def test_a_release_that_the_model_cannot_have_made(name, family, values, message, evidence):
    extra = {"sigma": [0.5, 0.6]} if family == "lognormal" else {}
    draws = {name: pd.DataFrame({"Intercept": [1.0, 1.1], **extra})}
    model = Regression({name: "1"}, {name: family})
    release = br.Release(datasets=[pd.DataFrame({name: values})], synthesized=[name])
    if family == "lognormal":
        fit = model.fit(DF, draws=4, chains=2, random_seed=1)
    elif evidence == "importance":
        fit = model.from_draws(DF, draws)
    else:
        return
    with pytest.raises(br.InputError, match=f"'{name}' of release 1 .*{message}"):
        br.attribute_risk(fit, release, guesses=br.Grid(additive=1), evidence=evidence)


def test_synthetic_values_that_run_away():
    model = Regression({"k": "1", "y": "1"}, {"k": "poisson", "y": "lognormal"})
    draws = {
        "k": pd.DataFrame({"Intercept": [50.0, 50.0]}),
        "y": pd.DataFrame({"Intercept": [900.0, 900.0], "sigma": [1.0, 1.0]}),
    }
    for name in ("k", "y"):
        fit = model.from_draws(DF, draws)
        with pytest.raises(br.ModelError, match=f"synthetic values of '{name}' are too large"):
            fit.synthesize(1, [name], random_seed=1)
