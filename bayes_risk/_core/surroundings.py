"""Files of the current folder, which libraries must not read in a command.

Numba, Matplotlib and ArviZ look for configuration files where a command is given. That of Numba can
name a folder of pickles, which Numba would load. PyTensor compiles there, and the linker takes
libraries from there, which are then run.
"""

import os
import platform
import re
import shutil
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import chdir, suppress
from functools import partial
from glob import escape
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

# in the environment of a command and of its workers: where temporary files outlive it
OWN = "BAYES_RISK_OWN_PROCESS"
CACHE = "NUMBA_CACHE_DIR"
TEMPORARY = "br-"  # what folders among temporary files begin with
COMPILER = "pytensor.utils"
READERS = ("numba.core.config", "matplotlib", "arviz.rcparams", "arviz_base.rcparams", COMPILER)

Folder = tempfile.TemporaryDirectory[str]
_nowhere: Folder | None = None  # where libraries look for files of the current folder


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
    with chdir(nowhere()):
        execute(module)
    if hasattr(module, "_config_fname"):  # Numba reads it again whenever it compiles
        module._config_fname = os.devnull  # type: ignore[attr-defined]
    if module.__name__ == COMPILER:
        module.subprocess_Popen = partial(_elsewhere, module.subprocess_Popen)  # type: ignore[attr-defined]


def _elsewhere(start: Callable[..., Any], command: Any, **how: Any) -> Any:
    """Start a compiler where nobody has put anything."""
    return start(command, **{"cwd": nowhere(), **how})


def nowhere() -> str:
    """Name a private folder of this process in which there is nothing."""
    global _nowhere
    if _nowhere is None or not os.path.isdir(_nowhere.name):
        _nowhere = passing_folder(TEMPORARY)
    return _nowhere.name


def passing_folder(prefix: str, place: Path | None = None) -> Folder:
    """Make a private folder that goes with the process; those of killed processes go first."""
    where = Path(tempfile.gettempdir() if place is None else place)
    prefix = f"{prefix}{re.sub('[^A-Za-z0-9]', '', platform.node())}-"
    for left in where.glob(f"{escape(prefix)}*"):
        with suppress(ValueError, OSError):
            found, pid = left.lstat(), int(left.name.removeprefix(prefix).partition("-")[0])
            own = getattr(os, "getuid", int)()  # 0 is what Windows says of every file
            if stat.S_ISDIR(found.st_mode) and found.st_uid == own:
                import psutil  # only where something was left

                if not psutil.pid_exists(pid):
                    shutil.rmtree(left)
    return tempfile.TemporaryDirectory(
        prefix=f"{prefix}{os.getpid()}-", dir=where, ignore_cleanup_errors=True
    )


def read_nothing_here() -> None:
    """Let no library read a configuration file of the current folder; workers neither."""
    os.environ.setdefault(OWN, tempfile.gettempdir())
    warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing", FutureWarning)  # once a day
    if not any(isinstance(finder, _Aloof) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Aloof())


def numba_cache() -> Folder | None:
    """Let Numba keep functions in a folder of the user alone; one that is to go is returned."""
    given = os.environ.get(CACHE)
    if not given and os.access(Path(__file__).parents[1], os.W_OK):
        return None
    try:
        usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        place = Path(given or usual / "bayes-risk").absolute()
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.mkdir(mode=0o700, exist_ok=True)
        found, own = place.lstat(), getattr(os, "getuid", int)()  # 0 is what Windows says
        alone = stat.S_ISDIR(found.st_mode) and found.st_uid == own and not found.st_mode & 0o022
    except (OSError, RuntimeError):
        alone = False
    if not alone:
        passing = passing_folder(TEMPORARY)
        os.environ[CACHE] = passing.name
        return passing
    os.environ[CACHE] = str(place)
    return None
