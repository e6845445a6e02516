"""Independent columns: exact evidence against enumeration and the mixture of one class."""

from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln

import bayes_risk as br
from bayes_risk.app.run import run_study
from bayes_risk.app.study.study import parse_study
from bayes_risk.demo import demo_data
from bayes_risk.models import DPMPM, Marginals

DF = pd.DataFrame({"a": ["x", "y", "x", "x"], "b": ["u", "u", "v", "w"]})
LEVELS = {c: sorted(DF[c].unique()) for c in DF}
CELLS = list(product(*LEVELS.values()))
PRIOR = 0.7


def log_p(tables, rows):
    """log p(Z | y): each column of all tables together, drawn from one share."""
    found = 0.0
    for c, levels in LEVELS.items():
        a = np.array([PRIOR + (rows[c] == v).sum() for v in levels])
        z = np.array([sum((t[c] == v).sum() for t in tables) for v in levels])
        found += (gammaln(a + z) - gammaln(a)).sum() + gammaln(a.sum()) - gammaln((a + z).sum())
    return found


def with_values(**records):
    rows = DF.copy()
    for k, values in records.items():
        rows.loc[int(k[1:])] = values
    return rows


def check(risk, log):
    """The posterior of record 0 is the normalised enumeration."""
    p = np.exp(np.array(list(log.values())) - max(log.values()))
    table = risk.posterior(0).set_index(list(DF))["probability"]
    np.testing.assert_allclose(table.loc[list(log)], p / p.sum(), rtol=1e-9)
    assert risk.is_exact and len(table) == len(CELLS)


@pytest.mark.parametrize("parameters", ["independent", "shared"])
def test_evidence_is_that_of_enumeration(parameters):
    fit = Marginals(PRIOR).fit(DF)
    release = fit.synthesize(2, parameters=parameters, random_seed=1)
    risk = br.attribute_risk(fit, release, guesses=br.Neighbourhood(2), random_seed=1)
    draws = [release.datasets] if parameters == "shared" else [[t] for t in release.datasets]
    check(risk, {v: sum(log_p(z, with_values(r0=v)) for z in draws) for v in CELLS})


def test_who_knows_two_others_integrates_the_last_one_out():
    """sum over y_3 of p(Z | y) p(y_3 | y*, y_1, y_2)."""
    fit = Marginals(PRIOR).fit(DF)
    release = fit.synthesize(1, random_seed=3)
    how = {"intruder": br.Intruder([0, 1, 2]), "guesses": br.Neighbourhood(2)}
    risk, log = br.attribute_risk(fit, release, targets=[0, 3], **how, random_seed=1), {}
    for v in CELLS:
        every = [with_values(r0=v, r3=last) for last in CELLS]
        each = [log_p([y[3:]], y[:3]) + log_p(release.datasets, y) for y in every]
        log[v] = np.logaddexp.reduce(each)
    check(risk, log)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_it_is_the_mixture_of_one_class():
    df = demo_data("italy")
    one = Marginals().fit(df)
    release = one.synthesize(2, random_seed=5)
    mixture = DPMPM(n_classes=1).fit(df, draws=200, tune=20, random_seed=1)
    how = {"targets": 5, "random_seed": 2}
    exact, sampled = (br.attribute_risk(fit, release, **how).records for fit in (one, mixture))
    off = (exact["probability"] - sampled["probability"]).abs()
    assert (off <= 4 * sampled["mcse"] + 1e-12).all() and (exact["mcse"] == 0).all()


def test_what_it_does_not_offer_is_told():
    fit = Marginals().fit(DF)
    with pytest.raises(br.InputError, match="level_prior=0 must be positive"):
        Marginals(0)
    numbers = br.Microdata.from_frame(DF.assign(c=1.5), numbers=["c"])
    with pytest.raises(br.InputError, match=r"columns \['c'\] are numbers, and Marginals models"):
        Marginals().fit(numbers)
    two, nobody = fit.synthesize(2, random_seed=1), br.Intruder("none")
    with pytest.raises(br.InputError, match="m = 2 data sets .* give a release of one data set"):
        br.attribute_risk(fit, two, intruder=nobody)


def test_a_study_names_it():
    content = {"data": {"demo": "italy"}, "random_seed": 1, "model": {"kind": "Marginals"}}
    study = parse_study(content | {"release": {"m": 2}, "attribute": {"targets": 5}})
    assert run_study(study).attribute.is_exact


@pytest.mark.parametrize("prior", [1e-9, 1e9])
def test_every_record_has_a_posterior_under_extreme_priors(prior):
    """Counts less the record are whole: none of the prior's digits is lost beside them."""
    df = pd.DataFrame({"a": ["x", "z", "x", "y", "z"]})
    fit = Marginals(prior).fit(df)
    release = fit.synthesize(1, random_seed=1)
    risk = br.attribute_risk(fit, release, random_seed=1)
    z = release.datasets[0]["a"].value_counts()
    for label, truth in df["a"].items():
        known = df["a"].drop(label).value_counts()
        exact = {
            v: 1 + Fraction(int(z.get(v, 0))) / (int(known.get(v, 0)) + Fraction(prior))
            for v in "xyz"
        }
        found = risk.posterior(label).set_index("a")["probability"]
        p = exact[truth] / sum(exact.values())
        assert found[truth] == pytest.approx(float(p), rel=1e-12)
        assert found.sum() == pytest.approx(1)
