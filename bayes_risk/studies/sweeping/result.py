"""A sensitivity analysis: measures of risk labelled by what was varied."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import number, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RISK = "mean_probability"
# the error and the baseline that go with a measure, where there are any
BESIDE = {
    "mean_probability": ("mcse", "baseline"),
    "gain": ("mcse", None),
    "max_probability": ("max_mcse", "max_baseline"),
    "share_ranked_first": (None, "first_baseline"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sensitivity:
    """Attribute risk under many settings of what the intruder believes, knows and is told.

    Attributes
    ----------
    dataset : xarray.Dataset
        A dimension for each factor (``prior``, ``knows_records``, ``m``, ``hyper level_prior``,
        ...). Variables are the columns of `prior_comparison.comparison`, NaN at settings that were
        not computed; with hyper-parameters also ``hyper_khat`` (k-hat of the ratio of hyper-priors;
        NaN where no weights were tried) and ``hyper_refitted`` (1: the model was fitted anew).
    base : mapping of factor to label
        The setting around which factors were varied.
    """

    dataset: xr.Dataset
    base: Mapping[str, Any]

    @property
    def factors(self) -> list[str]:
        """What was varied."""
        return [str(name) for name in self.dataset.dims]

    def summary(self) -> pd.DataFrame:
        """One row a setting that was computed; columns are the variables of the dataset."""
        frame = self.dataset.to_dataframe(dim_order=self.factors)
        return frame[frame[RISK].notna()]

    def worst(self, measure: str = RISK) -> dict[str, Any]:
        """The setting at which a measure is largest, and its value there.

        Parameters
        ----------
        measure : str
            A variable of the dataset.

        Returns
        -------
        dict
            Label by factor, the measure, and where it has them its ``mcse`` and ``baseline``.

        Raises
        ------
        InputError
            An unknown measure; one that is NaN everywhere.
        """
        values = self._of(measure)
        if bool(values.isnull().all()):
            raise InputError(f"{measure!r} is NaN for every setting; choose another measure")
        at = {str(k): int(v) for k, v in values.argmax(...).items()}
        there = self.dataset.isel(at)
        found = {name: there[name].item() for name in self.factors}
        found[measure] = float(there[measure])
        for name, column in zip(("mcse", "baseline"), BESIDE.get(measure, ()), strict=False):
            if column is not None:
                found[name] = float(there[column])
        return found

    def along(self, factor: str) -> xr.Dataset:
        """The dataset along one factor, the others at their base.

        Raises
        ------
        InputError
            A factor that was not varied.
        """
        if factor not in self.factors:
            raise InputError(f"factor={factor!r} was not varied; give one of {self.factors}")
        return self.dataset.sel({n: v for n, v in self.base.items() if n != factor})

    def tornado(self, measure: str = RISK) -> pd.DataFrame:
        """How far each factor by itself moves a measure from the base setting, widest first.

        Parameters
        ----------
        measure : str
            A variable of the dataset.

        Returns
        -------
        DataFrame
            One row a factor: ``low`` and ``high`` of the measure, the values ``at_low`` and
            ``at_high`` of the factor that give them, the measure at the ``base``, ``range`` (high
            less low), and ``mcse`` of the larger of the two (NaN: the measure has none).

        Raises
        ------
        InputError
            An unknown measure.
        """
        self._of(measure)
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
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        InputError
            An unknown factor or measure.
        """
        from bayes_risk.reporting.plots import plot_factor, plot_tornado

        self._of(measure)
        if factor is None:
            return plot_tornado(self, measure=measure, ax=ax)
        return plot_factor(self, factor, measure=measure, ax=ax)

    def _row(self, factor: str, measure: str) -> dict[str, Any]:
        line = self.along(factor)
        values, labels = line[measure].to_numpy(), line[factor].to_numpy()
        low, high = int(np.nanargmin(values)), int(np.nanargmax(values))
        error = BESIDE.get(measure, (None, None))[0]
        return {
            "low": values[low],
            "high": values[high],
            "at_low": labels[low],
            "at_high": labels[high],
            "base": float(self.dataset[measure].sel(dict(self.base))),
            "range": values[high] - values[low],
            "mcse": float("nan") if error is None else float(line[error][[low, high]].max()),
        }

    def _of(self, measure: str) -> xr.DataArray:
        if measure not in self.dataset:
            raise InputError(f"measure={measure!r}; give one of {list(self.dataset)}")
        return self.dataset[measure]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{self.dataset.sizes[name]} of {name}" for name in self.factors)
        at = ", ".join(f"{name} = {label}" for name, label in self.base.items())
        base = self.dataset.sel(dict(self.base))
        risk, without = float(base[RISK]), float(base["baseline"])
        table = self.tornado().to_string(float_format=plain)
        return (
            f"Sensitivity: {sizes}\nThe intruder gives the truth {number(risk)} on average "
            f"({number(without)} without the release) at {at}.\nOne factor at a time:"
            f"\n\n{table}"
        )
