"""What the sampler of a mixture works on: prior, units, points of a chain, draws kept."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints


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
        """Disjoint boxes of levels (B, D), of which there may be none."""
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
            narrow=np.array(narrow, dtype=bool),
            ptr=np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64),
            rows=np.concatenate([np.empty(0, np.int64), *sets]),
        )

    @property
    def arrays(self) -> tuple[Flags, Ints, Flags, Ints, Ints]:
        """The tuple that compiled loops take."""
        return self.boxes, self.of, self.narrow, self.ptr, self.rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prior:
    """Hyper-parameters and layout of a mixture of levels, counts and reals.

    Attributes
    ----------
    n_classes : int
    concentration : tuple of two floats
        Shape and rate of the gamma prior of the concentration.
    level : float
        Every entry of the Dirichlet prior of level probabilities.
    starts : ndarray of int, shape (q + 1,)
        Where the levels of each column of levels begin among the rows of phi; see `families.py`.
    swaps : bool
        Whether a sweep also tries to swap neighbouring classes.
    splits : int
        How often a sweep tries to split or merge classes.
    zeros : ZeroLayout, or None
        Combinations of levels that are impossible.
    shape, rate : ndarray, shape (p,)
        Gamma prior of the rates of each count.
    inflation : tuple of two floats, or None
        Beta prior of the chance of a structural zero of a count; None: there are none.
    reals : ndarray, shape (r, 4)
        m, kappa, a, b of the normal-gamma prior of each real.
    """

    n_classes: int
    concentration: tuple[float, float]
    level: float
    starts: Ints
    swaps: bool = True
    splits: int = 0
    zeros: ZeroLayout | None = None
    shape: Array = field(default_factory=lambda: np.empty(0))
    rate: Array = field(default_factory=lambda: np.empty(0))
    inflation: tuple[float, float] | None = None
    reals: Array = field(default_factory=lambda: np.empty((0, 4)))

    @property
    def width(self) -> int:
        """Number of rows D of phi, the padding row included."""
        return int(self.starts[-1]) + 1

    @property
    def n_counts(self) -> int:
        """Number p of counts."""
        return len(self.shape)

    @property
    def n_reals(self) -> int:
        """Number r of reals."""
        return len(self.reals)

    @property
    def n_numbers(self) -> int:
        """Number p + r of counts and reals."""
        return self.n_counts + self.n_reals

    @property
    def n_sums(self) -> int:
        """Number of rows of the sums M."""
        return self.width + 2 * self.n_counts + self.n_reals

    @property
    def layout(self) -> tuple[Any, ...]:
        """What compiled loops of numbers take of it; see `families.py`."""
        beta = np.array(self.inflation or (1.0, 1.0))
        inflated = self.inflation is not None
        return self.starts, self.level, self.shape, self.rate, inflated, beta, self.reals


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Units:
    """What the sampler sees: individuals that share one class label, equal ones drawn together.

    A record is a unit; a record that is linked to its own synthetic values is one unit with both.

    Attributes
    ----------
    positions : ndarray of int, shape (U, w)
        Rows of phi of levels; the padding row where a unit says nothing.
    multiplicity : ndarray of int, shape (U,)
    unit : ndarray of int, shape (n,)
        Unit of each record's own values; -1 for a record that is left out.
    given : Given, or None
        Of releases synthesised given columns that stay: their units, and what divides them.
    power : ndarray, shape (U,), or None
        Record weights, powers of a pseudo-posterior; None: all 1.
    counts, exposure : ndarray, shape (U, c)
        Column j is of count j % p; both 0: says nothing.
    reals : ndarray, shape (U, v)
        Column j is of real j % r; NaN: says nothing.
    """

    positions: npt.NDArray[np.int32]
    multiplicity: Ints
    unit: Ints
    given: "Given | None" = None
    power: Array | None = None
    counts: Array = field(default_factory=lambda: np.empty((0, 0)))
    exposure: Array = field(default_factory=lambda: np.empty((0, 0)))
    reals: Array = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def has_numbers(self) -> bool:
        """Whether there are columns other than levels."""
        return bool(self.counts.shape[1] + self.reals.shape[1])

    @property
    def data(self) -> tuple[npt.NDArray[Any], ...]:
        """Levels, counts, exposures and reals, as compiled loops take them."""
        U = len(self.multiplicity)
        nothing = np.empty((U, 0))
        if not self.has_numbers:
            return self.positions, nothing, nothing, nothing
        return self.positions, self.counts, self.exposure, self.reals

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Data, multiplicities and powers (none: all 1)."""
        power = np.empty(0) if self.power is None else self.power
        return self.data, self.multiplicity, power

    def only(self, which: npt.NDArray[np.integer]) -> "Units":
        """Some of the units, once each; records are forgotten."""
        data = self.data
        return Units(
            positions=data[0][which],
            counts=data[1][which],
            exposure=data[2][which],
            reals=data[3][which],
            multiplicity=np.ones(len(which), np.int64),
            unit=np.arange(len(which)),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Given:
    """Synthetic rows drawn from p(Z_i | y_us,i, theta): rows, and what divides their density.

    ``rows``: (y_us, Z); ``parts``: unsynthesised values, as often as each divides; ``columns``:
    which of the columns of levels those are, in the order of the positions of ``parts``.
    """

    rows: Units
    parts: Units
    columns: Ints

    @classmethod
    def nothing(cls) -> "Given":
        """No rows."""
        none = Units(
            positions=np.empty((0, 0), np.int32),
            multiplicity=np.empty(0, np.int64),
            unit=np.empty(0, np.int64),
        )
        return cls(rows=none, parts=none, columns=np.empty(0, np.int64))

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What compiled loops take: rows, parts, their number and levels (w, V), columns."""
        levels = np.ascontiguousarray(self.parts.positions.T)
        return self.rows.arrays, self.parts.data, self.parts.multiplicity, levels, self.columns


Numbers = tuple[Array, Array, Array]  # counts, exposures, reals of some rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State:
    """One point of a chain.

    Concentration, log(1 - V) (K - 1,), weights (K,), level probabilities (D, K).
    """

    alpha: float
    log_left: Array
    pi: Array
    phi: Array


DRAWN = ("alpha", "log_left", "pi", "phi", "n_occupied")


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
        return Draws(n_chains=n_chains, **{x: getattr(self, x)[which] for x in DRAWN})


def joined(chains: Sequence[Draws]) -> Draws:
    """Chains put after one another."""
    arrays = {x: np.concatenate([getattr(c, x) for c in chains]) for x in DRAWN}
    return Draws(n_chains=sum(c.n_chains for c in chains), **arrays)


def units_of(
    positions: npt.NDArray[np.int32],
    given: Given | None = None,
    left_out: int | None = None,
    power: Array | None = None,
    *,
    numbers: "Numbers | None" = None,
    kept: Flags | None = None,
) -> Units:
    """Distinct rows with their ``power``; a row left out, or not ``kept`` (n,), has unit -1."""
    kept = np.ones(len(positions), dtype=bool) if kept is None else kept.copy()
    if left_out is not None:
        kept[left_out] = False
    blocks = [positions, *(numbers or ()), *(() if power is None else (power[:, None],))]
    keys = positions if len(blocks) == 1 else np.hstack(blocks)
    rows, found, n = np.unique(keys[kept], axis=0, return_inverse=True, return_counts=True)
    unit = np.full(len(positions), -1, dtype=np.int64)
    unit[kept] = found.reshape(-1)
    ends = np.cumsum([block.shape[1] for block in blocks])
    parts = np.split(rows, ends[:-1], axis=1)
    more = {}
    if numbers is not None:
        names = ("counts", "exposure", "reals")
        more = {name: np.ascontiguousarray(x) for name, x in zip(names, parts[1:4], strict=True)}
    return Units(
        positions=np.ascontiguousarray(parts[0], dtype=np.int32),
        multiplicity=n.astype(np.int64),
        unit=unit,
        given=given,
        power=None if power is None else parts[-1][:, 0].copy(),
        **more,
    )


def n_normalised(units: Units) -> int:
    """How many factors 1 / (1 - pi_0) the data bring: one for each row of the table.

    Rows left out whose unsynthesised values are known show as synthetic rows without divisor.
    """
    total = int(units.multiplicity.sum())
    if units.given is not None:
        rows, parts = units.given.rows, units.given.parts
        total += int(rows.multiplicity.sum() - parts.multiplicity.sum())
    return total


def sampled(units: Units, prior: Prior) -> tuple[Any, ...]:
    """What the compiled loop takes: units, what is drawn given others, structural zeros."""
    given = None if units.given is None else units.given.arrays
    return units.arrays, given, None if prior.zeros is None else prior.zeros.arrays
