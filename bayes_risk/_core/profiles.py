"""Profiles: the distinct ways in which keys are held and shown, each with the number of records.

What a record adds to any match is settled by which key it holds and, for every key that it shows in
some release, by the set of releases that show it. So a file of any size is counted as a table of
``(key, set of releases, held or shown) -> number of records``. Tables of parts of a file add up.
Letters: ``m`` releases, ``D`` digits, ``W`` words, ``P`` profiles, ``B`` records.
Derivation: ``docs/large-files.md``.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .weights import LARGEST

Ids = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Digits = Sequence[npt.NDArray[np.integer[Any]]]

ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: spreads neighbouring codes


class Layout(NamedTuple):
    """Where the digits of a profile stand: mixed radix, in as many 64-bit words as it takes.

    Digits go from the most significant to the least: unsynthesised keys, synthesised keys, one bit
    a release (does it show the key), and whether the key is held (1) or only shown (0).

    Attributes
    ----------
    word, stride, radix : tuples of int, length D
    n_known, n_keys : int
        Number of unsynthesised keys, and of all.
    """

    word: tuple[int, ...]
    stride: tuple[int, ...]
    radix: tuple[int, ...]
    n_known: int
    n_keys: int

    @classmethod
    def of(
        cls, known: Sequence[int], synthesized: Sequence[int], m: int, *, largest: int = LARGEST
    ) -> "Layout":
        """Lay out keys with these numbers of levels; `largest` word, lower only to test."""
        radix = (*known, *synthesized, *[2] * (m + 1))
        word, size = [0], radix[0]
        for d in radix[1:]:
            full = size > largest // d
            word.append(word[-1] + full)
            size = d if full else size * d
        stride = [1] * len(radix)
        for j in range(len(radix) - 2, -1, -1):
            stride[j] = stride[j + 1] * radix[j + 1] if word[j] == word[j + 1] else 1
        return cls(tuple(word), tuple(stride), radix, len(known), len(known) + len(synthesized))

    @property
    def m(self) -> int:
        """Number of releases."""
        return len(self.radix) - self.n_keys - 1

    @property
    def n_words(self) -> int:
        """W."""
        return self.word[-1] + 1

    def digit(self, words: Ids, j: int) -> Ids:
        """Digit j of every profile, shape (P,)."""
        value: Ids = words[self.word[j]] // self.stride[j] % self.radix[j]
        return value

    def add(self, words: Ids, j: int, digit: npt.NDArray[Any]) -> None:
        """Write digit j, so far 0, into words (W, B)."""
        words[self.word[j]] += digit.astype(np.int64) * self.stride[j]

    def prefix(self, words: Ids, n: int) -> list[Ids]:
        """The first n digits, as words: equal if and only if the digits are."""
        if n == 0:
            return []
        last = self.word[n - 1]
        return [*words[:last], words[last] // self.stride[n - 1]]

    def starts(self, words: Ids, n: int) -> Ids:
        """Where, in sorted words, a run of equal first n digits begins."""
        new = np.zeros(words.shape[1], dtype=np.bool_)
        new[:1] = True
        for word in self.prefix(words, n):
            new[1:] |= word[1:] != word[:-1]
        return np.flatnonzero(new)


class Profiles(NamedTuple):
    """Distinct profiles in order: their digits, (W, P), and the records of each, (P,)."""

    words: Ids
    records: Ids


def record_profiles(
    layout: Layout, known: Digits, target: Digits, released: Sequence[Digits]
) -> Profiles:
    """Count the profiles of B records: one of the key each holds, one of every key each shows.

    Parameters
    ----------
    layout : Layout
    known : sequence of integer arrays, each of shape (B,)
        Codes of the unsynthesised keys.
    target : sequence of integer arrays, each of shape (B,)
        Codes of the genuine values of the synthesised keys.
    released : sequence of m such sequences
        The same as each release shows them.
    """
    B = len([*known, *target][0])
    base = np.zeros((layout.n_words, B), dtype=np.int64)
    for j, digit in enumerate(known):
        layout.add(base, j, digit)
    shown = [_synthesized(layout, digits, B) for digits in released]
    held = _synthesized(layout, target, B)
    rows = base + held + _bits(layout, held, shown)
    layout.add(rows, len(layout.radix) - 1, np.ones(B, dtype=np.int64))
    entries = [rows]
    for l, words in enumerate(shown):
        first = ~_any([_equal(words, other) for other in shown[:l]], B)
        entries.append((base + words + _bits(layout, words, shown))[:, first])
    return collapse(np.concatenate(entries, axis=1))


def collapse(words: Ids, count: Ids | None = None) -> Profiles:
    """Sort profiles and add up the records of equal ones; without counts each is one record."""
    if words.shape[1] == 0:
        return Profiles(words, np.zeros(0, dtype=np.int64))
    if len(words) == 1 and count is None:
        words = np.sort(words, axis=1)
        start = _starts(words)
        return Profiles(words[:, start], np.diff(start, append=words.shape[1]))
    order = np.argsort(words[0], kind="stable") if len(words) == 1 else np.lexsort(words[::-1])
    words = words[:, order]
    start = _starts(words)
    given = np.ones(words.shape[1], dtype=np.int64) if count is None else count[order]
    return Profiles(words[:, start], np.add.reduceat(given, start))


def merge(tables: Sequence[Profiles]) -> Profiles:
    """Add up tables of parts of a file."""
    if len(tables) == 1:
        return tables[0]
    words = np.concatenate([table.words for table in tables], axis=1)
    return collapse(words, np.concatenate([table.records for table in tables]))


def split(table: Profiles, layout: Layout, n_parts: int) -> list[Profiles]:
    """Deal out the cells of unsynthesised keys; matches never leave a cell."""
    code = np.zeros(table.words.shape[1], dtype=np.uint64)
    for word in layout.prefix(table.words, layout.n_known):
        code = (code ^ word.astype(np.uint64)) * ODD
    part = (code >> np.uint64(32)) % np.uint64(n_parts)
    return [
        Profiles(table.words[:, chosen], table.records[chosen])
        for chosen in (part == p for p in range(n_parts))
    ]


class Heap:
    """Tables as they come in: as few merges as a merge sort makes, and no more than it holds."""

    def __init__(self) -> None:
        self._tables: list[Profiles] = []

    def add(self, table: Profiles) -> None:
        """Take one more, and merge while the last is not much smaller than the one before."""
        self._tables.append(table)
        while len(self._tables) > 1 and 2 * _rows(self._tables[-1]) > _rows(self._tables[-2]):
            last = self._tables.pop()
            self._tables[-1] = merge([self._tables[-1], last])

    def total(self) -> Profiles:
        """The sum of all tables."""
        self._tables = [merge(self._tables)]
        return self._tables[0]


def _rows(table: Profiles) -> int:
    return len(table.records)


def _synthesized(layout: Layout, digits: Digits, B: int) -> Ids:
    words = np.zeros((layout.n_words, B), dtype=np.int64)
    for j, digit in enumerate(digits, start=layout.n_known):
        layout.add(words, j, digit)
    return words


def _bits(layout: Layout, words: Ids, shown: Sequence[Ids]) -> Ids:
    """One bit for each release that shows these keys."""
    found = np.zeros_like(words)
    for j, other in enumerate(shown, start=layout.n_keys):
        layout.add(found, j, _equal(words, other))
    return found


def _equal(words: Ids, other: Ids) -> Flags:
    same: Flags = words[0] == other[0]
    for a, b in zip(words[1:], other[1:], strict=True):
        same &= a == b
    return same


def _any(flags: Sequence[Flags], B: int) -> Flags:
    found = np.zeros(B, dtype=np.bool_)
    for flag in flags:
        found |= flag
    return found


def _starts(words: Ids) -> Ids:
    """Where, in sorted words, a new profile begins."""
    new = np.ones(words.shape[1], dtype=np.bool_)
    new[1:] = (words[:, 1:] != words[:, :-1]).any(axis=0)
    return np.flatnonzero(new)
