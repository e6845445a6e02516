"""Many audits over a grid of settings: labels, values, and evidence under other hyper-priors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from inspect import signature
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import plain
from bayes_risk._core.validate import one_of, whole_number
from bayes_risk.data.base_result import Result
from bayes_risk.data.variables import Variable
from bayes_risk.evidence.contract import Under, drawn
from bayes_risk.evidence.diagnostics import khat_threshold, pareto_smoothed
from bayes_risk.evidence.runner import Memory, needed
from bayes_risk.intruder.guesses import Neighbourhood
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.release import EncodedRelease, Release
from bayes_risk.risk.attribute import AttributeEvidence, gathered

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


def checked_over(over: Any, names: Sequence[str], beside: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is to be varied, some of the names; none of it is also among the options ``beside``."""
    if not isinstance(over, Mapping) or not over:
        raise InputError('over is empty; name what to vary, e.g. over={"m": [1, 2, 5]}')
    for name in over:
        one_of("over", name, names)
        if name in beside:
            raise InputError(f"{name!r} stands in over and beside it; give it once")
    return over


def own_label(value: Any) -> Any:
    """A value in the words it has for itself, else the value."""
    words = getattr(value, "in_words", None)
    return words() if callable(words) and not isinstance(value, type) else value


def value_in_words(factor: str, value: Any) -> str:
    """A label of a factor, for people."""
    if factor == "knows_records" and value in (0.0, 1.0):
        return "none" if value == 0.0 else "all but the target's"
    return plain(value, 3) if isinstance(value, float) else str(value)


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

    def _told(self) -> str:
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


# --- settings of attribute risk

FACTORS = (
    *("prior", "intruder", "knows_records", "knows_columns", "guesses", "classes"),
    *("parameters", "evidence", "m", "hyper"),
)
HYPER = "hyper "
SHARES = {"none": 0.0, "all-but-target": 1.0}
Setting = dict[str, int]  # which value of each factor


class Swept(NamedTuple):
    """Factors, and the setting around which they are varied."""

    axes: Dimensions
    base: Setting

    def value(self, name: str, setting: Setting) -> Any:
        """The value of a factor."""
        return self.axes[name][setting[name]][1]

    def settings(self, *, one_at_a_time: bool) -> list[Setting]:
        """Which settings are computed, priors left out (every prior goes with each of them)."""
        axes = {name: pairs for name, pairs in self.axes.items() if name != "prior"}
        found = every_setting(axes)
        if not one_at_a_time:
            return found
        return [s for s in found if sum(s[n] != self.base[n] for n in axes) <= 1]


def swept(fit: Any, release: Release, over: Any, base: Any, options: Mapping[str, Any]) -> Swept:
    """Read the factors; every message names the one that is wrong."""
    axes: Dimensions = {}
    for name, values in checked_over(over, FACTORS, options).items():
        axes |= _axes(name, values, fit, release)
    if "intruder" in axes and {"knows_records", "knows_columns"} & set(axes):
        raise InputError(
            "over has 'intruder' and what an intruder knows; give either whole intruders, or "
            "knows_records and knows_columns"
        )
    return Swept(axes, _base(axes, dict(base or {}), fit, release))


def _axes(name: str, values: Any, fit: Any, release: Release) -> Dimensions:
    if name == "hyper":
        if not isinstance(values, Mapping) or not values:
            raise InputError(
                f"over['hyper']={values!r}; give a dict of hyper-parameter to a list of values"
            )
        check_hyper(fit, list(values))
        return {f"{HYPER}{k}": _hyper(k, v, fit) for k, v in values.items()}
    pairs = _labelled(name, values)
    words = {"classes": ("new", "own"), "parameters": fit.parameters}
    for _, value in pairs:
        if name == "m" and whole_number(("over", "m"), value, 1) > release.m:
            text = f"is more than the {release.m} data sets of the release; raise its m"
            raise InputError(("over", "m"), value, text)
        if name in words:
            one_of(("over", name), value, words[name])
    if name == "guesses":
        pairs = [(k, Neighbourhood(v) if isinstance(v, int) else v) for k, v in pairs]
    if name == "intruder" and not all(isinstance(v, Intruder) for _, v in pairs):
        raise InputError("over['intruder'] holds something that is no Intruder; give Intruder(...)")
    return {name: _ordered(pairs) if name in ("m", "knows_records") else pairs}


def _labelled(name: str, values: Any) -> list[tuple[Any, Any]]:
    """Labels and values of a dict; of a list whose values label themselves."""
    if isinstance(values, Mapping) and values:
        return [(str(k), v) for k, v in values.items()]
    given = listed(
        name, values, "a dict of label to value, or a list of values that label themselves"
    )
    labels = [_label(name, value) for value in given]
    if len(set(labels)) < len(labels):
        raise InputError(f"over: {name!r} names a value twice ({labels}); name each once")
    if not all(isinstance(label, int | float) for label in labels):
        labels = [str(label) for label in labels]
    return list(zip(labels, given, strict=True))


def _label(name: str, value: Any) -> Any:
    if name == "knows_records" and isinstance(value, str):
        return SHARES.get(value, value)
    if name == "knows_columns":
        return " + ".join(map(str, value)) if len(value) else "none"
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return value.item() if isinstance(value, np.number) else value
    return str(own_label(value))


def _ordered(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    numbers = all(isinstance(label, int | float) for label, _ in pairs)
    return sorted(pairs, key=lambda pair: pair[0]) if numbers else pairs


def _hyper(name: str, values: Any, fit: Any) -> list[tuple[Any, Any]]:
    """Values of a hyper-parameter, the fitted one always among them."""
    own = _own(name, fit)
    pairs = _labelled(f"hyper {name}", values)
    if not any(_same(value, own) for _, value in pairs):
        as_fitted = "as fitted" if isinstance(values, Mapping) else _label(name, own)
        if not all(isinstance(label, int | float) for label in (as_fitted, pairs[0][0])):
            pairs, as_fitted = [(str(k), v) for k, v in pairs], str(as_fitted)
        pairs = [(as_fitted, own), *pairs]
    return _ordered(pairs)


def _same(x: Any, y: Any) -> bool:
    return type(x) is type(y) and repr(x) == repr(y) or (np.ndim(x) == 0 and x == y)


def _base(axes: Dimensions, given: dict[str, Any], fit: Any, release: Release) -> Setting:
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


def _own(hyper: str, fit: Any) -> Any:
    """The hyper-parameter that was fitted."""
    return 1.0 if hyper == POWER else getattr(fit.model, hyper)


def _usual(name: str, pairs: list[tuple[Any, Any]], fit: Any, release: Release) -> int:
    own: Any = {
        "prior": "uniform",
        "knows_records": "all-but-target",
        "knows_columns": (),
        "classes": release.classes,
        "parameters": drawn(fit, release),
        "m": release.m,
    }.get(name)
    if name.startswith(HYPER):
        own = _own(name.removeprefix(HYPER), fit)
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


POWER = "power"
ENOUGH = 0.9  # share of records whose k-hat must be good for a re-weighting to stand


class Gathered(NamedTuple):
    """Evidence of a setting; ``khat`` of the ratio of hyper-priors (NaN: none was tried)."""

    evidence: AttributeEvidence
    khat: float
    refitted: bool


class Declarations:
    """Fits of the model under other hyper-parameters, each made once.

    ``fit`` has ``model``, a frozen declaration; the rest as in `sensitivity`.
    """

    def __init__(
        self, fit: Any, refit: Callable[[Any], Any] | None, random_seed: int, *, reweight: bool
    ) -> None:
        self.fit, self.memory = fit, Memory()
        self.refit, self.random_seed, self.reweight = refit, random_seed, reweight
        self._fits: dict[str, tuple[Any, Memory]] = {}

    def changed(self, hyper: dict[str, Any]) -> Any:
        """The declaration with other hyper-parameters; None: its own."""
        model: Any = self.fit.model
        named = {name: value for name, value in hyper.items() if name != POWER}
        other = replace(model, **named) if named else model
        if hyper.get(POWER, 1) != 1:
            other = other.power_scaled(hyper[POWER])
        return None if other == model or repr(other) == repr(model) else other

    def gather(self, hyper: dict[str, Any], release: Release, how: dict[str, Any]) -> Gathered:
        """Evidence under these hyper-parameters."""
        model = self.changed(hyper)
        if model is None:
            found = gathered(self.fit, release, memory=self.memory, **how)
            return Gathered(found, np.nan, False)
        khat, under = np.nan, self._under(model, release, how)
        if under is not None:
            found = gathered(self.fit, release, memory=self.memory, under=under, **how)
            can = self.fit.capabilities(found.encoded, Intruder())
            posterior = needed(can.sampled).informed(found.encoded)
            few, rng = found.cases.only(np.arange(1)), np.random.default_rng(self.random_seed)
            ratios = [r for _, r in under.predictives(posterior, few, rng=rng)]
            # of the ratio of priors alone, the largest of all parts
            khat = max((float(pareto_smoothed(r[:, None])[1][0]) for r in ratios), default=0.0)
            limit = khat_threshold(self.fit.n_draws)
            if khat <= limit and float((found.found.khat <= limit).mean()) >= ENOUGH:
                return Gathered(found, khat, False)
        fit, memory = self._fitted(model)
        return Gathered(gathered(fit, release, memory=memory, **how), khat, True)

    def _under(self, model: Any, release: Release, how: dict[str, Any]) -> Under | None:
        """Draws to re-weight: predictive evidence of an intruder who knows all others."""
        intruder, way = how.get("intruder") or Intruder(), how.get("evidence")
        if not self.reweight or intruder.knows_less or way not in (None, "predictive"):
            return None
        can = self.fit.capabilities(EncodedRelease.of(release, self.fit.microdata), intruder)
        if can.reweighted is None or (way is None and "exact" in can.methods):
            return None  # a refit costs nothing
        offered: Under | None = can.reweighted.under(model)
        return offered

    def _fitted(self, model: Any) -> tuple[Any, Memory]:
        key = repr(model)
        if key not in self._fits:
            fit = self.refit(model) if self.refit is not None else self._again(model)
            self._fits[key] = fit, Memory()
        return self._fits[key]

    def _again(self, model: Any) -> Any:
        """The same table, length and moves, another declaration."""
        data, known = self.fit.microdata, self.fit.diagnostics
        wanted: dict[str, Any] = {k: int(known[k]) for k in ("draws", "chains") if k in known}
        if "draws" in wanted:
            wanted["tune"] = wanted["draws"]
        posterior = getattr(self.fit, "posterior", None)
        of = {"thin": posterior, "splits": getattr(posterior, "prior", None)}
        wanted |= {name: getattr(has, name) for name, has in of.items() if hasattr(has, name)}
        wanted["levels"] = {v.name: v.levels for v in data.variables if isinstance(v, Variable)}
        wanted["random_seed"] = self.random_seed
        return model.fit(data.decode(data.codes), **taken(model.fit, **wanted))


def taken(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """What of some options a function takes; matching, say, draws nothing."""
    takes = signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in takes):
        return options
    return {one.name: options[one.name] for one in takes if one.name in options}


def check_hyper(fit: Any, names: list[str]) -> None:
    """Names must be fields of the fit's declaration, or "power"."""
    model = getattr(fit, "model", None)
    if not is_dataclass(model):
        raise InputError(
            f"{type(fit).__name__} has no declaration whose hyper-parameters could be changed; "
            "leave 'hyper' out"
        )
    known = [f.name for f in fields(model)] + [POWER] * hasattr(model, "power_scaled")
    for name in names:
        if name not in known:
            raise InputError(
                f"over['hyper'] names {name!r}, which {type(model).__name__} does not have; give "
                f"one of {known}"
            )
