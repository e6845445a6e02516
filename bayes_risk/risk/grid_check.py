"""Grids of numbers beside the model's predictive: which guesses are plausible, and whether they do.

All from the predictive density at the guesses, each number by itself, up to a constant. A guess is
plausible if its density is at least that of the truth, or that at the ends of the central 99.9 % of
a normal predictive.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.logspace import log_sum
from bayes_risk.data.microdata import Number, Variable
from bayes_risk.intruder.guesses import GuessSet, cells, edges

PLAUSIBLE = 0.5 * 3.2905**2  # log of peak over density there, under a normal predictive
CORE = np.log(2.0)  # an end where the density is more than half the peak cuts the predictive
FEWEST = 2.2  # effective number of guesses: steps of more than 1.6 standard deviations


class GridCheck(NamedTuple):
    """``plausible`` (G, U) guesses; cases (U,) whose grid ends within the predictive's half-width.

    ``cut``: at one end, or ``inside`` it at both; ``coarse``: with steps that are wide beside it.
    ``log_widths`` (G, U) of the cells of guesses, where steps are uneven, else 0.
    """

    plausible: Flags
    cut: Flags
    inside: Flags
    coarse: Flags
    log_widths: Array


def grid_check(
    base: Array, guesses: GuessSet, variables: Sequence[Variable | Number]
) -> GridCheck | None:
    """Of the numbers among the guessed variables, given log p(y* | y_A) (G, U); None: no number.

    Point masses are plausible, and no cells of a density.
    """
    numbers = [(q, v) for q, v in enumerate(variables) if isinstance(v, Number)]
    if not numbers:
        return None
    G, U = base.shape
    log_widths = guesses.log_widths
    log_mass = base + log_widths
    plausible = np.ones((G, U), dtype=bool)
    cut, inside, coarse = np.zeros((3, U), dtype=bool)
    for u in range(U):
        for q, variable in numbers:
            kept = guesses.counted[:, u] & (guesses.codes[:, u, q] != variable.missing)
            ends, of_all = guesses.codes[kept, u, q], log_sum(log_mass[kept, u])
            if q in guesses.masses:
                kept &= ~np.isin(guesses.codes[:, u, q], guesses.masses[q].values)
            line, where = np.unique(guesses.codes[kept, u, q].astype(float), return_inverse=True)
            if len(line) < 2:
                continue
            log_p = np.full(len(line), -np.inf)
            np.logaddexp.at(log_p, where, log_mass[kept, u])
            if uneven := q in guesses.lines:
                log_p -= np.log(cells(line))
            own = (line == guesses.codes[guesses.truth[u], u, q]) & kept[guesses.truth[u]]
            if not np.isfinite(log_p).any():
                continue
            below = log_p.max() - log_p
            plausible[kept, u] &= (below <= below[own].max(initial=PLAUSIBLE))[where]
            if not own.any():  # the truth has a probability of its own
                continue
            # quantiles leave out the same share of it, however large the density is there
            low, high = (below[[0, -1]] < CORE) & (q not in guesses.complete)
            low &= variable.lowest < line[0] <= ends.min()
            high &= line[-1] >= ends.max()
            cut[u] |= low or high
            inside[u] |= low and high
            least = np.inf if uneven or len(line) <= 3 else np.abs(line - line[own])[~own].min()
            if least < 0.5 * np.median(np.diff(line)):
                line, log_p = line[~own], log_p[~own]  # the truth was added to a coarser grid
            weights = log_p + np.log(cells(line) if uneven else np.diff(edges(line)))
            share = np.exp(weights - log_sum(weights) + log_sum(log_mass[kept, u]) - of_all)
            finest = variable.whole and np.diff(line).min() <= 1
            coarse[u] |= bool(1.0 / (share**2).sum() < FEWEST) and not finest
    return GridCheck(plausible, cut, inside, coarse, log_widths)


def over_plausible(risk: Any) -> Any:
    """The result under a flat prior over the plausible values alone, by Bayes' rule."""
    if risk.grid is None:
        return risk
    weight = np.where(risk.grid.plausible, risk.grid.log_widths, -np.inf)
    if not weight.any():
        return risk
    left = {name: getattr(risk, name) + weight for name in ("log_prior", "log_probability")}
    mass = {name: log_sum(log_p) for name, log_p in left.items()}
    own = np.exp(weight[risk.truth, np.arange(weight.shape[1])] - mass["log_probability"])
    return replace(
        risk,
        mcse=np.minimum(risk.mcse * own, 1.0),
        **{name: log_p - mass[name] for name, log_p in left.items()},
    )
