"""Evidence of releases of Poisson mixtures: closed form, brute force, refits, totals, errors."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from tests.helpers.against import agree, each, gaps
from tests.helpers.fits import evidence_of, offered
from tests.oracles import count_classes as by_hand

pytestmark = [pytest.mark.check, pytest.mark.filterwarnings("ignore::bayes_risk.TruncationWarning")]
PRIOR = (1.5, 0.2)


def frame(counts, exposure=None):
    table = pd.DataFrame(np.asarray(counts), columns=[f"x{j}" for j in range(len(counts[0]))])
    return table if exposure is None else table.assign(size=exposure)


# --- one class: negative binomials -------------------------------------------------------------


def closed_form(y, exposure, z, i, guess, *, own):
    """Log evidence of one data set, one class: sums without the target, with and without Z."""
    e, others = exposure, np.arange(len(y)) != i
    out = 0.0
    for j in range(y.shape[1]):
        A, B = PRIOR[0] + y[others, j].sum(), PRIOR[1] + e[others].sum()
        out -= by_hand.log_gamma_poisson(guess[j], A, B, e[i])
        if not own:
            A, B = A + z[:, j].sum(), B + e.sum()
            out += by_hand.log_gamma_poisson(guess[j], A, B, e[i])
        else:
            A, B = A + z[others, j].sum(), B + e[others].sum()
            out += by_hand.log_gamma_poisson(guess[j], A, B, e[i])
            out += by_hand.log_gamma_poisson(z[i, j], A + guess[j], B + e[i], e[i])
    return out


@pytest.mark.parametrize(
    ("m", "classes", "exposed"),
    [(1, "new", False), (1, "own", False), (3, "new", True), (3, "own", True)],
)
def test_one_class_is_the_closed_form(m, classes, exposed):
    rng, n = np.random.default_rng(4), 5
    e = rng.choice([0.5, 1.0, 3.0], n) if exposed else np.ones(n)
    y = rng.poisson(e[:, None] * [20.0, 3.0], (n, 2))
    model = br.models.PoissonMixture(1, rate_prior=PRIOR, exposure="size" if exposed else None)
    table = frame(y, e if exposed else None)
    fit = model.fit(table, draws=20, tune=10, chains=2, random_seed=1)
    release = fit.synthesize(m, classes=classes, random_seed=2)
    grid = br.Grid(additive=3, n=5)
    risk = br.attribute_risk(fit, release, guesses=grid, random_seed=3)
    zs = [z[["x0", "x1"]].to_numpy() for z in release.datasets]

    def exact(i, guess):
        return sum(closed_form(y, e, z, i, guess, own=classes == "own") for z in zs)

    gap, error = gaps(risk, each(exact))
    assert np.abs(gap).max() < 1e-8 and error.max() < 1e-6


def test_one_class_of_huge_counts():
    """Counts of 1e9: the closed form in sixty digits."""
    from tests.oracles import exact_counts

    y = np.random.default_rng(1).poisson(1e9, (40, 1))
    fit = br.models.PoissonMixture(1).fit(frame(y), draws=10, tune=10, chains=2, random_seed=1)
    release = fit.synthesize(1, random_seed=2)
    values = [int(y[0, 0]) + d for d in (0, 1, 1000, 100_000, 100_000_000, -500_000_000)]
    guesses = br.Grid(values=values)
    risk = br.attribute_risk(fit, release, guesses=guesses, targets=[0], random_seed=3)
    shape, rate = fit.prior.shape[0], fit.prior.rate[0]
    total, z = int(y[1:].sum()), int(release.datasets[0].to_numpy().sum())

    def exact(x):
        with_z = exact_counts.log_negative_binomial(x, shape + total + z, rate + 79, 1)
        return with_z - exact_counts.log_negative_binomial(x, shape + total, rate + 39, 1)

    for (value,), (found, _) in evidence_of(risk, 0).items():
        expected = float(exact(int(value)) - exact(values[0]))
        assert np.isfinite(found)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-6)


# --- brute force -------------------------------------------------------------------------------

Y = np.array([[0, 9], [1, 8], [6, 2]])
Z = [np.array([[5, 3], [0, 7], [1, 9]]), np.array([[0, 0], [7, 1], [0, 11]])]
GUESSES = {"x0": br.Grid(values=[0, 1, 3, 6]), "x1": br.Grid(values=[2, 8, 9])}


def fitted(**options):
    model = br.models.PoissonMixture(2, concentration_prior=(1.5, 1.0), rate_prior=PRIOR, **options)
    return model.fit(frame(Y), draws=1000, tune=300, chains=4, thin=8, random_seed=5)


@pytest.fixture(scope="module")
def plain():
    return fitted()


@pytest.fixture(scope="module")
def with_zeros():
    return fitted(zeros=(1.0, 1.5))


def given_release(synthesized=("x0", "x1"), **options):
    tables = [frame(z)[list(synthesized)] for z in Z]
    return br.Release(datasets=tables, synthesized=synthesized, **options)


def compare(fit, release, own, columns=None, **options):
    guesses = {c: GUESSES[c] for c in release.synthesized}
    risk = br.attribute_risk(fit, release, guesses=guesses, random_seed=7, **options)
    places = [int(c[1]) for c in release.synthesized]

    def exact(i, guess):
        row = Y[i].copy()
        row[places] = guess
        of = by_hand.exact_log_evidence
        return sum(of(fit.prior, Y, z, i, row, own=own, columns=columns) for z in Z)

    _, error = agree(risk, each(exact), 1e-3)
    assert error.max() < 0.3


@pytest.mark.parametrize("evidence", ["predictive", "refit"])
def test_fresh_classes_by_enumeration(plain, evidence):
    compare(plain, given_release(), False, evidence=evidence)


def test_own_classes_by_enumeration(plain):
    compare(plain, given_release(classes="own"), True)


def test_own_classes_some_columns_by_enumeration(plain):
    compare(plain, given_release(classes="own", synthesized=["x0"]), True, columns=[0])


@pytest.mark.parametrize("evidence", ["predictive", "refit"])
def test_structural_zeros_by_enumeration(with_zeros, evidence):
    compare(with_zeros, given_release(), False, evidence=evidence)


@pytest.mark.parametrize("synthesized", [("x0", "x1"), ("x1",)])
def test_own_classes_with_structural_zeros_by_enumeration(with_zeros, synthesized):
    release = given_release(classes="own", synthesized=list(synthesized))
    columns = [int(c[1]) for c in synthesized]
    compare(with_zeros, release, True, columns=None if len(columns) == 2 else columns)


# --- fresh classes given what stays ------------------------------------------------------------

REGION = np.array([0, 1, 0])
ALPHA = np.array([0.5, 1.0, 0.25])
KEPT = {
    "a count": ({}, ["x0"], {}),
    "a count, structural zeros": ({"zeros": (1.0, 1.5)}, ["x0"], {}),
    "a covariate": ({"covariates": ["region"]}, ["x0", "x1"], {}),
    "a covariate and a count": ({"covariates": ["region"]}, ["x1"], {}),
    "a covariate, weights": ({"covariates": ["region"]}, ["x0", "x1"], {"weights": ALPHA}),
    "a covariate and a count, weights": (
        {"covariates": ["region"]},
        ["x1"],
        {"weights": ALPHA},
    ),
}


# the same together, below
ALONE = ("a count", "a covariate", "a covariate, weights", "a covariate and a count")


@pytest.mark.parametrize(
    "name", [pytest.param(k, marks=pytest.mark.slow) if k in ALONE else k for k in KEPT]
)
@pytest.mark.parametrize("evidence", ["predictive", pytest.param("refit", marks=pytest.mark.slow)])
def test_fresh_classes_given_what_stays(name, evidence):
    """Against draws of Theta from the prior, which know no sampler."""
    declared, synthesized, how = KEPT[name]
    fit = given_what_stays(name)
    tables = [dressed(z)[synthesized] for z in Z]
    release = br.Release(datasets=tables, synthesized=synthesized)
    guesses = {c: GUESSES[c] for c in synthesized}
    risk = br.attribute_risk(fit, release, guesses=guesses, random_seed=7, evidence=evidence)
    places = [int(c[1]) for c in synthesized]
    prior, rng = fit.prior, np.random.default_rng(1)
    levels = [[prior.starts[0] + r] if declared.get("covariates") else [] for r in REGION]
    shown = []
    for z in Z:
        shown.append(Y.copy())
        shown[-1][:, places] = z[:, places]
    for i in range(3):
        found = evidence_of(risk, i)
        truth = tuple(float(v) for v in Y[i][places])
        order = [truth, *(guess for guess in found if guess != truth)]
        exact, noise = by_hand.monte_carlo_log_evidence(
            prior, Y, levels, shown, i, order, places, powers=how.get("weights"),
            draws=400_000, rng=rng,
        )  # fmt: skip
        for g, guess in enumerate(order):
            value, error = found[guess]
            gap = abs(value - exact[:, g].sum())
            assert gap < 4 * np.sqrt(error**2 + (noise[:, g] ** 2).sum() + 1e-6), (i, guess)
            assert error < 0.3 and noise[:, g].max() < 0.1


def dressed(counts):
    return frame(counts).assign(region=np.array(list("ab"))[REGION])


@cache
def given_what_stays(name):
    declared, _, how = KEPT[name]
    table = dressed(Y) if declared.get("covariates") else frame(Y)
    model = br.models.PoissonMixture(
        2, concentration_prior=(1.5, 1.0), rate_prior=PRIOR, **declared
    )
    return model.fit(table, draws=1000, tune=300, chains=4, thin=8, random_seed=5, **how)


# --- the other ways ----------------------------------------------------------------------------


def planted(n=6, seed=3):
    rng = np.random.default_rng(seed)
    k = rng.choice(2, n, p=[0.7, 0.3])
    return frame(rng.poisson(np.array([[4.0, 20.0], [30.0, 5.0]])[k]))


@pytest.fixture(scope="module")
def easy():
    table = planted()
    return br.models.PoissonMixture(3).fit(table, draws=600, tune=200, chains=4, random_seed=1)


@pytest.mark.parametrize("classes", ["new", "own"])
def test_predictive_is_refit(easy, classes):
    release = easy.synthesize(2, classes=classes, random_seed=2)
    options = {"guesses": br.Grid(additive=6, n=7), "targets": [0, 2, 5], "random_seed": 3}
    predictive = br.attribute_risk(easy, release, **options)
    refit = br.attribute_risk(easy, release, evidence="refit", **options)
    scale = np.hypot(predictive.mcse_log_evidence, refit.mcse_log_evidence)
    gap = predictive.log_evidence.sum(axis=0) - refit.log_evidence.sum(axis=0)
    z = gap / np.hypot(scale, 1e-3)
    assert np.sqrt((z**2).mean()) < 2 and np.abs(z).max() < 5


@pytest.fixture(scope="module")
def three():
    model = br.models.PoissonMixture(1, rate_prior=(2.0, 0.1))
    y = np.array([[12, 30], [15, 20], [18, 26]])
    return model.fit(frame(y), draws=2000, tune=100, chains=2, thin=1, random_seed=1)


@pytest.mark.parametrize("classes", ["new", "own"])
def test_reuse_in_an_easy_case(three, classes):
    """Three rows make a release of which every draw can be the parent."""
    fit = three
    release = fit.synthesize(1, classes=classes, random_seed=2)
    options = {"guesses": br.Grid(additive=4, n=5), "random_seed": 3}
    exact = br.attribute_risk(fit, release, **options)
    reuse = br.attribute_risk(fit, release, evidence="importance", **options)
    gap = exact.log_evidence[0] - reuse.log_evidence[0]
    assert (np.abs(gap) < 4 * np.hypot(reuse.mcse_log_evidence, 2e-3)).all()
    assert reuse.mcse_log_evidence.max() < 0.1


# --- totals ------------------------------------------------------------------------------------


@cache
def keeping_totals(kind, quantile):
    model = br.models.PoissonMixture(3, kind=kind, quantile=quantile)
    return model.fit(planted(40), draws=50, tune=50, chains=2, random_seed=1)


@pytest.mark.parametrize(("kind", "quantile"), [("MM", None), ("TCMM", 0.8)])
def test_totals_give_the_target_away(kind, quantile):
    fit = keeping_totals(kind, quantile)
    release = fit.synthesize(2, random_seed=2)
    assert offered(fit, release) == {"exact"}
    risk = br.attribute_risk(fit, release, guesses=br.Grid(additive=2, n=5), random_seed=3)
    total = risk.log_evidence.sum(axis=0)
    truth = np.arange(len(total))[:, None] == risk.truth
    assert (total[truth] == 0).all()
    assert np.isneginf(total[~truth & np.isfinite(risk.log_prior)]).all()
    assert risk.certain().to_numpy().all()
    assert (risk.records["probability"] == 1).all() and (risk.records["reliable"]).all()


def test_a_stand_in_for_the_truth_moves_the_total():
    fit = keeping_totals("MM", None)
    release = fit.synthesize(1, random_seed=2)
    guesses = br.Grid(values=[1001, 2001], truth="nearest")
    with pytest.raises(br.InputError, match="no guess can have given the release"):
        br.attribute_risk(fit, release, guesses=guesses)


# --- errors ------------------------------------------------------------------------------------


def test_totals_that_contradict():
    fit, wrong = keeping_totals("MM", None), planted(40)
    wrong.loc[0, "x1"] += 1
    release = br.Release(datasets=[wrong], synthesized=["x0", "x1"], classes="own")
    with pytest.raises(br.InputError, match="column 'x1' of release 1 does not add up") as caught:
        br.attribute_risk(fit, release, guesses=br.Grid(additive=2, n=5))
    assert str(int(planted(40)["x1"].sum())) not in str(caught.value)  # it is confidential


@pytest.mark.parametrize("value", [-1.0, 2.5])
def test_released_values_that_are_no_counts(plain, value):
    table = frame(Z[0]).astype(float)
    table.loc[1, "x0"] = value
    release = br.Release(datasets=[table], synthesized=["x0", "x1"])
    with pytest.raises(br.InputError, match="column 'x0' of release 1 holds"):
        br.attribute_risk(plain, release, guesses=GUESSES)
