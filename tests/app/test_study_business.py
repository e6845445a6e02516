"""Studies of counts: Poisson mixtures, business competitors, intervals; keys, errors, runs."""

import html
import re
import tomllib

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.app.run import run_study
from bayes_risk.app.study import declare
from bayes_risk.app.study.study import parse_study
from bayes_risk.reporting.content import as_toml
from tests.helpers.study_files import check_settings

COUNTS = {"kind": "PoissonMixture"}
MM, TCMM = COUNTS | {"synthesizer": "MM"}, COUNTS | {"synthesizer": "TCMM", "quantile": 0.9}
LARGEST = {"knows_records": "second-largest", "largest": "skilled"}
TWO = {"knows_records": "all-but-two", "other": "B", "knows_totals": True}
GRID = {"bounds": [700, 1500], "n": 801}
INTERVAL = {"interval": [900, 1100], "probability": 0.8}


def content(model=COUNTS, attribute=None, **sections):
    """A study of counts."""
    given = {"guesses": GRID} if attribute is None else attribute
    return {"data": {"path": "a.csv"}, "model": model, "attribute": given} | sections


def with_intruder(model=COUNTS, intruder=LARGEST, release=None, **attribute):
    section = {"guesses": GRID, "intruder": intruder} | attribute
    return content(model, section, release=release or {})


# --- objects of the library, and settings that come back -------------------------------------


def test_sections_become_what_the_library_takes():
    model = TCMM | {
        "n_classes": 7,
        "concentration_prior": [1, 2],
        "rate_prior": {"skilled": [0.5, 0.1]},
        "covariates": ["region"],
        "exposure": "hours",
        "level_prior": 2,
        "thin": 3,
    }
    intruder = LARGEST | {"knows_totals": {"skilled": 900}}
    given = with_intruder(model, intruder, knows_columns=["unskilled"], prior=INTERVAL)
    study = parse_study(given)
    assert study.model.declared() == br.models.PoissonMixture(
        n_classes=7,
        kind="TCMM",
        quantile=0.9,
        concentration_prior=(1.0, 2.0),
        rate_prior={"skilled": (0.5, 0.1)},
        covariates=["region"],
        exposure="hours",
        level_prior=2.0,
    )
    options = study.attribute.options
    assert options["intruder"] == br.Intruder(knows_columns=("unskilled",), **intruder)
    assert options["prior"] == br.Interval(900, 1100, probability=0.8)
    assert options["guesses"] == br.Grid(bounds=(700, 1500), n=801)
    assert options["targets"] is None and options["evidence"] is None


def test_sampling_is_passed_on():
    class Declared:
        def fit(self, df, **how):
            return how

    study = parse_study(content(COUNTS | {"draws": 9, "tune": 8, "chains": 3, "thin": 2}))
    found = declare.fit_model(study, Declared(), pd.DataFrame(), random_seed=1, n_jobs=2)
    expected = {"draws": 9, "tune": 8, "chains": 3, "thin": 2, "missing": "error"}
    assert found == expected | {"splits": None, "random_seed": 1, "n_jobs": 2}


@pytest.mark.parametrize(
    "given",
    [
        content(),
        content(COUNTS | {"zeros": [1, 2], "rate_prior": [0.5, 0.1]}),
        content(COUNTS | {"rate_prior": {"a b": [1, 2]}}, release={"classes": "own"}),
        with_intruder(TCMM, prior=INTERVAL | {"column": "skilled", "spread": "log-uniform"}),
        with_intruder(MM, LARGEST | {"groups": "inferred", "knows_totals": True}),
        with_intruder(intruder=TWO | {"other": 4}, targets=[3]),
        with_intruder(intruder={}),
        content(attribute={"guesses": GRID, "targets": ["A", "B"]}),
    ],
)
def test_printed_settings_are_the_same_study(given):
    check_settings(given)


def test_settings_say_what_means_something_and_no_totals():
    intruder = LARGEST | {"knows_totals": {"skilled": 98765}}
    text = as_toml(parse_study(with_intruder(TCMM, intruder)).settings())
    assert "98765" not in text and "knows_totals = true" in text
    assert "refit_budget" not in text and "classes =" not in text.replace("n_classes", "")
    assert "groups" not in as_toml(parse_study(with_intruder(intruder=TWO, targets=[1])).settings())


# --- whole runs ------------------------------------------------------------------------------

N = 80


@pytest.fixture
def plants(tmp_path):
    """Plants by label: two counts, hours and a region."""
    rng = np.random.default_rng(1)
    size = rng.lognormal(2, 1, N)
    df = pd.DataFrame(
        {
            "id": [f"P{i}" for i in range(N)],
            "skilled": rng.poisson(5 * size),
            "unskilled": rng.poisson(8 * size),
            "hours": rng.choice([1.0, 2.0], N),
            "region": rng.choice(["north", "south"], N),
        }
    ).set_index("id")
    df.to_csv(tmp_path / "a.csv")
    return df


def study_of(tmp_path, df, *, columns=("skilled", "unskilled"), **sections):
    largest, second = df["skilled"].nlargest(2)
    grid = {"bounds": [int(second), 2 * int(largest)], "n": 2 * int(largest)}
    usual = {
        "random_seed": 4,
        "data": {"path": str(tmp_path / "a.csv"), "index": "id", "columns": list(columns)},
        "model": COUNTS | {"n_classes": 6, "draws": 40, "tune": 40, "chains": 2},
        "release": {"m": 2},
        "attribute": {"guesses": {"skilled": grid}, "intruder": LARGEST},
    }
    for name, section in sections.items():
        usual[name] = usual.get(name, {}) | section
    return parse_study(usual)


DOUBT = pytest.mark.filterwarnings(
    "ignore::bayes_risk.UnreliableWeightsWarning", "ignore::bayes_risk.TruncationWarning"
)


@pytest.mark.check
@DOUBT
def test_a_run_says_who_the_intruder_is_and_audits_the_largest(tmp_path, plants):
    study = study_of(tmp_path, plants, model={"synthesizer": "MM"})
    result = run_study(study.with_output(tmp_path / "out"))
    assert list(result.attribute.index) == [plants["skilled"].idxmax()]
    assert result.release.groups is not None
    text = html.unescape((tmp_path / "out" / "report.html").read_text())
    assert "knows the record with the second largest skilled and that the target has more" in text
    assert parse_study(tomllib.loads(re.findall(r"<pre>(.*?)</pre>", text, re.DOTALL)[-1])) == study
    records = pd.read_csv(tmp_path / "out" / "records.csv", index_col="id")
    assert len(records) == 1 and "attribute_skilled_distance_ratio" in records


@pytest.mark.check
@DOUBT
def test_a_run_is_what_a_script_does(tmp_path, plants):
    study = study_of(tmp_path, plants, attribute={"prior": {"interval": [1, 500]}})
    result = run_study(study)
    risk = br.attribute_risk(
        br.models.PoissonMixture(n_classes=6).fit(
            plants[["skilled", "unskilled"]], draws=40, tune=40, chains=2, random_seed=_seeds(4)[0]
        ),
        result.release,
        intruder=br.Intruder(**LARGEST),
        guesses={"skilled": br.Grid(**study.attribute.guesses["skilled"].model_dump())},
        prior=br.Interval(1, 500),
        random_seed=_seeds(4)[2],
    )
    np.testing.assert_array_equal(result.attribute.log_probability, risk.log_probability)


def _seeds(seed):
    return [int(c.generate_state(1)[0]) for c in np.random.SeedSequence(seed).spawn(3)]


@pytest.mark.check
@DOUBT
def test_a_pair_of_plants_with_covariate_and_exposure(tmp_path, plants):
    first, second = plants["skilled"].nlargest(2).index
    total = int(plants["skilled"].sum())
    intruder = TWO | {"other": second, "knows_totals": {"skilled": total}}
    study = study_of(
        tmp_path,
        plants,
        columns=plants.columns,
        model={"covariates": ["region"], "exposure": "hours"},
        release={"classes": "own", "columns": ["skilled"], "m": 1},
        attribute={"intruder": intruder, "targets": [first]},
        identification={"known": ["region"], "synthesized": ["skilled"]},
    )
    result = run_study(study)
    assert list(result.attribute.index) == [first] and result.release.classes == "own"
    assert "that of " + repr(second) in result.attribute.assumptions["records"]


@pytest.mark.check
@DOUBT
def test_files_made_elsewhere_and_groups_inferred(tmp_path, plants):
    made = run_study(study_of(tmp_path, plants, model={"synthesizer": "MM"})).release
    for l, table in enumerate(made.datasets):
        table.to_csv(tmp_path / f"z{l}.csv")
    files = [str(tmp_path / f"z{l}.csv") for l in range(2)]
    study = study_of(
        tmp_path,
        plants,
        model={"synthesizer": "MM"},
        attribute={"intruder": LARGEST | {"groups": "inferred"}},
    )
    release = {"files": files, "columns": ["skilled", "unskilled"]}
    given = study.model_dump() | {"release": release}
    found = run_study(parse_study(given)).attribute
    assert "infers" in found.assumptions["records"]
