"""Sample uniques and population uniques: what `uniqueness` found, frozen."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.formats import NONE, number, percent
from bayes_risk.data.base_result import Public, Result, Table, some, spread, value

Reals = npt.NDArray[np.float64]

K = (2, 3, 5, 10)
WORDS = {
    "sample_uniques": "Alone with their key in the file",
    "below_3": "Sharing it with fewer than 2 others (k-anonymity below 3)",
    "below_5": "Sharing it with fewer than 4 others (below 5)",
    "below_10": "Sharing it with fewer than 9 others (below 10)",
    "population_uniques": "Alone in the file and in the population",
    "unique_matches": "Right matches among those alone in the file",
    "expected_matches": "Right matches among all records",
}
PUBLIC = (  # measure, words, whether it counts records
    ("sample_uniques", "Records alone with their keys", True),
    ("population_uniques", "Of them, alone in the population too", False),
    ("expected_matches", "Expected number of right matches with the population", False),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileTotal:
    """A count of records over the file, with what is uncertain about it.

    Attributes
    ----------
    value : float
        Expected number of records.
    error : float
        Monte Carlo standard error of the value; NaN where nothing was drawn.
    low, high : float
        95 % posterior interval of the number itself; NaN where nothing was drawn.
    without : float
        The same for an intruder who knows that the target is in the sample: F_t = f_t.
    """

    value: float
    error: float
    low: float
    high: float
    without: float


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
    totals : dict of str to FileTotal
        ``population_uniques``, ``unique_matches``, ``expected_matches``; empty without a
        population.

    See Also
    --------
    bayes_risk.uniqueness : Makes it; formulas, cost and references.
    """

    index: pd.Index
    keys: tuple[str, ...]
    population: str
    f: Reals
    F: Reals
    unique: Reals
    risk: Reals
    totals: Mapping[str, FileTotal]

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.f)

    @property
    def sample_uniques(self) -> int:
        """Number of records whose key nobody else in the sample holds."""
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
        names = ["sample_uniques", *(f"below_{k}" for k in K[1:])]
        counts = [float((self.f < k).sum()) for k in K]
        nan = float("nan")
        rows = {
            name: [count, count / self.n, nan, nan, nan, nan]
            for name, count in zip(names, counts, strict=True)
        }
        for name, t in self.totals.items():
            rows[name] = [t.value, t.value / self.n, t.error, t.low, t.high, t.without]
        columns = ["value", "share", "error", "low", "high", "without"]
        table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
        table.index.name = "measure"
        return table

    def sentence(self) -> str:
        """Say the result in plain words."""
        found = (
            f"By {', '.join(map(str, self.keys))}, {self.sample_uniques:,} of {self.n:,} records "
            f"({percent(self.sample_uniques / self.n)}) are unique in the sample"
        )
        if not self.totals:
            return f"{found}; how many are unique in the population was not asked."
        one, two = (self.totals[name] for name in ("population_uniques", "unique_matches"))
        return (
            f"{found}; {_number(one)} of them would be unique in the population, and an intruder "
            f"who looks there for the people behind them would be right {_number(two)} times "
            f"({self.population})."
        )

    def tables(self) -> dict[str, Table]:
        """Records, share, error, interval; last for an intruder who knows who is in the file."""
        table, n = self.summary(), self.n
        people = f" Population: {self.population}." if self.population else ""
        rare = Table(
            note=(
                "Of the confidential file by itself: no release comes in. What synthesis makes of "
                "it is identification risk."
            ),
            caption=f"{n:,} records; keys: {', '.join(map(str, self.keys))}.{people}",
            frame=table,
            head="Records",
            labels=WORDS,
            columns=[
                ("Number", value("value", some)),
                ("Share of all", value("share", percent)),
                ("Error (2 s.e.)", spread("error", digits=1)),
                ("95 % interval", _interval),
                ("If known to be in the file", value("without", some)),
            ],
            public=[
                Public(words, float(table["value"][name]), n, whole=whole)
                for name, words, whole in PUBLIC
                if name in table.index
            ],
        )
        return {"measures": rare}


def _interval(row: Mapping[str, float]) -> str:
    return NONE if np.isnan(row["low"]) else f"{row['low']:,.0f} to {row['high']:,.0f}"


def _number(t: FileTotal) -> str:
    return some(t.value) + (
        "" if np.isnan(t.low) else f" ({number(t.low, 0)} to {number(t.high, 0)})"
    )
