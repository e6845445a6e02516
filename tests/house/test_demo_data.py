import numpy as np
import pandas as pd
import pytest

from bayes_risk import Microdata
from bayes_risk.app.study.study import parse_study
from bayes_risk.demo import STUDIES, demo_data, fair, italy, visits


def test_fair_is_the_whole_survey_as_categories():
    df = fair()
    assert df.shape == (6366, 9)
    assert df.isna().sum().sum() == 0
    assert all(isinstance(dtype, pd.CategoricalDtype) for dtype in df.dtypes)
    assert Microdata.from_frame(df).n_levels.tolist() == [5, 6, 7, 6, 4, 6, 6, 6, 4]


def test_fair_keeps_the_counts_of_its_source():
    from statsmodels.datasets import fair as source

    raw, df = source.load_pandas().data, fair()
    assert (df["affairs"] == "none").sum() == (raw["affairs"] == 0).sum()
    assert (df["affairs"] == "5 or more").sum() == (raw["affairs"] >= 5).sum()
    assert (df["affairs"] == "1 to 5").sum() == raw["affairs"].between(1, 5, "left").sum()
    assert (df["children"] == "5 or more").sum() == (raw["children"] == 5.5).sum()
    for column in ("age", "yrs_married", "educ", "occupation", "rate_marriage", "religious"):
        ours = df[column].cat.codes.to_numpy()
        assert (ours == raw[column].rank(method="dense").to_numpy() - 1).all()


def test_only_what_has_an_order_is_ordered():
    nominal = {c for c in fair() if not fair()[c].cat.ordered}
    assert nominal == {"occupation", "occupation_husb"}


def test_italy_is_table_1_of_hawala():
    df = italy()
    counts = df.value_counts()
    assert len(df) == 2313
    assert len(counts) == 48
    assert counts[counts <= 5].sum() == 15  # "which leads to 15 records that we synthesized"
    assert counts["23-64", "secondary school", "clerk"] == 653


def test_italy_has_the_margins_of_table_3():
    margins = pd.crosstab(italy()["AGE"], italy()["PRO"]).to_numpy().tolist()
    assert margins == [[15, 0, 0], [46, 9, 0], [994, 863, 362], [12, 3, 9]]


def test_italy_agrees_with_the_table_in_the_shared_data(shared_data):
    table = pd.read_csv(shared_data / "hawala_italian_table.csv.gz", keep_default_na=False)
    assert table["count_original"].tolist() == italy().value_counts(sort=False).tolist()


def test_visits_is_every_tenth_row_of_its_source():
    from statsmodels.datasets import randhie as source

    raw, df = source.load_pandas().data.iloc[::10], visits()
    assert df.shape == (2019, 5)
    assert df["visits"].tolist() == raw["mdvis"].tolist()
    assert np.allclose(df["disease"], raw["disea"], atol=0.051)
    assert (df["health"] == "poor").sum() == raw["hlthp"].sum()
    assert (df["health"] == "good").sum() == raw["hlthg"].sum()
    assert (df["coinsurance"] == "0").sum() == (raw["lncoins"] == 0).sum()
    assert df.isna().sum().sum() == 0


@pytest.mark.parametrize("name", STUDIES)
def test_every_demo_has_a_study_of_columns_that_exist(name):
    study, df = parse_study(STUDIES[name]), demo_data(name)
    keys = study.identification
    assert keys is not None and study.release.columns is not None
    named = {*study.release.columns, *keys.known, *keys.synthesized}
    assert named <= set(df.columns)
    assert set(keys.synthesized) <= set(study.release.columns)
    assert not set(keys.known) & set(study.release.columns)
