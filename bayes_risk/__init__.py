"""Bayesian estimates of the disclosure risk of synthetic microdata.

What could an intruder learn from a synthetic file: the confidential values of a person they know
(attribute risk), and which record is that person's (identification risk)? The walk:
data -> model -> posterior draws -> release -> intruder -> risk -> summary.

Names are imported when first used, so ``import bayes_risk`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bayes_risk._core import __version__ as __version__

if TYPE_CHECKING:
    from bayes_risk import models
    from bayes_risk._core.errors import (
        DisplacedRiskWarning,
        InputError,
        MemoryCeilingError,
        ModelError,
        TruncationWarning,
        UnreliableWeightsWarning,
    )
    from bayes_risk.data.impossible import Impossible
    from bayes_risk.data.microdata import Microdata
    from bayes_risk.data.table import read_table
    from bayes_risk.evidence.mechanism_check import MechanismCheck, check_mechanism
    from bayes_risk.intruder.grids import Grid, JointGrid, Levels
    from bayes_risk.intruder.guesses import Hamming, Listed, Neighbourhood
    from bayes_risk.intruder.intruder import Intruder
    from bayes_risk.intruder.priors import Density, Interval, Mixture, TruthFactor
    from bayes_risk.matching.exposure import exposure
    from bayes_risk.matching.exposure_result import Exposure
    from bayes_risk.matching.file_risk import FileRisk, identification_risk_of_files
    from bayes_risk.matching.population import Population
    from bayes_risk.matching.radii import SD, Absolute, Quantile, Relative
    from bayes_risk.matching.replicates import replicates
    from bayes_risk.matching.result import IdentificationRisk
    from bayes_risk.matching.risk import identification_risk
    from bayes_risk.matching.uniqueness import Uniqueness, uniqueness
    from bayes_risk.release.release import Release
    from bayes_risk.release.synthpop import SynthpopRelease, read_synthpop
    from bayes_risk.reporting.redaction import Redacted, redact
    from bayes_risk.reporting.report import report
    from bayes_risk.risk.attribute import AttributeEvidence, attribute_evidence, attribute_risk
    from bayes_risk.risk.dominance_rules import dominance
    from bayes_risk.risk.full_table.likeliest import Likeliest, likeliest
    from bayes_risk.risk.full_table.risk import FullTableRisk, full_table_risk
    from bayes_risk.risk.membership.audit import Membership, membership
    from bayes_risk.risk.privacy_loss import PrivacyLoss, privacy_loss
    from bayes_risk.risk.result import AttributeRisk
    from bayes_risk.studies.compare import Candidate, compare
    from bayes_risk.studies.comparison import Comparison
    from bayes_risk.studies.identification_sweep import IdentificationSweep, identification_sweep
    from bayes_risk.studies.reweighting import LinearWeights, Reweighting, reweight
    from bayes_risk.studies.sensitivity import Sensitivity, sensitivity
    from bayes_risk.utilities.bounds import ReleaseBounds, release_bounds
    from bayes_risk.utilities.combining import CombinedEstimates, combine
    from bayes_risk.utilities.context import context_measures
    from bayes_risk.utilities.context_result import ContextMeasures
    from bayes_risk.utilities.result import Utility, utility

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
    "DisplacedRiskWarning",
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

_LAZY_IMPORTS = {
    "data.microdata": ["Microdata"],
    "release.release": ["Release"],
    "data.impossible": ["Impossible"],
    "intruder.intruder": ["Intruder"],
    "intruder.guesses": ["Hamming", "Listed", "Neighbourhood"],
    "intruder.priors": ["Density", "Interval", "Mixture", "TruthFactor"],
    "risk.full_table.likeliest": ["Likeliest", "likeliest"],
    "risk.full_table.risk": ["FullTableRisk", "full_table_risk"],
    "intruder.grids": ["Grid", "JointGrid", "Levels"],
    "risk.attribute": ["AttributeEvidence", "attribute_evidence", "attribute_risk"],
    "evidence.mechanism_check": ["MechanismCheck", "check_mechanism"],
    "risk.membership.audit": ["Membership", "membership"],
    "risk.privacy_loss": ["PrivacyLoss", "privacy_loss"],
    "utilities.combining": ["CombinedEstimates", "combine"],
    "studies.comparison": ["Comparison"],
    "studies.compare": ["Candidate", "compare"],
    "risk.dominance_rules": ["dominance"],
    "matching.exposure": ["exposure"],
    "matching.exposure_result": ["Exposure"],
    "matching.risk": ["identification_risk"],
    "matching.file_risk": ["FileRisk", "identification_risk_of_files"],
    "matching.result": ["IdentificationRisk"],
    "studies.identification_sweep": ["IdentificationSweep", "identification_sweep"],
    "matching.population": ["Population"],
    "matching.radii": ["SD", "Absolute", "Quantile", "Relative"],
    "matching.replicates": ["replicates"],
    "reporting.redaction": ["Redacted", "redact"],
    "risk.result": ["AttributeRisk"],
    "studies.sensitivity": ["Sensitivity", "sensitivity"],
    "release.synthpop": ["SynthpopRelease", "read_synthpop"],
    "data.table": ["read_table"],
    "studies.reweighting": ["LinearWeights", "Reweighting", "reweight"],
    "reporting.report": ["report"],
    "utilities.bounds": ["ReleaseBounds", "release_bounds"],
    "utilities.context": ["context_measures"],
    "utilities.context_result": ["ContextMeasures"],
    "utilities.result": ["Utility", "utility"],
    "matching.uniqueness": ["Uniqueness", "uniqueness"],
    "_core.errors": [
        "InputError",
        "MemoryCeilingError",
        "ModelError",
        "DisplacedRiskWarning",
        "TruncationWarning",
        "UnreliableWeightsWarning",
    ],
}
_RENAMED = {
    "RiskRoseWarning": "DisplacedRiskWarning",
    "plots": "reporting.plots",
    "geography": "risk.geography",
}
_MODULE_OF = {name: room for room, names in _LAZY_IMPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "models":
        return import_module(".models", __name__)
    if name in _RENAMED:
        raise AttributeError(f"bayes_risk.{name} is now bayes_risk.{_RENAMED[name]}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
