"""Fitted regressions in sequence: synthesis, augmented fits, and what the evidence asks for.

What is seen by intruders who know only some of the other records stands in `docs/regression.md`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar, NamedTuple, cast

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
from bayes_risk.models.fits.sampling import MAX_CELLS
from bayes_risk.models.fits.synthesis import Request, Synthesis, made_columns
from bayes_risk.models.mixture.hyper_priors import same_but
from bayes_risk.release.release import EncodedRelease

from . import counts_imputed
from .counts_imputed import UnknownCounts
from .families import Poisson
from .hyper import RegressionReweighting
from .imputed import WARM_UP, ImputedPosterior, Unknown
from .part import Rows
from .posterior import (
    ExactPart,
    ExternalPart,
    FittedPart,
    PartPosterior,
    RegressionPosterior,
    RegressionPredictive,
    SampledPart,
    closed,
    segments,
    touched,
)

CHAINS = 4
COUNTS_SHARE = 8  # one draw of Poisson regressions in so many of the fit
WARM_SHARE = 0.25  # share of known records from which the metric and start of the whole fit serve


class KnownRecords(NamedTuple):
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

    def predictives(self, targets: Targets, *, rng: np.random.Generator) -> list[Predictive]:
        """One for each regression in which a guess appears."""
        batch = batch_of_draws(self.n_draws, CHAINS)
        return [
            ClosedPredictive(log_p=held.log_predictive(targets), batch=batch)
            for held in touched(self.parts, targets)
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
    posterior: RegressionPosterior  # the draws as the engine uses them
    diagnostics: dict[str, float]  # draws, chains, R-hat and ESS of the coefficients
    # shape (n,): weights of the records in the pseudo-posterior; None: all count in full
    weights: Array | None = None
    # which records the draws are given, for an intruder who does not know them all
    known: KnownRecords | None = None

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        """What is offered for a release and an intruder."""
        made = self._held(release)
        may = Capabilities(importance=self, factored=self, reweighted=self)
        if any(isinstance(held, ExternalPart) for held in made):
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
        ways = {"independent-releases"} | ({"imputed"} if exact or all_counts(made) else set())
        computed = frozenset({"independent-releases"} if exact else ())
        return replace(may, methods=frozenset(ways), computed=computed)

    def closed_form(
        self, evidence: str, release: EncodedRelease, targets: Targets, **how: Any
    ) -> Simulated:
        """Exact evidence of the normal families.

        So is the product over releases, for an intruder who does not know all other records.
        """
        parts = [closed(held) for held in touched(self.made(release), targets)]
        if drawn(self, release) == "plug-in":
            tables = [self.released(release, l) for l in range(release.m)]
            each = (held.log_release_at_estimate(held.moments(tables), targets) for held in parts)
            return Simulated.product(each)
        draws = range(len(release.by_draw))
        after = [touched(self.augmented(release, l, **how).parts, targets) for l in draws]
        return Simulated.product(_changes(parts, after, targets))

    def factors(
        self, evidence: str, release: EncodedRelease, targets: Targets
    ) -> tuple[str, ...] | str:
        """The outcomes of the regressions in which a guess appears, in their order."""
        if evidence == "importance":
            return "the published sampler weighs draws by whole releases"
        if evidence == "imputed":
            return "the records that are not known were imputed in all columns at once"
        return tuple(held.part.name for held in touched(self.made(release), targets))

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
        held = self._held(release)
        if any(isinstance(one, ExternalPart) for one in held):
            raise InputError(
                "draws brought from elsewhere cannot be drawn again; they offer the evidence "
                '"importance" alone, for the others fit the model (fit)'
            )
        return cast(list[PartPosterior], held)

    def _held(self, release: EncodedRelease) -> list[FittedPart]:
        """Draws of the regressions that made the release."""
        lacking = f"the model has no formula; it has those of {self._modelled}"
        names = made_columns(release, self.microdata, self._modelled, lacking)
        return [p for p in self.posterior.parts if p.part.name in names]

    @property
    def _modelled(self) -> list[str]:
        return [p.part.name for p in self.posterior.parts]

    def _tables(self, request: Request) -> Iterator[Codes]:
        return (self._table(h, request, rng) for h, rng in request.draws())

    def _table(self, h: int | None, request: Request, rng: np.random.Generator) -> Codes:
        """One synthetic table, in codes."""
        codes: Codes = self.microdata.codes.astype(float)
        for held in self.posterior.parts:
            if held.part.name not in request.columns:
                continue
            theta = closed(held).estimate() if h is None else held.draws.at(h)
            values = held.part.draw(codes[request.mask], theta, rng)
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
        progress: Progress | None = None,
        **how: Any,
    ) -> RegressionPosterior:
        """p(theta | y, Z^(l)): below the table's rows those of all data sets of draw l."""
        base = self.made(release)
        starts = base if self.known is None else self.known.whole.parts
        tables = {k: self.released(release, k) for k in release.by_draw[l]}
        tick = ticker(progress, f"release {l + 1}", sum(len(p.draws) for p in base))
        parts = []
        for held, start, child in zip(base, starts, rng.spawn(len(base)), strict=True):
            more = (held.part.rows(z, f"release {k + 1}") for k, z in tables.items())
            rows = reduce(Rows.and_also, more, held.rows)
            parts.append(start.with_rows(rows, rng=child, tick=tick))
        return RegressionPosterior(parts=parts)

    def released(self, release: EncodedRelease, l: int) -> Codes:
        """Coded rows of data set l whose values were replaced."""
        codes: Codes = release.codes[l][release.replaced]
        for held in self._held(release):
            held.part.check(codes, f"of release {l + 1}")
        return codes

    def without(
        self, record: int, release: EncodedRelease | None, l: int, *, start: Any, rng: Any
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
        progress: Progress | None,
        **how: Any,
    ) -> "RegressionFit":
        """The same regressions with only the known records' values seen, known (n,).

        Sampled from scratch where they are few and the metric of the whole fit tells little.
        """
        made = self.made(release)
        tick = ticker(progress, "fit to known records", sum(len(p.draws) for p in made))
        warm, parts = known.mean() >= WARM_SHARE, []
        for held, child in zip(made, rng.spawn(len(made)), strict=True):
            start = held if warm or isinstance(held, ExactPart) else held.cold()
            parts.append(start.with_rows(held.rows.only(known), rng=child, tick=tick))
        return replace(
            self,
            posterior=RegressionPosterior(parts=parts),
            known=KnownRecords(known, RegressionPosterior(parts=made)),
        )

    def imputed(
        self, release: EncodedRelease, *, progress: Progress | None, **how: Any
    ) -> ImputedPosterior:
        """p(y_U | y_A, Z^(1..m)), y_U the values that are not known; ``how``: rng and n_jobs.

        Normal regressions: 4 chains, as many draws as the fit has; a sweep costs
        n_U J (4 k^2 + m k) multiplications and the designs of later regressions. Poisson
        regressions: as many chains as the fit has, an eighth of its draws, coefficients integrated
        out.
        """
        assert self.known is not None
        made, tables = self.made(release), [self.released(release, l) for l in range(release.m)]
        unknown: list[Any]
        if all_counts(made):
            whole = [held for held in self.known.whole.parts if isinstance(held, SampledPart)]
            unknown = [
                UnknownCounts.of(held, self.known.seen, release.replaced, tables) for held in whole
            ]
            chains, tune = min(held.draws.n_chains for held in made), counts_imputed.WARM_UP
            draws = max(self.n_draws // chains // COUNTS_SHARE, 4)
        else:
            normal = [closed(held) for held in made]
            unknown = [Unknown.of(normal, self.known.seen, tables, release.codes[0])]
            chains, draws, tune = CHAINS, self._length, WARM_UP
        tick = ticker(progress, "unknown records", chains * draws * len(unknown))
        length: Any = {"chains": chains, "draws": draws, "tune": tune, "tick": tick}
        return ImputedPosterior.sampled(unknown, **length, **how)

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
        plain = self.weights is None and self.known is None
        sampled = not any(isinstance(held, ExternalPart) for held in self.posterior.parts)
        alike = same_but(self.model, model, "prior", "priors")
        return RegressionReweighting(model) if plain and sampled and alike else None

    def __repr__(self) -> str:
        d = self.diagnostics
        return (
            f"RegressionFit: {len(self.microdata.codes):,} records, "
            f"{', '.join(self._modelled)}; {d['chains']:.0f} chains of "
            f"{d['draws']:.0f} draws"
        )


def _changes(
    before: Sequence[ExactPart], after: Sequence[Sequence[PartPosterior]], targets: Targets
) -> Iterator[Array]:
    """Change of each part's log predictive by each release, shape (m, G, U), in closed form."""
    for held, *seen in zip(before, *after, strict=True):
        base = held.log_predictive(targets)
        yield np.stack([change(closed(one).log_predictive(targets), base) for one in seen])
