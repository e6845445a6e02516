"""The user's model of a table: what ``build`` must keep to, and log densities of rows under it.

The table stands in `pm.Data`, each row for itself: the model is built once more for other rows and
the graphs are compared, for what differs besides `pm.Data` is a part of the table that no guess
could take the place of. Densities and draws are compiled once; rows and draws of Theta are taken a
few at a time, so that memory is bounded.
"""

import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Array, Rng
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk.data.microdata import Codes, Microdata, Number
from bayes_risk.data.variables import MISSING_LABEL, Variable
from bayes_risk.models.fits.sampling import DrawnPredictive

Theta = dict[str, npt.NDArray[Any]]  # draws by name, draws on the first axis
Values = list[npt.NDArray[Any]]  # of each pm.Data
ROWS = 1024  # rows at a time
DRAWS = 128  # draws at a time: 1 MB an array
ROUNDING = 1e-9  # relative: vectorised logarithms may differ in the last digits
INT32 = 2**31 - 1  # PyMC keeps whole numbers in 32 bits
ROW_BY_ROW = (
    "a row's density must depend on that row alone: compute means, scalings, group sizes and "
    "sets of levels before the fit, outside build (levels: table[column].cat.categories)"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Builder:
    """The user's ``build``, fed with coded rows."""

    build: Callable[[pd.DataFrame], Any]
    columns: tuple[str, ...]
    microdata: Microdata
    # whole numbers whose variable is continuous: given as floats
    continuous: frozenset[str] = frozenset()
    dims: frozenset[str] = frozenset()  # dimensions of the rows

    @classmethod
    def of(cls, build: Any, columns: tuple[str, ...], microdata: Microdata) -> "Builder":
        """Build twice more to see what the model takes of the table, and which are continuous."""
        first = cls(build=build, columns=columns, microdata=microdata)
        model = first.model(microdata.codes)
        dims = first._compare(model)
        whole = {v.name for v in microdata.variables if isinstance(v, Number) and v.whole}
        observed = observed_by(model, column_data(model, first), columns)
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
                "build puts the number of rows into the model; leave `shape` and `size` out where "
                "`observed` or a parameter gives it, or use `dims` or the shape of a pm.Data"
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
        return len(mine) == len(others) and all(
            x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
            for x, y in zip(mine, others, strict=True)
        )


def column_data(model: Any, builder: Builder) -> dict[str, Any]:
    """The `pm.Data` of each column that has one; it holds the column as it stands."""
    data = {x.name: x for x in model.data_vars}
    missing = [c for c in builder.columns if c not in data]
    if missing:
        raise ModelError(
            f"the model has no pm.Data named {', '.join(map(repr, missing))}, which is to be "
            f"drawn; write in the model:\n{builder.lines(missing)}"
        )
    shared = {c: data[c] for c in builder.microdata.columns if c in data}
    for column, x in shared.items():
        if not np.array_equal(x.get_value(), builder.microdata.codes[:, builder.place(column)]):
            raise ModelError(
                f"pm.Data({column!r}) does not hold the column as it stands. Write\n"
                f"{builder.lines([column])}\nand transform what pm.Data returns, in the model"
            )
    return shared


def observed_by(model: Any, shared: Mapping[str, Any], columns: Collection[str]) -> dict[str, Any]:
    """The variable that observes each column's `pm.Data`."""
    from pytensor.graph.traversal import ancestors

    found = {}
    for column in columns:
        x = shared[column]
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


def check_order(model: Any, shared: Mapping[str, Any], observed: Mapping[str, Any]) -> None:
    """The prior does not see the table; no column sees itself or a later one."""
    columns = list(observed)
    others = [rv for rv in model.observed_RVs if rv not in observed.values()]
    prior = [*model.free_RVs, *others, *(model.rvs_to_values[rv] for rv in others)]
    if seen := _columns_in([*prior, *model.potentials], shared, observed):
        raise ModelError(
            f"the table ({sorted(seen)}) enters a prior, a Potential, or an observed variable of "
            f"no column that columns names; {ROW_BY_ROW}"
        )
    for i, column in enumerate(columns):
        later = _columns_in(observed[column].owner.inputs, shared, observed) & set(columns[i:])
        if later:
            raise ModelError(
                f"{column!r} depends on {sorted(later)}, which columns does not name before it; "
                "name the columns in the order in which they are to be drawn"
            )


def _columns_in(
    outputs: Iterable[Any], shared: Mapping[str, Any], observed: Mapping[str, Any]
) -> set[str]:
    """Columns whose values some variables depend on: their number of rows is none."""
    from pytensor.graph.traversal import walk
    from pytensor.tensor.shape import Shape, Shape_i

    def inputs(x: Any) -> Any:
        size = x.owner is None or isinstance(x.owner.op, Shape | Shape_i)
        return None if size else x.owner.inputs

    above = set(walk(list(outputs), inputs))
    return {c for found in (shared, observed) for c, x in found.items() if x in above}


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Engine:
    """The user's model with symbols for its parameters and for each `pm.Data` of a column."""

    builder: Builder
    observed: dict[str, str]  # name of the variable of each column
    free: dict[str, Any]  # parameters Theta, on their own scale
    data: dict[str, Any]  # by column
    terms: dict[str, Any]  # log density of each row, by column, shape (rows,)
    drawn: dict[str, Any]  # A draw of each column, given the parameters and the table
    # Functions by what they compute. They are not safe among threads: each use holds the ``lock``
    compiled: dict[Any, Any] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)

    @classmethod
    def of(cls, builder: Builder) -> "Engine":
        """Open the model and see that it can be evaluated row by row."""
        from pymc.pytensorf import replace_vars_in_graphs

        model = builder.model(builder.microdata.codes)
        shared = column_data(model, builder)
        observed = observed_by(model, shared, builder.columns)
        check_order(model, shared, observed)
        free, terms = densities(model)
        data = {c: x.type(name=c) for c, x in shared.items()}
        given = {shared[c]: x for c, x in data.items()}
        rows = data[builder.columns[0]].shape[0]
        given |= {model.dim_lengths[d]: rows for d in sorted(builder.dims)}
        known = {rv: free[rv.name] for rv in model.free_RVs}
        known |= {rv: model.rvs_to_values[rv] for rv in model.observed_RVs}

        def with_symbols(x: Any) -> Any:
            rest = {rv: value for rv, value in known.items() if rv is not x}
            return replace_vars_in_graphs(replace_vars_in_graphs([x], rest), given)[0]

        engine = cls(
            builder=builder,
            observed={c: rv.name for c, rv in observed.items()},
            free=free,
            data=data,
            terms={c: with_symbols(terms[rv.name]) for c, rv in observed.items()},
            drawn={c: with_symbols(rv) for c, rv in observed.items()},
        )
        engine._check_rows(model)
        return engine

    def _check_rows(self, model: Any) -> None:
        """A row has the same density whatever stands beside it."""
        from pymc.initial_point import make_initial_point_fn

        for column, term in self.terms.items():
            if term.ndim != 1:
                raise ModelError(
                    f"the log density of {column!r} has {term.ndim} dimensions; every column needs "
                    "one density per row"
                )
        smooth = {rv for rv in model.free_RVs if np.dtype(rv.dtype).kind == "f"}
        start = make_initial_point_fn(model=model, jitter_rvs=smooth, return_transformed=False)(0)
        theta = {name: np.asarray(start[name])[None] for name in self.free}
        rows = self.builder.microdata.codes[:ROWS]
        half = rows[: max(len(rows) // 2, 1)]
        with np.errstate(all="ignore"):
            mine, others = (
                self.at(self.builder.columns, self.values(r), theta, slice(1))[:, : len(half)]
                for r in (rows, np.concatenate([half, rows[:1]]))
            )
        if not np.allclose(mine, others, rtol=ROUNDING, atol=ROUNDING, equal_nan=True):
            raise ModelError(f"the density of a row changes with the rows beside it; {ROW_BY_ROW}")

    def values(self, codes: Codes) -> Values:
        """Rows as the model's data hold them."""
        found = []
        for column, symbol in self.data.items():
            given = codes[:, self.builder.place(column)]
            with np.errstate(invalid="ignore"):
                found.append(given.astype(symbol.dtype))
            if (found[-1] != given).any():
                raise InputError(
                    f"column {column!r} holds whole numbers and was given "
                    f"{int((found[-1] != given).sum()):,} that {symbol.dtype} does not hold; give "
                    "whole numbers, or convert the column to float"
                )
        return found

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Compile a function the first time it is wanted."""
        with self.lock:
            if key not in self.compiled:
                self.compiled[key] = make()
            return self.compiled[key]

    def at(self, columns: Sequence[str], values: Values, theta: Theta, h: slice) -> Array:
        """log p of some columns of some rows at some draws, shape (draws, rows)."""
        log_p = self.once(("log_p", *columns), lambda: _log_p(self, columns))
        with self.lock:
            part: Array = log_p([theta[name][h] for name in self.free], values)
        return part

    def log_p(self, codes: Codes, theta: Theta, columns: Sequence[str]) -> Array:
        """log p(row | theta_h) of rows, summed over columns, shape (H, rows)."""
        out = np.empty((len(next(iter(theta.values()))), len(codes)))
        for first in range(0, len(codes), ROWS):
            values = self.values(codes[first : first + ROWS])
            for h in (slice(h, h + DRAWS) for h in range(0, len(out), DRAWS)):
                out[h, first : first + ROWS] = self.at(columns, values, theta, h)
        if not (out < np.inf).all():
            raise ModelError(
                f"the model gives a row the log density {out[~(out < np.inf)][0]}; look for logs "
                "of negative numbers or 0/0 at values that build did not expect, for scales that "
                "can be 0, or narrow the guesses"
            )
        return out

    def total(self, codes: Codes, theta: Theta, columns: Sequence[str]) -> Array:
        """The same summed over rows too, shape (H,)."""
        out = np.zeros(len(next(iter(theta.values()))))
        for first in range(0, len(codes), ROWS):
            out += self.log_p(codes[first : first + ROWS], theta, columns).sum(axis=1)
        return out

    def draw(self, column: str, codes: Codes, theta: Theta, rng: Rng) -> Array:
        """A draw of one column of the rows from one draw of Theta, in codes, shape (rows,)."""
        with self.lock:
            make = self.once(("draw", column), lambda: _draw(self, column))
            values = make(theta, self.values(codes), rng)
        return _allowed(self.builder, column, values)


def _log_p(engine: Engine, columns: Sequence[str]) -> Callable[..., Array]:
    """Function of (draws of each parameter, table) to log densities, shape (draws, rows)."""
    import pymc as pm
    import pytensor.tensor as pt
    from pytensor.graph.replace import vectorize_graph

    total = sum(engine.terms[c] for c in columns[1:]) + engine.terms[columns[0]]
    one, data = list(engine.free.values()), list(engine.data.values())
    try:
        many = [pt.tensor(x.name, shape=(None, *x.type.shape), dtype=x.dtype) for x in one]
        batched = vectorize_graph(total, dict(zip(one, many, strict=True)))
        f = pm.compile([*many, *data], batched, on_unused_input="ignore")
    except NotImplementedError:  # an op that cannot be vectorised: draw by draw
        single = pm.compile([*one, *data], total, on_unused_input="ignore")

        def f(*given: Any) -> Array:
            draws, table = given[: len(one)], given[len(one) :]
            return np.stack([single(*at, *table) for at in zip(*draws, strict=True)])

    def log_p(theta: Values, table: Values) -> Array:
        """A density that is the same for all draws stands for each of them."""
        return np.broadcast_to(f(*theta, *table), (len(theta[0]), len(table[0])))

    return log_p


def _draw(engine: Engine, column: str) -> Callable[..., npt.NDArray[Any]]:
    """Function of (one draw of Theta, table, generator) to a draw of the column."""
    import pymc as pm
    from pymc.pytensorf import find_rng_nodes, reseed_rngs

    out = engine.drawn[column]
    rngs = find_rng_nodes([out])
    inputs = [*engine.free.values(), *engine.data.values()]
    f = pm.compile(inputs, out, on_unused_input="ignore")

    def draw(theta: Theta, table: Values, rng: Rng) -> npt.NDArray[Any]:
        reseed_rngs(rngs, int(rng.integers(2**63)))
        return np.asarray(f(*(theta[name] for name in engine.free), *table))

    return draw


def _allowed(builder: Builder, column: str, drawn: npt.NDArray[Any]) -> Array:
    """Drawn values as codes, if they are values that the column can have."""
    values = np.asarray(drawn, dtype=float)
    if not np.isfinite(values).all():
        raise ModelError(
            f"the model drew {values[~np.isfinite(values)][0]} for {column!r}; look for parameters "
            "that overflow, or priors that are too wide"
        )
    variable = builder.microdata.variables[builder.place(column)]
    levels = variable.n_levels
    wrong = (values != np.round(values)) | (values < 0) | (values >= levels)
    if levels and wrong.any():
        raise ModelError(
            f"the model drew {values[wrong][0]:g} for {column!r}, which has levels 0 to "
            f"{levels - 1}; observe table[{column!r}].cat.codes with as many categories"
        )
    return values


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PyMCPredictive(DrawnPredictive):
    """Of all observed variables of a row; ``theta`` holds the draws by name."""

    engine: Engine
    theta: Theta

    @property
    def uses(self) -> frozenset[int]:
        """All columns that are guessed."""
        return frozenset(self.targets.columns.tolist())

    def log_density(self, codes: Codes) -> Array:
        """log p(row | theta_h) of coded rows, distinct ones computed once, shape (H, R)."""
        rows, which = np.unique(codes.astype(float, copy=False), axis=0, return_inverse=True)
        log_p = self.engine.log_p(rows, self.theta, self.engine.builder.columns)
        return log_p[:, which.ravel()]

    def log_truth(self, block: slice) -> Array:
        """The same, an error where a target has density zero."""
        log_p = DrawnPredictive.log_truth(self, block)
        if not np.isfinite(log_p).all():
            u = int(np.argmax(~np.isfinite(log_p).all(axis=0)))
            row = int(self.targets.record[block][u]) + 1
            raise ModelError(
                f"the record of row {row} has density zero at some draws of the parameters, so it "
                "cannot be left out of the fit by a weight; give the model a likelihood that "
                "allows every value the table holds"
            )
        return log_p

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """The same, minus infinity for guesses that do not count."""
        sums = DrawnPredictive.log_sums(self, block, log_weights)
        return np.where(self.targets.guesses.counted[:, block], sums, -np.inf)
