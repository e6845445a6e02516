"""What every test shares: the place of the real data, and settings that keep tests repeatable."""

import os
import random
import secrets
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
for _library in ("OMP", "OPENBLAS", "MKL"):  # before NumPy: small matrices, and a worker a core
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from tests.helpers import error_watch  # noqa: E402
from tests.helpers.kernels import compile_once, forget_stale  # noqa: E402

# The same examples on every run, however slow the machine: no test is flaky.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parents[1]

# Nor does one depend on entropy: a test that gives no seed draws numbers from its own name.
_entropy, _default_rng = random.Random(0), np.random.default_rng


def _repeatable_rng(seed: object = None) -> np.random.Generator:
    return _default_rng(_entropy.getrandbits(128) if seed is None else seed)  # type: ignore[arg-type]


secrets.randbits = _entropy.getrandbits  # type: ignore[assignment]
np.random.default_rng = _repeatable_rng

compile_once()
error_watch.watch()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the fixtures of a test."""
    _entropy.seed(item.nodeid)
    error_watch.leaks.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """No error on the way holds a value of a table."""
    yield
    assert error_watch.leaks == []


def pytest_sessionfinish() -> None:
    error_watch.note()


def pytest_configure(config: pytest.Config) -> None:
    """Before the first worker starts."""
    if not hasattr(config, "workerinput"):
        forget_stale()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the real data sets, beside the repository."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("real data not present: they lie in shared/data beside the checkout")
    return folder
