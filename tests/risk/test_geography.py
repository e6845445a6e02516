"""How close the intruder comes in places on the earth."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from bayes_risk import InputError
from bayes_risk.data.variables import Number
from bayes_risk.risk.geography import geography_summary, unique_patterns
from tests.helpers.numeric_results import numeric

PLACE = (Number("lon", False, "float64"), Number("lat", False, "float64"))


def places(seed=2, U=7, centre=(0.0, 0.0), width=10.0):
    """Posteriors over 4 x 5 grids; the truth stands anywhere in them."""
    rng = np.random.default_rng(seed)
    cells = np.array(list(product(np.arange(4), np.arange(5))), dtype=float)
    corner = np.asarray(centre) + rng.uniform(-width, width, size=(U, 2))
    codes = corner + cells[:, None] * width / 5
    p, prior = rng.dirichlet(np.full(len(cells), 0.3), size=(2, U)).swapaxes(1, 2)
    truth = rng.integers(len(cells), size=U)
    return numeric(codes, p, prior, truth=truth, variables=PLACE)


def great_circle(a, b):
    """Distances in km from the angle between unit vectors."""
    va, vb = (
        np.stack([np.cos(t) * np.cos(l), np.cos(t) * np.sin(l), np.sin(t)], axis=-1)
        for l, t in (np.radians(np.asarray(x, dtype=float)).T for x in (a, b))
    )
    cross = np.linalg.norm(np.cross(va, vb), axis=-1)
    return 6371.0088 * np.arctan2(cross, (va * vb).sum(axis=-1))


def straight(a, b):
    return np.linalg.norm(np.asarray(a) - np.asarray(b), axis=-1)


@pytest.mark.parametrize(
    ("distance", "between", "centre"),
    [
        ("euclidean", straight, (0, 0)),
        ("haversine", great_circle, (11, 48)),
        ("haversine", great_circle, (179, -70)),  # across the date line
    ],
)
def test_places_by_brute_force(distance, between, centre):
    rng = np.random.default_rng(8)
    risk = places(centre=centre)
    people = np.asarray(centre) + rng.uniform(-12, 12, size=(500, 2))
    found = risk.geography(
        "lon", "lat", population=pd.DataFrame(people, columns=["lon", "lat"]), distance=distance
    )
    for u in range(7):
        true = risk.guesses[risk.truth[u], u]
        far = between(risk.guesses[:, u], np.broadcast_to(true, (20, 2)))
        crowd = between(people, np.broadcast_to(true, (500, 2)))
        p, prior = np.exp(risk.log_probability[:, u]), np.exp(risk.log_prior[:, u])
        R1, bound = found["R1"][u], found["R1_mcse_bound"][u]
        assert R1 == pytest.approx((p * far).sum())
        assert found["R1_prior"][u] == pytest.approx((prior * far).sum())
        assert bound == pytest.approx((p * np.abs(far - R1) * 0.1).sum())
        assert found["R2"][u] == (crowd <= R1).sum()
        assert found["R2_low"][u] == (crowd <= R1 - 2 * bound).sum()
        assert found["R2_high"][u] == (crowd <= R1 + 2 * bound).sum()
        assert found["R2_prior"][u] == (crowd <= found["R1_prior"][u]).sum()
        assert found["mode_distance"][u] == pytest.approx(far[p.argmax()], abs=1e-9)
        assert found["mode_is_truth"][u] == (p.argmax() == risk.truth[u])


def test_known_distances():
    """A degree along a meridian; from pole to pole; from Berlin to Paris, about 878 km."""
    cases = {
        ((0, 0), (0, 1)): np.pi * 6371.0088 / 180,
        ((10, 90), (200, -90)): np.pi * 6371.0088,
        ((179.5, 0), (-179.5, 0)): np.pi * 6371.0088 / 180,
    }
    for (a, b), km in cases.items():
        risk = numeric(np.array([[a], [b]]), [[0], [1]], variables=PLACE)
        found = risk.geography("lon", "lat", distance="haversine")
        assert found["R1"].item() == pytest.approx(km)
        assert found["mode_distance"].item() == pytest.approx(km)
    cities = np.array([[(13.4050, 52.5200)], [(2.3522, 48.8566)]])
    found = numeric(cities, [[0], [1]], variables=PLACE).geography(
        "lon", "lat", distance="haversine"
    )
    assert found["R1"].item() == pytest.approx(878, abs=1)


def test_a_missing_coordinate_is_no_place():
    latitude = replace(PLACE[1], missing=-999.0)
    codes = np.array([[(0, 0)], [(3, -999)]])
    risk = numeric(codes, [[0.5], [0.5]], variables=(PLACE[0], latitude))
    with pytest.raises(InputError, match="'lon' or 'lat' may be missing, and has no distance then"):
        risk.geography("lon", "lat")


def test_circles_are_closed_and_count_the_target():
    """Truth (0, 0), all belief 5 away, where another case lives; a third one 5.1 away."""
    codes = np.array([[(0.0, 0.0)], [(3.0, 4.0)]])
    people = pd.DataFrame({"lon": [0.0, 3, 5.1], "lat": [0.0, 4, 0], "age": [1, 2, 3]})
    risk = numeric(codes, [[0], [1]], variables=PLACE)
    assert risk.geography("lon", "lat", population=people)["R2"].item() == 2
    known = numeric(codes, [[1], [0]], variables=PLACE)
    row = known.geography("lon", "lat", population=people).loc[0]
    assert row["R1"] == 0 and row["R2"] == 1 and row["mode_is_truth"] == 1


def test_circles_on_the_earth_go_along_its_face():
    """A quarter of the way round, 90 degrees: 80 are within, 100 are not, in any direction."""
    risk = numeric(np.array([[(0, 0)], [(90, 0)]]), [[0], [1]], variables=PLACE)
    people = pd.DataFrame({"lon": [0.0, 80, -80, 100, -100, 0], "lat": [0.0, 0, 0, 0, 0, 80]})
    found = risk.geography("lon", "lat", population=people, distance="haversine")
    assert found["R2"].item() == 4


def test_the_audited_records_are_the_default_population():
    risk = places()
    true = risk.guesses[risk.truth, np.arange(7)][[0, 0, 3]]
    some = replace(risk, case=np.array([0, 0, 3]), index=pd.Index(["a", "b", "c"]))
    given = some.geography("lon", "lat", population=pd.DataFrame(true, columns=["lon", "lat"]))
    pd.testing.assert_frame_equal(some.geography("lon", "lat"), given)
    assert (given["R2"] >= [2, 2, 1]).all()


def test_modes_that_tie_share_a_place():
    codes = np.array([[(0.0, 0.0)], [(3.0, 4.0)], [(0.0, 1.0)]])
    risk = numeric(codes, [[0.4], [0.4], [0.2]], variables=PLACE)
    row = risk.geography("lon", "lat").loc[0]
    assert row["mode_is_truth"] == pytest.approx(0.5)
    assert row["mode_distance"] == pytest.approx(2.5)
    assert row["mode_distance_prior"] == pytest.approx(2)


def test_quantiles_and_shares_of_unique_patterns():
    people = pd.DataFrame({"sex": list("ffmmfmm"), "age": [3, 3, 4, 5, 6, 6, 6]})
    alone = unique_patterns(people, ["sex", "age"])
    assert alone.tolist() == [False, False, True, True, True, False, False]
    more = pd.concat([alone.sample(frac=1, random_state=1), pd.Series([True], index=[7])])
    table = places().geography("lon", "lat", unique=more)
    assert table["unique"].tolist() == alone.tolist()
    rows = geography_summary(table)
    assert rows.index.tolist() == [
        "R1", "R2", "mode_distance", "mode_is_truth", "mode_is_truth_unique",
    ]  # fmt: skip
    assert list(rows.columns) == [
        "minimum", "q1", "median", "mean", "mean_mcse_bound", "minimum_prior", "q1_prior",
        "median_prior", "mean_prior", "records",
    ]  # fmt: skip
    for name in ("R1", "R2", "mode_distance"):
        for end in ("", "_prior"):
            quantiles = [f"{q}{end}" for q in ("minimum", "q1", "median")]
            expected = np.quantile(table[f"{name}{end}"], [0, 0.25, 0.5])
            assert np.allclose(rows.loc[name, quantiles].astype(float), expected)
    assert rows.loc["R1", "mean_mcse_bound"] == pytest.approx(table["R1_mcse_bound"].mean())
    unique = table[alone.to_numpy()]
    assert rows.loc["mode_is_truth_unique", "mean"] == unique["mode_is_truth"].mean()
    assert rows.loc["mode_is_truth_unique", "mean_prior"] == unique["mode_is_truth_prior"].mean()
    assert rows["records"].tolist() == [7, 7, 7, 7, 3]
    plain = geography_summary(table.drop(columns="unique"))
    assert "mode_is_truth_unique" not in plain.index
