"""Household matching from its definition: every household against every other, in fractions.

A household is a list of its members' keys. Known members may be any of the sets that are the rarest
in the original: where several are, each is given.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any, NamedTuple

import pandas as pd

Key = tuple[Any, ...]


class Found(NamedTuple):
    """What is found of a household: candidates, whether it is among them, 1 / N_us; by release."""

    c: int
    T: bool
    baseline: Fraction
    each: tuple[tuple[int, bool], ...]


def members_of(
    table: pd.DataFrame, of: Sequence[Any], names: Sequence[str]
) -> dict[Any, list[Key]]:
    """Keys of the members of each household."""
    found: dict[Any, list[Key]] = {}
    for place, row in enumerate(table[[*names]].itertuples(index=False)):
        found.setdefault(of[place], []).append(tuple(row))
    return found


def holds(members: Sequence[Key], wanted: Sequence[Key], whole: bool) -> bool:
    """Whether a household has these members: all that it has, or among others."""
    left = Counter(members)
    left.subtract(Counter(wanted))
    return all(k == 0 if whole else k >= 0 for k in left.values())


def matched(
    original: pd.DataFrame,
    files: Sequence[pd.DataFrame],
    of: Sequence[Any],
    known: Sequence[str],
    synthesized: Sequence[str],
    k: int | None,
    fallback: bool,
) -> list[tuple[bool, list[Found]]]:
    """Of each household, in order of appearance: whether it is alone, and what may be found."""
    names, whole = [*known, *synthesized], k is None
    own, shown = members_of(original, of, names), [members_of(f, of, names) for f in files]
    found = []
    for label, mine in own.items():
        size = len(mine) if k is None else min(k, len(mine))
        sets = [[mine[i] for i in some] for some in combinations(range(len(mine)), size)]
        times = [sum(holds(m, some, whole) for m in own.values()) for some in sets]
        rarest = [s for s, count in zip(sets, times, strict=True) if count == min(times)]
        every = [_of_set(label, s, own, shown, len(known), whole, fallback) for s in rarest]
        found.append((min(times) == 1, every))
    return found


def _of_set(
    label: Any,
    some: list[Key],
    own: dict[Any, list[Key]],
    shown: list[dict[Any, list[Key]]],
    n_known: int,
    whole: bool,
    fallback: bool,
) -> Found:
    kept = [key[:n_known] for key in some]
    cell = [j for j, m in own.items() if holds([key[:n_known] for key in m], kept, whole)]
    chance: dict[Any, Fraction] = dict.fromkeys(own, Fraction(0))
    each = []
    for members in shown:
        there = [j for j, m in members.items() if holds(m, some, whole)]
        there = there or (cell if fallback else [])
        each.append((len(there), label in there))
        for j in there:
            chance[j] += Fraction(1, len(there))
    top = max(chance.values())
    best = [j for j, p in chance.items() if p == top > 0]
    return Found(len(best), label in best, Fraction(1, len(cell)), tuple(each))
