"""The report of whatever was computed: parts, reliability, glossary, citing, doing it again."""

import dataclasses
import re

import pytest

import bayes_risk as br
from bayes_risk.data.base_result import Result
from bayes_risk.data.measures import FULL_TABLE, MEMBERSHIP, PRIVACY_LOSS
from bayes_risk.reporting.content import caveats_of
from bayes_risk.reporting.glossary import software
from bayes_risk.reporting.presentation import sentence, tables
from bayes_risk.reporting.report import report
from bayes_risk.reporting.sections import HEADS
from bayes_risk.reporting.verdicts.verdict import Thresholds, judge
from tests.helpers.edge_results import attribute, identification
from tests.helpers.every_result import MARK, every, parts
from tests.reporting.test_report import Page

SECTIONS = {
    "attribute": "attribute",
    "identification": "identification",
    "privacy-loss": "privacy loss",
    "membership": "membership",
    "full-table": "full table",
    "sensitivity": "sensitivity",
    "reweighting": "reweighting",
    "utility": "utility",
    "context": "context",
    "identification-sweep": "matching",
    "comparison": "comparison",
    "identification-of-files": "files",
    "uniqueness": "uniqueness",
}
VARIED = ("sensitivity", "matching", "comparison")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "r.html"
    report(*parts(), path=path, diagnostics=every()["diagnostics"], command="python all.py")
    return path.read_text(encoding="utf-8")


def of(tmp_path, *given, **how):
    return report(*given, path=tmp_path / "r.html", **how).read_text(encoding="utf-8")


def headings(text):
    return re.findall(r"<h2 id=\"([^\"]+)\"", text)


def test_every_part_has_its_section_and_a_link_to_it(whole):
    page = Page(whole)
    assert set(SECTIONS) <= set(headings(whole))
    assert {f"#{name}" for name in SECTIONS} <= set(page.links)
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_nothing_is_loaded_and_no_value_is_shown(whole):
    page = Page(whole)
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert "script" not in page.tags and not re.search(r"https?:|@import|url\((?!#)", whole)
    assert MARK not in whole


def test_a_keyboard_and_a_screen_reader_find_their_way(whole):
    page = Page(whole)
    body = page.tags[page.tags.index("body") + 1 :]
    assert body[0] == "a" and whole.index('class="skip"') < whole.index("<h1")
    regions = [a for t, a in page.attributes if a.get("role") == "region"]
    drawings = [a for t, a in page.attributes if a.get("role") == "group"]
    assert len(drawings) == page.tags.count("figure") == page.tags.count("figcaption")
    assert all(a["tabindex"] == "0" and a["aria-labelledby"] in page.ids for a in drawings)
    assert len(regions) == page.tags.count("table") == page.tags.count("caption")
    assert all(a["tabindex"] == "0" and a["aria-labelledby"] in page.ids for a in regions)
    assert all(a.get("scope") in {"col", "row"} for t, a in page.attributes if t == "th")
    levels = [int(t[1]) for t in page.tags if re.fullmatch("h[1-6]", t)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(levels, levels[1:], strict=False))
    pictures = [a for t, a in page.attributes if t == "svg"]
    assert len(pictures) > 15 and all(len(a["aria-label"]) > 30 for a in pictures)


@pytest.mark.parametrize("name", SECTIONS)
def test_one_part_alone_leaves_the_others_out(name, tmp_path):
    text = of(tmp_path, every()[SECTIONS[name]])
    Page(text)
    assert [other for other in SECTIONS if other in headings(text)] == [name]
    assert {"reliability", "citing", "reproduction"} <= set(headings(text))
    assert ("assumptions" in headings(text)) == (SECTIONS[name] not in VARIED)


def test_each_says_its_sentence_and_its_numbers(whole):
    import html

    plain = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", whole)).split())
    plain = plain.replace("\N{NO-BREAK SPACE}", " ")
    for name in (
        *("privacy loss", "membership", "full table", "utility", "context", "comparison"),
        *("files", "uniqueness"),
    ):
        sentence = every()[name].sentence().replace("+- ", "\N{PLUS-MINUS SIGN} ")
        assert " ".join(sentence.split()) in plain
    utility = every()["utility"]
    ratio = utility.summary().loc["ratio_cart", "value"]
    assert f"pMSE over chance, tree {ratio:,.3f} 1.000" in plain
    (a, b), worst = utility.pairs.index[0], utility.pairs["ratio"].iloc[0]
    assert f"{a} \N{MULTIPLICATION SIGN} {b} {worst:,.3f}" in plain


def test_without_a_risk_nothing_is_told_and_no_intruder_assumed(tmp_path):
    text = of(tmp_path, every()["utility"])
    assert "Inconclusive." in text
    assert "neither attribute nor identification risk was measured" in text


def test_thresholds_of_the_agency_decide(tmp_path):
    risk, ident = attribute([0.2, 0.4]), identification()
    strict = of(tmp_path, risk, ident, thresholds=Thresholds(attribute_gain=0.05))
    assert "Above your thresholds." in strict and "by more than 0.05" in strict


def test_the_glossary_explains_what_is_there_and_no_more(tmp_path):
    of_files = of(tmp_path, identification())
    assert "<dt>True match rate</dt>" in of_files
    assert "<dt>Guesses</dt>" not in of_files and "<dt>k-hat</dt>" not in of_files
    of_utility = of(tmp_path, every()["utility"])
    assert "<dt>SPECKS</dt>" in of_utility and "<dt>True match rate</dt>" not in of_utility


def test_how_to_cite_is_what_the_citation_file_says(whole):
    from pathlib import Path

    given = (Path(__file__).parents[2] / "CITATION.cff").read_text(encoding="utf-8")
    fields = dict(re.findall(r"^(?:  - )?(title|version|name): (.*)$", given, re.MULTILINE))
    said = software()
    assert all(value.strip('"') in said for value in fields.values()) and len(fields) == 3
    assert said in whole
    assert "Snoke" in whole and "Hu, J. (2019)" in whole


def test_papers_are_those_of_the_parts(tmp_path):
    text = of(tmp_path, identification())
    assert "Reiter, J. P. and Mitra" in text and "Snoke" not in text


def test_seeds_versions_and_command_to_do_it_again(whole):
    for name in ("attribute", "utility"):
        part = every()[name]
        assert f"<dt>Seed of {type(part).__name__}</dt><dd>{part.seed_entropy}</dd>" in whole
    assert "<pre>python all.py</pre>" in whole
    assert f'<th scope="row">bayes_risk</th><td>{br.__version__}</td>' in whole


def test_every_kind_of_result_has_words_and_tables_of_its_own():
    for head in HEADS:
        assert sentence.dispatch(head.of) is not sentence.dispatch(object), head.of
        assert tables.dispatch(head.of) is not tables.dispatch(object), head.of


def test_anything_with_a_sentence_and_a_summary_is_shown(tmp_path):
    table = every()["identification"].summary()

    class Something(Result):
        def sentence(self):
            return "Few are alone."

        def summary(self):
            return table

    text = of(tmp_path, Something())
    Page(text)
    assert "Few are alone." in text and "expected match risk" in text


# --- what has no records, and what is of the original alone ------------------------------------


def row_of(text, head):
    """The cells of the row with a head, as they are shown."""
    cells = re.search(rf'<th scope="row">{re.escape(head)}</th>(.*?)</tr>', text)[1]
    return re.findall("<td>(.*?)</td>", cells)


def test_matching_of_files_is_judged_and_its_keys_are_assumptions(tmp_path):
    found = every()["files"]
    text = of(tmp_path, found)
    assert "Identification risk was not measured" not in text
    assert "unsynthesised: sex, age; matched against synthetic values: job" in text
    assert "<dt>True match rate</dt>" in text and "Reiter, J. P. and Mitra" in text
    pooled = found.summary().loc["pooled"]
    cells = row_of(text, "Expected correct matches")
    spread = f"{2 * found.pooled_mcse:.1f}"
    assert cells[0].startswith(f"{pooled['expected_match_risk']:,.1f} (") and spread in cells[0]
    assert cells[-1] == f"{found.baseline_expected_match_risk:,.1f}"
    assert f"{found.n_profiles:,} distinct profiles of {found.n:,} records" in text


def test_a_file_above_the_threshold_should_not_go_out(tmp_path):
    found = every()["files"]
    rate = float(found.summary()["true_match_rate"].max())
    limits = (rate / 2, 1.0)
    outcomes = [of(tmp_path, found, thresholds=Thresholds(true_match_rate=at)) for at in limits]
    assert ["Above your thresholds." in text for text in outcomes] == [rate > 0, False]
    assert rate > 0


def test_records_kept_one_by_one_are_judged_before_files(tmp_path):
    ident = identification()
    text = of(tmp_path, every()["files"], ident)
    assert f"unsynthesised: {', '.join(ident.in_words(ident.known))}" in text
    assert {"identification", "identification-of-files"} <= set(headings(text))


def test_uniqueness_says_records_shares_and_intervals(tmp_path):
    found = every()["uniqueness"]
    text = of(tmp_path, found)
    table = found.summary()
    alone = row_of(text, "Alone with their key in the file")
    share = 100 * found.sample_uniques / found.n
    assert alone[:2] == [str(found.sample_uniques), f"{share:.1f}\N{NO-BREAK SPACE}%"]
    matches = row_of(text, "Right matches among all records")
    assert matches[0] == f"{table.at['expected_matches', 'value']:,.1f}"
    assert matches[-1] == f"{table.at['expected_matches', 'without']:,.0f}"
    assert "without a release" in text and "keys: age, job" in text
    assert "Skinner" in text and "<dt>k-anonymity</dt>" in text


def test_uniqueness_of_the_file_alone(tmp_path):
    from tests.helpers.every_result import people

    text = of(tmp_path, br.uniqueness(people(), ["age", "job"]))
    Page(text)
    assert "Alone in the file and in the population" not in text


def test_releases_at_the_ends_are_no_result(tmp_path):
    from tests.helpers.every_result import people

    ends = br.release_bounds(people(), synthesized=["job"], m=1, random_seed=1)
    with pytest.raises(br.InputError, match="ReleaseBounds"):
        of(tmp_path, ends)


# --- what is unreliable, and why ---------------------------------------------------------------


def test_records_are_sorted_by_what_is_wrong_with_them():
    risk = attribute([0.2] * 4, reliable=[False, False, False, True], labels=list("abcd"))
    risk = dataclasses.replace(
        risk,
        khat=risk.khat + [0.9, 0, 0, 0],
        mcse=risk.mcse + [0.0, 0.2, 0, 0],
    )
    found = caveats_of([risk], {}, None)
    assert [d.what for d in found] == [f"Attribute risk, 1 record: {x}" for x in "abc"]
    assert [re.search("k-hat|error of the prob|effective", d.why)[0] for d in found] == [
        "k-hat",
        "error of the prob",
        "effective",
    ]
    assert caveats_of([attribute([0.2])], {}, None) == []


def test_candidates_with_unreliable_records_are_a_doubt(monkeypatch):
    found = every()["comparison"]
    assert caveats_of([found], {}, None) == []
    monkeypatch.setattr(type(found), "doubt", lambda self: "Marked unreliable: a.")
    (said,) = caveats_of([found], {}, None)
    assert (said.what, said.why) == ("Candidates", "Marked unreliable: a")


def test_many_records_are_named_in_part():
    risk = attribute([0.2] * 14, reliable=[False] * 14)
    (doubt,) = caveats_of([risk], {}, None)
    assert doubt.what == "Attribute risk, 14 records: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 4 more"


def test_two_releases_have_no_error_between_them():
    (said,) = caveats_of([identification(m=2)], {}, None)
    assert "2 releases" in said.why and "at least three" in said.cure
    assert caveats_of([identification(m=3)], {}, None) == []


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"chains": 2, "max_rhat": 1.2, "min_ess": 12.0}, "R-hat 1.200, above 1.05"),
        (
            {"chains": 2, "max_rhat": 1.02, "min_ess": 182.0},
            "size of the fit is 182, below 200, 100 a chain",
        ),
        ({"divergences": 3}, "3 divergent"),
        ({"truncation_binds": True}, "classes of the fit are occupied"),
    ],
    ids=["rhat", "ess", "divergences", "classes"],
)
def test_what_the_sampler_objects_to(found, why):
    (doubt,) = caveats_of([], found, 1.05)
    assert why in doubt.why


def test_a_sampler_without_complaints_is_not_doubted():
    sound = {"chains": 4, "max_rhat": 1.001, "min_ess": 900.0, "truncation_binds": False}
    assert caveats_of([], sound, 1.05) == caveats_of([], {}, 1.05) == []


def test_the_page_has_no_caveat_that_its_verdict_lacks():
    fit = {"chains": 2, "max_rhat": 1.02, "min_ess": 182.0, "divergences": 3}
    fit["truncation_binds"] = True
    risk, matches = attribute([0.2] * 3, reliable=[False, True, True]), identification(m=2)
    risk = dataclasses.replace(risk, khat=risk.khat + [0.9, 0, 0])
    verdict = judge(risk, matches, diagnostics=fit)
    caveats = caveats_of([risk, matches], fit, 1.05)
    assert len(caveats) == 5
    for one in caveats:
        (said,) = [r for r in verdict.reasons if one.why in r.sentence]
        assert said.cure == one.cure


def test_r_hat_is_judged_once_on_a_page(tmp_path):
    """1.020 agreed in the verdict and had not settled under the doubts."""
    fit = {"chains": 2, "max_rhat": 1.02, "min_ess": 250.0}
    text = of(tmp_path, attribute(), identification(m=3), diagnostics=fit)
    assert "The chains of the fit agree (largest R-hat 1.020; 1.05 is allowed)." in text
    assert text.count("1.020") == 2 and "not all chains" not in text  # the other: its plain value


def test_nothing_to_object_to_is_said(tmp_path):
    text = of(tmp_path, attribute(), identification(m=3))
    assert "Diagnostic warnings: none" in text


def test_unreliable_members_are_told(tmp_path):
    found = every()["membership"]
    bad = dataclasses.replace(found, reliable=found.member != found.member)
    assert f"Membership, {len(bad.index)} records: " in of(tmp_path, bad)


@pytest.mark.parametrize("name", VARIED)
def test_what_lays_many_audits_side_by_side_judges_no_release(tmp_path, name):
    text = report(every()[name], path=tmp_path / "r.html").read_text()
    assert "does not judge a release" in text and 'id="verdict"' not in text
    assert 'href="#assumptions"' not in text and 'id="assumptions"' not in text


@pytest.mark.parametrize(
    ("name", "measures"),
    [
        ("membership", [MEMBERSHIP["auc"], MEMBERSHIP["max_log_bayes_factor"]]),
        ("full table", [FULL_TABLE["share_ranked_first"], FULL_TABLE["median_rank"]]),
        ("privacy loss", [PRIVACY_LOSS["median_privacy_loss"]]),
    ],
)
def test_the_screen_has_the_measures_that_say_most_with_and_without_the_release(name, measures):
    line = every()[name].line()
    assert line[0].islower() and "without the release" in line
    assert all(measure.words in line for measure in measures)
