"""Ends of radii as decimals say: everyone against everyone in fractions, over random tables."""

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayes_risk.matching.radii import Absolute, Quantile, Relative
from bayes_risk.matching.risk import identification_risk

# where values start, and their decimals
PLACES = [(0, 1), (0, 3), (-2, 2), (1000, 1), (10**9, 1), (10**6, 3), (10**15, 0), (-(10**12), 0)]


def candidates(y: Any, z: Any, radius: Any, closed: bool) -> list[int]:
    given: dict[str, Any] = {"known": [], "synthesized": ["x"], "fallback": False}
    original, released = pd.DataFrame({"x": y}), pd.DataFrame({"x": z})
    risk = identification_risk(original, released, radius={"x": radius}, closed=closed, **given)
    return list(risk.c[:, 0].tolist())


def by_hand(y: list[Fraction], z: list[Fraction], radius: Any, closed: bool) -> list[int]:
    found = []
    for t in y:
        r = Fraction(str(radius.r)) * abs(t) if isinstance(radius, Relative) else radius.units
        reach = Fraction(str(r)) if isinstance(radius, Absolute) else r
        near = [x == t or (abs(x - t) <= reach if closed else abs(x - t) < reach) for x in z]
        found.append(sum(near))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_many_random_tables(seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        start, decimals = PLACES[rng.integers(len(PLACES))]
        unit = Fraction(1, 10**decimals)
        y, z = ([start + int(k) * unit for k in rng.integers(-12, 13, 12)] for _ in range(2))
        steps = Fraction(int(rng.integers(0, 8))) * unit
        radius = Absolute(float(steps))
        if abs(start) <= 1000 and rng.random() < 0.5:
            radius = Relative(float(rng.choice([0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5])))
        closed = bool(rng.random() < 0.5)
        dtypes = ["float64", "float64", "Float64"]
        dtypes += ["float32"] * (abs(start) <= 1000) + ["int64"] * (decimals == 0)
        shown = [
            pd.array([float(v) for v in values]).astype(str(rng.choice(dtypes)))
            for values in (y, z)
        ]
        found = candidates(*shown, radius, closed)
        assert found == by_hand(y, z, radius, closed), (y, z, radius, closed)


@pytest.mark.parametrize(("closed", "count"), [(True, 1), (False, 0)])
def test_sums_ratios_and_fifteen_digits(closed, count):
    """The end of an interval belongs to it or not, however its digits were rounded."""
    for y, x, r in [
        (1.1, 1.0, 0.1),
        (1.1, 1.2, 0.1),
        (0.1, 0.1 + 0.2, 0.2),
        (1 / 3, float(f"{2 / 3:.15g}"), 1 / 3),
        (-1e6 / 3, float(f"{-2e6 / 3:.15g}"), 1e6 / 3),
        (1e9 / 7, float(f"{1e9 / 7 + 0.1:.15g}"), 0.1),
    ]:
        assert candidates([y], [x], Absolute(r), closed) == [count], (y, x, r)


def test_a_value_matches_itself() -> None:
    values = [0.0, 0.3, -1 / 3, 1e9 / 7, 5e-300, 1e300]
    for radius in (Absolute(0), Relative(0), Relative(0.1), Quantile(0), Quantile(0.5)):
        for closed in (True, False):
            for y in values:
                for z in (y, float(f"{y:.15g}")):
                    assert candidates([y], [z], radius, closed) == [1], (y, z, radius, closed)
