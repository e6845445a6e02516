"""Which files of a folder are the m data sets of one synthesis, and in which order."""

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from bayes_risk._core.errors import InputError
from bayes_risk.data.kinds import SUFFIXES, checked_file
from bayes_risk.data.synthpop_info import PREFIX, SUFFIX, SynthesisInfo, read_info

WRITTEN = {"csv": ".csv", "tab": ".tab", "txt": ".txt", "Stata": ".dta"}
READ = (*SUFFIXES, ".tab", ".txt")
CURE = 'write.syn(..., filetype = "csv")'


def found_files(source: Any) -> tuple[list[Path], SynthesisInfo | None]:
    """The data files of a synthesis in their order, and what is stated about it."""
    if isinstance(source, Sequence) and not isinstance(source, str):
        if not source:
            raise InputError("source is empty; give a folder, or at least one file")
        return [_readable(checked_file(path)) for path in source], None
    if not isinstance(source, str | PathLike):
        raise InputError(f"source is a {type(source).__name__}; give a folder or a list of files")
    path = Path(source)
    if path.is_dir():
        return _in_folder(path)
    if _is_info(checked_file(path)):
        info = read_info(path)
        return _named_by(info, path.parent), info
    return [_readable(path)], None


def _in_folder(folder: Path) -> tuple[list[Path], SynthesisInfo | None]:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    infos = [path for path in files if _is_info(path)]
    if len(infos) > 1:
        raise InputError(
            f"{str(folder)!r} holds several syntheses ({', '.join(path.name for path in infos)}); "
            "give the path of one of these files"
        )
    if infos:
        info = read_info(infos[0])
        return _named_by(info, folder), info
    return _numbered(folder, files), None


def _named_by(info: SynthesisInfo, folder: Path) -> list[Path]:
    """The files of ``write.syn``: ``<name>.csv``, or ``<name>_1.csv`` to ``<name>_m.csv``."""
    if info.m is None or info.filetype is None:
        raise InputError(
            f"{PREFIX}{info.name}{SUFFIX} does not say how many files of which type there are; "
            "give a list of the data files"
        )
    if info.filetype not in WRITTEN:
        raise InputError(
            f"{info.name!r} was written as {info.filetype} files, which are not read; write it "
            f"again with {CURE}"
        )
    numbers = [""] if info.m == 1 else [f"_{l}" for l in range(1, info.m + 1)]
    return [checked_file(folder / f"{info.name}{n}{WRITTEN[info.filetype]}") for n in numbers]


def _numbered(folder: Path, files: Sequence[Path]) -> list[Path]:
    """The one set of files whose names differ by a number alone, 1 to m; or the only file."""
    readable = [path for path in files if _suffix(path)]
    sets: dict[tuple[str, str], dict[int, Path]] = {}
    for path in readable:
        suffix = _suffix(path)
        found = re.fullmatch(r"(.*?)(\d+)", path.name[: len(path.name) - len(suffix)])
        if found:
            sets.setdefault((found[1], suffix), {})[int(found[2])] = path
    sets = {name: numbers for name, numbers in sets.items() if 1 in numbers}
    if len(sets) > 1 or (not sets and len(readable) != 1):
        names = ", ".join(path.name for path in readable) or "none"
        raise InputError(
            f"{str(folder)!r} does not hold one set of files numbered from 1 (files that can be "
            f"read: {names}); give a list of the files, or write them with {CURE}"
        )
    if not sets:
        return readable
    ((prefix, suffix), numbers) = next(iter(sets.items()))
    for l in range(1, max(numbers) + 1):
        if l not in numbers:
            raise InputError(
                f"{str(folder)!r} has {prefix}{max(numbers)}{suffix} but no {prefix}{l}{suffix}; "
                "add it, or give a list of the files"
            )
    return [numbers[l] for l in sorted(numbers)]


def _is_info(path: Path) -> bool:
    return path.name.startswith(PREFIX) and path.name.endswith(SUFFIX)


def _suffix(path: Path) -> str:
    return next((suffix for suffix in READ if path.name.lower().endswith(suffix)), "")


def _readable(path: Path) -> Path:
    if not _suffix(path):
        raise InputError(
            f"{str(path)!r} is of no known kind; give files ending in {', '.join(READ)}, such as "
            f"{CURE} makes"
        )
    syntax = [path.with_suffix(end) for end in (".sps", ".sas") if path.suffix == ".txt"]
    if any(other.is_file() for other in syntax):
        raise InputError(
            f"{str(path)!r} is the data of an SPSS or SAS program, without names of columns; write "
            f"it again with {CURE}"
        )
    return path
