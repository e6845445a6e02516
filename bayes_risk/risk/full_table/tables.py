"""Tables of one target after the other: weights of draws, sums of cells, prior, posterior."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.checkpoint import in_stages
from bayes_risk._core.parallel import in_order
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import TablePredictive, Targets
from bayes_risk.evidence.diagnostics import weight_ess
from bayes_risk.evidence.leave_one_out import by_batch, efficiency, left_out
from bayes_risk.evidence.prior_weights import log_margin
from bayes_risk.intruder.priors import TruthFactor

from .spread import Fits, LogPrior, Spread, Truth, spread

WORK = 1.2e11  # multiplications a target, by default: about four seconds on one core
FEWEST = 8  # draws of a batch


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


def weighed(part: TablePredictive, targets: Targets, n_draws: int) -> WeightedDraws:
    """Leave-one-out weights from all draws, then every so many draws of each batch."""
    log_p = part.log_truth(slice(0, len(targets)))
    reff = efficiency(part, log_p)
    log_w, khat = left_out(log_p, targets.fitted, reff)
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
    each = max(n_draws // n_batches, 1)
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
class Table:
    """The layout of the table of guesses: ``d`` (q,) levels, the first ``cut`` make the rows."""

    d: Ints
    cut: int

    @classmethod
    def of(cls, d: Ints) -> "Table":
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


def spreads(
    fits: Sequence[WeightedDraws],
    factor: Array,
    table: Table,
    targets: Targets,
    microdata: Microdata,
    prior: str | TruthFactor,
    *,
    keep: int,
    n_jobs: int,
    tick: Callable[[int], None] = lambda done: None,
) -> list[Spread]:
    """Posterior of every target over its table, target by target."""
    norms = [fit.log_norm for fit in fits]
    spreading = _Spreading(fits, norms, factor, table, targets, microdata, prior, keep)

    def run(which: Sequence[int]) -> Iterator[Spread]:
        jobs = [partial(spreading.one, u) for u in which]
        found = in_order(jobs, n_jobs=n_jobs, what="full table")
        for u, one in zip(which, found, strict=True):
            tick(u + 1)
            yield one

    return in_stages("targets", len(targets), run)


@dataclass(frozen=True, slots=True)
class _Spreading:
    """What every target's table takes."""

    fits: Sequence[WeightedDraws]
    norms: Sequence[Array]
    factor: Array
    table: Table
    targets: Targets
    microdata: Microdata
    prior: str | TruthFactor
    keep: int

    def one(self, u: int) -> Spread:
        """Posterior of one target."""
        table, targets, microdata = self.table, self.targets, self.microdata
        codes = targets.profiles[u, targets.columns].astype(np.int64)
        truth = Truth(
            cell=int(table.cells(codes)),
            near=table.near(codes, 1),
            around=table.near(codes, 2),
            keep=self.keep,
        )
        sums = [
            fit.part.terms(u, targets, microdata.n_levels, fit.log_v[:, u], fit.draws).sums(
                table.cut
            )
            for fit in self.fits
        ]
        given = Fits(sums, self.factor, np.stack([norm[:, u] for norm in self.norms]))
        return spread(
            given,
            _log_prior(self.prior, microdata, targets, u, table),
            _possible(microdata, targets, u, table),
            truth,
        )


def _log_prior(
    prior: str | TruthFactor, microdata: Microdata, targets: Targets, u: int, table: Table
) -> LogPrior:
    """Log prior of rows of the table, up to a constant."""
    if prior == "predictive":
        return lambda rows, base: base
    if prior == "marginal":
        margins = _margins(microdata, targets, u)
        sides = [
            _added(margins[: table.cut], table.half(True)),
            _added(margins[table.cut :], table.half(False)),
        ]
        return lambda rows, base: np.asarray(sides[0][rows, None] + sides[1])
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


def _margins(microdata: Microdata, targets: Targets, u: int) -> list[Array]:
    """Log margins of all levels of each guessed column."""
    one, d = targets.only(np.array([u])), microdata.n_levels[targets.columns]
    return [log_margin(microdata, one, q, np.arange(d[q])[:, None])[:, 0] for q in range(len(d))]


def _added(logs: Sequence[Array], codes: Ints) -> Array:
    total = np.zeros(len(codes))
    for j, log_p in enumerate(logs):
        total += log_p[codes[:, j]]
    return total


def _possible(
    microdata: Microdata, targets: Targets, u: int, table: Table
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
