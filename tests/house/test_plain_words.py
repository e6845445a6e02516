"""Plain words: what a user reads has none of the words of this table."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from bayes_risk.reporting import glossary
from tests.helpers.sources import parsed
from tests.house.test_docs import BLOCK, DOCS, ROOT, listed, pages

BANNED = {  # pattern: what to write instead
    r"\btold\b": "read, reported, stated",
    r"\bsaid\b": "stated, reported",
    r"\bsays?\b": "states, shows, names; give",
    r"\btells?\b": "shows, reveals; tells apart: distinguishes",
    r"\basked (of|about|for by)\b": "examined, requested",
    r"\btaken (for|to)\b": "treated as, assumed to",
    r"\bnobody\b": "no record, no one, none",
    r"\bsomebody\b": "a person, another person",
    r"\bwhoever\b": "an intruder who, anyone who",
    r"\bled by\b|\bled (chains|audits?)\b|\brelease led\b": "start from the release",
    r"\bstray(s|ed)?\b": "discarded",
    r"\bweigh(s|ed|ing)?\b": "considers; weights",
    r"\bgiv(en?|es|ing)\b[^.;:]{0,30}\baway\b": "disclosed",
    r"(?<!there )\b(is|are) no\b(?! (longer|more|less|larger|one)\b)": "is not a",
    r"\bcures?\b": "fix, remedy",
    r"\bmend(s|ed|ing)?\b": "correct, fix",
    r"\bborne out\b": "confirmed",
    r"\bin earnest\b": "in practice",
}
MOST_TERMS = 40
CODE = re.compile(r"``[^`]+``|`[^`\n]+`")


def in_words(text: str) -> str:
    """The prose of a text: neither code nor names of options."""
    return " ".join(CODE.sub("", BLOCK.sub("", text)).split())


def found(text: str) -> list[str]:
    """The words of the table in a text, with what to write and where they stand."""
    prose = in_words(text)
    return [
        f"{match[0]!r} ({plain}): ...{prose[max(0, match.start() - 40) : match.end() + 40]}..."
        for pattern, plain in BANNED.items()
        for match in re.finditer(pattern, prose, re.IGNORECASE)
    ]


@cache
def documented() -> set[str]:
    """Names of the objects that the reference lists."""
    return {name for names in listed().values() for name in names}


def docstrings(tree: ast.Module, public: set[str]) -> Iterator[tuple[ast.Constant, bool]]:
    """Every docstring of a module, and whether a user reads it."""
    shown = {
        inner
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in public
        for inner in [node, *(node.body if isinstance(node, ast.ClassDef) else [])]
        if isinstance(inner, ast.ClassDef | ast.FunctionDef)
        and (inner is node or not inner.name.startswith("_"))
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value, node in shown


@cache
def read_by_users(file: Path) -> list[tuple[int, str]]:
    """Line and text of what users meet: texts of the code, and docstrings of the reference."""
    tree, docs = parsed(file), list(docstrings(parsed(file), documented()))
    found = [(n.lineno, n.value) for n, shown in docs if shown and isinstance(n.value, str)]
    texts = {id(node) for node, _ in docs}
    for part in ast.walk(tree):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            if id(part) not in texts and " " in part.value.strip():
                found.append((part.lineno, part.value))
    return found


SOURCES = sorted((ROOT / "bayes_risk").rglob("*.py"))
TEMPLATES = sorted((ROOT / "bayes_risk").rglob("*.j2"))


@pytest.mark.parametrize("page", [*pages(), "../README"])
def test_pages_have_plain_words(page: str) -> None:
    assert found((DOCS / f"{page}.md").read_text(encoding="utf-8")) == []


def test_texts_of_the_code_have_plain_words() -> None:
    hits = [
        f"{file.relative_to(ROOT)}:{line}: {hit}"
        for file in SOURCES
        for line, text in read_by_users(file)
        for hit in found(text)
    ]
    assert hits == [], "\n".join(hits)


def test_templates_have_plain_words() -> None:
    hits = {f.name: found(re.sub(r"{[%{#].*?[%}#]}", "", f.read_text())) for f in TEMPLATES}
    assert {name: hit for name, hit in hits.items() if hit} == {}


def test_the_glossary_is_short() -> None:
    """A report explains at most forty words; one word is explained once."""
    tables = [
        glossary.ATTRIBUTE,
        glossary.BALANCE,
        glossary.SAMPLED,
        glossary.CHAINS,
        *glossary.OTHERS.values(),
    ]
    words = [word for table in tables for word in table]
    assert len(words) == len(set(words)) <= MOST_TERMS
