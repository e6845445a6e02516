"""Compiled loops in tests: each is compiled once for all processes, and never taken stale.

Numba looks at the time of the file that a loop stands in alone. A loop holds the code of those it
calls, so what was compiled before one of *their* files changed is thrown away here; and a process
that needs a loop which another one is compiling waits for it instead of compiling it too.
"""

import ast
import functools
import re
from pathlib import Path

from filelock import FileLock
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

ROOT = Path(__file__).resolve().parents[2]


def compile_once() -> None:
    """Let processes wait for each other; the order is numba's own lock first, then the file's."""
    compile_here = Dispatcher.compile

    @functools.wraps(compile_here)
    def compile_or_wait(self, sig):
        folder = getattr(self._cache, "cache_path", None)
        if folder is None or not self._can_compile:
            return compile_here(self, sig)
        Path(folder).mkdir(parents=True, exist_ok=True)
        name = f"{self.py_func.__name__}-{self.py_func.__code__.co_firstlineno}.lock"
        with global_compiler_lock, FileLock(Path(folder, name)):
            return compile_here(self, sig)

    Dispatcher.compile = compile_or_wait


def forget_stale(root: Path = ROOT) -> list[Path]:
    """Remove what was compiled before a file that it took loops from was last changed."""
    files = (root / "bayes_risk").rglob("*.py")
    texts = {p.resolve(): p.read_text() for p in files}
    kernels = {p: text for p, text in texts.items() if "njit" in text}
    needs = {p: _kernels_of(p, text, kernels) for p, text in kernels.items()}
    stale = []
    for path in kernels:
        newest = max(p.stat().st_mtime for p in _reached(path, needs))
        for code in path.parent.glob(f"__pycache__/{path.stem}.*.nbc"):
            if code.exists() and code.stat().st_mtime < newest:
                loop = re.sub(r"\.\d+\.nbc$", "", code.name)
                stale += [p for p in code.parent.iterdir() if p.name.startswith(f"{loop}.")]
                for found in stale:
                    found.unlink(missing_ok=True)
    return stale


def _kernels_of(path: Path, text: str, kernels: dict[Path, str]) -> set[Path]:
    """Files with loops that a file imports from: modules are told by their last name."""
    names = {
        part
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for part in [*(node.module or "").split(".")[-1:], *(alias.name for alias in node.names)]
    }
    return {p for p in kernels if p != path and p.stem in names}


def _reached(path: Path, needs: dict[Path, set[Path]]) -> set[Path]:
    found, open_ = set(), {path}
    while open_:
        found |= open_
        open_ = set().union(*(needs[p] for p in open_)) - found
    return found
