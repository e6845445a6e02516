"""What every model keeps, whatever it is: `evidence/contract.py`, tried on each."""

import dataclasses
import inspect
from functools import cache

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.evidence import contract
from tests.helpers.fits import M, encoded, example, fit_of, fitted, offered, release_of

OWN = pytest.param("PyMCModel", marks=pytest.mark.check)  # PyTensor compiles
MODELS = [*sorted(set(br.models.BUILT_IN) - {"PyMCModel"}), OWN]
WAYS = ("exact", "predictive", "refit", "importance", "monte-carlo", "simulated", "parts")
every_model = pytest.mark.parametrize("name", MODELS)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # short fits


@cache
def risk_of(name, evidence, random_seed=3):
    targets = {"targets": 4, "random_seed": random_seed}
    guesses = {} if example(name).guesses is None else {"guesses": example(name).guesses}
    return br.attribute_risk(
        fit_of(name), release_of(name), evidence=evidence, **guesses, **targets
    )


@every_model
def test_the_declaration_is_frozen_and_its_docstring_names_its_parameters(name):
    model = example(name).model
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(model, next(iter(inspect.signature(type(model)).parameters)), None)
    text = inspect.getdoc(type(model)).partition("Parameters\n")[2]
    missing = [p for p in inspect.signature(type(model)).parameters if p not in text]
    assert missing == []


@every_model
def test_what_is_fitted_is_not_touched_and_is_what_the_fit_holds(name):
    made = example(name)
    before = made.table.copy(deep=True)
    fit = fit_of(name)
    pd.testing.assert_frame_equal(made.table, before)
    assert list(fit.microdata.columns) == list(made.table.columns)
    assert list(fit.microdata.index) == list(made.table.index)
    assert fit.n_draws >= 0 and isinstance(fit.records_differ, bool)
    assert isinstance(fit.mechanism(encoded(fit, release_of(name))), str)


@every_model
def test_releases_are_tables_like_the_original(name):
    made, release = example(name), release_of(name)
    assert release.m == M == len(release.datasets)
    kept = [c for c in made.table.columns if c not in release.synthesized]
    codes = release.codes(fit_of(name).microdata)
    levels = fit_of(name).microdata.n_levels
    assert all((codes[:, :, j] >= 0).all() for j, d in enumerate(levels) if d)
    assert all((codes[:, :, j] < d).all() for j, d in enumerate(levels) if d)
    for data in release.datasets:
        assert data.index.equals(made.table.index)
        assert list(data.dtypes) == list(made.table.dtypes)
        pd.testing.assert_frame_equal(data[kept], made.table[kept])


@every_model
def test_equal_seeds_give_equal_bytes_and_others_do_not(name):
    fit, release = fitted(name), release_of(name)
    assert release.seed_entropy == "2" and not release.datasets[0].equals(release.datasets[1])
    again, other = (fit.synthesize(M, random_seed=seed) for seed in (2, 9))
    for one, two in zip(release.datasets, again.datasets, strict=True):
        pd.testing.assert_frame_equal(one, two, check_exact=True)
    pairs = zip(release.datasets, other.datasets, strict=True)
    assert not all(one.equals(two) for one, two in pairs)


@every_model
@pytest.mark.parametrize("evidence", WAYS)
def test_evidence_that_is_offered_is_a_posterior_and_other_evidence_is_refused(name, evidence):
    ways = offered(fit_of(name), release_of(name))
    assert ways and ways <= set(WAYS)
    if evidence not in ways:
        with pytest.raises(br.InputError, match=evidence):
            risk_of(name, evidence)
        return
    risk = risk_of(name, evidence)
    records = risk.records
    assert len(records) == 4 and set(records.index) <= set(example(name).table.index)
    for label in records.index:
        posterior = risk.posterior(label)
        np.testing.assert_allclose(posterior[["prior", "probability"]].sum(), 1.0, rtol=1e-9)
    assert records["probability"].between(0, 1).all()
    assert (records["mcse"].isna() | (records["mcse"] >= 0)).all()


@every_model
def test_an_audit_has_a_seed(name):
    evidence = sorted(offered(fit_of(name), release_of(name)))[0]
    one, two = risk_of(name, evidence).records, risk_of.__wrapped__(name, evidence).records
    pd.testing.assert_frame_equal(one, two, check_exact=True)


@pytest.mark.parametrize("evidence", ["predictive", "refit", "importance"])
@pytest.mark.parametrize("classes", ["new", "own"])
def test_an_audit_encodes_a_release_once(monkeypatch, classes, evidence):
    fit, asked, codes = fit_of("DPMPM"), [], br.Release.codes
    release = fit.synthesize(M, classes=classes, random_seed=5)
    monkeypatch.setattr(
        br.Release, "codes", lambda self, *given: asked.append(self) or codes(self, *given)
    )
    br.attribute_risk(fit, release, evidence=evidence, targets=3, prior="release", random_seed=1)
    assert asked == [release]


@every_model
@pytest.mark.parametrize("knows", ["all-but-target", "none"])
def test_an_offer_keeps_its_protocol_or_is_refused(name, knows):
    fit, release = fit_of(name), encoded(fit_of(name), release_of(name))
    can = fit.capabilities(release, br.Intruder(knows_records=knows))
    protocols = contract.EVIDENCE | contract.FURTHER
    for offer in can.offers:
        assert bool(offer.refusal) != (offer.name in can)
        protocol = protocols[offer.name]
        if offer.refusal or offer.compute is not None:
            assert offer.fit is None
            continue
        own = offer.name != "household"  # an object of its own, `Jointly`
        assert (offer.fit is fit or not own) and protocol is not None
        assert [n for n in dir(protocol) if n[0] != "_" and not hasattr(fit, n)] == []
    assert len({offer.name for offer in can.offers}) == len(can.offers)
    with pytest.raises(dataclasses.FrozenInstanceError):
        can.offers = ()
    assert can.methods or can.of_evidence or "knowing" not in can


def test_an_offer_is_of_a_method_that_there_is():
    with pytest.raises(br.InputError, match="'exakt' is not a method; offer one of .'exact'"):
        contract.Offer("exakt")
