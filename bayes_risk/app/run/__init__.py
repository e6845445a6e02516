"""Running a study: audit, sweep or comparison, and a folder with all of it."""

from .audit import ComparisonResult, StudyResult, SweepResult
from .runner import run, run_compare, run_study, run_sweep

__all__ = [
    "ComparisonResult",
    "StudyResult",
    "SweepResult",
    "run",
    "run_compare",
    "run_study",
    "run_sweep",
]
