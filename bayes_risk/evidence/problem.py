"""The audit problem: whom to audit, what is guessed of them, and what the fit offers for it.

Everything that an audit is given is read, checked and encoded here, once.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import distinct_rows
from bayes_risk._core.validate import known_columns, whole_number
from bayes_risk.data.microdata import rows_named
from bayes_risk.intruder.grids import as_guesses
from bayes_risk.intruder.guesses import Guesses, possible
from bayes_risk.intruder.intruder import KNOWN, Intruder
from bayes_risk.release.release import EncodedRelease, Release

from .contract import Capabilities, Fit, Targets, check_kinds, drawn_as, model_name
from .household import UnknownHouseholds


class Sample(NamedTuple):
    """Targets that are some of the records: of how many, and whether drawn at random."""

    records: int
    at_random: bool


@dataclass(frozen=True, slots=True, eq=False)
class AuditProblem:
    """What an audit asks, read and checked."""

    fit: Fit
    release: EncodedRelease
    intruder: Intruder
    capabilities: Capabilities  # What the fit offers for this release and intruder
    guesses: Guesses
    rows: Ints  # shape (n_targets,): rows of the targets
    # shape (n,): records whose values the intruder knows before anything is published. None:
    # every record but the target's; or the model itself answers, for a business competitor.
    known_before: Flags | None
    known: Flags | None  # shape (n,): the same, and those that the release leaves as they are
    cases: Targets  # Distinct targets and their guesses
    case: Ints  # shape (n_targets,): the case that each target belongs to
    # shape (n,): probability that each is in the file, if it were the target; None: certain
    in_file: Array | None = None
    households: UnknownHouseholds | None = None  # none of whose members is known

    @classmethod
    def prepare(
        cls,
        fit: Fit,
        release: Release,
        intruder: Intruder | None,
        guesses: Any,
        targets: Any,
        *,
        choose: Rng,
        knowing: Rng,
        name: str = "targets",
    ) -> "AuditProblem":
        """Read and check all; ``choose`` draws targets, ``knowing`` the known records."""
        intruder = Intruder() if intruder is None else intruder
        check_kinds(fit, release)
        drawn_as(fit, release)  # refused where the model has no evidence for it
        encoded = EncodedRelease.of(release, fit.microdata)
        capabilities = fit.capabilities(encoded, intruder)
        households, knows = _unknown_households(fit, capabilities, intruder, encoded)
        numbers = [c for c in guessed(encoded, knows) if c in fit.microdata.numbers]
        weighed = as_guesses(guesses, numbers)
        rows = target_rows(targets, encoded, intruder, choose, name)
        some = intruder.knows_less and not intruder.is_competitor
        known_before = intruder.known(encoded.microdata.index, knowing) if some else None
        known = None if known_before is None else known_before | ~encoded.replaced
        chance = intruder.chance_in_file(encoded.microdata.index)
        if households is not None:
            households = replace(households, guesses=weighed)
        how = known, fit.weights, fit.records_differ, chance, households
        cases, case = cases_of(encoded, knows, weighed, rows, *how)
        found = known_before, known, cases, case, chance, households
        return cls(fit, encoded, intruder, capabilities, weighed, rows, *found)

    def sample(self, targets: Any) -> Sample | None:
        """Of which records the targets are some; None: all whose values were replaced."""
        replaced = self.release.replaced
        if targets is None or replaced[self.rows].sum() == replaced.sum():
            return None
        return Sample(int(replaced.sum()), isinstance(targets, int | np.integer))

    @property
    def published(self) -> str:
        """What the release leaves as it is of records that are not known; empty: nothing."""
        if self.known_before is None or self.known is None:
            return ""
        names = np.array([str(c) for c in self.release.microdata.columns])
        columns = names[~self.release.columns] if not self.known.all() else names[:0]
        whole = int((self.known & ~self.known_before).sum())
        parts = [f"their {', '.join(columns)}"] if len(columns) else []
        return " and ".join([*parts, *([f"{whole:,} of them whole"] if whole else [])])

    def knowledge(self) -> str:
        """What the intruder knows of the records, in words for reports."""
        words = self.intruder.in_words()
        if not self.published:
            return words
        return (
            f"{words} Of the others the release leaves {self.published} as they are; this is known "
            '"without the release" too, which means without the synthetic values.'
        )


def target_rows(
    targets: Any, release: EncodedRelease, intruder: Intruder, rng: Rng, argument: str
) -> Ints:
    """Rows of the targets; by default all replaced, or the one with the largest of the column."""
    replaced = np.flatnonzero(release.replaced)
    if targets is None or (isinstance(targets, str) and targets == "all"):
        if not intruder.is_competitor:
            return replaced
        if intruder.largest is None:
            raise InputError(
                "knows_records",
                intruder.knows_records,
                "asks about one record: give `targets=[label]`",
            )
        (name,) = guessed(release, intruder)
        values = release.microdata.codes[:, release.microdata.columns.index(name)]
        return np.array([np.argmax(values)])
    if isinstance(targets, int | np.integer) and not isinstance(targets, bool):
        wanted = whole_number(argument, targets, 1)
        return np.sort(rng.choice(replaced, size=min(wanted, len(replaced)), replace=False))
    return rows_named(targets, release.microdata.index, argument)


def guessed(release: EncodedRelease, intruder: Intruder) -> list[str]:
    """Synthesised columns that the intruder does not know; of who knows the largest, that one."""
    columns, names = release.microdata.columns, list(release.synthesized)
    known = known_columns("knows_columns", intruder.knows_columns, columns)
    largest, numbers = intruder.largest, release.microdata.numbers
    if largest is not None:
        if largest not in names:
            raise InputError(
                "largest",
                largest,
                f"is not a column that the release has synthesised; give one of {names}",
            )
        if largest not in numbers:
            raise InputError(
                "largest",
                largest,
                "is a category and has no largest value; give one of "
                f"{[c for c in names if c in numbers]}",
            )
        return [largest]
    return [c for c in names if c not in known]


def cases_of(
    release: EncodedRelease,
    intruder: Intruder,
    guesses: Guesses,
    rows: Ints,
    known: Flags | None = None,
    weights: Array | None = None,
    records_differ: bool = False,
    in_file: Array | None = None,
    households: UnknownHouseholds | None = None,
) -> tuple[Targets, Ints]:
    """Distinct cases among the targets, and the case of each; or each record a case."""
    data = release.microdata
    names = guessed(release, intruder)
    if not names:
        raise InputError(
            "knows_columns", "names every synthesised column; leave at least one to be guessed"
        )
    columns = np.array([data.columns.index(c) for c in names])
    keys = [data.codes[rows]]
    if release.classes == "own":  # the record's own synthetic values matter
        keys += list(release.codes[:, rows])
    keys.append(release.replaced[rows][:, None])
    if known is not None:
        keys.append(known[rows][:, None])
    if weights is not None:  # first, so that targets of equal weight stand together
        keys.insert(0, weights[rows][:, None])
    if records_differ:
        keys.append(rows[:, None])
    if in_file is not None:
        keys.append(in_file[rows][:, None])
    if households is not None:  # members of one stand together
        keys = [households.number[rows][:, None], rows[:, None]]
    first, case, _ = distinct_rows(np.hstack(keys))
    record = rows[first]
    profiles = data.codes[record]
    of = profiles, columns, record
    found = guesses.of(data, profiles, columns)
    targets = Targets(
        profiles=profiles,
        record=record,
        columns=columns,
        guesses=possible(found, data, *of) if households is None else found,
        known=known,
        weight=np.ones(len(record)) if weights is None else weights[record],
    )
    return targets if households is None else households.counted(targets), case


def _unknown_households(
    fit: Fit, capabilities: Capabilities, intruder: Intruder, release: EncodedRelease
) -> tuple[UnknownHouseholds | None, Intruder]:
    """Households of an intruder who knows no member; and the intruder, knowing relations too."""
    if intruder.household == KNOWN:
        return None, intruder
    model, setting = capabilities.fit_for("household"), f"`household={intruder.household!r}`"
    if model is None:
        raise InputError(
            f"{model_name(fit)} does not offer {setting} for this release; NestedDPMPM, mixtures, "
            "Regression and CART do, without weights, smoothing and floor; or audit the household "
            "alone: its members as `targets`, all others in `knows_records`"
        )
    given, number = intruder.household_of(fit.microdata.index), model.number
    number = given if number is None else number
    if given is not None and model.number is not None:
        pairs = len(np.unique([given, model.number], axis=1)[0])
        if not pairs == given.max() + 1 == model.number.max() + 1:
            right = f"differs from column {model.id!r} of the model; leave it out"
            raise InputError(f"households {right}")
    if number is None:
        raise InputError(
            f"{setting} needs the household of each record; give `households=df['hid']`"
        )
    if intruder.household == "composition":
        if not model.relate:
            raise InputError(
                f"{model_name(fit)} has no relations, which {setting} is about; give "
                '`household="unknown"` and the column of relations in knows_columns'
            )
        intruder = replace(intruder, knows_columns=(*intruder.knows_columns, model.relate))
    nothing: Any = None
    return UnknownHouseholds(number, model, release, nothing), intruder
