"""The text of a study file: read as TOML, and the lines in which its keys stand."""

import re
import tomllib
from pathlib import Path
from typing import Any

from bayes_risk._core.errors import InputError

MOST_BYTES = 2_000_000
MOST_STEPS = 1_000  # of a dotted key: reading one takes time in proportion to their square


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; one that is missing, none, above 2 MB or nested too deep is refused."""
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise InputError(
                f"{path} has {size:,} bytes, and a study file at most {MOST_BYTES:,}; data stand "
                "in files of their own, which it names"
            )
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), start=1):
            if line.partition("=")[0].count(".") > MOST_STEPS:
                raise InputError(
                    f"line {number} of {path} has a key of more than {MOST_STEPS:,} steps; write "
                    "tables"
                )
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


KEY = re.compile(r"(?<![^ ])\[([\w.]+)\](?: has no key '([^']+)'| ([\w-]+))")


def with_lines(said: str, path: Path) -> str:
    """The lines of a study file in which the keys of a message stand, before their sections."""
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = file.read(MOST_BYTES).splitlines()

    def numbered(found: re.Match[str]) -> str:
        line = _line(lines, found[1], found[2] or found[3])
        return found[0] if line is None else f"line {line}: {found[0]}"

    return KEY.sub(numbered, said)


def _line(lines: list[str], section: str, key: str) -> int | None:
    """The first line that gives a key of a section, under its heading or in an inline table."""
    above = ""
    for number, line in enumerate(lines, start=1):
        if heading := re.match(r"\s*\[([^\[\]]+)\]\s*(#.*)?$", line):
            above = heading[1].strip()
            if above == f"{section}.{key}":
                return number
            continue
        name, _, value = line.partition("=")
        named = ".".join(filter(None, [above, name.strip().strip('"')]))
        inline = named == section and re.search(rf"[{{,]\s*{re.escape(key)}\s*=", value)
        if inline or named == f"{section}.{key}":
            return number
    return None
