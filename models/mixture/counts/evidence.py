"""Evidence of releases of a Poisson mixture, for an intruder who knows all records but one.

Releases drawn from the mixture (MP) have posteriors, from which the engine computes the evidence.
Releases that keep totals (MM, TCMM) need none: the total less the values of all others is the
target's value, so every other guess is impossible.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError
from bayes_risk.evidence.contract import Predictive, Progress, Targets
from bayes_risk.models.fits.progress import ticker
from bayes_risk.release.release import Release

from .posterior import CountMechanism, PoissonPosterior, at_theta
from .units import log_masses, units_of
from .weighted import theta_weighted

if TYPE_CHECKING:
    from .fit import PoissonMixtureFit

Array = npt.NDArray[np.float64]


def keeps_totals(fit: "PoissonMixtureFit", release: Release) -> bool:
    """Whether the release shows the confidential total of every synthesised column."""
    return fit.model.kind != "MP" or release.groups is not None


def offers(fit: "PoissonMixtureFit", release: Release) -> frozenset[str]:
    """Ways to the evidence of a release."""
    if keeps_totals(fit, release):
        return frozenset({"exact"})
    return frozenset({"predictive", "refit", "reuse"})


def direct(
    fit: "PoissonMixtureFit", evidence: str, release: Release, targets: Targets, **how: Any
) -> Array | None:
    """Log evidence (m, G, U) of releases that keep totals: 0 for the truth, else -infinity.

    None for a release by MP.

    Raises
    ------
    InputError
        A release whose totals are not the confidential ones.
    """
    if not keeps_totals(fit, release):
        return None
    _check_totals(fit, release)
    own = targets.profiles[:, targets.columns]  # shape (U, q)
    same = (targets.guesses.codes == own[None]).all(axis=2)  # shape (G, U)
    log_p = np.where(same, 0.0, -np.inf)
    return np.repeat(log_p[None], len(release.by_draw), axis=0)


def augmented(
    fit: "PoissonMixtureFit",
    release: Release,
    l: int,
    *,
    rng: np.random.Generator,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> PoissonPosterior:
    """p(Theta | y, Z^(l)), all data sets of draw l, with as many draws as the fit has."""
    how, base = _mechanism_of_draw(fit, release, l), fit.posterior
    start, seen = base, None
    if fit.known is not None:
        start, seen = replace(base, draws=fit.known.whole), fit.known.seen
    return start.refitted(
        how.units(seen=seen),
        thin=base.thin,
        tune=max(base.n_sweeps // 4, 50),
        rng=rng,
        n_jobs=n_jobs,
        linked=how.linked,
        tick=ticker(progress, f"release {l + 1}", base.n_draws),
    )


def without(
    fit: "PoissonMixtureFit",
    record: int,
    release: Release | None,
    l: int,
    *,
    start: PoissonPosterior,
    rng: np.random.Generator,
) -> PoissonPosterior:
    """The posterior ``start`` again, with the confidential values of one record left out."""
    n_draws = max(start.n_draws // start.draws.n_chains // 4, 4)
    thin, tune = max(start.thin // 8, 1), max(start.n_sweeps // 100, 100)
    seen = None if fit.known is None else fit.known.seen
    if release is None:
        units = fit.columns.units_of(
            fit.microdata.codes, fit.prior, left_out=record, power=fit.weights
        )
        if fit.known is not None:
            units = fit.known.first.units_before(fit.known.seen, left_out=record)
        return start.refitted(units, thin=thin, tune=tune, n_draws=n_draws, rng=rng)
    how = _mechanism_of_draw(fit, release, l)
    return start.refitted(
        how.units(left_out=record, seen=seen),
        thin=thin,
        tune=tune,
        n_draws=n_draws,
        rng=rng,
        linked=how.linked,
    )


def theta_predictive(
    fit: "PoissonMixtureFit", targets: Targets, release: Release, l: int | None
) -> Predictive:
    """p(y* | Theta_h) itself; with l, jointly with the record's own synthetic counts if linked."""
    if fit.weights is not None:
        return theta_weighted(fit.prior, fit.columns, fit.draws, targets)
    linked = None if l is None else _mechanism(fit, release, l).linked
    return at_theta(fit.prior, fit.columns, fit.draws, targets, linked)


def log_release(fit: "PoissonMixtureFit", release: Release) -> Array:
    """log p(Z^(l) | Theta_h), given y too where classes are its own, shape (m, H).

    Up to a constant for each l: how sums y_i + z_i split in two says nothing of Theta.
    """
    return np.stack([_log_table(fit, _mechanism(fit, release, l)) for l in range(release.m)])


def _log_table(fit: "PoissonMixtureFit", how: CountMechanism) -> Array:
    """log p(Z | Theta_h) of one data set, shape (H,)."""
    if how.own:
        both = log_masses(how.units(), fit.draws, fit.prior) @ how.units().multiplicity
        alone: Array = log_masses(fit.units, fit.draws, fit.prior) @ fit.units.multiplicity
        return both - alone
    some = how.replaced
    units = units_of(how.z[some], how.exposure[some], how.positions[some])
    total: Array = log_masses(units, fit.draws, fit.prior) @ units.multiplicity
    return total


def _mechanism(fit: "PoissonMixtureFit", release: Release, l: int) -> CountMechanism:
    return CountMechanism.of(release, l, fit.microdata, fit.prior, fit.columns, fit.weights)


def _mechanism_of_draw(fit: "PoissonMixtureFit", release: Release, l: int) -> CountMechanism:
    how = fit.microdata, fit.prior, fit.columns, fit.weights
    return CountMechanism.of_draw(release, l, *how)


def _check_totals(fit: "PoissonMixtureFit", release: Release) -> None:
    """Whether every synthesised column adds up to its confidential total."""
    data = fit.microdata
    where = [data.columns.index(c) for c in release.synthesized]
    total = data.codes[:, where].sum(axis=0)
    for l in range(release.m):
        found = release.codes(data, l)[:, where].sum(axis=0)
        if (found != total).any():
            j = int(np.argmax(found != total))
            raise InputError(
                f"column {release.synthesized[j]!r} of release {l + 1} adds up to {found[j]:.0f} "
                f"and the original to {total[j]:.0f}; kind={fit.model.kind!r} keeps totals: audit "
                'with kind="MP" a release that does not'
            )
