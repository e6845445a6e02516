"""Membership of whole households: in a place may stand another household of as many persons.

The values of all members are one row, the head's first. Members are independent given the
parameters and the household's class, so their order does not matter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Ints, Rng
from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.evidence.contract import Posterior, Predictive, Targets
from bayes_risk.evidence.household import HouseholdPredictive, Jointly, MemberTerms
from bayes_risk.evidence.presence import alternatives_of
from bayes_risk.evidence.problem import AuditProblem
from bayes_risk.evidence.runner import EvidenceRunner
from bayes_risk.intruder.guesses import GuessSet

from .computation import Group, MembershipComputation, Others


@dataclass(frozen=True, slots=True, eq=False)
class HouseholdsPosterior:
    """A posterior of persons, whose targets are households of ``members`` persons."""

    posterior: Posterior
    model: Jointly
    members: int
    columns: Ints  # of the table, that the values of a member are of
    width: int  # columns of the table

    def predictives(self, targets: Targets, *, rng: Rng) -> list[Predictive]:
        first = self.terms(targets.profiles[:1], int(targets.record[0]))
        return [HouseholdsPredictive(self, targets, k, one.batch) for k, one in enumerate(first)]

    def terms(self, codes: Codes, record: int) -> Sequence[MemberTerms]:
        """Of households (C, J q), the household's own the first."""
        J, at = self.members, self.columns
        whole = np.zeros((len(codes), J, self.width), codes.dtype)
        whole[..., at] = codes.reshape(len(codes), J, len(at))
        guesses = GuessSet.of(whole[..., at])
        members = Targets(profiles=whole[0], record=np.full(J, record), columns=at, guesses=guesses)
        return self.model.terms(self.posterior, members)


@dataclass(frozen=True, slots=True, eq=False)
class HouseholdsPredictive:
    """Draws of p(household | theta_h): a `Predictive` of several households."""

    of: HouseholdsPosterior
    targets: Targets
    part: int
    batch: Ints

    def log_truth(self, block: slice) -> Array:
        nothing, whole = self.targets.guesses.codes[:0], slice(0, 1)
        each = [self._one(u, nothing).log_truth(whole) for u in self._units(block)]
        return np.concatenate(each, axis=1)

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        codes, whole = self.targets.guesses.codes, slice(0, 1)
        each = [
            self._one(u, codes).log_sums(whole, log_weights[:, k : k + 1])[:, 1:]
            for k, u in enumerate(self._units(block))
        ]
        return np.concatenate(each, axis=2)

    def _units(self, block: slice) -> range:
        return range(*block.indices(len(self.targets)))

    def _one(self, u: int, codes: Codes) -> HouseholdPredictive:
        """Of one household, its own values before the guesses."""
        own = self.targets.profiles[u][None]
        rows = np.concatenate([own, codes[:, u]])
        given = self.of.terms(rows, int(self.targets.record[u]))[self.part]
        index = np.repeat(np.arange(len(rows))[:, None], self.of.members, axis=1)
        return HouseholdPredictive(given, index, 0, given.batch)


def households_by_size(number: Ints, later: Ints, values: Codes) -> dict[int, Ints]:
    """Rows of households (U, J) by their size J: those that are not ``later``, then by values."""
    order = np.lexsort((*values.T, later, number))
    many = np.bincount(number)
    starts = np.cumsum(many) - many
    return {
        int(J): order[starts[many == J][:, None] + np.arange(J)] for J in np.unique(many[many > 0])
    }


def in_one_row(codes: Codes, units: Ints, columns: Ints) -> Codes:
    """Values of households (..., U, J q) of a table (..., n, p)."""
    values = codes[..., units, :][..., columns]
    return np.asarray(values.reshape(*values.shape[:-2], units.shape[-1] * len(columns)))


class _Outside(NamedTuple):
    """People outside the data: their codes, labels, and rows of households by size."""

    codes: Codes
    labels: pd.Index
    units: Mapping[int, Ints]


def _outside(
    others: pd.DataFrame | None, model: Jointly, data: Microdata, columns: Ints
) -> _Outside:
    if others is None:
        return _Outside(data.codes, data.index, {})
    codes, number = model.outside(others, data)
    units = households_by_size(number, model.later(codes), codes[:, columns])
    return _Outside(codes, others.index, units)


def computations(
    problem: AuditProblem,
    runner: EvidenceRunner,
    others: pd.DataFrame | None,
    counts: tuple[int, int],
    rngs: Sequence[Rng],
) -> list[Group]:
    """Households of each size.

    ``counts``: comparisons and alternatives; ``rngs``: for turns, alternatives and answers.
    """
    data, release, households = problem.fit.microdata, problem.release, problem.households
    assert households is not None
    model, columns = households.model, np.flatnonzero(release.columns)
    some = np.isin(np.arange(len(data.codes)), problem.rows)
    own = households_by_size(households.number, model.later(data.codes), data.codes[:, columns])
    outside = _outside(others, model, data, columns)
    if others is not None and not set(own) & set(outside.units):
        raise InputError(
            "others", "have no household of as many persons as one of the data; give others"
        )
    posteriors, found = runner.fits(problem.cases), []
    for J, units in own.items():
        members = units[some[units].any(axis=1)]
        if not len(members):
            continue
        turns, drawing, asking = (rng.spawn(1)[0] for rng in rngs)
        inside, theirs = in_one_row(data.codes, units, columns), outside.units.get(J, units[:0])
        profiles, U = in_one_row(data.codes, members, columns), len(members)
        at, guesses = np.arange(profiles.shape[1]), GuessSet.of(profiles[None])
        cases = Targets(profiles=profiles, record=members[:, 0], columns=at, guesses=guesses)
        people = in_one_row(outside.codes, theirs, columns)
        first, their_first = members.min(axis=1), theirs.min(axis=1)
        labels = data.index[units.min(axis=1)], outside.labels[their_first]
        other = None
        if len(release.by_draw) > 1 or release.classes == "own":  # else their mean is 1
            read = partial(in_one_row, units=units, columns=columns)
            made_by = runner.drawing(problem.cases)
            other = alternatives_of(made_by, U, counts[1], drawing, read)
        how = model, J, columns, len(release.columns)
        of_size: Any = [HouseholdsPosterior(one, *how) for one in posteriors]
        computation = MembershipComputation(
            runner=runner,
            posteriors=of_size,
            cases=cases,
            counts=np.full(U, float(others is None or len(theirs) > 0)),  # 0: not compared
            others=Others.of(people, inside, labels, U, counts[0], turns),
            alternatives=other,
            budget=0,
            rng=asking,
        )
        found.append(Group(first, np.arange(U), their_first, computation, J))
    return found
