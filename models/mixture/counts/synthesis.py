"""Releases of a Poisson mixture: counts drawn (MP), or confidential totals dealt (MM, TCMM)."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import one_of
from bayes_risk.data.microdata import Codes
from bayes_risk.models.fits.synthesis import Request
from bayes_risk.models.mixture.business.totals import checked_quantile, dealt, groups_of
from bayes_risk.release.release import Release

from .posterior import OWN_CLASSES

Ints = npt.NDArray[np.int64]


def released(fit: Any, request: Request, *, classes: str | None, quantile: float | None) -> Release:
    """The release that was asked for; by MM and TCMM with its groups.

    Raises
    ------
    InputError
        A mechanism that the model does not have; a quantile that does not go with it, or none.
    """
    classes, limit = _classes(fit, classes, request), _quantile(fit, quantile)
    if fit.model.kind == "MP":
        tables = (_drawn(fit, h, request, classes, rng) for h, rng in request.draws())
        return request.release(tables, classes=classes)
    pairs = [_dealt(fit, h, request, limit, rng) for h, rng in request.draws()]
    release = request.release((codes for codes, _ in pairs), classes=classes)
    return replace(release, groups=np.stack([groups for _, groups in pairs]))


def _classes(fit: Any, asked: str | None, request: Request) -> str:
    """The mechanism of classes, if the model has it."""
    model = fit.model
    if model.kind != "MP":
        if asked not in (None, "own"):
            raise InputError(
                f"classes={asked!r} does not go with kind={model.kind!r}, whose totals are dealt "
                'within the records\' own components; leave it out, or use "own"'
            )
        return "own"
    classes = one_of("classes", "new" if asked is None else asked, ("new", "own"))
    if classes == "own" and fit.weights is not None:
        raise InputError(OWN_CLASSES)
    if classes == "own" and model.zeros is not None:
        raise InputError(
            'classes="own" is not offered with structural zeros; use classes="new", or leave '
            "zeros out of the model"
        )
    kept = [c for c in fit.counts if c not in request.columns] + list(model.covariates)
    if classes == "new" and kept:
        raise InputError(
            f'classes="new" draws components regardless of the columns that stay, {kept}; use '
            'classes="own", or synthesise all counts of a model without covariates'
        )
    return classes


def _quantile(fit: Any, asked: float | None) -> float | None:
    quantile = fit.model.quantile if asked is None else asked
    if quantile is not None:
        return checked_quantile(fit.model.kind, quantile)
    if fit.model.kind == "TCMM":
        raise InputError('kind="TCMM" needs a quantile: give quantile=0.9, say')
    return None


def _labels(fit: Any, h: int, rng: np.random.Generator) -> Ints:
    """A component of each record given its own values, shape (n,)."""
    from .kernels import draw_row_labels

    codes, columns, prior = fit.microdata.codes, fit.columns, fit.prior
    label = np.empty(len(codes), np.int64)
    data = (
        columns.counts_of(codes),
        columns.exposures_of(codes),
        columns.positions_of(codes, prior),
    )
    draw_row_labels(rng, data, fit.draws.pi[h], fit.draws.phi[h], prior.zeros is not None, label)
    return label


def _places(fit: Any, request: Request) -> Ints:
    """Which counts are synthesised, as places among the counts."""
    return np.array([fit.counts.index(c) for c in request.columns], np.int64)


def _drawn(fit: Any, h: int, request: Request, classes: str, rng: np.random.Generator) -> Codes:
    """One table by MP: a component for each record, then its counts."""
    pi, phi, p = fit.draws.pi[h], fit.draws.phi[h], fit.prior.n_counts
    codes: Codes = fit.microdata.codes.copy()
    some = _places(fit, request)
    if classes == "own":
        label = _labels(fit, h, rng)
    else:
        label = rng.choice(len(pi), size=len(codes), p=pi / pi.sum())
    mean = fit.columns.exposures_of(codes)[:, some] * phi[some][:, label].T
    values = rng.poisson(mean).astype(np.float64)
    if fit.prior.zeros is not None:
        values[rng.random(values.shape) < phi[p + some][:, label].T] = 0.0
    codes[:, fit.columns.counts[some]] = values
    return codes


def _dealt(
    fit: Any,
    h: int,
    request: Request,
    quantile: float | None,
    rng: np.random.Generator,
) -> tuple[Codes, Ints]:
    """One table by MM or TCMM, and which records share a total."""
    codes: Codes = fit.microdata.codes.copy()
    some = _places(fit, request)
    counts = fit.columns.counts_of(codes)[:, some]
    groups = groups_of(_labels(fit, h, rng), counts, quantile)
    exposure = fit.columns.exposures_of(codes)[:, some]
    codes[:, fit.columns.counts[some]] = dealt(rng, counts, exposure, groups)
    return codes, groups
