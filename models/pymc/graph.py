"""The user's model with symbols for its parameters and for the table.

``build`` bakes the table into the graph. Here a symbol stands in the place of every leaf that holds
it. So the model is compiled once, and another table costs one call of ``build``, whose leaves,
collected in the same order, are fed to the compiled function.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pymc.logprob.basic import conditional_logp
from pytensor.graph.traversal import ancestors

from bayes_risk._core.errors import ModelError
from bayes_risk.data.microdata import Codes

from .layout import Layout, Values, roots_of
from .leaves import Opened, equal, substituted, tensor_value, with_symbols
from .rows import Builder


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowGraph:
    """The user's model of so many rows, with symbols for parameters and table.

    Attributes
    ----------
    rows : int
    free : dict of str to variable
        Parameters Theta, on their own scale.
    data : list of variables
        One for each leaf that holds the table.
    log_p : dict of str to variable
        log density of each row, by column, shape (rows,).
    drawn : dict of str to variable
        A draw of each column, given the parameters and the table.
    """

    rows: int
    free: dict[str, Any]
    data: list[Any]
    log_p: dict[str, Any]
    drawn: dict[str, Any]
    layout: Layout
    like: Opened

    @classmethod
    def of(cls, builder: Builder, layout: Layout, codes: Codes) -> "RowGraph":
        """Open the model of some rows."""
        model = builder.model(codes)
        opened = Opened.of(roots_of(model, builder))
        data, roots = with_symbols(opened, layout.rows)
        n, f = len(builder.columns), len(model.free_RVs)
        columns, values, rvs = roots[:n], roots[n : 2 * n], roots[2 * n : 2 * n + f]
        names = [rv.name for rv in model.free_RVs]
        free = {name: rv.type(name=name) for name, rv in zip(names, rvs, strict=True)}
        known = dict(zip(rvs, free.values(), strict=True))
        known |= dict(zip(columns, values, strict=True)) | _others(roots[2 * n + f :], model)
        terms = conditional_logp(known)
        log_p = dict(zip(builder.columns, (terms[v] for v in values), strict=True))
        _no_closure(log_p, opened, len(codes))
        drawn = {}
        for name, rv in zip(builder.columns, columns, strict=True):
            given = {x: v for x, v in known.items() if x is not rv}
            drawn[name] = substituted([rv], given)[0]
        return cls(
            rows=len(codes),
            free=free,
            data=data,
            log_p=log_p,
            drawn=drawn,
            layout=layout,
            like=opened,
        )

    def values(self, builder: Builder, codes: Codes) -> Values:
        """What to feed for ``data``."""
        return self.layout.values(Opened.of(roots_of(builder.model(codes), builder)), self.like)


def _others(roots: Sequence[Any], model: Any) -> dict[Any, Any]:
    """Observed variables that are no columns, and their values."""
    size = (len(roots) - len(model.potentials)) // 2
    return dict(zip(roots[:size], roots[size : 2 * size], strict=True))


def _no_closure(log_p: dict[str, Any], opened: Opened, rows: int) -> None:
    """Densities that the user wrote may have caught the table: it would never change."""
    for column, term in log_p.items():
        if term.ndim != 1:
            raise ModelError(
                f"the log density of {column!r} has {term.ndim} dimensions; every column needs one "
                "density per row"
            )
        for x in ancestors([term]):
            value = tensor_value(x)
            if value is not None and _caught(value, rows, opened):
                raise ModelError(
                    f"the density of {column!r} holds values of the table that no argument passed "
                    "to it; pass them to pm.CustomDist as parameters"
                )


def _caught(value: npt.NDArray[Any], rows: int, opened: Opened) -> bool:
    if rows not in value.shape or np.ptp(value) == 0:
        return False
    return not any(
        leaf.value.shape == value.shape and equal(leaf.value, value) for leaf in opened.leaves
    )
