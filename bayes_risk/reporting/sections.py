"""Which section of the report a result makes, and in which order they stand."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from .further_sections import of_full_table, of_membership, of_privacy_loss, of_reweighting
from .matching import of_files
from .of_bounds import of_bounds
from .of_exposure import of_exposure
from .of_mechanism import of_mechanism
from .of_sweeps import of_anything, of_comparison, of_identification_sweep, of_sensitivity
from .of_uniqueness import of_uniqueness
from .of_utility import of_context, of_utility
from .tables import Section

# by name of the class, so that no result is imported that nobody has
SECTIONS: dict[str, Callable[[Any], Section]] = {
    "MechanismCheck": of_mechanism,
    "Exposure": of_exposure,
    "FileRisk": of_files,
    "Uniqueness": of_uniqueness,
    "Utility": of_utility,
    "Comparison": of_comparison,
    "ContextMeasures": of_context,
    "InherentBounds": of_bounds,
    "PrivacyLoss": of_privacy_loss,
    "Membership": of_membership,
    "FullTableRisk": of_full_table,
    "Reweighting": of_reweighting,
    "Sensitivity": of_sensitivity,
    "IdentificationSweep": of_identification_sweep,
}
KINDS = ("AttributeRisk", "IdentificationRisk", *SECTIONS)


def is_result(part: Any) -> bool:
    """Whether a part makes a section."""
    if isinstance(part, type) or type(part).__module__.partition(".")[0] != "bayes_risk":
        return False
    return type(part).__name__ in KINDS or (hasattr(part, "sentence") and hasattr(part, "summary"))


def in_order(parts: Iterable[Any]) -> list[Any]:
    """The parts that there are, as the report shows them."""
    order = list(SECTIONS)
    there = [part for part in parts if part is not None]
    return sorted(there, key=lambda p: [*order, type(p).__name__].index(type(p).__name__))


def section_of(part: Any, said: Mapping[str, str] | None = None) -> Section:
    """Make the section; ``said``: another sentence than the result's own, by name of the section.

    Parameters
    ----------
    part : result
    said : mapping of section name to sentence, optional

    Returns
    -------
    Section
    """
    section = SECTIONS.get(type(part).__name__, of_anything)(part)
    sentence = (said or {}).get(section.name)
    return section if sentence is None else replace(section, sentence=sentence)
