"""Identification risk over many settings at once: radii, known columns, m, targets, strategies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd
import xarray as xr

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import one_of, whole_number
from bayes_risk.data.base_result import draw
from bayes_risk.data.microdata import require_columns
from bayes_risk.matching.input import checked_keys
from bayes_risk.matching.population import Population
from bayes_risk.matching.question import MatchingOptions, check_effects, checked_choices
from bayes_risk.matching.replicates import Replicates
from bayes_risk.matching.result import COLUMNS, NOBODYS, MatchCounts
from bayes_risk.matching.risk import matched
from bayes_risk.release.tables import Released, declared_columns
from bayes_risk.release.tables import as_tables as list_tables

from .grid import (
    GridAxes,
    SettingsGrid,
    Varied,
    axis_values,
    by_name,
    check_m,
    checked_over,
    labelled,
    own_label,
    worst_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELLED = ("targets", "population", "shape", "closed", "missing", "fallback")
DEFAULTS: dict[str, Any] = {"strategy": "always", "shape": "box", "closed": True, "fallback": True}
OF = "radius of "


def sweep_axes(keys: Sequence[str], over: Mapping[str, Any]) -> GridAxes:
    """Label and value of every setting, by axis."""
    axes: GridAxes = {}
    for name, values in over.items():
        if name == "radius":
            for column, radii in by_name(name, values, "column").items():
                axes[f"{OF}{column}"] = labelled(column, radii)
        elif name == "known":
            axes[name] = [(own_label(s), s) for s in _subsets(values, keys)]
        else:
            axes[name] = labelled(name, values)
    return axes


def _call(base: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    """One combination; what belongs to keys that are not known now is left out."""
    swept = {k: v for k, v in setting.items() if not k.startswith(OF)}
    radius = {k.removeprefix(OF): v for k, v in setting.items() if k.startswith(OF)}
    every = [*base["known"], *base["synthesized"]]
    keys, m = swept.pop("known", every), swept.pop("m", None)
    gone = set(every) - set(keys)
    call = {"population": None, "missing": "level", **base, **swept}
    call["radius"] = {**(base.get("radius") or {}), **radius}
    for name in ("radius", "missing"):
        if isinstance(call[name], Mapping):
            call[name] = {column: how for column, how in call[name].items() if column not in gone}
    for name in ("known", "synthesized"):
        call[name] = [column for column in base[name] if column not in gone]
    if m is not None:
        call["releases"] = _first_releases(base["releases"], m)
    if call["population"] is not None and gone:
        call["population"] = _summed(call["population"], keys, every)
    return call


def _summed(population: Any, keys: Sequence[str], every: Sequence[str]) -> Any:
    """A population by the keys known now: summed over those that are not."""
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
        refused, works, error = [], False, None
        for call in calls:
            alone = checked_choices(**DEFAULTS | {name: call[name]})
            counted = call["population"] is not None
            try:
                check_effects(alone, population=counted, n_radii=len(call["radius"]))
                works |= call[name] != DEFAULTS[name]
            except InputError as found:
                refused.append(call)
                error = error or found
        if error is not None and not works:
            raise error
        for call in refused:
            call[name] = DEFAULTS[name]


def _subsets(values: Any, keys: Sequence[str]) -> list[list[str]]:
    """All sets of 1 to k columns, or those listed."""
    if isinstance(values, int):
        k = min(whole_number("over['known']", values, 1), len(keys))
        return [list(s) for size in range(1, k + 1) for s in combinations(keys, size)]
    subsets = [list(dict.fromkeys(subset)) for subset in axis_values("known", values)]
    for column in (c for subset in subsets for c in subset):
        if column not in keys:
            raise InputError(f"over['known'] names {column!r}, which is not a key ({list(keys)})")
    return subsets


def _first_releases(releases: Any, m: Any) -> Any:
    tables, drawn = list_tables(releases), isinstance(releases, Replicates)
    most = releases.n_releases if drawn else len(tables)
    if not most:
        raise InputError("over: 'm', and the tables were drawn given no release; leave 'm' out")
    check_m([m], most)
    if drawn:
        return releases.of_first(int(m))
    if declared_columns(releases) is not None:
        return SimpleNamespace(datasets=tables[:m], synthesized=releases.synthesized)
    return tables[:m]


RISK, RATES = "expected_match_risk", ("true_match_rate", "false_match_rate")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class IdentificationSweep(Varied):
    """Measures of identification risk, labelled by the settings that were swept.

    Attributes
    ----------
    dataset : xarray.Dataset
        A dimension for each thing swept (``radius of Income``, ``known``, ``m``, ``strategy``,
        ...), and ``rule``: "pooled" or "mean". Variables are the columns of
        `IdentificationRisk.summary`, ``mcse`` (standard error of the expected match risk; NaN where
        the releases are too few) and, without ``rule``, ``baseline`` (expected match risk without
        the release) and ``n`` (targets).
    """

    MOST_ROWS: ClassVar[int] = 20  # settings that are printed, and listed in a report

    @property
    def swept(self) -> list[str]:
        """What was swept."""
        return self.factors

    def worst(self, measure: str = RISK, rule: str = "pooled") -> dict[str, Any]:
        """The settings at which a measure is largest, by name, and its value there.

        For the expected match risk also ``mcse`` and ``baseline``. Of radii this is the maximising
        radius of Hornby & Hu (2021).

        Parameters
        ----------
        measure : str
            A variable of the dataset.
        rule : {"pooled", "mean"}
        """
        beside = ("mcse", "baseline") if measure == RISK else ()
        return worst_of(self._by(measure, rule), measure, dict(zip(beside, beside, strict=True)))

    def summary(self, rule: str = "pooled") -> pd.DataFrame:
        """One row a setting: expected match risk, its error, the baseline, the other measures."""
        frame = self._by(RISK, rule).drop_vars("rule").to_dataframe()
        first = [RISK, "mcse", "baseline"]
        return frame[[*first, *(c for c in COLUMNS if c not in first), "n"]]

    def plot(
        self, ax: "Axes | None" = None, *, measure: str = RISK, rule: str = "pooled"
    ) -> "Axes":
        """A curve over numbers (a radius, m), bars over other settings; the baseline beside it.

        A second setting gives a curve for each of its values.
        """
        self._by(measure, rule)
        return draw("plot_sweep", self, measure=measure, rule=rule, ax=ax)

    def _by(self, measure: str, rule: str) -> xr.Dataset:
        """The dataset by one rule, which has the measure."""
        return self.checked(measure).sel(rule=one_of("rule", rule, ("pooled", "mean")))


def identification_sweep(
    original: pd.DataFrame,
    releases: Released | Replicates | pd.DataFrame | Sequence[pd.DataFrame],
    *,
    known: Sequence[str],
    synthesized: Sequence[str],
    over: Mapping[str, Any],
    **options: Any,
) -> IdentificationSweep:
    """Compute identification risk for every combination of settings.

    Parameters
    ----------
    original, releases, known, synthesized
        As for `identification_risk`.
    over : dict
        What to sweep; every combination is computed.

        - ``"radius"``: dict of column to a list of radii, one dimension for each column;
        - ``"known"``: how many of the known and synthesised columns together the intruder knows: an
          integer k for all subsets of 1 to k columns, or a list of lists; a `Population` is summed
          over the keys left out;
        - ``"m"``: list of numbers of releases, the first so many of them;
        - ``"strategy"``: list;
        - ``"targets"``, ``"population"``, ``"shape"``, ``"closed"``, ``"missing"``, ``"fallback"``:
          dict of label to value, or a list of values that label themselves.
    **options
        Further arguments of `identification_risk`, the same for all.

    Raises
    ------
    InputError
        A choice that changes nothing in any combination; what `identification_risk` refuses.

    Notes
    -----
    Costs one `identification_risk` for each combination. A choice that works in some combinations
    only (a strategy where one of the populations is None, an ellipse where one radius is left)
    stands in the others for the usual one.

    Examples
    --------
    >>> import pandas as pd
    >>> original = pd.DataFrame({"sex": list("ffmm"), "pay": [10.0, 20.0, 30.0, 40.0]})
    >>> released = original.assign(pay=[11.0, 23.0, 30.0, 90.0])
    >>> sweep = identification_sweep(
    ...     original, released, known=["sex"], synthesized=["pay"],
    ...     over={"radius": {"pay": [0.05, 0.2]}},
    ... )
    >>> sweep.dataset["expected_match_risk"].sel(rule="pooled").values.tolist()
    [2.5, 3.5]
    >>> sweep.worst()["radius of pay"]
    0.2
    """
    require_columns(original, (), "original")
    every = checked_keys(list(original.columns), known, synthesized)
    base = {**DEFAULTS, **options} | dict(zip(("known", "synthesized"), every, strict=True))
    base["releases"] = releases
    factors = ("radius", "known", "m", "strategy", *LABELLED)
    grid = SettingsGrid(sweep_axes([*every[0], *every[1]], checked_over(over, factors, options)))
    calls = [_call(base, grid.values(setting)) for setting in grid.settings]
    _settle_effects(calls)
    given = [(call.pop("releases"), MatchingOptions(**call)) for call in calls]
    found = [matched(original, tables, how)[0] for tables, how in given]
    if any(isinstance(one, MatchCounts) for one in found):
        raise InputError(f"{NOBODYS} A sweep compares right ones; ask identification_risk")
    rules, names = ["pooled", "mean"], [*COLUMNS, "mcse"]
    rows = [
        {
            str(name): column.to_numpy(float)
            for name, column in risk.summary().loc[rules, names].items()
        }
        | {"baseline": risk.baseline_expected_match_risk, "n": risk.n}
        for risk in found
    ]
    by_place = dict(zip(grid.places, rows, strict=True))
    return IdentificationSweep(dataset=grid.dataset(by_place, {"rule": rules}))
