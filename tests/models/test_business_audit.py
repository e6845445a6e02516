"""business competitors through the front door: what is asked, what is said, what is refused."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.evidence.problem import guessed
from bayes_risk.release.release import EncodedRelease
from tests.oracles.count_classes import class_masses, log_poisson, theta_from_prior

pytestmark = pytest.mark.check

RNG = np.random.default_rng(5)
TABLE = pd.DataFrame(
    {"w": [*RNG.poisson(20, 30), 420, 300, 120, 100, 80], "v": [*RNG.poisson(40, 30), *[700] * 5]},
    index=[f"r{i}" for i in range(35)],
)
TARGET, SECOND = "r30", "r31"
KNOWS = {"knows_records": "second-largest", "largest": "w"}
PAIR = {"knows_records": "all-but-two", "other": SECOND, "knows_totals": True, "largest": "w"}


@cache
def fitted(kind, **how):
    return br.models.PoissonMixture(n_classes=8, kind=kind, **how).fit(
        TABLE, draws=60, tune=100, chains=2, random_seed=1
    )


KINDS = ["MP", "MM", "TCMM"]


def fit_of(kind):
    return fitted(kind, quantile=0.9) if kind == "TCMM" else fitted(kind)


def audit(kind, knows, *, m=1, release=None, grid=None, **how):
    fit = fit_of(kind)
    release = fit.synthesize(m=m, random_seed=2) if release is None else release
    grid = br.Grid(bounds=(300, 500), n=201) if grid is None else grid
    return br.attribute_risk(
        fit, release, intruder=br.Intruder(**knows), guesses=grid, random_seed=3, **how
    )


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("knows", [KNOWS, PAIR, KNOWS | {"knows_totals": True}])
def test_the_largest_is_the_target_and_its_column_the_guess(kind, knows):
    risk = audit(kind, knows, m=2)
    assert list(risk.index) == [TARGET] and [v.name for v in risk.variables] == ["w"]
    assert risk.assumptions["columns"] == "guessed: w"
    assert risk.assumptions["evidence"].startswith("weaker")
    between = risk.probability_between(TARGET, "w", 300, 500)
    assert between["probability"] == pytest.approx(1) and between["prior"] == pytest.approx(1)
    inside = risk.probability_between(TARGET, "w", 400, 440)
    assert inside["prior"] == pytest.approx(41 / 201)
    close = risk.closeness("w", within=20).iloc[0]
    assert inside["probability"] == pytest.approx(close["probability_within_20"])
    assert inside["mcse_bound"] == pytest.approx(close["probability_within_20_mcse_bound"])


def test_a_component_of_its_own_is_named_a_singleton():
    fit = fit_of("MM")
    release = fit.synthesize(m=3, random_seed=4)
    alone = [
        (g[:, 0] == g[TABLE.index.get_loc(TARGET), 0]).sum() == 1
        for g in np.asarray(release.groups)
    ]
    risk = audit("MM", KNOWS, release=release)
    said = risk.assumptions["evidence"]
    assert any(alone)  # 420 beside 300: no Poisson class holds both
    assert f"in {sum(alone)} of 3 data sets the target is a component of its own" in said
    assert risk.records["probability"].iloc[0] > 0.99


def test_a_tail_of_one_or_two_discloses_for_certain():
    for quantile, size in ((0.92, 2), (0.95, 1)):
        fit = fit_of("TCMM")
        release = fit.synthesize(m=2, quantile=quantile, random_seed=2)
        assert (np.asarray(release.groups)[0, :, 0] == -1).sum() == size
        risk = audit("TCMM", KNOWS, release=release)
        assert risk.certain().loc[TARGET, "w"]
        assert "no other record is in the tail" in risk.assumptions["evidence"]


def test_tail_total_says_what_is_left_for_the_others():
    """Three in the tail: 420 + 300 + 120; the guess leaves one other value, 101 to 300."""
    release = fit_of("TCMM").synthesize(m=3, quantile=0.9, random_seed=2)
    risk = audit("TCMM", KNOWS, release=release, grid=br.Grid(bounds=(300, 500), n=201))
    p = risk.posterior(TARGET, "w").sort_values("w")
    left = 840 - 300 - p["w"].to_numpy()
    values = np.arange(101.0, 301.0)
    laws = [values**-s / (values**-s).sum() for s in np.linspace(0, 4, 17)]
    within = (left > 100) & (left <= 300)
    want = np.where(within, np.mean(laws, axis=0)[np.clip(left - 101, 0, 199)], 0.0)
    assert np.allclose(p["probability"], want / want.sum())


def test_known_total_of_a_pair_ends_where_the_other_has_none():
    risk = audit("MM", PAIR, grid=br.Grid(bounds=(300, 900), n=601))
    p = risk.posterior(TARGET, "w")
    assert (p.loc[(p["w"] > 720) | (p["w"] < 360), "probability"] == 0).all()


def test_a_value_alone_says_less_than_the_record():
    risk = audit("MP", KNOWS | {"knows_records": "second-largest-value"})
    assert np.isfinite(risk.records["probability"].iloc[0])
    assert "second largest value of w" in risk.assumptions["records"]


@pytest.mark.filterwarnings("ignore::bayes_risk.TruncationWarning")
@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
@pytest.mark.parametrize("classes", ["new", "own"])
def test_all_but_two_beside_a_kept_count(classes):
    """p(Z | y*, T - y*, A), the other count kept: against draws of Theta from the prior."""
    y = np.array([[9, 2], [5, 7], [1, 8], [2, 3]])
    model = br.models.PoissonMixture(
        n_classes=2, concentration_prior=(1.5, 1.0), rate_prior=(1.5, 0.2)
    )
    table = pd.DataFrame(y, columns=["w", "v"])
    fit = model.fit(table, draws=1500, tune=300, chains=4, thin=4, random_seed=1)
    z = np.array([[7, 2], [6, 7], [3, 8], [0, 3]])
    release = br.Release(datasets=[table.assign(w=z[:, 0])], synthesized=["w"], classes=classes)
    intruder = br.Intruder(knows_records="all-but-two", other=1, knows_totals=True)
    guesses = {"w": br.Grid(values=[0, 2, 5, 9, 12, 14])}
    risk = br.attribute_risk(
        fit, release, intruder=intruder, guesses=guesses, targets=[0], random_seed=2
    )
    found = risk.log_evidence[0, :, 0]
    rng, exact = np.random.default_rng(3), []
    theta = theta_from_prior(fit.prior, 400_000, rng)

    def masses(row, columns=(0, 1)):
        return class_masses(fit.prior, theta, row, [], columns, 1.0)

    for (guess,) in risk.guesses[:, 0]:
        rows = y.copy()
        rows[:2, 0] = guess, 14 - guess
        weight, p_z = np.ones(len(theta[0])), np.ones(len(theta[0]))
        for row, shown in zip(rows, z, strict=True):
            of_row = masses(row)
            weight *= of_row.sum(axis=1)
            given = masses(shown, [1]) if classes == "new" else of_row
            means = np.exp(log_poisson(shown[0], theta[1][0]))
            p_z *= (given * means).sum(axis=1) / given.sum(axis=1)
        exact.append(np.log((weight * p_z).sum() / weight.sum()))
    gap = (found - found[risk.truth[0]]) - (np.array(exact) - exact[risk.truth[0]])
    error = np.hypot(risk.mcse_log_evidence[:, 0], 0.02)
    assert (np.abs(gap) < 4 * error).all() and np.ptp(exact) > 0.5
    assert risk.mcse_log_evidence.max() < 0.1


# --- refusals ----------------------------------------------------------------------------------

LARGE = (TABLE["w"] > 50).to_numpy()


def without_groups():
    return replace(fit_of("MM").synthesize(m=1, random_seed=2), groups=None)


def moved():
    shown = fit_of("MM").synthesize(m=1, random_seed=2)
    shown.datasets[0].loc["r0", "w"] += 1
    return shown


@pytest.mark.parametrize(
    ("kind", "knows", "how", "message"),
    [
        (
            "MP",
            KNOWS,
            {"targets": ["r31"]},
            "a target does not have the largest 'w', as the intruder",
        ),
        ("MP", KNOWS | {"largest": "x"}, {}, "largest='x' is not a column that the release has"),
        ("MP", PAIR | {"other": "r99"}, {}, "other names 'r99', which is not a record label"),
        ("MP", PAIR | {"other": TARGET}, {}, "other='r30' is the target"),
        ("MP", KNOWS, {"evidence": "refit"}, "evidence='refit' is for an intruder who knows every"),
        (
            "MP",
            {k: v for k, v in PAIR.items() if k != "largest"},
            {"grid": {"w": br.Grid(percent=10), "v": br.Grid(percent=10)}},
            "asks about one record: give targets=",
        ),
        (
            "MP",
            KNOWS | {"knows_totals": {"w": 5}},
            {},
            r"knows_totals\['w'\]=5 is not what the data add up to; give that",
        ),
        ("MP", KNOWS | {"knows_totals": {"x": 5}}, {}, "knows_totals names column 'x'"),
        ("MM", KNOWS, {"release": without_groups}, "the release has no groups"),
        ("MM", KNOWS, {"release": moved}, "column 'w' of release 1 does not keep the confiden"),
        ("TCMM", KNOWS | {"groups": "inferred"}, {}, "not offered where a tail was collapsed"),
        (
            "MP",
            KNOWS,
            {"release": br.Release(datasets=[TABLE], synthesized=["w", "v"], records=LARGE)},
            "releases of which every record was replaced",
        ),
    ],
)
def test_what_cannot_be(kind, knows, how, message):
    made = {name: value() if callable(value) else value for name, value in how.items()}
    with pytest.raises(br.InputError, match=message):
        audit(kind, knows, **made)


@pytest.mark.filterwarnings("ignore::bayes_risk.TruncationWarning")
def test_a_model_that_offers_none_says_which_does():
    table = pd.DataFrame({"a": ["x", "y"] * 6, "b": ["u", "v", "w"] * 4})
    fit = br.models.DPMPM(n_classes=3).fit(table, 8, tune=8, chains=2, random_seed=1)
    release = fit.synthesize(m=1, random_seed=1)
    with pytest.raises(br.InputError, match="not offered by DPMPM; it is by PoissonMix"):
        intruder = br.Intruder(knows_records="all-but-two", other=1, knows_totals=True)
        br.attribute_risk(fit, release, intruder=intruder, targets=[0])
    with pytest.raises(br.InputError, match="largest='a' is a category and has no largest value"):
        encoded = EncodedRelease.of(release, fit.microdata)
        guessed(encoded, br.Intruder(**KNOWS | {"largest": "a"}))


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_a_binding_truncation_is_told_and_not_trusted():
    with pytest.warns(br.TruncationWarning, match="all .n_classes=2. classes"):
        fit = br.models.PoissonMixture(n_classes=2).fit(
            TABLE, draws=60, tune=100, chains=2, random_seed=1
        )
    release = fit.synthesize(m=1, random_seed=2)
    guesses = br.Grid(bounds=(300, 500), n=201)
    with pytest.warns(br.TruncationWarning, match="given the release.*far from all classes"):
        risk = br.attribute_risk(
            fit, release, intruder=br.Intruder(**KNOWS), guesses=guesses, random_seed=3
        )
    assert not risk.records["reliable"].any() and risk.ess.tolist() == [0.0]
