"""Candidates compared: the numbers are the parts', the front is that of brute force."""

import itertools
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayes_risk as br
from bayes_risk.data.measures import MEASURES, RISKS, UTILITIES
from bayes_risk.models import CART, DPMPM, Forest
from bayes_risk.reporting.plots.comparison import whisker_ends
from bayes_risk.studies.comparison import dominates, drawn_means, on_front

KEYS = {"known": ["age"], "synthesized": ["edu", "job"]}
GUESSES = {"guesses": br.Neighbourhood(2)}
UTILITY = {"permutations": 2}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    age = rng.integers(3, size=160)
    edu = (age + rng.integers(2, size=160)) % 4
    job = np.where(rng.random(160) < 0.7, edu % 3, rng.integers(3, size=160))
    codes = {"age": age, "edu": edu, "job": job}
    return pd.DataFrame({c: pd.Categorical([f"{c}{k}" for k in v]) for c, v in codes.items()})


@pytest.fixture(scope="module")
def candidates(people):
    fit = CART(order=["edu", "job"]).fit(people, random_seed=7)
    release = fit.synthesize(m=2, random_seed=8)
    return {
        "trees": br.Candidate(CART(order=["edu", "job"]), m=2),
        "one column": br.Candidate(CART(order=["job"]), m=2),
        "a fit": br.Candidate(fit, m=1),
        "audited": (fit, release),
        "elsewhere": release,
        "frames": list(release.datasets),
        "several": [release, fit.synthesize(m=3, random_seed=9)],
    }


@pytest.fixture(scope="module")
def found(people, candidates):
    return br.compare(
        candidates,
        people,
        attribute=GUESSES,
        identification=KEYS,
        utility=UTILITY,
        replicates=3,
        bounds=True,
        random_seed=11,
    )


@pytest.mark.filterwarnings("ignore")
def test_progress_goes_on_within_a_replicate(people):
    told = []
    two = {"few": DPMPM(3), "trees": CART(order=["job"])}
    two = {"few": br.Candidate(two["few"], fit={"draws": 8, "tune": 8}), "trees": two["trees"]}
    br.compare(
        two,
        people,
        attribute={"targets": 3},
        utility=None,
        replicates=2,
        random_seed=0,
        progress=lambda *step: told.append(step),
    )
    assert told[:2] == [("few", 0, 2), ("trees", 0, 2)] and told[-1] == ("trees", 2, 2)
    for name, least in (("few", 4), ("trees", 1)):
        done = [done for step, done, total in told if step == name and total == 2]
        assert done == sorted(done) and {0, 1, 2} <= {*done}
        assert min(len({d for d in done if r < d < r + 1}) for r in (0, 1)) >= least


# --- the numbers of the map are those of the parts ---------------------------------------------


@pytest.mark.parametrize("replicate", [1, 3])
def test_a_model_has_the_numbers_of_separate_calls_with_its_seeds(found, people, replicate):
    seeds = found.seed_table.loc[("trees", replicate)]
    fit = CART(order=["edu", "job"]).fit(people, random_seed=int(seeds["fit"]))
    release = fit.synthesize(m=2, random_seed=int(seeds["release"]))
    row = found.replicates.loc[("trees", replicate)]
    risk = br.attribute_risk(fit, release, random_seed=int(seeds["attribute"]), **GUESSES)
    for name in ("mean_probability", "max_probability", "share_ranked_first", "mean_rank"):
        assert row[name] == risk.summary().at[name, "value"]
    assert row["gain"] == risk.records["probability"].mean() - risk.records["prior"].mean()
    match = br.identification_risk(people, release, **KEYS).summary()
    assert row["expected_match_risk"] == match.at["pooled", "expected_match_risk"]
    assert row["true_match_rate"] == match.at["pooled", "true_match_rate"]
    assert row["mean_true_match_rate"] == match.at["mean", "true_match_rate"]
    alone = found.summary().loc["one column"]["baseline"]
    kept = people.groupby(["age", "edu"], observed=True).size()
    assert alone["true_match_rate"] == alone["mean_true_match_rate"] == (kept == 1).sum() / 160
    useful = br.utility(people, release, random_seed=int(seeds["utility"]), **UTILITY).summary()
    for name in set(useful.index) & set(UTILITIES) & set(found.measures):
        assert row[name] == useful.at[name, "value"] or np.isnan(row[name])
    assert useful.at["pmse_cart", "value"] > 0


def test_a_release_that_was_brought_is_measured_as_it_is(found, people, candidates):
    fit, release = candidates["audited"]
    rows, seeds = found.replicates, found.seed_table
    seed = int(seeds.loc[("audited", 1), "attribute"])
    risk = br.attribute_risk(fit, release, random_seed=seed, **GUESSES).summary()
    assert rows.loc[("audited", 1), "mean_probability"] == risk.at["mean_probability", "value"]
    match = br.identification_risk(people, release, **KEYS).summary()
    for name in ("audited", "elsewhere", "frames"):
        assert found.replicates.loc[name].shape[0] == 1
        assert (
            rows.loc[(name, 1), "expected_match_risk"] == match.at["pooled", "expected_match_risk"]
        )
    assert rows.loc[["elsewhere", "frames"], "mean_probability"].isna().all()
    assert rows.loc["several"].shape[0] == 2
    assert rows.loc[("several", 1), "true_match_rate"] == match.at["pooled", "true_match_rate"]


def test_keys_are_sorted_by_what_is_synthesised(found, people):
    seeds = found.seed_table.loc[("one column", 2)]
    fit = CART(order=["job"]).fit(people, random_seed=int(seeds["fit"]))
    release = fit.synthesize(m=2, random_seed=int(seeds["release"]))
    keys = {"known": ["age", "edu"], "synthesized": ["job"]}
    match = br.identification_risk(people, release, **keys).summary()
    row = found.replicates.loc[("one column", 2)]
    assert row["expected_match_risk"] == match.at["pooled", "expected_match_risk"]
    baseline = found.summary()["baseline"]
    cells = people.groupby(["age", "edu"], observed=True).ngroups  # sum of 1 / N over records
    assert baseline["one column", "expected_match_risk"] == pytest.approx(cells, abs=1e-9)
    assert baseline["trees", "expected_match_risk"] == pytest.approx(3, abs=1e-9)
    assert found.synthesized[:2] == (("edu", "job"), ("job",))


def test_the_ends_of_the_scale_are_those_of_release_bounds(found, people):
    table = found.bounds
    assert "mean_probability" not in table  # no model made them
    unchanged = br.identification_risk(people, people.copy(), **KEYS).summary()
    assert table.at["unchanged", "expected_match_risk"] == pytest.approx(
        unchanged.at["pooled", "expected_match_risk"], abs=1e-9
    )
    assert table.at["unchanged", "pmse_main"] < 1e-6 < table.at["minimum", "pmse_main"]
    assert table.at["minimum", "true_match_rate"] < table.at["unchanged", "true_match_rate"]


def test_summary_has_mean_spread_and_error(found):
    rows, table = found.replicates, found.summary()
    x = rows.loc["trees", "mean_probability"]
    of = table.loc[("trees", "mean_probability")]
    assert of["mean"] == pytest.approx(x.mean(), abs=1e-15)
    assert of["sd"] == pytest.approx(x.std(), abs=1e-15)
    assert of["mcse"] == pytest.approx(x.std() / np.sqrt(3), abs=1e-15)
    assert of["baseline"] == pytest.approx(1 / 12, abs=1e-12) and np.isnan(of["null"])
    null = table.loc[("trees", "ratio_cart")]
    assert null["null"] == 1 and np.isnan(null["baseline"])
    once = table.loc[("audited", "pmse_main")]  # one replicate: the error between its data sets
    assert np.isnan(once["sd"]) and once["mcse"] > 0 and once["replicates"] == 1
    assert ("elsewhere", "mean_probability") not in table.index


# --- seeds --------------------------------------------------------------------------------------


def test_a_candidate_has_its_numbers_whatever_it_stands_beside(people):
    how = {"attribute": {**GUESSES, "targets": 20}, "identification": KEYS}
    how |= {"utility": UTILITY, "replicates": 2, "random_seed": 4}
    forest = br.Candidate(Forest(order=["edu", "job"], n_trees=20), m=2)
    alone = br.compare({"forest": forest}, people, **how)
    both = br.compare({"trees": CART(order=["job"]), "forest": forest}, people, n_jobs=2, **how)
    ours, theirs = alone.replicates, both.replicates.loc[["forest"]]
    assert ours.notna().any().sum() > 20
    pd.testing.assert_frame_equal(theirs[ours.columns], ours, check_exact=True)
    values = ours["mean_probability"].to_numpy()
    assert values[0] != values[1]  # another seed, another release
    other = br.compare({"forest": forest}, people, **{**how, "random_seed": 5})
    assert (other.replicates["mean_probability"].to_numpy() != values).all()


def test_targets_are_drawn_once_for_all(people, monkeypatch):
    from bayes_risk.studies import compare as measuring

    asked = []
    true = measuring.attribute_risk

    def spy(*args, targets, **how):
        asked.append(targets)
        return true(*args, targets=targets, **how)

    monkeypatch.setattr(measuring, "attribute_risk", spy)
    monkeypatch.setattr(measuring, "check_candidate_options", lambda *_: None)
    two = {"a": CART(order=["job"]), "b": CART(order=["edu"])}
    attribute = {"targets": 15, "guesses": {"edu": br.Levels(), "job": br.Levels()}}
    br.compare(two, people, attribute=attribute, utility=None, replicates=1, random_seed=0)
    assert asked[0].sum() == 15 and (asked[0] == asked[1]).all()


def test_guesses_and_knowledge_are_of_what_is_synthesised():
    from bayes_risk.studies.compare import sorted_guesses

    grids = {"a": br.Grid(additive=1.0, n=3), "b": br.Levels(), "c": br.Levels()}
    knows = br.Intruder(knows_columns=("a", "z"))
    for guesses in (grids, br.JointGrid(grids)):
        found = sorted_guesses({"guesses": guesses, "intruder": knows}, ["a", "b"])
        kept = found["guesses"] if guesses is grids else found["guesses"].grids
        assert list(kept) == ["b"] and found["intruder"].knows_columns == ("a",)
    assert sorted_guesses({"guesses": None}, ["a"]) == {"guesses": None}


# --- the front ----------------------------------------------------------------------------------


def test_the_front_is_that_of_brute_force():
    rng = np.random.default_rng(0)
    losses = rng.integers(4, size=(60, 5, 2)).astype(float)  # ties too
    for points, front, beaten in zip(losses, on_front(losses), dominates(losses), strict=True):
        for a, b in itertools.product(range(5), repeat=2):
            worse = all(points[b] <= points[a]) and any(points[b] < points[a])
            assert beaten[a, b] == worse
        assert front.tolist() == [not beaten[a].any() for a in range(5)]
        assert front.any()


def test_means_are_drawn_with_the_covariance_of_the_replicates():
    rng = np.random.default_rng(1)
    x = rng.multivariate_normal([1, 2], [[1, 0.8], [0.8, 1]], size=30)
    size = 40_000
    drawn = drawn_means(x, np.zeros(2), size, rng)
    # a Student's covariance is df / (df - 2) of its scale
    wanted = np.cov(x.T) / 30 * 29 / 27
    spread = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)) * 2.5 / size)
    assert (np.abs(np.cov(drawn.T) - wanted) < 4 * spread).all()
    z = (drawn.mean(axis=0) - x.mean(axis=0)) / np.sqrt(np.diag(wanted) / size)
    assert (np.abs(z) < 4).all()
    # each margin is Student with 29 degrees of freedom
    t = (drawn[:, 0] - x[:, 0].mean()) / (x[:, 0].std(ddof=1) / np.sqrt(30))
    assert stats.kstest(t, stats.t(29).cdf).pvalue > 1e-4


def hand_made(values, errors=None, lower=True):
    """A comparison of candidates with these (C, R, 2) risks and utilities."""
    values = np.asarray(values, dtype=float)
    utility = "pmse_cart" if lower else "interval_overlap"
    shape = values.shape[:2]
    return br.Comparison(
        names=tuple("abcdefgh"[: shape[0]]),
        measures=("expected_match_risk", utility),
        values=values,
        errors=np.full(values.shape, np.nan) if errors is None else np.asarray(errors, float),
        beside=np.full(values.shape, np.nan),
        seeds=np.zeros((*shape, 4), dtype=np.int64),
        replicates_of=(shape[1],) * shape[0],
        m=(1,) * shape[0],
        synthesized=((),) * shape[0],
        ends=None,
        random_seed=3,
    )


def test_probability_of_the_front_is_the_closed_form_of_two_normals():
    # b can only be beaten by a: in both, and the errors are independent
    errors = [[[0.5, 0.3]], [[0.2, 0.4]]]
    found = hand_made([[[1.0, 1.0]], [[1.4, 1.2]]], errors)
    table = found.pareto()
    beaten = stats.norm.cdf(0.4 / np.hypot(0.5, 0.2)) * stats.norm.cdf(0.2 / np.hypot(0.3, 0.4))
    error = np.sqrt(beaten * (1 - beaten) / 4000)
    assert abs(table.at["b", "probability"] - (1 - beaten)) < 4 * error
    assert not table.at["b", "on_front"] and table.at["b", "dominated_by"] == "a"
    assert table["in_doubt"].all()


def test_doubt_vanishes_with_the_errors_and_is_said_where_they_are_not_known():
    clear = hand_made([[[1, 3]] * 2, [[2, 2]] * 2, [[2, 4]] * 2]).pareto()
    assert clear["on_front"].to_dict() == {"b": True, "a": True, "c": False}
    assert clear["probability"].to_dict() == {"b": 1.0, "a": 1.0, "c": 0.0}
    assert not clear["in_doubt"].any() and clear.at["c", "dominated_by"] == "a, b"
    unknown = hand_made([[[1, 3]], [[2, 2]]]).pareto()
    assert unknown["probability"].isna().all() and unknown["in_doubt"].all()


def test_more_is_better_where_the_measure_says_so():
    table = hand_made([[[1, 0.9]] * 2, [[2, 0.5]] * 2], lower=False).pareto()
    assert table.index.tolist() == ["a", "b"]  # the most useful first
    assert table["on_front"].tolist() == [True, False]
    assert table["utility"].tolist() == [0.9, 0.5]


# --- the map ------------------------------------------------------------------------------------


def test_whiskers_end_at_the_extremes_or_within_reach():
    x = np.column_stack([[0, 1, 2, 3, 20.0], [5, 5, 5, 5, 5.0]])
    assert whisker_ends(x, None).tolist() == [[0, 5], [20, 5]]
    # quartiles 1 and 3: reach 1.5 * 2, so that 20 is beyond 3 + 3
    assert whisker_ends(x, 1.5).tolist() == [[0, 5], [3, 5]]


def marks(axes):
    return {line.get_label(): line for line in axes.lines if line.get_label()[0] != "_"}


def test_boxes_stand_at_the_quartiles_and_marks_at_the_means(found):
    axes = found.plot("expected_match_risk", "pmse_main")
    points = found.points("trees", "expected_match_risk", "pmse_main")
    assert points.shape == (3, 2)
    assert points[:, 1].tolist() == found.replicates.loc["trees", "expected_match_risk"].tolist()
    low, high = np.percentile(points, [25, 75], axis=0)
    outlines = [p for p in axes.patches if not p.get_fill()]
    assert any(
        np.allclose([*p.get_xy(), p.get_width(), p.get_height()], [*low, *(high - low)])
        for p in outlines
    )
    assert np.allclose(np.ravel(marks(axes)["trees"].get_data()), points.mean(axis=0))
    # trees, one column, a fit, several: more than one replicate
    assert len(outlines) == 4
    front = found.pareto("expected_match_risk", "pmse_main").query("on_front")
    if len(front) > 1:
        line = marks(axes)["Pareto front"]
        assert line.get_xdata().tolist() == front["utility"].tolist()
        assert line.get_ydata().tolist() == front["risk"].tolist()


def test_candidates_are_told_apart_by_colour_and_by_marker(found):
    axes = found.plot("expected_match_risk", kind="points")
    drawn = [marks(axes)[name] for name in found.names]
    assert len({line.get_marker() for line in drawn}) == len(drawn) == 7
    assert len({line.get_color() for line in drawn}) == 7
    assert not axes.patches
    assert "expected correct matches" in axes.get_ylabel() and "less risk" in axes.get_ylabel()
    assert "pMSE" in axes.get_xlabel()


def test_ends_of_the_scale_are_marked_if_asked_for(found):
    axes = found.plot("expected_match_risk", "pmse_main", kind="rectangles", bounds=True)
    told = " ".join(text.get_text() for text in axes.texts)
    assert all(name in told for name in ("minimum", "maximum", "unchanged"))
    assert "without the release" not in marks(axes)  # it differs between candidates
    with pytest.raises(br.InputError, match="bounds=True needs releases at the ends"):
        found.plot("mean_probability", bounds=True)


def test_a_picture_is_drawn_of_every_kind(found, tmp_path):
    for kind in ("points", "rectangles", "boxes"):
        axes = found.plot(kind=kind, whiskers=1.5)
        axes.figure.savefig(tmp_path / f"{kind}.png", dpi=40)
        assert (tmp_path / f"{kind}.png").stat().st_size > 3_000


# --- shown and kept -----------------------------------------------------------------------------


def test_what_is_shown(found):
    text = repr(found)
    assert text.startswith("Comparison: 7 candidates, 1 to 3 replicates")
    assert (
        "better in both measures (probability of the true values, mean over records; pMSE, tree)"
        in text
    )
    assert "Without the release this risk is 0.083 to 0.333" in text
    assert "elsewhere" not in text.split("\n\n")[1]  # it has no attribute risk
    assert "Without the release" not in hand_made([[[1, 3]] * 2, [[2, 2]] * 2]).sentence()
    single = hand_made([[[1, 3]] * 2]).sentence()
    assert single.startswith("A single candidate, a: no other to compare it with")


def test_the_dataset_is_kept_in_a_file(found, tmp_path):
    import xarray as xr

    found.dataset.to_netcdf(tmp_path / "c.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "c.nc") as kept:
        assert kept.sizes == {"candidate": 7, "replicate": 3, "stage": 4, "release": 3}
        of = kept["pmse_cart"].sel(candidate="trees").to_numpy()
        assert of.tolist() == found.replicates.loc["trees", "pmse_cart"].tolist()
        assert int(kept["m"].sel(candidate="trees")) == 2


def test_utility_alone_has_no_map(people):
    two = {"a": CART(order=["job"]), "b": CART(order=["edu"])}
    found = br.compare(two, people, utility=UTILITY, replicates=1, random_seed=1)
    assert found.sentence() == "2 candidates, 1 replicate of each."
    assert "pmse_main" in repr(found) and not set(found.measures) & set(RISKS)
    with pytest.raises(br.InputError, match="no risk was measured; give attribute= or ident"):
        found.plot()


def test_every_measure_is_one_of_a_risk_or_of_utility():
    assert set(RISKS) | set(UTILITIES) == set(MEASURES) and not set(RISKS) & set(UTILITIES)


# --- what is wrong ------------------------------------------------------------------------------

TREES = {"a": CART(order=["job"])}


@pytest.mark.parametrize(
    ("given", "how", "message"),
    [
        ({}, {}, "candidates must be a dict of name to candidate"),
        ([CART(order=["job"])], {}, "candidates must be a dict"),
        ({3: CART(order=["job"])}, {}, "candidate name 3 is not a text"),
        ({"a": CART}, {}, "candidate 'a': class CART is not a model; give a declaration such as"),
        ({"a": 7}, {}, "candidate 'a': a int is not a model"),
        (TREES, {"replicates": 0}, "replicates=0 is too small"),
        (TREES, {"utility": None}, "nothing to measure; give attribute"),
        (TREES, {"attribute": {"gueses": None}}, "attribute has no option 'gueses'; give some of"),
        (TREES, {"attribute": {"n_jobs": 2}}, "attribute has no option 'n_jobs'"),
        (TREES, {"attribute": 3}, "attribute=3 is not a dict of options"),
        (TREES, {"identification": {"known": ["x"]}}, "identification names column 'x'"),
        (TREES, {"bounds": {"model": 1}}, "bounds has no option 'model'"),
        ({"a": CART(order=["pay"])}, {}, "candidate 'a': .*pay"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_told(people, given, how, message):
    options = {"utility": UTILITY, "replicates": 1, "random_seed": 1} | how
    with pytest.raises(br.InputError, match=message):
        br.compare(given, people, **options)


def test_options_of_a_candidate_are_checked(people):
    with pytest.raises(br.InputError, match="fit has no option 'draw'; give some of"):
        br.Candidate(DPMPM(), fit={"draw": 3})
    fit = CART(order=["job"]).fit(people, random_seed=1)
    with pytest.raises(br.InputError, match="the model is fitted already"):
        br.Candidate(fit, fit={"draws": 3})
    with pytest.raises(br.InputError, match="m=0 is too small"):
        br.Candidate(fit, m=0)
    wrong = {"a": br.Candidate(fit, synthesis={"classes": "own"})}
    with pytest.raises(br.InputError, match="candidate 'a': synthesis has no option 'classes'"):
        br.compare(wrong, people, replicates=1)
    with pytest.raises(br.InputError, match="beside a fit stands a list; give"):
        br.compare({"a": (fit, [people])}, people)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"kind": "violins"}, "kind='violins' is not known"),
        ({"whiskers": -1}, "whiskers=-1; give a number above 0"),
        ({"risk": "pmse_cart"}, "risk='pmse_cart' is not a measured risk; give one of"),
        ({"utility": "interval_overlap"}, "utility='interval_overlap' is not a measured utility"),
    ],
)  # fmt: skip
def test_a_map_of_what_is_not_there(found, how, message):
    with pytest.raises(br.InputError, match=message):
        found.plot(**how)


# --- the page -----------------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sensitivity.md"


@pytest.mark.check
def test_the_page_runs_and_names_measures_that_exist():
    text = PAGE.read_text()
    code = re.findall(r"```python\n(.*?)```", text, flags=re.S)[0]
    room = {}
    exec(code.replace("replicates=10", "replicates=2"), room)  # noqa: S102
    assert room["found"].names == ("both", "both, large leaves", "profession alone")
    section = text.partition("## Measures")[2].partition("## The map")[0]
    known = {name.rpartition("_")[0] for name in MEASURES} | set(MEASURES) | {"mean_", "analyses"}
    assert set(re.findall(r"`([a-z0-9_]+)`", section)) <= known
