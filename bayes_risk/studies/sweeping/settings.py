"""What a sensitivity analysis goes over: labels and values of every factor, and their base."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import plain
from bayes_risk._core.validate import at_least, one_of
from bayes_risk.evidence.contract import drawn
from bayes_risk.intruder.guesses import Neighbourhood
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.release import Release

from .hyper import check_hyper

FACTORS = (
    "prior",
    "intruder",
    "knows_records",
    "knows_columns",
    "guesses",
    "classes",
    "parameters",
    "evidence",
    "m",
    "hyper",
)
SHARES = {"none": 0.0, "all-but-target": 1.0}

Axes = dict[str, list[tuple[Any, Any]]]  # label and value of every setting, by factor
Setting = dict[str, int]  # which value of each factor


class Swept(NamedTuple):
    """Factors, and the setting around which they are varied."""

    axes: Axes
    base: Setting

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each factor."""
        return tuple(len(values) for values in self.axes.values())

    def of_hyper(self, name: str) -> bool:
        """Whether a factor is a hyper-parameter of the model."""
        return name.startswith(HYPER)

    def value(self, name: str, setting: Setting) -> Any:
        """The value of a factor."""
        return self.axes[name][setting[name]][1]

    def settings(self, *, one_at_a_time: bool) -> list[Setting]:
        """Which settings are computed, priors left out (every prior goes with each of them)."""
        names = [name for name in self.axes if name != "prior"]
        every = product(*(range(len(self.axes[name])) for name in names))
        found = [dict(zip(names, numbers, strict=True)) for numbers in every]
        if not one_at_a_time:
            return found
        return [s for s in found if sum(s[n] != self.base[n] for n in names) <= 1]


HYPER = "hyper "


def swept(fit: Any, release: Release, over: Any, base: Any, options: Mapping[str, Any]) -> Swept:
    """Read the factors; every message names the one that is wrong."""
    if not isinstance(over, Mapping) or not over:
        raise InputError('over is empty; name what to vary, e.g. over={"m": [1, 2, 5]}')
    axes: Axes = {}
    for name, values in over.items():
        one_of("over", name, FACTORS)
        if name in options:
            raise InputError(f"{name!r} stands in over and beside it; give it once")
        axes |= _axes(name, values, fit, release)
    if "intruder" in axes and {"knows_records", "knows_columns"} & set(axes):
        raise InputError(
            "over has 'intruder' and what an intruder knows; give either whole intruders, or "
            "knows_records and knows_columns"
        )
    return Swept(axes, _base(axes, dict(base or {}), fit, release))


def _axes(name: str, values: Any, fit: Any, release: Release) -> Axes:
    if name == "hyper":
        if not isinstance(values, Mapping) or not values:
            raise InputError(
                f"over['hyper']={values!r}; give a dict of hyper-parameter to a list of values"
            )
        check_hyper(fit, list(values))
        return {f"{HYPER}{k}": _hyper(k, v, fit) for k, v in values.items()}
    pairs = _labelled(name, values)
    if name == "m":
        for _, m in pairs:
            if at_least("over: m", m, 1) > release.m:
                raise InputError(f"over: m={m}, and the release has {release.m} data sets")
    if name == "classes":
        for _, classes in pairs:
            one_of("over: classes", classes, ("new", "own"))
    if name == "parameters":
        for _, way in pairs:
            one_of("over: parameters", way, fit.parameters)
    if name == "guesses":
        pairs = [(k, Neighbourhood(v) if isinstance(v, int) else v) for k, v in pairs]
    if name == "intruder" and not all(isinstance(v, Intruder) for _, v in pairs):
        raise InputError("over['intruder'] holds something that is no Intruder; give Intruder(...)")
    return {name: _ordered(pairs) if name in ("m", "knows_records") else pairs}


def _labelled(name: str, values: Any) -> list[tuple[Any, Any]]:
    """Labels and values of a dict; of a list whose values label themselves."""
    if isinstance(values, Mapping) and values:
        return [(str(k), v) for k, v in values.items()]
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
        raise InputError(
            f"over: {name!r} has {values!r}; give a dict of label to value, or a list of values "
            "that label themselves"
        )
    listed = list(values)
    labels = [_label(name, value) for value in listed]
    if len(set(labels)) < len(labels):
        raise InputError(f"over: {name!r} names a value twice ({labels}); name each once")
    if not all(isinstance(label, int | float) for label in labels):
        labels = [str(label) for label in labels]
    return list(zip(labels, listed, strict=True))


def _label(name: str, value: Any) -> Any:
    if name == "knows_records" and isinstance(value, str):
        return SHARES.get(value, value)
    if name == "knows_columns":
        return " + ".join(map(str, value)) if len(value) else "none"
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return value.item() if isinstance(value, np.number) else value
    words = getattr(value, "in_words", None)
    return words() if callable(words) and not isinstance(value, type) else str(value)


def value_in_words(factor: str, value: Any) -> str:
    """A label of a factor, for people."""
    if factor == "knows_records" and value in (0.0, 1.0):
        return "none" if value == 0.0 else "all but the target's"
    return plain(value, 3) if isinstance(value, float) else str(value)


def _ordered(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    numbers = all(isinstance(label, int | float) for label, _ in pairs)
    return sorted(pairs, key=lambda pair: pair[0]) if numbers else pairs


def _hyper(name: str, values: Any, fit: Any) -> list[tuple[Any, Any]]:
    """Values of a hyper-parameter, the fitted one always among them."""
    own: Any = 1.0 if name == "power" else getattr(fit.model, name)
    pairs = _labelled(f"hyper {name}", values)
    if not any(_same(value, own) for _, value in pairs):
        as_fitted = "as fitted" if isinstance(values, Mapping) else _label(name, own)
        if not all(isinstance(label, int | float) for label in (as_fitted, pairs[0][0])):
            pairs, as_fitted = [(str(k), v) for k, v in pairs], str(as_fitted)
        pairs = [(as_fitted, own), *pairs]
    return _ordered(pairs)


def _same(x: Any, y: Any) -> bool:
    return type(x) is type(y) and repr(x) == repr(y) or (np.ndim(x) == 0 and x == y)


def _base(axes: Axes, given: dict[str, Any], fit: Any, release: Release) -> Setting:
    """The base label of each factor: given, what an audit takes by default, or the first."""
    known = {name.removeprefix(HYPER): name for name in axes}
    base: Setting = {}
    for name in given:
        if name not in axes and name not in known:
            raise InputError(f"base names {name!r}, which over does not vary ({list(axes)})")
    for name, pairs in axes.items():
        labels = [label for label, _ in pairs]
        bare = name.removeprefix(HYPER)  # a regression's "prior" is no intruder's
        wanted = given.get(name, None if bare in axes else given.get(bare))
        if wanted is not None and wanted not in labels:
            raise InputError(f"base: {name!r} has no value {wanted!r}; it has {labels}")
        base[name] = (
            labels.index(wanted) if wanted is not None else _usual(name, pairs, fit, release)
        )
    return base


def _usual(name: str, pairs: list[tuple[Any, Any]], fit: Any, release: Release) -> int:
    if name.startswith(HYPER):
        bare = name.removeprefix(HYPER)
        own: Any = 1.0 if bare == "power" else getattr(fit.model, bare)
    else:
        own = {
            "prior": "uniform",
            "knows_records": "all-but-target",
            "knows_columns": (),
            "classes": release.classes,
            "parameters": drawn(fit, release),
            "m": release.m,
        }.get(name)
    for place, (_, value) in enumerate(pairs):
        if name == "knows_columns" and not len(value):
            return place
        if own is not None and _same(value, own):
            return place
    return 0


def audit_of(
    swept: Swept, setting: Setting, release: Release, options: Mapping[str, Any]
) -> tuple[Release, dict[str, Any]]:
    """The release and the arguments of `attribute_evidence` that a setting stands for, m aside."""
    how = {k: v for k, v in options.items() if k != "prior"}
    said = {n: swept.value(n, setting) for n in setting if n in ("knows_records", "knows_columns")}
    if said:
        how["intruder"] = replace(how.get("intruder") or Intruder(), **said)
    for name in ("intruder", "guesses", "evidence"):
        if name in setting:
            how[name] = swept.value(name, setting)
    if "classes" in setting and swept.value("classes", setting) != release.classes:
        release = replace(release, classes=swept.value("classes", setting))
    if "parameters" in setting:
        release = replace(release, parameters=swept.value("parameters", setting))
    elif f"{HYPER}bootstrap" in setting:  # says how shares of leaves were drawn
        release = replace(release, parameters=None)
    return release, how
