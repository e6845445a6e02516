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


def test_a_release_says_how_its_parameters_were_drawn():
    assert release(TABLE).parameters is None
    for way in ("one-mode", "independent", "plug-in"):
        assert release(TABLE, TABLE, parameters=way).by_draw == ((0,), (1,))
    assert release(TABLE, TABLE, parameters="shared").by_draw == ((0, 1),)
    with pytest.raises(br.InputError, match="parameters='own'.*plug-in"):
        release(TABLE, parameters="own")


def test_records_are_found_by_their_index():
    shuffled = SYNTHETIC.loc[["s", "p", "r", "q"]]
    assert (release(shuffled).codes(DATA) == release(SYNTHETIC).codes(DATA)).all()


def test_number_of_data_sets_and_replaced_records():
    mask = np.array([True, False, True, True])
    assert release(TABLE, TABLE, TABLE).m == 3
    assert release(TABLE).replaced(4).all()
    assert (release(TABLE, records=mask).replaced(4) == mask).all()
