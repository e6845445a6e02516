"""What a verdict is made of: thresholds and reasons."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, Literal, NamedTuple, get_args

from bayes_risk._core.arrays import Flags
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import real_number

# the worst first
Outcome = Literal["above your thresholds", "inconclusive", "not judged", "within your thresholds"]
Usefulness = Literal["less useful than required", "usefulness inconclusive", "useful enough"]
Figure = tuple[float, float]  # a number and its error
Scale = tuple[Outcome, ...] | tuple[Usefulness, ...]
RISK: tuple[Outcome, ...] = get_args(Outcome)
USE: tuple[Usefulness, ...] = get_args(Usefulness)
ABOVE, OPEN, NOT_JUDGED, WITHIN = RISK

FROM = {  # thresholds that are not shares, and the least that they can be
    "attribute_log_bayes_factor": 0,
    "membership_log_bayes_factor": 0,
    "certain_persons": 0,
    "rhat": 1,
}


FORMER = dict.fromkeys(["attribute_probability", "attribute_odds_factor"], "attribute_gain")
GAINED = "probability gained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What the agency accepts; ``docs/reading-the-numbers.md`` gives reasons for the defaults."""

    # The release should add no more than this to the probability of any record's true values, of
    # one of them, or of a number within 10 % of it
    attribute_gain: float = 0.2
    # nor more than 0.05 where it raises the log odds by more than this
    attribute_log_bayes_factor: float = 3.0
    # Of a sample of the records, none of which is above: share of all that may be (95 %)
    share_not_audited: float = 0.01
    # The release should add no more than this to the mean probability of a group's true values, or
    # of a correct match; of groups that are asked for
    group_gain: float = 0.1
    # share of all records that may be matched uniquely and correctly, pooled or per release, beyond
    # those that the unsynthesised keys lead to by chance
    true_match_rate: float = 0.05
    # share of all households that may be matched uniquely and correctly; None: not judged
    household_match_rate: float | None = None
    # share of the original's persons that files may show beyond chance, by equal records on all
    # synthesised columns, or on all but one
    identical_records: float = 0.05
    # the same by values of one column, by records unique on the keys
    unique_values: float = 0.05
    replicated_uniques: float = 0.1
    # the same by nearest records, or by rows that are nearest to their own record
    linked_records: float = 0.05
    # persons who may be shown for certain: nearly all pairs of equal records or values are theirs
    certain_persons: float = 0
    # columns that are public anyway, and why; None: no column is
    public: Mapping[str, str] | None = None
    # share of targets whose number the diagnostics may reject before the verdict is inconclusive
    share_unreliable: float = 0.01
    # largest R-hat of the fit that needs no explanation; None: not judged
    rhat: float | None = 1.05
    # how often the release may point to the member of a pair; None: not judged
    membership_auc: float | None = None
    # the release should not raise the log odds that a member is in the data by more than this;
    # None: not judged
    membership_log_bayes_factor: float | None = None
    # whether evidence learnt from runs of a generator, which is at least what its files tell, can
    # be within: for the intruder who looks at what it rests on
    accept_simulated: bool = False
    # rows of ``Utility.summary()``: what they may be at most (overlap of intervals: at least);
    # None: not judged
    utility: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        limits = {f.name: getattr(self, f.name) for f in fields(self)}
        utility, public = limits.pop("utility") or {}, limits.pop("public") or {}
        if not isinstance(accepted := limits.pop("accept_simulated"), bool):
            raise InputError("accept_simulated", accepted, "is neither True nor False; give one")
        if not all(isinstance(why, str) and why.strip() for why in public.values()):
            raise InputError(
                "public names a column without a reason; give the reason why it is public"
            )
        for name, limit in {**limits, **utility}.items():
            if limit is None or (real_number(f"threshold {name}", limit) and name in utility):
                continue
            if not FROM.get(name, 0) <= limit <= (math.inf if name in FROM else 1):
                right = f"of at least {FROM[name]}" if name in FROM else "from 0 to 1"
                raise InputError(name, limit, f"is not a threshold; give a number {right}")


_init = Thresholds.__init__


@wraps(_init)
def _without_former(self: Thresholds, **given: Any) -> None:
    for name in FORMER.keys() & given:
        raise InputError(f"{name} is no longer a threshold; give {FORMER[name]}")
    _init(self, **given)


Thresholds.__init__ = _without_former  # type: ignore[method-assign]

NAMED = 10  # labels of records that are written out


class Figures(NamedTuple):
    """A line of the table beside the verdict: what was judged, in numbers."""

    what: str
    value: str  # with this release
    without: str  # without it, or by chance; empty: there is no such number
    allowed: str


class Rise(NamedTuple):
    """Of the probability of an event, for one record."""

    record: Any  # its label
    what: str
    before: float
    after: float
    error: float  # standard error


@dataclass(frozen=True, slots=True)
class Reason:
    """One sentence of the verdict."""

    measure: str  # what was judged
    outcome: Outcome | Usefulness  # which way it points
    sentence: str  # in words, every number of records with the number it is out of
    cure: str = ""  # the setting that would settle or lower it, where there is one
    figures: Figures | None = None  # what the table beside the verdict says of it
    prior: str = ""  # of a probability gained: the prior under which most count; empty: flat
    # the number as a multiple of what is allowed, with the ends of its error: low, value, high
    of_allowed: tuple[float, float, float] | None = None
    column: str = ""  # that which should not be released as it is; empty: no single one
    # of a probability gained: the records with the largest rise, the first of them
    worst: tuple[Rise, ...] = ()

    @property
    def advice(self) -> str:
        """What a cure is for, in words."""
        return "To settle it" if self.outcome in (OPEN, NOT_JUDGED, USE[1]) else "What would help"


@dataclass(frozen=True, slots=True)
class NextStep:
    """One thing to do next: in words, as lines of the study file, and what it should change."""

    change: str
    effect: str
    lines: str = ""  # keys below their sections, in TOML; empty: of no key
    times: float = 1.0  # how many times as long the attribute risk may take


def multiple(limit: float, *numbers: float) -> tuple[float, float, float]:
    """A number, or its low end, itself and its high end, as multiples of what is allowed."""
    low, value, high = numbers if len(numbers) == 3 else numbers * 3
    ends = (x / limit if limit > 0 else math.inf if x > 0 else 0.0 for x in (low, value, high))
    return next(ends), next(ends), next(ends)


def against(measure: str, sentence: str, cure: str = "", **others: Any) -> Reason:
    """A risk is too high."""
    return Reason(measure, ABOVE, sentence, cure, **others)


def doubt(measure: str, sentence: str, cure: str, of: Scale = RISK, column: str = "") -> Reason:
    """Inconclusive; ``cure``: a name in `doubts.CURES`, which `judge` puts into words."""
    return Reason(measure, of[1], sentence, cure, column=column)


def no_objection(measure: str, sentence: str, cure: str = "") -> Reason:
    """A risk is low enough."""
    return Reason(measure, WITHIN, sentence, cure)


WITHIN_ERROR = "this is within Monte Carlo error of the threshold"


def limited(
    measure: str,
    sure: Flags,
    maybe: Flags,
    rest: str,
    cure: str,
    *,
    what: str = "audited records",
    why: str = WITHIN_ERROR,
) -> Reason:
    """Records for which the release surely and perhaps raises something by too much."""
    some, more, n = int(sure.sum()), int(maybe.sum()), len(sure)
    if more and not some:
        text = f"For {out_of(more, n, what)} the release may raise {rest}"
        return doubt(measure, f"{text}; {why}.", cure)
    verb = "the release raises" if some else "does the release raise"
    found = against if some else no_objection
    return found(measure, f"For {out_of(some, n, what)} {verb} {rest}.")


def compared_with_limit(
    measure: str,
    found: tuple[float, float],
    limit: float,
    text: str,
    cure: str = "",
    of: Scale = RISK,
) -> Reason:
    """A number and its error against the most that it may be."""
    value, error = found
    if not (surely := value - error > limit) and not value + error <= limit:
        return doubt(measure, f"{text}; this is within its error of the threshold.", cure, of)
    return Reason(measure, of[0 if surely else -1], f"{text}.")


def out_of(count: int, all_of: int, what: str = "audited records") -> str:
    """How many out of how many: ``3 of the 200 audited records``."""
    return f"{f'{count:,}' if count else 'none'} of the {all_of:,} {what}"


def named_records(labels: Any) -> str:
    """Records by their labels, of many the first."""
    more = f" and {len(labels) - NAMED:,} more" if len(labels) > NAMED else ""
    return ", ".join(str(label) for label in labels[:NAMED]) + more


def times(log_factor: float) -> str:
    """A factor, from its log."""
    factor = math.exp(log_factor)
    return f"{factor:.3g}" if factor < 10 else f"{factor:,.0f}"
