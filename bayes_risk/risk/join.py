r"""Attribute risk of everything released so far: several releases, models, files, years.

Given the confidential table, releases of different mechanisms are independent, so

    log p(y* | Z_1, ..., Z_T, A) = log prior(y*) + sum_t sum_l log p(Z_t^(l) | y*, A) + constant:

evidence adds, and the prior enters once. Monte Carlo errors of different audits are independent:
their fits stand beside one another in `Evidence.deviations`, whose variances add.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import is_sequence, whole_number
from bayes_risk.data.microdata import Microdata
from bayes_risk.intruder import priors

from .aligned import Aligned, aligned, check_table
from .attribute import AttributeEvidence
from .result import AttributeRisk, History, measures_of
from .waves import Transition, WaveChain, chained, steps_of

SHOWN = "mean_probability", "mcse", "max_probability", "max_mcse", "baseline"


def join(
    evidence: Sequence[AttributeEvidence] | Mapping[Any, AttributeEvidence],
    *,
    prior: priors.Prior | None = None,
    same_table: bool = True,
    transition: Transition | None = None,
    wave: int | None = None,
    warn: bool = True,
) -> AttributeRisk:
    """Attribute risk of everything released so far: evidence adds, the prior enters once.

    Records are aligned by their labels, guesses by their values. What one of the releases lacks is
    left out, and ``assumptions`` states how much.

    Parameters
    ----------
    evidence : sequence of AttributeEvidence, or mapping of time to these
        One for each release, in the order of publication: `attribute_evidence` or `open_evidence`.
        Times are checked to ascend: ``{2024: first, 2025: second}``.
    prior : as in `attribute_risk`
        ``"predictive"`` is that of the last release's model. ``"release"`` is not offered.
    same_table : bool
        Whether all were made from one confidential table. False: from tables of several years;
        records whose guessed values differ between these are left out, unless ``transition`` is
        given.
    transition : "panel", DataFrame, mapping of column to these, or a list of one for each step
        How the values of a record change from the table of each evidence to that of the next: a
        Markov chain. A table has a row for each old value and a column for each new one, and rows
        sum to 1. ``"panel"``: as those of the other records that the intruder knows in both tables,
        by label; their changes are counted, with a prior of one record for each old value, spread
        evenly over new values. Several columns change each by itself. Then ``same_table`` has no
        effect, the prior is that of the first wave, and its model's ``"predictive"``. Where a table
        lacks a record of the wave judged, which the intruder is assumed to know, every value is
        possible and no evidence is added; its prior is that of the first wave that has it.
    wave : int, optional
        With ``transition``: the wave, from 1, whose values are judged given all releases. The
        default is the last.
    warn : bool
        Whether to warn of unreliable records.

    Returns
    -------
    AttributeRisk
        Of one evidence it is ``evidence.risk(prior)``.

    Raises
    ------
    InputError
        Evidence of other tables, records, columns, or intruders; times that do not ascend; the same
        data set twice; guesses that a search has chosen; no guess but the truth in all evidence; a
        transition that does not hold probabilities, lacks values, or cannot be counted.

    Notes
    -----
    Exact where the intruder knows every record but the target's. Otherwise the releases share the
    unknown records, which is left aside, as in evidence ``"independent-releases"``. ``exposure``
    and ``check`` are those of the last release. Cost: a pass over (m, G, n_cases), no draw; of a
    chain (G, G, n_cases) for each step, and as often for each batch of draws that has an error.

    Examples
    --------
    >>> join([open_evidence("2024"), open_evidence("2025")]).summary()  # doctest: +SKIP
    """
    found = joined_evidence(evidence, same_table=same_table, transition=transition, wave=wave)
    return found.risk(prior, warn=warn)


def given_history(
    before: Sequence[AttributeEvidence],
    new: AttributeEvidence,
    *,
    prior: priors.Prior | None = None,
    same_table: bool = True,
    transition: Transition | None = None,
) -> AttributeRisk:
    """`join` of a new release and those before it, with the risk before it, and of it alone."""
    every = [*before, new]
    both, T = _together(every, same_table, transition), len(every)
    after = both.added(range(T)).risk(prior)
    steps = {
        "before": both.added(range(T - 1)).risk(prior, warn=False),
        "alone": both.added([T - 1]).risk(prior, warn=False),
        "after": after,
    }
    rows: dict[str, dict[str, float]] = {
        name: {
            f"{column}{behind}": found
            for behind, of in (("", risk), *((f"_{k}", r) for k, r in risk.priors.items()))
            for column, found in measures_of(of).items()
            if column in SHOWN
        }
        for name, risk in steps.items()
    }
    first, last, rows["added"] = rows["before"], rows["after"], {}
    for behind in ["", *(f"_{name}" for name in after.priors)]:
        mean, mcse = f"mean_probability{behind}", f"mcse{behind}"
        rows["added"] |= {mean: last[mean] - first[mean], mcse: np.hypot(last[mcse], first[mcse])}
    table = pd.DataFrame.from_dict(rows, orient="index")
    return replace(after, history=History(table, len(before)))


def check_earlier(
    before: Sequence[AttributeEvidence],
    microdata: Microdata,
    *,
    same_table: bool,
    transition: Transition | None = None,
) -> None:
    """Refuse, before a new release is audited, what could not be joined with its evidence."""
    last = before[-1]
    names = [last.microdata.columns[j] for j in last.cases.columns]
    if transition is not None and set(names) <= set(microdata.columns):
        new = replace(last, microdata=microdata, cases=replace(last.cases, known=None))
        steps_of(transition, names, [*before, new])
    joined_evidence(before, same_table=same_table, transition=transition)
    for k, one in enumerate(before, start=1):
        if same_table and transition is None:
            check_table(one.microdata, microdata, f"evidence {k}", "the new release")


def joined_evidence(
    evidence: Sequence[AttributeEvidence] | Mapping[Any, AttributeEvidence],
    *,
    same_table: bool = True,
    transition: Transition | None = None,
    wave: int | None = None,
) -> AttributeEvidence:
    """One evidence of several releases; of one: itself."""
    if isinstance(evidence, Mapping):
        times, evidence = [*evidence], [*evidence.values()]
        try:
            ascending = all(before < after for before, after in pairwise(times))
        except TypeError:  # of several kinds
            ascending = False
        if not ascending:
            raise InputError(
                f"evidence has waves out of order: {', '.join(map(str, times))}; give the earliest "
                "first"
            )
    if isinstance(evidence, AttributeEvidence) or not is_sequence(evidence):
        raise InputError("evidence", "is not a list; give one AttributeEvidence for each release")
    each = list(evidence)
    for k, one in enumerate(each, start=1):
        if not isinstance(one, AttributeEvidence):
            raise InputError(
                f"number {k} of evidence is a {type(one).__name__}; give what attribute_evidence "
                "or open_evidence returns"
            )
    if not each:
        raise InputError("evidence", "is empty; give one AttributeEvidence for each release")
    if wave is not None:
        if transition is None:
            raise InputError("wave", wave, "needs transition: how values change between waves")
        if whole_number("wave", wave, least=1) > len(each):
            raise InputError("wave", wave, f"is not a wave; give a number from 1 to {len(each)}")
    if len(each) == 1:
        return each[0]
    return _together(each, same_table, transition, wave).added(range(len(each)))


def _together(
    each: list[AttributeEvidence],
    same_table: bool,
    transition: Transition | None,
    wave: int | None = None,
) -> Aligned | WaveChain:
    """Records of all releases, of values that stay or change."""
    if transition is None:
        return aligned(each, same_table=same_table)
    return chained(each, transition, wave)
