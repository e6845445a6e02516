"""What may leave: ranges that nothing narrows, and no record, label or largest value."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.app.output import write_run
from bayes_risk.app.study.study import parse_study
from bayes_risk.reporting.redaction import range_of
from tests.edge_results import LEVELS, MARK, attribute, identification, study_result
from tests.every_result import every

BASES = (3, 5, 10)


# --- ranges -----------------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
def test_every_range_holds_enough_numbers_and_its_own(base):
    for n in range(2 * base, 12 * base + 1):
        for count in range(n + 1):
            low, high = range_of(count, n, base, whole=True)
            assert low <= count <= high <= n
            assert high - low + 1 >= base


@pytest.mark.parametrize("base", BASES)
def test_ranges_share_out_all_numbers(base):
    for n in (2 * base, 5 * base + 1, 7 * base - 1, 100):
        found = sorted({range_of(count, n, base, whole=True) for count in range(n + 1)})
        assert found[0].low == 0 and found[-1].high == n
        assert all(a.high + 1 == b.low for a, b in zip(found[:-1], found[1:], strict=True))


@pytest.mark.parametrize("base", (3, 4))
def test_nested_counts_do_not_narrow_one_another(base):
    """By enumeration: a <= b <= c <= n, all published; each is left all numbers of its range."""
    for n in range(2 * base, 5 * base):
        left: dict[tuple, list[set[int]]] = {}
        for counts in product(range(n + 1), repeat=3):
            if list(counts) == sorted(counts):
                shown = tuple(range_of(c, n, base, whole=True) for c in counts)
                held = left.setdefault(shown, [set(), set(), set()])
                for one, count in zip(held, counts, strict=True):
                    one.add(count)
        for shown, held in left.items():
            for (low, high), numbers in zip(shown, held, strict=True):
                assert numbers == set(range(low, high + 1))


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("whole", [True, False])
def test_the_range_of_a_complement_is_the_complement_of_the_range(base, whole):
    for n in range(2 * base, 9 * base):
        for count in np.arange(0, n + 1e-9, 1 if whole else 0.25):
            low, high = range_of(count, n, base, whole=whole)
            assert range_of(n - count, n, base, whole=whole) == (n - high, n - low)


def test_sums_of_probabilities_lie_in_their_range():
    rng = np.random.default_rng(1)
    for _ in range(500):
        n = int(rng.integers(20, 500))
        value = n * float(rng.random())
        low, high = range_of(value, n, 10, whole=False)
        assert low <= value <= high and high - low >= 10


def test_a_sum_that_ought_to_be_whole_is_taken_so():
    assert range_of(10 * (1 - 1e-12), 50, 10, whole=False) == (10, 20)


@pytest.mark.parametrize(("value", "n"), [(3, 19), (0, 0), (np.nan, 100)])
def test_of_few_records_nothing_is_told(value, n):
    assert range_of(value, n, 10, whole=True) is None


# --- results ----------------------------------------------------------------------------------


def test_numbers_are_those_of_the_results():
    risk, ident = every()["attribute"], every()["identification"]
    table = br.redact(risk, ident, min_count=3).table.set_index("measure")
    found = risk.summary()["value"], ident.summary().loc["pooled"]
    held = {
        "Probability of the true values, summed": 50 * found[0]["mean_probability"],
        "Records released unchanged": found[0]["disclosed"],
        "Expected number of right matches": found[1]["expected_match_risk"],
        "Records with a single match": found[1]["unique_matches"],
        "Records whose single match is right": found[1]["true_matches"],
    }
    for measure, value in held.items():
        assert table.loc[measure, "low"] <= value <= table.loc[measure, "high"]


def test_two_results_that_differ_in_one_record_mostly_look_the_same():
    """A record's own probability is nowhere: from 0.9 to 0.4 moves a sum by less than a range."""
    same = 0
    for k in range(40):
        p = np.full(100, 0.3) + 0.001 * k
        seen = [br.redact(attribute(np.append(p, last))).summary() for last in (0.9, 0.4)]
        same += seen[0].equals(seen[1])
    assert same >= 0.9 * 40


BASE, SIZE = 3, 9  # of the search
CELLS = list(product("ab", "xy"))


def of_counts(counts):
    rows = [cell for cell, k in zip(CELLS, counts, strict=True) for _ in range(k)]
    return pd.DataFrame(rows, columns=["key", "target"])


def slow(*counts):
    return pytest.param(counts, marks=pytest.mark.slow)


def results_of(y, z):
    """What a page may hold of a file whose rows are nobody's in particular."""
    yield br.identification_risk(y, z, known=[], synthesized=["key"], corresponds=False)
    yield br.context_measures(y, z, keys=["key"], target="target", distances=False, random_seed=1)
    yield br.utility(y, z, random_seed=1)
    yield br.uniqueness(y, ["key", "target"])


@pytest.mark.check
@pytest.mark.parametrize("released", [(2, 2, 2, 3), slow(0, 5, 4, 0), slow(1, 0, 8, 1)])
def test_no_figure_of_a_page_is_narrowed_by_the_page_and_the_synthetic_file(released):
    """By search over all tables of nine records: what one range leaves, the whole page leaves.

    Every number that a page states is left every value that its own range and the synthetic file
    leave it, or as many as a range must hold.
    """
    z, pages, ranges = of_counts(released), {}, {}
    every_table = [c for c in product(range(SIZE + 1), repeat=len(CELLS)) if sum(c) == SIZE]
    for counts in every_table:
        found = list(results_of(of_counts(counts), z))
        shown = br.redact(*found, min_count=BASE).table[["low", "high"]].fillna(-1)
        held = [p for r in found for t in r.tables().values() for p in t.public]
        numbers = [round(float(p.value), 9) for p in held]
        page = tuple(map(tuple, shown.to_numpy()))
        pages.setdefault(page, []).append(numbers)
        for k, (own, number) in enumerate(zip(page, numbers, strict=True)):
            ranges.setdefault((k, own), set()).add(number)
    assert len(pages) > 1
    for page, left in pages.items():
        columns = [set(column) for column in zip(*left, strict=True)]
        for k, own in enumerate(page):
            assert len(columns[k]) >= min(BASE, len(ranges[k, own]))


@pytest.mark.parametrize("ill", [1, 7, 12])
def test_total_variation_does_not_fix_a_count(ill):
    """One of 200 records is ill and the file shows four: 1 and 7 were the only counts left."""
    y, z = (pd.DataFrame({"hiv": ["yes"] * k + ["no"] * (200 - k)}) for k in (ill, 4))
    table = br.redact(br.utility(y, z, random_seed=1)).table
    assert table["low"].tolist() == [0] and table["high"].tolist() == [10]


@pytest.mark.parametrize("n", [200, 201, 205])
def test_no_row_and_a_row_do_not_fix_a_count(n):
    """40 records have a key that the file does not show; iSO says so of all others."""
    y, z = (pd.DataFrame({"key": ["a"] * (n - k) + ["b"] * k, "c": "u"}) for k in (40, 0))
    found = (
        br.identification_risk(y, z[:180], known=[], synthesized=["key"], corresponds=False),
        br.context_measures(y, z[:180], keys=["key"], target="c", distances=False, random_seed=1),
    )
    table = br.redact(*found).table.set_index("measure")
    none = table.loc["Targets with no row (mean)"]
    some = table[table.index.str.contains("iSO")].iloc[0]
    low, high = max(none.low, n - some.high), min(none.high, n - some.low)
    assert low <= 40 <= high and high - low >= 10


def test_no_largest_value_no_label_and_no_level_is_left():
    ident = identification(40)
    risk = attribute([0.2, 0.98765] * 30, labels=[f"Q{i}" for i in range(60)])
    text = repr(br.redact(risk, ident)) + br.redact(risk, ident).table.to_json()
    assert "98765" not in text and "Q59" not in text
    assert [level for level in LEVELS if level in text] == []


def test_of_what_is_made_of_single_records_only_the_name_is_kept():
    parts = [every()[name] for name in ("privacy loss", "full table", "reweighting", "comparison")]
    found = br.redact(*parts)
    assert found.left_out == ["PrivacyLoss", "FullTableRisk", "Reweighting", "Comparison"]
    assert found.table.empty and "Left out: PrivacyLoss" in found.sentence()


def test_every_kind_that_is_told_can_be():
    parts = [part for name, part in every().items() if name not in ("evidence", "diagnostics")]
    found = br.redact(*parts, min_count=3)
    assert set(found.table["result"]) == {
        *("AttributeRisk", "IdentificationRisk", "FileRisk", "Uniqueness"),
        *("Utility", "ContextMeasures", "Membership"),
    }
    counted = found.table.dropna(subset=["low"])
    assert (counted["high"] - counted["low"] >= 2).all()


def test_a_small_file_is_told_nothing_of():
    table = br.redact(attribute([0.2] * 12), min_count=10).summary()
    assert set(table["found"]) == {"too few records"}


# --- files ------------------------------------------------------------------------------------


def test_the_page_holds_neither_label_nor_seed_nor_hash(tmp_path):
    study = parse_study(
        {"title": "a <b> & c", "data": {"demo": "italy"}, "model": {"kind": "DPMPM"},
         "attribute": {}, "output": {"redact": True, "min_count": 5}}
    )  # fmt: skip
    labels = [f"LABEL{i}" for i in range(40)]
    risk = attribute([0.21, 0.8765] * 20, labels=labels)
    write_run(tmp_path, study_result(study, risk=risk, ident=identification(40)))
    texts = {path.name: path.read_text() for path in tmp_path.glob("public.*")}
    assert set(texts) == {"public.html", "public.json"}
    for text in texts.values():
        assert not [mark for mark in (MARK, "LABEL", "8765", "0" * 64, "seed") if mark in text]
    assert "<b>" not in texts["public.html"] and "a &lt;b&gt; &amp; c" in texts["public.html"]
    told = json.loads(texts["public.json"])
    assert told["min_count"] == 5 and len(told["numbers"]) == 7
    assert pd.DataFrame(told["numbers"]).eval("high - low >= 4").all()
