"""What a run is: two runs of which this is the same have the same results."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bayes_risk.app.output.manifest import infinities_as_text, settings
from bayes_risk.app.study.candidates import candidate_study
from bayes_risk.app.study.study import Study, model_files
from bayes_risk.release.provenance import data_hash
from bayes_risk.reporting.provenance import versions


def identity(study: Study, kind: str) -> dict[str, Any]:
    """Kind of run, settings, versions, and hashes of every file that the study names."""
    set_to = infinities_as_text(settings(study))
    set_to.get("output", {}).pop("folder", None)
    levels = {
        k: v if isinstance(v, str) else list(map(str, v)) for k, v in study.data.levels.items()
    }
    return {
        "run": kind,
        "settings": set_to,
        "declared levels sha256": hashlib.sha256(
            json.dumps(levels, default=str).encode()
        ).hexdigest(),
        "file": {str(path): {"sha256": data_hash(path)} for path in sorted(set(_files(study)))},
        "version": versions(),
    }


def _files(study: Study) -> Iterator[Path]:
    """Every file that is there; those that are not are told where they are read."""
    named = [*_paths(study.model_dump(exclude={"output"})), *model_files(study.model)]
    for name in study.compare.candidates if study.compare is not None else ():
        named += model_files(candidate_study(study, name).model)
    for path in named:
        if path.is_dir():
            yield from (p for p in path.rglob("*") if p.is_file())
        elif path.is_file():
            yield path


def _paths(value: Any) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _paths(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _paths(part)
