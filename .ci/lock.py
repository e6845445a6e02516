"""Write the lock files: every package that the extras need, pinned, with their hashes.

``python .ci/lock.py`` in an environment made from ".[dev,docs]": versions are
those installed, hashes those of the package index that pip is set to use (wheels
for CPython 3.11 to 3.14, and sources).
"""

import os
import re
import sys
import urllib.request
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[1]
INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
PYTHONS = ("cp311", "cp312", "cp313", "cp314", "py3", "py2.py3", "abi3")
BUILD = "setuptools"  # the package itself is built with it, without isolation
ELSEWHERE = {"colorama": 'sys_platform == "win32"', "appnope": 'sys_platform == "darwin"'}
HEAD = """\
# What make installs{what}: versions and hashes. Resolved on Python 3.11; the same pins resolve on
# 3.12, 3.13 and 3.14. Written by .ci/lock.py; the package index is whatever pip is set to use.
"""


def closure(extras: list[str]) -> set[str]:
    """Names of all packages that the project needs with these extras, here."""
    found: set[str] = set()
    todo = [Requirement(f"bayes-risk[{','.join(extras)}]")]
    while todo:
        asked = todo.pop()
        name = canonicalize_name(asked.name)
        for line in distribution(name).requires or []:
            need = Requirement(line)
            applies = need.marker is None or any(
                need.marker.evaluate({"extra": extra}) for extra in [*asked.extras, ""]
            )
            key = canonicalize_name(need.name)
            if applies and (key not in found or need.extras):
                found.add(key)
                todo.append(need)
    return found - {"bayes-risk"}


def hashes(name: str, version: str) -> list[str]:
    """Hashes of the files of a version."""
    with urllib.request.urlopen(f"{INDEX}/{name}/", timeout=180) as page:
        text = page.read().decode()
    found = set()
    for file, sha256 in re.findall(r'/([^/"#]+)#sha256=([0-9a-f]{64})"', text):
        if is_wanted(urllib.request.unquote(file), name, version):
            found.add(sha256)
    if not found:
        raise SystemExit(f"no files of {name}=={version} in {INDEX}")
    return sorted(found)


def is_wanted(file: str, name: str, version: str) -> bool:
    """Whether a file is of this version, and for a Python that is supported."""
    try:
        if file.endswith(".whl"):
            found, number, _, tags = parse_wheel_filename(file)
            fits = any(t.interpreter in PYTHONS or t.abi == "abi3" for t in tags)
        else:
            found, number = parse_sdist_filename(file)
            fits = True
    except ValueError:
        return False
    return fits and found == canonicalize_name(name) and str(number) == version


def written(path: Path, names: set[str], what: str) -> None:
    """One lock file."""
    lines = [HEAD.format(what=what)]
    for name in sorted(names):
        version = ELSEWHERE_VERSIONS.get(name) or distribution(name).version
        marker = f" ; {ELSEWHERE[name]}" if name in ELSEWHERE else ""
        found = [f"--hash=sha256:{sha256}" for sha256 in hashes(name, version)]
        parts = [f"{name}=={version}{marker}", *found]
        lines.append(" \\\n    ".join(parts) + "\n")
        print(name, version, len(parts) - 1, file=sys.stderr)
    path.write_text("".join(lines), encoding="utf-8")


ELSEWHERE_VERSIONS = {"colorama": "0.4.6", "appnope": "0.1.4"}

if __name__ == "__main__":
    dev = closure(["dev"]) | {BUILD, "colorama"}
    written(ROOT / "requirements-lock.txt", dev, "")
    docs = closure(["dev", "docs"]) | {BUILD, "colorama", "appnope"}
    written(ROOT / "requirements-docs-lock.txt", docs - dev, " for the documentation, besides")
