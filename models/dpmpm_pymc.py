"""The DPMPM as a PyMC model.

The labels are summed out of the model's likelihood, so it can be sampled by NUTS as it stands; the
blocked Gibbs step draws them inside the sweep and never shows them to PyMC.
"""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_risk.microdata import Microdata

from .latent_pymc import Blocks, log_weights_of
from .latent_state import Prior, Units


def build(microdata: Microdata, prior: Prior, units: Units, *, transformed: bool) -> pm.Model:
    """Truncated stick-breaking mixture of products of multinomials, classes summed out.

    Variables: ``alpha``, ``stick (K-1,)``, ``weights (K,)``, ``levels_<column> (K, d_j)``. With
    ``transformed=False`` the sampled values are the probabilities themselves, as the sweep needs.
    """
    K, plain = prior.n_classes, {} if transformed else {"default_transform": None}
    coords: dict[str, Any] = {"class": np.arange(K), "break": np.arange(K - 1)}
    coords |= {f"level_{v.name}": v.labels for v in microdata.variables}
    with pm.Model(coords=coords) as model:
        alpha = pm.Gamma("alpha", *prior.concentration, **plain)
        log_weights = log_weights_of(alpha, K, plain)
        log_mass = log_weights[None, :]
        rows = units.positions - prior.starts[:-1]
        for j, v in enumerate(microdata.variables):
            concentration = np.full((K, v.n_levels), prior.level)
            dims = ("class", f"level_{v.name}")
            levels = pm.Dirichlet(f"levels_{v.name}", concentration, dims=dims, **plain)
            log_mass = log_mass + pt.log(levels).T[rows[:, j]]
        total = pt.sum(units.multiplicity * pt.logsumexp(log_mass, axis=1))
        pm.Potential("log_likelihood", total)
    return model


def blocks_of(columns: list[str], prior: Prior) -> Blocks:
    """Rows of phi that each variable of the model holds."""
    bounds = zip(columns, prior.starts[:-1], prior.starts[1:], strict=True)
    return {f"levels_{c}": slice(int(begin), int(end)) for c, begin, end in bounds}
