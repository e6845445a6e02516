"""The most disclosive column: risk without the evidence of one column, against enumeration."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk._core.logspace import log_sum
from bayes_risk.evidence import contract
from tests.app.test_cli import screen
from tests.helpers.edge_results import attribute, study_result
from tests.helpers.fits import encoded, fit_of, release_of
from tests.models import test_cart as trees
from tests.models.test_pmm import all_guesses
from tests.models.test_regression_exact import col, design, one, released, table
from tests.oracles.pmm_tables import small_fit, small_table
from tests.oracles.regression_oracle import Normal, guess_values, log_evidence

ROUNDING = 1e-9
GRIDS = {"income": br.Grid(percent=20, n=5), "spend": br.Grid(additive=1.0, n=3)}
REGRESSION = br.models.Regression({"income": "1 + age", "spend": "1 + income + age"})
PARTS = {
    "income": Normal("income", design(one, col("age"))),
    "spend": Normal("spend", design(one, col("income"), col("age"))),
}


def regression():
    df = table()
    release = released(df, ["income", "spend"], m=2)
    fit = REGRESSION.fit(df, draws=4, chains=2, random_seed=1)
    return df, release, br.attribute_evidence(fit, release, guesses=GRIDS, targets=[0, 5, 8])


def of_truth(log_p, truth):
    """Probability of the truth among guesses (G,) that are equally likely beforehand."""
    return float(np.exp(log_p[truth] - log_sum(log_p)))


def compare(risk, by_hand):
    """The table against the probabilities of each target without the evidence of each column."""
    found, full = risk.by_column, risk.records["probability"]
    assert set(found.index) == set(by_hand)
    assert found["mean_fall"].is_monotonic_decreasing
    for name, p in by_hand.items():
        row = found.loc[name]
        expected = [np.mean(p), np.max(p), full.mean() - np.mean(p), full.max() - np.max(p)]
        assert np.allclose(row, expected, atol=ROUNDING), name


def test_of_normal_regressions_by_their_marginal_likelihoods():
    df, release, evidence = regression()
    risk = evidence.risk()
    by_hand = {name: [] for name in PARTS}
    for label, u in zip(risk.index, risk.case, strict=True):
        i, guesses = df.index.get_loc(label), guess_values(risk, u)
        for name, p in by_hand.items():
            others = [part for other, part in PARTS.items() if other != name]
            log_p = np.array([log_evidence(others, df, release.datasets, i, g) for g in guesses])
            p.append(of_truth(log_p, risk.truth[u]))
    compare(risk, by_hand)


@pytest.mark.parametrize("bootstrap", ["bayesian", "none"])
def test_of_trees_by_the_products_of_their_leaves(bootstrap):
    fit = br.models.CART(["a", "num", "b"], min_leaf=3, bootstrap=bootstrap).fit(trees.table())
    release = fit.synthesize(m=2, random_seed=3)
    targets = [0, 7, 16]
    risk = br.attribute_risk(fit, release, guesses=trees.GUESSES, targets=targets)
    by_hand = {}
    for name in fit.order:
        left = [t for t in fit.trees if fit.microdata.columns[t.column] != name]
        others = dataclasses.replace(fit, trees=tuple(left))
        by_hand[name] = []
        for i, u in zip(targets, risk.case, strict=True):
            log_p = trees.brute_force(others, release, [1, 2, 3], i, risk.guesses[:, u])
            by_hand[name].append(of_truth(log_p, risk.truth[u]))
    compare(risk, by_hand)


def forest():
    df = trees.table(n=60)[["sex", "a", "b"]]
    fit = br.models.Forest(["a", "b"], n_trees=5, dirichlet=0.5).fit(df, random_seed=1)
    return br.attribute_evidence(
        fit, fit.synthesize(m=2, random_seed=2), guesses={"a": br.Levels(), "b": br.Levels()}
    )


def matching():
    df = small_table()
    fit = small_fit(df)
    release = fit.synthesize(m=2, random_seed=3)
    return br.attribute_evidence(fit, release, guesses=all_guesses())


def plug_in():
    fit = REGRESSION.fit(table(), draws=4, chains=2, random_seed=1)
    release = fit.synthesize(m=2, parameters="plug-in", random_seed=2)
    return br.attribute_evidence(fit, release, guesses=GRIDS, targets=[0, 5])


@pytest.mark.parametrize("gather", [forest, matching, plug_in, lambda: regression()[2]])
def test_the_factors_are_all_the_evidence(gather):
    evidence = gather()
    found, truth = evidence.found, evidence.cases.guesses.truth
    assert len(found.by_column) == len(evidence.factors) == 2
    total = found.by_column.sum(axis=0)
    total -= np.take_along_axis(total, truth[None, None], axis=1)
    expected = found.log_evidence
    assert (np.isneginf(total) == np.isneginf(expected)).all()
    possible = np.isfinite(expected)
    assert np.allclose(total[possible], expected[possible], atol=ROUNDING)


@pytest.mark.parametrize("options", [{}, {"later": "filled"}, {"donors": 9}])
def test_steps_of_matching_are_what_all_released_values_sum_to(options):
    fit = small_fit(**options)
    rows = fit.rows[fit.chosen]
    pairs = np.array(list(itertools.product(range(3), range(2))), dtype=float)  # of a and b
    every = np.repeat(rows, len(pairs), axis=0), np.tile(pairs, (len(rows), 1))
    chance = np.exp(fit.base.log_chances(*every).sum(axis=0)).reshape(len(rows), 3, 2)
    first = np.exp(fit.base.log_chances(*every)[0]).reshape(len(rows), 3, 2)
    assert np.allclose(chance.sum(axis=(1, 2)), 1)
    assert np.allclose(first, chance.sum(axis=2, keepdims=True))


@pytest.mark.parametrize("way", ["predictive", "refit"])
def test_sampled_evidence_agrees_with_the_closed_form(way):
    df, release, exact = regression()
    fit = REGRESSION.fit(df, draws=500, chains=2, random_seed=3)
    risk = br.attribute_risk(
        fit, release, guesses=GRIDS, targets=[0, 5, 8], evidence=way, random_seed=4
    )
    expected = exact.risk().by_column.loc[risk.by_column.index]
    columns = ["mean_probability", "max_probability"]
    off = np.abs(risk.by_column[columns] - expected[columns]).to_numpy()
    assert (off < 4 * risk.records["mcse"].max()).all()


def test_a_column_whose_factor_no_guess_moves_gives_nothing_away():
    """The intruder knows age and spend, and neither regression looks at income."""
    df = table()
    model = br.models.Regression({"age": "1 + sex", "income": "1 + sex", "spend": "1 + sex"})
    fit = model.fit(df, draws=4, chains=2, random_seed=1)
    release = released(df, ["age", "income", "spend"])
    risk = br.attribute_risk(
        fit,
        release,
        intruder=br.Intruder(knows_columns=["age", "spend"]),
        guesses={"income": br.Grid(percent=20, n=5)},
        targets=[0, 5],
    )
    assert list(risk.by_column.index)[0] == "income"
    assert risk.by_column.loc["income", "mean_probability"] == pytest.approx(0.2)
    assert (risk.by_column.loc[["age", "spend"], "mean_fall"] == 0).all()


def test_records_released_unchanged_stay_known():
    df, mask = table(), np.arange(14) != 5
    fit = REGRESSION.fit(df, draws=4, chains=2, random_seed=1)
    release = released(df, ["income", "spend"], mask=mask)
    risk = br.attribute_risk(fit, release, guesses=GRIDS, targets=[5])
    assert (risk.by_column["mean_probability"] == 1).all()
    assert "No single synthesised column is disclosive" in risk.tables()["by-column"].note


# --- where it is not told, and where it is said ----------------------------------------------


def test_one_column_alone_is_all_the_evidence():
    df = table()
    fit = REGRESSION.fit(df, draws=4, chains=2, random_seed=1)
    release = released(df, ["spend"])
    risk = br.attribute_risk(fit, release, guesses={"spend": GRIDS["spend"]}, targets=[5])
    assert risk.by_column is None
    assert risk.not_by_column == "one column was synthesised, and all the evidence is its"


def test_joint_models_and_whole_releases_have_no_factors():
    risk = br.attribute_risk(fit_of("DPMPM"), release_of("DPMPM"), targets=3, random_seed=1)
    assert risk.by_column is None
    assert "no factor for each column" in risk.tables()["by-column"].note
    assert risk.line().startswith("Worst record: mainly from data set ")
    fit = REGRESSION.fit(table(), draws=20, chains=2, random_seed=1)
    release = encoded(fit, released(table(), ["income", "spend"]))
    assert isinstance(fit.factors("importance", release, None), str)
    assert isinstance(fit.factors("imputed", release, None), str)


def test_the_first_releases_have_their_own():
    df, release, evidence = regression()
    fit = REGRESSION.fit(df, draws=4, chains=2, random_seed=1)
    alone = br.attribute_risk(fit, release.first(1), guesses=GRIDS, targets=[0, 5, 8])
    found = evidence.first(1).risk()
    assert np.allclose(found.by_column.loc[alone.by_column.index], alone.by_column, atol=ROUNDING)


def test_of_large_audits_those_of_the_first_releases_are_not_kept(monkeypatch):
    whole = regression()[2].risk()
    monkeypatch.setattr(contract, "CELLS", 1)
    evidence = regression()[2]
    assert evidence.found.by_column.shape[1] == 1
    assert np.allclose(evidence.risk().by_column, whole.by_column, atol=ROUNDING)
    assert evidence.first(1).risk().not_by_column == "of the first releases it is not kept"


def test_searched_guesses_have_none():
    evidence = dataclasses.replace(regression()[2], searched="uniform")
    assert "searched" in evidence.risk("uniform").not_by_column


TABLE = pd.DataFrame(
    {
        "mean_probability": [0.12, 0.6],
        "max_probability": [0.3, 0.9],
        "mean_fall": [0.53, 0.05],
        "max_fall": [0.65, 0.05],
    },
    index=pd.Index(["income", "spend"], name="column"),
)


def test_it_is_said_in_a_sentence_on_the_screen_in_the_report_and_in_the_summary(tmp_path):
    risk = dataclasses.replace(attribute(), by_column=TABLE)
    sentence = (
        "income is the most disclosive synthesised column: without its evidence the mean "
        "probability is 0.120 instead of 0.650."
    )
    assert risk.tables()["by-column"].note == sentence
    page = br.report(risk, tmp_path / "report.html").read_text()
    assert sentence in page
    assert "attribute-by-column" in page
    assert list(risk.to_dict()["by_column"].index) == ["income", "spend"]
    shown = screen(study_result(risk=risk), 80)
    line = "Most disclosive column: income (mean 0.650, without its evidence 0.120)"
    assert line in [found.rstrip() for found in shown]


def test_why_not_is_said_in_the_report(tmp_path):
    risk = dataclasses.replace(attribute(), not_by_column="one column was synthesised")
    page = br.report(risk, tmp_path / "report.html").read_text()
    assert "was not computed: one column was synthesised." in page
