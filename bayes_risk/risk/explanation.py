"""What drives the risk of a record: its log Bayes factor shared out to data sets and columns.

Let ``x_g`` be the log likelihood ratio of the truth against another guess g, a sum over data sets l
and synthesised columns c,

    x_g = sum_l sum_c x_glc,    x_glc = log p(Z_c^(l) | Z_<c^(l), y_i, A) - the same of g,

and ``pi_g`` its prior given that it is not the truth that holds. The Bayes factor B of the truth
against all other guesses is ``-log B = log sum_g pi_g exp(-x_g)``: no sum over l and c. But let the
evidence in little by little, to the power t (power posteriors: Friel & Pettitt 2008):

    w_g(t) = pi_g exp(-t x_g) / sum_h pi_h exp(-t x_h),    d/dt log B(t) = sum_g w_g(t) x_g,

so that with ``w_g``, the mean of ``w_g(t)`` over t from 0 (prior) to 1 (posterior),

    log B = sum_g w_g x_g = sum_l sum_c (sum_g w_g x_glc).

What stands in brackets is the contribution of column c of data set l, the value of Aumann & Shapley
(1974): contributions add up exactly, no order of data sets or columns is chosen, and against a
single other guess they are its log likelihood ratios. Guesses that the release rules out
(``x_g`` infinite), of prior R together, leave at once, and add ``-log(1 - R)``: it is shared out by
their priors, that of a guess equally among the data sets that rule it out, and within each among
the columns that do.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import number, percent, plus_minus
from bayes_risk._core.logspace import log_sum
from bayes_risk.data.base_result import Result

ALL, ALL_COLUMNS = "all", "all columns"
TOLERANCE = 1e-10  # of the integral over t


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Explanation(Result):
    """Log Bayes factor of a record's true values by data set and synthesised column.

    Attributes
    ----------
    label : hashable
        The record.
    contributions : DataFrame, shape (m + 1, k + 1)
        One row per data set, numbered from 1, and "all"; one column per synthesised column, and
        "all columns". Rows and columns add up to these, and they to the log Bayes factor.
        Negative: speaks against the truth. NaN: of large audits columns are kept over all data sets
        alone. No other row: data sets come from one draw of the parameters; no other column: the
        evidence is of all of them together.
    mcse : Series, length m + 1
        Monte Carlo standard error of the row "all"; of a data set, what the error of its evidence
        brings into that, to first order. NaN: not known. Of columns it is not known; exact evidence
        has none.
    ruled_out : DataFrame, shape (m + 1, k + 1)
        Prior probability of the other guesses that are ruled out, shared out likewise.
    no_columns : str
        Why the evidence is not divided among columns; empty: it is.
    """

    label: Hashable
    contributions: pd.DataFrame
    mcse: pd.Series
    ruled_out: pd.DataFrame
    no_columns: str

    @property
    def total(self) -> float:
        """The log Bayes factor; infinite where every other guess is ruled out."""
        return float(self.contributions[ALL_COLUMNS].iloc[-1])

    def most(self) -> tuple[Any, Any]:
        """Data set and column that disclose most; None where none does, or it is unknown.

        Where every other guess is ruled out: those that rule out most.
        """
        table = self.contributions if np.isfinite(self.total) else self.ruled_out
        sides = table[ALL_COLUMNS].iloc[:-1], table.loc[ALL].iloc[:-1]
        row, column = (side.idxmax() if (side > 0).any() else None for side in sides)
        return row, column

    def part(self, row: Any = ALL, column: Any = ALL_COLUMNS) -> str:
        """A contribution in words; of an infinite log Bayes factor the share in ruling out.

        With two standard errors where they are known.
        """
        finite = np.isfinite(self.total)
        found: Any = (self.contributions if finite else self.ruled_out).at[row, column]
        if not finite:
            return percent(float(found))
        mcse = float(self.mcse[row]) if column == ALL_COLUMNS else np.nan
        error = f" {plus_minus(mcse, float(found), 2)}" if mcse > 0 else ""
        return number(float(found), 2) + error

    def most_in_words(self) -> str:
        """Data set and column that disclose most, with their parts; empty: none does."""
        row, column = self.most()
        parts = [] if row is None else [f"data set {row} ({self.part(row)})"]
        parts += [] if column is None else [f"column {column} ({self.part(column=column)})"]
        return " and ".join(parts)

    def summary(self) -> pd.DataFrame:
        """The contributions; of each row its error, and what it rules out."""
        rest = {"mcse": self.mcse, "ruled_out": self.ruled_out[ALL_COLUMNS]}
        return pd.concat([self.contributions, pd.DataFrame(rest)], axis=1)


def explanation(risk: Any, position: int) -> Explanation:
    """The target at a position of `records`; see `AttributeRisk.explain`."""
    u, label = int(risk.case[position]), risk.index[position]
    why = settled(risk, u)
    if why:
        raise InputError(f"there is nothing to explain of record {label!r}: {why}")
    truth, log_prior, factors = risk.truth[u], risk.log_prior[:, u], risk.factors
    # x by data set and column, shape (m + 1, k + 1, G), sums last; NaN where the evidence by column
    # was summed over data sets
    by_release = -risk.log_evidence[:, :, u]  # relative to the truth's already
    names = [] if isinstance(factors, str) else factors.synthesized
    x = np.zeros((len(by_release) + 1, len(names) + 1, len(log_prior)))
    x[:-1, -1], x[-1, -1] = by_release, by_release.sum(axis=0)
    if names:
        moved = [names.index(c) for c in factors.columns]
        log_p = factors.log_p[..., u].swapaxes(0, 1)  # shape (m or 1, k, G)
        cells = log_p[:, :, truth, None] - log_p
        x[-1, moved] = cells.sum(axis=0)
        x[:-1, moved] = cells if len(cells) == len(by_release) else np.nan
    others = np.isfinite(log_prior) & (np.arange(len(log_prior)) != truth)
    log_pi = log_prior[others] - log_sum(log_prior[others])
    found, ruled_out = shared_out(x[..., others], log_pi)
    m = len(risk.log_evidence) if len(risk.log_evidence) > 1 else 0
    errors = np.full((m, u + 1), np.nan) if risk.mcse_by_release is None else risk.mcse_by_release
    index = pd.Index([*range(1, m + 1), ALL], name="data_set")

    def framed(table: Array) -> pd.DataFrame:
        return pd.DataFrame(np.concatenate([table[:m], table[-1:]]), index, [*names, ALL_COLUMNS])

    return Explanation(
        label=label,
        contributions=framed(found),
        mcse=pd.Series([*errors[:m, u], risk.mcse_log_bayes_factor[u]], index),
        ruled_out=framed(ruled_out),
        no_columns=factors if isinstance(factors, str) else "",
    )


def settled(risk: Any, u: int) -> str:
    """Why the log Bayes factor of a case has no parts; empty: it has."""
    log_prior, truth = risk.log_prior[:, u], risk.truth[u]
    if risk.disclosed[u]:
        return "it was released unchanged, and is known for certain"
    if not np.isfinite(log_prior[truth]) or np.isfinite(log_prior).sum() == 1:
        return "the prior settles it; give one with some mass on the truth and on other guesses"
    if np.isneginf(risk.log_probability[truth, u]):
        return "the release rules out its true values"
    return ""


def shared_out(x: Array, log_pi: Array) -> tuple[Array, Array]:
    """Contributions (m + 1, k + 1), and prior of what is ruled out, shared out likewise.

    ``x`` (m + 1, k + 1, G): log likelihood ratios of the truth against each other guess by data set
    and column, the last of both the sums; ``log_pi`` (G,): their prior, which sums to 1. Cost: some
    hundred passes over x.
    """
    from scipy.integrate import quad_vec  # slow

    out: Flags = x[-1, -1] == np.inf
    ruled_out = _shares(x[..., out]) @ np.exp(log_pi[out])
    if out.all():
        return np.where(ruled_out > 0, np.inf, ruled_out), ruled_out
    left = x[..., ~out]
    log_pi, total = log_pi[~out], left[-1, -1]
    parts = left.reshape(-1, left.shape[-1])
    unknown = np.isnan(parts[:, :1])
    parts = np.where(unknown, 0.0, parts)

    def mean(t: float) -> Array:
        """sum_g w_g(t) x_g."""
        log_w = log_pi - t * total
        return np.asarray(parts @ np.exp(log_w - log_sum(log_w)))

    # all happens near t = 0 where guesses are far apart, so t is cut at halves, quarters, ...
    cuts = 0.5 ** np.arange(1, 3 + int(np.log2(1.0 + np.ptp(total))))
    mean_over_t = quad_vec(
        mean, 0.0, 1.0, epsabs=TOLERANCE, epsrel=TOLERANCE, norm="max", points=cuts
    )[0]
    found: Array = np.where(unknown[:, 0], np.nan, mean_over_t).reshape(left.shape[:-1])
    if out.any():
        found += ruled_out / ruled_out[-1, -1] * -log_sum(log_pi)  # -log(1 - R)
    return found, ruled_out


def _shares(x: Array) -> Array:
    """Of each guess that is ruled out, how much each data set and column has to do with it."""
    by_release = _equally(x[:-1, -1] == np.inf)
    cells = x[:-1, :-1]
    out = np.empty(x.shape)
    out[:-1, -1], out[-1, -1] = by_release, 1.0
    out[:-1, :-1] = _equally(cells == np.inf, axis=1) * by_release[:, None]
    out[:-1, :-1][np.isnan(cells)] = np.nan
    out[-1, :-1] = out[:-1, :-1].sum(axis=0)
    if np.isnan(cells).any():
        out[-1, :-1] = _equally(x[-1, :-1] == np.inf)
    return out


def _equally(those: Flags, axis: int = 0) -> Array:
    """Shares of those that are marked along an axis; of all, where none is."""
    count = those.sum(axis=axis, keepdims=True)
    whole = 1.0 / max(those.shape[axis], 1)
    return np.asarray(np.where(count > 0, those / np.maximum(count, 1), whole))
