"""Grids of numbers against all of them tried one after the other."""

import numpy as np

from bayes_risk.data.precision import MOST_DIGITS, TENS, WHOLE, RoundingGrid, grids_of


def tried(x):
    """The first grid of decimals, and of significant digits, that holds all."""
    largest = np.abs(x.astype(float)).max()
    decimals = [RoundingGrid("decimals", n) for n in TENS if largest * 10.0**n < WHOLE]
    digits = [RoundingGrid("digits", n) for n in range(1, MOST_DIGITS + 1)]
    found = (next((g for g in grids if g.holds(x).all()), None) for grids in (decimals, digits))
    return [grid for grid in found if grid is not None]


def test_the_coarsest_grid_is_that_of_all_tried():
    rng, some = np.random.default_rng(1), 0
    for k in range(300):
        x = rng.normal(size=rng.integers(1, 40)) * 10.0 ** rng.integers(-12, 13)
        n = int(rng.integers(1, 17))
        x = [
            np.round(x, n - 9),
            np.array([float(f"{v:.{n - 1}e}") for v in x]),
            x.astype(np.float32).astype(float),
            np.nextafter(np.round(x, n), np.inf),
            np.where(x < 0, 0.0, np.round(x, 2)),
            rng.integers(1, 2**62, len(x)) // 10**n * 10 ** (n // 3),
        ][k % 6]
        if x.any():
            found = [g for g in grids_of(np.unique(x)) if g.kind in ("decimals", "digits")]
            assert found == tried(x)
            some += len(found) > 0
    assert some > 100
