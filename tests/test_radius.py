"""Matching numeric keys within a radius: by hand, all pairs, limits, real data, bad input."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from typer.testing import CliRunner

from bayes_risk._core import crowd
from bayes_risk._core.boxes import Boxes, NumericKey, box_up, match_each_box, match_pooled_boxes
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import Matches, cell_sizes
from bayes_risk.cli import app
from bayes_risk.identification import identification_risk
from bayes_risk.identification_result import IdentificationRisk
from bayes_risk.release import Release
from bayes_risk.reporting import report

NAN, INF = float("nan"), float("inf")


def frame(us: str, income: list[Any], **more: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": list(us), "income": income, **more})


def risk_of(original: pd.DataFrame, releases: Any, r: Any = 0.1, **options: Any) -> Any:
    options = {"known": ["a"], "synthesized": ["income"], "radius": {"income": r}} | options
    return identification_risk(original, releases, **options)


# --- by hand -------------------------------------------------------------------------------------

ORIGINAL = frame("xxxxyy", [100, 105, 0, -50, 100, 7])
FIRST = frame("xxxxyy", [110, 90, 0, -55, 100, 100])
SECOND = frame("xxxxyy", [89, 111, 5, -44, 111, 7.5])


def test_six_records_by_hand() -> None:
    """Ends are inside; a zero matches zeros; a negative value has the interval of its size.

    Intervals: x 90..110, 94.5..115.5, 0, -55..-45; y 90..110, 6.3..7.7.
    Release 1: {0, 1}, {0}, {2}, {3}; {4, 5}, none. Release 2: none, {1}, none, none; none, {5}.
    """
    risk = risk_of(ORIGINAL, [FIRST, SECOND], fallback=False)
    assert risk.c.T.tolist() == [[2, 1, 1, 1, 2, 0], [0, 1, 0, 0, 0, 1]]
    assert risk.T.T.astype(int).tolist() == [[1, 0, 1, 1, 1, 0], [0, 1, 0, 0, 0, 1]]
    assert risk.F.T.astype(int).tolist() == [[0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]
    assert risk.pooled_c.tolist() == [2, 2, 1, 1, 2, 1]  # target 1: record 0, then record 1
    assert risk.pooled_T.all()
    again = risk_of(ORIGINAL, [FIRST, SECOND])
    assert again.c.T.tolist() == [[2, 1, 1, 1, 2, 2], [4, 1, 4, 4, 2, 1]]
    assert again.pooled_c.tolist() == [2, 2, 1, 1, 2, 1]
    assert again.no_match.T.astype(int).tolist() == [[0, 0, 0, 0, 0, 1], [1, 0, 1, 1, 1, 0]]
    assert again.baseline.tolist() == [1 / 4] * 4 + [1 / 2] * 2


def test_several_radii_make_a_box_and_the_other_keys_stay_exact() -> None:
    original = frame("xxxx", [100, 200, 300, 400], spent=[10, 10, 50, 50], job=list("ppqq"))
    released = frame("xxxx", [105, 95, 290, 310], spent=[11, 20, 54, 52], job=list("pppq"))
    options: dict[str, Any] = {"synthesized": ["income", "spent", "job"], "fallback": False}
    radii = {"income": 0.1, "spent": 0.1}
    risk = risk_of(original, released, radius=radii, **options)
    # 100, 10: not record 1, for its spent; 300, 50: record 3, but record 2 has another job
    assert risk.c[:, 0].tolist() == [1, 0, 1, 0]
    assert risk.T[:, 0].tolist() == [True, False, False, False]
    assert risk.radius == radii
    turned = risk_of(original, released, radius=dict(reversed(radii.items())), **options)
    assert list(turned.radius) == ["income", "spent"]
    pd.testing.assert_frame_equal(turned.summary(), risk.summary())


def test_the_ends_are_floating_point_sums() -> None:
    """As the published package reckons them: 3 + 0.1 * 3 is 3.3; 0.7 + 0.1 * 0.7 is below 0.77."""
    for y, value, match in [(3, 3.3, 1), (1.1, 1.21, 1), (0.7, 0.77, 0), (1e308, 5e307, 0)]:
        assert risk_of(frame("x", [y]), frame("x", [value]), fallback=False).c.item() == match
    huge = risk_of(frame("xx", [1e308, 1]), frame("xx", [-1e308, 5]), 10, fallback=False)
    assert huge.c[:, 0].tolist() == [2, 1]  # an end beyond the largest number is no end


# --- all pairs -----------------------------------------------------------------------------------

Table = tuple[npt.NDArray[Any], npt.NDArray[Any], list[NumericKey]]


@st.composite
def tables(draw: st.DrawFn, n_keys: int | None = None) -> Table:
    """Exact keys (n,), (m, n), with strangers (-1); numeric keys with many ties."""
    n, m = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    u = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 1)))
    stays = st.sampled_from([True, True, True, False])
    other = draw(hnp.arrays(np.int64, (m, n), elements=st.integers(-1, 1)))
    z = np.where(draw(hnp.arrays(bool, (m, n), elements=stays)), u, other)
    values = st.sampled_from([-10.0, -9.0, -1.0, -0.0, 0.0, 1.0, 1.1, 9.0, 10.0, 11.0, 100.0])
    keys = [
        NumericKey(
            draw(hnp.arrays(float, n, elements=values)),
            draw(hnp.arrays(float, (m, n), elements=values)),
            draw(st.sampled_from([0, 0.1, 0.5, 1, 3.0])),
        )
        for _ in range(n_keys or draw(st.integers(1, 3)))
    ]
    return u, z, keys


def matches_of(u: Any, z: Any, keys: list[NumericKey]) -> npt.NDArray[np.bool_]:
    """The plain twin: every target against every record of every release, shape (m, n, n)."""
    match: npt.NDArray[np.bool_] = z[:, None, :] == u[None, :, None]
    for y, value, r in keys:
        reach = r * np.abs(y)
        low, high = (y - reach)[None, :, None], (y + reach)[None, :, None]
        match &= (low <= value[:, None, :]) & (value[:, None, :] <= high)
    return match


def by_fractions(
    match: npt.NDArray[np.bool_], n_us: Any, fallback: bool
) -> list[tuple[int, bool, bool]]:
    """(c, T, no match) of each target, pooled over the releases of `match`."""
    found = []
    for i in range(match.shape[1]):
        total = [Fraction(0)] * match.shape[1]
        for hits in match[:, i]:
            part = Fraction(1, max(int(hits.sum()), 1))
            total = [t + part * int(hit) for t, hit in zip(total, hits, strict=True)]
        best = max(total)
        if best > 0:
            found.append((sum(t == best for t in total), total[i] == best, False))
        else:
            found.append((int(n_us[i]) if fallback else 0, fallback, True))
    return found


def listed(found: Matches) -> list[tuple[int, bool, bool]]:
    return list(zip(*(part.tolist() for part in found), strict=True))


@given(tables(), st.booleans(), st.sampled_from([2**62, 2**10, 40, 8]))
def test_every_box_by_brute_force(table: Table, fallback: bool, largest: int) -> None:
    """Pooled, per release and leaving one out; a small `largest` leaves doubts to fractions."""
    u, z, keys = table
    match, n_us, m = matches_of(u, z, keys), cell_sizes(u), len(z)
    boxes = box_up(u, z, keys)
    assert boxes.N.tolist() == match.sum(axis=2).tolist()
    assert boxes.own.tolist() == match.diagonal(axis1=1, axis2=2).tolist()
    each = match_each_box(boxes, n_us, fallback=fallback)
    for l in range(m):
        row = Matches(*(part[l] for part in each))
        assert listed(row) == by_fractions(match[l : l + 1], n_us, fallback)
    pooled, *left_out = match_pooled_boxes(boxes, n_us, fallback=fallback, largest=largest)
    assert listed(pooled) == by_fractions(match, n_us, fallback)
    assert len(left_out) == (m if m > 2 else 0)
    for l, found in enumerate(left_out):
        assert listed(found) == by_fractions(np.delete(match, l, axis=0), n_us, fallback)


@given(tables(n_keys=1), st.booleans())
def test_sliding_windows_and_looking_through_them_agree(table: Table, fallback: bool) -> None:
    """A key given twice is the same box, but takes the way of several keys."""
    u, z, keys = table
    one, two = (
        match_pooled_boxes(box_up(u, z, k), cell_sizes(u), fallback=fallback)
        for k in (keys, keys * 2)
    )
    assert [listed(a) for a in one] == [listed(b) for b in two]


@pytest.mark.parametrize("n_keys", [1, 2])
@pytest.mark.parametrize(("m", "r"), [(2, 0.3), (5, 0.02), (5, 0.3), (8, 0.9), (12, 2.0)])
def test_wide_windows_by_brute_force(n_keys: int, m: int, r: float) -> None:
    """Large counts: the least common multiples exceed 64 bits, and residues tell ties apart."""
    rng = np.random.default_rng(m)
    n = 40
    u = rng.integers(0, 2, n)
    z = np.where(rng.random((m, n)) < 0.95, u, rng.integers(-1, 2, (m, n)))
    keys = [
        NumericKey(y := rng.normal(3, 4, n).round(1), y + rng.normal(0, 1, (m, n)).round(1), r)
        for _ in range(n_keys)
    ]
    match, n_us = matches_of(u, z, keys), cell_sizes(u)
    pooled, *left_out = match_pooled_boxes(box_up(u, z, keys), n_us, fallback=True)
    assert listed(pooled) == by_fractions(match, n_us, True)
    for l, found in enumerate(left_out):
        assert listed(found) == by_fractions(np.delete(match, l, axis=0), n_us, True)


def test_doubts_arise_where_sums_are_near_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """1/6 + 1/8 = 1/8 + 1/10 + 1/15 is told from its residue; two near sums by fractions."""
    from bayes_risk._core import boxes as module

    asked: list[int] = []
    in_fractions = module._in_fractions

    def watched(boxes: Boxes, i: int, without: int | None) -> tuple[int, bool]:
        asked.append(i)
        return in_fractions(boxes, i, without)

    monkeypatch.setattr(module, "_in_fractions", watched)
    assert pool_one_target([6, 8], [8, 10, 15]).c[0] == 2
    assert asked == []
    near = pool_one_target([1776, 2083, 3674], [1515, 2276, 4632])  # 3 parts in 10^13
    assert (near.c[0], near.T[:2].tolist(), asked) == (1, [False, True], [])
    coarse = pool_one_target([1776, 2083, 3674], [1515, 2276, 4632], largest=2**40)
    assert (coarse.c[0], coarse.T[:2].tolist()) == (1, [False, True])
    assert asked


def pool_one_target(first: list[int], second: list[int], largest: int = 2**62) -> Matches:
    """Target 0: record 0 matches in the first releases, record 1 in the others, N as told."""
    counts = first + second
    value = np.full((len(counts), 2 + sum(counts)), 5.0)
    place = 2
    for l, N in enumerate(counts):
        value[l, 0 if l < len(first) else 1] = 1.0
        value[l, place : place + N - 1] = 1.0
        place += N - 1
    u = np.zeros(value.shape[1], dtype=np.int64)
    y = np.where(np.arange(len(u)) < 2, 1.0, -1.0)  # the others match nobody
    boxes = box_up(u, np.zeros_like(value, dtype=np.int64), [NumericKey(y, value, 0.1)])
    return match_pooled_boxes(boxes, u + len(u), fallback=True, largest=largest)[0]


def test_residues_are_inverses_modulo_a_prime() -> None:
    assert crowd.PRIME == 2**61 - 1  # a Mersenne prime
    boxes = box_up(
        np.zeros(3, np.int64),
        np.zeros((2, 3), np.int64),
        [NumericKey(np.array([1.0, 2, 3]), np.array([[1.0, 1, 3], [2, 2, 2]]), 0)],
    )
    from bayes_risk._core.boxes import _weights

    weights = _weights(boxes.N, 100)
    assert weights.share.tolist() == [[50, 0], [0, 33], [100, 0]]
    assert (weights.residue.astype(object) * boxes.N.T % crowd.PRIME).tolist() == [
        *[[1, 0], [0, 1], [1, 0]]
    ]


# --- limits --------------------------------------------------------------------------------------


def random_files(m: int, n: int = 80) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    rng = np.random.default_rng(5)
    original = pd.DataFrame({"a": rng.integers(0, 3, n), "income": rng.integers(-5, 9, n)})
    return original, [original.assign(income=rng.integers(-5, 9, n)) for _ in range(m)]


def arrays_of(risk: IdentificationRisk) -> dict[str, list[Any]]:
    names = [f"{pooled}{name}" for pooled in ("", "pooled_") for name in "cTKF"]
    return {name: getattr(risk, name).tolist() for name in [*names, "no_match", "baseline"]}


@pytest.mark.parametrize("fallback", [True, False])
@pytest.mark.parametrize("m", [1, 2, 4])
def test_radius_zero_is_exact_matching_of_the_numbers(m: int, fallback: bool) -> None:
    original, releases = random_files(m)
    zero = risk_of(original, releases, 0, fallback=fallback)
    exact = risk_of(original, releases, radius=None, fallback=fallback)
    assert arrays_of(zero) == arrays_of(exact)
    assert exact.radius == {}
    errors = [risk.expected_match_risk_mcse.to_numpy() for risk in (zero, exact)]
    assert errors[0] == pytest.approx(errors[1], nan_ok=True)


def test_a_radius_without_end_leaves_the_known_keys() -> None:
    original, releases = random_files(3)
    original = original.assign(income=original["income"] + 0.5)  # a zero has no interval
    risk = risk_of(original, releases, 1e6, fallback=False)
    assert (1 / risk.pooled_c).tolist() == risk.baseline.tolist()
    assert risk.T.all()


def test_the_order_of_records_and_of_releases_does_not_matter() -> None:
    original, releases = random_files(4)
    straight = risk_of(original, releases).records
    order = np.random.default_rng(4).permutation(len(original))
    turned = risk_of(original.iloc[order], releases[::-1]).records
    pd.testing.assert_frame_equal(turned, straight.iloc[order])


def test_error_of_the_pooled_risk_is_the_jackknife() -> None:
    original, releases = random_files(4)
    left_out = np.array(
        [
            risk_of(original, releases[:l] + releases[l + 1 :]).records["probability"].sum()
            for l in range(4)
        ]
    )
    expected = np.sqrt(3 / 4 * ((left_out - left_out.mean()) ** 2).sum())
    assert risk_of(original, releases).pooled_mcse == pytest.approx(expected)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "Int64", "Float64"])
def test_numbers_match_however_they_are_stored(dtype: str) -> None:
    original, released = frame("xxy", [100, 60, 7]), frame("xxy", [96, 60, 9])
    plain = risk_of(original, released)
    stored = risk_of(original.astype({"income": dtype}), released.astype({"income": "float64"}))
    assert arrays_of(stored) == arrays_of(plain)


def test_a_release_says_what_it_synthesised() -> None:
    release = Release(datasets=[FIRST[["income"]], SECOND[["income"]]], synthesized=["income"])
    assert arrays_of(risk_of(ORIGINAL, release)) == arrays_of(risk_of(ORIGINAL, [FIRST, SECOND]))


# --- what the result says ------------------------------------------------------------------------


def test_the_radius_is_said_wherever_the_keys_are(tmp_path: Path) -> None:
    risk = risk_of(ORIGINAL.assign(b=1), FIRST.assign(b=1), 0.025, synthesized=["income", "b"])
    assert "looks for the true values of income (within 2.5 %), b in the release" in risk.sentence()
    assert risk.dataset.attrs["radius"] == "income 0.025"
    assert risk_of(ORIGINAL, FIRST, radius={}).dataset.attrs["radius"] == ""
    page = report(risk, tmp_path / "report.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "matched against synthetic values: income (within 2.5 %), b" in page


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("radius", "message"),
    [
        (0.1, r"radius=0.1 is a float; give a dict .* radius=\{'income': 0.1\}"),
        ({"a": 0.1}, r"radius names 'a', .* not under synthesized \(\['income'\]\); list it there"),
        ({"incom": 0.1}, "radius names 'incom', which is not under synthesized"),
        ({"income": -0.1}, r"radius\['income'\]=-0.1 is no relative radius; give a finite number"),
        ({"income": INF}, r"radius\['income'\]=inf is no relative radius"),
        ({"income": NAN}, r"radius\['income'\]=nan is no relative radius"),
        ({"income": "0.1"}, r"radius\['income'\]='0.1' is no relative radius"),
        ({"income": True}, r"radius\['income'\]=True is no relative radius"),
    ],
)
def test_a_bad_radius_is_refused_in_words(radius: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        risk_of(ORIGINAL, FIRST, radius=radius)


@pytest.mark.parametrize(
    ("income", "message"),
    [
        (list("123456"), r"key 'income' \(.*\) of release 2 holds no real numbers.*to_numeric"),
        ([True] * 6, r"key 'income' \(bool\) of release 2 holds no real numbers"),
        (pd.Categorical([1, 2, 3, 4, 5, 6]), r"\(category\) of release 2 holds no real numbers"),
        ([1j] * 6, r"\(complex128\) of release 2 holds no real numbers"),
        ([1, NAN, 3, NAN, 5, 6], "'income' of release 2 has missing values in 2 of 6 records.*cut"),
        (pd.array([1, None, 3, 4, 5, 6], dtype="Int64"), "release 2 has missing values in 1 of 6"),
        ([1, INF, 3, -INF, 5, 6], "release 2 has infinite values in 2 of 6 records, .*fill them"),
    ],
)
def test_a_column_that_no_radius_fits_is_refused_in_words(income: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        risk_of(ORIGINAL, [FIRST, FIRST.assign(income=income)])
    with pytest.raises(InputError, match=message.replace("release 2", "the original")):
        risk_of(ORIGINAL.assign(income=income), [FIRST])


# --- the command line ----------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, table in (("original", ORIGINAL), ("syn", FIRST)):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    return [str(tmp_path / "original.csv"), str(tmp_path / "syn.csv")]


def identify(files: list[str], *words: str) -> Any:
    keys = ["--known", "a", "--synthesized", "income"]
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, ["identify", *files, *keys, *words])


def test_identify_takes_a_radius(files: list[str], tmp_path: Path) -> None:
    done = identify(files, "--radius", " income = 0.1", "--json", str(tmp_path / "out.json"))
    assert done.exit_code == 0, done.output
    assert "income (within 10 %)" in " ".join(done.output.split())
    numbers = json.loads((tmp_path / "out.json").read_text())
    assert numbers["radius"] == {"income": 0.1}
    expected = risk_of(ORIGINAL, FIRST).summary().loc["pooled", "expected_match_risk"]
    assert numbers["measures"]["pooled"]["expected_match_risk"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["income"], "--radius 'income' is not NAME=NUMBER; write it as income=0.1"),
        (["=0.1"], "--radius '=0.1' is not NAME=NUMBER"),
        (["income=much"], "--radius 'income=much' is not NAME=NUMBER"),
        (["income=1", "income=2"], "--radius names 'income' more than once"),
        (["a=0.1"], "radius names 'a', which is not under synthesized"),
        (["income=-1"], "radius['income']=-1.0 is no relative radius"),
    ],
)
def test_identify_names_what_is_wrong_with_a_radius(
    files: list[str], words: list[str], message: str
) -> None:
    done = identify(files, *(part for word in words for part in ("--radius", word)))
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())


# --- the paper's data ----------------------------------------------------------------------------

PEER = {0.01: 319.1, 0.025: 246.1, 0.05: 193.7, 0.1: 159.0, 0.2: 132.4, 0.3: 121.3}
OPEN = 1 - 1e-9  # no difference of these incomes and ages is that near to an end


@pytest.fixture(scope="module")
def consumers(shared_data: Path) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """Consumer Expenditure sample of Hornby & Hu (2021), and three releases of Income by CART."""
    names = [f"peer_runs/ce_income_release{l}.csv.gz" for l in (1, 2, 3)]
    original, *releases = (
        pd.read_csv(shared_data / name) for name in ("ce_hornby_hu_identification.csv.gz", *names)
    )
    return original, releases


def consumer_risk(files: Any, r: float, r_age: float) -> IdentificationRisk:
    """Age, too, within a radius: a key that was not synthesised, listed as if it were."""
    return identification_risk(
        *files,
        known=["Urban", "Marital"],
        synthesized=["Age", "Income"],
        radius={"Age": r_age, "Income": r},
        fallback=False,
    )


@pytest.mark.parametrize("r", PEER)
def test_consumer_incomes_agree_with_the_published_package(consumers: Any, r: float) -> None:
    """Its intervals are open, and nothing matches an income of 0 or less; then the same numbers.

    Its figures are means over 20 releases; of ours it made three.
    """
    risk = consumer_risk(consumers, r * OPEN, 0.1 * OPEN)
    positive = consumers[0]["Income"].to_numpy() > 0
    each = (risk.T / np.maximum(risk.c, 1))[positive].sum(axis=0)
    error = each.std(ddof=1) * np.sqrt(1 / 3 + 1 / 20)
    assert abs(each.mean() - PEER[r]) < 4 * error
    closed = consumer_risk(consumers, r, 0.1).summary().loc["mean", "expected_match_risk"]
    assert closed > each.mean()


def test_consumer_incomes_agree_with_all_pairs(consumers: Any) -> None:
    original, releases = consumers
    keys = [
        NumericKey(
            original[name].to_numpy(float), np.stack([z[name].to_numpy(float) for z in releases]), r
        )
        for name, r in (("Age", 0.1), ("Income", 0.05))
    ]
    cell = (original["Urban"] * 10 + original["Marital"]).to_numpy()
    risk = consumer_risk(consumers, 0.05, 0.1)
    for l in range(3):
        one = [key._replace(value=key.value[l : l + 1]) for key in keys]
        match = matches_of(cell, cell[None], one)[0]
        assert risk.c[:, l].tolist() == match.sum(axis=1).tolist()
        assert risk.T[:, l].tolist() == match.diagonal().tolist()
