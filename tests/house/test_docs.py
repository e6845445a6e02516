"""The documentation: pages are reached, public names are listed, links lead somewhere."""

import ast
import inspect
import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

import bayes_risk as br
from bayes_risk.app.cli import app
from bayes_risk.reporting import plots

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROOM = re.compile(r"^\.\. currentmodule:: (\S+)\n(.*?)(?=^```|^\.\. currentmodule)", re.M | re.S)
PYTHON = re.compile(r"^```(?:python|\{code-cell\}[^\n]*)\n(.*?)^```", re.M | re.S)
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


def listed():
    """Names that the reference lists, by the module they are taken from."""
    found = {}
    for room, block in ROOM.findall((DOCS / "api" / "index.md").read_text(encoding="utf-8")):
        lines = (line.strip() for line in block.splitlines())
        names = [line for line in lines if line and not line.startswith((":", ".."))]
        found[room] = found.get(room, []) + names
    return found


def test_every_public_name_is_in_the_reference_once():
    reference = listed()
    assert sorted(reference["bayes_risk"]) == sorted(br.__all__)
    assert sorted(reference["bayes_risk.models"]) == sorted(br.models.__all__)


def test_every_plot_is_in_the_reference_once():
    functions = [name for name, found in vars(plots).items() if callable(found)]
    assert sorted(listed()["bayes_risk.reporting.plots"]) == sorted(functions)


def test_what_the_reference_lists_exists():
    gone = [
        f"{room}.{name}"
        for room, names in listed().items()
        for name in names
        if not hasattr(import_module(room), name)
    ]
    assert gone == []


def calls(page):
    """Calls of public functions in the Python of a page: written, name, keywords given."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    for block in PYTHON.findall(text):
        source = "\n".join(x for x in block.splitlines() if not x.startswith((":tags:", "%")))
        if "%%" in block:  # a file that is written, not Python
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call):
                written = ast.unparse(node.func)
                if re.match(r"(br|br\.models|plots)\.\w+$", written):
                    yield written, [k.arg for k in node.keywords if k.arg]


@pytest.mark.parametrize("page", pages())
def test_examples_call_what_exists_with_keywords_that_exist(page):
    wrong = []
    for written, keywords in calls(page):
        room, _, name = written.rpartition(".")
        found = getattr({"br": br, "br.models": br.models, "plots": plots}[room], name, None)
        given = inspect.signature(found).parameters if found else {}
        loose = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in given.values())
        if found is None or not (loose or set(keywords) <= set(given)):
            wrong.append((written, keywords))
    assert wrong == []


@pytest.mark.parametrize("page", pages())
def test_public_names_in_the_text_exist(page):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\bbr\.(models\.[A-Z]\w+|[A-Za-z]\w+)", text))
    rooms = {n: br.models if n.startswith("models.") else br for n in named}
    assert [n for n, room in rooms.items() if not hasattr(room, n.removeprefix("models."))] == []


def test_the_pages_are_short_enough_to_read():
    """Words by white space, code and formulas counted; a page that grows makes another shorter."""
    files = [*(DOCS / f"{page}.md" for page in pages()), ROOT / "README.md"]
    assert sum(len(file.read_text(encoding="utf-8").split()) for file in files) <= 25_000


def test_every_command_and_option_is_on_its_page():
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    group = typer.main.get_command(app)
    options = {
        flag
        for command in group.commands.values()
        for given in command.params
        for flag in [*given.opts, *given.secondary_opts]
        if flag.startswith("-")
    }
    wanted = {f"`{flag}`" for flag in options} | {f"`bayes-risk {name}" for name in group.commands}
    assert {"`--known`", "`bayes-risk audit"} <= wanted
    assert sorted(text for text in wanted if text not in page) == []


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


def test_pages_named_in_source_files_exist():
    rooms = (ROOT / room for room in ("bayes_risk", "tests", "examples"))
    texts = [p.read_text(encoding="utf-8") for room in rooms for p in room.rglob("*.py")]
    named = {page for text in texts for page in re.findall(r"\bdocs/[\w/-]+\.md\b", text)}
    assert named
    assert sorted(page for page in named if not (ROOT / page).is_file()) == []


def test_every_script_and_study_file_is_listed():
    page = (DOCS / "decision-guide.md").read_text(encoding="utf-8")
    folder = ROOT / "examples"
    found = {p.name for kind in ("*.toml", "*.py", "papers/*.py") for p in folder.glob(kind)}
    shared = {"match_table.py"}  # is imported by others
    assert set(re.findall(r"`([\w]+\.(?:py|toml))`", page)) == found - shared


def test_the_pages_load_nothing_from_outside():
    """The settings that would bring scripts, fonts or inventories from elsewhere are not there."""
    settings = (DOCS / "conf.py").read_text(encoding="utf-8")
    assert re.findall(r"intersphinx|mathjax_path|https?://", settings) == []


def test_what_builds_the_pages_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.split("[<>=]", name)[0] for name in project["optional-dependencies"]["docs"]}
    files = ("requirements-lock.txt", "requirements-docs-lock.txt")
    lock = [x for f in files for x in (ROOT / f).read_text(encoding="utf-8").splitlines()]
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
