"""Models that are sampled by NUTS: a few small studies, for each takes seconds to compile."""

from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from tests.soak.choices import Choices, generator, pick
from tests.soak.makers import Made

OUTCOMES = ("bernoulli", "poisson", "student", "negative-binomial", "ordered")


def regression(choices: Choices) -> Made:
    """One outcome without a closed form, of a number and a group."""
    n, rng = choices.whole(8, 60), generator(choices)
    family = pick(choices, OUTCOMES)
    group = rng.choice(["a", "b", "c"], n)
    group[:3] = ["a", "b", "c"]
    x = pick(choices, [1.0, 1e4, 1e-4]) * rng.normal(size=n)
    made: dict[str, Any] = {
        "bernoulli": lambda: np.where(rng.random(n) < pick(choices, [0.5, 0.05]), "yes", "no"),
        "poisson": lambda: rng.poisson(pick(choices, [2.0, 300.0]), n),
        "negative-binomial": lambda: rng.poisson(rng.gamma(0.7, 5.0, n)),
        "student": lambda: rng.standard_t(pick(choices, [30, 1]), n),
        "ordered": lambda: pd.Categorical(rng.choice(["lo", "mid", "hi"], n), ["lo", "mid", "hi"]),
    }
    y = pd.Series(made[family]())
    if family == "ordered":
        y = pd.Series(pd.Categorical(y, ["lo", "mid", "hi"], ordered=True))
        y.iloc[:3] = ["lo", "mid", "hi"]
    if family == "bernoulli":
        y.iloc[:2] = ["yes", "no"]
    table = pd.DataFrame({"x0": x, "x1": group, "x2": y})
    formula = pick(choices, ["1 + x0", "1 + x0 + x1", "1"])
    model = br.models.Regression({"x2": formula}, {"x2": family})
    return table, model, {"draws": 30, "tune": 60, "chains": 2}, {"columns": ["x2"]}


def own_model(choices: Choices) -> Made:
    """A normal number and a count that depends on it, in PyMC."""
    n, rng = choices.whole(8, 50), generator(choices)
    unit = pick(choices, [1.0, 100.0, 1e-3])
    x = rng.normal(size=n)
    count = rng.poisson(np.exp(pick(choices, [0.5, 3.0]) + 0.3 * x))
    table = pd.DataFrame({"x0": unit * x, "x1": count})
    return (
        table,
        br.models.PyMCModel(build, ["x0", "x1"]),
        {"draws": 30, "tune": 60, "chains": 2},
        {},
    )


def build(table: pd.DataFrame) -> Any:
    """Whatever the unit of the first column."""
    import pymc as pm

    with pm.Model() as model:
        mean, sd = pm.Normal("mean", 0, 100), pm.HalfNormal("sd", 100)
        pm.Normal("x0_", mean, sd, observed=pm.Data("x0", table["x0"]))
        rate = pm.Gamma("rate", 1.0, 0.01)
        pm.Poisson("x1_", rate, observed=pm.Data("x1", table["x1"]))
    return model
