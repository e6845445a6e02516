"""Attribute risk over many settings: priors, knowledge, guesses, mechanism, m, hyper-priors."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from bayes_risk._core.arrays import Array
from bayes_risk._core.checkpoint import within
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import at_least, one_of
from bayes_risk.evidence.contract import Fit, drawn
from bayes_risk.intruder.guesses import Neighbourhood
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.release import Release
from bayes_risk.risk.kept_evidence import AttributeEvidence
from bayes_risk.risk.prior_comparison import measures

from .grid import Dimensions, every_setting, labels_of, listed, no_progress, own_label, shape_of
from .hyper_priors import Declarations, Gathered, check_hyper
from .sensitivity_result import Sensitivity

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
    if not isinstance(over, Mapping) or not over:
        raise InputError('over is empty; name what to vary, e.g. over={"m": [1, 2, 5]}')
    axes: Dimensions = {}
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


def _axes(name: str, values: Any, fit: Any, release: Release) -> Dimensions:
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


OPTIONS = frozenset(
    ["intruder", "guesses", "prior", "targets", "evidence", "target_mcse", "max_doublings"]
    + ["refit_budget", "n_jobs", "progress"]
)


def sensitivity(
    fit: Fit,
    release: Release,
    *,
    over: Mapping[str, Any],
    base: Mapping[str, Any] | None = None,
    one_at_a_time: bool = True,
    reweight: bool = True,
    refit: Callable[[Any], Fit] | None = None,
    random_seed: int | None = None,
    **options: Any,
) -> Sensitivity:
    """How attribute risk answers to what the intruder believes, knows, and is told of the model.

    Parameters
    ----------
    fit, release
        As for `attribute_risk`.
    over : mapping of factor to values
        What to vary. A dict gives labels; a list of values that label themselves will do.

        - ``"prior"``: priors. They are taken from the same evidence, all of them at every setting;
        - ``"knows_records"``, ``"knows_columns"``: of an `Intruder`; or ``"intruder"``: whole ones;
        - ``"guesses"``: sets of guesses; an integer d stands for ``Neighbourhood(d)``;
        - ``"classes"``: the mechanism that the intruder takes the release to have, "new" or "own";
        - ``"parameters"``: how the intruder takes the parameters behind the data sets to have been
          drawn, of ``fit.parameters``;
        - ``"evidence"``: how the evidence is computed;
        - ``"m"``: numbers of data sets, the first so many of them;
        - ``"hyper"``: dict of hyper-parameter of the model's declaration to values. The intruder
          then takes the model to have been declared so. ``"power"``: every hyper-prior is raised to
          a power (Kallioinen et al. 2023), below 1 weaker, above 1 stronger.
    base : mapping of factor to label, optional
        The setting around which one factor is varied at a time. By default what `attribute_risk`
        takes by default, and the hyper-parameters that were fitted; else the first value.
    one_at_a_time : bool
        Vary one factor at a time (every prior at each setting all the same), or all combinations.
    reweight : bool
        Other hyper-priors first by re-weighting the draws there are, with a k-hat; where that
        fails, or always (False), by fitting the model anew.
    refit : callable, optional
        From a declaration to its fit: ``lambda model: model.fit(df, draws=2000, random_seed=1)``.
        By default the table of the fit is fitted again, as many draws and chains.
    random_seed : int, optional
        The same for every setting, so that settings differ by what was varied and not by chance.
    **options
        Further arguments of `attribute_risk`, the same for all.

    Returns
    -------
    Sensitivity
        ``.dataset``, ``.summary()``, ``.tornado()``, ``.worst()``, ``.plot()``.

    Raises
    ------
    InputError
        Nothing to vary, an unknown factor or hyper-parameter, an empty list, a base that is not
        among the values; whatever `attribute_risk` refuses.

    Notes
    -----
    A setting at m = release.m is `attribute_risk` with its arguments and the same seed, to the
    byte. Fewer data sets are read off the same fits, whose base fit is then longer than it would
    be. Posteriors that settings have in common are sampled once. Cost: one `attribute_evidence`
    for each setting of the factors that are neither ``prior`` nor ``m``.

    References
    ----------
    Kallioinen, Paananen, Buerkner & Vehtari (2023), "Detecting and diagnosing prior and likelihood
    sensitivity with power-scaling", Statistics and Computing 34, 57.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayes_risk import Grid, TruthFactor
    >>> from bayes_risk.models import Regression
    >>> df = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0, 5.0], "y": [1.2, 1.9, 3.2, 3.9, 5.1]})
    >>> fit = Regression({"y": "1 + x"}).fit(df, draws=50, random_seed=1)
    >>> found = sensitivity(
    ...     fit, fit.synthesize(m=2, random_seed=2), guesses=Grid(additive=1.0, n=5),
    ...     over={"m": [1, 2], "prior": {"flat": "uniform", "leaning": TruthFactor(3.0)}},
    ... )
    >>> dict(found.dataset.sizes)
    {'m': 2, 'prior': 2}
    """
    unknown = sorted(set(options) - OPTIONS)
    if unknown:
        raise InputError(f"{unknown[0]}= is not known; give {sorted(OPTIONS)}, or vary it in over")
    factors = swept(fit, release, over, base, options)
    if random_seed is None:
        random_seed = int(np.random.default_rng().integers(2**31))
    how = {**options, "random_seed": random_seed}
    declared = Declarations(fit, refit, random_seed, reweight=reweight)
    table, groups = _Table(factors), _groups(factors, one_at_a_time)
    done, total, tell = 0, sum(map(len, groups)), how.get("progress") or no_progress
    tell("settings", done, total)
    for group in groups:
        with within("setting"):
            _fill(table, group, declared, release, how)
        done += len(group)
        tell("settings", done, total)
    return table.result(one_at_a_time, random_seed)


def _groups(factors: Swept, one_at_a_time: bool) -> list[list[Setting]]:
    """Settings that differ in m alone, together, the largest m first."""
    groups: dict[tuple[Any, ...], list[Setting]] = {}
    for setting in factors.settings(one_at_a_time=one_at_a_time):
        key = tuple((k, v) for k, v in setting.items() if k != "m")
        groups.setdefault(key, []).append(setting)
    return [sorted(group, key=lambda s: -s.get("m", 0)) for group in groups.values()]


def _fill(
    table: "_Table",
    group: list[Setting],
    declared: Declarations,
    release: Release,
    how: dict[str, Any],
) -> None:
    """Evidence of the most data sets, that of fewer read off it if it comes release by release."""
    factors, gathered = table.factors, None
    hyper = {n.removeprefix(HYPER): factors.value(n, group[0]) for n in group[0] if HYPER in n}
    shown, arguments = audit_of(factors, group[0], release, how)
    for setting in group:
        m = factors.value("m", setting) if "m" in setting else release.m
        if gathered is None or not gathered.evidence.by_release:
            gathered = declared.gather(hyper, shown.first(m), arguments)
        evidence = gathered.evidence
        if evidence.release.m != m:
            evidence = evidence.first(m)
        table.put(setting, evidence, gathered, how.get("prior", "uniform"))


class _Table:
    """Measures by setting, NaN where nothing was computed."""

    def __init__(self, factors: Swept) -> None:
        self.factors = factors
        self.values: dict[str, Array] = {}

    def put(self, setting: Setting, evidence: AttributeEvidence, how: Gathered, prior: Any) -> None:
        """The row of every prior."""
        named = self.factors.axes.get("prior", [("", prior)])
        rows = evidence.risks({str(place): value for place, (_, value) in enumerate(named)})
        for place, risk in rows.items():
            row = measures(risk)
            if any(name.startswith(HYPER) for name in setting):
                row |= {"hyper_khat": how.khat, "hyper_refitted": float(how.refitted)}
            where = {**setting, "prior": int(place)}
            at = tuple(where[name] for name in self.factors.axes)
            for name, value in row.items():
                self.values.setdefault(name, np.full(shape_of(self.factors.axes), np.nan))[at] = (
                    value
                )

    def result(self, one_at_a_time: bool, random_seed: int) -> Sensitivity:
        """All of it, labelled."""
        axes = self.factors.axes
        coords = labels_of(axes)
        data = {name: (list(axes), values) for name, values in self.values.items()}
        attrs: dict[str, Any] = {
            "one_at_a_time": int(one_at_a_time),
            "random_seed": str(random_seed),
        }
        base = {name: coords[name][place] for name, place in self.factors.base.items()}
        return Sensitivity(dataset=xr.Dataset(data, coords, attrs), base=base)
