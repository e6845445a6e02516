"""What an analyst brings from m data sets, as arrays: numbers, tables or fitted models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError

Array = npt.NDArray[np.float64]
Brought = tuple[Array, Array, list[Any] | None]  # q (m, k), u (m, k, k), names
Named = tuple[pd.Series, pd.DataFrame]  # q (k,), u (k, k)


def read_estimates(estimates: Any, variances: Any) -> Brought:
    """Estimates (m, k), covariance matrices (m, k, k) and names of whatever was given.

    Covariances that were not given are NaN. The forms are those of
    `bayes_risk.utilities.combining.combine`.

    Raises
    ------
    InputError
        Fewer than 2 data sets; variances missing, negative or of another shape; data sets that
        estimate other quantities.
    """
    if isinstance(estimates, pd.DataFrame | str) or np.ndim(estimates) == 0:
        raise InputError(
            f"estimates is one {type(estimates).__name__}; give a sequence with one entry for each "
            "of the m data sets"
        )
    given = list(estimates)
    _enough(len(given))
    first = given[0]
    by_itself = isinstance(first, pd.DataFrame) or hasattr(first, "cov_params")
    if by_itself and variances is not None:
        raise InputError(f"a {type(first).__name__} brings its variances; leave out variances=")
    if by_itself:
        return _by_name(
            [_of_table(g) if isinstance(g, pd.DataFrame) else _of_fit(g) for g in given]
        )
    if variances is None:
        raise InputError(
            "variances is missing; give the m estimates' variances (squared standard errors), or "
            "fitted models of statsmodels"
        )
    if isinstance(first, pd.Series):
        return _by_name(_series(given, variances))
    return _of_arrays(given, variances)


def _enough(m: int) -> None:
    if m < 2:
        raise InputError(
            f"m={m}: one data set does not show the variance b between data sets; synthesise at "
            "least 2 (m=5 is usual): fit.synthesize(m=5)"
        )


def _of_arrays(estimates: Any, variances: Any) -> Brought:
    q = np.asarray(estimates, dtype=float)
    u = np.asarray(variances, dtype=float)
    shapes = f"estimates have shape {q.shape} and variances {u.shape}"
    if q.ndim > 2 or u.shape not in (q.shape, (*q.shape, q.shape[-1])) or u.ndim < q.ndim:
        raise InputError(
            f"{shapes}; give estimates (m,) with variances (m,), or (m, k) with variances (m, k) "
            "or covariance matrices (m, k, k)"
        )
    if q.ndim == 1:
        q, u = q[:, None], u[:, None]
    if u.ndim == 2:
        k = q.shape[1]
        spread = np.full((*u.shape, k), np.nan)
        spread[:, np.arange(k), np.arange(k)] = u
        u = spread
    _checked(q, u)
    return q, u, None


def _checked(q: Array, u: Array) -> None:
    own = np.diagonal(u, axis1=1, axis2=2)
    if q.shape[1] == 0:
        raise InputError("the data sets have estimates of nothing; give at least one quantity")
    if not np.isfinite(q).all() or not np.isfinite(own).all():
        l = int(np.argmin(np.isfinite(q).all(axis=1) & np.isfinite(own).all(axis=1)))
        raise InputError(
            f"data set {l} has an estimate or variance that is missing or infinite; look at that "
            "fit, or leave the quantity out"
        )
    if (own < 0).any():
        raise InputError(
            f"a variance is {own.min():.4g}, below 0; give variances (squared standard errors)"
        )
    if not np.allclose(u, np.swapaxes(u, 1, 2), rtol=1e-6, equal_nan=True):
        raise InputError("a covariance matrix is not symmetric; check the order of its columns")


def _by_name(fits: list[Named]) -> Brought:
    """Estimates and covariance matrices put in the order of the first data set."""
    names = fits[0][0].index
    if not names.is_unique:
        raise InputError(f"names {names[names.duplicated()].tolist()} stand for two quantities")
    for l, (q, _) in enumerate(fits):
        differing = names.symmetric_difference(q.index).tolist()
        if differing or len(q) != len(names):
            raise InputError(
                f"data set {l} and data set 0 differ in {differing}: every data set must estimate "
                "the same quantities; declare all levels (pandas.CategoricalDtype) before fitting, "
                "or leave those quantities out"
            )
    values = np.stack([fit[0].loc[names].to_numpy(dtype=float) for fit in fits])
    matrices = np.stack([fit[1].loc[names, names].to_numpy(dtype=float) for fit in fits])
    _checked(values, matrices)
    return values, matrices, names.tolist()


def _with_variance(given: Any) -> Named:
    return _of_table(given) if isinstance(given, pd.DataFrame) else _of_fit(given)


def _of_table(table: pd.DataFrame) -> Named:
    """A table with estimates and their variances or standard errors."""
    if "estimate" not in table or not {"variance", "std_error"} & set(table):
        raise InputError(
            "a table of estimates needs the columns 'estimate' and 'variance' (or 'std_error'); "
            f"it has {list(table.columns)}"
        )
    variance = table["variance"] if "variance" in table else table["std_error"] ** 2
    return table["estimate"], _diagonal(variance)


def _series(estimates: Sequence[pd.Series], variances: Any) -> list[Named]:
    given = list(variances)
    if len(given) != len(estimates):
        raise InputError(f"there are {len(estimates)} estimates and {len(given)} variances")
    return [
        (q, u if isinstance(u, pd.DataFrame) else _diagonal(pd.Series(u, index=q.index)))
        for q, u in zip(estimates, given, strict=True)
    ]


def _diagonal(variance: pd.Series) -> pd.DataFrame:
    spread = np.full((len(variance), len(variance)), np.nan)
    np.fill_diagonal(spread, variance.to_numpy(dtype=float))
    return pd.DataFrame(spread, index=variance.index, columns=variance.index)


def _of_fit(fit: Any) -> Named:
    """Parameters of a fitted model; those of several equations one equation after the other."""
    covariance = fit.cov_params()
    values = np.asarray(fit.params, dtype=float).ravel(order="F")
    if isinstance(fit.params, pd.Series):
        names = fit.params.index
    elif isinstance(covariance, pd.DataFrame):
        names = covariance.index
    else:
        names = pd.Index(getattr(getattr(fit, "model", None), "exog_names", None) or [])
        names = names if len(names) == len(values) else pd.RangeIndex(len(values))
    if isinstance(names, pd.MultiIndex):
        names = pd.Index([": ".join(map(str, name)) for name in names])
    matrix = pd.DataFrame(np.asarray(covariance, dtype=float), index=names, columns=names)
    return pd.Series(values, index=names), matrix
