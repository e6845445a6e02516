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
from bayes_risk._core.logspace import log_sum
from bayes_risk.guesses import GuessSet

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
        middles = [b + s // 2 for b, s in zip(self.starts, self.sizes, strict=True)]
        cells = np.array(list(product(*(range(len(m)) for m in middles))))  # shape (C, q)
        at = [m[cells[:, j]] for j, m in enumerate(middles)]
        codes = np.stack([p[a] for p, a in zip(self.points, at, strict=True)], axis=2)
        counted = np.logical_and.reduce([c[a] for c, a in zip(self.counted, at, strict=True)])
        is_truth = np.logical_and.reduce(
            [a[:, None] == t for a, t in zip(at, self.truth, strict=True)]
        )
        U = codes.shape[1]
        return GuessSet(
            np.concatenate([self._truth()[None], codes]),
            np.zeros(U, dtype=np.int64),
            np.concatenate([np.ones((1, U), dtype=bool), counted & ~is_truth]),
            np.concatenate([np.full((1, cells.shape[1]), -1), cells]),
            self.finer,
        )

    def finer(self, log_p: Array) -> tuple[GuessSet, Array]:
        """Guesses of the likeliest blocks (and the truth); log of the others, the truth being 1."""
        cells = np.array(list(product(*(range(len(s)) for s in self.starts))))  # shape (C, q)
        held = sum(np.log(s[cells[:, j]]) for j, s in enumerate(self.sizes))
        middle = [b + s // 2 for b, s in zip(self.starts, self.sizes, strict=True)]
        is_truth = np.logical_and.reduce(
            [
                m[cells[:, j]][:, None] == t
                for j, (m, t) in enumerate(zip(middle, self.truth, strict=True))
            ]
        )
        mass = np.where(is_truth, log_p[0], log_p[1:]) + np.asarray(held)[:, None]  # shape (C, U)
        largest = int(np.prod([s.max() for s in self.sizes]))
        opened = np.argsort(-mass, axis=0, kind="stable")[: max(self.budget // largest, 1)]
        np.put_along_axis(mass, opened, -np.inf, axis=0)
        return self._fine(cells[opened]), log_sum(mass) - log_p[0]

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
    """The same guesses in ascending order, so that blocks hold neighbours."""
    order = np.argsort(points, axis=0, kind="stable")
    place = np.argsort(order, axis=0, kind="stable")[truth, np.arange(len(truth))]
    return (
        np.take_along_axis(points, order, axis=0),
        np.take_along_axis(counted, order, axis=0),
        place.astype(np.int64),
    )
