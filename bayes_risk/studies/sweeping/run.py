"""Attribute risk over many settings: priors, knowledge, guesses, mechanism, m, hyper-priors."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayes_risk._core.checkpoint import within
from bayes_risk._core.errors import InputError
from bayes_risk.evidence.contract import Fit
from bayes_risk.release.release import Release
from bayes_risk.risk.kept_evidence import AttributeEvidence
from bayes_risk.risk.prior_comparison import measures

from .hyper import Declarations, Gathered
from .result import Sensitivity
from .settings import HYPER, Setting, Swept, audit_of, swept

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
    done, total, tell = 0, sum(map(len, groups)), how.get("progress") or _quiet
    tell("settings", done, total)
    for group in groups:
        with within("setting"):
            _fill(table, group, declared, release, how)
        done += len(group)
        tell("settings", done, total)
    return table.result(one_at_a_time, random_seed)


def _quiet(stage: str, done: int, total: int) -> None:
    """Show nothing."""


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
        self.values: dict[str, npt.NDArray[np.float64]] = {}

    def put(self, setting: Setting, evidence: AttributeEvidence, how: Gathered, prior: Any) -> None:
        """The row of every prior."""
        named = self.factors.axes.get("prior", [("", prior)])
        rows = evidence.risks({str(place): value for place, (_, value) in enumerate(named)})
        for place, risk in rows.items():
            row = measures(risk)
            if any(self.factors.of_hyper(name) for name in setting):
                row |= {"hyper_khat": how.khat, "hyper_refitted": float(how.refitted)}
            where = {**setting, "prior": int(place)}
            at = tuple(where[name] for name in self.factors.axes)
            for name, value in row.items():
                self.values.setdefault(name, np.full(self.factors.shape, np.nan))[at] = value

    def result(self, one_at_a_time: bool, random_seed: int) -> Sensitivity:
        """All of it, labelled."""
        axes = self.factors.axes
        coords = {name: [label for label, _ in pairs] for name, pairs in axes.items()}
        data = {name: (list(axes), values) for name, values in self.values.items()}
        attrs: dict[str, Any] = {
            "one_at_a_time": int(one_at_a_time),
            "random_seed": str(random_seed),
        }
        base = {name: coords[name][place] for name, place in self.factors.base.items()}
        return Sensitivity(dataset=xr.Dataset(data, coords, attrs), base=base)
