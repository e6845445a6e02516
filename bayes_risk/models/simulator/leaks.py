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

import numpy as np

from bayes_risk._core.arrays import Array, Ints

EFFECTS = np.arange(6.0)
STEPS = 50  # of the search for rho
SURE = 3.0


def likelihoods(place: Ints, exact: Array, log_p: Array, drawn: Ints, size: int) -> Array:
    """Log likelihood of the effects, for each of so many places, (size, effects).

    Of N examples: ``place`` (N,) in the pool; ``exact`` (N, G); ``log_p`` (N, G) of guesses, minus
    infinity where there is none; ``drawn`` (N,).
    """
    own, out = exact[np.arange(len(drawn)), drawn], np.zeros((size, len(EFFECTS)))
    for b, effect in enumerate(EFFECTS[1:], start=1):
        total = (np.exp(log_p) * np.exp(effect * exact)).sum(axis=1)
        out[:, b] = np.bincount(place, effect * own - np.log(total), minlength=size)
    return out


def _with_one(logs: Array) -> Array:
    """Log likelihood of some effect, (size,)."""
    return np.asarray(np.logaddexp.reduce(logs[:, 1:], axis=1) - np.log(len(EFFECTS) - 1))


def suspects(logs: Array) -> Ints:
    """Places whose examples are more likely with an effect, the likeliest first."""
    gain = _with_one(logs)
    order = np.argsort(-gain, kind="stable")
    return np.asarray(order[gain[order] > 0])


def effects(logs: Array) -> Array:
    """Posterior of the effects, from their log likelihoods, (size, effects)."""
    with_one, rho = _with_one(logs), 1.0 / len(logs)
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
