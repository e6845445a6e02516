"""Claims at stated confidence, and single variables, counted by hand on six records."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bayes_risk._core.errors import InputError
from bayes_risk.data.variables import Variable
from bayes_risk.risk.claims import JOINT, by_variable, claims, share_right
from bayes_risk.risk.closeness import GuessPosterior
from tests.helpers.every_result import every

DTYPE = np.dtype(object)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Six(GuessPosterior):
    """A posterior written down: no audit made it."""

    @property
    def records(self) -> pd.DataFrame:
        return pd.DataFrame(index=self.index)

    def summary(self) -> pd.DataFrame:
        return self.records


def of(p, truth, guesses, names, *, prior=None, mcse=0.0):
    """A result of probabilities (records, guesses) with the true guess of each record."""
    p, (n, G) = np.array(p, float), np.shape(p)
    prior = np.full((n, G), 1 / G) if prior is None else np.array(prior, float)
    with np.errstate(divide="ignore"):
        logs = np.log(prior).T, np.log(p).T
    return Six(
        index=pd.RangeIndex(n),
        assumptions={},
        seed_entropy="",
        case=np.arange(n),
        variables=tuple(Variable(v, ("a", "b"), False, DTYPE) for v in names),
        guesses=np.repeat(np.array(guesses)[:, None], n, axis=1),
        truth=np.array(truth),
        log_prior=logs[0],
        log_probability=logs[1],
        mcse_log_evidence=np.full((G, n), mcse),
        reliable=np.ones(n, bool),
    )


ONE = [[0], [1]]
# truth is guess 0: right and sure, right, even, wrong, wrong and sure, barely right
FIRST = [0.96, 0.8, 0.5, 0.3, 0.1, 0.51]
SURE = of([[p, 1 - p] for p in FIRST], [0] * 6, ONE, "x")


def test_claims_counted_by_hand():
    """At .5 all six (the even one is right by half), at .8 three, at .95 one."""
    found = claims(SURE).loc[JOINT]
    assert found["claims"].tolist() == [6, 3, 1]
    np.testing.assert_allclose(found["right"], [3.5 / 6, 2 / 3, 1])
    assert found["claims_without"].tolist() == [6, 0, 0]  # each value has one half
    np.testing.assert_allclose(found["right_without"], [0.5, np.nan, np.nan])


def test_the_interval_of_the_share_right_is_that_of_jeffreys():
    low, high = stats.beta.ppf([0.025, 0.975], 2 + 0.5, 1 + 0.5)
    np.testing.assert_allclose(share_right(pd.Series([1, 1, 0])), [2 / 3, low, high])
    assert share_right(pd.Series([0.0]))[1] == 0
    assert share_right(pd.Series([1.0]))[2] == 1


def test_monte_carlo_errors_give_the_number_of_claims_two_ends():
    """Bound of the error of p of two guesses: 2 p (1 - p) times the error of a log evidence."""
    p, error = [[0.84, 0.16], [0.76, 0.24], [0.99, 0.01]], 0.1
    row = claims(of(p, [0] * 3, ONE, "x", mcse=error), [0.8]).iloc[0]
    bounds = [2 * a * b * error for a, b in p]
    assert row["low"] == sum(a - 2 * e >= 0.8 for (a, _), e in zip(p, bounds, strict=True)) == 1
    assert row["high"] == sum(a + 2 * e >= 0.8 for (a, _), e in zip(p, bounds, strict=True)) == 3
    assert row["claims"] == 2


BOTH = [[0, 0], [0, 1], [1, 0], [1, 1]]


def test_each_variable_has_the_mass_of_its_true_value():
    risk = of([[0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.2, 0.6]], [0, 3], BOTH, "xy")
    found = by_variable(risk)
    np.testing.assert_allclose(found["probability"], [0.5, (0.7 + 0.8) / 2, (0.6 + 0.7) / 2])
    np.testing.assert_allclose(found["prior"], [0.25, 0.5, 0.5])
    at = claims(risk, [0.65])
    assert at["claims"].tolist() == [0, 2, 1]
    np.testing.assert_allclose(at["right"], [np.nan, 1, 1])


def test_neighbours_of_the_truth_have_no_single_variables():
    risk = of([[0.5, 0.25, 0.25]], [0], [[0, 0], [0, 1], [1, 0]], "xy")
    assert list(by_variable(risk).index) == [JOINT]


def test_the_joint_probability_is_that_of_the_audit():
    risk = every()["attribute"]
    row, file = by_variable(risk).loc[JOINT], risk.summary().loc["mean_probability"]
    np.testing.assert_allclose(row[["probability", "prior"]], file[["value", "baseline"]])
    assert row["mcse_bound"] >= file["mcse"] - 1e-12


@pytest.mark.parametrize("confidence", [0, 1, 1.5])
def test_confidence_is_a_probability(confidence):
    with pytest.raises(InputError, match="confidence"):
        claims(SURE, [confidence])
