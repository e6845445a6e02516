"""Tables of one target after the other: weights of draws, sums of cells, prior, posterior.

The posterior of a target comes from sums over the draws, a stretch of rows at a time:
``log p(y* | Z, A) = log prior(y*) + sum_f c_f log S_f(y*)`` up to a constant, with ``c = -m`` for
the base fit and 1 for each other one; ``S_f = sum_b S_fb`` over batches of draws. How far a batch
moves the log probability of the truth: `docs/evidence.md`. With rows alpha for values of some
variables and columns beta for the others, over the terms t = (h, k) of draws and classes,

    S(alpha, beta) = sum_t c_t A_t(alpha) B_t(beta),     c_t = w_h b_hk x (columns that are known),

one matrix product A diag(c) B'.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import standard_error
from bayes_risk._core.checkpoint import in_stages
from bayes_risk._core.parallel import in_order
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import TablePredictive, Targets
from bayes_risk.evidence.diagnostics import weight_ess
from bayes_risk.evidence.leave_one_out import by_batch, efficiency, leave_out_weights
from bayes_risk.evidence.prior_weights import log_margin
from bayes_risk.evidence.products import Terms
from bayes_risk.intruder.priors import TruthFactor

WORK = 1.2e11  # multiplications a target, by default: about four seconds on one core
FEWEST = 8  # draws of a batch
Reals = npt.NDArray[np.floating[Any]]
TIE = 1e-4  # in logs; single precision leaves about 1e-6 a fit
STRETCH = 2**18  # cells
FURTHEST = 1e30  # shifts of log odds that single precision can hold


LogPrior = Callable[[slice, Array], Array]


class _Stretch(NamedTuple):
    """Log posterior, log prior and log evidence of some rows, and the batches' shares of S_f."""

    log_post: Array
    log_prior: Array
    log_evidence: Array
    shares: list[Reals]


class _Walk:
    """What is kept of target u's table while its rows go by: one number a cell, and a few sums."""

    def __init__(self, of: "Tabulation", u: int) -> None:
        how = of.microdata, of.cases, u, of.table
        self.sums = [fit.terms(u, of.cases, of.microdata).sums(of.table.cut) for fit in of.fits]
        self.factor, self.log_norm, self.few_chains = of.factor, of.norms[:, :, u], of.few_chains
        self.log_prior, self.possible = _log_prior(of.prior, *how), _possible(*how)
        shape = self.sums[0].shape
        self.log_post = np.empty(shape, np.float32)
        codes = of.cases.profiles[u, of.cases.columns]
        row, column = self.truth = divmod(int(of.table.cells(codes)), shape[1])
        at = self._stretch(slice(row, row + 1))
        self.reference = float(at.log_post[0, column])
        self.at_prior = float(at.log_prior[0, column])
        self.at_shares = np.stack([s[:, 0, column] for s in at.shares]).astype(float)
        self.shifts = np.zeros(self.at_shares.shape)  # sum over cells of weight x share, (F, B)
        # of the weights exp(log_post - top) of all cells but the truth's, which may be negligible
        self.top, self.total = -np.inf, 0.0
        self.prior_top, self.prior_total, self.prior_above = -np.inf, 0.0, 0.0
        self.low, self.high, self.cells = np.inf, -np.inf, 0

    def _stretch(self, rows: slice) -> _Stretch:
        """Everything about some rows; the log posterior less the truth's, once that is known."""
        log_evidence, base, shares = None, None, []
        for f, sums in enumerate(self.sums):
            parts = sums.rows(rows.start, rows.stop)
            total = parts.sum(axis=0)
            logs = np.log(total, dtype=float) + (sums.log_scale - _log_total(self.log_norm[f]))
            parts /= total
            shares.append(parts)
            base = logs if base is None else base
            change = self.factor[f] * logs
            log_evidence = change if log_evidence is None else log_evidence + change
        assert log_evidence is not None and base is not None
        log_prior = self.log_prior(rows, base)
        if self.possible is not None:
            log_prior = np.where(self.possible(rows), log_prior, -np.inf)
        return _Stretch(log_prior + log_evidence, log_prior, log_evidence, shares)

    def add(self, rows: slice) -> None:
        """Count some rows in."""
        part = self._stretch(rows)
        log_post = part.log_post - self.reference
        self.log_post[rows] = log_post
        if rows.start <= self.truth[0] < rows.stop:
            log_post[self.truth[0] - rows.start, self.truth[1]] = -np.inf
        top = max(self.top, float(log_post.max()))
        if top > -np.inf:
            shrink = float(np.exp(self.top - top))
            weight = np.exp(log_post - top).astype(np.float32)
            self.total = self.total * shrink + float(weight.sum(dtype=float))
            moved = [s.reshape(len(s), -1) @ weight.reshape(-1) for s in part.shares]
            self.shifts = self.shifts * shrink + np.stack(moved)
            self.top = top
        relative = part.log_prior - self.at_prior
        top = max(self.prior_top, float(relative.max()))
        shrink = float(np.exp(self.prior_top - top))
        self.prior_total = self.prior_total * shrink + float(np.exp(relative - top).sum())
        self.prior_top = top
        above = float((relative > TIE).sum())
        self.prior_above += above + 0.5 * float((np.abs(relative) <= TIE).sum())
        allowed = part.log_prior > -np.inf
        if allowed.any():
            self.low = min(self.low, float(part.log_evidence[allowed].min()))
            self.high = max(self.high, float(part.log_evidence[allowed].max()))
        self.cells += int(allowed.sum())

    def result(self, near: Ints, around: Ints, keep: int) -> dict[str, Any]:
        """Everything counted: as `FullTableRisk` of one case; ``near``, ``around``: 1, 2 away."""
        log_others = self.top + float(np.log(self.total)) if self.total else -np.inf
        log_z = float(np.logaddexp(0.0, log_others))
        log_prior_z = self.prior_top + float(np.log(self.prior_total))
        flat = self.log_post.reshape(-1)
        p, rest = float(np.exp(-log_z)), float(np.exp(log_others - log_z))  # rest = 1 - p
        # how far each batch of each fit moves the log odds of the truth, shape (F, B)
        part = np.exp(self.log_norm - _log_total(self.log_norm)[:, None])  # v_fb / v_f
        moved = self.at_shares - self.shifts / self.total if self.total else self.shifts
        moved = self.factor[:, None] * (moved / part)
        entropy = 0.0  # in nats
        for first in range(0, len(flat), STRETCH):
            log_p = flat[first : first + STRETCH].astype(float) - log_z
            log_p = log_p[log_p > -np.inf]
            entropy -= float((np.exp(log_p) * log_p).sum())
        log_odds_se = float(standard_error(moved[..., None], few=self.few_chains)[0])
        keep = min(keep, len(flat))
        best = np.argpartition(flat, len(flat) - keep)[len(flat) - keep :]
        best = best[np.lexsort((best, -flat[best]))]  # largest first

        best_prior, width = np.empty(len(best)), self.log_post.shape[1]
        for row in np.unique(best // width):
            these = np.flatnonzero(best // width == row)
            log_prior = self._stretch(slice(row, row + 1)).log_prior[0] - self.at_prior
            best_prior[these] = log_prior[best[these] % width]

        def mass(cells: Ints) -> float:
            return float(np.exp(flat[cells].astype(float) - log_z).sum())

        return {
            "n_values": self.cells,
            "log_prior": -log_prior_z,
            "log_probability": -log_z,
            "deviations": moved * (p * rest),
            "mcse": log_odds_se * (p * rest),
            "mcse_log_odds": log_odds_se,
            "rank": self._rank(0.0),
            "rank_low": self._rank(2.0 * log_odds_se),
            "rank_high": self._rank(-2.0 * log_odds_se),
            "prior_rank": self.prior_above + 0.5,
            "within_1": mass(near),
            "within_2": mass(around),
            "entropy": max(entropy, 0.0),
            "eps": self.high - self.low,
            "best": best,  # cells
            "best_log_probability": flat[best].astype(float) - log_z,
            "best_log_prior": best_prior - log_prior_z,
        }

    def _rank(self, shift: float) -> float:
        """Expected rank of the truth, ties in any order, were its log odds larger by ``shift``."""
        shift = float(np.clip(shift, -FURTHEST, FURTHEST))
        above = int(np.count_nonzero(self.log_post > shift + TIE))
        level = int(np.count_nonzero(np.abs(self.log_post - np.float32(shift)) <= TIE))
        if shift:  # the truth itself is not among the cells it is compared with
            return float(1 + above - (shift < -TIE) + 0.5 * level)
        return float(1 + above + 0.5 * max(level - 1, 0))


def _log_total(log_norm: Array) -> Any:
    return np.logaddexp.reduce(log_norm, axis=-1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedDraws:
    """One fit: its predictive, the draws in use, their log weights and the diagnostics.

    ``log_v`` (H', U) for ``draws`` (H',); ``khat`` and ``ess`` (U,).
    """

    part: TablePredictive
    draws: Ints
    log_v: Array
    khat: Array
    ess: Array

    @property
    def log_norm(self) -> Array:
        """Log sums of weights by batch, shape (B, U)."""
        return by_batch(self.log_v, self.part.batch[self.draws])

    def terms(self, u: int, targets: Targets, microdata: Microdata) -> Terms:
        """The mixture of products for target u."""
        return self.part.terms(u, targets, microdata.n_levels, self.log_v[:, u], self.draws)


def weighed(part: TablePredictive, targets: Targets, n_draws: int) -> WeightedDraws:
    """Leave-one-out weights from all draws, then every so many draws of each batch."""
    log_p = part.log_truth(slice(0, len(targets)))
    reff = efficiency(part, log_p)
    log_w, khat = leave_out_weights(log_p, targets.fitted, reff)
    draws = thinned(part.batch, n_draws)
    among = min(reff * len(log_p) / len(draws), 1.0)
    return WeightedDraws(
        part=part,
        draws=draws,
        log_v=(log_w + log_p)[draws],
        khat=khat,
        ess=among * weight_ess(log_w[draws]),
    )


def thinned(batch: Ints, n_draws: int) -> Ints:
    """About so many draws, evenly from every batch (H,)."""
    n_batches = int(batch.max()) + 1
    each = max(-(-n_draws // n_batches), 1)
    out = []
    for b in range(n_batches):
        these = np.flatnonzero(batch == b)
        out.append(these[np.linspace(0, len(these) - 1, min(each, len(these))).astype(int)])
    return np.concatenate(out).astype(np.int64)


def draws_by_fit(
    parts: Sequence[TablePredictive], n_cells: int, m: int, draws: int | None
) -> list[int]:
    """How many draws of each fit; of the base fit, whose error counts m times, m times as many."""
    if draws is None:
        terms = max(part.n_classes for part in parts)
        fewest = FEWEST * (int(parts[0].batch.max()) + 1)
        draws = max(int(WORK / (n_cells * terms * (m + len(parts) - 1))), fewest)
    wanted = [m * draws] + [draws] * (len(parts) - 1)
    return [min(w, len(part.batch)) for w, part in zip(wanted, parts, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GuessTable:
    """The layout of the table of guesses: ``d`` (q,) levels, the first ``cut`` make the rows."""

    d: Ints
    cut: int

    @classmethod
    def of(cls, d: Ints) -> "GuessTable":
        """Cut where rows and columns are most alike in number."""
        log_d = np.log(d)
        cost = [abs(log_d[:cut].sum() - log_d[cut:].sum()) for cut in range(len(d))]
        return cls(d=d, cut=int(np.argmin(cost)))

    @property
    def n_cells(self) -> int:
        """Number of cells, in Python's integers: it may be astronomic."""
        return int(np.prod(self.d.astype(object)))

    @property
    def strides(self) -> Ints:
        """How far apart the cells of neighbouring levels lie."""
        return np.append(np.cumprod(self.d[:0:-1])[::-1], 1).astype(np.int64)

    def cells(self, codes: npt.NDArray[np.integer]) -> Ints:
        """Numbers of cells with level codes (..., q)."""
        return np.asarray(codes.astype(np.int64) @ self.strides)

    def codes(self, cells: Ints) -> Ints:
        """Level codes (..., q) of cells."""
        return np.stack(np.unravel_index(cells, tuple(self.d)), axis=-1).astype(np.int64)

    def half(self, first: bool) -> Ints:
        """Level codes of all rows (C1, cut), or of all columns (C2, q - cut)."""
        d = self.d[: self.cut] if first else self.d[self.cut :]
        return np.stack(np.unravel_index(np.arange(int(np.prod(d))), tuple(d) or (1,)), axis=-1)[
            :, : len(d)
        ]

    def near(self, codes: Ints, distance: int) -> Ints:
        """Cells that differ from the codes (q,) in at most ``distance`` (1 or 2) variables."""
        steps = [
            (np.delete(np.arange(d), c) - c) * s
            for d, c, s in zip(self.d, codes, self.strides, strict=True)
        ]
        moves = [np.zeros(1, np.int64), *steps]
        if distance == 2:
            for a in range(len(steps)):
                moves += [np.add.outer(steps[a], b).ravel() for b in steps[a + 1 :]]
        return np.asarray(self.cells(codes) + np.concatenate(moves), dtype=np.int64)


class Tabulation(NamedTuple):
    """What tables of all targets share: F fits, log sums of weights (F, B, U), factors c_f (F,).

    ``few_chains``: errors are between a few chains that the release led, with Student's t.
    """

    fits: list[WeightedDraws]
    norms: Array
    factor: Array
    few_chains: bool
    table: GuessTable
    cases: Targets
    microdata: Microdata
    prior: str | TruthFactor
    keep: int

    def of(self, u: int) -> dict[str, Any]:
        """Posterior of one target."""
        walk, table = _Walk(self, u), self.table
        n, width = walk.log_post.shape
        size = max(STRETCH // width, 1)
        for first in range(0, n, size):
            walk.add(slice(first, min(first + size, n)))
        codes = self.cases.profiles[u, self.cases.columns].astype(np.int64)
        return walk.result(table.near(codes, 1), table.near(codes, 2), self.keep)


def tabulated(
    parts: Sequence[TablePredictive],
    cases: Targets,
    microdata: Microdata,
    prior: str | TruthFactor,
    table: GuessTable,
    *,
    draws: int | None,
    keep: int = 20,
    few_chains: bool = False,
    n_jobs: int = 1,
    tick: Callable[[int], None] = lambda done: None,
) -> tuple[list[WeightedDraws], list[dict[str, Any]]]:
    """Weights, and posteriors target by target, from the base predictive and the releases'."""
    m = len(parts) - 1
    wanted = draws_by_fit(parts, table.n_cells, m, draws)
    fits = [weighed(part, cases, k) for part, k in zip(parts, wanted, strict=True)]
    factor = np.array([-float(m)] + [1.0] * m)
    norms = np.stack([fit.log_norm for fit in fits])
    shared = Tabulation(fits, norms, factor, few_chains, table, cases, microdata, prior, keep)

    def run(which: Sequence[int]) -> Iterator[dict[str, Any]]:
        jobs = [partial(shared.of, u) for u in which]
        found = in_order(jobs, n_jobs=n_jobs, what="full table")
        for u, spread in zip(which, found, strict=True):
            tick(u + 1)
            yield spread

    return fits, in_stages("targets", len(cases), run)


def _log_prior(
    prior: str | TruthFactor, microdata: Microdata, targets: Targets, u: int, table: GuessTable
) -> LogPrior:
    """Log prior of rows of the table, up to a constant."""
    if prior == "predictive":
        return lambda rows, base: base
    if prior == "marginal":
        one, d = targets.only(np.array([u])), microdata.n_levels[targets.columns]
        margins = [
            log_margin(microdata, one, q, np.arange(n)[:, None])[:, 0] for q, n in enumerate(d)
        ]
        first, second = (
            sum(
                (log_p[codes] for log_p, codes in zip(of, half.T, strict=True)), np.zeros(len(half))
            )
            for of, half in (
                (margins[: table.cut], table.half(True)),
                (margins[table.cut :], table.half(False)),
            )
        )
        return lambda rows, base: np.asarray(first[rows, None] + second)
    if not isinstance(prior, TruthFactor):
        return lambda rows, base: np.zeros(base.shape)
    width = len(table.half(False))
    row, column = divmod(int(table.cells(targets.profiles[u, targets.columns])), width)
    log_factor = float(np.log(prior.factor))

    def leaning(rows: slice, base: Array) -> Array:
        out = np.zeros(base.shape)
        if rows.start <= row < rows.stop:
            out[row - rows.start, column] = log_factor
        return out

    return leaning


def _possible(
    microdata: Microdata, targets: Targets, u: int, table: GuessTable
) -> Callable[[slice], Flags] | None:
    """Which cells of some rows are possible, where there are structural zeros; else None."""
    region: Any = microdata.impossible
    if region is None:
        return None
    columns, begin = targets.columns, region.starts[:-1]
    others = np.setdiff1d(np.arange(len(begin)), columns)
    rows = targets.profiles[u].astype(np.int64) + begin
    boxes = region.boxes[region.boxes[:, rows[others]].all(axis=1)]
    sides = []
    for first, those in ((True, columns[: table.cut]), (False, columns[table.cut :])):
        levels = table.half(first) + begin[those]
        sides.append(boxes[:, levels].all(axis=2).T.astype(np.float32))  # shape (C, boxes)
    return lambda rows: np.asarray(sides[0][rows] @ sides[1].T < 0.5)
