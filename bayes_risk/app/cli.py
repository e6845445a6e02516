"""The command ``bayes-risk``: nothing heavy is imported before a command runs."""

import logging
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_risk._core import __version__
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk._core.validate import MOST

from .process import INTERRUPTED, compile_beside, full_disk, own_process, shows_all, told, withheld
from .process import interrupts as _interrupts

if TYPE_CHECKING:
    from bayes_risk.app.study.study import Study
    from bayes_risk.matching.radii import Radius
    from bayes_risk.matching.result import IdentificationRisk

OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Folder for the results; must not exist yet.")
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace the folder of an earlier run.")
]
RestartOption = Annotated[
    bool, typer.Option("--restart", help="Throw away the finished steps of a run that was stopped.")
]
JobsOption = Annotated[
    int,
    typer.Option(
        "--jobs", min=1, max=MOST["n_jobs"], help="Number of workers; results do not depend on it."
    ),
]


class Backend(StrEnum):
    """Kinds of workers."""

    threads = "threads"
    loky = "loky"
    dask = "dask"


BackendOption = Annotated[
    Backend, typer.Option("--backend", help="Threads, processes, or a Dask cluster of processes.")
]
MemoryOption = Annotated[
    str | None,
    typer.Option("--max-memory", help="Most memory to take: 2GiB. Results do not depend on it."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Tell the memory and time that it would take, and stop.")
]


def names(given: list[str] | None) -> list[str]:
    """Names with commas between, of an option that may be repeated."""
    return [name.strip() for part in given or [] for name in part.split(",") if name.strip()]


def radius_of(given: list[str] | None) -> dict[str, "Radius"]:
    """Read NAME=UNITS or NAME=SHARE%, each name once."""
    from bayes_risk.matching.radii import Absolute, Relative

    radius: dict[str, Radius] = {}
    for part in names(given):
        name, _, number = (word.strip() for word in part.rpartition("="))
        if name in radius:
            raise InputError(f"--radius names {name!r} more than once; give each key one radius")
        share = number.endswith("%")
        units = _as_number(number.removesuffix("%"))
        if not name or units is None:
            raise InputError(
                f"--radius {part!r} is not NAME=UNITS or NAME=SHARE%; write age=2 for 2 units to "
                "either side, or income=10% for 10 % of the true value"
            )
        if not 0 <= units < float("inf"):
            raise InputError(f"--radius {part!r} is no radius; give a finite number >= 0")
        radius[name] = Relative(units / 100) if share else Absolute(units)
    return radius


def _as_number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


app = typer.Typer(
    help="Disclosure risk of synthetic microdata: what could an intruder learn?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals hold confidential values
)
UNEXPECTED, USAGE_ERROR = 1, 2
PRINTERS = {"audit": "print_result", "sweep": "print_sweep", "compare": "print_comparison"}


class DemoData(StrEnum):
    """The tables that come with the package."""

    fair = "fair"
    italy = "italy"
    visits = "visits"


class MissingCodes(StrEnum):
    """What becomes of codes that a file declares as missing."""

    error = "error"
    level = "level"
    blank = "blank"


def main() -> None:
    """Run the command line."""
    own_process()
    app()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bayes-risk {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Disclosure risk of synthetic microdata."""


@app.command()
def demo(
    output: OutputOption = None,
    overwrite: OverwriteOption = False,
    restart: RestartOption = False,
    data: Annotated[
        DemoData,
        typer.Option(
            help="Redbook survey (6,366 records), Italian table (2,313), visits to doctors (2,019)."
        ),
    ] = DemoData.fair,
    seed: Annotated[int | None, typer.Option(min=0, help="Another random seed.")] = None,
    jobs: JobsOption = 2,
    backend: BackendOption = Backend.threads,
    max_memory: MemoryOption = None,
) -> None:
    """Audit a synthetic copy of real data that comes with the package."""
    with _plain_errors():
        from bayes_risk.app.study.study import parse_study
        from bayes_risk.demo import STUDIES

        content = STUDIES[data.value] | ({} if seed is None else {"random_seed": seed})
        study = parse_study(content).with_output(output or Path("bayes-risk-demo"))
        how: Any = {"overwrite": overwrite, "restart": restart, "max_memory": max_memory}
        _run(study, "audit", jobs=jobs, backend=backend, **how)


def _command(what: str, argument: str, needs: str | None) -> Callable[..., None]:
    """The command that runs a study; ``needs``: the section that it takes, and how to give it."""

    def command(
        study_file: Annotated[Path, typer.Argument(metavar="STUDY.toml", help=argument)],
        output: OutputOption = None,
        overwrite: OverwriteOption = False,
        restart: RestartOption = False,
        jobs: JobsOption = 2,
        backend: BackendOption = Backend.threads,
        max_memory: MemoryOption = None,
        dry_run: DryRunOption = False,
    ) -> None:
        with _plain_errors(), _with_lines(study_file):
            from bayes_risk.app.study.study import read_study

            study = read_study(study_file)
            given = study.output.folder
            if needs is None:
                folder = output or given or Path(f"{study_file.stem}-risk")
            else:  # the folder that is given is the audit's
                if getattr(study, what) is None:
                    raise InputError(f"{study_file} has no section [{what}]; {needs}")
                folder = output or Path(f"{given or study_file.stem}-{what}")
            how: Any = {"overwrite": overwrite, "restart": restart, "max_memory": max_memory}
            study = study.with_output(folder)
            _run(study, what, dry_run, jobs=jobs, backend=backend, **how)

    return command


@contextmanager
def _with_lines(study_file: Path) -> Iterator[None]:
    """Errors of input name the lines of the study file."""
    try:
        yield
    except InputError as error:
        from bayes_risk.app.study.study import with_lines

        if study_file.is_file():
            error.args = (with_lines(str(error), study_file),)
        raise


for _what, _help, _argument, _needs in (
    ("audit", "Fit, synthesise, measure both risks and report, as a study file says.",
     "The study file.", None),
    ("sweep", "Vary the attribute audit of a study file, to see how far it rests on what was "
     "assumed.", "A study file with a section \\[sweep].",
     'say what varies: [sweep] priors = ["uniform", "marginal"]'),
    ("compare", "Make several releases, again and again, and lay their risk and utility side by "
     "side.", "A study file with a section \\[compare].",
     'name candidates: [compare.trees] and model = { kind = "CART", order = ["income"] }'),
):  # fmt: skip
    app.command(_what, help=_help)(_command(_what, _argument, _needs))


@app.command()
def identify(
    original: Annotated[
        Path, typer.Argument(help="The confidential file: CSV, Parquet, Stata, SAS or SPSS.")
    ],
    synthetic: Annotated[
        list[Path], typer.Argument(help="The released files, one or more, or a synthpop folder.")
    ],
    known: Annotated[
        list[str] | None,
        typer.Option(help="Unsynthesised keys the intruder holds, with commas between: age,educ."),
    ] = None,
    synthesized: Annotated[
        list[str] | None, typer.Option(help="Synthesised keys the intruder holds, likewise.")
    ] = None,
    radius: Annotated[
        list[str] | None,
        typer.Option(help="Match a number within units, age=2, or a share of it, income=10%."),
    ] = None,
    open_ends: Annotated[
        bool, typer.Option("--open-ends", help="Leave the ends of these intervals out.")
    ] = False,
    fallback: Annotated[
        bool, typer.Option(help="When nothing matches, choose by the unsynthesised keys.")
    ] = True,
    index: Annotated[str | None, typer.Option(help="Column with the record labels.")] = None,
    na: Annotated[
        list[str] | None, typer.Option(help="What means missing in a CSV, unquoted: NA.")
    ] = None,
    missing_codes: Annotated[
        MissingCodes, typer.Option(help="What becomes of codes that a file declares as missing.")
    ] = MissingCodes.error,
    codes: Annotated[
        list[str] | None, typer.Option(help="Columns whose value labels are left out, likewise.")
    ] = None,
    labels: Annotated[
        list[str] | None, typer.Option(help="Columns of which only some values have labels.")
    ] = None,
    true_match_rate: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Share of records that may be matched uniquely and correctly: 0.05.",
        ),
    ] = None,
    output: OutputOption = None,
    overwrite: OverwriteOption = False,
    json: Annotated[
        Path | None, typer.Option(help="Write the numbers to this new file too.")
    ] = None,
) -> None:
    """Measure and judge the identification risk of files made elsewhere."""
    with _plain_errors():
        from rich.console import Console

        from bayes_risk.app.run.identify import run_identify
        from bayes_risk.reporting.terminal import print_matches
        from bayes_risk.reporting.verdicts.verdict import Thresholds

        _check_new(json)
        limits: Any = {} if true_match_rate is None else {"true_match_rate": true_match_rate}
        found = run_identify(
            original,
            synthetic,
            known=names(known),
            synthesized=names(synthesized),
            radius=radius_of(radius),
            closed=not open_ends,
            fallback=fallback,
            levels=dict.fromkeys(names(codes), "codes") | dict.fromkeys(names(labels), "labels"),
            reading={"index": index, "missing": missing_codes.value, "na": na or []},
            thresholds=Thresholds(**limits),
            output=output,
            overwrite=overwrite,
            command=shlex.join(["bayes-risk", *sys.argv[1:]]),
        )
        console = Console()
        print_matches(found, console=console, folder=output)
        _write_numbers(found.risk, json, console.print)


def _run(
    study: "Study",
    what: str,
    dry_run: bool = False,
    *,
    overwrite: bool,
    jobs: int,
    backend: Backend,
    max_memory: str | None,
    **how: Any,
) -> None:
    """Run with bars, and print the result and the warnings; or print what it would cost."""
    from rich.console import Console

    from bayes_risk.reporting import terminal

    workers: Any = {"n_jobs": jobs, "backend": backend.value, "max_memory": max_memory}
    if dry_run:
        from bayes_risk.app.run.costs import print_costs

        return print_costs(study, what, **workers)
    with _interrupts() as stop, _hushed(), _collected_warnings() as notes, terminal.Bars() as bars:

        def progress(stage: str, done: int, total: int) -> None:
            stop()  # PyMC swallows Ctrl-C and goes on with the draws it has
            bars(stage, done, total)

        from .output import check_target

        folder = Path(study.output.folder or ".")
        check_target(folder, overwrite=overwrite)  # before slow imports
        compile_beside(folder)
        command = shlex.join(["bayes-risk", *sys.argv[1:]])
        from bayes_risk.app.run import run

        how |= {"overwrite": overwrite, "progress": progress, "command": command}
        result = run(study, what, **workers, **how)
    getattr(terminal, PRINTERS[what])(result, notes, console=Console())


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Errors of input and model are one red line; an interruption says what it left: nothing."""
    try:
        yield
    except (InputError, ModelError, OSError, MemoryError) as error:
        _say("; ".join([f"bayes-risk: {full_disk(error) or error}", *_notes(error)]), "red")
        raise typer.Exit(USAGE_ERROR) from None
    except KeyboardInterrupt as error:
        _say("; ".join(["stopped", *(_notes(error) or ["nothing was left behind"])]), "yellow")
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        if shows_all() or isinstance(error, typer.Exit):
            raise
        full = full_disk(error)
        _say("; ".join([f"bayes-risk: {full or withheld(error)}", *_notes(error)]), "red")
        raise typer.Exit(USAGE_ERROR if full else UNEXPECTED) from None


def _notes(error: BaseException | None) -> list[str]:
    """What is said of an error, or of what it came from."""
    while error is not None:
        if found := getattr(error, "__notes__", None):
            return list(found)
        error = error.__context__
    return []


def _say(text: str, style: str) -> None:
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True).print(Text(" ".join(text.split()), style=style), soft_wrap=True)


@contextmanager
def _hushed() -> Iterator[None]:
    """Silence PyMC's chatter; what matters comes as warnings and diagnostics."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _collected_warnings() -> Iterator[list[str]]:
    """Hold warnings back while bars are drawn; give them at the end, each once, in plain words."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    notes.extend(told(caught))


def _check_new(path: Path | None) -> None:
    if path is not None and os.path.lexists(path):
        raise InputError(f"{str(path)!r} exists; give a new name to --json")


def _write_numbers(risk: "IdentificationRisk", path: Path | None, say: Callable[..., None]) -> None:
    if path is None:
        return
    from .output import write_json

    write_json(path, risk.to_dict())
    say(f"Numbers: {path}", highlight=False, markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
