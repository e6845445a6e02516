"""Joint grids too large to compute: searched coarse to fine.

Every so many-th value of each variable makes a coarse grid, whose points stand for the blocks of
fine guesses around them. The blocks in which the coarse posterior puts most are then opened, as
many as the budget allows; what the others held is reported, not forgotten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import change, log_sum

from .guesses import GuessSet

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
COARSE = 4  # the coarse grid may take one in so many guesses of the budget


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Search:
    """One-variable guesses, and which of them are coarse.

    ``points`` (G_j, U), ``counted`` (G_j, U) and ``truth`` (U,) of each of q variables; ``starts``
    and ``sizes`` of the blocks into which each variable's guesses are cut; ``budget`` guesses.
    """

    points: Sequence[Array]
    counted: Sequence[Flags]
    truth: Sequence[Ints]
    starts: Sequence[Ints]
    sizes: Sequence[Ints]
    budget: int

    @classmethod
    def of(
        cls,
        points: Sequence[Array],
        counted: Sequence[Flags],
        truth: Sequence[Ints],
        budget: int,
    ) -> "Search":
        """Cut the longest variables until the coarse grid fits its part of the budget."""
        lengths = np.array([len(p) for p in points])
        strides = np.ones_like(lengths)
        while np.prod(np.ceil(lengths / strides)) > budget / COARSE and (strides < lengths).any():
            strides[int(np.argmax(np.ceil(lengths / strides)))] += 1
        starts = [np.arange(0, n, s, dtype=np.int64) for n, s in zip(lengths, strides, strict=True)]
        sizes = [np.diff(b, append=n) for b, n in zip(starts, lengths, strict=True)]
        largest = np.prod([float(s.max()) for s in sizes])
        if largest > budget:
            raise InputError(
                f"{' x '.join(map(str, lengths))} guesses cannot be searched within a budget of "
                f"{budget:,}; raise the budget, or take coarser grids"
            )
        ordered = [_ascending(*x) for x in zip(points, counted, truth, strict=True)]
        points, counted, truth = map(list, zip(*ordered, strict=True))
        return cls(
            points=points, counted=counted, truth=truth, starts=starts, sizes=sizes, budget=budget
        )

    def coarse(self) -> GuessSet:
        """The middle of every block, and the truth; shape (blocks + 1, ...) joint."""
        cells = self._cells()
        at = self._middles(cells)  # shape (C, U) each
        column = np.arange(at[0].shape[1])
        codes = np.stack([p[a, column] for p, a in zip(self.points, at, strict=True)], axis=2)
        counted = np.logical_and.reduce(
            [c[a, column] for c, a in zip(self.counted, at, strict=True)]
        )
        return GuessSet(
            np.concatenate([self._truth()[None], codes]),
            np.zeros(len(column), dtype=np.int64),
            np.concatenate([np.ones((1, len(column)), dtype=bool), counted & ~self._is_truth(at)]),
            np.concatenate([np.full((1, cells.shape[1]), -1), cells]),
            self.finer,
        )

    def finer(self, log_p: Array) -> tuple[GuessSet, Array]:
        """Guesses of the likeliest blocks (and the truth); log of the others, the truth being 1."""
        cells = self._cells()
        with np.errstate(divide="ignore"):  # a block may hold nothing that counts
            held = sum(np.log(n[cells[:, j]]) for j, n in enumerate(self._members()))
        is_truth = self._is_truth(self._middles(cells))
        mass = np.where(is_truth, log_p[0], log_p[1:]) + np.asarray(held)  # shape (C, U)
        largest = int(np.prod([s.max() for s in self.sizes]))
        opened = np.argsort(-mass, axis=0, kind="stable")[: max(self.budget // largest, 1)]
        np.put_along_axis(mass, opened, -np.inf, axis=0)
        return self._fine(cells[opened]), change(log_sum(mass), log_p[0])

    def _cells(self) -> Ints:
        """Every combination of blocks, shape (C, q)."""
        return np.array(list(product(*(range(len(s)) for s in self.starts))), dtype=np.int64)

    def _members(self) -> list[Ints]:
        """How many guesses of each block count, shape (blocks, U) for each variable."""
        return [
            np.add.reduceat(c.astype(np.int64), b, axis=0)
            for c, b in zip(self.counted, self.starts, strict=True)
        ]

    def _middles(self, cells: Ints) -> list[Ints]:
        """The middle one of those that count, which come first in a block; shape (C, U) each."""
        return [
            (b[:, None] + np.minimum(n // 2, np.maximum(n - 1, 0)))[cells[:, j]]
            for j, (b, n) in enumerate(zip(self.starts, self._members(), strict=True))
        ]

    def _is_truth(self, at: Sequence[Ints]) -> Flags:
        """Where the middles of all variables are the truth, shape (C, U)."""
        flags: Flags = np.logical_and.reduce([a == t for a, t in zip(at, self.truth, strict=True)])
        return flags

    def _fine(self, blocks: Ints) -> GuessSet:
        """Every guess in the blocks (T, U, q); the truth first, and nothing twice."""
        T, U, q = blocks.shape
        offsets = np.array(list(product(*(range(int(s.max())) for s in self.sizes))))  # (S, q)
        codes = np.empty((T * len(offsets), U, q))
        counted = np.ones((T, len(offsets), U), dtype=bool)
        is_truth = np.ones((T, len(offsets), U), dtype=bool)
        for j in range(q):
            begin, size = self.starts[j][blocks[:, :, j]], self.sizes[j][blocks[:, :, j]]
            step = offsets[:, j][None, :, None]
            at = begin[:, None] + np.minimum(step, size[:, None] - 1)  # shape (T, S, U)
            column = np.arange(U)
            codes[:, :, j] = self.points[j][at, column].reshape(-1, U)
            counted &= (step < size[:, None]) & self.counted[j][at, column]
            is_truth &= at == self.truth[j]
        kept = (counted & ~is_truth).reshape(-1, U)
        G = len(codes) + 1
        return GuessSet(
            np.concatenate([self._truth()[None], codes]),
            np.zeros(U, dtype=np.int64),
            np.concatenate([np.ones((1, U), dtype=bool), kept]),
            np.repeat(np.arange(G)[:, None], q, axis=1),
        )

    def _truth(self) -> Array:
        at = [p[t, np.arange(len(t))] for p, t in zip(self.points, self.truth, strict=True)]
        return np.stack(at, axis=1)


def _ascending(points: Array, counted: Flags, truth: Ints) -> tuple[Array, Flags, Ints]:
    """The same guesses in ascending order, so that blocks hold neighbours; uncounted ones last."""
    order = np.argsort(np.where(counted, points, np.inf), axis=0, kind="stable")
    place = np.argsort(order, axis=0, kind="stable")[truth, np.arange(len(truth))]
    return (
        np.take_along_axis(points, order, axis=0),
        np.take_along_axis(counted, order, axis=0),
        place.astype(np.int64),
    )
