"""Numbers of the first screen, of terminal and page, beside those of ``summary.json``."""

import html
import io
import json
import re
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from bayes_risk.app.output import as_json, render_study, summary
from bayes_risk.reporting.terminal import print_result

# labels of records, steps (which count the confidential table), levels in names of groups, seconds
NO_RESULTS = r"[Rr]ecord \d+|Next: .*?(?=Under these)|age = [^(,\n]*|Time without.*"


def numbers_of(content: Any) -> Iterator[float]:
    """Every number of a summary; texts have none."""
    if isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from numbers_of(part)
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield float(content)


def first_screens(result: Any) -> dict[str, str]:
    """What the terminal prints, and the text of the page up to the end of the verdict."""
    console = Console(file=io.StringIO(), width=140)
    print_result(result, [], console=console)
    page = render_study(result).split('<section class="verdict', 1)[1].split("</section>")[0]
    page = re.sub("<h3>What to do next.*?</ol>|<svg.*?</svg>", "", page, flags=re.DOTALL)
    return {
        "terminal": console.file.getvalue(),  # type: ignore[attr-defined]
        "page": html.unescape(re.sub("<[^>]+>", "\n", page)),
    }


def strange_numbers(screens: dict[str, str], content: dict[str, Any]) -> list[tuple[str, str]]:
    """Numbers of the first screens that are none of the summary, rounded as they stand there.

    Shares stand as per cent, and errors twice.
    """
    known = {x * times for x in numbers_of(content) for times in (1, 2, 100, 200)}
    found = []
    for where, text in screens.items():
        text = re.sub(NO_RESULTS, "", text, flags=re.DOTALL)
        for said in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", text):
            plain = said.rstrip(",").replace(",", "")
            places = len(plain.partition(".")[2])
            if plain not in {f"{x:.{places}f}" for x in known}:
                found.append((where, said))
    return found


def written_summary(result: Any) -> dict[str, Any]:
    """What ``summary.json`` holds."""
    return dict(json.loads(json.dumps(as_json(summary(result)))))
