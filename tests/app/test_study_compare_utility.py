"""A comparison takes the options of ``[utility]`` and ``[bounds]`` for every candidate."""

import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.app.run import run_compare
from bayes_risk.app.study.declare import utility_options
from bayes_risk.app.study.study import parse_study, read_study
from tests.helpers.study_files import TREES_OF_PAY, people, study_folder

STUDY = (
    TREES_OF_PAY
    + """
[utility]
permutations = 3
groups = 3
columns = ["sex", "pay"]
numbers = ["pay"]
confidence = 0.9
analyses = "analyses.py:pay"

[bounds]
patterns = ["sex"]
how = "permute"

[thresholds]
utility = { lowest_interval_overlap = 0.5 }

[compare]
replicates = 2
utility = "lowest_interval_overlap"
bounds = true

[compare.trees]

[compare.bushes]
model = { min_leaf = 30 }
"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return study_folder(tmp_path_factory.mktemp("study"), STUDY, people())


@pytest.fixture(scope="module")
def result(folder):
    study = read_study(folder / "study.toml").with_output(folder / "out")
    return run_compare(study, n_jobs=1)


@pytest.mark.check
def test_every_candidate_is_measured_with_the_studys_options(result, folder):
    found = result.comparison
    df = br.read_table(folder / "people.csv", index="id")
    options = dict(permutations=3, groups=3, columns=["sex", "pay"], numbers=["pay"])
    for name, leaf in (("trees", 5), ("bushes", 30)):
        seeds = found.seed_table.loc[(name, 1)]
        fit = br.models.CART(order=["job", "pay"], min_leaf=leaf).fit(
            df, random_seed=int(seeds["fit"])
        )
        release = fit.synthesize(m=2, random_seed=int(seeds["release"]))
        useful = br.utility(
            df,
            release,
            analyses=utility_options(result.study)["analyses"],
            confidence=0.9,
            random_seed=int(seeds["utility"]),
            **options,
        ).summary()["value"]
        row = found.replicates.loc[(name, 1)]
        for measure in ("pmse_cart", "margins_hellinger", "lowest_interval_overlap"):
            assert row[measure] == useful[measure]


@pytest.mark.check
def test_the_map_is_of_the_studys_own_analyses(result, folder):
    table = pd.read_csv(folder / "out" / "front.csv", index_col="candidate")
    means = result.comparison.summary()
    for name in ("trees", "bushes"):
        overlap = means.loc[(name, "lowest_interval_overlap")]
        assert table.at[name, "utility"] == pytest.approx(overlap["mean"])


@pytest.mark.check
def test_the_ends_are_made_as_the_study_says(result):
    """Permuted within patterns, each file keeps its own pay by sex: the analysis is the same."""
    ends = result.comparison.bounds
    at = ends["lowest_interval_overlap"]
    assert at["maximum"] == pytest.approx(1.0) == pytest.approx(at["unchanged"])
    assert at["minimum"] < 0.9


def content(**compare):
    return {
        "data": {"path": "a.csv"},
        "model": {"kind": "CART", "order": ["job"]},
        "identification": {"known": ["sex"], "synthesized": ["job"]},
        "compare": {"a": {}} | compare,
    }


def test_options_of_columns_are_checked_before_anything_is_made(folder):
    given = content() | {"data": {"path": str(folder / "people.csv")}}
    given["utility"] = {"numbers": ["wage"]}
    with pytest.raises(br.InputError, match=r"\[utility\] numbers .*'wage'"):
        run_compare(parse_study(given), progress=lambda *_: pytest.fail("began"))
