"""Log densities of rows and guesses under the user's model, and draws, compiled once.

Rows and draws of Theta are taken a few at a time, so that memory is bounded.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Targets
from bayes_risk.models.fits.sampling import blocks, log_sums_of_batches

from .contract import ROW_BY_ROW, Builder, check_order, densities, held_columns, observed_by

Theta = dict[str, npt.NDArray[Any]]  # draws by name, draws on the first axis
Values = list[npt.NDArray[Any]]  # of each pm.Data
ROWS = 1024  # rows at a time
DRAWS = 128  # draws at a time: 1 MB an array
SAME = 1e-9  # relative: vectorised logarithms may differ in the last digits


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
        held = held_columns(model, builder)
        observed = observed_by(model, held, builder.columns)
        check_order(model, held, observed)
        free, terms = densities(model)
        data = {c: x.type(name=c) for c, x in held.items()}
        given = {held[c]: x for c, x in data.items()}
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
        if not np.allclose(mine, others, rtol=SAME, atol=SAME, equal_nan=True):
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

    def draw(self, column: str, codes: Codes, theta: Theta, rng: np.random.Generator) -> Array:
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

    def draw(theta: Theta, table: Values, rng: np.random.Generator) -> npt.NDArray[Any]:
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
            f"{levels - 1} ({', '.join(variable.labels)}); observe table[{column!r}].cat.codes "
            "with as many categories"
        )
    return values


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PyMCPredictive:
    """Draws of p(y* | theta_h) for the U targets; nothing is integrated out.

    With record weights, p(y* | theta_h) to the power of the target's.

    ``batch`` (H,) numbers halves of chains; ``theta`` holds the draws by name.
    """

    engine: Engine
    theta: Theta
    targets: Targets
    batch: Ints

    def log_truth(self, block: slice) -> Array:
        """log p(y_i | theta_h), all observed variables of the row, to its power; shape (H, U)."""
        columns = self.engine.builder.columns
        log_p = self.engine.log_p(self.targets.profiles[block], self.theta, columns)
        if not np.isfinite(log_p).all():
            u = int(np.argmax(~np.isfinite(log_p).all(axis=0)))
            record = self.engine.builder.microdata.index[self.targets.record[block][u]]
            raise ModelError(
                f"record {record!r} has density zero at some draws of the parameters, so it cannot "
                "be left out of the fit by a weight; give the model a likelihood that allows every "
                "value the table holds"
            )
        return log_p * self.targets.weight[block]

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log sum over a batch of weights_h p(y*|theta_h) / p(y_i|theta_h), shape (B, G, U)."""
        t, columns = self.targets, self.engine.builder.columns
        codes, cell = t.rows(frozenset(t.columns.tolist()), block)  # shape (G', U, p)
        counted = t.guesses.counted[:, block]
        log_v, power = log_weights - self.log_truth(block), t.weight[block]
        out = np.full((self.batch.max() + 1, *counted.shape), -np.inf)
        for some in blocks(counted.shape[1], len(counted) * len(self.batch)):
            wanted = counted[:, some]
            u = some.start + np.nonzero(wanted)[1]
            given = codes[cell, some][wanted].astype(float, copy=False)
            rows, which = np.unique(given, axis=0, return_inverse=True)
            log_p = self.engine.log_p(rows, self.theta, columns)[:, which.ravel()]
            terms = log_p * power[u] + log_v[:, u]
            out[:, :, some][:, wanted] = log_sums_of_batches(terms, self.batch, axis=0)
        return out
