"""A sweep must suit the study that it varies, as far as the file alone can tell.

Every function raises ValueError with a sentence that names the keys, and the cure.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from bayes_risk._core.validate import is_number

from .keys import LARGEST, Section, misfit, sentences, told, unknown
from .models import RegressionSection
from .sections import AttributeSection
from .trees import CARTSection

if TYPE_CHECKING:
    import pandas as pd

    from .study import Study

HYPER: dict[str, tuple[str, ...]] = {  # keys of [model] that [sweep.model] may vary
    "DPMPM": ("n_classes", "concentration_prior", "level_prior", "power"),
    "Regression": ("prior", "power"),
    "CART": ("min_leaf", "bootstrap"),
    "Forest": ("n_trees", "min_leaf", "votes", "dirichlet", "chain"),
    "PoissonMixture": ("n_classes", "concentration_prior", "rate_prior", "level_prior"),
}
# evidence that is chosen where none is named, the first that is offered
UNASKED = ("exact", "predictive", "imputed", "product", "simulated", "refit")


def check_sweep(study: "Study") -> None:
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
    if (sweep.knows_records or sweep.knows_columns) and section.of_trade:
        raise ValueError(
            "[sweep] knows_records and knows_columns are not offered beside an intruder of the "
            "trade; leave them out"
        )
    _check_known_columns(study)
    check_ways(study, section)
    _check_hyper(study)


def _check_known_columns(study: "Study") -> None:
    assert study.sweep is not None
    columns = study.synthesized
    for names in study.sweep.values("knows_columns") if columns is not None else ():
        for name in names:
            if name not in (columns or []):
                raise ValueError(unknown(name, "[sweep] knows_columns", columns or []))
        if not set(columns or []) - set(names):
            raise ValueError(
                f"[sweep] knows_columns = {names} leaves nothing to guess; leave a column out"
            )


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
    study: "Study", section: AttributeSection, df: "pd.DataFrame | None" = None
) -> Iterator[Way]:
    """Every way to the evidence that the audit takes, and the sweep around it."""
    sweep, model, columns = study.sweep, study.model, study.made(df)
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


def check_ways(study: "Study", section: AttributeSection, df: "pd.DataFrame | None" = None) -> None:
    """Each intruder has the evidence that is asked for."""
    for way in ways_of(study, section, df) if not section.of_trade else ():
        if (way.asked is None and way.offers) or way.asked in way.offers:
            continue
        asked = "" if way.asked is None else f'evidence = "{way.asked}" '
        right = " or ".join(f'"{offer}"' for offer in way.offers)
        cure = f"give {right}, or leave evidence out" if way.offers else "leave it out"
        raise ValueError(
            f'[sweep] {asked}for {way.said} is not offered by kind = "{study.model.kind}"; {cure}'
        )


def as_toml_value(value: Any) -> str:
    """A value as the file has it; lists of labels in short."""
    if isinstance(value, list):
        return "[labels]"
    return f'"{value}"' if isinstance(value, str) else f"{value}"


def _check_hyper(study: "Study") -> None:
    """Values of ``[sweep.model]`` are what the model's own keys take."""
    sweep, model = study.sweep, study.model
    if sweep is None or sweep.model is None:
        return
    known = HYPER.get(model.kind, ())
    if isinstance(model, RegressionSection) and isinstance(model.draws, dict):
        known = ()
    if isinstance(model, CARTSection) and model.models is not None:
        known = ()
    if not known:
        brought = " with draws brought from elsewhere" * isinstance(model, RegressionSection)
        brought += " with the trees of models" * isinstance(model, CARTSection)
        raise ValueError(
            f'[sweep.model] is not offered for kind = "{model.kind}"{brought}; leave it out'
        )
    for key, values in sweep.model.items():
        if key not in known:
            raise ValueError(unknown(key, "[sweep.model]", known))
        for value in values.values() if isinstance(values, Mapping) else values:
            changed(model, key, value)


def changed(model: Any, key: str, value: Any) -> Any:
    """The section of the model with another value of one of its keys; ``power`` has no key.

    Raises
    ------
    ValueError
        A value that the key does not take.
    """
    if key == "power":
        if not is_number(value) or not 0 < value <= LARGEST:
            raise ValueError(misfit("[sweep.model] power", value, "a list of numbers above 0"))
        return model
    content = model.model_dump(exclude_unset=True) | {key: value}
    try:
        return type(model).model_validate(content)
    except ValidationError as error:
        section: type[Section] = type(model)
        raise told(sentences(error, section, content, "[sweep.model]", {})) from None
