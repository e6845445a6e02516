"""What released files show without any model: identical records, genuine values, uniques.

Nothing is estimated here. Columns are coded one after the other over all files, records become one
integer each, and integers are counted: a million records take seconds.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import Combinations
from bayes_risk._core.validate import known_columns
from bayes_risk.data.microdata import Microdata
from bayes_risk.data.variables import is_numeric, looks_continuous
from bayes_risk.release.release import Release

from .exposure_result import JUDGED, OF_VALUES, Exposure
from .input import Released, codes_of, declared_columns, listed, read_rows


def exposure(
    original: pd.DataFrame | Microdata,
    release: Released | pd.DataFrame | Sequence[pd.DataFrame],
    *,
    keys: Sequence[str] | None = None,
    corresponds: bool | None = None,
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
    corresponds : bool, optional
        Whether row i of a file is record i; by default where it has as many and the same index.

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
    asked = None if keys is None else known_columns("keys", keys, list(original.columns), least=1)
    files = _files_of(original, release, corresponds)
    everything, made, by_keys = (Combinations(files.cut[-1]) for _ in range(3))
    compared, synthesized, chosen = [], [], []
    values: dict[str, list[dict[str, Any]]] = {}
    for name in original.columns:
        column = files.codes(name)
        if column is None:
            continue
        compared.append(name)
        everything.add(*column)
        if is_numeric(original[name].dtype):
            values[name] = _values(files, *column)
        if files.is_made(name, column[0]):
            synthesized.append(name)
            made.add(*column)
        keyed = asked or categories
        if name in keyed if keyed is not None else not looks_continuous(original[name]):
            chosen.append(name)
            by_keys.add(*column)
    if not compared:
        raise InputError("the files share no column with the original; see their columns")
    for name in set(asked or ()) - set(compared):
        raise InputError(
            f"keys names {name!r}, which some file lacks, holds twice, or stores as text where "
            "the original holds numbers; leave it out, or store it alike"
        )
    if not synthesized:  # nothing differs: the original itself
        synthesized, made = compared, everything
    if not asked and not set(chosen) & set(synthesized):
        chosen += synthesized
        by_keys.add(made.dense(), made.size)
    y, *released = files.parts(by_keys.dense())
    once = [np.bincount(part, minlength=by_keys.size) == 1 for part in (y, *released)]
    counted = [name for name in synthesized if name in values]
    rows = pd.MultiIndex.from_product([range(1, files.m + 1), counted], names=["release", "column"])
    of_made = _equal(files, made)
    return Exposure(
        index=original.index,
        compared=tuple(compared),
        synthesized=tuple(synthesized),
        keys=tuple(asked or chosen),
        left_out=tuple(dict.fromkeys(c for c in original.columns if c not in compared)),
        n_released=np.diff(files.cut)[1:],
        not_replaced=0 if files.replaced is None else int((~files.replaced).sum()),
        corresponds=files.corresponds,
        **_equal(files, everything),
        identical_synthesized=of_made["identical"],
        any_row_synthesized=of_made["any_row"],
        unique=once[0][y],
        replicated=np.column_stack([(once[0] & shown)[y] for shown in once[1:]]),
        columns=pd.DataFrame(
            [values[name][l - 1] for l, name in rows], index=rows, columns=list(OF_VALUES)
        ),
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
        return codes_of(name, parts)


def _files_of(original: pd.DataFrame, release: object, same: bool | None) -> _Files:
    declared = declared_columns(release)
    made = None if declared is None else frozenset(declared)
    in_part = isinstance(release, Release) and release.records is not None
    tables = listed(release)
    lacks = made is not None and any(set(original) - {*made, *table} for table in tables)
    # where columns or records were kept nothing can be said without the original's rows
    tables, corresponds = read_rows(original, tables, True if lacks or in_part else same)
    return _Files(
        [original, *tables],
        made,
        np.cumsum([0, len(original), *map(len, tables)]),
        np.array(corresponds),
        release.replaced(len(original)) if in_part else None,  # type: ignore[attr-defined]
    )


def _equal(files: _Files, records: Combinations) -> dict[str, Any]:
    """Which records are equal, as `Exposure` has it."""
    y, *released = files.parts(records.dense())
    counts = np.bincount(y, minlength=records.size)
    own, found, any_row, same = [], [], [], []
    for z, there in zip(released, files.corresponds, strict=True):
        shown = np.bincount(z, minlength=records.size)
        own.append(z == y if there else np.zeros(len(y), dtype=bool))
        found.append(shown[y] > 0)
        any_row.append(int(shown[counts > 0].sum()))
        same.append(np.array_equal(shown, counts))
    return {
        "identical": np.column_stack(own),
        "found": np.column_stack(found),
        "alone": counts[y] == 1,
        "any_row": np.array(any_row),
        "same_as_original": np.array(same),
    }


def _values(files: _Files, codes: Ints, size: int) -> list[dict[str, Any]]:
    """A numeric column in each file: rows of `Exposure.columns`."""
    y, *released = files.parts(codes)
    times = np.bincount(y, minlength=size)
    times[0] = 0  # missing
    given, (once, twice) = times.sum(), ((times == k).sum() for k in (1, 2))
    expected = 1 - once / max(given, 1), 2 * twice / max(given, 1)
    of_original = once, given, (times > 0).sum(), *expected, once >= JUDGED * max(given, 1)
    found = []
    for z in released:
        z = z if files.replaced is None else z[files.replaced]
        shown = np.bincount(z, minlength=size)
        shown[0] = 0
        N, genuine, unique = shown.sum(), shown[times > 0].sum(), shown[times == 1].sum()
        shares = (genuine / N, unique / N) if N else (np.nan, np.nan)
        of_file = N, genuine, shares[0], unique, shares[1], (shown[times == 1] > 0).sum()
        found.append(dict(zip(OF_VALUES, (*of_file, *of_original), strict=True)))
    return found
