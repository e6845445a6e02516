"""What a business competitor sees of one target: known rows, shown rows, tail, order, totals."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError
from bayes_risk.evidence.contract import Targets
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.release import EncodedRelease

from .all_but_two import Pair
from .class_posterior import Rows
from .largest_value import TAIL
from .second_largest import Question

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Tail(NamedTuple):
    """Total and number of the records above ``threshold``."""

    total: float
    size: int
    threshold: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackScenario:
    """One target before one intruder.

    Attributes
    ----------
    intruder : Intruder
    release : Release
    names : tuple of str, length p
        Of the counts.
    own : Rows
        Confidential.
    tables : tuple of Rows, length m
        Released.
    synthesized : ndarray of bool, shape (p,)
    known_columns : ndarray of bool, shape (p,)
        Counts of the target that are known.
    deals : bool
        Whether totals are dealt (MM, TCMM).
    record : int
        The target.
    other : int or None
        The second record that is not known.
    columns : ndarray of int, shape (q,)
        Guessed counts.
    guesses : ndarray, shape (G, q)
    """

    intruder: Intruder
    release: EncodedRelease
    names: tuple[str, ...]
    own: Rows
    tables: tuple[Rows, ...]
    synthesized: Mask
    known_columns: Mask
    deals: bool
    record: int
    other: int | None
    columns: Ints
    guesses: Array

    @classmethod
    def of(
        cls,
        fit: Any,
        intruder: Intruder,
        release: EncodedRelease,
        targets: Targets,
        u: int,
    ) -> "AttackScenario":
        """Read target u.

        Raises
        ------
        InputError
            A label of ``other`` that no record has.
        """
        data, places = fit.microdata, fit.columns.counts.tolist()
        exposure = fit.columns.exposures_of(data.codes)
        positions = fit.columns.positions_of(data.codes, fit.prior)
        tables = [fit.columns.counts_of(z) for z in release.codes]
        synthesized = release.columns[fit.columns.counts]
        known = np.array([c in list(intruder.knows_columns) for c in fit.counts])
        return cls(
            intruder=intruder,
            release=release,
            names=tuple(fit.counts),
            own=Rows(
                counts=fit.columns.counts_of(data.codes), exposure=exposure, positions=positions
            ),
            tables=tuple(Rows(counts=z, exposure=exposure, positions=positions) for z in tables),
            synthesized=synthesized,
            known_columns=known | ~synthesized,
            deals=release.groups is not None or fit.model.kind != "MP",
            record=int(targets.record[u]),
            other=_other(intruder, fit),
            columns=np.array([places.index(j) for j in targets.columns.tolist()]),
            guesses=targets.guesses.codes[:, u].astype(float),
        )

    # --- who is who ---------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.own)

    @property
    def j(self) -> int:
        """The guessed count of an intruder who knows the largest."""
        return int(self.columns[0])

    @property
    def name(self) -> str:
        """Its name."""
        return self.names[self.j]

    @property
    def runner_up(self) -> int:
        """The record with the second largest value."""
        values = self.own.counts[:, self.j].copy()
        values[self.record] = -1.0
        if self.other is not None:
            values[self.other] = -1.0
        return int(np.argmax(values))

    @property
    def second_value(self) -> float:
        """The largest value that is known."""
        return float(self.own.counts[self.runner_up, self.j])

    @property
    def in_order(self) -> Mask:
        """Guesses that leave the target the largest, shape (G,)."""
        if self.intruder.largest is None:
            return np.ones(len(self.guesses), dtype=bool)
        least = np.full(len(self.guesses), self.second_value)
        if self.other is not None:
            least = np.maximum(least, self.pair(None).totals[0] - self.guesses[:, 0])
        allowed: Mask = self.guesses[:, 0] >= least
        return allowed

    @property
    def total(self) -> float:
        """Of the guessed count."""
        return float(self.own.counts[:, self.j].sum())

    # --- what is known of the second largest ------------------------------------------------

    @property
    def question(self) -> Question:
        """What is asked of the target, and known of it and of the second largest."""
        return Question(
            column=self.j,
            guesses=self.guesses[:, 0],
            exposure=float(self.own.exposure[self.record, self.j]),
            target=self.own.only([self.record]).about(self._known_of_target),
            second=self.second,
        )

    @property
    def second(self) -> Rows:
        """The second largest, as far as it is known."""
        whole = self.intruder.knows_records == "second-largest"
        row = self.own.only([self.runner_up])
        return row.about(
            np.ones(len(self.names)) if whole else self._only_guessed, covariates=whole
        )

    @property
    def _only_guessed(self) -> Mask:
        marked: Mask = np.arange(len(self.names)) == self.j
        return marked

    @property
    def _known_of_target(self) -> Mask:
        known: Mask = self.known_columns & ~np.isin(np.arange(len(self.names)), self.columns)
        return known

    def shown(self, l: int) -> Rows:
        """The rows of a data set."""
        return self.tables[l]

    def dealt_question(self, l: int) -> Question:
        """The same of counts that are dealt in the same groups as the guessed one."""
        asked, alike = self.question, self.synthesized & self._dealt_alike(l)
        return Question(
            column=asked.column,
            guesses=asked.guesses,
            exposure=asked.exposure,
            target=asked.target.about(self._known_of_target & alike, covariates=False),
            second=asked.second.about((asked.second.exposure[0] > 0) & alike, covariates=False),
        )

    def _dealt_alike(self, l: int) -> Mask:
        groups = self.release.groups
        if groups is None or self.intruder.groups == "inferred":
            return np.ones(len(self.names), dtype=bool)
        mine = groups[l][:, [self._place(self.j)]]
        alike = np.zeros(len(self.names), dtype=bool)
        for q, name in enumerate(self.release.synthesized):
            alike[self.names.index(name)] = bool((groups[l][:, [q]] == mine).all())
        return alike

    def may_be_target(self, l: int) -> Array:
        """1 for rows that agree with the target in what was kept, (n,)."""
        return self._agree(self.record, self._kept)

    def may_be_second(self, l: int) -> Array:
        """1 for rows that agree with what is known of the second largest, (n,)."""
        whole = self.intruder.knows_records == "second-largest"
        return self._agree(self.runner_up, self._kept if whole else np.zeros_like(self._kept))

    @property
    def _kept(self) -> Mask:
        return ~self.synthesized

    def _agree(self, record: int, columns: Mask) -> Array:
        """Rows with a record's exposure, and where columns are compared, its covariates."""
        same = (self.own.exposure == self.own.exposure[record]).all(axis=1)
        same &= (self.own.counts == self.own.counts[record])[:, columns].all(axis=1)
        if self.intruder.knows_records == "second-largest" or record == self.record:
            same &= (self.own.positions == self.own.positions[record]).all(axis=1)
        agreed: Array = same.astype(float)
        return agreed

    # --- groups -------------------------------------------------------------------------------

    def _place(self, j: int) -> int:
        return list(self.release.synthesized).index(self.names[j])

    def _groups(self, l: int, j: int) -> Ints:
        assert self.release.groups is not None
        found: Ints = np.asarray(self.release.groups[l][:, self._place(j)])
        return found

    def partition(self, l: int) -> Ints:
        """Group of each record in the guessed count, numbered from 0; (n,)."""
        label: Ints = np.unique(self._groups(l, self.j), return_inverse=True)[1]
        return label.reshape(-1)

    def own_group(self, l: int) -> int:
        """The target's."""
        return int(self.partition(l)[self.record])

    @property
    def in_tail(self) -> bool:
        """Whether the target is in a collapsed tail of the guessed count."""
        if self.release.groups is None or self.other is not None:
            return False
        return bool(self._groups(0, self.j)[self.record] == TAIL)

    @property
    def tail(self) -> Tail:
        """The tail of the guessed count; all data sets show the same."""
        inside, y = self._groups(0, self.j) == TAIL, self.own.counts[:, self.j]
        return Tail(float(y[inside].sum()), int(inside.sum()), self.thresholds(0)[0])

    def thresholds(self, l: int) -> Array:
        """The largest value outside the tail of each guessed count, (q,)."""
        found = []
        for j in self.columns.tolist():
            outside = self._groups(l, j) != TAIL
            found.append(self.own.counts[outside, j].max() if outside.any() else -1.0)
        return np.array(found)

    # --- all but two --------------------------------------------------------------------------

    @property
    def truth(self) -> Array:
        """The target's values of the guessed counts, (q,)."""
        found: Array = self.own.counts[self.record, self.columns]
        return found

    @property
    def _two(self) -> list[int]:
        assert self.other is not None
        return [self.record, self.other]

    def groups_of_pair(self, l: int) -> Ints:
        """Of target and other, (2, q)."""
        return np.stack([self._groups(l, j)[self._two] for j in self.columns.tolist()], axis=1)

    def known(self, l: int | None) -> Rows:
        """Rows known without the two: of the table, and with l, of a data set by MP."""
        rest = np.delete(np.arange(self.n), self._two)
        table = self.own.only(rest)
        if l is None:
            return table
        if self.release.classes == "own":
            return table.linked(self.tables[l].about(self.synthesized).only(rest))
        return table.and_then(self.tables[l])

    def pair(self, l: int | None) -> Pair:
        """What is asked of the two; with l, their own synthetic values beside what is known."""
        rows = [self.own.only([i]).about(self._known_of_target) for i in self._two]
        if l is not None and self.release.classes == "own":
            tied = self.tables[l].about(self.synthesized)
            rows = [row.linked(tied.only([i])) for row, i in zip(rows, self._two, strict=True)]
        counts = self.own.counts[self._two]
        return Pair(
            columns=self.columns,
            guesses=self.guesses,
            totals=counts[:, self.columns].sum(axis=0),
            exposure=self.own.exposure[self._two],
            first=rows[0],
            second=rows[1],
        )


def _other(intruder: Intruder, fit: Any) -> int | None:
    """Row of the second record that is not known."""
    if intruder.other is None:
        return None
    index = fit.microdata.index
    if intruder.other not in index:
        raise InputError(f"other={intruder.other!r} is no record label of the table")
    return int(np.flatnonzero(index == intruder.other)[0])
