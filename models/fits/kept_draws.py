"""How what samplers draw is kept between runs: ArviZ's record, and lists of named arrays."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._compat import draws_object, group, group_names
from bayes_risk._core.steps import Arrays, Packing, kept, list_of

from .sampling import Length

ABOUT = "about"


def _taken_apart(idata: Any) -> dict[str, Any]:
    """Arrays as ``group/variable``; dimensions, text and attributes as JSON in bytes."""
    arrays, about = {}, {}
    for name_of_group in group_names(idata):
        data, text = group(idata, name_of_group), {}
        for name, held in data.variables.items():
            if held.dtype.kind in "biuf":
                arrays[f"{name_of_group}/{name}"] = held.to_numpy()
            else:
                text[str(name)] = [str(v) for v in held.to_numpy().ravel()]
        about[name_of_group] = {
            "dims": {str(name): list(held.dims) for name, held in data.variables.items()},
            "coords": [str(name) for name in data.coords],
            "text": text,
            "attrs": {k: v for k, v in data.attrs.items() if isinstance(v, str | int | float)},
        }
    return arrays | {ABOUT: np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)}


def _put_together(arrays: Arrays) -> Any:
    import xarray as xr

    groups: dict[str, Any] = {}
    for name_of_group, about in json.loads(arrays[ABOUT].tobytes()).items():
        values = {name: np.array(v) for name, v in about["text"].items()}
        values |= {n: arrays[f"{name_of_group}/{n}"] for n in about["dims"] if n not in values}
        shaped = {name: (dims, values[name]) for name, dims in about["dims"].items()}
        coords = {name: shaped.pop(name) for name in about["coords"]}
        groups[name_of_group] = xr.Dataset(shaped, coords, about["attrs"])
    return draws_object(groups)


def kept_chains(sample: Callable[[], Any], length: Length) -> Any:
    """ArviZ's record of chains of this length, kept.

    PyMC swallows Ctrl-C and returns the draws it has. That is an interruption, not a fit.
    """

    def whole() -> Any:
        idata = sample()
        sizes = group(idata, "posterior").sizes
        if (sizes["chain"], sizes["draw"]) != (length.chains, length.draws):
            raise KeyboardInterrupt
        return idata

    return kept("draws", whole, IDATA)


IDATA: Packing[Any] = Packing(_taken_apart, _put_together)
CHAINS: Packing[list[dict[str, npt.NDArray[Any]]]] = list_of(Packing(dict, dict))
