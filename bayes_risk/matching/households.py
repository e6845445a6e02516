"""Matching of households: by the keys of all members together, or of any k of them.

A row of the engine of `identification_risk` is a household with a set of its members; the set's key
is the multiset of their keys. A household is one row of those that match, whichever members do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import Combinations, distinct_rows, number_keys
from bayes_risk._core.validate import whole_number
from bayes_risk.data.base_result import Result
from bayes_risk.data.households import Households, HouseholdTable
from bayes_risk.data.microdata import check_records
from bayes_risk.release.tables import Released, Tables

from .boxes import OwnRows
from .found import Choices, KeySet, found_by
from .input import checked_flag, checked_keys, coded_key, release_tables
from .odds import how_many_may_be
from .replicates import Replicates, error_between
from .result import IdentificationRisk

KEYS = "known", "synthesized"
MOST_CELLS = 100_000_000  # of sets of members


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class HouseholdMatching(Result):
    """What an intruder achieves who looks for each household in the release.

    Attributes
    ----------
    matching : IdentificationRisk
        One row per household: candidates, true and false matches of each release, and pooled.
    members : ndarray of int64, shape (n,)
        How many persons each household has.
    alone : ndarray of bool, shape (n,)
        Whether no other household of the original has the keys by which it is looked for.
    known_members : int or None
        How many members the intruder knows; None: all.
    variables : tuple of str
        Keys of which no household of the original has two values.
    """

    matching: IdentificationRisk
    members: Ints
    alone: Flags
    known_members: int | None
    variables: tuple[str, ...]

    @property
    def records(self) -> pd.DataFrame:
        """One row per household: columns of ``matching.records``, ``members``, ``alone``."""
        return self.matching.records.assign(members=self.members, alone=self.alone)

    def summary(self) -> pd.DataFrame:
        """File level, one row per measure: ``value``, ``mcse`` and ``baseline``.

        Households and persons: how many (``households``), in households ``alone`` in the original,
        ``expected`` in correct matches, releases pooled, and the share of a unique and correct
        match (``true``). ``households_false``: false match rate. ``baseline``: without the release.
        """
        found, size, sure = self.matching, self.members, self.matching.baseline == 1
        of, pooled = found.records, found.summary().loc["pooled"]
        of_releases = (size @ (found.hits / np.maximum(found.c, 1))).astype(float)
        wide, share = np.average(size, weights=of["probability"] + 1e-300), size / size.sum()
        error = np.fmax(error_between(of_releases, found.release_of), wide * found.pooled_mcse)
        return summary_of(
            {
                "households": (len(size),),
                "persons": (size.sum(),),
                "households_alone": (self.alone.sum(),),
                "persons_alone": (size @ self.alone,),
                "households_expected": (*pooled[["expected_match_risk", "mcse", "baseline"]],),
                "persons_expected": (size @ of["probability"], error, size @ found.baseline),
                "households_true": (found.pooled_K.mean(), np.nan, sure.mean()),
                "persons_true": (share @ found.pooled_K, np.nan, share @ sure),
                "households_false": (pooled["false_match_rate"],),
            }
        )


def summary_of(rows: Mapping[str, tuple[Any, ...]]) -> pd.DataFrame:
    """Measures in rows: value, and where there is one its error, and without the release."""
    cells = [(*row, np.nan, np.nan)[:3] for row in rows.values()]
    return pd.DataFrame(cells, [*rows], ["value", "mcse", "baseline"], dtype=float)


def household_matching(
    original: pd.DataFrame,
    releases: Released | Replicates | pd.DataFrame | Sequence[pd.DataFrame],
    *,
    household: str | Households,
    known: Sequence[str],
    synthesized: Sequence[str],
    members: int | None = None,
    fallback: bool = True,
) -> HouseholdMatching:
    """Compute the risk that an intruder who knows members of a household finds it in the release.

    As `identification_risk`, of households: one of a release matches if the keys of its members are
    those of the target's, in any order; where k members are known, those of some k members.

    Parameters
    ----------
    original : DataFrame of n persons
        The confidential file. Never changed.
    releases : Release, DataFrame, or list of m DataFrames; or Replicates
        As in `identification_risk`; rows, and so households, are the original's.
    household : str or Households
        The column that names each person's household.
    known : list of str
        Unsynthesised columns that the intruder knows, of persons and of households. May be empty.
    synthesized : list of str
        Changed columns of which the intruder knows the true values. May be empty, but not both.
    members : int, optional
        How many members the intruder knows: those that are rarest together in the original, and all
        of a smaller household; not how many more there are. None: all, and that there are no more.
    fallback : bool
        Where nothing matches, the intruder chooses among households with the same known keys (and
        as many members, if all are known), or gives up.

    Returns
    -------
    HouseholdMatching
        Of households, and of the persons in them.

    Raises
    ------
    InputError
        As `identification_risk`, and what `Households.of` refuses; files of other rows, or that
        divide them into other households; too many sets of ``members``.

    Notes
    -----
    Keys match exactly, missing values are a level. A household variable is a key of each member.

    Examples
    --------
    >>> original = pd.DataFrame({"hid": [1, 1, 2, 2], "age": [40, 9, 40, 12]})
    >>> release = original.assign(age=[40, 9, 40, 9])
    >>> keys = {"household": "hid", "known": [], "synthesized": ["age"]}
    >>> household_matching(original, release, **keys).records["probability"].tolist()
    [0.5, 0.5]
    """
    k = None if members is None else whole_number("members", members)
    fallback = checked_flag("fallback", fallback)
    check_records(original, "original")
    known, synthesized = checked_keys(list(original.columns), known, synthesized)
    declared = household if isinstance(household, Households) else Households(household)
    own = declared.of(original)
    if declared.id in (*known, *synthesized):
        raise InputError("household", declared.id, "is a key too; leave it out of the keys")
    tables = release_tables(original, releases, known, synthesized, True)
    check_households(tables.frames, tables.places, declared.id, own.number)
    kept, *codes = _codes(tables, known, synthesized)
    sets = Sets.of(own, k)
    key, us = sets.keys(codes), sets.keys([kept])
    times = sets.households(key[0])
    order = np.lexsort((key[0], times, -sets.size, sets.household))  # largest, then rarest
    row = order[np.unique(sets.household[order], return_index=True)[1]]
    risk = found_by(
        sets.key_set(key[0][row], key[1:]),
        sets.key_set(us[0][row], us),
        Choices("always", "box", True, fallback),
        lambda boxes: how_many_may_be(None, original, boxes.N[:, boxes.of], [], {}),
        np.array(releases.release_of) if isinstance(releases, Replicates) else None,
    )
    return HouseholdMatching(
        matching=IdentificationRisk(
            index=own.labels,
            known=tuple(known),
            synthesized=tuple(synthesized),
            in_file=np.ones(len(row), bool),
            keys=pd.DataFrame({"members": own.members}, own.labels),
            cuts=tables.cuts,
            **risk,
        ),
        members=own.members,
        alone=times[row] == 1,
        known_members=k,
        variables=tuple(name for name in (*known, *synthesized) if name in own.variables),
    )


def households_beside(
    risk: IdentificationRisk, original: pd.DataFrame, releases: Any, **how: Any
) -> HouseholdMatching | None:
    """Matching of households by those keys of persons that match exactly; None: there are none."""
    keys: dict[str, Any] = {
        name: [c for c in getattr(risk, name) if c not in risk.radius] for name in KEYS
    }
    return household_matching(original, releases, **keys, **how) if any(keys.values()) else None


def check_households(
    tables: Sequence[pd.DataFrame], places: Sequence[str], name: str, number: Ints
) -> None:
    """Files that name households group the same rows; ``number``: of each row of the original."""
    for file, where in zip(tables[1:], places[1:], strict=True):
        column = file.get(name)
        if column is None or column.is_unique or column.isna().all():
            continue
        theirs = pd.factorize(column, use_na_sentinel=False)[0]
        pairs = len(np.unique(np.stack([number, theirs]), axis=1).T)
        if {pairs, 1 + int(theirs.max())} != {1 + int(number.max())}:
            raise InputError(
                f"{where} divides its rows into other households ({name!r}) than the original; "
                "give the original's persons, in its order or with its `index`, or drop that "
                "column"
            )


def _codes(tables: Tables, known: Sequence[str], synthesized: Sequence[str]) -> list[Ints]:
    """Persons by the known keys of the original, then by all keys of it and of each file."""
    cells, kept = Combinations(int(tables.sizes.sum())), np.zeros(tables.n, np.int64)
    for name in (*known, *synthesized):
        codes = coded_key(name, tables)
        cells.add(np.concatenate(codes.codes), codes.size)
        if name in known:
            tables.check_kept(name)
            kept = tables.parts(cells.dense())[0]
    return [kept, *tables.parts(cells.dense())]


class Sets(NamedTuple):
    """R sets of members: all of each household, or any k; smaller ones first."""

    household: Ints  # (R,): of each set
    size: Ints  # (R,): how many members it has
    rows: tuple[Ints, ...]  # rows of the members of the sets of each size

    @classmethod
    def of(cls, own: HouseholdTable, k: int | None) -> "Sets":
        """Sets of the sizes that some household is known by."""
        many, order = own.members, np.argsort(own.number, kind="stable")
        first, sizes = np.cumsum(many) - many, np.unique(many).tolist()
        wanted = np.unique(many if k is None else np.minimum(many, k)).tolist()
        pairs = [(t, s) for t in wanted for s in sizes if s == t or (k is not None and s > t)]
        cells = sum(t * comb(s, t) * int((many == s).sum()) for t, s in pairs)
        if cells > MOST_CELLS:
            what = f"makes sets of {cells:,} members in all; give a smaller number"
            raise InputError("members", k, what)
        who, rows = list[Ints](), {t: list[Ints]() for t in wanted}
        for t, s in pairs:
            those = np.flatnonzero(many == s)
            chosen = np.array([*combinations(range(s), t)])
            rows[t].append(order[first[those][:, None] + np.arange(s)][:, chosen].reshape(-1, t))
            who.append(np.repeat(those, len(chosen)))
        every = tuple(np.concatenate(parts) for parts in rows.values())
        return cls(np.concatenate(who), np.repeat(wanted, [len(part) for part in every]), every)

    def keys(self, codes: Sequence[Ints]) -> Ints:
        """A number of each set in each table, (tables, R): of the multiset of its codes."""
        found, size = [], 0
        for rows in self.rows:
            multisets = np.sort(np.concatenate([code[rows] for code in codes]), axis=1)
            _, which, counts = distinct_rows(multisets)
            found.append(which.reshape(len(codes), -1) + size)
            size += len(counts)
        return np.concatenate(found, axis=1)

    def households(self, key: Ints) -> Ints:
        """Of each set how many households have its key, (R,)."""
        pairs = np.unique(np.stack([key, self.household]), axis=1)
        return np.bincount(pairs[0])[key]

    def key_set(self, target: Ints, keys: Ints) -> KeySet:
        """Keys of the households; rows: each household with each of these that it has anywhere."""
        u, z = number_keys(target, keys)
        size = int(u.max()) + 1
        own = np.arange(len(u)) * size + u
        each = [(self.household * size + one)[one >= 0] for one in z]
        every = np.unique(np.concatenate([own, *each]))
        there = np.stack([np.where(np.isin(every, one), every % size, -1) for one in each])
        return KeySet(OwnRows.of(np.searchsorted(every, own)), u, there, [])
