"""How long chains run that a release leads to the mode that made it."""

from dataclasses import dataclass
from math import ceil
from typing import Any

from bayes_risk.evidence.modes import QUARTERS

COLD, WARM = 10, 3  # proposals to split or merge in a sweep, before and after the mode is found
CHAINS = 3  # at least: of two that differ nobody knows which has strayed
SCORED = 24  # draws of a chain, about, that tell which mode it is in
SHORTEST = 50  # sweeps
FOUND_ON = 100_000  # rows of a larger stack that a mode is found on, before all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How long led chains run.

    ``chains`` cold ones sweep ``find`` times to find a mode, ``settle`` times on y alone, and keep
    ``short`` draws, by which they are observed apart; those that are carried on keep ``draws``
    each, ``thin`` sweeps apart, and ``augmented`` ones on y and a data set.
    """

    chains: int
    find: int
    settle: int
    short: int
    draws: int
    augmented: int
    thin: int

    @classmethod
    def of(cls, posterior: Any, m: int = 1, moves: bool = True) -> "Lengths":
        """In proportion to a posterior's own chains: twice as many, each with half the draws.

        Errors are between chains, and many short ones (of four quarters) tell them best. Where
        classes are split and merged (``moves``) draws may stand half as far apart (docs/modes.md).
        The error of the fit to y counts m times. n_0 draws on y and n_1 on each data set err by
        m^2 / n_0 + m / n_1, at given n_0 + m n_1 least where n_0 = m n_1: n_1 = 2 n / (m + 1) errs
        as n on each, with 2 m n / (m + 1) on y.
        """
        sweeps, draws = posterior.n_sweeps, posterior.n_draws // posterior.n_chains
        size = QUARTERS * ceil(draws / (2 * QUARTERS))
        return cls(
            chains=2 * max(posterior.n_chains, CHAINS),
            find=max(sweeps // 4, SHORTEST),
            settle=max(sweeps // 20, SHORTEST),
            short=max(draws // 4, 4),
            draws=size,
            augmented=min(max(2 * size // (m + 1), size // 3, 4), size),
            thin=max(posterior.thin // 2, 1) if moves else posterior.thin,
        )

    def starts(self, made: bool) -> tuple[int, int]:
        """How many are cold and how many draws of the fit, whether it made the release or not.

        Of large tables no cold one may find the mode, and draws beside those that made the release
        are in it. Cold ones find others, between which the release may not choose.
        """
        return (self.chains // 2, self.chains) if made else (self.chains, 0)


def warm_up(sweeps: int) -> int:
    """Sweeps on y and a data set before draws are kept, of chains that ran so many on y."""
    return max(sweeps // 4, SHORTEST)


def without(draws: int, thin: int, sweeps: int) -> dict[str, int]:
    """How chains of so many draws, so many sweeps apart and in all, go on without a record."""
    size = max(draws // 2, 4)
    return {"n_draws": size, "thin": max(thin // 8, 1), "tune": max(sweeps // 100, 100)}
