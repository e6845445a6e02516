"""Evidence of known trees for an intruder who knows no member of the target's household.

Released values depend on how many records of a node have each value (docs/trees.md). A guess of the
whole household moves all its members: their guessed values come into the nodes one after another,
then their true values go, so that no count is 0 on the way where it is not at the end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numba
import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.matching import distinct_rows
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Targets
from bayes_risk.evidence.leave_one_out import Ratio

from .cart_evidence import LeafCounts, Leaves, check_made, gain_of_move, leaf_rows


@numba.njit(cache=True, nogil=True)
def move_one(shown, kind, parent, node, value, step, wanted):
    """Change of log p, if ``wanted``, when a record comes (step 1) or goes (-1).

    ``shown`` is changed with it, in nodes that show values.
    """
    gain, nothing = 0.0, (0.0, 1.0, np.empty((3, 0)))
    while node >= 0:
        if shown.R[node] > 0:
            if wanted:
                old, new = (value, -1) if step < 0 else (-1, value)
                gain += gain_of_move(shown, kind, nothing, node, old, new, 1.0)
            shown.N[node] += step
            key = node * len(shown.values) + value
            place = np.searchsorted(shown.keys, key) if value >= 0 else len(shown.keys)
            if place < len(shown.keys) and shown.keys[place] == key:
                shown.n[place] += step
        node = parent[node]
    return gain


@numba.njit(cache=True, nogil=True)
def fill_gains_of_households(parent, shown, kind, own, guess, index, out):
    """log p(Z | guess of the household, the rest) less that of the truth; index (A, J).

    ``own`` (J,), ``guess`` (G, J): leaves and places of values.
    """
    for a in range(index.shape[0]):
        out[a] = 0.0
        for step in (1, -1):  # guesses come and true values go; then all is as it was
            for j in range(index.shape[1]):
                leaf, value = guess[0][index[a, j], j], guess[1][index[a, j], j]
                out[a] += move_one(shown, kind, parent, leaf, value, step, step > 0)
            for j in range(index.shape[1]):
                out[a] += move_one(shown, kind, parent, own[0][j], own[1][j], -step, step > 0)


@dataclass(frozen=True, slots=True, eq=False)
class TreeHouseholds:
    """Exact evidence of whole households, of `evidence.household.JointlyExact`."""

    made_by: Callable[[], Leaves]  # called when households are audited
    log_prior: Callable[[Flags, Targets], Array]  # (G, J), given those who are known
    number: ClassVar[None] = None
    id: ClassVar[str] = ""
    relate: ClassVar[str] = ""
    _leaves: list[Leaves] = field(default_factory=list)
    _shown: dict[tuple[int, int], LeafCounts] = field(default_factory=dict)

    @property
    def leaves(self) -> Leaves:
        """The trees and what the release shows."""
        if not self._leaves:
            self._leaves.append(self.made_by())
        return self._leaves[0]

    def excluded(self, members: Targets, codes: Codes) -> Flags:
        """None."""
        return np.zeros(len(codes), bool)

    def ratios(self, members: Targets, index: Ints) -> Iterator[Ratio]:
        """Log p of guesses (A, J) of a household given all others; then given each data set too.

        Before the release members are independent, each like the others in its leaves.
        """
        known = np.ones(len(self.leaves.data.codes), bool)
        known[members.record] = False
        alone = replace(members, known=known, fitted=known[members.record])
        base = self.log_prior(known, alone)[index, np.arange(index.shape[1])].sum(axis=1)
        for l in range(-1, len(self.leaves.z)):
            yield Ratio(
                value=(base + (self._gain(l, members, index) if l >= 0 else 0.0))[:, None],
                deviation=np.zeros((2, len(index), 1), np.float32),
                khat=np.zeros(1),
                ess=np.full(1, np.inf),
            )

    def _gain(self, l: int, members: Targets, index: Ints) -> Array:
        """log p(Z^(l) | guess of the household, the rest) less that of the truth, (A,)."""
        out = np.zeros(len(index))
        for t, tree in enumerate(self.leaves.trees[l]):
            shown = self._counts(l, t)
            leaf, value, cell = leaf_rows(tree, members)
            own = tree.leaf(members.profiles), tree.outcome(members.profiles[:, tree.column])
            place = [np.searchsorted(shown.values, x) for x in (own[1], value)]
            met = shown.values[np.minimum(place[1], len(shown.values) - 1)] == value
            guess = leaf, np.where(met, place[1], -1)  # -1: of no record
            # guesses that differ in columns of no concern to the tree are one
            first, of, _ = distinct_rows(cell[index])
            gain, some = np.empty(len(first)), cell[index[first]]
            how = shown, self.leaves.kind, (own[0], place[0]), guess, some
            fill_gains_of_households(tree.parent, *how, gain)
            out += gain[of]
        return out

    def _counts(self, l: int, t: int) -> LeafCounts:
        """Counts of a tree; with an array of records that is its own, which moves change."""
        if (l, t) not in self._shown:
            shown = LeafCounts.of(self.leaves, self.leaves.trees[l][t], self.leaves.z[l])
            check_made(self.leaves.data, self.leaves.trees[l][t], shown.n_strange)
            self._shown[l, t] = shown
        return self._shown[l, t]
