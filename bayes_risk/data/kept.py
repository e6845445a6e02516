"""Results on disk: NetCDF that reads back as the same object, tables and labels of pandas included.

A value is laid out as arrays and a text that says how they were put together (`packed`), never as
code. A hash of all that is written beside it, with the number of the format.
"""

import datetime as dt
import hashlib
import io
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_risk._compat import draws_object, group_names, holds_draws, taken_apart
from bayes_risk._compat import group as draws_group
from bayes_risk._core import __version__
from bayes_risk._core.checkpoint import Makers, packed, unpacked
from bayes_risk._core.errors import InputError

from .kinds import check_unpacked
from .reader import SMALL, read_in_parts

RESULT = "risk.nc"  # in the folder of a run
GROUP, AXIS = "saved", "along_"
BLOCK = 2**22  # numbers that are read at a time
FORMAT = 1  # another number: other fields, which this version cannot read

# --- values of pandas ---------------------------------------------------------------------------


def layout_of(value: Any) -> tuple[str, Any] | None:
    """Kind and content of what is no array, number, text or dataclass of ours."""
    if holds_draws(value):
        names = group_names(value)
        return "draws", {name: taken_apart(draws_group(value, name)) for name in names}
    if isinstance(value, pd.DataFrame):
        columns = [_cells(value.iloc[:, j]) for j in range(value.shape[1])]
        return "frame", [columns, value.columns, value.index]
    if isinstance(value, pd.Series):
        return "series", [_cells(value), value.index, value.name]
    if isinstance(value, pd.MultiIndex):
        levels = [value.get_level_values(k) for k in range(value.nlevels)]
        return "levels", [levels, list(value.names)]
    if isinstance(value, pd.RangeIndex):
        return "range", [value.start, value.stop, value.step, value.name]
    if isinstance(value, pd.Index):
        return "index", [_cells(value), value.name]
    if isinstance(value, pd.CategoricalDtype):
        return "category", [value.categories, bool(value.ordered)]
    if value is object:
        return "dtype", "object"
    if isinstance(value, np.dtype | pd.api.extensions.ExtensionDtype):
        if pd.api.types.pandas_dtype(str(value)) != value:
            raise TypeError("a type of columns that is not kept")
        return "dtype", str(value)
    if isinstance(value, np.ndarray):  # of text or objects
        return "array", [_cells(value.ravel()), list(value.shape), value.dtype.str]
    if isinstance(value, pd.Interval):
        return "interval", [value.left, value.right, value.closed]
    if value is pd.NaT or value is pd.NA:
        return "missing", str(value)
    if isinstance(value, pd.Timestamp):
        return "time", [value.isoformat(), value.unit]
    if isinstance(value, dt.datetime | dt.date):
        return type(value).__name__, value.isoformat()
    if isinstance(value, frozenset):
        return "set", sorted(value)
    if isinstance(value, Mapping):  # whose keys are no text
        return "items", [[k, v] for k, v in value.items()]
    return None


def _draws(content: dict[str, Any]) -> Any:
    return draws_object({name: xr.Dataset.from_dict(part) for name, part in content.items()})


def _cells(values: Any) -> list[Any]:
    """Type and values of a column: numbers as an array, others once each, and which."""
    dtype = values.dtype
    plain = np.asarray(values) if isinstance(dtype, np.dtype) else None
    if plain is not None and plain.dtype.kind in "biuf":
        return [dtype, plain]
    which, found = pd.factorize(np.asarray(values, dtype=object), use_na_sentinel=False)
    return [dtype, which.astype(np.int32), list(found)]


def _column(content: list[Any]) -> Any:
    dtype, values, *found = content
    if found:
        distinct = np.empty(len(found[0]), dtype=object)
        distinct[:] = found[0]
        return pd.Series(distinct[values], dtype=object).astype(dtype).array
    return pd.Series(values, dtype=dtype).array


def _frame(content: list[Any]) -> pd.DataFrame:
    cells, names, index = content
    columns = {j: pd.Series(_column(one), index=index) for j, one in enumerate(cells)}
    return pd.DataFrame(columns, index=index).set_axis(names, axis=1)


def _array(content: list[Any]) -> npt.NDArray[Any]:
    cells, shape, dtype = content
    return np.asarray(_column([np.dtype(object), *cells[1:]])).astype(dtype).reshape(shape)


MAKERS: Makers = {
    "frame": _frame,
    "series": lambda c: pd.Series(_column(c[0]), index=c[1], name=c[2]),
    "levels": lambda c: pd.MultiIndex.from_arrays(c[0], names=c[1]),
    "range": lambda c: pd.RangeIndex(c[0], c[1], c[2], name=c[3]),
    "index": lambda c: pd.Index(_column(c[0]), name=c[1]),
    "category": lambda c: pd.CategoricalDtype(c[0], ordered=c[1]),
    "dtype": pd.api.types.pandas_dtype,
    "array": _array,
    "interval": lambda c: pd.Interval(c[0], c[1], closed=c[2]),
    "missing": lambda c: pd.NaT if c == "NaT" else pd.NA,
    "time": lambda c: pd.Timestamp(c[0]).as_unit(c[1]),
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "set": frozenset,
    "items": dict,
    "draws": _draws,
}

# --- files --------------------------------------------------------------------------------------


def kept(value: Any) -> xr.Dataset:
    """A value as a group of a NetCDF file.

    Raises
    ------
    InputError
        A part that no file can hold: functions, distributions, values of other packages.
    """
    try:
        arrays = packed(value, layout_of)
    except TypeError:
        raise InputError(
            "the result or fit cannot be written to a file: its prior is a function or a "
            "distribution, its model has code (PyMCModel; functions of Simulator, PMM, Impossible, "
            "families), or its table has values other than text, numbers and dates; give a prior "
            "by name, fit again in the place of a file, or convert these values to text"
        ) from None
    by_type: dict[str, list[npt.NDArray[Any]]] = {}
    for array in arrays:
        by_type.setdefault(array.dtype.str, []).append(array.ravel())
    shapes = json.dumps([[array.dtype.str, *array.shape] for array in arrays])
    flat = {name: np.concatenate(parts) for name, parts in by_type.items()}
    flat = {"|u1 shapes": np.frombuffer(shapes.encode(), dtype=np.uint8), **flat}
    named = {name.strip("<>|=").replace(" ", "_"): found for name, found in flat.items()}
    how = {"format": FORMAT, "version": __version__, "sha256": _hash(named)}
    return xr.Dataset({name: (f"{AXIS}{name}", found) for name, found in named.items()}, attrs=how)


def _hash(named: Mapping[str, npt.NDArray[Any]]) -> str:
    found = hashlib.sha256()
    for name in sorted(named):
        found.update(name.encode())
        found.update(named[name].data if named[name].size else b"")
    return found.hexdigest()


def _arrays(named: Mapping[str, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """The arrays that were written, of their types one behind the other."""
    begin, arrays = dict.fromkeys(named, 0), []
    for text, *shape in json.loads(named["u1_shapes"].tobytes()):
        name, size = text.strip("<>|="), math.prod(shape)
        arrays.append(named[name][begin[name] : begin[name] + size].reshape(shape))
        begin[name] += size
    return arrays


def write_arrays(path: Path, groups: Mapping[str | None, xr.Dataset | None]) -> None:
    """Write datasets into one NetCDF file, by group; None: there is none.

    It is made in memory: HDF5 ends the process by a memory fault where a disk is full.
    """
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    content = io.BytesIO()
    with h5netcdf.File(content, "w") as file:
        for group, data in groups.items():
            if data is not None:
                numbers = [str(n) for n in data.data_vars if data[n].dtype.kind in "fiub"]
                packed = dict.fromkeys(numbers, {"zlib": True})
                data.dump_to_store(H5NetCDFStore(file, group), encoding=packed)
    path.write_bytes(content.getbuffer())


class Saved:
    """What can be written to a file of its own."""

    __slots__ = ()
    KEPT_AS: ClassVar[str]  # its name in the file

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a NetCDF file that `open_result`, `open_evidence` or `open_fit` reads.

        The file holds confidential values.

        Parameters
        ----------
        path : path
            A new file, which is its owner's alone.

        Raises
        ------
        InputError
            A file that exists, a folder that does not, a prior or model that holds a function.
        """
        return write_new(path, {**self.groups_beside(), GROUP: kept({self.KEPT_AS: self})})

    def groups_beside(self) -> dict[str | None, xr.Dataset | None]:
        """What other programs read in its file: nothing."""
        return {}


def write_new(path: str | os.PathLike[str], groups: Mapping[str | None, xr.Dataset | None]) -> Path:
    """Write a NetCDF file for its owner alone, whole or not at all; none is written over."""
    file = Path(path)
    if os.path.lexists(file):
        raise InputError(f"the file {str(file)!r} exists; give the name of a new file")
    if not file.absolute().parent.is_dir():
        raise InputError(f"{str(file)!r} has no parent folder; create {str(file.parent)!r} first")
    aside = file.with_name(f".{file.name}.partial-{os.getpid()}")
    try:
        os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        aside.unlink()
        write_arrays(aside, groups)
        aside.chmod(0o600)
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)
    return file


# What parts that no version wrote can raise, under a hash that fits
PLANTED = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, ImportError) + (
    RuntimeError,
)
AGAIN = "run the study again, or take the file from a backup"


def stored(file: Path, suffix: str) -> Iterator[Any]:
    """Names of groups, attributes and sizes of ours, then its arrays in blocks; nothing linked.

    Sizes are None where the file has no such group.
    """
    import h5py

    try:
        with h5py.File(file, "r") as opened:
            groups = [name for name in opened if _is_here(opened, name, h5py.Group)]
            if GROUP not in groups:
                yield groups, {}, None
                return
            ours = opened[GROUP]
            found = {k: ours.attrs.get(k) for k in ("format", "version", "sha256")}
            attrs = {k: None if v is None else np.asarray(v).item() for k, v in found.items()}
            names = [name for name in ours if _is_here(ours, name, h5py.Dataset)]
            arrays = {name: ours[name] for name in names if not name.startswith(AXIS)}
            sizes = {name: len(array) for name, array in arrays.items()}
            unpacked = sum(_dtype(name).itemsize * size for name, size in sizes.items())
            check_unpacked(unpacked, file, suffix)
            yield groups, attrs, sizes
            for name, array in arrays.items():
                for k in range(0, len(array), BLOCK):
                    yield name, k, array[k : k + BLOCK].astype(_dtype(name))  # truths are int8
    except InputError:
        raise
    except Exception:  # of HDF5, by kind of damage
        raise InputError(f"{str(file)!r} is damaged, or no NetCDF file; {AGAIN}") from None


def _dtype(name: str) -> np.dtype[Any]:
    """Of the numbers of an array, which its name begins with."""
    return np.dtype("".join(re.findall("^[biuf][0-9]+", name)))  # TypeError: of none


def _is_here(group: Any, name: str, kind: Any) -> bool:
    """Whether a part is of a kind; it is in the file itself, no link, and in one row."""
    import h5py

    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise ValueError
    part = group[name]
    if isinstance(part, h5py.Dataset) and (part.external or part.is_virtual or part.ndim != 1):
        raise ValueError
    return isinstance(part, kind)


def read_kept(path: str | os.PathLike[str]) -> Any:
    """The value of a file, or of ``risk.nc`` in the folder of a run.

    Raises
    ------
    InputError
        No such file; a file of another format, without what is needed, or damaged.
    """
    file = Path(path)
    file = file / RESULT if file.is_dir() else file
    if not file.is_file():
        raise InputError(f"there is no file {str(file)!r}; give a run's folder, or its risk.nc")
    parts = read_in_parts(file, ".nc", keep=file.stat().st_size <= SMALL)
    groups, attrs, sizes = next(parts)
    named = {name: np.empty(size, _dtype(name)) for name, size in (sizes or {}).items()}
    for name, begin, values in parts:
        named[name][begin : begin + len(values)] = values
    if sizes is None:
        raise InputError(
            f"{str(file)!r} holds {' and '.join(groups) or 'no result'} without the guessed "
            "values, from which alone a result can be read back; run the study again with [output] "
            "confidential = true, or save the evidence: evidence.save(path)"
        )
    number, version = attrs.get("format"), attrs.get("version")
    if number != FORMAT:
        raise InputError(
            f"{str(file)!r} is of format {number}, written by bayes_risk {version}; this is "
            f"{__version__}, which reads format {FORMAT}: read it with that version, or run the "
            "study again"
        )
    try:
        if _hash(named) != attrs["sha256"]:
            raise ValueError
        arrays = _arrays(named)
    except PLANTED:
        raise InputError(f"{str(file)!r} is damaged: its hash is another; {AGAIN}") from None
    try:
        return unpacked(arrays, MAKERS)
    except PLANTED:
        raise InputError(
            f"{str(file)!r} was written by bayes_risk {version}, whose results have other parts "
            f"than those of {__version__}: read it with that version, or run the study again"
        ) from None
