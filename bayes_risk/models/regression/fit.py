"""Fitted regressions in sequence: synthesis, augmented fits, and what the evidence asks for.

What is seen by intruders who know only some of the other records stands in `docs/regression.md`.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._compat import draws_of_posterior, group, holds_draws, plain_name
from bayes_risk._core.arrays import Array, Flags, Rng
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk._core.logspace import change
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.data.record_weights import weights_in_words
from bayes_risk.data.variables import LARGEST
from bayes_risk.evidence.contract import (
    Capabilities,
    How,
    Offer,
    Posterior,
    Simulated,
    Targets,
    drawn_as,
    offers,
    why_all_must_be_known,
    without_weights,
)
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.evidence.household import IndependentPersons
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.sampling import Length, blocks, mixing
from bayes_risk.models.fits.synthesis import Request, Synthesis, Ticker, made_columns, same_but
from bayes_risk.release.release import EncodedRelease

from .families import CategoricalLogit
from .imputed import ImputedPosterior, Unknown
from .part import Coefficients, Nuts, Part, SampledRows, check_family, n_outcomes
from .posterior import (
    CHAINS,
    ClosedPosterior,
    ExactPart,
    ExternalPart,
    FittedPart,
    PartPosterior,
    RegressionPosterior,
    RegressionPredictive,
    RegressionReweighting,
    SampledPart,
    closed,
    touched,
)

DIMS = ["chain", "draw"]  # of a posterior as ArviZ keeps it
NOT_IMPUTED = (
    '`evidence="imputed"` is offered for normal and log-normal regressions alone: records that are '
    "not known have no density in closed form under other families; give "
    '`evidence="independent-releases"`, or a release of one data set'
)
BROUGHT = (
    "draws brought from elsewhere cannot be drawn again, and an intruder who does "
    "not know all other records needs other draws; fit the model (fit)"
)
WARM_SHARE = 0.25  # share of known records from which the metric and start of the whole fit serve


class KnownRecords(NamedTuple):
    """Whose values are seen, (n,), and the fit to all records, from which chains may start."""

    seen: Flags
    whole: RegressionPosterior


def why_published_tell(parts: Sequence[FittedPart], synthesized: set[str]) -> str:
    """Which published column depends on a synthesised one, and tells of the unknown records."""
    for fit in parts:
        on = sorted(synthesized & set(fit.part.columns))
        if fit.part.name not in synthesized and on:
            return (
                f"column {fit.part.name!r} is published and its formula uses {on[0]!r}, which is "
                "synthesised: it depends on the records that the intruder does not know, which is "
                f"not offered; fit the model without the formula of {fit.part.name!r}"
            )
    return ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegressionFit(Synthesis):
    """Regressions fitted in sequence."""

    # "plug-in": normal regressions at the posterior mean of coefficients and its residual variance
    parameters: ClassVar[tuple[str, ...]] = ("independent", "shared", "plug-in")
    model: Any
    microdata: Microdata  # the columns that the formulas name
    # ``posterior``: one variable a coefficient, named ``income: age``, ``income: sigma``, on the
    # original scale of the predictors
    idata: Any
    posterior: RegressionPosterior  # the draws as the engine uses them
    diagnostics: dict[str, float]  # draws, chains, R-hat and ESS of the coefficients
    # shape (n,): weights of the records in the pseudo-posterior; None: all count in full
    weights: Array | None = None
    # which records the draws are given, for an intruder who does not know them all
    known: KnownRecords | None = None

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        made = self.made(release)
        any_rows = release.m == 1 or not intruder.knows_less
        further = offers(self, "factors", "reweighting")
        brought = any(isinstance(fit, ExternalPart) for fit in made)
        normal = all(isinstance(fit, ExactPart) for fit in made)
        exact = ["exact"] * normal
        if not brought:
            further += offers(self, "knowing", *["log-prior"] * normal)
        if intruder.knows_less:
            ways = self._knowing(release, intruder, brought, exact)
        elif brought:
            ways = offers(self, "importance")
        elif drawn_as(self, release) == "plug-in":
            ways = offers(self, computed={"exact" for fit in made if closed(fit)})
        else:
            ways = offers(self, "predictive", "refit", "importance", computed=exact)
            further.append(Offer("household", IndependentPersons()))
        return Capabilities([*ways, *further], any_rows=any_rows)

    def _knowing(
        self, release: EncodedRelease, intruder: Intruder, brought: bool, exact: list[str]
    ) -> list[Offer]:
        """What is offered for an intruder who does not know all other records."""
        why = BROUGHT if brought else ""
        why = why or (without_weights(intruder) if self.weights is not None else "")
        why = why or why_all_must_be_known(self, release)
        why = why or why_published_tell(self.posterior.parts, set(release.synthesized))
        if why:
            return [Offer("predictive", refusal=why)]
        if release.m == 1:
            return offers(self, "predictive", computed=exact)
        if exact:
            return offers(self, "imputed", computed=["independent-releases"])
        return [Offer("independent-releases", self), Offer("imputed", refusal=NOT_IMPUTED)]

    def closed_form(
        self, evidence: str, release: EncodedRelease, targets: Targets, **how: Any
    ) -> Simulated:
        """Exact evidence of the normal families, and of the product over releases."""
        parts = [closed(fit) for fit in touched(self.made(release), targets)]
        if drawn_as(self, release) == "plug-in":
            tables = [self.released(release, l) for l in range(release.m)]
            each = (fit.log_release_at_estimate(fit.moments(tables), targets) for fit in parts)
            return Simulated.product(each)
        draws = range(len(release.by_draw))
        after = [touched(self.augmented(release, l, **how).parts, targets) for l in draws]

        def factor(fit: ExactPart, *seen: Any) -> Array:
            base = fit.log_predictive(targets)
            return np.stack([change(closed(x).log_predictive(targets), base) for x in seen])

        return Simulated.product(map(factor, parts, *after))

    def log_prior(self, release: EncodedRelease, targets: Targets) -> Array:
        """Leave-one-out predictives of normal regressions, multiplied, (G, U)."""
        parts = touched(self.made(release), targets)
        return reduce(np.add, (closed(fit).log_predictive(targets) for fit in parts))

    def factors(
        self, evidence: str, release: EncodedRelease, targets: Targets
    ) -> tuple[str, ...] | str:
        """The outcomes of the regressions in which a guess appears, in their order."""
        if evidence == "importance":
            return "the published sampler weights draws by whole releases"
        if evidence == "imputed":
            return "the records that are not known were imputed in all columns at once"
        return tuple(fit.part.name for fit in touched(self.made(release), targets))

    def mechanism(self, release: EncodedRelease) -> str:
        order = [p.part.name for p in self.made(release)]
        return (
            "the regressions, their priors and the scales of the standardised variables are known, "
            "these as constants from which nothing is inferred of a record, not the parameters; "
            f"values drawn in the order {', '.join(order)}, each given those "
            f"before it{weights_in_words(self.weights)}"
        )

    def informed(self, release: EncodedRelease) -> Posterior:
        """p(theta | y) of the regressions that made the release."""
        parts = self.made(release)
        exact = [fit for fit in parts if isinstance(fit, ExactPart)]
        if self.known is not None and release.m > 1 and len(exact) == len(parts):
            return ClosedPosterior(parts=exact, n_draws=CHAINS * self._length)
        return RegressionPosterior(parts=parts)

    @property
    def _length(self) -> int:
        """Draws of each chain of imputed rows."""
        return max(-(-self.n_draws // CHAINS), 4)

    def made(self, release: EncodedRelease) -> list[Any]:
        """The regressions that made the release, in its order."""
        lacking = f"the model has no formula; it has those of {self._modelled}"
        names = made_columns(release, self.microdata, self._modelled, lacking)
        return [p for p in self.posterior.parts if p.part.name in names]

    @property
    def _modelled(self) -> list[str]:
        return [p.part.name for p in self.posterior.parts]

    def _tables(self, request: Request) -> Iterator[Codes]:
        return (self._table(h, request, rng) for h, rng in request.draws())

    def _table(self, h: int | None, request: Request, rng: Rng) -> Codes:
        """One synthetic table, in codes."""
        codes = request.table().astype(float)
        for fit in self.posterior.parts:
            if fit.part.name not in request.columns:
                continue
            theta = closed(fit).estimate() if h is None else fit.draws.take(np.array([h]))
            values = fit.part.draw(codes[request.mask], theta, rng)
            if not np.isfinite(values).all():
                raise ModelError(
                    f"synthetic values of {fit.part.name!r} are too large to be numbers; look at "
                    "its predictors, or choose another family"
                )
            codes[request.mask, fit.part.column] = values
        return codes

    def augmented(self, release: EncodedRelease, l: int, **how: Unpack[How]) -> RegressionPosterior:
        """p(theta | y, Z^(l)): below the table's rows those of all data sets of draw l."""
        base = self.made(release)
        starts = base if self.known is None else self.known.whole.parts
        tables = {k: self.released(release, k) for k in release.by_draw[l]}
        tick = Ticker(how["progress"], f"release {l + 1}", sum(len(p.draws) for p in base))
        parts, children = [], how["rng"].spawn(len(base))
        for fit, start, child in zip(base, starts, children, strict=True):
            more = (fit.part.rows(z, f"release {k + 1}") for k, z in tables.items())
            rows = reduce(SampledRows.and_also, more, fit.rows)
            parts.append(start.with_rows(rows, rng=child, tick=tick))
        return RegressionPosterior(parts=parts)

    def released(self, release: EncodedRelease, l: int) -> Codes:
        """Coded rows of data set l whose values were replaced."""
        codes: Codes = release.codes[l][release.rows]
        for part in (fit.part for fit in self.made(release)):
            check_family(part.name, part.family, self.microdata, codes, f"of release {l + 1}")
        return codes

    def without(
        self, record: int, release: EncodedRelease | None, l: int, *, start: Any, rng: Any
    ) -> RegressionPosterior:
        """The posterior ``start``, of y or y and Z, with one record's confidential values out."""
        row = record if self.known is None else int(self.known.seen[:record].sum())
        parts = []
        for fit, child in zip(start.parts, rng.spawn(len(start.parts)), strict=True):
            shorter = 1 if fit.part.family.exact else 2
            rows = fit.rows.only(np.arange(len(fit.rows.y)) != row)
            parts.append(fit.with_rows(rows, shorter=shorter, rng=child))
        return RegressionPosterior(parts=parts)

    def knowing(self, known: Flags, release: EncodedRelease, **how: Unpack[How]) -> "RegressionFit":
        """The same regressions of the known records alone; few are sampled from scratch."""
        made = self.made(release)
        tick = Ticker(how["progress"], "fit to known records", sum(len(p.draws) for p in made))
        warm, parts = known.mean() >= WARM_SHARE, []
        for fit, child in zip(made, how["rng"].spawn(len(made)), strict=True):
            start = fit
            if isinstance(fit, SampledPart) and not warm:
                start = replace(fit, nuts=Nuts(fit.part, fit.nuts.nuts_sampler), last=None)
            parts.append(start.with_rows(fit.rows.only(known), rng=child, tick=tick))
        return replace(
            self,
            posterior=RegressionPosterior(parts=parts),
            known=KnownRecords(known, RegressionPosterior(parts=made)),
        )

    def imputed(self, release: EncodedRelease, **how: Unpack[How]) -> ImputedPosterior:
        """p(y_U | y_A, Z^(1..m)), y_U unknown values; a sweep costs n_U J (4 k^2 + m k)."""
        assert self.known is not None
        parts = [closed(fit) for fit in self.made(release)]
        tables = [self.released(release, l) for l in range(release.m)]
        unknown = Unknown.of(parts, self.known.seen, tables, release.codes[0])
        tick = Ticker(how["progress"], "unknown records", CHAINS * self._length)
        run: Any = {"rng": how["rng"], "n_jobs": how["n_jobs"], "tick": tick}
        return ImputedPosterior.sampled(unknown, self._length, **run)

    def theta_predictive(
        self, targets: Targets, release: EncodedRelease, l: int | None
    ) -> RegressionPredictive:
        """prod_j f_j(y* | theta_h) over the regressions that made the release."""
        return RegressionPredictive.of(self.made(release), targets)

    def log_release(
        self, release: EncodedRelease, draws: npt.NDArray[np.integer] | None = None
    ) -> Array:
        which = np.arange(self.posterior.n_draws) if draws is None else draws
        parts = [(fit.part, fit.draws.take(which)) for fit in self.made(release)]
        out = np.zeros((release.m, len(which)))
        for l in range(release.m):
            z = self.released(release, l)
            for some in blocks(len(z), len(which)):
                for part, coefficients in parts:
                    out[l] += part.log_density(z[some], coefficients).sum(axis=0)
        return out

    def under(self, model: Any) -> RegressionReweighting | None:
        """The draws under other priors, by weights; None: only a new fit can tell."""
        plain = self.weights is None and self.known is None
        sampled = not any(isinstance(fit, ExternalPart) for fit in self.posterior.parts)
        alike = same_but(self.model, model, "prior", "priors")
        return RegressionReweighting(model) if plain and sampled and alike else None

    def __repr__(self) -> str:
        d = self.diagnostics
        return (
            f"RegressionFit: {len(self.microdata.codes):,} records, "
            f"{', '.join(self._modelled)}; {d['chains']:.0f} chains of "
            f"{d['draws']:.0f} draws"
        )


def fitted_regressions(
    model: Any, data: Microdata, parts: Sequence[Part], weights: Any, length: Length, run: Any
) -> RegressionFit:
    """Fit one regression after another; ``run``: sampler, generator, progress, and if to sample."""
    nuts_sampler, rng, progress, sample = run
    sampled = [p for p in parts if not p.family.exact]
    tick = Ticker(progress, "fit", max(len(sampled), 1) * length.steps)
    fit: list[PartPosterior] = []
    for part, child in zip(parts, rng.spawn(len(parts)), strict=True):
        rows = part.rows(data.codes, "the original")._replace(weights=weights)
        if part.family.exact:
            fit.append(ExactPart.fitted(part, rows, length.draws, length.chains, child))
        else:
            nuts = Nuts(part, nuts_sampler)
            how: Any = {"rng": child, "tick": tick, "sample": sample}
            fit.append(SampledPart.fitted(part, rows, nuts, length, **how))
    diagnostics: dict[str, float] = {}
    if sample:
        values = np.column_stack([v for p in fit for v in flat(p.part, p.draws).values()])
        mixed = mixing(*ess_and_rhat(values, length.chains), length.chains)
        diagnostics = {"draws": length.draws, "chains": length.chains, **mixed}
    found: Any = {"posterior": RegressionPosterior(parts=fit), "diagnostics": diagnostics}
    found["idata"] = to_idata(fit) if sample else None
    return RegressionFit(model=model, microdata=data, weights=weights, **found)


def from_external(model: Any, data: Microdata, parts: Sequence[Part], draws: Any) -> RegressionFit:
    """A fit of a `Regression` made of draws from elsewhere."""
    fit = [ExternalPart(part=p, draws=_coefficients(p, *_table(p.name, draws))) for p in parts]
    sizes = {p.part.name: len(p.draws) for p in fit}
    if len(set(sizes.values())) > 1:
        raise InputError(f"the numbers of draws differ ({sizes}); give the same number of each")
    chains = fit[0].draws.n_chains
    return RegressionFit(
        model=model,
        microdata=data,
        idata=to_idata(fit),
        posterior=RegressionPosterior(parts=fit),
        diagnostics={"draws": len(fit[0].draws) // chains, "chains": chains},
    )


def places(part: Part) -> dict[str, tuple[str, Any]]:
    """Every parameter by its name in a table of draws: of which array, and where in it."""
    found: dict[str, tuple[str, Any]] = {}
    names, levels = part.names, [""]
    if nominal := isinstance(part.family, CategoricalLogit):
        levels = [f"[{level}]" for level in part.microdata.variables[part.column].labels[1:]]
    for c, level in enumerate(levels):
        for k, name in enumerate(names):
            at = (slice(None), k, c) if nominal else (slice(None), k)
            found[f"{name}{level}"] = "beta", at
    for key in part.family.extra:
        if key == "cut":
            found |= {f"cut[{c + 1}]": (key, (slice(None), c)) for c in range(part.n_levels - 1)}
        else:
            found[key] = key, slice(None)
    return found


def to_idata(parts: Sequence[FittedPart]) -> Any:
    """All draws as ArviZ keeps them, one variable a coefficient: ``income: age``."""
    posterior = {
        f"{fit.part.name}: {name}": values.reshape(fit.draws.n_chains, -1)
        for fit in parts
        for name, values in flat(fit.part, fit.draws).items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fewer draws than chains are as they are
        return draws_of_posterior(posterior)


def flat(part: Part, draws: Coefficients) -> dict[str, Array]:
    """Every parameter by its name in a table of draws, each of shape (H,)."""
    parameters = {"beta": draws.beta, **draws.extra}
    return {name: parameters[key][at] for name, (key, at) in places(part).items()}


def _table(name: str, draws: Any) -> tuple[pd.DataFrame, int]:
    """The table of draws of one regression, and its number of chains."""
    if holds_draws(draws):
        table, chains = _from_arviz(draws)
        prefix = f"{name}: "
        own = {c.removeprefix(prefix): table[c] for c in map(str, table) if c.startswith(prefix)}
        if not own:
            raise InputError(
                f"the posterior has no variables of {name!r}; they are named "
                f"{prefix + 'Intercept'!r}, ..., or give a mapping of column to draws"
            )
        return pd.DataFrame(own), chains
    if not isinstance(draws, Mapping):
        raise InputError(
            f"draws is a {type(draws).__name__}; give a mapping of column to DataFrame, or ArviZ's "
            "DataTree or InferenceData"
        )
    if name not in draws:
        raise InputError(f"draws has none of {[name]}; give a table of draws for each formula")
    given = draws[name]
    if holds_draws(given):
        return _from_arviz(given)
    if not isinstance(given, pd.DataFrame):
        raise InputError(
            f"the draws of {name!r} are a {type(given).__name__}; give a DataFrame with one "
            "column per coefficient, or ArviZ's DataTree or InferenceData"
        )
    return given, 1


def _from_arviz(idata: Any) -> tuple[pd.DataFrame, int]:
    """Scalar variables of a posterior, chain after chain."""
    posterior = group(idata, "posterior")
    scalars = [k for k, v in posterior.data_vars.items() if sorted(map(str, v.dims)) == DIMS]
    columns = {plain_name(str(k)): posterior[k].transpose(*DIMS).values.ravel() for k in scalars}
    return pd.DataFrame(columns), posterior.sizes.get("chain", 1)


def _coefficients(part: Part, table: pd.DataFrame, chains: int) -> Coefficients:
    """Draws of one regression from its table."""
    if len(table) < 2:
        raise InputError(f"the draws of {part.name!r} are {len(table)}; give at least 2")
    shapes = {"beta": (len(part.names), *n_outcomes(part)), "cut": (part.n_levels - 1,)}
    keys = ["beta", *part.family.extra]
    found = {key: np.empty((len(table), *shapes.get(key, ()))) for key in keys}
    for name, (key, at) in places(part).items():
        label = part.written[at[1]] if key == "beta" else name
        found[key][at] = _column(part, table, name, label)
    beta = found.pop("beta")
    for key, values in found.items():
        right = np.diff(values, axis=1) > 0 if key == "cut" else values > 0
        _check(part, key, right, "increase" if key == "cut" else "be above 0")
    return Coefficients(beta=beta, extra=found, n_chains=chains)


def _column(part: Part, table: pd.DataFrame, name: str, label: str) -> Array:
    """One coefficient's draws; brms puts b_ in front of its name, and whole levels are 2 or 2.0."""
    names = (name, name.replace(".0]", "]"))
    found = next((c for n in names for c in (n, f"b_{n}") if c in table.columns), None)
    if found is None:
        of_level = " of one of its levels" * (label != name)
        raise InputError(
            f"the draws of {part.name!r} lack the coefficient {label!r}{of_level}; they have "
            f"{len(table.columns)} columns"
        )
    try:
        values = table[found].to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    _check(part, label, np.isfinite(values), "be finite numbers")
    _check(part, label, np.abs(values) <= LARGEST, f"be at most {LARGEST:g} in size")
    return values


def _check(part: Part, name: str, right: Flags, what: str) -> None:
    if not right.all():
        raise InputError(f"the draws of {name!r} of {part.name!r} must {what}; correct the table")
