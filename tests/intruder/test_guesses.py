"""The sets of y*: counted by formula, and each value once."""

import itertools
from math import comb, prod

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.intruder.guesses import _ball, _shifts
from tests.oracles.kernel_twins import codes_of, simulate

LEVELS = (3, 2, 4, 5)
TABLE = simulate(20, LEVELS, seed=51)
DATA = br.Microdata.from_frame(TABLE)
PROFILES = codes_of(TABLE).astype(np.int32)


def guesses(how, columns=(0, 1, 2, 3)):
    return how.of(DATA, PROFILES, np.array(columns))


@pytest.mark.parametrize("columns", [(0, 1, 2, 3), (0, 2), (1,)])
def test_one_variable_neighbourhood_counts(columns):
    """1 + sum_j (d_j - 1), the published reduced set."""
    found = guesses(br.Neighbourhood(1), columns)
    assert found.codes.shape == (1 + sum(LEVELS[j] - 1 for j in columns), 20, len(columns))


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 9])
def test_hamming_counts(distance):
    """sum_h of elementary symmetric polynomials of d_j - 1; the full table from distance p on."""
    found = guesses(br.Neighbourhood(distance))
    moves = [d - 1 for d in LEVELS]
    expected = sum(
        prod(chosen)
        for h in range(min(distance, 4) + 1)
        for chosen in itertools.combinations(moves, h)
    )
    assert len(found.codes) == expected
    if distance >= 4:
        assert expected == prod(LEVELS)


def test_hamming_of_equal_levels_is_binomial():
    table = simulate(10, (3,) * 6, seed=52)
    data = br.Microdata.from_frame(table)
    found = br.Neighbourhood(2).of(data, data.codes, np.arange(6))
    assert len(found.codes) == 1 + 6 * 2 + comb(6, 2) * 4


@pytest.mark.parametrize("distance", [1, 2, 4])
def test_each_value_within_the_distance_once_and_the_truth_first(distance):
    found = guesses(br.Neighbourhood(distance))
    for u in range(20):
        rows = found.codes[:, u]
        assert len(np.unique(rows, axis=0)) == len(rows)
        assert ((rows != PROFILES[u]).sum(axis=1) <= distance).all()
        assert (rows >= 0).all() and (rows < LEVELS).all()
    assert (found.truth == 0).all() and (found.codes[0] == PROFILES).all()
    assert found.counted.all()


@pytest.mark.parametrize("missing", [None, -9.0])
@pytest.mark.parametrize("distance", [1, 2, 3])
def test_values_of_numbers_within_the_distance_are_those_that_the_data_hold(distance, missing):
    """Against the combinations of every value, of which the distance leaves those near enough."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame(
        {
            "job": rng.choice(list("abc"), 30),
            "pay": rng.choice([-9.0, 0.5, 7.0, 1e6], 30),
            "age": rng.integers(20, 24, 30),
        }
    )
    data = br.Microdata.from_frame(
        table, numbers=["pay", "age"], missing_numbers=None if missing is None else {"pay": missing}
    )
    order = np.array([1, 0, 2])
    found = br.Neighbourhood(distance).of(data, data.codes, order)
    every = br.JointGrid({"pay": "levels", "age": "levels"}).of(data, data.codes, order)
    assert found.counted.all() and (found.codes[0] == data.codes[:, order]).all()
    for u in range(30):
        near = (every.codes[:, u] != data.codes[u, order]).sum(axis=1) <= distance
        listed = {tuple(row) for row in found.codes[:, u]}
        assert len(listed) == len(found.codes)
        assert listed == {tuple(row) for row in every.codes[every.counted[:, u] & near, u]}


def test_guesses_are_counted_as_they_are_listed():
    d = [2, 3, 1, 4]
    for distance in range(6):
        assert _ball(d, distance) == len(_shifts(np.array(d), min(distance, 4)))


def test_a_wide_neighbourhood_is_counted_and_not_listed():
    df = pd.DataFrame({f"c{j}": list("abcdefghij") for j in range(20)})
    data = br.Microdata.from_frame(df)
    with pytest.raises(br.InputError, match="100,000,000,000,000,000,000 guesses"):
        br.Neighbourhood(9_999).of(data, data.codes[:1], np.arange(20))


def test_too_many_guesses_are_refused_before_memory_is():
    table = simulate(200, (9,) * 8, seed=53)
    data = br.Microdata.from_frame(table)
    with pytest.raises(br.InputError, match=".* guesses for each of 200"):
        br.Neighbourhood(4).of(data, data.codes, np.arange(8))


def every_cell(columns):
    names = [TABLE.columns[j] for j in columns]
    cells = itertools.product(*(TABLE[c].cat.categories for c in names))
    return pd.DataFrame(list(cells), columns=names)


def test_listed_guesses_are_the_same_for_every_target():
    found = guesses(br.Listed(every_cell([0, 2])), (0, 2))
    assert found.codes.shape == (12, 20, 2) and found.counted.all()
    assert (found.codes == found.codes[:, :1]).all()
    mine = np.take_along_axis(found.codes, found.truth[None, :, None], axis=0)[0]
    assert (mine == PROFILES[:, [0, 2]]).all()


def test_listed_guesses_do_not_depend_on_order_or_repetition():
    cells = every_cell([0, 2])
    mixed = pd.concat([cells.sample(frac=1, random_state=1), cells])[["x2", "x0"]]
    one, other = guesses(br.Listed(cells), (0, 2)), guesses(br.Listed(mixed), (0, 2))
    assert (one.codes == other.codes).all() and (one.truth == other.truth).all()


def test_the_truth_is_added_where_it_is_missing():
    some = every_cell([0, 2]).iloc[:3]
    with pytest.raises(br.InputError, match="lacks the true value of .* add_truth=True"):
        guesses(br.Listed(some), (0, 2))
    found = guesses(br.Listed(some, add_truth=True), (0, 2))
    assert found.codes.shape == (4, 20, 2) and (found.truth == 0).all()
    assert (found.codes[0] == PROFILES[:, [0, 2]]).all()
    twice = (found.codes[1:] == found.codes[:1]).all(axis=2)
    assert (found.counted[1:] == ~twice).all() and found.counted[0].all()


def test_they_say_what_they_are():
    assert "at most 1 variable (centred" in br.Neighbourhood(1).in_words()
    assert "at most 2 variables" in br.Neighbourhood(2).in_words()
    assert "the truth added" in br.Listed(TABLE.iloc[:3], add_truth=True).in_words()


def test_an_added_truth_shares_no_cell_with_a_listed_number():
    """Of -1 listed for all, a truth of 3 was once said to have the same value."""
    data = br.Microdata.from_frame(pd.DataFrame({"x": [3.0, 5.0]}), numbers=["x"])
    listed = br.Listed(pd.DataFrame({"x": [-1.0, 2.0]}), add_truth=True)
    found = listed.of(data, data.codes, np.array([0]))
    assert found.codes[:, :, 0].tolist() == [[3.0, 5.0], [-1.0, -1.0], [2.0, 2.0]]
    assert len(np.unique(found.cells)) == 3 and (found.truth == 0).all()
