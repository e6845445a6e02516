"""Run audits of forty records, so that the compiled loops of mixtures are in the cache."""

import warnings
from typing import Any

from bayes_risk.demo import italy
from bayes_risk.intruder.grids import Grid, Levels
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models import DPMPM, Mixture
from bayes_risk.risk.attribute import attribute_risk

table = italy().sample(40, random_state=1)
how: Any = {"draws": 30, "tune": 5, "random_seed": 1}
mixed = table[["EDU"]].assign(visits=table.index % 3, pay=table.index / 7)
grids: Any = {"EDU": Levels(), "visits": Grid(additive=1, n=3), "pay": Grid(additive=1, n=3)}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    model = Mixture(families={"visits": "count", "pay": "normal"}, n_classes=3)
    fit = model.fit(mixed, **how)
    release = fit.synthesize(m=2, random_seed=2)
    for knows in ("all-but-target", 0.5):
        intruder = Intruder(knows_records=knows)
        attribute_risk(fit, release, guesses=grids, intruder=intruder, random_seed=3)
    fit = DPMPM(n_classes=3).fit(table, thin=1, **how)
    for columns in (["EDU", "PRO"], None):
        release = fit.synthesize(m=2, columns=columns, random_seed=2)
        attribute_risk(fit, release, random_seed=3)
