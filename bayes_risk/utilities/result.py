"""Utility of releases, frozen."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_risk._core.formats import number, plain

from .compared_tables import MARGIN_MEASURES, PAIR_MEASURES
from .inferences import COLUMNS
from .propensity import MAX_PREDICTORS, MEASURES, MODELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[np.float64]

GOOD = 3.0  # Raab, Nowok & Dibben (2021): S_pMSE of tables below 3 needs no more tuning


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Utility:
    """How like the original m releases are, by release and on average; made by `utility`.

    Attributes
    ----------
    margin_names : tuple of str, length J
        Synthesised columns.
    pair_names : tuple of (str, str), length P
        Pairs of columns of which one at least was synthesised.
    estimate_names : tuple of (str, str), length K
        Analysis and quantity.
    scores : ndarray, shape (m, 3, 7)
        Propensity-score measures by release and model.
    margin_measures : ndarray, shape (m, J, 8)
    pair_measures : ndarray, shape (m, P, 14)
    combined : ndarray, shape (K, 10)
        Estimates from the original and from all releases together.
    agreement : ndarray, shape (m, K, 2)
        Standardised difference and interval overlap of each release on its own.
    synthesized, unsynthesized : tuple of str
        Columns compared.
    left_out : tuple of str
        Columns of the original that some release lacks.
    n_records : tuple of int, length m + 1
        Records of the original and of each release.
    rules : str
        Combining rules for the releases.
    confidence : float
        Of the intervals.
    permutations : int
        Trees grown for the null of CART, over all releases together.
    seed_entropy : str
        The seed that made it.

    See Also
    --------
    bayes_risk.utility : Makes it; formulas, cost and references.
    """

    margin_names: tuple[str, ...]
    pair_names: tuple[tuple[str, str], ...]
    estimate_names: tuple[tuple[str, str], ...]
    scores: Array
    margin_measures: Array
    pair_measures: Array
    combined: Array
    agreement: Array
    synthesized: tuple[str, ...]
    unsynthesized: tuple[str, ...]
    left_out: tuple[str, ...]
    n_records: tuple[int, ...]
    rules: str
    confidence: float
    permutations: int
    seed_entropy: str

    @property
    def m(self) -> int:
        """Number of releases."""
        return len(self.scores)

    @property
    def propensity(self) -> pd.DataFrame:
        """One row per release and model of the propensity score.

        Columns: ``pmse``; ``null_pmse`` and ``null_sd``, its expectation and standard deviation for
        a release drawn from the truth; ``ratio`` (pMSE over its expectation: S_pMSE);
        ``standardized`` (difference from the expectation in standard deviations); ``specks``;
        ``df`` (k - 1; of a tree, leaves less 1). NaN: not fitted, too many predictors.
        """
        rows = pd.MultiIndex.from_product(
            [range(1, self.m + 1), MODELS], names=["release", "model"]
        )
        return pd.DataFrame(self.scores.reshape(-1, len(MEASURES)), rows, list(MEASURES))

    @property
    def margins(self) -> pd.DataFrame:
        """One row per synthesised column, the worst first; means over releases.

        Columns: ``pmse``, ``null_pmse``, ``df``, ``ratio`` of the saturated model (S_pMSE);
        ``total_variation`` and ``hellinger`` distance (0 to 1), each with what a release drawn from
        the original's proportions would show (``null_``); ``ratio_sd``, between releases.
        """
        table = self._means(self.margin_measures, MARGIN_MEASURES)
        table.index = pd.Index(self.margin_names, name="column")
        return table.sort_values("ratio", ascending=False, kind="stable")

    @property
    def pairs(self) -> pd.DataFrame:
        """One row per pair of columns, the worst first; means over releases.

        Columns as in `margins`, and mutual information in nats (of the cut columns) and Pearson
        correlation (of two numbers): of the original, of the release, and their difference.
        """
        table = self._means(self.pair_measures, PAIR_MEASURES)
        table.index = pd.MultiIndex.from_tuples(
            list(self.pair_names) or [("", "")][:0], names=["first", "second"]
        )
        return table.sort_values("ratio", ascending=False, kind="stable")

    @property
    def estimates(self) -> pd.DataFrame:
        """One row per analysis and quantity: the original's estimate and the releases' combined.

        Columns: ``original`` with its ``std_error_original``, ``low_original`` and
        ``high_original``; ``release`` (combined over releases) with ``std_error``, ``low``,
        ``high``; ``standardized_difference`` (release less original, in the original's standard
        errors); ``interval_overlap`` (1: the same interval; below 0: a gap).
        """
        rows = pd.MultiIndex.from_tuples(
            list(self.estimate_names) or [("", "")][:0], names=["analysis", "quantity"]
        )
        return pd.DataFrame(self.combined, rows, list(COLUMNS))

    def summary(self) -> pd.DataFrame:
        """File level, one row per measure.

        Rows, for each model (``main``, ``interactions``, ``cart``): ``pmse_``, ``ratio_``,
        ``standardized_``, ``specks_``; of the tables ``margins_`` and ``pairs_``
        ``total_variation`` and ``hellinger`` (means), ``worst_ratio``; ``pairs_``
        ``mutual_information`` and ``correlation`` (largest absolute difference); with analyses
        ``interval_overlap`` (mean) and ``lowest_interval_overlap``,
        ``largest_standardized_difference``, of each release on its own.

        Columns: ``value`` (mean over releases); ``sd``, ``lowest`` and ``highest`` over releases;
        ``null``, what a release drawn from the truth shows on average (NaN: not known).
        """
        rows = {**self._propensity_rows(), **self._table_rows(), **self._estimate_rows()}
        return pd.DataFrame.from_dict(
            {name: _spread(values, null) for name, (values, null) in rows.items()},
            orient="index",
            columns=["value", "sd", "lowest", "highest", "null"],
        ).rename_axis("measure")

    @property
    def dataset(self) -> xr.Dataset:
        """All numbers as labelled arrays for NetCDF; no record of the original is in them."""
        margin = list(self.margin_names)
        pair = [f"{a} x {b}" for a, b in self.pair_names]
        estimate = [f"{a}: {q}" for a, q in self.estimate_names]
        data = {
            **_arrays("", ("release", "model"), self.scores, MEASURES),
            **_arrays("margin_", ("release", "margin"), self.margin_measures, MARGIN_MEASURES),
            **_arrays("pair_", ("release", "pair"), self.pair_measures, PAIR_MEASURES),
            **_arrays("estimate_", ("estimate",), self.combined, COLUMNS),
            **_arrays(
                "release_",
                ("release", "estimate"),
                self.agreement,
                ("standardized_difference", "interval_overlap"),
            ),
        }
        labels = {"model": MODELS, "margin": margin, "pair": pair, "estimate": estimate}
        coords = {k: np.array([str(x) for x in v], dtype=str) for k, v in labels.items()}
        attrs = {
            "synthesized": ", ".join(map(str, self.synthesized)),
            "unsynthesized": ", ".join(map(str, self.unsynthesized)),
            "rules": self.rules,
            "confidence": self.confidence,
            "random_seed": self.seed_entropy,
        }
        return xr.Dataset(data, {"release": np.arange(1, self.m + 1), **coords}, attrs)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """S_pMSE of every pair of columns (below the diagonal) and column (on it); 1: by chance."""
        from bayes_risk.reporting.plots import plot_utility

        return plot_utility(self, ax=ax)

    def sentence(self) -> str:
        """The result in plain words."""
        ratio, specks = self.summary().loc[["ratio_cart", "specks_cart"], "value"]
        told = f"A tree cannot tell {_releases(self.m)} from the original."
        if ratio > 0:
            told = (
                f"A tree tells {_releases(self.m)} from the original {number(ratio)} times as well "
                "as a release drawn from the truth would be told (SPECKS "
                f"{number(specks)}, 0 to 1)."
            )
        return f"{told}{self._worst()}{self._intervals()}{self._not_compared()}"

    def __repr__(self) -> str:
        rows = self.summary().map(lambda v: "" if pd.isna(v) else plain(v))
        return f"Utility\n{self.sentence()}\n\n{rows.to_string()}"

    def _means(self, values: Array, measures: tuple[str, ...]) -> pd.DataFrame:
        table = pd.DataFrame(values.mean(axis=0), columns=list(measures))
        ratio = values[:, :, measures.index("ratio")]
        table["ratio_sd"] = ratio.std(axis=0, ddof=1) if self.m > 1 else np.nan
        return table

    def _propensity_rows(self) -> dict[str, tuple[Array, float]]:
        rows: dict[str, tuple[Array, float]] = {}
        for k, model in enumerate(MODELS):
            of = dict(zip(MEASURES, self.scores[:, k].T, strict=True))
            nulls = {
                "pmse": float(of["null_pmse"].mean()),
                "ratio": 1.0,
                "standardized": 0.0,
                "specks": float("nan"),
            }
            rows |= {f"{name}_{model}": (of[name], null) for name, null in nulls.items()}
        return rows

    def _table_rows(self) -> dict[str, tuple[Array, float]]:
        rows: dict[str, tuple[Array, float]] = {}
        for word, values in (("margins", self.margin_measures), ("pairs", self.pair_measures)):
            if not values.shape[1]:
                continue
            of = dict(zip(PAIR_MEASURES, np.moveaxis(values, 2, 0), strict=False))
            for name in ("total_variation", "hellinger"):
                null = float(of[f"null_{name}"].mean())
                rows[f"{word}_{name}"] = (of[name].mean(axis=1), null)
            rows[f"{word}_worst_ratio"] = (_largest(of["ratio"]), float("nan"))
            for name in ("mutual_information", "correlation"):
                if word == "pairs":
                    largest = _largest(np.abs(of[f"{name}_difference"]))
                    rows[f"pairs_{name}"] = (largest, float("nan"))
        return rows

    def _estimate_rows(self) -> dict[str, tuple[Array, float]]:
        if not self.estimate_names:
            return {}
        difference, overlap = np.moveaxis(self.agreement, 2, 0)
        nan = float("nan")
        return {
            "interval_overlap": (overlap.mean(axis=1), nan),
            "lowest_interval_overlap": (overlap.min(axis=1), nan),
            "largest_standardized_difference": (np.abs(difference).max(axis=1), nan),
        }

    def _worst(self) -> str:
        if not self.pair_names:
            return ""
        table = self.pairs
        a, b = table.index[0]
        many = int((table["ratio"] > GOOD).sum())
        return (
            f" Worst kept together are {a} and {b} (ratio {number(table['ratio'].iloc[0])}); "
            f"{many:,} of {len(table):,} pairs are above {GOOD:g}, where a release drawn "
            "from the truth has 1 on average."
        )

    def _intervals(self) -> str:
        if not self.estimate_names:
            return ""
        overlap = self.estimates["interval_overlap"]
        return (
            f" Over {len(overlap)} estimates, {self.confidence:.0%} intervals overlap by "
            f"{number(overlap.mean())} on average and {number(overlap.min())} at worst (1: the "
            "same; below 0: a gap)."
        )

    def _not_compared(self) -> str:
        told = ""
        if np.isnan(self.scores[:, MODELS.index("interactions"), 0]).any():
            told += (
                f" The logistic model with interactions was left out: it has more than "
                f"{MAX_PREDICTORS:,} predictors or too many records for them."
            )
        if self.left_out:
            told += f" Not compared, as a release lacks them: {', '.join(map(str, self.left_out))}."
        return told


def _spread(values: Array, null: float) -> tuple[float, ...]:
    sd = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
    return float(values.mean()), sd, float(values.min()), float(values.max()), null


def _largest(values: Array) -> Array:
    """Largest over the second axis, NaN where there is none."""
    largest = np.where(np.isnan(values), -np.inf, values).max(axis=1)
    return np.where(np.isneginf(largest), np.nan, largest)


def _arrays(
    prefix: str, dims: tuple[str, ...], values: Array, names: tuple[str, ...]
) -> dict[str, tuple[tuple[str, ...], Array]]:
    return {f"{prefix}{name}": (dims, values[..., k]) for k, name in enumerate(names)}


def _releases(m: int) -> str:
    return "the release" if m == 1 else f"each of {m} releases"
