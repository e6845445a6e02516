"""[identification] of a study file: radii of every kind, populations, strategies."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.app.run import run_study
from bayes_risk.app.study.study import read_study

N = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A population, a sample of it, and two files in which pay was synthesised."""
    rng = np.random.default_rng(2)
    people = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], 600),
            "job": rng.choice(list("abc"), 600),
            "pay": rng.lognormal(3, 0.5, 600).round(1),
        }
    )
    place = tmp_path_factory.mktemp("study")
    people.to_csv(place / "people.csv", index=False)
    sample = people.head(N)
    sample.to_csv(place / "sample.csv", index=False)
    for l in (1, 2):
        released = sample.assign(
            pay=(sample["pay"] * rng.normal(1, 0.1, N)).round(1),
            job=np.where(rng.random(N) < 0.7, sample["job"], rng.choice(list("abc"), N)),
        )
        released.to_csv(place / f"z{l}.csv", index=False)
    return place


def written(folder, identification):
    synthesized = '["job"]' if "population" in identification else '["pay", "job"]'
    text = f"""
[data]
path = "sample.csv"

[release]
files = ["z1.csv", "z2.csv"]
columns = ["pay", "job"]

[identification]
known = ["sex"]
synthesized = {synthesized}
{identification}
"""
    path = folder / "study.toml"
    path.write_text(text)
    return path


def tables(folder):
    return [pd.read_csv(folder / name) for name in ("people.csv", "sample.csv", "z1.csv", "z2.csv")]


EXACT = ["sex", "job"]


@pytest.mark.check
@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("radius = { pay = 0.1 }", lambda *_: {"radius": {"pay": 0.1}}),
        (
            "radius = { pay = { absolute = 2 } }\nclosed = false",
            lambda *_: {"radius": {"pay": br.Absolute(2)}, "closed": False},
        ),
        (
            "radius = { pay = { sd = 1, groups = 5 } }",
            lambda *_: {"radius": {"pay": br.SD(1, groups=5)}},
        ),
        (
            'strategy = 0.9\npopulation = { file = "people.csv" }',
            lambda people, *_: {
                "strategy": 0.9,
                "population": br.Population.counted(people, EXACT),
            },
        ),
        (
            "radius = { pay = { quantile = 0.05 } }",
            lambda *_: {"radius": {"pay": br.Quantile(0.05)}},
        ),
        (
            'missing = { job = "never" }\n'
            'population = { size = 600, fitted_to = "releases" }\nstrategy = "likeliest"',
            lambda people, sample, *z: {
                "missing": {"job": "never"},
                "population": [br.Population.log_linear(t, EXACT, size=600) for t in z],
                "strategy": "likeliest",
            },
        ),
    ],
)
def test_the_file_says_what_the_library_takes(folder, said, meant):
    found = run_study(read_study(written(folder, said))).identification
    people, sample, *z = tables(folder)
    options = meant(people, sample, *z)
    keys = ["job"] if "population" in options else ["pay", "job"]
    expected = br.identification_risk(sample, z, known=["sex"], synthesized=keys, **options)
    pd.testing.assert_frame_equal(found.summary(), expected.summary())
    assert found.sentence() == expected.sentence()


@pytest.fixture(scope="module")
def coded(tmp_path_factory):
    """Codes with zeros in front and files of R: NA is a missing value, in both files."""
    rng = np.random.default_rng(4)
    people = pd.DataFrame({"sex": rng.choice(["f", "m"], 400)})
    people["region"] = rng.choice(["01", "02", "03", "NA"], 400)
    people.loc[300:, "region"] = rng.choice(["01", "99"], 100)  # 99: nobody in the sample
    place = tmp_path_factory.mktemp("coded")
    people.to_csv(place / "people.csv", index=False)
    people.head(80).to_csv(place / "sample.csv", index=False)
    people.head(80).assign(region=np.roll(people["region"].head(80), 1)).to_csv(
        place / "z.csv", index=False
    )
    (place / "study.toml").write_text(
        """
[data]
path = "sample.csv"
na = ["NA"]
missing = "level"

[data.levels]
region = ["01", "02", "03"]

[release]
files = ["z.csv"]
columns = ["region"]

[identification]
known = ["sex"]
synthesized = ["region"]
population = { file = "people.csv" }
strategy = "likeliest"
"""
    )
    return place, people


@pytest.mark.check
def test_a_population_is_read_as_the_data_are(coded):
    """Its codes stay text, its NA is missing, and it may hold what the data cannot."""
    place, people = coded
    found = run_study(read_study(place / "study.toml")).identification
    people = people.assign(region=people["region"].where(people["region"] != "NA"))
    sample = people.head(80)
    expected = br.identification_risk(
        sample,
        sample.assign(region=np.roll(sample["region"], 1)),
        known=["sex"],
        synthesized=["region"],
        population=br.Population.counted(people, ["sex", "region"]),
        strategy="likeliest",
    )
    pd.testing.assert_frame_equal(found.summary(), expected.summary())
    assert found.population == expected.population


@pytest.mark.check
def test_declared_missing_codes_of_a_population_follow_the_data(tmp_path):
    """Of a file of SPSS: an error unless the study says what becomes of the codes."""
    pyreadstat = pytest.importorskip("pyreadstat")
    codes = pd.DataFrame({"sex": [1.0, 2, 1, 2] * 10, "job": [1.0, 2, 9, 2, 1] * 8})
    labels = {"sex": {1: "f", 2: "m"}, "job": {1: "a", 2: "b", 9: "refused"}}
    for name in ("people", "sample", "z"):
        pyreadstat.write_sav(
            codes.head(40 if name == "people" else 20),
            tmp_path / f"{name}.sav",
            variable_value_labels=labels,
            missing_ranges={"job": [9]},
        )
    text = """
[data]
path = "sample.sav"
missing = "level"
{codes}

[release]
files = ["z.sav"]
columns = ["job"]

[identification]
known = ["sex"]
synthesized = ["job"]
population = {{ file = "people.sav" }}
"""
    (tmp_path / "study.toml").write_text(text.format(codes='missing_codes = "level"'))
    found = run_study(read_study(tmp_path / "study.toml")).identification
    df = br.read_table(tmp_path / "people.sav", missing="level")
    expected = br.identification_risk(
        df.head(20),
        br.read_table(tmp_path / "z.sav", missing="level"),
        known=["sex"],
        synthesized=["job"],
        population=br.Population.counted(df, ["sex", "job"]),
    )
    pd.testing.assert_frame_equal(found.summary(), expected.summary())
