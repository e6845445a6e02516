"""What a study reads: the table, releases made elsewhere, and people beside them."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.data.kinds import checked_file
from bayes_risk.data.levels import declare_levels
from bayes_risk.data.table import Missing, read_table, stored_table
from bayes_risk.demo import demo_data
from bayes_risk.release.alike import aligned, read_like, text_columns, words
from bayes_risk.release.provenance import DataFile, Provenance, data_hash, describe, release_files
from bayes_risk.release.release import Release
from bayes_risk.release.releases import files_of_releases, read_releases

from .candidates import candidate_study
from .contents import Contents
from .sections import DataSection


def read_data(data: DataSection) -> tuple[pd.DataFrame, str]:
    """The confidential table with its declared levels, and its hash."""
    if data.path is None:
        df = demo_data(str(data.demo))
        sha256 = data_hash(df)
    else:
        df = read_table(data.path, columns=data.columns, levels=data.levels, **data.reading)
        sha256 = data_hash(data.path)
    absent = [c for c in data.columns or [] if c not in df.columns]
    if absent:
        raise InputError(f"[data] columns names {absent[0]!r}; the data have {list(df.columns)}")
    df = df if data.columns is None else df[data.columns]
    return declare_levels(df, data.listed_levels, "the data"), sha256


def read_release(study: Contents, df: pd.DataFrame, usual: Release | None = None) -> Release | None:
    """Releases made elsewhere, if the study names any; of the classes of those the model makes."""
    if study.release.files is None:
        return None
    tables = read_releases(study.release.files, df, **study.data.reading)
    levels = study.data.listed_levels
    declared = [
        declare_levels(t, {k: v for k, v in levels.items() if k in t.columns}, f"release {l}")
        for l, t in enumerate(tables, start=1)
    ]
    return Release(
        datasets=declared,
        synthesized=study.release.columns or [],
        classes=study.release.classes or ("new" if usual is None else usual.classes),
        parameters=study.release.parameters,
    )


def provenance_of(
    study: Contents, df: pd.DataFrame, sha256: str, releases: Mapping[str, Any]
) -> Provenance:
    """The files that were just read: the data, and releases made elsewhere."""
    path, (rows, columns) = study.data.path, df.shape
    name = f"demo table {study.data.demo}" if path is None else path.name
    files = [DataFile(role="data", name=name, rows=rows, columns=columns, sha256=sha256)]
    for candidate, release in releases.items():
        given = (candidate_study(study, candidate) if candidate else study).release.files
        if given is not None and isinstance(release, Release):
            note = f" of {candidate}" if candidate else ""
            files += release_files(files_of_releases(given), release.datasets, note=note)
    return Provenance(files=tuple(files), described=describe(df))


def others_of(study: Contents, df: pd.DataFrame) -> pd.DataFrame | None:
    """Table of ``[membership] others``, read as the data are; None: there is none."""
    section = study.membership
    return None if section is None else _read(section.others, study, df)


def holdout_of(study: Contents, df: pd.DataFrame) -> pd.DataFrame | None:
    """Table of ``[context] holdout``, read as the data are; None: there is none."""
    section = study.context
    return None if section is None else _read(section.holdout, study, df)


def _read(path: Path | None, study: Contents, df: pd.DataFrame) -> pd.DataFrame | None:
    if path is None:
        return None
    table = read_like(path, df, **study.data.reading)
    levels = {c: v for c, v in study.data.listed_levels.items() if c in table.columns}
    return declare_levels(table, levels, repr(path.name))


def read_people(
    path: Path,
    original: pd.DataFrame,
    *,
    missing: Missing = "error",
    na: Collection[str] = (),
) -> pd.DataFrame:
    """Read a population: text, codes, dates and missing values as in the original.

    Values that the original lacks stay: the population holds people who cannot be in the file.
    """
    file = checked_file(path)
    table = stored_table(
        file,
        None,
        among=[str(c) for c in original.columns],
        text=text_columns(original),
        how=words(file, original),
        missing=missing,
        na=na,
    )
    return aligned(table, _plain(original), repr(str(file)))


def _plain(original: pd.DataFrame) -> pd.DataFrame:
    """Without categories, whose levels would bind everybody."""
    kept = [c for c in original if not isinstance(original[c].dtype, pd.CategoricalDtype)]
    return original[kept]
