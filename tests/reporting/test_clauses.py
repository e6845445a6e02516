"""The table of clauses: in the docs, beside the thresholds, and as verdicts on files follow it."""

import dataclasses
import runpy
from pathlib import Path

import numpy as np
import pytest

from bayes_risk.app.run import identify_files, run_study
from bayes_risk.app.study.study import parse_study
from bayes_risk.reporting.verdicts.reason import ABOVE, RISK, WITHIN, Thresholds
from bayes_risk.reporting.verdicts.reasons import CLAUSES, GIVES
from tests.helpers.release_kinds import LEAKS, SOUND

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "reading-the-numbers.md").read_text(encoding="utf-8")
KINDS = sorted(LEAKS | SOUND)
MEASURES = {measure: clause for clause in CLAUSES for measure in clause.judges}


def test_the_docs_have_the_table_of_clauses():
    generated = runpy.run_path(str(DOCS / "generate_clauses.py"))["generated"]
    assert generated(PAGE) == PAGE, "run python docs/generate_clauses.py"


def test_every_threshold_belongs_to_a_clause():
    limits = {limit for clause in CLAUSES for limit in clause.limits}
    assert limits == {field.name for field in dataclasses.fields(Thresholds)}


def verdicts(folder, kind):
    """By `identify`, and by an audit of the same files with the same keys."""
    y, files, asked = (LEAKS | SOUND)[kind](60, 0.5, np.random.default_rng(0))
    y.to_csv(folder / "data.csv", index=False)
    paths = [folder / f"file{l}.csv" for l in range(len(files))]
    for file, path in zip(files, paths, strict=True):
        file.to_csv(path, index=False)
    content = {
        "data": {"path": folder / "data.csv"},
        "release": {"files": paths, "columns": asked["synthesized"]},
        "identification": asked,
    }
    return [run(parse_study(content)).verdict for run in (identify_files, run_study)]


def the_same(folder, kind):
    one, other = verdicts(folder, kind)
    assert (one.headline, one.facts, one.reasons) == (other.headline, other.facts, other.reasons)
    asked = (LEAKS | SOUND)[kind](60, 0.5, np.random.default_rng(0))[2]
    gives = GIVES["`identify`" if asked["corresponds"] else "`identify`, no correspondence"]
    judged = {r.measure for r in one.reasons if r.outcome in (ABOVE, WITHIN)}
    assert judged and all(MEASURES[m].of_files(gives) == "yes" for m in judged)
    assert one.outcome != WITHIN or asked["corresponds"]
    assert RISK.index(one.outcome) == min(RISK.index(r.outcome) for r in one.reasons)


@pytest.mark.check
@pytest.mark.filterwarnings("ignore:column 'pay' of:UserWarning")  # pay as text
@pytest.mark.filterwarnings("ignore:every synthetic file has the original's columns:UserWarning")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] if at % 3 else [])
        for at, kind in enumerate(KINDS)
    ],
)
def test_files_of_every_kind_have_one_verdict_by_either_command(tmp_path, kind):
    the_same(tmp_path, kind)
