"""Rules of the verdict: both risks, chains, models, membership, what files show, use."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import poisson

from bayes_risk._core.arrays import Flags
from bayes_risk._core.formats import begun, counted, number, percent
from bayes_risk.matching.result import NOBODYS, IdentificationRisk, MatchCounts
from bayes_risk.matching.words import Matching
from bayes_risk.release.correspondence import RowCorrespondence
from bayes_risk.release.exposure_result import Exposure
from bayes_risk.release.links_result import (
    ALIKE,
    AMOUNTS,
    IDENTICAL,
    LARGEST,
    LEVEL,
    NEAREST,
    OWN,
    UNIQUES,
    VALUES,
    Links,
)
from bayes_risk.risk.membership.audit import Membership
from bayes_risk.risk.posterior import MAX_LEFT_OUT
from bayes_risk.risk.result import AttributeRisk
from bayes_risk.studies.comparison import MEASURES
from bayes_risk.utilities.result import Utility

from .attribute import ROUNDING, on_gains
from .reason import (
    NAMED,
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
    unjudged,
)

BALANCE, ORIGINAL = "balance of the evidence", "original released"
KEPT = "columns released unchanged"
SHOWN = 3  # columns that were not compared and are named
LIMITS = {  # thresholds of the tests of `links`
    IDENTICAL: "identical_records",
    VALUES: "unique_values",
    UNIQUES: "replicated_uniques",
    AMOUNTS: "identical_records",
    LARGEST: "unique_values",
    NEAREST: "linked_records",
    OWN: "linked_records",
    ALIKE: "linked_records",
}
BROAD = 3  # times its threshold: what an approximate test must show surely
LEAST_SEEN = (NEAREST, OWN, ALIKE)  # whose persons are fewer than those that a file knows
DRAWS_A_CHAIN = 100  # Vehtari et al. (2021): what an estimated error needs
MAY_MEAN = {
    "shared": "all files come from one draw of the parameters, or from a point estimate of them",
    "unbalanced": (
        "files made by another mechanism than the one audited, records synthesised from their own "
        "classes audited as new, or a fit that was stopped early"
    ),
}


class Case(NamedTuple):
    """What a verdict is about: results, thresholds, diagnostics of the chains they rest on."""

    limits: Thresholds
    chains: Mapping[str, Any]
    attribute: AttributeRisk | None
    identification: Matching | None
    exposure: Exposure | None
    rows: RowCorrespondence | None = None
    membership: Membership | None = None
    utility: Utility | None = None

    @property
    def width(self) -> float:
        """How many standard errors are allowed for."""
        return standard_errors(self.chains, self.limits.rhat)

    @property
    def rejected(self) -> bool:
        """Whether the check says that the model assumed did not make the files."""
        check = None if self.attribute is None else self.attribute.check
        return check is not None and check.failed


def reasons_of(case: Case) -> Iterator[Reason]:
    """All of them; where the model is rejected, those alone that rest on none of its numbers.

    That its evidence is out of balance may say why; that it is in balance says nothing.
    """
    stand = ("disclosed", "attribute risk", "membership")  # the last two: nobody computed them
    for rule in RULES:
        for one in rule(case):
            out = one.measure in stand or (one.measure == BALANCE and one.cure)
            if out or not (case.rejected and rule in OF_THE_MODEL):
                yield one


# --- attribute risk and identification risk --------------------------------------------------


def _attribute(case: Case) -> Iterator[Reason]:
    """What is certain or gained; not replaced; and unreliable."""
    risk = case.attribute
    if risk is None:
        if case.identification is None:
            yield not_measured("attribute risk")
        return
    cure = partial(_cure, risk, width=case.width)
    yield from on_gains(risk, case.limits, case.width, cure)
    n, count = len(risk.index), int(risk.records["disclosed"].sum())
    if count:
        text = f"{begun(out_of(count, n))}: values not replaced, so that anyone can read them."
        yield against("disclosed", text)
    elif case.exposure is None or not case.exposure.identical.any():  # else "all" would mislead
        yield no_objection("disclosed", f"The values of all {n:,} audited records were replaced.")
    doubtful, limit = ~risk.records["reliable"].to_numpy(), case.limits.share_unreliable
    count, share, measure = int(doubtful.sum()), float(doubtful.mean()), "unreliable records"
    text = f"The numbers of {out_of(count, n)}{f' ({percent(share)})' * bool(count)} are marked "
    if share > limit:
        text += f"unreliable, more than the {percent(limit)} allowed."
        yield doubt(measure, text, _cure(risk, doubtful))
    else:
        allowed = f"; {percent(limit)} are allowed" * bool(count)
        yield no_objection(measure, f"{text}unreliable{allowed}.")


def _over(value: Any, error: Any, limit: float) -> tuple[Flags, Flags]:
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
    return "error"


def _grid(case: Case) -> Iterator[Reason]:
    """Grids of numbers that end within the model's predictive, or are coarse beside it."""
    grid = None if case.attribute is None else case.attribute.grid
    if case.attribute is None or grid is None:
        return
    cut, inside, coarse = (flags[case.attribute.case] for flags in grid[1:])
    narrow = inside if cut.mean() <= case.limits.share_unreliable else cut
    for those, what, cure in (
        (narrow, "leave out much of", "grid narrow"),
        (coarse, "are coarse beside", "grid coarse"),
    ):
        if count := int(those.sum()):
            who = out_of(count, len(those))
            text = f"The guesses of numbers {what} what the model expects, for {who}."
            yield doubt("guesses", text, cure)


def _identification(case: Case) -> Iterator[Reason]:
    """Unique and correct matches, pooled or per release, whichever are more."""
    risk, limit = case.identification, case.limits.true_match_rate
    if risk is None:
        if case.attribute is None:
            yield not_measured("identification risk")
        return
    if isinstance(risk, MatchCounts):
        text = f"{NOBODYS} There is no true match rate to judge."
        if case.attribute is None:
            yield unjudged(
                "identification risk", f"{text} Attribute risk was not measured.", "rows"
            )
        else:
            yield no_objection("true match rate", text)
        return
    rate, by_chance, p = max(_matches(risk), key=lambda found: found[0] - found[1])
    alone = risk.baseline_true_matches
    text = f"{percent(rate)} of the {risk.n:,} records would be matched uniquely and correctly"
    kept = f". Unsynthesised keys alone: {percent(alone / risk.n)}" if alone else ""
    chance = f" ({percent(by_chance)} by chance among records with the same unsynthesised keys)"
    more = " beyond them" if by_chance else ""
    excess = rate - by_chance if p <= LEVEL or not by_chance else (alone or 0) / risk.n
    text = f"{text}{chance * bool(more)}; {percent(limit)}{more} are allowed{kept}"
    found = compared("true match rate", (excess, 0.0), limit + ROUNDING, text)
    yield replace(found, cure="keys") if min(rate, (alone or 0) / risk.n) > limit else found


def _matches(risk: Matching) -> Iterator[tuple[float, float, float]]:
    """Share of unique true matches, pooled and by file; that by chance, and its probability.

    Of several records with the same unsynthesised keys each may be the one row that matches. Who is
    alone with these keys is found for certain, and counts.
    """
    if not isinstance(risk, IdentificationRisk):
        for rate in risk.summary()["true_match_rate"].dropna():
            yield float(rate), 0.0, 0.0
        return
    for true, false in ((risk.pooled_K, risk.pooled_F), *zip(risk.K.T, risk.F.T, strict=True)):
        chance = risk.baseline * (true | false)
        several = chance < 1
        expected = float(chance[several].sum())
        p = float(poisson.sf((true & several).sum() - 1, expected))
        yield float(true.mean()), expected / risk.n, p


def _rows(case: Case) -> Iterator[Reason]:
    """Whether matches were counted for the right records, where that was looked at."""
    rows, measure = case.rows, "correspondence of rows"
    if rows is not None and not rows.doubts():
        yield no_objection(measure, rows.sentence())
    elif rows is not None:
        for cure, text in rows.doubts().items():
            little = "Where rows do not correspond, few matches say little."
            yield doubt(measure, f"{text} {little}", cure)


# --- chains and models -----------------------------------------------------------------------


def _chains(case: Case) -> Iterator[Reason]:
    if case.attribute is not None or case.membership is not None:  # matching rests on none
        yield from of_chains(case.chains, case.limits.rhat)


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


def _modes(case: Case) -> Iterator[Reason]:
    """Whether the chains of an audit led by the release are of the mode that made it."""
    found = None if case.attribute is None else case.attribute.modes
    measure = "agreement of the chains"
    if found is None:
        return
    text = begun(found.sentence())
    if len(found.used) < 2:
        text += ": nobody can tell how much chains of that mode differ."
        yield doubt(measure, text, "led chains")
    elif len(found.elsewhere):
        text += ": what it gives away was computed in a mode that did not make it."
        yield doubt(measure, text, "modes differ")
    else:
        yield no_objection(measure, f"{text}.")


def _mechanism(case: Case) -> Iterator[Reason]:
    """Whether the synthesis model is known, or was only assumed of files made elsewhere."""
    risk, measure = case.attribute, "synthesis model"
    if risk is None or not risk.assumed:
        return
    text = "The synthesis model is assumed, not verified, and could not be checked."
    text = text if risk.check is None else risk.check.sentence()
    if case.rejected:
        text = f"{text} What was computed under it is not judged."
        yield doubt(measure, text, "model rejected")
    elif risk.check is not None and risk.check.kept_models:
        yield no_objection(measure, text)
    else:
        text = f"{text} Under another model the numbers would be others."
        yield doubt(measure, text, "mechanism")


def _balance(case: Case) -> Iterator[Reason]:
    """Whether the evidence is in balance; nothing where it cannot be told."""
    found = None if case.attribute is None else case.attribute.balance
    if found is None or found.outcome == "says nothing":
        return
    if found.outcome == "balanced":
        yield no_objection(BALANCE, f"The evidence is in balance. {found.sentence()}")
    else:
        text = f"The evidence is out of balance. {found.sentence()} It may mean: "
        yield doubt(BALANCE, f"{text}{MAY_MEAN[found.outcome]}.", found.outcome)


# --- membership and use ----------------------------------------------------------------------


def _membership(case: Case) -> Iterator[Reason]:
    """Whether it can be told who is in the data, where the agency has set a threshold."""
    found, auc = case.membership, case.limits.membership_auc
    factor = case.limits.membership_log_bayes_factor
    if found is None:
        if auc is not None or factor is not None:
            yield not_measured("membership")
        return
    measure = "membership, area under the curve"
    if auc is not None and not found.has_others:
        text = "Nobody outside the data was asked about, so that members cannot be told apart."
        yield doubt(measure, text, "others")
    elif auc is not None:  # its error is over the persons asked about, and over the draws
        row = found.summary().to_dict("index")["auc"]
        value = float(row["value"])
        error = math.hypot(2 * row["standard_error"], case.width * row["mcse"])
        asked = f"of {int(found.member.sum()):,} members and {int((~found.member).sum()):,} others"
        text = f"The release points to the member of a pair, {asked}, {100 * value:.1f} times in "
        text += f"100; {100 * auc:g} are allowed"
        yield compared(measure, (value, error), auc, text, "membership error")
    if factor is not None:  # members one by one; an unreliable one can be a doubt, no decision
        who = found.member
        surely, either = _over(found.log_bayes_factor[who], case.width * found.mcse[who], factor)
        sure = found.reliable[who] & surely
        words = f"the release {{}} the odds of being in the data by more than {times(factor)}"
        measure, asked = "membership, log Bayes factor", "members asked about"
        yield limited(measure, sure, either & ~sure, words, "draws", what=asked)


def _usefulness(case: Case) -> Iterator[Reason]:
    """Whether the release is as useful as the agency wants it, by the measures it has named."""
    found, wanted = case.utility, case.limits.utility or {}
    if found is None:
        yield from [not_measured("utility", USE)] * bool(wanted)
        return
    values = found.summary()["value"]
    for name, limit in wanted.items():
        words, sign = MEASURES[name].words, 1 if MEASURES[name].lower else -1
        value = float(values.get(name, np.nan))
        if math.isnan(value):
            text = f"Not measured: {words}, of which a threshold was set."
            yield doubt(name, text, "measure", USE)
            continue
        most = "most" if sign > 0 else "least"
        text = f"{begun(words)}: {number(value)}; at {most} {limit:g} is wanted"
        off = (sign * value, 2 * error_of_null(found, name))
        yield compared(name, off, sign * limit, text, "permutations", USE)


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


# --- what files show without a model: exact counts -------------------------------------------


def _originals(case: Case) -> Iterator[Reason]:
    if (found := case.exposure) is not None:
        for l in map(int, np.flatnonzero(found.same_as_original)):
            all_of = f"all of its {int(found.n_released[l]):,} records are equal"
            yield against(ORIGINAL, f"{_file(found, l)} is the original itself: {all_of}.")


def _compared(case: Case) -> Iterator[Reason]:
    """Columns of the original that could not be compared: what they show is not known."""
    if (found := case.exposure) is None:
        return
    measure, why = "columns compared", list(found.why_left_out.values())
    if why:
        more = f"; and {len(why) - SHOWN:,} more columns" if len(why) > SHOWN else ""
        n = len(why) + len(found.compared) + len(found.identifiers)
        count = f"{len(why):,} of the original's {n:,} columns"
        text = f"{count} could not be compared: {'; '.join(why[:SHOWN])}{more}."
        yield doubt(measure, text, "not compared")


def _facts(case: Case) -> Iterator[Reason]:
    """Columns that go out unchanged, name persons, or that the original does not have."""
    if (found := case.exposure) is None:
        return
    facts, public = found.links, case.limits.public or {}
    known = () if case.identification is None else case.identification.known
    for name, alone in facts.unchanged.items():
        if 2 * alone > facts.n and name not in public:
            key = "" if name in known else ", and is no key"
            text = (
                f"Column {name} is released unchanged{key}: {alone:,} of the {facts.n:,} persons "
                "are alone with their value."
            )
            yield against("unchanged columns", text, "public")
    if facts.unchanged:
        yield no_objection(KEPT, _unchanged(facts, known, public))
    others = [c for c in facts.unchanged if c not in {*known, *public}]
    together = "kept columns together"
    if others and not public.keys() & facts.unchanged and 2 * facts.alone_together > facts.n:
        text = (
            f"{facts.alone_together:,} of the {facts.n:,} persons are alone with their values of "
            f"the unchanged columns together, of which {', '.join(others[:SHOWN])} "
            f"{'is' if len(others) == 1 else 'are'} in no key"
        )
        if case.attribute is None:
            yield doubt(together, f"{text}: who knows them finds the row.", "public")
        else:
            yield no_objection(together, f"{text}; attribute risk is of an intruder who has them.")
    for name, shown in facts.identifiers.items():
        if shown and name not in public:
            text = f"Column {name} names persons: {shown:,} of its values stand in a file"
            if 2 * shown > facts.n:
                yield against("identifiers", f"{text}.", "public")
            else:  # fresh names meet those of the original too, and nothing tells how often
                yield doubt("identifiers", f"{text}, some of them perhaps by chance.", "public")
    if outside := [name for name in facts.outside if name not in public]:
        more = f" and {len(outside) - SHOWN:,} more" if len(outside) > SHOWN else ""
        text = f"The original does not have {', '.join(outside[:SHOWN])}{more}: what "
        text += "these columns show of persons cannot be judged."
        yield doubt("columns outside the original", text, "outside")


def _unchanged(facts: Links, known: Collection[str], public: Collection[str]) -> str:
    """Every column that is released unchanged, whether a key names it, and who is alone in it."""
    most = sorted(facts.unchanged.items(), key=lambda column: -column[1])
    said = [
        f"{name} ({'a key' if name in known else 'public' if name in public else 'no key'}, "
        f"{alone:,} alone)"
        for name, alone in most[:NAMED]
    ]
    more = f" and {len(most) - NAMED:,} more" if len(most) > NAMED else ""
    what = "Released unchanged, and how many of the"
    return f"{what} {facts.n:,} persons are alone with their value: {', '.join(said)}{more}."


def _linked(case: Case) -> Iterator[Reason]:
    """Persons whom files show beyond chance, by the test of each kind that sees most."""
    if (found := case.exposure) is None:
        return
    shown, limits = found.links, case.limits
    for test, one in shown.worst().items():
        limit = getattr(limits, LIMITS[test])
        share = one.persons / shown.n if one.seen else 0.0
        text = f"{begun(shown.sentence_of(one))}; {percent(limit)} are allowed"
        above = share > limit + ROUNDING
        if test == ALIKE and above and one.low <= BROAD * limit * shown.n:
            text = f"{text}. What is by chance there is not known exactly."
            yield doubt(test, text, "linked")
        elif test in LEAST_SEEN and one.seen and not above:
            text = f"{text}. More persons may be shown less closely than by the nearest record."
            yield doubt(test, text, "linked")
        else:
            yield compared(test, (share, 0.0), limit + ROUNDING, text)
    sure = [one for one in shown.tests if one.certain and one.persons > limits.certain_persons]
    if sure:
        one = max(sure, key=lambda test: test.persons)
        text = (
            f"About {one.persons:,.0f} persons are shown for certain, by {one.test} "
            f"({', '.join(map(str, one.columns[:SHOWN]))}"
            f"{', ...' * (len(one.columns) > SHOWN)}); {limits.certain_persons:,.0f} are allowed."
        )
        yield against("certain persons", text)


def _exact(case: Case) -> Iterator[Reason]:
    """Sums that files keep, and kept groups in which all have one value, unless they are public."""
    if (found := case.exposure) is None:
        return
    public, limit = case.limits.public or {}, case.limits.certain_persons
    totals = [one for one in found.exact.totals if one.column not in public]
    if totals and totals[0].persons > limit:
        text = f"{totals[0].sentence(found.n)}; {limit:,.0f} are allowed."
        yield against("totals", text, "totals")
    for one in (a for a in found.exact.alike if not {a.by, a.column} & {*public}):
        text = (
            f"All {one.persons:,} persons of {counted(one.found, 'group')} of {one.by} have one "
            f"value of {one.column}, which few others have, and both columns are released "
            "unchanged: who knows a person's group knows the value."
        )
        yield doubt("groups with one value", text, "public")


def _file(found: Exposure, l: int) -> str:
    """How file l is named: those of several by number."""
    return "The file" if found.m == 1 else f"File {l + 1} of {found.m}"


Rule = Callable[[Case], Iterator[Reason]]
OF_THE_MODEL: tuple[Rule, ...] = (_attribute, _balance, _membership)
RULES: tuple[Rule, ...] = (
    *(_attribute, _grid, _mechanism, _balance, _identification),
    *(_originals, _compared, _facts, _linked, _exact),
    *(_modes, _chains, _rows, _membership, _usefulness),
)
