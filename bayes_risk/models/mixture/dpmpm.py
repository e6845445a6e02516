"""Dirichlet-process mixture of products of multinomials.

Dunson & Xing (2009); Hu, Reiter & Wang (2014):

X_ij | z_i = k ~ Multinomial(phi_kj),  z_i ~ Multinomial(pi),  phi_kj ~ Dirichlet(level_prior)
pi_k = V_k prod_{l<k} (1 - V_l),  V_k ~ Beta(1, alpha),  V_K = 1,  alpha ~ Gamma(a, b)
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pandas as pd

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import positive
from bayes_risk.data.impossible import Impossible
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import Capabilities, Offer
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.priors import power_scaled_gamma, same_but
from bayes_risk.release.release import EncodedRelease

from .columns import Columns, powers_of
from .fit import MixtureFit
from .fitting import SPLITS
from .hyper_priors import HyperpriorReweighting
from .mixture import MixtureModel
from .state import Prior, ZeroLayout


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
        Structural zeros, combinations that nobody can have: the model's support is what is left,
        p(y) proportional to ``1{y not in S} sum_k pi_k prod_j phi_kj(y_j)`` (Manrique-Vallier &
        Reiter 2014).

    Examples
    --------
    >>> DPMPM(n_classes=30)
    DPMPM(n_classes=30, concentration_prior=(0.25, 0.25), level_prior=1.0, impossible=None)
    """

    n_classes: int = 30
    concentration_prior: tuple[float, float] = (0.25, 0.25)
    level_prior: float = 1.0
    impossible: Impossible | None = None
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
                "classes (pandas.cut), or use Regression"
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
