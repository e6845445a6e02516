"""Reasons of the verdict that attribute risk gives."""

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bayes_risk.bayes_rule import MAX_LEFT_OUT
from bayes_risk.formats import percent
from bayes_risk.verdict_reason import (
    Reason,
    Thresholds,
    against,
    begun,
    doubt,
    limited,
    no_objection,
    out_of,
    times,
)

if TYPE_CHECKING:
    from bayes_risk.results import AttributeRisk

Array = npt.NDArray[np.float64]
NAMED = 10  # records given away that the verdict names


def of_attribute(
    risk: "AttributeRisk | None", limits: Thresholds, width: float, *, identical: bool = False
) -> list[Reason]:
    """What attribute risk says; ``width``: how many standard errors are allowed for.

    ``identical``: some records came out as they were, so that to say "all were replaced" misleads.
    """
    if risk is None:
        text = "Attribute risk was not measured, so nothing is said of it."
        return [doubt("attribute risk", text, "attribute")]
    return [
        *_given_away(risk),  # first: the screen shows two reasons
        _probability(risk, limits.attribute_probability, width),
        _bayes_factor(risk, limits.attribute_log_bayes_factor, width),
        *_not_replaced(risk, identical),
        _reliability(risk, limits.share_unreliable),
    ]


def known_for_certain(risk: "AttributeRisk") -> list[str]:
    """Names of the variables that the release gives away for certain, one text per target."""
    known = risk.certain()
    names = known.columns.astype(str)
    rows, row_of = np.unique(known.to_numpy(), axis=0, return_inverse=True)
    texts = [", ".join(names[row]) for row in rows]
    return [texts[k] for k in row_of.ravel()]


def _not_replaced(risk: "AttributeRisk", identical: bool) -> list[Reason]:
    """Records whose values were not replaced at all; a replaced value can equal the true one."""
    count, all_of = int(risk.records["disclosed"].sum()), len(risk.index)
    if count:
        text = f"{begun(out_of(count, all_of))}: values not replaced, so that anyone can read them."
        return [against("disclosed", text)]
    text = f"The values of all {all_of:,} audited records were replaced."
    return [] if identical else [no_objection("disclosed", text)]


def _given_away(risk: "AttributeRisk") -> list[Reason]:
    """Records, by name, for which the release leaves no value but the true one possible."""
    known = risk.certain()
    labels = known.index[known.any(axis=1)]
    if not len(labels):
        return []
    shown = ", ".join(str(label) for label in labels[:NAMED])
    more = f" and {len(labels) - NAMED:,} more" if len(labels) > NAMED else ""
    names = known.columns[known.any(axis=0)].astype(str)
    which = names[0] if len(names) == 1 else f"at least one of {', '.join(names)}"
    return [
        against(
            "certain disclosure",
            f"For {out_of(len(labels), len(known))} the release leaves only the true value of "
            f"{which} possible; known for certain: {shown}{more}.",
        )
    ]


def _probability(risk: "AttributeRisk", limit: float, width: float) -> Reason:
    above, maybe = _above(risk, np.full(len(risk.index), limit), width)
    words = f"the intruder {{}} the true values a probability above {limit:g}"
    verbs = ("gives", "may give")
    return _limited(risk, "probability of the truth", words, verbs, above, maybe, width)


def _bayes_factor(risk: "AttributeRisk", limit: float, width: float) -> Reason:
    # log odds(p) - log odds(prior) > limit  <=>  p > prior e^limit / (1 - prior + prior e^limit)
    prior, factor = risk.records["prior"].to_numpy(), math.exp(limit)
    above, maybe = _above(risk, prior * factor / (1 - prior + prior * factor), width)
    words = f"the release {{}} the odds of the true values by more than {times(limit)}"
    verbs = ("multiplies", "may multiply")
    return _limited(risk, "log Bayes factor", words, verbs, above, maybe, width)


Marks = npt.NDArray[np.bool_]


def _limited(
    risk: "AttributeRisk",
    measure: str,
    words: str,
    verbs: tuple[str, str],
    above: Marks,
    maybe: Marks,
    width: float,
) -> Reason:
    """The reason of records marked as surely and perhaps above a limit."""
    n = len(risk.index)
    return limited(
        measure,
        (f"For {out_of(int(above.sum()), n)} {words.format(verbs[0])}", int(above.sum())),
        (f"For {out_of(int(maybe.sum()), n)} {words.format(verbs[1])}", int(maybe.sum())),
        f"For {out_of(0, n)} {words.format(verbs[0])}.",
        _cure(risk, maybe, width),
    )


def _above(risk: "AttributeRisk", limit: Array, width: float) -> tuple[Marks, Marks]:
    """Which records are surely above their limit, and which more may be."""
    table = risk.records
    value, error = table["probability"].to_numpy(), width * table["mcse"].to_numpy()
    open_ = ~table["disclosed"].to_numpy()  # the others have a reason of their own
    # a number without an error (NaN) or marked unreliable can be a doubt, but decides nothing
    sure = open_ & table["reliable"].to_numpy() & (value - error > limit)
    return sure, open_ & ~sure & (value + np.nan_to_num(error) > limit)


def _cure(risk: "AttributeRisk", which: Marks, width: float = 2.0) -> str:
    """What would settle the records marked: where chains disagree more of them, before all."""
    table = risk.records[which]
    if risk.assumptions.get("evidence", "").startswith("reuse"):
        return "reuse"
    if (table["left_out"] > MAX_LEFT_OUT).any():
        return "left out"
    if width > 2:
        return "chains"
    return "error" if table["reliable"].all() else "unreliable"


def _reliability(risk: "AttributeRisk", limit: float) -> Reason:
    reliable = risk.records["reliable"].to_numpy()
    count, share = int((~reliable).sum()), float((~reliable).mean())
    text = f"The numbers of {out_of(count, len(reliable))} ({percent(share)}) are marked unreliable"
    if not count:
        return no_objection("unreliable records", f"{text.replace(' (0.0 %)', '')}.")
    if share > limit:
        text = f"{text}, more than the {percent(limit)} allowed."
        return doubt("unreliable records", text, _cure(risk, ~reliable))
    return no_objection("unreliable records", f"{text}; {percent(limit)} are allowed.")
