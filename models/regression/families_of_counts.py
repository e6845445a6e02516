"""Families of counts; shapes and conventions are those of `families.py`."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, expit, gammaln

from bayes_risk._core.validate import at_least

Array = npt.NDArray[np.float64]
Extra = Mapping[str, Array]
LARGEST_MEAN = 1e15  # a count beyond this cannot be drawn
LARGEST_ETA = 700.0  # exp of more is infinite


@dataclass(frozen=True, slots=True)
class Binomial:
    """y of a number of trials; Pr(success) = logistic(eta).

    Parameters
    ----------
    trials : int or str
        The same number for all records, or the column that holds it.

    Raises
    ------
    InputError
        A number of trials below 1.

    Examples
    --------
    >>> Binomial(trials=10)
    Binomial(trials=10)
    """

    trials: int | str

    kind = "count"
    extra = ()

    def __post_init__(self) -> None:
        if not isinstance(self.trials, str):
            at_least("trials", self.trials, 1)

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Array | None) -> Array:
        """log p(y | eta), shape (R, H)."""
        assert trials is not None
        possible = (y >= 0) & (y <= trials) & (y == np.round(y))
        k = np.where(possible, y, 0.0)
        ways = gammaln(trials + 1.0) - gammaln(k + 1.0) - gammaln(trials - k + 1.0)
        density = ways[:, None] + k[:, None] * eta - trials[:, None] * np.logaddexp(0.0, eta)
        return np.where(possible[:, None], density, -np.inf)

    def draw(
        self, eta: Array, extra: Extra, trials: Array | None, rng: np.random.Generator
    ) -> Array:
        """One value for each row."""
        assert trials is not None
        return rng.binomial(trials.astype(np.int64), expit(eta)).astype(float)


@dataclass(frozen=True, slots=True)
class Poisson:
    """y ~ Poisson(exp(eta))."""

    kind = "count"
    extra = ()

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Array | None) -> Array:
        """log p(y | eta), shape (R, H)."""
        k, possible = _counts(y)
        density = k[:, None] * eta - _mean(eta) - gammaln(k + 1.0)[:, None]
        return np.where(possible[:, None], density, -np.inf)

    def draw(
        self, eta: Array, extra: Extra, trials: Array | None, rng: np.random.Generator
    ) -> Array:
        """One value for each row."""
        return _poisson(_mean(eta), rng)


@dataclass(frozen=True, slots=True)
class NegativeBinomial:
    """y ~ negative binomial with mean exp(eta) and variance mu + mu^2 / alpha."""

    kind = "count"
    extra = ("alpha",)

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Array | None) -> Array:
        """log p(y | eta), shape (R, H)."""
        k, possible = _counts(y)
        alpha = extra["alpha"]
        count = k[:, None]
        # Gamma(k + alpha) / Gamma(alpha) k! = 1 / k B(k, alpha): alpha may be very large
        with np.errstate(divide="ignore"):
            ways = np.where(count > 0, -np.log(count) - betaln(np.maximum(count, 1.0), alpha), 0.0)
        share = eta - np.log(alpha)  # log of mean / alpha
        density: Array = ways - alpha * np.logaddexp(0.0, share) - count * np.logaddexp(0.0, -share)
        return np.where(possible[:, None], density, -np.inf)

    def draw(
        self, eta: Array, extra: Extra, trials: Array | None, rng: np.random.Generator
    ) -> Array:
        """One value for each row."""
        return _poisson(rng.gamma(extra["alpha"], _mean(eta) / extra["alpha"]), rng)


def _counts(y: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Counts, 0 where y is none, and whether it is one."""
    possible = (y >= 0) & (y == np.round(y))
    return np.where(possible, y, 0.0), possible


def _mean(eta: Array) -> Array:
    """exp(eta), finite."""
    mean: Array = np.exp(np.minimum(eta, LARGEST_ETA))
    return mean


def _poisson(mean: Array, rng: np.random.Generator) -> Array:
    """Counts; infinite where they cannot be drawn, which synthesis reports."""
    counts = rng.poisson(np.minimum(mean, LARGEST_MEAN)).astype(float)
    return np.where(mean > LARGEST_MEAN, np.inf, counts)
