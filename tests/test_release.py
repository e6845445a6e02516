"""Releases made here and elsewhere: what they say, and what does not fit the original."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br

TABLE = pd.DataFrame(
    {"a": ["x", "y", "x", "y"], "b": [1, 2, 3, 1], "c": ["u", "u", "v", "v"]},
    index=["p", "q", "r", "s"],
)
DATA = br.Microdata.from_frame(TABLE)
SYNTHETIC = TABLE.assign(b=[3, 3, 1, 2])


def release(*tables, synthesized=("b",), **options):
    return br.Release(datasets=list(tables), synthesized=list(synthesized), **options)


def test_codes_of_all_data_sets():
    found = release(SYNTHETIC, TABLE).codes(DATA)
    assert found.shape == (2, 4, 3)
    assert found[0, :, 1].tolist() == [2, 2, 0, 1]
    assert (found[1] == DATA.codes).all() and (found[0][:, [0, 2]] == DATA.codes[:, [0, 2]]).all()
    assert (release(SYNTHETIC, TABLE).codes(DATA, 0) == found[0]).all()


def test_unsynthesized_columns_may_be_absent():
    found = release(SYNTHETIC[["b"]]).codes(DATA)
    assert (found == release(SYNTHETIC).codes(DATA)).all()


def test_records_are_found_by_their_index():
    shuffled = SYNTHETIC.loc[["s", "p", "r", "q"]]
    assert (release(shuffled).codes(DATA) == release(SYNTHETIC).codes(DATA)).all()


def test_number_of_data_sets_and_replaced_records():
    mask = np.array([True, False, True, True])
    assert release(TABLE, TABLE, TABLE).m == 3
    assert release(TABLE).replaced(4).all()
    assert (release(TABLE, records=mask).replaced(4) == mask).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"datasets": []}, "m = 0: datasets is empty"),
        ({"datasets": TABLE}, r"one DataFrame; give a list: datasets=\[df\]"),
        ({"synthesized": []}, "synthesized is empty"),
        ({"synthesized": ["z"]}, "names column 'z'"),
        ({"synthesized": "b"}, "single string"),
        ({"datasets": [TABLE, TABLE.iloc[:3]]}, "release 2 has 3 records and release 1 has 4"),
        ({"classes": "fresh"}, "classes='fresh'"),
        ({"records": np.zeros(4, dtype=bool)}, "records selects no record"),
    ],
)
def test_declarations_that_cannot_be(options, message):
    with pytest.raises(br.InputError, match=message):
        br.Release(**{"datasets": [TABLE], "synthesized": ["b"], **options})


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: release(SYNTHETIC.iloc[:3]), "release 1 has 3 records and the original 4"),
        (lambda: release(SYNTHETIC.reset_index(drop=True)), "does not name the original's records"),
        (
            lambda: release(TABLE, SYNTHETIC.assign(b=9)),
            "column 'b' of release 2 holds a value",
        ),
        (lambda: release(SYNTHETIC.assign(a="x")), "column 'a' of release 1 differs.*synthesized="),
        (
            lambda: release(SYNTHETIC, records=np.array([True, True, True, False])),
            "column 'b' of release 1 differs from the original for records",
        ),
        (
            lambda: release(SYNTHETIC, records=np.array([True, True, True])),
            "records has 3 entries; the original has 4 records",
        ),
        (
            lambda: release(SYNTHETIC.assign(b=[1, None, 2, 3])),  # type: ignore[list-item]
            "column 'b' of release 1 has 1 missing values",
        ),
    ],
)
def test_releases_that_do_not_fit_the_original(made, message):
    with pytest.raises(br.InputError, match=message):
        made().codes(DATA)
