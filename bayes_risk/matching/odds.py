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

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import by_label

from .population import Population

Outsiders = Population | Sequence[Population] | npt.ArrayLike | None

GIVEN, IN_FILE = "population counts as given", "in the file"


class Odds(NamedTuple):
    """``D`` (m, n_t); ``words``: where the counts come from; ``estimated``: by a model."""

    D: Array
    words: str
    estimated: bool


def how_many_may_be(
    population: Outsiders, targets: pd.DataFrame, N: Ints, keys: Sequence[str], inexact: Any
) -> Odds:
    """D of every target and release, from match counts N (m, n_t) and the population."""
    if population is None:
        return Odds(N.astype(float), IN_FILE, False)
    counts, words = _counts(population, targets, len(N), keys, inexact)  # shape (1 or m, S, n_t)
    each = np.maximum(counts, N[:, None])  # shape (m, S, n_t)
    estimated = any(not one.known for one in _populations(population))
    if each.shape[1] == 1:
        return Odds(each[:, 0], words, estimated)
    with np.errstate(divide="ignore"):
        D = 1 / (1 / each).mean(axis=1)  # harmonic mean over draws
    near = np.rint(D)  # of equal whole numbers it is that number
    return Odds(np.where(np.isclose(D, near, rtol=1e-12, atol=0.0), near, D), words, estimated)


def per_table(population: Outsiders, release_of: Ints | None) -> Outsiders:
    """Of tables drawn given releases: a population a release becomes one a table."""
    each = _populations(population)
    if release_of is None or len(each) < 2 or len(each) != len(set(release_of.tolist()) - {0}):
        return population
    return [each[l - 1] for l in release_of]


def check_sample(population: Any, original: pd.DataFrame) -> None:
    """Counted people are not fewer than in the original, their sample; arrays are as they are."""
    for one in _populations(population):
        if one.known:
            own = Population.counted(original, one.keys)
            one.checked_counts(original, own.counts(original)[0])


def _populations(population: Any) -> list[Population]:
    """The `Population` given, or all of a list; none if counts were given as an array."""
    if isinstance(population, Population):
        return [population]
    if not isinstance(population, Sequence) or isinstance(population, str):
        return []
    found = [one for one in population if isinstance(one, Population)]
    if found and len(found) < len(population):
        other = next(one for one in population if not isinstance(one, Population))
        raise InputError(
            f"population is a list of Population and of {other!r}; give a Population for each "
            "release, or an array of counts"
        )
    return found


def _counts(
    population: Any, targets: pd.DataFrame, m: int, keys: Sequence[str], inexact: Mapping[str, Any]
) -> tuple[Array, str]:
    each = _populations(population)
    if not each:
        return _given(population, targets.index, m)[:, None], GIVEN
    if len(each) not in (1, m):
        raise InputError(
            f"population is a list of {len(each)} for m = {m} releases; give one, or one a release"
        )
    if inexact:
        raise InputError(
            f"population counts go by exact keys, and {list(inexact)} match within a radius: count "
            "the people of the population within each target's radius and give an array, or cut "
            "these keys into categories"
        )
    for by in (one.keys for one in each):
        if set(by) != set(keys):
            raise InputError(
                f"population counts go by {list(by)}, and keys are {list(keys)}: count people by "
                "all keys, and give population.over(keys) of more"
            )
    words = list(dict.fromkeys(one.in_words() for one in each))
    description = words[0] if len(each) == 1 else f"one for each release: {'; '.join(words)}"
    return np.stack([one.counts(targets) for one in each]), description


def _given(population: Any, targets: pd.Index, m: int) -> Array:
    """Counts as an array, (1 or m, n_t); missing ones are not numbers above 0."""
    n_targets, what = len(targets), type(population).__name__
    if isinstance(population, pd.Series):
        if not population.index.is_unique or not targets.isin(population.index).all():
            raise InputError(
                "population is a Series whose index does not name every target once; give it the "
                "index of the targets, or an array in their order"
            )
        further = len(population) > n_targets
        population = (
            population.loc[targets] if further else by_label(population, targets, "population")
        ).to_numpy()
    try:
        values = np.asarray(population)
        text = values.dtype == object and any(isinstance(v, str) for v in values.ravel())
        if text or values.dtype.kind in "USb":
            raise TypeError
        counts = np.asarray(pd.array(values.ravel()).to_numpy(float, na_value=np.nan))
    except (TypeError, ValueError):
        shown = repr(population) if isinstance(population, str) else f"a {what}"
        raise InputError(
            f"population is {shown} that does not hold a number for each target; give an array of "
            "counts, a Series of them by label, or a Population"
        ) from None
    counts = np.atleast_2d(counts.reshape(values.shape))
    if counts.ndim != 2 or counts.shape[1] != n_targets or counts.shape[0] not in (1, m):
        raise InputError(
            f"population has shape {values.shape}; give a count for each of the "
            f"{n_targets} targets, or {m} x {n_targets} of them, one row a release"
        )
    wrong = np.argwhere(~((counts > 0) & np.isfinite(counts)))
    if len(wrong):
        l, i = wrong[0]
        raise InputError(
            f"population is {counts[l, i]:g} for target number {i + 1} "
            f"({len(wrong):,} of {counts.size:,} counts are not numbers above 0); give finite "
            "numbers above 0: the target is one of those who carry the keys"
        )
    return counts
