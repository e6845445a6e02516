"""Design matrices: formulas evaluated on coded rows, real or hypothetical."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.microdata import Codes, Microdata, Variable

Array = npt.NDArray[np.float64]
CONSTANT = "Intercept"


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """The right-hand side of one formula, its coding learnt from the confidential table.

    ``names`` (k) of the coefficients as formulaic prints them; ``columns`` the table's columns
    that the formula uses, wherever in it they stand.
    """

    response: str
    formula: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    spec: Any
    intercept: bool

    @classmethod
    def of(
        cls, response: str, formula: str, microdata: Microdata, *, intercept: bool = True
    ) -> "Design":
        """Read a formula and learn its coding (levels, knots, centres) from the table.

        Without ``intercept`` (proportional odds has thresholds instead) its column is dropped.
        """
        parsed = parse(response, formula)
        columns = tuple(sorted(str(v) for v in parsed.required_variables))
        frame = frame_of(microdata, microdata.codes, columns)
        with np.errstate(all="ignore"):  # columns that are not finite are found below
            try:
                matrix = parsed.get_model_matrix(frame, na_action="ignore", context={})
            except Exception as error:
                raise InputError(
                    f"the formula of {response!r}, {formula!r}, cannot be evaluated: {error}"
                ) from None
        names = tuple(str(c) for c in matrix.columns)
        if not intercept:
            names = tuple(name for name in names if name != CONSTANT)
        made = cls(response, formula, names, columns, matrix.model_spec, intercept)
        made.matrix(microdata, microdata.codes[:1], "the original")
        return made

    def matrix(self, microdata: Microdata, codes: Codes, source: str = "the guesses") -> Array:
        """Design matrix of coded rows (R, p), shape (R, k)."""
        frame = frame_of(microdata, codes, self.columns)
        self._check_levels(frame, source)
        with np.errstate(all="ignore"):  # what is not finite is an error, below
            try:
                matrix = self.spec.get_model_matrix(frame, na_action="ignore", output="numpy")
            except Exception as error:
                raise InputError(
                    f"the formula of {self.response!r}, {self.formula!r}, cannot be evaluated for "
                    f"{source}: {error}"
                ) from None
        found = np.asarray(matrix, dtype=float).reshape(len(codes), -1)
        if not self.intercept:
            found = found[:, [str(c) != CONSTANT for c in self.spec.column_names]]
        return self._check(found, source)

    def _check_levels(self, frame: pd.DataFrame, source: str) -> None:
        """Numbers inside C() must be levels that the original has; formulaic would only warn."""
        for term, (_, state) in self.spec.encoder_state.items():
            column = re.match(r"C\(([^,()]+)[,)]", str(term))
            name = column[1].strip().strip("`") if column else ""
            if "categories" not in state or name not in frame.columns:
                continue
            if isinstance(frame[name].dtype, pd.CategoricalDtype):
                continue  # has every level already
            unseen = int((~frame[name].isin(state["categories"])).sum())
            if unseen:
                raise InputError(
                    f"term {str(term)!r} of the formula of {self.response!r} makes levels of a "
                    f"number, and {unseen} rows of {source} hold values that the original does "
                    f"not; declare the levels of {name!r} (a pandas category), or use it as a "
                    "number"
                )

    def _check(self, matrix: Array, source: str) -> Array:
        bad = ~np.isfinite(matrix).all(axis=0)
        if bad.any():
            term = self.names[int(np.argmax(bad))]
            raise InputError(
                f"term {term!r} of the formula of {self.response!r} is not finite for some rows of "
                f"{source}; change the term, or the values that it is applied to"
            )
        return matrix


def parse(response: str, formula: str) -> Any:
    """The formula's right-hand side, formulaic's own object."""
    from formulaic import Formula

    try:
        parsed = Formula(formula)
    except Exception as error:
        raise InputError(
            f"the formula of {response!r}, {formula!r}, cannot be read: {error}"
        ) from None
    if not hasattr(parsed, "required_variables") or hasattr(parsed, "lhs"):
        raise InputError(
            f"the formula of {response!r}, {formula!r}, has a left-hand side; give the right-hand "
            f'side alone: {{"{response}": "1 + ..."}}'
        )
    return parsed


def frame_of(microdata: Microdata, codes: Codes, columns: Sequence[str]) -> pd.DataFrame:
    """Some columns of coded rows as formulas see them.

    Numbers, and categories that are stored as numbers, are numbers; all other categories are
    pandas categories with every level, held by somebody or not.
    """
    rows = pd.RangeIndex(len(codes))
    frame = {}
    for name in columns:
        j = microdata.columns.index(name)
        variable = microdata.variables[j]
        if isinstance(variable, Variable) and not _numeric(variable):
            values, levels = codes[:, j].astype(np.int64), pd.Index(variable.labels)
            frame[name] = pd.Series(pd.Categorical.from_codes(values, levels), index=rows)
        elif isinstance(variable, Variable):
            numbers = np.array(variable.levels, dtype=float)
            frame[name] = pd.Series(numbers[codes[:, j].astype(np.int64)], index=rows)
        else:
            frame[name] = pd.Series(codes[:, j].astype(float), index=rows)
    return pd.DataFrame(frame, index=rows)


def _numeric(variable: Variable) -> bool:
    """Whether a category is stored as numbers, so that a formula may use it as one."""
    if variable.missing or isinstance(variable.dtype, pd.CategoricalDtype):
        return False
    return bool(pd.api.types.is_numeric_dtype(variable.dtype)) and not bool(
        pd.api.types.is_bool_dtype(variable.dtype)
    )
