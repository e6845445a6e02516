"""Releases of any number of rows, none of which is a certain record's, against enumeration."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

import bayes_risk as br
from bayes_risk.app.run import run_study
from bayes_risk.app.study.study import read_study
from bayes_risk.data.rpart_file import SynthpopModels
from tests.evidence import test_modes
from tests.helpers.against import agree, each, gaps
from tests.models import test_rpart
from tests.oracles import count_classes, mixture_oracle, zeros_oracle
from tests.oracles.latent_oracle import exact_weaker
from tests.oracles.three_records import (
    CELLS,
    PRIOR,
    Y,
    fitted,
    log_evidence,
    memberships,
    table,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::bayes_risk.TruncationWarning", "ignore::bayes_risk.UnreliableWeightsWarning"
)
FEW = [np.array([[1, 1], [0, 1]]), np.array([[0, 0], [1, 0]])]
MANY = [
    np.array([[1, 1], [0, 1], [1, 1], [1, 0], [1, 1]]),
    np.array([[0, 0], [1, 0], [0, 0], [0, 1], [0, 0]]),
]
CLOSE = 1e-4
SIZES = pytest.mark.parametrize("released", [FEW, MANY], ids=["2 rows", "5 rows"])


def release_of(tables, **options):
    return br.Release(datasets=tables, synthesized=list(tables[0].columns), **options)


@pytest.fixture(scope="module")
def fit():
    return fitted(draws=1000, thin=5)


@SIZES
@pytest.mark.parametrize("evidence", ["predictive", "refit"])
@pytest.mark.parametrize("parameters", ["one-mode", "independent"])
def test_latent_classes_by_enumeration(fit, released, evidence, parameters):
    release = release_of([table(Z) for Z in released], parameters=parameters)
    how = {"guesses": br.Neighbourhood(2), "evidence": evidence, "random_seed": 7}
    risk = br.attribute_risk(fit, release, **how)
    size = len(released[0])
    assert f"m = 2 of {size} rows each, none of which is" in risk.assumptions["releases"]
    agree(risk, each(lambda i, guess: log_evidence(released, i, guess)), CLOSE)


@SIZES
def test_data_sets_from_one_draw_stand_below_one_another(fit, released):
    release = release_of([table(Z) for Z in released], parameters="shared")
    risk = br.attribute_risk(fit, release, guesses=br.Neighbourhood(2), random_seed=7)
    both = np.vstack(released)
    agree(risk, each(lambda i, guess: log_evidence([both], i, guess)), CLOSE)


@SIZES
def test_the_published_sampler_weighs_draws_by_whole_releases(fit, released):
    """Its own formula, sum_h q_h p(Z | theta_h), from the densities of the draws."""
    posterior = fit.posterior.draws
    pi, phi = posterior.pi, posterior.phi[:, :4].reshape(len(posterior), 2, 2, -1)

    def log_p(rows):
        rows = np.asarray(rows)
        return np.log(np.einsum("hk,hnk,hnk->hn", pi, phi[:, 0, rows[:, 0]], phi[:, 1, rows[:, 1]]))

    risk = br.attribute_risk(
        fit, release_of([table(released[0])]), guesses=br.Neighbourhood(2), evidence="importance",
        random_seed=7,
    )  # fmt: skip

    def formula(i, guess):
        log_q = log_p([guess])[:, 0] - log_p([Y[i]])[:, 0]
        return logsumexp(log_q + log_p(released[0]).sum(axis=1)) - logsumexp(log_q)

    gap, _ = gaps(risk, each(formula))
    assert np.abs(gap).max() < 1e-9


@SIZES
@pytest.mark.parametrize("known", [[0], []])
@pytest.mark.parametrize("m", [1, pytest.param(2, marks=pytest.mark.check)])
def test_who_knows_some_records(fit, released, known, m):
    """Of two data sets by one class, where imputing is no approximation."""
    if m == 2:
        fit = fitted(1, draws=3000, tune=100, thin=2)
    mask = np.isin(np.arange(3), known)
    risk = br.attribute_risk(
        fit, release_of([table(Z) for Z in released[:m]]), guesses=br.Neighbourhood(2),
        random_seed=7, intruder=br.Intruder(knows_records=mask if known else "none"),
        evidence="imputed" if m == 2 else None,
    )  # fmt: skip

    def exact(i, guess):
        others = [j for j in range(3) if j != i and j not in known]
        args = np.array(guess), others, 3 - m, (2, 2)
        return exact_weaker(Y, released[:m], i, *args, **PRIOR)

    agree(risk, each(exact), CLOSE)


def test_evidence_is_that_of_the_mode_that_another_number_of_rows_chooses():
    """Eight rows of a table of sixteen records."""
    z = pd.DataFrame(test_modes.CHOOSES, columns=test_modes.FILE.columns).astype(str)
    fit = test_modes.fitted(3, draws=400, tune=100, thin=2)
    release = release_of([z], parameters="one-mode")
    risk = br.attribute_risk(fit, release, targets=[0], prior="uniform", random_seed=3)
    test_modes.agrees_with_first(risk, test_modes.CHOOSES)


@pytest.mark.check
@SIZES
@pytest.mark.parametrize("m", [1, 2])
def test_membership_by_enumeration(fit, released, m):
    release = release_of([table(Z) for Z in released[:m]])
    found = br.membership(fit, release, others=table(CELLS), random_seed=7)
    z = (found.log_bayes_factor - memberships(released[:m])) / found.mcse
    assert (np.abs(z) < 4).all(), z
    assert found.mcse.max() < 0.05


# --- other families and models -------------------------------------------------------------------

COUNTS = np.array([[0, 9], [1, 8], [6, 2]])
MIXED = [(0, 1, -0.3), (1, 4, 1.2), (1, 0, 0.4)]
MIXED_PRIOR = (0.0, 0.5, 2.0, 1.0)


@pytest.mark.check
@pytest.mark.parametrize("Z", [[[5, 3], [0, 7]], [[5, 3], [0, 7], [1, 9], [6, 6], [0, 0]]])
def test_poisson_mixtures_by_enumeration(Z):
    y, z = (pd.DataFrame(np.array(rows), columns=["x0", "x1"]) for rows in (COUNTS, Z))
    model = br.models.PoissonMixture(2, concentration_prior=(1.5, 1.0), rate_prior=(1.5, 0.2))
    fit = model.fit(y, draws=1000, tune=300, chains=4, thin=8, random_seed=5)
    guesses = {"x0": br.Grid(values=[0, 1, 6]), "x1": br.Grid(values=[2, 8, 9])}
    risk = br.attribute_risk(fit, release_of([z]), guesses=guesses, random_seed=7)
    exact = count_classes.exact_log_evidence
    agree(risk, each(lambda i, guess: exact(fit.prior, COUNTS, Z, i, guess)), 1e-3)


@pytest.mark.check
@pytest.mark.parametrize("weights", [None, np.array([0.4, 1.0, 0.7])])
@pytest.mark.parametrize(
    "Z",
    [
        [(1, 2, 0.1), (0, 0, 0.9)],
        pytest.param([(1, 2, 0.1), (0, 0, 0.9), (1, 3, -0.6), (0, 1, 0.2)], marks=pytest.mark.slow),
    ],
)
def test_mixtures_by_enumeration(Z, weights):
    def frame(rows):
        whole = pd.DataFrame(rows, columns=["c", "x", "t"])
        return whole.astype({"c": int, "x": int, "t": float})

    model = br.models.Mixture(
        families={"c": "category", "x": "count", "t": "normal"}, n_classes=2,
        concentration_prior=(1.0, 1.0), level_prior=0.8, rate_prior=(1.0, 0.5),
        normal_prior=MIXED_PRIOR, scales={"t": (0.0, 1.0)},
    )  # fmt: skip
    fit = model.fit(
        frame(MIXED), levels={"c": [0, 1]}, releases=[frame(Z)], weights=weights, draws=1000,
        tune=200, chains=4, thin=3, random_seed=5,
    )  # fmt: skip
    guesses = {
        "c": br.Levels(), "x": br.Grid(values=[0, 4], truth="add"),
        "t": br.Grid(values=[-1.0, 2.0], truth="add"),
    }  # fmt: skip
    risk = br.attribute_risk(fit, release_of([frame(Z)]), guesses=guesses, random_seed=7)
    columns = [("category", 2, 0.8), ("count", 1.0, 0.5, None), ("normal", *MIXED_PRIOR)]

    def exact(i, guess):
        args = columns, 2, (1.0, 1.0)
        return mixture_oracle.log_evidence(MIXED, Z, i, guess, *args, weights=weights)

    agree(risk, each(exact), 1e-3)


@pytest.mark.check
@pytest.mark.parametrize("rows", [2, 5])
def test_what_is_impossible_normalises_as_many_rows_as_there_are(rows):
    y, Z = zeros_oracle.Y, zeros_oracle.CELLS[~zeros_oracle.ZERO][:rows]
    names = ["x0", "x1", "x2"]
    rules = [{"x0": ["b"], "x1": ["b"]}, {"x1": ["b"], "x2": ["b"]}]
    model = br.models.DPMPM(n_classes=1, level_prior=1.0, impossible=br.Impossible(rules))
    fit = model.fit(table(y, names), draws=2000, tune=200, chains=4, thin=2, random_seed=5)
    risk = br.attribute_risk(
        fit, release_of([table(Z, names)]), guesses=br.Neighbourhood(3), random_seed=7
    )
    f, weights = zeros_oracle.one_class(24)
    p = zeros_oracle.possible(f)

    def total(whole):
        return np.prod([p[:, zeros_oracle.cell(r)] for r in whole], axis=0)

    def exact(i, guess):
        if zeros_oracle.ZERO[zeros_oracle.cell(guess)]:
            return -np.inf
        whole = y.copy()
        whole[i] = guess
        before = weights * total(whole)
        return np.log((before * total(Z)).sum() / before.sum())

    agree(risk, each(exact), CLOSE)


@pytest.mark.parametrize("knows", ["all-but-target", "none"])
@pytest.mark.parametrize("rows", [2, 7])
def test_marginals_in_closed_form(rows, knows):
    rng = np.random.default_rng(2)
    y, Z = rng.integers(0, 2, (4, 2)), rng.integers(0, 2, (rows, 2))
    fit = br.models.Marginals().fit(table(y))
    risk = br.attribute_risk(
        fit, release_of([table(Z)]), guesses=br.Neighbourhood(2), random_seed=1,
        intruder=br.Intruder(knows_records=knows),
    )  # fmt: skip
    a = fit.model.level_prior

    def log_p(values):
        counts = a + np.bincount(values, minlength=2)
        return gammaln(counts).sum() - gammaln(counts.sum())

    def exact(i, guess):
        out, rest = 0.0, np.delete(y, i, axis=0) if knows == "all-but-target" else y[:0]
        for j in range(2):
            before = np.append(rest[:, j], int(guess[j]))
            out += log_p(np.append(before, Z[:, j])) - log_p(before)
        return out

    agree(risk, each(exact), 1e-9)


@pytest.mark.parametrize("rows", [2, 30])
@pytest.mark.parametrize("knows", ["all-but-target", "none"])
def test_a_normal_mean_in_closed_form(rows, knows):
    """The mean and variance by quadrature over the prior of the declaration."""
    rng = np.random.default_rng(3)
    y, Z = rng.normal(10, 2, 6), rng.normal(10.5, 2, rows)
    fit = br.models.Regression({"pay": "1"}).fit(pd.DataFrame({"pay": y}), random_seed=1)
    release = release_of([pd.DataFrame({"pay": Z})])
    risk = br.attribute_risk(
        fit, release, guesses={"pay": br.Grid(values=[7.0, 12.0], truth="add")}, random_seed=1,
        intruder=br.Intruder(knows_records=knows),
    )  # fmt: skip
    at, by = y.mean(), y.std()  # constants of the model
    s, log_v = np.meshgrid(np.linspace(-50, 50, 801), np.linspace(-5, 15, 301))
    v, mu = np.exp(log_v), s * np.exp(log_v / 2)
    log_prior = norm.logpdf(s, 0, 10) - 1.0 / v - log_v  # inverse gamma (1, 1)

    def log_p(values):
        x = (np.asarray(values) - at) / by
        n = len(x)
        square = (x**2).sum() - 2 * mu * x.sum() + n * mu**2
        return logsumexp(log_prior - 0.5 * n * log_v - 0.5 * square / v)

    def exact(i, guess):
        rest = np.delete(y, i) if knows == "all-but-target" else []
        before = np.append(rest, guess)
        return log_p(np.append(before, Z)) - log_p(before)

    agree(risk, each(exact), 1e-4)


@pytest.mark.parametrize("rows", [3, 12])
def test_trees_that_synthpop_grew_by_enumeration(rows):
    """Sexes drawn from their column, jobs from those of a sex: plain draws in known leaves."""
    y = test_rpart.PEOPLE[["sex", "job"]]
    content = {
        "m": 1,
        "method": {"sex": "sample", "job": "cart"},
        "visit_sequence": ["sex", "job"],
        "proper": False,
        "smoothing": ["", ""],
        "models": [{"sex": {"kind": "sample"}, "job": test_rpart.JOB}],
    }
    fit = br.models.CART.from_rpart(SynthpopModels.of(content), y)
    release = fit.synthesize(1, n=rows, random_seed=4)
    assert len(release.datasets[0]) == rows
    risk = br.attribute_risk(fit, release, guesses=br.Neighbourhood(2), random_seed=1)
    Z, levels = release.datasets[0].astype(str).to_numpy(), [list("fm"), list("abc")]

    def exact(i, guess):
        whole = y.to_numpy().copy()
        whole[i] = [labels[int(g)] for labels, g in zip(levels, guess, strict=True)]
        shares = [(whole == z).all(axis=1).mean() for z in Z]  # of the sex, then of the job in it
        return np.log(shares).sum() if min(shares) > 0 else -np.inf

    gap, _ = gaps(risk, each(exact))
    assert np.abs(gap).max() < 1e-9


@pytest.mark.check
@pytest.mark.parametrize("rows", [2, 30])
def test_a_pymc_model_in_closed_form(rows):
    import pymc as pm

    def build(data):
        with pm.Model() as model:
            pay = pm.Data("pay", data["pay"])
            pm.Normal("pay_", pm.Normal("mu", 0, 1), 1.0, observed=pay)
        return model

    rng = np.random.default_rng(4)
    y, Z = rng.normal(0.3, 1, 6), rng.normal(0.8, 1, rows)
    declared = br.models.PyMCModel(build, ["pay"])
    fit = declared.fit(pd.DataFrame({"pay": y}), draws=2000, tune=500, chains=4, random_seed=1)
    release = release_of([pd.DataFrame({"pay": Z})])
    guesses = {"pay": br.Grid(values=[-1.0, 1.5], truth="add")}
    risk = br.attribute_risk(fit, release, guesses=guesses, random_seed=1)
    mu = np.linspace(-8, 8, 4001)

    def log_p(values):
        logs = norm.logpdf(mu)
        return logsumexp(logs + norm.logpdf(np.asarray(values)[:, None], mu, 1.0).sum(axis=0))

    def exact(i, guess):
        before = np.append(np.delete(y, i), guess)
        return log_p(np.append(before, Z)) - log_p(before)

    agree(risk, each(exact), CLOSE)
    assert len(fit.synthesize(1, n=rows, random_seed=1).datasets[0]) == rows


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 50_000])
def test_any_number_of_rows_is_drawn_from_the_parameters(fit, n):
    release = fit.synthesize(2, n=n, random_seed=3)
    assert [len(z) for z in release.datasets] == [n, n]
    assert "2 data sets of" in repr(release) and f"{n:,} rows" in repr(release)
    again = fit.synthesize(2, n=n, random_seed=3)
    assert all(a.equals(b) for a, b in zip(release.datasets, again.datasets, strict=True))
    draws, h = fit.posterior.draws, release.draw_index[0]
    share = (draws.pi[h] * draws.phi[h, 1]).sum()  # of "b" in x0
    found = (release.datasets[0]["x0"] == "b").mean()
    assert abs(found - share) <= 4 * np.sqrt(share * (1 - share) / n)


def test_the_tables_own_number_of_rows_is_the_usual_release(fit):
    usual, asked = (fit.synthesize(2, random_seed=3, **how) for how in ({}, {"n": 3}))
    assert all(a.equals(b) for a, b in zip(usual.datasets, asked.datasets, strict=True))


def test_as_many_rows_by_other_labels_are_nobodys(fit):
    """The order of rows tells nothing, and evidence is that of the same rows in any order."""
    z = table(MANY[0][:3])
    labelled = br.Release(datasets=[z.set_axis(list("uvw"))], synthesized=["x0", "x1"])
    how = {"guesses": br.Neighbourhood(2), "random_seed": 7}
    risks = [br.attribute_risk(fit, release, **how) for release in (labelled, release_of([z]))]
    assert "3 rows each, none of which" in risks[0].assumptions["releases"]
    assert "none of which" not in risks[1].assumptions["releases"]
    np.testing.assert_array_equal(risks[0].log_evidence, risks[1].log_evidence)


def test_the_assumed_model_is_checked_on_as_many_rows():
    rng = np.random.default_rng(5)
    y = table(rng.integers(0, 2, (200, 2)) & rng.integers(0, 2, (200, 1)))
    fit = br.models.DPMPM(n_classes=5).fit(y, draws=100, tune=100, chains=2, random_seed=1)
    made = fit.synthesize(2, n=120, parameters="independent", random_seed=2)
    noise = [table(rng.integers(0, 2, (120, 2))) for _ in range(2)]
    good, bad = (
        br.check_mechanism(fit, release_of(tables, parameters="independent"), random_seed=1)
        for tables in (made.datasets, noise)
    )
    assert not good.failed and bad.failed


STUDY = """
[data]
path = "people.csv"
index = "id"

[model]
kind = "DPMPM"
n_classes = 3
draws = 40
tune = 40

[release]
{release}

[attribute]
targets = 5

[membership]
"""


@pytest.mark.check
@pytest.mark.parametrize("release", ["m = 2\nn = 25", 'files = ["z.csv"]\ncolumns = ["a", "b"]'])
def test_a_study_takes_and_makes_any_number_of_rows(tmp_path, release):
    rng = np.random.default_rng(6)
    people = table(rng.integers(0, 2, (40, 2)), "ab").set_axis([f"p{i}" for i in range(40)])
    people.to_csv(tmp_path / "people.csv", index_label="id")
    table(rng.integers(0, 2, (25, 2)), "ab").to_csv(tmp_path / "z.csv", index=False)
    (tmp_path / "study.toml").write_text(STUDY.format(release=release))
    found = run_study(read_study(tmp_path / "study.toml"))
    assert "25 rows each, none of which" in found.attribute.assumptions["releases"]
    assert "25 rows each, none of which" in found.membership.assumptions["releases"]


TIED = "any number will do only where every column of the model was synthesised afresh"
REFUSED = [
    (lambda f: audit(f, release_of([table(FEW[0])], classes="own")), f"{TIED}.*classes=.own."),
    (lambda f: audit(f, br.Release(datasets=[table(FEW[0])], synthesized=["x0"])),
     f"release 1 has 2 records and the original 3; {TIED}.*column 'x1' was not"),
    (lambda f: audit(f, release_of([table(FEW[0])], records=np.array([1, 1, 0], bool))),
     f"{TIED}.*records states"),
    (lambda f: f.synthesize(1, n=0), "n"),
    (lambda f: f.synthesize(1, ["x0"], n=5), "n=5 is for releases .* column 'x1' stays"),
    (lambda f: f.synthesize(1, records=[0], n=5), "n=5 is for releases .* some records stay"),
    (lambda f: f.synthesize(1, classes="own", n=5), "n=5 .* classes are the records' own"),
    (lambda f: br.identification_risk(table(Y), [table(MANY[0])], known=["x1"], synthesized=["x0"]),
     "known is of records, and release 1 has 5 records and the original 3, so that"),
    (lambda f: audit(br.models.Forest(order=["x1"]).fit(table(Y), random_seed=1),
                     release_of([table(FEW[0])])),
     "no forest"),
]  # fmt: skip


def audit(fit, release):
    return br.attribute_risk(fit, release, guesses=br.Neighbourhood(1), random_seed=1)


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_needs_the_row_of_a_record_is_refused(fit, call, message):
    with pytest.raises(br.InputError, match=message):
        call(fit)


def test_models_without_evidence_for_it_say_so():
    """Regressions impute unknown rows beside their own synthetic values."""
    y = pd.DataFrame({"pay": np.random.default_rng(1).normal(size=8)})
    fit = br.models.Regression({"pay": "1"}).fit(y, random_seed=1)
    release, none = fit.synthesize(2, n=5, random_seed=2), br.Intruder(knows_records="none")
    grid = {"pay": br.Grid(values=[0.0, 1.0], truth="add")}
    with pytest.raises(br.InputError, match="rows of the release are not .* Regression has no"):
        br.attribute_risk(fit, release, guesses=grid, intruder=none)
