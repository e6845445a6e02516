"""Intruders who know all records but two, and the sum of these two.

A guess for the target fixes the other's value, so that the evidence is that of a pair:
``p(y*, T - y* | known, Z) / p(y*, T - y* | known)``. Derivations stand in `docs/business.md`.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bayes_risk._core.logspace import change, log_sum
from bayes_risk.models.mixture.columns import Rows

from .class_posterior import ClassPosterior, binomial_masses, count_masses, log_of_others
from .totals import TAIL

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pair:
    """Target and other: what is guessed of both, and what is known of each.

    Attributes
    ----------
    columns : ndarray of int, shape (q,)
        The guessed counts.
    guesses : ndarray, shape (G, q)
        Of the target.
    totals : ndarray, shape (q,)
        What the two have together.
    exposure : ndarray, shape (2, p)
    first, second : Rows
        One row each: what is known of the target and of the other, their own synthetic values
        included where they are tied to them.
    """

    columns: Ints
    guesses: Array
    totals: Array
    exposure: Array
    first: Rows
    second: Rows

    def of(self, columns: Mask) -> "Pair":
        """The same with some of the guessed counts (q,) alone."""
        return replace(
            self,
            columns=self.columns[columns],
            guesses=self.guesses[:, columns],
            totals=self.totals[columns],
        )


def pair_masses(learnt: ClassPosterior, pair: Pair) -> Array:
    """log p_h(y*, T - y*, what is known of both), shape (H, G), rates integrated out.

    sum over k, l of pi_k pi_l p(y* | k) p(T - y* | l), and where k = l, one after the other.
    """
    with np.errstate(divide="ignore"):
        log_pi = np.log(learnt.draws.pi)
    log_first = log_pi + learnt.log_known(pair.first)
    log_second = log_pi + learnt.log_known(pair.second)
    log_same = log_first + log_pi + learnt.log_known(pair.second, pair.first)
    rates = [
        [learnt.rate(j, *rows) for rows in ([pair.first], [pair.second], [pair.first, pair.second])]
        for j in pair.columns.tolist()
    ]
    out = np.empty((len(log_pi), len(pair.guesses)))
    for h in range(len(out)):
        first, second, same = log_first[h], log_second[h], log_same[h]
        for q, j in enumerate(pair.columns.tolist()):
            y, z = pair.guesses[:, [q]], pair.totals[q] - pair.guesses[:, [q]]
            e, f = pair.exposure[0, j], pair.exposure[1, j]
            (A, B), (C, D), (E, F) = ((x[h], rate[h]) for x, rate in rates[q])
            first = first + count_masses(y, A, B, e, 0.0)
            second = second + count_masses(z, C, D, f, 0.0)
            same = same + count_masses(y, E, F, e, 0.0)
            same = same + count_masses(z, E + np.maximum(y, 0), F + e, f, 0.0)
        apart = log_sum(first + log_of_others(second), axis=1)
        out[h] = np.logaddexp(apart, log_sum(same, axis=1))
    return out


def together(groups: Ints) -> Mask:
    """In which columns two records share a component, given their groups (2, q)."""
    shared: Mask = (groups[0] == groups[1]) & (groups[0] != TAIL)
    return shared


def dealt_to_pair(groups: Ints, threshold: Array, pair: Pair, truth: Array, before: Array) -> Array:
    """log evidence (G,) of a release whose groups are known.

    Two groups: their totals less the known values are the two values. One component: given their
    sum the two are binomial; ``before`` (G,) is log p(y*, T - y* | known) of those columns. The
    collapsed tail: both lie above the ``threshold`` (q,).

    Parameters
    ----------
    groups : ndarray of int, shape (2, q)
    truth : ndarray, shape (q,)
    """
    y, z, same = pair.guesses, pair.totals - pair.guesses, groups[0] == groups[1]
    above = (y > threshold) & (z > threshold)
    possible = np.where(same & (groups[0] == TAIL), above, (y >= 0) & (z >= 0))
    possible &= same | (y == truth)
    e, f = pair.exposure[0, pair.columns], pair.exposure[1, pair.columns]
    halves = binomial_masses(np.clip(y, 0, pair.totals), pair.totals, e / (e + f))
    split = np.where(together(groups), halves, 0.0).sum(axis=1)
    return change(np.where(possible.all(axis=1), split, -np.inf), before)
