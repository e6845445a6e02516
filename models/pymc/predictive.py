"""p(y* | theta_h) of guesses, read off the graph of the user's model; to the record's power."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import ModelError
from bayes_risk._core.logspace import log_sum
from bayes_risk.evidence.contract import Targets

from .density import Engine, Theta, chunks

REMEMBERED = 8  # blocks
PAIRS = 8192  # guesses weighed at a time: 4 MB an array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PyMCPredictive:
    """Draws of p(y* | theta_h) for the U targets; nothing is integrated out.

    With record weights, p(y* | theta_h) to the power of the target's.

    ``batch`` (H,) numbers halves of chains; ``theta`` holds the draws by name.
    """

    engine: Engine
    theta: Theta
    targets: Targets
    batch: Ints
    truths: dict[tuple[int, int], Array] = field(default_factory=dict)  # of blocks just seen

    def log_truth(self, block: slice) -> Array:
        """log p(y_i | theta_h), all observed variables of the row, to its power; shape (H, U)."""
        with self.engine.lock:
            key = (block.start, block.stop)
            if key not in self.truths:
                while len(self.truths) >= REMEMBERED:
                    self.truths.pop(next(iter(self.truths)))
                self.truths[key] = self._log_truth(block)
            return self.truths[key]

    def _log_truth(self, block: slice) -> Array:
        columns = self.engine.builder.columns
        log_p = self.engine.log_p(self.targets.profiles[block], self.theta, columns)
        if not np.isfinite(log_p).all():
            u = int(np.argmax(~np.isfinite(log_p).all(axis=0)))
            record = self.engine.builder.microdata.index[self.targets.record[block][u]]
            raise ModelError(
                f"record {record!r} has density zero at some draws of the parameters, so it cannot "
                "be left out of the fit by a weight; give the model a likelihood that allows every "
                "value the table holds"
            )
        return log_p * self.targets.weight[block]

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log sum over a batch of weights_h p(y*|theta_h) / p(y_i|theta_h), shape (B, G, U)."""
        rows, pair = self._rows(block)
        shape = self.targets.guesses.codes[:, block].shape[:2]
        out = np.full((self.batch.max() + 1, shape[0] * shape[1]), -np.inf)
        log_v = log_weights - self.log_truth(block)  # shape (H, U)
        order = np.argsort(pair, kind="stable")
        order = order[pair[order] >= 0]
        for some_rows, log_p in self.engine.blocks(rows, self.engine.builder.columns, self.theta):
            first, last = np.searchsorted(pair[order], [some_rows.start, some_rows.stop])
            for a in range(first, last, PAIRS):
                some = order[
                    a : min(a + PAIRS, last)
                ]  # places in (G, U) with a guess of this block
                power = self.targets.weight[block][some % shape[1]]
                self._add(out, log_p, some, (pair[some] - some_rows.start, power), log_v)
        return out.reshape(-1, *shape)

    def _rows(self, block: slice) -> tuple[Array, Ints]:
        """Distinct rows to evaluate, and which of them each guess (G x U) is; -1: not counted."""
        t = self.targets
        codes, cell = t.rows(frozenset(t.columns.tolist()), block)  # shape (G', U, p)
        flat = codes[cell].reshape(-1, codes.shape[2]).astype(float, copy=False)
        counted = t.guesses.counted[:, block].ravel()
        rows, where = np.unique(flat[counted], axis=0, return_inverse=True)
        pair = np.full(len(flat), -1, dtype=np.int64)
        pair[counted] = where.ravel()
        return rows, pair

    def _add(
        self,
        out: Array,
        log_p: Callable[[slice], Array],
        places: Ints,
        guess: tuple[Ints, Array],
        log_v: Array,
    ) -> None:
        """Add what the draws say of some guesses (their rows, their powers), in logs."""
        u, (rows, power) = places % log_v.shape[1], guess
        for b in range(len(out)):
            inside = np.flatnonzero(self.batch == b)  # consecutive: half a chain
            for h in chunks(int(inside[0]), int(inside[-1]) + 1):
                terms = log_p(h)[:, rows] * power + log_v[h][:, u]
                out[b, places] = np.logaddexp(out[b, places], log_sum(terms))
