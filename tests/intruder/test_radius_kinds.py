"""Radii of every kind, of known keys too; ellipses, open ends, missing values: by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayes_risk._core.errors import InputError
from bayes_risk.matching.radii import SD, Absolute, Quantile, Relative
from bayes_risk.matching.risk import identification_risk

NAN = float("nan")


def candidates(y: list[Any], z: list[Any], radius: Any, **options: Any) -> list[int]:
    """c of each target of a file with one synthesised key."""
    original, released = pd.DataFrame({"v": y}), pd.DataFrame({"v": z})
    options = {"radius": {"v": radius}, "fallback": False} | options
    found: list[int] = pair(original, released, [], ["v"], **options).c[:, 0].tolist()
    return found


def pair(
    original: pd.DataFrame, released: Any, known: list[str], synthesized: list[str], **options: Any
) -> Any:
    return identification_risk(original, released, known=known, synthesized=synthesized, **options)


# --- kinds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("radius", "ends"),
    [
        (Absolute(2), [(-2, 2), (1, 5), (2, 6), (8, 12)]),
        (Relative(0.5), [(0, 0), (1.5, 4.5), (2, 6), (5, 15)]),
        (SD(2), [(-8.39, 8.39), (-5.39, 11.39), (-4.39, 12.39), (1.61, 18.39)]),  # sd 4.193
        # halves 0, 3 (sd 2.1213) and 4, 10 (sd 4.2426)
        (SD(1, groups=2), [(-2.13, 2.13), (0.87, 5.13), (-0.25, 8.25), (5.75, 14.25)]),
        (Quantile(0.25), [(0, 3), (0, 4), (3, 10), (4, 10)]),
        (Quantile(0.2), [(0, 0), (3, 3), (4, 4), (10, 10)]),
        (Quantile(1), [(0, 10)] * 4),
    ],
)
def test_the_interval_of_every_kind(radius: Any, ends: list[tuple[float, float]]) -> None:
    y = np.array([0.0, 3, 4, 10])
    low, high = radius.ends(y, y)
    assert np.column_stack([low, high]) == pytest.approx(np.array(ends), abs=0.012)


def test_a_value_that_is_not_in_the_file_has_quantiles_too() -> None:
    low, high = Quantile(0.25).ends(np.array([-1.0, 3.5, 11.0]), np.array([0.0, 3, 4, 10]))
    assert low.tolist() == [-1, 3, 10]
    assert high.tolist() == [0, 4, 11]


def test_a_share_of_the_file_is_a_whole_number_of_places() -> None:
    """0.29 of 100 is 28.999999999999996 in floating point."""
    y = np.arange(100.0)
    assert Quantile(0.29).ends(y[50:51], y)[1].tolist() == [79]


# --- ends ----------------------------------------------------------------------------------------


def test_open_ends_are_left_out() -> None:
    y, z = [100, 50, 0, -10], [110, 49, 0, -10]
    assert candidates(y, z, 0.1) == [1, 1, 1, 1]
    assert candidates(y, z, 0.1, closed=False) == [0, 1, 1, 1]
    assert candidates(y, y, 0) == [1, 1, 1, 1]
    assert candidates(y, y, 0, closed=False) == [1, 1, 1, 1]  # a value is within its own radius
    assert candidates([1.0], [np.nextafter(3, 0)], Absolute(2), closed=False) == [0]  # it is 3
    assert candidates([1.0], [3 - 1e-9], Absolute(2), closed=False) == [1]


# --- ellipses ------------------------------------------------------------------------------------


def ellipse(step: tuple[float, float], reach: tuple[float, float], **options: Any) -> bool:
    original = pd.DataFrame({"v": [100.0], "w": [200.0]})
    radius = {"v": Absolute(reach[0]), "w": Absolute(reach[1])}
    options = {"shape": "ellipse", "radius": radius, "fallback": False} | options
    released = original + np.array([step])
    return bool(pair(original, released, [], ["v", "w"], **options).c.item())


def test_ellipses_cut_the_corners_of_boxes() -> None:
    assert ellipse((3, 4), (5, 5))
    assert ellipse((-6, 8), (10, 10))
    assert not ellipse((3, 4), (5, 5), closed=False)  # on the rim
    assert ellipse((3, 3.9), (5, 5), closed=False)
    assert not ellipse((4, 4), (5, 5))
    assert ellipse((4, 4), (5, 5), shape="box")
    assert ellipse((5, 0), (5, 5))
    assert not ellipse((5, 0), (5, 5), closed=False)


def test_the_published_counterexample_is_far_outside_the_rectangle() -> None:
    """Its "Euclidean distance" accepts 5.47 for each of two radii of 3 and 4."""
    assert not ellipse((5.47, 5.47), (3, 4))
    assert not ellipse((5.47, 5.47), (3, 4), shape="box")


# --- radii of known keys -------------------------------------------------------------------------


def test_a_known_key_is_the_original_s_to_twelve_digits() -> None:
    original = pd.DataFrame({"x": [0.1 + 0.2, 5.0], "job": list("pq")})
    written = original.assign(x=[0.3, 5.0])  # as a text file may give it back
    options: dict[str, Any] = {"radius": {"x": 0.1}}
    assert pair(original, written, ["x"], ["job"], **options).T.all()
    with pytest.raises(InputError, match="column 'x' of release 1 differs .* in 1 of 2 records"):
        pair(original, original.assign(x=[0.3, 5.1]), ["x"], ["job"], **options)


# --- missing values ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "c"), [("level", [1, 1, 1]), ("wildcard", [2, 2, 3]), ("never", [1, 1, 0])]
)
@pytest.mark.parametrize("closed", [True, False])
def test_missing_numbers_match_as_they_are_told_to(
    missing: str, c: list[int], closed: bool
) -> None:
    y = [10.0, 0.0, NAN]
    assert candidates(y, y, Absolute(1), missing=missing, closed=closed) == c
    for dtype in ("Float64", "Int64"):
        table = pd.DataFrame({"v": pd.array([10, 0, None], dtype=dtype)})
        risk = pair(
            *(table, table, [], ["v"]),
            radius={"v": Absolute(1)},
            missing=missing,
            closed=closed,
            fallback=False,
        )
        assert risk.c[:, 0].tolist() == c


def test_a_radius_without_end_reaches_no_missing_value() -> None:
    assert candidates([1e308, NAN], [1e308, NAN], Relative(10), missing="never") == [1, 0]


# --- many records --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["box", "ellipse"])
@pytest.mark.parametrize("missing", ["level", "wildcard", "never"])
def test_fine_buckets_find_what_comparing_everybody_finds(shape: str, missing: str) -> None:
    """Enough records in a cell that both keys are cut up; some without a value."""
    rng = np.random.default_rng(8)
    n = 1200
    y, value = (np.rint(rng.normal(0, 40, (n, 2))) / 4 for _ in range(2))  # ends are exact
    y[rng.random((n, 2)) < 0.01], value[rng.random((n, 2)) < 0.01] = NAN, NAN
    original, released = (pd.DataFrame(v, columns=["v", "w"]) for v in (y, value))
    risk = pair(
        original,
        released,
        [],
        ["v", "w"],
        radius={"v": Absolute(1), "w": Absolute(1.5)},
        shape=shape,
        missing=missing,
        fallback=False,
    )
    step = (value[None] - y[:, None]) / [1.0, 1.5]  # shape (n, n, 2)
    lost, gone = np.isnan(y)[:, None], np.isnan(value)[None]
    with_rule = {"level": lost & gone, "wildcard": lost | gone, "never": np.zeros((n, n, 2), bool)}
    step = np.where(with_rule[missing], 0.0, np.where(lost | gone, np.inf, step))
    near = np.asarray((np.abs(step) <= 1).all(axis=2))
    if shape == "ellipse":
        near &= (step**2).sum(axis=2) <= 1 + 1e-9
    assert risk.c[:, 0].tolist() == near.sum(axis=1).tolist()
    assert risk.T[:, 0].tolist() == near.diagonal().tolist()
