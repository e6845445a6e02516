"""Random forests for categories, synthesised one after another.

Caiola & Reiter (2010): a forest of each column is grown on the genuine values of the records that
are replaced; the votes of its trees for a record are the data of the multinomial distribution from
which its synthetic value is drawn. The evidence of a release is derived in `docs/trees.md`.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations
from math import factorial, isfinite
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.errors import InputError
from bayes_risk._core.parallel import in_order
from bayes_risk._core.progress import ProgressOption, shows_progress
from bayes_risk._core.validate import is_number, known_columns, one_of, whole_number
from bayes_risk.data.microdata import Codes, Microdata, Number
from bayes_risk.data.record_weights import no_weights
from bayes_risk.evidence.contract import Capabilities, Progress, Simulated, Targets, offers
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.synthesis import (
    Declaration,
    Fitted,
    Request,
    Ticker,
    check_outcome,
    column_order,
    log_p_of_guesses,
    made_columns,
    microdata,
)
from bayes_risk.release.release import EncodedRelease, Release

from .forest_trees import (
    Composition,
    Counts,
    ReleasedVotes,
    Trees,
    grow_forest,
    log_gains,
    log_prior_of_forests,
)

__all__ = ["Forest", "search_orders"]

BLOCK = 256  # targets at a time, or fewer, so that there are at most
MAX_CELLS = 2**24  # leaves of guesses (trees x guesses x targets)
SHOWN_BYTES = 2**29  # data sets of a release that are indexed at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForestFit(Fitted):
    """Forests in sequence."""

    n_draws: ClassVar[int] = 0
    parameters: ClassVar[tuple[str, ...]] = ("plug-in",)
    records_differ: ClassVar[bool] = True
    weights: ClassVar[None] = None
    model: Any
    microdata: Microdata
    forests: tuple[Trees, ...]  # in the order of synthesis
    n_jobs: int = 1  # threads
    diagnostics: Mapping[str, float] = field(default_factory=dict)  # empty: nothing is sampled

    @property
    def out_of_bag(self) -> bool:
        """Whether a tree votes only for records that are not in its bootstrap sample."""
        return bool(self.model.votes == "out-of-bag")

    @property
    def order(self) -> list[str]:
        """Columns in the order of synthesis."""
        return [self.microdata.columns[trees.column] for trees in self.forests]

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        """What is offered: evidence with the trees known, or with forests grown for each guess."""
        self._made(release)
        return Capabilities(offers(self, "factors", "log-prior", computed=("exact", "refit")))

    def mechanism(self, release: EncodedRelease) -> str:
        order = [self.microdata.columns[trees.column] for trees in self._made(release)]
        smoothed = f", smoothed by Dirichlet({self.model.dirichlet:g})"
        return (
            f"forests of {self.model.n_trees} trees and the order {', '.join(order)} are known, "
            "splits and bootstrap samples included, not what the leaves vote for; "
            f"{'out-of-bag votes' if self.out_of_bag else 'votes of all trees'}"
            f"{smoothed if self.model.dirichlet else ''}"
        )

    def _made(self, release: EncodedRelease) -> list[Trees]:
        """The forests that made a release."""
        lacking = f"there is no forest; the model has `order={self.order}`"
        names = made_columns(release, self.microdata, self.order, lacking)
        made = [self.forests[self.order.index(name)] for name in names]
        replaced = release.replaced
        if (replaced != self._replaced(made)).any():
            raise InputError(
                f"the release states that {int(replaced.sum())} records were replaced; the forests "
                f"were grown on {int(self._replaced(made).sum())} and replace just those: fit with "
                "the release's records (fit(df, records=)), or correct Release(records=)"
            )
        return made

    def _replaced(self, forests: Sequence[Trees]) -> Flags:
        mask = np.zeros(len(self.microdata.codes), dtype=bool)
        for trees in forests:
            mask[trees.rows] = True
        return mask

    def synthesize(
        self,
        m: int = 5,
        columns: Sequence[str] | None = None,
        *,
        parameters: str | None = None,
        random_seed: int | np.random.Generator | None = None,
        progress: Progress | None = None,
    ) -> Release:
        """Draw m synthetic data sets from the same forests, for the records they were grown on.

        ``columns`` of the model's order, all by default; ``parameters`` are "plug-in" alone, values
        being drawn by votes. Progress is called as ``progress("synthesis", done, total)``.
        """
        how: Any = {"parameters": parameters, "random_seed": random_seed}
        request = Request.of(self, self.order, m, columns, **how)
        made = [self.forests[self.order.index(name)] for name in request.columns]
        tables = [self.microdata.codes.copy() for _ in request.rngs]
        tick = Ticker(progress, "synthesis", len(made))
        for place, trees in enumerate(made):
            for l, (codes, rng) in enumerate(zip(tables, request.rngs, strict=True)):
                if l == 0 or place > 0:  # before the first column all tables are still the same
                    votes = self._votes(trees, codes)
                codes[trees.rows, trees.column] = draw_levels(votes, self.model.dirichlet, rng)
            tick(1)
        return replace(request, mask=self._replaced(made)).release(tables)

    def _votes(self, trees: Trees, codes: Codes) -> Counts:
        X = trees.encoded(codes[trees.rows])
        return trees.votes(X, out_of_bag=self.out_of_bag, n_jobs=self.n_jobs)

    def closed_form(
        self, evidence: str, release: EncodedRelease, targets: Targets, **how: Any
    ) -> Simulated:
        """log p(Z^(l) | y*, y_-i) up to a constant for each target, shape (m, G, U).

        ``"exact"``: the splits and bootstrap samples are known (S), what the leaves vote for is
        not. ``"refit"``: forests grown anew, from the same seeds, for each target and guess: costs
        U x G fits, so choose a few targets and guesses.
        """
        made, codes = self._made(release), list(release.codes)
        excluded = self._excluded(made, targets)
        if evidence == "refit":
            log_p = partial(self._of_table, made=made, released=codes)
            out = log_p_of_guesses(self.microdata, targets, release.m, log_p, how["progress"])
            out[:, excluded] = -np.inf
            return Simulated.exact(out)
        tick = Ticker(how["progress"], "evidence", len(made))

        def each() -> Iterator[Array]:
            for place, trees in enumerate(made):
                gain = self._of_forest(trees, made[:place], codes, targets)
                gain[:, excluded] = -np.inf  # whatever the column
                yield gain
                tick(1)

        return Simulated.product(each())

    def log_prior(self, release: EncodedRelease, targets: Targets) -> Array:
        """Votes of the trees that have not seen the record, relative to the truth's, (G, U)."""
        return log_prior_of_forests(self._made(release), targets)

    def factors(
        self, evidence: str, release: EncodedRelease, targets: Targets
    ) -> tuple[str, ...] | str:
        """The synthesised columns in their order: a factor is that of a column's forest."""
        if evidence == "refit":
            return "forests were grown anew for each guess, all columns at once"
        return tuple(self.microdata.columns[trees.column] for trees in self._made(release))

    def _of_forest(
        self, trees: Trees, earlier: Sequence[Trees], codes: Sequence[Codes], targets: Targets
    ) -> Array:
        """What one forest adds, shape (m, G, U); some data sets at a time."""
        base = Composition.from_table(trees, self.microdata.codes)
        drawn = frozenset(e.column for e in earlier)
        G, U = targets.guesses.codes.shape[:2]
        size = max(1, min(BLOCK, MAX_CELLS // (len(trees) * G)))
        some = [np.arange(b, min(b + size, U)) for b in range(0, U, size)]
        chunk = max(1, SHOWN_BYTES // (4 * (trees.bags.size + len(trees.right))))
        parts = []
        for l in range(0, len(codes), chunk):
            jobs = [partial(self._shown, trees, drawn, z) for z in codes[l : l + chunk]]
            shown = list(in_order(jobs, n_jobs=self.n_jobs, what="leaves", where="threads"))
            last = drawn, self.model.dirichlet
            gains = [partial(log_gains, base, shown, targets, which, *last) for which in some]
            found = in_order(gains, n_jobs=self.n_jobs, what="evidence", where="threads")
            parts.append(np.concatenate(list(found), axis=2))  # `shown` is large
        return np.concatenate(parts)

    def _shown(self, trees: Trees, drawn: frozenset[int], z: Codes) -> ReleasedVotes:
        rows = values_by_leaf(self.microdata.codes, z, sorted(drawn))[trees.rows]
        leaves = trees.leaves(trees.encoded(rows))
        shown = ReleasedVotes.from_leaves(trees, leaves, z, out_of_bag=self.out_of_bag)
        if self.model.dirichlet == 0 and (shown.votes == 0).any():
            row = int(trees.rows[int(np.argmin(shown.votes))]) + 1
            raise InputError(
                f"no tree votes for the value of column {self.microdata.columns[trees.column]!r} "
                f"that the release gives the record of row {row}, so these forests did not make "
                "it; audit a release with the fit that made it"
            )
        return shown

    def _excluded(self, made: Sequence[Trees], targets: Targets) -> Flags:
        """Guesses that differ from the truth where it was released unchanged, shape (G, U)."""
        out = np.zeros(targets.guesses.codes.shape[:2], dtype=bool)
        for q, column in enumerate(targets.columns):
            kept = np.ones(len(self.microdata.codes), dtype=bool)
            for trees in made:
                kept[trees.rows] &= trees.column != column
            differs = targets.guesses.codes[:, :, q] != targets.profiles[:, column]
            out |= differs & kept[targets.record]
        return out

    def _of_table(self, data: Microdata, made: Sequence[Trees], released: Sequence[Codes]) -> Array:
        """log p(Z^(l) | y) of a whole table, its forests grown on it, shape (m,)."""
        total, drawn = np.zeros(len(released)), list[int]()
        how: Any = {"min_leaf": self.model.min_leaf, "n_jobs": self.n_jobs}
        for old in made:
            trees = grow_forest(data, old.column, old.predictors, old.rows, old.seeds, **how)
            for l, z in enumerate(released):
                votes = self._votes(trees, values_by_leaf(data.codes, z, drawn))
                total[l] += log_p(votes, z[old.rows, old.column], self.model.dirichlet)
            drawn.append(old.column)
        return total

    def __repr__(self) -> str:
        grown = [
            f"{name} ({len(trees):,} trees, {len(trees.right):,} nodes, {len(trees.rows):,} "
            "records replaced)"
            for name, trees in zip(self.order, self.forests, strict=True)
        ]
        return f"ForestFit: {len(self.microdata.codes):,} records; {', '.join(grown)}"


def values_by_leaf(codes: Codes, z: Codes, drawn: Sequence[int]) -> Codes:
    """Values by which records find their leaves: released ones of the columns drawn before."""
    rows = codes.copy()
    rows[:, drawn] = z[:, drawn]
    return rows


def log_p(votes: Counts, z: npt.NDArray[np.integer], dirichlet: float) -> float:
    """log prod_k (votes[k, z_k] + a) / (T_k + K a); minus infinity: a value without votes."""
    shown = np.take_along_axis(votes, z.astype(np.int64)[:, None], axis=1)[:, 0] + dirichlet
    with np.errstate(divide="ignore"):
        return float((np.log(shown) - np.log(votes.sum(axis=1) + votes.shape[1] * dirichlet)).sum())


def draw_levels(votes: Counts, dirichlet: float, rng: Rng) -> Ints:
    """A level for each row of votes (r, K), from its shares or from Dirichlet(votes + a)."""
    weights = rng.standard_gamma(votes + dirichlet) if dirichlet > 0 else votes.astype(float)
    edges = np.cumsum(weights, axis=1)
    picked = rng.random(len(votes)) * edges[:, -1]
    return np.asarray((edges <= picked[:, None]).sum(axis=1))


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
        if not isinstance(self.order, str) or self.order != "amount":
            order = column_order("order", self.order, ', or order="amount"')
            object.__setattr__(self, "order", order)
        whole_number("n_trees", self.n_trees)
        whole_number("min_leaf", self.min_leaf)
        one_of("votes", self.votes)
        one_of("chain", self.chain)
        a = self.dirichlet
        if not is_number(a) or not (isfinite(a) and a >= 0):
            raise InputError(
                "dirichlet", a, "; give a finite number, 0 (plain vote shares) or more"
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
        progress: ProgressOption = None,
    ) -> ForestFit:
        """Grow the forests.

        Parameters
        ----------
        df, columns, levels, releases, missing, progress
            As of `CART.fit`.
        records : mask, list of record labels, or mapping of column to one of these, optional
            Records to replace; all by default. A mapping gives them column by column; columns of
            ``order`` that it does not name are replaced for all records.
        weights : None
            Forests take no record weights.
        sample : bool
            False: a tree stands for a forest. The fit refuses what a fit refuses, and states what
            it offers for a release and an intruder.
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
        no_weights(weights, "Forest", "votes of trees are not a likelihood to raise to a power")
        whole_number("n_jobs", n_jobs)
        data = microdata(df, columns, levels=levels, releases=releases, missing=missing, near=True)
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
                "order",
                "amount",
                "needs the records to replace of each column (`fit(df, records={column: mask})`); "
                "give a list of columns",
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
                "chain",
                "earlier-only",
                "is for columns of which the same records are replaced, and records differ "
                'between columns; use `chain="all-others"`',
            )
        return {data.columns.index(c): masks[c] for c in names}

    def _someone_votes(self, trees: Trees, data: Microdata) -> None:
        everywhere = (trees.bags > 0).all(axis=0)
        if self.votes == "out-of-bag" and everywhere.any():
            row = int(trees.rows[int(np.argmax(everywhere))]) + 1
            raise InputError(
                "votes",
                "out-of-bag",
                f": the record of row {row} is in the bootstrap sample of all {len(trees)} trees "
                f"of column {data.columns[trees.column]!r}, so no tree may vote for it "
                f"({int(everywhere.sum())} such records); give more trees (n_trees), or "
                "`votes='all'`",
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
            raise InputError(
                "order", "amount", "names no columns to order; list the orders (orders)"
            )
        if factorial(len(model.order)) > MAX_ORDERS:
            raise InputError(
                f"order names {len(model.order)} columns, which can stand in "
                f"{factorial(len(model.order)):,} orders; list those to try (orders), at most "
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
            "CART for it, or cut it into categories first (`pandas.cut`)"
        )
    if len(rows) < 2:
        raise InputError(
            f"column {name!r} is replaced for {len(rows)} record; a forest is grown on the records "
            "replaced: select at least 2"
        )
    check_outcome(data, column, predictors, rows, ', or use chain="all-others"')
