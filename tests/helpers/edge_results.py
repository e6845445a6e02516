"""Small results made by hand, for tests of what stands downstream of the engine."""

from dataclasses import replace

import numpy as np
import pandas as pd

from bayes_risk.app.run import StudyResult
from bayes_risk.app.study.study import parse_study
from bayes_risk.data.microdata import Number, Variable
from bayes_risk.demo import STUDIES
from bayes_risk.matching.risk import identification_risk
from bayes_risk.release.release import Release
from bayes_risk.reporting.verdicts.verdict import judge
from bayes_risk.risk.result import AttributeRisk

MARK = "Zwiebelschneider"  # a confidential value that must not leak
LEVELS = (MARK, "clerk", "pilot")


def attribute(
    probability=(0.2, 0.3, 0.4, 0.25),
    *,
    mcse=0.01,
    reliable=None,
    disclosed=None,
    labels=None,
    khat=0.1,
    prior="every guess equally probable",
) -> AttributeRisk:
    """Three guesses a record, the truth guess 0; the other two share what is left."""
    p = np.asarray(probability, dtype=float)
    n = len(p)
    with np.errstate(divide="ignore"):
        log_p = np.log(np.stack([p, (1 - p) / 2, (1 - p) / 2]))
    spread = np.full(n, mcse) if np.isscalar(mcse) else np.asarray(mcse, dtype=float)
    return AttributeRisk(
        index=pd.RangeIndex(n) if labels is None else pd.Index(labels),
        case=np.arange(n),
        variables=(Variable("job", LEVELS, False, object),),
        guesses=np.tile(np.arange(3)[:, None, None], (1, n, 1)),
        truth=np.zeros(n, dtype=np.int64),
        log_evidence=(log_p - log_p[0])[None],
        log_prior=np.full((3, n), -np.log(3)),
        log_probability=log_p,
        mcse_log_evidence=np.zeros((3, n)),
        deviations=np.sqrt(3) * np.stack([spread, -spread, spread, -spread])[None],
        mcse=spread,
        mcse_log_bayes_factor=np.divide(
            spread, p * (1 - p), out=np.zeros(n), where=p * (1 - p) > 0
        ),
        khat=np.full(n, khat),
        ess=np.full(n, 400.0),
        reliable=np.ones(n, dtype=bool) if reliable is None else np.asarray(reliable),
        disclosed=np.zeros(n, dtype=bool) if disclosed is None else np.asarray(disclosed),
        left_out=np.zeros(n),
        assumptions={
            "records": "The intruder knows every record but the target's.",
            "columns": "guessed: job",
            "synthesis": "the model and its priors are known",
            "prior": prior,
            "guesses": "every value that differs from the truth in at most 1 variable",
            "evidence": "predictive",
            "releases": "m = 1",
        },
        seed_entropy="1",
    )


def numbers(names=("income", "tax"), n=4) -> AttributeRisk:
    """Five guesses for each of some numbers, one after the other; the truth in the middle."""
    q = len(names)
    risk = attribute([0.3] * n)
    steps = np.repeat(np.arange(-2.0, 3.0)[:, None, None], n, axis=1)
    p = np.linspace(1, 2, 5)[:, None] ** np.arange(1, n + 1)
    log_p = np.log(p / p.sum(axis=0))
    return replace(
        risk,
        variables=tuple(Number(name, False, "float64") for name in names),
        guesses=1000.0 * np.arange(1, n + 1)[None, :, None] + steps * np.arange(1.0, q + 1),
        truth=np.full(n, 2),
        log_evidence=(log_p - log_p[2])[None],
        log_prior=np.full((5, n), -np.log(5)),
        log_probability=log_p,
        mcse_log_evidence=np.full((5, n), 0.01),
    )


def confidential(n=12, ages=None) -> pd.DataFrame:
    """A small table of so many ages; by default half of the records are alone in theirs."""
    ages = [20 + i % (ages or n // 2 + 1) for i in range(n)]
    return pd.DataFrame({"age": ages, "job": [LEVELS[i % 3] for i in range(n)]})


def identification(n=12, m=2, ages=None):
    """Jobs moved on by one record, and by two; with few ages nobody is alone."""
    df = confidential(n, ages)
    files = [df.assign(job=np.roll(df["job"].to_numpy(), l)) for l in range(1, m + 1)]
    return identification_risk(df, files, known=["age"], synthesized=["job"])


def study_result(study=None, *, risk=None, ident=None) -> StudyResult:
    """What a run would give, without a run."""
    study = study or parse_study(STUDIES["italy"])
    risk, ident = risk or attribute(), ident or identification()
    return StudyResult(
        study=study,
        random_seed=7,
        data_sha256="0" * 64,
        diagnostics={"chains": 2, "draws": 1000, "max_rhat": float("nan"), "min_ess": 250.0},
        release=Release(datasets=[confidential()], synthesized=["job"]),
        attribute=risk,
        identification=ident,
        verdict=judge(risk, ident, study.thresholds.made()),
        seconds={"fit": 1.2, "attribute risk": 3.4},
    )
