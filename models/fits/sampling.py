"""How long chains run, what `pymc.sample` is told, and how well the chains mixed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.validate import at_least

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long to sample: kept draws and warm-up of each of so many chains."""

    draws: int
    tune: int
    chains: int

    @classmethod
    def checked(cls, *, draws: int, tune: int, chains: int) -> "Length":
        """As a user asks for it."""
        return cls(
            draws=at_least("draws", draws, 4),
            tune=at_least("tune", tune, 0),
            chains=at_least("chains", chains, 1),
        )

    @property
    def steps(self) -> int:
        """Steps of all chains."""
        return self.chains * (self.draws + self.tune)

    def options(self, n_jobs: int, seed: np.random.Generator) -> dict[str, Any]:
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
