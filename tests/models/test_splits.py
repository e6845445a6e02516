"""Split and merge moves of latent classes: ratios by hand, enumeration, calibration, invariance."""

import itertools
from dataclasses import replace
from functools import cache

import numba
import numpy as np
import pytest
from scipy.special import betaln, logsumexp
from scipy.stats import chi2

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import Microdata
from bayes_risk.demo import fair
from bayes_risk.models.mixture.columns import Mechanism
from bayes_risk.models.mixture.families import draw_labels, draw_parameters
from bayes_risk.models.mixture.kernel_arguments import ClassSums
from bayes_risk.models.mixture.posterior import log_masses
from bayes_risk.models.mixture.sampler import initial_state, run_chains
from bayes_risk.models.mixture.split_merge import (
    allocate,
    individuals,
    log_slots,
    log_split_ratio,
    split_merge,
)
from bayes_risk.models.mixture.state import Draws, Prior
from bayes_risk.models.mixture.sweep import (
    draw_alpha,
    draw_sticks,
    swap_neighbours,
)
from tests.helpers.fits import encoded
from tests.oracles.kernel_twins import simulate
from tests.oracles.latent_classes import LEVELS, layout, random_theta, units_of

ALPHA, A = 0.7, 0.8
UNUSUAL = 1e-4  # the chance that a correct sampler fails one test


def log_of_labels(z, K, alpha):
    """log p(z | alpha): V_k ~ Beta(1, alpha) integrated out stick by stick, V_K = 1.

    With an array of alpha, one for each.
    """
    n = np.bincount(z, minlength=K)
    sticks = [betaln(1 + n[k], alpha + n[k + 1 :].sum()) - betaln(1, alpha) for k in range(K - 1)]
    return np.sum(sticks, axis=0)


def log_of_rows(rows, levels, a):
    """log p(rows of one class): value after value, each variable an urn of its own."""
    total = 0.0
    for j, d in enumerate(levels):
        seen = np.full(d, a)
        for row in rows:
            for v, c in row:
                if v == j:
                    total += np.log(seen[c] / seen.sum())
                    seen[c] += 1
    return total


def log_joint(z, rows, levels, K, *, alpha=ALPHA, a=A):
    """log p(z, y | alpha); a row is a list of (variable, level)."""
    z = np.asarray(z)
    parts = [[r for r, k in zip(rows, z, strict=True) if k == c] for c in range(K)]
    return log_of_labels(z, K, alpha) + sum(log_of_rows(part, levels, a) for part in parts)


class Table:
    """Individuals as the kernels take them, the rows of equal units next to one another."""

    def __init__(self, rows, levels, K):
        self.prior, self.K, self.levels = layout(K, levels, A), K, levels
        width = max(len(r) for r in rows)
        starts, padding = self.prior.starts, self.prior.width - 1
        cells = np.full((len(rows), width), padding, np.int32)
        for i, row in enumerate(rows):
            cells[i, : len(row)] = [starts[v] + c for v, c in row]
        self.units = units_of(cells)
        self.of_kernel = self.prior.layout
        self.individuals, _, self.sides = individuals(self.units.arrays, self.of_kernel, True)
        self.owner = self.individuals.owner
        order = [int(np.flatnonzero(self.units.unit == u)[0]) for u in self.owner]
        self.rows = [rows[i] for i in order]  # in the kernel's order

    def counts(self, z):
        size = np.bincount(z, minlength=self.K).astype(np.int64)
        M = np.zeros((self.prior.width, self.K))
        for i, k in enumerate(z):
            np.add.at(M, (self.units.data.positions[self.owner[i]], k), 1)
        return ClassSums(size.astype(float), size, M)

    @property
    def n(self):
        return len(self.rows)


def plain(values):
    return [[(j, int(c)) for j, c in enumerate(row)] for row in values]


def linked(values, synthetic):
    """Own values, and synthetic ones of some columns: the second row has none."""
    rows = plain(values)
    for i, extra in enumerate(synthetic):
        rows[i] = rows[i] + [(j, c) for j, c in extra]
    return rows


TABLES = {
    "plain": (plain([[0, 0], [0, 0], [0, 1], [2, 1], [2, 1]]), (3, 2), 3),
    "four classes": (plain([[0, 0], [1, 1], [1, 1], [0, 1]]), (2, 2), 4),
    "linked": (
        linked(
            [[0, 0], [0, 1], [1, 1], [1, 1]],
            [[(0, 0), (1, 1)], [], [(0, 1), (1, 1)], [(0, 1), (1, 1)]],
        ),
        (2, 2),
        3,
    ),
}


@cache
def exact(name):
    """The table, all labellings, and their probabilities."""
    rows, levels, K = TABLES[name]
    table = Table(rows, levels, K)
    labellings = np.array(list(itertools.product(range(K), repeat=table.n)), np.int16)
    logs = np.array([log_joint(z, table.rows, levels, K) for z in labellings])
    return table, labellings, np.exp(logs - logsumexp(logs))


def place(z, K):
    """Where a labelling stands in the list of all."""
    return np.asarray(z, dtype=np.int64) @ K ** np.arange(z.shape[-1] - 1, -1, -1)


@numba.njit
def moved(rng, moves, rows, layout, alpha, z, n, size, M, sides, tally):
    """`moves` proposals from every row of z, in place."""
    for i in range(z.shape[0]):
        classes = ClassSums(n[i], size[i], M[i])
        split_merge(rng, moves, rows, layout, alpha, classes, z[i], sides, tally)


def after(table, z, moves, rng):
    """Labels, counts and tally after so many proposals from each row of z."""
    found = [table.counts(row) for row in np.unique(z, axis=0)]
    which = np.unique(z, axis=0, return_inverse=True)[1].ravel()
    n, size, M = (np.array([f[s] for f in found])[which] for s in range(3))
    z, tally = z.copy(), np.zeros((2, 2), np.int64)
    fixed = table.individuals, table.of_kernel, ALPHA
    moved(rng, moves, *fixed, z, n, size, M, table.sides, tally)
    assert (n == size).all()
    return z, n, M, tally


def unusual(observed, expected):
    """Whether Pearson's statistic is out of range, rare cells put together."""
    rare = expected < 5
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    statistic = ((observed - expected) ** 2 / expected).sum()
    return chi2.sf(statistic, len(expected) - 1) < UNUSUAL


# --- the ratio, by hand ----------------------------------------------------------------------


def predictive(rows, row, levels):
    """prod_j p(value j | rows of the side), values of one row counted one by one."""
    seen = [np.full(d, A) for d in levels]
    for r in rows:
        for v, c in r:
            seen[v][c] += 1
    return np.prod([seen[v][c] / seen[v].sum() for v, c in row])


def log_deal(rows, sides, levels):
    """log q of a sequential deal in this order, the first two rows sitting on either side."""
    held, total = ([rows[0]], [rows[1]]), 0.0
    for row, s in zip(rows[2:], sides[2:], strict=True):
        mass = [len(h) * predictive(h, row, levels) for h in held]
        total += np.log(mass[s] / sum(mass))
        held[s].append(row)
    return total


@pytest.mark.parametrize("name", list(TABLES))
def test_the_ratio_of_a_split_is_that_of_its_definition(name):
    """Joint densities, chances of every choice on the way there and on the way back."""
    rng, (rows, levels, K) = np.random.default_rng(1), TABLES[name]
    table = Table(rows, levels, K)
    z = np.zeros(table.n, np.int16)  # all in class 0 but the last record
    z[-1] = 1
    members = np.append(rng.permutation(table.n - 1), 0).astype(np.int32)
    count = table.n - 1
    sides = table.sides
    side, goal = np.zeros(table.n, np.int8), np.zeros(table.n, np.int8)
    log_q = allocate(
        rng, members, count, table.individuals, table.of_kernel, goal, False, side, sides
    )
    dealt = [table.rows[i] for i in members[:count]]
    assert np.isclose(log_q, log_deal(dealt, side[:count], levels), rtol=1e-10)

    classes, slots = table.counts(z), np.empty(K)
    found = log_split_ratio(classes, 0, table.of_kernel, sides, ALPHA, log_q, slots)
    sizes = [int((side[:count] == s).sum()) for s in range(2)]
    joints, now = [], log_joint(z, table.rows, levels, K)
    for e in range(2, K):  # the empty slots
        new = z.copy()
        new[members[:count][side[:count] == 1]] = e
        joints.append(log_joint(new, table.rows, levels, K))
    e = 2  # one of them: p(e) is its share, so that any gives the same ratio
    there = np.log(1 / 1 / (count * (count - 1))) + log_q + joints[e - 2] - logsumexp(joints)
    back = np.log(1 / (3 * 2) / (sizes[0] * sizes[1]))
    assert np.isclose(found, joints[e - 2] + back - now - there, rtol=1e-10)


def test_slots_have_the_prior_of_labels():
    n, K = np.array([3, 0, 2, 0, 1, 0]), 6
    for extra, alpha in ((1, 0.3), (4, 2.5)):
        out = np.empty(K)
        log_slots(n, extra, alpha, out)
        empty = np.flatnonzero(n == 0)
        expected = []
        for e in empty:
            more = n.copy()
            more[e] = extra
            expected.append(log_of_labels(np.repeat(np.arange(K), more), K, alpha))
        assert np.isinf(out[n > 0]).all()
        difference = out[empty] - np.array(expected)
        assert np.allclose(difference, difference[0], rtol=1e-10)


# --- the labels' posterior, by enumeration ---------------------------------------------------


@pytest.mark.parametrize(("name", "moves"), [("plain", 1), ("four classes", 6), ("linked", 6)])
def test_exact_draws_stay_exact(name, moves):
    """20,000 draws of p(z | alpha, y); after the moves they follow it still."""
    table, labellings, p = exact(name)
    rng, size = np.random.default_rng(10 + moves), 20_000
    z = labellings[rng.choice(len(p), size=size, p=p)]
    z, n, M, tally = after(table, z, moves, rng)
    assert (tally[:, 1] > 0.05 * tally[:, 0]).all()  # both kinds happen
    observed = np.bincount(place(z, table.K), minlength=len(p))
    assert not unusual(observed, size * p)
    for i in range(50):  # counts belong to labels
        by_hand = table.counts(z[i])
        assert (n[i] == by_hand[0]).all() and (M[i] == by_hand[2]).all()


@pytest.mark.parametrize("start", [0, 1], ids=["together", "apart"])
def test_moves_alone_reach_the_posterior_from_anywhere(start):
    """Every chain from one given z, moves only: 60 proposals later its start is forgotten."""
    table, _, p = exact("plain")
    size, rng = 6_000, np.random.default_rng(30 + start)
    z = np.tile(np.array([[0] * 5, [0, 1, 2, 0, 1]], np.int16)[start], (size, 1))
    z = after(table, z, 60, rng)[0]
    assert not unusual(np.bincount(place(z, table.K), minlength=len(p)), size * p)


@pytest.mark.parametrize("splits", [0, 3])
def test_sweeps_with_moves_have_the_posterior_of_alpha_and_classes(splits):
    """Long run of the whole sweep against enumeration of labels and a grid of alpha."""
    rows, levels, K = TABLES["plain"]
    table, labellings, _ = exact("plain")
    fixed = [log_joint(z, table.rows, levels, K, alpha=1.0) for z in labellings]
    fixed = np.array(fixed) - [log_of_labels(z, K, 1.0) for z in labellings]
    grid = np.exp(np.linspace(-12, 3.5, 400))  # alpha ~ Gamma(1, 1) here, on a log grid
    logs = np.array([log_of_labels(z, K, grid) - grid + np.log(grid) for z in labellings])
    p = np.exp(fixed[:, None] + logs)
    p /= p.sum()
    occupied = np.array([len(set(z)) for z in labellings])
    expected = [p.sum(axis=1) @ (occupied == k) for k in (1, 2, 3)] + [p.sum(axis=0) @ grid]

    prior = replace(table.prior, splits=splits)
    pi, _, phi = random_theta(np.random.default_rng(1), K, levels)
    start = Draws.point(1.0, np.log(1 - np.full(K - 1, 0.3)), pi, phi)
    draws = run_chains(
        prior, table.units, [start] * 40, draws=800, tune=100, thin=2,
        rng=np.random.default_rng(40 + splits),
    )  # fmt: skip
    values = [draws.n_occupied == k for k in (1, 2, 3)] + [draws.alpha]
    means = np.array([v.reshape(40, -1).mean(axis=1) for v in values])
    error = means.std(axis=1, ddof=1) / np.sqrt(40)
    assert (np.abs(means.mean(axis=1) - expected) < 4 * error).all()


# --- calibration: labels and tables drawn together -------------------------------------------


def test_moves_and_new_tables_keep_the_prior():
    """Geweke (2004): z ~ p(z), y ~ p(y | z); moves of z given y, y given z; z is as before."""
    K, levels, n, rounds, size = 4, (3, 2), 6, 3, 600
    rng, prior = np.random.default_rng(50), layout(4, levels, A)
    starts, of_kernel = prior.starts, prior.layout
    occupied, largest = np.empty((2, size)), np.empty((2, size))
    for i in range(size):
        stick = np.append(rng.beta(1, ALPHA, K - 1), 1.0)
        pi = stick * np.append(1.0, np.cumprod(1 - stick[:-1]))
        z = rng.choice(K, size=n, p=pi / pi.sum()).astype(np.int16)
        counts = np.bincount(z, minlength=K)
        occupied[0, i], largest[0, i] = (counts > 0).sum(), counts.max()
        for _ in range(rounds):
            y = np.empty((n, 2), np.int32)
            for k in range(K):
                for j, d in enumerate(levels):
                    phi = rng.dirichlet(np.full(d, A))
                    y[z == k, j] = starts[j] + rng.choice(d, size=(z == k).sum(), p=phi)
            M = np.zeros((prior.width, K))
            np.add.at(M, (y, np.repeat(z[:, None], 2, axis=1)), 1)
            N = np.bincount(z, minlength=K).astype(np.int64)
            units = units_of(y)
            units = units.only(units.unit)
            rows, _, sides = individuals(units.arrays, of_kernel, True)
            classes, tally = ClassSums(N.astype(float), N, M), np.zeros((2, 2), np.int64)
            split_merge(rng, 3, rows, of_kernel, ALPHA, classes, z, sides, tally)
        occupied[1, i], largest[1, i] = (N > 0).sum(), N.max()
    for x in (occupied, largest):
        error = (x[1] - x[0]).std(ddof=1) / np.sqrt(size)
        assert abs((x[1] - x[0]).mean()) < 4 * error


# --- the same numbers as without --------------------------------------------------------------


def test_labels_are_drawn_from_the_stream_of_the_plain_sweep():
    rng, prior = np.random.default_rng(60), layout(3)
    pi, _, phi = random_theta(rng, 3)
    units = units_of((rng.integers(0, LEVELS, (80, 3)) + prior.starts[:-1]).astype(np.int32))
    shapes, label = (3, (prior.width, 3)), np.zeros(len(units.multiplicity), np.int16)
    n, M = (np.zeros(shape) for shape in shapes)
    of_units = (np.random.default_rng(7), units.arrays, pi, phi, prior.layout)
    draw_labels(*of_units, n, M, label, np.zeros((0, 0), bool), np.empty(0, np.int64))
    rows, z, _ = individuals(units.arrays, prior.layout, True)
    again, size, sums = np.zeros(3), np.zeros(3, np.int64), np.zeros((prior.width, 3))
    of_units = (np.random.default_rng(7), *of_units[1:])
    draw_labels(*of_units, again, sums, z, rows.flags, size)
    assert (np.bincount(z, minlength=3) == n).all()
    assert (again == n).all() and (size == n).all() and (sums == M).all()


def test_no_splits_is_the_sweep_by_hand():
    """With splits=0 the draws are those of labels, swaps, sticks, levels, alpha, bit for bit."""
    rng, prior = np.random.default_rng(61), layout(3)
    pi, _, phi = random_theta(rng, 3)
    units = units_of((rng.integers(0, LEVELS, (80, 3)) + prior.starts[:-1]).astype(np.int32))
    start = Draws.point(1.0, np.log(1 - np.full(2, 0.3)), pi, phi)
    (child,) = np.random.default_rng(9).spawn(1)
    drawn = run_chains(prior, units, [start], draws=1, tune=0, thin=1, rng=np.random.default_rng(9))
    n, M, label = np.zeros(3), np.zeros((prior.width, 3)), np.zeros(80, np.int16)
    flags, size = np.zeros((0, 0), bool), np.empty(0, np.int64)
    draw_labels(child, units.arrays, pi, phi, prior.layout, n, M, label, flags, size)
    swap_neighbours(child, 1.0, n, M)
    new_pi, new_phi = np.empty(3), phi.copy()
    log_rest = draw_sticks(child, n, 1.0, np.empty(2), new_pi)
    draw_parameters(child, M, prior.layout, new_phi)
    assert draw_alpha(child, 2, log_rest, np.array([1.0, 1.0])) == drawn.alpha[0]
    assert (drawn.pi[0] == new_pi).all() and (drawn.phi[0] == new_phi).all()


def fit_of(table, splits, seed=3, **options):
    how = {"draws": 40, "tune": 20, "chains": 2, "thin": 2} | options
    return br.models.DPMPM(n_classes=12).fit(table, splits=splits, random_seed=seed, **how)


def test_the_audit_s_own_fits_take_the_moves():
    """The prior of all later fits says so; a release given columns leaves its fit without them."""
    table = simulate(60, (3, 2, 3), 2, seed=5)
    fits = [fit_of(table, splits) for splits in (0, 4)]
    assert [f.posterior.prior.splits for f in fits] == [0, 4]
    same = []
    for columns in (None, ["x0"]):
        release = fits[0].synthesize(1, columns=columns, random_seed=1)
        start = fits[0].posterior
        drawn = []
        for splits in (0, 4):
            prior = replace(start.prior, splits=splits)
            units = Mechanism.of(encoded(fits[0], release), fits[0].columns, prior)[0].units()
            drawn.append(
                run_chains(
                    prior, units, [start.draws.last(0)], draws=5, tune=5, thin=1,
                    rng=np.random.default_rng(2),
                ).phi
            )  # fmt: skip
        same.append(bool((drawn[0] == drawn[1]).all()))
    assert same == [False, True]


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
@pytest.mark.parametrize("classes", ["new", "own"])
def test_audits_run_with_moves(classes):
    table = simulate(60, (3, 2, 3), 2, seed=5)
    fit = fit_of(table, 4)
    release = fit.synthesize(2, columns=["x0", "x1"], classes=classes, random_seed=1)
    risk = br.attribute_risk(fit, release, targets=4, random_seed=1)
    assert np.isfinite(risk.summary().select_dtypes("number").to_numpy(dtype=float)).any()


def test_samplers_without_moves_refuse_them():
    with pytest.raises(InputError, match="splits=2 with .*leave splits or"):
        fit_of(simulate(60, (3, 2, 3), 2, seed=5), 2, sampler="nuts")


@pytest.mark.check
def test_plain_sweeps_keep_what_the_moves_found():
    """300 records of the Redbook survey: 32 chains with moves, then plain sweeps from their ends.

    Plain chains from a scattered start are too slow a standard; but they keep the posterior.
    """
    data = Microdata.from_frame(fair()[:300])
    starts = np.concatenate([[0], np.cumsum(data.n_levels)]).astype(np.int64)
    units = units_of(data.codes + starts[:-1].astype(np.int32))
    plain = Prior(n_classes=12, concentration=(0.25, 0.25), level=1.0, starts=starts)
    moving, how = replace(plain, splits=10), {"draws": 40, "thin": 3}
    begin = [initial_state(moving, units, rng) for rng in np.random.default_rng(70).spawn(32)]
    rng = np.random.default_rng(71)
    with_moves = run_chains(moving, units, begin, tune=500, rng=rng, **how)
    ends = [with_moves.last(c) for c in range(32)]
    without = run_chains(plain, units, ends, tune=0, rng=rng, **how)
    means = []
    for draws in (with_moves, without):
        x = np.exp(log_masses(units.data.take(np.s_[::15]), draws, plain))
        x = np.column_stack([x, draws.n_occupied, np.log(draws.alpha)])
        means.append(x.reshape(32, 40, -1).mean(axis=1))
    difference = means[1] - means[0]
    scores = difference.mean(axis=0) / (difference.std(axis=0, ddof=1) / np.sqrt(32))
    assert np.abs(scores).max() < 4.5  # t with 31 degrees of freedom, 22 quantities
    assert (scores**2).mean() < 3
