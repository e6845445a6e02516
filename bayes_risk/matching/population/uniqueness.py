"""Sample uniques, k-anonymity, and who else in the population carries a record's key.

Chances that nobody else carries a key, and the mean of ``1/F``, given the sample count.

Letters: ``f`` sample count and ``F`` population count of a cell. Derivations:
``docs/population.md``.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from bayes_risk._core.errors import InputError
from bayes_risk.evidence.diagnostics import ess_and_rhat

from .keys import KeyLevels, checked_table, distinct
from .population import Population
from .uniqueness_result import FileTotal, Uniqueness

Reals = npt.NDArray[np.float64]


def poisson_unique(f: Reals, rest: Reals) -> Reals:
    """``Pr(F = 1 | f) = exp(-rest)`` for f = 1, else 0; ``F - f ~ Poisson(rest)``."""
    return np.where(f == 1, np.exp(-rest), 0.0)


def poisson_inverse(f: Reals, rest: Reals) -> Reals:
    r"""Mean of ``1/F`` when ``F - f ~ Poisson(rest)``.

    .. math:: E(1/F \mid f) = \int_0^1 t^{f-1} e^{-r(1-t)}\,dt = {}_1F_1(1;\, f+1;\, -r) / f

    For f = 1 this is ``(1 - exp(-r)) / r``.

    Parameters
    ----------
    f : ndarray
        Sample counts, at least 1.
    rest : ndarray
        Expected number r of others in the population, at least 0.

    Returns
    -------
    ndarray
        Between 0 and 1/f; 1/f for r = 0.

    Examples
    --------
    >>> np.round(poisson_inverse(np.array([1.0, 2.0]), np.array([3.0, 0.0])), 4)
    array([0.3167, 0.5   ])
    """
    return np.asarray(special.hyp1f1(1.0, f + 1.0, -rest) / f)


def negative_binomial_unique(f: Reals, p: Reals) -> Reals:
    """``Pr(F = 1 | f) = p`` for f = 1, else 0; ``F | f`` negative binomial with p."""
    return np.where(f == 1, p, 0.0)


def negative_binomial_inverse(f: Reals, p: Reals) -> Reals:
    r"""Mean of ``1/F`` when F is negative binomial given f: the individual risk of mu-Argus.

    .. math:: E(1/F \mid f) = \int_0^1 \frac{w^{f-1}\, p}{p + (1-p) w}\,dw
              = \frac pf\; {}_2F_1(1, 1;\, f+1;\, 1-p)

    for all f; a series of positive terms. Benedetti & Franconi (1998) write it as
    ``p^f / f 2F1(f, f; f+1; 1-p)``, of which this is Euler's transformation.

    Parameters
    ----------
    f : ndarray
        Sample counts, at least 1.
    p : ndarray
        Sampling rate of the cell, ``f / sum of weights``, in (0, 1].

    Returns
    -------
    ndarray
        Between p/f and 1/f.

    Examples
    --------
    The francdat records of sdcMicro: f = 1 with weights of 17, f = 2 with weights of 110.

    >>> np.round(negative_binomial_inverse(np.array([1.0, 2.0]), np.array([1 / 17, 2 / 110])), 7)
    array([0.1770758, 0.0171443])
    """
    return np.asarray(p / f * special.hyp2f1(1.0, 1.0, f + 1.0, 1.0 - p))


Ids = npt.NDArray[np.int64]
MASS = 0.95


class Rarity(NamedTuple):
    """Of U distinct keys: mean F, chance that F = 1, mean of 1/F; and file totals (S, 3)."""

    F: Reals
    unique: Reals
    risk: Reals
    totals: Reals


def uniqueness(
    df: pd.DataFrame,
    keys: Sequence[str],
    *,
    population: Population | None = None,
    fraction: float | None = None,
    weights: str | None = None,
) -> Uniqueness:
    r"""Count the sample uniques, and estimate how many of them are unique in the population.

    For record i with key t, f of the n records hold t and F of the people in the population:

    .. math:: \tau_1 = \sum_{f_i = 1} \Pr(F_i = 1 \mid f_i = 1), \qquad
              \tau_2 = \sum_{f_i = 1} E(1/F_i \mid f_i = 1)

    (Skinner & Elliot 2002; Elamir & Skinner 2006).

    Parameters
    ----------
    df : DataFrame of n records
        The sample. Never changed.
    keys : list of str
        Columns that the intruder knows. Missing values are a level of their own.
    population : Population, optional
        Where F comes from; its keys must be `keys`, in any order.
    fraction : float, optional
        Sampling fraction in (0, 1]: short for
        ``population=Population.log_linear(df, keys, fraction=fraction)``.
    weights : str, optional
        Column of survey weights: short for ``Population.weighted(df, keys, weights=weights)``.

    Returns
    -------
    Uniqueness
        Per record, and over the file. Without a population: sample counts and k-anonymity alone.

    Raises
    ------
    InputError
        More than one of population, fraction and weights; a population by other keys, or in which
        some key is rarer than in the sample; and all that `Population` refuses.

    Notes
    -----
    *Given the population*, F is known: tau_1 counts, and tau_2 adds up 1/F.

    *Log-linear, without draws.* F - f ~ Poisson(r), r = mu (1 - pi)/pi, so that
    Pr(F = 1 | f = 1) = exp(-r), E(1/F | f = 1) = (1 - exp(-r))/r, and
    E(1/F | f) = 1F1(1; f+1; -r)/f.
    These hold mu for known. *With draws* they are averages over the draws of F, with a 95 %
    posterior interval of the number itself, and the Monte Carlo error of its mean.

    *Weights.* F | f is negative binomial with p = f / (sum of weights): the individual risk of
    mu-Argus, Pr(F = 1 | f = 1) = p and E(1/F | f) = (p/f) 2F1(1, 1; f+1; 1-p), exact for every f.

    *Without* is the intruder who knows that the target is in the sample: 1/f.

    *Cost.* O(n log n) to count; the rest once for each distinct key (times S with draws).

    References
    ----------
    Skinner, C. J. and Elliot, M. J. (2002). A measure of disclosure risk for microdata. JRSS B 64,
    855-867.
    Elamir, E. A. H. and Skinner, C. J. (2006). Record level measures of disclosure risk for survey
    microdata. Journal of Official Statistics 22, 525-539.
    Benedetti, R. and Franconi, L. (1998). Statistical and technological solutions for controlled
    data dissemination. New Techniques and Technologies for Statistics, 225-232.

    Examples
    --------
    >>> import pandas as pd
    >>> sample = pd.DataFrame({"sex": list("fffm"), "job": list("aabb")})
    >>> found = uniqueness(sample, ["sex", "job"], fraction=0.5)
    >>> found.summary()["value"].round(3).to_dict()["sample_uniques"], found.sample_uniques
    (2.0, 2)
    """
    keys = checked_table(df, keys, "the table")
    source = _source(df, keys, population, fraction, weights)
    levels = KeyLevels.of(df, keys)
    first, cell = distinct(levels.encode(df), levels.n_levels)
    f = np.bincount(cell).astype(np.float64)
    nothing = np.full(len(f), np.nan)
    found = Rarity(nothing, nothing, nothing, np.empty((0, 3)))
    if source is not None:
        found = _rarity(source, source.checked_counts(df.iloc[first], f), f)
    return Uniqueness(
        index=df.index,
        keys=tuple(keys),
        population="" if source is None else source.in_words(),
        f=f[cell],
        F=found.F[cell],
        unique=found.unique[cell],
        risk=found.risk[cell],
        totals={} if source is None else _totals(found.totals, f, source),
    )


def _source(
    df: pd.DataFrame,
    keys: list[str],
    population: Population | None,
    fraction: float | None,
    weights: str | None,
) -> Population | None:
    """Return the population that was given, by whichever of the three."""
    given = {"population": population, "fraction": fraction, "weights": weights}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise InputError(f"{' and '.join(names)} are both given; give one source of the population")
    if fraction is not None:
        return Population.log_linear(df, keys, fraction=fraction)
    if weights is not None:
        return Population.weighted(df, keys, weights=weights)
    if population is None:
        return None
    if not isinstance(population, Population):
        raise InputError(
            f"population is a {type(population).__name__}; give a Population "
            f"(Population.counted, table, log_linear or weighted)"
        )
    if set(population.keys) != set(keys):
        raise InputError(
            f"the population is by {list(population.keys)} and keys={keys}; make it by the same "
            f"columns"
        )
    return population


def _rarity(source: Population, F: Reals, f: Reals) -> Rarity:
    """Chances of each distinct key, from its counts F (S, U)."""
    if source.known or source.n_draws > 1:
        unique, risk = (F == 1).astype(np.float64), 1 / F
    elif source.source == "weights":
        p = f / F[0]
        unique, risk = negative_binomial_unique(f, p)[None], negative_binomial_inverse(f, p)[None]
    else:
        rest = F[0] - f
        unique, risk = poisson_unique(f, rest)[None], poisson_inverse(f, rest)[None]
    single = f == 1
    totals = np.stack([unique @ f, risk @ (f * single), risk @ f], axis=1)
    return Rarity(F.mean(axis=0), unique.mean(axis=0), risk.mean(axis=0), totals)


def _totals(totals: Reals, f: Reals, source: Population) -> dict[str, FileTotal]:
    """File totals of each draw (S, 3), summed up."""
    singles, cells = float((f == 1).sum()), float(len(f))
    names = ("population_uniques", "unique_matches", "expected_matches")
    without = (singles, singles, cells)
    return {
        name: _total(values, at, source)
        for name, values, at in zip(names, totals.T, without, strict=True)
    }


def _total(values: Reals, without: float, source: Population) -> FileTotal:
    error = low = high = float("nan")
    if source.n_draws > 1:
        ess, _ = ess_and_rhat(values[:, None], int(source.diagnostics["chains"]))
        error = float(values.std(ddof=1) / np.sqrt(ess[0]))
        low, high = (float(np.quantile(values, q)) for q in ((1 - MASS) / 2, (1 + MASS) / 2))
    return FileTotal(value=float(values.mean()), error=error, low=low, high=high, without=without)
