"""How an identification risk reads, whether records are kept or not: tables, sentence, numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.formats import counted
from bayes_risk.data.base_result import Result
from bayes_risk.release.exposure_result import Exposure

from .odds import GIVEN
from .radii import Radius
from .replicates import error_between

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
EXPECTED, PERSONS = "expected_match_risk", "true_match_persons"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MatchingSetting(Result):
    """What is looked for and how; by default all exactly, by one who knows who is in the file."""

    known: tuple[str, ...] = ()
    synthesized: tuple[str, ...]
    radius: Mapping[str, Radius] = field(default_factory=dict)
    shape: str = "box"
    closed: bool = True
    missing: Mapping[str, str] = field(default_factory=dict)
    fallback: bool = False
    strategy: Strategy = "always"
    population: str = "in the file"
    estimated: bool = False
    reason: bool = False
    release_of: Ints | None = None
    pooled_mcse: float = float("nan")
    pooled_draws_mcse: float = float("nan")
    exposure: Exposure | None = None
    person: Ints | None = None


class Matching(MatchingSetting):
    """File-level measures of matching; what the intruder holds and does, in words."""

    __slots__ = ()
    MOST_ROWS: ClassVar[int] = 12
    n: Any  # of these some results hold and others count
    m: Any
    each: Any  # (m, 7): measures of each table by `COLUMNS`
    pooled: Any  # (7,)
    K: Any
    pooled_K: Any
    baseline_expected_match_risk: Any

    @property
    def baseline_true_matches(self) -> int | None:
        """Records that the known keys alone match uniquely and correctly; None: not known."""
        return None

    @property
    def table_word(self) -> str:
        """What the intruder searches: "release", or "table" where he drew them."""
        return "release" if self.release_of is None else "table"

    @property
    def expected_match_risk_mcse(self) -> pd.Series:
        """Standard errors of the expected match risk, labelled ``mean`` and ``pooled``.

        ``mean``: standard deviation over releases divided by ``sqrt(m)``; NaN for m = 1.
        ``pooled``: jackknife over releases, rough; NaN for m < 3. It is the error of what m
        releases give, not of what infinitely many would: the pooled risk changes with m. Of tables
        drawn given releases both are errors between these releases (``docs/identification.md``).
        """
        mean = float(error_between(self.each[:, 0], self.release_of))
        return pd.Series({"mean": mean, "pooled": self.pooled_mcse})

    def summary(self) -> pd.DataFrame:
        """File level: one row per release (or table) ``1 .. m``, then ``mean`` and ``pooled``.

        Columns: ``expected_match_risk`` sum T/c, its standard error ``mcse`` (NaN for single
        releases) and its ``baseline`` without the release; ``true_matches`` sum K;
        ``true_match_rate`` sum K/n; ``unique_matches`` s, the targets with c = 1;
        ``false_match_rate`` sum F/s, NaN when s = 0; ``no_match``, the targets whose full key
        nobody in the release has (``pooled``: in no release); ``claims``, the targets with c > 0.
        ``mean`` averages the rows, the false match rate over releases where it is defined.
        Where the files are in memory two counts more, as in ``exposure``: ``identical_records``
        (same row) and ``replicated_uniques``, of all records of the original; ``pooled``: in any.
        Where ``person`` is given ``true_match_persons``, who have a record with K = 1.
        """
        rows = pd.DataFrame(self.each, columns=list(COLUMNS))
        names = pd.Index([*range(1, self.m + 1), "mean", "pooled"], dtype=object)
        table = pd.DataFrame(
            [*self.each, rows.mean().to_numpy(), self.pooled],
            columns=list(COLUMNS),
            index=names.rename(self.table_word),
        )
        table.insert(1, "mcse", self.expected_match_risk_mcse.reindex(names).to_numpy(float))
        table.insert(2, "baseline", self.baseline_expected_match_risk)
        if self.exposure is not None:
            seen = self.exposure.identical, self.exposure.replicated
            for name, flags in zip(("identical_records", "replicated_uniques"), seen, strict=True):
                counts = flags.sum(axis=0)
                table[name] = np.array([*counts, counts.mean(), flags.any(axis=1).sum()], float)
        if (person := self.person) is not None:
            *each, pooled = (len(np.unique(person[of])) for of in (*self.K.T, self.pooled_K))
            table[PERSONS] = np.array([*each, np.mean(each), pooled], float)
        return table

    @property
    def n_persons(self) -> int:
        """Number of persons looked for; of records where each is one."""
        return int(self.n) if self.person is None else len(np.unique(self.person))

    def how_many(self) -> str:
        """Records looked for, and whose they are."""
        return f"{self.n:,} records" + self.of_persons()

    def of_persons(self) -> str:
        """Of how many persons, where several records may be of one; else nothing."""
        return "" if self.person is None else f" of {counted(self.n_persons, 'person')}"

    def in_words(self, keys: Sequence[str]) -> list[str]:
        """Keys in words, each with its radius: ``income (within 10 %)``."""
        ends = "" if self.closed else ", ends left out"
        return [
            f"{name} ({self.radius[name].in_words()}{ends})" if name in self.radius else str(name)
            for name in keys
        ]

    @property
    def near(self) -> list[str]:
        """The keys that match within a radius, in words."""
        keys = (*self.known, *self.synthesized)
        return self.in_words([name for name in keys if name in self.radius])

    def searched(self) -> str:
        """What is searched, in words: releases, or tables drawn anew."""
        if self.release_of is None:
            return counted(self.m, "release")
        tables = counted(self.m, "table")
        if not self.release_of.any():
            return f"{tables} drawn from the model, its parameters known"
        R = len(np.unique(self.release_of))
        given = "the release" if R == 1 else f"{R} releases"
        return f"{tables} drawn from the model given {given}"

    def presence(self) -> str:
        """What the intruder knows of who is in the file, and when he claims a match."""
        knows = "knows that the target is in the file"
        if self.population != "in the file":
            knows = f"does not know who is in the file ({self.population})"
        return ", and ".join([knows, *self.rules(), *self.claims()])

    def assumed(self) -> dict[str, str]:
        """What the intruder who matches holds and does."""
        held = {
            "unsynthesised": self.in_words(self.known),
            "matched against synthetic values": self.in_words(self.synthesized),
        }
        otherwise = "gives up"
        if self.population != "in the file":
            otherwise = "takes the target to be outside the file"
        elif self.fallback:
            otherwise = "chooses among all who share the unsynthesised keys"
        return {
            "Keys held by the matching intruder": "; ".join(
                f"{what}: {', '.join(names)}" for what, names in held.items() if names
            ),
            "Who is in the file: the intruder": self.presence(),
            "When nothing matches, the intruder": otherwise,
        }

    def rules(self) -> list[str]:
        """Rules of matching that are not the usual ones."""
        means = {"wildcard": "match everything", "never": "match nothing"}
        rules = [
            f"missing values of {name} {means[how]}"
            for name, how in self.missing.items()
            if how in means
        ]
        rules += ["several radii make an ellipse"] if self.shape == "ellipse" else []
        rules += ["knows why records were chosen for synthesis"] if self.reason else []
        return rules

    def counting(self, *, alone: bool) -> list[str]:
        """What matching rests on: counts, estimates of the population, tables that were drawn.

        ``alone``: nothing else was computed, so that it may be said that nothing was sampled.
        """
        said = []
        if self.release_of is not None:
            said.append(f"the intruder searches {self.searched()}")
        if self.estimated:
            said.append(f"population counts are estimates ({self.population})")
        elif self.population == GIVEN:
            said.append("population counts were taken as given")
        if not alone:
            return said
        first = "matches were counted exactly" if said else "exact counting, nothing was sampled"
        return [first, *said]

    def _head(self) -> str:
        return "\n".join(part.sentence() for part in (self, self.exposure) if part is not None)

    def claims(self) -> list[str]:
        """When he claims a match, if not always."""
        if self.strategy == "likeliest":
            return ["claims no match where the target is likeliest to be outside the file"]
        if self.strategy == "always":
            return []
        share = f"{self.strategy:g}"
        return [f"claims a match where the target is outside with probability below {share}"]


def measures(n: int, *found: float) -> Array:
    """File-level measures of n targets, in the order of `COLUMNS`.

    ``found``: expected match risk, true and false matches, nothing matched, claims.
    """
    expected, K, F, no_match, claims = map(float, found)
    s = K + F
    return np.array([expected, K, K / n, s, F / s if s else np.nan, no_match, claims])
