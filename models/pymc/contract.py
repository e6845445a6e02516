"""What the user's ``build`` must keep to: the table stands in `pm.Data`, each row for itself.

The model is built once more for other rows and the graphs are compared: what differs besides
`pm.Data` is a part of the table that no guess could take the place of.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import ModelError
from bayes_risk.data.microdata import Codes, Microdata, Number
from bayes_risk.data.variables import MISSING_LABEL, Variable

INT32 = 2**31 - 1  # PyMC keeps whole numbers in 32 bits
ROW_BY_ROW = (
    "a row's density must depend on that row alone: compute means, scalings, group sizes and "
    "sets of levels before the fit, outside build (levels: table[column].cat.categories)"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Builder:
    """The user's ``build``, fed with coded rows.

    ``continuous`` names the whole numbers whose variable is continuous: they are floats, as
    synthetic values and guesses need be no integers; so are whole numbers of more than 32 bits.
    ``dims`` are the dimensions of the rows.
    """

    build: Callable[[pd.DataFrame], Any]
    columns: tuple[str, ...]
    microdata: Microdata
    continuous: frozenset[str] = frozenset()
    dims: frozenset[str] = frozenset()

    @classmethod
    def of(cls, build: Any, columns: tuple[str, ...], microdata: Microdata) -> "Builder":
        """Build twice more to see what the model takes of the table, and which are continuous."""
        first = cls(build=build, columns=columns, microdata=microdata)
        model = first.model(microdata.codes)
        dims = first._compare(model)
        whole = {v.name for v in microdata.variables if isinstance(v, Number) and v.whole}
        observed = observed_by(model, held_columns(model, first), columns)
        continuous = {c for c, rv in observed.items() if np.dtype(rv.dtype).kind == "f"}
        return replace(first, continuous=frozenset(continuous & whole), dims=frozenset(dims))

    def table(self, codes: Codes) -> pd.DataFrame:
        """Rows as ``build`` sees them: numbers, and categories with all their levels."""
        variables = enumerate(self.microdata.variables)
        return pd.DataFrame({v.name: self._column(v, codes[:, j]) for j, v in variables})

    def _column(self, variable: Variable | Number, codes: Codes) -> Any:
        if isinstance(variable, Variable):
            levels = [*variable.levels, *([MISSING_LABEL] if variable.missing else [])]
            ordered = isinstance(variable.dtype, pd.CategoricalDtype) and variable.dtype.ordered
            return pd.Categorical.from_codes(
                codes.astype(np.int64), categories=pd.Index(levels), ordered=bool(ordered)
            )
        whole = variable.whole and variable.name not in self.continuous
        if whole and np.abs(self.microdata.codes[:, self.place(variable.name)]).max() > INT32:
            whole = False
        return codes.astype(np.int64) if whole else np.asarray(codes, dtype=float)

    def model(self, codes: Codes) -> Any:
        """The user's model of some rows."""
        import pymc as pm

        model = self.build(self.table(codes))
        if not isinstance(model, pm.Model):
            raise ModelError(
                f"build returned a {type(model).__name__}; it must return the pymc.Model of the "
                "table it is given"
            )
        return model

    def place(self, column: str) -> int:
        """Number of a column in the coded table."""
        return self.microdata.columns.index(column)

    def _compare(self, model: Any) -> set[str]:
        """The models of other rows differ in nothing but `pm.Data`; dimensions of the rows."""
        y = self.microdata.codes
        some = [  # of the rows, and copies of the first
            y[np.roll(np.resize(np.arange(k), len(y) + 1), 1)] for k in (max(len(y) // 2, 1), 1)
        ]
        others = [self.model(rows) for rows in some]
        for other in others:
            _same_parameters(model, other, len(y))
        for rows, other in zip(some, others, strict=True):
            if not self._same(model, other, (len(y), len(rows))):
                self._refuse(model, rows)
        return _dims_of_length(model, len(y)) & _dims_of_length(others[0], len(y) + 1)

    def _refuse(self, model: Any, other: Codes) -> None:
        """Name the columns by putting other values into one at a time."""
        y, baked = self.microdata.codes, []
        for j, column in enumerate(self.microdata.columns):
            changed = y.copy()
            changed[:, j] = other[: len(y), j]
            if not self._same(model, self.model(changed), (len(y), len(y))):
                baked.append(column)
        if not baked:
            raise ModelError(
                "build puts the number of rows into the model; leave shape= and size= out where "
                "observed= or a parameter gives it, or use dims= or the shape of a pm.Data"
            )
        raise ModelError(
            f"build bakes values of {', '.join(map(repr, baked))} into the model, where no other "
            "row can be put in their place. Write in the model, and compute with what pm.Data "
            f"returns:\n{self.lines(baked)}\nBesides, {ROW_BY_ROW}"
        )

    def lines(self, columns: Iterable[str]) -> str:
        """What to write in ``build``."""
        found = []
        for column in columns:
            coded = isinstance(self.microdata.variables[self.place(column)], Variable)
            name = column if column.isidentifier() else "values"
            rows = f"table[{column!r}]{'.cat.codes' if coded else ''}"
            found.append(f"    {name} = pm.Data({column!r}, {rows})")
            if column in self.columns:
                kind = "Categorical" if coded else "Normal"
                found.append(f"    pm.{kind}({column + '_'!r}, ..., observed={name})")
        return "\n".join(found)

    def _same(self, a: Any, b: Any, rows: tuple[int, int]) -> bool:
        """Whether two models are the same but for `pm.Data` and its length."""
        dims = set.intersection(*map(_dims_of_length, (a, b), rows))
        mine, others = (_inventory(m, self.microdata.columns, dims) for m in (a, b))
        return len(mine) == len(others) and all(map(_equal, mine, others))


def held_columns(model: Any, builder: Builder) -> dict[str, Any]:
    """The `pm.Data` of each column that has one; it holds the column as it stands."""
    data = {x.name: x for x in model.data_vars}
    missing = [c for c in builder.columns if c not in data]
    if missing:
        raise ModelError(
            f"the model has no pm.Data named {', '.join(map(repr, missing))}, which is to be "
            f"drawn; write in the model:\n{builder.lines(missing)}"
        )
    held = {c: data[c] for c in builder.microdata.columns if c in data}
    for column, x in held.items():
        if not np.array_equal(x.get_value(), builder.microdata.codes[:, builder.place(column)]):
            raise ModelError(
                f"pm.Data({column!r}) does not hold the column as it stands. Write\n"
                f"{builder.lines([column])}\nand transform what pm.Data returns, in the model"
            )
    return held


def observed_by(model: Any, held: Mapping[str, Any], columns: Collection[str]) -> dict[str, Any]:
    """The variable that observes each column's `pm.Data`."""
    from pytensor.graph.traversal import ancestors

    found = {}
    for column in columns:
        x = held[column]
        own = [rv for rv in model.observed_RVs if x in set(ancestors([model.rvs_to_values[rv]]))]
        values = [model.rvs_to_values[rv] for rv in own]
        if len(own) != 1 or not (values[0] is x or np.array_equal(values[0].eval(), x.get_value())):
            raise ModelError(
                f"pm.Data({column!r}) has to be observed as it stands, by one variable of another "
                f"name: pm.Normal('{column}_', ..., observed=<what pm.Data returned>)"
            )
        found[column] = own[0]
    return found


def densities(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Symbols for the parameters by name; log densities by variable, with these in their places."""
    from pymc.logprob import conditional_logp

    free = {rv.name: rv.type(name=rv.name) for rv in model.free_RVs}
    known = {rv: free[rv.name] for rv in model.free_RVs}
    known |= {rv: model.rvs_to_values[rv] for rv in model.observed_RVs}
    terms = conditional_logp(known)
    return free, {rv.name: terms[value] for rv, value in known.items()}


def check_order(model: Any, held: Mapping[str, Any], observed: Mapping[str, Any]) -> None:
    """The prior does not see the table; no column sees itself or a later one."""
    columns = list(observed)
    others = [rv for rv in model.observed_RVs if rv not in observed.values()]
    prior = [*model.free_RVs, *others, *(model.rvs_to_values[rv] for rv in others)]
    if seen := _columns_in([*prior, *model.potentials], held, observed):
        raise ModelError(
            f"the table ({sorted(seen)}) enters a prior, a Potential, or an observed variable of "
            f"no column that columns= names; {ROW_BY_ROW}"
        )
    for i, column in enumerate(columns):
        later = _columns_in(observed[column].owner.inputs, held, observed) & set(columns[i:])
        if later:
            raise ModelError(
                f"{column!r} depends on {sorted(later)}, which columns= does not name before it; "
                "name the columns in the order in which they are to be drawn"
            )


def _columns_in(
    outputs: Iterable[Any], held: Mapping[str, Any], observed: Mapping[str, Any]
) -> set[str]:
    """Columns whose values some variables depend on: their number of rows is none."""
    from pytensor.graph.traversal import walk
    from pytensor.tensor.shape import Shape, Shape_i

    def inputs(x: Any) -> Any:
        return (
            None if x.owner is None or isinstance(x.owner.op, Shape | Shape_i) else x.owner.inputs
        )

    above = set(walk(list(outputs), inputs))
    return {c for found in (held, observed) for c, x in found.items() if x in above}


def _dims_of_length(model: Any, n: int) -> set[str]:
    from pytensor.compile.sharedvalue import SharedVariable

    lengths = model.dim_lengths.items()
    return {d for d, x in lengths if isinstance(x, SharedVariable) and x.get_value() == n}


def _inventory(model: Any, columns: Collection[str], dims: Collection[str]) -> list[Any]:
    """Operations and fixed values, in an order that the structure of the model alone decides."""
    values = [model.rvs_to_values[rv] for rv in model.observed_RVs]
    roots = [*model.basic_RVs, *values, *model.potentials, *densities(model)[1].values()]
    data = {x for x in model.data_vars if x.name in columns}
    return list(_parts(roots, data | {model.dim_lengths[d] for d in dims}))


def _parts(roots: Iterable[Any], free: Collection[Any]) -> Iterator[Any]:
    from pytensor.compile.sharedvalue import SharedVariable
    from pytensor.graph.basic import Constant
    from pytensor.graph.op import HasInnerGraph
    from pytensor.graph.traversal import ancestors
    from pytensor.tensor.type import TensorType

    for x in ancestors(roots):
        if x.owner is not None:
            # addresses differ from build to build
            yield np.asarray(re.sub("0x[0-9a-f]+", "", str(x.owner.op)))
            if isinstance(x.owner.op, HasInnerGraph):
                yield from _parts(x.owner.op.inner_outputs, free)
        elif x not in free and isinstance(x.type, TensorType):
            if isinstance(x, Constant):
                yield np.asarray(x.data)
            elif isinstance(x, SharedVariable):
                yield x.get_value()


def _equal(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def _same_parameters(a: Any, b: Any, n: int) -> None:
    names = [rv.name for rv in a.free_RVs]
    if names != [rv.name for rv in b.free_RVs] or not names:
        raise ModelError(
            f"the parameters are {names} for one table and {[rv.name for rv in b.free_RVs]} for "
            "another; build must give every table the same parameters, at least one"
        )
    mine, others = _shapes(a), _shapes(b)
    for name in names:
        if (n, n + 1) in zip(mine[name], others[name], strict=False):
            raise ModelError(
                f"{name!r} has a value for every row of the table (shape {mine[name]}), which a "
                "row that is not in the table lacks; sum or integrate it out in the model "
                "(pm.Mixture, pm.StudentT, pm.NegativeBinomial, pm.BetaBinomial, ... do)"
            )
        if mine[name] != others[name]:
            raise ModelError(
                f"{name!r} has shape {mine[name]} for one table and {others[name]} for another "
                "with the same categories; take the levels from table[column].cat.categories, not "
                "from the rows"
            )


def _shapes(model: Any) -> dict[str, tuple[int, ...]]:
    static = {rv.name: rv.type.shape for rv in model.free_RVs}
    if any(None in shape for shape in static.values()):
        found = model.eval_rv_shapes()
        static = {name: tuple(int(d) for d in found[name]) for name in static}
    return static
