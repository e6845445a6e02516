"""From coded rows to the table that the user's ``build`` takes, and to the model it returns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

from bayes_risk._core.errors import InputError, ModelError
from bayes_risk.data.microdata import Codes, Microdata, Number
from bayes_risk.data.variables import MISSING_LABEL, Variable

LEAST_ROWS = 2  # one row would be broadcast where many are not


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Builder:
    """The user's ``build``, fed with coded rows.

    ``continuous`` names the numbers whose observed variable is continuous: they are floats in every
    table, however the original stores them, as synthetic values and guesses need be no integers.
    """

    build: Callable[[pd.DataFrame], Any]
    columns: tuple[str, ...]
    microdata: Microdata
    continuous: frozenset[str]

    @classmethod
    def of(
        cls, build: Callable[[pd.DataFrame], Any], columns: tuple[str, ...], microdata: Microdata
    ) -> "Builder":
        """Build once on the confidential table to see which variables are continuous."""
        first = cls(build=build, columns=columns, microdata=microdata, continuous=frozenset())
        observed = first.observed(first.model(microdata.codes))
        continuous = {c for c, rv in observed.items() if np.dtype(rv.dtype).kind == "f"}
        whole = {v.name for v in microdata.variables if isinstance(v, Number) and v.whole}
        return cls(
            build=build,
            columns=columns,
            microdata=microdata,
            continuous=frozenset(continuous & whole),
        )

    def table(self, codes: Codes) -> pd.DataFrame:
        """Rows as ``build`` sees them: numbers, and categories with all their levels."""
        columns = {
            v.name: self._column(v, codes[:, j]) for j, v in enumerate(self.microdata.variables)
        }
        return pd.DataFrame(columns)

    def _column(self, variable: Variable | Number, codes: Codes) -> Any:
        if isinstance(variable, Variable):
            levels = [*variable.levels, *([MISSING_LABEL] if variable.missing else [])]
            ordered = isinstance(variable.dtype, pd.CategoricalDtype) and variable.dtype.ordered
            return pd.Categorical.from_codes(
                codes.astype(np.int64), categories=pd.Index(levels), ordered=bool(ordered)
            )
        values = np.asarray(codes, dtype=float)
        if not variable.whole or variable.name in self.continuous:
            return values
        if (values != np.round(values)).any():
            count = int((values != np.round(values)).sum())
            raise InputError(
                f"column {variable.name!r} holds whole numbers and was given {count:,} fractions; "
                "give whole numbers, or convert the column to float"
            )
        return values.astype(np.int64)

    def model(self, codes: Codes) -> Any:
        """The user's model of some rows, at least `LEAST_ROWS` of them."""
        model = self.build(self.table(codes))
        if not isinstance(model, pm.Model):
            raise ModelError(
                f"build returned a {type(model).__name__}; it must return the pymc.Model of the "
                "table it is given"
            )
        self.observed(model)
        return model

    def observed(self, model: Any) -> dict[str, Any]:
        """Observed variable of each column."""
        found = {rv.name: rv for rv in model.observed_RVs}
        for column in self.columns:
            if column not in found:
                raise ModelError(
                    f"the model observes {sorted(found)} and not column {column!r}; give its "
                    f"observed variable that name: pm.Normal({column!r}, ..., "
                    f"observed=table[{column!r}])"
                )
        return {column: found[column] for column in self.columns}

    def place(self, column: str) -> int:
        """Number of a column in the coded table."""
        return self.microdata.columns.index(column)


def padded(codes: Codes, rows: int) -> Codes:
    """The same rows and the first of them again until there are so many."""
    repeat = np.zeros(rows - len(codes), dtype=np.int64)
    return np.concatenate([codes, codes[repeat]])
