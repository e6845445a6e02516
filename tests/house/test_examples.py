"""The examples run as they stand, with fewer draws."""

import re
import tomllib

import pytest

import bayes_risk as br
from bayes_risk.app.output import render_study
from bayes_risk.app.run import run_study
from bayes_risk.app.study.study import read_study
from bayes_risk.reporting.content import as_toml
from bayes_risk.reporting.report import report
from tests.helpers.browser import browser, needs_browser, probed
from tests.helpers.small_examples import EXAMPLES, audited, compared, main_of, swept

pytestmark = pytest.mark.check

DOUBT = ["ignore::bayes_risk.UnreliableWeightsWarning", "ignore::bayes_risk.TruncationWarning"]
STUDIES = ["study", "cart_study", "regression_study", "business_study"]


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Folder for the reports of examples that write one themselves."""
    return tmp_path_factory.mktemp("reports")


@pytest.mark.slow  # `make demo` is the same
@pytest.mark.filterwarnings(*DOUBT)
def test_demo_study(reports):
    path = reports / "demo_study.html"
    risk, ident = main_of("demo_study.py")(path, draws=60, targets=200, refit_budget=0)
    assert len(risk.index) == 200 and ident.n == 6366
    assert "Redbook survey of 1974" in path.read_text()


@pytest.mark.slow
@pytest.mark.filterwarnings(*DOUBT)
def test_worst_case_audit():
    table = main_of("worst_case_audit.py")(draws=200, refit_budget=0)
    assert len(table) == 5
    truth = table["mean probability of the truth"]
    assert truth["own latent class (a worse file)"] > 2 * truth["every combination equally likely"]


def test_match_release_made_elsewhere(capsys):
    persistent, easily_discouraged = main_of("match_release_made_elsewhere.py")(m=2)
    assert persistent.fallback and not easily_discouraged.fallback
    assert "is expected to match" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.filterwarnings(*DOUBT)
def test_own_pymc_model(capsys):
    risk = main_of("own_pymc_model.py")(draws=60)
    assert len(risk.index) == 400 and risk.n_guesses == 49
    assert "households" in capsys.readouterr().out


@pytest.mark.filterwarnings(*DOUBT)
def test_regression_study():
    result = audited("regression_study")
    assert len(result.attribute.index) == 10
    assert result.identification.radius == {"disease": br.Relative(0.1)}
    assert list(result.attribute.closeness_summary().index) == ["disease", "visits"]


@pytest.mark.slow
@pytest.mark.filterwarnings(*DOUBT)
def test_sweep_study():
    found = swept().sensitivity
    assert found.dataset.sizes["prior"] == 6 and len(found.factors) == 7
    assert found.base == {
        **{"prior": "uniform", "knows_records": 1.0, "knows_columns": "none"},
        **{"guesses": "hamming-2", "m": 3, "hyper level_prior": 1.0, "hyper power": 1.0},
    }
    gap = found.along("prior")["mean_probability"].sel(prior="truth_factor = 10")
    assert float(gap) > found.tornado()["base"].iloc[0]


@pytest.mark.slow
@pytest.mark.filterwarnings(*DOUBT)
def test_compare_study():
    found = compared().comparison
    assert found.m == (2, 2, 2, 10, 2) and set(found.synthesized) <= {
        ("EDU", "PRO"),
        ("PRO", "EDU"),
    }
    useful = found.pareto()["utility"]
    assert useful["large-leaves"] > useful["education-first"]
    assert found.summary().at[("m-10", "gain"), "mean"] > 0


@pytest.mark.slow
@pytest.mark.filterwarnings(*DOUBT)
def test_risk_utility_map(tmp_path):
    path = tmp_path / "map.png"
    found = main_of("risk_utility_map.py")(path, draws=30, m=2, replicates=2, targets=40)
    gain = found.summary().xs("gain", level="measure")["mean"]
    assert gain["trees, large leaves"] < gain["trees"]
    useful = found.pareto()["utility"]
    assert useful["trees, two columns"] < useful["trees, large leaves"]
    assert path.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.filterwarnings(*DOUBT)
def test_business_study():
    result = audited("business_study")
    risk = result.attribute
    assert len(risk.index) == 1 and risk.n_guesses == 98
    assert "second largest visits" in risk.assumptions["records"]
    assert risk.records["probability"].item() < 0.1
    assert result.identification.m == 3
    # nothing in the file is sampled: the belief, with the tail's total, is what it is for any draws
    assert not risk.mcse.any()


@pytest.mark.filterwarnings(*DOUBT)
def test_doctor_visits(capsys):
    table = main_of("doctor_visits.py")(m=2, draws=40, n_classes=15)
    assert list(table.index) == ["MP", "MM", "TCMM, 99 %", "TCMM, 95 %"]
    near = table["within 5 %"]
    assert near["TCMM, 99 %"] < near["MM"] and near["TCMM, 95 %"] < near["MM"]
    assert "20,190 person-years" in capsys.readouterr().out


@pytest.mark.filterwarnings(*DOUBT)
def test_structural_zeros(capsys):
    table = main_of("structural_zeros.py")(n=250, n_classes=6, draws=40, targets=30, refit_budget=0)
    impossible = table["impossible records a file"]
    assert impossible["ignored"] > 0 and impossible["respected"] == 0
    guesses = table["guesses a record"]
    assert guesses["respected"] == guesses["known to the intruder alone"] < guesses["ignored"]
    assert "zeros are" in capsys.readouterr().out


@pytest.mark.filterwarnings(*DOUBT)
def test_households(capsys):
    table, matched = main_of("households.py")(n=80, draws=10, targets=8, refit_budget=0)
    p, prior = table["P(truth), mean"], table["without the release"]
    assert list(table.index) == ["all but the target", "composition", "unknown"]
    assert (0 < p).all() and (p < 1).all() and prior["all but the target"] > prior["unknown"]
    assert len(matched.members) == 80 and "An intruder who knows" in capsys.readouterr().out


@pytest.mark.filterwarnings(*DOUBT)
def test_membership(capsys):
    options = {"size": 150, "draws": 40, "places": 20, "comparisons": 10, "alternatives": 5}
    found, asked = main_of("membership.py")(**options, n_jobs=1)
    assert [f.member.sum() for f in found.values()] == [20, 20, 20]
    assert list(asked.index[-2:]) == ["in mind", "commonest"]
    assert "50 without the release" in capsys.readouterr().out


def test_names_elsewhere_are_those_of_the_page(capsys):
    """The page has the numbers that the script prints, in its order, rounded."""
    page = (EXAMPLES.parent / "docs" / "coming-from-r.md").read_text(encoding="utf-8")
    lines = page.partition("|there|here|found|compare|")[2].partition("\n\n")[0].splitlines()[2:]
    shown = [re.findall(r"\d+\.\d+", line.split("|")[3]) for line in lines]
    told = [number for numbers in shown for number in numbers]
    table = main_of("names_elsewhere.py")()
    assert "TCAP, certain" in capsys.readouterr().out
    inference = table.index.get_loc("inference")
    found = table["found"].tolist()
    found.insert(inference + 2, found[inference])  # members and non-members: the same numbers
    assert len(told) == len(found)
    for text, value in zip(told, found, strict=True):
        assert float(text) == pytest.approx(value, abs=0.51 * 10.0 ** -len(text.partition(".")[2]))
    compare = [re.findall(r"\d+\.\d+", line.split("|")[4]) for line in lines]
    beside = {float(number) for numbers in compare for number in numbers}
    assert beside == set(table["compare"].dropna().round(3)) - {0.0} | {0.0}


@pytest.mark.filterwarnings("ignore::bayes_risk.DisplacedRiskWarning")
def test_reweighting(tmp_path, capsys):
    path = tmp_path / "path.png"
    result = main_of("reweighting.py")(path, m=3, rounds=1, until=0.1)
    assert result.reason == "1 rounds are spent" and path.exists()
    assert (result.weights <= 1).all() and result.weights.min() < 0.9
    assert "records weigh less than 1" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.filterwarnings(*DOUBT)
def test_full_table(capsys):
    audits = main_of("full_table_acs.py")(n=400, worst=3, draws=40, n_classes=8, m=2, table_draws=8)
    assert list(audits) == ["predictive", "uniform"]
    for risk in audits.values():
        assert len(risk.index) == 3 and risk.n_values.max() == 5 * 6 * 7 * 6 * 4 * 6 * 6 * 6 * 4
        assert (risk.records["rank"] <= risk.n_values.max()).all()
    assert "Among all 4,354,560 values of 9 columns" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.filterwarnings(*DOUBT)
def test_risk_against_knowledge(tmp_path):
    path = tmp_path / "curve.png"
    table = main_of("risk_against_knowledge.py")(path, draws=40, shares=(0.5,), targets=20)
    uniform, predictive = table.loc["uniform"], table.loc["predictive"]
    assert list(uniform.loc[1, "evidence"]) == ["predictive"] * 3
    assert list(uniform.loc[3, "evidence"]) == ["imputed", "imputed", "predictive"]
    before = predictive["without the release"]  # who knows more, starts from more
    assert before.loc[3, "all"] > before.loc[3, "none"]
    assert (table["mean probability of the truth"] > 0).all() and path.exists()


@pytest.mark.slow
@pytest.mark.filterwarnings(*DOUBT)
def test_prior_sensitivity(tmp_path):
    table, found = main_of("prior_sensitivity.py")(tmp_path, draws=30, targets=20)
    assert len(table) == 10 and found.dataset.sizes["prior"] == 10
    mean, base = table["mean_probability"], found.base["prior"]
    assert mean["misled, truth 1 to 5"] < mean[base] < mean["truth suspected, 10 to 1"]
    along = found.along("prior")["mean_probability"]
    assert along.to_numpy().tolist() == mean.tolist()
    assert (tmp_path / "prior-tornado.png").exists() and (tmp_path / "prior-bars.png").exists()


# --- their reports ------------------------------------------------------------------------------


def written(name, folder):
    """The report of an example: of a study its own, of a sweep and a comparison one by report()."""
    path = folder / f"{name}.html"
    if name in STUDIES:
        path.write_text(render_study(audited(name)), encoding="utf-8")
    elif name == "demo_study":
        if not path.exists():  # unless the test above has made it
            main_of("demo_study.py")(path, draws=60, targets=200, refit_budget=0)
    else:
        of = swept().sensitivity if name == "sweep_study" else compared().comparison
        report(of, path=path, command=f"bayes-risk {name.removesuffix('_study')} {name}.toml")
    return path


def opens_well(page, folder):
    """No complaint on the console, nothing from outside, no sideways scrolling; all is drawn."""
    found = probed(page, folder, widths=[400, 1000, 1280])
    for width, what in found.items():
        assert what["wide"] <= width and what["stuck"] == []
        assert all(height > 100 for height in what["drawn"])
    text = page.read_text(encoding="utf-8")
    assert len(what["drawn"]) == text.count("<figure") > 0 and what["title"]
    judged = "no release" not in text  # sweeps and comparisons have no verdict
    parts = ("verdict", "assumptions", "citing") if judged else ("citing",)
    assert all(f'id="{part}"' in text for part in parts)
    return found


@browser
@needs_browser
@pytest.mark.filterwarnings(*DOUBT)
@pytest.mark.parametrize(
    "name",
    [
        *STUDIES[1:],
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("study", "demo_study", "sweep_study", "compare_study")
        ),
    ],
)
def test_its_report_opens_well(name, reports, tmp_path):
    found = opens_well(written(name, reports), tmp_path)
    if name in ("study", "cart_study"):
        assert 500 < found[1280]["annex"] < 5_000  # pixels, of the page before it


@pytest.mark.slow
@browser
@needs_browser
@pytest.mark.filterwarnings(*DOUBT)
@pytest.mark.parametrize("name", STUDIES)
def test_the_report_of_the_study_as_it_stands_opens_well(name, tmp_path):
    page = tmp_path / "report.html"
    page.write_text(render_study(run_study(read_study(EXAMPLES / f"{name}.toml"))))
    opens_well(page, tmp_path)


def test_every_script_that_writes_a_report_is_opened():
    scripts = {p.name for p in EXAMPLES.glob("*.py") if "report(" in p.read_text()}
    assert scripts == {"demo_study.py"}
    assert {p.stem for p in EXAMPLES.glob("*.toml")} == {*STUDIES, "sweep_study", "compare_study"}


def test_every_example_is_run_here():
    assert {p.name for p in EXAMPLES.iterdir() if p.is_file()} == {
        "audit_from_r.R",  # in test_r.py
        "demo_study.py",
        "names_elsewhere.py",
        "worst_case_audit.py",
        "prior_sensitivity.py",
        "risk_against_knowledge.py",
        "match_release_made_elsewhere.py",
        "own_pymc_model.py",
        "study.toml",  # in test_study.py
        "cart_study.toml",  # in test_study_trees.py
        "regression_study.toml",
        "business_study.toml",
        "sweep_study.toml",
        "compare_study.toml",
        "risk_utility_map.py",
        "doctor_visits.py",
        "full_table_acs.py",
        "reweighting.py",
        "membership.py",
        "households.py",
        "structural_zeros.py",
        "write_trees.R",  # shown on the page about trees
    }


def test_settings_are_written_as_toml():
    settings = {"title": 'a "b"', "n": None, "data": {"path": None, "x": {"a": [1, 2.5, True]}}}
    assert tomllib.loads(as_toml(settings)) == {
        "title": 'a "b"',
        "data": {"x": {"a": [1, 2.5, True]}},
    }
