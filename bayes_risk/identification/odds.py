"""How many people may be the target: the records that match, or the population that could.

A record that matches in release l is the target with probability min(1/F_t, 1/N_{t,l}) (Drechsler
& Reiter 2008, eq. 7), which is one in D = max(F_t, N_{t,l}); with draws of F_t, D is the harmonic
mean of that maximum.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.population.population import Population

Ids = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Outsiders = Population | Sequence[Population] | npt.ArrayLike | None


class Odds(NamedTuple):
    """``D`` (m, n_t); ``words``: where the population counts come from."""

    D: Reals
    words: str


def how_many_may_be(
    population: Outsiders, targets: pd.DataFrame, N: Ids, keys: Sequence[str], inexact: Any
) -> Odds:
    """D of every target and release, from match counts N (m, n_t) and the population."""
    if population is None:
        return Odds(N.astype(float), "in the file")
    counts, words = _counts(population, targets, len(N), keys, inexact)  # shape (1 or m, S, n_t)
    each = np.maximum(counts, N[:, None])  # shape (m, S, n_t)
    return Odds(each[:, 0] if each.shape[1] == 1 else _harmonic(each), words)


def check_sample(population: Any, original: pd.DataFrame) -> None:
    """Known counts are not below those of the original, which is a sample of the population.

    Counts given as arrays may be estimates, and are taken as they are.
    """
    if population is None or _is_array(population):
        return
    for one in [population] if isinstance(population, Population) else population:
        if isinstance(one, Population) and one.known:
            own = Population.counted(original, one.keys)
            one.checked_counts(original, own.counts(original)[0])


def _harmonic(counts: Reals) -> Reals:
    """Harmonic mean over draws, axis 1; of equal whole numbers it is that number."""
    with np.errstate(divide="ignore"):
        D: Reals = 1 / (1 / counts).mean(axis=1)
    near = np.rint(D)
    return np.where(np.isclose(D, near, rtol=1e-12, atol=0.0), near, D)


def _is_array(population: Any) -> bool:
    if isinstance(population, Population):
        return False
    if not isinstance(population, Sequence):
        return True
    return not any(isinstance(one, Population) for one in population)


def _counts(
    population: Any, targets: pd.DataFrame, m: int, keys: Sequence[str], inexact: Mapping[str, Any]
) -> tuple[Reals, str]:
    if _is_array(population):
        return _given(population, targets.index, m)[:, None], "population counts as given"
    each = [population] if isinstance(population, Population) else list(population)
    if len(each) not in (1, m):
        raise InputError(
            f"population is a list of {len(each)} for m = {m} releases; give one, or one a release"
        )
    for one in each:
        _fits(one, keys, inexact)
    words = list(dict.fromkeys(one.in_words() for one in each))
    said = words[0] if len(each) == 1 else f"one for each release: {'; '.join(words)}"
    return np.stack([one.counts(targets) for one in each]), said


def _fits(population: Population, keys: Sequence[str], inexact: Mapping[str, Any]) -> None:
    for name in population.keys:
        if name not in keys:
            raise InputError(
                f"population counts go by {name!r}, which is no key ({list(keys)}): give "
                "population.over(keys), or name it under known"
            )
    if inexact:
        raise InputError(
            f"population counts go by exact keys, and {list(inexact)} match within a radius: count "
            "the people of the population within each target's radius and give an array, or cut "
            "these keys into categories"
        )
    absent = [name for name in keys if name not in population.keys]
    if absent:
        raise InputError(
            f"population counts go by {list(population.keys)} and not by {absent[0]!r}, which the "
            "intruder knows too, so they are too large; count people by all keys"
        )


def _given(population: Any, targets: pd.Index, m: int) -> Reals:
    n_targets = len(targets)
    if isinstance(population, pd.Series):
        population = _by_label(population, targets)
    counts = np.atleast_2d(np.asarray(population, dtype=float))
    if counts.ndim != 2 or counts.shape[1] != n_targets or counts.shape[0] not in (1, m):
        raise InputError(
            f"population has shape {np.shape(population)}; give a count for each of the "
            f"{n_targets} targets, or {m} x {n_targets} of them, one row a release"
        )
    if not np.isfinite(counts).all() or (counts < 0).any():
        raise InputError("population holds negative or infinite counts; give numbers >= 0")
    return counts


def _by_label(counts: pd.Series, targets: pd.Index) -> pd.Series:
    if not counts.index.is_unique or not targets.isin(counts.index).all():
        raise InputError(
            "population is a Series whose index does not name every target once; give it the "
            "index of the targets, or an array in their order"
        )
    return counts.loc[targets]
