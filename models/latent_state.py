"""What a latent-class sampler works on: prior, units, points of a chain, draws kept."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prior:
    """Hyper-parameters and layout of a latent-class model.

    ``starts`` (p + 1,) says where the levels of each variable begin in the long row of levels;
    ``swaps`` whether a sweep also tries to swap neighbouring classes.
    """

    n_classes: int
    concentration: tuple[float, float]
    level: float
    starts: Ints
    swaps: bool = True

    @property
    def width(self) -> int:
        """Number of rows D of phi, the padding row included."""
        return int(self.starts[-1]) + 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Units:
    """What the sampler sees: distinct units, their multiplicities, and the unit of each record.

    ``positions`` (U, w) are rows of phi; ``unit`` (n,) finds the unit that record i's own values
    belong to. ``given`` holds, for releases synthesised conditionally on unsynthesised columns, the
    units of those releases and the denominators p(y_us | theta) that go with them.
    """

    positions: npt.NDArray[np.int32]
    multiplicity: Ints
    unit: Ints
    given: "Given | None" = None


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
        n_chains=len(chains),
    )


def units_of(
    positions: npt.NDArray[np.int32],
    given: Given | None = None,
    left_out: int | None = None,
) -> Units:
    """Distinct rows of ``positions``; a row that is left out has unit -1."""
    kept = np.ones(len(positions), dtype=bool)
    if left_out is not None:
        kept[left_out] = False
    rows, found, n = np.unique(positions[kept], axis=0, return_inverse=True, return_counts=True)
    unit = np.full(len(positions), -1, dtype=np.int64)
    unit[kept] = found
    return Units(
        positions=rows.astype(np.int32), multiplicity=n.astype(np.int64), unit=unit, given=given
    )
