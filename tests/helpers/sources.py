"""Sources of the package, parsed once in a process for all laws that read them."""

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a source file; those who look at it leave it as it is."""
    return ast.parse(path.read_text(encoding="utf-8"))
