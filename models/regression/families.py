"""Families of regressions: log densities of many rows under many draws, and draws of values.

Everything is in logs and finite wherever the density is positive. ``eta`` is the linear predictor
``x'beta`` of R rows under H draws, shape (R, H); of nominal outcomes (R, H, K - 1), the first level
being the reference. ``extra`` holds the further parameters of each draw by name. What PyMC
samples is written in `regression_pymc.py`; a test compares the two. Counts are modelled in
`families_of_counts.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import expit, gammaln

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import one_of

from .families_of_counts import Binomial, NegativeBinomial, Poisson

__all__ = [
    "BY_NAME",
    "Bernoulli",
    "Binomial",
    "CategoricalLogit",
    "Family",
    "LogNormal",
    "NegativeBinomial",
    "Normal",
    "OrderedLogit",
    "Poisson",
    "StudentT",
    "family_of",
]

Array = npt.NDArray[np.float64]
Extra = Mapping[str, Array]
HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


class Family(Protocol):
    """What a family tells of itself."""

    @property
    def kind(self) -> str:
        """What it models: "number", "positive", "count" or "category"."""
        ...

    @property
    def extra(self) -> tuple[str, ...]:
        """Names of parameters besides the coefficients; "cut" has one value a threshold."""
        ...

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Array | None) -> Array:
        """log p(y | eta), shape (R, H)."""
        ...

    def draw(
        self, eta: Array, extra: Extra, trials: Array | None, rng: np.random.Generator
    ) -> Array:
        """One value for each row of eta (R, ...), under one draw of the parameters."""
        ...


@dataclass(frozen=True, slots=True)
class Normal:
    """y ~ Normal(eta, sigma)."""

    kind = "number"
    extra = ("sigma",)

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Array | None) -> Array:
        """log p(y | eta), shape (R, H)."""
        sigma = extra["sigma"]
        z = (y[:, None] - eta) / sigma
        z *= z
        z *= -0.5
        z -= np.log(sigma) + HALF_LOG_2PI
        return z

    def draw(
        self, eta: Array, extra: Extra, trials: Array | None, rng: np.random.Generator
    ) -> Array:
        """One value for each row."""
        return rng.normal(eta, extra["sigma"])


@dataclass(frozen=True, slots=True)
class LogNormal:
    """log y ~ Normal(eta, sigma); y > 0."""

    kind = "positive"
    extra = ("sigma",)

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Array | None) -> Array:
        """log p(y | eta), shape (R, H)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            log_y = np.log(y)
        inside = np.where(y > 0, log_y, 0.0)
        density = Normal().log_density(inside, eta, extra, None) - inside[:, None]
        return np.where((y > 0)[:, None], density, -np.inf)

    def draw(
        self, eta: Array, extra: Extra, trials: Array | None, rng: np.random.Generator
    ) -> Array:
        """One value for each row."""
        with np.errstate(over="ignore"):
            value: Array = np.exp(rng.normal(eta, extra["sigma"]))
        return value


@dataclass(frozen=True, slots=True)
class StudentT:
    """y ~ t with nu degrees of freedom, location eta and scale sigma."""

    kind = "number"
    extra = ("sigma", "nu")

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Array | None) -> Array:
        """log p(y | eta), shape (R, H)."""
        sigma, nu = extra["sigma"], extra["nu"]
        half = 0.5 * (nu + 1.0)
        norm = gammaln(half) - gammaln(0.5 * nu) - 0.5 * np.log(np.pi * nu) - np.log(sigma)
        z = (y[:, None] - eta) / sigma
        density: Array = norm - half * np.log1p(z * z / nu)
        return density

    def draw(
        self, eta: Array, extra: Extra, trials: Array | None, rng: np.random.Generator
    ) -> Array:
        """One value for each row."""
        value: Array = eta + extra["sigma"] * rng.standard_t(extra["nu"], size=len(eta))
        return value


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """Two levels; Pr(second level) = logistic(eta)."""

    kind = "category"
    extra = ()

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Array | None) -> Array:
        """log p(y | eta), shape (R, H); y = 0, 1."""
        sign = 1.0 - 2.0 * y
        density: Array = -np.logaddexp(0.0, sign[:, None] * eta)
        return density

    def draw(
        self, eta: Array, extra: Extra, trials: Array | None, rng: np.random.Generator
    ) -> Array:
        """One value for each row."""
        values: Array = (rng.random(len(eta)) < expit(eta)).astype(float)
        return values


@dataclass(frozen=True, slots=True)
class OrderedLogit:
    """Ordered levels, proportional odds: Pr(y <= k) = logistic(cut_k - eta), no intercept."""

    kind = "category"
    extra = ("cut",)

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Array | None) -> Array:
        """log p(y | eta), shape (R, H); levels 0 .. K - 1, thresholds ``cut`` (H, K - 1)."""
        cut = extra["cut"]
        ends = np.full((cut.shape[0], 1), np.inf)
        edges = np.concatenate([-ends, cut, ends], axis=1).T  # shape (K + 1, H)
        k = y.astype(np.int64)
        low, high = edges[k] - eta, edges[k + 1] - eta
        # F(high) - F(low) = F(high) F(-low) (1 - exp(low - high)), F the logistic function
        with np.errstate(invalid="ignore", divide="ignore"):
            between = np.log(-np.expm1(np.minimum(low - high, 0.0)))
        density: Array = between - np.logaddexp(0.0, -high) - np.logaddexp(0.0, low)
        return density

    def draw(
        self, eta: Array, extra: Extra, trials: Array | None, rng: np.random.Generator
    ) -> Array:
        """One value for each row."""
        latent = eta + rng.logistic(size=len(eta))
        return np.searchsorted(extra["cut"], latent).astype(float)


@dataclass(frozen=True, slots=True)
class CategoricalLogit:
    """Nominal levels: Pr(y = k) proportional to exp(eta_k), eta_0 = 0."""

    kind = "category"
    extra = ()

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Array | None) -> Array:
        """log p(y | eta), shape (R, H); levels 0 .. K - 1."""
        k = y.astype(np.int64)
        top = np.maximum(eta.max(axis=2), 0.0)
        total = np.exp(-top) + np.exp(eta - top[:, :, None]).sum(axis=2)
        chosen = np.take_along_axis(eta, np.maximum(k - 1, 0)[:, None, None], axis=2)[:, :, 0]
        density: Array = np.where((k > 0)[:, None], chosen, 0.0) - top - np.log(total)
        return density

    def draw(
        self, eta: Array, extra: Extra, trials: Array | None, rng: np.random.Generator
    ) -> Array:
        """One value for each row of eta (R, K - 1)."""
        full = np.concatenate([np.zeros((len(eta), 1)), eta], axis=1)
        noisy = full + rng.gumbel(size=full.shape)
        values: Array = noisy.argmax(axis=1).astype(float)
        return values


BY_NAME: dict[str, Any] = {
    "normal": Normal,
    "lognormal": LogNormal,
    "student": StudentT,
    "bernoulli": Bernoulli,
    "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
    "ordered": OrderedLogit,
    "categorical": CategoricalLogit,
}


def family_of(given: Any) -> Family:
    """A family by its name, or itself."""
    if isinstance(given, str):
        if given == "binomial":
            raise InputError(
                'family "binomial" needs its number of trials; give models.Binomial(trials=...)'
            )
        made: Family = BY_NAME[one_of("family", given, list(BY_NAME))]()
        return made
    if not hasattr(given, "log_density"):
        raise InputError(
            f"family={given!r} is not known; give one of {sorted(BY_NAME)} or Binomial(trials=...)"
        )
    ready: Family = given
    return ready
