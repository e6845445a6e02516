"""Sample and population uniques: formulas against sums, quadrature, simulation and sdcMicro."""

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from bayes_risk import Population, uniqueness
from bayes_risk.matching.uniqueness import negative_binomial_inverse, poisson_inverse

ROOT = Path(__file__).resolve().parents[2]
KEYS = ["a", "b"]
ONE = np.array([1.0])


def sample(n=300, seed=1):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.zipf(1.6, n).clip(max=40),
            "b": rng.choice(list("xyz"), n, p=[0.7, 0.2, 0.1]),
            "w": rng.uniform(1.5, 20, n),
        }
    )


# --- formulas --------------------------------------------------------------------------------


@pytest.mark.parametrize("f", [1, 2, 3, 7, 60])
@pytest.mark.parametrize("rest", [0.0, 1e-6, 0.3, 4.0, 250.0])
def test_poisson_mean_of_inverse_is_the_sum(f, rest):
    x = np.arange(2_000)
    expected = (stats.poisson.pmf(x, rest) / (f + x)).sum()
    assert poisson_inverse(ONE * f, ONE * rest)[0] == pytest.approx(expected, rel=1e-10)


def test_poisson_of_sample_uniques_has_the_published_form():
    rest = np.array([1e-8, 0.5, 3.0, 40.0])
    ones = np.ones(4)
    assert poisson_inverse(ones, rest) == pytest.approx(-np.expm1(-rest) / rest)


@pytest.mark.parametrize("f", [1, 2, 3, 10, 80])
@pytest.mark.parametrize("p", [1.0, 0.9, 0.5, 0.1, 0.01])
def test_mu_argus_is_the_mean_under_the_negative_binomial(f, p):
    x = np.arange(200_000 if p < 0.05 else 30_000)
    expected = (stats.nbinom.pmf(x, f, p) / (f + x)).sum()
    assert negative_binomial_inverse(ONE * f, ONE * p)[0] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("f", [1, 3, 12])
@pytest.mark.parametrize("p", [1e-6, 1e-3, 0.4])
def test_mu_argus_is_its_integral(f, p):
    def inner(w):
        return w ** (f - 1) * p / (p + (1 - p) * w)

    expected = integrate.quad(inner, 0, 1, points=[p, 10 * p], epsabs=0, epsrel=1e-11, limit=400)[0]
    assert negative_binomial_inverse(ONE * f, ONE * p)[0] == pytest.approx(expected, rel=1e-9)


def test_mu_argus_of_one_and_two_has_the_published_closed_forms():
    p = np.array([0.01, 0.3, 0.8])
    odds = p / (1 - p)
    one, two = (negative_binomial_inverse(np.full(3, f), p) for f in (1.0, 2.0))
    assert one == pytest.approx(odds * np.log(1 / p))
    assert two == pytest.approx(odds - odds**2 * np.log(1 / p))


def test_sdcmicro_francdat():
    # sdcMicro's indivRisk on francdat, keys 2, 4, 5, 6, weights 8: fk, Fk and rk
    f = np.array([2, 2, 2, 1, 1, 1, 1, 2.0])
    F = np.array([110, 84.5, 84.5, 17, 541, 8, 5, 110])
    rk = [0.01714426, 0.02204233, 0.02204233, 0.17707583]
    rk += [0.01165448, 0.29706308, 0.40235948, 0.01714426]
    assert negative_binomial_inverse(f, f / F) == pytest.approx(np.array(rk), abs=5e-9)
    key = np.array([0, 1, 1, 2, 3, 4, 5, 0])
    df = pd.DataFrame({"key": key, "w": F / f})
    found = uniqueness(df, ["key"], weights="w")
    assert found.risk == pytest.approx(np.array(rk), abs=5e-9)
    assert found.unique == pytest.approx(np.where(f == 1, f / F, 0))


# --- counts ----------------------------------------------------------------------------------


def test_k_anonymity_counts_by_hand():
    df = pd.DataFrame({"a": ["x"] + ["y"] * 2 + ["z"] * 4 + ["u"] * 9 + [None] * 10})
    found = uniqueness(df, ["a"])
    value = found.summary()["value"].to_dict()
    assert value == {"sample_uniques": 1, "below_3": 3, "below_5": 7, "below_10": 16}
    assert found.summary()["share"].tolist() == pytest.approx([1 / 26, 3 / 26, 7 / 26, 16 / 26])
    assert found.records["sample_count"].tolist() == [1] + [2] * 2 + [4] * 4 + [9] * 9 + [10] * 10
    assert found.records["population_unique"].isna().all()


def test_known_population_counts_exactly():
    everyone = sample(2_000)
    df = everyone.iloc[::7]
    found = uniqueness(df, KEYS, population=Population.counted(everyone, KEYS))
    F = everyone.groupby(KEYS)["w"].transform("size").iloc[::7]
    f = df.groupby(KEYS)["w"].transform("size")
    value = found.summary()["value"]
    assert value["population_uniques"] == ((F == 1) & (f == 1)).sum()
    assert value["unique_matches"] == pytest.approx((1 / F)[f == 1].sum())
    assert value["expected_matches"] == pytest.approx((1 / F).sum())
    assert found.summary()["without"].tolist()[-3:] == [(f == 1).sum()] * 2 + [
        len(df[KEYS].drop_duplicates())
    ]
    assert found.records.index.equals(df.index)
    assert np.isnan(found.summary()["error"]).all()


def test_totals_are_sums_over_records():
    df = sample()
    for given in ({"fraction": 0.2}, {"weights": "w"}):
        found = uniqueness(df, KEYS, **given)
        records, value = found.records, found.summary()["value"]
        single = records["sample_count"] == 1
        assert records["population_unique"].sum() == pytest.approx(value["population_uniques"])
        assert records["risk"][single].sum() == pytest.approx(value["unique_matches"])
        assert records["risk"].sum() == pytest.approx(value["expected_matches"])
        assert (records["population_unique"] <= records["risk"] + 1e-15).all()
        assert (records["risk"] <= records["without"] + 1e-15).all()


def simulated_files(repeats):
    """Five independent keys; Poisson population counts, samples of a tenth: F, f, mean of F."""
    rng = np.random.default_rng(11)
    margins = [rng.dirichlet(np.full(4, 2.0)) for _ in range(5)]
    mean = np.array([4_000.0])
    for margin in margins:
        mean = np.outer(mean, margin).ravel()
    for _ in range(repeats):
        F = rng.poisson(mean)
        yield F, rng.binomial(F, 0.1), mean


def true_tau(F, f):
    single = f == 1
    return np.array([(F[single] == 1).sum(), (1 / F[single]).sum()])


def within_four_errors(differences):
    error = np.std(differences, axis=0, ddof=1) / np.sqrt(len(differences))
    return (np.abs(np.mean(differences, axis=0)) < 4 * error).all()


def test_formulas_against_simulation():
    differences = []
    for F, f, mean in simulated_files(300):
        rest = 0.9 * mean[f == 1]
        one = np.ones(len(rest))
        formula = np.exp(-rest).sum(), poisson_inverse(one, rest).sum()
        differences.append(formula - true_tau(F, f))
    assert within_four_errors(differences)


def test_tau_with_fitted_margins_against_simulation():
    names = list("abcde")
    cells = pd.MultiIndex.from_product([range(4)] * 5, names=names).to_frame(index=False)
    differences = []
    for F, f, _ in simulated_files(40):
        df = cells.loc[np.repeat(np.arange(len(F)), f)].reset_index(drop=True)
        population = Population.log_linear(df, names, fraction=0.1, interactions=1)
        value = uniqueness(df, names, population=population).summary()["value"]
        estimate = value[["population_uniques", "unique_matches"]].to_numpy()
        differences.append(estimate - true_tau(F, f))
    assert within_four_errors(differences)


@pytest.mark.parametrize("interactions", [1, 2])
def test_limits_of_the_sampling_fraction(interactions):
    df = sample()
    every, hardly = (
        uniqueness(
            df,
            KEYS,
            population=Population.log_linear(df, KEYS, fraction=pi, interactions=interactions),
        )
        for pi in (1.0, 1e-9)
    )
    assert every.risk == pytest.approx(1 / every.f)
    assert np.array_equal(every.unique, every.f == 1)
    # two-way margins of two keys are saturated, independent ones never 0 here
    assert hardly.risk.max() < 1e-5 and hardly.unique.max() < 1e-5


def test_full_weights_are_a_census():
    df = sample().assign(w=1.0)
    found = uniqueness(df, KEYS, weights="w")
    assert found.risk == pytest.approx(1 / found.f)


def test_order_of_rows_and_keys_does_not_matter():
    df = sample()
    one = uniqueness(df, KEYS, fraction=0.1).records
    turned = uniqueness(df.sample(frac=1, random_state=3), KEYS[::-1], fraction=0.1).records
    pd.testing.assert_frame_equal(turned.loc[df.index], one)


# --- draws -----------------------------------------------------------------------------------


def test_draws_are_averaged_and_give_intervals_and_errors():
    """Counts as a posterior would draw them: sums over records in every draw, by hand."""
    df, keys, rng = sample(), KEYS[::-1], np.random.default_rng(5)
    fit = Population.log_linear(df, keys, fraction=0.2, interactions=1)
    seen = Population.counted(df, keys).cell_counts
    assert np.array_equal(seen.cells, fit.cell_counts.cells)
    table = seen.table[0] + rng.poisson(fit.cell_counts.table - seen.table, (400, len(seen.cells)))
    counts = dataclasses.replace(fit.cell_counts, table=table.astype(float))
    population = dataclasses.replace(fit, cell_counts=counts, diagnostics={"chains": 4.0})
    found = uniqueness(df, KEYS, population=population)
    F, single = population.counts(df), (df.groupby(KEYS)["w"].transform("size") == 1).to_numpy()
    expected = {
        "population_uniques": (F == 1).sum(axis=1),
        "unique_matches": (single / F).sum(axis=1),
        "expected_matches": (1 / F).sum(axis=1),
    }
    rows = found.summary()
    for name, each in expected.items():
        assert rows.loc[name, "value"] == pytest.approx(each.mean())
        ends = rows.loc[name, ["low", "high"]].to_list()
        assert ends == pytest.approx(np.quantile(each, [0.025, 0.975]))
        # draws are independent: 400 count for about 400
        assert rows.loc[name, "error"] == pytest.approx(each.std() / 20, rel=0.5)
    assert found.risk == pytest.approx((1 / F).mean(axis=0))
    assert found.unique == pytest.approx((F == 1).mean(axis=0))
    assert "posterior draws" in found.sentence() and " to " in found.sentence()


@pytest.mark.slow
def test_draws_agree_with_the_fit_within_their_spread():
    df = sample()
    fit, drawn = (
        Population.log_linear(df, KEYS[::-1], fraction=0.2, interactions=1, draws=n, random_seed=5)
        for n in (None, 400)
    )
    expected = uniqueness(df, KEYS, population=fit).summary()["value"]
    rows = uniqueness(df, KEYS, population=drawn).summary()
    for name in ("unique_matches", "expected_matches"):
        assert rows.loc[name, "low"] < expected[name] < rows.loc[name, "high"]
    rows = rows.loc[["population_uniques", "unique_matches", "expected_matches"]]
    assert (rows["low"] <= rows["value"]).all() and (rows["value"] <= rows["high"]).all()
    assert (rows["error"] > 0).all() and (rows["error"] < rows["high"] - rows["low"]).all()


# --- words -----------------------------------------------------------------------------------


def test_sentence_and_repr():
    df = pd.DataFrame({"a": ["x", "y", "y"], "b": [1, 1, 1]})
    population = Population.counted(pd.concat([df, df.iloc[1:]]), KEYS)
    found = uniqueness(df, KEYS, population=population)
    assert found.sentence() == (
        "By a, b, 1 of 3 records (33.3 %) are unique in the sample; 1 of them would be unique in "
        "the population, and an intruder who searches for them there would be right "
        "1 times (a population file of 5 people)."
    )
    assert repr(found).startswith("Uniqueness\nBy a, b") and "expected_matches" in repr(found)
    assert "was not requested" in uniqueness(df, KEYS).sentence()
