"""Attribute risk over many settings: priors, knowledge, guesses, mechanism, m, hyper-priors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.checkpoint import within
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import error, number, plain
from bayes_risk._core.progress import no_progress, shows_progress
from bayes_risk.data.base_result import draw
from bayes_risk.data.measures import MEASURES
from bayes_risk.evidence.contract import Fit, check_kinds
from bayes_risk.release.release import Release
from bayes_risk.risk.result import measures_of

from .attribute_settings import HYPER, Declarations, Swept, audit_of, swept
from .grid import Place, Setting, Varied, value_in_words, worst_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RISK = "mean_probability"
NAMES = {
    "prior": "prior",
    "knows_records": "records known",
    "knows_columns": "columns known",
    "guesses": "guesses",
    "classes": "classes, as believed",
    "parameters": "parameters, as believed",
    "evidence": "computed by",
    "m": "data sets (m)",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Sensitivity(Varied):
    """Attribute risk under many settings of the intruder's prior, knowledge and model.

    Attributes
    ----------
    dataset : xarray.Dataset
        A dimension for each factor (``prior``, ``knows_records``, ``m``, ``hyper level_prior``,
        ...). Variables are the columns of `AttributeEvidence.compare`, NaN at settings that were
        not computed; with hyper-parameters also ``hyper_khat`` (k-hat of the ratio of hyper-priors;
        NaN where no weights were tried) and ``hyper_refitted`` (1: the model was fitted anew).
    base : mapping of factor to label
        The setting around which factors were varied.
    """

    base: Mapping[str, Any]

    def summary(self) -> pd.DataFrame:
        """One row a setting that was computed; columns are the variables of the dataset."""
        frame = self.dataset.to_dataframe(dim_order=self.factors)
        return frame[frame[RISK].notna()]

    def worst(self, measure: str = RISK) -> dict[str, Any]:
        """The setting at which a measure is largest: label by factor, and its value there.

        And where it has them its ``mcse`` and ``baseline``.

        Parameters
        ----------
        measure : str
            A variable of the dataset.
        """
        of = MEASURES.get(measure)
        beside = {"mcse": of.error or None, "baseline": of.baseline or None} if of else {}
        return worst_of(self.checked(measure), measure, beside)

    def along(self, factor: str) -> xr.Dataset:
        """The dataset along one factor, the others at their base."""
        if factor not in self.factors:
            raise InputError("factor", factor, f"was not varied; give one of {self.factors}")
        return self.dataset.sel({n: v for n, v in self.base.items() if n != factor})

    def tornado(self, measure: str = RISK) -> pd.DataFrame:
        """How far each factor by itself moves a measure from the base setting, widest first.

        One row a factor: ``low`` and ``high`` of the measure, the values ``at_low`` and ``at_high``
        of the factor that give them, the measure at the ``base``, ``range`` (high less low), and
        ``mcse`` of the larger of the two (NaN: the measure has none).

        Parameters
        ----------
        measure : str
            A variable of the dataset.
        """
        self.checked(measure)
        rows = {name: self._row(name, measure) for name in self.factors}
        frame = pd.DataFrame.from_dict(rows, orient="index")
        return frame.sort_values("range", ascending=False, kind="stable")

    def plot(
        self, factor: str | None = None, *, measure: str = RISK, ax: "Axes | None" = None
    ) -> "Axes":
        """A tornado of all factors; of one factor a curve over its numbers, or bars.

        Parameters
        ----------
        factor : str, optional
            Which; all of them by default.
        measure : str
            A variable of the dataset.
        ax : matplotlib Axes, optional
        """
        self.checked(measure)
        if factor is None:
            return draw("plot_tornado", self, measure=measure, ax=ax)
        return draw("plot_factor", self, factor, measure=measure, ax=ax)

    def base_sentence(self) -> str:
        """The risk of the study's own audit."""
        base = self.dataset.sel(dict(self.base))
        mean, most = (float(base[f"{which}_probability"]) for which in ("mean", "max"))
        spread, without = error(float(base["mcse"]), mean), number(float(base["baseline"]))
        return (
            f"The audit of the study: the intruder gives the truth {number(mean)} on "
            f"average{f' ({spread})' if spread != '0' else ''}, {without} without the release; "
            f"{number(most)} in the worst case."
        )

    def worst_sentence(self) -> str:
        """The setting of the largest mean, in so far as it differs from the base."""
        worst = self.worst()
        moved = [
            f"{name_of(name)}: {value_in_words(name, worst[name])}"
            for name in self.factors
            if worst[name] != self.base[name]
        ]
        where = "at the base" if not moved else f"at {'; '.join(moved)}"
        return (
            f"Largest mean: {number(worst['mean_probability'])} ({number(worst['baseline'])} "
            f"without the release), {where}."
        )

    def _row(self, factor: str, measure: str) -> dict[str, Any]:
        line = self.along(factor)
        values, labels = line[measure].to_numpy(), line[factor].to_numpy()
        low, high = np.nanargmin(values), np.nanargmax(values)
        error = MEASURES[measure].error if measure in MEASURES else ""
        return {
            "low": values[low],
            "high": values[high],
            "at_low": labels[low],
            "at_high": labels[high],
            "base": float(self.dataset[measure].sel(dict(self.base))),
            "range": values[high] - values[low],
            "mcse": float("nan") if not error else float(line[error][[low, high]].max()),
        }

    def __repr__(self) -> str:
        table = self.tornado().to_string(float_format=plain)
        at = ", ".join(f"{name} = {label}" for name, label in self.base.items())
        return f"Sensitivity\n{self._head()}\nOne factor at a time from {at}:\n\n{table}"


def name_of(factor: str) -> str:
    """A factor for people."""
    if factor.startswith(HYPER):
        return f"model: {factor.removeprefix(HYPER)}"
    return NAMES.get(factor, factor)


OPTIONS = frozenset(
    ["intruder", "guesses", "prior", "targets", "evidence", "target_mcse", "max_doublings"]
    + ["refit_budget", "n_jobs", "progress"]
)


@shows_progress
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
    """Sensitivity of attribute risk to the intruder's prior, knowledge and model.

    Parameters
    ----------
    fit, release
        As for `attribute_risk`.
    over : mapping of factor to values
        What to vary, a dict of label to value, or a list of values that label themselves.

        - ``"prior"``: priors, all of them from the same evidence at every setting;
        - ``"knows_records"``, ``"knows_columns"``: of an `Intruder`; or ``"intruder"``: whole ones;
        - ``"guesses"``: sets of guesses; an integer d stands for ``Neighbourhood(d)``;
        - ``"classes"``, ``"parameters"``, ``"evidence"``: the mechanism that the intruder takes the
          release to have, how its parameters were drawn, how the evidence is computed;
        - ``"m"``: numbers of data sets, the first so many of them;
        - ``"hyper"``: dict of hyper-parameter of the model's declaration to values, or ``"power"``
          of all (Kallioinen et al. 2023, Statistics and Computing 34, 57): ``docs/sensitivity.md``.
    base : mapping of factor to label, optional
        The setting around which one factor is varied at a time. The default is that of
        `attribute_risk`, with the hyper-parameters of the fit; otherwise the first value.
    one_at_a_time : bool
        Vary one factor at a time (every prior at each setting all the same), or all combinations.
    reweight : bool
        True: other hyper-priors are computed by re-weighting the existing draws, with a k-hat; if
        that fails, the model is fitted again. False: the model is always fitted again.
    refit : callable, optional
        A function that fits a declaration: ``lambda model: model.fit(df, draws=2000,
        random_seed=1)``. By default the table is fitted again, with as many draws and chains.
    random_seed : int, optional
        Every setting uses the same seed, so that settings do not differ by chance.
    **options
        Further arguments of `attribute_risk`, the same for all.

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
    check_kinds(fit, release)
    factors = swept(fit, release, over, base, options)
    if random_seed is None:
        random_seed = int(np.random.default_rng().integers(2**31))
    how = {**options, "random_seed": random_seed}
    declared = Declarations(fit, refit, random_seed, reweight=reweight)
    groups: dict[Any, list[Setting]] = {}  # settings that differ in m alone, the largest m first
    for setting in factors.settings(one_at_a_time=one_at_a_time):
        groups.setdefault(tuple((k, v) for k, v in setting.items() if k != "m"), []).append(setting)
    rows: dict[Place, dict[str, float]] = {}
    done, total, tell = 0, sum(map(len, groups.values())), how.get("progress") or no_progress
    tell("settings", done, total)
    for group in groups.values():
        group.sort(key=lambda setting: -setting.get("m", 0))
        with within("setting"):
            rows |= _measured(factors, group, declared, release, how)
        done += len(group)
        tell("settings", done, total)
    attrs = {"one_at_a_time": int(one_at_a_time), "random_seed": str(random_seed)}
    labels = factors.grid.labels
    return Sensitivity(
        dataset=factors.grid.dataset(rows, {}, **attrs),
        base={name: labels[name][place] for name, place in factors.base.items()},
    )


def _measured(
    factors: Swept,
    group: list[Setting],
    declared: Declarations,
    release: Release,
    how: dict[str, Any],
) -> dict[Place, dict[str, float]]:
    """Measures by setting and prior: fewer data sets are read off the evidence of the most."""
    gathered, rows = None, {}
    named = factors.grid.axes.get("prior", [("", how.get("prior", "uniform"))])
    priors = {str(place): prior for place, (_, prior) in enumerate(named)}
    hyper = {n.removeprefix(HYPER): factors.grid.value(n, group[0]) for n in group[0] if HYPER in n}
    shown, arguments = audit_of(factors, group[0], release, how)
    for setting in group:
        m = factors.grid.value("m", setting) if "m" in setting else release.m
        if gathered is None or not gathered.evidence.by_release:
            gathered = declared.gather(hyper, shown.first(m), arguments)
        evidence = gathered.evidence
        if evidence.release.m != m:
            evidence = evidence.first(m)
        more = {"hyper_khat": gathered.khat, "hyper_refitted": float(gathered.refitted)}
        for k, risk in evidence.risks(priors).items():
            places = {**setting, "prior": int(k)}
            place = tuple(places[name] for name in factors.grid.axes)
            rows[place] = measures_of(risk) | (more if hyper else {})
    return rows
