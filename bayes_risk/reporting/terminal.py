"""The terminal: bars while a study runs, one screen when it is done."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from bayes_risk._core.formats import (
    NONE,
    at_most,
    error,
    number,
    percent,
    percent_error,
    significant,
)
from bayes_risk.evidence import by_column
from bayes_risk.reporting.verdicts.further import of_the_audit

from .further import further_lines, rounds_table
from .matching import by_kept_keys
from .unsampled import counting, is_exact
from .words import replaced

if TYPE_CHECKING:
    from bayes_risk.app.run import StudyResult
    from bayes_risk.app.run.identify import IdentifyResult
    from bayes_risk.matching.result import IdentificationRisk
    from bayes_risk.reporting.verdicts.verdict import Verdict
    from bayes_risk.risk.result import AttributeRisk

COLOURS = {
    "within your thresholds": "bold green",
    "above your thresholds": "bold red",
    "inconclusive": "bold yellow",
}
SHOWN = {
    "mean_probability": "truth's probability, mean",
    "max_probability": "truth's probability, worst",
    "share_ranked_first": "truth ranked first",
}


class Bars:
    """One bar a stage, with the time left; where nobody watches, one line a finished stage."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self._rich = Progress(
            TextColumn("{task.description:<16}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=self.console,
            disable=not self.console.is_terminal,
            transient=True,  # the result gets the screen for itself
        )
        self._lock = Lock()
        self._tasks: dict[str, TaskID] = {}
        self._started: dict[str, float] = {}

    def __enter__(self) -> "Bars":
        self._rich.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._rich.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show that `done` of `total` units of a stage are done."""
        with self._lock:  # chains report from their own threads
            self._show(stage, done, total)

    def _show(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage not in self._started:
            self._started[stage] = now
            self._tasks[stage] = self._rich.add_task(stage, total=total)
        self._rich.update(self._tasks[stage], completed=done, total=total)
        if self._rich.disable and done >= total and self._started[stage] > 0:
            seconds = now - self._started[stage]
            self._started[stage] = -1.0  # said once
            self.console.print(f"{stage}: done in {seconds:.1f} s", highlight=False)


def print_result(result: "StudyResult", notes: Sequence[str], *, console: Console) -> None:
    """Print what the run found, on a screen of up to 100 columns: of two risks some 27 lines."""
    attribute, identification = result.attribute, result.identification
    notes = [*notes, *(f"in the fit of {note}" for note in result.diagnostics.get("notes", []))]
    console.print(Text(result.study.title, style="bold"), overflow="ellipsis", no_wrap=True)
    print_verdict(result.verdict, console=console)
    if attribute is not None:
        console.print(attribute_table(attribute))
        if attribute.by_column is not None:
            said = Text(by_column.in_short(attribute))
            console.print(said, no_wrap=True, overflow="ellipsis")
    if identification is not None:
        console.print(match_table(identification))
    if result.reweighting is not None:
        console.print(rounds_table(result.reweighting))
    for line in further_lines(result):
        console.print(Text(line))
    in_part = replaced(result.release)
    if in_part:
        console.print(f"Records replaced: {in_part}", highlight=False)
    console.print(_trust(result), highlight=False)
    for note in notes[:2]:
        console.print(Text(f"Note: {note}", style="yellow"), no_wrap=True, overflow="ellipsis")
    console.print(run_time(result.seconds), highlight=False, no_wrap=True, overflow="ellipsis")
    if result.study.output.folder is not None:
        where = Path(result.study.output.folder) / "report.html"
        console.print(f"Report: {where}", highlight=False, markup=False, soft_wrap=True)


def print_matches(found: "IdentifyResult", *, console: Console, folder: Path | None = None) -> None:
    """Print what matching found: verdict, what to know before the numbers, the numbers."""
    print_verdict(found.verdict, console=console)
    for note in found.notes:
        console.print(Text(f"Note: {note}", style="yellow"))
    console.print(found.risk.sentence(), highlight=False, markup=False)
    console.print(match_table(found.risk))
    if found.risk.exposure is not None:
        console.print(found.risk.exposure.sentence(), highlight=False, markup=False)
    if folder is not None:
        where = folder / "report.html"
        console.print(f"Report: {where}", highlight=False, markup=False, soft_wrap=True)


def print_verdict(verdict: "Verdict", *, console: Console, most: int = 2) -> None:
    """Print the headline in colour, the first deciding reasons and what it all rests on."""
    console.print(Text(verdict.headline, style=COLOURS[verdict.signal]))
    for reason in verdict.deciding[:most]:
        console.print(Text(f"- {reason.sentence}"))
        if reason.cure:
            console.print(Text(f"  To settle it: {reason.cure}"))
    more = len(verdict.deciding) - most
    if more > 0:
        console.print(Text(f"  ({more} more in the report)", style="dim"))
    console.print(Text(verdict.assumptions, style="dim"))


def attribute_table(risk: "AttributeRisk") -> Table:
    """The three measures that say most, with error and baseline, and how close to numbers."""
    table = _table(
        f"Attribute risk ({len(risk.index):,} records)", "value", "+- 2 s.e.", "without release"
    )
    rows = risk.summary().to_dict("index")
    for key, words in SHOWN.items():
        form = percent if key == "share_ranked_first" else number
        row = rows[key]
        table.add_row(words, form(row["value"]), _error(key, row), form(row["baseline"]))
    for name in risk.priors:
        key = f"max_probability_{name}"
        shown = (number(rows[key]["value"]), _error(key, rows[key]), number(rows[key]["baseline"]))
        table.add_row(f"  worst, {name} prior", *shown)
    for cells in distance_rows(risk):
        table.add_row(*cells)
    return table


def _error(key: str, row: Mapping[Any, float]) -> str:
    if key == "share_ranked_first":
        return percent_error(row["mcse"])
    return error(row["mcse"], row["value"])


def distance_rows(risk: "AttributeRisk", most: int = 2) -> list[tuple[str, ...]]:
    """Expected distance from the numbers to which the release brings closest."""
    from .numbers import DISTANCE, closest_first

    found = risk.closeness_summary()
    if found.empty:
        return []
    by_name = found.to_dict("index")
    rows: list[tuple[str, ...]] = []
    for name in closest_first(found)[:most]:
        row = by_name[name]
        value, without = row[DISTANCE], row[f"{DISTANCE}_prior"]
        bound = at_most(2 * row[f"{DISTANCE}_mcse_bound"])
        rows.append(
            (f"distance from true {name}", significant(value, 4), bound, significant(without, 4))
        )
    more = len(found) - most
    return [*rows, (f"  ({more} more in the report)",)] if more > 0 else rows


def match_table(risk: "IdentificationRisk") -> Table:
    """Expected matches with their error, and match rates: pooled, per release, and without it."""
    heads = ("pooled", f"mean of {risk.m}", "without release")
    table = _table(f"Identification risk ({risk.n:,} records)", *heads)
    rows, without = risk.summary().to_dict("index"), by_kept_keys(risk)
    pooled, mean = rows["pooled"], rows["mean"]
    expected = (pooled["expected_match_risk"], mean["expected_match_risk"], pooled["baseline"])
    table.add_row("expected correct matches", *(number(float(value), 1) for value in expected))
    table.add_row("  +- 2 s.e.", *(error(row["mcse"], digits=1) for row in (pooled, mean)), NONE)
    for key, words in (
        ("true_match_rate", "true match rate"),
        ("false_match_rate", "false match rate"),
    ):
        table.add_row(words, percent(pooled[key]), percent(mean[key]), without.get(key, NONE))
    return table


def _table(title: str, *heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(title, header_style="bold", min_width=36, no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right", header_style="dim", min_width=10, no_wrap=True)
    return table


def _trust(result: "StudyResult") -> str:
    said = []
    if result.attribute is not None:
        reliable = result.attribute.records["reliable"]
        said.append(f"{int((~reliable).sum()):,} of {len(reliable):,} records unreliable")
        if is_exact(result.attribute):
            said.append("the evidence has no Monte Carlo error")
        if result.attribute.modes is not None:
            said.append(result.attribute.modes.sentence())
    said += convergence(of_the_audit(result.attribute, result.diagnostics))
    if result.identification is not None:
        said += counting(result.identification, alone=not said)
    return f"Trust: {'; '.join(said)}"


def convergence(found: Mapping[str, Any]) -> list[str]:
    """How far the chains agree, where there are chains."""
    if "max_rhat" not in found:
        return []
    return [
        f"largest R-hat {number(found['max_rhat'], 3)}, smallest ESS {number(found['min_ess'], 0)}"
    ]


def run_time(seconds: Mapping[str, float]) -> str:
    """How long it took, stage by stage."""
    parts = ", ".join(f"{stage} {s:.0f} s" for stage, s in seconds.items() if s >= 0.5)
    return f"Time: {sum(seconds.values()):.0f} s" + (f" ({parts})" if parts else "")
