"""The evidence, and the draws of parameters, that the model of a study offers.

As far as the file can tell, or the table too. Every check raises ValueError with a sentence that
names the keys, and the cure.
"""

from collections.abc import Collection, Iterator
from itertools import product
from typing import Any, NamedTuple

import pandas as pd

from .contents import Contents
from .keys import as_toml_value
from .models import (
    CARTSection,
    DPMPMSection,
    ModelSection,
    PMMSection,
    PoissonMixtureSection,
    RegressionSection,
)
from .sections import AttributeSection

# evidence that is chosen where none is named, the first that is offered
UNASKED = ("exact", "predictive", "imputed", "independent-releases", "monte-carlo", "refit")

PARAMETERS = {  # how they are drawn, by kind of model, the usual way first
    "DPMPM": ("one-mode", "independent", "shared"),
    "PoissonMixture": ("independent", "one-mode", "shared"),
    "Regression": ("independent", "shared", "plug-in"),
    "PyMCModel": ("independent", "shared"),
    "CART": ("independent", "shared", "plug-in"),
    "Forest": ("plug-in",),
    "PMM": ("plug-in",),
}


def ways_to_draw(model: ModelSection) -> tuple[str, ...]:
    """How the parameters of a model may be drawn, the usual way first."""
    if isinstance(model, PoissonMixtureSection) and model.deals:
        return "independent", "one-mode"
    if isinstance(model, DPMPMSection) and model.impossible is not None:
        return "independent", "shared"
    if isinstance(model, CARTSection) and not (model.models is None and model.floor is None):
        return ("plug-in",)
    if isinstance(model, CARTSection) and model.bootstrap == "none":
        return "plug-in", "independent", "shared"
    return PARAMETERS[model.kind]


def check_parameters(study: Contents) -> None:
    """Ways to draw parameters are the model's, and have evidence beside the other keys."""
    audits = (study.attribute, study.membership, study.full_table)
    if study.release.files is not None and not any(audits):
        return
    if study.release.parameters is not None:
        _check_way(study, study.release.parameters, "[release]")
    for way in study.sweep.values("parameters") if study.sweep is not None else []:
        _check_way(study, way, "[sweep]")


def _check_way(study: Contents, way: str, where: str) -> None:
    model, said = study.model, f'{where} parameters = "{way}"'
    ways = ways_to_draw(model)
    if way not in ways:
        what = f'kind = "{model.kind}"'
        if isinstance(model, PoissonMixtureSection) and model.deals:
            what = f'synthesizer = "{model.synthesizer}"'
        raise ValueError(
            f"{said} is not offered by [model] {what}; it has {', '.join(map(as_toml_value, ways))}"
        )
    if way == "shared" and study.m > 1 and study.classes == "own":
        raise ValueError(f'{said} is not offered beside classes = "own"; leave out one of them')
    less = study.attribute is not None and study.attribute.knows_less
    together = way == "plug-in" or (way == "shared" and study.m > 1)
    if less and together and model.kind != "CART":
        raise ValueError(
            f"{said} is not offered beside [attribute.intruder] who knows less than all other "
            "records; leave out one of them"
        )


def of_its_making(model: ModelSection) -> str:
    """What of a model leaves little to offer."""
    if isinstance(model, PoissonMixtureSection) and model.deals:
        return f' with synthesizer = "{model.synthesizer}"'
    if isinstance(model, RegressionSection) and isinstance(model.draws, dict):
        return " with draws brought from elsewhere"
    return ""


def of_kept_columns(model: ModelSection) -> str:
    """What of columns that stay leaves nothing to offer for who knows some records alone."""
    if isinstance(model, DPMPMSection) and model.impossible is not None:
        return " with impossible combinations beside columns that stay as they are"
    if isinstance(model, RegressionSection) and not of_its_making(model):
        return " where a column that stays as it is has a formula with a synthesised one"
    return ""


def check_evidence(study: Contents, df: pd.DataFrame | None = None) -> None:
    """The evidence asked for is offered, as far as the file, or the table too, can tell."""
    section, model = study.attribute, study.model
    if section is None or section.is_competitor:
        return
    given, offers = section.evidence, _offers(study, section, df)
    if set(offers).intersection(UNASKED if given is None else [given]):
        return
    why = of_its_making(model)
    if not why and isinstance(model, PMMSection) and model.selection == "hidden":
        why = ' with selection = "hidden"'
    elif not why and section.knows_less:
        why = f" for this intruder and m = {study.m}"
    elif not why and isinstance(model, RegressionSection):
        why = ' where a synthesised column is neither "normal" nor "lognormal"'
    said = "left to the library" if given is None else f'evidence = "{given}"'
    raise ValueError(
        f'[attribute] {said} is not offered by kind = "{model.kind}"{why}; '
        "give evidence = " + " or ".join(f'"{offer}"' for offer in offers)
    )


def _offers(study: Contents, section: AttributeSection, df: pd.DataFrame | None) -> tuple[str, ...]:
    """Ways to the evidence for the intruder of the study."""
    columns, model = study.synthesized_in(df), study.model
    if section.intruder is None or not section.knows_less:
        return _offers_as_drawn(study, columns, df)
    offers = model.offers_knowing(columns, study.m, df)
    if not offers:
        raise ValueError(
            f'{section.intruder.said} is not offered by kind = "{model.kind}"'
            f'{of_its_making(model)}{of_kept_columns(model)}; give "all-but-target", or kind = '
            '"DPMPM", "Regression", "PoissonMixture" (synthesizer = "MP") or "CART"'
        )
    return offers


def _offers_as_drawn(
    study: Contents, columns: Collection[str], df: pd.DataFrame | None
) -> tuple[str, ...]:
    """Ways to the evidence of a release, its parameters drawn as the study says."""
    model, way = study.model, study.release.parameters
    if way is not None and isinstance(model, CARTSection):
        drawn = "none" if way == "plug-in" else "bayesian"
        return model.model_copy(update={"bootstrap": drawn}).offers(columns, df)
    offers = model.offers(columns, df)
    if way != "plug-in" or not isinstance(model, RegressionSection):
        return offers
    if "exact" not in offers:
        raise ValueError(
            '[release] parameters = "plug-in" is not offered where a synthesised column is '
            'neither "normal" nor "lognormal"; leave it out'
        )
    return ("exact",)


class Way(NamedTuple):
    """How the evidence of m data sets is computed for an intruder; ``asked`` None: unasked."""

    knows: Any
    m: int
    offers: tuple[str, ...]
    asked: str | None

    @property
    def chosen(self) -> str | None:
        """What is asked for, or the first that needs no asking."""
        usual = [way for way in UNASKED if way in self.offers]
        return self.asked if self.asked is not None or not usual else usual[0]

    @property
    def said(self) -> str:
        """Of whom, and of what."""
        return f"knows_records = {as_toml_value(self.knows)} and m = {self.m}"


def ways_of(
    study: Contents, section: AttributeSection, df: pd.DataFrame | None = None
) -> Iterator[Way]:
    """Every way to the evidence that the audit takes, and the sweep around it."""
    sweep, model, columns = study.sweep, study.model, study.synthesized_in(df)
    own = section.intruder.knows_records if section.intruder is not None else "all-but-target"
    known = [own, *(sweep.values("knows_records") if sweep is not None else ())]
    sizes = [study.m, *((sweep.m or []) if sweep is not None else ())]
    asked = [section.evidence, *(sweep.values("evidence") if sweep is not None else ())]
    crossed = sweep is not None and sweep.combinations
    for knows, m, way in product(known, sizes, asked):
        if not crossed and sum([knows != own, m != study.m, way != section.evidence]) > 1:
            continue
        worst = knows == "all-but-target"
        offers = model.offers(columns, df) if worst else model.offers_knowing(columns, m, df)
        yield Way(knows, m, offers, way)


def check_ways(study: Contents, df: pd.DataFrame | None = None) -> None:
    """Each intruder of a sweep has the evidence that is asked for."""
    section = study.attribute
    if study.sweep is None or section is None or section.is_competitor:
        return
    for way in ways_of(study, section, df):
        if (way.asked is None and way.offers) or way.asked in way.offers:
            continue
        asked = "" if way.asked is None else f'evidence = "{way.asked}" '
        right = " or ".join(f'"{offer}"' for offer in way.offers)
        cure = f"give {right}, or leave evidence out" if way.offers else "leave it out"
        raise ValueError(
            f'[sweep] {asked}for {way.said} is not offered by kind = "{study.model.kind}"; {cure}'
        )
