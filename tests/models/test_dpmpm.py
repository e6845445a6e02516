"""The DPMPM's kernels and its collapsed predictive against plain NumPy."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom

from bayes_risk.evidence.contract import Targets
from bayes_risk.intruder.guesses import GuessSet
from bayes_risk.models.mixture import posterior as level_predictive
from bayes_risk.models.mixture.columns import Columns
from bayes_risk.models.mixture.families import draw_parameters
from bayes_risk.models.mixture.mixed_predictive import Cases
from bayes_risk.models.mixture.posterior import LatentPredictive, log_masses
from bayes_risk.models.mixture.sampler import Sums, collapse
from bayes_risk.models.mixture.sweep import class_masses, class_weights, draw_classes, draw_sticks
from tests.oracles.kernel_twins import collapsed, label_probabilities, stick_weights
from tests.oracles.latent_classes import (
    LEVELS,
    K,
    draws_of,
    layout,
    random_theta,
    rows_of,
    units_of,
)

# --- the sampler's kernels -------------------------------------------------------------------


@pytest.mark.parametrize("levels", [LEVELS, (2,) * 40])
def test_class_masses_are_label_probabilities(levels):
    rng = np.random.default_rng(4)
    pi, phi, rows = random_theta(rng, 5, levels)
    begin = layout(5, levels).starts[:-1]
    y = rng.integers(0, np.array(levels), (20, len(levels)))
    expected = label_probabilities(y, pi, phi)
    for i, row in enumerate(y):
        masses = np.empty(5)
        positions = (row + begin).astype(np.int32)[None]
        class_masses(positions, 0, pi, rows, np.empty((len(levels) + 1, 5)), masses)
        assert np.allclose(np.diff(masses, prepend=0) / masses[-1], expected[i], rtol=1e-9)


@pytest.mark.parametrize("levels", [(4,), LEVELS, (2,) * 40, (30,) * 40])
@pytest.mark.parametrize("n_classes", [1, 5])
def test_class_masses_of_rows_in_any_order_are_those_of_rows_alone(levels, n_classes):
    """Products that a row shares with the one before are kept: equal rows, hidden levels."""
    rng = np.random.default_rng(5)
    pi, _, phi = random_theta(rng, n_classes, levels)
    starts = layout(n_classes, levels).starts
    y = (rng.integers(0, np.array(levels), (60, len(levels))) + starts[:-1]).astype(np.int32)
    y[rng.random(y.shape) < 0.1] = starts[-1]  # the padding row
    y[20:40] = y[:20]
    y[40:, : len(levels) // 2] = y[0, : len(levels) // 2]
    for rows in (y, y[np.lexsort(y.T[::-1])], rows_of(y).units().arrays.data.positions):
        shared = np.empty((len(levels) + 1, n_classes))
        for u in range(len(rows)):
            alone, masses, again = np.empty_like(shared), np.empty(n_classes), np.empty(n_classes)
            class_masses(rows, u, pi, phi, shared, masses)
            class_masses(rows[u : u + 1], 0, pi, phi, alone, again)
            assert (masses == again).all()
            logs = np.log(pi) + np.log(phi[rows[u]]).sum(axis=0)
            p = np.exp(logs - logs.max())
            assert np.allclose(masses / masses[-1], np.cumsum(p) / p.sum(), rtol=1e-9, atol=1e-15)


def test_units_are_rows_sorted_by_the_columns_with_fewest_levels_first():
    rng = np.random.default_rng(6)
    y = np.column_stack([rng.integers(0, d, 500) for d in (9, 2, 5)]).astype(np.int32)
    units = rows_of(y).units(left_out=3)
    assert units.unit[3] == -1 and units.multiplicity.sum() == 499
    assert (np.delete(units.data.positions[units.unit] == y, 3, axis=0)).all()
    positions = units.arrays.data.positions
    assert (positions == units.data.positions[:, [1, 2, 0]]).all()
    assert (np.lexsort(positions.T[::-1]) == np.arange(len(positions))).all()


MASSES = [
    [0.2, 0.3, 0.5],
    [1.0, 0.0, 3.0, 1e-3, 0.02, 0.0],
    [0.0, 0.0, 1.0],
    [1.0, 1e-9, 0.0],
    [0.04, 0.01, 0.9, 0.05],
    [2.0],
]


@pytest.mark.parametrize("masses", MASSES)
@pytest.mark.parametrize("times", [1, 31, 32, 100, 5000])
def test_classes_of_many_individuals_are_multinomial(masses, times):
    """Means, variances, covariances and how often nobody is there, at four standard errors."""
    rng, runs = np.random.default_rng(7), 4000
    p, drawn = np.array(masses) / np.sum(masses), np.zeros((runs, len(masses)), np.int64)
    for copies in drawn:
        draw_classes(rng, np.cumsum(masses), times, copies)
    assert (drawn.sum(axis=1) == times).all() and not drawn[:, p == 0].any()
    product = (drawn - times * p)[:, :, None] * (drawn - times * p)[:, None]
    found = np.hstack([drawn, product.reshape(runs, -1), drawn == 0, drawn == 1, drawn == 2])
    law = binom(times, p)
    covariance = times * (np.diag(p) - np.outer(p, p))
    expected = np.hstack([times * p, covariance.ravel(), *(law.pmf(x) for x in range(3))])
    rare = runs * np.minimum(np.abs(expected), 1) < 30  # no normal law there
    error = np.sqrt(found.var(axis=0) / runs) + 1e-9 * times
    gaps = np.abs(found.mean(axis=0) - expected) / error
    assert (gaps[~rare] < 4).all(), gaps


@pytest.mark.parametrize("alpha", [1e-12, 0.3, 7.0])
def test_class_weights_are_the_stick_breaking_predictive(alpha):
    n = np.array([5, 0, 3, 1, 0])
    for removed in (0, 2, 3, 5):
        left = n.copy()
        if removed < 5:
            left[removed] -= 1
        out = np.empty(5)
        class_weights(n, alpha, removed, out)
        assert np.allclose(out, stick_weights(left, alpha), rtol=1e-10)
        assert np.isclose(out.sum(), 1)


def test_class_weights_are_means_of_drawn_weights():
    rng, n, alpha, pi = np.random.default_rng(5), np.array([5, 0, 3]), 0.7, np.empty(3)
    draws = np.array([draw_sticks(rng, n, alpha, np.empty(2), pi) * 0 + pi for _ in range(20_000)])
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - stick_weights(n, alpha)) < 4 * error).all()


def test_levels_are_dirichlet_draws():
    rng, prior = np.random.default_rng(6), layout(2)
    M = rng.integers(0, 6, (prior.width, 2)).astype(float)
    draws = []
    for _ in range(20_000):
        phi = np.ones((prior.width, 2))
        draw_parameters(rng, M, prior.layout, phi)
        draws.append(phi)
    draws = np.array(draws)
    for begin, end in itertools.pairwise(prior.starts):
        a = 0.8 + M[begin:end]
        mean = a / a.sum(axis=0)
        variance = mean * (1 - mean) / (1 + a.sum(axis=0))
        x = draws[:, begin:end]
        assert (np.abs(x.mean(axis=0) - mean) < 4 * np.sqrt(variance / len(x))).all()
        assert np.allclose(x.var(axis=0), variance, rtol=0.06)


def test_log_masses_do_not_underflow():
    """Two hundred variables of probability about 1/300 each: 1e-500 is below what floats hold."""
    levels = (300,) * 200
    rng, prior = np.random.default_rng(7), layout(2, (300,) * 200)
    pi, phi, rows = random_theta(rng, 2, levels)
    y = rng.integers(0, 300, (3, 200))
    draws = draws_of(pi[None], rows[None])
    found = log_masses(rows_of((y + prior.starts[:-1]).astype(np.int32)), draws, prior)[0]
    for i, row in enumerate(y):
        by_class = [
            np.log(pi[k]) + sum(np.log(phi[k][j][c]) for j, c in enumerate(row)) for k in range(2)
        ]
        assert np.isclose(found[i], logsumexp(by_class), rtol=1e-10)


# --- the collapsed predictive against counting again -------------------------------------------

A = 0.8
N = 12
UNTIED = {"linked": None, "given": np.zeros(3, dtype=bool)}


def tables_by_hand(rng, units, prior, *, fixed, integrate=True, labels=None):
    """Labels at random, counts by hand: what `collapse` makes of one draw."""
    labels = rng.integers(K, size=len(units)) if labels is None else np.array(labels)
    M = np.zeros((prior.width, K))
    for unit, k in zip(units, labels, strict=True):
        for j, c in unit:
            M[prior.starts[j] + c, k] += 1
    pi, phi, rows = random_theta(rng, K)
    sums = Sums(
        draws=draws_of(pi[None], rows[None]),
        n=np.bincount(labels[:N], minlength=K)[None].astype(float),
        M=M[None],
        fixed=np.array(fixed),
        integrated=integrate,
        fallen=np.zeros(1, int),
    )
    return sums, labels, pi, phi


def targets_of(y, columns):
    """Every record, and every combination of values in the guessed columns."""
    cells = np.array(list(itertools.product(*(range(LEVELS[j]) for j in columns))))
    codes = np.repeat(cells[:, None], len(y), axis=1).astype(np.int32)
    same = (codes == y[:, columns][None]).all(axis=2)
    guesses = GuessSet(codes, same.argmax(axis=0), np.ones(same.shape, dtype=bool), cells)
    return Targets(
        profiles=y.astype(np.int32),
        record=np.arange(len(y)),
        columns=np.array(columns),
        guesses=guesses,
    )


def predictions(sums, labels, prior, targets, *, linked=None, given=None):
    """log p(y_i) and p(y*) / p(y_i) of one draw, shapes (U,) and (G, U)."""
    label, given = labels[None, :N].astype(np.int16), np.zeros(3, bool) if given is None else given
    batch, columns = np.zeros(1, np.int64), Columns.of(levels=range(3))
    linked = None if linked is None else np.where(linked < 0, np.nan, linked)
    cases = Cases.of(prior, columns, targets, linked=linked, given=given)
    predictive = LatentPredictive.of(sums, cases, label, batch)
    everything = slice(0, N)
    ratios = np.exp(predictive.log_sums(everything, np.zeros((1, N)))[0])
    return predictive.log_truth(everything)[0], ratios


def pairs(row, columns=None):
    return [(j, int(row[j])) for j in (range(len(row)) if columns is None else columns)]


def guessed(y, columns, values):
    row = y.copy()
    row[columns] = values
    return row


def test_predict_with_fresh_classes():
    rng, prior = np.random.default_rng(8), layout(K)
    y, Z = (rng.integers(0, LEVELS, (N, 3)) for _ in range(2))
    units = [pairs(r) for r in y]
    # the synthetic records have classes of their own; both count
    tables, labels, _, _ = tables_by_hand(rng, [*units, *map(pairs, Z)], prior, fixed=[False] * 3)
    tables.n[:] = np.bincount(labels, minlength=K)
    targets = targets_of(y, [0, 1, 2])
    log_truth, ratios = predictions(tables, labels, prior, targets)
    settings = {"K": K, "levels": LEVELS, "a": A, "alpha": 0.7}
    everything = [*units, *map(pairs, Z)]
    for i in range(N):
        truth = collapsed(everything, labels, i, units[i], **settings)
        assert np.isclose(log_truth[i], np.log(truth), rtol=1e-10)
        for g in range(24):
            guess = pairs(targets.guesses.codes[g, i])
            p = collapsed(everything, labels, i, guess, **settings)
            assert np.isclose(ratios[g, i], p / truth, rtol=1e-10)


@pytest.mark.check
@pytest.mark.parametrize("column", range(3))
def test_predict_of_one_variable_by_products_of_matrices(monkeypatch, column):
    monkeypatch.setattr(level_predictive, "MANY", 1)
    rng, prior = np.random.default_rng(14), layout(K)
    y, Z = (rng.integers(0, LEVELS, (N, 3)) for _ in range(2))
    everything = [*map(pairs, y), *map(pairs, Z)]
    tables, labels, _, _ = tables_by_hand(rng, everything, prior, fixed=[False] * 3)
    tables.n[:] = np.bincount(labels, minlength=K)
    targets = targets_of(y, [column])
    log_truth, ratios = predictions(tables, labels, prior, targets)
    settings = {"K": K, "levels": LEVELS, "a": A, "alpha": 0.7}
    for i in range(N):
        truth = collapsed(everything, labels, i, pairs(y[i]), **settings)
        assert np.isclose(log_truth[i], np.log(truth), rtol=1e-10)
        for g, value in enumerate(targets.guesses.codes[:, i]):
            p = collapsed(everything, labels, i, pairs(guessed(y[i], [column], value)), **settings)
            assert np.isclose(ratios[g, i], p / truth, rtol=single_precision(K))


def single_precision(n_classes):
    """Relative error that sums over 16 draws' classes may have; see `predict_one_change`."""
    return (16 * n_classes + 8) * 2.0**-24


@pytest.mark.parametrize("levels", [LEVELS, (2,) * 40, (30, 2, 7, 2)])
@pytest.mark.parametrize("at_theta", [False, True])
def test_products_of_matrices_are_the_sums_in_double_precision(levels, at_theta):
    """Two batches of more draws than stand side by side; records in order and out of it."""
    rng, prior, H, n = np.random.default_rng(15), layout(K, levels), 45, 60
    y = rng.integers(0, levels, (n, len(levels))).astype(np.int32)
    y[: n // 2] = y[: n // 2][np.lexsort(y[: n // 2].T)]
    changes = [(j, c) for j, d in enumerate(levels) for c in range(d)]
    codes = np.repeat(y[None], len(changes), axis=0)
    for g, (j, c) in enumerate(changes):
        codes[g, :, j] = c
    possible = np.ones(codes.shape[:2], dtype=bool)
    columns = np.arange(len(levels))
    guesses = GuessSet(codes, np.zeros(n, np.int64), possible, codes[:, 0])
    targets = Targets(profiles=y, record=np.arange(n), columns=columns, guesses=guesses)
    units = units_of(y + prior.starts[:-1].astype(np.int32))
    thetas = [random_theta(rng, K, levels) for _ in range(H)]
    draws = draws_of(np.stack([t[0] for t in thetas]), np.stack([t[2] for t in thetas]))
    fixed = np.zeros(len(levels), dtype=bool)
    sums, labels, _ = collapse(prior, units, draws, fixed, units.unit, rng=rng)
    if at_theta:
        sums, labels = Sums.at_theta(draws, prior), np.full_like(labels, K)
    cases = Cases.of(prior, Columns.of(levels=columns), targets, linked=None, given=fixed)
    quick = LatentPredictive.of(sums, cases, labels, np.repeat([0, 1], [20, 25]))
    assert quick.plain
    plain, log_weights = replace(quick, plain=False), 3.0 * rng.normal(size=(H, n))
    for block in (slice(0, n), slice(7, 9)):
        assert np.allclose(quick.log_truth(block), plain.log_truth(block), rtol=0, atol=1e-11)
        found, twin = (x.log_sums(block, log_weights[:, block]) for x in (quick, plain))
        assert found.shape == (2, len(changes), block.stop - block.start)
        assert (np.abs(found - twin) < single_precision(K)).all()
    some = quick.log_sums(slice(7, 9), log_weights[:, 7:9])
    assert (some == quick.log_sums(slice(0, n), log_weights)[:, :, 7:9]).all()


def test_what_products_of_matrices_cannot_tell_is_told_one_by_one(monkeypatch):
    """Few targets, more columns or levels than there is room for, and tiny probabilities."""
    rng, prior = np.random.default_rng(16), layout(K)
    y = np.repeat(rng.integers(0, LEVELS, (N, 3)), 4, axis=0).astype(np.int32)
    pi, _, rows = random_theta(rng, K)

    def plain(rows, y):
        sums = Sums.at_theta(draws_of(pi[None], rows[None]), prior)
        cases = Cases.of(prior, Columns.of(levels=range(3)), targets_of(y, [0]), **UNTIED)
        label = np.full((1, len(y)), K, np.int16)
        return LatentPredictive.of(sums, cases, label, np.zeros(1, np.int64)).plain

    tiny = rows.copy()
    tiny[0, 0] = 1e-40
    assert plain(rows, y)
    assert not plain(rows, y[: level_predictive.MANY - 1])
    assert not plain(tiny, y)
    for limit in ("MOST", "WIDEST"):
        with monkeypatch.context() as patch:
            patch.setattr(level_predictive, limit, 2)
            assert not plain(rows, y)


def test_an_empty_class_and_a_vanishing_concentration():
    """1 + alpha + n_{>=k} was 0 for a target taken out of a class that nobody is in."""
    rng, prior = np.random.default_rng(13), layout(K)
    y = rng.integers(0, LEVELS, (N, 3))
    units = [pairs(r) for r in y]
    tables, labels, _, _ = tables_by_hand(rng, units, prior, fixed=[False] * 3, labels=[0] * N)
    tables.draws.alpha[:] = 1e-20
    log_truth, _ = predictions(tables, labels, prior, targets_of(y, [0, 1, 2]))
    settings = {"K": K, "levels": LEVELS, "a": A, "alpha": 1e-20}
    for i in range(N):
        truth = collapsed(units, labels, i, units[i], **settings)
        assert np.isclose(log_truth[i], np.log(truth), rtol=1e-10)


@pytest.mark.parametrize("columns", [[0, 1, 2], [0, 2]])
def test_predict_with_own_classes(columns):
    """A unit is a record with its own synthetic values; the guess brings these along."""
    rng, prior = np.random.default_rng(9), layout(K)
    y, Z = (rng.integers(0, LEVELS, (N, 3)) for _ in range(2))
    Z[: N // 2] = y[: N // 2]  # half of them equal, where the pair factor matters most
    units = [pairs(a) + pairs(b, columns) for a, b in zip(y, Z, strict=True)]
    tables, labels, _, _ = tables_by_hand(rng, units, prior, fixed=[False] * 3)
    linked = np.full((N, 3), -1)
    linked[:, columns] = Z[:, columns] + prior.starts[:-1][columns]
    targets = targets_of(y, columns)
    log_truth, ratios = predictions(tables, labels, prior, targets, linked=linked)
    settings = {"K": K, "levels": LEVELS, "a": A, "alpha": 0.7}
    for i in range(N):
        truth = collapsed(units, labels, i, units[i], **settings)
        assert np.isclose(log_truth[i], np.log(truth), rtol=1e-10)
        for g, values in enumerate(targets.guesses.codes[:, i]):
            guess = pairs(guessed(y[i], columns, values)) + pairs(Z[i], columns)
            p = collapsed(units, labels, i, guess, **settings)
            assert np.isclose(ratios[g, i], p / truth, rtol=1e-10)


def test_predict_given_unsynthesized_columns():
    """Weights and given columns stay as drawn, the others are integrated out."""
    rng, prior = np.random.default_rng(10), layout(K)
    y, Z = (rng.integers(0, LEVELS, (N, 3)) for _ in range(2))
    given = np.array([False, True, False])
    Z[:, 1] = y[:, 1]
    everything = [pairs(r) for r in y] + [pairs(r) for r in Z]
    tables, labels, pi, phi = tables_by_hand(
        rng, everything, prior, fixed=given.tolist(), integrate=False
    )
    targets = targets_of(y, [0, 2])
    log_truth, ratios = predictions(tables, labels, prior, targets, given=given)

    def density(i, row):
        """p(row | row[1]) with record i taken out of the counts."""
        total, condition = 0.0, 0.0
        for k in range(K):
            base = pi[k] * phi[k][1][row[1]]
            condition += base
            for j in (0, 2):
                mine = [
                    c
                    for r, unit in enumerate(everything)
                    if r != i and labels[r] == k
                    for j_, c in unit
                    if j_ == j
                ]
                base *= (A + mine.count(row[j])) / (LEVELS[j] * A + len(mine))
            total += base
        return total / condition

    for i in range(N):
        assert np.isclose(log_truth[i], np.log(density(i, y[i])), rtol=1e-10)
        for g, values in enumerate(targets.guesses.codes[:, i]):
            p = density(i, guessed(y[i], [0, 2], values))
            assert np.isclose(ratios[g, i], p / density(i, y[i]), rtol=1e-10)


def test_predict_of_a_target_left_out_is_the_mixture_itself():
    rng, prior = np.random.default_rng(11), layout(K)
    y = rng.integers(0, LEVELS, (N, 3))
    pi, phi, rows = random_theta(rng, K)
    targets, sums = targets_of(y, [0, 1, 2]), Sums.at_theta(draws_of(pi[None], rows[None]), prior)
    log_truth, _ = predictions(sums, np.full(N, K), prior, targets)
    for i, row in enumerate(y):
        p = sum(pi[k] * np.prod([phi[k][j][c] for j, c in enumerate(row)]) for k in range(K))
        assert np.isclose(log_truth[i], np.log(p), rtol=1e-10)


def test_collapse_counts_the_labels_that_it_draws():
    """All records distinct, so every label is known and the counts can be made again."""
    cells = np.array(list(itertools.product(range(3), range(2), range(4))), dtype=np.int32)
    prior = layout(K)
    rng = np.random.default_rng(12)
    units = units_of(cells + prior.starts[:-1].astype(np.int32))
    thetas = [random_theta(rng, K) for _ in range(400)]
    draws = draws_of(np.stack([t[0] for t in thetas]), np.stack([t[2] for t in thetas]))
    free = np.zeros(3, dtype=bool)
    sums, labels, _ = collapse(prior, units, draws, free, units.unit, rng=rng)
    cases = Cases.of(prior, Columns.of(levels=range(3)), targets_of(cells, [0]), **UNTIED)
    predictive = LatentPredictive.of(sums, cases, labels, np.zeros(400, np.int64))
    S = predictive.n_classes
    expected, observed = np.zeros(K), np.zeros(K)
    for h, (pi, phi, _) in enumerate(thetas):
        label = labels[h]
        assert (np.bincount(label, minlength=K) == sums.n[h]).all()
        for j, (begin, end) in enumerate(itertools.pairwise(prior.starts)):
            counts = predictive.sums.M[h, begin:end] * predictive.tau[h, j] - prior.level
            for c in range(end - begin):
                mine = np.bincount(predictive.label[h][cells[:, j] == c], minlength=S)
                assert np.allclose(counts[c], mine, atol=1e-9)
        p = label_probabilities(cells, pi, phi)
        expected += p.sum(axis=0)
        observed += sums.n[h]
    error = np.sqrt(expected * (1 - expected / expected.sum()))  # an upper bound
    assert (np.abs(observed - expected) < 4 * error).all()
