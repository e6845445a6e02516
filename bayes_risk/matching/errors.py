"""Standard errors of an identification risk: between releases, and of tables drawn given them.

``release_of``, shape (m,), says of each table which release it was drawn given (0: none, the
parameters were known); None: the tables are the releases themselves. Formulas:
``docs/identification.md``, "Errors".
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
NAN = float("nan")
PARTS = 5  # single tables would not do: the best candidate is no smooth function of them


def strata(release_of: Ids) -> list[Ids]:
    """The tables of each release, in the order of the releases."""
    return [np.flatnonzero(release_of == l) for l in np.unique(release_of)]


def standard_error(values: Reals) -> Any:
    """Return the standard error of the mean over releases, the first axis; NaN for one."""
    m = len(values)
    if m == 1:
        return np.full(values.shape[1:], np.nan)
    return values.std(axis=0, ddof=1) / np.sqrt(m)


def error_between(values: Reals, release_of: Ids | None) -> Any:
    """Standard error over releases of the mean over tables, the first axis; NaN for one release."""
    if release_of is None:
        return standard_error(values)
    return standard_error(np.stack([values[part].mean(axis=0) for part in strata(release_of)]))


def error_of_draws(values: Reals, release_of: Ids | None) -> float:
    """Standard error of the mean over tables (m,), the releases being given.

    ``sqrt(sum_l T_l s_l^2) / m``, with the T_l tables of release l and their variance s_l^2; NaN
    where a release has one table only, and where nothing was drawn.
    """
    if release_of is None:
        return NAN
    parts = [values[part] for part in strata(release_of)]
    if min(map(len, parts)) < 2:
        return NAN
    return float(np.sqrt(sum(len(part) * part.var(ddof=1) for part in parts)) / len(values))


def parts_of_draws(release_of: Ids) -> list[Ids]:
    """Cut the tables into `PARTS` parts, each with the same share of every release.

    As many as the release with the fewest tables allows; none if it has one table only.
    """
    each = strata(release_of)
    n_parts = min(PARTS, *map(len, each))
    if n_parts < 2:
        return []
    cut = [np.array_split(tables, n_parts) for tables in each]
    return [np.concatenate(pieces) for pieces in zip(*cut, strict=True)]
