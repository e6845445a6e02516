"""What the intruder's posterior over the full table says of each record, frozen."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import variance_of_estimate
from bayes_risk._core.formats import in_brackets, number
from bayes_risk.data.base_result import OfTargets, Words, doubtful, for_file, measures, storable
from bayes_risk.data.base_result import Table as Shown
from bayes_risk.data.microdata import Microdata
from bayes_risk.data.variables import Number, Variable
from bayes_risk.evidence.contract import Targets

from .spread import Spread
from .tables import Table, WeightedDraws

WORDS: Words = {
    "mean_probability": ("Probability of the true values, mean over records", "number"),
    "max_probability": ("Probability of the true values, worst record", "number"),
    "median_rank": ("Rank of the true values among all values, median", "place"),
    "share_ranked_first": ("Share of records whose truth is the likeliest value", "share"),
    "share_in_first_100": ("Share of records whose truth is among the first 100", "share"),
    "mean_within_1": ("Posterior within 1 variable of the truth, mean", "number"),
    "mean_within_2": ("Posterior within 2 variables of the truth, mean", "number"),
    "values": ("Values considered", "count"),
    "targets": ("Records audited", "count"),
    "unreliable": ("Marked unreliable", "count"),
}
# of a `Spread`, by the same names
NUMBERS = (
    *("log_prior", "log_probability", "mcse", "mcse_log_odds", "rank", "prior_rank"),
    *("within_1", "within_2", "entropy", "eps"),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FullTableRisk(OfTargets):
    """The intruder's posterior for each target over all values of the unknown columns.

    Arrays live on cases, as in `AttributeRisk`.

    Attributes
    ----------
    index : pandas.Index, length n
        Labels of the n targets.
    case : ndarray of int, shape (n,)
        The case that each target belongs to.
    variables : tuple of Variable or Number, length q
        The guessed variables.
    n_values : ndarray of int, shape (n_cases,)
        Number of values that are possible.
    truth : ndarray of int, shape (n_cases, q)
        Codes of the true values.
    log_prior, log_probability : ndarray, shape (n_cases,)
        Of the truth.
    mcse, mcse_log_odds : ndarray, shape (n_cases,)
        Monte Carlo standard errors of the probability of the truth, and of its log odds.
    deviations : ndarray, shape (F, B, n_cases)
        How far each batch of draws of each fit moves the probability of the truth.
    rank : ndarray, shape (n_cases,)
        Expected rank of the truth among all values, 1 the likeliest, ties in any order.
    rank_low, rank_high : ndarray, shape (n_cases,)
        The rank, were the log odds of the truth two standard errors larger, or smaller.
    prior_rank : ndarray, shape (n_cases,)
        Rank of the truth without the release.
    within_1, within_2 : ndarray, shape (n_cases,)
        Share of the posterior on values that differ from the truth in at most 1, or 2, variables.
    entropy : ndarray, shape (n_cases,)
        Of the posterior, in nats.
    eps : ndarray, shape (n_cases,)
        Realised privacy loss: largest less smallest log evidence over all values.
    khat, ess : ndarray, shape (n_cases,)
        Of the leave-one-out weights: largest over fits, smallest over fits.
    reliable : ndarray of bool, shape (n_cases,)
    best : ndarray of int, shape (k, n_cases, q)
        Codes of the likeliest values.
    best_log_probability, best_log_prior : ndarray, shape (k, n_cases)
    n_draws : tuple of int, length F
        Draws of each fit in use, the base fit first.
    assumptions : mapping of str to str
        What the intruder knows and believes, in words.
    seed_entropy : str
        The seed that made it.
    """

    index: pd.Index
    case: Ints
    variables: tuple[Variable | Number, ...]
    n_values: Ints
    truth: Ints
    log_prior: Array
    log_probability: Array
    mcse: Array
    mcse_log_odds: Array
    deviations: Array
    rank: Array
    rank_low: Array
    rank_high: Array
    prior_rank: Array
    within_1: Array
    within_2: Array
    entropy: Array
    eps: Array
    khat: Array
    ess: Array
    reliable: Flags
    best: Ints
    best_log_probability: Array
    best_log_prior: Array
    n_draws: tuple[int, ...]
    assumptions: Mapping[str, str]
    seed_entropy: str
    PICTURE: ClassVar[str] = "plot_full_table"

    @classmethod
    def of(
        cls,
        found: Sequence[Spread],
        fits: Sequence[WeightedDraws],
        *,
        microdata: Microdata,
        cases: Targets,
        table: Table,
        **rest: Any,
    ) -> "FullTableRisk":
        """Gather the posteriors of all cases."""
        numbers: Any = {name: np.array([getattr(s, name) for s in found]) for name in NUMBERS}
        return cls(
            variables=tuple(microdata.variables[j] for j in cases.columns),
            n_values=np.array([s.n_cells for s in found]),
            truth=cases.profiles[:, cases.columns].astype(np.int64),
            deviations=np.stack([s.deviations for s in found], axis=-1),
            rank_low=np.array([s.rank_span[0] for s in found]),
            rank_high=np.array([s.rank_span[1] for s in found]),
            khat=np.max([fit.khat for fit in fits], axis=0),
            ess=np.min([fit.ess for fit in fits], axis=0),
            best=np.stack([table.codes(s.top) for s in found], axis=1),
            best_log_probability=np.stack([s.top_log_probability for s in found], axis=1),
            best_log_prior=np.stack([s.top_log_prior for s in found], axis=1),
            n_draws=tuple(len(fit.draws) for fit in fits),
            **numbers,
            **rest,
        )

    @property
    def records(self) -> pd.DataFrame:
        """One row per target, indexed as the input.

        Columns: ``prior`` and ``probability`` of the truth, ``mcse`` of the probability; ``rank``
        of the truth among all values (1: the likeliest; ties share their places), ``rank_low`` and
        ``rank_high`` (two standard errors either way) and ``prior_rank`` (without the release);
        ``within_1`` and ``within_2`` (share of the posterior that differs from the truth in at most
        1 or 2 variables); ``best`` (probability of the likeliest value) and ``best_distance`` (in
        how many variables it differs from the truth); ``entropy`` in nats and ``n_effective``, its
        exponential; ``eps`` (realised privacy loss over all values); ``khat``; ``ess``;
        ``reliable``.
        """
        columns = {
            "prior": np.exp(self.log_prior),
            "probability": np.exp(self.log_probability),
            "mcse": self.mcse,
            "rank": self.rank,
            "rank_low": self.rank_low,
            "rank_high": self.rank_high,
            "prior_rank": self.prior_rank,
            "within_1": self.within_1,
            "within_2": self.within_2,
            "best": np.exp(self.best_log_probability[0]),
            "best_distance": (self.best[0] != self.truth).sum(axis=1),
            "entropy": self.entropy,
            "n_effective": np.exp(self.entropy),
            "eps": self.eps,
            "khat": self.khat,
            "ess": self.ess,
            "reliable": self.reliable,
        }
        return pd.DataFrame({k: v[self.case] for k, v in columns.items()}, index=self.index)

    def summary(self) -> pd.DataFrame:
        """File level: one row per measure, columns ``value``, ``mcse`` and ``baseline``.

        Rows: ``mean_probability``, ``max_probability`` of the truth; ``median_rank``,
        ``share_ranked_first`` and ``share_in_first_100``; ``mean_within_1``, ``mean_within_2``;
        ``median_n_effective``; ``max_eps``; ``values``; ``targets``; ``unreliable``. The baseline
        is what the intruder could say without the release.
        """
        table, none = self.records, np.nan
        worst = int(np.argmax(table["probability"]))
        rows = {
            "mean_probability": (
                table["probability"].mean(),
                self._mcse_of_mean(),
                table["prior"].mean(),
            ),
            "max_probability": (
                table["probability"].max(),
                table["mcse"].iloc[worst],
                table["prior"].max(),
            ),
            "median_rank": (table["rank"].median(), none, table["prior_rank"].median()),
            "share_ranked_first": (
                (table["rank"] < 1.5).mean(),
                none,
                (table["prior_rank"] < 1.5).mean(),
            ),
            "share_in_first_100": (
                (table["rank"] <= 100).mean(),
                none,
                (table["prior_rank"] <= 100).mean(),
            ),
            "mean_within_1": (table["within_1"].mean(), none, none),
            "mean_within_2": (table["within_2"].mean(), none, none),
            "median_n_effective": (table["n_effective"].median(), none, none),
            "max_eps": (table["eps"].max(), none, none),
            "values": (int(self.n_values.max()), none, none),
            "targets": (len(table), none, none),
            "unreliable": (int((~table["reliable"]).sum()), none, none),
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=["value", "mcse", "baseline"])

    def top(self, label: Hashable, k: int = 10) -> pd.DataFrame:
        """The likeliest values of one record, likeliest first; at most as many as were kept.

        Columns: the guessed variables, then ``prior``, ``probability``, ``distance`` (in how many
        variables it differs from the truth) and ``is_truth``. Contains confidential values.
        """
        u = int(self.case[self.position(label)])
        codes = self.best[:k, u]
        values = self.decoded(codes.astype(np.int32))
        values["prior"] = np.exp(self.best_log_prior[:k, u])
        values["probability"] = np.exp(self.best_log_probability[:k, u])
        values["distance"] = (codes != self.truth[u]).sum(axis=1)
        values["is_truth"] = values["distance"] == 0
        return values

    @property
    def dataset(self) -> xr.Dataset:
        """All of it, labelled ``record, guess, variable``. Holds confidential values."""
        data: dict[str, Any] = {
            str(name): (("record",), column.to_numpy()) for name, column in self.records.items()
        }
        data["best_log_probability"] = (
            ("guess", "record"),
            self.best_log_probability[:, self.case],
        )
        data["best_log_prior"] = (("guess", "record"), self.best_log_prior[:, self.case])
        data["best_code"] = (("guess", "record", "variable"), self.best[:, self.case])
        data["truth_code"] = (("record", "variable"), self.truth[self.case])
        coords = {
            "record": storable(self.index),
            "guess": np.arange(1, len(self.best) + 1),
            "variable": np.array([v.name for v in self.variables], dtype=str),
        }
        attrs = {f"assumption_{k}": v for k, v in self.assumptions.items()}
        attrs |= {f"levels_{v.name}": "\n".join(v.labels) for v in self.variables}
        return xr.Dataset(data, coords, attrs | {"random_seed": self.seed_entropy})

    def sentence(self) -> str:
        """The result in plain words."""
        table = self.records
        worst = table.iloc[int(np.argmax(table["probability"]))]
        doubtful = int((~table["reliable"]).sum())
        error = in_brackets(worst["mcse"], worst["probability"])
        doubt = f"{doubtful:,} records are" if doubtful != 1 else "1 record is"
        return (
            f"{self.assumptions['records']} Among all {int(self.n_values.max()):,} values of "
            f"{len(self.variables)} columns the truth has rank {table['rank'].median():,.0f} in "
            f"the median of {len(table):,} records ({table['prior_rank'].median():,.0f} without "
            f"the release) and ranks first for {int((table['rank'] < 1.5).sum()):,}; the intruder "
            f"gives it {number(worst['probability'])}{error} in the worst case "
            f"({number(worst['prior'])} without the release). {doubt} marked unreliable."
        )

    def tables(self) -> dict[str, Shown]:
        """Measures; the records."""
        n = len(self.index)
        caption = f"{n:,} records, among all values of the unknown columns."
        return {
            "measures": measures(self.summary(), WORDS, caption=caption),
            "records": for_file(self.records, "full_table"),
        }

    def line(self) -> str:
        """For how many records the truth is the likeliest value, and its median place."""
        table = self.records
        first, before = (int((table[c] < 1.5).sum()) for c in ("rank", "prior_rank"))
        return (
            f"of {len(table):,} records the truth is the likeliest of {int(self.n_values.max()):,} "
            f"values for {first:,} ({before:,} without the release), median place "
            f"{table['rank'].median():,.0f} ({table['prior_rank'].median():,.0f}){doubtful(self)}"
        )

    def _mcse_of_mean(self) -> float:
        """Records share their draws, so the error of a mean is taken from batch means."""
        means = self.deviations[:, :, self.case].mean(axis=2, keepdims=True)
        return float(np.sqrt(variance_of_estimate(means)[0]))
