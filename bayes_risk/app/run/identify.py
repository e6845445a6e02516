"""Matching of files made elsewhere: numbers, verdict, and a folder with all of it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.app.output.folder import check_target, output_folder
from bayes_risk.app.output.study import manifest, records_table, write_page
from bayes_risk.matching.correspondence import RowCorrespondence, correspondence
from bayes_risk.matching.input import release_tables
from bayes_risk.matching.radii import Absolute, as_setting
from bayes_risk.release.provenance import Provenance, data_file, describe, release_files
from bayes_risk.release.synthpop import files_of_releases, read_releases
from bayes_risk.reporting.content import page
from bayes_risk.reporting.provenance import origin
from bayes_risk.reporting.verdicts.verdict import Thresholds, Verdict, judge

TITLE = "Identification risk of a released file"
JUDGED = ("true_match_rate", "identical_records", "unique_values", "replicated_uniques")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdentifyResult:
    """What matching found; ``notes`` are for a reader, before the numbers."""

    risk: br.IdentificationRisk
    rows: RowCorrespondence
    verdict: Verdict
    notes: tuple[str, ...]
    provenance: Provenance


def run_identify(
    original: Path,
    synthetic: Sequence[Path],
    *,
    thresholds: Thresholds | None = None,
    reading: Mapping[str, Any] | None = None,
    levels: Mapping[str, str] | None = None,
    days: Sequence[str] = (),
    output: Path | None = None,
    overwrite: bool = False,
    command: str = "",
    **how: Any,
) -> IdentifyResult:
    """Match files made elsewhere against the original, judge, and write a folder if one is named.

    The released files may be folders of synthpop. ``reading`` has options of `read_table` that hold
    for the releases too, ``levels`` and ``days`` are of the original; ``how`` are ``known``,
    ``synthesized``, ``radius`` (a dict of `Radius`), ``closed`` and ``fallback`` of
    `identification_risk`. ``overwrite`` replaces the folder of an earlier run.
    """
    if output is not None:
        check_target(output, overwrite=overwrite)
    start, read, limits = time.perf_counter(), dict(reading or {}), thresholds or Thresholds()
    df = br.read_table(original, levels=levels or {}, days=days, **read)
    tables = read_releases(synthetic, df, **read)
    for l, table in enumerate(tables, start=1):
        if len(table) != len(df):
            raise InputError(
                f"release {l} has {len(table):,} records and the original {len(df):,}. Matching "
                "asks which released row is the target's, so a release must hold the original's "
                "records, one row each. Rows of a fully synthetic file are nobody's: ask instead "
                "who can be told to be in the data (membership), and which genuine records and "
                "values the file shows (exposure)"
            )
    risk = br.identification_risk(df, tables, **how)
    keys = {key: list(how[key]) for key in ("known", "synthesized")}
    rows = correspondence(df, release_tables(df, tables, **keys), keys["synthesized"])
    released = release_files(files_of_releases(synthetic), tables)
    result = IdentifyResult(
        risk=risk,
        rows=rows,
        verdict=judge(None, risk, limits, rows=rows),
        notes=tuple(  # a share was meant, perhaps
            f"--radius {name}={rule.units:g} reaches {rule.units:g} units to either side, and "
            f"{name} holds whole numbers, so that it must be equal; for {100 * rule.units:g} % "
            f"write {name}={100 * rule.units:g}%"
            for name, rule in (how.get("radius") or {}).items()
            if isinstance(rule, Absolute)
            and 0 < rule.units < 1
            and (df[name].dropna() % 1 == 0).all()
        ),
        provenance=Provenance(
            files=(data_file("data", original, df), *released), described=describe(df)
        ),
    )
    if output is not None:
        radius = {name: as_setting(rule) for name, rule in risk.radius.items()}
        judged = {name: getattr(limits, name) for name in JUDGED}
        own = {"radius": radius, **read, "levels": dict(levels or {}), "thresholds": judged}
        made = manifest(
            command,
            result.provenance.files,
            settings={**how, **keys, **own},
            seconds={"matching": time.perf_counter() - start},
        )
        with output_folder(output, overwrite=overwrite) as folder:
            _write(folder, result, made)
    return result


def _write(folder: Path, result: IdentifyResult, made: Mapping[str, Any]) -> None:
    verdict, exposure, settings = result.verdict, result.risk.exposure, made["settings"]
    text = page(
        [result.risk, exposure, result.rows],
        title=TITLE,
        verdict=verdict,
        diagnostics={},
        origin=origin(
            result.provenance,
            files=made["files"],
            finished=made["finished"],
            synthesised=settings["synthesized"],
        ),
        reproduction={"seeds": [], "versions": made["versions"], "command": made["command"]},
    )
    said = {
        "title": TITLE,
        "verdict": verdict.outcome,
        "reasons": [asdict(reason) for reason in verdict.reasons],
        "assumptions": verdict.assumptions,
        "thresholds": settings["thresholds"],
        "notes": result.notes,
    }
    numbers = {
        "study": said,
        "identification_risk": result.risk.to_dict(),
        "exposure": exposure and exposure.to_dict(),
        "correspondence": result.rows.summary(),
    }
    table = records_table(None, result.risk)
    highest = table.sort_values("identification_probability", ascending=False, kind="stable")
    write_page(folder, text, made, numbers, records=highest)
