"""Running a study: audit, sweep or comparison, and a folder with all of it."""

from .audit import StudyResult, run_study
from .compare import ComparisonResult, run_compare
from .sweep import SweepResult, run_sweep

__all__ = [
    "ComparisonResult",
    "StudyResult",
    "SweepResult",
    "run_compare",
    "run_study",
    "run_sweep",
]
