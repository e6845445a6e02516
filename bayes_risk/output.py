"""The output folder: complete or not there at all, and readable by its owner only."""

import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from bayes_risk import __version__
from bayes_risk._core.errors import InputError
from bayes_risk.identification.radii import as_setting
from bayes_risk.study.study import Study, model_files
from bayes_risk.variables import Number
from bayes_risk.verdict import known_for_certain

if TYPE_CHECKING:
    import xarray as xr

    from bayes_risk.identification.result import IdentificationRisk
    from bayes_risk.release import Release
    from bayes_risk.results import AttributeRisk
    from bayes_risk.run import ComparisonResult, StudyResult, SweepResult

MANIFEST = "manifest.json"
PACKAGES = (
    *("numpy", "pandas", "scipy", "numba", "xarray"),
    *("pymc", "arviz", "scikit-learn", "statsmodels"),
)


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Stop before any work if `folder` cannot become the output folder.

    Only a folder that an earlier run wrote (it holds a manifest) or an empty one is ever replaced.
    """
    if not folder.absolute().parent.is_dir():
        raise InputError(
            f"the output folder {folder} has no parent folder; create {folder.parent} first"
        )
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise InputError(f"output {str(folder)!r} exists and is not a folder; give another name")
    if not overwrite:
        raise InputError(
            f"the output folder {str(folder)!r} exists; give another name, or --overwrite to "
            f"replace it"
        )
    if any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise InputError(
            f"the folder {str(folder)!r} was not written by bayes-risk (it has no {MANIFEST}), so "
            f"it is not overwritten; give another name"
        )


@contextmanager
def output_folder(folder: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Give a hidden sibling folder to write in, and rename it to `folder` when all went well.

    Whatever goes wrong, Ctrl-C included, the hidden folder is removed and an older output is left
    (or put back) as it was.

    Parameters
    ----------
    folder : Path
        Where the output shall lie.
    overwrite : bool
        Replace an older output, once the new one is complete.

    Yields
    ------
    Path
        The folder to write in, with owner-only permissions.

    Raises
    ------
    InputError
        The folder exists (and may not be overwritten), or its parent does not.
    """
    folder = folder.absolute()
    check_target(folder, overwrite=overwrite)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.partial-", dir=folder.parent))
    try:
        yield partial
        for file in partial.iterdir():
            file.chmod(0o600)
        check_target(folder, overwrite=overwrite)  # it may have come to be meanwhile
        _swap(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _swap(partial: Path, folder: Path) -> None:
    """Put `partial` in the place of `folder`; put the old one back if that fails."""
    if not folder.exists():
        partial.rename(folder)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old-", dir=folder.parent))
    old = aside / folder.name
    try:
        folder.rename(old)
        partial.rename(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    finally:
        if folder.exists():
            shutil.rmtree(aside, ignore_errors=True)


def write_study(folder: Path, result: "StudyResult", *, command: str = "") -> None:
    """Write report.html, summary.json, records.csv, risk.nc and manifest.json.

    Of privacy loss, membership, full table and reweighting a table of records each; of utility a
    table of columns, pairs and estimates; the release if the study asks for it. Confidential values
    appear in ``risk.nc`` alone, and only if the study asks for them.
    """
    from bayes_risk.reporting import render_study
    from bayes_risk.reporting.further import further_records, utility_tables

    attribute, identification = result.attribute, result.identification
    (folder / "report.html").write_text(render_study(result, command=command), encoding="utf-8")
    write_json(folder / "summary.json", summary(result))
    if attribute is not None or identification is not None:
        table = records_table(attribute, identification)
        table.to_csv(folder / "records.csv", lineterminator="\n")
        confidential = result.study.output.confidential
        write_netcdf(folder / "risk.nc", attribute, identification, confidential=confidential)
    if result.utility is not None:
        utility_tables(result.utility).to_csv(
            folder / "utility.csv", index=False, lineterminator="\n"
        )
    for name, table in further_records(result).items():
        table.to_csv(folder / f"{name}.csv", index_label="record", lineterminator="\n")
    if result.study.output.release:
        write_release(folder, result.release)
    write_json(folder / MANIFEST, manifest(result, command))


def write_release(folder: Path, release: "Release") -> None:
    """Write the m synthetic files as synthetic-1.csv, synthetic-2.csv, ..."""
    for l, table in enumerate(release.datasets, start=1):
        label = str(table.index.name or "record")
        table.to_csv(folder / f"synthetic-{l}.csv", index_label=label, lineterminator="\n")


def summary(result: "StudyResult") -> dict[str, Any]:
    """File-level numbers, of what was measured.

    Keys ``study, attribute_risk, identification_risk, privacy_loss, membership, full_table,
    utility, reweighting, diagnostics``.
    """
    from bayes_risk.reporting.further import further_summaries

    verdict = result.verdict
    study = {
        "title": result.study.title,
        "random_seed": result.random_seed,
        "verdict": verdict.outcome,
        "reasons": [asdict(r) for r in verdict.reasons],
        "assumptions": verdict.assumptions,
        "thresholds": asdict(verdict.thresholds),
    }
    attribute, identification = result.attribute, result.identification
    return {
        "study": study,
        "attribute_risk": None if attribute is None else attribute_summary(attribute),
        "identification_risk": None
        if identification is None
        else identification_summary(identification),
        **further_summaries(result),
        "diagnostics": result.diagnostics,
    }


def attribute_summary(risk: "AttributeRisk") -> dict[str, Any]:
    """Sentence, assumptions, measures, closeness of each number, labels of the worst records."""
    return {
        "sentence": risk.sentence(),
        "assumptions": risk.assumptions,
        "measures": risk.summary(),
        "closeness": risk.closeness_summary(),
        "worst_records": [str(label) for label in risk.worst().index],
    }


def identification_summary(risk: "IdentificationRisk") -> dict[str, Any]:
    """Sentence, keys, measures by release, pooled and averaged, with error and baseline."""
    return {
        "sentence": risk.sentence(),
        "known": risk.known,
        "synthesized": risk.synthesized,
        "radius": {name: as_setting(r) for name, r in risk.radius.items()},
        "shape": risk.shape,
        "closed": risk.closed,
        "missing": risk.missing,
        "reason": risk.reason,
        "population": risk.population,
        "population_estimated": risk.estimated,
        "strategy": risk.strategy,
        "fallback": risk.fallback,
        "measures": risk.summary(),
        "baseline_expected_match_risk": risk.baseline_expected_match_risk,
        "expected_match_risk_mcse": risk.expected_match_risk_mcse.to_dict(),
    }


def manifest(
    result: "StudyResult | SweepResult | ComparisonResult", command: str
) -> dict[str, Any]:
    """How to do it again (seed, versions, data hash, settings, command), and how long it took."""
    return {
        "command": command,
        "random_seed": result.random_seed,
        "data_sha256": result.data_sha256,
        "model_sha256": {p.name: data_hash(p) for p in model_files(result.study.model)},
        "versions": versions(),
        "settings": _infinities_as_text(settings(result.study)),
        "seconds": result.seconds,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def settings(study: "Study") -> dict[str, Any]:
    """All settings, the defaults too; of declared levels only how many (their names are data)."""
    found = study.settings()
    found["data"]["levels"] = {
        name: levels if isinstance(levels, str) else len(levels)
        for name, levels in study.data.levels.items()
    }
    return found


def _infinities_as_text(value: Any) -> Any:
    """JSON has no infinity; a study file takes "inf" for one."""
    if isinstance(value, dict):
        return {k: _infinities_as_text(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_infinities_as_text(v) for v in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON in which numbers that do not exist (NaN, infinities) are null."""
    path.write_text(json.dumps(plain(content), indent=2, allow_nan=False) + "\n", encoding="utf-8")


def plain(value: Any) -> Any:
    """Turn tables, arrays, paths and mappings into what JSON knows."""
    if isinstance(value, pd.DataFrame):
        return {str(k): plain(row.to_dict()) for k, row in value.iterrows()}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray | pd.Index):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def records_table(
    attribute: "AttributeRisk | None", identification: "IdentificationRisk | None"
) -> pd.DataFrame:
    """Both risks of each record side by side; no confidential value.

    Columns: those of ``AttributeRisk.records`` with ``attribute_`` in front, ``attribute_certain``
    (variables of which no other value is possible), those of `closeness_columns`, then those of
    ``IdentificationRisk.records`` with ``identification_`` in front. Records that were no target of
    the attribute audit have empty fields there.
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
    joined.index.name = joined.index.name or "record"
    return joined[sorted(joined.columns, key=lambda c: not str(c).startswith("attribute_"))]


def closeness_columns(risk: "AttributeRisk") -> pd.DataFrame:
    """How close the intruder comes to each number, in figures that do not tell the number.

    A distance does: on a grid of percentages the expected distance without the release is a known
    share of the true value. So distances are given relative to that one (``distance_ratio``).

    Columns, each with the variable's name in front: ``distance_ratio``, ``mode_is_truth``,
    ``probability_of_truth``, ``region_size``, ``truth_in_region``, with their ``_mcse_bound`` and
    ``_prior`` as in `bayes_risk.closeness.closeness`.
    """
    kept = ("mode_is_truth", "probability_of_truth", "region_size", "truth_in_region")
    tables = [pd.DataFrame(index=risk.index)]
    for variable in risk.variables:
        if isinstance(variable, Number):
            found = risk.closeness(variable.name)
            chosen = found[[c for c in found.columns if c.startswith(kept)]]
            tables.append(distance_ratio(found).join(chosen).add_prefix(f"{variable.name}_"))
    return pd.concat(tables, axis=1)


def distance_ratio(found: pd.DataFrame) -> pd.DataFrame:
    """Expected distance from the true value, in units of the same without the release."""
    name = "expected_absolute_error"
    without = found[f"{name}_prior"].where(found[f"{name}_prior"] > 0)
    return pd.DataFrame(
        {
            "distance_ratio": found[name] / without,
            "distance_ratio_mcse_bound": found[f"{name}_mcse_bound"] / without,
        }
    )


def write_netcdf(
    path: Path,
    attribute: "AttributeRisk | None",
    identification: "IdentificationRisk | None",
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
        packed = {str(v): {"zlib": True} for v in data.data_vars if data[v].dtype.kind in "fiub"}
        mode: Literal["a", "w"] = "a" if number else "w"
        data.to_netcdf(path, mode=mode, group=name, engine="h5netcdf", encoding=packed)


def _arrays(risk: "AttributeRisk", *, confidential: bool) -> "xr.Dataset":
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


def data_hash(source: Path | pd.DataFrame) -> str:
    """SHA-256 of a file (as ``sha256sum`` gives it) or of a table that came from no file.

    Whoever knows every record but one can test guesses for that one against the hash, so the
    manifest stays with the agency.
    """
    if isinstance(source, pd.DataFrame):
        return hashlib.sha256(source.to_csv(lineterminator="\n").encode()).hexdigest()
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def versions() -> dict[str, str]:
    """Python's version and those of the packages that the numbers depend on."""
    found = {"bayes_risk": __version__, "python": python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
