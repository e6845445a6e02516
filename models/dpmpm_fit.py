"""A fitted DPMPM: synthesis, augmented fits, and the densities that the evidence asks for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.validate import one_of
from bayes_risk.microdata import Microdata
from bayes_risk.release import Release
from bayes_risk.synthesizer import Progress, Targets

from .latent_class import draw_rows
from .latent_posterior import LatentPosterior, Mechanism, predictive_of
from .latent_predictive import LatentPredictive, Tables, log_masses
from .latent_state import Draws, units_of
from .progress import ticker
from .synthesis import Request

if TYPE_CHECKING:
    from .dpmpm import DPMPM


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DPMPMFit:
    """A fitted DPMPM.

    Attributes
    ----------
    model : DPMPM
    microdata : Microdata
    idata : arviz.InferenceData
        ``posterior``; ``sample_stats`` with ``n_occupied``; ``log_predictive`` with R-hat and ESS
        of log p(profile | Theta) for up to 300 profiles, rare and frequent ones (labels of classes
        switch, so R-hat of weights or levels means nothing).
    posterior : LatentPosterior
        The draws as the engine uses them.
    diagnostics : dict
        The same in short, plain numbers.
    """

    model: "DPMPM"
    microdata: Microdata
    idata: Any
    posterior: LatentPosterior
    diagnostics: dict[str, float]

    @property
    def records_differ(self) -> bool:
        """Records with the same values have the same evidence."""
        return False

    def offers(self, release: Release) -> frozenset[str]:
        """Ways to the evidence of a release."""
        return frozenset({"predictive", "refit", "reuse"})

    def informed(self, release: Release) -> LatentPosterior:
        """p(Theta | y): every release informs all of it."""
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
        classes = {
            "new": "a fresh latent class for every record, given its unsynthesised values",
            "own": "the latent class of the record's own confidential values",
        }[release.classes]
        return f"the model and its priors are known, not its parameters; drawn from {classes}"

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
            A fresh class given the unsynthesised values, p(k | y_us,i, Theta), or one drawn given
            all of the record's own values, p(k | y_i, Theta), as NPBayesImputeCat does. The second
            keeps more of the record, and more of its risk.
        random_seed : int, Generator or None

        Returns
        -------
        Release

        Raises
        ------
        InputError
            m below 1 or above the number of draws; unknown columns, labels or mechanism.
        """
        one_of("classes", classes, ("new", "own"))
        request = Request.of(
            self.microdata,
            self.microdata.columns,
            m,
            columns,
            records,
            n_draws=self.n_draws,
            random_seed=random_seed,
        )
        if columns is not None:
            request = replace(request, columns=tuple(columns))  # drawn in the order asked for
        return request.release(
            (self._table(h, request, classes, rng) for h, rng in request.draws()), classes=classes
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
        how = Mechanism.of(release, l, self.microdata, self.posterior.prior)
        base = self.posterior
        total = base.n_draws
        return base.refitted(
            how.units(base.prior.width - 1),
            thin=base.thin,
            tune=max(base.n_sweeps // 4, 50),
            rng=rng,
            n_jobs=n_jobs,
            linked=how.linked,
            conditional=how.conditional,
            tick=ticker(progress, f"release {l + 1}", total),
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
        n_draws = max(start.n_draws // start.draws.n_chains // 4, 4)
        thin, tune = max(start.thin // 8, 1), max(start.n_sweeps // 100, 100)
        if release is None:
            y = self.microdata.codes + start.prior.starts[:-1].astype(np.int32)
            units = units_of(y, left_out=record)
            return start.refitted(units, thin=thin, tune=tune, n_draws=n_draws, rng=rng)
        how = Mechanism.of(release, l, self.microdata, start.prior)
        units = how.units(start.prior.width - 1, left_out=record)
        return start.refitted(
            units, thin=thin, tune=tune, n_draws=n_draws, rng=rng, linked=how.linked
        )

    def theta_predictive(
        self, targets: Targets, release: Release, l: int | None
    ) -> LatentPredictive:
        """p(y* | Theta_h) itself, jointly with the record's own synthetic values where linked."""
        draws, prior = self.posterior.draws, self.posterior.prior
        H, p, K = len(draws), len(prior.starts) - 1, prior.n_classes
        linked = None
        if l is not None:
            rows = Mechanism.of(release, l, self.microdata, prior).linked
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
        draws, out = self.posterior.draws, []
        for l in range(release.m):
            how = Mechanism.of(release, l, self.microdata, self.posterior.prior)
            rows = how.replaced
            whole = how.y[rows] if how.own else how.y[rows][:, ~how.synthesized]
            joint = np.hstack([whole, how.z[rows][:, how.synthesized]])
            condition = _log_total(whole, draws) if whole.shape[1] else 0.0
            out.append(_log_total(joint, draws) - condition)
        return np.stack(out)

    def __repr__(self) -> str:
        d = self.diagnostics
        return (
            f"DPMPMFit: {len(self.microdata.codes):,} records, {len(self.microdata.columns)} "
            f"variables, {d['chains']:.0f} chains of {d['draws']:.0f} draws\n"
            f"  occupied classes {d['n_occupied_mean']:.1f} of {d['n_classes']:.0f}; log "
            f"predictives: R-hat up to {d['max_rhat']:.3f}, ESS from {d['min_ess']:.0f}"
        )

    def _table(
        self, h: int, request: Request, classes: str, rng: np.random.Generator
    ) -> npt.NDArray[np.int32]:
        """One synthetic table, in codes."""
        draws, prior, data = self.posterior.draws, self.posterior.prior, self.microdata
        synthesized = np.array([c in request.columns for c in data.columns])
        where = np.array([data.columns.index(c) for c in request.columns])
        rows = (data.codes + prior.starts[:-1].astype(np.int32))[request.mask]
        known = rows if classes == "own" else np.ascontiguousarray(rows[:, ~synthesized])
        out = np.empty((len(rows), len(where)), np.int32)
        draw_rows(rng, known, draws.pi[h], draws.phi[h], prior.starts, where, out)
        codes = data.codes.copy()
        codes[np.ix_(request.mask, where)] = out
        return codes


def _log_total(rows: npt.NDArray[np.int32], draws: Draws) -> npt.NDArray[np.float64]:
    """sum over records of log p(row | theta_h), distinct rows computed once; shape (H,)."""
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    return log_masses(distinct.astype(np.int32), draws) @ counts
