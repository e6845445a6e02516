"""Profiles: counting them is matching all pairs of records, however they are laid out and cut."""

import itertools
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_risk._core.matching import release_sets
from bayes_risk._core.profile_counts import Chances, _Keys, _Weights, add, tally
from bayes_risk._core.profiles import Heap, Layout, merge, record_profiles, split

K = 3  # levels of every key


@st.composite
def files(draw: Any) -> tuple[int, Any, Any, Any]:
    """m, and the digits of the known keys, the genuine and the released synthesised ones."""
    n, m = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    k, s = draw(st.sampled_from([(0, 1), (1, 0), (1, 1), (2, 2)]))

    def column() -> Any:
        return np.array(draw(st.lists(st.integers(0, K - 1), min_size=n, max_size=n)))

    known, target = [column() for _ in range(k)], [column() for _ in range(s)]
    return m, known, target, [[column() for _ in range(s)] for _ in range(m)]


def table_of(layout: Layout, known: Any, target: Any, released: Any, rows: slice) -> Any:
    return record_profiles(
        layout,
        [x[rows] for x in known],
        [x[rows] for x in target],
        [[x[rows] for x in shown] for shown in released],
    )


def by_pairs(m: int, known: Any, target: Any, released: Any, *, fallback: bool) -> dict[str, Any]:
    """Everything that is counted, record by record, in fractions."""
    n = len([*known, *target][0])
    us = [tuple(int(x[i]) for x in known) for i in range(n)]
    t = [tuple(int(x[i]) for x in target) for i in range(n)]
    z = [[tuple(int(x[j]) for x in shown) for j in range(n)] for shown in released]
    rows = [[l] for l in range(m)] + [list(range(m))]
    rows += [[k for k in range(m) if k != l] for l in range(m) if m > 2]
    counts, risks = [], []
    for kept in rows:
        found, risk = np.zeros(5, dtype=int), Fraction(0)
        for i in range(n):
            p = [Fraction(0)] * n
            for l in kept:
                who = [j for j in range(n) if us[j] == us[i] and z[l][j] == t[i]]
                for j in who:
                    p[j] += Fraction(1, len(who))
            nothing = not any(p)
            if nothing and fallback:
                p = [Fraction(us[j] == us[i]) for j in range(n)]
            best = [j for j in range(n) if p[j] == max(p) and p[j] > 0]
            c, T = len(best), i in best
            found += [c == 1 and T, c == 1 and not T, c == 1, nothing, c > 0]
            risk += Fraction(int(T), max(c, 1))
        counts.append(found)
        risks.append(risk)
    return {"n": n, "cells": len(set(us)), "counts": np.array(counts), "risks": risks}


@settings(max_examples=50)
@given(
    file=files(),
    fallback=st.booleans(),
    largest=st.sampled_from([3, 30, 1000, 2**62]),
    cut=st.integers(0, 8),
    parts=st.integers(1, 3),
)
def test_counted_profiles_are_all_pairs_matched(file, fallback, largest, cut, parts):
    m, known, target, released = file
    n = len([*known, *target][0])
    layout = Layout.of([K] * len(known), [K] * len(target), m, largest=largest)
    heap = Heap()
    for rows in (slice(0, cut), slice(cut, n)):
        if len(range(n)[rows]):
            heap.add(table_of(layout, known, target, released, rows))
    cells = split(heap.total(), layout, parts)
    found = add([tally(part, layout, fallback=fallback) for part in cells if len(part.records)])
    wanted = by_pairs(m, known, target, released, fallback=fallback)
    assert (found.n, found.cells) == (wanted["n"], wanted["cells"])
    np.testing.assert_array_equal(found.counts, wanted["counts"])
    risks = [
        sum((Fraction(t, c) for c, t in zip(*map(np.ndarray.tolist, chances), strict=True)), 0)
        for chances in found.chances
    ]
    assert risks == wanted["risks"]


@given(file=files(), largest=st.sampled_from([3, 30, 2**62]))
def test_digits_come_back_from_their_words(file, largest):
    m, known, target, released = file
    layout = Layout.of([K] * len(known), [K] * len(target), m, largest=largest)
    table = table_of(layout, known, target, released, slice(None))
    digits = np.array([layout.digit(table.words, j) for j in range(len(layout.radix))])
    rows = [tuple(row) for row in digits.T.tolist()]
    assert rows == sorted(set(rows))
    held = {row[: layout.n_keys]: 0 for row in rows}
    for row, count in zip(rows, table.records.tolist(), strict=True):
        held[row[: layout.n_keys]] += count * row[-1]
    keys = [tuple(int(x[i]) for x in [*known, *target]) for i in range(len([*known, *target][0]))]
    assert {key: count for key, count in held.items() if count} == {
        key: keys.count(key) for key in keys
    }


def test_a_record_has_one_profile_a_key_that_it_holds_or_shows():
    """Holds 0; shows 1, 1 and 0: it holds 0 and shows it in the third, shows 1 in two."""
    layout = Layout.of([], [2], 3)
    table = record_profiles(layout, [], [np.array([0])], [[np.array([d])] for d in (1, 1, 0)])
    rows = [[int(layout.digit(table.words[:, [p]], j)[0]) for j in range(5)] for p in range(3)]
    assert rows == [[0, 0, 0, 1, 0], [0, 0, 0, 1, 1], [1, 1, 1, 0, 0]]
    assert table.records.tolist() == [1, 1, 1]


def test_words_are_filled_before_a_new_one_is_begun():
    layout = Layout.of([2**30, 2**30], [2**30, 10], 2)
    assert layout.n_words == 2
    assert layout.word == (0, 0, 1, 1, 1, 1, 1)
    assert layout.stride == (2**30, 1, 80, 8, 4, 2, 1)


def test_equal_records_add_up_whatever_the_order_of_the_parts():
    rng = np.random.default_rng(0)
    layout = Layout.of([3], [4], 2, largest=20)
    parts = [
        record_profiles(
            layout,
            [rng.integers(0, 3, 50)],
            [rng.integers(0, 4, 50)],
            [[rng.integers(0, 4, 50)] for _ in range(2)],
        )
        for _ in range(5)
    ]
    whole = merge(parts)
    again = merge([merge(parts[3:]), merge(parts[:3][::-1])])
    np.testing.assert_array_equal(whole.words, again.words)
    np.testing.assert_array_equal(whole.records, again.records)
    assert int(whole.records.sum()) == sum(int(part.records.sum()) for part in parts)


# --- ties ----------------------------------------------------------------------------------------


def weighed(counts: list[list[int]]) -> Any:
    """One key; set b of releases is shown by one record for each non-empty b; N as given."""
    N = np.array(counts, dtype=np.int64).T
    m = len(N)
    sets = np.array([s for s in itertools.product([0, 1], repeat=m) if any(s)], dtype=bool)
    ones = np.ones(len(sets), dtype=np.int64)
    keys = _Keys(
        np.array([0]), 0 * ones, sets.T, ones, 0 * ones, np.array([1]), N, np.array([1]), 1
    )
    return keys, sets


@pytest.mark.parametrize("largest", [1, 2**62])
def test_equal_sums_of_other_fractions_tie(largest):
    """1/6 + 1/8 = 1/8 + 1/10 + 1/15: with the sets {1, 2} and {2, 3, 4} alone, both are best."""
    keys, sets = weighed([[6, 8, 10, 15]])
    two = [int(np.flatnonzero((sets == s).all(axis=1))[0]) for s in ([1, 1, 0, 0], [0, 1, 1, 1])]
    keys = keys._replace(
        key=keys.key[two], bits=keys.bits[:, two], shown=keys.shown[two], held=keys.held[two]
    )
    assert _Weights.of(keys.N, largest=largest).best(keys, None).tolist() == [True, True]
    assert _Weights.of(keys.N, largest=largest).best(keys, 2).tolist() == [True, False]


@pytest.mark.parametrize("largest", [1, 2**62])
def test_sums_that_differ_in_the_thirteenth_digit_do_not_tie(largest):
    keys, sets = weighed([[1776, 2083, 3674, 1515, 2276, 4632]])
    two = [
        np.flatnonzero((sets == s).all(axis=1))[0] for s in ([1] * 3 + [0] * 3, [0] * 3 + [1] * 3)
    ]
    keys = keys._replace(
        key=keys.key[two], bits=keys.bits[:, two], shown=keys.shown[two], held=keys.held[two]
    )
    first = Fraction(1, 1776) + Fraction(1, 2083) + Fraction(1, 3674)
    second = Fraction(1, 1515) + Fraction(1, 2276) + Fraction(1, 4632)
    wanted = [first > second, second > first]
    assert _Weights.of(keys.N, largest=largest).best(keys, None).tolist() == wanted


def test_multiples_that_leave_64_bits_are_compared_in_fractions():
    counts = [999_983, 999_979, 999_961, 999_959, 999_953]
    weights = _Weights.of(np.array([counts]).T)
    assert weights.long.tolist() == [True]
    keys, sets = weighed([counts])
    best = weights.best(keys, None)
    assert sets[best].tolist() == [[True] * 5]


# --- sums ----------------------------------------------------------------------------------------


def test_sums_are_rounded_once():
    chances = Chances.of(np.array([3, 10, 3]), np.array([1, 7, 5]))
    assert chances.c.tolist() == [3, 10] and chances.targets.tolist() == [6, 7]
    assert chances.expected() == 2.7
    assert Chances.of(np.array([4]), np.array([0])).expected() == 0.0


def test_chances_of_single_targets_are_those_of_their_counts():
    c, T = np.array([0, 2, 2, 5, 1]), np.array([False, True, True, True, False])
    by_target, by_count = Chances.of_targets(c, T), Chances.of(np.array([2, 5]), np.array([2, 1]))
    assert by_target.c.tolist() == by_count.c.tolist()
    assert by_target.expected() == by_count.expected() == 1.2


# --- sets of releases, in memory -----------------------------------------------------------------


@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 12),
    m=st.integers(1, 5),
    n_keys=st.sampled_from([1, 3, 4000]),
    largest=st.sampled_from([1, 2**62]),
)
def test_records_that_show_a_key_in_the_same_releases_are_counted_together(
    seed, n, m, n_keys, largest
):
    rng = np.random.default_rng(seed)
    z, u = rng.integers(-1, n_keys, (m, n)) // 2 * 2, rng.integers(0, n_keys, n)
    place = rng.integers(-1, n, n)
    found = release_sets(u, z, place, n_keys, largest=largest)
    pairs = [(int(key), j) for j in range(n) for key in set(z[:, j].tolist()) if key >= 0]
    wanted = Counter((key, tuple(z[:, j] == key)) for key, j in pairs)
    sets = list(zip(found.u.tolist(), map(tuple, found.shows.T), strict=True))
    records = Counter(itertools.chain.from_iterable(map(itertools.repeat, sets, found.records)))
    assert records == wanted and (largest == 1 or len(sets) == len(wanted))
    assert found.u.tolist() == sorted(found.u.tolist())
    for i in range(n):
        own = place[i] >= 0 and (int(u[i]), tuple(z[:, place[i]] == u[i])) in wanted
        assert (found.own[i] >= 0) == own
        assert not own or sets[found.own[i]] == (u[i], tuple(z[:, place[i]] == u[i]))
    start, release = found.entries()
    ends = [*start[1:], len(release)][: len(start)]
    for p, (low, high) in enumerate(zip(start, ends, strict=True)):
        assert release[low:high].tolist() == np.flatnonzero(found.shows[:, p]).tolist()
