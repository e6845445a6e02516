"""Log masses of counts with their rate integrated out, exact for counts up to 2**53.

``lgamma`` of 1e13 has an error of 0.05, so differences of it are worthless there. Loader (2000)
writes masses as Stirling errors and deviances, of which none cancels: with
``f(v) = v - log(1 + v)`` and ``delta(x) = log x! - log(sqrt(2 pi x) (x / e)**x)``,

    log NegBin(x; A, B, e)  = -A f(-d / A) - x f(d / x) + delta(A + x) - delta(A) - delta(x)
                              + log(A / ((A + x) 2 pi x)) / 2,   d = (A e - x B) / (B + e),

for ``x | r ~ Poisson(e r)``, ``r ~ Gamma(A, rate B)``. Derivation in `docs/mixtures.md`;
held against sixty digits in `tests/models/test_poisson_predictive.py`.
"""

import math

import numba

NEAR = 0.1
LARGE = 15.0
LOG_2_PI = math.log(2.0 * math.pi)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def stirling_error(x):
    """log Gamma(x + 1) - (x + 1/2) log x + x - log(2 pi) / 2, for x > 0."""
    if x < LARGE:
        return math.lgamma(x + 1.0) - (x + 0.5) * math.log(x) + x - 0.5 * LOG_2_PI
    s = 1.0 / (x * x)
    series = 1.0 / 12.0 - s * (
        1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s * (1.0 / 1188.0)))
    )
    return series / x


@numba.njit(cache=True, nogil=True, error_model="numpy")
def count_constant(x):
    """delta(x) + log(2 pi x) / 2, what a count costs whatever its distribution; 0 for x = 0."""
    if x <= 0.0:
        return 0.0
    return stirling_error(x) + 0.5 * (LOG_2_PI + math.log(x))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def deviance(x, change, expected):
    """x f(change / x), expected being x + change: Loader's bd0, without cancellation.

    Near 0, with r = v / (2 + v): log(1 + v) = 2 atanh r and v - 2 r = v r.
    """
    if expected < NEAR * x:
        return x * math.log(x / expected) + change
    v = change / x
    if v > NEAR or v < -NEAR:
        return x * (v - math.log1p(v))
    r = v / (2.0 + v)
    s = r * r
    tail = 1.0 / 3.0 + s * (
        1.0 / 5.0 + s * (1.0 / 7.0 + s * (1.0 / 9.0 + s * (1.0 / 11.0 + s / 13.0)))
    )
    return x * (r * (v - 2.0 * s * tail))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_poisson(x, mean):
    """log Poisson(x; mean) by Loader's expansion: right to 1e-15 of itself at any size of count."""
    if x == 0.0:
        return -mean
    if x < 16.0:
        return x * math.log(mean) - mean - math.lgamma(x + 1.0)
    return -deviance(x, mean - x, mean) - count_constant(x)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_negative_binomial(x, A, B, e, constant, error):
    """log of the mass of x | r ~ Poisson(e r) with r ~ Gamma(A, rate B), r integrated out."""
    if x == 0.0:
        return -A * math.log1p(e / B)
    share = e / (B + e)
    d = A * share - x * (B / (B + e))
    # A - d = (A + x) B / (B + e) and x + d = (A + x) e / (B + e): each log where it is exact
    total = A + x
    deviances = deviance(A, -d, total * (B / (B + e))) + deviance(x, d, total * share)
    return stirling_error(total) - error - constant + 0.5 * math.log(A / total) - deviances


@numba.njit(cache=True, nogil=True, error_model="numpy")
def count_constants(values, w, out):
    """Of counts x: what E[Poisson(x; e r)^w] has beyond a mass of w x; `count_constant` of w x."""
    for i in range(values.shape[0]):
        x = max(values[i], 0.0)
        out[i, 0], out[i, 1] = 0.0, count_constant(w * x)
        if x > 0.0 and w != 1.0:
            logs = 0.5 * math.log(w * x) - 0.5 * w * math.log(x) + 0.5 * (1.0 - w) * LOG_2_PI
            out[i, 0] = logs + stirling_error(w * x) - w * stirling_error(x)
