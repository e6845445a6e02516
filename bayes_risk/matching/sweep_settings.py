"""What a sweep goes over: labels and values of every setting, and the calls they stand for."""

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import at_least
from bayes_risk.matching.population.population import Population

from .choices import check_effects, checked_choices
from .input import Released, listed
from .replicates import Replicates

LABELLED = ("targets", "population", "shape", "closed", "missing", "fallback")
DEFAULTS: dict[str, Any] = {"strategy": "always", "shape": "box", "closed": True, "fallback": True}

Axes = dict[str, list[tuple[Any, Any]]]  # label and value of every setting, by dimension


class Base(NamedTuple):
    """What is the same in all calls, unless it is swept."""

    releases: Any
    known: list[str]
    synthesized: list[str]
    options: Mapping[str, Any]

    @property
    def keys(self) -> list[str]:
        """All keys."""
        return [*self.known, *self.synthesized]


def checked_base(
    releases: Any, known: Any, synthesized: Any, options: Mapping[str, Any], over: Any
) -> Base:
    """Lists of names; radii and rules for missing values belong to keys."""
    base = Base(releases, _names("known", known), _names("synthesized", synthesized), options)
    if not isinstance(over, Mapping) or not over:
        raise InputError("over is empty; name what to sweep, e.g. over={'m': [1, 2, 5]}")
    radius = _mapping("radius", over["radius"]) if "radius" in over else {}
    missing = options.get("missing")
    named = {
        "radius": [*radius, *(options.get("radius") or {})],
        "missing": list(missing) if isinstance(missing, Mapping) else [],
    }
    for what, columns in named.items():
        for column in columns:
            if column not in base.keys:
                raise InputError(f"{what} names {column!r}, which is no key ({base.keys})")
    return base


def axes_of(base: Base, over: Mapping[str, Any]) -> Axes:
    """Label and value of every setting, by dimension."""
    axes: Axes = {}
    for name, values in over.items():
        if name in base.options:
            raise InputError(f"{name!r} stands in over and beside it; give it once")
        if name == "radius":
            for column, radii in values.items():
                axes[f"radius of {column}"] = [(_label(r), r) for r in _some(column, radii)]
        elif name == "known":
            axes[name] = [(", ".join(s), s) for s in _subsets(values, base.keys)]
        elif name in ("m", "strategy"):
            axes[name] = [(value, value) for value in _some(name, values)]
        elif name in LABELLED:
            labelled = isinstance(values, Mapping)
            pairs = values.items() if labelled else [(v, v) for v in _some(name, values)]
            axes[name] = [(str(label), value) for label, value in pairs]
        else:
            names = ["radius", "known", "m", "strategy", *LABELLED]
            raise InputError(f"over names {name!r}; what can be swept is {names}")
    return axes


def calls_of(base: Base, axes: Axes) -> list[dict[str, Any]]:
    """Arguments of `identification_risk` for every combination of settings, in order."""
    settings = product(*([(axis, value) for _, value in values] for axis, values in axes.items()))
    calls = [_call(base, dict(setting)) for setting in settings]
    _settle_effects(calls)
    return calls


def _call(base: Base, setting: Mapping[str, Any]) -> dict[str, Any]:
    """One combination; what belongs to keys that are not known now is left out."""
    swept = {k: v for k, v in setting.items() if not k.startswith("radius of ")}
    radius = dict(base.options.get("radius") or {})
    radius |= {k.removeprefix("radius of "): v for k, v in setting.items() if k not in swept}
    keys = swept.pop("known", base.keys)
    m = swept.pop("m", None)
    call = {**DEFAULTS, **base.options, **swept}
    call["releases"] = base.releases if m is None else _first_releases(base.releases, m)
    call["known"] = [c for c in base.known if c in keys]
    call["synthesized"] = [c for c in base.synthesized if c in keys]
    call["radius"] = {name: r for name, r in radius.items() if name in keys} or None
    if isinstance(call.get("missing"), Mapping):
        call["missing"] = {
            name: how
            for name, how in call["missing"].items()
            if name in keys or name not in base.keys
        }
    call["population"] = _over(call.get("population"), keys, base.keys)
    return call


def _over(population: Any, keys: Sequence[str], every: Sequence[str]) -> Any:
    """A population by the keys known now: summed over those that are not."""
    if population is None or set(keys) == set(every):
        return population
    each = [population] if isinstance(population, Population) else population
    if not isinstance(each, Sequence) or not all(isinstance(one, Population) for one in each):
        raise InputError(
            f"population is an array of counts by {list(every)}, and over['known'] asks for "
            f"{list(keys)}; give a Population, which is summed over the keys left out"
        )
    summed = [one.over([k for k in one.keys if k in keys or k not in every]) for one in each]
    return summed[0] if isinstance(population, Population) else summed


def _settle_effects(calls: Sequence[dict[str, Any]]) -> None:
    """Refuse choices that change nothing in any call; where they do in some, others do without."""
    for name in ("strategy", "shape", "closed"):
        refused, works = [], False
        for call in calls:
            choices = checked_choices(**{k: call[k] for k in DEFAULTS})
            alone = choices._replace(**{k: DEFAULTS[k] for k in DEFAULTS if k != name})
            try:
                check_effects(
                    alone,
                    population=call["population"] is not None,
                    n_radii=len(call["radius"] or {}),
                )
                works |= call[name] != DEFAULTS[name]
            except InputError as error:
                refused.append((call, error))
        if refused and not works:
            raise refused[0][1]
        for call, _ in refused:
            call[name] = DEFAULTS[name]


def _names(what: str, names: Any) -> list[str]:
    if isinstance(names, str):
        raise InputError(f"{what}={names!r}; give a list of column names")
    return list(names)


def _mapping(name: str, values: Any) -> Mapping[str, Any]:
    if not isinstance(values, Mapping) or not values:
        raise InputError(f"over[{name!r}]={values!r}; give a dict of column to a list")
    return values


def _some(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
        raise InputError(f"over: {name!r} has {values!r}; give a list of at least one value")
    return list(values)


def _label(radius: Any) -> Any:
    words = getattr(radius, "in_words", None)
    return words() if callable(words) and not isinstance(radius, type) else radius


def _subsets(values: Any, keys: Sequence[str]) -> list[list[str]]:
    """All sets of 1 to k columns, or those listed."""
    if isinstance(values, int):
        k = min(at_least("over['known']", values, 1), len(keys))
        return [list(s) for size in range(1, k + 1) for s in combinations(keys, size)]
    subsets = [list(dict.fromkeys(subset)) for subset in _some("known", values)]
    for column in (c for subset in subsets for c in subset):
        if column not in keys:
            raise InputError(
                f"over['known'] names {column!r}, which is neither known nor synthesized "
                f"({list(keys)})"
            )
    return subsets


class _First(NamedTuple):
    """The first files of a release."""

    datasets: Sequence[pd.DataFrame]
    synthesized: Sequence[str]


def _first_releases(releases: Any, m: Any) -> Any:
    declared = not isinstance(releases, pd.DataFrame) and isinstance(releases, Released)
    tables = listed(releases.datasets if declared else releases)
    most = releases.n_releases if isinstance(releases, Replicates) else len(tables)
    if not most:
        raise InputError("over: 'm', and the tables were drawn given no release; leave 'm' out")
    if isinstance(m, bool) or not isinstance(m, int | np.integer) or not 1 <= m <= most:
        raise InputError(f"over: 'm' has {m!r}; give whole numbers from 1 to {most}")
    if isinstance(releases, Replicates):
        return releases.of_first(int(m))
    return _First(tables[:m], releases.synthesized) if declared else tables[:m]
