"""Predictive mean matching: who is synthesised, from whom, and the evidence of a release."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from threadpoolctl import threadpool_limits

import bayes_risk as br
from bayes_risk import InputError
from bayes_risk._core.errors import ModelError
from bayes_risk.models.fits import sampling
from bayes_risk.models.pmm import mechanism as pmm_mechanism
from bayes_risk.models.pmm import pmm as pmm_fit
from bayes_risk.models.pmm.mechanism import sensitive
from bayes_risk.models.pmm.pmm import PMM
from tests.oracles.pmm_tables import (
    FAR,
    IV,
    numbers,
    small_fit,
    small_table,
    with_odd_ones,
)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Fits of a few records: threads of BLAS would only wait for each other."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield


# --- selection -------------------------------------------------------------------------------


def test_sensitive_records_are_those_of_small_cells():
    keys = np.array([[0, 1], [0, 1], [0, 2], [1, 1], [0, 1]])
    assert sensitive(keys, 1).tolist() == [False, False, True, True, False]
    assert sensitive(keys, 3).all()
    fit = small_fit()
    found = small_table()[fit.chosen][IV].astype(str).value_counts()
    assert found.to_dict() == {("r", "u"): 2, ("q", "v"): 1}
    assert (fit.diagnostics["vulnerable"], fit.diagnostics["kept"]) == (3, 19)


def test_numbers_are_cut_for_the_selection():
    df = numbers()
    fit = PMM(
        ["disease"], identifying=["disease", "health"], cuts={"disease": [10, 20]}, threshold=8
    ).fit(df)
    cells = df.groupby([np.digitize(df["disease"], [10, 20]), "health"], observed=True)["visits"]
    assert (fit.chosen == (cells.transform("size") <= 8)).all()


# --- synthesis -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gam", "linear"])
def test_numbers_take_values_of_kept_records(kind):
    df = numbers()
    model = PMM(
        ["disease", "health"],
        identifying=["health", "coinsurance"],
        threshold=8,
        models={"disease": kind},
        donors=3,
    )
    fit = model.fit(df)
    release = fit.synthesize(3, random_seed=1)
    kept = df[~fit.chosen]
    for table in release.datasets:
        assert table.dtypes.equals(df.dtypes)
        pd.testing.assert_frame_equal(table[~fit.chosen], kept)
        assert table["disease"].isin(kept["disease"]).all()
        pd.testing.assert_series_equal(table["visits"], df["visits"])
    assert not release.datasets[0].equals(release.datasets[1])


def test_further_predictors_count_and_are_not_released():
    df = small_table().rename_axis("id")
    extra = pd.DataFrame({"weight": np.where(df["a"] == "p", 1.0, 9.0)}, index=df.index)
    model = PMM(IV, identifying=IV, threshold=2)
    fit = model.fit(df, extra=extra.iloc[::-1])
    release = fit.synthesize(30, random_seed=1)
    assert list(release.datasets[0].columns) == ["a", "b", "c"]
    taken = pd.concat([t.loc[fit.chosen, "a"] for t in release.datasets])
    assert (taken != "p").all()  # the weight tells who is no p
    plain = model.fit(df).synthesize(30, random_seed=1)
    assert (pd.concat([t.loc[fit.chosen, "a"] for t in plain.datasets]) == "p").any()


@pytest.mark.parametrize("later", ["genuine", "filled"])
def test_constraints_hold_and_redraws_are_counted(later):
    def possible(table):
        return (table["c"] != "odd") | (table["a"] == "q")

    df = with_odd_ones()
    plain = small_fit(df, later=later).synthesize(60, random_seed=3)
    assert sum(int((~possible(t)).sum()) for t in plain.datasets) > 0
    fit = small_fit(df, later=later, constraints=[possible])
    release = fit.synthesize(60, random_seed=3)
    assert all(possible(t).all() for t in release.datasets)
    assert fit.diagnostics["redraws"] > 0


# --- evidence --------------------------------------------------------------------------------


def no_p_u_with_y(table):
    return ~((table["a"] == "p") & (table["b"] == "u") & (table["c"] == "y"))


OPTIONS = {
    "genuine": {},
    "filled": {"later": "filled"},
    "nine donors": {"donors": 9},
    "genuine, constrained": {"constraints": [no_p_u_with_y]},
    "filled, constrained": {"later": "filled", "constraints": [no_p_u_with_y]},
}


def all_guesses():
    return br.Listed(pd.DataFrame(list(itertools.product("pqr", "uv")), columns=IV))


def evidence_of(fit, release, target):
    risk = br.attribute_risk(
        fit, release, guesses=all_guesses(), targets=[target], evidence="refit"
    )
    return risk, risk.log_evidence.sum(axis=0)[:, 0]  # shape (G,)


def frequency(fit, codes, z, rng, R=8_000):
    """Share of runs on a guessed table in which each sensitive record gets its released values.

    Log of their product, its standard error, and the records that are sensitive.
    """
    try:
        made = fit(codes)
    except InputError:  # no record is sensitive: all are released as they are
        return float(np.log((codes == z).all())), 0.0, np.zeros(len(z), dtype=bool)
    if (codes[~made.chosen] != z[~made.chosen]).any():
        return -np.inf, 0.0, made.chosen
    rows = made.rows[made.chosen]
    drawn, _ = made.base.synthesize(np.tile(rows, (R, 1)), rng)
    hit = (drawn.reshape(R, len(rows), -1)[:, :, :2] == z[made.chosen][:, :2]).all(axis=2)
    p = hit.mean(axis=0)
    joint = p.prod()  # records draw independently of one another
    assert abs(hit.all(axis=1).mean() - joint) <= FAR * np.sqrt(joint * (1 - joint) / R) + FAR / R
    if not p.all():
        return -np.inf, 0.0, made.chosen
    return float(np.log(joint)), float(np.sqrt(((1 - p) / (R * p)).sum())), made.chosen


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_evidence_is_the_frequency_with_which_the_release_is_made(name):
    """The whole procedure, selection included, run on the table of every guess."""
    df, rng = small_table(), np.random.default_rng(6)
    if "constrained" in name:
        df = df[no_p_u_with_y(df)].reset_index(drop=True)
    hidden = small_fit(df, selection="hidden", **OPTIONS[name])
    known = small_fit(df, **OPTIONS[name])
    target = int(np.flatnonzero(hidden.chosen)[0])
    release = hidden.synthesize(1, random_seed=5)
    z = release.codes(hidden.microdata, 0)
    risk, log_hidden = evidence_of(hidden, release, target)
    _, log_known = evidence_of(known, release, target)
    simulated, error, same = [], [], []
    for guess in risk.guesses[:, 0]:
        codes = hidden.microdata.codes.copy()
        codes[target, [0, 1]] = guess
        log_p, se, chosen = frequency(
            lambda codes: small_fit(hidden.microdata.decode(codes), **OPTIONS[name]), codes, z, rng
        )
        simulated.append(log_p)
        error.append(se)
        same.append((chosen == hidden.chosen).all())
    truth = int(risk.truth[0])
    same, simulated = np.array(same), np.array(simulated) - simulated[truth]
    limit = FAR * np.hypot(error, error[truth]) + 1e-12
    for found, expected in (
        (log_hidden, simulated),
        (log_known, np.where(same, simulated, -np.inf)),
    ):
        assert (np.isfinite(found) == np.isfinite(expected)).all()
        sure = np.isfinite(found)
        assert (np.abs(found[sure] - expected[sure]) <= limit[sure]).all()
    assert np.isfinite(log_hidden).sum() >= 2 and np.isfinite(log_known).sum() >= 1


def test_with_filled_columns_and_a_known_selection_only_the_selection_speaks():
    fit = small_fit(later="filled")
    release = fit.synthesize(3, random_seed=5)
    risk = br.attribute_risk(fit, release, guesses=all_guesses(), evidence="exact")
    log_evidence = risk.log_evidence.sum(axis=0)
    allowed = np.isfinite(log_evidence)
    assert log_evidence[allowed] == pytest.approx(0)
    # guesses in cells that hold at most one other record leave the same records sensitive
    for u, truth in enumerate(risk.truth):
        others = small_table()[IV].drop(index=risk.index[risk.case == u][0]).value_counts()
        for g, codes in enumerate(risk.guesses[:, u]):
            cell = ("pqr"[codes[0]], "uv"[codes[1]])
            assert allowed[g, u] == (others.get(cell, 0) < 2)
        assert allowed[truth, u]


@pytest.mark.parametrize("seed", range(4))
def test_selections_told_from_counts_are_those_of_guessed_tables(seed, monkeypatch):
    """Every guess of every sensitive record put into the table, and the cells counted again."""
    rng = np.random.default_rng(seed)
    threshold = int(rng.integers(2, 5))
    df = small_table().sample(18, random_state=seed, ignore_index=True)
    extra = rng.choice(list("pqr"), 30, p=[0.8, 0.1, 0.1])
    more = pd.DataFrame({"a": extra, "b": rng.choice(list("uv"), 30), "c": "y"})
    df = pd.concat([df, more], ignore_index=True).astype(df.dtypes)
    fit = PMM(IV, threshold=threshold, identifying=IV).fit(df)
    seen = []
    stop = "closed_form", lambda *given, **how: seen.append(given[3]) or 1 / 0
    monkeypatch.setattr(pmm_fit.PMMFit, *stop)
    with pytest.raises(ZeroDivisionError):
        br.attribute_risk(fit, fit.synthesize(1, random_seed=1), guesses=all_guesses())
    (targets,) = seen
    differ, chosen_under = fit._selections(targets)
    assert differ.any() and fit.chosen[targets.record].any()
    for g, u in np.ndindex(*differ.shape):
        if fit.chosen[targets.record[u]]:
            codes = df[IV].apply(lambda c: c.cat.codes).to_numpy().copy()
            codes[targets.record[u]] = targets.guesses.codes[g, u]
            chosen = sensitive(codes.astype(float), threshold)
            assert differ[g, u] == (chosen != fit.chosen).any()
            if differ[g, u]:
                assert (chosen_under(g, u) == chosen).all()


def test_what_is_done_in_blocks_is_done_alike(monkeypatch):
    fit = small_fit(selection="hidden")
    release = fit.synthesize(3, random_seed=2)
    whole = br.attribute_risk(fit, release, guesses=all_guesses(), evidence="refit")
    monkeypatch.setattr(pmm_fit, "ROWS", 20)
    monkeypatch.setattr(sampling, "MAX_CELLS", 30)
    parts = br.attribute_risk(fit, release, guesses=all_guesses(), evidence="refit")
    np.testing.assert_allclose(parts.log_evidence, whole.log_evidence, rtol=1e-12)


def test_hidden_selection_allows_the_released_values_themselves():
    fit = small_fit(selection="hidden", later="filled")
    release = fit.synthesize(1, random_seed=1)
    target = int(np.flatnonzero(fit.chosen)[0])
    risk, log_p = evidence_of(fit, release, target)
    z = release.codes(fit.microdata, 0)[target, :2]
    own = (risk.guesses[:, 0] == z).all(axis=1)
    cells = small_table()[IV].value_counts()
    large = np.array([cells.get(("pqr"[a], "uv"[b]), 0) > 2 for a, b in risk.guesses[:, 0]])
    assert np.isneginf(log_p[large & ~own]).all()
    assert np.isfinite(log_p[own & large]).all() and (own & large).any()


def test_more_data_sets_show_which_records_differ():
    fit = small_fit(selection="hidden", later="filled")
    release = fit.synthesize(12, random_seed=1)
    target = int(np.flatnonzero(fit.chosen)[0])
    _, hidden = evidence_of(fit, release, target)
    _, known = evidence_of(small_fit(later="filled"), release, target)
    assert np.exp(hidden) == pytest.approx(np.exp(known))


def test_evidence_does_not_depend_on_other_targets_or_on_order():
    fit = small_fit()
    release = fit.synthesize(2, random_seed=3)
    together = br.attribute_risk(fit, release, guesses=all_guesses(), evidence="exact")
    alone, log_p = evidence_of(fit, release, int(together.index[-1]))
    assert together.log_evidence.sum(axis=0)[:, together.case[-1]] == pytest.approx(log_p)
    assert (together.mcse == 0).all() and together.reliable.all()
    assert "their own values" in together.assumptions["synthesis"]


def test_the_work_is_told_before_it_starts():
    fit = small_fit(selection="hidden")
    release = fit.synthesize(1, random_seed=1)
    told = []
    br.attribute_risk(
        fit,
        release,
        guesses=all_guesses(),
        evidence="refit",
        progress=lambda *stage: told.append(stage),
    )
    assert told[0][0].startswith("refits, about ") and told[0][1] == 0
    assert told[-1][1] == told[-1][2] == len(told) - 1


# --- errors ----------------------------------------------------------------------------------


def test_what_cannot_be_is_an_error():
    df = small_table()
    with pytest.raises(InputError, match="extra has .'a'. in common"):
        PMM(IV, identifying=IV, threshold=2).fit(df, extra=df[["a"]])

    def never_odd(table):
        return table["c"] != "odd"

    for later in ("genuine", "filled"):
        fit = small_fit(with_odd_ones(), constraints=[never_odd], later=later)
        with pytest.raises(ModelError, match="loosen constraints"):
            fit.synthesize(1, random_seed=1)


def test_releases_of_others_are_errors():
    fit = small_fit()
    release = fit.synthesize(1, random_seed=1)
    other = small_fit(threshold=4)
    with pytest.raises(InputError, match="audit a release with the fit that made it"):
        br.attribute_risk(other, release, guesses=all_guesses(), evidence="exact")
    with pytest.raises(InputError, match="leaves out some of"):
        fit.synthesize(1, columns=["a"])
    with pytest.raises(InputError, match="'predictive' is not offered by PMM"):
        br.attribute_risk(fit, release, guesses=all_guesses(), evidence="predictive")
    table = release.datasets[0].copy()
    table.loc[fit.chosen, IV] = ["r", "v"]
    table.loc[fit.chosen, "b"] = "u"  # nobody who is kept has r and u
    forged = br.Release(datasets=[table], synthesized=IV, records=fit.chosen)
    with pytest.raises(InputError, match="this fit cannot draw"):
        br.attribute_risk(fit, forged, guesses=all_guesses(), evidence="exact")


def test_budgets_are_errors_that_name_the_cure(monkeypatch):
    fit = small_fit(selection="hidden")
    release = fit.synthesize(1, random_seed=1)
    monkeypatch.setattr(pmm_fit, "MAX_REFITS", 0)
    with pytest.raises(InputError, match=r"more than 0; audit fewer targets at a time \(targets\)"):
        br.attribute_risk(fit, release, guesses=all_guesses(), evidence="refit")
    df = small_table()
    df = df[no_p_u_with_y(df)]
    filled = small_fit(df, later="filled", constraints=[no_p_u_with_y])
    made = filled.synthesize(1, random_seed=1)
    monkeypatch.setattr(pmm_mechanism, "MAX_FILLS", 5)
    with pytest.raises(InputError, match='6 combinations .* use later="genuine"'):
        br.attribute_risk(filled, made, guesses=all_guesses(), evidence="exact")


def test_guessed_numbers_have_evidence():
    df = numbers()
    model = PMM(["disease"], identifying=["health", "coinsurance"], threshold=8)
    fit = model.fit(df)
    release = fit.synthesize(2, random_seed=1)
    grid = {"disease": br.Grid(additive=5, n=5)}
    risk = br.attribute_risk(fit, release, guesses=grid, evidence="exact")
    # the selection does not look at the number, and nothing comes later: nothing is learnt
    assert np.exp(risk.log_probability) == pytest.approx(0.2)


def test_chances_agree_with_a_reference_distribution():
    # a check of the checker: shares of draws against chi-square
    fit = small_fit(donors=2)
    rows = fit.rows[fit.chosen][:1]
    drawn, _ = fit.base.synthesize(np.repeat(rows, 4000, axis=0), np.random.default_rng(8))
    values, count = np.unique(drawn[:, :2], axis=0, return_counts=True)
    p = np.exp(fit.base.log_chances(np.repeat(rows, len(values), axis=0), values).sum(axis=0))
    assert p.sum() == pytest.approx(1)
    assert stats.chisquare(count, p * 4000).pvalue > 1e-4
