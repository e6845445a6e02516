"""Regressions in PyMC: one model a part, compiled once, its data exchanged from fit to fit."""

import threading
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayes_risk._compat import group
from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk.models.fits.sampling import Length, kept_chains

from .families import CategoricalLogit, first_cuts
from .part import Part, SampledRows, n_outcomes

Values = Mapping[str, Array]
TARGET_ACCEPT = 0.9


class Nuts:
    """PyMC's NUTS for one regression, slow to make (it compiles), quick to use again.

    After the first fit the metric is the covariance of its draws, so later fits need a short
    warm-up. One fit at a time: threads wait for each other.
    """

    def __init__(self, part: Part, nuts_sampler: str) -> None:
        self.part, self.nuts_sampler = part, nuts_sampler
        self.model: Any = None
        self.step: Any = None
        self.compiled: Any = None  # nutpie's
        self.data: dict[str, Array] = {}
        self.others: dict[str, Nuts] = {}  # of the same regression under other priors
        self.lock = threading.Lock()

    def of(self, part: Part) -> "Nuts":
        """The same regression under another prior, compiled once for each."""
        fresh = Nuts(part, self.nuts_sampler)
        return self.others.setdefault(repr(part.prior), fresh)

    def run(
        self,
        rows: SampledRows,
        length: Length,
        *,
        start: list[Values] | None,
        rng: np.random.Generator,
        tick: Any = lambda done: None,
    ) -> dict[str, Array]:
        """Draws of the sampled parameters by name, each of shape (chains, draws, ...)."""
        with self.lock:
            self._give(rows)
            points = start or [self._first(rng) for _ in range(length.chains)]
            trace = kept_chains(lambda: self._drawn(points, length, rng, tick), length)
            posterior = group(trace, "posterior")
            found = {str(k): v.to_numpy() for k, v in posterior.data_vars.items()}
            if start is None:
                self._learn_metric(found)
        return found

    def begun(
        self, rows: SampledRows, length: Length, *, rng: np.random.Generator, **how: Any
    ) -> dict[str, Array]:
        """A chain's start in the place of all draws, as `run` gives them."""
        self._give(rows)
        shape = length.chains, length.draws
        return {k: np.broadcast_to(v, (*shape, *v.shape)) for k, v in self._first(rng).items()}

    def _give(self, rows: SampledRows) -> None:
        import pymc as pm

        self.data = data_of(self.part, rows)
        if self.model is None:
            self.model = build(self.part, rows)
            return
        with self.model:
            pm.set_data(self.data)

    def _first(self, rng: np.random.Generator) -> dict[str, Array]:
        """Prior centres, slightly moved: chains start apart."""
        shapes = self.model.eval_rv_shapes()
        point = {}
        for rv in self.model.free_RVs:
            value = START.get(rv.name, np.zeros)(tuple(shapes[rv.name]))
            moved = 0.1 * rng.standard_normal(value.shape) if rv.name == "beta" else 0.0
            point[rv.name] = value + moved
        if "beta" in point:
            point["beta"] += self.part.centre().reshape(-1, *[1] * (point["beta"].ndim - 1))
        return point

    def _drawn(self, points: list[Any], length: Length, rng: np.random.Generator, tick: Any) -> Any:
        if self.nuts_sampler == "nutpie":
            return self._nutpie(length, rng)
        import pymc as pm

        options = length.options(1, rng) | {"initvals": points}
        with self.model, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTensor's linker, and of overflows when tuning
            self._compile()
            return pm.sample(step=self.step, callback=lambda trace, draw: tick(1), **options)

    def _compile(self) -> None:
        """The step, made once."""
        import pymc as pm

        if self.step is None:
            self.step = pm.NUTS(target_accept=TARGET_ACCEPT, rng=np.random.default_rng(0))

    def _nutpie(self, length: Length, rng: np.random.Generator) -> Any:
        """The same by nutpie, which finds its own starts and metric."""
        import nutpie

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.compiled is None:
                self.compiled = nutpie.compile_pymc_model(self.model)
            return nutpie.sample(
                self.compiled.with_data(**self.data),
                draws=length.draws,
                tune=max(length.tune, 200),
                chains=length.chains,
                cores=1,
                target_accept=TARGET_ACCEPT,
                seed=int(rng.integers(2**31)),
                progress_bar=False,
            )

    def _learn_metric(self, found: Values) -> None:
        from pymc.step_methods.hmc.integration import CpuLeapfrogIntegrator
        from pymc.step_methods.hmc.quadpotential import QuadPotentialFull

        if self.nuts_sampler == "nutpie":
            return
        with self.model, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._compile()  # not yet, if the draws were kept by an earlier run
        columns = []
        for variable in self.step.vars:
            name, _, how = variable.name.partition("_")
            values = found[name].reshape(-1, *found[name].shape[2:])
            columns.append(UNBOUNDED[how](values).reshape(len(values), -1))
        draws = np.hstack(columns)
        spread = np.atleast_2d(np.cov(draws, rowvar=False))
        trusted = len(draws) / (len(draws) + 10.0 * len(spread))  # few draws tell no correlation
        spread = trusted * spread + (1.0 - trusted) * np.diag(np.diag(spread))
        metric = QuadPotentialFull(spread, rng=np.random.default_rng(0))
        # The integrator holds the metric too. With another there, momenta and energies disagree,
        # and every warm fit samples a wrong distribution (test_warm_starts_sample_the_same).
        self.step.potential = metric
        self.step.integrator = CpuLeapfrogIntegrator(metric, self.step._logp_dlogp_func)


def _ordered(values: Array) -> Array:
    return np.hstack([values[:, :1], np.log(np.diff(values, axis=1))])


START: dict[str, Any] = {
    "sigma": np.ones,
    "nu": lambda shape: np.full(shape, 10.0),
    "spread": np.ones,
    "cut": first_cuts,
}
UNBOUNDED: dict[str, Any] = {"": np.asarray, "log__": np.log, "ordered__": _ordered}


def data_of(part: Part, rows: SampledRows) -> dict[str, Array]:
    """What the model is given; of nominal outcomes, level counts of distinct predictor rows."""
    if isinstance(part.family, CategoricalLogit):
        _, first, row = np.unique(rows.X, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)  # rows in the order in which they first come
        place = np.argsort(order)[row.reshape(-1)]
        counts = np.zeros((len(first), part.n_levels))
        once = 1.0 if rows.weights is None else rows.weights
        np.add.at(counts, (place, rows.y.astype(np.int64)), once)
        return {"X": rows.X[first[order]], "y": counts}
    trials = {} if rows.trials is None else {"trials": rows.trials}
    weights = {} if rows.weights is None else {"weights": rows.weights}
    return {"X": rows.X, "y": rows.y, **trials, **weights}


def build(part: Part, rows: SampledRows) -> Any:
    """The regression as a PyMC model on standardised predictors; free variables named as draws."""
    import pymc as pm

    prior, k = part.prior, rows.X.shape[1]
    if not prior.proper:
        raise InputError(
            f"the prior of {part.name!r} is flat, which only normal and log-normal regressions can "
            "have; give finite scales"
        )
    scales, centre, tail = part.scales(), part.centre(), n_outcomes(part)
    with pm.Model() as model:
        data = {name: pm.Data(name, values) for name, values in data_of(part, rows).items()}
        wide = (slice(None), *[None] * len(tail))
        eta: Any = pm.math.zeros_like(data["y"][:, 1:] if tail else data["y"])
        if k:
            beta = pm.Normal("beta", centre[wide], scales[wide], shape=(k, *tail))
            eta = pm.math.dot(data["X"], beta)
        part.family.observe(pm, eta, data, prior, part.n_levels)
        if "weights" in data:  # of a pseudo-posterior: the rest of each record is taken back
            log_p = pm.logp(model["outcome"], data["y"])
            pm.Potential("taken_back", pm.math.sum((data["weights"] - 1.0) * log_p))
    return model


def extra_of(found: Values) -> dict[str, Array]:
    """Further parameters as families name them, from what was sampled."""
    extra = {k: v for k, v in found.items() if k not in ("beta", "spread")}
    if "spread" in found:
        extra["alpha"] = found["spread"] ** -2.0
    return extra
