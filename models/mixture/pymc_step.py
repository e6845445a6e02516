"""What PyMC models of truncated mixtures share: weights, the blocked step, and the way back.

A model's variables are ``alpha``, ``stick (K-1,)``, ``weights (K,)`` and blocks of rows of phi,
each a variable of shape (K, rows).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator

from bayes_risk._compat import draws_name, group
from bayes_risk._core.errors import InputError

from .categorical.sampler import run_chain
from .categorical.state import Draws, Prior, State, Units

Array = npt.NDArray[np.float64]
Blocks = Mapping[str, slice]
BELOW_ONE = float(np.nextafter(1.0, 0.0))


def levels_name(column: str) -> str:
    """Name of the variable that holds the probabilities of a column's levels.

    Raises
    ------
    InputError
        PyMC would take the name for one of its own.
    """
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
        self,
        model: pm.Model,
        prior: Prior,
        units: Units,
        *,
        blocks: Blocks,
        thin: int,
        rng: np.random.Generator,
    ) -> None:
        self.vars = [model.rvs_to_values[rv] for rv in model.free_RVs]
        self.blocked = True
        self.rng = get_random_generator(rng)
        self.prior, self.units, self.thin, self.blocks = prior, units, thin, blocks

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Never chosen by PyMC itself."""
        return Competence.INCOMPATIBLE

    def step(self, point: dict[str, Array]) -> tuple[dict[str, Array], list[dict[str, Any]]]:
        """`thin` sweeps from a point to the next."""
        K = self.prior.n_classes
        log_left = left_of(point["stick"]) if K > 1 else np.empty(0)
        phi = empty_phi(self.prior, ())
        for name, rows in self.blocks.items():
            phi[rows] = point[name].T
        start = State(
            alpha=float(point["alpha"]), log_left=log_left, pi=weights_of(log_left), phi=phi
        )
        draw = run_chain(
            self.prior, self.units, start, draws=1, tune=0, thin=self.thin, rng=self.rng
        )
        new = self.point(draw.last(0))  # in the order of `point`: PyMC records by position
        return {name: new[name] for name in point}, [{"n_occupied": int(draw.n_occupied[0])}]

    def point(self, state: State) -> dict[str, Array]:
        """A state under the names that PyMC knows."""
        point = {
            name: np.ascontiguousarray(state.phi[rows].T) for name, rows in self.blocks.items()
        }
        point["alpha"] = np.asarray(state.alpha)
        if self.prior.n_classes > 1:
            point["stick"] = np.minimum(-np.expm1(state.log_left), BELOW_ONE)
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
    weights: Array = np.concatenate([-np.expm1(log_left), one], axis=-1) * np.exp(log_rest)
    return weights


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
