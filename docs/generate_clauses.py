"""Keeps the table of clauses in reading-the-numbers.md: what is judged, of which files."""

import re
from pathlib import Path

from bayes_risk.reporting.verdicts.reasons import CLAUSES, GIVES

PAGE = Path(__file__).with_name("reading-the-numbers.md")
TABLE = re.compile(r"(?<=^<!--clauses-->\n)(\|.*\n)*", re.MULTILINE)


def table() -> str:
    """Markdown with a row for each clause: what it judges, thresholds, and of which files."""
    rows = [["what is judged", "thresholds", *GIVES], ["---"] * (2 + len(GIVES))]
    for clause in CLAUSES:
        limits = ", ".join(f"`{name}`" for name in clause.limits)
        files = [clause.of_files(gives) for gives in GIVES.values()]
        rows.append(["; ".join(clause.judges), limits, *files])
    return "".join(f"|{'|'.join(row)}|\n" for row in rows)


def generated(page: str) -> str:
    """The page with the table of today's clauses."""
    return TABLE.sub(lambda _: table(), page)


if __name__ == "__main__":
    PAGE.write_text(generated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
