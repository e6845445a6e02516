"""Sums that files keep to the last digit, and groups in which all have one value."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayes_risk as br
from bayes_risk.release.tables import tables_with_release
from bayes_risk.release.totals import LEVEL, kept_exactly
from bayes_risk.reporting.verdicts.verdict import Thresholds, judge

SIZES = (30, 120, 400)


def people(n, seed):
    rng = np.random.default_rng(seed)
    age, x = rng.integers(18, 90, n), rng.normal(size=n).round(3)
    df = pd.DataFrame({"area": rng.integers(12, size=n).astype(str), "age": age, "x": x})
    df["income"] = np.exp(9 + 0.02 * age + 0.5 * x + 0.6 * rng.normal(size=n)).round(2)
    return df, rng


def drawn(df, rng):
    """Incomes of a regression on the kept numbers; and what these leave of both."""
    X = np.column_stack([np.ones(len(df)), df["age"], df["x"]])
    fitted, left = residuals(X, df["income"].to_numpy())
    return X, fitted, left, rng.normal(size=len(df)) * left.std()


def residuals(X, y):
    fitted = X @ np.linalg.lstsq(X, y, rcond=None)[0]
    return fitted, y - fitted


def one_value(df, rng):
    """Fresh incomes, of which one makes up the total."""
    made = drawn(df, rng)[1:]
    values = (made[0] + made[2]).round(2)
    values[0] += df["income"].sum() - values.sum()
    return values.round(2)


def scaled(df, rng):
    values = rng.lognormal(9, 1, len(df))
    return (values * df["income"].sum() / values.sum()).round(2)


def by_area(df, rng):
    values = pd.Series(rng.lognormal(9, 1, len(df)))
    sums = df.groupby("area")["income"].sum() / values.groupby(df["area"]).sum()
    return (values * df["area"].map(sums)).to_numpy()


def coefficients(df, rng):
    """Information preserving: same coefficients, same variance of what is left."""
    X, fitted, left, noise = drawn(df, rng)
    noise = residuals(X, noise)[1]
    return fitted + noise * np.sqrt((left @ left) / (noise @ noise))


def rounded(df, rng):
    return coefficients(df, rng).round(2)


def logs(df, rng):
    log = df.assign(income=np.log(df["income"]))
    return np.exp(coefficients(log, rng))


def microaggregated(df, rng):
    groups = df["income"].rank(method="first").sub(1).floordiv(3)
    return df["income"].groupby(groups).transform("mean").to_numpy()


@pytest.mark.check
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    "made", [one_value, scaled, by_area, coefficients, rounded, logs, microaggregated]
)
def test_sums_that_a_file_keeps_are_above_unless_they_are_public(made, n):
    df, rng = people(n, n)
    found = br.exposure(df, df.assign(income=made(df, rng)), keys=["area"])
    assert found.exact.totals[0].persons > 0.5 * n
    verdict = judge(None, None, exposure=found)
    assert verdict.outcome == "above your thresholds"
    (said,) = [r for r in verdict.reasons if r.measure == "totals"]
    assert "File 1 keeps the sum" in said.sentence and "public of [thresholds]" in said.cure
    limits = Thresholds(public={"income": "published by area"})
    assert "totals" not in {r.measure for r in judge(None, None, limits, exposure=found).reasons}


def test_means_are_kept_by_files_of_other_sizes_and_in_other_rows():
    df, rng = people(200, 1)
    other, _ = people(90, 2)
    other["income"] += df["income"].mean() - other["income"].mean()
    moved = df.assign(income=by_area(df, rng)).sample(frac=1, random_state=1)
    for file, persons in ((other, 200), (moved.reset_index(drop=True), 200)):
        (most, *_) = kept_exactly(tables_with_release(df, file, False)).totals
        assert most.persons == persons and most.form == "sum"


def sound(df, rng):
    """Files that owe their sums to nobody: (values, whether rows are the original's)."""
    n, (_, fitted, _, noise) = len(df), drawn(df, rng)
    v = fitted + noise
    few = df["income"].to_numpy().copy()
    which = rng.choice(n, 10, replace=False)
    few[which] = rng.choice(few, 10)
    fresh, _ = people(n, rng)
    heaped = (rng.choice(df["income"], n) / 100).round() * 100
    return {
        "regression": (df.assign(income=v), None),
        "rounded": (df.assign(income=v.round(0)), None),
        "few": (df.assign(income=few), None),
        "permuted": (df.assign(income=rng.permutation(df["income"])), None),
        "heaped": (df.assign(income=heaped), None),
        "noise": (df.assign(income=df["income"] + rng.laplace(0, 50, n).round(2)), None),
        "fresh": (fresh, False),
        "ages": (df.assign(age=rng.choice(df["age"], n)), None),
    }


@pytest.mark.slow
def test_sound_files_keep_no_sum():
    """At most `LEVEL` of 384 files would by chance: none."""
    seen, files = [], 0
    for seed in range(16):
        for n in SIZES:
            df, rng = people(n, 100 + seed)
            if seed % 2:
                df["income"] = (df["income"] / 100).round() * 100
            for name, (file, own) in sound(df, rng).items():
                found = kept_exactly(tables_with_release(df, file, own))
                files += 1
                seen += [(name, n, seed)] if found.totals or found.alike else []
    assert len(seen) <= stats.binom.isf(1e-4, files, LEVEL), seen


# --- groups ---------------------------------------------------------------------------------------


def ill(n, seed, area="3"):
    df, rng = people(n, seed)
    df["ill"] = np.where((rng.random(n) < 0.15) | (df["area"] == area), "yes", "no")
    return df, df.assign(income=rng.lognormal(9, 1, n).round(2))


@pytest.mark.parametrize("n", [150, 600])
def test_a_group_in_which_all_are_ill_is_a_doubt(n):
    df, file = ill(n, 1)
    found = br.exposure(df, file, keys=["area"])
    (one,) = found.exact.alike
    assert (one.by, one.column, one.found) == ("area", "ill", 1)
    assert one.persons == (df["area"] == "3").sum()
    (said,) = [r for r in judge(None, None, exposure=found).reasons if "one value" in r.measure]
    assert f"All {one.persons} persons of 1 group of area" in said.sentence
    limits = Thresholds(public={"ill": "register of illness"})
    reasons = judge(None, None, limits, exposure=found).reasons
    assert not [r for r in reasons if "one value" in r.measure]


def test_groups_that_are_alike_by_chance_or_by_definition_are_none():
    df, file = ill(600, 2, area="none")
    df["region"] = file["region"] = df["area"].astype(int).floordiv(3).astype(str)
    assert not kept_exactly(tables_with_release(df, file, None)).alike
    few, shown = ill(14, 3)  # one or two persons an area
    assert not kept_exactly(tables_with_release(few, shown, None)).alike


def test_a_value_that_was_synthesised_is_known_of_no_group():
    df, file = ill(600, 1)
    file["ill"] = np.where(np.random.default_rng(1).random(600) < 0.2, "yes", "no")
    assert not kept_exactly(tables_with_release(df, file, None)).alike
