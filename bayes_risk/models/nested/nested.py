"""Nested Dirichlet-process mixture of households: classes of members within classes of households.

Hu, Reiter & Wang (2018). Household i of n_i persons, g its class, m_j that of its j-th member:

X_i (household's columns and the head's) | g ~ prod_k Multinomial(lambda_gk),  g ~ Multinomial(pi_n)
x_ij (a further member) | g, m_j = m ~ prod_k Multinomial(phi_gmk),  m_j ~ Multinomial(omega_g)

all Dirichlet, pi of each size and omega of each class by sticks. Households that break a rule are
impossible: p(H | size) is proportional to what is above on what is left.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._compat import draws_object
from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.checkpoint import stage
from bayes_risk._core.errors import InputError
from bayes_risk._core.progress import Progress, ProgressOption, shows_progress
from bayes_risk._core.validate import one_of, positive, positives, whole_number
from bayes_risk.data.households import Households
from bayes_risk.data.impossible import Impossible
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.data.record_weights import no_weights
from bayes_risk.evidence.contract import Capabilities, Offer, Targets, drawn_in_words
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.evidence.runner import Fits, Sampling, plain_predictives
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.sampling import Length, kept_chains, mixing
from bayes_risk.models.fits.synthesis import Declaration, Request, Synthesis, Ticker, made_columns
from bayes_risk.release.release import EncodedRelease

from .completion import completed
from .masses import Masses, drawn_households
from .posterior import (
    SHORTEST,
    NestedHouseholds,
    NestedPosterior,
    impossible_guesses,
    whereabouts,
)
from .rules import Persons, coded_households, household_layout, households_in, in_table, rules_of
from .sampler import Model, NestedDraws, NestedPrior, first_draw, hole_of, nested_chains

DIAGNOSED = 100


@dataclass(frozen=True, slots=True)
class NestedDPMPM(Declaration):
    """Declaration of a nested Dirichlet-process mixture: persons within households.

    Parameters
    ----------
    household : Households
        The column with the household of each person; ``relate`` and ``head``, its levels; and
        ``variables``, columns of the household. All other columns are the persons'.
    n_classes, n_members : int
        Truncations: classes of households, and classes of members within each.
    spouse : str or int, optional
        The level of ``relate`` that at most one member of a household has.
    impossible : Impossible, optional
        Rules, a mapping each, of what excludes a household. A name of a column is the household's,
        or a further member's (of a rule about one person alone, the head's too); ``head.age`` is
        the head's, ``spouse.age`` the partner's. Differences are given from and to, of numbers or
        else places of levels: ``{"relate": ["child"], "age - head.age": [-11, float("inf")]}``.
    concentration_prior : tuple of two floats
        Shape and rate of the gamma priors of both concentrations.
    level_prior : float
        Every entry of the Dirichlet priors of level probabilities.

    Raises
    ------
    InputError
        No `Households`, or without ``relate``; numbers out of range. With a table: rules that name
        no column or level, or exclude a household of the table.

    Notes
    -----
    Weights of classes depend on the number of persons, which a release keeps: the paper has one
    vector of weights, and the size as one more column of the household.

    References
    ----------
    Hu, J., Reiter, J. P. and Wang, Q. (2018). Dirichlet process mixture models for modeling and
    generating synthetic versions of nested categorical data. Bayesian Analysis 13(1).

    Examples
    --------
    >>> NestedDPMPM(Households("hid", relate="relate", head="head"), spouse="spouse").n_members
    5
    """

    household: Households
    n_classes: int = 20
    n_members: int = 5
    spouse: str | int | None = None
    impossible: Impossible | None = None
    concentration_prior: tuple[float, float] = (0.25, 0.25)
    level_prior: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.household, Households) or self.household.relate is None:
            raise InputError(
                "household",
                f"is a {type(self.household).__name__}; give br.Households with relate and head: "
                'Households("hid", relate="relate", head="head", variables=["rooms"])',
            )
        whole_number("n_classes", self.n_classes)
        whole_number("n_members", self.n_members)
        positive("level_prior", self.level_prior)
        positives("concentration_prior", self.concentration_prior, (0.25, 0.25))
        if self.impossible is not None and not isinstance(self.impossible, Impossible):
            raise InputError(
                f"impossible is a {type(self.impossible).__name__}; give Impossible(rules)"
            )

    def synthesizes(self, columns: Sequence[str]) -> list[str]:
        """All columns but that of the household."""
        return [c for c in columns if c != self.household.id]

    @shows_progress
    def fit(
        self,
        df: pd.DataFrame,
        *,
        weights: None = None,
        missing: str = "error",
        levels: Mapping[str, Iterable[Hashable]] | None = None,
        releases: Sequence[pd.DataFrame] = (),
        draws: int = 40,
        tune: int = 300,
        chains: int = 8,
        thin: int = 5,
        sampler: str = "gibbs",
        sample: bool = True,
        random_seed: int | np.random.Generator | None = None,
        n_jobs: int = 1,
        progress: ProgressOption = None,
    ) -> "NestedFit":
        """Sample the posterior.

        Parameters
        ----------
        df : DataFrame
            The confidential table, one row a person; see `Microdata.from_frame` for ``missing``,
            ``levels`` and ``releases``.
        weights : None
            Not offered.
        draws, tune, chains, thin : int
            Kept draws and warm-up sweeps of each chain; sweeps from draw to draw.
        sampler : {"gibbs", "nuts"}
            Blocked Gibbs sweeps, or NUTS with all classes summed out (small tables; the fits that
            see releases are sampled by sweeps).
        sample : bool
            False: a fit with a start in the place of all draws; studies look at it.
        random_seed, n_jobs, progress
            As in `attribute_risk`.
        """
        no_weights(weights, "NestedDPMPM", "households have one each")
        one_of("sampler", sampler, ("gibbs", "nuts"))
        length = Length.checked(draws=draws, tune=tune, chains=chains, thin=thin)
        rng = np.random.default_rng(random_seed)
        how: Any = {"levels": levels, "releases": releases, "missing": missing}
        data = coded_households(df, self.household, **how)
        number = data.codes[:, data.columns.index(self.household.id)].astype(np.int64)
        layout = household_layout(data, self.household, np.bincount(number))
        rules = rules_of(data, layout, self.impossible, self.spouse)
        persons = households_in(data.codes, layout, number)
        region = HouseholdRegion(
            Model(
                NestedPrior(
                    self.n_classes, self.n_members, self.concentration_prior, self.level_prior
                ),
                layout,
                rules,
            ),
            persons,
            number,
        )
        region.refuse(data.codes, "the original")
        model = region.model
        starting, running = rng.spawn(2)
        starts = [first_draw(model, persons, child) for child in starting.spawn(chains)]
        tick = Ticker(progress, "fit", length.steps)
        if sample and sampler == "nuts":
            found = _by_nuts(model, persons, length, n_jobs, running, tick)
        elif sample:
            steps = draws, tune, thin
            how = {"rng": running, "n_jobs": n_jobs, "tick": tick}
            found = stage("draws", partial(nested_chains, model, persons, starts, steps, **how))
        else:
            theta, alpha = starts[0]
            same = [np.broadcast_to(x, (draws * chains, *x.shape)) for x in (*theta, alpha)]
            found = NestedDraws.of(same, chains)
        posterior = NestedPosterior(
            model=model, persons=persons, own=persons, draws=found, thin=thin
        )
        return NestedFit(
            model=self,
            microdata=replace(data, impossible=region),  # type: ignore[arg-type]
            posterior=posterior,
            diagnostics=_diagnostics(posterior) if sample else {},
        )


def _by_nuts(
    model: Model, persons: Persons, length: Length, n_jobs: int, rng: Rng, tick: Ticker
) -> NestedDraws:
    """Draws of the model as PyMC has it."""
    import pymc as pm

    from .pymc_nested import draws_of_nested, pymc_of_nested

    def chains() -> Any:
        with pymc_of_nested(model, persons, transformed=True):
            how = {"return_inferencedata": True, "callback": lambda trace, draw: tick(1)}
            return pm.sample(**length.options(n_jobs, rng), **how)

    return draws_of_nested(kept_chains(chains, length))


@dataclass(frozen=True, slots=True, eq=False)
class HouseholdRegion:
    """Impossible households of a table, as `ZeroRegion` has impossible records."""

    model: Model
    persons: Persons
    number: Ints  # (n,): household of each person

    def refuse(self, codes: Codes, source: str) -> None:
        """Stop if a table holds impossible households, or other heads than the original."""
        layout, own = self.model.layout, codes[:, self.model.layout.own]
        heads = np.flatnonzero(codes[:, layout.relate] == layout.head)
        if not np.array_equal(heads, np.sort(self.persons.head_row)):
            raise InputError(
                f"{source} has other heads than the original; the head's relation is part of the "
                "household: leave it as it is"
            )
        if (own != own[self.persons.head_row[self.number]]).any():
            raise InputError(f"{source} has a household with two values of a household variable")
        self.model.rules.refuse(households_in(codes, layout, self.number), source)

    def holds_guesses(self, profiles: Codes, columns: Ints, codes: Codes, record: Ints) -> Flags:
        """Which guesses the rest of the target's household excludes, (G, U)."""
        return impossible_guesses(self.model, self.persons, profiles, columns, codes, record)


@dataclass(frozen=True, slots=True, eq=False)
class FewChains:
    """The strategy of chains that differ by more than draws of one: errors are with Student's t."""

    fit: "NestedFit"

    @property
    def n_chains(self) -> int:
        """All of the fit."""
        return self.fit.posterior.draws.n_chains

    def begin(self, fits: Fits, cases: Targets) -> Sampling:
        """Chains that go on from those of the fit."""
        return plain_predictives(fits, self.fit, few=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NestedFit(Synthesis):
    """A fitted `NestedDPMPM`: the table, the draws, and their diagnostics."""

    model: NestedDPMPM
    microdata: Microdata
    posterior: NestedPosterior
    diagnostics: Mapping[str, float]
    weights: ClassVar[None] = None
    parameters: ClassVar[tuple[str, ...]] = ("independent", "shared")
    records_differ: ClassVar[bool] = True  # by the rest of their household

    @property
    def idata(self) -> Any:
        """Both concentrations and the weights of classes, as ArviZ has draws."""
        draws, C = self.posterior.draws, self.posterior.draws.n_chains
        variables = {"concentration": draws.alpha[:, 0], "member_concentration": draws.alpha[:, 1]}
        of = {k: (("chain", "draw"), x.reshape(C, -1)) for k, x in variables.items()}
        return draws_object({"posterior": xr.Dataset(of)})

    def mechanism(self, release: EncodedRelease) -> str:
        phrase = "classes of members within classes of households, drawn anew; sizes are kept"
        return f"{phrase}; {drawn_in_words(self, release)}"

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        """Predictives of releases of all columns, for who knows every other person."""
        made_columns(release, self.microdata, self._modelled, "the fit has no column")
        kept = [c for c in self._modelled if c not in release.synthesized]
        if kept or not release.replaced.all():
            why = (
                f"the release keeps {kept or 'some records'}, and NestedDPMPM has evidence for "
                "releases with every column but the household's synthesised; synthesise all, or "
                "judge the release with models.Simulator or identification_risk"
            )
            return Capabilities([Offer("predictive", refusal=why)])
        whole = NestedHouseholds(self.posterior.model, self._number, self.model.household)
        ways = [Offer(name, self, strategy=FewChains(self)) for name in ("predictive", "refit")]
        return Capabilities([*ways, Offer("household", whole)])

    def informed(self, release: EncodedRelease) -> NestedPosterior:
        return self.posterior

    def augmented(
        self, release: EncodedRelease, l: int, *, progress: Progress | None = None, **how: Any
    ) -> NestedPosterior:
        base = self.posterior
        tune = self._tune
        tick = Ticker(progress, "augmented fits", base.draws.n_chains * (len(base.draws) + tune))
        persons = self._with(release, l)
        return base.refitted(persons, tune, tick=tick, **how)

    def without(
        self, record: int, release: EncodedRelease | None, l: int, *, start: Any, rng: Rng
    ) -> NestedPosterior:
        model, own = self.posterior.model, self.posterior.own
        ((i, j),) = whereabouts(own, np.array([record]))
        hole = hole_of(model, own, i, j)
        return start.left_out(start.persons, rng=rng, hole=hole)  # type: ignore[no-any-return]

    @property
    def _tune(self) -> int:
        """Warm-up sweeps of fits that start where the chains stopped."""
        base = self.posterior
        return max(len(base.draws) // base.draws.n_chains * base.thin // 4, SHORTEST)

    def _with(self, release: EncodedRelease, l: int) -> Persons:
        """The original's households, and those of the data sets of draw l."""
        persons = self.posterior.own
        for k in release.by_draw[l]:
            codes = release.codes[k]
            persons = persons.beside(
                households_in(codes, self.posterior.model.layout, self._number)
            )
        return persons

    @property
    def _number(self) -> Ints:
        region: Any = self.microdata.impossible
        return region.number  # type: ignore[no-any-return]

    @property
    def _modelled(self) -> Sequence[str]:
        return self.model.synthesizes(self.microdata.columns)

    def _tables(self, request: Request) -> Iterable[Codes]:
        if not request.mask.all():
            raise InputError("records is not offered: households are drawn whole; leave it out")
        columns = np.array([c in request.columns for c in self.microdata.columns])
        for h, rng in request.draws():
            yield self._table(h, columns, request.table(), rng)

    def _table(self, h: int, columns: Flags, codes: Codes, rng: Rng) -> Codes:
        """One synthetic table: all columns afresh, or some given the others."""
        (_, layout, rules), own = self.posterior.model, self.posterior.own
        theta = self.posterior.draws.theta(h)
        if not columns.sum() == len(self._modelled):
            given = households_in(codes, layout, self._number)
            return in_table(codes, completed(theta, rules, layout, given, columns, rng=rng), layout)
        many = np.bincount(own.size, minlength=len(layout.sizes))
        made = drawn_households(Masses.of(theta, rules, layout), many, rng=rng)
        order = np.argsort(own.size, kind="stable")  # drawn size after size
        head_row = own.head_row[order]
        spans = [np.arange(own.first[i], own.first[i + 1]) for i in order]
        member_row = own.member_row[np.concatenate(spans)]
        made = made._replace(head_row=head_row, member_row=member_row)
        return in_table(codes, made, layout)

    def __repr__(self) -> str:
        own = self.posterior.own
        worst = f"{self.diagnostics.get('max_rhat', np.nan):.2f}"
        return (
            f"NestedFit: {len(self.microdata.codes):,} persons in {len(own.size):,} households, "
            f"{self.n_draws:,} draws, largest R-hat {worst}"
        )


def _diagnostics(posterior: NestedPosterior) -> dict[str, float]:
    """R-hat and effective draws of log p(household | theta), and classes in use."""
    own, draws = posterior.own, posterior.draws
    some = np.unique(np.linspace(0, len(own.size) - 1, DIAGNOSED).astype(int))
    logs = np.empty((len(draws), len(some)))
    for h in range(len(draws)):
        logs[h] = _log_households(draws, h, own, some)
    ess, rhat = ess_and_rhat(logs, draws.n_chains)
    return mixing(ess, rhat, draws.n_chains)


def _log_households(draws: NestedDraws, h: int, own: Persons, some: Ints) -> Array:
    """log p(household | theta_h) of some households, before the rules."""
    theta, out = draws.theta(h), np.empty(len(some))
    for u, i in enumerate(some):
        w = theta.pi[own.size[i]] * theta.lam[own.household[i]].prod(axis=0)
        for row in own.member[own.first[i] : own.first[i + 1]]:
            w = w * (theta.omega * theta.phi[row].prod(axis=0)).sum(axis=1)
        out[u] = np.log(max(w.sum(), 1e-300))
    return out
