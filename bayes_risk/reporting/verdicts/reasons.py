"""Rules of the verdict: clauses, what each needs, and how its figures become reasons."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.formats import begun, counted, number, percent
from bayes_risk.data.measures import IDENTIFICATION, MEASURES
from bayes_risk.matching.households import HouseholdMatching
from bayes_risk.matching.result import NOBODYS, IdentificationRisk, MatchCounts, Matching
from bayes_risk.release.correspondence import RowCorrespondence
from bayes_risk.release.exposure import Exposure
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
)
from bayes_risk.risk.membership.audit import Membership
from bayes_risk.risk.result import AttributeRisk
from bayes_risk.utilities.result import Utility

from .attribute import NEAR, NOT_AUDITED, ROUNDING, SINGLE, on_gains
from .doubts import (
    CHAINS,
    EXPECTED,
    FIT,
    cure_of,
    doubts_of,
    of_fit,
    of_matching,
    rejected,
    standard_errors,
)
from .groups import MATCHED_GROUPS, OF_GROUPS, on_groups, on_matched_groups
from .matches import of_persons, unique_matches
from .reason import (
    GAINED,
    NOT_JUDGED,
    RISK,
    USE,
    Figures,
    Reason,
    Scale,
    Thresholds,
    against,
    compared_with_limit,
    doubt,
    limited,
    multiple,
    no_objection,
    out_of,
    times,
)

BALANCE, ORIGINAL = "balance of the evidence", "original released"
SIMULATED = "simulated evidence"
MATCHES = IDENTIFICATION["true_match_rate"].words
HOUSEHOLDS = "matching of households"
AUC, IN_DATA = "membership, area under the curve", "membership, log Bayes factor"
MEMBERSHIP = ("membership_auc", "membership_log_bayes_factor")
TOGETHER = "kept columns together"
ROLES = ("not in a key", "in a key", "public")
LINKED = "Persons shown beyond chance by"
SHOWN, LISTED = 3, 30  # columns that a sentence names, and that the facts do
BROAD = 3  # times its threshold: what an approximate test must show surely
LEAST_SEEN = (NEAREST, OWN, ALIKE)  # whose persons are fewer than those that a file knows
PERSONS = ("identical_records", "unique_values", "replicated_uniques", "linked_records")
LIMITS = dict(zip((IDENTICAL, VALUES, UNIQUES), PERSONS, strict=False))  # of tests of `links`
LIMITS |= dict.fromkeys(LEAST_SEEN, PERSONS[-1])
LIMITS |= {AMOUNTS: PERSONS[0], LARGEST: PERSONS[1]}
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
    households: HouseholdMatching | None = None

    @property
    def width(self) -> float:
        """How many standard errors are allowed for."""
        return standard_errors(self.chains, self.limits.rhat)

    @property
    def rejected(self) -> bool:
        """Whether the check says that the model assumed did not make the files."""
        check = None if self.attribute is None else self.attribute.check
        return check is not None and check.failed

    def missing(self) -> Iterator[tuple[str, Scale]]:
        """What the agency wants to know, and was not measured."""
        if self.attribute is None and self.identification is None:
            yield from (("attribute risk", RISK), ("identification risk", RISK))
        if self.membership is None and any(getattr(self.limits, n) is not None for n in MEMBERSHIP):
            yield "membership", RISK
        if self.households is None and self.limits.household_match_rate is not None:
            yield HOUSEHOLDS, RISK
        if self.utility is None and self.limits.utility:
            yield "utility", USE


def reasons_of(case: Case) -> Iterator[Reason]:
    """All of them; where the model is rejected, those alone that rest on none of its numbers."""
    for name, scale in case.missing():
        yield doubt(name, f"{begun(name)} was not measured.", name, scale)
    for clause in CLAUSES:
        found = getattr(case, clause.of)
        if found is not None and not (case.rejected and MODEL in clause.needs):
            yield from clause.rule(found, case)


# --- attribute risk --------------------------------------------------------------------------


def _gains(risk: AttributeRisk, case: Case) -> Iterator[Reason]:
    return on_gains(risk, case.limits, case.width, partial(cure_of, risk, width=case.width))


def _disclosed(risk: AttributeRisk, case: Case) -> Iterator[Reason]:
    n, count = len(risk.index), int(risk.records["disclosed"].sum())
    if count:
        text = f"{begun(out_of(count, n))}: values not replaced, so anyone can read them."
        yield against("disclosed", text)
    elif case.exposure is None or not case.exposure.identical.any():  # else "all" would mislead
        yield no_objection("disclosed", f"The values of all {n:,} audited records were replaced.")


def _unreliable(risk: AttributeRisk, case: Case) -> Iterator[Reason]:
    """Records whose numbers the diagnostics reject, and why."""
    limit, doubtful = case.limits.share_unreliable, ~risk.records["reliable"].to_numpy()
    count, share = int(doubtful.sum()), float(doubtful.mean())
    text = f"The numbers of {out_of(count, len(doubtful))} are unreliable"
    if not count:
        text = f"The numbers of all {len(doubtful):,} audited records are reliable."
        yield no_objection("unreliable records", text)
        return
    why = "; ".join(f"{why} ({int(which.sum()):,})" for which, why, _ in rejected(risk))
    text = f"{text} ({percent(share)}; {percent(limit)} are allowed): {why}."
    found = doubt if share > limit else no_objection
    yield found("unreliable records", text, cure_of(risk, doubtful))


def _grid(risk: AttributeRisk, case: Case) -> Iterator[Reason]:
    """Grids of numbers that end within the model's predictive, or are coarse beside it."""
    if risk.grid is None:
        return
    cut, inside, coarse = (flags[risk.case] for flags in risk.grid[1:4])
    narrow = inside if cut.mean() <= case.limits.share_unreliable else cut
    words = {"grid narrow": "leave out much of", "grid coarse": "are coarse beside"}
    for (cure, what), those in zip(words.items(), (narrow, coarse), strict=True):
        if those.any():
            who = out_of(int(those.sum()), len(those))
            text = f"The guesses of numbers {what} what the model expects, for {who}."
            yield doubt("guesses", text, cure)


def _mechanism(risk: AttributeRisk, case: Case) -> Iterator[Reason]:
    """Whether the synthesis model is known, or was only assumed of files made elsewhere."""
    measure, text = "synthesis model", "The synthesis model is assumed, and could not be checked."
    text = text if risk.check is None else risk.check.sentence()
    if case.rejected:
        text = f"{text} Results under this model are not judged."
        yield doubt(measure, text, "model rejected")
    elif risk.check is not None and risk.check.kept_models and risk.assumed:
        yield no_objection(measure, text)
    elif risk.assumed:
        yield doubt(measure, f"{text} Another model would give other results.", "mechanism")


def _simulated(risk: AttributeRisk, case: Case) -> Iterator[Reason]:
    """Of evidence learnt from runs: it is at least what the files tell."""
    if risk.learnt is None:
        return
    found = risk.learnt
    text = f"The evidence was {found.sentence()}."
    if found.overconfident:
        yield doubt(SIMULATED, f"{text} At the highest certainty it is overconfident.", "more runs")
    elif case.limits.accept_simulated:
        yield no_objection(
            SIMULATED, f"{text} What this intruder learns is accepted as the measure."
        )
    else:
        more = "An intruder with better features may learn more."
        yield doubt(SIMULATED, f"{text} {more}", "simulated")


def _balance(risk: AttributeRisk, case: Case) -> Iterator[Reason]:
    """Whether the evidence is in balance; of a rejected model only that it is not."""
    found = risk.balance
    if found is not None and found.outcome in MAY_MEAN:
        text = f"The evidence is out of balance. {found.sentence()} Possible causes: "
        yield doubt(BALANCE, f"{text}{MAY_MEAN[found.outcome]}.", found.outcome)
    elif found is not None and found.outcome == "balanced" and not case.rejected:
        yield no_objection(BALANCE, f"The evidence is in balance. {found.sentence()}")


def _modes(risk: AttributeRisk, _: Case) -> Iterator[Reason]:
    """Whether the chains of an audit led by the release are of the mode that made it."""
    if (found := risk.modes) is None:
        return
    text = begun(found.sentence())
    if len(found.used) < 2:
        text += ": one chain does not show how much chains of this mode differ."
        yield doubt(CHAINS, text, "chains from the release")
    elif len(found.elsewhere):
        text += ": its risk was computed in another mode than its own."
        yield doubt(CHAINS, text, "modes differ")
    else:
        yield no_objection(CHAINS, f"{text}.")


def _chains(diagnostics: Mapping[str, Any], case: Case) -> Iterator[Reason]:
    if case.attribute is not None or case.membership is not None:  # matching rests on no chains
        yield from of_fit(diagnostics, case.limits.rhat)


# --- identification risk ---------------------------------------------------------------------


def _identification(risk: Matching, case: Case) -> Iterator[Reason]:
    """Unique and correct matches, pooled or per release, whichever are more."""
    if isinstance(risk, MatchCounts):
        text, measure = f"{NOBODYS} There is no true match rate to judge.", "identification risk"
        if case.attribute is None:
            yield Reason(measure, NOT_JUDGED, f"{text} Attribute risk was not measured.", "rows")
        else:
            yield no_objection(MATCHES, text)
        return
    which, rate, by_chance, p = max(unique_matches(risk), key=lambda found: found[1] - found[2])
    alone, n, limit = risk.baseline_true_matches, risk.n, case.limits.true_match_rate
    text = f"An intruder matches {percent(rate)} of the {n:,} records uniquely and correctly"
    if isinstance(risk, IdentificationRisk) and risk.person is not None:
        n = risk.n_persons
        alone = None if alone is None else int(of_persons(risk, risk.baseline == 1).sum())
        text = f"An intruder matches a record of {percent(rate)} of the {n:,} persons uniquely and "
        text += "correctly"
    kept = f". The unsynthesised keys alone match {percent(alone / n)}" if alone else ""
    chance = f", {percent(by_chance)} by chance among records with the same unsynthesised keys"
    more = " beyond chance" if by_chance else ""
    excess = rate - by_chance if p <= LEVEL or not by_chance else (alone or 0) / n
    text = f"{text}{chance * bool(more)}; {percent(limit)}{more} are allowed{kept}"
    found = compared_with_limit(MATCHES, (excess, 0.0), limit + ROUNDING, text)
    without = percent(alone / n) if alone is not None else percent(by_chance)
    beyond = f"{percent(limit)} + {percent(by_chance)} by chance" if more else percent(limit)
    what = "Records matched uniquely and correctly" + which
    figures = Figures(what, percent(rate), without, beyond)
    found = replace(found, figures=figures, of_allowed=multiple(limit, excess))
    yield replace(found, cure="keys") if min(rate, (alone or 0) / n) > limit else found
    if isinstance(risk, IdentificationRisk):
        yield from of_matching(risk)


def _households(found: HouseholdMatching, case: Case) -> Iterator[Reason]:
    """Households that are matched, where the agency has set a threshold."""
    if (limit := case.limits.household_match_rate) is None:
        return
    rows, n = found.summary()["value"], len(found.members)
    rate = float(rows["households_true"])
    text = f"An intruder matches {percent(rate)} of the {n:,} households uniquely and correctly"
    text = f"{text}; {percent(limit)} are allowed"
    judged = compared_with_limit(HOUSEHOLDS, (rate, 0.0), limit + ROUNDING, text)
    what = "Households matched uniquely and correctly"
    figures = Figures(what, percent(rate), "", percent(limit))
    yield replace(judged, figures=figures, of_allowed=multiple(limit, rate))


def _rows(rows: RowCorrespondence, _: Case) -> Iterator[Reason]:
    """Whether matches were counted for the right records, where that was looked at."""
    measure = "correspondence of rows"
    if not rows.doubts():
        yield no_objection(measure, rows.sentence())
    for cure, text in rows.doubts().items():
        little = "Where rows do not correspond, few matches are weak evidence."
        yield doubt(measure, f"{text} {little}", cure)


# --- membership and use ----------------------------------------------------------------------


def _membership(found: Membership, case: Case) -> Iterator[Reason]:
    """Whether members are recognised, where the agency has set a threshold."""
    auc, factor = case.limits.membership_auc, case.limits.membership_log_bayes_factor
    who = found.member
    if auc is not None and not found.has_others:
        text = "The audit has no people outside the data to compare members with."
        yield doubt(AUC, text, "others")
    elif auc is not None:  # its error is over the persons, and over the draws
        row = found.summary().to_dict("index")["auc"]
        wide = math.hypot(2 * row["standard_error"], case.width * row["mcse"])
        text = (
            f"In pairs of one of {int(who.sum()):,} members and one of {int((~who).sum()):,} "
            f"others, the release points to the member {100 * row['value']:.1f} times in 100; "
            f"{100 * auc:g} are allowed"
        )
        yield compared_with_limit(AUC, (float(row["value"]), wide), auc, text, "membership error")
    if factor is not None:  # members one by one; an unreliable one can be a doubt, no decision
        value, error = found.log_bayes_factor[who], case.width * found.mcse[who]
        with np.errstate(invalid="ignore"):  # and so can one without an error (NaN)
            sure = found.reliable[who] & (value - error > factor)
            maybe = ~sure & (value + np.nan_to_num(error) > factor)
        odds = f"the odds of being in the data by more than a factor {times(factor)}"
        yield limited(IN_DATA, sure, maybe, odds, "draws", what="audited members")


def _usefulness(found: Utility, case: Case) -> Iterator[Reason]:
    """Whether the release is as useful as the agency wants it, by the measures it has named."""
    values = found.summary()["value"]
    for name, limit in (case.limits.utility or {}).items():
        words, sign = MEASURES[name].words, 1 if MEASURES[name].lower else -1
        value = float(values.get(name, np.nan))
        if math.isnan(value):
            yield doubt(name, f"Not measured despite its threshold: {words}.", "measure", USE)
            continue
        most = "most" if sign > 0 else "least"
        text = f"{begun(words)}: {number(value)}; at {most} {limit:g} is wanted"
        off = (sign * value, 2 * error_of_null(found, name))
        figures = Figures(begun(words), number(value), "", f"at {most} {limit:g}")
        judged = compared_with_limit(name, off, sign * limit, text, "permutations", USE)
        numbers = (limit, value) if sign > 0 else (value, limit)
        yield replace(judged, figures=figures, of_allowed=multiple(*numbers))
    for _, why, cure in doubts_of(found) if case.limits.utility else ():
        yield Reason("utility", USE[-1], f"{begun(why)}.", cure)


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


def _originals(found: Exposure, _: Case) -> Iterator[Reason]:
    for l in map(int, np.flatnonzero(found.same_as_original)):
        which = "The file" if found.m == 1 else f"File {l + 1} of {found.m}"
        all_of = f"all of its {int(found.n_released[l]):,} records are equal"
        yield against(ORIGINAL, f"{which} is the original itself: {all_of}.")


def _compared(found: Exposure, _: Case) -> Iterator[Reason]:
    """Columns of the original that could not be compared: what they show is not known."""
    if why := list(found.why_left_out.values()):
        n = len(why) + len(found.compared) + len(found.identifiers)
        count = f"{len(why):,} of the original's {n:,} columns"
        text = f"{count} could not be compared: {_listed(why, '; ', ' columns')}."
        yield doubt("columns compared", text, "not compared")


def _columns(found: Exposure, case: Case) -> Iterator[Reason]:
    """Columns that stay unchanged, identify persons, or that the original does not have."""
    facts, public, n = found.links, case.limits.public or {}, found.links.n
    known = () if case.identification is None else case.identification.known
    as_they_are = {
        name: ("is released unchanged", alone) for name, alone in facts.unchanged.items()
    }
    for name, (own, alone) in facts.copies.items():
        as_they_are[name] = f"has the values of {own}, or their order", alone
    for name, (what, alone) in as_they_are.items():
        if 2 * alone > n and name not in public:
            key = "" if name in known else ", and is not a key"
            text = f"Column {name} {what}{key}: {alone:,} of the {n:,} persons are alone with "
            yield against("unchanged columns", f"{text}their value.", "public", column=name)
    others = [c for c in facts.unchanged if c not in {*known, *public}]
    if others and not public.keys() & facts.unchanged and 2 * facts.alone_together > n:
        text = (
            f"{facts.alone_together:,} of the {n:,} persons are unique in their values of the "
            f"unchanged columns together ({', '.join(others[:SHOWN])} "
            f"{'is' if len(others) == 1 else 'are'} in no key)"
        )
        if case.attribute is None:
            yield doubt(TOGETHER, f"{text}: an intruder who knows them finds the row.", "public")
        else:
            yield no_objection(
                TOGETHER, f"{text}; attribute risk assumes that the intruder knows them."
            )
    for name, count in facts.identifiers.items():
        if count and name not in public:
            text = f"Column {name} identifies persons: {count:,} of its values are in a file"
            if 2 * count > n:
                yield against("identifiers", f"{text}.", "public", column=name)
            else:  # fresh names meet those of the original too, and nothing tells how often
                text = f"{text}, some of them perhaps by chance."
                yield doubt("identifiers", text, "public", column=name)
    if outside := [name for name in facts.outside if name not in {*public, *facts.copies}]:
        text = f"Columns that the original does not have cannot be judged: {_listed(outside)}."
        yield doubt("columns outside the original", text, "outside")


def facts_of(case: Case) -> str:
    """Columns by name: unchanged, with who is alone in each and whether it is a key; others."""
    if (found := case.exposure) is None:
        return ""
    facts, public, keys = found.links, case.limits.public or {}, case.identification
    known, made = ((), ()) if keys is None else (keys.known, keys.synthesized)
    unchanged: dict[str, list[str]] = {role: [] for role in ROLES}
    as_they_were = ((c, alone) for c, alone in facts.unchanged.items() if c not in made)
    for name, alone in sorted(as_they_were, key=lambda column: -column[1]):
        role = ROLES[2 if name in public else 1 if name in known else 0]
        who = f" ({alone:,} of {facts.n:,} persons unique)" * bool(alone)
        unchanged[role].append(f"{name}{who}")
    kept = [f"{role}: {_listed(names, most=LISTED)}" for role, names in unchanged.items() if names]
    identifiers = [
        f"{name} ({count:,} values in a file)" for name, count in facts.identifiers.items() if count
    ]
    parts = {
        "Released unchanged, ": "; ".join(kept),
        "Identifiers: ": _listed(identifiers, most=LISTED),
        "Columns that the original does not have: ": _listed([*facts.outside], most=LISTED),
    }
    return " ".join(f"{head}{text}." for head, text in parts.items() if text)


def _listed(words: Sequence[str], join: str = ", ", what: str = "", *, most: int = SHOWN) -> str:
    """Some of many, and how many more."""
    more = f" and {len(words) - most:,} more{what}" if len(words) > most else ""
    return f"{join.join(words[:most])}{more}"


def _linked(found: Exposure, case: Case) -> Iterator[Reason]:
    """Persons whom files show beyond chance, by the test of each kind that sees most."""
    shown, limits = found.links, case.limits
    for test, one in shown.worst().items():
        limit = getattr(limits, LIMITS[test])
        share = one.persons / shown.n if one.seen else 0.0
        text = f"{begun(shown.sentence_of(one))}; {percent(limit)} are allowed"
        figures = Figures(f"{LINKED} {test}", percent(share), "", percent(limit))
        above, of = share > limit + ROUNDING, multiple(limit, share)
        if test == ALIKE and above and one.low <= BROAD * limit * shown.n:
            text = f"{text}. The number by chance is approximate."
            yield replace(doubt(test, text, "linked"), figures=figures, of_allowed=of)
        elif test in LEAST_SEEN and one.seen and not above:
            text = f"{text}. More persons may be shown less closely than by the nearest record."
            yield replace(doubt(test, text, "linked"), figures=figures, of_allowed=of)
        else:
            judged = compared_with_limit(test, (share, 0.0), limit + ROUNDING, text)
            yield replace(judged, figures=figures, of_allowed=of)
    sure = [one for one in shown.tests if one.certain and one.persons > limits.certain_persons]
    if sure:
        one = max(sure, key=lambda test: test.persons)
        text = (
            f"About {one.persons:,.0f} persons are shown for certain, by {one.test} "
            f"({', '.join(map(str, one.columns[:SHOWN]))}"
            f"{', ...' * (len(one.columns) > SHOWN)}): {percent(one.precision)} of such claims are "
            f"right; {limits.certain_persons:,.0f} are allowed."
        )
        what, limit = f"Persons shown for certain by {one.test}", limits.certain_persons
        figures = Figures(what, f"about {one.persons:,.0f}", "", f"{limit:,.0f}")
        of = multiple(limit, one.persons)
        yield against("certain persons", text, figures=figures, of_allowed=of)


def _exact(found: Exposure, case: Case) -> Iterator[Reason]:
    """Sums that files keep, and kept groups in which all have one value, unless they are public."""
    public, limit = case.limits.public or {}, case.limits.certain_persons
    totals = [one for one in found.exact.totals if one.column not in public]
    if totals and totals[0].persons > limit:
        text = f"{totals[0].sentence(found.n)}; {limit:,.0f} are allowed."
        yield against("totals", text, "totals")
    for one in (a for a in found.exact.alike if not {a.by, a.column} & {*public}):
        text = (
            f"All {one.persons:,} persons of {counted(one.found, 'group')} of {one.by} have one "
            f"value of {one.column}, rare elsewhere, and both columns are released "
            f"unchanged: a person's group reveals the value."
        )
        yield doubt("groups with one value", text, "public", column=one.column)


# --- clauses ---------------------------------------------------------------------------------

MODEL, ROWS = "model", "corresponding rows"
Rule = Callable[[Any, Case], Iterable[Reason]]


class Clause(NamedTuple):
    """A rule, the field of `Case` that it takes, what it judges, thresholds, and what it needs.

    ``needs``: the model that made the files (MODEL), or rows that are the original's records.
    """

    rule: Rule
    of: str
    judges: tuple[str, ...]
    limits: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def of_files(self, gives: Collection[str]) -> str:
        """What it says of files of which a command gives so much; empty: nothing."""
        lacks = {self.of, *self.needs} - {*gives}
        words = {"": "yes", MODEL: "never within", ROWS: "inconclusive"}
        return words.get("".join(lacks), "")


CERTAIN, SUMS = "certain disclosure", ("totals", "groups with one value")
COLUMNS = ("identifiers", "columns outside the original", "unchanged columns", TOGETHER)
GAINS = ("attribute_gain", "attribute_log_bayes_factor", "share_not_audited")
CLAUSES = (
    Clause(_gains, "attribute", (CERTAIN, GAINED, SINGLE, NEAR, NOT_AUDITED), GAINS, (MODEL,)),
    Clause(on_groups, "attribute", (OF_GROUPS,), ("group_gain",), (MODEL,)),
    Clause(_disclosed, "attribute", ("disclosed",)),
    Clause(_unreliable, "attribute", ("unreliable records",), ("share_unreliable",), (MODEL,)),
    Clause(_grid, "attribute", ("guesses",)),
    Clause(_mechanism, "attribute", ("synthesis model",)),
    Clause(_simulated, "attribute", (SIMULATED,), ("accept_simulated",)),
    Clause(_balance, "attribute", (BALANCE,)),
    Clause(_identification, "identification", (MATCHES, EXPECTED), ("true_match_rate",), (ROWS,)),
    Clause(_households, "households", (HOUSEHOLDS,), ("household_match_rate",), (ROWS,)),
    Clause(on_matched_groups, "identification", (MATCHED_GROUPS,), ("group_gain",), (ROWS,)),
    Clause(_originals, "exposure", (ORIGINAL,)),
    Clause(_compared, "exposure", ("columns compared",)),
    Clause(_columns, "exposure", COLUMNS, ("public",)),
    Clause(_linked, "exposure", (*LIMITS, "certain persons"), (*PERSONS, "certain_persons")),
    Clause(_exact, "exposure", SUMS, ("certain_persons", "public")),
    Clause(_modes, "attribute", (CHAINS,)),
    Clause(_chains, "chains", (CHAINS, FIT), ("rhat",)),
    Clause(_rows, "rows", ("correspondence of rows",)),
    Clause(_membership, "membership", (AUC, IN_DATA), MEMBERSHIP, (MODEL,)),
    Clause(_usefulness, "utility", ("utility",), ("utility",)),
)
FILES = ("identification", "exposure")
SAMPLED = ("attribute", "chains", "membership", "utility", "households")
GIVES = {  # what commands know, by kind of file
    "`identify`": (*FILES, "rows", ROWS),
    "`identify`, rows unknown": (*FILES, "rows"),
    "`identify`, no correspondence": ("exposure",),
    "`audit`, own files": (*FILES, *SAMPLED, ROWS, MODEL),
    "`audit`, others": (*FILES, *SAMPLED, "rows", ROWS),
}
