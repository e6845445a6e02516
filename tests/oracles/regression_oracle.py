"""Regressions by hand: designs written out, scales, marginal likelihoods, evidence from them.

Nothing here uses the library's designs, families or conjugate formulas.
"""

import numpy as np
from scipy.special import gammaln
from scipy.stats import multivariate_t


def standardized(X, y):
    """Centres and scales of the confidential table's predictors and outcome.

    Column 0 of X is the intercept where there is one; without one nothing is centred.
    """
    constant = np.ptp(X, axis=0) == 0
    if not constant.any():
        return np.zeros(X.shape[1]), X.std(axis=0), 0.0, np.sqrt((y**2).mean())
    centre, scale = np.where(constant, 0.0, X.mean(axis=0)), np.where(constant, 1.0, X.std(axis=0))
    return centre, scale, y.mean(), y.std()


def log_marginal(X, y, tau, a, b):
    """log p(y | X) of the normal regression with its conjugate prior, up to a constant.

    beta | sigma ~ N(0, sigma^2 diag(tau^2)), sigma^2 ~ InverseGamma(a, b): a multivariate t. With
    an infinite tau the determinants are written out, that coefficient's (infinite) scale left out.
    """
    if np.isfinite(tau).all() and a > 0:
        shape = (b / a) * (np.eye(len(y)) + (X * tau**2) @ X.T)
        return multivariate_t.logpdf(y, loc=np.zeros(len(y)), shape=shape, df=2 * a)
    precision = X.T @ X + np.diag(1 / tau**2)
    beta = np.linalg.solve(precision, X.T @ y)
    a_n = a + (len(y) - np.isinf(tau).sum()) / 2
    b_n = b + 0.5 * (((y - X @ beta) ** 2).sum() + ((beta / tau) ** 2).sum())
    log_det = np.linalg.slogdet(precision)[1]
    return -0.5 * log_det + gammaln(a_n) - a_n * np.log(b_n) - 0.5 * len(y) * np.log(2 * np.pi)


class Normal:
    """One regression of a sequence: `design` makes X (rows, k) of a dict of columns."""

    def __init__(self, name, design, *, intercept=10.0, slopes=2.5, a=1.0, b=1.0, log=False):
        self.name, self.design, self.log = name, design, log
        self.intercept, self.slopes, self.a, self.b = intercept, slopes, a, b

    def outcome(self, columns):
        y = np.asarray(columns[self.name], dtype=float)
        return np.log(y) if self.log else y

    def log_marginal(self, table, *rows):
        """log p of the outcome in stacked rows, scaled as the confidential table says."""
        X0 = self.design(table)
        centre, scale, at, by = standardized(X0, self.outcome(table))
        tau = np.where(np.ptp(X0, axis=0) == 0, self.intercept, self.slopes)
        X = np.vstack([(self.design(r) - centre) / scale for r in rows])
        y = np.concatenate([(self.outcome(r) - at) / by for r in rows])
        return log_marginal(X, y, tau, self.a, self.b)


def columns_of(df, mask=None):
    """A dict of arrays: numbers as floats, everything else as text."""
    part = df if mask is None else df[mask]
    return {
        c: part[c].to_numpy(dtype=float)
        if part[c].dtype.kind in "iuf"
        else part[c].astype(str).to_numpy()
        for c in part
    }


def with_values(columns, i, values):
    """The table with other values of record i."""
    changed = {k: v.copy() for k, v in columns.items()}
    for name, value in values.items():
        changed[name][i] = value
    return changed


def log_evidence(parts, df, releases, i, values, mask=None):
    """sum over releases and regressions of log p(Z, y*, y_-i) - log p(y*, y_-i)."""
    table = columns_of(df)
    guessed = with_values(table, i, values)
    total = 0.0
    for part in parts:
        before = part.log_marginal(table, guessed)
        for Z in releases:
            total += part.log_marginal(table, guessed, columns_of(Z, mask)) - before
    return total


def guess_values(risk, u):
    """Values of the guesses of case u, one dict each; categories as text."""
    return [
        {
            v.name: risk.guesses[g, u, q]
            if not v.n_levels
            else v.labels[int(risk.guesses[g, u, q])]
            for q, v in enumerate(risk.variables)
        }
        for g in range(risk.n_guesses)
    ]
