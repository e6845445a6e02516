"""The terminal: bars while a study runs, one screen when it is done."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from bayes_risk._core.formats import counted, number
from bayes_risk._core.progress import in_notebook
from bayes_risk._core.shown import escape, visible
from bayes_risk.data import base_result
from bayes_risk.data.measures import MEASURES
from bayes_risk.reporting.verdicts.doubts import CURES, of_the_audit
from bayes_risk.reporting.verdicts.verdict import Verdict

from .content import replaced
from .presentation import claims_in_words, history_in_words, verdicts_in_words
from .sections import head_of, parts_in_order, result_parts

COLOURS = {
    "within your thresholds": "bold green",
    "above your thresholds": "bold red",
    "inconclusive": "bold yellow",
    "not judged": "bold yellow",
}
FIRST, LEAST = 36, 10  # characters of the first column, and of the others
TEXT = "at"  # head of columns of text, which are cut off where the screen is narrow
NUMBERS = 35  # characters of a line with such columns that hold numbers and the space between
SHORTEST = 8  # characters of a label that is cut off
SHOWN_TIME = 0.05  # of the whole: shorter stages are not named
SILENT = 10.0  # seconds without a line, at most, where there are no bars


class Bars(Progress):
    """A bar for the run and each stage, with the time it took and the time left.

    Where nobody watches, one line a finished stage, and one of those that are on every 10 s.
    """

    def __init__(self, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        super().__init__(
            TextColumn("{task.description:<16}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
            console=console,
            disable=not console.is_terminal,
            transient=True,  # the result gets the screen for itself
        )
        self.turn, self.stages, self.ended = Lock(), dict[str, Task](), Event()
        if self.disable and not console.quiet:
            Thread(target=self._go_on, daemon=True).start()

    def stop(self) -> None:
        """Leave the screen as it was."""
        self.ended.set()
        super().stop()

    def _go_on(self) -> None:
        """Say again and again how far the stages are that last."""
        while not self.ended.wait(SILENT):
            with self.turn:
                on = [task for task in self.tasks if not task.finished]
            if on:  # a stage that has not begun its last part is as far as its parts
                far = [task for task in on if task.completed or task is on[-1]]
                each = (f"{one.description} {one.percentage:.0f} %" for one in far)
                text = ", ".join(each).removesuffix(" 0 %")  # of the last, which tells nothing
                over = [task.description for task in self.tasks if task.finished]
                if far == self.tasks[:1] and over:  # between two stages
                    text = f"{text}, {over[-1]} is done"
                self.console.print(printed(f"after {on[0].elapsed or 0:.0f} s: {text}"))

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show that `done` of `total` units of a stage are done."""
        with self.turn:  # chains report from their own threads
            if stage not in self.stages:
                self.add_task(visible(stage), total=total)
                self.stages[stage] = self.tasks[-1]
            task = self.stages[stage]
            finished = task.finished
            self.update(task.id, completed=done, total=total)
            if self.disable and task.finished and not finished:
                self.console.print(printed(f"{stage}: done in {task.elapsed:.1f} s"))


class NotebookBars:
    """A bar for each stage in a notebook; nothing of it stays."""

    def __init__(self) -> None:
        self._done: dict[str, tuple[int, int]] = {}
        self._shown, self._lock = 0.0, Lock()

    def __enter__(self) -> "NotebookBars":
        from IPython.display import HTML, display  # type: ignore[import-not-found,unused-ignore]

        self._html, self._place = HTML, display(HTML(""), display_id=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._place.update(self._html(""))

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show how far a stage is; that it begins at once, else at most five times a second."""
        with self._lock:
            self._done[stage] = (done, total)
            if done == 0 or monotonic() > self._shown + 0.2:
                self._shown = monotonic()
                rows = [
                    f'<div><progress value="{n}" max="{of}"></progress> {escape(name)}</div>'
                    for name, (n, of) in self._done.items()
                ]
                self._place.update(self._html("".join(rows)))


def printed(text: str, style: str = "") -> Text:
    """Text on one line of the screen, in which no name is markup, moves or hides anything."""
    return Text(visible(text), style=style)


def bars() -> Bars | NotebookBars:
    """What shows the progress of a call from Python."""
    return NotebookBars() if in_notebook() else Bars()


def print_result(result: Any, notes: Sequence[str], *, console: Console) -> None:
    """Print what a study found, on a screen of up to 100 columns: of two risks some 27 lines."""
    notes = [*notes, *(f"in the fit of {note}" for note in result.diagnostics.get("notes", []))]
    if result.attribute is not None:  # unreliable records stand behind "Reliability"
        reliable = result.attribute.records["reliable"]
        said = f"{int((~reliable).sum())} of {len(reliable)} records are "
        notes = [note for note in notes if not note.startswith(said)]
    _title(result, console)
    print_verdict(result.verdict, console=console, took=result.seconds.get("attribute risk", 0.0))
    parts = result_parts(result)
    risks = result.attribute, result.identification
    _show((*risks, parts.pop("reweighting")), console)
    for in_words in (history_in_words, claims_in_words):
        if result.attribute is not None and (words := in_words(result.attribute)):
            console.print(printed(words), no_wrap=True, overflow="ellipsis")
    _show((getattr(risk, "groups", None) for risk in risks), console)
    _show(parts_in_order(parts.values()), console)
    if in_part := replaced(result.release):
        console.print(printed(f"Records replaced: {in_part}"))
    console.print(printed(_trust(result)))
    _end(result, notes, console)


def print_matches(result: Any, notes: Sequence[str], *, console: Console) -> None:
    """Print what matching found: verdict, what to know before the numbers, the numbers."""
    print_verdict(result.verdict, console=console)
    for note in notes:
        console.print(printed(f"Note: {note}", style="yellow"))
    risk = result.identification
    console.print(printed(risk.sentence()))
    _show([risk], console)
    if risk.exposure is not None:
        console.print(printed(risk.exposure.sentence()))
    _where(result.study.output.folder, console)


def print_sweep(result: Any, notes: Sequence[str], *, console: Console) -> None:
    """Print the base, how far each factor moves it, and where the risk is largest."""
    found = result.sensitivity
    _title(result, console)
    console.print(printed(found.base_sentence()))
    console.print(on_screen(found.screen(), console.width, first=20))
    _ends(found.worst_sentence(), found, "summary.csv", console)
    trust = [f"Reliability: {words}" for words in convergence(result.diagnostics)]
    _end(result, notes, console, *trust)


def print_comparison(result: Any, notes: Sequence[str], *, console: Console) -> None:
    """Print a line per candidate, who is on the front, and where the map is."""
    found, section = result.comparison, result.study.compare
    of = dict(zip(("risk", "utility"), found.axes(section.risk, section.utility), strict=True))
    _title(result, console)
    console.print(on_screen(found.screen(*of.values()), console.width, first=LEAST))
    for role, name in of.items():
        better = "less" if MEASURES[name].lower else "more"
        text = f"{role.capitalize()}: {MEASURES[name].words} ({better} is better)"
        console.print(printed(text, style="dim"))
    if judged := verdicts_in_words(found):
        console.print(printed(judged))
    _ends(found.sentence(*of.values()), found, "replicates.csv", console)
    _end(result, [note for note in notes if "unreliable" not in note], console)


def _ends(sentence: str, found: Any, file: str, console: Console) -> None:
    """What many audits say in sum, and where those that are in doubt are told apart."""
    console.print(printed(sentence))
    if doubt := found.doubt():
        advice = f"{doubt.rstrip('.')}; see {file}. To settle it: {CURES['rough']}."
        console.print(printed(advice, style="yellow"))


def print_verdict(verdict: Verdict, *, console: Console, most: int = 2, took: float = 0.0) -> None:
    """Print headline, facts, first reasons, next step (``took``: seconds now), and assumptions."""
    console.print(printed(verdict.headline, style=COLOURS[verdict.signal]))
    if verdict.facts:
        console.print(printed(verdict.facts))
    for reason in verdict.deciding[:most]:
        console.print(printed(f"- {reason.sentence}"))
        if reason.cure:
            console.print(printed(f"  {reason.advice}: {reason.cure}"))
    more = len(verdict.deciding) - most
    if more > 0:
        console.print(printed(f"  ({counted(more, 'more reason')})", style="dim"))
    if verdict.steps:
        first, more = verdict.steps[0], len(verdict.steps) - 1
        also = f" ({counted(more, 'more step')})" * bool(more)
        what, _, rest = first.change.partition("; ")  # the page has words and lines
        keys = re.sub(r"(?m)^(\[.*\])\n", r"\1 ", first.lines).replace("\n\n", "; ")
        keys = keys.replace("\n", ", ")
        text = "; ".join(filter(None, [keys or what, rest]))
        if first.times > 1 and took:
            also = f"; attribute risk: up to {number(first.times * took / 60, 1)} min{also}"
        console.print(printed(f"Next: {text}{also}"))
    console.print(printed(verdict.assumptions, style="dim"))


def on_screen(table: base_result.Table, width: int = 100, *, first: int = FIRST) -> Table:
    """A table of a result as it stands on the screen, the first column so wide at least."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    heads, rows = table.heads, table.rows
    cut: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis"}
    names = max((len(row[0]) for row in rows), default=0)
    longest = [max(map(len, of)) for of in zip(heads, *rows, strict=True)]
    available = width - sum(max(LEAST, n) + 2 for n in longest[1:]) - 2
    widths: dict[str, Any] = {"min_width": first}
    if TEXT not in heads:  # numbers are never cut off: the names are
        first = max(min(max(first, names, len(heads[0])), available), LEAST)
        widths = {"min_width": first, "max_width": first}
    shown.add_column(printed(heads[0]), header_style="bold", **widths, **cut)
    most = max((width - max(first, names) - NUMBERS) // 2, SHORTEST)
    for head, length in zip(heads[1:], longest[1:], strict=True):
        how: dict[str, Any] = {"max_width": most}
        if head != TEXT:
            least = len(head) if TEXT in heads else max(LEAST, length)
            how = {"justify": "right", "min_width": least}
        shown.add_column(printed(head), header_style="dim", **cut, **how)
    for row in rows:
        shown.add_row(*(printed(cell) for cell in row))
    return shown


def _show(parts: Iterable[Any], console: Console) -> None:
    """Of each the table for the screen, or its line."""
    for part in parts:
        if part is None:
            continue
        table, line = part.screen(), part.line()
        if table is None and not line:
            continue
        if table is None:
            console.print(printed(line if line[0].isupper() else f"{head_of(part)[1]}: {line}"))
            continue
        console.print(on_screen(table, console.width))
        for words in (table.caption, line):
            if words:
                console.print(printed(words), no_wrap=True, overflow="ellipsis")


def _title(result: Any, console: Console) -> None:
    console.print(printed(result.study.title, style="bold"), overflow="ellipsis", no_wrap=True)


def _end(result: Any, notes: Sequence[str], console: Console, *trust: str) -> None:
    """Two notes, what there is to trust, the time, and where the report is."""
    for note in notes[:2]:
        console.print(printed(f"Note: {note}", style="yellow"), no_wrap=True, overflow="ellipsis")
    for words in trust:
        console.print(printed(words))
    whole, least = sum(result.seconds.values()), max(0.5, SHOWN_TIME * sum(result.seconds.values()))
    longest = sorted(result.seconds.items(), key=lambda took: -took[1])[:2]  # which a line holds
    parts = ", ".join(f"{stage} {s:.0f} s" for stage, s in longest if s >= least)
    took = f"Time without the report: {whole:.0f} s{f' ({parts})' if parts else ''}"
    console.print(printed(took), no_wrap=True, overflow="ellipsis")
    folder = result.study.output.folder
    _where(None if folder is None else Path(folder), console)


def _where(folder: Path | None, console: Console) -> None:
    if folder is not None:
        where = folder / "report.html"
        console.print(printed(f"Report: {where}"), soft_wrap=True)


def _trust(result: Any) -> str:
    phrases, risk = [], result.attribute
    if risk is not None:
        reliable = risk.records["reliable"]
        phrases.append(f"{int((~reliable).sum()):,} of {len(reliable):,} records unreliable")
        if risk.is_exact:
            phrases.append("the evidence has no Monte Carlo error")
        if risk.modes is not None:
            phrases.append(risk.modes.sentence())
    phrases += convergence(of_the_audit(risk, result.diagnostics))
    if result.identification is not None:
        phrases += result.identification.counting(alone=not phrases)
    return f"Reliability: {'; '.join(phrases)}"


def convergence(found: Mapping[str, Any]) -> list[str]:
    """How far the chains agree, where there are chains."""
    if "max_rhat" not in found:
        return []
    rhat, ess = number(found["max_rhat"], 3), number(found["min_ess"], 0)
    return [f"largest R-hat {rhat}, smallest ESS {ess}"]
