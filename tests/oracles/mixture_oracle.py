"""Exact evidence of tiny tables of categories, counts and amounts: every labelling, one by one.

Shares no code with the library: families' marginal likelihoods by SciPy, the concentration by
quadrature. Rows are tuples of values; a column is ("category", d), ("count", shape, rate, zeros) or
("normal", m, kappa, a, b).
"""

import itertools

import numpy as np
from scipy.special import betaln, gammaln, logsumexp
from scipy.stats import gamma, nbinom, norm, poisson

NODES = 60


def log_marginal_of(column, values, weights):
    """log of the integral over the parameters of prod p(value)^weight."""
    kind, *prior = column
    values, weights = np.array(values, float), np.array(weights, float)
    told = ~np.isnan(values)
    values, weights = values[told], weights[told]
    if kind == "category":
        d, level = prior
        counts = np.array([weights[values == v].sum() for v in range(d)])
        return float(
            gammaln(d * level)
            - gammaln(d * level + counts.sum())
            + (gammaln(level + counts) - gammaln(level)).sum()
        )
    if kind == "count":
        return log_marginal_of_counts(values, weights, *prior)
    m, kappa, a, b = prior
    n = weights.sum()
    if n == 0:
        return 0.0
    mean = (weights * values).sum() / n
    spread = (weights * (values - mean) ** 2).sum()
    b_n = b + 0.5 * spread + 0.5 * kappa * n * (mean - m) ** 2 / (kappa + n)
    return float(
        gammaln(a + n / 2)
        - gammaln(a)
        + a * np.log(b)
        - (a + n / 2) * np.log(b_n)
        + 0.5 * np.log(kappa / (kappa + n))
        - 0.5 * n * np.log(2 * np.pi)
    )


def log_marginal_of_counts(values, weights, shape, rate, zeros):
    """The same of counts: every set of structural zeros, one by one."""

    def poisson(x, w):
        total = (w * x).sum()
        logs = shape * np.log(rate) - gammaln(shape) - (w * gammaln(x + 1)).sum()
        return logs + gammaln(shape + total) - (shape + total) * np.log(rate + w.sum())

    if zeros is None:
        return float(poisson(values, weights))
    noughts, logs = np.flatnonzero(values == 0), []
    for size in range(len(noughts) + 1):
        for some in itertools.combinations(noughts, size):
            alive = np.ones(len(values), bool)
            alive[list(some)] = False
            chance = betaln(zeros[0] + size, zeros[1] + alive.sum()) - betaln(*zeros)
            logs.append(chance + poisson(values[alive], weights[alive]))
    return float(np.logaddexp.reduce(logs))


def log_labels(labels, weights, K, concentration):
    """log p(labels), concentration integrated out; a record of weight w counts w."""
    n = np.array([sum(w for z, w in zip(labels, weights, strict=True) if z == k) for k in range(K)])
    prior = gamma(concentration[0], scale=1 / concentration[1])
    x, w = np.polynomial.legendre.leggauss(NODES)
    alpha = prior.ppf((x + 1) / 2)
    logs = np.zeros(NODES)
    for k in range(K - 1):
        logs += betaln(1 + n[k], alpha + n[k + 1 :].sum()) - betaln(1, alpha)
    return float(np.log((np.exp(logs) * w / 2).sum()))


def log_density(groups, weights, columns, K, concentration, cache={}):  # noqa: B006
    """log of the joint density of groups of rows, each group in one class."""
    key = (groups, tuple(weights), repr(columns), K, concentration)
    if key in cache:
        return cache[key]
    logs = []
    for labels in itertools.product(range(K), repeat=len(groups)):
        total = log_labels(labels, weights, K, concentration)
        for k in range(K):
            rows = [
                (row, w)
                for group, z, w in zip(groups, labels, weights, strict=True)
                for row in group
                if z == k
            ]
            for j, column in enumerate(columns):
                if rows:
                    values, powers = [r[j] for r, _ in rows], [w for _, w in rows]
                    total += log_marginal_of(column, values, powers)
        logs.append(total)
    cache[key] = float(np.logaddexp.reduce(logs))
    return cache[key]


def log_evidence(y, z, i, guess, columns, K, concentration, *, own=False, weights=None):
    """log p(Z | y* = guess, y_-i) of one data set drawn with fresh classes, or with own ones."""
    table = [tuple(row) for row in y]
    table[i] = tuple(guess)
    weights = np.ones(len(y)) if weights is None else weights
    before = tuple((row,) for row in table)
    if own:
        after, also = tuple((row, tuple(s)) for row, s in zip(table, z, strict=True)), weights
    else:
        after = before + tuple((tuple(s),) for s in z)
        also = np.append(weights, np.ones(len(z)))
    how = columns, K, concentration
    return log_density(after, also, *how) - log_density(before, weights, *how)


def from_prior(rng, columns, K, concentration, size):
    """Log weights of classes and parameters of each column, drawn from the prior."""
    alpha = rng.gamma(concentration[0], 1 / concentration[1], (size, 1))
    left = rng.beta(np.maximum(alpha, 1e-9), 1, (size, K - 1))  # 1 - V
    rest = np.cumprod(np.hstack([np.ones((size, 1)), left]), axis=1)
    pi = rest * np.hstack([1 - left, np.ones((size, 1))])
    drawn = []
    for kind, *prior in columns:
        if kind == "category":
            drawn.append(rng.dirichlet(np.full(prior[0], prior[1]), (size, K)))
        elif kind == "count":
            drawn.append(rng.gamma(prior[0], 1 / prior[1], (size, K)))
        else:
            m, kappa, a, b = prior
            precision = rng.gamma(a, 1 / b, (size, K))
            drawn.append((rng.normal(m, 1 / np.sqrt(kappa * precision)), precision**-0.5))
    return np.log(np.maximum(pi, 1e-300)), drawn


def log_terms(row, columns, of, which):
    """log of pi_k times the densities of the values in columns ``which``, shape (draws, K)."""
    logs, drawn = of
    for j in which:
        x, theta, kind = row[j], drawn[j], columns[j][0]
        if kind == "category":
            logs = logs + np.log(np.maximum(theta[:, :, int(x)], 1e-300))
        else:
            logs = logs + (poisson.logpmf(x, theta) if kind == "count" else norm.logpdf(x, *theta))
    return logs


def given_kept(rng, y, z, i, guesses, columns, K, concentration, *, kept, weights, size=200_000):
    """log p(Z | y* = guess, y_-i) over that of the first guess, and its error, by simulation.

    Of rows drawn given the columns ``kept``: p(Z_i | y_us,i, Theta) has no power, g_i has one.
    """
    of = from_prior(rng, columns, K, concentration, size)
    every = range(len(columns))

    def log_g(row, w):
        return logsumexp(w * log_terms(row, columns, of, every), axis=1)

    others = sum(log_g(y[r], weights[r]) for r in range(len(y)) if r != i)
    release = sum(log_g(row, 1.0) - logsumexp(log_terms(row, columns, of, kept), 1) for row in z)
    value, influence = [], []
    for guess in guesses:
        logs = others + log_g(guess, weights[i])
        before, after = (np.exp(x - x.max()) for x in (logs, logs + release))
        more = (logs + release).max() - logs.max()
        value.append(np.log(after.mean() / before.mean()) + more)
        influence.append(after / after.mean() - before / before.mean())
    error = np.std(np.array(influence) - influence[0], axis=1) / np.sqrt(size)
    return np.array(value) - value[0], error


def log_predictive(x, shape, rate):
    """log of a negative binomial, by SciPy: a check of the marginal of counts."""
    return nbinom(shape, rate / (rate + 1)).logpmf(x)
