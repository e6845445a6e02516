"""The DPMPM: its PyMC model and kernels against plain NumPy, its releases against Theta."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

import bayes_risk as br
from bayes_risk.guesses import GuessSet
from bayes_risk.models.dpmpm_pymc import build
from bayes_risk.models.latent_class import class_masses, draw_levels, draw_sticks
from bayes_risk.models.latent_kernels import class_weights
from bayes_risk.models.latent_posterior import Mechanism, predictive_of
from bayes_risk.models.latent_predictive import Tables, collapse, log_masses
from bayes_risk.models.latent_sampler import Draws, Prior, units_of
from bayes_risk.synthesizer import Targets
from tests.twins import (
    codes_of,
    collapsed,
    label_probabilities,
    simulate,
    stick_weights,
)

pytestmark = pytest.mark.filterwarnings("ignore::bayes_risk.TruncationWarning")
LEVELS = (3, 2, 4)
TABLE = simulate(60, LEVELS, 2, seed=41)
MODEL = br.models.DPMPM(n_classes=3, concentration_prior=(1.0, 1.0), level_prior=0.8)


@pytest.fixture(scope="module")
def fit():
    return MODEL.fit(TABLE, draws=300, tune=100, thin=2, random_seed=1)


def layout(n_classes, levels=LEVELS, level=0.8, concentration=(1.0, 1.0)):
    starts = np.concatenate([[0], np.cumsum(levels)]).astype(np.int64)
    return Prior(n_classes=n_classes, concentration=concentration, level=level, starts=starts)


# --- the declaration and the fit -------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_classes": 0}, "n_classes=0"),
        ({"level_prior": -1.0}, "level_prior=-1.0"),
        ({"concentration_prior": (0.25, 0.0)}, "concentration_prior=0.0"),
        ({"concentration_prior": (0.25,)}, "give shape and rate"),
    ],
)
def test_declarations_out_of_range(options, message):
    with pytest.raises(br.InputError, match=message):
        br.models.DPMPM(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 3}, "draws=3"),
        ({"tune": -1}, "tune=-1"),
        ({"chains": 0}, "chains=0"),
        ({"sampler": "hmc"}, "sampler='hmc'"),
    ],
)
def test_fits_out_of_range(options, message):
    with pytest.raises(br.InputError, match=message):
        MODEL.fit(TABLE, **options)


def test_groups_and_variables_of_idata(fit):
    posterior = fit.idata["posterior"]
    assert set(posterior.data_vars) == {
        "alpha",
        "stick",
        "weights",
        *(f"levels_{c}" for c in TABLE),
    }
    assert posterior["stick"].shape == (2, 300, 2)
    assert posterior["weights"].dims == ("chain", "draw", "class")
    for name, d in zip(TABLE, LEVELS, strict=True):
        assert posterior[f"levels_{name}"].shape == (2, 300, 3, d)
        assert np.allclose(posterior[f"levels_{name}"].sum(axis=-1), 1)
        assert list(posterior[f"level_{name}"].values) == list(TABLE[name].cat.categories)
    assert np.allclose(posterior["weights"].sum(axis=-1), 1)
    assert fit.idata["sample_stats"]["n_occupied"].shape == (2, 300)
    diagnosed = fit.idata["log_predictive"]
    assert set(diagnosed.data_vars) == {"ess", "rhat"}
    assert (diagnosed["ess"] > 1).all() and (diagnosed["rhat"] < 1.5).all()


def test_diagnostics_are_those_of_log_predictives(fit):
    d, diagnosed = fit.diagnostics, fit.idata["log_predictive"]
    assert d["min_ess"] == diagnosed["ess"].min() and d["max_rhat"] == diagnosed["rhat"].max()
    assert d["profiles_diagnosed"] == len(TABLE.drop_duplicates())
    occupied = fit.idata["sample_stats"]["n_occupied"].to_numpy()
    assert d["n_occupied_mean"] == occupied.mean()
    assert "60 records, 3 variables" in repr(fit) and len(repr(fit).splitlines()) <= 3


def test_truncation_warns_when_it_binds_and_not_otherwise():
    table = simulate(150, (4, 4, 4, 4), 6, seed=42, sharpness=0.1)
    with pytest.warns(br.TruncationWarning, match="all n_classes=2 classes are occupied"):
        fit = br.models.DPMPM(n_classes=2).fit(table, draws=50, tune=50, random_seed=1)
    assert fit.diagnostics["truncation_binds"]
    fit = br.models.DPMPM(n_classes=25).fit(table, draws=50, tune=50, random_seed=1)
    assert not fit.diagnostics["truncation_binds"]


# --- the PyMC model --------------------------------------------------------------------------


def log_joint(y, alpha, stick, levels, *, shape, rate, level):
    """log p(alpha) p(stick | alpha) p(levels) p(y | .), written out."""
    total = (
        stats.gamma(shape, scale=1 / rate).logpdf(alpha) + stats.beta(1, alpha).logpdf(stick).sum()
    )
    for phi in levels:
        total += sum(stats.dirichlet(np.full(len(row), level)).logpdf(row) for row in phi)
    rest = np.concatenate([[1.0], np.cumprod(1 - stick)])
    pi = np.concatenate([stick, [1.0]]) * rest
    mass = np.log(pi) + sum(np.log(phi[:, y[:, j]]).T for j, phi in enumerate(levels))
    return total + logsumexp(mass, axis=1).sum()


def test_log_density_of_the_model_equals_numpy():
    rng = np.random.default_rng(3)
    data, prior = br.Microdata.from_frame(TABLE), layout(3)
    units = units_of(data.codes + prior.starts[:-1].astype(np.int32))
    logp = build(data, prior, units, transformed=False).compile_logp(mode="FAST_COMPILE")
    for _ in range(3):
        alpha, stick = rng.gamma(2.0), rng.beta(1, 2, size=2)
        levels = [rng.dirichlet(np.ones(d), 3) for d in LEVELS]
        point = {"alpha": alpha, "stick": stick}
        point |= {f"levels_{c}": phi for c, phi in zip(TABLE, levels, strict=True)}
        by_hand = log_joint(data.codes, alpha, stick, levels, shape=1.0, rate=1.0, level=0.8)
        assert np.isclose(logp(point), by_hand, rtol=1e-12)


@pytest.mark.slow
def test_nuts_agrees_with_the_sweep():
    """Log predictives of every profile, by two samplers of the same PyMC model."""
    table = simulate(25, (2, 3), 2, seed=43)
    model = br.models.DPMPM(n_classes=2, concentration_prior=(2.0, 2.0))
    settings = {"draws": 1500, "tune": 1000, "chains": 4, "random_seed": 1}
    rows = np.array(list(itertools.product(range(2), range(2, 5))), dtype=np.int32)
    means, errors = [], []
    for options in ({"sampler": "nuts"}, {"thin": 5}):
        fit = model.fit(table, **settings, **options)
        p = np.exp(log_masses(rows, fit.posterior.draws)).reshape(4, -1, len(rows))
        batches = p.reshape(4, 10, -1, len(rows)).mean(axis=2).reshape(40, len(rows))
        means.append(batches.mean(axis=0))
        errors.append(batches.std(axis=0, ddof=1) / np.sqrt(40))
    z = (means[0] - means[1]) / np.hypot(*errors)
    assert np.abs(z).max() < 4


# --- the sampler's kernels -------------------------------------------------------------------


def random_theta(rng, K, levels=LEVELS):
    pi = rng.dirichlet(np.ones(K))
    phi = [[rng.dirichlet(np.ones(d)) for d in levels] for _ in range(K)]
    rows = np.ones((sum(levels) + 1, K))
    for k in range(K):
        rows[:-1, k] = np.concatenate(phi[k])
    return pi, phi, rows


@pytest.mark.parametrize("levels", [LEVELS, (2,) * 40])
def test_class_masses_are_label_probabilities(levels):
    rng = np.random.default_rng(4)
    pi, phi, rows = random_theta(rng, 5, levels)
    begin = layout(5, levels).starts[:-1]
    y = rng.integers(0, np.array(levels), (20, len(levels)))
    expected = label_probabilities(y, pi, phi)
    for i, row in enumerate(y):
        masses = np.empty(5)
        class_masses((row + begin).astype(np.int32), pi, rows, masses)
        assert np.allclose(masses / masses.sum(), expected[i], rtol=1e-10)


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
    M = rng.integers(0, 6, (prior.width, 2))
    draws = []
    for _ in range(20_000):
        phi = np.ones((prior.width, 2))
        draw_levels(rng, M, prior.starts, 0.8, phi)
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
    draws = _draws_of(pi[None], rows[None])
    found = log_masses((y + prior.starts[:-1]).astype(np.int32), draws)[0]
    for i, row in enumerate(y):
        by_class = [
            np.log(pi[k]) + sum(np.log(phi[k][j][c]) for j, c in enumerate(row)) for k in range(2)
        ]
        assert np.isclose(found[i], logsumexp(by_class), rtol=1e-10)


def _draws_of(pi, phi):
    H, K = pi.shape
    return Draws(
        alpha=np.full(H, 0.7),
        log_left=np.zeros((H, K - 1)),
        pi=pi,
        phi=phi,
        n_occupied=np.zeros(H, np.int64),
        n_chains=1,
    )


# --- the collapsed predictive against counting again -------------------------------------------

K, A = 3, 0.8
N = 12


def tables_by_hand(rng, units, prior, *, fixed, integrate=True, labels=None):
    """Labels at random, counts by hand: what `collapse` makes of one draw."""
    labels = rng.integers(K, size=len(units)) if labels is None else np.array(labels)
    M = np.zeros((prior.width, K))
    for unit, k in zip(units, labels, strict=True):
        for j, c in unit:
            M[prior.starts[j] + c, k] += 1
    pi, phi, rows = random_theta(rng, K)
    Q, tau = np.ones((1, prior.width, K)), np.empty((1, len(LEVELS), K))
    for j, (begin, end) in enumerate(itertools.pairwise(prior.starts)):
        tau[0, j] = M[begin:end].sum(axis=0) + LEVELS[j] * A
        Q[0, begin:end] = rows[begin:end] if fixed[j] else (M[begin:end] + A) / tau[0, j]
    tables = Tables(
        Q=Q,
        tau=tau,
        n=np.bincount(labels[:N], minlength=K)[None],
        alpha=np.array([0.7]),
        pi=None if integrate else pi[None],
        label=labels[None, :N].astype(np.int16),
        fixed=np.array(fixed),
    )
    return tables, labels, pi, phi


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


def predictions(tables, prior, targets, *, linked=None, given=None):
    """log p(y_i) and p(y*) / p(y_i) of one draw, shapes (U,) and (G, U)."""
    predictive = predictive_of(
        tables,
        prior,
        targets,
        unit=np.arange(N),
        linked=linked,
        given=np.zeros(3, dtype=bool) if given is None else given,
        n_chains=1,
    )
    predictive.batch[:] = 0
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
    log_truth, ratios = predictions(tables, prior, targets)
    settings = {"K": K, "levels": LEVELS, "a": A, "alpha": 0.7}
    everything = [*units, *map(pairs, Z)]
    for i in range(N):
        truth = collapsed(everything, labels, i, units[i], **settings)
        assert np.isclose(log_truth[i], np.log(truth), rtol=1e-10)
        for g in range(24):
            guess = pairs(targets.guesses.codes[g, i])
            p = collapsed(everything, labels, i, guess, **settings)
            assert np.isclose(ratios[g, i], p / truth, rtol=1e-10)


def test_an_empty_class_and_a_vanishing_concentration():
    """1 + alpha + n_{>=k} was 0 for a target taken out of a class that nobody is in."""
    rng, prior = np.random.default_rng(13), layout(K)
    y = rng.integers(0, LEVELS, (N, 3))
    units = [pairs(r) for r in y]
    tables, labels, _, _ = tables_by_hand(rng, units, prior, fixed=[False] * 3, labels=[0] * N)
    tables.alpha[:] = 1e-20
    log_truth, _ = predictions(tables, prior, targets_of(y, [0, 1, 2]))
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
    log_truth, ratios = predictions(tables, prior, targets, linked=linked)
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
    log_truth, ratios = predictions(tables, prior, targets, given=given)

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
    tables = Tables(
        Q=rows[None],
        tau=np.ones((1, 3, K)),
        n=np.zeros((1, K), np.int64),
        alpha=np.ones(1),
        pi=pi[None],
        label=np.zeros((1, 1), np.int16),
        fixed=np.ones(3, dtype=bool),
    )
    targets = targets_of(y, [0, 1, 2])
    predictive = predictive_of(
        tables,
        prior,
        targets,
        unit=np.full(N, -1),
        linked=None,
        given=np.zeros(3, dtype=bool),
        n_chains=1,
    )
    for i, row in enumerate(y):
        p = sum(pi[k] * np.prod([phi[k][j][c] for j, c in enumerate(row)]) for k in range(K))
        assert np.isclose(predictive.log_truth(slice(0, N))[0, i], np.log(p), rtol=1e-10)


def test_collapse_counts_the_labels_that_it_draws():
    """All records distinct, so every label is known and the counts can be made again."""
    cells = np.array(list(itertools.product(range(3), range(2), range(4))), dtype=np.int32)
    prior = layout(K)
    rng = np.random.default_rng(12)
    units = units_of(cells + prior.starts[:-1].astype(np.int32))
    thetas = [random_theta(rng, K) for _ in range(400)]
    draws = _draws_of(np.stack([t[0] for t in thetas]), np.stack([t[2] for t in thetas]))
    free = np.zeros(3, dtype=bool)
    tables = collapse(prior, units, draws, fixed=free, integrate_weights=True, rng=rng)
    expected, observed = np.zeros(K), np.zeros(K)
    for h, (pi, phi, _) in enumerate(thetas):
        label = tables.label[h]
        assert (np.bincount(label, minlength=K) == tables.n[h]).all()
        for j, (begin, end) in enumerate(itertools.pairwise(prior.starts)):
            counts = tables.Q[h, begin:end] * tables.tau[h, j] - prior.level
            for c in range(end - begin):
                mine = np.bincount(label[cells[:, j] == c], minlength=K)
                assert np.allclose(counts[c], mine, atol=1e-9)
        p = label_probabilities(cells, pi, phi)
        expected += p.sum(axis=0)
        observed += tables.n[h]
    error = np.sqrt(expected * (1 - expected / expected.sum()))  # an upper bound
    assert (np.abs(observed - expected) < 4 * error).all()


# --- synthesis -------------------------------------------------------------------------------


def chi_squared(observed, expected):
    """p-value; cells expected fewer than five times are put together."""
    order = np.argsort(expected)
    small = expected[order].cumsum() < 5
    groups = np.where(small, 0, np.arange(len(order)))
    e = np.bincount(groups, expected[order])
    o = np.bincount(groups, observed[order])
    e, o = e[e > 0], o[e > 0]
    return stats.chi2.sf(((o - e) ** 2 / e).sum(), len(e) - 1)


FOUR_ERRORS = 2 * stats.norm.sf(4)


def mixture(pi, phi, cells, columns):
    """Probability of each cell class by class, shape (cells, K)."""
    return pi * np.prod(
        [[[p[j][c] for p in phi] for j, c in zip(columns, cell, strict=True)] for cell in cells],
        axis=1,
    )


def theta_of(fit, h):
    draws, starts = fit.posterior.draws, fit.posterior.prior.starts
    phi = [[draws.phi[h, b:e, k] for b, e in itertools.pairwise(starts)] for k in range(K)]
    return draws.pi[h], phi


@pytest.mark.parametrize("classes", ["new", "own"])
@pytest.mark.parametrize("columns", [[0, 1, 2], [0, 2], [1]])
def test_releases_follow_the_density_given_theta(fit, classes, columns):
    """p(Z_i | y_i, Theta): cells of 400 releases of the records with the commonest profile."""
    y = codes_of(TABLE)
    others = [j for j in range(3) if j not in columns]
    profile, where = np.unique(y, axis=0, return_inverse=True)
    target = np.bincount(where).argmax()
    names = [TABLE.columns[j] for j in columns]
    cells = np.array(list(itertools.product(*(range(LEVELS[j]) for j in columns))))
    # with other seeds the draws chosen differ, so expectations are summed over the draws in use
    observed, expected = np.zeros(len(cells)), np.zeros(len(cells))
    for seed in range(8):
        release = fit.synthesize(50, names, classes=classes, random_seed=seed)
        for h, Z in zip(release.draw_index, release.datasets, strict=True):
            pi, phi = theta_of(fit, h)
            by_class = mixture(pi, phi, cells, columns)
            known = list(range(3)) if classes == "own" else others
            weight = (
                pi * np.prod([[p[j][profile[target, j]] for p in phi] for j in known], axis=0)
                if known
                else pi
            )
            p = (by_class / pi) @ (weight / weight.sum())
            drawn = codes_of(Z)[where == target][:, columns]
            assert (codes_of(Z)[:, others] == y[:, others]).all()
            expected += p * len(drawn)
            observed += (drawn[:, None] == cells[None]).all(axis=2).sum(axis=0)
    assert np.isclose(expected.sum(), observed.sum())
    assert chi_squared(observed, expected) > FOUR_ERRORS


def test_only_the_records_named_are_replaced(fit):
    mask = np.arange(60) < 20
    for records in (mask, list(range(20))):
        release = fit.synthesize(3, ["x2"], records, random_seed=2)
        assert (release.records == mask).all()
        for Z in release.datasets:
            pd.testing.assert_frame_equal(Z[["x0", "x1"]], TABLE[["x0", "x1"]])
            pd.testing.assert_frame_equal(Z[~mask], TABLE[~mask])
            assert (Z["x2"] != TABLE["x2"]).any()
    assert fit.synthesize(1, random_seed=2).records is None


def test_releases_are_stored_as_the_original():
    table = TABLE.assign(x0=TABLE["x0"].astype(str), x1=TABLE["x1"] == "l1")
    table.index = [f"r{i}" for i in range(60)]
    fit = MODEL.fit(table, draws=4, tune=10, random_seed=1)
    Z = fit.synthesize(1, random_seed=2).datasets[0]
    assert (Z.dtypes == table.dtypes).all() and Z.index.equals(table.index)
    assert list(Z.columns) == list(table.columns)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"m": 0}, "m=0"),
        ({"m": 601}, "m=601 exceeds the 600 draws"),
        ({"columns": ["x9"]}, "names column 'x9'"),
        ({"columns": ["x0", "x0"]}, "more than once"),
        ({"classes": "old"}, "classes='old'"),
        ({"records": [3, 77]}, "records names 77"),
        ({"records": np.ones(5, dtype=bool)}, "records has 5 entries"),
        ({"records": np.zeros(60, dtype=bool)}, "selects no record"),
        ({"columns": []}, "names no column"),
    ],
)
def test_synthesis_out_of_range(fit, options, message):
    with pytest.raises(br.InputError, match=message):
        fit.synthesize(**options)


def test_each_release_comes_from_a_draw_of_its_own(fit):
    release = fit.synthesize(20, random_seed=2)
    assert len(set(release.draw_index)) == 20


def test_log_release_is_the_density_of_what_was_drawn(fit):
    y = codes_of(TABLE)
    for classes, columns in itertools.product(("new", "own"), ([0, 1, 2], [0, 2])):
        release = fit.synthesize(
            2,
            [TABLE.columns[j] for j in columns],
            np.arange(60) % 2 > 0,
            classes=classes,
            random_seed=3,
        )
        found = fit.log_release(release)
        others = [0, 1, 2] if classes == "own" else [j for j in range(3) if j not in columns]
        for l, Z in enumerate(release.datasets):
            z, total = codes_of(Z), 0.0
            pi, phi = theta_of(fit, 17)
            for i in range(1, 60, 2):
                known = pi * np.prod([[p[j][y[i, j]] for p in phi] for j in others], axis=0)
                joint = known * np.prod([[p[j][z[i, j]] for p in phi] for j in columns], axis=0)
                total += np.log(joint.sum() / known.sum())
            assert np.isclose(found[l, 17], total, rtol=1e-10)


def test_what_the_sampler_sees_of_a_release(fit):
    release = fit.synthesize(2, ["x0", "x2"], np.arange(60) % 2 > 0, random_seed=3)
    prior = fit.posterior.prior
    how = Mechanism.of(release, 1, fit.microdata, prior)
    assert how.conditional.tolist() == [False, True, False] and how.linked is None
    units = how.units(prior.width - 1)
    assert units.multiplicity.sum() == 60
    assert units.given.multiplicity.sum() == 30 == units.given.us_multiplicity.sum()
    less = how.units(prior.width - 1, left_out=1)
    assert less.multiplicity.sum() == 59 and less.unit[1] == -1
    assert less.given.multiplicity.sum() == 30 and less.given.us_multiplicity.sum() == 29
