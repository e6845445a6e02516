"""Utility: what an analyst still finds in a release of what the original holds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.arrays import Array
from bayes_risk._core.checkpoint import begin_work
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import in_range, one_of, whole_number
from bayes_risk.data.base_result import Drawn
from bayes_risk.release.release import Release

from .combining import COLUMNS, RULES, Analysis, inferences
from .propensity import MEASURES, MODELS, propensity
from .tables import (
    MARGIN_MEASURES,
    PAIR_MEASURES,
    coded_columns,
    compared_columns,
    margins,
    over_releases,
    pair_distances,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Utility(Drawn):
    """How like the original m releases are, by release and on average; made by `utility`.

    Attributes
    ----------
    margin_names, pair_names, estimate_names : tuple, length J, P and K
        Synthesised columns; pairs of which one at least was; analysis and quantity.
    scores : ndarray, shape (m, 3, 7)
        Propensity-score measures by release and model.
    margin_measures, pair_measures : ndarray, shape (m, J, 8) and (m, P, 14)
    combined, agreement : ndarray, shape (K, 10) and (m, K, 2)
        Estimates from the original and from all releases together; standardised difference and
        interval overlap of each release on its own.
    synthesized, unsynthesized, left_out : tuple of str
        Columns compared, and those of the original that some release lacks.
    n_records : tuple of int, length m + 1
        Records of the original and of each release.
    rules, confidence, permutations, seed_entropy
        As given to `utility`; the seed that made it.
    """

    PICTURE: ClassVar[str] = "plot_utility"
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
        index = pd.Index(self.margin_names, name="column")
        return self._means(self.margin_measures, MARGIN_MEASURES, index)

    @property
    def pairs(self) -> pd.DataFrame:
        """One row per pair of columns, the worst first; means over releases.

        Columns as in `margins`, and mutual information in nats (of the cut columns) and Pearson
        correlation (of two numbers): of the original, of the release, and their difference.
        """
        index = pd.MultiIndex.from_tuples(self.pair_names, names=["first", "second"])
        return self._means(self.pair_measures, PAIR_MEASURES, index)

    @property
    def estimates(self) -> pd.DataFrame:
        """One row per analysis and quantity: the original's estimate and the releases' combined.

        Columns: ``original`` with its ``std_error_original``, ``low_original`` and
        ``high_original``; ``release`` (combined over releases) with ``std_error``, ``low``,
        ``high``; ``standardized_difference`` (release less original, in the original's standard
        errors); ``interval_overlap`` (1: the same interval; below 0: a gap).
        """
        rows = pd.MultiIndex.from_tuples(self.estimate_names, names=["analysis", "quantity"])
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
        names, values, nulls = zip(*self._rows(), strict=True)
        columns = over_releases(np.column_stack(values)) | {"null": np.array(nulls)}
        return pd.DataFrame(columns, index=pd.Index(names, name="measure"))

    @property
    def dataset(self) -> xr.Dataset:
        """All numbers as labelled arrays for NetCDF; no record of the original is in them."""
        agreement = ("standardized_difference", "interval_overlap")
        parts = (
            ("", ("release", "model"), self.scores, MEASURES),
            ("margin_", ("release", "margin"), self.margin_measures, MARGIN_MEASURES),
            ("pair_", ("release", "pair"), self.pair_measures, PAIR_MEASURES),
            ("estimate_", ("estimate",), self.combined, COLUMNS),
            ("release_", ("release", "estimate"), self.agreement, agreement),
        )
        labels = {
            "model": MODELS,
            "margin": self.margin_names,
            "pair": [f"{a} x {b}" for a, b in self.pair_names],
            "estimate": [f"{a}: {q}" for a, q in self.estimate_names],
        }
        attrs = {
            "synthesized": ", ".join(map(str, self.synthesized)),
            "unsynthesized": ", ".join(map(str, self.unsynthesized)),
            "rules": self.rules,
            "confidence": self.confidence,
            "random_seed": self.seed_entropy,
        }
        coords = {k: np.array([str(x) for x in v], dtype=str) for k, v in labels.items()}
        return xr.Dataset(
            {
                f"{prefix}{name}": (dims, values[..., k])
                for prefix, dims, values, names in parts
                for k, name in enumerate(names)
            },
            {"release": np.arange(1, self.m + 1), **coords},
            attrs,
        )

    def _means(self, values: Array, measures: tuple[str, ...], index: pd.Index) -> pd.DataFrame:
        table = pd.DataFrame(values.mean(axis=0), index, list(measures))
        ratio = values[:, :, measures.index("ratio")]
        table["ratio_sd"] = ratio.std(axis=0, ddof=1) if self.m > 1 else np.nan
        return table.sort_values("ratio", ascending=False, kind="stable")

    def _rows(self) -> Iterator[tuple[str, Array, float]]:
        """Measures of the file level: name, values by release, and what chance alone gives."""
        nan = float("nan")
        for k, model in enumerate(MODELS):
            of = dict(zip(MEASURES, self.scores[:, k].T, strict=True))
            nulls = {"pmse": float(of["null_pmse"].mean()), "ratio": 1.0, "standardized": 0.0}
            for name in (*nulls, "specks"):
                yield f"{name}_{model}", of[name], nulls.get(name, nan)
        for word, values in (("margins", self.margin_measures), ("pairs", self.pair_measures)):
            if not values.shape[1]:
                continue
            of = dict(zip(PAIR_MEASURES, np.moveaxis(values, 2, 0), strict=False))
            for name in ("total_variation", "hellinger"):
                yield f"{word}_{name}", of[name].mean(axis=1), float(of[f"null_{name}"].mean())
            yield f"{word}_worst_ratio", np.fmax.reduce(of["ratio"], axis=1), nan
            for name in ("mutual_information", "correlation") if word == "pairs" else ():
                largest = np.fmax.reduce(np.abs(of[f"{name}_difference"]), axis=1)
                yield f"pairs_{name}", largest, nan  # NaN where there is none
        if self.estimate_names:
            difference, overlap = np.moveaxis(self.agreement, 2, 0)
            yield "interval_overlap", overlap.mean(axis=1), nan
            yield "lowest_interval_overlap", overlap.min(axis=1), nan
            yield "largest_standardized_difference", np.abs(difference).max(axis=1), nan


def utility(
    original: pd.DataFrame,
    release: Release | pd.DataFrame | Sequence[pd.DataFrame],
    *,
    columns: Sequence[str] | None = None,
    synthesized: Sequence[str] | None = None,
    analyses: Mapping[str, Analysis] | None = None,
    rules: str = "partially synthetic",
    confidence: float = 0.95,
    numbers: Sequence[str] | None = None,
    groups: int = 5,
    missing: str = "level",
    permutations: int = 20,
    random_seed: int | np.random.Generator | None = None,
    n_jobs: int = 1,
) -> Utility:
    """How like the original its releases are, and what analyses make of them.

    The propensity score's mean squared error pMSE with its expectation for a release drawn from the
    truth (Snoke et al. 2018), SPECKS (Bowen, Liu & Su 2021), one- and two-way tables, mutual
    information and correlations of pairs, and the overlap of confidence intervals (Karr et al.
    2006): see ``docs/utility.md``.

    Parameters
    ----------
    original : DataFrame of n records
        The confidential file. Never changed.
    release : Release, DataFrame, or list of m DataFrames
        The released files, made by whatever means. Those of a `Release` may leave out columns that
        were not synthesised. Where every column was synthesised, numbers of records may differ.
    columns : list of str, optional
        Columns to compare; all that the releases hold by default.
    synthesized : list of str, optional
        Which columns were synthesised; all by default, or those of the `Release`. The others must
        hold the original's values, record by record: nulls take into account that they cannot
        differ.
    analyses : dict of str to function, optional
        Functions of a DataFrame that return a fitted model of statsmodels (or a DataFrame with the
        columns ``estimate`` and ``std_error``).
    rules : {"partially synthetic", "fully synthetic"}
        Combining rules for m > 1: those of `combine`; or of Raghunathan, Reiter & Rubin (2003) for
        files in which every record is a new draw from the population.
    confidence : float
        Of the intervals.
    numbers : list of str, optional
        Columns that are numbers: numeric ones with more than 20 distinct values by default. All
        others are categories.
    groups : int
        Into how many groups numbers are cut for tables, at the original's quantiles.
    missing : {"level", "error"}
        Missing values are a level (a group) of their own, or an error.
    permutations : int
        How many trees are grown for the null of CART, over all releases together; at least 2.
    random_seed, n_jobs
        As in `attribute_risk`.

    Returns
    -------
    Utility
        Large distances are bad; ``ratio`` is 1 on average for a release drawn from the truth.

    Raises
    ------
    InputError
        Columns that cannot be compared, or differ from the original's without being synthesised; an
        analysis that returns something else, or other quantities for another table.

    Notes
    -----
    *Models.* Logistic regression on main effects, and with all products of two columns (left out,
    as NaN, with more than 1,000 predictors); CART with at least 20 records a leaf, its null from
    trees grown on permuted labels. *Nulls* are of a release drawn from the original's own
    distribution, the original being fixed: ``docs/utility.md``.

    *Cost.* m (p^2 / 2) tables of n records; m logistic fits on distinct rows, with K predictors
    O(K^2) each; m + permutations trees.

    References
    ----------
    ``docs/utility.md`` has them; Bowen, Liu & Su (2021), Metron 79, 1-31.

    Examples
    --------
    >>> import pandas as pd
    >>> original = pd.DataFrame({"sex": list("ffmm") * 9, "job": list("aabb") * 9})
    >>> synthetic = original.assign(job=list("abab") * 9)
    >>> found = utility(original, synthetic, synthesized=["job"], random_seed=1)
    >>> found.pairs[["total_variation", "null_total_variation"]].round(2).to_dict("records")
    [{'total_variation': 0.5, 'null_total_variation': 0.0}]
    """
    one_of("rules", rules, RULES)
    whole_number("groups", groups)
    whole_number("permutations", permutations)
    level, rng = in_range("confidence", confidence), np.random.default_rng(random_seed)
    fits = {} if analyses is None else analyses
    if not isinstance(fits, Mapping) or not all(callable(f) for f in fits.values()):
        raise InputError(
            "analyses must be a dict of name to function of a DataFrame, such as "
            '{"income": lambda df: smf.ols("income ~ age", df).fit()}'
        )
    tables = compared_columns(original, release, columns, synthesized)
    coded = coded_columns(tables, numbers, groups, missing)
    frames = tables.tables.aligned(tables.columns) if fits else []
    found = inferences(fits, frames, tables.tables.m, rules, confidence)
    begin_work()
    margin_names, margin = margins(coded, tables.replaced)
    pair_names, pair = pair_distances(coded, tables.replaced, n_jobs)
    return Utility(
        margin_names=tuple(margin_names),
        pair_names=tuple(pair_names),
        estimate_names=tuple(found.names),
        scores=propensity(
            coded,
            replaced=tables.replaced,
            permutations=permutations,
            rng=rng.spawn(1)[0],
            n_jobs=n_jobs,
        ),
        margin_measures=margin,
        pair_measures=pair,
        combined=found.combined,
        agreement=found.each,
        synthesized=tables.made,
        unsynthesized=tables.kept,
        left_out=tables.left_out,
        n_records=tuple(map(int, tables.tables.sizes)),
        rules=rules,
        confidence=level,
        permutations=permutations,
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
    )
