"""A fitted Poisson mixture: synthesis, and the doors to the evidence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import Microdata
from bayes_risk.data.record_weights import in_words
from bayes_risk.evidence.contract import Progress, Targets
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.synthesis import Request
from bayes_risk.models.mixture.business.totals import small_groups
from bayes_risk.models.mixture.categorical.state import Draws
from bayes_risk.release.parameters import check_less_known
from bayes_risk.release.release import Release

from .evidence import augmented, direct, log_release, offers, theta_predictive, without
from .posterior import PoissonPosterior
from .state import CountPrior, CountUnits
from .synthesis import released
from .units import CountColumns

if TYPE_CHECKING:
    from bayes_risk.models.poisson_mixture import PoissonMixture

    from .imputed import PoissonImputed
    from .known import KnownCounts

Array = npt.NDArray[np.float64]


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

    model: "PoissonMixture"
    microdata: Microdata
    columns: CountColumns
    idata: Any
    prior: CountPrior
    units: CountUnits
    draws: Draws
    thin: int
    diagnostics: dict[str, float]
    known: "KnownCounts | None" = None
    weights: Array | None = None

    @property
    def posterior(self) -> "PoissonPosterior":
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

    def mechanism(self, release: Release) -> str:
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

    def offers(self, release: Release) -> frozenset[str]:
        """Ways to the evidence of a release."""
        return offers(self, release)

    def informed(self, release: Release) -> "PoissonPosterior":
        """p(Theta | y): every release informs all of it."""
        return self.posterior

    def direct(self, evidence: str, release: Release, targets: Targets, **how: Any) -> Any:
        """The evidence of releases by MM and TCMM; None where the engine is to compute it."""
        return direct(self, evidence, release, targets, **how)

    def offers_knowing(self, release: Release) -> frozenset[str]:
        """Ways to the evidence for an intruder who does not know all other records."""
        from .known import offers_knowing

        return offers_knowing(self, release)

    def knowing(
        self,
        known: npt.NDArray[np.bool_],
        release: Release,
        *,
        rng: np.random.Generator,
        n_jobs: int,
        progress: Progress | None,
    ) -> "PoissonMixtureFit":
        """The same mixture with only the known records' values seen, known (n,)."""
        from .known import knowing

        return knowing(self, known, release, rng=rng, n_jobs=n_jobs, progress=progress)

    def imputed(
        self,
        release: Release,
        *,
        rng: np.random.Generator,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> "PoissonImputed":
        """p(Theta^(1..m), y_U | y_A, Z^(1..m)) of several releases, y_U the unknown counts."""
        from .known import imputed

        return imputed(self, release, rng=rng, n_jobs=n_jobs, progress=progress)

    def knowing_in_words(self, evidence: str) -> str:
        """How evidence for such an intruder was computed, one phrase for reports."""
        from bayes_risk.models.mixture.known_records import ways_in_words

        return ways_in_words(evidence)

    def weaker(self, intruder: Intruder, release: Release, targets: Targets, **how: Any) -> Any:
        """The evidence for intruders of the trade."""
        from bayes_risk.models.mixture.business.intruder import weaker

        check_less_known(self, release)
        if self.weights is not None:
            raise InputError(
                f"{intruder.in_words()[:-1]}: not offered for a fit with record weights; give "
                'knows_records="all-but-target"'
            )
        return weaker(self, intruder, release, targets, **how)

    def weaker_in_words(self, intruder: Intruder, release: Release, targets: Targets) -> str:
        """How that was computed, one phrase for reports."""
        from bayes_risk.models.mixture.business.intruder import weaker_in_words

        return weaker_in_words(self, intruder, release, targets)

    def augmented(
        self,
        release: Release,
        l: int,
        *,
        rng: np.random.Generator,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> "PoissonPosterior":
        """p(Theta | y, Z^(l)), all data sets of draw l, with as many draws as the fit has."""
        return augmented(self, release, l, rng=rng, n_jobs=n_jobs, progress=progress)

    def without(
        self,
        record: int,
        release: Release | None,
        l: int,
        *,
        start: "PoissonPosterior",
        rng: np.random.Generator,
    ) -> "PoissonPosterior":
        """The posterior ``start`` again, with the confidential values of one record left out."""
        return without(self, record, release, l, start=start, rng=rng)

    def theta_predictive(self, targets: Targets, release: Release, l: int | None) -> Any:
        """p(y* | Theta_h) itself, jointly with the record's own synthetic values where linked."""
        return theta_predictive(self, targets, release, l)

    def log_release(self, release: Release, draws: npt.NDArray[np.integer] | None = None) -> Array:
        """log p(Z^(l) | Theta_h, and y where components are the records' own), shape (m, H).

        Of some draws alone, if they are given.
        """
        some = self if draws is None else replace(self, draws=self.draws.take(draws, 1))
        return log_release(some, release)

    def __repr__(self) -> str:
        d = self.diagnostics
        return (
            f"PoissonMixtureFit ({self.model.kind}): {len(self.microdata.codes):,} records, "
            f"{len(self.counts)} counts, {d['chains']:.0f} chains of {d['draws']:.0f} draws\n"
            f"  occupied components {d['n_occupied_mean']:.1f} of {d['n_classes']:.0f}; log "
            f"predictives: R-hat up to {d['max_rhat']:.3f}, ESS from {d['min_ess']:.0f}"
        )
