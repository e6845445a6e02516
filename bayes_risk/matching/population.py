"""The population from which the file was taken: how many people carry a key.

An intruder who does not know whether the target is in the file counts everyone who could be meant,
``F_t`` people with key t. Mathematics, and what each source assumes: ``docs/population.md``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Array, Ints, scalar
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import distinct_rows
from bayes_risk._core.shown import Shown
from bayes_risk._core.validate import in_range, known_columns, positive, whole_number
from bayes_risk.data.equality import coded
from bayes_risk.data.microdata import require_columns
from bayes_risk.data.record_weights import positive_numbers
from bayes_risk.data.variables import Variable

from . import loglinear
from .input import check_discrete

MODEL_NAMES = {1: "a main-effects", 2: "an all-two-way"}
TROUBLE = 1.05  # largest R-hat that is not mentioned


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyLevels:
    """The levels of some key columns; missing values are one more level, the last."""

    variables: tuple[Variable, ...]

    @classmethod
    def from_table(cls, df: pd.DataFrame, keys: Sequence[str]) -> "KeyLevels":
        """Read the levels of a table."""
        found = []
        for name in keys:
            values = pd.Index(pd.factorize(df[name])[1])  # in the order of first appearance
            check_discrete(name, df[name], len(values), "")
            levels = tuple(scalar(v) for v in values.astype(object))
            found.append(Variable(name, levels, True, object))
        return cls(variables=tuple(found))

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns."""
        return tuple(variable.name for variable in self.variables)

    @property
    def n_levels(self) -> list[int]:
        """Number of codes per key, the one for missing values included."""
        return [variable.n_levels for variable in self.variables]

    def distinct(self, df: pd.DataFrame) -> tuple[Ints, Ints, Ints]:
        """First row of each distinct cell (U,), the cell of each row, codes (U, q); -1: none."""
        codes = np.empty((len(df), len(self.variables)), dtype=np.int64)
        for a, one in enumerate(self.variables):
            columns = [pd.Series(list(one.levels)), df[one.name]]
            found = coded(one.name, columns, ["the population", "the table given"])
            place = np.full(found.size, -1)
            place[found.codes[0][::-1]] = np.arange(len(one.levels))[::-1]
            place[0] = len(one.levels)  # missing
            codes[:, a] = place[found.codes[1]]
        first, cell, _ = distinct_rows(codes)
        return first, cell, codes[first]

    def cells(self, df: pd.DataFrame, amount: Array) -> tuple[Ints, Array]:
        """Distinct cells of a table's rows (U, q), and the sum of an amount in each (U,)."""
        first, cell, codes = self.distinct(df)
        return codes, np.bincount(cell, amount, len(first)).astype(np.float64)


def keys_of_table(df: Any, keys: Any, what: str) -> list[str]:
    """Return the keys as a list of columns that a table of at least one record has, each once."""
    require_columns(df, (), what)
    names = known_columns("keys", keys, df, least=1)
    if not len(df):
        raise InputError(f"{what} has no records; give at least one")
    require_columns(df, names, what)
    return names


def found_in(table: Ints, codes: Ints) -> Ints:
    """Where rows of codes (n, q) stand in a table of distinct rows (U, q); -1 for nowhere."""
    cells, rows = (  # a first key that all share, as there may be none
        pd.MultiIndex.from_arrays([np.zeros(len(of)), *of.T]) for of in (table, codes)
    )
    return cells.get_indexer(rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellCounts:
    """F_t of tabulated cells, in each of S draws, and the rule for all others."""

    levels: KeyLevels
    cells: Ints  # (U, q): level codes of the tabulated cells, each once
    table: Array  # (S, U): F_t of these; S = 1 without draws
    # with independent keys F_t of other cells is the number, the people not in the sample, times
    # the product of the keys' shares; else that number is 0
    others: tuple[float, tuple[Array, ...]] = (0.0, ())

    def at(self, df: pd.DataFrame) -> Array:
        """F_t at the keys of a table's rows, shape (S, n)."""
        first, cell, cells = self.cells_of(df)
        row = found_in(self.cells, cells)
        F = np.where(row >= 0, self.table[:, row], loglinear.independent_mean(*self.others, cells))
        return np.asarray(F[:, cell])

    def cells_of(self, df: pd.DataFrame) -> tuple[Ints, Ints, Ints]:
        """First row of each distinct cell, the cell of each row, and the cells' codes."""
        require_columns(df, self.levels.keys, "the table")
        return self.levels.distinct(df)

    def over(self, keys: Sequence[str]) -> "CellCounts":
        """Sum over all keys but these."""
        present = self.levels.keys
        kept = [present.index(name) for name in known_columns("keys", keys, present)]
        levels = KeyLevels(variables=tuple(self.levels.variables[a] for a in kept))
        cells = self.cells[:, kept]
        first, cell, _ = distinct_rows(cells)
        rest, shares = self.others
        some = tuple(shares[a] for a in kept) if rest else ()
        # of the people whom the rule places: what the tabulated cells do not hold already
        more = loglinear.independent_mean(rest, some, cells[first])
        more -= np.bincount(cell, loglinear.independent_mean(rest, shares, self.cells), len(first))
        table = np.stack([np.bincount(cell, F, len(first)) + more for F in self.table])
        return CellCounts(levels=levels, cells=cells[first], table=table, others=(rest, some))


def fitted_counts(
    df: pd.DataFrame, keys: list[str], interactions: int, odds: float
) -> tuple[CellCounts, dict[str, float]]:
    """Expected F_t given the sample counts, and how the fit ended; ``odds``: (1 - pi) / pi."""
    levels = KeyLevels.from_table(df, keys)
    cells, N = levels.cells(df, np.ones(len(df)))
    if len(loglinear.margins_of(len(keys), interactions)[0]) == 1:  # mu_t = n prod_a N_a / n
        sizes = zip(cells.T, levels.n_levels, strict=True)
        shares = tuple(np.bincount(column, N, size) / len(df) for column, size in sizes)
        others = (odds * len(df), shares)
        F = N + loglinear.independent_mean(*others, cells)
        convergence = {"cells": 0.0, "cycles": 1.0, "gap": 0.0}
        return CellCounts(levels=levels, cells=cells, table=F[None], others=others), convergence
    populated, mu, convergence = loglinear.fit_loglinear(cells, N, levels.n_levels)
    F = odds * mu
    F[found_in(populated, cells)] += N  # an observed cell can be populated
    return CellCounts(levels=levels, cells=populated, table=F[None]), convergence


def drawn_counts(
    df: pd.DataFrame,
    keys: list[str],
    interactions: int,
    pi: float,
    draws: int,
    rng: np.random.Generator,
) -> tuple[CellCounts, dict[str, float]]:
    """Posterior draws of F_t over all cells that can be populated, and their quality."""
    for_mu, for_F = rng.spawn(2)
    levels = KeyLevels.from_table(df, keys)
    observed, N = levels.cells(df, np.ones(len(df)))
    terms = loglinear.margins_of(len(keys), interactions)
    cells = loglinear.support(observed, levels.n_levels, terms, limit=loglinear.MAX_DRAWN_CELLS)
    cells = cells[np.lexsort(cells.T)]
    count = np.zeros(len(cells), dtype=np.int64)
    count[found_in(cells, observed)] = N
    S = -(-draws // loglinear.CHAINS) * loglinear.CHAINS
    mu, diagnostics = loglinear.posterior_means(cells, count, terms=terms, draws=S, rng=for_mu)
    # F_t - N_t | mu_t ~ Poisson(mu_t (1 - pi) / pi)
    F = count + for_F.poisson(mu * (1 - pi) / pi)
    return CellCounts(levels=levels, cells=cells, table=F.astype(np.float64)), diagnostics


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Population(Shown):
    """Population counts F_t of every key t: counted, or estimated from a sample.

    Made by `counted`, `table`, `log_linear` or `weighted`, not by itself.

    Attributes
    ----------
    size : float
        Number of people: counted, given, or the sum of the weights.
    source : {"counted", "log-linear", "weights"}
        Where the counts are from. Counted ones are known, the others estimated.
    words : str
        The source in one phrase.
    cell_counts : CellCounts
        F_t of every cell.
    diagnostics : dict of str to float
        Of a log-linear model: ``cells`` over which was fitted (0 for a closed form), ``cycles`` of
        proportional fitting and the ``gap`` in records that they left in the margins; of draws
        ``rhat`` (largest), ``ess`` (smallest), ``divergences``, ``chains``. Else empty.
    seed_entropy : str
        Seed of the draws.

    See Also
    --------
    uniqueness : Who is unique in the sample, and in the population.

    Examples
    --------
    >>> import pandas as pd
    >>> sample = pd.DataFrame({"sex": list("ffmm"), "job": list("aaab")})
    >>> population = Population.log_linear(sample, ["sex", "job"], fraction=0.5)
    >>> population.counts(sample)
    array([[4., 4., 2., 2.]])
    """

    size: float
    source: str
    words: str
    cell_counts: CellCounts
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    seed_entropy: str = "none"

    @classmethod
    def counted(cls, df: pd.DataFrame, keys: Sequence[str]) -> "Population":
        """Count a file of the whole population: F_t is the number of its rows with key t.

        Parameters
        ----------
        df : DataFrame, one row per person
        keys : list of str

        Raises
        ------
        InputError
            No key, no record; a column that is missing, repeated or looks continuous (more than
            1,000 distinct numbers).
        """
        keys = keys_of_table(df, keys, "the population")
        words = f"a population file of {len(df):,} people"
        return cls._summed(df, keys, np.ones(len(df)), "counted", words)

    @classmethod
    def table(cls, table: pd.Series | pd.DataFrame) -> "Population":
        """Take counts from a published table.

        Parameters
        ----------
        table : Series or DataFrame
            Counts indexed by key values, the index named after the keys; or key columns and a
            column ``count``. Keys that the table leaves out have F_t = 0.

        Raises
        ------
        InputError
            An index without names, a key that stands twice, counts that are missing or negative or
            all 0.
        """
        what, df = "the population table", cast(pd.DataFrame, table)
        if isinstance(table, pd.Series):
            if any(name is None or name == "count" for name in table.index.names):
                raise InputError(
                    f"the index of {what} is named {list(table.index.names)}; name it after the "
                    "key columns (rename_axis)"
                )
            df = table.rename("count").reset_index()
        elif not isinstance(table, pd.DataFrame):
            raise InputError(
                f"{what} is a {type(table).__name__}; give a Series indexed by the keys, or a "
                "DataFrame with key columns and a column 'count'"
            )
        require_columns(df, ["count"], what)
        keys = keys_of_table(df, [c for c in df.columns if c != "count"], what)
        count = positive_numbers(df, "count", what, zero=True)
        if not count.sum():
            raise InputError("column 'count' of the population table sums to 0; give its counts")
        words = f"a population table of {count.sum():,.0f} people"
        population = cls._summed(df, keys, count, "counted", words)
        twice = len(df) - len(population.cell_counts.cells)
        if twice:
            raise InputError(
                f"the population table names {twice:,} combinations of {keys} more than once; sum "
                f"them first (groupby)"
            )
        return population

    @classmethod
    def weighted(cls, df: pd.DataFrame, keys: Sequence[str], *, weights: str) -> "Population":
        """Estimate F_t by the sum of the survey weights of the sample records with key t.

        Parameters
        ----------
        df : DataFrame of n sample records
        keys : list of str
        weights : str
            Column of weights: how many people each record stands for.
        """
        keys = keys_of_table(df, keys, "the sample")
        require_columns(df, [weights], "the sample")
        if weights in keys:
            raise InputError("weights", weights, "is one of the keys; name another column")
        weight = positive_numbers(df, weights, "the sample")
        words = f"survey weights of {len(df):,} records ({weights})"
        return cls._summed(df, keys, weight, "weights", words)

    @classmethod
    def log_linear(
        cls,
        df: pd.DataFrame,
        keys: Sequence[str],
        *,
        size: float | None = None,
        fraction: float | None = None,
        interactions: int = 2,
        draws: int | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> "Population":
        r"""Estimate F_t from a simple random sample by a log-linear model.

        With F_t ~ Poisson and sampling fraction pi, the sample count N_t ~ Poisson(mu_t) reveals
        nothing of the others, :math:`F_t - N_t \sim \mathrm{Poisson}(\mu_t (1-\pi)/\pi)`. Without
        draws, F_t is the mean given N_t,

        .. math:: \hat F_t = N_t + \hat\mu_t\,\frac{1-\pi}{\pi} \ge N_t,

        and all of them add up to ``size``. mu_t is fitted to the sample counts (Drechsler & Reiter
        2008, section 3, who use all two-way interactions).

        Parameters
        ----------
        df : DataFrame of n records
            The sample: the confidential file, or one released file.
        keys : list of str
        size : float, optional
            Number of people in the population, at least n.
        fraction : float, optional
            Sampling fraction pi = n / size, in (0, 1]. Give it or `size`.
        interactions : {1, 2}
            Main effects only (independent keys), or all two-way interactions.
        draws : int, optional
            Posterior draws S of F_t, by NUTS in four chains, rounded up to a multiple of 4; none by
            default. They hold the uncertainty of mu_t and that of F_t given mu_t.
        random_seed : int or Generator, optional
            For the draws.

        Raises
        ------
        InputError
            As `counted`; neither or both of size and fraction, or one out of range; more cells than
            can be fitted (2,000,000) or drawn (100,000; draws x cells 50,000,000).
        ModelError
            Proportional fitting did not converge.

        Notes
        -----
        Cells of which a margin that is fitted is 0 in the sample have mu_t = 0, with draws too.
        Priors of the draws, and what zeros assume: ``docs/population.md``.

        *Cost.* Proportional fitting O(C q^2) per cycle for C cells that can be populated; main
        effects a closed form. Draws O(C q^2 + K^2) per step of NUTS for K effects, and S C numbers
        held: with 4 keys, 2,750 cells and 869 effects, 1,000 draws took 3 minutes.

        References
        ----------
        Drechsler, J. and Reiter, J. P. (2008). Accounting for intruder uncertainty due to sampling
        when estimating identification disclosure risks in partially synthetic data. PSD 2008,
        227-238.
        Elamir, E. A. H. and Skinner, C. J. (2006). Record level measures of disclosure risk for
        survey microdata. Journal of Official Statistics 22, 525-539.
        """
        keys = keys_of_table(df, keys, "the sample")
        n = len(df)
        if (size is None) == (fraction is None):
            raise InputError(
                "size",
                size,
                f"and fraction={fraction}; give one of them: how many people the population has, "
                "or which share of them was sampled",
            )
        if size is not None and positive("size", size) < n:
            raise InputError(
                "size",
                size,
                f"is smaller than the sample of {n:,} records; give the number of people in the "
                "population",
            )
        pi = n / float(size) if size is not None else in_range("fraction", fraction)
        if isinstance(interactions, bool) or interactions not in (1, 2):
            raise InputError(
                "interactions",
                interactions,
                "is not known; give 1 (main effects) or 2 (all two-way interactions)",
            )
        rng, odds = np.random.default_rng(random_seed), (1 - pi) / pi
        if draws is None:
            counts, diagnostics = fitted_counts(df, keys, interactions, odds)
        else:
            draws = whole_number("draws", draws, 4)
            counts, diagnostics = drawn_counts(df, keys, interactions, pi, draws, rng)
        entropy = str(rng.bit_generator.seed_seq.entropy)  # type: ignore[attr-defined]
        return cls(
            size=n / pi,
            source="log-linear",
            words=f"{MODEL_NAMES[interactions]} log-linear model of a sample of {n:,} of "
            f"{n / pi:,.0f} people",
            cell_counts=counts,
            diagnostics=diagnostics,
            seed_entropy="none" if draws is None else entropy,
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns."""
        return self.cell_counts.levels.keys

    @property
    def known(self) -> bool:
        """Whether F_t was counted rather than estimated."""
        return self.source == "counted"

    @property
    def n_draws(self) -> int:
        """Number S of draws of F_t; 1 where there is one value."""
        return len(self.cell_counts.table)

    def counts(self, df: pd.DataFrame) -> Array:
        """F_t at the keys of a table's rows, shape (S, n).

        0 for keys unknown to a counted or weighted population or to a posterior; the fitted mean,
        which can be 0, for those of a log-linear model. Draws of one cell are the same in each row
        and call. O((n + U) log U) time, O(S n) memory: with draws, ask for distinct keys.
        """
        return self.cell_counts.at(df)

    def over(self, keys: Sequence[str]) -> "Population":
        """The same population by some of its keys, or none: F_t summed over the others."""
        return replace(self, cell_counts=self.cell_counts.over(keys))

    def checked_counts(self, df: pd.DataFrame, sample_counts: npt.ArrayLike) -> Array:
        """F_t, shape (S, n), at a table's rows, given how often a sample of this population has t.

        Estimated F_t are raised to the sample's counts; counted ones below them are refused: the
        sample is not from this population, or codes its keys otherwise. (A synthetic file is not a
        sample; its counts may exceed F_t.)
        """
        N = np.asarray(sample_counts, dtype=np.float64)
        if N.shape != (len(df),):
            raise InputError(
                f"sample_counts has shape {N.shape}; give one count per row: {len(df)}"
            )
        F = self.counts(df)
        if self.known and (F[0] < N).any():
            short = F[0] < N
            cells = len(self.cell_counts.cells_of(df[short])[0])
            raise InputError(
                f"{cells:,} combinations of {list(self.keys)} are rarer in the population than in "
                f"the sample ({short.sum():,} of {len(N):,} records), so it cannot be a sample of "
                f"it; code the keys alike in both, or estimate the counts (`Population.log_linear`)"
            )
        return np.maximum(F, N)

    def in_words(self) -> str:
        """Where the counts are from, in one phrase."""
        rhat = self.diagnostics.get("rhat", 1.0)
        doubt = f", not converged (R-hat {rhat:.2f}): take more draws" if rhat > TROUBLE else ""
        many = f", {self.n_draws:,} posterior draws" if self.n_draws > 1 else ""
        return f"{self.words}{many}{doubt}"

    def __repr__(self) -> str:
        return f"Population by {', '.join(map(str, self.keys))}: {self.in_words()}"

    @classmethod
    def _summed(
        cls, df: pd.DataFrame, keys: list[str], amount: Array, source: str, words: str
    ) -> "Population":
        """Add up an amount over the rows of each cell."""
        levels = KeyLevels.from_table(df, keys)
        cells, F = levels.cells(df, amount)
        counts = CellCounts(levels=levels, cells=cells, table=F[None])
        return cls(size=float(amount.sum()), source=source, words=words, cell_counts=counts)
