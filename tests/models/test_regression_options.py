"""Which sampler, and which order: options of regressions that need no fit to be tested."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br

N = 40


def table():
    rng = np.random.default_rng(1)
    return pd.DataFrame({"x": rng.normal(size=N), "k": rng.poisson(2, N)})


def test_nutpie_is_asked_for_by_name_and_said_to_be_missing():
    model = br.models.Regression({"k": "1 + x"}, {"k": "poisson"})
    if find_spec("nutpie") is None:
        with pytest.raises(br.InputError, match=r'pip install "bayes-risk\[fast\]"'):
            model.fit(table(), nuts_sampler="nutpie")
    else:
        fit = model.fit(
            table(), draws=100, tune=200, chains=2, nuts_sampler="nutpie", random_seed=2
        )
        assert len(fit.idata.posterior.draw) == 100
    with pytest.raises(br.InputError, match="nuts_sampler='stan' is not known"):
        model.fit(table(), nuts_sampler="stan")


@pytest.mark.parametrize("how", ["ordered", "numbers", "levels"])
def test_ordered_levels_need_an_order(how):
    words = np.array(["low", "mid", "high"])[np.arange(N) % 3]
    df = table().assign(y=words)
    model = br.models.Regression({"y": "1 + x"}, {"y": "ordered"})
    draws = {"y": pd.DataFrame({"x": [0.1, 0.2], "cut[1]": [-1.0, -1.1], "cut[2]": [1.0, 0.9]})}
    with pytest.raises(br.InputError, match="its order is not given"):
        model.from_draws(df, draws)
    if how == "ordered":
        df["y"] = pd.Categorical(words, ["low", "mid", "high"], ordered=True)
    if how == "numbers":
        df["y"] = np.arange(N) % 3
    levels = {"y": ["low", "mid", "high"]} if how == "levels" else None
    fit = model.from_draws(df, draws, levels=levels)
    assert fit.microdata.codes[:3, fit.microdata.columns.index("y")].tolist() == [0, 1, 2]
