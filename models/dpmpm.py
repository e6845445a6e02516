"""Dirichlet-process mixture of products of multinomials (Dunson & Xing 2009; Hu, Reiter & Wang 2014).

    X_ij | z_i = k ~ Multinomial(phi_kj),  z_i ~ Multinomial(pi),  phi_kj ~ Dirichlet(level_prior)
    pi_k = V_k prod_{l<k} (1 - V_l),  V_k ~ Beta(1, alpha),  V_K = 1,  alpha ~ Gamma(a, b)
"""

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError, TruncationWarning
from bayes_risk._core.validate import at_least, known_columns, one_of, positive
from bayes_risk.diagnostics import ess_and_rhat
from bayes_risk.microdata import Microdata
from bayes_risk.release import Release
from bayes_risk.synthesizer import Progress, Targets

from .latent_class import draw_rows
from .latent_posterior import LatentPosterior, Mechanism, predictive_of
from .latent_predictive import LatentPredictive, Tables, log_masses
from .latent_sampler import Draws, Prior, initial_state, units_of

DIAGNOSED = 300


@dataclass(frozen=True, slots=True)
class DPMPM:
    """Declaration of a truncated Dirichlet-process mixture of products of multinomials.

    Parameters
    ----------
    n_classes : int
        Truncation K, at least 1. One class: independent variables.
    concentration_prior : tuple of two floats
        Shape and rate of the gamma prior of the concentration.
    level_prior : float
        Every entry of the Dirichlet prior of level probabilities.

    Raises
    ------
    InputError
        Values outside these ranges.

    Examples
    --------
    >>> DPMPM(n_classes=30)
    DPMPM(n_classes=30, concentration_prior=(0.25, 0.25), level_prior=1.0)
    """

    n_classes: int = 30
    concentration_prior: tuple[float, float] = (0.25, 0.25)
    level_prior: float = 1.0

    def __post_init__(self) -> None:
        at_least("n_classes", self.n_classes, 1)
        positive("level_prior", self.level_prior)
        if len(self.concentration_prior) != 2:
            raise InputError(
                f"concentration_prior={self.concentration_prior!r}; give shape and rate, (0.25, 0.25)"
            )
        for value in self.concentration_prior:
            positive("concentration_prior", value)

    def fit(
        self,
        df: pd.DataFrame | Microdata,
        draws: int = 1000,
        *,
        tune: int = 1000,
        chains: int = 2,
        thin: int = 1,
        sampler: str = "gibbs",
        missing: str = "error",
        levels: Mapping[str, Iterable[Hashable]] | None = None,
        releases: Sequence[pd.DataFrame] = (),
        random_seed: int | np.random.Generator | None = None,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> "DPMPMFit":
        """Sample p(Theta | y) through PyMC.

        Parameters
        ----------
        df : DataFrame or Microdata
            The confidential table; see `Microdata.from_frame` for ``missing``, ``levels`` and
            ``releases``.
        draws, tune, chains : int
            Kept draws and warm-up of each chain, at least 4, 0 and 1.
        thin : int
            Sweeps between kept draws.
        sampler : {"gibbs", "nuts"}
            Blocked Gibbs sweeps, or PyMC's NUTS on the same model (small tables only).
        random_seed : int, Generator or None
            Same seed, same draws, for any ``n_jobs``.
        n_jobs : int
            Processes for the chains.
        progress : callable, optional
            Called as ``progress(stage, done, total)``.

        Returns
        -------
        DPMPMFit

        Raises
        ------
        InputError
            Tables that `Microdata.from_frame` refuses; counts out of range.

        Warns
        -----
        TruncationWarning
            Every class is occupied in more than one draw in twenty: raise ``n_classes``.

        Notes
        -----
        Cost of a sweep: U p K multiplications for U distinct profiles, plus n draws of a class.
        """
        draws, tune = at_least("draws", draws, 4), at_least("tune", tune, 0)
        chains, thin = at_least("chains", chains, 1), at_least("thin", thin, 1)
        one_of("sampler", sampler, ("gibbs", "nuts"))
        if not isinstance(df, Microdata):
            df = Microdata.from_frame(df, levels=levels, releases=releases, missing=missing)
        starts = np.concatenate([[0], np.cumsum(df.n_levels)]).astype(np.int64)
        prior = Prior(
            n_classes=self.n_classes,
            concentration=(float(self.concentration_prior[0]), float(self.concentration_prior[1])),
            level=float(self.level_prior),
            starts=starts,
        )
        run = _Run(draws=draws, tune=tune, chains=chains, thin=thin, n_jobs=n_jobs)
        return _fit(self, df, prior, run, sampler, np.random.default_rng(random_seed), progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """How long to sample."""

    draws: int
    tune: int
    chains: int
    thin: int
    n_jobs: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DPMPMFit:
    """A fitted DPMPM.

    Attributes
    ----------
    model : DPMPM
    microdata : Microdata
    idata : arviz.InferenceData
        ``posterior``; ``sample_stats`` with ``n_occupied``; ``log_predictive`` with R-hat and ESS of
        log p(profile | Theta) for up to 300 profiles, rare and frequent ones (labels of classes
        switch, so R-hat of weights or levels means nothing).
    posterior : LatentPosterior
        The draws as the engine uses them.
    diagnostics : dict
        The same in short, plain numbers.
    """

    model: DPMPM
    microdata: Microdata
    idata: Any
    posterior: LatentPosterior
    diagnostics: dict[str, float]

    def synthesize(
        self,
        m: int = 5,
        columns: Sequence[str] | None = None,
        records: Any = None,
        *,
        classes: str = "new",
        random_seed: int | np.random.Generator | None = None,
    ) -> Release:
        """Draw m synthetic data sets, each from its own draw of Theta.

        Parameters
        ----------
        m : int
            Number of data sets, at least 1.
        columns : list of str, optional
            Columns to synthesise, all by default. Given a record's other values.
        records : mask, or list of record labels, optional
            Records to synthesise, all by default.
        classes : {"new", "own"}
            A fresh class given the unsynthesised values, p(k | y_us,i, Theta), or one drawn given all
            of the record's own values, p(k | y_i, Theta), as NPBayesImputeCat does. The second keeps
            more of the record, and more of its risk.
        random_seed : int, Generator or None

        Returns
        -------
        Release

        Raises
        ------
        InputError
            m below 1 or above the number of draws; unknown columns, labels or mechanism.
        """
        m = at_least("m", m, 1)
        one_of("classes", classes, ("new", "own"))
        names = known_columns("columns", columns or self.microdata.columns, self.microdata.columns)
        if m > self.posterior.n_draws:
            raise InputError(f"m={m} exceeds the {self.posterior.n_draws} draws; fit with more draws")
        mask = _mask(records, self.microdata.index)
        rng = np.random.default_rng(random_seed)
        chosen = rng.choice(self.posterior.n_draws, size=m, replace=False)
        tables = [
            self._synthetic_table(int(h), names, mask, classes, child)
            for h, child in zip(chosen, rng.spawn(m), strict=True)
        ]
        return Release(
            datasets=tables,
            synthesized=tuple(names),
            records=None if mask.all() else mask,
            classes=classes,
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
    ) -> LatentPosterior:
        """p(Theta | y, Z^(l)), l = 0 .. m - 1, with as many draws as the fit has."""
        how = Mechanism.of(release, self.microdata, self.posterior.prior)
        base = self.posterior
        total = base.n_draws
        return base.refitted(
            how.units(l, base.prior.width - 1),
            thin=base.thin,
            tune=max(base.n_sweeps // 4, 50),
            rng=rng,
            n_jobs=n_jobs,
            linked=how.linked(l),
            conditional=how.conditional,
            tick=_ticker(progress, f"release {l + 1}", total),
        )

    def without(
        self,
        record: int,
        release: Release | None,
        l: int,
        *,
        start: LatentPosterior,
        rng: np.random.Generator,
    ) -> LatentPosterior:
        """The posterior ``start`` again, with the confidential values of one record left out."""
        tune = max(start.n_sweeps // 10, 50)
        if release is None:
            y = self.microdata.codes + start.prior.starts[:-1].astype(np.int32)
            return start.refitted(units_of(y, left_out=record), thin=start.thin, tune=tune, rng=rng)
        how = Mechanism.of(release, self.microdata, start.prior)
        units = how.units(l, start.prior.width - 1, left_out=record)
        return start.refitted(units, thin=start.thin, tune=tune, rng=rng, linked=how.linked(l))

    def theta_predictive(
        self, targets: Targets, release: Release | None, l: int
    ) -> LatentPredictive:
        """p(y* | Theta_h) itself, jointly with the record's own synthetic values if they are linked."""
        draws, prior = self.posterior.draws, self.posterior.prior
        H, p, K = len(draws), len(prior.starts) - 1, prior.n_classes
        linked = None
        if release is not None:
            how = Mechanism.of(release, self.microdata, prior)
            rows = how.linked(l)
            linked = None if rows is None else rows[targets.record]
        tables = Tables(
            Q=draws.phi,
            tau=np.ones((H, p, K)),
            n=np.zeros((H, K), np.int64),
            alpha=draws.alpha,
            pi=draws.pi,
            label=np.zeros((H, 1), np.int16),
            fixed=np.ones(p, dtype=bool),
        )
        return predictive_of(
            tables,
            prior,
            targets,
            unit=np.full(len(targets), -1),
            linked=linked,
            given=np.zeros(p, dtype=bool),
            n_chains=draws.n_chains,
        )

    def log_release(self, release: Release) -> npt.NDArray[np.float64]:
        """log p(Z^(l) | Theta_h, and y where classes are the records' own), shape (m, H)."""
        how = Mechanism.of(release, self.microdata, self.posterior.prior)
        rows, draws = how.replaced, self.posterior.draws
        whole = how.y[rows] if how.own else how.y[rows][:, ~how.synthesized]
        condition = _log_total(whole, draws) if whole.shape[1] else 0.0
        out = []
        for z in how.z:
            joint = np.hstack([whole, z[rows][:, how.synthesized]])
            out.append(_log_total(joint, draws) - condition)
        return np.stack(out)

    def __repr__(self) -> str:
        d = self.diagnostics
        return (
            f"DPMPMFit: {len(self.microdata.codes):,} records, {len(self.microdata.columns)} variables, "
            f"{d['chains']:.0f} chains of {d['draws']:.0f} draws\n"
            f"  occupied classes {d['n_occupied_mean']:.1f} of {d['n_classes']:.0f}; log predictives: "
            f"R-hat up to {d['max_rhat']:.3f}, ESS from {d['min_ess']:.0f}"
        )

    def _synthetic_table(
        self,
        h: int,
        names: list[str],
        mask: npt.NDArray[np.bool_],
        classes: str,
        rng: np.random.Generator,
    ) -> pd.DataFrame:
        draws, prior, data = self.posterior.draws, self.posterior.prior, self.microdata
        synthesized = np.array([c in names for c in data.columns])
        where = np.array([data.columns.index(c) for c in names])
        rows = (data.codes + prior.starts[:-1].astype(np.int32))[mask]
        known = rows if classes == "own" else np.ascontiguousarray(rows[:, ~synthesized])
        out = np.empty((len(rows), len(names)), np.int32)
        draw_rows(rng, known, draws.pi[h], draws.phi[h], prior.starts, where, out)
        codes = data.codes.copy()
        codes[np.ix_(mask, where)] = out
        return data.decode(codes)


def _fit(
    model: DPMPM,
    data: Microdata,
    prior: Prior,
    run: _Run,
    sampler: str,
    rng: np.random.Generator,
    progress: Progress | None,
) -> DPMPMFit:
    from . import dpmpm_pymc as backend

    y = data.codes + prior.starts[:-1].astype(np.int32)
    units = units_of(y)
    idata = _sample(backend, data, prior, units, run, sampler, rng, progress)
    draws = backend.draws_of(idata, prior, data.columns)
    posterior = LatentPosterior(
        prior=prior,
        units=units,
        draws=draws,
        thin=run.thin,
        conditional=np.zeros(len(data.columns), dtype=bool),
        linked=None,
    )
    return DPMPMFit(
        model=model,
        microdata=data,
        idata=idata,
        posterior=posterior,
        diagnostics=_diagnose(idata, units, draws, model.n_classes),
    )


def _sample(
    backend: Any,
    data: Microdata,
    prior: Prior,
    units: Any,
    run: _Run,
    sampler: str,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Any:
    import pymc as pm

    seeds, starts = rng.spawn(2)
    total = (run.draws + run.tune) * run.chains
    tick = _ticker(progress, "fit", total)
    options: dict[str, Any] = {
        "draws": run.draws,
        "tune": run.tune,
        "chains": run.chains,
        "cores": min(run.chains, run.n_jobs),
        "random_seed": int(seeds.integers(2**31)),
        "progressbar": False,
        "compute_convergence_checks": False,
        "callback": lambda trace, draw: tick(1),
        "return_inferencedata": True,
    }
    with backend.build(data, prior, units, transformed=sampler == "nuts") as compiled:
        if sampler == "nuts":
            return pm.sample(**options)
        step = backend.BlockedSweep(
            compiled, prior, units, columns=data.columns, thin=run.thin, rng=seeds
        )
        points = [
            step.point(initial_state(prior, units, c)) for c in starts.spawn(run.chains)
        ]
        return pm.sample(step=step, initvals=points, **options)


def _diagnose(idata: Any, units: Any, draws: Draws, n_classes: int) -> dict[str, float]:
    """R-hat and ESS of log predictives of some profiles; warn where the truncation binds."""
    import xarray as xr

    U = len(units.positions)
    order = np.argsort(units.multiplicity, kind="stable")
    some = np.sort(order[np.linspace(0, U - 1, min(U, DIAGNOSED)).astype(int)])
    ess, rhat = ess_and_rhat(log_masses(units.positions[some], draws), draws.n_chains)
    idata.add_groups(
        {"log_predictive": xr.Dataset({"ess": ("profile", ess), "rhat": ("profile", rhat)})}
    )
    full = float((draws.n_occupied == n_classes).mean())
    if full > 0.05 and n_classes > 1:
        warnings.warn(
            f"all n_classes={n_classes} classes are occupied in {100 * full:.0f} % of draws: the truncation "
            f"binds; fit again with more classes",
            TruncationWarning,
            stacklevel=4,
        )
    return {
        "draws": len(draws) // draws.n_chains,
        "chains": draws.n_chains,
        "n_classes": n_classes,
        "n_occupied_mean": float(draws.n_occupied.mean()),
        "n_occupied_max": int(draws.n_occupied.max()),
        "truncation_binds": bool(full > 0.05 and n_classes > 1),
        "max_rhat": float(np.nanmax(rhat)) if draws.n_chains > 1 else float("nan"),
        "median_rhat": float(np.nanmedian(rhat)) if draws.n_chains > 1 else float("nan"),
        "min_ess": float(ess.min()),
        "median_ess": float(np.median(ess)),
        "profiles_diagnosed": len(some),
    }


def _log_total(rows: npt.NDArray[np.int32], draws: Draws) -> npt.NDArray[np.float64]:
    """sum over records of log p(row | theta_h), distinct rows computed once; shape (H,)."""
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    return log_masses(distinct.astype(np.int32), draws) @ counts


def _mask(records: Any, index: pd.Index) -> npt.NDArray[np.bool_]:
    if records is None:
        return np.ones(len(index), dtype=bool)
    given = np.asarray(records)
    if given.dtype == bool:
        if len(given) != len(index):
            raise InputError(f"records has {len(given)} entries; the table has {len(index)} records")
        return given
    absent = [r for r in given.tolist() if r not in index]
    if absent:
        raise InputError(f"records names {absent[0]!r}, which is no record label of the table")
    return np.asarray(index.isin(given))


def _ticker(progress: Progress | None, stage: str, total: int) -> Any:
    done = 0

    def tick(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(stage, done, total)

    return tick


