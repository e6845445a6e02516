"""Mixtures as PyMC models: labels and kinds of zeros are summed out.

So a model can be sampled by NUTS as it stands (small tables); the blocked Gibbs step draws labels
inside the sweep and never shows them to PyMC.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import gammaln

from bayes_risk._compat import draws_name
from bayes_risk.data.microdata import Microdata

from .categorical.state import Prior, Units, ZeroLayout, n_normalised
from .columns import Columns
from .pymc_step import levels_name, log_weights_of, missing_name


def build(
    microdata: Microdata, columns: Columns, prior: Prior, units: Units, *, transformed: bool
) -> pm.Model:
    """Truncated stick-breaking mixture of products of families, classes summed out.

    Variables: ``alpha``, ``stick (K-1,)``, ``weights (K,)``, ``levels_<column> (K, d)``, and where
    there are such columns ``rates (K, p)``, ``zeros (K, p)``, ``means`` and ``precisions (K, r)``.
    With ``transformed=False`` the sampled values are these themselves, as the sweep needs.
    """
    K, plain = prior.n_classes, {} if transformed else {"default_transform": None}
    names, numbers = microdata.columns, [*columns.counts, *columns.reals]
    levels = [(names[j], microdata.variables[j].labels) for j in columns.levels]
    of_missing = [names[numbers[v]] for v in columns.may_be_missing]
    levels += [(missing_name(name), ["given", "missing"]) for name in of_missing]
    coords: dict[str, Any] = {"class": np.arange(K), "break": np.arange(K - 1)}
    coords |= {draws_name(f"level_{name}"): labels for name, labels in levels}
    coords |= {"count": [names[j] for j in columns.counts]} if prior.n_counts else {}
    coords |= {"real": [names[j] for j in columns.reals]} if prior.n_reals else {}
    with pm.Model(coords=coords) as model:
        alpha = pm.Gamma("alpha", *prior.concentration, **plain)
        log_weights = log_weights_of(alpha, K, plain)
        log_mass, every = log_weights[None, :], []
        if prior.n_counts:
            log_mass = log_mass + _log_counts(prior, units, plain)
        if prior.n_reals:
            log_mass = log_mass + _log_reals(prior, units, plain)
        for j, (name, labels) in enumerate(levels):
            concentration = np.full((K, len(labels)), prior.level)
            dims = ("class", draws_name(f"level_{name}"))
            chances = pm.Dirichlet(levels_name(name), concentration, dims=dims, **plain)
            log_mass = log_mass + pt.log(chances).T[units.positions[:, j] - prior.starts[j]]
            every.append(chances)
        if units.power is not None:  # a pseudo-posterior: sum_k [pi_k f_k(y)]^power
            log_mass = units.power[:, None] * log_mass
        top = log_mass.max(axis=1)  # pt.logsumexp leaves this to the compiler, which may not do it
        log_sum = top + pt.log(pt.exp(log_mass - top[:, None]).sum(axis=1))
        total = pt.sum(units.multiplicity * log_sum)
        if prior.zeros is not None:  # p(y) = f(y) / (1 - pi_0) for what is possible
            mass = _zero_mass_of(prior.zeros, pt.exp(log_weights), every)
            pm.Deterministic("zero_mass", mass)
            total = total - n_normalised(units) * pt.log1p(-mass)
        pm.Potential("log_likelihood", total)
    return model


def _log_counts(prior: Prior, units: Units, plain: dict[str, Any]) -> Any:
    """Log probability of each unit's counts in each class, shape (U, K)."""
    dims, x, e = ("class", "count"), units.counts[:, None, :], units.exposure[:, None, :]
    rates = pm.Gamma("rates", prior.shape, prior.rate, dims=dims, **plain)
    mean = e * rates[None]
    told, mean = e > 0, pt.switch(e > 0, mean, 1.0)
    terms = x * pt.log(mean) - mean - gammaln(x + 1.0)
    if prior.inflation is not None:
        psi = pm.Beta("zeros", *prior.inflation, dims=dims, **plain)[None]
        alive = pt.log1p(-psi) + terms
        terms = pt.switch(np.equal(x, 0.0), pt.logaddexp(pt.log(psi), alive), alive)
    return pt.switch(told, terms, 0.0).sum(axis=2)


def _log_reals(prior: Prior, units: Units, plain: dict[str, Any]) -> Any:
    """Log density of each unit's reals in each class, shape (U, K)."""
    dims, x = ("class", "real"), units.reals[:, None, :]
    m, kappa, a, b = prior.reals.T
    precision = pm.Gamma("precisions", a, b, dims=dims, **plain)
    mean = pm.Normal("means", m, tau=kappa * precision, dims=dims, **plain)
    told, gap = ~np.isnan(x), np.nan_to_num(x) - mean[None]
    terms = 0.5 * (pt.log(precision) - np.log(2.0 * np.pi) - precision * gap**2)
    return pt.switch(told, terms, 0.0).sum(axis=2)


def _zero_mass_of(zeros: ZeroLayout, weights: Any, levels: Sequence[Any]) -> Any:
    """pi_0 = sum_k pi_k sum_b prod_j sum of the levels of disjoint box b in variable j."""
    mass = weights[None, :]
    for (begin, end), level in zip(pairwise(zeros.starts), levels, strict=True):
        side = zeros.boxes[:, None, begin:end].astype(float) * level[None]  # shape (B, K, d_j)
        mass = mass * pt.sum(side, axis=2)
    return pt.sum(mass)
