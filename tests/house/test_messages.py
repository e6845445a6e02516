"""What errors and warnings may hold: names, places, counts and arguments, no value of the data.

Two laws: no source writes a value into a message, but for those of `ALLOWED`; and no error that
any test brings about holds a cell of a table that a function had before it (`error_watch`).
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk import InputError
from tests.helpers import error_watch
from tests.helpers.error_watch import cells_told
from tests.helpers.sources import parsed

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
        ("_core/validate.py", "real_number", "value"),
        ("_core/validate.py", "one_of", "value"),
        ("_core/validate.py", "positive", "value"),
        ("_core/validate.py", "positives", "values"),
        ("intruder/intruder.py", "Intruder.__post_init__", "value"),
        ("matching/input.py", "checked_flag", "value"),
        ("matching/odds.py", "_given", "counts[l, i]"),
        ("matching/radii.py", "_checked", "shown(value)"),
        ("studies/grid.py", "by_name", "values"),
        ("studies/grid.py", "axis_values", "values"),
        ("studies/reweighting.py", "LinearWeights.__post_init__", "value"),
    ],
    "an InputError of ours, with its place in front, or the words of TOML": [
        ("app/study/declare.py", "read_record_columns", "error.text"),
        ("app/study/keys.py", "read_toml", "error"),
        ("app/study/signatures.py", "made", "error.text"),
        ("models/simulator/runs.py", "run_of", "error.text"),
        ("release/release.py", "read_rows", "error.text"),
        ("studies/compare.py", "_replicate", "error"),
    ],
    "words of ours for what pydantic or a reader found": [
        ("app/study/study.py", "parse_study", "problems(error, lines)"),
        ("models/regression/fit.py", "_column", "label"),
    ],
    "the label of a record that was asked for": [
        ("data/base_result.py", "OfTargets.position", "label"),
        ("evidence/household.py", "UnknownHouseholds._check", "label"),
        ("risk/explanation.py", "explanation", "label"),
    ],
    "labels of data sets or settings": [
        ("studies/attribute_settings.py", "_base", "labels"),
        ("studies/grid.py", "labelled", "labels"),
        ("utilities/combining.py", "combine", "labels"),
    ],
    "names of columns": [
        ("risk/geography.py", "geography", "y"),
        ("utilities/context.py", "_distance_columns", "labels"),
    ],
    "how many there are": [
        ("matching/loglinear.py", "support", "' x '.join(map(str, levels))"),
        ("models/pymc/density.py", "_allowed", "levels - 1"),
        ("models/regression/part.py", "check_family", "levels"),
        ("models/regression/posterior.py", "ConjugatePrior.posterior", "np.min(data.n)"),
    ],
    "what a model drew outside its levels, or an infinity": [
        ("models/pymc/density.py", "_allowed", "values[wrong][0]"),
        ("models/pymc/density.py", "_allowed", "values[~np.isfinite(values)][0]"),
        ("models/pymc/density.py", "Engine.log_p", "out[~(out < np.inf)][0]"),
    ],
    "a level that a rule of the user names": [("data/impossible.py", "coded_rule", "level")],
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


@cache
def messages() -> dict[Said, list[int]]:
    """Every expression that an error or a warning of ours holds, and its lines."""
    found: dict[Said, list[int]] = {}
    for path in sorted((ROOT / "bayes_risk").rglob("*.py")):
        file = path.relative_to(ROOT).as_posix().removeprefix("bayes_risk/")
        for node, function in within_functions(parsed(path)):
            warns = isinstance(node, ast.Call) and called(node).endswith("warn")
            if not (warns or isinstance(node, ast.Raise)):
                continue
            for part in shown_in(node):
                found.setdefault((file, function, ast.unparse(part)), []).append(part.lineno)
    return found


def called(node: ast.Call) -> str:
    """The last name of what is called."""
    return str(getattr(node.func, "attr", None) or getattr(node.func, "id", ""))


def shown_in(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions in texts, and what an `InputError` says was given."""
    for part in ast.walk(node):
        if isinstance(part, ast.FormattedValue):
            yield part.value
        elif isinstance(part, ast.Call) and called(part) in ("InputError", "refused"):
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


@pytest.mark.parametrize("what", ["'pilot'", "1234.5", "12,345", "'anna'"])
def test_a_cell_in_a_message_is_found(what):
    table = pd.DataFrame({"job": ["pilot", "nurse"], "pay": [1234.5, 12345.0]}, ["anna", "bert"])
    assert cells_told(f"column 'job' of 2 records holds {what}", [table]) == [what.strip("'")]
    assert cells_told("column 'job' of 2 records holds a word", [table]) == []


def test_every_error_is_looked_at():
    table = pd.DataFrame({"job": ["pilot", "nurse"], "pay": [12345.0, 1000.0]})
    for radius, told in ((2000, 0), (12345, 1)):
        with pytest.raises(InputError, match="as a number is a share"):
            br.identification_risk(
                table, table, known=["job"], synthesized=["pay"], radius={"pay": radius}
            )
        assert len(error_watch.leaks) == told
    error_watch.leaks.clear()


def test_functions_that_may_repeat_a_cell_exist():
    functions = set()
    for file in {file for file, _ in error_watch.ALLOWED}:
        tree = parsed(ROOT / "bayes_risk" / file)
        functions |= {(file, name) for _, name in within_functions(tree)}
    assert functions >= error_watch.ALLOWED
