"""The confidential table with a guess in the place of a target's own values."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bayes_risk._core.arrays import Array
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.evidence.contract import Progress, Targets


def with_guess(codes: Codes, targets: Targets, g: int, u: int) -> Codes:
    """Coded rows of all records (n, ...), guess g in the place of target u."""
    out = codes.copy()
    out[targets.record[u], targets.columns] = targets.guesses.codes[g, u]
    return out


def log_p_of_guesses(
    microdata: Microdata,
    targets: Targets,
    m: int,
    log_p: Callable[[Microdata], Array],
    progress: Progress | None,
) -> Array:
    """log p(Z^(l) | y) of the table under each guess, shape (m, G, U).

    ``log_p`` fits a table anew and returns what it makes of the m data sets, shape (m,). U x G
    fits.
    """
    out = np.empty((m, *targets.guesses.codes.shape[:2]))
    for u in range(len(targets)):
        for g in range(out.shape[1]):
            codes = with_guess(microdata.codes, targets, g, u)
            out[:, g, u] = log_p(replace(microdata, codes=codes))
        if progress is not None:
            progress("refits", u + 1, len(targets))
    return out
