"""Evidence for intruders who know some records, by hand: marginal densities and quadrature.

p(y, Z^(1..m)) = p(y)^(1-m) prod_l p(y, Z^(l)), and p(Z^(1..m) | y*, y_A) is its integral over the
unknown rows, divided by p(y*, y_A).
"""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_t


def log_student(X, y, tau, a, b):
    """log p of outcomes y (..., n) of a normal regression with its conjugate prior."""
    shape = (b / a) * (np.eye(len(X)) + (X * np.asarray(tau) ** 2) @ X.T)
    return multivariate_t(np.zeros(len(X)), shape, df=2 * a).logpdf(y)


def grid(centre, spread, n, reach=7.0):
    """Points and log widths, dense in the middle and far-reaching: sinh of equal steps."""
    t = np.linspace(-reach, reach, n)
    return centre + spread * np.sinh(t), np.log(spread * np.cosh(t) * (t[1] - t[0]))


class OneRegression:
    """A normal regression on standardised scale: X (n, k), y (n,), releases z (m, n)."""

    def __init__(self, X, y, z, tau, a=1.0, b=1.0):
        self.X, self.y, self.z, self.tau, self.a, self.b = X, y, np.asarray(z), tau, a, b

    def log_p(self, rows, y, z=None):
        """log p of some rows' outcomes (..., r), perhaps with a release."""
        X = self.X[rows]
        if z is not None:
            X = np.vstack([X, self.X])
            y = np.concatenate([y, np.broadcast_to(z, (*y.shape[:-1], len(z)))], axis=-1)
        return log_student(X, y, self.tau, self.a, self.b)

    def log_evidence(self, i, guesses, known, n=240):
        """log p(Z^(1..m) | y_i = guess, y_A), relative to nothing; known (n,) records."""
        A = np.setdiff1d(np.flatnonzero(known), [i])
        U = np.setdiff1d(np.arange(len(self.y)), [*A, i])
        rows = np.array([i, *A, *U])
        axes = [grid(self.z[:, j].mean(), 0.3, n) for j in U]
        points, widths = np.zeros((1, 0)), np.zeros(1)
        if len(U):
            mesh = np.meshgrid(*[a for a, _ in axes], indexing="ij")
            points = np.stack(mesh, -1).reshape(-1, len(U))
            widths = np.ravel(sum(np.meshgrid(*[w for _, w in axes], indexing="ij")))
        out = []
        for guess in guesses:
            seen = np.array([guess, *self.y[A]])
            y = np.hstack([np.broadcast_to(seen, (len(points), len(seen))), points])
            total = widths + (1 - len(self.z)) * self.log_p(rows, y)
            for z in self.z:
                total = total + self.log_p(rows, y, z)
            out.append(logsumexp(total) - self.log_p(rows[: len(seen)], seen))
        return np.array(out)


def gaussian_evidence(X, z, y, known, i, guesses, tau, variance):
    """The same in closed form where sigma^2 is known: everything is Gaussian."""
    n, m = len(X), len(z)
    both = np.vstack([X, X])

    def precision(X):
        return np.linalg.inv(variance * (np.eye(len(X)) + (X * np.asarray(tau) ** 2) @ X.T))

    P, Pz = precision(X), precision(both)
    Q = (1 - m) * P + m * Pz[:n, :n]  # of y given the releases
    pull = -Pz[:n, n:] @ np.sum(z, axis=0)
    A = np.setdiff1d(np.flatnonzero(known), [i])
    U = np.setdiff1d(np.arange(n), [*A, i])
    seen = np.array([i, *A])
    before = precision(X[seen])
    out = []
    for guess in guesses:
        v = np.array([guess, *y[A]])
        log_joint = -0.5 * v @ Q[np.ix_(seen, seen)] @ v + pull[seen] @ v
        if len(U):
            left = pull[U] - Q[np.ix_(U, seen)] @ v
            log_joint += 0.5 * left @ np.linalg.solve(Q[np.ix_(U, U)], left)
        out.append(log_joint + 0.5 * v @ before @ v)
    return np.array(out)
