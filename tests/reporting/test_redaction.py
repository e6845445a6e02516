"""What may leave: ranges that nothing narrows, and no record, label or largest value."""

import json
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.app.output import write_run
from bayes_risk.app.study.study import parse_study
from bayes_risk.reporting.redaction import range_of
from tests.helpers.edge_results import LEVELS, MARK, attribute, identification, study_result
from tests.helpers.every_result import every

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
        assert low <= value <= high and high - low >= 10 - 1e-9


def test_a_sum_that_ought_to_be_whole_is_taken_so():
    assert range_of(10 * (1 + 1e-12), 50, 10, whole=False) == (0, 10)


@pytest.mark.parametrize(("value", "n"), [(3, 19), (0, 0), (np.nan, 100)])
def test_of_few_records_nothing_is_told(value, n):
    assert range_of(value, n, 10, whole=True) is None


# --- results ----------------------------------------------------------------------------------


def test_the_number_is_that_of_the_first_result_that_has_one():
    risk, ident, diagnostics = (every()[k] for k in ("attribute", "identification", "diagnostics"))
    held = {
        "Records released unchanged": ([diagnostics, risk, ident], risk.summary()["value"]),
        "Expected correct matches": ([ident, risk], ident.summary().loc["pooled"]),
    }
    names = {"Records released unchanged": "disclosed"}
    for measure, (results, values) in held.items():
        found = br.redact(*results, min_count=3)
        (row,) = found.table.to_dict("records")
        assert row["measure"] == measure
        assert row["low"] <= values[names.get(measure, "expected_match_risk")] <= row["high"]
        assert len(found.left_out) == len(results) - 1


def test_one_number_leaves_whatever_the_results():
    """Two ranges fixed a count: of complements, of matches and uniques, of probabilities."""
    parts = [part for name, part in every().items() if name not in ("evidence", "diagnostics")]
    for at, some in enumerate(combinations(parts, 2)):
        found = br.redact(*some[:: 1 - 2 * (at % 2)], min_count=3)
        assert len(found.table) <= 1 and len(found.left_out) == 2 - len(found.table)


def test_no_probability_leaves():
    """The share of one column's value moves the sum of probabilities by more than one a record."""
    seen = [br.redact(attribute(np.full(100, p))).table for p in (0.01, 0.5, 0.99)]
    assert seen[0].equals(seen[1]) and seen[0].equals(seen[2])


BASE, SIZE = 3, 10  # of the search
CELLS = list(product("ab", "xy"))


def of_counts(counts):
    rows = [cell for cell, k in zip(CELLS, counts, strict=True) for _ in range(k)]
    return pd.DataFrame(rows, columns=["key", "target"])


slow_file = pytest.param("abcdefghij", marks=pytest.mark.slow)


def slow(*counts):
    return pytest.param(counts, marks=pytest.mark.slow)


def results_of(y, z):
    """What can be on a page of a file whose rows are nobody's in particular."""
    return {
        "matches": br.identification_risk(y, z, known=[], synthesized=["key"], corresponds=False),
        "context": br.context_measures(
            y, z, keys=["key"], target="target", distances=False, random_seed=1
        ),
        "uniqueness": br.uniqueness(y, ["key", "target"]),
    }


def searched(found):
    """Tables and numbers by page: pairs of a result and the table that it is of."""
    pages: dict[tuple, list] = {}
    for result, table in found:
        (row,) = br.redact(result, min_count=BASE).table.to_dict("records")
        (public,) = (t.public for t in result.tables().values() if t.public is not None)
        number = round(float(public.value), 9)
        assert row["low"] <= number <= row["high"]
        pages.setdefault((row["low"], row["high"]), []).append((number, table))
    assert all(len(values) == len(pages[page]) for page, values in pages.items())
    return pages


@pytest.mark.check
@pytest.mark.parametrize("released", [(4, 5, 0, 1), slow(1, 0, 9, 0), slow(0, 0, 9, 1)])
def test_a_page_and_the_synthetic_file_leave_enough_numbers_and_counts(released):
    """By search over all tables of ten records: the number of a page, and every cell's count."""
    z = of_counts(released)
    tables = [c for c in product(range(SIZE + 1), repeat=len(CELLS)) if sum(c) == SIZE]
    results = [(results_of(of_counts(counts), z), counts) for counts in tables]
    told = 0
    for kind in results[0][0]:
        pages = searched((found[kind], counts) for found, counts in results)
        told += len(pages)
        every_number = {number for left in pages.values() for number, _ in left}
        for left in pages.values():
            numbers = {number for number, _ in left}
            # a number that the synthetic file fixes for all tables is no news
            assert len(numbers) >= BASE or len(every_number) < BASE or kind == "uniqueness"
            for cell in zip(*(counts for _, counts in left), strict=True):
                assert len(set(cell)) >= BASE
    assert told > len(results[0][0])


@pytest.mark.check
@pytest.mark.parametrize("released", ["aabbbcccdd", slow_file])
def test_right_matches_leave_every_record_enough_values(released):
    """By search, rows being records: eight are right up to one of them, two may be anything."""
    z = pd.DataFrame({"key": list(released)})
    release = br.Release(datasets=[z], synthesized=["key"])
    found = []
    other = dict(zip(sorted(set(released)), [*sorted(set(released))[1:], "a"], strict=True))
    for changed in product(other, repeat=2):
        for right in range(9):
            wrong = [other[key] for key in released[right:8]]
            y = pd.DataFrame({"key": [*released[:right], *wrong, *changed]})
            result = br.identification_risk(y, release, known=[], synthesized=["key"])
            found.append((result, (right, *changed)))
    pages = searched(found)
    assert len(pages) > 1
    for left in pages.values():
        assert len({number for number, _ in left}) >= BASE
        for values in zip(*(table for _, table in left), strict=True):
            assert len(set(values)) >= BASE


@pytest.mark.check
@pytest.mark.parametrize(("released", "n"), [((35, 1), 40), ((20, 20), 40), ((37, 7), 44)])
def test_one_column_is_left_enough_counts(released, n):
    """Total variation beside matches left a single table of forty records."""
    z = pd.DataFrame({"key": ["a"] * released[0] + ["b"] * released[1]})
    pages: dict[str, set[int]] = {}
    for count in range(n + 1):
        y = pd.DataFrame({"key": ["a"] * count + ["b"] * (n - count)})
        matched = br.identification_risk(y, z, known=[], synthesized=["key"], corresponds=False)
        uniques, utility = br.uniqueness(y, ["key"]), br.utility(y, z, random_seed=1)
        page = repr(br.redact(matched, uniques, utility, min_count=5))
        pages.setdefault(page, set()).add(count)
    assert min(map(len, pages.values())) >= 5


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


def test_the_kinds_of_which_a_number_leaves():
    parts = [part for name, part in every().items() if name not in ("evidence", "diagnostics")]
    tables = [br.redact(part, min_count=3).table for part in parts]
    assert {kind for table in tables for kind in table["result"]} == {
        *("AttributeRisk", "IdentificationRisk", "FileRisk", "Uniqueness", "ContextMeasures"),
    }
    for table in tables:
        counted = table.dropna(subset=["low"])
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
    assert told["min_count"] == 5 and len(told["numbers"]) == 1
    assert pd.DataFrame(told["numbers"]).eval("high - low >= 4").all()
