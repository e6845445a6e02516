"""What settles an inconclusive verdict: of the same files, under the same intruder, to the end."""

import hashlib
import re

import numpy as np
import pandas as pd
import pytest

from bayes_risk.app.run import identify_files, run
from bayes_risk.app.study.study import parse_study
from bayes_risk.reporting.verdicts.doubts import CURES

N = 200


def people(seed=1):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({"sex": rng.choice(["f", "m"], N), "job": rng.choice(list("abc"), N)})
    return df.assign(ill=np.where(rng.random(N) < 0.3, "yes", "no")), rng


def test_no_cure_makes_another_release_or_a_weaker_intruder():
    settings = {
        name: words for name, words in CURES.items() if "draws =" in words or "chains =" in words
    }
    settings = {n: w.replace("{", "").replace("}", "") for n, w in settings.items()}
    assert all(" of this release and a fit with " in words for words in settings.values())
    assert not [name for name, words in CURES.items() if "fewer keys" in words]
    assert not [name for name, words in CURES.items() if "held_out" in words]


# --- target_mcse ----------------------------------------------------------------------------------


def audited(path, thresholds=None, **attribute):
    content = {
        "data": {"path": path},
        "random_seed": 3,
        "model": {"kind": "DPMPM", "n_classes": 30, "draws": 60, "tune": 60, "chains": 2},
        "release": {"m": 2, "columns": ["job", "ill"]},
        "attribute": {"targets": 30, **attribute},
        "thresholds": {"rhat": float("inf"), "share_unreliable": 1.0, **(thresholds or {})},
    }
    found = run(parse_study(content), "audit")
    tables = [table.to_csv().encode() for table in found.release.datasets]
    return found, hashlib.sha256(b"".join(tables)).hexdigest()


@pytest.mark.check
def test_target_mcse_settles_the_release_that_was_in_doubt(tmp_path):
    people()[0].to_csv(tmp_path / "data.csv", index=False)
    first, made = audited(tmp_path / "data.csv")
    records = first.attribute.records
    gained = records["probability"] - records["prior"]
    worst = gained.idxmax()
    p, error = records.loc[worst, "probability"], records.loc[worst, "mcse_log_bayes_factor"]
    error = max(float(records.loc[worst, "mcse"]), float(p * (1 - p) * error))
    measure = "probability gained"
    limits = {
        "attribute_gain": float(gained[worst]) + 1.5 * error,
        "attribute_log_bayes_factor": float("inf"),
        "share_not_audited": 1.0,
    }
    found, shown = audited(tmp_path / "data.csv", limits)
    for _ in range(3):  # the cure, then half of it
        (said,) = [r for r in found.verdict.reasons if r.measure == measure]
        if said.outcome != "inconclusive":
            break
        target = float(re.search(r"target_mcse = ([0-9.e-]+)", said.cure)[1])
        found, shown = audited(tmp_path / "data.csv", limits, target_mcse=target)
        assert shown == made
    assert said.outcome != "inconclusive" and shown == made


# --- files made elsewhere -------------------------------------------------------------------------


def files():
    """Kind of file: the original, the file, the columns made, and what is said of its rows."""
    df, rng = people()
    fresh = people(7)[0]
    pay = df.assign(pay=rng.lognormal(9, 1, N).round(2))
    noise = pay.assign(pay=(pay["pay"] * rng.normal(1, 0.01, N)).round(2))
    drawn = df.assign(ill=rng.permutation(df["ill"]))
    total = rng.lognormal(9, 1, N)
    total = pay.assign(pay=(total * pay["pay"].sum() / total.sum()).round(2))
    every, few = ["sex", "job", "ill"], ["ill"]
    return {
        "kept columns": (df, drawn, few, None),
        "kept columns, noise": (pay, noise, ["pay"], None),
        "kept columns, total": (pay, total, ["pay"], None),
        "the original": (df, df, every, None),
        "rows unknown": (df, fresh, every, None),
        "rows stated": (df, fresh, every, True),
        "fully synthetic": (df, fresh, every, False),
        "fully synthetic, other size": (df, fresh.iloc[:120], every, False),
        "original shuffled": (pay, pay.sample(frac=1, random_state=1), [*every, "pay"], False),
    }


def judged(folder, kind, what, corresponds="as made"):
    df, file, made, there = files()[kind]
    there = there if corresponds == "as made" else corresponds
    for name, table in (("data", df), ("file", file)):
        table.to_csv(folder / f"{name}.csv", index=False)
    known = [c for c in df.columns if c not in made]
    content = {
        "data": {"path": folder / "data.csv"},
        "release": {"files": [folder / "file.csv"], "columns": made},
        "identification": {"known": [c for c in known if c != "pay"], "synthesized": made},
    }
    if there is not None:
        content["identification"]["corresponds"] = there
    if there is False:
        content["identification"]["known"] = []
    return what(parse_study(content)).verdict


@pytest.mark.parametrize("kind", files())
def test_the_same_files_have_the_same_verdict_by_identify_and_by_audit(tmp_path, kind):
    one, other = (judged(tmp_path, kind, what) for what in (identify_files, run))
    assert one.headline == other.headline
    assert one.reasons == other.reasons
    of = {"rows unknown": "inconclusive", "kept columns, noise": "above your thresholds"}
    of |= dict.fromkeys(("fully synthetic", "fully synthetic, other size"), "not judged")
    of |= dict.fromkeys(("kept columns, total", "the original"), "above your thresholds")
    of |= {"original shuffled": "above your thresholds"}
    of |= dict.fromkeys(("kept columns", "rows stated"), "within your thresholds")
    assert one.outcome == of[kind]


@pytest.mark.parametrize("stated", [True, False])
def test_who_made_the_files_settles_whose_rows_they_are(tmp_path, stated):
    before = judged(tmp_path, "rows unknown", run)
    (doubt,) = before.deciding
    assert f"corresponds = {str(stated).lower()}" in doubt.cure
    after = judged(tmp_path, "rows unknown", run, stated)
    assert after.outcome == ("within your thresholds" if stated else "not judged")
    measures = {r.measure for r in after.reasons if r.outcome == "inconclusive"}
    assert doubt.measure not in measures
