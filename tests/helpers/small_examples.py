"""The study files of the examples, run once in a process, with fewer draws and records."""

import runpy
from functools import cache
from pathlib import Path
from typing import Any

from bayes_risk.app.run import (
    ComparisonResult,
    StudyResult,
    SweepResult,
    run_compare,
    run_study,
    run_sweep,
)
from bayes_risk.app.study.study import read_study

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FEW: dict[str, dict[str, dict[str, Any]]] = {
    "study": {
        "model": {"draws": 30, "tune": 30},
        "attribute": {"targets": 60, "refit_budget": 0},
    },
    "cart_study": {},
    "regression_study": {
        "model": {"draws": 20, "tune": 40},
        "attribute": {"targets": 10, "refit_budget": 0},
    },
    "business_study": {"model": {"draws": 40, "tune": 40, "n_classes": 15}},
    "sweep_study": {
        "model": {"draws": 30, "tune": 30},
        "attribute": {"targets": 20, "refit_budget": 0},
    },
}


def main_of(name: str) -> Any:
    """The function that an example runs."""
    return runpy.run_path(str(EXAMPLES / name))["main"]


def small(name: str) -> Any:
    """A study file with fewer draws and records."""
    study = read_study(EXAMPLES / f"{name}.toml")
    changed = {
        section: getattr(study, section).model_copy(update=few)
        for section, few in FEW[name].items()
    }
    return study.model_copy(update=changed)


@cache
def audited(name: str) -> StudyResult:
    """What ``bayes-risk audit`` finds."""
    return run_study(small(name))


@cache
def swept() -> SweepResult:
    """What ``bayes-risk sweep`` finds."""
    return run_sweep(small("sweep_study"))


@cache
def compared() -> ComparisonResult:
    """What ``bayes-risk compare`` finds."""
    study = read_study(EXAMPLES / "compare_study.toml")
    assert study.compare is not None
    candidates = dict(study.compare.candidates)
    mixture = candidates["mixture"]
    assert mixture.model is not None
    few = mixture.model | {"draws": 30, "tune": 30}
    candidates["mixture"] = mixture.model_copy(update={"model": few})
    section = study.compare.model_copy(update={"replicates": 2, "candidates": candidates})
    return run_compare(study.model_copy(update={"compare": section}))
