"""Posteriors of regressions in sequence: part by part, for parts are independent a posteriori.

Normal regression under record weights: what a record adds, with the parameters integrated out.

With p(y | beta, sigma)^w the normal-inverse-gamma prior stays conjugate: X'WX, X'Wy, y'Wy and the
sum of the weights take the place of X'X, X'y, y'y and n. Derivation:
`docs/sensitivity.md`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.errors import ModelError
from bayes_risk.evidence.contract import Targets
from bayes_risk.models.fits.sampling import Length

from .conjugate import LEVERAGE, ConjugatePrior, Moments, NormalInverseGamma
from .families import LogNormal
from .glm import Nuts, extra_of
from .part import Coefficients, Part, Rows, n_outcomes
from .predictive import RegressionPredictive, blocks

Array = npt.NDArray[np.float64]


def log_pseudo_predictive(
    known: NormalInverseGamma, x: Array, y: Array, x_star: Array, y_star: Array, weight: Array
) -> Array:
    """log E[p(y* | x*, beta, sigma)^w | data without (x, y) of weight w], shape (G, U).

    ``x`` (U, k), ``y`` (U,), ``weight`` (U,); ``x_star`` (G, U, k), ``y_star`` (G, U). With w = 1
    it is `NormalInverseGamma.log_predictive`.
    """
    V_x = x @ known.V  # shape (U, k)
    left = 1.0 - weight * np.einsum("uk,uk->u", V_x, x)
    if (left < LEVERAGE).any():
        raise ModelError(
            f"{int((left < LEVERAGE).sum())} records alone determine a coefficient, which has no "
            "posterior without them under a flat prior; give finite prior scales"
        )
    error = y - x @ known.mean
    # without i: beta - w V x e / (1 - w h),  V + w V x x'V / (1 - w h),  b - w e^2 / 2(1 - w h)
    cross = np.einsum("guk,uk->gu", x_star, V_x)
    centre = x_star @ known.mean - weight * cross * error / left
    spread = np.einsum("guk,guk->gu", x_star @ known.V, x_star) + weight * cross**2 / left
    a = known.a - 0.5 * weight
    if (a <= 0).any():
        raise ModelError(
            f"records of weight {known.data.n:.3g} in all do not determine {len(known.mean)} "
            "coefficients under a flat prior; give finite prior scales"
        )
    b = np.maximum(known.b - 0.5 * weight * error**2 / left, np.finfo(float).tiny)
    wider = 1.0 + weight * spread  # |V without i| / |V with y* in its place|
    norm = gammaln(a + 0.5 * weight) - gammaln(a) - 0.5 * weight * np.log(2.0 * np.pi * b)
    shift = weight * (y_star - centre) ** 2 / (2.0 * b * wider)
    density: Array = norm - 0.5 * np.log(wider) - (a + 0.5 * weight) * np.log1p(shift)
    return density


Tick = Callable[[int], None]
WARM_TUNE = 4  # of the base fit's warm-up, one in so many steps suffices for a warm start


def quiet(done: int) -> None:
    """Show nothing."""


class HeldPart(Protocol):
    """Draws of one regression, wherever they come from."""

    @property
    def part(self) -> Part:
        """Which regression."""
        ...

    @property
    def draws(self) -> Coefficients:
        """Draws of its parameters."""
        ...


class PartPosterior(HeldPart, Protocol):
    """p(theta | some rows) of one regression, which can be drawn again."""

    @property
    def rows(self) -> Rows:
        """The rows: the confidential table's, below them those of a release."""
        ...

    def with_rows(
        self, rows: Rows, *, shorter: int = 1, rng: np.random.Generator, tick: Tick = quiet
    ) -> "PartPosterior":
        """The same regression of other rows, with as many draws (divided by ``shorter``)."""
        ...

    def doubled(self, *, rng: np.random.Generator) -> "PartPosterior":
        """As many draws again."""
        ...


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
    possible: npt.NDArray[np.bool_]
    cell: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExactPart:
    """A normal (or log-normal) regression, its posterior in closed form and drawn exactly."""

    part: Part
    rows: Rows
    known: NormalInverseGamma
    draws: Coefficients

    @classmethod
    def of(
        cls, part: Part, rows: Rows, n: int, chains: int, rng: np.random.Generator
    ) -> "ExactPart":
        """Fit and draw n times for each of so many chains (they are independent anyway)."""
        prior = ConjugatePrior(tau=part.scales(), a=part.prior.sigma2[0], b=part.prior.sigma2[1])
        known = prior.posterior(Moments.of(rows.X, rows.y, rows.weights))
        draws = _drawn(part, known, n * chains, chains, rng)
        return cls(part=part, rows=rows, known=known, draws=draws)

    def with_rows(
        self, rows: Rows, *, shorter: int = 1, rng: np.random.Generator, tick: Tick = quiet
    ) -> "ExactPart":
        """The same regression of other rows."""
        chains = self.draws.n_chains
        n = max(len(self.draws) // chains // shorter, 4)
        return ExactPart.of(self.part, rows, n, chains, rng)

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
        if self.rows.weights is None:
            density = self.known.log_predictive(*rows, targets.fitted[block])
        else:
            density = log_pseudo_predictive(self.known, *rows, weight)
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
    def of(
        cls,
        part: Part,
        rows: Rows,
        nuts: Nuts,
        length: Length,
        *,
        start: Any = None,
        rng: np.random.Generator,
        tick: Tick,
    ) -> "SampledPart":
        """Sample p(theta | rows)."""
        found = nuts.run(rows, length, start=start, rng=rng, tick=tick)
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
        return SampledPart.of(
            self.part, rows, self.nuts, length, start=self.last, rng=rng, tick=tick
        )

    def doubled(self, *, rng: np.random.Generator) -> "SampledPart":
        """As many draws again, chains going on where they stopped."""
        more = self.with_rows(self.rows, rng=rng)
        return replace(more, draws=_joined(self.draws, more.draws))


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


def segments(draws: Coefficients) -> npt.NDArray[np.int64]:
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
