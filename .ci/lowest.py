"""Write requirements-lowest.txt: the lowest version of each core dependency that is allowed.

``python .ci/lowest.py`` after a lower bound in pyproject.toml changed; `make lowest` installs them.
"""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
HEAD = """\
# The lowest versions that pyproject.toml allows, which `make lowest` installs and tests.
# Written by .ci/lowest.py.
"""


def lowest(dependencies: list[str]) -> str:
    """The file's text; every dependency must have exactly one lower bound."""
    lines = []
    for line in dependencies:
        need = Requirement(line)
        bounds = [s.version for s in need.specifier if s.operator == ">="]
        if len(bounds) != 1:
            raise SystemExit(f"{line!r} in pyproject.toml has {len(bounds)} lower bounds; give one")
        lines.append(f"{need.name}=={bounds[0]}\n")
    return HEAD + "".join(sorted(lines))


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = lowest(project["dependencies"])
    (ROOT / "requirements-lowest.txt").write_text(text, encoding="utf-8")
