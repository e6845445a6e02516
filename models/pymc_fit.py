"""A fitted model of the user's own: synthesis, augmented fits, densities for the evidence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk._core.validate import at_least, known_columns
from bayes_risk.microdata import Codes, Microdata
from bayes_risk.release import Release
from bayes_risk.synthesizer import Progress, Targets

from .progress import ticker
from .pymc_density import Engine, Theta
from .pymc_predictive import PyMCPredictive
from .pymc_sampler import Condition, Sampler

if TYPE_CHECKING:
    from .pymc_model import PyMCModel

Array = npt.NDArray[np.float64]
MIN_TUNE = 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PyMCPosterior:
    """Draws of the parameters given some data.

    Attributes
    ----------
    engine : Engine
        The compiled model.
    condition : Condition
        The data.
    theta : dict of str to ndarray, shape (H, ...)
        Draws by name, chain after chain.
    base : dict of str to ndarray
        The draws of p(Theta | y), whose spread the sampler starts with.
    n_chains, thin, tune : int
        Steps between kept draws; length of the warm-up when the chains go on.
    """

    engine: Engine
    condition: Condition
    theta: Theta
    base: Theta
    n_chains: int
    thin: int
    tune: int

    @property
    def n_draws(self) -> int:
        """Number H of draws kept."""
        return len(next(iter(self.theta.values())))

    @property
    def n_sweeps(self) -> int:
        """Steps of each chain after its warm-up."""
        return self.thin * (self.n_draws // self.n_chains)

    def chains(self) -> list[Theta]:
        """The draws of each chain."""
        size = self.n_draws // self.n_chains
        return [
            {k: x[c * size : (c + 1) * size] for k, x in self.theta.items()}
            for c in range(self.n_chains)
        ]

    def predictives(self, targets: Targets, *, rng: np.random.Generator) -> list[PyMCPredictive]:
        """p(y* | theta_h), one part: nothing is integrated out."""
        return [self.predictive(targets)]

    def predictive(self, targets: Targets) -> PyMCPredictive:
        """The same alone."""
        batch = batch_of_draws(self.n_draws, self.n_chains)
        return PyMCPredictive(engine=self.engine, theta=self.theta, targets=targets, batch=batch)

    def doubled(self, *, rng: np.random.Generator, n_jobs: int = 1) -> "PyMCPosterior":
        """Chains twice as long, every other draw kept."""
        size = self.n_draws // self.n_chains
        new = self._sampler(self.condition).run(
            self.condition,
            [{k: x[-1] for k, x in chain.items()} for chain in self.chains()],
            draws=size - size // 2,
            tune=self.tune,
            thin=2 * self.thin,
            rng=rng,
            n_jobs=n_jobs,
        )
        halves = [{k: x[1::2] for k, x in chain.items()} for chain in self.chains()]
        merged = [part for pair in zip(halves, new, strict=True) for part in pair]
        return replace(self, theta=_joined(merged), thin=2 * self.thin)

    def given(
        self,
        condition: Condition,
        *,
        draws: int,
        rng: np.random.Generator,
        n_jobs: int = 1,
        tick: Any = lambda done: None,
    ) -> "PyMCPosterior":
        """The same model on other data, started where these chains stopped."""
        chains = self._sampler(condition).run(
            condition,
            self._starts(condition),
            draws=draws,
            tune=self.tune,
            thin=1,
            rng=rng,
            n_jobs=n_jobs,
            tick=tick,
        )
        return replace(self, condition=condition, theta=_joined(chains), thin=1)

    def _sampler(self, condition: Condition) -> Sampler:
        def compiled() -> Sampler:
            return Sampler.of(self.engine, condition, self.base)

        with self.engine.lock:
            sampler: Sampler = self.engine.once(("sampler", condition.columns), compiled)
            return sampler

    def _starts(self, condition: Condition) -> list[dict[str, Any]]:
        """Last draw of each chain that the release allows."""
        possible = np.ones(self.n_draws, dtype=bool)
        if condition.columns:
            released = condition.z[condition.replaced]
            possible = np.isfinite(self.engine.total(released, self.theta, condition.columns))
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PyMCFit:
    """A fitted model of the user's own.

    Attributes
    ----------
    model : PyMCModel
    microdata : Microdata
    idata : arviz.InferenceData
        As `pymc.sample` gives it.
    posterior : PyMCPosterior
        The draws as the engine uses them.
    diagnostics : dict
        Draws, chains, largest R-hat and smallest effective sample size over the parameters (up to
        300 of them), divergences.
    """

    model: "PyMCModel"
    microdata: Microdata
    idata: Any
    posterior: PyMCPosterior
    diagnostics: dict[str, float]

    @property
    def records_differ(self) -> bool:
        """Records with the same values have the same evidence."""
        return False

    def offers(self, release: Release) -> frozenset[str]:
        """Ways to the evidence of a release."""
        self._synthesized(release)
        return frozenset({"predictive", "refit", "reuse"})

    def informed(self, release: Release) -> PyMCPosterior:
        """p(Theta | y): every release may inform all of it."""
        self._synthesized(release)
        return self.posterior

    def direct(self, evidence: str, release: Release, targets: Targets, **how: Any) -> None:
        """Nothing: the engine computes the evidence from posteriors."""
        return

    @property
    def n_draws(self) -> int:
        """Number H of draws."""
        return self.posterior.n_draws

    def mechanism(self, release: Release) -> str:
        """How the release was drawn, one phrase for reports."""
        order = " then ".join(self._synthesized(release))
        return (
            "the model and its priors are known, not its parameters; drawn from the user's PyMC "
            f"model, {order}, each given the columns before it"
        )

    def synthesize(
        self,
        m: int = 5,
        columns: Sequence[str] | None = None,
        records: Any = None,
        *,
        random_seed: int | np.random.Generator | None = None,
    ) -> Release:
        """Draw m synthetic data sets, each from its own draw of the parameters.

        Parameters
        ----------
        m : int
            Number of data sets, at least 1.
        columns : list of str, optional
            Columns to synthesise, all of the model's by default. They are drawn in the model's
            order, each from its observed variable given the table so far: synthetic where it is
            synthetic already, the original's elsewhere.
        records : mask, or list of record labels, optional
            Records to synthesise, all by default.
        random_seed : int, Generator or None

        Returns
        -------
        Release

        Raises
        ------
        InputError
            m below 1 or above the number of draws; unknown columns or labels.
        ModelError
            A draw that is no value of the column.
        """
        m = at_least("m", m, 1)
        modelled = self.model.columns
        wanted = known_columns("columns", modelled if columns is None else columns, modelled)
        names = [c for c in modelled if c in wanted]
        if not names:
            raise InputError("columns names no column; name those to synthesise, or leave it out")
        if m > self.posterior.n_draws:
            raise InputError(
                f"m={m} exceeds the {self.posterior.n_draws} draws; fit with more draws"
            )
        mask = self.microdata.mask(records)
        rng = np.random.default_rng(random_seed)
        chosen = rng.choice(self.posterior.n_draws, size=m, replace=False)
        tables = [
            self._synthetic_table(int(h), names, mask, child)
            for h, child in zip(chosen, rng.spawn(m), strict=True)
        ]
        return Release(
            datasets=tables,
            synthesized=tuple(names),
            records=None if mask.all() else mask,
            draw_index=tuple(int(h) for h in chosen),
            seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
        )

    def augmented(
        self,
        release: Release,
        l: int,
        *,
        rng: np.random.Generator,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> PyMCPosterior:
        """p(Theta | y, Z^(l)), l = 0 .. m - 1, with as many draws as the fit has.

        Synthesised values of replaced records enter the likelihood, each given the columns of the
        release before it; what was not synthesised enters once, with the table.
        """
        base = self.posterior
        return base.given(
            self._condition(release, l),
            draws=base.n_draws // base.n_chains,
            rng=rng,
            n_jobs=n_jobs,
            tick=ticker(progress, f"release {l + 1}", base.n_draws),
        )

    def without(
        self,
        record: int,
        release: Release | None,
        l: int,
        *,
        start: PyMCPosterior,
        rng: np.random.Generator,
    ) -> PyMCPosterior:
        """The posterior ``start`` again, with the confidential values of one record left out."""
        condition = self.posterior.condition if release is None else self._condition(release, l)
        draws = max(start.n_draws // start.n_chains // 2, 4)
        return start.given(replace(condition, left_out=record), draws=draws, rng=rng)

    def theta_predictive(self, targets: Targets, release: Release, l: int | None) -> PyMCPredictive:
        """p(y* | Theta_h) at the fit's own draws."""
        return self.posterior.predictive(targets)

    def log_release(self, release: Release) -> Array:
        """log p(Z^(l) | Theta_h): replaced records, synthesised columns; shape (m, H)."""
        engine, theta = self.posterior.engine, self.posterior.theta
        out = []
        for l in range(release.m):
            given = self._condition(release, l)
            out.append(engine.total(given.z[given.replaced], theta, given.columns))
        return np.stack(out)

    def __repr__(self) -> str:
        d = self.diagnostics
        return (
            f"PyMCFit: {len(self.microdata.codes):,} records, {', '.join(self.model.columns)}; "
            f"{d['chains']:.0f} chains of {d['draws']:.0f} draws\n"
            f"  {d['parameters']:.0f} parameters: R-hat up to {d['max_rhat']:.3f}, ESS from "
            f"{d['min_ess']:.0f}; {d['divergences']:.0f} divergences"
        )

    def _synthesized(self, release: Release) -> tuple[str, ...]:
        """Synthesised columns in the model's order, if the model made the release."""
        names = known_columns("synthesized", release.synthesized, self.microdata.columns)
        foreign = [c for c in names if c not in self.model.columns]
        if foreign:
            raise InputError(
                f"the release replaced {foreign}, which the model does not draw; it draws "
                f"{list(self.model.columns)}"
            )
        if release.classes != "new":
            raise InputError(
                f"classes={release.classes!r} is a mechanism of latent-class models; a release of "
                'the user\'s own model has classes="new"'
            )
        return tuple(c for c in self.model.columns if c in names)

    def _condition(self, release: Release, l: int) -> Condition:
        return replace(
            self.posterior.condition,
            z=release.codes(self.microdata, l),
            replaced=release.replaced(len(self.microdata.codes)),
            columns=self._synthesized(release),
        )

    def _synthetic_table(
        self, h: int, names: list[str], mask: npt.NDArray[np.bool_], rng: np.random.Generator
    ) -> pd.DataFrame:
        engine = self.posterior.engine
        theta = {k: x[h] for k, x in self.posterior.theta.items()}
        codes: Codes = self.microdata.codes.copy()
        rows = codes[mask]
        for name in names:
            rows[:, engine.builder.place(name)] = engine.draw(name, rows, theta, rng)
        codes[mask] = rows
        return self.microdata.decode(codes)


def _joined(parts: Sequence[Theta]) -> Theta:
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
