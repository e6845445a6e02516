"""Chains that the release leads to the mode that made it, carried on to y and to each (y, Z^(l)).

A chain starts with everybody in one class on the table and all data sets of a release, stacked: so
many records are settled by split and merge moves in the mode that made them (where columns stay: on
the table alone, and the release chooses among the chains). From where it stops, one chain goes on
given y alone and one given y and each data set, so that both predictives of the evidence come from
one mode. The derivation stands in `docs/modes.md`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk.evidence.contract import Progress
from bayes_risk.models.fits.progress import ticker
from bayes_risk.release.release import EncodedRelease

from .mechanism import Mechanism
from .posterior import MixturePosterior
from .sampler import initial_state, run_chains

COLD, WARM = 10, 3  # proposals to split or merge in a sweep, before and after the mode is found
CHAINS = 3  # at least: of two that differ nobody knows which has strayed
SHORTEST = 50  # sweeps


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How long led chains run.

    ``chains`` cold ones sweep ``find`` times to find a mode, ``settle`` times on y alone, and keep
    ``short`` draws, by which they are observed apart; those that are carried on keep ``draws``
    each, ``thin`` sweeps apart.
    """

    chains: int
    find: int
    settle: int
    short: int
    draws: int
    thin: int

    @classmethod
    def of(cls, posterior: MixturePosterior, moves: bool = True) -> "Lengths":
        """In proportion to a posterior's own chains: twice as many, each with half the draws.

        Errors are between chains, and many short ones tell them better than a few long ones. Where
        classes are split and merged (``moves``) draws may stand half as far apart (docs/modes.md).
        """
        sweeps, draws = posterior.n_sweeps, posterior.n_draws // posterior.n_chains
        return cls(
            chains=2 * max(posterior.n_chains, CHAINS),
            find=max(sweeps // 4, SHORTEST),
            settle=max(sweeps // 20, SHORTEST),
            short=max(draws // 4, 4),
            draws=max(draws // 2, 4),
            thin=max(posterior.thin // 2, 1) if moves else posterior.thin,
        )


def led_by(
    base: MixturePosterior,
    release: EncodedRelease,
    weights: npt.NDArray[np.float64] | None,
    *,
    rng: np.random.Generator,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> tuple[MixturePosterior, Lengths]:
    """Draws given y of starts that a release has led to its mode.

    All data sets are stacked below y as if their rows were other people's; where columns stay they
    are not, for the values that stay would count m + 1 times and lead elsewhere: then the starts
    go on y alone, and the release chooses among them. This finds modes, and no number comes from
    it.
    """
    hows = [Mechanism.of(release, l, base.columns, base.prior) for l in range(release.m)]
    rows, whole = hows[0].y, bool(hows[0].synthesized.all())
    steps = Lengths.of(base, moves=whole)
    if whole:
        rows = rows.below(*(how.z.take(how.replaced) for how in hows))
    more = np.ones(len(rows.positions) - len(hows[0].replaced))
    stacked = rows.units(power=None if weights is None else np.append(weights, more))
    begin, find, settle = rng.spawn(3)
    cold = replace(base.prior, splits=COLD, zeros=None)
    starts = [initial_state(cold, stacked, child) for child in begin.spawn(steps.chains)]
    tick = ticker(progress, "starts led by the release", steps.chains * (1 + steps.short))
    how: Any = {"n_jobs": n_jobs, "tick": tick}
    found = run_chains(cold, stacked, starts, draws=1, tune=steps.find, thin=1, rng=find, **how)
    warm = replace(base.prior, splits=max(base.prior.splits, WARM))
    led = replace(base, prior=warm, draws=found)
    run: Any = {"thin": steps.thin, "tune": steps.settle, "n_draws": steps.short, "rng": settle}
    return led.refitted(base.units, **run, **how), steps


def carried_on(
    led: MixturePosterior,
    which: npt.NDArray[np.int64],
    steps: Lengths,
    *,
    rng: np.random.Generator,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> MixturePosterior:
    """Some of these chains, each with its full number of draws."""
    chosen = led.of_chains(which)
    tick = ticker(progress, "base fit in the mode", steps.draws * len(which))
    run: Any = {"thin": led.thin, "tune": 0, "n_draws": steps.draws, "rng": rng}
    return chosen.refitted(chosen.units, n_jobs=n_jobs, tick=tick, **run)
