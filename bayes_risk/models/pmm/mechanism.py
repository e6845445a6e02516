"""Predictive mean matching: sensitive cells, prediction models, donors, and the chance of a draw.

The order of work of Hawala (2008): each variable in turn is predicted from all the others, and
every recipient takes the value of a donor whose predicted mean is near its own. Models are fitted
to the kept records, so that no deleted value touches a fit; they decide who is near whom, and
adequate or not, they only measure: proportional odds, multinomial logit, generalised additive
model, least squares (section 3.1), as statsmodels fits them. Where such a fit fails or separates, a
penalised one stands in, and a note says so. `docs/pmm.md` derives the chance of a draw.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import softmax

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk._core.matching import distinct_rows
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.data.variables import Number, Variable
from bayes_risk.intruder.guesses import PointMasses
from bayes_risk.models.fits.predicted import Spread, least_sd, log_level, log_predicted
from bayes_risk.models.fits.sampling import blocks

KINDS = ("ordered", "multinomial", "gam", "linear")
PENALTY = 0.1  # slopes of a fit that stands in: normal with variance 10
FURTHEST = 30.0  # a linear predictor beyond it shows separation
SPLINE_VALUES = 8  # distinct values that a number needs for a smooth term
SPLINE_DF = 6


Means = Callable[[Codes], Array]  # of rows of codes (R, p) the predicted means (R, d)


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
        """Columns that are no sum of those before them on kept records."""
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
        x = (raw - centre) / scale
        kept = _independent(x - x.mean(axis=0))
        return cls(tuple(columns[c] for c in kept), centre[kept], scale[kept])

    def __call__(self, codes: Codes) -> Array:
        """Columns of other rows, shape (R, c)."""
        return (_raw(codes, self.columns) - self.centre) / self.scale


def _independent(x: Array) -> list[int]:
    """Columns that are no sum of those before them."""
    basis: Array = np.empty((len(x), 0))
    largest, kept = max(float(np.linalg.norm(x, axis=0).max(initial=0.0)), 1.0), list[int]()
    for c in range(x.shape[1]):
        rest = x[:, c]
        for _ in range(2):  # once more, for what rounding left
            rest = rest - basis @ (basis.T @ rest)
        if (size := float(np.linalg.norm(rest))) > 1e-9 * largest:
            basis = np.column_stack([basis, rest / size])
            kept.append(c)
    return kept


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
) -> tuple[Means, tuple[str, ...]]:
    """Fit the model of a column to the kept records (n', p); what the fit had to say.

    Records and columns are put in the order of values and names: rounding depends on no other.
    """
    by_name = sorted({column, *predictors}, key=lambda j: str(variables[j].name))
    codes = codes[np.lexsort(codes[:, by_name].T)]
    predictors = [j for j in by_name if j != column]
    y = codes[:, column].astype(float)
    design = Design.from_rows(codes, variables, predictors)
    name = variables[column].name
    if np.ptp(y) == 0 or not design.columns:
        note = f"{name}: nothing predicts it, so every donor is as near"
        return lambda rows: np.zeros((len(rows), 1)), (note,)
    fit = {"ordered": _ordered, "multinomial": _multinomial, "gam": _gam, "linear": _linear}[kind]
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        means = fit(y, design, codes, notes)
    notes += dict.fromkeys(str(w.message).strip().split("\n")[0] for w in caught)
    if not np.isfinite(means(codes)).all():
        raise ModelError(
            f"the {kind} model of column {name!r} has no finite predictions; drop predictors that "
            "it does not need, or choose another kind in models"
        )
    return means, tuple(f"{name}: {note}" for note in notes)


def _ordered(y: Array, design: Design, codes: Codes, notes: list[str]) -> Means:
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


def _multinomial(y: Array, design: Design, codes: Codes, notes: list[str]) -> Means:
    """Probabilities of the levels."""
    import statsmodels.api as sm
    from sklearn.linear_model import LogisticRegression

    x = np.column_stack([np.ones(len(y)), design(codes)])
    _, place = np.unique(y, return_inverse=True)
    model = sm.MNLogit(place, x)
    params = _estimated(model, x, notes, method="newton", maxiter=100)
    if params is None:
        ridge = LogisticRegression(C=1 / PENALTY, max_iter=10_000, tol=1e-8)
        ridge.fit(design(codes), place)
        return lambda rows: np.asarray(ridge.predict_proba(design(rows)), dtype=float)

    def means(rows: Codes) -> Array:
        eta = np.column_stack([np.ones(len(rows)), design(rows)]) @ params
        return np.asarray(softmax(np.column_stack([np.zeros(len(rows)), eta]), axis=1))

    return means


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


def _linear(y: Array, design: Design, codes: Codes, notes: list[str]) -> Means:
    """Least squares."""
    x = np.column_stack([np.ones(len(y)), design(codes)])
    coefficients = np.linalg.lstsq(x, y, rcond=None)[0]
    return lambda rows: (coefficients[0] + design(rows) @ coefficients[1:])[:, None]


def _gam(y: Array, design: Design, codes: Codes, notes: list[str]) -> Means:
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


Constraint = Callable[[pd.DataFrame], npt.ArrayLike]
TIE = 1e-9  # relative: predicted means as close as this are the same


def cell_keys(
    data: Microdata, codes: Codes, identifying: Sequence[str], cuts: Mapping[str, Sequence[float]]
) -> Array:
    """What places records in a cell of the cross-classification, shape (n, number of variables)."""
    columns = []
    for name in identifying:
        values = codes[:, data.columns.index(name)].astype(float)
        columns.append(np.digitize(values, cuts[name]) if name in cuts else values)
    return np.column_stack(columns).astype(float)


def sensitive(keys: Array, threshold: int) -> Flags:
    """Records in a cell of at most so many, shape (n,)."""
    _, cell, count = distinct_rows(keys)
    return np.asarray(count[cell] <= threshold)


@dataclass(frozen=True, slots=True, eq=False)
class Donors:
    """Kept records that give their value of a variable, those alike counted."""

    means: Array  # (D, d): predicted
    values: Array  # (D,): codes
    count: Array  # (D,): records
    k: int  # one of the so many nearest is taken

    def chances(self, means: Array, allowed: Flags | None = None) -> Array:
        """Chance of each donor (R, D) for a mean (R, d): one of the k nearest, ties shared."""
        far = cdist(means, self.means)
        tie = TIE * (1.0 + float(np.abs(self.means).max()))
        count = np.broadcast_to(self.count, far.shape)
        if allowed is not None:
            far, count = np.where(allowed, far, np.inf), np.where(allowed, count, 0.0)
        if self.k == 1:
            out = np.where(far <= far.min(axis=1, keepdims=True) + tie, count, 0.0)
        else:
            out = _of_nearest(far, count, self.k, tie)
        return np.asarray(out / out.sum(axis=1, keepdims=True))

    def draw(self, means: Array, allowed: Flags | None, rng: Rng) -> tuple[Array, int]:
        """Value for each recipient (R,), and how often the nearest were not allowed."""
        keys = means if allowed is None else np.column_stack([means, allowed])
        distinct, back = np.unique(keys, axis=0, return_inverse=True)
        place, d = back.ravel(), means.shape[1]
        u = rng.random(len(means))
        out, redrawn = np.empty(len(means)), 0
        for which in blocks(len(distinct), len(self.values)):
            block = distinct[which]
            rows = np.flatnonzero((place >= which.start) & (place < which.stop))
            where = place[rows] - which.start
            some = None if allowed is None else block[:, d:].astype(bool)
            edges = np.cumsum(self.chances(block[:, :d], some), axis=1)
            out[rows] = self.values[_taken(edges, where, u[rows])]
            if some is not None:
                nearest = self.chances(block[:, :d])
                redrawn += int(((nearest * some).sum(axis=1) == 0)[where].sum())
        return out, redrawn


def _taken(edges: Array, where: Ints, u: Array) -> Ints:
    """Donor of each recipient: the first whose cumulated chance exceeds u."""
    out = np.empty(len(u), dtype=np.int64)
    for row in np.unique(where):
        mine = np.flatnonzero(where == row)
        out[mine] = np.searchsorted(edges[row], u[mine] * edges[row, -1], side="right")
    return out


def _of_nearest(far: Array, count: Array, k: int, tie: float) -> Array:
    """How many of the k nearest are alike to each donor (R, D); ties share the k-th place.

    A tie is a run of donors of which each is at most `tie` farther than the one before it.
    """
    far = np.where(count > 0, far, np.inf)
    order = np.argsort(far, axis=1, kind="stable")
    far, sorted_count = (np.take_along_axis(x, order, axis=1) for x in (far, count))
    within = np.cumsum(sorted_count, axis=1)
    with np.errstate(invalid="ignore"):  # of donors that are not there
        parted = np.diff(far, axis=1) > tie
    edge = np.ones((len(far), 1), dtype=bool)
    closer = np.where(np.hstack([edge, parted]), within - sorted_count, 0.0)
    closer = np.maximum.accumulate(closer, axis=1)
    upto = np.where(np.hstack([parted, edge]), within, np.inf)
    size = np.minimum.accumulate(upto[:, ::-1], axis=1)[:, ::-1] - closer
    places = np.clip(np.minimum(k, within[:, -1:]) - closer, 0, size)
    out = np.zeros(far.shape)
    np.put_along_axis(out, order, sorted_count * (places / np.maximum(size, 1)), axis=1)
    return out


def allowed_rows(data: Microdata, codes: Codes, constraints: Sequence[Constraint]) -> Flags:
    """Which rows break no constraint, shape (R,)."""
    if not constraints or not len(codes):
        return np.ones(len(codes), dtype=bool)
    table = data.decode(codes, pd.RangeIndex(len(codes)))
    out = np.ones(len(codes), dtype=bool)
    for number, constraint in enumerate(constraints):
        answer = np.asarray(constraint(table.copy()))
        if answer.shape != out.shape or answer.dtype != bool:
            raise InputError(
                f"constraint {number} returned {answer.dtype} of shape {answer.shape} for "
                f"{len(codes)} rows; it must return True or False for each row (True: allowed)"
            )
        out &= answer
    return out


MAX_FILLS = 4_096  # combinations of filled-in values that are enumerated
TRIES = 1_000  # fill-ins drawn for a record before none is taken to be allowed


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One variable: its predicted means, its donors, and how its deleted values are filled in."""

    column: int
    means: Means
    notes: tuple[str, ...]  # what the fit of its model had to say
    donors: Donors
    values: Array
    shares: Array  # of ``values`` among the kept records

    def log_predictive(
        self, rows: Codes, points: Array, variable: Variable | Number, shared: PointMasses
    ) -> Array:
        """log p of points (2, R) for such rows (R, p): donors, and one further record."""
        donors, out = self.donors, np.empty(points.shape)
        for some in blocks(len(rows), 4 * len(donors.values)):
            weights = donors.k * donors.chances(self.means(rows[some]))
            for log_p, at in zip(out[:, some], points[:, some], strict=True):
                if isinstance(variable, Number):
                    mean = float(self.shares @ self.values)
                    sd = float(np.sqrt(self.shares @ (self.values - mean) ** 2))
                    sd = max(sd, least_sd(self.values))
                    spread = Spread(np.full(len(at), mean), np.full(len(at), sd))
                    held = shared.only(np.arange(len(rows))[some])
                    log_p[:] = log_predicted(at, donors.values[None], weights, spread, held)
                else:
                    n = (weights * (donors.values == at[:, None])).sum(axis=1)
                    log_p[:] = log_level(n, float(donors.k), variable.n_levels)
        return out


@dataclass(frozen=True, slots=True, eq=False)
class PMMMechanism:
    """Predictive mean matching with fixed donors; rows have the table's columns, then others."""

    data: Microdata
    steps: tuple[Step, ...]
    constraints: tuple[Constraint, ...]
    filled: bool  # whether recipients show kept values of later columns instead of their own
    seconds: float  # what the fits took

    @property
    def notes(self) -> tuple[str, ...]:
        """What the fits had to say."""
        return tuple(note for step in self.steps for note in step.notes)

    @property
    def columns(self) -> list[int]:
        """Synthesised columns in their order."""
        return [step.column for step in self.steps]

    def synthesize(self, rows: Codes, rng: Rng) -> tuple[Codes, int]:
        """Synthetic rows (R, p + e) of recipients, and how often the nearest donor was refused."""
        out = self._fill(rows, rng) if self.filled else rows.copy()
        refused = 0
        for step in self.steps:
            allowed = self._allowed(out, step)
            if allowed is not None and not allowed.any(axis=1).all():
                raise ModelError(
                    f"no kept value of column {self.data.columns[step.column]!r} makes "
                    f"{int((~allowed.any(axis=1)).sum())} of the synthetic records possible; "
                    "loosen constraints, synthesise more columns, or change their order"
                )
            means = step.means(out)
            out[:, step.column], more = step.donors.draw(means, allowed, rng)
            refused += more
        return out, refused

    def _fill(self, rows: Codes, rng: Rng) -> Codes:
        """Deleted values replaced by a random sample of the kept ones, each variable by itself."""
        out = rows.copy()
        left = np.arange(len(rows))
        for _ in range(TRIES):
            for step in self.steps:
                out[left, step.column] = rng.choice(step.values, size=len(left), p=step.shares)
            left = left[~self._rows_allowed(out[left])]
            if not len(left):
                return out
        raise ModelError(
            f"the constraints allow none of {TRIES:,} combinations of values tried for "
            f"{len(left)} of the records to synthesise; loosen constraints, or synthesise more "
            "columns (order)"
        )

    def _rows_allowed(self, rows: Codes) -> Flags:
        return allowed_rows(self.data, rows[:, : len(self.data.columns)], self.constraints)

    def _allowed(self, rows: Codes, step: Step) -> Flags | None:
        """Donors' values a row may take (R, D), any if later columns must mend it; None: all."""
        if not self.constraints:
            return None
        values, place = np.unique(step.donors.values, return_inverse=True)
        tried = np.repeat(rows[:, : len(self.data.columns)], len(values), axis=0)
        tried[:, step.column] = np.tile(values, len(rows))
        unique, back = np.unique(tried, axis=0, return_inverse=True)
        answer = self._rows_allowed(unique)[back.ravel()]
        allowed: Flags = answer.reshape(len(rows), len(values))[:, place]
        if step is not self.steps[-1]:
            allowed |= ~allowed.any(axis=1, keepdims=True)
        return allowed

    def log_chances(self, rows: Codes, z: Codes) -> Array:
        """log p(synthetic values z of each row | the row, kept records), step by step (q, R).

        ``rows`` (R, p + e) are confidential, ``z`` (R, q). Of fill-ins the mean is taken, by what
        the steps before say of them; a step that cannot have been says nothing.
        """
        rows = rows.astype(float)
        if self.filled:
            rows[:, self.columns] = z  # own values are not looked at
        keys, back = np.unique(np.column_stack([rows, z]), axis=0, return_inverse=True)
        fills, weights = self._fills()
        F = len(fills)
        tried = np.repeat(keys[:, : rows.shape[1]], F, axis=0)
        tried[:, self._drawn()] = np.tile(fills, (len(keys), 1))
        released = np.repeat(keys[:, rows.shape[1] :], F, axis=0)
        chance = np.tile(weights, len(keys))
        if self.filled:
            chance = chance * self._rows_allowed(tried)
        fill = _shared(chance.reshape(-1, F))
        out = np.empty((len(self.steps), len(keys)))
        for place, step in enumerate(self.steps):
            each, alive = np.zeros(len(tried)), np.flatnonzero(fill.ravel() > 0)
            each[alive] = self._chance_of(step, tried[alive], released[alive, place])
            taken = fill * each.reshape(-1, F)
            with np.errstate(divide="ignore"):
                out[place] = np.log(taken.sum(axis=1))
            possible = taken.any(axis=1)
            fill[possible] = _shared(taken[possible])
            tried[:, step.column] = released[:, place]
        return out[:, back.ravel()]

    def _chance_of(self, step: Step, rows: Array, value: Array) -> Array:
        """Chance that each row takes such a value of the step's variable, shape (R,)."""
        keys, back = np.unique(np.column_stack([rows, value]), axis=0, return_inverse=True)
        unique, wanted = keys[:, :-1], keys[:, -1]
        allowed = self._allowed(unique, step)
        own = np.zeros(len(unique))
        some = np.arange(len(unique)) if allowed is None else np.flatnonzero(allowed.any(axis=1))
        for part in blocks(len(some), len(step.donors.values)):
            block = some[part]
            chances = step.donors.chances(
                step.means(unique[block]), None if allowed is None else allowed[block]
            )
            own[block] = (chances * (step.donors.values == wanted[block, None])).sum(axis=1)
        return own[back.ravel()]

    def _drawn(self) -> list[int]:
        """Columns whose fill-in matters: not the first's, unless constraints look at it."""
        if not self.filled:
            return []
        return self.columns if self.constraints else self.columns[1:]

    def _fills(self) -> tuple[Array, Array]:
        """Every fill-in (F, q) and how often it is drawn (F,), constraints aside."""
        steps = [step for step in self.steps if step.column in self._drawn()]
        count = prod(len(step.values) for step in steps)
        if count > MAX_FILLS:
            raise InputError(
                f"there are {count:,} combinations of values that the deleted ones may be filled "
                f"in with, more than the {MAX_FILLS:,} that can be enumerated; cut numbers into "
                'categories, synthesise fewer columns, or use `later="genuine"`'
            )
        values = list(product(*(step.values for step in steps)))
        shares = product(*(step.shares for step in steps))
        return np.array(values).reshape(len(values), -1), np.array([float(prod(s)) for s in shares])


def _shared(weights: Array) -> Array:
    """Rows that sum to one; rows of zeros stay."""
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(weights / np.where(total > 0, total, 1.0))


def fit_mechanism(
    data: Microdata,
    variables: Sequence[Variable | Number],
    kept: Codes,
    kinds: Mapping[int, str],
    model: Any,
) -> PMMMechanism:
    """Fit every prediction model of a `PMM` to the kept rows (n', p + e), whatever their order."""
    began = time.perf_counter()
    alike, count = np.unique(kept, axis=0, return_counts=True)
    whole = np.repeat(alike, count, axis=0)
    steps = []
    for column, kind in kinds.items():
        others = [j for j in range(kept.shape[1]) if j != column]
        means, notes = fit_means(kind, whole, column, variables, others)
        values, times = np.unique(whole[:, column], return_counts=True)
        given = means(alike), alike[:, column].astype(float), count.astype(float)
        donors = Donors(*given, model.donors)
        steps.append(Step(column, means, notes, donors, values.astype(float), times / times.sum()))
    seconds = time.perf_counter() - began
    filled = model.later == "filled"
    return PMMMechanism(data, tuple(steps), tuple(model.constraints), filled, seconds)
