"""Reasons beyond the two risks: an assumed model, chains that disagree, membership, usefulness."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_risk._core.formats import number
from bayes_risk.studies.comparing.words import MEASURES

from .reason import (
    Reason,
    Thresholds,
    Usefulness,
    against,
    begun,
    doubt,
    limited,
    no_objection,
    out_of,
    times,
)

if TYPE_CHECKING:
    from bayes_risk.matching.correspondence import RowCorrespondence
    from bayes_risk.risk.membership.result import Membership
    from bayes_risk.risk.result import AttributeRisk
    from bayes_risk.utilities.result import Utility

NOT_MEASURED = ("attribute risk", "membership")  # reasons of what nobody computed
BALANCE = "balance of the evidence"
DRAWS_A_CHAIN = 100  # Vehtari et al. (2021): what an estimated error needs


def of_chains(diagnostics: Mapping[str, Any], limit: float | None) -> list[Reason]:
    """Whether chains agree, or errors between them have to be taken wider.

    The largest of some hundred R-hats is above the limit now and then in sound chains too, so that
    it counts only beside a smallest effective number of draws below ``DRAWS_A_CHAIN`` a chain.
    """
    rhat, ess = (float(diagnostics.get(key, "nan")) for key in ("max_rhat", "min_ess"))
    if limit is None or math.isinf(limit) or "max_rhat" not in diagnostics:
        return []
    chains = int(diagnostics.get("chains", 1))
    if chains == 1:
        text = "The fit has one chain, so that nobody can tell whether it has settled."
        return [doubt("agreement of the chains", text, "chains")]
    if not rhat > limit:
        text = f"The chains of the fit agree (largest R-hat {rhat:.3f}; {limit:g} is allowed)."
        return [no_objection("agreement of the chains", text)] if rhat == rhat else []
    wanted = DRAWS_A_CHAIN * chains
    worst = f"largest R-hat {rhat:.3f}, above {limit:g}"
    if ess >= wanted:
        text = f"The chains of the fit hold enough draws ({worst}, but {ess:,.0f} effective draws)."
        return [no_objection("agreement of the chains", text)]
    width = standard_errors(diagnostics, limit)
    text = (
        f"The chains of the fit disagree ({worst}, and {ess:,.0f} effective draws where {wanted} "
        f"are wanted): {width:.1f} standard errors were allowed for instead of 2."
    )
    return [no_objection("agreement of the chains", text)]


def of_rows(rows: "RowCorrespondence | None") -> list[Reason]:
    """Whether matches were counted for the right records, where that was looked at."""
    measure = "correspondence of rows"
    if rows is None:
        return []
    if not rows.unmatched:
        return [no_objection(measure, rows.sentence())]
    little = "Where rows do not correspond, few matches say little."
    found = (("rows moved", rows.of_moved()), ("rows unknown", rows.of_unknown()))
    return [doubt(measure, f"{text} {little}", cure) for cure, text in found if text]


def of_modes(risk: "AttributeRisk | None") -> list[Reason]:
    """Whether the chains of an audit led by the release are of the mode that made it."""
    found = None if risk is None else risk.modes
    if found is None:
        return []
    measure, text = "agreement of the chains", f"{begun(found.sentence())}."
    if len(found.used) < 2:
        text = f"{text[:-1]}: nobody can tell how much chains of that mode differ."
        return [doubt(measure, text, "chains")]
    return [no_objection(measure, text)]


def of_the_audit(risk: "AttributeRisk | None", diagnostics: Mapping[str, Any]) -> dict[str, Any]:
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


def of_mechanism(risk: "AttributeRisk | None") -> list[Reason]:
    """Whether the synthesis model is known, or was only assumed of files made elsewhere."""
    if risk is None or not risk.assumed:
        return []
    if rejected(risk) and risk.check is not None:
        text = f"{risk.check.sentence()} What was computed under it is not judged."
        return [doubt("synthesis model", text, "model rejected")]
    text = (
        "The synthesis model is assumed, not verified, and could not be checked."
        if risk.check is None
        else risk.check.sentence()
    )
    if risk.check is not None and risk.check.kept_models:
        return [no_objection("synthesis model", text)]
    text = f"{text} Under another model the numbers would be others."
    return [doubt("synthesis model", text, "mechanism")]


def rejected(risk: "AttributeRisk | None") -> bool:
    """Whether the check says that the model assumed did not make the files."""
    return risk is not None and risk.check is not None and risk.check.failed


def standing(risk: "AttributeRisk | None", reasons: Sequence[Reason]) -> list[Reason]:
    """Reasons that stand: where the model is rejected, those that rest on none of its numbers.

    That its evidence is out of balance may say why; that it is in balance says nothing.
    """
    if not rejected(risk):
        return list(reasons)
    stand = ("disclosed", *NOT_MEASURED)
    return [r for r in reasons if r.measure in stand or (r.measure == BALANCE and r.cure)]


def of_balance(risk: "AttributeRisk | None") -> list[Reason]:
    """Whether the evidence is in balance; nothing where it cannot be told."""
    found = None if risk is None else risk.balance
    if found is None or found.outcome == "says nothing":
        return []
    if found.outcome == "balanced":
        return [no_objection(BALANCE, f"The evidence is in balance. {found.sentence()}")]
    may = MEANS_SHARED if found.outcome == "shared" else MEANS_UNBALANCED
    text = f"The evidence is out of balance. {found.sentence()} It may mean: {may}."
    return [doubt(BALANCE, text, found.outcome)]


MEANS_SHARED = "all files come from one draw of the parameters, or from a point estimate of them"
MEANS_UNBALANCED = (
    "files made by another mechanism than the one audited, records synthesised from their own "
    "classes audited as new, or a fit that was stopped early"
)


def of_membership(
    found: "Membership | None", limits: Thresholds, width: float = 2.0
) -> list[Reason]:
    """Whether it can be told who is in the data, where the agency has set a threshold."""
    asked = (limits.membership_auc, limits.membership_log_bayes_factor)
    if asked == (None, None):
        return []
    if found is None:
        text = "Membership has a threshold and was not measured, so nothing is said of it."
        return [doubt("membership", text, "membership")]
    reasons = [] if asked[0] is None else [_told_apart(found, asked[0], width)]
    return reasons + ([] if asked[1] is None else [_members(found, asked[1], width)])


def _told_apart(found: "Membership", limit: float, width: float) -> Reason:
    """The area under the curve; its error is over the persons asked about, and over the draws."""
    measure = "membership, area under the curve"
    if not found.has_others:
        text = "Nobody outside the data was asked about, so that members cannot be told apart."
        return doubt(measure, text, "others")
    row = found.summary().to_dict("index")["auc"]
    value, error = float(row["value"]), math.hypot(2 * row["standard_error"], width * row["mcse"])
    asked = f"of {int(found.member.sum()):,} members and {int((~found.member).sum()):,} others"
    text = f"The release points to the member of a pair, {asked}, {100 * value:.1f} times in 100"
    allowed = f"{100 * limit:g} are allowed"
    if value - error > limit:
        return against(measure, f"{text}; {allowed}.")
    if not value + error <= limit:
        text = f"{text}; {allowed}, and the error leaves open if it is more."
        return doubt(measure, text, "membership error")
    return no_objection(measure, f"{text}; {allowed}.")


def _members(found: "Membership", limit: float, width: float) -> Reason:
    """Bayes factors of members, one by one; an unreliable one can be a doubt, no decision."""
    value, error = found.log_bayes_factor[found.member], width * found.mcse[found.member]
    sure = found.reliable[found.member] & (value - error > limit)
    maybe = ~sure & (value + np.nan_to_num(error) > limit)
    n, some, more = len(value), int(sure.sum()), int(maybe.sum())
    words = f"the release {{}} the odds of being in the data by more than {times(limit)}"
    return limited(
        "membership, log Bayes factor",
        (f"For {out_of(some, n, MEMBERS)} {words.format('multiplies')}", some),
        (f"For {out_of(more, n, MEMBERS)} {words.format('may multiply')}", more),
        f"For {out_of(0, n, MEMBERS)} {words.format('multiplies')}.",
        "draws",
    )


MEMBERS = "members asked about"


def of_usefulness(found: "Utility | None", limits: Thresholds) -> list[Reason]:
    """Whether the release is as useful as the agency wants it, by the measures it has named."""
    wanted = limits.utility or {}
    if wanted and found is None:
        text = "Utility has a threshold and was not measured, so nothing is said of it."
        return [_of_use("utility", "usefulness inconclusive", text, "utility")]
    return [] if found is None else [_useful(found, name, x) for name, x in wanted.items()]


def _useful(found: "Utility", name: str, limit: float) -> Reason:
    rows, lower = found.summary(), MEASURES[name].lower
    words = MEASURES[name].words
    value = float(rows["value"].get(name, float("nan")))
    if math.isnan(value):
        text = f"Not measured: {words}, of which a threshold was set."
        return _of_use(name, "usefulness inconclusive", text, "measure")
    error = 2 * error_of_null(found, name)
    low, high = (value - error, value + error) if lower else (-value - error, -value + error)
    most = limit if lower else -limit
    wanted = f"at {'most' if lower else 'least'} {limit:g} is wanted"
    text = f"{begun(words)}: {number(value)}; {wanted}"
    if low > most:
        return _of_use(name, "less useful than wanted", f"{text}.")
    if high > most:
        text = f"{text}, and the error of the computation leaves it open."
        return _of_use(name, "usefulness inconclusive", text, "permutations")
    return _of_use(name, "useful enough", f"{text}.")


def error_of_null(found: "Utility", name: str) -> float:
    """Monte Carlo error of a measure of the files as they are; 0 but for a tree's null.

    The null is the mean over K permutations with standard deviation s, so that its error is
    ``s / sqrt(K)``; that of s is about ``s / sqrt(2 (K - 1))``. A ratio moves by as much as its
    denominator; ``z = (pMSE - null) / s`` by ``1 / sqrt(K)`` and ``z / sqrt(2 (K - 1))``.
    """
    K, rows = found.permutations, found.propensity.xs("cart", level="model")
    if name == "ratio_cart":
        relative = (rows["null_sd"] / rows["null_pmse"]).mean() / math.sqrt(K)
        return float(rows["ratio"].mean() * relative)
    if name == "standardized_cart":
        z = float(rows["standardized"].mean())
        return math.hypot(1 / math.sqrt(K), z / math.sqrt(2 * (K - 1)))
    return 0.0


def _of_use(measure: str, outcome: Usefulness, sentence: str, cure: str = "") -> Reason:
    return Reason(measure=measure, outcome=outcome, sentence=sentence, cure=cure)
