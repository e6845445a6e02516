"""Arguments of another kind than is wanted: one line, with what to give."""

import sys
from types import SimpleNamespace
from typing import Any

import matplotlib.figure
import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.data import base_result

TABLE = pd.DataFrame({"sex": list("fm") * 20, "job": list("aabbc") * 8, "pay": np.arange(40) * 50})
KEYS: dict[str, Any] = {"known": ["sex"], "synthesized": ["pay"], "corresponds": True}


@pytest.fixture(scope="module")
def made():
    fit = br.models.CART(order=["job"]).fit(TABLE.drop(columns="pay"), random_seed=1)
    return fit, fit.synthesize(m=2, random_seed=1)


AUDITS = {
    "attribute risk": br.attribute_risk,
    "evidence": br.attribute_evidence,
    "the full table": lambda fit, release: br.full_table_risk(fit, release, targets=[0]),
    "membership": lambda fit, release: br.membership(fit, release, others=TABLE),
    "the mechanism": br.check_mechanism,
    "sensitivity": lambda fit, release: br.sensitivity(fit, release, over={"prior": ["uniform"]}),
}


@pytest.mark.parametrize("audit", AUDITS.values(), ids=AUDITS)
def test_what_is_no_fit_or_no_release_is_named(made, audit):
    fit, release = made
    with pytest.raises(br.InputError, match="fit is a DataFrame; give the fit of a model"):
        audit(TABLE, release)
    with pytest.raises(br.InputError, match="release is a list; give what fit.synthesize returns"):
        audit(fit, release.datasets)
    with pytest.raises(br.InputError, match="fit and release are exchanged"):
        audit(release, fit)


def test_a_picture_is_drawn_on_axes_and_saved_by_its_figure(made, tmp_path):
    risk = br.attribute_risk(*made, targets=4, random_seed=1)
    with pytest.raises(br.InputError, match=r"ax is a str; .* result.plot\(\).figure.savefig"):
        risk.plot("picture.png")
    risk.plot().figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1_000


def test_a_notebook_shows_a_picture_that_has_no_axes_yet(made, monkeypatch):
    shown: list[Any] = []
    monkeypatch.setattr(base_result, "in_notebook", lambda: True)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=shown.append))
    risk = br.attribute_risk(*made, targets=4, random_seed=1)
    axes = risk.plot()
    assert shown == [axes.figure]
    risk.plot(ax=matplotlib.figure.Figure().subplots())
    assert len(shown) == 1


@pytest.mark.parametrize("radius", [1001, 1.5])
def test_a_radius_above_the_whole_value_is_no_share(radius):
    with pytest.raises(br.InputError, match=rf"units of the column give Absolute\({radius}\)"):
        br.identification_risk(TABLE, TABLE, radius={"pay": radius}, **KEYS)
    found = br.identification_risk(TABLE, TABLE, radius={"pay": br.Absolute(radius)}, **KEYS)
    assert found.n == 40
    br.identification_risk(TABLE, TABLE, radius={"pay": 1}, **KEYS)
    br.identification_risk(TABLE, TABLE, radius={"pay": br.Relative(radius)}, **KEYS)
