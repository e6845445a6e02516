"""How parameters are drawn, as far as a study file can tell: who has which, and beside what."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from .counts import PoissonMixtureSection
from .models import DPMPMSection, ModelSection, RegressionSection
from .sweep_agreement import as_toml_value
from .trees import CARTSection

if TYPE_CHECKING:
    import pandas as pd

    from .study import Study

WAYS = {  # by kind of model, the usual one first
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
    return WAYS[model.kind]


def check_parameters(study: "Study") -> None:
    """Ways to draw parameters that the model lacks, or that lack evidence beside other keys.

    Raises
    ------
    ValueError
        A sentence that names the keys, and the cure.
    """
    audits = (study.attribute, study.membership, study.full_table)
    if study.release.files is not None and not any(audits):
        return
    if study.release.parameters is not None:
        _check(study, study.release.parameters, "[release]")
    for way in study.sweep.values("parameters") if study.sweep is not None else []:
        _check(study, way, "[sweep]")


def offered(study: "Study", columns: Collection[str], df: "pd.DataFrame | None") -> tuple[str, ...]:
    """Ways to the evidence of a release with these columns synthesised, its parameters so drawn.

    Raises
    ------
    ValueError
        An estimate that is refitted in closed form by none of them.
    """
    model, way = study.model, study.release.parameters
    if way is not None and isinstance(model, CARTSection):
        drawn = "none" if way == "plug-in" else "bayesian"
        return model.model_copy(update={"bootstrap": drawn}).offers(columns, df)
    offers = model.offers(columns, df)
    if way == "plug-in" and isinstance(model, RegressionSection):
        if "exact" not in offers:
            raise ValueError(
                '[release] parameters = "plug-in" is not offered where a synthesised column is '
                'neither "normal" nor "lognormal"; leave it out'
            )
        return ("exact",)
    return offers


def _check(study: "Study", way: str, where: str) -> None:
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
