"""Reasons of the verdict: both risks, chains, models, membership, what files show, use."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.arrays import Flags
from bayes_risk._core.formats import begun, number, percent
from bayes_risk.matching.correspondence import RowCorrespondence
from bayes_risk.matching.exposure_result import Exposure
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.risk.membership.audit import Membership
from bayes_risk.risk.posterior import MAX_LEFT_OUT
from bayes_risk.risk.result import AttributeRisk
from bayes_risk.studies.comparison import MEASURES
from bayes_risk.utilities.result import Utility

from .reason import (
    USE,
    Reason,
    Thresholds,
    against,
    compared,
    doubt,
    limited,
    no_objection,
    not_measured,
    out_of,
    times,
)

Array = Any  # one number a record: a column of a table, or an array (n,)
NAMED = 10  # records given away that the verdict names


def of_attribute(
    risk: AttributeRisk | None, limits: Thresholds, width: float, *, identical: bool = False
) -> list[Reason]:
    """What attribute risk says; ``width``: how many standard errors are allowed for.

    ``identical``: some records came out as they were, so that to say "all were replaced" misleads.
    """
    if risk is None:
        return [not_measured("attribute risk")]
    return [
        *_given_away(risk),  # first: the screen shows two reasons
        _raised(risk, limits, width, level=True),
        _raised(risk, limits, width, level=False),
        *_not_replaced(risk, identical),
        _reliability(risk, limits.share_unreliable),
    ]


def of_identification(risk: IdentificationRisk | None, limit: float) -> list[Reason]:
    """Unique and correct matches, pooled or per release, whichever are more."""
    if risk is None:
        return [not_measured("identification risk")]
    rate = float(risk.summary()["true_match_rate"].max())
    text = f"{percent(rate)} of the {risk.n:,} records would be matched uniquely and correctly"
    alone = risk.baseline_true_matches
    kept = f". Unsynthesised keys alone: {percent(alone / risk.n)}" if alone else ""
    text = f"{text}{'' if rate > limit else ' at most'}; {percent(limit)} are allowed{kept}"
    return [compared("true match rate", (rate, 0.0), limit, text)]


def known_for_certain(risk: AttributeRisk) -> list[str]:
    """Names of the variables that the release gives away for certain, one text per target."""
    known = risk.certain()
    names = known.columns.astype(str)
    return [", ".join(names[row]) for row in known.to_numpy()]


def _not_replaced(risk: AttributeRisk, identical: bool) -> list[Reason]:
    """Records whose values were not replaced at all; a replaced value can equal the true one."""
    count, all_of = int(risk.records["disclosed"].sum()), len(risk.index)
    if count:
        text = f"{begun(out_of(count, all_of))}: values not replaced, so that anyone can read them."
        return [against("disclosed", text)]
    text = f"The values of all {all_of:,} audited records were replaced."
    return [] if identical else [no_objection("disclosed", text)]


def _given_away(risk: AttributeRisk) -> list[Reason]:
    """Records, by name, for which the release leaves no value but the true one possible."""
    known = risk.certain()
    labels = known.index[known.any(axis=1)]
    if not len(labels):
        return []
    shown = ", ".join(str(label) for label in labels[:NAMED])
    more = f" and {len(labels) - NAMED:,} more" if len(labels) > NAMED else ""
    names = known.columns[known.any(axis=0)].astype(str)
    which = names[0] if len(names) == 1 else f"at least one of {', '.join(names)}"
    text = (
        f"For {out_of(len(labels), len(known))} the release leaves only the true value of {which}"
    )
    text += f" possible; known for certain: {shown}{more}."
    return [against("certain disclosure", text)]


class Counted(NamedTuple):
    """Records (n,) surely and perhaps above a limit under one prior.

    And those that are above it and do not count: without the release, or raised by little.
    """

    sure: Flags
    maybe: Flags
    before: Flags
    little: Flags


def _counted(risk: AttributeRisk, limits: Thresholds, width: float, *, level: bool) -> Counted:
    """Records whose odds the release raises by too much, those that it lifts above the level.

    What was not replaced has a reason of its own.
    """
    of = {str(name): column.to_numpy() for name, column in risk.records.items()}
    limit, change = limits.attribute_probability, limits.attribute_log_bayes_factor
    change = math.log(limits.attribute_odds_factor) if level else change
    sure, maybe = _over(of["log_bayes_factor"], width * of["mcse_log_bayes_factor"], change)
    before = (of["prior"] > limit) & level
    if level:
        above, either = _over(of["probability"], width * of["mcse"], limit)
        if risk.modes is not None:  # what another audit would find, in every mode left open
            above, either = above & (of["low"] > limit), either | (of["high"] > limit)
        sure, maybe = sure & above, maybe & either
    open_ = ~of["disclosed"]
    sure = open_ & ~before & of["reliable"] & sure
    maybe = open_ & ~before & ~sure & maybe
    apart = open_ & ~sure & ~maybe & (of["probability"] > limit) & level
    return Counted(sure, maybe, apart & before, apart & ~before)


def _raised(risk: AttributeRisk, limits: Thresholds, width: float, *, level: bool) -> Reason:
    """Records by `_counted`, under the prior under which most count: surely, then perhaps.

    Of those above the level without the release the change is judged.
    """
    found = {
        name: _counted(one, limits, width, level=level)
        for name, one in {"": risk, **risk.priors}.items()
    }
    name, marks = max(found.items(), key=lambda pair: [int(which.sum()) for which in pair[1]])
    cure = _cure(risk, marks.maybe, width)
    prior = f"under the {name or 'flat'} prior"
    if level:
        limit, factor = limits.attribute_probability, limits.attribute_odds_factor
        words = f"the release {{}} the probability of the true values above {limit:g}, and their "
        words += f"odds by more than a factor {factor:g}"
        verbs, measure = ("raises", "may raise"), "probability of the truth"
        reason = limited(measure, marks.sure, marks.maybe, words, cure, verbs=verbs)
    else:
        by = times(limits.attribute_log_bayes_factor)
        words = f"the release {{}} the odds of the true values by more than {by}"
        reason = limited("log Bayes factor", marks.sure, marks.maybe, words, cure)
    said = reason.sentence
    if risk.priors:
        both = f"under the flat prior and under the {' and '.join(risk.priors)} one"
        which = both if reason.outcome == "within your thresholds" else prior
        said = f"{begun(which)}: {said[0].lower()}{said[1:]}"
    for those, words in (
        (marks.before, "above {:g} without the release: not attributable to it"),
        (marks.little, "lifted above {:g} by a factor of {:g} or less"),
    ):
        if count := int(those.sum()):
            verb = "is" if count == 1 else "are"
            who = f"{prior} " * bool(risk.priors) + out_of(count, len(those))
            limit, factor = limits.attribute_probability, limits.attribute_odds_factor
            said += f" {begun(who)} {verb} {words.format(limit, factor)}."
    return replace(reason, sentence=said)


def _over(value: Array, error: Array, limit: float) -> tuple[Flags, Flags]:
    """Which values are surely above a limit, and which surely or perhaps.

    A number without an error (NaN) can be a doubt, but decides nothing.
    """
    value, error = np.asarray(value), np.asarray(error)
    with np.errstate(invalid="ignore"):
        return value - error > limit, value + np.nan_to_num(error) > limit


def _cure(risk: AttributeRisk, which: Flags, width: float = 2.0) -> str:
    """What would settle the records marked: where chains disagree more of them, before all."""
    table = risk.records[which]
    if risk.assumptions.get("evidence", "").startswith("importance"):
        return "importance"
    if (table["left_out"] > MAX_LEFT_OUT).any():
        return "left out"
    if width > 2:
        return "chains"
    if not table["reliable"].all():
        return "unreliable"
    return "chains" if risk.modes is not None and len(risk.modes.kept) > 1 else "error"


def _reliability(risk: AttributeRisk, limit: float) -> Reason:
    reliable = risk.records["reliable"].to_numpy()
    count, share = int((~reliable).sum()), float((~reliable).mean())
    text = f"The numbers of {out_of(count, len(reliable))} ({percent(share)}) are marked unreliable"
    if not count:
        return no_objection("unreliable records", f"{text.replace(' (0.0 %)', '')}.")
    if share > limit:
        text = f"{text}, more than the {percent(limit)} allowed."
        return doubt("unreliable records", text, _cure(risk, ~reliable))
    return no_objection("unreliable records", f"{text}; {percent(limit)} are allowed.")


BALANCE = "balance of the evidence"
DRAWS_A_CHAIN = 100  # Vehtari et al. (2021): what an estimated error needs


def of_chains(diagnostics: Mapping[str, Any], limit: float | None) -> list[Reason]:
    """Whether chains agree, or errors between them have to be taken wider.

    The largest of some hundred R-hats is above the limit now and then in sound chains too, so that
    it counts only beside a smallest effective number of draws below ``DRAWS_A_CHAIN`` a chain.
    """
    if limit is None or math.isinf(limit) or "max_rhat" not in diagnostics:
        return []
    rhat, ess = (float(diagnostics.get(key, "nan")) for key in ("max_rhat", "min_ess"))
    chains, measure = int(diagnostics.get("chains", 1)), "agreement of the chains"
    if chains == 1:
        text = "The fit has one chain, so that nobody can tell whether it has settled."
        return [doubt(measure, text, "chains")]
    if math.isnan(rhat):
        return []
    width, worst = standard_errors(diagnostics, limit), f"largest R-hat {rhat:.3f}, above {limit:g}"
    if rhat <= limit:
        text = f"agree (largest R-hat {rhat:.3f}; {limit:g} is allowed)"
    elif width == 2:
        text = f"hold enough draws ({worst}, but {ess:,.0f} effective draws)"
    else:
        text = (
            f"disagree ({worst}, and {ess:,.0f} effective draws where {DRAWS_A_CHAIN * chains} are "
            f"wanted): {width:.1f} standard errors were allowed for instead of 2"
        )
    return [no_objection(measure, f"The chains of the fit {text}.")]


def of_rows(rows: RowCorrespondence | None) -> list[Reason]:
    """Whether matches were counted for the right records, where that was looked at."""
    measure = "correspondence of rows"
    if rows is None:
        return []
    if not rows.unmatched:
        return [no_objection(measure, rows.sentence())]
    little = "Where rows do not correspond, few matches say little."
    found = (("rows moved", rows.of_moved()), ("rows unknown", rows.of_unknown()))
    return [doubt(measure, f"{text} {little}", cure) for cure, text in found if text]


def of_modes(risk: AttributeRisk | None) -> list[Reason]:
    """Whether the chains of an audit led by the release are of the mode that made it."""
    found = None if risk is None else risk.modes
    if found is None:
        return []
    measure, text = "agreement of the chains", f"{begun(found.sentence())}."
    if len(found.used) < 2:
        text = f"{text[:-1]}: nobody can tell how much chains of that mode differ."
        return [doubt(measure, text, "chains")]
    if len(found.elsewhere):
        text = f"{text[:-1]}: what it gives away was computed in a mode that did not make it."
        return [doubt(measure, text, "modes differ")]
    return [no_objection(measure, text)]


def of_the_audit(risk: AttributeRisk | None, diagnostics: Mapping[str, Any]) -> dict[str, Any]:
    """The fit's diagnostics; without those of its chains where the audit has led chains instead."""
    led = risk is not None and risk.modes is not None
    of_chains = ("max_rhat", "median_rhat", "min_ess", "median_ess") if led else ()
    return {name: value for name, value in diagnostics.items() if name not in of_chains}


def standard_errors(diagnostics: Mapping[str, Any], limit: float | None) -> float:
    """How many standard errors hold the true value as surely as 2 do if it were normal.

    Errors are taken between chains. Of C chains that have not met, each is one draw: Student's t
    with C - 1 degrees of freedom.
    """
    rhat, ess = (float(diagnostics.get(key, "nan")) for key in ("max_rhat", "min_ess"))
    chains = int(diagnostics.get("chains", 1))
    if limit is None or chains == 1 or not rhat > limit or ess >= DRAWS_A_CHAIN * chains:
        return 2.0
    from scipy.stats import norm, t

    return float(t.ppf(norm.cdf(2.0), chains - 1))


def of_mechanism(risk: AttributeRisk | None) -> list[Reason]:
    """Whether the synthesis model is known, or was only assumed of files made elsewhere."""
    if risk is None or not risk.assumed:
        return []
    text = "The synthesis model is assumed, not verified, and could not be checked."
    text, measure = text if risk.check is None else risk.check.sentence(), "synthesis model"
    if rejected(risk):
        text = f"{text} What was computed under it is not judged."
        return [doubt(measure, text, "model rejected")]
    if risk.check is not None and risk.check.kept_models:
        return [no_objection(measure, text)]
    text = f"{text} Under another model the numbers would be others."
    return [doubt(measure, text, "mechanism")]


def rejected(risk: AttributeRisk | None) -> bool:
    """Whether the check says that the model assumed did not make the files."""
    return risk is not None and risk.check is not None and risk.check.failed


def standing(risk: AttributeRisk | None, reasons: Sequence[Reason]) -> list[Reason]:
    """Reasons that stand: where the model is rejected, those that rest on none of its numbers.

    That its evidence is out of balance may say why; that it is in balance says nothing.
    """
    if not rejected(risk):
        return list(reasons)
    stand = ("disclosed", "attribute risk", "membership")  # the last two: nobody computed them
    return [r for r in reasons if r.measure in stand or (r.measure == BALANCE and r.cure)]


def of_balance(risk: AttributeRisk | None) -> list[Reason]:
    """Whether the evidence is in balance; nothing where it cannot be told."""
    found = None if risk is None else risk.balance
    if found is None or found.outcome == "says nothing":
        return []
    if found.outcome == "balanced":
        return [no_objection(BALANCE, f"The evidence is in balance. {found.sentence()}")]
    text = f"The evidence is out of balance. {found.sentence()} It may mean: "
    return [doubt(BALANCE, f"{text}{MAY_MEAN[found.outcome]}.", found.outcome)]


MAY_MEAN = {
    "shared": "all files come from one draw of the parameters, or from a point estimate of them",
    "unbalanced": (
        "files made by another mechanism than the one audited, records synthesised from their own "
        "classes audited as new, or a fit that was stopped early"
    ),
}


def of_membership(found: Membership | None, limits: Thresholds, width: float = 2.0) -> list[Reason]:
    """Whether it can be told who is in the data, where the agency has set a threshold."""
    auc, factor = limits.membership_auc, limits.membership_log_bayes_factor
    if auc is None and factor is None:
        return []
    if found is None:
        return [not_measured("membership")]
    reasons = [] if auc is None else [_told_apart(found, auc, width)]
    if factor is not None:  # members one by one; an unreliable one can be a doubt, no decision
        who = found.member
        surely, either = _over(found.log_bayes_factor[who], width * found.mcse[who], factor)
        sure = found.reliable[who] & surely
        words = f"the release {{}} the odds of being in the data by more than {times(factor)}"
        measure, asked = "membership, log Bayes factor", "members asked about"
        reasons.append(limited(measure, sure, either & ~sure, words, "draws", what=asked))
    return reasons


def _told_apart(found: Membership, limit: float, width: float) -> Reason:
    """The area under the curve; its error is over the persons asked about, and over the draws."""
    measure = "membership, area under the curve"
    if not found.has_others:
        text = "Nobody outside the data was asked about, so that members cannot be told apart."
        return doubt(measure, text, "others")
    row = found.summary().to_dict("index")["auc"]
    value, error = float(row["value"]), math.hypot(2 * row["standard_error"], width * row["mcse"])
    asked = f"of {int(found.member.sum()):,} members and {int((~found.member).sum()):,} others"
    text = f"The release points to the member of a pair, {asked}, {100 * value:.1f} times in 100"
    text = f"{text}; {100 * limit:g} are allowed"
    return compared(measure, (value, error), limit, text, "membership error")


def of_usefulness(found: Utility | None, limits: Thresholds) -> list[Reason]:
    """Whether the release is as useful as the agency wants it, by the measures it has named."""
    wanted = limits.utility or {}
    if found is None:
        return [not_measured("utility", USE)] * bool(wanted)
    values = found.summary()["value"]
    return [_useful(found, name, float(values.get(name, np.nan)), x) for name, x in wanted.items()]


def _useful(found: Utility, name: str, value: float, limit: float) -> Reason:
    words, sign = MEASURES[name].words, 1 if MEASURES[name].lower else -1
    if math.isnan(value):
        text = f"Not measured: {words}, of which a threshold was set."
        return doubt(name, text, "measure", USE)
    text = (
        f"{begun(words)}: {number(value)}; at {'most' if sign > 0 else 'least'} {limit:g} is wanted"
    )
    error = 2 * error_of_null(found, name)
    return compared(name, (sign * value, error), sign * limit, text, "permutations", USE)


def error_of_null(found: Utility, name: str) -> float:
    """Monte Carlo error of a measure of the files as they are; 0 but for a tree's null.

    The null is a mean over K permutations, a ratio moves by as much as its denominator, and the
    error of a standard deviation s is about ``s / sqrt(2 (K - 1))``: ``docs/utility.md``.
    """
    K, rows = found.permutations, found.propensity.xs("cart", level="model")
    if name == "ratio_cart":
        relative = (rows["null_sd"] / rows["null_pmse"]).mean() / math.sqrt(K)
        return float(rows["ratio"].mean() * relative)
    if name == "standardized_cart":
        z = float(rows["standardized"].mean())
        return math.hypot(1 / math.sqrt(K), z / math.sqrt(2 * (K - 1)))
    return 0.0


ORIGINAL = "original released"


def of_exposure(
    exposure: Exposure | None, limits: Thresholds, moved: Sequence[tuple[int, str]] = ()
) -> list[Reason]:
    """Originals, identical records, values of single records, replicated uniques; exact counts.

    ``moved``: file, counted from 1, and column that were kept and stand in another order.
    """
    if exposure is None:
        return []
    return [
        *_originals(exposure),
        *_identical(exposure, limits.identical_records),
        *_unique_values(exposure, limits.unique_values, moved),
        *_replicated(exposure, limits.replicated_uniques),
    ]


def _originals(found: Exposure) -> list[Reason]:
    which = np.flatnonzero(found.same_as_original)
    text = "{} is the original itself: all of its {:,} records are equal."
    return [
        against(ORIGINAL, text.format(_file(found, l), int(found.n_released[l])))
        for l in map(int, which)
    ]


def _identical(found: Exposure, limit: float) -> list[Reason]:
    """Records equal to that of their own row which nobody else equals; doubles say nothing.

    Records that were not replaced are known to be equal: they are left out of both numbers.
    """
    if not found.corresponds.any():
        return []
    alone = (found.identical & found.alone[:, None]).sum(axis=0) - found.not_replaced
    counts = np.where(found.corresponds, np.maximum(alone, 0), -1)
    l, among = int(counts.argmax()), found.n - found.not_replaced
    equal = int(found.identical[:, l].sum()) - found.not_replaced
    text = (
        f"{int(counts[l]):,} of the {among:,} replaced records of {_file(found, l).lower()} are "
        f"identical to the original's record of their row, which nobody else there equals "
        f"({percent(counts[l] / max(among, 1))}; with doubles {equal:,} are)"
    )
    return [_within("identical records", counts[l] / max(among, 1), limit, text)]


def _unique_values(found: Exposure, limit: float, moved: Sequence[tuple[int, str]]) -> list[Reason]:
    """Released values that a single record of the original has, beyond those of a fresh sample."""
    table = found.columns
    table = table[table["judged"].astype(bool) & (table["values"] > 0)]
    table = table.drop(index=[at for at in moved if at in table.index])
    reasons = []
    for name, rows in table.groupby(level="column", sort=False):
        beyond = rows["unique_share"] - rows["expected_unique_share"]
        at = int(np.argmax(beyond.to_numpy()))
        row, l = rows.iloc[at], int(rows.index[at][0]) - 1
        text = (
            f"{int(row['unique']):,} of the {int(row['values']):,} released values of {name} in "
            f"{_file(found, l).lower()} are genuine values of a single "
            f"record ({percent(row['unique_share'])}; a fresh sample would show "
            f"{percent(row['expected_unique_share'])})"
        )
        measure, words = f"unique values of {name}", " more than a fresh sample"
        reasons.append(_within(measure, float(beyond.iloc[at]), limit, text, words))
    return reasons


def _replicated(found: Exposure, limit: float) -> list[Reason]:
    """Uniques on the keys that stay so; by design all of them where no key was synthesised."""
    if not found.keys_synthesized:
        return []
    counts = found.replicated.sum(axis=0)
    l = int(counts.argmax())
    text = (
        f"{int(counts[l]):,} of the {int(found.unique.sum()):,} records that are unique on "
        f"{', '.join(map(str, found.keys))} stay so in {_file(found, l).lower()}: "
        f"{percent(counts[l] / found.n)} of all {found.n:,} records"
    )
    return [_within("replicated uniques", counts[l] / found.n, limit, text)]


def _within(measure: str, share: float, limit: float, text: str, more: str = "") -> Reason:
    """An exact share against the most that is allowed."""
    return compared(measure, (share, 0.0), limit, f"{text}; {percent(limit)}{more} are allowed")


def _file(found: Exposure, l: int) -> str:
    """How file l is named: those of several by number."""
    return "The file" if found.m == 1 else f"File {l + 1} of {found.m}"
