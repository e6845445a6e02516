"""Trees in sequence with the Bayesian bootstrap (Reiter 2005; Drechsler & Reiter 2008)."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.errors import InputError
from bayes_risk._core.progress import ProgressOption, shows_progress
from bayes_risk._core.validate import known_columns, one_of, positive, whole_number
from bayes_risk.data.microdata import Codes, Microdata, Number
from bayes_risk.data.record_weights import checked_weights, survey_weights, weights_in_words
from bayes_risk.data.rpart_file import SynthpopModels
from bayes_risk.evidence.contract import (
    Capabilities,
    Offer,
    Simulated,
    Targets,
    drawn_as,
    offers,
    without_weights,
)
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.synthesis import (
    Declaration,
    Request,
    Synthesis,
    Ticker,
    check_outcome,
    column_order,
    made_columns,
    microdata,
)
from bayes_risk.release.release import EncodedRelease, Release

from .cart_evidence import Leaves, grown_anew, known_splits, log_prior_of_trees, mismatch
from .cart_known import IN_WORDS, partly_known
from .kernels import bandwidth
from .rpart_import import trees_of_releases
from .tree import BAYESIAN, PLAIN, Tree, grow
from .tree_households import TreeHouseholds

Shares = dict[int, Array]  # of the records of a node, summed up


def draw_donors(
    tree: Tree,
    nodes: Ints,
    kind: int,
    rng: Rng,
    weights: Array | None = None,
    shares: Shares | None = None,
) -> Ints:
    """A record of its node for each row (R,), whose value it is given.

    Bayesian bootstrap: records of a node have weights Dirichlet(1, ..., 1), with record ``weights``
    (n,) Dirichlet(alpha_1, ...), kept in ``shares``. Plain draws: alike, or by their weights.
    """
    out = np.empty(len(nodes), dtype=np.int64)
    order = np.argsort(nodes, kind="stable")
    used, first = np.unique(nodes[order], return_index=True)
    for node, rows in zip(used.tolist(), np.split(order, first[1:]), strict=True):
        donors = tree.donors[tree.begin[node] : tree.end[node]]
        if kind == PLAIN and weights is None:
            out[rows] = donors[rng.integers(len(donors), size=len(rows))]
            continue
        if shares is not None and node in shares:
            edges = shares[node]
        elif weights is None:
            edges = np.cumsum(rng.standard_exponential(len(donors)))
        elif kind == PLAIN:
            edges = np.cumsum(weights[donors])
        else:
            # gamma draws up to a common factor, in logs: with small shapes all may underflow.
            # Gamma(a) = Gamma(a + 1) U^(1/a)
            a = weights[donors]
            log_g = np.log(rng.standard_gamma(a + 1.0)) + np.log1p(-rng.random(len(a))) / a
            edges = np.cumsum(np.exp(log_g - log_g.max()))
        if shares is not None:
            shares[node] = edges
        out[rows] = donors[np.searchsorted(edges, rng.random(len(rows)) * edges[-1])]
    return out


def kernel_draws(tree: Tree, y: Array, nodes: Ints, values: Array, rng: Rng) -> Array:
    """Draws from kernels (Silverman's bandwidth) around values (R,), cut off at a node's range."""
    out = values.astype(float)
    for node in np.unique(nodes).tolist():
        genuine = y[tree.donors[tree.begin[node] : tree.end[node]]]
        rows = np.flatnonzero(nodes == node)
        low, high = float(genuine.min()), float(genuine.max())
        if low == high:
            continue
        h = bandwidth(genuine)
        edges = ndtr((low - out[rows]) / h), ndtr((high - out[rows]) / h)
        drawn = out[rows] + h * ndtri(rng.uniform(*edges))
        out[rows] = np.clip(drawn, low, high)
    return out


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CARTFit(Synthesis):
    """Trees in sequence."""

    n_draws: ClassVar[int] = 0
    model: Any
    microdata: Microdata
    trees: tuple[Tree, ...]  # in the order of synthesis; of a number that may be missing two
    diagnostics: Mapping[str, float] = field(default_factory=dict)  # empty: nothing is sampled
    # shape (n,): record weights, powers of the likelihood; None: all 1
    weights: Array | None = None
    # Trees that were not grown here: those of each data set. ``trees`` are the first's
    of_release: tuple[tuple[Tree, ...], ...] | None = None
    files: tuple[pd.DataFrame, ...] = ()  # the releases that were read with the table
    known: Flags | None = None  # shape (n,): records whose values alone are seen; None: all

    @property
    def order(self) -> list[str]:
        """Columns in the order of synthesis."""
        return list(dict.fromkeys(self.microdata.columns[tree.column] for tree in self.trees))

    @property
    def parameters(self) -> tuple[str, ...]:
        """How shares of values in leaves may be drawn; trees of files, and floors: plainly."""
        if self.of_release is not None or self.model.floor is not None:
            return ("plug-in",)
        if self.model.bootstrap == "bayesian":
            return "independent", "shared", "plug-in"
        return "plug-in", "independent", "shared"

    def _kind(self, parameters: str) -> int:
        return PLAIN if parameters == "plug-in" else BAYESIAN

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        """Evidence with the splits known, or with trees grown here grown anew for each guess."""
        trees = self._made(release)
        numbers = self.microdata.numbers if intruder.kind == "none" else {}
        known = [] if any(c in numbers for c in release.synthesized) else ["log-prior"]
        further = offers(self, "knowing", "trees", "point-masses", *known)
        further += offers(self, "factors") if self.known is None else []
        if not intruder.knows_less:
            names = [self._computation(release), *["refit"] * (self.of_release is None)]
            if names[0] == "exact" and self.weights is None and self.model.floor is None:
                if not any(map(self._smoothed, trees)):
                    prior = partial(self._log_prior, release)
                    of_release = TreeHouseholds(partial(self._leaves, release), prior)
                    further.append(Offer("household", of_release))
            return Capabilities([*offers(self, computed=names), *further], any_rows=True)
        made = np.flatnonzero(release.columns)
        split = any(np.isin(tree.split_columns, made).any() for tree in trees)
        name = "independent-releases" if split else "exact"
        if why := self._why_all_must_be_known(trees, intruder):
            return Capabilities([Offer(name, refusal=why), *further])
        compute = partial(self.closed_form, name)
        words = IN_WORDS.get(name, "")
        return Capabilities([Offer(name, compute=compute, in_words=words), *further])

    def _computation(self, release: EncodedRelease) -> str:
        """How the evidence of known splits is computed."""
        if self.of_release is not None or self._kind(drawn_as(self, release)) != BAYESIAN:
            return "exact"
        return "monte-carlo" if any(map(self._smoothed, self._made(release))) else "exact"

    def _why_all_must_be_known(self, trees: Sequence[Tree], intruder: Intruder) -> str:
        """Why unknown records cannot be summed over; or nothing."""
        if self.weights is not None:
            return without_weights(intruder)
        if self.of_release is not None or self.model.floor is not None:
            whose = "a floor" if self.of_release is None else "trees that were not grown here"
            return (
                f"with {whose}, records that are not known are not summed over; give "
                '`knows_records="all-but-target"`'
            )
        smoothed = [tree for tree in trees if self._smoothed(tree)]
        if smoothed:
            return (
                f"column {self.microdata.columns[smoothed[0].column]!r} is smoothed by kernels, "
                "and records that are not known cannot be summed over then; fit with "
                'no `smoothing`, or give `knows_records="all-but-target"`'
            )
        return ""

    def _smoothed(self, tree: Tree) -> bool:
        """Whether the outcome of a tree is drawn from kernels."""
        number = isinstance(self.microdata.variables[tree.column], Number)
        return self.model.smoothing is not None and number

    def _whole(self, tree: Tree) -> bool:
        """Whether the outcome of a tree is whole numbers."""
        return bool(getattr(self.microdata.variables[tree.column], "whole", False))

    def mechanism(self, release: EncodedRelease) -> str:
        trees = self._made(release)
        order = dict.fromkeys(self.microdata.columns[tree.column] for tree in trees)
        bayesian = self._kind(drawn_as(self, release)) == BAYESIAN
        how = "the Bayesian bootstrap" if bayesian else "plain draws"
        if any(self._smoothed(tree) for tree in trees):
            how += ", numbers smoothed by kernels,"
        whose = "trees" if self.of_release is None else "synthpop's own trees"
        known = "are known, splits included, not the values in the leaves"
        floor, floored = self.model.floor, ""
        if floor is not None:
            floored = f"; values that a leaf does not hold have probability {floor:g} there"
            if self.of_release is None:
                whose, known = "trees grown here", "are assumed, not known to have made the files"
        return (
            f"{whose} and the order {', '.join(order)} {known}; {how} in each leaf"
            f"{weights_in_words(self.weights)}{floored}"
        )

    def _made(self, release: EncodedRelease, l: int = 0) -> list[Tree]:
        """The trees that made data set l of a release."""
        lacking = f"there is no tree; the model has `order={self.order}`"
        names = made_columns(release, self.microdata, self.order, lacking)
        columns = self.microdata.columns
        return [tree for tree in self._trees(l, release.m) if columns[tree.column] in names]

    def _trees(self, l: int, m: int) -> tuple[Tree, ...]:
        """All trees of data set l of m."""
        if self.of_release is None:
            return self.trees
        if m != len(self.of_release):
            raise InputError(
                f"the trees are those of {len(self.of_release)} data sets and there are {m}; give "
                "all data sets of the synthesis whose models were written, in their order"
            )
        return self.of_release[l]

    _modelled = order

    def _tables(self, request: Request) -> Iterator[Codes]:
        if self.model.floor is not None:
            raise InputError(
                "floor",
                self.model.floor,
                "is for files made elsewhere; leave it out to synthesise",
            )
        kind, genuine, mask = self._kind(request.parameters), self.microdata.codes, request.mask
        shares: list[Shares] = []  # of each tree's leaves, as far as drawn
        for l, rng in enumerate(request.rngs):
            trees, codes = self._trees(l, len(request.rngs)), request.table()
            if l == 0 or request.parameters != "shared":
                shares = [{} for _ in trees]
            for tree, share in zip(trees, shares, strict=True):
                if self.microdata.columns[tree.column] not in request.columns:
                    continue
                nodes = tree.node(codes[mask])
                donors = draw_donors(tree, nodes, kind, rng, self.weights, share)
                values = genuine[donors, tree.column]
                if self._smoothed(tree):
                    values = kernel_draws(tree, genuine[:, tree.column], nodes, values, rng)
                    values = np.round(values) if self._whole(tree) else values
                concerned = nodes < tree.n_drawn
                codes[np.flatnonzero(mask)[concerned], tree.column] = values[concerned]
            yield codes

    @property
    def of_files(self) -> bool:
        return self.of_release is not None

    @property
    def floored(self) -> bool:
        return self.model.floor is not None

    def without_floor(self) -> "CARTFit":
        """The same trees, which make only what their leaves hold."""
        return replace(self, model=replace(self.model, floor=None))

    def closed_form(
        self, evidence: str, release: EncodedRelease, targets: Targets, **how: Any
    ) -> Simulated:
        """log p(Z^(l) | y*, y_-i) up to a constant for each target, shape (m, G, U).

        ``"exact"``, ``"monte-carlo"``: the splits are known (S), the values in the leaves are not.
        ``"refit"``: trees grown anew for each target and guess: U x G fits. For an intruder who
        does not know all other records one number for all data sets.
        """
        leaves = self._leaves(release)
        if self.known is not None:
            return partly_known(leaves, targets, self.known, how["progress"])
        if evidence == "refit":
            found = grown_anew(leaves, targets, self.model.min_leaf, **how)
        else:
            found = known_splits(leaves, targets, **how)
        if evidence == "exact" or not found.deviations.any():
            return replace(found, deviations=found.deviations[:2])
        return found

    def log_prior(self, release: EncodedRelease, targets: Targets) -> Array:
        """What the other records in its leaves say of a record, tree after tree, (G, U)."""
        return self._log_prior(release, self.known, targets)

    def _log_prior(self, release: EncodedRelease, known: Flags | None, targets: Targets) -> Array:
        sets = range(1 if self.of_release is None else release.m)
        trees = [self._made(release, l) for l in sets]
        return log_prior_of_trees(self.microdata, trees, known, targets)

    def factors(
        self, evidence: str, release: EncodedRelease, targets: Targets
    ) -> tuple[str, ...] | str:
        """The synthesised columns in their order: a factor is that of a column's trees."""
        if evidence == "refit":
            return "trees were grown anew for each guess, all columns at once"
        columns = self.microdata.columns
        return tuple(dict.fromkeys(columns[tree.column] for tree in self._made(release)))

    def _leaves(self, release: EncodedRelease) -> Leaves:
        """The trees that made a release, and what it shows."""
        draws = release.by_draw  # data sets from the same shares are one long one
        trees = [self._made(release, together[0]) for together in draws]
        return Leaves(
            data=self.microdata,
            trees=trees,
            kind=self._kind(drawn_as(self, release)),
            smoothed=[self._smoothed(tree) for tree in trees[0]],
            whole=[self._whole(tree) for tree in trees[0]],
            z=[np.vstack([release.codes[l][release.rows] for l in together]) for together in draws],
            weights=self.weights,
            floor=self.model.floor,
        )

    def report_mismatch(self, release: Release | None = None) -> pd.DataFrame:
        """Where trees and files disagree.

        Parameters
        ----------
        release : Release, optional
            By default the files that were read with the table, in which all columns of the order
            were synthesised.

        Returns
        -------
        DataFrame
            One row for each data set (from 1) and synthesised column that is not smoothed:
            ``release``, ``column``, ``records`` whose values were replaced, ``elsewhere`` how many
            of these values nobody holds in the leaf that the trees lead to, and their
            ``share``. Zeros where these trees made the files.
        """
        if release is None and not self.files:
            raise InputError("there are no files to compare; give release")
        shown = release or Release(datasets=self.files, synthesized=self.order)
        return mismatch(self._leaves(EncodedRelease.of(shown, self.microdata)))

    def knowing(self, known: Flags, release: EncodedRelease, **how: Any) -> "CARTFit":
        """The same trees, of unknown records only how many lie in each leaf."""
        return replace(self, known=known)

    def __repr__(self) -> str:
        leaves = [
            f"{self.microdata.columns[tree.column]} ({tree.n_leaves:,} leaves)"
            for tree in self.trees
        ]
        return f"CARTFit: {len(self.microdata.codes):,} records; {', '.join(leaves)}"


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
        then does not show genuine values only, and none of 0 where many have it: leave it out for
        such numbers. The evidence is simulated, with an error, unless ``bootstrap="none"``.
    floor : float, optional
        For files made elsewhere by trees that are gone: the trees are *assumed*, and every value of
        a column has at least this probability in each leaf, also where no record there has it;
        above 0, below 1 over the number of values. None: such a value is an error. The smaller, the
        more a match of released values and leaves reveals (docs/trees.md). With
        ``bootstrap="none"``.

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
        whole_number("min_leaf", self.min_leaf)
        one_of("bootstrap", self.bootstrap)
        if self.smoothing is not None:
            one_of("smoothing", self.smoothing)
        if self.floor is not None:
            if positive("floor", self.floor) >= 1:
                raise InputError("floor", self.floor, "is a probability; give less than 1")
            if self.bootstrap != "none" or self.smoothing is not None:
                raise InputError(
                    "floor",
                    self.floor,
                    "is for plain draws; give `bootstrap='none'`, and no smoothing",
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
        missing_numbers: Mapping[str, float] | None = None,
        weights: Any = None,
        sample: bool = True,
        random_seed: int | np.random.Generator | None = None,
        progress: ProgressOption = None,
    ) -> CARTFit:
        """Grow the trees.

        Parameters
        ----------
        df : DataFrame
            The confidential table. Columns of numeric dtype are numbers, all others categories;
            make codes pandas categories first. Ordered categories are split in their order.
        columns : list of str, optional
            Columns to use; all by default.
        levels, releases
            See `Microdata.from_frame`.
        missing, missing_numbers
            See `Microdata.from_frame`. With ``missing="level"`` numbers may be missing too: in
            trees a missing one is a number a little below all others.
        weights : array (n,), Series or str, optional
            Record weights alpha_i in (0, 1], powers of the multinomial likelihood in the leaves
            (docs/sensitivity.md): the bootstrap's Dirichlet has them in the place of
            ones, plain draws are in proportion to them, and splits are found with them.
            ``min_leaf`` still counts records. A text: as in `DPMPM.fit`.
        sample : bool
            Accepted for uniformity; nothing is sampled.
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
        df, weights = survey_weights(df, weights)
        data = microdata(
            df,
            columns,
            levels=levels,
            releases=releases,
            missing=missing,
            missing_numbers=missing_numbers,
            near=True,
        )
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
            outcome = data.variables[column]
            if self.smoothing and isinstance(outcome, Number) and outcome.missing is not None:
                raise InputError(
                    "smoothing",
                    self.smoothing,
                    f"is for numbers that all have; {data.columns[column]!r} is missing for some",
                )
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
                'br.read_synthpop("export", `models="models.json.gz"`).models'
            )
        if order is not None and list(order) != list(models.synthesized):
            raise InputError(
                "order",
                list(order),
                f"and the models are of {list(models.synthesized)}, in this order; give it as the "
                "models have it",
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
                    name,
                    given,
                    "is not offered with weights: files made elsewhere and smoothed values count "
                    f"every record in full; leave {name} or the weights out",
                )
        return alpha
