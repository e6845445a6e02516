"""A small result of every kind that can be drawn and reported, all of one table of 60 people."""

import warnings
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br

MARK = "Zwiebelschneider"  # a confidential value that must not leak


def people() -> pd.DataFrame:
    """Job goes with sex; nobody but P003 is a child who peels onions."""
    rng = np.random.default_rng(5)
    sex = rng.choice(["f", "m"], 60)
    job = np.where(rng.random(60) < 0.7, np.where(sex == "f", "clerk", "pilot"), MARK)
    age = rng.choice(["child", "adult", "old"], 60)
    return pd.DataFrame(
        {"sex": sex, "age": age, "job": job}, index=[f"P{k:03d}" for k in range(60)]
    )


@cache
def every() -> dict[str, object]:
    """Results by kind, made once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _attribute() | _files() | _counted()


def _attribute() -> dict[str, object]:
    table = people()
    known, others = table.iloc[:50], table.iloc[50:]
    sampling: dict[str, Any] = {"draws": 40, "tune": 0, "chains": 2, "thin": 1}
    fit = br.models.DPMPM(n_classes=1).fit(known, random_seed=1, **sampling)
    release = fit.synthesize(3, random_seed=2)
    evidence = br.attribute_evidence(fit, release, random_seed=3)
    risk = evidence.risk("uniform")
    keys: dict[str, Any] = {"known": [], "synthesized": list(table.columns)}
    return {
        "evidence": evidence,
        "attribute": risk,
        "identification": br.identification_risk(known, release, **keys),
        "privacy loss": br.privacy_loss(evidence),
        "membership": br.membership(fit, release, others=others, records=20, random_seed=4),
        "full table": br.full_table_risk(fit, release, targets=10, random_seed=5),
        "sensitivity": br.sensitivity(
            fit,
            release,
            over={"prior": {"even": "uniform", "margins": "marginal"}, "m": [1, 3]},
            random_seed=6,
        ),
        "reweighting": br.reweight(
            br.models.DPMPM(n_classes=1),
            known,
            until=0.2,
            rounds=1,
            fit=sampling,
            synthesis={"m": 2},
            random_seed=7,
        ),
        "diagnostics": fit.diagnostics,
    }


def _files() -> dict[str, object]:
    table = people()
    trees = br.models.CART(["age", "job"], min_leaf=4)
    release = trees.fit(table, random_seed=1).synthesize(m=2, random_seed=2)
    keys: dict[str, Any] = {"known": ["sex"], "synthesized": ["age", "job"]}
    candidates = {"fine": trees, "coarse": br.models.CART(["age", "job"], min_leaf=20)}
    return {
        "utility": br.utility(table, release, permutations=4, random_seed=3),
        "context": br.context_measures(table, release, keys=["sex"], target="job", random_seed=4),
        "matching": br.identification_sweep(
            table, release, over={"fallback": [True, False]}, **keys
        ),
        "comparison": br.compare(
            candidates,
            table,
            identification=keys,
            utility={"permutations": 4},
            replicates=2,
            random_seed=5,
        ),
    }


def _counted() -> dict[str, object]:
    """Matching of files on disk, and how rare keys are among a tenfold population."""
    table = people()
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{name}.parquet" for name in ("original", "1", "2", "3")]
        for shift, path in enumerate(paths):
            moved = table.assign(job=np.roll(table["job"].to_numpy(), shift))
            moved.reset_index(drop=True).to_parquet(path)
        keys: dict[str, Any] = {"known": ["sex", "age"], "synthesized": ["job"]}
        files = br.identification_risk_of_files(paths[0], paths[1:], **keys)
    household = pd.Series(np.arange(60) // 3, table.index, name="hid")
    found = br.household_matching(table.assign(hid=household), table, household="hid", **keys)
    of_households: dict[str, object] = {"households": found}
    of_households["household risk"] = br.household_risk(table["sex"].eq("f") / 2, household)
    return of_households | {
        "files": files,
        "uniqueness": br.uniqueness(table, ["age", "job"], fraction=0.1),
    }


def parts() -> list[object]:
    """All that a report takes."""
    return [part for name, part in every().items() if name not in ("evidence", "diagnostics")]
