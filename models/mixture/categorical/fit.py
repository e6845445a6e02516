"""A fitted DPMPM: synthesis, augmented fits, and the densities that the evidence asks for.

Chains that the release leads to the mode that made it, carried on to y and to each (y, Z^(l)).

A chain starts with everybody in one class on the table and all data sets of a release, stacked: so
many records are settled by split and merge moves in the mode that made them (where columns stay: on
the table alone, and the release chooses among the chains). From where it stops, one chain goes on
given y alone and one given y and each data set, so that both predictives of the evidence come from
one mode. The derivation stands in `docs/modes.md`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.checkpoint import stage
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import one_of
from bayes_risk.data.microdata import Microdata
from bayes_risk.data.record_weights import in_words
from bayes_risk.evidence.contract import (
    Capabilities,
    Predictive,
    Progress,
    TablePredictive,
    Targets,
    drawn,
    why_all_must_be_known,
)
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.progress import ticker
from bayes_risk.models.fits.synthesis import Request
from bayes_risk.models.mixture.known_records import (
    IN_WORDS,
    augmented_units,
    base_units,
    ways_knowing,
)
from bayes_risk.release.release import EncodedRelease, Release

from .hyper_priors import HyperpriorReweighting
from .imputation import LatentImputed
from .imputation_state import Problem
from .posterior import LatentPosterior, Mechanism, log_release, predictive_of
from .predictive import Tables
from .sampler import initial_state, run_chains
from .state import Units, units_of
from .sweep import draw_rows
from .weighted import theta_weighted
from .zeros import possible_rows, theta_possible

COLD, WARM = 10, 3  # proposals to split or merge in a sweep, before and after the mode is found
CHAINS = 3  # at least: of two that differ nobody knows which has strayed
SHORTEST = 50  # sweeps


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How long led chains run.

    ``starts`` cold ones sweep ``find`` times to find a mode, ``settle`` times on y alone, and keep
    ``short`` draws, by which they are observed apart; ``chains`` of them are carried on and keep
    ``draws`` each.
    """

    starts: int
    chains: int
    find: int
    settle: int
    short: int
    draws: int

    @classmethod
    def of(cls, posterior: LatentPosterior) -> "Lengths":
        """In proportion to a posterior's own chains."""
        sweeps, draws = posterior.n_sweeps, posterior.n_draws // posterior.n_chains
        chains = max(posterior.n_chains, CHAINS)
        return cls(
            starts=2 * chains,
            chains=chains,
            find=max(sweeps // 4, SHORTEST),
            settle=max(sweeps // 20, SHORTEST),
            short=max(draws // 4, 4),
            draws=draws,
        )


def led_by(
    base: LatentPosterior,
    release: EncodedRelease,
    *,
    rng: np.random.Generator,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> tuple[LatentPosterior, Lengths]:
    """Draws given y of starts that a release has led to its mode.

    All data sets are stacked below y as if their rows were other people's; where columns stay they
    are not, for the values that stay would count m + 1 times and lead elsewhere: then the starts
    go on y alone, and the release chooses among them. This finds modes, and no number comes from
    it.
    """
    steps = Lengths.of(base)
    hows = [Mechanism.of(release, l, base.prior) for l in range(release.m)]
    whole = hows[0].synthesized.all()
    rows = [how.z[how.replaced] for how in hows] if whole else []
    stacked = units_of(np.vstack([hows[0].y, *rows]))
    begin, find, settle = rng.spawn(3)
    cold = replace(base.prior, splits=COLD, zeros=None)
    starts = [initial_state(cold, stacked, child) for child in begin.spawn(steps.starts)]
    tick = ticker(progress, "starts led by the release", steps.starts * (1 + steps.short))
    how: Any = {"n_jobs": n_jobs, "tick": tick}
    found = run_chains(cold, stacked, starts, draws=1, tune=steps.find, thin=1, rng=find, **how)
    warm = replace(base.prior, splits=max(base.prior.splits, WARM))
    led = replace(base, prior=warm, draws=found)
    run: Any = {"thin": base.thin, "tune": steps.settle, "n_draws": steps.short, "rng": settle}
    return led.refitted(base.units, **run, **how), steps


def carried_on(
    led: LatentPosterior,
    which: npt.NDArray[np.int64],
    steps: Lengths,
    *,
    rng: np.random.Generator,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> LatentPosterior:
    """Some of these chains, each with its full number of draws."""
    chosen = led.of_chains(which)
    tick = ticker(progress, "base fit in the mode", steps.draws * len(which))
    run: Any = {"thin": led.thin, "tune": 0, "n_draws": steps.draws, "rng": rng}
    return chosen.refitted(chosen.units, n_jobs=n_jobs, tick=tick, **run)


IMPUTED_SHARE = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DPMPMFit:
    """A fitted DPMPM.

    Attributes
    ----------
    model : DPMPM
    microdata : Microdata
    idata : xarray.DataTree or arviz.InferenceData
        ``posterior``; ``sample_stats`` with ``n_occupied``; ``log_predictive`` with R-hat and ESS
        of log p(profile | Theta) for up to 300 profiles, rare and frequent ones (labels of classes
        switch, so R-hat of weights or levels means nothing).
    posterior : LatentPosterior
        The draws as the engine uses them.
    diagnostics : dict
        The same in short, plain numbers.
    weights : ndarray, shape (n,), or None
        Weights of the records in the pseudo-posterior; None: all count in full.
    known : ndarray of bool, shape (n,), or None
        Records whose values the fit has seen; None: all.
    whole : LatentPosterior, or None
        Where only some are known: draws given all records, from which chains start.
    lengths : Lengths, or None
        Where a release has led the chains: how long they ran.
    """

    model: Any
    microdata: Microdata
    idata: Any
    posterior: LatentPosterior
    diagnostics: dict[str, float]
    weights: npt.NDArray[np.float64] | None = None
    known: npt.NDArray[np.bool_] | None = None
    whole: LatentPosterior | None = None
    lengths: Lengths | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """How the parameters of its releases may be drawn, the usual way first."""
        if self.weights is None and self.posterior.prior.zeros is None:
            return "one-mode", "independent", "shared"
        return "independent", "shared"

    @property
    def records_differ(self) -> bool:
        """Records with the same values have the same evidence."""
        return False

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        """What is offered for a release and an intruder."""
        self._check_classes(release.classes)
        may = Capabilities(
            sampled=self,
            importance=self,
            imputing=self,
            partial=self,
            tabulated=self if self.posterior.tabulates else None,
            reweighted=self,
        )
        if not intruder.knows_less:
            of_one_mode = drawn(self, release) in ("one-mode", "shared")
            return replace(
                may,
                methods=frozenset({"predictive", "refit", "importance"}),
                led=self if of_one_mode and "one-mode" in self.parameters else None,
            )
        if why := why_all_must_be_known(self, release):
            return may.refused(why)
        zeros = self.posterior.prior.zeros is not None
        return replace(
            may,
            methods=ways_knowing(release.m, bool(release.columns.all()), zeros),
            in_words=IN_WORDS,
        )

    def knowing(
        self,
        known: npt.NDArray[np.bool_],
        release: EncodedRelease,
        *,
        rng: np.random.Generator,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> "DPMPMFit":
        """The model fitted anew to the known records, and to what the release leaves as it is.

        See `latent_known.py`; as many draws as the fit has.
        """
        base = self.posterior
        how = Mechanism.of(release, 0, base.prior)
        refitted = partial(
            base.refitted,
            base_units(how.y, known, ~how.synthesized, base.prior.width - 1),
            thin=base.thin,
            tune=max(base.n_sweeps // 4, 50),
            rng=rng,
            n_jobs=n_jobs,
            tick=ticker(progress, "known records", base.n_draws),
        )
        posterior = stage("fit to known records", refitted)
        posterior = replace(posterior, shown=~how.synthesized)
        return replace(self, posterior=posterior, known=known, whole=base)

    def informed(self, release: EncodedRelease) -> LatentPosterior:
        """p(Theta | y): every release informs all of it."""
        return self.posterior

    def led(self, release: EncodedRelease, **how: Any) -> "DPMPMFit":
        """The same fit with short chains, each led by the release from a start of its own."""
        led = partial(led_by, self.posterior, release, **how)
        posterior, lengths = stage("starts led by the release", led)
        return replace(self, posterior=posterior, lengths=lengths)

    @property
    def n_chains(self) -> int:
        """Number C of chains."""
        return self.posterior.n_chains

    def of_chains(
        self, posterior: LatentPosterior, which: npt.NDArray[np.int64]
    ) -> LatentPosterior:
        """Some of the chains of a posterior."""
        return posterior.of_chains(which)

    def tabulated(
        self, posterior: LatentPosterior, targets: Targets, *, rng: np.random.Generator
    ) -> TablePredictive:
        """The predictive of a posterior, a mixture of products over all cells of a table."""
        return posterior.collapsed(targets, rng)

    @property
    def led_chains(self) -> int:
        """How many of the starts that a release has led are carried on, at most."""
        return Lengths.of(self.posterior).chains

    def carried(self, which: npt.NDArray[np.int64], **how: Any) -> "DPMPMFit":
        """The same fit with as many draws of some of these chains as it had before."""
        assert self.lengths is not None
        carried = partial(carried_on, self.posterior, which, self.lengths, **how)
        return replace(self, posterior=stage("base fit in the mode", carried))

    @property
    def n_draws(self) -> int:
        """Number H of draws."""
        return self.posterior.n_draws

    def mechanism(self, release: EncodedRelease) -> str:
        """How the release was drawn, one phrase for reports."""
        classes = {
            "new": "a fresh latent class for every record, given its unsynthesised values",
            "own": "the latent class of the record's own confidential values",
        }[release.classes]
        return (
            f"the model and its priors are known, not its parameters; drawn from {classes}"
            f"{in_words(self.weights)}"
        )

    def synthesize(
        self,
        m: int = 5,
        columns: Sequence[str] | None = None,
        records: Any = None,
        *,
        classes: str = "new",
        parameters: str | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Release:
        """Draw m synthetic data sets.

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
        parameters : {"independent", "one-mode", "shared"}, optional
            How Theta is drawn: for each data set anew from one chain, whose mode they share (the
            default without weights and structural zeros), from all chains, or once for all.
        random_seed : int, Generator or None

        Returns
        -------
        Release

        Raises
        ------
        InputError
            m below 1 or above the number of draws; unknown columns, labels or mechanism; own
            classes of a fit with record weights or structural zeros.
        """
        one_of("classes", classes, ("new", "own"))
        self._check_classes(classes)
        request = Request.of(
            self,
            self.microdata.columns,
            m,
            columns,
            records,
            parameters=parameters,
            n_chains=self.posterior.draws.n_chains,
            random_seed=random_seed,
        )
        if columns is not None:
            request = replace(request, columns=tuple(columns))  # drawn in the order asked for
        return request.release(
            (self._table(h, request, classes, rng) for h, rng in request.draws()), classes=classes
        )

    def augmented(
        self,
        release: EncodedRelease,
        l: int,
        *,
        rng: np.random.Generator,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> LatentPosterior:
        """p(Theta | y, Z^(l)), all data sets of draw l, with as many draws as the fit has."""
        how = Mechanism.of_draw(release, l, self.posterior.prior)
        base = self.whole or self.posterior
        posterior = base.refitted(
            self._units(how),
            thin=base.thin,
            tune=max(base.n_sweeps // 4, 50),
            rng=rng,
            n_jobs=n_jobs,
            linked=how.linked,
            conditional=how.conditional,
            tick=ticker(progress, f"release {l + 1}", base.n_draws),
        )
        return replace(posterior, shown=self.posterior.shown)

    def imputed(
        self,
        release: EncodedRelease,
        *,
        rng: np.random.Generator,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> LatentImputed:
        """p(Theta^(1..m), y_U | y_A, Z^(1..m)): a quarter of the fit's draws, half its sweeps."""
        start, size = self.whole or self.posterior, self.n_draws // self.posterior.draws.n_chains
        known = np.ones(len(self.microdata.codes), bool) if self.known is None else self.known
        hows = [Mechanism.of(release, l, start.prior) for l in range(release.m)]
        draws = max(size // IMPUTED_SHARE, 4)
        return LatentImputed.sampled(
            Problem.of(hows, known, start.prior),
            start.draws,
            draws=draws,
            tune=max(start.n_sweeps // 8, 50),
            thin=max(start.n_sweeps // (2 * draws), 1),
            rng=rng,
            n_jobs=n_jobs,
            tick=ticker(progress, "unknown records", draws * start.draws.n_chains),
        )

    def without(
        self,
        record: int,
        release: EncodedRelease | None,
        l: int,
        *,
        start: LatentPosterior,
        rng: np.random.Generator,
    ) -> LatentPosterior:
        """The posterior ``start`` again, with the confidential values of one record left out."""
        n_draws = max(start.n_draws // start.draws.n_chains // 4, 4)
        thin, tune = max(start.thin // 8, 1), max(start.n_sweeps // 100, 100)
        prior = start.prior
        if release is None:
            units = self._units_before(left_out=record)
            return start.refitted(units, thin=thin, tune=tune, n_draws=n_draws, rng=rng)
        how = Mechanism.of_draw(release, l, prior)
        return start.refitted(
            self._units(how, record),
            thin=thin,
            tune=tune,
            n_draws=n_draws,
            rng=rng,
            linked=how.linked,
        )

    def theta_predictive(
        self, targets: Targets, release: EncodedRelease, l: int | None
    ) -> Predictive:
        """p(y* | Theta_h) itself, jointly with the record's own synthetic values where linked."""
        draws, prior = self.posterior.draws, self.posterior.prior
        if self.weights is not None:
            return theta_weighted(prior, draws, targets)
        H, p, K = len(draws), len(prior.starts) - 1, prior.n_classes
        linked = None
        if l is not None:
            rows = Mechanism.of(release, l, prior).linked
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
        part = predictive_of(
            tables,
            prior,
            targets,
            unit=np.full(len(targets), -1),
            linked=linked,
            given=np.zeros(p, dtype=bool),
            n_chains=draws.n_chains,
        )
        return part if prior.zeros is None else theta_possible(part, prior.zeros, draws)

    def _units(self, how: Mechanism, left_out: int | None = None) -> Units:
        """The table and one data set of a release."""
        padding = self.posterior.prior.width - 1
        if self.known is None:
            return how.units(padding, left_out, self.weights)
        return augmented_units(how, self.known, padding, left_out)

    def _units_before(self, left_out: int) -> Units:
        """The table without one record."""
        prior, shown = self.posterior.prior, self.posterior.shown
        y = self.microdata.codes + prior.starts[:-1].astype(np.int32)
        if self.known is None or shown is None:
            return units_of(y, left_out=left_out, power=self.weights)
        return base_units(y, self.known, shown, prior.width - 1, left_out)

    def _check_classes(self, classes: str) -> None:
        if classes == "own" and self.weights is not None:
            raise InputError(
                'classes="own" is not offered for a fit with record weights: a record would leave '
                'its trace in its own class, whatever its weight; use classes="new"'
            )
        if classes == "own" and self.posterior.prior.zeros is not None:
            raise InputError(
                'classes="own" is not offered together with impossible=: what is possible would '
                'have to be normalised in each class apart; use classes="new"'
            )

    def log_release(
        self, release: EncodedRelease, draws: npt.NDArray[np.integer] | None = None
    ) -> npt.NDArray[np.float64]:
        """log p(Z^(l) | Theta_h, and y where classes are own), (m, H); of some draws if given."""
        return log_release(self.posterior, release, draws)

    def under(self, model: Any) -> HyperpriorReweighting | None:
        """The draws under other hyper-parameters, by weights; None: only a new fit can tell."""
        return HyperpriorReweighting.of(self, model)

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
        if prior.zeros is not None:
            pi, phi = draws.pi[h], draws.phi[h]
            out = possible_rows(prior.zeros, known, ~synthesized, pi, phi, where, rng=rng)
        else:
            draw_rows(rng, known, draws.pi[h], draws.phi[h], prior.starts, where, out)
        codes = data.codes.copy()
        codes[np.ix_(request.mask, where)] = out
        return codes
