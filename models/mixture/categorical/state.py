"""What a latent-class sampler works on: prior, units, points of a chain, draws kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ZeroLayout:
    """Structural zeros as kernels take them: disjoint boxes of levels, their sides shared.

    ``boxes`` (B, D) flags of rows of phi; ``of`` (B, p) the side of each box in each variable;
    ``narrow`` (F,) whether a side leaves out any level; its levels are ``rows[ptr[f]:ptr[f + 1]]``.
    """

    starts: Ints
    boxes: Flags
    of: Ints
    narrow: Flags
    ptr: Ints
    rows: Ints

    @classmethod
    def of_boxes(cls, boxes: Flags, starts: Ints) -> "ZeroLayout":
        """Disjoint boxes of levels (B, D)."""
        of = np.empty((len(boxes), len(starts) - 1), np.int64)
        sets: list[npt.NDArray[np.int64]] = []
        narrow: list[bool] = []
        for j, (begin, end) in enumerate(pairwise(starts)):
            kinds, found = np.unique(boxes[:, begin:end], axis=0, return_inverse=True)
            of[:, j] = found.ravel() + len(sets)
            sets += [begin + np.flatnonzero(kind) for kind in kinds]
            narrow += [not kind.all() for kind in kinds]
        return cls(
            starts=starts,
            boxes=np.hstack([boxes, np.ones((len(boxes), 1), dtype=bool)]),
            of=of,
            narrow=np.array(narrow),
            ptr=np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64),
            rows=np.concatenate(sets).astype(np.int64),
        )

    @property
    def arrays(self) -> tuple[Flags, Ints, Flags, Ints, Ints]:
        """The tuple that compiled loops take."""
        return self.boxes, self.of, self.narrow, self.ptr, self.rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prior:
    """Hyper-parameters and layout of a latent-class model.

    ``starts`` (p + 1,) says where the levels of each variable begin in the long row of levels;
    ``swaps`` whether a sweep also tries to swap neighbouring classes, ``splits`` how often it tries
    to split or merge classes; ``zeros`` the combinations that are impossible.
    """

    n_classes: int
    concentration: tuple[float, float]
    level: float
    starts: Ints
    swaps: bool = True
    splits: int = 0
    zeros: ZeroLayout | None = None

    @property
    def width(self) -> int:
        """Number of rows D of phi, the padding row included."""
        return int(self.starts[-1]) + 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Units:
    """What the sampler sees: distinct units, their multiplicities, and the unit of each record.

    ``positions`` (U, w) are rows of phi; ``unit`` (n,) finds the unit that record i's own values
    belong to. ``given`` holds, for releases synthesised conditionally on unsynthesised columns, the
    units of those releases and the denominators p(y_us | theta) that go with them. ``power`` (U,)
    holds the weights of the records in a pseudo-posterior (`latent_weighted.py`).
    """

    positions: npt.NDArray[np.int32]
    multiplicity: Ints
    unit: Ints
    given: "Given | None" = None
    power: Array | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Given:
    """Synthetic rows drawn from p(Z_i | y_us,i, theta): rows, and what divides their density.

    ``positions`` (U', w) with ``multiplicity``: (y_us, Z) rows; ``us_positions`` (V, u) with
    ``us_multiplicity``: unsynthesised parts; ``us_columns``: which variables those are.
    """

    positions: npt.NDArray[np.int32]
    multiplicity: Ints
    us_positions: npt.NDArray[np.int32]
    us_multiplicity: Ints
    us_columns: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State:
    """One point of a chain.

    Concentration, log(1 - V) (K - 1,), weights (K,), level probabilities (D, K).
    """

    alpha: float
    log_left: Array
    pi: Array
    phi: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draws:
    """Kept draws of all chains, chain after chain.

    Shapes: ``alpha (H,)``, ``log_left (H, K-1)``, that is log(1 - V), ``pi (H, K)``, ``phi
    (H, D, K)``, ``n_occupied (H,)``.
    """

    alpha: Array
    log_left: Array
    pi: Array
    phi: Array
    n_occupied: Ints
    n_chains: int

    def __len__(self) -> int:
        return len(self.alpha)

    def last(self, chain: int) -> State:
        """Where a chain stopped."""
        h = (chain + 1) * (len(self) // self.n_chains) - 1
        return State(
            alpha=float(self.alpha[h]), log_left=self.log_left[h], pi=self.pi[h], phi=self.phi[h]
        )

    def chains(self) -> list["Draws"]:
        """The chains, one by one."""
        size = len(self) // self.n_chains
        return [self.take(np.arange(c * size, (c + 1) * size), 1) for c in range(self.n_chains)]

    def take(self, which: npt.NDArray[np.integer], n_chains: int) -> "Draws":
        """Some of the draws."""
        return Draws(
            alpha=self.alpha[which],
            log_left=self.log_left[which],
            pi=self.pi[which],
            phi=self.phi[which],
            n_occupied=self.n_occupied[which],
            n_chains=n_chains,
        )


def joined(chains: Sequence[Draws]) -> Draws:
    """Chains put after one another."""
    return Draws(
        alpha=np.concatenate([c.alpha for c in chains]),
        log_left=np.concatenate([c.log_left for c in chains]),
        pi=np.concatenate([c.pi for c in chains]),
        phi=np.concatenate([c.phi for c in chains]),
        n_occupied=np.concatenate([c.n_occupied for c in chains]),
        n_chains=sum(c.n_chains for c in chains),
    )


def units_of(
    positions: npt.NDArray[np.int32],
    given: Given | None = None,
    left_out: int | None = None,
    power: Array | None = None,
) -> Units:
    """Distinct rows of ``positions`` and ``power``; a row that is left out has unit -1."""
    kept = np.ones(len(positions), dtype=bool)
    if left_out is not None:
        kept[left_out] = False
    keys = positions if power is None else np.column_stack([positions, power])
    rows, found, n = np.unique(keys[kept], axis=0, return_inverse=True, return_counts=True)
    unit = np.full(len(positions), -1, dtype=np.int64)
    unit[kept] = found
    return Units(
        positions=np.ascontiguousarray(rows[:, : positions.shape[1]], dtype=np.int32),
        multiplicity=n.astype(np.int64),
        unit=unit,
        given=given,
        power=None if power is None else rows[:, -1].copy(),
    )


def n_normalised(units: Units) -> int:
    """How many factors 1 / (1 - pi_0) the data bring: one for each row of the table.

    Rows left out whose unsynthesised values are known show as synthetic rows without divisor.
    """
    total = int(units.multiplicity.sum())
    if units.given is not None:
        total += int(units.given.multiplicity.sum() - units.given.us_multiplicity.sum())
    return total


def given_arrays(given: Given | None) -> tuple[npt.NDArray[np.integer], ...]:
    """The tuple that the compiled loop takes; empty arrays when nothing is conditional."""
    if given is None:
        rows, counts = np.empty((0, 0), np.int32), np.empty(0, np.int64)
        return rows, counts, rows, counts, counts
    return (
        given.positions,
        given.multiplicity,
        np.ascontiguousarray(given.us_positions.T),
        given.us_multiplicity,
        given.us_columns,
    )
