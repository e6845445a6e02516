"""Generators whose exact evidence anybody can write down; plain NumPy, no code of the package."""

from itertools import product

import numpy as np


class Cells:
    """Levels given a known cell: shares from Dirichlet(a + counts), a value for every row.

    Evidence of a guess g in cell x: log (a + k_g + z_g) - log (a + k_g), k the others of the cell
    with the value, z the released rows of the cell with it.
    """

    def __init__(self, x, n_levels, a):
        self.x, self.levels, self.a = x, n_levels, a
        self.cells = int(x.max()) + 1

    def counts(self, s):
        out = np.zeros((self.cells, self.levels))
        np.add.at(out, (self.x, s), 1)
        return out

    def draw(self, s, rng):
        z, counts = np.empty(len(s), dtype=int), self.counts(s)
        for cell in np.unique(self.x):
            here = self.x == cell
            shares = rng.dirichlet(self.a + counts[cell])
            z[here] = rng.choice(self.levels, here.sum(), p=shares)
        return z

    def log_evidence(self, s, z):
        """(n, levels) of every record of a table s."""
        k = self.counts(s)[self.x]
        k[np.arange(len(s)), s] -= 1
        return np.log(self.a + k + self.counts(z)[self.x]) - np.log(self.a + k)


def posterior(log_p):
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def copying(s, levels, share):
    """Each value copied with a probability, else drawn from the table's own frequencies.

    Exact posterior of every record of ``s`` given released values z, flat prior: function of z.
    """

    def of(z):
        out = np.empty((len(s), levels))
        for i in range(len(s)):
            for g in range(levels):
                y = s.copy()
                y[i] = g
                p = np.bincount(y, minlength=levels) / len(s)
                with np.errstate(divide="ignore"):  # a released value that no record has then
                    out[i, g] = np.log((1 - share) * p[z] + share * (z == y)).sum()
        return posterior(out)

    return of


def tiny(levels, n, p_of_z, statistic):
    """Exact p(g | statistic) of record 0 of n, by summing over all releases; y_-0 all zero.

    ``p_of_z(y)``: probability of each of the levels^n releases; ``statistic(z)``: what is looked
    at. Returns, by value of the statistic, the posterior over guesses under a flat prior.
    """
    found = {}
    for g in range(levels):
        y = (g, *[0] * (n - 1))
        for z in product(range(levels), repeat=n):
            at = found.setdefault(statistic(z), np.zeros(levels))
            at[g] += p_of_z(y, z)
    return {key: p / p.sum() for key, p in found.items()}


class Line:
    """A number given a known one: coefficients and variance drawn as Rubin (1987) has them.

    A file Z given y is a multivariate t around the fitted line, with matrix ``s^2 (I + H)``, whose
    inverse is ``(I - H / 2) / s^2``.
    """

    def __init__(self, x):
        self.X = np.column_stack([np.ones(len(x)), x])
        self.A = np.linalg.inv(self.X.T @ self.X)

    def fitted(self, y):
        beta = self.A @ self.X.T @ y
        return beta, ((y - self.X @ beta) ** 2).sum()

    def draw(self, y, rng):
        beta, square = self.fitted(y)
        variance = square / rng.chisquare(len(y) - 2)
        mean = self.X @ rng.multivariate_normal(beta, variance * self.A)
        return mean + rng.normal(0, np.sqrt(variance), len(y))

    def log_evidence(self, y, Z):
        """Log density (up to a constant) of files Z (m, n)."""
        beta, square = self.fitted(y)
        n, off = len(y), Z - self.X @ beta
        q = (off**2).sum(axis=1) - 0.5 * ((off @ self.X @ self.A @ self.X.T) * off).sum(axis=1)
        return float(((1 - n) * np.log1p(q / square) - 0.5 * n * np.log(square)).sum())
