"""What errors and warnings may hold: names, places, counts and arguments, no value of the data.

Two laws: no source writes a value into a message, but for those of `ALLOWED`; and what the lists of
refusals bring about (``test_refusals.py`` here, ``tests/app/test_study_refusals.py``) holds no cell
of a table that a function had before it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bayes_risk import InputError
from bayes_risk.data.microdata import Microdata

ROOT = Path(__file__).resolve().parents[2]
DATA = re.compile(  # what holds values of the data, by the names that the code has for it
    r"\.(min|max|iloc|loc|unique|tolist|item|values)\b|\[[^'\"\]]*\]\[0\]"
    r"|\b(levels?|values?|codes|held|counts|labels?|truth|text|word|cell|error|second_value|told|y)\b"
)
TEXTS = re.compile(r"'[^']*'")  # what the code itself says
NUMBER_OF = re.compile(
    r"^(len|int|type|prod|np\.isinf)\(|\.(sum|argmax|size|shape|dtype|name)\b|_named\("
)
ALLOWED = {  # what is said, where, and why it is no value of the data
    "an argument": [
        ("_core/validate.py", "whole_number", "value"),
        ("_core/validate.py", "in_range", "value"),
        ("_core/validate.py", "number", "value"),
        ("_core/validate.py", "one_of", "value"),
        ("_core/validate.py", "positive", "value"),
        ("_core/validate.py", "positives", "values"),
        ("intruder/intruder.py", "Intruder.__post_init__", "value"),
        ("matching/input.py", "checked_flag", "value"),
        ("matching/odds.py", "_given", "counts[l, i]"),
        ("matching/radii.py", "_checked", "value"),
        ("studies/grid.py", "by_name", "values"),
        ("studies/grid.py", "listed", "values"),
        ("studies/reweighting.py", "LinearWeights.__post_init__", "value"),
    ],
    "an InputError of ours, with its place in front, or the words of TOML": [
        ("app/study/keys.py", "read_toml", "error"),
        ("app/study/signatures.py", "made", "error"),
        ("release/release.py", "read_rows", "error"),
        ("studies/compare.py", "_replicate", "error"),
        ("studies/compare.py", "read_candidates", "error"),
        ("utilities/combining.py", "_fitted", "error"),
    ],
    "words of ours for what pydantic or a reader found": [
        ("app/study/study.py", "parse_study", "problems(error, lines)"),
        ("data/parquet.py", "_parts", "told"),
        ("data/statistical.py", "_reader.read", "told"),
        ("models/regression/fit.py", "_column", "told"),
    ],
    "the label of a record that was asked for": [
        ("data/base_result.py", "OfTargets.position", "label"),
        ("risk/explanation.py", "explanation", "label"),
    ],
    "labels of data sets or settings": [
        ("studies/attribute_settings.py", "_base", "labels"),
        ("studies/grid.py", "labelled", "labels"),
        ("utilities/combining.py", "combine", "labels"),
    ],
    "names of columns": [
        ("risk/geography.py", "geography", "y"),
        ("utilities/context.py", "_distance_columns", "held"),
    ],
    "how many there are": [
        ("matching/loglinear.py", "support", "' x '.join(map(str, levels))"),
        ("models/pymc/density.py", "_allowed", "levels - 1"),
        ("models/regression/part.py", "check_outcome", "levels"),
        ("models/regression/posterior.py", "ConjugatePrior.posterior", "np.min(data.n)"),
    ],
    "what a model drew outside its levels, or an infinity": [
        ("models/pymc/density.py", "_allowed", "values[wrong][0]"),
        ("models/pymc/density.py", "_allowed", "values[~np.isfinite(values)][0]"),
        ("models/pymc/density.py", "Engine.log_p", "out[~(out < np.inf)][0]"),
    ],
    "a level that a rule of the user names": [("data/impossible.py", "_coded", "level")],
    "the module of an entry point": [("models/__init__.py", "_registered", "entry.value")],
}
Said = tuple[str, str, str]  # file, function, expression


def within_functions(node: ast.AST, name: str = "") -> Iterator[tuple[ast.AST, str]]:
    """Every node, and the function or method that it stands in."""
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            inner = f"{name}.{child.name}".lstrip(".")
        yield child, inner
        yield from within_functions(child, inner)


def messages() -> dict[Said, list[int]]:
    """Every expression that an error or a warning of ours holds, and its lines."""
    found: dict[Said, list[int]] = {}
    for path in sorted((ROOT / "bayes_risk").rglob("*.py")):
        file = path.relative_to(ROOT).as_posix().removeprefix("bayes_risk/")
        for node, function in within_functions(ast.parse(path.read_text())):
            warns = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("warn")
            if not (warns or isinstance(node, ast.Raise)):
                continue
            for part in shown_in(node):
                found.setdefault((file, function, ast.unparse(part)), []).append(part.lineno)
    return found


def shown_in(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions in texts, and what an `InputError` says was given."""
    for part in ast.walk(node):
        if isinstance(part, ast.FormattedValue):
            yield part.value
        elif isinstance(part, ast.Call) and ast.unparse(part.func) in ("InputError", "refused"):
            yield from (one for one in part.args[:-1] if not isinstance(one, ast.Constant))


def may_hold_data(expression: str) -> bool:
    return bool(DATA.search(TEXTS.sub("", expression))) and not NUMBER_OF.search(expression)


def test_no_message_holds_a_value_of_the_data():
    """A new one that may is looked at, and gets its reason here, or another wording."""
    found = {said: lines for said, lines in messages().items() if may_hold_data(said[-1])}
    allowed = [said for places in ALLOWED.values() for said in places]
    assert {said: lines for said, lines in found.items() if said not in allowed} == {}
    assert set(allowed) - found.keys() == set() and len(set(allowed)) == len(allowed)


def test_the_law_finds_values():
    assert (
        may_hold_data("codes[i, j]") and may_hold_data("column.max()") and may_hold_data("levels")
    )
    assert not may_hold_data("len(levels)") and not may_hold_data("column.name")
    assert len(messages()) > 300


# --- what errors say where they are raised --------------------------------------------------------

TOKEN = re.compile(r"'([^']+)'|(?<![\w.])(-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?)")

SMALL = [str(k) for k in range(-999, 1_000)]  # places and counts, too


def tables_in(value: Any) -> list[pd.DataFrame]:
    if isinstance(value, Microdata):
        return [value.decode(value.codes)]
    if isinstance(value, pd.Series):
        return [value.to_frame()]
    if isinstance(value, list | tuple):
        return [table for table in value if isinstance(table, pd.DataFrame)]
    return [value] if isinstance(value, pd.DataFrame) else []


def at_hand(error: BaseException | None) -> Iterator[pd.DataFrame]:
    """Tables of all functions that an error went through, and those that it followed on."""
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            for value in [*trace.tb_frame.f_locals.values()]:
                yield from tables_in(value)
            trace = trace.tb_next
        error = error.__context__


def cells_told(error: BaseException) -> list[str]:
    """Words in quotes, and numbers but small whole ones, that are cells or labels of a table."""
    tables = [*at_hand(error)]
    names = {str(name) for table in tables for name in table.columns}
    cells = {str(v) for table in tables for v in table.to_numpy(object).ravel()} - {*SMALL}
    cells |= {label for table in tables for label in table.index if isinstance(label, str)}
    numbers = {float(v) for v in cells if re.fullmatch(r"-?\d+\.?\d*(e[+-]?\d+)?", v)}
    numbers -= {*map(float, SMALL)}
    told = []
    for word, number in TOKEN.findall(str(error)):
        value = float(number.replace(",", "")) if number else 0.0
        if word in cells - names or (number and value in numbers):
            told.append(word or number)
    return told


@pytest.mark.parametrize("what", ["'pilot'", "1234.5", "12,345", "'anna'"])
def test_a_cell_in_a_message_is_found(what):
    table = pd.DataFrame({"job": ["pilot", "nurse"], "pay": [1234.5, 12345.0]}, ["anna", "bert"])

    def refuse(given: pd.DataFrame) -> None:
        raise InputError(f"column 'job' of 2 records holds {what}")

    with pytest.raises(InputError) as caught:
        refuse(table)
    assert cells_told(caught.value) == [what.strip("'")]
