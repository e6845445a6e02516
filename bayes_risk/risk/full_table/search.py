"""Best-first search for the likeliest cells of a mixture of products.

    s(y) = sum_t w_t prod_j F_j(y_j, t),  bounded for all y that agree in the first variables by
    sum_t w_t prod_{j assigned} F_j(y_j, t) prod_{j open} max_c F_j(c, t).

What has the largest bound is extended by one variable; once no bound is above the k-th largest cell
found, the k likeliest cells are known for certain. The sum over all cells is
``sum_t w_t prod_j sum_c F_j(c, t)``, so the mass not found is known exactly.
"""

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayes_risk._core.logspace import log_sum
from bayes_risk.evidence.contract import Terms

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SAMPLE = 500  # cells drawn from the mixture, to begin with
SURE = 1e-9  # relative slack of a bound, for rounding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """The likeliest cells.

    ``codes`` (k, q), likeliest first; ``log_s`` (k,) their sums; ``log_total`` the sum over all
    cells; ``log_bound``: no other cell is above; ``complete``: the k likeliest for certain.
    """

    codes: Ints
    log_s: Array
    log_total: float
    log_bound: float
    complete: bool


def log_total(terms: Terms) -> float:
    """Log of the sum over all cells."""
    sums = np.add.reduceat(terms.factor, terms.start[:-1], axis=0)
    return float(log_sum(terms.log_weight + np.log(sums).sum(axis=0)))


def best_first(terms: Terms, k: int, max_nodes: int, rng: np.random.Generator) -> Found:
    """Find the k likeliest cells, or as many as ``max_nodes`` extensions allow."""
    search = _Search(terms, k)
    search.offer(_drawn(terms, rng))
    complete = search.run(max_nodes)
    codes, log_s = search.best()
    return Found(
        codes=codes,
        log_s=log_s,
        log_total=log_total(terms),
        log_bound=search.log_bound(),
        complete=complete,
    )


def _drawn(terms: Terms, rng: np.random.Generator) -> Ints:
    """Cells drawn from the mixture: a term, then a level of each variable."""
    sums = np.add.reduceat(terms.factor, terms.start[:-1], axis=0)
    log_w = terms.log_weight + np.log(sums).sum(axis=0)
    p = np.exp(log_w - log_sum(log_w))
    t = rng.choice(len(p), size=SAMPLE, p=p / p.sum())
    out = np.empty((SAMPLE, len(sums)), np.int64)
    for j in range(len(sums)):
        levels = terms.factor[terms.start[j] : terms.start[j + 1]][:, t] / sums[j, t]
        u = rng.random(SAMPLE)
        out[:, j] = np.minimum((u > np.cumsum(levels, axis=0)).sum(axis=0), len(levels) - 1)
    return np.unique(out, axis=0)


class _Search:
    """Open stretches of the table by their bounds, and the best cells so far.

    Masses are relative to ``exp(scale)``; ``rest[j]`` (T,) is the product of the largest factors of
    the variables from j on, the largest of all divided out.
    """

    def __init__(self, terms: Terms, k: int) -> None:
        self.terms, self.k, self.q = terms, k, len(terms.start) - 1
        high = np.maximum.reduceat(terms.factor, terms.start[:-1], axis=0)
        log_top = terms.log_weight + np.log(high).sum(axis=0)
        self.scale = float(log_top.max())
        self.share = terms.factor / np.repeat(high, np.diff(terms.start), axis=0)
        weight = np.exp(log_top - self.scale)
        self.cells: list[tuple[float, tuple[int, ...]]] = []  # a heap, the least likely first
        self.known: set[tuple[int, ...]] = set()
        self.open: list[tuple[float, tuple[int, ...], Array]] = [(-float(weight.sum()), (), weight)]

    def offer(self, codes: Ints) -> None:
        """Take up cells found otherwise."""
        for row, log_s in zip(codes, self.terms.log_at(codes), strict=True):
            self._keep(float(np.exp(log_s - self.scale)), tuple(row.tolist()))

    @property
    def least(self) -> float:
        """Mass of the k-th likeliest cell so far."""
        return self.cells[0][0] if len(self.cells) == self.k else 0.0

    def run(self, max_nodes: int) -> bool:
        """Extend what has the largest bound; whether nothing open can be better."""
        for _ in range(max_nodes):
            if not self.open or -self.open[0][0] <= self.least:
                return True
            _, codes, mass = heapq.heappop(self.open)
            if codes:
                mass = mass * self.share[self.terms.start[len(codes) - 1] + codes[-1]]
            self._extend(codes, mass)
        return not self.open or -self.open[0][0] <= self.least

    def _extend(self, codes: tuple[int, ...], mass: Array) -> None:
        j = len(codes)
        bounds = self.share[self.terms.start[j] : self.terms.start[j + 1]] @ mass
        for c, bound in enumerate(bounds.tolist()):
            if j + 1 == self.q:
                self._keep(bound, (*codes, c))
            elif bound > self.least:
                heapq.heappush(self.open, (-bound * (1.0 + SURE), (*codes, c), mass))

    def _keep(self, mass: float, codes: tuple[int, ...]) -> None:
        if codes in self.known or mass <= self.least:
            return
        self.known.add(codes)
        if len(self.cells) == self.k:
            _, gone = heapq.heapreplace(self.cells, (mass, codes))
            self.known.discard(gone)
        else:
            heapq.heappush(self.cells, (mass, codes))

    def best(self) -> tuple[Ints, Array]:
        """The cells found (k, q) and their log sums, likeliest first."""
        order = sorted(self.cells, key=lambda cell: (-cell[0], cell[1]))
        codes = np.array([codes for _, codes in order], dtype=np.int64)
        with np.errstate(divide="ignore"):
            return codes, np.log([mass for mass, _ in order]) + self.scale

    def log_bound(self) -> float:
        """Log of what no cell that was not found can exceed."""
        left = -self.open[0][0] if self.open else 0.0
        return float(np.log(max(left, self.least, np.finfo(float).tiny))) + self.scale
