"""Rules for cells of magnitude tables: the p%-rule and (n, k)-dominance, in their own terms.

They ask what a published *total* tells its contributors, and know no synthetic data. Beside
`attribute_risk` for the same record they say whether a release of single values protects the
largest better than a table of totals would.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError, shown
from bayes_risk._core.validate import known_columns, positive, whole_number
from bayes_risk.data.microdata import checked_table, require_columns


def dominance(
    df: pd.DataFrame,
    column: str,
    by: str | Sequence[str] | None = None,
    *,
    p: float = 10.0,
    n: int = 2,
    k: float = 85.0,
) -> pd.DataFrame:
    """Which cells of a table of totals would be withheld, and how dominant their largest is.

    With ``x_(1) >= x_(2) >= ...`` the contributions to a cell and ``T`` their total: the second
    largest knows that the largest has at most ``T - x_(2)``, which errs by ``T - x_(2) - x_(1)``.
    p%-rule: sensitive if that is less than ``p / 100 x_(1)``. (n, k)-dominance: sensitive if the n
    largest have more than ``k / 100 T`` (Hundepool et al. 2012, Statistical Disclosure Control,
    Wiley, section 4.2).

    Parameters
    ----------
    df : DataFrame
    column : str
        The contributions: numbers, not negative.
    by : str or list of str, optional
        Columns that make the cells; one cell of all records by default. Missing values make a cell
        of their own.
    p : float
        Percent of the p%-rule, above 0.
    n : int
        How many of the largest, at least 1.
    k : float
        Percent of (n, k)-dominance, above 0 and at most 100.

    Returns
    -------
    DataFrame
        One row a cell, indexed by it. Contains confidential values. Columns:

        - ``records``: contributors, those of 0 included; ``total``.
        - ``largest``, ``second``: the two largest contributions; ``second`` is 0 in cells of one.
        - ``largest_share``, ``n_largest_share``: of the total, in percent; 0 where it is 0.
        - ``estimate_error``: by how many percent the second largest overestimates the largest from
          the total; infinite where the largest is 0. Small: the total discloses the largest.
        - ``p_sensitive``, ``nk_sensitive``: whether the rules withhold the cell.

    Raises
    ------
    InputError
        Contributions that are negative, missing or no numbers; p, n or k out of range.

    Examples
    --------
    >>> df = pd.DataFrame({"workers": [900, 60, 20, 20]})
    >>> dominance(df, "workers").loc["all", "estimate_error"].round(1)
    np.float64(4.4)
    """
    positive("p", p)
    whole_number("n", n)
    if positive("k", k) > 100:
        raise InputError("k", k, "is above 100; give a percentage, 85")
    checked_table(df)
    cells = [by] if isinstance(by, str) else list(by or [])
    known_columns("column and by", [column, *cells], df)
    require_columns(df, cells, "the table")
    try:
        x = pd.Series(df[column].to_numpy(dtype=float, na_value=np.nan), df.index, name=column)
    except (TypeError, ValueError):
        raise InputError(f"column {shown(column)} holds no numbers; give contributions") from None
    for what, bad in (("missing or infinite", ~np.isfinite(x)), ("negative", x < 0)):
        if bad.any():
            raise InputError(
                f"column {shown(column)} is {what} for {int(bad.sum())} of {len(x)} records; the "
                "rules need contributions of 0 or more: drop or correct those records"
            )
    if not len(x):
        raise InputError("the table has no records; give at least one")
    everybody = pd.Series("all", index=df.index, name="cell")
    by_cell = [df[c] for c in cells] or [everybody]
    groups = x.groupby(by_cell, dropna=False, observed=True)
    found = [_cell(group.to_numpy(), p, n, k) for _, group in groups]
    return pd.DataFrame(found, index=groups.size().index)


def _cell(x: npt.NDArray[Any], p: float, n: int, k: float) -> dict[str, float | bool | int]:
    """The rules in one cell."""
    ordered = np.sort(x)[::-1]
    total, largest = float(x.sum()), float(ordered[0])
    second = float(ordered[1]) if len(ordered) > 1 else 0.0
    rest, top = float(ordered[2:].sum()), float(ordered[:n].sum())
    return {
        "records": len(x),
        "total": total,
        "largest": largest,
        "second": second,
        "largest_share": 100 * largest / total if total else 0.0,
        "n_largest_share": 100 * top / total if total else 0.0,
        "estimate_error": 100 * rest / largest if largest else np.inf,
        "p_sensitive": rest < p / 100 * largest,
        "nk_sensitive": top > k / 100 * total,
    }
