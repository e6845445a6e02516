"""Noise of published counts: the probability of what was published given the true count.

A count t is published for a true count f of records. ``"geometric"``: ``P(t|f)`` proportional to
``exp(-|t-f|/scale)`` over whole numbers (Ghosh, Roughgarden & Sundararajan 2012);
``"discrete-gaussian"``: to ``exp(-(t-f)^2 / (2 scale^2))`` (Canonne, Kamath & Steinke 2020);
``"laplace"`` and ``"gaussian"``: the same as densities; ``"cell-key"``: by a published table of
perturbation probabilities (Thompson, Broadfoot & Elazar 2013); ``"random-rounding"``: to one of the
two multiples of ``base`` around f, without bias; ``"rounding"``: to the nearest, halves up.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import one_of, positive, whole_number

PURE = ("geometric", "laplace")  # of pure differential privacy
NOISES = {
    **dict.fromkeys((*PURE, "gaussian", "discrete-gaussian"), "scale"),
    "cell-key": "p_table",
    **dict.fromkeys(("random-rounding", "rounding"), "base"),
}
CURES = {
    "scale": "a positive number: the scale of the noise, or its standard deviation if Gaussian",
    "base": "a whole number from 2 on, to whose multiples counts are rounded",
    "p_table": "a DataFrame: a row for each true count from 0 on, a column for each change",
}
WITHOUT_LATTICE = ("laplace", "gaussian")
SUMS_TO_ONE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """A kind of noise with its one setting, checked."""

    kind: str
    scale: float | None = None
    base: int | None = None
    p_table: pd.DataFrame | None = None

    def __post_init__(self) -> None:
        needs = NOISES[one_of("noise", self.kind, NOISES)]
        for name in CURES:
            given = getattr(self, name)
            if name == needs and given is None:
                raise InputError("noise", self.kind, f"needs {name}; give {CURES[name]}")
            if name != needs and given is not None:
                raise InputError(f"{name} has no effect with noise={self.kind!r}; leave it out")
        if needs == "scale":
            object.__setattr__(self, "scale", positive("scale", self.scale))
        elif needs == "base":
            whole_number("base", self.base, 2)
        else:
            object.__setattr__(self, "p_table", checked_p_table(self.p_table))

    def log_p(self, t: Array, f: Array) -> Array:
        """log P(t | f), or its density, element by element; minus infinity: impossible."""
        with np.errstate(divide="ignore"):
            if self.kind == "cell-key":
                return self._of_table(t, f)
            if self.base is not None:
                return np.asarray(np.log(self._rounded(t, f, self.base)))
        assert self.scale is not None
        s, change = self.scale, t - f
        if self.kind in PURE:
            # sum over k of exp(-|k|/s) = coth(1 / 2s); the integral is 2 s
            total = np.log(2 * s) if self.kind == "laplace" else -np.log(np.tanh(0.5 / s))
            return np.asarray(-np.abs(change) / s - total)
        return np.asarray(-0.5 * (change / s) ** 2 - np.log(self._gaussian_sum(s)))

    def _gaussian_sum(self, s: float) -> float:
        """Integral of exp(-x^2 / (2 s^2)), or its sum over whole numbers (Poisson's formula)."""
        if self.kind == "gaussian" or s >= 1:
            discrete = 0.0 if self.kind == "gaussian" else 2 * np.exp(-2 * (np.pi * s) ** 2)
            return float(s * np.sqrt(2 * np.pi) * (1 + discrete))
        return float(np.exp(-0.5 * (np.arange(-40, 41) / s) ** 2).sum())

    def _rounded(self, t: Array, f: Array, b: int) -> Array:
        below, r = f - f % b, f % b
        if self.kind == "rounding":
            return np.asarray((t == b * np.floor((f + b / 2) / b)).astype(float))
        return np.asarray(np.where(t == below, 1 - r / b, np.where(t == below + b, r / b, 0.0)))

    def _of_table(self, t: Array, f: Array) -> Array:
        assert self.p_table is not None
        p, changes = self.p_table.to_numpy(), self.p_table.columns.to_numpy()
        row = np.minimum(f, len(p) - 1).astype(np.int64)
        at = np.searchsorted(changes, t - f).clip(max=len(changes) - 1)
        return np.asarray(np.log(np.where(changes[at] == t - f, p[row, at], 0.0)))

    @property
    def epsilon(self) -> float:
        """Largest log ratio of P(t|f) and P(t|f+1) over all t and f; infinite: unbounded."""
        if self.kind in PURE:
            assert self.scale is not None
            return 1 / self.scale
        if self.p_table is None:
            return np.inf
        rows, changes = len(self.p_table), self.p_table.columns.to_numpy()
        worst = 0.0
        for f in range(rows + 1):  # from the last row on the same law moves along
            t = np.unique(np.concatenate([f + changes, f + 1 + changes])).astype(float)
            a, b = self.log_p(t, np.full(len(t), f)), self.log_p(t, np.full(len(t), f + 1))
            possible = (a > -np.inf) | (b > -np.inf)
            worst = max(worst, float(np.abs(a[possible] - b[possible]).max()))
        return worst

    def in_words(self) -> str:
        """One phrase for reports."""
        if self.kind == "cell-key":
            return "cell-key perturbation with a published table of probabilities"
        setting = f"base {self.base}" if self.base is not None else f"scale {self.scale:g}"
        return f"{self.kind} noise of {setting}" if self.base is None else f"{self.kind}, {setting}"


def checked_p_table(given: Any) -> pd.DataFrame:
    """Perturbation probabilities of true counts 0, 1, ..., the last row of all larger ones too."""
    if not isinstance(given, pd.DataFrame) or given.empty:
        raise InputError(f"p_table is not a table; give {CURES['p_table']}")
    try:
        p = given.to_numpy(dtype=float)
        counts, changes = (np.asarray(a, dtype=float) for a in (given.index, given.columns))
    except (TypeError, ValueError):
        raise InputError(f"p_table holds text; give {CURES['p_table']}") from None
    if (counts != np.arange(len(counts))).any() or (changes % 1 != 0).any():
        raise InputError(
            "p_table: its index is not the true counts 0, 1, 2, ..., or its columns are not whole "
            f"changes; give {CURES['p_table']}"
        )
    if not given.columns.is_unique:
        raise InputError("p_table names a change twice; give each change one column")
    if not (p >= 0).all():
        raise InputError("p_table has negative or missing entries; give probabilities")
    wrong = np.flatnonzero(np.abs(p.sum(axis=1) - 1) > SUMS_TO_ONE)
    if len(wrong):
        raise InputError(
            f"p_table: row {wrong[0]} adds up to {p[wrong[0]].sum():.6g}; the probabilities of "
            "every row must add up to 1"
        )
    return pd.DataFrame(p, counts.astype(int), changes.astype(int)).sort_index(axis=1)
