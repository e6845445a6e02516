"""Run audits of forty records on two cores, so that compiled loops of mixtures are in the cache."""

import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from bayes_risk.demo import italy
from bayes_risk.intruder.grids import Grid, Levels
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models import DPMPM, Mixture
from bayes_risk.risk.attribute import attribute_risk
from tests.helpers.kernels import compile_once

HOW: Any = {"draws": 30, "tune": 5, "random_seed": 1}


def audit(knows: Any) -> None:
    """Of a mixture of numbers by who knows these records; None: of latent classes."""
    warnings.simplefilter("ignore")
    table = italy().sample(40, random_state=1)
    if knows is None:
        fit = DPMPM(n_classes=3).fit(table, thin=1, **HOW)
        for columns in (["EDU", "PRO"], None):
            release = fit.synthesize(m=2, columns=columns, random_seed=2)
            attribute_risk(fit, release, random_seed=3)
        return
    mixed = table[["EDU"]].assign(visits=table.index % 3, pay=table.index / 7)
    grids: Any = {"EDU": Levels(), "visits": Grid(additive=1, n=3), "pay": Grid(additive=1, n=3)}
    model = Mixture(families={"visits": "count", "pay": "normal"}, n_classes=3)
    other: Any = model.fit(mixed, **HOW)
    release = other.synthesize(m=2, random_seed=2)
    intruder = Intruder(knows_records=knows)
    attribute_risk(other, release, guesses=grids, intruder=intruder, random_seed=3)


if __name__ == "__main__":
    with ProcessPoolExecutor(2, get_context("spawn"), compile_once) as pool:
        list(pool.map(audit, [0.5, None, "all-but-target"]))  # the longest first
