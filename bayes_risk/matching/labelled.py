"""An identification risk as a labelled dataset, which NetCDF can hold."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

if TYPE_CHECKING:
    from .result import IdentificationRisk

BY_TABLE = ("c", "T", "K", "F", "no_match", "outside")


def labelled(risk: "IdentificationRisk") -> xr.Dataset:
    """Arrays by record and release (or table drawn), and the settings as attributes."""
    what = risk.table_word
    data: dict[str, Any] = {name: (("record", what), getattr(risk, name)) for name in BY_TABLE}
    data |= {f"pooled_{name}": (("record",), getattr(risk, f"pooled_{name}")) for name in BY_TABLE}
    data |= {name: (("record",), getattr(risk, name)) for name in ("baseline", "in_file")}
    coords: dict[str, Any] = {"record": _storable(risk.index), what: np.arange(1, risk.m + 1)}
    if risk.release_of is not None:
        coords["release_of"] = ((what,), risk.release_of)
    return xr.Dataset(data, coords, _settings(risk))


def _settings(risk: "IdentificationRisk") -> dict[str, Any]:
    return {
        "known": "\n".join(map(str, risk.known)),
        "synthesized": "\n".join(map(str, risk.synthesized)),
        "radius": "\n".join(f"{name} {r!r}" for name, r in risk.radius.items()),
        "shape": risk.shape,
        "closed": int(risk.closed),
        "missing": "\n".join(f"{name} {how}" for name, how in risk.missing.items()),
        "fallback": int(risk.fallback),
        "population": risk.population,
        "estimated": int(risk.estimated),
        "strategy": str(risk.strategy),
        "reason": int(risk.reason),
        "pooled_mcse": risk.pooled_mcse,
        "pooled_draws_mcse": risk.pooled_draws_mcse,
    }


def _storable(index: pd.Index) -> npt.NDArray[Any]:
    """Record labels that NetCDF can hold: numbers as numbers, the rest as text."""
    values = index.to_numpy()
    return values if values.dtype.kind in "iuf" else np.array([str(v) for v in index], dtype=str)
