"""Identification risk over many settings at once: radii, known columns, m, targets, strategies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import number, plain, two_errors

from .input import Released
from .replicates import Replicates
from .result import COLUMNS, IdentificationRisk
from .risk import matched
from .sweep_settings import axes_of, calls_of, checked_base

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

    def summary(self, rule: str = "pooled") -> pd.DataFrame:
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
        from bayes_risk.reporting.plots import plot_sweep

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
        error = "unknown" if np.isnan(worst["mcse"]) else two_errors(worst["mcse"], digits=1)
        return (
            f"IdentificationSweep: {sizes}\nlargest expected match risk {number(worst[RISK], 1)} ± "
            f"{error} (without the release {number(worst['baseline'], 1)}) at {settings}"
            f"\n\n{self.summary().to_string(max_rows=20, float_format=lambda v: plain(v))}"
        )


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

    Returns
    -------
    IdentificationSweep

    Raises
    ------
    InputError
        Nothing to sweep, an unknown name, an empty list, m above the number of releases, and
        whatever `identification_risk` refuses; a choice that changes nothing in any combination.

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
    base = checked_base(releases, known, synthesized, options, over)
    axes = axes_of(base, over)
    found = [matched(original, **call) for call in calls_of(base, axes)]
    shape = tuple(len(values) for values in axes.values())
    coords = {axis: [label for label, _ in values] for axis, values in axes.items()}
    return IdentificationSweep(dataset=_labelled(found, shape, coords))


def _labelled(
    found: Sequence[IdentificationRisk], shape: tuple[int, ...], coords: Mapping[str, list[Any]]
) -> xr.Dataset:
    dims = list(coords)
    tables = [risk.summary().loc[["pooled", "mean"], list(COLUMNS)] for risk in found]
    values = np.stack([t.to_numpy(float) for t in tables]).reshape(*shape, 2, len(COLUMNS))
    data: dict[str, Any] = {
        name: ([*dims, "rule"], values[..., c]) for c, name in enumerate(COLUMNS)
    }
    errors = [risk.expected_match_risk_mcse[["pooled", "mean"]].to_numpy() for risk in found]
    data["mcse"] = ([*dims, "rule"], np.stack(errors).reshape(*shape, 2))
    base = np.array([risk.baseline_expected_match_risk for risk in found])
    data["baseline"] = (dims, base.reshape(shape))
    data["n"] = (dims, np.array([risk.n for risk in found]).reshape(shape))
    return xr.Dataset(data, {**coords, "rule": ["pooled", "mean"]})
