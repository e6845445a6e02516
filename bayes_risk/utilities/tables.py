"""What is compared, coded once, and one- and two-way tables of the original and its releases.

Letters: o the original's cells and s the release's, k cells that either occupies, n_1 and n_2
records, N = n_1 + n_2, c = n_2 / N. What a release would show that was drawn from the original's
own proportions stands beside each measure; derivations in ``docs/utility.md``.
"""

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import gammaln, xlog1py, xlogy

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.parallel import in_order
from bayes_risk._core.validate import known_columns, one_of
from bayes_risk.data.microdata import MAX_LEVELS, checked_table, require_columns
from bayes_risk.data.variables import check_magnitude, looks_continuous
from bayes_risk.release.release import Release
from bayes_risk.release.tables import Tables, as_tables, group_edges, group_of


class Compared(NamedTuple):
    """The columns that are compared, of the original and m releases.

    ``made`` were synthesised, ``kept`` carried over (records then correspond, row by row);
    ``replaced`` is the share of records whose values were replaced; ``left_out`` the columns of the
    original that some release lacks.
    """

    tables: Tables
    columns: tuple[str, ...]
    made: tuple[str, ...]
    kept: tuple[str, ...]
    replaced: float
    left_out: tuple[str, ...]


class ColumnCells(NamedTuple):
    """One column of all tables, the original first: as values, and as cells below ``size``.

    ``values``: level codes, or numbers (missing: NaN).
    """

    name: str
    made: bool
    number: bool
    values: tuple[Array, ...]
    cells: tuple[Ints, ...]
    size: int


def compared_columns(
    original: pd.DataFrame,
    release: Any,
    columns: Sequence[str] | None,
    synthesized: Sequence[str] | None,
    holdout: pd.DataFrame | None = None,
) -> Compared:
    """Check and put side by side; see `bayes_risk.utilities.result.utility` for what is allowed."""
    if len(checked_table(original, "original")) < 2:
        raise InputError(f"original has {len(original)} records; give at least 2")
    given = as_tables(release)
    wanted, left_out = _columns(original, release, given, columns)
    made = _made(wanted, release, synthesized)
    kept = [c for c in wanted if c not in made]
    part = isinstance(release, Release) and release.records is not None
    others = {} if holdout is None else {"the holdout": holdout}
    tables = Tables.of(original, release, own=bool(kept or part), others=others)
    for l, table in enumerate(given, start=1):
        require_columns(table, [c for c in wanted if c in table.columns], tables.places[l])
    for name in kept:
        tables.check_kept(name)
    share = float(release.replaced(len(given[0])).mean()) if isinstance(release, Release) else 1.0
    return Compared(tables, tuple(wanted), tuple(made), tuple(kept), share, tuple(left_out))


def coded_columns(
    compared: Compared, numbers: Sequence[str] | None, groups: int, missing: str
) -> list[ColumnCells]:
    """Code every column over all tables; numbers are cut at the original's quantiles."""
    one_of("missing", missing, ("error", "level"))
    tables, original = compared.tables, compared.tables.frames[0]
    if numbers is None:
        numbers = [c for c in compared.columns if looks_continuous(original[c])]
    counted, found = known_columns("numbers", numbers, compared.columns), []
    for name in compared.columns:
        made, column = name in compared.made, tables.column(name)
        places = tables.places
        for l, part in enumerate(column.codes if missing == "error" else ()):
            if count := int((part == 0).sum()):
                raise InputError(
                    f"column {name!r} of {places[l]} has {count:,} missing values; fill or drop "
                    'them, or make them a level of their own: `missing="level"`'
                )
        if name in counted:
            values = floats(tables, name)
            if np.isnan(values[0]).all():
                raise InputError(f"column {name!r} of the original holds no number; leave it out")
            edges = group_edges(values[0], groups)
            cells, size = [group_of(v, edges) for v in values], len(edges) + 2
        else:
            distinct = max(len(np.unique(part[part > 0])) for part in column.codes)
            if distinct > MAX_LEVELS:
                raise InputError(
                    f"column {name!r} has {distinct:,} distinct values, more than {MAX_LEVELS:,}; "
                    "leave it out with columns, cut it into categories, or name it in numbers"
                )
            size = column.size
            cells = [(part - 1) % size for part in column.codes]  # missing is the last
            values = [codes.astype(float) for codes in cells]
        found.append(ColumnCells(name, made, name in counted, tuple(values), tuple(cells), size))
    return found


def _columns(
    original: pd.DataFrame, release: Any, given: list[pd.DataFrame], columns: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Columns to compare, and those of the original that some release lacks."""
    declared = set(release.synthesized) if isinstance(release, Release) else set(original.columns)
    absent = [
        c for c in original.columns if c in declared and any(c not in t.columns for t in given)
    ]
    if columns is None:
        wanted = [c for c in original.columns if c not in absent]
        if not wanted:
            raise InputError("the releases share no column with the original; see their columns")
        return wanted, absent
    wanted = known_columns("columns", columns, original, least=1)
    for name in set(wanted) & set(absent):
        raise InputError(f"columns names {name!r}, which some release lacks; leave it out")
    return wanted, []


def _made(wanted: list[str], release: Any, synthesized: Sequence[str] | None) -> list[str]:
    if isinstance(release, Release):
        if synthesized is not None and set(synthesized) != set(release.synthesized):
            raise InputError(
                "synthesized",
                synthesized,
                f"and the release states {list(release.synthesized)}; leave synthesized out",
            )
        synthesized = release.synthesized
    if synthesized is None:
        return wanted
    if isinstance(synthesized, str):
        raise InputError("synthesized", synthesized, "is a single string; give a list of columns")
    made = [c for c in wanted if c in set(synthesized)]
    if not made:
        raise InputError(
            f"none of the columns compared was synthesised ({list(synthesized)}): name at least "
            "one of them in columns"
        )
    return made


def floats(tables: Tables, name: str) -> list[Array]:
    """Numbers of a column in every table, missing ones NaN; text and infinite values refused."""
    found = tables.numbers(name)
    for values, place in zip(found, tables.places, strict=True):
        if np.isinf(values).any():
            raise InputError(
                f"column {name!r} of {place} holds infinite values; correct or drop them"
            )
        check_magnitude(values, name, place)
    return found


DENSE = 4  # cells per record up to which counting beats sorting


class Counts(NamedTuple):
    """Occupied cells (k,): both files' records, and which level of an unsynthesised column."""

    original: Array
    release: Array
    within: Ints | None


class TableDistance(NamedTuple):
    """Measures of one table and, with ``null_``, what a faithful release would show.

    ``pmse``: propensity-score mean squared error of the saturated model; ``df``: its degrees of
    freedom; ``ratio``: pMSE over its null expectation (S_pMSE); ``total_variation`` and
    ``hellinger``: distances from 0 to 1.
    """

    pmse: float
    null_pmse: float
    df: float
    ratio: float
    total_variation: float
    null_total_variation: float
    hellinger: float
    null_hellinger: float


def over_releases(values: Array) -> dict[str, Array]:
    """Mean of measures (m, K) over the releases, their standard deviation, least and most."""
    sd = values.std(axis=0, ddof=1) if len(values) > 1 else np.full(values.shape[1:], np.nan)
    ends = {"lowest": values.min(axis=0), "highest": values.max(axis=0)}
    return {"value": values.mean(axis=0), "sd": sd, **ends}


def counts(y: Ints, z: Ints, size: int, width: int | None = None) -> Counts:
    """Occupied cells of codes below ``size``; of an unsynthesised column and ``width`` levels."""
    if size <= DENSE * (len(y) + len(z)):
        o, s = (np.bincount(x, minlength=size).astype(float) for x in (y, z))
        cell = np.flatnonzero(o + s)
        o, s = o[cell], s[cell]
    else:
        cell, where = np.unique(np.concatenate([y, z]), return_inverse=True)
        o, s = (
            np.bincount(x, minlength=len(cell)).astype(float)
            for x in (where[: len(y)], where[len(y) :])
        )
    return Counts(o, s, None if width is None else cell // width)


def distance(table: Counts, replaced: float = 1.0) -> TableDistance:
    """All measures of a table; a share f of the records was replaced."""
    varying = replaced * (2 - replaced)  # f (2 - f): the new values vary, and whose they replace
    o, s, within = table
    n_1, n_2 = o.sum(), s.sum()
    N, c = n_1 + n_2, n_2 / (n_1 + n_2)
    # pMSE = sum_j (o_j + s_j) (s_j / (o_j + s_j) - c)^2 / N
    pmse = float(((o + s) * (s / (o + s) - c) ** 2).sum() / N)
    fixed = 1 if within is None else len(np.unique(within))
    df = len(o) - fixed
    # E = df c (1 - c)^2 / N, as the original is fixed and s_j varies about o_j n_2 / n_1
    expected = df * c * (1 - c) ** 2 / N * varying
    p, q = o / n_1, s / n_2
    # were s_j binomial about the original's proportions, of all or within the unsynthesised level
    total = n_1 if within is None else np.bincount(within, weights=o)[within]
    share = np.divide(o, total, out=np.zeros(len(o)), where=total > 0)
    far = float(0.5 * _mean_deviation(total * n_2 / n_1, share).sum() / n_2)
    return TableDistance(
        pmse=pmse,
        null_pmse=float(expected),
        df=float(df),
        ratio=pmse / expected if expected > 0 else float("nan"),
        total_variation=float(0.5 * np.abs(p - q).sum()),
        null_total_variation=far * varying**0.5,
        hellinger=float(np.sqrt(0.5 * ((np.sqrt(p) - np.sqrt(q)) ** 2).sum())),
        # 8 n_2 H^2 is the Freeman-Tukey statistic, about chi-squared with df
        null_hellinger=float(np.sqrt(df * varying / (8 * n_2))),
    )


def mutual_information(joint: Ints, size: tuple[int, int]) -> float:
    """Mutual information in nats of a pair of columns, whose cells are ``first * d_2 + second``."""
    cell, number = np.unique(joint, return_counts=True)
    n = len(joint)
    first, second = np.divmod(cell, size[1])
    rows = np.bincount(first, weights=number, minlength=size[0])[first]
    columns = np.bincount(second, weights=number, minlength=size[1])[second]
    # sum p log(p / (p_1 p_2))
    return float((number / n * np.log(number * n / (rows * columns))).sum())


def _mean_deviation(n: Array, p: Array) -> Array:
    """``E|X - np|`` of binomials (De Moivre): ``2 k C(n, k) p^k (1 - p)^(n - k + 1)``."""
    k = np.minimum(np.floor(n * p), n - 1) + 1
    k = np.maximum(k, 1.0)
    log_choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(np.maximum(n - k, 0) + 1)
    log_value = np.log(2 * k) + log_choose + xlogy(k, p) + xlog1py(n - k + 1, -p)
    return np.where((p > 0) & (p < 1), np.exp(log_value), 0.0)


MARGIN_MEASURES = TableDistance._fields
PAIR_MEASURES = (
    *TableDistance._fields,
    *(f"mutual_information_{of}" for of in ("original", "release", "difference")),
    *(f"correlation_{of}" for of in ("original", "release", "difference")),
)


def margins(columns: Sequence[ColumnCells], replaced: float) -> tuple[list[str], Array]:
    """Synthesised columns, and their tables' measures, shape (m, columns, measures)."""
    made = [c for c in columns if c.made]
    found = [
        [distance(counts(c.cells[0], c.cells[l], c.size), replaced) for c in made]
        for l in range(1, len(columns[0].cells))
    ]
    return [c.name for c in made], np.array(found)


def pair_distances(
    columns: Sequence[ColumnCells], replaced: float, n_jobs: int
) -> tuple[list[tuple[str, str]], Array]:
    """Pairs, synthesised columns last, and their measures, shape (m, pairs, measures)."""
    chosen = [(b, a) if a.made and not b.made else (a, b) for a, b in combinations(columns, 2)]
    chosen = [(a, b) for a, b in chosen if b.made]
    names = [(a.name, b.name) for a, b in chosen]
    m = len(columns[0].cells) - 1
    jobs = [partial(_pair, a, b, replaced) for a, b in chosen]
    found = list(in_order(jobs, n_jobs=n_jobs, what="pairs", where="threads"))  # they are short
    shape = (len(chosen), m, len(PAIR_MEASURES))
    return names, np.reshape(np.array(found, dtype=float), shape).transpose(1, 0, 2)


def _pair(a: ColumnCells, b: ColumnCells, replaced: float) -> list[list[float]]:
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


def _correlation(x: Array, y: Array) -> float:
    """Pearson's, of records with both values; NaN where one of them does not vary."""
    both = ~(np.isnan(x) | np.isnan(y))
    x, y = x[both], y[both]
    if not len(x) or x.min() == x.max() or y.min() == y.max():
        return float("nan")
    inside = [(v - v.min()) / np.ptp(v) for v in (x, y)]  # squares of tiny numbers are 0
    return float(np.corrcoef(*inside)[0, 1])
