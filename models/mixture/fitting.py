"""Fitting a truncated mixture through PyMC: how long, by which sampler, and how well it mixed."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pandas as pd

from bayes_risk._compat import add_group
from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError, TruncationWarning
from bayes_risk._core.progress import Asked, shows_progress
from bayes_risk._core.validate import at_least, one_of, positive, positives
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import Progress
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.models.fits.sampling import Length, kept_chains, mixing
from bayes_risk.models.fits.synthesis import Declaration, ticker

from .columns import Columns
from .posterior import MixturePosterior, log_masses
from .sampler import initial_state
from .state import DRAWN, Draws, Prior, Units
from .zeros import log_possible

DIAGNOSED = 300
SOMETIMES = 0.05  # share of draws with every class occupied from which the truncation binds
SPLITS = 5  # enough for chains of 1,000 records in 10 columns to agree, which none do
F = TypeVar("F")  # the fit


class MixtureModel(Declaration, ABC, Generic[F]):
    """What declarations of mixtures have in common: some priors, and how they are fitted."""

    __slots__ = ()
    _FIT: ClassVar[Any]  # what is made of the draws

    def __post_init__(self) -> None:
        of: Any = self
        at_least("n_classes", of.n_classes, 1)
        positive("level_prior", of.level_prior)
        positives("concentration_prior", of.concentration_prior, (0.25, 0.25))
        if getattr(of, "zeros", None) is not None:
            positives("zeros", of.zeros, (1.0, 1.0))

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
    ) -> F:
        """Sample p(Theta | y) through PyMC.

        Parameters
        ----------
        df : DataFrame or Microdata
            The confidential table; see `Microdata.from_frame` for ``missing``, ``levels``,
            ``releases``, and ``missing_numbers`` of `models.Mixture`, of which numbers may be
            missing too with ``missing="level"``.
        weights : array (n,) or Series, optional
            Record weights alpha_i in (0, 1]: Theta is drawn from the pseudo-posterior
            ``p(Theta) prod_i sum_k [pi_k f_k(y_i)]^alpha_i`` (docs/sensitivity.md). Not with
            ``impossible`` or ``zeros``; of `PoissonMixture` with ``kind="MP"`` alone.
        draws, tune, chains : int
            Kept draws and warm-up of each chain, at least 4, 0 and 1. An audit led by the release
            takes twice the chains, half as long (docs/modes.md): the defaults are made for it, and
            more of either make it more precise.
        thin : int
            Sweeps between kept draws.
        splits : int
            How often each sweep proposes to split a latent class in two, or to merge two: moves
            that plain sweeps make slowly (docs/mixtures.md). By default 5; 0 of `PoissonMixture`,
            and where there are no such moves (``impossible``, ``sampler="nuts"``). With the fit,
            all that is sampled later from the table or from it and a release takes them; except
            where a release was drawn given columns that stay, and where unknown records are
            imputed.
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
            Tables that `Microdata.from_frame` refuses; columns that the model does not fit:
            numbers that are no counts, exposures that are not positive; counts of draws out of
            range; weights of another length, missing or outside (0, 1]; structural zeros that the
            table contradicts; splits with ``impossible`` or ``sampler="nuts"``.

        Warns
        -----
        TruncationWarning
            Every class is occupied in more than one draw in twenty: raise ``n_classes``.

        Notes
        -----
        Cost of a sweep: at most U p K multiplications for U distinct profiles, which share products
        of equal first levels (twice as many of counts alone; with numbers an exponential for each
        record and class), plus a draw of a class a record, or K for 32 equal ones and more. A
        split or merge costs what 2 p multiplications and a logarithm cost for each of its members.
        """
        how: Any = locals()
        del how["self"]
        return self._fitted(**how)

    @abstractmethod
    def _coded(self, df: pd.DataFrame, **how: Any) -> Microdata:
        """The table, coded."""

    @abstractmethod
    def _read(
        self, data: Microdata, weights: Any
    ) -> tuple[Microdata, Columns, Prior, Array | None]:
        """Table and weights as the sampler takes them, columns, priors with the usual splits."""

    def _fitted(
        self,
        df: pd.DataFrame | Microdata,
        *,
        weights: Any,
        splits: int | None,
        sampler: str,
        sample: bool,
        random_seed: Any,
        n_jobs: int,
        progress: Progress | None,
        draws: int,
        tune: int,
        chains: int,
        thin: int,
        **tables: Any,
    ) -> F:
        """Sample; unless it is to be sampled, the fit has one start in the place of all draws."""
        from .pymc_model import draws_of

        length = Length.checked(draws=draws, tune=tune, chains=chains, thin=thin)
        one_of("sampler", sampler, ("gibbs", "nuts"))
        data = df if isinstance(df, Microdata) else self._coded(df, **tables)
        data, columns, prior, alpha = self._read(data, weights)
        other = {"impossible": prior.zeros is not None, 'sampler="nuts"': sampler == "nuts"}
        usual = 0 if any(other.values()) else prior.splits
        splits = usual if splits is None else at_least("splits", splits, 0)
        for name, given in other.items():
            if splits > 0 and given:
                raise InputError(
                    f"splits={splits} with {name}: classes are split and merged in blocked sweeps "
                    f"of tables without structural zeros; leave splits or {name} out"
                )
        prior, rng = replace(prior, splits=splits), np.random.default_rng(random_seed)
        units = columns.rows(data.codes, prior).units(power=alpha)
        idata: Any = None
        if sample:
            how: Any = {"nuts": sampler == "nuts", "rng": rng, "n_jobs": n_jobs}
            how |= {"tick": ticker(progress, "fit", length.steps)}
            idata = kept_chains(
                partial(_record, data, columns, prior, units, length, **how), length
            )
            theta = draws_of(idata, prior, blocks_of(data, columns, prior))
        else:
            theta = repeated(initial_state(prior, units, rng), length)
        posterior = MixturePosterior(
            prior=prior,
            columns=columns,
            units=units,
            draws=theta,
            thin=thin,
            conditional=np.zeros(len(columns.order), dtype=bool),
        )
        fit: F = self._FIT(
            model=self,
            microdata=data,
            idata=idata,
            posterior=posterior,
            diagnostics=diagnose(idata, posterior) if sample else {},
            weights=alpha,
        )
        return fit


def _record(
    data: Microdata,
    columns: Columns,
    prior: Prior,
    units: Units,
    length: Length,
    *,
    nuts: bool,
    rng: np.random.Generator,
    n_jobs: int,
    tick: Callable[[int], None],
) -> Any:
    """Chains, as PyMC keeps them."""
    import pymc as pm

    from .pymc_model import BlockedSweep, build

    seeds, starts = rng.spawn(2)
    options = length.options(n_jobs, seeds) | {
        "callback": lambda trace, draw: tick(1),
        "return_inferencedata": True,
    }
    with build(data, columns, prior, units, transformed=nuts) as declared:
        if nuts:
            return pm.sample(**options)
        blocks = blocks_of(data, columns, prior)
        step = BlockedSweep(declared, prior, units, blocks=blocks, thin=length.thin, rng=seeds)
        children = starts.spawn(length.chains)
        points = [step.point(initial_state(prior, units, child)) for child in children]
        return pm.sample(step=step, initvals=points, **options)


def repeated(start: Draws, length: Length) -> Draws:
    """One point in the place of all draws, in the memory of one."""
    arrays = {name: getattr(start, name) for name in DRAWN}
    H = length.draws * length.chains
    same = {name: np.broadcast_to(x, (H, *x.shape[1:])) for name, x in arrays.items()}
    return Draws(**same, n_chains=length.chains)


def blocks_of(data: Microdata, columns: Columns, prior: Prior) -> Mapping[str, slice]:
    """Rows of phi that each variable of the PyMC model holds."""
    from .pymc_model import levels_name, missing_name

    p, r, names = prior.n_counts, prior.n_reals, data.columns
    numbers = {"rates": slice(0, p)} if p else {}
    if prior.inflation is not None:
        numbers["zeros"] = slice(p, 2 * p)
    if r:
        numbers |= {"means": slice(2 * p, 2 * p + r), "precisions": slice(2 * p + r, 2 * p + 2 * r)}
    of_levels = [names[j] for j in columns.levels]
    of_levels += [missing_name(names[j]) for j in columns.order[p + r + len(of_levels) :]]
    bounds = zip(of_levels, prior.starts[:-1], prior.starts[1:], strict=True)
    return numbers | {levels_name(c): slice(int(b), int(e)) for c, b, e in bounds}


def truncation_binds(full: float, K: int, given: str = "") -> bool:
    """Whether all of several classes are occupied in too large a share of draws; warns."""
    if K == 1 or full <= SOMETIMES:
        return False
    warnings.warn(
        f"all n_classes={K} classes are occupied in {100 * full:.0f} % of draws{given}: the "
        "truncation binds, and values far from all classes are thought impossible; fit again with "
        "more classes",
        TruncationWarning,
        stacklevel=5,
    )
    return True


def diagnose(idata: Any, posterior: MixturePosterior) -> dict[str, float]:
    """R-hat and ESS of log predictives of some profiles; warn where the truncation binds."""
    import xarray as xr

    prior, units, draws = posterior.prior, posterior.units, posterior.draws
    K, U = prior.n_classes, len(units.multiplicity)
    order = np.argsort(units.multiplicity, kind="stable")
    some = np.sort(order[np.linspace(0, U - 1, min(U, DIAGNOSED)).astype(int)])
    left = np.zeros(len(draws)) if prior.zeros is None else log_possible(prior.zeros, draws)
    log_p = log_masses(units.data.take(some), draws, prior) - left[:, None]
    ess, rhat = ess_and_rhat(log_p, draws.n_chains)
    diagnosed = xr.Dataset({"ess": ("profile", ess), "rhat": ("profile", rhat)})
    add_group(idata, "log_predictive", diagnosed)
    return {
        "draws": len(draws) // draws.n_chains,
        "chains": draws.n_chains,
        "n_classes": K,
        "n_occupied_mean": float(draws.n_occupied.mean()),
        "n_occupied_max": int(draws.n_occupied.max()),
        "truncation_binds": truncation_binds(float((draws.n_occupied == K).mean()), K),
        **mixing(ess, rhat, draws.n_chains),
        "profiles_diagnosed": len(some),
        **({} if prior.zeros is None else {"zero_mass_mean": float(-np.expm1(left).mean())}),
    }
