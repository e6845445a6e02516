"""Guesses for numbers: ways to make them, whole numbers, the place of the truth, joint grids."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayes_risk as br
from bayes_risk.data.microdata import Microdata
from bayes_risk.data.variables import Number, Variable
from bayes_risk.intruder.grids import Grid, JointGrid, Levels, as_guesses, guesses_in_words
from bayes_risk.intruder.guesses import Neighbourhood

REAL = Number("pay", False, "float64")
WHOLE = Number("age", True, "int64")
COUNT = Number("kids", True, "int64", 0.0)
POSITIVE = Number("price", False, "float64", 5e-324)
TRUE = np.array([100.0, -40.0, 7.0])


def points(grid, y, number=REAL):
    values, truth = grid.points(np.asarray(y, dtype=float), number)
    assert values.shape[1] == len(y) == len(truth)
    return values, truth


# --- four ways ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 5, 11])
def test_percent_and_additive(n):
    for grid, width in ((Grid(percent=10, n=n), 0.1 * np.abs(TRUE)), (Grid(additive=4, n=n), 4.0)):
        values, truth = points(grid, TRUE)
        assert np.allclose(values, np.linspace(TRUE - width, TRUE + width, n))
        assert (truth == n // 2).all() and np.array_equal(values[n // 2], TRUE)
        assert (np.diff(values, axis=0) > 0).all()


def test_bounds_and_values_are_the_same_for_everybody():
    y = np.array([0.0, 0.5, 1.0])
    for grid in (Grid(bounds=(0, 1), n=5), Grid(values=[1, 0.5, 0.25, 0, 0.75, 0.5])):
        values, truth = points(grid, y)
        assert np.array_equal(values, np.repeat([[0], [0.25], [0.5], [0.75], [1]], 3, axis=1))
        assert truth.tolist() == [0, 2, 4]


@pytest.mark.parametrize("low", [-0.3, -0.7, -1.1])
def test_zero_has_a_place_between_symmetric_bounds(low):
    """Steps of 0.1 do not add up to zero exactly."""
    values, truth = points(Grid(bounds=(low, -low), n=7), [0.0])
    assert truth.tolist() == [3] and values[3, 0] == 0.0


def test_a_value_that_lost_its_last_digit_is_still_the_truth():
    y = 0.1 + 0.2
    values, truth = points(Grid(values=[0.1, 0.3, 0.5]), [y])
    assert values[truth[0], 0] == y


def test_a_grid_beyond_memory_is_refused_before_it_is_made():
    data = Microdata.from_frame(pd.DataFrame({"pay": np.arange(1.0, 2001.0)}), numbers=["pay"])
    grid = JointGrid({"pay": Grid(percent=10, n=999_999)})
    with pytest.raises(br.InputError, match="999,999 guesses for each of 2,000 targets are more"):
        grid.of(data, data.codes, np.array([0]))


# --- whole numbers -----------------------------------------------------------------------------


@given(
    st.integers(-200, 200),
    st.floats(1.0, 60.0),
    st.integers(1, 30),
)
def test_every_whole_number_in_the_range_or_n_of_them(y, width, half):
    n = 2 * half + 1
    values, truth = points(Grid(additive=width, n=n), [y], WHOLE)
    found = np.unique(values)
    inside = np.arange(np.ceil(y - width), np.floor(y + width) + 1)
    assert np.isin(found, inside).all() and values[truth[0], 0] == y
    if len(inside) <= n:
        assert np.array_equal(found, inside)
    else:
        assert len(found) == n and {inside[0], inside[-1]} <= set(found)


@pytest.mark.parametrize(
    ("y", "percent", "n", "expected"),
    [
        (59, 10, 11, range(54, 65)),  # 5.9 on either side: 11 whole numbers
        (39, 10, 7, range(36, 43)),
        (100, 10, 11, range(90, 111, 2)),
        (-20, 10, 5, range(-22, -17)),
    ],
)
def test_whole_numbers_on_percent_grids(y, percent, n, expected):
    values, _ = points(Grid(percent=percent, n=n), [y], WHOLE)
    assert np.unique(values).tolist() == list(expected)


@pytest.mark.parametrize("n", [2, 6, 8, 20])
def test_even_numbers_of_whole_guesses_reach_every_number_too(n):
    values, _ = points(Grid(additive=2.5, n=n, truth="add"), [10], WHOLE)
    inside = [8, 9, 10, 11, 12]
    assert np.isin(values, inside).all() and (n < 5 or np.unique(values).tolist() == inside)


@pytest.mark.parametrize(
    ("bounds", "n", "expected"),
    [
        ((0.5, 5.5), 6, [1, 2, 3, 4, 5]),
        ((0, 9), 11, range(10)),
        ((-0.9, 3.2), 4, [0, 1, 2, 3]),
        ((0, 100), 3, [0, 50, 100]),
    ],
)
def test_whole_numbers_within_bounds(bounds, n, expected):
    values, _ = points(Grid(bounds=bounds, n=n, truth="nearest"), [2], WHOLE)
    assert np.unique(values).tolist() == list(expected)


@pytest.mark.parametrize("number", [COUNT, POSITIVE])
def test_values_that_cannot_be_repeat_the_truth(number):
    """They are left out, and every guess can be put into a formula."""
    values, truth = points(Grid(additive=3, n=7), [1], number)
    assert values.min() > (0 if number is POSITIVE else -1)
    assert (values[:, 0] == 1).sum() == 1 + (3 if number is POSITIVE else 2)
    assert values[truth[0], 0] == 1


def test_the_nearest_guess_is_one_that_can_be():
    values, truth = points(Grid(bounds=(-0.1, 5.0), n=4, truth="nearest"), [0.2], POSITIVE)
    assert values[truth[0], 0] == pytest.approx(1.6)


# --- the place of the truth --------------------------------------------------------------------


def test_the_truth_is_added_or_the_nearest_stands_for_it():
    y = np.array([0.3, 1.0, 9.0])
    values, truth = points(Grid(bounds=(0, 4), n=5, truth="add"), y)
    assert values.shape == (6, 3) and np.array_equal(values[truth, range(3)], y)
    values, truth = points(Grid(bounds=(0, 4), n=5, truth="nearest"), y)
    assert values[truth, range(3)].tolist() == [0.0, 1.0, 4.0]
    values, truth = points(Grid(bounds=(0, 4), n=5, truth="add"), [1.0, 2.0])
    assert values.shape == (5, 2), "nothing to add"


# --- joint grids -------------------------------------------------------------------------------


def microdata():
    df = pd.DataFrame(
        {
            "pay": [10.0, 20.0, 30.0, 40.0],
            "age": [30, 31, 40, 41],
            "sex": ["f", "m", "f", "x"],
        }
    )
    return Microdata.from_frame(df, numbers=["pay", "age"])


def joint(grids, columns=(0, 1, 2), rows=slice(None)):
    data = microdata()
    guesses = JointGrid(grids) if isinstance(grids, dict) else grids
    return guesses.of(data, data.codes[rows], np.array(columns)), data


def test_every_combination_once():
    grids = {"pay": Grid(percent=10, n=5), "age": Grid(additive=2, n=5)}
    found, data = joint(grids)
    assert found.codes.shape == (5 * 5 * 3, 4, 3) and found.cells.shape == (75, 3)
    assert found.counted.all()
    for u in range(4):
        rows = {tuple(r) for r in found.codes[:, u]}
        assert len(rows) == 75
        assert np.array_equal(found.codes[found.truth[u], u], data.codes[u])
        for j in range(3):
            assert len({r[j] for r in rows}) == (5, 5, 3)[j]


def test_cells_say_which_values_are_the_same():
    grids = {"pay": Grid(percent=10, n=4, truth="add"), "age": Grid(additive=1, n=3)}
    found, _ = joint(grids)
    for j in range(3):
        for cell in np.unique(found.cells[:, j]):
            values = found.codes[found.cells[:, j] == cell, :, j]
            assert (values == values[0]).all()


def test_repeated_guesses_are_counted_once_and_the_truth_stays():
    found, data = joint({"age": Grid(additive=2, n=9)}, columns=(1,))
    assert found.counted.sum(axis=0).tolist() == [5] * 4
    assert found.counted[found.truth, range(4)].all()
    for u in range(4):
        counted = found.codes[found.counted[:, u], u, 0]
        assert sorted(counted) == list(range(int(data.codes[u, 1]) - 2, int(data.codes[u, 1]) + 3))


def test_values_below_what_can_be_are_not_counted():
    df = pd.DataFrame({"k": [0, 1, 2, 5]})
    fit = br.models.Regression({"k": "1"}, {"k": "poisson"}).from_draws(
        df, {"k": pd.DataFrame({"Intercept": [0.1, 0.2]})}
    )
    data = fit.microdata
    found = JointGrid({"k": Grid(additive=3, n=7)}).of(data, data.codes, np.array([0]))
    assert found.counted.sum(axis=0).tolist() == [4, 5, 6, 7]
    assert (found.codes >= 0).all()


def test_levels():
    variable = Variable("sex", ("f", "m", "x"), True, object)
    values, truth = Levels().points(np.array([3, 0]), variable)
    assert values.T.tolist() == [[0, 1, 2, 3], [0, 1, 2, 3]] and truth.tolist() == [3, 0]
    found, _ = joint({}, columns=(2,))
    assert found.codes[:, 0, 0].tolist() == [0, 1, 2]


def test_one_grid_for_all_numbers():
    made = as_guesses(Grid(percent=10), ["pay", "age"])
    assert set(made.grids) == {"pay", "age"}
    ready = br.Neighbourhood(1)
    assert as_guesses(ready, []) is ready
    assert isinstance(as_guesses({"sex": Levels()}, []), JointGrid)


# --- words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        (Grid(percent=2.5), "11 values within 2.5 % of the truth"),
        (Grid(additive=100, n=5), "5 values within 100 of the truth"),
        (Grid(bounds=(0, 50), n=6), "6 values from 0 to 50"),
        (Grid(values=[3, 1, 3]), "2 values as listed"),
        (Grid(bounds=(0, 50), truth="add"), "11 values from 0 to 50 and the truth"),
        (Grid(percent=10, n=4, truth="nearest"), "the truth in place of the nearest"),
    ],
)
def test_in_words(grid, words):
    assert grid.in_words().endswith(words)
    assert words in JointGrid({"pay": grid, "sex": Levels()}).in_words()
    assert "sex: every value" in JointGrid({"pay": grid, "sex": Levels()}).in_words()


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_every_level_of_categories_is_the_whole_table():
    rng = np.random.default_rng(1)
    df = pd.DataFrame(rng.integers(0, 3, (40, 3)), columns=list("abc")).astype("category")
    fit = br.models.DPMPM(n_classes=20).fit(df, draws=20, tune=20, chains=2, random_seed=1)
    release = fit.synthesize(1, random_seed=2)
    grid, ball = (
        br.attribute_risk(fit, release, guesses=guesses, targets=5, random_seed=3)
        for guesses in (dict.fromkeys("abc", br.Levels()), br.Neighbourhood(3))
    )
    assert grid.n_guesses == ball.n_guesses == 27
    assert np.allclose(grid.records["probability"], ball.records["probability"], rtol=1e-12)


def test_columns_that_a_joint_grid_leaves_out_are_named_with_the_values_considered():
    joint = JointGrid({"pay": Grid(percent=10, n=11)})
    said = guesses_in_words(joint, ["pay", "sex", "job"])
    assert said == f"{joint.in_words()}; sex, job: every value"
    assert guesses_in_words(joint, ["pay"]) == joint.in_words()
    assert guesses_in_words(Neighbourhood(1), ["sex"]) == Neighbourhood(1).in_words()
