"""Sections of a study that must agree with one another, as far as the file alone can tell.

Every function raises ValueError with a sentence that names the keys, and the cure.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .counts import PoissonMixtureSection
from .keys import unknown
from .models import DPMPMSection
from .priors import PriorDensity, PriorInterval, parts_of
from .sweep_agreement import as_toml_value, ways_of
from .trees import CARTSection

if TYPE_CHECKING:
    import pandas as pd

    from .study import Study

BASELESS = ("exact", "simulated", "reuse")  # evidence that has no base fit
UNSAMPLED = ("CART", "Forest", "PMM")
WITH_MEMBERSHIP = '"DPMPM", "Regression", "PyMCModel" or "PoissonMixture" (synthesizer = "MP")'

WITH_WEIGHTS = (
    '"DPMPM", "Regression", "PyMCModel", "CART" (without smoothing) or "PoissonMixture" '
    '(synthesizer = "MP", without zeros and covariates)'
)


def priors_of(study: "Study") -> Iterator[tuple[str, Any]]:
    """Where a prior stands, and each of its parts."""
    own = None if study.attribute is None else study.attribute.prior
    given = [] if own is None else [("[attribute] prior", own)]
    if study.sweep is not None:
        given += [("[sweep] priors", prior) for prior in study.sweep.values("priors")]
    for where, prior in given:
        for part in parts_of(prior):
            yield where, part


def check_priors(study: "Study") -> None:
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
        _check_columns(study, where, prior)


def _check_base(study: "Study", where: str) -> None:
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
    if section.of_trade or study.model.kind in UNSAMPLED or study.model.offers([]) == ("exact",):
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


def _check_columns(study: "Study", where: str, prior: Any) -> None:
    """Columns that a prior names are guessed."""
    guessed = study.guessed
    if guessed is None:
        return
    if isinstance(prior, PriorInterval) and prior.column not in (None, *guessed):
        raise ValueError(
            f"{where}.column names {prior.column!r}, which is not guessed; give one of {guessed}"
        )
    for name in prior.density if isinstance(prior, PriorDensity) else ():
        if name not in guessed:
            raise ValueError(unknown(name, f"{where}.density", guessed))


def check_zeros(study: "Study") -> None:
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


def _unweighted(study: "Study") -> str | None:
    """Why the model's fit takes no record weights, in words; None: it takes them."""
    model = study.model
    if isinstance(model, PoissonMixtureSection) and not model.deals:
        keys = [key for key in ("zeros", "covariates") if getattr(model, key)]
        return f" with {keys[0]}" if keys else None
    if isinstance(model, CARTSection):
        keys = [key for key in ("smoothing", "floor", "models") if getattr(model, key) is not None]
        return f" with {keys[0]}" if keys else None
    refused = model.kind in ("Forest", "PMM") or study.of_its_making
    return study.of_its_making if refused else None


def check_reweighting(study: "Study") -> None:
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


def check_membership(study: "Study", df: "pd.DataFrame | None" = None) -> None:
    """Membership is asked of releases of whole records, made by a model with predictives."""
    section, model = study.membership, study.model
    if section is None:
        return
    if "predictive" not in model.offers(study.made(df), df):
        raise ValueError(
            f'[membership] is not offered for kind = "{model.kind}"{study.of_its_making}; give '
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
        if "predictive" not in model.offers_knowing(study.made(df), 1, df):
            raise ValueError(
                f'{said} is not offered for kind = "{model.kind}"{study.leaves}; leave it out'
            )
    if section.held_out is not None and study.release.files is not None:
        raise ValueError(
            "[membership] held_out makes a release of its own, without the records held out, and "
            "[release] files have been made; give others, or leave held_out out"
        )


def check_full_table(study: "Study") -> None:
    """Every value is listed by latent classes of categories alone."""
    if study.full_table is None:
        return
    if not isinstance(study.model, DPMPMSection):
        raise ValueError(
            f'[full_table] is for kind = "DPMPM", not "{study.model.kind}"; leave it out'
        )
    if study.reweight is not None:
        raise ValueError("[full_table] is not offered beside [reweight]; leave out one of them")
