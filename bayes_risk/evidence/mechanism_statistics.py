"""What a synthetic file is measured by, and whether released files stand out among simulated ones.

The measures need no density: any model that can synthesise can be checked by them. Files are
compared by a permutation test of the largest standardised difference (Westfall & Young 1993).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.release.release import SAME

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

GROUPS = 10  # of a number, or of the levels of a category, in a table of two columns
DECIMALS = 6  # to which released numbers may have been rounded
SMALLEST_SD = {"count": 1.0, "distance": 0.1, "density": 0.1}  # of the variance-stabilised measures
PERMUTATIONS = 1999
TIES = 1e-9
WITH, ORIGINAL = "with ", ", against the original"


class Measure(NamedTuple):
    """One number of each file: of which column, in words, of which kind (`SMALLEST_SD`)."""

    column: str
    words: str
    kind: str


@dataclass(slots=True)
class Measures:
    """Measures of files, one after the other; tables are kept until all files are there.

    Parameters
    ----------
    data : Microdata
        The original.
    made : list of int
        Numbers of the synthesised columns.
    replaced : ndarray of bool, shape (n,)
        Records whose values were replaced; the others say nothing.
    decimals : mapping of int to int or None
        To how many decimals the released numbers of a column were rounded; None: not at all.

    Notes
    -----
    Of a synthesised column: how far its table lies from the original's, and from the mean of all
    files; of a number besides, how many values are genuine, how many are not, and how many are
    distinct. Of every pair of columns with a synthesised one, how far the table of the two lies
    from the original's and from the mean. Distance of tables a and b: sum of (sqrt a - sqrt b)^2,
    which is a quarter of a chi-square where the tables are of the same distribution (Freeman &
    Tukey 1950). Counts x enter as 2 sqrt(x + 3/8) (Anscombe 1948). Cost: O(n) for each file and
    pair.
    """

    data: Microdata
    made: Sequence[int]
    replaced: Flags
    decimals: dict[int, int | None]
    _cutters: list["_Cutter"] = field(init=False)
    _pairs: list[tuple[int, int]] = field(init=False)
    _counts: list[list[float]] = field(init=False, default_factory=list)
    _tables: list[list[Ints]] = field(init=False, default_factory=list)
    _genuine: dict[int, Array] = field(init=False)

    def __post_init__(self) -> None:
        y = self.data.codes[self.replaced]
        self._cutters = [_Cutter.of(y[:, j], int(d)) for j, d in enumerate(self.data.n_levels)]
        p = len(self._cutters)
        before = {j: self.made[:k] for k, j in enumerate(self.made)}
        self._pairs = [
            (j, other)  # the later one of two that were both synthesised names the pair
            for j in self.made
            for other in range(p)
            if other != j and (other not in self.made or other in before[j])
        ]
        self._genuine = {
            j: np.unique(self._rounded(j, self.data.codes[:, j].astype(float)))
            for j in self.made
            if not self.data.n_levels[j]
        }

    def add(self, codes: Codes) -> None:
        """Measure a file, shape (n, p)."""
        z = codes[self.replaced]
        self._tables.append(self._tables_of(z))
        self._counts.append([x for j in self._genuine for x in self._counted(j, z[:, j])])

    def found(self) -> tuple[list[Measure], Array]:
        """All measures, and their values, shape (files, measures)."""
        original = self._tables_of(self.data.codes[self.replaced])
        names, values = self._names(), []
        for t, whole in enumerate(original):
            files = np.stack([tables[t] for tables in self._tables]).astype(float)
            for centre in (whole, files.mean(axis=0)):
                values.append(((np.sqrt(files) - np.sqrt(centre)) ** 2).sum(axis=1))
        counts = np.array(self._counts).reshape(len(self._tables), -1)
        return names, np.column_stack([*values, 2 * np.sqrt(counts + 0.375)])

    def _names(self) -> list[Measure]:
        columns = self.data.columns
        found = []
        for j, other in [*((j, -1) for j in self.made), *self._pairs]:
            what = "values" if other < 0 else f"{WITH}{columns[other]}"
            found += [Measure(columns[j], what + of, "distance") for of in (ORIGINAL, "")]
        for j in self._genuine:
            for words in ("genuine values", "values that nobody has", "distinct values"):
                found.append(Measure(columns[j], words, "count"))
        return found

    def _tables_of(self, codes: Codes) -> list[Ints]:
        fine = {j: self._cutters[j].fine(codes[:, j]) for j in self.made}
        coarse = [cutter.coarse(codes[:, j]) for j, cutter in enumerate(self._cutters)]
        size = [cutter.n_coarse for cutter in self._cutters]
        one = [np.bincount(fine[j], minlength=self._cutters[j].n_fine) for j in self.made]
        two = [
            np.bincount(coarse[a] * size[b] + coarse[b], minlength=size[a] * size[b])
            for a, b in self._pairs
        ]
        return one + two

    def _counted(self, j: int, values: Codes) -> list[float]:
        numbers = self._rounded(j, values.astype(float))
        genuine = int(_among(numbers, self._genuine[j]).sum())
        return [genuine, len(numbers) - genuine, len(np.unique(numbers))]

    def _rounded(self, j: int, numbers: Array) -> Array:
        """As released: a model's numbers have more decimals than a file that was written."""
        decimals = self.decimals.get(j)
        return numbers if decimals is None else np.round(numbers, decimals)


class _Cutter(NamedTuple):
    """Cells of a column: all its levels, or tenths of a number; and at most `GROUPS` of them."""

    edges: Array | None
    group: Ints
    n_fine: int
    n_coarse: int

    @classmethod
    def of(cls, y: Codes, levels: int) -> "_Cutter":
        if not levels:
            edges = np.unique(np.quantile(y.astype(float), np.arange(1, GROUPS) / GROUPS))
            return cls(edges, np.arange(len(edges) + 1), len(edges) + 1, len(edges) + 1)
        counts = np.bincount(y.astype(np.int64), minlength=levels)
        rank = np.empty(levels, dtype=np.int64)
        rank[np.argsort(-counts, kind="stable")] = np.arange(levels)
        return cls(None, np.minimum(rank, GROUPS - 1), levels, min(levels, GROUPS))

    def fine(self, values: Codes) -> Ints:
        """Cell of each value."""
        if self.edges is None:
            return values.astype(np.int64)
        return np.searchsorted(self.edges, values.astype(float))

    def coarse(self, values: Codes) -> Ints:
        """Group of each value, the rarest levels together."""
        return self.group[self.fine(values)]


def decimals_of(numbers: Array) -> int | None:
    """The fewest decimals that numbers are written with; None: more than `DECIMALS`."""
    for d in range(DECIMALS + 1):
        if np.array_equal(np.round(numbers, d), numbers):
            return d
    return None


def _among(numbers: Array, genuine: Array) -> Flags:
    """Whether each number is one of the sorted ones, but for what a text file may lose."""
    at = np.searchsorted(genuine, numbers)
    near = np.stack([genuine[np.maximum(at - 1, 0)], genuine[np.minimum(at, len(genuine) - 1)]])
    same = np.abs(near - numbers) <= SAME * np.abs(numbers)
    return np.asarray(same[0] | same[1])


def stands_out(
    values: Array, smallest_sd: Array, m: int, *, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Whether the first m of N exchangeable files differ from the others: by how much, how surely.

    Of measure k, with mean and standard deviation of the other files,

        D_k = |mean_first - mean_others| / (sd_others sqrt(1 / m + 1 / (N - m))),

    and its p-value is how often, over choices of m files among the N, the largest D of all measures
    is as large as D_k: adjusted for all measures at once, exact if files are exchangeable.

    Parameters
    ----------
    values : ndarray, shape (N, K)
    smallest_sd : ndarray, shape (K,)
        Standard deviations are not taken smaller than this.
    m : int
    rng : Generator
        Draws `PERMUTATIONS` choices; for m = 1 all N are looked at.

    Returns
    -------
    tuple of ndarray, shape (K,)
        D, and p-values; the least of these is the p-value of the whole.
    """
    N = len(values)
    x = values - np.median(values, axis=0)
    if m == 1:
        chosen = np.eye(N)
    else:
        chosen = np.zeros((PERMUTATIONS + 1, N))
        chosen[0, :m] = 1.0
        for row in chosen[1:]:
            row[rng.choice(N, size=m, replace=False)] = 1.0
    ours, square = chosen @ x, chosen @ x**2
    others = (x.sum(axis=0) - ours) / (N - m)
    variance = ((x**2).sum(axis=0) - square - (N - m) * others**2) / (N - m - 1)
    sd = np.sqrt(np.maximum(variance, smallest_sd**2) * (1 / m + 1 / (N - m)))
    D = np.abs(ours / m - others) / sd
    largest = D.max(axis=1)
    p = (largest[:, None] >= D[0] * (1 - TIES)).mean(axis=0)
    return D[0], p
