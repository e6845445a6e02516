"""Every table of a study file, where each key belongs, and ``[model]`` of its kind."""

from collections.abc import Mapping
from typing import Any

from .audits import FullTableSection, MembershipSection, ReweightSection
from .bounds import BoundsSection
from .comparing import CompareSection
from .context import ContextSection
from .identification import IdentificationSection
from .intruder import IntruderSection
from .keys import Section, misfit, read_section, told
from .models import KINDS, DPMPMSection
from .sections import AttributeSection, DataSection, OutputSection, ReleaseSection
from .sweep import SweepSection
from .thresholds import ThresholdsSection
from .utility import UtilitySection

SECTIONS: dict[str, type[Section]] = {
    "data": DataSection,
    "release": ReleaseSection,
    "attribute": AttributeSection,
    "identification": IdentificationSection,
    "utility": UtilitySection,
    "context": ContextSection,
    "bounds": BoundsSection,
    "membership": MembershipSection,
    "full_table": FullTableSection,
    "reweight": ReweightSection,
    "sweep": SweepSection,
    "compare": CompareSection,
    "thresholds": ThresholdsSection,
    "output": OutputSection,
}
# their keys repeat those of others
FURTHER = (
    *("utility", "context", "bounds", "membership", "full_table"),
    *("reweight", "sweep", "compare"),
)
HOMES = {
    f"[{name}]": list(section.model_fields)
    for name, section in SECTIONS.items()
    if name not in FURTHER
} | {
    "[model]": [key for kind in KINDS.values() for key in kind.model_fields if key != "columns"],
    "[attribute.intruder]": list(IntruderSection.model_fields),
}
SAMPLING = ("draws", "tune", "chains")


def read_model(value: Any) -> Any:
    """``[model]``, of the kind that it names."""
    if not isinstance(value, Mapping):
        return read_section(DPMPMSection, value, "[model]")
    kind = value.get("kind", "DPMPM")
    if kind not in list(KINDS):
        raise told(misfit("[model] kind", kind, " or ".join(f'"{name}"' for name in KINDS)))
    fields = KINDS[kind].model_fields
    needless = [key for key in SAMPLING if key in value and key not in fields]
    if needless:
        raise told(
            f'[model] {" and ".join(needless)}: kind = "{kind}" is fitted without sampling; leave '
            f"out {' and '.join(needless)}"
        )
    return read_section(KINDS[kind], value, "[model]", {**_other_kinds(value, kind), **HOMES})


def _other_kinds(keys: Mapping[str, Any], kind: str) -> dict[str, list[str]]:
    """Keys that this kind of model does not have, under the names of the kinds that do."""
    homes: dict[str, list[str]] = {}
    for key in keys:
        have = [f'"{name}"' for name, other in KINDS.items() if key in other.model_fields]
        if have and f'"{kind}"' not in have:
            homes.setdefault(f'kind = {" or ".join(have)}; this one is "{kind}"', []).append(key)
    return homes
