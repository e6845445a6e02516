"""The synthesis of sensitive records, given those that are kept: draws, and the chance of a draw.

The order of work of Hawala (2008): each variable in turn is predicted from all the others, and
every recipient takes the value of a donor whose predicted mean is near its own. Models are fitted
to the kept records, so that no deleted value touches a fit. `docs/pmm.md` derives the chance of a
draw.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError, ModelError
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.data.variables import Number, Variable

from .match import Constraint, Donors, allowed_rows, allowed_values, blocks_of
from .means import MeanModel, fit_means

Array = npt.NDArray[np.float64]
MAX_FILLS = 4_096  # combinations of filled-in values that are enumerated
TRIES = 1_000  # fill-ins drawn for a record before none is taken to be allowed


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One variable: its predicted means, its donors, and how its deleted values are filled in.

    ``shares`` are those of ``values`` among the kept records.
    """

    column: int
    model: MeanModel
    donors: Donors
    values: Array
    shares: Array


@dataclass(frozen=True, slots=True, eq=False)
class Mechanism:
    """Predictive mean matching with fixed donors.

    ``data`` is the released table's coding; rows have its p columns and then those of further
    predictors. ``filled``: recipients show, of columns that come later in the order, a random
    sample of the kept values instead of their own. ``seconds``: what the fits took.
    """

    data: Microdata
    steps: tuple[Step, ...]
    constraints: tuple[Constraint, ...]
    filled: bool
    seconds: float

    @property
    def notes(self) -> tuple[str, ...]:
        """What the fits had to say."""
        return tuple(note for step in self.steps for note in step.model.notes)

    @property
    def columns(self) -> list[int]:
        """Synthesised columns in their order."""
        return [step.column for step in self.steps]

    def synthesize(self, rows: Codes, rng: np.random.Generator) -> tuple[Codes, int]:
        """Synthetic rows (R, p + e) of recipients, and how often the nearest donor was refused."""
        out = self._fill(rows, rng) if self.filled else rows.copy()
        refused = 0
        for step in self.steps:
            allowed = self._allowed(out, step)
            if allowed is not None and not allowed.any(axis=1).all():
                raise ModelError(
                    f"no kept value of column {self.data.columns[step.column]!r} makes "
                    f"{int((~allowed.any(axis=1)).sum())} of the synthetic records possible; "
                    "loosen constraints=, synthesise more columns, or change their order"
                )
            means = step.model.means(out)
            out[:, step.column], more = step.donors.draw(means, allowed, rng)
            refused += more
        return out, refused

    def _fill(self, rows: Codes, rng: np.random.Generator) -> Codes:
        """Deleted values replaced by a random sample of the kept ones, each variable by itself."""
        out = rows.copy()
        left = np.arange(len(rows))
        for _ in range(TRIES):
            for step in self.steps:
                out[left, step.column] = rng.choice(step.values, size=len(left), p=step.shares)
            left = left[~self._rows_allowed(out[left])]
            if not len(left):
                return out
        raise ModelError(
            f"the constraints allow none of {TRIES:,} combinations of values tried for "
            f"{len(left)} of the records to synthesise; loosen constraints=, or synthesise more "
            "columns (order=)"
        )

    def _rows_allowed(self, rows: Codes) -> npt.NDArray[np.bool_]:
        return allowed_rows(self.data, rows[:, : len(self.data.columns)], self.constraints)

    def _allowed(self, rows: Codes, step: Step) -> npt.NDArray[np.bool_] | None:
        """Values that each row may take; where none will do, the columns to come must mend it."""
        p = len(self.data.columns)
        allowed = allowed_values(
            self.data, rows[:, :p], step.column, step.donors.values, self.constraints
        )
        if allowed is not None and step is not self.steps[-1]:
            allowed |= ~allowed.any(axis=1, keepdims=True)
        return allowed

    def log_chance(self, rows: Codes, z: Codes) -> Array:
        """log p(synthetic values z of each row | the row, kept records), shape (R,)."""
        total: Array = self.log_chances(rows, z).sum(axis=0)
        return total

    def log_chances(self, rows: Codes, z: Codes) -> Array:
        """The same step by step, each given the steps before it, shape (q, R).

        ``rows`` (R, p + e) are confidential, ``z`` (R, q) in the order of the steps. The chance
        that the released value is taken, given the released values of the variables before and the
        row's own of those after; or its mean over all fill-ins of those, by what the steps before
        say of them. A step that cannot have been says nothing of fill-ins.
        """
        rows = rows.astype(float)
        if self.filled:
            rows[:, self.columns] = z  # own values are not looked at
        keys, back = np.unique(np.column_stack([rows, z]), axis=0, return_inverse=True)
        fills, weights = self._fills()
        F = len(fills)
        tried = np.repeat(keys[:, : rows.shape[1]], F, axis=0)
        tried[:, self._drawn()] = np.tile(fills, (len(keys), 1))
        released = np.repeat(keys[:, rows.shape[1] :], F, axis=0)
        chance = np.tile(weights, len(keys))
        if self.filled:
            chance = chance * self._rows_allowed(tried)
        fill = _shared(chance.reshape(-1, F))
        out = np.empty((len(self.steps), len(keys)))
        for place, step in enumerate(self.steps):
            each, alive = np.zeros(len(tried)), np.flatnonzero(fill.ravel() > 0)
            each[alive] = self._chance_of(step, tried[alive], released[alive, place])
            taken = fill * each.reshape(-1, F)
            with np.errstate(divide="ignore"):
                out[place] = np.log(taken.sum(axis=1))
            possible = taken.any(axis=1)
            fill[possible] = _shared(taken[possible])
            tried[:, step.column] = released[:, place]
        return out[:, back.ravel()]

    def _chance_of(self, step: Step, rows: Array, value: Array) -> Array:
        """Chance that each row takes such a value of the step's variable, shape (R,)."""
        keys, back = np.unique(np.column_stack([rows, value]), axis=0, return_inverse=True)
        unique, wanted = keys[:, :-1], keys[:, -1]
        allowed = self._allowed(unique, step)
        own = np.zeros(len(unique))
        some = np.arange(len(unique)) if allowed is None else np.flatnonzero(allowed.any(axis=1))
        for block in blocks_of(some, len(step.donors.values)):
            chances = step.donors.chances(
                step.model.means(unique[block]), None if allowed is None else allowed[block]
            )
            own[block] = (chances * (step.donors.values == wanted[block, None])).sum(axis=1)
        return own[back.ravel()]

    def _drawn(self) -> list[int]:
        """Columns whose fill-in matters: not the first's, unless constraints look at it."""
        if not self.filled:
            return []
        return self.columns if self.constraints else self.columns[1:]

    def _fills(self) -> tuple[Array, Array]:
        """Every fill-in (F, q) and how often it is drawn (F,), constraints aside."""
        steps = [step for step in self.steps if step.column in self._drawn()]
        count = prod(len(step.values) for step in steps)
        if count > MAX_FILLS:
            raise InputError(
                f"there are {count:,} combinations of values that the deleted ones may be filled "
                f"in with, more than the {MAX_FILLS:,} that can be enumerated; cut numbers into "
                'categories, synthesise fewer columns, or use later="genuine"'
            )
        values = list(product(*(step.values for step in steps)))
        shares = product(*(step.shares for step in steps))
        return np.array(values).reshape(len(values), -1), np.array([float(prod(s)) for s in shares])


def _shared(weights: Array) -> Array:
    """Rows that sum to one; rows of zeros stay."""
    total = weights.sum(axis=1, keepdims=True)
    shares: Array = weights / np.where(total > 0, total, 1.0)
    return shares


def fit_mechanism(
    data: Microdata,
    variables: Sequence[Variable | Number],
    kept: Codes,
    kinds: Mapping[int, str],
    *,
    constraints: tuple[Constraint, ...],
    donors: int,
    filled: bool,
) -> Mechanism:
    """Fit every prediction model to the kept rows (n', p + e), whatever their order."""
    began = time.perf_counter()
    alike, count = np.unique(kept, axis=0, return_counts=True)
    whole = np.repeat(alike, count, axis=0)
    steps = []
    for column, kind in kinds.items():
        others = [j for j in range(kept.shape[1]) if j != column]
        model = fit_means(kind, whole, column, variables, others)
        values, held = np.unique(whole[:, column], return_counts=True)
        steps.append(
            Step(
                column=column,
                model=model,
                donors=Donors(
                    model.means(alike), alike[:, column].astype(float), count.astype(float), donors
                ),
                values=values.astype(float),
                shares=held / held.sum(),
            )
        )
    seconds = time.perf_counter() - began
    return Mechanism(data, tuple(steps), constraints, filled, seconds)
