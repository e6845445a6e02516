"""Persons that files show beyond chance: counts by hand, false alarms, power, invariance."""

from importlib import import_module
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, poisson
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.tree import ExtraTreeRegressor

import bayes_risk as br
from bayes_risk._core.nearest import Points, two_nearest
from bayes_risk.release.links_result import LEVEL
from bayes_risk.release.own_rows import PENALTIES, SMALLEST, _of_tree, _smoothly

pairs_module = import_module("bayes_risk.release.pairs")


def people(n, seed, *, levels=(2, 4, 7), scale=1000.0):
    """Three categories and two amounts, of a population in which all hang together."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 5, n)
    frame = {f"c{j}": (rng.integers(0, d, n) + kind) % d for j, d in enumerate(levels)}
    frame["age"] = np.clip(20 + 10 * kind + rng.normal(0, 8, n), 0, 99).round()
    frame["pay"] = np.round(np.exp(rng.normal(kind / 2, 0.7, n)) * scale, 2)
    return pd.DataFrame(frame)


def worst(found):
    return found.tests[0]


# --- by hand --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_two_nearest_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    codes = rng.integers(0, 3, (n, 2)).astype(np.int32)
    numbers = rng.integers(0, 4, (n, 2)).astype(float)
    numbers[rng.random((n, 2)) < 0.1] = np.nan
    points = Points(codes, numbers)
    found = two_nearest(points, points, np.arange(n))
    for i in range(n):
        away = []
        for k in range(n):
            both = np.isnan(numbers[i]) & np.isnan(numbers[k])
            step = np.where(both, 0.0, np.nan_to_num((numbers[i] - numbers[k]) ** 2, nan=1.0))
            away.append(np.inf if k == i else float((codes[i] != codes[k]).sum() + step.sum()))
        order = sorted(away)
        assert found.first[i] == order[0] and away[found.row[i]] == order[0]
        assert found.second[i] == (order[1] if n > 2 else np.inf)
        assert found.ties[i] == away.count(order[0]) or n == 2


@pytest.mark.parametrize("seed", range(5))
def test_two_nearest_of_many_by_brute_force(seed):
    """Deep trees, leaves of equal records, several records a unit; asked records within or not."""
    rng = np.random.default_rng(seed)
    n, few = int(rng.integers(100, 900)), int(rng.choice([1, 3, 40]))
    codes = rng.integers(0, few, (n, 3)).astype(np.int32)
    numbers = rng.integers(0, few + 1, (n, 2)).astype(float)
    numbers[rng.random((n, 2)) < rng.choice([0, 0.5])] = np.nan
    points, units = Points(codes, numbers), rng.integers(0, n // 3, n)
    lost = np.isnan(numbers)
    step = np.nan_to_num((numbers[:, None] - numbers) ** 2, nan=0.0) + (lost[:, None] != lost)
    apart = (codes[:, None] != codes).sum(axis=2) + step.sum(axis=2)
    rows = rng.permutation(n)[:60]
    for own, of in ((None, None), (rows, None), (rows, units)):
        found = two_nearest(points, points.only(rows), own, of)
        each = np.arange(n) if of is None else of
        for q, i in enumerate(rows):
            others = np.ones(n, bool) if own is None else each != each[i]
            away = pd.Series(apart[i][others]).groupby(each[others]).min().sort_values()
            first = away.iloc[0]
            assert (found.first[q], found.second[q]) == (first, away.iloc[1])
            assert apart[i][found.row[q]] == first and others[found.row[q]]
            if of is None:
                assert found.ties[q] == (away == first).sum()
        limit = found.first * rng.choice([0.5, 1, 1.5], 60)
        soon = two_nearest(points, points.only(rows), own, of, limit, reach=9)
        given_up = found.first < limit
        assert (soon.first[given_up] < limit[given_up]).all()
        whole = [part[~given_up] for part in (found.first, soon.first, found.second, soon.second)]
        assert (whole[0] == whole[1]).all() and (soon.ties == found.ties)[~given_up].all()
        for times in (1, 2, 3):
            far = (whole[2] > times**2 * whole[0], whole[3] > times**2 * whole[0])
            assert (far[0] == far[1]).all()


@pytest.mark.parametrize("seed", range(4))
def test_pairs_of_equal_values_by_hand(seed):
    """In plain Python: values that stand twice in both tables together, and how many are mixed."""
    rng = np.random.default_rng(seed)
    y, z = (pd.DataFrame({"v": rng.integers(0, 200, n) * 1.5}) for n in (80, 60))
    found = [t for t in br.links(y, z, corresponds=False).tests if t.test == "unique values"]
    own, shown = y["v"].tolist(), z["v"].tolist()
    pairs = [v for v in set(own + shown) if own.count(v) + shown.count(v) == 2]
    mixed = sum(own.count(v) == 1 for v in pairs)
    (one,) = found
    chance = max(0.5, 2 * 80 * 60 / (140 * 139))
    assert (one.of, one.found) == (len(pairs), mixed)
    assert one.by_chance == pytest.approx(chance * len(pairs))
    assert one.persons == pytest.approx(max(0, (mixed - chance * len(pairs)) / (1 - chance)))
    tests = len(br.links(y, z, corresponds=False).tests)
    assert one.p == pytest.approx(min(1, tests * binom.sf(mixed - 1, len(pairs), chance)))


def test_own_rows_by_hand():
    """Distances of ranks within cells of the kept column, in plain Python."""
    rng = np.random.default_rng(3)
    y = pd.DataFrame({"kept": np.repeat(np.arange(10), 6), "v": rng.normal(size=60).round(3)})
    z = y.assign(v=np.where(rng.random(60) < 0.4, y["v"] + 0.0005, rng.normal(size=60)).round(4))
    (one,) = [t for t in br.links(y, z).tests if t.test == "own rows" and t.of == 60]
    every = pd.concat([y["v"], z["v"]]).rank().to_numpy()
    right = 0.0
    for i in range(60):
        cell = [k for k in range(60) if y["kept"][k] == y["kept"][i]]
        away = [abs(every[60 + k] - every[i]) for k in cell]
        if away[cell.index(i)] == min(away):
            right += 1 / away.count(min(away))
    assert (one.of, one.by_chance) == (60, pytest.approx(10.0))
    assert one.found == pytest.approx(right)
    tests = len(br.links(y, z).tests)
    assert one.p == pytest.approx(min(1, tests * poisson.sf(np.floor(right) - 1, 10)))


@pytest.mark.parametrize("a,b", [(1, 1), (1, 3), (5, 1), (0.2, 0.9)])
def test_at_most_half_of_the_pairs_are_mixed_whatever_the_densities(a, b):
    """All orders of who is whose: two of a + b records, drawn at rates a and b, one of each."""
    share = 2 * a * b / (a + b) ** 2
    assert share <= 0.5
    n, N = 4, 3  # by enumeration: of all pairs of 7 records
    every = list(combinations(range(n + N), 2))
    mixed = sum((i < n) != (k < n) for i, k in every)
    assert mixed / len(every) == pytest.approx(2 * n * N / ((n + N) * (n + N - 1)))


# --- false alarms ---------------------------------------------------------------------------------


def sound(kind, n, seed):
    """An original and a file that knows nobody of it."""
    both = people(2 * n, seed)
    y, z = both[:n].reset_index(drop=True), both[n:].reset_index(drop=True)
    rng = np.random.default_rng(seed)
    if kind == "larger":
        z = people(3 * n, seed + 10**6)
    if kind == "another population":
        z = z.assign(age=(z["age"] / 2).round(), pay=(z["pay"] * 1.7).round(2))
    if kind == "uniform":
        z = z.apply(lambda c: rng.choice(c.unique(), n))
        z["pay"] = rng.uniform(0, 50_000, n).round(2)
    if kind == "cells":
        y, z = (pd.DataFrame({"u": rng.integers(0, 2 * n, n).astype(str)}) for _ in "yz")
    if kind == "heaped":
        y = y.assign(pay=np.where(rng.random(n) < 0.5, (y["pay"] / 100).round() * 100, y["pay"]))
    return y, z


KINDS = ("others", "larger", "another population", "uniform", "cells", "heaped")


@pytest.mark.check
@pytest.mark.parametrize("n", [40, *(pytest.param(n, marks=pytest.mark.slow) for n in (120, 300))])
@pytest.mark.parametrize("kind", KINDS)
def test_false_alarms_at_the_stated_rate(kind, n):
    runs = 50 if n == 40 else 150
    seen = [
        any(t.seen for t in br.links(*sound(kind, n, seed), corresponds=False).tests)
        for seed in range(runs)
    ]
    assert sum(seen) <= binom.ppf(1 - 1e-4, runs, LEVEL)


def kept_and_drawn(n, seed, m=1, sharp=False):
    """Pay drawn anew given kept columns: within cells, or by a regression on a kept amount."""
    y = people(n, seed)
    rng = np.random.default_rng(seed + 1)
    if not sharp:
        y = y[["c0", "c1", "pay"]]
        draw = y.groupby(["c0", "c1"])["pay"].transform
        return y, [
            y.assign(pay=draw(lambda v: rng.lognormal(np.log(v).mean(), np.log(v).std(), len(v))))
            for _ in range(m)
        ]
    y = y.assign(wealth=(y["pay"] * np.exp(rng.normal(0, 0.3, n))).round(2))
    slope, level = np.polyfit(np.log(y["wealth"]), np.log(y["pay"]), 1)
    mean = slope * np.log(y["wealth"]) + level
    spread = (np.log(y["pay"]) - mean).std()
    return y, [y.assign(pay=np.exp(rng.normal(mean, spread)).round(2)) for _ in range(m)]


@pytest.mark.check
@pytest.mark.parametrize(
    ("m", "sharp"),
    [(1, True), (5, False), *(pytest.param(m, m == 5, marks=pytest.mark.slow) for m in (1, 5))],
)
def test_kept_columns_that_foretell_values_are_no_alarm(m, sharp):
    """By chance is approximate where kept amounts differ: few persons, if any."""
    shares = []
    for seed in range(8):
        found = br.links(*kept_and_drawn(200, seed, m, sharp))
        shares.append(max([t.persons / 200 for t in found.tests if t.seen], default=0.0))
    assert np.mean(np.array(shares) > 0.05) <= 0.125


def test_pairs_of_a_sample_are_counted_once(monkeypatch):
    """Of all records, and of samples of them: as many persons within the error of a sample."""
    y = people(400, 21)
    z = y.assign(age=y["age"] + 0.1, pay=y["pay"] * 1.001)
    z = pd.concat([z[:200], people(200, 22)]).sample(frac=1, random_state=1)

    def nearest(looked_at):
        monkeypatch.setattr(pairs_module, "LOOKED_AT", looked_at)
        tests = br.links(y, z, corresponds=False).tests
        largest_last = sorted(tests, key=lambda t: t.of)
        return {t.columns: t for t in largest_last if t.test == "nearest records"}

    every, most, some = (nearest(k) for k in (800, 700, 300))
    for columns, one in every.items():
        share = 1 - (1 - 700 / 800) ** 2
        assert most[columns].of <= one.of  # no pair twice
        assert most[columns].of == pytest.approx(share * one.of, rel=0.1)
        assert some[columns].persons == pytest.approx(one.persons, rel=0.5)


@pytest.mark.slow
def test_false_alarms_where_nearest_records_are_those_of_a_sample(monkeypatch):
    monkeypatch.setattr(pairs_module, "LOOKED_AT", 120)
    for kind in ("others", "cells"):
        seen = [
            any(t.seen for t in br.links(*sound(kind, 80, seed), corresponds=False).tests)
            for seed in range(150)
        ]
        assert sum(seen) <= binom.ppf(1 - 1e-4, 150, LEVEL)


# --- leaks ----------------------------------------------------------------------------------------


def leak(kind, y, rng):
    n = len(y)
    if kind == "noise":
        noise = {c: y[c] * (1 + rng.normal(0, 0.02, n)) for c in ("age", "pay")}
        return y.assign(**noise).sample(frac=1, random_state=1).reset_index(drop=True)
    if kind == "bootstrap":
        return y.sample(n, replace=True, random_state=1).reset_index(drop=True)
    if kind == "less one":
        return y[1:].sample(frac=1, random_state=1).reset_index(drop=True)
    if kind == "copies":
        z = people(n, 77)
        z[: n // 5] = y[: n // 5]
        return z
    if kind == "between neighbours":
        other = y.sort_values(["c0", "c1", "c2", "age"]).index.to_numpy()
        after = y.loc[np.roll(other, 1)].reset_index(drop=True)
        before = y.loc[other].reset_index(drop=True)
        near = before.assign(pay=0.9 * before["pay"] + 0.1 * after["pay"])
        return near.sample(frac=1, random_state=1).reset_index(drop=True)
    if kind == "a column redrawn":
        z = y.assign(c1=rng.integers(0, 4, n), pay=y["pay"] + 0.01)
        return z.sample(frac=1, random_state=1).reset_index(drop=True)
    raise ValueError(kind)


LEAKS = ("noise", "bootstrap", "less one", "copies", "between neighbours", "a column redrawn")


@pytest.mark.parametrize("kind", LEAKS)
def test_files_that_know_persons_are_seen_in_any_order(kind):
    y = people(200, 5)
    found = br.links(y, leak(kind, y, np.random.default_rng(2)), corresponds=False)
    one = worst(found)
    assert one.seen and one.persons > 0.05 * len(y)
    if kind == "copies":
        assert one.persons == pytest.approx(40, abs=15)


@pytest.mark.parametrize("spread,least", [(0.03, 0.5), (0.3, 0.2)])
def test_noise_on_one_column_is_seen_beside_kept_ones(spread, least):
    y = people(400, 8)
    rng = np.random.default_rng(3)
    files = [y.assign(pay=y["pay"] * (1 + rng.normal(0, spread, 400))) for _ in range(8)]
    one, every = (worst(br.links(y, f)) for f in (files[:1], files))
    assert one.seen and one.persons > least * 400
    assert every.seen and every.persons > one.persons  # the mean of all files says more


@pytest.mark.parametrize("change", [lambda v: v * 100, lambda v: v / 1000, lambda v: v * 7 + 3])
def test_other_units_are_seen(change):
    y = people(120, 9)
    assert worst(br.links(y, y.assign(pay=change(y["pay"])))).persons > 60


def test_missing_values_that_stay_are_seen():
    rng = np.random.default_rng(4)
    asked = rng.random((300, 6)) < 0.5
    draw = [pd.DataFrame(np.where(asked, rng.integers(0, 3, (300, 6)), np.nan)) for _ in range(2)]
    y, z = (d.rename(columns=lambda j: f"q{j}") for d in draw)
    assert worst(br.links(y, z)).seen


def test_everybody_twice_is_one_person_each():
    y = people(40, 11)
    twice = pd.concat([y, y], ignore_index=True)
    one, both = (worst(br.links(t, t[1:], corresponds=False)) for t in (y, twice))
    assert both.seen and both.persons == pytest.approx(2 * one.persons, abs=4)  # of 80 records


# --- invariance -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["copies", "noise"])
def test_order_names_and_units_change_nothing(kind):
    y = people(150, 12)
    z = leak(kind, y, np.random.default_rng(1)).reset_index(drop=True)
    base = br.links(y, z, corresponds=False)
    mixed = br.links(y[::-1].reset_index(drop=True), z.sample(frac=1), corresponds=False)
    named = [t.rename(columns={"pay": "wage"}) for t in (y, z)]
    units = [t.assign(pay=t["pay"] * 1000) for t in (y, z)]
    constant = [t.assign(k=1) for t in (y, z)]
    for other in (
        mixed,
        *(br.links(*pair, corresponds=False) for pair in (named, units, constant)),
    ):
        assert [(t.of, t.found) for t in other.tests] == [(t.of, t.found) for t in base.tests]


def test_a_file_in_two_shows_as_many_persons_each_half():
    y = people(200, 13)
    z = leak("copies", y, np.random.default_rng(1)).sample(frac=1, random_state=2)
    whole = worst(br.links(y, z, corresponds=False)).persons
    halves = br.links(y, [z[:100], z[100:]], corresponds=False).worst()["identical records"]
    assert halves.persons == pytest.approx(whole / 2, abs=12)


def test_facts_of_columns():
    y = people(50, 14).assign(name=[f"n{i}" for i in range(50)], no=np.arange(50) * 3 + 1000)
    z = y.assign(c0=1 - y["c0"], more=1.5)
    found = br.links(y.assign(id=np.arange(50)), z.assign(id=np.arange(50)))
    assert found.unchanged["pay"] == 50 and "c0" not in found.unchanged
    assert found.outside == ("more",)
    assert found.identifiers == {"name": 50, "no": 50}  # and id numbers the rows


def test_files_of_few_or_equal_values_are_no_error():
    for y in (people(3, 1), people(40, 1).assign(c0=0)[["c0"]], people(30, 1) * np.nan):
        assert isinstance(br.links(y, y.copy()).sentence(), str)
    risk = br.links(people(40, 1), [people(40, 2), people(40, 3)], corresponds=False)
    assert risk.summary().columns[-1] == "share" and "test" in risk.sentence()
    assert risk.first(1).m == 1 and all(t.file == 1 for t in risk.first(1).tests)


def test_ridge_regressions_and_trees_are_those_of_scikit_learn():
    """The regression to rounding; trees, which cut by chance, on average."""
    rng = np.random.default_rng(1)
    x, at = (rng.integers(0, 30, (n, 3)).astype(float) for n in (120, 20))
    y = np.column_stack([np.sin(x[:, 0] / 3), (x[:, 1] > 10) * x[:, 2] / 10])
    y += 0.3 * rng.normal(size=y.shape)
    poly = make_pipeline(StandardScaler(), PolynomialFeatures(2), StandardScaler())
    ridge = make_pipeline(poly, RidgeCV(PENALTIES)).fit(x, y)
    np.testing.assert_allclose(_smoothly(x, y, at), ridge.predict(at), atol=1e-9)
    K = 200
    ours = [_of_tree(x, y, at, u) for u in rng.random((K, 2 * len(x) // SMALLEST + 1, 3))]
    trees = (ExtraTreeRegressor(min_samples_leaf=SMALLEST, random_state=k) for k in range(K))
    theirs = [tree.fit(x, y).predict(at) for tree in trees]
    difference = np.mean(ours, axis=0) - np.mean(theirs, axis=0)
    z = difference / np.sqrt((np.var(ours, axis=0) + np.var(theirs, axis=0)) / K)
    assert np.abs(z).max() < 4.5 and np.sqrt((z**2).mean()) < 1.5
