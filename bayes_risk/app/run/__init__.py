"""Running a study: audit, sweep or comparison, and a folder with all of it."""

from .audit import ComparisonResult, StudyResult, SweepResult
from .runner import run_compare, run_study, run_sweep

__all__ = [
    "ComparisonResult",
    "StudyResult",
    "SweepResult",
    "run_compare",
    "run_study",
    "run_sweep",
]
