"""What the released files show about a record and a guess: counts, trees, predictives, copies.

A feature is a number for each guess of a record. It rests on what the intruder has: the released
files Z, every other record y_-i, the known values of the record, and the guess. Nothing here looks
at the record's own guessed values.

Tallies are the backbone. For a set Q of columns, z and k are the rows of a released file and of
y_-i that agree with the known values and the guess on Q; their evidence is that of a law (`laws`).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk.data.microdata import Codes, Microdata

from .laws import Law, Tallies, likeliest_law, likeliest_odds
from .predictives import CheapModel, predictive_ratio, predictives_of
from .trees import Outcome, PlacedGuesses, Predictors, axes, trees_with_guesses

BINS = 8  # of a number that stands in a context
CHAIN = 0, 1, 2, 3  # columns in a context: those that tell most of the guessed one; and all
WINDOW = 0.05  # around a number, in its spread
NOISE = 0.02, 0.05, 0.15, 0.4  # of a copied number, in its spread
TREES = 6  # guessed categories that trees are grown for, at most
LAWS = [Law(a, drawn) for a in (0.1, 0.02, 0.004, 0.5) for drawn in (True, False)]  # in leaves
SIZES = 2, 3, 5, 7, 10, 15, 20, 30, 50  # rows in a leaf, at least
LARGEST = 2**40  # numbers of contexts; beyond it they are counted anew
ALONE = 4.0  # evidence of a number in a file that no other record has
MOST = 20.0  # of the evidence under a model


class Made(NamedTuple):
    """Features (U, G, d), each log evidence under some model; share of copies (U, G).

    ``behind`` (d,): how much less likely files are under trees, if they are, than under a law.
    """

    features: Array
    exact: Array
    behind: Array


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """How features are made in one audit; the same for its runs and for the real release.

    ``guessed`` (q,): columns that are guessed. ``linked``: whether row i of Z is record i.
    ``edges``: of each number, the edges of the bins that it has in a context. ``order``: of each
    guessed column, the other columns, that which tells most of it first. ``spread``: of each
    number, the distance between its 5 % and its 95 % quantile. Learnt from runs: ``laws`` of what
    is counted, ``odds`` of copies, ``leaves`` of trees; who is ``behind``, see `Made`.
    """

    microdata: Microdata
    guessed: Ints
    linked: bool
    edges: dict[int, Array]
    order: dict[int, list[int]]
    spread: dict[int, float]
    leaves: dict[int, tuple[int, float, bool]] = field(default_factory=dict)
    laws: dict[tuple[int, int, float], Law] = field(default_factory=dict)
    behind: dict[tuple[Any, ...], float] = field(default_factory=dict)
    odds: dict[tuple[int, float], float] = field(default_factory=dict)
    predictives: list[tuple[str, list[CheapModel]]] = field(default_factory=list)

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
        found: dict[tuple[Any, ...], Array] = {}
        for name, value in self._each(look):
            found[name] = found[name] + value if name in found else value
        behind = np.array([self.behind.get(name, 0.0) for name in found])
        return Made(np.stack(list(found.values()), axis=-1), self._exact(look), behind)

    def learn(self, tables: Sequence[tuple[Codes, Codes]]) -> None:
        """Laws, odds and leaves that make the files Z of runs, of tables y, likeliest."""
        laws, odds = defaultdict[Any, list[Tallies]](list), defaultdict[Any, list[Array]](list)
        for y, Z in tables:
            look = _Look.of(self, y, Z, np.arange(len(y)), y[:, self.guessed][None])
            for key, context, w in self._contexts(look):
                laws[key] += look.cells(key[0], context, w, int(self.microdata.n_levels[key[0]]))
            for copy, ratio in self._own(look):
                odds[copy].append(ratio.ravel())
        likely = {key: likeliest_law(each) for key, each in laws.items()}
        self.laws.update({key: law for key, (law, _) in likely.items()})
        found = [(*likeliest_odds(np.concatenate(each)), key) for key, each in odds.items()]
        best = {(j, noise > 0): ((j, noise), c) for _, c, (j, noise) in sorted(found)}
        self.odds.update(best.values())  # of several noises, the likeliest
        looks = [_Look.of(self, y, Z, np.arange(0), y[:0, self.guessed][None]) for y, Z in tables]
        none: tuple[Array, Ints] = np.zeros(0), np.arange(0)
        for j, known in self._with_trees():
            rules = [(size, *LAWS[0]) for size in SIZES]
            for _ in range(2):
                grown = [self._grown(looks[0], j, known, rule, *none)[0] for rule in rules]
                self.leaves[j] = rules[int(np.argmax(grown))]
                rules = [(self.leaves[j][0], *law) for law in LAWS]
            grown = [self._grown(look, j, known, self.leaves[j], *none)[0] for look in looks]
            chains = max(log_p for key, (_, log_p) in likely.items() if key[0] == j)
            self.behind["tree",] = self.behind.get(("tree",), 0.0) + max(chains - sum(grown), 0.0)

    def _with_trees(self) -> Iterator[tuple[int, list[int]]]:
        """Guessed categories, and what is known of them."""
        for j in [j for j in map(int, self.guessed) if j not in self.spread][:TREES]:
            if known := [k for k in self.order[j] if k not in self.guessed]:
                yield j, known

    def _contexts(self, look: "_Look") -> Iterator[tuple[tuple[int, int, float], "_Split", float]]:
        """Guessed column, number of columns in the context, window; context, width."""
        for j in map(int, self.guessed):
            others, number = self.order[j], j in self.spread
            for t in sorted(
                {min(t, len(others)) for t in (*CHAIN[: 1 if number else None], len(others))}
            ):
                context = look.of_columns(others[:t])
                yield (j, t, 0.0), context, 0.0
                if number and not t:
                    yield (j, t, WINDOW), context, WINDOW * self.spread[j]

    def copies(self, y: Codes, Z: Codes, rows: Ints, guesses: Codes) -> Array:
        """Share of the files with an exact copy of a record with a guess, (U, G)."""
        return self._exact(_Look.of(self, y, Z, rows, guesses))

    def _exact(self, look: "_Look") -> Array:
        """The record's own row; where rows are no record's, a row that is no other record's."""
        if self.linked:
            own = look.Z[:, look.rows][:, :, None, self.guessed] == look.W[..., self.guessed]
            return np.asarray(own.all(axis=3).mean(axis=0))
        j = int(self.guessed[0])
        z, k = look.counts(j, look.of_columns(self.order[j]), 0.0)
        return np.asarray(((z > 0) & (k == 0)).mean(axis=0))

    def _each(self, look: "_Look") -> Iterator[tuple[tuple[Any, ...], Array]]:
        """Parts of features by name; those of one name are added."""
        for key, context, w in self._contexts(look):
            z, k = look.counts(key[0], context, w)
            yield ("chain", *key[1:]), self.laws[key].evidence(k, z)
            if key[0] in self.spread and key[1:] == (0, 0.0):
                yield ("alone",), ALONE * ((z > 0) & (k == 0)).sum(axis=0)
        for j, known in self._with_trees():
            guess, record = look.W[..., j], np.repeat(look.rows, look.W.shape[1])
            log_p = self._grown(look, j, known, self.leaves[j], guess.ravel(), record)
            log_p = log_p.reshape(guess.shape)
            yield ("tree",), np.maximum(log_p - log_p.max(axis=1, keepdims=True), -MOST)
        for name, models in self.predictives:
            found = predictive_ratio(models, look.y, look.Z, look.W, look.rows)
            yield (name,), np.clip(found, -MOST, MOST)
        for (j, noise), ratio in self._own(look):
            yield ("own", j < 0, noise > 0), np.log1p(self.odds[j, noise] * ratio).sum(axis=0)

    def _grown(
        self,
        look: "_Look",
        j: int,
        others: list[int],
        rule: tuple[int, float, bool],
        guess: Array,
        record: Ints,
    ) -> Array:
        """Log likelihoods of the files in trees of guesses (Q,); of no guess (1,), in y's tree."""
        of_y, of_Z = (
            np.ascontiguousarray(x[..., others]).reshape(-1, len(others))
            for x in (look.bins.y, look.bins.Z)
        )
        d = 1 + np.maximum(of_y.max(axis=0), of_Z.max(axis=0))
        ordered = np.array([k in self.edges for k in others]) | (d < 3)
        each = (look.y[:, j], look.Z[..., j].ravel(), guess)
        y, Z, tried = (v.astype(np.int64) for v in each)  # in one layout: compiled once
        levels = 1 + max(int(of.max(initial=0)) for of in (y, Z, tried))
        predictors, outcome = Predictors(of_y, of_Z, d, ordered), Outcome(y, Z, levels, len(look.Z))
        placed, log_p = PlacedGuesses(record, tried), np.zeros(max(len(tried), 1))
        axis = axes(predictors, outcome)
        trees_with_guesses(predictors, axis, outcome, placed, rule, log_p)
        return log_p

    def _own(self, look: "_Look") -> Iterator[tuple[tuple[int, float], Array]]:
        """By guessed column and noise: how much likelier the own row is a copy than another's.

        (m, U, G); the densities of the copy and of the others, of all columns under -1.
        """
        together, n = np.ones(1), len(look.y)
        for j in map(int, self.guessed if self.linked else ()):
            own = look.Z[:, look.rows, j][:, :, None]
            apart = np.abs(own - look.W[..., j])
            k = look.counts(j, look.of_columns(()), 0.0)[1]
            equal = (apart == 0) * n / (k + 1.0)
            together = together * equal
            yield (j, 0.0), equal
            noises = [noise for noise in NOISE if not self.odds or (j, noise) in self.odds]
            if j in self.spread and noises:
                line, w, value = np.sort(look.y[:, j]), self.spread[j] / 10, look.y[look.rows, j]
                ends = (np.searchsorted(line, own + end) for end in (-w, w))
                near = np.subtract(*reversed(tuple(ends))) - (np.abs(own - value[:, None]) < w)
                for noise in noises:
                    unit = apart / (noise * self.spread[j])
                    found = np.exp(-0.5 * unit**2) / (noise * np.sqrt(2 * np.pi))
                    yield (j, noise), found * n * 0.2 / (near + 1.0)
        if self.linked and len(self.guessed) > 1:
            yield (-1, 0.0), together


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
    levels: list[int]  # of these
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
        y_bins, *bins = (_binned(a, how.edges) for a in each)
        split = _Split(bins[0], y_bins, bins[1])
        levels = np.max([of.max(axis=tuple(range(of.ndim - 1)), initial=0) for of in split], axis=0)
        return cls(each[0], each[1], each[2], rows, there, split, [int(d) + 1 for d in levels])

    def of_columns(self, columns: Sequence[int]) -> _Split:
        """Contexts: combinations of values, or of bins, of columns."""
        ends = np.cumsum([of.size // len(self.levels) for of in self.bins])
        found, size = np.zeros(ends[-1], dtype=np.int64), 1
        for j in columns:
            if size * self.levels[j] > LARGEST:
                found = np.unique(found, return_inverse=True)[1]
                size = int(found.max()) + 1
            found *= self.levels[j]
            found += np.concatenate([bins[..., j].ravel() for bins in self.bins])
            size *= self.levels[j]
        parts = np.split(found, ends[:-1])
        return _Split(*(p.reshape(b.shape[:-1]) for p, b in zip(parts, self.bins, strict=True)))

    def counts(self, j: int, contexts: _Split, width: float) -> tuple[Array, Array]:
        """Rows of each file (m, U, G) and of y_-i (U, G) near a guess, within its context."""
        there = self.present[self.rows][:, None]
        M, y, Z, *ends = self._places(j, width)
        low, high = (contexts.W * M + end for end in ends)
        order, of_y = np.argsort(low, axis=None), contexts.y * M + y
        lines = of_y[self.present], *(contexts.Z * M + Z)
        k, *z = (_between(np.sort(line), low, high, order) for line in lines)
        own = of_y[self.rows][:, None]
        return np.stack(z), k - (there & (own >= low) & (own < high))

    def cells(self, j: int, contexts: _Split, width: float, levels: int) -> Iterator[Tallies]:
        """What a law is learnt from, file by file; a number by windows side by side."""
        value = np.concatenate([self.y[:, j], self.Z[..., j].ravel()])
        value = (value - value.min()) // (2 * width) if width else value
        values, at = np.unique(value, return_inverse=True)
        context = np.concatenate([contexts.y, contexts.Z.ravel()])
        file, held = np.maximum(np.arange(len(value)) - len(self.y), -1) // self.Z.shape[1] + 1, []
        for of in (context * len(values) + at, context):
            names, found = np.unique(of, return_inverse=True)
            sizes = 1 + len(self.Z), len(names)
            count = np.bincount(file * len(names) + found, minlength=sizes[0] * sizes[1])
            held.append(count.reshape(sizes))
        for l in range(1, len(held[0])):
            yield Tallies(held[0][[0, l]], held[1][[0, l]], levels or len(values))

    def _places(self, j: int, width: float) -> Any:
        """One more than the values of a column; ranks of y, of Z, of the ends around guesses."""
        if (j, width) not in self.kept:
            y, Z, W = (table[..., j] for table in (self.y, self.Z, self.W))
            line = np.unique(np.concatenate([y, Z.ravel()]))
            at: Any = (y, "left"), (Z, "left"), (W - width, "left"), (W + width, "right")
            ranks = (np.searchsorted(line, value, side) for value, side in at)
            self.kept[j, width] = len(line) + 1, *ranks
        return self.kept[j, width]


def _between(line: Ints, low: Ints, high: Ints, order: Ints) -> Array:
    """How many of a sorted line lie from low up to, but not at, high; ``order``: that of low."""
    out = np.empty(low.shape)  # searches in order are fast
    a, b = (np.searchsorted(line, end.ravel()[order]) for end in (low, high))
    out.ravel()[order] = b - a
    return out


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
