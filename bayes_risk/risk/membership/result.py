"""Membership of each record asked about, and how well it can be told, frozen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit

from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import PLUS_MINUS, factor, number, two_errors
from bayes_risk.data.base_result import (
    Public,
    Result,
    Table,
    Words,
    doubtful,
    draw,
    for_file,
    measures,
    of_records,
)

from .curve import BASELINE, GRID, MEASURES, Standing, level, power

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORDS: Words = {
    "auc": ("How often the release points to the member of a pair", "share"),
    "power_at_1_percent": ("Members found, taking 1 of 100 others for one", "share"),
    "power_at_5_percent": ("Members found, taking 5 of 100 others for one", "share"),
    "median_log_bayes_factor": ("Log Bayes factor of a member, median", "number"),
    "max_log_bayes_factor": ("Log Bayes factor of a member, largest", "number"),
    "max_probability": ("Probability that a member is in the data, largest", "number"),
    "members": ("Members asked about", "count"),
    "others": ("People outside the data asked about", "count"),
    "unreliable": ("Marked unreliable", "count"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Membership(Result):
    """Log Bayes factors that records are in the confidential data, against somebody else.

    ``BF = p(Z | A, c) / E[p(Z | A, y')]``, y' from p(. | A): is the record that the intruder does
    not know the candidate c, or somebody else?

    Attributes
    ----------
    index : pandas.Index, length N
        Labels as given: members by those of the confidential table, then the others by their own.
    member : ndarray of bool, shape (N,)
        Whether the record is in the confidential data.
    log_bayes_factor : ndarray, shape (N,)
        Of a member, for its own place; of others, the mean over the places asked about. Minus
        infinity: the release rules it out.
    mcse : ndarray, shape (N,)
        Monte Carlo standard error of the log Bayes factor.
    khat, ess : ndarray, shape (N,)
        Largest k-hat and smallest effective number of draws over the fits; NaN for others, who
        share those of the places.
    reliable : ndarray of bool, shape (N,)
        False where the diagnostics say that the number cannot be trusted.
    standing : Standing, of arrays of one entry a member
        Where each stands among the others asked about for the same place.
    prior_odds : float
        Odds of membership before the release.
    measures, standard_error, mcse_of_measures : ndarray, shape (6,)
        Of the curve: value, its error over which persons were asked about (bootstrap), and over the
        draws. NaN without others.
    assumptions : mapping of str to str
        What the intruder knows, in words.
    seed_entropy : str
        The seed that made it.
    """

    index: pd.Index
    member: Flags
    log_bayes_factor: Array
    mcse: Array
    khat: Array
    ess: Array
    reliable: Flags
    standing: Standing
    prior_odds: float
    measures: Array
    standard_error: Array
    mcse_of_measures: Array
    assumptions: Mapping[str, str]
    seed_entropy: str

    @property
    def records(self) -> pd.DataFrame:
        """One row per record asked about, labelled as given; members first.

        Columns: ``member`` (is it in the data); ``log_bayes_factor``; its ``mcse``;
        ``posterior_odds`` (prior odds times the Bayes factor) and ``probability`` of membership;
        ``prior`` probability; ``false_positive_rate``, at which an intruder finds this member (0.5
        without the release; NaN for others); ``khat``; ``ess``; ``reliable``.
        """
        log_odds = np.log(self.prior_odds) + self.log_bayes_factor
        with np.errstate(over="ignore"):
            odds = np.exp(log_odds)
        found_at = np.full(len(odds), np.nan)
        if self.has_others:
            found_at[self.member] = level(self.standing)
        columns = {
            "member": self.member,
            "log_bayes_factor": self.log_bayes_factor,
            "mcse": self.mcse,
            "posterior_odds": odds,
            "probability": expit(log_odds),
            "prior": np.full(len(odds), self.prior),
            "false_positive_rate": found_at,
            "khat": self.khat,
            "ess": self.ess,
            "reliable": self.reliable,
        }
        return pd.DataFrame(columns, index=self.index)

    @property
    def prior(self) -> float:
        """Probability of membership before the release."""
        return self.prior_odds / (1 + self.prior_odds)

    @property
    def has_others(self) -> bool:
        """Whether people outside the data were asked about."""
        return not self.member.all()

    def roc(self) -> pd.DataFrame:
        """Share of members found by an intruder who accepts that share of others for each place.

        Columns ``false_positive_rate`` and ``true_positive_rate``, on a grid from 0 to 1.
        """
        if not self.has_others:
            raise InputError(
                "nobody outside the data was asked about; give others=, held-out records of the "
                "same population"
            )
        rates = np.append(0.0, GRID)
        found = [power(self.standing, rate).mean() for rate in rates]
        return pd.DataFrame({"false_positive_rate": rates, "true_positive_rate": found})

    def summary(self) -> pd.DataFrame:
        """File level; columns ``value``, ``standard_error``, ``mcse``, ``baseline``.

        Rows: ``auc`` (how often the release points to the member of a pair, which is the power
        averaged over all false positive rates); ``power_at_1_percent`` and ``power_at_5_percent``
        (share of members found at that false positive rate); ``advantage`` (true less false
        positive rate where that is largest, chosen afterwards, so above 0 even by chance) and
        ``advantage_at_one`` (where the intruder accepts whoever has a Bayes factor above 1);
        ``mean_bayes_factor_of_others`` (1 where the model is true); ``median_log_bayes_factor`` and
        ``max_log_bayes_factor`` of members; ``max_probability`` of a member's membership;
        ``members``, ``others``, ``unreliable`` (numbers of records). ``standard_error`` is over
        which persons were asked about, ``mcse`` over the draws, and the baseline is what an
        intruder without the release can do.
        """
        nan = float("nan")
        rows = {
            name: tuple(map(float, found))
            for name, *found in zip(
                MEASURES,
                self.measures,
                self.standard_error,
                self.mcse_of_measures,
                BASELINE,
                strict=True,
            )
        }
        log_bf = np.where(self.member, self.log_bayes_factor, -np.inf)
        top, error = float(log_bf.max()), float(self.mcse[int(np.argmax(log_bf))])
        p = float(expit(np.log(self.prior_odds) + top))
        median = float(np.median(self.log_bayes_factor[self.member]))
        rows["median_log_bayes_factor"] = (median, nan, nan, 0.0)
        rows["max_log_bayes_factor"] = (top, nan, error, 0.0)
        rows["max_probability"] = (p, nan, p * (1 - p) * error, self.prior)
        rows["members"] = (float(self.member.sum()), nan, nan, nan)
        rows["others"] = (float((~self.member).sum()), nan, nan, nan)
        rows["unreliable"] = (float((~self.reliable).sum()), nan, nan, nan)
        columns = ["value", "standard_error", "mcse", "baseline"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    @property
    def dataset(self) -> xr.Dataset:
        """The records as labelled arrays for NetCDF; no confidential values but who is a member."""
        return of_records(self)

    def plot(self, ax: "Axes | None" = None, *, log: bool = False) -> "Axes":
        """The curve of `roc`; ``log``: on logarithmic axes, which show the small rates."""
        return draw("plot_roc", self, log=log, ax=ax)

    def sentence(self) -> str:
        """The result in plain words."""
        doubtful = int((~self.reliable).sum())
        doubt = f" {doubtful:,} of these numbers are marked unreliable." if doubtful else ""
        largest = (
            f"A member's odds of being in the data change by at most the factor {self._top()}."
        )
        told = ""
        if self.has_others:
            auc, error = self._auc()
            told = (
                "Of a member and somebody outside the data, the release points to the member "
                f"{auc} times in 100 (+- {error}; 50 without the release). Taking 5 of 100 people "
                "outside the data for members, the intruder finds "
                f"{number(100 * self.measures[2], 1)} of 100 members (5 without the release). "
            )
        return f"{self.assumptions['records']} {told}{largest}{doubt}"

    def tables(self) -> dict[str, Table]:
        """Measures of the curve and of members; the records asked about."""
        rows = self.summary()
        told = rows["value"]
        fewer = int(min(told["members"], told["others"]))
        auc = Public("Chance to tell the member of a pair", told["auc"], fewer, free=True)
        return {
            "measures": measures(rows, WORDS, caption="Persons asked about.", public=[auc]),
            "records": for_file(self.records, "membership"),
        }

    def line(self) -> str:
        """How often the member of a pair is told, or how far odds move."""
        if not self.has_others:
            return (
                f"the odds that a member is in the data change by at most the factor {self._top()} "
                f"(1 without the release){doubtful(self)}"
            )
        auc, error = self._auc()
        return (
            f"the member of a pair is told {auc} times in 100 ({PLUS_MINUS} {error}; 50 without "
            f"the release){doubtful(self)}"
        )

    def _top(self) -> str:
        """By how much the odds of a member change at most."""
        with np.errstate(over="ignore"):
            return factor(float(np.exp(self.log_bayes_factor[self.member].max())))

    def _auc(self) -> tuple[str, str]:
        """How often of 100 the release points to the member, and two standard errors."""
        error = np.hypot(self.standard_error[0], self.mcse_of_measures[0])
        return number(100 * self.measures[0], 1), two_errors(100 * error, digits=1)
