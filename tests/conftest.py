"""What every test shares: the place of the real data, and settings that keep tests repeatable."""

import os
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
for _library in ("OMP", "OPENBLAS", "MKL"):  # before NumPy: small matrices, and a worker a core
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from tests.helpers.kernels import compile_once, forget_stale  # noqa: E402

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
