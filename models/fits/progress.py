"""Progress of a stage, step by step."""

from collections.abc import Callable

from bayes_risk.evidence.contract import Progress


def ticker(progress: Progress | None, stage: str, total: int) -> Callable[[int], None]:
    """Turn steps of one stage into calls of ``progress(stage, done, total)``."""
    done = 0

    def tick(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(stage, done, total)

    return tick
