"""Measures of disclosure that users of other tools know, with their denominators."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import distinct_rows
from bayes_risk._core.nearest import Points, nearest
from bayes_risk._core.validate import known_columns, whole_number
from bayes_risk.data.held_out import own_records
from bayes_risk.data.measures import CONTEXT
from bayes_risk.data.microdata import checked_table
from bayes_risk.data.precision import SAME as ALIKE
from bayes_risk.data.variables import is_numeric
from bayes_risk.release.release import Release
from bayes_risk.release.tables import Tables, group_edges, group_of

from .context_result import ContextMeasures
from .tables import compared_columns, floats

SAME = 1e-9  # distances below are 0: the same record, but for rounding


# Of each target and measure: its value, what that is a share of, and what it compares with
Measured = dict[tuple[str, str], tuple[float, float, float]]
# Whether a column is a number that varies in the original; its values, else codes of its levels, in
# the original, a release and the holdout (length 0: none). Missing numbers are NaN.
Values = tuple[bool, Sequence[Array]]


DISTANCES: Mapping[str, Callable[[Array], Any]] = {  # in numbers
    "dcr_zero": lambda x: (x == 0).mean(),
    "dcr_median": np.median,
    "dcr_5_percent": lambda x: np.quantile(x, 0.05),
}


def closest(
    columns: Sequence[Values], lookups: int, rng: np.random.Generator
) -> tuple[Array, Array, float]:
    """Distances of up to ``lookups`` released records, drawn at random, to the original's.

    And of as many records of the original to another of it; and the share of released records
    nearer to the original than to as large a holdout, ties half, NaN without one.
    """
    (original, release, holdout), closer = [_placed(columns, part) for part in range(3)], np.nan
    choose, own, cut = rng.spawn(3)
    n, n_holdout = len(original.codes), len(holdout.codes)
    query = release.only(_drawn(len(release.codes), lookups, choose))
    distance, rows = _nearest(original, query), _drawn(n, lookups, own)
    within = _nearest(original, original.only(rows), rows)
    if n_holdout:
        size = min(n, n_holdout)
        a, b = (
            _nearest(table.only(_drawn(of, size, cut)), query)
            for table, of in ((original, n), (holdout, n_holdout))
        )
        closer = float(((a < b - SAME) + 0.5 * (np.abs(a - b) <= SAME)).mean())
    return distance, within, closer


def _placed(columns: Sequence[Values], part: int) -> Points:
    """Records as points: codes of levels, numbers over the original's range."""
    codes = [parts[part].astype(np.int32) for number, parts in columns if not number]
    varying = [(parts[part], np.nanmin(parts[0]), parts[0]) for number, parts in columns if number]
    numbers = [(own - low) / (np.nanmax(y) - low) for own, low, y in varying]
    n = len(columns[0][1][part])
    return Points(
        np.column_stack([np.empty((n, 0), np.int32), *codes]),
        np.column_stack([np.empty((n, 0)), *numbers]),
    )


def _nearest(points: Points, query: Points, own: Ints | None = None) -> Array:
    distance = nearest(points, query, own)
    return np.where(distance < SAME, 0.0, distance)


def _drawn(n: int, size: int, rng: np.random.Generator) -> Ints:
    return np.arange(n) if n <= size else np.sort(rng.choice(n, size, replace=False))


Counts = dict[str, tuple[float, float]]  # of each measure: how many, of how many
Coded = tuple[Sequence[Ints], int]  # a column's codes in every table, the original first; levels


def uniques_kept(key: Coded, l: int) -> tuple[Counts, Flags]:
    """Uniques of the original and release l, those that are both; replicated uniques, (n,)."""
    d, s = _counted(key, l)
    N_d, N_s = float(len(key[0][0])), float(len(key[0][l]))
    single = d == 1
    replicated = single & (s == 1)
    counts: Counts = {
        "uio": (single.sum(), N_d),
        "uis": ((s == 1).sum(), N_s),
        "uiois": ((single & (s > 0)).sum(), N_d),
        "repu": (replicated.sum(), N_d),
    }
    return counts, replicated[key[0][0]]


def attribute(key: Coded, target: Coded, both: Coded, l: int) -> tuple[Counts, Flags]:
    """Which keys give a target away, in either file, how often rightly; who is in DiSCO, (n,).

    ``both``: key and target combined. ``d_q`` and ``s_q`` records of the original and the release
    have key q, ``d_tq`` and ``s_tq`` target t besides (Raab, Nowok & Dibben 2024).
    """
    d, s = _counted(key, l)
    d_t, s_t = _counted(both, l)
    q = np.zeros(both[1], dtype=np.int64)  # key of each pair of key and target
    q[both[0][0]], q[both[0][l]] = key[0][0], key[0][l]
    share_d = np.divide(d_t, d[q], out=np.zeros(len(q)), where=d[q] > 0)
    share_s = np.divide(s_t, s[q], out=np.zeros(len(q)), where=s[q] > 0)
    in_s, sure_d, sure_s = s[q] > 0, d_t == d[q], (s_t == s[q]) & (s_t > 0)
    one_target = np.bincount(q[s_t > 0], minlength=len(d)) == 1  # keys disclosive in the release
    N_d, N_s = float(len(key[0][0])), float(len(key[0][l]))
    margin = _counted(target, l)[0] / N_d
    found, dis, disco = d_t[in_s].sum(), (d * one_target).sum(), d_t[sure_s].sum()
    counts: Counts = {
        "dorig": (d_t[sure_d].sum(), N_d),
        "dsyn": (s_t[sure_s].sum(), N_s),
        "iso": (found, N_d),
        "dis": (dis, N_d),
        "disco": (disco, N_d),
        "disdio": (d_t[sure_s & sure_d].sum(), N_d),
        "correct": (disco, dis),
        "base_cap": ((margin**2).sum() * N_d, N_d),
        "capd": ((share_d * d_t).sum(), N_d),
        "caps": ((share_s * s_t).sum(), N_s),
        "dcap": ((share_s * d_t).sum(), N_d),
        "tcap": (disco, found),
    }
    return counts, sure_s[both[0][0]]


def combined_column(columns: Sequence[Coded]) -> Coded:
    """Combinations of columns as one column."""
    ends = np.cumsum([len(codes) for codes in columns[0][0]])
    first, row, _ = distinct_rows(np.column_stack([np.concatenate(codes) for codes, _ in columns]))
    return np.split(row, ends[:-1]), len(first)


def _counted(column: Coded, l: int) -> tuple[Array, Array]:
    """Records of the original and of release l at each level."""
    codes, size = column
    d, s = (np.bincount(of, minlength=size).astype(float) for of in (codes[0], codes[l]))
    return d, s


def context_measures(
    original: pd.DataFrame,
    release: Release | pd.DataFrame | Sequence[pd.DataFrame],
    *,
    keys: Sequence[str],
    target: str | Sequence[str] | None = None,
    groups: Mapping[str, int] | None = None,
    distances: Sequence[str] | bool = True,
    holdout: pd.DataFrame | None = None,
    lookups: int = 5_000,
    random_seed: int | np.random.Generator | None = None,
) -> ContextMeasures:
    """Replicated uniques, DiSCO, CAP measures and distances to the closest record.

    They are for comparison with other tools. None of them is a probability that a record is
    identified or a value disclosed: for those see `identification_risk` and `attribute_risk`.

    Parameters
    ----------
    original : DataFrame of n records
        The confidential file. Never changed.
    release : Release, DataFrame, or list of m DataFrames
        The released files. Records need not correspond, numbers of records may differ.
    keys : list of str
        Columns that an intruder knows of a person.
    target : str or list of str, optional
        Columns to be found out. Without any, no attribute measures.
    groups : dict of str to int, optional
        Keys or targets that are numbers to be cut into so many groups, at the original's quantiles;
        every other number matches by its exact value.
    distances : list of str, or bool
        Columns of the distance to the closest record: all (True), these, or none (False).
    holdout : DataFrame, optional
        Records of the same population that the synthesiser has not seen, n^(2/3) at least.
    lookups : int
        At most so many released records are looked up, drawn at random.
    random_seed : int, Generator or None
        For that draw, and for samples of equal size.

    Returns
    -------
    ContextMeasures
        Shares (multiply by 100 for synthpop's numbers), and distances; its ``meanings()`` defines
        every row, and ``docs/utility.md`` has the literature.

    Raises
    ------
    InputError
        No keys; a target among the keys; columns that are missing; kinds that do not fit; a holdout
        that is the original, for the most part, or too small to distinguish a copy of it from
        chance.

    Notes
    -----
    Missing values are a value of their own. Where the release shows no such key, DCAP counts no
    right guess, and TCAP leaves the record out (as in synthpop up to 1.9-2). Distances are
    Euclidean, numbers over the original's range, 1 between any two levels, and between a missing
    value and any other. A number that has one value in the original has no range: it counts as a
    category, and so does a column that is empty there.

    *Cost.* O((n + n') log n) for keys and targets; at most lookups x n distances, exactly. Memory
    O(n) for each column, however many levels it has.

    Examples
    --------
    >>> import pandas as pd
    >>> original = pd.DataFrame({"age": [20, 20, 30, 40], "ill": list("yyny")})
    >>> synthetic = pd.DataFrame({"age": [20, 30, 40, 40], "ill": list("ynny")})
    >>> found = context_measures(original, synthetic, keys=["age"], target="ill", distances=False)
    >>> found.summary()["value"].loc[[("", "repu"), ("ill", "disco"), ("ill", "dcap")]].tolist()
    [0.25, 0.75, 0.875]
    """
    whole_number("lookups", lookups)
    rng = np.random.default_rng(random_seed)
    entropy = str(rng.bit_generator.seed_seq.entropy)  # type: ignore[attr-defined]
    compared = compared_columns(original, release, None, None, holdout)
    tables = compared.tables
    keys = known_columns("keys", keys, compared.columns, least=1)
    given = [] if target is None else [target] if isinstance(target, str) else list(target)
    targets = known_columns("target", given, compared.columns)
    for name in targets:
        if name in keys:
            raise InputError(f"target {name!r} is among the keys; what is known cannot be learnt")
    cut = dict(groups or {})
    known_columns("groups", list(cut), [*keys, *targets])
    codes = {name: _codes(tables, name, cut.get(name)) for name in [*keys, *targets]}
    key = combined_column([codes[name] for name in keys])
    pairs = {name: combined_column([key, codes[name]]) for name in targets}
    measured = _distance_columns(compared.columns, distances, holdout)
    held_out = 0 if holdout is None else _held_out(tables, measured, holdout)
    rows: list[Measured] = []
    replicated, disclosed = [], []
    for l, child in zip(range(1, tables.m + 1), rng.spawn(tables.m), strict=True):
        counts, unique = uniques_kept(key, l)
        found, in_disco = _shares("", counts), np.empty((len(targets), len(original)), dtype=bool)
        for t, name in enumerate(targets):
            counts, in_disco[t] = attribute(key, codes[name], pairs[name], l)
            found |= _shares(name, counts)
        if measured:
            columns = [_values(tables, name, l) for name in measured]
            shown, within, closer = closest(columns, lookups, child)
            looked_at = float(len(shown))
            for measure, of_all in DISTANCES.items():
                found["", measure] = float(of_all(shown)), looked_at, float(of_all(within))
            if not np.isnan(closer):
                found["", "closer_than_holdout"] = closer, looked_at, 0.5
        rows.append(found)
        replicated.append(unique)
        disclosed.append(in_disco)
    value, of, compare = np.moveaxis(np.array([list(one.values()) for one in rows]), 2, 0)
    return ContextMeasures(
        index=original.index,
        keys=tuple(keys),
        targets=tuple(targets),
        rows=tuple(rows[0]),
        value=value,
        of=of,
        compare=compare,
        replicated=np.mean(replicated, axis=0),
        disclosed=np.mean(disclosed, axis=0),
        compared=tuple(measured),
        held_out=held_out,
        seed_entropy=entropy,
    )


def _shares(target: str, counts: Counts) -> Measured:
    nan = float("nan")
    share = {name: float(count / of) if of else nan for name, (count, of) in counts.items()}
    return {
        (target, name): (share[name], float(of), share.get(CONTEXT[name].baseline, nan))
        for name, (_, of) in counts.items()
    }


def _codes(tables: Tables, name: str, groups: int | None) -> Coded:
    if groups is None:
        column = tables.column(name)
        return column.codes[: tables.m + 1], column.size
    if not is_numeric(tables.frames[0][name].dtype):
        raise InputError(f"groups names {name!r}, which holds no numbers; leave it out")
    whole_number(("groups", name), groups, 2)
    values = floats(tables, name)[: tables.m + 1]
    edges = group_edges(values[0], groups)
    return [group_of(v, edges) for v in values], len(edges) + 2


def _distance_columns(
    columns: Sequence[str], distances: Sequence[str] | bool, holdout: pd.DataFrame | None
) -> list[str]:
    if distances is False and holdout is not None:
        raise InputError("holdout is for distances, and `distances=False`; leave one of them out")
    if isinstance(distances, bool):
        distances = columns if distances else []
    chosen = known_columns("distances", distances, columns)
    labels = chosen if holdout is None else list(checked_table(holdout, "holdout").columns)
    absent = [c for c in chosen if c not in labels]
    if absent:
        raise InputError(f"holdout lacks column {absent[0]!r}; it has {labels}")
    return chosen


def _held_out(tables: Tables, measured: Sequence[str], holdout: pd.DataFrame) -> int:
    """Size of the samples that are compared; what could say nothing is refused."""
    n, h = tables.n, len(holdout)
    cure = "give records of the same population that the synthesiser has not seen"
    if not h:
        raise InputError(f"the holdout has no records; {cure}, or leave holdout out")
    least = int(np.ceil(round(n ** (2 / 3), 9)))
    if h < least:
        raise InputError(
            f"the holdout has {h:,} records beside {n:,} of the original, too few to distinguish "
            f"even a copy of it from chance: {50 + 50 * h / n:.3g} % of a copy are closer to as "
            f"many of the original's, and the standard error is up to {50 / h**0.5:.2g} %; give "
            f"at least {least:,}, or leave holdout out"
        )
    key, _ = combined_column([(tables.column(c).codes, tables.column(c).size) for c in measured])
    if shared := own_records(key[0], key[-1], (tables.index, holdout.index)):
        raise InputError(
            f"{shared:,} of {h:,} records of the holdout are the original's own in all "
            f"{len(measured):,} columns compared, more than chance explains; {cure}"
        )
    return min(n, h)


def _values(tables: Tables, name: str, l: int) -> Values:
    """A column of the original, release l and the holdout; of one value there it is a category."""
    parts, number = [], is_numeric(tables.frames[0][name].dtype)
    if number:
        parts = floats(tables, name)
        present = parts[0][~np.isnan(parts[0])]
        number = len(present) > 0 and present.max() - present.min() > ALIKE * np.abs(present).max()
    if not number:
        parts = [codes.astype(float) for codes in tables.column(name).codes]
    holdout = parts[tables.m + 1] if len(parts) > tables.m + 1 else parts[0][:0]
    return number, [parts[0], parts[l], holdout]
