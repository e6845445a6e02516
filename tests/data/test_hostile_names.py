"""Names with characters of control, direction or no width: shown escaped wherever people look."""

import csv
import json
import os
import re
import unicodedata
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

import bayes_risk as br
from bayes_risk._core.shown import UNSEEN, as_html, visible
from bayes_risk.app.cli import app
from bayes_risk.app.output import write_run
from bayes_risk.app.run import run_compare, run_study, run_sweep
from bayes_risk.app.study.study import parse_study, read_study
from bayes_risk.reporting import terminal

HOSTILE = [
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b2Jc", "a\u202eb", "\u2066x\u2069", "w\u200bx",
    "w\u200dx", "l\u2028s", "p\u2029s", "new\nline", "cr\rover", "bs\x08x", "del\x7fx", "nel\x85x",
    "\ufeffbom", "\u061cmark", "\U000e0041tag", "[bold]b[/bold]", "</td><script>", "plain",
]  # fmt: skip
KEYS = ["sex\x1b[2J", "job\u202e", "new\nline", "zero\u200b"]


def seen(text):
    """Characters that nobody may see raw, but for line ends."""
    return sorted({repr(c) for c in text if unicodedata.category(c) in UNSEEN and c != "\n"})


def table(n=80):
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {name: rng.permutation(np.resize(HOSTILE[j : j + 4], n)) for j, name in enumerate(KEYS)},
        index=pd.Index([f"{HOSTILE[i % len(HOSTILE)]} {i}" for i in range(n)], name="id\u2066"),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of hostile names under a hostile name, and a file made of it."""
    place = tmp_path_factory.mktemp("hostile")
    df = table()
    df.to_csv(place / "o\x1b[1m\u202e.csv", quoting=csv.QUOTE_ALL)
    made = df.assign(**{KEYS[1]: df[KEYS[1]].to_numpy()[::-1]})
    made.to_csv(place / "r\u2066\x07.csv", quoting=csv.QUOTE_ALL)
    return place


def content(folder, **more):
    return {
        "title": f"title {HOSTILE[0]} {HOSTILE[3]}\t",
        "random_seed": 1,
        "data": {"path": str(folder / "o\x1b[1m\u202e.csv"), "index": "id\u2066"},
        "model": {"kind": "CART", "order": KEYS[1:3]},
        "release": {"m": 1, "columns": KEYS[1:3]},
        "attribute": {"targets": 5},
        "identification": {"known": KEYS[:1], "synthesized": KEYS[1:3]},
        "utility": {},
        "context": {"keys": KEYS[1:3]},
        "output": {"redact": True},
        **more,
    }


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_shown_has_one_form_and_can_be_read_back(text):
    found = visible(text)
    assert not seen(found) and "\n" not in found and visible(found) == found
    assert json.loads(f'"{visible(text.replace(chr(0xE0041), ""))}"') == text.replace(
        chr(0xE0041), ""
    )
    assert not seen(as_html(text, text, [text], [[text]]))


def test_ordinary_writing_is_shown_as_it_is():
    for text in ("Größe 1\N{NO-BREAK SPACE}000 €", "עברית", "العربية", "日本語 😀", "a\\b"):
        assert visible(text) == text


def test_messages_hold_nothing_raw():
    for text in HOSTILE:
        assert not seen(str(br.InputError(f"column {text} is not there")))


@pytest.mark.check
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_result_says_them_raw():
    df, kept = table(), {"known": KEYS[:1], "synthesized": KEYS[1:3]}
    fit = br.models.CART(order=KEYS[1:3]).fit(df)
    release = fit.synthesize(1, random_seed=1)
    risk = br.attribute_risk(fit, release, targets=list(df.index[:5]), random_seed=1)
    for found in (
        *(fit, fit.model, fit.microdata, release, risk, risk.explain(df.index[0])),
        br.identification_risk(df, release, **kept),
        br.utility(df, release),
        br.context_measures(df, release, keys=KEYS[1:3]),
        br.exposure(df, release),
        br.links(df, release),
        br.uniqueness(df, KEYS[:2], fraction=0.5),
        br.study_of(df),
    ):
        assert seen(repr(found)) == [] and seen(found._repr_html_()) == []


@pytest.mark.check
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("what", ["audit", "sweep", "compare", "files"])
def test_no_screen_and_no_page_has_them_raw(folder, tmp_path, what):
    one = {"model": {"kind": "CART", "order": KEYS[1:3]}}
    more = {
        "audit": {},
        "sweep": {"sweep": {"priors": ["uniform", "marginal"]}},
        "compare": {"compare": {"replicates": 1, "c\x1b[1m[bold]": one, "\u202ed": one}},
        "files": {"release": {"files": [str(folder / "r\u2066\x07.csv")], "columns": KEYS[1:3]}},
    }[what]
    given = content(folder, **more)
    if what == "files":
        del given["attribute"], given["model"]
    run = {"sweep": run_sweep, "compare": run_compare}.get(what, run_study)
    said = StringIO()
    with terminal.Bars(Console(file=said)) as bars:
        result = run(parse_study(given), progress=bars)
    printers = {"sweep": "print_sweep", "compare": "print_comparison", "files": "print_matches"}
    with StringIO() as shown:
        how = {"console": Console(file=shown, width=300)}
        getattr(terminal, printers.get(what, "print_result"))(result, HOSTILE, **how)
        assert not seen(shown.getvalue()) and len(shown.getvalue()) > 200
    assert not seen(said.getvalue())
    write_run(tmp_path, result, command=f"bayes-risk {HOSTILE[0]}")
    pages = [*tmp_path.glob("*.html"), *tmp_path.glob("*.json")]
    assert len(pages) >= 2
    for page in pages:
        assert seen(page.read_text(encoding="utf-8")) == [], page


@pytest.mark.check
def test_no_command_says_them_raw(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    original, released = (str(folder / name) for name in sorted(os.listdir(folder)))
    keys = ["--known", KEYS[0], "--synthesized", KEYS[1], "--index", "id\u2066"]
    for words in (
        ["init", original, "-o", "s\x1b[1m.toml"],
        ["audit", "s\x1b[1m.toml", "--dry-run"],
        ["identify", original, released, *keys, "-o", "out\u202e"],
        ["identify", original, released, *keys[:2], "--synthesized", "no\x1b\u202e"],
        ["identify", original, released, *keys, "--radius", "\x1b=x"],
        ["identify", original, released, *keys, "-o", "none\x9b/out"],
        ["identify", f"{original}\x1b", released, *keys],
        ["audit", "\x1b[1m\u202e.toml"],
        ["audit", original],
        ["audit", "s\x1b[1m.toml", "more\x1b[1m\u202e"],
        ["audit", "s\x1b[1m.toml", "--jo\x1b[1mbs", "2"],
        ["audit", "s\x1b[1m.toml", "--jobs", "\x1b[1m2"],
        ["\x1b[1m\u202ecommand"],
        ["--opt\x1b\u202eion"],
    ):
        found = CliRunner().invoke(app, words)
        assert seen(re.sub("\x1b\\[[0-9;]*m", "", found.output)) == [], words
        assert found.exit_code in (0, 2), (words, found.output)
    study = read_study(next(tmp_path.glob("*.toml")))
    assert study.data.path.name in original
    assert not seen(next(tmp_path.glob("*.toml")).read_text(encoding="utf-8"))
