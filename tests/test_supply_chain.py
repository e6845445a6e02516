"""What is installed and what is built: the same bytes from the same sources."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("bayes_risk", "models", "pyproject.toml", "README.md", "LICENSE")


def wheel(folder):
    """Bytes of a wheel built from a copy of the sources."""
    for name in SOURCES:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            hidden = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, target, symlinks=True, ignore=hidden)
        else:
            shutil.copy(source, target)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [*command, "--no-index", "-w", str(folder / "dist"), str(folder)],
        env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"},
        check=True,
        timeout=300,
    )
    (built,) = (folder / "dist").glob("*.whl")
    return built.read_bytes()


@pytest.mark.slow
def test_the_same_sources_make_the_same_wheel(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert wheel(tmp_path / "one") == wheel(tmp_path / "two")
