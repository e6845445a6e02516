"""Membership: closed forms, enumeration, likelihood-ratio bounds, limits, invariance, errors."""

from dataclasses import replace
from itertools import combinations_with_replacement, product

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from scipy.special import gammaln
from scipy.stats import binomtest, chi2, mannwhitneyu, t

import bayes_risk as br
from bayes_risk.evidence.leave_one_out import Ratio
from bayes_risk.evidence.presence import normaliser, odds
from bayes_risk.risk.membership.computation import (
    MEASURES,
    Others,
    Standing,
    curve_measures,
    level,
    power,
    standing,
)
from tests.helpers.one_class import one_class, release_of, table_of
from tests.oracles.kernel_twins import codes_of, simulate
from tests.oracles.label_sums import log_bayes_factor, log_dirichlet_multinomial
from tests.oracles.three_records import CELLS, Z1, Z2, fitted, memberships, released, table

ROUNDING = 1e-8
A = 1.0  # the level prior


def without(codes, i):
    return np.delete(codes, i, axis=0)


@pytest.mark.parametrize("classes", ["new", "own"])
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("levels", [(4,), (3, 2)])
def test_one_class_is_the_closed_form(levels, m, classes):
    table = simulate(12, levels, seed=1)
    others = table_of(list(product(*map(range, levels))), levels)
    fit = one_class(table)
    release = fit.synthesize(m, classes=classes, random_seed=2)
    found = br.membership(fit, release, others=others, random_seed=3)
    y, Z = codes_of(table), [codes_of(z) for z in release.datasets]
    of = {
        (i, tuple(c)): log_bayes_factor(c, without(y, i), Z, levels)
        for i in range(len(y))
        for c in [*codes_of(others), y[i]]
    }
    members = found.records.query("member")["log_bayes_factor"]
    assert members.to_numpy() == pytest.approx([of[i, tuple(y[i])] for i in range(12)], abs=1e-8)
    means = [np.mean([of[i, tuple(c)] for i in range(12)]) for c in codes_of(others)]
    theirs = found.records.query("not member")["log_bayes_factor"]
    assert theirs.to_numpy() == pytest.approx(means, abs=ROUNDING)
    assert found.reliable.all()
    # nothing is sampled: no error but that of single precision
    assert found.mcse.max() < 1e-5


@pytest.mark.parametrize(("m", "classes"), [(2, "new"), (3, "new"), (2, "own")])
def test_drawn_alternatives_are_right_within_their_error(m, classes):
    """Few draws for each place, their error the only one; over 60 places z-scores spread as 1."""
    levels = (5, 6)
    table = simulate(60, levels, seed=4)
    fit = one_class(table, draws=60)
    release = fit.synthesize(m, classes=classes, parameters="independent", random_seed=5)
    found = br.membership(fit, release, alternatives=25, random_seed=6)
    assert found.assumptions["alternatives"] == "25 drawn for each place"
    y, Z = codes_of(table), [codes_of(z) for z in release.datasets]
    _, first = np.unique(y, axis=0, return_index=True)
    exact = np.array([log_bayes_factor(y[i], without(y, i), Z, levels) for i in first])
    error = found.log_bayes_factor[first] - exact
    assert (found.mcse[first] > 1e-4).all()
    z = error / found.mcse[first]
    low, high = chi2.ppf([1e-4, 1 - 1e-4], len(z))
    # errors of 25 draws are themselves estimated: their spread is that of a t with 24
    assert low < (z**2).sum() < high * t(24).var()


def test_the_control_saves_draws():
    """Of two releases 1 + mean (r_1 - 1)(r_2 - 1) varies far less than the mean of r_1 r_2."""
    rng = np.random.default_rng(1)
    p, *after = rng.dirichlet(np.full(50, 30.0), 3)
    drawn = rng.choice(50, p=p, size=(200, 500))
    log_r = [np.log(a / p)[drawn] for a in after]
    held = normaliser(np.zeros(drawn.shape), log_r, drawn=True, linked=False)
    plain = (after[0] * after[1] / p**2)[drawn].mean(axis=0)
    exact = (after[0] * after[1] / p).sum()
    value = np.exp(held.log_value)
    assert abs(value.mean() - exact) < 4 * value.std() / np.sqrt(len(value))
    squares, said = (value - exact) ** 2, held.variance * value**2
    error = np.hypot(squares.std(), said.std()) / np.sqrt(len(value))
    assert abs(squares.mean() - said.mean()) < 4 * error
    assert np.exp(held.log_value).std() < 0.5 * plain.std()


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("linked", [False, True])
def test_derivatives_of_the_normaliser(m, linked):
    """By which the error of the predictives is carried over; against finite differences."""
    rng = np.random.default_rng(2)
    log_p0, log_q = np.log(rng.dirichlet(np.ones(6), 2)).reshape(2, 6, 1)
    log_p = [np.log(rng.dirichlet(np.ones(6)))[:, None] for _ in range(m)]

    def value(base, after, drawn):
        log_r = [a - base for a in after]
        omega = base - log_q if drawn else base
        return normaliser(omega, log_r, drawn=drawn, linked=linked)

    for drawn in (False, True):
        at, h = value(log_p0, log_p, drawn), 1e-5
        for k in range(6):
            step = h * (np.arange(6) == k)[:, None]
            up, down = (value(log_p0 + s, log_p, drawn).log_value for s in (step, -step))
            assert at.by_base[k] == pytest.approx((up - down) / (2 * h), abs=1e-6)
            moved = [
                value(log_p0, [log_p[0] + s, *log_p[1:]], drawn).log_value for s in (step, -step)
            ]
            assert at.by_release[0][k] == pytest.approx((moved[0] - moved[1]) / (2 * h), abs=1e-6)


@pytest.mark.parametrize(("L", "drawn", "linked"), [(0, 0, 0), (4, 0, 0), (4, 1, 0), (4, 0, 1)])
def test_deviations_of_the_odds(L, drawn, linked):
    """Of the base fit and of each augmented one, along its own; against finite differences."""
    rng = np.random.default_rng(3)
    values = np.log(rng.dirichlet(np.ones(2 + L), 4))[:, :, None]  # of the base and of 3 releases
    moves = rng.normal(size=values.shape)
    log_q = np.log(rng.dirichlet(np.ones(L)))[:, None] if drawn else None

    def found(at):
        each = zip(at, moves.astype(np.float32), strict=True)
        some = [Ratio(value=v, deviation=m[None], khat=one, ess=one) for v, m in each]
        return odds(some, L, log_q, bool(linked))

    one, h = np.ones(1), 1e-5
    for j, said in enumerate(found(values).deviations):
        step = h * moves * (np.arange(4) == j)[:, None, None]
        up, down = (found(values + s).log_bayes_factor for s in (step, -step))
        moved = (up - down) / (2 * h)
        assert said[0] == pytest.approx(moved, abs=1e-5)


# --- two classes: brute force over labels --------------------------------------------------------

RELEASES = [Z1, Z2]


@pytest.fixture(scope="module")
def two_classes():
    with pytest.warns(br.TruncationWarning):
        return fitted(draws=600, thin=5)


@pytest.mark.parametrize(("m", "own"), [(1, False), (2, False), (1, True), (2, True)])
@pytest.mark.slow
def test_two_classes_by_brute_force(two_classes, m, own):
    release = released(RELEASES[:m], classes="own" if own else "new")
    found = br.membership(two_classes, release, others=table(CELLS), random_seed=7)
    z = (found.log_bayes_factor - memberships(RELEASES[:m], own)) / found.mcse
    assert (np.abs(z) < 4).all(), z
    assert found.mcse.max() < 0.05


def doubtful(log_weights, reff):
    """Weights as they are, with a k-hat that no one would trust."""
    return log_weights, np.ones(log_weights.shape[1])


@pytest.mark.slow
def test_refits_agree_with_brute_force(two_classes, monkeypatch):
    monkeypatch.setattr("bayes_risk.evidence.leave_one_out.pareto_smoothed", doubtful)
    found = br.membership(two_classes, released(RELEASES), random_seed=7, refit_budget=3)
    assert not found.khat.any()
    expected = memberships(RELEASES)[:3]
    assert (np.abs(found.log_bayes_factor - expected) < 4 * found.mcse).all()


# --- a normal mean: numbers, whose alternatives cannot be listed ---------------------------------


def student(known, prior, scale):
    """Posterior predictive of a normal mean and variance, in the model's own scale."""
    tau, a, b = prior
    at, by = scale
    x = (np.asarray(known) - at) / by
    precision = 1 / tau**2 + len(x)
    mean = x.sum() / precision
    a_n = a + len(x) / 2
    b_n = b + 0.5 * ((x**2).sum() - precision * mean**2)
    spread = np.sqrt(b_n / a_n * (1 + 1 / precision))
    return t(2 * a_n, loc=at + by * mean, scale=by * spread)


@pytest.mark.parametrize("m", [1, 2])
def test_normal_mean(m):
    y = np.random.default_rng(3).normal(10, 2, 20)
    table = pd.DataFrame({"income": y})
    fit = br.models.Regression({"income": "1"}).fit(table, draws=800, chains=2, random_seed=1)
    release = fit.synthesize(m, random_seed=2)
    others = pd.DataFrame({"income": [4.0, 9.0, 17.0]})
    found = br.membership(fit, release, others=others, alternatives=200, random_seed=4)
    Z = [z["income"].to_numpy() for z in release.datasets]
    prior, scale = (10.0, 1.0, 1.0), (y.mean(), y.std())
    grid = np.linspace(-40, 60, 4_001)

    def log_r(i, x):
        known = np.delete(y, i)
        base = student(known, prior, scale)
        return base, sum(
            student(np.concatenate([known, z]), prior, scale).logpdf(x) - base.logpdf(x) for z in Z
        )

    exact = []
    for i in range(20):
        base, on_grid = log_r(i, grid)
        somebody = np.log(np.trapezoid(np.exp(on_grid) * base.pdf(grid), grid))
        exact.append(log_r(i, y[i])[1] - somebody)
    z = (found.log_bayes_factor[:20] - exact) / found.mcse[:20]
    assert (np.abs(z) < 4.5).all(), z
    assert found.mcse.max() < 0.2 and found.reliable.all()


# --- likelihood-ratio bounds ---------------------------------------------------------------------


def count_tables(n, d):
    """Every table of n records with d levels up to order, and in how many orders it comes."""
    for rows in combinations_with_replacement(range(d), n):
        counts = np.bincount(rows, minlength=d)
        yield np.array(rows)[:, None], gammaln(n + 1) - gammaln(counts + 1).sum()


def best_power(of_members, of_others, rate):
    """Neyman-Pearson: the largest power of any randomised test with that false positive rate."""
    found = linprog(-of_members, A_ub=of_others[None], b_ub=[rate], bounds=(0, 1), method="highs")
    return -found.fun


def power_of_ranking(scores, of_members, of_others, rate):
    """Accept from the largest score on, ties in part, until the false positive rate is spent."""
    spent = gained = 0.0
    for s in np.unique(scores.round(9))[::-1]:
        here = scores.round(9) == s
        share = min(1.0, max(0.0, (rate - spent) / of_others[here].sum()))
        spent += share * of_others[here].sum()
        gained += share * of_members[here].sum()
    return gained


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.slow
def test_power_over_releases_is_the_bound_and_bayes_factors_average_to_one(m):
    """A fixed, the release random: is the last record c? All releases enumerated."""
    n, d = 4, 3
    levels, y = (d,), np.array([[0], [0], [1], [2]])
    fit = one_class(table_of(y, levels))
    known = without(y, 3)
    single = list(count_tables(n, d))
    releases = list(product(single, repeat=m))
    if m == 2:  # a fit for each is too slow; every fifth, then the exact odds of all
        checked = releases[::5]
    else:
        checked = releases
    scores = {}
    for k, choice in enumerate(releases):
        Z = [rows for rows, _ in choice]
        exact = log_bayes_factor(y[3], known, Z, levels)
        if choice is checked[min(k // 5 if m == 2 else k, len(checked) - 1)]:
            release = release_of([table_of(z, levels) for z in Z])
            found = br.membership(fit, release, records=[3], random_seed=1)
            assert found.log_bayes_factor[0] == pytest.approx(exact, abs=ROUNDING)
            exact = found.log_bayes_factor[0]
        scores[k] = exact
    cells = [np.array([[c]]) for c in range(d)]

    def log_p(choice, rows):
        return sum(log_dirichlet_multinomial(Z, rows, levels) + ways for Z, ways in choice)

    in_data = np.exp([log_p(c, y) for c in releases])
    not_in = sum(
        np.exp(log_dirichlet_multinomial(v, known, levels))
        * np.exp([log_p(c, np.vstack([known, v])) for c in releases])
        for v in cells
    )
    assert in_data.sum() == pytest.approx(1) and not_in.sum() == pytest.approx(1)
    log_bf = np.array([scores[k] for k in range(len(releases))])
    assert (not_in * np.exp(log_bf)).sum() == pytest.approx(1)  # a martingale
    for rate in (0.01, 0.05, 0.2, 0.5):
        bound = best_power(in_data, not_in, rate)
        assert power_of_ranking(log_bf, in_data, not_in, rate) == pytest.approx(bound)
        assert bound > rate


def test_power_among_people_is_the_bound():
    """The release fixed, the candidate random: the library's curve, against linear programming."""
    levels = (3, 4)
    table = simulate(15, levels, seed=8)
    fit = one_class(table)
    release = fit.synthesize(1, random_seed=9)
    y, Z = codes_of(table), codes_of(release.datasets[0])
    cells = np.array(list(product(*map(range, levels))))
    known = without(y, 0)
    p = np.exp([log_dirichlet_multinomial(c[None], known, levels) for c in cells])
    after = np.exp(
        [log_dirichlet_multinomial(c[None], np.vstack([known, Z]), levels) for c in cells]
    )
    found = br.membership(fit, release, records=[0], others=table_of(cells, levels), random_seed=1)
    log_bf = found.records.query("not member")["log_bayes_factor"].to_numpy()
    assert log_bf == pytest.approx(np.log(after / p), abs=ROUNDING)
    # a very large population stands behind each cell: member c with probability `after`
    many = 1e9 * p[:, None]
    at = [standing(np.append(log_bf[c], log_bf)[:, None], many) for c in range(len(cells))]
    for rate in (0.01, 0.05, 0.3):
        mine = sum(w * power(a, rate)[0] for w, a in zip(after, at, strict=True))
        assert mine == pytest.approx(best_power(after, p, rate), abs=1e-6)
    area = sum(w * (1 - level(a)[0]) for w, a in zip(after, at, strict=True))
    assert area > 0.5


# --- the curve ----------------------------------------------------------------------------------


def test_level_of_a_member_is_uniform_where_nothing_is_known():
    """Ranks among exchangeable scores with ties; any K, also one that cannot show the rate."""
    rng = np.random.default_rng(5)
    U = 40_000
    scores = rng.integers(0, 4, size=(8, U)).astype(float)  # the member and 7 others
    at = standing(scores, np.ones((7, U)))
    found = curve_measures(at, np.ones(U))
    for name, rate in (("auc", 0.5), ("power_at_1_percent", 0.01), ("power_at_5_percent", 0.05)):
        each = power(at, rate) if name != "auc" else 1 - level(at)
        error = each.std() / np.sqrt(U)
        assert abs(found[MEASURES.index(name)] - rate) < 4 * error
    gain = found[MEASURES.index("advantage_at_one")]
    assert abs(gain) < 4 * at.gain.std() / np.sqrt(U)


def test_area_is_that_of_mann_and_whitney():
    rng = np.random.default_rng(6)
    members, others = rng.normal(1, 1, 50), rng.normal(0, 1, 80)
    scores = np.vstack([members, np.repeat(others[:, None], 50, axis=1)])
    at = standing(scores, np.ones((80, 50)))
    area = mannwhitneyu(members, others).statistic / (50 * 80)
    # the member is one of K + 1: (K area + 1/2) / (K + 1)
    assert curve_measures(at, np.ones(50))[0] == pytest.approx((80 * area + 0.5) / 81)


def test_people_weigh_as_often_as_they_stand_there():
    rng = np.random.default_rng(7)
    scores = rng.integers(0, 5, size=(4, 10)).astype(float)
    times = np.array([3, 1, 2])
    once = standing(np.vstack([scores[:1], np.repeat(scores[1:], times, axis=0)]), np.ones((6, 10)))
    weighed = standing(scores, np.repeat(times[:, None], 10, axis=1).astype(float))
    for a, b in zip(once, weighed, strict=True):
        assert a == pytest.approx(b)


def test_others_take_turns_where_they_are_many():
    table = simulate(30, (30, 30), seed=1, sharpness=5)
    data = br.Microdata.from_frame(table)
    last = table.columns[-1]  # others have the members' values, put together anew
    others = table.assign(**{last: table[last].to_numpy()[::-1]})
    of = data.encode(others, "others"), data.codes, (table.index, others.index)
    some = Others.of(*of, 7, 5, np.random.default_rng(1))
    assert some.rows.shape == (5, 7)
    assert set(some.rows.ravel()) == set(range(30))
    few = Others.of(*of, 2, 5, np.random.default_rng(1))
    assert few.rows.shape == (15, 2)  # nobody is left out
    everyone = Others.of(*of, 7, 30, np.random.default_rng(1))
    assert (everyone.codes[everyone.person] == data.encode(others, "others")).all()
    assert everyone.count.sum() == 30 and everyone.rows.shape == (len(everyone.codes), 7)


def test_others_who_are_the_members_are_refused():
    table = simulate(200, (30, 30), seed=1, sharpness=5)
    data = br.Microdata.from_frame(table)
    for others in (table, table.sample(60, random_state=1).reset_index(drop=True)):
        with pytest.raises(br.InputError, match=f"{len(others)} of the {len(others)} in others"):
            of = data.encode(others, "others"), data.codes, (table.index, others.index)
            Others.of(*of, 7, 5, np.random.default_rng(1))


# --- limits --------------------------------------------------------------------------------------


def split(n, levels, seed, **options):
    """Members and others of one population."""
    both = simulate(2 * n, levels, seed=seed, **options)
    return both[:n], both[n:]


@pytest.mark.slow
def test_a_release_that_has_nothing_to_do_with_the_data_tells_nothing():
    members, others = split(200, (6, 5), 11)
    fit = one_class(members)
    z = []
    for seed in range(6):
        tables = [simulate(200, (6, 5), seed=100 + 3 * seed + l) for l in range(2)]
        found = br.membership(fit, release_of(tables), others=others, random_seed=1)
        rows = found.summary()
        for name in ("auc", "power_at_5_percent", "advantage_at_one"):
            z.append(
                (rows.loc[name, "value"] - rows.loc[name, "baseline"])
                / rows.loc[name, "standard_error"]
            )
    assert np.abs(z).max() < 4, z


@pytest.mark.parametrize("taken_out", ["nobody", "a random record"])
@pytest.mark.slow
def test_other_places_would_show_what_is_not_there(taken_out):
    """Why places are compared: otherwise the members' own cells lack a record, and theirs alone."""
    rng, d, n, areas = np.random.default_rng(1), 5, 40, []

    def score(counts, z, c):  # log BF of one release, one column
        after = (A + counts + z) / (d * A + counts.sum() + n)
        return np.log(after[c] / ((A + counts) / (d * A + counts.sum()))[c])

    for _ in range(200):
        y, h, other = (rng.integers(0, d, n) for _ in range(3))
        counts, z = np.bincount(y, minlength=d), np.bincount(other, minlength=d)
        one = np.eye(d, dtype=int)
        mine = [score(counts - one[c], z, c) for c in y]
        theirs = [
            score(counts - (one[j] if taken_out != "nobody" else 0), z, c)
            for c, j in zip(h, rng.permutation(y), strict=True)
        ]
        areas.append(mannwhitneyu(mine, theirs).statistic / n**2)
    assert (np.mean(areas) - 0.5) / (np.std(areas) / np.sqrt(200)) > 4


def test_a_release_that_is_the_data_gives_members_away():
    members, others = split(150, (12, 12), 12, sharpness=5)
    fit = one_class(members)
    copied = br.membership(fit, release_of([members] * 20), others=others, random_seed=1)
    drawn = br.membership(fit, fit.synthesize(1, random_seed=2), others=others, random_seed=1)
    row = copied.summary().loc["auc"]
    assert row["value"] > 0.5 + 4 * row["standard_error"]
    assert row["value"] > drawn.summary().loc["auc", "value"]
    assert copied.summary().loc["advantage_at_one", "value"] > 0


# --- invariance ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    members, others = split(60, (4, 3, 3), 21, n_classes=2)
    fit = br.models.DPMPM(n_classes=15).fit(members, draws=60, tune=60, chains=2, random_seed=1)
    return fit, fit.synthesize(2, random_seed=2), others


def test_same_seed_same_numbers_for_any_number_of_threads(small):
    fit, release, others = small
    one = br.membership(fit, release, others=others, alternatives=20, random_seed=3)
    two = br.membership(fit, release, others=others, alternatives=20, random_seed=3, n_jobs=2)
    pd.testing.assert_frame_equal(one.records, two.records)
    pd.testing.assert_frame_equal(one.summary(), two.summary())


def test_blocks_of_places_change_nothing_but_labels(small, monkeypatch):
    """Blocks draw labels of classes anew: the same within Monte Carlo error."""
    fit, release, others = small
    whole = br.membership(fit, release, others=others, random_seed=3)
    monkeypatch.setattr("bayes_risk.risk.membership.computation.MAX_CASE_GUESSES", 1)
    monkeypatch.setattr("bayes_risk.risk.membership.computation.FEWEST", 7)
    parts = br.membership(fit, release, others=others, random_seed=3)
    apart = parts.log_bayes_factor - whole.log_bayes_factor
    assert (np.abs(apart) < 4 * np.hypot(parts.mcse, whole.mcse)).all()
    assert (parts.index == whole.index).all()


def test_records_can_be_chosen_and_keep_their_labels(small):
    fit, release, others = small
    found = br.membership(fit, release, records=[5, 2], others=others[:3], random_seed=3)
    assert found.records.index.tolist() == [5, 2, *others.index[:3]]
    assert found.records["member"].tolist() == [True, True, False, False, False]
    assert found.records["false_positive_rate"].notna().tolist() == [True] * 2 + [False] * 3
    drawn = br.membership(fit, release, records=7, random_seed=3)
    assert len(drawn.records) == 7 and drawn.records["member"].all()


def test_prior_odds_multiply(small):
    fit, release, _ = small
    even = br.membership(fit, release, records=[1], random_seed=3)
    rare = br.membership(fit, release, records=[1], prior_odds=0.01, random_seed=3)
    odds = even.records["posterior_odds"].item()
    assert rare.records["posterior_odds"].item() == pytest.approx(0.01 * odds)
    assert rare.records["prior"].item() == pytest.approx(0.01 / 1.01)
    p = rare.records["probability"].item()
    assert p == pytest.approx(0.01 * odds / (1 + 0.01 * odds))


# --- what is shown -------------------------------------------------------------------------------


def test_result_says_what_it_found_without_values(small):
    fit, release, others = small
    found = br.membership(fit, release, others=others, random_seed=3)
    said = repr(found)
    assert "50 without the release" in said and "every record but the target's" in said
    assert not any(f"l{c}" in said for c in range(4))
    assert found.summary().dtypes.eq(float).all()
    roc = found.roc()
    assert roc["true_positive_rate"].is_monotonic_increasing
    assert roc.iloc[[0, -1]].to_numpy() == pytest.approx(np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert found.dataset["log_bayes_factor"].sizes == {"record": 120}
    for log in (False, True):
        axes = found.plot(log=log)
        assert axes.get_xscale() == ("log" if log else "linear") and len(axes.lines) == 2


def test_without_others_there_is_no_curve(small):
    fit, release, _ = small
    found = br.membership(fit, release, records=[3], random_seed=3)
    assert found.summary().loc["auc", ["value", "standard_error"]].isna().all()
    assert "without the release" not in found.sentence()
    with pytest.raises(br.InputError, match="give others,"):
        found.roc()
    with pytest.raises(br.InputError, match="give others,"):
        found.empirical_epsilon()


# --- epsilon -------------------------------------------------------------------------------------


def of_powers(small, powers, error=0.0):
    """A result of 60 members, these shares of them found at 1 and 5 per cent."""
    fit, release, others = small
    found = br.membership(fit, release, others=others, random_seed=3)
    measures, errors = found.measures.copy(), np.full_like(found.measures, error)
    measures[1:3] = powers
    return replace(found, measures=measures, standard_error=errors, mcse_of_measures=0 * errors)


def test_epsilon_is_that_of_clopper_and_pearson(small):
    table = of_powers(small, (0.0, 18 / 60)).empirical_epsilon(0.9)
    assert table.index.tolist() == [0.01, 0.05]
    share = binomtest(18, 60).proportion_ci(0.9, method="exact")
    expected = np.log(np.array([18 / 60, share.low, share.high]) / 0.05)
    assert table.loc[0.05, ["epsilon", "low", "high"]].to_numpy() == pytest.approx(expected)
    nobody = binomtest(0, 60).proportion_ci(0.9, method="exact")
    assert table.loc[0.01].tolist() == pytest.approx([0, 0, 0, np.log(nobody.high / 0.01)])


def test_epsilon_of_everybody_found_has_a_lower_end_alone(small):
    table = of_powers(small, (1.0, 1.0)).empirical_epsilon()
    low = binomtest(60, 60).proportion_ci(method="exact").low
    complement = np.log(0.95 / (1 - low))  # above log(low / 0.05)
    assert table.loc[0.05, ["epsilon", "high"]].tolist() == [np.inf, np.inf]
    assert table.loc[0.05, "low"] == pytest.approx(max(np.log(low / 0.05), complement))


def test_errors_over_people_and_draws_widen_the_interval_of_epsilon(small):
    narrow = of_powers(small, (0.1, 0.3)).empirical_epsilon()
    wide = of_powers(small, (0.1, 0.3), error=0.1).empirical_epsilon()
    assert (wide["epsilon"] == narrow["epsilon"]).all()
    assert (wide["low"] < narrow["low"]).all() and (wide["high"] > narrow["high"]).all()
    assert (wide["low"] >= 0).all()


@pytest.mark.parametrize("confidence", [0, 1, "0.9", True])
def test_a_confidence_that_is_no_share_is_named(small, confidence):
    with pytest.raises(br.InputError, match="confidence="):
        of_powers(small, (0.1, 0.3)).empirical_epsilon(confidence)


# --- errors --------------------------------------------------------------------------------------


def test_what_is_released_as_it_is_gives_membership_away(small):
    fit, _, _ = small
    with pytest.raises(br.InputError, match=r"columns \['x0', 'x2'\] are released as they are"):
        br.membership(fit, fit.synthesize(1, columns=["x1"], random_seed=1))
    some = np.arange(60) < 50
    with pytest.raises(br.InputError, match="10 records are released unchanged"):
        br.membership(fit, fit.synthesize(1, records=some, random_seed=1))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prior_odds": 0}, "prior_odds=0"),
        ({"alternatives": 1}, "alternatives=1"),
        ({"comparisons": 0}, "comparisons=0"),
        ({"refit_budget": -1}, "refit_budget=-1"),
        ({"records": [99]}, "99"),
        ({"others": pd.DataFrame({"x0": ["l0"]})}, "others lacks column 'x1'"),
        ({"intruder": br.Intruder(knows_columns=["x0"])}, "a whole record in mind"),
        ({"intruder": br.Intruder(knows_records="none")}, "m = 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_bad_input_is_named(small, options, words):
    fit, release, _ = small
    with pytest.raises(br.InputError, match=words):
        br.membership(fit, release, random_seed=1, **options)


def test_releases_without_predictives_are_named():
    counts = pd.DataFrame(np.random.default_rng(1).poisson(9, (40, 2)), columns=["a", "b"])
    model = br.models.PoissonMixture(kind="MM", n_classes=12)
    fit = model.fit(counts, draws=30, tune=30, chains=1, random_seed=1)
    release = fit.synthesize(1, random_seed=2)
    with pytest.raises(br.InputError, match="PoissonMixture offers no predictives"):
        br.membership(fit, release)


def test_levels_that_were_never_declared_are_named(small):
    fit, release, others = small
    strange = others.astype(str).assign(x1="l9")
    with pytest.raises(br.InputError, match="'x1' of others holds a value in row 1"):
        br.membership(fit, release, others=strange)


def test_a_standing_of_nobody():
    at = standing(np.zeros((1, 3)), np.zeros((0, 3)))
    assert isinstance(at, Standing) and (at.compared == 0).all()
    assert level(at) == pytest.approx(0.5)


def test_doubt_is_a_warning(two_classes, monkeypatch):
    monkeypatch.setattr("bayes_risk.evidence.leave_one_out.pareto_smoothed", doubtful)
    release = released(RELEASES)
    with pytest.warns(br.UnreliableWeightsWarning, match="2 of 3 log Bayes factors are unreliable"):
        found = br.membership(two_classes, release, random_seed=7, refit_budget=1)
    assert found.records["reliable"].sum() == 1
    assert "2 of these numbers are marked unreliable" in found.sentence()


# --- an intruder who knows less ------------------------------------------------------------------


@pytest.mark.parametrize("knows", ["none", 0.5, [0, 3, 4]], ids=["none", "half", "labels"])
def test_weaker_knowledge_is_the_closed_form(knows):
    levels = (3, 2)
    table = simulate(10, levels, seed=1)
    fit = one_class(table, draws=100)
    release = fit.synthesize(1, random_seed=2)
    intruder = br.Intruder(knows_records=knows)
    found = br.membership(fit, release, intruder=intruder, random_seed=3)
    known = intruder.known(table.index, np.random.default_rng(3).spawn(7)[3])
    y, Z = codes_of(table), [codes_of(release.datasets[0])]
    exact = [log_bayes_factor(y[i], y[known & (np.arange(10) != i)], Z, levels) for i in range(10)]
    assert found.log_bayes_factor == pytest.approx(exact, abs=ROUNDING)
    assert found.assumptions["records"] == intruder.in_words()


# --- calibration ---------------------------------------------------------------------------------


def from_prior(n, levels, n_classes, rng):
    """Codes (n, p) of records from a mixture whose parameters are drawn from the DPMPM's prior."""
    alpha = rng.gamma(1.0, 1.0)
    sticks = np.append(rng.beta(1, alpha, n_classes - 1), 1.0)
    pi = sticks * np.append(1.0, np.cumprod(1 - sticks[:-1]))
    phi = [rng.dirichlet(np.ones(d), n_classes) for d in levels]
    z = rng.choice(n_classes, p=pi, size=n)
    return np.array([[rng.choice(len(f[k]), p=f[k]) for f in phi] for k in z])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayes_risk.TruncationWarning")
@pytest.mark.parametrize("m", [1, 2])
def test_bayes_factors_are_calibrated_where_the_model_is_true(m):
    """BF is a ratio of two distributions of the release: E[BF | other] = E[1 / BF | member] = 1."""
    levels, n, of_others, of_members = (3, 4, 3), 30, [], []
    model = br.models.DPMPM(n_classes=3, concentration_prior=(1.0, 1.0))
    for seed in range(80):
        codes = from_prior(2 * n, levels, 3, np.random.default_rng(seed))
        members, others = table_of(codes[:n], levels), table_of(codes[n:], levels)
        fit = model.fit(members, draws=200, tune=200, chains=2, random_seed=seed)
        release = fit.synthesize(m, random_seed=seed)
        found = br.membership(fit, release, others=others, random_seed=seed)
        of_others.append(found.summary().loc["mean_bayes_factor_of_others", "value"])
        of_members.append(np.exp(-found.log_bayes_factor[found.member]).mean())
    for factors in map(np.array, (of_others, of_members)):
        assert abs(factors.mean() - 1) < 4 * factors.std() / np.sqrt(len(factors))
        assert factors.std() / np.sqrt(len(factors)) < 0.02  # exact enough to see an error


@pytest.mark.parametrize(("parameters", "few"), [("one-mode", True), ("independent", False)])
def test_few_chains_have_students_factor(monkeypatch, parameters, few):
    """Of led chains errors are wider by t than by the normal law, of others they are not."""
    table = simulate(20, (3, 2), seed=1)
    fit = br.models.DPMPM(n_classes=8).fit(table, draws=60, tune=20, chains=2, random_seed=1)
    release = fit.synthesize(1, parameters=parameters, random_seed=2)
    how = {"others": table.iloc[:5], "random_seed": 3}
    wide = br.membership(fit, release, **how)
    for place in ("risk.membership.computation", "_core.batches"):
        monkeypatch.setattr(f"bayes_risk.{place}.student_factor", lambda variance, n: 1.0)
    normal = br.membership(fit, release, **how)
    assert (wide.log_bayes_factor == normal.log_bayes_factor).all()
    drawn = normal.mcse > 1e-6
    assert drawn.any()
    ratios = wide.mcse[drawn] / normal.mcse[drawn]
    over_draws = normal.mcse_of_measures > 1e-6
    measured = wide.mcse_of_measures[over_draws] / normal.mcse_of_measures[over_draws]
    if few:
        assert ratios.min() > 1.02 and measured.min() > 1.02
    else:
        assert (ratios == 1).all() and (measured == 1).all()
