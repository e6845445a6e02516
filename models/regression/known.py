"""Regressions for intruders who know only some of the other records.

An unknown record's row enters no regression, but what the release shows does: all columns that stay
as they are, everything of records that were not replaced, and the synthetic rows. With several
releases the unknown rows of normal regressions are imputed. The derivation stands in
`docs/regression.md`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.errors import InputError
from bayes_risk.evidence.contract import Predictive, Progress, Targets
from bayes_risk.models.fits.progress import ticker
from bayes_risk.models.fits.sampling import Length
from bayes_risk.release.parameters import check_less_known
from bayes_risk.release.release import Release

from .chain import WARM_UP, run_chains
from .conjugate import Moments
from .draws import BroughtDraws
from .families import Poisson
from .glm import Nuts
from .imputed import ImputedPosterior
from .posterior import ExactPart, PartPosterior, RegressionPosterior, SampledPart, Tick
from .unknown import Sums, Unknown, inside

if TYPE_CHECKING:
    from .counts_imputed import ImputedCountsPosterior, UnknownCounts
    from .fit import RegressionFit

Array = npt.NDArray[np.float64]
CHAINS = 4
COUNTS_SHARE = 8  # one draw of Poisson regressions in so many of the fit
ENOUGH = 0.25  # share of known records from which the metric and start of the whole fit serve


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """Whose values are seen, (n,), and the fit to all records, from which chains may start."""

    seen: npt.NDArray[np.bool_]
    whole: RegressionPosterior


def offers_knowing(fit: "RegressionFit", release: Release) -> frozenset[str]:
    """Ways to the evidence of a release, for an intruder who does not know all other records.

    Raises
    ------
    InputError
        Draws brought from elsewhere, or under record weights; a modelled column that stays and
        depends on a synthesised one.
    """
    if isinstance(fit.posterior, BroughtDraws):
        raise InputError(
            "draws brought from elsewhere cannot be drawn again, and an intruder who does not know "
            "all other records needs other draws; fit the model (fit)"
        )
    if fit.weights is not None:
        raise InputError(
            "under record weights nothing is offered for an intruder who does not know all other "
            'records; fit without weights, or give knows_records="all-but-target"'
        )
    check_less_known(fit, release)
    made = fit.made(release)
    _check_children(fit, release)
    exact = all(isinstance(held, ExactPart) for held in made)
    if release.m == 1:
        return frozenset({"exact", "predictive"} if exact else {"predictive"})
    return frozenset({"imputed", "product"} if exact or _counts(made) else {"product"})


def _counts(made: Sequence[PartPosterior]) -> bool:
    """Whether all are Poisson regressions on published predictors."""
    names = {held.part.name for held in made}
    return all(
        isinstance(held.part.family, Poisson) and not names & set(held.part.design.columns)
        for held in made
    )


def _check_children(fit: "RegressionFit", release: Release) -> None:
    """Published columns that depend on synthesised ones would tell of the unknown records."""
    synthesized = set(release.synthesized)
    for held in fit.posterior.parts:
        on = sorted(synthesized & set(held.part.design.columns))
        if held.part.name not in synthesized and on:
            raise InputError(
                f"column {held.part.name!r} is published and its formula uses {on[0]!r}, which is "
                "synthesised: it tells of the records that the intruder does not know, which is "
                f"not offered; fit the model without the formula of {held.part.name!r}"
            )


def knowing(
    fit: "RegressionFit",
    known: npt.NDArray[np.bool_],
    release: Release,
    *,
    rng: np.random.Generator,
    progress: Progress | None,
) -> "RegressionFit":
    """The same regressions with only the known records' values seen, those that made the release.

    Raises
    ------
    ModelError
        A flat prior that the known records do not make proper.
    """
    made = fit.made(release)
    tick = ticker(progress, "fit to known records", sum(len(p.draws) for p in made))
    parts = [
        _of_known(held, known, child, tick)
        for held, child in zip(made, rng.spawn(len(made)), strict=True)
    ]
    return replace(
        fit,
        posterior=RegressionPosterior(parts=parts),
        known=Known(seen=known, whole=RegressionPosterior(parts=made)),
    )


def _of_known(
    held: PartPosterior, seen: npt.NDArray[np.bool_], rng: np.random.Generator, tick: Tick
) -> PartPosterior:
    """One regression of the known rows; from scratch where they are few and tell little."""
    rows = held.rows.only(seen)
    if not isinstance(held, SampledPart) or seen.mean() >= ENOUGH:
        return held.with_rows(rows, rng=rng, tick=tick)
    chains = held.draws.n_chains
    how_long = Length(draws=len(held.draws) // chains, tune=held.tune, chains=chains)
    nuts = Nuts(held.part, held.nuts.nuts_sampler)
    return SampledPart.of(held.part, rows, nuts, how_long, rng=rng, tick=tick)


def length(fit: "RegressionFit") -> int:
    """Draws of each chain of imputed rows."""
    return max(-(-fit.n_draws // CHAINS), 4)


def imputed(
    fit: "RegressionFit",
    release: Release,
    *,
    rng: np.random.Generator,
    n_jobs: int,
    progress: Progress | None,
) -> "ImputedPosterior | ImputedCountsPosterior":
    """p(y_U | y_A, Z^(1..m)), in 4 chains; of counts in as many as the fit has.

    Normal regressions: as many draws as the fit has, a sweep costs n_U J (4 k^2 + m k)
    multiplications and the designs of later regressions. Poisson regressions: `_imputed_counts`.
    """
    if _counts(fit.made(release)):
        return _imputed_counts(fit, release, rng=rng, n_jobs=n_jobs, progress=progress)
    unknown = _unknown(fit, release)
    size = length(fit)
    start = np.stack([inside(p, unknown.codes[:, p.column]) for p in unknown.parts])
    tick = ticker(progress, "unknown records", CHAINS * size)
    draws = run_chains(
        unknown, [start] * CHAINS, draws=size, tune=WARM_UP, rng=rng, n_jobs=n_jobs, tick=tick
    )
    return ImputedPosterior(unknown=unknown, draws=draws)


def _imputed_counts(
    fit: "RegressionFit",
    release: Release,
    *,
    rng: np.random.Generator,
    n_jobs: int,
    progress: Progress | None,
) -> "ImputedCountsPosterior":
    """Poisson regressions: an eighth of the fit's draws, coefficients integrated out."""
    from .counts_imputed import ImputedCountsPosterior  # compiled only where needed

    unknown = unknown_counts(fit, release)
    chains = min(p.draws.n_chains for p in fit.made(release) if isinstance(p, SampledPart))
    draws = max(fit.n_draws // chains // COUNTS_SHARE, 4)
    tick = ticker(progress, "unknown records", chains * draws * len(unknown))
    how: Any = {"rng": rng, "n_jobs": n_jobs, "tick": tick}
    return ImputedCountsPosterior.sampled(unknown, chains=chains, draws=draws, **how)


def unknown_counts(fit: "RegressionFit", release: Release) -> "list[UnknownCounts]":
    """What the chains of each Poisson regression work on; the fit is given the known records."""
    from .counts_imputed import UnknownCounts

    assert fit.known is not None
    seen, parts = fit.known.seen, fit.known.whole.parts
    tables = [fit.released(release, l) for l in range(release.m)]
    return [
        UnknownCounts.of(
            held,
            seen,
            release.replaced(len(seen)),
            np.stack([z[:, held.part.column].astype(float) for z in tables]),
        )
        for held in parts
        if isinstance(held, SampledPart)
    ]


def _unknown(fit: "RegressionFit", release: Release) -> Unknown:
    """What the chains work on."""
    assert fit.known is not None
    held = [p for p in fit.made(release) if isinstance(p, ExactPart)]
    records = np.flatnonzero(~fit.known.seen)
    tables = [fit.released(release, l) for l in range(release.m)]
    return Unknown(
        parts=[p.part for p in held],
        sums=[
            Sums.of(
                p.known.prior,
                p.known.data,
                [_moments(p, z, l) for l, z in enumerate(tables)],
                len(records),
            )
            for p in held
        ],
        records=records,
        codes=release.codes(fit.microdata, 0)[records].astype(float),
    )


def _moments(held: ExactPart, codes: Array, l: int) -> Moments:
    rows = held.part.rows(codes, f"release {l + 1}")
    return Moments.of(rows.X, rows.y)


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
