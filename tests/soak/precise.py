"""A random study asked twice, in single and in double precision."""

from collections import Counter
from typing import Any

import bayes_risk as br
from tests.soak.asking import asked
from tests.soak.choices import Choices, pick
from tests.soak.precision import (
    check_attribute,
    check_descent,
    check_full_table,
    check_membership,
    doubled,
)
from tests.soak.running import doubts_alone
from tests.soak.studies import Study, study


def check_precision(choices: Choices, tally: Counter[str]) -> None:
    """Trees against scikit-learn; draws and walks through tables against double precision."""
    kind = pick(choices, ["DPMPM", "DPMPM", "CART", "PoissonMixture"])
    one = study(choices, kind)
    with doubts_alone():
        fit = asked(one, "fit", lambda: one.fit())
        release = None if fit is None else asked(one, "release", lambda: one.release(fit))
        tally.update(["studies", "refused" if release is None else "compared"])
        if release is not None and kind == "CART":
            check_descent(fit)
        elif release is not None:
            _compare(answers(one, fit, release), one, fit, release)


def _compare(single: dict[str, Any], one: Study, fit: Any, release: br.Release) -> None:
    with doubled():
        double = answers(one, fit, release)
    assert single.keys() == double.keys()
    checks: dict[str, Any] = {
        "evidence": check_attribute,
        "full table": check_full_table,
        "membership": check_membership,
    }
    for name, result in single.items():
        checks[name](result, double[name])


def answers(one: Study, fit: Any, release: br.Release) -> dict[str, Any]:
    """What is kept in single precision: evidence of draws, membership, the full table."""
    how = dict(one.audit) | {"search_prior": one.audit["prior"], "random_seed": one.seed}
    del how["prior"]
    out = {
        "evidence": asked(one, "evidence", lambda: br.attribute_evidence(fit, release, **how)),
        "full table": asked(
            one,
            "full table",
            lambda: br.full_table_risk(fit, release, targets=2, draws=20, random_seed=one.seed),
        ),
        "membership": asked(
            one,
            "membership",
            lambda: br.membership(
                fit, release, records=2, alternatives=10, refit_budget=1, random_seed=one.seed
            ),
        ),
    }
    return {name: result for name, result in out.items() if result is not None}
