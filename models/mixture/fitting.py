"""Fitting a truncated mixture through PyMC: how long, by which sampler, and how well it mixed."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._compat import add_group
from bayes_risk._core.errors import TruncationWarning
from bayes_risk.evidence.contract import Progress
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.models.fits.progress import ticker
from bayes_risk.models.fits.sampling import Length, kept_chains, mixing
from bayes_risk.models.mixture.categorical.state import Draws, Prior, State, Units
from bayes_risk.models.mixture.counts.state import CountPrior, CountUnits

DIAGNOSED = 300

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How to sample."""

    length: Length
    thin: int
    sampler: str
    n_jobs: int
    progress: Progress | None


def sampled(
    build: Callable[..., Any],
    blocks: Any,
    prior: Prior | CountPrior,
    units: Units | CountUnits,
    start: Callable[..., State],
    run: Run,
    rng: np.random.Generator,
) -> tuple[Any, Draws]:
    """ArviZ's record of the chains, and the draws themselves.

    ``build(transformed=...)`` makes the PyMC model, whose variables hold the ``blocks`` of phi;
    ``start(prior, units, rng)`` scatters the chains.
    """
    from bayes_risk.models.mixture.categorical.pymc_start import draws_of

    record = partial(_record, build, blocks, prior, units, start, run, rng)
    idata = kept_chains(record, run.length)
    return idata, draws_of(idata, prior, blocks)


def _record(
    build: Callable[..., Any],
    blocks: Any,
    prior: Prior | CountPrior,
    units: Units | CountUnits,
    start: Callable[..., State],
    run: Run,
    rng: np.random.Generator,
) -> Any:
    import pymc as pm

    from bayes_risk.models.mixture.categorical.pymc_start import BlockedSweep

    seeds, starts = rng.spawn(2)
    tick = ticker(run.progress, "fit", run.length.steps)
    options = run.length.options(run.n_jobs, seeds) | {
        "callback": lambda trace, draw: tick(1),
        "return_inferencedata": True,
    }
    with build(transformed=run.sampler == "nuts") as model:
        if run.sampler == "nuts":
            return pm.sample(**options)
        step = BlockedSweep(model, prior, units, blocks=blocks, thin=run.thin, rng=seeds)
        children = starts.spawn(run.length.chains)
        points = [step.point(start(prior, units, child)) for child in children]
        return pm.sample(step=step, initvals=points, **options)


def diagnose(
    idata: Any,
    units: Units | CountUnits,
    draws: Draws,
    n_classes: int,
    log_masses: Callable[[npt.NDArray[np.int64]], Array],
) -> dict[str, float]:
    """R-hat and ESS of log predictives of some profiles; warn where the truncation binds.

    ``log_masses(which)`` gives those of some units, shape (H, len(which)).
    """
    import xarray as xr

    U = len(units.multiplicity)
    order = np.argsort(units.multiplicity, kind="stable")
    some = np.sort(order[np.linspace(0, U - 1, min(U, DIAGNOSED)).astype(int)])
    ess, rhat = ess_and_rhat(log_masses(some), draws.n_chains)
    diagnosed = xr.Dataset({"ess": ("profile", ess), "rhat": ("profile", rhat)})
    add_group(idata, "log_predictive", diagnosed)
    full = float((draws.n_occupied == n_classes).mean())
    if full > 0.05 and n_classes > 1:
        warnings.warn(
            f"all n_classes={n_classes} classes are occupied in {100 * full:.0f} % of draws: the "
            f"truncation binds; fit again with more classes",
            TruncationWarning,
            stacklevel=4,
        )
    return {
        "draws": len(draws) // draws.n_chains,
        "chains": draws.n_chains,
        "n_classes": n_classes,
        "n_occupied_mean": float(draws.n_occupied.mean()),
        "n_occupied_max": int(draws.n_occupied.max()),
        "truncation_binds": bool(full > 0.05 and n_classes > 1),
        **mixing(ess, rhat, draws.n_chains),
        "profiles_diagnosed": len(some),
    }
