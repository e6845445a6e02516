"""How many random studies ran, how many were answered, what was asked: told at the end."""

import os
from collections import Counter

import pytest

STUDIES, SECONDS = "random studies", "s of processor time"


@pytest.fixture
def tally(request):
    """A counter of a test; every worker's are added up when all is done."""
    counts, started = Counter(), sum(os.times()[:4])
    yield counts
    counts[SECONDS] = round(sum(os.times()[:4]) - started)
    request.node.user_properties.append((STUDIES, dict(counts)))


def pytest_terminal_summary(terminalreporter):
    by_kind = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") != "teardown":
                continue
            for name, counts in getattr(report, "user_properties", ()):
                if name == STUDIES:
                    kind = report.nodeid.partition("::")[2]
                    by_kind.setdefault(kind.replace("[", " ").rstrip("]"), Counter()).update(counts)
    if not by_kind:
        return
    merged = {}
    for name, counts in by_kind.items():
        merged.setdefault(name.split("-block")[0], Counter()).update(counts)
    terminalreporter.section(STUDIES)
    for name, counts in sorted(merged.items()):
        told = ", ".join(f"{counts[what]:,} {what}" for what in sorted(counts))
        terminalreporter.line(f"{name}: {told}")
    total = Counter()
    for counts in merged.values():
        total.update(counts)
    terminalreporter.line(
        f"in all {total['studies']:,} studies, {total['refused']:,} refused at the fit or release, "
        f"{total['attribute']:,} with an attribute risk, {total[SECONDS]:,} {SECONDS}"
    )
