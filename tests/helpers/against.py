"""Log evidence that an audit finds beside an oracle's, both relative to that of the truth."""

from collections.abc import Callable, Container, Hashable
from typing import Any

import numpy as np

Exact = Callable[[Any, Any], Any]


def each(exact: Callable[[Any, tuple[float, ...]], float]) -> Exact:
    """An oracle of one guess after the other."""
    return lambda label, guesses: [exact(label, tuple(g)) for g in guesses.tolist()]


def gaps(
    risk: Any, exact: Exact, targets: Container[Hashable] | None = None, noise: Exact | None = None
) -> Any:
    """Found less exact log evidence of every record and guess, and its error; shape (2, N).

    ``exact(label, guesses)`` (G,) of a record, of guesses (G, q) in codes, is known but for a
    constant; ``noise`` (G,) is its own error. What both find impossible is no gap.
    """
    out = []
    for label, u in zip(risk.index, risk.case, strict=True):
        if targets is not None and label not in targets:
            continue
        guesses, found = risk.guesses[:, u], risk.log_evidence[:, :, u].sum(axis=0)
        wanted = np.array(exact(label, guesses), float)
        with np.errstate(invalid="ignore"):
            gap = found - (wanted - wanted[risk.truth[u]])
        own = 0.0 if noise is None else np.array(noise(label, guesses))
        both = np.stack([gap, np.hypot(risk.mcse_log_evidence[:, u], own)])
        both[:, np.isneginf(found) & np.isneginf(wanted)] = 0.0
        out.append(both)
    return np.concatenate(out, axis=1)


def agree(risk: Any, exact: Exact, floor: float = 1e-9, most: float = 4.0, **how: Any) -> Any:
    """All within so many errors; ``floor`` stands beside each. Returns gaps and errors."""
    gap, error = found = gaps(risk, exact, **how)
    wrong = ~(np.abs(gap) <= most * np.hypot(error, floor))
    assert not wrong.any(), found[:, wrong]
    return found
