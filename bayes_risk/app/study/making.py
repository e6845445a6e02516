"""From a study to what is audited: the table, the fit, the release (or the loop that makes it)."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import pandas as pd

import bayes_risk as br
from bayes_risk._core.checkpoint import within
from bayes_risk._core.errors import InputError
from bayes_risk._core.memory import at_stage
from bayes_risk.app.output import Provenance, data_hash
from bayes_risk.app.output.provenance import DataFile, describe, release_files
from bayes_risk.demo import demo_data
from bayes_risk.release.release import Release
from bayes_risk.release.tables import declare_levels, files_of_releases, read_releases, read_table
from bayes_risk.studies.reweighting_result import Reweighting

from .candidates import candidate_study
from .checks import check_columns, check_evidence, check_guesses, check_intruder, check_members
from .declare import attribute_options, declare_model, fit_model, fit_options
from .models import DPMPMSection
from .sections import DataSection
from .study import Study
from .varying import check_hyper
from .zeros import with_zeros

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
class Made:
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


def made(
    study: Study,
    clock: Clock,
    *,
    seeds: list[int],
    n_jobs: int,
    progress: Progress | None,
) -> Made:
    """Read the table, check the study against it, fit and synthesise.

    Parameters
    ----------
    study : Study
    clock : Clock
        Told the time of the stages "data", "fit", "release" (or "reweighting").
    seeds : list of int
        Of the fit, and of the release.
    n_jobs : int
    progress : callable or None

    Returns
    -------
    Made

    Raises
    ------
    InputError
        Data or settings that do not fit, before the fit.
    """
    with clock("data"):
        if needs_fit(study):
            declare_model(study.model)  # what is wrong shows first
        df, sha256 = read_data(study.data)
        declaration, release = checked(study, df)
        provenance = provenance_of(study, df, sha256, {"": release})
    how: dict[str, Any] = {"n_jobs": n_jobs, "progress": progress}
    ready = fitted(study, declaration, df, release, clock, seeds=seeds, **how)
    return replace(ready, data_sha256=sha256, provenance=provenance)


def fitted(
    study: Study,
    declaration: Any,
    df: pd.DataFrame,
    release: Release | None,
    clock: Clock,
    *,
    seeds: list[int],
    **how: Any,
) -> Made:
    """Fit and release of a table, or the loop that makes them; a release made elsewhere stays."""
    fit, loop = None, None
    if study.reweight is not None:
        with clock("reweighting"):
            loop = reweighted(study, declaration, df, seeds[0], **how)
        fit, release = loop.fit, loop.release
    elif needs_fit(study):
        with clock("fit"):
            fit = fit_model(study, declaration, df, random_seed=seeds[0], **how)
    if release is None:
        with clock("release"):
            release = synthesized(fit, study, random_seed=seeds[1])
    return Made(df=df, declaration=declaration, fit=fit, release=release, reweighting=loop)


def declared(study: Study, df: pd.DataFrame) -> Any:
    """The declaration of the study's model, the study checked against the table; None: no fit.

    Raises
    ------
    InputError
        Settings that do not fit the data.
    """
    fitted = needs_fit(study)
    declaration = declare_model(study.model) if fitted else None
    if fitted:
        check_columns(study, df)
    check_intruder(study, df)
    check_evidence(study, df)
    check_guesses(study, df)
    check_members(study, df)
    if isinstance(study.model, DPMPMSection) and fitted:
        declaration = with_zeros(declaration, study.model.impossible, df)
    check_hyper(study, declaration)
    return declaration


def checked(study: Study, df: pd.DataFrame) -> tuple[Any, Release | None]:
    """The declaration and the release made elsewhere, after every check that needs no fit.

    A run, and a dry run of it, call this before the first draw.

    Raises
    ------
    InputError
        Settings or files that do not fit the data.
    """
    from .rehearsal import rehearse

    declaration, release = declared(study, df), read_release(study, df)
    rehearse(study, df, release)
    return declaration, release


def needs_fit(study: Study) -> bool:
    """Whether the model has to be fitted: to make the release, or to audit it."""
    audits = (study.attribute, study.membership, study.full_table)
    return study.release.files is None or any(section is not None for section in audits)


def synthesized(fit: Any, study: Study, *, random_seed: int) -> Release:
    """The release that a fit makes."""
    release: Release = fit.synthesize(random_seed=random_seed, **synthesis_options(study))
    return release


def synthesis_options(study: Study) -> dict[str, Any]:
    """``[release]`` as options of ``synthesize``."""
    # latent classes are the mixtures' alone
    mixture = study.model.kind in ("DPMPM", "PoissonMixture")
    classes = {"classes": study.classes} if mixture else {}
    way = study.release.parameters
    drawn = {} if way is None else {"parameters": way}
    return {"m": study.release.m, "columns": study.release.columns, **classes, **drawn}


def reweighted(
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
    how, shared = section.model_dump(), "n_jobs" in signature(declaration.fit).parameters
    rule = br.LinearWeights(**{key: how.pop(key) for key in ("c", "g", "floor", "steps")})
    return br.reweight(
        declaration,
        df,
        weights_from=rule,
        fit=fit_options(study) | ({"n_jobs": n_jobs} if shared else {}),
        synthesis=synthesis_options(study),
        audit=attribute_options(audit) | {"n_jobs": n_jobs},
        random_seed=random_seed,
        progress=progress,
        **how,
    )


def read_data(data: DataSection) -> tuple[pd.DataFrame, str]:
    """The confidential table with its declared levels, and its hash."""
    if data.path is None:
        df = demo_data(str(data.demo))
        sha256 = data_hash(df)
    else:
        df = read_table(data.path, columns=data.columns, levels=data.levels, **data.reading)
        sha256 = data_hash(data.path)
    absent = [c for c in data.columns or [] if c not in df.columns]
    if absent:
        raise InputError(f"[data] columns names {absent[0]!r}; the data have {list(df.columns)}")
    df = df if data.columns is None else df[data.columns]
    return declare_levels(df, data.listed_levels, "the data"), sha256


def provenance_of(
    study: Study, df: pd.DataFrame, sha256: str, releases: Mapping[str, Any]
) -> Provenance:
    """The files that were just read: the data, and releases made elsewhere.

    Parameters
    ----------
    study : Study
    df : DataFrame
        From `read_data`, as ``sha256``.
    sha256 : str
    releases : mapping of str to Release or anything else
        By candidate of a comparison; ``""``: that of the study. What is no Release was not read.

    Returns
    -------
    Provenance
    """
    path, (rows, columns) = study.data.path, df.shape
    name = f"demo table {study.data.demo}" if path is None else path.name
    files = [DataFile(role="data", name=name, rows=rows, columns=columns, sha256=sha256)]
    for candidate, release in releases.items():
        given = (candidate_study(study, candidate) if candidate else study).release.files
        if given is not None and isinstance(release, Release):
            note = f" of {candidate}" if candidate else ""
            files += release_files(files_of_releases(given), release.datasets, note=note)
    return Provenance(files=tuple(files), described=describe(df))


def read_release(study: Study, df: pd.DataFrame) -> Release | None:
    """Releases made elsewhere, if the study names any."""
    if study.release.files is None:
        return None
    tables = read_releases(study.release.files, df, **study.data.reading)
    levels = study.data.listed_levels
    declared = [
        declare_levels(t, {k: v for k, v in levels.items() if k in t.columns}, f"release {l}")
        for l, t in enumerate(tables, start=1)
    ]
    return Release(
        datasets=declared,
        synthesized=study.release.columns or [],
        classes=study.classes,
        parameters=study.release.parameters,
    )
