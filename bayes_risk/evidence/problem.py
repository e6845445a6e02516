"""Whom to audit, and what is guessed of them: rows, guessed columns, distinct cases."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import at_least, known_columns
from bayes_risk.intruder.guesses import Guesses, possible
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.release import Release

from .contract import Fit, Targets


def rows_of(
    targets: Any, release: Release, fit: Fit, intruder: Intruder, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Row numbers of the targets; by default those that the intruder can ask about.

    All whose values were replaced, or the record with the largest value of ``intruder.largest``.
    """
    index = fit.microdata.index
    replaced = np.flatnonzero(release.replaced(len(index)))
    if targets is None:
        return replaced if not intruder.of_trade else _largest(fit, release, intruder)
    if isinstance(targets, int | np.integer) and not isinstance(targets, bool):
        wanted = at_least("targets", targets, 1)
        return np.sort(rng.choice(replaced, size=min(wanted, len(replaced)), replace=False))
    given = np.asarray(targets)
    if given.dtype == bool:
        if given.shape != (len(index),):
            raise InputError(
                f"targets has {given.size} entries; the table has {len(index)} records"
            )
        rows = np.flatnonzero(given)
    else:
        rows = index.get_indexer(pd.Index(given.tolist()))
        if (rows < 0).any():
            raise InputError(
                f"targets names {given.tolist()[int(np.argmax(rows < 0))]!r}, which is no record "
                "label"
            )
    if not len(rows):
        raise InputError("targets selects no record; select at least one")
    return rows.astype(np.int64)


def seen_by(
    intruder: Intruder, release: Release, fit: Fit, rng: np.random.Generator
) -> npt.NDArray[np.bool_] | None:
    """Records whose values the intruder sees, (n,): those known, and those released unchanged.

    None: every record but the target's; or the model itself answers, for an intruder of the trade.
    """
    if intruder.of_trade or not intruder.knows_less:
        return None
    index = fit.microdata.index
    return intruder.known(index, rng) | ~release.replaced(len(index))


def guessed(fit: Fit, release: Release, intruder: Intruder) -> list[str]:
    """Synthesised columns that the intruder does not know; of who knows the largest, that one."""
    names = known_columns("synthesized", release.synthesized, fit.microdata.columns)
    known = known_columns("knows_columns", intruder.knows_columns, fit.microdata.columns)
    if intruder.largest is not None:
        return [_largest_column(fit, names, intruder.largest)]
    return [c for c in names if c not in known]


def _largest_column(fit: Fit, synthesized: list[str], name: str) -> str:
    """The column of which the target holds the largest value: a number that was synthesised."""
    if name not in synthesized:
        raise InputError(
            f"largest={name!r} is no column that the release has synthesised; give one of "
            f"{synthesized}"
        )
    if name not in fit.microdata.numbers:
        raise InputError(
            f"largest={name!r} is a category and has no largest value; give one of "
            f"{[c for c in synthesized if c in fit.microdata.numbers]}"
        )
    return name


def _largest(fit: Fit, release: Release, intruder: Intruder) -> npt.NDArray[np.int64]:
    """The record with the largest value."""
    if intruder.largest is None:
        raise InputError(
            f"knows_records={intruder.knows_records!r} asks about one record: give targets=[label]"
        )
    data, (name,) = fit.microdata, guessed(fit, release, intruder)
    return np.array([np.argmax(data.codes[:, data.columns.index(name)])])


def guessed_numbers(fit: Fit, release: Release, intruder: Intruder) -> list[str]:
    """Guessed columns that are numbers."""
    return [c for c in guessed(fit, release, intruder) if c in fit.microdata.numbers]


def cases_of(
    fit: Fit,
    release: Release,
    intruder: Intruder,
    guesses: Guesses,
    rows: npt.NDArray[np.int64],
    known: npt.NDArray[np.bool_] | None = None,
) -> tuple[Targets, npt.NDArray[np.int64]]:
    """Distinct cases among the targets, and the case of each.

    ``known`` (n,): records that the intruder sees, the target's own apart; see `seen_by`.
    """
    data = fit.microdata
    z = release.codes(data)
    names = guessed(fit, release, intruder)
    if not names:
        raise InputError(
            "the intruder knows every synthesised column of the target; leave at least one to be "
            "guessed"
        )
    columns = np.array([data.columns.index(c) for c in names])
    keys = data.codes[rows]
    if release.classes == "own":  # the record's own synthetic values matter
        keys = np.hstack([keys, *z[:, rows]])
    replaced = release.replaced(len(data.codes))[rows]
    keys = np.hstack([keys, replaced[:, None]])
    if known is not None:
        keys = np.hstack([keys, known[rows][:, None]])
    weights = getattr(fit, "weights", None)
    if weights is not None:  # first, so that targets of equal weight stand together
        keys = np.hstack([weights[rows][:, None], keys])
    if fit.records_differ:
        keys = np.hstack([keys, rows[:, None]])
    _, first, case = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    record = rows[first]
    profiles = data.codes[record]
    targets = Targets(
        profiles=profiles,
        record=record,
        columns=columns,
        guesses=possible(guesses.of(data, profiles, columns), data, profiles, columns),
        known=known,
        weight=np.ones(len(record)) if weights is None else weights[record],
    )
    return targets, case.astype(np.int64)
