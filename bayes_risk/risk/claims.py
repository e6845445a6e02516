"""What the intruder claims of values, and how often that is right: at stated confidence, by value.

A claim is the likeliest value of a record, where its probability is at least the confidence. Of
values that are likeliest together one is drawn, so that such a claim is right in equal parts. What
the prior alone would claim stands beside it.

The error of a value's probability is bounded as in `closeness`; so the number of claims has a low
and a high end: those whose probability less, or plus, two errors is at least the confidence.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import betaincinv

from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import in_range

from .closeness import TIE, Columns, GuessPosterior, Marginal, by_record, expected

CONFIDENCES = (0.5, 0.8, 0.95)
JOINT = "all together"
TAIL = 0.025


def varied_records(risk: GuessPosterior) -> Flags:
    """Records with guesses that are wrong in every variable: not neighbours of the truth alone.

    Among neighbours the other values are nearly always right, and a variable has no marginal.
    """
    own = risk.guesses[risk.truth, np.arange(len(risk.truth))]  # shape (U, q)
    wrong = (risk.guesses != own).all(axis=2) & np.isfinite(risk.log_prior)
    return np.asarray(wrong.any(axis=0)[risk.case])


def claim_values(risk: GuessPosterior) -> dict[str, list[int]]:
    """All variables together; and each by itself, where guesses differ in every one."""
    q = len(risk.variables)
    single = {str(v.name): [j] for j, v in enumerate(risk.variables)}
    return {JOINT: list(range(q))} | (single if q > 1 and varied_records(risk).all() else {})


def by_variable(risk: GuessPosterior) -> pd.DataFrame:
    """Mean probability of the true values, all together and of each variable by itself.

    One row each: ``probability``, ``mcse_bound`` (upper bound of its standard error), ``prior``.
    Variables have none where guesses are neighbours of the truth.
    """
    rows = {}
    for name, variables in claim_values(risk).items():
        found = by_record(risk, variables, lambda m: expected("p", m.is_truth.astype(float), m))
        means = found.mean()
        rows[name] = {
            "probability": means["p"],
            "mcse_bound": means["p_mcse_bound"],
            "prior": means["p_prior"],
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def claims(risk: GuessPosterior, confidence: Sequence[float] = CONFIDENCES) -> pd.DataFrame:
    """How many claims the intruder makes at each confidence, and the share that is right.

    Parameters
    ----------
    confidence : list of float
        Above 0 and below 1: a value is claimed whose probability is at least this.

    Returns
    -------
    DataFrame
        One row for ``values`` (all together, then each variable by itself, where guesses differ in
        every one) and ``confidence``. ``claims``: their number; ``low``, ``high``: between which it
        lies, two Monte Carlo errors away; ``right``: share of claims that are right (NaN: there is
        none), ``right_low``, ``right_high``: 95 % interval of it (Jeffreys), records taken as
        independent; ``claims_without``, ``right_without``: of the prior alone.
    """
    if not len(confidence):
        raise InputError("confidence", "is empty; give at least one number")
    for one in confidence:
        in_range("confidence", one)
    rows: dict[tuple[str, float], dict[str, float]] = {}
    for name, variables in claim_values(risk).items():
        found = by_record(risk, variables, _likeliest)
        for one in confidence:
            rows[name, float(one)] = _claimed(found, float(one))
    index = pd.MultiIndex.from_tuples(list(rows), names=["values", "confidence"])
    table = pd.DataFrame(list(rows.values()), index)
    counts = ["claims", "low", "high", "claims_without"]
    return table.astype(dict.fromkeys(counts, int))


def _likeliest(m: Marginal) -> Columns:
    """Of each case the largest probability, a bound of its error, and whether it is the truth's."""
    columns: Columns = {}
    for name, p in (("", m.posterior), ("_without", m.prior)):
        top: Array = p.max(axis=0)
        level = p >= top * (1 - TIE)
        columns[f"top{name}"] = top
        columns[f"right{name}"] = (level & m.is_truth).sum(axis=0) / level.sum(axis=0)
    first = np.arange(len(m.posterior))[:, None] == m.posterior.argmax(axis=0)
    columns["bound"] = expected("p", first.astype(float), m)["p_mcse_bound"]
    return columns


def _claimed(found: pd.DataFrame, confidence: float) -> dict[str, Any]:
    least = confidence * (1 - TIE)
    row: dict[str, Any] = {}
    ends = {"claims": 0.0, "low": -2.0, "high": 2.0}
    for name, errors in ends.items():
        row[name] = int((found["top"] + errors * found["bound"] >= least).sum())
    sides = [share_right(found[found[f"top{s}"] >= least][f"right{s}"]) for s in ("", "_without")]
    (row["right"], row["right_low"], row["right_high"]), (row["right_without"], _, _) = sides
    row["claims_without"] = int((found["top_without"] >= least).sum())
    return row


def share_right(right: pd.Series) -> tuple[float, float, float]:
    """Share of claims that are right, and its 95 % interval (Jeffreys); NaN of none."""
    n, k = len(right), float(right.sum())
    if not n:
        return float("nan"), float("nan"), float("nan")
    low = 0.0 if k == 0 else float(betaincinv(k + 0.5, n - k + 0.5, TAIL))
    high = 1.0 if k == n else float(betaincinv(k + 0.5, n - k + 0.5, 1 - TAIL))
    return k / n, low, high
