"""Memory of the audits besides attribute risk, by the shapes of their large arrays."""

from dataclasses import dataclass

from .parts import DOUBLE, SINGLE, Parts
from .samplers import Sampler

MOST_PREDICTORS, MOST_ENTRIES = 1_000, 100_000_000  # of a propensity model of products
PAIRS = 2**18  # cases x guesses that are asked about membership at a time
STRETCH = 2**18  # cells of a full table that are looked at at a time
KEEPS = 12  # bytes by cell of a full table: log posteriors, and their order


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """What other audits look at; 0 or False: not asked for.

    Attributes
    ----------
    keys, numeric_keys : int
        Of the matching intruder; those with a radius.
    compared, dummies, products, rows : int
        Columns whose utility is measured, predictors made of them, products of two, and distinct
        rows of the original and a release at most.
    known : int
        Keys and targets of the context measures.
    near, points : int
        Columns of distances to the closest record, and coordinates made of them.
    bounds : int
        Data sets of the releases at both ends of the scale, and of the unchanged one.
    asked : int
        Guesses for each place of a membership audit.
    places : int
        That membership asks about.
    cells, table_draws : int
        Of a full table, and draws of a fit that are looked at.
    """

    keys: int = 0
    numeric_keys: int = 0
    compared: int = 0
    dummies: int = 0
    products: int = 0
    rows: int = 0
    known: int = 0
    near: int = 0
    points: int = 0
    bounds: int = 0
    asked: int = 0
    places: int = 0
    cells: int = 0
    table_draws: int = 0


def further_stages(
    f: Further,
    held: Parts,
    *,
    records: int,
    columns: int,
    releases: int,
    sampler: Sampler,
    workers: int,
) -> dict[str, Parts]:
    """Bytes of each part at each stage that was asked for."""
    stages: dict[str, Parts] = {}
    if f.keys:
        stages["identification"] = held | {"keys and matches": _matching(f, records, releases)}
    if f.compared:
        stages["utility"] = held | _utility(f, records, releases, workers)
    if f.known:
        stages["context"] = held | _context(f, records, releases)
    if f.bounds:
        cells = records * max(f.compared, f.keys, f.known)
        ends = {"releases at both ends": f.bounds * cells * (DOUBLE + SINGLE)}
        parts = [stages[s] for s in ("identification", "utility", "context") if s in stages]
        stages["bounds"] = max(parts, key=lambda part: sum(part.values())) | ends
    fits = (releases + 1) * DOUBLE * sampler.draws * sampler.parameters
    if f.asked:
        stages["membership"] = held | {"fits": fits} | _membership(f, columns, releases, sampler)
    if f.cells:
        stages["full table"] = held | {
            "fits": fits,
            "cells": _full_table(f, releases, sampler, workers),
        }
    return stages


def _matching(f: Further, records: int, releases: int) -> int:
    """Keys, match counts and probabilities by record and release; places of numeric keys."""
    each = DOUBLE * (32 + 6 * releases + 2 * releases * max(f.numeric_keys, 1))
    return records * (each + SINGLE * f.keys * (releases + 1))


def _utility(f: Further, records: int, releases: int, workers: int) -> Parts:
    """Values and cells of every column; a design of both files, four times over."""
    rows = max(f.rows, 1)
    large = f.products <= MOST_PREDICTORS and f.products * rows <= MOST_ENTRIES
    predictors = max(f.dummies, f.products if large else 0)
    if f.products <= MOST_PREDICTORS and not large:  # fewer distinct rows may let it pass
        predictors = max(predictors, MOST_ENTRIES // rows)
    coded = 2 * DOUBLE * (releases + 1) * records * f.compared
    return {
        "columns of all files": coded,
        "designs of propensity models": workers * DOUBLE * rows * (4 * predictors + 2 * f.compared),
    }


def _context(f: Further, records: int, releases: int) -> Parts:
    """Codes of keys in all files; points of the original, a release, and their coordinates."""
    codes = DOUBLE * records * (f.known * (releases + 1) + 10)
    return {"keys": codes, "points": DOUBLE * records * (3 * f.points + 3 * f.near)}


def _membership(f: Further, columns: int, releases: int, sampler: Sampler) -> Parts:
    """A block of places: log predictives and deviations of all fits, twice when joined."""
    fits, batches = releases + 1, 2 * sampler.chains
    pairs = min(PAIRS, f.places * f.asked)
    each = 2 * fits * (DOUBLE + SINGLE * batches) + 2 * SINGLE * columns + 28 * DOUBLE
    return {"block of places": pairs * each}


def _full_table(f: Further, releases: int, sampler: Sampler, workers: int) -> int:
    """What is kept of the cells, and terms of the rows and columns of every fit."""
    terms = f.table_draws * max(sampler.classes, 1) * 2 * int(f.cells**0.5)
    stretch = 6 * sampler.chains * min(f.cells, STRETCH)
    return workers * (KEEPS * f.cells + (releases + 1) * (DOUBLE * terms + SINGLE * stretch))
