"""Every measure is declared once, with words, and those of a result are rows of its summary."""

import ast
from pathlib import Path

import pytest

from bayes_risk.data import measures
from tests.helpers.every_result import every
from tests.helpers.sources import parsed

ROOT = Path(__file__).resolve().parents[2] / "bayes_risk"
GROUPS = {
    name: group
    for name, group in vars(measures).items()
    if name.isupper() and name[0] != "_" and isinstance(group, dict) and name != "COMPARED"
}


@pytest.mark.parametrize("group", GROUPS)
def test_measures_stand_under_their_names_and_have_words(group):
    found = GROUPS[group].items()
    assert found and all(name == measure.name for name, measure in found)
    silent = {"identical_synthesized", "identical_synthesized_any_row"}  # of a file alone
    assert all(measure.words for name, measure in found if name not in silent)


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("membership", "MEMBERSHIP"),
        ("full table", "FULL_TABLE"),
        ("privacy loss", "PRIVACY_LOSS"),
        ("utility", "UTILITY"),
    ],
)
def test_measures_are_rows_of_the_summary(name, group):
    of_analyses = {"interval_overlap", "lowest_interval_overlap", "largest_standardized_difference"}
    assert set(GROUPS[group]) - set(every()[name].summary().index) <= of_analyses


def test_no_other_module_words_a_measure():
    """Whole wordings of a measure stand in the one module alone."""
    words = {m.words for group in GROUPS.values() for m in group.values() if " " in m.words}
    found = []
    for path in ROOT.rglob("*.py"):
        if path.name == "measures.py":
            continue
        nodes = ast.walk(parsed(path))
        texts = (node.value for node in nodes if isinstance(node, ast.Constant))
        found += [(path.name, t) for t in texts if isinstance(t, str) and t.lower() in words]
    assert found == []
