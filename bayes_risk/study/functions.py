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
    """Functions of Python files; each file is run once.

    Parameters
    ----------
    functions : sequence of (path of a Python file, name of a function that it defines)
    key : str
        The key that names them, for messages.
    section : str
        The section that the key stands in.

    Returns
    -------
    list of callables

    Raises
    ------
    InputError
        A file that is missing or cannot be run; a name that it does not define.
    """
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
        raise InputError(
            f"{where}: {str(path)!r} cannot be run: {type(error).__name__}: {error}"
        ) from None
    return module


def guarded(function: Function, path: Path, *, key: str, section: str = "[model]") -> Function:
    """The same function of a table; whatever goes wrong in it is told in its name.

    Parameters
    ----------
    function : callable
    path : Path
        The file that defines it.
    key : str
        The key that names it.
    section : str
        The section that the key stands in.

    Returns
    -------
    callable
        Raises InputError where ``function`` raises anything.
    """

    def told(table: Any) -> Any:
        try:
            return function(table)
        except Exception as error:  # its text may hold values of records, so its kind is told
            lines = [
                frame.lineno
                for frame in extract_tb(error.__traceback__)
                if frame.filename == str(path)
            ]
            raise InputError(
                f"{section} {key}: line {lines[-1] if lines else '?'} of {path.name!r} fails with "
                f"{type(error).__name__}; it is given tables of any rows with the columns "
                f"{list(table.columns)}"
            ) from None

    return told
