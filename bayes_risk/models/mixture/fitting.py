"""Fitting a truncated mixture through PyMC: how long, by which sampler, and how well it mixed."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._compat import add_group
from bayes_risk._core.errors import InputError, TruncationWarning
from bayes_risk._core.validate import one_of, whole_number
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import Progress
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.models.fits.sampling import Length, kept_chains, mixing
from bayes_risk.models.fits.synthesis import Ticker

from .columns import Columns
from .posterior import MixturePosterior, log_masses
from .sampler import initial_state
from .state import DRAWN, Draws, Prior, Units
from .zeros import log_possible

DIAGNOSED = 300
SOMETIMES = 0.05  # share of draws with every class occupied from which the truncation binds
SPLITS = 5  # enough for chains of 1,000 records in 10 columns to agree, which none do


def fitted(
    model: Any,
    df: pd.DataFrame | Microdata,
    length: Length,
    *,
    weights: Any,
    splits: int | None,
    sampler: str,
    sample: bool,
    random_seed: Any,
    n_jobs: int,
    progress: Progress | None,
    **tables: Any,
) -> Any:
    """Sample; unless it is to be sampled, the fit has one start in the place of all draws."""
    from .pymc_mixture import draws_of

    one_of("sampler", sampler, ("gibbs", "nuts"))
    data = df if isinstance(df, Microdata) else model._coded(df, **tables)
    data, columns, prior, alpha = model._read(data, weights)
    other = {"impossible": prior.zeros is not None, 'sampler="nuts"': sampler == "nuts"}
    usual = 0 if any(other.values()) else prior.splits
    splits = usual if splits is None else whole_number("splits", splits)
    for name, given in other.items():
        if splits > 0 and given:
            raise InputError(
                "splits",
                splits,
                f"with {name}: classes are split and merged in blocked sweeps of tables without "
                f"structural zeros; leave splits or {name} out",
            )
    prior, rng = replace(prior, splits=splits), np.random.default_rng(random_seed)
    units = columns.rows(data.codes, prior).units(power=alpha)
    idata: Any = None
    if sample:
        how: Any = {"nuts": sampler == "nuts", "rng": rng, "n_jobs": n_jobs}
        how |= {"tick": Ticker(progress, "fit", length.steps)}
        idata = kept_chains(partial(_record, data, columns, prior, units, length, **how), length)
        theta = draws_of(idata, prior, blocks_of(data, columns, prior))
    else:
        theta = repeated(initial_state(prior, units, rng), length)
    posterior = MixturePosterior(
        prior=prior,
        columns=columns,
        units=units,
        draws=theta,
        thin=length.thin,
        conditional=np.zeros(len(columns.order), dtype=bool),
    )
    return model._FIT(
        model=model,
        microdata=data,
        idata=idata,
        posterior=posterior,
        diagnostics=diagnose(idata, posterior) if sample else {},
        weights=alpha,
    )


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

    from .pymc_mixture import BlockedSweep, build

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
    from .pymc_mixture import levels_name, missing_name

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
