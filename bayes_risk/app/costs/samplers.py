"""Memory of a fit, whatever the model: its draws, its trees, and what it has of the records.

By shape: draws of H values of each parameter; of trees the rows of the records in their leaves and
62 bytes a node; of forests a byte for each record and tree, and ten a node; of regressions the rows
of the design, doubled where a release is seen too.
"""

from dataclasses import dataclass

from .parts import DOUBLE, SINGLE, Parts

LOADED = {  # bytes of its code: kernels while they are compiled; PyMC and what it compiles
    "DPMPM": 150 * 2**20,
    "PoissonMixture": 150 * 2**20,
    "Regression": 150 * 2**20,
    "PyMCModel": 400 * 2**20,
}
NODE = 62  # bytes of a tree's node
FOREST_NODE = 10
MATCHED, DISTANCES = 2**17, 2**21  # guessed rows, and distances to donors, at a time
SHOWN = 2**29  # data sets of a release that are looked up in forests at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """What a fit holds.

    Attributes
    ----------
    kind : str
        The model.
    draws, chains, classes : int
        H (0: nothing is sampled), C, and K (0: no latent classes).
    parameters : int
        Numbers that one draw holds.
    design : int
        Columns of all design matrices.
    outcomes, trees, min_leaf : int
        Columns that trees or forests predict, trees of each, and records of a leaf at least.
    smoothed : bool
        Whether values come from kernels around those in a leaf.
    """

    kind: str
    draws: int = 0
    chains: int = 0
    classes: int = 0
    parameters: int = 0
    design: int = 0
    outcomes: int = 0
    trees: int = 0
    min_leaf: int = 1
    smoothed: bool = False


def code_of(one: Sampler) -> int:
    """Bytes of a model's code."""
    return LOADED.get(one.kind, 0)


def draws_of(one: Sampler, records: int, columns: int) -> int:
    """Bytes that a fit holds: parameters of every draw, rows of the records, trees."""
    if one.kind == "Forest":
        nodes = 2 * records / (one.min_leaf * 1.5)
        return int(one.outcomes * one.trees * (records + FOREST_NODE * nodes))
    if one.kind == "CART":
        leaves = records / (1.5 * one.min_leaf)
        return int(one.outcomes * (DOUBLE * records + 2 * NODE * leaves))
    if one.kind == "PMM":
        return records * columns * (SINGLE + DOUBLE)
    units = 2 * SINGLE * (columns + 4) * records if one.classes else 0
    return DOUBLE * one.draws * one.parameters + units + 2 * DOUBLE * one.design * records


def fitting(one: Sampler, records: int, columns: int) -> Parts:
    """What is there besides while a fit is made."""
    if one.kind in ("CART", "Forest"):
        return {"predictors of a tree": records * columns * (DOUBLE + SINGLE)}
    if one.kind == "PMM":
        return {"models of means": 3 * DOUBLE * records * columns}
    chains = DOUBLE * one.draws * one.parameters
    return {"chains, before they are joined": chains + DOUBLE * one.design * records}


def released_in_forests(one: Sampler, records: int, releases: int) -> int:
    """Bytes of released data sets as forests look them up: leaf and place by tree and record."""
    if one.kind != "Forest":
        return 0
    nodes = 2 * records / (one.min_leaf * 1.5)
    each = one.trees * (2 * SINGLE * records + SINGLE * nodes)
    composition = one.trees * 2 * SINGLE * nodes
    return int(composition + min(releases * each, max(SHOWN, each)) + each)


def matched(one: Sampler, records: int, columns: int, rows: int) -> int:
    """Bytes of guessed rows and of their distances to donors, in predictive mean matching."""
    if one.kind != "PMM":
        return 0
    some = min(rows, MATCHED)
    chances = rows * one.outcomes  # of each column, before they are added up
    distances = 4 * min(some * records, DISTANCES)
    return DOUBLE * (4 * some * (columns + one.outcomes) + distances + chances)
