"""Matching in files of any number of rows, none of which is a certain record's, by hand."""

import json
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bayes_risk as br
from bayes_risk.app.cli import app
from bayes_risk.app.run import run, run_study
from bayes_risk.app.study.study import parse_study
from bayes_risk.reporting.verdicts.verdict import judge
from tests.oracles.all_pairs import Rules

KEYS = ["sex", "age", "pay"]
KINDS = pytest.mark.parametrize(
    "how",
    [
        {},
        {"radius": {"age": br.Absolute(2)}},
        {"radius": {"age": br.Absolute(2), "pay": 0.5}},
        {"radius": {"age": br.Quantile(0.1), "pay": 0.5}, "shape": "ellipse", "closed": False},
        {"radius": {"age": br.SD(0.5), "pay": br.Absolute(2)}, "missing": "wildcard"},
        {"radius": {"age": 0.2}, "missing": {"pay": "never", "sex": "level"}},
    ],
)


def table(n, seed):
    rng = np.random.default_rng(seed)
    pay = np.where(rng.random(n) < 0.15, np.nan, rng.integers(1, 6, n))
    age = rng.integers(20, 30, n).astype(float)
    return pd.DataFrame({"sex": rng.choice(["f", "m"], n), "age": age, "pay": pay})


ORIGINAL, FILES = table(30, 1), [table(12, 2), table(30, 3), table(71, 4)]


def rows_of(df):
    return [{k: None if pd.isna(v) else v for k, v in row.items()} for row in df.to_dict("records")]


def risk_of(files=FILES, **how):
    return br.identification_risk(ORIGINAL, files, known=[], synthesized=KEYS, **how)


def by_hand(targets, files, how):
    """How many rows of each file match each target: everyone against everyone."""
    missing = how.get("missing", "level")
    missing = missing if isinstance(missing, dict) else dict.fromkeys(KEYS, missing)
    radius = {
        k: br.Relative(r) if isinstance(r, float) else r for k, r in how.get("radius", {}).items()
    }
    round_ = how.get("shape") == "ellipse"
    rules = Rules(rows_of(ORIGINAL), radius, missing, how.get("closed", True), round_)
    return [
        [sum(rules.match(t, row, KEYS) for row in rows_of(file)) for file in files]
        for t in rows_of(targets)
    ]


@KINDS
def test_counts_by_hand(how):
    found = risk_of(**how)
    assert isinstance(found, br.MatchCounts)
    assert found.c.tolist() == by_hand(ORIGINAL, FILES, how)
    (own,) = zip(*by_hand(ORIGINAL, [ORIGINAL], how), strict=True)
    itself = [by_hand(ORIGINAL.iloc[[i]], [ORIGINAL.iloc[[i]]], how)[0][0] for i in range(30)]
    assert found.others.tolist() == [n - one for n, one in zip(own, itself, strict=True)]


@KINDS
def test_records_in_any_order_have_the_counts_of_records_in_their_own(how):
    """As many rows, whether they are the original's or shuffled; N of each release."""
    files = [table(30, seed) for seed in (5, 6, 7)]
    shuffled = [file.sample(frac=1, random_state=1).reset_index(drop=True) for file in files]
    own = risk_of(files, fallback=False, **how)
    for given in (files, shuffled):
        found = risk_of(given, corresponds=False, **how)
        assert (found.c == own.c).all() and found.in_file.all()
        each = found.summary().loc[[1, 2, 3], ["no_match", "unique_matches"]].to_numpy()
        assert (each == own.summary().loc[[1, 2, 3], ["no_match", "unique_matches"]]).all(axis=None)
    exact = risk_of(files, corresponds=False)
    counted = exact.exposure.replicated.sum(axis=0)
    assert exact.summary().loc[[1, 2, 3], "replicated_uniques"].tolist() == counted.tolist()
    assert not exact.exposure.corresponds.any()


def test_targets_are_some_records_or_other_people():
    some = risk_of(targets=[4, 7])
    assert (some.c == risk_of().c[[4, 7]]).all() and (some.others == risk_of().others[[4, 7]]).all()
    people = table(9, 8).set_axis(list("abcdefghi"))
    found = risk_of(targets=people)
    assert found.c.tolist() == by_hand(people, FILES, {})
    assert found.others.tolist() == [n for (n,) in by_hand(people, [ORIGINAL], {})]
    assert not found.in_file.any() and not found.replicated.any()


def test_what_some_rows_would_show_by_enumeration():
    """Every choice of rows of a release, and of the other records of each target, by itself."""
    original = pd.DataFrame({"a": list("xxyyz")})
    files = [pd.DataFrame({"a": list("xxxyyzw")}), pd.DataFrame({"a": list("xyz")})]
    found = br.identification_risk(original, files, known=[], synthesized=["a"]).summary()

    def expected(rows_for, size):
        """Targets with none, one, one to four of so many rows, and rows on average."""
        total = [Fraction(0)] * 4
        for t in range(5):
            choices = list(combinations(rows_for(t), size))
            for rows in choices:
                k = sum(v == original["a"][t] for v in rows)
                for place, is_so in enumerate((k == 0, k == 1, 0 < k < 5, Fraction(k, 5))):
                    total[place] += Fraction(is_so) / len(choices)
        return np.array(total, float)

    thinned = [expected(lambda _, z=z: z["a"], min(len(z), 4)) for z in files]
    others = [expected(lambda t: original["a"].drop(t), min(len(z), 4)) for z in files]
    columns = ["no_match", "unique_matches", "below_5", "candidates"]
    for name, rows in (("thinned", thinned), ("others", others)):
        assert found.loc[name, columns].tolist() == pytest.approx(np.mean(rows, axis=0).tolist())
    assert found.loc[1].tolist() == [0, 1, 5, 11 / 5, 1]
    assert found.loc[2].tolist() == [0, 5, 5, 1, 1]


def test_rows_that_know_nothing_of_the_target_agree_with_the_other_records():
    """Exactly, over all originals and files of three and two fair coins."""
    pairs = []
    for bits in range(2**5):
        coins = [(bits >> k) & 1 for k in range(5)]
        y, z = (pd.DataFrame({"a": part}) for part in (coins[:3], coins[3:]))
        rows = br.identification_risk(y, z, known=[], synthesized=["a"]).summary()
        pairs.append(rows.loc[["thinned", "others"]].to_numpy()[:, :4])
    thinned, others = np.mean(pairs, axis=0)
    assert thinned.tolist() == pytest.approx(others.tolist(), abs=1e-12)
    assert thinned[0] == pytest.approx(3 * 0.25)  # neither of two rows is the target's


def test_large_files_are_counted_whole():
    """Hypergeometric numbers of all rows are 0 and 1, and many rows are no trouble."""
    n, N = 2_000, 300_000
    rng = np.random.default_rng(1)
    y, z = (pd.DataFrame({"a": rng.geometric(0.01, size)}) for size in (n, N))
    found = br.identification_risk(y, z, known=[], synthesized=["a"])
    seen = z["a"].value_counts().reindex(y["a"]).fillna(0).to_numpy()
    each = found.summary().loc[1]
    assert (found.c[:, 0] == seen).all()
    wanted = [(seen == 0).sum(), (seen == 1).sum(), ((seen > 0) & (seen < 5)).sum(), seen.mean()]
    assert each[["no_match", "unique_matches", "below_5", "candidates"]].tolist() == wanted
    none = sum(comb(N - int(k), n - 1) / comb(N, n - 1) for k in seen[:5])
    some = br.identification_risk(y, z, known=[], synthesized=["a"], targets=y.index[:5].tolist())
    assert some.summary().loc["thinned", "no_match"] == pytest.approx(none, rel=1e-9)


def test_errors_and_files_of_one_record():
    one = ORIGINAL.iloc[:1]
    found = br.identification_risk(one, FILES, known=[], synthesized=["sex"]).summary()
    assert found.loc["others", ["no_match", "candidates"]].tolist() == [1, 0]
    assert found.loc["thinned", "no_match"] == 1
    assert np.isnan(risk_of(FILES[:1]).summary().loc["mcse"]).all()
    counts = risk_of().summary()
    assert counts.loc["mcse", "no_match"] == pytest.approx(
        counts.loc[[1, 2, 3], "no_match"].std() / 3**0.5
    )


def test_records_and_dataset():
    found = risk_of(radius={"age": br.Absolute(2)}, targets=list(range(20)))
    records = found.records
    assert records["candidates"].tolist() == found.c.mean(axis=1).tolist()
    assert records["expected"].to_numpy() == pytest.approx(found.others * (12 + 30 + 71) / 3 / 29)
    assert records["unique_matches"].sum() == found.summary().loc[[1, 2, 3], "unique_matches"].sum()
    assert found.dataset["candidates"].dims == ("record",)


# --- what needs the row of a record --------------------------------------------------------------

REFUSED = [
    ({"known": ["sex"], "synthesized": ["age"]},
     "known is of records, and release 1 has 12 records and the original 30, so that rows .*; "
     "leave it out, name columns that were drawn afresh under synthesized"),
    ({"population": np.ones(30)}, "population is of records, and .*; leave it out"),
    ({"reason": np.ones(30, bool)}, "reason is of records, and .*; leave it out"),
    ({"known": ["sex"], "synthesized": ["age"], "corresponds": False, "files": ORIGINAL},
     "known is of records, and corresponds is false"),
    ({"corresponds": True}, "release 1 has 12 records and the original 30; a release must hold"),
    ({"corresponds": "no"}, "corresponds='no' is not a truth value"),
    ({"files": ORIGINAL.set_axis(range(3, 33))}, "does not name .* give corresponds=False"),
    ({"strategy": "likeliest"}, "strategy='likeliest' changes nothing"),
    ({"files": FILES[0].assign(sex=None)[["sex"]], "synthesized": ["sex"]},
     "release 1 has no value of the synthesised keys"),
    ({"files": [FILES[0], FILES[1].assign(age="a")]}, "column 'age' .* text in release 2"),
]  # fmt: skip


@pytest.mark.parametrize(("how", "message"), REFUSED)
def test_what_needs_the_row_of_a_record_is_refused(how, message):
    keys = {"known": [], "synthesized": KEYS}
    files = how.get("files", FILES)
    with pytest.raises(br.InputError, match=message):
        br.identification_risk(
            ORIGINAL, files, **keys | {k: v for k, v in how.items() if k != "files"}
        )


def test_tables_drawn_of_records_and_sweeps_are_refused():
    model = br.models.CART(order=["age"], min_leaf=3)
    y = ORIGINAL[["sex", "age"]]
    release = model.fit(y, random_seed=1).synthesize(m=2, random_seed=2)
    drawn = br.replicates(release, model, n_tables=2, random_seed=3)
    with pytest.raises(br.InputError, match="Replicates is of records, and corresponds is false"):
        br.identification_risk(y, drawn, known=[], synthesized=["age"], corresponds=False)
    with pytest.raises(br.InputError, match="neither right nor wrong. A sweep compares"):
        over = {"radius": {"age": [0.1, 0.2]}}
        br.identification_sweep(ORIGINAL, FILES, known=[], synthesized=["age"], over=over)


# --- front doors ---------------------------------------------------------------------------------


def test_the_sentence_says_why_and_the_report_shows_the_table(tmp_path):
    found = risk_of(radius={"age": br.Absolute(2)})
    said = found.sentence()
    assert said.startswith(
        "Rows do not correspond to records, so matches are neither right nor wrong. Of 30 targets, "
        "by sex, age (within 2), pay, in 3 releases: no row matches "
    )
    assert "Thinned to at most 29 rows, no row" in said
    page = br.report(found, path=tmp_path / "report.html").read_text()
    assert '<h2 id="match-counts">' in page and "One to four" in page
    assert "looks among rows without correspondence" in page
    assert "Matching: exact counting, nothing was sampled" in page
    assert br.redact(found).left_out == []


def test_the_verdict_judges_what_the_files_show_and_no_true_matches():
    verdict = judge(None, risk_of())
    reason = next(r for r in verdict.reasons if r.measure == "identification risk")
    assert reason.outcome == "not judged" and "neither right nor wrong" in reason.sentence
    copies = pd.concat([ORIGINAL.assign(pay=range(30))] * 2, ignore_index=True)
    same = br.identification_risk(
        ORIGINAL.assign(pay=range(30)), copies.iloc[:45], known=[], synthesized=KEYS
    )
    assert judge(None, same).outcome == "above your thresholds"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ORIGINAL.to_csv("original.csv", index=False)
    for l, file in enumerate([FILES[0], table(12, 9), table(30, 10)], start=1):
        file.to_csv(f"syn{l}.csv", index=False)
    return tmp_path


def call(*words):
    keys = ["--synthesized", "sex,age", "--output", "out"]
    done = CliRunner(env={"COLUMNS": "100"}).invoke(
        app, ["identify", "original.csv", *words, *keys]
    )
    return done, " ".join(done.stdout.split())


def test_the_command_takes_files_of_any_number_of_rows(folder):
    done, said = call("syn1.csv", "syn2.csv")
    assert done.exit_code == 0, done.output
    assert "Rows do not correspond to records" in said and "One to four" in said
    records = pd.read_csv("out/records.csv", index_col="record")
    assert records["identification_replicated_uniques"].is_monotonic_decreasing
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert set(summary["identification_risk"]["measures"]) == {
        *("1", "2", "mean", "mcse", "thinned", "others")
    }
    assert "correspondence" not in summary
    assert '<h2 id="match-counts">' in (folder / "out" / "report.html").read_text()


def test_as_many_rows_are_the_originals_unless_it_is_said(folder):
    assert "No column of release 1 was kept" in call("syn3.csv")[1]
    (folder / "out" / "report.html").unlink()
    done, said = call("syn3.csv", "--no-corresponds", "--overwrite")
    assert done.exit_code == 0 and "Rows do not correspond to records" in said
    done, _ = call("syn1.csv", "--known", "pay", "--overwrite")
    assert done.exit_code == 2 and "--known is of records, and " in done.stderr


@pytest.mark.filterwarnings("ignore::bayes_risk.TruncationWarning")
def test_a_study_matches_the_rows_that_it_makes(folder):
    content = {
        "random_seed": 1,
        "data": {"path": folder / "original.csv", "columns": ["sex", "age"]},
        "model": {"kind": "DPMPM", "n_classes": 2, "draws": 40, "tune": 20},
        "release": {"m": 2, "n": 50},
        "attribute": {"targets": 5},
        "identification": {"synthesized": ["sex", "age"], "known": []},
        "context": {"keys": ["sex"], "target": "age", "distances": False},
        "bounds": {},
        "output": {"folder": folder / "study", "redact": True},
    }
    found = run_study(parse_study(content))
    assert isinstance(found.identification, br.MatchCounts)
    assert found.identification.sizes.tolist() == [30, 50, 50]
    assert "expected_match_risk" not in found.bounds.summary().index
    less = {k: v for k, v in content.items() if k not in ("context", "output", "attribute")}
    with pytest.raises(br.InputError, match=r"\[bounds\] has nothing to show.* right nor wrong"):
        run(parse_study(less), "audit")
    content["identification"]["corresponds"] = True
    with pytest.raises(br.InputError, match="50 records and the original 30"):
        run(parse_study(content | {"output": {}}), "audit")


def test_candidates_of_any_number_of_rows_have_no_true_matches():
    keys = {"known": [], "synthesized": KEYS}
    ways = {"many": FILES[2], "records": table(30, 5)}
    found = br.compare(ways, ORIGINAL, identification=keys, utility=None, random_seed=1)
    values = found.dataset["expected_match_risk"]
    assert np.isnan(values.sel(candidate="many")).all()
    assert (values.sel(candidate="records") > 0).all()
