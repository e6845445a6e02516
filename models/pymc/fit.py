"""A fitted model of the user's own: synthesis, augmented fits, densities for the evidence."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayes_risk._compat import group
from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.data.record_weights import in_words
from bayes_risk.evidence.contract import Capabilities, Progress, Targets
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.progress import ticker
from bayes_risk.models.fits.sampling import Length, kept_chains, mixing
from bayes_risk.models.fits.synthesis import Request, Synthesis, made_columns
from bayes_risk.release.release import EncodedRelease

from .contract import Builder
from .density import Engine, PyMCPredictive
from .sampler import MIN_TUNE, Condition, PyMCPosterior, pseudo_posterior

DIAGNOSED = 300


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
        """Record weights (n,), powers of the likelihood; None: all 1."""
        return self.posterior.condition.power

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        """What is offered for a release and an intruder."""
        self._synthesized(release)
        ways = frozenset({"predictive", "refit", "importance"})
        return Capabilities(methods=ways, sampled=self, importance=self)

    def informed(self, release: EncodedRelease) -> PyMCPosterior:
        """p(Theta | y): every release may inform all of it."""
        self._synthesized(release)
        return self.posterior

    @property
    def n_draws(self) -> int:
        """Number H of draws."""
        return self.posterior.n_draws

    def mechanism(self, release: EncodedRelease) -> str:
        """How the release was drawn, one phrase for reports."""
        order = " then ".join(self._synthesized(release))
        return (
            "the model and its priors are known, not its parameters; drawn from the user's PyMC "
            f"model, {order}, each given the columns before it{in_words(self.weights)}"
        )

    _modelled = columns

    def _tables(self, request: Request) -> Iterator[Codes]:
        return (self._table(h, request, rng) for h, rng in request.draws())

    def _table(self, h: int, request: Request, rng: np.random.Generator) -> Codes:
        """One synthetic table, in codes."""
        engine = self.posterior.engine
        theta = {k: x[h] for k, x in self.posterior.theta.items()}
        codes: Codes = self.microdata.codes.copy()
        rows = codes[request.mask]
        for name in request.columns:
            rows[:, engine.builder.place(name)] = engine.draw(name, rows, theta, rng)
        codes[request.mask] = rows
        return codes

    def augmented(
        self,
        release: EncodedRelease,
        l: int,
        *,
        rng: np.random.Generator,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> PyMCPosterior:
        """p(Theta | y, Z^(l)), all data sets of draw l, with as many draws as the fit has.

        Synthesised values of replaced records enter the likelihood, each given the columns of the
        release before it; what was not synthesised enters once, with the table.
        """
        base = self.posterior
        tick = ticker(progress, f"release {l + 1}", base.n_draws)
        draws = base.n_draws // base.n_chains
        return base.given(self._condition(release, l), draws, rng=rng, n_jobs=n_jobs, tick=tick)

    def without(
        self, record: int, release: EncodedRelease | None, l: int, *, start: Any, rng: Any
    ) -> PyMCPosterior:
        """The posterior ``start`` again, with the confidential values of one record left out."""
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
        """log p(Z^(l) | Theta_h): replaced records, synthesised columns; shape (m, H).

        Of some draws alone, if they are given.
        """
        engine, theta = self.posterior.engine, self.posterior.theta
        if draws is not None:
            theta = {name: values[draws] for name, values in theta.items()}
        columns = self._synthesized(release)
        tables = release.codes[:, release.replaced]
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
                f"classes={release.classes!r} is a mechanism of latent-class models; a release of "
                'the user\'s own model has classes="new"'
            )
        return tuple(names)

    def _condition(self, release: EncodedRelease, l: int) -> Condition:
        return replace(
            self.posterior.condition,
            z=tuple(release.codes[k] for k in release.by_draw[l]),
            replaced=release.replaced,
            columns=self._synthesized(release),
        )


def fitted(
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
    return PyMCFit(
        model=model,
        microdata=builder.microdata,
        idata=idata,
        posterior=posterior,
        diagnostics=_diagnose(idata, theta, length.chains) if sample else {},
    )


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
