"""The report in a browser: nothing on the console, no sideways scrolling, dark and on paper."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from matplotlib.image import imread

from bayes_risk.reporting import report
from tests.edge_results import identification
from tests.every_result import every, parts

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
TEMPLATE = Path(__file__).parents[1] / "bayes_risk" / "reporting" / "report.html.j2"
PROBE = """<!doctype html><title>probe</title><body><pre id="found"></pre>
<iframe src="{page}" style="width:{width}px;height:900px;border:0"></iframe><script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const page = frame.contentDocument, view = frame.contentWindow;
  const style = view.getComputedStyle(page.body);
  document.getElementById("found").textContent = JSON.stringify({{
    wide: page.documentElement.scrollWidth, title: page.title,
    paper: style.backgroundColor, ink: style.color,
    drawn: [...page.querySelectorAll("figure svg")].map(s => s.getBoundingClientRect().height),
    tabbed: [...page.querySelectorAll("a[href], [tabindex='0']")].length,
    outside: view.performance.getEntriesByType("resource").map(r => r.name),
  }});
}};
</script>"""

browser = pytest.mark.browser
needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    report(*parts(), path=folder / "everything.html", diagnostics=every()["diagnostics"])
    report(identification(), path=folder / "matching.html")
    return folder


def opened(page, folder, *options):
    """Open a page without a window; what it wrote, and what it had to say."""
    done = subprocess.run(
        [
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--enable-logging=stderr", "--v=0", f"--user-data-dir={folder / 'profile'}"),
            *("--allow-file-access-from-files", "--virtual-time-budget=10000"),
            *options,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, [row for row in done.stderr.splitlines() if "CONSOLE" in row]


def probed(pages, name, tmp_path, *options, width=1000):
    probe = tmp_path / "probe.html"
    probe.write_text(PROBE.format(page=(pages / name).as_uri(), width=width))
    dom, complaints = opened(probe, tmp_path, "--dump-dom", *options)
    assert complaints == []
    return json.loads(re.search(r'<pre id="found">(.*?)</pre>', dom)[1])


@browser
@needs_browser
@pytest.mark.parametrize("name", ["everything.html", "matching.html"])
def test_it_opens_without_a_complaint_and_loads_nothing(pages, name, tmp_path):
    dom, complaints = opened(pages / name, tmp_path, "--dump-dom")
    assert complaints == [] and "<main" in dom
    found = probed(pages, name, tmp_path)
    assert found["outside"] == [] and found["title"].startswith("Disclosure risk")
    assert all(height > 100 for height in found["drawn"])
    assert len(found["drawn"]) == dom.count("<figure")
    assert found["tabbed"] > dom.count("<table")


@browser
@needs_browser
def test_a_complaint_would_be_heard(tmp_path):
    page = tmp_path / "broken.html"
    page.write_text("<!doctype html><title>x</title><script>nothing.like.this()</script>")
    assert len(opened(page, tmp_path, "--dump-dom")[1]) == 1


@browser
@needs_browser
@pytest.mark.parametrize("width", [400, 1000])
def test_the_page_never_scrolls_sideways(pages, tmp_path, width):
    assert probed(pages, "everything.html", tmp_path, width=width)["wide"] <= width


@browser
@needs_browser
def test_dark_where_the_reader_wants_it_dark(pages, tmp_path):
    light = probed(pages, "matching.html", tmp_path)
    dark = probed(pages, "matching.html", tmp_path, "--blink-settings=preferredColorScheme=0")
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
    assert contrast(page["blue"], page["paper"]) >= 3  # of graphics
    assert contrast(page["axis"], page["paper"]) >= 3
