"""How a generator draws values, given how often they occur: a law, learnt from files of runs.

Of the rows of a context, k have a value in the table, and z of Z in the file. If the file's shares
are drawn from a Dirichlet distribution with parameters k + a, counts are Dirichlet-multinomial; if
they are the table's, multinomial:

    p(z | k) = Gamma(A) / Gamma(A + Z) prod Gamma(k + a + z) / Gamma(k + a),    A = sum (k + a),
    p(z | k) = prod ((k + a) / A)^z.

``a``, and which of both, are those of largest likelihood, of the counts of all contexts in the
files of some runs. One more record with a value then has the log evidence ``log1p(z / (k + a))``,
or ``z log1p(1 / (k + a))``.

A value may also be a copy of the record's own, with some noise. If c are the odds of a copy, and
its value is r times as likely as among the others, the log evidence is ``log1p(c r)``.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from bayes_risk._core.arrays import Array, Ints

ADDED = np.geomspace(1e-3, 30.0, 100)
ODDS = np.geomspace(1e-3, 1e3, 31)


class Law(NamedTuple):
    """``added`` to the counts of a table; whether shares are ``drawn``, or those of the counts."""

    added: float
    drawn: bool

    def evidence(self, k: Array, z: Array) -> Array:
        """Of one record more, from counts k (...) and those of files z (m, ...)."""
        k = k + self.added
        each = np.log1p(z / k) if self.drawn else z * np.log1p(1.0 / k)
        return np.asarray(each.sum(axis=0))


class Tallies(NamedTuple):
    """Of the table and of a file: of values in their contexts (2, C), of contexts (2, D).

    ``levels``: the number of values.
    """

    values: Ints
    contexts: Ints
    levels: int


def likeliest_law(each: list[Tallies]) -> tuple[Law, float]:
    """Under which counts of files are likeliest, given those of tables; their log likelihood."""
    values, contexts = (np.concatenate([c[part] for c in each], axis=1) for part in (0, 1))
    levels = np.repeat([c.levels for c in each], [c.contexts.shape[1] for c in each])
    log_p = np.zeros((2, len(ADDED)))
    for (k, z), added, sign in ((values, np.ones(values.shape[1]), 1), (contexts, levels, -1)):
        found, often = np.unique(np.stack([k, z, added]), axis=1, return_counts=True)
        A = found[0, :, None] + found[2, :, None] * ADDED
        z = found[1, :, None]
        log_p[0] += sign * often @ (z * np.log(A))
        log_p[1] += sign * often @ (gammaln(A + z) - gammaln(A))
    drawn, at = np.unravel_index(log_p.argmax(), log_p.shape)
    return Law(float(ADDED[at]), bool(drawn)), float(log_p.max())


def likeliest_odds(ratio: Array) -> tuple[float, float]:
    """Largest log likelihood, and the odds of copies that have it.

    ``ratio`` (N,): how much likelier each row's value is, were it a copy.
    """
    log_p = np.log1p(np.outer(ODDS, ratio)).sum(axis=1) - len(ratio) * np.log1p(ODDS)
    return float(log_p.max()), float(ODDS[log_p.argmax()])
