"""Which leaves of the user's model hold the table, and what a table may not do in it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pytensor.graph.traversal import ancestors

from bayes_risk._core.errors import ModelError
from bayes_risk.data.microdata import Codes

from .leaves import Leaf, Opened, differ, enters, equal
from .rows import LEAST_ROWS, Builder, padded

Values = list[npt.NDArray[Any]]
ROW_BY_ROW = (
    "a row's density must depend on that row alone: compute means, scalings, group sizes and "
    "sets of levels before the fit, outside build (levels: table[column].cat.categories)"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Which leaves of the user's model hold the table.

    Attributes
    ----------
    rows : list of int
        Leaves with one entry per row.
    depends : list of set of str
        Modelled columns that each of them depends on.
    parameters : list of str
        Names of Theta.
    """

    rows: list[int]
    depends: list[set[str]]
    parameters: list[str]

    @classmethod
    def of(cls, builder: Builder) -> "Layout":
        """Compare the model of the confidential table with those of some of its rows."""
        y = builder.microdata.codes
        model = builder.model(y)
        base = Opened.of(roots_of(model, builder))
        for few in (y[: max(len(y) // 2, LEAST_ROWS)], y[:1]):  # some levels, then one of each
            which = _rows_of(base, model, padded(few, len(y) + len(few)), len(few), builder)
        layout = cls(
            rows=which,
            depends=[set() for _ in which],
            parameters=[rv.name for rv in model.free_RVs],
        )
        layout._find_dependence(builder)
        layout._check(base, builder)
        return layout

    def values(self, opened: Opened, like: Opened) -> Values:
        """The table as it stands in a model; all else must be as in the model ``like``."""
        _same_structure(like, opened)
        for k, (a, b) in enumerate(zip(like.leaves, opened.leaves, strict=True)):
            if a.value.shape != b.value.shape or a.value.dtype != b.value.dtype:
                raise ModelError(
                    f"build puts {_form(b.value)} where another table of as many rows had "
                    f"{_form(a.value)}; {ROW_BY_ROW}"
                )
            if k not in self.rows and not equal(a.value, b.value):
                raise ModelError(f"build takes {differ(a.value, b.value)}; {ROW_BY_ROW}")
        return [opened.leaves[k].value for k in self.rows]

    def _find_dependence(self, builder: Builder) -> None:
        """Shift one modelled column at a time and see what changes."""
        y = builder.microdata.codes
        base = Opened.of(roots_of(builder.model(y), builder))
        before = self.values(base, base)
        for column in builder.columns:
            shifted = y.copy()
            j = builder.place(column)
            shifted[:, j] = np.roll(y[:, j], 1)
            after = self.values(Opened.of(roots_of(builder.model(shifted), builder)), base)
            for depends, a, b in zip(self.depends, before, after, strict=True):
                if not equal(a, b):
                    depends.add(column)

    def _check(self, opened: Opened, builder: Builder) -> None:
        """The prior does not see the table; no column sees itself or a later one."""
        leaves = [opened.leaves[k] for k in self.rows]
        n = len(builder.columns)
        for column, value in zip(builder.columns, opened.roots[n : 2 * n], strict=True):
            if not any(enters(leaf, [value], opened) for leaf in leaves) or value.ndim != 1:
                raise ModelError(
                    f"the observed variable {column!r} does not have one entry per row of the "
                    f"table; pass observed=table[{column!r}]"
                )
        if any(enters(leaf, opened.roots[2 * n :], opened) for leaf in leaves):
            raise ModelError(
                "the table enters a prior, a Potential, or an observed variable that columns= does "
                f"not name; {ROW_BY_ROW}"
            )
        for i, column in enumerate(builder.columns):
            above = set(ancestors([opened.roots[i]]))
            later = {
                c
                for c in builder.columns[i + 1 :]
                if opened.roots[builder.columns.index(c)] in above
            }
            for leaf, depends in zip(leaves, self.depends, strict=True):
                if enters(leaf, [opened.roots[i]], opened):
                    later |= depends & set(builder.columns[i:])
            if later:
                raise ModelError(
                    f"{column!r} depends on {sorted(later)}, which columns= does not name before "
                    "it; name the columns in the order in which they are to be drawn"
                )


def roots_of(model: Any, builder: Builder) -> list[Any]:
    """Observed variables and their values by column, then everything that no row may enter."""
    observed = builder.observed(model)
    others = [rv for rv in model.observed_RVs if rv.name not in builder.columns]
    return [
        *observed.values(),
        *(model.rvs_to_values[rv] for rv in observed.values()),
        *model.free_RVs,
        *others,
        *(model.rvs_to_values[rv] for rv in others),
        *model.potentials,
    ]


def _rows_of(base: Opened, model: Any, codes: Codes, shared: int, builder: Builder) -> list[int]:
    """Leaves with one entry per row, by another table that begins with the same rows."""
    n, rows = len(builder.microdata.codes), len(codes)
    other_model = builder.model(codes)
    _same_parameters(model, other_model, n, rows)
    other = Opened.of(roots_of(other_model, builder))
    _same_structure(base, other)
    which = []
    for k, (a, b) in enumerate(zip(base.leaves, other.leaves, strict=True)):
        if a.value.shape != b.value.shape:
            axis = _row_axis(a, b, n, rows)
            mine, others = (np.take(x.value, range(shared), axis) for x in (a, b))
            if not equal(mine, others):
                raise ModelError(
                    f"build makes {differ(mine, others)} of the same row, as the rows beside it "
                    f"change; {ROW_BY_ROW}"
                )
            which.append(k)
        elif not equal(a.value, b.value) and not _only_the_size(a.value, b.value, n, rows):
            raise ModelError(f"build takes {differ(a.value, b.value)}; {ROW_BY_ROW}")
    return which


def _same_parameters(a: Any, b: Any, n: int, rows: int) -> None:
    names = [rv.name for rv in a.free_RVs]
    if names != [rv.name for rv in b.free_RVs] or not names:
        raise ModelError(
            f"the parameters are {names} for one table and {[rv.name for rv in b.free_RVs]} for "
            "another; build must give every table the same parameters, at least one"
        )
    shapes = [_shapes(a), _shapes(b)]
    for name in names:
        mine, other = shapes[0][name], shapes[1][name]
        if mine == other:
            continue
        if (n, rows) in zip(mine, other, strict=False):
            raise ModelError(
                f"{name!r} has a value for every row of the table (shape {mine}), which a row that "
                "is not in the table lacks; sum or integrate it out in the model (pm.Mixture, "
                "pm.StudentT, pm.NegativeBinomial, pm.BetaBinomial, ... do)"
            )
        raise ModelError(
            f"{name!r} has shape {mine} for one table and {other} for another with the same "
            "categories; take the levels from table[column].cat.categories, not from the rows"
        )


def _shapes(model: Any) -> dict[str, tuple[int, ...]]:
    static = {rv.name: rv.type.shape for rv in model.free_RVs}
    if any(None in shape for shape in static.values()):
        found = model.eval_rv_shapes()
        static = {name: tuple(int(d) for d in found[name]) for name in static}
    return static


def _same_structure(a: Opened, b: Opened) -> None:
    if a.words != b.words or len(a.leaves) != len(b.leaves):
        differ = sorted(set(a.words) ^ set(b.words))[:3]
        raise ModelError(
            "build gives models of different structure for different tables"
            + (f" (they differ in {', '.join(differ)})" if differ else "")
            + "; it must do the same for every table: no branches or loops over what the rows hold"
        )


def _row_axis(a: Leaf, b: Leaf, n: int, rows: int) -> int:
    shapes = a.value.shape, b.value.shape
    axes = [k for k, (x, y) in enumerate(zip(*shapes, strict=False)) if x != y]
    if a.value.ndim != b.value.ndim or len(axes) != 1 or [s[axes[0]] for s in shapes] != [n, rows]:
        raise ModelError(
            f"build puts an array of shape {a.value.shape} into the model of {n} rows and one of "
            f"shape {b.value.shape} into that of {rows} rows; {ROW_BY_ROW}"
        )
    if a.inner:
        raise ModelError(
            "the table stands within a CustomDist or another op, where no other row can be put in "
            "its place; pass it to the distribution as a parameter"
        )
    return axes[0]


def _only_the_size(a: npt.NDArray[Any], b: npt.NDArray[Any], n: int, rows: int) -> bool:
    """The number of rows itself may stand in a model, as the size of what is drawn."""
    differ = a != b
    return bool(a.dtype.kind in "iu" and (a[differ] == n).all() and (b[differ] == rows).all())


def _form(a: npt.NDArray[Any]) -> str:
    return f"{a.dtype} of shape {a.shape}"
