"""Evidence of several releases of normal regressions, the unknown rows imputed.

Wanted is the density of the target's row under p(y_U | y_A, Z^(1..m)), other unknown rows
integrated out. Given these it is g(y*) / c, where c is an integral over one outcome of
g(y*) = p(y* | y_-t)^(1-m) prod_l p(y* | y_-t, Z^(l)), powers of Student densities. Of several
regressions each has its own c, given the row's earlier outcomes as they are in the draw: p(y*) is
E[g(y*) w(y_t) / g(y_t)] for any normalised density w (Chen 1994), and w = prod g / c is one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bayes_risk._core.batches import batch_of_draws
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Predictive, Targets

from .chain import ImputedDraws, joined, run_chains
from .families import LogNormal
from .kernels import tempered
from .predictive import blocks
from .unknown import Unknown, inside, outside

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImputedPosterior:
    """Draws of the unknown rows."""

    unknown: Unknown
    draws: ImputedDraws

    @property
    def n_draws(self) -> int:
        """Number H of draws."""
        return len(self.draws)

    @property
    def n_sweeps(self) -> int:
        """Draws of each chain."""
        return len(self.draws) // self.draws.n_chains

    def predictives(self, targets: Targets, *, rng: np.random.Generator) -> list[Predictive]:
        """One for all regressions: imputed rows tie them together."""
        return [ImputedPredictive.of(self.unknown, self.draws, targets)]

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "ImputedPosterior":
        """As many draws again, chains going on where they stopped."""
        size, old = self.n_sweeps, self.draws
        more = run_chains(
            self.unknown,
            [old.y[(c + 1) * size - 1] for c in range(old.n_chains)],
            draws=size,
            tune=0,
            rng=rng,
            n_jobs=n_jobs,
            tick=lambda done: None,
        )
        chains = [
            joined([_chain(draws, c, size) for draws in (old, more)]) for c in range(old.n_chains)
        ]
        return replace(self, draws=joined(chains))


def _chain(draws: ImputedDraws, c: int, size: int) -> ImputedDraws:
    some = slice(c * size, (c + 1) * size)
    return ImputedDraws(y=draws.y[some], fits=draws.fits[some], n_chains=1, moved=draws.moved)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImputedPredictive:
    """Draws of p(row | other rows, Z^(1..m)), rows as the target's and as guessed.

    Attributes
    ----------
    unknown : Unknown
    draws : ImputedDraws
    tables : sequence of J tuples of arrays
        V (H, m + 1, k, k), mean (H, m + 1, k), a (m + 1,), b (H, m + 1) of each regression: given
        the table alone, and with each data set of the release.
    targets : Targets
    batch : ndarray of int, shape (H,)
    """

    unknown: Unknown
    draws: ImputedDraws
    tables: Sequence[tuple[Array, Array, Array, Array]]
    targets: Targets
    batch: Ints

    @classmethod
    def of(cls, unknown: Unknown, draws: ImputedDraws, targets: Targets) -> "ImputedPredictive":
        """Posteriors of every draw, in closed form."""
        tables = []
        for c, sums in enumerate(unknown.sums):
            found = [one[c] for one in draws.fits]
            V, mean = np.stack([f.V for f in found]), np.stack([f.mean for f in found])
            tables.append((V, mean, sums.a, np.stack([f.b for f in found])))
        return cls(
            unknown=unknown,
            draws=draws,
            tables=tables,
            targets=targets,
            batch=batch_of_draws(len(draws), draws.n_chains),
        )

    def log_truth(self, block: slice) -> Array:
        """log p_h(y_i), shape (H, block)."""
        rows = self.targets.profiles[block].astype(float)[None]  # shape (1, U, p)
        found, norm = self._masses(block, [rows] * len(self.unknown.parts), normed=True)
        total: Array = np.sum(found, axis=0)[:, 0] - norm
        return total

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h p_h(y*) / p_h(y_i): (B, G, block)."""
        codes, cells = self._guesses(block)
        starts = np.flatnonzero(np.diff(self.batch, prepend=-1))
        U, G = log_weights.shape[1], len(cells[0])
        out = np.empty((len(starts), G, U))
        for some in blocks(U, len(self.batch) * G):
            at = slice(block.start + some.start, block.start + some.stop)
            found, _ = self._masses(at, [c[:, some] for c in codes], normed=False)
            total = np.repeat(log_weights[:, None, some], G, axis=1)  # shape (H, G, some)
            for f, cell in zip(found, cells, strict=True):
                total += f[:, cell] - f[:, -1:]
            out[:, :, some] = _log_sums_of_segments(total, starts)
        return out

    def _guesses(self, block: slice) -> tuple[list[Codes], list[Ints]]:
        """By regression: distinct rows with guesses in place, the truth last; which has which."""
        found = [self.targets.rows(part.uses, block) for part in self.unknown.parts]
        truth = self.targets.profiles[block].astype(float)[None]
        return [np.concatenate([codes, truth]) for codes, _ in found], [cell for _, cell in found]

    def _masses(
        self, block: slice, guesses: Sequence[Codes], *, normed: bool
    ) -> tuple[list[Array], Array]:
        """log g of guesses (G_c, U, p) by regression, (H, G_c, U); if ``normed`` log c, (H, U)."""
        m, H, U = self.unknown.m, len(self.draws), guesses[0].shape[1]
        powers = np.array([1.0 - m] + [1.0] * m)
        own, norm = self._own(block), np.zeros((H, U))
        found = []
        for c, part in enumerate(self.unknown.parts):
            G, p = len(guesses[c]), guesses[c].shape[2]
            rows, possible = self._rows(c, guesses[c].reshape(-1, p))
            out = np.zeros((H, G, U))
            pair = rows[0].reshape(G, U, -1), rows[1].reshape(G, U)
            tempered(self.tables[c], powers, self._own_rows(c, own), pair, out, norm, normed)
            if isinstance(part.family, LogNormal):
                out -= rows[1].reshape(G, U) * part.scaling.by + part.scaling.at
            out[:, ~possible.reshape(G, U)] = -np.inf
            found.append(out)
        return found, norm

    def _rows(self, c: int, codes: Codes) -> tuple[tuple[Array, Array], npt.NDArray[np.bool_]]:
        """Predictors and outcome of coded rows as sampled, and which the family allows."""
        part = self.unknown.parts[c]
        values = codes[:, part.column].astype(float)
        positive = values > 0 if isinstance(part.family, LogNormal) else np.ones(len(values), bool)
        y = inside(part, np.where(positive, values, 1.0))
        return (np.ascontiguousarray(self.unknown.predictors(c, codes)), y), positive

    def _own(self, block: slice) -> Codes:
        """The targets' rows in each draw, (H, U, p): their own where known, else as imputed."""
        codes = np.repeat(self.targets.profiles[block][None].astype(float), len(self.draws), axis=0)
        place = _places(self.unknown.records, self.targets.record[block])
        for c, part in enumerate(self.unknown.parts):
            imputed = outside(part, self.draws.y[:, c, place[place >= 0]])
            codes[:, place >= 0, part.column] = imputed
        return codes

    def _own_rows(self, c: int, own: Codes) -> tuple[Array, Array]:
        """Of regression c: predictors (H, U, k) and outcomes (H, U)."""
        H, U, p = own.shape
        k, part = self.unknown.width(c), self.unknown.parts[c]
        if self.unknown.moves(c):
            X = self.unknown.predictors(c, own.reshape(-1, p)).reshape(H, U, k)
        else:
            X = np.repeat(self.unknown.predictors(c, own[0])[None], H, axis=0)
        return np.ascontiguousarray(X), inside(part, own[:, :, part.column])


def _places(records: Ints, wanted: Ints) -> Ints:
    """Where each record stands among the unknown ones (in order); -1: it is known."""
    place = np.minimum(np.searchsorted(records, wanted), max(len(records) - 1, 0))
    if not len(records):
        return np.full(len(wanted), -1)
    return np.where(records[place] == wanted, place, -1)


def _log_sums_of_segments(terms: Array, starts: Ints) -> Array:
    """log sum exp over segments of the first axis, shape (B, ...); overwrites ``terms``."""
    top = np.maximum(np.maximum.reduceat(terms, starts, axis=0), -1e300)
    terms -= np.repeat(top, np.diff(starts, append=len(terms)), axis=0)
    np.exp(terms, out=terms)
    with np.errstate(divide="ignore"):
        sums: Array = np.log(np.add.reduceat(terms, starts, axis=0)) + top
    return sums
