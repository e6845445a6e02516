"""The DPMPM as a PyMC model.

The labels are summed out of the model's likelihood, so it can be sampled by NUTS as it stands; the
blocked Gibbs step draws them inside the sweep and never shows them to PyMC.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_risk._compat import draws_name
from bayes_risk.data.microdata import Microdata

from .pymc_start import Blocks, levels_name, log_weights_of
from .state import Prior, Units, ZeroLayout, n_normalised


def build(microdata: Microdata, prior: Prior, units: Units, *, transformed: bool) -> pm.Model:
    """Truncated stick-breaking mixture of products of multinomials, classes summed out.

    Variables: ``alpha``, ``stick (K-1,)``, ``weights (K,)``, ``levels_<column> (K, d_j)``. With
    ``transformed=False`` the sampled values are the probabilities themselves, as the sweep needs.
    """
    K, plain = prior.n_classes, {} if transformed else {"default_transform": None}
    coords: dict[str, Any] = {"class": np.arange(K), "break": np.arange(K - 1)}
    coords |= {draws_name(f"level_{v.name}"): v.labels for v in microdata.variables}
    with pm.Model(coords=coords) as model:
        alpha = pm.Gamma("alpha", *prior.concentration, **plain)
        log_weights = log_weights_of(alpha, K, plain)
        log_mass, every = log_weights[None, :], []
        rows = units.positions - prior.starts[:-1]
        for j, v in enumerate(microdata.variables):
            concentration = np.full((K, v.n_levels), prior.level)
            dims = ("class", draws_name(f"level_{v.name}"))
            levels = pm.Dirichlet(levels_name(v.name), concentration, dims=dims, **plain)
            log_mass = log_mass + pt.log(levels).T[rows[:, j]]
            every.append(levels)
        if units.power is not None:  # a pseudo-posterior: sum_k [pi_k f_k(y)]^power
            log_mass = units.power[:, None] * log_mass
        total = pt.sum(units.multiplicity * pt.logsumexp(log_mass, axis=1))
        if prior.zeros is not None:  # p(y) = f(y) / (1 - pi_0) for what is possible
            mass = zero_mass_of(prior.zeros, pt.exp(log_weights), every)
            pm.Deterministic("zero_mass", mass)
            total = total - n_normalised(units) * pt.log1p(-mass)
        pm.Potential("log_likelihood", total)
    return model


def zero_mass_of(zeros: ZeroLayout, weights: Any, levels: list[Any]) -> Any:
    """pi_0 = sum_k pi_k sum_b prod_j sum of the levels of disjoint box b in variable j."""
    mass = weights[None, :]
    for (begin, end), level in zip(pairwise(zeros.starts), levels, strict=True):
        side = zeros.boxes[:, None, begin:end].astype(float) * level[None]  # shape (B, K, d_j)
        mass = mass * pt.sum(side, axis=2)
    return pt.sum(mass)


def blocks_of(columns: list[str], prior: Prior) -> Blocks:
    """Rows of phi that each variable of the model holds."""
    bounds = zip(columns, prior.starts[:-1], prior.starts[1:], strict=True)
    return {levels_name(c): slice(int(begin), int(end)) for c, begin, end in bounds}
