"""Files that a run reads besides those that its study names."""

import ast
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
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
            new = {path for path in _sources(name, file.parent) if path.is_file()} - seen
            seen |= new
            left += new
            yield from new


def _sources(name: str, folder: Path) -> Iterator[Path]:
    """Files of a module of the user's: beside a file, as scripts find it, or where Python does."""
    found: list[ModuleSpec | None] = [PathFinder.find_spec(name, [str(folder)])]
    with suppress(ImportError, ValueError):
        found.append(find_spec(name))
    # a folder that is no package counts last
    specs = sorted((spec for spec in found if spec is not None), key=lambda spec: not spec.origin)
    for spec in specs[:1]:
        if spec.submodule_search_locations is not None:
            for place in filter(_is_own, map(Path, spec.submodule_search_locations)):
                yield from place.rglob("*.py")
        elif spec.origin is not None and spec.origin.endswith(".py") and _is_own(Path(spec.origin)):
            yield Path(spec.origin)


def _is_own(origin: Path) -> bool:
    """Whether a module is the user's: of no installed package, not Python's, not ours."""
    if {"site-packages", "dist-packages"} & {*origin.parts}:  # of whatever Python they are
        return False
    places = [Path(sysconfig.get_path(kind)) for kind in ("stdlib", "purelib", "platlib")]
    return not any(origin.is_relative_to(p) for p in (*places, Path(__file__).parents[2]))
