"""A sensitivity analysis: measures of risk labelled by what was varied."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import error, number, plain, signed
from bayes_risk.data.base_result import Result, Table, draw, spread

from .grid import measured, value_in_words, worst_setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RISK = "mean_probability"
FACTORS = {
    "prior": "prior",
    "knows_records": "records known",
    "knows_columns": "columns known",
    "guesses": "guesses",
    "classes": "classes, as believed",
    "parameters": "parameters, as believed",
    "evidence": "computed by",
    "m": "data sets (m)",
}
# the error and the baseline that go with a measure, where there are any
BESIDE = {
    "mean_probability": ("mcse", "baseline"),
    "gain": ("mcse", None),
    "max_probability": ("max_mcse", "max_baseline"),
    "share_ranked_first": (None, "first_baseline"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Sensitivity(Result):
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
        """
        beside = zip(("mcse", "baseline"), BESIDE.get(measure, ()), strict=False)
        found = {name: column for name, column in beside if column is not None}
        return worst_setting(self.dataset, measure, self.factors, found)

    def along(self, factor: str) -> xr.Dataset:
        """The dataset along one factor, the others at their base."""
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
        """
        measured(self.dataset, measure)
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
        """
        measured(self.dataset, measure)
        if factor is None:
            return draw("plot_tornado", self, measure=measure, ax=ax)
        return draw("plot_factor", self, factor, measure=measure, ax=ax)

    def sentence(self) -> str:
        """The risk of the base setting, and the setting of the largest mean."""
        return f"{self.base_sentence()} {self.worst_sentence()}"

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

    def doubt(self) -> str:
        """Settings with unreliable records, and the one that has most; empty: there are none."""
        table = self.summary()["unreliable"].reset_index()
        some = table[table["unreliable"] > 0]
        if some.empty:
            return ""
        worst = some.sort_values("unreliable", kind="stable").iloc[-1].to_dict()
        moved = [n for n in self.factors if n != "prior" and worst[n] != self.base[n]]
        where = "; ".join(f"{name_of(n)}: {value_in_words(n, worst[n])}" for n in moved)
        return (
            f"Records are marked unreliable at {len(some):,} of {len(table):,} settings, the most "
            f"({worst['unreliable']:,.0f} records) at {where or 'the base'}"
        )

    def screen(self) -> Table:
        """How far each factor by itself moves the risk, and the most that the release adds."""
        return Table(
            frame=self.tornado(),
            head="One factor at a time",
            labels=lambda name: name_of(str(name)),
            columns=[
                ("lowest", lambda row: number(row["low"])),
                ("at", lambda row: value_in_words(row["label"], row["at_low"])),
                ("highest", lambda row: number(row["high"])),
                ("at", lambda row: value_in_words(row["label"], row["at_high"])),
                ("adds at most", lambda row: signed(float(self.along(row["label"])["gain"].max()))),
            ],
        )

    def tables(self) -> dict[str, Table]:
        """How far each factor by itself moves the risk."""
        found = Table(
            frame=self.tornado(),
            head="Factor",
            caption=(
                "Probability of the truth, mean over records, in brackets the same without the "
                "release; one factor at a time, widest first."
            ),
            labels=lambda name: name_of(str(name)),
            columns=[
                ("Lowest", lambda row: self._end(row, "low")),
                ("At", lambda row: value_in_words(row["label"], row["at_low"])),
                ("Highest", lambda row: self._end(row, "high")),
                ("At", lambda row: value_in_words(row["label"], row["at_high"])),
                ("Error (2 s.e.)", spread("mcse", "low")),
            ],
        )
        return {"tornado": found}

    def _end(self, row: Mapping[str, Any], side: str) -> str:
        """The lowest or highest risk along a factor, beside what holds without the release."""
        name = row["label"]
        without = float(self.along(name)["baseline"].sel({name: row[f"at_{side}"]}))
        return f"{number(float(row[side]))} ({number(without)})"

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


def name_of(factor: str) -> str:
    """A factor for people."""
    if factor.startswith("hyper "):
        return f"model: {factor.removeprefix('hyper ')}"
    return FACTORS.get(factor, factor)
