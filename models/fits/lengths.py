"""How long chains run that a release leads to the mode that made it, and what that costs."""

from dataclasses import dataclass
from math import ceil, log2
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.progress import Steps
from bayes_risk.evidence.modes import QUARTERS
from bayes_risk.release.release import EncodedRelease

COLD, WARM = 10, 3  # proposals to split or merge in a sweep, before and after the mode is found
CHAINS = 3  # at least: of two that differ nobody knows which has strayed
SCORED = 24  # draws of a chain, about, that tell which mode it is in
SHORTEST = 50  # sweeps
FOUND_ON = 100_000  # rows of a larger stack that a mode is found on, before all of them
MOVED = 0.01  # labels of distinct rows that a proposal costs for each individual, about;
LARGE = 1.5  # times that where classes are few and large, as before the mode is found
READ = 4  # and the guesses of a target in a draw


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


class Table(NamedTuple):
    """A confidential table: its rows, how many are distinct, and how many of every other one."""

    rows: int
    distinct: int
    half: int

    @classmethod
    def of(cls, units: Any) -> "Table":
        """The table that a posterior has seen."""
        some = len(np.unique(units.unit[::2]))
        return cls(int(units.multiplicity.sum()), len(units.multiplicity), some)

    def sweep(self, tables: float, moves: float) -> float:
        """Cost of a sweep of so many tables, one below the other.

        Distinct rows are taken to become more with each doubling as they did with the last.
        """
        distinct = self.distinct * (self.distinct / self.half) ** log2(tables)
        return float(distinct + MOVED * moves * self.rows * tables)


def warm_up(sweeps: int) -> int:
    """Sweeps on y and a data set before draws are kept, of chains that ran so many on y."""
    return max(sweeps // 4, SHORTEST)


def without(draws: int, thin: int, sweeps: int) -> dict[str, int]:
    """How chains of so many draws, so many sweeps apart and in all, go on without a record."""
    size = max(draws // 2, 4)
    return {"n_draws": size, "thin": max(thin // 8, 1), "tune": max(sweeps // 100, 100)}


def costs(posterior: Any, release: EncodedRelease, m: int, cases: int, chains: int) -> Steps:
    """What the steps of an audit cost, in labels of distinct rows drawn, about.

    By the names they are told by: of one unit of progress, and how many of these one round of
    starts, so many chains that are carried on, and one refit make. The fit, whose ``posterior`` is
    given, is without its warm-up.
    """
    table, splits = Table.of(posterior.units), posterior.prior.splits
    draws = 1 if len(release.by_draw) < release.m else m
    whole = bool(release.columns[posterior.columns.order].all())
    to = Lengths.of(posterior, draws, whole)
    released = m * float(release.rows.sum()) / table.rows
    moves = 0 if posterior.prior.zeros is not None else max(splits, WARM)
    alone = table.sweep(1, moves)
    seen = table.sweep(1 + released / draws, moves if whole else 0)

    rounds = 2 ** ceil(log2(draws))
    kept = -(-2 * draws * to.draws // ((draws + 1) * rounds))
    thin = to.thin * (to.draws // kept)
    score = SCORED * (1 + released) * table.distinct
    stacked = 1 + released if whole else 1.0
    share = min(FOUND_ON / (table.rows * stacked), 1.0)
    cold = (to.find + 1) * table.sweep(stacked * share, LARGE * COLD)
    cold += (to.find // 8) * table.sweep(stacked, moves) if share < 1 else 0
    n_cold, n_made = to.starts(release.source.maker is not None)
    own = (to.settle + to.short * to.thin) * alone + score
    units = n_cold * to.find + (n_cold + n_made) * to.short
    start = (n_cold * cold + (n_cold + n_made) * own) / units
    base = to.thin * alone + score / to.draws
    augmented = (warm_up(to.thin * to.draws) + to.augmented * to.thin) * seen
    read = (kept * rounds + draws * to.augmented) * (table.distinct + READ * cases)
    refit = sum(
        number * (how["tune"] + how["n_draws"] * how["thin"]) * table.sweep(tables, 0)
        for number, how, tables in (
            (1, without(to.draws, thin, thin * kept * rounds), 1),
            (draws, without(to.draws, to.thin, to.thin * to.augmented), 1 + released / draws),
        )
    )
    return {
        "fit": (table.sweep(1, splits), posterior.n_chains * posterior.n_sweeps),
        "starts led by the release": (start, units),
        "base fit in the mode": (base, chains * to.draws),
        "base fit": (base, chains * to.draws * (rounds - 1)),
        "evidence": (chains * read / (draws + 1), draws + 1),
        **{
            f"release {l + 1}": (augmented / to.augmented, chains * to.augmented)
            for l in range(draws)
        },
        "refits": (chains * refit, 1),
    }
