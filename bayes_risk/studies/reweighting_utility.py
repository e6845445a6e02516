"""Two simple measures of what a release keeps: margins and pairwise tables against the original."""

from itertools import combinations

import numpy as np
import numpy.typing as npt

from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.release.release import Release
from bayes_risk.utilities.cells import group_edges, group_of, total_variation

Ints = npt.NDArray[np.int64]
PARTS = 10  # numbers are cut at their deciles


def table_distances(data: Microdata, release: Release) -> dict[str, float]:
    """Mean total variation distance of margins and of pairwise tables, over the m data sets.

    ``1/2 sum over cells |share in the original - share in the release|``: 0, the same tables; 1,
    nothing in common. Numbers are cut at the original's deciles.

    Parameters
    ----------
    data : Microdata
        The original.
    release : Release

    Returns
    -------
    dict
        ``margins``: mean over synthesised columns; ``pairs``: mean over pairs of columns of which
        one at least was synthesised (NaN where there is one column).
    """
    made = [j for j, c in enumerate(data.columns) if c in list(release.synthesized)]
    p = len(data.columns)
    pairs = [pair for pair in combinations(range(p), 2) if set(pair) & set(made)]
    found: dict[str, list[float]] = {"margins": [], "pairs": []}
    for l in range(release.m):
        y, z, sizes = _cells(data, release.codes(data, l))
        found["margins"] += [total_variation(y[:, j], z[:, j], sizes[j]) for j in made]
        found["pairs"] += [
            total_variation(
                y[:, j] * sizes[k] + y[:, k], z[:, j] * sizes[k] + z[:, k], sizes[j] * sizes[k]
            )
            for j, k in pairs
        ]
    return {name: float(np.mean(values)) if values else np.nan for name, values in found.items()}


def _cells(data: Microdata, released: Codes) -> tuple[Ints, Ints, list[int]]:
    """Original and release as cell numbers (n, p), and how many cells each column has."""
    columns = []
    for j, levels in enumerate(data.n_levels):
        y, z = data.codes[:, j], released[:, j]
        if levels:
            columns.append((y.astype(np.int64), z.astype(np.int64), int(levels)))
            continue
        edges = group_edges(y, PARTS)
        columns.append((group_of(y, edges), group_of(z, edges), len(edges) + 1))
    ys, zs, sizes = zip(*columns, strict=True)
    return np.column_stack(ys), np.column_stack(zs), list(sizes)
