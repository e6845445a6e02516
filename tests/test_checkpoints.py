"""Steps kept on disk: looked up, whole or not there, the same bytes with and without a stop."""

import errno
import json
from dataclasses import dataclass

import numpy as np
import pytest

from bayes_risk._core.steps import (
    Later,
    Packing,
    keeping,
    kept,
    kept_blocks,
    list_of,
    packing_of,
    within,
)
from bayes_risk._core.steps import store as step_store
from bayes_risk._core.steps.store import JOURNAL, Store
from bayes_risk._core.workers import in_order

ARRAY = Packing(lambda a: {"values": a}, lambda found: found["values"])


@dataclass(frozen=True)
class Pair:
    """A result of arrays and numbers."""

    values: np.ndarray
    count: int
    rest: np.ndarray | None = None


class Counted:
    """A computation that counts how often it is done."""

    def __init__(self, value):
        self.value, self.times = value, 0

    def __call__(self):
        self.times += 1
        return self.value


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "steps"


def again(folder, steps):
    """Run steps in a store opened anew, as another run would."""
    with keeping(Store(folder)):
        return steps()


def test_without_a_store_nothing_is_kept():
    work = Counted(np.arange(3))
    assert [kept("step", work, ARRAY) is work.value for _ in range(2)] == [True, True]
    assert work.times == 2


def test_a_finished_step_is_not_computed_again(folder):
    work = Counted(np.arange(3.0))
    for _ in range(3):
        np.testing.assert_array_equal(again(folder, lambda: kept("step", work, ARRAY)), [0, 1, 2])
    assert work.times == 1


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.5, np.nan, -np.inf]),
        np.array(7),
        np.array([True, False]),
        np.zeros((0, 3)),
        np.arange(6, dtype=np.int8).reshape(2, 3).T,
        np.array([0.1, 0.2], dtype=np.float32),
    ],
    ids=["special", "scalar", "flags", "empty", "transposed", "float32"],
)
def test_arrays_come_back_bit_by_bit(folder, array):
    for _ in range(2):  # written, then read
        found = again(folder, lambda: kept("step", lambda: array, ARRAY))
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.tobytes() == array.tobytes()
        assert found.flags.c_contiguous


def test_dataclasses_come_back(folder):
    pair = Pair(np.arange(2), 5)
    for _ in range(2):
        found = again(folder, lambda: kept("step", lambda: pair, packing_of(Pair)))
        assert (found.count, found.rest) == (5, None)
        np.testing.assert_array_equal(found.values, pair.values)


def test_lists_come_back_in_order(folder):
    given = [np.array([float(k)]) for k in range(12)]
    for _ in range(2):
        found = again(folder, lambda: kept("step", lambda: given, list_of(ARRAY)))
        assert [float(a[0]) for a in found] == list(range(12))


def test_the_same_name_again_is_another_step(folder):
    def steps():
        return [int(kept("step", lambda k=k: np.array(k), ARRAY)) for k in range(3)]

    assert again(folder, steps) == again(folder, steps) == [0, 1, 2]


def test_a_skipped_step_does_not_shift_its_neighbours(folder):
    """Steps within a finished one are not asked for; those after it keep their places."""
    inner, after = Counted(np.array(1)), Counted(np.array(2))

    def steps():
        first = kept("outer", lambda: kept("step", inner, ARRAY), ARRAY)
        return int(first), int(kept("step", after, ARRAY))

    assert again(folder, steps) == again(folder, steps) == (1, 2)
    assert (inner.times, after.times) == (1, 1)


def test_places_lie_within_their_block(folder):
    def steps():
        out = []
        for name in ("a", "b", "a"):
            with within(name):
                out.append(int(kept("step", lambda: np.array(len(out)), ARRAY)))
        return out

    assert again(folder, steps) == again(folder, steps) == [0, 1, 2]


def test_what_a_larger_step_holds_is_dropped(folder):
    again(folder, lambda: kept("outer", lambda: kept("step", lambda: np.ones(2), ARRAY), ARRAY))
    assert [*Store(folder).steps] == ["/outer"]
    assert len([*folder.glob("*.nc")]) == 1


def blocks_of(n, stop_at=None, log=None):
    def run(which):
        for b in which:
            if b == stop_at:
                raise KeyboardInterrupt
            if log is not None:
                log.append(b)
            yield np.array([b, b * b])

    return lambda: kept_blocks("blocks", n, run, ARRAY)


def test_blocks_that_were_finished_are_not_done_again(folder):
    with pytest.raises(KeyboardInterrupt):
        again(folder, blocks_of(7, stop_at=4))
    log = []
    found = again(folder, blocks_of(7, log=log))
    assert log == [4, 5, 6]
    np.testing.assert_array_equal(found, [[b, b * b] for b in range(7)])
    again(folder, blocks_of(7, stop_at=0))  # nothing to do


def test_blocks_are_written_as_they_come(folder, monkeypatch):
    monkeypatch.setattr("bayes_risk._core.steps.keep.SECONDS", -1.0)
    again(folder, blocks_of(5))
    assert len(Store(folder)) == 5


def test_later_is_computed_once_where_it_was_declared(folder):
    work = Counted(np.array(3))

    def steps(ask):
        with within("a"):
            value = Later("x", lambda: kept("step", work, ARRAY))
        with within("b"):
            return [int(value()) for _ in range(2)] if ask else None

    assert again(folder, lambda: steps(True)) == again(folder, lambda: steps(True)) == [3, 3]
    again(folder, lambda: steps(False))
    assert work.times == 1
    assert [*Store(folder).steps] == ["/a/x/step"]


def test_other_threads_compute_and_keep_nothing(folder):
    from concurrent.futures import ThreadPoolExecutor

    work = Counted(np.array(1))

    def steps():
        with ThreadPoolExecutor(1) as pool:
            return int(pool.submit(kept, "step", work, ARRAY).result())

    assert [again(folder, steps) for _ in range(2)] == [1, 1]
    assert work.times == 2


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_jobs_of_blocks_keep_nothing_of_their_own(folder, n_jobs):
    """Stopped within them, the steps below the blocks would be taken for blocks."""
    inner = Counted(np.array(1))

    def blocks(stop):
        def job():
            kept("chains", inner, Packing(lambda a: {"alpha": a}, lambda found: found["alpha"]))
            if stop:
                raise KeyboardInterrupt
            return np.array(2)

        jobs = [job]

        def run(which):
            yield from in_order([jobs[b] for b in which], n_jobs=n_jobs, what="blocks")

        return [int(block) for block in kept_blocks("refits", 1, run, ARRAY)]

    with pytest.raises(KeyboardInterrupt):
        again(folder, lambda: blocks(True))
    assert len(Store(folder)) == 0
    assert again(folder, lambda: blocks(False)) == [2]
    assert [*Store(folder).steps] == ["/refits/from 0"]
    assert inner.times == 2


# --- what a stop, or a disk, can do -----------------------------------------------------------


def test_a_torn_last_line_costs_one_step(folder):
    def steps():
        return [int(kept(name, lambda: np.array(1), ARRAY)) for name in "abc"]

    again(folder, steps)
    journal = folder / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-20])
    assert [*Store(folder).steps] == ["/a", "/b"]
    again(folder, steps)
    assert [*Store(folder).steps] == ["/a", "/b", "/c"]
    assert json.loads(journal.read_text().splitlines()[-1])["step"] == "/c"


@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_a_damaged_step_is_computed_again(folder, damage):
    work = Counted(np.arange(3))
    again(folder, lambda: kept("step", work, ARRAY))
    (path,) = folder.glob("*.nc")
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.warns(UserWarning, match="is damaged; it is computed again"):
        found = again(folder, lambda: kept("step", work, ARRAY))
    np.testing.assert_array_equal(found, [0, 1, 2])
    assert work.times == 2


def test_a_full_disk_leaves_what_was_finished(folder, monkeypatch):
    again(folder, lambda: kept("first", lambda: np.ones(2), ARRAY))

    def full(path, arrays):
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(step_store, "_write", full)
        with pytest.raises(OSError, match="No space left"):
            again(folder, lambda: kept("second", lambda: np.ones(2), ARRAY))
    assert [*Store(folder).steps] == ["/first"]
    assert [*folder.glob("*.tmp")] == []


def test_steps_are_for_their_owner_alone(folder):
    again(folder, lambda: kept("step", lambda: np.ones(2), ARRAY))
    assert folder.stat().st_mode & 0o077 == 0
    assert [p.stat().st_mode & 0o077 for p in folder.iterdir()] == [0, 0]


@pytest.mark.parametrize("draws", [10, 7], ids=["whole", "cut short"])
def test_chains_that_were_cut_short_are_no_fit(folder, draws):
    """PyMC swallows an interruption and returns the draws it has."""
    from bayes_risk._compat import draws_of_posterior
    from bayes_risk.models.fits.kept_draws import kept_chains
    from bayes_risk.models.fits.sampling import Length

    length = Length(draws=10, tune=0, chains=2)
    found = draws_of_posterior({"x": np.arange(2.0 * draws).reshape(2, draws)})

    def steps():
        return again(folder, lambda: kept_chains(lambda: found, length))

    if draws < length.draws:
        with pytest.raises(KeyboardInterrupt):
            steps()
        assert len(Store(folder)) == 0
    else:
        for _ in range(2):
            np.testing.assert_array_equal(steps().posterior["x"], found.posterior["x"])
