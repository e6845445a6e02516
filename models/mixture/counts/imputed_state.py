"""What imputation of unknown counts works on, and what is kept of its draws.

See `poisson_imputed.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk.models.mixture.known_records import BASE_CHAINS

from .posterior import CountMechanism
from .state import CountPrior, CountUnits
from .units import CountColumns, units_of

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountProblem:
    """What every chain works on.

    Attributes
    ----------
    prior : CountPrior
    columns : CountColumns
    hows : sequence of CountMechanism
        Of the m data sets.
    seen : ndarray of bool, shape (n,)
        Records whose values are seen.
    units : sequence of CountUnits
        Records that are seen with each data set; then alone.
    rows : tuple
        What the releases show of the unknown rows, as the kernels take it.
    """

    prior: CountPrior
    columns: CountColumns
    hows: Sequence[CountMechanism]
    seen: Mask
    units: Sequence[CountUnits]
    rows: tuple[Any, ...]

    @classmethod
    def of(
        cls, hows: Sequence[CountMechanism], seen: Mask, prior: CountPrior, columns: CountColumns
    ) -> "CountProblem":
        """Lay out the units of all data sets."""
        return cls(
            prior=prior,
            columns=columns,
            hows=hows,
            seen=seen,
            units=[*(_units(how, seen) for how in hows), _units(hows[0], seen, with_release=False)],
            rows=_rows(hows, ~seen),
        )

    @property
    def m(self) -> int:
        """Number of data sets."""
        return len(self.hows)

    @property
    def exchangeable(self) -> bool:
        """Whether nothing tells one unknown record from another."""
        exposure = self.rows[2]
        return not self.hows[0].own and bool((exposure == exposure[:1]).all())

    @property
    def tracked_rows(self) -> Ints:
        """Unknown rows of which labels and values are kept: one stands for all, or all."""
        R = len(self.rows[2])
        return np.arange(min(R, 1) if self.exchangeable else R)

    @property
    def of_known(self) -> Ints:
        """Unit of each record that is seen, in each data set and before, (m + 1, n_seen)."""
        return np.stack([units.unit[: self.seen.sum()] for units in self.units])

    def data(self) -> tuple[Any, ...]:
        """Units of all data sets and of the table below one another, room for unknown rows."""
        exposure, positions = self.rows[2], self.rows[3]
        R, once = len(exposure), np.ones(len(exposure), np.int64)
        shown = [*(exposure + self.rows[1] * self._made,) * self.m, exposure]
        parts = list(zip(self.units, shown, strict=True))
        return (
            np.vstack([x for u in self.units for x in (u.counts, np.zeros(exposure.shape))]),
            np.vstack([x for u, e in parts for x in (u.exposure, e)]),
            np.vstack([x for u in self.units for x in (u.positions, positions)]),
            np.concatenate([x for u in self.units for x in (u.multiplicity, once)]),
            np.cumsum([0, *(len(u.multiplicity) + R for u in self.units)]),
        )

    @property
    def _made(self) -> Mask:
        made: Mask = self.hows[0].synthesized[None, :]
        return made

    def start(self, l: int) -> Array:
        """Unknown rows to start from, as data set l shows them, (R, p)."""
        how = self.hows[l]
        rows: Array = np.where(how.synthesized, how.z, how.y)[~self.seen]
        return np.ascontiguousarray(rows)


def _units(how: CountMechanism, seen: Mask, *, with_release: bool = True) -> CountUnits:
    """The records that are seen, and a data set; none of the rows that are imputed."""
    y, e, at = how.y[seen], how.exposure[seen], how.positions[seen]
    if with_release and how.linked is not None:
        z = how.linked[seen]
        return units_of(y + np.maximum(z, 0.0), e * (1.0 + (z >= 0)), at)
    if with_release:
        r = how.replaced
        y, e = np.vstack([y, how.z[r]]), np.vstack([e, how.exposure[r]])
        at = np.vstack([at, how.positions[r]])
    return units_of(y, e, at)


def _rows(hows: Sequence[CountMechanism], unknown: Mask) -> tuple[Any, ...]:
    """Shown counts (m, R, p) and their exposures, exposures, levels, columns that are imputed."""
    first, made = hows[0], hows[0].synthesized
    exposure = first.exposure[unknown]
    conditioned = np.where(made, float(first.own), 1.0)  # shape (p,): is anything shown of a count?
    shown = [np.where(made, how.z if how.own else 0.0, how.y)[unknown] for how in hows]
    return (
        np.ascontiguousarray(np.stack(shown), dtype=np.float64),
        np.ascontiguousarray(exposure * conditioned),
        np.ascontiguousarray(exposure),
        np.ascontiguousarray(first.positions[unknown]),
        np.flatnonzero(made),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountsKept:
    """Draws that are kept, H in all, chain after chain; B = m + W sets of sums in each.

    ``n (H, B, K)``, ``M (H, B, D + 2 p, K)``, ``alpha (H, B)``; labels of records that are seen
    ``(H, B, N)`` and tracked rows ``(H, B, S)``, structural zeros ``(..., p)``; the rows that
    the tracked_rows hold ``(H, S, p)``.
    """

    n: Ints
    M: Array
    alpha: Array
    known_label: npt.NDArray[np.int16]
    known_flags: Mask
    seat_label: npt.NDArray[np.int16]
    seat_flags: Mask
    seat_rows: Array

    def __len__(self) -> int:
        return len(self.alpha)

    @classmethod
    def room(cls, problem: CountProblem, H: int) -> "CountsKept":
        """Empty arrays for one chain."""
        prior, B = problem.prior, problem.m + BASE_CHAINS
        K, p, S, N = (
            prior.n_classes,
            prior.n_counts,
            len(problem.tracked_rows),
            int(problem.seen.sum()),
        )
        return cls(
            n=np.empty((H, B, K), np.int64),
            M=np.empty((H, B, prior.width + 2 * p, K)),
            alpha=np.empty((H, B)),
            known_label=np.empty((H, B, N), np.int16),
            known_flags=np.empty((H, B, N, p), np.bool_),
            seat_label=np.empty((H, B, S), np.int16),
            seat_flags=np.empty((H, B, S, p), np.bool_),
            seat_rows=np.empty((H, S, p)),
        )

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """All of it, in order."""
        return tuple(getattr(self, f.name) for f in fields(self))

    def take(self, which: npt.NDArray[np.integer]) -> "CountsKept":
        """Some of the draws."""
        return CountsKept(**{f.name: getattr(self, f.name)[which] for f in fields(self)})


def joined(parts: Sequence[CountsKept]) -> CountsKept:
    """Put chains after one another."""
    names = [f.name for f in fields(CountsKept)]
    return CountsKept(**{x: np.concatenate([getattr(part, x) for part in parts]) for x in names})
