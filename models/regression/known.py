"""Regressions for intruders who know only some of the other records.

An unknown record's row enters no regression, but what the release shows does: all columns that stay
as they are, everything of records that were not replaced, and the synthetic rows. With several
releases the unknown rows of normal regressions are imputed. The derivation stands in
`docs/regression.md`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayes_risk._core.batches import batch_of_draws
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Predictive, Targets
from bayes_risk.models.fits.sampling import Length

from .conjugate import Moments
from .counts_imputed import UnknownCounts
from .families import Poisson
from .glm import Nuts
from .imputed import Sums, Unknown
from .posterior import ExactPart, FittedPart, PartPosterior, RegressionPosterior, SampledPart, Tick

Array = npt.NDArray[np.float64]
CHAINS = 4
COUNTS_SHARE = 8  # one draw of Poisson regressions in so many of the fit
WARM_SHARE = 0.25  # share of known records from which the metric and start of the whole fit serve


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownRecords:
    """Whose values are seen, (n,), and the fit to all records, from which chains may start."""

    seen: npt.NDArray[np.bool_]
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
    held: PartPosterior, seen: npt.NDArray[np.bool_], rng: np.random.Generator, tick: Tick
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
    known: KnownRecords, replaced: npt.NDArray[np.bool_], tables: Sequence[Codes]
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
    parts: Sequence[ExactPart],
    seen: npt.NDArray[np.bool_],
    tables: Sequence[Codes],
    first: Codes,
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
    batch: npt.NDArray[np.int64]

    def log_truth(self, block: slice) -> Array:
        """The same for all draws, shape (H, block): it cancels."""
        return np.zeros((len(self.batch), self.log_p[:, block].shape[1]))

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h p(y*): (B, G, block)."""
        starts = np.flatnonzero(np.diff(self.batch, prepend=-1))
        weights = np.logaddexp.reduceat(log_weights, starts, axis=0)
        sums: Array = weights[:, None] + self.log_p[:, block]
        return sums


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
