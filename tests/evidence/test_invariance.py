"""What must not matter does not: order, labels, workers. What must matter does: the seed."""

from dataclasses import fields
from functools import cache

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk._compat import group_names
from tests.oracles.kernel_twins import simulate

pytestmark = pytest.mark.filterwarnings(
    "ignore::bayes_risk.TruncationWarning", "ignore::bayes_risk.UnreliableWeightsWarning"
)
TABLE = simulate(50, (3, 2, 4), 2, seed=21)


def released(table, fit, m=2, **options):
    return fit.synthesize(m, random_seed=2, **options).datasets


def fitted(table, n_classes, draws=4, chains=2, seed=1, **options):
    model = br.models.DPMPM(n_classes=n_classes)
    return model.fit(table, draws=draws, tune=100, thin=1, chains=chains, random_seed=seed)


def audit(table, datasets, n_classes, draws=4, chains=2, seed=3):
    fit = fitted(table, n_classes, draws, chains)
    release = br.Release(datasets=datasets, synthesized=list(table))
    return br.attribute_risk(fit, release, random_seed=seed)


def relabelled(table):
    """Levels in reverse order, with other names."""
    out = {}
    for name in table:
        old = list(table[name].cat.categories)
        out[name] = table[name].cat.reorder_categories(old[::-1]).cat.rename_categories(str.upper)
    return pd.DataFrame(out)


ORDER = np.random.default_rng(5).permutation(len(TABLE))
CHANGES = {
    "records": lambda t, Z: (t.iloc[ORDER], [z.iloc[ORDER] for z in Z]),
    "records of a release": lambda t, Z: (t.rename_axis("id"), [z.iloc[ORDER] for z in Z]),
    "columns": lambda t, Z: (t[["x2", "x0", "x1"]], [z[["x1", "x2", "x0"]] for z in Z]),
    "releases": lambda t, Z: (t, Z[::-1]),
    "levels": lambda t, Z: (relabelled(t), [relabelled(z) for z in Z]),
}


@cache
def unchanged(n_classes, m=2, **options):
    """Releases of the table, and their audit before anything changes."""
    Z = released(TABLE, fitted(TABLE, n_classes), m)
    return Z, audit(TABLE, Z, n_classes, **options)


@pytest.mark.parametrize("change", CHANGES)
def test_exactly_with_one_class(change):
    Z, first = unchanged(1, 3)
    second = audit(*CHANGES[change](TABLE, Z), 1)
    before, after = first.records, second.records.loc[first.records.index]
    if change == "releases":  # the evidence by release is permuted, and no more
        assert np.allclose(first.log_evidence, second.log_evidence[::-1], atol=1e-9)
    assert np.allclose(before["probability"], after["probability"], rtol=1e-9)
    assert (before["rank"] == after["rank"]).all()
    assert np.allclose(before["prior"], after["prior"])


@pytest.mark.check
@pytest.mark.parametrize("change", CHANGES)
def test_up_to_monte_carlo_error_with_several(change):
    size = {"draws": 150, "chains": 8}
    Z, before = unchanged(3, **size)
    after = audit(*CHANGES[change](TABLE, Z), 3, **size, seed=4)
    one, other = before.summary().loc["mean_probability"], after.summary().loc["mean_probability"]
    assert abs(one["value"] - other["value"]) < 4 * np.hypot(one["mcse"], other["mcse"])
    one, other = before.records, after.records.loc[before.index]
    z = (one["probability"] - other["probability"]) / np.hypot(one["mcse"], other["mcse"])
    assert np.sqrt((z**2).mean()) < 2  # all records at once; about 1 if the errors are right


def same_bytes(one, other):
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype and a.tobytes() == b.tobytes(), field.name
        elif isinstance(a, pd.Index):
            assert a.equals(b), field.name
    assert one.seed_entropy == other.seed_entropy and one.assumptions == other.assumptions


def same_idata(one, other):
    assert group_names(one) == group_names(other)
    for group in group_names(one):
        for name in one[group].data_vars:
            a, b = one[group][name].to_numpy(), other[group][name].to_numpy()
            if not name.endswith("time"):
                assert a.tobytes() == b.tobytes(), (group, name)


def test_same_seed_same_bytes_for_one_and_two_workers():
    """A fit in two processes, releases from it, an audit in two threads."""
    model = br.models.DPMPM(n_classes=3)
    options = {"draws": 60, "tune": 30, "chains": 2, "thin": 2, "random_seed": 1}
    one, two = (model.fit(TABLE, **options, n_jobs=n_jobs) for n_jobs in (1, 2))
    same_idata(one.idata, two.idata)
    releases = [fit.synthesize(3, random_seed=2) for fit in (one, two)]
    assert releases[0].draw_index == releases[1].draw_index
    for a, b in zip(releases[0].datasets, releases[1].datasets, strict=True):
        pd.testing.assert_frame_equal(a, b)
    risks = [
        br.attribute_risk(fit, release, random_seed=3, n_jobs=n_jobs)
        for fit, release, n_jobs in zip((one, two), releases, (1, 2), strict=True)
    ]
    same_bytes(*risks)


@cache
def short_fit():
    return fitted(TABLE, 3, draws=40)


@pytest.mark.parametrize("classes", ["new", "own"])
@pytest.mark.parametrize("columns", [None, ["x0", "x2"]])
@pytest.mark.parametrize("evidence", ["predictive", "refit", "importance"])
def test_same_seed_same_bytes_for_every_way(evidence, columns, classes):
    """Also with doubled chains, refits over budget, and targets drawn at random."""
    fit = short_fit()
    release = fit.synthesize(2, columns, classes=classes, random_seed=2)
    options = {"targets": 8, "target_mcse": 0.05, "max_doublings": 1, "refit_budget": 2}
    risks = [
        br.attribute_risk(fit, release, evidence=evidence, random_seed=3, n_jobs=n_jobs, **options)
        for n_jobs in (1, 2)
    ]
    same_bytes(*risks)


def test_different_seeds_differ():
    one, two = fitted(TABLE, 3, seed=1), fitted(TABLE, 3, seed=2)
    assert not np.array_equal(one.posterior.draws.pi, two.posterior.draws.pi)
    Z = [one.synthesize(1, random_seed=seed).datasets[0] for seed in (1, 2)]
    assert not Z[0].equals(Z[1])
    release = one.synthesize(2, random_seed=2)
    risks = [br.attribute_risk(one, release, random_seed=seed) for seed in (1, 2)]
    assert not np.array_equal(risks[0].log_evidence, risks[1].log_evidence)


def test_generators_are_seeds_too():
    one, two = (fitted(TABLE, 2, seed=np.random.default_rng(9)) for _ in range(2))
    assert np.array_equal(one.posterior.draws.phi, two.posterior.draws.phi)


def test_chains_and_releases_differ_from_one_another():
    fit = short_fit()
    halves = fit.posterior.draws.chains()
    assert not np.array_equal(halves[0].pi, halves[1].pi)
    Z = fit.synthesize(2, random_seed=2).datasets
    assert not Z[0].equals(Z[1])


def test_nothing_given_is_changed():
    table = TABLE.copy()
    table["x1"] = table["x1"].astype(object)
    before = table.copy(deep=True)
    fit = fitted(table, 2, draws=20)
    release = fit.synthesize(2, ["x0", "x1"], random_seed=2)
    files = [z.copy(deep=True) for z in release.datasets]
    weights = np.arange(1.0, 5.0)
    br.attribute_risk(fit, release, prior=weights, random_seed=3)
    br.attribute_risk(fit, release, evidence="importance", random_seed=3)
    pd.testing.assert_frame_equal(table, before)
    for z, file in zip(release.datasets, files, strict=True):
        pd.testing.assert_frame_equal(z, file)
    assert (weights == np.arange(1.0, 5.0)).all()
