"""A grid of settings: axes, their labels and values, and a table of what was computed at each."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import plain
from bayes_risk._core.validate import one_of, whole_number
from bayes_risk.data.base_result import Result

GridAxes = dict[str, list[tuple[Any, Any]]]  # label and value of every setting, by what is varied
Setting = dict[str, int]  # which value of each axis
Place = tuple[int, ...]  # the same, in the order of the axes
Row = Mapping[str, Any]  # numbers of one setting, or vectors, by name


class SettingsGrid(NamedTuple):
    """Axes, each with a label and a value for every setting."""

    axes: GridAxes

    @property
    def shape(self) -> Place:
        """Number of values of each axis."""
        return tuple(len(pairs) for pairs in self.axes.values())

    @property
    def labels(self) -> dict[str, list[Any]]:
        """Labels by axis: coordinates of a dataset."""
        return {name: [label for label, _ in pairs] for name, pairs in self.axes.items()}

    @property
    def settings(self) -> list[Setting]:
        """All combinations, in order."""
        return [dict(zip(self.axes, place, strict=True)) for place in self.places]

    @property
    def places(self) -> list[Place]:
        """All combinations, in order."""
        return list(product(*map(range, self.shape)))

    def value(self, name: str, setting: Setting) -> Any:
        """The value of an axis."""
        return self.axes[name][setting[name]][1]

    def values(self, setting: Setting) -> dict[str, Any]:
        """The value of each axis."""
        return {name: self.value(name, setting) for name in setting}

    def dataset(
        self, rows: Mapping[Place, Row], inner: Mapping[str, Sequence[Any]], **attrs: Any
    ) -> xr.Dataset:
        """What was computed at each place, NaN elsewhere; vectors have the ``inner`` dimension."""
        names = dict.fromkeys(name for row in rows.values() for name in row)
        data: dict[str, Any] = {}
        for name in names:
            column = np.array([rows.get(place, {}).get(name, np.nan) for place in self.places])
            dims = [*self.axes, *list(inner)[: column.ndim - 1]]
            data[name] = (dims, column.reshape(*self.shape, *column.shape[1:]))
        return xr.Dataset(data, self.labels | dict(inner), attrs)


# --- axes ---------------------------------------------------------------------------------------


def checked_over(over: Any, names: Sequence[str], beside: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is to be varied, some of the names; none of it is also among the options ``beside``."""
    if not isinstance(over, Mapping) or not over:
        raise InputError('over is empty; name what to vary, e.g. over={"m": [1, 2, 5]}')
    for name in over:
        one_of("over", name, names)
        if name in beside:
            raise InputError(f"{name!r} stands in over and beside it; give it once")
    return over


def by_name(name: str, values: Any, right: str) -> Mapping[str, Any]:
    """Values of an axis that is one for each column, or parameter: a dict of lists."""
    if not isinstance(values, Mapping) or not values:
        raise InputError(("over", name), values, f"; give a dict of {right} to a list of values")
    return values


def axis_values(name: str, values: Any, right: str = "a list of at least one value") -> list[Any]:
    """Values of an axis, at least one."""
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
        raise InputError(("over", name), values, f"; give {right}")
    return list(values)


def own_label(value: Any) -> Any:
    """A number as it is; several names joined; another value in its own words, or as text."""
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return " + ".join(value) or "none"
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return value.item() if isinstance(value, np.number) else value
    words = getattr(value, "in_words", None)
    return str(words() if callable(words) and not isinstance(value, type) else value)


def labelled(
    name: str, values: Any, label: Callable[[Any], Any] = own_label
) -> list[tuple[Any, Any]]:
    """Label and value of each: of a dict; of a list whose values label themselves."""
    if isinstance(values, Mapping) and values:
        return [(str(k), v) for k, v in values.items()]
    right = "a dict of label to value, or a list of values that label themselves"
    given = axis_values(name, values, right)
    labels = [label(value) for value in given]
    if len(set(labels)) < len(labels):
        raise InputError(("over", name), f"names a value twice ({labels}); name each once")
    if not all(isinstance(label, int | float) for label in labels):
        labels = [str(label) for label in labels]
    return list(zip(labels, given, strict=True))


def check_m(values: Collection[Any], most: int) -> None:
    """Numbers of data sets, none of them more than there are."""
    for m in values:
        if whole_number(("over", "m"), m, 1) > most:
            raise InputError(("over", "m"), m, f"is more than the release has; give at most {most}")


def value_in_words(factor: str, value: Any) -> str:
    """A label of an axis, for people."""
    if factor == "knows_records" and value in (0.0, 1.0):
        return "none" if value == 0.0 else "all but the target's"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return plain(value, 3) if isinstance(value, float) else str(value)


# --- results ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Varied(Result):
    """Numbers of many audits, labelled by the settings that were varied."""

    dataset: xr.Dataset

    @property
    def factors(self) -> list[str]:
        """What was varied."""
        return [str(name) for name in self.dataset.dims if name != "rule"]

    def checked(self, measure: str) -> xr.Dataset:
        """The dataset, which has a measure."""
        if measure not in self.dataset:
            raise InputError("measure", measure, f"; give one of {list(self.dataset)}")
        return self.dataset

    def _head(self) -> str:
        sizes = ", ".join(f"{self.dataset.sizes[name]} of {name}" for name in self.factors)
        return f"Settings: {sizes}.\n{self.sentence()}"


def worst_of(dataset: xr.Dataset, measure: str, beside: Mapping[str, str | None]) -> dict[str, Any]:
    """Where a measure is largest: labels of what is varied, its value, what stands beside it."""
    values = dataset[measure]
    if bool(values.isnull().all()):
        raise InputError(f"{measure!r} is NaN for every setting; choose another measure")
    there = dataset.isel({str(k): int(v) for k, v in values.argmax(...).items()})
    found = {str(name): there[name].item() for name in values.dims}
    columns = {measure: measure, **beside}
    return found | {name: float(there[of]) for name, of in columns.items() if of is not None}
