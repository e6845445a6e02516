"""What the sampler of Poisson mixtures works on: prior, units. Points and draws are latent_state's.

Layout of ``phi[D, K]``, one column a class, as in the latent-class model: first the p rates of the
counts, then their p chances of a structural zero (all 0 where the model has none), then the level
probabilities of the covariates below one another.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountPrior:
    """Hyper-parameters and layout of a Poisson mixture.

    Attributes
    ----------
    n_classes : int
    concentration : tuple of two floats
        Shape and rate of the gamma prior of the concentration.
    shape, rate : ndarray, shape (p,)
        Gamma prior of the rates of each count.
    zeros : tuple of two floats, or None
        Beta prior of the chance of a structural zero; None: there are none.
    level : float
        Every entry of the Dirichlet prior of the covariates' levels.
    starts : ndarray of int, shape (q + 1,)
        Rows of phi where the levels of each of the q covariates begin; the last is D.
    swaps : bool
        Whether a sweep also tries to swap neighbouring classes.
    """

    n_classes: int
    concentration: tuple[float, float]
    shape: Array
    rate: Array
    zeros: tuple[float, float] | None
    level: float
    starts: Ints
    swaps: bool = True

    @property
    def n_counts(self) -> int:
        """Number p of counts."""
        return len(self.shape)

    @property
    def width(self) -> int:
        """Number D of rows of phi."""
        return int(self.starts[-1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountUnits:
    """What the sampler sees: individuals that share one class label, equal ones drawn together.

    A record is a unit; a record that is linked to its own synthetic values is one unit with the
    sums of both and twice the exposure. Given its class k, count j of a unit is a sum of Poisson
    variables with mean ``exposure * rate_kj``.

    Attributes
    ----------
    counts : ndarray, shape (U, p)
        Whole numbers, up to 2**53.
    exposure : ndarray, shape (U, p)
        0 where a unit says nothing of a count.
    positions : ndarray of int, shape (U, q)
        Rows of phi of the covariates' levels; -1 where a unit says nothing of one.
    multiplicity : ndarray of int, shape (U,)
    unit : ndarray of int, shape (n,)
        Unit of each record's own values; -1 for a record that is left out.
    power : ndarray, shape (U,), or None
        Record weights, powers of a pseudo-posterior; None: all 1.
    """

    counts: Array
    exposure: Array
    positions: npt.NDArray[np.int32]
    multiplicity: Ints
    unit: Ints
    power: Array | None = None
