"""The advice whether a file may go out, given thresholds, stated knowledge and stated prior.

The verdict is arithmetic on results that stand beside it in the report. It never replaces the
decision of the person who signs the release.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from bayes_risk.identification.result import IdentificationRisk
    from bayes_risk.results import AttributeRisk

Outcome = Literal["may go out", "should not go out", "cannot be told"]
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What the agency accepts; ``docs/reading-the-numbers.md`` gives reasons for the defaults.

    Attributes
    ----------
    attribute_probability : float, in (0, 1]
        No record's true values should get more posterior probability than this.
    attribute_log_bayes_factor : float, positive
        The release should not raise the log odds of any record's truth by more than this.
    true_match_rate : float, in [0, 1]
        Share of all records that may be matched uniquely and correctly, pooled or per release.
    share_unreliable : float, in [0, 1]
        Share of targets whose number the diagnostics may reject before nothing can be told.
    """

    attribute_probability: float = 0.5
    attribute_log_bayes_factor: float = 3.0
    true_match_rate: float = 0.05
    share_unreliable: float = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One sentence of the verdict: which measure, which way it points, in words."""

    measure: str
    outcome: Outcome
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Advice on the release, conditional on stated knowledge and prior.

    Attributes
    ----------
    outcome : {"may go out", "should not go out", "cannot be told"}
        One reason against outweighs every doubt, one doubt every reason for.
    reasons : tuple of Reason
        The deciding ones first.
    assumptions : str
        What it rests on, in one sentence, "Under these assumptions: ...".
    thresholds : Thresholds
    """

    outcome: Outcome
    reasons: tuple[Reason, ...]
    assumptions: str
    thresholds: Thresholds

    @property
    def headline(self) -> str:
        """The outcome as a sentence."""
        return {
            "may go out": "The file may go out.",
            "should not go out": "The file should not go out.",
            "cannot be told": "Whether the file may go out cannot be told.",
        }[self.outcome]

    @property
    def deciding(self) -> tuple[Reason, ...]:
        """The reasons that made the outcome."""
        return tuple(r for r in self.reasons if r.outcome == self.outcome)

    def sentence(self) -> str:
        """Outcome, deciding reasons and assumptions in plain words."""
        return " ".join([self.headline, *(r.sentence for r in self.deciding), self.assumptions])

    def __repr__(self) -> str:
        lines = [f"Verdict: {self.headline}", *(f"  - {r.sentence}" for r in self.reasons)]
        return "\n".join([*lines, self.assumptions])


def judge(
    attribute: "AttributeRisk | None",
    identification: "IdentificationRisk | None",
    thresholds: Thresholds | None = None,
) -> Verdict:
    """Compare both risks with the thresholds; a number within its error of one is a doubt.

    A record is above a threshold when its value less two Monte Carlo standard errors is, and may be
    above when its value plus two is. A record marked unreliable can raise doubt, never decide.

    Parameters
    ----------
    attribute : AttributeRisk, optional
    identification : IdentificationRisk, optional
        A risk that was not measured is a doubt: nothing is said of it.
    thresholds : Thresholds, optional

    Returns
    -------
    Verdict
    """
    limits = thresholds or Thresholds()
    reasons = [
        *_attribute_reasons(attribute, limits),
        *_identification_reasons(identification, limits),
    ]
    order: tuple[Outcome, ...] = ("should not go out", "cannot be told", "may go out")
    outcome = min((r.outcome for r in reasons), key=order.index)
    return Verdict(
        outcome=outcome,
        reasons=tuple(sorted(reasons, key=lambda r: order.index(r.outcome))),
        assumptions=_assumptions(attribute, identification),
        thresholds=limits,
    )


def _attribute_reasons(risk: "AttributeRisk | None", limits: Thresholds) -> list[Reason]:
    if risk is None:
        return [
            _doubt("attribute risk", "Attribute risk was not measured, so nothing is said of it.")
        ]
    return [
        *_given_away(risk),  # first: the screen shows two reasons
        _probability(risk, limits.attribute_probability),
        _bayes_factor(risk, limits.attribute_log_bayes_factor),
        _disclosed(risk),
        _reliability(risk, limits.share_unreliable),
    ]


NAMED = 10  # records given away that the verdict names


def _disclosed(risk: "AttributeRisk") -> Reason:
    count = int(risk.records["disclosed"].sum())
    if count:
        return Reason(
            measure="disclosed",
            outcome="should not go out",
            sentence=f"Released unchanged: {_records(count)}, whose values anyone can read.",
        )
    return _for("disclosed", "No audited record is released unchanged.")


def known_for_certain(risk: "AttributeRisk") -> list[str]:
    """Names of the variables that the release gives away for certain, one text per target."""
    known = risk.certain()
    names = known.columns.astype(str)
    return [", ".join(names[row]) for row in known.to_numpy()]


def _given_away(risk: "AttributeRisk") -> list[Reason]:
    """Records, by name, for which the release leaves no value but the true one possible."""
    known = risk.certain()
    labels = known.index[known.any(axis=1)]
    if not len(labels):
        return []
    shown = ", ".join(str(label) for label in labels[:NAMED])
    more = f" and {len(labels) - NAMED:,} more" if len(labels) > NAMED else ""
    variables = ", ".join(map(str, known.columns[known.any(axis=0)]))
    return [
        Reason(
            measure="certain disclosure",
            outcome="should not go out",
            sentence=f"For {_records(len(labels))} the release leaves no value but the true one "
            f"possible ({variables}); it is known for certain: {shown}{more}.",
        )
    ]


def _probability(risk: "AttributeRisk", limit: float) -> Reason:
    above, maybe = _counts_above(risk, np.full(len(risk.index), limit))
    words = f"the intruder {{}} the true values a probability above {limit:g}"
    return _limited(
        "probability of the truth",
        (above, words.format("gives")),
        (maybe, words.format("may give")),
        f"No record's true values get a probability above {limit:g}.",
    )


def _bayes_factor(risk: "AttributeRisk", limit: float) -> Reason:
    # log odds(p) - log odds(prior) > limit  <=>  p > prior e^limit / (1 - prior + prior e^limit)
    prior, factor = risk.records["prior"].to_numpy(), math.exp(limit)
    above, maybe = _counts_above(risk, prior * factor / (1 - prior + prior * factor))
    times = f"{factor:.3g}" if factor < 10 else f"{factor:,.0f}"
    words = f"the release {{}} the odds of the true values by more than {times}"
    return _limited(
        "log Bayes factor",
        (above, words.format("multiplies")),
        (maybe, words.format("may multiply")),
        f"For no record does the release multiply the odds of the truth by more than {times}.",
    )


def _counts_above(risk: "AttributeRisk", limit: Array) -> tuple[int, int]:
    """How many records are surely above their limit, and how many more may be."""
    table = risk.records
    value, error = table["probability"].to_numpy(), 2 * table["mcse"].to_numpy()
    open_ = ~table["disclosed"].to_numpy()  # the others have a reason of their own
    # a number without an error (NaN) or marked unreliable can be a doubt, but decides nothing
    sure = open_ & table["reliable"].to_numpy() & (value - error > limit)
    maybe = open_ & ~sure & (value + np.nan_to_num(error) > limit)
    return int(sure.sum()), int(maybe.sum())


def _limited(
    measure: str, above: tuple[int, str], maybe: tuple[int, str], all_clear: str
) -> Reason:
    if above[0]:
        text = f"For {_records(above[0])} {above[1]}."
        return Reason(measure=measure, outcome="should not go out", sentence=text)
    if maybe[0]:
        text = f"For {_records(maybe[0])} {maybe[1]}: the error of the computation leaves it open."
        return _doubt(measure, text)
    return _for(measure, all_clear)


def _reliability(risk: "AttributeRisk", limit: float) -> Reason:
    reliable = risk.records["reliable"]
    count, share = int((~reliable).sum()), float((~reliable).mean())
    of = f"{count:,} of {len(reliable):,} records ({percent(share)})"
    text = f"The numbers of {of} are marked unreliable"
    if not count:
        return _for("unreliable records", "No audited record is marked unreliable.")
    if share > limit:
        return _doubt("unreliable records", f"{text}, more than the {percent(limit)} allowed.")
    return _for("unreliable records", f"{text}; {percent(limit)} are allowed.")


def _identification_reasons(risk: "IdentificationRisk | None", limits: Thresholds) -> list[Reason]:
    if risk is None:
        return [
            _doubt(
                "identification risk",
                "Identification risk was not measured, so nothing is said of it.",
            )
        ]
    rates = risk.summary()["true_match_rate"]
    rate, limit = float(rates.max()), limits.true_match_rate
    text = f"{percent(rate)} of records would be matched uniquely and correctly"
    if rate > limit:
        return [
            Reason(
                measure="true match rate",
                outcome="should not go out",
                sentence=f"{text}, more than the {percent(limit)} allowed.",
            )
        ]
    return [_for("true match rate", f"{text} at most; {percent(limit)} are allowed.")]


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


def _doubt(measure: str, sentence: str) -> Reason:
    return Reason(measure=measure, outcome="cannot be told", sentence=sentence)


def _for(measure: str, sentence: str) -> Reason:
    return Reason(measure=measure, outcome="may go out", sentence=sentence)


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count:,} records"


def percent(share: float) -> str:
    """A share as per cent."""
    return "< 0.1 %" if 0 < share < 0.001 else f"{100 * share:.1f} %"
