"""What the data hold of a table of which the intruder knows some records: units for the sampler.

Of a record that is not known the data hold what the release leaves as it is, and what the release
ties to it. The rest is integrated out, which with one release leaves nothing behind. The derivation
stands in `docs/weaker-knowledge.md`.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bayes_risk.models.mixture.categorical.posterior import Mechanism
from bayes_risk.models.mixture.categorical.state import Given, Units, units_of

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int32]


BASE_CHAINS = 8  # of an imputation; see `latent_imputation_kernels.py`


IN_WORDS = {
    "predictive": "predictive: leave-one-out predictives before and after seeing the release, "
    "the records that are not known integrated out",
    "imputed": "imputed: predictives before and after seeing all releases, the records that "
    f"are not known imputed in the sampler; p(y_j | y_-j) of an imputed record by {BASE_CHAINS}"
    " base chains (an approximation, unless there is one class)",
    "independent-releases": "independent-releases: predictives before and after seeing each "
    "release, multiplied as if the releases did not share the records that are not known (an "
    "approximation)",
}


def ways_knowing(m: int, whole: bool, zeros: bool) -> frozenset[str]:
    """Ways to the evidence of m data sets for an intruder who knows only some other records.

    ``whole``: every column was synthesised; ``zeros``: the table has structural zeros.
    """
    if zeros and not whole:
        return frozenset()
    if m == 1:
        return frozenset({"predictive"})
    return frozenset({"independent-releases"} if zeros else {"imputed", "independent-releases"})


def base_units(
    y: Rows, known: Mask, shown: Mask, padding: int, left_out: int | None = None
) -> Units:
    """Before the release: known records, and what it leaves as it is of the others.

    Parameters
    ----------
    y : ndarray of int, shape (n, p)
        Rows of level positions.
    known : ndarray of bool, shape (n,)
        Records whose values are seen.
    shown : ndarray of bool, shape (p,)
        Variables that the release leaves as they are.
    padding : int
        The row of ones below the levels.
    left_out : int, optional
        A record whose values are left out.
    """
    rows = np.where(known[:, None] | shown, y, padding).astype(np.int32)
    return _units(rows, known | shown.any(), None, left_out)


def augmented_units(
    how: Mechanism, known: Mask, padding: int, left_out: int | None = None
) -> Units:
    """With one data set of the release, drawn as ``how`` says; the rest as in `base_units`.

    Classes of their own: known records with their synthetic values, those of the others alone.
    Fresh classes: known records, synthetic ones, and denominators of the known records only: of the
    others ``sum_y f(y) p(Z, y_us) / p(y_us) = p(Z, y_us)`` is left, a row like any.
    """
    linked = how.linked
    if linked is not None:
        own = np.where(known[:, None] | ~how.synthesized, how.y, padding)
        tied = np.where(linked < 0, padding, linked)[:, how.synthesized]
        everyone = np.ones(len(known), dtype=bool)
        return _units(np.hstack([own, tied]).astype(np.int32), everyone, None, left_out)
    rows, given = np.vstack([how.y, how.z[~known]]), None
    held = np.append(known, np.ones(int((~known).sum()), dtype=bool))
    conditioned = known & how.replaced
    if how.synthesized.all():
        rows = np.vstack([rows, how.z[conditioned]])
        held = np.append(held, np.ones(int(conditioned.sum()), dtype=bool))
    elif conditioned.any():
        given = how.given(conditioned, left_out)
    return _units(rows, held, given, left_out)


def _units(rows: Rows, held: Mask, given: Given | None, left_out: int | None) -> Units:
    """Distinct rows among those ``held`` (N,); the others have unit -1."""
    held = held.copy()
    if left_out is not None:
        held[left_out] = False
    found = units_of(np.ascontiguousarray(rows[held]), given)
    unit = np.full(len(rows), -1, dtype=np.int64)
    unit[held] = found.unit
    return replace(found, unit=unit)
