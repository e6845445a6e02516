"""Evidence for an intruder who knows no member of the target's household.

A guess is then one of the whole household, H*. Given a draw of the parameters, and perhaps the
household's class, members are independent; weights 1 / p(H_i | Theta) take the household out. With
r_l(H*) = p(H* | A, Z^(l)) / p(H* | A), the other members R summed out under the model,

    p(Z | y*, A)  prop.  sum_R p(y*, R | A) prod_l r_l(y*, R) / sum_R p(y*, R | A).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numba
import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import log_sum
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.intruder.guesses import Guesses, GuessSet, possible
from bayes_risk.release.release import EncodedRelease

from .contract import Posterior, Predictive, Targets
from .evidence import Evidence, combined_ratios, relative_to_truth
from .leave_one_out import Ratio, added_parts, leave_one_out, ratio_of_sums

MOST = 100_000  # guesses of a household


class MemberTerms(NamedTuple):
    """p(household | theta_h), a sum over rows r of draw h: exp(log_weight) prod_j exp(log_p)."""

    log_weight: Array  # (R,)
    log_p: Sequence[Array]  # of each member's guesses, (R, G)
    draw: Ints  # (R,), ascending
    batch: Ints  # (H,)


class WithHouseholds(Protocol):
    """What models of whole households have in common."""

    @property
    def number(self) -> Ints | None:
        """Household of each record (n,), where the model has them."""

    @property
    def id(self) -> str:
        """The column of households, where it has them."""

    @property
    def relate(self) -> str:
        """The column of the relation to the head, where it has them."""

    def excluded(self, members: Targets, codes: Codes) -> Flags:
        """Which households (A, J, p) of the first J members cannot be, (A,)."""


class JointlyExact(WithHouseholds, Protocol):
    """A model that computes the evidence of whole households itself."""

    def ratios(self, members: Targets, index: Ints) -> Iterable[Ratio]:
        """Log p of guesses (A, J) given all other households; then given each data set too."""


class Jointly(WithHouseholds, Protocol):
    """A model whose draws give the density of a whole household."""

    @property
    def without(self) -> Callable[..., Any] | None:
        """Of a posterior and members a posterior that has not seen them, from where it stopped."""

    def terms(self, posterior: Any, members: Targets) -> Sequence[MemberTerms]:
        """Of each block of parameters that is independent of the others."""

    def later(self, codes: Codes) -> Ints:
        """0 for heads, 1 for other members, of records (n, p)."""

    def outside(self, others: pd.DataFrame, data: Microdata) -> tuple[Codes, Ints]:
        """Codes (N, p) of persons outside the data, and the household of each."""


def _of_posterior(posterior: Posterior, targets: Targets) -> Sequence[Predictive]:
    nothing: Any = None  # to be drawn
    return posterior.predictives(targets, rng=nothing)


@dataclass(frozen=True, slots=True)
class IndependentPersons:
    """Of a model in which persons are independent given the parameters.

    ``at_theta``: what it says of targets at each draw; by default its predictives are that.
    """

    at_theta: Callable[[Any, Targets], Sequence[Predictive]] = _of_posterior
    number: ClassVar[None] = None
    id: ClassVar[str] = ""
    relate: ClassVar[str] = ""
    without: ClassVar[None] = None  # weights alone take members out

    def terms(self, posterior: Posterior, members: Targets) -> Sequence[MemberTerms]:
        return [_by_draw(part, len(members)) for part in self.at_theta(posterior, members)]

    def excluded(self, members: Targets, codes: Codes) -> Flags:
        return np.zeros(len(codes), bool)

    def later(self, codes: Codes) -> Ints:
        return np.zeros(len(codes), np.int64)

    def outside(self, others: pd.DataFrame, data: Microdata) -> tuple[Codes, Ints]:
        raise InputError(
            "others is not offered for households of a table without a column of them; leave it "
            "out, or fit models.NestedDPMPM"
        )


def _by_draw(predictive: Any, J: int) -> MemberTerms:
    """A predictive of J persons, draw by draw: each a batch of its own."""
    H = len(predictive.batch)
    alone, block = replace(predictive, batch=np.arange(H)), slice(0, J)
    log_p = alone.log_truth(block)  # (H, J)
    sums = alone.log_sums(block, np.zeros((H, J))) + log_p[:, None]  # (H, G, J)
    each = [np.ascontiguousarray(sums[..., j]) for j in range(J)]
    return MemberTerms(np.zeros(H), each, np.arange(H), predictive.batch)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_products(weight, batch, p, index, out):  # type: ignore[no-untyped-def]
    """out[b, a] = sum over rows r of a batch of weight[r] prod_j p[j, r, index[a, j]]."""
    A, J = index.shape
    product = np.empty(J + 1)
    for r in range(weight.shape[0]):
        product[0] = weight[r]
        for a in range(A):
            first = 0  # what this guess shares with the one before
            while a > 0 and first < J - 1 and index[a, first] == index[a - 1, first]:
                first += 1
            for j in range(first, J):
                product[j + 1] = product[j] * p[j, r, index[a, j]]
            out[batch[r], a] += product[J]


@dataclass(frozen=True, slots=True, eq=False)
class HouseholdPredictive:
    """Draws of p(H* | theta_h) of one household: a `Predictive` of one target."""

    given: MemberTerms
    index: Ints  # (A, J): guess of each member
    truth: int
    batch: Ints

    def _of_truth(self) -> Array:
        """Log of each row's part of p(H_i | theta_h), (R,)."""
        own = self.index[self.truth]
        log_p = sum(p[:, k] for p, k in zip(self.given.log_p, own, strict=True))
        return np.asarray(self.given.log_weight + log_p)

    def log_truth(self, block: slice) -> Array:
        starts = np.searchsorted(self.given.draw, np.arange(len(self.batch)))
        logs: Array = np.logaddexp.reduceat(self._of_truth(), starts)
        return np.asarray(logs[:, None])

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        log_weight, log_p, draw, batch = self.given
        top = [p.max(axis=1) for p in log_p]
        logs = log_weight + np.sum(top, axis=0) + (log_weights - self.log_truth(block))[draw, 0]
        most = np.array([logs[batch[draw] == b].max() for b in range(int(batch.max()) + 1)])
        p = np.zeros((len(log_p), len(draw), max(x.shape[1] for x in log_p)))
        for j, (x, t) in enumerate(zip(log_p, top, strict=True)):
            np.exp(x - t[:, None], out=p[j, :, : x.shape[1]])
        out = np.zeros((len(most), len(self.index)))
        add_products(np.exp(logs - most[batch[draw]]), batch[draw], p, self.index, out)
        logs = np.log(np.maximum(out, 1e-300)) + most[:, None]
        return np.asarray(logs[:, :, None], float)


@dataclass(frozen=True, slots=True, eq=False)
class Household:
    """The members of a household, their guesses, and the guesses of the whole."""

    members: Targets
    index: Ints  # (A, J): those guesses of the members that go together
    truth: int

    def place(self, row: int) -> int:
        """Which member stands in a row of the table."""
        return int(np.flatnonzero(self.members.record == row)[0])

    @property
    def whole(self) -> Targets:
        """The household as one target."""
        cells = np.arange(len(self.index))[:, None]
        guesses = GuessSet.of(self.index[:, None].astype(float), cells=cells)
        guesses = replace(guesses, truth=np.array([self.truth]))
        one = self.members.only(np.array([0]))
        return replace(one, guesses=guesses, columns=np.arange(self.index.shape[1]))

    def ratio(self, terms: Iterable[MemberTerms], seen: bool = True) -> Ratio:
        """Log ratios of all guesses, (A, 1); the household is left out of fits that saw it."""
        parts = [HouseholdPredictive(one, self.index, self.truth, one.batch) for one in terms]
        one = slice(0, 1)
        return added_parts(
            [
                leave_one_out(part, self.whole, 1)
                if seen
                else ratio_of_sums(part, one, part.log_truth(one))
                for part in parts
            ]
        )

    def evidence(self, ratios: Iterable[Ratio], m: int, cases: Targets) -> Evidence:
        """Evidence of those of its members that are the ``cases``."""
        found, G = combined_ratios(ratios, m, self.whole), len(cases.guesses.codes)
        each = [_summed(found, self.index[:, self.place(row)], G) for row in cases.record]
        names = ("log_evidence", "base", "deviations", "base_deviations")
        joined = {k: np.concatenate([one[k] for one in each], axis=-1) for k in names}
        same = {k: np.repeat(getattr(found, k), len(cases)) for k in ("khat", "ess")}
        return relative_to_truth(cases, **joined, **same)


def _summed(found: Evidence, own: Ints, G: int) -> dict[str, Any]:
    """All other members summed out of evidence of a household (A, 1), of a member's G guesses."""
    assert found.base is not None
    log_before = found.base[:, 0]
    log_after = log_before + found.log_evidence.sum(axis=0)[:, 0]
    before, prior = _sums(log_before, own, G)
    after, share = _sums(log_after, own, G)
    moved = found.moved_base()[..., 0].astype(float)  # (B, A)
    deviations = found.deviations[..., 0].astype(float)
    deviations[0] += moved

    def of_guesses(x: Array, weights: Array) -> Array:
        out = np.zeros((*x.shape[:-1], G))
        np.add.at(np.moveaxis(out, -1, 0), own, np.moveaxis(x * weights, -1, 0))
        return out

    own_base = of_guesses(moved, prior)
    deviations = of_guesses(deviations, share)
    deviations[0] -= own_base
    with np.errstate(invalid="ignore"):
        value = np.where(before > -np.inf, after - before, -np.inf)
    return {
        "log_evidence": value[None, :, None],
        "base": before[:, None],
        "deviations": deviations[..., None].astype(np.float32),
        "base_deviations": own_base[..., None].astype(np.float32),
    }


def _sums(logs: Array, own: Ints, G: int) -> tuple[Array, Array]:
    """Log sums by guess (G,), and the share of each term in its sum."""
    out = np.array([log_sum(logs[own == g]) if (own == g).any() else -np.inf for g in range(G)])
    return out, np.exp(logs - np.where(out[own] > -np.inf, out[own], 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class UnknownHouseholds:
    """What an audit asks where no member of a household is known."""

    number: Ints  # (n,): household of each record
    model: Any  # `Jointly` or `JointlyExact`
    release: EncodedRelease
    guesses: Guesses

    def of(self, number: int, columns: Ints) -> Household:
        """A household, and all guesses of it."""
        record, data = np.flatnonzero(self.number == number), self.release.microdata
        profiles = data.codes[record]
        guesses = self.guesses.of(data, profiles, columns)
        if guesses.refine is not None or guesses.finer is not None:
            raise InputError(
                'guesses of numbers at quantiles ("predictive") and grids that are searched are '
                "not offered where no member of the household is known; give each number a grid of "
                "few values, such as `values=[...]`"
            )
        if self.model.number is None:  # else the model says what is impossible
            guesses = possible(guesses, data, profiles, columns, record)
        counted = guesses.counted & self.release.replaced[record]  # the others are released
        counted[guesses.truth, np.arange(len(record))] = True
        members = Targets(profiles=profiles, record=record, columns=columns, guesses=guesses)
        rows, G = np.repeat(profiles[None], len(guesses.codes), axis=0), guesses.codes
        rows = rows.astype(np.result_type(profiles, G))
        rows[:, :, columns] = G  # (G, J, p)
        index = np.zeros((1, 0), np.int64)
        for j in range(len(record)):
            more = np.flatnonzero(counted[:, j])
            self._check(len(index) * len(more) / 10, record[0])  # before the rules exclude some
            index = np.column_stack([np.repeat(index, len(more), 0), np.tile(more, len(index))])
            codes = rows[index, np.arange(j + 1)]
            index = index[~self.model.excluded(members, codes)]
        self._check(len(index), record[0])
        truth = np.flatnonzero((index == guesses.truth).all(axis=1))
        return Household(members, index, int(truth[0]))

    def _check(self, guesses: float, row: int) -> None:
        if guesses > MOST:
            label = self.release.microdata.index[row]
            raise InputError(
                f"the household of record {label!r} has more than {MOST:,} guesses, "
                "combinations of those of its members; give fewer guesses (`br.Listed`), more "
                "`knows_columns`, or targets in smaller households"
            )

    def counted(self, cases: Targets) -> Targets:
        """The cases with those guesses alone that some household can have."""
        counted = np.zeros_like(cases.guesses.counted)
        for number in np.unique(self.number[cases.record]):
            one = self.of(int(number), cases.columns)
            for u in np.flatnonzero(self.number[cases.record] == number):
                counted[np.unique(one.index[:, one.place(cases.record[u])]), u] = True
        return replace(cases, guesses=replace(cases.guesses, counted=counted))
