"""What an audit leaves in its folder."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_risk.matching.radii import as_setting

from .arrays import write_netcdf
from .manifest import MANIFEST, manifest
from .numbers import write_csv, write_json
from .provenance import DataFile, synthetic_name, written_files
from .public import write_public
from .records import records_table

if TYPE_CHECKING:
    from bayes_risk.app.run import StudyResult
    from bayes_risk.matching.result import IdentificationRisk
    from bayes_risk.release.release import Release
    from bayes_risk.risk.result import AttributeRisk


def write_study(folder: Path, result: "StudyResult", *, command: str = "") -> None:
    """Write report.html, summary.json, records.csv, risk.nc and manifest.json.

    Of privacy loss, context measures, membership, full table and reweighting a table of records
    each; of utility a table of columns, pairs and estimates; of context measures and bounds a table
    of measures; the release and a redacted page if the study asks for them. Confidential values
    appear in ``risk.nc`` alone, and only if the study asks for them.
    """
    from bayes_risk.reporting.further import further_records, further_tables
    from bayes_risk.reporting.report import render_study

    attribute, identification = result.attribute, result.identification
    written: tuple[DataFile, ...] = ()
    if result.study.output.release:
        write_release(folder, result.release, labels=result.study.output.keep_labels)
        written = written_files(folder, result.release)
    record = manifest(result, command, written)
    page = render_study(result, command=command, record=record)
    (folder / "report.html").write_text(page, encoding="utf-8")
    write_json(folder / "summary.json", summary(result))
    if attribute is not None or identification is not None:
        table = records_table(attribute, identification)
        write_csv(folder / "records.csv", table)
        confidential = result.study.output.confidential
        write_netcdf(folder / "risk.nc", attribute, identification, confidential=confidential)
    for name, table in further_tables(result).items():
        write_csv(folder / f"{name}.csv", table, index=False)
    for name, table in further_records(result).items():
        write_csv(folder / f"{name}.csv", table, index_label="record")
    if result.study.output.redact:
        write_public(folder, result)
    write_json(folder / MANIFEST, record)


def write_release(folder: Path, release: "Release", *, labels: bool = False) -> None:
    """Write the m synthetic files as synthetic-1.csv, ..., whatever their text: they are data.

    Rows stand in the original's order. Record labels may identify people: they are left out unless
    they are asked for.
    """
    for l, table in enumerate(release.datasets, start=1):
        label = str(table.index.name or "record")
        path = folder / synthetic_name(l)
        table.to_csv(path, index=labels, index_label=label, lineterminator="\n")


def summary(result: "StudyResult") -> dict[str, Any]:
    """File-level numbers, of what was measured.

    Keys ``study, attribute_risk, identification_risk, mechanism, exposure, privacy_loss,
    membership, full_table, utility, context, bounds, reweighting, diagnostics``.
    """
    from bayes_risk.reporting.further import further_summaries

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
    """Sentence, assumptions, measures, closeness, labels of the worst records, risk by column."""
    return {
        "sentence": risk.sentence(),
        "assumptions": risk.assumptions,
        "measures": risk.summary(),
        "closeness": risk.closeness_summary(),
        "worst_records": [str(label) for label in risk.worst().index],
        "by_column": risk.by_column,
        "not_by_column": risk.not_by_column,
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
