"""Random forests for categories, synthesised one after another.

Caiola & Reiter (2010): a forest of each column is grown on the genuine values of the records that
are replaced; the votes of its trees for a record are the data of the multinomial distribution from
which its synthetic value is drawn. The evidence of a release is derived in `docs/trees.md`.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import factorial, isfinite
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.progress import Asked, shows_progress
from bayes_risk._core.validate import at_least, is_number, known_columns, one_of
from bayes_risk.data.microdata import Microdata, Number
from bayes_risk.data.record_weights import no_weights
from bayes_risk.models.fits.synthesis import Declaration, Ticker
from bayes_risk.models.trees.forest_fit import ForestFit
from bayes_risk.models.trees.forest_trees import Trees, grow_forest
from bayes_risk.release.release import Release

from .cart import check_outcome, column_order, microdata

__all__ = ["Forest", "search_orders"]

MAX_ORDERS = 24


@dataclass(frozen=True, slots=True)
class Forest(Declaration):
    """Declaration of random forests in sequence.

    Parameters
    ----------
    order : sequence of str, or "amount"
        Columns to synthesise, in this order; all of them categories. ``"amount"``: the columns
        named in ``fit(records={column: records, ...})``, most records replaced first, columns with
        as many in the order given.
    n_trees : int
        Trees T of each forest, at least 1.
    min_leaf : int
        Least number of different records in a leaf, at least 1. Trees are not pruned.
    votes : {"all", "out-of-bag"}
        Which trees vote for a record: all, or those in whose bootstrap sample it is not. Under
        ``"all"`` two trees in three have seen the record's own value.
    dirichlet : float
        Parameter a of a Dirichlet(votes + a) from which the probabilities of the levels are drawn,
        afresh for each record and data set; 0: the vote shares themselves. Above 0 every level is
        possible, so that no released value proves another.
    chain : {"all-others", "earlier-only"}
        Predictors. ``"all-others"`` (steps 3.1-3.3 of the paper): all other columns. ``"earlier-
        only"`` (steps 3.1a-3.3a): columns that are not synthesised and those that stand before; for
        columns of which the same records are replaced.

    Notes
    -----
    Which values are used where stands in ``docs/trees.md``.

    Only records whose value of the column is replaced are used to grow its forest. A tree votes for
    the most frequent level of a leaf among the records of its bootstrap sample, counted as often
    as they were drawn; of equally frequent ones for the lowest.

    References
    ----------
    Caiola, G. & Reiter, J. P. (2010). Random forests for generating partially synthetic,
    categorical data. Transactions on Data Privacy 3, 27-42.

    Examples
    --------
    >>> Forest(order=["marital", "race"], n_trees=100)
    Forest(order=('marital', 'race'), n_trees=100, min_leaf=1, votes='all', dirichlet=0.0, \
chain='all-others')
    """

    order: Sequence[str] | str
    n_trees: int = 500
    min_leaf: int = 1
    votes: str = "all"
    dirichlet: float = 0.0
    chain: str = "all-others"

    def __post_init__(self) -> None:
        if self.order != "amount":
            order = column_order("order", self.order, ', or order="amount"')
            object.__setattr__(self, "order", order)
        at_least("n_trees", self.n_trees, 1)
        at_least("min_leaf", self.min_leaf, 1)
        one_of("votes", self.votes, ("all", "out-of-bag"))
        one_of("chain", self.chain, ("all-others", "earlier-only"))
        a = self.dirichlet
        if not is_number(a) or not (isfinite(a) and a >= 0):
            raise InputError(
                f"dirichlet={a!r}; give a finite number, 0 (plain vote shares) or more"
            )

    def synthesizes(self, columns: Sequence[str]) -> list[str]:
        return list(columns if self.order == "amount" else self.order)

    @shows_progress
    def fit(
        self,
        df: pd.DataFrame,
        *,
        records: Any = None,
        columns: Sequence[str] | None = None,
        levels: Mapping[str, Iterable[Hashable]] | None = None,
        releases: Sequence[pd.DataFrame] = (),
        missing: str = "error",
        weights: None = None,
        sample: bool = True,
        random_seed: int | np.random.Generator | None = None,
        n_jobs: int = 1,
        progress: Asked = None,
    ) -> ForestFit:
        """Grow the forests.

        Parameters
        ----------
        df, columns, levels, releases, missing, progress
            As of `CART.fit`.
        records : mask, list of record labels, or mapping of column to one of these, optional
            Records to replace; all by default. A mapping says it column by column; columns of
            ``order`` that it does not name are replaced for all records.
        weights : None
            Forests take no record weights.
        sample : bool
            False: a tree stands for a forest. The fit refuses what a fit refuses, and tells what it
            offers for a release and an intruder.
        random_seed : int, Generator or None
            Decides bootstrap samples and the predictors that each split may use.
        n_jobs : int
            Threads, here and whenever the fit is used. Results do not depend on it.

        Raises
        ------
        InputError
            Columns of ``order`` that the table lacks; outcomes that are numbers or have one value;
            fewer than two records; a record that no tree may vote for; weights.
        """
        no_weights(weights, "Forest", "votes of trees are no likelihood to raise to a power")
        at_least("n_jobs", n_jobs, 1)
        data = microdata(df, columns, levels=levels, releases=releases, missing=missing)
        masks = self._masks(data, records)  # in the order of synthesis
        rng = np.random.default_rng(random_seed)
        seeds = rng.integers(2**31, size=(len(masks), self.n_trees if sample else 1))
        tick = Ticker(progress, "fit", seeds.size)
        forests, order = [], list(masks)
        for (column, mask), own in zip(masks.items(), seeds, strict=True):
            later = order[order.index(column) :] if self.chain == "earlier-only" else [column]
            predictors, rows = np.delete(np.arange(len(data.columns)), later), np.flatnonzero(mask)
            _check(data, column, predictors, rows)
            how: Any = {"min_leaf": self.min_leaf, "n_jobs": n_jobs, "tick": tick}
            trees = grow_forest(data, column, predictors, rows, own, **how)
            if sample:
                self._someone_votes(trees, data)
            forests.append(trees)
        model = self if sample else replace(self, votes="all")  # one tree has seen most records
        return ForestFit(model=model, microdata=data, forests=tuple(forests), n_jobs=n_jobs)

    def _masks(self, data: Microdata, records: Any) -> dict[int, Flags]:
        """Records to replace of each column, in the order of synthesis."""
        by_column, amount = isinstance(records, Mapping), self.order == "amount"
        if amount and not by_column:
            raise InputError(
                'order="amount" needs the records to replace of each column: '
                "fit(df, records={column: mask, ...}); or give order as a list of columns"
            )
        source, given = ("records", records) if amount else ("order", self.order)
        names = known_columns(source, list(given), data.columns)
        if not names:
            raise InputError("records names no column; name those to synthesise")
        known_columns("records", list(records) if by_column else [], names)
        masks = {c: data.mask(records.get(c) if by_column else records) for c in names}
        if amount:
            names.sort(key=lambda c: -int(masks[c].sum()))  # stable
        if self.chain == "earlier-only" and any((masks[c] != masks[names[0]]).any() for c in names):
            raise InputError(
                'chain="earlier-only" is for columns of which the same records are replaced, and '
                'records differ between columns; use chain="all-others"'
            )
        return {data.columns.index(c): masks[c] for c in names}

    def _someone_votes(self, trees: Trees, data: Microdata) -> None:
        everywhere = (trees.bags > 0).all(axis=0)
        if self.votes == "out-of-bag" and everywhere.any():
            label = data.index[trees.rows[int(np.argmax(everywhere))]]
            raise InputError(
                f"votes='out-of-bag': record {label!r} is in the bootstrap sample of all "
                f"{len(trees)} trees of column {data.columns[trees.column]!r}, so no tree may vote "
                f"for it ({int(everywhere.sum())} such records); give more trees (n_trees=), or "
                "votes='all'"
            )


def search_orders(
    model: Forest,
    df: pd.DataFrame,
    value: Callable[[ForestFit, Release], float | Mapping[str, float]],
    *,
    orders: Sequence[Sequence[str]] | None = None,
    m: int = 5,
    random_seed: int = 0,
    **how: Any,
) -> pd.DataFrame:
    """A user's measure of the releases that different orders of synthesis make.

    Caiola & Reiter (2010) advise to try several orders and to compare utility and risk.

    Parameters
    ----------
    model : Forest
        Its ``order`` names the columns.
    df : DataFrame
        The confidential table.
    value : callable
        ``value(fit, release)``: a number, or several with their names.
    orders : list of lists of str, optional
        Orders to try; all by default, for up to four columns.
    m : int
        Data sets of each release.
    random_seed : int
        The same for every order.
    **how
        Passed on to `Forest.fit`.

    Returns
    -------
    DataFrame
        One row per order: ``order`` (the columns joined by ", ") and ``value``, or the names given.
    """
    if orders is None:
        if model.order == "amount":
            raise InputError('order="amount" names no columns to order; list the orders (orders=)')
        if factorial(len(model.order)) > MAX_ORDERS:
            raise InputError(
                f"order names {len(model.order)} columns, which can stand in "
                f"{factorial(len(model.order)):,} orders; list those to try (orders=), at most "
                f"{MAX_ORDERS} are tried unlisted"
            )
        orders = list(permutations(model.order))
    table = []
    for order in orders:
        fit = replace(model, order=tuple(order)).fit(df, random_seed=random_seed, **how)
        found = value(fit, fit.synthesize(m, random_seed=random_seed))
        named = dict(found) if isinstance(found, Mapping) else {"value": found}
        table.append({"order": ", ".join(order)} | named)
    return pd.DataFrame(table)


def _check(data: Microdata, column: int, predictors: Ints, rows: Ints) -> None:
    name = data.columns[column]
    if isinstance(data.variables[column], Number):
        raise InputError(
            f"column {name!r} is a number, and forests synthesise categories; use "
            "br.models.CART for it, or cut it into categories first (pandas.cut)"
        )
    if len(rows) < 2:
        raise InputError(
            f"column {name!r} is replaced for {len(rows)} record; a forest is grown on the records "
            "replaced: select at least 2"
        )
    check_outcome(data, column, predictors, rows, ', or use chain="all-others"')
