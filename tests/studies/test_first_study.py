"""A study proposed for a table: what columns are taken for, and a file that runs to a verdict."""

import datetime
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bayes_risk as br
from bayes_risk._core.formats import percent
from bayes_risk.app.cli import app
from bayes_risk.app.run.audit import tried
from bayes_risk.app.run.quick_utility import utility_of
from bayes_risk.app.run.runner import run
from bayes_risk.app.study.declare import read_data
from bayes_risk.app.study.study import read_study
from bayes_risk.data.columns import kinds_of
from bayes_risk.studies.first_study import _step

N = 120


def people(n=N):
    rng = np.random.default_rng(3)
    days = [str(datetime.date(2011, 3, 1) + datetime.timedelta(d)) for d in range(60)]
    pay = np.round(np.exp(rng.normal(7, 0.6, n)), -1)
    return pd.DataFrame(
        {
            "person id": [f"P{i:04d}" for i in range(n)],
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(16, 90, n),
            "región": rng.choice(["Łódź", "Kraków", 'a "b"'], n),
            "class": rng.integers(1, 6, n),
            "owner": rng.random(n) < 0.5,
            "job": [f"job {i % 100}" for i in range(n)],
            "interview date": rng.choice(days, n),
            "income": np.where(rng.random(n) < 0.2, np.nan, pay),
            "wave": 3,
        }
    )


TAKEN = {
    "person id": ("label", "a different value for each record"),
    "sex": ("key", "2 levels; released unchanged"),
    "age": ("key", "different whole numbers; released unchanged"),
    "región": ("key", "3 levels; released unchanged"),
    "class": ("synthesised", "5 different numbers: codes of categories"),
    "owner": ("synthesised", "2 levels"),
    "job": ("left out", "100 levels, most with few records"),
    "interview date": (
        "left out",
        "dates, as numbers of days; to release it, synthesise it",
    ),
    "income": ("synthesised", "different whole numbers; missing for"),
    "wave": ("left out", "all records have one value"),
}


def test_each_column_is_taken_for_what_it_is_and_the_reason_is_told():
    found = br.study_of(people())
    columns = found.columns
    assert columns["role"].to_dict() == {c: taken for c, (taken, _) in TAKEN.items()}
    assert [c for c, (_, why) in TAKEN.items() if why not in columns.loc[c, "why"]] == []
    assert all(c in repr(found) and c in found.text for c in TAKEN)
    assert found.sentence().startswith("120 records: 1 label, 3 key, 3 synthesised, 3 left out")


HEADERS = {  # sex, age, region, income and survey weight
    "English": ("gender", "age", "state", "hh_income", "person_weight"),
    "French": ("sexe", "âge", "région", "revenu", "pondération"),
    "German": ("Geschlecht", "Alter", "Bundesland", "Haushaltsnettoeinkommen", "Gewicht"),
    "Spanish": ("sexo", "edad", "provincia", "ingresos", "factor de expansión"),
    "Italian": ("sesso", "età", "regione", "reddito", "peso"),
    "Portuguese": ("sexo", "idade", "região", "rendimento", "ponderador"),
    "Dutch": ("geslacht", "leeftijd", "provincie", "inkomen", "gewicht"),
    "Polish": ("płeć", "wiek", "województwo", "dochód", "waga"),
    "Japanese": ("性別", "年齢", "都道府県", "年収", "ウェイト"),
    "EU-SILC": ("RB090", "RX020", "DB040", "PY010G", "RB050"),
    "unknown": ("Q1", "Q2", "Q3", "Q4", None),
}


@pytest.mark.parametrize("language", HEADERS)
def test_no_amount_is_released_unchanged_whatever_the_language_of_its_name(language):
    sex, age, region, income, weight = HEADERS[language]
    rng = np.random.default_rng(4)
    df = people()[["person id", "sex", "age", "región", "income"]]
    df = df.assign(owner=people()["owner"], rent=np.round(rng.gamma(3, 200, N)))
    names = {"sex": sex, "age": age, "región": region, "income": income}
    df = df.rename(columns=names)
    if weight is not None:
        df[weight] = np.round(rng.gamma(4, 200, N), 2)
    taken = br.study_of(df).columns["role"]
    assert taken[[sex, age, region]].tolist() == ["key"] * 3
    assert taken[income] == "synthesised" and taken["rent"] in ("synthesised", "left out")
    assert weight is None or taken[weight] == "left out"


def test_weights_of_bodies_and_designs_of_samples_are_told_from_survey_weights():
    rng = np.random.default_rng(6)
    df = people()[["sex", "owner"]].assign(weight=rng.integers(45, 110, N), psu=np.arange(N) % 30)
    why = br.study_of(df).columns["why"]
    assert "a survey weight, by its name" in why["weight"]
    assert "a stratum or cluster of the sample" in why["psu"]
    why = br.study_of(df.assign(height=rng.integers(150, 200, N))).columns["why"]
    assert "survey weight" not in why["weight"]


@pytest.mark.parametrize(
    "name", ["donation", "land", "age_income", "destination km", "household_size_m2", "sexe", "Ort"]
)
def test_no_amount_or_date_is_a_key_whatever_its_name(name):
    """Names have stems of keys: "nation" in donation, "land" of a farm."""
    rng = np.random.default_rng(7)
    df = people()[["sex", "owner", "class"]].rename(columns={"sex": "g"})
    for values in (
        np.round(rng.gamma(2, 900, N), 2),
        rng.integers(0, 10_000, N),
        pd.to_datetime("1950-01-01") + pd.to_timedelta(rng.integers(0, 20_000, N), "D"),
    ):
        taken = br.study_of(df.assign(**{name: values})).columns["role"]
        assert taken[name] in ("synthesised", "left out")
    only = br.study_of(pd.DataFrame({"x": rng.normal(size=N), "region": rng.normal(size=N)}))
    assert set(only.columns["role"]) <= {"synthesised", "left out"}
    assert "known = []" in only.text and 'kind = "Mixture"' in only.text


def test_amounts_that_are_not_synthesised_are_left_out():
    rng = np.random.default_rng(5)
    amounts = {f"x{j}": np.round(rng.gamma(2, 500, N), 1) for j in range(6)}
    taken = br.study_of(people()[["sex", "owner"]].assign(**amounts)).columns["role"]
    assert set(taken[list(amounts)]) == {"synthesised", "left out"}


def test_keys_that_identify_by_themselves_are_said_with_bands_that_would_not():
    df = people(2_000).assign(plant_id=np.arange(2_000) // 2)
    df["wave"] = df["sex"]
    found = br.study_of(df)
    keys = df[["sex", "age", "región"]]
    alone = (~keys.duplicated(keep=False)).mean()
    assert found.notes[0].startswith("Groups: plant_id") and alone < 0.05
    df["región"] = df["región"] + (df["job"].str[-1])
    found = br.study_of(df)
    keys = df[["sex", "age", "región"]]
    alone = (~keys.duplicated(keep=False)).mean()
    assert f"Keys: {percent(alone)} of the records are unique in sex, age, región" in found.notes[0]
    for unit in (5, 10, 20):
        coarse = keys.assign(age=(df["age"] / unit).round())
        if (share := (~coarse.duplicated(keep=False)).mean()) <= 0.05:
            break
    said = f"[data.coarsen] age = {{ unit = {unit} }}: {percent(share)} are unique then."
    assert found.notes[1] == said
    assert f"# age = {{ unit = {unit} }}" in found.text
    assert found.notes[1] in found.text and found.notes[1] in repr(found)


@pytest.mark.parametrize(
    ("name", "members", "found"),
    [
        ("household_id", 2, True),
        ("HID", 3, True),
        ("DB030", 3, True),
        ("household", 2, True),
        ("hid", 1, False),  # its own of each: a label
        ("hid", 30, False),  # regions, or so
        ("plant_id", 2, False),
        ("household_size", 2, False),
    ],
)
def test_the_column_of_households_is_found_and_no_model_has_it(name, members, found):
    rng = np.random.default_rng(1)
    df = people(600).assign(**{name: rng.permutation(np.arange(600) // members) + 100})
    study = br.study_of(df)
    assert (study.columns["role"].get(name) == "household") == found
    data = tomllib.loads(study.text)["data"]
    assert data.get("household") == (name if found else None)
    assert not found or name not in data["columns"]


@pytest.mark.parametrize(
    ("column", "taken"),
    [
        (pd.Series(range(40), name="case"), "label"),
        (pd.Series(range(40), name=""), "label"),
        (pd.Series(np.arange(40) * 7 + 5, name="caseid"), "label"),
        (pd.Series(np.arange(40) * 7 + 5, name="income"), "number"),
        (pd.Series(np.repeat(np.arange(30), 2), name="plant_id"), "out"),
        (pd.Series(np.repeat(np.arange(30), 2), name="width"), "number"),
        (pd.Series(np.repeat(np.arange(400), 2), name="household"), "out"),
        (pd.Series(np.repeat(np.arange(400), 2)[::-1], name="household"), "number"),
        (pd.Series(np.linspace(0, 1, 40), name="id"), "number"),
        (pd.Series([None] * 40, name="x", dtype=object), "out"),
        (pd.Series([1.5, 2.5] * 20, name="x"), "codes"),
        (pd.Series(["1.3.2020", "14.3.2020"] * 20, name="x"), "days"),
        (pd.Series(["1/2/2020", "2/3/2020"] * 20, name="x"), "category"),
        (pd.Series([pd.Timestamp("2020-03-01"), pd.NaT] * 20, name="x"), "days"),
        (pd.Series(["a", None] * 20, name="x"), "category"),
        (pd.Series(["a", 1.5] * 20, name="x"), "out"),
    ],
)
def test_kinds_of_columns(column, taken):
    assert kinds_of(column.to_frame())[str(column.name)].taken == taken


def test_a_negative_code_among_amounts_means_missing():
    amounts = pd.Series([*range(100, 150), -8, -8], name="pay")
    assert kinds_of(amounts.to_frame())["pay"].code == -8
    balance = pd.Series([*range(-20, 30), -8, -8], name="pay")
    assert kinds_of(balance.to_frame())["pay"].code is None


def in_german(path):
    text = people().to_csv(index=False, sep=";", decimal=",", na_rep="NA")
    path.write_text("\ufeff" + text, encoding="utf-8")


def codes(path):
    df = people().assign(pay=lambda d: d["income"].fillna(-8)).drop(columns="income")
    df.to_csv(path, index=False)


def both(path):
    df = people()
    df.loc[:9, "income"] = -8
    df.to_csv(path, index=False)


def both_in_german(path):
    """`-8,0` and empty fields, as R's `write.csv2` leaves them."""
    df = people()
    df.loc[:9, "income"] = -8
    df["income"] = df["income"].astype(float)
    path.write_text(df.to_csv(index=False, sep=";", decimal=","), encoding="utf-8")


def spaced(path):
    df = people()
    pay = df["income"].map("{:,.2f}".format).str.translate({ord(","): "\u202f", ord("."): ","})
    df["income"] = pay.where(df["income"].notna(), "refus")
    path.write_text(df.to_csv(index=False, sep=";"), encoding="utf-8")


def amounts(path):
    people()[["age", "class"]].assign(age=lambda d: d["age"] + 0.5).to_csv(path, index=False)


def groups(path):
    people()[["person id", "sex", "región", "class", "owner"]].to_csv(path, index=False)


def spikes(path):
    """Two values that a tenth of the persons have, among amounts of their own."""
    rng = np.random.default_rng(1)
    pay = rng.choice([0.0, 451.5, -1.0], N, p=[0.1, 0.1, 0.8])
    people().assign(income=np.where(pay < 0, rng.lognormal(7, 1, N).round(2), pay)).to_csv(
        path, index=False
    )


def spikes_and_gaps(path):
    """Zeros, a code for refusals, and empty cells in a column beside it."""
    rng = np.random.default_rng(1)
    pay = np.where(rng.random(N) < 0.5, 0, rng.integers(1, 90, N) * 100)
    pay[:9] = -8
    people().assign(income=pay, rent=people()["income"]).to_csv(path, index=False)


WRITERS = {
    in_german: ('separator = ";"\ndecimal = ","', 'na = ["NA"]', 'kind = "Mixture"'),
    codes: ("missing_numbers = { pay = -8 }",),
    both: ('na = ["-8"]', 'missing = "level"'),
    both_in_german: ('na = ["-8"]', 'missing = "level"', 'kind = "Mixture"'),
    spaced: ('decimal = ","', 'na = ["refus"]', "income = {"),
    amounts: ('kind = "Mixture"', 'families = { age = "normal" }'),
    groups: ('kind = "DPMPM"', 'guesses = "neighbourhood"'),
    spikes: ('kind = "CART"', "[data.levels]", 'class = "held"'),
    spikes_and_gaps: ('kind = "CART"', "missing_numbers = { income = -8 }", "[utility]"),
}
LONG = (in_german, codes, both, both_in_german, spaced)  # mixtures, as `amounts`


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.filterwarnings("ignore:.*(is read with|for thousands)")
def test_the_study_is_accepted_as_it_stands(tmp_path, write):
    """All that a run checks before it samples; reading says nothing any more."""
    write(tmp_path / "a.csv")
    found = br.study_of(tmp_path / "a.csv", path="a.csv")
    found.save(tmp_path / "study.toml")
    assert [words for words in ("\nm = 3", *WRITERS[write]) if words not in found.text] == []
    study = read_study(tmp_path / "study.toml")
    assert study.attribute is not None and study.identification is not None
    df, _ = read_data(study.data)
    tried(study, df)


def test_no_code_of_a_person_stands_in_the_study(tmp_path):
    spikes(tmp_path / "a.csv")
    df = pd.read_csv(tmp_path / "a.csv")
    df.loc[7, "class"] = 987654
    found = br.study_of(df, path=tmp_path / "a.csv")
    assert 'class = "held"' in found.text and "987" not in found.text + repr(found)
    df.to_csv(tmp_path / "a.csv", index=False)
    found.save(tmp_path / "study.toml")
    study = read_study(tmp_path / "study.toml")
    levels = read_data(study.data)[0]["class"].cat.categories.tolist()
    assert levels == [1, 2, 3, 4, 5, 987654]
    assert study.settings()["data"]["levels"] == {"class": "held"}


@pytest.mark.parametrize("n", [25, 60, 2_000])
@pytest.mark.parametrize("zeros", [0.0, 0.99])
def test_no_few_persons_settle_a_radius(n, zeros):
    rng = np.random.default_rng(2)
    pay = np.where(np.arange(n) < zeros * n, 0, np.exp(rng.normal(7, 0.6, n)).round())
    pay = pd.Series(np.r_[pay, np.arange(1, 22)])
    steps = {_step(pay.replace(pay.max(), extreme)) for extreme in (5e3, 1e6, 1e9)}
    assert len(steps) == 1 and steps < {1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0}


def test_a_radius_is_that_of_nearly_all_values():
    pay = pd.Series(np.random.default_rng(1).normal(0, 1, 100_000))
    assert {_step(pay.head(n)) for n in (200, 2_000, 100_000)} == {0.5}


def test_words_among_amounts_are_said(tmp_path):
    df = people().assign(income=lambda d: d["income"].fillna(0).astype(int).astype(str))
    df.loc[5:7, "income"] = ["refus", "nsp", "refus"]
    df.to_csv(tmp_path / "a.csv", index=False)
    found = br.study_of(tmp_path / "a.csv")
    assert found.columns.loc["income", "role"] == "left out"
    assert (
        "text (in 3 rows, first row 6), so it is text" in repr(found) and "refus" not in found.text
    )


def test_a_code_beside_empty_cells_of_no_csv_leaves_the_column_out(tmp_path):
    """No study can read both as missing: what to do is said."""
    df = people()
    df.loc[:9, "income"] = -8
    df.to_parquet(tmp_path / "a.parquet")
    found = br.study_of(tmp_path / "a.parquet")
    assert found.columns.loc["income", "role"] == "left out"
    assert (
        "-8 treated as missing, and empty ones: make them one" in found.columns.loc["income", "why"]
    )
    assert "missing_numbers" not in found.text


def equal_amounts(n=400):
    """Numbers of which many are equal: trees."""
    rng = np.random.default_rng(5)
    sex, age = rng.choice(["f", "m"], n), rng.integers(1, 6, n).astype(str)
    pay = 25.0 * (rng.binomial(60, 0.5, n) + 9 * (sex == "f") * age.astype(int))
    return pd.DataFrame({"sex": sex, "ageband": np.char.add("a", age), "pay": pay})


def own_amounts():
    """Numbers that few records share: latent classes, with the decimals that amounts have."""
    pay = np.random.default_rng(5).lognormal(8, 1, 400).round(1)
    return equal_amounts().assign(pay=pay)


@pytest.mark.parametrize(
    ("table", "ratios", "chosen", "comment"),
    [
        (equal_amounts, [1.9], 20, "1.9 with leaves of 20"),
        (equal_amounts, [3.0, 2.0], 10, "3.0 with leaves of 20, 2.0 with leaves of 10"),
        (
            equal_amounts,
            [4.0, 3.0, 3.5],
            10,
            "4.0 with leaves of 20, 3.0 with leaves of 10, 3.5 with l",
        ),
        (equal_amounts, [None], 20, None),
        (own_amounts, [2.0], "Mixture", "2.0 with latent classes"),
        (own_amounts, [2.8, 1.9], 20, "2.8 with latent classes, 1.9 with leaves of 20"),
        (
            own_amounts,
            [2.8, 3.0, 3.1, 2.9],
            "Mixture",
            "2.8 with latent classes, 3.0 with leaves of",
        ),
        (own_amounts, [None], "Mixture", None),
    ],
)
def test_the_model_is_the_first_with_at_most_twice_chance_or_the_most_similar(
    table, ratios, chosen, comment
):
    seen, left = [], list(ratios)

    def utility_of(text):
        model = tomllib.loads(text)["model"]
        seen.append(model.get("min_leaf", model["kind"]))
        return left.pop(0)

    found = br.study_of(table(), utility_of=utility_of)
    options = [20, 10, 5] if table is equal_amounts else ["Mixture", 20, 10, 5]
    assert seen == options[: len(ratios)]
    model = tomllib.loads(found.text)["model"]
    assert model.get("min_leaf", model["kind"]) == chosen
    assert model.get("rounded") == ({"pay": 0.1} if chosen == "Mixture" else None)
    line = next(x for x in found.text.split("\n") if x.startswith("kind"))
    assert "pMSE" not in line if comment is None else f"; pMSE over chance: {comment}" in line


def test_a_file_without_a_fit_or_too_large_for_a_comparison_has_the_largest_leaves(tmp_path):
    df = equal_amounts().assign(one="x")
    df.to_csv(tmp_path / "t.csv", index=False)
    text = br.study_of(tmp_path / "t.csv", path="t.csv").text
    assert utility_of(text, tmp_path) > 0
    assert utility_of(text.replace('order = ["pay"', 'order = ["one"'), tmp_path) is None
    many = pd.concat([equal_amounts()] * 13)
    assert "min_leaf = 20 " in br.study_of(many, utility_of=lambda text: 1 / 0).text


def test_init_states_the_utility_that_the_files_of_its_study_have(tmp_path, monkeypatch):
    equal_amounts().to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init", "t.csv"]).exit_code == 0
    line = next(x for x in Path("t.toml").read_text().split("\n") if x.startswith("kind"))
    content, stated = tomllib.loads(Path("t.toml").read_text()), line.split("chance: ")[1]
    leaf, stated = content["model"]["min_leaf"], stated.split(", ")
    df, order = read_data(read_study("t.toml").data)[0], content["model"]["order"]
    ratios = {}
    for size in (20, 10, 5)[: len(stated)]:
        fit = br.models.CART(order, min_leaf=size).fit(df, random_seed=1)
        release = fit.synthesize(m=3, random_seed=2)
        found = br.utility(df, release, permutations=200, random_seed=4).summary()
        ratios[size] = found.loc["ratio_cart", "value"]
    values = {int(x.split()[-1]): float(x.split()[0]) for x in stated}
    assert leaf == next((k for k, x in values.items() if x <= 2), min(values, key=values.get))
    assert values == pytest.approx(ratios, rel=0.25)  # 20 permutations against 200


def test_init_writes_a_study_beside_and_says_how_to_go_on(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    people().to_csv(tmp_path / "data" / "my people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["init", "data/my people.csv"])
    assert done.exit_code == 0, done.output
    assert "income          synthesised" in done.output
    assert "Next: bayes-risk audit 'my people.toml'" in done.output
    assert 'path = "data/my people.csv"' in Path("my people.toml").read_text("utf-8")
    again = CliRunner().invoke(app, ["init", "data/my people.csv"])
    assert again.exit_code == 2 and "'my people.toml' exists; give another name" in again.stderr
    study = CliRunner().invoke(app, ["init", "my people.toml"])
    assert study.exit_code == 2 and "is a study; give the table" in study.stderr
    moved = CliRunner().invoke(app, ["init", "data/my people.csv", "-o", "data/s.toml"])
    assert moved.exit_code == 0 and 'path = "my people.csv"' in Path("data/s.toml").read_text(
        "utf-8"
    )


def test_a_number_that_says_what_another_says_is_left_out():
    """The logarithm of an income, released as it is, would give a synthesised income away."""
    df = people()[["sex", "age", "income"]].assign(log=lambda d: np.log(d["income"]))
    columns = br.study_of(df).columns
    assert columns.loc["log"].tolist()[0] == "left out"
    assert "has the same content as 'income'" in columns.loc["log", "why"]


def test_numbers_that_name_groups_are_no_amounts():
    """A facility's number with its size beside it was synthesised as an amount."""
    rng = np.random.default_rng(8)
    plant = rng.integers(1, 41, 600)
    df = people(600)[["sex", "income"]].assign(plant=plant, size=rng.integers(20, 900, 41)[plant])
    df["tax"] = (df["income"] / 5).round()  # of another number, but not of groups
    found = br.study_of(df)
    assert found.columns["role"][["plant", "size"]].tolist() == ["left out"] * 2
    assert "identifier of groups: each has one size" in found.columns["why"]["plant"]
    assert "one value for each plant" in found.columns["why"]["size"]
    assert found.columns["role"]["income"] == "synthesised"
    assert any(note.startswith("Groups: plant") for note in found.notes)
    df["size"] = rng.permutation(df["size"])
    assert "number" in {kinds_of(df)[c].taken for c in ("plant", "size")}


@pytest.mark.parametrize("n", [300, 20_000])
def test_a_category_that_another_gives_is_left_out(n):
    """The population of a province was synthesised, and the province released beside it."""
    rng = np.random.default_rng(9)
    province = rng.integers(0, 8, n)
    df = people(n)[["sex", "income"]].assign(province=np.array(list("abcdefgh"))[province])
    df["population"] = np.array([3, 8, 1, 9, 4, 7, 2, 6])[province] * 100_000
    df["region"] = np.array(list("wwxxyyzz"))[province]
    df["job"] = rng.choice(list("pqr"), n)
    found = br.study_of(df).columns
    for name in ("population", "region"):
        assert found.loc[name].tolist() == ["left out", "it has one value for each province"]
    assert not {"left out"} & {*found["role"][["sex", "province", "job", "income"]]}
    turned = br.study_of(df[df.columns[::-1]]).columns
    assert turned.loc["province", "why"] == "it has one value for each population"
    two = br.study_of(df[["province", "region"]]).columns  # nothing else to model: both stay
    assert "left out" not in {*two["role"]}
    almost = df.assign(population=df["population"].where(np.arange(n) != 1, 500_000))
    assert br.study_of(almost).columns.loc["population", "role"] != "left out"
    few = df.iloc[:24].assign(job=list("pqrstuvw") * 3, sex=list("ffffmmmm") * 3)
    assert br.study_of(few).columns.loc["sex", "role"] != "left out"  # three persons a job


@pytest.mark.parametrize("name", ["diagnosis", "diagnóstico_cie", "Krankheit", "motivo_coste"])
def test_what_is_sensitive_by_name_is_never_released_unchanged(name):
    rng = np.random.default_rng(9)
    df = people()[["sex", "age", "región", "class", "owner", "income"]]
    df = df.assign(**{f"health {j}": rng.choice(list("abc"), N) for j in range(4)})
    df[name] = rng.choice(list("abcdef"), N)
    taken = br.study_of(df).columns["role"]
    assert set(taken[taken.index.str.startswith(("health", name))]) == {"synthesised", "left out"}
    alone = br.study_of(df[["sex", "age", name]]).columns["role"]
    assert alone[name] == "synthesised"


def test_further_keys_are_not_chosen_for_synthesis_before_other_columns():
    """With four keys, an ethnic group was synthesised before the answers of the survey."""
    rng = np.random.default_rng(10)
    names = ["sex", "state", "race", "marital", "ethnicity", "answer", "opinion", "reply"]
    df = pd.DataFrame({name: rng.integers(0, 3, N) for name in names})
    taken = br.study_of(df).columns["role"]
    assert taken["ethnicity"] == "kept"
    assert (taken[["answer", "opinion", "reply"]] == "synthesised").all()


def test_what_no_study_can_be_made_of_is_told_with_the_reasons():
    table = people()[["person id", "wave", "sex"]]
    with pytest.raises(br.InputError, match="1 columns that a study can use: 'person id': a diff"):
        br.study_of(table)


@pytest.mark.parametrize(
    "pay",
    [
        1e164 * np.arange(1.0, 61) ** 2,
        1.7e308 * np.linspace(-1, 1, 60),
        pd.DatetimeIndex(np.arange(60) // 15, tz="UTC"),
        5e-324 * np.arange(60),
    ],
    ids=["large", "largest", "one day", "least"],
)
def test_numbers_of_any_size_get_a_first_study(pay):
    """A step was 0, or a sum of squares beyond what is computed."""
    df = pd.DataFrame({"sex": ["f", "m"] * 30, "job": list("abc") * 20, "pay": pay})
    with np.errstate(all="raise", under="ignore"):
        text = br.study_of(df).text
    assert "absolute = 0" not in text and "inf" not in text.split("[identification]")[1]


def test_wide_tables_get_a_short_first_study():
    rng = np.random.default_rng(1)
    wide = pd.DataFrame({f"q{j}": rng.integers(0, 3, 50) for j in range(40)})
    found = br.study_of(wide)
    assert found.columns["role"].value_counts()["left out"] == 30
    assert "fewer columns make the first run short" in repr(found)


@pytest.mark.check
@pytest.mark.parametrize(
    "write",
    [w if w not in LONG else pytest.param(w, marks=pytest.mark.slow) for w in WRITERS],
    ids=lambda write: write.__name__,
)
@pytest.mark.filterwarnings("ignore:.*(is read with|for thousands|unreliable|classes)")
def test_the_study_runs_to_a_verdict_as_it_stands(tmp_path, write):
    write(tmp_path / "a.csv")
    br.study_of(tmp_path / "a.csv", path="a.csv").save(tmp_path / "study.toml")
    result = run(
        read_study(tmp_path / "study.toml").with_output(tmp_path / "out"), "audit", n_jobs=1
    )
    assert result.verdict.outcome in (
        "within your thresholds",
        "above your thresholds",
        "inconclusive",
    )
    assert result.verdict.usefulness == "useful enough"
    assert (tmp_path / "out" / "report.html").is_file()


def test_dates_stored_as_dates_are_days(tmp_path):
    """A Parquet column of the type date comes as objects of Python."""
    days = pd.date_range("1950-01-01", periods=300).date
    frame = pd.DataFrame({"born": days, "pay": np.random.default_rng(0).normal(size=300)})
    frame.to_parquet(tmp_path / "t.parquet")
    made = CliRunner().invoke(
        app, ["init", str(tmp_path / "t.parquet"), "-o", str(tmp_path / "s.toml")]
    )
    assert made.exit_code == 0, made.output
    assert 'days = ["born"]' in (tmp_path / "s.toml").read_text()
    read = br.read_table(tmp_path / "t.parquet", days=["born"])
    assert np.ptp(read["born"]) == 299


@pytest.mark.parametrize("every", [2, 1_000])
def test_an_infinite_amount_gets_a_step_of_the_others(every):
    rng = np.random.default_rng(2)
    pay = np.where(rng.random(400) < 0.4, 0, np.round(rng.lognormal(7, 1, 400)))
    pay[5::every] = np.inf
    found = br.study_of(pd.DataFrame({"pay": pay, "sex": ["f", "m"] * 200}))
    assert found.columns["role"]["pay"] in ("synthesised", "left out")


@pytest.mark.parametrize(("step", "kind"), [(1.0, "CART"), (1e-6, "Mixture")])
def test_numbers_that_few_records_have_alone_get_trees(tmp_path, step, kind):
    """Trees release values as they are: those of one record would show it."""
    rng = np.random.default_rng(3)
    hours = np.round(rng.normal(38, 6, 400) / step) * step
    table = pd.DataFrame({"sex": rng.choice(list("fm"), 400), "income": hours})
    table.to_csv(tmp_path / "a.csv", index=False)
    text = br.study_of(tmp_path / "a.csv", path="a.csv").text
    assert f'kind = "{kind}"' in text


@pytest.mark.parametrize(("n", "guesses"), [(130, "levels"), (160, "neighbourhood")])
def test_more_values_than_can_be_listed_are_guessed_one_column_at_a_time(n, guesses):
    """A search of more combinations leaves out what trees make possible."""
    rng = np.random.default_rng(5)
    values = np.repeat(np.arange(n) * 7.0, 4)
    pay, rent = rng.permutation(values), rng.permutation(values)
    text = br.study_of(
        pd.DataFrame({"sex": ["f", "m"] * (2 * n), "income": pay, "rent": rent})
    ).text
    assert 'kind = "CART"' in text
    assert ('guesses = "neighbourhood"' in text) == (guesses == "neighbourhood")
    assert ('income = "levels"' in text) == (guesses == "levels")


@pytest.mark.parametrize(
    ("columns", "kinds"),
    [
        (["sex", "income", "wage"], ["CART", "CART"]),
        (["income", "wage"], ["Mixture", "CART"]),
        (["health", "disease"], ["Marginals", "CART"]),
    ],
)
def test_a_chain_has_a_model_for_each_synthesised_column(columns, kinds, tmp_path):
    """The file is of a chain, and a release is made by it."""
    rng = np.random.default_rng(0)
    df = pd.DataFrame({c: rng.choice(list("abc"), 200) for c in columns})
    amounts = [c for c in columns if c in ("income", "wage")]
    df[amounts] = rng.lognormal(3, 1, (200, len(amounts))).round(2)
    df.to_csv(tmp_path / "data.csv", index=False)
    text = br.study_of(df, chain=True).text
    settings = tomllib.loads(text)
    assert settings["model"]["kind"] == "Chain"
    assert [part["kind"] for part in settings["model"]["parts"]] == kinds
    assert utility_of(text, tmp_path) is not None
    with pytest.raises(br.InputError, match="leave out the command, or the chain"):
        br.study_of(df, chain=True, command=["make"])
