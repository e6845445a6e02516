"""Posteriors of regressions in sequence, part by part (parts are independent a posteriori).

Densities of guesses are computed under draws: for every target, guess and draw, in blocks, in logs.
A guess may be the outcome of one regression and a predictor of later ones, so each row is written
out in full and goes through every formula in which it stands.

Normal regressions also at a point estimate: the posterior mean of the coefficients, with
sigma^2 = b / a of their normal-inverse-gamma posterior (under flat priors least squares with its
residual variance, as synthpop's ``norm`` has them with ``proper = FALSE``). A release drawn from it
says of a guess

log p(Z | Theta-hat(y*, y_-i)) = -R/2 log sigma^2 - (z'z - 2 beta'X'z + beta'X'X beta) / 2 sigma^2,

X and z the R released rows: `docs/evidence.md`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Targets
from bayes_risk.models.fits.sampling import Length

from .conjugate import ConjugatePrior, Moments, NormalInverseGamma
from .families import LogNormal
from .glm import Nuts, extra_of
from .part import Coefficients, Part, Rows, n_outcomes

Tick = Callable[[int], None]
MAX_CELLS = 2_000_000  # numbers in an array of rows x draws
WARM_TUNE = 4  # of the base fit's warm-up, one in so many steps suffices for a warm start


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegressionPredictive:
    """p(y* | theta_h) of one regression, or the product over several with the same draws."""

    parts: Sequence[Part]
    draws: Sequence[Coefficients]
    targets: Targets
    batch: Ints  # shape (H,): batch of each draw, in order

    def log_truth(self, block: slice) -> Array:
        """log p(y_i | theta_h), to the power of its weight, shape (H, block)."""
        return self._log_truth(block).T

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h p_h(y*) / p_h(y_i): (B, G, block)."""
        uses = frozenset[int]().union(*(part.uses for part in self.parts))
        codes, cell = self.targets.rows(uses, block)  # shape (G', U, p)
        log_v = log_weights.T - self._log_truth(block)  # shape (U, H)
        power = self.targets.weight[block]
        G, U, p = codes.shape
        out = np.empty((G, U, len(np.unique(self.batch))))
        for some in blocks(U, G * len(self.batch)):
            rows = codes[:, some].reshape(-1, p)
            terms = self._log_density(rows).reshape(G, -1, len(self.batch))
            if (power != 1).any():
                terms *= power[some][:, None]
            terms += log_v[some]
            out[:, some] = log_sums_of_batches(terms, self.batch, axis=-1)
        return np.moveaxis(out, 2, 0)[:, cell]

    def _log_truth(self, block: slice) -> Array:
        power = self.targets.weight[block]
        return self._log_density(self.targets.profiles[block]) * power[:, None]

    def _log_density(self, codes: Codes) -> Array:
        """log p of coded rows (R, p), summed over the regressions, shape (R, H)."""
        total = self.parts[0].log_density(codes, self.draws[0])
        for part, draws in zip(self.parts[1:], self.draws[1:], strict=True):
            total += part.log_density(codes, draws)
        return total


def blocks(U: int, per_target: int) -> Iterator[slice]:
    """Slices of targets such that an array of rows x draws stays small."""
    size = max(MAX_CELLS // max(per_target, 1), 1)
    for begin in range(0, U, size):
        yield slice(begin, min(begin + size, U))


def log_sums_of_batches(terms: Array, batch: Ints, axis: int) -> Array:
    """log sum exp over the draws of each batch, which lie along an axis; overwrites ``terms``."""
    starts = np.flatnonzero(np.diff(batch, prepend=-1))
    top = np.maximum(np.maximum.reduceat(terms, starts, axis=axis), -1e300)
    terms -= np.repeat(top, np.diff(starts, append=len(batch)), axis=axis)
    np.exp(terms, out=terms)
    with np.errstate(divide="ignore"):
        sums: Array = np.log(np.add.reduceat(terms, starts, axis=axis)) + top
    return sums


def quiet(done: int) -> None:
    """Show nothing."""


class Guessed(NamedTuple):
    """Targets and guesses of a regression.

    ``own``: the targets' rows; ``X`` (G', U, k), ``y`` (G', U): those of the guesses, ``outcome``
    (G', U) as released, 1 where it is not ``possible``; ``cell`` (G,): which of the G' rows each
    guess has.
    """

    own: Rows
    X: Array
    y: Array
    outcome: Array
    possible: Flags
    cell: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExactPart:
    """A normal (or log-normal) regression, its posterior in closed form and drawn exactly."""

    part: Part
    rows: Rows
    known: NormalInverseGamma
    draws: Coefficients

    @classmethod
    def fitted(
        cls, part: Part, rows: Rows, n: int, chains: int, rng: np.random.Generator
    ) -> "ExactPart":
        """Fit and draw n times for each of so many chains (they are independent anyway)."""
        prior = ConjugatePrior(tau=part.scales(), a=part.prior.sigma2[0], b=part.prior.sigma2[1])
        known = prior.posterior(Moments.from_rows(rows.X, rows.y, rows.weights))
        draws = _drawn(part, known, n * chains, chains, rng)
        return cls(part=part, rows=rows, known=known, draws=draws)

    def with_rows(
        self, rows: Rows, *, shorter: int = 1, rng: np.random.Generator, tick: Tick = quiet
    ) -> "ExactPart":
        """The same regression of other rows."""
        chains = self.draws.n_chains
        n = max(len(self.draws) // chains // shorter, 4)
        return ExactPart.fitted(self.part, rows, n, chains, rng)

    def doubled(self, *, rng: np.random.Generator) -> "ExactPart":
        """As many draws again."""
        more = _drawn(self.part, self.known, len(self.draws), self.draws.n_chains, rng)
        return replace(self, draws=_joined(self.draws, more))

    def log_predictive(self, targets: Targets) -> Array:
        """log p(y* | x*, data without i), shape (G, U), in closed form, block by block.

        Targets that are not ``fitted`` are not among the data.
        """
        out = np.empty(targets.guesses.codes.shape[:2])
        width = len(self.part.design.names) + targets.profiles.shape[1]
        for block in blocks(len(targets), len(out) * width):
            out[:, block] = self._log_predictive(targets, block)
        return out

    def guessed(self, targets: Targets, block: slice) -> Guessed:
        """Some targets and their guesses on the scale that is sampled."""
        part = self.part
        own = part.rows(targets.profiles[block])
        codes, cell = targets.rows(part.uses, block)  # shape (G', U, p)
        G, U, p = codes.shape
        possible = np.ones((G, U), dtype=bool)
        if isinstance(part.family, LogNormal):
            possible = codes[:, :, part.column] > 0
        codes[:, :, part.column][~possible] = 1.0
        star = part.rows(codes.reshape(-1, p))
        return Guessed(
            own=own,
            X=star.X.reshape(G, U, -1),
            y=star.y.reshape(G, U),
            outcome=codes[:, :, part.column],
            possible=possible,
            cell=cell,
        )

    def _log_predictive(self, targets: Targets, block: slice) -> Array:
        star = self.guessed(targets, block)
        rows, weight = (star.own.X, star.own.y, star.X, star.y), targets.weight[block]
        power = None if self.rows.weights is None else weight
        density = self.known.log_predictive(*rows, targets.fitted[block], power)
        if isinstance(self.part.family, LogNormal):
            density -= weight * np.log(star.outcome)
        return np.where(star.possible, density, -np.inf)[star.cell]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledPart:
    """A regression sampled by NUTS. ``last`` holds the last point of each chain."""

    part: Part
    nuts: Nuts
    rows: Rows
    draws: Coefficients
    last: list[dict[str, Array]]
    tune: int

    @classmethod
    def fitted(
        cls,
        part: Part,
        rows: Rows,
        nuts: Nuts,
        length: Length,
        *,
        start: Any = None,
        rng: np.random.Generator,
        tick: Tick,
        sample: bool = True,
    ) -> "SampledPart":
        """Sample p(theta | rows); without sampling every draw is a chain's start."""
        if sample:
            found = nuts.run(rows, length, start=start, rng=rng, tick=tick)
        else:
            found = nuts.begun(rows, length, rng)
        last = [{k: v[c, -1] for k, v in found.items()} for c in range(length.chains)]
        return cls(
            part=part,
            nuts=nuts,
            rows=rows,
            draws=_outside(part, found, length.chains),
            last=last,
            tune=length.tune if start is None else WARM_TUNE * length.tune,
        )

    def with_rows(
        self, rows: Rows, *, shorter: int = 1, rng: np.random.Generator, tick: Tick = quiet
    ) -> "SampledPart":
        """The same regression of other rows, started where these chains stopped."""
        chains = self.draws.n_chains
        length = Length(
            draws=max(len(self.draws) // chains // shorter, 4),
            tune=max(self.tune // WARM_TUNE, 50),
            chains=chains,
        )
        return SampledPart.fitted(
            self.part, rows, self.nuts, length, start=self.last, rng=rng, tick=tick
        )

    def doubled(self, *, rng: np.random.Generator) -> "SampledPart":
        """As many draws again, chains going on where they stopped."""
        more = self.with_rows(self.rows, rng=rng)
        return replace(more, draws=_joined(self.draws, more.draws))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExternalPart:
    """A regression of which there are draws and nothing else."""

    part: Part
    draws: Coefficients


PartPosterior = ExactPart | SampledPart  # may be drawn again
FittedPart = PartPosterior | ExternalPart


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegressionPosterior:
    """p(Theta | data) of those regressions whose parameters the release can inform."""

    parts: Sequence[PartPosterior]

    @property
    def n_draws(self) -> int:
        """Number H of draws."""
        return min(len(part.draws) for part in self.parts)

    @property
    def n_sweeps(self) -> int:
        """Steps of each chain."""
        return self.n_draws // self.parts[0].draws.n_chains

    def predictives(
        self, targets: Targets, *, rng: np.random.Generator
    ) -> list[RegressionPredictive]:
        """One for each regression in which a guess appears, as outcome or in the formula."""
        return [
            RegressionPredictive(
                parts=[p.part], draws=[p.draws], targets=targets, batch=segments(p.draws)
            )
            for p in self.touched(targets)
        ]

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "RegressionPosterior":
        """As many draws again."""
        children = rng.spawn(len(self.parts))
        parts = [p.doubled(rng=c) for p, c in zip(self.parts, children, strict=True)]
        return RegressionPosterior(parts=parts)

    def touched(self, targets: Targets) -> list[PartPosterior]:
        """Regressions in which a guess appears."""
        guessed = set(targets.columns.tolist())
        return [p for p in self.parts if guessed & p.part.uses]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExternalDraws:
    """Draws of Theta that cannot be drawn again, for other data or for longer."""

    parts: Sequence[ExternalPart]

    @property
    def n_draws(self) -> int:
        """Number H of draws."""
        return len(self.parts[0].draws)


def segments(draws: Coefficients) -> Ints:
    """Batches for the Monte Carlo error, an even number; one chain alone is cut into up to five."""
    chains = draws.n_chains
    if chains == 1 and len(draws) >= 25:
        chains = next(c for c in (5, 4, 3, 2, 1) if len(draws) % c == 0)
    return batch_of_draws(len(draws), chains)


def _drawn(
    part: Part, known: NormalInverseGamma, size: int, chains: int, rng: np.random.Generator
) -> Coefficients:
    beta, sigma = known.draws(size, rng)
    slopes, extra = part.scaling.outside(beta, {"sigma": sigma})
    return Coefficients(beta=slopes, extra=extra, n_chains=chains)


def _outside(part: Part, found: dict[str, Array], chains: int) -> Coefficients:
    """Draws (chains, draws, ...) as sampled to the original scale, chain after chain."""
    flat = {k: v.reshape(-1, *v.shape[2:]) for k, v in found.items()}
    H = len(next(iter(flat.values())))
    beta = flat.get("beta", np.zeros((H, 0, *n_outcomes(part))))
    slopes, extra = part.scaling.outside(beta, extra_of(flat))
    return Coefficients(beta=slopes, extra=extra, n_chains=chains)


def _joined(one: Coefficients, other: Coefficients) -> Coefficients:
    """Draws of the same chains, first one's, then the other's."""

    def together(a: Array, b: Array) -> Array:
        C = one.n_chains
        both = [x.reshape(C, -1, *x.shape[1:]) for x in (a, b)]
        joined = np.concatenate(both, axis=1)
        return joined.reshape(-1, *joined.shape[2:])

    return Coefficients(
        beta=together(one.beta, other.beta),
        extra={k: together(v, other.extra[k]) for k, v in one.extra.items()},
        n_chains=one.n_chains,
    )


def closed(held: FittedPart) -> ExactPart:
    """The regression, if its estimate is known in closed form."""
    if isinstance(held, ExactPart):
        return held
    raise InputError(
        'parameters="plug-in" is offered for normal and log-normal regressions fitted here; column '
        f"{held.part.name!r} has family {type(held.part.family).__name__}, or draws brought from "
        'elsewhere: use parameters="independent"'
    )


def estimate(held: ExactPart) -> Coefficients:
    """The estimate from the confidential table, as one draw on the original scale."""
    known = held.known
    sigma = np.sqrt([known.b / known.a])
    beta, extra = held.part.scaling.outside(known.mean[None], {"sigma": sigma})
    return Coefficients(beta=beta, extra=extra, n_chains=1)


def log_release_at_estimate(
    held: ExactPart, released: Sequence[Moments], targets: Targets
) -> Array:
    """log p(Z^(l) | Theta-hat(y*, y_-i)) up to a constant, shape (m, G, U), block by block.

    ``released``: moments of each data set's rows. Cost: a k x k system for each guess and target.
    """
    G, U = targets.guesses.codes.shape[:2]
    out = np.empty((len(released), G, U))
    k = len(held.part.design.names)
    for block in blocks(U, G * (k * (k + 2) + targets.profiles.shape[1])):
        out[:, :, block] = _of_block(held, released, targets, block)
    return out


def _of_block(
    held: ExactPart, released: Sequence[Moments], targets: Targets, block: slice
) -> Array:
    star = held.guessed(targets, block)
    beta, s2 = _estimates(held, star, targets.weight[block])
    out = np.empty((len(released), *s2.shape))
    for l, z in enumerate(released):
        fit = z.yy - 2.0 * beta @ z.xy + np.einsum("guk,guk->gu", beta @ z.xx, beta)
        out[l] = np.where(star.possible, -0.5 * (z.n * np.log(s2) + fit / s2), -np.inf)
    return out[:, star.cell]


def _estimates(held: ExactPart, star: Guessed, weight: Array) -> tuple[Array, Array]:
    """beta (G, U, k) and sigma^2 (G, U) with each guess in the place of the target's own row."""
    known, data, tau = held.known, held.known.data, held.known.prior.tau
    x, y, w = star.own.X, star.own.y, weight[None, :, None]
    precision = data.xx + np.diag(np.where(np.isinf(tau), 0.0, tau**-2.0))
    came = star.X[..., :, None] * star.X[..., None, :]  # shape (G, U, k, k)
    xx = precision + w[..., None] * (came - x[:, :, None] * x[:, None, :])
    xy = data.xy + w * (star.X * star.y[..., None] - x * y[:, None])
    yy = data.yy + weight * (star.y**2 - y**2)
    try:
        beta = np.linalg.solve(xx, xy[..., None])[..., 0]
    except np.linalg.LinAlgError as error:
        raise ModelError(
            "a record alone determines a coefficient, which has no estimate with a guess in its "
            "place under a flat prior; give finite prior scales"
        ) from error
    b = known.prior.b + 0.5 * np.maximum(yy - np.einsum("guk,guk->gu", beta, xy), 0.0)
    return beta, np.maximum(b, np.finfo(float).tiny) / known.a
