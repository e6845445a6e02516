"""Identification risk over many settings at once: radii, known columns, m, targets, strategies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import at_least
from bayes_risk.identification.input import Released, listed
from bayes_risk.identification.result import COLUMNS, IdentificationRisk
from bayes_risk.identification.risk import identification_risk

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELLED = ("targets", "population", "shape", "closed", "missing", "fallback")
RISK = "expected_match_risk"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdentificationSweep:
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

    dataset: xr.Dataset

    @property
    def swept(self) -> list[str]:
        """What was swept."""
        return [str(name) for name in self.dataset.dims if name != "rule"]

    def worst(self, measure: str = RISK, rule: str = "pooled") -> dict[str, Any]:
        """The settings at which a measure is largest, and its value there.

        Parameters
        ----------
        measure : str
            A variable of the dataset.
        rule : {"pooled", "mean"}

        Returns
        -------
        dict
            Setting by name, the measure, and for the expected match risk ``mcse`` and ``baseline``.
            Of radii this is the maximising radius of Hornby & Hu (2021).

        Raises
        ------
        InputError
            An unknown measure or rule.
        """
        values = self._of(measure, rule)
        if bool(values.isnull().all()):
            raise InputError(f"{measure!r} is NaN for every setting; choose another measure")
        at = {str(k): int(v) for k, v in values.argmax(...).items()}
        there = self.dataset.sel(rule=rule).isel(at)
        found = {name: there[name].item() for name in self.swept}
        found[measure] = float(there[measure])
        if measure == RISK:
            found |= {name: float(there[name]) for name in ("mcse", "baseline")}
        return found

    def table(self, rule: str = "pooled") -> pd.DataFrame:
        """One row a setting: expected match risk, its error, the baseline, and the other measures.

        Raises
        ------
        InputError
            An unknown rule.
        """
        self._of(RISK, rule)
        frame = self.dataset.sel(rule=rule).drop_vars("rule").to_dataframe()
        first = [RISK, "mcse", "baseline"]
        return frame[[*first, *(c for c in COLUMNS if c not in first), "n"]]

    def plot(
        self, ax: "Axes | None" = None, *, measure: str = RISK, rule: str = "pooled"
    ) -> "Axes":
        """A curve over numbers (a radius, m), bars over other settings; the baseline beside it.

        A second setting gives a curve for each of its values.

        Raises
        ------
        InputError
            More than two things swept: select from ``dataset`` first.
        """
        from bayes_risk.identification.sweep_plots import plot_sweep

        self._of(measure, rule)
        return plot_sweep(self, measure=measure, rule=rule, ax=ax)

    def _of(self, measure: str, rule: str) -> xr.DataArray:
        if measure not in self.dataset:
            raise InputError(f"measure={measure!r}; give one of {list(self.dataset)}")
        if rule not in ("pooled", "mean"):
            raise InputError(f'rule={rule!r}; give "pooled" or "mean"')
        values = self.dataset[measure]
        return values.sel(rule=rule) if "rule" in values.dims else values

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(self.dataset[name])} of {name}" for name in self.swept)
        worst = self.worst()
        settings = ", ".join(f"{name} = {worst[name]}" for name in self.swept)
        error = "unknown" if np.isnan(worst["mcse"]) else f"{2 * worst['mcse']:,.1f}"
        return (
            f"IdentificationSweep: {sizes}\nlargest expected match risk {worst[RISK]:,.1f} ± "
            f"{error} (without the release {worst['baseline']:,.1f}) at {settings}"
            f"\n\n{self.table().to_string(max_rows=20, float_format=lambda v: f'{v:.4g}')}"
        )


def identification_sweep(
    original: pd.DataFrame,
    releases: Released | pd.DataFrame | Sequence[pd.DataFrame],
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
          integer k for all subsets of 1 to k columns, or a list of lists;
        - ``"m"``: list of numbers of releases, the first so many of them;
        - ``"strategy"``: list;
        - ``"targets"``, ``"population"``, ``"shape"``, ``"closed"``, ``"missing"``, ``"fallback"``:
          dict of label to value, or a list of values that label themselves.
    **options
        Further arguments of `identification_risk`, the same for all.

    Returns
    -------
    IdentificationSweep

    Raises
    ------
    InputError
        Nothing to sweep, an unknown name, an empty list, m above the number of releases, and
        whatever `identification_risk` refuses.

    Notes
    -----
    Costs one `identification_risk` for each combination.

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
    keys = [*_names("known", known), *_names("synthesized", synthesized)]
    axes = _axes(over, keys, options)
    _check_radius([*over.get("radius", {}), *(options.get("radius") or {})], keys)
    found = [
        _measured(original, releases, list(known), list(synthesized), options, dict(setting))
        for setting in product(*([(axis, v) for v in values] for axis, values in axes.items()))
    ]
    shape = tuple(len(values) for values in axes.values())
    coords = {axis: [label for label, _ in values] for axis, values in axes.items()}
    return IdentificationSweep(dataset=_labelled(found, shape, coords))


def _axes(
    over: Mapping[str, Any], keys: Sequence[str], options: Mapping[str, Any]
) -> dict[str, list[tuple[Any, Any]]]:
    """Label and value of every setting, by dimension."""
    if not isinstance(over, Mapping) or not over:
        raise InputError("over is empty; name what to sweep, e.g. over={'m': [1, 2, 5]}")
    axes: dict[str, list[tuple[Any, Any]]] = {}
    for name, values in over.items():
        if name in options:
            raise InputError(f"{name!r} stands in over and beside it; give it once")
        if name == "radius":
            for column, radii in _mapping("radius", values).items():
                axes[f"radius of {column}"] = [(_label(r), r) for r in _some(column, radii)]
        elif name == "known":
            subsets = _subsets(values, keys)
            axes[name] = [(", ".join(subset), subset) for subset in subsets]
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


def _names(what: str, names: Any) -> list[str]:
    if isinstance(names, str):
        raise InputError(f"{what}={names!r}; give a list of column names")
    return list(names)


def _check_radius(columns: Sequence[str], keys: Sequence[str]) -> None:
    for column in columns:
        if column not in keys:
            raise InputError(f"radius names {column!r}, which is no key ({list(keys)})")


def _mapping(name: str, values: Any) -> Mapping[str, Any]:
    if not isinstance(values, Mapping) or not values:
        raise InputError(f"over[{name!r}]={values!r}; give a dict of column to a list")
    return values


def _some(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
        raise InputError(f"over: {name!r} has {values!r}; give a list of at least one value")
    return list(values)


def _label(radius: Any) -> Any:
    return radius if isinstance(radius, int | float) else radius.in_words()


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


def _measured(
    original: pd.DataFrame,
    releases: Any,
    known: list[str],
    synthesized: list[str],
    options: Mapping[str, Any],
    setting: Mapping[str, tuple[Any, Any]],
) -> IdentificationRisk:
    """One combination of settings."""
    chosen = dict(options)
    radius = dict(chosen.pop("radius", None) or {})
    for axis, (_, value) in setting.items():
        if axis.startswith("radius of "):
            radius[axis.removeprefix("radius of ")] = value
        elif axis == "known":
            known, synthesized = ([c for c in keys if c in value] for keys in (known, synthesized))
        elif axis == "m":
            releases = _first_releases(releases, value)
        else:
            chosen[axis] = value
    radius = {name: r for name, r in radius.items() if name in [*known, *synthesized]}
    return identification_risk(
        original, releases, known=known, synthesized=synthesized, radius=radius or None, **chosen
    )


class _First(NamedTuple):
    """The first files of a release."""

    datasets: Sequence[pd.DataFrame]
    synthesized: Sequence[str]


def _first_releases(releases: Any, m: Any) -> Any:
    declared = not isinstance(releases, pd.DataFrame) and isinstance(releases, Released)
    tables = listed(releases.datasets if declared else releases)
    if isinstance(m, bool) or not isinstance(m, int | np.integer) or not 1 <= m <= len(tables):
        raise InputError(f"over: 'm' has {m!r}; give whole numbers from 1 to {len(tables)}")
    return _First(tables[:m], releases.synthesized) if declared else tables[:m]


def _labelled(
    found: Sequence[IdentificationRisk], shape: tuple[int, ...], coords: Mapping[str, list[Any]]
) -> xr.Dataset:
    dims = list(coords)
    tables = [risk.summary().loc[["pooled", "mean"]].to_numpy(float) for risk in found]
    values = np.stack(tables).reshape(*shape, 2, len(COLUMNS))
    data: dict[str, Any] = {
        name: ([*dims, "rule"], values[..., c]) for c, name in enumerate(COLUMNS)
    }
    errors = [risk.expected_match_risk_mcse[["pooled", "mean"]].to_numpy() for risk in found]
    data["mcse"] = ([*dims, "rule"], np.stack(errors).reshape(*shape, 2))
    base = np.array([risk.baseline_expected_match_risk for risk in found])
    data["baseline"] = (dims, base.reshape(shape))
    data["n"] = (dims, np.array([risk.n for risk in found]).reshape(shape))
    return xr.Dataset(data, {**coords, "rule": ["pooled", "mean"]})
