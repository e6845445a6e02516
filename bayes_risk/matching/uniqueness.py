"""Sample uniques, k-anonymity, and who else in the population carries a record's key.

Letters: ``f`` sample count and ``F`` population count of a cell. See also
``docs/population.md``.

For sample uniques, with r = r_t,

    Pr(F = 1|f = 1) = Pr(Poisson(r) = 0) = exp(-r)
    E(1/F | f = 1)    = sum_x e^-r r^x / (x! (1+x)) = (1 - exp(-r))/r

and tau_1, tau_2 are their sums. For any f, with 1/(f+x) = int_0^1 t^(f+x-1) dt,

    E(1/F | f) = int_0^1 t^(f-1) e^(-r (1-t)) dt = 1F1(1; f+1; -r)/f,

whose sum over all records is expected_matches.

*Weights.* mu-Argus models F | f as negative binomial, Pr(F = h) = C(h-1, f-1) p^f (1-p)^(h-f), p =
f / (sum of weights). With w = p s/(1 - (1-p) s),

    E(1/F | f) = int_0^1 w^(f-1) p / (p + (1-p) w) dw = (p/f) 2F1(1, 1; f+1; 1-p),

(Euler's transformation of the published form). For f = 1 it is p/(1-p) log(1/p), and Pr(F = 1|f =
1) = p.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk.data.base_result import Result
from bayes_risk.evidence.diagnostics import ess_and_rhat

from .population import KeyLevels, Population, keys_of_table

COLUMNS = ("value", "share", "error", "low", "high", "without")
TOTALS = ("population_uniques", "unique_matches", "expected_matches")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Uniqueness(Result):
    """How rare the keys of the records are, in the sample and in the population.

    Attributes
    ----------
    index : pandas.Index, length n
        Labels of the records, as given.
    keys : tuple of str
        The key columns.
    population : str
        Where the population counts are from, in words; empty without them.
    f : ndarray, shape (n,)
        How many records of the sample hold the record's key, itself included.
    F : ndarray, shape (n,)
        Mean number of people in the population who do; NaN without a population.
    unique : ndarray, shape (n,)
        Chance that the record's key is unique in the population; NaN without one.
    risk : ndarray, shape (n,)
        Mean of 1/F: the chance that one of the people with the key, taken at random, is the
        record's; NaN without a population.
    totals : DataFrame
        Rows of `summary` that a population gives; empty without one.
    """

    index: pd.Index
    keys: tuple[str, ...]
    population: str
    f: Array
    F: Array
    unique: Array
    risk: Array
    totals: pd.DataFrame

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.f)

    @property
    def sample_uniques(self) -> int:
        """Number of records whose key no other record in the sample has."""
        return int((self.f == 1).sum())

    @property
    def records(self) -> pd.DataFrame:
        """One row per record, indexed as the table given.

        Columns: ``sample_count`` f; ``population_count`` (mean) F; ``population_unique``, the
        chance that F = 1; ``risk``, the mean of 1/F; ``without``, 1/f, the risk of an intruder who
        knows that the target is in the sample.
        """
        columns = {
            "sample_count": self.f.astype(np.int64),
            "population_count": self.F,
            "population_unique": self.unique,
            "risk": self.risk,
            "without": 1 / self.f,
        }
        return pd.DataFrame(columns, index=self.index)

    def summary(self) -> pd.DataFrame:
        """File level, one row per measure.

        Rows: ``sample_uniques`` (records that violate 2-anonymity), ``below_3``, ``below_5``,
        ``below_10`` (records that violate k-anonymity: f < k); with a population
        ``population_uniques`` (tau_1, the sample uniques that are unique in it),
        ``unique_matches`` (tau_2, right matches among sample uniques) and ``expected_matches``
        (right matches among all records).

        Columns: ``value`` (records), ``share`` of all n, ``error`` (Monte Carlo), ``low`` and
        ``high`` (95 % posterior interval; both NaN without draws), ``without`` (for an intruder
        who knows that the target is in the sample; NaN where no intruder comes in).
        """
        below = {"sample_uniques": 2, "below_3": 3, "below_5": 5, "below_10": 10}
        rows = {name: float((self.f < k).sum()) for name, k in below.items()}
        table = pd.DataFrame({"value": rows}, columns=list(COLUMNS), dtype=float)
        if not self.totals.empty:
            table = pd.concat([table, self.totals])
        return table.assign(share=table["value"] / self.n).rename_axis("measure")


def poisson_inverse(f: Array, rest: Array) -> Array:
    r"""Mean of ``1/F`` when ``F - f ~ Poisson(rest)``, f at least 1.

    .. math:: E(1/F \mid f) = \int_0^1 t^{f-1} e^{-r(1-t)}\,dt = {}_1F_1(1;\, f+1;\, -r) / f

    For f = 1 this is ``(1 - exp(-r)) / r``; for r = 0 it is 1/f.

    >>> np.round(poisson_inverse(np.array([1.0, 2.0]), np.array([3.0, 0.0])), 4)
    array([0.3167, 0.5   ])
    """
    return np.asarray(special.hyp1f1(1.0, f + 1.0, -rest) / f)


def negative_binomial_inverse(f: Array, p: Array) -> Array:
    r"""Mean of ``1/F`` when F is negative binomial given f: the individual risk of mu-Argus.

    .. math:: E(1/F \mid f) = \int_0^1 \frac{w^{f-1}\, p}{p + (1-p) w}\,dw
              = \frac pf\; {}_2F_1(1, 1;\, f+1;\, 1-p)

    for all f; a series of positive terms. p is the sampling rate of the cell, ``f / sum of
    weights``. Benedetti & Franconi (1998) write it as ``p^f / f 2F1(f, f; f+1; 1-p)``, of which
    this is Euler's transformation. The francdat records of sdcMicro, f = 1 with weights of 17, f =
    2 of 110:

    >>> np.round(negative_binomial_inverse(np.array([1.0, 2.0]), np.array([1 / 17, 2 / 110])), 7)
    array([0.1770758, 0.0171443])
    """
    return np.asarray(p / f * special.hyp2f1(1.0, 1.0, f + 1.0, 1.0 - p))


MASS = 0.95


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
    *Given the population*, F is known: tau_1 counts, and tau_2 adds up 1/F. *Log-linear, without
    draws*, F - f is Poisson; *with draws* averages over them, with a 95 % posterior interval of the
    number itself and the Monte Carlo error of its mean. *Weights*: F | f is negative binomial, the
    individual risk of mu-Argus, exact for every f. Formulas: ``docs/population.md``.

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
    keys = keys_of_table(df, keys, "the table")
    given = {"population": population, "fraction": fraction, "weights": weights}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise InputError(f"{' and '.join(names)} are both given; give one source of the population")
    if fraction is not None:
        population = Population.log_linear(df, keys, fraction=fraction)
    elif weights is not None:
        population = Population.weighted(df, keys, weights=weights)
    elif population is not None and not isinstance(population, Population):
        raise InputError(
            f"population is a {type(population).__name__}; give a Population "
            f"(Population.counted, table, log_linear or weighted)"
        )
    elif population is not None and set(population.keys) != set(keys):
        raise InputError(
            f"the population is by {list(population.keys)} and keys={keys}; make it by the same "
            f"columns"
        )
    first, cell, _ = KeyLevels.from_table(df, keys).distinct(df)
    f = np.bincount(cell).astype(np.float64)
    found, totals = (np.full(len(f), np.nan),) * 3, pd.DataFrame()
    if population is not None:
        F = population.checked_counts(df.iloc[first], f)
        unique, risk = _rarity(population, F, f)
        found = F.mean(axis=0), unique.mean(axis=0), risk.mean(axis=0)
        totals = _totals(unique, risk, f, population)
    return Uniqueness(
        index=df.index,
        keys=tuple(keys),
        population="" if population is None else population.in_words(),
        f=f[cell],
        F=found[0][cell],
        unique=found[1][cell],
        risk=found[2][cell],
        totals=totals,
    )


def _rarity(source: Population, F: Array, f: Array) -> tuple[Array, Array]:
    """Chance that F = 1 and mean of 1/F of each distinct key, (S, U), from its counts F."""
    if source.known or source.n_draws > 1:
        return (F == 1).astype(np.float64), 1 / F
    if source.source == "weights":  # F | f negative binomial with p: Pr(F = 1 | f = 1) = p
        p = f / F[0]
        return np.where(f == 1, p, 0.0)[None], negative_binomial_inverse(f, p)[None]
    rest = F[0] - f  # F - f ~ Poisson(rest): Pr(F = 1 | f = 1) = exp(-rest)
    return np.where(f == 1, np.exp(-rest), 0.0)[None], poisson_inverse(f, rest)[None]


def _totals(unique: Array, risk: Array, f: Array, source: Population) -> pd.DataFrame:
    """File totals of each draw, summed up; NaN: nothing was drawn."""
    draws = np.stack([unique @ f, risk @ (f * (f == 1)), risk @ f], axis=1)  # shape (S, 3)
    each = np.ascontiguousarray(draws.T)
    found = pd.DataFrame({"value": each.mean(axis=1)}, list(TOTALS), list(COLUMNS), dtype=float)
    if source.n_draws > 1:
        ess, _ = ess_and_rhat(draws, int(source.diagnostics["chains"]))
        found["error"] = each.std(axis=1, ddof=1) / np.sqrt(ess)
        found["low"], found["high"] = np.quantile(each, [(1 - MASS) / 2, (1 + MASS) / 2], axis=1)
    singles = float((f == 1).sum())
    return found.assign(without=[singles, singles, float(len(f))])
