"""A PyMC model of two columns with areas and a predictor; models compiled, and fits by hand."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt

from bayes_risk.data.microdata import Microdata
from bayes_risk.models.pymc.density import Builder, Engine
from bayes_risk.models.pymc.fit import Condition, PyMCFit, PyMCPosterior
from bayes_risk.models.pymc.pymc_model import PyMCModel

AREAS = list("abcd")


def two_columns(n=60, seed=1):
    rng = np.random.default_rng(seed)
    area, w = rng.integers(0, 4, n), rng.normal(size=n)
    x = rng.normal(size=4)[area] + 0.5 * w + 0.7 * rng.normal(size=n)
    return pd.DataFrame(
        {
            "area": pd.Categorical.from_codes(area, categories=AREAS),
            "w": w,
            "x": x,
            "k": rng.poisson(np.exp(0.3 + 0.4 * x)),
        },
        index=[f"r{i}" for i in range(n)],
    )


def build_two(table):
    with pm.Model(coords={"area": table["area"].cat.categories, "row": table.index}) as model:
        area, w = pm.Data("area", table["area"].cat.codes), pm.Data("w", table["w"], dims="row")
        x, k = pm.Data("x", table["x"]), pm.Data("k", table["k"])
        z = pm.Normal("z", 0, 1, dims="area")
        b, s = pm.Normal("b", 0, 1), pm.HalfNormal("s", 1)
        mu = pm.Deterministic("mu", z[area] + b * w)
        pm.Normal("x_", mu, s, observed=x, dims="row")
        a, c = pm.Normal("a", 0, 1), pm.Normal("c", 0, 1)
        pm.Poisson("k_", pt.exp(a + c * x), observed=k)
    return model


def engine_of(build, columns, table, **how):
    numbers = [c for c in table if table[c].dtype.kind in "if"]
    data = Microdata.from_frame(table, numbers=numbers, **how)
    return Engine.of(Builder.of(build, tuple(columns), data))


def fit_of_draws(build, columns, table, theta, chains=2):
    """A fit whose draws are given: what follows from draws needs no sampler."""
    engine = engine_of(build, columns, table)
    y = engine.builder.microdata.codes
    nothing = Condition(y=y, z=(), replaced=np.zeros(len(y), dtype=bool), columns=())
    posterior = PyMCPosterior(
        engine=engine,
        condition=nothing,
        theta=theta,
        base=theta,
        n_chains=chains,
        thin=1,
        tune=100,
    )
    return PyMCFit(
        model=PyMCModel(build, columns=columns),
        microdata=engine.builder.microdata,
        idata=None,
        posterior=posterior,
        diagnostics={},
    )
