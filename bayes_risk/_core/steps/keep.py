"""Finished steps of a long run, kept on disk, so that a stopped run goes on where it was.

A step has a path of names ("attribute risk/release 2/evidence"). While a `Store` is open, `kept`
looks the step up and computes it only if it is not there; without a store it computes. A step that
is asked for in another thread or process than that which opened the store, or in a job of a worker,
is computed there and not kept: the blocks that jobs make are.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

import numpy as np

from bayes_risk._core.watch import check_memory
from bayes_risk._core.workers.job import at_work

from .store import Arrays, Store

T = TypeVar("T")
SECONDS = 5.0  # of blocks, at most, that a stop can lose


@dataclass(frozen=True, slots=True)
class Packing(Generic[T]):
    """How a result becomes arrays, and arrays the result."""

    pack: Callable[[T], Mapping[str, Any]]
    unpack: Callable[[Arrays], T]


def packing_of(cls: type[T], **fixed: Any) -> Packing[T]:
    """Packing of a dataclass of arrays and numbers; fields that are None are left out.

    ``fixed``: fields that are not kept, with what they are.
    """
    names = [f.name for f in fields(cls) if f.name not in fixed]  # type: ignore[arg-type]

    def pack(value: T) -> Mapping[str, Any]:
        return {n: v for n in names if (v := getattr(value, n)) is not None}

    def unpack(arrays: Arrays) -> T:
        found = {n: a if a.ndim else a.item() for n, a in arrays.items()}
        return cls(**dict.fromkeys(names) | found | fixed)

    return Packing(pack, unpack)


def list_of(one: Packing[T]) -> Packing[list[T]]:
    """Packing of a list."""

    def unpack(arrays: Arrays) -> list[T]:
        parts = _numbered(arrays)
        return [one.unpack(parts[k]) for k in sorted(parts)]

    return Packing(lambda values: _joined(dict(enumerate(map(one.pack, values)))), unpack)


def _joined(parts: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    return {f"{k}.{name}": a for k, part in parts.items() for name, a in part.items()}


def _numbered(arrays: Arrays) -> dict[int, Arrays]:
    parts: dict[int, Arrays] = {}
    for key, array in arrays.items():
        number, _, name = key.partition(".")
        parts.setdefault(int(number), {})[name] = array
    return parts


@dataclass(slots=True)
class _Place:
    """Where in the run we are: a path, and how often each name was used below it."""

    path: str = ""
    used: Counter[str] = field(default_factory=Counter)

    def below(self, name: str) -> "_Place":
        """The next place of this name; a name used again is numbered."""
        self.used[name] += 1
        again = f" ({self.used[name]})" if self.used[name] > 1 else ""
        return _Place(f"{self.path}/{name}{again}")


_store: ContextVar[Store | None] = ContextVar("store", default=None)
_place: ContextVar[_Place] = ContextVar("place")


@contextmanager
def keeping(store: Store | None) -> Iterator[None]:
    """Keep steps in a store."""
    held, at = _store.set(store), _place.set(_Place())
    try:
        yield
    finally:
        _place.reset(at)
        _store.reset(held)


def _open() -> Store | None:
    """The store, if it is this thread's, and this is not the job of a worker."""
    store = _store.get()
    here = (os.getpid(), threading.get_ident())
    return store if store is not None and store.owner == here and not at_work() else None


@contextmanager
def _entered(place: _Place) -> Iterator[_Place]:
    before = _place.set(place)
    try:
        yield place
    finally:
        _place.reset(before)


@contextmanager
def within(name: str) -> Iterator[None]:
    """Steps in this block lie below a name."""
    if _open() is None:
        yield
        return
    with _entered(_place.get().below(name)):
        yield


def kept(name: str, compute: Callable[[], T], packing: Packing[T]) -> T:
    """The result of a step: from the store if it is there, else computed, and kept."""
    store = _open()
    if store is None:
        return compute()
    with _entered(_place.get().below(name)) as place:
        arrays = store.get(place.path)
        if arrays is None:
            arrays = _plain(packing.pack(compute()))
            store.put(place.path, arrays)
            store.drop(store.below(place.path))
        check_memory()
    return packing.unpack(arrays)


def kept_blocks(
    name: str, n: int, run: Callable[[list[int]], Iterator[T]], packing: Packing[T]
) -> list[T]:
    """Results of n blocks; ``run(which)`` gives those of some, one after another.

    Finished blocks are written every few seconds, and when the run is stopped.
    """
    store = _open()
    if store is None:
        return list(run(list(range(n))))
    with _entered(_place.get().below(name)) as place:
        held = _blocks(store, place.path)
        todo = [b for b in range(n) if b not in held]
        fresh, since = {}, time.monotonic()
        try:
            for block, found in zip(todo, run(todo) if todo else [], strict=True):
                fresh[block] = _plain(packing.pack(found))
                check_memory()
                if time.monotonic() - since > SECONDS:
                    _flush(store, place.path, fresh)
                    held, fresh, since = held | fresh, {}, time.monotonic()
        finally:
            _flush(store, place.path, fresh)
    held |= fresh
    return [packing.unpack(held[b]) for b in range(n)]


def _flush(store: Store, step: str, blocks: Mapping[int, Arrays]) -> None:
    if blocks:
        store.put(f"{step}/from {min(blocks)}", _joined(blocks))


def _blocks(store: Store, step: str) -> dict[int, Arrays]:
    """Arrays of the blocks that are there."""
    held: dict[int, Arrays] = {}
    for part in store.below(step):
        held |= _numbered(store.get(part) or {})
    return held


class Later(Generic[T]):
    """A value computed when it is first asked for, at the place where it was declared."""

    def __init__(self, name: str, compute: Callable[[], T]) -> None:
        self._place = None if _open() is None else _place.get().below(name)
        self._compute: Callable[[], T] | None = compute
        self._value: T

    def __call__(self) -> T:
        """The value."""
        if self._compute is not None:
            if self._place is None:
                self._value = self._compute()
            else:
                with _entered(self._place):
                    self._value = self._compute()
            self._compute = None
        return self._value


def _plain(given: Mapping[str, Any]) -> Arrays:
    """Arrays in C order, as they will be read."""
    return {name: np.require(value, requirements="C") for name, value in given.items()}
