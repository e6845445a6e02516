"""What the sampler of a mixture works on: prior, units, points of a chain, draws kept."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.matching import distinct_rows

from .kernel_arguments import FamilyLayout


class ZeroLayout(NamedTuple):
    """Structural zeros as kernels take them: disjoint boxes of levels, their sides shared."""

    starts: Ints
    boxes: Flags  # (B, D): flags of rows of phi
    of: Ints  # (B, p): side of each box in each variable
    narrow: Flags  # (F,): whether a side leaves out any level
    ptr: Ints  # its levels are rows[ptr[f]:ptr[f + 1]]
    rows: Ints

    @classmethod
    def of_boxes(cls, boxes: Flags, starts: Ints) -> "ZeroLayout":
        """Disjoint boxes of levels (B, D), of which there may be none."""
        of = np.empty((len(boxes), len(starts) - 1), np.int64)
        sets: list[Ints] = []
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prior:
    """Hyper-parameters and layout of a mixture of levels, counts and reals."""

    n_classes: int
    concentration: tuple[float, float]  # shape and rate of its gamma prior
    level: float  # every entry of the Dirichlet prior of level probabilities
    starts: Ints  # (q + 1,): where the levels of each column begin in phi
    swaps: bool = True  # whether a sweep tries to swap neighbouring classes
    splits: int = 0  # how often it tries to split or merge some
    zeros: ZeroLayout | None = None  # combinations of levels that are impossible
    # (p,), as rate: of the gamma prior of each count's rates
    shape: Array = field(default_factory=lambda: np.empty(0))
    rate: Array = field(default_factory=lambda: np.empty(0))
    inflation: tuple[float, float] | None = None  # beta prior of the chance of a structural zero
    # (r, 4): m, kappa, a, b of each real
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
    def layout(self) -> FamilyLayout:
        """What compiled loops take of it."""
        beta = np.array(self.inflation or (1.0, 1.0))
        inflated, shape, rate = self.inflation is not None, self.shape, self.rate
        return FamilyLayout(self.starts, self.level, shape, rate, inflated, beta, self.reals)


class LevelRows(NamedTuple):
    """Values of rows that have levels alone, as rows of phi (n, q)."""

    positions: npt.NDArray[np.int32]


class Rows(NamedTuple):
    """Values of n rows; not told are the padding row, exposure 0, or NaN.

    Of several values of a number, column j is of count j % p, or of real j % r.
    """

    positions: npt.NDArray[np.int32]  # (n, q): levels as rows of phi
    counts: Array  # (n, p), as exposure
    exposure: Array
    reals: Array  # (n, r)

    def take(self, which: npt.NDArray[Any]) -> "Rows":
        """Some of the rows."""
        return Rows(*(x[which] for x in self))

    def below(self, *others: "Rows") -> "Rows":
        """These and other rows below one another."""
        return Rows(*(np.vstack(parts) for parts in zip(self, *others, strict=True)))

    def beside(self, other: "Rows", made: Flags) -> "Rows":
        """Two values of every number, and of the levels that are ``made`` (V,)."""
        levels = made[len(made) - other.positions.shape[1] :]
        right = other._replace(positions=other.positions[:, levels])
        pairs: Any = zip(self, right, strict=True)
        return Rows(*(np.hstack(pair) for pair in pairs))

    def without(self, hidden: Flags, padding: int) -> "Rows":
        """The same, the ``hidden`` (n, V) or (V,) values not told."""
        p, r = self.counts.shape[1], self.reals.shape[1]
        hidden = np.broadcast_to(hidden, (len(self.positions), p + r + self.positions.shape[1]))
        return Rows(
            positions=np.where(hidden[:, p + r :], padding, self.positions).astype(np.int32),
            counts=np.where(hidden[:, :p], 0.0, self.counts),
            exposure=np.where(hidden[:, :p], 0.0, self.exposure),
            reals=np.where(hidden[:, p : p + r], np.nan, self.reals),
        )

    @property
    def values(self) -> Array:
        """All values (n, V), levels by their rows of phi; NaN where a number is not told."""
        counts = np.where(self.exposure > 0, self.counts, np.nan)
        return np.hstack([counts, self.reals, self.positions.astype(np.float64)])

    @property
    def has_numbers(self) -> bool:
        """Whether there are columns other than levels."""
        return bool(self.counts.shape[1] + self.reals.shape[1])

    @property
    def arrays(self) -> "Rows | LevelRows":
        """As compiled loops take them: of levels alone no more is compiled."""
        return self if self.has_numbers else LevelRows(self.positions)

    def units(
        self,
        given: "Given | None" = None,
        left_out: int | None = None,
        power: Array | None = None,
        kept: Flags | None = None,
    ) -> "Units":
        """Distinct rows with their ``power``; a row left out, or not ``kept`` (n,), has unit -1."""
        kept = np.ones(len(self.positions), dtype=bool) if kept is None else kept.copy()
        if left_out is not None:
            kept[left_out] = False
        blocks: list[Any] = [*self, np.empty((len(kept), 0)) if power is None else power[:, None]]
        plain = power is None and not self.has_numbers
        keys = self.positions if plain else np.hstack(blocks)
        order = np.arange(keys.shape[1])
        keys = keys[kept]
        if plain:  # few levels first: sorted rows then begin alike most often
            order = np.argsort([np.count_nonzero(np.bincount(x)) for x in keys.T], kind="stable")
        first, found, n = distinct_rows(keys[:, order])
        rows = keys[first]
        unit = np.full(len(kept), -1, dtype=np.int64)
        unit[kept] = found
        ends = np.cumsum([block.shape[1] for block in blocks])
        *parts, powers = np.split(rows, ends[:-1], axis=1)
        typed: Any = zip(parts, blocks, strict=False)
        return Units(
            data=Rows(*(np.ascontiguousarray(x, dtype=old.dtype) for x, old in typed)),
            multiplicity=n,
            unit=unit,
            given=given,
            power=None if power is None else powers[:, 0].astype(np.float64),
            sorted_by=order if plain else None,
        )


class LevelUnits(NamedTuple):
    """U units of levels that count in full, as loops take them: data, ``multiplicity (U,)``."""

    data: LevelRows
    multiplicity: Ints


class NumberUnits(NamedTuple):
    """Units of any families, as loops take them; no ``power (U,)``: all 1."""

    data: Rows
    multiplicity: Ints
    power: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Units:
    """Individuals of one class label, equal ones together; records with what is linked to them."""

    data: Rows  # of U units
    multiplicity: Ints  # (U,)
    unit: Ints  # (n,): of each record's own values; -1: left out
    # of releases given columns that stay: units, and what divides them
    given: "Given | None" = None
    power: Array | None = None  # (U,): record weights; None: all 1
    # (q,): columns of levels that units are sorted by; None: as they stand
    sorted_by: Ints | None = None

    @property
    def in_order(self) -> Rows:
        """Data, columns of levels in the order that they are sorted by: most rows begin alike."""
        if self.sorted_by is None:
            return self.data
        positions = np.ascontiguousarray(self.data.positions[:, self.sorted_by])
        return self.data._replace(positions=positions)

    @property
    def arrays(self) -> LevelUnits | NumberUnits:
        """As compiled loops take them, `in_order`."""
        power, data = np.empty(0) if self.power is None else self.power, self.in_order
        if self.power is None and not data.has_numbers:
            return LevelUnits(LevelRows(data.positions), self.multiplicity)
        # in one order of memory: for each other one everything is compiled anew
        return NumberUnits(Rows(*map(np.ascontiguousarray, data)), self.multiplicity, power)

    def thinned(self, size: int, rng: Rng) -> "Units":
        """About so many individuals, each as likely; all of them where there are no more."""
        total = int(self.multiplicity.sum())
        if total <= size:
            return self
        left = rng.binomial(self.multiplicity, size / total)
        kept = np.flatnonzero(left)
        power = None if self.power is None else self.power[kept]
        return replace(self, data=self.data.take(kept), multiplicity=left[kept], power=power)

    def only(self, which: npt.NDArray[np.integer]) -> "Units":
        """Some of the units, once each; records are forgotten."""
        ones = np.ones(len(which), np.int64)
        return Units(data=self.data.take(which), multiplicity=ones, unit=np.arange(len(which)))


class GivenArrays(NamedTuple):
    """`Given` as loops take it."""

    rows: LevelUnits | NumberUnits
    parts: LevelRows | Rows
    divides: Ints  # (V,): how often each part does
    levels: npt.NDArray[np.int32]  # (w, V)
    columns: Ints  # (w,): which columns these are


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Given:
    """Synthetic rows drawn from p(Z_i | y_us,i, theta): rows, and what divides their density."""

    rows: Units  # (y_us, Z)
    parts: Units  # unsynthesised values, as often as each divides
    columns: Ints  # of levels, in the order of ``parts``

    @property
    def arrays(self) -> GivenArrays:
        """What compiled loops take."""
        data, times = self.parts.data, self.parts.multiplicity
        levels = np.ascontiguousarray(data.positions.T)
        return GivenArrays(self.rows.arrays, data.arrays, times, levels, self.columns)


DRAWN = ("alpha", "log_left", "pi", "phi", "n_occupied")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draws:
    """Kept draws of all chains, chain after chain; one of them is where a chain starts."""

    alpha: Array  # (H,)
    log_left: Array  # (H, K - 1): log(1 - V)
    pi: Array  # (H, K)
    phi: Array  # (H, D, K)
    n_occupied: Ints  # (H,)
    n_chains: int

    def __len__(self) -> int:
        return len(self.alpha)

    @classmethod
    def point(cls, alpha: float, log_left: Array, pi: Array, phi: Array) -> "Draws":
        """One draw."""
        arrays = (np.asarray(x)[None] for x in (alpha, log_left, pi, phi, 1))
        return cls(**dict(zip(DRAWN, arrays, strict=True)), n_chains=1)

    def last(self, chain: int) -> "Draws":
        """Where a chain stopped."""
        return self.take(np.array([(chain + 1) * (len(self) // self.n_chains) - 1]), 1)

    def chains(self) -> list["Draws"]:
        """The chains, one by one."""
        size = len(self) // self.n_chains
        return [self.take(np.arange(c * size, (c + 1) * size), 1) for c in range(self.n_chains)]

    def take(self, which: npt.NDArray[np.integer], n_chains: int) -> "Draws":
        """Some of the draws."""
        return Draws(n_chains=n_chains, **{x: getattr(self, x)[which] for x in DRAWN})


def joined_chains(chains: Sequence[Draws]) -> Draws:
    """Chains put after one another."""
    arrays = {x: np.concatenate([getattr(c, x) for c in chains]) for x in DRAWN}
    return Draws(n_chains=sum(c.n_chains for c in chains), **arrays)


def n_normalised(units: Units) -> int:
    """How many factors 1 / (1 - pi_0) the data bring: one for each row of the table."""
    total = int(units.multiplicity.sum())
    if units.given is not None:
        rows, parts = units.given.rows, units.given.parts
        total += int(rows.multiplicity.sum() - parts.multiplicity.sum())
    return total


def sampled(units: Units, prior: Prior) -> tuple[Any, ...]:
    """What the compiled loop takes: units, what is drawn given others, structural zeros."""
    given = None if units.given is None else units.given.arrays
    return units.arrays, given, prior.zeros
