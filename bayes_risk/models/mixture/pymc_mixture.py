"""Mixtures as PyMC models: labels and kinds of zeros are summed out.

So a model can be sampled by NUTS as it stands (small tables); the blocked Gibbs step draws labels
inside the sweep and never shows them to PyMC. A model's variables are ``alpha``, ``stick (K-1,)``,
``weights (K,)`` and blocks of rows of phi, each a variable of shape (K, rows).
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator
from scipy.special import gammaln

from bayes_risk._compat import draws_name, group
from bayes_risk._core.arrays import Array, Rng
from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import Microdata

from .columns import Columns
from .sampler import run_chain
from .state import Draws, Prior, Units, ZeroLayout, n_normalised

Blocks = Mapping[str, slice]
BELOW_ONE = float(np.nextafter(1.0, 0.0))


def levels_name(column: str) -> str:
    """Name of the variable that holds the probabilities of a column's levels."""
    if column.endswith("__"):
        raise InputError(
            f"column {column!r} ends in two underscores, which PyMC keeps for variables of its "
            "own; rename it"
        )
    return draws_name(f"levels_{column}")


def missing_name(column: str) -> str:
    """What the variable "is this number missing" is called after."""
    return f"{column}_missing"


def log_weights_of(alpha: Any, K: int, plain: dict[str, Any]) -> Any:
    """Log of pi_k = V_k prod_{l<k} (1 - V_l), V_K = 1; declares ``stick`` and ``weights``."""
    if K == 1:
        pm.Deterministic("weights", pt.ones(1), dims="class")
        return pt.zeros(1)
    stick = pm.Beta("stick", 1.0, alpha, dims="break", **plain)
    rest = pt.concatenate([pt.zeros(1), pt.cumsum(pt.log1p(-stick))])
    log_weights = rest + pt.concatenate([pt.log(stick), pt.zeros(1)])
    pm.Deterministic("weights", pt.exp(log_weights), dims="class")
    return log_weights


@dataclass_state
class BlockedSweepState(StepMethodState):
    """Nothing but the generator: the point is the whole state of the chain."""


class BlockedSweep(BlockedStep):
    """Draws alpha, sticks and all of phi together by blocked Gibbs sweeps."""

    name = "blocked Gibbs sweep"
    stats_dtypes_shapes: dict[str, tuple[type, list[int]]] = {"n_occupied": (np.int64, [])}
    _state_class = BlockedSweepState

    def __init__(
        self, model: pm.Model, prior: Prior, units: Units, *, blocks: Blocks, thin: int, rng: Rng
    ) -> None:
        self.vars = [model.rvs_to_values[rv] for rv in model.free_RVs]
        self.blocked = True
        self.rng = get_random_generator(rng)
        self.prior, self.units, self.thin, self.blocks = prior, units, thin, blocks

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Called by PyMC, which never chooses this step by itself."""
        return Competence.INCOMPATIBLE

    def step(self, point: dict[str, Array]) -> tuple[dict[str, Array], list[dict[str, Any]]]:
        """`thin` sweeps from a point to the next."""
        K = self.prior.n_classes
        log_left = left_of(point["stick"]) if K > 1 else np.empty(0)
        phi = empty_phi(self.prior, ())
        for name, rows in self.blocks.items():
            phi[rows] = point[name].T
        start = Draws.point(float(point["alpha"]), log_left, weights_of(log_left), phi)
        draw = run_chain(
            self.prior, self.units, start, draws=1, tune=0, thin=self.thin, rng=self.rng
        )
        new = self.point(draw.last(0))  # in the order of `point`: PyMC records by position
        return {name: new[name] for name in point}, [{"n_occupied": int(draw.n_occupied[0])}]

    def point(self, state: Draws) -> dict[str, Array]:
        """A state under the names that PyMC knows."""
        point = {
            name: np.ascontiguousarray(state.phi[0, rows].T) for name, rows in self.blocks.items()
        }
        point["alpha"] = np.asarray(state.alpha[0])
        if self.prior.n_classes > 1:
            point["stick"] = np.minimum(-np.expm1(state.log_left[0]), BELOW_ONE)
        return point


def empty_phi(prior: Prior, shape: tuple[int, ...]) -> Array:
    """phi before its blocks are filled: padding rows are 1, chances of a zero that are not, 0."""
    phi = np.ones((*shape, prior.width, prior.n_classes))
    phi[..., prior.n_counts : 2 * prior.n_counts, :] = 0.0
    return phi


def left_of(stick: Array) -> Array:
    """log(1 - V)."""
    return np.log1p(-np.minimum(stick, BELOW_ONE))


def weights_of(log_left: Array) -> Array:
    """pi_k = V_k prod_{l<k} (1 - V_l), V_K = 1; the last axis counts classes."""
    one = np.ones((*log_left.shape[:-1], 1))
    log_rest = np.concatenate([0.0 * one, np.cumsum(log_left, axis=-1)], axis=-1)
    return np.asarray(np.concatenate([-np.expm1(log_left), one], axis=-1) * np.exp(log_rest))


def draws_of(idata: Any, prior: Prior, blocks: Blocks) -> Draws:
    """Flatten ArviZ's posterior, chain after chain."""
    posterior, stats = group(idata, "posterior"), group(idata, "sample_stats")
    n_chains, size = posterior["alpha"].shape
    H, K = n_chains * size, prior.n_classes
    phi = empty_phi(prior, (H,))
    for name, rows in blocks.items():
        values = posterior[name].to_numpy()
        phi[:, rows] = values.reshape(H, K, values.shape[-1]).swapaxes(1, 2)
    log_left = np.empty((H, 0))
    if K > 1:
        log_left = left_of(posterior["stick"].to_numpy().reshape(H, K - 1))
    occupied = stats["n_occupied"].to_numpy().ravel() if "n_occupied" in stats else np.full(H, -1)
    return Draws(
        alpha=posterior["alpha"].to_numpy().ravel(),
        log_left=log_left,
        pi=weights_of(log_left),
        phi=phi,
        n_occupied=occupied.astype(np.int64),
        n_chains=n_chains,
    )


def pymc_of_mixture(
    microdata: Microdata, columns: Columns, prior: Prior, units: Units, *, transformed: bool
) -> pm.Model:
    """Truncated stick-breaking mixture of products of families, classes summed out.

    With ``transformed=False`` the sampled values are the variables themselves, as sweeps need.
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
            log_mass = log_mass + pt.log(chances).T[units.data.positions[:, j] - prior.starts[j]]
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
    dims, x, e = ("class", "count"), units.data.counts[:, None, :], units.data.exposure[:, None, :]
    rates = pm.Gamma("rates", prior.shape, prior.rate, dims=dims, **plain)
    mean = e * rates[None]
    observed, mean = e > 0, pt.switch(e > 0, mean, 1.0)
    terms = x * pt.log(mean) - mean - gammaln(x + 1.0)
    if prior.inflation is not None:
        psi = pm.Beta("zeros", *prior.inflation, dims=dims, **plain)[None]
        alive = pt.log1p(-psi) + terms
        terms = pt.switch(np.equal(x, 0.0), pt.logaddexp(pt.log(psi), alive), alive)
    return pt.switch(observed, terms, 0.0).sum(axis=2)


def _log_reals(prior: Prior, units: Units, plain: dict[str, Any]) -> Any:
    """Log density of each unit's reals in each class, shape (U, K)."""
    dims, x = ("class", "real"), units.data.reals[:, None, :]
    m, kappa, a, b = prior.reals.T
    precision = pm.Gamma("precisions", a, b, dims=dims, **plain)
    mean = pm.Normal("means", m, tau=kappa * precision, dims=dims, **plain)
    observed, gap = ~np.isnan(x), np.nan_to_num(x) - mean[None]
    terms = 0.5 * (pt.log(precision) - np.log(2.0 * np.pi) - precision * gap**2)
    return pt.switch(observed, terms, 0.0).sum(axis=2)


def _zero_mass_of(zeros: ZeroLayout, weights: Any, levels: Sequence[Any]) -> Any:
    """pi_0 = sum_k pi_k sum_b prod_j sum of the levels of disjoint box b in variable j."""
    mass = weights[None, :]
    for (begin, end), level in zip(pairwise(zeros.starts), levels, strict=True):
        side = zeros.boxes[:, None, begin:end].astype(float) * level[None]  # shape (B, K, d_j)
        mass = mass * pt.sum(side, axis=2)
    return pt.sum(mass)
