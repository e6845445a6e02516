"""Rows of normal regressions imputed one after another, compiled, and what that says of guesses.

Arrays are padded to the widest design, with zeros, which change no quadratic form. ``V`` (k, k) is
the inverse of ``X'X`` and prior precision, ``mean`` (k,) the coefficients, ``xy`` (k,) is ``X'y``.
A row is taken out by the rank-one formulas of `docs/regression.md`.
"""

import math

import numba
import numpy as np
from scipy.special import logsumexp

LEVERAGE = 1e-9
TINY = 1e-300
MIN_PRECISION = 0.1  # of one fit's precision, below which a product of powers is hardly one bell
POINTS, REACH = 20, 4.0
STEPS = np.linspace(-REACH, REACH, 2 * POINTS + 1)
PLACES, LOG_WIDTHS = np.sinh(STEPS), np.log(np.cosh(STEPS) * REACH / POINTS)


@numba.njit(cache=True, nogil=True)
def log_t(distance, scale2, a):
    """log of Student's t with 2 a degrees of freedom, up to a constant; scale2 = 2 b spread."""
    return -0.5 * np.log(scale2) - (a + 0.5) * np.log1p(distance * distance / scale2)


@numba.njit(cache=True, nogil=True)
def product(V, x, out):
    """out = V x; returns x'V x."""
    total = 0.0
    for i in range(x.shape[0]):
        out[i] = 0.0
        for j in range(x.shape[0]):
            out[i] += V[i, j] * x[j]
        total += out[i] * x[i]
    return total


@numba.njit(cache=True, nogil=True)
def moved(V, xy, x, y, sign, side):
    """V and X'y with a row more (sign 1) or less (-1), in place.

    False where the row alone determines a coefficient, and cannot be taken out.
    """
    left = 1.0 + sign * product(V, x, side)
    if left < LEVERAGE:
        return False
    for i in range(x.shape[0]):
        xy[i] += sign * x[i] * y
        for j in range(x.shape[0]):
            V[i, j] -= sign * side[i] * side[j] / left
    return True


@numba.njit(cache=True, nogil=True)
def predictive(V, xy, yy, a, b, x, y, side):
    """log p(y | x, data), up to a constant, the data being V, X'y, y'y; a, b of the posterior."""
    spread = 1.0 + product(V, x, side)
    centre = 0.0
    for i in range(x.shape[0]):
        centre += side[i] * xy[i]
    left_over = b + 0.5 * max(yy - product(V, xy, side), 0.0)
    return log_t(y - centre, max(2.0 * left_over * spread, TINY), a)


@numba.njit(cache=True, nogil=True)
def impute(rng, V, xy, yy, a, b, power, now, proposed, log_ratio):
    """A Metropolis step for every row, in order; False: a row is too heavy to be taken out.

    ``V`` (J, k, k), ``xy`` (J, k), ``yy`` (J,): of the J regressions with all rows as they are,
    changed in place; ``a`` (J,) with one row left out, ``b`` (J,) of the prior. ``now`` and
    ``proposed``: predictors (J, n, k) and outcomes (J, n). ``log_ratio`` (n,): of proposed over
    present row, by all that does not depend on other rows; the rest is p(row | others)^power.
    """
    X, y = now
    other_X, other_y = proposed
    J, n, k = X.shape
    side = np.empty(k)
    kept_V, kept_xy = np.empty((J, k, k)), np.empty((J, k))
    for i in range(n):
        if log_ratio[i] == -math.inf:
            continue
        change = 0.0
        for c in range(J):
            kept_V[c], kept_xy[c] = V[c], xy[c]
            if not moved(V[c], xy[c], X[c, i], y[c, i], -1.0, side):
                return False
            rest = yy[c] - y[c, i] ** 2
            change += predictive(V[c], xy[c], rest, a[c], b[c], other_X[c, i], other_y[c, i], side)
            change -= predictive(V[c], xy[c], rest, a[c], b[c], X[c, i], y[c, i], side)
        if math.log(rng.random()) < log_ratio[i] + power * change:
            for c in range(J):
                yy[c] += other_y[c, i] ** 2 - y[c, i] ** 2
                X[c, i], y[c, i] = other_X[c, i], other_y[c, i]
                moved(V[c], xy[c], X[c, i], y[c, i], 1.0, side)
        else:
            for c in range(J):
                V[c], xy[c] = kept_V[c], kept_xy[c]
    return True


def tempered(posteriors, powers, own, guesses, normed):
    """sum_l powers_l log p_l(row | data without the target's row) of rows, (H, G, U).

    ``posteriors``: V (H, L, k, k), mean (H, L, k), a (L,), b (H, L), of all rows; ``own``: the
    target's row in each draw, (H, U, k) and (H, U); ``guesses``: rows (G, U, k) and (G, U). Also,
    if ``normed``, the log integral over the outcome at the target's own predictors, (H, U), or 0.
    """
    (V, mean, a, b), (own_x, own_y), (x, y) = posteriors, own, guesses
    out, centres, scales = 0.0, [], []
    for l, power in enumerate(powers):
        side = own_x @ V[:, l]  # shape (H, U, k)
        left = np.maximum(1.0 - (side * own_x).sum(axis=-1), LEVERAGE)
        fitted = (own_x @ mean[:, l, :, None])[..., 0]
        error = (own_y - fitted) / left  # from the prediction without the row
        less = np.maximum(b[:, l, None] - 0.5 * error * error * left, TINY)
        centres.append(own_y - error)
        scales.append(2.0 * less / left)
        cross = np.einsum("huk,guk->hgu", side, x)
        centre = np.einsum("hk,guk->hgu", mean[:, l], x) - cross * error[:, None]
        spread = 1.0 + np.einsum("guj,hjk,guk->hgu", x, V[:, l], x, optimize=True)
        scale2 = 2.0 * less[:, None] * (spread + cross * cross / left[:, None])
        out += power * log_t.py_func(y - centre, scale2, a[l] - 0.5)
    norm = log_integral(powers, np.stack(centres), np.stack(scales), a - 0.5) if normed else 0.0
    return out, norm


def log_integral(powers, centre, scale2, df):
    """log of the integral of prod_l t_l(y)^powers_l over y, by steps that grow away from its top.

    The trapezoidal rule on y = middle + width sinh(t): smooth and bell-shaped, so 41 points leave
    1e-6, if the middle and width are roughly those of the product. l is the first axis.
    """
    wide = (slice(None), *[None] * (centre.ndim - 1))
    powers, df = powers[wide], df[wide]
    curvature = (2.0 * df + 1.0) / scale2
    precision, pull = ((powers * x).sum(axis=0) for x in (curvature, curvature * centre))
    plain, plain_pull = (x.mean(axis=0) for x in (curvature, curvature * centre))
    hardly = precision < MIN_PRECISION * plain
    precision, pull = np.where(hardly, plain, precision), np.where(hardly, plain_pull, pull)
    middle, width = pull / precision, 1.0 / np.sqrt(precision)
    y = middle + width * PLACES[(slice(None), *wide[1:])]
    terms = LOG_WIDTHS[(slice(None), *wide[1:])] + np.zeros_like(y)
    for l in range(len(powers)):
        terms += powers[l] * log_t.py_func(y - centre[l], scale2[l], df[l])
    return logsumexp(terms, axis=0) + np.log(width)
