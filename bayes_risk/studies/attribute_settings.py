"""Settings of attribute risk: what can be varied, and evidence under other hyper-priors."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.arguments import taken
from bayes_risk._core.checkpoint import Memory
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import one_of
from bayes_risk.data.variables import Variable
from bayes_risk.evidence.contract import Reweighted, Under, drawn_as
from bayes_risk.evidence.diagnostics import khat_threshold, pareto_smoothed
from bayes_risk.intruder.guesses import Neighbourhood
from bayes_risk.intruder.intruder import KNOWN, Intruder
from bayes_risk.release.release import EncodedRelease, Release
from bayes_risk.risk.attribute import AttributeEvidence, EvidenceOptions, gathered

from .grid import (
    GridAxes,
    Setting,
    SettingsGrid,
    by_name,
    check_m,
    checked_over,
    labelled,
    own_label,
)

FACTORS = (
    *("prior", "intruder", "knows_records", "knows_columns", "guesses", "classes"),
    *("parameters", "evidence", "m", "hyper"),
)
HYPER = "hyper "
SHARES = {"none": 0.0, "all-but-target": 1.0}


class Swept(NamedTuple):
    """The grid of factors, and the setting around which they are varied."""

    grid: SettingsGrid
    base: Setting

    def settings(self, *, one_at_a_time: bool) -> list[Setting]:
        """Which settings are computed, priors left out (every prior goes with each of them)."""
        axes = {name: pairs for name, pairs in self.grid.axes.items() if name != "prior"}
        found = SettingsGrid(axes).settings
        if not one_at_a_time:
            return found
        return [s for s in found if sum(s[n] != self.base[n] for n in axes) <= 1]


def swept(fit: Any, release: Release, over: Any, base: Any, options: Mapping[str, Any]) -> Swept:
    """Read the factors; every message names the one that is wrong."""
    axes: GridAxes = {}
    for name, values in checked_over(over, FACTORS, options).items():
        axes |= _axes(name, values, fit, release)
    if "intruder" in axes and {"knows_records", "knows_columns"} & set(axes):
        raise InputError(
            "over has 'intruder' and what an intruder knows; give either whole intruders, or "
            "knows_records and knows_columns"
        )
    return Swept(SettingsGrid(axes), _base(axes, dict(base or {}), fit, release))


def _axes(name: str, values: Any, fit: Any, release: Release) -> GridAxes:
    if name == "hyper":
        check_hyper(fit, list(by_name(name, values, "hyper-parameter")))
        return {f"{HYPER}{k}": _hyper(k, v, fit) for k, v in values.items()}
    pairs = labelled(name, values, _share if name == "knows_records" else own_label)
    words = {"classes": ("new", "own"), "parameters": fit.parameters}
    for _, value in pairs if name in words else ():
        one_of(("over", name), value, words[name])
    if name == "m":
        check_m([value for _, value in pairs], release.m)
    if name == "guesses":
        pairs = [(k, Neighbourhood(v) if isinstance(v, int) else v) for k, v in pairs]
    if name == "intruder" and not all(isinstance(v, Intruder) for _, v in pairs):
        raise InputError(
            "over['intruder'] holds something that is not an Intruder; give Intruder(...)"
        )
    return {name: _ordered(pairs) if name in ("m", "knows_records") else pairs}


def _share(known: Any) -> Any:
    """A share of the records, words for none and all of them included."""
    return SHARES.get(known, known) if isinstance(known, str) else own_label(known)


def _ordered(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    numbers = all(isinstance(label, int | float) for label, _ in pairs)
    return sorted(pairs, key=lambda pair: pair[0]) if numbers else pairs


def _hyper(name: str, values: Any, fit: Any) -> list[tuple[Any, Any]]:
    """Values of a hyper-parameter, the fitted one always among them."""
    own = _own(name, fit)
    pairs = labelled(f"hyper {name}", values)
    if not any(_same(value, own) for _, value in pairs):
        as_fitted = "as fitted" if isinstance(values, Mapping) else own_label(own)
        if not all(isinstance(label, int | float) for label in (as_fitted, pairs[0][0])):
            pairs, as_fitted = [(str(k), v) for k, v in pairs], str(as_fitted)
        pairs = [(as_fitted, own), *pairs]
    return _ordered(pairs)


def _same(x: Any, y: Any) -> bool:
    x, y = (tuple(v) if isinstance(v, list) else v for v in (x, y))  # as declarations keep them
    return type(x) is type(y) and repr(x) == repr(y) or (np.ndim(x) == 0 and x == y)


def _base(axes: GridAxes, given: dict[str, Any], fit: Any, release: Release) -> Setting:
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
        "parameters": drawn_as(fit, release),
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
    values = swept.grid.values(setting)
    knows = {n: values[n] for n in ("knows_records", "knows_columns") if n in values}
    if knows:
        how["intruder"] = replace(how.get("intruder") or Intruder(), **knows)
    how |= {name: values[name] for name in ("intruder", "guesses", "evidence") if name in values}
    if values.get("classes", release.classes) != release.classes:
        release = replace(release, classes=values["classes"])
    if "parameters" in values:
        release = replace(release, parameters=values["parameters"])
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
        model, given = self.changed(hyper), EvidenceOptions(**how)
        if model is None:
            found = gathered(self.fit, release, given, memory=self.memory)
            return Gathered(found, np.nan, False)
        khat, under = np.nan, self._under(model, release, how)
        if under is not None:
            found = gathered(self.fit, release, given, memory=self.memory, under=under)
            can = self.fit.capabilities(found.encoded, Intruder())
            posterior = can["predictive"].fit.informed(found.encoded)
            few, rng = found.cases.only(np.arange(1)), np.random.default_rng(self.random_seed)
            ratios = [r for _, r in under.predictives(posterior, few, rng=rng)]
            # of the ratio of priors alone, the largest of all parts
            khat = max((float(pareto_smoothed(r[:, None])[1][0]) for r in ratios), default=0.0)
            limit = khat_threshold(self.fit.n_draws)
            if khat <= limit and float((found.found.khat <= limit).mean()) >= ENOUGH:
                return Gathered(found, khat, False)
        fit, memory = self._fitted(model)
        return Gathered(gathered(fit, release, given, memory=memory), khat, True)

    def _under(self, model: Any, release: Release, how: dict[str, Any]) -> Under | None:
        """Draws to re-weight: predictive evidence of an intruder who knows all others."""
        intruder, method = how.get("intruder") or Intruder(), how.get("evidence")
        unsure = intruder.knows_less or not intruder.knows_target_in_file
        unsure |= intruder.household != KNOWN
        if not self.reweight or unsure or method not in (None, "predictive"):
            return None
        can = self.fit.capabilities(EncodedRelease.of(release, self.fit.microdata), intruder)
        reweighted: Reweighted | None = can.fit_for("reweighting")
        if reweighted is None or (method is None and "exact" in can):
            return None  # a refit costs nothing
        return reweighted.under(model)

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
