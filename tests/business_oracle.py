"""Small Poisson mixtures of one count by brute force: sums over all labels, alpha by quadrature."""

from functools import cache
from itertools import product

import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln

from bayes_risk.models.mixture.business.class_posterior import ClassPosterior, Rows
from bayes_risk.models.mixture.categorical.sampler import run_chains, start_at
from bayes_risk.models.mixture.counts.state import CountPrior

CONCENTRATION = (1.0, 1.0)
NODES = stats.gamma.ppf((np.arange(4000) + 0.5) / 4000, CONCENTRATION[0], scale=1.0)


def prior_of(K, shape=0.5, rate=0.02, p=1):
    return CountPrior(
        n_classes=K,
        concentration=CONCENTRATION,
        shape=np.full(p, shape),
        rate=np.full(p, rate),
        zeros=None,
        level=1.0,
        starts=np.array([2 * p], dtype=np.int64),
    )


def rows_of(values):
    counts = np.array(values, dtype=float).reshape(len(values), -1)
    return Rows(
        counts=counts,
        exposure=np.ones_like(counts),
        positions=np.empty((len(counts), 0), np.int32),
    )


@cache
def log_labels(n):
    """log p(labels with class counts n), the stick-breaking weights and alpha integrated out."""
    log_p = np.zeros(len(NODES))
    for k in range(len(n) - 1):
        later = sum(n[k + 1 :])
        log_p += betaln(1 + n[k], NODES + later) - betaln(1, NODES)
    return float(np.log(np.exp(log_p).mean()))


@cache
def log_class(values, A, B):
    """log p(values (a tuple) of one class), its rate integrated out."""
    s, n = sum(values), len(values)
    out = gammaln(A + s) - gammaln(A) + A * np.log(B) - (A + s) * np.log(B + n)
    return out - sum(gammaln(v + 1) for v in values)


def labelled(values, prior):
    """All labellings of the values and log p(labels, values)."""
    K, out = prior.n_classes, {}
    for c in product(range(K), repeat=len(values)):
        members = [tuple(v for v, k in zip(values, c, strict=True) if k == own) for own in range(K)]
        log_p = log_labels(tuple(len(m) for m in members))
        out[c] = log_p + sum(log_class(m, prior.shape[0], prior.rate[0]) for m in members)
    return out


def log_mass(values, prior):
    """log p(values)."""
    return float(np.logaddexp.reduce(list(labelled(list(values), prior).values())))


def learnt(values, prior, *, seed, draws=1500, thin=2, chains=4):
    """What chains on these rows learn."""
    rows, rng = rows_of(values), np.random.default_rng(seed)
    K, p = prior.n_classes, prior.n_counts
    phi = np.zeros((2 * p, K))
    phi[:p] = rows.counts[rng.integers(len(rows), size=K)].T + 0.5
    drawn = run_chains(
        prior, rows.units(), [start_at(phi)] * chains, draws=draws, tune=300, thin=thin, rng=rng
    )
    return ClassPosterior.of(prior, rows, drawn, rng=rng)


def relative(log_p):
    """Normalised over the guesses."""
    log_p = np.asarray(log_p)
    return np.exp(log_p - np.logaddexp.reduce(log_p))
