"""Synthesisers: one file each, found by the entry-point group ``bayes_risk.models``.

A model of another package joins by an entry point in that group and is then
``bayes_risk.models.<name>``. Nothing is imported before it is asked for.
"""

if __name__ == "models":
    raise ImportError("import this package as 'bayes_risk.models', not 'models'")

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayes_risk.models.regression.families import Binomial as Binomial
    from bayes_risk.models.regression.families import RegressionPrior as RegressionPrior

    from .chain import Chain as Chain
    from .marginals import Marginals as Marginals
    from .mixture.dpmpm import DPMPM as DPMPM
    from .mixture.mixture import Mixture as Mixture
    from .mixture.poisson_mixture import PoissonMixture as PoissonMixture
    from .nested.nested import NestedDPMPM as NestedDPMPM
    from .pmm.pmm import PMM as PMM
    from .pymc.pymc_model import PyMCModel as PyMCModel
    from .regression.regression import Regression as Regression
    from .simulator.simulator import Simulator as Simulator
    from .trees.cart import CART as CART
    from .trees.forest import Forest as Forest
    from .trees.forest import search_orders as search_orders

GROUP = "bayes_risk.models"
BUILT_IN = {  # for a checkout that is not installed
    "CART": "bayes_risk.models.trees.cart:CART",
    "Chain": "bayes_risk.models.chain:Chain",
    "DPMPM": "bayes_risk.models.mixture.dpmpm:DPMPM",
    "Forest": "bayes_risk.models.trees.forest:Forest",
    "Marginals": "bayes_risk.models.marginals:Marginals",
    "Mixture": "bayes_risk.models.mixture.mixture:Mixture",
    "NestedDPMPM": "bayes_risk.models.nested.nested:NestedDPMPM",
    "PMM": "bayes_risk.models.pmm.pmm:PMM",
    "PoissonMixture": "bayes_risk.models.mixture.poisson_mixture:PoissonMixture",
    "PyMCModel": "bayes_risk.models.pymc.pymc_model:PyMCModel",
    "Regression": "bayes_risk.models.regression.regression:Regression",
    "Simulator": "bayes_risk.models.simulator.simulator:Simulator",
}
PARTS = {  # of declarations
    "Binomial": "bayes_risk.models.regression.families:Binomial",
    "RegressionPrior": "bayes_risk.models.regression.families:RegressionPrior",
    "search_orders": "bayes_risk.models.trees.forest:search_orders",
}

__all__ = sorted(BUILT_IN | PARTS)


def _registered() -> dict[str, str]:
    """Where each model is: name to ``module:attribute``."""
    from importlib.metadata import entry_points

    places = dict(BUILT_IN)
    for entry in entry_points(group=GROUP):
        if entry.name in BUILT_IN and entry.value.startswith(f"{GROUP}."):
            continue  # ours, perhaps of another version that is installed beside this checkout
        if places.setdefault(entry.name, entry.value) != entry.value:
            raise ImportError(
                f"two packages register a model named {entry.name!r}: {places[entry.name]} and "
                f"{entry.value}; uninstall one, or import the model from its own module"
            )
    return places


def registered() -> list[str]:
    """Names of all models, those of other packages too."""
    return list(_registered())


def __getattr__(name: str) -> Any:
    if name == "forest":
        raise AttributeError("br.models.forest.search_orders is br.models.search_orders now")
    if name.startswith("_") or name not in (places := PARTS | _registered()):
        raise AttributeError(f"module {__name__!r} has no model {name!r}")
    module, _, attribute = places[name].partition(":")
    model = getattr(import_module(module), attribute)
    if module.startswith("bayes_risk."):
        model = import_module("bayes_risk._core.arguments").public(model)
    globals()[name] = model
    return model


def __dir__() -> list[str]:
    return sorted(PARTS | _registered())
