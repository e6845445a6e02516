"""Identification risk of files larger than memory: the sums over all records; no record is kept.

What is counted, and what it costs: ``docs/identification.md``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import jackknife_error
from bayes_risk._core.progress import ProgressOption, shows_progress
from bayes_risk._core.validate import whole_number

from .input import checked_flag
from .result import Matching, match_measures

File = str | PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FileRisk(Matching):
    """What an intruder achieves who looks for every record of a file in its releases.

    The sums of `IdentificationRisk`, without the records.

    Attributes
    ----------
    known, synthesized, radius, shape, closed, missing, fallback, strategy, population
    estimated, reason, release_of, pooled_mcse, pooled_draws_mcse, exposure, person, cuts
        As of `IdentificationRisk`.
    n : int
        Number of targets: all records of the original.
    n_profiles : int
        Distinct profiles: a key, the set of releases that show it for a record, and whether the
        record holds it. Time and memory beyond the reading go by their number.
    each : ndarray, shape (m, 7)
        The measures of each release, in the order of the columns of `summary` without ``mcse`` and
        ``baseline``.
    pooled : ndarray, shape (7,)
        Those of the pooled probabilities.
    baseline_expected_match_risk : float
        Expected match risk by the known keys alone: the number of their distinct values.
    """

    n: int
    n_profiles: int
    each: Array
    pooled: Array
    baseline_expected_match_risk: float

    @property
    def m(self) -> int:
        """Number of releases."""
        return len(self.each)


@shows_progress
def identification_risk_of_files(
    original: File,
    releases: File | Sequence[File],
    *,
    known: Sequence[str],
    synthesized: Sequence[str],
    id: str | None = None,
    fallback: bool = True,
    batch: int = 100_000,
    progress: ProgressOption = None,
    max_memory: str | None = None,
) -> FileRisk:
    r"""Compute the risk that an intruder finds records of files in their releases, batch by batch.

    The measures of `identification_risk` for all records as targets and keys that match exactly,
    from the numbers of records with equal profiles: the whole numbers are the same, and so are the
    sums, rounded once.

    Parameters
    ----------
    original : path
        The confidential file: Parquet, or a folder of Parquet files. Files of a folder are taken in
        the order of their names, numbers as numbers (``part.2`` before ``part.10``); folders
        ``region=3/`` give a column ``region``.
    releases : list of m paths, or one
        The released files, with the original's records in the original's order. They may be cut
        into files and row groups in another way, which costs time.
    known, synthesized : lists of str
        As in `identification_risk`. Missing values are a level.
    id : str, optional
        Column with the label of each record, in all files: it is checked that they agree row by
        row.
    fallback : bool
        What the intruder does where nothing matches, as in `identification_risk`.
    batch : int
        Records of the files that are put side by side at a time. The numbers do not depend on it.
    progress : callable or bool, optional
        Called as ``progress(stage, done, total)``, in records.
        By default a bar in terminals and notebooks; False: none.
    max_memory : str, optional
        What DuckDB may hold in memory, ``"2GiB"``; beyond it, it writes to a temporary folder. By
        default 80 % of the machine's. The numbers do not depend on it.

    Returns
    -------
    FileRisk
        Per release and pooled; expected match risk lies between 0 and n, large is bad.

    Raises
    ------
    InputError
        As `identification_risk`; and files that are missing, no Parquet, or whose parts do not fit
        together; ids that do not agree (sort all files by them); memory or disk do not suffice;
        pyarrow or DuckDB is not installed (``pip install 'bayes_risk[parquet]'``).

    See Also
    --------
    identification_risk : The same in memory: records, radii, populations.

    Notes
    -----
    *Cost.* Key columns are read twice. Time O(m^2 n); on disk, where memory does not suffice, up to
    30 (m + 1) n bytes of codes, no values, in a temporary folder that goes with the call
    (``docs/identification.md``). Each file is read in a process of its own, as by `read_table`, so
    that a damaged one cannot end this process. Each record counts as a person of its own: there is
    no ``person``, so give panels and households to `identification_risk`. What files show without a
    model (`exposure`) is not counted: it looks at all columns.

    *References*: those of `identification_risk`.
    """
    try:
        import duckdb  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"matching Parquet files needs {error.name}: pip install 'bayes_risk[parquet]', or "
            "give DataFrames to identification_risk"
        ) from None
    from .parquet_counts import Plan, checked_tables, count_files

    checked_flag("fallback", fallback)
    batch = whole_number("batch", batch)
    if progress is not None and not callable(progress):
        raise InputError(
            "progress",
            progress,
            "is not a function; give one of (stage, done, total), or leave it out",
        )
    tables = checked_tables(original, releases, known, synthesized, id)
    report = progress or (lambda stage, done, total: None)
    plan = Plan(tables, tuple(known), tuple(synthesized), id, batch, max_memory, report)
    found, cells, cuts = count_files(plan, fallback=fallback)
    expected = [chances.expected() for chances in found.chances]
    m = len(tables) - 1
    rows = [
        match_measures(found.n, *row)
        for row in zip(expected[: m + 1], *found.counts.T, strict=False)
    ]
    left_out = np.array(expected[m + 1 :])
    return FileRisk(
        known=plan.known,
        synthesized=plan.synthesized,
        fallback=fallback,
        cuts=cuts,
        n=found.n,
        n_profiles=found.profiles,
        each=np.array(rows[:m]),
        pooled=np.array(rows[m]),
        baseline_expected_match_risk=float(cells),
        pooled_mcse=jackknife_error(left_out) if len(left_out) else float("nan"),
    )
