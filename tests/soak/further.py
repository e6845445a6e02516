"""What is asked now and then beside the main risks: membership, full table, bounds, context."""

from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from tests.soak.asking import asked
from tests.soak.studies import Study

SUM = 1e-9


def further(study: Study, fit: Any, release: br.Release) -> dict[str, Any]:
    """Membership and full table where the model has them, bounds of any release."""
    seed = study.seed
    names = list(release.synthesized)
    out = {
        "membership": asked(
            study,
            "membership",
            lambda: br.membership(
                fit,
                release,
                records=3,
                others=study.table.iloc[:2] if seed % 2 else None,
                alternatives=10,
                refit_budget=seed % 2,
                random_seed=seed,
            ),
        ),
        "full table": asked(
            study,
            "full table",
            lambda: br.full_table_risk(
                fit,
                release,
                targets=2,
                prior=("predictive", "uniform", "marginal")[seed % 3],
                draws=20,
                random_seed=seed,
            ),
        ),
        "bounds": asked(
            study,
            "bounds",
            lambda: br.release_bounds(
                study.table,
                synthesized=names,
                m=2,
                how=("bootstrap", "permute")[seed % 2],
                random_seed=seed,
            ),
        ),
    }
    return {name: result for name, result in out.items() if result is not None}


def check_membership(found: br.Membership) -> None:
    """Odds of membership, and how well members are told from others."""
    table, summary = found.records, found.summary()["value"]
    assert not table["log_bayes_factor"].isna().any()
    assert ((table["probability"] >= 0) & (table["probability"] <= 1)).all()
    assert (table["posterior_odds"] >= 0).all() and not table["mcse"].lt(0).any()
    rates = table["false_positive_rate"].dropna()
    assert ((rates >= 0) & (rates <= 1)).all()
    trusted = table[table["reliable"]]
    assert np.isfinite(trusted["mcse"]).all() and (trusted["mcse"] <= 1).all()
    doubtful = int((~table["reliable"]).sum())
    assert summary["unreliable"] == doubtful
    assert (f"{doubtful:,} of these numbers are marked" in found.sentence()) == bool(doubtful)
    if found.has_others:
        roc = found.roc()
        assert ((roc >= 0) & (roc <= 1 + SUM)).all().all()
        assert roc["true_positive_rate"].is_monotonic_increasing


def check_full_table(found: br.FullTableRisk) -> None:
    """Shares of the posterior over all values, ranks, and the likeliest values."""
    table = found.records
    for name in ("prior", "probability", "within_1", "within_2", "best"):
        assert ((table[name] >= 0) & (table[name] <= 1 + 1e-5)).all(), name
    assert (table["within_1"] <= table["within_2"] + 1e-6).all()
    assert (table["probability"] <= table["within_1"] + 1e-6).all()
    assert (table["probability"] <= table["best"] * (1 + 1e-4) + 1e-6).all()
    values = found.n_values[found.case]
    for name in ("rank", "prior_rank", "n_effective"):
        assert ((table[name] >= 0.5) & (table[name] <= values * (1 + 1e-6) + 0.5)).all(), name
    assert (table["eps"] >= 0).all()
    trusted = table[table["reliable"]]
    assert np.isfinite(trusted["mcse"]).all() and (trusted["mcse"] <= 0.05).all()
    assert found.summary().loc["unreliable", "value"] == (~table["reliable"]).sum()


def check_bounds(found: br.ReleaseBounds, table: pd.DataFrame) -> None:
    """Ends of the scale keep every column that is not synthesised, and add no record."""
    for release in (found.minimum, found.maximum, found.unchanged):
        kept = [c for c in table if c not in release.synthesized]
        for data in release.datasets:
            pd.testing.assert_frame_equal(data[kept], table[kept])
    for name in found.maximum.synthesized:
        seen = set(table[name].dropna().tolist())
        assert all(set(z[name].dropna().tolist()) <= seen for z in found.maximum.datasets)
    pd.testing.assert_frame_equal(found.unchanged.datasets[0], table)


def check_further(study: Study, results: dict[str, Any]) -> None:
    """All that was answered."""
    if "membership" in results:
        check_membership(results["membership"])
    if "full table" in results:
        check_full_table(results["full table"])
    if "bounds" in results:
        check_bounds(results["bounds"], study.table)
