"""Trees, and an intruder who knows only some of the other records."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import Capabilities, Progress, Simulated, Targets
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.release import EncodedRelease

from .cart_evidence import Leaves, check_made, rows_of
from .leaf_evidence import LeafCounts, numbered
from .leaf_unknown import PartialKnowledgeLeaves, log_p_partly_known
from .tree import Tree

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
BELIEF = (
    "summed over all that the records that are not known may hold: the intruder knows how many "
    "lie in each leaf, and learns from the known values there, after a prior of the weight of one "
    "record that favours no value"
)
IN_WORDS = {
    "exact": f"exact: in closed form, {BELIEF}",
    "independent-releases": f"independent-releases: in closed form, {BELIEF}; leaves of different "
    "trees are taken as if they did not share these records (an approximation)",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartialKnowledgeCART:
    """Trees of which the intruder knows the splits, and the values of some records.

    Attributes
    ----------
    leaves : Leaves
        The trees that made the release.
    known : ndarray of bool, shape (n,)
        Records whose values are known, among them those that were released unchanged.
    """

    leaves: Leaves
    known: Mask

    @property
    def n_draws(self) -> int:
        """No draws."""
        return 0

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        """All is computed here."""
        ways = ways_to(self.leaves.data, self.leaves.trees[0], release)
        return Capabilities(methods=ways, computed=ways, closed_form=self)

    def closed_form(
        self,
        evidence: str,
        release: EncodedRelease,
        targets: Targets,
        *,
        rng: np.random.Generator,
        progress: Progress | None,
    ) -> Simulated:
        """log p(Z^(1..m) | y*, y_A) up to a constant for each target, shape (1, G, U).

        One number for all data sets, which share the records that are not known.
        """
        total = np.zeros((1, *targets.guesses.codes.shape[:2]))
        trees = self.leaves.trees[0]  # those of all data sets
        for t, tree in enumerate(trees):
            total[0] += self._of_tree(tree, targets)
            if progress is not None:
                progress("evidence", t + 1, len(trees))
        return Simulated.exact(total)

    def _of_tree(self, tree: Tree, targets: Targets) -> Array:
        """What one tree adds, shape (G, U)."""
        leaves, j = self.leaves, tree.column
        leaf, guessed, cell = rows_of(tree, targets)
        values = leaves.data.codes[:, j].astype(float)
        released = [z[:, j].astype(float) for z in leaves.z]
        (y, value, *zs), V = numbered([values, guessed, *released])
        shown = [(tree.node(z), numbers) for z, numbers in zip(leaves.z, zs, strict=True)]
        for nodes, numbers in shown:
            check_made(leaves.data, tree, LeafCounts.from_tree(tree, y, nodes, numbers, V))
        # a number may be any that the column shows
        levels = leaves.data.variables[j].n_levels or len(np.unique(np.concatenate(zs)))
        seen = PartialKnowledgeLeaves.from_tree(tree, y, self.known, shown, V, levels, leaves.kind)
        own = tree.leaf(targets.profiles), y[targets.record], self.known[targets.record]
        return log_p_partly_known(tree, seen, leaves.kind, own, (leaf, value))[cell]


def ways_to(data: Microdata, trees: Sequence[Tree], release: EncodedRelease) -> frozenset[str]:
    """``"exact"`` where no tree splits on a synthesised column, else ``"independent-releases"``."""
    made = np.flatnonzero(release.columns)
    split = [np.isin(tree.split_columns, made) for tree in trees]
    return frozenset({"independent-releases" if any(s.any() for s in split) else "exact"})
