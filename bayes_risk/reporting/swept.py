"""A sweep: its folder, and one screen of it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bayes_risk._core.formats import error, number, signed
from bayes_risk.app.output import MANIFEST, manifest, write_csv, write_json
from bayes_risk.studies.sweeping.settings import value_in_words

from .terminal import convergence, run_time

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from bayes_risk.app.run import SweepResult
    from bayes_risk.studies.sweeping.result import Sensitivity

DPI = 150
LEAST = 8  # characters of a label on a narrow screen
NUMBERS = 35  # characters of a line of the screen that hold numbers and the space between
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


def write_sweep(folder: Path, result: "SweepResult", *, command: str = "") -> None:
    """Write report.html, the pictures, summary.csv, tornado.csv and what programs read.

    That is sensitivity.nc, summary.json and manifest.json. No file holds a confidential value.
    """
    from .of_sweeps import of_sensitivity  # by this module's words
    from .report import render_varied

    found = result.sensitivity
    data = _stored(found.dataset)
    packed = {str(name): {"zlib": True} for name in data.data_vars}
    data.to_netcdf(folder / "sensitivity.nc", engine="h5netcdf", encoding=packed)
    write_csv(folder / "summary.csv", found.summary())
    write_csv(folder / "tornado.csv", found.tornado().rename_axis("factor"))
    drawn = {"tornado": found.plot(), "tornado-gain": found.plot(measure="gain")}
    for name, axes in (drawn | pictures(found)).items():
        cast("Figure", axes.figure).savefig(folder / f"{name}.png", dpi=DPI)
    write_json(folder / "summary.json", _summary(result))
    record = manifest(result, command)
    page = render_varied(result, found, of_sensitivity(found), record=record)
    (folder / "report.html").write_text(page, encoding="utf-8")
    write_json(folder / MANIFEST, record)


def pictures(found: "Sensitivity") -> dict[str, Any]:
    """A picture of each factor that has at least two values, by its name: ``along-prior``."""
    return {
        "along-" + re.sub(r"[^A-Za-z0-9_]+", "-", factor): found.plot(factor)
        for factor in found.factors
        if found.dataset.sizes[factor] > 1
    }


def _stored(dataset: "xr.Dataset") -> "xr.Dataset":
    """Labels as text or numbers, which is what NetCDF knows."""
    text = {
        name: np.array([str(label) for label in dataset[name].to_numpy()])
        for name in dataset.dims
        if dataset[name].dtype.kind not in "iuf"
    }
    return dataset.assign_coords({str(name): (name, labels) for name, labels in text.items()})


def _summary(result: "SweepResult") -> dict[str, Any]:
    found = result.sensitivity
    return {
        "study": {"title": result.study.title, "random_seed": result.random_seed},
        "base": found.base,
        "at_base": found.dataset.sel(dict(found.base)).to_pandas().to_dict(),
        "worst": found.worst(),
        "tornado": found.tornado(),
        "diagnostics": result.diagnostics,
    }


def print_sweep(result: "SweepResult", notes: Sequence[str], *, console: Console) -> None:
    """Print the base, how far each factor moves it, and where the risk is largest."""
    found = result.sensitivity
    console.print(Text(result.study.title, style="bold"), overflow="ellipsis", no_wrap=True)
    console.print(Text(base_sentence(found)))
    console.print(_tornado(found, console.width))
    console.print(Text(worst_sentence(found)))
    if doubt(found):
        console.print(Text(doubt(found), style="yellow"))
    for note in notes[:2]:
        console.print(Text(f"Note: {note}", style="yellow"), no_wrap=True, overflow="ellipsis")
    for words in convergence(result.diagnostics):
        console.print(f"Trust: {words}", highlight=False)
    console.print(run_time(result.seconds), highlight=False, no_wrap=True, overflow="ellipsis")
    if result.study.output.folder is not None:
        where = Path(result.study.output.folder) / "report.html"
        console.print(f"Report: {where}", highlight=False, markup=False, soft_wrap=True)


def base_sentence(found: "Sensitivity") -> str:
    """The risk of the study's own audit."""
    base = found.dataset.sel(dict(found.base))
    spread, without = error(float(base["mcse"]), _at(base, "mean")), number(float(base["baseline"]))
    return (
        f"The audit of the study: the intruder gives the truth {number(_at(base, 'mean'))} on "
        f"average{f' ({spread})' if spread != '0' else ''}, {without} without the release; "
        f"{number(_at(base, 'max'))} in the worst case."
    )


def _at(there: "xr.Dataset", which: str) -> float:
    return float(there[f"{which}_probability"])


def worst_sentence(found: "Sensitivity") -> str:
    """The setting of the largest mean, in so far as it differs from the base."""
    worst = found.worst()
    moved = [
        f"{name_of(name)}: {said(name, worst[name])}"
        for name in found.factors
        if worst[name] != found.base[name]
    ]
    where = "at the base" if not moved else f"at {'; '.join(moved)}"
    return (
        f"Largest mean: {number(worst['mean_probability'])} ({number(worst['baseline'])} without "
        f"the release), {where}."
    )


def name_of(factor: str) -> str:
    """A factor for people."""
    if factor.startswith("hyper "):
        return f"model: {factor.removeprefix('hyper ')}"
    return FACTORS.get(factor, factor)


def _tornado(found: "Sensitivity", width: int) -> Table:
    """One row a factor: mean probability of the truth at its ends, the most the release adds."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("One factor at a time", header_style="bold", no_wrap=True)
    for head in ("lowest", "at", "highest", "at", "adds at most"):
        justify: Literal["left", "right"] = "left" if head == "at" else "right"
        least = None if head == "at" else len(head)
        table.add_column(head, justify=justify, header_style="dim", no_wrap=True, min_width=least)
    names = {str(name): name_of(str(name)) for name in found.tornado().index}
    most = max((width - max(20, *map(len, names.values())) - NUMBERS) // 2, LEAST)
    for name, row in found.tornado().iterrows():
        low, high = (said(str(name), row[f"at_{side}"], most) for side in ("low", "high"))
        gain = signed(float(found.along(str(name))["gain"].max()))
        cells = (names[str(name)], number(row["low"]), low, number(row["high"]), high, gain)
        table.add_row(*(Text(cell) for cell in cells))
    return table


def doubt(found: "Sensitivity") -> str:
    """Settings with unreliable records, and the one that has most; empty: there are none."""
    table = found.summary()["unreliable"].reset_index()
    some = table[table["unreliable"] > 0]
    if some.empty:
        return ""
    worst = some.sort_values("unreliable", kind="stable").iloc[-1].to_dict()
    moved = [n for n in found.factors if n != "prior" and worst[n] != found.base[n]]
    where = "; ".join(f"{name_of(n)}: {said(n, worst[n])}" for n in moved) or "the base"
    return (
        f"Records are marked unreliable at {len(some):,} of {len(table):,} settings, the most "
        f"({worst['unreliable']:,.0f} records) at {where}; see summary.csv."
    )


def said(factor: str, value: object, most: int | None = None) -> str:
    """A value of a factor for people, cut off after ``most`` characters."""
    text = value_in_words(factor, value)
    if most is None or len(text) <= most:
        return text
    return f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"
