"""A page in headless Chromium: what it draws, and whether the console complains.

Reports forbid themselves to load anything (Content-Security-Policy), so that what comes from
outside is a complaint too.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
FRAME = '<iframe src="{page}" style="width:{width}px;height:900px;border:0"></iframe>'
PROBE = """<!doctype html><title>probe</title><body><pre id="found"></pre>
{frames}<script>
const found = {{}};
for (const frame of document.querySelectorAll("iframe")) frame.onload = () => {{
  const page = frame.contentDocument, view = frame.contentWindow;
  const style = view.getComputedStyle(page.body);
  found[frame.clientWidth] = {{
    wide: page.documentElement.scrollWidth, title: page.title,
    paper: style.backgroundColor, ink: style.color,
    drawn: [...page.querySelectorAll("figure svg")].map(s => s.getBoundingClientRect().height),
    tabbed: [...page.querySelectorAll("a[href], [tabindex='0']")].length,
    stuck: [...page.querySelectorAll("body *")].filter(e => e.scrollWidth > e.clientWidth + 1
      && ["auto", "scroll"].includes(view.getComputedStyle(e).overflowX)
      && e.tabIndex < 0).map(e => e.outerHTML.slice(0, 60)),
    annex: page.getElementById("annex")?.getBoundingClientRect().top ?? 0,
    sections: Object.fromEntries([...page.querySelectorAll("section.question")].map(
      s => [s.getAttribute("aria-labelledby"), s.getBoundingClientRect().height])),
    cut: [...page.querySelectorAll("main table")].filter(t => t.getBoundingClientRect().right
      > page.querySelector("main").getBoundingClientRect().right + 1).map(t => t.id),
  }};
  document.getElementById("found").textContent = JSON.stringify(found);
}};
</script>"""

browser = pytest.mark.browser
needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")


def opened(page: Path, folder: Path, *options: str) -> tuple[str, list[str]]:
    """Open a page without a window; what it wrote, and what it had to say."""
    assert BROWSER is not None
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


def probed(
    page: Path, folder: Path, *options: str, widths: Sequence[int] = (1000,)
) -> dict[int, dict[str, Any]]:
    """Open a page in frames of some widths; what stands in each, by width. None may complain."""
    frames = "".join(FRAME.format(page=page.as_uri(), width=width) for width in widths)
    probe = folder / "probe.html"
    probe.write_text(PROBE.format(frames=frames))
    dom, complaints = opened(probe, folder, "--dump-dom", *options)
    assert not complaints, complaints
    inside = re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)
    assert inside is not None
    found = {int(width): what for width, what in json.loads(inside[1]).items()}
    assert sorted(found) == sorted(widths)
    return found
