"""Probabilities that the intruder gives are frequencies, for trees and forests with known splits.

The structure is fixed. A target's value is drawn from the prior over the guesses, the release is
drawn from the leaves as they are with that value, and the posterior is asked: over many tables the
sum of (1[the value was g] - Pr(g)) is zero in expectation, for every g and every size of Pr(g).
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.models.trees.tree import last_below
from tests.oracles.forest_by_hand import relabelled

pytestmark = pytest.mark.check  # brute force: tests of cart, kernel evidence, forest evidence

ROW, TABLES = 4, 400


def z_scores(hits, probabilities):
    """Of each guess, and of confident statements: sums of hit - p by their binomial errors."""
    hits, p = np.array(hits), np.array(probabilities)
    scores = []
    for chosen in (*(np.arange(p.shape[1]) == g for g in range(p.shape[1])), p > 0.5, p < 0.1):
        mask = np.broadcast_to(chosen, p.shape)
        if (p[mask] * (1 - p[mask])).sum() > 1:
            scores.append((hits[mask] - p[mask]).sum() / np.sqrt((p[mask] * (1 - p[mask])).sum()))
    assert len(scores) >= 3
    return np.array(scores)


def with_values(fit, values):
    """The same splits on a table in which the target has other values, by column."""
    codes = fit.microdata.codes.copy()
    for column, value in values.items():
        codes[ROW, column] = value
    return replace(fit, microdata=replace(fit.microdata, codes=codes))


def moved(fit):
    """Records of trees stand in the leaves that their values lead to."""
    trees = []
    for tree in fit.trees:
        leaf = tree.leaf(fit.microdata.codes)
        donors, nodes = np.argsort(leaf, kind="stable"), np.arange(tree.n_nodes)
        begin = np.searchsorted(leaf[donors], nodes, side="left")
        end = np.searchsorted(leaf[donors], last_below(tree.left, tree.right), side="right")
        trees.append(replace(tree, donors=donors, begin=begin, end=end))
    return replace(fit, trees=tuple(trees))


def voting_anew(fit):
    """Leaves of forests vote as their records' values make them."""
    forests = []
    for trees in fit.forests:
        labels = np.concatenate(relabelled(trees, fit.microdata.codes))
        right = np.where(trees.feature < 0, labels, trees.right).astype(trees.right.dtype)
        forests.append(replace(trees, right=right))
    return replace(fit, forests=tuple(forests))


def posterior_of(fit, release, guesses):
    """Guesses in order, shape (G, q), and the probability of each; the prior is uniform."""
    label = fit.microdata.index[ROW]
    risk = br.attribute_risk(fit, release, guesses=guesses, targets=[label], random_seed=1)
    guess, p = risk.guesses[:, 0], np.exp(risk.log_probability[:, 0])
    order = np.lexsort(guess.T)
    return guess[order], p[order]


def calibrated(draw, columns, guesses, m=1):
    """``draw()``: a fit of a table with another target, whose values in the columns are guessed."""
    hits, probabilities = [], []
    for seed in range(TABLES):
        drawn = draw()
        guess, p = posterior_of(drawn, drawn.synthesize(m=m, random_seed=seed), guesses)
        hits.append((guess == drawn.microdata.codes[ROW, columns]).all(axis=1))
        probabilities.append(p)
    assert np.abs(z_scores(hits, probabilities)).max() < 4


def numbers(seed):
    rng = np.random.default_rng(seed)
    group = pd.Categorical(rng.choice(["a", "b"], 24))
    pay = np.round(rng.lognormal(2, 0.5, 24), 1)
    return pd.DataFrame({"group": group, "pay": pay, "kids": rng.poisson(2, 24)})


@pytest.mark.parametrize(
    ("smoothing", "bootstrap"),
    [
        (None, "bayesian"),
        pytest.param(None, "none", marks=pytest.mark.slow),
        pytest.param("kde", "bayesian", marks=pytest.mark.slow),
        ("kde", "none"),
    ],
)
def test_numbers_from_leaves(bootstrap, smoothing):
    df = numbers(3)
    values = [4.0, 6.0, 9.0, 14.0, 22.0] if smoothing else sorted(df["pay"].iloc[:5])
    df.loc[ROW, "pay"] = values[0]
    model = br.models.CART(["pay"], min_leaf=6, bootstrap=bootstrap, smoothing=smoothing)
    fit = model.fit(df, random_seed=1)
    rng, grid = np.random.default_rng(5), {"pay": br.Grid(values=values)}
    calibrated(lambda: with_values(fit, {1: rng.choice(values)}), [1], grid, m=2)


@pytest.mark.parametrize(("votes", "dirichlet"), [("all", 0.0), ("out-of-bag", 0.5)])
def test_forests(votes, dirichlet):
    """Fixed splits and bootstrap samples; leaves vote as their records' values make them."""
    rng = np.random.default_rng(4)
    x = rng.integers(4, size=24)
    df = pd.DataFrame(
        {
            "x": pd.Categorical.from_codes(x, list("abcd")),
            "y": pd.Categorical.from_codes((x + rng.integers(2, size=24)) % 3, list("uvw")),
        }
    )
    model = br.models.Forest(["y"], n_trees=12, votes=votes, dirichlet=dirichlet)
    fit = model.fit(df, random_seed=1)
    draw = lambda: voting_anew(with_values(fit, {1: rng.integers(3)}))  # noqa: E731
    calibrated(draw, [1], br.Neighbourhood(1), m=2)
