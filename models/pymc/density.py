"""The user's model at work: log densities of rows, and draws of them, compiled once.

Rows are taken in blocks of a fixed size (the last one padded), draws of Theta a few at a time, so
that one compiled function serves every table in bounded memory.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
from pymc.pytensorf import find_rng_nodes, reseed_rngs
from pytensor.graph.replace import vectorize_graph

from bayes_risk._core.errors import ModelError
from bayes_risk.data.microdata import Codes

from .graph import RowGraph
from .layout import Layout, Values
from .rows import LEAST_ROWS, Builder, padded

Array = npt.NDArray[np.float64]
Theta = dict[str, npt.NDArray[Any]]  # draws by name, draws on the first axis
ROWS = 1024  # rows a block: a build costs as much as some 2000 densities of so many rows,
MANY_ROWS = 8192  # so that with
FEW_DRAWS = 256  # or fewer draws longer blocks pay
DRAWS = 128  # draws at a time: 1 MB an array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Engine:
    """The user's model, opened and compiled where needed.

    Attributes
    ----------
    builder : Builder
    layout : Layout
    compiled : dict
        Functions by what they compute; ``graphs`` by number of rows. Compiled functions are not
        safe among threads, nor is building models, so each use holds the ``lock``.
    """

    builder: Builder
    layout: Layout
    graphs: dict[int, RowGraph] = field(default_factory=dict)
    compiled: dict[Any, Any] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)

    @classmethod
    def of(cls, builder: Builder) -> "Engine":
        """Open the model and see that it can be evaluated row by row."""
        return cls(builder=builder, layout=Layout.of(builder))

    def graph(self, codes: Codes) -> RowGraph:
        """The model of so many rows."""
        if len(codes) not in self.graphs:
            self.graphs[len(codes)] = RowGraph.of(self.builder, self.layout, codes)
        return self.graphs[len(codes)]

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Compile a function the first time it is wanted."""
        if key not in self.compiled:
            self.compiled[key] = make()
        return self.compiled[key]

    def blocks(self, codes: Codes, columns: Sequence[str], theta: Theta) -> Iterator["Block"]:
        """Rows in blocks, ready to be evaluated: log p of some columns of theirs."""
        size = MANY_ROWS if _count(theta) <= FEW_DRAWS and len(codes) > ROWS else ROWS
        for first in range(0, len(codes), size):
            rows = codes[first : first + size]
            with self.lock:
                full = padded(rows, size)
                graph = self.graph(full)
                values = graph.values(self.builder, full)
                log_p = self.once(("log_p", size, *columns), partial(_log_p, graph, columns))
            yield Block(
                rows=slice(first, first + len(rows)),
                names=list(graph.free),
                values=values,
                log_p=log_p,
                lock=self.lock,
            )

    def log_p(self, codes: Codes, theta: Theta, columns: Sequence[str]) -> Array:
        """log p(row | theta_h) of rows, summed over columns, shape (H, rows)."""
        out = np.empty((_count(theta), len(codes)))
        for block in self.blocks(codes, columns, theta):
            for h in chunks(0, len(out)):
                out[h, block.rows] = block.at(theta, h)
        return out

    def total(self, codes: Codes, theta: Theta, columns: Sequence[str]) -> Array:
        """The same summed over rows too, shape (H,)."""
        out = np.zeros(_count(theta))
        for block in self.blocks(codes, columns, theta):
            for h in chunks(0, len(out)):
                out[h] += block.at(theta, h).sum(axis=1)
        return out

    def draw(self, column: str, codes: Codes, theta: Theta, rng: np.random.Generator) -> Array:
        """A draw of one column of the rows from one draw of Theta, in codes, shape (rows,)."""
        full = padded(codes, max(len(codes), LEAST_ROWS))
        with self.lock:
            graph = self.graph(full)
            make = self.once(("draw", column, len(full)), lambda: _draw(graph, column))
            values = make(graph, theta, graph.values(self.builder, full), rng)
        return _allowed(self.builder, column, values[: len(codes)])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Some rows, and the function of draws that gives their log densities."""

    rows: slice
    names: list[str]
    values: Values
    log_p: Callable[..., Array]
    lock: Any

    def at(self, theta: Theta, h: slice) -> Array:
        """log p at some draws, shape (draws, rows)."""
        with self.lock:
            found = self.log_p([theta[name][h] for name in self.names], self.values)
        part: Array = found[:, : self.rows.stop - self.rows.start]
        if not (part < np.inf).all():
            raise ModelError(
                f"the model gives a row the log density {part[~(part < np.inf)][0]}; look for logs "
                "of negative numbers or 0/0 at values that build did not expect, for scales that "
                "can be 0, or narrow the guesses"
            )
        return part


def chunks(first: int, stop: int) -> Iterator[slice]:
    """Draws a few at a time."""
    for h in range(first, stop, DRAWS):
        yield slice(h, min(h + DRAWS, stop))


def _count(theta: Theta) -> int:
    return len(next(iter(theta.values())))


def _log_p(graph: RowGraph, columns: Sequence[str]) -> Callable[..., Array]:
    """Function of (draws of each parameter, table) to log densities, shape (draws, rows)."""
    total = sum(graph.log_p[c] for c in columns[1:]) + graph.log_p[columns[0]]
    one = list(graph.free.values())
    try:
        many = [pt.tensor(x.name, shape=(None, *x.type.shape), dtype=x.dtype) for x in one]
        batched = vectorize_graph(total, dict(zip(one, many, strict=True)))
        f = pm.compile([*many, *graph.data], batched, on_unused_input="ignore")
    except NotImplementedError:  # an op that cannot be vectorised: draw by draw
        single = pm.compile([*one, *graph.data], total, on_unused_input="ignore")
        return lambda theta, table: np.stack(
            [_as_rows(single(*at, *table), graph.rows) for at in zip(*theta, strict=True)]
        )
    return lambda theta, table: _as_rows(f(*theta, *table), graph.rows)


def _as_rows(x: npt.NDArray[Any], rows: int) -> Array:
    """A density that is the same for all draws or rows stands for each of them."""
    return np.broadcast_to(np.asarray(x, dtype=float), (*x.shape[:-1], rows))


def _draw(graph: RowGraph, column: str) -> Callable[..., npt.NDArray[Any]]:
    """Function of (graph, one draw of Theta, table, generator) to a draw of the column."""
    out = graph.drawn[column]
    rngs = find_rng_nodes([out])
    f = pm.compile([*graph.free.values(), *graph.data], out, on_unused_input="ignore")

    def draw(
        graph: RowGraph, theta: Theta, table: Values, rng: np.random.Generator
    ) -> npt.NDArray[Any]:
        reseed_rngs(rngs, int(rng.integers(2**63)))
        return np.asarray(f(*(theta[name] for name in graph.free), *table))

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
    if levels and ((values != np.round(values)) | (values < 0) | (values >= levels)).any():
        bad = values[(values != np.round(values)) | (values < 0) | (values >= levels)][0]
        raise ModelError(
            f"the model drew {bad:g} for {column!r}, which has levels 0 to {levels - 1} "
            f"({', '.join(variable.labels)}); observe table[{column!r}].cat.codes with as many "
            "categories"
        )
    return values
