"""Beliefs about counts: intervals, and SciPy's densities at whole numbers."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayes_risk as br
from bayes_risk.evidence.contract import Targets
from bayes_risk.intruder import priors
from tests.helpers.numeric_results import log_prior

TABLE = pd.DataFrame({"w": [600, 500, 40], "v": [6.0, 5.5, 4.0]})
DATA = br.Microdata.from_frame(TABLE, numbers=["w", "v"])


def prior(how, column="w", grid=None):
    j = DATA.columns.index(column)
    default = {"w": br.Grid(bounds=(400, 800), n=401), "v": br.Grid(values=[4, 5, 6, 8])}
    grid = default[column] if grid is None else grid
    found = br.JointGrid({column: grid}).of(DATA, DATA.codes[:1], np.array([j]))
    cases = Targets(
        profiles=DATA.codes[:1], record=np.zeros(1, int), columns=np.array([j]), guesses=found
    )
    return found.codes[:, 0, 0], np.exp(log_prior(how, DATA, cases))[:, 0]


def test_log_uniform_density_at_whole_numbers():
    v, p = prior(br.Density({"w": stats.loguniform(500, 700)}))
    inside = (v >= 500) & (v <= 700)
    assert (p[~inside] == 0).all() and p.sum() == pytest.approx(1)
    assert np.allclose(p[inside] * v[inside], (p * v)[inside][0])


def test_probability_mass_functions_too():
    v, p = prior(br.Density({"w": stats.poisson(600)}))
    assert np.allclose(p, stats.poisson(600).pmf(v) / stats.poisson(600).pmf(v).sum())


@pytest.mark.parametrize("spread", ["uniform", "log-uniform"])
def test_interval_holds_its_probability(spread):
    v, p = prior(br.Interval(500, 700, probability=0.8, spread=spread))
    inside = (v >= 500) & (v <= 700)
    assert p[inside].sum() == pytest.approx(0.8) and p[~inside].sum() == pytest.approx(0.2)
    weight = 1.0 if spread == "uniform" else 1 / v
    for those in (inside, ~inside):
        assert np.allclose((p / weight)[those], (p / weight)[those][0])


def test_interval_of_a_number_that_is_not_whole_counts_widths():
    v, p = prior(br.Interval(4.5, 6.5, probability=0.9), "v")
    assert np.allclose(p, [0.1 / 3, 0.36, 0.54, 0.2 / 3])  # widths 1, 1, 1.5, 2


def test_certain_interval_leaves_nothing_outside():
    v, p = prior(br.Interval(500, 700, probability=1.0))
    assert p[(v < 500) | (v > 700)].sum() == 0


def test_it_says_what_it_is():
    said = priors.prior_in_words(br.Interval(500, 700, column="w"))
    assert said == (
        "with probability 0.9 w lies from 500 to 700, spread uniform inside and outside"
    )
