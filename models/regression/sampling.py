"""Regressions in sequence fitted to the confidential table, one after another."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import Progress
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.models.fits.progress import ticker
from bayes_risk.models.fits.sampling import Length, mixing

from .draws import flat, to_idata
from .fit import RegressionFit
from .glm import Nuts
from .part import Part
from .posterior import ExactPart, PartPosterior, RegressionPosterior, SampledPart


def fitted(
    model: Any,
    data: Microdata,
    parts: Sequence[Part],
    weights: npt.NDArray[np.float64] | None,
    length: Length,
    nuts_sampler: str,
    rng: np.random.Generator,
    progress: Progress | None,
) -> RegressionFit:
    """Fit each regression."""
    sampled = [p for p in parts if not p.exact]
    tick = ticker(progress, "fit", max(len(sampled), 1) * length.steps)
    held: list[PartPosterior] = []
    for part, child in zip(parts, rng.spawn(len(parts)), strict=True):
        rows = replace(part.rows(data.codes, "the original"), weights=weights)
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
        weights=weights,
    )


def _diagnose(held: Sequence[PartPosterior]) -> dict[str, float]:
    """R-hat and ESS of every coefficient."""
    chains = held[0].draws.n_chains
    values = np.column_stack([v for p in held for v in flat(p.part, p.draws).values()])
    ess, rhat = ess_and_rhat(values, chains)
    return {
        "draws": len(values) // chains,
        "chains": chains,
        **mixing(ess, rhat, chains),
    }
