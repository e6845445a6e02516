"""What must hold of every result, whatever the study."""

from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br

SUM = 1e-9  # log-sum-exp of at most 10^5 guesses


def check_attribute(risk: br.AttributeRisk) -> None:
    """Probabilities, ranks, factors and errors are what they say, or say that they are not."""
    p, prior = np.exp(risk.log_probability), np.exp(risk.log_prior)
    for what in (p, prior):
        assert np.isfinite(what).all() and (what >= 0).all() and (what <= 1 + SUM).all()
        assert np.allclose(what.sum(axis=0), 1, atol=SUM)
    assert not np.isnan(risk.log_evidence).any()
    assert not np.isnan(risk.mcse).any() and (risk.mcse >= 0).all()
    assert not np.isnan(risk.khat).any() and not np.isnan(risk.ess).any()
    table = risk.records
    assert ((table["rank"] >= 1) & (table["rank"] <= risk.n_guesses)).all()
    assert (table["ties"] >= 0).all()
    assert ((table["left_out"] >= 0) & (table["left_out"] <= 1)).all()
    check_factors(risk, table)
    check_flags(risk, table)


def check_factors(risk: br.AttributeRisk, table: pd.DataFrame) -> None:
    """No factor only where the prior settles it; an infinite one only where guesses are ruled out.

    Where every other guess is impossible the odds are infinite, and where the truth is, minus that.
    """
    factor = table["log_bayes_factor"]
    truth, cases = risk.truth, np.arange(len(risk.truth))
    settled = np.isneginf(risk.log_prior[truth, cases]) | (np.isfinite(risk.log_prior).sum(0) == 1)
    assert not (factor.isna().to_numpy() & ~settled[risk.case]).any()
    ruled_out = (np.isneginf(risk.log_probability) & np.isfinite(risk.log_prior)).any(axis=0)
    small = (risk.log_probability < -700).any(axis=0)
    allowed = ruled_out | small | settled | risk.disclosed
    assert not (np.isinf(factor).to_numpy() & ~allowed[risk.case]).any()


def check_flags(risk: br.AttributeRisk, table: pd.DataFrame) -> None:
    """A number that cannot be trusted is marked in records, in summary and in words."""
    trusted = table[table["reliable"]]
    assert np.isfinite(trusted["mcse"]).all() and (trusted["mcse"] <= 0.05).all()
    assert (trusted["left_out"] <= 0.02).all()
    doubtful = int((~table["reliable"]).sum())
    assert risk.summary().loc["unreliable", "value"] == doubtful
    said = f"{doubtful} records are marked unreliable" if doubtful else "No record is marked"
    said = "1 record is marked unreliable" if doubtful == 1 else said
    assert said in risk.sentence() and said in repr(risk)
    values = risk.summary().loc[["mean_probability", "max_probability"]]
    assert np.isfinite(values.to_numpy()).all()
    label = risk.index[0]
    one = risk.posterior(label)
    assert np.isclose(one["probability"].sum(), 1, atol=SUM)
    assert bool(one["is_truth"].sum() == 1)


def check_loss(loss: br.PrivacyLoss) -> None:
    """Privacy loss is a distance: not negative, with an error, infinite where guesses fall."""
    table = loss.records
    assert not table["privacy_loss"].isna().any() and (table["privacy_loss"] >= 0).all()
    assert (table["odds_factor"] >= 1).all()
    assert ((table["even_odds_become"] >= 0.5) & (table["even_odds_become"] <= 1)).all()
    trusted = table[table["reliable"]]
    bounded = trusted[trusted["ruled_out"] == 0]  # else the loss is infinite, without an error
    assert np.isfinite(bounded["mcse"]).all() and (bounded["mcse"] >= 0).all()
    assert loss.summary().loc["unreliable", "value"] == (~table["reliable"]).sum()


def check_identification(risk: br.IdentificationRisk) -> None:
    """Counts, flags and probabilities of matching keep to their definitions."""
    n = risk.n
    for c, T, K, F in (
        (risk.c, risk.T, risk.K, risk.F),
        (risk.pooled_c, risk.pooled_T, risk.pooled_K, risk.pooled_F),
    ):
        assert (c >= 0).all() and (c <= n).all()
        assert (K == ((c == 1) & T)).all() and (F == ((c == 1) & ~T)).all()
        assert not (T & (c == 0)).any()
    table, summary = risk.records, risk.summary()
    for name in ("probability", "outside", "baseline"):
        assert ((table[name] >= 0) & (table[name] <= 1)).all()
    assert np.isclose(table["baseline"].sum(), risk.baseline_expected_match_risk)
    expected = summary["expected_match_risk"]
    assert ((expected >= 0) & (expected <= n * (1 + SUM))).all()
    for name in ("true_match_rate", "false_match_rate"):
        values = summary[name].dropna()
        assert ((values >= 0) & (values <= 1)).all()
    assert np.isclose(table["probability"].sum(), expected["pooled"])


def check_utility(found: br.Utility) -> None:
    """Distances are distances, shares are shares; what is not known is NaN in the null alone."""
    table = found.summary()
    for name, value in table["value"].items():
        if any(w in str(name) for w in ("total_variation", "hellinger", "specks")):
            assert np.isnan(value) or -SUM <= value <= 1 + SUM, name
        if str(name).startswith("pmse"):
            assert np.isnan(value) or 0 <= value <= 1, name
        assert not np.isinf(value), name


def check_context(found: br.ContextMeasures) -> None:
    """Shares lie between 0 and 1."""
    table = found.summary()
    values = table["value"] if "value" in table else table.iloc[:, 0]
    assert not np.isinf(values.to_numpy(dtype=float)).any()


def check_every(results: dict[str, Any]) -> None:
    """All that a study has given."""
    checks: dict[str, Any] = {
        "attribute": check_attribute,
        "loss": check_loss,
        "identification": check_identification,
        "utility": check_utility,
        "context": check_context,
    }
    for name, check in checks.items():
        if name in results:
            check(results[name])
