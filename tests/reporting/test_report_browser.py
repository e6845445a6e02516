"""The report in a browser: nothing on the console, no sideways scrolling, dark and on paper."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from matplotlib.image import imread

from bayes_risk.reporting.report import report
from tests.helpers.browser import browser, needs_browser, opened, probed
from tests.helpers.edge_results import identification
from tests.helpers.every_result import every, parts

pytestmark = pytest.mark.check

TEMPLATE = Path(__file__).parents[2] / "bayes_risk" / "reporting" / "report.html.j2"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    report(*parts(), path=folder / "everything.html", diagnostics=every()["diagnostics"])
    report(identification(), path=folder / "matching.html")
    return folder


@browser
@needs_browser
@pytest.mark.parametrize("name", ["everything.html", "matching.html"])
def test_it_opens_without_a_complaint_and_loads_nothing(pages, name, tmp_path):
    dom = (pages / name).read_text(encoding="utf-8")
    found = probed(pages / name, tmp_path)[1000]
    assert found["title"].startswith("Disclosure risk")
    assert all(height > 100 for height in found["drawn"])
    assert len(found["drawn"]) == dom.count("<figure")
    assert found["tabbed"] > dom.count("<table") + dom.count("<figure")


@browser
@needs_browser
def test_a_complaint_would_be_heard(tmp_path):
    page = tmp_path / "broken.html"
    page.write_text("<!doctype html><title>x</title><script>nothing.like.this()</script>")
    assert len(opened(page, tmp_path, "--dump-dom")[1]) == 1
    with pytest.raises(AssertionError, match="nothing is not defined"):
        probed(page, tmp_path)


@browser
@needs_browser
def test_what_would_be_wrong_is_seen(tmp_path):
    """A page too wide, a table that is cut off, and one that only a mouse can scroll."""
    page = tmp_path / "wrong.html"
    wide = (
        '<div style="overflow-x: auto"><table id="t" style="width: 900px"><tr><td>x</table></div>'
    )
    beside = '<p style="width: 600px">x</p>'
    page.write_text(f"<!doctype html><title>x</title><main>{wide}{beside}</main>")
    found = probed(page, tmp_path, widths=[400])[400]
    assert found["wide"] > 400 and found["cut"] == ["t"] and len(found["stuck"]) == 1


@browser
@needs_browser
@pytest.mark.parametrize(
    "load",
    [
        '<img src="x.png">',
        '<script src="x.js"></script>',
        "<script>1</script>",
        '<link rel="stylesheet" href="x.css">',
        "<style>@import 'x.css';</style>",
        "<style>@font-face { font-family: x; src: url(x.woff) } p { font-family: x }</style>",
        '<iframe src="x.html"></iframe>',
    ],
    ids=["picture", "script", "inline", "style", "import", "font", "frame"],
)
def test_a_report_that_loads_something_complains(pages, tmp_path, load):
    text = (pages / "matching.html").read_text(encoding="utf-8")
    page = tmp_path / "loads.html"
    page.write_text(text.replace("</footer>", f"{load}</footer>"), encoding="utf-8")
    with pytest.raises(AssertionError, match="Content Security Policy"):
        probed(page, tmp_path)


@browser
@needs_browser
def test_the_page_never_scrolls_sideways_and_what_does_is_reached_by_keyboard(pages, tmp_path):
    found = probed(pages / "everything.html", tmp_path, widths=[400, 1000])
    assert {width: what["wide"] for width, what in found.items() if what["wide"] > width} == {}
    assert [what["stuck"] for what in found.values()] == [[], []]


@browser
@needs_browser
def test_no_table_is_cut_off_on_paper(pages, tmp_path):
    """The rules for paper on a screen as wide as A4 between the margins: 178 mm of 96 dpi."""
    text = (pages / "everything.html").read_text(encoding="utf-8")
    assert text.count("@media print") == 1
    paper = tmp_path / "paper.html"
    paper.write_text(text.replace("@media print", "@media all"), encoding="utf-8")
    found = probed(paper, tmp_path, widths=[672])[672]
    assert found["cut"] == [] and found["wide"] <= 672


@browser
@needs_browser
def test_dark_where_the_reader_wants_it_dark(pages, tmp_path):
    page = pages / "matching.html"
    light = probed(page, tmp_path)[1000]
    dark = probed(page, tmp_path, "--blink-settings=preferredColorScheme=0")[1000]
    assert brightness(light) > 0.9 and brightness(light, "ink") < 0.2
    assert brightness(dark) < 0.2 and brightness(dark, "ink") > 0.8


def brightness(found, what="paper"):
    return sum(map(int, re.findall(r"\d+", found[what])[:3])) / 765


@browser
@needs_browser
def test_it_prints(pages, tmp_path):
    """On paper the ink is dark, also for readers whose screens are."""
    paper = tmp_path / "r.pdf"
    dark = "--blink-settings=preferredColorScheme=0"
    opened(pages / "everything.html", tmp_path, f"--print-to-pdf={paper}", dark)
    assert paper.read_bytes().startswith(b"%PDF")
    if shutil.which("pdftoppm") is None:
        pytest.skip("there is no pdftoppm to look at the pages")
    subprocess.run(["pdftoppm", "-r", "30", "-png", paper, tmp_path / "page"], check=True)
    first, *others = (imread(path)[..., :3] for path in sorted(tmp_path.glob("page*.png")))
    assert others and first.mean() > 0.8 and first.min() < 0.5


# --- contrast, from the colours of the page ----------------------------------------------------


def colours(block):
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+)", block))


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_words_stand_out_as_wcag_aa_asks(mode):
    css = TEMPLATE.read_text(encoding="utf-8")
    light, dark = (colours(block) for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL))
    page = light if mode == "light" else light | dark
    pairs = [(ink, "paper") for ink in ("ink", "soft", "accent", "good", "bad", "open")]
    pairs += [(f"{word}", f"{word}-wash") for word in ("good", "bad", "open")]
    pairs += [(ink, f"{word}-wash") for ink in ("ink", "soft") for word in ("good", "bad", "open")]
    pairs += [("ink", "wash")]
    assert {
        pair: contrast(*(page[c] for c in pair))
        for pair in pairs
        if contrast(*(page[c] for c in pair)) < 4.5
    } == {}
    graphics = {name: contrast(page[name], page["paper"]) for name in ("blue", "red", "axis")}
    assert min(graphics.values()) >= 3, graphics


# --- one page a question -----------------------------------------------------------------------


@browser
@needs_browser
def test_of_every_kind_of_result_the_page_is_short(pages, tmp_path):
    """Each section is less than a screen and a half; whole pages: `house/test_examples.py`."""
    found = probed(pages / "everything.html", tmp_path, widths=[1_280])[1_280]
    assert max(found["sections"].values()) < 1_350, found["sections"]
