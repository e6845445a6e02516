"""Prediction models whose means decide who is near whom; adequate or not, they only measure.

Proportional odds, multinomial logit, generalised additive model, least squares: Hawala (2008),
section 3.1, as statsmodels fits them. Where such a fit fails or separates, a penalised one stands
in, and a note says so.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr
from scipy.optimize import minimize
from scipy.special import softmax

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import ModelError
from bayes_risk.data.microdata import Codes
from bayes_risk.data.variables import Number, Variable

KINDS = ("ordered", "multinomial", "gam", "linear")
PENALTY = 0.1  # slopes of a fit that stands in: normal with variance 10
FURTHEST = 30.0  # a linear predictor beyond it shows separation
SPLINE_VALUES = 8  # distinct values that a number needs for a smooth term
SPLINE_DF = 6


@dataclass(frozen=True, slots=True, eq=False)
class MeanModel:
    """A fitted model: ``means`` turns rows of codes (R, p) into predicted means (R, d)."""

    means: Callable[[Codes], Array]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Predictors as columns: dummies of the levels that the kept records have, scaled numbers."""

    columns: tuple[tuple[int, float | None], ...]  # variable, and level of a dummy
    centre: Array
    scale: Array

    @classmethod
    def from_rows(
        cls, codes: Codes, variables: Sequence[Variable | Number], predictors: Sequence[int]
    ) -> "Design":
        """Columns that are no sum of others, found on the kept records."""
        columns: list[tuple[int, float | None]] = []
        for j in predictors:
            if isinstance(variables[j], Number):
                columns.append((j, None))
            else:
                columns += [(j, float(level)) for level in np.unique(codes[:, j])[1:]]
        number = np.array([level is None for _, level in columns], dtype=bool)
        raw = _raw(codes, columns)
        spread = raw.std(axis=0)
        centre = np.where(number, raw.mean(axis=0), 0.0)
        scale = np.where(number & (spread > 0), spread, 1.0)
        x, kept = (raw - centre) / scale, []
        if columns:
            _, r, pivot = qr(x - x.mean(axis=0), mode="economic", pivoting=True)
            size = np.abs(np.diag(r))
            kept = sorted(pivot[: int((size > 1e-9 * max(size[0], 1.0)).sum())].tolist())
        return cls(tuple(columns[c] for c in kept), centre[kept], scale[kept])

    def __call__(self, codes: Codes) -> Array:
        """Columns of other rows, shape (R, c)."""
        return (_raw(codes, self.columns) - self.centre) / self.scale


def _raw(codes: Codes, columns: Sequence[tuple[int, float | None]]) -> Array:
    out = np.empty((len(codes), len(columns)))
    for place, (j, level) in enumerate(columns):
        out[:, place] = codes[:, j] if level is None else codes[:, j] == level
    return out


def fit_means(
    kind: str,
    codes: Codes,
    column: int,
    variables: Sequence[Variable | Number],
    predictors: Sequence[int],
) -> MeanModel:
    """Fit the model of a column to the kept records (n', p)."""
    y = codes[:, column].astype(float)
    design = Design.from_rows(codes, variables, predictors)
    name = variables[column].name
    if np.ptp(y) == 0 or not design.columns:
        note = f"{name}: nothing predicts it, so every donor is as near"
        return MeanModel(lambda rows: np.zeros((len(rows), 1)), (note,))
    fit = {"ordered": _ordered, "multinomial": _multinomial, "gam": _gam, "linear": _linear}[kind]
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        means = fit(y, design, codes, notes)
    notes += dict.fromkeys(str(w.message).strip().split("\n")[0] for w in said)
    if not np.isfinite(means(codes)).all():
        raise ModelError(
            f"the {kind} model of column {name!r} has no finite predictions; drop predictors that "
            "it does not need, or choose another kind in models="
        )
    return MeanModel(means, tuple(f"{name}: {note}" for note in notes))


def _ordered(y: Array, design: Design, codes: Codes, notes: list[str]) -> Callable[[Codes], Array]:
    """Expected level of a proportional odds regression."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    levels, place = np.unique(y, return_inverse=True)
    x = design(codes)
    model = OrderedModel(place, x, distr="logit")
    params = _estimated(model, x, notes, method="bfgs", maxiter=1000)
    if params is None:
        params = _penalised(model, x.shape[1])

    def means(rows: Codes) -> Array:
        p = np.asarray(model.predict(params, exog=design(rows), which="prob"))
        return np.asarray((p @ levels)[:, None], dtype=float)

    return means


def _penalised(model: Any, slopes: int) -> Array:
    def loss(params: Array) -> float:
        with np.errstate(all="ignore"):
            value = -float(model.loglike(params))
        return value + 0.5 * PENALTY * float((params[:slopes] ** 2).sum())

    start = np.asarray(model.start_params, dtype=float)
    return np.asarray(minimize(loss, start, method="BFGS", options={"gtol": 1e-4}).x)


def _multinomial(
    y: Array, design: Design, codes: Codes, notes: list[str]
) -> Callable[[Codes], Array]:
    """Probabilities of the levels."""
    import statsmodels.api as sm

    x = np.column_stack([np.ones(len(y)), design(codes)])
    _, place = np.unique(y, return_inverse=True)
    model = sm.MNLogit(place, x)
    params = _estimated(model, x, notes, method="newton", maxiter=100)
    if params is None:
        return _ridge_logit(place, design, codes)

    def means(rows: Codes) -> Array:
        eta = np.column_stack([np.ones(len(rows)), design(rows)]) @ params
        return np.asarray(softmax(np.column_stack([np.zeros(len(rows)), eta]), axis=1))

    return means


def _ridge_logit(place: Any, design: Design, codes: Codes) -> Callable[[Codes], Array]:
    from sklearn.linear_model import LogisticRegression

    found = LogisticRegression(C=1 / PENALTY, max_iter=10_000, tol=1e-8).fit(design(codes), place)
    return lambda rows: np.asarray(found.predict_proba(design(rows)), dtype=float)


def _estimated(model: Any, x: Array, notes: list[str], **how: Any) -> Array | None:
    """Maximum likelihood, the first parameters those of x; None, and a note, where it diverges."""
    try:
        result = model.fit(disp=False, skip_hessian=True, **how)
        params, converged = np.asarray(result.params), bool(result.mle_retvals["converged"])
        eta = x @ params[: x.shape[1]]
        if converged and np.isfinite(eta).all() and np.abs(eta).max() <= FURTHEST:
            return params
    except (np.linalg.LinAlgError, ValueError, FloatingPointError):
        pass
    notes.append("maximum likelihood diverged (separation); a penalised fit stands in")
    return None


def _linear(y: Array, design: Design, codes: Codes, notes: list[str]) -> Callable[[Codes], Array]:
    """Least squares."""
    x = np.column_stack([np.ones(len(y)), design(codes)])
    coefficients = np.linalg.lstsq(x, y, rcond=None)[0]
    return lambda rows: (coefficients[0] + design(rows) @ coefficients[1:])[:, None]


def _gam(y: Array, design: Design, codes: Codes, notes: list[str]) -> Callable[[Codes], Array]:
    """Sum of smooth functions of the numbers (cubic B-splines, penalised) and of the dummies."""
    from statsmodels.gam.api import BSplines, GLMGam
    from statsmodels.tools.sm_exceptions import PerfectSeparationError

    x = design(codes)
    smooth = [
        c
        for c, (_, level) in enumerate(design.columns)
        if level is None and len(np.unique(x[:, c])) >= SPLINE_VALUES
    ]
    if not smooth:
        return _linear(y, design, codes, notes)
    rest = [c for c in range(x.shape[1]) if c not in smooth]
    low, high = x[:, smooth].min(axis=0), x[:, smooth].max(axis=0)
    splines = BSplines(x[:, smooth], df=[SPLINE_DF] * len(smooth), degree=[3] * len(smooth))
    plain = np.column_stack([np.ones(len(y)), x[:, rest]])
    try:
        result = GLMGam(y, exog=plain, smoother=splines, alpha=np.ones(len(smooth))).fit()
    except (PerfectSeparationError, np.linalg.LinAlgError, ValueError):
        notes.append("the smooth fit failed (a perfect or a singular one); least squares stand in")
        return _linear(y, design, codes, notes)

    def means(rows: Codes) -> Array:
        new = design(rows)
        inside = np.clip(new[:, smooth], low, high)  # beyond the donors a spline is not defined
        ones = np.column_stack([np.ones(len(rows)), new[:, rest]])
        return np.asarray(result.predict(exog=ones, exog_smooth=inside), dtype=float)[:, None]

    return means
