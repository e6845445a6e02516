"""Refusals behind other checks: of files, persons, fits and releases, and of libraries that fail.

Each says what is wrong, and holds no value. What only another version of a library or a failing
solver can bring about is brought about by a stand-in for it, which the test names.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from pydantic import ValidationError, field_validator

import bayes_risk as br
from bayes_risk._core.errors import ModelError
from bayes_risk.app.study.keys import Section, problems
from bayes_risk.app.study.study import parse_study
from bayes_risk.data import parquet
from bayes_risk.data.rpart_file import SynthpopModels
from bayes_risk.models.mixture import zeros
from bayes_risk.models.trees import forest_trees
from tests.helpers.pymc_models import fit_of_draws

SHORT = {"draws": 40, "tune": 10, "chains": 2, "random_seed": 1}
N = 40
RNG = np.random.default_rng(5)
TABLE = pd.DataFrame(
    {
        "sex": list("fm") * 20,
        "job": ["clerk", "clerk", "pilot", "pilot", "smith"] * 8,
        "staff": RNG.poisson(30, N) + 1_000,
        "pay": RNG.normal(5_000, 900, N).round(2),
    }
)
CATEGORIES = TABLE[["sex", "job"]]
FLAT = br.models.RegressionPrior.reference()


def refused(message, call, *args, **how):
    with pytest.raises((br.InputError, ModelError), match=message):
        call(*args, **how)


# --- studies ---------------------------------------------------------------------------------


def test_a_study_whose_tables_are_nested_too_deep():
    prior = "uniform"
    for _ in range(3_000):
        prior = {"mixture": [[0.5, prior], [0.5, "uniform"]]}
    content = {"data": {"demo": "italy"}, "attribute": {"prior": prior}}
    refused("study holds tables or lists nested too deep to be read", parse_study, content)


def test_what_a_library_says_of_a_key_is_not_repeated():
    class Odd(Section):
        """No key of a study is handed to a library that may fail with other words: this one is."""

        text: str

        @field_validator("text")
        @classmethod
        def _by_a_library(cls, value):
            raise ValueError(f"cannot read {value}")

    with pytest.raises(ValidationError) as found:
        Odd.model_validate({"text": "secret"})
    assert str(problems(found.value)) == "[text] does not fit"


# --- files -----------------------------------------------------------------------------------


def test_words_for_levels_of_another_kind_of_file(tmp_path):
    TABLE.to_csv(tmp_path / "a.csv", index=False)
    TABLE.to_parquet(tmp_path / "a.parquet")
    labels, text = {"sex": "labels"}, {"sex": "text"}
    refused("'labels' is for files with value", br.read_table, tmp_path / "a.csv", levels=labels)
    refused("'text' is for CSVs, which", br.read_table, tmp_path / "a.parquet", levels=text)


def test_parquet_files_that_are_empty_or_hold_lists(tmp_path):
    """In this process: the one that reads files keeps no account of what it refuses."""
    file = tmp_path / "a.parquet"
    file.touch()
    refused("is empty; give the whole file", parquet.stored, file, ".parquet")
    pd.DataFrame({"sex": ["f", "m"], "pays": [[5_001], [5_002]]}).to_parquet(file)
    refused("column 'pays' of .* holds lists or tables", parquet.stored, file, ".parquet")


def test_files_to_be_matched(tmp_path):
    file, lost = tmp_path / "a.parquet", tmp_path / "folder"
    for folder in (lost / "region=1", lost / "other"):
        folder.mkdir(parents=True)
        CATEGORIES.to_parquet(folder / "part.parquet")
    CATEGORIES.to_parquet(file)
    keys = {"known": ["sex"], "synthesized": ["job"]}
    risk = br.identification_risk_of_files
    refused("releases is a set; give a list of paths", risk, file, {file}, **keys)
    refused("name 'region' and some do not; lay out", risk, lost, [file], **keys)
    for most in ("much", "-1", "-2GiB"):
        refused("is not an amount of memory", risk, file, [file], **keys, max_memory=most)


# --- persons ---------------------------------------------------------------------------------

PERSONS = pd.DataFrame(
    {
        "who": ["Ann", "Ann", "Bea", "Cid"] * 10,
        "sex": list("ffmm") * 10,
        "age": [31, 31, 42, 53] * 10,
    },
    index=[f"r{i}" for i in range(N)],
)


@pytest.mark.parametrize(
    ("who", "message"),
    [
        (["Ann", None], "person='who' has missing values in targets"),
        (["Bea", "Dan"], "name other persons \\(who\\) under the same label"),
        ([["Ann"], ["Dan"]], "column 'who' of targets holds a list in row 1"),
        ([f"person {i}" for i in range(N)], "no value of column 'who' of targets is among the 3"),
    ],
)
def test_persons_of_targets_outside_the_original(who, message):
    names = ["r0", *(f"new {i}" for i in range(1, len(who)))]
    targets = pd.DataFrame({"who": who, "sex": "f", "age": 31}, index=names)
    keys = {"known": ["sex"], "synthesized": ["age"], "person": "who"}
    refused(
        message,
        br.identification_risk,
        PERSONS,
        [PERSONS[["sex", "age"]]],
        **keys,
        targets=targets,
    )


# --- what models read ------------------------------------------------------------------------

CODED = br.Microdata.from_frame(TABLE, numbers=["staff", "pay"])
AS_CATEGORIES = br.Microdata.from_frame(TABLE[["sex", "staff"]])


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (br.models.DPMPM(), CODED, r"columns \['staff', 'pay'\] are numbers, and DPMPM models"),
        (br.models.Mixture(families={"pay": "normal"}), CODED, "'staff' is read as a number and"),
        (br.models.Mixture(families={"staff": "count"}), AS_CATEGORIES, "'staff' is read as a cat"),
        (br.models.PoissonMixture(covariates=["sex", "job", "pay"]), CODED, "'pay' is read as a n"),
    ],
)
def test_coded_columns_of_another_kind_than_the_model_wants(model, data, message):
    refused(message, model.fit, data, **SHORT)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("1 + poly(staff, degree=2, degree=3)", "cannot be read; check its brackets and arguments"),
        ("1 + np.abs(staff, out=staff)", "has the argument 'out'; formulas know"),
        ("1 + np.exp(staff, where=[False])", "has the argument 'where'; formulas know"),
        ("1 + center(staff, _state=staff)", "has the argument '_state'; formulas know"),
    ],
)
def test_arguments_that_formulas_do_not_know(formula, message):
    refused(message, br.models.Regression, {"pay": formula})


def test_a_term_that_depends_on_the_place_of_a_record():
    """A list as long as the table."""
    model = br.models.Regression({"pay": "1 + np.minimum(staff, [1, 2])"})
    refused("looks at several records at once; use center", model.fit, TABLE[:2], **SHORT)


def test_totals_are_dealt_to_all_records():
    model = br.models.PoissonMixture(kind="TCMM", n_classes=30)
    fit = model.fit(TABLE[["staff"]], **SHORT)
    refused("n does not go with TCMM", fit.synthesize, 1, n=10, quantile=0.9)


# --- releases and guesses --------------------------------------------------------------------


def test_values_of_another_kind_than_the_model_has():
    fit = br.models.Regression({"pay": "1 + sex"}).fit(TABLE, **SHORT)
    words = TABLE.assign(pay="much")
    release = br.Release(datasets=[words], synthesized=["pay"])
    refused(
        "column 'pay' of release 1 holds text in row 1 and must", br.attribute_risk, fit, release
    )


def test_a_column_that_the_model_does_not_synthesise():
    table = TABLE[["sex", "staff"]]
    fit = br.models.PoissonMixture(covariates=["sex"], n_classes=30).fit(table, **SHORT)
    release = br.Release(datasets=[table], synthesized=["sex"])
    refused("has column 'sex' synthesised, which the model does", br.attribute_risk, fit, release)


def test_hyper_parameters_of_a_fit_that_keeps_no_declaration():
    fit = br.models.CART(order=["job"]).fit(CATEGORIES, random_seed=1)
    release = fit.synthesize(m=1, random_seed=1)

    class Own:
        """A fit of somebody's own, around another."""

        model = None

        def __getattr__(self, name):
            return getattr(fit, name)

    over = {"hyper": {"min_leaf": [5]}}
    refused("Own has no declaration whose hyper-param", br.sensitivity, Own(), release, over=over)


def test_loss_of_guesses_that_were_searched_coarse_to_fine():
    fit = br.models.Regression({"staff": "1", "pay": "1 + staff"}).fit(TABLE, **SHORT)
    release = fit.synthesize(m=1, random_seed=1)
    grids = {"staff": br.Grid(additive=200, n=21), "pay": br.Grid(additive=900, n=21)}
    guesses = br.JointGrid(grids, budget=100)
    found = br.attribute_evidence(fit, release, guesses=guesses, targets=2, random_seed=1)
    refused("these guesses were searched coarse to fine", br.privacy_loss, found)


def test_candidates_that_have_no_measures_in_common():
    nan = np.nan
    values = np.array([[[nan, 0.1]] * 2, [[0.2, nan]] * 2])
    found = br.Comparison(
        names=("a", "b"),
        measures=("expected_match_risk", "pmse_cart"),
        values=values,
        errors=values * nan,
        beside=values * nan,
        seeds=np.zeros((2, 2, 4), dtype=np.int64),
        replicates_of=(2, 2),
        m=(1, 1),
        synthesized=((), ()),
        ends=None,
        random_seed=3,
    )
    refused("no candidate has both 'expected_match_risk' and 'pmse_cart'", found.pareto)


def test_a_number_that_nobody_has():
    table = TABLE[["sex"]].assign(pay=np.nan)
    how = {"numbers": ["pay"], "missing": "level"}
    refused("column 'pay' of the original holds no number", br.utility, table, [table], **how)


# --- one record alone determines a coefficient -----------------------------------------------


def test_an_estimate_that_one_record_alone_determines():
    """With a guess of 0 in its place nobody has anything else, and the prior is flat."""
    table = pd.DataFrame({"owner": [1] + [0] * (N - 1), "pay": TABLE["pay"]})
    model = br.models.Regression({"owner": "1", "pay": "owner - 1"}, prior=FLAT)
    fit = model.fit(table, **SHORT)
    release = fit.synthesize(m=1, random_seed=1, parameters="plug-in")
    guesses = {"owner": br.Grid(values=[0, 1]), "pay": br.Grid(additive=90, n=3)}
    risk = br.attribute_risk
    refused("which has no estimate with", risk, fit, release, guesses=guesses, targets=[0])


def test_an_unknown_record_that_alone_determines_a_coefficient():
    land = RNG.random(N)
    land[3] = 1e5
    table = pd.DataFrame({"land": land, "pay": TABLE["pay"]})
    fit = br.models.Regression({"pay": "1 + land"}, prior=FLAT).fit(table, **SHORT)
    release = fit.synthesize(m=2, random_seed=1)
    knows = np.arange(N) > 3
    how = {"intruder": br.Intruder(knows_records=knows), "evidence": "imputed", "random_seed": 1}
    guesses = {"pay": br.Grid(additive=90, n=3)}
    risk = br.attribute_risk
    refused("no posterior without it", risk, fit, release, guesses=guesses, targets=[1], **how)


# --- trees of synthpop -----------------------------------------------------------------------


def test_a_released_level_that_a_tree_of_synthpop_tells_no_side():
    """No record has "x" in R: in rows of csplit 1 goes left, 3 right, and 2 to neither."""
    leaf = {"var": "<leaf>", "n": 2, "yval": 1, "ncompete": 0, "nsurrogate": 0}
    rule = {"var": "sex", "count": 0, "ncat": 3, "improve": 1.0, "index": 1, "adj": 0}
    ages = {
        "kind": "rpart",
        "method": "anova",
        "frame": [
            leaf | {"node": 1, "var": "sex", "n": 4},
            leaf | {"node": 2},
            leaf | {"node": 3},
        ],
        "splits": [rule],
        "csplit": [[1, 3, 2]],
        "xlevels": {"sex": ["f", "m", "x"]},
        "ylevels": None,
    }
    content = {
        "m": 1,
        "method": {"sex": "cart", "age": "cart"},
        "visit_sequence": ["sex", "age"],
        "proper": False,
        "smoothing": ["", ""],
        "models": [{"sex": {"kind": "sample"}, "age": ages}],
    }
    levels = pd.CategoricalDtype(["f", "m", "x"])
    table = pd.DataFrame({"sex": pd.Series(list("ffmm"), dtype=levels), "age": [31, 42, 53, 64]})
    fit = br.models.CART.from_rpart(SynthpopModels.of(content), table)
    shown = table.assign(sex=pd.Series(list("xfmm"), dtype=levels))
    release = br.Release(datasets=[shown], synthesized=["sex", "age"])
    refused("1 synthetic records stay above the leaves of the tree", fit.report_mismatch, release)


# --- libraries that fail, by stand-ins -------------------------------------------------------


def test_a_draw_with_next_to_no_possible_values(monkeypatch):
    """The stand-in finds each drawn record impossible, as rounding could."""
    table = CATEGORIES[(CATEGORIES["sex"] != "f") | (CATEGORIES["job"] != "smith")]
    rules = br.Impossible([{"sex": ["f"], "job": ["smith"]}])
    fit = br.models.DPMPM(n_classes=30, impossible=rules).fit(table, **SHORT)
    monkeypatch.setattr(zeros, "rows_in", lambda boxes, rows: np.ones(len(rows), dtype=bool))
    refused("a probability below rounding; synthesise with another", fit.synthesize, 1)


def test_least_squares_without_an_answer(monkeypatch):
    """The stand-in for NumPy's solver finds no numbers."""
    monkeypatch.setattr(np.linalg, "lstsq", lambda x, y, rcond: [np.full(x.shape[1], np.nan)])
    model = br.models.PMM(order=["pay"], identifying=["job"], threshold=8, models={"pay": "linear"})
    refused("linear model of column 'pay' has no finite predictions", model.fit, TABLE)


def test_a_scikit_learn_that_numbers_nodes_otherwise(monkeypatch):
    """The stand-in for its trees calls the left branch right."""

    class Mirrored(forest_trees.DecisionTreeClassifier):
        def fit(self, *args, **how):
            grown = super().fit(*args, **how).tree_
            left, right = grown.children_right, grown.children_left
            self.tree_ = SimpleNamespace(children_left=left, children_right=right)

    monkeypatch.setattr(forest_trees, "DecisionTreeClassifier", Mirrored)
    model = br.models.Forest(["job"])
    refused("does not number the nodes of a tree depth first", model.fit, CATEGORIES, random_seed=1)


# --- draws of a PyMC model that cannot be gone on from, given by hand --------------------------

LINE = pd.DataFrame({"x": np.linspace(-1.0, 1.0, 12), "y": np.linspace(1.25, 8.75, 12)})


def build_line(table):
    with pm.Model() as model:
        x, y = pm.Data("x", table["x"]), pm.Data("y", table["y"])
        pm.Normal("y_", pm.Normal("slope") * x, 1.0, observed=y)
    return model


def build_box(table):
    with pm.Model() as model:
        y = pm.Data("y", table["y"])
        pm.Uniform("y_", 0.0, pm.Exponential("top", 0.1), observed=y)
    return model


def test_parameters_that_overflow():
    slope = np.full(20, 0.5)
    slope[3] = np.inf
    fit = fit_of_draws(build_line, ["y"], LINE, {"slope": slope})
    refused("the model drew -inf for 'y'; look for parameters", fit.synthesize, 20, random_seed=1)


@pytest.mark.parametrize(
    ("evidence", "share", "message"),
    [
        ("importance", 1.0, "the record of row 12 has density zero at some draws"),
        ("refit", 1.0, "no draw of the parameters allows the release"),
        ("refit", 0.25, "the sampler cannot move from a draw of the parameters"),
    ],
)
def test_draws_that_allow_neither_the_table_nor_the_release(evidence, share, message):
    """No value lies above 5 by any draw, and those of half the records do."""
    table = LINE[["y"]]
    fit = fit_of_draws(build_box, ["y"], table, {"top": np.full(20, 5.0)})
    release = br.Release(datasets=[share * table], synthesized=["y"])
    how = {"guesses": br.Grid(additive=1, n=3), "targets": [0, 11], "random_seed": 1}
    refused(message, br.attribute_risk, fit, release, evidence=evidence, **how)
