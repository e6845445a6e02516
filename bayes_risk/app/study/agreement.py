"""Sections of a study that must agree with one another, as far as the file alone can tell.

Every check raises ValueError with a sentence that names the keys, and the cure.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from pydantic import ValidationError

from bayes_risk._core.validate import is_number

from .contents import Contents
from .keys import LARGEST, as_toml_value, misfit, sentences, told, unknown
from .models import (
    CARTSection,
    DPMPMSection,
    PMMSection,
    PoissonMixtureSection,
    RegressionSection,
)
from .offers import (
    check_evidence,
    check_parameters,
    check_ways,
    of_its_making,
    of_kept_columns,
    ways_of,
)
from .sections import PriorDensity, PriorInterval, parts_of

BASELESS = ("exact", "monte-carlo", "importance")  # evidence that has no base fit
UNSAMPLED = ("CART", "Forest", "PMM")
ESTIMATES = ("interval_overlap", "lowest_interval_overlap", "largest_standardized_difference")
HYPER: dict[str, tuple[str, ...]] = {  # keys of [model] that [sweep.model] may vary
    "DPMPM": ("n_classes", "concentration_prior", "level_prior", "power"),
    "Regression": ("prior", "power"),
    "CART": ("min_leaf", "bootstrap"),
    "Forest": ("n_trees", "min_leaf", "votes", "dirichlet", "chain"),
    "PoissonMixture": ("n_classes", "concentration_prior", "rate_prior", "level_prior"),
}
WITH_MEMBERSHIP = '"DPMPM", "Regression", "PyMCModel" or "PoissonMixture" (synthesizer = "MP")'
WITH_WEIGHTS = (
    '"DPMPM", "Regression", "PyMCModel", "CART" (without smoothing) or "PoissonMixture" '
    '(synthesizer = "MP", without zeros)'
)


def check_agreement(study: Contents) -> None:
    """All that a study file alone can tell, but for the candidates of a comparison."""
    _check_something_to_do(study)
    _check_release(study)
    _check_matched_columns(study)
    _check_counts(study)
    _check_priors(study)
    _check_zeros(study)
    check_parameters(study)
    _check_sweep(study)
    _check_reweighting(study)
    check_membership(study)
    _check_full_table(study)
    _check_bounds(study)
    _check_thresholds(study)
    check_evidence(study)


def _check_something_to_do(study: Contents) -> None:
    asked = (
        *(study.attribute, study.identification, study.membership, study.full_table),
        *(study.utility, study.context),
    )
    if all(section is None for section in asked):
        raise ValueError("nothing to measure: add a section [attribute], [identification] or both")


def _check_release(study: Contents) -> None:
    """The model can make the release, or audit it."""
    model, release = study.model, study.release
    if "classes" in release.model_fields_set and not study.chooses_classes:
        raise ValueError(
            '[release] classes belongs to kind = "DPMPM" and to synthesizer = "MP"; leave it out'
        )
    if release.files is None and isinstance(drawn := getattr(model, "draws", None), int):
        own_chain = release.parameters == "one-mode"
        drawn *= 1 if own_chain else getattr(model, "chains", 1)
        if release.m > drawn and release.parameters not in ("shared", "plug-in"):
            cure = (
                "a chain of [model]; raise draws" if own_chain else "[model]; raise draws or chains"
            )
            raise ValueError(
                f"[release] m = {release.m} is more than the {drawn} draws of {cure}, or lower m"
            )
    # files made elsewhere may hold columns that only a model of the attribute risk needs
    needed = release.files is None or study.attribute is not None
    for column in (release.columns or []) if needed else []:
        if model.modelled is not None and column not in model.modelled:
            key = {"Regression": "formulas", "PyMCModel": "columns"}.get(model.kind, "order")
            raise ValueError(
                f"[release] columns names {column!r}, for which [model] {key} has nothing; it "
                f"has {model.modelled}"
            )


def _check_matched_columns(study: Contents) -> None:
    """Records are replaced as a whole, and which of them is known."""
    model, release = study.model, study.release
    if not isinstance(model, PMMSection):
        return
    if release.files is not None and study.attribute is not None:
        raise ValueError(
            'kind = "PMM" replaces some records alone, and [release] files do not say which; '
            "leave out files, or [attribute]"
        )
    if release.files is None and set(release.columns or model.order) != set(model.order):
        raise ValueError(
            f"[release] columns leaves out some of [model] order = {model.order}, which are "
            "synthesised together; leave out columns, or shorten order"
        )


def _check_counts(study: Contents) -> None:
    """A mixture of Poissons makes the release and answers the intruder; no other model does."""
    model, section = study.model, study.attribute
    if isinstance(model, PoissonMixtureSection):
        _check_release_of_counts(study, model)
        for name in section.grids if section is not None else []:
            _refuse_fixed(model, name, "[attribute] guesses")
        if section is not None and section.is_competitor:
            _check_intruder_of_counts(study, model)
    elif section is not None and section.intruder is not None and section.is_competitor:
        raise ValueError(
            f'{section.intruder.said} is for kind = "PoissonMixture", not "{model.kind}"; give '
            '"all-but-target", or that model'
        )


def _check_release_of_counts(study: Contents, model: PoissonMixtureSection) -> None:
    for name in study.release.columns or []:
        _refuse_fixed(model, name, "[release] columns")


def _check_intruder_of_counts(study: Contents, model: PoissonMixtureSection) -> None:
    """Which records share a total: known where it is told, inferred where there is anything to."""
    section = study.attribute
    assert section is not None and section.intruder is not None
    intruder = section.intruder
    if intruder.largest is not None:
        _refuse_fixed(model, intruder.largest, "[attribute.intruder] largest")
    if model.zeros is not None and (intruder.other is not None or section.knows_columns):
        raise ValueError(
            "[model] zeros is offered for intruders who know the second largest and no column of "
            "the target; leave zeros out"
        )
    if intruder.groups == "inferred" and model.synthesizer != "MM":
        raise ValueError(
            '[attribute.intruder] groups = "inferred" is for synthesizer = "MM", not '
            f'"{model.synthesizer}"; leave groups out'
        )
    if intruder.groups == "known" and model.deals and study.release.files is not None:
        inferred = model.synthesizer == "MM" and intruder.other is None
        cure = 'give groups = "inferred"' if inferred else "leave files out"
        raise ValueError(
            "[release] files do not say which records share a total, and this intruder knows it; "
            f"{cure}"
        )


def _refuse_fixed(
    model: PoissonMixtureSection, name: str, where: str, cure: str = "leave it out there or here"
) -> None:
    if name in model.fixed:
        key = "exposure" if name == model.exposure else "covariates"
        raise ValueError(
            f"{where} names {name!r}, which stands under [model] {key} and is not synthesised; "
            f"{cure}"
        )


def priors_of(study: Contents) -> Iterator[tuple[str, Any]]:
    """Where a prior stands, and each of its parts."""
    own = None if study.attribute is None else study.attribute.prior
    given = [] if own is None else [("[attribute] prior", own)]
    if study.sweep is not None:
        given += [("[sweep] priors", prior) for prior in study.sweep.values("priors")]
    for where, prior in given:
        for part in parts_of(prior):
            yield where, part


def _check_priors(study: Contents) -> None:
    """Priors are of the kind of variable that is guessed, and rest on what is there."""
    for where, prior in priors_of(study):
        if isinstance(prior, PriorInterval) and isinstance(study.model, DPMPMSection):
            raise ValueError(
                f'{where}: an interval is about a number, and kind = "DPMPM" has none; leave it out'
            )
        if prior == "marginal" and isinstance(study.model, PoissonMixtureSection):
            raise ValueError(
                f'{where} = "marginal" counts levels, and counts are numbers; give '
                "{ interval = [500, 700] } or a density"
            )
        if prior == "predictive":
            _check_base(study, where)
        _check_columns_of_prior(study.guessed, where, prior)


def _check_base(study: Contents, where: str) -> None:
    """The model's own predictive comes with a base fit."""
    section = study.attribute
    if section is None:
        return
    said = f'{where} = "predictive" is what the model says without the release'
    if study.reweight is not None:
        raise ValueError(
            f"{said}, which is not offered beside [reweight], whose predictives are powers of "
            "densities; give another prior"
        )
    if (
        section.is_competitor
        or study.model.kind in UNSAMPLED
        or study.model.offers([]) == ("exact",)
    ):
        raise ValueError(
            f'{said}, and needs evidence = "predictive", which is not offered here; give another '
            "prior"
        )
    for way in ways_of(study, section):
        if way.chosen in BASELESS:
            known = "" if way.knows == "all-but-target" else f" for {way.said}"
            right = [f'"{offer}"' for offer in way.offers if offer not in BASELESS]
            cure = f"give evidence = {' or '.join(right)}" if right else "give another prior"
            raise ValueError(f"{said}, and needs a fit that has not seen it{known}; {cure}")


def _check_columns_of_prior(guessed: list[str] | None, where: str, prior: Any) -> None:
    """Columns that a prior names are guessed."""
    if guessed is None:
        return
    if isinstance(prior, PriorInterval) and prior.column not in (None, *guessed):
        raise ValueError(
            f"{where}.column names {prior.column!r}, which is not guessed; give one of {guessed}"
        )
    for name in prior.density if isinstance(prior, PriorDensity) else ():
        if name not in guessed:
            raise ValueError(unknown(name, f"{where}.density", guessed))


def _check_zeros(study: Contents) -> None:
    """What is not offered beside impossible combinations."""
    model = study.model
    if not isinstance(model, DPMPMSection) or model.impossible is None:
        return
    if study.classes == "own":
        raise ValueError(
            '[release] classes = "own" is not offered beside [model] impossible; leave out one of '
            "them"
        )
    if study.reweight is not None:
        raise ValueError("[reweight] is not offered beside [model] impossible; leave out one")


def _check_sweep(study: Contents) -> None:
    """A sweep varies an audit, by values that suit it."""
    sweep, section = study.sweep, study.attribute
    if sweep is None:
        return
    if section is None:
        raise ValueError("[sweep] varies what [attribute] says; add that section")
    most = max(sweep.m or [0])
    if most > study.m:
        raise ValueError(
            f"[sweep] m names {most}, and the release has {study.m} data sets; raise [release] m, "
            "or give fewer"
        )
    if sweep.classes is not None and not study.chooses_classes:
        raise ValueError(
            '[sweep] classes belongs to kind = "DPMPM" and to synthesizer = "MP"; leave it out'
        )
    if (sweep.knows_records or sweep.knows_columns) and section.is_competitor:
        raise ValueError(
            "[sweep] knows_records and knows_columns are not offered beside a business "
            "competitor; leave them out"
        )
    columns = study.synthesized
    for names in sweep.values("knows_columns") if columns is not None else ():
        for name in names:
            if name not in (columns or []):
                raise ValueError(unknown(name, "[sweep] knows_columns", columns or []))
        if not set(columns or []) - set(names):
            raise ValueError(
                f"[sweep] knows_columns = {names} leaves nothing to guess; leave a column out"
            )
    check_ways(study)
    _check_hyper(study.model, sweep.model)


def _check_hyper(model: Any, varied: Mapping[str, Any] | None) -> None:
    """Values of ``[sweep.model]`` are what the model's own keys take."""
    if varied is None:
        return
    known, brought = HYPER.get(model.kind, ()), ""
    if isinstance(model, RegressionSection) and isinstance(model.draws, dict):
        known, brought = (), " with draws brought from elsewhere"
    if isinstance(model, CARTSection) and model.models is not None:
        known, brought = (), " with the trees of models"
    if not known:
        raise ValueError(
            f'[sweep.model] is not offered for kind = "{model.kind}"{brought}; leave it out'
        )
    for key, values in varied.items():
        if key not in known:
            raise ValueError(unknown(key, "[sweep.model]", known))
        for value in values.values() if isinstance(values, Mapping) else values:
            changed(model, key, value)


def changed(model: Any, key: str, value: Any) -> Any:
    """The section of the model with another value of one of its keys; ``power`` has no key."""
    if key == "power":
        if not is_number(value) or not 0 < value <= LARGEST:
            raise ValueError(misfit("[sweep.model] power", value, "a list of numbers above 0"))
        return model
    content = model.model_dump(exclude_unset=True) | {key: value}
    try:
        return type(model).model_validate(content)
    except ValidationError as error:
        raise told(sentences(error, type(model), content, "[sweep.model]", {})) from None


def _unweighted(study: Contents) -> str | None:
    """Why the model's fit takes no record weights, in words; None: it takes them."""
    model = study.model
    keys: tuple[str, ...] = ()
    if isinstance(model, PoissonMixtureSection) and not model.deals:
        keys = ("zeros",)
    if isinstance(model, CARTSection):
        keys = ("smoothing", "floor", "models")
    for key in keys:
        if getattr(model, key):
            return f" with {key}"
    why = of_its_making(model)
    return why if why or model.kind in ("Forest", "PMM") else None


def _check_reweighting(study: Contents) -> None:
    """The loop makes the release, from a model that takes weights, and audits it."""
    if study.reweight is None:
        return
    model, section = study.model, study.attribute
    why = _unweighted(study)
    if why is not None:
        raise ValueError(
            f'[reweight] is not offered for kind = "{model.kind}"{why}; give '
            f"kind = {WITH_WEIGHTS}, or leave it out"
        )
    if section is None:
        raise ValueError("[reweight] takes its weights from the audit; add [attribute]")
    if section.knows_less:
        raise ValueError(
            "[reweight] is for an intruder who knows every other record; leave "
            "[attribute.intruder] out"
        )
    if study.release.files is not None:
        raise ValueError(
            "[reweight] makes the release, and [release] files have been made; leave out one of "
            "them"
        )
    if study.classes == "own":
        raise ValueError(
            '[reweight] is not offered for [release] classes = "own", where a record leaves its '
            'trace whatever its weight; give "new"'
        )


def check_membership(study: Contents, df: pd.DataFrame | None = None) -> None:
    """Membership is asked of releases of whole records, made by a model with predictives."""
    section, model = study.membership, study.model
    if section is None:
        return
    columns = study.synthesized_in(df)
    if "predictive" not in model.offers(columns, df):
        raise ValueError(
            f'[membership] is not offered for kind = "{model.kind}"{of_its_making(model)}; give '
            f"kind = {WITH_MEMBERSHIP}, or leave it out"
        )
    if study.reweight is not None:
        raise ValueError("[membership] is not offered beside [reweight]; leave out one of them")
    if section.knows_records != "all-but-target":
        said = f"[membership] knows_records = {as_toml_value(section.knows_records)}"
        if study.m > 1:
            raise ValueError(
                f"{said} is for one data set, and the release has {study.m}; give m = 1, or leave "
                "it out"
            )
        if "predictive" not in model.offers_knowing(columns, 1, df):
            raise ValueError(
                f'{said} is not offered for kind = "{model.kind}"{of_kept_columns(model)}; leave '
                "it out"
            )
    if section.held_out is not None and study.release.files is not None:
        raise ValueError(
            "[membership] held_out makes a release of its own, without the records held out, and "
            "[release] files have been made; give others, or leave held_out out"
        )


def _check_full_table(study: Contents) -> None:
    """Every value is listed by latent classes of categories alone."""
    if study.full_table is None:
        return
    if not isinstance(study.model, DPMPMSection):
        raise ValueError(
            f'[full_table] is for kind = "DPMPM", not "{study.model.kind}"; leave it out'
        )
    if study.reweight is not None:
        raise ValueError("[full_table] is not offered beside [reweight]; leave out one of them")


def _check_bounds(study: Contents) -> None:
    """There is something to measure at the ends of the scale, and patterns stay."""
    section, columns = study.bounds, study.synthesized
    if section is None:
        return
    asked = (study.identification, study.utility, study.context)
    compared = study.compare is not None and study.compare.bounds
    if all(part is None for part in asked) and not compared:
        raise ValueError(
            "[bounds] measures at both ends of the scale what [identification], [utility] and "
            "[context] measure of the release; add one of them"
        )
    if columns is None:
        return
    for name in section.patterns or []:
        if name in columns:
            raise ValueError(
                f"[bounds] patterns names {name!r}, which is synthesised; leave it out"
            )
    for name in section.numbers or []:
        if name not in columns:
            raise ValueError(unknown(name, "[bounds] numbers", columns))


def _check_thresholds(study: Contents) -> None:
    """What is judged only when asked for is measured."""
    wanted, given = study.thresholds, study.membership
    for key in ("membership_auc", "membership_log_bayes_factor"):
        if getattr(wanted, key) is not None and given is None:
            raise ValueError(f"[thresholds] {key} needs a section [membership]; add it")
    if wanted.membership_auc is not None and given is not None:
        if given.held_out is None and given.others is None:
            raise ValueError(
                "[thresholds] membership_auc compares members with people outside the data; give "
                "[membership] held_out or others"
            )
    if wanted.utility and study.utility is None:
        raise ValueError("[thresholds] utility needs a section [utility]; add it")
    for name in wanted.utility:
        check_estimate(study, name, f"[thresholds] utility.{name}")


def check_estimate(study: Contents, name: str | None, where: str) -> None:
    """Measures of estimates need analyses."""
    if name in ESTIMATES and (study.utility is None or not study.utility.analyses):
        raise ValueError(
            f'{where} is of analyses; give [utility] analyses = "analyses.py:fit", or another '
            "measure"
        )


def check_guessed_columns(study: Contents) -> None:
    """What is guessed is synthesised."""
    attribute, guessed, columns = study.attribute, study.guessed, study.synthesized
    if attribute is None or guessed is None:
        return
    if columns is not None and attribute.largest not in (None, *columns):
        raise ValueError(
            f"[attribute.intruder] largest names {attribute.largest!r}, which is not "
            f"synthesised ({columns} are); give one that is"
        )
    for name in attribute.grids:
        if name not in guessed:
            raise ValueError(unknown(name, "[attribute] guesses", guessed))


def check_keys(study: Contents) -> None:
    """Keys of the matching intruder stand under what they are, known or synthesised."""
    keys, columns, model = study.identification, study.synthesized, study.model
    if keys is None:
        return
    if isinstance(model, PoissonMixtureSection):
        for name in keys.synthesized:
            _refuse_fixed(model, name, "[identification] synthesized", "put it under known")
    if columns is None:
        return
    for column in keys.synthesized:
        if column not in columns:
            raise ValueError(
                f"[identification] synthesized names {column!r}, which is not synthesised "
                f"({columns} are); put it under known"
            )
    for column in keys.known:
        if column in columns:
            raise ValueError(
                f"[identification] known names {column!r}, which is synthesised; put it under "
                "synthesized"
            )
