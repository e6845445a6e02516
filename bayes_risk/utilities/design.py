"""Predictors of the propensity score: the records of the original above those of a release."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .tables import Column

Reals = npt.NDArray[np.float64]

TOLERANCE = 1e-9  # of the eigenvalues of a correlation-like matrix, relative to the largest


class Profiles(NamedTuple):
    """Distinct rows (P) of the original and a release, and how many records of each show them."""

    values: tuple[Reals, ...]
    original: Reals
    release: Reals

    @property
    def records(self) -> Reals:
        """Records of both files, (P,)."""
        return self.original + self.release


class Block(NamedTuple):
    """Predictors made of one column, shape (P, d), and whether the column was synthesised."""

    made: bool
    values: Reals


class Design(NamedTuple):
    """Predictors (P, K), and the degrees of freedom they take.

    ``df``: rank beyond the constant and beyond what unsynthesised columns alone span, which cannot
    tell the files apart.
    """

    values: Reals
    df: int


def profiles_of(columns: Sequence[Column], l: int) -> Profiles:
    """Distinct rows of the original and release l, with their counts."""
    both = [np.concatenate([c.values[0], c.values[l]]) for c in columns]
    n = len(columns[0].values[0])
    where = np.zeros(len(both[0]), dtype=np.int64)
    for values in both:  # number of the row so far, never more than there are records
        _, code = np.unique(values, return_inverse=True)
        _, where = np.unique(where * (code.max() + 1) + code, return_inverse=True)
    _, first = np.unique(where, return_index=True)
    size = len(first)
    counts = [np.bincount(part, minlength=size).astype(float) for part in (where[:n], where[n:])]
    return Profiles(tuple(values[first] for values in both), *counts)


def blocks_of(columns: Sequence[Column], at: Profiles) -> list[Block]:
    """Dummies of categories; standardised numbers, with a dummy for missing ones."""
    return [
        Block(c.made, _numeric(v, at.records) if c.number else _dummies(v, at.records, c.size))
        for c, v in zip(columns, at.values, strict=True)
    ]


def main_effects(blocks: Sequence[Block], weights: Reals) -> Design:
    """Predictors as they are."""
    values = np.concatenate([b.values for b in blocks], axis=1)
    kept = [b.values for b in blocks if not b.made]
    return Design(values, _df(values, kept, weights))


def interactions(blocks: Sequence[Block], weights: Reals) -> Design:
    """Main effects, and products of predictors of any two columns."""
    parts, kept = [b.values for b in blocks], [b.values for b in blocks if not b.made]
    for a, b in combinations(blocks, 2):
        product = (a.values[:, :, None] * b.values[:, None, :]).reshape(len(a.values), -1)
        product = product[:, product.any(axis=0)]
        parts.append(product)
        if not (a.made or b.made):
            kept.append(product)
    values = np.concatenate(parts, axis=1)
    return Design(values, _df(values, kept, weights))


def n_interactions(blocks: Sequence[Block]) -> int:
    """How many predictors `interactions` would make at most."""
    d = np.array([b.values.shape[1] for b in blocks])
    return int(d.sum() + (d.sum() ** 2 - (d**2).sum()) // 2)


def features(columns: Sequence[Column], l: int) -> npt.NDArray[np.float32]:
    """What a tree splits on, (N, K): levels in their order, numbers, dummies for missing ones."""
    parts = []
    for column in columns:
        values = np.concatenate([column.values[0], column.values[l]])
        absent = np.isnan(values)
        parts.append(np.where(absent, np.nanmean(values), values))
        if absent.any():
            parts.append(absent.astype(float))
    return np.column_stack(parts).astype(np.float32)


def _dummies(code: Reals, records: Reals, size: int) -> Reals:
    """One for each level that somebody shows, but the commonest."""
    seen = np.bincount(code.astype(np.int64), weights=records, minlength=size)
    levels = np.flatnonzero(seen)
    levels = levels[levels != np.argmax(seen)]
    chosen: Reals = (code[:, None] == levels).astype(float)
    return chosen


def _numeric(values: Reals, records: Reals) -> Reals:
    absent = np.isnan(values)
    shown, weights = values[~absent], records[~absent]
    mean = np.average(shown, weights=weights)
    spread = np.sqrt(np.average((shown - mean) ** 2, weights=weights))
    parts = [np.where(absent, 0.0, (values - mean) / spread)] if spread > 0 else []
    parts += [absent.astype(float)] if absent.any() else []
    return np.column_stack(parts) if parts else np.empty((len(values), 0))


def _df(values: Reals, kept: Sequence[Reals], weights: Reals) -> int:
    without = _rank(np.concatenate(kept, axis=1), weights) if kept else 0
    return _rank(values, weights) - without


def _rank(values: Reals, weights: Reals) -> int:
    """Rank beyond the constant, from the correlations of the predictors."""
    share = weights / weights.sum()
    mean = share @ values
    covariance = values.T @ (share[:, None] * values) - np.outer(mean, mean)
    variance = np.diagonal(covariance)
    some = variance > TOLERANCE * (variance + mean**2)
    if not some.any():
        return 0
    scale = np.sqrt(variance[some])
    found = np.linalg.eigvalsh(covariance[np.ix_(some, some)] / np.outer(scale, scale))
    return int((found > TOLERANCE * found.max()).sum())
