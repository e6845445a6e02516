"""Trees of rpart on the confidential table: columns, levels, where rows fall, who lies in a leaf.

rpart's rules: at each node the primary split decides; where its level is held by no record of the
node, the first surrogate that tells a side; else the side with more records; a row that is not told
a side by any of these stays at the node. synthpop keeps missing numbers, and those named in its
``cont.na``, apart: a tree of a category says which of them a record has, or none (its name ends in
``.NA``), and a second one, grown on the records with none, is of the number (``.0``). Other trees
look at such a number as two columns: its value, 0 where it is kept apart, and that category.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import Codes, Microdata, Number, Variable
from bayes_risk.data.rpart_file import MISSING, Rpart, SynthpopModels

from .tree import Tree, stretches

NOTHING = np.empty(0)


class Feature(NamedTuple):
    """What a tree looks at, computed from one column."""

    column: int
    table: Array | None = None  # of a category, the number of each level in the tree, -1: none
    apart: Array = NOTHING  # values of a number that are kept apart, increasing
    becomes: Array = NOTHING  # what each of these becomes
    rest: float | None = None  # what all others become, None: they stay

    def encoded(self, codes: npt.NDArray[np.generic]) -> Array:
        """The feature of coded values, of any shape."""
        if self.table is not None:
            return np.asarray(self.table[codes.astype(np.int64)])
        values = codes.astype(float)
        out = values if self.rest is None else np.full(values.shape, self.rest)
        for value, becomes in zip(self.apart, self.becomes, strict=True):
            out = np.where(values == value, becomes, out)
        return out


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RpartTree(Tree):
    """A tree of rpart with the table's records in it; those it does not concern in a node more."""

    name: str  # what synthpop calls the outcome
    of: Feature  # what of the column is drawn: itself, or which value is kept apart
    features: tuple[Feature, ...]
    # for each node the first of its rules (nodes + 1,); for each rule its feature, ncat and cut;
    # the side of each level, -1 left, 1 right, 0 neither, (rules, most levels)
    rules: tuple[Ints, Ints, Ints, Array, Ints]
    majority: Ints  # shape (nodes,): the side with more records, 0: none, or not asked for

    def outcome(self, values: npt.NDArray[np.generic]) -> Array:
        return self.of.encoded(values)

    def leaf(self, codes: Codes) -> Ints:
        """The node of coded rows (R, p), shape (R,): a leaf, or where no rule tells a side."""
        X = np.column_stack(
            [f.encoded(codes[:, f.column]) for f in self.features] or [np.zeros(len(codes))]
        )
        out = np.zeros(len(codes), dtype=np.int64)
        if self.n_drawn < self.n_nodes:
            out[np.isin(codes[:, self.column].astype(float), self.of.apart)] = self.n_drawn
        _descend(X, self.rules, (self.majority, self.left, self.right), out)
        return out

    def node(self, codes: Codes) -> Ints:
        """The node whose values a row is given, shape (R,)."""
        found = self.leaf(codes)
        stay = int((self.left[found] >= 0).sum())
        if stay and self.of.table is None and self.of.rest is None:
            raise InputError(
                f"{stay:,} synthetic records stay above the leaves of the tree of {self.name!r}, "
                "whose splits give them no side; synthpop then takes a leaf at random, which is "
                "not offered: synthesise again with other levels, or take "
                'CART with `bootstrap="none"` and a `floor`, whose trees are assumed'
            )
        return found


@numba.njit(cache=True, nogil=True)
def _descend(X, rules, nodes, out):
    """Node of each row, from the node where it stands."""
    first, feature, ncat, cut, sides = rules
    majority, left, right = nodes
    for i in range(len(X)):
        node = out[i]
        while left[node] >= 0:
            turn = 0
            for k in range(first[node], first[node + 1]):
                x = X[i, feature[k]]
                if ncat[k] < 2:
                    turn = ncat[k] if x < cut[k] else -ncat[k]
                elif x >= 0.0:
                    turn = sides[k, int(x)]
                if turn != 0:
                    break
            if turn == 0:
                turn = majority[node]
            if turn == 0:
                break
            node = left[node] if turn < 0 else right[node]
        out[i] = node


Model = Rpart | str | None
ONE_LEAF = Rpart(node=(1,), n=(0,), rules=((),), levels={}, outcome=None, majority=False)
VALUE, APART = ".0", ".NA"


def trees_of_releases(models: SynthpopModels, data: Microdata) -> tuple[tuple[RpartTree, ...], ...]:
    """The trees of each release, in the order of synthesis; equal ones are laid out once."""
    if models.proper:
        raise InputError(
            "the release was made with proper = TRUE: each tree was grown on a bootstrap sample "
            "of the records, which synthpop does not keep, so what its leaves hold is not known; "
            "synthesise with proper = FALSE, or take trees that are assumed, and plain draws from "
            'them: CART with `bootstrap="none"`, a `floor` and `parameters="plug-in"`'
        )
    for name in models.synthesized:
        how = models.smoothing.get(name)
        if how and name in data.numbers:  # categories are never smoothed
            raise InputError(
                f"column {name!r} was smoothed ({how!r}): the release shows no values of the "
                'leaves, and how synthpop smooths is not offered; synthesise with smoothing = "", '
                'or audit the other columns, or take CART with `smoothing="kde"` as '
                "assumed"
            )
    columns, out = (
        [TreeColumns(data, trees) for trees in models.trees],
        list[tuple[RpartTree, ...]](),
    )
    for l, trees in enumerate(models.trees):
        named = [name for c in models.synthesized for name in _names(c, trees, l + 1)]
        if l and trees == models.trees[0]:
            out.append(out[0])
            continue
        out.append(tuple(imported(trees[n], n, columns[l], f"release {l + 1}") for n in named))
    return tuple(out)


def _names(column: str, trees: Mapping[str, Model], l: int) -> list[str]:
    """What a column is drawn from, in order: which value is kept apart, if any; then the value."""
    there = [name for name in (column + APART, column + VALUE) if trees.get(name) is not None]
    if column + VALUE not in there and trees.get(column) is not None:
        there.append(column)
    if not there or there == [column + APART]:
        raise InputError(
            f"the models of release {l} hold no tree of column {column!r}, which was synthesised; "
            "call syn(..., models = TRUE), and write all of its models"
        )
    other = [name for name in there if isinstance(trees[name], str) and trees[name] != "sample"]
    if other:
        raise InputError(
            f"column {column!r} was made by {trees[other[0]]!r}, which is not a tree of rpart; "
            'trees are those of method = "cart", and "sample" draws from the whole column: '
            "synthesise it so, or audit with the model of br.models that is closest"
        )
    return there


class TreeColumns:
    """The columns of a table by the names that synthpop's trees have for them."""

    def __init__(self, data: Microdata, trees: Mapping[str, Rpart | str | None]) -> None:
        self.data, self.kept_apart = data, dict[str, tuple[str, ...]]()
        for name, tree in trees.items():
            if isinstance(tree, Rpart):
                mine = [*tree.levels.items(), *([(name, tree.outcome)] if tree.outcome else [])]
                self.kept_apart |= {v: x for v, x in mine if v.endswith(APART)}

    def place(self, name: str) -> int:
        """Number of a column, whatever synthpop has added to its name."""
        columns = self.data.columns
        for known in (name, name.removesuffix(VALUE), name.removesuffix(APART)):
            if known in columns:
                return columns.index(known)
        raise InputError(
            f"the trees know a column {name!r} that the original lacks; it has {columns}: give the "
            "table that syn() was given, with all columns that it used"
        )

    def apart(self, column: int) -> Array:
        """Values of a number that are kept apart, increasing."""
        name = self.data.columns[column]
        variable, y = self.data.variables[column], self.data.codes[:, column]
        values = []
        for level in self.kept_apart.get(name + APART, ()):
            if level == MISSING:
                missing = getattr(variable, "missing", None)
                if missing is None:
                    raise InputError(
                        f"column {name!r} had missing values in R, and the original is read "
                        "without; give a number that no record has, which stands for them: "
                        f"`missing_numbers={{{name!r}: -9}}`"
                    )
                values.append(float(missing))
            elif np.any(y == _value(level)):  # the level that says "none" is beyond all values
                values.append(_value(level))
        return np.sort(np.array(values, dtype=float))

    def feature(self, name: str, levels: tuple[str, ...] | None) -> Feature:
        """What a tree looks at, or is of, under a name; levels: as a category with these."""
        j = self.place(name)
        variable, column = self.data.variables[j], self.data.columns[j]
        if isinstance(variable, Variable):
            if levels is None:
                raise InputError(
                    f"column {column!r} is a number in the trees and a category in the original; "
                    "give it the type that it had in R"
                )
            number = {level: float(k) for k, level in enumerate(levels)}
            table = [number.get(_in_r(level), -1.0) for level in variable.levels]
            if variable.missing:
                table.append(number.get(MISSING, number.get("", -1.0)))
            return Feature(j, np.array(table))
        if levels is None:
            values = self.apart(j) if name != column else NOTHING
            return Feature(j, apart=values, becomes=np.zeros(len(values)))
        if name == column:
            raise InputError(
                f"column {column!r} is a category in the trees and a number in the original; make "
                "it a category there: "
                f"`levels={{{column!r}: [...]}}`"
            )
        values = self.apart(j)
        numbers = [_place(v, variable, levels) for v in values]
        rest = [k for k in range(len(levels)) if k not in numbers]
        becomes = np.array(numbers, dtype=float)
        return Feature(j, apart=values, becomes=becomes, rest=float(rest[0]) if rest else -1.0)


def _in_r(level: object) -> str:
    """A level as R writes it."""
    if isinstance(level, bool):
        return str(level).upper()
    return f"{level:.15g}" if isinstance(level, float) else str(level)


def _value(level: str) -> float:
    """The number that a level stands for; one that no value equals where it is none."""
    try:
        return float(level)
    except ValueError:
        return np.nan


def _place(value: float, variable: Number, levels: tuple[str, ...]) -> float:
    """Number of the level of a value that is kept apart, -1 where there is none."""
    missing = value == variable.missing
    same = [k for k, x in enumerate(levels) if (x == MISSING if missing else x != MISSING)]
    return float(next((k for k in same if missing or _value(levels[k]) == value), -1))


def imported(model: Model, name: str, columns: TreeColumns, source: str) -> RpartTree:
    """A tree with the table's records in its leaves, compared to rpart's; text: a whole column."""
    rpart = model if isinstance(model, Rpart) else ONE_LEAF
    data, used = columns.data, sorted({rule.variable for split in rpart.rules for rule in split})
    of = _outcome(name, rpart.outcome, columns)
    alone = of.rest is None and len(of.apart) > 0  # the number, where it is not kept apart
    K = len(rpart.node)
    left, right, parent = (np.full(K + alone, -1, dtype=np.int64) for _ in range(3))
    place = {own: k for k, own in enumerate(rpart.node)}
    for number, k in place.items():
        if rpart.rules[k]:
            left[k], right[k] = place[2 * number], place[2 * number + 1]
        if number > 1:
            parent[k] = place[number // 2]
    n = np.array([*rpart.n, *([0] if alone else [])])
    side = np.sign(n[right] - n[left]) * (left >= 0) * rpart.majority
    features = tuple(columns.feature(v, rpart.levels.get(v)) for v in used)
    own, split = [of.column] if alone else [], [f.column for f in features]
    tree = RpartTree(
        column=of.column,
        predictors=np.unique([*own, *split]).astype(np.int64),
        split_columns=np.unique(split).astype(np.int64),
        name=name,
        of=of,
        features=features,
        rules=_rules(rpart, used, K + alone),
        majority=side.astype(np.int64),
        left=left,
        right=right,
        parent=parent,
        begin=left,
        end=left,
        donors=left,
        n_drawn=K,
    )
    begin, end, donors = stretches(tree.leaf(data.codes), left, right)
    differ = np.flatnonzero((end - begin)[:K] != np.array(rpart.n))
    if len(differ) and rpart is not ONE_LEAF:
        raise InputError(
            f"{source}: the tree of {name!r} was grown on other records: {len(differ):,} of its "
            f"{K:,} nodes held another number of records than the original has there; give the "
            "table that syn() was given, with its rows, levels and missing values"
        )
    return replace(tree, begin=begin, end=end, donors=donors)


def _outcome(name: str, levels: tuple[str, ...] | None, columns: TreeColumns) -> Feature:
    """What a tree is of: a column, or which of its values are kept apart."""
    j = columns.place(name)
    variable, column = columns.data.variables[j], columns.data.columns[j]
    if isinstance(variable, Variable):
        return Feature(j, np.arange(variable.n_levels, dtype=float))
    if name == column + APART:
        return columns.feature(name, levels or columns.kept_apart.get(name, ()))
    if levels is not None:
        return columns.feature(column, levels)  # is refused
    values = columns.apart(j)
    return Feature(j, apart=values, becomes=values)


def _rules(rpart: Rpart, used: list[str], n_nodes: int) -> tuple[Ints, Ints, Ints, Array, Ints]:
    """Rules of all nodes, one after another."""
    rules = [rule for split in rpart.rules for rule in split]
    counts = [len(split) for split in rpart.rules] + [0] * (n_nodes - len(rpart.rules))
    width = max([len(rule.sides) for rule in rules], default=0)
    sides = np.zeros((len(rules), width), dtype=np.int64)
    for k, rule in enumerate(rules):
        sides[k, : len(rule.sides)] = np.array(rule.sides, dtype=np.int64) - 2
    ordered = [float(rule.ncat in (-1, 1) and rule.variable in rpart.levels) for rule in rules]
    return (
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.array([used.index(rule.variable) for rule in rules], dtype=np.int64),
        np.array([rule.ncat for rule in rules], dtype=np.int64),
        np.array([rule.cut for rule in rules]) - np.array(ordered),
        sides,
    )
