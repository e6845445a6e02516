"""Regressions that are sampled, integrated by importance sampling with densities of SciPy.

Parameters are unconstrained: coefficients, then logarithms of scales, thresholds as the first one
and logarithms of the gaps. Predictors (and the outcome of Student's t) are standardised by the
confidential table, which is where the priors apply.
"""

import numpy as np
from scipy import optimize, stats
from scipy.special import expit, logsumexp

from tests.oracles.regression_oracle import columns_of, standardized, with_values

IMPOSSIBLE = -1e10  # log density of proposals so far out that SciPy's underflow


def _t(y, eta, theta, k):
    return stats.t.logpdf(y, np.exp(theta[:, k + 1]), eta, np.exp(theta[:, k]))


def _poisson(y, eta, theta, k):
    return stats.poisson.logpmf(y, np.exp(eta))


def _negative_binomial(y, eta, theta, k):
    alpha = np.exp(-2 * theta[:, k])
    return stats.nbinom.logpmf(y, alpha, alpha / (alpha + np.exp(eta)))


def _binomial(y, eta, theta, k):
    return stats.binom.logpmf(y, 10, expit(eta))


def _bernoulli(y, eta, theta, k):
    return stats.bernoulli.logpmf(y, expit(eta))


def cuts(theta, k):
    """Thresholds (S, 2) of three ordered levels."""
    return theta[:, [k, k]] + np.exp(theta[:, [k + 1]]) * [0, 1]


def _ordered(y, eta, theta, k):
    c = cuts(theta, k)
    below = np.stack([0 * eta, expit(c[:, 0] - eta), expit(c[:, 1] - eta), 1 + 0 * eta])
    p = np.diff(below, axis=0)
    return np.log(np.take_along_axis(p, y.astype(int)[None], axis=0)[0])


def _nominal(y, eta, theta, k):
    """eta (2, R, S) of levels 1 and 2."""
    full = np.concatenate([0 * eta[:1], eta])
    chosen = np.take_along_axis(full, y.astype(int)[None], axis=0)[0]
    return chosen - logsumexp(full, axis=0)


class Sampled:
    """One regression: `design` makes X (rows, k) of a dict of columns; `levels`, in order."""

    def __init__(self, name, family, design, prior, *, levels=None):
        self.name, self.family, self.design, self.levels = name, family, design, levels
        self.prior = prior
        self.log_density = {
            "student": _t,
            "poisson": _poisson,
            "negative-binomial": _negative_binomial,
            "binomial": _binomial,
            "bernoulli": _bernoulli,
            "ordered": _ordered,
            "categorical": _nominal,
        }[family]

    def rows(self, table, columns):
        """Standardised predictors and outcome."""
        X0 = self.design(table)
        ordered = self.family == "ordered"  # centred, although there is no intercept
        with_constant = np.column_stack([np.ones(len(X0)), X0]) if ordered else X0
        y0 = table[self.name].astype(float) if self.family == "student" else np.array([-1.0, 1.0])
        centre, scale, at, by = standardized(with_constant, y0)
        if self.family != "student":
            at, by = 0.0, 1.0
        first = int(ordered)
        X = (self.design(columns) - centre[first:]) / scale[first:]
        y = columns[self.name]
        if self.levels is not None:
            y = np.array([self.levels.index(v) for v in y])
        return X, (np.asarray(y, dtype=float) - at) / by

    def location(self, table):
        counts = self.family in ("poisson", "negative-binomial")
        return np.log(table[self.name].mean()) if counts else 0.0

    def shape(self, k):
        """Numbers of coefficients and of parameters."""
        n = 2 * k if self.family == "categorical" else k
        more = {"student": 2, "negative-binomial": 1, "ordered": 2}
        return n, n + more.get(self.family, 0)

    def log_prior(self, theta, k, location):
        """Of unconstrained parameters (S, d), up to nothing: normalised but for thresholds."""
        n, d = self.shape(k)
        p = self.prior
        per = 1 if self.family != "categorical" else 2
        scale = np.full((per, k), p.slopes)
        centre = np.zeros((per, k))
        if self.family != "ordered":
            scale[:, 0], centre[:, 0] = p.intercept, location
        out = stats.norm.logpdf(theta[:, :n], centre.ravel(), scale.ravel()).sum(axis=1)
        if self.family == "student":
            sigma, nu = np.exp(theta[:, n]), np.exp(theta[:, n + 1])
            out += stats.halfnorm.logpdf(sigma, scale=p.sigma) + theta[:, n]
            out += stats.gamma.logpdf(nu, p.nu[0], scale=1 / p.nu[1]) + theta[:, n + 1]
        elif self.family == "negative-binomial":
            out += stats.halfnorm.logpdf(np.exp(theta[:, n]), scale=p.overdispersion) + theta[:, n]
        elif self.family == "ordered":
            out += stats.norm.logpdf(cuts(theta, n), scale=p.intercept).sum(axis=1)
            out += theta[:, n + 1]
        return out

    def log_rows(self, X, y, theta):
        """log density of rows, shape (R, S)."""
        n, _ = self.shape(X.shape[1])
        if self.family == "categorical":
            eta = np.einsum("rk,sck->crs", X, theta[:, :n].reshape(len(theta), 2, -1))
        else:
            eta = X @ theta[:, :n].T
        with np.errstate(all="ignore"):
            out = self.log_density(y[:, None], eta, theta, n)
        return np.where(np.isfinite(out), out, IMPOSSIBLE)

    def log_posterior(self, X, y, theta, location):
        out = self.log_prior(theta, X.shape[1], location) + self.log_rows(X, y, theta).sum(axis=0)
        return np.where(np.isfinite(out), out, IMPOSSIBLE)

    def proposal(self, X, y, location, size, rng):
        """Draws of a wide t around the mode, with log weights posterior / proposal."""
        _, d = self.shape(X.shape[1])
        found = optimize.minimize(
            lambda t: -self.log_posterior(X, y, t[None], location)[0],
            np.zeros(d) + (np.arange(d) == 0) * location,
            method="BFGS",
        )
        at, spread = found.x, 1.3**2 * (found.hess_inv + found.hess_inv.T) / 2
        draws = stats.multivariate_t(at, spread, df=5, seed=rng)
        theta = draws.rvs(size)
        return theta, self.log_posterior(X, y, theta, location) - draws.logpdf(theta)


def log_evidence(part, df, Z, i, values, *, size=8_000, seed=0):
    """log p(Z, y*, y_-i) - log p(y*, y_-i) of guesses relative to the first, and its error.

    Two importance samples, of p(theta | y) and p(theta | y, Z): the densities of the guesses are
    re-weightings of each.
    """
    rng = np.random.default_rng(seed)
    table = columns_of(df)
    location = part.location(table)
    X, y = part.rows(table, table)
    XZ, yZ = part.rows(table, columns_of(Z))
    both = np.vstack([X, XZ]), np.concatenate([y, yZ])
    guesses = [part.rows(table, with_values(table, i, v)) for v in values]
    log_e, deviations = 0.0, 0.0
    for sign, (A, b) in ((-1, (X, y)), (1, both)):
        theta, log_w = part.proposal(A, b, location, size, rng)
        own = part.log_rows(X[[i]], y[[i]], theta)[0]
        star = np.stack([part.log_rows(A[[i]], b[[i]], theta)[0] for A, b in guesses])
        terms = log_w + star - own  # shape (G, S)
        log_e = log_e + sign * (logsumexp(terms, axis=1) - logsumexp(terms[0]))
        w = np.exp(terms - logsumexp(terms, axis=1, keepdims=True)) * size  # mean one
        relative = w - w[0]
        deviations = deviations + relative.var(axis=1) / size
    return log_e, np.sqrt(deviations)
