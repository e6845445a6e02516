"""How an identification risk reads: tables, sentence, what the intruder knows, numbers."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Ints
from bayes_risk._core.formats import counted, error, in_brackets, number, percent, two_errors
from bayes_risk.data.base_result import Public, Result, Table, some

Strategy = str | float
COLUMNS = (
    "expected_match_risk",
    "true_matches",
    "true_match_rate",
    "unique_matches",
    "false_match_rate",
    "no_match",
    "claims",
)
EXPECTED = "expected_match_risk"
MATCHES = {
    EXPECTED: "Expected correct matches",
    "true_matches": "True matches",
    "true_match_rate": "True match rate",
    "unique_matches": "Unique matches",
    "false_match_rate": "False match rate",
    "no_match": "Nothing matched",
}
SCREEN = {
    EXPECTED: "expected correct matches",
    "mcse": "  +- 2 s.e.",
    "true_match_rate": "true match rate",
    "false_match_rate": "false match rate",
}


class Matching(Result):
    """Matching, whether records are kept or not: tables and the sentence."""

    __slots__ = ()
    MOST_ROWS: ClassVar[int] = 12
    known: tuple[str, ...]
    synthesized: tuple[str, ...]
    fallback: bool
    n: Any  # of these some results hold and others count
    m: Any
    baseline_expected_match_risk: Any
    baseline_true_matches: Any

    @property
    def table_word(self) -> str:
        """What the intruder searches."""
        return "release"

    def presence(self) -> str:
        """What the intruder knows of who is in the file."""
        return "knows that the target is in the file"

    def in_words(self, keys: Sequence[str]) -> list[str]:
        """Keys in words, and how near each must come."""
        return list(map(str, keys))

    @property
    def near(self) -> list[str]:
        """Keys that match within a radius, in words."""
        return []

    def searched(self) -> str:
        """What is searched, in words: how many releases, or tables drawn anew."""
        return counted(self.m, self.table_word)

    def assumed(self) -> dict[str, str]:
        """What the intruder who matches holds and does."""
        held = {
            "unsynthesised": self.in_words(self.known),
            "matched against synthetic values": self.in_words(self.synthesized),
        }
        return {
            "Keys held by the matching intruder": "; ".join(
                f"{what}: {', '.join(names)}" for what, names in held.items() if names
            ),
            "Who is in the file: the intruder": self.presence(),
            "When nothing matches, the intruder": self.otherwise(),
        }

    def otherwise(self) -> str:
        """What he does when nothing matches."""
        choosing = "chooses among all who share the unsynthesised keys"
        return choosing if self.fallback else "gives up"

    def without(self) -> dict[str, float]:
        """What an intruder without synthetic values has, by measure: where it is known."""
        found = {EXPECTED: self.baseline_expected_match_risk}
        alone = self.baseline_true_matches
        if alone is None:
            return found
        rates = {"true_match_rate": alone / self.n, "false_match_rate": 0.0 if alone else np.nan}
        return found | rates | {"true_matches": alone, "unique_matches": alone, "no_match": 0}

    def screen(self) -> Table:
        """Expected matches with their error, and match rates."""
        heads = {"pooled": "pooled", "mean": f"mean of {self.m}", "without": "without release"}
        return Table(
            frame=self.summary().T.assign(without=pd.Series(self.without())),
            head=f"Identification risk ({self.n:,} records)",
            labels=SCREEN,
            columns=[(head, partial(_written, column)) for column, head in heads.items()],
        )

    def tables(self) -> dict[str, Table]:
        """Match measures: pooled, averaged, over releases, and without synthetic values."""
        table = self.summary()
        each, without = table.iloc[: self.m], pd.Series(self.without())
        rows = table.T.assign(low=each.min(), high=each.max(), without=without)
        n, what = self.n, f"{self.table_word}s"
        pooled = table.to_dict("index")["pooled"]
        return {
            "measures": Table(
                frame=rows,
                caption=f"{n:,} records, {self.searched()}; in brackets two standard errors.",
                labels=MATCHES,
                columns=[
                    ("Pooled", partial(_with_error, "pooled", table)),
                    (f"Mean of {what}", partial(_with_error, "mean", table)),
                    (f"Over {what}", _between),
                    ("Without the release", partial(_written, "without")),
                ],
                public=[
                    Public(
                        "Expected number of right matches", pooled[EXPECTED], n, pooled["baseline"]
                    ),
                    Public("Records with a single match", pooled["unique_matches"], n, whole=True),
                    Public(
                        "Records whose single match is right", pooled["true_matches"], n, whole=True
                    ),
                ],
            )
        }

    def matched(self, knows: str, whom: str, error: str) -> str:
        """The result in plain words; ``error`` as `errors_in_words` has it."""
        rows = self.summary().to_dict("index")
        pooled, mean = rows["pooled"], rows["mean"]
        one = f" With one {self.table_word} only: {number(mean[EXPECTED], 1)} on average."
        s, true = int(pooled["unique_matches"]), int(pooled["true_matches"])
        singles = "No record has a unique match."
        if s:
            singles = f"{counted(s, 'record')} {'has' if s == 1 else 'have'} a unique match, which "
            singles += f"is the right one for {true:,} ({percent(true / s)})."
        return (
            f"An intruder who {knows} would be expected to match "
            f"{number(pooled[EXPECTED], 1)}{error} of {whom} "
            f"({percent(pooled[EXPECTED] / self.n)}); without the release "
            f"{number(self.baseline_expected_match_risk, 1)}.{one * (self.m > 1)} {singles}"
        )


def _written(column: str, row: Mapping[str, Any]) -> str:
    """A measure: sums of probabilities with the decimals of their error, rates, counts."""
    measure, value = row["label"], float(row[column])
    if measure == "mcse":
        return error(value, digits=1)
    if measure.endswith("_rate"):
        return percent(value)
    return number(value, 1) if measure == EXPECTED else some(value)


def _with_error(column: str, table: pd.DataFrame, row: Mapping[str, Any]) -> str:
    mcse = float(table["mcse"][column])
    known = row["label"] == EXPECTED and not np.isnan(mcse)
    return _written(column, row) + (f" ({error(mcse, digits=1)})" if known else "")


def _between(row: Mapping[str, Any]) -> str:
    low, high = _written("low", row), _written("high", row)
    return low if low == high else f"{low} to {high}"


def measures(n: int, *found: float) -> list[float]:
    """File-level measures of n targets, in the order of `COLUMNS`.

    ``found``: expected match risk, true and false matches, unique matches, nothing matched, claims.
    """
    expected, K, F, s, no_match, claims = map(float, found)
    return [expected, K, K / n, s, F / s if s else float("nan"), no_match, claims]


def summary_table(
    each: Sequence[Sequence[float]],
    pooled: Sequence[float],
    *,
    mcse: "pd.Series[float]",
    baseline: float,
    what: str = "release",
) -> pd.DataFrame:
    """Rows ``1 .. m``, ``mean`` (over the releases where a measure is defined) and ``pooled``.

    Beside the expected match risk stand its error (of single releases: NaN) and its baseline.
    """
    rows = pd.DataFrame(each, columns=list(COLUMNS), dtype=float)
    table = pd.DataFrame(
        [*rows.to_numpy(), rows.mean().to_numpy(), pooled],
        columns=list(COLUMNS),
        index=pd.Index([*range(1, len(rows) + 1), "mean", "pooled"], dtype=object, name=what),
    )
    table.insert(1, "mcse", mcse.reindex(table.index).astype(float))
    table.insert(2, "baseline", baseline)
    return table


def knowledge(known: Sequence[str], sought: Sequence[str], where: str) -> str:
    """Say what the intruder knows, and what he looks for in which tables."""
    if not sought:
        return f"knows {', '.join(known)} (not synthesised) of everyone"
    looks = f"looks for the true values of {', '.join(sought)} in {where}"
    return f"knows {', '.join(known)} of everyone and {looks}" if known else looks


def tables_searched(m: int, release_of: Ints | None) -> str:
    """The tables in words: the releases themselves, or tables drawn anew."""
    if release_of is None:
        return "the release" if m == 1 else f"the {m} releases together"
    tables = counted(m, "table")
    if not release_of.any():
        return f"{tables} drawn from the model, its parameters known"
    R = len(np.unique(release_of))
    return f"{tables} drawn from the model given {'the release' if R == 1 else f'{R} releases'}"


def errors_in_words(between: float, draws: float, release_of: Ints | None) -> str:
    """Two standard errors in brackets; nothing where the releases are too few for one."""
    if release_of is None:
        return "" if np.isnan(between) else in_brackets(between, digits=1)
    drawn = "unknown" if np.isnan(draws) else f"+- {two_errors(draws, digits=1)}"
    if not release_of.any():
        return f" ({drawn} from the drawing alone)"
    releases = "unknown" if np.isnan(between) else f"+- {two_errors(between, digits=1)}"
    return f" ({releases} between releases; {drawn} from the drawing alone)"


def claims_in_words(strategy: Strategy) -> str:
    """How reports call it."""
    if strategy == "always":
        return "claims a match for every target"
    if strategy == "likeliest":
        return "claims no match where the target is likeliest to be outside the file"
    return f"claims a match where the target is outside with probability below {strategy:g}"
