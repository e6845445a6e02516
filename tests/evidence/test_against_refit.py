"""Several classes: the predictive evidence against fits without the target, within both errors."""

import numpy as np
import pytest

import bayes_risk as br
from tests.oracles.kernel_twins import simulate

pytestmark = [
    pytest.mark.check,  # both estimators meet enumeration in `test_enumeration`
    pytest.mark.filterwarnings("ignore::bayes_risk.TruncationWarning"),
]
TABLE = simulate(80, (3, 2, 4, 3), 3, seed=31)
MECHANISMS = {
    "new": {"classes": "new"},
    "new, given columns": {"classes": "new", "columns": ["x1", "x2"]},
    "own": {"classes": "own"},
    "own, some columns": {"classes": "own", "columns": ["x0", "x2"]},
    "new, some records": {"classes": "new", "records": np.arange(80) % 3 > 0},
}


@pytest.fixture(scope="module")
def fit():
    model = br.models.DPMPM(n_classes=5)
    return model.fit(TABLE, draws=200, tune=150, thin=2, chains=8, random_seed=1)


def rarest(table, size):
    """Labels of records: half of them the most alone, half drawn evenly from the rest."""
    cell = table.groupby(list(table), observed=True)[table.columns[0]].transform("size")
    order = cell.sort_values(kind="stable").index
    return [*order[: size // 2], *order[size // 2 :: len(order) // (size - size // 2)]][:size]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_predictive_agrees_with_refit(fit, mechanism):
    release = fit.synthesize(2, **MECHANISMS[mechanism], random_seed=2)
    some = [i for i in rarest(TABLE, 4) if release.replaced(80)[i]]
    risks = [
        br.attribute_risk(fit, release, targets=some, evidence=evidence, random_seed=3)
        for evidence in ("predictive", "refit")
    ]
    assert (risks[0].khat < 0.7).all() and (risks[1].khat == 0).all()
    others = np.arange(risks[0].n_guesses)[:, None] != risks[0].truth
    error = np.hypot(risks[0].mcse_log_evidence, risks[1].mcse_log_evidence)[others]
    gap = risks[0].log_evidence.sum(axis=0) - risks[1].log_evidence.sum(axis=0)
    z = gap[others] / error
    assert np.abs(z).max() < 4
    assert np.abs(gap[~others]).max() < 1e-12  # the truth, relative to itself
    both = [risk.records for risk in risks]
    z = (both[0]["probability"] - both[1]["probability"]) / np.hypot(*(b["mcse"] for b in both))
    assert np.abs(z).max() < 4
