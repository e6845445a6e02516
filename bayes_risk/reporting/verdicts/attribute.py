"""Reasons of the verdict that attribute risk gives."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.formats import percent
from bayes_risk.risk.posterior import MAX_LEFT_OUT

from .reason import Reason, Thresholds, against, begun, doubt, limited, no_objection, out_of, times

if TYPE_CHECKING:
    from bayes_risk.risk.result import AttributeRisk

Array = Any  # one number a record: a column of a table, or an array (n,)
Marks = npt.NDArray[np.bool_]
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
        _probability(risk, limits, width),
        _bayes_factor(risk, limits, width),
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


class Counted(NamedTuple):
    """Records (n,) surely and perhaps above a limit under one prior.

    And those that are above it and do not count: without the release, or raised by little.
    """

    sure: Marks
    maybe: Marks
    before: Marks
    little: Marks


def _probability(risk: "AttributeRisk", limits: Thresholds, width: float) -> Reason:
    """Records that the release lifts above the level; of those above it before see the change."""
    limit, factor = limits.attribute_probability, limits.attribute_odds_factor

    def counted(one: "AttributeRisk") -> Counted:
        table = one.records
        above = _beyond(table["probability"], table["mcse"], np.full(len(table), limit), width)
        if one.modes is not None:  # what another audit would find, in every mode that is left open
            low, high = table["low"].to_numpy(), table["high"].to_numpy()
            above = Beyond(above.sure & (low > limit), above.either | (high > limit))
        raised = _raised(one, math.log(factor), width)
        before = table["prior"].to_numpy() > limit
        open_ = ~table["disclosed"].to_numpy()  # these have a reason of their own
        sure = open_ & ~before & table["reliable"].to_numpy() & above.sure & raised.sure
        maybe = open_ & ~before & ~sure & above.either & raised.either
        over = open_ & ~sure & ~maybe & (table["probability"].to_numpy() > limit)
        return Counted(sure, maybe, over & before, over & ~before)

    words = f"the release {{}} the probability of the true values above {limit:g}, and their odds "
    words += f"by more than a factor {factor:g}"
    name, found = _worse(risk, counted)
    reason = _limited(
        risk, "probability of the truth", words, ("raises", "may raise"), found, width
    )
    apart = _apart(found, limit, factor, f"under the {name or 'flat'} prior " * bool(risk.priors))
    return replace(reason, sentence=f"{_under(risk, name, reason)}{apart}")


def _apart(found: Counted, limit: float, factor: float, under: str) -> str:
    """What is said of records above the limit, but not through the release; ``under`` a prior."""
    n, said = len(found.before), ""
    for marks, words in (
        (found.before, f"above {limit:g} without the release: not attributable to it"),
        (found.little, f"lifted above {limit:g} by a factor of {factor:g} or less"),
    ):
        count = int(marks.sum())
        verb = "is" if count == 1 else "are"
        said += f" {begun(f'{under}{out_of(count, n)}')} {verb} {words}." if count else ""
    return said


def _bayes_factor(risk: "AttributeRisk", limits: Thresholds, width: float) -> Reason:
    """Records whose odds the release raises by too much, wherever it raises them to."""
    limit = limits.attribute_log_bayes_factor

    def counted(one: "AttributeRisk") -> Counted:
        table, raised = one.records, _raised(one, limit, width)
        open_ = ~table["disclosed"].to_numpy()
        sure = open_ & table["reliable"].to_numpy() & raised.sure
        none = np.zeros(len(table), dtype=bool)
        return Counted(sure, open_ & ~sure & raised.either, none, none)

    words = f"the release {{}} the odds of the true values by more than {times(limit)}"
    name, found = _worse(risk, counted)
    verbs = ("multiplies", "may multiply")
    reason = _limited(risk, "log Bayes factor", words, verbs, found, width)
    return replace(reason, sentence=_under(risk, name, reason))


def _worse(
    risk: "AttributeRisk", counted: Callable[["AttributeRisk"], Counted]
) -> tuple[str, Counted]:
    """The prior under which most records count: surely, then perhaps, then not."""
    found = {name: counted(_of(risk, name)) for name in ("", *risk.priors)}
    return max(found.items(), key=lambda pair: tuple(int(marks.sum()) for marks in pair[1]))


def _of(risk: "AttributeRisk", name: str) -> "AttributeRisk":
    return risk.priors[name] if name else risk


def _under(risk: "AttributeRisk", name: str, reason: Reason) -> str:
    """The sentence, with the prior that it holds under where there are several."""
    if not risk.priors:
        return reason.sentence
    if reason.outcome == "within your thresholds":
        which = f"under the flat prior and under the {' and '.join(risk.priors)} one"
    else:
        which = f"under the {name or 'flat'} prior"
    return f"{begun(which)}: {reason.sentence[0].lower()}{reason.sentence[1:]}"


def _limited(
    risk: "AttributeRisk",
    measure: str,
    words: str,
    verbs: tuple[str, str],
    found: Counted,
    width: float,
) -> Reason:
    """The reason of records marked as surely and perhaps above a limit."""
    n, some, more = len(risk.index), int(found.sure.sum()), int(found.maybe.sum())
    return limited(
        measure,
        (f"For {out_of(some, n)} {words.format(verbs[0])}", some),
        (f"For {out_of(more, n)} {words.format(verbs[1])}", more),
        f"For {out_of(0, n)} {words.format(verbs[0])}.",
        _cure(risk, found.maybe, width),
    )


class Beyond(NamedTuple):
    """Which values (n,) are surely above their limits, and which surely or perhaps."""

    sure: Marks
    either: Marks


def _beyond(value: Array, mcse: Array, limit: Array, width: float) -> Beyond:
    """A number without an error (NaN) can be a doubt, but decides nothing."""
    value, error = np.asarray(value), width * np.asarray(mcse)
    with np.errstate(invalid="ignore"):
        return Beyond(value - error > limit, value + np.nan_to_num(error) > limit)


def _raised(risk: "AttributeRisk", limit: float, width: float) -> Beyond:
    """Records whose log odds the release raises by more than a limit; NaN: settled beforehand."""
    table = risk.records
    change, error = table["log_bayes_factor"], table["mcse_log_bayes_factor"]
    return _beyond(change, error, np.full(len(table), limit), width)


def _cure(risk: "AttributeRisk", which: Marks, width: float = 2.0) -> str:
    """What would settle the records marked: where chains disagree more of them, before all."""
    table = risk.records[which]
    if risk.assumptions.get("evidence", "").startswith("reuse"):
        return "reuse"
    if (table["left_out"] > MAX_LEFT_OUT).any():
        return "left out"
    if width > 2:
        return "chains"
    if not table["reliable"].all():
        return "unreliable"
    return "chains" if risk.modes is not None and len(risk.modes.kept) > 1 else "error"


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
