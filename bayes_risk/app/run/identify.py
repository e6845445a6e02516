"""Matching of files made elsewhere, of which nothing is known but their keys."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import bayes_risk as br
from bayes_risk._core.progress import Overall, Progress, no_progress
from bayes_risk.app.output import check_target, output_folder, write_run
from bayes_risk.app.study.declare import identified_rows, matching_options, provenance_of, read_data
from bayes_risk.app.study.study import Study, parse_study
from bayes_risk.data.variables import are_whole
from bayes_risk.release.synthpop import read_releases
from bayes_risk.reporting.verdicts.verdict import judge

from .audit import Clock, StudyResult, with_keys
from .runner import identity, unchanged


def study_of_files(
    original: Path, synthetic: Sequence[Path], given: Mapping[str, Any], reading: Iterable[str]
) -> Study:
    """The study that options of ``identify`` stand for."""
    keys = ("known", "synthesized", "radius", "fallback", "corresponds")
    wanted = {"true_match_rate": given["true_match_rate"], "public": given["public"]}
    content = {
        "title": "Identification risk of a released file",
        "random_seed": 0,
        "data": {
            "path": original,
            "levels": given["levels"],
            **{key: given[key] for key in reading},
            "columns": given["columns"] or None,
            "person": given["person"],
        },
        "release": {"files": synthetic, "columns": given["synthesized"] or given["known"]},
        "identification": {key: given[key] for key in keys} | {"closed": not given["open_ends"]},
        "thresholds": {key: value for key, value in wanted.items() if value not in (None, {})},
        "output": {"folder": given["output"]},
    }
    return parse_study(content)


def identify_files(
    study: Study, *, overwrite: bool = False, progress: Progress = no_progress, command: str = ""
) -> StudyResult:
    """Match the files of ``[release]``, judge the matches, and write the folder if one is named.

    The settings are those of a study, of which no model and no other section is read.
    """
    output, synthesized = study.output.folder, study.identification.synthesized
    stages = {"data": 2, "identification risk": 5} | ({"report": 2} if output else {})
    clock = Clock(tell=Overall(stages, progress))
    if output is not None:
        check_target(output, overwrite=overwrite)
    with clock("data"):
        begun = {} if output is None else identity(study, "identify")
        df, sha256 = read_data(study.data)
        tables = read_releases(study.release.files or [], df, **study.data.reading)
        provenance = provenance_of(study, df, sha256, {"": tables})
        unchanged(begun, study, "identify")
    with clock("identification risk"):
        options = matching_options(study, df, tables)
        found = identified_rows(df, tables, options)
    _warn_of_shares(df, options["radius"] or {})
    if tables and all({*df} < {*table} for table in tables):
        warnings.warn(
            "every synthetic file has the original's columns and others: if the files are "
            "exchanged, name the original first",
            stacklevel=1,
        )
    risk, rows = found["identification"], found["correspondence"]
    result = StudyResult(
        study=with_keys(study, release={"columns": synthesized or None}),
        random_seed=study.random_seed or 0,
        data_sha256=sha256,
        seconds=clock.seconds,
        provenance=provenance,
        release=br.Release(datasets=tables, synthesized=synthesized) if synthesized else None,
        **found,
        alone=True,
        verdict=judge(None, risk, study.thresholds.made(), rows=rows),
    )
    if output is not None:
        with output_folder(output, overwrite=overwrite) as folder:
            clock.tell("report", 0, 1)
            write_run(folder, result, command=command)
            clock.tell("report", 1, 1)
    return result


def _warn_of_shares(df: pd.DataFrame, radius: Mapping[str, Any]) -> None:
    """Warn of a radius of less than one unit of whole numbers: a share was meant, perhaps."""
    for name, rule in radius.items():
        units = getattr(rule, "units", 0)
        if 0 < units < 1 and are_whole(df[name]):
            warnings.warn(
                f"--radius {name}={units:g} reaches {units:g} units to either side, and {name} "
                f"holds whole numbers, so that it must be equal; for {100 * units:g} % write "
                f"{name}={100 * units:g}%",
                stacklevel=1,
            )
