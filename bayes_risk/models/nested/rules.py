"""Households as a nested mixture has them, and which of them cannot be.

A household is one row of its own columns and the head's, and one row a further member. A rule names
columns of a member, of the head (``head.age``) or of the head's partner (``spouse.age``), and
differences of ordered levels (``age - head.age``). Rules see cells: combinations of the levels of
those columns that some rule names.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints, scalar
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import is_number
from bayes_risk.data.households import Households
from bayes_risk.data.impossible import Impossible, coded_rule
from bayes_risk.data.microdata import Codes, Microdata, Variable

MAX_CELLS = 10_000_000  # combinations of a head's, a partner's and a member's cells


class Layout(NamedTuple):
    """Where columns of a coded table stand in the rows of households and of members."""

    own: Ints  # columns of the household, in the table
    person: Ints  # columns of persons but for the relation
    relate: int
    head: int  # code of the head's relation
    sizes: Ints  # (S,): different numbers of persons
    of_household: Ints  # (qh + 1,): where levels of household columns begin, the head's last
    of_member: Ints  # (qm + 1,): the same of a member: the relation, then the others


class Persons(NamedTuple):
    """n households of a coded table: positions of levels, and the rows that they stand in."""

    household: npt.NDArray[np.int32]  # (n, qh)
    member: npt.NDArray[np.int32]  # (N, qm), household after household
    first: Ints  # (n + 1,): where members of each begin
    size: Ints  # (n,): place of its number of persons among `Layout.sizes`
    head_row: Ints  # (n,)
    member_row: Ints  # (N,)

    def beside(self, other: "Persons") -> "Persons":
        """These and others, which stand in other tables."""
        both = {n: np.concatenate([getattr(self, n), getattr(other, n)]) for n in self._fields}
        both["first"] = np.append(self.first, self.first[-1] + other.first[1:])
        return Persons(**both)

    def without(self, i: int) -> "Persons":
        """All but household i."""
        span, many = slice(self.first[i], self.first[i + 1]), np.diff(self.first)
        return Persons(
            np.delete(self.household, i, axis=0),
            np.delete(self.member, span, axis=0),
            np.append(0, np.delete(many, i).cumsum()),
            np.delete(self.size, i),
            np.delete(self.head_row, i),
            np.delete(self.member_row, span),
        )


def coded_households(df: pd.DataFrame, household: Households, **how: Any) -> Microdata:
    """A table of persons, coded; the column with their households too, whatever its labels."""
    found = household.of(df)
    data = Microdata.from_frame(df[[c for c in df.columns if c != household.id]], **how)
    if len(data.columns) < 2:
        raise InputError("the table has no column but households and relations; give another")
    place = int(np.flatnonzero(df.columns == household.id)[0])
    labels, dtype = tuple(scalar(v) for v in found.labels), df[household.id].dtype
    if isinstance(dtype, pd.CategoricalDtype):  # codes are places among the labels
        dtype = pd.CategoricalDtype([*labels])
    variables = list(data.variables)
    variables.insert(place, Variable(household.id, labels, False, dtype))
    codes = np.insert(data.codes, place, found.number, axis=1)
    return replace(data, codes=codes, variables=tuple(variables))


def household_layout(data: Microdata, household: Households, members: Ints) -> Layout:
    """Of a table, whose households have these numbers of persons."""
    names = data.columns
    relate = names.index(str(household.relate))
    variable = data.variables[relate]
    assert isinstance(variable, Variable)
    own = np.array([names.index(c) for c in household.variables], np.int64)
    out = {names.index(household.id), relate, *own}
    person = np.array([j for j in range(len(names)) if j not in out], np.int64)
    d = data.n_levels
    starts = [[0, *d[own], *d[person]], [0, d[relate] - 1, *d[person]]]
    at = (np.cumsum(one).astype(np.int64) for one in starts)
    return Layout(
        own, person, relate, variable.levels.index(household.head), np.unique(members), *at
    )


def households_in(codes: Codes, layout: Layout, number: Ints) -> Persons:
    """Households of a coded table whose persons have these numbers."""
    head = codes[:, layout.relate] == layout.head
    order = np.argsort(number, kind="stable")
    heads, members = order[head[order]], order[~head[order]]
    relation = codes[members, layout.relate] - (codes[members, layout.relate] > layout.head)
    household = codes[heads][:, [*layout.own, *layout.person]]
    member = np.column_stack([relation, codes[members][:, layout.person]])
    many = np.bincount(number)
    return Persons(
        (household + layout.of_household[:-1]).astype(np.int32, order="C"),
        (member + layout.of_member[:-1]).astype(np.int32, order="C"),
        np.concatenate([[0], np.cumsum(many - 1)]),
        np.searchsorted(layout.sizes, many),
        heads,
        members,
    )


def in_table(codes: Codes, persons: Persons, layout: Layout) -> Codes:
    """The table (n, p), in place, with these households in it."""
    household = persons.household - layout.of_household[:-1]
    member = persons.member - layout.of_member[:-1]
    codes[np.ix_(persons.head_row, layout.person)] = household[:, len(layout.own) :]
    codes[np.ix_(persons.member_row, layout.person)] = member[:, 1:]
    codes[persons.member_row, layout.relate] = member[:, 0] + (member[:, 0] >= layout.head)
    for j, column in enumerate(layout.own):
        codes[persons.head_row, column] = household[:, j]
        codes[persons.member_row, column] = np.repeat(household[:, j], np.diff(persons.first))
    return codes


class RuleCells(NamedTuple):
    """Combinations of the levels of some columns of a row of positions."""

    columns: Ints
    dims: tuple[int, ...]
    begin: Ints  # first position of each column

    @classmethod
    def of(cls, columns: list[int], starts: Ints) -> "RuleCells":
        """Of these columns, in a row whose levels begin there."""
        at = np.array(columns, np.int64)
        return cls(at, tuple((starts[at + 1] - starts[at]).tolist()), starts[at])

    @property
    def number(self) -> int:
        """How many combinations there are."""
        return int(np.prod(self.dims, dtype=np.int64))

    def levels(self) -> Ints:
        """Level of each column in each cell, (number, columns)."""
        at = np.unravel_index(np.arange(self.number), self.dims) if self.dims else ()
        levels = np.array(at, np.int64).reshape(len(self.dims), self.number)
        return np.ascontiguousarray(levels.T)

    def at(self, rows: npt.NDArray[Any]) -> Ints:
        """The cell of rows of positions (..., q)."""
        if not self.dims:
            return np.zeros(rows.shape[:-1], np.int64)
        found = rows[..., self.columns].astype(np.int64) - self.begin
        at = np.ravel_multi_index(tuple(np.moveaxis(found, -1, 0)), self.dims)
        return np.asarray(at, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rules:
    """Which cells of head, partner and other members go together.

    E classes of partners (of a partner's cells that the rules treat alike); e = 0: no partner.
    """

    heads: RuleCells
    members: RuleCells
    head: Flags  # (B,): heads that are possible
    other: Flags  # (E + 1, B, C): members who are no partner
    spouse: Flags  # (B, C): partners
    of_spouse: Ints  # (C,): class 1 .. E of a partner's cell; 0: no partner
    sets: Array  # (D, C): the different rows of ``other``
    set_of: Ints  # (E + 1, B): which each is

    @property
    def bind(self) -> bool:
        """Whether any household is impossible."""
        return not (self.head.all() and self.other.all())

    def allow(self, persons: Persons) -> Flags:
        """Which households are possible, (n,)."""
        b, c = self.heads.at(persons.household), self.members.at(persons.member)
        n, many = len(b), np.diff(persons.first)
        of = np.repeat(np.arange(n), many)
        e = self.of_spouse[c]
        partners = np.bincount(of, e > 0, minlength=n)
        partner = np.bincount(of, e, minlength=n).astype(np.int64)
        partner[partners > 1] = 0
        good = np.where(e > 0, self.spouse[b[of], c], self.other[partner[of], b[of], c])
        wrong = np.bincount(of, ~good, minlength=n) > 0
        return np.asarray(self.head[b] & (partners <= 1) & ~wrong)

    def allowed(self, persons: Persons, i: int, j: int | None) -> Flags:
        """RuleCells of member j, or of the head (None), that the rest of household i allows."""
        span = slice(persons.first[i], persons.first[i + 1])
        c = self.members.at(persons.member[span])
        b = int(self.heads.at(persons.household[i]))
        if j is not None:
            c = np.delete(c, j - persons.first[i])
        e = self.of_spouse[c]
        partner = int(e.max(initial=0))
        rest = c[e == 0]
        if j is None:
            fits = self.head & self.other[partner][:, rest].all(axis=1)
            return np.asarray(fits & self.spouse[:, c[e > 0]].all(axis=1))
        if partner:
            return np.asarray(self.other[partner, b])
        others = np.asarray(self.other[:, b][:, rest].all(axis=1))
        mine = self.spouse[b] & others[self.of_spouse]
        return np.asarray(np.where(self.of_spouse > 0, mine, self.other[0, b]))

    def refuse(self, persons: Persons, source: str) -> None:
        """Stop if households are impossible."""
        wrong = ~self.allow(persons)
        if wrong.any():
            raise InputError(
                f"`impossible` and `spouse` exclude {int(wrong.sum())} households of {source}, one "
                f"with its head in row {persons.head_row[wrong.argmax()] + 1:,}; correct the rules "
                "or the records"
            )


class RulePart(NamedTuple):
    """A part of a rule: levels of a column, or a difference from another person's."""

    whose: str  # "head" (household columns too), "spouse" or "member"
    column: str
    levels: Flags  # (d,), or (d, d of ``other``)
    other: str = ""  # column of the other person
    of: str = ""  # "head" or "spouse"


class _Reader(NamedTuple):
    """Reads rules against a table."""

    data: Microdata
    layout: Layout

    def named(self, columns: Ints) -> list[str]:
        return [self.data.columns[j] for j in columns]

    def variable(self, column: str) -> Any:
        return self.data.variables[self.data.columns.index(column)]

    def condition(self, key: str, given: list[Hashable], r: int) -> RulePart:
        """One entry of rule r."""
        own, person = self.named(self.layout.own), self.named(self.layout.person)
        relate = self.data.columns[self.layout.relate]
        if key in own:
            return RulePart("head", key, self._levels(key, given, r))
        if key in (relate, *person):
            return RulePart("member", key, self._levels(key, given, r))
        left, minus, right = key.partition(" - ")
        for of in ("head", "spouse"):
            begin = f"{of}."
            if not minus and left.removeprefix(begin) in person and left.startswith(begin):
                column = left.removeprefix(begin)
                return RulePart(of, column, self._levels(column, given, r))
            if left in person and right.startswith(begin) and right.removeprefix(begin) in person:
                other = right.removeprefix(begin)
                return RulePart("member", left, self._apart(left, other, given, r), other, of)
        right = f"{relate!r}, one of {own + person}, or 'head.' or 'spouse.' before one of {person}"
        raise InputError("impossible", f": rule {r + 1} names {key!r}; give {right}")

    def _levels(self, column: str, given: list[Hashable], r: int) -> Flags:
        starts = np.concatenate([[0], np.cumsum(self.data.n_levels)]).astype(np.int64)
        j = self.data.columns.index(column)
        return coded_rule({column: given}, r, self.data, starts)[starts[j] : starts[j + 1]]

    def _apart(self, column: str, other: str, given: list[Any], r: int) -> Flags:
        """Levels of two columns whose difference is from the first number to the second."""
        if len(given) != 2 or not all(is_number(x) for x in given):
            raise InputError(
                "impossible",
                f": rule {r + 1} must give a difference as two numbers, from and to: "
                '`{"relate": ["child"], "age - head.age": [-11, 0]}`',
            )
        apart = self._values(column)[:, None] - self._values(other)
        with np.errstate(invalid="ignore"):
            return np.asarray((apart >= given[0]) & (apart <= given[1]))

    def _values(self, column: str) -> Array:
        """Levels as numbers, or else their places; NaN: missing."""
        variable = self.variable(column)
        numbers = all(is_number(v) for v in variable.levels)
        values = variable.levels if numbers else range(len(variable.levels))
        return np.array([*values, np.nan][: variable.n_levels], float)


def rules_of(
    data: Microdata, layout: Layout, impossible: Impossible | None, spouse: Any = None
) -> Rules:
    """Rules coded against a table; ``spouse``: the relation that one member at most has."""
    read = _Reader(data, layout)
    if impossible is not None and callable(impossible.rules):
        raise InputError("impossible must list rules of households; a function is not offered")
    listed = [] if impossible is None else impossible.listed()
    rules = [
        [read.condition(str(key), given, r) for key, given in rule.items()]
        for r, rule in enumerate(listed)
    ]
    relate = data.columns[layout.relate]
    partner = None
    if spouse is not None:
        levels: Any = read.variable(relate).levels
        if spouse not in levels or levels.index(spouse) == layout.head:
            right = f"is not a relation of a further member in column {relate!r}; give its level"
            raise InputError("spouse", spouse, right)
        partner = read.condition(relate, [spouse], 0)
    rules = [[*_about_spouse(rule, partner, r)] for r, rule in enumerate(rules)]
    named = {(c.whose, c.column) for rule in rules for c in rule}
    named |= {(c.of, c.other) for rule in rules for c in rule if c.of}
    named |= {
        ("head", c.column) for rule in rules if _of_each(rule, relate, layout.head) for c in rule
    }
    here = [relate, *read.named(layout.person)]
    there = read.named(np.concatenate([layout.own, layout.person]))
    used = {c for whose, c in named if whose != "head"} | ({relate} if partner else set())
    members = RuleCells.of([j for j, c in enumerate(here) if c in used], layout.of_member)
    heads = [j for j, c in enumerate(there) if ("head", c) in named]
    of_heads = RuleCells.of(heads, layout.of_household)
    n_cells = of_heads.number * members.number
    if n_cells > MAX_CELLS:
        raise InputError(
            f"the rules of `impossible` name columns with {n_cells:,} combinations of a head and a "
            "member; join levels, or name fewer columns"
        )
    at = _Places(
        {there[j]: level for j, level in zip(heads, of_heads.levels().T, strict=True)},
        {here[j]: level for j, level in zip(members.columns, members.levels().T, strict=True)},
        relate,
        layout.head,
    )
    mine = np.zeros(members.number, bool) if partner is None else at.members(partner)
    head, other, classes = _tables(rules, at, mine, (of_heads.number, members.number))
    alone = other & ~mine & head[None, :, None]
    packed = np.packbits(alone.reshape(-1, members.number), axis=1)
    _, first, of = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return Rules(
        heads=of_heads,
        members=members,
        head=head,
        other=alone,
        spouse=other[0] & mine & head[:, None],
        of_spouse=classes,
        sets=alone.reshape(-1, members.number)[first].astype(float),
        set_of=of.reshape(other.shape[:2]),
    )


def _about_spouse(rule: list[RulePart], partner: RulePart | None, r: int) -> Iterator[RulePart]:
    """A rule; one that names the partner and no member is about the partner as a member."""
    names_it = any("spouse" in (c.whose, c.of) for c in rule)
    if names_it and partner is None:
        raise InputError(
            "impossible", f": rule {r + 1} names the spouse; give `spouse`, the partner's relation"
        )
    alone = names_it and all(c.whose != "member" for c in rule)
    for condition in rule:
        as_member = alone and condition.whose == "spouse"
        yield condition._replace(whose="member") if as_member else condition
    if alone and partner is not None:
        yield partner


def _of_each(rule: list[RulePart], relate: str, head: int) -> bool:
    """Whether a rule is about one person by itself, who may be the head."""
    alone = all(c.whose == "member" and not c.of for c in rule)
    return alone and all(bool(c.levels[head]) for c in rule if c.column == relate)


class _Places(NamedTuple):
    """Level of each column in each cell of heads and of members."""

    of_heads: dict[str, Ints]
    of_members: dict[str, Ints]
    relate: str
    head: int

    def heads(self, c: RulePart, B: int) -> Flags:
        """RuleCells of heads that have it, (B,)."""
        if c.column == self.relate:
            return np.full(B, c.levels[self.head])
        return c.levels[self.of_heads[c.column]]

    def members(self, c: RulePart) -> Flags:
        """RuleCells of members, (C,)."""
        levels = self.of_members[c.column]
        return c.levels[levels + (levels >= self.head) if c.column == self.relate else levels]

    def apart(self, c: RulePart, other: Ints) -> Flags:
        """RuleCells of members against levels of another person, (len(other), C)."""
        return c.levels.T[other][:, self.of_members[c.column]]


def _tables(
    rules: list[list[RulePart]], at: _Places, partner: Flags, shape: tuple[int, int]
) -> tuple[Flags, Flags, Ints]:
    """Heads (B,) and members (E + 1, B, C) that are possible, and the class of partners (C,)."""
    head, member = np.ones(shape[0], bool), np.ones(shape, bool)
    with_spouse: list[tuple[Flags, list[RulePart]]] = []
    for rule in rules:
        if _of_each(rule, at.relate, at.head):
            head &= ~np.all([at.heads(c, shape[0]) for c in rule], axis=0)
        bad, of_spouse = np.ones(shape, bool), []
        for c in rule:
            if "spouse" in (c.whose, c.of):
                of_spouse.append(c)
            elif c.of:
                bad &= at.apart(c, at.of_heads[c.other])
            else:
                bad &= at.heads(c, shape[0])[:, None] if c.whose == "head" else at.members(c)
        if of_spouse:
            with_spouse.append((bad, of_spouse))
        elif all(c.whose == "head" for c in rule):
            head &= ~bad[:, 0]
        else:
            member &= ~bad
    classes, found = np.zeros(shape[1], np.int64), dict[bytes, int]()
    other = [member]
    for s in np.flatnonzero(partner):
        good = member.copy()
        for bad, conditions in with_spouse:
            also = np.ones(shape[1], bool)
            for c in conditions:
                mine = at.of_members[c.other if c.of else c.column][s]
                also &= at.apart(c, np.array([mine]))[0] if c.of else bool(c.levels[mine])
            good &= ~(bad & also)
        key = good.tobytes()
        if key not in found:
            found[key] = len(other)
            other.append(good)
        classes[s] = found[key]
    if len(other) * member.size > MAX_CELLS:
        raise InputError(
            f"the rules of `impossible` treat {len(found):,} kinds of partners apart, too many; "
            "join levels, or name fewer columns of the spouse"
        )
    return head, np.stack(other), classes
