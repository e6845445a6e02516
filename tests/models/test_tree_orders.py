"""The order in which a declaration names the levels of a category decides nothing in a tree."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.data.microdata import Microdata
from bayes_risk.models.trees.forest_trees import grow_forest
from bayes_risk.models.trees.tree import grow

LETTERS = list("uvwxyz")


def table(rng, outcome):
    """A few levels, of which some have no record, equal counts and equal shares among them."""
    n, held = int(rng.choice([12, 24, 40])), LETTERS[: int(rng.integers(2, 6))]
    y = {"two": list("fm"), "three": list("pqr"), "number": range(4)}[outcome]
    df = pd.DataFrame({"a": rng.choice(held, n), "b": rng.choice(held, n)})
    equal = np.repeat(list(y), -(-n // len(y)))[:n]
    return df.assign(y=equal if rng.random() < 0.5 else rng.choice(list(y), n))


def declared(df, rng=None):
    """Its categories with all levels, in the order of the alphabet or in another one."""
    out = df.copy()
    for name, levels in {"a": LETTERS, "b": LETTERS, "y": sorted(df["y"].unique())}.items():
        if not pd.api.types.is_numeric_dtype(df[name]):
            order = levels if rng is None else list(rng.permutation(levels))
            out[name] = pd.Categorical(df[name].to_numpy(), categories=order)
    return out


def every_row(data):
    """All pairs of levels of a and b by name, coded; y does not matter."""
    levels = [list(data.variables[j].levels) for j in (0, 1)]
    rows = np.zeros((len(LETTERS) ** 2, 3), dtype=data.codes.dtype)
    rows[:, :2] = [[levels[0].index(a), levels[1].index(b)] for a in LETTERS for b in LETTERS]
    return rows


def members(tree, nodes):
    return [frozenset(tree.donors[tree.begin[k] : tree.end[k]]) for k in nodes]


@pytest.mark.parametrize("outcome", ["two", "three", "number"])
@pytest.mark.parametrize(
    "weighted",
    [pytest.param(False, id="plain"), pytest.param(True, id="weighted", marks=pytest.mark.check)],
)
def test_rows_lie_with_the_same_records_whatever_the_order_of_levels(outcome, weighted):
    rng, compared = np.random.default_rng([len(outcome), weighted]), 0
    for _ in range(60):
        df = table(rng, outcome)
        weights = rng.integers(1, 4, len(df)).astype(float) if weighted else None
        found = []
        for order in (None, rng, rng):
            data = Microdata.from_frame(declared(df, order))
            tree = grow(data, 2, np.array([0, 1]), min_leaf=2, seed=1, weights=weights)
            rows = every_row(data)
            found.append([members(tree, tree.leaf(rows)), members(tree, tree.node(rows))])
        compared += len(set(found[0][0])) > 1
        assert found[1] == found[0]
        assert found[2] == found[0]
    assert compared > 30  # trees with a split


def test_forests_lead_rows_to_the_same_leaves_whatever_the_order_of_levels():
    rng = np.random.default_rng(7)
    for _ in range(10):
        df, found = table(rng, "three"), []
        for order in (None, rng):
            data = Microdata.from_frame(declared(df, order))
            some = np.arange(len(df))
            trees = grow_forest(data, 2, np.array([0, 1]), some, np.arange(30), min_leaf=1)
            found.append(trees.leaves(trees.encoded(every_row(data))))
        np.testing.assert_array_equal(*found)


def test_a_level_without_records_changes_no_probability_by_its_place():
    df = table(np.random.default_rng(3), "two")
    guesses = {"a": br.Levels(), "y": br.Levels()}
    found = []
    for order in (None, np.random.default_rng(5)):
        fit = br.models.CART(["a", "y"], min_leaf=2).fit(declared(df, order), random_seed=1)
        release = fit.synthesize(2, random_seed=2)
        fixed = [made.astype(str) for made in (found[0][0] if found else release.datasets)]
        given = br.Release(datasets=fixed, synthesized=["a", "y"], parameters=release.parameters)
        risk = br.attribute_risk(fit, given, guesses=guesses, prior="uniform", random_seed=3)
        found.append((release.datasets, risk.records["probability"]))
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-9)
