"""Three records of two binary variables, and what two latent classes say of them: sums over labels.

The sums share nothing with the library, which only makes tables, releases and fits here.
"""

from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import logsumexp

import bayes_risk as br
from tests.helpers.against import each
from tests.oracles.label_sums import exact_log_evidence, log_marginal, row

PRIOR = {"concentration": (0.5, 0.5), "level_prior": 1.0}
Y = np.array([[0, 0], [0, 1], [1, 1]])
Z1 = np.array([[1, 1], [0, 0], [1, 1]])
Z2 = np.array([[0, 0], [0, 0], [1, 0]])
CELLS = list(product((0, 1), repeat=2))
GUESSES = {i: [(a, b), (1 - a, b), (a, 1 - b), (1 - a, 1 - b)] for i, (a, b) in enumerate(Y)}


def table(codes, columns=("x0", "x1", "x2"), levels=("a", "b")):
    """Categories of coded rows, by the numbers of the rows."""
    coded = zip(columns, np.asarray(codes).T, strict=False)
    return pd.DataFrame({c: pd.Categorical.from_codes(v, list(levels)) for c, v in coded})


def partly(Z, columns):
    """Y with some columns of Z."""
    out = Y.copy()
    out[:, columns] = Z[:, columns]
    return out


def released(Zs, columns=(0, 1), **how):
    return br.Release(
        datasets=[table(Z) for Z in Zs], synthesized=[f"x{j}" for j in columns], **how
    )


def fitted(n_classes=2, y=Y, **length):
    model = br.models.DPMPM(n_classes=n_classes, concentration_prior=(0.5, 0.5))
    length = {"draws": 1500, "tune": 200, "chains": 4, "thin": 10, "random_seed": 5} | length
    return model.fit(table(y), **length)


def whole(i, guess, columns):
    """A guess of some columns of record i, and its own values of the others."""
    out = Y[i].copy()
    out[list(columns)] = guess
    return out


def of_cells(tables, columns=(0, 1)):
    """An oracle that looks guesses up: ``tables[i]`` in the order of `GUESSES`."""
    return each(lambda i, guess: tables[i][GUESSES[i].index(tuple(whole(i, guess, columns)))])


def log_evidence(Zs, i, guess, columns=(0, 1), own=False):
    """log p(Z^(1..m) | y_i = guess, y_-i) of independent data sets."""
    columns, args = list(columns), (whole(i, guess, columns), 2, (2, 2))
    return sum(exact_log_evidence(Y, Z, i, *args, own=own, columns=columns, **PRIOR) for Z in Zs)


@cache
def _before(i, cell):
    """log p(cell | y_-i)."""
    known = [row(r) for r in np.delete(Y, i, axis=0)]
    return log_marginal([*known, row(cell)], 2, (2, 2), **PRIOR) - log_marginal(
        known, 2, (2, 2), **PRIOR
    )


def log_bayes_factors(Zs, i, own=False):
    """Of each cell: that it is in the place of record i, against another person."""
    logs = {cell: log_evidence(Zs, i, cell, own=own) for cell in CELLS}
    somebody = logsumexp([_before(i, cell) + log for cell, log in logs.items()])
    return {cell: log - somebody for cell, log in logs.items()}


def memberships(Zs, own=False):
    """Log Bayes factors of the members, and the mean of each cell's over their places."""
    each = [log_bayes_factors(Zs, i, own) for i in range(3)]
    members = [of[tuple(y)] for of, y in zip(each, Y.tolist(), strict=True)]
    return np.array(members + [np.mean([of[cell] for of in each]) for cell in CELLS])
