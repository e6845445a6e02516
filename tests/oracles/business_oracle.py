"""Small Poisson mixtures of one count by brute force: sums over all labels, alpha by quadrature."""

from functools import cache
from itertools import product

import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln

from bayes_risk.models.mixture.business.competitors import ClassPosterior
from bayes_risk.models.mixture.sampler import run_chains, start_at
from bayes_risk.models.mixture.state import Prior, Rows

CONCENTRATION = (1.0, 1.0)
NODES = stats.gamma.ppf((np.arange(4000) + 0.5) / 4000, CONCENTRATION[0], scale=1.0)


def prior_of(K, shape=0.5, rate=0.02, p=1):
    return Prior(
        n_classes=K,
        concentration=CONCENTRATION,
        shape=np.full(p, shape),
        rate=np.full(p, rate),
        level=1.0,
        starts=np.array([2 * p], dtype=np.int64),
    )


def rows_of(values):
    counts = np.array(values, dtype=float).reshape(len(values), -1)
    n = len(counts)
    levels, reals = np.empty((n, 0), np.int32), np.empty((n, 0))
    return Rows(positions=levels, counts=counts, exposure=np.ones_like(counts), reals=reals)


def nothing(p=1):
    """A row that says nothing."""
    return rows_of([[0.0] * p]).without(np.ones(p, bool), 0)


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
    phi = np.ones((prior.width, prior.n_classes))
    phi[: prior.n_counts] = rows.counts[rng.integers(len(values), size=prior.n_classes)].T + 0.5
    units, starts = rows.units(), [start_at(phi)] * chains
    every = units.only(units.unit)
    drawn = run_chains(prior, every, starts, draws=draws, tune=300, thin=thin, rng=rng)
    return ClassPosterior.of(prior, every, drawn, np.zeros(prior.n_counts, bool), rng=rng)


def relative(log_p):
    """Normalised over the guesses."""
    log_p = np.asarray(log_p)
    return np.exp(log_p - np.logaddexp.reduce(log_p))
