"""Distances between points in the plane or on the earth, and how many points are near another."""

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

Array = npt.NDArray[np.float64]
EARTH_KM = 6371.0088  # mean radius (IUGG)
ROUNDING = 1e-9  # relative
DISTANCES = ("euclidean", "haversine")


def distance_between(a: Array, b: Array, distance: str) -> Array:
    """Distances of points whose last axis is (x, y), or (longitude, latitude) in degrees; in km."""
    if distance == "haversine":
        return _haversine(np.radians(a), np.radians(b))
    gap = a - b
    found: Array = np.hypot(gap[..., 0], gap[..., 1])
    return found


def _haversine(a: Array, b: Array) -> Array:
    """2 R asin sqrt(sin^2(dlat / 2) + cos lat_a cos lat_b sin^2(dlon / 2)), in km."""
    half = np.sin((a - b) / 2) ** 2
    h = half[..., 1] + np.cos(a[..., 1]) * np.cos(b[..., 1]) * half[..., 0]
    found: Array = 2 * EARTH_KM * np.arcsin(np.sqrt(np.minimum(h, 1.0)))
    return found


class Crowd:
    """Points in a tree, to count those within circles.

    Parameters
    ----------
    points : ndarray, shape (N, 2)
        (x, y), or (longitude, latitude) in degrees.
    distance : {"euclidean", "haversine"}
    """

    def __init__(self, points: Array, distance: str) -> None:
        self._spherical = distance == "haversine"
        self._tree = cKDTree(self._placed(points))

    def within(self, centres: Array, radius: Array) -> npt.NDArray[np.int64]:
        """How many points lie within circles, their edges included; centres (U, 2), radius (U,)."""
        placed = self._placed(centres)
        reach = self._chord(radius) if self._spherical else radius
        size = np.abs(placed).max(axis=1)
        reach = reach * (1 + ROUNDING) + 64 * np.finfo(float).eps * size
        counts = self._tree.query_ball_point(placed, reach, return_length=True)
        return np.asarray(counts, dtype=np.int64)

    def _placed(self, points: Array) -> Array:
        """On the earth: unit vectors, so that near is near across the date line and the poles."""
        if not self._spherical:
            return points
        lon, lat = np.radians(points).T
        vectors = [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]
        return np.column_stack(vectors)

    @staticmethod
    def _chord(km: Array) -> Array:
        """Straight line through the earth, in radii, between points so many km apart."""
        chord: Array = 2 * np.sin(np.minimum(km / (2 * EARTH_KM), np.pi / 2))
        return chord
