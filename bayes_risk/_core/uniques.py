"""Chances that nobody else carries a key, and the mean of ``1/F``, given the sample count.

Letters: ``f`` sample count and ``F`` population count of a cell. Derivations:
``docs/population.md``.
"""

import numpy as np
import numpy.typing as npt
from scipy import special

Reals = npt.NDArray[np.float64]


def poisson_unique(f: Reals, rest: Reals) -> Reals:
    """``Pr(F = 1 | f) = exp(-rest)`` for f = 1, else 0; ``F - f ~ Poisson(rest)``."""
    return np.where(f == 1, np.exp(-rest), 0.0)


def poisson_inverse(f: Reals, rest: Reals) -> Reals:
    r"""Mean of ``1/F`` when ``F - f ~ Poisson(rest)``.

    .. math:: E(1/F \mid f) = \int_0^1 t^{f-1} e^{-r(1-t)}\,dt = {}_1F_1(1;\, f+1;\, -r) / f

    For f = 1 this is ``(1 - exp(-r)) / r``.

    Parameters
    ----------
    f : ndarray
        Sample counts, at least 1.
    rest : ndarray
        Expected number r of others in the population, at least 0.

    Returns
    -------
    ndarray
        Between 0 and 1/f; 1/f for r = 0.

    Examples
    --------
    >>> np.round(poisson_inverse(np.array([1.0, 2.0]), np.array([3.0, 0.0])), 4)
    array([0.3167, 0.5   ])
    """
    return np.asarray(special.hyp1f1(1.0, f + 1.0, -rest) / f)


def negative_binomial_unique(f: Reals, p: Reals) -> Reals:
    """``Pr(F = 1 | f) = p`` for f = 1, else 0; ``F | f`` negative binomial with p."""
    return np.where(f == 1, p, 0.0)


def negative_binomial_inverse(f: Reals, p: Reals) -> Reals:
    r"""Mean of ``1/F`` when F is negative binomial given f: the individual risk of mu-Argus.

    .. math:: E(1/F \mid f) = \int_0^1 \frac{w^{f-1}\, p}{p + (1-p) w}\,dw
              = \frac pf\; {}_2F_1(1, 1;\, f+1;\, 1-p)

    for all f; a series of positive terms. Benedetti & Franconi (1998) write it as
    ``p^f / f 2F1(f, f; f+1; 1-p)``, of which this is Euler's transformation.

    Parameters
    ----------
    f : ndarray
        Sample counts, at least 1.
    p : ndarray
        Sampling rate of the cell, ``f / sum of weights``, in (0, 1].

    Returns
    -------
    ndarray
        Between p/f and 1/f.

    Examples
    --------
    The francdat records of sdcMicro: f = 1 with weights of 17, f = 2 with weights of 110.

    >>> np.round(negative_binomial_inverse(np.array([1.0, 2.0]), np.array([1 / 17, 2 / 110])), 7)
    array([0.1770758, 0.0171443])
    """
    return np.asarray(p / f * special.hyp2f1(1.0, 1.0, f + 1.0, 1.0 - p))
