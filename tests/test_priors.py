"""Priors against numbers worked out by hand."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk import priors
from bayes_risk.synthesizer import Targets

TABLE = pd.DataFrame({"a": list("xxxyz"), "b": list("uuvvv")})
DATA = br.Microdata.from_frame(TABLE)
COLUMNS = np.array([0, 1])


def prior(how, guesses=None):
    guesses = br.Neighbourhood(1) if guesses is None else guesses
    found = guesses.of(DATA, DATA.codes, COLUMNS)
    cases = Targets(
        profiles=DATA.codes, record=np.arange(len(DATA.codes)), columns=COLUMNS, guesses=found
    )
    return found, np.exp(priors.log_prior(how, DATA, cases))


def test_uniform():
    _, p = prior("uniform")
    assert np.allclose(p, 1 / 4)


def test_marginal_leaves_the_target_out_and_adds_one():
    """Record 0 is (x, u); without it a = x2 y1 z1 and b = u1 v3."""
    found, p = prior("marginal", br.Hamming(2))
    a, b = np.array([3, 2, 2]) / 7, np.array([2, 4]) / 6
    for g, (j, k) in enumerate(found.codes[:, 0]):
        assert np.isclose(p[g, 0], a[j] * b[k])
    assert np.allclose(p.sum(axis=0), 1)


def test_truth_factor():
    found, p = prior(br.TruthFactor(10.0))
    mine = np.take_along_axis(p, found.truth[None], axis=0)[0]
    assert np.allclose(mine, 10 / 13) and np.allclose(p.sum(axis=0), 1)


def test_array_of_weights():
    _, p = prior([1.0, 0.0, 2.0, 5.0])
    assert np.allclose(p, np.array([1.0, 0.0, 2.0, 5.0])[:, None] / 8)


def test_function_sees_values_not_codes():
    seen = []

    def leaning(table):
        seen.append(table)
        return np.where(table["a"] == "y", 3.0, 1.0)

    found, p = prior(leaning)
    assert len(seen) == 5 and list(seen[0].columns) == ["a", "b"]
    for u in range(5):
        w = np.where(found.codes[:, u, 0] == 1, 3.0, 1.0)
        assert np.allclose(p[:, u], w / w.sum())


def test_guesses_that_are_not_counted_get_nothing():
    listed = pd.DataFrame({"a": ["x", "y"], "b": ["u", "v"]})
    found, p = prior("uniform", br.Listed(listed, add_truth=True))
    assert (p[~found.counted] == 0).all()
    assert np.allclose(p.sum(axis=0), 1)
    assert np.allclose(
        p[found.counted], (1 / found.counted.sum(axis=0) * found.counted)[found.counted]
    )


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("flat", "prior='flat' is not known"),
        ([1.0, 2.0], r"shape \(2,\); give one weight per guess, \(4,\)"),
        ([1.0, -1.0, 1.0, 1.0], "negative, infinite or missing"),
        ([1.0, np.nan, 1.0, 1.0], "negative, infinite or missing"),
        ([0.0, 0.0, 0.0, 0.0], "none above zero"),
        (lambda table: 1.0, r"returned shape \(\); return one weight per guess, \(4,\)"),
        (lambda table: -np.ones(len(table)), "negative"),
    ],
)
def test_priors_that_cannot_be(how, message):
    with pytest.raises(br.InputError, match=message):
        prior(how)


@pytest.mark.parametrize("factor", [0, -1, np.inf, "x"])
def test_factors_out_of_range(factor):
    with pytest.raises(br.InputError, match="factor="):
        br.TruthFactor(factor)


def test_they_say_what_they_are():
    assert priors.in_words("uniform") == "every guess equally probable"
    assert "3 times as probable" in priors.in_words(br.TruthFactor(3))
    assert priors.in_words([1, 2]) == "given by the user"
