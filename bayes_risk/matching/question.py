"""What matching is asked, read and checked once: tables, keys as they are compared, targets.

Choices and keys are settled first, then the original is read with its files, then the targets are
found in it. Exact keys are coded and numbered as cells; a key is compared as a number within a
radius, or with missing values that are no level.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import Combinations, number_keys
from bayes_risk._core.validate import is_number, one_of
from bayes_risk.data.equality import coded
from bayes_risk.data.groups import By
from bayes_risk.data.microdata import (
    by_label,
    check_records,
    numbers_rows,
    require_columns,
    rows_named,
)
from bayes_risk.data.precision import shortest
from bayes_risk.data.variables import check_cells, is_numeric
from bayes_risk.release.tables import Tables, as_tables

from .boxes import Boxes, NumericKey, OwnRows
from .found import Choices, KeySet, found_by
from .input import Key, checked_flag, checked_keys, coded_key, missing_by_key, release_tables
from .odds import Odds, Outsiders, check_sample, how_many_may_be, per_table
from .radii import Radius, checked_ends, checked_radius
from .replicates import Replicates
from .result import Strategy

SINGLE = ("float32", "float16", "float[pyarrow]", "halffloat[pyarrow]")

# how a key is compared: as a number, by its level, or both (is it missing, and if not)
Compared = tuple[NumericKey | None, Key | None]


class MatchingOptions(NamedTuple):
    """Arguments of `identification_risk`."""

    known: Sequence[str]
    synthesized: Sequence[str]
    targets: Any = None
    population: Outsiders = None
    strategy: Strategy = "always"
    reason: Any = None
    radius: Mapping[str, float | Radius] | None = None
    shape: str = "box"
    closed: bool = True
    missing: str | Mapping[str, str] = "level"
    fallback: bool = True
    corresponds: bool | None = None
    person: str | None = None
    by: By = ()


@dataclass(slots=True, eq=False)
class MatchingQuestion:
    """Whom the intruder looks for in which tables, by which keys, compared how.

    ``own_rows``: whether rows of the files are the original's; ``people``, ``place``: the targets'
    key values, and their records (-1: not in the file), ``outside``: those of a table of their own;
    ``whose``: each target's person, ``own``: the rows of each.
    """

    how: MatchingOptions
    known: list[str]
    synthesized: list[str]
    rules: Choices
    own_rows: bool
    tables: Tables
    people: pd.DataFrame
    place: Ints
    outside: bool = False
    whose: Ints | None = None
    own: OwnRows = field(init=False)

    @classmethod
    def of(cls, original: pd.DataFrame, releases: Any, how: MatchingOptions) -> "MatchingQuestion":
        """Settle choices and keys, read the tables, find the targets."""
        check_records(original, "original")
        known, synthesized, rules = settled_keys(list(original.columns), how)
        needs = {"population": how.population is not None, "reason": how.reason is not None}
        needs |= {"known": bool(known), "Replicates": isinstance(releases, Replicates)}
        own = rows_correspond(len(original), releases, how.corresponds, **needs)
        people = how.targets if isinstance(how.targets, pd.DataFrame) else None
        tables = release_tables(original, releases, known, synthesized, own, people)
        tables.by_person(how.person)
        if how.population is not None and tables.n_persons < tables.n:
            raise InputError(
                f"population counts people, and some have several records by person={how.person!r}"
                "; give one record of each, or leave out population or person"
            )
        asked = cls(how, known, synthesized, rules, own, tables, original, np.arange(tables.n))
        asked._find_targets(how.targets)
        return asked

    @property
    def keys(self) -> list[str]:
        """All keys, the unsynthesised ones first."""
        return [*self.known, *self.synthesized]

    def as_settings(self) -> dict[str, Any]:
        """What results state of it."""
        rules = self.rules
        return {
            "index": self.people.index,
            "known": tuple(self.known),
            "synthesized": tuple(self.synthesized),
            "radius": rules.radius,
            "shape": rules.shape,
            "closed": rules.closed,
            "missing": {name: how for name, how in rules.missing.items() if how != "level"},
            "reason": self.how.reason is not None,
            "in_file": self.own.many > 0,
            "person": self.whose,
            "cuts": self.tables.cuts,
        }

    # --- the targets ----------------------------------------------------------------------------

    def _find_targets(self, given: Any) -> None:
        """All records, some of them, or the rows of a table."""
        original = self.people
        if isinstance(given, pd.DataFrame):
            self._check_outside(given)
            place = original.index.get_indexer(given.index)
            self.people, self.place, self.outside = given, place, True
        elif given is not None:
            listed = isinstance(given, Collection | np.ndarray | pd.Series)
            if isinstance(given, str) or not listed:
                raise InputError(
                    f"targets is a {type(given).__name__}; give a list of labels, a mask of the "
                    "records, or a DataFrame"
                )
            self.place = rows_named(given, original.index, "targets")
            if len(np.unique(self.place)) < len(self.place):
                raise InputError("targets names some records twice; name each of them once")
            self.people = original.iloc[self.place]
        self.whose = self._persons()
        self.own = OwnRows.of(self.place, self.tables.of_person(0), self.whose)

    def _check_outside(self, targets: pd.DataFrame) -> None:
        """Rows of a table of their own have labels that tell whether they are in the file."""
        require_columns(targets, self.keys, "targets")
        if not len(targets):
            raise InputError("targets has no rows; give at least one target")
        if not targets.index.is_unique:
            raise InputError(
                "the index of targets names some people twice; give each their own label, that of "
                "their record in the original where they have one"
            )
        if numbers_rows(targets.index) and numbers_rows(self.people.index):
            first = self.people.iloc[: len(targets)]
            for name in self.keys:
                if not targets[name].astype(object).equals(first[name].astype(object)):
                    raise InputError(
                        "targets and the original merely number their rows, and the rows of equal "
                        "numbers differ, so that it is unknown which targets are in the file; give "
                        "both an index of labels, those of other people being none of the "
                        "original's"
                    )

    def _persons(self) -> Ints | None:
        """Each target's person, (n_t,), numbered as in the original, others after them."""
        tables, targets = self.tables, self.people
        name, of_record, known = str(tables.person), tables.of_person(0), self.place >= 0
        if of_record is None:
            return None
        if not self.outside or (name not in targets and known.all()):
            return of_record[self.place]
        if name not in targets:
            raise InputError(
                f"targets has no column {name!r}, and some of its rows are none of the original's, "
                "so that it is unknown whose they are; give it that column"
            )
        check_cells(targets[name], name, "targets")
        columns = [tables.frames[0][name], targets[name]]
        found = coded(name, columns, ["the original", "targets"])
        if found.refusal:
            raise InputError(found.refusal)
        person = np.arange(found.size) + tables.n_persons  # of each code
        person[found.codes[0]] = of_record
        persons = np.asarray(person[found.codes[1]])
        if not found.codes[1].all():
            why = "has missing values in targets; give each target its person's number"
            raise InputError("person", name, why)
        if (persons[known] != of_record[self.place[known]]).any():
            raise InputError(
                f"targets and the original name other persons ({name}) under the same label; give "
                "records of the original their own label and person"
            )
        return persons

    def reason_key(self) -> list[Key]:
        """Whether a record was chosen for synthesis, a key that is known of target and record."""
        reason, original = self.how.reason, self.tables.frames[0]
        if reason is None:
            return []
        if callable(reason):
            try:
                chosen = [reason(frame) for frame in (self.people, original)]
            except KeyError as error:
                named = [c for c in (*original.columns, *self.people.columns) if c in error.args]
                raise InputError(
                    f"reason looks at {f'column {named[0]!r}' if named else 'a column or a value'}"
                    ", which some table lacks; give targets every column that the rule goes by"
                ) from None
            return [Key(_mask(chosen[0], len(self.people)), _mask(chosen[1], self.tables.n), 2)]
        if isinstance(reason, pd.Series):
            reason = by_label(reason, original.index, "reason").to_numpy()
        of_record = _mask(reason, self.tables.n)
        if (self.place < 0).any():
            raise InputError(
                "reason is a mask of the original's records, and some targets are not among them; "
                "give a function of a DataFrame, which states for every row whether it would be "
                "chosen"
            )
        return [Key(of_record[self.place], of_record, 2)]

    # --- keys -----------------------------------------------------------------------------------

    def key_sets(self, files: Sequence[int], also: Sequence[Key] = ()) -> tuple[KeySet, KeySet]:
        """All keys in some files (``also``: coded, and known), and the unsynthesised ones."""
        exact: dict[bool, list[Key]] = {True: [*also], False: []}  # by whether it is unsynthesised
        numeric: dict[bool, list[NumericKey]] = {True: [], False: []}
        for name in self.keys:
            us = name in self.known
            number, level = self._compared(name, files, us)
            numeric[us] += [] if number is None else [number]
            exact[us] += [] if level is None else [level]
        m, n_t = len(files), len(self.place)
        n = int(self.tables.sizes[files[0]])
        kept, every = Combinations(n_t + n), Combinations(n_t + m * n)  # targets, then records
        for key in exact[True]:
            kept.add(np.append(key.target, key.released), key.n_levels)
        of_target, of_record = np.split(kept.dense(), [n_t])
        every.add(np.append(of_target, np.tile(of_record, m)), kept.size)
        for key in exact[False]:
            every.add(np.append(key.target, key.released), key.n_levels)
        u, z = number_keys(every.number[:n_t], every.number[n_t:].reshape(m, n))
        u_us, z_us = number_keys(of_target, of_record.reshape(1, n))
        wide = [k._replace(value=np.broadcast_to(k.value, (m, n))) for k in numeric[True]]
        of_all = KeySet(self.own, u, z, [*wide, *numeric[False]])
        return of_all, KeySet(self.own, u_us, z_us, numeric[True])

    def _compared(self, name: str, files: Sequence[int], unsynthesized: bool) -> Compared:
        """One key of the targets, and of files (m, n), or of the original (1, n) if it was kept."""
        tables, within = self.tables, self.rules.radius.get(name)
        if unsynthesized:
            tables.check_kept(name)
        if within is None:
            codes = coded_key(name, tables)
            parts: Sequence[Any] = codes.codes
        else:
            parts = _numbers(name, tables)
        column, shown = parts[0], [parts[l] for l in files]
        y = parts[-1] if self.outside else column[self.place]
        value = column[None] if unsynthesized else np.stack(shown)
        missing = self.rules.missing[name]
        if within is None:
            y_missing, gone = y == 0, value == 0
            if missing == "level" or not (y_missing.any() or gone.any()):
                return None, Key(y, value, codes.size)
            y, value = np.where(y_missing, np.nan, y), np.where(gone, np.nan, value)
            return _with_missing(NumericKey(y, y, y, value), missing)
        present = column[~np.isnan(column)]
        if not len(present):
            raise InputError(
                f"key {name!r} is missing in every record of the original; leave it out"
            )
        around = np.where(np.isnan(y), present[0], y)
        low, high = checked_ends(name, within, around, present, self.rules.closed)
        return _with_missing(NumericKey(y, low, high, value), missing)

    # --- the answer -----------------------------------------------------------------------------

    def found(self, release_of: Ints | None) -> dict[str, Any]:
        """What is found by all keys of files whose rows are the original's."""
        every, kept = self.key_sets(range(1, self.tables.m + 1), self.reason_key())
        population = per_table(self.how.population, release_of)
        original, cuts = self.tables.frames[0], self.tables.cuts
        check_sample(population, original)
        if population is not None and any(cuts.values()):
            raise InputError(
                "population",
                f"counts people by all values, and in the files {next(iter(cuts))}; cut the column "
                "there in the original and the population too (Series.clip), or leave population "
                "out",
            )

        def odds_of(boxes: Boxes) -> Odds:
            N, within = boxes.N[:, boxes.of], self.rules.radius
            return how_many_may_be(population, self.people, N, self.keys, within)

        numbers = found_by(every, kept, self.rules, odds_of, release_of)
        return {**numbers, "keys": self.people[self.keys]}

    def counted(self) -> dict[str, Any]:
        """How many rows of the original, and of each file that has rows of others, match."""
        nobodys, tallies = self.own._replace(many=np.zeros_like(self.own.many)), []
        for l in range(self.tables.m + 1):
            rows = self.own if l == 0 else nobodys._replace(person=self.tables.of_person(l))
            boxes = self.key_sets([l])[0]._replace(own=rows).boxes(self.rules.limit)
            tallies.append([of[0] for of in boxes.candidates()])
        (in_file, mine, _), *by_file = tallies
        c, _, one = (np.stack(of, axis=1) for of in zip(*by_file, strict=True))
        return {"c": c, "one": one >= 0, "others": in_file - mine, "own": self.own.many}


def _mask(given: Any, n: int) -> Ints:
    chosen = np.asarray(given)
    if chosen.dtype != bool or chosen.shape != (n,):
        raise InputError(
            f"reason gives {chosen.dtype} values of shape {chosen.shape} for {n} rows; "
            "give one truth value for each, or a function of a DataFrame that makes them"
        )
    return chosen.astype(np.int64)


def _with_missing(key: NumericKey, missing: str) -> Compared:
    """Missing values match anything, nothing, or each other: this becomes a key of its own."""
    y, low, high, value = key
    y_missing, gone, level = np.isnan(y), np.isnan(value), None
    if not (y_missing.any() or gone.any()):
        return key, None
    if missing == "level":
        level = Key(y_missing.astype(np.int64), gone.astype(np.int64), 2)
        ends, value = (0.0, 0.0), np.where(gone, 0.0, value)
    elif missing == "wildcard":
        ends = (-np.inf, np.inf)
    else:
        ends, value = (np.inf, -np.inf), np.where(gone, np.inf, value)
    low, high = np.where(y_missing, ends[0], low), np.where(y_missing, ends[1], high)
    return NumericKey(np.where(y_missing, 0.0, y), low, high, value), level


def _numbers(name: str, tables: Tables) -> list[Array]:
    """Numbers of a key in every table; none of them infinite."""
    types = [frame[name].dtype if name in frame else None for frame in tables.frames]
    for l, dtype in enumerate(types):
        if (l == 0 and not is_numeric(dtype)) or np.dtype("complex") == dtype:
            raise InputError(
                f"key {name!r} ({dtype}) of {tables.places[l]} holds no real numbers, which a "
                "radius needs; convert it (file: na, decimal; else pandas.to_numeric), or leave it "
                "out of radius"
            )
    found = tables.numbers(name)
    if any(str(dtype).lower() in SINGLE for dtype in types):
        found = [shortest(values) for values in found]
    for values, where in zip(found, tables.places, strict=True):
        if np.isinf(values).any():
            raise InputError(
                f"key {name!r} of {where} has infinite values in {np.isinf(values).sum():,} of "
                f"{len(values):,} records, which lie within no radius; correct them, or cut the "
                "key into categories (pandas.cut) and leave it out of radius"
            )
    ends = [
        [end.reduce(values) for end in (np.fmin, np.fmax)]  # NaN of none
        for values in (found[0], np.concatenate(found[1 : tables.m + 1]))
    ]
    if ends[1][0] > ends[0][0] or ends[1][1] < ends[0][1]:  # else no file is cut off
        size, key = tables.column(name).size, tables.key(name)
        found = [
            np.where(codes < size, values, key.values[codes])
            for values, codes in zip(found, key.codes, strict=True)
        ]
    return found


def settled_keys(
    columns: Sequence[str], how: MatchingOptions
) -> tuple[list[str], list[str], Choices]:
    """Known and synthesised keys, and how they are compared; refused are choices of no effect."""
    rules = checked_choices(how.strategy, how.shape, how.closed, how.fallback)
    known, synthesized = checked_keys(columns, how.known, how.synthesized)
    keys = [*known, *synthesized]
    if how.person in keys:
        raise InputError(
            "person", how.person, "is a key too; leave it out of known and synthesized"
        )
    within, missing = checked_radius(how.radius, keys), missing_by_key(how.missing, keys)
    check_effects(rules, population=how.population is not None, n_radii=len(within))
    return known, synthesized, rules._replace(radius=within, missing=missing)


def checked_choices(strategy: Any, shape: Any, closed: Any, fallback: Any) -> Choices:
    """Each by itself; a number: the largest Pr(J = n + 1) at which he still claims."""
    checked_flag("fallback", fallback)
    checked_flag("closed", closed)
    shape = one_of("shape", shape)
    if is_number(strategy) and 0 < strategy <= 1:
        strategy = float(strategy)
    elif not isinstance(strategy, str) or strategy not in ("always", "likeliest"):
        raise InputError(
            "strategy",
            strategy,
            '; give "always", "likeliest", or a number above 0 and at most 1: he claims a match '
            "if the target is outside the file with a probability below it",
        )
    return Choices(strategy, shape, closed, fallback)


def check_effects(choices: Choices, *, population: bool, n_radii: int) -> None:
    """Refuse choices that change nothing: whoever made them expects that they do."""
    if choices.strategy != "always" and not population:
        raise InputError(
            "strategy",
            choices.strategy,
            "changes nothing for an intruder who knows that his targets are in the file; give "
            "population too, or leave strategy out",
        )
    if choices.shape == "ellipse" and n_radii < 2:
        raise InputError(
            "shape",
            "ellipse",
            f"needs two radii, and radius names {n_radii}; give another key a radius, or leave "
            "shape out: one radius makes an interval",
        )
    if not choices.closed and not n_radii:
        raise InputError(
            "closed",
            False,
            "leaves out the ends of radii, and radius names none; give a key a radius, or leave "
            "closed out",
        )


def rows_correspond(n: int, releases: Any, given: Any, **needs: bool) -> bool:
    """Whether rows are the n records, as ``given``, or as many; else refuse what `needs` that."""
    sizes = [len(table) for table in as_tables(releases)]
    other = next((l for l, size in enumerate(sizes, start=1) if size != n), 0)
    if not other if given is None else checked_flag("corresponds", given):
        return True
    why = f"release {other} has {sizes[other - 1]} records and the original {n}"
    why = "corresponds is false" if given is False else why
    for what in (name for name, is_needed in needs.items() if is_needed):
        raise InputError(
            what,
            f"is of records, and {why}, so that rows correspond to none; leave it out, name "
            "columns that were drawn afresh under synthesized, or give the original's records, one "
            "row each",
        )
    return False
