"""Chains of p(Theta | y, Z), and of the same without a record, from one compiled density.

The user's prior is kept and their likelihood is replaced by the weighted sum of log row densities:
records of the table have their record weights (1 without any, 0 for who is left out), released rows
1. Tables and weights are shared variables, so other
releases and other records left out cost no compilation. The chains start warm: at draws of the
table's own posterior, with its variances as mass matrix.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
from pymc.blocking import DictToArrayBijection
from pymc.sampling.mcmc import assign_step_methods, instantiate_steppers
from pymc.step_methods.hmc.quadpotential import QuadPotentialDiagAdapt
from pytensor.compile.sharedvalue import shared

from bayes_risk._compat import set_up_chain
from bayes_risk._core.errors import ModelError
from bayes_risk._core.steps import kept
from bayes_risk._core.workers import in_order
from bayes_risk.data.microdata import Codes
from bayes_risk.models.fits.kept_draws import CHAINS

from .density import Engine, Theta
from .graph import RowGraph
from .layout import Values
from .leaves import substituted

Point = dict[str, npt.NDArray[Any]]
WARM = 300  # draws that set the first mass matrix
WEIGHT = 20  # and for how many draws of the warm-up they count


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Condition:
    """What Theta is conditioned on: the table, perhaps without a record, and a release or none.

    ``z`` released codes (n, p) of each data set and ``replaced`` (n,) the rows that count;
    ``columns`` the synthesised ones, none without a release; ``left_out`` the record, -1 for none.
    ``power`` (n,) the record weights, powers of the likelihood of ``y``; None: all 1.
    """

    y: Codes
    z: tuple[Codes, ...]
    replaced: npt.NDArray[np.bool_]
    columns: tuple[str, ...]
    left_out: int = -1
    power: npt.NDArray[np.float64] | None = None

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """What each record counts: its weight, 0 if it is left out."""
        counts = np.ones(len(self.y)) if self.power is None else self.power.copy()
        if self.left_out >= 0:
            counts[self.left_out] = 0.0
        return counts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """A table and its weights as shared variables."""

    graph: RowGraph
    table: list[Any]
    weight: Any

    @classmethod
    def of(cls, graph: RowGraph, values: Values) -> "Rows":
        """Share the values of a table."""
        table = [shared(v, shape=v.shape) for v in values]
        return cls(graph=graph, table=table, weight=shared(np.ones(graph.rows)))

    def total(self, model: Any, columns: Sequence[str]) -> Any:
        """Weighted sum of log densities, in the parameters of a model."""
        # 0 times minus infinity is no number: a row without weight is not looked at
        return sum(
            pt.switch(self.weight > 0, self.weight * term, 0.0).sum()
            for term in self._terms(model, columns)
        )

    def taken_back(self, model: Any, columns: Sequence[str]) -> Any:
        """What weights take back of a likelihood that counts every row in full."""
        # a density of zero stays one, whatever the weight
        return sum(
            pt.switch(term > -np.inf, (self.weight - 1.0) * term, 0.0).sum()
            for term in self._terms(model, columns)
        )

    def _terms(self, model: Any, columns: Sequence[str]) -> list[Any]:
        known = dict(zip(self.graph.data, self.table, strict=True))
        known |= {x: model[name] for name, x in self.graph.free.items()}
        return substituted([self.graph.log_p[c] for c in columns], known)

    def put(self, values: Values, weight: npt.NDArray[np.float64]) -> None:
        """Another table and other weights."""
        for held, value in zip(self.table, values, strict=True):
            held.set_value(value)
        self.weight.set_value(weight.astype(float))


def pseudo_posterior(engine: Engine, condition: Condition) -> Any:
    """The user's model of the table, its likelihood raised to the record weights.

    A potential adds ``sum_i (alpha_i - 1) log p(y_i | Theta)`` over the modelled columns; without
    weights it is the user's model as it is.
    """
    builder = engine.builder
    model = builder.model(condition.y)
    if condition.power is None:
        return model
    graph = engine.graph(condition.y)
    values = graph.values(builder, condition.y)
    rows = Rows.of(graph, values)
    rows.put(values, condition.weights)
    with model:
        pm.Potential("__weights", rows.taken_back(model, builder.columns))
    return model


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """Kept draws, warm-up, and steps between kept draws."""

    draws: int
    tune: int
    thin: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sampler:
    """A compiled step for p(Theta | y, Z) with any y, Z of given columns.

    ``fresh`` is the step's state before any chain; ``inward`` turns parameters into the sampler's
    unconstrained values, ``outward`` back.
    """

    engine: Engine
    y: Rows
    z: list[Rows]
    step: Any
    fresh: Any
    values: list[str]
    names: list[str]
    inward: Callable[..., Any]
    outward: Callable[..., Any]

    @classmethod
    def of(cls, engine: Engine, condition: Condition, theta: Theta) -> "Sampler":
        """Compile for a set of columns; draws of Theta set the mass matrix."""
        builder = engine.builder
        model = builder.model(condition.y)
        graph = engine.graph(condition.y)
        values = graph.values(builder, condition.y)
        y = Rows.of(graph, values)
        z = [Rows.of(graph, values) for _ in condition.z]
        with model:
            pm.Potential("__table", y.total(model, builder.columns))
            for l, rows in enumerate(z, start=1):
                pm.Potential(f"__release{l}", rows.total(model, condition.columns))
        others = [rv for rv in model.observed_RVs if rv.name not in builder.columns]
        model.observed_RVs = type(model.observed_RVs)(others)
        inward, outward = _inward(model), _outward(model)
        names = [rv.name for rv in model.free_RVs]
        value_names = [v.name for v in model.value_vars]
        points = [
            dict(zip(value_names, inward(*at), strict=True))
            for at in zip(*(_some(theta[name]) for name in names), strict=True)
        ]
        step = _step(model, points)
        return cls(
            engine=engine,
            y=y,
            z=z,
            step=step,
            fresh=step.sampling_state,
            values=value_names,
            names=names,
            inward=inward,
            outward=outward,
        )

    def run(
        self,
        condition: Condition,
        starts: Sequence[Mapping[str, Any]],
        *,
        draws: int,
        tune: int,
        thin: int,
        rng: np.random.Generator,
        n_jobs: int = 1,
        tick: Callable[[int], None] = lambda done: None,
    ) -> list[Theta]:
        """Draws of each chain, every ``thin``-th kept."""
        how: Any = {"draws": draws, "tune": tune, "thin": thin}
        run = partial(self._run, condition, starts, **how, rng=rng, n_jobs=n_jobs, tick=tick)
        return kept("draws", run, CHAINS)

    def _run(
        self,
        condition: Condition,
        starts: Sequence[Mapping[str, Any]],
        *,
        draws: int,
        tune: int,
        thin: int,
        rng: np.random.Generator,
        n_jobs: int,
        tick: Callable[[int], None],
    ) -> list[Theta]:
        length = Length(draws=draws, tune=tune, thin=thin)
        jobs = [
            partial(self._chain, start, length, child)
            for start, child in zip(starts, rng.spawn(len(starts)), strict=True)
        ]
        chains = []
        with self.engine.lock:
            self._condition(condition)
            for chain in in_order(jobs, n_jobs=n_jobs, what="chains", where="forks"):
                chains.append(chain)
                tick(draws)
        return chains

    def _condition(self, condition: Condition) -> None:
        builder = self.engine.builder
        self.y.put(self.y.graph.values(builder, condition.y), condition.weights)
        for rows, z in zip(self.z, condition.z, strict=True):
            rows.put(rows.graph.values(builder, z), condition.replaced.astype(float))

    def _chain(self, start: Mapping[str, Any], length: Length, rng: np.random.Generator) -> Theta:
        step = self.step
        step.sampling_state = self.fresh  # no chain knows of another
        set_up_chain(step, rng, tune=length.tune, draws=length.draws * length.thin)
        point = dict(zip(self.values, self.inward(*(start[k] for k in self.names)), strict=True))
        kept = []
        with np.errstate(all="ignore"):
            for _ in range(length.tune):
                point, _ = self._moved(point)
            step.stop_tuning()
            for _ in range(length.draws):
                for _ in range(length.thin):
                    point, _ = self._moved(point)
                kept.append(self.outward(*(point[k] for k in self.values)))
        return {
            name: np.stack(x) for name, x in zip(self.names, zip(*kept, strict=True), strict=True)
        }

    def _moved(self, point: Point) -> Any:
        try:
            return self.step.step(point)
        except pm.exceptions.SamplingError as error:
            raise ModelError(
                f"the sampler cannot move from a draw of the parameters ({error}); fit again with "
                "more tuning, or reparametrise the model"
            ) from error


def _inward(model: Any) -> Callable[..., Any]:
    """Compile the map from parameters, on their own scale, to the sampler's values."""
    own = {rv: rv.type(name=rv.name) for rv in model.free_RVs}
    out = []
    for rv in model.free_RVs:
        transform = model.rvs_to_transforms[rv]
        out.append(rv if transform is None else transform.forward(rv, *rv.owner.inputs))
    out = substituted(out, own)
    compiled: Callable[..., Any] = pm.compile(list(own.values()), out, on_unused_input="ignore")
    return compiled


def _outward(model: Any) -> Callable[..., Any]:
    """Compile the map back."""
    out = model.replace_rvs_by_values(model.free_RVs)
    compiled: Callable[..., Any] = pm.compile(model.value_vars, out, on_unused_input="ignore")
    return compiled


def _step(model: Any, points: Sequence[Point]) -> Any:
    """NUTS with the spread of some points as mass matrix; PyMC's choice for discrete values."""
    smooth = [v.name for v in model.continuous_value_vars]
    if len(smooth) < len(model.value_vars):
        given, chosen = assign_step_methods(model)
        steps = instantiate_steppers(model, list(given), chosen, initial_point=points[0])
        return pm.CompoundStep(steps) if isinstance(steps, list) else steps
    flat = np.stack([DictToArrayBijection.map({k: p[k] for k in smooth}).data for p in points])
    potential = QuadPotentialDiagAdapt(
        flat.shape[1], flat.mean(axis=0), np.maximum(flat.var(axis=0), 1e-10), WEIGHT
    )
    return pm.NUTS(model=model, potential=potential, initial_point=points[0])


def _some(x: npt.NDArray[Any]) -> Sequence[Any]:
    return list(x[np.linspace(0, len(x) - 1, min(WARM, len(x))).astype(int)])
