"""Dirichlet-process mixture of products of multinomials.

Dunson & Xing (2009); Hu, Reiter & Wang (2014):

X_ij | z_i = k ~ Multinomial(phi_kj),  z_i ~ Multinomial(pi),  phi_kj ~ Dirichlet(level_prior)
pi_k = V_k prod_{l<k} (1 - V_l),  V_k ~ Beta(1, alpha),  V_K = 1,  alpha ~ Gamma(a, b)
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.progress import Asked, shows_progress
from bayes_risk._core.shown import Shown
from bayes_risk._core.validate import at_least, positive, positives
from bayes_risk.data.impossible import Impossible
from bayes_risk.data.microdata import Microdata
from bayes_risk.data.record_weights import checked_weights
from bayes_risk.evidence.contract import Capabilities
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.mixture.columns import Columns
from bayes_risk.models.mixture.fit import MixtureFit
from bayes_risk.models.mixture.fitting import SPLITS, Run, checked_splits, fitted
from bayes_risk.models.mixture.hyper_priors import (
    HyperpriorReweighting,
    power_scaled_gamma,
    same_but,
)
from bayes_risk.models.mixture.state import Prior, ZeroLayout
from bayes_risk.release.release import EncodedRelease


@dataclass(frozen=True, slots=True)
class DPMPM(Shown):
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

    def __post_init__(self) -> None:
        at_least("n_classes", self.n_classes, 1)
        positive("level_prior", self.level_prior)
        positives("concentration_prior", self.concentration_prior, (0.25, 0.25))
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

    def synthesizes(self, columns: Sequence[str]) -> list[str]:
        """Columns that a release replaces unless some are named, of a table with these."""
        return list(columns)

    @shows_progress
    def fit(
        self,
        df: pd.DataFrame | Microdata,
        draws: int = 250,
        *,
        weights: Any = None,
        tune: int = 500,
        chains: int = 4,
        thin: int = 5,
        splits: int | None = None,
        sampler: str = "gibbs",
        missing: str = "error",
        levels: Mapping[str, Iterable[Hashable]] | None = None,
        releases: Sequence[pd.DataFrame] = (),
        sample: bool = True,
        random_seed: int | np.random.Generator | None = None,
        n_jobs: int = 1,
        progress: Asked = None,
    ) -> "DPMPMFit":
        """Sample p(Theta | y) through PyMC.

        Parameters
        ----------
        df : DataFrame or Microdata
            The confidential table; see `Microdata.from_frame` for ``missing``, ``levels`` and
            ``releases``.
        weights : array (n,) or Series, optional
            Record weights alpha_i in (0, 1]: Theta is drawn from the pseudo-posterior
            ``p(Theta) prod_i sum_k [pi_k f_k(y_i)]^alpha_i`` (docs/sensitivity.md).
        draws, tune, chains : int
            Kept draws and warm-up of each chain, at least 4, 0 and 1. An audit led by the release
            takes twice the chains, half as long (docs/modes.md): the defaults are made for it, and
            more of either make it more precise.
        thin : int
            Sweeps between kept draws.
        splits : int
            How often each sweep proposes to split a latent class in two, or to merge two: moves
            that plain sweeps make slowly (docs/mixtures.md). By default 5, and 0 where there are
            no such moves (``impossible``, ``sampler="nuts"``). With the fit, all that
            is sampled later from the table or from it and a release takes them; except where a
            release was drawn given columns that stay, and where unknown records are imputed.
        sampler : {"gibbs", "nuts"}
            Blocked Gibbs sweeps, or PyMC's NUTS on the same model (small tables only).
        sample : bool
            False: nothing is sampled, and the fit holds starts of chains in the place of draws. It
            refuses what a fit refuses, and tells what it offers for a release and an intruder.
        random_seed : int, Generator or None
            Same seed, same draws, for any ``n_jobs``.
        n_jobs : int
            Processes for the chains.
        progress : callable or bool, optional
            Called as ``progress(stage, done, total)``.
            By default a bar in terminals and notebooks; False: none.

        Raises
        ------
        InputError
            Tables that `Microdata.from_frame` refuses; counts out of range; weights of another
            length, missing or outside (0, 1]; structural zeros that the table contradicts; splits
            with ``impossible`` or ``sampler="nuts"``.

        Warns
        -----
        TruncationWarning
            Every class is occupied in more than one draw in twenty: raise ``n_classes``.

        Notes
        -----
        Cost of a sweep: at most U p K multiplications for U distinct profiles, which share products
        of equal first levels, plus a draw of a class a record, or K for 32 equal ones and more. A
        split or merge costs what 2 p multiplications and a logarithm cost for each of its members.
        """
        how: Any = {"sample": sample, "n_jobs": n_jobs, "progress": progress}
        run = Run.checked(draws=draws, tune=tune, chains=chains, thin=thin, sampler=sampler, **how)
        if not isinstance(df, Microdata):
            df = Microdata.from_frame(df, levels=levels, releases=releases, missing=missing)
        if df.numbers:
            raise InputError(
                f"columns {df.numbers} are numbers, and DPMPM models categories; cut them into "
                "classes (pandas.cut), or use models.Regression"
            )
        alpha = checked_weights(weights, df.index)
        splits = checked_splits(splits, self.impossible, sampler, SPLITS if alpha is None else 0)
        starts = np.concatenate([[0], np.cumsum(df.n_levels)]).astype(np.int64)
        region = None if self.impossible is None else self.impossible.region(df)
        df = replace(df, impossible=region)
        zeros = None if region is None else ZeroLayout.of_boxes(region.boxes, starts)
        prior = Prior(
            n_classes=self.n_classes,
            concentration=(float(self.concentration_prior[0]), float(self.concentration_prior[1])),
            level=float(self.level_prior),
            starts=starts,
            splits=splits,
            zeros=zeros,
        )
        if zeros is not None and alpha is not None:
            raise InputError(
                "weights are not offered together with impossible=: records that fell into the "
                "zeros have no weight; leave one of them out"
            )
        columns, rng = Columns.of(levels=range(len(df.columns))), np.random.default_rng(random_seed)
        fit: DPMPMFit = fitted(DPMPMFit, self, df, columns, prior, alpha, run, rng)
        return fit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class DPMPMFit(MixtureFit):
    """A fitted DPMPM; attributes as of `MixtureFit`."""

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        """What is offered for a release and an intruder."""
        return replace(MixtureFit.capabilities(self, release, intruder), reweighted=self)

    def under(self, model: Any) -> HyperpriorReweighting | None:
        """The draws under other hyper-parameters, by weights; None: only a new fit can tell."""
        plain = self.weights is None and self.known is None and self.model.impossible is None
        alike = same_but(self.model, model, "concentration_prior", "level_prior")
        return HyperpriorReweighting(model) if plain and alike else None
