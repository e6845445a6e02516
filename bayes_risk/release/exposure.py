"""What released files show without any model: identical records, genuine values, uniques.

Nothing is estimated here. Columns are coded one after the other over all files, records become one
integer each, and integers are counted: a million records take seconds.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import Combinations
from bayes_risk._core.validate import known_columns
from bayes_risk.data.columns import ROW_NUMBERS
from bayes_risk.data.microdata import Microdata

from .exposure_result import JUDGED, OF_VALUES, Exposure
from .links import links
from .persons import holders
from .tables import Released, Tables, tables_of
from .totals import kept_exactly


def exposure(
    original: pd.DataFrame | Microdata,
    release: Released | pd.DataFrame | Sequence[pd.DataFrame],
    *,
    keys: Sequence[str] | None = None,
    corresponds: bool | None = None,
    person: str | None = None,
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
    person : str, optional
        The column that names persons, where some have several records (waves, members of a
        household): alone or unique is then what no other person has.

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

    *Equal*: ``docs/files.md`` defines it. Columns that name or number the records (identifiers,
    row numbers) are counted apart: they are no part of "all columns" unless they are keys.

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
    tables = tables_of(original, release, corresponds)
    return exposure_of_tables(tables.by_person(person), keys)


def exposure_of_tables(tables: Tables, keys: Sequence[str] | None = None) -> Exposure:
    """`exposure` of tables that were read; their coded columns are kept for others."""
    names = list(tables.names)
    asked = None if keys is None else known_columns("keys", keys, names, least=1)
    values_too = {*(asked or ()), *(tables.made or ())}
    values_too -= {tables.person}
    identifiers = {c: why for c, why in tables.identifiers().items() if c not in values_too}
    if len(identifiers) == len(names):  # there is nothing else to compare
        identifiers = {}
    everything, made, by_keys = (Combinations(int(tables.sizes.sum())) for _ in range(3))
    compared, synthesized, chosen = [], [], []
    values: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        column = None if name in identifiers else tables.compared(name)
        if column is None:
            continue
        compared.append(name)
        codes = tables.stacked(name), column.size
        everything.add(*codes)
        if column.kind == "numbers":
            values[name] = _values(tables, *codes)
        if tables.is_made(name):
            synthesized.append(name)
            made.add(*codes)
        if name in asked if asked is not None else tables.is_category(name):
            chosen.append(name)
            by_keys.add(*codes)
    if not compared:
        raise InputError("the files share no column with the original; see their columns")
    for name in set(asked or ()) - set(compared):
        if name in tables.known and not tables.known[name].refusal:
            continue  # `why_left_out` says why
        raise InputError(f"keys names {name!r}, which cannot be compared: {tables.left_out[name]}")
    if not synthesized:  # nothing differs: the original itself
        synthesized, made = compared, everything
    if not asked and not set(chosen) & set(synthesized):
        chosen += synthesized
        by_keys.add(made.dense(), made.size)
    parts = y, *_ = tables.parts(by_keys.dense())
    once = [holders(part, tables.of_person(l), by_keys.size) == 1 for l, part in enumerate(parts)]
    counted = [name for name in synthesized if name in values]
    rows = pd.MultiIndex.from_product(
        [range(1, tables.m + 1), counted], names=["release", "column"]
    )
    of_made = _equal(tables, made)
    return Exposure(
        index=tables.index,
        compared=tuple(compared),
        synthesized=tuple(synthesized),
        keys=tuple(asked or chosen),
        why_left_out=dict(tables.left_out),
        identifiers={name: _shown(tables, name, why) for name, why in identifiers.items()},
        notes=tuple(tables.notes),
        n_released=tables.sizes[1:],
        not_replaced=0 if tables.replaced is None else int((~tables.replaced).sum()),
        corresponds=tables.corresponds,
        **_equal(tables, everything),
        identical_synthesized=of_made["identical"],
        any_row_synthesized=of_made["any_row"],
        unique=once[0][y],
        replicated=np.column_stack([(once[0] & shown)[y] for shown in once[1:]]),
        columns=pd.DataFrame(
            [values[name][l - 1] for l, name in rows], index=rows, columns=list(OF_VALUES)
        ),
        links=links(tables, keys=asked or chosen),
        exact=kept_exactly(tables),
        persons=tables.of_person(0),
    )


def _shown(tables: Tables, name: str, why: str) -> str:
    """What a column that names records is, and how many of its values the files show."""
    if why == ROW_NUMBERS:
        return "it numbers the persons" if name == tables.person else why
    try:
        y, *files = tables.column(name).codes[: tables.m + 1]
    except InputError:
        return f"{why}; no file has it"
    shown = np.isin(y, np.concatenate(files)) & (y > 0)
    return f"{why}; the files show {int(shown.sum()):,} of its {len(np.unique(y)):,} values"


def _equal(tables: Tables, records: Combinations) -> dict[str, Any]:
    """Which records are equal, as `Exposure` has it."""
    y, *released = tables.parts(records.dense())
    counts = np.bincount(y, minlength=records.size)
    own, found, any_row, same = [], [], [], []
    for z, there in zip(released, tables.corresponds, strict=True):
        shown = np.bincount(z, minlength=records.size)
        own.append(z == y if there else np.zeros(len(y), dtype=bool))
        found.append(shown[y] > 0)
        any_row.append(int(shown[counts > 0].sum()))
        same.append(np.array_equal(shown, counts))
    return {
        "identical": np.column_stack(own),
        "found": np.column_stack(found),
        "alone": holders(y, tables.of_person(0), records.size)[y] == 1,
        "any_row": np.array(any_row),
        "same_as_original": np.array(same) & (not tables.left_out),
    }


def _values(tables: Tables, codes: Ints, size: int) -> list[dict[str, Any]]:
    """A numeric column in each file: rows of `Exposure.columns`."""
    y, *released = tables.parts(codes)
    times = np.bincount(y, minlength=size)
    held = holders(y, tables.of_person(0), size)
    times[0] = held[0] = 0  # missing
    given, (once, twice) = held.sum(), ((held == k).sum() for k in (1, 2))
    expected = 1 - once / max(given, 1), 2 * twice / max(given, 1)
    of_original = once, given, (times > 0).sum(), *expected, once >= JUDGED * max(given, 1)
    found = []
    for z in released:
        z = z if tables.replaced is None else z[tables.replaced]
        shown = np.bincount(z, minlength=size)
        shown[0] = 0
        N, genuine, unique = shown.sum(), shown[times > 0].sum(), shown[held == 1].sum()
        shares = (genuine / N, unique / N) if N else (np.nan, np.nan)
        of_file = N, genuine, shares[0], unique, shares[1], (shown[held == 1] > 0).sum()
        found.append(dict(zip(OF_VALUES, (*of_file, *of_original), strict=True)))
    return found
