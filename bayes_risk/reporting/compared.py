"""A comparison of candidates: its folder, and one screen of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bayes_risk._core.formats import NONE, PLUS_MINUS, error, number
from bayes_risk.app.output import MANIFEST, manifest, write_csv, write_json
from bayes_risk.studies.comparing.words import MEASURES, chosen

from .terminal import run_time

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from bayes_risk.app.run import ComparisonResult
    from bayes_risk.studies.comparing.result import Comparison

DPI = 150
MAP = "risk-utility-map.png"


def write_comparison(folder: Path, result: "ComparisonResult", *, command: str = "") -> None:
    """Write report.html, the map, tables, comparison.nc and manifest.json.

    Tables are comparison.csv, replicates.csv and front.csv. No file holds a confidential value.
    """
    from .of_sweeps import of_comparison
    from .report import render_varied

    found, (risk, utility) = result.comparison, axes_of(result)
    write_csv(folder / "comparison.csv", found.summary())
    by_replicate = found.replicates.join(found.seed_table.add_suffix("_seed"))
    write_csv(folder / "replicates.csv", by_replicate)
    write_csv(folder / "front.csv", found.pareto(risk, utility))
    axes = found.plot(risk, utility, **_drawing(result))
    cast("Figure", axes.figure).savefig(folder / MAP, dpi=DPI)
    data = found.dataset
    packed = {str(n): {"zlib": True} for n in data.data_vars if data[n].dtype.kind in "fiub"}
    data.to_netcdf(folder / "comparison.nc", engine="h5netcdf", encoding=packed)
    record = manifest(result, command)
    section = of_comparison(found, (risk, utility), **_drawing(result))
    page = render_varied(result, found, section, record=record)
    (folder / "report.html").write_text(page, encoding="utf-8")
    write_json(folder / MANIFEST, record)


def axes_of(result: "ComparisonResult") -> tuple[str, str]:
    """The measures of the map."""
    section, measured = result.study.compare, result.comparison.measures
    assert section is not None
    return chosen("risk", section.risk, measured), chosen("utility", section.utility, measured)


def _drawing(result: "ComparisonResult") -> dict[str, Any]:
    """How the study asks for the map; the ends of the scale where they have such a risk."""
    section, ends = result.study.compare, result.comparison.bounds
    assert section is not None
    bounds = ends is not None and set(axes_of(result)) <= set(ends.columns)
    return {"kind": section.kind, "bounds": bounds}


def print_comparison(result: "ComparisonResult", notes: Sequence[str], *, console: Console) -> None:
    """Print a line per candidate, who is on the front, and where the map is."""
    found, of = result.comparison, axes_of(result)
    console.print(Text(result.study.title, style="bold"), overflow="ellipsis", no_wrap=True)
    console.print(table_of(found, *of))
    for role, name in zip(("Risk", "Utility"), of, strict=True):
        measure = MEASURES[name]
        better = "less" if measure.lower else "more"
        console.print(Text(f"{role}: {measure.words} ({better} is better)", style="dim"))
    console.print(Text(found.sentence(*of)))
    if found.doubt():
        console.print(Text(f"{found.doubt()} See replicates.csv.", style="yellow"))
    for note in [note for note in notes if "unreliable" not in note][:2]:
        console.print(Text(f"Note: {note}", style="yellow"), no_wrap=True, overflow="ellipsis")
    console.print(run_time(result.seconds), highlight=False, no_wrap=True, overflow="ellipsis")
    if result.study.output.folder is not None:
        where = Path(result.study.output.folder) / "report.html"
        console.print(f"Report: {where}", highlight=False, markup=False, soft_wrap=True)


def table_of(found: "Comparison", risk: str, utility: str) -> Table:
    """One row a candidate: risk and utility with two standard errors, baseline, front."""
    replicates = max(found.replicates_of)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    head = f"{replicates} replicates" if replicates > 1 else "Candidate"
    table.add_column(head, header_style="bold", overflow="ellipsis", no_wrap=True, min_width=10)
    for head in (f"risk {PLUS_MINUS} 2 s.e.", "without", f"utility {PLUS_MINUS} 2 s.e.", "front"):
        table.add_column(head, justify="right", header_style="dim", no_wrap=True)
    baseline = found.summary()["baseline"]
    for name, row in found.pareto(risk, utility).iterrows():
        cells = (
            with_error(row["risk"], row["risk_mcse"]),
            with_error(float(baseline.loc[(str(name), risk)]), 0.0),
            with_error(row["utility"], row["utility_mcse"]),
            placed(row),
        )
        table.add_row(Text(str(name)), *(Text(cell) for cell in cells))
    return table


def placed(row: "pd.Series") -> str:
    """Whether a candidate is on the front, and how sure that is."""
    word = "yes" if row["on_front"] else "no"
    if np.isnan(row["probability"]):
        return f"{word} (?)"
    return f"{word} ({number(100 * row['probability'], 0)} %)" if row["in_doubt"] else word


def with_error(value: float, mcse: float) -> str:
    """A number, and two standard errors beside it where there are any."""
    spread = error(float(mcse), float(value))
    return number(float(value)) + ("" if spread in ("0", NONE) else f" {spread}")
