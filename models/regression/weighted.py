"""Normal regression under record weights: what a record adds, with the parameters integrated out.

With p(y | beta, sigma)^w the normal-inverse-gamma prior stays conjugate: X'WX, X'Wy, y'Wy and the
sum of the weights take the place of X'X, X'y, y'y and n. Derivation:
`docs/risk-weighted-synthesis.md`.
"""

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from bayes_risk._core.errors import ModelError

from .conjugate import LEVERAGE, NormalInverseGamma

Array = npt.NDArray[np.float64]


def log_pseudo_predictive(
    known: NormalInverseGamma, x: Array, y: Array, x_star: Array, y_star: Array, weight: Array
) -> Array:
    """log E[p(y* | x*, beta, sigma)^w | data without (x, y) of weight w], shape (G, U).

    ``x`` (U, k), ``y`` (U,), ``weight`` (U,); ``x_star`` (G, U, k), ``y_star`` (G, U). With w = 1
    it is `NormalInverseGamma.log_predictive`.
    """
    V_x = x @ known.V  # shape (U, k)
    left = 1.0 - weight * np.einsum("uk,uk->u", V_x, x)
    if (left < LEVERAGE).any():
        raise ModelError(
            f"{int((left < LEVERAGE).sum())} records alone determine a coefficient, which has no "
            "posterior without them under a flat prior; give finite prior scales"
        )
    error = y - x @ known.mean
    # without i: beta - w V x e / (1 - w h),  V + w V x x'V / (1 - w h),  b - w e^2 / 2(1 - w h)
    cross = np.einsum("guk,uk->gu", x_star, V_x)
    centre = x_star @ known.mean - weight * cross * error / left
    spread = np.einsum("guk,guk->gu", x_star @ known.V, x_star) + weight * cross**2 / left
    a = known.a - 0.5 * weight
    if (a <= 0).any():
        raise ModelError(
            f"records of weight {known.data.n:.3g} in all do not determine {len(known.mean)} "
            "coefficients under a flat prior; give finite prior scales"
        )
    b = np.maximum(known.b - 0.5 * weight * error**2 / left, np.finfo(float).tiny)
    wider = 1.0 + weight * spread  # |V without i| / |V with y* in its place|
    norm = gammaln(a + 0.5 * weight) - gammaln(a) - 0.5 * weight * np.log(2.0 * np.pi * b)
    shift = weight * (y_star - centre) ** 2 / (2.0 * b * wider)
    density: Array = norm - 0.5 * np.log(wider) - (a + 0.5 * weight) * np.log1p(shift)
    return density
