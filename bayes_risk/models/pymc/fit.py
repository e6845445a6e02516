"""A fitted model of the user's own: synthesis, and chains of p(Theta | y, Z), or without a record.

One compiled density serves all chains. The user's prior is kept and their likelihood is replaced by
the weighted sum of log row densities: records of the table have their record weights (1 without
any, 0 for who is left out), released rows 1. Tables and weights are shared variables, so other
releases and other records left out cost no compilation. The chains start warm: at draws of the
table's own posterior, with its variances as mass matrix.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Unpack

import numpy as np
import numpy.typing as npt

from bayes_risk._compat import group, set_up_chain
from bayes_risk._core.arrays import Array, Flags, Rng
from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.checkpoint import stage
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk._core.parallel import in_order
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.data.record_weights import weights_in_words
from bayes_risk.evidence.contract import Capabilities, How, Targets, offers
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.sampling import Length, kept_chains, mixing
from bayes_risk.models.fits.synthesis import Request, Synthesis, Ticker, made_columns
from bayes_risk.release.release import EncodedRelease

from .density import Builder, Engine, PyMCPredictive, Theta

DIAGNOSED = 300
Point = dict[str, npt.NDArray[Any]]
MIN_TUNE = 100
WARM = 300  # draws that set the first mass matrix
WEIGHT = 20  # and for how many draws of the warm-up they count


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Condition:
    """What Theta is conditioned on: the table, perhaps without a record, and a release or none."""

    y: Codes
    z: tuple[Codes, ...]  # released codes (n, p) of each data set
    replaced: Flags  # (n,): rows of these that count
    columns: tuple[str, ...]  # the synthesised ones, none without a release
    left_out: int = -1  # the record, -1 for none
    # (n,): record weights, powers of the likelihood of ``y``; None: all 1
    power: Array | None = None

    @property
    def tables(self) -> list[tuple[Codes, Array]]:
        """The table, then released ones, and what their rows count: 0 who is left out."""
        counts = np.ones(len(self.y)) if self.power is None else self.power.copy()
        if self.left_out >= 0:
            counts[self.left_out] = 0.0
        return [(self.y, counts), *((codes, self.replaced.astype(float)) for codes in self.z)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedRows:
    """A table and its weights as shared variables."""

    engine: Engine
    table: list[Any]
    weight: Any

    @classmethod
    def of(cls, engine: Engine, codes: Codes, weight: Array) -> "SharedRows":
        """Share the values of a table."""
        from pytensor.compile.sharedvalue import shared

        table = [shared(v, shape=v.shape) for v in engine.values(codes)]
        return cls(engine=engine, table=table, weight=shared(weight.astype(float)))

    def put(self, codes: Codes, weight: Array) -> None:
        """Another table and other weights."""
        for variable, value in zip(self.table, self.engine.values(codes), strict=True):
            variable.set_value(value)
        self.weight.set_value(weight.astype(float))

    def total(self, model: Any, columns: Sequence[str]) -> Any:
        """Weighted sum of log densities, in the parameters of a model."""
        import pytensor.tensor as pt

        # 0 times minus infinity is not a number: a row without weight is not looked at
        terms = self.terms(model, columns)
        return sum(pt.switch(self.weight > 0, self.weight * x, 0.0).sum() for x in terms)

    def terms(self, model: Any, columns: Sequence[str]) -> Any:
        """log densities of the rows by column, in the parameters of a model."""
        from pymc.pytensorf import replace_vars_in_graphs

        known = dict(zip(self.engine.data.values(), self.table, strict=True))
        known |= {x: model[name] for name, x in self.engine.free.items()}
        return replace_vars_in_graphs([self.engine.terms[c] for c in columns], known)


def pseudo_posterior(engine: Engine, condition: Condition) -> Any:
    """The user's model, and with weights a potential ``sum_i (alpha_i - 1) log p(y_i | Theta)``."""
    import pymc as pm
    import pytensor.tensor as pt

    model = engine.builder.model(condition.y)
    if condition.power is not None:
        rows = SharedRows.of(engine, *condition.tables[0])
        # a density of zero stays one, whatever the weight
        more = [
            pt.switch(x > -np.inf, (rows.weight - 1.0) * x, 0.0).sum()
            for x in rows.terms(model, engine.builder.columns)
        ]
        with model:
            pm.Potential("__weights", sum(more))
    return model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sampler:
    """A compiled step for p(Theta | y, Z) with any y, Z of given columns."""

    engine: Engine
    tables: list[SharedRows]
    step: Any
    fresh: Any  # the step's state before any chain
    values: list[str]
    inward: Callable[..., Any]  # parameters to the sampler's unconstrained values
    outward: Callable[..., Any]  # and back

    @classmethod
    def of(cls, engine: Engine, condition: Condition, theta: Theta) -> "Sampler":
        """Compile for a set of columns; draws of Theta set the mass matrix."""
        import pymc as pm

        model = engine.builder.model(condition.y)
        tables = [SharedRows.of(engine, *table) for table in condition.tables]
        with model:
            for l, rows in enumerate(tables):
                columns = condition.columns if l else engine.builder.columns
                pm.Potential(f"__release{l}" if l else "__table", rows.total(model, columns))
        others = [rv for rv in model.observed_RVs if rv.name not in engine.observed.values()]
        model.observed_RVs = type(model.observed_RVs)(others)
        inward, outward = _maps(model)
        value_names = [v.name for v in model.value_vars]
        H = len(next(iter(theta.values())))
        points = [
            dict(zip(value_names, inward(*(theta[name][h] for name in engine.free)), strict=True))
            for h in np.linspace(0, H - 1, min(WARM, H)).astype(int)
        ]
        step = _step(model, points)
        maps: Any = {"inward": inward, "outward": outward, "values": value_names}
        return cls(engine=engine, tables=tables, step=step, fresh=step.sampling_state, **maps)

    def run(
        self,
        condition: Condition,
        starts: Sequence[Mapping[str, Any]],
        length: Length,
        *,
        rng: Rng,
        n_jobs: int = 1,
        tick: Callable[[int], None] = lambda done: None,
    ) -> list[Theta]:
        """Draws of each chain."""

        def chains() -> list[Theta]:
            jobs = [
                partial(self._chain, start, length, child)
                for start, child in zip(starts, rng.spawn(len(starts)), strict=True)
            ]
            found = []
            with self.engine.lock:
                for rows, table in zip(self.tables, condition.tables, strict=True):
                    rows.put(*table)
                for chain in in_order(jobs, n_jobs=n_jobs, what="chains", where="forks"):
                    found.append(chain)
                    tick(length.draws)
            return found

        return stage("draws", chains)

    def _chain(self, start: Mapping[str, Any], length: Length, rng: Rng) -> Theta:
        from pymc.exceptions import SamplingError

        step, draws = self.step, []
        step.sampling_state = self.fresh  # no chain knows of another
        set_up_chain(step, rng, tune=length.tune, draws=length.draws * length.thin)
        names = list(self.engine.free)
        point = dict(zip(self.values, self.inward(*(start[k] for k in names)), strict=True))
        try:
            with np.errstate(all="ignore"):
                for _ in range(length.tune):
                    point, _ = step.step(point)
                step.stop_tuning()
                for _ in range(length.draws):
                    for _ in range(length.thin):
                        point, _ = step.step(point)
                    draws.append(self.outward(*(point[k] for k in self.values)))
        except SamplingError as error:
            raise ModelError(
                "the sampler cannot move from a draw of the parameters; fit again with "
                "more tuning, or reparametrise the model"
            ) from error
        return {name: np.stack(x) for name, x in zip(names, zip(*draws, strict=True), strict=True)}


def _maps(model: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compile the map from parameters, on their own scale, to the sampler's values, and back."""
    import pymc as pm
    from pymc.pytensorf import replace_vars_in_graphs

    own = {rv: rv.type(name=rv.name) for rv in model.free_RVs}
    out = []
    for rv in model.free_RVs:
        transform = model.rvs_to_transforms[rv]
        out.append(rv if transform is None else transform.forward(rv, *rv.owner.inputs))
    out = replace_vars_in_graphs(out, own)
    back = model.replace_rvs_by_values(model.free_RVs)
    pairs = (list(own.values()), out), (model.value_vars, back)
    inward, outward = (pm.compile(*pair, on_unused_input="ignore") for pair in pairs)
    return inward, outward


def _step(model: Any, points: Sequence[Point]) -> Any:
    """NUTS with the spread of some points as mass matrix; PyMC's choice for discrete values."""
    import pymc as pm
    from pymc.blocking import DictToArrayBijection
    from pymc.sampling.mcmc import assign_step_methods, instantiate_steppers
    from pymc.step_methods.hmc.quadpotential import QuadPotentialDiagAdapt

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PyMCPosterior:
    """Draws of the parameters given some data."""

    engine: Engine  # the compiled model
    condition: Condition  # the data
    theta: Theta  # shape (H, ...): draws by name, chain after chain
    base: Theta  # the draws of p(Theta | y), whose spread the sampler starts with
    # n_chains, thin, tune: steps between kept draws; length of the warm-up when the chains go on
    n_chains: int
    thin: int
    tune: int

    @property
    def n_draws(self) -> int:
        return len(next(iter(self.theta.values())))

    def chains(self) -> list[Theta]:
        """The draws of each chain."""
        size = self.n_draws // self.n_chains
        return [
            {k: x[c * size : (c + 1) * size] for k, x in self.theta.items()}
            for c in range(self.n_chains)
        ]

    def predictives(self, targets: Targets, *, rng: Any = None) -> list[PyMCPredictive]:
        """p(y* | theta_h), one part: nothing is integrated out."""
        batch = batch_of_draws(self.n_draws, self.n_chains)
        return [PyMCPredictive(engine=self.engine, theta=self.theta, targets=targets, batch=batch)]

    def doubled(self, *, rng: Rng, n_jobs: int = 1) -> "PyMCPosterior":
        """Chains twice as long, every other draw kept."""
        size = self.n_draws // self.n_chains
        starts = [{k: x[-1] for k, x in chain.items()} for chain in self.chains()]
        length = self._length(size - size // 2, 2 * self.thin)
        sampler = self._sampler(self.condition)
        new = sampler.run(self.condition, starts, length, rng=rng, n_jobs=n_jobs)
        halves = [{k: x[1::2] for k, x in chain.items()} for chain in self.chains()]
        merged = [part for pair in zip(halves, new, strict=True) for part in pair]
        return replace(self, theta=_joined(merged), thin=2 * self.thin)

    def given(self, condition: Condition, draws: int, **how: Any) -> "PyMCPosterior":
        """The same model on other data, started where these chains stopped; ``how`` as of `run`."""
        starts, length = self._starts(condition), self._length(draws)
        chains = self._sampler(condition).run(condition, starts, length, **how)
        return replace(self, condition=condition, theta=_joined(chains), thin=1)

    def _length(self, draws: int, thin: int = 1) -> Length:
        return Length(draws=draws, tune=self.tune, chains=self.n_chains, thin=thin)

    def _sampler(self, condition: Condition) -> Sampler:
        sampler: Sampler = self.engine.once(
            ("sampler", condition.columns, len(condition.z), len(condition.replaced)),
            lambda: Sampler.of(self.engine, condition, self.base),
        )
        return sampler

    def _starts(self, condition: Condition) -> list[dict[str, Any]]:
        """Last draw of each chain that the release allows."""
        possible = np.ones(self.n_draws, dtype=bool)
        for z in condition.z:
            released = z[condition.replaced]
            total = self.engine.total(released, self.theta, condition.columns)
            possible &= np.isfinite(total)
        if not possible.any():
            raise ModelError(
                "no draw of the parameters allows the release; was it made by this model? More "
                "draws may help"
            )
        last, size = np.flatnonzero(possible), self.n_draws // self.n_chains
        starts = []
        for c in range(self.n_chains):
            own = last[last // size == c]
            h = int(own[-1] if len(own) else last[c % len(last)])
            starts.append({k: x[h] for k, x in self.theta.items()})
        return starts


def _joined(parts: Sequence[Theta]) -> Theta:
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PyMCFit(Synthesis):
    """A fitted model of the user's own."""

    parameters: ClassVar[tuple[str, ...]] = ("independent", "shared")
    model: Any  # the declaration
    microdata: Microdata
    idata: Any  # as `pymc.sample` gives it
    posterior: PyMCPosterior  # the draws as the engine uses them
    # draws, chains, largest R-hat and smallest effective sample size over the parameters (up to 300
    # of them), divergences
    diagnostics: dict[str, float]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the model draws, in order."""
        return self.posterior.engine.builder.columns

    @property
    def weights(self) -> Array | None:
        return self.posterior.condition.power

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        self._synthesized(release)
        return Capabilities(offers(self, "predictive", "refit", "importance"), any_rows=True)

    def informed(self, release: EncodedRelease) -> PyMCPosterior:
        """p(Theta | y): every release may inform all of it."""
        self._synthesized(release)
        return self.posterior

    def mechanism(self, release: EncodedRelease) -> str:
        order = " then ".join(self._synthesized(release))
        return (
            "the model and its priors are known, not its parameters; drawn from the user's PyMC "
            f"model, {order}, each given the columns before it{weights_in_words(self.weights)}"
        )

    _modelled = columns

    def _tables(self, request: Request) -> Iterator[Codes]:
        return (self._table(h, request, rng) for h, rng in request.draws())

    def _table(self, h: int, request: Request, rng: Rng) -> Codes:
        """One synthetic table, in codes."""
        engine = self.posterior.engine
        theta = {k: x[h] for k, x in self.posterior.theta.items()}
        codes = request.table()
        rows = codes[request.mask]
        for name in request.columns:
            rows[:, engine.builder.place(name)] = engine.draw(name, rows, theta, rng)
        codes[request.mask] = rows
        return codes

    def augmented(self, release: EncodedRelease, l: int, **how: Unpack[How]) -> PyMCPosterior:
        """p(Theta | y, Z^(l)) of all data sets of draw l: replaced records, synthesised columns."""
        base = self.posterior
        run: Any = {"tick": Ticker(how["progress"], f"release {l + 1}", base.n_draws)}
        run |= {"rng": how["rng"], "n_jobs": how["n_jobs"]}
        return base.given(self._condition(release, l), base.n_draws // base.n_chains, **run)

    def without(
        self, record: int, release: EncodedRelease | None, l: int, *, start: Any, rng: Any
    ) -> PyMCPosterior:
        condition = self.posterior.condition if release is None else self._condition(release, l)
        draws = max(start.n_draws // start.n_chains // 2, 4)
        again: PyMCPosterior = start.given(replace(condition, left_out=record), draws, rng=rng)
        return again

    def theta_predictive(
        self, targets: Targets, release: EncodedRelease, l: int | None
    ) -> PyMCPredictive:
        """p(y* | Theta_h) at the fit's own draws."""
        return self.posterior.predictives(targets)[0]

    def log_release(
        self, release: EncodedRelease, draws: npt.NDArray[np.integer] | None = None
    ) -> Array:
        """log p(Z^(l) | Theta_h): replaced records, synthesised columns; shape (m, H)."""
        engine, theta = self.posterior.engine, self.posterior.theta
        if draws is not None:
            theta = {name: values[draws] for name, values in theta.items()}
        columns = self._synthesized(release)
        tables = release.codes[:, release.rows]
        return np.stack([engine.total(z, theta, columns) for z in tables])

    def __repr__(self) -> str:
        d = self.diagnostics
        return (
            f"PyMCFit: {len(self.microdata.codes):,} records, {', '.join(self.columns)}; "
            f"{d['chains']:.0f} chains of {d['draws']:.0f} draws\n"
            f"  {d['parameters']:.0f} parameters: R-hat up to {d['max_rhat']:.3f}, ESS from "
            f"{d['min_ess']:.0f}; {d['divergences']:.0f} divergences"
        )

    def _synthesized(self, release: EncodedRelease) -> tuple[str, ...]:
        """Synthesised columns in the model's order, if the model made the release."""
        draws = f"the model draws nothing; it draws {list(self.columns)}"
        names = made_columns(release, self.microdata, self.columns, draws)
        if release.classes != "new":
            raise InputError(
                "classes",
                release.classes,
                "is a mechanism of latent-class models; a release of the user's own model has "
                '`classes="new"`',
            )
        return tuple(names)

    def _condition(self, release: EncodedRelease, l: int) -> Condition:
        return replace(
            self.posterior.condition,
            z=tuple(release.codes[k] for k in release.by_draw[l]),
            replaced=release.rows,
            columns=self._synthesized(release),
        )


def sampled_fit(
    model: Any,
    builder: Builder,
    power: Array | None,
    length: Length,
    options: dict[str, Any],
    *,
    sample: bool = True,
) -> PyMCFit:
    """Sample p(Theta | y) by `pymc.sample`; ``model`` is the declaration."""
    import pymc as pm

    engine, y = Engine.of(builder), builder.microdata.codes
    nothing = np.zeros(len(y), dtype=bool)
    condition = Condition(y=y, z=(), replaced=nothing, columns=(), power=power)
    pseudo = pseudo_posterior(engine, condition)
    idata: Any = None
    if sample:
        idata = kept_chains(lambda: pm.sample(model=pseudo, **options), length)
        chains = group(idata, "posterior")
        values = {name: chains[name].to_numpy() for name in engine.free}
        theta = {name: x.reshape(-1, *x.shape[2:]) for name, x in values.items()}
    else:
        theta = _begun(pseudo, engine, length, options["random_seed"])
    posterior = PyMCPosterior(
        engine=engine,
        condition=condition,
        theta=theta,
        base=theta,
        n_chains=length.chains,
        thin=1,
        tune=max(length.tune // 4, MIN_TUNE),
    )
    diagnostics = _diagnose(idata, theta, length.chains) if sample else {}
    found: Any = {"idata": idata, "posterior": posterior, "diagnostics": diagnostics}
    return PyMCFit(model=model, microdata=builder.microdata, **found)


def _begun(pseudo: Any, engine: Engine, length: Length, seed: int) -> dict[str, Any]:
    """One draw of the prior in the place of all; ones where the prior cannot be drawn from."""
    import pymc as pm

    H, named = length.chains * length.draws, {rv.name: rv for rv in pseudo.free_RVs}
    try:
        values = pm.draw([named[name] for name in engine.free], random_seed=seed)
    except NotImplementedError:  # a flat or a custom prior has no draws
        shapes = pseudo.eval_rv_shapes()
        values = [np.ones(tuple(shapes[name])) for name in engine.free]
    found = dict(zip(engine.free, map(np.asarray, values), strict=True))
    return {name: np.broadcast_to(v, (H, *v.shape)) for name, v in found.items()}


def _diagnose(idata: Any, theta: dict[str, Any], chains: int) -> dict[str, float]:
    flat = np.column_stack([x.reshape(len(x), -1).astype(float) for x in theta.values()])
    some = np.linspace(0, flat.shape[1] - 1, min(flat.shape[1], DIAGNOSED)).astype(int)
    with np.errstate(all="ignore"):  # a discrete parameter may never move
        ess, rhat = ess_and_rhat(flat[:, some], chains)
    stats = group(idata, "sample_stats")
    return {
        "draws": len(flat) // chains,
        "chains": chains,
        "parameters": flat.shape[1],
        **mixing(ess, rhat, chains),
        "divergences": int(stats["diverging"].sum()) if "diverging" in stats else 0,
        "parameters_diagnosed": len(some),
    }
