"""The collapsed predictive of counts against NumPy; masses of huge counts against sixty digits."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from bayes_risk._core.batches import batch_of_draws
from bayes_risk.models.mixture import masses
from bayes_risk.models.mixture.business.competitors import binomial_masses
from bayes_risk.models.mixture.columns import Columns
from bayes_risk.models.mixture.masses import log_poisson
from bayes_risk.models.mixture.mixed_predictive import Cases, MixedPredictive
from bayes_risk.models.mixture.posterior import log_masses
from bayes_risk.models.mixture.sampler import Sums
from bayes_risk.models.mixture.sampler import collapse as collapsed
from tests.oracles import count_classes as by_hand
from tests.oracles import exact_counts

K, N, H, G = 4, 14, 6, 40
SCALES = [30.0, 4.0, 1.0]


def negative_binomial(x, A, B, e):
    constant, error = masses.count_constant(x), masses.stirling_error(A)
    return masses.log_negative_binomial(x, A, B, e, constant, error)


def collapse(prior, units, draws, wanted, *, rng):
    """Sums, labels and structural zeros of the wanted units, nothing fixed."""
    nothing = np.zeros(prior.n_counts + len(prior.starts) - 1, bool)
    return collapsed(prior, units, draws, nothing, wanted, rng=rng)


def setting(seed, *, zeros=None, levels=(), scale=1.0):
    """A prior, units and draws; some values are not said (exposure 0)."""
    rng = np.random.default_rng(seed)
    scales = scale * np.array(SCALES)
    prior = by_hand.count_prior(K, [0.5, 1.0, 2.0], 0.5 / scales, zeros=zeros, levels=levels)
    counts = rng.poisson(scales * rng.gamma(1.0, 1.0, (N, 3))).astype(float)
    counts[rng.random((N, 3)) < 0.2] = 0
    exposure = rng.choice([0.5, 1.0, 2.0], (N, 3))
    positions = np.zeros((N, len(levels)), np.int32)
    for q, d in enumerate(levels):
        positions[:, q] = prior.starts[q] + rng.integers(d, size=N)
    draws = by_hand.random_draws(rng, prior, scales[:, None], H)
    return rng, prior, by_hand.count_units(counts, exposure, positions), draws


def predictive(prior, units, sums, label, structural, columns, guesses, tied=None):
    """The library's; ``tied`` (U, 3): own synthetic counts, NaN where there are none."""
    U, q = guesses.shape[1], units.data.positions.shape[1]
    levels, ones = units.data.positions[:U].astype(float), np.ones((U, q))
    values, rest = np.hstack([units.data.counts[:U], levels]), np.full((U, q), np.nan)
    nothing = np.zeros(values.shape, bool)
    cases = Cases(
        prior=prior,
        table=Columns.of(counts=range(3), levels=range(3, 3 + q)),
        targets=SimpleNamespace(
            columns=np.array(columns), guesses=SimpleNamespace(codes=guesses), weight=np.ones(U)
        ),
        values=values,
        exposure=np.hstack([units.data.exposure[:U], ones]),
        linked=np.full(values.shape, np.nan) if tied is None else np.hstack([tied, rest]),
        data=values,
        given=nothing,
        given_linked=nothing,
    )
    batch = batch_of_draws(H, 2)
    return MixedPredictive.of(sums, cases, label, structural=structural, batch=batch)


def sums_by_hand(terms, truth, log_weights, batch):
    """log of each batch's sum of w p(y*) / p(y_i); terms (H, U, G)."""
    v = log_weights[..., None] + terms - truth[..., None]
    return np.stack([logsumexp(v[batch == b], axis=0).T for b in range(batch.max() + 1)])


@pytest.mark.parametrize("zeros", [None, (1.0, 2.0)])
@pytest.mark.parametrize("levels", [(), by_hand.LEVELS])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_collapsed_predictive_is_that_of_numpy(zeros, levels, scale):
    rng, prior, units, draws = setting(3, zeros=zeros, levels=levels, scale=scale)
    U, columns = 5, [0, 2]
    tables, label, structural = collapse(prior, units, draws, np.arange(N), rng=rng)
    guesses = np.floor(units.data.counts[:U, columns] * rng.uniform(0, 3, (G, U, 2)))
    part = predictive(prior, units, tables, label[:, :U], structural[:, :U], columns, guesses)
    terms, truth = np.empty((H, U, G)), np.empty((H, U))
    for h in range(H):
        for u in range(U):
            rows = np.repeat(units.data.counts[u][None], G + 1, axis=0)
            rows[1:, columns] = guesses[:, u]
            found = by_hand.predictive_by_hand(
                prior, units, draws.alpha[h], label[h], structural[h], u, rows
            )
            truth[h, u], terms[h, u] = found[0], found[1:]
    log_weights = rng.normal(scale=50.0, size=(H, U))
    assert part.log_truth(slice(0, U)) == pytest.approx(truth, rel=1e-8)
    sums = sums_by_hand(terms, truth, log_weights, part.batch)
    assert part.log_sums(slice(0, U), log_weights) == pytest.approx(sums, rel=1e-7)


def test_class_sums_are_those_of_the_labels():
    rng, prior, units, draws = setting(4, zeros=(1.0, 1.0), levels=by_hand.LEVELS)
    tables, label, structural = collapse(prior, units, draws, np.arange(N), rng=rng)
    D, p = prior.width, 3
    structural = structural[..., :p]
    assert structural.any() and not structural[:, units.data.counts > 0].any()
    for h in range(H):
        for k in range(K):
            here = label[h] == k
            alive = here[:, None] & ~structural[h]
            assert tables.n[h, k] == here.sum()
            assert tables.M[h, :p, k] == pytest.approx(units.data.counts[here].sum(axis=0))
            assert tables.M[h, p : 2 * p, k] == pytest.approx(
                (here[:, None] & structural[h]).sum(0)
            )
            assert tables.M[h, D : D + p, k] == pytest.approx(
                (units.data.exposure * alive).sum(axis=0)
            )
            assert tables.M[h, D + p :, k] == pytest.approx(alive.sum(axis=0))


def test_equal_individuals_in_one_unit_are_labelled_one_by_one():
    """A unit that stands for many: label and zero of its first are drawn as those of any other."""
    prior = by_hand.count_prior(2, [1.0], [1.0], zeros=(1.0, 1.0))
    rng = np.random.default_rng(1)
    draws = by_hand.random_draws(rng, prior, 2.0, 1)
    draws = draws.take(np.zeros(20_000, int), 2)
    units = by_hand.count_units([[0.0]])
    units.multiplicity[:] = 3
    tables, label, structural = collapse(prior, units, draws, np.array([0]), rng=rng)
    assert (tables.n.sum(axis=1) == 3).all()
    psi, mean = draws.phi[0, 1], draws.phi[0, 0]
    zero = draws.pi[0] * (psi + (1 - psi) * np.exp(-mean))
    both = draws.pi[0] * psi / zero.sum()  # class, and structural
    for k in range(2):
        for found, p in (
            ((label == k).mean(), zero[k] / zero.sum()),
            (((label == k) & structural[:, :, 0]).mean(), both[k]),
            (tables.n[:, k].mean() / 3, zero[k] / zero.sum()),
            (tables.M[:, 1, k].mean() / 3, both[k]),
        ):
            assert abs(found - p) < 4 * np.sqrt(p * (1 - p) / 20_000)


@pytest.mark.parametrize("zeros", [None, (1.0, 2.0)])
def test_fixed_at_theta(zeros):
    rng, prior, units, draws = setting(5, zeros=zeros, levels=by_hand.LEVELS)
    U, columns = 4, [1]
    label = np.full((H, U), K, np.int16)
    guesses = rng.poisson(5.0, (G, U, 1)).astype(float)
    structural = np.zeros((H, U, 6), bool)
    tables = Sums.at_theta(draws, prior)
    part = predictive(prior, units, tables, label, structural, columns, guesses)
    terms, truth = np.empty((H, U, G)), np.empty((H, U))
    for h in range(H):
        for u in range(U):
            rows = np.repeat(units.data.counts[u][None], G + 1, axis=0)
            rows[1:, 1] = guesses[:, u, 0]
            found = by_hand.mixture_by_hand(
                prior, draws, h, rows, units.data.exposure[u], units.data.positions[u]
            )
            truth[h, u], terms[h, u] = found[0], found[1:]
    assert part.log_truth(slice(0, U)) == pytest.approx(truth, rel=1e-10)
    assert log_masses(units.data, draws, prior)[:, :U] == pytest.approx(truth, rel=1e-10)
    sums = sums_by_hand(terms, truth, np.zeros((H, U)), part.batch)
    assert part.log_sums(slice(0, U), np.zeros((H, U))) == pytest.approx(sums, rel=1e-9)


def test_tied_counts_share_the_class():
    """p(y*, z | class) with the rate integrated out, in NumPy, for a target that is no unit."""
    rng, prior, units, draws = setting(6)
    tables, _, _ = collapse(prior, units, draws, np.full(1, -1), rng=rng)
    z = np.array([[25.0, np.nan, 2.0]])
    guesses = np.arange(0.0, 60.0)[:, None, None]
    label, structural = np.full((H, 1), K, np.int16), np.zeros((H, 1, 6), bool)
    part = predictive(prior, units, tables, label, structural, [0], guesses, tied=z)
    for h in range(H):
        rows = np.repeat(units.data.counts[:1], 61, axis=0)
        rows[1:, 0] = guesses[:, 0, 0]
        terms = np.repeat(by_hand.log_class_weights(tables.n[h], draws.alpha[h])[None], 61, 0)
        for j in range(3):
            A = prior.shape[j] + tables.M[h, j]
            B = prior.rate[j] + tables.M[h, prior.width + j]
            y, e = rows[:, j : j + 1], units.data.exposure[0, j]
            terms += by_hand.log_gamma_poisson(y, A, B, e)
            if not np.isnan(z[0, j]):
                terms += by_hand.log_gamma_poisson(z[0, j], A + y, B + e, e)
        expected = logsumexp(terms, axis=1)
        weights = np.where(np.arange(H) == h, 0.0, -np.inf)[:, None]
        assert part.log_truth(slice(0, 1))[h, 0] == pytest.approx(expected[0], rel=1e-10)
        sums = logsumexp(part.log_sums(slice(0, 1), weights), axis=0)[:, 0]
        assert sums == pytest.approx(expected[1:] - expected[0], rel=1e-8, abs=1e-9)


def test_what_is_no_count_is_impossible():
    rng, prior, units, draws = setting(7)
    tables, label, structural = collapse(prior, units, draws, np.array([0]), rng=rng)
    guesses = np.array([3.0, 3.5, -1.0])[:, None, None]
    part = predictive(prior, units, tables, label, structural, [0], guesses)
    sums = part.log_sums(slice(0, 1), np.zeros((H, 1)))
    assert np.isfinite(sums[:, 0]).all() and np.isneginf(sums[:, 1:]).all()


def test_guesses_worlds_apart_are_told_apart():
    """Log masses down to minus a billion, next to a target that is itself an outlier."""
    prior = by_hand.count_prior(2, [0.5], [5e-7])
    rng = np.random.default_rng(2)
    counts = np.array([[1e9], *[[v] for v in rng.poisson(1e6, 12)]])
    units = by_hand.count_units(counts)
    draws = by_hand.random_draws(rng, prior, 1e6, H)
    draws.phi[:, :2] = [1e6, 1.0]  # one class for all, the other one empty
    tables, label, structural = collapse(prior, units, draws, np.array([0]), rng=rng)
    guesses = np.array([1e9, 1e6, 1e6 + 5e3, 1e7, 5e8, 0.0])[:, None, None]
    part = predictive(prior, units, tables, label, structural, [0], guesses)
    terms = []
    for value in guesses[:, 0, 0]:
        total, n = counts[1:].sum(), 12
        A, B = 0.5 + total, 5e-7 + n
        terms.append(float(exact_counts.log_negative_binomial(value, A, B, 1.0)))
    sums = logsumexp(part.log_sums(slice(0, 1), np.zeros((H, 1))), axis=0)[:, 0] - np.log(H)
    assert (label == 0).all() and (tables.n[:, 0] == 13).all()
    assert np.isfinite(sums).all()
    weights = np.stack([by_hand.log_class_weights(np.array([12, 0]), a) for a in draws.alpha])
    empty = [float(exact_counts.log_negative_binomial(v, 0.5, 5e-7, 1.0)) for v in guesses[:, 0, 0]]
    mass = np.logaddexp(weights[:, :1] + terms, weights[:, 1:] + empty)  # shape (H, G)
    expected = logsumexp(mass - mass[:, :1], axis=0) - np.log(H)
    assert sums == pytest.approx(expected, rel=1e-10, abs=1e-9)


# --- masses ------------------------------------------------------------------------------------


def test_masses_of_small_counts():
    for x in (0.0, 1.0, 2.0, 7.0, 40.0):
        for A, B, e in ((0.5, 0.01, 1.0), (3.5, 2.0, 0.3), (100.5, 7.0, 2.0)):
            found = negative_binomial(x, A, B, e)
            assert found == pytest.approx(by_hand.log_gamma_poisson(x, A, B, e), abs=1e-11)


def test_masses_of_huge_counts():
    """Relative error below 1e-12 of log masses, absolute near the mode; lgamma is off by 0.05."""
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(150):
        A, B, e = 10 ** rng.uniform(-3, 13), 10 ** rng.uniform(-10, 6), 10 ** rng.uniform(-3, 4)
        near = np.floor(A * e / B * (1 + 0.01 * rng.normal()))
        x = near if rng.random() < 0.5 and near < 2**53 else np.floor(10 ** rng.uniform(0, 15))
        found = negative_binomial(x, A, B, e)
        exact = float(exact_counts.log_negative_binomial(x, A, B, e))
        worst = max(worst, abs(found - exact) / max(1.0, abs(exact)))
    assert worst < 1e-12
    x, A, B = 1e9, 1e13 + 0.5, 1e4
    exact = float(exact_counts.log_negative_binomial(x, A, B, 1.0))
    plain = float(by_hand.log_gamma_poisson(x, A, B, 1.0))
    found = negative_binomial(x, A, B, 1.0)
    assert abs(found - exact) < 1e-8 < 1e-4 < abs(plain - exact)


@pytest.mark.parametrize("x", [0.0, 1.0, 20.0, 1e5, 1e9])
@pytest.mark.parametrize("ratio", [1e-6, 0.5, 0.999, 1.0, 1.00001, 3.0])
def test_masses_at_known_rates(x, ratio):
    mean = max(x, 0.1) * ratio
    exact = float(exact_counts.log_poisson(x, mean))
    assert log_poisson(x, mean) == pytest.approx(exact, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("y", "total"), [(0, 0), (0, 9), (9, 9), (4, 9), (1e9, 2e9 + 7), (3, 1e9)])
def test_halves(y, total):
    exact = float(exact_counts.log_half(y, total))
    assert binomial_masses(float(y), float(total), 0.5) == pytest.approx(exact, rel=1e-13)
    if total < 10:
        plain = gammaln(total + 1) - gammaln(y + 1) - gammaln(total - y + 1) - total * np.log(2)
        assert exact == pytest.approx(plain, abs=1e-12)
