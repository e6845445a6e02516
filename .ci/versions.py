"""Print the versions of the core dependencies that are installed here, in one line."""

import platform
import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [Requirement(line).name for line in project["dependencies"]]
    found = [f"{name} {version(name)}" for name in names]
    print(f"Python {platform.python_version()};", ", ".join(found))
