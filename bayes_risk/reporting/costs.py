"""What a study will take, on the terminal."""

import logging

from rich.console import Console

from bayes_risk.run.costs import estimate
from bayes_risk.study.study import Study


def print_costs(study: Study, *, n_jobs: int, max_memory: str | None) -> None:
    """Print the estimate; stop where the ceiling cannot hold.

    Raises
    ------
    InputError
        As `run.costs.estimate`; more memory than the ceiling.
    """
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        cost = estimate(study, n_jobs=n_jobs, max_memory=max_memory)
    finally:
        logging.disable(before)
    Console().print(repr(cost), highlight=False, markup=False, soft_wrap=True)
    cost.check()
