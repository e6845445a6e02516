"""What an audit, a sweep and a comparison leave in their folder, and the page of each."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core import __version__
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.release.provenance import DataFile, synthetic_name, written_files
from bayes_risk.release.release import Release
from bayes_risk.reporting.content import page, replaced
from bayes_risk.reporting.provenance import Origin, origin
from bayes_risk.reporting.redaction import Redacted, redact
from bayes_risk.reporting.sections import in_order, parts_of
from bayes_risk.risk.result import AttributeRisk
from bayes_risk.studies.measures import chosen

from .manifest import MANIFEST, manifest, settings
from .numbers import write_csv, write_json
from .records import records_table

DPI = 150
MAP = "risk-utility-map.png"
PARTS = (
    *("attribute", "identification", "membership", "utility", "context", "bounds"),
    *("privacy_loss", "full_table", "reweighting"),
)
STYLE = (
    "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "td,th{text-align:left;padding:.3em 1em .3em 0;border-bottom:1px solid #ccc}"
    "table{border-collapse:collapse}"
)
HEADS = {
    "result": "Result",
    "measure": "Measure",
    "records": "Records",
    "found": "With the release",
    "without": "Without it",
}


def write_study(folder: Path, result: Any, *, command: str = "") -> None:
    """Write report.html, summary.json, records.csv, risk.nc and manifest.json.

    Of the other results the tables that have a file: of privacy loss, context measures, membership,
    full table and reweighting the records, of utility, context measures and bounds the measures;
    the release and a redacted page if the study asks for them. Confidential values appear in
    ``risk.nc`` alone, and only if the study asks for them.
    """
    attribute, identification = result.attribute, result.identification
    written: tuple[DataFile, ...] = ()
    if result.study.output.release:
        write_release(folder, result.release, labels=result.study.output.keep_labels)
        written = written_files(folder, result.release)
    record = manifest(result, command, written)
    text = render_study(result, command=command, record=record)
    (folder / "report.html").write_text(text, encoding="utf-8")
    write_json(folder / "summary.json", summary(result))
    if attribute is not None or identification is not None:
        table = records_table(attribute, identification)
        write_csv(folder / "records.csv", table)
        confidential = result.study.output.confidential
        write_netcdf(folder / "risk.nc", attribute, identification, confidential=confidential)
    for part in parts_of(result).values():
        for table in part.tables().values() if part is not None else ():
            if table.file:
                write_csv(folder / f"{table.file}.csv", table.frame)
    if result.study.output.redact:
        write_public(folder, result)
    write_json(folder / MANIFEST, record)


def write_release(folder: Path, release: Release, *, labels: bool = False) -> None:
    """Write the m synthetic files as synthetic-1.csv, ..., whatever their text: they are data.

    Rows stand in the original's order. Record labels may identify people: they are left out unless
    they are asked for.
    """
    for l, table in enumerate(release.datasets, start=1):
        label = str(table.index.name or "record")
        path = folder / synthetic_name(l)
        table.to_csv(path, index=labels, index_label=label, lineterminator="\n")


def summary(result: Any) -> dict[str, Any]:
    """File-level numbers, of what was measured.

    Keys ``study, attribute_risk, identification_risk, mechanism, exposure, privacy_loss,
    membership, full_table, utility, bounds, context, reweighting, diagnostics``.
    """
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


def render_study(result: Any, *, command: str = "", record: Mapping[str, Any] | None = None) -> str:
    """HTML of a whole study, with what it takes to do it again; ``record``: its manifest."""
    record = manifest(result, command) if record is None else record
    return page(
        title=result.study.title,
        verdict=result.verdict,
        attribute=result.attribute,
        identification=result.identification,
        diagnostics=result.diagnostics,
        origin=_origin(result, record),
        replaced=replaced(result.release),
        others=in_order(parts_of(result).values()),
        said=_said(result),
        reproduction=_reproduction(result, record),
    )


def render_varied(result: Any, part: Any, record: Mapping[str, Any], **drawn: Any) -> str:
    """HTML of a sweep or a comparison, which judge no release; ``record``: its manifest."""
    return page(
        title=result.study.title,
        verdict=None,
        attribute=None,
        identification=None,
        diagnostics=getattr(result, "diagnostics", {}),
        origin=_origin(result, record),
        others=[part],
        reproduction=_reproduction(result, record),
        **drawn,
    )


def _reproduction(result: Any, record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "command": record["command"],
        "seeds": [("Random seed", str(result.random_seed))],
        "versions": record["versions"],
        "settings": settings(result.study),
    }


def _origin(result: Any, record: Mapping[str, Any]) -> Origin | None:
    if result.provenance is None:
        return None
    files, release = record["files"], getattr(result, "release", None)
    there = any(str(file["role"]).startswith("release") for file in files)
    return origin(
        result.provenance,
        files=files,
        finished=record["finished"],
        synthesised=() if release is None else release.synthesized,
        not_written=0 if there or release is None else release.m,
    )


def write_sweep(folder: Path, result: Any, *, command: str = "") -> None:
    """Write report.html, the pictures, summary.csv, tornado.csv and what programs read.

    That is sensitivity.nc, summary.json and manifest.json. No file holds a confidential value.
    """
    found = result.sensitivity
    _netcdf(folder / "sensitivity.nc", _stored(found.dataset))
    write_csv(folder / "summary.csv", found.summary())
    write_csv(folder / "tornado.csv", found.tornado().rename_axis("factor"))
    drawn = {"tornado": found.plot(), "tornado-gain": found.plot(measure="gain")}
    for name, axes in (drawn | pictures(found)).items():
        axes.figure.savefig(folder / f"{name}.png", dpi=DPI)
    at_base = found.dataset.sel(dict(found.base)).to_pandas().to_dict()
    numbers = {
        "study": {"title": result.study.title, "random_seed": result.random_seed},
        "base": found.base,
        "at_base": at_base,
        "worst": found.worst(),
        "tornado": found.tornado(),
        "diagnostics": result.diagnostics,
    }
    write_json(folder / "summary.json", numbers)
    record = manifest(result, command)
    text = render_varied(result, found, record)
    (folder / "report.html").write_text(text, encoding="utf-8")
    write_json(folder / MANIFEST, record)


def pictures(found: Any) -> dict[str, Any]:
    """A picture of each factor that has at least two values, by its name: ``along-prior``."""
    return {
        "along-" + re.sub(r"[^A-Za-z0-9_]+", "-", factor): found.plot(factor)
        for factor in found.factors
        if found.dataset.sizes[factor] > 1
    }


def _stored(dataset: xr.Dataset) -> xr.Dataset:
    """Labels as text or numbers, which is what NetCDF knows."""
    text = {
        name: np.array([str(label) for label in dataset[name].to_numpy()])
        for name in dataset.dims
        if dataset[name].dtype.kind not in "iuf"
    }
    return dataset.assign_coords({str(name): (name, labels) for name, labels in text.items()})


def write_comparison(folder: Path, result: Any, *, command: str = "") -> None:
    """Write report.html, the map, tables, comparison.nc and manifest.json.

    Tables are comparison.csv, replicates.csv and front.csv. No file holds a confidential value.
    """
    found, axes, drawn = result.comparison, axes_of(result), _drawing(result)
    write_csv(folder / "comparison.csv", found.summary())
    by_replicate = found.replicates.join(found.seed_table.add_suffix("_seed"))
    write_csv(folder / "replicates.csv", by_replicate)
    write_csv(folder / "front.csv", found.pareto(*axes))
    found.plot(*axes, **drawn).figure.savefig(folder / MAP, dpi=DPI)
    _netcdf(folder / "comparison.nc", found.dataset)
    record = manifest(result, command)
    text = render_varied(result, found, record, axes=axes, **drawn)
    (folder / "report.html").write_text(text, encoding="utf-8")
    write_json(folder / MANIFEST, record)


def axes_of(result: Any) -> tuple[str, str]:
    """The measures of the map."""
    section, measured = result.study.compare, result.comparison.measures
    return chosen("risk", section.risk, measured), chosen("utility", section.utility, measured)


def _drawing(result: Any) -> dict[str, Any]:
    """How the study asks for the map; the ends of the scale where they have such a risk."""
    ends = result.comparison.bounds
    bounds = ends is not None and set(axes_of(result)) <= set(ends.columns)
    return {"kind": result.study.compare.kind, "bounds": bounds}


def _netcdf(path: Path, data: xr.Dataset, **how: Any) -> None:
    packed = {str(n): {"zlib": True} for n in data.data_vars if data[n].dtype.kind in "fiub"}
    data.to_netcdf(path, engine="h5netcdf", encoding=packed, **how)


def write_netcdf(
    path: Path,
    attribute: AttributeRisk | None,
    identification: IdentificationRisk | None,
    *,
    confidential: bool,
) -> None:
    """Write the arrays: groups ``attribute_risk``, ``identification_risk`` of one NetCDF file."""
    groups = {}
    if attribute is not None:
        groups["attribute_risk"] = _arrays(attribute, confidential=confidential)
    if identification is not None:
        groups["identification_risk"] = identification.dataset
    for number, (name, data) in enumerate(groups.items()):
        _netcdf(path, data, mode="a" if number else "w", group=name)


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
    """Write what `redact` leaves of an audit, without settings, seed, hash or labels.

    Parameters
    ----------
    folder : Path
    result : StudyResult
    """
    parts = [part for name in PARTS if (part := getattr(result, name)) is not None]
    found = redact(*parts, min_count=result.study.output.min_count)
    title = result.study.title
    write_json(folder / "public.json", _content(title, found))
    (folder / "public.html").write_text(_page(title, found), encoding="utf-8")


def _content(title: str, found: Redacted) -> dict[str, object]:
    return {
        "title": title,
        "rule": found.sentence(),
        "min_count": found.min_count,
        "numbers": found.table.to_dict("records"),
        "left_out": found.left_out,
        "bayes_risk": __version__,
    }


def _page(title: str, found: Redacted) -> str:
    with pd.option_context("display.max_colwidth", None):
        table = found.summary().rename(columns=HEADS).to_html(index=False, border=0, justify="left")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n<p>{escape(found.sentence())}</p>\n{table}\n"
        f"<p>bayes_risk {__version__}</p>\n</body></html>\n"
    )
