"""Dirichlet-process mixture of products of multinomials, and its draws under other hyper-priors.

Dunson & Xing (2009); Hu, Reiter & Wang (2014):

X_ij | z_i = k ~ Multinomial(phi_kj),  z_i ~ Multinomial(pi),  phi_kj ~ Dirichlet(level_prior)
pi_k = V_k prod_{l<k} (1 - V_l),  V_k ~ Beta(1, alpha),  V_K = 1,  alpha ~ Gamma(a, b)

The ratio of two priors is taken at labels and concentration, level probabilities integrated out, so
that empty classes, which are draws from the prior, add nothing (docs/sensitivity.md).

With M_jk the counts of levels of variable j in class k, of d levels, and G the gamma function,

    r_h = Gamma(alpha_h; a_1, b_1) / Gamma(alpha_h; a_0, b_0)
          x prod_{j, k} DM(M_jk; l_1) / DM(M_jk; l_0),
    log DM(M; l) = log G(d l) - log G(d l + sum_c M_c) + sum_c [log G(l+M_c) - log G(l)].
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.special import gammaln

from bayes_risk._core.arrays import Array, Rng
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import positive
from bayes_risk.data.impossible import Impossible
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import Capabilities, Offer, Predictive, Targets
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.synthesis import power_scaled_gamma, same_but
from bayes_risk.release.release import EncodedRelease

from .columns import Columns, powers_of
from .fit import MixtureFit
from .mixture import SPLITS, MixtureModel
from .posterior import MixturePosterior
from .state import Prior, ZeroLayout


def _log_ratio(part: Any, posterior: MixturePosterior, other: Prior) -> Array:
    """log p_1 / p_0 of labels and concentration, and of level probabilities that are not out."""
    from scipy.stats import gamma  # slow

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
        self, posterior: MixturePosterior, targets: Targets, *, rng: Rng
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class DPMPMFit(MixtureFit):
    """A fitted DPMPM; attributes as of `MixtureFit`."""

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        can = MixtureFit.capabilities(self, release, intruder)
        return replace(can, offers=[*can.offers, Offer("reweighting", self)])

    def under(self, model: Any) -> HyperpriorReweighting | None:
        plain = self.weights is None and self.known is None and self.model.impossible is None
        alike = same_but(self.model, model, "concentration_prior", "level_prior")
        return HyperpriorReweighting(model) if plain and alike else None


@dataclass(frozen=True, slots=True)
class DPMPM(MixtureModel[DPMPMFit]):
    """Declaration of a truncated Dirichlet-process mixture of products of multinomials.

    Parameters
    ----------
    n_classes : int
        Truncation K, at least 1. One class: independent variables.
    concentration_prior : tuple of two floats
        Shape and rate of the gamma prior of the concentration.
    level_prior : float
        Every entry of the Dirichlet prior of level probabilities.
    impossible : Impossible, optional
        Structural zeros, combinations that no record can have: the model's support is what is left,
        p(y) proportional to ``1{y not in S} sum_k pi_k prod_j phi_kj(y_j)`` (Manrique-Vallier &
        Reiter 2014).
    columns : list of str, optional
        Columns of the table to model; all by default.

    Examples
    --------
    >>> DPMPM(n_classes=30)
    DPMPM(n_classes=30, concentration_prior=(0.25, 0.25), level_prior=1.0, impossible=None, \
columns=None)
    """

    n_classes: int = 30
    concentration_prior: tuple[float, float] = (0.25, 0.25)
    level_prior: float = 1.0
    impossible: Impossible | None = None
    columns: Sequence[str] | None = None
    _FIT: ClassVar[Any] = DPMPMFit

    def __post_init__(self) -> None:
        MixtureModel.__post_init__(self)
        if self.impossible is not None and not isinstance(self.impossible, Impossible):
            raise InputError(
                f"impossible is a {type(self.impossible).__name__}; give "
                "Impossible(rules), the rules as mappings, a DataFrame or a function"
            )

    def power_scaled(self, power: float) -> "DPMPM":
        """Every hyper-prior raised to a power: below 1 weaker, above 1 stronger.

        Above 0, and no prior may become improper (Kallioinen et al. 2023).
        """
        power = positive("power", power)  # Dirichlet(a)^p is Dirichlet(p (a - 1) + 1)
        level, _ = power_scaled_gamma("level_prior", (self.level_prior, 1.0), power)
        pair = power_scaled_gamma("concentration_prior", self.concentration_prior, power)
        return replace(self, concentration_prior=pair, level_prior=level)

    def _coded(self, df: pd.DataFrame, **how: Any) -> Microdata:
        return Microdata.from_frame(df, **how)

    def _read(
        self, data: Microdata, weights: Any
    ) -> tuple[Microdata, Columns, Prior, Array | None]:
        if data.numbers:
            raise InputError(
                f"columns {data.numbers} are numbers, and DPMPM models categories; cut them into "
                "classes (`pandas.cut`), or use Regression"
            )
        columns = Columns.of(levels=range(len(data.columns)))
        alpha = powers_of(weights, data, "" if self.impossible is None else "impossible")
        region = None if self.impossible is None else self.impossible.region(data)
        data, starts = replace(data, impossible=region), columns.starts(data)
        a, b = self.concentration_prior
        prior = Prior(
            n_classes=self.n_classes,
            concentration=(float(a), float(b)),
            level=float(self.level_prior),
            starts=starts,
            splits=SPLITS if alpha is None else 0,
            zeros=None if region is None else ZeroLayout.of_boxes(region.boxes, starts),
        )
        return data, columns, prior, alpha
