"""Files of small studies, their settings read again, and what a terminal shows of a result."""

import json
import os
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from bayes_risk.app.output import as_json
from bayes_risk.app.study.study import parse_study
from bayes_risk.reporting.content import as_toml

ANALYSES = """
import statsmodels.formula.api as smf

def pay(df):
    return smf.ols("pay ~ sex", df).fit()
"""
TREES_OF_PAY = """
random_seed = 5

[data]
path = "people.csv"
index = "id"

[model]
kind = "CART"
order = ["job", "pay"]

[release]
m = 2

[identification]
known = ["sex"]
synthesized = ["job"]
"""


def people(seed: int = 2, n: int = 80, digits: int = 2, label: str = "P") -> pd.DataFrame:
    """Pay that depends on sex, and a job that nothing depends on."""
    rng = np.random.default_rng(seed)
    sex, job = rng.choice(["f", "m"], n), rng.choice(["clerk", "pilot", "baker"], n)
    pay = np.round(10 + 2 * (sex == "f") + rng.normal(size=n), digits)
    return pd.DataFrame(
        {"id": [f"{label}{k}" for k in range(n)], "sex": sex, "job": job, "pay": pay}
    )


def study_folder(where: Path, study: str, df: pd.DataFrame) -> Path:
    """A folder with a study, its table and its analyses."""
    df.to_csv(where / "people.csv", index=False)
    (where / "analyses.py").write_text(ANALYSES)
    (where / "study.toml").write_text(study)
    return where


def check_settings(given: Any) -> None:
    """Printed settings, and those of a manifest, are the same study."""
    study = parse_study(given)
    assert parse_study(tomllib.loads(as_toml(study.settings()))) == study
    manifest = json.loads(json.dumps(as_json(study.settings())))
    assert parse_study(manifest | {"data": {"path": "a.csv"}}) == study


def shown(
    show: Callable[..., None], result: Any, notes: Sequence[str] = (), width: int = 80
) -> str:
    """The text that a terminal of a width shows."""
    with open(os.devnull, "w") as nothing:
        console = Console(width=width, record=True, file=nothing)
        show(result, notes, console=console)
        return console.export_text()
