"""Other hyper-priors: the ratio of two priors at each draw, and priors raised to a power.

What is integrated out in closed form takes no part in a ratio. Of latent classes it is taken at the
labels and the concentration, level probabilities integrated out, so that empty classes, which are
draws from the prior, add nothing to it. Derivation: docs/sensitivity.md.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln
from scipy.stats import gamma

from bayes_risk._core.arrays import Array
from bayes_risk.evidence.contract import Predictive, Targets

from .posterior import MixturePosterior
from .state import Prior


def _log_ratio(part: Any, posterior: MixturePosterior, other: Prior) -> Array:
    """log p_1 / p_0 of labels and concentration, and of level probabilities that are not out."""
    old, draws = posterior.prior, posterior.draws
    ratio = gamma.logpdf(draws.alpha, other.concentration[0], scale=1.0 / other.concentration[1])
    ratio -= gamma.logpdf(draws.alpha, old.concentration[0], scale=1.0 / old.concentration[1])
    if other.level == old.level:
        return np.asarray(ratio)
    for j, (begin, end) in enumerate(zip(old.starts[:-1], old.starts[1:], strict=True)):
        if part.sums.fixed[j]:
            log_phi = np.log(np.maximum(draws.phi[:, begin:end], 1e-300))
            ratio += (other.level - old.level) * log_phi.sum(axis=(1, 2))
            continue
        tau = part.tau[:, j]  # shape (H, K): count of the class plus d a
        counts = part.sums.M[:, begin:end] * tau[:, None] - other.level
        counts = np.maximum(np.round(counts), 0.0)
        ratio += _log_marginal(counts, other.level) - _log_marginal(counts, old.level)
    return np.asarray(ratio)


def _log_marginal(counts: Array, a: float) -> Array:
    """Dirichlet-multinomial log p(levels | labels) of one variable, counts (H, d, K), summed."""
    d, total = counts.shape[1], counts.sum(axis=1)
    logs: Array = (gammaln(d * a) - gammaln(d * a + total)).sum(axis=1)
    logs += (gammaln(a + counts) - gammaln(a)).sum(axis=(1, 2))
    return logs


@dataclass(frozen=True, slots=True, eq=False)
class HyperpriorReweighting:
    """The draws of a DPMPM under the hyper-parameters of another declaration."""

    model: Any

    def predictives(
        self, posterior: MixturePosterior, targets: Targets, *, rng: np.random.Generator
    ) -> list[tuple[Predictive, Array]]:
        other = self.started(posterior)
        parts = other.predictives(targets, rng=rng)
        return [(part, _log_ratio(part, posterior, other.prior)) for part in parts]

    def started(self, posterior: MixturePosterior) -> MixturePosterior:
        """The posterior, to be sampled under the other declaration from where it stopped."""
        shape, rate = self.model.concentration_prior
        level, concentration = float(self.model.level_prior), (float(shape), float(rate))
        prior = replace(posterior.prior, concentration=concentration, level=level)
        return replace(posterior, prior=prior)
