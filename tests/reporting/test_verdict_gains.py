"""Attribute clauses of the verdict: what the release adds, and samples of the records."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import hypergeom

from bayes_risk import InputError
from bayes_risk.app.study.keys import unknown
from bayes_risk.data.variables import Variable
from bayes_risk.evidence.problem import Sample
from bayes_risk.reporting.verdicts.attribute import draws_that_settle, gains, most_beyond
from bayes_risk.reporting.verdicts.verdict import Thresholds, judge
from bayes_risk.risk.closeness import nearest_values
from bayes_risk.risk.grid_check import GridCheck
from tests.helpers.edge_results import attribute, identification
from tests.helpers.numeric_results import INCOME, JOB, numeric

CALM = identification(n=60, ages=7)
ORDER = ["within your thresholds", "inconclusive", "above your thresholds"]
GRID = np.concatenate([[1e-11, 1e-7, 1e-4], np.linspace(0.01, 0.99, 25), [0.9999, 1 - 1e-9]])
ASKED = {"prior": "flat", "guesses": "all", "records": "All are known."}


def moved(prior, after, mcse=0.0):
    """Records whose truth goes from one probability to another."""
    before, after = np.broadcast_arrays(np.asarray(prior, float), np.asarray(after, float))
    with np.errstate(divide="ignore"):
        logs = np.log(np.stack([before, (1 - before) / 2, (1 - before) / 2]))
    return replace(attribute(after, mcse=mcse), log_prior=logs)


def outcomes(prior, after, mcse=0.0):
    """0: nothing, 1: perhaps, 2: surely."""
    (_, _, gain), *_ = gains(moved(prior, after, mcse))
    sure, maybe = gain.counts(Thresholds(), 2.0)
    return 2 * sure + maybe


def test_more_after_the_release_is_never_better_and_more_before_it_never_worse():
    prior, after = (x.ravel() for x in np.meshgrid(GRID, GRID, indexing="ij"))
    found = outcomes(prior, after).reshape(len(GRID), -1)
    assert (np.diff(found, axis=1) >= 0).all() and (np.diff(found, axis=0) <= 0).all()
    assert found.max() == 2 and not found[np.tril_indices(len(GRID))].any()


@pytest.mark.parametrize("prior", [1e-11, 0.001, 0.05, 0.3, 0.49, 0.5, 0.51, 0.7, 0.93])
def test_no_record_becomes_above_but_through_a_neighbourhood_that_is_open(prior):
    after = np.linspace(prior, 0.999999, 4000)
    found = outcomes(prior, after, mcse=0.05 * after * (1 - after))  # 0.05 of the log odds
    assert found[0] == 0 and found[-1] == 2
    assert set(np.diff(found)) == {0, 1}


@pytest.mark.parametrize(
    ("prior", "after", "wanted"),
    [
        (1e-11, 1e-7, 0),  # odds times 10,000, and nothing to act on
        (0.001, 0.04, 0),
        (0.001, 0.06, 2),
        (0.49, 0.60, 0),
        (0.42, 0.587, 0),
        (0.51, 0.95, 2),
        (0.3, 0.5, 0),  # exactly as much as is allowed
        (0.5, 0.7, 0),
        (0.6, 0.8, 0),
        (0.31, 0.72, 2),
        (0.93, 0.9999, 2),
        (0.96, 0.9999, 0),
        (0.7, 0.1, 0),
    ],
)
def test_what_the_release_adds_decides(prior, after, wanted):
    (reason, *_) = judge(moved([prior], [after]), CALM).reasons
    assert outcomes([prior], [after]) == wanted
    assert (reason.outcome == "above your thresholds") == (wanted == 2)


@pytest.mark.parametrize(("coarse", "wanted"), [((), 2), ((0,), 1), ((1,), 2), ((0, 1), 1)])
def test_what_a_coarse_grid_shows_is_in_doubt_and_never_within(coarse, wanted):
    """Of two records the first rises from .1 to .9."""
    risk = moved([0.1, 0.1], [0.9, 0.1])
    flags = np.isin(np.arange(len(risk.case)), coarse)
    none = np.zeros((3, len(flags)), bool)
    shape = risk.log_prior.shape
    grid = GridCheck(np.ones(shape, bool), none[0], none[1], flags, np.zeros(shape))
    reasons = judge(replace(risk, grid=grid), CALM).reasons
    (gained,) = (r for r in reasons if r.measure == "probability gained")
    assert gained.outcome == ORDER[wanted]
    assert "too coarse" in gained.sentence or wanted == 2


def test_a_single_variable_counts_though_all_values_together_do_not():
    p = np.full((6, 1), 0.0)
    p[:, 0] = [0.15, 0.15, 0.15, 0.15, 0.15, 0.25]  # the first five share the true job
    prior = np.array([[0.04], [0.04], [0.04], [0.04], [0.04], [0.80]])
    codes = np.array([[[k % 5 + (k == 5), int(k == 5)]] for k in range(6)], dtype=float)
    places = Variable("place", tuple("abcde"), False, object)
    risk = numeric(codes, p, prior, variables=(places, JOB), mcse=0.0)
    risk = replace(risk, assumptions=ASKED)
    reasons = {r.measure: r for r in judge(risk, CALM).reasons}
    assert reasons["probability gained"].outcome == ORDER[0]
    single = reasons["probability gained, single variables"]
    assert single.outcome == ORDER[2]
    assert "the true value of job" in single.sentence and "from 0.200 to 0.750" in single.sentence


def test_neighbours_of_the_truth_have_no_single_variables():
    """Wrong in one variable at most: 0, 0 is the truth."""
    codes = np.array([[[0, 0]], [[1, 0]], [[2, 0]], [[0, 1]]], dtype=float)
    p, prior = np.array([[0.3], [0.05], [0.05], [0.6]]), np.full((4, 1), 0.25)
    places = Variable("place", tuple("abc"), False, object)
    risk = numeric(codes, p, prior, variables=(places, JOB), mcse=0.0)
    risk = replace(risk, assumptions=ASKED)
    assert risk.marginal_probability()["place"]["probability"].item() == pytest.approx(0.9)
    found = judge(risk, CALM)
    assert found.outcome == ORDER[0] and len(list(gains(risk))) == 1
    free = replace(risk, guesses=np.concatenate([codes[:3], [[[1, 1]]]]))
    assert len(list(gains(free))) == 3


def test_near_values_of_a_number_count_like_the_truth():
    values = np.linspace(95, 105, 6)[:, None]  # within 10 % of 95 up to 103
    far = np.linspace(300, 900, 6)[:, None]
    near, other = np.full((6, 1), 0.15), np.full((6, 1), 0.1 / 6)
    p = np.concatenate([near, other])
    risk = numeric(np.concatenate([values, far]), p, variables=(INCOME,), mcse=0.0)
    reasons = {r.measure: r for r in judge(replace(risk, assumptions=ASKED), CALM).reasons}
    assert reasons["probability gained"].outcome == ORDER[0]
    close = reasons["probability gained, within 10 %"]
    assert close.outcome == ORDER[2] and "within 10 % of the true one" in close.sentence


@pytest.mark.parametrize("name", ["attribute_probability", "attribute_odds_factor"])
def test_thresholds_that_are_gone_name_their_successor(name):
    with pytest.raises(InputError, match="give attribute_gain"):
        Thresholds(**{name: 0.5})
    assert str(unknown(name, ["attribute_gain"])).endswith("give attribute_gain")


def test_the_worst_records_are_those_under_the_prior_that_decided():
    flat, second = moved([0.3, 0.3, 0.3], [0.35, 0.3, 0.2]), moved([0.3, 0.1, 0.9], [0.3, 0.8, 0.9])
    risk = replace(flat, priors={"predictive": second})
    verdict = judge(risk, CALM)
    assert verdict.prior == "predictive" and "(record 1)" in verdict.deciding[0].sentence
    shown = replace(risk, worst_under=verdict.prior)
    assert shown.tables()["worst"].frame.index[0] == 1
    assert "under the predictive prior" in shown.tables()["worst"].caption
    assert risk.tables()["worst"].frame.index[0] == 0


# --- samples -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("N", "k"), [(25, 20), (400, 20), (500, 20), (500, 499), (10_000, 300)])
def test_the_bound_is_the_largest_number_that_a_sample_may_miss(N, k):
    M = np.arange(N - k + 1)
    missed = hypergeom.pmf(0, N, M, k)
    assert most_beyond(N, k) == M[missed >= 0.05].max()


def test_the_bound_approaches_the_rule_of_three():
    N, k = 1_000_000, 300
    assert most_beyond(N, k) / N == pytest.approx(1 - 0.05 ** (1 / k), rel=k / N)


def sampled(records, k, *, at_random=True, p=0.35):
    return replace(attribute(np.full(k, p)), sample=Sample(records, at_random))


def test_a_small_sample_is_inconclusive_and_the_headline_says_of_how_many():
    verdict = judge(sampled(400, 20), CALM)
    assert verdict.headline == "Inconclusive; of 400 records 20 were audited."
    assert f"at most {most_beyond(400, 20)} may be above (95 %)" in verdict.deciding[0].sentence
    enough = int(verdict.deciding[0].cure.split()[2])
    assert judge(sampled(400, enough), CALM).outcome == "within your thresholds"
    assert judge(sampled(400, enough - 1), CALM).outcome == "inconclusive"


def test_a_large_sample_has_its_bound_in_the_headline():
    bound = most_beyond(1_000_000, 300)
    assert judge(sampled(1_000_000, 300), CALM).headline == (
        "Within your thresholds; of 1,000,000 records 300 were audited; of the other 999,700 at "
        f"most {bound:,} may be above (95 %)."
    )


def test_of_targets_named_by_hand_nothing_is_said_of_the_others():
    verdict = judge(sampled(400, 300, at_random=False), CALM)
    assert verdict.outcome == "inconclusive"
    assert "nothing is known about the others" in verdict.deciding[0].sentence


def test_a_sample_that_is_above_is_above():
    verdict = judge(sampled(400, 20, p=0.9), CALM)
    assert verdict.headline == "Above your thresholds; of 400 records 20 were audited."


# --- near to a number ----------------------------------------------------------------------------


def test_the_nearest_values_are_those_to_which_the_release_adds_most():
    rng = np.random.default_rng(3)
    values = np.sort(rng.normal(50, 20, size=(15, 4)), axis=0)
    prior, p = (rng.dirichlet(np.ones(15), size=4).T for _ in range(2))
    risk = numeric(values[..., None], p, prior, variables=(INCOME,), mcse=0.0)
    found = nearest_values(risk, [0])
    for u in range(4):
        far = np.abs(values[:, u] - values[risk.truth[u], u])
        windows = [far <= r for r in far]
        allowed = [w for w in windows if prior[w, u].sum() <= 0.5 or w.sum() == 1]
        added = max(p[w, u].sum() - prior[w, u].sum() for w in allowed)
        row = found.iloc[u]
        assert row["probability"] - row["prior"] == pytest.approx(added)
        assert row["prior"] in [pytest.approx(prior[w, u].sum()) for w in allowed]


def test_nearest_values_of_several_variables_have_the_true_category():
    codes = np.array([[[v, j]] for v in (10.0, 20.0, 40.0) for j in (0, 1)])
    prior = np.full((6, 1), 1 / 6)
    p = np.array([[0.3], [0.1], [0.3], [0.1], [0.1], [0.1]])
    risk = numeric(codes, p, prior, variables=(INCOME, JOB), mcse=0.0)
    found = nearest_values(risk, [0, 1])
    assert found["prior"].item() == pytest.approx(2 / 6)
    assert found["probability"].item() == pytest.approx(0.6)


def test_the_verdict_says_where_single_variables_are_not_judged():
    codes = np.array([[[0, 0]], [[1, 0]], [[2, 0]], [[0, 1]]], dtype=float)
    places = Variable("place", tuple("abc"), False, object)
    risk = numeric(codes, np.full((4, 1), 0.25), variables=(places, JOB), mcse=0.0)
    said = judge(replace(risk, assumptions=ASKED), CALM).assumptions
    assert "single variables are not judged" in said and 'place = "levels"' in said
    free = replace(risk, guesses=np.concatenate([codes[:3], [[[1, 1]]]]), assumptions=ASKED)
    assert "not judged" not in judge(free, CALM).assumptions


@pytest.mark.parametrize(
    ("away", "times"),
    [(0.015, 2), (-0.015, 2), (0.0105, 4), (-0.0105, 4), (0.0072, 8), (0.0068, 16), (0.0, 16)],
)
def test_no_more_draws_are_asked_for_than_settle_the_record_in_doubt(away, times):
    """Two errors of 0.01 shrink with the square root; a record surely above settles all."""
    p = 1 / 3 + 0.2 - away
    risk = attribute([0.2, p])
    assert draws_that_settle(risk, Thresholds(), 2.0) == times
    verdict = judge(risk, CALM)
    (doubt,) = [r for r in verdict.deciding if r.measure == "probability gained"]
    assert f"(about {times} times as long)" in doubt.cure
    if times < 16:  # where estimates stay, so many draws do, and half of them do not
        assert judge(attribute([0.2, p], mcse=0.01 * times**-0.5), CALM).outcome != "inconclusive"
        less = attribute([0.2, p], mcse=0.01 * (times / 2) ** -0.5)
        assert judge(less, CALM).outcome == "inconclusive"
    assert draws_that_settle(attribute([0.2, p, 0.1, 0.99]), Thresholds(), 2.0) == 2
    unsure = attribute([0.2, p, 0.1], reliable=[True, True, False])
    assert draws_that_settle(unsure, Thresholds(), 2.0) == 16
    for error, more in ((0.06, 2), (0.09, 4), (0.13, 8), (0.3, 16)):  # reliable below 0.05
        rough = attribute([0.2, 0.1], mcse=np.array([0.001, error]), reliable=[True, False])
        unlimited = Thresholds(attribute_gain=0.99, attribute_log_bayes_factor=np.inf)
        assert draws_that_settle(rough, unlimited, 2.0) == more


def test_the_bound_of_records_not_audited_is_for_a_sample_without_one_above():
    """It said "of the other 1,300 at most 39" where 76 of 100 were above."""
    sample = Sample(1_300, at_random=True)
    within, above = (
        judge(replace(attribute([0.2, p], mcse=0.0), sample=sample), CALM) for p in (0.21, 0.95)
    )
    assert any(r.measure == "records not audited" for r in within.reasons)
    assert above.outcome == "above your thresholds"
    assert not any(r.measure == "records not audited" for r in above.reasons)


def test_the_error_beside_a_probability_is_its_own():
    """That of the rise, with the prior's error, stood there."""
    risk = replace(attribute([0.2, 0.6], mcse=0.01), mcse_log_bayes_factor=np.array([0.5, 0.5]))
    (found,) = [r for r in judge(risk, CALM).reasons if r.measure == "probability gained"]
    assert found.worst[0].error == pytest.approx(risk.records["mcse"].iloc[1])
