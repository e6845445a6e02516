"""The values that an intruder finds most likely, where a table is too large to be walked through.

With one release and the model's own predictive as prior the posterior is itself a mixture of
products, ``p(y* | y_A, Z)``: the likeliest values, the truth's rank and the mass not found are
exact up to Monte Carlo error. With m releases, or another prior, posterior odds of the values found
are exact, their sum is not: the truth's probability is bounded from above by its share among them.

Cells are searched best first:

    s(y) = sum_t w_t prod_j F_j(y_j, t),  bounded for all y that agree in the first variables by
    sum_t w_t prod_{j assigned} F_j(y_j, t) prod_{j open} max_c F_j(c, t).

What has the largest bound is extended by one variable; once no bound is above the k-th largest cell
found, the k likeliest cells are known for certain. The sum over all cells is
``sum_t w_t prod_j sum_c F_j(c, t)``, so the mass not found is known exactly.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import log_sum
from bayes_risk._core.parallel import in_order
from bayes_risk._core.validate import at_least, one_of
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import (
    Fit,
    Progress,
    TablePredictive,
    Targets,
    Terms,
    drawn_in_words,
)
from bayes_risk.evidence.runner import EvidenceRunner
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.intruder.priors import in_words
from bayes_risk.release.release import Release

from .likeliest_result import Likeliest
from .risk import WAYS, problem_of
from .tables import Table, WeightedDraws, weighed

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
    search = _Search_of_search(terms, k)
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


class _Search_of_search:
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


DRAWS = 100


def likeliest(
    fit: Fit,
    release: Release,
    *,
    targets: Any,
    k: int = 100,
    prior: str = "predictive",
    intruder: Intruder | None = None,
    draws: int = DRAWS,
    max_nodes: int = 5_000,
    random_seed: int | np.random.Generator | None = None,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> Likeliest:
    """The values that the intruder finds most likely, found by best-first search.

    Parameters
    ----------
    fit, release, targets
        As in `full_table_risk`; the table of values may be of any size.
    k : int
        How many values to look for in each fit.
    prior : {"predictive", "uniform"}
        What the intruder believes beforehand.
    intruder : Intruder, optional
        What the intruder knows; the worst case by default.
    draws : int
        Draws of each fit to use, spread evenly.
    max_nodes : int
        How often, at most, a search of one fit extends a partial value by a variable.
    random_seed, n_jobs, progress
        As in `attribute_risk`.

    Raises
    ------
    InputError
        A model whose predictives are no mixtures of products; structural zeros; another prior.

    Notes
    -----
    One release and ``prior="predictive"``: the posterior is ``p(y* | y_A, Z)``, a mixture of
    products. The search then gives the k likeliest values for
    certain (``found`` if the truth is among them or above all others), the mass not found, and a
    bound on each value not found. Else ``prod_l S_l / S_0^(m-1)`` has no useful bound, because the
    denominator is tiny where nobody is: values are the likeliest under each release, their odds are
    exact, and the truth's probability is at most its share among them. Cost: each extension takes
    terms x levels multiplications.
    """
    one_of("prior", prior, ("predictive", "uniform"))
    for name, value in (("k", k), ("draws", draws), ("max_nodes", max_nodes)):
        at_least(name, value, 1)
    if fit.microdata.impossible is not None:
        raise InputError(
            "the table has structural zeros, whose mass the search does not know; use "
            "full_table_risk"
        )
    rng = np.random.default_rng(random_seed)
    choose, sampling, knowing, collapsing, searching = rng.spawn(5)
    problem, way = problem_of(fit, release, intruder, targets, choose, knowing)
    cases = problem.cases
    runner = EvidenceRunner(problem, sampling, n_jobs, progress)
    parts = runner.tables(cases, collapsing.spawn)
    found = searched(
        parts, cases, fit.microdata, prior, k, draws, max_nodes, rng=searching, n_jobs=n_jobs
    )
    return Likeliest(
        index=fit.microdata.index[problem.rows],
        case=problem.case,
        variables=tuple(fit.microdata.variables[j] for j in cases.columns),
        n_values=Table.of(fit.microdata.n_levels[cases.columns]).n_cells,
        truth=cases.profiles[:, cases.columns].astype(np.int64),
        exact=len(parts) == 2 and prior == "predictive",
        assumptions={
            "records": problem.knowledge(),
            "prior": in_words(prior),
            "evidence": f"{way}: {WAYS[way]}",
            "releases": drawn_in_words(fit, problem.release),
        },
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
        **_columns(found),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched:
    """What a search found for one target; attributes as those of `Likeliest`."""

    codes: Ints
    log_probability: Array
    log_prior: Array
    log_truth: float
    log_prior_truth: float
    rank: float
    found: bool
    unseen: float
    bound: float


LISTS = ("codes", "log_probability", "log_prior")


def _columns(found: Sequence[Searched]) -> dict[str, Any]:
    names = Searched.__dataclass_fields__
    lists: dict[str, Any] = {name: tuple(getattr(s, name) for s in found) for name in LISTS}
    arrays = {n: np.array([getattr(s, n) for s in found]) for n in names if n not in LISTS}
    return lists | arrays


def searched(
    parts: Sequence[TablePredictive],
    cases: Targets,
    microdata: Microdata,
    prior: str,
    k: int,
    draws: int,
    max_nodes: int,
    *,
    rng: np.random.Generator,
    n_jobs: int = 1,
) -> list[Searched]:
    """Search the mixtures of all fits, the base one first, for each target."""
    fits = [weighed(part, cases, min(draws, len(part.batch))) for part in parts]
    search = _Search(fits, cases, microdata, prior, k, max_nodes)
    jobs = [partial(search.one, u, child) for u, child in enumerate(rng.spawn(len(cases)))]
    return list(in_order(jobs, n_jobs=n_jobs, what="likeliest values"))


@dataclass(frozen=True, slots=True)
class _Search:
    """What every target's search takes."""

    fits: Sequence[WeightedDraws]
    cases: Targets
    microdata: Microdata
    prior: str
    k: int
    max_nodes: int

    def one(self, u: int, rng: np.random.Generator) -> Searched:
        """Search for one target."""
        mixtures = [_mixture(fit, u, self.cases, self.microdata) for fit in self.fits]
        truth = self.cases.profiles[u, self.cases.columns].astype(np.int64)
        if len(mixtures) == 2 and self.prior == "predictive":
            found = best_first(mixtures[1], self.k, self.max_nodes, rng)
            return _exact(found, mixtures, truth)
        pools = [best_first(each, self.k, self.max_nodes, rng).codes for each in mixtures[1:]]
        return _bounded(np.unique(np.vstack(pools), axis=0), mixtures, truth, self.prior)


def _mixture(fit: WeightedDraws, u: int, cases: Targets, microdata: Microdata) -> Terms:
    return fit.part.terms(u, cases, microdata.n_levels, fit.log_v[:, u], fit.draws)


def _exact(found: Found, mixtures: Sequence[Terms], truth: Ints) -> Searched:
    """One release, predictive prior: probabilities are shares of the mixture's own total."""
    base, mixture = mixtures
    log_p = found.log_s - found.log_total
    log_truth = float(mixture.log_at(truth[None])[0]) - found.log_total
    bound = found.log_bound - found.log_total
    listed = (found.codes == truth).all(axis=1)
    certain = bool(listed.any() and found.complete) or log_truth >= bound
    seen = np.append(log_p, () if listed.any() else log_truth)
    above = int((log_p[~listed] > log_truth).sum())
    return Searched(
        codes=found.codes,
        log_probability=log_p,
        log_prior=base.log_at(found.codes) - log_total(base),
        log_truth=log_truth,
        log_prior_truth=float(base.log_at(truth[None])[0]) - log_total(base),
        rank=1.0 + above,
        found=certain,
        unseen=max(1.0 - float(np.exp(seen).sum()), 0.0),
        bound=float(np.exp(bound)),
    )


def _bounded(codes: Ints, mixtures: Sequence[Terms], truth: Ints, prior: str) -> Searched:
    """Several releases, or a uniform prior: odds are exact among the values found."""
    everything = np.vstack([truth[None], codes[~(codes == truth).all(axis=1)]])
    base, *others = [mixture.log_at(everything) for mixture in mixtures]
    times = len(others) - (prior == "predictive")
    log_f = np.sum(others, axis=0) - times * base
    log_p = log_f - log_sum(log_f)
    order = np.argsort(-log_p, kind="stable")
    n_values = float(np.log(np.diff(mixtures[0].start)).sum())
    log_prior = base - log_total(mixtures[0])
    if prior == "uniform":
        log_prior = np.full(len(base), -n_values)
    return Searched(
        codes=everything[order],
        log_probability=log_p[order],
        log_prior=log_prior[order],
        log_truth=float(log_p[0]),
        log_prior_truth=float(log_prior[0]),
        rank=1.0 + int((log_p > log_p[0]).sum()),
        found=False,
        unseen=np.nan,
        bound=np.nan,
    )
