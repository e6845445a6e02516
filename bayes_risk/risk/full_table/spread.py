"""The posterior of one target over a whole table, from sums that come a stretch of rows at a time.

``log p(y* | Z, A) = log prior(y*) + sum_f c_f log S_f(y*)`` up to a constant, with ``c = -m`` for
the base fit and 1 for each other one; ``S_f = sum_b S_fb`` over batches of draws. A batch alone
would give ``S_fb / v_fb`` for ``S_f / v_f``, v being the sums of weights, so it moves the log of a
cell by ``c_f (r - 1)``, with ``r = (S_fb / S_f) (v_f / v_fb)``, and the log probability of the
truth by ``c_f (r at the truth - sum over cells of p r)``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import variance_of_estimate

Reals = npt.NDArray[np.floating[Any]]
TIE = 1e-4  # in logs; single precision leaves about 1e-6 a fit
STRETCH = 2**18  # cells
FURTHEST = 1e30  # shifts of log odds that single precision can hold


class Sums(Protocol):
    """Sums over the draws of every cell of a table, for one fit and target."""

    @property
    def log_scale(self) -> float:
        """Log of what the sums were divided by."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """Rows C1 and columns C2."""
        ...

    def rows(self, first: int, last: int) -> Reals:
        """Sums of some rows by batch, shape (B, last - first, C2)."""
        ...


class Fits(NamedTuple):
    """Sums of the F fits, the factors c_f, the sums of weights by batch (F, B), in logs."""

    sums: Sequence[Sums]
    factor: Array
    log_norm: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is asked of a posterior: where the truth is, and where its neighbours are.

    ``cell`` of the truth; ``near`` (G1,) and ``around`` (G2,): cells at Hamming distance up to 1
    and up to 2; ``keep``: how many of the likeliest cells to list.
    """

    cell: int
    near: Ints
    around: Ints
    keep: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spread:
    """Posterior of one target over its table, in short.

    ``deviations`` (F, B) of the probability of the truth; ``top`` (k,) the likeliest cells, with
    their log probabilities and log priors; ``rank_span``: ranks of the truth if its log odds were
    two standard errors larger, or smaller.
    """

    n_cells: int
    log_prior: float
    log_probability: float
    deviations: Array
    mcse: float
    mcse_log_odds: float
    rank: float
    rank_span: tuple[float, float]
    prior_rank: float
    within_1: float
    within_2: float
    entropy: float
    eps: float
    top: Ints
    top_log_probability: Array
    top_log_prior: Array


LogPrior = Callable[[slice, Array], Array]


def spread(
    fits: Fits, log_prior: LogPrior, possible: Callable[[slice], Flags] | None, truth: Truth
) -> Spread:
    """Walk through the table once, stretch by stretch, then count.

    ``log_prior(rows, log_base)`` gives the log prior of some rows up to a constant, where
    ``log_base`` is the log predictive of the base fit there; ``possible(rows)`` which cells are
    possible at all.
    """
    walk = _Walk(fits, log_prior, possible, truth)
    for rows in _stretches(fits.sums[0].shape):
        walk.add(rows)
    return walk.result()


def _stretches(shape: tuple[int, int]) -> Iterator[slice]:
    size = max(STRETCH // shape[1], 1)
    for first in range(0, shape[0], size):
        yield slice(first, min(first + size, shape[0]))


class _Stretch(NamedTuple):
    """Log posterior, log prior and log evidence of some rows, and the batches' shares of S_f."""

    log_post: Array
    log_prior: Array
    log_evidence: Array
    shares: list[Reals]


class _Walk:
    """What is kept of a table while its rows go by: one number a cell, and a few sums."""

    def __init__(
        self,
        fits: Fits,
        log_prior: LogPrior,
        possible: Callable[[slice], Flags] | None,
        truth: Truth,
    ) -> None:
        self.fits, self.log_prior, self.possible, self.truth = fits, log_prior, possible, truth
        shape = fits.sums[0].shape
        self.log_post = np.empty(shape, np.float32)
        self.row, self.column = divmod(truth.cell, shape[1])
        at = self._stretch(slice(self.row, self.row + 1))
        here = (0, self.column)
        self.reference, self.at_prior = float(at.log_post[here]), float(at.log_prior[here])
        self.at_shares = np.stack([s[:, 0, self.column] for s in at.shares]).astype(float)
        self.shifts = np.zeros(self.at_shares.shape)  # sum over cells of weight x share, (F, B)
        self.top, self.total = -np.inf, 0.0  # of the weights exp(log_post - top)
        self.prior_top, self.prior_total, self.prior_above = -np.inf, 0.0, 0.0
        self.low, self.high, self.cells = np.inf, -np.inf, 0

    def _stretch(self, rows: slice) -> _Stretch:
        """Everything about some rows; the log posterior less the truth's, once that is known."""
        log_evidence, base, shares = None, None, []
        for f, sums in enumerate(self.fits.sums):
            parts = sums.rows(rows.start, rows.stop)
            total = parts.sum(axis=0)
            logs = np.log(total, dtype=float) + (sums.log_scale - _log_total(self.fits.log_norm[f]))
            parts /= total
            shares.append(parts)
            base = logs if base is None else base
            change = self.fits.factor[f] * logs
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
        top = max(self.top, float(log_post.max()))
        shrink = float(np.exp(self.top - top))
        weight = np.exp(log_post - top).astype(np.float32)
        self.total = self.total * shrink + float(weight.sum(dtype=float))
        moved = [s.reshape(len(s), -1) @ weight.reshape(-1) for s in part.shares]
        self.shifts = self.shifts * shrink + np.stack(moved)
        self.top = top
        self._add_prior(part.log_prior)
        allowed = part.log_prior > -np.inf
        if allowed.any():
            self.low = min(self.low, float(part.log_evidence[allowed].min()))
            self.high = max(self.high, float(part.log_evidence[allowed].max()))
        self.cells += int(allowed.sum())

    def _add_prior(self, log_prior: Array) -> None:
        relative = log_prior - self.at_prior
        top = max(self.prior_top, float(relative.max()))
        shrink = float(np.exp(self.prior_top - top))
        self.prior_total = self.prior_total * shrink + float(np.exp(relative - top).sum())
        self.prior_top = top
        above = float((relative > TIE).sum())
        self.prior_above += above + 0.5 * float((np.abs(relative) <= TIE).sum())

    def result(self) -> Spread:
        """Everything counted, once all rows went by."""
        log_z = self.top + float(np.log(self.total))
        log_prior_z = self.prior_top + float(np.log(self.prior_total))
        flat, truth = self.log_post.reshape(-1), self.truth
        p = float(np.exp(-log_z))
        moved = self._moved()
        se = float(np.sqrt(variance_of_estimate(moved[..., None])[0]))
        log_odds_se = se / max(-float(np.expm1(-log_z)), 1e-300) if se else 0.0
        best = _largest(flat, truth.keep)
        top_log_p = flat[best].astype(float) - log_z
        return Spread(
            n_cells=self.cells,
            log_prior=-log_prior_z,
            log_probability=-log_z,
            deviations=moved * p,
            mcse=se * p,
            mcse_log_odds=log_odds_se,
            rank=self._rank(0.0),
            rank_span=(self._rank(2.0 * log_odds_se), self._rank(-2.0 * log_odds_se)),
            prior_rank=self.prior_above + 0.5,
            within_1=_mass(flat, truth.near, log_z),
            within_2=_mass(flat, truth.around, log_z),
            entropy=_entropy(flat, log_z),
            eps=self.high - self.low,
            top=best,
            top_log_probability=top_log_p,
            top_log_prior=self._priors_of(best) - log_prior_z,
        )

    def _moved(self) -> Array:
        """How far each batch of each fit moves the log probability of the truth, (F, B)."""
        log_norm = self.fits.log_norm
        part = np.exp(log_norm - _log_total(log_norm)[:, None])  # v_fb / v_f
        off: Array = (self.at_shares - self.shifts / self.total) / part
        return np.asarray(self.fits.factor[:, None] * off)

    def _rank(self, shift: float) -> float:
        """Expected rank of the truth, ties in any order, were its log odds larger by ``shift``."""
        shift = float(np.clip(shift, -FURTHEST, FURTHEST))
        above = int(np.count_nonzero(self.log_post > shift + TIE))
        level = int(np.count_nonzero(np.abs(self.log_post - np.float32(shift)) <= TIE))
        if shift:  # the truth itself is not among the cells it is compared with
            return float(1 + above - (shift < -TIE) + 0.5 * level)
        return float(1 + above + 0.5 * max(level - 1, 0))

    def _priors_of(self, cells: Ints) -> Array:
        """Log priors of some cells less the truth's, a row of the table at a time."""
        out, width = np.empty(len(cells)), self.log_post.shape[1]
        for row in np.unique(cells // width):
            these = np.flatnonzero(cells // width == row)
            log_prior = self._stretch(slice(row, row + 1)).log_prior[0] - self.at_prior
            out[these] = log_prior[cells[these] % width]
        return out


def _log_total(log_norm: Array) -> Any:
    return np.logaddexp.reduce(log_norm, axis=-1)


def _largest(values: npt.NDArray[np.float32], k: int) -> Ints:
    """Places of the k largest values, largest first."""
    k = min(k, len(values))
    found = np.argpartition(values, len(values) - k)[len(values) - k :]
    return found[np.lexsort((found, -values[found]))].astype(np.int64)


def _mass(log_post: npt.NDArray[np.float32], cells: Ints, log_z: float) -> float:
    return float(np.exp(log_post[cells].astype(float) - log_z).sum())


def _entropy(log_post: npt.NDArray[np.float32], log_z: float) -> float:
    """Entropy in nats."""
    total = 0.0
    for first in range(0, len(log_post), STRETCH):
        log_p = log_post[first : first + STRETCH].astype(float) - log_z
        log_p = log_p[log_p > -np.inf]
        total -= float((np.exp(log_p) * log_p).sum())
    return max(total, 0.0)
