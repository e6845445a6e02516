"""How long a study takes, from three small runs of it on its own data.

Each stage is a straight line in the records, and the attribute audit also in its targets, both with
slopes in proportion to the draws: ``seconds = a + b n H + c U H``. Nothing has to be known of the
machine.
"""

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk.costs import Sizes
from bayes_risk.run.audit import audits
from bayes_risk.run.shared import seeds_of
from bayes_risk.study.declare import fit_model
from bayes_risk.study.making import Clock, Made, declared, synthesized
from bayes_risk.study.study import Study

RECORDS, TARGETS, DRAWS = (600, 1_800), (20, 120), 20


def seconds_of(study: Study, df: pd.DataFrame, sizes: Sizes) -> dict[str, float]:
    """CPU seconds by stage, extended to all records, targets and draws."""
    few, many = (min(n, len(df)) for n in RECORDS)
    cases = max(sizes.cases, 1)
    less, more = (min(u, cases) for u in TARGETS)
    _one(study, df, few, less)  # compiles
    base, wide, long = (_one(study, df, n, u) for n, u in ((few, less), (many, less), (few, more)))
    times = _times(study, sizes)
    out = {}
    for stage, took in base.items():
        by_record = max(wide[stage] - took, 0.0) / max(many - few, 1)
        by_target = max(long[stage] - took, 0.0) / max(more - less, 1)
        if stage != "attribute risk":
            by_target = 0.0
        further = by_record * (len(df) - few) + by_target * (cases - less)
        scale = times if stage in ("fit", "attribute risk", "membership", "full table") else 1.0
        out[stage] = scale * (took + max(further, 0.0))
    return out


def _times(study: Study, sizes: Sizes) -> float:
    """How many times the draws of the small runs."""
    return sizes.draws / (DRAWS * sizes.chains) if sizes.draws else 1.0


def _small(study: Study, targets: int) -> Study:
    """The study with few draws and targets, and no folder."""
    changes: dict[str, Any] = {"output": study.output.model_copy(update={"folder": None})}
    if isinstance(getattr(study.model, "draws", None), int):
        few = {"draws": DRAWS, "tune": max(DRAWS // 2, 1)}
        changes["model"] = study.model.model_copy(update=few)
    if study.attribute is not None:
        changes["attribute"] = study.attribute.model_copy(
            update={"targets": targets, "refit_budget": 0, "target_mcse": None}
        )
    return study.model_copy(update=changes)


def _one(study: Study, df: pd.DataFrame, n: int, targets: int) -> dict[str, float]:
    """CPU seconds by stage of one small run; its levels are those of all records."""
    whole = df.apply(lambda c: c.astype("category") if c.dtype.kind not in "iufb" else c)
    rows = np.sort(np.random.default_rng(0).choice(len(df), n, replace=False))
    small, part = _small(study, targets), whole.iloc[rows]
    clock, seeds = Clock(time.process_time), seeds_of(0)
    how: dict[str, Any] = {"n_jobs": 1, "progress": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        declaration = declared(small, part)
        with clock("fit"):
            fit = fit_model(small, declaration, part, random_seed=seeds[0], **how)
        with clock("release"):
            release = synthesized(fit, small, random_seed=seeds[1])
        ready = Made(df=part, data_sha256="", declaration=declaration, fit=fit, release=release)
        audits(small, ready, clock, seeds[2:], how)
    return clock.seconds
