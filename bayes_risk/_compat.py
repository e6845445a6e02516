"""What differs between the versions of ArviZ and PyMC that are supported: the one place that knows.

ArviZ 1 keeps the groups of a fit in xarray's DataTree, earlier versions in their InferenceData.
PyMC 6.4 tells a step method how long its chain will be. Nobody else imports ArviZ.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array

if TYPE_CHECKING:
    import xarray as xr

DIVISION_SLASH = "\N{DIVISION SLASH}"


def arviz_is_a_tree() -> bool:
    """Whether the installed ArviZ keeps draws in a DataTree (1.0 and later)."""
    import arviz as az

    return int(az.__version__.partition(".")[0]) >= 1


def draws_object(groups: "Mapping[str, xr.Dataset]") -> Any:
    """The installed ArviZ's object with these groups: DataTree or InferenceData."""
    import arviz as az
    import xarray as xr

    if arviz_is_a_tree():
        return xr.DataTree.from_dict(dict(groups))
    by_name: dict[str, Any] = dict(groups)
    return az.InferenceData(**by_name)


def draws_of_posterior(posterior: Mapping[str, npt.NDArray[Any]]) -> Any:
    """The installed ArviZ's object of draws by name, each of shape (chains, draws, ...).

    ArviZ warns of more chains than draws.
    """
    import arviz as az

    named = {draws_name(name): values for name, values in posterior.items()}
    if arviz_is_a_tree():
        return az.from_dict({"posterior": named})
    return az.from_dict(posterior=named)


def draws_name(name: str) -> str:
    """What a variable or dimension of draws is called: trees and NetCDF take names for paths.

    A slash, as of ``x / 2``, becomes a division slash; `plain_name` has it back.
    """
    return name.replace("/", DIVISION_SLASH)


def plain_name(name: str) -> str:
    """A variable's name as it was given to `draws_name`."""
    return name.replace(DIVISION_SLASH, "/")


def group_names(draws: Any) -> list[str]:
    """Names of the groups of a DataTree or an InferenceData, with any ArviZ."""
    return [str(name) for name in (draws.children if _is_tree(draws) else draws.groups())]


def group(draws: Any, name: str) -> "xr.Dataset":
    """A group of a DataTree or an InferenceData, with any ArviZ; empty if it has none."""
    import xarray as xr

    found = draws[name] if name in group_names(draws) else xr.Dataset()
    return found.to_dataset() if isinstance(found, xr.DataTree) else found


def taken_apart(data: "xr.Dataset") -> dict[str, Any]:
    """Arrays, texts and plain attributes, as `xarray.Dataset.from_dict` reads them."""
    found: dict[str, Any] = data.to_dict(data="array")
    variables = {**found["coords"], **found["data_vars"]}
    for variable in variables.values():
        variable["attrs"] = {}
        if variable["data"].dtype.kind not in "biuf":
            variable["data"] = [str(v) for v in variable["data"]]
    plain = (str, int, float)
    found["attrs"] = {k: v for k, v in found["attrs"].items() if isinstance(v, plain)}
    return found


def add_group(draws: Any, name: str, dataset: "xr.Dataset") -> None:
    """Put a further group into a DataTree or an InferenceData."""
    import xarray as xr

    if _is_tree(draws):
        draws[name] = xr.DataTree(dataset)
    else:
        draws.add_groups({name: dataset})


def holds_draws(given: Any) -> bool:
    """Whether something is a DataTree or an InferenceData, with any ArviZ."""
    return _is_tree(given) or type(given).__name__ == "InferenceData"


def _is_tree(given: Any) -> bool:
    import xarray as xr

    return isinstance(given, xr.DataTree)


def effective_draws(values: Array) -> float:
    """ArviZ's bulk effective sample size of draws (chains, draws)."""
    import arviz as az

    return float(az.ess(values, method="bulk"))


def split_rhat(values: Array) -> float:
    """ArviZ's rank-normalised split R-hat of draws (chains, draws)."""
    import arviz as az

    return float(az.rhat(values, method="rank"))


def set_up_chain(step: Any, rng: np.random.Generator, *, tune: int, draws: int) -> None:
    """Make one of PyMC's step methods ready for a chain of so many steps."""
    if hasattr(step, "setup_chain"):  # PyMC 6.4 and later
        step.setup_chain(rng, tune, draws)
    else:
        step.set_rng(rng)
