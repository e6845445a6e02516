"""The contract that a model keeps, as Protocols. No inheritance: having the methods is enough.

A *declaration* (say ``DPMPM``) has ``fit(df)``, whose arguments a study file gives by name; where
that takes ``sample=False``, a study asks of a fit with starting points in place of draws what the
model offers. ``synthesizes(columns)`` names the columns that a release replaces unless some are
named, and methods ``from_...`` make a fit of what comes from elsewhere. A *Fit* synthesises, and
lists in `Capabilities` the methods that it offers for a release and an intruder: `EVIDENCE` and
`FURTHER` name them, each with the protocol that it takes. A model that computes its evidence itself
needs `Fit` and `ClosedForm`; one with draws of its parameters `Fit`, `Sampled`, `Posterior` and
`Predictive`. A *posterior*, whatever data it is conditioned on, hands out the *predictive* of
targets and guesses.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import distinct_rows
from bayes_risk._core.progress import Progress as Progress
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.intruder.guesses import GuessSet
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.release import PARAMETERS, EncodedRelease, Release

from .learnt import Learnt
from .products import Terms

CELLS = 2**21  # numbers (m, G, U) of a factor that are kept data set by data set: 16 MiB


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Targets:
    """Distinct cases to audit: the confidential profile, the record it stands for, the guesses."""

    profiles: Codes  # (U, p): codes of the confidential values
    record: Ints  # (U,): row of one record with that profile (and synthetic values, if linked)
    columns: Ints  # (q,): variables that are guessed
    guesses: GuessSet  # of shape (G, U, q)
    # (n,): records whose values the intruder sees, the target's own apart; None: all
    known: Flags | None = None
    # (U,): whether fits have seen the record, so that predictives leave it out by weights; by
    # default if it is known
    fitted: Flags = field(default_factory=lambda: np.ones(0, dtype=bool))
    # (U,): power with which the record enters a pseudo-posterior; by default 1
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

    def rows(self, uses: frozenset[int], block: slice = slice(None)) -> tuple[Codes, Ints]:
        """Rows with guesses in place (G', block, p) where used, and the G' of each guess, (G,)."""
        guesses, profiles = self.guesses, self.profiles[block]
        seen = [q for q, j in enumerate(self.columns) if int(j) in uses]
        first, cell, _ = distinct_rows(guesses.cells[:, seen])
        dtype = np.result_type(profiles, guesses.codes)
        codes = np.repeat(profiles.astype(dtype, copy=False)[None], len(first), axis=0)
        for q in seen:
            codes[:, :, self.columns[q]] = guesses.codes[:, block, q][first]
        return codes, cell


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """Log evidence that a model computed itself, with a Monte Carlo error."""

    log_p: Array  # shape (m, G, U): log p(Z^(l) | y*, A) up to a constant for each target
    deviations: Array  # shape (B, G, U): of each batch of draws, from the sum over releases
    ess: Array  # shape (U,): effective number of draws
    # shape (k, m, G, U): of a `Factored` fit with k > 1 factors: log p of each by itself; where
    # that is more than `CELLS` a factor (k, 1, G, U), summed over releases
    by_column: Array | None = None
    learnt: Learnt | None = None  # of runs of a generator: what they showed

    @classmethod
    def exact(cls, log_p: Array, by_column: Array | None = None) -> "Simulated":
        """Log evidence (m, G, U) without an error."""
        nothing = np.broadcast_to(0.0, (2, *log_p.shape[1:]))
        return cls(log_p, nothing, np.full(log_p.shape[2], np.inf), by_column)

    @classmethod
    def product(cls, factors: Iterable[Array]) -> "Simulated":
        """Exact evidence that is a product of factors, the log of each of shape (m, G, U)."""
        each = iter(factors)
        log_p = next(each).copy()
        rows = rows_kept(log_p)
        by_column = [log_p.copy() if rows > 1 else log_p.sum(axis=0, keepdims=True)]
        for factor in each:
            by_column.append(factor if rows > 1 else factor.sum(axis=0, keepdims=True))
            log_p += factor
        return cls.exact(log_p, np.stack(by_column) if len(by_column) > 1 else None)


def rows_kept(factor: Array) -> int:
    """Rows kept of a factor (m, G, U): all m, or where that is much one, their sum."""
    return len(factor) if factor.size <= CELLS else 1


class How(TypedDict):
    """Seed, workers and progress of a step that samples."""

    rng: Rng
    n_jobs: int
    progress: Progress | None


class Predictive(Protocol):
    """Draws of p(y* | theta_h, target left out) for the U targets."""

    @property
    def batch(self) -> Ints:
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

    def predictives(self, targets: Targets, *, rng: Rng) -> Sequence[Predictive]:
        """Leave-one-out predictives of the targets (collapsed where the model can).

        One for each block of parameters that is independent of the others a posteriori, and may
        have learnt from the release: their log ratios add.
        """

    def doubled(self, *, rng: Rng, n_jobs: int) -> "Posterior":
        """The same posterior after twice the sampling, in the same memory."""


class Conditioned(Protocol):
    """A model given the records that an intruder knows: what evidence takes of a fit."""

    @property
    def n_draws(self) -> int:
        """Number H of draws of p(Theta | what is known); 0 for models without."""

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> "Capabilities":
        """What is offered, and why not what is not; `InputError`: the model cannot have made Z."""


class Fit(Conditioned, Protocol):
    """A fitted synthesis model."""

    @property
    def microdata(self) -> Microdata:
        """The confidential table."""

    @property
    def weights(self) -> Array | None:
        """Weights alpha_i of the records in a pseudo-posterior, (n,); None: all count in full."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """How the parameters of its releases may be drawn, of `PARAMETERS`; the usual way first."""

    @property
    def records_differ(self) -> bool:
        """Whether the evidence may differ between records with the same values."""

    def mechanism(self, release: EncodedRelease) -> str:
        """How the release was drawn, one phrase for reports."""

    def synthesize(self, m: int = 5, *args: Any, **options: Any) -> Release:
        """Draw m synthetic data sets; options are those that the fit's signature has.

        Parameters
        ----------
        m : int
            Number of data sets, at least 1.
        columns : list of str, optional
            Modelled columns to synthesise, all by default. Those drawn one after another, in the
            model's order, are given the synthetic values of earlier ones; those of a mixture the
            record's other values.
        records : mask, or list of record labels, optional
            Records to synthesise, all by default.
        n : int, optional
            Number of rows, that of the table by default. Where everything is synthesised, of
            mixtures with fresh classes, alone: then no row is a certain record's.
        classes : {"new", "own"}, optional
            Of mixtures: a fresh class given the unsynthesised values, p(k | y_us,i, Theta) (the
            default), or one drawn given all of the record's own values, p(k | y_i, Theta), as
            NPBayesImputeCat does. The second keeps more of the record, and more of its risk. Of
            `models.PoissonMixture` with ``kind="MM"`` and ``"TCMM"`` always its own, for all
            records.
        quantile : float, optional
            ``kind="TCMM"``: another one than the model declares.
        parameters : {"one-mode", "independent", "shared", "plug-in"}, optional
            How the parameters are drawn, as far as the fit's ``parameters`` offer it, by default
            its first: for each data set anew, from one chain, as long as it stays in the mode that
            made the first, or from all chains; once for all of them; or not at all, values coming
            from an estimate. See `docs/evidence.md`.
        random_seed : int, Generator or None

        Returns
        -------
        Release
            Of totals that are kept (MM and TCMM) with ``groups``.

        Raises
        ------
        InputError
            m below 1 or above the number of draws; columns that are not modelled, unknown labels
            or mechanism; own classes of a fit with record weights or structural zeros; a quantile
            outside (0, 1), or none for TCMM; ``n`` with anything that stays.
        ModelError
            Values that are none of their column, or too large to be numbers.
        """


class ClosedForm(Protocol):
    """A fit that computes evidence itself, by one method or several."""

    def closed_form(
        self,
        evidence: str,
        release: EncodedRelease,
        targets: Targets,
        *,
        rng: Rng,
        progress: Progress | None,
    ) -> Simulated:
        """log p(Z^(l) | y*, A) + constant, (m, G, U), of the m draws ``release.by_draw``."""


class Sampled(Conditioned, Protocol):
    """A fit with draws of Theta, from which the engine computes evidence."""

    def informed(self, release: EncodedRelease) -> Posterior:
        """p(Theta | y) of those parameters that made the release and can learn from it."""

    def augmented(self, release: EncodedRelease, l: int, **how: Unpack[How]) -> Posterior:
        """p(Theta | y, data sets ``release.by_draw[l]``), from where p(Theta | y) stopped."""

    def without(
        self, record: int, release: EncodedRelease | None, l: int, *, start: Any, rng: Rng
    ) -> Posterior:
        """The posterior ``start``, of y (``release=None``) or y and Z^(l), without a record."""


class Importance(Protocol):
    """A fit whose own draws can be weighed by the release, as published."""

    def theta_predictive(
        self, targets: Targets, release: EncodedRelease, l: int | None
    ) -> Predictive:
        """Predictive at the drawn Theta, nobody left out; with l, and what Z^(l) ties to them."""

    def log_release(
        self, release: EncodedRelease, draws: npt.NDArray[np.integer] | None = None
    ) -> Array:
        """log p(Z^(l) | Theta_h), shape (m, H), or of some draws alone."""


class Strategy(Protocol):
    """How the chains of an audit begin and go on, where a model has an order of its own."""

    @property
    def n_chains(self) -> int:
        """Number of chains that an audit begins with, at most."""

    def begin(self, fits: Any, cases: Targets) -> Any:
        """A `Sampling` of the audit's `Fits`, both of `bayes_risk.evidence.runner`."""


class Imputing(Sampled, Protocol):
    """A fit, given some records, that can impute the others."""

    def imputed(self, release: EncodedRelease, **how: Unpack[How]) -> Posterior:
        """p(Theta^(1..m), y_U | y_A, Z^(1..m)), with the records that are not known imputed."""


class Partial(Protocol):
    """A fit with evidence for intruders who know only some of the other records."""

    def knowing(self, known: Flags, release: EncodedRelease, **how: Unpack[How]) -> Conditioned:
        """The same model with only the known records' values seen, known (n,).

        Records released unchanged are among them; of the others it sees the columns that the
        release leaves as they are. Its predictives leave out targets that are ``fitted``, and have
        nothing to take out for the others.
        """


class Predicting(Protocol):
    """A fit that says what it expects of a record before anything is published, without draws."""

    def log_prior(self, release: EncodedRelease, targets: Targets) -> Array:
        """log p(y* | y_A) up to a constant for each target, shape (G, U)."""


class Factored(Protocol):
    """A fit whose evidence is a product over columns, p(values | those drawn before, y*, A)."""

    def factors(
        self, evidence: str, release: EncodedRelease, targets: Targets
    ) -> tuple[str, ...] | str:
        """Columns whose factors guesses move, in this way to the evidence; or a phrase, why not.

        In the order of `Simulated.by_column` and of `Posterior.predictives`. The factor of any
        other synthesised column is the same for all guesses.
        """


class TablePredictive(Predictive, Protocol):
    """A predictive that is, draw by draw, a mixture of products over variables."""

    @property
    def n_classes(self) -> int:
        """Terms that a draw makes, at most."""

    def terms(
        self, u: int, targets: Targets, n_levels: Ints, log_weights: Array, draws: Ints
    ) -> Terms:
        """Terms of target u: those of the sums that `log_sums` gives, over some of the draws."""


class Tabulated(Protocol):
    """A fit whose predictives are mixtures of products, which a full table can be filled with."""

    def tabulated(self, posterior: Any, targets: Targets, *, rng: Rng) -> TablePredictive:
        """The predictive of a posterior of this fit."""


class Under(Protocol):
    """Draws of a model under another declaration of it, that differs in hyper-parameters alone."""

    def predictives(
        self, posterior: Any, targets: Targets, *, rng: Rng
    ) -> list[tuple[Predictive, Array]]:
        """Predictives of a posterior's draws, with the log ratio of priors of each draw (H,)."""

    def started(self, posterior: Any) -> Any:
        """The posterior, to be sampled under the other declaration from where it stopped."""


class Reweighted(Protocol):
    """A fit whose draws can be re-weighted to other hyper-priors."""

    def under(self, model: Any) -> Under | None:
        """The draws under another declaration; None: only a new fit can tell."""


class Grown(Protocol):
    """A fit of trees, which hold what they can make."""

    @property
    def of_files(self) -> bool:
        """Whether the trees were not grown here: each file has its own."""

    @property
    def floored(self) -> bool:
        """Whether values that a leaf does not hold have a probability all the same."""

    def without_floor(self) -> Fit:
        """The same trees, which make only what their leaves hold."""

    def report_mismatch(self, release: Release | None = None) -> Any:
        """Where trees and files disagree: a table by release and column."""


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """Log Bayes factors that records are in the data, from runs that leave some of them out.

    Of the n records in the release, and what batches of runs move them by (K, n); of records in
    and out of runs (N,), from fits that have not seen the run: whether they were in, run, record.
    """

    log_bayes_factor: Array
    deviations: Array
    held_out: Array
    inside: Flags
    run: Ints
    record: Ints


class Leaving(Protocol):
    """A fit that can be run without some of the records."""

    def left_out(self, release: EncodedRelease, **how: Unpack[How]) -> LeftOut:
        """What runs without a random share of the records show of membership."""


# Evidence that a model computes itself, as `ClosedForm.closed_form` without the method's name; of a
# chain of models an `Evidence`
Compute = Callable[..., Any]
# Methods that give the evidence, and what they call where the model does not compute it itself
EVIDENCE: Mapping[str, type | None] = {
    "exact": None,
    "monte-carlo": None,
    "weaker": None,  # of competing businesses
    "simulated": None,  # from runs of the generator
    "parts": None,  # of a chain of models, each part by a method of its own
    "predictive": Sampled,
    "refit": Sampled,
    "importance": Importance,
    "independent-releases": Sampled,  # several, of an intruder who does not know all records
    "imputed": Imputing,  # the same
}
# What else a fit may offer
FURTHER: Mapping[str, type] = {
    "knowing": Partial,  # for every intruder who does not know all records
    "log-prior": Predicting,  # the predictive prior without draws
    "point-masses": Predicting,  # in which a number that many records share is no density's draw
    "factors": Factored,  # which column gives most away
    "full-table": Tabulated,  # `full_table_risk` and `likeliest`
    "reweighting": Reweighted,  # other hyper-priors without a new fit
    "left-out": Leaving,  # membership from runs without some records
    "trees": Grown,  # values that no leaf holds
    "household": object,  # `household.WithHouseholds`: no member of the target's household known
}


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """A method that a fit offers for a release and an intruder, or refuses.

    Attributes
    ----------
    name : str
        Of `EVIDENCE`, a method that gives the evidence; or of `FURTHER`.
    fit : object
        What the method calls; it keeps the protocol that stands beside the name.
    compute : Compute, or None
        Evidence that the model computes itself; then ``fit`` is not called.
    in_words : str, or function of an encoded release and targets
        How the evidence is computed, where the model has more to say than the method's name.
    strategy : Strategy, or None
        How the chains of the method are sampled; None: as the engine does it.
    refusal : str
        Why the method is not offered: a whole message, with its cure.
    workers : bool
        Whether ``compute`` takes ``n_jobs`` and ``budget`` (a `Budget`) too.
    """

    name: str
    fit: Any = None
    _: KW_ONLY
    compute: Compute | None = None
    in_words: str | Callable[[EncodedRelease, Targets], str] = ""
    strategy: Strategy | None = None
    refusal: str = ""
    workers: bool = False

    def __post_init__(self) -> None:
        if self.name not in EVIDENCE and self.name not in FURTHER:
            raise InputError(
                f"{self.name!r} is not a method; offer one of {[*EVIDENCE]} or of {[*FURTHER]}"
            )


def offers(fit: Any, *names: str, computed: Iterable[str] = ()) -> list[Offer]:
    """Methods that call the fit; and those that it computes, by its ``closed_form``."""
    own = [Offer(name, compute=partial(fit.closed_form, name)) for name in computed]
    return [*own, *(Offer(name, fit) for name in names)]


@dataclass(frozen=True, slots=True, eq=False)
class Capabilities:
    """What a fit offers for a release and an intruder, and why not what it refuses.

    ``any_rows``: whether the evidence holds where rows of the release are no certain record's:
    fresh draws of all columns, any number of them.
    """

    offers: Sequence[Offer] = ()
    any_rows: bool = False

    @property
    def methods(self) -> frozenset[str]:
        """Names of the methods that give the evidence."""
        return frozenset(offer.name for offer in self.of_evidence if not offer.refusal)

    @property
    def of_evidence(self) -> list[Offer]:
        """Methods that give the evidence, refused ones too."""
        return [offer for offer in self.offers if offer.name in EVIDENCE]

    def __getitem__(self, name: str) -> Offer:
        """The offer of this name, which may be a refusal."""
        return {offer.name: offer for offer in self.offers}[name]

    def __contains__(self, name: str) -> bool:
        """Whether a method is offered."""
        return any(offer.name == name and not offer.refusal for offer in self.offers)

    def fit_for(self, name: str) -> Any:
        """What the method of this name calls; None where it is not offered."""
        return self[name].fit if name in self else None


def check_kinds(fit: Any, release: Any) -> None:
    """Refuse what is no fit, and what is no release: most often a table, or the two exchanged."""
    if isinstance(fit, Release) and hasattr(release, "capabilities"):
        raise InputError("fit and release are exchanged; give the fit first, then the release")
    if not hasattr(fit, "capabilities"):
        raise InputError(
            f"fit is a {type(fit).__name__}; give the fit of a model to the confidential table, "
            "such as models.DPMPM().fit(table)"
        )
    if not isinstance(release, Release | EncodedRelease):
        raise InputError(
            f"release is a {type(release).__name__}; give what fit.synthesize returns, or for "
            "files made elsewhere read_synthpop(files)"
        )


def model_name(fit: Fit) -> str:
    """The name of the model, as messages have it."""
    return type(getattr(fit, "model", fit)).__name__.removesuffix("Fit")


def drawn_as(fit: Fit, release: Release | EncodedRelease) -> str:
    """How the parameters of a release were drawn; if it does not say, as the fit usually does."""
    if release.parameters is None:
        return fit.parameters[0]
    if release.parameters not in fit.parameters:
        raise InputError(
            f"the release has `parameters={release.parameters!r}` "
            f"({PARAMETERS[release.parameters]}), and {model_name(fit)} has no evidence for "
            f"that; it has for {', '.join(map(repr, fit.parameters))}: audit the release with a "
            "model like the one that made it"
        )
    if release.parameters == "shared" and release.classes == "own" and release.m > 1:
        raise InputError(
            "parameters",
            "shared",
            'with `classes="own"` is not offered for several data sets: a record would be tied to '
            'all of them through one draw; synthesise with `parameters="independent"`, or with '
            '`classes="new"`',
        )
    return release.parameters


def why_all_must_be_known(fit: Fit, release: EncodedRelease) -> str:
    """Why there is no evidence for an intruder who does not know all other records; or nothing."""
    kind = drawn_as(fit, release)
    if kind == "plug-in" or (kind == "shared" and release.m > 1):
        return (
            f"`parameters={kind!r}` with m = {release.m} is not offered by {model_name(fit)} for "
            "an intruder who does not know all other records; give "
            '`knows_records="all-but-target"`'
        )
    return ""


def without_weights(intruder: Intruder) -> str:
    """Why there is no evidence for such an intruder under record weights."""
    return (
        f"{intruder.in_words()[:-1]}: not offered for a fit with record weights; give "
        '`knows_records="all-but-target"`'
    )


def drawn_in_words(fit: Fit, release: EncodedRelease) -> str:
    """How many data sets, and how their parameters were drawn, one phrase for reports."""
    phrase, rows = PARAMETERS[drawn_as(fit, release)], ""
    if not release.corresponds:
        rows = f" of {release.codes.shape[1]:,} rows each, none of which is a certain record's"
    stated = "" if release.parameters else " (assumed: not stated)"
    return f"m = {release.m}{rows}, {phrase}{stated}"
