"""People outside the data whom a study names: of membership, and of distances."""

from pathlib import Path

import pandas as pd

from bayes_risk.release.tables import declare_levels, read_like

from .study import Study


def others_of(study: Study, df: pd.DataFrame) -> pd.DataFrame | None:
    """Table of ``[membership] others``, read as the data are; None: there is none."""
    section = study.membership
    return None if section is None else _read(section.others, study, df)


def holdout_of(study: Study, df: pd.DataFrame) -> pd.DataFrame | None:
    """Table of ``[context] holdout``, read as the data are; None: there is none."""
    section = study.context
    return None if section is None else _read(section.holdout, study, df)


def _read(path: Path | None, study: Study, df: pd.DataFrame) -> pd.DataFrame | None:
    if path is None:
        return None
    table = read_like(path, df, **study.data.reading)
    levels = {c: v for c, v in study.data.listed_levels.items() if c in table.columns}
    return declare_levels(table, levels, repr(path.name))
