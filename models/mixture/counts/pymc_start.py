"""The Poisson mixture as a PyMC model; labels and kinds of zeros are summed out.

So it can be sampled by NUTS as it stands (small tables); the blocked Gibbs step of `latent_pymc`
draws labels inside the sweep and never shows them to PyMC.
"""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import gammaln

from bayes_risk._compat import draws_name
from bayes_risk.data.microdata import Microdata, Variable
from bayes_risk.models.mixture.categorical.pymc_start import Blocks, levels_name, log_weights_of

from .state import CountPrior, CountUnits


def build(
    microdata: Microdata,
    counts: list[str],
    covariates: list[str],
    prior: CountPrior,
    units: CountUnits,
    *,
    transformed: bool,
) -> pm.Model:
    """Truncated stick-breaking mixture of products of Poissons, classes summed out.

    Variables: ``alpha``, ``stick (K-1,)``, ``weights (K,)``, ``rates (K, p)``, ``zeros (K, p)`` if
    there are structural ones, ``levels_<covariate> (K, d)``. With ``transformed=False`` the sampled
    values are the rates and probabilities themselves, as the sweep needs.
    """
    K, plain = prior.n_classes, {} if transformed else {"default_transform": None}
    levels = [v for v in microdata.variables if v.name in covariates and isinstance(v, Variable)]
    coords: dict[str, Any] = {"class": np.arange(K), "break": np.arange(K - 1), "count": counts}
    coords |= {draws_name(f"level_{v.name}"): v.labels for v in levels}
    with pm.Model(coords=coords) as model:
        alpha = pm.Gamma("alpha", *prior.concentration, **plain)
        log_mass = log_weights_of(alpha, K, plain)[None, :] + _log_counts(prior, units, plain)
        for j, name in enumerate(covariates):
            rows = units.positions[:, j] - prior.starts[j]
            concentration = np.full((K, prior.starts[j + 1] - prior.starts[j]), prior.level)
            dims = ("class", draws_name(f"level_{name}"))
            chances = pm.Dirichlet(levels_name(name), concentration, dims=dims, **plain)
            log_mass = log_mass + pt.log(chances).T[rows]
        if units.power is not None:  # a pseudo-posterior: sum_k [pi_k f_k(y)]^power
            log_mass = units.power[:, None] * log_mass
        top = log_mass.max(axis=1)  # pt.logsumexp leaves this to the compiler, which may not do it
        log_sum = top + pt.log(pt.exp(log_mass - top[:, None]).sum(axis=1))
        pm.Potential("log_likelihood", pt.sum(units.multiplicity * log_sum))
    return model


def _log_counts(prior: CountPrior, units: CountUnits, plain: dict[str, Any]) -> Any:
    """Log probability of each unit's counts in each class, shape (U, K)."""
    dims, x, e = ("class", "count"), units.counts[:, None, :], units.exposure[:, None, :]
    rates = pm.Gamma("rates", prior.shape, prior.rate, dims=dims, **plain)
    mean = e * rates[None]
    terms = x * pt.log(mean) - mean - gammaln(x + 1.0)
    if prior.zeros is not None:
        psi = pm.Beta("zeros", *prior.zeros, dims=dims, **plain)[None]
        alive = pt.log1p(-psi) + terms
        terms = pt.switch(np.equal(x, 0.0), pt.logaddexp(pt.log(psi), alive), alive)
    return terms.sum(axis=2)


def blocks_of(covariates: list[str], prior: CountPrior) -> Blocks:
    """Rows of phi that each variable of the model holds."""
    p = prior.n_counts
    blocks = {"rates": slice(0, p)}
    if prior.zeros is not None:
        blocks["zeros"] = slice(p, 2 * p)
    bounds = zip(covariates, prior.starts[:-1], prior.starts[1:], strict=True)
    return blocks | {levels_name(c): slice(int(begin), int(end)) for c, begin, end in bounds}
