"""Candidates judged: the verdict and the certain values are those of each replicate's audit."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.app.output import _pages
from bayes_risk.reporting.plots import plot_verdicts
from bayes_risk.reporting.presentation import verdicts_in_words
from bayes_risk.reporting.report import report
from bayes_risk.reporting.verdicts.verdict import Thresholds, judge
from bayes_risk.studies.compare import of_verdict
from tests.helpers.every_result import people

KEYS = {"known": ["sex"], "synthesized": ["age", "job"]}
GUESSES = br.JointGrid({"age": br.Levels(), "job": br.Levels()})
MODELS = {
    "fine": br.models.CART(["age", "job"], min_leaf=2),
    "coarse": br.models.CART(["age", "job"], min_leaf=30),
}


@pytest.fixture(scope="module")
def found():
    how = {"attribute": {"guesses": GUESSES}, "identification": KEYS}
    return br.compare({**MODELS, "files": [people()]}, people(), **how, replicates=2, random_seed=1)


def test_verdict_and_certain_values_are_those_of_the_audit_done_again(found):
    """The seeds of a replicate make its release and audit again."""
    table = people()
    for name, model in MODELS.items():
        seeds = found.seed_table.loc[name, 2]
        fit = model.fit(table, random_seed=int(seeds["fit"]))
        release = fit.synthesize(m=5, random_seed=int(seeds["release"]))
        again = int(seeds["attribute"])
        risk = br.attribute_risk(fit, release, guesses=GUESSES, random_seed=again)
        matches = br.identification_risk(table, release, **KEYS)
        verdict = judge(risk, matches, Thresholds(), diagnostics=getattr(fit, "diagnostics", {}))
        assert found.outcomes[found.names.index(name)][1] == verdict.outcome
        certain, over, _ = found.judged[found.names.index(name), 1]
        assert certain == risk.certain().to_numpy().sum()
        np.testing.assert_allclose(over, of_verdict(verdict)["over_allowed"].value)
        finite = [r.of_allowed[1] for r in verdict.reasons if r.of_allowed]
        assert over == max(x for x in finite if np.isfinite(x))


def test_files_made_elsewhere_are_not_judged_here(found):
    assert list(found.verdicts.index) == ["fine", "coarse"]
    assert found.outcomes[found.names.index("files")] == ("",)


def test_the_worst_verdict_of_the_replicates_counts(found):
    rows = found.verdicts
    for name in MODELS:
        outcomes = found.outcomes[found.names.index(name)]
        assert rows.at[name, "of"] == 2
        assert rows.at[name, "replicates"] == outcomes.count(rows.at[name, "verdict"])
        assert ("above your thresholds" in outcomes) == rows.at[name, "verdict"].startswith("above")
    assert all(name in verdicts_in_words(found) for name in MODELS)


def test_names_stand_at_the_points_and_the_threshold_is_drawn(found):
    axes = plot_verdicts(found)
    assert [text.get_text().split(" (")[0] for text in axes.texts] == ["fine", "coarse"]
    line = next(one for one in axes.lines if one.get_label() == "what is allowed")
    assert set(line.get_ydata()) == {1}


def verdicts_of(found, monkeypatch, **rows):
    """The same candidates with other verdicts."""
    columns = ["verdict", "replicates", "of", "certain_values", "over_allowed"]
    table = found.verdicts.iloc[[0] * len(rows)].set_axis([*rows])
    table[columns] = [*rows.values()]
    useful = found.summary().loc[["fine"]]
    each = pd.concat([useful.rename(index={"fine": name}, level=0) for name in rows])
    each["mean"] += np.repeat(np.arange(len(rows)), len(useful))
    monkeypatch.setattr(type(found), "verdicts", property(lambda _: table))
    monkeypatch.setattr(type(found), "summary", lambda _: each)


def test_a_candidate_that_is_above_below_the_line_says_how(found, monkeypatch):
    """A released identifier has no multiple of what is allowed; nor has one replicate of five."""
    above, within = "above your thresholds", "within your thresholds"
    rows = {
        "rule": (above, 2, 2, 0, 0.4),
        "some": (above, 1, 5, 0, 0.9),
        "certain": (above, 5, 5, 3, 0.4),
        "high": (above, 5, 5, 0, 1.4),
        "low": (within, 5, 5, 0, 0.4),
    }
    verdicts_of(found, monkeypatch, **rows)
    assert [text.get_text() for text in plot_verdicts(found).texts] == [
        "rule (above by another rule)",
        "some (above in 1 of 5)",
        "certain (3 certain)",
        "high",
        "low",
    ]


def test_long_names_stay_within_the_picture(found, monkeypatch):
    long = [f"{k} trees with leaves of twenty records grown on all of the columns" for k in "abcde"]
    above = "above your thresholds"
    verdicts_of(found, monkeypatch, **{name: (above, 2, 5, 0, 0.5) for name in long})
    axes = plot_verdicts(found)
    figure = axes.figure
    figure.canvas.draw()
    whole = figure.bbox
    for text in axes.texts:
        box = text.get_window_extent()
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1, text.get_text()
        assert whole.y0 <= box.y0 and box.y1 <= whole.y1, text.get_text()


@pytest.mark.check
def test_utility_is_judged_as_that_of_each_release_is(found, tmp_path):
    """By the threshold between two candidates; without one it is not judged."""
    assert not found.verdicts["usefulness"].any()
    table, options = people(), {"permutations": 2}
    fits = {name: model.fit(table, random_seed=1) for name, model in MODELS.items()}
    made = {name: (fit, fit.synthesize(2, random_seed=2)) for name, fit in fits.items()}
    how = {"identification": KEYS, "utility": options, "random_seed": 1}
    plain = br.compare(made, table, **how)
    useful = plain.summary().xs("pmse_cart", level="measure")["mean"].sort_values()
    limit = Thresholds(utility={"pmse_cart": float(useful.mean())})
    judged = br.compare(made, table, **how, thresholds=limit)
    words = judged.verdicts["usefulness"].to_dict()
    for name, (_, release) in made.items():
        again = int(judged.seed_table.loc[name, 1]["utility"])
        alone = br.utility(table, release, **options, random_seed=again)
        assert words[name] == judge(None, None, limit, utility=alone).usefulness
        assert words[name] in verdicts_in_words(judged)
    assert words[useful.index[-1]] != "useful enough"
    assert judged.verdicts["verdict"].equals(plain.verdicts["verdict"].loc[judged.verdicts.index])
    axes = plot_verdicts(judged, utility="pmse_cart")
    assert all(any(word in text.get_text() for text in axes.texts) for word in words.values())
    line = next(one for one in axes.lines if one.get_label() == "utility required")
    assert set(line.get_xdata()) == {limit.utility["pmse_cart"]}
    assert "Verdict on utility" in report(judged, path=tmp_path / "r.html").read_text()


def test_the_page_has_verdicts_and_links_to_audits_that_are_there(found, tmp_path):
    page = report(found, path=tmp_path / "r.html").read_text()
    assert "Verdict on each candidate" in page
    assert "Audits of candidates" not in page

    class Result:
        comparison = found

        class study:  # noqa: N801
            class output:  # noqa: N801
                folder = tmp_path / "compared"

    assert _pages(Result) == {}
    (tmp_path / "fine").mkdir()
    (tmp_path / "fine" / "report.html").touch()
    assert _pages(Result) == {"fine": "../fine/report.html"}
