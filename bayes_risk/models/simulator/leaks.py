"""Leaks about single records: a generator that copies one person, and nobody else.

The model that all records share cannot show them. So each record has an effect of its own, on one
feature: e(g), the share of the files with an exact copy of the record with guess g. Given the
shared posterior p of its examples t with drawn guess d_t,

    log p(examples | b) = sum_t [b e_t(d_t) - log sum_g p_t(g) exp(b e_t(g))],

where b is 0, or with prior probability ``rho`` one of `EFFECTS`. ``rho`` is that of largest
likelihood over all records, so that records are pooled; it is 0 unless the log likelihood gains
`SURE`. Records whose drawn values come back as copies are drawn again in the runs that follow:
what is drawn does not depend on what was seen, only whose value it is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayes_risk._core.arrays import Array, Ints

from .ratio import wide

EFFECTS = np.arange(6.0)
STEPS = 50  # of the search for rho
SURE = 3.0


class Copies(NamedTuple):
    """Examples of exact copies: ``place`` (N,) in the pool, ``exact`` (N, G), log p (N, G), drawn.

    ``log_p``: of guesses; minus infinity where there is none.
    """

    place: Ints
    exact: Array
    log_p: Array
    drawn: Ints

    @classmethod
    def joined(cls, parts: Sequence["Copies"]) -> "Copies":
        """Those of several runs."""
        G, both = max(part.exact.shape[1] for part in parts), np.concatenate
        return cls(
            both([part.place for part in parts]),
            both([wide(part.exact, G, 0.0) for part in parts]),
            both([wide(part.log_p, G, -np.inf) for part in parts]),
            both([part.drawn for part in parts]),
        )

    def log_likelihood(self, size: int) -> Array:
        """Of the effects, for each of so many places, (size, effects)."""
        own = self.exact[np.arange(len(self.drawn)), self.drawn]
        out = np.zeros((size, len(EFFECTS)))
        for b, effect in enumerate(EFFECTS[1:], start=1):
            total = (np.exp(self.log_p) * np.exp(effect * self.exact)).sum(axis=1)
            out[:, b] = np.bincount(self.place, effect * own - np.log(total), minlength=size)
        return out


def suspects(copies: Copies, size: int) -> Ints:
    """Places whose examples are more likely with an effect, the likeliest first."""
    gain = np.logaddexp.reduce(copies.log_likelihood(size)[:, 1:], axis=1)
    gain -= np.log(len(EFFECTS) - 1)
    order = np.argsort(-gain, kind="stable")
    return np.asarray(order[gain[order] > 0])


def effects(copies: Copies, size: int) -> Array:
    """Posterior of the effects, for each of so many places, (size, effects)."""
    logs = copies.log_likelihood(size)
    with_one = np.logaddexp.reduce(logs[:, 1:], axis=1) - np.log(len(EFFECTS) - 1)
    rho = 1.0 / size
    for _ in range(STEPS):
        odds = np.log(rho) - np.log1p(-rho) + with_one
        rho = float(np.clip((1.0 / (1.0 + np.exp(-odds))).mean(), 1e-300, 0.5))
    if np.logaddexp(np.log1p(-rho), np.log(rho) + with_one).sum() < SURE:
        rho = 0.0
    with np.errstate(divide="ignore"):
        prior = np.log(np.r_[1.0 - rho, np.full(len(EFFECTS) - 1, rho / (len(EFFECTS) - 1))])
    logs = logs + prior
    return np.asarray(np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None]))


def log_evidence(posterior: Array, exact: Array, log_p: Array) -> tuple[Array, Array]:
    """What effects (U, effects) add to the log evidence of guesses (U, G), and its deviation.

    ``exact`` (U, G); ``log_p`` (U, G): the shared posterior.
    """
    tilted = EFFECTS[:, None, None] * exact  # (effects, U, G)
    total = (np.exp(log_p) * np.exp(tilted)).sum(axis=2)
    with np.errstate(divide="ignore"):
        share = np.log(posterior.T) - np.log(total)
    added = np.logaddexp.reduce(share[..., None] + tilted, axis=0)
    mean = posterior @ EFFECTS
    spread = np.sqrt(np.maximum(posterior @ EFFECTS**2 - mean**2, 0.0))
    return added, spread[:, None] * exact
