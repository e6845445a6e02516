"""From a study to what is audited: the table, the fit, the release (or the loop that makes it)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from bayes_risk._core.checkpoint import within
from bayes_risk._core.errors import InputError
from bayes_risk._core.memory import at_stage
from bayes_risk.release.provenance import Provenance
from bayes_risk.release.release import Release
from bayes_risk.studies.compare import Candidate
from bayes_risk.studies.reweighting import LinearWeights, reweight
from bayes_risk.studies.reweighting_result import Reweighting

from .candidates import candidate_study, sorted_keys
from .checks import rehearse, rehearse_ends, unsampled
from .declare import attribute_options, declare, fit_model, synthesis_options, taken
from .reading import provenance_of, read_data
from .study import Study

Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Clock:
    """Time of each stage, wall time unless another clock is given."""

    now: Callable[[], float] = time.perf_counter
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time what is done in the block, the steps that are kept of it under the stage's name."""
        start = self.now()
        with within(stage), at_stage(stage):
            yield
        self.seconds[stage] = self.now() - start


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """What an audit starts from.

    Attributes
    ----------
    df : DataFrame
        The confidential table, levels declared.
    declaration, fit : declaration of the model and its fit, or None
        None: releases made elsewhere, and nothing that needs the model.
    release : Release
    data_sha256 : str
    reweighting : Reweighting or None
        The loop that made fit and release, if the study has one.
    provenance : Provenance or None
        The files that were read.
    """

    df: pd.DataFrame
    declaration: Any
    fit: Any
    release: Release
    data_sha256: str = ""
    reweighting: Reweighting | None = None
    provenance: Provenance | None = None


def prepare(
    study: Study,
    clock: Clock,
    *,
    seeds: list[int],
    n_jobs: int,
    progress: Progress | None,
) -> Prepared:
    """Read the table, check the study against it, fit and synthesise.

    The clock is told the time of the stages "data", "fit", "release" (or "reweighting").
    """
    with clock("data"):
        if needs_fit(study):
            declare(study)  # what is wrong shows first
        df, sha256 = read_data(study.data)
        declaration, release = checked_inputs(study, df)
        provenance = provenance_of(study, df, sha256, {"": release})
    how: dict[str, Any] = {"n_jobs": n_jobs, "progress": progress}
    ready = fit_and_release(study, declaration, df, release, clock, seeds=seeds, **how)
    return replace(ready, data_sha256=sha256, provenance=provenance)


def fit_and_release(
    study: Study,
    declaration: Any,
    df: pd.DataFrame,
    release: Release | None,
    clock: Clock,
    *,
    seeds: list[int],
    **how: Any,
) -> Prepared:
    """Fit and release of a table, or the loop that makes them; a release made elsewhere stays."""
    fit, loop = None, None
    if study.reweight is not None:
        with clock("reweighting"):
            loop = _reweight(study, declaration, df, seeds[0], **how)
        fit, release = loop.fit, loop.release
    elif needs_fit(study):
        with clock("fit"):
            fit = fit_model(study, declaration, df, random_seed=seeds[0], **how)
    if release is None:
        with clock("release"):
            release = synthesize(fit, study, random_seed=seeds[1])
    return Prepared(df=df, declaration=declaration, fit=fit, release=release, reweighting=loop)


def checked_inputs(study: Study, df: pd.DataFrame) -> tuple[Any, Release | None]:
    """The declaration and the release made elsewhere, after every check that needs no sampling.

    A run, and a dry run of it, call this before the first draw.
    """
    declaration = declare(study, df) if needs_fit(study) else None
    return declaration, rehearse(study, df, unsampled(study, declaration, df))


def needs_fit(study: Study) -> bool:
    """Whether the model has to be fitted: to make the release, or to audit it."""
    audits = (study.attribute, study.membership, study.full_table)
    return study.release.files is None or any(section is not None for section in audits)


def synthesize(fit: Any, study: Study, *, random_seed: int) -> Release:
    """The release that a fit makes."""
    release: Release = fit.synthesize(random_seed=random_seed, **synthesis_options(study))
    return release


def _reweight(
    study: Study,
    declaration: Any,
    df: pd.DataFrame,
    random_seed: int,
    *,
    n_jobs: int,
    progress: Progress | None,
) -> Reweighting:
    """Fit, synthesise and audit, weigh down, again."""
    section, audit = study.reweight, study.attribute
    assert section is not None and audit is not None
    how = section.model_dump()
    rule = LinearWeights(**{key: how.pop(key) for key in ("c", "g", "floor", "steps")})
    return reweight(
        declaration,
        df,
        weights_from=rule,
        fit=study.model.fit_options()
        | taken(declaration, missing=study.data.missing, n_jobs=n_jobs),
        synthesis=synthesis_options(study),
        audit=attribute_options(audit) | {"n_jobs": n_jobs},
        random_seed=random_seed,
        progress=progress,
        **how,
    )


def candidates_of(study: Study, df: pd.DataFrame) -> dict[str, Any]:
    """Every candidate as ``compare`` takes it, checked against the table."""
    assert study.compare is not None
    found: dict[str, Any] = {}
    any_made: dict[str, None] = {}
    for name in study.compare.candidates:
        try:
            one = candidate_study(study, name)
            found[name] = _declared(one, df)
        except InputError as error:
            raise InputError(f"[compare.{name}]: {error}") from None
        any_made |= dict.fromkeys(one.synthesized_in(df))
    if study.compare.bounds:
        rehearse_ends(study, df, [*any_made])
    return found


def _declared(study: Study, df: pd.DataFrame) -> Any:
    if study.identification is not None:  # sorted by what is synthesised, as for each release
        keys = sorted_keys(study.identification, study.synthesized_in(df))
        study = study.model_copy(update={"identification": keys})
    declaration, release = checked_inputs(study, df)
    if release is not None:
        return release
    own = {} if study.attribute is None else attribute_options(study.attribute)
    options = synthesis_options(study)
    return Candidate(
        StudyModel(study, declaration),
        m=options.pop("m"),
        columns=options.pop("columns"),
        synthesis=options,
        attribute={k: v for k, v in own.items() if k != "targets"},
    )


class StudyModel:
    """A model that is fitted as its study says."""

    def __init__(self, study: Study, declaration: Any) -> None:
        self.study, self.declaration = study, declaration

    def fit(self, df: pd.DataFrame, **how: Any) -> Any:
        """Fit it to the table; ``random_seed``, ``n_jobs``, ``progress``."""
        return fit_model(self.study, self.declaration, df, **how)
