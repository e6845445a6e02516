"""The text of a study file as nested tables, at most so long and so deep."""

import tomllib
from pathlib import Path
from typing import Any

from bayes_risk._core.errors import InputError

MOST_BYTES = 2_000_000
MOST_STEPS = 1_000  # of a dotted key: reading one takes time in proportion to their square


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises
    ------
    InputError
        A file that is missing, no TOML, above 2 MB, or nested beyond reason.
    """
    try:
        _check_size(path, path.stat().st_size)
        text = path.read_text(encoding="utf-8")
        _check_keys(path, text)
        return tomllib.loads(text)
    except FileNotFoundError:
        raise InputError(f"there is no study file {str(path)!r}; check the path") from None
    except RecursionError:
        raise too_deep(str(path)) from None
    except InputError:
        raise
    except (OSError, ValueError) as error:  # of TOML, of UTF-8, of numbers with too many digits
        raise InputError(f"{path} is not a readable TOML file: {error}") from None


def too_deep(source: str) -> InputError:
    """Say that tables or lists stand in each other hundreds of times."""
    return InputError(f"{source} holds tables or lists nested too deep to be read; write them flat")


def _check_size(path: Path, size: int) -> None:
    if size > MOST_BYTES:
        raise InputError(
            f"{path} has {size:,} bytes, and a study file at most {MOST_BYTES:,}; data stand in "
            "files of their own, which it names"
        )


def _check_keys(path: Path, text: str) -> None:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.count(".") > MOST_STEPS and line.partition("=")[0].count(".") > MOST_STEPS:
            raise InputError(
                f"line {number} of {path} has a key of more than {MOST_STEPS:,} steps; write tables"
            )
