"""Independent answers: brute force over labels, and plain Monte Carlo over the prior.

Nothing here uses the library's kernels. Tables are tiny: a few records, binary variables, K = 2.
"""

import itertools
from functools import cache

import numpy as np
from scipy.integrate import quad_vec
from scipy.special import betaln, gammaln, logsumexp


def log_label_prior(counts, a, b):
    """log p(labels), counts (L, K): sticks integrated analytically, alpha numerically."""
    K = counts.shape[1]
    after = counts[:, ::-1].cumsum(axis=1)[:, ::-1] - counts

    def integrand(alpha):
        log_p = np.zeros(len(counts))
        for k in range(K - 1):
            log_p += betaln(1 + counts[:, k], alpha + after[:, k]) - betaln(1, alpha)
        return np.exp(log_p + (a - 1) * np.log(alpha) - b * alpha + a * np.log(b) - gammaln(a))

    head, _ = quad_vec(lambda x: integrand(np.exp(x)) * np.exp(x), -60, 6, epsabs=1e-12)
    return np.log(head)


@cache
def every_labeling(N, K, concentration):
    """All labelings (K^N, N) and their log prior probabilities, reckoned once."""
    labelings = np.array(list(itertools.product(range(K), repeat=N)))
    counts, which = np.unique(
        np.stack([(labelings == k).sum(axis=1) for k in range(K)], axis=1),
        axis=0,
        return_inverse=True,
    )
    return labelings, log_label_prior(counts, *concentration)[which.ravel()]


def log_marginal(units, K, levels, concentration, level_prior):
    """log p(data) by summing over all K^N labelings; units: list of lists of (column, level)."""
    labelings, log_labels = every_labeling(len(units), K, tuple(concentration))
    log_p = log_labels.copy()
    for column, d in enumerate(levels):
        for k in range(K):
            M = np.zeros((len(labelings), d))
            for i, unit in enumerate(units):
                for j, level in unit:
                    if j == column:
                        M[:, level] += labelings[:, i] == k
            log_p += gammaln(level_prior * d) - gammaln(level_prior * d + M.sum(axis=1))
            log_p += (gammaln(level_prior + M) - gammaln(level_prior)).sum(axis=1)
    return logsumexp(log_p)


def row(values, columns=None):
    """A record as a unit."""
    columns = range(len(values)) if columns is None else columns
    return [(j, int(v)) for j, v in zip(columns, values, strict=True)]


def exact_log_evidence(y, Z, i, guess, K, levels, *, own=False, columns=None, **prior):
    """log p(Z | y_i = guess, y_-i) for one data set Z, all columns or (own class) some of them."""
    y = np.array(y)
    y[i] = guess
    units = [row(r) for r in y]
    if own:
        joint = [u + row(z[columns], columns) for u, z in zip(units, Z, strict=True)]
    else:
        joint = units + [row(z) for z in Z]
    return log_marginal(joint, K, levels, **prior) - log_marginal(units, K, levels, **prior)


def theta_from_prior(K, levels, draws, rng, prior):
    """Weights (draws, K) and level probabilities, one (draws, K, d) each."""
    (a, b), level_prior = prior["concentration"], prior["level_prior"]
    alpha = rng.gamma(a, 1 / b, draws)
    V = [rng.beta(1, np.maximum(alpha, 1e-12)) for _ in range(K - 1)]
    pi = np.stack([*V, np.ones(draws)], axis=1)
    pi[:, 1:] *= np.cumprod(1 - pi[:, :-1], axis=1)
    return pi, [rng.dirichlet(np.full(d, level_prior), (draws, K)) for d in levels]


def density_of(pi, phi):
    """p(values in these columns | Theta), shape (draws,)."""

    @cache
    def of_cell(cell):
        mass = pi.copy()
        for j, v in cell:
            mass *= phi[j][:, :, v]
        return mass.sum(axis=1)

    def density(values, columns):
        return of_cell(tuple((j, int(values[j])) for j in columns))

    return density


def monte_carlo_log_evidence(y, Z, guesses, K, levels, synthesized, *, draws, rng, prior):
    """log p(Z^s | y_us, y*) for fresh classes given unsynthesised values, by draws from the prior.

    Z (n, p), or (m, n, p) of data sets from one draw. ``guesses`` of each record i. Returns two
    mappings of i: the log evidence of each guess relative to the first, and its standard error.
    """
    density = density_of(*theta_from_prior(K, levels, draws, rng, prior))
    every = list(range(len(levels)))
    us = [j for j in every if j not in synthesized]
    release = np.ones(draws)
    for r, z in itertools.product(range(len(y)), np.array(Z).reshape(-1, *np.shape(y))):
        seen = np.array(y[r])
        seen[synthesized] = z[r][synthesized]
        joint, condition = density(seen, every), density(seen, us)
        release *= np.divide(joint, condition, out=np.zeros(draws), where=condition > 0)
    found, errors = {}, {}
    for i, mine in guesses.items():
        others = np.ones(draws)
        for r in range(len(y)):
            if r != i:
                others *= density(y[r], every)
        values, influence = [], []
        for guess in mine:
            w = others * density(guess, every)
            ratio = (w * release).mean() / w.mean()
            values.append(np.log(ratio))
            influence.append(w * release / (w * release).mean() - w / w.mean())
        value, changes = np.array(values), np.array(influence)
        found[i] = value - value[0]
        errors[i] = (changes - changes[0]).std(axis=1) / np.sqrt(draws)
    return found, errors


def log_dirichlet_multinomial(rows, known, levels, a=1.0):
    """log p(rows | known rows), one class: variables are independent; shapes (., p)."""
    total = 0.0
    for j, d in enumerate(levels):
        before = a + np.bincount(known[:, j], minlength=d)
        after = before + np.bincount(rows[:, j], minlength=d)
        total += (gammaln(after) - gammaln(before)).sum()
        total += gammaln(before.sum()) - gammaln(after.sum())
    return total


def log_bayes_factor(candidate, known, releases, levels):
    """log p(Z | A, c) - log sum over y' of p(y' | A) p(Z | A, y'), one class, by enumeration."""

    def log_release(value):
        rows = np.vstack([known, value])
        return sum(log_dirichlet_multinomial(Z, rows, levels) for Z in releases)

    cells = [np.array([v]) for v in itertools.product(*map(range, levels))]
    somebody = logsumexp(
        [log_dirichlet_multinomial(v, known, levels) + log_release(v) for v in cells]
    )
    return log_release(np.array([candidate])) - somebody
