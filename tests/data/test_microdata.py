"""The codec: what goes in comes out, whatever pandas stores it as; what cannot is an error."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.data.microdata import MAX_LEVELS, Variable, same_records

ZOO = {
    "category": pd.Series(pd.Categorical(["b", "a", "b", "a"], ["a", "b", "c"])),
    "ordered": pd.Series(
        pd.Categorical(["lo", "hi", "lo", "hi"], ["lo", "mid", "hi"], ordered=True)
    ),
    "integer categories": pd.Series(pd.Categorical([3, 1, 3, 1], [3, 2, 1])),
    "str": pd.Series(["x", "y", "x", "x"], dtype="string"),
    "object": pd.Series(["x", "y", "x", "x"], dtype=object),
    "mixed object": pd.Series([1, "1", 2, "b"], dtype=object),
    "bool": pd.Series([True, False, False, True]),
    "boolean": pd.Series([True, False, False, True], dtype="boolean"),
    "int64": pd.Series([10, -3, 7, 7]),
    "int8": pd.Series([10, -3, 7, 7], dtype="int8"),
    "Int64": pd.Series([10, -3, 7, 7], dtype="Int64"),
    "float": pd.Series([0.5, 1.0, 0.5, 2.0]),
    "Float64": pd.Series([0.5, 1.0, 0.5, 2.0], dtype="Float64"),
    "date": pd.Series(pd.to_datetime(["2001-01-01", "2002-01-01"] * 2)),
}
LEVELS = {
    "category": ("a", "b", "c"),
    "ordered": ("lo", "mid", "hi"),
    "integer categories": (3, 2, 1),
    "str": ("x", "y"),
    "object": ("x", "y"),
    "mixed object": (1, 2, "1", "b"),
    "bool": (False, True),
    "boolean": (False, True),
    "int64": (-3, 7, 10),
    "int8": (-3, 7, 10),
    "Int64": (-3, 7, 10),
    "float": (0.5, 1.0, 2.0),
    "Float64": (0.5, 1.0, 2.0),
}


def coded(column, **options):
    return br.Microdata.from_frame(pd.DataFrame({"v": column}), **options)


@pytest.mark.parametrize("kind", ZOO)
def test_decoding_gives_back_what_was_coded(kind):
    table = pd.DataFrame({"v": ZOO[kind], "w": ZOO["str"]}).set_axis(["p", "q", "r", "s"])
    data = br.Microdata.from_frame(table)
    pd.testing.assert_frame_equal(data.decode(data.codes), table)
    assert data.codes.dtype == np.int32


@pytest.mark.parametrize("kind", LEVELS)
def test_levels_in_order(kind):
    """Declared order for categories, unobserved ones too; sorted for everything else."""
    variable = coded(ZOO[kind]).variables[0]
    assert variable.levels == LEVELS[kind]
    assert variable.labels == [str(v) for v in LEVELS[kind]]
    assert all(not isinstance(v, np.generic) for v in variable.levels)


@pytest.mark.parametrize("kind", [k for k in ZOO if k != "date"])
def test_missing_values_are_an_error_or_a_level(kind):
    column = ZOO[kind].astype(object if ZOO[kind].dtype == bool else ZOO[kind].dtype).copy()
    if column.dtype in ("int64", "int8"):
        column = column.astype("Int64")
    column.iloc[3] = None
    with pytest.raises(
        br.InputError, match=r"column 'v' of the original has 1 missing values.*missing=\"level\""
    ):
        coded(column)
    data = coded(column, missing="level")
    variable = data.variables[0]
    assert data.codes[3, 0] == variable.n_levels - 1 == len(variable.levels)
    assert variable.labels[-1] == "(missing)"
    back = data.decode(data.codes)["v"]
    assert back.isna().tolist() == column.isna().tolist() and back.dtype == column.dtype
    assert (back.dropna() == column.dropna()).all()


def test_missing_level_only_where_something_is_missing():
    table = pd.DataFrame({"a": ["x", None, "y"], "b": ["x", "y", "y"]})
    data = br.Microdata.from_frame(table, missing="level")
    assert data.n_levels.tolist() == [3, 2]


def test_one_level_and_missing_values_make_two():
    data = coded(pd.Series(["x", None, "x"], dtype=object), missing="level")
    assert data.n_levels.tolist() == [2] and data.codes.ravel().tolist() == [0, 1, 0]


def test_levels_are_those_of_the_original_and_the_releases():
    table = pd.DataFrame({"v": ["a", "b", "a"]})
    more = [pd.DataFrame({"v": ["c", "a", "a"]}), pd.DataFrame({"v": ["b", "d", "a"]})]
    data = br.Microdata.from_frame(table, releases=more)
    assert data.variables[0].levels == ("a", "b", "c", "d")
    assert data.encode(more[1], "release 2").ravel().tolist() == [1, 3, 0]


def test_categories_of_a_release_are_added_after_the_originals():
    table = pd.DataFrame({"v": pd.Categorical(["z", "a", "z"], ["z", "a"])})
    more = pd.DataFrame({"v": pd.Categorical(["b", "a", "a"], ["a", "b"])})
    data = br.Microdata.from_frame(table, releases=[more])
    assert data.variables[0].levels == ("z", "a", "b")
    assert list(data.decode(data.codes)["v"].cat.categories) == ["z", "a", "b"]


def test_missing_values_of_a_release_count():
    table, more = pd.DataFrame({"v": ["a", "b"]}), pd.DataFrame({"v": ["a", None]})
    data = br.Microdata.from_frame(table, releases=[more], missing="level")
    assert data.n_levels.tolist() == [3]
    assert data.encode(more, "release 1").ravel().tolist() == [0, 2]


def test_declared_levels_are_kept_when_nobody_holds_them():
    table = pd.DataFrame({"v": [1, 2, 1]})
    data = br.Microdata.from_frame(table, levels={"v": [0, 1, 2, 3]})
    assert data.variables[0].levels == (0, 1, 2, 3)
    assert data.codes.ravel().tolist() == [1, 2, 1]


def test_levels_that_are_held_are_those_that_occur_as_in_a_study():
    table = pd.DataFrame({"v": [7, 2, 7], "x": [0.5, 0.1, 0.2]})
    data = br.Microdata.from_frame(table, levels={"v": "held"}, numbers=["x"])
    assert data.variables[0].levels == (2, 7)
    fit = br.models.CART(["v"], min_leaf=1).fit(table, levels={"v": "held"}, random_seed=1)
    assert fit.microdata.numbers == ["x"]
    for word in ("hold", "labels"):
        with pytest.raises(br.InputError, match=f"levels.*'{word}'.*or \"held\""):
            br.Microdata.from_frame(table, levels={"v": word}, numbers=["x"])


def test_integers_and_floats_of_one_value_are_one_level():
    """A release read from a file may hold 1.0 where the original holds 1."""
    data = coded(pd.Series([1, 2, 1]))
    assert data.encode(pd.DataFrame({"v": [1.0, 1.0, 2.0]}), "release 1").ravel().tolist() == [
        0,
        0,
        1,
    ]


def test_columns_are_chosen_and_ordered():
    table = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": np.linspace(0, 1, 2)})
    data = br.Microdata.from_frame(table, columns=["b", "a"])
    assert data.columns == ["b", "a"]
    assert data.decode(data.codes).columns.tolist() == ["b", "a"]


def test_the_table_is_never_changed():
    table = pd.DataFrame({k: v for k, v in ZOO.items()})
    before = table.copy(deep=True)
    data = br.Microdata.from_frame(table)
    data.codes[:] = 0
    back = data.decode(data.codes)
    back.loc[0, "str"] = "y"
    pd.testing.assert_frame_equal(table, before)


def frame(**columns):
    return pd.DataFrame(columns)


BAD = {
    "no frame": ([[1, 2]], {}, "the table is a list; give a pandas DataFrame"),
    "one record": (frame(v=["a"]), {}, "has 1 records; give at least 2"),
    "no record": (frame(v=[]), {}, "has 0 records"),
    "no columns": (pd.DataFrame(index=[0, 1]), {}, "no columns; give at least one"),
    "duplicate columns": (
        pd.DataFrame([[1, 2], [2, 1]], columns=["v", "v"]),
        {},
        r"columns \['v'\] more than once; rename",
    ),
    "duplicate labels": (
        pd.DataFrame({"v": [1, 2]}, index=[7, 7]),
        {},
        "the index names some records twice; give each record its own label",
    ),
    "one level": (frame(v=["a", "a"]), {}, "column 'v' has 1 level.*cannot vary; drop it"),
    "nothing but missing": (frame(v=[None, None]), {}, r"column 'v' has 0 level"),
    "continuous": (
        frame(v=np.linspace(0, 1, MAX_LEVELS + 1)),
        {},
        r"column 'v' \(float64\) has 1001 distinct values.*model for numbers",
    ),
    "names of the records": (
        frame(v=[f"P{i}" for i in range(MAX_LEVELS + 1)]),
        {},
        r"column 'v' \(.*\) has 1001 distinct values.*index='v' \(df.set_ind",
    ),
    "missing column": (frame(v=[1, 2]), {"columns": ["w"]}, "names column 'w'.*it has"),
    "column twice": (frame(v=[1, 2]), {"columns": ["v", "v"]}, "more than once"),
    "one string": (frame(v=[1, 2]), {"columns": "v"}, "single string; give a list"),
    "level twice": (frame(v=[1, 2]), {"levels": {"v": [1, 2, 2]}}, "name a value twice"),
    "levels of nobody": (frame(v=[1, 2]), {"levels": {"w": [1, 2]}}, "levels names column 'w'"),
    "undeclared": (
        frame(v=[1, 2, 9]),
        {"levels": {"v": [1, 2]}},
        "column 'v' of the original holds a value in row 3 which .* levels .*declare it",
    ),
    "missing policy": (frame(v=[1, 2]), {"missing": "drop"}, "missing='drop'"),
    "column of a release": (
        frame(v=[1, 2]),
        {"releases": [frame(w=[1, 2])]},
        "release 1 lacks column 'v'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_name_the_column_the_value_and_the_cure(case):
    table, options, message = BAD[case]
    with pytest.raises(br.InputError, match=message):
        br.Microdata.from_frame(table, **options)


def test_levels_of_a_release_never_declared():
    data = coded(ZOO["category"])
    with pytest.raises(br.InputError, match="column 'v' of release 2 .* in row 2 .*declare it"):
        data.encode(frame(v=["a", "q", "b", "a"]), "release 2")


def test_numbers_of_rows_are_no_labels():
    """A sorted table and what was written of it and read again: the same rows, other labels."""
    shown = pd.DataFrame({"v": [1, 2, 3]})
    moved = shown.set_axis([2, 0, 1])
    for original, table in ((moved, shown), (shown, moved)):
        with pytest.raises(
            br.InputError, match="release 1 and .* merely numbers the rows; give neither"
        ):
            same_records(original.index, table, "release 1")
    assert same_records(moved.sort_index().index, shown, "release 1")["v"].tolist() == [1, 2, 3]
    named = shown.rename_axis("id")  # the column of a file that --index names, as it happens to be
    assert same_records(moved.index, named, "release 1")["v"].tolist() == [3, 1, 2]


def test_a_mask_that_is_a_series_goes_by_its_labels():
    data = br.Microdata.from_frame(frame(v=["a", "b", "a"]).set_axis(["x", "y", "z"]))
    mask = pd.Series([True, False, False], index=["z", "y", "x"])
    assert data.mask(mask).tolist() == [False, False, True]
    with pytest.raises(br.InputError, match="index of records does not name the original's"):
        data.mask(mask.reset_index(drop=True))
    known = br.Intruder(knows_records=mask).known(data.index, np.random.default_rng(1))
    assert known.tolist() == [False, False, True]
    with pytest.raises(br.InputError, match="records is a Series, .*give an array"):
        br.Release(datasets=[frame(v=["a", "b", "a"])], synthesized=["v"], records=mask)


def test_a_variable_knows_its_codes():
    variable = Variable("v", ("a", "b"), True, np.dtype(object))
    assert variable.n_levels == 3
    assert variable.encode(pd.Series(["b", None, "a"]), "the original").tolist() == [1, 2, 0]
