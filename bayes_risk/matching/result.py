"""Identification risk: candidates, true and false matches of each record, frozen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.formats import counted
from bayes_risk._core.logspace import log_drawn
from bayes_risk._core.matching import Chances
from bayes_risk.data.base_result import Drawn, Result, storable
from bayes_risk.data.groups import GroupRisk
from bayes_risk.data.measures import MATCH_COUNTS
from bayes_risk.release.exposure import Exposure

from .groups import by_group
from .odds import GIVEN
from .radii import Radius, as_setting
from .replicates import error_between, error_of_draws

Strategy = str | float
COLUMNS = (
    *("expected_match_risk", "true_matches", "true_match_rate", "unique_matches"),
    *("false_match_rate", "no_match", "claims"),
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
    cuts: Mapping[str, bool] = field(default_factory=dict)


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
        roles = {
            "unsynthesised": self.in_words(self.known),
            "matched against synthetic values": self.in_words(self.synthesized),
        }
        otherwise = "gives up"
        if self.population != "in the file":
            otherwise = "assumes that the target is outside the file"
        elif self.fallback:
            otherwise = "chooses among all who share the unsynthesised keys"
        return {
            "Keys known to the matching intruder": "; ".join(
                f"{what}: {', '.join(names)}" for what, names in roles.items() if names
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
        uncertain = "does not assume that {}: uncertain, or not so in all files".format
        return rules + [
            f"knows that {c}" if sure else uncertain(c) for c, sure in self.cuts.items()
        ]

    def counting(self, *, alone: bool) -> list[str]:
        """What matching rests on, in words; ``alone``: nothing else was computed."""
        notes = []
        if self.release_of is not None:
            notes.append(f"the intruder searches {self.searched()}")
        if self.estimated:
            notes.append(f"population counts are estimates ({self.population})")
        elif self.population == GIVEN:
            notes.append("population counts were taken as given")
        if not alone:
            return notes
        first = "matches were counted exactly" if notes else "exact counting, nothing was sampled"
        return [first, *notes]

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


def match_measures(n: int, *found: float) -> Array:
    """`COLUMNS` of n targets, from expected risk, true and false matches, no match, claims."""
    expected, K, F, no_match, claims = map(float, found)
    s = K + F
    return np.array([expected, K, K / n, s, F / s if s else np.nan, no_match, claims])


BY_TABLE = ("c", "T", "K", "F", "no_match", "outside")
STORED = (*BY_TABLE, "hits", "one")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Sought(Matching):
    """Numbers of n targets in m tables, whose keys were compared in some way."""

    index: pd.Index
    in_file: Flags
    c: Ints

    @property
    def n(self) -> int:
        """Number of targets."""
        return int(self.c.shape[0])

    @property
    def m(self) -> int:
        """Number of tables that the intruder searches: releases, or tables drawn given them."""
        return int(self.c.shape[1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class IdentificationRisk(Sought, Drawn):
    """What an intruder achieves who looks for each record in the release.

    Of target i (`identification_risk` defines c, T, K, F). *Per release* the probability is that of
    one release (Hornby & Hu 2021); *pooled* it is first averaged over the m releases (Reiter &
    Mitra 2009), so a record that matches more often than others stands out.

    Attributes
    ----------
    known, synthesized, radius, shape, closed, missing, fallback, strategy
        As given to `identification_risk`; of ``missing`` the keys that are not ``"level"``.
    population : str
        Where the intruder has the population counts from; "in the file": he knows who is.
    estimated : bool
        Whether these counts were estimated (log-linear model, weights) and not counted.
    reason : bool
        Whether he knows why records were chosen for synthesis.
    release_of : ndarray of int64, shape (m,), or None
        Of `Replicates` that which it states for each table; None: the tables are the releases.
    pooled_mcse, pooled_draws_mcse : float
        Standard errors of the pooled expected match risk: see `expected_match_risk_mcse` and
        `draws_mcse`.
    exposure : Exposure, or None
        What the files show without a model, uniques by all keys exactly; None for tables drawn.
    person : ndarray of int64, shape (n,), or None
        Which person each target is, where records of several were named (``person=``).
    cuts : dict of str to bool
        What the files cut off of keys, in words, and whether that is certain: larger values of
        targets (or smaller ones) then match the cut.
    index : pandas.Index, length n
        Labels of the targets: the records of the original, or those given.
    in_file : ndarray of bool, shape (n,)
        Targets that have a record in the file.
    c : ndarray of int64, shape (n, m)
        Number of candidates in each release. 0: nothing matched, and no fallback; or no claim.
    hits : ndarray of int64, shape (n, m)
        How many of the candidates are the target's: records of their person, else 0 or 1.
    one : ndarray of int64, shape (n, m)
        The person whose all candidates are, as numbered in ``person``; -1: of several, or none.
        Where each record is a person, at least 0 for one candidate.
    T, K, F : ndarrays of bool, shape (n, m)
        True record among the candidates; single and true; single and false. Of persons with several
        records: a record of theirs; all candidates are theirs; all are another person's.
    no_match : ndarray of bool, shape (n, m)
        No record of the release has the target's full key (with or without fallback).
    outside : ndarray, shape (n, m)
        Pr(J = n + 1), that the target is not in the file.
    pooled_c, pooled_hits, pooled_one, pooled_T, pooled_K, pooled_F : ndarrays, shape (n,)
    pooled_no_match, pooled_outside : ndarrays, shape (n,)
        The same after pooling; ``pooled_no_match``: in no release.
    baseline : ndarray, shape (n,)
        ``1 / N_us``: the chance of hitting the target among the records that share its known keys,
        which takes no synthetic value; 0 for targets outside the file.
    keys, groups : DataFrame or None, GroupRisk or None
        The targets' true keys, by which groups are made; risk by group, if asked for.
    """

    PICTURE: ClassVar[str] = "plot_match_probabilities"
    hits: Ints
    one: Ints
    T: Flags
    K: Flags
    F: Flags
    no_match: Flags
    outside: Array
    pooled_c: Ints
    pooled_hits: Ints
    pooled_one: Ints
    pooled_T: Flags
    pooled_K: Flags
    pooled_F: Flags
    pooled_no_match: Flags
    pooled_outside: Array
    baseline: Array
    keys: pd.DataFrame | None = None
    groups: GroupRisk | None = None

    @property
    def n_releases(self) -> int:
        """Number of releases; 0 for tables drawn with the parameters known."""
        if self.release_of is None:
            return self.m
        return int(np.count_nonzero(np.unique(self.release_of)))

    @property
    def baseline_expected_match_risk(self) -> float:
        """Expected match risk by the known keys alone, ``sum 1/N_us`` where the file is known."""
        return float(self.baseline.sum())

    @property
    def baseline_true_matches(self) -> int | None:
        """Records that the known keys alone match uniquely and correctly; None: not known.

        Those with no other record in the file that shares their keys. Without knowledge of who is
        in the file they are not certain, so that there is no such number.
        """
        if self.population != "in the file" or not self.in_file.all():
            return None
        return int((self.baseline == 1).sum())

    @property
    def draws_mcse(self) -> pd.Series:
        """Standard errors from the drawing alone, labelled alike; NaN where nothing was drawn.

        What more tables given the same releases would bring down; the error between releases stays.
        """
        mean = error_of_draws(self.each[:, 0], self.release_of)
        return pd.Series({"mean": mean, "pooled": self.pooled_draws_mcse})

    @property
    def each(self) -> Array:
        """Measures of each table, shape (m, 7)."""
        found = (self.c, self.hits, self.K, self.F, self.no_match)
        return np.array([_measures(*table) for table in zip(*(x.T for x in found), strict=True)])

    @property
    def pooled(self) -> Array:
        """Measures of the pooled probabilities, shape (7,)."""
        found = (self.pooled_c, self.pooled_hits, self.pooled_K, self.pooled_F)
        return _measures(*found, self.pooled_no_match)

    @property
    def records(self) -> pd.DataFrame:
        """One row per target.

        Columns: ``probability`` (pooled T/c: the chance that an intruder who takes one of his best
        candidates hits the target), ``candidates`` (pooled c), ``true_match`` (pooled K),
        ``false_match`` (pooled F), ``outside`` (pooled Pr(J = n + 1)), ``baseline`` (without the
        release), ``mcse`` (standard error over releases of the per-release T/c; NaN for one).
        """
        columns = {
            "probability": self.pooled_hits / np.maximum(self.pooled_c, 1),
            "candidates": self.pooled_c,
            "true_match": self.pooled_K,
            "false_match": self.pooled_F,
            "outside": self.pooled_outside,
            "baseline": self.baseline,
            "mcse": error_between((self.hits / np.maximum(self.c, 1)).T, self.release_of),
        }
        return pd.DataFrame(columns, index=self.index)

    by_group = by_group

    @property
    def dataset(self) -> xr.Dataset:
        """All of it, labelled: dims ``record, release``; what is pooled is on ``record`` alone.

        Tables that were drawn have a dimension ``table``, with the coordinate ``release_of``. Holds
        record labels but no confidential value. Labels that are not numbers become text.
        """
        what = self.table_word
        data: dict[str, Any] = {name: (("record", what), getattr(self, name)) for name in BY_TABLE}
        pooled = [f"pooled_{name}" for name in BY_TABLE]
        data |= {n: (("record",), getattr(self, n)) for n in (*pooled, "baseline", "in_file")}
        coords: dict[str, Any] = {"record": storable(self.index), what: np.arange(1, self.m + 1)}
        if self.release_of is not None:
            coords["release_of"] = ((what,), self.release_of)
        flags = ("closed", "fallback", "estimated", "reason")
        as_they_are = ("shape", "population", "pooled_mcse", "pooled_draws_mcse")
        settings = {
            "known": "\n".join(map(str, self.known)),
            "synthesized": "\n".join(map(str, self.synthesized)),
            "radius": "\n".join(f"{name} {r!r}" for name, r in self.radius.items()),
            "missing": "\n".join(f"{name} {how}" for name, how in self.missing.items()),
            "strategy": str(self.strategy),
            **{name: int(getattr(self, name)) for name in flags},
            **{name: getattr(self, name) for name in as_they_are},
        }
        return xr.Dataset(data, coords, settings)

    def to_dict(self) -> dict[str, Any]:
        """Sentence, keys, measures by release, pooled and averaged, with error and baseline."""
        as_given = ("known", "synthesized", "shape", "closed", "missing", "reason", "population")
        return {
            "sentence": self.sentence(),
            **{name: getattr(self, name) for name in (*as_given, "strategy", "fallback")},
            "radius": {name: as_setting(r) for name, r in self.radius.items()},
            "population_estimated": self.estimated,
            "measures": self.summary(),
            "baseline_expected_match_risk": self.baseline_expected_match_risk,
            "expected_match_risk_mcse": self.expected_match_risk_mcse.to_dict(),
            "groups": None if self.groups is None else self.groups.to_dict(),
        }


def _measures(c: Ints, hits: Ints, K: Flags, F: Flags, no_match: Flags) -> Array:
    """File-level measures of one release, or pooled."""
    counts = [int(flags.sum()) for flags in (K, F, no_match, c > 0)]
    return match_measures(len(c), Chances.of_targets(c, hits).expected(), *counts)


NOBODYS = "Rows do not correspond to records, so matches are neither right nor wrong."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MatchCounts(Sought):
    """How many released rows match each target, without row correspondence.

    True and false matches, pooled probabilities, populations and fallback have no meaning there.

    Attributes
    ----------
    known, synthesized, radius, shape, closed, missing, fallback, strategy, population
    estimated, reason, release_of, pooled_mcse, pooled_draws_mcse, exposure, person, cuts, index
    in_file
        As of `IdentificationRisk`.
    c : ndarray of int64, shape (n, m)
        Rows of each release that match.
    one : ndarray of bool, shape (n, m)
        Whether they are one row, or rows of one person where the file names persons.
    sizes : ndarray of int64, shape (1 + m,)
        Records of the original, and rows of each release.
    others : ndarray of int64, shape (n,)
        Records of the original that match, without the target's own: those of their person.
    own : ndarray of int64, shape (n,)
        How many records the target has in the original: 0 or 1, or those of their person.
    """

    one: Flags
    sizes: Ints
    others: Ints
    own: Ints

    @property
    def replicated(self) -> Flags:
        """Targets matched by a single row that matches no other original record, shape (n, m)."""
        return np.asarray(self.one & (self.in_file & (self.others == 0))[:, None])

    def summary(self) -> pd.DataFrame:
        """File level: one row per release ``1 .. m``, their ``mean`` and its error ``mcse``.

        Columns: targets whom no row matches (``no_match``), one (``unique_matches``), one to four
        (``below_5``); ``candidates``, rows that match, mean over targets; ``replicated_uniques``.
        Rows ``thinned`` and ``others``: the same expected of rows drawn at random from a release,
        at most as many as there are other records in the original, and of as many of these, which
        know nothing of the target: equal on average if the release knows nothing either.
        """
        n, *N = self.sizes.tolist()
        drawn, rest = [min(size, self.drawn) for size in N], n - self.own
        each = [_by_number(c, size, size) for c, size in zip(self.c.T, N, strict=True)]
        counts = np.column_stack([each, self.replicated.sum(axis=0)])
        thin = [_by_number(*rows) for rows in zip(self.c.T, N, drawn, strict=True)]
        others = [_by_number(self.others, rest, r) for r in drawn]
        expected = [[*np.mean(rows, axis=0), np.nan] for rows in (thin, others)]
        names = [*range(1, self.m + 1), "mean", "mcse", "thinned", "others"]
        return pd.DataFrame(
            [*counts, counts.mean(axis=0), error_between(counts, None), *expected],
            index=pd.Index(names, dtype=object, name="release"),
            columns=list(MATCH_COUNTS),
        )

    @property
    def drawn(self) -> int:
        """Most rows that are drawn: as many as everybody's other records in the original."""
        return int(self.sizes[0]) - max(1, int(self.own.max()))

    @property
    def records(self) -> pd.DataFrame:
        """One row per target.

        Columns: in how many releases a single row matches it and no other original record
        (``replicated_uniques``), a single one (``unique_matches``), none (``no_match``);
        ``candidates``, rows that match, mean over releases, with its standard error ``mcse``, and
        ``expected``, of as many of the other records; ``others``, those that match.
        """
        n, *N = self.sizes
        columns = {
            "replicated_uniques": self.replicated.sum(axis=1),
            "unique_matches": (self.c == 1).sum(axis=1),
            "no_match": (self.c == 0).sum(axis=1),
            "candidates": self.c.mean(axis=1),
            "mcse": error_between(self.c.T.astype(float), None),
            "expected": np.mean(N) * self.others / np.maximum(n - self.own, 1),
            "others": self.others,
        }
        return pd.DataFrame(columns, index=self.index)

    @property
    def dataset(self) -> xr.Dataset:
        """The records as labelled arrays for NetCDF; no confidential value."""
        labelled = self.records.set_axis(pd.Index(storable(self.index), name="record"))
        return xr.Dataset.from_dataframe(labelled)

    def presence(self) -> str:
        """What the intruder can go by."""
        return ", and ".join(["looks among rows without correspondence", *self.rules()])


Matched = IdentificationRisk | MatchCounts


def _by_number(c: Ints, rows: Any, drawn: int) -> list[float]:
    """Targets whom none, one, one to four of the rows drawn match, and how many on average."""
    rows = np.maximum(rows, 1)
    base = np.max(rows) + 1
    pairs, targets = np.unique(c * base + rows, return_counts=True)
    c, rows = np.divmod(pairs, base)
    none, one, *few = np.exp(log_drawn(np.arange(5)[:, None], c, drawn, rows)) @ targets
    mean = drawn * (c / rows) @ targets / targets.sum()
    return [float(x) for x in (none, one, one + sum(few), mean)]
