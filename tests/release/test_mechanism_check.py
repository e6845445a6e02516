"""Files made elsewhere among files simulated from the model they are audited under."""

import math
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.evidence import mechanism_check
from bayes_risk.evidence.mechanism_check import check_mechanism, stands_out
from bayes_risk.reporting.verdicts.verdict import judge
from tests.helpers.edge_results import attribute, identification
from tests.helpers.fits import encoded, fit_of, offered, release_of
from tests.models.test_rpart import CODED, real

CALM = identification(n=60, ages=7)  # nobody is unique, nobody matched uniquely
QUICK = sorted(set(br.models.BUILT_IN) - {"PyMCModel"})
pytestmark = [pytest.mark.check, pytest.mark.filterwarnings("ignore::UserWarning")]  # short fits


def people(n=120, seed=3):
    rng = np.random.default_rng(seed)
    age = rng.normal(45.0, 12.0, n)
    return pd.DataFrame(
        {"sex": rng.choice(["f", "m"], n), "age": age, "pay": 20 + age / 4 + rng.normal(0, 4, n)}
    )


@cache
def fitted(n=120, draws=200):
    model = br.models.Regression({"pay": "1 + age"})
    return model.fit(people(n), draws=draws, chains=2, random_seed=1)


def elsewhere(release, **changed):
    """The same files, of which nobody says how they were made."""
    return br.Release(
        datasets=changed.get("datasets", release.datasets),
        synthesized=release.synthesized,
        records=release.records,
        classes=release.classes,
        parameters=release.parameters,
    )


def made(m=2, seed=5):
    return elsewhere(fitted().synthesize(m, random_seed=seed))


def edited(change, m=2):
    """Files that the model made, after a change of pay."""
    tables = made(m).datasets
    return elsewhere(
        made(m), datasets=[t.assign(pay=change(t["pay"], l)) for l, t in enumerate(tables)]
    )


# --- the test --------------------------------------------------------------------------------


def by_hand(values, chosen):
    first, others = values[list(chosen)], np.delete(values, list(chosen), axis=0)
    sd = others.std(axis=0, ddof=1) * math.sqrt(1 / len(first) + 1 / len(others))
    return np.abs(first.mean(axis=0) - others.mean(axis=0)) / sd


def test_the_p_value_of_one_file_is_the_rank_of_its_largest_difference():
    values = np.random.default_rng(1).normal(size=(12, 4))
    D, p = stands_out(values, np.zeros(4), 1, rng=np.random.default_rng(2))
    every = np.stack([by_hand(values, [i]) for i in range(12)])
    np.testing.assert_allclose(D, every[0])
    np.testing.assert_allclose(p, [(every.max(axis=1) >= d).mean() for d in every[0]])


def test_the_p_value_of_several_files_is_that_of_all_choices():
    values = np.random.default_rng(3).normal(size=(9, 3))
    D, p = stands_out(values, np.zeros(3), 2, rng=np.random.default_rng(4))
    every = np.stack([by_hand(values, chosen) for chosen in combinations(range(9), 2)])
    exact = np.array(
        [(every.max(axis=1) >= d * (1 - 1e-9)).mean() for d in by_hand(values, [0, 1])]
    )
    np.testing.assert_allclose(D, every[0])
    assert (np.abs(p - exact) <= 4 * np.sqrt(exact * (1 - exact) / 2000) + 1e-3).all()


def test_a_measure_that_all_files_share_says_nothing():
    values = np.ones((40, 2))
    _, p = stands_out(values, np.full(2, 0.1), 1, rng=np.random.default_rng(1))
    assert (p == 1).all()


# --- files -----------------------------------------------------------------------------------


def test_files_of_the_model_pass():
    found = check_mechanism(fitted(), made(), random_seed=1)
    assert not found.failed and not found.impossible
    assert "assumed, not verified: the check found no contradiction (p = " in found.sentence()
    assert found.n_simulated == 48 and found.m == 2
    assert list(found.table.index) == ["pay", ""]  # and log p(Z)
    assert found.p_value == found.summary()["p_value"].min()


CHANGES = {
    "shifted": (lambda pay, l: pay + 2, "values"),
    "too narrow": (lambda pay, l: pay.mean() + 0.7 * (pay - pay.mean()), "values"),
    "shuffled": (lambda pay, l: pay.sample(frac=1, random_state=l).to_numpy(), "with age"),
    "genuine": (
        lambda pay, l: np.sort(people()["pay"])[pay.rank().astype(int) - 1],
        "genuine values",
    ),
    "a third genuine": (
        lambda pay, l: people()["pay"].where(pay.index % 3 == 0, pay),
        "genuine values",
    ),
    "far out": (lambda pay, l: pay.where(pay.index > 0, 1e4), "log p(Z)"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_files_that_the_model_did_not_make_fail_and_say_where(change):
    how, where = CHANGES[change]
    found = check_mechanism(fitted(), edited(how), random_seed=1)
    assert found.failed and where in found.sentence()
    assert found.sentence().startswith("The synthesis model assumed did not make these files: ")


def test_one_odd_file_among_five_is_found():
    original = people()["pay"]
    found = check_mechanism(
        fitted(), edited(lambda pay, l: original if l == 3 else pay, m=5), random_seed=1
    )
    assert found.failed and found.n_simulated == 120


@pytest.mark.parametrize("way", [lambda x: x.round(0), lambda x: x.map("{:.3g}".format)])
def test_numbers_rounded_on_their_way_to_a_file_pass(way):
    release = edited(lambda pay, l: way(pay).astype(float))
    assert not check_mechanism(fitted(), release, random_seed=1).failed


def test_copies_of_rounded_numbers_are_found_among_numbers_that_are_not():
    df = people().round(1)
    fit = br.models.Regression({"pay": "1 + age"}).fit(df, draws=200, chains=2, random_seed=1)
    made = fit.synthesize(2, random_seed=5).datasets
    copied = [t.assign(pay=df["pay"].where(np.arange(120) % 5 == 0, t["pay"])) for t in made]
    release = br.Release(datasets=copied, synthesized=["pay"])
    assert "genuine values" in check_mechanism(fit, release, random_seed=1).sentence()


def test_only_replaced_records_are_looked_at():
    mask = np.arange(120) < 60
    release = elsewhere(fitted().synthesize(2, records=mask, random_seed=4))
    assert not check_mechanism(fitted(), release, random_seed=1).failed
    whole = br.Release(datasets=release.datasets, synthesized=release.synthesized)
    assert check_mechanism(fitted(), whole, random_seed=1).failed  # half of it is the original


@pytest.mark.parametrize("name", QUICK)
def test_every_model_can_be_checked_and_passes_its_own_files(name):
    release = elsewhere(fit_of(name).synthesize(2, random_seed=10))
    found = check_mechanism(fit_of(name), release, random_seed=1)
    assert 0.05 < found.p_value <= 1 and not found.failed
    again = check_mechanism(fit_of(name), release, random_seed=1)
    pd.testing.assert_frame_equal(found.summary(), again.summary(), check_exact=True)


@pytest.mark.parametrize("name", QUICK)
def test_the_density_of_some_draws_is_that_of_all(name):
    fit, release = fit_of(name), release_of(name)
    if "importance" not in offered(fit, release):
        assert not any(m.kind == "density" for m in check_mechanism(fit, release).measures)
        return
    some = np.array([7, 2, 5])
    coded = encoded(fit, release)
    np.testing.assert_allclose(
        fit.log_release(coded, some), fit.log_release(coded)[:, some], rtol=1e-12
    )


def test_values_that_a_leaf_does_not_hold_are_counted_by_column():
    df = people().round({"pay": 0})
    trees = br.models.CART(["sex", "pay"], bootstrap="none", floor=0.01, min_leaf=10)
    fit = trees.fit(df, random_seed=1)
    files = [df.assign(pay=df["pay"].sample(frac=1, random_state=l).to_numpy()) for l in (1, 2)]
    release = br.Release(datasets=files, synthesized=["sex", "pay"])
    found = check_mechanism(fit, release, random_seed=1)
    most = fit.report_mismatch(release).groupby("column")["elsewhere"].max()
    assert found.failed and found.impossible == {"pay": most["pay"]}
    assert f"it cannot produce values that they show ({most['pay']} of pay)" in found.sentence()
    own = fit.without_floor().synthesize(2, random_seed=3)
    assert check_mechanism(fit, elsewhere(own), random_seed=1).impossible == {}


class ReplacesAll:
    """A fit that cannot be asked for some of the records."""

    def __getattr__(self, name):
        return getattr(fitted(), name)

    def synthesize(self, m, columns=None, *, random_seed=None):
        return fitted().synthesize(m, columns, random_seed=random_seed)


def test_files_of_other_columns_are_refused():
    release = br.Release(datasets=[people()], synthesized=["age"])
    with pytest.raises(br.InputError, match="age"):
        check_mechanism(fitted(), release, random_seed=1)
    mask = np.arange(120) < 60
    some = elsewhere(fitted().synthesize(2, records=mask, random_seed=4))
    with pytest.raises(br.InputError, match="of 120 records, the release pay of 60: check it with"):
        check_mechanism(ReplacesAll(), some, random_seed=1)
    with pytest.raises(br.InputError, match="n_simulated=5"):
        check_mechanism(fitted(), made(), n_simulated=5)


# --- calibration -----------------------------------------------------------------------------


def rejected(releases, m, n):
    """p-values of files that a regression on n records made."""
    fit = fitted(n, 1000)
    found = []
    for seed in range(releases):
        release = elsewhere(fit.synthesize(m, random_seed=1000 + seed))
        found.append(check_mechanism(fit, release, n_simulated=19, random_seed=seed).p_value)
    return np.array(found)


def assert_level(p, levels=(0.05, 0.25, 0.5)):
    for level in levels:
        error = 4 * math.sqrt(level * (1 - level) / len(p))
        assert abs((p <= level + 1e-9).mean() - level) <= error


def test_files_of_the_model_fail_at_the_stated_rate():
    assert_level(rejected(40, 1, 40))


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 3])
def test_two_hundred_releases_fail_at_the_stated_rate(m):
    assert_level(rejected(200, m, 120))


# --- audits ----------------------------------------------------------------------------------


def audited(release):
    return br.attribute_risk(
        fitted(), release, targets=5, guesses={"pay": br.Grid(percent=10, n=5)}, random_seed=1
    )


def test_audits_of_files_made_elsewhere_carry_the_check_and_own_releases_need_none():
    risk = audited(made())
    assert risk.assumed and risk.check is not None and not risk.check.failed
    assert risk.check.sentence() in repr(risk)
    own = audited(fitted().synthesize(2, random_seed=5))
    assert own.check is None
    pd.testing.assert_frame_equal(own.records, risk.records)


def test_settings_of_a_sweep_share_the_check(monkeypatch):
    asked, check = [], mechanism_check._check
    monkeypatch.setattr(
        mechanism_check, "_check", lambda *given: asked.append(given) or check(*given)
    )
    over = {"evidence": ["exact", "predictive"]}
    grid = {"pay": br.Grid(percent=10, n=5)}
    br.sensitivity(fitted(), made(), over=over, targets=2, guesses=grid, random_seed=1)
    assert len(asked) == 1


def test_a_failed_check_makes_the_verdict_inconclusive_whatever_the_numbers():
    failed = check_mechanism(fitted(), edited(CHANGES["shifted"][0]), random_seed=1)
    for probability in (0.1, 0.99):
        risk = replace(attribute([probability]), assumed=True, check=failed)
        verdict = judge(risk, CALM)
        assert verdict.outcome == "inconclusive"
        (reason,) = verdict.deciding
        assert failed.sentence() in reason.sentence
        assert reason.cure.startswith(
            "only the model that made the files settles these (of synthpop: "
        )
        assert "probability gained" not in {r.measure for r in verdict.reasons}


def test_what_needs_no_model_is_judged_beside_a_failed_check():
    failed = check_mechanism(fitted(), edited(CHANGES["shifted"][0]), random_seed=1)
    given_away = replace(
        attribute(disclosed=[False, True, False, False]), assumed=True, check=failed
    )
    verdict = judge(given_away, CALM)
    assert verdict.outcome == "above your thresholds"
    assert [r.measure for r in verdict.deciding] == ["disclosed"]


def test_a_passed_check_is_said_and_verifies_nothing():
    passed = check_mechanism(fitted(), made(), random_seed=1)
    risk = replace(attribute([0.2]), assumed=True, check=passed)
    verdict = judge(risk, CALM)
    assert verdict.outcome == "inconclusive"
    assert "assumed, not verified: the check found no contradiction" in verdict.sentence()
    above = replace(attribute([0.9]), assumed=True, check=passed)
    assert judge(above, CALM).outcome == "above your thresholds"


def test_models_that_were_kept_of_the_synthesis_are_known_unless_the_check_fails():
    passed = replace(check_mechanism(fitted(), made(), random_seed=1), kept_models=True)
    assert "assumed" not in passed.sentence()
    verdict = judge(replace(attribute([0.2]), assumed=True, check=passed), CALM)
    assert verdict.outcome == "within your thresholds"
    assert passed.sentence() in repr(verdict)
    failed = check_mechanism(fitted(), edited(CHANGES["shifted"][0]), random_seed=1)
    failed = replace(failed, kept_models=True)
    verdict = judge(replace(attribute([0.2]), assumed=True, check=failed), CALM)
    assert verdict.outcome == "inconclusive"


def test_the_report_has_a_section_of_the_check(tmp_path):
    failed = check_mechanism(fitted(), edited(CHANGES["shifted"][0]), random_seed=1)
    risk = replace(audited(made()), check=failed)
    text = br.report(risk, path=tmp_path / "report.html").read_text()
    assert "Assumed model: did it make the files?" in text and "2 released files" in text
    assert "The numbers below hold only for files of that model." in text


# --- real files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "formulas"),
    [
        ("ce_income_release*", {"Income": "1 + Age + C(Educ) + Expenditure"}),
        pytest.param(
            "ce_tenure_expenditure_income_release*",
            {
                "Expenditure": "1 + Age + C(Educ)",
                "Income": "1 + Age + C(Educ) + Expenditure",
            },
            marks=pytest.mark.slow,
        ),
    ],
)
def test_files_of_synthpop_were_not_made_by_a_regression(shared_data, pattern, formulas):
    df = pd.read_csv(shared_data / "ce_hornby_hu_identification.csv.gz")
    files = [pd.read_csv(path) for path in sorted((shared_data / "peer_runs").glob(pattern))]
    df = df.drop(columns="Tenure")
    fit = br.models.Regression(formulas).fit(df, draws=200, random_seed=1)
    release = br.Release(datasets=files, synthesized=list(formulas))
    found = check_mechanism(fit, release, random_seed=1)
    assert found.failed
    assert (found.table.loc[list(formulas), "p_value"] <= 0.05).all()
    assert "genuine values" in found.differs()
    own = elsewhere(fit.synthesize(3, random_seed=2))
    assert not check_mechanism(fit, own, random_seed=1).failed


def test_synthpop_s_own_trees_pass_and_trees_grown_here_do_not(shared_data):
    df = br.read_table(shared_data / "ce_hornby_hu_identification.csv.gz", levels=CODED)
    made = real(shared_data, "ce", df)
    own = br.models.CART.from_rpart(made.models, df, releases=made.datasets)
    release = br.Release(datasets=made.datasets, synthesized=own.order)
    assert not check_mechanism(own, release, random_seed=1).failed
    grown = br.models.CART(own.order, bootstrap="none", floor=0.01).fit(df, random_seed=1)
    found = check_mechanism(grown, release, random_seed=1)
    assert found.failed and set(found.impossible) == set(own.order)
