"""What the package hands to its lower rooms: progress bars, words, pictures and verdicts.

`bayes_risk` itself, which is above all rooms, fills this in when it is imported.
"""

from collections.abc import Callable
from typing import Any

bars: Callable[[], Any]  # a context manager that gives a progress function
presentation: Callable[[], Any]  # the module with `sentence`, `tables` and the like of results
judge: Callable[..., Any]  # results against thresholds: `bayes_risk.reporting.verdicts.verdict`
picture: Callable[..., Any]  # a function of `bayes_risk.reporting.plots`, by its name
