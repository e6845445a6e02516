"""What errors and warnings may hold: names, places, counts and arguments, no value of the data."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = re.compile(  # what holds values of the data, by the names that the code has for it
    r"\.(min|max|iloc|loc|unique|tolist|item|values)\b|\[[^'\"\]]*\]\[0\]"
    r"|\b(levels?|values?|codes|held|counts|labels?|truth|text|word|cell|error|second_value|told|y)\b"
)
TEXTS = re.compile(r"'[^']*'")  # what the code itself says
NUMBER_OF = re.compile(
    r"^(len|int|type|prod|np\.isinf)\(|\.(sum|argmax|size|shape|dtype|name)\b|_named\("
)
ALLOWED = {  # what is said, and why it is no value of the data
    "error": "an InputError of ours, with its place in front, or the words of TOML",
    "sentences(error)": "words of ours for what pydantic found",
    "value": "an argument",
    "values": "an argument",
    "y": "the name of a column",
    "level": "a level that a rule of the user names",
    "label": "the label of a record, or a label that a file declares",
    "labels": "labels of data sets or settings",
    "told": "words of ours for what a reader found",
    "levels": "how many there are",
    "levels - 1": "how many there are",
    "' x '.join(map(str, levels))": "how many there are",
    "held": "names of columns",
    "entry.value": "the module of an entry point",
    "counts[l, i]": "a count of the population that was given as an argument",
    "np.min(data.n)": "the number of records of a group",
    "own.min()": "a variance that was given as an argument",
    "values[wrong][0]": "a code that the user's model drew",
    "values[~np.isfinite(values)][0]": "an infinity, or none",
    "out[~(out < np.inf)][0]": "an infinity, or none",
}


def messages() -> dict[str, list[str]]:
    """Every expression that an error or a warning of ours holds, and where."""
    found: dict[str, list[str]] = {}
    for path in sorted([*(ROOT / "models").rglob("*.py"), *(ROOT / "bayes_risk").rglob("*.py")]):
        every: Iterator[Any] = ast.walk(ast.parse(path.read_text()))
        for node in every:
            warns = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("warn")
            if not (warns or isinstance(node, ast.Raise)):
                continue
            for part in ast.walk(node):
                if isinstance(part, ast.FormattedValue):
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    found.setdefault(ast.unparse(part.value), []).append(place)
    return found


def may_hold_data(expression: str) -> bool:
    return bool(DATA.search(TEXTS.sub("", expression))) and not NUMBER_OF.search(expression)


def test_no_message_holds_a_value_of_the_data():
    """A new one that may is looked at, and gets its reason here, or another wording."""
    found = {e: places for e, places in messages().items() if may_hold_data(e)}
    assert {e: places for e, places in found.items() if e not in ALLOWED} == {}
    assert ALLOWED.keys() - found.keys() == set()


def test_the_law_finds_values():
    assert (
        may_hold_data("codes[i, j]") and may_hold_data("column.max()") and may_hold_data("levels")
    )
    assert not may_hold_data("len(levels)") and not may_hold_data("column.name")
    assert len(messages()) > 300
