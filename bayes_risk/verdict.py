"""The advice whether a file may go out, given thresholds, stated knowledge and stated prior.

The verdict is arithmetic on results that stand beside it in the report. It never replaces the
decision of the person who signs the release.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayes_risk.verdict_further import (
    of_chains,
    of_membership,
    of_usefulness,
    standard_errors,
)
from bayes_risk.verdict_reason import (
    Outcome,
    Reason,
    Thresholds,
    Usefulness,
    against,
    doubt,
    limited,
    no_objection,
    percent,
    records,
    times,
)

if TYPE_CHECKING:
    from bayes_risk.identification.result import IdentificationRisk
    from bayes_risk.memberships.result import Membership
    from bayes_risk.results import AttributeRisk
    from bayes_risk.utilities.result import Utility

__all__ = ["Outcome", "Reason", "Thresholds", "Usefulness", "Verdict", "judge", "percent"]

Array = npt.NDArray[np.float64]
RISK: tuple[Outcome, ...] = ("should not go out", "cannot be told", "may go out")
USE: tuple[Usefulness, ...] = (
    "less useful than wanted",
    "usefulness cannot be told",
    "useful enough",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Advice on the release, conditional on stated knowledge and prior.

    Attributes
    ----------
    outcome : {"may go out", "should not go out", "cannot be told"}
        What the risk says. One reason against outweighs every doubt, one doubt every reason for.
    usefulness : {"useful enough", "less useful than wanted", "usefulness cannot be told"}, or None
        What the utility says, likewise; None: no threshold was set for it. It changes no outcome.
    reasons : tuple of Reason
        The deciding ones first, those of risk before those of use.
    assumptions : str
        What it rests on, in one sentence, "Under these assumptions: ...".
    thresholds : Thresholds
    """

    outcome: Outcome
    usefulness: Usefulness | None = None
    reasons: tuple[Reason, ...]
    assumptions: str
    thresholds: Thresholds

    @property
    def headline(self) -> str:
        """Outcome, and usefulness if it was judged, as a sentence or two."""
        useful = self.usefulness
        if self.outcome == "may go out" and useful not in (None, "useful enough"):
            return f"By its risk the file may go out, but {USED[useful]}."
        risk = {
            "may go out": "The file may go out",
            "should not go out": "The file should not go out",
            "cannot be told": "Whether the file may go out cannot be told",
        }[self.outcome]
        if useful is None:
            return f"{risk}."
        return f"{risk}. {USED[useful][0].upper()}{USED[useful][1:]}."

    @property
    def deciding(self) -> tuple[Reason, ...]:
        """The reasons that made the outcome, then those for which usefulness fails."""
        open_use = () if self.usefulness in (None, "useful enough") else (self.usefulness,)
        return tuple(r for r in self.reasons if r.outcome in (self.outcome, *open_use))

    @property
    def others(self) -> tuple[Reason, ...]:
        """The reasons that did not make it."""
        return tuple(r for r in self.reasons if r not in self.deciding)

    @property
    def signal(self) -> Outcome:
        """Whether to show it as good, bad or open: a file that is not useful enough is not good."""
        useful = self.usefulness in (None, "useful enough")
        return self.outcome if useful or self.outcome != "may go out" else "cannot be told"

    def sentence(self) -> str:
        """Outcome, deciding reasons and assumptions in plain words."""
        return " ".join([self.headline, *(r.sentence for r in self.deciding), self.assumptions])

    def __repr__(self) -> str:
        lines = [f"Verdict: {self.headline}", *(f"  - {r.sentence}" for r in self.reasons)]
        return "\n".join([*lines, self.assumptions])


USED: dict[Usefulness | None, str] = {
    "useful enough": "it is useful enough",
    "less useful than wanted": "it is less useful than wanted",
    "usefulness cannot be told": "whether it is useful enough cannot be told",
}


def judge(
    attribute: "AttributeRisk | None",
    identification: "IdentificationRisk | None",
    thresholds: Thresholds | None = None,
    *,
    diagnostics: Mapping[str, Any] | None = None,
    membership: "Membership | None" = None,
    utility: "Utility | None" = None,
) -> Verdict:
    """Compare the results with the thresholds; a number within its error of one is a doubt.

    A record is above a threshold when its value less two Monte Carlo standard errors is, and may be
    above when its value plus two is; more than two where the chains of the fit disagree. A record
    marked unreliable can raise doubt, never decide.

    Parameters
    ----------
    attribute : AttributeRisk, optional
    identification : IdentificationRisk, optional
        A risk that was not measured is a doubt: nothing is said of it.
    thresholds : Thresholds, optional
    diagnostics : mapping, optional
        ``fit.diagnostics``: where chains disagree, errors between them are taken wider.
    membership : Membership, optional
    utility : Utility, optional
        Judged only by thresholds that were set for them. Utility has an outcome of its own.

    Returns
    -------
    Verdict
    """
    limits = thresholds or Thresholds()
    width = standard_errors(diagnostics or {}, limits.rhat)
    sampled = attribute is not None or membership is not None
    reasons = [
        *_attribute_reasons(attribute, limits, width),
        *_identification_reasons(identification, limits),
        *(of_chains(diagnostics or {}, limits.rhat) if sampled else []),
        *of_membership(membership, limits, width),
        *of_usefulness(utility, limits),
    ]
    found, order = {r.outcome for r in reasons}, (*RISK[:2], *USE[:2], RISK[2], USE[2])
    return Verdict(
        outcome=next(outcome for outcome in RISK if outcome in found),
        usefulness=next((use for use in USE if use in found), None),
        reasons=tuple(sorted(reasons, key=lambda r: order.index(r.outcome))),
        assumptions=_assumptions(attribute, identification),
        thresholds=limits,
    )


def _attribute_reasons(
    risk: "AttributeRisk | None", limits: Thresholds, width: float
) -> list[Reason]:
    if risk is None:
        return [
            doubt("attribute risk", "Attribute risk was not measured, so nothing is said of it.")
        ]
    return [
        *_given_away(risk),  # first: the screen shows two reasons
        _probability(risk, limits.attribute_probability, width),
        _bayes_factor(risk, limits.attribute_log_bayes_factor, width),
        _disclosed(risk),
        _reliability(risk, limits.share_unreliable),
    ]


NAMED = 10  # records given away that the verdict names


def _disclosed(risk: "AttributeRisk") -> Reason:
    count = int(risk.records["disclosed"].sum())
    if count:
        text = f"Released unchanged: {records(count)}, whose values anyone can read."
        return against("disclosed", text)
    return no_objection("disclosed", "No audited record is released unchanged.")


def known_for_certain(risk: "AttributeRisk") -> list[str]:
    """Names of the variables that the release gives away for certain, one text per target."""
    known = risk.certain()
    names = known.columns.astype(str)
    rows, row_of = np.unique(known.to_numpy(), axis=0, return_inverse=True)
    texts = [", ".join(names[row]) for row in rows]
    return [texts[k] for k in row_of.ravel()]


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
            f"For {records(len(labels))} the release leaves only the true value of {which} "
            f"possible; known for certain: {shown}{more}.",
        )
    ]


def _probability(risk: "AttributeRisk", limit: float, width: float) -> Reason:
    above, maybe = _counts_above(risk, np.full(len(risk.index), limit), width)
    words = f"the intruder {{}} the true values a probability above {limit:g}"
    return limited(
        "probability of the truth",
        (above, words.format("gives")),
        (maybe, words.format("may give")),
        f"No record's true values get a probability above {limit:g}.",
    )


def _bayes_factor(risk: "AttributeRisk", limit: float, width: float) -> Reason:
    most = times(limit)
    # log odds(p) - log odds(prior) > limit  <=>  p > prior e^limit / (1 - prior + prior e^limit)
    prior, factor = risk.records["prior"].to_numpy(), math.exp(limit)
    above, maybe = _counts_above(risk, prior * factor / (1 - prior + prior * factor), width)
    words = f"the release {{}} the odds of the true values by more than {most}"
    return limited(
        "log Bayes factor",
        (above, words.format("multiplies")),
        (maybe, words.format("may multiply")),
        f"For no record does the release multiply the odds of the truth by more than {most}.",
    )


def _counts_above(risk: "AttributeRisk", limit: Array, width: float) -> tuple[int, int]:
    """How many records are surely above their limit, and how many more may be."""
    table = risk.records
    value, error = table["probability"].to_numpy(), width * table["mcse"].to_numpy()
    open_ = ~table["disclosed"].to_numpy()  # the others have a reason of their own
    # a number without an error (NaN) or marked unreliable can be a doubt, but decides nothing
    sure = open_ & table["reliable"].to_numpy() & (value - error > limit)
    maybe = open_ & ~sure & (value + np.nan_to_num(error) > limit)
    return int(sure.sum()), int(maybe.sum())


def _reliability(risk: "AttributeRisk", limit: float) -> Reason:
    reliable = risk.records["reliable"]
    count, share = int((~reliable).sum()), float((~reliable).mean())
    of = f"{count:,} of {len(reliable):,} records ({percent(share)})"
    text = f"The numbers of {of} are marked unreliable"
    if not count:
        return no_objection("unreliable records", "No audited record is marked unreliable.")
    if share > limit:
        return doubt("unreliable records", f"{text}, more than the {percent(limit)} allowed.")
    return no_objection("unreliable records", f"{text}; {percent(limit)} are allowed.")


def _identification_reasons(risk: "IdentificationRisk | None", limits: Thresholds) -> list[Reason]:
    if risk is None:
        return [
            doubt(
                "identification risk",
                "Identification risk was not measured, so nothing is said of it.",
            )
        ]
    rates = risk.summary()["true_match_rate"]
    rate, limit = float(rates.max()), limits.true_match_rate
    text = f"{percent(rate)} of records would be matched uniquely and correctly"
    if rate > limit:
        return [against("true match rate", f"{text}, more than the {percent(limit)} allowed.")]
    return [no_objection("true match rate", f"{text} at most; {percent(limit)} are allowed.")]


def _assumptions(
    attribute: "AttributeRisk | None", identification: "IdentificationRisk | None"
) -> str:
    parts: list[str] = []
    if attribute is not None:
        known = attribute.assumptions
        parts += [known["records"], f"prior: {known['prior']}", f"guesses: {known['guesses']}"]
    if identification is not None:
        close = f", {', '.join(identification.near)}," if identification.near else ""
        parts.append(
            f"in matching the intruder holds exact keys{close} and {identification.presence()}"
        )
    parts = [part.strip().rstrip(".") for part in parts]
    return f"Under these assumptions: {'; '.join(parts) or 'none, for nothing was measured'}."
