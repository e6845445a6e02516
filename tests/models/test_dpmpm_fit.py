"""The DPMPM: its declaration, its PyMC model against plain NumPy, its releases against Theta."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

import bayes_risk as br
from bayes_risk.models.mixture.columns import Columns, Mechanism
from bayes_risk.models.mixture.posterior import log_masses
from bayes_risk.models.mixture.pymc_mixture import pymc_of_mixture
from tests.helpers.fits import encoded
from tests.oracles.kernel_twins import codes_of, simulate
from tests.oracles.latent_classes import LEVELS, K, layout, rows_of, units_of

pytestmark = pytest.mark.filterwarnings("ignore::bayes_risk.TruncationWarning")
TABLE = simulate(60, LEVELS, 2, seed=41)
MODEL = br.models.DPMPM(n_classes=3, concentration_prior=(1.0, 1.0), level_prior=0.8)


@pytest.fixture(scope="module")
def fit():
    return MODEL.fit(TABLE, draws=300, tune=100, chains=2, thin=2, random_seed=1)


# --- the declaration and the fit -------------------------------------------------------------


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
    with pytest.warns(br.TruncationWarning, match="all `n_classes=2` classes are occupied"):
        fit = br.models.DPMPM(n_classes=2).fit(table, draws=50, tune=50, chains=2, random_seed=1)
    assert fit.diagnostics["truncation_binds"]
    fit = br.models.DPMPM(n_classes=25).fit(table, draws=50, tune=50, chains=2, random_seed=1)
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
    logp = pymc_of_mixture(
        data, Columns.of(levels=np.arange(len(data.columns))), prior, units, transformed=False
    ).compile_logp(mode="FAST_COMPILE")
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
        p = np.exp(log_masses(rows_of(rows), fit.draws, fit.prior)).reshape(4, -1, len(rows))
        batches = p.reshape(4, 10, -1, len(rows)).mean(axis=2).reshape(40, len(rows))
        means.append(batches.mean(axis=0))
        errors.append(batches.std(axis=0, ddof=1) / np.sqrt(40))
    z = (means[0] - means[1]) / np.hypot(*errors)
    assert np.abs(z).max() < 4


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
    """p(Z_i | y_i, Theta): cells of 200 releases of the records with the commonest profile."""
    y = codes_of(TABLE)
    others = [j for j in range(3) if j not in columns]
    profile, where = np.unique(y, axis=0, return_inverse=True)
    target = np.bincount(where).argmax()
    names = [TABLE.columns[j] for j in columns]
    cells = np.array(list(itertools.product(*(range(LEVELS[j]) for j in columns))))
    # with other seeds the draws chosen differ, so expectations are summed over the draws in use
    observed, expected = np.zeros(len(cells)), np.zeros(len(cells))
    for seed in range(4):
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"m": 0}, "m=0"),
        ({"m": 601}, "m=601 exceeds the 300 draws of a chain"),
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
        found = fit.log_release(encoded(fit, release))
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
    how = Mechanism.of(encoded(fit, release), fit.columns, prior)[1]
    assert how.conditional.tolist() == [False, True, False] and how.linked is None
    units = how.units()
    assert units.multiplicity.sum() == 60
    assert units.given.rows.multiplicity.sum() == 30 == units.given.parts.multiplicity.sum()
    less = how.units(left_out=1)
    assert less.multiplicity.sum() == 59 and less.unit[1] == -1
    assert less.given.rows.multiplicity.sum() == 30 and less.given.parts.multiplicity.sum() == 29
