"""One study from its table to its results; what may be refused, and how."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from tests.soak.asking import asked
from tests.soak.further import further
from tests.soak.studies import Study

DOUBTS = (br.TruncationWarning, br.UnreliableWeightsWarning, br.DisplacedRiskWarning)


@contextmanager
def doubts_alone() -> Iterator[None]:
    """Whatever warns without being a declared doubt is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for doubt in DOUBTS:
            warnings.simplefilter("ignore", doubt)
        yield


def run(study: Study) -> dict[str, Any]:
    """All results of a study."""
    with doubts_alone():
        return results_of(study)


def results_of(study: Study) -> dict[str, Any]:
    """Fit, release, evidence and its readings, matching, utility."""
    out: dict[str, Any] = {}
    fit = asked(study, "fit", lambda: study.fit())
    release = None if fit is None else asked(study, "release", lambda: study.release(fit))
    if release is None:
        return out
    how = dict(study.audit)
    prior = how.pop("prior")
    gathered = asked(
        study,
        "evidence",
        lambda: br.attribute_evidence(
            fit, release, search_prior=prior, random_seed=study.seed, **how
        ),
    )
    if gathered is not None:
        out["attribute"] = asked(study, "attribute", lambda: gathered.risk(prior))
        out["loss"] = asked(study, "loss", lambda: br.privacy_loss(gathered))
    out |= matched(study, release)
    if study.seed % 4 == 0:
        out |= further(study, fit, release)
    return {name: result for name, result in out.items() if result is not None}


def matched(study: Study, release: br.Release) -> dict[str, Any]:
    """What is measured on files alone."""
    table, names = study.table, list(release.synthesized)
    rng = np.random.default_rng(study.seed)
    known: list[Any] = [c for c in table if c not in names]
    radius: dict[Any, float] = {
        c: float(rng.choice([0.0, 0.1, 10.0]))
        for c in [*known, *names]
        if pd.api.types.is_float_dtype(table[c].dtype) or rng.random() < 0.02
    }
    out = {
        "identification": asked(
            study,
            "identification",
            lambda: br.identification_risk(
                table, release, known=known, synthesized=names, radius=radius
            ),
        )
    }
    if rng.random() < 0.2:
        out["utility"] = asked(
            study,
            "utility",
            lambda: br.utility(table, release, permutations=2, random_seed=study.seed),
        )
        out["context"] = asked(
            study,
            "context",
            lambda: br.context_measures(
                table,
                release,
                keys=names[:1],
                target=[*map(str, table)][-1:]
                if len(list(table)) > 1 and list(table)[-1] not in names[:1]
                else None,
                random_seed=study.seed,
            ),
        )
    return out
