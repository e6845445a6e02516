"""The documentation: pages are reached, public names are listed, links lead somewhere."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import bayes_risk as br

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LISTED = re.compile(r"^\.\. autosummary::\n(.*?)(?=^```|^\.\. )", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,4} +(.+)$", re.MULTILINE)


def pages():
    """Names of all pages, from the folder of the documentation and without their ending."""
    left_out = {"_build", "generated"}
    found = (p.relative_to(DOCS) for p in DOCS.rglob("*.md"))
    return sorted(p.with_suffix("").as_posix() for p in found if not left_out & set(p.parts))


def prose(page):
    """The text of a page without its code."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return re.sub(r"`[^`\n]+`", lambda code: code[0].replace("[", "("), BLOCK.sub("", text))


def anchors(page):
    """What a link to a heading of the page says after the hash, as GitHub and MyST make it."""
    titles = HEADING.findall(BLOCK.sub("", (DOCS / f"{page}.md").read_text(encoding="utf-8")))
    kept = (re.sub(r"[^\w\- ]", "", title.strip().lower()) for title in titles)
    return {title.replace(" ", "-") for title in kept}


def test_every_page_is_in_the_table_of_contents_once():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    lines = [line.strip() for block in TREE.findall(index) for line in block.splitlines()]
    named = [line.partition("<")[2].rstrip(">") or line for line in lines]  # Title <page>
    reached = [line for line in named if line and not line.startswith(":")]
    assert sorted([*reached, "index"]) == pages()


def test_every_public_name_is_in_the_reference_once():
    listed = [
        line.strip()
        for block in LISTED.findall((DOCS / "api" / "index.md").read_text(encoding="utf-8"))
        for line in block.splitlines()
        if line.strip() and not line.strip().startswith(":")
    ]
    assert sorted(listed) == sorted([*br.__all__, *br.models.__all__])


@pytest.mark.parametrize("page", pages())
def test_links_lead_to_pages_and_headings(page):
    broken = []
    for target in LINK.findall(prose(page)):
        place, _, heading = target.partition("#")
        if place.startswith(("http://", "https://")):
            continue
        file = ((DOCS / page).parent / place).resolve() if place else DOCS / f"{page}.md"
        known = file.suffix == ".md" and file.is_file() and file.is_relative_to(DOCS)
        other = file.relative_to(DOCS).with_suffix("").as_posix() if known else None
        if other is None or (heading and heading not in anchors(other)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", [p for p in pages() if p.startswith("tutorials/")])
def test_a_tutorial_is_run_when_the_pages_are_built(page):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert text.startswith("---\nfile_format: mystnb\n")
    assert "```{code-cell} ipython3\n" in text


def test_the_pages_load_nothing_from_outside():
    """The settings that would bring scripts, fonts or inventories from elsewhere are not there."""
    settings = (DOCS / "conf.py").read_text(encoding="utf-8")
    assert re.findall(r"intersphinx|mathjax_path|https?://", settings) == []


def test_what_builds_the_pages_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.split("[<>=]", name)[0] for name in project["optional-dependencies"]["docs"]}
    lock = (ROOT / "requirements-lock.txt").read_text(encoding="utf-8").splitlines()
    assert wanted - {line.partition("==")[0] for line in lock} == set()


@pytest.mark.slow
def test_the_pages_build_without_a_warning_and_load_nothing_from_outside(tmp_path):
    if find_spec("sphinx") is None:
        pytest.skip('the pages are built by the packages of the extra "docs"')
    out = tmp_path / "html"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html"]
    executed = f"nb_execution_cache_path={tmp_path / 'executed'}"
    found = subprocess.run(
        [*command, "-D", executed, "-d", str(tmp_path / "doctrees"), str(DOCS), str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    loaded = re.compile(r"""<(?:script|img|iframe)[^>]+src=["']?(https?:)?//|<link[^>]+https?://""")
    outside = [p.name for p in out.rglob("*.html") if loaded.search(p.read_text("utf-8"))]
    assert outside == []
    styles = [*out.rglob("*.css")]
    assert styles
    assert [p.name for p in styles if re.search(r"url\([\"']?https?:", p.read_text("utf-8"))] == []
