"""Refusals that no other test brings about: each says what is wrong, and holds no value."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayes_risk as br
from bayes_risk._core.errors import ModelError
from bayes_risk.app.cli import command_of, reason_of
from bayes_risk.app.run.runner import Cost
from bayes_risk.data.kinds import checked_file
from bayes_risk.studies.grid import worst_of
from bayes_risk.utilities.combining import combine

TABLE = pd.DataFrame({"sex": list("fm") * 20, "job": list("aabbc") * 8, "pay": np.arange(40) * 50})
CATEGORIES = TABLE[["sex", "job"]]


def wrong(value: Any) -> Any:
    """A value of another kind than is wanted."""
    return value


def fits():
    fit = br.models.CART(order=["job"]).fit(CATEGORIES, random_seed=1)
    return fit, fit.synthesize(m=2, random_seed=1)


def of_pay(**how):
    fit = br.models.CART(order=["pay"]).fit(TABLE, random_seed=1)
    release = fit.synthesize(m=1, random_seed=1)
    return br.attribute_risk(
        fit, release, guesses=br.JointGrid({"pay": "levels"}), targets=3, random_seed=1, **how
    )


def named(index):
    return [pd.Series([1.0, 2.0], index=index), pd.Series([2.0, 3.0], index=index)]


ONES = pd.Series([1.0, 1.0], index=["a", "b"])
REFUSALS = [
    (lambda: command_of('Rscript "a b'), "has a quotation mark without its pair"),
    (lambda: reason_of("region="), "is not NAME=REASON; give the reason why the column is public"),
    (
        lambda: Cost(stages=[], program=2**30, data=2**30, seconds={}).check("1GiB"),
        "the study needs up to 2.0 GiB, and max_memory is 1.0 GiB",
    ),
    (lambda: checked_file(5), "path is a int; give the path of a file"),
    (
        lambda: br.Microdata.from_frame(CATEGORIES, levels=wrong(["sex"])),
        "levels is a list; give a map",
    ),
    (lambda: br.Density({"pay": 3}), "has neither logpdf nor logpmf"),
    (lambda: br.attribute_risk(*fits(), guesses="predictive"), "is about numbers, and none is gue"),
    (
        lambda: of_pay(prior=br.Density({"pay": stats.uniform(9e5, 1)})),
        "zero at every guess of some target",
    ),
    (lambda: of_pay().probability_between(0, "pay", 9, 3), "low=9 and high=3 are in the wrong o"),
    (lambda: br.release_bounds(CATEGORIES.iloc[:0], synthesized=["job"]), "original has no rec"),
    (lambda: br.Population.weighted(TABLE, ["pay"], weights="pay"), "is one of the keys"),
    (lambda: br.Population.weighted(TABLE.iloc[:0], ["sex"], weights="pay"), "has no records"),
    (lambda: br.Population.table(pd.DataFrame({"sex": ["f"], "count": [0]})), "sums to 0"),
    (
        lambda: br.models.PMM(order=["pay"], identifying=["pay"]).fit(TABLE[["pay"]]),
        "the table has one column, which nothing pred",
    ),
    (
        lambda: br.read_synthpop("x", original=wrong([1])),
        "original is a list; give a pandas DataFrame",
    ),
    (lambda: br.models.Mixture(families=wrong(["pay"])), "give a mapping of columns to families"),
    (
        lambda: br.models.Mixture(families={"pay": "normal"}, normal_prior=wrong((1, 2))),
        "give m, kappa, a",
    ),
    (lambda: combine([ONES, ONES], [ONES]), "there are 2 estimates and 1 variances"),
    (lambda: combine(named(["a", "a"]), named(["a", "a"])), "stand for two quantities"),
    (lambda: combine([ONES[:0], ONES[:0]], [ONES[:0], ONES[:0]]), "estimates of nothing"),
    (lambda: br.utility(TABLE.iloc[:1], [TABLE]), "original has 1 records; give at least 2"),
    (lambda: br.utility(TABLE, [TABLE], synthesized="pay"), "is a single string; give a list"),
    (lambda: br.utility(TABLE, [pd.DataFrame({"x": range(40)})]), "share no column with the orig"),
    (lambda: worst_of(pd.DataFrame({"a": [np.nan]}).to_xarray(), "a", {}), "is NaN for every set"),
    (lambda: br.sensitivity(*fits(), over={"hyper": {"no_field": [1]}}), "no_field"),
    (lambda: br.models.Regression({"pay": "C(sex"}).fit(TABLE), "cannot be read: Formula ended"),
]


@pytest.mark.parametrize(("call", "message"), REFUSALS, ids=[m[:40] for _, m in REFUSALS])
def test_what_cannot_be_is_named(call, message):
    with pytest.raises((br.InputError, ModelError), match=message):
        call()
