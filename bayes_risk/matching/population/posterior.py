"""Posterior draws of expected sample counts: a Poisson log-linear model in PyMC.

The only room besides ``models`` that imports PyMC, and only when draws are asked for.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._compat import group
from bayes_risk._core.errors import InputError
from bayes_risk._core.loglinear import Terms
from bayes_risk._core.loglinear_effects import PAIR_CENTRE, PAIR_SPREAD, Effects, posterior_mode
from bayes_risk.evidence.diagnostics import ess_and_rhat

Ids = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

CHAINS = 4
TUNE = 200  # finds the step size only: the mass matrix is known
MAX_DRAWN_CELLS = 100_000
MAX_HELD = 50_000_000  # draws x cells, and effects x cells
AT_MOST = 200  # observed cells whose means are diagnosed


class Posterior(NamedTuple):
    """Draws of the expected sample counts, shape (S, C), chain after chain; their quality."""

    mu: Reals
    diagnostics: dict[str, float]


def posterior_means(
    cells: Ids, count: Ids, *, terms: Terms, draws: int, rng: np.random.Generator
) -> Posterior:
    r"""Draws of mu_t given the sample counts of all cells that can be populated.

    .. math:: N_t \sim \mathrm{Poisson}(\mu_t), \quad
              \log\mu_t = \alpha + \sum_a \beta^a_{t_a} + \sum_{a<b} \gamma^{ab}_{t_a t_b}

    with alpha ~ Normal(log(n/C), 5), beta ~ Normal(0, 2) and gamma ~ Normal(0, tau_ab), both
    summing to 0 over each key's levels, log tau_ab ~ Normal(log 0.5, 0.7).

    Parameters
    ----------
    cells : ndarray of int64, shape (C, q)
        Level codes.
    count : ndarray of int64, shape (C,)
        Sample counts N_t, many of them 0.
    terms : tuple of tuple of int
        Margins of the model; pairs bring interactions.
    draws : int
        Draws S over all chains, a multiple of 4.
    rng : Generator

    Returns
    -------
    Posterior
        ``diagnostics``: largest ``rhat`` and smallest ``ess`` of log mu over (up to 200) observed
        cells, ``divergences``, ``chains``, ``cells``.

    Raises
    ------
    InputError
        Draws or effects times cells above 50,000,000.
    """
    effects = Effects.of(cells, [term for term in terms if len(term) == 2])
    _check_room(len(cells), draws, effects.n_effects)
    theta, diverged = _sampled(effects, count, draws, rng)
    eta = theta @ effects.design().T
    some = np.flatnonzero(count)
    some = some[np.linspace(0, len(some) - 1, min(AT_MOST, len(some))).astype(int)]
    ess, rhat = ess_and_rhat(eta[:, some], CHAINS)
    diagnostics = {
        "rhat": float(rhat.max()),
        "ess": float(ess.min()),
        "divergences": float(diverged),
        "chains": float(CHAINS),
        "cells": float(len(cells)),
    }
    return Posterior(np.exp(eta), diagnostics)


def _model(effects: Effects, count: Ids, centre: float) -> Any:
    """Declare the model in coordinates of the effects' contrasts."""
    import pymc as pm
    import pytensor.tensor as pt

    with pm.Model() as model:
        log_scale = pm.Normal("log_scale", PAIR_CENTRE, PAIR_SPREAD, shape=len(effects.pairs))
        own = pt.exp(pt.concatenate([log_scale, np.zeros(1)]))[effects.pair_of]
        mean = np.where(np.arange(effects.n_effects) == 0, centre, 0.0)
        theta = pm.Normal("theta", mean, own * effects.fixed_scale, shape=effects.n_effects)
        eta: Any = theta[0] + np.zeros(len(count))
        for term, where, shape in zip(effects.terms, effects.blocks, effects.shapes, strict=True):
            effect = theta[where].reshape(shape)
            for a in term:
                effect = pt.tensordot(effect, effects.basis[a], axes=[[0], [1]])
            eta += effect[tuple(effects.cells[:, a] for a in term)]
        pm.Poisson("N", mu=pm.math.exp(eta), observed=count)
    return model


def _sampled(
    effects: Effects, count: Ids, draws: int, rng: np.random.Generator
) -> tuple[Reals, int]:
    """Draws of theta (S, K), chain after chain, and the number of divergences."""
    import pymc as pm
    from pymc.step_methods.hmc.quadpotential import QuadPotentialFull

    centre = float(np.log(count.sum() / len(count)))
    covariance, starts = _approximation(effects, count, centre, rng)
    with _quiet(), _model(effects, count, centre):
        step = pm.NUTS(potential=QuadPotentialFull(covariance), target_accept=0.8)
        idata = pm.sample(
            step=step,
            initvals=starts,
            draws=draws // CHAINS,
            tune=TUNE,
            chains=CHAINS,
            cores=1,
            random_seed=rng,
            progressbar=False,
            compute_convergence_checks=False,
            quiet=True,
        )
    theta = group(idata, "posterior")["theta"].to_numpy().reshape(draws, -1)
    return theta, int(group(idata, "sample_stats")["diverging"].sum())


def _approximation(
    effects: Effects, count: Ids, centre: float, rng: np.random.Generator
) -> tuple[Reals, list[dict[str, Reals]]]:
    """Normal approximation at the mode: mass matrix of (log_scale, theta), and the starts."""
    theta, log_scale, of_theta = posterior_mode(effects, count.astype(float), centre)
    P, pair = len(log_scale), effects.pair_of
    told = np.bincount(pair + 1, (theta * np.exp(-np.append(log_scale, 0.0)[pair])) ** 2, P + 1)
    covariance = np.zeros((P + len(theta),) * 2)
    covariance[:P, :P] = np.diag(1 / (PAIR_SPREAD**-2 + told[1:]))
    covariance[P:, P:] = of_theta
    mode = np.append(log_scale, theta)
    points = rng.multivariate_normal(mode, covariance, size=CHAINS, method="cholesky")
    return covariance, [{"log_scale": point[:P], "theta": point[P:]} for point in points]


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings of PyTensor's linker, nor of overflows while the step size is found."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _check_room(n_cells: int, draws: int, n_effects: int) -> None:
    if max(draws, n_effects) * n_cells > MAX_HELD:
        raise InputError(
            f"draws={draws:,} of {n_effects:,} effects on {n_cells:,} cells need more than "
            f"{MAX_HELD:,} numbers; give fewer draws, fewer or coarser keys, or interactions=1"
        )
