"""A prior read off the released files themselves: their margins, or the guessed values together.

It uses the release twice, as prior and as evidence, and overrates what the release says. Intruders
do it nonetheless.
"""

from math import prod

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.intruder.grid_cells import edges
from bayes_risk.release.release import EncodedRelease

from .contract import Targets

Array = npt.NDArray[np.float64]


def from_release(
    release: EncodedRelease | None, microdata: Microdata, cases: Targets, *, joint: bool = False
) -> Array:
    """Log weights of the guesses, not normalised, shape (G, U).

    Margins: ``prod_j (c_j(y*_j) / m + 1) / (n + d_j)``, with ``c_j`` counted over the m files; of
    numbers the count in the cell of the grid around the guess. Joint: ``c(y*) / m`` plus that
    product, which weighs as much as one record.

    Raises
    ------
    InputError
        No release; numbers of which all released values lie outside the grid, or that are to be
        counted jointly.
    """
    if release is None:
        raise InputError('prior="release" needs the release: use it with attribute_risk')
    z = release.codes[:, :, cases.columns]  # shape (m, n, q)
    raw = np.zeros(cases.guesses.codes.shape[:2])
    for q, j in enumerate(cases.columns):
        name = microdata.columns[j]
        if name in microdata.numbers:
            raw += _of_number(name, z[:, :, q], cases, q)
        else:
            raw += _of_category(z[:, :, q], int(microdata.n_levels[j]), cases, q)
    return raw if not joint else np.log(np.exp(raw) + _together(z, microdata, cases))


def _of_category(z: Codes, d: int, cases: Targets, q: int) -> Array:
    m, n = z.shape
    counts = np.bincount(z.ravel().astype(np.int64), minlength=d) / m
    logs = np.log((counts + 1.0) / (n + d))
    found: Array = logs[cases.guesses.codes[:, :, q].astype(np.int64)]
    return found


def _of_number(name: str, z: Codes, cases: Targets, q: int) -> Array:
    """Released values by cell of each target's grid."""
    m, guesses = len(z), cases.guesses
    values, shown = guesses.codes[:, :, q].astype(float), np.sort(z.ravel().astype(float))
    out = np.zeros(values.shape)
    for u in range(values.shape[1]):
        kept = guesses.counted[:, u]
        line, where = np.unique(values[kept, u], return_inverse=True)
        if len(line) < 2:
            continue
        below = np.searchsorted(shown, edges(line))
        if below[0] == below[-1]:
            raise InputError(
                f'prior="release": no released value of {name!r} lies in the grid of some target; '
                "give a wider grid, or a Density"
            )
        out[kept, u] = np.log(np.diff(below) / m + 1.0)[where]
    return out


def _together(z: Codes, microdata: Microdata, cases: Targets) -> Array:
    """How many records of a released file show all the guessed values, on average; (G, U)."""
    numbers = [microdata.columns[j] for j in cases.columns if not microdata.n_levels[j]]
    if numbers:
        raise InputError(
            f'prior="release-joint" counts categories, and {numbers[0]!r} is a number; give '
            '"release", or a Density'
        )
    guessed = cases.guesses.codes
    d = [int(microdata.n_levels[j]) for j in cases.columns]
    cell = _numbered(np.concatenate([z.reshape(-1, len(d)), guessed.reshape(-1, len(d))]), d)
    shown = z.shape[0] * z.shape[1]
    counts = np.bincount(cell[:shown], minlength=int(cell.max()) + 1)
    found: npt.NDArray[np.int64] = counts[cell[shown:]]
    return found.reshape(guessed.shape[:2]) / len(z)


def _numbered(rows: Codes, d: list[int]) -> npt.NDArray[np.int64]:
    """The distinct rows (R, q) of codes below d, numbered; shape (R,)."""
    rows = rows.astype(np.int64)
    if prod(d) < 2**62:
        rows = np.ravel_multi_index(tuple(rows.T), tuple(d))
    _, number = np.unique(rows, axis=0, return_inverse=True)
    return number.reshape(-1).astype(np.int64)
