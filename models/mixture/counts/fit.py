"""A fitted Poisson mixture: synthesis, and the doors to the evidence.

Releases of a Poisson mixture: counts drawn (MP), or confidential totals dealt (MM, TCMM).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.checkpoint import stage
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import one_of
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.data.record_weights import in_words
from bayes_risk.evidence.contract import (
    Capabilities,
    Predictive,
    Progress,
    Simulated,
    Targets,
    why_all_must_be_known,
    without_weights,
)
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.progress import ticker
from bayes_risk.models.fits.synthesis import Request
from bayes_risk.models.mixture.business.intruder import weaker, weaker_in_words
from bayes_risk.models.mixture.business.totals import (
    checked_quantile,
    dealt,
    groups_of,
    small_groups,
)
from bayes_risk.models.mixture.categorical.state import Draws
from bayes_risk.models.mixture.known_records import IN_WORDS, ways_knowing
from bayes_risk.release.release import EncodedRelease, Release

from .imputed import PoissonImputed
from .imputed_state import CountProblem
from .posterior import OWN_CLASSES, CountMechanism, PoissonPosterior, at_theta
from .state import CountPrior, CountUnits
from .units import CountColumns, log_masses, units_of
from .weighted import theta_weighted

Ints = npt.NDArray[np.int64]


def released(fit: Any, request: Request, *, classes: str | None, quantile: float | None) -> Release:
    """The release that was asked for; by MM and TCMM with its groups.

    Raises
    ------
    InputError
        A mechanism that the model does not have; a quantile that does not go with it, or none.
    """
    classes, limit = _classes(fit, classes, request), _quantile(fit, quantile)
    if fit.model.kind == "MP":
        tables = (_drawn(fit, h, request, classes, rng) for h, rng in request.draws())
        return request.release(tables, classes=classes)
    pairs = [_dealt(fit, h, request, limit, rng) for h, rng in request.draws()]
    release = request.release((codes for codes, _ in pairs), classes=classes)
    return replace(release, groups=np.stack([groups for _, groups in pairs]))


def _classes(fit: Any, asked: str | None, request: Request) -> str:
    """The mechanism of classes, if the model has it."""
    model = fit.model
    if model.kind != "MP":
        if asked not in (None, "own"):
            raise InputError(
                f"classes={asked!r} does not go with kind={model.kind!r}, whose totals are dealt "
                'within the records\' own components; leave it out, or use "own"'
            )
        return "own"
    classes = one_of("classes", "new" if asked is None else asked, ("new", "own"))
    if classes == "own" and fit.weights is not None:
        raise InputError(OWN_CLASSES)
    if classes == "own" and model.zeros is not None:
        raise InputError(
            'classes="own" is not offered with structural zeros; use classes="new", or leave '
            "zeros out of the model"
        )
    kept = [c for c in fit.counts if c not in request.columns] + list(model.covariates)
    if classes == "new" and kept:
        raise InputError(
            f'classes="new" draws components regardless of the columns that stay, {kept}; use '
            'classes="own", or synthesise all counts of a model without covariates'
        )
    return classes


def _quantile(fit: Any, asked: float | None) -> float | None:
    quantile = fit.model.quantile if asked is None else asked
    if quantile is not None:
        return checked_quantile(fit.model.kind, quantile)
    if fit.model.kind == "TCMM":
        raise InputError('kind="TCMM" needs a quantile: give quantile=0.9, say')
    return None


def _labels(fit: Any, h: int, rng: np.random.Generator) -> Ints:
    """A component of each record given its own values, shape (n,)."""
    from .kernels import draw_row_labels

    codes, columns, prior = fit.microdata.codes, fit.columns, fit.prior
    label = np.empty(len(codes), np.int64)
    data = (
        columns.counts_of(codes),
        columns.exposures_of(codes),
        columns.positions_of(codes, prior),
    )
    draw_row_labels(rng, data, fit.draws.pi[h], fit.draws.phi[h], prior.zeros is not None, label)
    return label


def _places(fit: Any, request: Request) -> Ints:
    """Which counts are synthesised, as places among the counts."""
    return np.array([fit.counts.index(c) for c in request.columns], np.int64)


def _drawn(fit: Any, h: int, request: Request, classes: str, rng: np.random.Generator) -> Codes:
    """One table by MP: a component for each record, then its counts."""
    pi, phi, p = fit.draws.pi[h], fit.draws.phi[h], fit.prior.n_counts
    codes: Codes = fit.microdata.codes.copy()
    some = _places(fit, request)
    if classes == "own":
        label = _labels(fit, h, rng)
    else:
        label = rng.choice(len(pi), size=len(codes), p=pi / pi.sum())
    mean = fit.columns.exposures_of(codes)[:, some] * phi[some][:, label].T
    values = rng.poisson(mean).astype(np.float64)
    if fit.prior.zeros is not None:
        values[rng.random(values.shape) < phi[p + some][:, label].T] = 0.0
    codes[:, fit.columns.counts[some]] = values
    return codes


def _dealt(
    fit: Any,
    h: int,
    request: Request,
    quantile: float | None,
    rng: np.random.Generator,
) -> tuple[Codes, Ints]:
    """One table by MM or TCMM, and which records share a total."""
    codes: Codes = fit.microdata.codes.copy()
    some = _places(fit, request)
    counts = fit.columns.counts_of(codes)[:, some]
    groups = groups_of(_labels(fit, h, rng), counts, quantile)
    exposure = fit.columns.exposures_of(codes)[:, some]
    codes[:, fit.columns.counts[some]] = dealt(rng, counts, exposure, groups)
    return codes, groups


Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
IMPUTED_SHARE = 4  # an imputed draw costs m and the base chains' sets of sums


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownCounts:
    """What an intruder who knows only some records sees before the synthetic values.

    Of an unknown record the sampler sees what the release shows: with fresh classes nothing but its
    synthetic row; with classes of its own one unit, its covariates, kept counts and synthetic
    counts, which share its class (docs/mixtures.md). ``seen`` (n,) records;
    ``first`` how the first data set was drawn; ``whole`` the draws given all records, from which
    chains given a release start.
    """

    seen: Mask
    first: CountMechanism
    whole: Draws

    @property
    def unseen(self) -> tuple[Mask, Mask]:
        """Records that are not seen, and in which counts."""
        return ~self.seen, self.first.synthesized


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoissonMixtureFit:
    """A fitted Poisson mixture.

    Attributes
    ----------
    model : PoissonMixture
    microdata : Microdata
    columns : CountColumns
        Which column is a count, a covariate, the exposure.
    idata : xarray.DataTree or arviz.InferenceData
        ``posterior``; ``sample_stats`` with ``n_occupied``; ``log_predictive`` with R-hat and ESS
        of log p(record | Theta) for up to 300 records (labels of classes switch, so R-hat of
        weights or rates means nothing).
    prior : CountPrior
    units : CountUnits
        Of the confidential table.
    draws : Draws
    thin : int
        Sweeps between kept draws.
    diagnostics : dict
        What ``idata`` says of the chains, in plain numbers.
    known : KnownCounts or None
        Which records units and draws are given, for an intruder who does not know them all.
    weights : ndarray, shape (n,), or None
        Record weights of the pseudo-posterior; None: all 1.
    """

    model: Any
    microdata: Microdata
    columns: CountColumns
    idata: Any
    prior: CountPrior
    units: CountUnits
    draws: Draws
    thin: int
    diagnostics: dict[str, float]
    known: KnownCounts | None = None
    weights: Array | None = None

    @property
    def posterior(self) -> PoissonPosterior:
        """The draws as the engine uses them."""
        return PoissonPosterior(
            prior=self.prior,
            columns=self.columns,
            units=self.units,
            draws=self.draws,
            thin=self.thin,
            linked=None,
            unseen=None if self.known is None else self.known.unseen,
        )

    @property
    def counts(self) -> list[str]:
        """Names of the columns of counts."""
        return [self.microdata.columns[j] for j in self.columns.counts]

    @property
    def n_draws(self) -> int:
        """Number H of draws."""
        return len(self.draws)

    @property
    def parameters(self) -> tuple[str, ...]:
        """How the parameters of its releases may be drawn, the usual way first."""
        drawn = ("independent", "one-mode")
        return (*drawn, "shared") if self.model.kind == "MP" else drawn

    @property
    def records_differ(self) -> bool:
        """Records with the same values have the same evidence."""
        return False

    def mechanism(self, release: EncodedRelease) -> str:
        """How the release was drawn, one phrase for reports."""
        if release.groups is not None:
            what = "component and column"
            if (np.asarray(release.groups) == -1).any():
                what += ", tails apart"
            return f"the confidential total of each {what} dealt to its own records"
        classes = {
            "new": "a fresh component for every record",
            "own": "the component of the record's own confidential values",
        }[release.classes]
        return (
            f"the model and its priors are known, not its parameters; drawn from {classes}"
            f"{in_words(self.weights)}"
        )

    def synthesize(
        self,
        m: int = 5,
        columns: Sequence[str] | None = None,
        *,
        classes: str | None = None,
        quantile: float | None = None,
        parameters: str | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Release:
        """Draw m synthetic data sets, each from its own draw of Theta.

        Parameters
        ----------
        m : int
            Number of data sets, at least 1.
        columns : list of str, optional
            Counts to synthesise, all by default.
        classes : {"new", "own"}, optional
            MP: a fresh component for each record (the default), or the one that its own values were
            drawn to. MM and TCMM: always its own.
        quantile : float, optional
            TCMM: another one than the model declares.
        parameters : {"independent", "one-mode", "shared"}, optional
            How Theta is drawn: for each data set anew (the default), so but from one chain alone,
            whose mode the data sets share, or once for all of them. See `docs/evidence.md`.
        random_seed : int, Generator or None

        Returns
        -------
        Release
            Of MM and TCMM with ``groups``.

        Raises
        ------
        InputError
            m below 1 or above the number of draws; unknown columns; a mechanism that the model does
            not have; a quantile outside (0, 1), or none for TCMM.
        """
        request = Request.of(
            self,
            self.counts,
            m,
            columns,
            parameters=parameters,
            n_chains=self.draws.n_chains,
            random_seed=random_seed,
        )
        return released(self, request, classes=classes, quantile=quantile)

    def singletons(self, release: Release) -> pd.DataFrame:
        """Groups of a release by MM or TCMM that are so small that their total tells on them.

        Parameters
        ----------
        release : Release
            With ``groups``.

        Returns
        -------
        DataFrame
            One row a record: ``release`` (from 1), ``column``, ``record``, ``members``. 1: the
            released value is the confidential one. 2: whoever knows one value knows the other.

        Raises
        ------
        InputError
            A release without groups.
        """
        if release.groups is None:
            raise InputError(
                'the release has no groups; singletons are found in releases by kind="MM" or "TCMM"'
            )
        return pd.DataFrame(
            list(small_groups(release, self.microdata.index)),
            columns=["release", "column", "record", "members"],
        )

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        """What is offered for a release and an intruder."""
        may = Capabilities(
            closed_form=self,
            sampled=self,
            importance=self,
            imputing=self,
            partial=self,
            weaker=self,
        )
        if intruder.is_competitor:
            return may if self.weights is None else may.refused(without_weights(intruder))
        exact = frozenset({"exact"} if self._keeps_totals(release) else ())
        if not intruder.knows_less:
            ways = exact or frozenset({"predictive", "refit", "importance"})
            return replace(may, methods=ways, computed=exact)
        if exact:
            return may.refused(
                f"kind={self.model.kind!r} keeps totals, and what they tell an intruder who does "
                "not know all other records is offered for competitors: give knows_records="
                '"second-largest" (with largest=), "all-but-two" (with other=) or "all-but-target"'
            )
        if why := why_all_must_be_known(self, release):
            return may.refused(why)
        self._mechanism(release, 0)  # whether the model can have drawn it
        return replace(may, methods=ways_knowing(release.m, True, False), in_words=IN_WORDS)

    def _keeps_totals(self, release: EncodedRelease) -> bool:
        """Whether the release shows the confidential total of every synthesised column."""
        return self.model.kind != "MP" or release.groups is not None

    def closed_form(
        self, evidence: str, release: EncodedRelease, targets: Targets, **how: Any
    ) -> Simulated:
        """Log evidence of releases that keep totals: 0 for the truth, else -infinity.

        The total less the values of all others is the target's value.

        Raises
        ------
        InputError
            A release whose totals are not the confidential ones.
        """
        self._check_totals(release)
        own = targets.profiles[:, targets.columns]  # shape (U, q)
        same = (targets.guesses.codes == own[None]).all(axis=2)  # shape (G, U)
        log_p = np.where(same, 0.0, -np.inf)
        return Simulated.exact(np.repeat(log_p[None], len(release.by_draw), axis=0))

    def _check_totals(self, release: EncodedRelease) -> None:
        """Whether every synthesised column adds up to its confidential total."""
        names = [c for c in self.microdata.columns if c in release.synthesized]
        total = self.microdata.codes[:, release.columns].sum(axis=0)
        for l, found in enumerate(release.codes[:, :, release.columns].sum(axis=1), start=1):
            if (found != total).any():
                j = int(np.argmax(found != total))
                raise InputError(
                    f"column {names[j]!r} of release {l} adds up to {found[j]:.0f} and the "
                    f"original to {total[j]:.0f}; kind={self.model.kind!r} keeps totals: audit "
                    'with kind="MP" a release that does not'
                )

    def informed(self, release: EncodedRelease) -> PoissonPosterior:
        """p(Theta | y): every release informs all of it."""
        return self.posterior

    def knowing(
        self,
        known: Mask,
        release: EncodedRelease,
        *,
        rng: np.random.Generator,
        n_jobs: int,
        progress: Progress | None,
    ) -> "PoissonMixtureFit":
        """The same mixture given the known records, and what the release leaves of the others."""
        first, base = self._mechanism(release, 0), self.posterior
        refitted = partial(
            base.refitted,
            first.units_before(known),
            thin=base.thin,
            tune=max(base.n_sweeps // 4, 50),
            rng=rng,
            n_jobs=n_jobs,
            tick=ticker(progress, "fit to known records", base.n_draws),
        )
        found = stage("fit to known records", refitted)
        return replace(
            self,
            units=found.units,
            draws=found.draws,
            known=KnownCounts(seen=known, first=first, whole=self.draws),
        )

    def imputed(
        self,
        release: EncodedRelease,
        *,
        rng: np.random.Generator,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> PoissonImputed:
        """p(Theta^(1..m), y_U | y_A, Z^(1..m)): a quarter of the fit's draws, half its sweeps.

        Cost of a sweep: those of m fits, and for every unknown row 16 predictives of it, classes
        that cannot matter left out.
        """
        assert self.known is not None
        base, whole = self.posterior, self.known.whole
        hows = [self._mechanism(release, l) for l in range(release.m)]
        draws = max(len(whole) // whole.n_chains // IMPUTED_SHARE, 4)
        return PoissonImputed.sampled(
            CountProblem.of(hows, self.known.seen, self.prior, self.columns),
            whole,
            draws=draws,
            tune=max(base.n_sweeps // 8, 50),
            thin=max(base.n_sweeps // (2 * draws), 1),
            rng=rng,
            n_jobs=n_jobs,
            tick=ticker(progress, "unknown records", draws * whole.n_chains),
        )

    def weaker(
        self, intruder: Intruder, release: EncodedRelease, targets: Targets, **how: Any
    ) -> Simulated:
        """The evidence for business competitors."""
        return weaker(self, intruder, release, targets, **how)

    def weaker_in_words(self, intruder: Intruder, release: EncodedRelease, targets: Targets) -> str:
        """How that was computed, one phrase for reports."""
        return weaker_in_words(self, intruder, release, targets)

    def augmented(
        self,
        release: EncodedRelease,
        l: int,
        *,
        rng: np.random.Generator,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> PoissonPosterior:
        """p(Theta | y, Z^(l)), all data sets of draw l, with as many draws as the fit has."""
        how, base = self._mechanism_of_draw(release, l), self.posterior
        start, seen = base, None
        if self.known is not None:
            start, seen = replace(base, draws=self.known.whole), self.known.seen
        return start.refitted(
            how.units(seen=seen),
            thin=base.thin,
            tune=max(base.n_sweeps // 4, 50),
            rng=rng,
            n_jobs=n_jobs,
            linked=how.linked,
            tick=ticker(progress, f"release {l + 1}", base.n_draws),
        )

    def without(
        self,
        record: int,
        release: EncodedRelease | None,
        l: int,
        *,
        start: PoissonPosterior,
        rng: np.random.Generator,
    ) -> PoissonPosterior:
        """The posterior ``start`` again, with the confidential values of one record left out."""
        how: Any = {
            "n_draws": max(start.n_draws // start.draws.n_chains // 4, 4),
            "thin": max(start.thin // 8, 1),
            "tune": max(start.n_sweeps // 100, 100),
            "rng": rng,
        }
        known = self.known
        if release is not None:
            drawn_by = self._mechanism_of_draw(release, l)
            units = drawn_by.units(left_out=record, seen=None if known is None else known.seen)
            return start.refitted(units, linked=drawn_by.linked, **how)
        if known is not None:
            return start.refitted(known.first.units_before(known.seen, left_out=record), **how)
        units = self.columns.units_of(
            self.microdata.codes, self.prior, left_out=record, power=self.weights
        )
        return start.refitted(units, **how)

    def theta_predictive(
        self, targets: Targets, release: EncodedRelease, l: int | None
    ) -> Predictive:
        """p(y* | Theta_h) itself, jointly with the record's own synthetic values where linked."""
        if self.weights is not None:
            return theta_weighted(self.prior, self.columns, self.draws, targets)
        linked = None if l is None else self._mechanism(release, l).linked
        return at_theta(self.prior, self.columns, self.draws, targets, linked)

    def log_release(
        self, release: EncodedRelease, draws: npt.NDArray[np.integer] | None = None
    ) -> Array:
        """log p(Z^(l) | Theta_h, and y where components are the records' own), shape (m, H).

        Of some draws alone, if they are given. Up to a constant for each l: how sums y_i + z_i
        split in two says nothing of Theta.
        """
        some = self.draws if draws is None else self.draws.take(draws, 1)
        hows = [self._mechanism(release, l) for l in range(release.m)]
        return np.stack([self._log_table(how, some) for how in hows])

    def _log_table(self, how: CountMechanism, draws: Draws) -> Array:
        """log p(Z | Theta_h) of one data set, shape (H,)."""

        def total(units: CountUnits) -> Array:
            logs: Array = log_masses(units, draws, self.prior) @ units.multiplicity
            return logs

        if how.own:
            return total(how.units()) - total(self.units)
        some = how.replaced
        return total(units_of(how.z[some], how.exposure[some], how.positions[some]))

    def _mechanism(self, release: EncodedRelease, l: int) -> CountMechanism:
        return CountMechanism.of(release, l, self.prior, self.columns, self.weights)

    def _mechanism_of_draw(self, release: EncodedRelease, l: int) -> CountMechanism:
        return CountMechanism.of_draw(release, l, self.prior, self.columns, self.weights)

    def __repr__(self) -> str:
        d = self.diagnostics
        return (
            f"PoissonMixtureFit ({self.model.kind}): {len(self.microdata.codes):,} records, "
            f"{len(self.counts)} counts, {d['chains']:.0f} chains of {d['draws']:.0f} draws\n"
            f"  occupied components {d['n_occupied_mean']:.1f} of {d['n_classes']:.0f}; log "
            f"predictives: R-hat up to {d['max_rhat']:.3f}, ESS from {d['min_ess']:.0f}"
        )
