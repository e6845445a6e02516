"""How long chains run, what `pymc.sample` is told, what is kept of it, and sums over draws."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from bayes_risk._compat import draws_object, group, group_names, taken_apart
from bayes_risk._core.arrays import Array, Ints, Rng
from bayes_risk._core.checkpoint import stage
from bayes_risk._core.parallel import forking
from bayes_risk._core.validate import whole_number
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Targets

MAX_CELLS = 2_000_000  # numbers in an array of rows x draws


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long to sample: kept draws, ``thin`` steps apart, and warm-up, of so many chains."""

    draws: int
    tune: int
    chains: int
    thin: int = 1

    @classmethod
    def checked(cls, *, draws: int, tune: int, chains: int, thin: int = 1) -> "Length":
        """As a user asks for it."""
        return cls(
            draws=whole_number("draws", draws, 4),
            tune=whole_number("tune", tune),
            chains=whole_number("chains", chains),
            thin=whole_number("thin", thin),
        )

    @property
    def steps(self) -> int:
        """Steps of all chains."""
        return self.chains * (self.draws + self.tune)

    def options(self, n_jobs: int, seed: Rng) -> dict[str, Any]:
        """Arguments of `pymc.sample`: silent, its seed drawn here."""
        return {
            "draws": self.draws,
            "tune": self.tune,
            "chains": self.chains,
            "cores": min(self.chains, n_jobs),
            "random_seed": int(seed.integers(2**31)),
            "progressbar": False,
            "compute_convergence_checks": False,
            "quiet": True,
        }


def mixing(ess: Array, rhat: Array, chains: int) -> dict[str, float]:
    """Worst and median effective sample size and R-hat (which one chain alone does not have)."""
    return {
        "max_rhat": float(np.nanmax(rhat)) if chains > 1 else float("nan"),
        "median_rhat": float(np.nanmedian(rhat)) if chains > 1 else float("nan"),
        "min_ess": float(ess.min()),
        "median_ess": float(np.median(ess)),
    }


def kept_chains(sample: Callable[[], Any], length: Length) -> Any:
    """ArviZ's record of chains, kept. PyMC swallows Ctrl-C and returns the draws it has."""

    def whole() -> Any:
        with forking():
            idata = sample()
        sizes = group(idata, "posterior").sizes
        if (sizes["chain"], sizes["draw"]) != (length.chains, length.draws):
            raise KeyboardInterrupt
        return {name: taken_apart(group(idata, name)) for name in group_names(idata)}

    parts = stage("draws", whole)
    return draws_object({name: xr.Dataset.from_dict(part) for name, part in parts.items()})


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DrawnPredictive(ABC):
    """Draws of p(y* | theta_h), to the power of the target's weight; nothing is integrated out."""

    targets: Targets
    batch: Ints  # shape (H,): halves of chains, in order

    @property
    @abstractmethod
    def uses(self) -> frozenset[int]:
        """Columns that the density depends on."""

    @abstractmethod
    def log_density(self, codes: Codes) -> Array:
        """log p(row | theta_h) of coded rows (R, p), shape (H, R)."""

    def log_truth(self, block: slice) -> Array:
        return self.log_density(self.targets.profiles[block]) * self.targets.weight[block]

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        t = self.targets
        codes, cell = t.rows(self.uses, block)
        (G, U, p), H = codes.shape, len(self.batch)
        log_v, power = log_weights - self.log_truth(block), t.weight[block]
        out = np.empty((len(np.unique(self.batch)), G, U))
        for some in blocks(U, G * H):
            log_p = self.log_density(codes[:, some].reshape(-1, p)).reshape(H, G, -1)
            terms = log_p * power[some] + log_v[:, None, some]
            out[:, :, some] = log_sums_of_batches(terms, self.batch, axis=0)
        return out[:, cell]
