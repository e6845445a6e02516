"""Household risk: that at least one member is identified, or a member's values are found."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import standard_error
from bayes_risk._core.errors import InputError
from bayes_risk.data.base_result import Result
from bayes_risk.data.households import numbered
from bayes_risk.matching.households import summary_of
from bayes_risk.matching.replicates import error_between
from bayes_risk.matching.result import IdentificationRisk

from .result import AttributeRisk

EVENTS = {
    "identification": (IdentificationRisk, "a member is matched correctly"),
    "attribute": (AttributeRisk, "a member's true values are found"),
    "given": (pd.Series, "a member is identified"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class HouseholdRisk(Result):
    """Probability that at least one member of a household is identified; see `household_risk`.

    Attributes
    ----------
    index : pandas.Index, length H
        Labels of the households all of whose members were targets.
    kind : {"identification", "attribute", "given"}
        Which risk of the members it is of.
    left_out : int
        Households with members that were no targets.
    members, probability, mcse, baseline, reliable : ndarray, shape (H,)
        Number of members; probability, its Monte Carlo error (NaN: not known) and the same without
        the release; False where the risk of a member is not to be trusted.
    total_mcse : ndarray, shape (2,)
        Errors of the expected numbers of households, and of persons in them.
    """

    index: pd.Index
    kind: str
    left_out: int
    members: Ints
    probability: Array
    mcse: Array
    baseline: Array
    reliable: Flags
    total_mcse: Array

    def words(self) -> str:
        """What it is called, by the risk of the members."""
        return f"Household risk, {self.kind}"

    @property
    def records(self) -> pd.DataFrame:
        """One row per household."""
        names = ("members", "probability", "mcse", "baseline", "reliable")
        return pd.DataFrame({name: getattr(self, name) for name in names}, self.index)

    def summary(self) -> pd.DataFrame:
        """File level, one row per measure: ``value``, ``mcse`` and ``baseline``.

        ``households_at_risk`` and ``persons_at_risk``: expected households of which a member is
        identified, and persons in them.
        """
        size, p, prior, total = self.members, self.probability, self.baseline, self.total_mcse
        return summary_of(
            {
                "households": (len(size),),
                "persons": (size.sum(),),
                "households_at_risk": (p.sum(), total[0], prior.sum()),
                "persons_at_risk": (size @ p, total[1], size @ prior),
                "mean_probability": (p.mean(), total[0] / len(p), prior.mean()),
                "max_probability": (p.max(), self.mcse[np.argmax(p)], prior.max()),
                "unreliable": ((~self.reliable).sum(),),
            }
        )


def household_risk(
    risk: AttributeRisk | IdentificationRisk | pd.Series, household: pd.Series
) -> HouseholdRisk:
    r"""Compute the probability that at least one member of each household is identified.

    .. math:: r_h = 1 - \prod_{i \in h} (1 - r_i)

    Parameters
    ----------
    risk : AttributeRisk, IdentificationRisk, or Series
        Risk of each person: of a correct match, that the true values are found, or any probability
        by label, such as ``records["probability"]`` of another result.
    household : Series
        The household of each person, by the labels of the confidential table: ``df["hid"]``.

    Returns
    -------
    HouseholdRisk
        Of the households all of whose members are targets.

    Raises
    ------
    InputError
        Another result; targets without a household; no household all of whose members are targets.

    Notes
    -----
    The formula treats members as found independently of one another. Errors of members go together:
    of attribute risk by batches of draws, to first order; of matching between releases, in sums at
    least that of the pooled expected matches.

    References
    ----------
    Hundepool, A. et al. (2012). Statistical Disclosure Control. Wiley, section 3.3.
    Templ, M., Kowarik, A. and Meindl, B. (2015). Statistical disclosure control for micro-data
    using the R package sdcMicro. Journal of Statistical Software 67(4).

    Examples
    --------
    >>> of_persons = pd.Series([0.5, 0.2, 0.1])
    >>> household_risk(of_persons, pd.Series([1, 1, 2])).probability.round(3).tolist()
    [0.6, 0.1]
    """
    kind = next((name for name, (of, _) in EVENTS.items() if isinstance(risk, of)), None)
    if kind is None:
        right = "an AttributeRisk, an IdentificationRisk, or a Series of probabilities"
        raise InputError(f"risk is a {type(risk).__name__}; give {right}")
    if not isinstance(household, pd.Series) or not household.index.is_unique:
        raise InputError("household must be a Series with one value a record; give df['hid']")
    number, index = numbered(household)
    place = household.index.get_indexer(risk.index)
    if (place < 0).any() or not risk.index.is_unique:
        raise InputError("household must hold the label of every target once; give df['hid']")
    many, present = np.bincount(number), np.bincount(number[place], minlength=len(index))
    whole = many == present
    if not whole.any():
        right = 'give targets=None ("all")'
        raise InputError(f"risk has no household all of whose members are targets; {right}")
    those = np.flatnonzero(whole[number[place]])
    return HouseholdRisk(
        index=index[whole],
        kind=kind,
        left_out=int((present > 0).sum() - whole.sum()),
        members=many[whole],
        **_of_persons(risk, those, (np.cumsum(whole) - 1)[number[place][those]]),
    )


def _of_persons(risk: Any, those: Ints, of: Ints) -> dict[str, Any]:
    """Arrays of `HouseholdRisk`, from some persons, and of each the household."""
    sums, sure = np.stack([np.ones(int(of.max()) + 1), np.bincount(of)]), np.ones(len(of), bool)
    table, H = getattr(risk, "records", pd.DataFrame()), sums.shape[1]
    table = table.iloc[those] if len(table) else table
    if isinstance(risk, IdentificationRisk):
        each = (risk.hits[those] / np.maximum(risk.c[those], 1)).T  # shape (m, persons)
        r = np.stack([_any(p, of) for p in each])
        mcse, total = (error_between(x, risk.release_of) for x in (r, r @ sums.T))
        p, prior = table["probability"], table["baseline"]
        of_both = sums @ _any(p.to_numpy(), of)  # pooled, as the error of all expected matches
        total = np.fmax(total, risk.pooled_mcse * of_both / max(of_both[0], 1e-300))
    elif isinstance(risk, AttributeRisk):
        p, prior, sure = table["probability"], table["prior"], table["reliable"].to_numpy()
        # d r_h = sum_i prod_{j != i} (1 - p_j) d p_i
        F, B, U = risk.deviations.shape
        slope = csr_array((_others(p.to_numpy(), of), (risk.case[those], of)), shape=(U, H))
        moved = (risk.deviations.reshape(F * B, U) @ slope).reshape(F, B, H)
        mcse, total = (standard_error(x, few=risk.few_chains) for x in (moved, moved @ sums.T))
    else:
        p, prior = pd.to_numeric(risk.iloc[those], errors="coerce"), np.nan * those
        mcse, total = np.full(H, np.nan), np.full(2, np.nan)
        if not p.between(0, 1).all():
            raise InputError("risk must hold probabilities from 0 to 1; give such numbers")
    found = {"probability": _any(np.asarray(p), of), "baseline": _any(np.asarray(prior), of)}
    return found | {"mcse": mcse, "total_mcse": total, "reliable": np.bincount(of, ~sure) == 0}


def _any(p: Array, of: Ints) -> Array:
    """``1 - prod (1 - p)`` over the members of each household."""
    none = np.ones(int(of.max()) + 1)
    np.multiply.at(none, of, 1 - p)
    return 1 - none


def _others(p: Array, of: Ints) -> Array:
    """Of each person the product of ``1 - p`` over the other members."""
    log_q = np.log1p(-np.where(p < 1, p, 0.0))
    rest: Array = np.exp(np.bincount(of, log_q)[of] - log_q)
    return np.where(np.bincount(of, p == 1)[of] > (p == 1), 0.0, rest)
