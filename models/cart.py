"""Classification and regression trees with the Bayesian bootstrap.

Reiter (2005); Drechsler & Reiter (2008). What is grown on which values: `docs/trees.md`.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.progress import Asked, shows_progress
from bayes_risk._core.validate import at_least, known_columns, one_of, positive
from bayes_risk.data.microdata import Microdata, checked_table
from bayes_risk.data.record_weights import checked_weights
from bayes_risk.data.rpart_file import SynthpopModels
from bayes_risk.data.variables import is_numeric
from bayes_risk.models.fits.synthesis import Declaration, Ticker
from bayes_risk.models.trees.cart_fit import CARTFit
from bayes_risk.models.trees.rpart_import import trees_of_releases
from bayes_risk.models.trees.tree import grow


@dataclass(frozen=True, slots=True)
class CART(Declaration):
    """Declaration of trees in sequence.

    Parameters
    ----------
    order : sequence of str
        Columns to synthesise, in this order. All other columns are predictors of each.
    min_leaf : int
        Least number of records in a leaf, at least 1. Trees are not pruned.
    bootstrap : {"bayesian", "none"}
        Values of a leaf drawn by the Bayesian bootstrap, or plainly, as synthpop does.
    smoothing : {"kde"}, optional
        Numbers are drawn from a Gaussian kernel around the chosen record's value, cut off at the
        smallest and the largest value of the leaf, whole numbers rounded (Reiter 2005): the release
        then does not show genuine values only. The evidence of such releases is simulated, with an
        error, unless ``bootstrap="none"``.
    floor : float, optional
        For files made elsewhere by trees that are gone: the trees are *assumed*, and every value of
        a column has at least this probability in each leaf, also where nobody there holds it; above
        0, below 1 over the number of values. None: such a value is an error. The smaller, the more
        a match of released values and leaves says (docs/trees.md). With ``bootstrap="none"``.

    Examples
    --------
    >>> CART(order=["age", "race"])
    CART(order=('age', 'race'), min_leaf=5, bootstrap='bayesian', smoothing=None, floor=None)
    """

    order: Sequence[str]
    min_leaf: int = 5
    bootstrap: str = "bayesian"
    smoothing: str | None = None
    floor: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", column_order("order", self.order))
        at_least("min_leaf", self.min_leaf, 1)
        one_of("bootstrap", self.bootstrap, ("bayesian", "none"))
        if self.smoothing is not None:
            one_of("smoothing", self.smoothing, ("kde",))
        if self.floor is not None:
            if positive("floor", self.floor) >= 1:
                raise InputError(f"floor={self.floor:g} is a probability; give less than 1")
            if self.bootstrap != "none" or self.smoothing is not None:
                raise InputError(
                    f"floor={self.floor:g} is for plain draws; give bootstrap='none', and no "
                    "smoothing"
                )

    def synthesizes(self, columns: Sequence[str]) -> list[str]:
        return list(self.order)

    @shows_progress
    def fit(
        self,
        df: pd.DataFrame,
        *,
        columns: Sequence[str] | None = None,
        levels: Mapping[str, Iterable[Hashable]] | None = None,
        releases: Sequence[pd.DataFrame] = (),
        missing: str = "error",
        weights: Any = None,
        sample: bool = True,
        random_seed: int | np.random.Generator | None = None,
        progress: Asked = None,
    ) -> CARTFit:
        """Grow the trees.

        Parameters
        ----------
        df : DataFrame
            The confidential table. Columns of numeric dtype are numbers, all others categories;
            make codes pandas categories first. Ordered categories are split in their order.
        columns : list of str, optional
            Columns to use; all by default.
        levels, releases, missing
            See `Microdata.from_frame`.
        weights : array (n,) or Series, optional
            Record weights alpha_i in (0, 1], powers of the multinomial likelihood in the leaves
            (docs/sensitivity.md): the bootstrap's Dirichlet has them in the place of
            ones, plain draws are in proportion to them, and splits are found with them.
            ``min_leaf`` still counts records.
        sample : bool
            Taken for uniformity; nothing is sampled.
        random_seed : int, Generator or None
            Decides between splits that separate equally well.
        progress : callable or bool, optional
            Called as ``progress("fit", trees grown, trees)``.
            By default a bar in terminals and notebooks; False: none.

        Raises
        ------
        InputError
            Columns of ``order`` that the table lacks, outcomes with one value, no predictor;
            weights of another length, missing or outside (0, 1], or with ``smoothing``.
        """
        data = microdata(df, columns, levels=levels, releases=releases, missing=missing)
        order = [
            data.columns.index(c) for c in known_columns("order", list(self.order), data.columns)
        ]
        alpha = self._checked(weights, data)
        rng = np.random.default_rng(random_seed)
        how: dict[str, Any] = {"min_leaf": self.min_leaf, "weights": alpha}
        seeds = rng.integers(2**31, size=len(order))
        trees, tick = [], Ticker(progress, "fit", len(order))
        for place, (column, seed) in enumerate(zip(order, seeds, strict=True)):
            predictors = np.delete(np.arange(len(data.columns)), order[place:])
            check_outcome(data, column, predictors, slice(None))
            trees.append(grow(data, column, predictors, seed=int(seed), **how))
            tick(1)
        return CARTFit(
            model=self, microdata=data, trees=tuple(trees), weights=alpha, files=tuple(releases)
        )

    @classmethod
    def from_rpart(
        cls,
        models: SynthpopModels | None,
        df: pd.DataFrame,
        *,
        levels: Mapping[str, Iterable[Hashable]] | None = None,
        releases: Sequence[pd.DataFrame] = (),
        missing: str = "error",
        missing_numbers: Mapping[str, float] | None = None,
        floor: float | None = None,
        order: Sequence[str] | None = None,
    ) -> CARTFit:
        """Take the trees that synthpop grew, and that made its release.

        Parameters
        ----------
        models : SynthpopModels
            ``br.read_synthpop(..., models="models.json.gz").models``.
        df : DataFrame
            The confidential table that ``syn`` was given: each tree's number of records is compared
            with it, node by node.
        levels, releases, missing
            As of `fit`; `report_mismatch` looks at these releases.
        missing_numbers : mapping of column to number, optional
            See `Microdata.from_frame`.
        floor : float, optional
            As of `CART`, for files that were changed after they were made.
        order : list of str, optional
            What the models are expected to synthesise, in their order; others are refused.

        Returns
        -------
        CARTFit
            Data set l has the trees of synthpop's data set l. Evidence is ``"exact"``.

        Raises
        ------
        InputError
            No models; trees of other columns, levels or records; numbers smoothed; ``proper =
            TRUE``; columns made by other methods than ``cart`` and ``sample``.

        Notes
        -----
        synthpop draws plainly from leaves. The intruder knows splits and order, as for trees grown
        here, and not the values in the leaves, from which the splits were found: what this leaves
        out is in docs/trees.md. Source: Nowok, Raab & Dibben (2016); Therneau & Atkinson, rpart.
        """
        if not isinstance(models, SynthpopModels):
            raise InputError(
                f"models is a {type(models).__name__}; give what was read: "
                'br.read_synthpop("export", models="models.json.gz").models'
            )
        if order is not None and list(order) != list(models.synthesized):
            raise InputError(
                f"order={list(order)} and the models are of {list(models.synthesized)}, in this "
                "order; give it as the models have it"
            )
        how: dict[str, Any] = {"missing": missing, "missing_numbers": missing_numbers}
        data = microdata(df, None, levels=levels, releases=releases, **how)
        trees = trees_of_releases(models, data)
        return CARTFit(
            model=cls(order=models.synthesized, bootstrap="none", floor=floor),
            microdata=data,
            trees=trees[0],
            of_release=trees,
            files=tuple(releases),
        )

    def _checked(self, weights: Any, data: Microdata) -> Array | None:
        """Record weights, of values that are not smoothed."""
        alpha = checked_weights(weights, data.index)
        for name, given in (("floor", self.floor), ("smoothing", self.smoothing)):
            if alpha is not None and given is not None:
                raise InputError(
                    f"weights with {name}={given!r} are not offered: files made elsewhere and "
                    f"smoothed values count every record in full; give {name}=None, or no weights"
                )
        return alpha


def microdata(
    df: pd.DataFrame,
    columns: Sequence[str] | None,
    *,
    levels: Mapping[str, Iterable[Hashable]] | None,
    numbers: Sequence[str] | None = None,
    **how: Any,
) -> Microdata:
    """Columns of numeric dtype are numbers, unless their levels are declared or others are told."""
    checked_table(df)
    if numbers is None:
        names, named = df.columns if columns is None else columns, levels or {}
        numbers = [c for c in names if c in df and c not in named and is_numeric(df[c].dtype)]
    return Microdata.from_frame(df, columns=columns, numbers=numbers, levels=levels, **how)


def column_order(name: str, given: Sequence[str], otherwise: str = "") -> tuple[str, ...]:
    """Names of at least one column, none twice."""
    if isinstance(given, str) or not len(given):
        raise InputError(f"{name}={given!r}; give a list of at least one column name{otherwise}")
    return tuple(known_columns(name, list(given), list(given)))


def check_outcome(
    data: Microdata, column: int, predictors: Ints, rows: Any, cure: str = ""
) -> None:
    """Refuse an outcome that nothing predicts, or that has one value among some records."""
    name = data.columns[column]
    if not len(predictors):
        raise InputError(
            f"column {name!r} has no predictor: order names every column; leave one out of it{cure}"
        )
    if np.ptp(data.codes[rows, column]) == 0:
        raise InputError(
            f"column {name!r} has the same value for every record that is replaced, so there is "
            "nothing to synthesise; leave it out of order"
        )
