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
        MemoryCeilingError,
        ModelError,
        RiskRoseWarning,
        TruncationWarning,
        UnreliableWeightsWarning,
    )
    from .attribute import attribute_evidence, attribute_risk
    from .combining import CombinedEstimates, combine
    from .comparing.candidates import Candidate
    from .comparing.result import Comparison
    from .comparing.run import compare
    from .dominance_rules import dominance
    from .exposure_counts import exposure
    from .exposure_result import Exposure
    from .full_table.likeliest import likeliest
    from .full_table.likeliest_result import Likeliest
    from .full_table.result import FullTableRisk
    from .full_table.risk import full_table_risk
    from .grids import Grid, JointGrid, Levels
    from .guesses import Hamming, Listed, Neighbourhood
    from .identification.file_risk import FileRisk
    from .identification.files import identification_risk_of_files
    from .identification.radii import SD, Absolute, Quantile, Relative
    from .identification.replicates import replicates
    from .identification.result import IdentificationRisk
    from .identification.risk import identification_risk
    from .identification.sweep import IdentificationSweep, identification_sweep
    from .impossible import Impossible
    from .intruder import Intruder
    from .kept_evidence import AttributeEvidence
    from .losses.loss import privacy_loss
    from .losses.result import PrivacyLoss
    from .mechanism_check import check_mechanism
    from .mechanism_result import MechanismCheck
    from .memberships.audit import membership
    from .memberships.result import Membership
    from .microdata import Microdata
    from .population.population import Population
    from .population.uniqueness import uniqueness
    from .population.uniqueness_result import Uniqueness
    from .priors import Density, Interval, Mixture, TruthFactor
    from .redaction.redact import Redacted, redact
    from .release import Release
    from .reporting import report
    from .results import AttributeRisk
    from .reweighting import LinearWeights, reweight
    from .reweighting_result import Reweighting
    from .sweeping.result import Sensitivity
    from .sweeping.run import sensitivity
    from .tables.synthpop import SynthpopRelease, read_synthpop
    from .tables.table import read_table
    from .utilities.assess import utility
    from .utilities.bounds import ReleaseBounds, release_bounds
    from .utilities.context import context_measures
    from .utilities.context_result import ContextMeasures
    from .utilities.result import Utility

__version__ = "0.1.0"

__all__ = [
    "SD",
    "Absolute",
    "AttributeEvidence",
    "AttributeRisk",
    "Candidate",
    "CombinedEstimates",
    "Comparison",
    "ContextMeasures",
    "Density",
    "Exposure",
    "FileRisk",
    "FullTableRisk",
    "Grid",
    "Hamming",
    "IdentificationRisk",
    "IdentificationSweep",
    "Impossible",
    "InputError",
    "Interval",
    "Intruder",
    "JointGrid",
    "Levels",
    "Likeliest",
    "LinearWeights",
    "Listed",
    "MechanismCheck",
    "Membership",
    "MemoryCeilingError",
    "Microdata",
    "Mixture",
    "ModelError",
    "Neighbourhood",
    "Population",
    "PrivacyLoss",
    "Quantile",
    "Redacted",
    "Relative",
    "Release",
    "ReleaseBounds",
    "Reweighting",
    "RiskRoseWarning",
    "Sensitivity",
    "SynthpopRelease",
    "TruncationWarning",
    "TruthFactor",
    "Uniqueness",
    "UnreliableWeightsWarning",
    "Utility",
    "attribute_evidence",
    "attribute_risk",
    "check_mechanism",
    "combine",
    "compare",
    "context_measures",
    "dominance",
    "exposure",
    "full_table_risk",
    "identification_risk",
    "identification_risk_of_files",
    "identification_sweep",
    "likeliest",
    "membership",
    "models",
    "privacy_loss",
    "read_synthpop",
    "read_table",
    "redact",
    "release_bounds",
    "replicates",
    "report",
    "reweight",
    "sensitivity",
    "uniqueness",
    "utility",
]

_ROOMS = {
    "microdata": ["Microdata"],
    "release": ["Release"],
    "impossible": ["Impossible"],
    "intruder": ["Intruder"],
    "guesses": ["Hamming", "Listed", "Neighbourhood"],
    "priors": ["Density", "Interval", "Mixture", "TruthFactor"],
    "full_table.likeliest": ["likeliest"],
    "full_table.likeliest_result": ["Likeliest"],
    "full_table.result": ["FullTableRisk"],
    "full_table.risk": ["full_table_risk"],
    "grids": ["Grid", "JointGrid", "Levels"],
    "attribute": ["attribute_evidence", "attribute_risk"],
    "kept_evidence": ["AttributeEvidence"],
    "mechanism_check": ["check_mechanism"],
    "mechanism_result": ["MechanismCheck"],
    "memberships.audit": ["membership"],
    "memberships.result": ["Membership"],
    "losses.loss": ["privacy_loss"],
    "losses.result": ["PrivacyLoss"],
    "combining": ["CombinedEstimates", "combine"],
    "comparing.candidates": ["Candidate"],
    "comparing.result": ["Comparison"],
    "comparing.run": ["compare"],
    "dominance_rules": ["dominance"],
    "exposure_counts": ["exposure"],
    "exposure_result": ["Exposure"],
    "identification.risk": ["identification_risk"],
    "identification.files": ["identification_risk_of_files"],
    "identification.file_risk": ["FileRisk"],
    "identification.result": ["IdentificationRisk"],
    "identification.sweep": ["IdentificationSweep", "identification_sweep"],
    "population.population": ["Population"],
    "identification.radii": ["SD", "Absolute", "Quantile", "Relative"],
    "identification.replicates": ["replicates"],
    "redaction.redact": ["Redacted", "redact"],
    "results": ["AttributeRisk"],
    "sweeping.result": ["Sensitivity"],
    "sweeping.run": ["sensitivity"],
    "tables.synthpop": ["SynthpopRelease", "read_synthpop"],
    "tables.table": ["read_table"],
    "reweighting": ["LinearWeights", "reweight"],
    "reweighting_result": ["Reweighting"],
    "reporting": ["report"],
    "utilities.assess": ["utility"],
    "utilities.bounds": ["ReleaseBounds", "release_bounds"],
    "utilities.context": ["context_measures"],
    "utilities.context_result": ["ContextMeasures"],
    "utilities.result": ["Utility"],
    "population.uniqueness": ["uniqueness"],
    "population.uniqueness_result": ["Uniqueness"],
    "_core.errors": [
        "InputError",
        "MemoryCeilingError",
        "ModelError",
        "RiskRoseWarning",
        "TruncationWarning",
        "UnreliableWeightsWarning",
    ],
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
