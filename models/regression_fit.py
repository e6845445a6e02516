"""Fitted regressions in sequence: synthesis, augmented fits, and what the evidence asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError, ModelError
from bayes_risk._core.validate import at_least, known_columns
from bayes_risk.diagnostics import ess_and_rhat
from bayes_risk.microdata import Codes, Microdata
from bayes_risk.release import Release
from bayes_risk.synthesizer import Progress, Targets

from .progress import ticker
from .regression_draws import BroughtPart, flat, to_idata
from .regression_part import Part
from .regression_posterior import (
    ExactPart,
    PartPosterior,
    RegressionPosterior,
    SampledPart,
    segments,
)
from .regression_predictive import RegressionPredictive
from .regression_pymc import Length, Nuts

if TYPE_CHECKING:
    from .regression import Regression

Array = npt.NDArray[np.float64]
ROOM = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegressionFit:
    """Regressions fitted in sequence.

    Attributes
    ----------
    model : Regression
    microdata : Microdata
        The columns that the formulas name.
    idata : arviz.InferenceData
        ``posterior``: one variable a coefficient, named ``income: age``, ``income: sigma``, on the
        original scale of the predictors.
    posterior : RegressionPosterior
        The draws as the engine uses them.
    diagnostics : dict
        Draws, chains, R-hat and ESS of the coefficients.
    """

    model: "Regression"
    microdata: Microdata
    idata: Any
    posterior: RegressionPosterior
    diagnostics: dict[str, float]

    @property
    def records_differ(self) -> bool:
        """Records with the same values have the same evidence."""
        return False

    def offers(self, release: Release) -> frozenset[str]:
        """Ways to the evidence of a release."""
        parts = self._informed(release)
        if any(isinstance(p, BroughtPart) for p in parts):
            return frozenset({"reuse"})
        exact = {"exact"} if all(isinstance(p, ExactPart) for p in parts) else set()
        return frozenset({"predictive", "refit", "reuse"} | exact)

    def direct(
        self,
        evidence: str,
        release: Release,
        targets: Targets,
        *,
        rng: np.random.Generator,
        progress: Progress | None,
    ) -> Array | None:
        """Exact evidence in closed form, for the normal families; else nothing."""
        if evidence != "exact":
            return None
        base = self.informed(release).log_predictive(targets)
        augmented = [
            self.augmented(release, l, rng=rng, progress=progress).log_predictive(targets)
            for l in range(release.m)
        ]
        return np.stack([_change(after, base) for after in augmented])

    @property
    def n_draws(self) -> int:
        """Number H of draws."""
        return self.posterior.n_draws

    def mechanism(self, release: Release) -> str:
        """How the release was drawn, one phrase for reports."""
        order = [p.part.name for p in self._informed(release)]
        return (
            "the regressions, their priors and the scales of the standardised variables are known, "
            f"not the parameters; values drawn in the order {', '.join(order)}, each given those "
            "before it"
        )

    def informed(self, release: Release) -> RegressionPosterior:
        """p(theta | y) of the regressions that made the release."""
        return RegressionPosterior(parts=self._informed(release))

    def _informed(self, release: Release) -> list[PartPosterior]:
        names = known_columns("synthesized", release.synthesized, self.microdata.columns)
        without = [c for c in names if c not in self._modelled]
        if without:
            raise InputError(
                f"the release has column {without[0]!r} synthesised, for which the model has no "
                f"formula; it has those of {self._modelled}"
            )
        return [p for p in self.posterior.parts if p.part.name in names]

    @property
    def _modelled(self) -> list[str]:
        return [p.part.name for p in self.posterior.parts]

    def synthesize(
        self,
        m: int = 5,
        columns: Sequence[str] | None = None,
        records: Any = None,
        *,
        random_seed: int | np.random.Generator | None = None,
    ) -> Release:
        """Draw m synthetic data sets, each from its own draw of Theta.

        Parameters
        ----------
        m : int
            Number of data sets, at least 1.
        columns : list of str, optional
            Modelled columns to synthesise, all of them by default; in the order of the model,
            later ones given the synthetic values of earlier ones.
        records : mask, or list of record labels, optional
            Records to synthesise, all by default.
        random_seed : int, Generator or None

        Returns
        -------
        Release

        Raises
        ------
        InputError
            m below 1 or above the number of draws; columns without a formula, unknown labels.
        ModelError
            Values too large to be drawn: a log-normal or count model that runs away.
        """
        m = at_least("m", m, 1)
        wanted = self._modelled if columns is None else columns
        names = known_columns("columns", wanted, self._modelled)
        if not names:
            raise InputError("columns names no column; name those to synthesise, or leave it out")
        if m > self.posterior.n_draws:
            raise InputError(
                f"m={m} exceeds the {self.posterior.n_draws} draws; fit with more draws"
            )
        mask = self.microdata.mask(records)
        rng = np.random.default_rng(random_seed)
        chosen = rng.choice(self.posterior.n_draws, size=m, replace=False)
        tables = [
            self._synthetic_table(int(h), names, mask, child)
            for h, child in zip(chosen, rng.spawn(m), strict=True)
        ]
        return Release(
            datasets=tables,
            synthesized=tuple(n for n in self._modelled if n in names),
            records=None if mask.all() else mask,
            draw_index=tuple(int(h) for h in chosen),
            seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
        )

    def _synthetic_table(
        self,
        h: int,
        names: Sequence[str],
        mask: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> pd.DataFrame:
        codes = self.microdata.codes.astype(float)
        for held in self.posterior.parts:
            if held.part.name not in names:
                continue
            values = held.part.draw(codes[mask], held.draws.at(h), rng)
            if not np.isfinite(values).all():
                raise ModelError(
                    f"synthetic values of {held.part.name!r} are too large to be numbers; look at "
                    "its predictors, or choose another family"
                )
            codes[mask, held.part.column] = values
        return self.microdata.decode(codes)

    def augmented(
        self,
        release: Release,
        l: int,
        *,
        rng: np.random.Generator,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> RegressionPosterior:
        """p(theta | y, Z^(l)), l = 0 .. m - 1: the release's rows stand below the table's."""
        z = self._released(release, l)
        base = self._informed(release)
        total = sum(len(p.draws) for p in base)
        tick = ticker(progress, f"release {l + 1}", total)
        parts = []
        for held, child in zip(base, rng.spawn(len(base)), strict=True):
            rows = held.part.rows(self.microdata.codes).and_also(
                held.part.rows(z, f"release {l + 1}")
            )
            parts.append(held.with_rows(rows, rng=child, tick=tick))
        return RegressionPosterior(parts=parts)

    def _released(self, release: Release, l: int) -> Codes:
        """Coded rows of data set l whose values were replaced."""
        replaced = release.replaced(len(self.microdata.codes))
        codes: Codes = release.codes(self.microdata, l)[replaced]
        for held in self._informed(release):
            held.part.check(codes, f"of release {l + 1}")
        return codes

    def without(
        self,
        record: int,
        release: Release | None,
        l: int,
        *,
        start: RegressionPosterior,
        rng: np.random.Generator,
    ) -> RegressionPosterior:
        """The posterior ``start`` again, with the confidential values of one record left out."""
        parts = []
        for held, child in zip(start.parts, rng.spawn(len(start.parts)), strict=True):
            rows = held.part.rows(self.microdata.codes).but(record)
            if release is not None:
                rows = rows.and_also(held.part.rows(self._released(release, l)))
            shorter = 1 if held.part.exact else 2
            parts.append(held.with_rows(rows, shorter=shorter, rng=child))
        return RegressionPosterior(parts=parts)

    def theta_predictive(
        self, targets: Targets, release: Release, l: int | None
    ) -> RegressionPredictive:
        """prod_j f_j(y* | theta_h) over the regressions that made the release."""
        parts = self._informed(release)
        return RegressionPredictive.of(
            [p.part for p in parts],
            [p.draws for p in parts],
            targets,
            batch=segments(parts[0].draws),
        )

    def log_release(self, release: Release) -> Array:
        """log p(Z^(l) | Theta_h), shape (m, H)."""
        parts = self._informed(release)
        out = np.zeros((release.m, self.posterior.n_draws))
        step = max(ROOM // self.posterior.n_draws, 1)
        for l in range(release.m):
            z = self._released(release, l)
            for begin in range(0, len(z), step):
                for held in parts:
                    block = z[begin : begin + step]
                    out[l] += held.part.log_density(block, held.draws).sum(axis=0)
        return out

    def __repr__(self) -> str:
        d = self.diagnostics
        return (
            f"RegressionFit: {len(self.microdata.codes):,} records, "
            f"{', '.join(self._modelled)}; {d['chains']:.0f} chains of "
            f"{d['draws']:.0f} draws"
        )


def _change(after: Array, before: Array) -> Array:
    """Difference of log predictives; an impossible guess stays impossible."""
    possible = after > -np.inf
    change: Array = np.subtract(after, before, out=np.full(after.shape, -np.inf), where=possible)
    return change


def fitted(
    model: "Regression",
    data: Microdata,
    parts: Sequence[Part],
    length: Length,
    nuts_sampler: str,
    rng: np.random.Generator,
    progress: Progress | None,
) -> RegressionFit:
    """Fit each regression."""
    sampled = [p for p in parts if not p.exact]
    steps = length.chains * (length.draws + length.tune)
    tick = ticker(progress, "fit", max(len(sampled), 1) * steps)
    held: list[PartPosterior] = []
    for part, child in zip(parts, rng.spawn(len(parts)), strict=True):
        rows = part.rows(data.codes, "the original")
        if part.exact:
            held.append(ExactPart.of(part, rows, length.draws, length.chains, child))
        else:
            nuts = Nuts(part, nuts_sampler)
            held.append(SampledPart.of(part, rows, nuts, length, rng=child, tick=tick))
    draws = [p.draws for p in held]
    return RegressionFit(
        model=model,
        microdata=data,
        idata=to_idata(parts, draws),
        posterior=RegressionPosterior(parts=held),
        diagnostics=_diagnose(held),
    )


def _diagnose(held: Sequence[PartPosterior]) -> dict[str, float]:
    """R-hat and ESS of every coefficient."""
    chains = held[0].draws.n_chains
    values = np.column_stack([v for p in held for v in flat(p.part, p.draws).values()])
    ess, rhat = ess_and_rhat(values, chains)
    return {
        "draws": len(values) // chains,
        "chains": chains,
        "max_rhat": float(np.nanmax(rhat)) if chains > 1 else float("nan"),
        "median_rhat": float(np.nanmedian(rhat)) if chains > 1 else float("nan"),
        "min_ess": float(ess.min()),
        "median_ess": float(np.median(ess)),
    }
