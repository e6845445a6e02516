"""Combining rules, and how far what analyses say of releases agrees with what the original says.

Reiter (2003, Survey Methodology 29, 181-188) for single quantities, Reiter (2005, J. of Statistical
Planning and Inference 131, 365-377) for several at once. An analyst treats each data
set as if it were the original, and brings m estimates with their variances.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import chdtrc, fdtrc, ndtri, stdtrit

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import in_range, is_sequence, known_columns

Brought = tuple[Array, Array, list[Any]]  # q (m, k), u (m, k, k), names
Named = tuple[pd.Series, pd.DataFrame]  # q (k,), u (k, k)


def read_estimates(estimates: Any, variances: Any) -> Brought:
    """Estimates (m, k), covariances (m, k, k; NaN: not given) and names, as `combine` has them."""
    if isinstance(estimates, pd.DataFrame) or not is_sequence(estimates):
        raise InputError(
            f"estimates is one {type(estimates).__name__}; give a sequence with one entry for each "
            "of the m data sets"
        )
    given = list(estimates)
    if len(given) < 2:
        raise InputError(
            "m",
            len(given),
            ": one data set does not show the variance b between data sets; synthesise at least "
            "2 (m=5 is usual): fit.synthesize(m=5)",
        )
    first = given[0]
    if isinstance(first, pd.DataFrame) or hasattr(first, "cov_params"):
        if variances is not None:
            raise InputError(f"a {type(first).__name__} brings its variances; leave out variances")
        return _by_name(
            [_of_table(g) if isinstance(g, pd.DataFrame) else _of_fit(g) for g in given]
        )
    if not is_sequence(variances):
        raise InputError(
            "variances is missing or no list; give the m estimates' variances (squared standard "
            "errors), or fitted models of statsmodels"
        )
    spread = list(variances)
    if not isinstance(first, pd.Series):
        given, spread = _of_arrays(given, spread)
    elif len(spread) != len(given):
        raise InputError(f"there are {len(given)} estimates and {len(spread)} variances")
    return _by_name(
        [
            (q, u if isinstance(u, pd.DataFrame) else _diagonal(pd.Series(u, index=q.index)))
            for q, u in zip(given, spread, strict=True)
        ]
    )


def _of_arrays(estimates: Any, variances: Any) -> tuple[list[pd.Series], list[Any]]:
    """Numbers as Series; variances as Series, or covariances as DataFrames."""
    try:
        q, u = (np.asarray(given, dtype=float) for given in (estimates, variances))
    except (TypeError, ValueError):
        raise InputError(
            "estimates and variances hold what is not a number, or differ in length "
            "from data set to data set; give arrays of numbers"
        ) from None
    if q.ndim > 2 or u.shape not in (q.shape, (*q.shape, q.shape[-1])) or u.ndim < q.ndim:
        raise InputError(
            f"estimates have shape {q.shape} and variances {u.shape}; give estimates (m,) with "
            "variances (m,), or (m, k) with variances (m, k) or covariance matrices (m, k, k)"
        )
    if q.ndim == 1:
        q, u = q[:, None], u[:, None]
    return list(map(pd.Series, q)), list(map(pd.Series if u.ndim == 2 else pd.DataFrame, u))


def _by_name(fits: list[Named]) -> Brought:
    """Estimates and covariance matrices put in the order of the first data set."""
    names = fits[0][0].index
    if not names.is_unique:
        raise InputError(
            f"the names of {names.duplicated().sum()} estimates stand for two quantities; give "
            "each its own"
        )
    for l, (fit, _) in enumerate(fits):
        differing = names.symmetric_difference(fit.index).tolist()
        if differing or len(fit) != len(names):
            raise InputError(
                f"data set {l} and data set 0 differ in {len(differing)} quantities: each data set "
                "must estimate the same; declare all levels (pandas.CategoricalDtype) before "
                "fitting, or leave those quantities out"
            )
    q = np.stack([values.loc[names].to_numpy(dtype=float) for values, _ in fits])
    u = np.stack([matrix.loc[names, names].to_numpy(dtype=float) for _, matrix in fits])
    own = np.diagonal(u, axis1=1, axis2=2)
    if q.shape[1] == 0:
        raise InputError("the data sets have estimates of nothing; give at least one quantity")
    known = np.isfinite(q).all(axis=1) & np.isfinite(own).all(axis=1)
    if not known.all():
        raise InputError(
            f"data set {int(np.argmin(known))} has an estimate or variance that is missing or "
            "infinite; look at that fit, or leave the quantity out"
        )
    if (own < 0).any():
        raise InputError(
            f"variances are below 0 in {int((own < 0).any(axis=1).sum())} of {len(own)} data sets; "
            "give variances (squared standard errors)"
        )
    if not np.allclose(u, np.swapaxes(u, 1, 2), rtol=1e-6, equal_nan=True):
        raise InputError("a covariance matrix is not symmetric; check the order of its columns")
    return q, u, names.tolist()


def _of_table(table: pd.DataFrame) -> Named:
    """A table with estimates and their variances or standard errors."""
    if "estimate" not in table or not {"variance", "std_error"} & set(table):
        raise InputError(
            "a table of estimates needs the columns 'estimate' and 'variance' (or 'std_error'); "
            f"it has {list(table.columns)}"
        )
    variance = table["variance"] if "variance" in table else table["std_error"] ** 2
    return table["estimate"], _diagonal(variance)


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointTest:
    """Wald-type test that k quantities have given values."""

    statistic: float  # S of Reiter (2005); large values speak against the hypothesis
    # df_numerator, df_denominator: degrees of freedom k and w of the reference F distribution
    df_numerator: int
    df_denominator: float
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CombinedEstimates:
    """Estimates from m partially synthetic data sets, combined; made by `combine`.

    Attributes
    ----------
    table : DataFrame
        One row per quantity. ``estimate`` (q-bar), ``std_error`` (the root of T), ``df``, ``low``
        and ``high`` of the interval, ``b`` (variance between data sets), ``u`` (mean variance
        within).
    covariance : DataFrame, shape (k, k)
        T = u-bar + b / m; off the diagonal NaN, where only variances were given.
    within, between : ndarray, shape (k, k)
        u-bar and b.
    m, confidence : int, float
        Number of data sets; confidence of the intervals.
    """

    table: pd.DataFrame
    covariance: pd.DataFrame
    within: Array
    between: Array
    m: int
    confidence: float

    def test(self, null: Any = 0.0, *, names: Sequence[Any] | None = None) -> JointTest:
        r"""Wald-type test that several quantities together have the values of ``null``.

        ``S = (q - Q0)' u^{-1} (q - Q0) / (k (1 + r))``, ``r = tr(b u^{-1}) / (m k)``, against
        F(k, w), ``w = 4 + (t - 4) (1 + (1 - 2/t) / r)^2``, ``t = k (m - 1)`` (Reiter 2005).

        Parameters
        ----------
        null : float or sequence of k floats
            The hypothesis Q0.
        names : sequence, optional
            Quantities to test, all by default.

        Raises
        ------
        InputError
            Unknown names, a hypothesis of another length, variances without covariances, a
            covariance matrix that cannot be inverted.

        Notes
        -----
        F is an approximation: it assumes many records, and b about proportional to u. With t of at
        most 4, and always with k = 1, ``w = (k + 1) (m - 1) (1 + 1/r)^2 / 2`` (Li, Raghunathan &
        Rubin 1991); with k = 1 the test is that of the interval. With m = 2 it rejects too often.
        """
        present = self.table.index.tolist()
        chosen = known_columns("names", present if names is None else names, present, least=1)
        where = [present.index(name) for name in chosen]
        values, k, m = np.asarray(null, dtype=float), len(chosen), self.m
        if values.ndim > 1 or values.size not in (1, k) or not np.isfinite(values).all():
            raise InputError(
                "null", null, f"must be one number, or one for each of the {k} quantities"
            )
        difference = self.table["estimate"].to_numpy(dtype=float)[where] - values
        within, between = (x[np.ix_(where, where)] for x in (self.within, self.between))
        if np.isnan(within).any():
            raise InputError(
                "a joint test needs covariances and only variances were given; give combine() "
                "covariance matrices of shape (m, k, k), or the fitted models"
            )
        try:
            lower = np.linalg.cholesky(within)
        except np.linalg.LinAlgError:
            raise InputError(
                "the mean covariance matrix of these quantities cannot be inverted; test fewer of "
                "them (names), without those that follow from the others"
            ) from None
        # with u = L L': tr(b u^-1) = tr(L^-1 b L'^-1) and the form is |L^-1 d|^2
        r = float(np.trace(np.linalg.solve(lower, np.linalg.solve(lower, between).T))) / (m * k)
        statistic = float((np.linalg.solve(lower, difference) ** 2).sum()) / (k * (1 + r))
        t, w = k * (m - 1), np.inf  # r = 0: no variance between the data sets
        if r > 0 and (t <= 4 or k == 1):
            w = (k + 1) * (m - 1) * (1 + 1 / r) ** 2 / 2
        elif r > 0:
            w = float(4 + (t - 4) * (1 + (1 - 2 / t) / r) ** 2)
        p = fdtrc(k, w, statistic) if np.isfinite(w) else chdtrc(k, k * statistic)
        return JointTest(statistic=statistic, df_numerator=k, df_denominator=w, p_value=float(p))

    def __repr__(self) -> str:
        return (
            f"{len(self.table)} quantities from m = {self.m} partially synthetic data sets, "
            f"{self.confidence:.0%} intervals\n{self.table.to_string()}"
        )


def combine(
    estimates: Sequence[Any] | npt.ArrayLike,
    variances: Sequence[Any] | npt.ArrayLike | None = None,
    *,
    names: Sequence[Any] | None = None,
    confidence: float = 0.95,
) -> CombinedEstimates:
    r"""Estimates, standard errors and intervals from m partially synthetic data sets.

    With ``q``-bar the mean of the estimates, ``b`` their variance between data sets and ``u``-bar
    the mean of the variances within, ``T = u + b/m`` estimates the variance of ``q``-bar, and
    intervals come from t distributions with ``(m - 1) (1 + m u / b)^2`` degrees of freedom (Reiter
    2003; Drechsler & Reiter 2008, eq. 1-4).

    Parameters
    ----------
    estimates : sequence of length m
        Numbers; rows of k numbers (an array of shape (m, k)); Series; fitted models of statsmodels
        (anything with ``params`` and ``cov_params()``); or DataFrames with a row per quantity and
        the columns ``estimate`` and ``variance`` or ``std_error``. The last three are put together
        by name.
    variances : sequence of length m, optional
        Variances, shape (m,) or (m, k), or covariance matrices, shape (m, k, k). Not standard
        errors. Only for numbers, rows and Series.
    names : sequence of k labels, optional
        Names of the quantities, in their order; replace those that they bring.
    confidence : float
        Of the intervals, between 0 and 1.

    Raises
    ------
    InputError
        Fewer than 2 data sets: nothing then shows the variance between them. Data sets with other
        quantities, missing or negative variances, shapes that do not fit.

    Notes
    -----
    The rules are for *partially* synthetic data made by draws from a posterior predictive
    distribution, with the same records in every data set, some of whose values were replaced. Data
    in which all records are new need other rules. Degrees of freedom within a data set count as
    infinite. The t distribution is an approximation: where everything is synthesised, 95 %
    intervals cover 92.9 % with m = 2, and 95 % from m = 5 on.

    Examples
    --------
    >>> combine([10.0, 12.0, 11.0], [4.0, 4.0, 4.0], names=["mean"]).table.round(2)
          estimate  std_error     df   low   high    b    u
    mean      11.0       2.08  338.0  6.91  15.09  1.0  4.0
    """
    level = in_range("confidence", confidence)
    q, u, brought = read_estimates(estimates, variances)
    labels = [names] if isinstance(names, str) else list(brought if names is None else names)
    if len(labels) != q.shape[1] or len(set(labels)) != len(labels):
        raise InputError(
            "names", labels, f"must be {q.shape[1]} different labels, one for each quantity"
        )
    within, between, m = u.mean(axis=0), np.atleast_2d(np.cov(q, rowvar=False)), len(q)
    inside, b = np.diag(within), np.diag(between)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = np.where(b > 0, (m - 1) * (1 + m * inside / b) ** 2, np.inf)
    t = stdtrit(df, (1 + level) / 2)
    estimate, error, low, high = _interval(q.mean(axis=0), inside + b / m, t)
    columns = {"estimate": estimate, "std_error": error, "df": df, "low": low, "high": high}
    return CombinedEstimates(
        table=pd.DataFrame(columns | {"b": b, "u": inside}, index=labels),
        covariance=pd.DataFrame(within + between / m, index=labels, columns=labels),
        within=within,
        between=between,
        m=m,
        confidence=level,
    )


Analysis = Callable[[pd.DataFrame], Any]

COLUMNS = (
    *("original", "std_error_original", "low_original", "high_original"),
    *("release", "std_error", "low", "high"),
    *("standardized_difference", "interval_overlap"),
)
RULES = ("partially synthetic", "fully synthetic")


class Inference(NamedTuple):
    """What analyses gave."""

    names: list[tuple[str, str]]  # (analysis, quantity) of K quantities
    combined: Array  # (K, 10), see `COLUMNS`
    each: Array  # (m, K, 2): difference and overlap of every release on its own


class _Interval(NamedTuple):
    """Estimates, standard errors and ends, each (K,)."""

    estimate: Array
    std_error: Array
    low: Array
    high: Array


def _interval(q: Array, variance: Array, quantile: Array | float) -> _Interval:
    """So many standard errors to either side."""
    error = np.sqrt(variance)
    return _Interval(q, error, q - quantile * error, q + quantile * error)


def inferences(
    analyses: Mapping[str, Analysis],
    frames: Sequence[pd.DataFrame],
    m: int,
    rules: str,
    confidence: float,
) -> Inference:
    """Fit every analysis to every table; m releases are combined by the rules."""
    found = Inference([], np.empty((0, len(COLUMNS))), np.empty((m, 0, 2)))
    normal = ndtri((1 + confidence) / 2)  # each table taken as it is, a large sample
    for analysis, fit in analyses.items():
        q, u, names = _fitted(analysis, fit, frames)
        alone = [_interval(q[l], u[l], normal) for l in range(len(q))]
        both = alone[1]
        if m > 1 and rules == "fully synthetic":
            both = fully_synthetic(q[1:], u[1:], confidence)
        elif m > 1:
            table = combine(q[1:], u[1:], confidence=confidence).table
            both = _Interval(*table[["estimate", "std_error", "low", "high"]].to_numpy().T)
        *apart, together = (_agreement(alone[0], one) for one in [*alone[1:], both])
        found = Inference(
            [*found.names, *((str(analysis), str(name)) for name in names)],
            np.concatenate([found.combined, np.column_stack([*alone[0], *both, *together])]),
            np.concatenate([found.each, np.array(apart).transpose(0, 2, 1)], axis=1),
        )
    return found


def _fitted(analysis: str, fit: Analysis, frames: Sequence[pd.DataFrame]) -> Brought:
    """Estimates and variances (m + 1, K) of an analysis from all tables, and their names."""
    fits = [fit(table.copy()) for table in frames]
    for found in fits:
        if not isinstance(found, pd.DataFrame) and not hasattr(found, "cov_params"):
            raise InputError(
                f"analysis {analysis!r} gives a {type(found).__name__}; let it give a fitted model "
                "of statsmodels, or a DataFrame with the columns estimate and std_error"
            )
    try:
        q, covariances, names = read_estimates(fits, None)
    except InputError as error:
        raise error.inside(f"analysis {analysis!r}, where data set 0 is the original") from None
    return q, np.diagonal(covariances, axis1=1, axis2=2), names


def interval_overlap(low: Array, high: Array, other_low: Array, other_high: Array) -> Array:
    """Mean share of each interval that the other covers (Karr et al. 2006); below 0: a gap."""
    shared = np.minimum(high, other_high) - np.maximum(low, other_low)
    return np.asarray(0.5 * (shared / (high - low) + shared / (other_high - other_low)))


def fully_synthetic(q: Array, u: Array, confidence: float) -> _Interval:
    """Estimate, standard error and ends where every record is a new draw from the population.

    ``T = (1 + 1/m) b - u`` with ``(m - 1) (1 - m u / ((m + 1) b))^2`` degrees of freedom
    (Raghunathan, Reiter & Rubin 2003); where T is not above 0, u in its stead (Reiter 2002, samples
    of the original's size).
    """
    m, b, within = len(q), q.var(axis=0, ddof=1), u.mean(axis=0)
    total = (1 + 1 / m) * b - within
    positive = total > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        df = np.where(positive, (m - 1) * (1 - m * within / ((m + 1) * b)) ** 2, np.inf)
    t = stdtrit(df, (1 + confidence) / 2)
    return _interval(q.mean(axis=0), np.where(positive, total, within), t)


def _agreement(original: _Interval, other: _Interval) -> tuple[Array, Array]:
    """Difference in the original's standard errors, and overlap of the intervals."""
    difference = (other.estimate - original.estimate) / original.std_error
    return difference, interval_overlap(original.low, original.high, other.low, other.high)
