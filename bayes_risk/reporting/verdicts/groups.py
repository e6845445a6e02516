"""Rules of the verdict on risk by group: the worst group, where groups were asked for."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pandas as pd

from bayes_risk._core.formats import beside_share, number
from bayes_risk.data.groups import GroupRisk
from bayes_risk.data.variables import Number
from bayes_risk.risk.result import AttributeRisk

from .attribute import ROUNDING
from .reason import GAINED, Figures, Reason, Thresholds, against, doubt, multiple, no_objection

OF_GROUPS, MATCHED_GROUPS = f"{GAINED}, groups", "correct matches, groups"


def on_groups(risk: AttributeRisk, case: Any) -> Iterator[Reason]:
    """The worst group, under the prior under which it is worst.

    Of numbers not under the flat prior, if there is another: a rise under it depends on how wide
    the grid is.
    """
    found = {name: one.groups for name, one in risk.priors.items()}
    if not found or not any(isinstance(v, Number) for v in risk.variables):
        found[""] = risk.groups
    judged = {k: groups for k, groups in found.items() if groups is not None and groups.n_judged}
    if judged:
        prior = max(judged, key=lambda k: cast(pd.Series, judged[k].worst)["rise"])
        cure = "error" if risk.sample is None else "groups"
        yield _judged(judged[prior], OF_GROUPS, case.limits, cure, prior)


def on_matched_groups(risk: Any, case: Any) -> Iterator[Reason]:
    """The worst group by the probability of a correct match."""
    groups = getattr(risk, "groups", None)
    if groups is not None and groups.n_judged:
        yield _judged(groups, MATCHED_GROUPS, case.limits, "keys")


def _judged(
    found: GroupRisk, measure: str, limits: Thresholds, cure: str, prior: str = ""
) -> Reason:
    """Whether some group is surely or perhaps above; the worst one is named."""
    limit, one = limits.group_gain + ROUNDING, cast(pd.Series, found.worst)
    judged = found.table[found.table["judged"]]
    under = f" Under the {prior} prior." * bool(prior)
    text = f"{found.sentence()}{under} A rise of {limits.group_gain:g} is allowed."
    after = number(one["probability"])
    if one["mcse"] > 0:
        after += beside_share(one["mcse"], one["probability"])
    what = f"Mean probability of {found.event}, {' = '.join(cast(Any, one.name))}"
    figures = Figures(what, after, number(one["prior"]), f"+{limits.group_gain:g}")
    if (judged["low"] > limit).any():
        reason = against(measure, text)
    elif (judged["high"] > limit).any():
        reason = doubt(measure, text, cure)
    else:
        reason = no_objection(measure, text)
    of = multiple(limits.group_gain, *(float(one[end]) for end in ("low", "rise", "high")))
    return replace(reason, figures=figures, prior=prior, of_allowed=of)
