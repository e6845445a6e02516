"""The verdict beyond the two risks: chains that disagree, membership, usefulness."""

import io
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy import stats
from scipy.signal import lfilter

import bayes_risk as br
from bayes_risk._core.formats import number
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.evidence.modes import Modes
from bayes_risk.reporting.report import report
from bayes_risk.reporting.terminal import print_result
from bayes_risk.reporting.verdicts.doubts import DRAWS_A_CHAIN, standard_errors
from bayes_risk.reporting.verdicts.reasons import error_of_null
from bayes_risk.reporting.verdicts.verdict import Thresholds, judge
from bayes_risk.risk.membership.audit import Membership
from bayes_risk.risk.membership.computation import Standing
from tests.helpers.edge_results import attribute, identification, study_result

CALM = identification(n=60, ages=7)  # nobody is unique, nobody matched uniquely


def judged(diagnostics=None, thresholds=None, **parts):
    return judge(attribute(), CALM, thresholds, diagnostics=diagnostics, **parts)


def fit(rhat, ess, chains=2, **more):
    return {"chains": float(chains), "max_rhat": rhat, "min_ess": ess, "median_rhat": 1.0} | more


def reason(verdict, start):
    (found,) = [r for r in verdict.reasons if r.measure.startswith(start)]
    return found


# --- chains ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rhat", "ess", "chains", "outcome"),
    [
        (1.803, 3.0, 2, "inconclusive"),
        (1.051, 199.0, 2, "inconclusive"),
        (1.051, 399.0, 4, "within your thresholds"),  # 3.3 standard errors
        (1.049, 3.0, 2, "within your thresholds"),  # chains agree
        (1.2, 201.0, 2, "within your thresholds"),  # errors can be estimated
        (1.05, 3.0, 2, "within your thresholds"),
    ],
)
def test_where_chains_disagree_errors_are_taken_wider(rhat, ess, chains, outcome):
    """0.3 with an error of 0.02 is below 0.5 by 10 standard errors; two chains want 14."""
    risk = attribute([0.3], mcse=0.02)
    verdict = judge(risk, CALM, diagnostics=fit(rhat, ess, chains))
    assert verdict.outcome == reason(verdict, "probability").outcome == outcome


def test_errors_that_are_with_students_t_are_not_taken_wider_again():
    risk, bad = replace(attribute([0.3], mcse=0.02), few_chains=True), fit(1.8, 3.0, 2)
    verdict = judge(risk, CALM, diagnostics=bad)
    assert reason(verdict, "probability").outcome == "within your thresholds"
    said = reason(verdict, "agreement").sentence
    assert "largest R-hat 1.800" in said and said.endswith("with Student's t between chains.")


@pytest.mark.parametrize("chains", [2, 3, 4, 8])
def test_standard_errors_of_chains_that_never_met(chains):
    """Means of normal chains lie so often within so many of their estimated standard errors."""
    width = standard_errors(fit(1.8, 3.0, chains), 1.05)
    rng, n = np.random.default_rng(chains), 200_000
    x = rng.normal(size=(n, chains))
    inside = np.abs(x.mean(axis=1)) <= width * x.std(axis=1, ddof=1) / math.sqrt(chains)
    expected = 2 * stats.norm.cdf(2) - 1
    assert abs(inside.mean() - expected) < 4 * math.sqrt(expected * (1 - expected) / n)


def test_chains_that_agree_take_two_standard_errors():
    assert standard_errors(fit(1.01, 900.0), 1.05) == standard_errors({}, 1.05) == 2.0


def test_the_reason_names_figures():
    said = reason(judged(fit(1.803, 3.0)), "agreement").sentence
    assert "1.803, above 1.05" in said and "3 effective draws where 200 are wanted" in said
    assert "14.0 standard errors were allowed for instead of 2" in said


@pytest.mark.parametrize("limit", [None, math.inf, 2.0], ids=["none", "inf", "2"])
def test_the_limit_is_the_agencys(limit):
    risk = attribute([0.3], mcse=0.02)
    verdict = judge(risk, CALM, Thresholds(rhat=limit), diagnostics=fit(1.803, 3.0))
    assert verdict.outcome == "within your thresholds"


def test_one_chain_is_a_doubt_and_no_chain_is_none():
    assert judged(fit(float("nan"), 500.0, chains=1)).outcome == "inconclusive"
    assert judged({}).outcome == judged({"vulnerable": 3}).outcome == "within your thresholds"
    assert judged(fit(float("nan"), 500.0)).outcome == "within your thresholds"


def test_matches_do_not_rest_on_chains():
    verdict = judge(None, CALM, diagnostics=fit(1.803, 3.0))
    assert [r.measure for r in verdict.reasons if "chains" in r.measure] == []


def test_chains_never_outweigh_a_risk():
    verdict = judge(attribute([0.9]), CALM, diagnostics=fit(1.803, 3.0))
    assert verdict.outcome == "above your thresholds"


def test_the_limit_is_where_the_largest_of_300_lies_with_just_enough_draws():
    """R-hat^2 = 1 + X / ((2C - 1) v) over half chains of v = 50 independent draws, C = 2."""
    expected = math.sqrt(1 + stats.chi2(3).ppf(1 - 1 / 300) / (3 * DRAWS_A_CHAIN / 2))
    assert expected == pytest.approx(1.045, abs=5e-4)
    rng, n, r = np.random.default_rng(1), 1000, DRAWS_A_CHAIN / 1000
    found = []
    for _ in range(2):
        noise = rng.normal(size=(2, n + 300, 300))
        chains = lfilter([1], [1, -(1 - r) / (1 + r)], noise, axis=1)[:, 300:]
        found.append(ess_and_rhat(chains.reshape(2 * n, 300), 2)[1].max())
    # the largest of 300: log-spread of an extreme of chi-squared / 2 is pi / sqrt(6) on X
    spread = 2 * math.pi / math.sqrt(6) / (3 * DRAWS_A_CHAIN / 2) / (2 * expected)
    assert abs(np.mean(found) - expected) < 4 * spread / math.sqrt(2)
    assert expected < Thresholds().rhat < expected + 3 * spread


def test_two_errors_of_two_chains_hold_the_truth_seventy_times_in_a_hundred():
    """What docs/reading-the-numbers.md says of chains that have not met."""
    assert 2 * stats.t(1).cdf(2) - 1 == pytest.approx(0.70, abs=0.005)


def test_the_report_passes_the_diagnostics_on(tmp_path):
    risk = attribute([0.3], mcse=0.02)
    path = report(risk, CALM, path=tmp_path / "r.html", diagnostics=fit(1.803, 3.0))
    assert "Inconclusive." in path.read_text()


# --- modes -------------------------------------------------------------------------------------


def led(modes, kept=(0,), used=(0, 1, 2), probability=(0.2, 0.3)):
    """An audit whose starts were found in these modes."""
    found = Modes(
        mode=np.array(modes),
        distance=np.zeros((len(modes), len(modes))),
        log_release=np.zeros((len(modes), 2)),
        kept=kept,
        chosen=np.array([0, 0]),
        used=np.array(used),
    )
    return replace(attribute(probability), modes=found)


def test_a_mode_that_the_release_chose_is_named_with_its_strays():
    verdict = judge(led([0, 0, 0, 1]), CALM, diagnostics=fit(1.803, 3.0))
    assert verdict.outcome == "within your thresholds"
    said = reason(verdict, "agreement").sentence
    assert said == "3 of 4 chains started from the release found the same mode; 1 discarded."
    assert "R-hat" not in repr(verdict)  # of the fit's chains, on which nothing rests


def test_a_mode_with_one_chain_is_a_doubt_that_more_chains_settle():
    risk = led([0, 1, 1, 1], used=(0,))
    verdict = judge(risk, CALM, diagnostics={"chains": 3})
    assert verdict.outcome == "inconclusive"
    (said,) = verdict.deciding
    assert "one chain does not show how much chains of this mode differ" in said.sentence
    assert said.cure.startswith("target_mcse = 0.02 (about 16 times as long), with the")


@pytest.mark.parametrize("chains", [(4, 4), (6, 6), (11, 1), (12, 12), (60, 72)])
@pytest.mark.parametrize(("apart", "noise"), [(0.2, 0.0), (0.2, 0.03), (0.06, 0.01), (0.04, 0.06)])
def test_modes_that_differ_are_the_reason_whatever_the_error_of_all_chains(chains, apart, noise):
    """It holds the difference: few chains, half in each mode, err by more than an eighth of it."""
    rng = np.random.default_rng(5)
    p = 0.3 + np.repeat([0.0, apart], chains) + noise * rng.normal(size=sum(chains))
    error = p.std(ddof=1) / np.sqrt(len(p))
    risk = led([0, 0, 1, 1], kept=(0, 1), probability=(0.3 + apart / 2, 0.2))
    modes = np.array([[0.3, 0.2], [0.3 + apart, 0.2]])
    ends = np.stack([risk.records["probability"].to_numpy() + s * 2.8 * error for s in (-1, 1)])
    how = {"by_mode": modes, "interval": ends, "mcse": np.array([error, 0.001])}
    risk = replace(risk, reliable=np.array([False, True]), **how)
    found = reason(judge(risk, CALM, Thresholds(share_unreliable=0.0)), "unreliable")
    differ = apart > 0.05
    assert ("between open modes (1)" in found.sentence) == differ
    assert ("another random_seed" in found.cure) == differ
    assert ("target_mcse" in found.cure) != differ


def test_a_data_set_made_in_another_mode_than_the_rest_is_a_doubt():
    risk = led([0, 0, 0, 1])
    risk = replace(risk, modes=replace(risk.modes, chosen=np.array([0, 1])))
    verdict = judge(risk, CALM)
    assert verdict.outcome == "inconclusive"
    (said,) = verdict.deciding
    assert "considered alone, data set 2 chooses another" in said.sentence
    assert "computed in another mode than its own" in said.sentence
    assert "random_seed" in said.cure


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.40, 0.45, "within your thresholds"),
        (0.40, 0.70, "inconclusive"),  # one of the modes says so
        (0.56, 0.70, "above your thresholds"),  # both do
    ],
)
def test_modes_between_which_the_release_does_not_choose_are_spanned(low, high, outcome):
    middle = (low + high) / 2
    risk = led([0, 0, 1, 1], kept=(0, 1), used=(0, 1, 2, 3), probability=[0.2, middle])
    risk = replace(risk, interval=np.array([[0.2, low], [0.2, high]]))
    verdict = judge(risk, CALM)
    assert verdict.outcome == outcome
    assert "4 of 4 chains started from the release found 2 modes" in repr(verdict)


@pytest.mark.parametrize(
    ("apart", "cure"),
    [(0.1, "not possible for these files"), (0.04, "refit_budget"), (None, "refit_budget")],
)
def test_records_that_open_modes_make_unreliable_are_not_sampled_more(apart, cure):
    """The cure was a quarter of the error: 16 times as long, and a quarter of that after it."""
    kept = (0,) if apart is None else (0, 1)
    risk = led([0, 0, 1, 1], kept=kept, used=(0, 1, 2, 3), probability=[0.2, 0.25])
    risk = replace(
        risk,
        interval=np.array([[0.2, 0.2], [0.2, 0.3]]),
        reliable=np.array([True, False]),
        by_mode=None if apart is None else 0.25 + np.outer([-0.5, 0.5], [0.0, apart]),
    )
    found = reason(judge(risk, CALM), "unreliable")
    assert found.cure.startswith(cure)
    assert ("between open modes" in found.sentence) == (cure[0] == "n")


def test_modes_on_both_sides_of_the_limit_of_the_odds_are_a_doubt():
    """The error of the log Bayes factor reaches what each of them says: 2.5 and 3.5, around 3."""
    risk = led([0, 0, 1, 1], kept=(0, 1), used=(0, 1, 2, 3), probability=[0.2, 0.4])
    limits = Thresholds(attribute_log_bayes_factor=risk.records["log_bayes_factor"].iloc[1] + 0.5)
    within = replace(risk, mcse_log_bayes_factor=np.array([0.01, 0.01]))
    assert judge(within, CALM, limits).outcome == "within your thresholds"
    across = replace(risk, mcse_log_bayes_factor=np.array([0.01, 0.3]))
    verdict = judge(across, CALM, limits)
    assert verdict.outcome == "inconclusive" and reason(verdict, "probability gained").cure


def test_page_and_screen_say_which_chains_the_numbers_rest_on(tmp_path):
    risk, found = led([0, 0, 0, 1]), fit(1.803, 3.0)
    page = report(risk, CALM, path=tmp_path / "r.html", diagnostics=found).read_text()
    assert "rest on other chains, which start from the release: 3 of 4 chains" in page
    assert "Modes of the model" in page and "Chains of the audit" in page
    assert page.count("Another audit (95 %)".replace(" %", "\N{NO-BREAK SPACE}%")) == 2
    result = replace(study_result(risk=risk, ident=CALM), diagnostics=found)
    console = Console(file=io.StringIO(), width=300)
    print_result(result, [], console=console)
    (row,) = [row for row in console.file.getvalue().splitlines() if row.startswith("Reliability")]
    assert "3 of 4 chains started from the release" in row and "R-hat" not in row


# --- membership --------------------------------------------------------------------------------


def membership(log_bf=(0.1, 0.2, 0.3), *, auc=0.55, error=0.0, mcse=0.01, reliable=True, others=2):
    n, q = len(log_bf), len(log_bf) + others
    member = np.arange(q) < n
    return Membership(
        index=pd.RangeIndex(q),
        member=member,
        log_bayes_factor=np.append(log_bf, np.full(others, -0.5)),
        mcse=np.full(q, mcse),
        khat=np.zeros(q),
        ess=np.full(q, 400.0),
        reliable=np.full(q, reliable),
        standing=Standing(*np.zeros((2, n)), np.full(n, float(others)), np.zeros(n), np.ones(n)),
        prior_odds=1.0,
        measures=np.array([auc, *np.zeros(5)]),
        standard_error=np.array([error, *np.zeros(5)]),
        mcse_of_measures=np.zeros(6),
        assumptions={"records": "The intruder knows every record but one."},
        seed_entropy="1",
    )


def test_membership_is_judged_only_if_asked_for():
    bad = membership([9.0], auc=0.99)
    assert judged(membership=bad).outcome == "within your thresholds"
    assert len(judged(membership=bad).reasons) == len(judged().reasons)


@pytest.mark.parametrize(
    ("auc", "error", "outcome"),
    [
        (0.64, 0.01, "above your thresholds"),
        (0.61, 0.01, "inconclusive"),
        (0.59, 0.01, "inconclusive"),
        (0.57, 0.01, "within your thresholds"),
        (0.60, 0.0, "within your thresholds"),
        (0.9, float("nan"), "inconclusive"),
    ],
)
def test_the_area_under_the_curve_is_within_two_errors_or_not(auc, error, outcome):
    verdict = judged(membership=membership(auc=auc, error=error), thresholds=LIMIT)
    assert verdict.outcome == outcome
    assert f"{100 * auc:.1f} times in 100" in reason(verdict, "membership").sentence


LIMIT = Thresholds(membership_auc=0.6)
EACH = Thresholds(membership_log_bayes_factor=3.0)


@pytest.mark.parametrize(
    ("value", "mcse", "reliable", "outcome"),
    [
        (3.5, 0.1, True, "above your thresholds"),
        (3.1, 0.1, True, "inconclusive"),
        (2.9, 0.1, True, "inconclusive"),
        (2.7, 0.1, True, "within your thresholds"),
        (9.0, 0.1, False, "inconclusive"),
        (9.0, float("nan"), True, "inconclusive"),
        (-np.inf, 0.1, True, "within your thresholds"),
    ],
)
def test_members_are_judged_one_by_one(value, mcse, reliable, outcome):
    found = membership([0.1, value, 0.2], mcse=mcse, reliable=reliable)
    assert judged(membership=found, thresholds=EACH).outcome == outcome


def test_people_outside_the_data_are_not_judged():
    found = membership([0.1])
    found = replace(found, log_bayes_factor=np.array([0.1, 9.0, 9.0]))
    assert judged(membership=found, thresholds=EACH).outcome == "within your thresholds"


def test_what_has_a_threshold_and_was_not_measured_is_a_doubt():
    assert judged(thresholds=LIMIT).outcome == "inconclusive"
    alone = membership(others=0)
    verdict = judged(membership=alone, thresholds=LIMIT)
    assert "no people outside the data" in verdict.deciding[0].sentence
    assert judged(membership=alone, thresholds=EACH).outcome == "within your thresholds"


# --- usefulness --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def useful():
    """Utility of two files in which one column was shuffled."""
    rng = np.random.default_rng(1)
    df = pd.DataFrame({"a": rng.integers(3, size=200).astype(str)})
    df["b"] = np.where(rng.random(200) < 0.8, df["a"], "0")
    files = [df.assign(b=rng.permutation(df["b"].to_numpy())) for _ in range(2)]
    return br.utility(df, files, synthesized=["b"], permutations=6, random_seed=1)


def of_use(useful, thresholds, **parts):
    return judged(utility=useful, thresholds=Thresholds(utility=thresholds), **parts)


def test_usefulness_is_judged_only_if_asked_for(useful):
    verdict = judged(utility=useful)
    assert verdict.usefulness is None and verdict.headline == "Within your thresholds."


def test_a_useless_file_is_safe_and_is_told_so(useful):
    verdict = of_use(useful, {"pairs_worst_ratio": 3.0})
    assert (verdict.outcome, verdict.usefulness) == (
        "within your thresholds",
        "less useful than required",
    )
    assert verdict.headline == "Within your thresholds, but less useful than required."
    said = reason(verdict, "pairs_worst_ratio").sentence
    value = useful.summary().at["pairs_worst_ratio", "value"]
    assert f"{number(value)}; at most 3 is wanted" in said and value > 3
    assert said in [r.sentence for r in verdict.deciding] and verdict.signal == "inconclusive"
    assert set(verdict.others) | set(verdict.deciding) == set(verdict.reasons)


def test_no_usefulness_outweighs_a_risk_and_none_makes_one(useful):
    limits = Thresholds(utility={"pairs_worst_ratio": 3.0})
    verdict = judge(attribute([0.9]), CALM, limits, utility=useful)
    assert verdict.outcome == verdict.signal == "above your thresholds"
    assert verdict.headline == "Above your thresholds. Less useful than required."
    assert "true values by more than 0.2" in verdict.deciding[0].sentence
    good = judge(attribute([0.9]), CALM, Thresholds(utility={"pmse_cart": 1.0}), utility=useful)
    assert good.outcome == "above your thresholds" and good.usefulness == "useful enough"


@pytest.mark.parametrize(
    ("errors", "usefulness"),
    [
        (2.5, "useful enough"),
        (1.5, "usefulness inconclusive"),
        (-1.5, "usefulness inconclusive"),
        (-2.5, "less useful than required"),
    ],
)
@pytest.mark.parametrize("name", ["ratio_cart", "standardized_cart"])
def test_the_error_of_the_null_leaves_it_open(useful, name, errors, usefulness):
    value = useful.summary().at[name, "value"]
    limit = value + errors * error_of_null(useful, name)
    assert of_use(useful, {name: limit}).usefulness == usefulness


def test_measures_of_which_more_is_better_have_least_values(useful):
    found = replace(useful, estimate_names=(("f", "x"),), agreement=np.array([[[0.2, 0.7]]] * 2),
                    combined=np.zeros((1, 10)))  # fmt: skip
    assert of_use(found, {"interval_overlap": 0.6}).usefulness == "useful enough"
    verdict = of_use(found, {"interval_overlap": 0.8})
    assert verdict.usefulness == "less useful than required"
    assert "at least 0.8 is wanted" in reason(verdict, "interval_overlap").sentence


def test_utility_that_was_not_measured_cannot_be_told(useful):
    for found, name in ((None, "pmse_cart"), (useful, "interval_overlap")):
        verdict = of_use(found, {name: 0.1})
        assert verdict.usefulness == "usefulness inconclusive"
        assert verdict.headline.endswith("but usefulness inconclusive.")


def test_the_error_of_a_ratio_is_that_of_other_permutations():
    """Ratios of one file under other permutations spread as the error says."""
    rng = np.random.default_rng(3)
    df = pd.DataFrame({"a": rng.integers(3, size=150).astype(str)})
    df["b"] = np.where(rng.random(150) < 0.6, df["a"], "0")
    file = df.assign(b=rng.permutation(df["b"].to_numpy()))
    runs = [
        br.utility(df, file, synthesized=["b"], permutations=8, random_seed=seed)
        for seed in range(40)
    ]
    for name in ("ratio_cart", "standardized_cart"):
        values = np.array([run.summary().at[name, "value"] for run in runs])
        told = np.sqrt(np.mean([error_of_null(run, name) ** 2 for run in runs]))
        # sd of 40 values: relative error 1 / sqrt(78); heavy tails of 1 / sd widen it
        assert values.std(ddof=1) / told == pytest.approx(1.0, abs=4 / math.sqrt(78))


def test_the_report_shows_both(useful, tmp_path):
    limits = Thresholds(utility={"pairs_worst_ratio": 3.0, "pmse_cart": 1.0})
    found = report(attribute(), CALM, useful, path=tmp_path / "r.html", thresholds=limits)
    text = found.read_text()
    assert 'class="verdict open"' in text and "less useful than required" in text
    assert text.count("at most 3 is wanted") == text.count("at most 1 is wanted") == 1
