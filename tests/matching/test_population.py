"""Population counts: fits against statsmodels, posterior against closed forms, errors."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import stats

from bayes_risk import InputError, Population
from bayes_risk._core.errors import ModelError
from bayes_risk.matching import loglinear
from bayes_risk.matching.loglinear import Effects, posterior_mode

KEYS = ["sex", "job", "age"]
RARELY = [0.55, 0.3, 0.1, 0.05]


def people(n=400, seed=3):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    job = np.where(rng.random(n) < 0.3, "x", rng.choice(list("abc"), n, p=[0.6, 0.3, 0.1]))
    age = rng.choice([20, 40, 60, 80], n, p=RARELY)
    return pd.DataFrame({"sex": sex, "job": job, "age": age})


def cells_of(df, keys=KEYS):
    return df.groupby(keys, observed=True).size().rename("N").reset_index()


def every_cell(df, keys=KEYS):
    values = [sorted(df[k].unique()) for k in keys]
    return pd.DataFrame(list(itertools.product(*values)), columns=keys)


def with_zeros(df, keys=KEYS):
    return every_cell(df, keys).merge(cells_of(df, keys), how="left").fillna({"N": 0})


# --- counted, tables, weights ----------------------------------------------------------------


def test_counts_are_those_of_the_file():
    df = people()
    found = Population.counted(df, KEYS)
    assert found.counts(df)[0].tolist() == df.groupby(KEYS)["sex"].transform("size").tolist()
    assert (found.size, found.n_draws, found.known, found.keys) == (400, 1, True, tuple(KEYS))
    assert found.in_words() == "a population file of 400 people"


def test_a_cell_nobody_has_and_a_level_nobody_has_count_zero():
    population = Population.counted(pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}), ["a", "b"])
    asked = pd.DataFrame({"a": ["x", "x", "z"], "b": [1, 2, 1]})
    assert population.counts(asked).tolist() == [[1.0, 0.0, 0.0]]


def test_tables_say_the_same_as_files():
    df = people()
    series = df.groupby(KEYS).size()
    frame = series.rename("count").reset_index()
    expected = Population.counted(df, KEYS).counts(df)
    assert np.array_equal(Population.table(series).counts(df), expected)
    assert np.array_equal(
        Population.table(frame.sample(frac=1, random_state=1)).counts(df), expected
    )
    assert Population.table(series).size == 400


def test_weights_add_up():
    df = pd.DataFrame({"a": ["x", "x", "y"], "w": [2.5, 3.5, 10.0]})
    population = Population.weighted(df, ["a"], weights="w")
    assert population.counts(df).tolist() == [[6.0, 6.0, 10.0]]
    assert (population.size, population.known) == (16.0, False)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_values_are_a_level(missing):
    df = pd.DataFrame({"a": ["x", missing, missing], "b": [1, 1, 1]})
    population = Population.counted(df, ["a", "b"])
    assert population.counts(df).tolist() == [[1.0, 2.0, 2.0]]
    assert population.counts(df.astype({"a": "category"})).tolist() == [[1.0, 2.0, 2.0]]


def test_order_of_columns_rows_and_categories_does_not_matter():
    df = people()
    turned = df.assign(job=pd.Categorical(df["job"], list("xcba"))).sample(frac=1, random_state=2)
    for make in (Population.counted, lambda d, k: Population.log_linear(d, k, fraction=0.1)):
        one = make(df, KEYS).counts(df)
        assert make(turned, KEYS[::-1]).counts(df) == pytest.approx(one, rel=1e-7)


def test_known_counts_below_the_sample_are_an_error_without_values():
    df = people()
    population = Population.counted(df.iloc[:100], KEYS)
    N = df.groupby(KEYS)["sex"].transform("size")
    with pytest.raises(InputError, match="combinations of .*'job'.* rarer in the population") as e:
        population.checked_counts(df, N)
    assert not re.search(r"\b(20|40|60|80)\b", str(e.value).partition("(")[0])
    fine = Population.counted(df, KEYS).checked_counts(df, N)
    assert np.array_equal(fine[0], N)


def test_estimated_counts_are_raised_to_the_sample():
    df = pd.DataFrame({"a": ["x", "x", "y"], "w": [0.5, 0.5, 10.0]})
    population = Population.weighted(df, ["a"], weights="w")
    assert population.checked_counts(df, [2, 2, 1]).tolist() == [[2.0, 2.0, 10.0]]


# --- log-linear, fitted ----------------------------------------------------------------------


@pytest.mark.parametrize(("interactions", "formula"), [(1, "({})"), (2, "({})**2")])
def test_fit_agrees_with_the_generalised_linear_model(interactions, formula):
    df = people(n=3_000)
    table = with_zeros(df)
    right = formula.format("C(sex) + C(job) + C(age)")
    glm = smf.glm(f"N ~ {right}", table, family=sm.families.Poisson()).fit(tol=1e-12)
    found = Population.log_linear(df, KEYS, fraction=0.2, interactions=interactions)
    expected = table["N"] + 4 * glm.fittedvalues
    assert found.counts(table)[0] == pytest.approx(expected.to_numpy(), rel=1e-6)


def test_independent_keys_have_a_closed_form():
    df = people()
    found = Population.log_linear(df, KEYS, size=4_000, interactions=1)
    table = with_zeros(df)
    mu = np.full(len(table), 400.0)
    for key in KEYS:
        mu *= table[key].map(df[key].value_counts(normalize=True)).to_numpy()
    assert found.counts(table)[0] == pytest.approx(table["N"].to_numpy() + 9 * mu)
    assert found.diagnostics["cells"] == 0


@pytest.mark.parametrize("keys", [["job"], ["job", "age"]])
def test_one_and_two_keys_are_saturated(keys):
    df = people()
    found = Population.log_linear(df, keys, fraction=0.25)
    assert found.counts(df)[0] == pytest.approx(4 * df.groupby(keys)["sex"].transform("size"))


@pytest.mark.parametrize("interactions", [1, 2])
def test_counts_add_up_to_the_population_and_exceed_the_sample(interactions):
    df = people(n=60)
    found = Population.log_linear(df, KEYS, size=1_000, interactions=interactions)
    table = with_zeros(df)
    F = found.counts(table)[0]
    assert F.sum() == pytest.approx(1_000)
    assert (F >= table["N"]).all()
    assert found.size == pytest.approx(1_000)


def test_the_whole_population_sampled_is_known():
    df = people()
    assert Population.log_linear(df, KEYS, fraction=1).counts(df) == pytest.approx(
        Population.counted(df, KEYS).counts(df)
    )


@pytest.mark.parametrize("interactions", [1, 2])
def test_fewer_keys_are_sums_over_the_others(interactions):
    df = people(n=80)
    found = Population.log_linear(df, KEYS, fraction=0.1, interactions=interactions)
    table = every_cell(df)
    table["F"] = found.counts(table)[0]
    for keys in (["job"], ["age", "sex"]):
        summed = table.groupby(keys)["F"].sum().reset_index()
        assert found.over(keys).counts(summed)[0] == pytest.approx(summed["F"].to_numpy())
    assert found.over([]).counts(df)[0] == pytest.approx(np.full(80, 800.0))
    assert found.over(["job"]).keys == ("job",)


def test_cells_of_an_empty_margin_are_impossible():
    df = people()
    df = df[~((df["job"] == "a") & (df["age"] == 60))]
    found = Population.log_linear(df, KEYS, fraction=0.1)
    table = every_cell(df)
    never = (table["job"] == "a") & (table["age"] == 60)
    F = found.counts(table)[0]
    assert (F[never] == 0).all() and (F[~never] > 0).all()


def test_support_is_found_without_the_cross_classification():
    rng = np.random.default_rng(0)
    base = rng.integers(0, 100, 300)
    df = pd.DataFrame({f"k{a}": (base + rng.integers(0, 2, 300)) % 100 for a in range(8)})
    found = Population.log_linear(df.astype(str), list(df), fraction=0.1)
    assert len(df) <= found.diagnostics["cells"] < 10**5  # of 10^16
    assert found.counts(df.astype(str)).sum() > 0


def test_support_is_every_cell_with_positive_margins():
    df = people(n=40)
    population = Population.counted(df, KEYS)
    codes = population.cell_counts.cells
    n_levels = population.cell_counts.levels.n_levels
    terms = loglinear.margins_of(3, 2)
    found = loglinear.support(codes, n_levels, terms, limit=1_000)
    seen = {(t, tuple(row[list(t)])) for row in codes for t in terms}
    every = itertools.product(*(range(d) for d in n_levels))
    expected = {c for c in every if all((t, tuple(c[a] for a in t)) in seen for t in terms)}
    assert {tuple(row) for row in found.tolist()} == expected
    assert len(found) == len(expected)


def test_too_many_cells_say_how_many_and_what_to_do(monkeypatch):
    monkeypatch.setattr(loglinear, "MAX_CELLS", 5)
    with pytest.raises(InputError, match=r"more than 5 of the 32 .*2 x 4 x 4.*coarser keys"):
        Population.log_linear(people(), KEYS, fraction=0.1)


def test_no_convergence_is_an_error(monkeypatch):
    monkeypatch.setattr(loglinear, "MAX_CYCLES", 1)
    with pytest.raises(ModelError, match="not converged: after 1 cycles"):
        Population.log_linear(people(), KEYS, fraction=0.1)


def test_convergence_is_reported():
    told = Population.log_linear(people(), KEYS, fraction=0.1).diagnostics
    assert told["gap"] <= loglinear.TOLERANCE and told["cycles"] >= 2 and told["cells"] == 32


# --- log-linear, drawn -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_draws():
    df = people(n=2_000)
    return df, Population.log_linear(df, KEYS, fraction=0.25, draws=400, random_seed=1)


@pytest.mark.check
def test_draws_surround_the_fit(of_draws):
    df, drawn = of_draws
    plug_in = Population.log_linear(df, KEYS, fraction=0.25)
    cells = with_zeros(df)
    F, expected = drawn.counts(cells), plug_in.counts(cells)[0]
    # the prior shrinks interactions; large cells are told by the data
    large = cells["N"] > 50
    spread = F.std(axis=0)
    assert (np.abs(F.mean(axis=0) - expected)[large] < spread[large]).all()
    assert F.shape == (400, 32) and (F >= cells["N"].to_numpy()).all()
    assert np.array_equal(F, np.round(F))
    assert F.sum(axis=1).mean() == pytest.approx(8_000, abs=4 * F.sum(axis=1).std() / 400**0.5 + 30)
    assert drawn.diagnostics["rhat"] < 1.1 and drawn.diagnostics["divergences"] == 0


@pytest.mark.check
def test_draws_of_a_cell_are_the_same_everywhere(of_draws):
    df, drawn = of_draws
    F = drawn.counts(df.iloc[[5, 5, 7]])
    assert np.array_equal(F[:, 0], F[:, 1])
    assert np.array_equal(F[:, 2], drawn.counts(df.iloc[[7]])[:, 0])
    over = drawn.over(["sex"]).counts(pd.DataFrame({"sex": ["f", "m"]}))
    assert np.array_equal(over.sum(axis=1), drawn.over([]).counts(df.iloc[[0]])[:, 0])


def test_draws_of_one_key_follow_the_gamma_poisson_closed_form():
    # one key of large counts: mu_t | N_t is about Gamma(N_t, 1), as under a flat prior of log mu,
    # so F_t - N_t is negative binomial with mean N_t o and variance N_t o (1 + o), o = (1-pi)/pi
    df = pd.DataFrame({"a": np.repeat(list("abc"), [300, 900, 600])})
    cells = pd.DataFrame({"a": list("abc")})
    draws = Population.log_linear(df, ["a"], fraction=0.2, draws=1_000, random_seed=4).counts(cells)
    N, odds = np.array([300, 900, 600]), 4.0
    sd = np.sqrt(N * odds * (1 + odds))
    # four standard errors of 1,000 draws with at least 400 effective ones, and the prior's pull
    assert np.abs((draws - N).mean(axis=0) - N * odds) == pytest.approx(0, abs=4 * sd.max() / 20)
    assert draws.std(axis=0) / sd == pytest.approx(1, abs=4 / np.sqrt(2 * 400))


@pytest.mark.check
def test_same_seed_same_draws():
    df = people(n=100)[["sex"]]
    one, two = (
        Population.log_linear(df, ["sex"], fraction=0.5, draws=10, random_seed=7) for _ in range(2)
    )
    assert one.n_draws == 12 and np.array_equal(one.counts(df), two.counts(df))
    assert one.seed_entropy == two.seed_entropy == "7"
    assert "12 posterior draws" in one.in_words()


def test_density_of_the_model_is_that_of_its_formula():
    """Two and three levels and their interactions: priors and counts by SciPy, cell by cell."""
    cells = np.array(list(itertools.product(range(2), range(3))))
    count = np.array([5, 0, 9, 2, 30, 1])
    effects = Effects.from_cells(cells, [(0, 1)])
    A, B = effects.basis
    for basis in (A, B):
        assert basis.T @ basis == pytest.approx(np.eye(basis.shape[1]))
        assert basis.sum(axis=0) == pytest.approx(0)
    log_p = loglinear._model(effects, count, centre=1.0).compile_logp(mode="FAST_COMPILE")
    rng = np.random.default_rng(2)
    for _ in range(3):
        theta, log_scale = rng.normal(size=6), rng.normal(size=1)
        pairs = theta[4:].reshape(1, 2)
        expected = stats.norm.logpdf(log_scale[0], np.log(0.5), 0.7)
        expected += stats.norm.logpdf(theta[0], 1.0, 5.0)
        expected += stats.norm.logpdf(theta[1:4], 0, 2.0).sum()
        expected += stats.norm.logpdf(theta[4:], 0, np.exp(log_scale[0])).sum()
        for (a, b), n in zip(cells, count, strict=True):
            log_mu = theta[0] + A[a] @ theta[1:2] + B[b] @ theta[2:4] + A[a] @ pairs @ B[b]
            expected += stats.poisson.logpmf(n, np.exp(log_mu))
        assert log_p({"theta": theta, "log_scale": log_scale}) == pytest.approx(expected)


def test_mode_is_where_the_gradient_vanishes_and_contrasts_sum_to_zero():
    cells = np.array(list(itertools.product(range(2), range(3))))
    count = np.array([5.0, 0.0, 9.0, 2.0, 30.0, 1.0])
    effects = Effects.from_cells(cells, [(0, 1)])
    X = effects.design()
    assert X.shape == (6, effects.n_effects) == (6, 1 + 1 + 2 + 2)
    assert X[:, 1:].sum(axis=0) == pytest.approx(0)
    theta, log_scale, covariance = posterior_mode(effects, count, centre=1.0)
    scale = np.append(np.exp(log_scale), 1.0)[effects.pair_of] * effects.fixed_scale
    pull = (theta - np.eye(6)[0]) / scale**2
    assert X.T @ (count - np.exp(X @ theta)) == pytest.approx(pull, abs=0.2)
    assert np.linalg.eigvalsh(covariance).min() > 0


# --- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0, 2.0], "'w' of the sample is 0 or negative in 1 of 3 rows"),
        ([1.0, np.nan, 2.0], "'w' of the sample is missing or infinite in 1 of 3"),
        (["a", "b", "c"], "'w' .* does not hold numbers"),
    ],
)
def test_wrong_weights_are_named(weights, message):
    df = pd.DataFrame({"a": ["x", "y", "y"], "w": weights})
    with pytest.raises(InputError, match=message):
        Population.weighted(df, ["a"], weights="w")
    with pytest.raises(InputError, match="lacks column 'v'"):
        Population.weighted(df, ["a"], weights="v")
