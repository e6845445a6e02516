"""Damaged files of draws and of kept steps: cut short, bits flipped, stretches overwritten."""

import json
import multiprocessing
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._compat import draws_of_posterior, group
from tests.soak.choices import Choices, Drawn, generator, pick

READER, READ = 10, "read"  # seconds of a file; what says that it was read


def damaged(choices: Choices, content: bytes) -> bytes:
    """The bytes of a file after a fault of the disk, or of a copy that stopped."""
    way, rng = choices.whole(0, 4), generator(choices)
    data = bytearray(content)
    if way == 0 or not data:
        return bytes(data[: choices.whole(0, len(data))])
    if way == 1:
        for _ in range(pick(choices, [1, 1, 4, 64])):
            data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    elif way == 2:  # where formats keep their structure
        data[int(rng.integers(min(len(data), 512)))] ^= 1 << int(rng.integers(8))
    else:
        start = choices.whole(0, len(data) - 1)
        end = min(start + pick(choices, [1, 8, 512]), len(data))
        data[start:end] = bytes(end - start) if way == 3 else rng.bytes(end - start)
    return bytes(data)


def kept(choices: Choices, folder: Path) -> str:
    """Steps of a run, one of whose files is damaged: each is what it was, or computed again."""
    from bayes_risk._core.checkpoint import Store

    rng = np.random.default_rng(1)
    steps: dict[str, dict[str, np.ndarray[Any, Any]]] = {
        f"step {k}": {"a": rng.normal(size=(3, 4)), "b": rng.random(5) < 0.5} for k in "xyz"
    }
    store = Store(folder / "steps")
    for name, arrays in steps.items():
        store.put((name,), arrays)
    path = pick(choices, sorted((folder / "steps").iterdir()))
    content = path.read_bytes()
    path.write_bytes(damaged(choices, content))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        again = Store(folder / "steps")
        found: dict[str, Any] = dict.fromkeys(steps)
        for name in steps:
            with suppress(KeyError):
                found[name] = again.get((name,))
    for name, held in found.items():
        if held is not None:
            for key, array in steps[name].items():
                assert held[key].tobytes() == array.tobytes() and held[key].dtype == array.dtype
    lost = [name for name, held in found.items() if held is None]
    if path.read_bytes() != content:
        assert len(lost) == 1 and any(lost[0] in str(w.message) for w in told)
    for name in lost:
        again.put((name,), steps[name])
    assert all(again.get((name,)) is not None for name in steps)
    return "steps lost" if lost else "steps found"


def draws(choices: Choices, folder: Path) -> str:
    """A NetCDF file of draws that is damaged: draws, or an error that names what is wrong."""
    import arviz as az

    import bayes_risk as br

    rng = np.random.default_rng(2)
    path = folder / "draws.nc"
    names = {"x: Intercept": 0.0, "x: sigma": 1.0}
    values = {name: low + np.abs(rng.normal(size=(2, 50))) for name, low in names.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draws_of_posterior(values).to_netcdf(str(path), engine="h5netcdf")
        path.write_bytes(damaged(choices, path.read_bytes()))
        try:
            idata = az.from_netcdf(str(path), engine="h5netcdf")
            group(idata, "posterior").load()
        except Exception as error:  # of the reader, before this library has seen anything
            return f"not read ({type(error).__name__})"
    (folder / READ).touch()  # from here on it is this library's
    data = pd.DataFrame({"x": rng.normal(size=20)})
    try:
        fit = br.models.Regression({"x": "1"}).from_draws(data, idata)
        release = fit.synthesize(m=1, random_seed=1)
    except (br.InputError, br.ModelError):
        return "refused"
    assert np.isfinite(release.datasets[0].to_numpy()).all()
    return "read"


def within(seconds: float, work: Callable[[], str]) -> str:
    """What some work says, done in a process of its own, which may hang or crash.

    A count that is damaged keeps the reader of NetCDF in a loop for years, which no signal ends.
    """
    sent, received = multiprocessing.Pipe(duplex=False)[::-1]
    child = multiprocessing.get_context("fork").Process(target=lambda: sent.send(work()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child.start()
    child.join(seconds)
    if child.is_alive():
        child.kill()
        return "reader hangs"
    if child.exitcode is not None and child.exitcode < 0:
        return "reader crashes"
    assert child.exitcode == 0
    return str(received.recv())


def main(first: int, last: int, folder: Path) -> None:
    """Damaged draws, one after the other; counts as JSON."""
    import pymc  # noqa: F401  once, not in every process

    done: Counter[str] = Counter()
    for seed in range(first, last):
        inside = folder / str(seed)
        inside.mkdir()
        print(seed, file=sys.stderr, flush=True)
        said = within(READER, partial(draws, Drawn(seed), inside))
        assert not (said.startswith("reader") and (inside / READ).exists()), seed
        done[said] += 1
    print(json.dumps(done))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
