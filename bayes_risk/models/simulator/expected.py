"""What is expected of a record before anything is published: margins of the other records.

A generator has no predictive of its own that anybody knows. Each guessed column stands for itself:
a category by its frequency among the others, with one added to every level; a number by a kernel
density of the others' values (Silverman's bandwidth). Guesses of numbers are placed by it.
"""

import numpy as np

from bayes_risk._core.arrays import Array, Ints
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Targets

POINTS = 2_048  # at which a density is computed; between them it is a straight line
FLOOR = 1e-3  # share of a wide normal density, whose tails end


def log_margins(y: Codes, n_levels: Ints, targets: Targets) -> Array:
    """Log p(y* | y_-i) of the guesses (G, U), columns by themselves."""
    out = np.zeros(targets.guesses.codes.shape[:2])
    for q, j in enumerate(map(int, targets.columns)):
        guesses, own = targets.guesses.codes[..., q], targets.profiles[:, j]
        if d := int(n_levels[j]):
            count = np.bincount(y[:, j].astype(np.int64), minlength=d)[guesses.astype(np.int64)]
            out += np.log((count - (guesses == own) + 1.0) / (len(y) - 1.0 + d))
        else:
            out += _log_density(y[:, j].astype(float), guesses.astype(float), own.astype(float))
    return out


def _log_density(values: Array, guesses: Array, own: Array) -> Array:
    n = len(values)
    low, high = np.quantile(values, [0.25, 0.75])
    spread = min(filter(None, (values.std(), (high - low) / 1.34)), default=1.0)
    width = 0.9 * float(spread) * n**-0.2
    ends = values.min() - 4 * width, values.max() + 4 * width
    line = np.linspace(*ends, POINTS)
    held, at = np.unique(values, return_counts=True)
    total = np.zeros(POINTS)
    for part in range(0, len(held), POINTS):
        some = slice(part, part + POINTS)
        total += _kernel((line[:, None] - held[some]) / width) @ at[some]
    found = np.interp(guesses, line, total, left=0.0, right=0.0)
    found = np.maximum(found - _kernel((guesses - own) / width), 0.0) / ((n - 1) * width)
    far = ends[1] - ends[0]
    wide = (guesses - values.mean()) / far
    logs = np.log(FLOOR / far) - 0.5 * (wide**2 + np.log(2 * np.pi))
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.log(found), logs))


def _kernel(x: Array) -> Array:
    return np.asarray(np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi))
