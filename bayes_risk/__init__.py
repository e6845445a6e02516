"""Bayesian estimates of the disclosure risk of synthetic microdata.

What could an intruder learn from a synthetic file: the confidential values of a person they know
(attribute risk), and which record is that person's (identification risk)? The walk:
data -> model -> posterior draws -> release -> intruder -> risk -> summary.

Names are imported when first used, so ``import bayes_risk`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import models
    from ._core.errors import (
        InputError,
        ModelError,
        TruncationWarning,
        UnreliableWeightsWarning,
    )
    from .attribute import attribute_risk
    from .combining import CombinedEstimates, combine
    from .grids import Grid, JointGrid, Levels
    from .guesses import Hamming, Listed, Neighbourhood
    from .identification import identification_risk
    from .identification_result import IdentificationRisk
    from .intruder import Intruder
    from .microdata import Microdata
    from .priors import Density, TruthFactor
    from .release import Release
    from .reporting import report
    from .results import AttributeRisk

__version__ = "0.1.0"

__all__ = [
    "AttributeRisk",
    "CombinedEstimates",
    "Density",
    "Grid",
    "Hamming",
    "IdentificationRisk",
    "InputError",
    "Intruder",
    "JointGrid",
    "Levels",
    "Listed",
    "Microdata",
    "ModelError",
    "Neighbourhood",
    "Release",
    "TruncationWarning",
    "TruthFactor",
    "UnreliableWeightsWarning",
    "attribute_risk",
    "combine",
    "identification_risk",
    "models",
    "report",
]

_ROOMS = {
    "microdata": ["Microdata"],
    "release": ["Release"],
    "intruder": ["Intruder"],
    "guesses": ["Hamming", "Listed", "Neighbourhood"],
    "priors": ["Density", "TruthFactor"],
    "grids": ["Grid", "JointGrid", "Levels"],
    "attribute": ["attribute_risk"],
    "combining": ["CombinedEstimates", "combine"],
    "identification": ["identification_risk"],
    "identification_result": ["IdentificationRisk"],
    "results": ["AttributeRisk"],
    "reporting": ["report"],
    "_core.errors": ["InputError", "ModelError", "TruncationWarning", "UnreliableWeightsWarning"],
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "models":
        return import_module(".models", __name__)
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_ROOM_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
