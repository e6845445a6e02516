import dataclasses
import os
import re
import stat
from html.parser import HTMLParser

import pytest

import bayes_risk as br
from bayes_risk._core.formats import at_most, error, number, percent, significant
from bayes_risk.app.output import render_study
from bayes_risk.reporting.report import report
from bayes_risk.reporting.sections import section_of
from tests.helpers.edge_results import LEVELS, attribute, identification, numbers, study_result

VOID = {"meta", "link", "br", "hr", "img", "input"}
LOADS = {"src", "href", "xlink:href", "data", "poster", "srcset", "action"}


class Page(HTMLParser):
    """What a report holds; fails on tags that do not close in order."""

    def __init__(self, text):
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, dict]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.attributes.append((tag, given))
        self.ids += [given["id"]] if "id" in given else []
        self.links += [v for k, v in given.items() if k in LOADS]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data.strip())


@pytest.fixture(scope="module")
def text():
    return render_study(study_result(), command="bayes-risk audit study.toml")


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_verdict_comes_first_then_the_assumptions(text):
    verdict = study_result().verdict
    places = [text.index(part) for part in (verdict.headline, "What the intruder is assumed")]
    assert places == sorted(places)
    body = text[text.index("<body>") :]
    assert body.index(verdict.headline) < body.index("<table")
    assert "This is advice" in body


def test_every_number_stands_beside_its_error_and_its_baseline(page):
    for head in ("Value", "Error (2\N{NO-BREAK SPACE}s.e.)", "Without the release"):
        assert head in page.texts
    row = page.texts.index("Probability of the true values, worst record")
    cells = [t for t in page.texts[row : row + 8] if t]
    assert cells[1:4] == ["0.400", "\N{PLUS-MINUS SIGN}\N{NO-BREAK SPACE}0.020", "0.333"]


def test_all_parts_are_there(text):
    for part in (
        "The ten records at highest risk",
        "Identification risk",
        "Diagnostics",
        "Glossary",
        "<dt>Random seed</dt><dd>7</dd>",
        "bayes-risk audit study.toml",
        "pymc",
        "[identification]",
    ):
        assert part in text


def test_no_confidential_value_is_shown(text):
    assert all(level not in text for level in LEVELS)


def test_the_same_results_give_the_same_bytes(text):
    assert render_study(study_result(), command="bayes-risk audit study.toml") == text


def test_settings_in_the_report_are_a_study_file(text):
    import html
    import tomllib

    from bayes_risk.app.study.study import parse_study

    settings = html.unescape(re.findall(r"<pre>(.*?)</pre>", text, re.DOTALL)[-1])
    assert parse_study(tomllib.loads(settings)) == study_result().study


def test_numbers_have_a_table_each_and_at_most_four_curves():
    many = render_study(study_result(risk=numbers(list("abcdef"))))
    Page(many)
    assert many.count("means over 4 records") == 6
    assert many.count('id="figure-closeness-') == 4
    assert "Of 6 numbers the 4 to which the release brings closest" in many
    assert "Expected distance" in many


def test_without_numbers_nothing_is_said_of_distances(text):
    assert "How close" not in text and "Expected distance" not in text


def test_the_curves_do_not_draw_the_confidential_numbers():
    """Expected distances on a grid of percentages are in proportion to them."""
    risk = numbers(["income"])
    by_ten = dataclasses.replace(risk, guesses=10 * risk.guesses)
    one, other = (section_of(r).pictures[""][0] for r in (risk, by_ten))
    assert "<path" in one.svg and one.svg == other.svg


def test_exact_evidence_has_no_weights_to_show():
    risk = attribute()
    exact = dataclasses.replace(risk, assumptions={**risk.assumptions, "evidence": "exact: so"})
    text = render_study(study_result(risk=exact))
    assert "computed in closed form" in text and "figure-quality" not in text


def test_diagnostics_are_of_what_the_model_has(text):
    result = study_result()
    assert "Largest R-hat of the parameters" in text
    classes = dataclasses.replace(result, diagnostics={**result.diagnostics, "n_classes": 3})
    assert "Largest R-hat of the log predictives" in render_study(classes)


def test_titles_and_labels_are_escaped(tmp_path):
    risk = attribute(labels=["<b>", "&", "$x", '"'])
    path = report(risk, tmp_path / "r.html", title="<script>alert(1)</script>")
    text = path.read_text(encoding="utf-8")
    assert "<script" not in text and "&lt;script&gt;" in text
    Page(text)


def test_one_release_only(tmp_path):
    Page(report(identification(m=1), tmp_path / "r.html").read_text(encoding="utf-8"))


def test_the_path_may_stand_last_or_be_named(tmp_path):
    first = br.report(attribute(), str(tmp_path / "a.html"))
    second = br.report(attribute(), path=tmp_path / "b.html")
    assert first.read_bytes() == second.read_bytes()


def test_only_the_owner_may_read_it_and_nothing_else_stays(tmp_path):
    path = report(attribute(), tmp_path / "r.html")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["r.html"]


def test_a_failing_write_leaves_the_old_report(tmp_path, monkeypatch):
    path = tmp_path / "r.html"
    path.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        report(attribute(), path)
    assert os.listdir(tmp_path) == ["r.html"] and path.read_text() == "old"


def test_numbers_for_people():
    assert number(1234) == "1,234"
    assert number(float("nan")) == "\N{EN DASH}"
    assert number(float("inf"), 2) == "\N{INFINITY}"
    assert number(0.12345) == "0.123"
    assert number(True) == "yes"
    assert percent(0.0004) == "< 0.1 %"
    assert percent(0.0) == "0.0 %"
    assert error(0.01) == "\N{PLUS-MINUS SIGN} 0.020"
    assert error(1e-9) == "< 0.001"
    assert [significant(v, 4) for v in (0.0, 0.012345, 54321.9)] == ["0", "0.01235", "54,322"]
    assert at_most(0.0) == "0"
    assert at_most(0.0123) == "\N{LESS-THAN OR EQUAL TO} 0.012"
