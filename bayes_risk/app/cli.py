"""The command ``bayes-risk``: nothing heavy is imported before a command runs."""

import atexit
import errno
import logging
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import Parameter, Signature, signature
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bayes_risk._core import __version__
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk._core.progress import compiling_told, no_bars
from bayes_risk._core.validate import MOST

INTERRUPTED = 130  # what a command that was stopped returns
SHOWN = "BAYES_RISK_TRACEBACK"
FLAGS, FOLDER, QUOTE = "PYTENSOR_FLAGS", "compiledir", "'"
FULL = (errno.ENOSPC, errno.EDQUOT)
QUIET = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ResourceWarning)

_own: list[bool] = []  # whether the process is a command's, and not a script's


def own_process() -> None:
    """Make all that this process writes readable by its owner alone.

    Worker processes import nothing from the folder in which the command was given.
    """
    os.umask(0o077)
    os.environ["PYTHONSAFEPATH"] = "1"
    no_bars()
    _own.append(True)


def compile_beside(output: Path) -> None:
    """Let PyTensor, if it comes to be needed, compile in a new folder that goes with the process.

    Its code is run, and holds numbers that a model was given as constants: its owner alone may
    enter. It lies beside the output, or with temporary files where nothing can be written there. A
    folder that the user has chosen is left alone, and so is a script's.
    """
    given = os.environ.get(FLAGS, "")
    if not _own or "pytensor" in sys.modules:
        return
    # with a full disk PyTensor leaves the code, its constants with it, among temporary files
    tempfile.tempdir = os.environ["TMPDIR"] = _passing("br-", None)
    if FOLDER in given:
        return
    there = output.absolute().parent
    place = there if os.access(there, os.W_OK) and QUOTE not in str(there) else None
    folder = _passing(f".{output.name.replace(QUOTE, '')}.compiled-", place)
    os.environ[FLAGS] = ",".join([*filter(None, [given]), f"base_{FOLDER}={QUOTE}{folder}{QUOTE}"])


def _passing(prefix: str, place: Path | None) -> str:
    """Make a new folder that goes with the process."""
    folder, own = tempfile.mkdtemp(prefix=prefix, dir=place), os.getpid()

    def remove() -> None:
        if os.getpid() == own:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)  # before PyTensor's own, and so after it
    return folder


def full_disk(error: BaseException | None) -> str | None:
    """What to say of an error that comes from a disk without room; None: of another error.

    Compilers and HDF5 tell it in their text alone, and PyTensor's errors hide it behind others.
    """
    while error is not None:
        number, text = getattr(error, "errno", None), str(error)
        if number in FULL or any(os.strerror(n) in text for n in FULL):
            compiled = os.environ.get(FLAGS, "").partition(f"base_{FOLDER}=")[2].strip(QUOTE)
            places = [tempfile.gettempdir(), compiled, os.getcwd()]
            if named := getattr(error, "filename", None):
                places = [str(Path(named).absolute().parent)]
            least, where = min((shutil.disk_usage(p).free, p) for p in places if os.path.isdir(p))
            return (
                f"the disk is full: {least / 2**20:,.0f} MiB are left in {where!r}; "
                "free some 200 MiB, or use another disk: TMPDIR=FOLDER for temporary files, "
                "--output for all others"
            )
        error = error.__cause__ or error.__context__
    return None


@contextmanager
def interrupts() -> Iterator[Callable[[], None]]:
    """Make every polite stop signal a KeyboardInterrupt; give a function that raises a lost one."""
    stopped, own = False, os.getpid()

    def stop(*_: Any) -> None:
        nonlocal stopped
        if os.getpid() != own:  # a forked worker, ended by its pool; raising here can hang it
            os._exit(INTERRUPTED)
        stopped = True
        raise KeyboardInterrupt

    def again() -> None:
        if stopped:
            raise KeyboardInterrupt

    names = [n for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]
    before = {n: signal.signal(getattr(signal, n), stop) for n in names}
    try:
        yield again
    except Exception:  # what a sampler made of the interruption
        again()
        raise
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def withheld(error: BaseException) -> str:
    """Kind and place of an error that nobody foresaw; its text may hold values of records."""
    frames = extract_tb(error.__traceback__)
    own = [f for f in frames if "bayes_risk" in f.filename] or list(frames)
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return (
        f"stopped by an unexpected {type(error).__name__}{where}; its text is withheld, for it may "
        f"hold values of the data: {SHOWN}=1 in the environment shows it"
    )


def told(caught: Sequence[warnings.WarningMessage]) -> list[str]:
    """Our warnings, each once; then, of those of other packages, only which they are."""
    said: dict[str, bool] = {}  # by text, whether it is of another package
    for w in caught:
        kind, path = w.category, Path(w.filename)
        if issubclass(kind, UserWarning) and not issubclass(kind, QUIET):
            ours = kind.__module__.startswith("bayes_risk.")
            ours = ours or (kind is UserWarning and "bayes_risk" in path.parts)
            place = f"{kind.__name__} ({path.name}, line {w.lineno})"
            said.setdefault(str(w.message) if ours else place, not ours)
    return sorted(said, key=lambda text: said[text])


if TYPE_CHECKING:
    from bayes_risk.app.study.study import Study

Words = list[str] | None
Options = dict[str, tuple[Any, ...]]
Backend = Literal["threads", "loky", "dask"]
Codes = Literal["error", "level", "blank"]
COUNT = {"min": 1, "max": MOST["n_jobs"]}
RESULTS: Options = {  # options: type, default, help, what else Typer is told
    "output": (Path | None, None, "Folder for the results; must not exist yet."),
    "overwrite": (bool, False, "Replace the folder of an earlier run."),
}
WORKERS: Options = {
    "restart": (bool, False, "Throw away the finished steps of a run that was stopped."),
    "jobs": (int, 2, "Number of workers; results do not depend on it.", COUNT),
    "backend": (Backend, "threads", "Threads, processes, or a Dask cluster of processes."),
    "max_memory": (str | None, None, "Most memory to take: 2GiB. Results do not depend on it."),
    "quiet": (bool, False, "No bars and no result on the screen; errors alone."),
}
DEMO: Options = {
    "data": (
        Literal["fair", "italy", "visits"],
        "fair",
        "Redbook survey (6,366 records), Italian table (2,313), visits to doctors (2,019).",
    ),
    "seed": (int | None, None, "Another random seed.", {"min": 0}),
}
DRY_RUN = (bool, False, "Tell the memory and time that it would take, and stop.")
MATCHING: Options = {
    "known": (Words, None, "Unsynthesised keys the intruder holds, with commas between: age,educ."),
    "synthesized": (Words, None, "Synthesised keys the intruder holds, likewise."),
    "radius": (Words, None, "Match a number within units, age=2, or a share of it, income=10%."),
    "open_ends": (bool, False, "Leave the ends of these intervals out."),
    "fallback": (bool, True, "When nothing matches, choose by the unsynthesised keys."),
    "index": (str | None, None, "Column with the record labels."),
    "na": (Words, None, "What means missing in a CSV, unquoted: NA."),
    "days": (Words, None, "Columns of dates: a radius of them is in days."),
    "separator": (str | None, None, "Between fields of a CSV: ';'. Told from it if left out."),
    "decimal": (str | None, None, "Of its numbers: ',', likewise."),
    "encoding": (str | None, None, "Of its text: cp1250, likewise."),
    "missing_codes": (Codes, "error", "What becomes of codes that a file declares as missing."),
    "codes": (Words, None, "Columns whose value labels are left out, likewise."),
    "labels": (Words, None, "Columns of which only some values have labels."),
    "true_match_rate": (
        float | None,
        None,
        "Share of records that may be matched uniquely and correctly: 0.05.",
        {"min": 0.0, "max": 1.0},
    ),
}
SHORT = {"output": ["-o"], "quiet": ["-q"]}


def takes(**options: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Give a command, which takes any keyword arguments, these options."""

    def with_options(command: Any) -> Any:
        own = signature(command, eval_str=True).parameters.values()
        found = [one for one in own if one.kind == one.POSITIONAL_OR_KEYWORD]
        for name, (kind, default, words, *more) in options.items():
            flags = [f"--{name.replace('_', '-')}", *SHORT.get(name, [])]
            if kind is bool and default:
                flags = []  # --fallback, --no-fallback
            hint: Any = Annotated[kind, typer.Option(*flags, help=words, **dict(*more))]
            found.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint))
        command.__signature__ = Signature(found)
        return command

    return with_options


def names(given: list[str] | None) -> list[str]:
    """Names with commas between, of an option that may be repeated."""
    return [name.strip() for part in given or [] for name in part.split(",") if name.strip()]


def radius_of(given: list[str] | None) -> dict[str, Any]:
    """Read NAME=UNITS or NAME=SHARE%, each name once, as a study file has them."""
    from bayes_risk.matching.radii import Absolute, Relative, as_setting

    radius: dict[str, Any] = {}
    for part in names(given):
        name, _, number = (word.strip() for word in part.rpartition("="))
        if name in radius:
            raise InputError(f"--radius names {name!r} more than once; give each key one radius")
        try:
            units = float(number.removesuffix("%") if name else "")
            rule = Relative(units / 100) if number.endswith("%") else Absolute(units)
        except InputError as error:
            raise InputError(f"--radius {part!r}: {error}") from None
        except ValueError:
            raise InputError(
                f"--radius {part!r} is not NAME=UNITS or NAME=SHARE%; write age=2 for 2 units to "
                "either side, or income=10% for 10 % of the true value"
            ) from None
        radius[name] = as_setting(rule)
    return radius


app = typer.Typer(
    help="Disclosure risk of synthetic microdata: what could an intruder learn?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals hold confidential values
)
UNEXPECTED, USAGE_ERROR = 1, 2
PRINTERS = {
    "audit": "print_result",
    "sweep": "print_sweep",
    "compare": "print_comparison",
    "identify": "print_matches",
}


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
@takes(**RESULTS, **DEMO, **WORKERS)
def demo(*, output: Path | None, data: str, seed: int | None, **how: Any) -> None:
    """Audit synthetic copies of real data that come with the package."""
    with _plain_errors():
        from bayes_risk.app.study.study import parse_study
        from bayes_risk.demo import RIVALS, STUDIES

        from .output.folder import check_target

        content = STUDIES[data] | ({} if seed is None else {"random_seed": seed})
        folder = output or Path("bayes-risk-demo")
        candidates = {folder: content}
        if data in RIVALS:  # seconds, and first
            trees = folder.with_name(f"{folder.name}-trees")
            candidates = {trees: content | RIVALS[data], **candidates}
            check_target(folder, overwrite=how["overwrite"])
        for where, one in candidates.items():
            _run(parse_study(one).with_output(where), "audit", **how)


def _command(what: str, argument: str) -> Callable[..., None]:
    """The command that runs a study."""

    def command(
        study_file: Annotated[Path, typer.Argument(metavar="STUDY.toml", help=argument)],
        **how: Any,
    ) -> None:
        with _plain_errors(study_file):
            from bayes_risk.app.study.study import read_study

            study, output = read_study(study_file), how.pop("output")
            given = study.output.folder
            own = given or Path(f"{study_file.stem}-risk")
            if what != "audit":  # the folder that is given is the audit's
                own = Path(f"{given or study_file.stem}-{what}")
            _run(study.with_output(output or own), what, **how)

    made: Callable[..., None] = takes(**RESULTS, **WORKERS, dry_run=DRY_RUN)(command)
    return made


for _what, _help, _argument in (
    ("audit", "Fit, synthesise, measure both risks and report, as a study file says.",
     "The study file."),
    ("sweep", "Vary the attribute audit of a study file, to see how far it rests on what was "
     "assumed.", "A study file with a section \\[sweep]."),
    ("compare", "Make several releases, again and again, and lay their risk and utility side by "
     "side.", "A study file with a section \\[compare]."),
):  # fmt: skip
    app.command(_what, help=_help)(_command(_what, _argument))


@app.command()
def init(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="The confidential file: CSV, Parquet, Stata, ...")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The study file to write; must not exist.")
    ] = None,
) -> None:
    """Say what each column of a file is taken for, and write a study of it that runs."""
    with _plain_errors():
        from rich.console import Console

        from bayes_risk.studies.first_study import study_of

        path = output or Path(f"{data.name.split('.')[0]}.toml")
        there = os.path.relpath(data, path.absolute().parent)
        found = study_of(data, path=there)
        found.save(path)
        go = f"Study: {path}\nNext: {shlex.join(['bayes-risk', 'audit', str(path)])}"
        Console().print(f"{found!r}\n{go}", highlight=False, markup=False, soft_wrap=True)


@app.command()
@takes(**MATCHING, **RESULTS, json=(Path | None, None, "Write the numbers to this new file too."))
def identify(
    original: Annotated[
        Path, typer.Argument(help="The confidential file: CSV, Parquet, Stata, SAS or SPSS.")
    ],
    synthetic: Annotated[
        list[Path], typer.Argument(help="The released files, one or more, or a synthpop folder.")
    ],
    **given: Any,
) -> None:
    """Measure and judge the identification risk of files made elsewhere."""
    with _plain_errors(options="known|synthesized|radius|index|na|days|separator|decimal|encoding"):
        from bayes_risk.app.study.study import parse_study

        from .output.numbers import write_json

        json, rate = given["json"], given["true_match_rate"]
        if json is not None and os.path.lexists(json):
            raise InputError(f"{str(json)!r} exists; give a new name to --json")
        keys = {key: names(given[key]) for key in ("known", "synthesized")}
        if not any(keys.values()):
            raise InputError("known and synthesized are both empty; name at least one key column")
        read = ("index", "separator", "decimal", "encoding", "missing_codes")
        kinds = {"codes": names(given["codes"]), "labels": names(given["labels"])}
        content = {
            "title": "Identification risk of a released file",
            "random_seed": 0,
            "data": {
                "path": original,
                **{key: given[key] for key in read},
                "na": given["na"] or [],
                "days": names(given["days"]),
                "levels": {name: kind for kind in kinds for name in kinds[kind]},
            },
            "release": {"files": synthetic, "columns": keys["synthesized"] or keys["known"]},
            "identification": {
                **keys,
                "radius": radius_of(given["radius"]),
                "closed": not given["open_ends"],
                "fallback": given["fallback"],
            },
            "thresholds": {} if rate is None else {"true_match_rate": rate},
            "output": {"folder": given["output"]},
        }
        how = {"jobs": 1, "quiet": False, "overwrite": given["overwrite"], "backend": None}
        found = _run(parse_study(content), "identify", **how)
        if json is not None:
            write_json(json, found.identification.to_dict())
            typer.echo(f"Numbers: {json}")


def _run(
    study: "Study", what: str, *, quiet: bool, jobs: int, dry_run: bool = False, **how: Any
) -> Any:
    """Run with bars, and print the result and the warnings; or print what it would cost."""
    from rich.console import Console

    from bayes_risk.reporting import terminal

    from .output.folder import check_name, check_target
    from .study.keys import as_keys

    def notes() -> list[str]:
        found = told(caught)
        return found if what == "identify" else [as_keys(note) for note in found]

    folder, console = Path(study.output.folder or "."), Console(quiet=quiet and not dry_run)
    if dry_run:
        check_name(folder)
    elif study.output.folder is not None:
        check_target(folder, overwrite=how["overwrite"])
    compile_beside(folder)  # before slow imports
    bars = terminal.Bars(Console(stderr=True, quiet=quiet))
    early: list[list[str]] = []
    with interrupts() as stop, _hushed() as caught, bars, compiling_told(bars):

        def progress(stage: str, done: int, total: int) -> None:
            stop()  # PyMC swallows Ctrl-C and goes on with the draws it has
            if not early and stage != "in all":  # what reading said, before anything takes long
                early.append([] if quiet else notes())
                _say(*early[0])
            bars(stage, done, total)

        bars("in all", 0, 1_000)
        if dry_run:
            from .run.runner import estimate

            cost = estimate(study, kind=what, n_jobs=jobs, backend=how["backend"])
        else:
            from .run import run

            more = how | {"n_jobs": jobs, "command": _command_line()}
            result = run(study, what, progress=progress, **more)
    if dry_run:
        _say(*notes())
        console.print(str(cost), highlight=False, markup=False, soft_wrap=True)
        return cost.check(how["max_memory"])
    later = [note for note in notes() if note not in [*early, []][0]]
    getattr(terminal, PRINTERS[what])(result, later, console=console)
    return result


def _command_line() -> str:
    return shlex.join(["bayes-risk", *sys.argv[1:]])


@contextmanager
def _plain_errors(study_file: Path | None = None, options: str = "") -> Iterator[None]:
    """Errors of input and model are one red line; an interruption says what it left: nothing.

    Errors of input name the lines of the study file, or options (a pattern) of the command.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        _say("; ".join(["stopped", *(_notes(error) or ["nothing was left behind"])]))
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        foreseen = isinstance(error, InputError | ModelError | OSError | MemoryError)
        if not foreseen and (os.environ.get(SHOWN) or isinstance(error, typer.Exit)):
            raise
        full = full_disk(error)
        said = full or (str(error) if foreseen else withheld(error))
        if isinstance(error, InputError) and study_file is not None and study_file.is_file():
            from .study.keys import with_lines

            said = with_lines(said, study_file)
        elif isinstance(error, InputError) and options:  # arguments of the library are options
            said = re.sub(rf"\b({options})=(?=[\s:;,.)]|$)", r"--\1", said)
        _say("; ".join([f"bayes-risk: {said}", *_notes(error)]), style="red")
        raise typer.Exit(USAGE_ERROR if full or foreseen else UNEXPECTED) from None


def _notes(error: BaseException | None) -> list[str]:
    """What is said of an error, or of what it came from."""
    while error is not None:
        if found := getattr(error, "__notes__", None):
            return list(found)
        error = error.__context__
    return []


def _say(*texts: str, style: str = "yellow") -> None:
    from rich.console import Console
    from rich.text import Text

    for text in texts:
        Console(stderr=True).print(Text(" ".join(text.split()), style=style), soft_wrap=True)


@contextmanager
def _hushed() -> Iterator[list[warnings.WarningMessage]]:
    """Silence PyMC's chatter, and hold warnings back while bars are drawn: `told` words them."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield caught
    finally:
        logging.disable(before)


if __name__ == "__main__":
    main()
