"""Draws from elsewhere: the published estimator as its own package computes it, and by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

import bayes_risk as br
from bayes_risk._compat import draws_of_posterior
from tests.helpers.fits import offered

Regression = br.models.Regression
CLOSE = 1e-9
pytestmark = pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")


@pytest.fixture(scope="module")
def peer(shared_data):
    return shared_data / "peer_attribute"


def first_draws(path, H=50):
    return pd.read_csv(path).head(H).drop(columns="draw", errors="ignore")


def reuse(model, df, draws, files, names, grids, **options):
    fit = model.from_draws(df, draws)
    release = br.Release(datasets=files, synthesized=names)
    return br.attribute_risk(fit, release, guesses=grids, evidence="importance", **options)


def by_hand(log_release, log_guesses, log_truth):
    """p_g ~ prod_l sum_h p(Z_l|h) w_h(g) / sum_h w_h(g); shapes (m, H), (G, H), (H,)."""
    log_w = log_guesses - log_truth
    log_e = logsumexp(log_release[:, None] + log_w, axis=2) - logsumexp(log_w, axis=1)
    log_p = log_e.sum(axis=0)
    return np.exp(log_p - logsumexp(log_p))


def probabilities(risk, label):
    """By guess, in the order of the grid."""
    return np.exp(risk.log_probability[:, risk.case[risk.position(label)]])


# --- the package of the published estimator ---------------------------------------------------


def test_the_first_records_of_the_published_estimator(peer):
    """Reference: AttributeRiskCalculation 1.0.0, run with 50 draws on 20 records, 11 guesses."""
    orig, Z = pd.read_csv(peer / "orig.csv.gz"), pd.read_csv(peer / "syn1.csv.gz")
    model = Regression({"LogIncome": "1 + LogExpenditure"})
    draws = {"LogIncome": first_draws(peer / "draws_LogIncome.csv.gz")}
    expected = pd.read_csv(peer / "expected_m1_H50.csv")
    targets = (expected["record"].unique() - 1).tolist()
    grid = br.Grid(percent=10, n=11)
    risk = reuse(model, orig, draws, [Z], ["LogIncome"], grid, targets=targets)
    for record, rows in expected.groupby("record"):
        u = risk.case[risk.position(record - 1)]
        assert np.allclose(risk.guesses[:, u, 0], rows["guess"], rtol=1e-12)
        assert np.allclose(probabilities(risk, record - 1), rows["prob"], rtol=0, atol=CLOSE)


@pytest.mark.check
def test_five_releases(peer):
    orig = pd.read_csv(peer / "orig.csv.gz")
    files = [pd.read_csv(peer / f"syn{l}.csv.gz") for l in range(1, 6)]
    draws = first_draws(peer / "draws_LogIncome.csv.gz")
    model = Regression({"LogIncome": "1 + LogExpenditure"})
    grid = br.Grid(percent=10, n=11)
    targets = [0, 7, 2000]
    risk = reuse(model, orig, {"LogIncome": draws}, files, ["LogIncome"], grid, targets=targets)
    a, b, sigma = draws.to_numpy().T
    mean = a + np.outer(orig["LogExpenditure"], b)  # shape (n, H)
    log_z = np.stack([stats.norm.logpdf(Z[["LogIncome"]], mean, sigma).sum(axis=0) for Z in files])
    for i in targets:
        y = orig["LogIncome"][i]
        guesses = y * np.linspace(0.9, 1.1, 11)[:, None]
        log_g = stats.norm.logpdf(guesses, mean[i], sigma)
        exact = by_hand(log_z, log_g, stats.norm.logpdf(y, mean[i], sigma))
        assert np.allclose(probabilities(risk, i), exact, rtol=0, atol=CLOSE)


def test_two_normals_on_a_joint_grid(peer):
    orig, Z = pd.read_csv(peer / "orig.csv.gz"), pd.read_csv(peer / "two_norm_syn1.csv.gz")
    names = ["LogExpenditure", "LogIncome"]
    draws = {c: first_draws(peer / f"two_norm_posterior_{c}.csv.gz") for c in names}
    model = Regression({"LogExpenditure": "1", "LogIncome": "1 + LogExpenditure"})
    grid = br.Grid(percent=10, n=11)
    risk = reuse(model, orig[names], draws, [Z], names, grid, targets=[3, 11])
    m, s = draws["LogExpenditure"].to_numpy().T
    a, b, sigma = draws["LogIncome"].to_numpy().T

    def log_p(x, y):
        """Of rows (R,), shape (R, H)."""
        log_x = stats.norm.logpdf(x[:, None], m, s)
        return log_x + stats.norm.logpdf(y[:, None], a + np.outer(x, b), sigma)

    log_z = log_p(*Z[names].to_numpy().T).sum(axis=0)[None]
    step = np.linspace(0.9, 1.1, 11)
    for i in (3, 11):
        x, y = orig.loc[i, names]
        gx, gy = (g.ravel() for g in np.meshgrid(x * step, y * step, indexing="ij"))
        exact = by_hand(log_z, log_p(gx, gy), log_p(np.array([x]), np.array([y]))[0])
        assert np.allclose(probabilities(risk, i), exact, rtol=0, atol=CLOSE)


def test_counts(peer):
    orig, Z = pd.read_csv(peer / "glm_orig.csv.gz"), pd.read_csv(peer / "pois_syn1.csv.gz")
    draws = first_draws(peer / "pois_posterior.csv.gz")
    model = Regression({"KidsCount": "1 + LogIncome"}, {"KidsCount": "poisson"})
    risk = reuse(
        model, orig, {"KidsCount": draws}, [Z], ["KidsCount"], br.Grid(bounds=(0, 10), n=11)
    )
    a, b = draws.to_numpy().T
    mu = np.exp(a + np.outer(orig["LogIncome"], b))
    log_z = stats.poisson.logpmf(Z[["KidsCount"]], mu).sum(axis=0)[None]
    for i in range(0, 500, 25):
        log_g = stats.poisson.logpmf(np.arange(11)[:, None], mu[i])
        exact = by_hand(log_z, log_g, log_g[orig["KidsCount"][i]])
        assert np.allclose(probabilities(risk, i), exact, rtol=0, atol=CLOSE)


def test_two_levels(peer):
    orig, Z = pd.read_csv(peer / "glm_orig.csv.gz"), pd.read_csv(peer / "binom_syn1.csv.gz")
    draws = first_draws(peer / "binom_posterior.csv.gz")
    model = Regression({"UR": "1 + LogIncome"}, {"UR": "bernoulli"})
    risk = reuse(model, orig, {"UR": draws}, [Z], ["UR"], {})
    a, b = draws.to_numpy().T
    p = 1 / (1 + np.exp(-(a + np.outer(orig["LogIncome"], b))))
    log_z = stats.bernoulli.logpmf(Z[["UR"]], p).sum(axis=0)[None]
    for i in range(0, 500, 25):
        log_g = np.log([1 - p[i], p[i]])
        exact = by_hand(log_z, log_g, log_g[orig["UR"][i]])
        assert np.allclose(probabilities(risk, i), exact, rtol=0, atol=CLOSE)


# --- predictors anywhere in the formula, nominal outcomes -------------------------------------

N, H = 40, 60


@pytest.fixture(scope="module")
def survey():
    """A number, a nominal variable given it, and a covariate; the same, synthetic."""
    rng = np.random.default_rng(3)

    def draw():
        age, x = rng.uniform(20, 60, N), rng.normal(10, 1, N)
        return pd.DataFrame(
            {"age": age, "x": x, "job": np.array(["a", "b", "c"])[np.arange(N) % 3]}
        )

    df, Z = draw(), draw()
    return df, Z.assign(age=df["age"]), rng


def nominal_draws(rng):
    """Of job ~ 1 + x: level "a" is the reference."""
    names = [f"{c}[{k}]" for k in "bc" for c in ("Intercept", "x")]
    return pd.DataFrame(0.3 * rng.standard_normal((H, 4)) * [1, 0.1, 1, 0.1], columns=names)


def log_softmax(draws, x, k):
    """log p(job = k | x) of rows (R,), shape (R, H)."""
    eta = np.stack(
        [np.zeros((len(x), H))]
        + [
            draws[f"Intercept[{c}]"].to_numpy() + np.outer(x, draws[f"x[{c}]"].to_numpy())
            for c in "bc"
        ]
    )
    return np.take_along_axis(eta - logsumexp(eta, axis=0), k[None, :, None], axis=0)[0]


def test_nominal_outcomes_depend_on_their_predictors(survey):
    df, Z, rng = survey
    draws = nominal_draws(rng)
    risk = reuse(
        Regression({"job": "1 + x"}), df, {"job": draws}, [Z.assign(x=df["x"])], ["job"], {}
    )
    codes = {c: "abc".index(c) for c in "abc"}
    log_z = log_softmax(draws, df["x"], Z["job"].map(codes).to_numpy()).sum(axis=0)[None]
    for i in (0, 1, 2, 30):
        x = np.repeat(df["x"][i], 3)
        log_g = log_softmax(draws, x, np.arange(3))
        exact = by_hand(log_z, log_g, log_g[codes[df["job"][i]]])
        assert np.allclose(probabilities(risk, i), exact, rtol=0, atol=CLOSE)
    other = df.assign(x=df["x"].to_numpy()[::-1])
    again = reuse(
        Regression({"job": "1 + x"}), other, {"job": draws}, [Z.assign(x=other["x"])], ["job"], {}
    )
    assert not np.allclose(risk.log_probability, again.log_probability)


@pytest.mark.parametrize(
    ("formula", "names"),
    [
        ("1 + x + age + C(job)", ["Intercept", "C(job)[T.b]", "C(job)[T.c]", "x", "age"]),
        ("1 + age + np.log(x) + I(x**2)", ["Intercept", "age", "np.log(x)", "I(x ** 2)"]),
    ],
)
def test_a_synthesised_predictor_first_last_or_inside_a_function(survey, formula, names):
    df, Z, rng = survey
    df = df.assign(y=df["x"] + rng.standard_normal(N))
    Z = Z.assign(y=Z["x"] + rng.standard_normal(N), job=df["job"])
    model = Regression({"x": "1", "y": formula})
    found = names_of(model, df)
    beta = pd.DataFrame(0.05 * rng.standard_normal((H, len(found))), columns=found)
    draws = {
        "x": pd.DataFrame({"Intercept": rng.normal(10, 0.2, H), "sigma": rng.uniform(0.8, 1.2, H)}),
        "y": beta.assign(sigma=rng.uniform(0.8, 2, H)),
    }
    grids = {"x": br.Grid(additive=1, n=5), "y": br.Grid(additive=1, n=3)}
    risk = reuse(model, df, draws, [Z], ["x", "y"], grids, targets=[0, 1, 5])

    def log_p(t):
        """Of rows of a table, shape (R, H)."""
        x = t["x"].to_numpy(dtype=float)
        by_name = {
            "Intercept": np.ones(len(t)),
            "x": x,
            "age": t["age"].to_numpy(),
            "C(job)[T.b]": (t["job"] == "b").to_numpy(dtype=float),
            "C(job)[T.c]": (t["job"] == "c").to_numpy(dtype=float),
            "np.log(x)": np.log(np.maximum(x, 1e-9)),
            "I(x ** 2)": x**2,
        }
        X = np.column_stack([by_name[n.replace("I(x**2)", "I(x ** 2)")] for n in found])
        log_y = stats.norm.logpdf(t[["y"]], X @ beta.to_numpy().T, draws["y"]["sigma"].to_numpy())
        return log_y + stats.norm.logpdf(
            t[["x"]], draws["x"]["Intercept"].to_numpy(), draws["x"]["sigma"].to_numpy()
        )

    assert len(found) == len(names)
    log_z = log_p(Z).sum(axis=0)[None]
    for i in (0, 1, 5):
        u = risk.case[risk.position(i)]
        rows = pd.DataFrame([df.loc[i]] * risk.n_guesses).assign(
            x=risk.guesses[:, u, 0], y=risk.guesses[:, u, 1]
        )
        exact = by_hand(log_z, log_p(rows), log_p(df.loc[[i]])[0])
        assert np.allclose(probabilities(risk, i), exact, rtol=0, atol=CLOSE)


def names_of(model, df):
    """Names of the coefficients of y as the formula prints them."""
    fit = model.fit(df, draws=4, chains=1, random_seed=1)
    return [k.removeprefix("y: ") for k in fit.idata.posterior if k[:3] == "y: "][:-1]


# --- numbers of draws -------------------------------------------------------------------------


@pytest.mark.parametrize("H", [2, 7, 26, 53])
def test_any_number_of_draws(H):
    """More draws than records, fewer, primes: the draws are what they are."""
    rng = np.random.default_rng(H)
    df = pd.DataFrame({"y": rng.standard_normal(12)})
    Z = pd.DataFrame({"y": rng.standard_normal(12)})
    draws = pd.DataFrame({"Intercept": rng.normal(0, 0.3, H), "sigma": rng.uniform(0.8, 1.3, H)})
    grid = br.Grid(additive=1, n=5)
    risk = reuse(Regression({"y": "1"}), df, {"y": draws}, [Z], ["y"], grid)
    a, sigma = draws.to_numpy().T
    log_z = stats.norm.logpdf(Z, a, sigma).sum(axis=0)[None]
    for i in range(12):
        guesses = df["y"][i] + np.linspace(-1, 1, 5)[:, None]
        log_g = stats.norm.logpdf(guesses, a, sigma)
        exact = by_hand(log_z, log_g, log_g[2])
        assert np.allclose(probabilities(risk, i), exact, rtol=0, atol=CLOSE)
    assert np.isfinite(risk.mcse).all()


# --- the ways in which draws may come ---------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    """A model, its table and fit, a release, and a way to audit it with that fit's audit."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal(30)
    df = pd.DataFrame({"x": x, "a": x + rng.standard_normal(30), "b": rng.standard_normal(30)})
    model = Regression({"a": "1 + x", "b": "1 + a + x"})
    fit = model.fit(df, draws=40, chains=3, random_seed=1)
    release = br.Release(datasets=fit.synthesize(2, random_seed=2).datasets, synthesized=["a", "b"])
    grids = {"a": br.Grid(additive=1, n=3), "b": br.Grid(additive=1, n=3)}

    def audit(fit):
        return br.attribute_risk(fit, release, guesses=grids, evidence="importance")

    return model, df, fit, release, (audit, audit(fit))


def frames(fit):
    """The posterior as one table a variable."""
    posterior = fit.idata.posterior
    return {
        name: pd.DataFrame(
            {
                str(k).removeprefix(f"{name}: "): posterior[k].to_numpy().ravel()
                for k in posterior
                if str(k).startswith(f"{name}: ")
            }
        )
        for name in ("a", "b")
    }


def test_the_idata_of_a_fit_comes_back(fitted):
    model, df, fit, release, (audit, a) = fitted
    again = model.from_draws(df, fit.idata)
    assert again.diagnostics["chains"] == 3 and again.diagnostics["draws"] == 40
    assert offered(again, release) == {"importance"}
    b = audit(again)
    assert np.array_equal(a.log_evidence, b.log_evidence) and np.array_equal(a.mcse, b.mcse)


@pytest.mark.parametrize("how", ["plain", "brms", "arviz", "other columns too"])
def test_draws_come_as_tables_too(fitted, how):
    model, df, fit, _, (audit, a) = fitted
    tables = frames(fit)
    if how == "brms":
        tables = {
            k: t.rename(columns=lambda c: c if c == "sigma" else f"b_{c}")
            for k, t in tables.items()
        }
    elif how == "arviz":
        tables = {
            k: draws_of_posterior({c: t[c].to_numpy().reshape(3, 40) for c in t})
            for k, t in tables.items()
        }
    elif how == "other columns too":
        tables = {k: t.assign(lp__=1.0, chain=1) for k, t in tables.items()}
    again = model.from_draws(df, tables)
    b = audit(again)
    assert np.allclose(a.log_probability, b.log_probability, rtol=0, atol=1e-12)


def test_brought_draws_synthesise(fitted):
    model, df, fit, _, _ = fitted
    again = model.from_draws(df, fit.idata)
    a, b = fit.synthesize(2, random_seed=5), again.synthesize(2, random_seed=5)
    for x, y in zip(a.datasets, b.datasets, strict=True):
        pd.testing.assert_frame_equal(x, y)


def test_levels_of_whole_numbers_are_named_as_such():
    """C(z)[T.2], although a number is a float to the formula."""
    df = pd.DataFrame({"z": [1, 2, 3, 2], "y": [0.1, 0.2, 0.5, 0.3]})
    names = ["Intercept", "C(z)[T.2]", "b_C(z)[T.3.0]", "sigma"]
    draws = pd.DataFrame(np.full((4, 4), 0.5), columns=names)
    fit = Regression({"y": "1 + C(z)"}).from_draws(df, {"y": draws})
    assert fit.posterior.parts[0].draws.beta.shape == (4, 3)
