"""Stages kept on disk: looked up, whole or not there, the same bytes with and without a stop."""

import errno
from functools import partial

import numpy as np
import pytest

from bayes_risk._core import checkpoint
from bayes_risk._core.checkpoint import (
    Stage,
    Store,
    in_stages,
    keeping,
    packed,
    stage,
    unpacked,
    within,
)
from bayes_risk._core.parallel import in_order
from bayes_risk.evidence.evidence import Evidence
from bayes_risk.evidence.leave_one_out import Ratio


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


def held(folder):
    return sorted(p.name.removesuffix(".npz") for p in folder.glob("*.npz"))


def names(*paths):
    return sorted(checkpoint._stem(tuple(path.split("/"))) for path in paths)


def test_without_a_store_nothing_is_kept():
    work = Counted(np.arange(3))
    assert [stage("step", work) is work.value for _ in range(2)] == [True, True]
    assert work.times == 2


def test_a_finished_stage_is_not_computed_again(folder):
    work = Counted(np.arange(3.0))
    for _ in range(3):
        np.testing.assert_array_equal(again(folder, lambda: stage("step", work)), [0, 1, 2])
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
        found = again(folder, lambda: stage("step", lambda: array))
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.tobytes() == array.tobytes()
        assert found.flags.c_contiguous


def test_what_holds_arrays_comes_back_as_it_was(folder):
    two = np.ones(2)
    ratio = Ratio(value=np.eye(2), deviation=np.eye(2, dtype=np.float32), khat=two, ess=two)
    given = [(ratio, None), {"a": [1, 0.1, float("-inf"), "text", True, np.float64(2.5)]}]
    for _ in range(2):
        (back, none), more = again(folder, lambda: stage("step", lambda: given))
        assert isinstance(back, Ratio) and none is None and back.parts is None
        assert back.deviation.dtype == np.float32
        np.testing.assert_array_equal(back.value, ratio.value)
        assert more == given[1]


@pytest.mark.parametrize("value", [object(), np.array([{}, "b"], dtype=object), {1: 2}, print])
def test_what_cannot_be_kept_is_computed_and_stages_within_it_are_kept(folder, value):
    inner = Counted(np.array(1))

    def outer():
        return [value, stage("inner", inner)]

    for _ in range(2):
        assert again(folder, lambda: stage("outer", outer))[0] is value
    assert inner.times == 1
    assert held(folder) == names("outer/inner")
    with pytest.raises(TypeError):
        packed(value)


def test_only_classes_of_ours_are_made(folder):
    none = np.zeros(1)
    one = Evidence(log_evidence=none, deviations=none, khat=none, ess=none)
    about, *arrays = packed(one)
    assert isinstance(unpacked([about, *arrays]), Evidence)
    for planted in (b"subprocess", b"bayes_risk.app.run.runner"):
        changed = about.tobytes().replace(b"bayes_risk.evidence.evidence", planted)
        with pytest.raises((TypeError, AttributeError)):
            unpacked([np.frombuffer(changed, np.uint8), *arrays])


def test_the_same_name_again_is_another_step(folder):
    def steps():
        return [int(stage("step", lambda k=k: np.array(k))) for k in range(3)]

    assert again(folder, steps) == again(folder, steps) == [0, 1, 2]


def test_a_skipped_step_does_not_shift_its_neighbours(folder):
    """Steps within a finished one are not asked for; those after it keep their places."""
    inner, after = Counted(np.array(1)), Counted(np.array(2))

    def steps():
        first = stage("outer", lambda: stage("step", inner))
        return int(first), int(stage("step", after))

    assert again(folder, steps) == again(folder, steps) == (1, 2)
    assert (inner.times, after.times) == (1, 1)


def test_places_lie_within_their_block(folder):
    def steps():
        out = []
        for name in ("a", "b", "a"):
            with within(name):
                out.append(int(stage("step", lambda: np.array(len(out)))))
        return out

    assert again(folder, steps) == again(folder, steps) == [0, 1, 2]


def test_what_a_larger_step_holds_is_dropped(folder):
    again(folder, lambda: stage("outer", lambda: stage("step", lambda: np.ones(2))))
    assert held(folder) == names("outer")


def blocks_of(n, stop_at=None, log=None):
    def run(which):
        for b in which:
            if b == stop_at:
                raise KeyboardInterrupt
            if log is not None:
                log.append(b)
            yield np.array([b, b * b])

    return lambda: in_stages("blocks", n, run, size=2)


def test_items_that_were_finished_are_not_done_again(folder):
    with pytest.raises(KeyboardInterrupt):
        again(folder, blocks_of(7, stop_at=5))
    log = []
    found = again(folder, blocks_of(7, log=log))
    assert log == [4, 5, 6]
    np.testing.assert_array_equal(found, [[b, b * b] for b in range(7)])
    again(folder, blocks_of(7, stop_at=0))  # nothing to do
    np.testing.assert_array_equal(blocks_of(7)(), found)


def test_later_is_computed_once_where_it_was_declared(folder):
    work = Counted(np.array(3))

    def steps(ask):
        with within("a"):
            value = Stage("x", lambda: stage("step", work))
        with within("b"):
            return [int(value()) for _ in range(2)] if ask else None

    assert again(folder, lambda: steps(True)) == again(folder, lambda: steps(True)) == [3, 3]
    again(folder, lambda: steps(False))
    assert work.times == 1
    assert held(folder) == names("a/x")


def test_other_threads_compute_and_keep_nothing(folder):
    from concurrent.futures import ThreadPoolExecutor

    work = Counted(np.array(1))

    def steps():
        with ThreadPoolExecutor(1) as pool:
            return int(pool.submit(stage, "step", work).result())

    assert [again(folder, steps) for _ in range(2)] == [1, 1]
    assert work.times == 2


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_jobs_keep_nothing_of_their_own(folder, n_jobs):
    """Of two jobs with stages of one name, which is first would depend on the workers."""
    inner = Counted(np.array(1))

    def steps():
        jobs = [partial(stage, "chains", inner)] * 2
        return [int(v) for v in in_order(jobs, n_jobs=n_jobs, what="blocks")]

    assert [again(folder, steps) for _ in range(2)] == [[1, 1], [1, 1]]
    assert inner.times == 4 and held(folder) == []


# --- what a stop, or a disk, can do -----------------------------------------------------------


@pytest.mark.parametrize("damage", ["changed", "moved", "gone"])
def test_a_damaged_stage_is_computed_again(folder, damage):
    work = Counted(np.arange(3))
    again(folder, lambda: stage("step", work))
    (path,) = folder.glob("*.npz")
    if damage == "gone":
        path.unlink()
    elif damage == "moved":  # the file of another stage
        again(folder, lambda: stage("other", lambda: np.arange(4)))
        (folder / f"{names('other')[0]}.npz").replace(path)
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    if damage != "gone":
        with pytest.warns(UserWarning, match="'step' is damaged; it is computed again"):
            found = again(folder, lambda: stage("step", work))
    else:
        found = again(folder, lambda: stage("step", work))
    np.testing.assert_array_equal(found, [0, 1, 2])
    assert work.times == 2


def test_a_full_disk_leaves_what_was_finished(folder, monkeypatch):
    again(folder, lambda: stage("first", lambda: np.ones(2)))

    def full(file, *arrays):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.raises(OSError, match="No space left"):
            again(folder, lambda: stage("second", lambda: np.ones(2)))
    assert held(folder) == names("first")
    assert [*folder.glob("*.tmp")] == []


def test_stages_are_for_their_owner_alone(folder):
    again(folder, lambda: stage("step", lambda: np.ones(2)))
    assert folder.stat().st_mode & 0o077 == 0
    assert [p.stat().st_mode & 0o077 for p in folder.iterdir()] == [0]


@pytest.mark.parametrize("draws", [10, 7], ids=["whole", "cut short"])
def test_chains_that_were_cut_short_are_no_fit(folder, draws):
    """PyMC swallows an interruption and returns the draws it has."""
    from bayes_risk._compat import draws_of_posterior
    from bayes_risk.models.fits.sampling import Length, kept_chains

    length = Length(draws=10, tune=0, chains=2)
    found = draws_of_posterior({"x": np.arange(2.0 * draws).reshape(2, draws)})

    def steps():
        return again(folder, lambda: kept_chains(lambda: found, length))

    if draws < length.draws:
        with pytest.raises(KeyboardInterrupt):
            steps()
        assert held(folder) == []
    else:
        for _ in range(2):
            np.testing.assert_array_equal(steps().posterior["x"], found.posterior["x"])
