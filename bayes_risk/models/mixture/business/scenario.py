"""What a business competitor sees of one target: known rows, shown rows, tail, order, totals."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk.data.microdata import rows_named
from bayes_risk.evidence.contract import Targets
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.mixture.columns import Mechanism
from bayes_risk.models.mixture.state import Rows, Units
from bayes_risk.release.release import EncodedRelease

from .competitors import TAIL, Pair, Question


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackScenario:
    """One target before one intruder."""

    fit: Any
    intruder: Intruder
    release: EncodedRelease
    hows: tuple[Mechanism, ...]  # how each of the m data sets was drawn
    record: int  # the target
    other: int | None  # the second record that is not known, if there is one
    columns: Ints  # (q,): guessed counts
    guesses: Array  # (G, q)

    @classmethod
    def of(
        cls, fit: Any, intruder: Intruder, release: EncodedRelease, targets: Targets, u: int
    ) -> "AttackScenario":
        """Read target u."""
        index, columns, other = fit.microdata.index, fit.columns, None
        if intruder.other is not None:
            other = int(rows_named([intruder.other], index, "other")[0])
        return cls(
            fit=fit,
            intruder=intruder,
            release=release,
            hows=tuple(Mechanism.of(release, columns, fit.prior)),
            record=int(targets.record[u]),
            other=other,
            columns=columns.variables(targets.columns),
            guesses=targets.guesses.codes[:, u].astype(float),
        )

    @property
    def names(self) -> list[str]:
        """Of the counts."""
        names: list[str] = self.fit.counts
        return names

    @property
    def known_columns(self) -> Flags:
        """Counts of the target that are known, shape (p,)."""
        known = [name in list(self.intruder.knows_columns) for name in self.names]
        return np.array(known) | ~self.synthesized

    @property
    def deals(self) -> bool:
        """Whether totals are dealt (MM, TCMM)."""
        return self.release.groups is not None or self.fit.model.kind != "MP"

    @property
    def own(self) -> Rows:
        """Confidential rows."""
        return self.hows[0].y

    @property
    def synthesized(self) -> Flags:
        """Which counts are, shape (p,)."""
        return self.hows[0].synthesized[: len(self.names)]

    def telling(self, rows: Rows, counts: npt.ArrayLike, *, levels: bool = True) -> Rows:
        """The same rows saying nothing but of the ``counts`` (p,), and of covariates or not."""
        told = np.append(np.asarray(counts, dtype=bool), np.full(rows.positions.shape[1], levels))
        return rows.without(~told, self.hows[0].padding)

    @property
    def j(self) -> int:
        """The guessed count of an intruder who knows the largest."""
        return int(self.columns[0])

    @property
    def runner_up(self) -> int:
        """The record with the second largest value."""
        values = self.own.counts[:, self.j].copy()
        values[[self.record] if self.other is None else self.two] = -1.0
        return int(np.argmax(values))

    @property
    def second_value(self) -> float:
        """The largest value that is known."""
        return float(self.own.counts[self.runner_up, self.j])

    @property
    def in_order(self) -> Flags:
        """Guesses that leave the target the largest, shape (G,)."""
        if self.intruder.largest is None:
            return np.ones(len(self.guesses), dtype=bool)
        least = np.full(len(self.guesses), self.second_value)
        if self.other is not None:
            least = np.maximum(least, self.pair(None).totals[0] - self.guesses[:, 0])
        return np.asarray(self.guesses[:, 0] >= least)

    # --- what is known of the second largest ------------------------------------------------

    @property
    def knows_second_record(self) -> bool:
        """Whether the whole record with the second largest value is known, not the value alone."""
        return bool(self.intruder.knows_records == "second-largest")

    @property
    def question(self) -> Question:
        """What is asked of the target, and known of it and of the second largest."""
        whole = self.knows_second_record
        marked = whole | (np.arange(len(self.names)) == self.j)
        second = self.own.take(np.array([self.runner_up]))
        return Question(
            column=self.j,
            guesses=self.guesses[:, 0],
            exposure=float(self.own.exposure[self.record, self.j]),
            target=self.telling(self.own.take(np.array([self.record])), self._known_of_target),
            second=self.telling(second, marked, levels=whole),
        )

    @property
    def _known_of_target(self) -> Flags:
        return np.asarray(self.known_columns & ~np.isin(np.arange(len(self.names)), self.columns))

    def dealt_question(self, l: int) -> Question:
        """The same of counts that are dealt in the same groups as the guessed one."""
        asked, alike = self.question, self.synthesized.copy()
        if self.release.groups is not None and self.intruder.groups != "inferred":
            for j in np.flatnonzero(alike).tolist():
                alike[j] = (self.groups(l, j) == self.groups(l, self.j)).all()
        return replace(
            asked,
            target=self.telling(asked.target, alike, levels=False),
            second=self.telling(asked.second, alike, levels=False),
        )

    def agree(self, record: int, columns: Flags, *, levels: bool) -> Array:
        """1 for rows with a record's exposure, these counts, and if compared, covariates; (n,)."""
        own = self.own
        same = (own.exposure == own.exposure[record]).all(axis=1)
        same &= (own.counts == own.counts[record])[:, columns].all(axis=1)
        if levels:
            same &= (own.positions == own.positions[record]).all(axis=1)
        return np.asarray(same.astype(float))

    # --- groups -------------------------------------------------------------------------------

    def groups(self, l: int, j: int) -> Ints:
        """Of all records in count j, as data set l was dealt; (n,)."""
        assert self.release.groups is not None
        place = list(self.release.synthesized).index(self.names[j])
        return np.asarray(self.release.groups[l][:, place])

    @property
    def in_tail(self) -> bool:
        """Whether the target is in a collapsed tail of the guessed count."""
        if self.release.groups is None or self.other is not None:
            return False
        return bool(self.groups(0, self.j)[self.record] == TAIL)

    def thresholds(self, l: int) -> Array:
        """The largest value outside the tail of each guessed count, (q,)."""
        found = []
        for j in self.columns.tolist():
            outside = self.groups(l, j) != TAIL
            found.append(self.own.counts[outside, j].max() if outside.any() else -1.0)
        return np.array(found)

    # --- all but two --------------------------------------------------------------------------

    @property
    def two(self) -> Ints:
        """Rows of target and other."""
        assert self.other is not None
        return np.array([self.record, self.other])

    def known(self, l: int | None) -> Units:
        """Rows known without the two: of the table, and with l, of a data set by MP."""
        rest = ~np.isin(np.arange(len(self.own.counts)), self.two)
        return self.own.take(rest).units() if l is None else self.hows[l].around(rest)[0]

    def pair(self, l: int | None) -> Pair:
        """What is asked of the two; with l, their own synthetic values beside what is known."""
        each, how = np.split(self.two, 2), None if l is None else self.hows[l]
        rows = [self.telling(self.own.take(i), self._known_of_target) for i in each]
        if how is not None and how.own:
            z, made = self.telling(how.z, self.synthesized), how.synthesized
            rows = [row.beside(z.take(i), made) for row, i in zip(rows, each, strict=True)]
        counts = self.own.counts[self.two]
        return Pair(
            columns=self.columns,
            guesses=self.guesses,
            totals=counts[:, self.columns].sum(axis=0),
            exposure=self.own.exposure[self.two],
            first=rows[0],
            second=rows[1],
        )
