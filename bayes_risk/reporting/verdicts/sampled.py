"""Doubts about numbers that were sampled: unreliable records, chains, diagnostics of the fit."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from bayes_risk._core.arrays import Flags
from bayes_risk._core.formats import counted
from bayes_risk.risk.posterior import MAX_LEFT_OUT, MAX_MCSE
from bayes_risk.risk.result import AttributeRisk

from .reason import Reason, doubt, no_objection

CHAINS, FIT = "agreement of the chains", "fit"
DRAWS_A_CHAIN = 100  # Vehtari et al. (2021): what an estimated error needs
GOOD_KHAT = 0.7  # of importance weights, at most


def rejected(risk: AttributeRisk) -> Iterator[tuple[Flags, str, str]]:
    """Unreliable records by the first thing that is wrong with them: which, why, and cure."""
    table = risk.records
    left = ~table["reliable"].to_numpy()
    chains = ", or chains of one mode that disagree" * (risk.modes is not None)
    for wrong, why in (
        (table["khat"] > GOOD_KHAT, f"k-hat above {GOOD_KHAT}: a few draws decide"),
        (~(table["mcse"] <= MAX_MCSE), f"an error of the probability above {MAX_MCSE}"),
        (
            table["left_out"] > MAX_LEFT_OUT,
            f"more than {100 * MAX_LEFT_OUT:g} % of the posterior outside the guesses searched",
        ),
        (
            table["khat"] == table["khat"],
            f"few effective draws, or a large error of the log odds{chains}",
        ),
    ):
        which = left & wrong.to_numpy()
        if which.any():
            yield which, why, cure_of(risk, which)
        left = left & ~which


def cure_of(risk: AttributeRisk, which: Flags, width: float = 2.0) -> str:
    """What would settle the records marked: where chains disagree more of them, before all."""
    table = risk.records[which]
    if risk.assumptions.get("evidence", "").startswith("importance"):
        return "importance"
    if (table["left_out"] > MAX_LEFT_OUT).any():
        return "left out"
    if width > 2:
        return "chains"
    return "error" if table["reliable"].all() else "unreliable"


def of_fit(diagnostics: Mapping[str, Any], limit: float | None) -> Iterator[Reason]:
    """What the diagnostics of the fit object to; those with a cure are doubts of the report too.

    The largest of some hundred R-hats is above the limit now and then in sound chains too, so that
    it counts only beside a smallest effective number of draws below ``DRAWS_A_CHAIN`` a chain.
    """
    rhat, ess = (float(diagnostics.get(key, "nan")) for key in ("max_rhat", "min_ess"))
    chains, width = int(diagnostics.get("chains", 1)), standard_errors(diagnostics, limit)
    judged = limit is not None and not math.isinf(limit) and "max_rhat" in diagnostics
    wanted, worst = DRAWS_A_CHAIN * chains, f"largest R-hat {rhat:.3f}"
    if judged and chains == 1:
        yield doubt(CHAINS, "Convergence cannot be assessed with one chain.", "chains")
    elif width > 2:
        text = (
            f"The chains of the fit disagree ({worst}, above {limit:g}, and {ess:,.0f} effective "
            f"draws where {wanted:,} are wanted): {width:.1f} standard errors were allowed for "
            "instead of 2."
        )
        yield no_objection(CHAINS, text, "fit")
    elif judged and not math.isnan(rhat):
        text = f"have enough draws ({worst}, above {limit:g}, but {ess:,.0f} effective draws)"
        text = f"agree ({worst}; {limit:g} is allowed)" if rhat <= (limit or 0) else text
        yield no_objection(CHAINS, f"The chains of the fit {text}.")
    found = {}
    if width == 2 and ess < wanted:
        small = f"{ess:,.0f}, below {wanted:,}, {DRAWS_A_CHAIN} a chain"
        found["fit"] = f"The smallest effective sample size of the fit is {small}."
    if divergent := int(diagnostics.get("divergences", 0)):
        found["priors"] = f"The fit has {counted(divergent, 'divergent transition')}."
    if diagnostics.get("truncation_binds"):
        found["classes"] = "All latent classes of the fit are occupied."
    yield from (no_objection(FIT, text, cure) for cure, text in found.items())


def of_the_audit(risk: AttributeRisk | None, diagnostics: Mapping[str, Any]) -> dict[str, Any]:
    """The fit's diagnostics; without those of its chains where the audit has led chains instead."""
    led = risk is not None and risk.modes is not None
    of_chains = ("max_rhat", "median_rhat", "min_ess", "median_ess") if led else ()
    return {name: value for name, value in diagnostics.items() if name not in of_chains}


def standard_errors(diagnostics: Mapping[str, Any], limit: float | None) -> float:
    """How many standard errors hold the true value as surely as 2 do if it were normal.

    Errors are taken between chains. Of C chains that have not met, each is one draw: Student's t
    with C - 1 degrees of freedom.
    """
    rhat, ess = (float(diagnostics.get(key, "nan")) for key in ("max_rhat", "min_ess"))
    chains = int(diagnostics.get("chains", 1))
    if limit is None or chains == 1 or not rhat > limit or ess >= DRAWS_A_CHAIN * chains:
        return 2.0
    from scipy.stats import norm, t

    return float(t.ppf(norm.cdf(2.0), chains - 1))
