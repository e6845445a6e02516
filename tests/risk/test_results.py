"""Attribute risk as it is read: numbers made by hand, and what may leave the house."""

from dataclasses import FrozenInstanceError, replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayes_risk as br
from bayes_risk.data.variables import Number, Variable
from tests.helpers.one_class import one_class
from tests.oracles.kernel_twins import simulate

SECRET = "Zwiebelschneider"


def by_hand(p, prior=None, *, truth=None, case=None, index=None, disclosed=None, **changes):
    """Probabilities (G, U) of one guessed variable; the truth is guess 0 unless given."""
    p = np.asarray(p, dtype=float)
    G, U = p.shape
    prior = np.full((G, U), 1 / G) if prior is None else np.asarray(prior, dtype=float)
    truth = np.zeros(U, dtype=np.int64) if truth is None else np.asarray(truth)
    case = np.arange(U) if case is None else np.asarray(case)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p, log_prior = np.log(p), np.log(prior)
        log_e = log_p - log_prior
    log_e = log_e - np.take_along_axis(log_e, truth[None], axis=0)
    made = br.AttributeRisk(
        index=pd.RangeIndex(len(case)) if index is None else pd.Index(index),
        case=case,
        variables=(Variable("job", (SECRET, *(f"job {g}" for g in range(1, G))), False, object),),
        guesses=np.tile(np.arange(G)[:, None, None], (1, U, 1)),
        truth=truth,
        log_evidence=np.stack([0.25 * log_e, 0.75 * log_e]),
        log_prior=log_prior,
        log_probability=log_p,
        mcse_log_evidence=np.full((G, U), 0.1),
        deviations=0.02 * np.array([1.0, -1.0, 1.0, -1.0])[None, :, None] * np.ones((3, 1, U)),
        mcse=np.full(U, 0.02),
        mcse_log_bayes_factor=np.full(U, 0.1),
        khat=np.full(U, 0.1),
        ess=np.full(U, 400.0),
        reliable=np.ones(U, dtype=bool),
        disclosed=np.zeros(U, dtype=bool) if disclosed is None else np.asarray(disclosed),
        left_out=np.zeros(U),
        assumptions={
            "records": "The intruder knows every record but the target's.",
            "releases": "m = 2",
        },
        seed_entropy="12",
    )
    return replace(made, **changes)


def test_columns_and_rows_are_part_of_the_contract():
    risk = by_hand([[0.5, 0.2], [0.3, 0.2], [0.2, 0.6]], index=["anna", "ben"])
    assert list(risk.records.columns) == [
        "prior", "probability", "mcse", "low", "high", "rank", "ties", "log_bayes_factor",
        "mcse_log_bayes_factor", "khat", "ess", "reliable", "disclosed", "left_out",
    ]  # fmt: skip
    assert risk.records.index.tolist() == ["anna", "ben"]
    assert list(risk.summary().columns) == ["value", "mcse", "baseline", "low", "high"]
    assert list(risk.summary().index) == [
        "mean_probability", "median_probability", "q95_probability", "max_probability",
        "share_ranked_first", "mean_rank", "targets", "disclosed", "unreliable",
    ]  # fmt: skip


def test_the_summary_says_where_another_audit_would_find_its_probabilities():
    risk = by_hand([[0.5, 0.2], [0.3, 0.2], [0.2, 0.6]])
    interval = np.array([[0.45, 0.10], [0.60, 0.35]])
    found = replace(risk, interval=interval).summary()[["low", "high"]]
    assert found.loc["max_probability"].tolist() == [0.45, 0.60]
    assert found.loc["median_probability"].tolist() == pytest.approx([0.275, 0.475])
    error = 1.96 * np.sqrt(2) * risk.summary().loc["mean_probability", "mcse"]
    assert found.loc["mean_probability"].tolist() == pytest.approx([0.35 - error, 0.35 + error])
    assert found.loc[["share_ranked_first", "targets"]].isna().all(axis=None)
    by_mode = np.array([[0.5, 0.1], [0.55, 0.3]])  # means 0.3 and 0.425
    open_ = replace(risk, interval=interval, by_mode=by_mode).summary().loc["mean_probability"]
    assert open_[["low", "high"]].tolist() == pytest.approx([0.3 - error, 0.425 + error])
    beside = replace(risk, priors={"predictive": replace(risk, interval=interval)}).summary()
    assert beside.loc["max_probability_predictive", "high"] == 0.60


def test_rank_with_ties():
    risk = by_hand(
        [
            [0.4, 0.25, 0.1, 0.3, 0.2],
            [0.3, 0.25, 0.5, 0.3, 0.2],
            [0.2, 0.25, 0.3, 0.3, 0.3],
            [0.1, 0.25, 0.1, 0.1, 0.3],
        ]
    )
    assert risk.records["rank"].tolist() == [1, 1, 3, 1, 3]
    assert risk.records["ties"].tolist() == [0, 3, 1, 2, 1]
    # ties share the first place: 1 + 1/4 + 0 + 1/3 + 0, of five
    assert np.isclose(risk.summary().loc["share_ranked_first", "value"], (1 + 1 / 4 + 1 / 3) / 5)
    assert np.isclose(risk.summary().loc["share_ranked_first", "baseline"], 1 / 4)
    assert np.isclose(risk.summary().loc["mean_rank", "value"], (1 + 2.5 + 3.5 + 2 + 3.5) / 5)
    assert np.isclose(risk.summary().loc["mean_rank", "baseline"], 2.5)


def test_ranks_forgive_rounding():
    risk = by_hand([[0.25], [0.25 * (1 + 1e-12)], [0.5]])
    assert risk.records["rank"].tolist() == [2] and risk.records["ties"].tolist() == [1]


def test_log_bayes_factor():
    """Posterior odds 0.5 / 0.5 over prior odds 0.2 / 0.8: log 4."""
    risk = by_hand([[0.5], [0.3], [0.2]], [[0.2], [0.4], [0.4]])
    assert np.isclose(risk.records["log_bayes_factor"][0], np.log(4))


def test_log_bayes_factor_keeps_its_digits_near_one():
    p = np.array([[1.0], [3e-20], [1e-20]])
    risk = by_hand(p, [[0.2], [0.4], [0.4]])
    assert np.isclose(risk.records["log_bayes_factor"][0], np.log(1 / 4e-20) - np.log(0.2 / 0.8))


def test_other_truths():
    risk = by_hand([[0.5, 0.2], [0.3, 0.2], [0.2, 0.6]], truth=[2, 2])
    assert np.allclose(risk.records["probability"], [0.2, 0.6])
    assert risk.records["rank"].tolist() == [3, 1]


def test_summary_counts_records_not_cases():
    risk = by_hand(
        [[0.5, 0.9], [0.3, 0.05], [0.2, 0.05]],
        case=[0, 1, 0, 0],
        reliable=np.array([False, True]),
    )
    rows = risk.summary()
    assert np.isclose(rows.loc["mean_probability", "value"], (0.5 * 3 + 0.9) / 4)
    assert np.isclose(rows.loc["mean_probability", "baseline"], 1 / 3)
    assert np.isclose(rows.loc["median_probability", "value"], 0.5)
    assert np.isclose(rows.loc["max_probability", "value"], 0.9)
    assert rows.loc["targets", "value"] == 4 and rows.loc["unreliable", "value"] == 3


def test_errors_of_means_do_not_shrink_with_records():
    """All records share their draws: 3 fits, s^2 / B of +-0.02 is 0.0004 / 3 each."""
    one, many = by_hand([[0.5], [0.5]]), by_hand([[0.5], [0.5]], case=[0] * 1000)
    for risk in (one, many):
        assert np.isclose(risk.summary().loc["mean_probability", "mcse"], np.sqrt(3 * 0.0004 / 3))


def test_worst_records_come_first():
    risk = by_hand([[0.1, 0.9, 0.5], [0.9, 0.1, 0.5]], index=["a", "b", "c"])
    assert risk.worst(2).index.tolist() == ["b", "c"]
    assert len(risk.worst()) == 3


def test_posterior_of_a_record():
    risk = by_hand([[0.2], [0.7], [0.1]], [[0.5], [0.25], [0.25]], index=["anna"])
    found = risk.posterior("anna")
    assert list(found.columns) == ["job", "prior", "probability", "log_evidence", "is_truth"]
    assert found["job"].tolist() == ["job 1", SECRET, "job 2"]
    assert np.allclose(found["probability"], [0.7, 0.2, 0.1])
    assert np.allclose(found["prior"], [0.25, 0.5, 0.25])
    assert found["is_truth"].tolist() == [False, True, False]
    # evidence of both releases together: log (0.7 / 0.25) - log (0.2 / 0.5)
    assert np.allclose(found["log_evidence"], np.log([0.7 / 0.1, 1.0, 0.1 / 0.1]))
    with pytest.raises(br.InputError, match="record 'ben' is not among the 1 targets"):
        risk.posterior("ben")


def test_guesses_that_do_not_count_are_not_shown():
    risk = by_hand([[0.4], [0.0], [0.6]], [[0.5], [0.0], [0.5]])
    assert risk.posterior(0)["job"].tolist() == ["job 2", SECRET]


def test_nothing_can_be_changed():
    risk = by_hand([[0.5], [0.5]])
    with pytest.raises(FrozenInstanceError):
        risk.mcse = np.zeros(1)


def test_dataset_goes_through_netcdf(tmp_path):
    risk = by_hand([[0.5, 0.9], [0.3, 0.05], [0.2, 0.05]], case=[0, 1, 0], index=["a", "b", "c"])
    for confidential in (True, False):
        data = risk.to_dataset(confidential=confidential)
        data.to_netcdf(tmp_path / f"{confidential}.nc", engine="h5netcdf")
        with xr.open_dataset(tmp_path / f"{confidential}.nc", engine="h5netcdf") as back:
            xr.testing.assert_identical(back.load(), data)
    assert risk.dataset["posterior"].dims == ("guess", "case")
    of_record = risk.dataset["posterior"][:, risk.dataset["case_of_record"]]
    assert of_record.dims == ("guess", "record")
    assert np.allclose(of_record, [[0.5, 0.9, 0.5], [0.3, 0.05, 0.3], [0.2, 0.05, 0.2]])
    assert risk.dataset["log_evidence"].dims == ("release", "guess", "case")
    assert risk.dataset["record"].to_numpy().tolist() == ["a", "b", "c"]
    assert np.allclose(risk.dataset["probability"], risk.records["probability"])
    assert np.allclose(risk.dataset["prior_of_truth"], risk.records["prior"])
    assert risk.dataset.attrs["random_seed"] == "12"


def test_numbers_go_through_netcdf_as_they_are(tmp_path):
    risk = by_hand(
        [[0.5], [0.3], [0.2]],
        variables=(Number("wage", False, "float64"),),
        guesses=np.array([1.5, 2.25, -3.0])[:, None, None],
    )
    for confidential in (True, False):
        data = risk.to_dataset(confidential=confidential)
        data.to_netcdf(tmp_path / f"{confidential}.nc", engine="h5netcdf")
        with xr.open_dataset(tmp_path / f"{confidential}.nc", engine="h5netcdf") as back:
            xr.testing.assert_identical(back.load(), data)
        assert ("guess_code" in data) == confidential
    assert risk.dataset["guess_code"].to_numpy().ravel().tolist() == [1.5, 2.25, -3.0]
    assert risk.posterior(0)["wage"].tolist() == [1.5, 2.25, -3.0]
    assert risk.posterior(0, "wage")["wage"].tolist() == [-3.0, 1.5, 2.25]


def test_confidential_values_leave_only_if_asked_for(tmp_path):
    risk = by_hand([[0.5], [0.3], [0.2]])
    shut, open_ = risk.to_dataset(), risk.dataset
    assert "guess_code" not in shut and not any(k.startswith("levels_") for k in shut.attrs)
    assert open_["guess_code"].dims == ("guess", "case", "variable")
    assert SECRET in open_.attrs["levels_job"]
    for name, data in {"shut": shut, "open": open_}.items():
        data.to_netcdf(tmp_path / name, engine="h5netcdf")
    assert SECRET.encode() not in (tmp_path / "shut").read_bytes()
    assert SECRET.encode() in (tmp_path / "open").read_bytes()
    for text in (repr(risk), risk.records.to_csv(), risk.summary().to_csv(), risk.sentence()):
        assert SECRET not in text


def test_one_screen_with_a_sentence():
    risk = by_hand([[0.5, 0.9], [0.5, 0.1]], disclosed=[False, False])
    text = repr(risk)
    assert len(text.splitlines()) <= 24
    assert "Choosing among 2 guesses for each of 2 records" in text
    assert "0.700 on average (0.500 without the release) and 0.900 (+- 0.040) in the worst" in text
    assert "No record is marked unreliable." in text


@cache
def fitted():
    """A table of 40 records, and a fit whose posterior is known: no tuning, no thinning."""
    table = simulate(40, (3, 2), seed=71)
    return table, one_class(table, draws=10)


@cache
def released():
    return fitted()[1].synthesize(1, random_seed=2)


def test_a_real_result_keeps_its_promises():
    table, fit = fitted()
    risk = br.attribute_risk(fit, fit.synthesize(3, ["x0"], random_seed=2), random_seed=3)
    assert np.allclose(np.exp(risk.log_probability).sum(axis=0), 1)
    assert np.allclose(np.exp(risk.log_prior).sum(axis=0), 1)
    truth = np.take_along_axis(risk.log_evidence, risk.truth[None, None], axis=1)
    assert np.abs(truth).max() < 1e-12
    found = risk.posterior(5)
    assert list(found.columns) == ["x0", "prior", "probability", "log_evidence", "is_truth"]
    assert found.loc[found["is_truth"], "x0"].item() == table["x0"][5]
    assert isinstance(found["x0"].dtype, pd.CategoricalDtype)
    assert set(risk.assumptions) == {
        "records", "columns", "synthesis", "prior", "guesses", "evidence", "releases",
    }  # fmt: skip
    assert risk.plot() is not None


def test_targets_by_label_mask_and_number():
    table = simulate(40, (3, 2), seed=71).set_axis([f"r{i}" for i in range(40)])
    fit = one_class(table, draws=10)
    release = fit.synthesize(1, random_seed=2)

    def index(targets):
        return br.attribute_risk(fit, release, targets=targets, random_seed=3).index.tolist()

    assert index(["r7", "r3"]) == ["r7", "r3"]
    assert index(np.arange(40) < 2) == ["r0", "r1"]
    drawn = index(5)
    assert len(set(drawn)) == 5 and drawn == index(5)
    assert len(index(100)) == 40 == len(index(None))


def test_unreliable_records_are_warned_of_and_kept_in_the_result():
    """Many copies of a table through few draws: the error exceeds what the result may say."""
    table = simulate(40, (3, 2, 4), 3, seed=72, sharpness=0.2)
    model = br.models.DPMPM(n_classes=4)
    with pytest.warns(br.TruncationWarning):
        fit = model.fit(table, draws=20, tune=20, chains=2, thin=1, random_seed=1)
    release = br.Release(datasets=[table] * 30, synthesized=list(table))
    with pytest.warns(br.UnreliableWeightsWarning, match="records are unreliable .*target_mcse"):
        risk = br.attribute_risk(fit, release, targets=10, random_seed=3, refit_budget=0)
    assert not risk.reliable.all()
    assert risk.summary().loc["unreliable", "value"] == (~risk.records["reliable"]).sum()
    assert "marked unreliable" in risk.sentence()


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_records_are_judged_by_a_target_that_was_not_reached():
    """A target of 95 % of the errors: who is above it is reliable if the others are below."""
    table = simulate(60, (3, 2, 4), 3, seed=72).astype(str)
    table.iloc[0] = ["9", "9", "9"]  # whose odds err by more than all others'
    fit = br.models.DPMPM(n_classes=12).fit(table, draws=1000, tune=50, random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    how = {"random_seed": 3, "refit_budget": 0, "max_doublings": 0}
    plain = br.attribute_risk(fit, release, **how)
    usual = np.quantile(plain.mcse_log_evidence, 0.95)
    reached = br.attribute_risk(fit, release, target_mcse=usual * 1.001, **how)
    missed = br.attribute_risk(fit, release, target_mcse=usual / 3, **how)
    assert np.array_equal(plain.reliable, reached.reliable)
    assert not missed.reliable.all()
