"""The sizes of a study's work, counted from its data and settings."""

import math
from typing import Any

import numpy as np

from bayes_risk._core.watch import resident
from bayes_risk.app.costs import Further, Sampler, Sizes
from bayes_risk.app.study.checks import coded
from bayes_risk.app.study.counts import PoissonMixtureSection
from bayes_risk.app.study.declare import attribute_options, placed_anywhere
from bayes_risk.app.study.models import DPMPMSection, PMMSection, RegressionSection
from bayes_risk.app.study.sections import AttributeSection
from bayes_risk.app.study.study import Study
from bayes_risk.app.study.trees import CARTSection, ForestSection
from bayes_risk.data.microdata import Microdata
from bayes_risk.intruder.grids import as_guesses

SHARED = ("DPMPM", "PoissonMixture", "CART", "Forest")  # equal records have equal evidence


def sizes_of(study: Study, df: Any) -> Sizes:
    """Sizes of an audit.

    Parameters
    ----------
    study : Study
    df : DataFrame
        Its table.

    Returns
    -------
    Sizes
    """
    data = coded(study, df)
    made = study.made(df)
    targets, cases, guesses, guessed = _guessed(study, df, data, made)
    return Sizes(
        sampler=sampler_of(study, data, made),
        records=len(df),
        columns=len(df.columns),
        guessed=guessed,
        table=int(df.memory_usage(deep=True).sum()),
        program=resident(),
        targets=targets,
        cases=cases,
        guesses=guesses,
        releases=study.m,
        levels=int(data.n_levels.sum()),
        further=_further(study, data, made),
        confidential=study.output.confidential,
        written=study.output.folder is not None,
        rounds=0 if study.reweight is None else 1 + study.reweight.rounds,
    )


def _guessed(study: Study, df: Any, data: Microdata, made: list[str]) -> tuple[int, int, int, int]:
    """Targets, distinct cases among them, guesses of each, and guessed columns."""
    section = study.attribute
    if section is None:
        return 0, 0, 0, 0
    known = section.knows_columns
    names = study.guessed or [c for c in made if c not in known]
    columns = np.array([df.columns.get_loc(c) for c in names])
    numbers = [c for c in names if c in data.numbers]
    weighed = as_guesses(attribute_options(placed_anywhere(section))["guesses"], numbers)
    targets = _targets(section, len(df))
    own = study.classes == "own" or study.model.kind not in SHARED or study.model.kind == "Forest"
    distinct = len(df) if own else len(np.unique(data.codes, axis=0))
    guesses = len(weighed.of(data, data.codes[:2], columns).codes)
    return targets, min(targets, distinct), guesses, len(names)


def _targets(section: AttributeSection, n: int) -> int:
    if section.largest is not None:
        return 1
    given = section.targets
    return min(n if given == "all" else given if isinstance(given, int) else len(given), n)


def sampler_of(study: Study, data: Microdata, made: list[str]) -> Sampler:
    """What a fit of the study's model holds."""
    model, levels = study.model, dict(zip(data.columns, data.n_levels.tolist(), strict=True))
    if isinstance(model, CARTSection):
        return Sampler(
            kind="CART",
            outcomes=len(model.order),
            min_leaf=model.min_leaf,
            smoothed=model.smoothing is not None and any(not levels[c] for c in model.order),
        )
    if isinstance(model, ForestSection):
        size: dict[str, Any] = {
            "outcomes": len(model.order),
            "trees": model.n_trees,
            "min_leaf": model.min_leaf,
        }
        return Sampler(kind="Forest", **size)
    if isinstance(model, PMMSection):
        return Sampler(kind="PMM", outcomes=len(model.order))
    draws = model.draws * model.chains if isinstance(model.draws, int) else 0
    sampled: dict[str, Any] = {"kind": model.kind, "draws": draws, "chains": model.chains}
    if isinstance(model, DPMPMSection):
        K = model.n_classes
        return Sampler(**sampled, classes=K, parameters=K * (sum(levels.values()) + 2))
    if isinstance(model, PoissonMixtureSection):
        if model.deals:
            return Sampler(**sampled | {"draws": 0, "chains": 0})
        K, rows = model.n_classes, sum(levels[c] for c in model.covariates)
        return Sampler(**sampled, classes=K, parameters=K * (2 * len(made) + rows + 2))
    if isinstance(model, RegressionSection):
        design = {c: _width(c, f, levels) for c, f in model.formulas.items()}
        each = (k * max(levels[c] - 1, 1) + 2 for c, k in design.items())
        return Sampler(**sampled, design=sum(design.values()), parameters=2 * sum(each))
    return Sampler(**sampled)


def _width(response: str, formula: str, levels: dict[str, int]) -> int:
    """Columns of a design matrix: of each term the product of its categories' levels, less one."""
    from bayes_risk.models.regression.formulas import parse

    return sum(
        math.prod(max(levels.get(str(factor.expr), 2) - 1, 1) for factor in term.factors)
        for term in parse(response, formula).terms
    )


def _further(study: Study, data: Microdata, made: list[str]) -> Further:
    """What the other audits look at."""
    widths = {c: max(int(d), 1) for c, d in zip(data.columns, data.n_levels, strict=True)}
    found: dict[str, int] = {}
    keys, context, utility = study.identification, study.context, study.utility
    if keys is not None:
        found["keys"] = len(keys.known) + len(keys.synthesized)
        found["numeric_keys"] = len(keys.radius or {})
    if utility is not None:
        found |= _compared(data, utility.columns or data.columns)
    if context is not None:
        found["known"] = len(context.keys) + len(context.target or [])
        near = data.columns if context.distances is True else context.distances or []
        found |= {"near": len(near), "points": sum(widths[c] for c in near)}
    if study.bounds is not None:
        found["bounds"] = 3 * (study.bounds.m or study.m)
    return Further(**found | _membership(study, data) | _full_table(study, widths, made))


def _compared(data: Microdata, columns: list[str]) -> dict[str, int]:
    """What utility looks at; a release shows at most as many rows as it has records, or cells."""
    places = [data.columns.index(c) for c in columns]
    levels = data.n_levels[places]
    d = np.maximum(levels - 1, 1)
    shown = len(np.unique(data.codes[:, places], axis=0))
    cells = math.prod(levels.tolist()) if levels.all() else math.inf
    return {
        "compared": len(d),
        "dummies": int(d.sum()),
        "products": int(d.sum() + (d.sum() ** 2 - (d**2).sum()) // 2),
        "rows": int(min(shown + len(data.codes), cells)),
    }


def _membership(study: Study, data: Microdata) -> dict[str, int]:
    section, n = study.membership, len(data.codes)
    if section is None:
        return {}
    several = study.m > 1 or study.classes == "own"
    compared = section.held_out is not None or section.others is not None
    asked = 1 + several * section.alternatives + compared * section.comparisons
    records = section.records
    places = records if isinstance(records, int) else n if records == "all" else len(records)
    return {"asked": asked, "places": min(places, n)}


def _full_table(study: Study, widths: dict[str, int], made: list[str]) -> dict[str, int]:
    section = study.full_table
    if section is None:
        return {}
    names = study.guessed or made
    draws = getattr(study.model, "draws", 0) * getattr(study.model, "chains", 0)
    used = min(section.draws or draws, draws)
    return {"cells": math.prod(widths[c] for c in names), "table_draws": used}
