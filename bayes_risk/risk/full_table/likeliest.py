"""The values that an intruder finds most likely, where a table is too large to be walked through.

With one release and the model's own predictive as prior the posterior is itself a mixture of
products; else posterior odds of the values found are exact, their sum is not: see `likeliest`.

Cells are searched best first:

    s(y) = sum_t w_t prod_j F_j(y_j, t),  bounded for all y that agree in the first variables by
    sum_t w_t prod_{j assigned} F_j(y_j, t) prod_{j open} max_c F_j(c, t).

What has the largest bound is extended by one variable; once no bound is above the k-th largest cell
found, the k likeliest cells are known for certain. The sum over all cells is
``sum_t w_t prod_j sum_c F_j(c, t)``, so the mass not found is known exactly.
"""

import heapq
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import log_sum
from bayes_risk._core.parallel import in_order
from bayes_risk._core.progress import ProgressOption, shows_progress
from bayes_risk._core.validate import one_of, whole_number
from bayes_risk.data.base_result import OfTargets
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import Fit, TablePredictive, Targets, drawn_in_words
from bayes_risk.evidence.products import Terms
from bayes_risk.evidence.runner import EvidenceRunner
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.intruder.priors import prior_in_words
from bayes_risk.release.release import Release

from .risk import likeliest_values, problem_of
from .tables import GuessTable, WeightedDraws, weighed

SAMPLE = 500  # cells drawn from the mixture, to begin with
SURE = 1e-9  # relative slack of a bound, for rounding
LISTS = 3  # of what is found for a target, the first are lists


class Found(NamedTuple):
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
    start, q = terms.start, len(terms.start) - 1
    high = np.maximum.reduceat(terms.factor, start[:-1], axis=0)
    log_top = terms.log_weight + np.log(high).sum(axis=0)
    scale = float(log_top.max())
    share = terms.factor / np.repeat(high, np.diff(start), axis=0)
    weight = np.exp(log_top - scale)
    cells: list[tuple[float, tuple[int, ...]]] = []  # a heap, the least likely first
    known: set[tuple[int, ...]] = set()
    # stretches of the table by their bounds: a heap, the largest first
    stretches: list[tuple[float, tuple[int, ...], Array]] = [(-float(weight.sum()), (), weight)]

    def least() -> float:
        """Mass of the k-th likeliest cell so far."""
        return cells[0][0] if len(cells) == k else 0.0

    def offer(mass: float, codes: tuple[int, ...]) -> None:
        if codes in known or mass <= least():
            return
        known.add(codes)
        if len(cells) < k:
            heapq.heappush(cells, (mass, codes))
        else:
            known.discard(heapq.heapreplace(cells, (mass, codes))[1])

    drawn = _drawn(terms, rng)
    for row, log_s in zip(drawn, terms.log_at(drawn), strict=True):
        offer(float(np.exp(log_s - scale)), tuple(row.tolist()))
    for _ in range(max_nodes):
        if not stretches or -stretches[0][0] <= least():
            break
        _, codes, mass = heapq.heappop(stretches)
        j = len(codes)
        if codes:
            mass = mass * share[start[j - 1] + codes[-1]]
        for c, bound in enumerate((share[start[j] : start[j + 1]] @ mass).tolist()):
            if j + 1 == q:
                offer(bound, (*codes, c))
            elif bound > least():
                heapq.heappush(stretches, (-bound * (1.0 + SURE), (*codes, c), mass))
    left = -stretches[0][0] if stretches else 0.0
    best = sorted(cells, key=lambda cell: (-cell[0], cell[1]))
    with np.errstate(divide="ignore"):
        log_s = np.log([mass for mass, _ in best]) + scale
    return Found(
        codes=np.array([codes for _, codes in best], dtype=np.int64),
        log_s=log_s,
        log_total=log_total(terms),
        log_bound=float(np.log(max(left, least(), np.finfo(float).tiny))) + scale,
        complete=left <= least(),
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Likeliest(OfTargets):
    """The values found for each target, and what is known of those that were not.

    Attributes
    ----------
    index, assumptions, seed_entropy, case, variables
        As in `AttributeRisk`: arrays live on cases.
    n_values, truth : int, ndarray of int, shape (n_cases, q)
        Number of combinations of their levels; codes of the true values.
    codes, log_probability, log_prior : sequence of ndarray, shape (k, q) and (k,)
        Values found for each case, likeliest first: probabilities where ``exact``, else shares.
    log_truth, log_prior_truth : ndarray, shape (n_cases,)
        Log probability of the truth (an upper bound unless ``exact``) and its log prior.
    rank, found : ndarray, shape (n_cases,)
        Rank of the truth among all values, and whether it is certain, as no value that was not
        found can be likelier; else one more than the number of likelier values found.
    unseen, bound : ndarray, shape (n_cases,)
        Probability of all values neither found nor true, and of any that was not found at most; NaN
        unless ``exact``.
    exact : bool
        Whether the posterior could be normalised (one release, predictive prior).
    """

    PICTURE: ClassVar[str] = "plot_likeliest"
    n_values: int
    truth: Ints
    codes: Sequence[Ints]
    log_probability: Sequence[Array]
    log_prior: Sequence[Array]
    log_truth: Array
    log_prior_truth: Array
    rank: Array
    found: Flags
    unseen: Array
    bound: Array
    exact: bool

    @property
    def records(self) -> pd.DataFrame:
        """One row per target.

        Columns: ``prior`` and ``probability`` of the truth (an upper bound unless ``exact``);
        ``rank`` and whether it is certain (``found``; else the truth is at that place or beyond);
        ``values`` found, the probability of all others (``unseen``) and of any of them at most
        (``bound``); ``best`` and ``best_distance`` of the likeliest value.
        """
        best = np.stack([codes[0] for codes in self.codes])
        columns = {
            "prior": np.exp(self.log_prior_truth),
            "probability": np.exp(self.log_truth),
            "rank": self.rank,
            "found": self.found,
            "values": np.array([len(codes) for codes in self.codes]),
            "unseen": self.unseen,
            "bound": self.bound,
            "best": np.exp([log_p[0] for log_p in self.log_probability]),
            "best_distance": (best != self.truth).sum(axis=1),
        }
        return self.by_target(columns)

    def summary(self) -> pd.DataFrame:
        """File level: one row per measure, columns ``value`` and ``baseline``.

        Rows: ``mean_probability`` and ``max_probability`` of the truth (upper bounds unless
        ``exact``); ``share_found``: of records whose rank is certain; ``median_rank`` (of the
        others the smallest it can be); ``mean_unseen``; ``values``; ``targets``. The baseline is
        what the intruder could state without the release.
        """
        table = self.records
        p, prior, none = table["probability"], table["prior"], np.nan
        rows = {
            "mean_probability": (p.mean(), prior.mean()),
            "max_probability": (p.max(), prior.max()),
            "share_found": (table["found"].mean(), none),
            "median_rank": (table["rank"].median(), none),
            "mean_unseen": (table["unseen"].mean(), none),
            "values": (self.n_values, none),
            "targets": (len(table), none),
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=["value", "baseline"])

    def top(self, label: Hashable, k: int = 10) -> pd.DataFrame:
        """The likeliest values of one record: columns as `FullTableRisk.top`."""
        u = int(self.case[self.position(label)])
        logs = self.log_prior[u][:k], self.log_probability[u][:k]
        return likeliest_values(self, self.codes[u][:k], *logs, self.truth[u])


@shows_progress
def likeliest(
    fit: Fit,
    release: Release,
    *,
    targets: Any,
    k: int = 100,
    prior: str = "predictive",
    intruder: Intruder | None = None,
    draws: int = 100,
    max_nodes: int = 5_000,
    random_seed: int | np.random.Generator | None = None,
    n_jobs: int = 1,
    progress: ProgressOption = None,
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
    intruder
        As in `full_table_risk`.
    draws : int
        Draws of each fit to use, spread evenly.
    max_nodes : int
        How often, at most, a search of one fit extends a partial value by a variable.
    random_seed, n_jobs, progress
        As in `attribute_risk`.

    Raises
    ------
    InputError
        A model whose predictives are not mixtures of products; structural zeros; another prior.

    Notes
    -----
    With one release and ``prior="predictive"`` the search gives the k likeliest values for certain
    (``found`` if the truth is among them or above all others), the mass not found, and a bound on
    each value not found. Else ``prod_l S_l / S_0^(m-1)`` has no useful bound, because the
    denominator is tiny where no record is: values are the likeliest under each release, their odds
    are exact, and the truth's probability is at most its share among them. Cost: each extension
    takes terms x levels multiplications.
    """
    one_of("prior", prior, ("predictive", "uniform"))
    for name, value in (("k", k), ("draws", draws), ("max_nodes", max_nodes)):
        whole_number(name, value, 1)
    if fit.microdata.impossible is not None:
        raise InputError(
            "the table has structural zeros, whose mass the search does not know; use "
            "full_table_risk"
        )
    rng = np.random.default_rng(random_seed)
    choose, sampling, knowing, collapsing, searching = rng.spawn(5)
    problem, method = problem_of(fit, release, intruder, targets, choose, knowing)
    cases = problem.cases
    runner = EvidenceRunner(problem, method.name, sampling, n_jobs, progress)
    parts = runner.tables(cases, collapsing.spawn)
    found = searched(
        parts, cases, fit.microdata, prior, k, draws, max_nodes, rng=searching, n_jobs=n_jobs
    )
    columns: Any = {name: [of[name] for of in found] for name in found[0]}
    columns |= {name: np.array(columns[name]) for name in list(columns)[LISTS:]}
    return Likeliest(
        index=fit.microdata.index[problem.rows],
        case=problem.case,
        variables=tuple(fit.microdata.variables[j] for j in cases.columns),
        n_values=GuessTable.of(fit.microdata.n_levels[cases.columns]).n_cells,
        truth=cases.profiles[:, cases.columns].astype(np.int64),
        exact=len(parts) == 2 and prior == "predictive",
        assumptions={
            "records": problem.knowledge(),
            "prior": prior_in_words(prior),
            "evidence": method.in_words,
            "releases": drawn_in_words(fit, problem.release),
        },
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
        **columns,
    )


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
) -> list[dict[str, Any]]:
    """Search the mixtures of all fits, the base one first: as `Likeliest`, target by target."""
    fits = [weighed(part, cases, min(draws, len(part.batch))) for part in parts]
    one = partial(_searched, fits, cases, microdata, (prior, k, max_nodes))
    jobs = [partial(one, u, child) for u, child in enumerate(rng.spawn(len(cases)))]
    return list(in_order(jobs, n_jobs=n_jobs, what="likeliest values"))


def _searched(
    fits: Sequence[WeightedDraws],
    cases: Targets,
    microdata: Microdata,
    how: tuple[str, int, int],
    u: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Search for one target: the prior, how many values, after how many nodes."""
    prior, k, max_nodes = how
    mixtures = [fit.terms(u, cases, microdata) for fit in fits]
    truth = cases.profiles[u, cases.columns].astype(np.int64)
    found = [best_first(each, k, max_nodes, rng) for each in mixtures[1:]]
    if len(mixtures) == 2 and prior == "predictive":
        return _exact(found[0], mixtures, truth)
    pools = np.unique(np.vstack([each.codes for each in found]), axis=0)
    return _bounded(pools, mixtures, truth, prior)


def _exact(found: Found, mixtures: Sequence[Terms], truth: Ints) -> dict[str, Any]:
    """One release, predictive prior: probabilities are shares of the mixture's own total."""
    base, mixture = mixtures
    log_p = found.log_s - found.log_total
    log_truth = float(mixture.log_at(truth[None])[0]) - found.log_total
    bound = found.log_bound - found.log_total
    listed = (found.codes == truth).all(axis=1)
    certain = bool(listed.any() and found.complete) or log_truth >= bound
    seen = np.append(log_p, () if listed.any() else log_truth)
    above = int((log_p[~listed] > log_truth).sum())
    return {
        "codes": found.codes,
        "log_probability": log_p,
        "log_prior": base.log_at(found.codes) - log_total(base),
        "log_truth": log_truth,
        "log_prior_truth": float(base.log_at(truth[None])[0]) - log_total(base),
        "rank": 1.0 + above,
        "found": certain,
        "unseen": max(1.0 - float(np.exp(seen).sum()), 0.0),
        "bound": float(np.exp(bound)),
    }


def _bounded(codes: Ints, mixtures: Sequence[Terms], truth: Ints, prior: str) -> dict[str, Any]:
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
    return {
        "codes": everything[order],
        "log_probability": log_p[order],
        "log_prior": log_prior[order],
        "log_truth": float(log_p[0]),
        "log_prior_truth": float(log_prior[0]),
        "rank": 1.0 + int((log_p > log_p[0]).sum()),
        "found": False,
        "unseen": np.nan,
        "bound": np.nan,
    }
