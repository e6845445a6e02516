"""From a study to what is audited: the table, the fit, the release (or the loop that makes it)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pandas as pd

import bayes_risk as br
from bayes_risk._core.checkpoint import within
from bayes_risk._core.errors import InputError
from bayes_risk._core.memory import at_stage
from bayes_risk.release.provenance import Provenance

from .checks import rehearse, rehearse_ends, unsampled
from .declare import declare, fit_model, provenance_of, read_data, synthesis_options, taken
from .study import Study, candidate_study, sorted_keys

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
    """What an audit starts from; no declaration, no fit: for files that need no model."""

    df: pd.DataFrame  # the confidential table, levels declared
    declaration: Any
    fit: Any
    release: br.Release
    data_sha256: str = ""
    reweighting: br.Reweighting | None = None  # the loop that made fit and release
    provenance: Provenance | None = None


def prepare(study: Study, clock: Clock, *, seeds: list[int], **how: Any) -> Prepared:
    """Read the table, check the study against it, fit and synthesise.

    The clock is told the time of the stages "data", "fit", "release" (or "reweighting").
    """
    with clock("data"):
        if needs_fit(study):
            declare(study)  # what is wrong shows first
        df, sha256 = read_data(study.data)
        declaration, release = checked_inputs(study, df)
        provenance = provenance_of(study, df, sha256, {"": release})
    ready = fit_and_release(study, declaration, df, release, clock, seeds=seeds, **how)
    return replace(ready, data_sha256=sha256, provenance=provenance)


def fit_and_release(
    study: Study,
    declaration: Any,
    df: pd.DataFrame,
    release: br.Release | None,
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


def checked_inputs(study: Study, df: pd.DataFrame) -> tuple[Any, br.Release | None]:
    """The declaration and the release made elsewhere, after every check that needs no sampling.

    A run, and a dry run of it, call this before the first draw.
    """
    declaration = declare(study, df) if needs_fit(study) else None
    return declaration, rehearse(study, df, unsampled(study, declaration, df))


def needs_fit(study: Study) -> bool:
    """Whether the model has to be fitted: to make the release, or to audit it."""
    audits = (study.attribute, study.membership, study.full_table)
    return study.release.files is None or any(section is not None for section in audits)


def synthesize(fit: Any, study: Study, *, random_seed: int) -> br.Release:
    """The release that a fit makes."""
    release: br.Release = fit.synthesize(random_seed=random_seed, **synthesis_options(study))
    return release


def _reweight(
    study: Study, declaration: Any, df: pd.DataFrame, random_seed: int, **how: Any
) -> br.Reweighting:
    """Fit, synthesise and audit, weigh down, again."""
    section, own = study.reweight, {"missing": study.data.missing, "n_jobs": how["n_jobs"]}
    return br.reweight(
        declaration,
        df,
        **section.given_to(br.reweight),
        weights_from=br.LinearWeights(**section.given_to(br.LinearWeights)),
        fit=study.model.fit_options() | taken(declaration, **own),
        synthesis=synthesis_options(study),
        audit=study.attribute.options | {"n_jobs": how["n_jobs"]},
        random_seed=random_seed,
        progress=how["progress"],
    )


def candidates_of(study: Study, df: pd.DataFrame) -> dict[str, Any]:
    """Every candidate as ``compare`` takes it, checked against the table."""
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
    own = {} if study.attribute is None else study.attribute.options
    options = synthesis_options(study)
    return br.Candidate(
        SimpleNamespace(fit=partial(fit_model, study, declaration)),
        m=options.pop("m"),
        columns=options.pop("columns"),
        synthesis=options,
        attribute={k: v for k, v in own.items() if k != "targets"},
    )
