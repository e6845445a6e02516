"""How an attribute risk reads: one sentence."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_risk._core.formats import in_brackets, number, percent, plain
from bayes_risk.intruder.guesses import how_many

if TYPE_CHECKING:
    from .result import AttributeRisk


def in_a_sentence(risk: "AttributeRisk") -> str:
    """The result in plain words."""
    table, rows = risk.records, risk.summary()["value"]
    worst = table.iloc[int(np.argmax(table["probability"]))]
    doubt = (
        f" {int(rows['unreliable']):,} records are marked unreliable."
        if rows["unreliable"]
        else " No record is marked unreliable."
    )
    certain = (
        f" {int(rows['disclosed']):,} records were not replaced and are known for certain."
        if rows["disclosed"]
        else ""
    )
    error = in_brackets(worst["mcse"], worst["probability"])
    return (
        f"{risk.assumptions['records']} Choosing among {how_many(risk.guesses_each)} for each "
        f"of {len(table):,} records, the intruder gives the truth "
        f"{number(rows['mean_probability'])} on average ({number(table['prior'].mean())} "
        "without the release) and "
        f"{number(worst['probability'])}{error} in the worst case; the truth "
        f"ranks first for {percent(rows['share_ranked_first'])} of records.{certain}{doubt}"
        f"{_excluded(risk)}{_given_away(risk)}{_searched(risk)}"
    )


def _excluded(risk: "AttributeRisk") -> str:
    """Records whose truth the prior gives no mass: no release can change that."""
    prior = risk.log_prior[risk.truth, np.arange(len(risk.truth))]
    count = int((np.isneginf(prior) & ~risk.disclosed)[risk.case].sum())
    if not count:
        return ""
    whose = "1 record" if count == 1 else f"{count:,} records"
    return f" The prior rules out the true values of {whose}: their probability stays 0."


def _given_away(risk: "AttributeRisk") -> str:
    known = risk.certain()
    count = int(known.any(axis=1).sum())
    names = ", ".join(map(str, known.columns[known.any(axis=0)]))
    if not count:
        return ""
    whose = "1 record is" if count == 1 else f"{count:,} records are"
    return f" Values of {whose} given away for certain ({names}): nobody else can have them."


def _searched(risk: "AttributeRisk") -> str:
    most = float(risk.left_out.max())
    if not most:
        return ""
    return (
        f" The joint grid was searched coarse to fine; up to {plain(100 * most, 2)} % of a "
        "posterior was left out."
    )
