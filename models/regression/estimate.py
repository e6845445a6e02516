"""Normal regressions at a point estimate, and how the estimate moves with a guess.

The estimate is the posterior mean of the coefficients, with sigma^2 = b / a of their
normal-inverse-gamma posterior: under flat priors least squares with its residual variance, as
synthpop's ``norm`` has them with ``proper = FALSE``. A release drawn from it says of a guess

log p(Z | Theta-hat(y*, y_-i)) = -R/2 log sigma^2 - (z'z - 2 beta'X'z + beta'X'X beta) / 2 sigma^2,

X and z the R released rows: `docs/evidence.md`.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError, ModelError
from bayes_risk.evidence.contract import Targets

from .conjugate import Moments
from .part import Coefficients
from .posterior import ExactPart, Guessed, HeldPart
from .predictive import blocks

Array = npt.NDArray[np.float64]


def closed(held: HeldPart) -> ExactPart:
    """The regression, if its estimate is known in closed form.

    Raises
    ------
    InputError
        Another family, or draws brought from elsewhere.
    """
    if isinstance(held, ExactPart):
        return held
    raise InputError(
        'parameters="plug-in" is offered for normal and log-normal regressions fitted here; column '
        f"{held.part.name!r} has family {type(held.part.family).__name__}, or draws brought from "
        'elsewhere: use parameters="independent"'
    )


def estimate(held: ExactPart) -> Coefficients:
    """The estimate from the confidential table, as one draw on the original scale."""
    known = held.known
    sigma = np.sqrt([known.b / known.a])
    beta, extra = held.part.scaling.outside(known.mean[None], {"sigma": sigma})
    return Coefficients(beta=beta, extra=extra, n_chains=1)


def log_release_at_estimate(
    held: ExactPart, released: Sequence[Moments], targets: Targets
) -> Array:
    """log p(Z^(l) | Theta-hat(y*, y_-i)) up to a constant, shape (m, G, U), block by block.

    ``released``: moments of each data set's rows. Cost: a k x k system for each guess and target.
    """
    G, U = targets.guesses.codes.shape[:2]
    out = np.empty((len(released), G, U))
    k = len(held.part.design.names)
    for block in blocks(U, G * (k * (k + 2) + targets.profiles.shape[1])):
        out[:, :, block] = _of_block(held, released, targets, block)
    return out


def _of_block(
    held: ExactPart, released: Sequence[Moments], targets: Targets, block: slice
) -> Array:
    star = held.guessed(targets, block)
    beta, s2 = _estimates(held, star, targets.weight[block])
    out = np.empty((len(released), *s2.shape))
    for l, z in enumerate(released):
        fit = z.yy - 2.0 * beta @ z.xy + np.einsum("guk,guk->gu", beta @ z.xx, beta)
        out[l] = np.where(star.possible, -0.5 * (z.n * np.log(s2) + fit / s2), -np.inf)
    return out[:, star.cell]


def _estimates(held: ExactPart, star: Guessed, weight: Array) -> tuple[Array, Array]:
    """beta (G, U, k) and sigma^2 (G, U) with each guess in the place of the target's own row."""
    known, data, tau = held.known, held.known.data, held.known.prior.tau
    x, y, w = star.own.X, star.own.y, weight[None, :, None]
    precision = data.xx + np.diag(np.where(np.isinf(tau), 0.0, tau**-2.0))
    came = star.X[..., :, None] * star.X[..., None, :]  # shape (G, U, k, k)
    xx = precision + w[..., None] * (came - x[:, :, None] * x[:, None, :])
    xy = data.xy + w * (star.X * star.y[..., None] - x * y[:, None])
    yy = data.yy + weight * (star.y**2 - y**2)
    try:
        beta = np.linalg.solve(xx, xy[..., None])[..., 0]
    except np.linalg.LinAlgError as error:
        raise ModelError(
            "a record alone determines a coefficient, which has no estimate with a guess in its "
            "place under a flat prior; give finite prior scales"
        ) from error
    b = known.prior.b + 0.5 * np.maximum(yy - np.einsum("guk,guk->gu", beta, xy), 0.0)
    return beta, np.maximum(b, np.finfo(float).tiny) / known.a
