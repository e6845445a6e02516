"""Releases that synthpop made: the files that it leaves behind, in the terms of the original."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.data.delimited import COMMA, Dialect, read_delimited
from bayes_risk.data.labels import checked_missing
from bayes_risk.data.rpart_file import SynthpopModels, read_models
from bayes_risk.data.synthpop_info import SynthesisInfo
from bayes_risk.data.table import Missing, indexed, stored_table

from .alike import aligned, text_columns, words
from .release import Release
from .synthpop_files import found_files

Source = str | PathLike[str] | Sequence[str | PathLike[str]]

NA = ("NA",)
DIALECTS = {".csv": COMMA, ".tab": Dialect("\t", "\\"), ".txt": Dialect(" ", "\\")}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SynthpopRelease:
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

    def release(
        self, synthesized: Sequence[str] | None = None, *, proper: bool | None = None
    ) -> Release:
        """Make a Release, which says what was synthesised.

        Parameters
        ----------
        synthesized : list of str, optional
            The columns whose values were replaced; by default those with a method, as the info file
            or the models say, that the files hold.
        proper : bool, optional
            What ``syn`` was told, by default as the models say; no text file states it. ``FALSE``,
            its default, values drawn at the estimates (``parameters="plug-in"``); ``TRUE``, each
            data set from its own draw (``"independent"``). Neither given nor stated, audits assume
            what their model usually does, and say so.
        """
        told = self.info if self.models is None else self.models
        stated = [] if told is None else told.synthesized
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
        order. In a folder, the info file says which files belong to it; without one, it is the set
        of files whose names differ by a number from 1 to m (``syn1.csv``, ``syn_2.dta``), or the
        only file.
    original : DataFrame, optional
        The confidential table. The releases get its order of columns, its names where R has put
        dots for other characters, its levels and dates; what is text there is text here.
    index : str, optional
        Column with the record labels.
    missing : {"error", "level", "blank"}, or a mapping of column to one of them
        Declared missing codes of Stata and SPSS files, as in `read_table`.
    models : path, optional
        The trees that ``syn(..., models = TRUE)`` keeps, written as JSON by the R function of
        docs/trees.md: ``models.json.gz``.

    Returns
    -------
    SynthpopRelease
        Its ``datasets`` are the m tables.

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
    in common with the original. Visit sequence and predictors are not stated in any text file.

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
    (2, [nan, 12.0])
    """
    if original is not None and not isinstance(original, pd.DataFrame):
        raise InputError(f"original is a {type(original).__name__}; give a pandas DataFrame")
    missing = checked_missing(missing)
    files, info = found_files(source)
    datasets = [_read(file, original, index, missing) for file in files]
    _check_alike(datasets, files)
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
    text = [] if original is None else _in_r(text_columns(original))
    suffix = file.suffix.lower()
    if suffix in DIALECTS:
        table = read_delimited(file, DIALECTS[suffix], text=text, na=NA)
    else:
        how = {} if original is None else words(file, original)
        among = None if original is None else [*_in_r([*map(str, original.columns)]), str(index)]
        table = stored_table(file, None, among=among, text=text, how=how, missing=missing, na=NA)
    if original is None:
        return indexed(table, index, file)
    table = indexed(table.rename(columns=_names(table.columns, original)), index, file)
    _check_missing(table, original, file)
    order = [c for c in original.columns if c in table.columns]
    others = [c for c in table.columns if c not in original.columns]
    return aligned(table[[*order, *others]], original, repr(str(file)))


def _check_missing(table: pd.DataFrame, original: pd.DataFrame, file: Path) -> None:
    """Refuse an original in which R's ``NA`` was taken for a text, which could match nothing."""
    for name in text_columns(original):
        if name not in table.columns or not table[name].isna().any():
            continue
        if original[name].notna().all() and original[name].isin(NA).any():
            raise InputError(
                f"column {name!r} misses values in {str(file)!r}, and holds the text 'NA' in the "
                'original: read the original with na=["NA"]'
            )


def _in_r(names: Sequence[str]) -> list[str]:
    """Names as they are, and as R makes them."""
    return [*names, *(_made_by_r(name) for name in names)]


def _made_by_r(name: str) -> str:
    """R's ``make.names``: dots for all but letters, digits and underscores, an X in front."""
    made = re.sub(r"[^\w.]", ".", name)
    return made if re.match(r"[^\W\d_]|\.(?!\d)", made) else f"X{made}"


def _names(found: Collection[str], original: pd.DataFrame) -> dict[str, str]:
    """Names of the original for names that R has made of them, and of nobody else's."""
    held = set(found)
    mine = [str(c) for c in original.columns if c not in held]
    made = [_made_by_r(name) for name in mine]
    times = Counter(made)
    return {
        r: name
        for r, name in zip(made, mine, strict=True)
        if times[r] == 1 and r not in original.columns
    }


def _check_alike(datasets: Sequence[pd.DataFrame], files: Sequence[Path]) -> None:
    first = datasets[0]
    for table, file in zip(datasets, files, strict=True):
        if list(table.columns) != list(first.columns):
            raise InputError(
                f"{str(file)!r} has the columns {list(table.columns)} and {files[0].name!r} "
                f"{list(first.columns)}; data sets of one release have the same"
            )
        if len(table) != len(first):
            raise InputError(
                f"{str(file)!r} has {len(table):,} records and {files[0].name!r} {len(first):,}; "
                "data sets of one release have as many"
            )
