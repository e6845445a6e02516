"""What the released files show about a record and a guess: counts, links, leaves, densities.

A feature is a number for each guess of a record. It rests on what the intruder has: the released
files Z, every other record y_-i, the known values of the record, and the guess. Nothing here looks
at the record's own guessed values.

Counts are the backbone. For a set Q of columns, z and k are the rows of a released file and of
y_-i that agree with the known values and the guess on Q. A generator that draws from frequencies
with a Dirichlet(a) prior has the log evidence ``log1p(z / (k + a))``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk.data.microdata import Codes, Microdata

from .predictives import CheapModel, predictive_ratio, predictives_of
from .trees import Outcome, PlacedGuesses, Predictors, axes, trees_with_guesses

A = 0.1, 0.5, 2.0  # added to counts: for rare cells, and for common ones
BINS = 8  # of a number that stands in a context
CHAIN = 0, 1, 2, 3  # columns in a context: those that tell most of the guessed one; and all
WIDTHS = 0.05, 0.3  # of windows around a number, in its spread
COPIED = 0.1, 0.4, 2.0  # odds of a copy of the record's own value
TREES = 6  # guessed columns that trees are grown for, at most
SIZES = 2, 3, 5, 7, 10, 15, 20, 30, 50  # rows in a leaf, at least
LARGEST = 2**40  # numbers of contexts; beyond it they are counted anew
MOST = 20.0  # of the evidence under a model


class Made(NamedTuple):
    """Features (U, G, d), which are log evidence (d,) of some model; share of copies (U, G)."""

    features: Array
    evidence: Flags
    exact: Array


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """How features are made in one audit; the same for its runs and for the real release.

    ``guessed`` (q,): columns that are guessed. ``linked``: whether row i of Z is record i.
    ``edges``: of each number, the edges of the bins that it has in a context. ``order``: of each
    guessed column, the other columns, that which tells most of it first. ``spread``: of each
    number, the distance between its 5 % and its 95 % quantile. ``sizes``: of each guessed column,
    the least number of records in a leaf.
    """

    microdata: Microdata
    guessed: Ints
    linked: bool
    edges: dict[int, Array]
    order: dict[int, list[int]]
    spread: dict[int, float]
    sizes: dict[int, int] = field(default_factory=dict)
    predictives: list[tuple[str, CheapModel]] = field(default_factory=list)

    @classmethod
    def of(
        cls, microdata: Microdata, guessed: Ints, *, linked: bool, whole: bool = True
    ) -> "Features":
        """Read off the confidential table, once.

        ``whole``: no record is left out; how many are, predictives would tell.
        """
        y, p = microdata.codes.astype(float), len(microdata.columns)
        numbers = [j for j in range(p) if microdata.n_levels[j] == 0]
        quantiles = np.arange(1, BINS) / BINS
        edges = {j: np.unique(np.quantile(y[:, j], quantiles)) for j in numbers}
        ends = {j: np.quantile(y[:, j], [0.05, 0.95]) for j in numbers}
        spread = {j: float(np.ptp(end)) or float(np.ptp(y[:, j])) or 1.0 for j, end in ends.items()}
        bins = _binned(y, edges)
        order = {int(j): _associated(bins, int(j)) for j in guessed}
        found = cls(microdata, guessed, linked, edges, order, spread)
        models = predictives_of(y, microdata.n_levels, guessed, order) if whole else []
        found.predictives.extend(models)
        return found

    def made(
        self, y: Codes, Z: Codes, rows: Ints, guesses: Codes, present: Flags | None = None
    ) -> "Made":
        """Features of guesses (G, U, q) for rows (U,) of y (n, p), given Z (m, N, p).

        ``present`` (n,): which rows of y the table holds; all of them by default.
        """
        look = _Look.of(self, y, Z, rows, guesses, present)
        found: dict[tuple[str, Any], Array] = {}
        for name, value in self._each(look):
            found[name] = found[name] + value if name in found else value
        known = np.array([kind != "own distance" for kind, _ in found])
        return Made(np.stack(list(found.values()), axis=-1), known, self._exact(look))

    def with_sizes(self, y: Codes, Z: Codes) -> "Features":
        """With the sizes of leaves that make the files of a run most likely."""
        look = _Look.of(self, y, Z, np.arange(1), y[:1, self.guessed][None])
        none = np.zeros(0), np.zeros(0, dtype=np.int64)
        for j in map(int, self.guessed[:TREES]):
            if known := [k for k in self.order[j] if k not in self.guessed]:
                likely = [float(self._grown(look, j, known, s, *none)[2][0]) for s in SIZES]
                self.sizes[j] = SIZES[int(np.argmax(likely))]
        return self

    def copies(self, y: Codes, Z: Codes, rows: Ints, guesses: Codes) -> Array:
        """Share of the files with an exact copy of a record with a guess, (U, G)."""
        return self._exact(_Look.of(self, y, Z, rows, guesses))

    def _exact(self, look: "_Look") -> Array:
        """The record's own row; where rows are no record's, a row that is no other record's."""
        if self.linked:
            own = look.Z[:, look.rows][:, :, None, self.guessed] == look.W[..., self.guessed]
            return np.asarray(own.all(axis=3).mean(axis=0))
        j = int(self.guessed[0])
        z, k = next(look.counts(j, look.of_columns(self.order[j]), [0.0]))
        return np.asarray(((z > 0) & (k == 0)).mean(axis=0))

    def _each(self, look: "_Look") -> Iterator[tuple[tuple[str, Any], Array]]:
        """Parts of features by name; those of one name are added."""
        for j in map(int, self.guessed):
            others = self.order[j]
            for t in sorted({*(t for t in CHAIN if t < len(others)), len(others)}):
                equal = [0.0] * (j in self.spread and t in (0, len(others)))
                widths = equal + self._widths(j)
                counts = look.counts(j, look.of_columns(others[:t]), widths)
                yield from _logs(f"chain {t}", widths, counts)
            known = [k for k in others if k not in self.guessed]
            if j in self.guessed[:TREES] and known:
                yield from self._in_trees(look, j, known)
        for name, model in self.predictives:
            found = predictive_ratio(model, look.y, look.Z, look.W, look.rows)
            yield ("predictive", name), np.clip(found, -MOST, MOST)
        if self.linked:
            yield from self._own(look)

    def _widths(self, j: int) -> list[float]:
        return [0.0] if j not in self.spread else [w * self.spread[j] for w in WIDTHS]

    def _in_trees(
        self, look: "_Look", j: int, others: Sequence[int]
    ) -> Iterator[tuple[tuple[str, Any], Array]]:
        """In trees with a guess in place: the likelihood of Z, and the same counts in leaves."""
        shape, widths, guess = look.W.shape[:2], self._widths(j), look.W[..., j].ravel()
        record = np.repeat(look.rows, shape[1])
        k, z, log_p = self._grown(look, j, others, self.sizes[j], guess, record)
        k, z = k.reshape(*shape, -1), z.reshape(len(z), *shape, len(widths))
        yield from _logs("tree", widths, [(z[..., w], k[..., w]) for w in range(len(widths))])
        log_p = log_p.reshape(shape)
        yield ("tree", "files"), np.maximum(log_p - log_p.max(axis=1, keepdims=True), -20.0)

    def _grown(
        self, look: "_Look", j: int, others: Sequence[int], size: int, guess: Array, record: Ints
    ) -> tuple[Array, Array, Array]:
        """Rows near each guess (Q,) in its leaf, and likelihoods; of no guess, that of y's tree."""
        of_y, of_Z = (
            np.ascontiguousarray(x[..., others]).reshape(-1, len(others))
            for x in (look.bins.y, look.bins.Z)
        )
        d = 1 + np.maximum(of_y.max(axis=0), of_Z.max(axis=0))
        ordered = np.array([k in self.edges for k in others]) | (d < 3)
        y, Z = look.y[:, j].copy(), look.Z[..., j].ravel()  # in one layout: compiled once
        parts = [(v.astype(np.int64), np.ones(len(v))) for v in (y, Z, guess)]
        if j in self.spread:
            parts = [(np.zeros(len(v), dtype=np.int64), v - y.mean()) for v in (y, Z, guess)]
        outcome = Outcome(*parts[0], *parts[1], 1 + max(int(of.max(initial=0)) for of, _ in parts))
        predictors, widths = Predictors(of_y, of_Z, d, ordered), np.array(self._widths(j))
        file, near = np.repeat(np.arange(len(look.Z)), look.Z.shape[1]), guess[:, None]
        bounds = np.stack([near - widths, near + widths])
        lines = np.argsort(y, kind="stable"), np.lexsort((Z, file)), y, Z, bounds
        Q, W = len(guess), len(widths)
        out = np.zeros((Q, W)), np.zeros((len(look.Z), Q, W)), np.zeros(max(Q, 1))
        of: Any = predictors, axes(predictors, outcome), outcome, PlacedGuesses(record, *parts[2])
        trees_with_guesses(*of, size, lines, out)
        return out

    def _own(self, look: "_Look") -> Iterator[tuple[tuple[str, Any], Array]]:
        """What the record's own row of Z shows."""
        every = np.ones((look.Z.shape[0], *look.W.shape[:2]), dtype=bool)
        for j in map(int, self.guessed):
            apart = np.abs(look.Z[:, look.rows, j][:, :, None] - look.W[None, :, :, j])
            every &= apart == 0
            widths = [0.0] * (j in self.spread) + self._widths(j)
            for w, (_, k) in zip(widths, look.counts(j, look.of_columns(()), widths), strict=True):
                for odds in COPIED:
                    over = odds * len(look.y) / (k + 1.0)  # over a value drawn from the others
                    yield ("own", (w, odds)), np.log1p(over * (apart <= w)).sum(axis=0)
            if j in self.spread:
                scaled = np.minimum(apart / self.spread[j], 3.0)
                yield ("own distance", 0), -scaled.sum(axis=0)
        if len(self.guessed) > 1:
            yield ("own", "all"), every.sum(axis=0).astype(float)


class _Split(NamedTuple):
    """Numbers of the context that each row is in: of Z (m, N), of y (n,), of guesses (U, G)."""

    Z: Ints
    y: Ints
    W: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """Tables at hand: y (n, p), Z (m, N, p), rows with guesses in place W (U, G, p); and bins."""

    y: Array
    Z: Array
    W: Array
    rows: Ints
    present: Flags  # (n,): which rows of y the table holds
    bins: _Split  # of all columns, with a last axis p
    kept: dict[Any, Any] = field(default_factory=dict)  # places that were found

    @classmethod
    def of(
        cls,
        how: Features,
        y: Codes,
        Z: Codes,
        rows: Ints,
        guesses: Codes,
        present: Flags | None = None,
    ) -> "_Look":
        there = np.ones(len(y), dtype=bool) if present is None else present
        W = np.repeat(y[rows].astype(float)[:, None], len(guesses), axis=1)
        W[:, :, how.guessed] = guesses.swapaxes(0, 1)
        each = [np.asarray(a, dtype=float) for a in (y, Z, W)]
        bins = [_binned(a, how.edges) for a in each]
        return cls(each[0], each[1], each[2], rows, there, _Split(bins[1], bins[0], bins[2]))

    def of_columns(self, columns: Sequence[int]) -> _Split:
        """Contexts: combinations of values, or of bins, of columns."""
        found = _Split(*(np.zeros(bins.shape[:-1], dtype=np.int64) for bins in self.bins))
        size = 1
        for j in columns:
            levels = 1 + max(int(bins[..., j].max(initial=0)) for bins in self.bins)
            if size * levels > LARGEST:
                found, size = _renumbered(found)
            found = _Split(
                *(of * levels + bins[..., j] for of, bins in zip(found, self.bins, strict=True))
            )
            size *= levels
        return found if size * (len(self.y) + self.Z.size) < 2**62 else _renumbered(found)[0]

    def counts(
        self, j: int, contexts: _Split, widths: Sequence[float]
    ) -> Iterator[tuple[Array, Array]]:
        """Rows of each file (m, U, G) and of y_-i (U, G) near a guess, within its context."""
        there = self.present[self.rows][:, None]
        for width in widths:
            M, y, Z, *ends = self._places(j, width)
            low, high = (contexts.W * M + end for end in ends)
            order, of_y = np.argsort(low, axis=None), contexts.y * M + y
            lines = of_y[self.present], *(contexts.Z * M + Z)
            k, *z = (_between(np.sort(line), low, high, order) for line in lines)
            own = of_y[self.rows][:, None]
            yield np.stack(z), k - (there & (own >= low) & (own < high))

    def _places(self, j: int, width: float) -> Any:
        """One more than the values of a column; ranks of y, of Z, of the ends around guesses."""
        if (j, width) not in self.kept:
            y, Z, W = (table[..., j] for table in (self.y, self.Z, self.W))
            line = np.unique(np.concatenate([y, Z.ravel()]))
            at: Any = (y, "left"), (Z, "left"), (W - width, "left"), (W + width, "right")
            ranks = (np.searchsorted(line, value, side) for value, side in at)
            self.kept[j, width] = len(line) + 1, *ranks
        return self.kept[j, width]


def _logs(
    kind: str, widths: Sequence[float], counts: Iterable[tuple[Array, Array]]
) -> Iterator[tuple[tuple[str, Any], Array]]:
    """Features of counts z (m, U, G) and k (U, G), of each width."""
    for w, (z, k) in zip(widths, counts, strict=True):
        for a in A if w == 0.0 else A[-1:]:
            yield (kind, (w, a)), np.log1p(z / (k + a)).sum(axis=0)


def _between(line: Ints, low: Ints, high: Ints, order: Ints) -> Array:
    """How many of a sorted line lie from low up to, but not at, high; ``order``: that of low."""
    out = np.empty(low.shape)  # searches in order are fast
    a, b = (np.searchsorted(line, end.ravel()[order]) for end in (low, high))
    out.ravel()[order] = b - a
    return out


def _renumbered(contexts: _Split) -> tuple[_Split, int]:
    """The same contexts numbered from 0, and how many there are."""
    flat = np.concatenate([one.ravel() for one in contexts])
    names, at = np.unique(flat, return_inverse=True)
    ends = np.cumsum([one.size for one in contexts])
    parts = np.split(at, ends[:-1])
    shaped = (part.reshape(one.shape) for part, one in zip(parts, contexts, strict=True))
    return _Split(*shaped), len(names)


def _binned(table: Array, edges: dict[int, Array]) -> npt.NDArray[np.int64]:
    """Codes of categories, bins of numbers, of a table (..., p)."""
    out = np.zeros(table.shape, dtype=np.int64)
    for j in range(table.shape[-1]):
        if j in edges:
            out[..., j] = np.searchsorted(edges[j], table[..., j])
        else:
            out[..., j] = table[..., j].astype(np.int64)
    return out


def _associated(bins: Ints, j: int) -> list[int]:
    """Other columns by what they tell of column j: mutual information, less its bias."""
    n, information = len(bins), dict[int, float]()
    for k in range(bins.shape[1]):
        if k != j:
            pairs = np.unique(bins[:, [j, k]], axis=0, return_counts=True)[1]
            own, other = (np.unique(bins[:, c], return_counts=True)[1] for c in (j, k))
            entropy = [-(c / n * np.log(c / n)).sum() for c in (own, other, pairs)]
            bias = (len(pairs) - len(own) - len(other) + 1) / (2 * n)
            information[k] = float(entropy[0] + entropy[1] - entropy[2] - bias)
    return sorted(information, key=lambda k: -information[k])
