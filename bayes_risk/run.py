"""Running a study: data, fit, release, both risks, verdict; and a folder with all of it."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.demo import demo_data
from bayes_risk.identification.result import IdentificationRisk
from bayes_risk.output import data_hash, output_folder, write_study
from bayes_risk.release import Release
from bayes_risk.results import AttributeRisk
from bayes_risk.study.checks import check_columns, check_guesses, check_intruder
from bayes_risk.study.declare import (
    attribute_options,
    declare_model,
    fit_model,
    identification_options,
)
from bayes_risk.study.sections import DataSection
from bayes_risk.study.study import Study
from bayes_risk.tables import declare_levels, read_like, read_table
from bayes_risk.verdict import Verdict, judge

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyResult:
    """What one run of a study found.

    Attributes
    ----------
    study : Study
        The settings, all of them.
    random_seed : int
        The seed given, or the one drawn when none was.
    data_sha256 : str
        Hash of the data file (or demo table).
    diagnostics : mapping
        Of the fit: chains, draws, R-hat and effective sample size of the log predictives or
        parameters, occupied classes; or counts of records, and ``notes``. Empty when nothing was
        fitted, and for trees and forests.
    release : Release
    attribute : AttributeRisk or None
    identification : IdentificationRisk or None
    verdict : Verdict
    seconds : mapping of str to float
        Wall time of each stage.
    """

    study: Study
    random_seed: int
    data_sha256: str
    diagnostics: Mapping[str, Any]
    release: Release
    attribute: AttributeRisk | None
    identification: IdentificationRisk | None
    verdict: Verdict
    seconds: Mapping[str, float]

    def __repr__(self) -> str:
        parts = [self.attribute, self.identification]
        return "\n\n".join([self.study.title, *(repr(p) for p in parts if p), repr(self.verdict)])


@dataclass(slots=True)
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - start


def run_study(
    study: Study,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    n_jobs: int = 2,
    command: str = "",
) -> StudyResult:
    """Run a study, and write its folder if it names one.

    Parameters
    ----------
    study : Study
        From `read_study`, or made in a script.
    overwrite : bool
        Replace an output folder that an earlier run wrote.
    progress : callable (stage, done, total), optional
        Called as work proceeds; quiet by default.
    n_jobs : int
        Number of workers. Results do not depend on it.
    command : str
        How the run was started, for the manifest.

    Returns
    -------
    StudyResult

    Raises
    ------
    InputError
        Data or settings that do not fit; an output folder that exists (before any work is done).
    """
    if study.output.folder is None:
        return _run(study, progress, n_jobs)
    with output_folder(study.output.folder, overwrite=overwrite) as folder:
        result = _run(study, progress, n_jobs)
        say = progress or _quiet
        say("report", 0, 1)
        write_study(folder, result, command=command)
        say("report", 1, 1)
    return result


def _quiet(stage: str, done: int, total: int) -> None:
    """Show nothing."""


def _run(study: Study, progress: Progress | None, n_jobs: int) -> StudyResult:
    clock = _Clock()
    seed = secrets.randbits(32) if study.random_seed is None else study.random_seed
    seeds = [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(3)]
    fitted = study.release.files is None or study.attribute is not None
    with clock("data"):
        declaration = declare_model(study.model) if fitted else None  # what is wrong shows first
        df, sha256 = _read(study.data)
        _check_keys(study, df)
        if fitted:
            check_columns(study, df)
        check_intruder(study, df)
        check_guesses(study, df)
        release = _read_release(study, df)
    fit: Any = None
    attribute = identification = None
    if fitted:
        with clock("fit"):
            how = {"random_seed": seeds[0], "n_jobs": n_jobs, "progress": progress}
            fit = fit_model(study, declaration, df, **how)
    if release is None:
        with clock("release"):
            release = _synthesize(fit, study, random_seed=seeds[1])
    if study.attribute is not None:
        with clock("attribute risk"):
            options = attribute_options(study.attribute)
            attribute = br.attribute_risk(
                fit, release, random_seed=seeds[2], n_jobs=n_jobs, progress=progress, **options
            )
    if study.identification is not None:
        with clock("identification risk"):
            matching = identification_options(study.identification, df, release.datasets)
            identification = br.identification_risk(df, release, **matching)
    return StudyResult(
        study=study,
        random_seed=seed,
        data_sha256=sha256,
        diagnostics=_diagnostics(study, fit),
        release=release,
        attribute=attribute,
        identification=identification,
        verdict=judge(attribute, identification, study.thresholds.limits()),
        seconds=clock.seconds,
    )


def _diagnostics(study: Study, fit: Any) -> dict[str, Any]:
    """What the fit says of itself; notes of prediction models in words."""
    if fit is None:
        return {}
    found = dict(fit.diagnostics)
    return found | {"notes": list(fit.notes)} if study.model.kind == "PMM" else found


def _read(data: DataSection) -> tuple[pd.DataFrame, str]:
    """The confidential table with its declared levels, and its hash."""
    if data.path is None:
        df = demo_data(str(data.demo))
        sha256 = data_hash(df)
    else:
        # levels declared as text make the column text: 01 stays 01
        text = [
            name for name, levels in data.levels.items() if all(isinstance(v, str) for v in levels)
        ]
        df = read_table(data.path, index=data.index, text=text)
        sha256 = data_hash(data.path)
    absent = [c for c in data.columns or [] if c not in df.columns]
    if absent:
        raise InputError(f"[data] columns names {absent[0]!r}; the data have {list(df.columns)}")
    df = df if data.columns is None else df[data.columns]
    return declare_levels(df, data.levels, "the data"), sha256


def _read_release(study: Study, df: pd.DataFrame) -> Release | None:
    """Releases made elsewhere, if the study names any."""
    if study.release.files is None:
        return None
    tables = [read_like(path, df, index=study.data.index) for path in study.release.files]
    levels = study.data.levels
    declared = [
        declare_levels(t, {k: v for k, v in levels.items() if k in t.columns}, f"release {l}")
        for l, t in enumerate(tables, start=1)
    ]
    return Release(
        datasets=declared, synthesized=study.release.columns or [], classes=study.classes
    )


def _check_keys(study: Study, df: pd.DataFrame) -> None:
    """Keys of the matching intruder that the data lack are told before anything is fitted."""
    keys = study.identification
    for what in ("known", "synthesized") if keys is not None else ():
        for name in getattr(keys, what):
            if name not in df.columns:
                raise InputError(
                    f"[identification] {what} names column {name!r}; the data have "
                    f"{list(df.columns)}"
                )


def _synthesize(fit: Any, study: Study, *, random_seed: int) -> Release:
    section = study.release
    # latent classes are the mixtures' alone
    mixture = study.model.kind in ("DPMPM", "PoissonMixture")
    classes = {"classes": study.classes} if mixture else {}
    release: Release = fit.synthesize(
        m=section.m, columns=section.columns, random_seed=random_seed, **classes
    )
    return release
