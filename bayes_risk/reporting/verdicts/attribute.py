"""Rules of the verdict on attribute risk: what the release adds, and who was not audited.

A record counts by what the release adds to the probability of an event: by more than a threshold,
or by more than `FLOOR` where it also multiplies the odds by more than another. Both rise with the
posterior and fall with the prior. Why: ``docs/reading-the-numbers.md``.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logit

from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.formats import begun, beside_share, number, percent
from bayes_risk.data.variables import Number
from bayes_risk.risk.claims import varied_records
from bayes_risk.risk.closeness import nearest_values
from bayes_risk.risk.grid_check import over_plausible
from bayes_risk.risk.posterior import MAX_MCSE, MAX_MCSE_LOG_ODDS
from bayes_risk.risk.result import AttributeRisk

from .reason import (
    ABOVE,
    GAINED,
    WITHIN_ERROR,
    Figures,
    Reason,
    Rise,
    Thresholds,
    against,
    doubt,
    limited,
    multiple,
    named_records,
    no_objection,
    out_of,
    times,
)

FLOOR = 0.05  # of a probability: less is nothing to act on, whatever the odds
CLOSE = 10.0  # percent of a number
ROUNDING = 1e-12  # of shares and probabilities: 5 % are not above 5 %
MOST_DRAWS = 16  # times as many as there were: a quarter of the error
NAMED = 3  # records with the largest rise
UNSEEN = 0.05  # probability of a sample without one that counts, at the bound
SINGLE, NEAR = f"{GAINED}, single variables", f"{GAINED}, within {CLOSE:g} %"
NEAREST = f"{GAINED}, nearest values"
ALL, NOT_AUDITED = "the true values", "records not audited"


def on_gains(
    risk: AttributeRisk, limits: Thresholds, width: float, cure: Callable[[Flags], str]
) -> Iterator[Reason]:
    """What is certain; gained for all values, for one, and near to a number; who was not audited.

    ``cure``: what settles the records marked.
    """
    judged = [*_given_away(risk)]  # first: the screen shows two reasons
    for measure, candidates in _candidates(risk, limits, width).items():
        judged.append(_judged(risk, measure, candidates, limits, width, cure))
    yield from judged
    if all(reason.outcome != ABOVE for reason in judged):  # the bound is for a sample without one
        yield from _not_audited(risk, limits)


def _candidates(
    risk: AttributeRisk, limits: Thresholds, width: float
) -> dict[str, list[tuple[str, str, "Gain"]]]:
    """Prior, words and gains of every measure."""
    flat = over_plausible(risk) if risk.priors else risk  # a grid must not decide by its width
    every = {name: list(gains(one)) for name, one in {"": flat, **risk.priors}.items()}
    others = [gain for name in risk.priors for _, _, gain in every[name]]
    surely = [np.logical_or(*gain.counts(limits, width)) for gain in others]
    found: dict[str, list[tuple[str, str, Gain]]] = {}
    for prior, ofs in every.items():
        for measure, what, gain in ofs:
            if gain.of_number and others and not prior:
                if measure in (NEAR, NEAREST):  # near is what the model finds near
                    continue
                only = ~np.any(surely, axis=0)
                gain = gain._replace(alone=only if gain.alone is None else only | gain.alone)
            found.setdefault(measure, []).append((prior, what, gain))
    return found


def draws_that_settle(risk: AttributeRisk | None, limits: Thresholds, width: float) -> int:
    """How many times as many draws leave no record in doubt, if estimates stay: 2, 4, 8, or 16.

    Nor more records unreliable than may be, as far as that is because of their error.
    """
    if risk is None:
        return MOST_DRAWS
    table = risk.records
    errors = table[["mcse", "mcse_log_bayes_factor"]] / [MAX_MCSE, MAX_MCSE_LOG_ODDS]
    rough = errors.max(axis=1).to_numpy()
    other = ~table["reliable"].to_numpy() & ~(rough > 1)  # for which more draws are no cure
    every = [gain for ofs in _candidates(risk, limits, width).values() for _, _, gain in ofs]
    for more in (2, 4, 8):
        counts = [gain.with_errors(more**-0.5).counts(limits, width) for gain in every]
        if (other | (rough > more**0.5)).mean() > limits.share_unreliable:
            continue
        if any(sure.any() for sure, _ in counts) or not any(maybe.any() for _, maybe in counts):
            return more
    return MOST_DRAWS


def _given_away(risk: AttributeRisk) -> Iterator[Reason]:
    """Records, by name, for which the release leaves no value but the true one possible."""
    known = risk.certain()
    labels = known.index[known.any(axis=1)]
    if not len(labels):
        return
    names = known.columns[known.any(axis=0)].astype(str)
    which = names[0] if len(names) == 1 else f"at least one of {', '.join(names)}"
    who, records = out_of(len(labels), len(known)), "record" if len(labels) == 1 else "records"
    text = f"For {who} the release leaves only the true value of {which} possible: "
    text += f"{records} {named_records(labels)}."
    figures = Figures(
        "Records with a value disclosed with certainty",
        f"{len(labels):,} of {len(known):,}",
        "",
        "none",
    )
    found = against("certain disclosure", text, figures=figures)
    yield replace(found, of_allowed=multiple(0.0, len(labels)))


class Gain(NamedTuple):
    """What the release adds to the probability of an event, record by record, shape (n,)."""

    prior: Array
    probability: Array
    log_bayes_factor: Array
    error: Array  # standard error of the log Bayes factor
    spread: Array  # that of the probability gained
    ends: tuple[Array, Array]  # of the probability, in every mode left open
    open: Flags  # whose values were replaced
    reliable: Flags
    of_number: bool = False
    # which finer steps settle: their grid is coarse; or no prior but the flat one finds them, under
    # which a number is as probable as its step is wide
    alone: Flags | None = None
    own: Array | None = None  # standard error of the probability by itself; None: as `spread`

    @property
    def gained(self) -> Array:
        """Probability gained."""
        return self.probability - self.prior

    @property
    def risen(self) -> Array:
        """The same, 0 where it is not known."""
        return np.nan_to_num(self.gained)

    def with_errors(self, share: float) -> "Gain":
        """The same with such a share of its errors."""
        p, (low, high) = self.probability, self.ends
        ends = p + share * (low - p), p + share * (high - p)
        return self._replace(error=share * self.error, spread=share * self.spread, ends=ends)

    def counts(self, limits: Thresholds, width: float) -> tuple[Flags, Flags]:
        """Records that surely count, and those that perhaps do; without an error none surely."""
        lower = np.minimum(self.gained - width * self.spread, self.ends[0] - self.prior)
        upper = self.gained + width * np.nan_to_num(self.spread)
        upper = np.maximum(upper, self.ends[1] - self.prior)
        change, error = self.log_bayes_factor, width * self.error
        with np.errstate(invalid="ignore"):
            sure = self.reliable & too_much(lower, change - error, limits)
            sure = sure if self.alone is None else sure & ~self.alone
            maybe = too_much(upper, change + np.nan_to_num(error), limits)
        return self.open & sure, self.open & maybe & ~sure


def too_much(gained: Array, log_bayes_factor: Array, limits: Thresholds) -> Flags:
    """Whether a probability gained, and a log Bayes factor, are too much."""
    least = min(FLOOR, limits.attribute_gain) + ROUNDING
    strong = (log_bayes_factor > limits.attribute_log_bayes_factor) & (gained > least)
    return np.asarray((gained > limits.attribute_gain + ROUNDING) | strong)


def gains(risk: AttributeRisk) -> Iterator[tuple[str, str, Gain]]:
    """Of all true values; of each variable, where there are several; near to a number."""
    table = risk.records
    own = {str(name): column.to_numpy() for name, column in table.items()}
    p, prior = own["probability"], own["prior"]
    open_, reliable, error = ~own["disclosed"], own["reliable"], own["mcse_log_bayes_factor"]
    # what coarse grids find is not sure
    alone = None if risk.grid is None else risk.grid.coarse[risk.case]
    spread = np.maximum(own["mcse"], p * (1 - p) * error)  # the prior's error too
    ends = (p, p) if risk.modes is None else (own["low"], own["high"])
    log_bf = own["log_bayes_factor"]
    numbers = [v for v in risk.variables if isinstance(v, Number)]
    at_all = prior, p, log_bf, error, spread, ends, open_, reliable
    yield GAINED, ALL, Gain(*at_all, of_number=bool(numbers), alone=alone, own=own["mcse"])
    names = ("prior", "probability", "mcse_bound")
    several = len(risk.variables) > 1
    # one whose others are given has a probability for another intruder alone, who knows those: most
    # single values of a sound file of few records gain for him (``knows_columns`` audits him)
    open_ = open_ & varied_records(risk) if several else open_
    single = risk.marginal_probability() if several and open_.any() else None
    at = open_, reliable, alone
    if numbers and several and open_.any():
        of = list(nearest_values(risk, range(len(risk.variables))).to_numpy().T)
        yield NEAREST, "the values nearest to the true ones", _bounded(of, at, True)
    for j, variable in enumerate(risk.variables):
        name, is_number = variable.name, isinstance(variable, Number)
        if single is not None:
            of = [single[name, column].to_numpy() for column in names]
            yield SINGLE, f"the true value of {name}", _bounded(of, at, is_number)
        if is_number and open_.any():
            close, event = risk.closeness(name, percent=CLOSE), f"within_{CLOSE:g}_percent"
            ends_of = [f"probability_{event}{end}" for end in ("_prior", "", "_mcse_bound")]
            of = [close[column].to_numpy() for column in ends_of]
            what = f"values of {name} within {CLOSE:g} % of the true one"
            yield NEAR, what, _bounded(of, at, True)
            of = list(nearest_values(risk, [j]).to_numpy().T)
            what = f"the values of {name} nearest to the true one"
            yield NEAREST, what, _bounded(of, at, True)


def _bounded(of: Sequence[Array], at: tuple[Flags, Flags, Flags | None], of_number: bool) -> Gain:
    """Of an event: prior, probability, and a bound of its error; records ``at`` which it counts."""
    open_, reliable, alone = at
    prior, p, bound = (np.minimum(x, 1.0) for x in of)
    with np.errstate(divide="ignore", invalid="ignore"):
        change, error = logit(p) - logit(prior), bound / (p * (1 - p))
    error = np.where(bound > 0, error, bound)
    return Gain(prior, p, change, error, bound, (p, p), open_, reliable, of_number, alone)


def _judged(
    risk: AttributeRisk,
    measure: str,
    candidates: list[tuple[str, str, Gain]],
    limits: Thresholds,
    width: float,
    cure: Callable[[Flags], str],
) -> Reason:
    """Under the prior, and of the variable, of which most count: surely, then perhaps."""

    def rank(found: tuple[str, str, Gain]) -> tuple[int, int, float]:
        sure, maybe = found[2].counts(limits, width)
        most = np.where(found[2].open, found[2].risen, 0.0).max(initial=0.0)
        return int(sure.sum()), int(maybe.sum()), float(most)

    prior, what, gain = max(candidates, key=rank)
    sure, maybe = gain.counts(limits, width)
    words = f"the probability of {what} by more than {limits.attribute_gain:g}"
    if not np.isinf(limits.attribute_log_bayes_factor) and limits.attribute_gain > FLOOR:
        by = times(limits.attribute_log_bayes_factor)
        words += f", or by more than {FLOOR:g} and the odds by more than a factor {by}"
    finer = gain.alone is not None and not sure.any() and gain._replace(alone=None)
    steps = finer and finer.counts(limits, width)[0].any()
    how = "grid coarse" if steps else cure(maybe)
    why = "the guesses of numbers are too coarse to settle it" if steps else WITHIN_ERROR
    found = limited(measure, sure, maybe, words, how, why=why)
    sentence = found.sentence
    if risk.priors:
        under = " and under the ".join(["under the flat prior", *(f"{k} one" for k in risk.priors)])
        one = sure.any() or maybe.any() or measure == NEAR
        under = f"under the {prior or 'flat'} prior" if one else under
        sentence = f"{begun(under)}: {sentence[0].lower()}{sentence[1:]}"
    among = sure if sure.any() else maybe if maybe.any() else gain.open & gain.reliable
    places = np.argsort(-np.where(among, gain.risen, 0.0), kind="stable")[:NAMED]
    error = np.nan_to_num(gain.spread if gain.own is None else gain.own)
    every = np.column_stack([gain.prior, gain.probability, error])[places]
    rises = [Rise(risk.index[k], what, *of) for k, of in zip(places, every.tolist(), strict=True)]
    place, worst = int(places[0]), tuple(one for one in rises if one.after > one.before)
    if worst:
        ends = f"{number(worst[0].before)} to {number(worst[0].after)}"
        sentence += f" The largest rise is from {ends} (record {worst[0].record})."
    if risk.history is not None:  # the release is judged with those before it
        what += ", all releases"
        sentence += f" The releases are this one and the {risk.history.releases} before it."
    limit = f"+{limits.attribute_gain:g}"
    _, _, before, after, spread = rises[0]
    shown = number(after) + (beside_share(spread, after) if spread else "")
    words = f"Largest rise of the probability of {what}, {prior or 'flat'} prior"
    figures = Figures(words, shown, number(before), limit)
    of = _of_allowed(gain, place, limits, width)
    found = replace(found, sentence=sentence, prior=prior, figures=figures, of_allowed=of)
    return replace(found, worst=worst)


def _of_allowed(
    gain: Gain, place: int, limits: Thresholds, width: float
) -> tuple[float, float, float]:
    """What a record gains as a multiple of what is allowed: above 1 exactly where it counts."""

    def of(errors: float) -> float:
        gained, change = (
            float(np.nan_to_num(x[place] + errors * np.nan_to_num(error[place])))
            for x, error in ((gain.gained, gain.spread), (gain.log_bayes_factor, gain.error))
        )
        floor, allowed = min(FLOOR, limits.attribute_gain), limits.attribute_gain
        strong = min(multiple(floor, gained)[1], multiple(factor, change)[1])
        return max(multiple(allowed, gained)[1], strong, 0.0)

    factor = limits.attribute_log_bayes_factor
    return of(-width), of(0.0), of(width)


def not_judged(risk: AttributeRisk) -> str:
    """That single variables are not, and what would judge them; empty: where they are."""
    if len(risk.variables) < 2 or varied_records(risk).any():
        return ""
    numbers = [v.name for v in risk.variables if isinstance(v, Number)]
    names = numbers or [risk.variables[0].name]  # each number needs a grid
    example = ", ".join(f'{name} = "levels"' for name in names)
    return (
        "single variables are not judged, because guesses differ from the truth in few variables "
        f"at a time; to judge them, guess every combination (guesses = {{ {example} }})"
    )


# --- samples of the records ----------------------------------------------------------------------


def most_beyond(N: int, k: int) -> int:
    """Of N records, how many may count where none of k drawn at random does (95 %).

    The largest M with ``C(N - M, k) / C(N, k) >= 0.05``; of many records about ``3 N / k``.
    """

    def unseen(M: int) -> float:
        logs: Any = gammaln(N - M + 1) - gammaln(N - M - k + 1) - gammaln(N + 1)
        return float(logs + gammaln(N - k + 1))

    return bisect_left(range(N - k + 1), True, key=lambda M: unseen(M) < np.log(UNSEEN)) - 1


def audited(risk: AttributeRisk | None) -> str:
    """How many of the records were audited, where it was a sample; for the headline."""
    if risk is None or risk.sample is None:
        return ""
    k = len(risk.index)
    return f"of {risk.sample.records:,} records {k:,} {'was' if k == 1 else 'were'} audited"


def not_audited(risk: AttributeRisk) -> str:
    """What can be said of the others where no audited record counts."""
    if risk.sample is None or not risk.sample.at_random:
        return "nothing is known about the others, because these were not drawn at random"
    N, k = risk.sample.records, len(risk.index)
    return f"of the other {N - k:,} at most {most_beyond(N, k):,} may be above (95 %)"


def _not_audited(risk: AttributeRisk, limits: Thresholds) -> Iterator[Reason]:
    """Whether few enough of the others may be above, where no audited record counts."""
    if risk.sample is None:
        return
    N, k, limit = risk.sample.records, len(risk.index), limits.share_not_audited
    most = most_beyond(N, k) if risk.sample.at_random else N - k
    text = f"{begun(audited(risk))}; {not_audited(risk)}; {percent(limit)} of all are allowed."
    few = most <= limit * N + ROUNDING
    yield no_objection(NOT_AUDITED, text) if few else doubt(NOT_AUDITED, text, "targets")


def enough(risk: AttributeRisk | None, limits: Thresholds) -> int:
    """Targets drawn at random of whom none may count, so that few others do."""
    N = 0 if risk is None or risk.sample is None else risk.sample.records
    return bisect_left(
        range(N), True, key=lambda k: most_beyond(N, k) <= limits.share_not_audited * N
    )
