"""Every error of ours that any test brings about: does it hold a cell of a table at hand?

`tests.conftest` watches all tests. ``RAISES=folder make tests check`` also notes in that folder
which places of the code made an error; ``python -m tests.helpers.error_watch folder`` then lists
those that none did.
"""

import ast
import os
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as pd

from bayes_risk._core.errors import InputError, ModelError, Surface
from bayes_risk.data.microdata import Microdata

ROOT = Path(__file__).resolve().parents[2]
SOURCES = str(ROOT / "bayes_risk")
MOST_CELLS = 20_000  # of larger tables, the first rows
TOKEN = re.compile(r"'([^']+)'|(?<![\w.])(-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?)(?!\d|-\d)")
SMALL = [str(k) for k in range(-999, 1_000)]  # places and counts, too
SMALL_NUMBERS = {*map(float, SMALL)}
Site = tuple[str, int]

SAID = {  # functions whose errors may repeat a cell, and what it is there
    "a declared level, or one that a rule names": [
        ("data/variables.py", "declare_levels"),
        ("data/microdata.py", "ZeroRegion.refuse"),
    ],
    "the label of a household": [
        ("data/households.py", "Households.of"),
        ("data/households.py", "Households._heads"),
        ("data/households.py", "numbered"),
    ],
    "an argument, or a name": [
        ("_core/validate.py", "known_columns"),
        ("_core/validate.py", "one_of"),
        ("models/mixture/business/intruder.py", "check"),
        ("matching/input.py", "coded_key"),  # how many times another unit is
        ("studies/grid.py", "check_m"),
        ("studies/grid.py", "axis_values"),
    ],
}
ALLOWED = {place for places in SAID.values() for place in places}
leaks: list[str] = []
reached: set[Site] = set()


def tables_in(value: Any) -> list[pd.DataFrame]:
    if isinstance(value, Microdata):
        return [value.decode(value.codes)]
    if isinstance(value, pd.Series):
        return [value.to_frame()]
    if isinstance(value, list | tuple):
        return [table for table in value if isinstance(table, pd.DataFrame)]
    return [value] if isinstance(value, pd.DataFrame) else []


def cells_told(said: str, tables: list[pd.DataFrame], counts: Collection[int] = ()) -> list[str]:
    """Words in quotes, and numbers but small whole ones, that are cells or labels of a table.

    ``counts``: numbers of records, and other sizes, which a cell may equal.
    """
    names = {str(name) for table in tables for name in table.columns}
    ours = SMALL_NUMBERS | {*map(float, counts)}
    words = [
        (word, number, float(number.replace(",", "")) if number else 0.0)
        for word, number in TOKEN.findall(said)
        if not word or word not in names
    ]
    words = [found for found in words if found[0] or found[2] not in ours]
    if not words:  # the cells of the tables need not be written out
        return []
    tables = [table.iloc[: MOST_CELLS // max(table.shape[1], 1)] for table in tables]
    cells = {str(v) for table in tables for v in table.to_numpy(object).ravel()} - {*SMALL}
    cells |= {label for table in tables for label in table.index if isinstance(label, str)}
    numbers = {float(v) for v in cells if re.fullmatch(r"-?\d+\.?\d*(e[+-]?\d+)?", v)}
    return [
        w or number for w, number, value in words if w in cells or (number and value in numbers)
    ]


def is_of_code(word: str, frame: FrameType) -> bool:
    """Whether the function that makes the error, or its module, has the word or number itself."""
    held = [one for one in frame.f_code.co_consts if isinstance(one, str)]
    for value in [*frame.f_globals.values()]:
        held += map(str, value if isinstance(value, list | tuple | set | frozenset) else [value])
    return any(word in text for text in held if len(text) < 1_000) or word.replace(",", "") in held


def sizes_in(above: list[FrameType]) -> set[int]:
    """Lengths of what the functions have before them."""
    values = [value for f in above for value in [*f.f_locals.values()]]
    return {n for value in values for n in getattr(value, "shape", ()) if isinstance(n, int)}


def frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Frames of the library that lead to an error."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(SOURCES):
            yield frame
        frame = frame.f_back


def watch() -> None:
    """From now on every error that is made is looked at."""
    for kind in (InputError, ModelError):
        kind.__init__ = _watched(kind)  # type: ignore[method-assign]


def _watched(kind: type[Exception]) -> Any:
    def init(self: Exception, *args: Any) -> None:
        super(kind, self).__init__(*args)
        above = [*frames(sys._getframe(1))]
        if not above:
            return
        code = above[0].f_code
        site = (os.path.relpath(code.co_filename, SOURCES), above[0].f_lineno)
        reached.add(site)
        if (site[0], code.co_qualname) in ALLOWED:
            return
        said = Surface().worded(self) if isinstance(self, InputError) else str(self)
        held = {id(v): v for f in above for v in [*f.f_locals.values()]}  # each looked at once
        tables = [*{id(t): t for value in held.values() for t in tables_in(value)}.values()]
        told = cells_told(said, tables, sizes_in(above)) if TOKEN.search(said) else []
        if told := [word for word in told if not is_of_code(word, above[0])]:
            leaks.append(f"{site[0]}:{site[1]} tells {told}: {said}")

    return init


def note() -> None:
    """Write what this process reached."""
    if folder := os.environ.get("RAISES"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        text = "\n".join(f"{file}:{line}" for file, line in sorted(reached))
        (Path(folder) / f"{os.getpid()}.txt").write_text(text)


def sites() -> set[Site]:
    """Every place of the code that makes an error."""
    found = set()
    for path in Path(SOURCES).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
                "InputError",
                "ModelError",
            ):
                found.add((str(path.relative_to(SOURCES)), node.lineno))
    return found


def main(folder: str) -> None:
    lines = {line for p in Path(folder).glob("*.txt") for line in p.read_text().splitlines()}
    every = {f"{file}:{line}" for file, line in sites()}
    print("\n".join(sorted(every - lines)))
    print(f"{len(every - lines)} of {len(every)} places that make an error were not reached")


if __name__ == "__main__":
    main(*sys.argv[1:])
