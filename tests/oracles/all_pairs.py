"""Identification risk from its definition: everyone against everyone, in plain Python fractions.

Written from Drechsler & Reiter (2008), eq. 6 and 7, section 4.3, and from the docstring of
`identification_risk`; slow, and blind to how the library reckons. Missing values are None.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, sqrt
from statistics import median, stdev
from typing import Any

from bayes_risk.matching.radii import SD, Absolute, Quantile, Relative

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Rules:
    """How values are compared: the options of `identification_risk`, and the genuine file."""

    original: Sequence[Row]
    radius: Mapping[str, Any]
    missing: Mapping[str, str]
    closed: bool
    round: bool

    def match(self, target: Row, record: Row, keys: Sequence[str]) -> bool:
        """Whether a released record carries the target's values of these keys."""
        distance = Fraction(0)
        for key in keys:
            t, z, how = target[key], record[key], self.missing.get(key, "level")
            if t is None or z is None:
                if not (how == "wildcard" or (how == "level" and t is None and z is None)):
                    return False
            elif key not in self.radius:
                if t != z:
                    return False
            else:
                t, z = decimal(t), decimal(z)
                low, high = ends(self.radius[key], t, [row[key] for row in self.original])
                if not self._inside(t, z, low, high):
                    return False
                if z != t:
                    distance += ((z - t) / (low - t if z < t else high - t)) ** 2
        return not self.round or (distance <= 1 if self.closed else distance < 1 or distance == 0)

    def _inside(self, t: Fraction, z: Fraction, low: Fraction, high: Fraction) -> bool:
        if self.closed:
            return low <= z <= high
        return low < z < high or z == t


def decimal(x: float | Fraction) -> Fraction:
    """The number that is written."""
    return x if isinstance(x, Fraction) else Fraction(str(x))


def ends(radius: Any, y: Fraction, column: Sequence[float | None]) -> tuple[Fraction, Fraction]:
    """The interval around y, as each kind of radius defines it."""
    file = sorted(decimal(x) for x in column if x is not None)
    if isinstance(radius, Relative):
        return y - decimal(radius.r) * abs(y), y + decimal(radius.r) * abs(y)
    if isinstance(radius, Absolute):
        return y - decimal(radius.units), y + decimal(radius.units)
    if isinstance(radius, SD):
        group = file
        if radius.groups == 2:
            group = [x for x in file if (x >= median(file)) == (y >= median(file))]
        spread = round(stdev(map(float, group)), 12) if len(group) > 1 else 0.0
        reach = decimal(radius.k) * decimal(spread)
        return y - reach, y + reach
    assert isinstance(radius, Quantile)
    steps = floor(radius.q * len(file))
    below, up_to = sum(x < y for x in file), sum(x <= y for x in file)
    low = file[min(max(below - steps, 0), len(file) - 1)]
    high = file[min(max(up_to - 1 + steps, 0), len(file) - 1)]
    return min(low, y), max(high, y)


@dataclass
class Found:
    """Of one target: the best candidates' persons, its own, whether any matched, Pr(J = n + 1)."""

    persons: Sequence[Any]
    own: Any
    no_match: bool
    outside: Fraction

    @property
    def c(self) -> int:
        return len(self.persons)

    @property
    def T(self) -> bool:
        return self.own in self.persons

    @property
    def K(self) -> bool:
        return set(self.persons) == {self.own}

    @property
    def F(self) -> bool:
        return len(set(self.persons)) == 1 and not self.K

    @property
    def risk(self) -> Fraction:
        return Fraction(self.persons.count(self.own), max(self.c, 1))


@dataclass
class Task:
    """A matching task. Targets: record (None: outside the file) and key values."""

    rules: Rules
    releases: Sequence[Sequence[Row]]
    targets: Sequence[tuple[int | None, Row]]
    known: Sequence[str]
    synthesized: Sequence[str]
    population: Sequence[Sequence[float]] | None  # m x n_t
    strategy: str | float
    fallback: bool
    person: Sequence[Any] | None = None  # of each record, and of each target; else each is one
    whose: Sequence[Any] = ()

    def persons(self) -> Sequence[Any]:
        return range(len(self.rules.original)) if self.person is None else self.person

    def own(self, i: int) -> Any:
        return self.targets[i][0] if self.person is None else self.whose[i]

    def probabilities(self, l: int, i: int) -> tuple[list[Fraction], bool, Fraction]:
        """Pr(J = j) by release l alone, j = 1..n; whether nothing matches; Pr(J = n + 1)."""
        _, t = self.targets[i]
        table = self.releases[l]
        hits = [self.rules.match(t, row, [*self.known, *self.synthesized]) for row in table]
        gone = not any(hits)
        if gone and self.population is None and self.fallback:
            hits = [self.rules.match(t, row, self.known) for row in table]
        N = Fraction(sum(hits))
        D = N if self.population is None else max(N, Fraction(self.population[l][i]))
        chance = [1 / D if hit else Fraction(0) for hit in hits]
        if self.population is None:  # he knows that the target is in the file, or gives up
            assert sum(chance) == (1 if any(hits) else 0)
            return chance, gone, Fraction(0)
        assert sum(chance) <= 1
        return chance, gone, 1 - sum(chance, Fraction(0))

    def each(self, l: int, i: int) -> Found:
        return self._claim(i, *self.probabilities(l, i))

    def pooled(self, i: int, without: int | None = None) -> Found:
        kept = [l for l in range(len(self.releases)) if l != without]
        parts = [self.probabilities(l, i) for l in kept]
        chance = [sum(p) / len(kept) for p in zip(*(chance for chance, _, _ in parts), strict=True)]
        outside = sum((rest for _, _, rest in parts), Fraction(0)) / len(kept)
        if self.population is not None:
            assert sum(chance) + outside == 1
        return self._claim(i, chance, all(gone for _, gone, _ in parts), outside)

    def _claim(self, i: int, chance: Sequence[Fraction], gone: bool, outside: Fraction) -> Found:
        best = max(chance)
        claims = best > 0
        if self.strategy == "likeliest":
            claims = claims and outside <= best
        elif self.strategy != "always":
            claims = claims and outside < Fraction(str(self.strategy))
        if not claims:
            return Found([], self.own(i), gone, outside)
        pairs = zip(chance, self.persons(), strict=True)
        return Found([who for p, who in pairs if p == best], self.own(i), gone, outside)

    def baseline(self, i: int) -> float:
        """1/N_us, if the target's own record is among those N_us; each of their person's."""
        rows = zip(self.rules.original, self.persons(), strict=True)
        cell = [p for row, p in rows if self.rules.match(self.targets[i][1], row, self.known)]
        return cell.count(self.own(i)) / max(len(cell), 1)

    def pooled_mcse(self) -> float:
        """Jackknife over releases."""
        m = len(self.releases)
        if m < 3:
            return float("nan")
        x = [
            float(sum(self.pooled(i, without=l).risk for i in range(len(self.targets))))
            for l in range(m)
        ]
        return sqrt((m - 1) / m * sum((v - sum(x) / m) ** 2 for v in x))
