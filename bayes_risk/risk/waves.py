r"""Values that change from wave to wave: a Markov chain over the values of each record.

Given the tables, releases of waves are independent, and the values of a record are a chain:

    p(y_1..y_T | Z, A) = prior(y_1) p(Z_1|y_1,A) prod_t P_t(y_t|y_t-1) p(Z_t|y_t,A) / constant.

Forward-backward sums over all paths through the guesses of each wave. With ``v_t`` the sum over
paths without the releases, ``p(Z|y_t,A)`` is the ratio of both, and ``v_t`` the prior at wave t.
A wave that lacks a record is summed over all values: its steps are multiplied, and add nothing.
Errors to first order: a log sum moves by the mean of what its terms move, under their shares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import in_batches, zeros
from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import change, log_sum
from bayes_risk._core.matching import distinct_rows
from bayes_risk.data.microdata import Microdata
from bayes_risk.data.variables import Variable
from bayes_risk.evidence.evidence import Evidence, relative_to_truth
from bayes_risk.evidence.prior_weights import PriorContext, PriorWeights, prior_weights
from bayes_risk.intruder import priors

from .aligned import in_common, joined_words, modes_of, of_fits, of_several
from .attribute import AttributeEvidence
from .posterior import at_truth, filled, moved_prior
from .result import AttributeRisk

PANEL = "panel"
Table = str | pd.DataFrame
Transition = Table | Mapping[str, Table] | Sequence[Table | Mapping[str, Table]]
MAX_NUMBERS = 2**21  # numbers at a time
TOLERANCE = 1e-6  # of sums of rows
GIVE = 'give "panel", a DataFrame (rows: old values, columns: new ones), or {column: DataFrame}'

STATED = "as a table states"
COUNTED = (
    "as those of the other records in both waves do (counts of changes, with a prior of one record "
    "for each old value, evenly over new values)"
)

# --- how values change ----------------------------------------------------------------------------


def transition_error(why: str) -> InputError:
    """An error of the transition."""
    return InputError("transition", why)


class Change(NamedTuple):
    """P(new | old) of a column over one step: ``weight / total``, shapes (d, d') and (d,).

    ``counted``: both count changes of records, and the target's own is taken out.
    """

    weight: npt.NDArray[Any]
    total: npt.NDArray[Any]
    counted: bool

    def then(self, other: "Change") -> "Change":
        """Over two steps of a record that is not in the wave between, nor among its changes."""
        first, second = (one.weight / one.total[:, None] for one in (self, other))
        return Change(first @ second, np.ones(len(first)), False)

    def log_p(self, old: Ints, new: Ints, own: tuple[Ints, Ints, Flags]) -> Array:
        """Of guesses (G, U) and (G', U), shape (G', G, U); ``own``: true values, whether seen."""
        before, after = old[None], new[:, None]
        weight, total = self.weight[before, after], self.total[before]
        if self.counted:
            mine = own[2] & (before == own[0])
            weight, total = weight - (mine & (after == own[1])), total - mine
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(weight / total))


def steps_of(transition: Any, names: Sequence[str], each: Sequence[AttributeEvidence]) -> Any:
    """The `Change` of each column, from each wave to the next, and how values change, in words."""
    T = len(each)
    given = transition if isinstance(transition, list | tuple) else [transition] * (T - 1)
    if len(given) != T - 1:
        raise transition_error(
            f"has {len(given)} tables, and {T} waves have {T - 1} steps; give one for all"
        )
    found = []
    for s, (one, old, new) in enumerate(zip(given, each, each[1:], strict=False), start=1):
        if not isinstance(one, Mapping):
            one = dict.fromkeys(names if isinstance(one, str) else names[:1], one)
        if set(one) != set(names):
            raise transition_error(
                f"is of {', '.join(map(str, one)) or 'no column'}, and {', '.join(names)} are "
                "guessed; give a mapping of each of them to a table"
            )
        found.append([_step(one[name], name, old, new, s) for name in names])
    kinds = dict.fromkeys(COUNTED if one.counted else STATED for steps in found for one in steps)
    return found, " or ".join(kinds) + ", each column by itself" * (len(names) > 1)


def _step(
    given: Any, name: str, one: AttributeEvidence, other: AttributeEvidence, s: int
) -> Change:
    """How a column changes from a wave to the next."""
    where = f"from wave {s} to wave {s + 1}"
    data = one.microdata, other.microdata
    columns = [of.columns.index(name) for of in data]
    variables = [of.variables[j] for of, j in zip(data, columns, strict=True)]
    if not all(isinstance(variable, Variable) for variable in variables):
        raise transition_error(
            f"is of categories, and column {name!r} is a number; cut it into classes "
            "(`pandas.cut`) before the models are fitted, or leave transition out",
        )
    if isinstance(given, str) and given == PANEL:
        return _of_panel(data, columns, (one.cases.known, other.cases.known), where)
    if not isinstance(given, pd.DataFrame):
        raise transition_error(f"of {name!r} is a {type(given).__name__}; {GIVE}")
    return _of_table(given, variables, where)


def _of_panel(
    data: tuple[Microdata, Microdata], columns: list[int], known: Any, where: str
) -> Change:
    """Changes of the records that the intruder knows in both waves, with 1 / d' for each."""
    old, new = data
    place = old.index.get_indexer(new.index)
    linked = place >= 0
    for seen, rows in zip(known, (place, slice(None)), strict=True):
        if seen is not None:
            linked &= seen[rows]
    if linked.sum() < 2:
        raise transition_error(
            f"cannot be counted {where}: the tables have no record in common but the "
            "target that the intruder knows; give both the same labels ([data] index), or a table",
        )
    d, levels = (of.variables[j].n_levels for of, j in zip(data, columns, strict=True))
    pairs = old.codes[place[linked], columns[0]].astype(np.int64) * levels
    pairs += new.codes[linked, columns[1]].astype(np.int64)
    counts = np.bincount(pairs, minlength=d * levels).reshape(d, levels)
    return Change(counts + 1.0 / levels, counts.sum(axis=1) + 1.0, True)


def _of_table(given: pd.DataFrame, variables: Sequence[Any], where: str) -> Change:
    """A table that was given, in the order of the levels."""
    name, places = variables[0].name, []
    what = f"of {name!r} {where}"
    for axis, side, variable in zip((given.index, given.columns), ("rows", "columns"), variables,
                                    strict=True):  # fmt: skip
        labels = pd.Index([_text(label) for label in axis])
        wanted = [*variable.levels, *([np.nan] if variable.missing else [])]
        if not labels.is_unique:
            raise transition_error(f"{what} names some values twice among its {side}")
        place = labels.get_indexer(pd.Index([_text(value) for value in wanted]))
        if lacking := int((place < 0).sum()):
            raise transition_error(
                f"{what} lacks {lacking} of the {len(wanted)} values among its "
                f"{side}; give every value of the column a row and a column (a missing value: NaN)",
            )
        places.append(place)
    try:
        table = given.to_numpy(dtype=float)
    except (TypeError, ValueError):
        raise transition_error(f"{what} holds values that are not numbers; {GIVE}") from None
    if not (np.isfinite(table).all() and (table >= 0).all()):
        raise transition_error(
            f"{what} has negative, infinite or missing probabilities; give numbers from 0 to 1",
        )
    if wrong := int((np.abs(table.sum(axis=1) - 1) > TOLERANCE).sum()):
        raise transition_error(
            f"{what} has {wrong} rows whose probabilities do not sum to 1; a row is "
            "an old value, and its columns are the new ones",
        )
    return Change(table[np.ix_(*places)], np.ones(len(places[0])), False)


def _text(value: Any) -> str:
    """A value as it is compared with those of a file: 1, 1.0 and "1" are equal."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return "(missing)" if pd.isna(value) else f"{float(value):.15g}" if number else str(value)


# --- sums over paths ------------------------------------------------------------------------------


class Wave(NamedTuple):
    """One wave of some of the cases."""

    codes: npt.NDArray[np.int64]  # (q, G, U): guesses
    own: npt.NDArray[Any]  # (q, U): true values
    seen: Flags  # (U,): whether the target is among the records that the intruder knows
    log_w: Array  # (G, U): 0; minus infinity: not considered
    log_p: Array  # (G, U): evidence of its release
    moved: list[npt.NDArray[Any]]  # (F, B, G, U), of its fits; none without an error


def message(
    log_w: Sequence[Array], moved: Sequence[list[Any]], log_p: Sequence[Array]
) -> tuple[Any, list[Any]]:
    """Log sum over paths through some waves, up to the next, (G', U); and how fits move it.

    ``log_p`` (G', G, U): of the step from each wave to the following one.
    """
    total: Any = 0.0
    moves: list[Any] = []
    for weight, own, step in zip(log_w, moved, log_p, strict=True):
        joint = step + (weight + total)
        total = log_sum(joint, axis=1)
        if moves or own:
            share = np.exp(joint - np.maximum(total, -1e300)[:, None])
            moves = [np.einsum("hgu,fbgu->fbhu", share, one) for one in [*moves, *own]]
    return total, moves


class WaveChain(NamedTuple):
    """Evidence of waves for the same records, and how values change between them."""

    each: list[AttributeEvidence]
    labels: pd.Index
    case: Ints  # (n,): the joint case of each record
    cases: list[Ints]  # of each wave, (U,): its case for each joint case; -1: not in it
    columns: list[list[int]]  # of each wave: its guessed columns, in the order of the last's
    steps: list[list[Change]]
    words: str  # how values change
    gone: int  # records that are left out
    wave: int  # whose values are judged, counted from 0

    def added(self, which: Sequence[int]) -> "WaveEvidence":
        """The evidence of some of the waves' releases."""
        one, u, chosen = self.each[self.wave], self.cases[self.wave], [self.each[t] for t in which]
        missing = "; paths run through the guesses of each wave" + self._missing()
        how = f"added along a Markov chain over {len(self.each)} waves"
        own = {
            "index": self.labels,
            "case": self.case,
            "cases": one.cases.only(u),
            "disclosed": one.disclosed[u] & (self.wave in which),
            "words": joined_words(one, chosen, missing, how),
            "base": None,
            "grid": None,
            "chain": self,
            "which": tuple(which),
            **of_several(one, chosen, u, self.gone),
        }
        kept = {of.name: getattr(one, of.name) for of in fields(AttributeEvidence)}
        return WaveEvidence(**kept | own)

    def _missing(self) -> str:
        """Words for the records of which some wave has nothing."""
        text, counts = "", [int((cases < 0)[self.case].sum()) for cases in self.cases]
        if any(counts):
            each = [f"{k:,} are not in wave {t}" for t, k in enumerate(counts, start=1) if k]
            text = f", and through every value where a record is in no wave; of {len(self.case):,} "
            text += f"records {', '.join(each)}"
        left = f"records that are not in wave {self.wave + 1}, or not audited in each that has them"
        return text + f"; {self.gone:,} {left}, are left out" * bool(self.gone)

    def wave_of(self, t: int, found: Evidence | None, B: int, block: slice) -> Wave:
        """Some cases of a wave; ``found``: its release was seen; B: batches, 0 without an error."""
        one, u = self.each[t], self.cases[t][block]
        guesses = one.cases.guesses
        codes = np.moveaxis(guesses.codes[:, u][:, :, self.columns[t]].astype(np.int64), 2, 0)
        log_p, moved = np.zeros(codes.shape[1:]), []
        if found is not None:
            log_p = found.log_evidence[:, :, u].sum(axis=0)
            moved = [in_batches(found.deviations[..., u], B)] if B else []
        log_w = np.where(guesses.counted[:, u], 0.0, -np.inf)
        return Wave(
            codes, at_truth(codes, guesses.truth[u]), one.cases.fitted[u], log_w, log_p, moved
        )

    def step(self, s: int, r: int, old: Wave, new: Wave) -> Array:
        """log P of the guesses of wave r given those of wave s before it, shape (G', G, U)."""
        seen = old.seen & new.seen
        steps = [reduce(Change.then, of) for of in zip(*self.steps[s:r], strict=True)]
        own = zip(old.codes, new.codes, old.own, new.own, steps, strict=True)
        parts = [step.log_p(a, b, (true, truth, seen)) for a, b, true, truth, step in own]
        return np.asarray(np.sum(parts, axis=0))

    @staticmethod
    def around(
        t: int, log_w: list[Array], moved: list[list[Any]], steps: list[Array]
    ) -> tuple[Array, list[Any]]:
        """Log sum over all paths through each value at wave t, and how fits move it."""
        before, moves = message(log_w[:t], moved[:t], steps[:t])
        back = [step.swapaxes(0, 1) for step in steps[t:][::-1]]
        after, others = message(log_w[:t:-1], moved[:t:-1], back)
        return log_w[t] + before + after, [*moves, *moved[t], *others[::-1]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WaveEvidence(AttributeEvidence):
    """Evidence of the values at one wave; unlike other evidence it depends on the prior."""

    chain: WaveChain
    which: tuple[int, ...]  # waves whose releases were seen

    def _risk(self, prior: priors.Prior, mcse: Array) -> AttributeRisk:
        founds = [self.chain.each[t].found for t in self.which]
        start = {int(t): self._start(prior, t) for t in np.unique(self._first)}
        modes = modes_of(founds)
        shapes = [
            one.deviations.shape for of in (founds, *modes) for one in of if one.deviations.any()
        ]
        B = min((shape[1] for shape in shapes), default=2)  # the prior moves with each mode
        weights, found, to_others = self._summed(start, founds, B)
        apart = tuple(self._summed(start, of, B)[1] for of in modes)
        words = self.words["guesses"]
        if to_others > 0.0005:
            words += f", and {100 * to_others:.1f} % of the changes from true values are to others"
        of_prior = replace(
            self, found=replace(found, apart=apart), words={**self.words, "guesses": words}
        )
        return AttributeEvidence._under(of_prior, prior, weights, found.mcse())

    @property
    def _first(self) -> Ints:
        """The first wave that has each case, (U,), in ascending order."""
        return np.asarray(np.argmax(np.stack(self.chain.cases) >= 0, axis=0))

    def _start(self, prior: priors.Prior, t: int) -> PriorWeights:
        """Prior of the cases that wave t is the first to have."""
        one, u = self.chain.each[t], self.chain.cases[t][self._first == t]
        base = None if one.base is None else one.base[:, u]
        start = prior_weights(prior, PriorContext(one.microdata, one.cases.only(u), None, base))
        if start.from_base is not None and one.found.base is not None:
            own = one.found.deviations[:1, ..., u]
            fit = replace(
                one.found, base=one.found.base[:, u], deviations=own, joined=one.found.of_base
            )
            start = start._replace(moved=moved_prior(fit, start) if own.any() else None)
        return start

    def _summed(
        self, start: Mapping[int, PriorWeights], founds: Sequence[Evidence], B: int
    ) -> tuple[PriorWeights, Evidence, float]:
        """Prior at the wave judged, evidence there, and which share of changes is left out."""
        chain, found = self.chain, dict(zip(self.which, founds, strict=True))
        moved = {t: one.deviations.shape for t, one in found.items() if one.deviations.any()}
        drifts = {t for t, one in start.items() if one.moved is not None}
        fits = [moved[t][0] if t in moved else int(t in drifts) for t in range(len(chain.each))]
        G = max(len(one.cases.guesses.codes) for one in chain.each)
        size = max(MAX_NUMBERS // (G * (G + B * sum(shape[0] for shape in moved.values()))), 1)
        U, there = len(self.cases), np.stack(chain.cases) >= 0
        cuts = np.flatnonzero((there[:, 1:] != there[:, :-1]).any(axis=0)) + 1  # in other waves
        ends = [*zip([0, *cuts], [*cuts, U], strict=True)]
        blocks = [slice(u, min(u + size, b)) for a, b in ends for u in range(a, b, size)]
        parts = ((b, self._block(start, found, (moved, fits), B, b)) for b in blocks)
        log_v, log_ratio, deviations, of_prior, kept = filled(parts, U)
        evidence = relative_to_truth(
            self.cases,
            log_evidence=log_ratio[None],
            deviations=deviations
            if len(deviations)
            else zeros((1, *deviations.shape[1:]), deviations.dtype),
            **of_fits(founds, [chain.cases[t] for t in self.which]),
            joined=1,
        )
        if any(one.base is not None for one in founds):  # of chains, whose errors are compared
            evidence = replace(evidence, base=log_v)
        weights = PriorWeights(log_v)
        if len(of_prior):
            rows = np.append(0, np.cumsum(fits))[self._first]
            weights = weights._replace(moved=of_prior, fit=np.minimum(rows, sum(fits) - 1))
        share = np.bincount(self.case, minlength=U) / len(self.case)
        return weights, evidence, 1.0 - float(kept @ share)

    def _block(self, starts: Any, found: Any, errors: Any, B: int, block: slice) -> list[Any]:
        """Of some cases in the same waves: log v, log p(Z|y), (G, U), their moves, paths kept."""
        (moved, fits), chain = errors, self.chain
        there = [t for t, cases in enumerate(chain.cases) if cases[block.start] >= 0]
        at, t0 = there.index(chain.wave), there[0]
        waves = [chain.wave_of(t, found.get(t), B * (t in moved), block) for t in there]
        pairs = [*zip(waves, waves[1:], strict=False)]
        gaps = zip(there, there[1:], strict=False)
        steps = [chain.step(*gap, *pair) for gap, pair in zip(gaps, pairs, strict=True)]
        start, ahead = starts[t0], int((self._first < t0).sum())
        own = slice(block.start - ahead, block.stop - ahead)
        log_v = [start.log_p[:, own], *(wave.log_w for wave in waves[1:])]
        log_q = [log_w + wave.log_p for log_w, wave in zip(log_v, waves, strict=True)]
        moves = [wave.moved for wave in waves]
        drift = []
        if start.moved is not None:  # the base fit of the first wave moves evidence and prior
            drift = [in_batches(start.moved[None, ..., own], B)]
            whole = moves[0][0].astype(float) if moves[0] else np.zeros(drift[0].shape)
            whole[:1] += drift[0]
            moves[0] = [whole]
        total, by_fit = chain.around(at, log_q, moves, steps)
        before, of_prior = chain.around(at, log_v, [drift, *[[]] * len(pairs)], steps)
        ratio = np.where(before > -np.inf, change(total, before), 0.0)
        before = before - log_sum(before)
        with_error = (t for t, of in zip(there, moves, strict=True) if of)
        of_wave = dict(zip(with_error, by_fit, strict=True))
        deviations = np.zeros((sum(fits), B, *ratio.shape))
        for t, one in of_wave.items():
            deviations[sum(fits[:t]) :][: len(one)] = one
        drifts = any(one.moved is not None for one in starts.values())
        prior_moved = of_prior[0] if of_prior else np.zeros((int(drifts), B, *ratio.shape))
        centre = np.einsum("fbgu,gu->fbu", prior_moved, np.exp(before))
        prior_moved = prior_moved - centre[:, :, None]
        if of_prior:
            deviations[sum(fits[:t0])] -= prior_moved[0]
        seen = []
        for t, step, (_, new) in zip(there, steps, pairs, strict=False):
            truth = chain.each[t].cases.guesses.truth[chain.cases[t][block]]
            seen.append(np.exp(log_sum(at_truth(step, truth) + new.log_w)))
        small = [x.astype(np.float32) for x in (deviations, prior_moved.reshape(-1, *ratio.shape))]
        kept = np.mean(seen, axis=0) if seen else np.ones(ratio.shape[1])
        return [before, ratio, *small, kept]

    def _assumptions(self, prior: priors.Prior, log_prior: Array) -> dict[str, str]:
        assumptions = AttributeEvidence._assumptions(self, prior, log_prior)
        first = "the first wave" + " that has the record" * bool((self._first > 0).any())
        assumptions["prior"] += f"; at {first}, from which on values change {self.chain.words}"
        return assumptions


def chained(
    each: list[AttributeEvidence], transition: Transition, wave: int | None = None
) -> WaveChain:
    """Records of all waves by label; what cannot be aligned is refused by name."""
    at = (len(each) if wave is None else wave) - 1
    names, labels, rows, gone = in_common(each, same_table=False, wave=at)
    steps, words = steps_of(transition, names, each)
    of_case = np.column_stack(rows)
    first, case, _ = distinct_rows(of_case)
    there = (of_case[first] >= 0).T
    order = np.lexsort([*there[::-1], np.argmax(there, axis=0)])  # who is in the same waves
    own = [[one.microdata.columns[j] for j in one.cases.columns] for one in each]
    columns = [[of.index(name) for name in names] for of in own]
    cases = [row[first[order]] for row in rows]
    return WaveChain(each, labels, np.argsort(order)[case], cases, columns, steps, words, gone, at)
