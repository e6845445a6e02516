"""Posteriors of regressions in sequence, part by part (parts are independent a posteriori).

A guess may be the outcome of one regression and a predictor of later ones, so each row is written
out in full and goes through every formula in which it stands.

*Plug-in.* The estimate of a normal regression is the posterior mean with sigma^2 = b / a. A guess
y* in the row x* of a record (x, y) moves it, and the R released rows (X_z, z) say of the guess

    beta(y*) = (D + X'X - x x' + x* x*')^-1 (X'y - x y + x* y*),     D the prior precision,
    log p(Z|y*) = -R/2 log sigma^2(y*) - |z - X_z beta(y*)|^2 / 2 sigma^2(y*).

*The normal regression in closed form.* On the standardised scale, with Lambda_0 = diag(tau^-2)
(zero if flat) and k_flat flat coefficients,

    V = (X'X+Lambda_0)^-1,   b = V X'y,   a_n = a + (n-k_flat) / 2,   b_n = b_0 + (y'y-b'X'y) / 2.

*Without record i* (row x, outcome y), by the Sherman-Morrison formula with h = x'Vx, e = y - x'b:

    V_-i = V + V x x'V / (1-h),   b_-i = b - V x e / (1-h),
    a_-i = a_n - 1/2,   b_n,-i = b_n - e^2 / 2(1-h).

The predictive of a guess (x*, y*) is Student-t with 2 a_-i degrees of freedom, location x*'b_-i and
squared scale (b_n,-i / a_-i)(1 + x*'V_-i x*). With the release's moments added the same formulas
give the numerator.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Predictive, Targets
from bayes_risk.models.fits.sampling import DrawnPredictive, Length, blocks

from .families import LogNormal
from .part import Coefficients, Nuts, Part, SampledRows, extra_of, n_outcomes

CHAINS = 4  # where draws are independent, or of imputed rows
LEVERAGE = 1e-9
COLLINEAR = 1e-12  # share of a predictor that others leave over, below which it is rounding


class Moments(NamedTuple):
    """What the data say, summed over weighted records; of several sets with a leading axis."""

    xx: Array  # (k, k): X'X
    xy: Array  # (k,): X'y
    yy: Any
    n: Any

    @classmethod
    def from_rows(cls, X: Array, y: Array, weights: Array | None = None) -> "Moments":
        """Moments of rows X (n, k) and outcomes y (n,); with weights (n,) of a pseudo-posterior."""
        if weights is not None:
            WX, Wy = X * weights[:, None], y * weights
            return cls(X.T @ WX, X.T @ Wy, float(y @ Wy), float(weights.sum()))
        return cls(X.T @ X, X.T @ y, float(y @ y), len(y))

    def plus(self, other: "Moments") -> "Moments":
        """Both together."""
        return Moments(*(mine + others for mine, others in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConjugatePrior:
    """``tau`` (k,) prior scales of the coefficients in units of sigma; ``a``, ``b`` of sigma^2."""

    tau: Array
    a: float
    b: float

    @property
    def precision(self) -> Array:
        """Of each coefficient, shape (k,)."""
        return np.where(np.isinf(self.tau), 0.0, self.tau**-2.0)

    def posterior(self, data: Moments) -> "NormalInverseGamma":
        """p(beta, sigma^2 | data)."""
        half = _half_of_inverse(data.xx + np.diag(self.precision))
        V, xy = np.swapaxes(half, -1, -2) @ half, data.xy[..., None]
        mean = (V @ xy)[..., 0]
        a = self.a + 0.5 * (data.n - int(np.isinf(self.tau).sum()))
        explained = (mean[..., None, :] @ xy)[..., 0, 0]
        b = self.b + 0.5 * np.maximum(data.yy - explained, 0.0)
        if np.any(a <= 0) or np.any(b <= 0):
            raise ModelError(
                f"{np.min(data.n)} records do not determine {mean.shape[-1]} coefficients and the "
                "spread about them under a flat prior; give finite prior scales, and a sigma2 "
                "above 0"
            )
        return NormalInverseGamma(prior=self, data=data, mean=mean, V=V, half=half, a=a, b=b)


def _half_of_inverse(precision: Array) -> Array:
    """Inverse of a positive definite matrix as half'half, on the scale of its diagonal.

    The squared diagonal of Cholesky's root is the share of each predictor that those before leave.
    """
    diagonal = np.diagonal(precision, axis1=-2, axis2=-1)
    size = np.sqrt(np.maximum(diagonal, np.finfo(float).tiny))
    try:
        root = np.linalg.cholesky(precision / (size[..., :, None] * size[..., None, :]))
    except np.linalg.LinAlgError:
        root = np.zeros_like(precision)
    if not (np.diagonal(root, axis1=-2, axis2=-1) ** 2 > COLLINEAR).all():
        raise ModelError(
            "the predictors are collinear and the prior is flat, so the coefficients have no "
            "posterior; give finite prior scales, or drop a predictor"
        )
    return np.asarray(np.linalg.inv(root) / size[..., None, :])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NormalInverseGamma:
    """A posterior: beta | sigma ~ Normal(mean, sigma^2 V), sigma^2 ~ InverseGamma(a, b)."""

    prior: ConjugatePrior
    data: Moments
    mean: Array
    V: Array
    half: Array  # V is half'half
    a: Any
    b: Any

    def draws(self, size: int, rng: Rng) -> tuple[Array, Array]:
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
        fitted: Any = True,
        weight: Any = 1.0,
    ) -> Array:
        """log p(y* | x*, data without (x, y)) for U records, shape (G, U), a Student-t.

        ``x`` (U, k), ``y`` (U,); ``x_star`` (G, U, k), ``y_star`` (G, U); unless ``fitted`` (U,)
        they are not among the data. With ``weight`` w (U,) log E[p(y* | x*, beta, sigma)^w].
        """
        w, out = np.broadcast_arrays(weight, np.multiply(weight, fitted), y)[:2]
        V_x = x @ self.V  # shape (U, k)
        left = 1.0 - out * np.einsum("uk,uk->u", V_x, x)
        a = self.a - 0.5 * out
        if (a <= 0).any():
            raise ModelError(
                f"{self.data.n:.6g} records less one do not determine {len(self.mean)} "
                "coefficients under a flat prior; give finite prior scales"
            )
        if (left < LEVERAGE).any():
            raise ModelError(
                f"{int((left < LEVERAGE).sum())} records alone determine a coefficient, which has "
                "no posterior without them under a flat prior; give finite prior scales"
            )
        error = y - x @ self.mean
        # without i: beta - w V x e / (1 - w h),  V + w V x x'V / (1 - w h),  b - w e^2 / 2(1 - w h)
        cross = np.einsum("guk,uk->gu", x_star, V_x)
        centre = x_star @ self.mean - out * cross * error / left
        spread = np.einsum("guk,guk->gu", x_star @ self.V, x_star) + out * cross**2 / left
        b = np.maximum(self.b - 0.5 * out * error**2 / left, np.finfo(float).tiny)
        wider = 1.0 + w * spread  # |V without i| / |V with y* in its place|
        level = gammaln(a + 0.5 * w) - gammaln(a) - 0.5 * w * np.log(2.0 * np.pi * b)
        shift = w * (y_star - centre) ** 2 / (2.0 * b * wider)
        return np.asarray(level - 0.5 * np.log(wider) - (a + 0.5 * w) * np.log1p(shift))


WARM_TUNE = 4  # of the base fit's warm-up, one in so many steps suffices for a warm start


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegressionPredictive(DrawnPredictive):
    """p(y* | theta_h) of one regression, or the product over several with the same draws."""

    parts: Sequence[Part]
    draws: Sequence[Coefficients]

    @classmethod
    def of(cls, regressions: Sequence[Any], targets: Targets) -> "RegressionPredictive":
        """Of fitted regressions; one chain alone is cut into up to five."""
        parts, draws = [one.part for one in regressions], [one.draws for one in regressions]
        H, chains = len(draws[0]), draws[0].n_chains
        if chains == 1 and H >= 25:
            chains = next(c for c in (5, 4, 3, 2, 1) if H % c == 0)
        return cls(parts=parts, draws=draws, targets=targets, batch=batch_of_draws(H, chains))

    @property
    def uses(self) -> frozenset[int]:
        """Columns that some regression depends on."""
        return frozenset[int]().union(*(part.uses for part in self.parts))

    def log_density(self, codes: Codes) -> Array:
        """log p of coded rows (R, p), summed over the regressions, shape (H, R)."""
        each = zip(self.parts, self.draws, strict=True)
        return reduce(np.add, (part.log_density(codes, draws) for part, draws in each)).T


class Guessed(NamedTuple):
    """Targets and G' distinct guesses of a regression."""

    own: SampledRows  # the targets' rows
    X: Array  # (G', U, k)
    y: Array  # (G', U)
    outcome: Array  # (G', U): as released, 1 where it is not possible
    possible: Flags
    cell: Ints  # (G,): which of the G' rows each guess has


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExactPart:
    """A normal (or log-normal) regression, its posterior in closed form and drawn exactly."""

    part: Part
    rows: SampledRows
    known: NormalInverseGamma
    draws: Coefficients

    @classmethod
    def fitted(cls, part: Part, rows: SampledRows, n: int, chains: int, rng: Rng) -> "ExactPart":
        """Fit and draw n times for each of so many chains (they are independent anyway)."""
        prior = ConjugatePrior(tau=part.scales(), a=part.prior.sigma2[0], b=part.prior.sigma2[1])
        known = prior.posterior(Moments.from_rows(rows.X, rows.y, rows.weights))
        beta, sigma = known.draws(n * chains, rng)
        draws = Coefficients.outside(part, beta, {"sigma": sigma}, chains)
        return cls(part=part, rows=rows, known=known, draws=draws)

    def with_rows(
        self, rows: SampledRows, *, shorter: int = 1, rng: Rng, **how: Any
    ) -> "ExactPart":
        """The same regression of other rows."""
        chains = self.draws.n_chains
        n = max(len(self.draws) // chains // shorter, 4)
        return ExactPart.fitted(self.part, rows, n, chains, rng)

    def log_predictive(self, targets: Targets) -> Array:
        """log p(y* | x*, data without i), shape (G, U), in closed form, block by block."""
        out = np.empty(targets.guesses.codes.shape[:2])
        width = len(self.part.names) + targets.profiles.shape[1]
        for block in blocks(len(targets), len(out) * width):
            star, weight = self.guessed(targets, block), targets.weight[block]
            rows = star.own.X, star.own.y, star.X, star.y
            density = self.known.log_predictive(*rows, targets.fitted[block], weight)
            if isinstance(self.part.family, LogNormal):
                density -= weight * np.log(star.outcome)
            out[:, block] = np.where(star.possible, density, -np.inf)[star.cell]
        return out

    def guessed(self, targets: Targets, block: slice) -> Guessed:
        """Some targets and their guesses on the scale that is sampled."""
        part = self.part
        own = part.rows(targets.profiles[block])
        codes, cell = targets.rows(part.uses, block)  # shape (G', U, p)
        G, U, p = codes.shape
        possible = np.ones((G, U), dtype=bool)
        if isinstance(part.family, LogNormal):
            possible = codes[:, :, part.column] > 0
        codes[:, :, part.column][~possible] = 1.0
        star = part.rows(codes.reshape(-1, p))
        pair = star.X.reshape(G, U, -1), star.y.reshape(G, U)
        return Guessed(own, *pair, codes[:, :, part.column], possible, cell)

    def estimate(self) -> Coefficients:
        """The estimate from the confidential table, as one draw on the original scale."""
        sigma = np.sqrt([self.known.b / self.known.a])
        return Coefficients.outside(self.part, self.known.mean[None], {"sigma": sigma}, 1)

    def moments(self, tables: Sequence[Codes]) -> list[Moments]:
        """Those of the released rows of each data set."""
        rows = [self.part.rows(z, f"release {l}") for l, z in enumerate(tables, start=1)]
        return [Moments.from_rows(one.X, one.y) for one in rows]

    def log_release_at_estimate(self, released: Sequence[Moments], targets: Targets) -> Array:
        """log p(Z^(l) | Theta-hat(y*, y_-i)) up to a constant, (m, G, U), by moments of Z^(l)."""
        G, U = targets.guesses.codes.shape[:2]
        out = np.empty((len(released), G, U))
        k = len(self.part.names)
        for block in blocks(U, G * (k * (k + 2) + targets.profiles.shape[1])):
            star = self.guessed(targets, block)
            beta, s2 = self._estimates(star, targets.weight[block])
            for l, z in enumerate(released):
                fit = z.yy - 2.0 * beta @ z.xy + np.einsum("guk,guk->gu", beta @ z.xx, beta)
                log_p = np.where(star.possible, -0.5 * (z.n * np.log(s2) + fit / s2), -np.inf)
                out[l, :, block] = log_p[star.cell]
        return out

    def _estimates(self, star: Guessed, weight: Array) -> tuple[Any, Any]:
        """beta (G, U, k) and sigma^2 (G, U) with each guess in the place of the target's row."""
        known, data = self.known, self.known.data
        x, y, w = star.own.X, star.own.y, weight[None, :, None]
        came = star.X[..., :, None] * star.X[..., None, :]  # shape (G, U, k, k)
        xx = data.xx + np.diag(known.prior.precision)
        xx = xx + w[..., None] * (came - x[:, :, None] * x[:, None, :])
        xy = data.xy + w * (star.X * star.y[..., None] - x * y[:, None])
        yy = data.yy + weight * (star.y**2 - y**2)
        try:
            beta = np.linalg.solve(xx, xy[..., None])[..., 0]
        except np.linalg.LinAlgError as error:
            raise ModelError(
                "a record alone determines a coefficient, which has no estimate with a guess in "
                "its place under a flat prior; give finite prior scales"
            ) from error
        b = known.prior.b + 0.5 * np.maximum(yy - np.einsum("guk,guk->gu", beta, xy), 0.0)
        return beta, np.maximum(b, np.finfo(float).tiny) / known.a


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledPart:
    """A regression sampled by NUTS. ``last`` holds the last point of each chain."""

    part: Part
    nuts: Nuts
    rows: SampledRows
    draws: Coefficients
    last: list[dict[str, Array]] | None
    tune: int

    @classmethod
    def fitted(
        cls,
        part: Part,
        rows: SampledRows,
        nuts: Nuts,
        length: Length,
        *,
        start: Any = None,
        sample: bool = True,
        **how: Any,
    ) -> "SampledPart":
        """Sample p(theta | rows), ``how``: rng, tick; if not, every draw is a chain's start."""
        found = (nuts.run if sample else nuts.begun)(rows, length, start=start, **how)
        last = [{k: v[c, -1] for k, v in found.items()} for c in range(length.chains)]
        flat = {k: v.reshape(-1, *v.shape[2:]) for k, v in found.items()}
        H = length.chains * length.draws
        beta = flat.pop("beta", np.zeros((H, 0, *n_outcomes(part))))
        return cls(
            part=part,
            nuts=nuts,
            rows=rows,
            draws=Coefficients.outside(part, beta, extra_of(flat), length.chains),
            last=last,
            tune=length.tune if start is None else WARM_TUNE * length.tune,
        )

    def with_rows(self, rows: SampledRows, *, shorter: int = 1, **how: Any) -> "SampledPart":
        """The same regression of other rows, started where these chains stopped."""
        chains = self.draws.n_chains
        length = Length(
            draws=max(len(self.draws) // chains // shorter, 4),
            tune=max(self.tune // WARM_TUNE, 50) if self.last else self.tune,
            chains=chains,
        )
        return SampledPart.fitted(self.part, rows, self.nuts, length, start=self.last, **how)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExternalPart:
    """A regression of which there are draws and nothing else."""

    part: Part
    draws: Coefficients


PartPosterior = ExactPart | SampledPart  # may be drawn again
FittedPart = PartPosterior | ExternalPart


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegressionPosterior:
    """p(Theta | data) of those regressions whose parameters the release can inform."""

    parts: Sequence[Any]  # of `FittedPart`; draws brought from elsewhere cannot be drawn again

    @property
    def n_draws(self) -> int:
        return min(len(part.draws) for part in self.parts)

    def predictives(self, targets: Targets, *, rng: Rng) -> list[RegressionPredictive]:
        """One for each regression in which a guess appears, as outcome or in the formula."""
        return [RegressionPredictive.of([fit], targets) for fit in touched(self.parts, targets)]

    def doubled(self, *, rng: Rng, n_jobs: int) -> "RegressionPosterior":
        """As many draws again, sampled chains going on where they stopped."""
        parts = []
        for fit, child in zip(self.parts, rng.spawn(len(self.parts)), strict=True):
            more = fit.with_rows(fit.rows, rng=child)
            parts.append(replace(more, draws=fit.draws.and_then(more.draws)))
        return RegressionPosterior(parts=parts)


def touched(parts: Sequence[Any], targets: Targets) -> list[Any]:
    """Regressions in which a guess appears."""
    guessed = set(targets.columns.tolist())
    return [fit for fit in parts if guessed & fit.part.uses]


def closed(fit: FittedPart) -> ExactPart:
    """The regression, if its estimate is known in closed form."""
    if isinstance(fit, ExactPart):
        return fit
    raise InputError(
        "parameters",
        "plug-in",
        f"is offered for normal and log-normal regressions fitted here; column {fit.part.name!r} "
        f"has family {type(fit.part.family).__name__}, or draws brought from elsewhere: use "
        '`parameters="independent"`',
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClosedPredictive:
    """A predictive in closed form, handed out as if by H draws that all agree."""

    log_p: Array  # (G, U)
    batch: Ints

    def log_truth(self, block: slice) -> Array:
        """The same for all draws, shape (H, block): it cancels."""
        return np.zeros((len(self.batch), self.log_p[:, block].shape[1]))

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h p(y*): (B, G, block)."""
        starts = np.flatnonzero(np.diff(self.batch, prepend=-1))
        weights = np.logaddexp.reduceat(log_weights, starts, axis=0)
        return np.asarray(weights[:, None] + self.log_p[:, block])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClosedPosterior:
    """p(Theta | known rows) of normal regressions, never drawn; ``n_draws``: beside it."""

    parts: Sequence[ExactPart]
    n_draws: int

    def predictives(self, targets: Targets, *, rng: Rng) -> list[Predictive]:
        """One for each regression in which a guess appears."""
        batch = batch_of_draws(self.n_draws, CHAINS)
        return [
            ClosedPredictive(log_p=fit.log_predictive(targets), batch=batch)
            for fit in touched(self.parts, targets)
        ]

    def doubled(self, *, rng: Rng, n_jobs: int) -> "ClosedPosterior":
        """Exact as it is."""
        return self


@dataclass(frozen=True, slots=True, eq=False)
class RegressionReweighting:
    """The draws of regressions under the priors of another declaration."""

    model: Any

    def predictives(
        self, posterior: RegressionPosterior, targets: Targets, *, rng: Rng
    ) -> list[tuple[Predictive, Array]]:
        """Predictives, with the log ratio of priors of each draw (H,), 0 where drawn again."""
        found = list[tuple[Predictive, Array]]()
        parts = touched(posterior.parts, targets)
        for fit, child in zip(parts, rng.spawn(len(parts)), strict=True):
            other, ratio = self._under(fit), np.zeros(len(fit.draws))
            if isinstance(fit, ExactPart):  # drawn again
                fit = other.with_rows(fit.rows, rng=child)
            else:
                ratio = log_prior_of(other.part, fit.draws) - log_prior_of(fit.part, fit.draws)
            found.append((RegressionPredictive.of([fit], targets), ratio))
        return found

    def started(self, posterior: RegressionPosterior) -> RegressionPosterior:
        """The posterior, to be sampled under the other declaration from where it stopped."""
        parts: list[PartPosterior] = []
        for fit in posterior.parts:
            new = self._under(fit)
            if isinstance(new, SampledPart):
                new = replace(new, nuts=new.nuts.of(new.part))
            parts.append(new)
        return replace(posterior, parts=parts)

    def _under(self, fit: PartPosterior) -> Any:
        """A regression with its other prior."""
        prior = self.model.prior_of(fit.part.name)
        return replace(fit, part=replace(fit.part, prior=prior))


def log_prior_of(part: Part, draws: Coefficients) -> Array:
    """Log prior density of draws of a regression that NUTS sampled, up to a constant, (H,)."""
    from scipy.stats import gamma, halfnorm, norm  # slow

    prior = part.prior
    beta, extra = inside(part, draws)
    wide = (slice(None), *[None] * (beta.ndim - 2))
    logs = norm.logpdf(beta, part.centre()[wide], part.scales()[wide])
    total: Array = logs.reshape(len(draws), -1).sum(axis=1)
    if "cut" in extra:
        total += norm.logpdf(extra["cut"], 0.0, prior.intercept).sum(axis=1)
    if "sigma" in extra:
        total += halfnorm.logpdf(extra["sigma"], scale=prior.sigma)
    if "nu" in extra:
        total += gamma.logpdf(extra["nu"], prior.nu[0], scale=1.0 / prior.nu[1])
    if "alpha" in extra:
        total += halfnorm.logpdf(extra["alpha"] ** -0.5, scale=prior.overdispersion)
    return total


def inside(part: Part, draws: Coefficients) -> tuple[Array, dict[str, Array]]:
    """Draws on the scale that was sampled: `Scaling.outside` undone."""
    scaling, slopes, extra = part.scaling, draws.beta.copy(), dict(draws.extra)
    others = np.arange(slopes.shape[1]) != scaling.constant
    shift = np.einsum("hk...,k->h...", slopes[:, others], scaling.centre[others])
    if scaling.constant >= 0:
        slopes[:, scaling.constant] -= scaling.at - shift
    if "cut" in extra:
        extra["cut"] = extra["cut"] - shift[:, None]
    if "sigma" in extra:
        extra["sigma"] = extra["sigma"] / scaling.by
    scale = scaling.scale.reshape(-1, *[1] * (slopes.ndim - 2))
    return slopes * scale / scaling.by, extra
