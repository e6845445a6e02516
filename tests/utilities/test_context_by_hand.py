"""Context measures of random tables, record by record in plain Python: dictionaries and fractions.

Nothing here is taken from the library but the call itself. Missing values are None.
"""

from collections import Counter
from fractions import Fraction
from math import sqrt
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk._core.nearest import Points, nearest

Row = tuple[Any, ...]
DAYS = [f"2020-0{m}-1{d}" for m in (1, 2) for d in (1, 2)]
KINDS: dict[str, tuple[list[Any], list[str]]] = {
    "whole": ([0, 1, 2, 5, -3], ["int64", "int8", "Int64", "float64", "int64[pyarrow]"]),
    "gaps": ([0, 1, 2, 5, None], ["Int64", "float64", "Float32"]),
    "quarters": ([0.25, -1.5, 2.75, 0.5], ["float64", "float32", "Float64"]),
    "decimals": ([0.1, 0.3, 1.1, -12.4, None], ["float64", "Float64"]),
    "same": ([7], ["int64", "float64", "Int64"]),
    "seldom": ([7, 7, 7, 7, 8, None], ["float64", "Int64"]),
    "text": (["a", "B", "c d", "é"], ["object", "string", "category"]),
    "words": (["a", "b", None], ["object", "string", "category"]),
    "flag": ([True, False], ["bool", "boolean", "object"]),
    "maybe": ([True, False, None], ["boolean", "object"]),
    "day": ([*DAYS, None], ["datetime64[ns]"]),
}
NUMBERS = ("whole", "gaps", "quarters", "decimals", "same", "seldom")


def table_of(rows, kinds, rng):
    columns = {}
    for j, kind in enumerate(kinds):
        values, dtype = [row[j] for row in rows], str(rng.choice(KINDS[kind][1]))
        column = pd.Series(values, dtype=object)
        if dtype != "object":
            column = column.astype(dtype)
        if dtype == "category" and rng.random() < 0.5:  # levels that no record has, turned round
            column = column.cat.add_categories(["zz"])
            column = column.cat.reorder_categories(list(column.cat.categories[::-1]))
        columns[f"{kind}{j}"] = column
    return pd.DataFrame(columns)


def by_hand(d: list[Row], s: list[Row], target: int) -> dict[tuple[str, str], Fraction | None]:
    """Every share; the last column but that of the target are no keys: keys are columns 0 and 1."""

    def key(row: Row) -> Row:
        return row[:2]

    in_d, in_s = Counter(map(key, d)), Counter(map(key, s))
    pair_d, pair_s = (Counter((key(r), r[target]) for r in rows) for rows in (d, s))
    targets_d, targets_s = ({k: set() for k in counts} for counts in (in_d, in_s))  # type: ignore
    for rows, shown in ((d, targets_d), (s, targets_s)):
        for r in rows:
            shown[key(r)].add(r[target])
    dis = [r for r in d if len(targets_s.get(key(r), ())) == 1]
    disco = [r for r in dis if r[target] in targets_s[key(r)]]
    iso = [r for r in d if key(r) in in_s]
    margin, t = Counter(r[target] for r in d), "t"
    N, N_s = len(d), len(s)
    unique = [r for r in d if in_d[key(r)] == 1]

    def of(count: Any, many: int) -> Fraction | None:
        return Fraction(count) / many if many else None

    return {
        ("", "uio"): of(len(unique), N),
        ("", "uis"): of(sum(in_s[key(r)] == 1 for r in s), N_s),
        ("", "uiois"): of(sum(in_s[key(r)] > 0 for r in unique), N),
        ("", "repu"): of(sum(in_s[key(r)] == 1 for r in unique), N),
        (t, "dorig"): of(sum(len(targets_d[key(r)]) == 1 for r in d), N),
        (t, "dsyn"): of(sum(len(targets_s[key(r)]) == 1 for r in s), N_s),
        (t, "iso"): of(len(iso), N),
        (t, "dis"): of(len(dis), N),
        (t, "disco"): of(len(disco), N),
        (t, "disdio"): of(sum(len(targets_d[key(r)]) == 1 for r in disco), N),
        (t, "correct"): of(len(disco), len(dis)),
        (t, "base_cap"): of(sum(Fraction(margin[r[target]], N) for r in d), N),
        (t, "capd"): of(sum(Fraction(pair_d[key(r), r[target]], in_d[key(r)]) for r in d), N),
        (t, "caps"): of(sum(Fraction(pair_s[key(r), r[target]], in_s[key(r)]) for r in s), N_s),
        (t, "dcap"): of(sum(Fraction(pair_s[key(r), r[target]], in_s[key(r)]) for r in iso), N),
        (t, "tcap"): of(len(disco), len(iso)),
    }


def square(a: Row, b: Row, ranges: list[Fraction | None]) -> Fraction:
    """Squared distance; range None: a category."""
    total = Fraction(0)
    for x, y, size in zip(a, b, ranges, strict=True):
        if x is None or y is None or size is None:
            total += (x is None) != (y is None) or x != y
        else:
            total += ((Fraction(str(x)) - Fraction(str(y))) / size) ** 2
    return total


def ranges_of(d: list[Row], kinds: list[str]) -> list[Fraction | None]:
    found: list[Fraction | None] = []
    for j, kind in enumerate(kinds):
        held = [Fraction(str(r[j])) for r in d if r[j] is not None] if kind in NUMBERS else []
        spread = max(held) - min(held) if held else 0
        found.append(Fraction(spread) if spread else None)
    return found


def quantile(values: list[float], share: float) -> float:
    place = share * (len(values) - 1)
    low, ordered = int(place), sorted(values)
    high = min(low + 1, len(values) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def drawn(rng: np.random.Generator, kinds: list[str], n: int, like: list[Row]) -> list[Row]:
    """Rows, of which some are copies."""
    rows = []
    for _ in range(n):
        row = tuple(KINDS[k][0][rng.integers(len(KINDS[k][0]))] for k in kinds)
        rows.append(like[rng.integers(len(like))] if like and rng.random() < 0.3 else row)
    return rows


@pytest.mark.check
@pytest.mark.parametrize("seed", range(10))
def test_every_measure_of_random_tables(seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        kinds = [str(k) for k in rng.choice(list(KINDS), int(rng.integers(3, 6)))]
        with_holdout = bool(rng.random() < 0.4)
        n = int(rng.integers(16, 22)) if with_holdout else int(rng.integers(2, 14))
        d = drawn(rng, kinds, n, [])
        for j in range(len(kinds)):  # a column of which the original has nothing
            if None in KINDS[kinds[j]][0] and kinds[j] in NUMBERS and rng.random() < 0.1:
                d = [(*r[:j], None, *r[j + 1 :]) for r in d]
        s = drawn(rng, kinds, int(rng.integers(2, 14)) + 12 * with_holdout, d)
        h = drawn(rng, kinds, n, []) if with_holdout else []
        frames = [table_of(rows, kinds, rng) for rows in (d, s, h)]
        names = list(frames[0])
        found = br.context_measures(
            frames[0],
            frames[1].set_axis(names, axis=1),
            keys=names[:2],
            target=names[2],
            holdout=frames[2] if with_holdout else None,
        ).summary()
        for (of, measure), value in by_hand(d, s, 2).items():
            got = found.loc[(names[2] if of else "", measure), "value"]
            want = np.nan if value is None else float(value)
            assert got == pytest.approx(want, nan_ok=True, abs=1e-12), (measure, d, s)
        ranges = ranges_of(d, kinds)
        near = [min(square(r, o, ranges) for o in d) for r in s]
        own = [
            min(square(r, o, ranges) for j, o in enumerate(d) if j != i) for i, r in enumerate(d)
        ]
        for column, squares in (("value", near), ("compare", own)):
            far = [sqrt(x) for x in squares]
            want = [far.count(0) / len(far), median(far), quantile(far, 0.05)]
            got = found[column].loc[[("", f"dcr_{x}") for x in ("zero", "median", "5_percent")]]
            assert got.tolist() == pytest.approx(want, abs=1e-9), (column, d, s)
        if with_holdout:
            held = [min(square(r, o, ranges) for o in h) for r in s]
            closer = sum((a < b) + Fraction(a == b, 2) for a, b in zip(near, held, strict=True))
            got = found.loc[("", "closer_than_holdout"), "value"]
            assert got == pytest.approx(float(closer / len(s))), (d, s, h)


def all_pairs(points, asked, own):
    """`nearest`, of all pairs at once."""
    codes = (points.codes[None] != asked.codes[:, None]).sum(axis=2)
    a, b = np.isnan(points.numbers[None]), np.isnan(asked.numbers[:, None])
    step = np.where(a | b, 1.0 * (a != b), points.numbers[None] - asked.numbers[:, None])
    total = codes + (step**2).sum(axis=2)
    if own is not None:
        total[np.arange(len(own)), own] = np.inf
    return np.sqrt(total.min(axis=1))


@pytest.mark.parametrize("seed", range(6))
def test_blocks_leave_nothing_nearer_out(seed: int) -> None:
    """Against all pairs: many blocks, levels and missing numbers; values outside the range."""
    rng = np.random.default_rng(seed)
    for n, C, K in [(1, 1, 1), (2, 0, 1), (65, 2, 0), (700, 1, 2), (1500, 3, 3), (900, 0, 4)]:
        tables = []
        for size in (n, 200):
            codes = rng.integers(0, rng.choice([2, 5, 400], C), (size, C)).astype(np.int32)
            numbers = rng.normal(size=(size, K)) * rng.choice([0.1, 1, 20], K)
            lost = rng.random((size, K)) < rng.choice([0, 0.3, 0.98], K)
            tables.append(Points(codes, np.where(lost, np.nan, numbers)))
        points, asked = tables
        np.testing.assert_allclose(nearest(points, asked), all_pairs(points, asked, None))
        own = rng.permutation(n)[:100]
        if n > 1:
            found = nearest(points, points.only(own), own)
            np.testing.assert_allclose(found, all_pairs(points, points.only(own), own))
        else:
            assert np.isnan(nearest(points, points.only(own), own)).all()
