"""Poisson mixtures for intruders who know only some of the other records.

Of an unknown record the sampler sees what the release shows: with fresh classes nothing but its
synthetic row; with classes of its own one unit, its covariates, kept counts and synthetic counts,
which share its class. The derivation stands in `docs/mixtures.md`.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bayes_risk._core.checkpoint import stage
from bayes_risk._core.errors import InputError
from bayes_risk.evidence.contract import Progress
from bayes_risk.models.fits.progress import ticker
from bayes_risk.models.mixture.categorical.state import Draws
from bayes_risk.release.parameters import check_less_known
from bayes_risk.release.release import Release

from .evidence import keeps_totals
from .posterior import CountMechanism

if TYPE_CHECKING:
    from .fit import PoissonMixtureFit
    from .imputed import PoissonImputed

Mask = npt.NDArray[np.bool_]
IMPUTED_SHARE = 4  # an imputed draw costs m and the base chains' sets of sums


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownCounts:
    """What an intruder sees before the synthetic values.

    ``seen`` (n,) records; ``first`` how the first data set was drawn; ``whole`` the draws given all
    records, from which chains given a release start.
    """

    seen: Mask
    first: CountMechanism
    whole: Draws

    @property
    def unseen(self) -> tuple[Mask, Mask]:
        """Records that are not seen, and in which counts."""
        return ~self.seen, self.first.synthesized


def offers_knowing(fit: "PoissonMixtureFit", release: Release) -> frozenset[str]:
    """Ways to the evidence of a release, for an intruder who does not know all other records.

    Raises
    ------
    InputError
        A release that keeps totals, or one that the model cannot have drawn.
    """
    if keeps_totals(fit, release):
        raise InputError(
            f"kind={fit.model.kind!r} keeps totals, and what they tell an intruder who does not "
            'know all other records is offered for those of the trade: give knows_records="second-'
            'largest" (with largest=), "all-but-two" (with other=) or "all-but-target"'
        )
    check_less_known(fit, release)
    CountMechanism.of(release, 0, fit.microdata, fit.prior, fit.columns)
    return frozenset({"predictive"} if release.m == 1 else {"imputed", "product"})


def knowing(
    fit: "PoissonMixtureFit",
    known: Mask,
    release: Release,
    *,
    rng: np.random.Generator,
    n_jobs: int,
    progress: Progress | None,
) -> "PoissonMixtureFit":
    """The same mixture given the known records, and what the release leaves of the others."""
    first = CountMechanism.of(release, 0, fit.microdata, fit.prior, fit.columns)
    base = fit.posterior
    refitted = partial(
        base.refitted,
        first.units_before(known),
        thin=base.thin,
        tune=max(base.n_sweeps // 4, 50),
        rng=rng,
        n_jobs=n_jobs,
        tick=ticker(progress, "fit to known records", base.n_draws),
    )
    found = stage("fit to known records", refitted)
    return replace(
        fit,
        units=found.units,
        draws=found.draws,
        known=KnownCounts(seen=known, first=first, whole=fit.draws),
    )


def imputed(
    fit: "PoissonMixtureFit",
    release: Release,
    *,
    rng: np.random.Generator,
    n_jobs: int,
    progress: Progress | None,
) -> "PoissonImputed":
    """p(Theta^(1..m), y_U | y_A, Z^(1..m)): a quarter of the fit's draws, half its sweeps.

    Cost of a sweep: those of m fits, and for every unknown row 16 predictives of it, classes that
    cannot matter left out.
    """
    from .imputed import PoissonImputed  # compiled only where it is needed
    from .imputed_state import CountProblem

    assert fit.known is not None
    base, whole = fit.posterior, fit.known.whole
    hows = [
        CountMechanism.of(release, l, fit.microdata, fit.prior, fit.columns)
        for l in range(release.m)
    ]
    draws = max(len(whole) // whole.n_chains // IMPUTED_SHARE, 4)
    return PoissonImputed.sampled(
        CountProblem.of(hows, fit.known.seen, fit.prior, fit.columns),
        whole,
        draws=draws,
        tune=max(base.n_sweeps // 8, 50),
        thin=max(base.n_sweeps // (2 * draws), 1),
        rng=rng,
        n_jobs=n_jobs,
        tick=ticker(progress, "unknown records", draws * whole.n_chains),
    )
