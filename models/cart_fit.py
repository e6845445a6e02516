"""Grown trees: synthesis from their leaves, and the evidence of a release in closed form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError
from bayes_risk.microdata import Codes, Microdata, Number
from bayes_risk.parameters import drawn
from bayes_risk.release import Release
from bayes_risk.reweighting_weights import in_words
from bayes_risk.synthesizer import Progress, Simulated, Targets

from .cart_evidence import Leaves, grown_anew, known_splits
from .cart_known import IN_WORDS, CARTInPart, ways_to
from .leaf_draws import Shares, draw_donors, smooth
from .leaf_evidence import BAYESIAN, PLAIN
from .synthesis import Request, made_columns
from .trees import Tree

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
    weights : ndarray, shape (n,), or None
        Record weights, powers of the likelihood; None: all 1.
    """

    model: "CART"
    microdata: Microdata
    trees: tuple[Tree, ...]
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    weights: Array | None = None

    @property
    def n_draws(self) -> int:
        """No draws."""
        return 0

    @property
    def order(self) -> list[str]:
        """Columns in the order of synthesis."""
        return [self.microdata.columns[tree.column] for tree in self.trees]

    @property
    def parameters(self) -> tuple[str, ...]:
        """How the shares of values in leaves may be drawn, the model's way first."""
        if self.model.bootstrap == "bayesian":
            return "independent", "shared", "plug-in"
        return "plug-in", "independent", "shared"

    @property
    def kind(self) -> int:
        """How the values of a leaf are drawn, if nothing else is asked for."""
        return self._kind(self.parameters[0])

    def _kind(self, parameters: str) -> int:
        return PLAIN if parameters == "plug-in" else BAYESIAN

    @property
    def records_differ(self) -> bool:
        """Records with the same values have the same evidence."""
        return False

    def offers(self, release: Release) -> frozenset[str]:
        """Ways to the evidence: with the splits known, or with trees grown anew for each guess."""
        smoothed = any(self._smoothed(tree) for tree in self._made(release))
        simulated = smoothed and self._kind(drawn(self, release)) == BAYESIAN
        return frozenset({"simulated" if simulated else "exact", "refit"})

    def _smoothed(self, tree: Tree) -> bool:
        """Whether the outcome of a tree is drawn from kernels."""
        number = isinstance(self.microdata.variables[tree.column], Number)
        return self.model.smoothing is not None and number

    def _whole(self, tree: Tree) -> bool:
        """Whether the outcome of a tree is whole numbers."""
        return bool(getattr(self.microdata.variables[tree.column], "whole", False))

    def mechanism(self, release: Release) -> str:
        """How the release was drawn, one phrase for reports."""
        order = [self.microdata.columns[tree.column] for tree in self._made(release)]
        bayesian = self._kind(drawn(self, release)) == BAYESIAN
        how = "the Bayesian bootstrap" if bayesian else "plain draws"
        if any(self._smoothed(tree) for tree in self._made(release)):
            how += ", numbers smoothed by kernels,"
        return (
            f"trees and the order {', '.join(order)} are known, splits included, not the values in "
            f"the leaves; {how} in each leaf{in_words(self.weights)}"
        )

    def _made(self, release: Release) -> list[Tree]:
        """The trees that made a release."""
        lacking = f"there is no tree; there are trees of {self.order}"
        names = made_columns(release, self.microdata, self.order, lacking)
        return [t for t, name in zip(self.trees, self.order, strict=True) if name in names]

    def synthesize(
        self,
        m: int = 5,
        columns: Sequence[str] | None = None,
        records: Any = None,
        *,
        parameters: str | None = None,
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
        parameters : {"independent", "shared", "plug-in"}, optional
            How the shares of values in a leaf are drawn: by the Bayesian bootstrap for each data
            set anew, or once for all of them; or not at all, values drawn plainly. By default what
            the model's ``bootstrap`` says. See `docs/parameters.md`.
        random_seed : int, Generator or None

        Returns
        -------
        Release

        Raises
        ------
        InputError
            m below 1; columns without a tree, unknown labels.
        """
        request = Request.of(
            self, self.order, m, columns, records, parameters=parameters, random_seed=random_seed
        )
        shared = request.parameters == "shared"
        shares: list[Shares] = [{} for _ in self.trees]  # of all tables, or of one
        return request.release(
            self._table(request, shares if shared else [{} for _ in self.trees], rng)
            for rng in request.rngs
        )

    def _table(self, request: Request, shares: Sequence[Shares], rng: np.random.Generator) -> Codes:
        """One synthetic table, in codes; ``shares`` of each tree's leaves as far as drawn."""
        kind = self._kind(request.parameters)
        codes, genuine, mask = self.microdata.codes.copy(), self.microdata.codes, request.mask
        for tree, name, held in zip(self.trees, self.order, shares, strict=True):
            if name not in request.columns:
                continue
            nodes = tree.node(codes[mask])
            donors = draw_donors(tree, nodes, kind, rng, self.weights, held)
            values = genuine[donors, tree.column]
            if self._smoothed(tree):
                values = smooth(tree, genuine[:, tree.column], nodes, values, rng)
                if self._whole(tree):
                    values = np.round(values)
            codes[mask, tree.column] = values
        return codes

    def direct(
        self,
        evidence: str,
        release: Release,
        targets: Targets,
        *,
        rng: np.random.Generator,
        progress: Progress | None,
    ) -> Array | Simulated:
        """log p(Z^(l) | y*, y_-i) up to a constant for each target, shape (m, G, U).

        ``"exact"``, ``"simulated"``: the splits are known (S), the values in the leaves are not.
        ``"refit"``: trees grown anew for each target and guess: U x G fits.
        """
        leaves = self._leaves(release)
        if evidence == "refit":
            found = grown_anew(leaves, targets, self.model.min_leaf, rng, progress)
        else:
            found = known_splits(leaves, targets, rng, progress)
        return found.log_p if evidence == "exact" or not found.deviations.any() else found

    def _leaves(self, release: Release) -> Leaves:
        """The trees that made a release, and what it shows."""
        replaced, trees = release.replaced(len(self.microdata.codes)), self._made(release)
        return Leaves(
            data=self.microdata,
            trees=trees,
            kind=self._kind(drawn(self, release)),
            smoothed=[self._smoothed(tree) for tree in trees],
            whole=[self._whole(tree) for tree in trees],
            z=[  # data sets from the same shares are one long one
                np.vstack([release.codes(self.microdata, l)[replaced] for l in together])
                for together in release.by_draw
            ],
            weights=self.weights,
        )

    def offers_knowing(self, release: Release) -> frozenset[str]:
        """Ways to the evidence for an intruder who knows only some of the other records.

        ``"exact"`` where no tree splits on a synthesised column, else ``"product"``.

        Raises
        ------
        InputError
            Numbers smoothed by kernels.
        """
        trees = self._made(release)
        smoothed = [tree for tree in trees if self._smoothed(tree)]
        if smoothed:
            raise InputError(
                f"column {self.microdata.columns[smoothed[0].column]!r} is smoothed by kernels, "
                "and records that are not known cannot be summed over then; fit with "
                'smoothing=None, or give knows_records="all-but-target"'
            )
        return ways_to(self.microdata, trees, release)

    def knowing(
        self,
        known: npt.NDArray[np.bool_],
        release: Release,
        *,
        rng: np.random.Generator,
        n_jobs: int,
        progress: Progress | None,
    ) -> CARTInPart:
        """The same trees, the values of the known records (n,) alone seen.

        Of the others the intruder knows how many there are in each leaf.
        """
        return CARTInPart(leaves=self._leaves(release), known=known)

    def knowing_in_words(self, evidence: str) -> str:
        """How the evidence of `knowing` is computed, one phrase for reports."""
        return IN_WORDS[evidence]

    def __repr__(self) -> str:
        leaves = [
            f"{name} ({int((tree.feature < 0).sum()):,} leaves)"
            for name, tree in zip(self.order, self.trees, strict=True)
        ]
        return f"CARTFit: {len(self.microdata.codes):,} records; {', '.join(leaves)}"
