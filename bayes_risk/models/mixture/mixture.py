"""Dirichlet-process mixture of categories, counts and amounts in one table, fitted through PyMC.

A record's class z_i = k has a probability for every level of every category, a rate for every count
and a mean and variance for every amount; within a class columns are independent:

x_ij | k ~ Multinomial(phi_kj), Poisson(e_i lambda_kj) or Normal(mu_kj, 1 / tau_kj)
phi_kj ~ Dirichlet(level_prior), lambda_kj ~ Gamma(shape_j, rate_j)
tau_kj ~ Gamma(a, b), mu_kj | tau_kj ~ Normal(m, 1 / (kappa tau_kj))
pi_k = V_k prod_{l<k} (1 - V_l),  V_k ~ Beta(1, alpha),  V_K = 1,  alpha ~ Gamma(a_0, b_0)

Murray & Reiter (2016) without the hierarchy of classes.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pandas as pd

from bayes_risk._compat import add_group
from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.errors import InputError, TruncationWarning, warn_user
from bayes_risk._core.progress import ProgressOption, shows_progress
from bayes_risk._core.validate import known_columns, one_of, positive, positives, whole_number
from bayes_risk.data.microdata import Microdata, Number, checked_table
from bayes_risk.data.record_weights import survey_weights
from bayes_risk.data.variables import stand_ins
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.models.fits.sampling import Length, kept_chains, mixing
from bayes_risk.models.fits.synthesis import Declaration, Ticker, column_order, of_columns

from .columns import Columns, RatePrior, checked_count, powers_of, prior_of, refuse, whole_from_zero
from .fit import MixtureFit
from .posterior import MixturePosterior, log_masses
from .sampler import initial_state
from .state import DRAWN, Draws, Prior
from .zeros import log_possible

DIAGNOSED = 300
SOMETIMES = 0.05  # share of draws with every class occupied from which the truncation binds
SPLITS = 5  # enough for chains of 1,000 records in 10 columns to agree, which none do


def fitted_mixture(
    model: Any, df: pd.DataFrame | Microdata, length: Length, weights: Any, run: Any, tables: Any
) -> Any:
    """Sample; unless it is to be sampled, the fit has one start in the place of all draws.

    ``run``: splits, sampler, sample, random_seed, n_jobs, progress; ``tables``: how they are coded.
    """
    import pymc as pm

    from .pymc_mixture import BlockedSweep, draws_of, pymc_of_mixture

    splits, sampler, sample, random_seed, n_jobs, progress = run
    one_of("sampler", sampler, ("gibbs", "nuts"))
    df, weights = survey_weights(df, weights)
    df = of_columns(df, getattr(model, "columns", None))
    data = df if isinstance(df, Microdata) else model._coded(df, **tables)
    data, columns, prior, alpha = model._read(data, weights)
    nuts, rng = sampler == "nuts", np.random.default_rng(random_seed)
    other = {"impossible": prior.zeros is not None, 'sampler="nuts"': nuts}
    usual = 0 if any(other.values()) else prior.splits
    splits = usual if splits is None else whole_number("splits", splits)
    for name, given in other.items():
        if splits > 0 and given:
            raise InputError(
                "splits",
                splits,
                f"with {name}: classes are split and merged in blocked sweeps of tables without "
                f"structural zeros; leave splits or {name} out",
            )
    prior = replace(prior, splits=splits)
    units = columns.rows(data.codes, prior).units(power=alpha)

    def chains() -> Any:
        """As PyMC keeps them."""
        (seeds, starts), tick = rng.spawn(2), Ticker(progress, "fit", length.steps)
        options = length.options(n_jobs, seeds) | {"callback": lambda trace, draw: tick(1)}
        options["return_inferencedata"] = True
        with pymc_of_mixture(data, columns, prior, units, transformed=nuts) as declared:
            if nuts:
                return pm.sample(**options)
            blocks = phi_blocks(data, columns, prior)
            step = BlockedSweep(declared, prior, units, blocks=blocks, thin=length.thin, rng=seeds)
            children = starts.spawn(length.chains)
            points = [step.point(initial_state(prior, units, child)) for child in children]
            return pm.sample(step=step, initvals=points, **options)

    if sample:
        idata: Any = kept_chains(chains, length)
        theta = draws_of(idata, prior, phi_blocks(data, columns, prior))
    else:
        idata, theta = None, repeated(initial_state(prior, units, rng), length)
    made = {"units": units, "draws": theta, "thin": length.thin}
    plain = np.zeros(len(columns.order), dtype=bool)
    posterior = MixturePosterior(prior=prior, columns=columns, conditional=plain, **made)
    diagnostics = diagnose(idata, posterior) if sample else {}
    found = {"idata": idata, "posterior": posterior, "diagnostics": diagnostics}
    return model._FIT(model=model, microdata=data, weights=alpha, **found)


def repeated(start: Draws, length: Length) -> Draws:
    """One point in the place of all draws, in the memory of one."""
    arrays = {name: getattr(start, name) for name in DRAWN}
    H = length.draws * length.chains
    same = {name: np.broadcast_to(x, (H, *x.shape[1:])) for name, x in arrays.items()}
    return Draws(**same, n_chains=length.chains)


def phi_blocks(data: Microdata, columns: Columns, prior: Prior) -> Mapping[str, slice]:
    """Rows of phi that each variable of the PyMC model holds."""
    from .pymc_mixture import levels_name, missing_name

    p, r, names = prior.n_counts, prior.n_reals, data.columns
    numbers = {"rates": slice(0, p)} if p else {}
    if prior.inflation is not None:
        numbers["zeros"] = slice(p, 2 * p)
    if r:
        numbers |= {"means": slice(2 * p, 2 * p + r), "precisions": slice(2 * p + r, 2 * p + 2 * r)}
    of_levels = [names[j] for j in columns.levels]
    of_levels += [missing_name(names[j]) for j in columns.order[p + r + len(of_levels) :]]
    bounds = zip(of_levels, prior.starts[:-1], prior.starts[1:], strict=True)
    return numbers | {levels_name(c): slice(int(b), int(e)) for c, b, e in bounds}


def truncation_binds(full: float, K: int, given: str = "") -> bool:
    """Whether all of several classes are occupied in too large a share of draws; warns."""
    if K == 1 or full <= SOMETIMES:
        return False
    warn_user(
        f"all `n_classes={K}` classes are occupied in {100 * full:.0f} % of draws{given}: the "
        "truncation binds, and values far from all classes are thought impossible; fit again with "
        "more classes",
        TruncationWarning,
    )
    return True


def diagnose(idata: Any, posterior: MixturePosterior) -> dict[str, float]:
    """R-hat and ESS of log predictives of some profiles; warn where the truncation binds."""
    import xarray as xr

    prior, units, draws = posterior.prior, posterior.units, posterior.draws
    K, U = prior.n_classes, len(units.multiplicity)
    order = np.argsort(units.multiplicity, kind="stable")
    some = np.sort(order[np.linspace(0, U - 1, min(U, DIAGNOSED)).astype(int)])
    left = np.zeros(len(draws)) if prior.zeros is None else log_possible(prior.zeros, draws)
    log_p = log_masses(units.data.take(some), draws, prior) - left[:, None]
    ess, rhat = ess_and_rhat(log_p, draws.n_chains)
    diagnosed = xr.Dataset({"ess": ("profile", ess), "rhat": ("profile", rhat)})
    add_group(idata, "log_predictive", diagnosed)
    return {
        "draws": len(draws) // draws.n_chains,
        "chains": draws.n_chains,
        "n_classes": K,
        "n_occupied_mean": float(draws.n_occupied.mean()),
        "n_occupied_max": int(draws.n_occupied.max()),
        "truncation_binds": truncation_binds(float((draws.n_occupied == K).mean()), K),
        **mixing(ess, rhat, draws.n_chains),
        "profiles_diagnosed": len(some),
        **({} if prior.zeros is None else {"zero_mass_mean": float(-np.expm1(left).mean())}),
    }


FAMILIES = ("category", "count", "normal", "lognormal")
F = TypeVar("F")  # the fit


class MixtureModel(Declaration, ABC, Generic[F]):
    """What declarations of mixtures have in common: some priors, and how they are fitted."""

    __slots__ = ()
    _FIT: ClassVar[Any]  # what is made of the draws

    def __post_init__(self) -> None:
        of: Any = self
        whole_number("n_classes", of.n_classes)
        positive("level_prior", of.level_prior)
        positives("concentration_prior", of.concentration_prior, (0.25, 0.25))
        if getattr(of, "zeros", None) is not None:
            positives("zeros", of.zeros, (1.0, 1.0))
        if getattr(of, "columns", None) is not None:
            object.__setattr__(self, "columns", column_order("columns", of.columns))

    @shows_progress
    def fit(
        self,
        df: pd.DataFrame | Microdata,
        draws: int = 250,
        *,
        weights: Any = None,
        tune: int = 500,
        chains: int = 4,
        thin: int = 5,
        splits: int | None = None,
        sampler: str = "gibbs",
        missing: str = "error",
        levels: Mapping[str, Iterable[Hashable]] | None = None,
        releases: Sequence[pd.DataFrame] = (),
        sample: bool = True,
        random_seed: int | np.random.Generator | None = None,
        n_jobs: int = 1,
        progress: ProgressOption = None,
    ) -> F:
        """Sample p(Theta | y) through PyMC.

        Parameters
        ----------
        df : DataFrame or Microdata
            The confidential table; see `Microdata.from_frame` for ``missing``, ``levels``,
            ``releases``, and ``missing_numbers`` of `models.Mixture`, of which numbers may be
            missing too with ``missing="level"``.
        weights : array (n,), Series or str, optional
            Record weights alpha_i in (0, 1]: Theta is drawn from the pseudo-posterior
            ``p(Theta) prod_i sum_k [pi_k f_k(y_i)]^alpha_i`` (docs/sensitivity.md). Not with
            ``impossible`` or ``zeros``; of `PoissonMixture` with ``kind="MP"`` alone. A text is the
            column of survey weights, as in `Population.weighted`: no model has it, and ``alpha_i =
            n w_i / sum_j w_j`` (Savitsky & Toth 2016), which may be above 1. They make parameters
            those of the population; the spread of the pseudo-posterior ignores the design. A weight
            of 2 is two equal records in one class.
        draws, tune, chains : int
            Kept draws and warm-up of each chain, at least 4, 0 and 1. An audit led by the release
            takes twice the chains, half as long (docs/modes.md): the defaults are made for it, and
            more of either make it more precise.
        thin : int
            Sweeps between kept draws.
        splits : int
            How often each sweep proposes to split a latent class in two, or to merge two: moves
            that plain sweeps make slowly (docs/mixtures.md). By default 5; 0 of `PoissonMixture`,
            and where there are no such moves (``impossible``, ``sampler="nuts"``). With the fit,
            all that is sampled later from the table or from it and a release takes them; except
            where a release was drawn given columns that stay, and where unknown records are
            imputed.
        sampler : {"gibbs", "nuts"}
            Blocked Gibbs sweeps, or PyMC's NUTS on the same model (small tables only).
        sample : bool
            False: nothing is sampled, and the fit holds starts of chains in the place of draws. It
            refuses what a fit refuses, and tells what it offers for a release and an intruder.
        random_seed : int, Generator or None
            Same seed, same draws, for any ``n_jobs``.
        n_jobs : int
            Processes for the chains.
        progress : callable or bool, optional
            Called as ``progress(stage, done, total)``.
            By default a bar in terminals and notebooks; False: none.

        Raises
        ------
        InputError
            Tables that `Microdata.from_frame` refuses; columns that the model does not fit:
            numbers that are no counts, exposures that are not positive; counts of draws out of
            range; weights of another length, missing or outside (0, 1], or a column of them that
            is absent or holds numbers that are not above 0; structural zeros that the
            table contradicts; splits with ``impossible`` or ``sampler="nuts"``.

        Warns
        -----
        TruncationWarning
            Every class is occupied in more than one draw in twenty: raise ``n_classes``.

        Notes
        -----
        Cost of a sweep: at most U p K multiplications for U distinct profiles, which share products
        of equal first levels (twice as many of counts alone; with numbers an exponential for each
        record and class), plus a draw of a class a record, or K for 32 equal ones and more. A
        split or merge costs what 2 p multiplications and a logarithm cost for each of its members.
        """
        length = Length.checked(draws=draws, tune=tune, chains=chains, thin=thin)
        run = splits, sampler, sample, random_seed, n_jobs, progress
        tables = {"missing": missing, "levels": levels, "releases": releases}
        found: F = fitted_mixture(self, df, length, weights, run, tables)
        return found

    @abstractmethod
    def _coded(self, df: pd.DataFrame, **how: Any) -> Microdata:
        """The table, coded."""

    @abstractmethod
    def _read(
        self, data: Microdata, weights: Any
    ) -> tuple[Microdata, Columns, Prior, Array | None]:
        """Table and weights as the sampler takes them, columns, priors with the usual splits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mixture(MixtureModel[MixtureFit]):
    """Declaration of a truncated Dirichlet-process mixture of categories, counts and amounts.

    Parameters
    ----------
    families : mapping of column to {"category", "count", "normal", "lognormal"}
        Columns that it does not name are categories; a column of many different numbers must be
        named. "lognormal": the logarithm is normal. A number that is missing for some
        (``missing="level"`` of `fit`, or ``missing_numbers``: a value that stands for it) has a
        chance of being missing in every class.
    n_classes : int
        Truncation K, at least 1. One class: independent columns.
    exposure : str, optional
        Column of positive numbers that multiply the rates of counts; known, never synthesised.
    rounded : mapping of column to number, optional
        Step that amounts are rounded to when they are synthesised, 1 for columns of integers. The
        density of a value stands for the probability of its step, which is right where a step is
        narrow beside the spread within a class.
    scales : mapping of column to pair of numbers, optional
        Location and scale (above 0) that an amount, or its logarithm, is put on before it meets its
        prior: constants that are published with the model. By default mean and standard deviation,
        rounded to one digit, which is all they reveal of the table.
    concentration_prior : tuple of two floats
        Shape and rate of the gamma prior of the concentration.
    level_prior : float
        Every entry of the Dirichlet priors of levels.
    rate_prior : tuple of two floats, or mapping of column to such, optional
        Shape and rate of the gamma prior of the rates of counts. By default shape 0.5 and as mean
        the next power of ten above the column's mean.
    normal_prior : tuple of four floats
        m, kappa, a, b of the normal-gamma prior of amounts on their scale.
    zeros : tuple of two floats, optional
        Beta prior of a class's chance that a count is a structural zero; by default there are none.
    columns : list of str, optional
        Columns of the table to model; all by default.

    Raises
    ------
    InputError
        Values outside these ranges, unknown families.

    Examples
    --------
    >>> Mixture(families={"age": "count", "income": "lognormal"}, n_classes=20).n_classes
    20
    """

    families: Mapping[str, str] = field(default_factory=dict)
    n_classes: int = 30
    exposure: str | None = None
    rounded: Mapping[str, float] = field(default_factory=dict)
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    concentration_prior: tuple[float, float] = (0.25, 0.25)
    level_prior: float = 1.0
    rate_prior: RatePrior = None
    normal_prior: tuple[float, float, float, float] = (0.0, 0.1, 2.0, 0.5)
    zeros: tuple[float, float] | None = None
    columns: Sequence[str] | None = None
    _FIT: ClassVar[Any] = MixtureFit

    def __post_init__(self) -> None:
        if not isinstance(self.families, Mapping):
            raise InputError(
                "families",
                self.families,
                '; give a mapping of columns to families: {"income": "lognormal"}',
            )
        for name, family in self.families.items():
            one_of(("families", name), family, FAMILIES)
        MixtureModel.__post_init__(self)
        if len(self.normal_prior) != 4:
            raise InputError(
                "normal_prior", self.normal_prior, "; give m, kappa, a, b: (0.0, 0.1, 2.0, 0.5)"
            )
        positives("normal_prior, but for m,", self.normal_prior[1:], (0.1, 2.0, 0.5))
        amounts = [c for c, f in self.families.items() if f.endswith("normal")]
        known_columns("rounded", list(self.rounded), amounts)
        known_columns("scales", list(self.scales), amounts)
        for name, step in self.rounded.items():
            positive(("rounded", name), step)
        for name, (_, scale) in self.scales.items():
            positive(f"scale of {name!r}", scale)

    def synthesizes(self, columns: Sequence[str]) -> list[str]:
        return [c for c in columns if c != self.exposure]

    @shows_progress
    def fit(
        self,
        df: pd.DataFrame | Microdata,
        draws: int = 250,
        *,
        weights: Any = None,
        tune: int = 500,
        chains: int = 4,
        thin: int = 5,
        splits: int | None = None,
        sampler: str = "gibbs",
        missing: str = "error",
        missing_numbers: Mapping[str, float] | None = None,
        levels: Mapping[str, Iterable[Hashable]] | None = None,
        releases: Sequence[pd.DataFrame] = (),
        sample: bool = True,
        random_seed: int | np.random.Generator | None = None,
        n_jobs: int = 1,
        progress: ProgressOption = None,
    ) -> MixtureFit:
        length = Length.checked(draws=draws, tune=tune, chains=chains, thin=thin)
        run = splits, sampler, sample, random_seed, n_jobs, progress
        tables: Any = {"missing": missing, "levels": levels, "releases": releases}
        tables["missing_numbers"] = missing_numbers
        found: MixtureFit = fitted_mixture(self, df, length, weights, run, tables)
        return found

    def _coded(self, df: pd.DataFrame, **how: Any) -> Microdata:
        checked_table(df)
        numbers = [c for c, family in self.families.items() if family != "category"]
        known_columns("families", list(self.families), df)
        numbers += [] if self.exposure is None else [self.exposure]
        absent = stand_ins(df, numbers) if how["missing"] == "level" else {}
        how["missing_numbers"] = absent | dict(how["missing_numbers"] or {})
        return Microdata.from_frame(df, numbers=numbers, **how)

    def _read(
        self, data: Microdata, weights: Any
    ) -> tuple[Microdata, Columns, Prior, Array | None]:
        names = data.columns
        places: dict[str, list[int]] = {family: [] for family in FAMILIES}
        known_columns("families", list(self.families), names)
        known_columns("exposure", [] if self.exposure is None else [self.exposure], names)
        for j, v in enumerate(data.variables):
            if v.name == self.exposure:
                refuse(v.name, "not positive", data.codes[:, j] <= 0, "exposures are positive")
                continue
            family = self.families.get(v.name, "category")
            places[family].append(j)
            if isinstance(v, Number) and family == "category":
                raise InputError(
                    f"column {v.name!r} is read as a number and has no family; name one in "
                    'families, such as "normal"'
                )
            if not isinstance(v, Number) and family != "category":
                raise InputError(
                    f"column {v.name!r} is read as a category, and its family is {family!r}; leave "
                    "it out of `families` (or list it in numbers of `Microdata.from_frame`)"
                )
            present = data.codes[:, j][~_gone(data, j)]
            if family == "count":
                checked_count(v.name, present)
            elif family == "lognormal":
                cure = "declare the number that stands for none in `missing_numbers`; or use "
                cure += '"normal", which draws negative numbers too'
                refuse(v.name, "not positive", present <= 0, cure)
        reals = sorted(places["normal"] + places["lognormal"])
        log = np.array([j in places["lognormal"] for j in reals], dtype=bool)
        scales = [self._scale(data, j, is_log) for j, is_log in zip(reals, log, strict=True)]
        amounts: list[Any] = [data.variables[j] for j in reals]
        numbers = [*(data.variables[j] for j in places["count"]), *amounts]
        columns = Columns.of(
            counts=places["count"],
            reals=reals,
            levels=places["category"],
            exposure=None if self.exposure is None else names.index(self.exposure),
            location=np.array([location for location, _ in scales]),
            scale=np.array([scale for _, scale in scales]),
            log=log,
            width=np.array([self.rounded.get(v.name, 1.0 * v.whole) for v in amounts], float),
            missing=np.array([np.nan if v.missing is None else v.missing for v in numbers], float),
        )
        counts = [names[j] for j in places["count"]]
        data = replace(data, variables=whole_from_zero(data, counts))
        own = np.tile(np.array(self.normal_prior, dtype=float), (len(reals), 1))
        prior = replace(prior_of(self, data, columns), splits=SPLITS, reals=own)
        return data, columns, prior, powers_of(weights, data, "zeros" if self.zeros else "")

    def _scale(self, data: Microdata, j: int, is_log: bool) -> tuple[float, float]:
        """Location and scale of an amount: constants of one digit, unless they are given."""
        if data.columns[j] in self.scales:
            location, scale = self.scales[data.columns[j]]
            return float(location), float(scale)
        x = data.codes[:, j][~_gone(data, j)].astype(float)
        x = np.log(x) if is_log else x
        spread = _one_digit(float(x.std())) if len(x) else 0.0
        step = 10.0 ** np.floor(np.log10(spread)) if spread > 0 else 1.0
        return float(np.round(x.mean() / step) * step) if len(x) else 0.0, spread or 1.0


def _one_digit(x: float) -> float:
    if not x > 0:
        return 0.0
    step = 10.0 ** np.floor(np.log10(x))
    return float(np.round(x / step) * step)


def _gone(data: Microdata, j: int) -> Flags:
    """Records of which a number is missing."""
    v = data.variables[j]
    if not isinstance(v, Number) or v.missing is None:
        return np.zeros(len(data.codes), dtype=bool)
    return np.asarray(data.codes[:, j] == v.missing)
