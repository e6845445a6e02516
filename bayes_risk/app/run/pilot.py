"""How long a study takes, from three small runs of it on its own data.

Each stage is a straight line in the records, and the attribute audit also in its targets, both with
slopes in proportion to the draws: ``seconds = a + b n H + c U H``. Nothing has to be known of the
machine.
"""

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk.app.costs import Sizes
from bayes_risk.app.study.declare import fit_model, placed_anywhere
from bayes_risk.app.study.making import (
    Clock,
    Made,
    declared,
    needs_fit,
    read_release,
    reweighted,
    synthesized,
)
from bayes_risk.app.study.sections import AttributeSection
from bayes_risk.app.study.study import Study
from bayes_risk.app.study.trees import CARTSection
from bayes_risk.data.microdata import same_records
from bayes_risk.release.release import Release

from .audit import audits
from .shared import seeds_of
from .variants import Variant

RECORDS, TARGETS, DRAWS, WARM_UP = (600, 1_800), (20, 120), 20, 10
BY_TARGET = ("attribute risk", "reweighting")
BY_DRAW = (*BY_TARGET, "membership", "full table")
LARGEST = 5  # records of a count's largest values
OWN = ("CART", "Forest", "PMM")  # only what a fit made can be audited with it
MADE = ("fit", "release")


def seconds_of_run(
    study: Study, df: pd.DataFrame, variants: Sequence[Variant], kind: str
) -> dict[str, float]:
    """CPU seconds by stage: of an audit; of every setting of a sweep; of every candidate."""
    if kind == "sweep":
        found = seconds_of(variants[0].study, df, variants[0].sizes)
        once = {stage: found[stage] for stage in (*MADE, "reweighting") if stage in found}
        return once | {"sweep": variants[0].times * found["attribute risk"]}
    if kind == "comparison" and study.compare is not None:
        names = study.compare.candidates
        return {
            name: v.times * sum(seconds_of(v.study, df, v.sizes).values())
            for name, v in zip(names, variants, strict=True)
        }
    return seconds_of(study, df, variants[0].sizes)


def seconds_of(study: Study, df: pd.DataFrame, sizes: Sizes) -> dict[str, float]:
    """CPU seconds by stage, extended to all records, targets and draws."""
    few, many = (min(n, len(df)) for n in RECORDS)
    study, df = _grown_here(study, df)
    cases = max(sizes.cases, 1)
    less, more = (min(u, cases) for u in TARGETS)
    release = read_release(study, df)
    if release is not None and needs_fit(study) and study.model.kind in OWN:
        made = study.release.model_copy(update={"files": None, "m": study.m})
        study, release = study.model_copy(update={"release": made}), None
    _one(study, df, release, few, less)  # compiles
    base, wide, long = (
        _one(study, df, release, n, u) for n, u in ((few, less), (many, less), (few, more))
    )
    out = {}
    for stage, took in base.items():
        by_record = max(wide[stage] - took, 0.0) / max(many - few, 1)
        by_target = max(long[stage] - took, 0.0) / max(more - less, 1)
        if stage not in BY_TARGET:
            by_target = 0.0
        further = by_record * (len(df) - few) + by_target * (cases - less)
        scale = _times(study, sizes, stage)
        if stage == "reweighting":
            scale *= sizes.rounds / 2
        out[stage] = scale * (took + max(further, 0.0))
    return out


def _grown_here(study: Study, df: pd.DataFrame) -> tuple[Study, pd.DataFrame]:
    """The study with trees that a part of the records can grow, and that can make a release."""
    model = study.model
    if not isinstance(model, CARTSection) or (model.models is None and model.floor is None):
        return study, df
    plain = CARTSection(order=model.order, min_leaf=model.min_leaf, bootstrap="none")
    table = df.fillna(model.missing_numbers)
    if set(model.order) >= set(df.columns):  # trees grown here need a predictor
        table = table.assign(**{"(row)": np.arange(len(df))})
    return study.model_copy(update={"model": plain}), table


def _times(study: Study, sizes: Sizes, stage: str) -> float:
    """How many times the draws of the small runs; of a fit also those to warm up."""
    model: Any = study.model
    if stage == "fit" and isinstance(getattr(model, "draws", None), int):
        return float(model.draws + model.tune) / (_draws(study) + WARM_UP)
    one = sizes.sampler
    return one.draws / (_draws(study) * one.chains) if one.draws and stage in BY_DRAW else 1.0


def _draws(study: Study) -> int:
    """Draws of each chain of a small run: few, but one for each data set of the release."""
    model: Any = study.model
    return max(DRAWS, -(-study.m // getattr(model, "chains", 1)))


def _small(study: Study, targets: int) -> Study:
    """The study with few draws, targets and rounds, and no folder."""
    changes: dict[str, Any] = {"output": study.output.model_copy(update={"folder": None})}
    if isinstance(getattr(study.model, "draws", None), int):
        few = {"draws": _draws(study), "tune": WARM_UP}
        changes["model"] = study.model.model_copy(update=few)
    if study.attribute is not None:
        changes["attribute"] = _small_audit(study.attribute, targets)
    if study.reweight is not None:
        changes["reweight"] = study.reweight.model_copy(update={"rounds": 1})
    return study.model_copy(update=changes)


def _small_audit(section: AttributeSection, targets: int) -> AttributeSection:
    """Few targets: others than the study's, for whom its grids may have no place."""
    changes: dict[str, Any] = {"refit_budget": 0, "target_mcse": None}
    if section.largest is None:
        changes["targets"] = targets
    return placed_anywhere(section).model_copy(update=changes)


def _few_rows(study: Study, df: pd.DataFrame, n: int) -> npt.NDArray[np.int64]:
    """Rows at random, and those of the largest values of a column of which they are asked."""
    rows = np.random.default_rng(0).choice(len(df), n, replace=False)
    if study.attribute is not None and study.attribute.largest is not None:
        top = df[study.attribute.largest].to_numpy().argsort()[-LARGEST:]
        rows = np.union1d(rows, top)
    return np.sort(rows)


def _one(
    study: Study, df: pd.DataFrame, release: Release | None, n: int, targets: int
) -> dict[str, float]:
    """CPU seconds by stage of one small run; its levels are those of all records."""
    whole = df.apply(lambda c: c.astype("category") if c.dtype.kind not in "iufb" else c)
    rows = _few_rows(study, df, n)
    small, part = _small(study, targets), whole.iloc[rows]
    given = None if release is None else _rows_of(release, df.index, rows)
    clock, seeds = Clock(time.process_time), seeds_of(0)
    how: dict[str, Any] = {"n_jobs": 1, "progress": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ready = _made(small, part, given, clock, seeds, how)
        audits(small, ready, clock, seeds[2:], how)
    return clock.seconds


def _made(
    study: Study,
    part: pd.DataFrame,
    release: Release | None,
    clock: Clock,
    seeds: list[int],
    how: dict[str, Any],
) -> Made:
    """Fit and release of a part of the records, or the loop that makes them."""
    declaration, fit, loop = declared(study, part), None, None
    if study.reweight is not None:
        with clock("reweighting"):
            loop = reweighted(study, declaration, part, seeds[0], **how)
        fit, release = loop.fit, loop.release
    elif needs_fit(study):
        with clock("fit"):
            fit = fit_model(study, declaration, part, random_seed=seeds[0], **how)
    if release is None:
        with clock("release"):
            release = synthesized(fit, study, random_seed=seeds[1])
    return Made(
        df=part,
        data_sha256="",
        declaration=declaration,
        fit=fit,
        release=release,
        reweighting=loop,
    )


def _rows_of(release: Release, index: pd.Index, rows: npt.NDArray[np.int64]) -> Release:
    """The same records of files that were brought; as many of files of other records."""
    if len(release.datasets[0]) != len(index):
        n = min(len(rows), len(release.datasets[0]))
        return replace(release, datasets=[t.iloc[:n] for t in release.datasets])
    tables = [same_records(index, t, f"release {l}") for l, t in enumerate(release.datasets, 1)]
    return replace(release, datasets=[t.iloc[rows] for t in tables])
