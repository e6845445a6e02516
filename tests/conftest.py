"""What every test shares: the place of the real data, and settings that keep tests repeatable."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.kernels import compile_once, forget_stale

os.environ.setdefault("MPLBACKEND", "Agg")

# The same examples on every run, however slow the machine: no test is flaky.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parents[1]

compile_once()


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
