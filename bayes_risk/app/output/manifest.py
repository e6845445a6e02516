"""How to do a run again: settings, seed, versions, hashes."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from bayes_risk.app.study.study import Study, model_files
from bayes_risk.release.provenance import DataFile, data_hash
from bayes_risk.reporting.provenance import versions

MANIFEST = "manifest.json"


def manifest(result: Any, command: str, written: Sequence[DataFile] = ()) -> dict[str, Any]:
    """How to do it again (seed, versions, files, settings, command), when, and how long it took.

    Parameters
    ----------
    result : of a run
    command : str
    written : sequence of DataFile
        Releases that the run wrote, besides the files that it read.

    Returns
    -------
    dict
    """
    read = () if result.provenance is None else result.provenance.files
    return {
        "command": command,
        "random_seed": result.random_seed,
        "data_sha256": result.data_sha256,
        "files": [asdict(file) for file in (*read, *written)],
        "model_sha256": {p.name: data_hash(p) for p in model_files(result.study.model)},
        "versions": versions(),
        "settings": infinities_as_text(settings(result.study)),
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


def infinities_as_text(value: Any) -> Any:
    """JSON has no infinity; a study file takes "inf" for one."""
    if isinstance(value, dict):
        return {k: infinities_as_text(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [infinities_as_text(v) for v in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value
