"""Evidence of a release made by predictive mean matching: the chance of what was released.

Exact: it needs no draws. `docs/pmm.md` has the derivation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError
from bayes_risk.microdata import Codes
from bayes_risk.release import Release
from bayes_risk.synthesizer import Progress, Targets

from .guessed import with_guess
from .pmm_match import cell_keys, sensitive
from .pmm_mechanism import Mechanism, fit_mechanism

if TYPE_CHECKING:
    from .pmm_fit import PMMFit

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
MAX_REFITS = 300  # sets of kept records to which the models are fitted anew in one call


@dataclass(frozen=True, slots=True, eq=False)
class _Other:
    """A guess under which other records would have been synthesised.

    ``rows`` is the guessed table, ``possible`` (m,) the data sets it could have made.
    """

    g: int
    u: int
    chosen: Flags
    rows: Codes
    possible: Flags


def log_evidence(
    fit: "PMMFit", release: Release, targets: Targets, progress: Progress | None
) -> Array:
    """log p(Z^(l) | y*, y_-i) up to a constant for each target, shape (m, G, U).

    Guesses that leave the same records sensitive keep all donors: what counts is the chance of the
    target's own synthetic values. Other guesses are impossible if the selection is known; if it is
    hidden, those that agree with everything they leave unchanged are fitted anew. How many such
    fits there are, and about how long they take, is told through ``progress`` first.

    Raises
    ------
    InputError
        A release that the fit cannot have made; more than ``MAX_REFITS`` sets of kept records.
    """
    z = [release.codes(fit.microdata, l) for l in range(release.m)]
    out = _own(fit, targets, z)
    others = _other_selections(fit, targets)
    hidden = fit.model.selection == "hidden"
    if hidden:
        out += _of_others(fit, targets, z)
    found = []
    for (g, u), chosen in others.items():
        out[:, g, u] = -np.inf
        if hidden:
            other = _considered(fit, targets, g, u, chosen, z)
            found += [other] if other.possible.any() else []
    return _refitted(fit, out, found, z, progress)


def _own(fit: "PMMFit", targets: Targets, z: Sequence[Codes]) -> Array:
    """log of the chance of the target's own synthetic values, shape (m, G, U); 0 if it is kept."""
    guesses = targets.guesses.codes
    m, G, U = len(z), *guesses.shape[:2]
    rows = np.repeat(fit.rows[targets.record][None], G, axis=0)  # shape (G, U, p + e)
    rows[:, :, targets.columns] = guesses
    released = np.stack([codes[targets.record][:, fit.base.columns] for codes in z])
    released = np.repeat(released[:, None], G, axis=1)  # shape (m, G, U, q)
    hit = fit.chosen[targets.record]
    out = np.zeros((m, G, U))
    if hit.any():
        flat = np.repeat(rows[None, :, hit], m, axis=0).reshape(-1, rows.shape[2])
        chance = fit.base.log_chance(flat, released[:, :, hit].reshape(len(flat), -1))
        out[:, :, hit] = chance.reshape(m, G, -1)
    truth = np.take_along_axis(out, targets.guesses.truth[None, None], axis=1)
    if not np.isfinite(truth).all():
        raise InputError(
            "the release has synthetic values that this fit cannot draw; audit it with the fit "
            "that made it"
        )
    return out


def _of_others(fit: "PMMFit", targets: Targets, z: Sequence[Codes]) -> Array:
    """log of the chance of all synthetic values but the target's own, shape (m, 1, U)."""
    record = np.flatnonzero(fit.chosen)
    each = np.array([_chances(fit.base, fit.rows, record, codes) for codes in z])  # (m, records)
    mine = record[:, None] == targets.record  # shape (records, U)
    out: Array = each.sum(axis=1)[:, None] - each @ mine
    return out[:, None]


def _chances(made: Mechanism, rows: Codes, record: npt.NDArray[np.int64], z: Codes) -> Array:
    """log of the chance of the synthetic values of some records."""
    if not len(record):
        return np.zeros(0)
    return made.log_chance(rows[record], z[record][:, made.columns])


def _other_selections(fit: "PMMFit", targets: Targets) -> dict[tuple[int, int], Flags]:
    """Guesses (g, u) under which other records are sensitive, and which; kept targets left out."""
    data, model, p = fit.microdata, fit.model, len(fit.microdata.columns)
    truth = cell_keys(data, fit.rows[:, :p], model.identifying, model.cuts)
    rows, cell = targets.rows(frozenset(data.columns.index(c) for c in model.identifying))
    out = {}
    for u in np.flatnonzero(fit.chosen[targets.record]).tolist():
        i = targets.record[u]
        guessed = cell_keys(data, rows[:, u], model.identifying, model.cuts)
        different, back = np.unique(guessed, axis=0, return_inverse=True)
        for number, key in enumerate(different):
            keys = truth.copy()
            keys[i] = key
            chosen = sensitive(keys, model.threshold)
            if (chosen != fit.chosen).any():
                alike = np.flatnonzero(back.ravel()[cell] == number).tolist()
                out.update({(g, u): chosen for g in alike})
    return out


def _considered(
    fit: "PMMFit", targets: Targets, g: int, u: int, chosen: Flags, z: Sequence[Codes]
) -> _Other:
    """Whether all records that a guess keeps were released as the guess has them."""
    rows = with_guess(fit.rows, targets, g, u)
    kept = rows[~chosen, : len(fit.microdata.columns)]
    possible = np.array([bool((kept == codes[~chosen]).all()) for codes in z])
    return _Other(g, u, chosen, rows, possible)


def _refitted(
    fit: "PMMFit",
    out: Array,
    found: Sequence[_Other],
    z: Sequence[Codes],
    progress: Progress | None,
) -> Array:
    """The mechanism fitted to the records that each such guess keeps, one fit for equal sets."""
    names = [_multiset(other.rows[~other.chosen]) for other in found]
    distinct = dict(zip(names, found, strict=True))
    if len(distinct) > MAX_REFITS:
        raise InputError(
            f"these targets and guesses need the models fitted to {len(distinct):,} sets of "
            f"records, more than {MAX_REFITS}; audit fewer targets at a time (targets=), or "
            'assume selection="known"'
        )
    stage = f"refits, about {len(distinct) * fit.base.seconds:.0f} s"
    if progress is not None and distinct:
        progress(stage, 0, len(distinct))
    made: dict[bytes, Mechanism] = {}
    for name, other in distinct.items():
        made[name] = _anew(fit, other.rows[~other.chosen])
        if progress is not None:
            progress(stage, len(made), len(distinct))
    for name, other in zip(names, found, strict=True):
        record = np.flatnonzero(other.chosen)
        for l in np.flatnonzero(other.possible).tolist():
            out[l, other.g, other.u] = _chances(made[name], other.rows, record, z[l]).sum()
    return out


def _anew(fit: "PMMFit", kept: Codes) -> Mechanism:
    return fit_mechanism(
        fit.microdata,
        fit.variables,
        kept,
        fit.kinds,
        constraints=tuple(fit.model.constraints),
        donors=fit.model.donors,
        filled=fit.base.filled,
    )


def _multiset(kept: Codes) -> bytes:
    """The same for the same records in any order."""
    rows, count = np.unique(kept, axis=0, return_counts=True)
    return rows.tobytes() + count.tobytes()
