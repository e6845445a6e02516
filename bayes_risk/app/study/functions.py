"""Functions of Python files that a study names: a model of one's own, constraints of records.

A file is run, with all that it says and with the rights of whoever runs the study.
"""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from bayes_risk._core.errors import InputError

Function = Callable[..., Any]


def functions_in(
    functions: Sequence[tuple[Path, str]], *, key: str, section: str = "[model]"
) -> list[Function]:
    """Functions of Python files; each file is run once."""
    where = f"{section} {key}"
    modules = {path: _module(path, where) for path in dict.fromkeys(path for path, _ in functions)}
    found = []
    for path, name in functions:
        function = getattr(modules[path], name, None)
        if not callable(function):
            raise InputError(f"{where}: {str(path)!r} defines no function {name!r}")
        found.append(function)
    return found


def _module(path: Path, where: str) -> ModuleType:
    if not path.is_file():
        raise InputError(f"{where}: there is no file {str(path)!r}; check the path")
    module_name = f"_study_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{where}: {str(path)!r} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # worker processes look functions up by it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        # what code says of itself is told; what it says of values may be of records
        coded = isinstance(error, SyntaxError | ImportError | NameError)
        said = f": {error}" if coded else f" in line {_last_line(error, path)}"
        raise InputError(
            f"{where}: {str(path)!r} cannot be run: {type(error).__name__}{said}"
        ) from None
    return module


def _last_line(error: Exception, path: Path) -> int | str:
    """The last line of the file that took part in an error."""
    frames, own = extract_tb(error.__traceback__), path.absolute()
    lines = [f.lineno for f in frames if Path(f.filename).absolute() == own]
    return (lines[-1] if lines else None) or "?"


def guarded(function: Function, path: Path, *, key: str, section: str = "[model]") -> Function:
    """The same function of a table; whatever goes wrong in it is told in its name."""

    def told(table: Any) -> Any:
        try:
            return function(table)
        except Exception as error:  # its text may hold values of records, so its kind is told
            raise InputError(
                f"{section} {key}: line {_last_line(error, path)} of {path.name!r} fails with "
                f"{type(error).__name__}; it is given tables of any rows with the columns "
                f"{list(table.columns)}"
            ) from None

    return told
