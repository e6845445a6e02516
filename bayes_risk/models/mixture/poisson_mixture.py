"""Dirichlet-process mixture of products of Poissons, for files of large counts.

Wei & Reiter (2016), as described in Hu (2019), section 3.3.3:

x_ij | z_i = k ~ Poisson(e_i lambda_kj),  lambda_kj ~ Gamma(shape_j, rate_j),  z_i ~ Multinomial(pi)
pi_k = V_k prod_{l<k} (1 - V_l),  V_k ~ Beta(1, alpha),  V_K = 1,  alpha ~ Gamma(a, b)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Ints, Rng
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns, one_of, positives
from bayes_risk.data.microdata import Codes, Microdata, Number, checked_table
from bayes_risk.data.record_weights import no_weights
from bayes_risk.evidence.contract import (
    Capabilities,
    Offer,
    Simulated,
    Targets,
    offers,
    without_weights,
)
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.mixture.business.competitors import checked_quantile, deal, shared_groups
from bayes_risk.release.release import EncodedRelease, Release

from .business import intruder as competitors
from .columns import Columns, RatePrior, checked_count, powers_of, prior_of, refuse, whole_from_zero
from .fit import MixtureFit
from .mixture import MixtureModel
from .state import Prior


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PoissonMixtureFit(MixtureFit):
    """A fitted Poisson mixture; attributes as of `MixtureFit`."""

    CLASSES: ClassVar[Mapping[str, str]] = {
        "new": "a fresh component for every record",
        "own": "the component of the record's own confidential values",
    }

    @property
    def counts(self) -> list[str]:
        """Names of the columns of counts."""
        return [self.microdata.columns[j] for j in self.columns.counts]

    @property
    def synthesizable(self) -> list[str]:
        """Columns that may be synthesised: the counts."""
        return self.counts

    @property
    def parameters(self) -> tuple[str, ...]:
        if self.model.kind == "MP":
            return "one-mode", "independent", "shared"
        return "independent", "one-mode"

    def mechanism(self, release: EncodedRelease) -> str:
        if release.groups is not None:
            what = "component and column"
            if (np.asarray(release.groups) == -1).any():
                what += ", tails apart"
            return f"the confidential total of each {what} dealt to its own records"
        return MixtureFit.mechanism(self, release)

    def synthesize(
        self,
        m: int = 5,
        columns: Sequence[str] | None = None,
        records: Any = None,
        *,
        n: int | None = None,
        classes: str | None = None,
        quantile: float | None = None,
        parameters: str | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Release:
        kind = self.model.kind
        if quantile is None:
            quantile = self.model.quantile
        if quantile is not None:
            quantile = checked_quantile(kind, quantile)
        if kind == "MP":
            classes = one_of("classes", classes or "new")
            how: Any = {"n": n, "parameters": parameters, "random_seed": random_seed}
            return MixtureFit.synthesize(self, m, columns, records, classes=classes, **how)
        if classes not in (None, "own"):
            raise InputError(
                "classes",
                classes,
                f"does not go with {kind}, whose totals are dealt within the records' own "
                'components; leave it out, or use "own"',
            )
        if records is not None or n is not None:
            given = "n" if records is None else "records"
            raise InputError(
                given, f"does not go with {kind}: totals are dealt to all records; leave it out"
            )
        if quantile is None and kind == "TCMM":
            raise InputError("quantile", "is missing, and TCMM needs one; give 0.9 for example")
        request = self._request(m, columns, records, parameters, random_seed)
        places = np.array([self.counts.index(c) for c in request.columns], np.int64)
        pairs = [self._dealt(h, places, quantile, rng) for h, rng in request.draws()]
        release = request.release((codes for codes, _ in pairs), classes="own")
        return replace(release, groups=np.stack([groups for _, groups in pairs]))

    def _dealt(self, h: int, places: Ints, quantile: float | None, rng: Rng) -> tuple[Codes, Ints]:
        """One table by MM or TCMM, and which records share a total."""
        codes: Codes = self.microdata.codes.copy()
        rows = self.columns.rows(codes, self.prior)
        counts = rows.counts[:, places]
        groups = shared_groups(self._labels(rows, h, rng), counts, quantile)
        codes[:, self.columns.counts[places]] = deal(rng, counts, rows.exposure[:, places], groups)
        return codes, groups

    def singletons(self, release: Release) -> pd.DataFrame:
        """Groups of a release by MM or TCMM that are so small that their total tells on them.

        Parameters
        ----------
        release : Release
            With ``groups``.

        Returns
        -------
        DataFrame
            One row a record: ``release`` (from 1), ``column``, ``record``, ``members``. 1: the
            released value is the confidential one. 2: whoever knows one value knows the other.

        Raises
        ------
        InputError
            A release without groups.
        """
        if release.groups is None:
            raise InputError(
                'the release has no groups; singletons are found in releases by "MM" or "TCMM"'
            )
        index, rows = self.microdata.index, []
        for l, groups in enumerate(release.groups, start=1):
            for column, group in zip(release.synthesized, groups.T, strict=True):
                _, where, size = np.unique(group, return_inverse=True, return_counts=True)
                members = size[where.reshape(-1)].tolist()
                rows += [(l, column, index[i], n) for i, n in enumerate(members) if n <= 2]
        return pd.DataFrame(rows, columns=["release", "column", "record", "members"])

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        keeps_totals = self.model.kind != "MP" or release.groups is not None
        if not intruder.is_competitor and not keeps_totals:
            return MixtureFit.capabilities(self, release, intruder)
        if intruder.is_competitor:
            why = "" if self.weights is None else without_weights(intruder)
            compute = partial(competitors.evidence, self, intruder)
            in_words = partial(competitors.knowledge_in_words, self, intruder)
            return Capabilities([Offer("weaker", compute=compute, in_words=in_words, refusal=why)])
        if not intruder.knows_less:
            return Capabilities(offers(self, computed=("exact",)))
        why = (
            f"{self.model.kind} keeps totals, and what they reveal to an intruder who does "
            "not know all other records is offered for competitors: give `knows_records`: "
            '"second-largest" (with largest), "all-but-two" (with other) or "all-but-target"'
        )
        return Capabilities([Offer("exact", refusal=why)])

    def closed_form(
        self, evidence: str, release: EncodedRelease, targets: Targets, **how: Any
    ) -> Simulated:
        """Log evidence where totals are kept: 0 for the truth, which they tell, else -infinity."""
        codes, columns = self.microdata.codes, release.columns
        total = codes[:, columns].sum(axis=0)
        names = [c for c in self.microdata.columns if c in release.synthesized]
        for l, found in enumerate(release.codes[:, :, columns].sum(axis=1), start=1):
            if (found != total).any():
                j = int(np.argmax(found != total))
                raise InputError(
                    f"column {names[j]!r} of release {l} does not add up to what the original adds "
                    f"up to, and {self.model.kind} keeps totals: audit with MP a release that does "
                    "not"
                )
        own = targets.profiles[:, targets.columns]  # shape (U, q)
        same = (targets.guesses.codes == own[None]).all(axis=2)  # shape (G, U)
        log_p = np.where(same, 0.0, -np.inf)
        return Simulated.exact(np.repeat(log_p[None], len(release.by_draw), axis=0))


PAIR = (0.5, 0.5)


@dataclass(frozen=True, slots=True)
class PoissonMixture(MixtureModel[PoissonMixtureFit]):
    """Declaration of a truncated Dirichlet-process mixture of products of Poissons.

    Parameters
    ----------
    n_classes : int
        Truncation K, at least 1. One class: independent Poisson counts.
    kind : {"MP", "MM", "TCMM"}
        What is released. MP: counts drawn from the mixture. MM: the confidential total of each
        component, column by column, dealt to its records, so that every margin is the confidential
        one. TCMM: the same, after the tail of each column was made a component of its own.
    quantile : float, optional
        TCMM: records above this quantile of a column are its tail; between 0 and 1.
    concentration_prior : tuple of two floats
        Shape and rate of the gamma prior of the concentration.
    rate_prior : tuple of two floats, or mapping of column to such, optional
        Shape and rate of the gamma prior of the rates. By default shape 0.5 and as mean the next
        power of ten above the column's mean.
    zeros : tuple of two floats, optional
        Beta prior of each component's chance of a structural zero; by default there are none.
    covariates : sequence of str
        Categorical columns, never synthesised, that inform a record's component.
    exposure : str, optional
        Column of positive numbers that multiply a record's rates; known, never synthesised.
    level_prior : float
        Every entry of the Dirichlet prior of the covariates' levels.

    Examples
    --------
    >>> PoissonMixture(n_classes=10, kind="TCMM", quantile=0.95).kind
    'TCMM'
    """

    n_classes: int = 20
    kind: str = "MP"
    quantile: float | None = None
    concentration_prior: tuple[float, float] = (0.25, 0.25)
    rate_prior: RatePrior = None
    zeros: tuple[float, float] | None = None
    covariates: Sequence[str] = ()
    exposure: str | None = None
    level_prior: float = 1.0
    _FIT: ClassVar[Any] = PoissonMixtureFit

    def __post_init__(self) -> None:
        MixtureModel.__post_init__(self)
        one_of("kind", self.kind, ("MP", "MM", "TCMM"))
        if self.quantile is not None:
            checked_quantile(self.kind, self.quantile)
        if self.zeros is not None and self.kind != "MP":
            raise InputError(
                "zeros",
                self.zeros,
                f"goes with MP: dealing the totals of {self.kind} knows no structural zeros; "
                "leave zeros out",
            )
        if isinstance(self.rate_prior, Mapping):
            for column, pair in self.rate_prior.items():
                positives(("rate_prior", column), pair, PAIR)
        elif self.rate_prior is not None:
            positives("rate_prior", self.rate_prior, PAIR)
        if isinstance(self.covariates, str):
            raise InputError("covariates", self.covariates, "is a single string; give a list")

    def synthesizes(self, columns: Sequence[str]) -> list[str]:
        return [c for c in columns if c not in (*self.covariates, self.exposure)]

    def _coded(self, df: pd.DataFrame, **how: Any) -> Microdata:
        known_columns("covariates", list(self.covariates), checked_table(df))
        numbers = [c for c in df.columns if c not in self.covariates]
        return Microdata.from_frame(df, numbers=numbers, **how)

    def _read(
        self, data: Microdata, weights: Any
    ) -> tuple[Microdata, Columns, Prior, Array | None]:
        names, exposure, covariates = data.columns, self.exposure, list(self.covariates)
        known_columns("covariates", covariates, names)
        known_columns("exposure", [] if exposure is None else [exposure], names)
        if exposure in covariates:
            raise InputError(f"column {exposure!r} is both exposure and covariate; it can be one")
        counts = [c for c in names if c not in {*covariates, exposure}]
        for j, v in enumerate(data.variables):
            if isinstance(v, Number) and v.name in covariates:
                raise InputError(
                    f"covariate {v.name!r} is read as a number; read it as a category: leave it "
                    "out of numbers"
                )
            if not isinstance(v, Number) and v.name not in covariates:
                raise InputError(
                    f"column {v.name!r} is a category, and PoissonMixture models counts; name it "
                    "in covariates, use Mixture, or drop it"
                )
            if v.name == exposure:
                refuse(v.name, "not positive", data.codes[:, j] <= 0, "exposures are positive")
            elif isinstance(v, Number):
                checked_count(v.name, data.codes[:, j])
        if not counts:
            raise InputError("the table has no column of counts; name fewer covariates")
        if self.kind != "MP":
            why = "the totals that it deals are the confidential ones, whatever the weights"
            no_weights(weights, f"PoissonMixture of {self.kind}", why)
        data = replace(data, variables=whole_from_zero(data, counts))
        columns = Columns.of(
            counts=[names.index(c) for c in counts],
            levels=[names.index(c) for c in covariates],
            exposure=None if exposure is None else names.index(exposure),
        )
        alpha = powers_of(weights, data, "zeros" if self.zeros else "")
        return data, columns, prior_of(self, data, columns), alpha
