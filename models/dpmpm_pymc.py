"""The DPMPM as a PyMC model, and the step that samples it.

The labels are summed out of the model's likelihood, so it can be sampled by NUTS as it stands; the
blocked Gibbs step draws them inside the sweep and never shows them to PyMC.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator

from bayes_risk.microdata import Microdata

from .latent_class import sweep
from .latent_state import Draws, Prior, State, Units

Array = npt.NDArray[np.float64]
BELOW_ONE = float(np.nextafter(1.0, 0.0))


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
        log_weights = _log_weights(alpha, K, plain)
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


def _log_weights(alpha: Any, K: int, plain: dict[str, Any]) -> Any:
    """Log of pi_k = V_k prod_{l<k} (1 - V_l), V_K = 1."""
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
    """Draws alpha, sticks and level probabilities together by blocked Gibbs sweeps."""

    name = "blocked Gibbs sweep"
    stats_dtypes_shapes: dict[str, tuple[type, list[int]]] = {"n_occupied": (np.int64, [])}
    _state_class = BlockedSweepState

    def __init__(
        self,
        model: pm.Model,
        prior: Prior,
        units: Units,
        *,
        columns: list[str],
        thin: int,
        rng: np.random.Generator,
    ) -> None:
        self.vars = [model.rvs_to_values[rv] for rv in model.free_RVs]
        self.blocked = True
        self.rng = get_random_generator(rng)
        self.prior, self.units, self.thin = prior, units, thin
        self.names = [f"levels_{c}" for c in columns]

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Never chosen by PyMC itself."""
        return Competence.INCOMPATIBLE

    def step(self, point: dict[str, Array]) -> tuple[dict[str, Array], list[dict[str, Any]]]:
        """`thin` sweeps from a point to the next."""
        prior, units = self.prior, self.units
        K, starts = prior.n_classes, prior.starts
        phi = np.ones((prior.width, K))
        for name, begin, end in zip(self.names, starts[:-1], starts[1:], strict=True):
            phi[begin:end] = point[name].T
        log_left = left_of(point["stick"]) if K > 1 else np.empty(0)
        pi = weights_of(log_left)
        n, M = np.zeros(K, np.int64), np.zeros((prior.width, K), np.int64)
        label, alpha = np.zeros(len(units.positions), np.int64), float(point["alpha"])
        for _ in range(self.thin):
            alpha = sweep(
                self.rng, units.positions, units.multiplicity, starts, prior.level,
                np.array(prior.concentration), prior.swaps, alpha, log_left, pi, phi, n, M, label,
            )  # fmt: skip
        state = State(alpha=alpha, log_left=log_left, pi=pi, phi=phi)
        new = self.point(state)  # in the order of `point`: PyMC records by position
        return {name: new[name] for name in point}, [{"n_occupied": int((n > 0).sum())}]

    def point(self, state: State) -> dict[str, Array]:
        """A state under the names that PyMC knows."""
        starts = self.prior.starts
        point = {
            name: np.ascontiguousarray(state.phi[begin:end].T)
            for name, begin, end in zip(self.names, starts[:-1], starts[1:], strict=True)
        }
        point["alpha"] = np.asarray(state.alpha)
        if self.prior.n_classes > 1:
            point["stick"] = np.minimum(-np.expm1(state.log_left), BELOW_ONE)
        return point


def left_of(stick: Array) -> Array:
    """log(1 - V)."""
    return np.log1p(-np.minimum(stick, BELOW_ONE))


def weights_of(log_left: Array) -> Array:
    """pi_k = V_k prod_{l<k} (1 - V_l), V_K = 1; the last axis counts classes."""
    one = np.ones((*log_left.shape[:-1], 1))
    log_rest = np.concatenate([0.0 * one, np.cumsum(log_left, axis=-1)], axis=-1)
    weights: Array = np.concatenate([-np.expm1(log_left), one], axis=-1) * np.exp(log_rest)
    return weights


def draws_of(idata: Any, prior: Prior, columns: list[str]) -> Draws:
    """Flatten ArviZ's posterior, chain after chain."""
    posterior = idata["posterior"]
    n_chains, size = posterior["alpha"].shape
    H, K = n_chains * size, prior.n_classes
    phi = np.ones((H, prior.width, K))
    for name, begin, end in zip(columns, prior.starts[:-1], prior.starts[1:], strict=True):
        levels = posterior[f"levels_{name}"].to_numpy().reshape(H, K, end - begin)
        phi[:, begin:end] = levels.swapaxes(1, 2)
    log_left = np.empty((H, 0))
    if K > 1:
        log_left = left_of(posterior["stick"].to_numpy().reshape(H, K - 1))
    stats = idata["sample_stats"]
    occupied = stats["n_occupied"].to_numpy().ravel() if "n_occupied" in stats else np.full(H, -1)
    return Draws(
        alpha=posterior["alpha"].to_numpy().ravel(),
        log_left=log_left,
        pi=weights_of(log_left),
        phi=phi,
        n_occupied=occupied.astype(np.int64),
        n_chains=n_chains,
    )
