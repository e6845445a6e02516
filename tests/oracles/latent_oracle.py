"""Evidence for intruders who know some of the records, by brute force over what the rest may hold.

Nothing here uses the library's kernels. `unknown` are the records besides the target's that are not
known; their values in the synthesised columns are summed over, one by one or as counts.
"""

import itertools

import numpy as np
from scipy.special import gammaln, logsumexp

from tests.oracles.label_sums import density_of, log_marginal, row, theta_from_prior

BATCHES = 20


def fillings(y, unknown, columns, levels):
    """Every table that agrees with y outside the unknown records' synthesised columns."""
    cells = list(itertools.product(*(range(levels[j]) for j in columns)))
    for values in itertools.product(cells, repeat=len(unknown)):
        full = np.array(y)
        for i, cell in zip(unknown, values, strict=True):
            full[i, columns] = cell
        yield full


def units_with(y, Z, own, columns):
    """The table and one data set as units of the oracle."""
    units = [row(r) for r in y]
    if own:
        return [u + row(z[columns], columns) for u, z in zip(units, Z, strict=True)]
    return units + [row(z) for z in Z]


def exact_weaker(y, releases, i, guess, unknown, K, levels, *, own=False, columns=None, **prior):
    """log p(Z^(1..m) | y_i = guess, y_A) by enumeration of tables and of labels.

    sum over y_U of p(y)^(1-m) prod_l p(y, Z^(l)), over sum of p(y); with fresh classes all columns.
    """
    columns = list(range(len(levels))) if columns is None else columns
    y, joint, alone = np.array(y), [], []
    y[i] = guess
    for full in fillings(y, unknown, columns, levels):
        p_y = log_marginal([row(r) for r in full], K, levels, **prior)
        p_z = [
            log_marginal(units_with(full, Z, own, columns), K, levels, **prior) for Z in releases
        ]
        alone.append(p_y)
        joint.append((1 - len(releases)) * p_y + sum(p_z))
    return logsumexp(joint) - logsumexp(alone)


def monte_carlo_weaker(
    y, releases, i, guesses, unknown, K, levels, synthesized, *, draws, rng, prior
):
    """Log evidence relative to the first guess for fresh classes given unsynthesised columns.

    p(y) and p(y, Z^(l)) by draws of Theta from the prior, y_U enumerated; with its standard error,
    from batches of the draws.
    """
    density = density_of(*theta_from_prior(K, levels, draws, rng, prior))
    every = list(range(len(levels)))
    us = [j for j in every if j not in synthesized]
    made = []
    for Z in releases:
        p = np.ones(draws)
        for z in Z:
            below = density(z, us)
            p *= np.divide(density(z, every), below, out=np.zeros(draws), where=below > 0)
        made.append(p)
    batch = np.arange(draws) % BATCHES
    log_e = np.empty((BATCHES + 1, len(guesses)))  # the last: all draws
    for g, guess in enumerate(guesses):
        full, p_y, p_z = np.array(y), [], []
        full[i] = guess
        for table in fillings(full, unknown, synthesized, levels):
            w = np.prod([density(r, every) for r in table], axis=0)
            p_y.append(np.bincount(batch, w))
            p_z.append([np.bincount(batch, w * p) for p in made])
        a = np.column_stack([p_y, np.sum(p_y, axis=1)])  # shape (tables, batches + 1)
        b = np.concatenate([p_z, np.sum(p_z, axis=2, keepdims=True)], axis=2)
        a[:, -1] /= BATCHES
        b[:, :, -1] /= BATCHES
        log_e[:, g] = np.log((a ** (1 - len(made)) * b.prod(axis=1)).sum(axis=0) / a.sum(axis=0))
    relative = log_e - log_e[:, :1]
    return relative[-1], relative[:-1].std(axis=0, ddof=1) / np.sqrt(BATCHES)


def log_counts(n, a):
    """log p of values with counts n (..., d) under a Dirichlet of parameter a, in one order."""
    d = n.shape[-1]
    return (
        gammaln(d * a)
        - gammaln(d * a + n.sum(axis=-1))
        + (gammaln(a + n) - gammaln(a)).sum(axis=-1)
    )


def compositions(total, d):
    """Every vector of d counts with this sum."""
    if d == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, d - 1):
            yield (first, *rest)


def one_column(known, n_unknown, released, a):
    """log p(Z^(1..m) | y*, y_A) of one class and one column, for each of the d guesses.

    ``known`` (d,) counts of A without the target, ``released`` (m, d): the counts of the unknown
    records are summed over, each with its number of orders.
    """
    d, out = len(known), []
    c = np.array(list(compositions(n_unknown, d)))
    orders = gammaln(n_unknown + 1) - gammaln(c + 1).sum(axis=1)
    for guess in range(d):
        n = known + c + (np.arange(d) == guess)
        p_y = log_counts(n, a)
        p_z = sum(log_counts(n + z, a) - p_y for z in released)
        out.append(logsumexp(orders + p_y + p_z) - logsumexp(orders + p_y))
    return np.array(out)
