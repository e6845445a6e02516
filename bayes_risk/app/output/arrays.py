"""The arrays of both risks as NetCDF."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

    from bayes_risk.matching.result import IdentificationRisk
    from bayes_risk.risk.result import AttributeRisk


def write_netcdf(
    path: Path,
    attribute: "AttributeRisk | None",
    identification: "IdentificationRisk | None",
    *,
    confidential: bool,
) -> None:
    """Write the arrays: groups ``attribute_risk``, ``identification_risk`` of one NetCDF file."""
    groups = {}
    if attribute is not None:
        groups["attribute_risk"] = _arrays(attribute, confidential=confidential)
    if identification is not None:
        groups["identification_risk"] = identification.dataset
    for number, (name, data) in enumerate(groups.items()):
        packed = {str(v): {"zlib": True} for v in data.data_vars if data[v].dtype.kind in "fiub"}
        mode: Literal["a", "w"] = "a" if number else "w"
        data.to_netcdf(path, mode=mode, group=name, engine="h5netcdf", encoding=packed)


def _arrays(risk: "AttributeRisk", *, confidential: bool) -> "xr.Dataset":
    """Arrays of a result; those over guesses only where their order says nothing of the truth.

    Where all targets share one grid, or a category's levels, the place of the truth is the truth.
    """
    found = risk.to_dataset(confidential=confidential)
    shared = (risk.guesses == risk.guesses[:, :1]).all(axis=1).any()
    if confidential or not (shared or np.ptp(risk.truth)):
        return found
    by_guess = [name for name, array in found.variables.items() if "guess" in array.dims]
    why = "arrays over guesses would tell the true values; [output] confidential = true keeps them"
    return found.drop_vars([*by_guess, "truth"]).assign_attrs(note=why)
