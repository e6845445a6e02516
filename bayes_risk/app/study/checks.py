"""What does not suit the data is told before a model is fitted, which may take long.

Every audit is tried on the table itself in the place of the release: what is refused of a table
that was released unchanged is refused of the release too.
"""

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import Microdata
from bayes_risk.data.variables import Number
from bayes_risk.evidence.prior_weights import log_prior
from bayes_risk.evidence.problem import cases_of, guessed, guessed_numbers, rows_of
from bayes_risk.intruder.grids import Grid, as_guesses
from bayes_risk.matching.risk import identification_risk
from bayes_risk.release.release import EncodedRelease, Release
from bayes_risk.risk.full_table.risk import check_size
from bayes_risk.risk.full_table.tables import Table
from bayes_risk.utilities.assess import checked_analyses
from bayes_risk.utilities.bounds import release_bounds
from bayes_risk.utilities.context import context_measures
from bayes_risk.utilities.inferences import inferences
from bayes_risk.utilities.tables import columns_of, tables_of

from .agreement import check_membership, priors_of
from .contents import Contents
from .declare import attribute_options, declare_prior, matching_options, placed_anywhere
from .keys import as_keys
from .models import (
    BinomialSection,
    CARTSection,
    DPMPMSection,
    ForestSection,
    ModelSection,
    PMMSection,
    PoissonMixtureSection,
    RegressionSection,
    is_number,
)
from .offers import check_evidence, check_ways
from .reading import holdout_of, others_of
from .sections import AttributeSection, GridSection, IntruderSection, PriorInterval, parts_of

WHOLE_FAMILIES = ("poisson", "negative-binomial")


def check_table(study: Contents, df: pd.DataFrame, *, fitted: bool) -> None:
    """The study suits the table, the model too if it is to be fitted; raises InputError."""
    if fitted:
        _check_columns(study, df)
    _check_intruder(study, df)
    _check_evidence(study, df)
    _check_guesses(study, df)
    _check_members(study, df)


def _check_columns(study: Contents, df: pd.DataFrame) -> None:
    """Find columns that a model cannot use, or that it would have to synthesise."""
    model = study.model
    if isinstance(model, PoissonMixtureSection):
        _check_counts(study, model, df)
    if not isinstance(model, CARTSection | ForestSection | PMMSection):
        return
    identifying = model.identifying if isinstance(model, PMMSection) else []
    _known(model.order, "[model] order", df)
    _known(identifying, "[model] identifying", df)
    numbers = [name for name in model.order if is_number(df[name])]
    if isinstance(model, ForestSection) and numbers:
        raise InputError(
            f"[model] order names column {numbers[0]!r}, which is a number, and forests synthesise "
            'categories; declare its levels in [data.levels], or take kind = "CART"'
        )


def _check_counts(study: Contents, model: PoissonMixtureSection, df: pd.DataFrame) -> None:
    """Columns of a mixture of Poissons are there."""
    _known(model.covariates, "[model] covariates", df)
    _known([model.exposure], "[model] exposure", df)
    _known(study.release.columns or [], "[release] columns", df)


def counts_of(model: PoissonMixtureSection, df: pd.DataFrame) -> list[str]:
    """Columns of counts: all but covariates and exposure."""
    return [str(c) for c in df.columns if c not in model.fixed]


def _check_evidence(study: Contents, df: pd.DataFrame) -> None:
    """What the file alone could not tell of the evidence that is offered, the table tells."""
    try:
        for check in (check_evidence, check_ways, check_membership):
            check(study, df)
    except ValueError as error:
        raise InputError(str(error)) from None


def _check_intruder(study: Contents, df: pd.DataFrame) -> None:
    """Find labels, columns and totals that contradict the data."""
    section = study.attribute
    if section is None:
        return
    _known_labels(section.targets, "[attribute] targets", df)
    if section.intruder is None or not section.knows_less:
        return
    _known_labels(section.intruder.knows_records, "[attribute.intruder] knows_records", df)
    _check_smoothing(study, section.intruder, df)
    _known([section.largest], "[attribute.intruder] largest", df)
    if section.intruder.other is not None:
        _known_labels([section.intruder.other], "[attribute.intruder] other", df)
        if isinstance(section.targets, list) and section.intruder.other in section.targets:
            raise InputError(
                f"[attribute.intruder] other = {section.intruder.other!r} is a target; name "
                "another record"
            )
    _check_totals(section.intruder, df)


def _check_smoothing(study: Contents, intruder: IntruderSection, df: pd.DataFrame) -> None:
    """Records that are not known are summed over where leaves show genuine values."""
    model = study.model
    if not isinstance(model, CARTSection) or model.smoothing is None:
        return
    smoothed = [c for c in study.synthesized or [] if c in df.columns and is_number(df[c])]
    if smoothed:
        raise InputError(
            f"{intruder.said} is not offered where numbers are smoothed, as {smoothed[0]!r} is; "
            'leave [model] smoothing out, or give "all-but-target"'
        )


def _check_totals(intruder: IntruderSection, df: pd.DataFrame) -> None:
    """Totals are those of the data, which the message does not tell: they are confidential."""
    given = intruder.knows_totals if isinstance(intruder.knows_totals, dict) else {}
    for name, total in given.items():
        _known([name], "[attribute.intruder] knows_totals", df)
        if not is_number(df[name]) or float(df[name].sum()) != total:
            raise InputError(
                f"[attribute.intruder] knows_totals.{name} = {total:.15g} is not what the data add "
                "up to; give that, or knows_totals = true"
            )


def _check_members(study: Contents, df: pd.DataFrame) -> None:
    """Membership is asked of whole records, and of records that are there."""
    section, columns = study.membership, study.synthesized
    if study.full_table is not None:
        _known_labels(study.full_table.targets, "[full_table] targets", df)
    if section is None:
        return
    kept = [c for c in df.columns if columns is not None and c not in columns]
    if isinstance(study.model, PoissonMixtureSection) and columns is None:
        kept = [c for c in df.columns if c in study.model.fixed]
    if kept:
        raise InputError(
            f"[membership]: columns {kept} are released as they are, and show by themselves who "
            "may be in the data; synthesise every column, or leave [membership] out"
        )
    _known_labels(section.records, "[membership] records", df)


def _check_guesses(study: Contents, df: pd.DataFrame) -> None:
    """Find guesses that do not suit the data."""
    section, names, model = study.attribute, study.guessed, study.model
    if section is None or isinstance(model, DPMPMSection):
        return
    if isinstance(model, PoissonMixtureSection):
        _check_guessed_counts(study, model, section, df, names)
        return
    present = [name for name in names or [] if name in df.columns]
    for name in present:
        _check_column(name, df[name], section, _family_named(model, name))
    numbers = [c for c in present if _guessed_as_number(df[c], _family_named(model, c))]
    _check_intervals(study, numbers)
    for where, prior in priors_of(study) if numbers else ():
        if prior == "marginal":
            raise InputError(
                f'{where} = "marginal" counts levels, and {numbers[0]!r} is a number; give '
                f"{{ density = {{ {numbers[0]} = {{ normal = [0, 1] }} }} }}, or another prior"
            )


def _check_guessed_counts(
    study: Contents,
    model: PoissonMixtureSection,
    section: AttributeSection,
    df: pd.DataFrame,
    names: list[str] | None,
) -> None:
    """Counts have grids, with a place for the truth of the targets, and some in the interval."""
    if names is None:
        names = [c for c in counts_of(model, df) if c not in section.knows_columns]
    for name in (c for c in [*section.grids, *section.densities] if c not in names):
        raise InputError(f"[attribute] names {name!r} among what is guessed; that is {names}")
    _check_intervals(study, names)
    for name in names:
        _check_column(name, df[name], section, "poisson")
        own = [
            prior
            for prior in parts_of(section.prior)
            if isinstance(prior, PriorInterval) and prior.column in (None, name)
        ]
        if is_number(df[name]) and df[name].notna().all():
            _check_points(name, _true_values(df[name], section), section, own)


def _check_intervals(study: Contents, numbers: list[str]) -> None:
    """An interval is about one of the guessed numbers."""
    for where, prior in priors_of(study):
        if not isinstance(prior, PriorInterval) or prior.column in numbers:
            continue
        if prior.column is not None or len(numbers) != 1:
            raise InputError(
                f"{where}: an interval is about one number; give column = one of {numbers}"
                if numbers
                else f"{where}: an interval is about a number, and none is guessed; leave it out"
            )


def _true_values(column: pd.Series, section: AttributeSection) -> npt.NDArray[np.float64]:
    """Values of the targets, each once; none where these are still to be drawn."""
    if section.largest is not None:
        column = column.nlargest(1)
    elif isinstance(section.targets, list):
        column = column.loc[section.targets]
    elif section.targets != "all":
        column = column.head(0)
    return np.unique(column.to_numpy(dtype=float))


def _check_points(
    name: str,
    values: npt.NDArray[np.float64],
    section: AttributeSection,
    priors: list[PriorInterval],
) -> None:
    grid = section.guesses[name] if isinstance(section.guesses, dict) else section.guesses
    if not len(values) or not isinstance(grid, GridSection):
        return
    number = replace(Number.of(pd.Series(values), name), whole=True, lowest=0.0)
    points, _ = Grid(**grid.model_dump()).points(values, number)
    for prior in priors:
        low, high = prior.interval
        if ((points >= low) & (points <= high)).any(axis=0).all():
            continue
        raise InputError(
            f"[attribute] prior: no guess of {name!r} lies from {low:g} to {high:g} for some "
            "target; give a grid that reaches there"
        )


def _check_column(name: str, column: pd.Series, section: AttributeSection, family: Any) -> None:
    """One guessed column: numbers have grids, and the grids a place for the truth."""
    guesses = section.guesses
    grid = guesses.get(name) if isinstance(guesses, dict) else guesses
    label = f"[attribute] guesses.{name}"
    if not _guessed_as_number(column, family):
        if isinstance(guesses, dict) and isinstance(grid, GridSection):
            raise InputError(f'{label}: the column is a category; give "levels"')
        return
    if not isinstance(grid, GridSection):
        raise InputError(
            f"{label}: the column is a number, and a number needs a grid: "
            f"guesses = {{ {name} = {{ percent = 10, n = 11 }} }}{_if_codes(name, column)}"
        )
    whole = family in WHOLE_FAMILIES or isinstance(family, BinomialSection)
    if section.targets == "all" and not whole and column.notna().all():
        Grid(**grid.model_dump()).points(column.to_numpy(dtype=float), Number.of(column, name))


def coded(study: Contents, df: pd.DataFrame) -> Microdata:
    """The table as the model will code it."""
    return Microdata.from_frame(
        df,
        numbers=_numbers_of(study.model, df),
        missing=study.data.missing,
        missing_numbers=getattr(study.model, "missing_numbers", None),
    )


FEW = 30  # whole numbers that may well be codes of categories


def _if_codes(name: str, column: pd.Series) -> str:
    """What to do if these numbers are codes: few whole ones may be."""
    values = np.unique(column.dropna().to_numpy(dtype=float)) if is_number(column) else np.zeros(0)
    if not 0 < len(values) <= FEW or (values % 1).any():
        return ""
    key = name if re.fullmatch("[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
    return (
        f"; if its {len(values)} whole numbers are codes of categories, list these in "
        f"[data.levels]: {key} = [1, 2, ...]"
    )


def _numbers_of(model: ModelSection, df: pd.DataFrame) -> list[str]:
    """Columns of the table that the model reads as numbers; its levels are declared already."""
    if isinstance(model, DPMPMSection):
        return []
    if isinstance(model, PoissonMixtureSection):
        return [c for c in df.columns if c not in model.covariates]
    return [c for c in df.columns if _guessed_as_number(df[c], _family_named(model, c))]


def _guessed_as_number(column: pd.Series, family: Any) -> bool:
    by_family = family not in ("bernoulli", "ordered", "categorical")
    return is_number(column) if family is None else by_family


def _known(names: Sequence[str | None], where: str, df: pd.DataFrame) -> None:
    """Columns that are named are there."""
    for name in names:
        if name is not None and name not in df.columns:
            raise InputError(f"{where} names column {name!r}; the data have {list(df.columns)}")


def _known_labels(given: Any, where: str, df: pd.DataFrame) -> None:
    """Records whose labels are listed are there."""
    for label in given if isinstance(given, list) else []:
        if label in df.index:
            continue
        kind = "text" if isinstance(df.index[0], str) else "numbers"
        raise InputError(
            f"{where} names {label!r}, which is no record label; the labels are {kind}, those of "
            "[data] index, or the numbers of the rows from 0"
        )


def _family_named(model: ModelSection, name: str) -> Any:
    return model.families.get(name) if isinstance(model, RegressionSection) else None


def check_powers(study: Contents, declaration: Any) -> None:
    """Powers of hyper-priors are proper; whatever else a sweep varies, the file has told."""
    given = {} if study.sweep is None or study.sweep.model is None else study.sweep.model
    powers = given.get("power", [])
    for power in powers.values() if isinstance(powers, Mapping) else powers:
        declaration.power_scaled(float(power))


def rehearse(study: Contents, df: pd.DataFrame, release: Release | None) -> None:
    """Try every audit of a study that needs no draws; raises InputError, named with the section.

    A release that is yet to come (None) is the table itself. *Cost.* Matching, context measures
    without distances, analyses and guesses once.
    """
    if release is None:
        release = Release(
            datasets=[df] * min(study.m, 2),
            synthesized=study.synthesized_in(df),
            classes=study.classes,
            parameters=study.release.parameters,
        )
    else:
        release = replace(release, datasets=list(release.datasets)[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they come with the audit itself
        _rehearse_without_model(study, df, release)
        asked = (study.attribute, study.full_table, study.membership)
        if any(section is not None for section in asked):
            _rehearse_guesses(study, df, release)


def rehearse_ends(study: Contents, df: pd.DataFrame, made: list[str]) -> None:
    """Try ``[bounds]`` of releases with these columns synthesised."""
    with _named("bounds"):
        options = {} if study.bounds is None else study.bounds.options
        release_bounds(df, random_seed=0, **{"synthesized": made} | options | {"m": 1})


def _rehearse_without_model(study: Contents, df: pd.DataFrame, release: Release) -> None:
    """Matching, utility, context measures, bounds, and whoever is compared."""
    if study.identification is not None:
        with _named("identification"):
            matching = matching_options(study, df, release.datasets)
            identification_risk(df, release, **matching)
    if (asked := study.utility) is not None:
        with _named("utility"):
            tables = tables_of(df, release, asked.columns, None)
            columns_of(tables, asked.numbers, asked.groups, asked.missing)
            analyses = checked_analyses(asked.functions())
            inferences(analyses, tables, asked.rules, asked.confidence)
    if study.context is not None:
        with _named("context"):
            few: dict[str, Any] = {"lookups": 1, "random_seed": 0, "holdout": holdout_of(study, df)}
            context_measures(df, release, **study.context.options | few)
    if study.bounds is not None and study.compare is None:
        rehearse_ends(study, df, list(release.synthesized))


def _rehearse_guesses(study: Contents, df: pd.DataFrame, release: Release) -> None:
    """Targets, intruders, guesses and priors, those of a sweep too; the size of the full table."""
    data = coded(study, df)
    for section in _variants(study):
        with _named("attribute"):
            _try_guesses(study, section, data, release)
    if study.full_table is not None:
        with _named("full_table"):
            options = attribute_options(study.attribute or AttributeSection())
            names = guessed(EncodedRelease.of(release, data), options["intruder"])
            check_size(Table.of(data.n_levels[[data.columns.index(c) for c in names]]))
    if study.membership is not None and (people := others_of(study, df)) is not None:
        with _named("membership"):
            data.encode(people, "others")


def _try_guesses(
    study: Contents, section: AttributeSection, data: Microdata, release: Release
) -> None:
    drawn = not isinstance(section.targets, list) and section.targets != "all"
    options = attribute_options(placed_anywhere(section) if drawn else section)
    intruder, rng = options["intruder"], np.random.default_rng(0)
    encoded = EncodedRelease.of(release, data)
    guesses = as_guesses(options["guesses"], guessed_numbers(encoded, intruder))
    rows = rows_of(options["targets"], encoded, intruder, rng)
    some = intruder.knows_less and not intruder.is_competitor
    known = intruder.known(data.index, rng) if some else None
    cases, _ = cases_of(encoded, intruder, guesses, rows, known)
    for prior in _priors(study, options.get("prior", "uniform")):
        base = np.zeros((len(cases.guesses.codes), len(cases)))
        log_prior(prior, data, cases, encoded, base)


def _variants(study: Contents) -> list[AttributeSection]:
    """The audit, and those of a sweep that differ in guesses or known columns."""
    own, sweep = study.attribute, study.sweep
    if own is None:
        return []
    updates: list[dict[str, Any]] = [{}]
    for key in ("guesses", "knows_columns") if sweep is not None else ():
        updates += [{key: value} for value in cast(Any, sweep).values(key)]
    return [own.model_copy(update=update) for update in updates]


def _priors(study: Contents, own: Any) -> list[Any]:
    swept = [] if study.sweep is None else study.sweep.values("priors")
    return [own, *map(declare_prior, swept)]


@contextmanager
def _named(section: str) -> Iterator[None]:
    """Name the section, and write arguments as keys."""
    try:
        yield
    except InputError as error:
        said = as_keys(str(error))
        raise InputError(said if said.startswith("[") else f"[{section}] {said}") from None
