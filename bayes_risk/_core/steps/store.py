"""Steps of a run on disk: NetCDF files of arrays, and a journal of them.

A file is written aside and renamed before its line goes into the journal, which only grows:
whatever stops the run leaves whole steps or none.
"""

import hashlib
import json
import os
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .private import opened, private_folder

Arrays = dict[str, npt.NDArray[Any]]
JOURNAL = "steps.jsonl"


class Store:
    """A folder of finished steps.

    Parameters
    ----------
    folder : Path
        Made if it is not there, readable by its owner alone.

    Raises
    ------
    InputError
        What lies there may be of somebody else, see `private_folder`.

    Attributes
    ----------
    found : int
        Number of steps that were there when the store was opened.
    """

    def __init__(self, folder: Path) -> None:
        private_folder(folder, "the folder of finished steps")
        self.folder = folder
        self.owner = (os.getpid(), threading.get_ident())
        last = {line["step"]: line for line in self._journal()}
        self.steps = {step: line for step, line in last.items() if line["file"] is not None}
        self.found = len(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def _journal(self) -> Iterator[dict[str, Any]]:
        """Lines that are whole: steps of torn or damaged ones are computed again."""
        try:
            with os.fdopen(opened(self.folder / JOURNAL, os.O_RDONLY), "rb") as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return
        yield from (entry for entry in map(_entry, lines) if entry is not None)

    def get(self, step: str) -> Arrays | None:
        """Arrays of a step; None where it is not there, or not what was written."""
        entry = self.steps.get(step)
        if entry is None:
            return None
        path = self.folder / entry["file"]
        if path.is_symlink() or not path.is_file() or _hash(path) != entry["sha256"]:
            warnings.warn(f"the kept step {step!r} is damaged; it is computed again", stacklevel=2)
            return None
        return _read(path)

    def put(self, step: str, arrays: Mapping[str, Any], **more: Any) -> None:
        """Keep a step: its file first, whole, then its line in the journal."""
        path = self.folder / _file_of(step)
        aside = path.with_suffix(".tmp")
        aside.unlink(missing_ok=True)  # of a run that was killed
        try:
            _write(aside, arrays)
            sha256 = _hash(aside)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
        self._note({"step": step, "file": path.name, "sha256": sha256, **more})

    def drop(self, steps: Sequence[str]) -> None:
        """Forget steps that a larger one holds."""
        for step in steps:
            file = self.steps[step]["file"]
            del self.steps[step]
            self._append({"step": step, "file": None})
            (self.folder / file).unlink(missing_ok=True)

    def below(self, step: str) -> list[str]:
        """Steps within a step."""
        inside = f"{step}/"
        return [s for s in self.steps if s.startswith(inside)]

    def _note(self, entry: dict[str, Any]) -> None:
        self._append(entry)
        self.steps[entry["step"]] = entry

    def _append(self, entry: Mapping[str, Any]) -> None:
        line = json.dumps(entry) + "\n"
        handle = opened(self.folder / JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            if file.tell() and not _ends_whole(self.folder / JOURNAL):
                file.write("\n")
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


def _file_of(step: str) -> str:
    return f"{hashlib.sha256(step.encode()).hexdigest()[:24]}.nc"


def _entry(line: bytes) -> dict[str, Any] | None:
    """What a line of the journal says; None where it is torn or damaged."""
    try:
        entry: dict[str, Any] = json.loads(line)
        step, file = entry["step"], entry["file"]
        whole = file is None or (file == _file_of(step) and isinstance(entry["sha256"], str))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return entry if whole and isinstance(step, str) else None


def _write(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    import h5netcdf

    with h5netcdf.File(path, "w") as file:
        for k, (name, array) in enumerate(arrays.items()):
            dims = tuple(f"d{k}_{axis}" for axis in range(array.ndim))
            for dim, size in zip(dims, array.shape, strict=True):
                file.dimensions[dim] = size
            stored = array.view(np.int8) if array.dtype.kind == "b" else array
            held = file.create_variable(f"v{k}", dims, data=stored)
            held.attrs["name"], held.attrs["dtype"] = name, array.dtype.str
    path.chmod(0o600)
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _read(path: Path) -> Arrays:
    import h5netcdf

    found: Arrays = {}
    with h5netcdf.File(path, "r") as file:
        for held in file.variables.values():
            if "name" in held.attrs:
                array = np.asarray(held[...])
                dtype = np.dtype(held.attrs["dtype"])
                found[held.attrs["name"]] = array.view(bool) if dtype.kind == "b" else array
    return found


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
