"""Links: how many persons released files show beyond chance, test by test."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd
from scipy.special import bdtrc, betaincinv

from bayes_risk._core.formats import number, percent
from bayes_risk.data.base_result import Result
from bayes_risk.data.measures import EXPOSURE

IDENTICAL, VALUES = "identical records", "unique values"
UNIQUES = EXPOSURE["replicated_uniques"].words
AMOUNTS, LARGEST = "equal amounts", "largest amounts"
NEAREST, OWN, ALIKE = "nearest records", "own rows", "own rows of similar records"
LEVEL = 0.01  # probability of a false alarm, of all tests together
CERTAIN = 0.95  # share of right claims from which a person counts as shown for certain
WORDS = {
    IDENTICAL: "pairs of equal records",
    VALUES: "pairs of equal values",
    UNIQUES: "pairs of equal keys",
    AMOUNTS: "pairs of equal amounts",
    LARGEST: "largest amounts",
    NEAREST: "pairs of records that are each other's nearest",
    OWN: "records",
    ALIKE: "records",
}
SURE = 0.05  # two-sided, of the limits of a number of persons
LISTED = 3  # columns that a sentence names


class Link(NamedTuple):
    """How many persons one test sees in a file beyond chance.

    Of ``of`` pairs, or records, ``found`` join a person and a released record; ``by_chance``:
    expected (of pairs: at most). ``p``: probability that so many do by chance, times the number of
    tests. ``persons``: estimated number beyond chance; ``low``: lower end of the 95 % interval.
    """

    test: str
    file: int  # counted from 1; 0: the mean of all files
    columns: tuple[str, ...]
    of: int
    found: float
    by_chance: float
    p: float
    persons: float
    low: float

    @classmethod
    def of_pairs(
        cls, what: tuple[str, int, tuple[str, ...]], of: int, found: int, by: float, fold: float
    ) -> "Link":
        """Of pairs that join two tables by chance with a share ``by``; ``fold``: persons a pair."""
        p = float(bdtrc(found - 1, of, by)) if found else 1.0
        low = float(betaincinv(found, of - found + 1, SURE / 2)) if found else 0.0
        beyond, least = (
            max((share - by) * of / (1 - by), 0) * fold if by < 1 else 0.0
            for share in (found / max(of, 1), low)
        )
        return cls(*what, of, found, by * of, p, beyond, least)

    @property
    def seen(self) -> bool:
        """Whether it is beyond chance."""
        return self.p <= LEVEL

    @property
    def certain(self) -> bool:
        """Whether nearly every such claim is right."""
        return self.seen and self.test != ALIKE and self.precision >= CERTAIN

    @property
    def claims(self) -> float:
        """How many persons an intruder would claim to see by it."""
        return self.of if self.test in (OWN, ALIKE) else self.found

    @property
    def precision(self) -> float:
        """Estimated share of these claims that are right beyond chance."""
        by = self.by_chance / self.of if self.of else 1.0
        beyond = (self.found - self.by_chance) / (1 - by) if by < 1 else 0.0
        return max(beyond, 0.0) / self.claims if self.claims else 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Links(Result):
    """How many persons of an original of n records m files show beyond chance; holds no value.

    Attributes
    ----------
    n, m : int
        Records of the original; files.
    made : tuple of str
        Synthesised columns that were tested.
    tests : tuple of Link
        Every test, that of the smallest probability first.
    unchanged : dict of str to int
        Columns that every file has unchanged, and the persons whose value no other person has.
    alone_together : int
        Persons whose values of these columns together no other person has.
    outside : tuple of str
        Columns of the files that the original does not have.
    copies : dict of str to (str, int)
        Columns outside the original that hold one of its columns in which most are alone: which,
        and how many are alone.
    identifiers : dict of str to int
        Columns that name records, and the persons whose name some file has.
    """

    n: int
    m: int
    made: tuple[str, ...]
    tests: tuple[Link, ...]
    unchanged: dict[str, int]
    alone_together: int
    outside: tuple[str, ...]
    copies: dict[str, tuple[str, int]]
    identifiers: dict[str, int]

    def first(self, m: int) -> "Links":
        """The same of the first m files alone."""
        tests = tuple(one for one in self.tests if 0 < one.file <= m or m == self.m)
        return replace(self, m=m, tests=tests)

    def worst(self) -> dict[str, Link]:
        """For each kind the test with most persons for sure, of those beyond chance if any are."""
        found: dict[str, Link] = {}
        for one in sorted(self.tests, key=lambda t: (not t.seen, -t.low)):
            found.setdefault(one.test, one)
        return {test: found[test] for test in WORDS if test in found}

    def summary(self) -> pd.DataFrame:
        """One row per kind of test, that which sees most: the fields of `Link`, and ``share``."""
        rows = [
            one._asdict()
            | {"columns": ", ".join(map(str, one.columns)), "share": one.persons / self.n}
            for one in self.worst().values()
        ]
        return pd.DataFrame(rows, columns=[*Link._fields, "share"]).set_index("test")

    def sentence_of(self, link: Link) -> str:
        """A test in one sentence, without its full stop."""
        named = ", ".join(map(str, link.columns[:LISTED]))
        but = [c for c in self.made if c not in link.columns]
        if link.test == UNIQUES and len(link.columns) > LISTED:
            named = f"the {len(link.columns)} keys"
        elif len(link.columns) > LISTED:
            named = f"all {len(self.made)} synthesised columns{f' but {but[0]}' if but else ''}"
        file = "the mean of all files" if not link.file else f"file {link.file}"
        file = "the file" if self.m == 1 else file
        if not link.of:
            return f"there are no {WORDS[link.test]} ({named}) in {file}"
        joins, would = f"join an original person and a record of {file}", "would"
        by = f"at most {number(link.by_chance, 1)}"
        if link.test in (OWN, ALIKE):
            joins, would = f"are nearest to their own row in {file}", "would be"
            by = ("about " if link.test == ALIKE else "") + number(link.by_chance, 1)
        text = (
            f"{number(link.found, 0 if link.found == int(link.found) else 1)} of the {link.of:,} "
            f"{WORDS[link.test]} ({named}) {joins}; by chance {by} {would}"
        )
        if not link.seen:
            return f"{text}. Chance explains this"
        return (
            f"{text}. This shows about {link.persons:,.0f} of {self.n:,} persons "
            f"({percent(link.persons / self.n)}) beyond chance, at least {link.low:,.0f}"
        )
