"""Fitted regressions in sequence: synthesis, augmented fits, and what the evidence asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError, ModelError
from bayes_risk.microdata import Codes, Microdata
from bayes_risk.release import Release
from bayes_risk.synthesizer import Progress, Targets

from .progress import ticker
from .regression_draws import BroughtDraws
from .regression_posterior import (
    ExactPart,
    HeldPart,
    RegressionPosterior,
    segments,
)
from .regression_predictive import RegressionPredictive
from .synthesis import Request, made_columns

if TYPE_CHECKING:
    from .regression import Regression

Array = npt.NDArray[np.float64]
P = TypeVar("P", bound=HeldPart)
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
    posterior : RegressionPosterior or BroughtDraws
        The draws as the engine uses them.
    diagnostics : dict
        Draws, chains, R-hat and ESS of the coefficients.
    """

    model: "Regression"
    microdata: Microdata
    idata: Any
    posterior: RegressionPosterior | BroughtDraws
    diagnostics: dict[str, float]

    @property
    def records_differ(self) -> bool:
        """Records with the same values have the same evidence."""
        return False

    def offers(self, release: Release) -> frozenset[str]:
        """Ways to the evidence of a release."""
        parts = self._made(release, self.posterior.parts)
        if isinstance(self.posterior, BroughtDraws):
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
        order = [p.part.name for p in self._held(release)]
        return (
            "the regressions, their priors and the scales of the standardised variables are known, "
            f"not the parameters; values drawn in the order {', '.join(order)}, each given those "
            "before it"
        )

    def informed(self, release: Release) -> RegressionPosterior:
        """p(theta | y) of the regressions that made the release."""
        if isinstance(self.posterior, BroughtDraws):
            raise InputError(
                "draws brought from elsewhere cannot be drawn again; they offer the evidence "
                '"reuse" alone, for the others fit the model (fit)'
            )
        return RegressionPosterior(parts=self._made(release, self.posterior.parts))

    def _held(self, release: Release) -> list[HeldPart]:
        """Draws of the regressions that made the release."""
        return self._made(release, self.posterior.parts)

    def _made(self, release: Release, parts: Sequence[P]) -> list[P]:
        """Of some parts those that made the release."""
        lacking = f"the model has no formula; it has those of {self._modelled}"
        names = made_columns(release, self.microdata, self._modelled, lacking)
        return [p for p in parts if p.part.name in names]

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
        request = Request.of(
            self.microdata,
            self._modelled,
            m,
            columns,
            records,
            n_draws=self.n_draws,
            random_seed=random_seed,
        )
        return request.release(self._table(h, request, rng) for h, rng in request.draws())

    def _table(self, h: int, request: Request, rng: np.random.Generator) -> Codes:
        """One synthetic table, in codes."""
        codes: Codes = self.microdata.codes.astype(float)
        for held in self.posterior.parts:
            if held.part.name not in request.columns:
                continue
            values = held.part.draw(codes[request.mask], held.draws.at(h), rng)
            if not np.isfinite(values).all():
                raise ModelError(
                    f"synthetic values of {held.part.name!r} are too large to be numbers; look at "
                    "its predictors, or choose another family"
                )
            codes[request.mask, held.part.column] = values
        return codes

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
        base = self.informed(release).parts
        z = self._released(release, l)
        tick = ticker(progress, f"release {l + 1}", sum(len(p.draws) for p in base))
        parts = []
        for held, child in zip(base, rng.spawn(len(base)), strict=True):
            rows = held.rows.and_also(held.part.rows(z, f"release {l + 1}"))
            parts.append(held.with_rows(rows, rng=child, tick=tick))
        return RegressionPosterior(parts=parts)

    def _released(self, release: Release, l: int) -> Codes:
        """Coded rows of data set l whose values were replaced."""
        replaced = release.replaced(len(self.microdata.codes))
        codes: Codes = release.codes(self.microdata, l)[replaced]
        for held in self._held(release):
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
        """The posterior ``start`` again, with the confidential values of one record left out.

        ``start`` has the rows of the release, if there is one.
        """
        parts = []
        for held, child in zip(start.parts, rng.spawn(len(start.parts)), strict=True):
            shorter = 1 if held.part.exact else 2
            parts.append(held.with_rows(held.rows.but(record), shorter=shorter, rng=child))
        return RegressionPosterior(parts=parts)

    def theta_predictive(
        self, targets: Targets, release: Release, l: int | None
    ) -> RegressionPredictive:
        """prod_j f_j(y* | theta_h) over the regressions that made the release."""
        held = self._held(release)
        return RegressionPredictive(
            parts=[p.part for p in held],
            draws=[p.draws for p in held],
            targets=targets,
            batch=segments(held[0].draws),
        )

    def log_release(self, release: Release) -> Array:
        """log p(Z^(l) | Theta_h), shape (m, H)."""
        parts = self._held(release)
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
