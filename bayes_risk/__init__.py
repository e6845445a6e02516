"""Bayesian estimates of the disclosure risk of synthetic microdata.

What could an intruder learn from a synthetic file: the confidential values of a person they know
(attribute risk), and which record is that person's (identification risk)? The walk:
data -> model -> posterior draws -> release -> intruder -> risk -> summary.

Names are imported when first used, so ``import bayes_risk`` costs next to nothing.
"""

import os
import sys

if sys.argv[:1] == ["-m"]:  # python -m bayes_risk: nothing is imported from the current folder
    sys.path[:] = [p for p in sys.path if p not in ("", os.getcwd())]

import re
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from bayes_risk._core import __version__ as __version__
from bayes_risk._core import handed

if os.environ.get("BAYES_RISK_OWN_PROCESS"):  # of a command, or of one of its workers
    import_module("._core.surroundings", __package__).read_nothing_here()
_MODULE_OF = {
    name: module
    for module, name in re.findall(
        r"^from (\.\S+) import (\w+)", Path(__file__).with_suffix(".pyi").read_text(), re.MULTILINE
    )
}
_RENAMED = {
    "RiskRoseWarning": "DisplacedRiskWarning",
    "Hamming": "Neighbourhood",
    "Mixture": "MixedPrior (the model is bayes_risk.models.Mixture)",
    "plots": "reporting.plots",
    "geography": "risk.geography",
}
__all__ = sorted({*_MODULE_OF, "models"} - {"__version__"})


def _picture(name: str, *of: Any, **how: Any) -> Any:
    return attrgetter(name)(import_module(".reporting.plots", __package__))(*of, **how)


handed.bars = lambda: import_module(".reporting.terminal", __package__).bars()
handed.presentation = lambda: import_module(".reporting.presentation", __package__)
handed.picture = _picture
handed.judge = lambda *of, **how: import_module(".reporting.verdicts.verdict", __package__).judge(
    *of, **how
)


def __getattr__(name: str) -> Any:
    if name == "models":
        return import_module(".models", __package__)
    if name in _RENAMED:
        raise AttributeError(f"bayes_risk.{name} is now bayes_risk.{_RENAMED[name]}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_MODULE_OF[name], __package__)
    value = import_module("._core.arguments", __package__).public(getattr(module, name))
    setattr(module, name, value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
