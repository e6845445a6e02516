"""The command ``bayes-risk``: nothing heavy is imported before a command runs."""

import atexit
import errno
import gc
import logging
import os
import shlex
import signal
import sys
import tempfile
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from traceback import extract_tb, format_exception
from typing import Annotated, Any, Literal

import typer
import typer.core

from bayes_risk._core import __version__
from bayes_risk._core.errors import Argument, InputError, ModelError, Surface
from bayes_risk._core.progress import no_bars, reports_compilation
from bayes_risk._core.shown import visible
from bayes_risk._core.surroundings import (
    TEMPORARY,
    numba_cache,
    passing_folder,
    read_nothing_here,
)
from bayes_risk._core.validate import BOUNDS

INTERRUPTED = 130  # what a command that was stopped returns
SHOWN = "BAYES_RISK_TRACEBACK"
FLAGS, FOLDER, QUOTE, QUOTES = "PYTENSOR_FLAGS", "compiledir", "'", "\"'"
FULL = (errno.ENOSPC, errno.EDQUOT)
DISK_FULL = "disk full: free about 200 MiB, or use another disk (TMPDIR=FOLDER, --output FOLDER)"

PLACE = Path(__file__).parents[1]
PAGES = next((p for p in (PLACE / "docs", PLACE.parent / "docs") if p.is_dir()), PLACE / "docs")

_own: list[Any] = []  # of a process that is a command's, not a script's: folders that go with it


def own_process() -> None:
    """Make all that this process writes readable by its owner alone, and start and end it quickly.

    Nothing is imported from the folder in which the command was given, and no library reads a
    configuration file there; in worker processes neither.
    """
    gc.set_threshold(50_000)  # imports make many objects that stay
    atexit.register(gc.freeze)  # and the end need not look at them again
    os.umask(0o077)
    os.environ["PYTHONSAFEPATH"] = "1"
    read_nothing_here()
    no_bars()
    _own.extend([True, numba_cache()])


def compile_beside(output: Path) -> None:
    """Let PyTensor, if it comes to be needed, compile in a new folder that goes with the process.

    Its code is run, and holds numbers that a model was given as constants: its owner alone may
    enter. It lies beside the output, or with temporary files where nothing can be written there. A
    folder that the user has chosen is left alone, and so is a script's.
    """
    if not _own or "pytensor" in sys.modules:
        return
    # with a full disk PyTensor leaves the code, its constants with it, among temporary files
    _own.append(passing_folder(TEMPORARY))
    tempfile.tempdir = os.environ["TMPDIR"] = _own[-1].name
    given, there = os.environ.get(FLAGS, ""), output.absolute().parent
    if FOLDER not in given:
        place = there if os.access(there, os.W_OK) and QUOTE not in str(there) else None
        name = f".{output.name.replace(QUOTE, '')}.compiled-"
        _own.append(passing_folder(name, place))
        flag = f"base_{FOLDER}={QUOTE}{_own[-1].name}{QUOTE}"
        os.environ[FLAGS] = f"{given},{flag}" if given else flag


@contextmanager
def interrupts() -> Iterator[tuple[Callable[[], None], list[warnings.WarningMessage]]]:
    """Make every polite stop signal a KeyboardInterrupt, and hold warnings and log lines back.

    Gives a function that raises a lost interruption, and the warnings, which `warning_texts` words.
    """
    stopped, own = list[bool](), os.getpid()

    def stop(*_: Any) -> None:
        if os.getpid() != own:  # a forked worker, ended by its pool; raising here can hang it
            os._exit(INTERRUPTED)
        stopped.append(True)
        raise KeyboardInterrupt

    def again() -> None:
        if stopped:
            raise KeyboardInterrupt

    def hook(unraisable: Any) -> None:  # in a callback, where Python prints it and goes on
        if not (stopped and unraisable.exc_type is KeyboardInterrupt):
            shown(unraisable)

    names = [n for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]
    before = {n: signal.signal(getattr(signal, n), stop) for n in names}
    level, shown = logging.root.manager.disable, sys.unraisablehook
    sys.unraisablehook = hook
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(record=True, action="always") as caught:
            yield again, caught
    except Exception as error:  # what a sampler made of the interruption
        if not stopped:
            raise
        interruption = KeyboardInterrupt()
        interruption.__notes__ = getattr(error, "__notes__", [])
        raise interruption from None
    finally:
        logging.disable(level)
        sys.unraisablehook = shown
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def withheld(error: BaseException) -> str:
    """Kind and place of an error that nobody foresaw; its text may hold values of records."""
    frames = extract_tb(error.__traceback__)
    last = [f for f in frames if "bayes_risk" in f.filename][-1]
    where = f" ({Path(last.filename).name}, line {last.lineno})"
    return (
        f"internal error: {type(error).__name__}{where}. Its message may contain confidential "
        f"values and is hidden; set {SHOWN}=1 to show it"
    )


def warning_texts(
    caught: Sequence[warnings.WarningMessage], surface: Surface | None = None
) -> list[str]:
    """Our warnings, each once; then, of those of other packages, only which they are."""
    texts: dict[str, bool] = {}  # by text, whether it is of another package
    for w in caught:
        kind, path = w.category, Path(w.filename)
        if issubclass(kind, UserWarning):
            ours = kind.__module__.startswith("bayes_risk.")
            ours = ours or (kind is UserWarning and "bayes_risk" in path.parts)
            place = f"{kind.__name__} ({path.name}, line {w.lineno})"
            text = (surface or Surface()).text(str(w.message)) if ours else place
            texts.setdefault(text, not ours)
    return sorted(texts, key=lambda text: texts[text])


Options = dict[str, tuple[Any, ...]]
Words = list[str]
Backend = Literal["threads", "loky", "dask"]
Codes = Literal["error", "level", "blank"]
Table = Literal["fair", "italy", "visits"]
COUNT = dict(zip(("min", "max"), BOUNDS["n_jobs"], strict=True))
FROM_0, SHARE = {"min": BOUNDS["random_seed"][0]}, {"min": 0.0, "max": 1.0}
RESULTS: Options = {  # options: type, default, help, what else Typer is told
    "output": (Path | None, None, "New folder for the results."),
    "overwrite": (bool, False, "Replace the folder of an earlier run."),
}
WORKERS: Options = {
    "restart": (bool, False, "Discard the finished steps of an interrupted run."),
    "jobs": (int, 2, "Number of workers; results do not depend on it.", COUNT),
    "backend": (Backend, "threads", "Threads, processes, or a Dask cluster of processes."),
    "max_memory": (str | None, None, "Memory limit, such as 2GiB; results do not depend on it."),
    "quiet": (bool, False, "Show errors only."),
    "dry_run": (bool, False, "Estimate memory and time, then exit."),
}
DEMO: Options = {
    "data": (Table, "fair", "Survey (6,366 records), table (2,313), visits to doctors (2,019)."),
    "seed": (int | None, None, "Another random seed.", FROM_0),
}
READING: Options = {  # keys of [data]
    "index": (str | None, None, "Column with the record labels."),
    "na": (Words, [], "Unquoted texts that mean missing in a CSV, such as NA."),
    "days": (Words, [], "Date columns; their radius is in days."),
    "separator": (str | None, None, "CSV field separator, such as ';' (default: detected)."),
    "decimal": (Literal[".", ","] | None, None, "Decimal mark (default: detected)."),
    "encoding": (str | None, None, "Text encoding, such as cp1250 (default: detected)."),
    "missing_codes": (Codes, "error", "How to treat codes that the file declares missing."),
}
MATCHING: Options = {
    "columns": (Words, [], "Columns to compare, if some were not released."),
    "known": (Words, [], "Unsynthesised keys that the intruder knows: age,educ."),
    "synthesized": (Words, [], "Synthesised keys that the intruder knows."),
    "radius": (Words, [], "Match a number within units (age=2) or a share (income=10%)."),
    "open_ends": (bool, False, "Exclude the ends of these intervals."),
    "fallback": (bool, True, "Without a match, choose by the unsynthesised keys."),
    "corresponds": (
        bool | None,
        None,
        "Row i is record i (default: if the numbers of rows agree).",
    ),
    "person": (str | None, None, "Column that identifies persons with several rows."),
    **READING,
    "codes": (Words, [], "Columns whose value labels are ignored."),
    "labels": (Words, [], "Columns with labels for some values only: keep the others as levels."),
    "text": (Words, [], "CSV columns to read as text."),
    "numbers": (Words, [], "CSV columns to read as numbers."),
    "true_match_rate": (float | None, None, "Largest share of records that may be matched.", SHARE),
    "public": (
        list[str],
        [],
        "Column that may stay unchanged, with the reason: region='published frame'.",
    ),
}


CONTRARY = {"closed": "open_ends"}  # arguments that are false where the option is given


class OfCommand(Surface):
    """How errors name an option of ``identify``: ``--radius``; a switch that is off with no."""

    def named(self, code: str) -> str:
        """An option, with a value or without; levels that are words are options of their own."""
        name, _, value = code.removeprefix("read_table(").removesuffix(")").partition("=")
        if name == "levels":
            return f"--{value.strip(QUOTES)}" if value else self.head(name, ())
        name = {"missing": "missing_codes"}.get(name, name)
        if name not in MATCHING:
            return ""
        if value in ("True", "False"):
            return self.head(name, (value == "True",))
        return f"{self.head(name, ())} {value.strip(QUOTES)}".rstrip()

    def head(self, argument: Argument, given: Sequence[Any]) -> str:
        """The option, and its value if there is one."""
        name, *keys = [argument] if isinstance(argument, str) else argument
        if name == "levels":
            return " or ".join(f"--{kind}" for kind in KINDS)
        off = given[:1] == (False,) and name not in CONTRARY
        name, switch = CONTRARY.get(name, name), isinstance((*given, None)[0], bool)
        if name not in MATCHING:
            return super().head(argument, given)
        value = "=".join([*keys, *map(repr, () if switch else given)])
        return f"--{'no-' * off}{name.replace('_', '-')} {value}".rstrip()


KINDS = ("codes", "labels", "text", "numbers")  # what levels may say of a column
SHORT = {"output": ["-o"], "quiet": ["-q"]}


def names(given: list[str]) -> list[str]:
    """Names with commas between, of an option that may be repeated."""
    return [name.strip() for part in given for name in part.split(",") if name.strip()]


def takes(**options: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Give a command, which takes any keyword arguments, these options."""

    def with_options(command: Any) -> Any:
        own = signature(command, eval_str=True).parameters.values()
        found = [one for one in own if one.kind == one.POSITIONAL_OR_KEYWORD]
        for name, (kind, default, words, *more) in options.items():
            flags = [f"--{name.replace('_', '-')}", *SHORT.get(name, [])]
            if kind == bool | None or default is True:
                flags = []  # --fallback, --no-fallback
            how = {"callback": names} if kind is Words else dict(*more)
            hint: Any = Annotated[kind, typer.Option(*flags, help=words, **how)]
            found.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint))
        command.__signature__ = Signature(found)
        return command

    return with_options


def reason_of(given: str) -> tuple[str, str]:
    """Read NAME=REASON."""
    name, _, why = given.partition("=")
    if not (name.strip() and why.strip()):
        raise InputError(
            f"--public {given!r} is not NAME=REASON; give the reason why the column is public"
        )
    return name.strip(), why.strip()


def radius_of(given: list[str]) -> dict[str, Any]:
    """Read NAME=UNITS or NAME=SHARE%, each name once, as a study file has them."""
    radius: dict[str, Any] = {}
    for part in given:
        name, _, number = (word.strip() for word in part.rpartition("="))
        if name in radius:
            raise InputError(f"--radius names {name!r} more than once; give each key one radius")
        try:
            units = float(number.removesuffix("%") if name else "")
        except ValueError:
            raise InputError(
                f"--radius {part!r} is not NAME=UNITS or NAME=SHARE%; write age=2 for 2 units to "
                "either side, or income=10% for 10 % of it"
            ) from None
        from bayes_risk.matching.radii import Absolute, Relative, as_setting  # slow

        try:
            rule = Relative(units / 100) if number.endswith("%") else Absolute(units)
        except InputError as error:
            wrong = error.text.partition("` ")[2]
            raise InputError(f"--radius {part!r} {wrong}") from None
        radius[name] = as_setting(rule)
    return radius


def command_of(given: str) -> list[str]:
    """Words of a command, as a shell reads them."""
    try:
        return shlex.split(given)
    except ValueError:
        raise InputError(f"--generator {given!r} has a quotation mark without its pair") from None


class _Commands(typer.core.TyperGroup):
    """Commands; control characters of arguments that do not fit are shown escaped."""

    def make_context(self, *args: Any, **how: Any) -> Any:
        with _shown():
            return super().make_context(*args, **how)

    def invoke(self, ctx: Any) -> Any:
        with _shown():
            return super().invoke(ctx)


@contextmanager
def _shown() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):  # those of usage have one
            error.message = visible(message)  # type: ignore[attr-defined]
        raise


app = typer.Typer(
    cls=_Commands,
    help="Disclosure risk of synthetic microdata: what could an intruder learn?",
    epilog=f"Documentation (docs/... in messages): {PAGES}",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals hold confidential values
)
UNEXPECTED, USAGE_ERROR = 1, 2
PRINTERS = {"sweep": "print_sweep", "compare": "print_comparison", "identify": "print_matches"}


def main() -> None:
    """Run the command line."""
    own_process()
    app()


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Disclosure risk of synthetic microdata."""
    if version:
        typer.echo(f"bayes-risk {__version__}")
        raise typer.Exit


@app.command()
@takes(**RESULTS, **DEMO, **WORKERS)
def demo(*, output: Path | None, data: str, seed: int | None, **how: Any) -> None:
    """Audit synthetic copies of real data that come with the package."""
    with _plain_errors():
        from bayes_risk.demo import RIVALS, STUDIES

        from .output import check_target
        from .study.study import parse_study

        content = STUDIES[data] | ({} if seed is None else {"random_seed": seed})
        folder = output or Path("bayes-risk-demo")
        candidates = {folder: content}
        if data in RIVALS:  # seconds, and first
            trees = folder.with_name(f"{folder.name}-trees")
            candidates = {trees: content | RIVALS[data], **candidates}
            check_target(folder, overwrite=how["overwrite"] or how["dry_run"])
        for where, one in candidates.items():
            _run(parse_study(one).with_output(where), "audit", **how)


def _command(what: str, does: str) -> None:
    """Make a command that runs a study."""
    needs = "The study file." if what == "audit" else f"A study file with a section \\[{what}]."

    @app.command(what, help=does)
    @takes(**RESULTS, **WORKERS)
    def command(
        study_file: Annotated[Path, typer.Argument(metavar="STUDY.toml", help=needs)], **how: Any
    ) -> None:
        with _plain_errors(study_file):
            from .study.keys import check_keys

            check_keys(study_file, what)
            from .study.study import read_study

            study, output = read_study(study_file), how.pop("output")
            given, name = study.output.folder, study_file.stem
            usual = given or Path(f"{name}-risk")
            if what != "audit":  # the folder that is given is the audit's
                usual = Path(f"{given or name}-{what}")
            _run(study.with_output(output or usual), what, **how)


_command("audit", "Fit a model, synthesise, measure both disclosure risks and write a report.")
_command("sweep", "Repeat the attribute audit under other assumptions.")
_command("compare", "Compare risk and utility of several candidates.")


@app.command()
def init(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="The confidential file: CSV, Parquet, Stata, ...")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The study file to write.")
    ] = None,
    generator: Annotated[
        str | None,
        typer.Option(
            "--generator",
            help="Audit any synthesiser by running its command: 'Rscript make.R {input} {output} "
            "{m} {seed}'.",
        ),
    ] = None,
    chain: Annotated[
        bool,
        typer.Option("--chain", help="A model for each synthesised column, one after another."),
    ] = False,
) -> None:
    """Infer the type of each column and write a ready-to-run study file."""
    with _plain_errors():
        path = output or Path(f"{data.name.split('.')[0]}.toml")
        _found(data)
        if os.path.lexists(path):  # before slow imports
            why = "is a study; give the table" if path == data else "exists; give another name"
            raise InputError(f"{str(path)!r} {why}{' with --output' * (path != data)}")
        if not path.absolute().parent.is_dir():
            raise InputError(f"there is no folder {str(path.parent)!r}; create it first")
        from bayes_risk.studies.first_study import study_of

        from .run.quick_utility import utility_of
        from .study.keys import Keys

        there = os.path.relpath(data, path.absolute().parent)
        found = study_of(
            data,
            path=there,
            command=command_of(generator or ""),
            chain=chain,
            utility_of=partial(utility_of, folder=path.parent),
        )
        found.save(path)
        go = f"Next: {shlex.join(['bayes-risk', 'audit', str(path)])}"
        _print(*Keys().text(repr(found)).split("\n"), f"Study: {path}", go)


@app.command()
@takes(**MATCHING, **RESULTS, json=(Path | None, None, "Also write the numbers to this new file."))
def identify(
    original: Annotated[
        Path, typer.Argument(help="The confidential file: CSV, Parquet, Stata, SAS or SPSS.")
    ],
    synthetic: Annotated[
        list[Path], typer.Argument(help="The synthetic files, or a synthpop folder.")
    ],
    **given: Any,
) -> None:
    """Measure the identification risk of existing files."""
    with _plain_errors(options=True):
        json, known, synthesized = (given[key] for key in ("json", "known", "synthesized"))
        if json is not None and os.path.lexists(json):
            raise InputError(f"{str(json)!r} exists; give a new name to --json")
        if not known and not synthesized:
            raise InputError("`known` and `synthesized` are empty; name at least one key column")
        _found(original, *synthetic)
        public, radius = dict(map(reason_of, given["public"])), radius_of(given["radius"])
        from .output import write_json
        from .run.identify import study_of_files

        levels = {name: kind for kind in KINDS for name in given[kind]}
        given |= {"public": public, "radius": radius, "levels": levels}
        study = study_of_files(original, synthetic, given, reading=READING)
        found = _run(study, "identify", overwrite=given["overwrite"])
        if json is not None:
            write_json(json, found.identification.to_dict())
            _print(f"Numbers: {json}")


def _run(
    study: Any, what: str, *, jobs: int = 1, quiet: bool = False, dry_run: bool = False, **how: Any
) -> Any:
    """Run with bars, and print the result and the warnings; or print what it would cost."""
    from rich.console import Console

    from bayes_risk.reporting import terminal

    from .output import check_target
    from .study.keys import Keys

    texts = partial(warning_texts, surface=OfCommand() if what == "identify" else Keys())
    folder, console = study.output.folder, Console(quiet=quiet and not dry_run)
    if folder is not None:
        check_target(folder, overwrite=dry_run or how["overwrite"])
    compile_beside(folder or Path("identify"))  # before slow imports
    bars, early = terminal.Bars(Console(stderr=True, quiet=quiet)), None
    with interrupts() as (stop, caught), bars, reports_compilation(bars):

        def progress(stage: str, done: int, total: int) -> None:
            nonlocal early
            stop()  # PyMC swallows Ctrl-C and goes on with the draws it has
            if early is None and stage != "in all":  # what reading said, before what takes long
                early = [] if quiet else texts(caught)
                _say(*early)
            bars(stage, done, total)

        bars("in all", 0, 1_000)
        from .run import identify_files as matched
        from .run.runner import estimate, run

        shared: Any = {"progress": progress, "n_jobs": jobs}
        how["command"] = shlex.join(["bayes-risk", *sys.argv[1:]])
        try:
            if what == "identify":
                result: Any = matched(study, progress=progress, **how)
            elif dry_run:
                result = estimate(study, kind=what, backend=how["backend"], **shared)
            else:
                result = run(study, what, **shared, **how)
        except InputError:  # which what reading said may explain
            _say(*(texts(caught) if early is None else ()))
            raise
    later = [note for note in texts(caught) if note not in (early or [])]
    if dry_run:
        _say(*later)
        _print(*str(result).split("\n"))
        return result.check(how["max_memory"])
    getattr(terminal, PRINTERS.get(what, "print_result"))(result, later, console=console)
    return result


@contextmanager
def _plain_errors(study_file: Path | None = None, options: bool = False) -> Iterator[None]:
    """Errors of input and model are one red line; an interruption says what it left: nothing.

    Errors of input name the lines of the study file, or options of the command.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        left = getattr(error, "__notes__", None) or ["nothing was left behind"]
        _say("; ".join(["stopped", *left]))
        # Python dies of SIGINT at its end if the class of a tuple or of data that was made last was
        # interrupted, though that was handled: so one is made
        namedtuple("Stopped", ())
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        foreseen = isinstance(error, InputError | ModelError | OSError | MemoryError)
        if isinstance(error, InputError) and options:
            error.surface = OfCommand()
        elif isinstance(error, InputError):
            from .study.keys import lines_of, placed

            there = study_file is not None and study_file.is_file()
            placed(error, lines=lines_of(study_file) if study_file and there else ())
        if not foreseen and os.environ.get(SHOWN):
            raise
        # compilers and HDF5 tell it in their text alone, and PyTensor's errors behind others
        full = any(os.strerror(n) in "".join(format_exception(error)) for n in FULL)
        message = DISK_FULL if full else str(error) if foreseen else withheld(error)
        _say("; ".join([f"bayes-risk: {message}", *getattr(error, "__notes__", [])]), style="red")
        raise typer.Exit(USAGE_ERROR if full or foreseen else UNEXPECTED) from None


def _found(*files: Path) -> None:
    """Refuse names that no file or folder has, before slow imports."""
    for file in files:
        if not file.exists():
            raise InputError(f"there is no file {str(file)!r}; check the path")


def _say(*texts: str, style: str = "yellow") -> None:
    _print(*(" ".join(text.split()) for text in texts), stderr=True, style=style)


def _print(*lines: str, stderr: bool = False, style: str = "") -> None:
    from rich.console import Console
    from rich.text import Text

    for line in lines:
        Console(stderr=stderr).print(Text(visible(line), style=style), soft_wrap=True)


if __name__ == "__main__":
    main()
