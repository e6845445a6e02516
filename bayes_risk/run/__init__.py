"""Running a study: audit, sweep or comparison, and a folder with all of it."""

from bayes_risk.run.audit import StudyResult, run_study
from bayes_risk.run.compare import ComparisonResult, run_compare
from bayes_risk.run.sweep import SweepResult, run_sweep

__all__ = [
    "ComparisonResult",
    "StudyResult",
    "SweepResult",
    "run_compare",
    "run_study",
    "run_sweep",
]
