"""The sum of what is unknown in a collapsed tail: exact by convolution, else by a saddlepoint.

A release that collapses a tail shows its total. Who knows the second largest value and that the
target has more is left with ``y* = T - y_2 - (sum of the others)``, and the others lie between the
threshold and the second largest. Derivation in `docs/business.md`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError

Array = npt.NDArray[np.float64]

EXACT_UP_TO = 2**21  # cells of the convolution
TILTS = 64  # centres at which a convolution is taken
TRUSTED = 1e-9  # of the largest mass: below, rounding errors of the transform show
NODES = 4096  # support points of the saddlepoint's sums
EXPONENTS = np.linspace(0.0, 4.0, 17)  # of the power laws that a tail may follow


def belief(others: Any, low: float, high: float, column: str) -> tuple[Array, Array]:
    """What the intruder believes of one other value of the tail, on low < v <= high.

    Parameters
    ----------
    others : frozen distribution, or None
        By default a power law of unknown exponent: proportional to v ** -s, each s of `EXPONENTS`
        as probable as the next. What the total says of s is then learnt, not believed.
    low, high : float
        The threshold, and the second largest value.
    column : str
        Named in errors.

    Returns
    -------
    values : ndarray, shape (V,)
        Whole numbers in steps of 1.
    chances : ndarray, shape (S, V)
        Probabilities that add to 1, one row for each of S equally probable beliefs.

    Raises
    ------
    InputError
        A belief without any mass there.
    """
    values = np.arange(np.floor(low) + 1.0, np.floor(high) + 1.0)
    if others is None:
        relative = np.maximum(values, 0.5) / max(values[0], 0.5)
        powers = relative ** -EXPONENTS[:, None]
        return values, powers / powers.sum(axis=1, keepdims=True)
    if hasattr(others, "pmf"):
        chances = np.asarray(others.pmf(values), dtype=float)
    else:
        chances = np.asarray(others.cdf(values + 0.5) - others.cdf(values - 0.5), dtype=float)
    if not chances.sum() > 0:
        raise InputError(
            f"others gives no probability to values of {column!r} above the threshold {low:g} and "
            f"up to the second largest, {high:g}; give a belief that covers them"
        )
    return values, (chances / chances.sum())[None]


def log_sum_of_others(sums: Array, n: int, values: Array, chances: Array) -> tuple[Array, bool]:
    """log Pr(n independent values add up to each of ``sums``), and whether that is exact.

    Parameters
    ----------
    sums : ndarray, shape (G,)
    n : int
    values, chances : ndarray, shapes (V,) and (S, V)
        As from `belief`: the mean over the S beliefs is taken.

    Returns
    -------
    log_p : ndarray, shape (G,)
        Minus infinity where it cannot be.
    exact : bool
        False: by the saddlepoint approximation, whose relative error is of order 1 / n.
    """
    if n == 0:
        return np.where(sums == 0, 0.0, -np.inf), True
    steps = sums - n * values[0]  # in steps above the least possible sum
    possible = (steps >= 0) & (steps <= n * (len(values) - 1)) & (steps == np.round(steps))
    out = np.full(len(sums), -np.inf)
    exact = is_exact(n, len(values))
    if possible.any():
        added = convolved if exact else saddlepoint
        with np.errstate(divide="ignore"):
            each = [added(steps[possible], n, np.log(row)) for row in chances]
        out[possible] = np.logaddexp.reduce(each, axis=0) - np.log(len(each))
    return out, exact


def is_exact(n: int, n_values: int) -> bool:
    """Whether n values of so many kinds are few enough for the convolution."""
    return n * n_values <= EXACT_UP_TO


def convolved(steps: Array, n: int, log_chances: Array) -> Array:
    """log Pr(sum of n steps) on 0 .. V - 1, by the Fourier transform, tilted to where it is asked.

    A transform has an absolute error; multiplying the chances by exp(t v) moves the mass to the sum
    that is asked for, and dividing by it afterwards is exact.
    """
    size = 1 << int(np.ceil(np.log2(n * (len(log_chances) - 1) + 1)))
    out = np.full(len(steps), -np.inf)
    left = np.argsort(steps, kind="stable")
    for _ in range(TILTS):
        if not len(left):
            break
        centre = steps[left[len(left) // 2]]
        t = tilt(centre, n, log_chances)
        log_tilted = log_chances + t * np.arange(len(log_chances))
        scale = np.logaddexp.reduce(log_tilted)
        spectrum = np.fft.rfft(np.exp(log_tilted - scale), size)
        mass = np.fft.irfft(spectrum**n, size)
        at = mass[steps[left].astype(np.int64)]
        good = at > TRUSTED * mass.max()
        here = left[good]
        out[here] = np.log(at[good]) + n * scale - t * steps[here]
        if not good.any():
            break
        left = left[~good]
    if len(left):
        out[left] = saddlepoint(steps[left], n, log_chances)
    return out


def saddlepoint(steps: Array, n: int, log_chances: Array) -> Array:
    """The same approximately: exp(n K(t) - t s) / sqrt(2 pi n K''(t)) with n K'(t) = s.

    At the two ends of the range, where there is only one way, it is exact.
    """
    v = np.arange(len(log_chances), dtype=float)
    if len(v) > NODES:  # neighbouring values taken together
        edges = np.linspace(0, len(v), NODES + 1).astype(int)[:-1]
        weights = np.exp(log_chances)
        mass = np.add.reduceat(weights, edges)
        v_mean = np.add.reduceat(weights * v, edges) / np.maximum(mass, 1e-300)
        with np.errstate(divide="ignore"):
            log_chances_used, v = np.log(mass), v_mean
    else:
        log_chances_used = log_chances
    out = np.empty(len(steps))
    for g, s in enumerate(steps):
        if s <= 0 or s >= n * (len(log_chances) - 1):
            out[g] = n * (log_chances[0] if s <= 0 else log_chances[-1])
            continue
        t, cumulant, variance = _tilted(s / n, v, log_chances_used)
        out[g] = n * cumulant - t * s - 0.5 * np.log(2 * np.pi * n * max(variance, 1e-12))
    return out


def tilt(centre: float, n: int, log_chances: Array) -> float:
    """The t at which n values with chances tilted by exp(t v) add up to ``centre`` on average."""
    v = np.arange(len(log_chances), dtype=float)
    mean = float(np.clip(centre / n, 1e-6 * v[-1], (1.0 - 1e-6) * v[-1]))
    return _tilted(mean, v, log_chances)[0] if len(v) > 1 else 0.0


def _tilted(mean: float, v: Array, log_chances: Array) -> tuple[float, float, float]:
    """t with K'(t) = mean, K(t), K''(t), by bisection safeguarding Newton's steps."""
    low, high, t = -np.inf, np.inf, 0.0
    span = max(float(v[-1] - v[0]), 1.0)
    total = spread = 0.0
    for _ in range(200):
        log_w = log_chances + t * v
        total = float(np.logaddexp.reduce(log_w))
        w = np.exp(log_w - total)
        here = float(w @ v)
        spread = float(w @ (v - here) ** 2)
        if abs(here - mean) <= 1e-10 * span:
            break
        low, high = (t, high) if here < mean else (low, t)
        step = t + (mean - here) / max(spread, 1e-12 * span**2)
        if not low < step < high:
            step = (
                0.5 * (low + high)
                if np.isfinite(low) and np.isfinite(high)
                else t + np.sign(mean - here) * max(1.0 / span, abs(t))
            )
        t = step
    return t, total, spread
