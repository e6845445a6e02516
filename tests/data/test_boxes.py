"""The sums behind a radius: boxes and match counts against all pairs in whole numbers."""

from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bayes_risk._core.matching import PRIME, Cells, Matches, Weights, largest_sums
from bayes_risk.matching.boxes import Boxes, NumericKey, OwnRows, box_up, match_each, match_pooled
from tests.oracles.kernel_twins import cells_of, matches_of, within

Table = tuple[npt.NDArray[Any], npt.NDArray[Any], list[NumericKey]]


@st.composite
def tables(draw: st.DrawFn, n_keys: int | None = None) -> Table:
    """Exact keys (n,), (m, n), with strangers (-1); numeric keys with many ties."""
    n, m = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    u = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 1)))
    stays = st.sampled_from([True, True, True, False])
    other = draw(hnp.arrays(np.int64, (m, n), elements=st.integers(-1, 1)))
    z = np.where(draw(hnp.arrays(bool, (m, n), elements=stays)), u, other)
    values = st.sampled_from([-10.0, -9.0, -1.0, -0.0, 0.0, 1.0, 1.1, 9.0, 10.0, 11.0, 100.0])
    keys = [
        within(
            draw(hnp.arrays(float, n, elements=values)),
            draw(hnp.arrays(float, (m, n), elements=values)),
            draw(st.sampled_from([0, 0.1, 0.5, 1, 3.0])),
        )
        for _ in range(n_keys or draw(st.integers(1, 3)))
    ]
    return u, z, keys


def by_shares(
    match: npt.NDArray[np.bool_], n_us: Any, fallback: bool
) -> list[tuple[int, bool, bool]]:
    """(c, T, no match) of each target, pooled over the releases of `match`.

    The shares 1 / N of the releases are brought to their common denominator.
    """
    found = []
    for i in range(match.shape[1]):
        N = [max(hits, 1) for hits in match[:, i].sum(axis=1).tolist()]
        parts = [lcm(*N) // size for size in N]
        total = [0] * match.shape[1]
        for part, hits in zip(parts, match[:, i], strict=True):
            for j in np.flatnonzero(hits).tolist():
                total[j] += part
        best = max(total, default=0)
        if best > 0:
            found.append((sum(t == best for t in total), total[i] == best, False))
        else:
            found.append((int(n_us[i]) if fallback else 0, fallback, True))
    return found


def listed(found: Matches) -> list[tuple[int, bool, bool]]:
    parts = found.c, found.T, found.no_match
    return list(zip(*(part.tolist() for part in parts), strict=True))


def boxed(u: Any, z: Any, keys: list[NumericKey]) -> Boxes:
    return box_up(u, z, OwnRows.of(np.arange(len(u))), keys)


def pooled_of(boxes: Boxes, cells: Cells, **options: Any) -> list[Matches]:
    """Pooled, then leaving one out: an intruder who knows that his targets are in the file."""
    D = boxes.N.astype(float)
    return match_pooled(boxes, D, match_each(boxes, D, cells), cells, **options)


@pytest.mark.check
@settings(max_examples=60)
@given(tables(), st.booleans(), st.sampled_from([2**62, 2**10, 40, 8]))
def test_every_box_by_brute_force(table: Table, fallback: bool, largest: int) -> None:
    """Pooled, per release and leaving one out; a small `largest` leaves doubts to fractions."""
    u, z, keys = table
    match, cells, m = matches_of(u, z, keys), cells_of(u, fallback=fallback), len(z)
    n_us, boxes = cells.size, boxed(u, z, keys)
    assert boxes.N.tolist() == match.sum(axis=2).tolist()
    assert boxes.candidates()[1].tolist() == match.diagonal(axis1=1, axis2=2).tolist()
    each = match_each(boxes, boxes.N.astype(float), cells)
    for l in range(m):
        row = Matches(*(part[l] for part in each))
        assert listed(row) == by_shares(match[l : l + 1], n_us, fallback)
    pooled, *left_out = pooled_of(boxes, cells, largest=largest)
    assert listed(pooled) == by_shares(match, n_us, fallback)
    assert len(left_out) == (m if m > 2 else 0)
    for l, found in enumerate(left_out):
        assert listed(found) == by_shares(np.delete(match, l, axis=0), n_us, fallback)


@given(tables(n_keys=1), st.booleans())
def test_sliding_windows_and_looking_through_them_agree(table: Table, fallback: bool) -> None:
    """A key given twice is the same box, but takes the way of several keys."""
    u, z, keys = table
    cells = cells_of(u, fallback=fallback)
    one, two = (pooled_of(boxed(u, z, k), cells) for k in (keys, keys * 2))
    assert [listed(a) for a in one] == [listed(b) for b in two]


@pytest.mark.parametrize("n_keys", [1, 2])
@pytest.mark.parametrize(("m", "r"), [(2, 0.3), (5, 0.02), (5, 0.3), (8, 0.9), (12, 2.0)])
def test_wide_windows_by_brute_force(n_keys: int, m: int, r: float) -> None:
    """Large counts: the least common multiples exceed 64 bits, and residues tell ties apart."""
    rng = np.random.default_rng(m)
    n = 40
    u = rng.integers(0, 2, n)
    z = np.where(rng.random((m, n)) < 0.95, u, rng.integers(-1, 2, (m, n)))
    keys = [
        within(y := rng.normal(3, 4, n).round(1), y + rng.normal(0, 1, (m, n)).round(1), r)
        for _ in range(n_keys)
    ]
    match, cells = matches_of(u, z, keys), cells_of(u, fallback=True)
    n_us = cells.size
    pooled, *left_out = pooled_of(boxed(u, z, keys), cells)
    assert listed(pooled) == by_shares(match, n_us, True)
    for l, found in enumerate(left_out):
        assert listed(found) == by_shares(np.delete(match, l, axis=0), n_us, True)


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("n_targets", "n", "m", "groups"),
    [
        (1, 1, 1, 1),
        (1, 30, 2, 1),
        (30, 1, 2, 2),
        (60, 60, 1, 1),
        (90, 40, 2, 1),
        (80, 50, 2, 3),
        (40, 70, 3, 90),
    ],
)
@pytest.mark.parametrize(
    "shown",
    [
        [1.0],  # duplicates alone
        [-2.0, -1.0, -0.0, 0.0, 1.0, 2.0],
        [-1.0, 0.0, 1.0, 1.0 + 2**-52, INF, -INF],
        [0.0, 1.0, 2.0, NAN],
        [NAN],
        None,  # no ties
    ],
)
def test_counts_by_brute_force(
    shown: list[float] | None, n_targets: int, n: int, m: int, groups: int
) -> None:
    """Any number of targets and groups, some of them empty; intervals of one value, all or none."""
    n_keys = 1 + (n_targets + n + len(shown or [])) % 3
    rng = np.random.default_rng([n_targets, n, groups, n_keys])
    u, z = rng.integers(0, groups, n_targets), rng.integers(-1, groups, (m, n))
    keys = []
    for _ in range(n_keys):
        y = rng.integers(-2, 3, n_targets).astype(float)
        value = rng.choice(shown, (m, n)) if shown else rng.normal(size=(m, n))
        reach = rng.choice([0, 0, 1, 2.5, INF, -INF], n_targets)  # -INF: nothing is inside
        keys.append(NumericKey(y, y - reach, y + reach, value))
    match = matches_of(u, z, keys)
    for turned in (keys, keys[::-1]):
        boxes = box_up(u, z, OwnRows.of(np.full(n_targets, -1)), turned)
        assert boxes.N.tolist() == match.sum(axis=2).tolist()


def test_doubts_arise_where_sums_are_near_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """1/6 + 1/8 = 1/8 + 1/10 + 1/15 is told from its residue; two near sums by fractions."""
    from bayes_risk.matching import boxes as module

    asked: list[Any] = []
    in_fractions = largest_sums

    def watched(shows: Any, D: Any, without: int | None) -> Any:
        asked.append(D)
        return in_fractions(shows, D, without)

    monkeypatch.setattr(module, "largest_sums", watched)
    assert pool_one_target([6, 8], [8, 10, 15]).c[0] == 2
    assert asked == []
    near = pool_one_target([1776, 2083, 3674], [1515, 2276, 4632])  # 3 parts in 10^13
    assert (near.c[0], near.T[:2].tolist(), asked) == (1, [False, True], [])
    coarse = pool_one_target([1776, 2083, 3674], [1515, 2276, 4632], largest=2**40)
    assert (coarse.c[0], coarse.T[:2].tolist()) == (1, [False, True])
    assert asked


def pool_one_target(first: list[int], second: list[int], largest: int = 2**62) -> Matches:
    """Target 0: record 0 matches in the first releases, record 1 in the others, N as told."""
    counts = first + second
    value = np.full((len(counts), 2 + sum(counts)), 5.0)
    place = 2
    for l, N in enumerate(counts):
        value[l, 0 if l < len(first) else 1] = 1.0
        value[l, place : place + N - 1] = 1.0
        place += N - 1
    u = np.zeros(value.shape[1], dtype=np.int64)
    y = np.where(np.arange(len(u)) < 2, 1.0, -1.0)  # the others match nobody
    boxes = boxed(u, np.zeros_like(value, dtype=np.int64), [within(y, value, 0.1)])
    return pooled_of(boxes, cells_of(u, fallback=True), largest=largest)[0]


def test_residues_are_inverses_modulo_a_prime() -> None:
    assert PRIME == 2**61 - 1  # a Mersenne prime
    boxes = boxed(
        np.zeros(3, np.int64),
        np.zeros((2, 3), np.int64),
        [within(np.array([1.0, 2, 3]), np.array([[1.0, 1, 3], [2, 2, 2]]), 0)],
    )
    weights = Weights.of(boxes.N.astype(float), 100)
    assert weights.share.tolist() == [[50, 0], [0, 33], [100, 0]]
    assert (weights.residue.astype(object) * boxes.N.T % PRIME).tolist() == [
        *[[1, 0], [0, 1], [1, 0]]
    ]
