"""Sets of releases that show a key, counted in memory; and the sums that are rounded once."""

import itertools
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bayes_risk._core.matching import Chances, release_sets

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
