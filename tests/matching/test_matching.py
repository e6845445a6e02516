"""Match counts and pooled probabilities against all pairs in plain Python fractions."""

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bayes_risk._core.matching import (
    LARGEST,
    Cells,
    Chances,
    Combinations,
    Matches,
    count_matches,
    distinct_rows,
    jackknife_error,
    number_keys,
)
from bayes_risk.matching import parquet_counts
from bayes_risk.matching.boxes import OwnRows, box_up, match_each, match_pooled
from tests.oracles.kernel_twins import cells_of

Ids = npt.NDArray[np.int64]


# --- the oracle: every target against every record of every release ----------------------------


def candidates(probability: list[Fraction], i: int) -> tuple[int, bool]:
    """c_i and T_i from Pr(J = j | t_i), j = 1..n."""
    best = max(probability)
    if best == 0:
        return 0, False
    return sum(p == best for p in probability), probability[i] == best


def all_pairs(
    us: list[Any], t: list[Any], z: list[list[Any]], *, fallback: bool
) -> tuple[list[list[tuple[int, bool]]], list[tuple[int, bool]]]:
    """(c, T) by release and record, and pooled by record, straight from the definition."""
    n, m = len(t), len(z)
    each: list[list[tuple[int, bool]]] = [[] for _ in range(m)]
    pooled = []
    for i in range(n):
        total = [Fraction(0)] * n
        for l in range(m):
            match = [z[l][j] == t[i] for j in range(n)]
            if not any(match) and fallback:
                match = [us[j] == us[i] for j in range(n)]
            probability = [Fraction(hit, max(sum(match), 1)) for hit in match]
            each[l].append(candidates(probability, i))
            total = [a + b / m for a, b in zip(total, probability, strict=True)]
        pooled.append(candidates(total, i))
    return each, pooled


def pooled_of(u: Ids, z: Ids, cells: Cells, **options: Any) -> list[Matches]:
    """Candidates of an intruder who knows that his targets are in the file.

    In each release; pooled; without each.
    """
    boxes = box_up(u, z, OwnRows.of(np.arange(len(u))), [])
    each = match_each(boxes, boxes.N.astype(float), cells)
    return [each, *match_pooled(boxes, boxes.N.astype(float), each, cells, **options)]


def as_pairs(found: Matches) -> list[Any]:
    if found.c.ndim == 2:
        return [
            list(zip(c.tolist(), T.tolist(), strict=True))
            for c, T in zip(found.c, found.T, strict=True)
        ]
    return list(zip(found.c.tolist(), found.T.tolist(), strict=True))


@st.composite
def files(draw: st.DrawFn) -> tuple[Ids, Ids, Ids]:
    """Unsynthesised cell (n,), target key (n,), released key (m, n): few levels, many ties."""
    n, m = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    levels = st.integers(0, draw(st.integers(0, 3)))
    us = draw(hnp.arrays(np.int64, n, elements=st.integers(0, draw(st.integers(0, 2)))))
    return (
        us,
        draw(hnp.arrays(np.int64, n, elements=levels)),
        draw(hnp.arrays(np.int64, (m, n), elements=levels)),
    )


@given(files(), st.booleans(), st.sampled_from([LARGEST, 2**10, 40, 8]))
def test_every_pair_by_brute_force(
    file: tuple[Ids, Ids, Ids], fallback: bool, largest: int
) -> None:
    """A small `largest` leaves doubts to fractions."""
    us, s, released = file
    u, z = number_keys(us * 10 + s, us * 10 + released)
    each, pooled = all_pairs(
        us.tolist(), (us * 10 + s).tolist(), (us * 10 + released).tolist(), fallback=fallback
    )
    found = pooled_of(u, z, cells_of(us, fallback=fallback), largest=largest)
    assert as_pairs(found[0]) == each
    assert as_pairs(found[1]) == pooled


@given(files(), st.booleans(), st.sampled_from([LARGEST, 16]))
def test_leaving_a_release_out_is_the_same_as_not_having_it(
    file: tuple[Ids, Ids, Ids], fallback: bool, largest: int
) -> None:
    us, s, released = file
    released = np.vstack([released, released[:1], released[:1]])  # so that two remain
    u, z = number_keys(us * 10 + s, us * 10 + released)
    cells = cells_of(us, fallback=fallback)
    for l, without in enumerate(pooled_of(u, z, cells, largest=largest)[2:]):
        assert as_pairs(without) == as_pairs(pooled_of(u, np.delete(z, l, axis=0), cells)[1])


@given(files(), st.permutations(range(5)))
def test_the_order_of_the_releases_does_not_matter(
    file: tuple[Ids, Ids, Ids], order: list[int]
) -> None:
    us, s, released = file
    u, z = number_keys(us * 10 + s, us * 10 + released)
    shuffled = z[[l for l in order if l < len(z)]]
    cells = cells_of(us, fallback=True)
    found, again = (pooled_of(u, rows, cells)[1] for rows in (z, shuffled))
    assert as_pairs(found) == as_pairs(again)


@given(files(), st.booleans(), st.sampled_from([LARGEST, 2**10, 40, 8]))
def test_keys_counted_by_sets_of_releases_have_the_same_candidates(
    file: tuple[Ids, Ids, Ids], fallback: bool, largest: int
) -> None:
    """As Parquet files are counted; a small `largest` leaves doubts to fractions."""
    us, s, released = file
    u, z = number_keys(us * 10 + s, us * 10 + released)
    m, cells = len(z), cells_of(us, fallback=fallback)
    every = [*zip(*z.tolist(), strict=True)]
    sets = Counter((k, *(k == of for of in row)) for row in every for k in {*row} - {-1})
    held = Counter((k, *(k == of for of in row)) for k, row in zip(u.tolist(), every, strict=True))
    profiles = sorted({*sets, *held})
    columns = {
        name: np.array(column)
        for name, column in zip(
            ["c0", *(f"s{l}" for l in range(1, m + 1))], zip(*profiles, strict=True), strict=True
        )
    }
    columns["records"] = np.array([sets[one] for one in profiles])
    columns["targets"] = np.array([held[one] for one in profiles])
    size = dict(zip(u.tolist(), cells.size.tolist(), strict=True))
    columns["size"] = np.array([size[one[0]] for one in profiles])
    each, *pooled = pooled_of(u, z, cells)
    wanted = [*(Matches(*(part[l] for part in each)) for l in range(m)), *pooled]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(match_pooled, "__kwdefaults__", {"left_out": True, "largest": largest})
        found = parquet_counts._match(columns, m, ["c0"], fallback)
    assert found.n == len(u)
    for counts, chances, one in zip(found.counts, found.chances, wanted, strict=True):
        flags = one.K, one.F, one.no_match, one.c > 0
        assert counts.tolist() == [flag.sum() for flag in flags]
        assert [x.tolist() for x in chances] == [
            x.tolist() for x in Chances.of_targets(one.c, one.T)
        ]


# --- ties are exact ------------------------------------------------------------------------------


def two_candidates(first: list[int], second: list[int]) -> Ids:
    """One target key; record 0 holds it in the first releases, record 1 in the others.

    In each release `N` records hold the key in all; no third record holds it twice.
    """
    counts = first + second
    z = np.full((len(counts), 2 + sum(counts)), -1, dtype=np.int64)
    place = 2
    for l, N in enumerate(counts):
        z[l, 0 if l < len(first) else 1] = 0
        z[l, place : place + N - 1] = 0
        place += N - 1
    assert count_matches(z, 1)[:, 0].tolist() == counts
    return z


def pool_one_key(z: Ids, largest: int) -> Matches:
    u = np.zeros(z.shape[1], dtype=np.int64)
    return pooled_of(u, z, cells_of(u, fallback=True), largest=largest)[1]


@pytest.mark.parametrize("largest", [LARGEST, 16])
def test_equal_fractions_tie_though_their_floats_differ(largest: int) -> None:
    assert 1 / 6 + 1 / 8 != 1 / 8 + 1 / 10 + 1 / 15
    found = pool_one_key(two_candidates([6, 8], [8, 10, 15]), largest)
    assert found.c[0] == 2
    assert found.T[:3].tolist() == [True, True, False]


def test_unequal_fractions_never_tie_however_close() -> None:
    first, second = [1776, 2083, 3674], [1515, 2276, 4632]
    a, b = (sum(Fraction(1, N) for N in counts) for counts in (first, second))
    assert 0 < b - a < Fraction(1, 10**12) * a  # a tolerance of 1e-12 would take them for equal
    found = pool_one_key(two_candidates(first, second), 2**62)
    assert found.c[0] == 1
    assert found.T[:2].tolist() == [False, True]


def test_counts_whose_multiple_exceeds_64_bits_are_compared_all_the_same() -> None:
    z = two_candidates([2003, 2011, 2017], [2027, 2029, 2039])  # primes: multiple about 7e19
    assert pool_one_key(z, LARGEST).T[:2].tolist() == [True, False]


# --- cells ---------------------------------------------------------------------------------------


def numbers(digits: list[Ids], levels: list[int], n: int, largest: int = LARGEST) -> Ids:
    cells = Combinations(n, largest)
    for digit, size in zip(digits, levels, strict=True):
        cells.add(digit, size)
    return cells.number


@pytest.mark.parametrize("shape", [(0, 3), (5, 0), (400, 1), (400, 6)])
def test_distinct_rows_are_those_of_numpy(shape):
    rng = np.random.default_rng(0)
    for table in (
        rng.integers(-100, 100, shape).astype(np.int8),
        rng.integers(0, 4, shape) * 2**61 - 2**62,
        rng.integers(0, 2, shape).astype(bool),
        rng.integers(0, 5, shape) / 7 - 0.3,
    ):
        first, which, count = distinct_rows(table)
        if shape[1]:
            rows, place, times = np.unique(table, axis=0, return_inverse=True, return_counts=True)
            assert (table[first] == rows).all() and (which == place.ravel()).all()
            assert (count == times).all()
            assert (np.unique(which, return_index=True)[1] == first).all()
        else:
            assert first.tolist() == [0] and count.tolist() == [5]


def test_missing_numbers_are_alike_in_distinct_rows():
    table = np.array([[1.0, np.nan], [0.0, 2.0], [1.0, np.nan], [1.0, 5.0]])
    first, which, count = distinct_rows(table)
    assert first.tolist() == [1, 3, 0] and which.tolist() == [2, 0, 2, 1]
    assert count.tolist() == [1, 1, 2]


@given(
    st.lists(st.integers(1, 6), max_size=6).flatmap(
        lambda d: st.tuples(
            st.just(d),
            st.lists(st.tuples(*(st.integers(0, k - 1) for k in d)), min_size=1, max_size=12),
        )
    ),
    st.sampled_from([2**62, 20, 1]),
)
def test_codes_are_equal_exactly_where_all_digits_are(
    file: tuple[list[int], list[tuple[int, ...]]], largest: int
) -> None:
    levels, rows = file
    digits = [np.array([row[j] for row in rows]) for j in range(len(levels))]
    code = numbers(digits, levels, len(rows), largest)
    assert code.dtype == np.int64
    assert [[a == b for a in rows] for b in rows] == (code[:, None] == code).tolist()


def test_more_cells_than_64_bits_can_number() -> None:
    rng = np.random.default_rng(1)
    levels = [1000] * 30  # 10^90 cells
    digits = [rng.integers(0, 1000, 500) for _ in levels]
    digits = [np.concatenate([d, d[:100]]) for d in digits]
    digits[-1][599] = (digits[-1][599] + 1) % 1000  # the last record differs in its last key only
    code = numbers(digits, levels, 600)
    assert (code[500:599] == code[:99]).all()
    assert len(np.unique(code)) == 501
    assert code.min() >= 0


@given(files(), st.integers(0, 2**40))
def test_keys_are_found_by_table_and_by_search_alike(file: tuple[Ids, Ids, Ids], far: int) -> None:
    _, target, released = file
    u, z = number_keys(target * (far + 1), released * (far + 1))
    v, w = number_keys(target, released)
    assert u.tolist() == v.tolist()
    assert z.tolist() == w.tolist()
    names = sorted(set(target.tolist()))
    assert [names[k] for k in u] == target.tolist()
    assert z.tolist() == [
        [names.index(k) if k in names else -1 for k in row] for row in released.tolist()
    ]


def test_counts_of_matches() -> None:
    z = np.array([[0, 0, -1], [2, -1, 0]])
    assert count_matches(z, 3).tolist() == [[2, 0, 0], [1, 0, 1]]


def test_the_flags_follow_from_c_and_T() -> None:
    c, T = np.array([1, 1, 2, 2, 0]), np.array([True, False, True, False, False])
    found = Matches(c, T, np.where(c == 1, 0, -1), c == 0, c / 4, c / 2)
    assert found.K.tolist() == [True, False, False, False, False]
    assert found.F.tolist() == [False, True, False, False, False]
    assert found.probability.tolist() == [1, 0, 0.5, 0, 0]
    assert found.outside.tolist() == [0.5, 0.5, 0, 0, 1]


def test_jackknife_of_a_mean_is_its_standard_error() -> None:
    x = np.array([1.0, 4.0, 2.0, 7.0])
    left_out = np.array([np.delete(x, l).mean() for l in range(4)])
    assert jackknife_error(left_out) == pytest.approx(x.std(ddof=1) / 2)


def test_sums_are_rounded_once() -> None:
    chances = Chances.of(np.array([3, 10, 3]), np.array([1, 7, 5]))
    assert chances.c.tolist() == [3, 10] and chances.targets.tolist() == [6, 7]
    assert chances.expected() == 2.7
    assert Chances.of(np.array([4]), np.array([0])).expected() == 0.0


def test_chances_of_single_targets_are_those_of_their_counts() -> None:
    c, T = np.array([0, 2, 2, 5, 1]), np.array([False, True, True, True, False])
    by_target, by_count = Chances.of_targets(c, T), Chances.of(np.array([2, 5]), np.array([2, 1]))
    assert by_target.c.tolist() == by_count.c.tolist()
    assert by_target.expected() == by_count.expected() == 1.2
