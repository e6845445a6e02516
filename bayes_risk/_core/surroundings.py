"""Configuration files of the current folder, which libraries must not read in a command.

Numba, Matplotlib and ArviZ look for such files where a command is given. That of Numba can name a
folder of pickles, which Numba would load.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import chdir
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import InputError

OWN = "BAYES_RISK_OWN_PROCESS"  # in the environment of a command and of its workers
CACHE = "NUMBA_CACHE_DIR"
READERS = ("numba.core.config", "matplotlib", "arviz.rcparams", "arviz_base.rcparams")


class _Aloof(MetaPathFinder):
    """Imports the modules that read the current folder in an empty one."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The usual module, its loader made to run elsewhere."""
        found = PathFinder.find_spec(name, path, target) if name in READERS else None
        if found is not None and found.loader is not None:
            loader: Any = found.loader
            loader.exec_module = partial(_executed, loader.exec_module)
        return found


def _executed(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as empty, chdir(empty):
        execute(module)
    if hasattr(module, "_config_fname"):  # Numba reads it again whenever it compiles
        module._config_fname = os.devnull  # type: ignore[attr-defined]


def read_nothing_here() -> None:
    """Let no library read a configuration file of the current folder; workers neither."""
    os.environ[OWN] = "1"
    if not any(isinstance(finder, _Aloof) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Aloof())


def numba_cache() -> tempfile.TemporaryDirectory[str] | None:
    """Let Numba keep compiled functions in a folder that the user alone can write.

    That is the package's own where it can be written, or the user's cache; where there is neither,
    a folder that goes with the process, which is returned. A folder that the user has chosen stays.
    """
    if CACHE in os.environ or os.access(Path(__file__).parents[1], os.W_OK):
        return None
    from .checkpoint import private_folder  # which imports NumPy

    try:
        usual = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        place = Path(usual).absolute() / "bayes-risk"
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_folder(place, "the cache of compiled functions")
    except (OSError, RuntimeError, InputError):
        passing = tempfile.TemporaryDirectory(prefix="br-", ignore_cleanup_errors=True)
        os.environ[CACHE] = passing.name
        return passing
    os.environ[CACHE] = str(place)
    return None
