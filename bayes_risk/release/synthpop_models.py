"""The file that the trees of a synthpop release are written to: JSON, gzipped or not."""

import gzip
import json
import zlib
from os import PathLike
from pathlib import Path

from bayes_risk._core.errors import InputError
from bayes_risk.data.kinds import checked_file
from bayes_risk.data.rpart_file import CURE, SynthpopModels


def read_models(source: str | PathLike[str]) -> SynthpopModels:
    """Read the models that ``syn(..., models = TRUE)`` keeps."""
    path = checked_file(source)
    if path.suffix.lower() in (".rds", ".rda", ".rdata"):
        raise InputError(f"{str(path)!r} is in a format of R alone; {CURE}")
    try:
        content = json.loads(_text(path))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, ValueError, RecursionError):
        raise InputError(f"{str(path)!r} holds no JSON, or not all of it; {CURE}") from None
    return SynthpopModels.of(content, repr(str(path)))


def _text(path: Path) -> str:
    with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
        return file.read().decode("utf-8-sig")
