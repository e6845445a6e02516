"""Identification risk of files too large for memory: keys are read in batches and counted.

What is counted, what it costs, and how to use a cluster: ``docs/large-files.md``.
"""

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.profiles import Layout
from bayes_risk._core.validate import at_least
from bayes_risk.data.microdata import same_records

from .file_risk import FileRisk
from .input import checked_keys, release_tables
from .keys import check_unchanged
from .parquet_levels import coded_levels
from .parquet_rows import ParquetTable
from .tasks import Alone, Codes, OnWorkers, Plan, Progress

if TYPE_CHECKING:
    from distributed import Client

Ids = npt.NDArray[np.int64]
File = str | PathLike[str]


def identification_risk_of_files(
    original: File,
    releases: File | Sequence[File],
    *,
    known: Sequence[str],
    synthesized: Sequence[str],
    id: str | None = None,
    fallback: bool = True,
    batch: int = 500_000,
    client: "Client | None" = None,
    progress: Progress | None = None,
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
        Keys that were not synthesised, and that were, as in `identification_risk`. Missing values
        are a level.
    id : str, optional
        Column with the label of each record, in all files: it is checked that they agree row by
        row.
    fallback : bool
        What the intruder does where nothing matches, as in `identification_risk`.
    batch : int
        Records that are read at a time; with a client, also the least that a task reads.
    client : distributed.Client, optional
        Shares the work out among the workers of a Dask cluster, which must be able to read the
        paths; needs ``pip install 'bayes_risk[dask]'``. The numbers do not depend on it.
    progress : callable, optional
        Called as ``progress(stage, done, total)``: records read, or tasks done.

    Returns
    -------
    FileRisk
        Per release and pooled; expected match risk lies between 0 and n, large is bad.

    Raises
    ------
    InputError
        As `identification_risk`; and files that are missing, no Parquet, or whose parts do not fit
        together; ids that do not agree (sort all files by them); pyarrow is not installed
        (``pip install 'bayes_risk[parquet]'``).

    See Also
    --------
    identification_risk : The same in memory: records, radii, populations.

    Notes
    -----
    *Cost.* Key columns are read twice, once for their levels. Time O(m n (m + log n)); memory
    O(m batch) and the table of distinct profiles, at most (m + 1) n and mostly far fewer (a key, a
    set of releases).

    *What files show without a model* (`exposure`) is not counted: it looks at all columns.

    *Numbers with more than 1,000 values* are refused as in memory. Parquet forgets that whole
    numbers were categories unless pandas or Arrow wrote them so; otherwise store codes as text.

    References
    ----------
    Reiter, J. P. and Mitra, R. (2009). Estimating risks of identification disclosure in partially
    synthetic data. Journal of Privacy and Confidentiality 1, 99-110.
    Hornby, R. and Hu, J. (2021). Identification risks evaluation of partially synthetic data with
    the IdentificationRiskCalculation R package. Transactions on Data Privacy 14, 37-52.
    """
    if not isinstance(fallback, bool):
        raise InputError(f"fallback={fallback!r} is not a truth value; give True or False")
    batch = at_least("batch", batch, 1)
    if progress is not None and not callable(progress):
        raise InputError(
            f"progress={progress!r} is no function; give one of (stage, done, total), or leave it "
            "out"
        )
    plan = _checked_plan(original, releases, known, synthesized, id, batch)
    crew = Alone(progress) if client is None else OnWorkers(_checked_client(client), progress)
    codes = _codes(plan, crew.values(plan))
    found = crew.tally(plan, codes, fallback, lambda changed: _check_known(plan, changed))
    return FileRisk.of(
        found,
        m=len(plan.tables) - 1,
        known=plan.known,
        synthesized=plan.synthesized,
        fallback=fallback,
    )


def _checked_plan(
    original: Any, releases: Any, known: Any, synthesized: Any, id: str | None, batch: int
) -> Plan:
    """Check everything that the footers of the files can tell."""
    first = ParquetTable.of(original, "the original")
    known, synthesized = checked_keys(_preview(first), known, synthesized)
    paths = [releases] if isinstance(releases, (str, PathLike)) else releases
    if not isinstance(paths, Sequence):
        raise InputError(f"releases is a {type(paths).__name__}; give a list of paths")
    tables = [ParquetTable.of(path, f"release {l}") for l, path in enumerate(paths, start=1)]
    release_tables(_preview(first), [_preview(table) for table in tables], known, synthesized)
    for table in tables:
        same_records(pd.RangeIndex(first.n), pd.DataFrame(index=range(table.n)), table.name)
    plan = Plan((first, *tables), tuple(known), tuple(synthesized), id, batch)
    _check_id(plan)
    return plan


def _preview(table: ParquetTable) -> pd.DataFrame:
    """A table of the same columns with one record, or none if there is none: for the checks."""
    return pd.DataFrame(
        np.zeros((min(table.n, 1), len(table.names))), columns=pd.Index(table.names, dtype=object)
    )


def _check_id(plan: Plan) -> None:
    if plan.id is None:
        return
    for table in plan.tables:
        if table.names.count(plan.id) != 1:
            raise InputError(
                f"id={plan.id!r} is no column of {table.name}, or more than one; it has "
                f"{list(table.names)}"
            )


def _checked_client(client: Any) -> Any:
    if not all(hasattr(client, name) for name in ("submit", "gather", "nthreads")):
        raise InputError(
            f"client is a {type(client).__name__}; give a dask.distributed.Client, or leave it out"
        )
    return client


def _codes(plan: Plan, values: Sequence[Any]) -> Codes:
    """Give the values of every key their codes, and lay out the profiles."""
    levels: list[dict[str, Any]] = [{} for _ in plan.tables]
    size = {}
    for key in plan.keys:
        found, size[key] = coded_levels(plan.tables, values, key)
        for table, of_table in zip(levels, found, strict=True):
            table[key] = of_table
    layout = Layout.of(
        [size[key] for key in plan.known],
        [size[key] for key in plan.synthesized],
        len(plan.tables) - 1,
    )
    return Codes(tuple(levels), layout)


def _check_known(plan: Plan, changed: Ids) -> None:
    """Keys under known= are the original's in every release."""
    for j, key in enumerate(plan.known):
        for l, table in enumerate(plan.tables[1:]):
            check_unchanged(key, int(changed[l, j]), plan.n, table.name)
