"""The cells of a line of guesses: each reaches half way to its neighbours."""

import numpy as np

from bayes_risk._core.arrays import Array, Flags


def edges(line: Array) -> Array:
    """Edges (G + 1,) of the cells around ascending values (G,), G at least 2; ends mirrored."""
    return np.concatenate(
        [
            [1.5 * line[0] - 0.5 * line[1]],
            (line[1:] + line[:-1]) / 2,
            [1.5 * line[-1] - 0.5 * line[-2]],
        ]
    )


def log_widths(values: Array, counted: Flags) -> Array:
    """Log width of the grid cell around each value (G, U), among the counted guesses."""
    out = np.zeros(values.shape)
    for u in range(values.shape[1]):
        line, where = np.unique(values[counted[:, u], u], return_inverse=True)
        if len(line) > 1:
            out[counted[:, u], u] = np.log(np.diff(edges(line)))[where]
    return out
