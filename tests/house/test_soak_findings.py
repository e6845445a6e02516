"""What random studies have found (``make soak``), each as small as it could be made."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import bayes_risk as br
from bayes_risk import InputError
from bayes_risk.app.output import workplace
from bayes_risk.data.spreadsheet import _column
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.intruder.grids import Search
from bayes_risk.models.pmm.mechanism import _multinomial
from bayes_risk.risk.full_table.tables import _Walk
from bayes_risk.risk.posterior import _left_out
from tests.helpers.every_result import every

SCALE = [1e300, -1e300, 1e31, 5e-320, 1e-120]


def numbers(n=20, factor=1.0):
    rng = np.random.default_rng(1)
    return pd.DataFrame({"x": factor * (1 + rng.random(n)), "y": rng.normal(size=n)})


# --- numbers beyond what squares and single precision can hold --------------------------------


@pytest.mark.parametrize("factor", SCALE)
@pytest.mark.parametrize(
    "model",
    [
        br.models.Regression({"x": "1 + y"}),
        br.models.CART(["y"]),
        br.models.PMM(["y"], identifying=["y"], cuts={"y": [0.0]}, threshold=10),
    ],
    ids=lambda model: type(model).__name__,
)
def test_numbers_too_large_or_too_small_are_named(model, factor):
    with pytest.raises(br.InputError, match="'x' of the original has 20 numbers .* power of ten"):
        model.fit(numbers(factor=factor))


@pytest.mark.parametrize("factor", SCALE)
def test_utility_names_them_too(factor):
    table = numbers(30, factor)
    with pytest.raises(br.InputError, match="'x' of the original has 30 numbers"):
        br.utility(table, table[::-1].reset_index(drop=True), numbers=["x"], permutations=2)


@pytest.mark.parametrize("times", [2.0**1000, 2.0**1018])
def test_links_of_huge_numbers_are_those_of_the_same_numbers_in_another_unit(times):
    rng = np.random.default_rng(1)
    x, y = rng.lognormal(size=(2, 200))
    shown = [np.where(np.arange(200) < 40, x, np.roll(x, 7)), x * (1 + 0.001 * y), x * 1e-3]
    for values in shown:
        found = [
            br.links(pd.DataFrame({"x": x * k, "y": y}), pd.DataFrame({"x": values * k, "y": y}))
            for k in (1.0, times)
        ]
        pd.testing.assert_frame_equal(found[0].summary(), found[1].summary())


def test_exposure_of_huge_numbers_brings_no_warning():
    table = numbers(60, 1e308 / 2)
    moved = table.assign(x=np.roll(table["x"], 1))
    assert br.exposure(table, [moved]).summary().notna().any(axis=None)


def test_guesses_beyond_reason_are_named():
    model = br.models.Regression({"x": "1"})
    fit = model.fit(numbers(), draws=8, chains=2, random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    with pytest.raises(br.InputError, match="'x' of the guesses has .* above 1e\\+30"):
        br.attribute_risk(fit, release, guesses={"x": br.Grid(additive=1e300, n=3)})


def test_correlation_of_tiny_numbers_is_that_of_the_same_numbers_in_another_unit():
    """Squares of 1e-90 are 1e-180, their products of squares nothing."""
    table = numbers(60)
    release = table.assign(y=table["y"].to_numpy()[::-1])
    found = [
        br.utility(factor * table, factor * release, permutations=2, random_seed=1)
        .pairs["correlation_original"]
        .iloc[0]
        for factor in (1.0, 1e-90)
    ]
    expected = stats.pearsonr(table["x"], table["y"])[0]
    assert np.allclose(found, expected, rtol=1e-9)


# --- priors, privacy loss ----------------------------------------------------------------------


def test_an_interval_that_holds_every_guess_is_the_uniform_prior():
    model = br.models.Regression({"x": "1"})
    fit = model.fit(numbers(), draws=8, chains=2, random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    how = {"guesses": {"x": br.Grid(bounds=(0.0, 4.0), n=5, truth="nearest")}, "random_seed": 3}
    inside = br.attribute_risk(fit, release, prior=br.Interval(-9, 9, 0.5), **how)
    prior = np.exp(inside.log_prior)
    assert np.allclose(prior.sum(axis=0), 1)
    assert np.allclose(prior, 1 / 5)  # guesses are alike far, at the ends too


def test_privacy_loss_without_a_possible_guess_is_refused_as_the_risk_is():
    """The nearest guess stands for the truth, and no leaf can have given the release by any."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"x": rng.normal(size=40), "z": rng.choice(["a", "b"], 40)})
    fit = br.models.CART(["x"], min_leaf=2, bootstrap="none").fit(table, random_seed=1)
    release = fit.synthesize(m=3, random_seed=2)
    guesses = {"x": br.Grid(values=[100.0, 200.0], truth="nearest")}
    evidence = br.attribute_evidence(fit, release, guesses=guesses, random_seed=3)
    for question in (lambda: evidence.risk("uniform"), lambda: br.privacy_loss(evidence)):
        with pytest.raises(br.InputError, match="the truth is not among them"):
            question()


# --- models --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [br.models.CART, br.models.Forest], ids=["CART", "Forest"])
def test_nearly_as_many_levels_as_records_bring_no_warning(make):
    """Scikit-learn advises a regression then, which is nothing for categories."""
    table = pd.DataFrame({"x": [f"v{k // 2}" if k < 8 else f"w{k}" for k in range(30)]})
    table["z"] = ["a", "b"] * 15
    release = make(["x"]).fit(table, random_seed=1).synthesize(m=1, random_seed=2)
    assert release.m == 1


def test_a_perfect_smooth_fit_gives_way_to_least_squares():
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"x": np.repeat(np.arange(15.0), 4), "z": rng.choice(["a", "b"], 60)})
    table["y"] = 2.0 * table["x"]
    fit = br.models.PMM(["y"], identifying=["x", "z"], threshold=1).fit(table)
    assert any("least squares" in note for note in fit.notes)
    assert np.isfinite(fit.synthesize(m=1, random_seed=1).datasets[0]["y"]).all()


# --- messages ------------------------------------------------------------------------------------


def test_messages_stay_short_whatever_columns_are_called():
    table = pd.DataFrame({"x" * 200_000: [1, 2], "y": [1, 2]})
    with pytest.raises(br.InputError, match="z") as caught:
        br.identification_risk(table, table, known=["z"], synthesized=["y"])
    assert len(str(caught.value)) <= 2_000


def test_the_rank_of_a_truth_that_is_all_but_certain_has_a_span():
    """An error of log odds of 1e283, where the odds are infinite, is beyond single precision."""
    walk = SimpleNamespace(log_post=np.array([[0.0, -5.0]], dtype=np.float32))
    assert [_Walk._rank(walk, shift) for shift in (1e283, 0.0, -1e283)] == [1.0, 1.0, 2.0]


# --- what is kept, what is said -----------------------------------------------------------------


def test_whole_numbers_of_a_workbook_beyond_64_bits_are_text_as_in_a_csv():
    """Excel stores no such number, a damaged workbook does: an OverflowError of pandas."""
    for cell in (10**18, -(10**19), 10**400):
        assert _column([5, None, cell]).tolist()[::2] == ["5", str(cell)]
    assert _column([5, 10**18 - 1]).dtype == "int64"


@pytest.mark.parametrize("dtype", ["int64", "Int64", "uint64"])
def test_whole_numbers_that_doubles_would_round_are_named(dtype):
    """They were released as others, in columns that were not synthesised too."""
    table = numbers().assign(z=pd.Series(2**53 + np.arange(20)).astype(dtype))
    with pytest.raises(br.InputError, match="'z' of the original has 20 whole numbers above 9,007"):
        br.models.CART(["x"]).fit(table)
    table["z"] -= 20
    release = br.models.CART(["x"]).fit(table).synthesize(m=1, random_seed=1)
    assert release.datasets[0]["z"].equals(table["z"])


def test_chains_that_stand_still_at_different_places_have_an_infinite_rhat():
    """NumPy warned of a division by zero."""
    still = np.repeat([1.0, 2.0], 4)
    ess, rhat = ess_and_rhat(np.column_stack([still, np.ones(8)]), n_chains=2)
    assert np.isposinf(rhat[0]) and ess[0] <= len(still)
    assert rhat[1] == 1 and ess[1] == len(still)


DAMAGED = {
    "no text": b"\xff",
    "empty": b"",
    "a list": b"[]",
    "without a seed": b'{"run": {}}',
    "a word for a seed": b'{"random_seed": "x", "run": {}, "sha256": ""}',
    "infinity for a seed": b'{"random_seed": Infinity, "run": {}, "sha256": ""}',
    "too many digits": b'{"random_seed": ' + b"9" * 5_000 + b', "run": {}, "sha256": ""}',
    "nested": b'{"run": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "huge": b" " * 10_000_001,
    "another digit of the seed": None,
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_note_of_the_run_is_refused_and_nothing_is_deleted(content, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        with workplace(tmp_path / "out", {"a": 1}, 1234) as place:
            place.store.put("s", {"x": np.arange(3)})
            raise KeyboardInterrupt
    (path,) = (tmp_path / ".out.work").glob("*.npz")
    path.write_bytes(path.read_bytes().replace(b"1234", b"1235") if content is None else content)
    before = sorted((p, p.read_bytes()) for p in path.parent.rglob("*") if p.is_file())
    with pytest.raises(InputError, match="is damaged: .*--restart") as caught:
        with workplace(tmp_path / "out", {"a": 1}, 6):
            pass
    assert "\n" not in str(caught.value)
    after = sorted((p, p.read_bytes()) for p in path.parent.rglob("*") if p.is_file())
    assert [f for f in after if f[0].name != "lock"] == [f for f in before if f[0].name != "lock"]
    with workplace(tmp_path / "out", {"a": 1}, 6, restart=True) as place:
        assert place.random_seed == 6 and len(place.store) == 0


def test_a_folder_in_place_of_the_note_is_refused(tmp_path):
    for folder in (tmp_path / ".out.work", tmp_path / ".out.work" / "note.npz"):
        folder.mkdir(mode=0o700)
    with pytest.raises(InputError, match="is damaged: .*--restart"):
        with workplace(tmp_path / "out", {"a": 1}, 6):
            pass


@pytest.mark.parametrize("name", ["privacy loss", "membership", "full table"])
def test_the_screen_says_how_many_numbers_are_unreliable(name):
    found = every()[name]
    half = np.arange(len(found.reliable)) % 2 == 0
    for reliable in (half, np.ones(len(half), dtype=bool)):
        line = replace(found, reliable=reliable).line()
        records = replace(found, reliable=reliable).records
        doubtful = int((~records["reliable"]).sum())
        said = f"; {doubtful} of {len(records)} records unreliable"
        assert line.endswith(said) if doubtful else "unreliable" not in line


def test_a_bayes_factor_beyond_doubles_is_infinite_and_no_error():
    found = every()["membership"]
    large = replace(found, log_bayes_factor=found.log_bayes_factor + 1e4)
    assert "factor \N{INFINITY}" in large.sentence() and (large.records["probability"] == 1).all()


@pytest.mark.parametrize(("others", "rest"), [(-np.inf, -np.inf), (0.0, np.inf)])
def test_a_search_whose_truth_is_impossible(others, rest):
    """Infinity less infinity: nothing is left out where nothing is possible."""
    points = [np.linspace(0, 1, 81)[:, None]] * 2
    counted, truth = [np.ones((81, 1), dtype=bool)] * 2, [np.array([40])] * 2
    search = Search(points, counted, truth, budget=1000)
    log_p = np.full(search.coarse().codes.shape[:2], others)
    log_p[0] = -np.inf
    left = search.finer(log_p)[1]
    log_p = np.full(left.guesses.counted.shape, others)
    log_p[0] = -np.inf
    assert left.log_at_most(np.zeros(log_p.shape), log_p).tolist() == [rest]


def test_what_a_search_left_out_of_a_truth_that_is_impossible_may_be_all():
    log_truth, log_rest = np.array([-np.inf, -np.inf, 0.0]), np.array([np.inf, 0.0, -np.inf])
    assert _left_out(log_truth, log_rest).tolist() == [1.0, 0.0, 0.0]


def test_donors_that_all_have_one_number_are_predicted_without_a_warning():
    """Their deviation was 0, by which NumPy divided."""
    df = pd.DataFrame({"g": ["a"] * 10 + ["b"] * 2, "x": [4.0] * 10 + [6.0, 7.0]})
    fit = br.models.PMM(["x"], identifying=["g"], threshold=3).fit(df)
    release = fit.synthesize(m=2, random_seed=1)
    assert (release.datasets[0]["x"] == 4).all()
    guesses = {"x": br.Grid(additive=30, n=6, truth="add")}
    risk = br.attribute_risk(fit, release, guesses=guesses, random_seed=1)
    found = risk.records["probability_predictive"]
    assert np.isfinite(found).all() and (found < 1).all()  # one further record may have any


def test_multinomial_means_far_from_the_rows_of_the_fit():
    """The exponential overflowed, and probabilities were missing."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=90)
    y = (x + rng.logistic(size=90) > 0).astype(float) + (x + rng.logistic(size=90) > 1)
    notes: list[str] = []
    means = _multinomial(y, lambda rows: rows[:, None].astype(float), x, notes)
    probabilities = means(np.array([-1e12, 0.0, 1e12]))
    assert notes == [] and np.allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    assert probabilities[0].tolist() == [1, 0, 0] and probabilities[2].tolist() == [0, 0, 1]


@pytest.mark.parametrize("kept_as", ["text", "dictionary"])
def test_text_of_parquet_that_is_not_utf8_is_refused_when_it_is_read(kept_as, tmp_path):
    words = pa.array(["good", "bad!", "good"])
    offsets, content = words.buffers()[1:]
    broken = pa.py_buffer(content.to_pybytes().replace(b"bad!", b"ba\xff!"))
    column = pa.Array.from_buffers(pa.string(), 3, [None, offsets, broken])
    if kept_as == "dictionary":
        column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0], pa.int32()), column)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": column}), path)
    with pytest.raises(br.InputError, match="column 'x' of .* text that is not UTF-8"):
        br.read_table(path)


def test_counts_of_numbers_near_zero_without_a_warning():
    """One over a number, and ratios of numbers to it, overflowed."""
    rng = np.random.default_rng(2)
    near = 1e-309 * (1 + rng.random(60))
    df = pd.DataFrame({"g": list("abc") * 20, "x": near, "y": 1e-310 * rng.normal(size=60)})
    other = df.assign(x=near[::-1], y=1e-309 * rng.normal(size=60))
    other.loc[3, "y"] = 0.5
    keys = {"known": ["g"], "synthesized": ["x", "y"]}
    found = br.identification_risk(df, [other], **keys)
    assert found.exposure.m == 1


def test_a_release_of_few_donors_has_one_risk_whatever_the_order_of_the_columns():
    """Of predictors that add up, one is left out: which one rested on their order."""
    df = pd.DataFrame(
        {
            "a": list("mmnn"),
            "b": list("nnnm"),
            "c": list("mmnn"),
            "d": list("mnop") * 1,
            "e": [-1, 6, 4, 7],
            "f": [0.125, -0.132, 0.640, 0.104],
        }
    )
    model, how = br.models.PMM(["f"], identifying=["b"], threshold=1), {"random_seed": 1}
    release = model.fit(df).synthesize(m=3, random_seed=2)
    guesses = {"f": br.Grid(additive=0.3, n=5)}
    risk = br.attribute_risk(model.fit(df), release, guesses=guesses, **how)
    for order in (["f", "e", "d", "c", "b", "a"], ["d", "c", "f", "e", "a", "b"]):
        again = br.attribute_risk(model.fit(df[order]), release, guesses=guesses, **how)
        assert np.allclose(again.records["probability"], risk.records["probability"], rtol=1e-9)
