"""Doubts of verdict and report: unreliable records, chains, matching; the one list of fixes."""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import singledispatch
from typing import Any

import numpy as np
from scipy.special import ndtr, stdtrit

from bayes_risk._core.arrays import Flags
from bayes_risk._core.formats import counted
from bayes_risk._core.pareto import GOOD_KHAT
from bayes_risk.data.measures import IDENTIFICATION
from bayes_risk.matching.odds import GIVEN
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.release.exposure import Exposure
from bayes_risk.risk.posterior import MAX_LEFT_OUT, MAX_MCSE, MAX_RANGE
from bayes_risk.risk.result import AttributeRisk
from bayes_risk.utilities.result import Utility

from .reason import Reason, doubt, no_objection

ENOUGH_CHAINS = 4  # of which Student's t wants 3.3 standard errors
STAYS = "with the same random_seed, so that the release stays the same"
QUARTER = "target_mcse = {quarter} (about 16 times as long)"
LONGER = "this release and a fit with {} (a study that samples so makes another release)"
PUBLIC = "public of [thresholds], with the reason"
OWN_MODEL = "else publish a release made by the audit's own model"
CURES = {  # of doubts of verdict and report; settings have one name in study files and in Python
    **{name: f"measure {name}" for name in ("membership", "utility")},
    **{f"{kind} risk": f"measure {kind} risk" for kind in ("attribute", "identification")},
    # numbers that were sampled
    "error": (
        f"target_mcse = {{target_mcse}} (about {{times}} times as long), {STAYS}; half of that if "
        "still inconclusive"
    ),
    "unreliable": f"refit_budget = {{unreliable}} and {QUARTER}, {STAYS}",
    "left out": "a larger guess_budget (of a JointGrid: budget)",
    "importance": 'evidence = "predictive"',
    "chains": f"attribute_risk of {LONGER.format('chains = {chains}')}",
    "fit": f"attribute_risk of {LONGER.format('more draws and tune')}",
    "priors": f"attribute_risk of {LONGER.format('tighter priors, or another parametrisation')}",
    "classes": f"attribute_risk of {LONGER.format('a larger n_classes')}",
    "chains from the release": f"{QUARTER}, {STAYS}",
    "modes differ": (
        "not possible for these files; make others with another random_seed, in one mode"
    ),
    "rough": "more draws of the model or target_mcse; else treat these numbers as rough",
    "draws": f"membership of {LONGER.format('draws = {draws}')}",
    # what was looked at
    "targets": 'targets = {targets} (drawn at random), or "all"',
    "groups": 'targets = "all"',
    "grid narrow": 'guesses of numbers: a wider grid with the same step, in place of "levels" too',
    "grid coarse": "a finer grid of numbers (n)",
    "others": "others, people outside the data",
    "membership error": "more others, people outside the data, and more records",
    "measure": "utility with the inputs of the measure (analyses, columns)",
    "permutations": "permutations = 100 of utility",
    "predictors": "fewer columns of utility, or use the tree only",
    "two files": "not possible for these files: this error needs at least three",
    "population": "another population model, or counts of the population",
    # how the files were made, and whose rows they hold
    "rows": (
        "an audit with the model that made the files (attribute risk), or membership: matching "
        "needs released rows that are the original's records"
    ),
    "rows moved": (
        "files in the original's order, or index, the column with the record labels, in all of them"
    ),
    "rows unknown": (
        "corresponds = true if row i of each file is record i, else corresponds = false; "
        "ask the producer of the files"
    ),
    "shared": 'parameters = "shared" or "plug-in" of the release, as used for the files',
    "unbalanced": (
        'targets = "all", or a fit with more draws; of files made elsewhere the model and the '
        "classes that made them"
    ),
    "model rejected": (
        "only the model that made the files settles these (of synthpop: the models that syn(..., "
        f"models = TRUE) keeps); {OWN_MODEL}"
    ),
    "mechanism": f"only the model that made the files settles these; {OWN_MODEL}",
    "simulated": (
        "no simulation proves a generator safe; accept_simulated = true of [thresholds] accepts "
        "this intruder as the standard"
    ),
    "more runs": "more runs of Simulator",
    # what the columns show
    "not compared": (
        "the original's columns in every file, stored alike; or columns, the names of those that "
        "were released"
    ),
    "keys": "coarsen or synthesise the unsynthesised keys ({keys}), those of most levels first",
    "households": "household of [data], or household_matching and household_risk",
    "matching of households": "household of [data] and exact keys of [identification]",
    "public": (
        "leave the column out, coarsen it, or synthesise it; if its values are public anyway, "
        f"{PUBLIC}"
    ),
    "outside": f"files without these columns; or, if they are public, {PUBLIC}",
    "totals": (
        "files whose sums are not adjusted to the original's; if the sums are public anyway, "
        f"{PUBLIC}"
    ),
    "linked": "not possible for these files; synthesise these columns without original values",
}


def settings_that_settle(
    risk: AttributeRisk | None,
    diagnostics: Mapping[str, Any],
    keys: Iterable[str] = (),
    targets: int = 0,
    times: int = 16,
) -> dict[str, str]:
    """What the settings should be, given what they were.

    ``target_mcse`` follows from the error that 95 % of (record, guess) pairs are below, and from
    how many ``times`` as many draws are wanted.
    """
    draws, chains = diagnostics.get("draws"), int(diagnostics.get("chains", 1))
    error = np.zeros(0) if risk is None else risk.mcse_log_evidence
    there = error[np.isfinite(error) & (error > 0)]
    usual = float(np.quantile(there, 0.95)) if len(there) else 0.08
    return {
        "chains": str(ENOUGH_CHAINS if chains < ENOUGH_CHAINS else 2 * chains),
        "draws": "four times as many" if draws is None else f"{4 * int(draws)}",
        "target_mcse": f"{usual / times**0.5:.2g}",
        "times": str(times),
        "quarter": f"{usual / 4:.2g}",
        "keys": ", ".join(keys),
        "targets": str(targets),
        "unreliable": "0" if risk is None else str(int((~risk.reliable).sum())),
    }


# --- what is in doubt ------------------------------------------------------------------------

CHAINS, FIT = "agreement of the chains", "fit"
DRAWS_A_CHAIN = 100  # Vehtari et al. (2021): what an estimated error needs
EXPECTED = IDENTIFICATION["expected_match_risk"].words
Doubt = tuple[Any, str, str]  # labels of records, or None: of all; why; a name in `CURES`


def rejected(risk: AttributeRisk) -> Iterator[tuple[Flags, str, str]]:
    """Unreliable records by the first thing that is wrong with them: which, why, and cure."""
    table = risk.records
    left = ~table["reliable"].to_numpy()
    chains = ", or chains of one mode that disagree" * (risk.modes is not None)
    for wrong, why in (
        (table["khat"] > GOOD_KHAT, f"k-hat above {GOOD_KHAT}: a few draws dominate"),
        (
            between_modes(risk),
            f"probabilities that differ by more than {MAX_RANGE} between open modes",
        ),
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
        which = left & np.asarray(wrong)
        if which.any():
            yield which, why, cure_of(risk, which)
        left = left & ~which


@singledispatch
def doubts_of(part: Any) -> Iterator[Doubt]:
    """What a result objects to by itself, and records that it marks unreliable."""
    if why := part.doubt():
        yield None, why, "rough"
    elif hasattr(part, "reliable") and not part.records["reliable"].all():
        bad = part.records.index[~part.records["reliable"]]
        yield bad, "k-hat, effective number of draws or error are not acceptable", "fit"


@doubts_of.register
def _(risk: AttributeRisk) -> Iterator[Doubt]:
    yield from ((risk.index[which], why, cure) for which, why, cure in rejected(risk))


@doubts_of.register
def _(risk: IdentificationRisk) -> Iterator[Doubt]:
    yield from ((None, one.sentence, one.cure) for one in of_matching(risk))


@doubts_of.register
def _(shown: Exposure) -> Iterator[Doubt]:
    if shown.household:
        why = f"Column {shown.household} names households, whose members count as independent here"
        yield None, why, "households"


@doubts_of.register
def _(found: Utility) -> Iterator[Doubt]:
    if why := found.doubt():
        yield None, why, "predictors"


def of_matching(risk: IdentificationRisk) -> Iterator[Reason]:
    """Errors that are not known, and populations that were not counted."""
    if risk.n_releases < 3 and np.isnan(risk.pooled_mcse):
        files = counted(risk.n_releases, "release")
        text = f"With {files}, expected matches of all releases together have no standard error."
        yield no_objection(EXPECTED, text, "two files")
    if risk.estimated or risk.population == GIVEN:
        text = f"Population counts are not exact ({risk.population})."
        yield no_objection(EXPECTED, text, "population")


def between_modes(risk: AttributeRisk) -> Flags:
    """Records of which modes that the release leaves open give other probabilities.

    The error of all chains together holds the difference too, and says nothing of it.
    """
    by_mode = np.zeros((1, len(risk.mcse))) if risk.by_mode is None else risk.by_mode
    return np.asarray(np.ptp(by_mode, axis=0) > MAX_RANGE)[risk.case]


def cure_of(risk: AttributeRisk, which: Flags, width: float = 2.0) -> str:
    """What would settle the records marked: where chains disagree more of them, before all."""
    table = risk.records[which]
    if (~table["reliable"] & between_modes(risk)[which]).mean() > 0.5:  # more draws only repeat it
        return "modes differ"
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
    chains, apart = int(diagnostics.get("chains", 1)), _disagree(diagnostics, limit)
    judged = limit is not None and not math.isinf(limit) and "max_rhat" in diagnostics
    wanted, worst = DRAWS_A_CHAIN * chains, f"largest R-hat {rhat:.3f}"
    if judged and chains == 1:
        yield doubt(CHAINS, "Convergence cannot be assessed with one chain.", "chains")
    elif apart:
        width, how = (
            standard_errors(diagnostics, limit),
            "errors are with Student's t between chains",
        )
        if width > 2:
            how = f"{width:.1f} standard errors were allowed for instead of 2"
        text = (
            f"The chains of the fit disagree ({worst}, above {limit:g}, and {ess:,.0f} effective "
            f"draws where {wanted:,} are wanted): {how}."
        )
        yield no_objection(CHAINS, text, "fit")
    elif judged and not math.isnan(rhat):
        text = f"have enough draws ({worst}, above {limit:g}, but {ess:,.0f} effective draws)"
        text = f"agree ({worst}; {limit:g} is allowed)" if rhat <= (limit or 0) else text
        yield no_objection(CHAINS, f"The chains of the fit {text}.")
    found = {}
    if not apart and ess < wanted:
        small = f"{ess:,.0f}, below {wanted:,}, {DRAWS_A_CHAIN} a chain"
        found["fit"] = f"The smallest effective sample size of the fit is {small}."
    if divergent := int(diagnostics.get("divergences", 0)):
        found["priors"] = f"The fit has {counted(divergent, 'divergent transition')}."
    if diagnostics.get("truncation_binds"):
        found["classes"] = "All latent classes of the fit are occupied."
    yield from (no_objection(FIT, text, cure) for cure, text in found.items())


def of_the_audit(risk: AttributeRisk | None, diagnostics: Mapping[str, Any]) -> dict[str, Any]:
    """The fit's diagnostics; without those of its chains where the audit has led chains instead."""
    from_release = risk is not None and risk.modes is not None
    of_chains = ("max_rhat", "median_rhat", "min_ess", "median_ess") if from_release else ()
    found = {name: value for name, value in diagnostics.items() if name not in of_chains}
    return found | {"student": risk is not None and risk.few_chains}


def standard_errors(diagnostics: Mapping[str, Any], limit: float | None) -> float:
    """How many standard errors hold the true value as surely as 2 do if it were normal.

    Errors are taken between chains. Of C chains that have not met, each is one draw: Student's t
    with C - 1 degrees of freedom, unless the errors of the audit are with it already.
    """
    if diagnostics.get("student") or not _disagree(diagnostics, limit):
        return 2.0
    return float(stdtrit(int(diagnostics["chains"]) - 1, ndtr(2.0)))


def _disagree(diagnostics: Mapping[str, Any], limit: float | None) -> bool:
    """Whether several chains have not met, and have few effective draws."""
    rhat, ess = (float(diagnostics.get(key, "nan")) for key in ("max_rhat", "min_ess"))
    chains = int(diagnostics.get("chains", 1))
    return limit is not None and chains > 1 and rhat > limit and not ess >= DRAWS_A_CHAIN * chains
