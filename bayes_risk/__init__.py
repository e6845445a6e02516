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
    from bayes_risk import models as models
    from bayes_risk._core.errors import DisplacedRiskWarning as DisplacedRiskWarning
    from bayes_risk._core.errors import InputError as InputError
    from bayes_risk._core.errors import MemoryCeilingError as MemoryCeilingError
    from bayes_risk._core.errors import ModelError as ModelError
    from bayes_risk._core.errors import TruncationWarning as TruncationWarning
    from bayes_risk._core.errors import UnreliableWeightsWarning as UnreliableWeightsWarning
    from bayes_risk.data.impossible import Impossible as Impossible
    from bayes_risk.data.microdata import Microdata as Microdata
    from bayes_risk.data.table import read_table as read_table
    from bayes_risk.evidence.mechanism_check import MechanismCheck as MechanismCheck
    from bayes_risk.evidence.mechanism_check import check_mechanism as check_mechanism
    from bayes_risk.intruder.grids import Grid as Grid
    from bayes_risk.intruder.grids import JointGrid as JointGrid
    from bayes_risk.intruder.grids import Levels as Levels
    from bayes_risk.intruder.guesses import Hamming as Hamming
    from bayes_risk.intruder.guesses import Listed as Listed
    from bayes_risk.intruder.guesses import Neighbourhood as Neighbourhood
    from bayes_risk.intruder.intruder import Intruder as Intruder
    from bayes_risk.intruder.priors import Density as Density
    from bayes_risk.intruder.priors import Interval as Interval
    from bayes_risk.intruder.priors import Mixture as Mixture
    from bayes_risk.intruder.priors import TruthFactor as TruthFactor
    from bayes_risk.matching.exposure import exposure as exposure
    from bayes_risk.matching.exposure_result import Exposure as Exposure
    from bayes_risk.matching.file_risk import FileRisk as FileRisk
    from bayes_risk.matching.file_risk import (
        identification_risk_of_files as identification_risk_of_files,
    )
    from bayes_risk.matching.population import Population as Population
    from bayes_risk.matching.radii import SD as SD
    from bayes_risk.matching.radii import Absolute as Absolute
    from bayes_risk.matching.radii import Quantile as Quantile
    from bayes_risk.matching.radii import Relative as Relative
    from bayes_risk.matching.replicates import replicates as replicates
    from bayes_risk.matching.result import IdentificationRisk as IdentificationRisk
    from bayes_risk.matching.risk import identification_risk as identification_risk
    from bayes_risk.matching.uniqueness import Uniqueness as Uniqueness
    from bayes_risk.matching.uniqueness import uniqueness as uniqueness
    from bayes_risk.release.release import Release as Release
    from bayes_risk.release.synthpop import SynthpopRelease as SynthpopRelease
    from bayes_risk.release.synthpop import read_synthpop as read_synthpop
    from bayes_risk.reporting.redaction import Redacted as Redacted
    from bayes_risk.reporting.redaction import redact as redact
    from bayes_risk.reporting.report import report as report
    from bayes_risk.risk.attribute import AttributeEvidence as AttributeEvidence
    from bayes_risk.risk.attribute import attribute_evidence as attribute_evidence
    from bayes_risk.risk.attribute import attribute_risk as attribute_risk
    from bayes_risk.risk.dominance_rules import dominance as dominance
    from bayes_risk.risk.explanation import Explanation as Explanation
    from bayes_risk.risk.full_table.likeliest import Likeliest as Likeliest
    from bayes_risk.risk.full_table.likeliest import likeliest as likeliest
    from bayes_risk.risk.full_table.risk import FullTableRisk as FullTableRisk
    from bayes_risk.risk.full_table.risk import full_table_risk as full_table_risk
    from bayes_risk.risk.membership.audit import Membership as Membership
    from bayes_risk.risk.membership.audit import membership as membership
    from bayes_risk.risk.privacy_loss import PrivacyLoss as PrivacyLoss
    from bayes_risk.risk.privacy_loss import privacy_loss as privacy_loss
    from bayes_risk.risk.result import AttributeRisk as AttributeRisk
    from bayes_risk.studies.compare import Candidate as Candidate
    from bayes_risk.studies.compare import compare as compare
    from bayes_risk.studies.comparison import Comparison as Comparison
    from bayes_risk.studies.first_study import study_of as study_of
    from bayes_risk.studies.identification_sweep import IdentificationSweep as IdentificationSweep
    from bayes_risk.studies.identification_sweep import identification_sweep as identification_sweep
    from bayes_risk.studies.reweighting import LinearWeights as LinearWeights
    from bayes_risk.studies.reweighting import Reweighting as Reweighting
    from bayes_risk.studies.reweighting import reweight as reweight
    from bayes_risk.studies.sensitivity import Sensitivity as Sensitivity
    from bayes_risk.studies.sensitivity import sensitivity as sensitivity
    from bayes_risk.utilities.bounds import ReleaseBounds as ReleaseBounds
    from bayes_risk.utilities.bounds import release_bounds as release_bounds
    from bayes_risk.utilities.combining import CombinedEstimates as CombinedEstimates
    from bayes_risk.utilities.combining import combine as combine
    from bayes_risk.utilities.context import context_measures as context_measures
    from bayes_risk.utilities.context_result import ContextMeasures as ContextMeasures
    from bayes_risk.utilities.result import Utility as Utility
    from bayes_risk.utilities.result import utility as utility

_LAZY_IMPORTS = {
    "data.microdata": ["Microdata"],
    "release.release": ["Release"],
    "data.impossible": ["Impossible"],
    "intruder.intruder": ["Intruder"],
    "intruder.guesses": ["Hamming", "Listed", "Neighbourhood"],
    "intruder.priors": ["Density", "Interval", "Mixture", "TruthFactor"],
    "risk.explanation": ["Explanation"],
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
    "studies.first_study": ["study_of"],
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
__all__ = sorted([*_MODULE_OF, "models"])


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
