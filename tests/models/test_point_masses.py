"""Numbers that many records share, such as 0: what an intruder expects without the release."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.intruder.guesses import PointMasses, cells
from bayes_risk.models.fits.predicted import Spread, log_predicted


def survey(kind, n=300, seed=1, scale=1.0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    none = rng.random(n) < np.where(sex == "f", 0.5, 0.3)
    amount = rng.lognormal(7, 0.6, n)
    amount = {"cents": amount.round(2), "tens": amount.round(-1), "whole": amount.astype(int)}[kind]
    amount = np.where(none, 0, amount) * scale
    return pd.DataFrame({"sex": sex, "age": rng.integers(20, 60, n), "amount": amount})


def of_truth(df, guesses):
    """P(truth) without the release by record, and the share of zeros among others of its leaf."""
    fit = br.models.CART(order=["amount"], min_leaf=40).fit(df, random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    risk = br.attribute_risk(
        fit, release, guesses=guesses, prior="predictive", random_seed=3, progress=False
    )
    at = np.arange(len(risk.truth))
    found = np.exp(risk.log_prior[risk.truth, at])[risk.case]
    tree = fit.trees[0]
    leaf, zero = tree.leaf(fit.microdata.codes), (df["amount"] == 0).to_numpy()
    n = np.bincount(leaf)[leaf] - 1
    return found, (np.bincount(leaf, zero)[leaf] - zero) / (n + 1), zero


@pytest.mark.parametrize("kind", ["cents", "tens", "whole"])
def test_zeros_have_their_share_in_the_leaf(kind):
    df = survey(kind)
    for guesses, slack in (
        ({"amount": "levels"}, 0.003),  # as far as a kernel reaches to 0
        (br.Neighbourhood(1), 0.003),
        ({"amount": br.Grid(predictive=True, n=25)}, 1 / 23),  # the cell of 0 holds one quantile
        ({"amount": "predictive"}, 1 / 9),
    ):
        found, share, zero = of_truth(df, guesses)
        assert (np.abs(found - share)[zero] < slack).all()
        assert found[~zero].max() < 0.35


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_zeros_keep_their_share_on_even_steps_and_in_a_search():
    df = survey("tens").assign(amount=lambda d: d["amount"].clip(upper=4_000) // 100 * 100)
    found, share, zero = of_truth(df, {"amount": br.Grid(bounds=(0, 4_000), n=41)})
    assert (found > share - 0.003)[zero].all()  # the cell of 0 has some of the kernels', too
    assert (found < share + 0.05)[zero].all()
    every = {"amount": "levels", "age": "levels"}
    fit = br.models.CART(order=["amount", "age"], min_leaf=40).fit(df, random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    both = [
        br.attribute_risk(
            fit,
            release,
            guesses=br.JointGrid(every, budget=budget),
            prior="predictive",
            random_seed=3,
            progress=False,
        )
        for budget in (600, 20_000)
    ]
    at = np.arange(len(both[0].truth))
    one, other = (np.exp(risk.log_prior[risk.truth, at]) for risk in both)
    assert (one > other - 1e-9).all()  # fewer guesses are left


def test_the_unit_of_an_amount_does_not_matter():
    given = {"amount": br.Grid(predictive=True, n=9)}
    one, other = (of_truth(survey("cents", scale=s), given)[0] for s in (1.0, 0.0009765625))
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_masses_and_densities_sum_to_one():
    rng = np.random.default_rng(3)
    values = np.concatenate([np.zeros(12), np.full(9, 5.0), rng.normal(5, 2, 19)])
    line = np.unique(np.concatenate([np.linspace(-80, 90, 40_001), [0.0, 5.0]]))
    masses = PointMasses.of(np.array([0.0, 5.0]), line[:, None])
    shared = masses.only(np.zeros(len(line), int))
    spread = Spread(np.full(len(line), 4.0), np.full(len(line), 3.0))
    log_p = log_predicted(line, values[None], np.ones((1, 40)), spread, shared)
    p = np.exp(log_p) * cells(line)
    widths = np.exp(masses.log_width[:, 0])
    at = [np.flatnonzero(line == v)[0] for v in (0.0, 5.0)]
    p[at] = np.exp(log_p[at]) * widths
    assert abs(p.sum() - 1.0) < 1e-3
    np.testing.assert_allclose(p[at], [12 / 41, 9 / 41], atol=2e-3)


def test_a_grid_without_the_shared_value_has_no_mass():
    spread = Spread(np.full(3, 4.0), np.full(3, 3.0))
    line, values = np.array([1.0, 6.0, 13.0]), np.full((1, 10), 4.0)
    masses = PointMasses.of(np.array([4.0]), line[:, None]).only(np.zeros(3, int))
    log_p = log_predicted(line, values, np.ones((1, 10)), spread, masses)
    none = PointMasses(np.empty(0), np.empty((0, 3)))
    alone = log_predicted(line, values[:, :0], np.ones((1, 0)), spread, none)
    np.testing.assert_allclose(log_p, alone - np.log(11))


def test_donors_give_zeros_the_share_of_their_chances():
    df = survey("cents", n=120)
    df["area"] = pd.Categorical(np.random.default_rng(5).choice(list("abcdefghij"), len(df)))
    fit = br.models.PMM(["amount"], identifying=["area", "age"], threshold=1).fit(df)
    release, how = fit.synthesize(m=1, random_seed=2), {"prior": "predictive", "random_seed": 3}
    zero = np.flatnonzero(fit.chosen & (df["amount"] == 0))[:6]
    risk = br.attribute_risk(fit, release, guesses={"amount": "levels"}, targets=zero, **how)
    found = np.exp(risk.log_prior[risk.truth, np.arange(len(risk.truth))])[risk.case]
    (step,) = fit.base.steps
    weights = step.donors.k * step.donors.chances(step.means(fit.rows[zero]))
    share = (weights * (step.donors.values == 0)).sum(axis=1) / (step.donors.k + 1)
    np.testing.assert_allclose(found, share, atol=0.02)  # what the further record adds


def shuffled(df, m, seed):
    rngs = np.random.default_rng(seed).spawn(m)
    return [df.assign(amount=rng.permutation(df["amount"])) for rng in rngs]


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
@pytest.mark.parametrize("guesses", ["levels", "predictive"])
def test_margins_before_runs_of_a_generator(guesses):
    df = survey("cents", n=200)
    fit = br.models.Simulator(shuffled, columns=["amount"], runs=8).fit(df, random_seed=1)
    release, how = fit.synthesize(m=1, random_seed=2), {"prior": "predictive", "random_seed": 3}
    risk = br.attribute_risk(fit, release, guesses={"amount": guesses}, targets=60, **how)
    found = np.exp(risk.log_prior[risk.truth, np.arange(len(risk.truth))])[risk.case]
    zero = (df["amount"] == 0).to_numpy()
    share = (zero.sum() - 1) / 199
    of_zero = found[zero[df.index.get_indexer(risk.index)]]
    np.testing.assert_allclose(of_zero, share, atol=0.003 if guesses == "levels" else 1 / 9)


def test_who_knows_no_record_has_no_scale_for_numbers():
    """Guesses were placed around 0 with deviation 1."""
    df = survey("cents", n=120)
    fit = br.models.CART(order=["amount"], min_leaf=40).fit(df, random_seed=1)
    release, nobody = fit.synthesize(m=1, random_seed=2), br.Intruder(knows_records="none")
    with pytest.raises(br.InputError, match="give each number a grid"):
        br.attribute_risk(fit, release, intruder=nobody, guesses="predictive", targets=3)
    hardly = br.Intruder(knows_records=0.001)
    with pytest.raises(br.InputError, match='0.001 of 120 records is none; give "none"'):
        br.attribute_risk(fit, release, intruder=hardly, guesses={"amount": "levels"}, targets=3)
    risk = br.attribute_risk(fit, release, intruder=nobody, guesses={"amount": "levels"}, targets=3)
    assert np.isfinite(risk.log_probability).any()
