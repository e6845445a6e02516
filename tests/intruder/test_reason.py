"""The reason why records were chosen for synthesis, known to the intruder (R)."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br

ORIGINAL = pd.DataFrame({"sex": list("ffffmm"), "job": list("aabbab")})
RELEASED = pd.DataFrame({"sex": list("ffffmm"), "job": list("baabab")})
CHOSEN = np.array([True, True, True, False, False, False])
KEYS = {"known": ["sex"], "synthesized": ["job"]}


def test_candidates_are_those_with_the_same_status():
    """Of two women shown with job b, one was left alone: she is not the one who was replaced."""
    plain = br.identification_risk(ORIGINAL, RELEASED, **KEYS)
    known = br.identification_risk(ORIGINAL, RELEASED, reason=CHOSEN, **KEYS)
    assert plain.c[:, 0].tolist() == [2, 2, 2, 2, 1, 1]
    assert known.c[:, 0].tolist() == [2, 2, 1, 1, 1, 1]
    assert known.T[:, 0].tolist() == [False, True, False, True, True, True]
    assert known.baseline.tolist() == [1 / 3, 1 / 3, 1 / 3, 1.0, 0.5, 0.5]


def test_it_is_a_further_known_column():
    """By hand: the mask stands as a column in every file."""
    rng = np.random.default_rng(1)
    n = 60
    original = pd.DataFrame({"a": rng.choice(list("xy"), n), "b": rng.choice(list("pqr"), n)})
    mask = (original["b"] == "p").to_numpy()
    tables = [
        original.assign(b=np.where(mask, rng.choice(list("pqr"), n), original["b"]))
        for _ in range(3)
    ]
    known = br.identification_risk(
        original, tables, known=["a"], synthesized=["b"], reason=lambda df: df["b"] == "p"
    )
    by_hand = br.identification_risk(
        original.assign(r=mask),
        [table.assign(r=mask) for table in tables],
        known=["a", "r"],
        synthesized=["b"],
    )
    np.testing.assert_array_equal(known.c, by_hand.c)
    np.testing.assert_array_equal(known.pooled_T, by_hand.pooled_T)
    np.testing.assert_array_equal(known.baseline, by_hand.baseline)


def test_people_outside_the_file_need_a_rule():
    people = pd.DataFrame({"sex": ["f", "m"], "job": ["b", "a"]}, index=[0, 99])
    options = {"targets": people, "population": np.array([5.0, 5.0]), **KEYS}
    risk = br.identification_risk(ORIGINAL, RELEASED, reason=lambda df: df["sex"] == "f", **options)
    assert risk.in_file.tolist() == [True, False]
    with pytest.raises(br.InputError, match="some targets are not among them; give a function"):
        br.identification_risk(ORIGINAL, RELEASED, reason=CHOSEN, **options)


def test_a_mask_with_labels_goes_by_them():
    """A Series in another order is the same mask; one of other records is none."""
    labelled = ORIGINAL.set_axis(list("uvwxyz"))
    released = RELEASED.set_axis(list("uvwxyz"))
    mask = pd.Series(CHOSEN, index=labelled.index)
    plain = br.identification_risk(labelled, released, reason=CHOSEN, **KEYS)
    turned = br.identification_risk(labelled, released, reason=mask[::-1], **KEYS)
    np.testing.assert_array_equal(turned.c, plain.c)
    some = br.identification_risk(labelled, released, targets=mask[::-1], **KEYS)
    assert some.records.index.tolist() == list("uvw")
    for name in ("reason", "targets"):
        with pytest.raises(br.InputError, match=f"the index of {name} does not name the orig"):
            br.identification_risk(labelled, released, **{name: mask.set_axis(range(6))}, **KEYS)


def test_the_rules_are_said():
    risk = br.identification_risk(ORIGINAL, RELEASED, reason=CHOSEN, **KEYS)
    assert "knows why records were chosen for synthesis" in risk.sentence()
    assert "knows why" not in br.identification_risk(ORIGINAL, RELEASED, **KEYS).sentence()


def test_a_known_population_holds_the_sample():
    few = br.Population.counted(ORIGINAL.iloc[1:], ["sex", "job"])
    with pytest.raises(br.InputError, match="rarer in the population than in the sample"):
        br.identification_risk(ORIGINAL, RELEASED, population=few, **KEYS)
