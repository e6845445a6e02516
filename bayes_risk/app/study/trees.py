"""``[model]`` of trees in sequence, and of forests."""

from collections.abc import Collection
from pathlib import Path
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field, model_validator

from .keys import Count, DistinctColumns, Float, FromZero, Positive, Section


def is_number(column: pd.Series) -> bool:
    """Whether a column holds numbers."""
    kinds = pd.api.types
    return kinds.is_numeric_dtype(column.dtype) and not kinds.is_bool_dtype(column.dtype)


class CARTSection(Section):
    """``[model]`` of kind ``"CART"``: trees in sequence.

    order: columns to synthesise, in this order; predictors of each are all columns that do not come
        later
    min_leaf: least number of records in a leaf
    bootstrap: values of a leaf are drawn by the Bayesian bootstrap, or plainly
    smoothing: numbers are drawn from kernels around the genuine ones
    floor: trees grown here are assumed for files whose trees are gone; probability of a value that
        its leaf does not have; with `bootstrap = "none"`
    models: trees that synthpop grew; `min_leaf`, `bootstrap`, `smoothing` are left out
    missing_numbers: beside `models`: a number that stands for a missing value: `{ income = -9 }`
    """

    kind: Literal["CART"] = Field("CART", description='"CART"')
    order: DistinctColumns
    min_leaf: Count = 5
    bootstrap: Literal["bayesian", "none"] = Field("bayesian", description='"bayesian" or "none"')
    smoothing: Literal["kde"] | None = Field(None, description='"kde", or leave it out')
    floor: Positive | None = Field(None, lt=1, description="a probability, above 0 and below 1")
    models: Path | None = Field(None, description="the path of a JSON file of synthpop's models")
    missing_numbers: dict[str, Float] = Field({}, description="a table of column = number")

    GROWING: ClassVar = ("min_leaf", "bootstrap", "smoothing")
    KEPT: ClassVar = ("models", "missing_numbers")

    @model_validator(mode="after")
    def _trees_are_grown_once(self) -> "CARTSection":
        growing = [key for key in self.GROWING if key in self.model_fields_set]
        if self.models is not None and growing:
            raise ValueError(
                f"{growing[0]} is for growing trees, and models brings those of synthpop: leave "
                f"{growing[0]} out"
            )
        if self.models is None and self.missing_numbers:
            raise ValueError("missing_numbers is for the trees of models; leave it out")
        if self.models is None and self.floor is not None and self.bootstrap != "none":
            raise ValueError('floor is for plain draws; give bootstrap = "none" too')
        if self.floor is not None and self.smoothing is not None:
            raise ValueError("floor is for values that are not smoothed; leave smoothing out")
        return self

    @property
    def modelled(self) -> list[str]:
        """Columns that can be synthesised."""
        return self.order

    def offers(self, columns: Collection[str], df: pd.DataFrame | None = None) -> tuple[str, ...]:
        """Ways to the evidence of a release with these columns synthesised."""
        if self.models is not None:
            return ("exact",)
        if not self._smooths(columns, df) or self.bootstrap == "none":
            return ("exact", "refit")
        # whether a smoothed column is a number only the data tell
        return (*(["exact"] if df is None else []), "simulated", "refit")

    def _smooths(self, columns: Collection[str], df: pd.DataFrame | None) -> bool:
        """Whether numbers are smoothed; without the data, whether they may be."""
        return self.smoothing is not None and (df is None or any(is_number(df[c]) for c in columns))

    def offers_knowing(
        self, columns: Collection[str], m: int, df: pd.DataFrame | None = None
    ) -> tuple[str, ...]:
        """Ways to the evidence of m data sets, for an intruder who knows some other records."""
        if self.models is not None or self.floor is not None:
            return ()
        if df is not None and self._smooths(columns, df):
            return ()
        return ("exact", "product")  # which of them, the grown trees tell


class ForestSection(Section):
    """``[model]`` of kind ``"Forest"``: random forests in sequence.

    order: columns to synthesise, in this order
    n_trees: trees of each forest
    min_leaf: least number of different records in a leaf
    votes: of all trees, or only of trees that have not seen the record
    dirichlet: added to the votes before a value is drawn
    chain: predictors are all other columns, or those not synthesised and those before
    """

    kind: Literal["Forest"] = Field("Forest", description='"Forest"')
    order: DistinctColumns
    n_trees: Count = 500
    min_leaf: Count = 1
    votes: Literal["all", "out-of-bag"] = Field("all", description='"all" or "out-of-bag"')
    dirichlet: FromZero = 0.0
    chain: Literal["all-others", "earlier-only"] = Field(
        "all-others", description='"all-others" or "earlier-only"'
    )

    @property
    def modelled(self) -> list[str]:
        """Columns that can be synthesised."""
        return self.order

    def offers(self, columns: Collection[str], df: pd.DataFrame | None = None) -> tuple[str, ...]:
        """Ways to the evidence of a release with these columns synthesised."""
        return ("exact", "refit")

    def offers_knowing(
        self, columns: Collection[str], m: int, df: pd.DataFrame | None = None
    ) -> tuple[str, ...]:
        """Ways to the evidence of m data sets, for an intruder who knows some other records."""
        return ()
