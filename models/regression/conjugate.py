"""Normal regression with its conjugate prior: exact draws, and predictives in closed form.

On standardised predictors and outcome (`part.py`):

y | beta, sigma ~ Normal(X beta, sigma^2),  beta | sigma ~ Normal(0, sigma^2 diag(tau^2)),
sigma^2 ~ InverseGamma(a, b)

An infinite tau is a flat prior of that coefficient; all flat with a = b = 0 is p(beta, sigma^2)
proportional to 1 / sigma^2. The derivation stands in `docs/regression.md`.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.errors import ModelError

LEVERAGE = 1e-9
COLLINEAR = 1e-12  # share of a predictor that others leave over, below which it is rounding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """What the data say: X'X (k, k), X'y (k,), y'y and n, each a sum over weighted records."""

    xx: Array
    xy: Array
    yy: float
    n: float

    @classmethod
    def from_rows(cls, X: Array, y: Array, weights: Array | None = None) -> "Moments":
        """Moments of rows X (n, k) and outcomes y (n,); with weights (n,) of a pseudo-posterior."""
        if weights is not None:
            WX, Wy = X * weights[:, None], y * weights
            return cls(xx=X.T @ WX, xy=X.T @ Wy, yy=float(y @ Wy), n=float(weights.sum()))
        return cls(xx=X.T @ X, xy=X.T @ y, yy=float(y @ y), n=len(y))

    def plus(self, other: "Moments") -> "Moments":
        """Both together."""
        return Moments(
            xx=self.xx + other.xx, xy=self.xy + other.xy, yy=self.yy + other.yy, n=self.n + other.n
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConjugatePrior:
    """``tau`` (k,) prior scales of the coefficients in units of sigma; ``a``, ``b`` of sigma^2."""

    tau: Array
    a: float
    b: float

    def posterior(self, data: Moments) -> "NormalInverseGamma":
        """p(beta, sigma^2 | data)."""
        precision = data.xx + np.diag(np.where(np.isinf(self.tau), 0.0, self.tau**-2.0))
        V = _inverse(precision)
        mean = V @ data.xy
        a = self.a + 0.5 * (data.n - int(np.isinf(self.tau).sum()))
        b = self.b + 0.5 * max(data.yy - float(mean @ data.xy), 0.0)
        if a <= 0 or b <= 0:
            raise ModelError(
                f"{data.n} records do not determine {len(mean)} coefficients under a flat prior; "
                "give finite prior scales"
            )
        return NormalInverseGamma(prior=self, data=data, mean=mean, V=V, a=a, b=b)


def _inverse(precision: Array) -> Array:
    """The inverse of a positive definite matrix, by its Cholesky root on the scale of its diagonal.

    Rounding may hide that a matrix is singular: the squared diagonal of the root is the share of
    each predictor that the ones before it leave over.
    """
    size = np.sqrt(np.maximum(np.diag(precision), np.finfo(float).tiny))
    try:
        root = np.linalg.cholesky(precision / np.outer(size, size))
    except np.linalg.LinAlgError:
        root = np.zeros_like(precision)
    if not (np.diag(root) ** 2 > COLLINEAR).all():
        raise ModelError(
            "the predictors are collinear and the prior is flat, so the coefficients have no "
            "posterior; give finite prior scales, or drop a predictor"
        )
    half = np.linalg.inv(root) / size
    return np.asarray(half.T @ half)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NormalInverseGamma:
    """A posterior: beta | sigma ~ Normal(mean, sigma^2 V), sigma^2 ~ InverseGamma(a, b)."""

    prior: ConjugatePrior
    data: Moments
    mean: Array
    V: Array
    a: float
    b: float

    def draws(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Independent draws of beta (size, k) and sigma (size,)."""
        sigma = np.sqrt(self.b / rng.gamma(self.a, size=size))
        z = rng.standard_normal((size, len(self.mean)))
        root = np.linalg.cholesky(self.V) if len(self.V) else self.V
        return self.mean + sigma[:, None] * (z @ root.T), sigma

    def log_predictive(
        self,
        x: Array,
        y: Array,
        x_star: Array,
        y_star: Array,
        fitted: Flags | None = None,
        weight: Array | None = None,
    ) -> Array:
        """log p(y* | x*, data without (x, y)) for U records, shape (G, U), a Student-t.

        ``x`` (U, k), ``y`` (U,); ``x_star`` (G, U, k), ``y_star`` (G, U). Each record is taken out
        by rank-one formulas; records that are not ``fitted`` (U,) are not among the data. With
        ``weight`` w (U,) of a pseudo-posterior it is log E[p(y* | x*, beta, sigma)^w] without
        (x, y)^w: `docs/sensitivity.md`.
        """
        w = weight if weight is not None else np.ones(len(y)) if fitted is None else 1.0 * fitted
        V_x = x @ self.V  # shape (U, k)
        left = 1.0 - w * np.einsum("uk,uk->u", V_x, x)
        a = self.a - 0.5 * w
        if (a <= 0).any():
            n = self.data.n
            who = f"{n - 1} records" if weight is None else f"records of weight {n:.3g} in all"
            raise ModelError(
                f"{who} do not determine {len(self.mean)} coefficients under a flat prior; give "
                "finite prior scales"
            )
        if (left < LEVERAGE).any():
            raise ModelError(
                f"{int((left < LEVERAGE).sum())} records alone determine a coefficient, which has "
                "no posterior without them under a flat prior; give finite prior scales"
            )
        error = y - x @ self.mean
        # without i: beta - w V x e / (1 - w h),  V + w V x x'V / (1 - w h),  b - w e^2 / 2(1 - w h)
        cross = np.einsum("guk,uk->gu", x_star, V_x)
        centre = x_star @ self.mean - w * cross * error / left
        inside, outside = np.einsum("guk,guk->gu", x_star @ self.V, x_star), w * cross**2 / left
        b = np.maximum(self.b - 0.5 * w * error**2 / left, np.finfo(float).tiny)
        if weight is None:
            scale2 = 2.0 * b * (1.0 + inside + outside)  # of t with 2a degrees of freedom, times 2a
            norm = gammaln(a + 0.5) - gammaln(a) - 0.5 * np.log(np.pi * scale2)
            return np.asarray(norm - (a + 0.5) * np.log1p((y_star - centre) ** 2 / scale2))
        wider = 1.0 + w * (inside + outside)  # |V without i| / |V with y* in its place|
        norm = gammaln(a + 0.5 * w) - gammaln(a) - 0.5 * w * np.log(2.0 * np.pi * b)
        shift = w * (y_star - centre) ** 2 / (2.0 * b * wider)
        return np.asarray(norm - 0.5 * np.log(wider) - (a + 0.5 * w) * np.log1p(shift))
