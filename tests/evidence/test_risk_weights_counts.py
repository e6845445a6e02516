"""Record weights of Poisson mixtures: closed form, enumeration, limits, named errors."""

import itertools
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from scipy.special import gammaln, logsumexp

import bayes_risk as br
from bayes_risk.data.record_weights import SurveyWeights
from bayes_risk.models.mixture.families import cumulated_masses, log_number_density, log_tables
from bayes_risk.models.mixture.masses import count_constants, stirling_error
from bayes_risk.models.mixture.pymc_mixture import pymc_of_mixture
from bayes_risk.models.mixture.state import Prior, Rows
from tests.helpers.against import agree, each, gaps
from tests.oracles.exact_counts import log_gamma
from tests.oracles.label_sums import log_label_prior

Y = np.array([[0, 3], [4, 1], [9, 2]])
E = np.array([1.0, 2.0, 0.5])
ALPHA = np.array([0.75, 2.125, 0.125])  # survey weights of mean 1
Z = (np.array([[1, 2], [3, 2], [0, 1]]), np.array([[7, 1], [2, 2], [5, 5]]))
CONCENTRATION, RATES = (0.5, 0.5), (1.5, 0.5)
GUESSES = {"a": br.Grid(values=[0, 4, 9]), "b": br.Grid(values=[1, 2, 3])}


def table(counts, exposure=E):
    return pd.DataFrame({"a": counts[:, 0], "b": counts[:, 1], "e": exposure})


def fitted(K, weights, draws=600, **options):
    how = {"concentration_prior": CONCENTRATION, "rate_prior": RATES, "exposure": "e"}
    settings = {"draws": draws, "tune": 200, "chains": 4, "thin": 5, "random_seed": 5} | options
    model = br.models.PoissonMixture(n_classes=K, **how)
    weights = None if weights is None else SurveyWeights(weights)
    if K == 1:
        return model.fit(table(Y), weights=weights, **settings)
    with pytest.warns(br.TruncationWarning):
        return model.fit(table(Y), weights=weights, **settings)


RELEASE = br.Release(datasets=[table(z) for z in Z], synthesized=["a", "b"])


def audit(fit, release=RELEASE, **options):
    return br.attribute_risk(fit, release, guesses=GUESSES, random_seed=7, **options)


def log_pseudo_marginal(rows, exposure, powers, K):
    """log of the integral of p(Theta) prod_i sum_k [pi_k f_k(y_i)]^alpha_i, label by label."""
    labelings = np.array(list(itertools.product(range(K), repeat=len(rows))))
    n = np.stack([(labelings == k) @ powers for k in range(K)], axis=1)
    log_p = log_label_prior(n, *CONCENTRATION) if K > 1 else np.zeros(1)
    a, b = RATES
    for j, k in itertools.product(range(rows.shape[1]), range(K)):
        A = a + (labelings == k) @ (powers * rows[:, j])
        B = b + (labelings == k) @ (powers * exposure)
        log_p = log_p + gammaln(A) - A * np.log(B) - gammaln(a) + a * np.log(b)
    return logsumexp(log_p) - powers @ gammaln(rows + 1.0).sum(axis=1)


def exact_of(alpha, K):
    """Log evidence of a guess, summed over releases."""

    def exact(i, guess):
        y = Y.copy()
        y[i] = guess
        alone = log_pseudo_marginal(y, E, alpha, K)
        both, powers = np.tile(E, 2), np.append(alpha, np.ones(3))
        return sum(log_pseudo_marginal(np.vstack([y, z]), both, powers, K) - alone for z in Z)

    return each(exact)


def test_one_class_is_exact():
    """Gamma-Poisson with powers and exposures: every draw gives the same, so there is no error."""
    risk = audit(fitted(1, ALPHA, draws=10))
    gap, _ = gaps(risk, exact_of(ALPHA, 1))
    assert np.abs(gap).max() < 1e-9
    assert np.abs(gaps(risk, exact_of(np.ones(3), 1), [0, 2])[0]).max() > 1


@pytest.fixture(scope="module")
def two_classes():
    return fitted(2, ALPHA)


@pytest.mark.parametrize("evidence", ["predictive", "refit", "importance"])
def test_two_classes_against_enumeration(two_classes, evidence):
    risk = audit(two_classes, evidence=evidence)
    gap, error = agree(risk, exact_of(ALPHA, 2), 1e-3)
    if evidence == "predictive":
        assert error.max() < 0.2
        assert np.abs(gaps(risk, exact_of(np.ones(3), 2))[0] - gap).max() > 10 * error.max()


def constants_of(x, w):
    out = np.empty((1, 2))
    count_constants(np.array([x]), w, out)
    return out[0]


@pytest.mark.parametrize(
    ("x", "w"), [(0.0, 0.3), (1.0, 0.02), (7.0, 0.5), (40.0, 0.9), (0.0, 2.5), (9.0, 7.0)]
)
def test_powers_of_poissons_by_quadrature(x, w):
    e, A, B = 1.5, 2.5, 0.75
    constants = constants_of(x, w)
    of = np.array([A, B, stirling_error(A), 0.0, 0.0])
    found = log_number_density(x, e, of, False, False, w, constants)
    exact = integrate.quad(
        lambda r: stats.poisson.pmf(x, e * r) ** w * stats.gamma.pdf(r, A, scale=1 / B),
        0,
        np.inf,
        epsabs=0,
        limit=400,
    )[0]
    np.testing.assert_allclose(found, np.log(exact), rtol=1e-7)


@pytest.mark.parametrize("x", [1.0, 14.0, 1e4, 1e9, 1e15])
@pytest.mark.parametrize("w", [2.0**-30, 0.02, 0.5, 0.98, 1.5, 40.0])
def test_constants_of_powers_at_sixty_digits(x, w):
    v, u = Decimal(x), Decimal(w)
    exact = log_gamma(u * v + 1) - u * log_gamma(v + 1) - u * v * u.ln()
    np.testing.assert_allclose(constants_of(x, w)[0], float(exact), rtol=1e-9, atol=1e-13)
    assert constants_of(x, 1.0)[0] == 0.0


def test_labels_of_large_counts_keep_their_classes():
    """Masses of 2e10 that differ by ones, tempered: against sixty digits."""
    x, w, ones = np.array([1e9, 3.0]), 0.02, np.ones((1, 2))
    phi = np.array([[1e9, 1.0001e9, 0.99e9], [3.0, 2.0, 5.0], *np.zeros((2, 3)), np.ones(3)])
    pi, out = np.array([0.2, 0.5, 0.3]), np.empty(3)
    layout = Prior(
        n_classes=3,
        concentration=CONCENTRATION,
        level=1.0,
        starts=np.array([4]),
        shape=np.ones(2),
        rate=np.ones(2),
    ).layout
    data = Rows(np.empty((1, 0), np.int32), x[None], ones, np.empty((1, 0)))
    cumulated_masses(data, np.array([w]), 0, phi, layout, log_tables(pi, phi, layout), out)
    out = np.diff(out, prepend=0.0)
    logs = [
        Decimal(pi[k]).ln()
        + sum(Decimal(x[j]) * Decimal(phi[j, k]).ln() for j in range(2))
        - Decimal(phi[:2, k].sum())
        for k in range(3)
    ]
    exact = np.array([float((Decimal(w) * (v - max(logs))).exp()) for v in logs])
    np.testing.assert_allclose(out / out.sum(), exact / exact.sum(), rtol=1e-9)
    assert exact[1] > 0.1


def test_pymc_model_has_the_pseudo_likelihood():
    fit = fitted(1, ALPHA, draws=8)
    args, units = (fit.microdata, fit.columns, fit.prior), fit.posterior.units
    models = [
        pymc_of_mixture(*args, u, transformed=False) for u in (units, replace(units, power=None))
    ]
    point = {"alpha": np.array(0.8), "rates": np.array([[2.0, 1.5]])}
    logps = [m.compile_logp(mode="FAST_COMPILE")(point) for m in models]
    log_f = stats.poisson.logpmf(Y, E[:, None] * point["rates"]).sum(axis=1)
    np.testing.assert_allclose(logps[0] - logps[1], (ALPHA - 1) @ log_f, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_all_weights_one_change_nothing():
    plain, ones = fitted(2, None, draws=20), fitted(2, np.ones(3), draws=20)
    assert ones.weights is None
    np.testing.assert_array_equal(plain.draws.phi, ones.draws.phi)
    np.testing.assert_array_equal(audit(plain).log_evidence, audit(ones).log_evidence)


@pytest.mark.parametrize("K", [1, 2])
def test_a_record_of_tiny_weight_leaves_no_trace(K):
    alpha = np.array([1.0, 1.0, 1e-7])
    fit = fitted(K, alpha, draws=60)
    risk = audit(fit)
    worth = np.abs(risk.log_evidence.sum(axis=0)).max(axis=0)[risk.case]
    assert worth[2] < 1e-4 < 0.1 < worth[:2].min()
    assert "weights from" in risk.assumptions["synthesis"]


@pytest.mark.check
def test_it_goes_round_the_loop():
    rng = np.random.default_rng(1)
    df = pd.DataFrame({"a": rng.poisson(5, 8), "b": rng.poisson(3, 8)})
    df.loc[0, "a"] = 60
    guesses = {"a": br.Grid(values=range(0, 101, 20), truth="add")}
    result = br.reweight(
        br.models.PoissonMixture(n_classes=1),
        df,
        until=0.5,
        rounds=4,
        random_seed=4,
        fit={"draws": 40, "tune": 20, "chains": 2},
        synthesis={"m": 20},
        audit={"guesses": guesses, "intruder": br.Intruder(knows_columns=["b"])},
    )
    table = result.records
    assert len(result.rounds) > 1 and table["weight"].idxmin() == table["before"].idxmax() == 0
    assert table.loc[0, "after"] < table.loc[0, "before"]


# --- errors --------------------------------------------------------------------------------------

COUNTS = table(Y).drop(columns="e")
GIVE = "give DPMPM, Regression, CART"
BAD = {
    "MM": (br.models.PoissonMixture(kind="MM"), COUNTS, "of MM takes no record weights"),
    "TCMM": (br.models.PoissonMixture(kind="TCMM", quantile=0.9), COUNTS, f"totals.*{GIVE}"),
    "zeros": (
        br.models.PoissonMixture(zeros=(1.0, 1.0)),
        COUNTS,
        "with zeros: .* leave one of them out",
    ),
    "PMM": (br.models.PMM(["a"], identifying=["b"]), COUNTS, f"PMM takes no record w.*{GIVE}"),
    "Forest": (br.models.Forest(["a"]), COUNTS, f"Forest takes no record weights.*{GIVE}"),
}


@pytest.mark.parametrize("case", BAD)
def test_models_without_weights_say_so(case):
    model, df, message = BAD[case]
    with pytest.raises(br.InputError, match=message):
        model.fit(df, weights=SurveyWeights(ALPHA))


def test_what_is_not_offered_with_weights_is_refused():
    fit = fitted(1, ALPHA, draws=8)
    with pytest.raises(br.InputError, match="leave its trace"):
        fit.synthesize(m=1, classes="own")
    with pytest.raises(br.InputError, match="leave its trace"):
        audit(fit, replace(RELEASE, classes="own"))
    for who in (
        br.Intruder(knows_records="none", knows_columns=["b"]),
        br.Intruder(knows_records="second-largest", largest="a"),
    ):
        guesses = {"a": GUESSES["a"]}
        with pytest.raises(br.InputError, match="not offered for a fit with record weights"):
            br.attribute_risk(fit, RELEASE, guesses=guesses, intruder=who)
    with pytest.raises(br.InputError, match="one weight a record"):
        br.models.PoissonMixture().fit(COUNTS, weights=[0.5])


@pytest.mark.slow
def test_nuts_samples_the_same_pseudo_posterior():
    """One class: rates are Gamma(shape + sum of w x, rate + sum of w e)."""
    fit = fitted(1, ALPHA, draws=1000, tune=500, chains=2, sampler="nuts")
    a, b = RATES
    for j in range(2):
        exact = stats.gamma(a + ALPHA @ Y[:, j], scale=1 / (b + ALPHA @ E))
        u = exact.cdf(fit.draws.phi[:, j, 0])
        ess = fit.diagnostics["min_ess"]
        assert abs(u.mean() - 0.5) < 4 / np.sqrt(12 * ess)
        assert abs(u.var() - 1 / 12) < 4 * np.sqrt(1 / 180 / ess)
