"""Any synthesiser: learnt evidence against exact evidence, enumeration, limits and leaks."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from scipy.special import gammaln
from scipy.stats import dirichlet_multinomial
from sklearn.tree import DecisionTreeClassifier

import bayes_risk as br
from bayes_risk._core.checkpoint import Store, keeping
from bayes_risk.evidence.learnt import Learnt
from bayes_risk.models.simulator.generator import Command
from bayes_risk.models.simulator.ratio import Examples, fitted_ratio
from bayes_risk.models.simulator.trees import (
    Outcome,
    PlacedGuesses,
    Predictors,
    axes,
    trees_with_guesses,
)
from bayes_risk.reporting import plots
from bayes_risk.reporting.sections import section_of
from bayes_risk.reporting.verdicts.reason import Thresholds
from bayes_risk.reporting.verdicts.verdict import judge
from tests.oracles.generator_exact import Cells, Line, copying, posterior, tiny

LEVELS = list("abcde")
pytestmark = [
    pytest.mark.filterwarnings("ignore:column 'x'"),  # many levels
    pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning"),  # few runs
]


def frame(x, s):
    """A known cell and a sensitive level, all levels declared."""
    return pd.DataFrame(
        {
            "x": pd.Categorical.from_codes(x, [f"x{k}" for k in range(int(x.max()) + 1)]),
            "s": pd.Categorical.from_codes(s, LEVELS),
        }
    )


def generator(draw):
    """A generator of tables from a draw of codes."""

    def make(df, m, seed):
        rng, s = np.random.default_rng(seed), df["s"].cat.codes.to_numpy()
        drawn = (draw(s, rng) for _ in range(m))
        return [df.assign(s=pd.Categorical.from_codes(z, LEVELS)) for z in drawn]

    return make


@cache
def cells(n=2000, groups=150):
    """The prototype's table: cells of very different sizes."""
    rng = np.random.default_rng(1)
    x = rng.choice(groups, n, p=rng.dirichlet(np.full(groups, 0.5)))
    shares = rng.dirichlet(np.full(len(LEVELS), 0.4), groups)
    s = np.array([rng.choice(len(LEVELS), p=shares[k]) for k in x])
    return Cells(x, len(LEVELS), 0.5), s


def half_copied(s, rng):
    return np.where(rng.random(len(s)) < 0.5, s, rng.choice(s, len(s)))


def codes_of(release):
    return release.datasets[0]["s"].cat.codes.to_numpy()


def audit(make, df, *, runs=10, m=1, seed=2, release_seed=1, **how):
    fit = br.models.Simulator(make, columns=["s"], runs=runs).fit(df)
    release = fit.synthesize(m, random_seed=release_seed)
    return release, br.attribute_risk(fit, release, random_seed=seed, **how)


@pytest.mark.check
@pytest.mark.parametrize(
    ("runs", "most"), [(10, 0.02), pytest.param(100, 0.012, marks=pytest.mark.slow)]
)
def test_it_finds_the_exact_posterior_of_a_known_mechanism(runs, most):
    made, s = cells()
    release, risk = audit(generator(made.draw), frame(made.x, s), runs=runs)
    exact = posterior(made.log_evidence(s, codes_of(release)))[np.arange(len(s)), s]
    off = risk.records["probability"] - exact
    assert np.sqrt((off**2).mean()) <= most
    assert np.corrcoef(risk.records["probability"], exact)[0, 1] > 0.97
    assert abs(off.mean()) <= 4 * risk.summary().loc["mean_probability", "mcse"] + 0.002


@pytest.mark.parametrize(("runs", "m"), [(8, 3), (30, 1)])
def test_a_generator_that_tells_nothing_leaves_the_prior(runs, m):
    made, s = cells(500, 20)
    nothing = generator(lambda s, rng: rng.integers(0, len(LEVELS), len(s)))
    _, risk = audit(nothing, frame(made.x, s), runs=runs, m=m)
    off = (risk.records["probability"] - 0.2).abs()
    assert (off <= 4 * risk.records["mcse"] + 0.02).all()
    assert not risk.learnt.overconfident


def test_planted_copies_are_found_as_far_as_they_can_be():
    made, s = cells(500, 20)

    def draw(s, rng):
        return np.where(rng.random(len(s)) < 0.3, s, rng.choice(s, len(s)))

    release, risk = audit(generator(draw), frame(made.x, s), runs=30)
    z = codes_of(release)
    exact = copying(s, len(LEVELS), 0.3)(z)[np.arange(len(s)), s]
    off = risk.records["probability"] - exact
    assert abs(off.mean()) < 0.03 and np.sqrt((off**2).mean()) < 0.06
    assert risk.learnt.gain > 4 * risk.learnt.gain_error


def test_a_generator_that_copies_all_is_found_with_certainty():
    made, s = cells(500, 20)
    _, risk = audit(generator(lambda s, rng: s.copy()), frame(made.x, s))
    assert risk.records["probability"].min() > 0.95 and risk.records["reliable"].mean() > 0.98
    verdict = judge(risk, None)
    assert verdict.outcome == "above your thresholds"


def tree_by_hand(X, levels, ordered, axis, y, i, guess, min_leaf):
    """Nodes of the tree with a guess in place of row i: rows, mask of rows alike.

    Every split is summed from its rows. Levels stand in the order of all, below nodes with row i
    its own with the guess.
    """
    held, add, score = np.arange(len(X)), axis[:, y], []
    y = y.copy()
    y[i] = guess
    for p, d in enumerate(levels):
        own = add[p].copy()
        own[i] = axis[p, guess]
        with np.errstate(invalid="ignore"):
            each = [
                np.bincount(X[:, p], s, d) / np.bincount(X[:, p], minlength=d)
                for s in (add[p], own)
            ]
        mixed = np.where(np.arange(d) == X[i, p], each[1], each[0])
        score.append(
            [
                np.argsort(
                    np.arange(d) if ordered[p] else np.nan_to_num(s, nan=np.inf), kind="stable"
                )
                for s in (each[0], mixed)
            ]
        )

    def within(some):
        return (np.bincount(y[some]) ** 2).sum() / len(some)

    leaves, stack = [], [(held, np.ones(len(X), dtype=bool))]
    while stack:
        rows, like = stack.pop()
        best, side = -1.0, None
        if len(rows) >= 2 * min_leaf and within(rows) < len(rows):
            for p, d in enumerate(levels):
                order = score[p][int(i in rows)]
                for at in range(1, d):
                    left = np.isin(X[:, p], order[:at])
                    sides = rows[left[rows]], rows[~left[rows]]
                    if (X[rows, p] == order[at - 1]).any() and min(map(len, sides)) >= min_leaf:
                        found = sum(map(within, sides))
                        if found > best * (1 + 1e-12):
                            best, side = found, left
        if side is None:
            leaves.append((rows, like))
        else:
            stack += [(rows[side[rows] == s], like & (side == s)) for s in (True, False)]
    return leaves, y


@pytest.mark.check
@pytest.mark.parametrize(("added", "drawn"), [(0.1, True), (0.5, False)])
def test_trees_are_those_grown_with_each_guess(added, drawn):
    """Rows of both files have the predictors of y; likelihoods up to a constant for each record."""
    rng, n, levels, targets = np.random.default_rng(8), 200, np.array([2, 6, 20]), 12
    X = np.column_stack([rng.integers(0, d, n) for d in levels])
    s, ordered = (X[:, 1] + rng.integers(0, 3, n)) % 5, np.array([False, True, False])
    Z = rng.permuted(np.stack([s, s]), axis=1)
    tried, record = np.tile(np.arange(5), targets), np.repeat(np.arange(targets), 5)
    predictors = Predictors(X, np.tile(X, (2, 1)), levels, ordered)
    outcome, guesses = Outcome(s, Z.ravel(), 5, 2), PlacedGuesses(record, tried)
    log_p, axis, by_hand = np.zeros(len(tried)), axes(predictors, outcome), np.zeros(len(tried))
    trees_with_guesses(predictors, axis, outcome, guesses, (5, added, drawn), log_p)
    for q, i in enumerate(record):
        leaves, y = tree_by_hand(X, levels, ordered, axis, s, i, tried[q], 5)
        for rows, like in leaves:
            for shown in Z[:, like]:
                held, c = (np.bincount(v, minlength=5) for v in (y[rows], shown))
                if drawn:
                    by_hand[q] += dirichlet_multinomial.logpmf(c, held + added, len(shown))
                    by_hand[q] -= gammaln(c.sum() + 1) - gammaln(c + 1).sum()  # in any order
                else:
                    by_hand[q] += c @ np.log((held + added) / (held + added).sum())
    off = (log_p - by_hand).reshape(targets, 5)
    assert np.ptp(off, axis=1).max() < 1e-8 < np.ptp(by_hand.reshape(targets, 5), axis=1).min()


def test_trees_do_not_depend_on_the_value_of_the_record():
    """Whatever it is, each guess has the same tree, up to the axes of all records."""
    rng, n = np.random.default_rng(4), 300
    X = rng.integers(0, 12, (n, 2))
    X[0] = 11, 11
    X[1:] = np.minimum(X[1:], 10)  # the only record with these levels
    s = rng.integers(0, 3, n)
    predictors, found = Predictors(X, X, np.array([12, 12]), np.zeros(2, dtype=bool)), []
    axis = axes(predictors, Outcome(s, s, 3, 1))
    own, guesses = np.arange(3), PlacedGuesses(np.zeros(3, dtype=int), np.arange(3))
    for value in own:
        y, log_p = s.copy(), np.zeros(3)
        y[0] = value
        outcome = Outcome(y, s, 3, 1)
        trees_with_guesses(predictors, axis, outcome, guesses, (5, 0.1, True), log_p)
        found.append(log_p - log_p[0])
    assert np.allclose(found[0], found[1]) and np.allclose(found[1], found[2])


@pytest.mark.check
@pytest.mark.parametrize("min_leaf", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_most_of_what_trees_disclose_is_captured(min_leaf):
    """More than from the leaves, if trees are known: these trees too depend on the record."""
    rng, n = np.random.default_rng(4), 600
    df = pd.DataFrame({c: pd.Categorical(rng.integers(0, 6, n)) for c in "abc"})
    s = (df["a"].cat.codes + 2 * df["b"].cat.codes + rng.choice(3, n)) % 5
    df["s"] = pd.Categorical.from_codes(s, LEVELS)
    trees = br.models.CART(order=["s"], min_leaf=min_leaf)

    def make(df, m, seed):
        fit = trees.fit(df, random_seed=seed)
        return list(fit.synthesize(m, columns=["s"], random_seed=seed).datasets)

    known, learnt, gains = (
        trees.fit(df, random_seed=1),
        br.models.Simulator(make, columns=["s"]),
        [],
    )
    for seed in range(2):
        release = known.synthesize(1, columns=["s"], random_seed=seed)
        for fit in (known, learnt.fit(df)):
            records = br.attribute_risk(fit, release, random_seed=3).records
            gains.append(np.log(records["probability"] / records["prior"]).mean())
    assert sum(gains[1::2]) > sum(gains[::2])


@pytest.mark.check
def test_a_tree_of_scikit_learn_discloses_what_its_cells_do():
    """Each cell of the kept columns is a leaf; drawn from its shares: z log (k + 1) / k."""
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.integers(0, 5, 400), rng.integers(0, 6, 400)])
    s = (X.sum(axis=1) + rng.choice(4, 400, p=[0.5, 0.25, 0.15, 0.1])) % 5

    def draw(s, rng):
        tree = DecisionTreeClassifier(random_state=0).fit(X, s)
        p = np.zeros((len(s), 5))
        p[:, tree.classes_] = tree.predict_proba(X)
        return (p.cumsum(axis=1) < rng.random((len(s), 1))).sum(axis=1).clip(0, 4)

    df = pd.DataFrame(X, columns=["x", "w"]).astype("category")
    df["s"] = pd.Categorical.from_codes(s, LEVELS)
    release, risk = audit(generator(draw), df, runs=30)
    cell = Cells(X[:, 0] * 6 + X[:, 1], 5, 0.0)
    k, z = (cell.counts(v)[cell.x] for v in (s, codes_of(release)))
    k[np.arange(400), s] -= 1
    exact = posterior(z * np.log1p(1 / np.maximum(k, 1e-9)))[np.arange(400), s]
    p = risk.records["probability"]
    assert np.log(p / 0.2).mean() > 0.8 * np.log(exact / 0.2).mean() > 0.2
    assert np.corrcoef(p, exact)[0, 1] > 0.9 and not risk.learnt.overconfident


@pytest.mark.check
def test_it_finds_the_exact_posterior_of_a_known_regression():
    """A column that the generator does not look at lies beside."""
    rng, n, m = np.random.default_rng(6), 200, 5
    x = rng.integers(0, 6, n)
    pay = (20 + 3 * x + rng.normal(0, 3, n)).round(1)
    df, line = pd.DataFrame({"x": x, "other": rng.choice(list("pqrs"), n), "pay": pay}), Line(x)

    def make(df, m, seed):
        rng, y = np.random.default_rng(seed), df["pay"].to_numpy()
        return [df.assign(pay=line.draw(y, rng)) for _ in range(m)]

    fit, grid = br.models.Simulator(make, columns=["pay"]).fit(df), br.Grid(percent=40, n=11)
    release = fit.synthesize(m, random_seed=1)
    risk = br.attribute_risk(fit, release, guesses={"pay": grid}, random_seed=2)
    Z, learnt, exact = np.stack([table["pay"] for table in release.datasets]), [], []
    for i in range(0, n, 10):
        found, logs = risk.posterior(i), []
        for guess in found["pay"]:
            y = pay.copy()
            y[i] = guess
            logs.append(line.log_evidence(y, Z))
        learnt.append(found["probability"])
        exact.append(posterior(np.array([logs]))[0])
    off = np.array(learnt) - np.array(exact)
    assert np.corrcoef(np.ravel(learnt), np.ravel(exact))[0, 1] > 0.8
    assert np.sqrt((off**2).mean()) < 0.6 * np.sqrt(((np.array(exact) - 1 / 11) ** 2).mean())


@pytest.mark.check
def test_a_forest_that_memorises_is_found():
    from sklearn.ensemble import RandomForestClassifier

    made, s = cells(500, 20)

    other = np.arange(len(s)) % 17

    def draw(s, rng):
        X = np.column_stack([made.x, other])
        forest = RandomForestClassifier(20, random_state=int(rng.integers(2**31)))
        p = forest.fit(X, s).predict_proba(X)
        full = np.zeros((len(s), len(LEVELS)))
        full[:, forest.classes_] = p
        return (full.cumsum(axis=1) < rng.random((len(s), 1))).sum(axis=1).clip(0, 4)

    df = frame(made.x, s).assign(other=pd.Categorical(other))
    _, risk = audit(generator(draw), df, runs=20)
    assert risk.records["probability"].mean() > 0.4
    assert not risk.learnt.overconfident


def test_it_converges_to_the_enumerated_posterior_given_what_it_looks_at():
    """n = 5 records of two levels; the statistic: own value, and how many others show a 1."""
    n, keep, sizes = 5, 0.6, (200, 2_000, 20_000)

    def p_of_z(y, z):
        rest = np.bincount(y, minlength=2) / n
        own = [keep * (z[i] == y[i]) + (1 - keep) * rest[z[i]] for i in range(n)]
        return float(np.prod(own))

    exact = tiny(2, n, p_of_z, lambda z: (z[0], sum(z[1:])))
    kinds, truths = sorted(exact), np.array([exact[kind][1] for kind in sorted(exact)])
    weights = np.array([sum(p_of_z((0,) * n, z) + p_of_z((1, *[0] * (n - 1)), z) for z in zs)
                        for zs in _releases(kinds, n)])  # fmt: skip
    numbers = np.zeros((2, n), dtype=int)
    numbers[tuple(np.array(kinds).T)] = np.arange(len(kinds))
    rng, off = np.random.default_rng(3), []
    for size in np.repeat(sizes, 3):
        g = rng.integers(0, 2, size)
        y = np.zeros((size, n), dtype=int)
        y[:, 0] = g
        rest = rng.random((size, n)) < g[:, None] / n  # from the frequencies: level 1 has g of n
        z = np.where(rng.random((size, n)) < keep, y, rest).astype(int)
        features = np.zeros((size, 2, len(kinds)))  # one weight for each value of the statistic
        features[np.arange(size), 1, numbers[z[:, 0], z[:, 1:].sum(axis=1)]] = 1.0
        half, run = np.full((size, 2), np.log(0.5)), np.arange(size) % 20
        fit = fitted_ratio(Examples(features, half, g, run))
        error = 1 / (1 + np.exp(-fit.weights)) - truths
        off.append((weights * error**2).sum() / weights.sum())
    rms = np.sqrt(np.reshape(off, (3, 3)).mean(axis=1))
    assert rms[2] < 0.01 and rms[0] > rms[1] > rms[2]
    assert np.log(rms[0] / rms[2]) / np.log(sizes[2] / sizes[0]) > 0.4


def _releases(kinds, n):
    from itertools import product

    for kind in kinds:
        yield [z for z in product(range(2), repeat=n) if (z[0], sum(z[1:])) == kind]


def test_numbers_missing_values_and_labels():
    rng, n = np.random.default_rng(3), 300
    pay = rng.lognormal(3, 0.6, n).round(1)
    job = pd.Series(rng.choice(list("pq"), n)).where(rng.random(n) < 0.9)
    df = pd.DataFrame({"job": job.to_numpy(), "pay": pay}, index=[f"r{k}" for k in range(n)])

    def make(df, m, seed):
        rng = np.random.default_rng(seed)
        keep = rng.random((m, len(df))) < 0.4
        return [df.assign(pay=np.where(k, df["pay"], rng.choice(df["pay"], len(df)))) for k in keep]

    fit = br.models.Simulator(make, columns=["pay"], runs=10).fit(df, missing="level")
    release = fit.synthesize(2, random_seed=1)
    grid = {"pay": br.Grid(percent=10, n=11)}
    risk = br.attribute_risk(fit, release, guesses=grid, random_seed=2)
    copied = np.any([t["pay"] == df["pay"] for t in release.datasets], axis=0)
    p = risk.records["probability"]
    shown = df["pay"].isin(np.concatenate([t["pay"] for t in release.datasets]))  # by any row
    assert p[copied].mean() > 0.6 and p[shown].mean() > 0.6 and p[~shown].mean() < 0.2
    placed = br.attribute_risk(fit, release, guesses={"pay": "predictive"}, random_seed=2)
    assert list(placed.priors) == ["predictive"]


def test_rows_that_are_nobodys_in_any_number():
    rng = np.random.default_rng(3)
    df = pd.DataFrame({c: rng.choice(list("pqr"), 200) for c in "ab"})

    def make(df, m, seed):
        rows = np.random.default_rng(seed).choice(len(df), (m, 150))
        return [df.iloc[some].reset_index(drop=True) for some in rows]

    fit = br.models.Simulator(make, runs=8).fit(df)
    risk = br.attribute_risk(fit, fit.synthesize(5, random_seed=1), random_seed=2)
    assert len(risk.records) == 200 and risk.records["probability"].between(0, 1).all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda df, m, seed: df.drop(columns="s"), "without column 's'"),
        (lambda df, m, seed: None, "returned a NoneType"),
        (lambda df, m, seed: [df, df], "returned 2 tables for m = 1"),
        (lambda df, m, seed: df.no_such_thing, "failed with AttributeError"),
        (lambda df, m, seed: sys.exit(3), "failed with SystemExit.*here with seed="),
        (lambda df, m, seed: df.assign(x=df["x"].iloc[::-1].to_numpy()), "column 'x'"),
    ],
)
def test_a_generator_that_fails_is_told_without_values(make, said):
    made, s = cells(300, 10)
    df = frame(made.x, s)
    release = br.Release(datasets=[df], synthesized=["s"])
    fit = br.models.Simulator(make, columns=["s"]).fit(df)
    with pytest.raises(br.InputError, match=f"generator.*{said}"):
        br.attribute_risk(fit, release, random_seed=1)


@pytest.mark.parametrize("way", ["the same seed gave other files", "another seed gave the same"])
def test_a_generator_that_ignores_its_seed_is_found(way):
    made, s = cells(300, 10)
    rng = np.random.default_rng(0)
    draw = (lambda s, _: rng.permutation(s)) if "other" in way.split("gave")[1] else np.sort
    make = generator(lambda s, own: draw(s, own) if draw is not np.sort else np.sort(s))
    _, risk = audit(make, frame(made.x, s), runs=8)
    assert way in risk.assumptions["evidence"]


def test_it_says_at_least_and_is_never_within_unless_accepted():
    made, s = cells(300, 10)
    nothing = generator(lambda s, rng: rng.integers(0, len(LEVELS), len(s)))
    _, risk = audit(nothing, frame(made.x, s), runs=8)
    assert "a probability of at least 0.2" in risk.sentence()
    found = judge(risk, None)
    assert found.outcome == "inconclusive"
    assert "An intruder with better features may learn more." in found.sentence()
    limits = Thresholds(accept_simulated=True, linked_records=1.0, identical_records=1.0)
    accepted = judge(risk, None, limits)
    assert accepted.headline.startswith("Within your thresholds for this intruder")
    with pytest.raises(br.InputError, match="accept_simulated"):
        Thresholds(accept_simulated=1)


def test_what_it_does_not_take_is_told():
    made, s = cells(300, 10)
    fit = br.models.Simulator(generator(made.draw), columns=["s"]).fit(frame(made.x, s))
    release = fit.synthesize(1, random_seed=1)
    with pytest.raises(br.InputError, match="give exactly one of generator"):
        br.models.Simulator()
    with pytest.raises(br.InputError, match="runs=3 is too small"):
        br.models.Simulator(print, runs=3)
    with pytest.raises(br.InputError, match="share=0 must be above 0"):
        br.models.Simulator(print, share=0)
    with pytest.raises(br.InputError, match="lacks {output}"):
        br.models.Simulator(command=[sys.executable, "{input}"])
    with pytest.raises(br.InputError, match="not a program here"):
        br.models.Simulator(command=["no-such-program", "{input}", "{output}"])
    with pytest.raises(br.InputError, match="Simulator offers no evidence for that"):
        br.attribute_risk(fit, release, intruder=br.Intruder("none"))
    two = frame(made.x[:30], s[:30])
    few = br.models.Simulator(generator(lambda s, rng: s), columns=["s"], runs=8).fit(two)
    with pytest.raises(br.InputError, match="runs=8 with share = 0.1 give 24 examples"):
        br.attribute_risk(few, few.synthesize(1), random_seed=1)
    every = br.models.Simulator(lambda df, m, seed: df, runs=8).fit(two)
    with pytest.raises(br.InputError, match="runs=8 with share = 0.1 give 24 examples"):
        br.membership(every, every.synthesize(1), random_seed=1)


SCRIPT = """
import sys
source, out, m, seed = sys.argv[1:]
rows = open(source).read().split("\\n")
for l in range(int(m)):
    with open(f"{out}/synthetic-{l + 1}.csv", "w") as file:
        file.write("\\n".join([rows[0], *rows[1:]]))
"""


def command(tmp_path, text):
    (tmp_path / "make.py").write_text(text)
    places = ["{input}", "{output}", "{m}", "{seed}"]
    return [sys.executable, str(tmp_path / "make.py"), *places]


@pytest.mark.check
def test_a_command_is_a_generator_like_any_other(tmp_path):
    made, s = cells(300, 10)
    df = frame(made.x, s)
    words = command(tmp_path, SCRIPT)
    copies = br.models.Simulator(command=words, columns=["s"], runs=8).fit(df)
    release = copies.synthesize(2, random_seed=1)
    pd.testing.assert_frame_equal(release.datasets[1], df)
    risk = br.attribute_risk(copies, release, random_seed=1)
    assert risk.records["probability"].min() > 0.9
    assert "another seed gave the same" in risk.assumptions["evidence"]


REAL = {
    "synthpop": """
suppressMessages(library(synthpop))
args <- commandArgs(TRUE)
d <- read.csv(args[1], stringsAsFactors = TRUE)
z <- suppressMessages(syn(d, m = 1, seed = as.integer(args[4]), print.flag = FALSE))$syn
write.csv(z, file.path(args[2], "synthetic-1.csv"), row.names = FALSE)
""",
    "copulas": """
import sys, pandas
from copulas.multivariate import GaussianMultivariate
table = pandas.read_csv(sys.argv[1])
codes = table.apply(lambda c: c.astype("category").cat.codes)
made = GaussianMultivariate()
made.set_random_state(int(sys.argv[4]))
made.fit(codes)
drawn = made.sample(len(table)).round().astype(int)
for c in table:
    levels = sorted(table[c].unique())
    drawn[c] = drawn[c].clip(0, len(levels) - 1).map(dict(enumerate(levels)))
drawn.to_csv(sys.argv[2] + "/synthetic-1.csv", index=False)
""",
    "ctgan": """
import sys, pandas
from ctgan import CTGAN
table = pandas.read_csv(sys.argv[1])
made = CTGAN(epochs=1, batch_size=100)
made.set_random_state(int(sys.argv[4]))
made.fit(table, list(table))
made.sample(len(table)).to_csv(sys.argv[2] + "/synthetic-1.csv", index=False)
""",
    "mbi": """
import itertools, sys, numpy, pandas
from mbi import Dataset, Domain, LinearMeasurement, estimation
numpy.random.seed(int(sys.argv[4]))
table = pandas.read_csv(sys.argv[1]).astype("category")
domain = Domain(list(table), [len(table[c].cat.categories) for c in table])
data, noisy = Dataset({c: table[c].cat.codes.to_numpy() for c in table}, domain), []
for pair in itertools.combinations(table, 2):
    counts = numpy.asarray(data.project(pair).datavector())
    counts = counts + numpy.random.laplace(0, 3, len(counts))
    noisy.append(LinearMeasurement(counts, pair, stddev=4))
model = estimation.MirrorDescent().estimate(domain, noisy, known_total=len(table), iters=50)
drawn = model.synthetic_data(rows=len(table)).to_dict()
made = {c: table[c].cat.categories[numpy.asarray(drawn[c]).astype(int)] for c in table}
pandas.DataFrame(made).to_csv(sys.argv[2] + "/synthetic-1.csv", index=False)
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("package", sorted(REAL))
def test_a_generator_of_others_is_run_where_it_is_installed(tmp_path, package):
    program, looks = sys.executable, ["-c", f"import {package}"]
    if package == "synthpop":
        program, looks = shutil.which("Rscript"), ["-e", f"library({package})"]
    if program is None or subprocess.run([program, *looks], capture_output=True).returncode:
        pytest.skip(f"{package} is not installed")
    rng, script = np.random.default_rng(1), tmp_path / "make"
    script.write_text(REAL[package])
    df = pd.DataFrame({"a": rng.choice(list("pqr"), 300), "b": rng.choice(list("pqr"), 300)})
    df["s"] = np.where(rng.random(300) < 0.6, df["a"], df["b"])
    words = [program, str(script), "{input}", "{output}", "{m}", "{seed}"]
    fit = br.models.Simulator(command=words, runs=8).fit(df)
    knows = br.Intruder(knows_columns=["a", "b"])
    release = fit.synthesize(1, random_seed=1)
    risk = br.attribute_risk(fit, release, intruder=knows, random_seed=2)
    found = risk.summary().loc["mean_probability"]
    assert found["value"] > 1 / 3 - 4 * found["mcse"] and not risk.learnt.overconfident


@pytest.mark.check
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("print('secret'); raise SystemExit(3)", "ended with exit code 3"),
        ("import time; print('secret', flush=True); time.sleep(60)", "seconds=2 have passed"),
        ("print('secret')", "left 0 files"),
        (
            "print('secret'); import sys; open(sys.argv[2] + '/a.csv', 'w')",
            "wrote a file that cannot be read: '{output}/a.csv' is empty",
        ),
    ],
)
def test_a_command_that_fails_is_told_and_its_log_kept(tmp_path, text, said):
    made, s = cells(300, 10)
    words = command(tmp_path, text)
    fit = br.models.Simulator(command=words, columns=["s"], seconds=2).fit(frame(made.x, s))
    with pytest.raises(br.InputError, match=said) as caught:
        fit.synthesize(1, random_seed=1)
    log = str(caught.value).split("'")[-2]
    assert "secret" not in str(caught.value) and Path(log).read_text() == "secret\n"


@pytest.mark.skipif(sys.platform == "win32", reason="without groups of processes")
def test_what_a_command_left_running_is_ended(tmp_path):
    """It may hold the table."""
    places, log = ("{input}", "{output}"), tmp_path / "left.txt"
    words = "sh", "-c", f"sleep 60 & echo $! > {log}; cp $0 $1/a.csv", *places
    Command(words, 60)(frame(np.arange(9), np.zeros(9, dtype=int)), 1, 1)
    number = int(log.read_text())
    if psutil.pid_exists(number):
        left = psutil.Process(number)
        psutil.wait_procs([left], 30)
        assert not left.is_running() or left.status() == psutil.STATUS_ZOMBIE


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not offer it")
def test_a_command_ends_with_the_process_that_waits_for_it(tmp_path):
    """Killed, that left the program at work on the table."""
    words = command(
        tmp_path, "import os, sys, time\nprint(os.getpid(), flush=True); time.sleep(60)"
    )
    log = tmp_path / "log.txt"
    if (waits := os.fork()) == 0:
        Command(tuple(words), 60)._run(words, tmp_path, log)
        os._exit(0)
    while not (log.exists() and log.read_text().endswith("\n")):
        time.sleep(0.01)
    program = psutil.Process(int(log.read_text()))
    os.kill(waits, signal.SIGKILL)
    os.waitpid(waits, 0)
    psutil.wait_procs([program], 30)
    assert not program.is_running() or program.status() == psutil.STATUS_ZOMBIE


def calibrated(rng, runs, each, spread):
    """Predictions that hold, of examples which depend on each other within a run."""
    top = rng.uniform(0.3, 0.9, (runs, each))
    shift = rng.choice([-spread, spread], (runs, 1)) * top * (1 - top)  # of mean 0 over runs
    right = rng.random((runs, each)) < top + shift
    log_p = np.log(np.stack([top, 1 - top], axis=-1)).reshape(-1, 2)
    likeliest = log_p.argmax(axis=1)
    wrong = 1 - likeliest
    happened = np.where(top.ravel() >= 0.5, right.ravel(), ~right.ravel())
    return log_p, np.where(happened, likeliest, wrong), np.repeat(np.arange(runs), each)


@pytest.mark.parametrize(("runs", "spread"), [(8, 0.0), (30, 0.0), (30, 0.8)])
def test_the_calibration_test_keeps_its_level_where_examples_of_a_run_depend(runs, spread):
    rng, p_values, z = np.random.default_rng(1), [], []
    for _ in range(200):
        found = Learnt.of(*calibrated(rng, runs, 40, spread), np.zeros(runs), runs=runs, share=0.1)
        p_values.append(found.p_value)
        z.append((found.predicted - found.observed) / found.standard_error)
    p_values, error = np.array(p_values), np.sqrt(0.05 * 0.95 / 200)
    assert abs((p_values < 0.05).mean() - 0.05) <= 4 * error
    assert (p_values < 0.01).mean() <= 0.01 + 4 * np.sqrt(0.01 * 0.99 / 200)
    assert np.array(z).std() == pytest.approx(1.0, abs=0.15)  # five levels, 200 repetitions


def test_overconfidence_is_found():
    rng = np.random.default_rng(1)
    log_p, drawn, run = calibrated(rng, 30, 40, 0.0)
    sharper = 2 * log_p - np.log(np.exp(2 * log_p).sum(axis=1, keepdims=True))
    found = Learnt.of(sharper, drawn, run, np.zeros(30), runs=30, share=0.1)
    assert found.overconfident and found.p_value < 0.001


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.01, 0.1, 0.3])
def test_intervals_hold_the_exact_posterior_in_repetition(share):
    """Copies of some values: ``low`` and ``high`` of each record, 60 tables and their releases."""
    inside, p_values = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x, s = rng.integers(0, 20, 300), rng.choice(5, 300, p=rng.dirichlet(np.ones(5)))

        def draw(s, rng):
            return np.where(rng.random(len(s)) < share, s, rng.choice(s, len(s)))

        release, risk = audit(generator(draw), frame(x, s), runs=20, seed=seed, release_seed=seed)
        exact = copying(s, len(LEVELS), share)(codes_of(release))[np.arange(len(s)), s]
        ends = risk.records[["low", "high"]].to_numpy()
        inside.append(((ends[:, 0] <= exact) & (exact <= ends[:, 1])).mean())
        p_values.append(risk.learnt.p_value)

    assert 0.93 <= np.mean(inside) <= 0.995
    assert np.mean(np.array(p_values) < 0.05) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 60)


def publishing_the_first(df, m, seed):
    """The first record as it is; all others from the margin."""
    rng = np.random.default_rng(seed)
    out = [df.assign(s=rng.choice(df["s"], len(df))) for _ in range(m)]
    for table in out:
        table.iloc[0] = df.iloc[0]
    return out


def test_a_run_stopped_while_suspects_are_redrawn_goes_on_with_the_same_bytes(tmp_path):
    made, s = cells(300, 10)
    df, redrawn, stop = frame(made.x, s), [], [False]

    def make(df_of_run, m, seed):
        redrawn.append(int((df_of_run["s"] != df["s"]).sum()))
        if stop[0] and len(redrawn) == 9:
            raise KeyboardInterrupt
        return publishing_the_first(df_of_run, m, seed)

    fit = br.models.Simulator(make, columns=["s"], runs=12).fit(df)
    release = br.Release(datasets=publishing_the_first(df, 1, 1), synthesized=["s"])
    whole = br.attribute_risk(fit, release, random_seed=2).records
    stop[0], uninterrupted = True, redrawn.copy()
    redrawn.clear()
    with pytest.raises(KeyboardInterrupt), keeping(Store(tmp_path / "steps")):
        br.attribute_risk(fit, release, random_seed=2)
    stop[0] = False
    with keeping(Store(tmp_path / "steps")):
        resumed = br.attribute_risk(fit, release, random_seed=2).records
    assert redrawn == uninterrupted[:9] + uninterrupted[8:]  # kept runs are not done again
    assert np.mean(redrawn[6:9]) > 1.1 * np.mean(redrawn[:6])  # suspects beside those of the turn
    pd.testing.assert_frame_equal(whole, resumed, check_exact=True)


@pytest.mark.parametrize("linked", [True, False])
def test_a_leak_about_one_person_is_found(linked):
    """The record in the smallest cell is published as it is; all others from the margin."""
    made, s = cells(500, 20)
    x = made.x.copy()
    x[0] = x.max() + 1  # a combination of its own

    def make(df, m, seed):
        out = publishing_the_first(df, m, seed)
        if linked:
            return out
        rows = np.random.default_rng([seed, 1]).permutation(len(df))  # and a row more: nobody's
        return [table.iloc[[*rows, 1]].reset_index(drop=True) for table in out]

    df = frame(x, s)
    fit = br.models.Simulator(make, columns=["s"] if linked else None).fit(df)
    release = fit.synthesize(1, random_seed=1)
    knows = None if linked else br.Intruder(knows_columns=["x"])
    risk = br.attribute_risk(fit, release, intruder=knows, random_seed=2)
    p = risk.records["probability"]
    assert p.idxmax() == 0 and p[0] > 0.9 and risk.records["rank"][0] == 1
    assert risk.records["low"][0] > 0.6 and p.drop(0).max() < 0.5
    assert judge(risk, None).outcome == "above your thresholds"


def test_the_report_shows_predicted_against_observed():
    made, s = cells(300, 10)
    _, risk = audit(generator(half_copied), frame(made.x, s), runs=8)
    axes, table = plots.plot_held_out(risk), risk.learnt.calibration
    assert np.allclose(axes.lines[1].get_xydata(), table[["predicted", "observed"]])
    assert [text.get_text() for text in axes.texts] == [f"{n:,}" for n in table["examples"]]
    drawn = section_of(risk).pictures["calibration"]
    assert [picture.name for picture in drawn] == ["calibration"] and "<svg" in drawn[0].svg
    with pytest.raises(br.InputError, match="no simulated evidence"):
        plots.plot_held_out(replace(risk, learnt=None))


def counts_with_noise(epsilon):
    """A private generator: counts of cells with Laplace noise, for one record in or out."""

    def make(df, m, seed):
        rng = np.random.default_rng(seed)
        levels = [f"{a}{b}" for a in "pqrs" for b in "pqrs"]
        held = (df["a"].astype(str) + df["b"].astype(str)).value_counts().reindex(levels)
        noisy = np.maximum(held.fillna(0).to_numpy() + rng.laplace(0, 1 / epsilon, len(levels)), 0)
        drawn = rng.choice(levels, len(df), p=noisy / noisy.sum())
        return pd.DataFrame({"a": [v[0] for v in drawn], "b": [v[1] for v in drawn]})

    return make


def pairs():
    rng = np.random.default_rng(3)
    return pd.DataFrame({c: rng.choice(list("pqrs"), 300) for c in "ab"})


def test_a_private_generator_keeps_its_epsilon():
    fit = br.models.Simulator(counts_with_noise(1.0), runs=10).fit(pairs())
    found = br.membership(fit, fit.synthesize(1, random_seed=1), random_seed=2)
    assert (found.empirical_epsilon()["low"] <= 1.0).all()
    assert len(found.records) > 300 and found.records["member"].sum() == 300


def test_members_of_a_generator_that_publishes_records_are_found():
    """Each record is published with probability 0.6: AUC of at most 0.8, of rows that are alone."""
    rng = np.random.default_rng(3)
    df = pd.DataFrame({c: rng.choice(list("pqrst"), 400) for c in "abcd"})

    def make(df, m, seed):
        return df.sample(frac=0.6, random_state=seed).reset_index(drop=True)

    fit = br.models.Simulator(make, runs=10).fit(df)
    found = br.membership(fit, fit.synthesize(1, random_seed=1), random_seed=2)
    auc = found.summary().loc["auc"]
    assert 0.65 < auc["value"] < 0.8 + 4 * auc["standard_error"]
    assert found.empirical_epsilon()["low"].min() > 1


def test_members_of_a_generator_that_tells_nothing_are_not_found():
    def make(df, m, seed):
        rng = np.random.default_rng(seed)
        return pd.DataFrame({c: rng.choice(list("pqrs"), len(df)) for c in "ab"})

    fit = br.models.Simulator(make, runs=10).fit(pairs())
    found = br.membership(fit, fit.synthesize(1, random_seed=1), random_seed=2)
    auc = found.summary().loc["auc"]
    assert abs(auc["value"] - 0.5) <= 4 * auc["standard_error"] + 0.01
    assert (found.empirical_epsilon()["low"] == 0).all()
    with pytest.raises(br.InputError, match="others"):
        br.membership(fit, fit.synthesize(1, random_seed=1), others=pairs())
