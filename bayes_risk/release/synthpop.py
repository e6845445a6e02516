"""Releases that synthpop made: the files that it leaves behind, in the terms of the original."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_risk._core.errors import FILE, InputError, place_of
from bayes_risk._core.shown import Shown
from bayes_risk._core.validate import BOUNDS
from bayes_risk.data.delimited import Dialect, read_delimited
from bayes_risk.data.kinds import SUFFIXES, checked_file
from bayes_risk.data.rpart_file import SynthpopModels, read_models
from bayes_risk.data.statistical import checked_missing
from bayes_risk.data.table import Missing, indexed, stored_table

from .alike import like_original, number_columns, read_like, text_columns, words
from .release import Release

PREFIX, SUFFIX = "synthesis_info_", ".txt"
WRITTEN = {"csv": ".csv", "tab": ".tab", "txt": ".txt", "Stata": ".dta"}
LARGEST = 2_000_000  # characters of it that are read
READ = (*SUFFIXES, ".tab", ".txt")
CURE = 'write.syn(..., filetype = "csv")'


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SynthesisInfo:
    """What the text file of ``write.syn`` states; what it does not state is None."""

    name: str  # the name that the files were given
    saved: str | None = None  # date and time, as R wrote them
    original: str | None = None  # how the call to ``syn`` named the confidential data
    m: int | None = None  # number of synthetic data sets
    # ``csv``, ``tab``, ``txt``, ``Stata``, ``SPSS``, ``SAS``, ``rda`` or ``RData``
    filetype: str | None = None
    # the method of each column, ``""`` for columns that were not synthesised; empty if it is not
    # stated, or not as one method a column
    methods: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None

    @property
    def synthesized(self) -> list[str]:
        """Columns with a method, in the order stated; empty if no methods are."""
        return [column for column, method in self.methods.items() if method]


def read_info(file: Path) -> SynthesisInfo:
    """Read a ``synthesis_info_<name>.txt``; lines that are not known are passed over."""
    with file.open(encoding="utf-8-sig", errors="replace") as read:  # what counts is ASCII
        text = read.read(LARGEST)
    m, seed = _stated(text, "Number of synthetic data sets"), _stated(text, "Seed used")
    written = re.search(r"^Output file\(s\): *\((\w+)\)", text, re.M)
    return SynthesisInfo(
        name=file.name.removeprefix(PREFIX).removesuffix(SUFFIX),
        saved=_stated(text, "Date saved"),
        original=_stated(text, "Data frame with original data"),
        m=int(m) if m and re.fullmatch("[0-9]{1,9}", m) else None,
        filetype=written[1] if written else None,
        methods=_methods(text),
        seed=int(seed) if seed and re.fullmatch("-?[0-9]{1,19}", seed) else None,
    )


def _stated(text: str, what: str) -> str | None:
    found = re.search(rf"^{re.escape(what)}: *(.*?) *$", text, re.M)
    return found[1] if found and found[1] else None


def _methods(text: str) -> dict[str, str]:
    """Read R's print of a named vector: a line of names, and one of quoted values under them."""
    block = re.search(r"^Methods used:[^\n]*\n(.*?)(?=^Seed used|\Z)", text, re.M | re.S)
    lines = [line for line in block[1].splitlines() if line.strip()] if block else []
    methods: dict[str, str] = {}
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        found = list(re.finditer(r'"((?:[^"\\]|\\.)*)"', values))
        ends = [0, *(value.end() for value in found)]
        columns = [names[a:b].strip() for a, b in zip(ends, ends[1:], strict=False)]
        if not found or not all(columns):
            return {}
        methods |= {column: value[1] for column, value in zip(columns, found, strict=True)}
    return methods if len(lines) % 2 == 0 else {}


def found_files(source: Any) -> tuple[list[Path], SynthesisInfo | None]:
    """The data files of a synthesis in their order, and what is stated about it."""
    if isinstance(source, Sequence) and not isinstance(source, str):
        if not source:
            raise InputError("source is empty; give a folder, or at least one file")
        return [_readable(checked_file(path)) for path in source], None
    if not isinstance(source, str | PathLike):
        raise InputError(f"source is a {type(source).__name__}; give a folder or a list of files")
    path = Path(source)
    if path.is_dir():
        named = [file for file in path.iterdir() if _suffix(file) or _is_info(file)]
        files = sorted(checked_file(file) for file in named if not file.is_dir())
        infos = [file for file in files if _is_info(file)]
        if not infos:
            return _numbered(path, files), None
        if len(infos) > 1:
            raise InputError(
                f"{str(path)!r} holds several syntheses ({', '.join(i.name for i in infos)}); "
                "give the path of one of these files"
            )
        path = infos[0]
    if not _is_info(checked_file(path)):
        return [_readable(path)], None
    info = read_info(path)  # of ``<name>.csv``, or ``<name>_1.csv`` to ``<name>_m.csv``
    if info.m is None or info.filetype is None:
        raise InputError(
            f"{path.name} does not state how many files of which type there are; give a list of "
            "the data files"
        )
    if info.filetype not in WRITTEN:
        raise InputError(
            f"{info.name!r} was written as {info.filetype} files, which are not read; write it "
            f"again with {CURE}"
        )
    if info.m > (most := BOUNDS["m"][1]):
        raise InputError(
            f"{path.name} states {info.m:,} data sets, and at most {most:,} are read; give a "
            "list of the data files"
        )
    numbers = [""] if info.m == 1 else [f"_{l}" for l in range(1, info.m + 1)]
    names = [f"{info.name}{n}{WRITTEN[info.filetype]}" for n in numbers]
    return [checked_file(path.parent / name) for name in names], info


def _numbered(folder: Path, files: Sequence[Path]) -> list[Path]:
    """The one set of files whose names differ by a number alone, 1 to m; or the only file."""
    readable = [path for path in files if _suffix(path)]
    sets: dict[tuple[str, str], dict[int, Path]] = {}
    for path in readable:
        suffix = _suffix(path)
        found = re.fullmatch(r"(.*?)(\d+)", path.name[: len(path.name) - len(suffix)])
        if found:
            sets.setdefault((found[1], suffix), {})[int(found[2])] = path
    sets = {name: numbers for name, numbers in sets.items() if 1 in numbers}
    if len(sets) > 1 or (not sets and len(readable) != 1):
        names = ", ".join(path.name for path in readable) or "none"
        raise InputError(
            f"{str(folder)!r} does not hold one set of files numbered from 1 (files that can be "
            f"read: {names}); give a list of the files, or write them with {CURE}"
        )
    if not sets:
        return readable
    ((prefix, suffix), numbers) = next(iter(sets.items()))
    for l in range(1, max(numbers) + 1):
        if l not in numbers:
            raise InputError(
                f"{str(folder)!r} has {prefix}{max(numbers)}{suffix} but no {prefix}{l}{suffix}; "
                "add it, or give a list of the files"
            )
    return [numbers[l] for l in sorted(numbers)]


def _is_info(path: Path) -> bool:
    return path.match(f"{PREFIX}*{SUFFIX}")


def _suffix(path: Path) -> str:
    return next((suffix for suffix in READ if path.name.lower().endswith(suffix)), "")


def _readable(path: Path) -> Path:
    if not _suffix(path):
        raise InputError(
            f"{str(path)!r} is of no known kind; give files ending in {', '.join(READ)}, such as "
            f"{CURE} makes"
        )
    syntax = [path.with_suffix(end) for end in (".sps", ".sas") if path.suffix == ".txt"]
    if any(other.is_file() for other in syntax):
        raise InputError(
            f"{str(path)!r} is the data of an SPSS or SAS program, without names of columns; write "
            f"it again with {CURE}"
        )
    return path


Source = str | PathLike[str] | Sequence[str | PathLike[str]]

NA = ("NA",)
DIALECTS = {".csv": Dialect(","), ".tab": Dialect("\t", "\\"), ".txt": Dialect(" ", "\\")}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SynthpopRelease(Shown):
    """The m synthetic data sets that synthpop wrote.

    Attributes
    ----------
    datasets : list of m DataFrame
        The synthetic files; every function that takes releases takes them.
    files : list of m Path
        Where they came from.
    info : SynthesisInfo or None
        What ``synthesis_info_<name>.txt`` states: ``m``, ``methods``, ``seed``, ``saved``; None if
        there is no such file.
    models : SynthpopModels or None
        The trees that made the files, if their file was given; `CART.from_rpart` takes them.
    """

    datasets: list[pd.DataFrame]
    files: list[Path]
    info: SynthesisInfo | None
    models: SynthpopModels | None = None

    @property
    def m(self) -> int:
        """Number of data sets."""
        return len(self.datasets)

    def __repr__(self) -> str:
        names = ", ".join(file.name for file in self.files)
        return f"SynthpopRelease: m = {self.m} of {len(self.datasets[0]):,} records\n  {names}"

    def release(
        self, synthesized: Sequence[str] | None = None, *, proper: bool | None = None
    ) -> Release:
        """Make a Release, which states what was synthesised.

        Parameters
        ----------
        synthesized : list of str, optional
            The columns whose values were replaced; by default those with a method, as the info file
            or the models state, that the files hold.
        proper : bool, optional
            The argument of ``syn``, by default as the models state; no text file states it.
            ``FALSE``, its default, values drawn at the estimates (``parameters="plug-in"``);
            ``TRUE``, each data set from its own draw (``"independent"``). Neither given nor stated,
            audits assume what their model usually does, and state so.
        """
        described = self.info if self.models is None else self.models
        stated = [] if described is None else described.synthesized
        there = [column for column in stated if column in self.datasets[0].columns]
        columns = there if synthesized is None else list(synthesized)
        if not columns:
            raise InputError(
                "no file states which columns were synthesised; name them: "
                'release(synthesized=["income"])'
            )
        if proper is None and self.models is not None:
            proper = self.models.proper
        drawn = None if proper is None else ("independent" if proper else "plug-in")
        return Release(datasets=self.datasets, synthesized=columns, parameters=drawn)


def read_synthpop(
    source: Source,
    *,
    original: pd.DataFrame | None = None,
    index: str | None = None,
    missing: Missing = "error",
    models: str | PathLike[str] | None = None,
) -> SynthpopRelease:
    r"""Read the files that R's synthpop wrote, or any m files of one release.

    Parameters
    ----------
    source : path, or list of paths
        A folder; the ``synthesis_info_<name>.txt`` of one synthesis in it; or the data files, in
        order. In a folder, the info file states which files belong to it; without one, it is the
        set of files whose names differ by a number from 1 to m (``syn1.csv``, ``syn_2.dta``), or
        the only file.
    original : DataFrame, optional
        The confidential table. The releases get its order of columns, its names where R has put
        dots for other characters, its levels and dates; what is text there is text here.
    index : str, optional
        Column with the record labels.
    missing
        As in `read_table`: declared missing codes of Stata and SPSS files.
    models : path, optional
        The trees that ``syn(..., models = TRUE)`` keeps, written as JSON by the R function of
        docs/trees.md: ``models.json.gz``.

    Raises
    ------
    InputError
        Nothing to read, or several syntheses in a folder; a file that is missing among 1 to m;
        R's own formats, SPSS or SAS syntax (write with ``filetype = "csv"``); data sets with
        different columns or numbers of records; values that are none of the original's levels;
        models of another number of data sets, or the JSON of another object.

    Notes
    -----
    ``NA`` without quotes is a missing value, as R writes it; ``"NA"`` in quotes is a text.

    *Rows.* Identification risk compares record i with record i. synthpop keeps the order of records
    as long as it makes as many as there are (``k`` is not given, no replicated uniques are removed)
    and some columns are not synthesised; a file whose columns were all synthesised has no records
    in common with the original, and may have any number of them (`Release`). Visit sequence and
    predictors are not stated in any text file.

    References
    ----------
    Nowok, B., Raab, G. M. and Dibben, C. (2016). synthpop: Bespoke creation of synthetic data in R.
    Journal of Statistical Software 74(11), 1-26.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for l in (1, 2):
    ...         _ = (Path(folder) / f"syn_{l}.csv").write_text('"sex","pay"\n"f",NA\n"m",12\n')
    ...     made = read_synthpop(folder)
    >>> made.m, made.datasets[0]["pay"].tolist()
    (2, [<NA>, 12])
    """
    if original is not None and not isinstance(original, pd.DataFrame):
        raise InputError(f"original is a {type(original).__name__}; give a pandas DataFrame")
    missing = checked_missing(missing)
    files, info = found_files(source)
    datasets = [_read(file, original, index, missing) for file in files]
    for table, file in zip(datasets[1:], files[1:], strict=True):
        for what, mine, others in (
            ("columns", list(table.columns), list(datasets[0].columns)),
            ("number of records", len(table), len(datasets[0])),
        ):
            if mine != others:
                raise InputError(
                    f"{str(file)!r} has the {what} {mine} and {files[0].name!r} {others}; data "
                    "sets of one release have the same"
                )
    trees = None if models is None else read_models(models)
    if trees is not None and trees.m != len(files):
        raise InputError(
            f"{str(models)!r} holds the models of {trees.m} data sets and there are "
            f"{len(files)} files; write both from the same synthesis"
        )
    if info is not None and original is not None:
        names = _names(list(info.methods), original)
        info = replace(info, methods={names.get(c, c): how for c, how in info.methods.items()})
    return SynthpopRelease(datasets=datasets, files=files, info=info, models=trees)


def _read(
    file: Path, original: pd.DataFrame | None, index: str | None, missing: Missing
) -> pd.DataFrame:
    kinds = {"text": text_columns, "numbers": number_columns}
    written: dict[str, Any] = {
        kind: _in_r(of(original)) for kind, of in kinds.items() if original is not None
    }
    suffix = file.suffix.lower()
    if suffix in DIALECTS:
        table = read_delimited(file, DIALECTS[suffix], **written, na=NA)
        table.attrs[FILE] = repr(str(file))
    else:
        how = {} if original is None else words(file, original)
        among = None if original is None else [*_in_r([*map(str, original.columns)]), str(index)]
        table = stored_table(file, None, among=among, how=how, missing=missing, **written, na=NA)
    if original is None:
        return indexed(table, index, file)
    table = indexed(table.rename(columns=_names(table.columns, original)), index, file)
    for name in text_columns(original):  # where R's ``NA`` was taken for a text, nothing matches
        if name in table.columns and table[name].isna().any():
            if original[name].notna().all() and original[name].isin(NA).any():
                raise InputError(
                    f"column {name!r} misses values in {str(file)!r}, and holds the text 'NA' in "
                    'the original: read the original with `na=["NA"]`'
                )
    order = [c for c in original.columns if c in table.columns]
    others = [c for c in table.columns if c not in original.columns]
    return like_original(table[[*order, *others]], original, repr(str(file)))


def _in_r(names: Sequence[str]) -> list[str]:
    """Names as they are, and as R makes them."""
    return [*names, *(_made_by_r(name) for name in names)]


def _made_by_r(name: str) -> str:
    """R's ``make.names``: dots for all but letters, digits and underscores, an X in front."""
    made = re.sub(r"[^\w.]", ".", name)
    return made if re.match(r"[^\W\d_]|\.(?!\d)", made) else f"X{made}"


def _names(found: Collection[str], original: pd.DataFrame) -> dict[str, str]:
    """Names of the original for names that R has made of them, and of nobody else's."""
    present = set(found)
    mine = [str(c) for c in original.columns if c not in present]
    made = [_made_by_r(name) for name in mine]
    times = Counter(made)
    return {
        r: name
        for r, name in zip(made, mine, strict=True)
        if times[r] == 1 and r not in original.columns
    }


def read_releases(
    paths: Sequence[Path],
    original: pd.DataFrame,
    *,
    index: str | None = None,
    missing: Missing = "error",
    **written: Any,
) -> list[pd.DataFrame]:
    """Read releases: each path a data set, or what synthpop left of a synthesis in a folder."""
    tables: list[pd.DataFrame] = []
    for path in paths:
        if repr(str(path)) == place_of(0, original):
            raise InputError(f"{str(path)!r} is the confidential file; name the synthetic files")
        if _of_synthpop(path):
            tables += read_synthpop(path, original=original, index=index, missing=missing).datasets
        else:
            how: dict[str, Any] = {"index": index, "missing": missing, **written}
            tables.append(read_like(path, original, **how, same_rows=True))
    return tables


def files_of_releases(paths: Sequence[Path]) -> list[Path]:
    """The file of each data set that `read_releases` reads, in the same order."""
    return [file for p in paths for file in (found_files(p)[0] if _of_synthpop(p) else [p])]


def _of_synthpop(path: Path) -> bool:
    return path.is_dir() or path.suffix in (".txt", ".tab")
