"""What results say of an agency's thresholds, given stated knowledge and stated priors.

The verdict is arithmetic on results that stand beside it in the report. It never replaces the
decision of the person who signs the release.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bayes_risk._core.formats import begun
from bayes_risk._core.shown import Shown
from bayes_risk.matching.result import Matching
from bayes_risk.release.exposure import Exposure, exposure_of
from bayes_risk.risk.result import AttributeRisk

from .attribute import audited, draws_that_settle, enough, not_audited, not_judged
from .doubts import CURES, of_the_audit, settings_that_settle
from .reason import (
    GAINED,
    RISK,
    USE,
    WITHIN,
    NextStep,
    Outcome,
    Reason,
    Thresholds,
    Usefulness,
)
from .reasons import LINKED, ORIGINAL, Case, facts_of, reasons_of

__all__ = ["Outcome", "Reason", "Thresholds", "Usefulness", "Verdict", "judge"]

JUDGED: dict[str, str] = {USE[0]: "not useful", USE[1]: "inconclusive"}  # in the table


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Shown):
    """The release against an agency's thresholds, conditional on stated knowledge and priors."""

    headline: str  # outcome, and usefulness if it was judged, as a sentence or two
    # what the risk says: that of the worst reason, in the order of `RISK`
    outcome: Outcome
    # What the utility says, likewise; None: no threshold was set for it. It changes no outcome
    usefulness: Usefulness | None = None
    reasons: tuple[Reason, ...]  # the deciding ones first, those of risk before those of use
    assumptions: str  # what it rests on, in one sentence, "Under these assumptions: ..."
    thresholds: Thresholds
    steps: tuple[NextStep, ...] = ()  # what to do next, in this order; of a study alone
    at_risk: tuple[str, ...] = ()  # records whose true values became most probable, and why
    facts: str = ""  # columns by name: unchanged, identifiers, not in the original

    @property
    def prior(self) -> str:
        """The prior that decided on attribute risk; empty: the flat one, or it was not judged."""
        return next((r.prior for r in self.reasons if r.measure.startswith(GAINED)), "")

    @property
    def deciding(self) -> tuple[Reason, ...]:
        """The reasons that made the outcome, then those for which usefulness fails."""
        open_use = () if self.usefulness in (None, USE[-1]) else (self.usefulness,)
        return tuple(r for r in self.reasons if r.outcome in (self.outcome, *open_use))

    @property
    def table(self) -> list[tuple[str, str, str, str, str]]:
        """What was judged, with this release, without it, allowed, and how it was judged.

        Tests of links that are within are one line, that with the largest share.
        """
        return [row for row, _ in self._lines()]

    @property
    def picture(self) -> list[tuple[str, tuple[float, float, float] | None]]:
        """Of each line of the table what was judged, and the number over what is allowed."""
        return [(row[0], of) for row, of in self._lines()]

    def _lines(self) -> list[tuple[Any, tuple[float, float, float] | None]]:
        rows = [
            ((*r.figures, JUDGED.get(r.outcome, r.outcome.split(" ")[0])), r.of_allowed)
            for r in self.reasons
            if r.figures
        ]
        linked = [r for r in rows if r[0][0].startswith(LINKED) and r[0][-1] == "within"]
        worst = max(linked, key=lambda r: float(r[0][1].strip("< %")), default=None)
        more = f" (the worst of {len(linked)} tests)" if len(linked) > 1 else ""
        return [
            ((f"{r[0][0]}{more}", *r[0][1:]), r[1]) if r is worst else r
            for r in rows
            if r is worst or r not in linked
        ]

    @property
    def others(self) -> tuple[Reason, ...]:
        """The reasons that did not make it."""
        return tuple(r for r in self.reasons if r not in self.deciding)

    @property
    def signal(self) -> Outcome:
        """Whether to show it as good, bad or open: a file that is not useful enough is not good."""
        within = self.outcome == WITHIN and self.usefulness not in (None, USE[-1])
        return "inconclusive" if within else self.outcome

    def sentence(self) -> str:
        """Outcome, facts, deciding reasons with what would settle them, and assumptions."""
        parts = [self.headline, self.facts, *map(with_cure, self.deciding), self.assumptions]
        return " ".join(filter(None, parts))

    def __repr__(self) -> str:
        reasons = [f"  - {with_cure(reason)}" for reason in self.reasons]
        lines = [f"Verdict: {self.headline}", self.facts, *reasons, self.assumptions]
        return "\n".join(filter(None, lines))


def with_cure(reason: Reason) -> str:
    """Its sentence, and what would settle it or would lower it."""
    return reason.sentence + f" {reason.advice}: {reason.cure}." * bool(reason.cure)


def judge(
    attribute: AttributeRisk | None,
    identification: Matching | None,
    thresholds: Thresholds | None = None,
    *,
    diagnostics: Mapping[str, Any] | None = None,
    exposure: Exposure | None = None,
    **others: Any,
) -> Verdict:
    """Compare the results with the thresholds; a number within its error of one is inconclusive.

    ``others``: ``rows``, ``membership`` and ``utility``, as of `Case`.

    A record is above a threshold when its value less two Monte Carlo standard errors is, and may be
    above when its value plus two is; more than two where the chains of the fit disagree. A record
    marked unreliable can make the verdict inconclusive, never decide it.
    """
    case = Case(
        limits=thresholds or Thresholds(),
        chains=of_the_audit(attribute, diagnostics or {}),
        attribute=attribute,
        identification=identification,
        exposure=exposure or exposure_of(identification, attribute),  # matching names the keys
        **others,
    )
    keys = () if identification is None else identification.known
    wanted = enough(attribute, case.limits)
    more = draws_that_settle(attribute, case.limits, case.width)
    settings = settings_that_settle(attribute, diagnostics or {}, keys, wanted, more)
    reasons = [
        replace(r, cure=CURES[r.cure].format_map(settings)) if r.cure else r
        for r in reasons_of(case)
    ]
    found, order = {r.outcome for r in reasons}, (*RISK[:3], *USE[:2], RISK[3], USE[2])
    outcome = next(one for one in RISK if one in found)
    usefulness = next((use for use in USE if use in found), None)
    return Verdict(
        headline=_headline(outcome, usefulness, case),
        outcome=outcome,
        usefulness=usefulness,
        reasons=tuple(
            sorted(reasons, key=lambda r: (order.index(r.outcome), r.measure != ORIGINAL))
        ),
        facts=facts_of(case),
        assumptions=_assumptions(attribute, identification),
        thresholds=case.limits,
    )


def _headline(outcome: Outcome, usefulness: Usefulness | None, case: Case) -> str:
    within, risk = outcome == WITHIN, case.attribute
    absent = _unmeasured(risk, case.identification)
    whose = " for this intruder" if within and risk is not None and risk.learnt else ""
    parts = [
        begun(outcome) + whose,
        f"{absent} was not measured" * bool(within and absent),
        audited(risk),
    ]
    if within and risk is not None:
        parts += [not_audited(risk)] if risk.sample else []
        parts += ["single columns were not judged"] if not_judged(risk) else []
    text = "; ".join(filter(None, parts))
    if usefulness is None:
        return f"{text}."
    but = within and usefulness != USE[-1]
    return f"{text}, but {usefulness}." if but else f"{text}. {begun(usefulness)}."


def _assumptions(attribute: AttributeRisk | None, identification: Matching | None) -> str:
    parts: list[str] = []
    if attribute is not None:
        known = attribute.assumptions
        parts += [known["records"], f"prior: {known['prior']}", f"guesses: {known['guesses']}"]
        parts += [text] if (text := not_judged(attribute)) else []
    if identification is not None:
        close = f", {', '.join(identification.near)}," if identification.near else ""
        parts.append(
            f"in matching, the intruder knows the exact keys{close} and {identification.presence()}"
        )
    if absent := _unmeasured(attribute, identification):
        parts.append(f"{absent} was not measured")
    parts = [part.strip().rstrip(".") for part in parts]
    return f"Under these assumptions: {'; '.join(parts) or 'none, because nothing was measured'}."


def _unmeasured(attribute: AttributeRisk | None, identification: Matching | None) -> str:
    """The one of the two risks that nobody computed; empty: both were, or neither."""
    risks = {"attribute risk": attribute, "identification risk": identification}
    absent = [name for name, risk in risks.items() if risk is None]
    return absent[0] if len(absent) == 1 else ""
