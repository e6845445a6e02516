"""What must not matter: the order of records, the names of levels, the order of columns.

Of models without draws every probability stays; with draws, what was computed with the same seed
is the same to the last byte.
"""

import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from tests.soak.running import results_of
from tests.soak.studies import Study

EXACT = 1e-9


def check_invariant(study: Study, results: dict[str, Any]) -> None:
    """Matching never depends on order or names; an audit is repeated now and then."""
    if "identification" in results:
        check_matching(study, study.made, results["identification"])
    if "attribute" in results and study.seed % 7 == 0:
        check_repeated(results["attribute"], results_of(study)["attribute"])


def check_repeated(one: br.AttributeRisk, other: br.AttributeRisk) -> None:
    """Same seed, same bytes."""
    for name in ("log_probability", "log_evidence", "mcse", "khat", "ess"):
        first, second = getattr(one, name), getattr(other, name)
        assert zlib.crc32(first.tobytes()) == zlib.crc32(second.tobytes()), name


def check_matching(study: Study, release: br.Release, risk: br.IdentificationRisk) -> None:
    """Records in another order, columns in another order: the same risk of each record."""
    rng = np.random.default_rng(study.seed)
    order = rng.permutation(len(study.table))
    columns = list(rng.permutation(np.array(list(study.table), dtype=object)))
    table = study.table.iloc[order][columns]
    datasets = [data.iloc[order] for data in release.datasets]
    marked = None if release.records is None else release.records[order]
    moved = replace(release, datasets=datasets, records=marked, groups=None)
    again = br.identification_risk(
        table,
        moved,
        known=list(risk.known),
        synthesized=list(risk.synthesized),
        radius=dict(risk.radius),
    )
    before, after = risk.records, again.records.loc[risk.records.index]
    pd.testing.assert_frame_equal(before, after, rtol=EXACT)
