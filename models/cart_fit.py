"""Grown trees: synthesis from their leaves, and the evidence of a release in closed form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr, ndtri

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import at_least, known_columns
from bayes_risk.microdata import Codes, Microdata, Number
from bayes_risk.release import Release
from bayes_risk.synthesizer import Progress, Targets

from .leaf_evidence import BAYESIAN, PLAIN, Shown, guess_cells, log_gain, numbered
from .trees import Tree, grow

if TYPE_CHECKING:
    from .cart import CART

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CARTFit:
    """Trees in sequence.

    Attributes
    ----------
    model : CART
    microdata : Microdata
    trees : tuple of Tree
        In the order of synthesis.
    diagnostics : dict
        Empty: nothing is sampled.
    """

    model: "CART"
    microdata: Microdata
    trees: tuple[Tree, ...]
    diagnostics: Mapping[str, float] = field(default_factory=dict)

    @property
    def n_draws(self) -> int:
        """No draws."""
        return 0

    @property
    def kind(self) -> int:
        """How the values of a leaf are drawn."""
        return BAYESIAN if self.model.bootstrap == "bayesian" else PLAIN

    @property
    def records_differ(self) -> bool:
        """Records with the same values have the same evidence."""
        return False

    def offers(self, release: Release) -> frozenset[str]:
        """Ways to the evidence: with the splits known, or with trees grown anew for each guess."""
        smoothed = any(self._smoothed(tree) for tree in self._made(release))
        return frozenset() if smoothed else frozenset({"exact", "refit"})

    def _smoothed(self, tree: Tree) -> bool:
        """Whether the outcome of a tree is drawn from kernels."""
        number = isinstance(self.microdata.variables[tree.column], Number)
        return self.model.smoothing is not None and number

    def mechanism(self, release: Release) -> str:
        """How the release was drawn, one phrase for reports."""
        order = [self.microdata.columns[t.column] for t in self._made(release)]
        how = "the Bayesian bootstrap" if self.kind == BAYESIAN else "plain draws"
        return (
            f"trees and the order {', '.join(order)} are known, splits included, not the values in "
            f"the leaves; {how} in each leaf"
        )

    def _made(self, release: Release) -> list[Tree]:
        """The trees that made a release."""
        names = known_columns("synthesized", release.synthesized, self.microdata.columns)
        grown = {self.microdata.columns[t.column]: t for t in self.trees}
        without = [c for c in names if c not in grown]
        if without:
            raise InputError(
                f"the release has column {without[0]!r} synthesised, for which there is no tree; "
                f"there are trees of {list(grown)}"
            )
        return [t for name, t in grown.items() if name in names]

    def synthesize(
        self,
        m: int = 5,
        columns: Sequence[str] | None = None,
        records: Any = None,
        *,
        random_seed: int | np.random.Generator | None = None,
    ) -> Release:
        """Draw m synthetic data sets from the same trees.

        Parameters
        ----------
        m : int
            Number of data sets, at least 1.
        columns : list of str, optional
            Columns of the model's order to synthesise, all of them by default.
        records : mask, or list of record labels, optional
            Records to synthesise, all by default.
        random_seed : int, Generator or None

        Returns
        -------
        Release

        Raises
        ------
        InputError
            m below 1; columns without a tree, unknown labels.
        """
        m = at_least("m", m, 1)
        grown = [self.microdata.columns[t.column] for t in self.trees]
        names = known_columns("columns", grown if columns is None else columns, grown)
        if not names:
            raise InputError("columns names no column; name those to synthesise, or leave it out")
        mask = self.microdata.mask(records)
        rng = np.random.default_rng(random_seed)
        tables = [self._synthetic_table(names, mask, child) for child in rng.spawn(m)]
        return Release(
            datasets=tables,
            synthesized=tuple(c for c in grown if c in names),
            records=None if mask.all() else mask,
            seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
        )

    def _synthetic_table(
        self, names: Sequence[str], mask: npt.NDArray[np.bool_], rng: np.random.Generator
    ) -> pd.DataFrame:
        codes = self.microdata.codes.copy()
        genuine = self.microdata.codes
        for tree in self.trees:
            if self.microdata.columns[tree.column] not in names:
                continue
            nodes = tree.node(codes[mask])
            donors = draw_donors(tree, nodes, self.kind, rng)
            values = genuine[donors, tree.column]
            if self._smoothed(tree):
                values = smooth(tree, genuine[:, tree.column], nodes, values, rng)
                if getattr(self.microdata.variables[tree.column], "whole", False):
                    values = np.round(values)
            codes[mask, tree.column] = values
        return self.microdata.decode(codes)

    def direct(
        self,
        evidence: str,
        release: Release,
        targets: Targets,
        *,
        rng: np.random.Generator,
        progress: Progress | None,
    ) -> Array:
        """log p(Z^(l) | y*, y_-i) up to a constant for each target, shape (m, G, U)."""
        if evidence == "refit":
            return self._regrown(release, targets, progress)
        replaced = release.replaced(len(self.microdata.codes))
        trees = self._made(release)
        out = np.zeros((release.m, *targets.guesses.codes.shape[:2]))
        for l in range(release.m):
            z = release.codes(self.microdata, l)[replaced]
            for tree in trees:
                out[l] += self._of_tree(tree, z, targets)
            if progress is not None:
                progress("evidence", l + 1, release.m)
        return out

    def _of_tree(self, tree: Tree, z: Codes, targets: Targets) -> Array:
        j = tree.column
        uses = frozenset([j, *tree.predictors.tolist()])
        rows, cell = guess_cells(targets, uses)  # shape (G', U, p)
        (y, released, guessed), V = numbered(
            [self.microdata.codes[:, j].astype(float), z[:, j].astype(float), rows[:, :, j]]
        )
        shown = Shown.of(tree, y, tree.node(z), released, V)
        own = tree.leaf(targets.profiles), y[targets.record]
        leaf = tree.leaf(rows.reshape(-1, rows.shape[2])).reshape(rows.shape[:2])
        return log_gain(tree, shown, self.kind, own, (leaf, guessed))[cell]

    def _regrown(self, release: Release, targets: Targets, progress: Progress | None) -> Array:
        """The same with trees grown anew for each target and guess."""
        replaced = release.replaced(len(self.microdata.codes))
        z = [release.codes(self.microdata, l)[replaced] for l in range(release.m)]
        out = np.empty((release.m, *targets.guesses.codes.shape[:2]))
        for u in range(len(targets)):
            for g in range(out.shape[1]):
                codes = self.microdata.codes.copy()
                codes[targets.record[u], targets.columns] = targets.guesses.codes[g, u]
                out[:, g, u] = self._of_table(codes, z, release)
            if progress is not None:
                progress("refits", u + 1, len(targets))
        return out

    def _of_table(self, codes: Codes, z: Sequence[Codes], release: Release) -> Array:
        """log p(Z^(l) | y) of a whole table, its trees grown on it, shape (m,)."""
        data = Microdata(
            codes=codes, variables=self.microdata.variables, index=self.microdata.index
        )
        total = np.zeros(len(z))
        for old in self._made(release):
            tree = grow(data, old.column, old.predictors, min_leaf=self.model.min_leaf, seed=0)
            for l, released in enumerate(z):
                (y, shown), V = numbered(
                    [codes[:, tree.column].astype(float), released[:, tree.column].astype(float)]
                )
                total[l] += Shown.of(tree, y, tree.node(released), shown, V).log_p(self.kind)
        return total

    def __repr__(self) -> str:
        leaves = [
            f"{self.microdata.columns[t.column]} ({int((t.feature < 0).sum()):,} leaves)"
            for t in self.trees
        ]
        return f"CARTFit: {len(self.microdata.codes):,} records; {', '.join(leaves)}"


def draw_donors(
    tree: Tree, nodes: npt.NDArray[np.int64], kind: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """A record of its node for each row (R,), whose value it is given.

    Bayesian bootstrap: the records of a node have weights Dirichlet(1, ..., 1), the same for all
    rows that draw from it.
    """
    out = np.empty(len(nodes), dtype=np.int64)
    order = np.argsort(nodes, kind="stable")
    used, first = np.unique(nodes[order], return_index=True)
    for node, rows in zip(used.tolist(), np.split(order, first[1:]), strict=True):
        held = tree.donors[tree.begin[node] : tree.end[node]]
        if kind == PLAIN:
            out[rows] = held[rng.integers(len(held), size=len(rows))]
            continue
        edges = np.cumsum(rng.standard_exponential(len(held)))
        out[rows] = held[np.searchsorted(edges, rng.random(len(rows)) * edges[-1])]
    return out


def smooth(
    tree: Tree,
    y: Array,
    nodes: npt.NDArray[np.int64],
    values: Array,
    rng: np.random.Generator,
) -> Array:
    """Draws from Gaussian kernels around values (R,), cut off at the range of each row's node.

    Inverse-cdf draws; the bandwidth is Silverman's for the node's genuine values ``y``. Nodes
    whose values are all equal keep them.
    """
    out = values.astype(float)
    for node in np.unique(nodes).tolist():
        held = y[tree.donors[tree.begin[node] : tree.end[node]]]
        rows = np.flatnonzero(nodes == node)
        low, high = float(held.min()), float(held.max())
        if low == high:
            continue
        h = bandwidth(held)
        edges = ndtr((low - out[rows]) / h), ndtr((high - out[rows]) / h)
        drawn = out[rows] + h * ndtri(rng.uniform(*edges))
        out[rows] = np.clip(drawn, low, high)
    return out


def bandwidth(values: Array) -> float:
    """Silverman's rule, 0.9 min(sd, IQR / 1.34) n^(-1/5); the sd alone where the IQR is 0."""
    sd = float(values.std(ddof=1))
    spread = float(np.subtract(*np.quantile(values, [0.75, 0.25]))) / 1.34
    return float(0.9 * (min(sd, spread) if spread > 0 else sd) * len(values) ** -0.2)
