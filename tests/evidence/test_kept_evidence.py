"""Many priors from one evidence: Bayes' rule by hand, errors, and what is read off."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import bayes_risk as br
from bayes_risk.evidence.evidence import Evidence
from bayes_risk.evidence.leave_one_out import targets_replaced
from bayes_risk.evidence.prior_weights import PriorWeights
from bayes_risk.models.regression.families import RegressionPrior
from bayes_risk.risk.posterior import weigh
from tests.helpers.one_class import one_class
from tests.oracles.kernel_twins import simulate

M, G, U, B = 3, 4, 2, 8
A = 1.0


def made_up(seed=0):
    """Evidence of m augmented fits and a base fit, with deviations that are small."""
    rng = np.random.default_rng(seed)
    base, after = rng.normal(size=(G, U)), rng.normal(size=(M, G, U))
    small = 1e-4 * rng.normal(size=(M + 1, B, G, U))
    for values in (base, after, small):
        values -= np.take(values, [0], axis=-2)  # the truth is guess 0
    factors = np.array([-M] + [1] * M)[:, None, None, None]
    found = Evidence(
        log_evidence=after - base,
        deviations=(factors * small).astype(np.float32),
        khat=np.zeros(U),
        ess=np.ones(U),
        base=base,
    )
    return found, base, after, small


def weighed(found, prior):
    nothing = np.full(U, -np.inf)
    truth, disclosed = np.zeros(U, dtype=np.int64), np.zeros(U, dtype=bool)
    return weigh(found, prior, truth, nothing, disclosed)


def share_of(base, w):
    """A mixture of the predictive (weight w) and the uniform prior, and its estimated share."""
    predictive = np.exp(base - logsumexp(base, axis=0))
    mixed = w * predictive + (1 - w) / G
    return PriorWeights(np.log(mixed), w * predictive / mixed)


def p_truth(base, after, w):
    logs = after.sum(axis=0) - M * base + share_of(base, w).log_p
    return np.exp(logs[0] - logsumexp(logs, axis=0))


@pytest.mark.parametrize("w", [0.0, 0.3, 1.0])
def test_deviations_are_those_of_the_whole_posterior(w):
    """Moving the base fit by a batch's deviation moves evidence and prior together."""
    found, base, after, small = made_up()
    posterior = weighed(found, share_of(base, w))
    here = p_truth(base, after, w)
    for b in range(B):
        moved = p_truth(base + small[0, b], after, w) - p_truth(base - small[0, b], after, w)
        assert np.allclose(posterior.deviations[0, b], moved / 2, rtol=1e-3, atol=1e-9)
        up = p_truth(base, after + small[1:, b] * np.eye(M)[1][:, None, None], w) - here
        assert np.allclose(posterior.deviations[2, b], up, rtol=5e-3, atol=1e-8)


def test_of_all_predictive_m_minus_1_base_fits_are_left():
    found, base, _, _ = made_up()
    uniform = PriorWeights(np.full((G, U), -np.log(G)))
    one = Evidence(
        log_evidence=found.log_evidence[:1],
        deviations=found.deviations[:2] / np.float32(M) ** np.array([1, 0])[:, None, None, None],
        khat=found.khat,
        ess=found.ess,
        base=base,
    )
    assert (np.abs(weighed(one, share_of(base, 1.0)).deviations[0]) < 1e-12).all()
    assert (weighed(one, uniform).deviations[0] != 0).all()


def of_one_class(m, n=60, **options):
    table = simulate(n, (4, 3), seed=5)
    fit = one_class(table, draws=20)
    release = fit.synthesize(m=m, random_seed=2)
    return (
        table,
        release,
        br.attribute_evidence(fit, release, guesses=br.Neighbourhood(2), random_seed=3, **options),
    )


def test_predictive_with_one_release_is_the_augmented_predictive():
    """One class: log p(y* | y_-i, Z) = sum_j log (a + n_j(y*) - own + z_j(y*)) + constant."""
    table, release, kept = of_one_class(1)
    risk = kept.risk("predictive")
    for t, label in enumerate(risk.index):
        u, logs = risk.case[t], 0.0
        for j, name in enumerate(table):
            y, z = table[name].cat.codes, release.datasets[0][name].cat.codes
            own = table[name].cat.codes[label]
            d = len(table[name].cat.categories)
            counts = (
                np.bincount(y, minlength=d) - (np.arange(d) == own) + np.bincount(z, minlength=d)
            )
            logs = logs + np.log(A + counts)[risk.guesses[:, u, j]]
        exact = np.exp(logs - logsumexp(logs))
        assert np.allclose(np.exp(risk.log_probability[:, u]), exact, rtol=1e-8)


def several_classes(m=2):
    table = simulate(40, (4, 3), n_classes=2, seed=6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
        warnings.simplefilter("ignore", br.TruncationWarning)
        fit = br.models.DPMPM(n_classes=3).fit(
            table, draws=60, tune=30, chains=2, thin=1, random_seed=1
        )
        release = fit.synthesize(m=m, random_seed=2)
        kept = br.attribute_evidence(fit, release, random_seed=3, refit_budget=2)
    return fit, release, kept


@pytest.fixture(scope="module")
def kept():
    return several_classes()


PRIORS = {
    "uniform": "uniform",
    "margins": "marginal",
    "model": "predictive",
    "released": "release",
    "leaning": br.TruthFactor(5.0),
    "mixed": br.MixedPrior([(0.5, "predictive"), (0.5, br.TruthFactor(2.0))]),
}


def test_one_pass_is_many_passes_to_the_byte(kept):
    found = kept[2].risks(PRIORS)
    for name, prior in PRIORS.items():
        alone = kept[2].risk(prior, warn=False)
        for field in ("log_prior", "log_probability", "mcse", "mcse_log_evidence", "deviations"):
            assert np.array_equal(getattr(found[name], field), getattr(alone, field)), (name, field)
        assert found[name].assumptions == alone.assumptions


def test_and_is_attribute_risk(kept):
    fit, release, evidence = kept
    for name in ("model", "mixed", "released"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
            direct = br.attribute_risk(
                fit, release, prior=PRIORS[name], random_seed=3, refit_budget=2
            )
        risk = evidence.risk(PRIORS[name], warn=False)
        assert np.array_equal(direct.log_probability, risk.log_probability)
        assert np.array_equal(direct.mcse, risk.mcse)


@pytest.mark.parametrize("evidence", ["predictive", "refit"])
def test_base_is_the_predictive_of_the_known_records(evidence):
    """One class: log p(y* | y_-i) = sum_j log (a + n_j(y*) - own) + constant."""
    table, _, kept = of_one_class(2, n=20, evidence=evidence)
    guesses = kept.cases.guesses
    for u, row in enumerate(kept.cases.record):
        logs = 0.0
        for j, name in enumerate(table):
            y = table[name].cat.codes.to_numpy()
            d = len(table[name].cat.categories)
            left = np.bincount(y, minlength=d) - (np.arange(d) == y[row])
            logs = logs + np.log(A + left)[guesses.codes[:, u, j]]
        assert np.allclose(kept.found.base[:, u], logs - logs[guesses.truth[u]], atol=1e-8)


def test_refits_bring_their_own_base():
    found, base, _, _ = made_up()
    other = made_up(seed=1)[0]
    one = Evidence(
        log_evidence=other.log_evidence[:, :, :1],
        deviations=other.deviations[..., :1],
        khat=other.khat[:1],
        ess=other.ess[:1],
        base=other.base[:, :1],
    )
    mended = targets_replaced(found, np.array([1]), one)
    assert np.array_equal(mended.base[:, 0], base[:, 0])
    assert np.array_equal(mended.base[:, 1], other.base[:, 0])


def test_the_table_is_the_summaries(kept):
    table = kept[2].compare(PRIORS)
    risks = kept[2].risks(PRIORS)
    assert list(table.index) == list(PRIORS)
    for name, risk in risks.items():
        summary = risk.summary()
        assert table.loc[name, "mean_probability"] == summary.loc["mean_probability", "value"]
        assert table.loc[name, "mcse"] == summary.loc["mean_probability", "mcse"]
        assert table.loc[name, "max_baseline"] == summary.loc["max_probability", "baseline"]
        assert table.loc[name, "gain"] == pytest.approx(
            summary.loc["mean_probability", "value"] - summary.loc["mean_probability", "baseline"]
        )


def test_posterior_odds_of_a_mixture_are_linear_in_those_of_its_parts(kept):
    """With the same truth against the same rest: p(Z) under the mixture is the weighted sum."""
    parts = {"a": "marginal", "b": br.TruthFactor(4.0)}
    risks = kept[2].risks(
        {**parts, "both": br.MixedPrior([(0.25, "marginal"), (0.75, parts["b"])])}
    )
    total = kept[2].found.log_evidence.sum(axis=0)
    joint = {k: np.exp(risks[k].log_prior + total) for k in risks}
    mixed = 0.25 * joint["a"] + 0.75 * joint["b"]
    expected = mixed / mixed.sum(axis=0)
    assert np.allclose(np.exp(risks["both"].log_probability), expected, rtol=1e-10)


def not_the_truth(evidence):
    """No mass on the truth of a record, which is guess 0 of a neighbourhood."""
    weights = np.ones(evidence.cases.guesses.codes.shape[0])
    weights[0] = 0.0
    return weights


def test_no_mass_on_the_truth_is_allowed_and_reported(kept):
    evidence = kept[2]
    risk = evidence.risk(not_the_truth(evidence), warn=False)
    records = risk.records
    assert (records["probability"] == 0).all() and (records["prior"] == 0).all()
    assert records["log_bayes_factor"].isna().all() and (records["mcse"] == 0).all()
    n = len(records)
    assert f"no mass on the truth of {n} records" in risk.assumptions["prior"]
    assert f"excludes the true values of {n} records" in risk.sentence()
    table = evidence.compare({"wrong": not_the_truth(evidence), "uniform": "uniform"})
    assert table["truth_excluded"].tolist() == [n, 0]
    assert (records["rank"] == (np.isfinite(risk.log_probability).sum(axis=0) + 1)[risk.case]).all()


def test_all_mass_on_the_truth_leaves_nothing_to_learn(kept):
    sure = 1.0 - not_the_truth(kept[2])
    records = kept[2].risk(sure, warn=False).records
    assert (records["probability"] == 1).all() and records["log_bayes_factor"].isna().all()


def unchanged():
    """Two records are released as they are."""
    table = simulate(30, (3, 3), seed=7)
    fit = one_class(table, draws=20)
    replaced = np.arange(30) > 1
    release = fit.synthesize(m=1, records=replaced, random_seed=2)
    return br.attribute_evidence(fit, release, targets=[0, 1, 2, 3], random_seed=3)


def test_what_is_released_unchanged_is_known_whatever_was_believed():
    kept = unchanged()
    records = kept.risk(not_the_truth(kept)).records
    assert records["disclosed"].tolist() == [True, True, False, False]
    assert records["probability"].tolist() == [1, 1, 0, 0]


def test_a_prior_on_impossible_guesses_alone_is_refuted():
    found, base, _, _ = made_up()
    impossible = found.log_evidence.copy()
    impossible[:, 1:] = -np.inf
    refuted = Evidence(
        log_evidence=impossible,
        deviations=found.deviations,
        khat=found.khat,
        ess=found.ess,
    )
    with np.errstate(divide="ignore"):
        prior = PriorWeights(np.log(np.repeat([[0.0], [1.0], [0.0], [0.0]], U, axis=1)))
    with pytest.raises(br.InputError, match="rules out every guess that the prior allows"):
        weighed(refuted, prior)


def test_first_releases_of_closed_form_evidence_are_the_audit_of_those_files():
    df = pd.DataFrame({"x": np.arange(12.0), "y": np.arange(12.0) + np.sin(np.arange(12.0))})
    model = br.models.Regression({"y": "1 + x"}, prior=RegressionPrior(slopes=1.0))
    fit = model.fit(df, draws=20, chains=2, random_seed=1)
    release = fit.synthesize(m=3, random_seed=2)
    kept = br.attribute_evidence(fit, release, guesses=br.Grid(additive=1.0, n=5), random_seed=3)
    few = br.Release(datasets=release.datasets[:2], synthesized=release.synthesized)
    direct = br.attribute_risk(fit, few, guesses=br.Grid(additive=1.0, n=5), random_seed=3)
    assert np.array_equal(kept.first(2).risk().log_probability, direct.log_probability)
    with pytest.raises(br.InputError, match="m=4 is out of range; give 1 to 3"):
        kept.first(4)
    predictive = [one.risk("predictive").log_prior for one in (kept, kept.first(2))]
    assert np.array_equal(*predictive)


def test_first_release_of_sampled_evidence_counts_the_base_once(kept):
    evidence = kept[2]
    first = evidence.first(1)
    assert np.array_equal(first.found.log_evidence, evidence.found.log_evidence[:1])
    assert np.allclose(first.found.deviations[0], evidence.found.deviations[0] / 2)
    assert np.array_equal(first.found.deviations[1], evidence.found.deviations[1])
    said = first.risk(warn=False).assumptions["releases"]
    assert said == (
        "m = 1, each from its own draw of the parameters, all draws from one chain; the first of 2"
    )


@pytest.mark.parametrize("given", [{}, ["uniform"], None], ids=["none", "list", "nothing"])
def test_priors_are_given_by_name(kept, given):
    with pytest.raises(br.InputError, match="give priors by name"):
        kept[2].risks(given)
