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
    from .attribute import attribute_evidence, attribute_risk
    from .combining import CombinedEstimates, combine
    from .dominance import dominance
    from .grids import Grid, JointGrid, Levels
    from .guesses import Hamming, Listed, Neighbourhood
    from .identification.file_risk import FileRisk
    from .identification.files import identification_risk_of_files
    from .identification.radii import SD, Absolute, Quantile, Relative
    from .identification.replicates import replicates
    from .identification.result import IdentificationRisk
    from .identification.risk import identification_risk
    from .identification.sweep import IdentificationSweep, identification_sweep
    from .intruder import Intruder
    from .kept_evidence import AttributeEvidence
    from .microdata import Microdata
    from .population.population import Population
    from .population.uniqueness import uniqueness
    from .population.uniqueness_result import Uniqueness
    from .priors import Density, Interval, TruthFactor
    from .release import Release
    from .reporting import report
    from .results import AttributeRisk

__version__ = "0.1.0"

__all__ = [
    "SD",
    "Absolute",
    "AttributeEvidence",
    "AttributeRisk",
    "CombinedEstimates",
    "Density",
    "FileRisk",
    "Grid",
    "Hamming",
    "IdentificationRisk",
    "IdentificationSweep",
    "InputError",
    "Interval",
    "Intruder",
    "JointGrid",
    "Levels",
    "Listed",
    "Microdata",
    "ModelError",
    "Neighbourhood",
    "Population",
    "Quantile",
    "Relative",
    "Release",
    "TruncationWarning",
    "TruthFactor",
    "Uniqueness",
    "UnreliableWeightsWarning",
    "attribute_evidence",
    "attribute_risk",
    "combine",
    "dominance",
    "identification_risk",
    "identification_risk_of_files",
    "identification_sweep",
    "models",
    "replicates",
    "report",
    "uniqueness",
]

_ROOMS = {
    "microdata": ["Microdata"],
    "release": ["Release"],
    "intruder": ["Intruder"],
    "guesses": ["Hamming", "Listed", "Neighbourhood"],
    "priors": ["Density", "Interval", "TruthFactor"],
    "grids": ["Grid", "JointGrid", "Levels"],
    "attribute": ["attribute_evidence", "attribute_risk"],
    "kept_evidence": ["AttributeEvidence"],
    "combining": ["CombinedEstimates", "combine"],
    "dominance": ["dominance"],
    "identification.risk": ["identification_risk"],
    "identification.files": ["identification_risk_of_files"],
    "identification.file_risk": ["FileRisk"],
    "identification.result": ["IdentificationRisk"],
    "identification.sweep": ["IdentificationSweep", "identification_sweep"],
    "population.population": ["Population"],
    "identification.radii": ["SD", "Absolute", "Quantile", "Relative"],
    "identification.replicates": ["replicates"],
    "results": ["AttributeRisk"],
    "reporting": ["report"],
    "population.uniqueness": ["uniqueness"],
    "population.uniqueness_result": ["Uniqueness"],
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
