"""What is unreliable, and why: of every result, what its diagnostics object to, and the cure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.formats import counted
from bayes_risk.matching.odds import GIVEN
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.reporting.verdicts.reasons import (
    DRAWS_A_CHAIN,
    of_chains,
    of_the_audit,
    standard_errors,
)
from bayes_risk.risk.posterior import MAX_LEFT_OUT, MAX_MCSE
from bayes_risk.risk.result import AttributeRisk

from .plots import GOOD_KHAT
from .sections import head_of

NAMED = 10  # labels of records that are written out


class Caveat(NamedTuple):
    """Of what, why, and what would help."""

    what: str
    why: str
    cure: str


def doubts(
    attribute: AttributeRisk | None,
    identification: IdentificationRisk | None,
    others: Sequence[Any],
    diagnostics: Mapping[str, Any],
    rhat: float | None,
) -> list[Caveat]:
    """All of them; none: nothing was found to object to. ``rhat``: the verdict's own limit."""
    found = [] if attribute is None else of_attribute(attribute)
    found += [] if identification is None else of_identification(identification)
    for part in others:
        found += of_result(part)
    return found + of_fit(of_the_audit(attribute, diagnostics), rhat)


def of_attribute(risk: AttributeRisk) -> list[Caveat]:
    """Records marked unreliable, by what is wrong with their numbers."""
    table = risk.records
    bad = table[~table["reliable"]]
    reasons = {
        f"k-hat is above {GOOD_KHAT}: a few draws decide": bad["khat"] > GOOD_KHAT,
        f"the error of the probability is above {MAX_MCSE}": ~(bad["mcse"] <= MAX_MCSE),
        f"more than {100 * MAX_LEFT_OUT:g} % of the posterior lies outside the guesses searched": (
            bad["left_out"] > MAX_LEFT_OUT
        ),
    }
    cures = (
        "fit again for these records alone (refit_budget), or take more draws",
        "take more draws (target_mcse, max_doublings)",
        "search more guesses (guess_budget)",
    )
    found, told = [], np.zeros(len(bad), dtype=bool)
    for (why, holds), cure in zip(reasons.items(), cures, strict=True):
        here = holds.to_numpy() & ~told
        told |= here
        if here.any():
            found.append(Caveat(_records("Attribute risk", bad.index[here]), why, cure))
    if not told.all():
        why = "the effective number of draws is small, or the error of the log odds large"
        if risk.modes is not None:
            why += ", or chains of one mode disagree about these records"
        found.append(Caveat(_records("Attribute risk", bad.index[~told]), why, cures[1]))
    return found


def of_identification(risk: IdentificationRisk) -> list[Caveat]:
    """Errors that cannot be told, and counts of the population that are not counted."""
    found = []
    if risk.n_releases < 3 and risk.pooled_mcse != risk.pooled_mcse:
        words = counted(risk.n_releases, "release")
        why = f"{words}: pooled, the error between releases cannot be told"
        found.append(Caveat("Identification risk, pooled", why, "make at least 3 releases"))
    if risk.estimated or risk.population == GIVEN:
        why = f"population counts are not counted here ({risk.population})"
        cure = "vary them, or give counts of the population"
        found.append(Caveat("Identification risk", why, cure))
    return found


def of_result(part: Any) -> list[Caveat]:
    """What a result objects to by itself; records that it marks unreliable."""
    _, name, _ = head_of(part)
    if why := part.doubt():
        return [Caveat(name, why, CURES[type(part).__name__])]
    marked = getattr(part, "reliable", None)
    records = part.records if marked is not None else None
    if records is None or "reliable" not in records or records["reliable"].all():
        return []
    bad = records.index[~records["reliable"]]
    why = "k-hat, effective number of draws or error are beyond what can be trusted"
    return [Caveat(_records(name, bad), why, "take more draws, or refit")]


CURES = {
    "Utility": "name fewer columns, or rely on the tree",
    "Sensitivity": "take more draws, or read these settings as rough",
    "Comparison": "take more draws for these candidates, or read their risk as rough",
}


def of_fit(diagnostics: Mapping[str, Any], rhat: float | None) -> list[Caveat]:
    """What the sampler's diagnostics object to; of the chains in the verdict's own sentence."""
    chains, ess = (float(diagnostics.get(k, "nan")) for k in ("chains", "min_ess"))
    longer = "sample longer (draws, tune), or with more chains"
    disagree = standard_errors(diagnostics, rhat) > 2
    said = [r.sentence for r in of_chains(diagnostics, rhat) if r.cure or disagree]
    found = [Caveat("Fit", sentence.rstrip("."), longer) for sentence in said]
    if not disagree and ess < DRAWS_A_CHAIN * chains:
        wanted = f"{DRAWS_A_CHAIN * chains:,.0f}, {DRAWS_A_CHAIN} a chain"
        why = f"the smallest effective sample size is {ess:,.0f}, below {wanted}"
        found.append(Caveat("Fit", why, longer))
    if diagnostics.get("divergences"):
        why = f"{int(diagnostics['divergences']):,} divergent transitions: the sampler got stuck"
        found.append(Caveat("Fit", why, "use tighter priors, or another parametrisation"))
    if diagnostics.get("truncation_binds"):
        found.append(Caveat("Fit", "all latent classes are occupied", "allow more (n_classes)"))
    return found


def _records(what: str, labels: Any) -> str:
    """Of which records, by label."""
    n = len(labels)
    shown = ", ".join(str(label) for label in labels[:NAMED])
    more = f" and {n - NAMED:,} more" if n > NAMED else ""
    return f"{what}, {counted(n, 'record')}: {shown}{more}"
