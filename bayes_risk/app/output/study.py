"""What an audit, a sweep and a comparison leave in their folder, and the page of each."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from markupsafe import Markup

from bayes_risk._core import __version__
from bayes_risk.app.study.study import files_in
from bayes_risk.data.table import as_dates
from bayes_risk.data.variables import Number
from bayes_risk.matching.exposure_result import exposure_of
from bayes_risk.matching.result import Matched
from bayes_risk.release.provenance import DataFile, data_hash, synthetic_name, written_files
from bayes_risk.release.release import Release
from bayes_risk.reporting.content import page, replaced, template
from bayes_risk.reporting.provenance import origin, versions
from bayes_risk.reporting.redaction import redact
from bayes_risk.reporting.sections import parts_of
from bayes_risk.reporting.verdicts.reasons import known_for_certain
from bayes_risk.risk.result import AttributeRisk

from .folder import MANIFEST
from .numbers import write_csv, write_json

DPI = 150
DISTANCE = "expected_absolute_error"
HEADS = ["Result", "Measure", "Records", "With the release", "Without it"]


def write_page(
    folder: Path,
    result: Any,
    command: str,
    numbers: Mapping[str, Any] | None = None,
    *,
    tables: Mapping[str, pd.DataFrame],
    written: Sequence[DataFile] = (),
    **drawn: Any,
) -> None:
    """Write report.html, manifest.json, summary.json if there are numbers, and tables by name."""
    record = manifest_of(result, command, written)
    page_text = render_study(result, record=record, **drawn)
    (folder / "report.html").write_text(page_text, encoding="utf-8")
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", table)
    if numbers is not None:
        write_json(folder / "summary.json", numbers)
    write_json(folder / MANIFEST, record)


def write_study(folder: Path, result: Any, *, command: str = "") -> None:
    """Write report.html, summary.json, records.csv, risk.nc and manifest.json.

    Of the other results the tables that have a file; the release and a redacted page if the study
    asks for them. Confidential values appear in ``risk.nc`` alone, and only if the study asks.
    """
    risks, output = (result.attribute, result.identification), result.study.output
    written: tuple[DataFile, ...] = ()
    if output.release:
        days = result.study.data.days
        write_release(folder, result.release, labels=output.keep_labels, days=days)
        written = written_files(folder, result.release)
    parts = [part for part in (*risks, *parts_of(result).values()) if part is not None]
    found = [table for part in parts for table in part.tables().values()]
    tables = {table.file: table.frame for table in found if table.file}
    if any(risk is not None for risk in risks):
        tables["records"] = records_table(*risks)
    if result.notes is not None:  # the records at highest risk first
        by = {"by": tables["records"].columns[0], "ascending": False, "kind": "stable"}
        tables["records"] = tables["records"].sort_values(**by)
    elif "records" in tables:
        write_netcdf(folder / "risk.nc", *risks, confidential=output.confidential)
    if output.redact:
        write_public(folder, result)
    write_page(folder, result, command, summary(result), tables=tables, written=written)


def write_release(
    folder: Path, release: Release, *, labels: bool = False, days: Sequence[str] = ()
) -> None:
    """Write the m synthetic files as synthetic-1.csv, ..., whatever their text: they are data.

    Rows stand in the original's order. Record labels may identify people: they are left out unless
    they are asked for. Columns that were read as ``days`` have dates again.
    """
    for l, table in enumerate(release.datasets, start=1):
        label = str(table.index.name or "record")
        path = folder / synthetic_name(l)
        table = table.assign(**{name: as_dates(table[name]) for name in days if name in table})
        table.to_csv(path, index=labels, index_label=label, lineterminator="\n")


def summary(result: Any) -> dict[str, Any]:
    """File-level numbers, by the name of what was measured; ``study``, ``diagnostics``."""
    verdict = result.verdict
    study = {
        "title": result.study.title,
        "random_seed": result.random_seed,
        "verdict": verdict.outcome,
        "usefulness": verdict.usefulness,
        "reasons": [asdict(r) for r in verdict.reasons],
        "assumptions": verdict.assumptions,
        "thresholds": asdict(verdict.thresholds),
    }
    risks = {"attribute_risk": result.attribute, "identification_risk": result.identification}
    found: dict[str, Any] = {
        name: None if part is None else part.to_dict()
        for name, part in (risks | parts_of(result)).items()
    }
    if result.correspondence is not None:
        found["correspondence"] = result.correspondence.summary()
    if result.notes is not None:
        study["notes"] = result.notes
    for name, sentence in _said(result).items():
        found[name]["sentence"] = sentence
    return {"study": study, **found, "diagnostics": result.diagnostics}


def _said(result: Any) -> dict[str, str]:
    """Sentences of a study that say more than those of its results."""
    found, section = result.membership, result.study.membership
    if found is None or section is None or section.held_out is None:
        return {}
    return {
        "membership": f"{found.sentence()} Measured on a release of its own, made without the "
        f"{int((~found.member).sum()):,} records held out as people outside the data."
    }


def manifest_of(result: Any, command: str, written: Sequence[DataFile] = ()) -> dict[str, Any]:
    """How to do it again, when it was done, and how long it took.

    ``written``: releases that it wrote, besides the files it read.
    """
    read = () if result.provenance is None else result.provenance.files
    return {
        "command": command,
        "random_seed": result.random_seed,
        "data_sha256": result.data_sha256,
        "model_sha256": {p.name: data_hash(p) for p in files_in(result.study.model)},
        "files": [asdict(file) for file in (*read, *written)],
        "versions": versions(),
        "settings": result.study.settings(),
        "seconds": result.seconds,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def render_study(
    result: Any,
    *,
    command: str = "",
    record: Mapping[str, Any] | None = None,
    part: Any = None,
    **drawn: Any,
) -> str:
    """HTML of a run, with what it takes to do it again; ``record``: its manifest.

    ``part``: a sweep or a comparison, which judge no release.
    """
    record = manifest_of(result, command) if record is None else record
    own: dict[str, Any] = {}
    if part is None:
        own = {"said": _said(result), "replaced": replaced(result.release)}
    if result.provenance is not None:
        files, release = record["files"], getattr(result, "release", None)
        there = any(str(file["role"]).startswith("release") for file in files)
        own["origin"] = origin(
            result.provenance,
            files=files,
            finished=record["finished"],
            synthesised=() if release is None else release.synthesized,
            not_written=0 if there or release is None else release.m,
        )
    parts = [part]
    if part is None:
        named = parts_of(result) | {"correspondence": result.correspondence}
        parts = [result.attribute, result.identification, *named.values()]
    return page(
        parts,
        title=result.study.title,
        verdict=getattr(result, "verdict", None),
        diagnostics=result.diagnostics,
        reproduction={
            "command": record["command"],
            "seeds": [("Random seed", str(result.random_seed))],
            "versions": record["versions"],
            "settings": result.study.settings(),
        },
        **own,
        **drawn,
    )


def write_sweep(folder: Path, result: Any, *, command: str = "") -> None:
    """Write report.html, the pictures, summary.csv, tornado.csv and what programs read.

    That is sensitivity.nc, summary.json and manifest.json. No file holds a confidential value.
    """
    found = result.sensitivity
    text = {  # which is what NetCDF knows
        name: (name, found.dataset[name].to_numpy().astype(str))
        for name in map(str, found.dataset.dims)
        if found.dataset[name].dtype.kind not in "iuf"
    }
    _netcdf(folder / "sensitivity.nc", found.dataset.assign_coords(text))
    tables = {"summary": found.summary(), "tornado": found.tornado().rename_axis("factor")}
    drawn = {"tornado": found.plot(), "tornado-gain": found.plot(measure="gain")}
    for factor in found.factors:
        if found.dataset.sizes[factor] > 1:
            drawn["along-" + re.sub(r"[^A-Za-z0-9_]+", "-", factor)] = found.plot(factor)
    for name, axes in drawn.items():
        axes.figure.savefig(folder / f"{name}.png", dpi=DPI)
    numbers = {
        "study": {"title": result.study.title, "random_seed": result.random_seed},
        "base": found.base,
        "at_base": found.dataset.sel(dict(found.base)).to_pandas().to_dict(),
        "worst": found.worst(),
        "tornado": found.tornado(),
        "diagnostics": result.diagnostics,
    }
    write_page(folder, result, command, numbers, tables=tables, part=found)


def write_comparison(folder: Path, result: Any, *, command: str = "") -> None:
    """Write report.html, the map, tables, comparison.nc and manifest.json.

    Tables are comparison.csv, replicates.csv and front.csv. No file holds a confidential value.
    """
    found, section = result.comparison, result.study.compare
    axes = found.axes(section.risk, section.utility)
    bounds = found.bounds is not None and set(axes) <= set(found.bounds.columns)
    drawn = {"kind": section.kind, "bounds": bounds}
    found.plot(*axes, **drawn).figure.savefig(folder / "risk-utility-map.png", dpi=DPI)
    _netcdf(folder / "comparison.nc", found.dataset)
    tables = {
        "comparison": found.summary(),
        "replicates": found.replicates.join(found.seed_table.add_suffix("_seed")),
        "front": found.pareto(*axes),
    }
    write_page(folder, result, command, tables=tables, part=found, axes=axes, **drawn)


def _netcdf(path: Path, data: xr.Dataset, **how: Any) -> None:
    packed = {str(n): {"zlib": True} for n in data.data_vars if data[n].dtype.kind in "fiub"}
    data.to_netcdf(path, engine="h5netcdf", encoding=packed, **how)


def write_run(folder: Path, what: str, result: Any, command: str) -> None:
    """Write the folder of an audit, sweep or comparison."""
    writers = {"sweep": write_sweep, "compare": write_comparison}
    writers.get(what, write_study)(folder, result, command=command)


def write_netcdf(
    path: Path,
    attribute: AttributeRisk | None,
    identification: Matched | None,
    *,
    confidential: bool,
) -> None:
    """Write the arrays: groups ``attribute_risk``, ``identification_risk`` of one NetCDF file."""
    path.unlink(missing_ok=True)
    if attribute is not None:
        arrays = _arrays(attribute, confidential=confidential)
        _netcdf(path, arrays, mode="a", group="attribute_risk")
    if identification is not None:
        _netcdf(path, identification.dataset, mode="a", group="identification_risk")


def _arrays(risk: AttributeRisk, *, confidential: bool) -> xr.Dataset:
    """Arrays of a result; those over guesses only where their order says nothing of the truth.

    Where all targets share one grid, or a category's levels, the place of the truth is the truth.
    """
    found = risk.to_dataset(confidential=confidential)
    shared = (risk.guesses == risk.guesses[:, :1]).all(axis=1).any()
    if confidential or not (shared or np.ptp(risk.truth)):
        return found
    by_guess = [name for name, array in found.variables.items() if "guess" in array.dims]
    why = "arrays over guesses would tell the true values; [output] confidential = true keeps them"
    return found.drop_vars([*by_guess, "truth"]).assign_attrs(note=why)


def write_public(folder: Path, result: Any) -> None:
    """Write what `redact` leaves of an audit, without settings, seed, hash or labels."""
    names = ["attribute", "identification", "membership", "utility", "context", "bounds"]
    names += ["privacy_loss", "full_table", "reweighting"]
    parts = [part for name in names if (part := getattr(result, name)) is not None]
    found = redact(*parts, min_count=result.study.output.min_count)
    content = {
        "title": result.study.title,
        "rule": found.sentence(),
        "min_count": found.min_count,
        "numbers": found.table.to_dict("records"),
        "left_out": found.left_out,
        "bayes_risk": __version__,
    }
    write_json(folder / "public.json", content)
    with pd.option_context("display.max_colwidth", None):
        table = (
            found.summary().set_axis(HEADS, axis=1).to_html(index=False, border=0, justify="left")
        )
    text = template("public.html.j2").render(content, table=Markup(table))
    (folder / "public.html").write_text(text, encoding="utf-8")


# --- the table of records


def records_table(attribute: AttributeRisk | None, identification: Matched | None) -> pd.DataFrame:
    """Both risks of each record side by side; no confidential value.

    Columns: those of ``AttributeRisk.records`` with ``attribute_`` in front, ``attribute_certain``
    (variables of which no other value is possible), those of `closeness_columns`, then those of
    the matching's ``records`` with ``identification_`` in front; last ``identical_files``,
    ``identical_any_row_files`` and ``replicated_files`` of `Exposure.records`. Records that were no
    target of the attribute audit have empty fields there.
    """
    tables = []
    if identification is not None:
        tables.append(identification.records.add_prefix("identification_"))
    if attribute is not None:
        named = attribute.records.assign(certain=known_for_certain(attribute))
        both = pd.concat([named, closeness_columns(attribute)], axis=1)
        tables.append(both.add_prefix("attribute_"))
    # identification has all records, in their order; attribute columns come first all the same
    joined = tables[0] if len(tables) == 1 else tables[0].join(tables[1], how="left")
    shown = exposure_of(identification, attribute)
    if shown is not None:
        joined = joined.join(shown.records, how="left")
    joined.index.name = joined.index.name or "record"
    return joined[sorted(joined.columns, key=lambda c: not str(c).startswith("attribute_"))]


def closeness_columns(risk: AttributeRisk) -> pd.DataFrame:
    """How close the intruder comes to each number, in figures that do not tell the number.

    A distance does: on a grid of percentages the expected distance without the release is a known
    share of the true value. So distances are given relative to that one (``distance_ratio``).

    Columns, each with the variable's name in front: ``distance_ratio``, ``mode_is_truth``,
    ``probability_of_truth``, ``region_size``, ``truth_in_region``, with their ``_mcse_bound`` and
    ``_prior`` as in `bayes_risk.risk.closeness.closeness`.
    """
    kept = ("mode_is_truth", "probability_of_truth", "region_size", "truth_in_region")
    tables = [pd.DataFrame(index=risk.index)]
    for variable in risk.variables:
        if isinstance(variable, Number):
            found = risk.closeness(variable.name)
            chosen = found[[c for c in found.columns if c.startswith(kept)]]
            without = found[f"{DISTANCE}_prior"].where(found[f"{DISTANCE}_prior"] > 0)
            chosen.insert(0, "distance_ratio", found[DISTANCE] / without)
            error = found[f"{DISTANCE}_mcse_bound"] / without
            chosen.insert(1, "distance_ratio_mcse_bound", error)
            tables.append(chosen.add_prefix(f"{variable.name}_"))
    return pd.concat(tables, axis=1)
