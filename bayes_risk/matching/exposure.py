"""What released files show without any model: identical records, genuine values, uniques.

Nothing is estimated here. Columns are coded one after the other over all files, records become one
integer each, and integers are counted: a million records take seconds.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns
from bayes_risk.data.microdata import Microdata, same_records
from bayes_risk.data.variables import looks_continuous
from bayes_risk.release.release import Release

from .exposure_result import Exposure, Values
from .input import Released, coded, listed, ranked, source
from .keyed_counts import Keyed, identity

LARGEST = 2**62  # no number of a combination is larger


def exposure(
    original: pd.DataFrame | Microdata,
    release: Released | pd.DataFrame | Sequence[pd.DataFrame],
    *,
    keys: Sequence[str] | None = None,
) -> Exposure:
    r"""Count what released files show of the original without any model.

    For each file: records identical to the original's; values of numeric columns that are genuine,
    and unique ones among them; and replicated uniques, with :math:`d_q` and :math:`s_q` records of
    the original and the file that carry key q (Raab, Nowok & Dibben 2024),

    .. math:: \#\{q: d_q = 1, s_q = 1\}.

    Parameters
    ----------
    original : DataFrame or Microdata, n records
        The confidential file. Never changed.
    release : Release, DataFrame, or list of m DataFrames
        The released files. Of a `Release`, columns that were not synthesised may be left out. Of
        DataFrames those columns count as synthesised that differ from the original's in some
        file whose rows correspond; all of them if there is no such file or no such column.
    keys : list of str, optional
        On which columns records are unique. By default all categories: columns of a Microdata that
        are no numbers; of a DataFrame those of text or of at most 20 distinct numbers; and
        if none of these was synthesised, the synthesised numbers besides.

    Returns
    -------
    Exposure
        Counts with their denominators; no confidential value.

    Raises
    ------
    InputError
        No file, or one without records or without a column of the original; keys that the
        original or some file lacks; a `Release` that leaves columns out and whose records do not
        correspond.

    See Also
    --------
    context_measures : Replicated uniques as a share, DiSCO, CAP, distances.

    Notes
    -----
    *Rows* correspond where a file has as many as the original and the same index. Only then are
    identical records counted in the same row; those of any row need no correspondence.

    *Equal.* Numbers are equal within 1e-12 of their size, which is what a text file may lose;
    missing values equal missing values.

    *Fresh sample.* With :math:`N_1` and :math:`N_2` values that occur once and twice among the n
    values of a column, a fresh record of the same population has a value that is in the original
    with probability about :math:`1 - N_1/n`, and one that occurs once in it with probability
    about :math:`2 N_2/n` (Good 1953); so of whole records. Where :math:`N_1` is below 1 % of n
    (codes, ages, rounded amounts) genuine values say little: ``judged`` is False there.

    *Identical records* of a `Release` that replaced some records contain the others
    (``not_replaced``); values are those of the replaced records alone.

    References
    ----------
    Raab, G. M., Nowok, B. and Dibben, C. (2024). Practical privacy metrics for synthetic data.
    arXiv:2406.16826.
    Good, I. J. (1953). The population frequencies of species and the estimation of population
    parameters. Biometrika 40, 237-264.

    Examples
    --------
    >>> import pandas as pd
    >>> original = pd.DataFrame({"sex": list("ffmm"), "pay": [10.5, 20.0, 20.0, 31.0]})
    >>> shown = exposure(original, original.assign(pay=[10.5, 31.0, 20.0, 25.0]), keys=["pay"])
    >>> shown.files[["identical", "identical_any_row", "replicated_uniques"]].loc[1].tolist()
    [2, 2, 2]
    >>> shown.columns[["genuine", "unique"]].iloc[0].tolist()
    [3, 2]
    """
    categories = None
    if isinstance(original, Microdata):
        categories = [v.name for v in original.variables if v.n_levels]
        original = original.decode(original.codes)
    asked = None if keys is None else known_columns("keys", keys, list(original.columns))
    if asked == []:
        raise InputError("keys is empty; name at least one column, or leave it out")
    files = _files_of(original, release)
    everything, made = _Records(files.cut[-1]), _Records(files.cut[-1])
    compared, synthesized = [], []
    numbers: dict[str, tuple[Ints, Ints]] = {}
    for name in original.columns:
        coded_column = files.codes(name)
        if coded_column is None:
            continue
        compared.append(name)
        everything.add(*coded_column)
        if _is_number(original, name):
            numbers[name] = _values(files, *coded_column)
        if files.is_made(name, coded_column[0]):
            synthesized.append(name)
            made.add(*coded_column)
    if not compared:
        raise InputError("the files share no column with the original; see their columns")
    if not synthesized:  # nothing differs: the original itself
        synthesized, made = compared, everything
    chosen = asked or _default_keys(original, compared, synthesized, categories)
    unique, replicated = _uniques(files, chosen, compared)
    counted = [c for c in synthesized if c in numbers]
    of_original = np.reshape([numbers[c][0] for c in counted], (-1, 4)).astype(np.int64)
    of_files = np.reshape([numbers[c][1] for c in counted], (-1, files.m, 4)).astype(np.int64)
    whole, part = _Equal.of(files, everything), _Equal.of(files, made)
    return Exposure(
        index=original.index,
        compared=tuple(compared),
        synthesized=tuple(synthesized),
        keys=tuple(chosen),
        left_out=tuple(dict.fromkeys(c for c in original.columns if c not in compared)),
        n_released=np.diff(files.cut)[1:],
        not_replaced=0 if files.replaced is None else int((~files.replaced).sum()),
        corresponds=files.corresponds,
        same_as_original=whole.same,
        identical=whole.own_row,
        found=whole.found,
        identical_synthesized=part.own_row,
        alone=whole.alone,
        any_row=whole.any_row,
        any_row_synthesized=part.any_row,
        unique=unique,
        replicated=replicated,
        values=Values(tuple(counted), *of_original.T, *of_files.transpose(2, 1, 0)),
    )


class _Files(NamedTuple):
    """The original and its m files, those that correspond in its order.

    ``made``: what the release says was synthesised; ``cut``: where each table begins, and the end,
    when all are put one below the other; ``replaced``: records whose values were, None: all.
    """

    frames: Sequence[pd.DataFrame]
    made: frozenset[str] | None
    cut: Ints
    corresponds: Flags
    replaced: Flags | None

    @property
    def m(self) -> int:
        return len(self.frames) - 1

    def parts(self, codes: Ints) -> list[Ints]:
        """Codes of the original and of each file."""
        return np.split(codes, self.cut[1:-1])

    def is_made(self, name: str, codes: Ints) -> bool:
        """Whether a column was synthesised: as the release says, or because it differs."""
        if self.made is not None:
            return name in self.made
        y, *released = self.parts(codes)
        there = [z for z, same in zip(released, self.corresponds, strict=True) if same]
        return not there or any(bool((z != y).any()) for z in there)

    def codes(self, name: str) -> tuple[Ints, int] | None:
        """Codes below a size, 0 if missing, of all tables; None: they cannot be compared."""
        parts = []
        for frame in self.frames:
            times = int((frame.columns == name).sum())
            kept = self.made is not None and name not in self.made
            if times > 1 or not (times or kept):
                return None
            parts.append(frame[name] if times else self.frames[0][name])
        if all(isinstance(p.dtype, np.dtype) and p.dtype.kind in "iu" for p in parts):
            return ranked(np.concatenate([p.to_numpy() for p in parts]))
        try:
            if any(pd.api.types.is_numeric_dtype(p.dtype) for p in parts):
                numbers = [p.to_numpy(dtype=float, na_value=np.nan) for p in parts]
                return ranked(np.concatenate(numbers))
            codes, size = coded(name, parts, [source(l) for l in range(len(parts))])
        except (InputError, TypeError, ValueError):  # text here, numbers there
            return None
        return (np.concatenate(codes).astype(np.int64) + 1) % size, size  # missing is the last


def _files_of(original: pd.DataFrame, release: object) -> _Files:
    declared = isinstance(release, Released) and not isinstance(release, pd.DataFrame)
    tables = listed(release.datasets if declared else release)  # type: ignore[attr-defined]
    made = frozenset(release.synthesized) if declared else None  # type: ignore[attr-defined]
    in_part = isinstance(release, Release) and release.records is not None
    frames, corresponds = [original], []
    for l, table in enumerate(tables, start=1):
        if not len(table):
            raise InputError(f"release {l} has no records; give files with at least one")
        lacks = made is not None and not set(original.columns) <= {*made, *table.columns}
        try:
            frames.append(same_records(original.index, table, source(l)))
            corresponds.append(True)
        except InputError:
            if lacks or in_part:  # nothing can be said without the original's rows
                raise
            frames.append(table)
            corresponds.append(False)
    return _Files(
        frames,
        made,
        np.cumsum([0, *map(len, frames)]),
        np.array(corresponds),
        release.replaced(len(original)) if in_part else None,  # type: ignore[attr-defined]
    )


class _Records:
    """One number for each record, equal where all columns added so far are equal."""

    def __init__(self, n: int) -> None:
        self.number, self.size = np.zeros(n, dtype=np.int64), 1

    def add(self, codes: Ints, size: int) -> None:
        """Take a column in."""
        if self.size * size >= LARGEST:
            self.dense()
        self.number, self.size = self.number * size + codes, self.size * size

    def dense(self) -> Ints:
        """Numbers 0, 1, ... without gaps."""
        self.number, distinct = pd.factorize(self.number)
        self.size = len(distinct)
        return self.number


class _Equal(NamedTuple):
    """Records: ``own_row``, ``found`` (n, m), ``alone`` (n,); files: ``any_row``, ``same`` (m,)."""

    own_row: Flags
    found: Flags
    alone: Flags
    any_row: Ints
    same: Flags

    @classmethod
    def of(cls, files: _Files, records: _Records) -> "_Equal":
        y, *released = files.parts(records.dense())
        counts = np.bincount(y, minlength=records.size)
        own, found, any_row, same = [], [], [], []
        for z, there in zip(released, files.corresponds, strict=True):
            shown = np.bincount(z, minlength=records.size)
            own.append(z == y if there else np.zeros(len(y), dtype=bool))
            found.append(shown[y] > 0)
            any_row.append(int(shown[counts > 0].sum()))
            same.append(np.array_equal(shown, counts))
        return cls(
            *(np.column_stack(own), np.column_stack(found), counts[y] == 1),
            *(np.array(any_row), np.array(same)),
        )


def _values(files: _Files, codes: Ints, size: int) -> tuple[Ints, Ints]:
    """Counts of one numeric column, as in `Values`: of the original (4,), of each file (m, 4)."""
    y, *released = files.parts(codes)
    times = np.bincount(y, minlength=size)
    times[0] = 0  # missing
    found = []
    for z in released:
        z = z if files.replaced is None else z[files.replaced]
        shown = np.bincount(z, minlength=size)
        shown[0] = 0
        genuine, unique = shown[times > 0].sum(), shown[times == 1]
        found.append([shown.sum(), genuine, unique.sum(), (unique > 0).sum()])
    counts = times.sum(), (times > 0).sum(), (times == 1).sum(), (times == 2).sum()
    return np.array(counts), np.array(found)


def _is_number(original: pd.DataFrame, name: str) -> bool:
    dtype = original[name].dtype
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)


def _default_keys(
    original: pd.DataFrame,
    compared: Sequence[str],
    synthesized: Sequence[str],
    categories: Sequence[str] | None,
) -> list[str]:
    """All categories, and where none of them was synthesised the synthesised numbers."""
    if categories is None:
        categories = [c for c in compared if not looks_continuous(original[c])]
    chosen = [c for c in compared if c in categories]
    return chosen if set(chosen) & set(synthesized) else [*chosen, *synthesized]


def _uniques(files: _Files, keys: Sequence[str], compared: Sequence[str]) -> tuple[Flags, Flags]:
    """Records of the original that are unique on the keys, (n,), and replicated, (n, m)."""
    records = _Records(files.cut[-1])
    for name in keys:
        column = files.codes(name) if name in compared else None
        if column is None:
            raise InputError(
                f"keys names {name!r}, which some file lacks, holds twice, or stores as text where "
                "the original holds numbers; leave it out, or store it alike"
            )
        records.add(*column)
    y, *released = files.parts(records.dense())
    found = [identity(Keyed(y, z, records.size)).replicated for z in released]
    return np.bincount(y, minlength=records.size)[y] == 1, np.column_stack(found)
