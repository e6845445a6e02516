"""How close the intruder comes: posteriors of single variables, and distances of numbers.

Every measure is taken over the posterior on the guesses, exactly, and beside it (``_prior``) over
the prior: what the intruder could say without the release. What a distance is measured from is the
true guess. Where a grid lets its nearest value stand for the truth, that value is the true guess.

**Monte Carlo error.** A result keeps the standard error of each guess's log evidence, not how these
depend on each other: probabilities and expectations come with an upper bound of their error,
``sum_g p_g |f_g - E[f]| sd(E_g)``. Modes and regions are steps, and have none.

Shapes: G joint guesses of U cases in k variables; at most K different values a case, ascending (by
the first variable, then the next); a case that has fewer of them is padded at the end with its
largest values, which get no probability.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import log_sum
from bayes_risk._core.validate import in_range, positive
from bayes_risk.data.base_result import OfTargets
from bayes_risk.data.variables import Number

TIE = 1e-9  # relative difference of probabilities that rounding explains


class Marginal(NamedTuple):
    """Prior and posterior over values, of every case."""

    values: npt.NDArray[Any]  # (K, U, k), ascending
    filled: Flags  # (K, U); False for padding
    prior: Array  # (K, U); columns sum to 1
    posterior: Array  # (K, U)
    spread: Array  # (K, U): sum over a value's guesses of posterior times error of log evidence
    truth: Ints  # (U,): which value is the true one

    @property
    def true_values(self) -> npt.NDArray[Any]:
        """Values of the truth, shape (U, k)."""
        return self.values[self.truth, np.arange(len(self.truth))]

    @property
    def is_truth(self) -> Flags:
        """True at the true value, shape (K, U)."""
        return np.asarray(np.arange(len(self.values))[:, None] == self.truth)


def _marginal(
    risk: "GuessPosterior",
    variables: Sequence[int],
    u: npt.NDArray[np.integer],
    without: Any = None,
) -> Marginal:
    """Distribution over the values of some variables, for cases u, in time O(U G log G).

    Given that the first variable is not ``without``, if that is not None.
    """
    codes, truth = risk.guesses[:, u][:, :, list(variables)], risk.truth[u]
    log_prior, log_p = risk.log_prior[:, u], risk.log_probability[:, u]
    mcse = risk.mcse_log_evidence[:, u]
    if without is not None:
        gone = codes[..., 0] == without
        logs = [np.where(gone, -np.inf, x) for x in (log_prior, log_p)]
        log_prior, log_p = (x - np.maximum(log_sum(x), -1e300) for x in logs)
    own = codes[truth, np.arange(len(truth))]  # shape (U, k)
    codes = np.where(np.isfinite(log_prior)[..., None], codes, own)
    # number of each guess's value among the ascending values of its case, shape (G, U)
    columns = np.moveaxis(codes, 2, 0)
    order = np.lexsort(columns[::-1], axis=0) if len(columns) > 1 else columns[0].argsort(axis=0)
    ordered = np.take_along_axis(codes, order[..., None], axis=0)
    number = np.zeros(order.shape, dtype=np.int64)
    number[1:] = np.cumsum((ordered[1:] != ordered[:-1]).any(axis=2), axis=0)
    group = np.empty_like(number)
    np.put_along_axis(group, order, number, axis=0)
    size = group.max(axis=0) + 1  # shape (U,)
    K, U = int(size.max()), len(truth)

    def total(x: Array) -> Array:
        cell = (group * U + np.arange(U)).ravel()
        added = np.bincount(cell, weights=x.ravel(), minlength=K * U).astype(float)
        return added.reshape(K, U)

    p = np.exp(log_p)
    values = np.repeat(codes.max(axis=0, keepdims=True), K, axis=0)
    values[group, np.arange(U)] = codes
    return Marginal(
        values=values,
        filled=np.arange(K)[:, None] < size,
        prior=total(np.exp(log_prior)),
        posterior=total(p),
        spread=total(np.where(p > 0, p * mcse, 0.0)),
        truth=group[truth, np.arange(U)],
    )


def modes(m: Marginal) -> tuple[Array, Array]:
    """The likeliest value with and without the release, as weights (K, U): 1, 0 or 1 / ties."""
    likeliest = [p >= p.max(axis=0) * (1 - TIE) for p in (m.posterior, m.prior)]
    with_release, without = (np.asarray(each / each.sum(axis=0)) for each in likeliest)
    return with_release, without


def smallest_region(p: Array, mass: float) -> Array:
    """Membership (K, U) in the smallest set that holds the mass; ties share the last places."""
    ordered = -np.sort(-p, axis=0)
    size = (np.cumsum(ordered, axis=0) < mass * (1 - TIE)).sum(axis=0) + 1  # shape (U,)
    least = np.take_along_axis(ordered, np.minimum(size, len(p))[None] - 1, axis=0)
    above, at_limit = p > least * (1 + TIE), np.abs(p - least) <= least * TIE
    left = size - above.sum(axis=0)
    return np.asarray(above + at_limit * (left / at_limit.sum(axis=0)))


def widths(values: Array, filled: Flags) -> Array:
    """Widths (K, U) of cells around ascending values, half way to neighbours; padding has none."""
    gap = np.diff(values, axis=0)  # shape (K - 1, U)
    outside = np.zeros((1, values.shape[1]))
    below, above = np.concatenate([outside, gap]), np.concatenate([gap, outside])
    last = np.arange(len(values))[:, None] == filled.sum(axis=0) - 1
    width: Array = (below + above) / 2
    width[last], width[0] = below[last], above[0]
    return width


Columns = dict[str, npt.NDArray[Any]]
BLOCK = 4_000_000  # guesses of cases at a time
KEPT = 1_000_000  # the most values of cases whose marginals are kept
SHARES = ("mode_is_truth", "truth_in_region")
ROUNDING = 1e-9  # relative, of the length of an interval


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GuessPosterior(OfTargets):
    """The intruder's posterior over guesses, and what it says of single variables.

    Arrays live on cases, as in `AttributeRisk`, which says what they are.
    """

    guesses: npt.NDArray[Any]
    truth: Ints
    log_prior: Array
    log_probability: Array
    mcse_log_evidence: Array
    reliable: Flags

    def marginal_posterior(self, label: Hashable, variable: str) -> pd.DataFrame:
        """The intruder's posterior for one variable of one record, one row per value, ascending.

        ``Pr(Y_ij = y*_j | Z, A, S)``: the joint posterior added up over the other guessed
        variables.

        Columns: the variable, then ``prior``, ``probability``, ``mcse_bound`` (upper bound of the
        standard error of the probability) and ``is_truth``. Contains confidential values.

        Parameters
        ----------
        label : hashable
            A record, as in ``risk.index``.
        variable : str
            A guessed variable, a number or a category.
        """
        j = _position(self, variable)
        m = _marginal(self, [j], self.case[[self.position(label)]])
        P, spread = m.posterior[:, 0], m.spread[:, 0]
        # f_v = 1 at value v alone: spread_v (1 - P_v) + (sum of the other spreads) P_v
        bound = spread * (1 - P) + (spread.sum() - spread) * P
        found = {
            variable: self.variables[j].decode(m.values[:, 0, 0], pd.RangeIndex(len(m.values))),
            "prior": m.prior[:, 0],
            "probability": P,
            "mcse_bound": bound,
            "is_truth": m.is_truth[:, 0],
        }
        return pd.DataFrame(found)

    def marginal_probability(self) -> pd.DataFrame:
        """Probability of each variable's true value, whatever the values of the others.

        Indexed as ``risk.records``; columns in two levels, the variable and ``prior``,
        ``probability``, ``mcse_bound`` (upper bound of the standard error).
        """
        names = {"p_prior": "prior", "p": "probability", "p_mcse_bound": "mcse_bound"}
        tables = {
            variable.name: by_record(
                self, [j], lambda m: expected("p", m.is_truth.astype(float), m)
            )[list(names)].rename(columns=names)
            for j, variable in enumerate(self.variables)
        }
        return pd.concat(tables, axis=1)

    def closeness(
        self,
        variable: str,
        *,
        within: float | Sequence[float] | None = None,
        percent: float | Sequence[float] | None = None,
        mass: float = 0.9,
    ) -> pd.DataFrame:
        """How close the intruder comes to a number, record by record.

        With ``y`` the true value and ``Y`` the intruder's posterior for it: the distance of the
        mode, ``E|Y - y|``, ``E(Y - y)^2``, ``Pr(|Y - y| <= r)``, and the smallest set of values
        that holds 90 % of the posterior. (Distance of the marginal mode: Hornby & Hu 2021,
        arXiv:2103.09805.) Of a number that may be missing, distances and ``region_length`` are
        given that it is not, and NaN for records without one.

        Parameters
        ----------
        variable : str
            A guessed variable that is a number.
        within : float or list of float, optional
            Distances r, in the unit of the variable; the interval is closed.
        percent : float or list of float, optional
            Distances in percent of ``|y|``. Where the true value is 0, only 0 itself is within.
        mass : float
            Posterior probability that the region holds, above 0 and at most 1.

        Returns
        -------
        DataFrame
            Indexed as ``risk.records``. Small errors, probabilities near 1 and small regions that
            hold the truth mean that the intruder comes close. Columns, each with ``<name>_prior``:

            - ``mode_error``: ``|mode - y|``; ``mode_is_truth``: 1 or 0. Where several values are
              likeliest the intruder picks one at random, so these are the mean over them.
            - ``expected_absolute_error``, ``expected_squared_error``, ``probability_of_truth``,
              ``probability_within_<r>``, ``probability_within_<p>_percent``: also with
              ``<name>_mcse_bound``.
            - ``region_size``: number of values; ``region_length``: sum of the widths of their
              cells, each of which reaches half way to the neighbouring guesses;
              ``truth_in_region``: 1 or 0. Values that tie for the last places share them.

            Last, ``reliable``, as in ``risk.records``.
        """
        j = number_among(self, variable)
        # by name of the column: distances, absolute and in percent of the truth
        given = (("within", within, ""), ("percent", percent, "_percent"))
        intervals = {
            f"probability_within_{x:.12g}{end}": (x, 0.0) if end == "" else (0.0, x)
            for name, values, end in given
            for x in np.ravel([] if values is None else values).tolist()
            if positive(name, x)
        }
        in_range("mass", mass)
        missing: Any = self.variables[j].missing
        found = by_record(self, [j], lambda m: _closeness(m, missing, intervals, mass))
        gone = np.asarray(self.guesses[:, :, j] == missing)  # shape (G, U)
        if gone.any():
            some = (np.isfinite(self.log_probability) & ~gone).any(axis=0)
            there = some & ~gone[self.truth, np.arange(gone.shape[1])]
            of = found.filter(regex="^(mode_error|expected_|region_length)").columns
            among = by_record(self, [j], lambda m: _closeness(m, missing, {}, mass), missing)[of]
            found[of] = np.where(there[self.case, None], among, np.nan)
        return found.assign(reliable=self.reliable[self.case])

    def probability_between(
        self, label: Hashable, variable: str, low: float, high: float
    ) -> pd.Series:
        """Probability that the intruder gives to an interval of one number of one record.

        ``Pr(low <= Y_ij <= high | Z, A, S)``; both ends belong to it. A series of ``prior``,
        ``probability``, ``mcse_bound`` (upper bound of its standard error).
        """
        if not low <= high:
            raise InputError("low", low, f"and high={high!r} are in the wrong order")
        j = number_among(self, variable)
        m = _marginal(self, [j], self.case[[self.position(label)]])
        values = m.values[..., 0].astype(float)
        missing: Any = self.variables[j].missing
        inside = (values >= low) & (values <= high) & (values != missing)
        found = expected("probability", inside.astype(float), m)
        row = {name: float(found[f"probability{end}"][0]) for name, end in ENDS.items()}
        return pd.Series(row, name=label)

    def closeness_summary(self, *, mass: float = 0.9) -> pd.DataFrame:
        """File level: how close the intruder comes to each number on average.

        One row per guessed variable that is a number; the columns of `closeness` with ``mean_`` or,
        for ``mode_is_truth`` and ``truth_in_region``, ``share_`` in front: means over records. The
        mean of the ``_mcse_bound`` bounds the standard error of the mean, for records share their
        draws. Last, ``records``: how many have the number; distances are averaged over these.
        """

        def averaged(column: str) -> str:
            return f"share_{column}" if column.startswith(SHARES) else f"mean_{column}"

        rows = {}
        for variable in self.variables:
            if isinstance(variable, Number):
                table = self.closeness(variable.name, mass=mass).drop(columns="reliable")
                rows[variable.name] = table.rename(columns=averaged).mean()
                rows[variable.name]["records"] = table["mode_error"].count()
        return pd.DataFrame(rows).T


def expected(name: str, f: Array, m: Marginal) -> Columns:
    """Mean of f (K, U), a bound of its error (those of guesses added up), and the prior mean."""
    return {
        name: (mean := (m.posterior * f).sum(axis=0)),
        f"{name}_mcse_bound": (m.spread * np.abs(f - mean)).sum(axis=0),
        f"{name}_prior": (m.prior * f).sum(axis=0),
    }


HALF = 0.5  # of what is expected: values that hold more are not near


def nearest_values(risk: "GuessPosterior", variables: Sequence[int]) -> pd.DataFrame:
    """Probability of the values nearest to the truth, as near as the release adds most to it.

    Of a number these are the values at most so far from the true one, as far as the prior gives
    them one half at most; of several numbers those of which each, by itself, holds the same prior
    probability; categories have their true level. Whatever a grid's steps, they are nearly the same
    values. One row per record: ``prior``, ``probability``, ``mcse_bound``.
    """

    def measure(m: Marginal) -> Columns:
        (K, U), at = m.prior.shape, np.arange(m.prior.shape[1])
        far = np.zeros((K, U))
        for q, j in enumerate(variables):
            values = m.values[..., q].astype(float)
            error = np.abs(values - values[m.truth, at])
            if not isinstance(risk.variables[j], Number):
                far = np.where(error > 0, np.inf, far)
            elif len(variables) == 1:
                far = error
            else:  # the prior's mass of all values that are as near; floating point apart
                cumulated = _cumulated(m.prior, error)
                far = np.maximum(far, np.where(error > 0, cumulated, 0.0))
            missing: Any = getattr(risk.variables[j], "missing", None)
            own = values[m.truth, at] == missing
            far = np.where((values == missing) != own, np.inf, far)
        prior, p = _cumulated(m.prior, far), _cumulated(m.posterior, far)
        inside = np.isfinite(far) & ((prior <= HALF) | (far == 0))
        best = np.where(inside, p - prior, -np.inf).argmax(axis=0)
        near = (far <= far[best, at] * (1 + TIE)).astype(float)
        found = expected("probability", near, m)
        return {name: found[f"probability{end}"] for name, end in ENDS.items()}

    return by_record(risk, variables, measure)


ENDS = {"prior": "_prior", "probability": "", "mcse_bound": "_mcse_bound"}


def _cumulated(p: Array, far: Array) -> Array:
    """Sum of p (K, U) over all values that are as far or nearer, ties of rounding together."""
    order = np.argsort(far, axis=0, kind="stable")
    ordered = np.take_along_axis(far, order, axis=0)
    total = np.cumsum(np.take_along_axis(p, order, axis=0), axis=0)
    with np.errstate(invalid="ignore"):
        equal = ordered[:-1] >= ordered[1:] * (1 - TIE)
    for k in range(len(total) - 2, -1, -1):
        total[k] = np.where(equal[k], total[k + 1], total[k])
    out = np.empty_like(total)
    np.put_along_axis(out, order, total, axis=0)
    return out


def with_prior(name: str, f: Array, weights: tuple[Array, Array]) -> Columns:
    """Sum of f (K, U) over the values, weighted once for the posterior and once for the prior."""
    return {name: (weights[0] * f).sum(axis=0), f"{name}_prior": (weights[1] * f).sum(axis=0)}


def by_record(
    risk: "GuessPosterior",
    variables: Sequence[int],
    measure: Callable[[Marginal], Columns],
    without: Any = None,
) -> pd.DataFrame:
    """Measures of every case, block by block, laid out by record; ``without``: see `_marginal`."""
    G, U = risk.log_prior.shape
    size = max(1, BLOCK // G)
    some = [np.arange(start, min(start + size, U)) for start in range(0, U, size)]
    blocks = [measure(_of_block(risk, variables, u, U, without)) for u in some]
    return risk.by_target({k: np.concatenate([block[k] for block in blocks]) for k in blocks[0]})


# Of the results that were looked at last: their arrays, and marginals by variables and block.
# A verdict and a page need each some ten times.
_last: list[tuple[tuple[Any, ...], dict[tuple[Any, ...], Marginal]]] = []


def _of_block(
    risk: "GuessPosterior",
    variables: Sequence[int],
    u: npt.NDArray[np.integer],
    U: int,
    without: Any,
) -> Marginal:
    """`_marginal`, kept where all cases together have few values."""
    arrays = risk.guesses, risk.log_prior, risk.log_probability, risk.mcse_log_evidence
    same = (f for of, f in _last if all(a is b for a, b in zip(of, arrays, strict=True)))
    found = next(same, None)
    if found is None:
        found = {}
        _last[:] = [(arrays, found), *_last[:1]]
    place = (*variables, int(u[0]), len(u), without)
    m = found.get(place) or _marginal(risk, variables, u, without)
    if m.prior.size * U <= KEPT * len(u):
        found[place] = m
    return m


def number_among(risk: "GuessPosterior", variable: str) -> int:
    """Place of a guessed variable, which must be a number."""
    j = _position(risk, variable)
    if not isinstance(risk.variables[j], Number):
        raise InputError(
            f"variable {variable!r} is a category, and categories have no distances; see "
            f"risk.marginal_probability() or risk.posterior(label, {variable!r}), or fit it as a "
            f"number: Microdata.from_frame(..., numbers=[{variable!r}])"
        )
    return j


def _closeness(
    m: Marginal, missing: Any, intervals: Mapping[str, tuple[float, float]], mass: float
) -> Columns:
    """All measures of the cases of a block."""
    values, y = m.values[..., 0].astype(float), m.true_values[:, 0].astype(float)
    error, is_truth = np.abs(values - y), m.is_truth.astype(float)
    columns = with_prior("mode_error", error, modes(m))
    columns |= with_prior("mode_is_truth", is_truth, modes(m))
    columns |= expected("expected_absolute_error", error, m)
    columns |= expected("expected_squared_error", error**2, m)
    columns |= expected("probability_of_truth", is_truth, m)
    for name, (absolute, percent) in intervals.items():
        r = absolute + percent / 100 * np.abs(y)
        # a grid's values are rounded, in proportion to their own size
        near = error <= r * (1 + ROUNDING) + 8 * np.finfo(float).eps * np.abs(y)
        near = np.where(y == missing, np.nan, near & (values != missing))
        columns |= expected(name, near, m)
    inside = smallest_region(m.posterior, mass), smallest_region(m.prior, mass)
    size = with_prior("region_size", np.ones_like(error), inside)
    columns |= {name: np.round(count) for name, count in size.items()}
    columns |= with_prior("region_length", widths(values, m.filled), inside)
    return columns | with_prior("truth_in_region", is_truth, inside)


def _position(risk: "GuessPosterior", variable: str) -> int:
    names = [v.name for v in risk.variables]
    if variable not in names:
        raise InputError(f"variable {variable!r} is not guessed in this result; it has {names}")
    return names.index(variable)
