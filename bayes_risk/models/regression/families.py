"""Priors and families of regressions: density, draws and PyMC's likelihood of each, side by side.

Predictors are centred and scaled inside, and so is the outcome of normal, log-normal and Student-t
regressions. Everything is in logs, finite where densities are positive. ``eta`` is ``x'beta``
of R rows under H draws, shape (R, H); of nominal outcomes (R, H, K - 1), the first level being the
reference. ``extra`` holds the further parameters of each draw by name.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import betaln, expit, gammaln

from bayes_risk._core.arrays import Array, Flags, Rng
from bayes_risk._core.errors import InputError, shown
from bayes_risk._core.validate import one_of, positive, real_number, whole_number
from bayes_risk.models.fits.synthesis import power_scaled_gamma


@dataclass(frozen=True, slots=True)
class RegressionPrior:
    """Priors of one regression, on standardised predictors.

    The outcome is standardised too (its logarithm, if log-normal) for the normal, log-normal and
    Student-t families. Centres and scales come from the confidential table and are part of what the
    intruder is assumed to know of the synthesis (S).

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
                "nu", self.nu, f", sigma2={shown(self.sigma2)}; give shape and rate of each"
            )
        for value in self.nu:
            positive("nu", value)
        for value in self.sigma2:
            real_number("sigma2", value)
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


Extra = Mapping[str, Array]
Trials = Array | None
Data = Mapping[str, Any]
HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)
LARGEST_MEAN = 1e15  # a count beyond this cannot be drawn
LARGEST_ETA = 700.0  # exp of more is infinite


@dataclass(frozen=True, slots=True)
class Family(ABC):
    """What every family tells of itself."""

    kind: ClassVar[str]  # of outcome: "number", "positive", "count" or "category"
    # parameters besides the coefficients; "cut" has one value a threshold
    extra: ClassVar[tuple[str, ...]] = ()
    exact: ClassVar[bool] = False  # whether the posterior is known in closed form
    log_mean: ClassVar[bool] = False  # whether eta is the log of a mean

    @abstractmethod
    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Trials) -> Array:
        """log p(y | eta), shape (R, H); of categories y = 0 .. K - 1."""

    @abstractmethod
    def draw(self, eta: Array, extra: Extra, trials: Trials, rng: Rng) -> Array:
        """One value for each row of eta (R, ...), under one draw of the parameters."""

    def observe(self, pm: Any, eta: Any, data: Data, prior: RegressionPrior, K: int) -> None:
        """Add PyMC's likelihood of K levels, "outcome", and the priors of further parameters."""
        raise TypeError(f"{type(self).__name__} is not sampled: its posterior is in closed form")


class Normal(Family):
    """y ~ Normal(eta, sigma)."""

    kind = "number"
    extra = ("sigma",)
    exact = True

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Trials) -> Array:
        sigma = extra["sigma"]
        z = (y[:, None] - eta) / sigma
        z *= z
        z *= -0.5
        z -= np.log(sigma) + HALF_LOG_2PI
        return z

    def draw(self, eta: Array, extra: Extra, trials: Trials, rng: Rng) -> Array:
        return rng.normal(eta, extra["sigma"])


class LogNormal(Family):
    """log y ~ Normal(eta, sigma); y > 0."""

    kind = "positive"
    extra = ("sigma",)
    exact = True

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Trials) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            log_y = np.log(y)
        inside = np.where(y > 0, log_y, 0.0)
        density = Normal().log_density(inside, eta, extra, None) - inside[:, None]
        return np.where((y > 0)[:, None], density, -np.inf)

    def draw(self, eta: Array, extra: Extra, trials: Trials, rng: Rng) -> Array:
        with np.errstate(over="ignore"):
            value: Array = np.exp(rng.normal(eta, extra["sigma"]))
        return value


class StudentT(Family):
    """y ~ t with nu degrees of freedom, location eta and scale sigma."""

    kind = "number"
    extra = ("sigma", "nu")

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Trials) -> Array:
        sigma, nu = extra["sigma"], extra["nu"]
        half = 0.5 * (nu + 1.0)
        norm = gammaln(half) - gammaln(0.5 * nu) - 0.5 * np.log(np.pi * nu) - np.log(sigma)
        z = (y[:, None] - eta) / sigma
        return np.asarray(norm - half * np.log1p(z * z / nu))

    def draw(self, eta: Array, extra: Extra, trials: Trials, rng: Rng) -> Array:
        return np.asarray(eta + extra["sigma"] * rng.standard_t(extra["nu"], size=len(eta)))

    def observe(self, pm: Any, eta: Any, data: Data, prior: RegressionPrior, K: int) -> None:
        sigma = pm.HalfNormal("sigma", prior.sigma)
        nu = pm.Gamma("nu", *prior.nu)
        pm.StudentT("outcome", nu=nu, mu=eta, sigma=sigma, observed=data["y"])


class Bernoulli(Family):
    """Two levels; Pr(second level) = logistic(eta)."""

    kind = "category"

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Trials) -> Array:
        sign = 1.0 - 2.0 * y
        return np.asarray(-np.logaddexp(0.0, sign[:, None] * eta))

    def draw(self, eta: Array, extra: Extra, trials: Trials, rng: Rng) -> Array:
        return np.asarray((rng.random(len(eta)) < expit(eta)).astype(float))

    def observe(self, pm: Any, eta: Any, data: Data, prior: RegressionPrior, K: int) -> None:
        pm.Bernoulli("outcome", logit_p=eta, observed=data["y"])


@dataclass(frozen=True, slots=True)
class Binomial(Family):
    """y of a number of trials; Pr(success) = logistic(eta).

    Parameters
    ----------
    trials : int or str
        The same number for all records, or the column that holds it.

    Examples
    --------
    >>> Binomial(trials=10)
    Binomial(trials=10)
    """

    trials: int | str

    kind = "count"

    def __post_init__(self) -> None:
        if not isinstance(self.trials, str):
            whole_number("trials", self.trials)

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Trials) -> Array:
        assert trials is not None
        possible = (y >= 0) & (y <= trials) & (y == np.round(y))
        k = np.where(possible, y, 0.0)
        ways = gammaln(trials + 1.0) - gammaln(k + 1.0) - gammaln(trials - k + 1.0)
        density = ways[:, None] + k[:, None] * eta - trials[:, None] * np.logaddexp(0.0, eta)
        return np.where(possible[:, None], density, -np.inf)

    def draw(self, eta: Array, extra: Extra, trials: Trials, rng: Rng) -> Array:
        assert trials is not None
        return rng.binomial(trials.astype(np.int64), expit(eta)).astype(float)

    def observe(self, pm: Any, eta: Any, data: Data, prior: RegressionPrior, K: int) -> None:
        pm.Binomial("outcome", n=data["trials"], logit_p=eta, observed=data["y"])


class Poisson(Family):
    """y ~ Poisson(exp(eta))."""

    kind = "count"
    log_mean = True

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Trials) -> Array:
        k, possible = _counts(y)
        density = k[:, None] * eta - _mean(eta) - gammaln(k + 1.0)[:, None]
        return np.where(possible[:, None], density, -np.inf)

    def draw(self, eta: Array, extra: Extra, trials: Trials, rng: Rng) -> Array:
        return _poisson(_mean(eta), rng)

    def observe(self, pm: Any, eta: Any, data: Data, prior: RegressionPrior, K: int) -> None:
        pm.Poisson("outcome", mu=pm.math.exp(eta), observed=data["y"])


class NegativeBinomial(Family):
    """y ~ negative binomial with mean exp(eta) and variance mu + mu^2 / alpha."""

    kind = "count"
    extra = ("alpha",)
    log_mean = True

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Trials) -> Array:
        k, possible = _counts(y)
        alpha = extra["alpha"]
        count = k[:, None]
        # Gamma(k + alpha) / Gamma(alpha) k! = 1 / k B(k, alpha): alpha may be very large
        with np.errstate(divide="ignore"):
            ways = np.where(count > 0, -np.log(count) - betaln(np.maximum(count, 1.0), alpha), 0.0)
        share = eta - np.log(alpha)  # log of mean / alpha
        density: Array = ways - alpha * np.logaddexp(0.0, share) - count * np.logaddexp(0.0, -share)
        return np.where(possible[:, None], density, -np.inf)

    def draw(self, eta: Array, extra: Extra, trials: Trials, rng: Rng) -> Array:
        return _poisson(rng.gamma(extra["alpha"], _mean(eta) / extra["alpha"]), rng)

    def observe(self, pm: Any, eta: Any, data: Data, prior: RegressionPrior, K: int) -> None:
        alpha = pm.HalfNormal("spread", prior.overdispersion) ** -2.0
        pm.NegativeBinomial("outcome", mu=pm.math.exp(eta), alpha=alpha, observed=data["y"])


class OrderedLogit(Family):
    """Ordered levels, proportional odds: Pr(y <= k) = logistic(cut_k - eta), no intercept."""

    kind = "category"
    extra = ("cut",)

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Trials) -> Array:
        cut = extra["cut"]  # shape (H, K - 1)
        ends = np.full((cut.shape[0], 1), np.inf)
        edges = np.concatenate([-ends, cut, ends], axis=1).T  # shape (K + 1, H)
        k = y.astype(np.int64)
        low, high = edges[k] - eta, edges[k + 1] - eta
        # F(high) - F(low) = F(high) F(-low) (1 - exp(low - high)), F the logistic function
        with np.errstate(invalid="ignore", divide="ignore"):
            between = np.log(-np.expm1(np.minimum(low - high, 0.0)))
        return np.asarray(between - np.logaddexp(0.0, -high) - np.logaddexp(0.0, low))

    def draw(self, eta: Array, extra: Extra, trials: Trials, rng: Rng) -> Array:
        latent = eta + rng.logistic(size=len(eta))
        return np.searchsorted(extra["cut"], latent).astype(float)

    def observe(self, pm: Any, eta: Any, data: Data, prior: RegressionPrior, K: int) -> None:
        cut = pm.Normal(
            "cut",
            0.0,
            prior.intercept,
            shape=K - 1,
            transform=pm.distributions.transforms.ordered,
            initval=first_cuts((K - 1,)),
        )
        pm.CustomDist("outcome", eta, cut, logp=_log_ordered, observed=data["y"])


class CategoricalLogit(Family):
    """Nominal levels: Pr(y = k) proportional to exp(eta_k), eta_0 = 0."""

    kind = "category"

    def log_density(self, y: Array, eta: Array, extra: Extra, trials: Trials) -> Array:
        k = y.astype(np.int64)
        top = np.maximum(eta.max(axis=2), 0.0)
        total = np.exp(-top) + np.exp(eta - top[:, :, None]).sum(axis=2)
        chosen = np.take_along_axis(eta, np.maximum(k - 1, 0)[:, None, None], axis=2)[:, :, 0]
        return np.asarray(np.where((k > 0)[:, None], chosen, 0.0) - top - np.log(total))

    def draw(self, eta: Array, extra: Extra, trials: Trials, rng: Rng) -> Array:
        full = np.concatenate([np.zeros((len(eta), 1)), eta], axis=1)
        noisy = full + rng.gumbel(size=full.shape)
        return np.asarray(noisy.argmax(axis=1).astype(float))

    def observe(self, pm: Any, eta: Any, data: Data, prior: RegressionPrior, K: int) -> None:
        full = pm.math.concatenate([pm.math.zeros_like(eta[:, :1]), eta], axis=1)
        how = {"logp": _log_nominal, "signature": "(k)->(k)"}
        pm.CustomDist("outcome", full, observed=data["y"], **how)


def first_cuts(shape: tuple[int, ...]) -> Array:
    """Thresholds from which chains start."""
    return np.asarray(np.linspace(-1.0, 1.0, shape[0]))


def _counts(y: Array) -> tuple[Array, Flags]:
    """Counts, 0 where y is none, and whether it is one."""
    possible = (y >= 0) & (y == np.round(y))
    return np.where(possible, y, 0.0), possible


def _mean(eta: Array) -> Array:
    """exp(eta), finite."""
    return np.asarray(np.exp(np.minimum(eta, LARGEST_ETA)))


def _poisson(mean: Array, rng: Rng) -> Array:
    """Counts; infinite where they cannot be drawn, which synthesis reports."""
    counts = rng.poisson(np.minimum(mean, LARGEST_MEAN)).astype(float)
    return np.where(mean > LARGEST_MEAN, np.inf, counts)


def _log_nominal(counts: Any, eta: Any) -> Any:
    """Sum over levels of count log softmax(eta): distinct rows of predictors computed once."""
    import pytensor.tensor as pt

    return pt.sum(counts * pt.special.log_softmax(eta, axis=-1), axis=-1)


def _log_ordered(value: Any, eta: Any, cut: Any) -> Any:
    """log(F(cut_k - eta) - F(cut_{k-1} - eta)), ten times as fast as PyMC's OrderedLogistic."""
    import pytensor.tensor as pt

    k, last = pt.cast(value, "int64"), cut.shape[0]
    high, low = cut[pt.minimum(k, last - 1)], cut[pt.maximum(k - 1, 0)]
    below, above = k < last, k > 0
    gap = pt.switch(below & above, high - low, 1.0)
    logp = pt.switch(below, -pt.softplus(eta - high), 0.0)
    logp += pt.switch(above, -pt.softplus(low - eta), 0.0)
    return logp + pt.switch(below & above, pt.log1mexp(-gap), 0.0)


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


def trials_column(family: Any) -> list[str]:
    """The column that holds a binomial outcome's numbers of trials, if one does."""
    trials = getattr(family, "trials", None)
    return [trials] if isinstance(trials, str) else []


def family_of(given: Any) -> Family:
    """A family by its name, or itself."""
    if isinstance(given, Family):
        return given
    if given == "binomial":
        raise InputError(
            'family "binomial" needs its number of trials; give models.Binomial(trials=...)'
        )
    if not isinstance(given, str):
        raise InputError(
            "family", given, f"is not known; give one of {sorted(BY_NAME)} or Binomial(trials=...)"
        )
    named: Family = BY_NAME[one_of("family", given, list(BY_NAME))]()
    return named
