"""Every audit tried before the first draw, on the table itself in the place of the release.

What is refused of a table that was released unchanged is refused of the release too, and should be
told before a model is fitted, which may take long.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.prior_weights import log_prior
from bayes_risk.evidence.problem import cases_of, guessed, guessed_numbers, rows_of
from bayes_risk.intruder.grids import as_guesses
from bayes_risk.release.release import EncodedRelease, Release
from bayes_risk.risk.full_table.risk import check_size
from bayes_risk.risk.full_table.tables import Table
from bayes_risk.utilities.assess import checked_analyses
from bayes_risk.utilities.inferences import inferences
from bayes_risk.utilities.tables import columns_of, tables_of

from .checks import coded
from .declare import attribute_options, matching_options, placed_anywhere
from .keys import as_keys
from .outsiders import holdout_of, others_of
from .sections import AttributeSection
from .study import Study


def rehearse(study: Study, df: pd.DataFrame, release: Release | None) -> None:
    """Try every audit of a study that needs no draws.

    Parameters
    ----------
    study : Study
    df : DataFrame
    release : Release or None
        Made elsewhere; None: the table stands for the release to come.

    Raises
    ------
    InputError
        What an audit would refuse, named with its section.

    Notes
    -----
    *Cost.* Matching, context measures without distances, analyses and guesses once.
    """
    if release is None:
        made, m = study.made(df), min(study.m, 2)
        release = Release(
            datasets=[df] * m,
            synthesized=made,
            classes=study.classes,
            parameters=study.release.parameters,
        )
    else:
        release = replace(release, datasets=list(release.datasets)[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they come with the audit itself
        _without_model(study, df, release)
        asked = (study.attribute, study.full_table, study.membership)
        if any(section is not None for section in asked):
            _with_guesses(study, df, release)


def rehearse_ends(study: Study, df: pd.DataFrame, made: list[str]) -> None:
    """Try ``[bounds]`` of releases with these columns synthesised."""
    with _of("bounds"):
        options = {} if study.bounds is None else study.bounds.options
        br.release_bounds(df, random_seed=0, **{"synthesized": made} | options | {"m": 1})


def _without_model(study: Study, df: pd.DataFrame, release: Release) -> None:
    """Matching, utility, context measures, bounds, and whoever is compared."""
    if study.identification is not None:
        with _of("identification"):
            matching = matching_options(study, df, release.datasets)
            br.identification_risk(df, release, **matching)
    if (asked := study.utility) is not None:
        with _of("utility"):
            tables = tables_of(df, release, asked.columns, None)
            columns_of(tables, asked.numbers, asked.groups, asked.missing)
            analyses = checked_analyses(asked.functions())
            inferences(analyses, tables, asked.rules, asked.confidence)
    if study.context is not None:
        with _of("context"):
            few: dict[str, Any] = {"lookups": 1, "random_seed": 0, "holdout": holdout_of(study, df)}
            br.context_measures(df, release, **study.context.options | few)
    if study.bounds is not None and study.compare is None:
        rehearse_ends(study, df, list(release.synthesized))


def _with_guesses(study: Study, df: pd.DataFrame, release: Release) -> None:
    """Targets, intruders, guesses and priors, those of a sweep too; the size of the full table."""
    data = coded(study, df)
    for section in _variants(study):
        with _of("attribute"):
            _try_guesses(study, section, data, release)
    if study.full_table is not None:
        with _of("full_table"):
            options = attribute_options(study.attribute or AttributeSection())
            names = guessed(EncodedRelease.of(release, data), options["intruder"])
            check_size(Table.of(data.n_levels[[data.columns.index(c) for c in names]]))
    if study.membership is not None and (people := others_of(study, df)) is not None:
        with _of("membership"):
            data.encode(people, "others")


def _try_guesses(
    study: Study, section: AttributeSection, data: Microdata, release: Release
) -> None:
    drawn = not isinstance(section.targets, list) and section.targets != "all"
    options = attribute_options(placed_anywhere(section) if drawn else section)
    intruder, rng = options["intruder"], np.random.default_rng(0)
    encoded = EncodedRelease.of(release, data)
    guesses = as_guesses(options["guesses"], guessed_numbers(encoded, intruder))
    rows = rows_of(options["targets"], encoded, intruder, rng)
    some = intruder.knows_less and not intruder.of_trade
    known = intruder.known(data.index, rng) if some else None
    cases, _ = cases_of(encoded, intruder, guesses, rows, known)
    for prior in _priors(study, options.get("prior", "uniform")):
        base = np.zeros((len(cases.guesses.codes), len(cases)))
        log_prior(prior, data, cases, encoded, base)


def _variants(study: Study) -> list[AttributeSection]:
    """The audit, and those of a sweep that differ in guesses or known columns."""
    own, sweep = study.attribute, study.sweep
    if own is None:
        return []
    updates: list[dict[str, Any]] = [{}]
    for key in ("guesses", "knows_columns") if sweep is not None else ():
        updates += [{key: value} for value in cast(Any, sweep).values(key)]
    return [own.model_copy(update=update) for update in updates]


def _priors(study: Study, own: Any) -> list[Any]:
    from .declare import declare_prior

    swept = [] if study.sweep is None else study.sweep.values("priors")
    return [own, *map(declare_prior, swept)]


@contextmanager
def _of(section: str) -> Iterator[None]:
    """Name the section, and write arguments as keys."""
    try:
        yield
    except InputError as error:
        said = as_keys(str(error))
        raise InputError(said if said.startswith("[") else f"[{section}] {said}") from None
