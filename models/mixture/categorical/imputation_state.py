"""What imputation of the unknown rows works on, and what is kept of its draws.

See `latent_imputation.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk.models.mixture.known_records import BASE_CHAINS

from .posterior import Mechanism
from .state import Prior, Units, given_arrays, units_of
from .sweep import RESCALE_EVERY

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """What every chain works on.

    Attributes
    ----------
    prior : Prior
    hows : sequence of Mechanism
        Of the m data sets.
    known : ndarray of bool, shape (n,)
        Records whose values are seen.
    units : sequence of Units
        Known records with each data set; then alone.
    data : tuple
        The units of the data sets as the kernels take them, the unknown rows last.
    """

    prior: Prior
    hows: Sequence[Mechanism]
    known: Mask
    units: Sequence[Units]
    data: tuple[Any, ...]

    @classmethod
    def of(cls, hows: Sequence[Mechanism], known: Mask, prior: Prior) -> "Problem":
        """Lay out the units of all data sets."""
        units = [_units(how, known, prior.width - 1) for how in hows]
        before = units_of(hows[0].y[known])
        return cls(
            prior=prior,
            hows=hows,
            known=known,
            units=[*units, before],
            data=_below_one_another(units, int((~known).sum())),
        )

    @property
    def m(self) -> int:
        """Number of data sets."""
        return len(self.hows)

    @property
    def unknown(self) -> Ints:
        """Records that are imputed."""
        return np.flatnonzero(~self.known)

    @property
    def exchangeable(self) -> bool:
        """Whether nothing tells one unknown record from another."""
        how = self.hows[0]
        return not how.own and bool(how.synthesized.all())

    @property
    def tracked_rows(self) -> Ints:
        """Unknown rows of which labels and values are kept: one stands for all, or all."""
        R = len(self.unknown)
        return np.arange(min(R, 1) if self.exchangeable else R)

    @property
    def fixed(self) -> Mask:
        """Columns that stay at their drawn probabilities, with a data set and before, (2, p)."""
        conditional = self.hows[0].conditional
        return np.stack([conditional, np.zeros(len(conditional), dtype=bool)])

    @property
    def of_known(self) -> Ints:
        """Unit of each known record in each data set, and before, shape (m + 1, n_known)."""
        return np.stack([units.unit for units in self.units])

    def data_copy(self) -> tuple[Any, ...]:
        """The data for one chain, which writes its unknown rows into them."""
        return (self.data[0].copy(), *self.data[1:])

    def layout(self) -> tuple[Any, ...]:
        """Starts, prior of levels, imputed columns, shown ones, how densities fall with counts."""
        made, n = self.hows[0].synthesized, len(self.known)
        d = np.diff(self.prior.starts)
        fall = np.ones((-(-len(d) // RESCALE_EVERY), n + 1))
        for j, levels in enumerate(d):
            fall[j // RESCALE_EVERY] /= np.arange(n + 1) + levels * self.prior.level
        free, shown = np.flatnonzero(made), np.flatnonzero(~made)
        return self.prior.starts, self.prior.level, free, shown, fall

    def rows(self, l: int) -> npt.NDArray[np.int32]:
        """Unknown rows to start from, as data set l shows them, (m, R, w)."""
        start = np.where(self.hows[l].synthesized, self.hows[l].z, self.hows[l].y)[self.unknown]
        rows = [start] * self.m
        if self.hows[0].own:
            conditioned = [how.linked for how in self.hows]
            made = self.hows[0].synthesized
            rows = [
                np.hstack([start, z[self.unknown][:, made]]) for z in conditioned if z is not None
            ]
        return np.ascontiguousarray(np.stack(rows), dtype=np.int32)


def _units(how: Mechanism, known: Mask, padding: int) -> Units:
    """The known records and a data set, all but the rows that are imputed."""
    linked, y = how.linked, how.y[known]
    if linked is not None:
        conditioned = np.where(linked < 0, padding, linked)[:, how.synthesized]
        return units_of(np.hstack([y, conditioned[known]]))
    if not how.synthesized.all():
        return units_of(y, how.given(how.replaced, None))
    found = units_of(np.vstack([y, how.z[how.replaced]]))
    return replace(found, unit=found.unit[: len(y)])


def _below_one_another(units: Sequence[Units], R: int) -> tuple[Any, ...]:
    """Units of all data sets in one array, room for the R unknown rows below each."""
    room = np.zeros((R, units[0].positions.shape[1]), np.int32)
    positions = np.vstack([part for u in units for part in (u.positions, room)])
    once = np.ones(R, np.int64)
    multiplicity = np.concatenate([part for u in units for part in (u.multiplicity, once)])
    given = [given_arrays(u.given) for u in units]
    z, times = [g[0] for g in given], [g[1] for g in given]
    return (
        np.ascontiguousarray(positions),
        multiplicity.astype(np.int64),
        np.cumsum([0, *(len(u.positions) + R for u in units)]),
        np.ascontiguousarray(np.vstack(z)),
        np.concatenate(times),
        np.cumsum([0, *map(len, z)]),
        *given[0][2:],
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kept:
    """Draws that are kept, H in all, chain after chain; B = m + W sets of counts in each.

    ``Q (H, B, D, K)``, ``tau (H, B, p, K)``, ``n (H, B, K)``, ``alpha (H, B)``, ``pi (H, B, K)``;
    labels of the known records ``(H, B, n_known)`` and of tracked rows ``(H, B, S)``; the rows that
    the tracked_rows hold ``(H, S, p)``.
    """

    Q: Array
    tau: Array
    n: Ints
    alpha: Array
    pi: Array
    known_label: npt.NDArray[np.int16]
    seat_label: npt.NDArray[np.int16]
    seat_rows: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.alpha)

    @classmethod
    def room(cls, problem: Problem, H: int) -> "Kept":
        """Empty arrays for one chain."""
        K, D, p = problem.prior.n_classes, problem.prior.width, len(problem.prior.starts) - 1
        B, S, N = problem.m + BASE_CHAINS, len(problem.tracked_rows), int(problem.known.sum())
        return cls(
            Q=np.ones((H, B, D, K)),
            tau=np.empty((H, B, p, K)),
            n=np.empty((H, B, K), np.int64),
            alpha=np.empty((H, B)),
            pi=np.empty((H, B, K)),
            known_label=np.empty((H, B, N), np.int16),
            seat_label=np.empty((H, B, S), np.int16),
            seat_rows=np.empty((H, S, p), np.int32),
        )

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """All of it, in order."""
        return tuple(getattr(self, f.name) for f in fields(self))

    def take(self, which: npt.NDArray[np.integer]) -> "Kept":
        """Some of the draws."""
        return Kept(**{f.name: getattr(self, f.name)[which] for f in fields(self)})


def joined(parts: Sequence[Kept]) -> Kept:
    """Put chains after one another."""
    return Kept(
        **{f.name: np.concatenate([getattr(x, f.name) for x in parts]) for f in fields(Kept)}
    )
