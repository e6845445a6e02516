"""Realised privacy loss of every record, frozen."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr
from scipy.special import expit, logit

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import factor, in_brackets
from bayes_risk._core.formats import number as written
from bayes_risk._core.validate import number
from bayes_risk.data.base_result import (
    OfTargets,
    Table,
    Words,
    doubtful,
    for_file,
    measures,
    of_records,
)
from bayes_risk.data.variables import Number, Variable

WORDS: Words = {
    "max_privacy_loss": ("Privacy loss, worst record", "number"),
    "q95_privacy_loss": ("Privacy loss, 95th percentile", "number"),
    "median_privacy_loss": ("Privacy loss, median", "number"),
    "max_even_odds_become": ("Even odds become, at most", "number"),
    "max_among_possible": ("Privacy loss among guesses that are possible, largest", "number"),
    "with_guesses_ruled_out": ("Records of whom guesses are ruled out", "count"),
    "targets": ("Records audited", "count"),
    "unreliable": ("Marked unreliable", "count"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PrivacyLoss(OfTargets):
    """``eps_i = max over y*, y' of |log p(Z | y*, A) - log p(Z | y', A)|`` over a record's guesses.

    Realised: of this release and these data, among these guesses. It is no guarantee of
    differential privacy, which is the largest such loss over all releases and all data.

    Attributes
    ----------
    index : pandas.Index, length n
        Labels of the n targets.
    case : ndarray of int, shape (n,)
        The case that each belongs to.
    loss : ndarray, shape (n_cases,)
        eps_i; infinite where the release rules a guess out.
    mcse : ndarray, shape (n_cases,)
        Monte Carlo standard error of the loss, the two extreme guesses being taken as they are; two
        of them reach the loss in each mode that the release leaves open. Of an `AttributeRisk`,
        which keeps no deviations of guesses, an upper bound, or with chains that the release led
        the sum of both guesses' errors. NaN if infinite.
    low : ndarray, shape (n_cases,)
        The extremes are picked on one half of the draws and their distance is measured on the
        other: in expectation not above the loss, as ``loss`` is in expectation not below it.
        NaN where that cannot be done.
    among_possible : ndarray, shape (n_cases,)
        The loss among guesses that the release does not rule out.
    ruled_out : ndarray of int, shape (n_cases,)
        Number of guesses that the release rules out.
    khat : ndarray, shape (n_cases,)
        Largest k-hat of the weights.
    reliable : ndarray of bool, shape (n_cases,)
        False where the diagnostics of the evidence say that it cannot be trusted.
    variables : tuple of Variable or Number, length q
        The guessed variables.
    extremes : ndarray, shape (2, n_cases, q)
        Codes of the guesses that the release speaks for most, and least.
    assumptions : mapping of str to str
        What the intruder knows, in words.
    seed_entropy : str
        The seed that made the evidence.
    """

    index: pd.Index
    case: Ints
    loss: Array
    mcse: Array
    low: Array
    among_possible: Array
    ruled_out: Ints
    khat: Array
    reliable: Flags
    variables: tuple[Variable | Number, ...]
    extremes: npt.NDArray[Any]
    assumptions: Mapping[str, str]
    seed_entropy: str
    PICTURE: ClassVar[str] = "plot_privacy_loss"

    @property
    def records(self) -> pd.DataFrame:
        """One row per target, indexed as the input.

        Columns: ``privacy_loss`` eps_i; its ``mcse``; ``low`` (see the class); ``odds_factor``
        exp(eps_i), by which the odds of two guesses move at most; ``even_odds_become``, the
        probability that a guess held at even odds can reach at most; ``among_possible`` and
        ``ruled_out``; ``khat``; ``reliable``. Without the release the loss is 0.
        """
        with np.errstate(over="ignore"):
            factor = np.exp(self.loss)
        columns = {
            "privacy_loss": self.loss,
            "mcse": self.mcse,
            "low": self.low,
            "odds_factor": factor,
            "even_odds_become": expit(self.loss),
            "among_possible": self.among_possible,
            "ruled_out": self.ruled_out,
            "khat": self.khat,
            "reliable": self.reliable,
        }
        return pd.DataFrame({k: v[self.case] for k, v in columns.items()}, index=self.index)

    def summary(self) -> pd.DataFrame:
        """File level; columns ``value``, ``mcse``, ``low`` and ``baseline`` (without the release).

        Rows: ``max_privacy_loss`` (of the file: the largest of the records'),
        ``q95_privacy_loss``, ``median_privacy_loss``; ``max_even_odds_become``;
        ``max_among_possible``; ``with_guesses_ruled_out``, ``targets``, ``unreliable`` (numbers of
        records). ``mcse`` and ``low`` are those of the record that holds the maximum; the maximum
        of noisy losses lies above the largest loss, and ``low`` does not share that bias.
        """
        table, nan = self.records, float("nan")
        loss = table["privacy_loss"]
        top = table.iloc[int(np.argmax(loss))]
        p = top["even_odds_become"]
        rows = {
            "max_privacy_loss": (loss.max(), top["mcse"], table["low"].max(), 0.0),
            "q95_privacy_loss": (_quantile(loss, 0.95), nan, _quantile(table["low"], 0.95), 0.0),
            "median_privacy_loss": (_quantile(loss, 0.5), nan, _quantile(table["low"], 0.5), 0.0),
            "max_even_odds_become": (p, p * (1 - p) * top["mcse"], expit(table["low"].max()), 0.5),
            "max_among_possible": (table["among_possible"].max(), nan, nan, 0.0),
            "with_guesses_ruled_out": (float((table["ruled_out"] > 0).sum()), nan, nan, 0.0),
            "targets": (float(len(table)), nan, nan, nan),
            "unreliable": (float((~table["reliable"]).sum()), nan, nan, nan),
        }
        return pd.DataFrame.from_dict(
            rows, orient="index", columns=["value", "mcse", "low", "baseline"]
        )

    def bounds(self, prior: float) -> pd.DataFrame:
        """What the probability of a guess, or of any set of guesses, can become.

        Posterior odds differ from prior odds by at most the factor exp(eps_i), so a probability p
        stays between ``p / (p + (1 - p) exp(eps_i))`` and ``p exp(eps_i) / (p exp(eps_i) + 1 - p)``
        whatever the prior within and outside the set.

        Parameters
        ----------
        prior : float
            Probability before the release, between 0 and 1.

        Returns
        -------
        DataFrame
            One row per target: ``lowest`` and ``highest``.
        """
        if not 0 <= number("prior", prior, "a number from 0 to 1") <= 1:
            raise InputError(f"prior={prior!r} is no probability; give a number from 0 to 1")
        eps = self.loss[self.case]
        if prior in (0, 1):  # nothing moves a certainty
            low = high = np.full(len(eps), float(prior))
        else:
            low, high = expit(logit(prior) - eps), expit(logit(prior) + eps)
        return pd.DataFrame({"lowest": low, "highest": high}, index=self.index)

    def extreme_guesses(self, label: Hashable) -> pd.DataFrame:
        """The guesses of a record that the release speaks for most and least; near the truth."""
        codes = self.extremes[:, self.case[self.position(label)]]
        return self.decoded(codes, pd.Index(["most", "least"]))

    @property
    def dataset(self) -> xr.Dataset:
        """The records as labelled arrays for NetCDF; no confidential values."""
        return of_records(self)

    def tables(self) -> dict[str, Table]:
        """Measures; the records."""
        return {
            "measures": measures(self.summary(), WORDS, caption="The audited records."),
            "records": for_file(self.records, "privacy_loss"),
        }

    def line(self) -> str:
        """The loss of the median record, and the largest that is not infinite."""
        rows = self.summary()["value"]
        ruled = int(rows["with_guesses_ruled_out"])
        infinite = f"; infinite for {ruled:,}, of whom guesses are ruled out" if ruled else ""
        return (
            f"{written(rows['median_privacy_loss'], 2)} for the median record, at most "
            f"{written(rows['max_among_possible'], 2)} (0 without the release){infinite}"
            f"{doubtful(self)}"
        )

    def sentence(self) -> str:
        """The result in plain words."""
        table = self.records
        top = table.iloc[int(np.argmax(table["privacy_loss"]))]
        ruled = int((table["ruled_out"] > 0).sum())
        if ruled:
            moved = (
                f"For {ruled:,} of {len(table):,} records this release rules guesses out for "
                "certain, so that their privacy loss is infinite; among the guesses left, odds "
                f"move by at most the factor {factor(np.exp(table['among_possible'].max()))}."
            )
        else:
            error = in_brackets(top["mcse"], top["privacy_loss"])
            moved = (
                "This release moves the odds between two guesses for a record by at most the "
                f"factor {factor(top['odds_factor'])}: a largest privacy loss of "
                f"{written(top['privacy_loss'])}{error}, and "
                f"{written(_quantile(table['privacy_loss'], 0.5))} for the median record (0 "
                "without the release)."
            )
        doubtful = int((~table["reliable"]).sum())
        doubt = f" {doubtful:,} records are marked unreliable." if doubtful else ""
        return (
            f"{self.assumptions['records']} {moved} That is what this release does with these data "
            f"and these guesses, no guarantee of differential privacy.{doubt}"
        )


def _quantile(values: pd.Series, q: float) -> float:
    """The value that so many records do not exceed; infinite ones count."""
    return float(np.quantile(values.to_numpy(), q, method="inverted_cdf"))
