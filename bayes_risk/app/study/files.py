"""Files that a run reads besides those that its study names."""

import ast
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from bayes_risk._core.errors import InputError
from bayes_risk.data.kept import RESULT
from bayes_risk.data.kinds import checked_file
from bayes_risk.data.statistical import catalog_of
from bayes_risk.release.synthpop import PREFIX, SUFFIX, found_files


def files_behind(path: Path) -> Iterator[Path]:
    """A file that a study names, and every file that is read with it.

    These are the data sets of a synthesis, the catalog of a SAS file, what an earlier run kept in
    its folder, and the modules that a Python file imports and that belong to no installed package.
    What is not there is refused when it is read.
    """
    found: list[Path] = []
    with suppress(InputError, OSError):
        if path.suffix == ".py":
            found = [*_imported(checked_file(path))]
        elif (kept := path / RESULT).is_file():
            found = [kept]
        elif path.is_dir() or path.suffix in (".txt", ".tab"):
            found = found_files(path)[0]
            found += [*path.glob(f"{PREFIX}*{SUFFIX}")]
    for file in (path, *found):
        catalog = catalog_of(file)
        yield from (file, *([catalog] if catalog else []))


def _imported(file: Path) -> Iterator[Path]:
    """Files of the modules that Python code imports, those of installed packages left out."""
    seen, left = {file}, [file]
    while left:
        try:
            nodes = [*ast.walk(ast.parse(left.pop().read_bytes()))]
        except (SyntaxError, ValueError):
            continue
        names = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
        names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
        for name in sorted({name.partition(".")[0] for name in names}):
            with suppress(ImportError, ValueError):
                spec = find_spec(name)
                origin = None if spec is None or spec.origin is None else Path(spec.origin)
                if origin is not None and origin.suffix == ".py" and _is_own(origin):
                    whole = origin.stem == "__init__"
                    those = origin.parent.rglob("*.py") if whole else [origin]
                    new = {file for file in those if file.is_file()} - seen
                    seen |= new
                    left += new
                    yield from new


def _is_own(origin: Path) -> bool:
    """Whether a module is the user's: of no installed package, not Python's, not ours."""
    if {"site-packages", "dist-packages"} & {*origin.parts}:  # of whatever Python they are
        return False
    places = [Path(sysconfig.get_path(kind)) for kind in ("stdlib", "purelib", "platlib")]
    return not any(origin.is_relative_to(p) for p in (*places, Path(__file__).parents[2]))
