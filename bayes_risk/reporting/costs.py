"""What a run will take, on the terminal."""

import logging
from pathlib import Path

from rich.console import Console

from bayes_risk.app.output.folder import check_name
from bayes_risk.app.process import compile_beside
from bayes_risk.app.run.costs import estimate
from bayes_risk.app.study.study import Study

KINDS = {"compare": "comparison"}


def print_costs(
    study: Study,
    what: str,
    *,
    n_jobs: int,
    backend: str | None,
    max_memory: str | None,
) -> None:
    """Print the estimate of a command: audit, sweep or compare; stop where no ceiling holds it.

    Raises
    ------
    InputError
        As `run.costs.estimate`; more memory than the ceiling.
    """
    folder = Path(study.output.folder or ".").absolute()
    check_name(folder)
    compile_beside(folder)
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        cost = estimate(
            study,
            kind=KINDS.get(what, what),
            n_jobs=n_jobs,
            backend=backend,
            max_memory=max_memory,
        )
    finally:
        logging.disable(before)
    Console().print(repr(cost), highlight=False, markup=False, soft_wrap=True)
    cost.check()
