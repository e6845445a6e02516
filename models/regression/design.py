"""Design matrices: formulas evaluated on coded rows, real or hypothetical."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import Codes, Microdata, Variable

from .formulas import Reading, States, parse

Array = npt.NDArray[np.float64]
CONSTANT = "Intercept"


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """The right-hand side of one formula, its coding learnt from the confidential table.

    ``names`` (k) of the coefficients as formulaic prints them; ``columns`` the table's columns
    that the formula uses, wherever in it they stand; ``unseen`` counts the rows of a frame with
    levels that the table does not have, for each expression of which the formula makes levels.
    """

    response: str
    formula: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    coding: "Coding"
    intercept: bool
    unseen: Mapping[str, Callable[[pd.DataFrame], int]]

    @classmethod
    def of(
        cls, response: str, formula: str, microdata: Microdata, *, intercept: bool = True
    ) -> "Design":
        """Read a formula and learn its coding (levels, knots, centres) from the table.

        Without ``intercept`` (proportional odds has thresholds instead) its column is dropped.
        """
        reading = parse(response, formula)
        columns = tuple(reading.columns)
        frame = frame_of(microdata, microdata.codes, columns)
        try:
            coding, matrix = Coding.learnt(reading, frame)
        except Exception as error:
            raise _failed(response, formula, "", error) from None
        names = coding.names if intercept else tuple(n for n in coding.names if n != CONSTANT)
        unseen = _unseen(response, coding, frame)
        made = cls(response, formula, names, columns, coding, intercept, unseen)
        made._check_rows(microdata, matrix)
        return made

    def matrix(self, microdata: Microdata, codes: Codes, source: str = "the guesses") -> Array:
        """Design matrix of coded rows (R, p), shape (R, k)."""
        frame = frame_of(microdata, codes, self.columns)
        self._check_levels(frame, source)
        try:
            found = self.coding.matrix(frame)
        except Exception as error:
            raise _failed(self.response, self.formula, f" for {source}", error) from None
        if not self.intercept:
            found = found[:, [name != CONSTANT for name in self.coding.names]]
        return self._check(found, source)

    def _check_rows(self, microdata: Microdata, matrix: Array) -> None:
        """A row's terms must be its own: x - x.mean() would take the mean of the guesses."""
        some = np.array([len(matrix) - 1, 0])
        kept = [c for c, name in enumerate(self.coding.names) if name in self.names]
        alone = self.matrix(microdata, microdata.codes[some], "the original")
        same = np.isclose(alone, matrix[some][:, kept], rtol=1e-9, atol=1e-12, equal_nan=True)
        if not same.all():
            term = self.names[int(np.argmin(same.all(axis=0)))]
            raise InputError(
                f"term {term!r} of the formula of {self.response!r} looks at several records at "
                "once; use center(x), scale(x), poly(x, 2) or bs(x), which keep what they learn "
                "from the original"
            )

    def _check_levels(self, frame: pd.DataFrame, source: str) -> None:
        """Levels must be those of the original; formulaic would warn and take the first instead."""
        for term, count_unseen in self.unseen.items():
            unseen = count_unseen(frame)
            if unseen:
                raise InputError(
                    f"term {term!r} of the formula of {self.response!r} makes levels of numbers, "
                    f"and {unseen} rows of {source} have levels that the original does not; take "
                    "guesses and releases from its levels, or use numbers as numbers"
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


@dataclass(frozen=True, slots=True, eq=False)
class Coding:
    """A formula and what it learnt from a frame: levels, knots and centres."""

    reading: Reading
    states: States
    spec: Any

    @classmethod
    def learnt(cls, reading: Reading, frame: pd.DataFrame) -> tuple["Coding", Array]:
        """Learn from a frame, and give its matrix."""
        states = reading.states()
        found = _evaluated(reading.terms, reading, states, frame, output="pandas")
        return cls(reading, states, found.model_spec), _numbers(found, frame)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of matrices."""
        return tuple(str(name) for name in self.spec.column_names)

    def matrix(self, frame: pd.DataFrame) -> Array:
        """Matrix of the rows of a frame, coded as was learnt."""
        found = _evaluated(self.spec, self.reading, self.states, frame, output="numpy")
        return _numbers(found, frame)


def _evaluated(
    terms: Any, reading: Reading, states: States, frame: pd.DataFrame, *, output: str
) -> Any:
    with np.errstate(all="ignore"):  # what is not finite is found by who asked
        values = reading.values(frame, states)
        return terms.get_model_matrix(frame, context=values, na_action="ignore", output=output)


def _numbers(matrix: Any, frame: pd.DataFrame) -> Array:
    return np.asarray(matrix, dtype=float).reshape(len(frame), -1)


def _failed(response: str, formula: str, source: str, error: BaseException) -> InputError:
    """The factor and the kind of error; what an error says may hold values of records."""
    inner = error.__cause__ or error.__context__ or error
    factor = re.search(r"factor `(.*)`", str(error))
    where = f"{factor[1]!r} fails" if factor else "it fails"
    return InputError(
        f"the formula of {response!r}, {formula!r}, cannot be evaluated{source}: {where} with "
        f"{type(inner).__name__}; check the kinds of its columns and its arguments"
    )


def _unseen(
    response: str, coding: Coding, frame: pd.DataFrame
) -> dict[str, Callable[[pd.DataFrame], int]]:
    """What counts rows with unseen levels, for every expression that is no category itself."""
    made: dict[str, Callable[[pd.DataFrame], int]] = {}
    for term, (_, state) in coding.spec.encoder_state.items():
        name = _inner(str(term))
        column = name.strip("`")
        if "categories" not in state or (
            column in frame and isinstance(frame[column].dtype, pd.CategoricalDtype)
        ):
            continue
        if column in frame:
            made[str(term)] = partial(_unseen_in_column, column, list(state["categories"]))
        else:
            indicators, _ = Coding.learnt(parse(response, f"0 + C({name})"), frame)
            made[str(term)] = partial(_unseen_in_expression, indicators)
    return made


def _unseen_in_column(column: str, levels: list[Any], frame: pd.DataFrame) -> int:
    return int((~frame[column].isin(levels)).sum())


def _unseen_in_expression(indicators: Coding, frame: pd.DataFrame) -> int:
    try:
        held = indicators.matrix(frame)
    except Exception:  # formulaic's warning, where warnings are errors
        return len(frame)
    return int((held.sum(axis=1) != 1).sum())


def _inner(term: str) -> str:
    """Of what C() makes levels: its first argument; other expressions as they are."""
    if not term.startswith("C("):
        return term
    depth = 0
    for place, sign in enumerate(term[2:], start=2):
        if depth == 0 and sign in ",)":
            return term[2:place].strip()
        depth += (sign in "([{") - (sign in ")]}")
    return term


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
