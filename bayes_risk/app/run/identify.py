"""Matching of files made elsewhere: numbers, verdict, and a folder with all of it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.app.output import (
    MANIFEST,
    check_target,
    output_folder,
    records_table,
    versions,
    write_csv,
    write_json,
)
from bayes_risk.data.table import read_table
from bayes_risk.matching.correspondence import RowCorrespondence, correspondence
from bayes_risk.matching.input import release_tables
from bayes_risk.matching.radii import Absolute, Radius, as_setting
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.matching.risk import identification_risk
from bayes_risk.release.provenance import Provenance, data_file, describe, release_files
from bayes_risk.release.releases import files_of_releases, read_releases
from bayes_risk.reporting.content import page
from bayes_risk.reporting.provenance import origin
from bayes_risk.reporting.sections import in_order
from bayes_risk.reporting.verdicts.verdict import Thresholds, Verdict, judge

TITLE = "Identification risk of a released file"
JUDGED = ("true_match_rate", "identical_records", "unique_values", "replicated_uniques")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdentifyResult:
    """What matching found.

    Attributes
    ----------
    risk : IdentificationRisk
    rows : RowCorrespondence
    verdict : Verdict
    notes : tuple of str
        What a reader has to know before the numbers.
    provenance : Provenance
        Which files were read, and what the data hold.
    """

    risk: IdentificationRisk
    rows: RowCorrespondence
    verdict: Verdict
    notes: tuple[str, ...]
    provenance: Provenance


def run_identify(
    original: Path,
    synthetic: Sequence[Path],
    *,
    known: Sequence[str],
    synthesized: Sequence[str],
    radius: Mapping[str, Radius],
    closed: bool = True,
    fallback: bool = True,
    levels: Mapping[str, str] | None = None,
    reading: Mapping[str, Any] | None = None,
    thresholds: Thresholds | None = None,
    output: Path | None = None,
    overwrite: bool = False,
    command: str = "",
) -> IdentifyResult:
    """Match files made elsewhere against the original, judge, and write a folder if one is named.

    Parameters
    ----------
    original : Path
        The confidential file.
    synthetic : list of Path
        The released files, or folders of synthpop.
    known, synthesized : list of str
        Keys, as for `identification_risk`.
    radius : dict of str to Radius
    closed, fallback : bool
    levels : dict of str to {"labels", "codes"}, optional
        What value labels become.
    reading : mapping, optional
        ``index``, ``missing``, ``na`` of `read_table`.
    thresholds : Thresholds, optional
        What the verdict compares with: ``true_match_rate``, and those of `exposure`.
    output : Path, optional
        The folder for report.html, records.csv (records at highest risk first), summary.json and
        manifest.json.
    overwrite : bool
        Replace the folder of an earlier run.
    command : str
        How it was started.

    Returns
    -------
    IdentifyResult

    Raises
    ------
    InputError
        Files or keys that do not fit; an output folder that exists.
    """
    if output is not None:
        check_target(output, overwrite=overwrite)
    start, how = time.perf_counter(), dict(reading or {})
    df = read_table(original, levels=levels or {}, **how)
    tables = read_releases(synthetic, df, **how)
    _check_sizes(df, tables)
    keys: dict[str, Any] = {"known": list(known), "synthesized": list(synthesized)}
    choices: dict[str, Any] = {"radius": dict(radius), "closed": closed, "fallback": fallback}
    risk = identification_risk(df, tables, **keys, **choices)
    rows = correspondence(df, release_tables(df, tables, **keys), keys["synthesized"])
    limits = thresholds or Thresholds()
    result = IdentifyResult(
        risk=risk,
        rows=rows,
        verdict=judge(None, risk, limits, rows=rows, where="command line"),
        notes=tuple(_narrow(df, radius)),
        provenance=Provenance(
            files=(
                data_file("data", original, df),
                *release_files(files_of_releases(synthetic), tables),
            ),
            described=describe(df),
        ),
    )
    if output is not None:
        made = {
            "command": command,
            "files": [asdict(file) for file in result.provenance.files],
            "versions": versions(),
            "settings": {
                **keys,
                "radius": {name: as_setting(rule) for name, rule in risk.radius.items()},
                "closed": closed,
                "fallback": fallback,
                **how,
                "levels": dict(levels or {}),
                "thresholds": _judged(limits),
            },
            "seconds": {"matching": time.perf_counter() - start},
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        with output_folder(output, overwrite=overwrite) as folder:
            _write(folder, result, made)
    return result


def _write(folder: Path, result: IdentifyResult, made: Mapping[str, Any]) -> None:
    text = page(
        title=TITLE,
        verdict=result.verdict,
        attribute=None,
        identification=result.risk,
        diagnostics={},
        origin=origin(
            result.provenance,
            files=made["files"],
            finished=made["finished"],
            synthesised=made["settings"]["synthesized"],
        ),
        others=in_order([result.risk.exposure, result.rows]),
        reproduction={"seeds": [], "versions": made["versions"], "command": made["command"]},
    )
    (folder / "report.html").write_text(text, encoding="utf-8")
    write_json(folder / "summary.json", summary(result))
    table = records_table(None, result.risk)
    highest = table.sort_values("identification_probability", ascending=False, kind="stable")
    write_csv(folder / "records.csv", highest)
    write_json(folder / MANIFEST, made)


def summary(result: IdentifyResult) -> dict[str, Any]:
    """File-level numbers: verdict and its reasons, notes, matches, correspondence of rows."""
    verdict = result.verdict
    return {
        "study": {
            "title": TITLE,
            "verdict": verdict.outcome,
            "reasons": [asdict(reason) for reason in verdict.reasons],
            "assumptions": verdict.assumptions,
            "thresholds": _judged(verdict.thresholds),
            "notes": result.notes,
        },
        "identification_risk": result.risk.to_dict(),
        "exposure": result.risk.exposure and result.risk.exposure.to_dict(),
        "correspondence": result.rows.summary(),
    }


def _judged(limits: Thresholds) -> dict[str, float]:
    return {name: getattr(limits, name) for name in JUDGED}


def _check_sizes(df: pd.DataFrame, tables: Sequence[pd.DataFrame]) -> None:
    for l, table in enumerate(tables, start=1):
        if len(table) != len(df):
            raise InputError(
                f"release {l} has {len(table):,} records and the original {len(df):,}. Matching "
                "asks which released row is the target's, so a release must hold the original's "
                "records, one row each. Rows of a fully synthetic file are nobody's: ask instead "
                "who can be told to be in the data (membership), and which genuine records and "
                "values the file shows (exposure)"
            )


def _narrow(df: pd.DataFrame, radius: Mapping[str, Radius]) -> list[str]:
    """Radii below 1 of whole numbers, which reach nothing: a share was meant, perhaps."""
    return [
        f"--radius {name}={rule.units:g} reaches {rule.units:g} units to either side, and {name} "
        f"holds whole numbers, so that it must be equal; for {100 * rule.units:g} % write "
        f"{name}={100 * rule.units:g}%"
        for name, rule in radius.items()
        if isinstance(rule, Absolute) and 0 < rule.units < 1 and (df[name].dropna() % 1 == 0).all()
    ]
