"""Plain NumPy twins of the compiled loops, and simulated tables: slow, short, obviously right."""

import numpy as np
import pandas as pd
from scipy import stats

from bayes_risk._core.matching import Cells
from bayes_risk.matching.boxes import NumericKey


def simulate(n, levels, n_classes=1, *, seed, sharpness=0.5):
    """A table of independent variables within latent classes; every level is declared."""
    rng = np.random.default_rng(seed)
    z = rng.integers(n_classes, size=n)
    columns = {}
    for j, d in enumerate(levels):
        phi = rng.dirichlet(np.full(d, sharpness), n_classes)
        codes = np.array([rng.choice(d, p=phi[k]) for k in z])
        columns[f"x{j}"] = categories(codes, d)
    return pd.DataFrame(columns)


def categories(codes, d):
    """A column with levels l0 .. l(d-1), all of them declared."""
    names = [f"l{c}" for c in range(d)]
    return pd.Categorical.from_codes(codes, pd.Index(names))


def codes_of(table):
    """Level codes of a simulated table, shape (n, p)."""
    return np.column_stack([table[c].cat.codes for c in table]).astype(int)


def label_probabilities(rows, pi, phi):
    """p(z = k | row), shape (n, K); phi[k] is a list of level probabilities by variable."""
    mass = np.array(
        [
            [pi[k] * np.prod([phi[k][j][c] for j, c in enumerate(row)]) for k in range(len(pi))]
            for row in rows
        ]
    )
    return mass / mass.sum(axis=1, keepdims=True)


def stick_weights(n, alpha):
    """E[pi | labels] with class counts n: V_k ~ Beta(1 + n_k, alpha + n_{>k}), V_K = 1."""
    K, weights, rest = len(n), [], 1.0
    for k in range(K - 1):
        after = n[k + 1 :].sum()
        mean = (1.0 + n[k]) / (1.0 + n[k] + alpha + after)
        weights.append(rest * mean)
        rest *= 1.0 - mean
    return np.array([*weights, rest])


def collapsed(units, labels, i, guess, *, K, levels, a, alpha):
    """p(unit i = guess | the other units and their labels); a unit is a list of (column, level).

    Record i is taken out by counting again without it; the values of the guess are then put in one
    after the other, each raising the counts for the next (Polya urn). Shape: a number.
    """
    others = [u for r, u in enumerate(units) if r != i]
    z = [k for r, k in enumerate(labels) if r != i]
    counted = [k for u, k in zip(others, z, strict=True) if u]
    total = 0.0
    weights = stick_weights(np.bincount(counted, minlength=K), alpha)
    for k in range(K):
        mine = [value for u, label in zip(others, z, strict=True) if label == k for value in u]
        mass = weights[k]
        for j, level in guess:
            column = [c for column_, c in mine if column_ == j]
            mass *= (a + column.count(level)) / (levels[j] * a + len(column))
            mine = [*mine, (j, level)]
        total += mass
    return total


def matches_of(u, z, keys):
    """Every target against every record of every release, (m, n_t, n); u (n_t,), z (m, n)."""
    match = z[:, None, :] == u[None, :, None]
    for _, low, high, value in keys:
        shown = value[:, None, :]
        fits = (low[None, :, None] <= shown) & (shown <= high[None, :, None])
        match &= np.isnan(shown) | fits
    return match


def within(y, value, r):
    """A numeric key whose intervals reach r |y| to either side, ends inside."""
    reach = r * np.abs(y)
    return NumericKey(y, y - reach, y + reach, value)


def cells_of(us, *, fallback, certain=True):
    """Cells of unsynthesised keys us (n,), when the targets are the records."""
    _, cell, size = np.unique(us, return_inverse=True, return_counts=True)
    one = np.where(size[cell] == 1, 0, -1)
    return Cells(size[cell], np.ones(len(us), int), one, fallback, certain)


def pareto_smoothed_row(log_weights, size):
    """One row smoothed and its k-hat, by the paper's formulas in plain weights."""
    w = np.exp(log_weights - log_weights.max())
    order = np.argsort(w)
    cutoff = max(w[order[-size - 1]], np.finfo(float).tiny)
    tail = order[w[order] > cutoff]
    n, x = len(tail), w[tail] - cutoff
    if n < 5:
        return log_weights, np.inf
    m = 30 + int(np.sqrt(n))
    b = 1 / x[-1] + (1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3 * x[int(n / 4 + 0.5) - 1])
    k = np.array([np.log1p(-each * x).mean() for each in b])
    log_lik = n * (np.log(-b / k) - k - 1)
    weight = np.exp(log_lik - log_lik.max())
    middle = (b * weight).sum() / weight.sum()
    k = np.log1p(-middle * x).mean()
    sigma, k = -k / middle, (n * k + 5) / (n + 10)
    w[tail] = cutoff + stats.genpareto(k, scale=sigma).ppf((np.arange(n) + 0.5) / n)
    return np.log(np.minimum(w, 1)) + log_weights.max(), k
