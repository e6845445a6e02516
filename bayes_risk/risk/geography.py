"""How close the intruder comes to a place: two numbers that are coordinates.

Means and errors are as in `closeness`: over the posterior on the guesses, beside it the prior.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns, one_of
from bayes_risk.data.microdata import by_label
from bayes_risk.data.variables import Number

from .closeness import (
    Columns,
    GuessPosterior,
    Marginal,
    by_record,
    expected,
    modes,
    number_among,
    with_prior,
)

EARTH_KM = 6371.0088  # mean radius (IUGG)
ROUNDING = 1e-9  # relative
DISTANCES = ("euclidean", "haversine")


def distance_between(a: Array, b: Array, distance: str) -> Array:
    """Distances of points whose last axis is (x, y), or (longitude, latitude) in degrees; in km."""
    if distance != "haversine":
        gap = a - b
        return np.asarray(np.hypot(gap[..., 0], gap[..., 1]))
    # 2 R asin sqrt(sin^2(dlat / 2) + cos lat_a cos lat_b sin^2(dlon / 2))
    a, b = np.radians(a), np.radians(b)
    half = np.sin((a - b) / 2) ** 2
    h = half[..., 1] + np.cos(a[..., 1]) * np.cos(b[..., 1]) * half[..., 0]
    return np.asarray(2 * EARTH_KM * np.arcsin(np.sqrt(np.minimum(h, 1.0))))


def counting(points: Array, distance: str) -> Callable[[Array, Array], Ints]:
    """How many of some points (N, 2) lie within circles: centres (U, 2), radii (U,), edges too."""
    spherical = distance == "haversine"

    def placed(points: Array) -> Array:
        """On the earth: unit vectors, so that near is near across the date line and the poles."""
        if not spherical:
            return points
        lon, lat = np.radians(points).T
        return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])

    tree = cKDTree(placed(points))

    def within(centres: Array, radius: Array) -> Ints:
        at, reach = placed(centres), radius
        if spherical:  # a straight line through the earth, in radii
            reach = 2 * np.sin(np.minimum(radius / (2 * EARTH_KM), np.pi / 2))
        reach = reach * (1 + ROUNDING) + 64 * np.finfo(float).eps * np.abs(at).max(axis=1)
        found = tree.query_ball_point(at, reach, return_length=True)
        return np.asarray(found, dtype=np.int64)

    return within


QUANTILES = {"minimum": 0.0, "q1": 0.25, "median": 0.5}


def geography(
    risk: GuessPosterior,
    x: str,
    y: str,
    *,
    population: pd.DataFrame | None = None,
    unique: Any = None,
    distance: str = "euclidean",
) -> pd.DataFrame:
    """How close the intruder comes to a place, and how many actual cases live that close to it.

    ``R1_i = E||S - s_i||`` over the posterior for the place S of record i; ``R2_i``: the number of
    actual cases in the circle of radius ``R1_i`` around ``s_i`` (Wang & Reiter 2012, here over the
    posterior itself, not draws from it). The mode of the posterior: Paiva et al. (2014).

    Parameters
    ----------
    risk : AttributeRisk
    x, y : str
        Two guessed numbers: coordinates, for ``"haversine"`` longitude and latitude in degrees.
    population : DataFrame, optional
        Confidential coordinates of all actual cases; by default those of the audited records.
    unique : Series of bool, or n bools, optional
        Records whose pattern of attributes nobody shares; see `unique_patterns`.
    distance : {"euclidean", "haversine"}
        In the unit of the coordinates, or along the earth in kilometres.

    Returns
    -------
    DataFrame
        Indexed as ``risk.records``: ``R1`` (with ``R1_mcse_bound``); ``R2``, which counts the
        target too if the population holds it, and ``R2_low``, ``R2_high``: with R1 two bounds
        smaller and larger; ``mode_distance``; ``mode_is_truth`` (modes that tie share). R1, R2
        and both of the mode also with ``_prior``. Then ``unique``, if given, and ``reliable``.
        Small R1 and R2: the intruder knows where the record is.

    Raises
    ------
    InputError
        Variables, population or ``unique`` that are not of these records; no angles on the earth.

    Notes
    -----
    No table of records by records is made: circles are counted in a tree. Distances are measured
    from the true guess, which a grid with ``truth="nearest"`` puts beside the true place. Papers:
    ``docs/reading-the-numbers.md``.
    """
    one_of("distance", distance, DISTANCES)
    names = [x, y]
    pair = [number_among(risk, name) for name in names]
    if x == y:
        raise InputError(f"x and y are both {x!r}; give two different coordinates")
    if any((risk.guesses[:, :, j] == risk.variables[j].missing).any() for j in pair):
        raise InputError(
            f"{x!r} or {y!r} may be missing, and has no distance then; take targets that have both "
            "(targets), and guesses without it: Grid(values=...)"
        )
    true = risk.guesses[risk.truth, np.arange(len(risk.truth))][risk.case][:, pair]  # (n, 2)
    actual = true
    if population is not None:
        if not set(names) <= set(population.columns):
            raise InputError(
                f"population has the columns {list(population.columns)}; give a table of the "
                f"confidential coordinates with columns {names}"
            )
        places = (population[name] for name in names)
        actual = np.column_stack(
            [Number.of(p, str(p.name)).encode(p, "population", own=True) for p in places]
        )
    if distance == "haversine":
        counted = risk.guesses[np.isfinite(risk.log_prior)][:, pair]
        angles = np.abs(np.concatenate([actual, true, counted])).max(axis=0)
        for name, found_at, largest in zip(names, angles, (360.0, 90.0), strict=True):
            if found_at > largest:
                raise InputError(
                    f"column {name!r} goes beyond {largest:g}, which is not an angle on the earth; "
                    '`distance="haversine"` takes longitude, then latitude, in degrees; use '
                    '"euclidean" for other coordinates'
                )
    found = by_record(risk, pair, lambda m: _places(m, distance))
    within = counting(actual, distance)
    reach = 2 * found["R1_mcse_bound"]
    radii = {
        "R2": found["R1"],
        "R2_low": (found["R1"] - reach).clip(lower=0),
        "R2_high": found["R1"] + reach,
        "R2_prior": found["R1_prior"],
    }
    for place, (name, radius) in enumerate(radii.items(), start=3):
        found.insert(place, name, within(true, radius.to_numpy()))
    if isinstance(unique, pd.Series):  # matched by label, and may tell of further records
        others = len(unique) > len(risk.index) and risk.index.isin(unique.index).all()
        unique = unique.loc[risk.index] if others else by_label(unique, risk.index, "unique")
    if unique is not None:
        flags = np.asarray(unique)
        if flags.shape != (len(risk.index),) or flags.dtype != bool:
            raise InputError(
                f"unique has {flags.size} entries of type {flags.dtype}; give True or False for "
                f"each of the {len(risk.index)} records, or a Series with their labels: "
                "unique_patterns(...)"
            )
        found["unique"] = flags
    return found.assign(reliable=risk.reliable[risk.case])


def geography_summary(table: pd.DataFrame) -> pd.DataFrame:
    """File level of `geography`: quantiles over records (Wang & Reiter 2012, Table 2), and shares.

    Rows ``R1``, ``R2``, ``mode_distance``; ``mode_is_truth`` and, where ``unique`` was given,
    ``mode_is_truth_unique``: shares of (unique) records whose posterior mode is the truth (Paiva et
    al. 2014). Columns ``minimum``, ``q1``, ``median`` (none for shares), ``mean``,
    ``mean_mcse_bound`` (of R1 alone), the first four with ``_prior``, and ``records``.
    """
    rows: dict[str, dict[str, Any]] = {}
    for name in ("R1", "R2", "mode_distance"):
        rows[name] = {"records": len(table)}
        for end in ("", "_prior"):
            column = table[f"{name}{end}"]
            rows[name] |= {f"{k}{end}": column.quantile(q) for k, q in QUANTILES.items()}
            rows[name][f"mean{end}"] = column.mean()
    rows["R1"]["mean_mcse_bound"] = table["R1_mcse_bound"].mean()
    groups = {"mode_is_truth": table}
    if "unique" in table:
        groups["mode_is_truth_unique"] = table[table["unique"]]
    for name, chosen in groups.items():
        mean = chosen[["mode_is_truth", "mode_is_truth_prior"]].mean().to_list()
        rows[name] = dict(zip(("mean", "mean_prior", "records"), [*mean, len(chosen)], strict=True))
    first = [*QUANTILES, "mean"]
    order = [*first, "mean_mcse_bound", *(f"{name}_prior" for name in first), "records"]
    return pd.DataFrame.from_dict(rows, orient="index").reindex(columns=order)


def unique_patterns(table: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Whether no other record in the table of all records has a record's values of some columns.

    >>> people = pd.DataFrame({"sex": ["f", "f", "m"], "age": [30, 30, 41]})
    >>> unique_patterns(people, ["sex", "age"]).tolist()
    [False, False, True]
    """
    names = known_columns("columns", columns, table)
    return ~table.duplicated(names, keep=False)


def _places(m: Marginal, distance: str) -> Columns:
    """Distances from the true place, of the cases of a block."""
    far = distance_between(m.values.astype(float), m.true_values.astype(float), distance)
    is_truth = m.is_truth.astype(float)
    columns = expected("R1", far, m) | with_prior("mode_distance", far, modes(m))
    return columns | with_prior("mode_is_truth", is_truth, modes(m))
