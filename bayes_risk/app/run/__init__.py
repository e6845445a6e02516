"""Running a study: audit, sweep or comparison, and a folder with all of it."""

from .audit import ComparisonResult as ComparisonResult
from .audit import StudyResult as StudyResult
from .audit import SweepResult as SweepResult
from .identify import identify_files as identify_files
from .runner import run as run
from .runner import run_compare as run_compare
from .runner import run_study as run_study
from .runner import run_sweep as run_sweep
