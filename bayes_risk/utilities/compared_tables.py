"""One- and two-way tables of the original and its releases, every column and pair compared."""

from collections.abc import Sequence
from functools import partial
from itertools import combinations

import numpy as np
import numpy.typing as npt

from bayes_risk._core.parallel import in_order

from .cells import TableDistance, counts, distance, mutual_information
from .tables import Column

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

MARGIN_MEASURES = TableDistance._fields
PAIR_MEASURES = (
    *TableDistance._fields,
    "mutual_information_original",
    "mutual_information_release",
    "mutual_information_difference",
    "correlation_original",
    "correlation_release",
    "correlation_difference",
)


def margins(columns: Sequence[Column], replaced: float) -> tuple[list[str], Reals]:
    """Synthesised columns, and their tables' measures, shape (m, columns, measures)."""
    made = [c for c in columns if c.made]
    found = [
        [distance(counts(c.cells[0], c.cells[l], c.size), replaced) for c in made]
        for l in range(1, len(columns[0].cells))
    ]
    return [c.name for c in made], np.array(found)


def pairs(
    columns: Sequence[Column], replaced: float, n_jobs: int
) -> tuple[list[tuple[str, str]], Reals]:
    """Pairs of which one at least was synthesised, and their measures, (m, pairs, measures).

    In a pair with an unsynthesised column that column is the first.
    """
    chosen = [(b, a) if a.made and not b.made else (a, b) for a, b in combinations(columns, 2)]
    chosen = [(a, b) for a, b in chosen if b.made]
    names = [(a.name, b.name) for a, b in chosen]
    m = len(columns[0].cells) - 1
    jobs = [partial(_pair, a, b, replaced) for a, b in chosen]
    found = list(in_order(jobs, n_jobs=n_jobs, what="pairs", where="threads"))  # they are short
    shape = (len(chosen), m, len(PAIR_MEASURES))
    return names, np.reshape(np.array(found, dtype=float), shape).transpose(1, 0, 2)


def _pair(a: Column, b: Column, replaced: float) -> list[list[float]]:
    """Measures of one pair in every release."""
    joint = [x * b.size + y for x, y in zip(a.cells, b.cells, strict=True)]
    information = [mutual_information(j, (a.size, b.size)) for j in joint]
    linear = [_correlation(x, y) for x, y in zip(a.values, b.values, strict=True)]
    if not (a.number and b.number):
        linear = [float("nan")] * len(joint)
    rows = []
    for l in range(1, len(joint)):
        table = counts(joint[0], joint[l], a.size * b.size, None if a.made else b.size)
        rows.append(
            [
                *distance(table, replaced),
                *(information[0], information[l], information[l] - information[0]),
                *(linear[0], linear[l], linear[l] - linear[0]),
            ]
        )
    return rows


def _correlation(x: Reals, y: Reals) -> float:
    """Pearson's, of records with both values; NaN where one of them does not vary."""
    both = ~(np.isnan(x) | np.isnan(y))
    x, y = x[both], y[both]
    if not len(x) or x.min() == x.max() or y.min() == y.max():
        return float("nan")
    inside = [(v - v.min()) / np.ptp(v) for v in (x, y)]  # squares of tiny numbers are 0
    return float(np.corrcoef(*inside)[0, 1])
