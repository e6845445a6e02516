"""A study: one TOML file that says what is audited and how.

Paths in a study file count from the folder it lies in.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError, model_validator

from bayes_risk._core.errors import InputError

from .agreement import check_agreement
from .candidates import candidate_study, check_compare
from .contents import Contents, homes
from .keys import FunctionName, Section, sentences
from .models import ModelSection
from .sections import attribute_settings
from .sweep import CompareSection


class Study(Contents):
    """Everything one run does. Equal studies with a seed give equal numbers.

    title: heading of the report
    random_seed: same seed, data, settings and versions: same numbers; drawn and written into the
        manifest if left out
    """

    @model_validator(mode="after")
    def _sections_agree(self) -> "Study":
        check_agreement(self)
        check_compare(self)
        return self

    def with_output(self, folder: Path) -> "Study":
        """Return the same study with its results in another folder."""
        return self.model_copy(update={"output": self.output.model_copy(update={"folder": folder})})

    def settings(self) -> dict[str, Any]:
        """Every setting, defaults too, but those that have no meaning beside the others.

        Totals that the intruder knows are data and are checked against them: true says the same.
        """
        found = self.model_dump(mode="json")
        if self.attribute is not None and self.attribute.intruder is not None:
            found["attribute"] = attribute_settings(found["attribute"], self.attribute.intruder)
        if self.release.files is not None:
            del found["release"]["m"]
        for key in self.model.unused:
            del found["model"][key]
        return found


def read_study(path: Path | str) -> Study:
    """Read a study file; the paths in it count from the folder it lies in.

    Parameters
    ----------
    path : path of a TOML file

    Returns
    -------
    Study

    Raises
    ------
    InputError
        A file that is missing, no TOML, or above 2 MB; a key that is unknown, missing or does not
        fit: named with its section, and with the nearest known key.
    """
    path = Path(path)
    return from_folder(parse_study(read_toml(path), source=path.name), path.parent)


def parse_study(content: Mapping[str, Any], *, source: str = "study") -> Study:
    """Check the content of a study file (nested mappings) and make it a study."""
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{source}: {sentences(error, Study, content, '', homes)}") from None
    except RecursionError:
        raise too_deep(source) from None


def model_files(model: ModelSection) -> list[Path]:
    """Files that a model is made of: Python files, draws, rules, or trees."""
    return list(dict.fromkeys(path for _, value in model for path in _files(value)))


def _files(value: Any) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif isinstance(value, FunctionName):
        yield value.place[0]
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _files(part)


def from_folder(study: Study, base: Path) -> Study:
    """Return the same study, its paths counted from a folder."""
    update = {key: _moved(value, base) for key, value in study if key != "compare"}
    if study.compare is not None:
        update["compare"] = _compare(study, study.compare, base)
    return study.model_copy(update=update)


def _moved(value: Any, base: Path) -> Any:
    """What a key holds, its paths counted from a folder."""
    if isinstance(value, Path):
        return base / value
    if isinstance(value, FunctionName):
        return value.counted_from(base)
    if isinstance(value, list):
        return [_moved(part, base) for part in value]
    if isinstance(value, dict):
        return {label: _moved(part, base) for label, part in value.items()}
    if not isinstance(value, Section):
        return value
    moved = {name: _moved(part, base) for name, part in value}
    changed = {name: part for name, part in moved.items() if part != getattr(value, name)}
    return value.model_copy(update=changed)


def _compare(study: Study, section: CompareSection, base: Path) -> CompareSection:
    """The same candidates, the paths that they name counted from a folder."""
    found = {}
    for name, given in section.candidates.items():
        update: dict[str, Any] = {}
        if given.release is not None and "files" in given.release:
            files = [base / file for file in given.release["files"]]
            update["release"] = given.release | {"files": files}
        own = candidate_study(study, name).model
        if given.model is not None and (there := _moved(own, base)) != own:
            update["model"] = there.model_dump(exclude_unset=True) | {"kind": there.kind}
        found[name] = given.model_copy(update=update)
    return section.model_copy(update={"candidates": found})


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
