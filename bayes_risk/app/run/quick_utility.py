"""How similar the files of a study are to the original, before any audit."""

import tomllib
import warnings
from pathlib import Path

import numpy as np

from bayes_risk._core.errors import InputError
from bayes_risk.app.study.declare import (
    fit_model,
    read_grouped,
    read_record_columns,
    synthesis_options,
)
from bayes_risk.app.study.study import parse_study
from bayes_risk.utilities.propensity import MEASURES, propensity
from bayes_risk.utilities.tables import coded_columns, compared_columns

QUICK = {"draws": 20, "tune": 150, "chains": 2}  # one draw makes the file


def utility_of(text: str, folder: Path) -> float | None:
    """The pMSE of a tree, over chance, of the files that a study makes; None: it makes none."""
    settings = tomllib.loads(text)
    if settings["model"]["kind"] == "Mixture":
        settings["model"] |= QUICK
    study = parse_study(settings, folder=folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they come with the audit itself
        df, _, grouped = read_grouped(study.data)
        study, df = read_record_columns(study, df, grouped)
        try:
            fit = fit_model(study, study.declared(df), df, random_seed=1)
            release = fit.synthesize(random_seed=2, **synthesis_options(study))
        except InputError:  # the audit gives the reason
            return None
        tables = compared_columns(df, release, None, None)
    columns = coded_columns(tables, None, 5, "level")
    rng, share = np.random.default_rng(3), tables.replaced
    scores = propensity(columns, replaced=share, permutations=20, rng=rng, n_jobs=1, which=())
    ratio = float(scores[:, -1, MEASURES.index("ratio")].mean())
    return ratio if np.isfinite(ratio) else None  # where no tree has a split
