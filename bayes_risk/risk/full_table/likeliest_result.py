"""The values a search found for each target, frozen."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.formats import number
from bayes_risk.data.base_result import OfTargets, Result, Table, for_file, of_records
from bayes_risk.data.variables import Number, Variable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Likeliest(OfTargets):
    """The values found for each target, and what is known of those that were not.

    Attributes
    ----------
    index : pandas.Index, length n
        Labels of the targets.
    case : ndarray of int, shape (n,)
    variables : tuple, length q
        The guessed variables.
    n_values : int
        Number of combinations of their levels.
    truth : ndarray of int, shape (n_cases, q)
        Codes of the true values.
    codes : sequence of ndarray of int, shape (k, q)
        Values found for each case, likeliest first.
    log_probability, log_prior : sequence of ndarray, shape (k,)
        Of the values found: probabilities where ``exact``, else shares among those found.
    log_truth, log_prior_truth : ndarray, shape (n_cases,)
        Log probability of the truth (an upper bound unless ``exact``) and its log prior.
    rank : ndarray of float, shape (n_cases,)
        Rank of the truth among all values, or, where ``found`` is False, one more than the number
        of likelier values found.
    found : ndarray of bool, shape (n_cases,)
        Whether the rank is certain: no value that was not found can be likelier.
    unseen : ndarray, shape (n_cases,)
        Probability of all values neither found nor true; NaN unless ``exact``.
    bound : ndarray, shape (n_cases,)
        No value that was not found is more probable; NaN unless ``exact``.
    exact : bool
        Whether the posterior could be normalised (one release, predictive prior).
    assumptions : mapping of str to str
    seed_entropy : str
    """

    index: pd.Index
    case: Ints
    variables: tuple[Variable | Number, ...]
    n_values: int
    truth: Ints
    codes: Sequence[Ints]
    log_probability: Sequence[Array]
    log_prior: Sequence[Array]
    log_truth: Array
    log_prior_truth: Array
    rank: Array
    found: Flags
    unseen: Array
    bound: Array
    exact: bool
    assumptions: Mapping[str, str]
    seed_entropy: str
    PICTURE: ClassVar[str] = "plot_likeliest"

    @property
    def records(self) -> pd.DataFrame:
        """One row per target.

        Columns: ``prior`` and ``probability`` of the truth (an upper bound unless ``exact``);
        ``rank`` and whether it is certain (``found``; else the truth is at that place or beyond);
        ``values`` found, the probability of all others (``unseen``) and of any of them at most
        (``bound``); ``best`` and ``best_distance`` of the likeliest value.
        """
        best = np.stack([codes[0] for codes in self.codes])
        columns = {
            "prior": np.exp(self.log_prior_truth),
            "probability": np.exp(self.log_truth),
            "rank": self.rank,
            "found": self.found,
            "values": np.array([len(codes) for codes in self.codes]),
            "unseen": self.unseen,
            "bound": self.bound,
            "best": np.exp([log_p[0] for log_p in self.log_probability]),
            "best_distance": (best != self.truth).sum(axis=1),
        }
        return pd.DataFrame({k: v[self.case] for k, v in columns.items()}, index=self.index)

    def summary(self) -> pd.DataFrame:
        """File level: one row per measure, columns ``value`` and ``baseline``.

        Rows: ``mean_probability`` and ``max_probability`` of the truth (upper bounds unless
        ``exact``); ``share_found``: of records whose rank is certain; ``median_rank`` (of the
        others the smallest it can be); ``mean_unseen``; ``values``; ``targets``. The baseline is
        what the intruder could say without the release.
        """
        table = self.records
        p, prior, none = table["probability"], table["prior"], np.nan
        rows = {
            "mean_probability": (p.mean(), prior.mean()),
            "max_probability": (p.max(), prior.max()),
            "share_found": (table["found"].mean(), none),
            "median_rank": (table["rank"].median(), none),
            "mean_unseen": (table["unseen"].mean(), none),
            "values": (self.n_values, none),
            "targets": (len(table), none),
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=["value", "baseline"])

    @property
    def dataset(self) -> xr.Dataset:
        """Everything about the records, labelled ``record``; no confidential values."""
        return of_records(self)

    def top(self, label: Hashable, k: int = 10) -> pd.DataFrame:
        """The likeliest values of one record: columns as `FullTableRisk.top`."""
        u = int(self.case[self.position(label)])
        codes = self.codes[u][:k]
        values = self.decoded(codes.astype(np.int32))
        values["prior"] = np.exp(self.log_prior[u][:k])
        values["probability"] = np.exp(self.log_probability[u][:k])
        values["distance"] = (codes != self.truth[u]).sum(axis=1)
        values["is_truth"] = values["distance"] == 0
        return values

    def sentence(self) -> str:
        """The result in plain words."""
        table = self.records
        certain = int(table["found"].sum())
        at_most = "" if self.exact else "at most "
        seen = (
            f" All other values that were not found have {number(table['unseen'].mean())} on "
            "average."
            if self.exact
            else ""
        )
        return (
            f"{self.assumptions['records']} Among {self.n_values:,} values of "
            f"{len(self.variables)} columns the rank of the truth is certain for {certain:,} of "
            f"{len(table):,} records; the intruder gives the truth {at_most}"
            f"{number(table['probability'].max())} in the worst case.{seen}"
        )

    def tables(self) -> dict[str, Table]:
        """Measures; the records."""
        return Result.tables(self) | {"records": for_file(self.records, "likeliest")}
