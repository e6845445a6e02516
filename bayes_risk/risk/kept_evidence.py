"""Evidence of an audit, gathered once and kept: every prior after that costs Bayes' rule alone.

The evidence `p(Z^(l) | y*, A, S)` does not depend on the prior, so that it is an exact re-weighting
away from the posterior under any prior (design: guesses, evidence, posterior, each its own room).
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError, UnreliableWeightsWarning
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence import balance as balancing
from bayes_risk.evidence.by_column import FIRST, SEARCHED, by_column
from bayes_risk.evidence.contract import Targets
from bayes_risk.evidence.evidence import Evidence
from bayes_risk.evidence.leave_one_out import Ratio
from bayes_risk.evidence.mechanism_result import MechanismCheck
from bayes_risk.evidence.methods import METHODS
from bayes_risk.evidence.prior_weights import PriorContext, prior_weights
from bayes_risk.intruder import priors
from bayes_risk.matching.exposure_result import Exposure
from bayes_risk.release.release import EncodedRelease, Release

from .posterior import (
    MAX_LEFT_OUT,
    Limits,
    PosteriorSums,
    before,
    by_mode,
    error_over_modes,
    interval,
    reliable,
    weigh,
)
from .prior_comparison import comparison
from .result import AttributeRisk

SECOND = "predictive"  # beside the flat prior, where the evidence has it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttributeEvidence:
    """What the release says of every guess, before any prior.

    Attributes
    ----------
    microdata : Microdata
        The confidential table.
    release : Release
        What was released.
    encoded : EncodedRelease
        The same, read against the table.
    index : pandas.Index, length n
        Labels of the n targets.
    case : ndarray of int, shape (n,)
        The case (distinct target) that each belongs to.
    cases : Targets
        Distinct targets and their guesses.
    found : Evidence
        Log evidence (m, G, n_cases) relative to the truth's, deviations, k-hat, ESS.
    disclosed : ndarray of bool, shape (n_cases,)
        Released unchanged.
    log_rest : ndarray, shape (n_cases,)
        What a coarse-to-fine search left out, relative to the truth; minus infinity: nothing.
    searched : Prior, or None
        The prior that guided such a search; only it can be used then.
    limits : Limits
        When a number counts as reliable.
    way : str
        How the evidence was computed, as `attribute_risk` names it.
    words : mapping of str to str
        The assumptions, but for the prior.
    seed_entropy : str
        The seed that made it.
    exposure : Exposure
        What the files show without a model.
    any_release : bool
        Whether any guess could have made any release: not under trees, which show what they hold.
    factors : tuple of str, or str
        Columns of the factors of the evidence; or why these cannot be told.
    check : MechanismCheck, or None
        Of files made elsewhere: whether they look like files of the model, all m of them.
    before : Ratio, or None
        Log p(y* | y_A) relative to the truth before anything was published.
    """

    microdata: Microdata
    release: Release
    encoded: EncodedRelease
    index: pd.Index
    case: Ints
    cases: Targets
    found: Evidence
    disclosed: Flags
    log_rest: Array
    searched: priors.Prior | None
    limits: Limits
    way: str
    words: Mapping[str, str]
    seed_entropy: str
    exposure: Exposure
    any_release: bool
    factors: tuple[str, ...] | str
    check: MechanismCheck | None = None
    before: Ratio | None = None

    def risk(self, prior: priors.Prior | None = None, *, warn: bool = True) -> AttributeRisk:
        """The intruder's posterior under a prior: Bayes' rule on the evidence kept.

        Parameters
        ----------
        prior : as in `attribute_risk`
            None: the flat prior, and the predictive one beside it where there is one.
        warn : bool
            Whether to warn of unreliable records.

        Warns
        -----
        UnreliableWeightsWarning
            Some records are marked unreliable.

        Notes
        -----
        Cost: a pass over (G, n_cases), no draw.
        """
        summed = PosteriorSums.from_evidence(self.found)
        risk = self._both(summed) if prior is None else self._risk(prior, summed)
        if warn:
            _warn(risk, self.way)
        return replace(risk, balance=self.balance(), **self._by_column(risk))

    def _by_column(self, risk: AttributeRisk) -> dict[str, Any]:
        """Which column gives most away under the main prior, or why it is not told."""
        log_p = self.found.by_column
        if isinstance(self.factors, str):
            return {"not_by_column": self.factors}
        if self.searched is not None:
            return {"not_by_column": SEARCHED}
        if len(self.factors) == 1:
            log_p = self.found.log_evidence.sum(axis=0)[None]
        if log_p is None:
            return {"not_by_column": FIRST}
        columns = [str(c) for c in self.release.synthesized]
        return {"by_column": by_column(self.factors, log_p, columns, risk)}

    def balance(self) -> balancing.Balance | None:
        """The evidence checked by itself; None where its expectation is not known.

        It is known of evidence release by release for an intruder who knows every other record,
        under models that can make any release from any guess: not of trees, which show what they
        hold. Records that were not replaced, and targets whose truth is not among the guesses, are
        left out.

        Notes
        -----
        Cost: see `bayes_risk.evidence.balance.balance`.
        """
        known = self.cases.known is None and self.any_release and self.release.groups is None
        if not METHODS[self.way].balanced or not known:
            return None
        guesses, U = self.cases.guesses, len(self.cases)
        own = guesses.codes[guesses.truth, np.arange(U)]
        there = (own == self.cases.profiles[:, self.cases.columns]).all(axis=1) & ~self.disclosed
        pairs = guesses.counted & there
        pairs[guesses.truth, np.arange(U)] = False
        records = np.bincount(self.case, minlength=U)
        found = self.found
        return balancing.balance(found.log_evidence, found.deviations, pairs, records)

    def risks(self, given: Mapping[str, priors.Prior]) -> dict[str, AttributeRisk]:
        """The posterior under each of several priors, by name; see `risk`.

        What the priors have in common is computed once. Nothing is warned of: see the
        ``unreliable`` row of each summary.
        """
        if not isinstance(given, Mapping) or not given:
            raise InputError('give priors by name: {"uniform": "uniform", "margins": "marginal"}')
        summed = PosteriorSums.from_evidence(self.found)
        return {name: self._risk(prior, summed) for name, prior in given.items()}

    def compare(self, given: Mapping[str, priors.Prior]) -> pd.DataFrame:
        """Compare priors: one row a prior; columns as in `prior_comparison.comparison`.

        Parameters
        ----------
        given : mapping of name to prior
        """
        return comparison(self.risks(given))

    def first(self, m: int) -> "AttributeEvidence":
        """The same of the first m releases alone, from the same fits."""
        among = len(self.found.log_evidence)
        if not self.by_release:
            raise InputError(
                f"evidence {self.way!r} of these guesses does not come release by release; gather "
                "it anew for the first releases"
            )
        if not 1 <= m <= among:
            raise InputError(f"m={m} is out of range; give 1 to {among} releases")
        encoded = self.encoded.first(m)
        said = self.words["releases"].replace(f"m = {among}", f"m = {m}", 1)
        words = {**self.words, "releases": f"{said}; the first of {among}"}
        shown = self.exposure.first(m)
        found = self.found.first(m)
        return replace(
            self, found=found, release=encoded.source, encoded=encoded, words=words, exposure=shown
        )

    @property
    def by_release(self) -> bool:
        """Whether the evidence of the first releases can be read off that of all."""
        together = len(self.release.by_draw) < self.release.m
        return METHODS[self.way].by_release and self.searched is None and not together

    def _both(self, summed: PosteriorSums) -> AttributeRisk:
        """Flat and predictive; where the evidence has no predictive prior, flat and why."""
        flat = self._risk("uniform", summed)
        try:
            beside = {SECOND: self._risk(SECOND, summed)}
            said = f"flat: {flat.assumptions['prior']}; and beside it {SECOND}: " + str(
                beside[SECOND].assumptions["prior"]
            )
        except InputError as error:
            why = str(error).partition(";")[0].replace(f'prior="{SECOND}"', "that")
            beside = {}
            said = f"{flat.assumptions['prior']} (the {SECOND} prior is not there: {why})"
        return replace(flat, priors=beside, assumptions={**flat.assumptions, "prior": said})

    def _risk(self, prior: priors.Prior, summed: PosteriorSums) -> AttributeRisk:
        if self.searched is not None and prior is not self.searched:
            raise InputError(
                "these guesses were searched coarse to fine, guided by "
                f"{priors.in_words(self.searched)}; other priors may lead elsewhere: gather the "
                "evidence anew with search_prior=, or give JointGrid a larger budget"
            )
        found, guesses = self.found, self.cases.guesses
        context = PriorContext(self.microdata, self.cases, self.encoded, found.base)
        weights = prior_weights(prior, context)
        posterior = weigh(found, summed, weights, guesses.truth, self.log_rest, self.disclosed)
        apart = [
            weigh(
                one,
                PosteriorSums.from_evidence(one),
                weights,
                guesses.truth,
                self.log_rest,
                self.disclosed,
            )
            for one in found.apart
        ]
        between = by_mode(apart, guesses.truth)
        trusted = reliable(found, posterior, self.limits, apart, between)
        return AttributeRisk(
            index=self.index,
            case=self.case,
            variables=tuple(self.microdata.variables[j] for j in self.cases.columns),
            guesses=guesses.codes,
            truth=guesses.truth,
            log_evidence=found.log_evidence,
            log_prior=weights.log_p,
            log_probability=posterior.log_p,
            mcse_log_evidence=summed.mcse,
            deviations=posterior.deviations,
            mcse=posterior.mcse,
            mcse_log_bayes_factor=error_over_modes([posterior, *apart], guesses.truth),
            khat=found.khat,
            ess=found.ess,
            reliable=trusted | self.disclosed,
            disclosed=self.disclosed,
            left_out=posterior.left_out,
            assumptions=self._assumptions(prior, weights.log_p),
            seed_entropy=self.seed_entropy,
            assumed=self.release.assumed,
            exposure=self.exposure,
            check=self.check,
            interval=interval([posterior, *apart], guesses.truth),
            modes=found.modes,
            few_chains=found.few_chains,
            by_mode=between,
            before=None if self.before is None else before(self.before, guesses, found.few_chains),
        )

    def __repr__(self) -> str:
        _, G, U = self.found.log_evidence.shape
        return (
            f"AttributeEvidence: {len(self.index):,} records ({U:,} distinct), {G:,} guesses each, "
            f"{self.release.m} releases; {self.way}. Give it a prior: .risk(prior)"
        )

    def _assumptions(self, prior: priors.Prior, log_prior: Array) -> dict[str, str]:
        """All assumptions, in the order of reports."""
        order = ("records", "columns", "synthesis", "prior", "guesses", "evidence", "releases")
        at_truth = np.take_along_axis(log_prior, self.cases.guesses.truth[None], axis=0)[0]
        excluded = int(np.isneginf(at_truth)[self.case].sum())
        zero = f" (no mass on the truth of {excluded:,} records)" if excluded else ""
        said: dict[str, Any] = {**self.words, "prior": f"{priors.in_words(prior)}{zero}"}
        if self.found.modes is not None:
            said["evidence"] = f"{said['evidence']}; {self.found.modes.sentence()}"
            said["synthesis"] += "; the mode of its chain, which the release shows, is known"
        return {name: said[name] for name in order}


def _warn(risk: AttributeRisk, way: str) -> None:
    doubtful = int((~risk.reliable[risk.case]).sum())
    if not doubtful:
        return
    cure = METHODS[way].cure
    if (risk.left_out > MAX_LEFT_OUT).any():
        cure += "; where the search of a joint grid left much out, raise JointGrid's budget"
    warnings.warn(
        f"{doubtful} of {len(risk.case)} records are unreliable (largest k-hat "
        f"{risk.khat.max():.2f}, smallest effective number of draws {risk.ess.min():.0f}); {cure}",
        UnreliableWeightsWarning,
        stacklevel=4,
    )
