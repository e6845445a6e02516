"""What results share: tables that people read, one text, and a picture that `plots` draws.

What a result says of its numbers, and how they are written, stands in `reporting.presentation`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_risk._core import handed
from bayes_risk._core.arguments import public
from bayes_risk._core.arrays import Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import (
    NONE,
    PLUS_MINUS,
    at_most,
    begun,
    ends_in_words,
    error,
    number,
    percent,
    percent_error,
    plain,
    significant,
)
from bayes_risk._core.progress import in_notebook
from bayes_risk._core.shown import Shown, as_html

from .measures import Kind, Measure, Measures
from .variables import Number, Variable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Form = Callable[[Any], str]  # of a row: a mapping of column to value, and ``label``
HEADS = ("Value", "Error (2 s.e.)", "Without the release")


class Public(NamedTuple):
    """The number of a result that may leave the place of the data, and of how many records it is.

    ``value`` is a sum over records of a share from 0 to 1 (of 0 or 1 if ``whole``) that rests on
    the record and the released files alone, so that one record moves it by at most 1. ``without``
    is the same without the release, and known to who has the released files; NaN: none.
    """

    words: str
    value: float
    n: int
    without: float = float("nan")
    whole: bool = False

    @classmethod
    def of(cls, it: Measure, value: float, n: int, without: float = float("nan")) -> "Public":
        """A measure; of which counts are whole."""
        return cls(begun(it.words), value, n, without, it.kind == "count")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A table of a result: its numbers, and how people read them."""

    frame: pd.DataFrame  # the numbers, one row per label
    title: str = ""  # a heading of its own; empty: none
    caption: str = ""  # what the table is
    note: str = ""  # what to know before reading
    head: str = "Measure"  # what stands over the labels
    labels: Mapping[Any, str] | Callable[[Any], str] = str  # a mapping chooses and orders rows
    columns: Sequence[tuple[str, Form]] = ()  # how people read it; empty: it is only written
    file: str = ""  # name of the CSV file in a run's folder; empty: none
    public: Public | None = None  # what of it may leave

    @property
    def heads(self) -> tuple[str, ...]:
        """The head over the labels, and those of the columns."""
        return (self.head, *(head for head, _ in self.columns))

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Cells as text, row by row; the first is the label in words."""
        cells = self.frame.to_dict("records")
        found = [(k, row | {"label": k}) for k, row in zip(self.frame.index, cells, strict=True)]
        if isinstance(self.labels, Mapping):
            at = dict(found)
            named = [(words, at[k]) for k, words in self.labels.items() if k in at]
        else:
            named = [(self.labels(k), row) for k, row in found]
        return [(words, *(form(row) for _, form in self.columns)) for words, row in named]


def value(column: str = "value", form: Callable[..., str] = number, **how: Any) -> Form:
    """A column as real numbers, each written by ``form``."""
    return lambda row: form(float(row[column]), **how)


def count_column(column: str = "value") -> Form:
    """A column of counts; a dash where there is none."""
    return lambda row: NONE if pd.isna(row[column]) else number(int(row[column]))


def spread(
    column: str = "mcse", beside: str = "", digits: int | None = None, *, share: bool = False
) -> Form:
    """Two standard errors, with the decimals of the column that they stand beside."""
    return lambda row: error(
        float(row[column]), float(row[beside]) if beside else 0.0, digits, share=share
    )


def with_error(column: str, mcse: str, beside: str = " ({})", *, share: bool = False) -> Form:
    """A column as real numbers, and two standard errors where there are any."""

    def cell(row: Any) -> str:
        errors = error(float(row[mcse]), float(row[column]), share=share)
        bare = errors.startswith("<") and "(" not in beside  # a < b would be another statement
        errors = f"{PLUS_MINUS} {errors}" if bare else errors
        return number(float(row[column])) + beside.format(errors) * (errors not in ("0", NONE))

    return cell


def span(low: str, high: str, form: Callable[..., str] = number) -> Form:
    """From one column to the other; a dash where there is no such number."""
    return lambda row: (
        NONE if np.isnan(row[low]) else ends_in_words(form(row[low]), form(row[high]))
    )


def some(number_of: float) -> str:
    """A number of records, whole or expected: one decimal unless it is whole."""
    return number(float(number_of), 0 if float(number_of).is_integer() else 1)


def measure_table(
    summary: pd.DataFrame,
    known: Measures,
    heads: Sequence[str] = HEADS,
    *,
    short: bool = False,
    **rest: Any,
) -> Table:
    """File-level measures of ``known``: value, two standard errors, and without the release."""
    found = summary["value"].dropna().index
    there = [name for name in known if name in found and (known[name].short or not short)]
    forms: dict[Kind, Callable[[float], str]] = {"number": number, "share": percent, "place": some}
    forms |= {"scale": lambda x: significant(x, 4), "count": lambda x: number(int(x))}

    def kind_of(row: Any) -> Kind:
        return known[row["label"]].kind

    def cell(column: str) -> Form:
        return lambda row: NONE if np.isnan(row[column]) else forms[kind_of(row)](row[column])

    def without(row: Any) -> str:
        return NONE if kind_of(row) == "count" else cell("baseline")(row)

    def errors(row: Any) -> str:
        if not np.isnan(bound := row.get("bound", np.nan)):
            return at_most(2 * bound)
        if np.isnan(mcse := row.get("mcse", np.nan)):
            return NONE
        total = float(np.sqrt(np.nansum([row.get("standard_error", 0.0) ** 2, mcse**2])))
        return percent_error(total) if kind_of(row) == "share" else error(total, row["value"])

    def range_of(row: Any) -> str:
        return span("low", "high", forms[kind_of(row)])(row)

    forms_of = [cell("value"), errors, without, range_of]
    return Table(
        frame=summary.loc[there],
        labels={k: known[k].short if short else begun(known[k].words) for k in there},
        columns=list(zip(heads, forms_of, strict=False)),
        **rest,
    )


def for_file(table: pd.DataFrame, file: str) -> Table:
    """Records, or other rows of a result, for a file alone: nothing of them is shown."""
    return Table(frame=table.rename_axis("record"), file=file)


class Result(Shown, ABC):
    """A result: numbers, tables and a sentence. None of it is a picture."""

    __slots__ = ()
    MOST_ROWS: ClassVar[int] = 1000  # that are printed

    def __init_subclass__(cls, **how: Any) -> None:
        super().__init_subclass__(**how)
        public(cls)

    @abstractmethod
    def summary(self) -> pd.DataFrame:
        """File level."""

    def sentence(self) -> str:
        """The result in plain words."""
        return str(handed.presentation().sentence(self))

    def tables(self) -> dict[str, Table]:
        """Its tables by name, with captions, words of rows and columns, and what may leave."""
        found: dict[str, Table] = handed.presentation().tables(self)
        return found

    def words(self) -> str:
        """What it is called where nothing else is known of it: its class in words."""
        return re.sub(r"(?<!^)([A-Z])", lambda c: f" {c[0].lower()}", type(self).__name__)

    def screen(self) -> Table | None:
        """The table that the screen has room for; None: `line` says it."""
        table: Table | None = handed.presentation().screen(self)
        return table

    def line(self) -> str:
        """What the screen says of it, in one line."""
        return str(handed.presentation().line(self))

    def doubt(self) -> str:
        """What is not reliable, in a phrase; empty: nothing."""
        return str(handed.presentation().doubt_in_words(self))

    def to_dict(self) -> dict[str, Any]:
        """Sentence, measures and assumptions, for JSON."""
        known = getattr(self, "assumptions", {})
        return {"sentence": self.sentence(), "measures": self.summary(), "assumptions": known}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}\n{self._head()}\n\n{table_text(self.summary(), self.MOST_ROWS)}"
        )

    def _repr_html_(self) -> str:
        table = self.screen() or of_summary(self)
        return as_html(type(self).__name__, self._head(), table.heads, table.rows)

    def _head(self) -> str:
        """What stands above the table when the result is printed."""
        return self.sentence()


def of_summary(result: Result) -> Table:
    """The summary as it stands, of a result of which no table is known."""
    rows = result.summary()
    columns = [(str(c).replace("_", " "), lambda row, c=c: number(row[c])) for c in rows]
    caption = f"{result.words()}: file level."
    return Table(frame=rows, caption=caption, head="", columns=columns)


class Drawn(Result):
    """A result of which there is a picture."""

    __slots__ = ()
    PICTURE: ClassVar[str]  # name of its function in `bayes_risk.reporting.plots`

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The result's own picture in `bayes_risk.reporting.plots`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        return draw(self.PICTURE, self, ax=ax)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OfRecords(Drawn):
    """A result with numbers of each record that was asked about."""

    index: pd.Index
    assumptions: Mapping[str, str]
    seed_entropy: str

    @property
    @abstractmethod
    def records(self) -> pd.DataFrame:
        """One row per record."""

    @property
    def dataset(self) -> xr.Dataset:
        """The records as labelled arrays for NetCDF; no confidential values."""
        return self.labelled({}, {})

    def labelled(self, more: Mapping[str, Any], coords: Mapping[str, Any]) -> xr.Dataset:
        """``dataset`` and more of it."""
        data = {str(name): (("record",), c.to_numpy()) for name, c in self.records.items()}
        attrs = {f"assumption_{k}": v for k, v in self.assumptions.items()}
        attrs["random_seed"] = self.seed_entropy
        return xr.Dataset(data | dict(more), {"record": storable(self.index), **coords}, attrs)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OfTargets(OfRecords):
    """A result with numbers of each target; its arrays live on cases, to which targets point."""

    case: Ints
    variables: tuple[Variable | Number, ...]

    def with_variables(
        self, more: Mapping[str, Any], coords: Mapping[str, Any], *, levels: bool = True
    ) -> xr.Dataset:
        """``dataset`` with arrays of guesses; the names of their levels, which are confidential."""
        names = {"variable": np.array([v.name for v in self.variables], dtype=str)}
        labels = {f"levels_{v.name}": "\n".join(v.labels) for v in self.variables}
        return self.labelled(more, {**coords, **names}).assign_attrs(labels if levels else {})

    def by_target(self, columns: Mapping[str, npt.NDArray[Any]]) -> pd.DataFrame:
        """Arrays of cases, one row per target."""
        return pd.DataFrame(columns).take(self.case).set_axis(self.index)

    def worst(self, k: int = 10) -> pd.DataFrame:
        """The k records whose truth the intruder finds most probable; columns as ``records``."""
        return self.records.sort_values("probability", ascending=False, kind="stable").head(k)

    def position(self, label: Hashable) -> int:
        """Which row of ``records`` a label stands for, the first if several."""
        if label not in self.index:
            raise InputError(
                f"record {label!r} is not among the {len(self.index)} targets; see its index"
            )
        return int((self.index == label).argmax())

    def decoded(self, codes: npt.NDArray[Any], rows: pd.Index | None = None) -> pd.DataFrame:
        """Guesses by their codes, shape (k, q); confidential values."""
        rows = pd.RangeIndex(len(codes)) if rows is None else rows
        return pd.DataFrame(
            {v.name: v.decode(codes[:, j], rows) for j, v in enumerate(self.variables)}
        )


def draw(picture: str, *of: Any, **how: Any) -> "Axes":
    """Call a function of `bayes_risk.reporting.plots` by name; a notebook shows its figure."""
    axes: Axes = handed.picture(picture, *of, **how)
    if how.get("ax") is None and in_notebook():
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        display(axes.figure)
    return axes


def storable(index: pd.Index) -> npt.NDArray[Any]:
    """Record labels that NetCDF can hold: numbers as numbers, the rest as text."""
    values = index.to_numpy()
    return values if values.dtype.kind in "iufb" else np.array([str(v) for v in index], dtype=str)


def table_text(table: pd.DataFrame, most: int = 1000) -> str:
    """Numbers to four digits, of long tables the ends."""
    if len(table) > most:
        table = pd.concat([table.iloc[: most - 3], table.iloc[-2:]])
    cells = table.map(lambda v: v if isinstance(v, str) else "" if pd.isna(v) else plain(v))
    return cells.to_string()
