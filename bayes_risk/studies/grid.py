"""Many audits over a grid of settings: their labels and values, and where a measure is largest."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import plain

Dimensions = dict[str, list[tuple[Any, Any]]]  # label and value of every setting, by what is varied


def no_progress(stage: str, done: int, total: int) -> None:
    """Show nothing."""


def shape_of(axes: Dimensions) -> tuple[int, ...]:
    """Number of values of each."""
    return tuple(len(pairs) for pairs in axes.values())


def labels_of(axes: Dimensions) -> dict[str, list[Any]]:
    """Labels by what is varied: coordinates of a dataset."""
    return {name: [label for label, _ in pairs] for name, pairs in axes.items()}


def every_setting(axes: Dimensions) -> list[dict[str, int]]:
    """All combinations, each as the places of its values, in order."""
    places = product(*map(range, shape_of(axes)))
    return [dict(zip(axes, setting, strict=True)) for setting in places]


def listed(name: str, values: Any, right: str = "a list of at least one value") -> list[Any]:
    """Values of what is varied, at least one."""
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
        raise InputError(f"over: {name!r} has {values!r}; give {right}")
    return list(values)


def own_label(value: Any) -> Any:
    """A value in the words it has for itself, else the value."""
    words = getattr(value, "in_words", None)
    return words() if callable(words) and not isinstance(value, type) else value


def value_in_words(factor: str, value: Any) -> str:
    """A label of a factor, for people."""
    if factor == "knows_records" and value in (0.0, 1.0):
        return "none" if value == 0.0 else "all but the target's"
    return plain(value, 3) if isinstance(value, float) else str(value)


def measured(dataset: xr.Dataset, measure: str) -> xr.DataArray:
    """One measure of a dataset of settings."""
    if measure not in dataset:
        raise InputError(f"measure={measure!r}; give one of {list(dataset)}")
    return dataset[measure]


def worst_setting(
    dataset: xr.Dataset, measure: str, varied: Sequence[str], beside: Mapping[str, str]
) -> dict[str, Any]:
    """Where a measure is largest: labels of what is varied, its value, what stands beside it."""
    values = measured(dataset, measure)
    if bool(values.isnull().all()):
        raise InputError(f"{measure!r} is NaN for every setting; choose another measure")
    there = dataset.isel({str(k): int(v) for k, v in values.argmax(...).items()})
    found = {name: there[name].item() for name in varied}
    columns = {measure: measure, **beside}
    return found | {name: float(there[column]) for name, column in columns.items()}
