"""Regressions under other priors: drawn again where that is exact, re-weighted where NUTS ran."""

from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy.stats import gamma, halfnorm, norm

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk.evidence.contract import Predictive, Targets
from bayes_risk.models.mixture.hyper_priors import power_scaled_gamma

from .glm import Nuts
from .part import Coefficients, Part
from .posterior import ExactPart, PartPosterior, RegressionPosterior, SampledPart, touched
from .prior import RegressionPrior

_SAMPLERS: "WeakKeyDictionary[Nuts, dict[str, Nuts]]" = WeakKeyDictionary()


def power_scaled_prior(prior: RegressionPrior, power: float) -> RegressionPrior:
    """Each prior of a regression raised to a power; normal and half-normal ones widen by its root.

    InverseGamma(a, b)^p is proportional to InverseGamma(p (a + 1) - 1, p b).
    """
    wider = power**-0.5
    shape, rate = prior.sigma2
    if prior.proper and power * (shape + 1.0) < 1.0:
        raise InputError(
            f"power={power:g} makes the inverse gamma prior sigma2={prior.sigma2} improper; give "
            f"a power of at least {1.0 / (shape + 1.0):.3g}"
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


@dataclass(frozen=True, slots=True, eq=False)
class RegressionReweighting:
    """The draws of regressions under the priors of another declaration."""

    model: Any

    def predictives(
        self, posterior: RegressionPosterior, targets: Targets, *, rng: np.random.Generator
    ) -> list[tuple[Predictive, Array]]:
        """Predictives, with the log ratio of priors of each draw (H,)."""
        held = touched(posterior.parts, targets)  # those with a predictive
        parts = [  # drawn again where that is exact
            self._under(p).with_rows(p.rows, rng=c) if isinstance(p, ExactPart) else p
            for p, c in zip(held, rng.spawn(len(held)), strict=True)
        ]
        ratios = [log_ratio(p, self.model.prior_of(p.part.name)) for p in held]
        found = replace(posterior, parts=parts).predictives(targets, rng=rng)
        return list(zip(found, ratios, strict=True))

    def started(self, posterior: RegressionPosterior) -> RegressionPosterior:
        """The posterior, to be sampled under the other declaration from where it stopped."""
        parts: list[PartPosterior] = []
        for held in posterior.parts:
            new = self._under(held)
            if isinstance(new, SampledPart):
                known = _SAMPLERS.setdefault(new.nuts, {})
                fresh = Nuts(new.part, new.nuts.nuts_sampler)
                new = replace(new, nuts=known.setdefault(repr(new.part.prior), fresh))
            parts.append(new)
        return replace(posterior, parts=parts)

    def _under(self, held: PartPosterior) -> Any:
        """A regression with its other prior."""
        prior = self.model.prior_of(held.part.name)
        return replace(held, part=replace(held.part, prior=prior))


def log_ratio(held: PartPosterior, prior: RegressionPrior) -> Array:
    """log p_1(theta_h) / p_0(theta_h) of one regression, (H,); zero where it was drawn again."""
    if isinstance(held, ExactPart):
        return np.zeros(len(held.draws))
    part, other = held.part, replace(held.part, prior=prior)
    return log_prior_of(other, held.draws) - log_prior_of(part, held.draws)


def log_prior_of(part: Part, draws: Coefficients) -> Array:
    """Log prior density of draws of a regression that NUTS sampled, up to a constant, (H,)."""
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
