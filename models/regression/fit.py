"""Fitted regressions in sequence: synthesis, augmented fits, and what the evidence asks for.

For intruders who know only some of the other records: an unknown record's row enters no regression,
but what the release shows does: all columns that stay as they are, everything of records that were
not replaced, and the synthetic rows. With several releases the unknown rows of normal regressions
are imputed. The derivation stands in `docs/regression.md`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk._core.logspace import change
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.data.record_weights import in_words
from bayes_risk.evidence.contract import (
    Capabilities,
    Posterior,
    Predictive,
    Progress,
    Simulated,
    Targets,
    drawn,
    why_all_must_be_known,
    without_weights,
)
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.progress import ticker
from bayes_risk.models.fits.sampling import Length
from bayes_risk.models.fits.synthesis import Request, Synthesis, made_columns
from bayes_risk.release.release import EncodedRelease

from .conjugate import Moments
from .counts_imputed import ImputedCountsPosterior, UnknownCounts
from .families import Poisson
from .glm import Nuts
from .hyper import RegressionReweighting, reweighting
from .imputed import WARM_UP, ImputedPosterior, Sums, Unknown, inside, run_chains
from .part import Coefficients
from .posterior import (
    MAX_CELLS,
    ExactPart,
    ExternalDraws,
    ExternalPart,
    FittedPart,
    PartPosterior,
    RegressionPosterior,
    RegressionPredictive,
    SampledPart,
    Tick,
    closed,
    estimate,
    log_release_at_estimate,
    segments,
)

CHAINS = 4
COUNTS_SHARE = 8  # one draw of Poisson regressions in so many of the fit
WARM_SHARE = 0.25  # share of known records from which the metric and start of the whole fit serve


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownRecords:
    """Whose values are seen, (n,), and the fit to all records, from which chains may start."""

    seen: Flags
    whole: RegressionPosterior


def all_counts(made: Sequence[PartPosterior]) -> bool:
    """Whether all are Poisson regressions on published predictors."""
    names = {held.part.name for held in made}
    return all(
        isinstance(held.part.family, Poisson) and not names & set(held.part.design.columns)
        for held in made
    )


def why_published_tell(parts: Sequence[FittedPart], synthesized: set[str]) -> str:
    """Which published column depends on a synthesised one, and tells of the unknown records."""
    for held in parts:
        on = sorted(synthesized & set(held.part.design.columns))
        if held.part.name not in synthesized and on:
            return (
                f"column {held.part.name!r} is published and its formula uses {on[0]!r}, which is "
                "synthesised: it tells of the records that the intruder does not know, which is "
                f"not offered; fit the model without the formula of {held.part.name!r}"
            )
    return ""


def of_known(
    held: PartPosterior, seen: Flags, rng: np.random.Generator, tick: Tick
) -> PartPosterior:
    """One regression of the known rows; from scratch where they are few and tell little."""
    rows = held.rows.only(seen)
    if not isinstance(held, SampledPart) or seen.mean() >= WARM_SHARE:
        return held.with_rows(rows, rng=rng, tick=tick)
    chains = held.draws.n_chains
    how_long = Length(draws=len(held.draws) // chains, tune=held.tune, chains=chains)
    nuts = Nuts(held.part, held.nuts.nuts_sampler)
    return SampledPart.fitted(held.part, rows, nuts, how_long, rng=rng, tick=tick)


def unknown_counts(
    known: KnownRecords, replaced: Flags, tables: Sequence[Codes]
) -> list[UnknownCounts]:
    """What the chains of each Poisson regression work on; ``tables`` of released rows."""
    return [
        UnknownCounts.from_part(
            held,
            known.seen,
            replaced,
            np.stack([z[:, held.part.column].astype(float) for z in tables]),
        )
        for held in known.whole.parts
        if isinstance(held, SampledPart)
    ]


def unknown_normal(
    parts: Sequence[ExactPart], seen: Flags, tables: Sequence[Codes], first: Codes
) -> Unknown:
    """What the chains of normal regressions work on; ``first``: the first data set, whole."""
    records = np.flatnonzero(~seen)
    return Unknown(
        parts=[p.part for p in parts],
        sums=[
            Sums.from_moments(
                p.known.prior,
                p.known.data,
                [_moments(p, z, l) for l, z in enumerate(tables)],
                len(records),
            )
            for p in parts
        ],
        records=records,
        codes=first[records].astype(float),
    )


def _moments(held: ExactPart, codes: Codes, l: int) -> Moments:
    rows = held.part.rows(codes, f"release {l + 1}")
    return Moments.from_rows(rows.X, rows.y)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClosedPredictive:
    """A predictive in closed form, handed out as if by H draws that all agree.

    ``log_p`` (G, U) is log p(y* | data without the target); that of the truth is not looked at.
    """

    log_p: Array
    batch: Ints

    def log_truth(self, block: slice) -> Array:
        """The same for all draws, shape (H, block): it cancels."""
        return np.zeros((len(self.batch), self.log_p[:, block].shape[1]))

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h p(y*): (B, G, block)."""
        starts = np.flatnonzero(np.diff(self.batch, prepend=-1))
        weights = np.logaddexp.reduceat(log_weights, starts, axis=0)
        return np.asarray(weights[:, None] + self.log_p[:, block])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClosedPosterior:
    """p(Theta | known rows) of normal regressions, never drawn: its predictives are exact.

    ``n_draws`` is the number of draws beside which it stands.
    """

    parts: Sequence[ExactPart]
    n_draws: int

    @property
    def n_sweeps(self) -> int:
        """As many as stand beside it."""
        return self.n_draws // CHAINS

    def predictives(self, targets: Targets, *, rng: np.random.Generator) -> list[Predictive]:
        """One for each regression in which a guess appears."""
        guessed = set(targets.columns.tolist())
        batch = batch_of_draws(self.n_draws, CHAINS)
        return [
            ClosedPredictive(log_p=held.log_predictive(targets), batch=batch)
            for held in self.parts
            if guessed & held.part.uses
        ]

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "ClosedPosterior":
        """Exact as it is."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegressionFit(Synthesis):
    """Regressions fitted in sequence."""

    # "plug-in": normal regressions at the posterior mean of coefficients and its residual variance
    parameters: ClassVar[tuple[str, ...]] = ("independent", "shared", "plug-in")
    model: Any
    microdata: Microdata  # the columns that the formulas name
    # ``posterior``: one variable a coefficient, named ``income: age``, ``income: sigma``, on the
    # original scale of the predictors
    idata: Any
    posterior: RegressionPosterior | ExternalDraws  # the draws as the engine uses them
    diagnostics: dict[str, float]  # draws, chains, R-hat and ESS of the coefficients
    # shape (n,): weights of the records in the pseudo-posterior; None: all count in full
    weights: Array | None = None
    # which records the draws are given, for an intruder who does not know them all
    known: KnownRecords | None = None

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        """What is offered for a release and an intruder."""
        made = self._held(release)
        may = Capabilities(importance=self, factored=self, reweighted=self)
        if isinstance(self.posterior, ExternalDraws):
            if intruder.knows_less:
                return may.refused(
                    "draws brought from elsewhere cannot be drawn again, and an intruder who does "
                    "not know all other records needs other draws; fit the model (fit)"
                )
            return replace(may, methods=frozenset({"importance"}))
        may = replace(may, closed_form=self, sampled=self, imputing=self, partial=self)
        exact = frozenset({"exact"} if all(isinstance(p, ExactPart) for p in made) else ())
        if intruder.knows_less:
            return self._knowing(may, release, intruder, bool(exact))
        if drawn(self, release) == "plug-in":
            ways = frozenset({"exact" for held in made if closed(held)})
            return replace(may, methods=ways, computed=ways)
        ways = frozenset({"predictive", "refit", "importance"}) | exact
        return replace(may, methods=ways, computed=exact)

    def _knowing(
        self, may: Capabilities, release: EncodedRelease, intruder: Intruder, exact: bool
    ) -> Capabilities:
        """What is offered for an intruder who does not know all other records."""
        made = self.made(release)
        why = without_weights(intruder) if self.weights is not None else ""
        why = why or why_all_must_be_known(self, release)
        why = why or why_published_tell(self.posterior.parts, set(release.synthesized))
        if why:
            return may.refused(why)
        if release.m == 1:
            computed = frozenset({"exact"} if exact else ())
            return replace(may, methods=computed | {"predictive"}, computed=computed)
        ways = frozenset(
            {"imputed", "independent-releases"}
            if exact or all_counts(made)
            else {"independent-releases"}
        )
        return replace(
            may, methods=ways, computed=frozenset({"independent-releases"} if exact else ())
        )

    def closed_form(
        self,
        evidence: str,
        release: EncodedRelease,
        targets: Targets,
        *,
        rng: np.random.Generator,
        progress: Progress | None,
    ) -> Simulated:
        """Exact evidence of the normal families.

        So is the product over releases, for an intruder who does not know all other records.
        """
        parts = RegressionPosterior(parts=self.made(release)).touched(targets)
        if drawn(self, release) == "plug-in":
            return Simulated.product(self._at_estimate(release, targets, parts))
        draws = range(len(release.by_draw))
        augmented = [self.augmented(release, l, rng=rng, progress=progress) for l in draws]
        after = [posterior.touched(targets) for posterior in augmented]
        return Simulated.product(_changes(parts, after, targets))

    def factors(
        self, evidence: str, release: EncodedRelease, targets: Targets
    ) -> tuple[str, ...] | str:
        """The outcomes of the regressions in which a guess appears, in their order."""
        if evidence == "importance":
            return "the published sampler weighs draws by whole releases"
        if evidence == "imputed":
            return "the records that are not known were imputed in all columns at once"
        made = RegressionPosterior(parts=self.made(release))
        return tuple(held.part.name for held in made.touched(targets))

    def _at_estimate(
        self, release: EncodedRelease, targets: Targets, parts: Sequence[PartPosterior]
    ) -> Iterator[Array]:
        """log p(Z^(l) | Theta-hat(y*, y_-i)) of each part up to a constant, shape (m, G, U)."""
        tables = [self.released(release, l) for l in range(release.m)]
        for held in parts:
            rows = [held.part.rows(z, f"release {l}") for l, z in enumerate(tables, start=1)]
            moments = [Moments.from_rows(r.X, r.y) for r in rows]
            yield log_release_at_estimate(closed(held), moments, targets)

    @property
    def n_draws(self) -> int:
        """Number H of draws."""
        return self.posterior.n_draws

    def mechanism(self, release: EncodedRelease) -> str:
        """How the release was drawn, one phrase for reports."""
        order = [p.part.name for p in self._held(release)]
        return (
            "the regressions, their priors and the scales of the standardised variables are known, "
            "these as constants from which nothing is inferred of a record, not the parameters; "
            f"values drawn in the order {', '.join(order)}, each given those "
            f"before it{in_words(self.weights)}"
        )

    def informed(self, release: EncodedRelease) -> Posterior:
        """p(theta | y) of the regressions that made the release."""
        parts = self.made(release)
        exact = [held for held in parts if isinstance(held, ExactPart)]
        if self.known is not None and release.m > 1 and len(exact) == len(parts):
            return ClosedPosterior(parts=exact, n_draws=CHAINS * self._length)
        return RegressionPosterior(parts=parts)

    @property
    def _length(self) -> int:
        """Draws of each chain of imputed rows."""
        return max(-(-self.n_draws // CHAINS), 4)

    def made(self, release: EncodedRelease) -> list[PartPosterior]:
        """The regressions that made the release, in its order."""
        if isinstance(self.posterior, ExternalDraws):
            raise InputError(
                "draws brought from elsewhere cannot be drawn again; they offer the evidence "
                '"importance" alone, for the others fit the model (fit)'
            )
        return [held for held in self._held(release) if not isinstance(held, ExternalPart)]

    def _held(self, release: EncodedRelease) -> list[FittedPart]:
        """Draws of the regressions that made the release."""
        lacking = f"the model has no formula; it has those of {self._modelled}"
        names = made_columns(release, self.microdata, self._modelled, lacking)
        return [p for p in self.posterior.parts if p.part.name in names]

    @property
    def _modelled(self) -> list[str]:
        return [p.part.name for p in self.posterior.parts]

    def _tables(self, request: Request) -> Iterator[Codes]:
        draws = request.draw_index or (None,) * len(request.rngs)
        for h, rng in zip(draws, request.rngs, strict=True):
            yield self._table(h, request, rng)

    def _coefficients(self, held: FittedPart, h: int | None) -> Coefficients:
        """Draw h of a regression's parameters, or their estimate."""
        if h is not None:
            return held.draws.at(h)
        return estimate(closed(held))

    def _table(self, h: int | None, request: Request, rng: np.random.Generator) -> Codes:
        """One synthetic table, in codes."""
        codes: Codes = self.microdata.codes.astype(float)
        for held in self.posterior.parts:
            if held.part.name not in request.columns:
                continue
            values = held.part.draw(codes[request.mask], self._coefficients(held, h), rng)
            if not np.isfinite(values).all():
                raise ModelError(
                    f"synthetic values of {held.part.name!r} are too large to be numbers; look at "
                    "its predictors, or choose another family"
                )
            codes[request.mask, held.part.column] = values
        return codes

    def augmented(
        self,
        release: EncodedRelease,
        l: int,
        *,
        rng: np.random.Generator,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> RegressionPosterior:
        """p(theta | y, Z^(l)): below the table's rows those of all data sets of draw l."""
        base = self.made(release)
        starts = base if self.known is None else self.known.whole.parts
        tables = {k: self.released(release, k) for k in release.by_draw[l]}
        tick = ticker(progress, f"release {l + 1}", sum(len(p.draws) for p in base))
        parts = []
        for held, start, child in zip(base, starts, rng.spawn(len(base)), strict=True):
            rows = held.rows
            for k, z in tables.items():
                rows = rows.and_also(held.part.rows(z, f"release {k + 1}"))
            parts.append(start.with_rows(rows, rng=child, tick=tick))
        return RegressionPosterior(parts=parts)

    def released(self, release: EncodedRelease, l: int) -> Codes:
        """Coded rows of data set l whose values were replaced."""
        codes: Codes = release.codes[l][release.replaced]
        for held in self._held(release):
            held.part.check(codes, f"of release {l + 1}")
        return codes

    def without(
        self,
        record: int,
        release: EncodedRelease | None,
        l: int,
        *,
        start: RegressionPosterior,
        rng: np.random.Generator,
    ) -> RegressionPosterior:
        """The posterior ``start`` again, with the confidential values of one record left out.

        ``start`` has the rows of the release, if there is one.
        """
        row = record if self.known is None else int(self.known.seen[:record].sum())
        parts = []
        for held, child in zip(start.parts, rng.spawn(len(start.parts)), strict=True):
            shorter = 1 if held.part.family.exact else 2
            parts.append(held.with_rows(held.rows.but(row), shorter=shorter, rng=child))
        return RegressionPosterior(parts=parts)

    def knowing(
        self,
        known: Flags,
        release: EncodedRelease,
        *,
        rng: np.random.Generator,
        n_jobs: int,
        progress: Progress | None,
    ) -> "RegressionFit":
        """The same regressions with only the known records' values seen, known (n,)."""
        made = self.made(release)
        tick = ticker(progress, "fit to known records", sum(len(p.draws) for p in made))
        parts = [
            of_known(held, known, child, tick)
            for held, child in zip(made, rng.spawn(len(made)), strict=True)
        ]
        return replace(
            self,
            posterior=RegressionPosterior(parts=parts),
            known=KnownRecords(seen=known, whole=RegressionPosterior(parts=made)),
        )

    def imputed(
        self,
        release: EncodedRelease,
        *,
        rng: np.random.Generator,
        n_jobs: int,
        progress: Progress | None,
    ) -> ImputedPosterior | ImputedCountsPosterior:
        """p(y_U | y_A, Z^(1..m)), y_U the values that are not known.

        Normal regressions: 4 chains, as many draws as the fit has; a sweep costs
        n_U J (4 k^2 + m k) multiplications and the designs of later regressions. Poisson
        regressions: as many chains as the fit has, an eighth of its draws, coefficients integrated
        out.
        """
        assert self.known is not None
        tables = [self.released(release, l) for l in range(release.m)]
        how: Any = {"rng": rng, "n_jobs": n_jobs}
        if all_counts(self.made(release)):
            counts = unknown_counts(self.known, release.replaced, tables)
            made = [p for p in self.made(release) if isinstance(p, SampledPart)]
            chains = min(p.draws.n_chains for p in made)
            draws = max(self.n_draws // chains // COUNTS_SHARE, 4)
            tick = ticker(progress, "unknown records", chains * draws * len(counts))
            return ImputedCountsPosterior.sampled(
                counts, chains=chains, draws=draws, tick=tick, **how
            )
        normal = [p for p in self.made(release) if isinstance(p, ExactPart)]
        unknown = unknown_normal(normal, self.known.seen, tables, release.codes[0])
        start = np.stack([inside(p, unknown.codes[:, p.column]) for p in unknown.parts])
        tick = ticker(progress, "unknown records", CHAINS * self._length)
        sampled = run_chains(
            unknown, [start] * CHAINS, draws=self._length, tune=WARM_UP, tick=tick, **how
        )
        return ImputedPosterior(unknown=unknown, draws=sampled)

    def theta_predictive(
        self, targets: Targets, release: EncodedRelease, l: int | None
    ) -> RegressionPredictive:
        """prod_j f_j(y* | theta_h) over the regressions that made the release."""
        held = self._held(release)
        return RegressionPredictive(
            parts=[p.part for p in held],
            draws=[p.draws for p in held],
            targets=targets,
            batch=segments(held[0].draws),
        )

    def log_release(
        self, release: EncodedRelease, draws: npt.NDArray[np.integer] | None = None
    ) -> Array:
        """log p(Z^(l) | Theta_h), shape (m, H), or of some draws alone."""
        which = np.arange(self.posterior.n_draws) if draws is None else draws
        parts = [(held.part, held.draws.take(which)) for held in self._held(release)]
        out = np.zeros((release.m, len(which)))
        step = max(MAX_CELLS // len(which), 1)
        for l in range(release.m):
            z = self.released(release, l)
            for begin in range(0, len(z), step):
                for part, coefficients in parts:
                    block = z[begin : begin + step]
                    out[l] += part.log_density(block, coefficients).sum(axis=0)
        return out

    def under(self, model: Any) -> RegressionReweighting | None:
        """The draws under other priors, by weights; None: only a new fit can tell."""
        return reweighting(self, model)

    def __repr__(self) -> str:
        d = self.diagnostics
        return (
            f"RegressionFit: {len(self.microdata.codes):,} records, "
            f"{', '.join(self._modelled)}; {d['chains']:.0f} chains of "
            f"{d['draws']:.0f} draws"
        )


def _changes(
    before: Sequence[PartPosterior], after: Sequence[Sequence[PartPosterior]], targets: Targets
) -> Iterator[Array]:
    """Change of each part's log predictive by each release, shape (m, G, U), in closed form."""
    for held, *seen in zip(before, *after, strict=True):
        base = closed(held).log_predictive(targets)
        yield np.stack([change(closed(one).log_predictive(targets), base) for one in seen])
