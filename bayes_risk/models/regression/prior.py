"""Priors of regressions, and the scale on which they apply.

Predictors are centred and scaled inside, and so is the outcome of normal, log-normal and Student-t
regressions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import number, positive
from bayes_risk.models.fits.priors import power_scaled_gamma


@dataclass(frozen=True, slots=True)
class RegressionPrior:
    """Priors of one regression, on standardised predictors.

    The outcome is standardised too (its logarithm, if log-normal) for the normal, log-normal and
    Student-t families. Centres and scales come from the confidential table and are part of what the
    intruder is taken to know of the synthesis (S).

    Parameters
    ----------
    intercept, slopes : float
        Standard deviations of the normal priors of intercept (or thresholds) and other
        coefficients, centred at 0 (the intercept of count models at the log mean). In normal and
        log-normal regressions in units of sigma, where infinity means a flat prior.
    sigma2 : tuple of two floats
        Normal, log-normal: shape and rate of the inverse gamma prior of sigma^2.
    sigma : float
        Student-t: scale of the half-normal prior of sigma.
    nu : tuple of two floats
        Student-t: shape and rate of the gamma prior of the degrees of freedom.
    overdispersion : float
        Negative binomial: scale of the half-normal prior of 1 / sqrt(alpha).

    Examples
    --------
    >>> RegressionPrior(slopes=1.0).slopes
    1.0
    """

    intercept: float = 10.0
    slopes: float = 2.5
    sigma2: tuple[float, float] = (1.0, 1.0)
    sigma: float = 1.0
    nu: tuple[float, float] = (2.0, 0.1)
    overdispersion: float = 1.0

    def __post_init__(self) -> None:
        for name in ("intercept", "slopes", "sigma", "overdispersion"):
            if name in ("sigma", "overdispersion") or getattr(self, name) != np.inf:
                positive(name, getattr(self, name))
        if len(self.nu) != 2 or len(self.sigma2) != 2:
            raise InputError(
                "nu", self.nu, f", sigma2={self.sigma2!r}; give shape and rate of each"
            )
        for value in self.nu:
            positive("nu", value)
        for value in self.sigma2:
            number("sigma2", value)
        if min(self.sigma2) < 0 or not np.isfinite(self.sigma2).all():
            raise InputError("sigma2", self.sigma2, "must be finite and not negative")

    @classmethod
    def reference(cls) -> "RegressionPrior":
        """p(beta, sigma^2) proportional to 1 / sigma^2: normal and log-normal regressions only."""
        return cls(intercept=np.inf, slopes=np.inf, sigma2=(0.0, 0.0))

    @property
    def proper(self) -> bool:
        """Whether the coefficients have a proper prior."""
        return bool(np.isfinite([self.intercept, self.slopes]).all())


def power_scaled_prior(prior: RegressionPrior, power: float) -> RegressionPrior:
    """Each prior raised to a power: InverseGamma(p (a + 1) - 1, p b), wider normals."""
    wider = power**-0.5
    shape, rate = prior.sigma2
    if prior.proper and power * (shape + 1.0) < 1.0:
        raise InputError(
            "power",
            power,
            f"makes the inverse gamma prior sigma2={prior.sigma2} improper; give a power of at "
            f"least {1.0 / (shape + 1.0):.3g}",
        )
    return replace(
        prior,
        intercept=wider * prior.intercept,
        slopes=wider * prior.slopes,
        sigma2=(power * (shape + 1.0) - 1.0, power * rate) if prior.proper else prior.sigma2,
        sigma=wider * prior.sigma,
        nu=power_scaled_gamma("nu", prior.nu, power),
        overdispersion=wider * prior.overdispersion,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaling:
    """Centres and scales of predictors (k,) and outcome."""

    centre: Array
    scale: Array
    constant: int  # number of the intercept among the coefficients, or -1
    at: float  # centre of the outcome
    by: float  # and scale

    @classmethod
    def from_design(
        cls, X: Array, outcome: Array | None, constant: int, *, centred: bool
    ) -> "Scaling":
        """Scales of the confidential table; columns without spread are left alone."""
        mean, spread = X.mean(axis=0), X.std(axis=0)
        flat = spread <= 1e-12 * np.maximum(np.abs(mean), 1.0)
        at, by = 0.0, 1.0
        if outcome is not None:
            at = float(outcome.mean()) if centred else at
            by = float(outcome.std() if centred else np.sqrt((outcome**2).mean()))
        centre = np.where(flat, 0.0, mean) if centred else np.zeros_like(mean)
        scale = np.where(flat, 1.0, spread)
        return cls(centre=centre, scale=scale, constant=constant, at=at, by=by)

    def inside(self, X: Array) -> Array:
        """Standardised predictors."""
        return np.asarray((X - self.centre) / self.scale)

    def outside(self, beta: Array, extra: Mapping[str, Array]) -> tuple[Array, dict[str, Array]]:
        """Parameters (H, k, ...) on the original scale, from those that were sampled."""
        scale = self.scale.reshape(-1, *[1] * (beta.ndim - 2))
        slopes = self.by * beta / scale
        shift = np.einsum("hk...,k->h...", slopes, self.centre)
        known = dict(extra)
        if self.constant >= 0:
            slopes[:, self.constant] += self.at - shift
        if "cut" in known:
            known["cut"] = known["cut"] + shift[:, None]
        if "sigma" in known:
            known["sigma"] = known["sigma"] * self.by
        return slopes, known
