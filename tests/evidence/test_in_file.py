"""A target who may not be in the file: enumeration, limits, bytes, errors, refusals."""

from dataclasses import replace
from itertools import combinations_with_replacement, product

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2, t

import bayes_risk as br
from bayes_risk.app.study.study import parse_study
from tests.helpers.one_class import one_class, release_of, table_of
from tests.oracles import three_records as three
from tests.oracles.kernel_twins import codes_of, simulate
from tests.oracles.label_sums import log_bayes_factor, log_dirichlet_multinomial

# --- by hand: one class is the Dirichlet-multinomial model ---------------------------------------


def by_hand(prior, pi, guesses, *given):
    """prior(y*) [pi p(Z | A, y*) + (1 - pi) sum over y' of p(y' | A) p(Z | A, y')], normalised."""
    odds = np.exp([log_bayes_factor(g, *given) for g in guesses])
    weights = prior * (pi * odds + (1 - pi))
    return weights / weights.sum()


def listed(levels, columns=None):
    """Every value of some columns as a guess."""
    columns = range(len(levels)) if columns is None else columns
    cells = product(*(range(levels[j]) for j in columns))
    names = [f"x{j}" for j in columns]
    return br.Listed(pd.DataFrame([[f"l{c}" for c in cell] for cell in cells], columns=names))


def audit(fit, release, levels, prior="uniform", guesses=None, **intruder):
    return br.attribute_risk(
        fit,
        release,
        intruder=br.Intruder(**intruder),
        guesses=guesses or listed(levels),
        prior=prior,
        random_seed=1,
    )


def posterior(risk, i):
    """Of record i, over the guesses in the order in which they are listed, and these."""
    u = risk.case[i]
    return np.exp(risk.log_probability[:, u]), risk.guesses[:, u]


PRIOR = np.array([0.2, 0.3, 0.5])


@pytest.mark.parametrize("m", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_release_of_three_cells(m):
    """One table of three cells, pi = .1, all releases: the worked example of the formula."""
    levels, y, pi = (3,), np.array([[0], [0], [1], [2]]), 0.1
    fit = one_class(table_of(y, levels))
    tables = [np.array(z)[:, None] for z in combinations_with_replacement(range(3), len(y))]
    worst = 0.0
    for Z in combinations_with_replacement(tables, m):
        release = release_of([table_of(z, levels) for z in Z])
        risk = audit(fit, release, levels, PRIOR, in_file=pi)
        for i in range(len(y)):
            p, guesses = posterior(risk, i)
            exact = by_hand(PRIOR, pi, guesses, np.delete(y, i, axis=0), Z, levels)
            worst = max(worst, float(np.abs(p - exact).max()))
        assert risk.mcse.max() < 1e-6 and risk.reliable.all()
    assert worst < 1e-14


@pytest.mark.parametrize("classes", ["new", "own"])
@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("known", [(), ("x1",)])
def test_two_columns_and_what_is_known_of_the_target(m, classes, known):
    """Of a known column guesses keep the true value; whoever else is in the place need not."""
    levels, pi = (3, 2), 0.3
    table = simulate(9, levels, seed=2)
    fit = one_class(table)
    release = fit.synthesize(m, classes=classes, random_seed=3)
    y, Z = codes_of(table), [codes_of(z) for z in release.datasets]
    guesses = listed(levels, [0] if known else None)
    risk = audit(fit, release, levels, guesses=guesses, in_file=pi, knows_columns=known)
    for i in range(len(y)):
        p, found = posterior(risk, i)
        rows = [[*g, y[i, 1]] for g in found] if known else found
        flat = np.full(len(p), 1 / len(p))
        exact = by_hand(flat, pi, rows, np.delete(y, i, axis=0), Z, levels)
        assert p == pytest.approx(exact, abs=1e-7)


def test_an_intruder_who_knows_no_record():
    """p(Z | y*) with the others unknown: the table is one more draw like the release."""
    levels, pi = (3,), 0.2
    table = simulate(3, levels, seed=4)
    fit = one_class(table)
    release = fit.synthesize(1, random_seed=5)
    risk = audit(fit, release, levels, in_file=pi, knows_records="none")
    nobody, Z = np.zeros((0, 1), dtype=int), codes_of(release.datasets[0])

    def log_p(value):
        """log sum over the two others of p(others | y*) p(Z | y*, others)."""
        each = []
        for others in product(range(3), repeat=2):
            rest = np.array(others)[:, None]
            first = np.array([[value]])
            both = np.vstack([first, rest])
            each.append(
                log_dirichlet_multinomial(rest, first, levels)
                + log_dirichlet_multinomial(Z, both, levels)
            )
        return logsumexp(each)

    own = np.exp([log_p(v) for v in range(3)])
    at = np.exp([log_dirichlet_multinomial(np.array([[v]]), nobody, levels) for v in range(3)])
    p, guesses = posterior(risk, 0)
    exact = (pi * own + (1 - pi) * (at @ own))[guesses[:, 0]]
    assert p == pytest.approx(exact / exact.sum(), abs=1e-7)


# --- limits and bytes ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example():
    levels = (3, 2)
    table = simulate(12, levels, n_classes=2, seed=6)
    table.index = [f"r{i:02d}" for i in range(12)]
    fit = br.models.DPMPM(n_classes=4).fit(table, draws=60, tune=30, chains=2, random_seed=1)
    return fit, fit.synthesize(2, parameters="independent", random_seed=2), levels


def test_certainty_gives_the_same_bytes(example):
    """However it is stated."""
    fit, release, levels = example
    plain = br.attribute_risk(fit, release, guesses=listed(levels), random_seed=1)
    ones = pd.Series(1.0, index=fit.microdata.index)
    for certain in (1.0, 1, ones, np.ones(12)):
        risk = audit(fit, release, levels, None, in_file=certain)
        for name in ("log_probability", "log_evidence", "mcse", "deviations", "khat"):
            assert getattr(risk, name).tobytes() == getattr(plain, name).tobytes()
        assert risk.assumptions == plain.assumptions


def test_limits_of_the_probability(example):
    """Near 1 the posterior of who is certain; near 0 the prior."""
    fit, release, levels = example
    plain = audit(fit, release, levels)
    near = audit(fit, release, levels, in_file=1 - 1e-12)
    sampled = [r.records[["probability", "mcse"]].to_numpy().T for r in (near, plain)]
    error = 4 * np.hypot(sampled[0][1], sampled[1][1])  # the same fits, read with other draws
    assert (np.abs(sampled[0][0] - sampled[1][0]) < error).all()
    exact = one_class(fit.microdata.decode(fit.microdata.codes))
    ends = [audit(exact, release, levels, in_file=pi) for pi in (1.0, 1 - 1e-12)]
    assert ends[1].log_probability == pytest.approx(ends[0].log_probability, abs=1e-7)
    far = audit(fit, release, levels, in_file=1e-9)
    assert far.log_probability == pytest.approx(far.log_prior, abs=1e-6)
    assert far.mcse.max() < 1e-6
    certain = plain.records["log_bayes_factor"].abs().max()
    assert 0 < far.records["log_bayes_factor"].abs().max() < certain


def test_a_release_without_information_gives_the_prior():
    """A level prior so strong that no record moves the model: at any probability of presence."""
    levels = (3,)
    table = simulate(6, levels, seed=7)
    fit = one_class(table, level_prior=1e9)
    for m in (1, 3):
        release = fit.synthesize(m, random_seed=8)
        risk = audit(fit, release, levels, PRIOR, in_file=0.5)
        assert np.exp(risk.log_probability) == pytest.approx(np.exp(risk.log_prior), abs=1e-7)


def test_nothing_is_certain_of_who_may_be_absent():
    """A number copied from the record would be disclosed; now it is the release of another."""
    levels = (4,)
    y = np.array([[0], [0], [0], [0], [0], [3]])
    fit = one_class(table_of(y, levels), level_prior=1e-6)
    release = release_of([table_of(y, levels)] * 2)
    sure = audit(fit, release, levels).records["probability"].iloc[5]
    rare = audit(fit, release, levels, in_file=0.01).records["probability"].iloc[5]
    assert sure > 0.999 and rare < sure


def test_probabilities_by_record(example):
    """A Series by its labels, an array in the table's order: each record as if all had its own."""
    fit, release, levels = example
    index = fit.microdata.index
    chance = pd.Series(np.where(np.arange(12) % 2, 0.5, 0.05), index=index)
    how = {"prior": PRIOR.repeat(2) / 2}
    mixed = audit(fit, release, levels, **how, in_file=chance.iloc[::-1])
    array = audit(fit, release, levels, **how, in_file=chance.to_numpy())
    each = {pi: audit(fit, release, levels, **how, in_file=pi).records for pi in (0.5, 0.05)}
    assert (mixed.records == array.records).all(axis=None)
    for label, pi in chance.items():
        own = mixed.records.loc[label, "probability"]
        error = 4 * np.hypot(mixed.records.loc[label, "mcse"], each[pi].loc[label, "mcse"])
        assert abs(own - each[pi].loc[label, "probability"]) < max(error, 1e-9)
    assert "0.05 to 0.5 by record, 0.275 on average" in mixed.assumptions["records"]
    again = replace(br.Intruder(in_file=chance), knows_columns=("x1",))
    assert again.in_file == br.Intruder(in_file=chance).in_file and hash(again)


def test_blocks_of_cases_change_nothing_but_rounding(example, monkeypatch):
    fit, release, levels = example
    whole = audit(fit, release, levels, in_file=0.2)
    monkeypatch.setattr("bayes_risk.evidence.presence.MAX_CASE_GUESSES", 1)
    monkeypatch.setattr("bayes_risk.evidence.presence.FEWEST", 4)
    blocks = audit(fit, release, levels, in_file=0.2)
    assert blocks.log_probability == pytest.approx(whole.log_probability, abs=1e-9)
    assert blocks.mcse == pytest.approx(whole.mcse, rel=1e-3)


# --- Monte Carlo error ---------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "classes"), [(2, "new"), (3, "new"), (2, "own")])
@pytest.mark.parametrize("pi", [0.1, 0.9])
@pytest.mark.check
def test_drawn_alternatives_are_right_within_their_error(m, classes, pi, monkeypatch):
    """Few draws for each place, their error the only one: over 60 places z-scores spread as 1."""
    monkeypatch.setattr("bayes_risk.evidence.runner.ALTERNATIVES", 24)
    levels = (5, 6)
    table = simulate(60, levels, seed=4)
    fit = one_class(table, draws=60)
    release = fit.synthesize(m, classes=classes, parameters="independent", random_seed=5)
    risk = audit(fit, release, levels, guesses=br.Neighbourhood(1), in_file=pi)
    y, Z = codes_of(table), [codes_of(z) for z in release.datasets]
    z = []
    for u in range(len(risk.truth)):
        i = int(np.flatnonzero(risk.case == u)[0])
        p, guesses = posterior(risk, i)
        flat = np.full(len(p), 1 / len(p))
        exact = by_hand(flat, pi, guesses, np.delete(y, i, axis=0), Z, levels)[risk.truth[u]]
        z.append((p[risk.truth[u]] - exact) / risk.mcse[u])
    z = np.array(z)
    # 4 batches of 6: the error is estimated with few degrees of freedom
    batches = risk.deviations.shape[1]
    assert (z**2).sum() < chi2.ppf(1 - 1e-4, len(z)) * t(max(batches - 1, 3)).var()
    assert (z**2).sum() > 0.1 * chi2.ppf(1e-4, len(z))


@pytest.mark.parametrize("budget", [0, 3])
@pytest.mark.slow
def test_repetition_against_brute_force(budget, monkeypatch):
    """Eight fits of two classes: mean of z-scores about 0, their spread about 1; refits too."""
    if budget:
        monkeypatch.setattr(
            "bayes_risk.evidence.leave_one_out.pareto_smoothed",
            lambda log_weights, reff: (log_weights, np.ones(log_weights.shape[1])),
        )
    z, pi, exact = [], 0.25, []
    for i, y in enumerate(three.Y.tolist()):
        of = three.log_bayes_factors([three.Z1, three.Z2], i)
        p = {cell: pi * np.exp(log) + (1 - pi) for cell, log in of.items()}
        exact.append(p[tuple(y)] / sum(p.values()))
    for seed in range(8):
        with pytest.warns(br.TruncationWarning):
            fit = three.fitted(draws=400, thin=5, random_seed=seed)
        risk = br.attribute_risk(
            fit,
            three.released([three.Z1, three.Z2]),
            intruder=br.Intruder(in_file=pi),
            guesses=br.Neighbourhood(2),
            prior="uniform",
            refit_budget=budget,
            random_seed=seed,
        )
        assert not budget or not risk.khat.any()
        table = risk.records
        z.append((table["probability"].to_numpy() - exact) / table["mcse"].to_numpy())
    z = np.array(z)
    assert (np.abs(z) < 5).all(), z
    assert np.abs(z.mean(axis=0)).max() < 4 / np.sqrt(8)
    assert 0.3 < z.std() < 2.0


def test_the_predictive_prior_and_its_error(example):
    """It is estimated by the base fit, whose deviations are kept beside those of the evidence."""
    fit, release, levels = example
    plain = br.attribute_evidence(fit, release, guesses=listed(levels), random_seed=1)
    unsure = br.attribute_evidence(
        fit, release, guesses=listed(levels), intruder=br.Intruder(in_file=1e-9), random_seed=1
    )
    certain, rare = plain.risk("predictive"), unsure.risk("predictive")
    tables = [r.records[["prior", "mcse"]].to_numpy().T for r in (rare, certain)]
    # of a release that says next to nothing all the error is the prior's
    assert (np.abs(tables[0][0] - tables[1][0]) < 4 * np.hypot(tables[0][1], tables[1][1])).all()
    assert unsure.found.moved_base().shape == plain.found.moved_base().shape
    assert (rare.mcse > 1e-4).all()
    assert rare.mcse_log_bayes_factor.max() < 1e-6
    assert unsure.balance() is None
    with pytest.raises(br.InputError, match="does not come release by release"):
        unsure.first(1)


def test_the_report_states_it(example):
    fit, release, levels = example
    risk = audit(fit, release, levels, in_file=0.01)
    said = "is not certain that the target is in the file: before the release the probability"
    assert said in risk.assumptions["records"]
    assert risk.assumptions["evidence"].startswith("in-file: leave-one-out predictives of whole")
    assert "may not be in the file has no factor" in risk.not_by_column
    assert br.privacy_loss(risk).summary() is not None


# --- refusals and studies ------------------------------------------------------------------------


def refused(example, words, fit=None, release=None, call=br.attribute_risk, how=None, **intruder):
    own, made, levels = example
    with pytest.raises(br.InputError, match=words):
        call(
            own if fit is None else fit,
            made if release is None else release,
            intruder=br.Intruder(**{"in_file": 0.1} | intruder),
            **(how or {}),
        )


def test_refusals(example):
    fit, release, levels = example
    part = fit.synthesize(1, columns=["x0"], random_seed=1)
    refused(example, r"columns \['x1'\] are released as they are.*in_file is for", release=part)
    some = fit.synthesize(1, records=np.arange(12) < 6, random_seed=1)
    refused(example, "6 records are released unchanged.*in_file is for", release=some)
    refused(example, "evidence='refit'.*not offered with in_file", how={"evidence": "refit"})
    refused(example, "in_file.*attribute risk alone", call=br.membership)
    refused(example, "in_file.*attribute risk alone", call=br.full_table_risk, how={"targets": 1})
    refused(example, "m = 2 data sets is not offered for in_file", knows_records="none")
    refused(example, "the table has 12 records", in_file=[0.5] * 3)
    refused(example, "in_file", in_file=pd.Series(0.5, index=[f"p{i}" for i in range(12)]))
    table = fit.microdata.decode(fit.microdata.codes)
    margins = br.models.Marginals().fit(table)
    made = margins.synthesize(1, random_seed=2)
    refused(example, "Marginals offers no predictives.*in_file needs them", margins, made)
    weighed = one_class(table, weights=np.full(12, 0.5))
    made = weighed.synthesize(1, random_seed=2)
    refused(example, "in_file is not offered for a fit with record weights", weighed, made)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (0, "in_file"),
        (1.5, "in_file"),
        (True, "in_file"),
        ("weight", "in_file"),
        ([0.5, 0.0], "1 entries that are missing or outside"),
        ([0.5, float("nan")], "1 entries that are missing or outside"),
        ([], "0 entries"),
        (["a"], "not a number"),
        ([[0.5]], "is not a list"),
    ],
)
def test_what_is_no_probability(given, words):
    with pytest.raises(br.InputError, match=words):
        br.Intruder(in_file=given)


def test_a_business_competitor_is_certain():
    with pytest.raises(br.InputError, match="not offered for a business competitor"):
        br.Intruder(knows_records="second-largest", largest="skilled", in_file=0.5)


def test_the_key_of_a_study():
    section = {"intruder": {"in_file": 0.01}}
    study = parse_study(
        {"data": {"path": "a.csv"}, "model": {"kind": "DPMPM"}, "attribute": section}
    )
    assert study.attribute.options["intruder"] == br.Intruder(in_file=0.01)
    assert study.settings()["attribute"]["intruder"]["in_file"] == 0.01
