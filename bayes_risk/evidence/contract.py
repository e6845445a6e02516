"""The contract that a model keeps, as Protocols. No inheritance: having the methods is enough.

A *declaration* (say ``DPMPM``) has ``fit``; a *Fit* synthesises and hands out *posteriors*; a
posterior, whatever data it is conditioned on, hands out the *predictive* of targets and guesses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.intruder.guesses import GuessSet
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.release import Release

Array = npt.NDArray[np.float64]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Targets:
    """Distinct cases to audit: the confidential profile, the record it stands for, the guesses.

    Attributes
    ----------
    profiles : ndarray, shape (U, p)
        Codes of the confidential values.
    record : ndarray of int, shape (U,)
        Row of one record with that profile (and, in linked releases, those synthetic values).
    columns : ndarray of int, shape (q,)
        Variables that are guessed.
    guesses : GuessSet
        Of shape (G, U, q).
    known : ndarray of bool, shape (n,), or None
        Records of the table whose values the intruder sees, the target's own apart; None: all.
    fitted : ndarray of bool, shape (U,)
        Whether the record's own values are among those that the fits have seen, so that
        predictives leave it out by weights; by default those of known records. False: the intruder
        would not know the record anyway.
    weight : ndarray, shape (U,)
        Power with which the record enters a pseudo-posterior; by default 1.
    """

    profiles: Codes
    record: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    guesses: GuessSet
    known: npt.NDArray[np.bool_] | None = None
    fitted: npt.NDArray[np.bool_] = field(default_factory=lambda: np.ones(0, dtype=bool))
    weight: Array = field(default_factory=lambda: np.ones(0))

    def __post_init__(self) -> None:
        if len(self.fitted) != len(self.profiles):
            everybody = np.ones(len(self.profiles), dtype=bool)
            fitted = everybody if self.known is None else self.known[self.record]
            object.__setattr__(self, "fitted", fitted)
        if len(self.weight) != len(self.profiles):
            object.__setattr__(self, "weight", np.ones(len(self.profiles)))

    def __len__(self) -> int:
        return len(self.profiles)

    def only(self, which: npt.NDArray[np.integer]) -> "Targets":
        """Some of the targets."""
        return replace(
            self,
            profiles=self.profiles[which],
            record=self.record[which],
            guesses=self.guesses.only(which),
            fitted=self.fitted[which],
            weight=self.weight[which],
        )

    def with_guesses(self, guesses: GuessSet) -> "Targets":
        """The same targets and other guesses."""
        return replace(self, guesses=guesses)

    def rows(
        self, uses: frozenset[int], block: slice = slice(None)
    ) -> tuple[Codes, npt.NDArray[np.int64]]:
        """Rows with guesses in place, those that agree in what is looked at written once.

        Parameters
        ----------
        uses : set of int
            Columns that are looked at; of the others the rows keep the target's own value.
        block : slice
            Of the targets.

        Returns
        -------
        codes : ndarray, shape (G', block, p)
        cell : ndarray of int, shape (G,)
            Which of the G' rows each guess has.
        """
        guesses, profiles = self.guesses, self.profiles[block]
        seen = [q for q, j in enumerate(self.columns) if int(j) in uses]
        _, first, cell = np.unique(
            guesses.cells[:, seen], axis=0, return_index=True, return_inverse=True
        )
        dtype = np.result_type(profiles, guesses.codes)
        codes = np.repeat(profiles.astype(dtype, copy=False)[None], len(first), axis=0)
        for q in seen:
            codes[:, :, self.columns[q]] = guesses.codes[:, block, q][first]
        return codes, cell.reshape(-1).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """Log evidence that a model computed itself, with a Monte Carlo error.

    Attributes
    ----------
    log_p : ndarray, shape (m, G, U)
        log p(Z^(l) | y*, A) up to a constant for each target.
    deviations : ndarray, shape (B, G, U)
        Of each batch of draws, from the sum over releases.
    ess : ndarray, shape (U,)
        Effective number of draws.
    by_column : ndarray, shape (k, G, U), or None
        Of a `FactoredFit` with k > 1 factors: log p of each by itself, summed over releases.
    """

    log_p: Array
    deviations: Array
    ess: Array
    by_column: Array | None = None


class Predictive(Protocol):
    """Draws of p(y* | theta_h, target left out) for the U targets."""

    @property
    def batch(self) -> npt.NDArray[np.int64]:
        """Batch of each draw, shape (H,): two to a chain, in order."""

    def log_truth(self, block: slice) -> Array:
        """log p(y_i | theta_h without i), shape (H, block)."""

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """Sum of weights_h p_h(y*) / p_h(y_i) over the draws of a batch, in logs.

        ``log_weights`` has shape (H, block), the result (B, G, block); minus infinity: no draw
        allows the guess.
        """


class Posterior(Protocol):
    """Draws of Theta given some data."""

    @property
    def n_draws(self) -> int:
        """Number H of draws kept."""

    @property
    def n_sweeps(self) -> int:
        """How long each chain ran after its warm-up, in the sampler's own steps."""

    def predictives(self, targets: Targets, *, rng: np.random.Generator) -> Sequence[Predictive]:
        """Leave-one-out predictives of the targets (collapsed where the model can).

        One for each block of parameters that is independent of the others a posteriori, and may
        have learnt from the release: their log ratios add.
        """

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "Posterior":
        """The same posterior after twice the sampling, in the same memory."""


class Fit(Protocol):
    """A fitted synthesis model."""

    @property
    def microdata(self) -> Microdata:
        """The confidential table."""

    @property
    def n_draws(self) -> int:
        """Number H of draws of p(Theta | y); 0 for models without."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """How the parameters of its releases may be drawn, of `PARAMETERS`; the usual way first."""

    @property
    def records_differ(self) -> bool:
        """Whether the evidence may differ between records with the same values."""

    def offers(self, release: Release) -> frozenset[str]:
        """Ways to the evidence of a release, of those that `attribute_risk` names."""

    def direct(
        self,
        evidence: str,
        release: Release,
        targets: Targets,
        *,
        rng: np.random.Generator,
        progress: Progress | None,
    ) -> Array | Simulated | None:
        """log p(Z^(l) | y*, A) as the model itself computes it, shape (m, G, U).

        Up to a constant for each target; `Simulated`: with an error. None: the engine is to compute
        it from posteriors. m counts draws of the parameters, ``len(release.by_draw)``.
        """

    def mechanism(self, release: Release) -> str:
        """How the release was drawn, one phrase for reports."""

    def synthesize(self, m: int = 5, *args: Any, **options: Any) -> Release:
        """Draw m synthetic data sets."""


class WeakerFit(Fit, Protocol):
    """A fit with evidence for intruders who do not know all other records."""

    def weaker(
        self,
        intruder: Intruder,
        release: Release,
        targets: Targets,
        *,
        rng: np.random.Generator,
        progress: Progress | None,
    ) -> Array | Simulated:
        """log p(Z^(l) | y*, A), shape (m, G, U), records that are not known integrated out."""

    def weaker_in_words(self, intruder: Intruder, release: Release, targets: Targets) -> str:
        """How that was computed: every approximation by name, one phrase for reports."""


class SampledFit(Fit, Protocol):
    """A fit with draws of Theta, from which the engine computes what the model does not itself."""

    def informed(self, release: Release) -> Posterior:
        """p(Theta | y) of those parameters that made the release and can learn from it."""

    def augmented(
        self,
        release: Release,
        l: int,
        *,
        rng: np.random.Generator,
        n_jobs: int,
        progress: Progress | None,
    ) -> Posterior:
        """p(Theta | y, Z^(l)), started where the chains of p(Theta | y) stopped.

        Z^(l): all data sets of draw l of the parameters, ``release.by_draw[l]``.
        """

    def without(
        self,
        record: int,
        release: Release | None,
        l: int,
        *,
        start: Any,
        rng: np.random.Generator,
    ) -> Posterior:
        """The posterior ``start``, of this model, with a record's values left out.

        Of y alone (``release=None``), or of y and Z^(l).
        """

    def theta_predictive(self, targets: Targets, release: Release, l: int | None) -> Predictive:
        """Predictive at the drawn Theta, nothing integrated out, nobody left out.

        With l, jointly with what data set l of the release ties to the record itself.
        """

    def log_release(self, release: Release, draws: npt.NDArray[np.integer] | None = None) -> Array:
        """log p(Z^(l) | Theta_h), shape (m, H), or of some draws alone."""


class LedPosterior(Posterior, Protocol):
    """A posterior whose chains can be told apart."""

    @property
    def n_chains(self) -> int:
        """Number C of chains, of equal length, one after another."""

    def of_chains(self, which: npt.NDArray[np.int64]) -> "LedPosterior":
        """Some of the chains."""


class LedFit(SampledFit, Protocol):
    """A fit whose chains settle in modes, of which a release chooses one."""

    def led(self, release: Release, **how: Any) -> "LedFit":
        """The same fit with short chains, each led by the release from a cold start of its own.

        ``how``: rng, n_jobs and progress.
        """

    @property
    def led_chains(self) -> int:
        """How many of these are carried on, at most."""

    def carried(self, which: npt.NDArray[np.int64], **how: Any) -> "LedFit":
        """The same fit with as many draws as it had before, of some of these chains."""

    def informed(self, release: Release) -> LedPosterior:
        """p(Theta | y), chain by chain."""


class FactoredFit(Fit, Protocol):
    """A fit whose evidence is a product with a factor for each synthesised column.

    The factor of a column is p(its values | the values drawn before them, y*, A).
    """

    def factors(self, evidence: str, release: Release, targets: Targets) -> tuple[str, ...] | str:
        """Columns whose factors guesses move, in this way to the evidence; or a phrase, why not.

        In the order of `Simulated.by_column` and of `Posterior.predictives`. The factor of any
        other synthesised column is the same for all guesses.
        """


class WeightedFit(Fit, Protocol):
    """A fit of a pseudo-posterior, to which records may contribute less than in full."""

    @property
    def weights(self) -> Array | None:
        """Weights alpha_i of the records, shape (n,); None: every record counts in full."""


class PartFit(Fit, Protocol):
    """A fit with evidence for intruders who know only some of the other records."""

    def offers_knowing(self, release: Release) -> frozenset[str]:
        """Ways to the evidence of a release for such an intruder.

        ``"predictive"`` of one release; ``"imputed"`` and ``"product"`` of several; ``"exact"``.
        """

    def knowing(
        self,
        known: npt.NDArray[np.bool_],
        release: Release,
        *,
        rng: np.random.Generator,
        n_jobs: int,
        progress: Progress | None,
    ) -> SampledFit:
        """The same model with only the known records' values seen, known (n,).

        Records released unchanged are among them; of the others it sees the columns that the
        release leaves as they are. Its predictives leave out targets that are ``fitted``, and have
        nothing to take out for the others.
        """


class WordedPartFit(PartFit, Protocol):
    """One that says itself how it integrates out the records that are not known."""

    def knowing_in_words(self, evidence: str) -> str:
        """How that way to the evidence was computed, one phrase for reports."""


class ImputingFit(SampledFit, Protocol):
    """A fit, given some records, that can impute the others."""

    def imputed(
        self,
        release: Release,
        *,
        rng: np.random.Generator,
        n_jobs: int,
        progress: Progress | None,
    ) -> Posterior:
        """p(Theta^(1..m), y_U | y_A, Z^(1..m)), with the records that are not known imputed."""
