"""Poisson mixtures by plain NumPy and by brute force over labels: slow, short, obviously right."""

import itertools

import numpy as np
from scipy import stats
from scipy.special import gammaln, logsumexp

from tests.oracles.label_sums import log_label_prior


def random_theta(rng, prior, scale=10.0):
    """Weights and phi, rates about `scale`."""
    K, p = prior.n_classes, prior.n_counts
    phi = np.ones((prior.width, K))
    phi[:p] = scale * rng.gamma(2.0, 0.5, (p, K))
    if prior.inflation is not None:
        phi[p : 2 * p] = rng.beta(*prior.inflation, (p, K))
    for begin, end in itertools.pairwise(prior.starts):
        phi[begin:end] = rng.dirichlet(np.ones(end - begin), K).T
    return rng.dirichlet(np.ones(K)), phi


def log_label_masses(x, e, rows, pi, phi, prior):
    """log pi_k p(record i | k), shape (n, K)."""
    n, p = x.shape
    out = np.empty((n, len(pi)))
    for i, k in itertools.product(range(n), range(len(pi))):
        out[i, k] = np.log(pi[k]) + sum(np.log(phi[r, k]) for r in rows[i])
        for j in range(p):
            log_mass = stats.poisson(e[i, j] * phi[j, k]).logpmf(x[i, j])
            if prior.inflation is not None:
                log_mass += np.log1p(-phi[p + j, k])
                if x[i, j] == 0:
                    log_mass = np.logaddexp(log_mass, np.log(phi[p + j, k]))
            out[i, k] += log_mass
    return out


def log_gamma_poisson(x, e, shape, rate):
    """log p(x) of counts with one rate, integrated out."""
    total, exposure = x.sum(), e.sum()
    log_p = gammaln(shape + total) - gammaln(shape) + shape * np.log(rate)
    log_p -= (shape + total) * np.log(rate + exposure)
    return log_p + (x * np.log(e) - gammaln(x + 1)).sum()


def log_counts(x, e, shape, rate, zeros):
    """The same where some zeros may be structural: a sum over which of them are."""
    if zeros is None:
        return log_gamma_poisson(x, e, shape, rate)
    a, b = zeros
    where, terms = np.flatnonzero(x == 0), []
    for kinds in itertools.product((False, True), repeat=len(where)):
        alive = np.ones(len(x), bool)
        alive[where[list(kinds)]] = False
        s, f = (~alive).sum(), alive.sum()
        beta = gammaln([a + s, b + f, a + b]).sum() - gammaln([a, b, a + b + s + f]).sum()
        terms.append(beta + log_gamma_poisson(x[alive], e[alive], shape, rate))
    return logsumexp(terms)


def log_marginal(x, e, rows, prior):
    """log p(data), summed over all K^n labelings; rates, levels and weights integrated out."""
    K = prior.n_classes
    labelings = np.array(list(itertools.product(range(K), repeat=len(x))))
    sizes = np.stack([(labelings == k).sum(axis=1) for k in range(K)], axis=1)
    total = log_label_prior(sizes, *prior.concentration)
    for at, labels in enumerate(labelings):
        for k in range(K):
            mine = labels == k
            for j in range(prior.n_counts):
                total[at] += log_counts(
                    x[mine, j], e[mine, j], prior.shape[j], prior.rate[j], prior.inflation
                )
            for q, (begin, end) in enumerate(itertools.pairwise(prior.starts)):
                M = np.bincount(rows[mine, q] - begin, minlength=end - begin)
                a = prior.level
                total[at] += gammaln(a * len(M)) - gammaln(a * len(M) + M.sum())
                total[at] += (gammaln(a + M) - gammaln(a)).sum()
    return logsumexp(total)
