"""Running a study: data, fit, release, both risks, verdict; and a folder with all of it."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.comparing.result import Comparison
from bayes_risk.full_table.result import FullTableRisk
from bayes_risk.identification.result import IdentificationRisk
from bayes_risk.losses.result import PrivacyLoss
from bayes_risk.memberships.result import Membership
from bayes_risk.output import output_folder, write_study
from bayes_risk.release import Release
from bayes_risk.results import AttributeRisk
from bayes_risk.reweighting_result import Reweighting
from bayes_risk.study.candidates import candidates_of, compare_options
from bayes_risk.study.declare import attribute_options, fit_model, identification_options
from bayes_risk.study.further import full_table_of, membership_of
from bayes_risk.study.making import Clock, Made, Progress, made, read_data
from bayes_risk.study.sections import AttributeSection
from bayes_risk.study.study import Study
from bayes_risk.study.utility import utility_of
from bayes_risk.study.varying import sweep_options
from bayes_risk.sweeping.result import Sensitivity
from bayes_risk.utilities.result import Utility
from bayes_risk.verdict import Verdict, judge


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
    utility : Utility or None
    membership : Membership or None
    full_table : FullTableRisk or None
    privacy_loss : PrivacyLoss or None
    reweighting : Reweighting or None
        The loop that made fit, release and attribute risk.
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
    utility: Utility | None = None
    membership: Membership | None = None
    full_table: FullTableRisk | None = None
    privacy_loss: PrivacyLoss | None = None
    reweighting: Reweighting | None = None

    def __repr__(self) -> str:
        parts: list[Any] = [self.reweighting, self.attribute, self.identification]
        parts += [self.utility, self.privacy_loss, self.membership, self.full_table]
        return "\n\n".join([self.study.title, *(repr(p) for p in parts if p), repr(self.verdict)])


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
    clock, seed = Clock(), _seed(study)
    seeds = _seeds(seed)
    how: dict[str, Any] = {"n_jobs": n_jobs, "progress": progress}
    ready = made(study, clock, seeds=seeds, **how)
    return StudyResult(
        study=study,
        random_seed=seed,
        data_sha256=ready.data_sha256,
        diagnostics=_diagnostics(study, ready.fit),
        release=ready.release,
        reweighting=ready.reweighting,
        **_audits(study, ready, clock, seeds[2:], how),
        seconds=clock.seconds,
    )


def _seed(study: Study) -> int:
    return secrets.randbits(32) if study.random_seed is None else study.random_seed


def _seeds(seed: int) -> list[int]:
    """Of fit, release, attribute risk, membership, full table, and utility."""
    return [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(6)]


def _audits(
    study: Study, ready: Made, clock: Clock, seeds: list[int], how: dict[str, Any]
) -> dict[str, Any]:
    """Every audit that the study asks for, and the verdict on the two risks."""
    attribute = loss = identification = membership = full_table = utility = None
    if study.attribute is not None:
        with clock("attribute risk"):
            attribute, loss = _attribute(study.attribute, ready, seeds[0], how)
    if study.identification is not None:
        with clock("identification risk"):
            df, release = ready.df, ready.release
            matching = identification_options(study.identification, df, release.datasets)
            identification = br.identification_risk(df, release, **matching)
    if study.utility is not None:
        with clock("utility"):
            utility = utility_of(study, ready, random_seed=seeds[3], n_jobs=how["n_jobs"])
    if study.membership is not None:
        with clock("membership"):
            membership = membership_of(study, ready, random_seed=seeds[1], **how)
    if study.full_table is not None:
        with clock("full table"):
            full_table = full_table_of(study, ready, attribute, random_seed=seeds[2], **how)
    return {
        "attribute": attribute,
        "privacy_loss": loss,
        "identification": identification,
        "utility": utility,
        "membership": membership,
        "full_table": full_table,
        "verdict": judge(attribute, identification, study.thresholds.limits()),
    }


def _attribute(
    section: AttributeSection, ready: Made, seed: int, how: dict[str, Any]
) -> tuple[AttributeRisk, PrivacyLoss | None]:
    """Attribute risk, of the last round if there were rounds; and privacy loss if asked for."""
    if ready.reweighting is not None:
        risk = ready.reweighting.risk
        return risk, br.privacy_loss(risk) if section.privacy_loss else None
    options = attribute_options(section) | how
    prior = options.pop("prior")
    evidence = br.attribute_evidence(
        ready.fit, ready.release, search_prior=prior, random_seed=seed, **options
    )
    return evidence.risk(prior), br.privacy_loss(evidence) if section.privacy_loss else None


def _diagnostics(study: Study, fit: Any) -> dict[str, Any]:
    """What the fit says of itself; notes of prediction models in words."""
    if fit is None:
        return {}
    found = dict(fit.diagnostics)
    return found | {"notes": list(fit.notes)} if study.model.kind == "PMM" else found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SweepResult:
    """What one sweep of a study found.

    Attributes
    ----------
    study : Study
    random_seed : int
    data_sha256 : str
    diagnostics : mapping
        Of the fit, as in `StudyResult`.
    sensitivity : Sensitivity
        Risk at every setting; its base is the audit that the study describes.
    seconds : mapping of str to float
        Wall time of each stage.
    """

    study: Study
    random_seed: int
    data_sha256: str
    diagnostics: Mapping[str, Any]
    sensitivity: Sensitivity
    seconds: Mapping[str, float]

    def __repr__(self) -> str:
        return f"{self.study.title}\n\n{self.sensitivity!r}"


def run_sweep(
    study: Study,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    n_jobs: int = 2,
    command: str = "",
) -> SweepResult:
    """Vary an audit as the study's ``[sweep]`` says, and write a folder if the study names one.

    Parameters
    ----------
    study, overwrite, progress, n_jobs, command
        As in `run_study`. What the study says of identification, membership and the full table is
        left aside.

    Returns
    -------
    SweepResult

    Raises
    ------
    InputError
        A study without ``[sweep]``; as `run_study`.
    """
    if study.sweep is None:
        raise InputError(
            'the study has no [sweep]: say what varies, as in priors = ["uniform", "marginal"]'
        )
    only = dict.fromkeys(("identification", "utility", "membership", "full_table"))
    study = study.model_copy(update=only)
    if study.output.folder is None:
        return _sweep(study, progress, n_jobs)
    with output_folder(study.output.folder, overwrite=overwrite) as folder:
        result = _sweep(study, progress, n_jobs)
        from bayes_risk.reporting.swept import write_sweep

        say = progress or _quiet
        say("pictures", 0, 1)
        write_sweep(folder, result, command=command)
        say("pictures", 1, 1)
    return result


def _sweep(study: Study, progress: Progress | None, n_jobs: int) -> SweepResult:
    clock, seed = Clock(), _seed(study)
    seeds = _seeds(seed)
    ready = made(study, clock, seeds=seeds, n_jobs=n_jobs, progress=progress)
    weights = None if ready.reweighting is None else ready.reweighting.rounds[-1].weights

    def refit(declaration: Any) -> Any:
        how = {} if weights is None else {"weights": weights}
        return fit_model(study, declaration, ready.df, random_seed=seeds[0], n_jobs=n_jobs, **how)

    with clock("sweep"):
        found = br.sensitivity(
            ready.fit,
            ready.release,
            refit=refit,
            random_seed=seeds[2],
            n_jobs=n_jobs,
            progress=progress,
            **sweep_options(study),
        )
    return SweepResult(
        study=study,
        random_seed=seed,
        data_sha256=ready.data_sha256,
        diagnostics=_diagnostics(study, ready.fit),
        sensitivity=found,
        seconds=clock.seconds,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComparisonResult:
    """What one comparison of a study's candidates found.

    Attributes
    ----------
    study : Study
    random_seed : int
    data_sha256 : str
    comparison : Comparison
    seconds : mapping of str to float
        Wall time of each stage.
    """

    study: Study
    random_seed: int
    data_sha256: str
    comparison: Comparison
    seconds: Mapping[str, float]

    def __repr__(self) -> str:
        return f"{self.study.title}\n\n{self.comparison!r}"


def run_compare(
    study: Study,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    n_jobs: int = 2,
    command: str = "",
) -> ComparisonResult:
    """Compare the candidates of ``[compare]``, and write a folder if the study names one.

    Parameters
    ----------
    study, overwrite, progress, n_jobs, command
        As in `run_study`. What the study says of membership, the full table and a sweep is left
        aside.

    Returns
    -------
    ComparisonResult

    Raises
    ------
    InputError
        A study without ``[compare]``; as `run_study`.
    """
    if study.compare is None:
        raise InputError(
            "the study has no [compare]: name candidates, as in [compare.trees] and "
            'model = { kind = "CART", order = ["income"] }'
        )
    if study.output.folder is None:
        return _compare(study, progress, n_jobs)
    with output_folder(study.output.folder, overwrite=overwrite) as folder:
        result = _compare(study, progress, n_jobs)
        from bayes_risk.reporting.compared import write_comparison

        write_comparison(folder, result, command=command)
    return result


def _compare(study: Study, progress: Progress | None, n_jobs: int) -> ComparisonResult:
    clock, seed = Clock(), _seed(study)
    with clock("data"):
        df, sha256 = read_data(study.data)
        candidates, options = candidates_of(study, df), compare_options(study, df)
    with clock("comparison"):
        how: dict[str, Any] = {"random_seed": seed, "n_jobs": n_jobs, "progress": progress}
        found = br.compare(candidates, df, **options, **how)
    return ComparisonResult(
        study=study,
        random_seed=seed,
        data_sha256=sha256,
        comparison=found,
        seconds=clock.seconds,
    )
