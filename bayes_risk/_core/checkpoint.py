"""Finished stages of a long run, kept on disk, so that a stopped run goes on where it was.

A stage has a path of names ("attribute risk/evidence of fit 2"). While a `Store` is open, `stage`
looks it up and computes it only if it is not there; without a store it computes. A stage that is
asked for in another thread or process than that which opened the store, or in a job of a worker, is
computed there and not kept. Files hold arrays and how they were put together, never code: they are
written aside and renamed, so that whatever stops the run leaves whole stages or none, and each
begins with a hash of its path and content.
"""

import hashlib
import importlib
import json
import os
import stat
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from .errors import InputError
from .memory import check_memory, set_to
from .parallel import at_work

T = TypeVar("T")
CURE = "remove it, or give another output folder"
HASH = hashlib.sha256().digest_size
OWN = "bayes_risk."  # whose dataclasses are kept


# --- where a run is ---------------------------------------------------------------------------

Place = tuple[str, ...]  # names, from the run down to the stage
Key = tuple[Hashable, ...]
Memory = dict[Key, Any]  # work by its key
_store: ContextVar["Store | None"] = ContextVar("store", default=None)
_place: ContextVar[Place] = ContextVar("place")
_rehearsal: ContextVar[dict[str, Any] | None] = ContextVar("rehearsal", default=None)


@contextmanager
def keeping(store: "Store | None") -> Iterator[None]:
    """Keep stages in a store; None: nowhere."""
    with set_to(_store, store), set_to(_place, ()):
        yield


def _open() -> "Store | None":
    """The store, if it is this thread's, and this is not the job of a worker."""
    store = _store.get()
    return None if store is None or store.owner != _thread() or at_work() else store


def _thread() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


class Rehearsed(Exception):
    """Raised in a rehearsal where the work would begin."""


@contextmanager
def rehearsal() -> Iterator[dict[str, Any]]:
    """Calls in this block refuse what they would, and stop before their work, which is given."""
    work: dict[str, Any] = {}
    with set_to(_rehearsal, work), suppress(Rehearsed):
        yield work


def begin_work(**what: Any) -> None:
    """All that can be refused beforehand has been: here a rehearsal ends."""
    if (work := _rehearsal.get()) is not None:
        work.update(what)
        raise Rehearsed


@contextmanager
def within(name: str) -> Iterator[None]:
    """Stages in this block lie below a name."""
    store = _open()
    with nullcontext() if store is None else set_to(_place, store.below(_place.get(), name)):
        yield


class Stage(Generic[T]):
    """Work that is found or computed when it is first asked for, and kept.

    On disk under the name it has here; without a name, stages within it alone. What is no array,
    number, text, or tuple, list, dict or dataclass of these is not kept there. In a ``memory`` that
    several calls share, under a ``key`` of all that it depends on.
    """

    def __init__(
        self,
        name: str,
        compute: Callable[[], T],
        *,
        key: Key = (),
        memory: Memory | None = None,
    ) -> None:
        store = _open()
        self._path = None if store is None or not name else store.below(_place.get(), name)
        self._compute: Callable[[], T] | None = compute
        self._memory = memory
        self.key = key
        self._value: T

    def __call__(self) -> T:
        """The value."""
        if self._compute is not None:
            self._value, self._compute = self._found(self._compute), None
        return self._value

    def _found(self, compute: Callable[[], T]) -> T:
        store, path = _open(), self._path
        if store is None or path is None:
            return self._remembered(compute)
        with set_to(_place, path):
            try:
                value: T = store.get(path)
            except KeyError:
                value = store.put(path, self._remembered(compute))
            check_memory()
        return value

    def _remembered(self, compute: Callable[[], T]) -> T:
        if self._memory is None:
            return compute()
        if self.key not in self._memory:
            self._memory[self.key] = compute()
        found: T = self._memory[self.key]
        return found


def stage(name: str, compute: Callable[[], T]) -> T:
    """The value of a stage: from the store if it is there, else computed, and kept."""
    return Stage(name, compute)()


def in_stages(
    name: str, n: int, run: Callable[[Sequence[int]], Iterator[T]], size: int = 16
) -> list[T]:
    """Values of n items, kept so many at a time; ``run(which)`` gives those of some."""

    def some(first: int, size: int) -> list[T]:
        return list(run(range(first, min(first + size, n))))

    if _open() is None:
        return some(0, n)
    parts = [
        stage(f"{name} from {first + 1}", partial(some, first, size)) for first in range(0, n, size)
    ]
    return [value for part in parts for value in part]


# --- the folder -------------------------------------------------------------------------------


class Store:
    """A folder of finished stages, of its owner alone; ``found``: how many were there before."""

    def __init__(self, folder: Path) -> None:
        private_folder(folder, "the folder of finished steps")
        self.folder, self.owner = folder, _thread()
        self.found = len(self)
        self._used: Counter[Place] = Counter()

    def __len__(self) -> int:
        return len(list(self.folder.glob("*.npz")))

    def below(self, place: Place, name: str) -> Place:
        """The next place of this name; a name used again is numbered."""
        found = (*place, name)
        self._used[found] += 1
        return (*place, f"{name} ({times})") if (times := self._used[found]) > 1 else found

    def get(self, path: Place) -> Any:
        """Value of a stage; KeyError where it is not there, or not what was written."""
        file = self.folder / f"{_stem(path)}.npz"
        if not os.path.lexists(file):
            raise KeyError(path)
        try:
            with os.fdopen(opened(file, os.O_RDONLY), "rb") as stream:
                written = stream.read(HASH)
                if written != _hash(path, stream):
                    raise ValueError("changed")
                stream.seek(HASH)
                with np.load(stream) as arrays:
                    return unpacked([arrays[name] for name in arrays.files])
        except (InputError, ValueError, KeyError, TypeError, AttributeError, ImportError, OSError):
            what = "/".join(path)
            warnings.warn(f"the kept step {what!r} is damaged; it is computed again", stacklevel=2)
            raise KeyError(path) from None

    def put(self, path: Place, value: T) -> T:
        """Keep a stage, whole, in the place of those within it; give it as it will be read."""
        try:
            arrays = packed(value)
        except TypeError:
            return value
        stem = _stem(path)
        aside, file = self.folder / f"{stem}.tmp", self.folder / f"{stem}.npz"
        aside.unlink(missing_ok=True)  # of a run that was killed
        try:
            with os.fdopen(opened(aside, os.O_RDWR | os.O_CREAT), "w+b") as new:
                new.write(bytes(HASH))
                np.savez(new, *arrays)
                new.seek(HASH)
                written = _hash(path, new)
                new.seek(0)
                new.write(written)
                new.flush()
                os.fsync(new.fileno())
            aside.replace(file)
        finally:
            aside.unlink(missing_ok=True)
        for inner in self.folder.glob(f"{stem}-*.npz"):
            inner.unlink(missing_ok=True)
        kept: T = unpacked(arrays)
        return kept


def _stem(path: Place) -> str:
    """The name of a file; stages within a stage begin with its name."""
    return "-".join(hashlib.sha256(name.encode()).hexdigest()[:12] for name in path)


def _hash(path: Place, file: Any) -> bytes:
    """Of the path, and what follows in the file."""
    begun = hashlib.sha256(json.dumps(path).encode())
    return hashlib.file_digest(file, lambda: begun).digest()


# --- values as arrays -------------------------------------------------------------------------


Parts = Callable[[Any], tuple[str, Any] | None]  # of a value of other packages: kind and content
Makers = Mapping[str, Callable[[Any], Any]]  # by kind


def packed(value: Any, parts: Parts = lambda value: None) -> list[np.ndarray[Any, Any]]:
    """Arrays of a value in C order, the first of them how it was put together (JSON).

    An array, or value with ``parts``, that is met again is kept once.
    """
    arrays: list[np.ndarray[Any, Any]] = []
    text = json.dumps(_layout(value, arrays, parts, {}))
    return [np.frombuffer(text.encode(), dtype=np.uint8), *arrays]


def _layout(value: Any, arrays: list[Any], parts: Parts, met: dict[int, tuple[Any, Any]]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if id(value) in met:  # the value is kept beside its layout, so that its id stays its own
        return met[id(value)][1]
    inner = partial(_layout, arrays=arrays, parts=parts, met=met)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        arrays.append(np.require(value, requirements="C"))
        met[id(value)] = value, {"array": len(arrays)}
        return {"array": len(arrays)}
    if type(value) is list:
        return [inner(part) for part in value]
    if type(value) is tuple:
        return {"tuple": [inner(part) for part in value]}
    if type(value) is dict and all(isinstance(name, str) for name in value):
        return {"dict": {name: inner(part) for name, part in value.items()}}
    if (found := parts(value)) is not None:
        made = {"kind": found[0], "content": inner(found[1])}
        met[id(value)] = value, made
        return made
    own = {name: inner(getattr(value, name)) for name in _names(type(value))}
    return {"class": [type(value).__module__, type(value).__qualname__], "parts": own}


def unpacked(arrays: Sequence[np.ndarray[Any, Any]], makers: Makers | None = None) -> Any:
    """The value of these arrays."""
    return _value(json.loads(arrays[0].tobytes()), arrays, makers or {})


def _value(layout: Any, arrays: Sequence[np.ndarray[Any, Any]], makers: Makers) -> Any:
    inner = partial(_value, arrays=arrays, makers=makers)
    if isinstance(layout, list):
        return [inner(part) for part in layout]
    if not isinstance(layout, dict):
        return layout
    if "array" in layout:
        return arrays[layout["array"]]
    if "tuple" in layout:
        return tuple(inner(part) for part in layout["tuple"])
    if "dict" in layout:
        return {name: inner(part) for name, part in layout["dict"].items()}
    if "kind" in layout:
        return makers[layout["kind"]](inner(layout["content"]))
    module, name = layout["class"]
    if not module.startswith(OWN) or module.endswith("__main__"):
        raise TypeError(module)
    cls = getattr(importlib.import_module(module), name)
    make = cls.of_parts if hasattr(cls, "KEPT_PARTS") else cls
    return make(**{name: inner(layout["parts"][name]) for name in _names(cls)})


def _names(cls: Any) -> list[str]:
    """Fields of a dataclass or a named tuple of ours, or what its ``of_parts`` makes it of."""
    own = cls.__module__.startswith(OWN)
    if own and hasattr(cls, "KEPT_PARTS"):
        return list(cls.KEPT_PARTS)
    if own and is_dataclass(cls) and all(f.init for f in fields(cls)):
        return [f.name for f in fields(cls)]
    if own and issubclass(cls, tuple):
        return list(cls._fields)
    raise TypeError(f"{cls} is not kept")


# --- folders and files in which nobody else had a hand ----------------------------------------


def private_folder(folder: Path, what: str) -> None:
    """Make a folder for its owner alone, or take one that is as private as a new one would be."""
    while True:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return
        with suppress(FileNotFoundError):  # gone meanwhile
            found = folder.lstat()
            break
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}-", dir=folder.parent) as new:
        usual = os.lstat(new)
    if not stat.S_ISDIR(found.st_mode):
        why = "is not a folder" if not stat.S_ISLNK(found.st_mode) else "is a link"
    elif found.st_uid != usual.st_uid:
        why = "belongs to another user"
    elif found.st_mode & ~usual.st_mode & 0o077:
        why = "is open to others"
    else:
        return
    raise InputError(f"{what} {str(folder)!r} {why}, and is not used; {CURE}")


def opened(path: Path, flags: int) -> int:
    """Open a file of a private folder, a new one for its owner alone; no link is followed."""
    flags |= getattr(os, "O_BINARY", 0)
    try:
        found = path.lstat()
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
        return os.open(path, flags | os.O_EXCL, 0o600)  # which follows no link
    writes = flags & (os.O_WRONLY | os.O_RDWR)
    if stat.S_ISREG(found.st_mode) and not (writes and found.st_nlink > 1):
        handle = os.open(path, flags & ~os.O_CREAT)
        if os.path.samestat(found, os.fstat(handle)):
            return handle
        os.close(handle)
    raise InputError(f"{str(path)!r} is a link or no file of a run, and is not used; {CURE}")
