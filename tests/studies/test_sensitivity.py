"""Sensitivity: every cell is an audit of its own; other hyper-priors by weights or by a new fit."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from scipy import stats

import bayes_risk as br
from bayes_risk.models.fits.synthesis import power_scaled_gamma
from bayes_risk.models.mixture.dpmpm import DPMPMFit
from bayes_risk.models.regression.families import RegressionPrior, power_scaled_prior
from bayes_risk.models.regression.part import Coefficients
from bayes_risk.models.regression.posterior import (
    ExactPart,
    RegressionReweighting,
    inside,
    log_prior_of,
)
from bayes_risk.risk.attribute import EvidenceOptions, gathered
from tests.helpers.fits import encoded
from tests.oracles.kernel_twins import simulate

PRIORS = {"flat": "uniform", "margins": "marginal", "leaning": br.TruthFactor(4.0)}
DOUBT = ["ignore::bayes_risk.UnreliableWeightsWarning", "ignore::bayes_risk.TruncationWarning"]
quiet = pytest.mark.filterwarnings(*DOUBT)


def fitted(model, n=40, columns=None, m=2, **options):
    table = simulate(n, (4, 3, 2), n_classes=2, seed=6)
    length = {"draws": 60, "tune": 40, "chains": 2, "thin": 2} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = model.fit(table, random_seed=1, **length)
    return fit, fit.synthesize(m=m, columns=columns, random_seed=2)


@pytest.fixture(scope="module")
def mixture():
    return fitted(br.models.DPMPM(n_classes=3), splits=0, draws=120)


def mean_probability(risk):
    return risk.summary().loc["mean_probability", "value"]


def is_audit(found, fit, release, at, **how):
    """The mean probability of a setting is that of an audit of its own."""
    direct = br.attribute_risk(fit, release, **{"random_seed": 3, "refit_budget": 0} | how)
    assert float(found.dataset["mean_probability"].sel(at)) == mean_probability(direct)


# --- cells -------------------------------------------------------------------------------------


@quiet
def test_every_cell_is_the_audit_of_its_setting(mixture):
    fit, release = mixture
    found = br.sensitivity(
        fit,
        release,
        over={
            "prior": PRIORS,
            "guesses": [1, 2],
            "knows_columns": [[], ["x0"], ["x0", "x1"]],
            "evidence": ["predictive", "importance"],
        },
        one_at_a_time=False,
        targets=8,
        random_seed=3,
        refit_budget=0,
    )
    assert dict(found.dataset.sizes) == {
        "prior": 3, "guesses": 2, "knows_columns": 3, "evidence": 2
    }  # fmt: skip
    assert int(found.dataset["mean_probability"].notnull().sum()) == 36
    settings = [
        ("flat", 1, "none", "predictive"),
        ("leaning", 2, "x0", "predictive"),
        ("margins", 2, "x0 + x1", "predictive"),
        ("flat", 1, "x0", "importance"),
    ]
    for prior, distance, columns, evidence in settings:
        known = [] if columns == "none" else columns.split(" + ")
        direct = br.attribute_risk(
            fit,
            release,
            prior=PRIORS[prior],
            guesses=br.Neighbourhood(distance),
            intruder=br.Intruder(knows_columns=known),
            evidence=evidence,
            targets=8,
            random_seed=3,
            refit_budget=0,
        )
        there = found.dataset.sel(
            prior=prior, guesses=distance, knows_columns=columns, evidence=evidence
        )
        summary = direct.summary()
        assert float(there["mean_probability"]) == summary.loc["mean_probability", "value"]
        assert float(there["mcse"]) == summary.loc["mean_probability", "mcse"]
        assert float(there["max_probability"]) == summary.loc["max_probability", "value"]


@quiet
def test_doublings_and_refits_are_those_of_the_audit(mixture):
    fit, release = mixture
    options = {"random_seed": 3, "refit_budget": 2, "target_mcse": 0.05, "max_doublings": 1}
    options["targets"] = 8
    found = br.sensitivity(fit, release, over={"guesses": [1, 2]}, **options)
    for distance in (1, 2):
        how = options | {"guesses": br.Neighbourhood(distance)}
        is_audit(found, fit, release, {"guesses": distance}, **how)


@quiet
def test_one_factor_at_a_time_fills_a_cross_and_every_prior(mixture):
    fit, release = mixture
    over = {"prior": PRIORS, "m": [1, 2], "knows_columns": [[], ["x0"], ["x1"]]}
    cross = br.sensitivity(fit, release, over=over, random_seed=3, refit_budget=0)
    assert cross.base == {"prior": "flat", "m": 2, "knows_columns": "none"}
    assert len(cross.summary()) == 3 * (3 + 1)
    every = br.sensitivity(
        fit, release, over=over, one_at_a_time=False, random_seed=3, refit_budget=0
    )
    assert len(every.summary()) == 3 * 3 * 2
    done = cross.dataset["mean_probability"].notnull()
    same = every.dataset["mean_probability"].where(done)
    at_full_m = same.sel(m=2)
    assert np.array_equal(cross.dataset["mean_probability"].sel(m=2), at_full_m, equal_nan=True)


def line(n=15, **options):
    x = np.linspace(0.0, 3.0, n)
    y = 1.0 + x + 0.3 * np.sin(7.0 * x)
    model = br.models.Regression({"y": "1 + x"}, **options)
    fit = model.fit(pd.DataFrame({"x": x, "y": y}), draws=20, chains=2, random_seed=1)
    return fit, fit.synthesize(m=3, random_seed=2)


def test_fewer_data_sets_of_closed_form_evidence_are_their_own_audits():
    fit, release = line()
    grid = br.Grid(additive=1.0, n=7)
    found = br.sensitivity(fit, release, over={"m": [3, 1, 2]}, guesses=grid, random_seed=3)
    assert found.dataset["m"].to_numpy().tolist() == [1, 2, 3]
    for m in (1, 2, 3):
        few = br.Release(datasets=release.datasets[:m], synthesized=["y"])
        is_audit(found, fit, few, {"m": m}, guesses=grid)


@quiet
def test_fewer_data_sets_of_sampled_evidence_agree_within_their_error(mixture):
    fit, release = mixture
    found = br.sensitivity(fit, release, over={"m": [1, 2]}, random_seed=3, refit_budget=0)
    few = br.Release(datasets=release.datasets[:1], synthesized=release.synthesized)
    direct = br.attribute_risk(fit, few, random_seed=4, refit_budget=0).summary()
    there = found.dataset.sel(m=1)
    error = np.hypot(float(there["mcse"]), direct.loc["mean_probability", "mcse"])
    gap = float(there["mean_probability"]) - direct.loc["mean_probability", "value"]
    assert error > 0 and abs(gap) < 4 * error


@quiet
def test_what_the_intruder_takes_the_mechanism_to_be():
    fit, _ = fitted(br.models.DPMPM(n_classes=3))
    release = fit.synthesize(m=1, classes="own", random_seed=2)
    found = br.sensitivity(
        fit, release, over={"classes": ["new", "own"]}, random_seed=3, refit_budget=0
    )
    assert found.base == {"classes": "own"}
    for classes in ("new", "own"):
        is_audit(found, fit, replace(release, classes=classes), {"classes": classes})


@quiet
def test_knowledge_of_records_is_a_curve_of_audits(mixture):
    fit, release = mixture
    one = br.Release(datasets=release.datasets[:1], synthesized=release.synthesized)
    over = {"knows_records": ["all-but-target", "none", 0.5], "prior": ["uniform", "predictive"]}
    found = br.sensitivity(fit, one, over=over, random_seed=3, refit_budget=0)
    assert found.dataset["knows_records"].to_numpy().tolist() == [0.0, 0.5, 1.0]
    assert found.base == {"knows_records": 1.0, "prior": "uniform"}
    for share, known in ((0.0, "none"), (0.5, 0.5)):
        for prior in over["prior"]:
            how = {"prior": prior, "intruder": br.Intruder(knows_records=known)}
            is_audit(found, fit, one, {"knows_records": share, "prior": prior}, **how)


@quiet
def test_fits_are_sampled_once(mixture, monkeypatch):
    fit, release = mixture
    counted, augmented = [], DPMPMFit.augmented
    monkeypatch.setattr(
        DPMPMFit,
        "augmented",
        lambda fit, *given, **how: counted.append(given) or augmented(fit, *given, **how),
    )
    over = {"guesses": [1, 2], "knows_columns": [[], ["x0"]], "m": [1, 2], "prior": PRIORS}
    br.sensitivity(fit, release, over=over, one_at_a_time=False, random_seed=3, refit_budget=0)
    assert len(counted) == release.m


# --- other hyper-priors ------------------------------------------------------------------------


def test_with_one_class_weights_give_the_closed_form_of_the_other_prior():
    """Level probabilities are integrated out, so that one class knows nothing but its counts."""
    fit, release = fitted(br.models.DPMPM(n_classes=1), tune=0, thin=1)
    other = br.models.DPMPM(n_classes=1, level_prior=2.5)
    kept = gathered(fit, release, EvidenceOptions(random_seed=3), under=fit.under(other))
    again, _ = fitted(other, tune=0, thin=1)
    direct = gathered(again, release, EvidenceOptions(random_seed=3))
    assert np.allclose(kept.found.log_evidence, direct.found.log_evidence, atol=1e-8)
    assert not np.allclose(
        kept.found.log_evidence,
        gathered(fit, release, EvidenceOptions(random_seed=3)).found.log_evidence,
        atol=1e-3,
    )


@quiet
@pytest.mark.parametrize("columns", [None, ["x0", "x1"]], ids=["all", "some"])
@pytest.mark.parametrize(
    "changed", [{"level_prior": 1.8}, {"concentration_prior": (1.0, 0.5)}], ids=["level", "alpha"]
)
@pytest.mark.slow
def test_reweighted_evidence_agrees_with_that_of_a_new_fit(columns, changed):
    length = {"draws": 1000, "tune": 200, "chains": 2, "thin": 2}
    fit, release = fitted(br.models.DPMPM(n_classes=3), columns=columns, m=1, **length)
    other = br.models.DPMPM(n_classes=3, **changed)
    how = {"random_seed": 3, "refit_budget": 0}
    ours = gathered(fit, release, EvidenceOptions(**how), under=fit.under(other)).found
    again, _ = fitted(other, columns=columns, **length)
    theirs = gathered(again, release, EvidenceOptions(**how)).found
    gap = (ours.log_evidence - theirs.log_evidence).sum(axis=0)
    z = (gap / np.maximum(np.hypot(ours.mcse(), theirs.mcse()), 1e-9))[1:]
    assert np.sqrt((z**2).mean()) < 2.0 and np.abs(z).max() < 6.0
    plain = gathered(fit, release, EvidenceOptions(**how)).found
    moved = np.abs(plain.log_evidence - theirs.log_evidence).mean()
    assert np.abs(gap).mean() < moved or "concentration_prior" in changed


@quiet
def test_hyper_priors_are_refitted_where_the_weights_fail(mixture):
    fit, release = mixture
    found = br.sensitivity(
        fit,
        release,
        over={"hyper": {"level_prior": [1.05, 60.0]}},
        random_seed=3,
        refit_budget=0,
    )
    assert found.base == {"hyper level_prior": 1.0}
    near = found.dataset.sel({"hyper level_prior": 1.05})
    far = found.dataset.sel({"hyper level_prior": 60.0})
    assert near["hyper_refitted"] == 0 and far["hyper_refitted"] == 1
    assert float(far["hyper_khat"]) > 0.7 or float(far["hyper_khat"]) > float(near["hyper_khat"])
    base = {"hyper level_prior": 1.0}
    is_audit(found, fit, release, base)
    assert np.isnan(float(found.dataset.sel(base)["hyper_khat"]))


@quiet
def test_a_refit_is_the_audit_of_that_fit(mixture):
    _, release = mixture
    table = simulate(40, (4, 3, 2), n_classes=2, seed=6)

    def refit(model):
        return model.fit(table, draws=30, tune=10, chains=2, thin=1, random_seed=5)

    found = br.sensitivity(
        mixture[0],
        release,
        over={"hyper": {"level_prior": [2.0]}},
        reweight=False,
        refit=refit,
        random_seed=3,
        refit_budget=0,
    )
    anew = refit(br.models.DPMPM(n_classes=3, level_prior=2.0))
    is_audit(found, anew, release, {"hyper level_prior": 2.0})


@quiet
def test_a_fit_is_repeated_with_its_own_length_and_moves(mixture):
    _, release = mixture
    table = simulate(40, (4, 3, 2), n_classes=2, seed=6)
    length = {"draws": 20, "tune": 20, "chains": 2, "thin": 3, "splits": 2}
    fit = br.models.DPMPM(n_classes=3).fit(table, random_seed=4, **length)
    other = br.models.DPMPM(n_classes=3, level_prior=2.0)
    how = {"over": {"hyper": {"level_prior": [2.0]}}, "reweight": False, "refit_budget": 0}
    refits = [None, lambda model: model.fit(table, random_seed=5, **length)]
    found = [br.sensitivity(fit, release, random_seed=5, refit=r, **how) for r in refits]
    own, asked = (f.dataset["mean_probability"].sel({"hyper level_prior": 2.0}) for f in found)
    assert float(own) == float(asked)
    plain = other.fit(table, random_seed=5, draws=20, tune=20, chains=2)
    direct = br.attribute_risk(plain, release, random_seed=5, refit_budget=0)
    assert float(own) != mean_probability(direct)


def test_exact_regressions_are_fitted_anew_under_any_prior():
    fit, release = line()
    grid = br.Grid(additive=1.0, n=7)
    tight = RegressionPrior(slopes=0.1)
    found = br.sensitivity(
        fit, release, over={"hyper": {"prior": {"tight": tight}}}, guesses=grid, random_seed=3
    )
    again, _ = line(prior=tight)
    is_audit(found, again, release, {"hyper prior": "tight"}, guesses=grid)
    there = found.dataset.sel({"hyper prior": "tight"})
    assert there["hyper_refitted"] == 1 and np.isnan(float(there["hyper_khat"]))


def test_the_intruders_prior_and_that_of_a_regression_have_bases_of_their_own():
    fit, release = line()
    over = {
        "prior": ["uniform", br.TruthFactor(3.0)],
        "hyper": {"prior": {"flat": br.models.RegressionPrior.reference()}},
    }
    how = {"guesses": br.Grid(additive=1.0, n=5), "random_seed": 3}
    found = br.sensitivity(fit, release, over=over, base={"prior": "uniform"}, **how)
    assert found.base == {"prior": "uniform", "hyper prior": "as fitted"}
    found = br.sensitivity(fit, release, over=over, base={"hyper prior": "flat"}, **how)
    assert found.base == {"prior": "uniform", "hyper prior": "flat"}


def test_settings_are_counted_as_they_are_done():
    fit, release = line()
    told = []
    br.sensitivity(
        fit,
        release,
        over={"m": [1, 2, 3], "prior": ["uniform", br.TruthFactor(3.0)]},
        guesses=br.Grid(additive=1.0, n=5),
        random_seed=3,
        progress=lambda *given: told.append(given),
    )
    assert [t for t in told if t[0] == "settings"] == [("settings", 0, 3), ("settings", 3, 3)]


def test_exact_parts_are_drawn_again_and_carry_no_weight():
    fit, release = line()
    other = br.models.Regression({"y": "1 + x"}, prior=RegressionPrior(slopes=0.5))
    under = fit.under(other)
    assert isinstance(under, RegressionReweighting)
    grid = br.Grid(additive=1.0, n=7)
    kept = gathered(fit, release, EvidenceOptions(guesses=grid, random_seed=3))
    posterior = fit.informed(encoded(fit, release))
    (found,) = under.predictives(posterior, kept.cases, rng=np.random.default_rng(0))
    assert (found[1] == 0).all()
    begun = under.started(posterior).parts[0]
    assert isinstance(begun, ExactPart) and begun.part.prior.slopes == 0.5


def test_what_differs_in_more_than_hyper_parameters_is_fitted_anew(mixture):
    fit, _ = mixture
    assert fit.under(br.models.DPMPM(n_classes=3, level_prior=2.0)) is not None
    assert fit.under(br.models.DPMPM(n_classes=4)) is None


# --- densities ---------------------------------------------------------------------------------


def test_log_prior_of_draws_is_that_of_the_sampled_scale():
    fit, _ = line()
    held = fit.posterior.parts[0]
    part, rng = held.part, np.random.default_rng(0)
    beta, nu, sigma = rng.normal(size=(5, 2)), rng.gamma(2.0, 5.0, 5), rng.gamma(2.0, 1.0, 5)
    outside, extra = part.scaling.outside(beta.copy(), {"sigma": sigma.copy(), "nu": nu})
    draws = Coefficients(beta=outside, extra=extra, n_chains=1)
    back, known = inside(part, draws)
    assert np.allclose(back, beta) and np.allclose(known["sigma"], sigma)
    expected = (
        stats.norm.logpdf(beta, 0.0, part.scales()).sum(axis=1)
        + stats.halfnorm.logpdf(sigma, scale=part.prior.sigma)
        + stats.gamma.logpdf(nu, part.prior.nu[0], scale=1 / part.prior.nu[1])
    )
    assert np.allclose(log_prior_of(part, draws), expected)


@pytest.mark.parametrize("power", [0.8, 1.0, 1.2])
def test_power_scaled_densities_are_the_densities_to_that_power(power):
    x = np.linspace(0.1, 3.0, 7)

    def shape_of(log_density):
        return log_density - log_density[0]

    a, rate = power_scaled_gamma("x", (1.5, 0.7), power)
    raised = stats.gamma.logpdf(x, a, scale=1 / rate)
    assert np.allclose(
        shape_of(raised), power * shape_of(stats.gamma.logpdf(x, 1.5, scale=1 / 0.7))
    )
    prior = RegressionPrior(sigma2=(2.0, 1.5))
    new = power_scaled_prior(prior, power)
    for one, other in (
        (stats.norm(0, prior.slopes), stats.norm(0, new.slopes)),
        (stats.halfnorm(scale=prior.sigma), stats.halfnorm(scale=new.sigma)),
        (stats.invgamma(2.0, scale=1.5), stats.invgamma(new.sigma2[0], scale=new.sigma2[1])),
    ):
        assert np.allclose(shape_of(other.logpdf(x)), power * shape_of(one.logpdf(x)))


# --- the result --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swept(mixture):
    fit, release = mixture
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return br.sensitivity(
            fit,
            release,
            over={"prior": PRIORS, "m": [1, 2], "guesses": {"near": br.Neighbourhood(1)}},
            random_seed=3,
            refit_budget=0,
        )


def test_tornado_is_the_range_of_each_factor_around_the_base(swept):
    table = swept.tornado()
    values = swept.dataset["mean_probability"]
    prior = values.sel(m=2, guesses="near")
    assert table.loc["prior", "low"] == float(prior.min())
    assert table.loc["prior", "high"] == float(prior.max())
    assert table.loc["prior", "at_high"] == "leaning"
    assert table["base"].unique().tolist() == [float(prior.sel(prior="flat"))]
    assert (table["range"].diff().dropna() <= 0).all()
    assert table.loc["guesses", "range"] == 0


def test_worst_is_the_largest(swept):
    worst = swept.worst()
    assert worst["prior"] == "leaning"
    assert worst["mean_probability"] == float(swept.dataset["mean_probability"].max())
    assert worst["baseline"] == pytest.approx(4 / (4 + 6))
    assert set(swept.worst("mean_rank")) == {"prior", "m", "guesses", "mean_rank"}


def test_it_tells_what_it_is(swept):
    said = repr(swept)
    assert "3 of prior, 2 of m, 1 of guesses" in said and "prior = flat" in said


def test_dataset_goes_to_a_file_and_back(swept, tmp_path):
    swept.dataset.to_netcdf(tmp_path / "sensitivity.nc")
    import xarray as xr

    with xr.open_dataset(tmp_path / "sensitivity.nc") as back:
        assert back["mean_probability"].equals(swept.dataset["mean_probability"])


@pytest.mark.parametrize(
    ("factor", "measure"),
    [("prior", "mean_rank"), *((f, "mean_probability") for f in (None, "prior", "m", "guesses"))],
)
def test_pictures(swept, factor, measure):
    axes = swept.plot(factor, measure=measure)
    assert isinstance(axes, Axes) and axes.get_xlabel() and axes.get_legend() is not None
    axes.figure.canvas.draw()


def test_tornado_shows_the_ends_of_its_table(swept):
    axes = swept.plot()
    table = swept.tornado()
    ends = sorted(bar.get_x() + bar.get_width() for bar in axes.patches)
    assert np.isclose(ends[-1], table["high"].max()) and np.isclose(ends[0], table["low"].min())


@pytest.mark.parametrize(
    ("over", "base", "message"),
    [
        ({}, None, "over is empty"),
        ({"priors": ["uniform"]}, None, "over='priors' is not known"),
        ({"prior": []}, None, "over\\['prior'\\]=\\[\\]; give"),
        ({"m": [3]}, None, "m'\\]=3 is more than the release has; give at most 2"),
        ({"m": [1, 1]}, None, "names a value twice"),
        ({"classes": ["old"]}, None, "over\\['classes'\\]='old'"),
        ({"intruder": [1]}, None, "not an Intruder"),
        ({"hyper": ["level_prior"]}, None, "give a dict of hyper-parameter"),
        ({"hyper": {"levels": [1]}}, None, "'levels', which DPMPM does not have"),
        ({"m": [1, 2]}, {"m": 5}, "'m' has no value 5"),
        ({"m": [1, 2]}, {"prior": "flat"}, "base names 'prior'"),
        (
            {"intruder": {"a": br.Intruder()}, "knows_columns": [[]]},
            None,
            "whole intruders, or knows_records",
        ),
    ],
    ids=str,
)
def test_settings_that_cannot_be(mixture, over, base, message):
    with pytest.raises(br.InputError, match=message):
        br.sensitivity(*mixture, over=over, base=base)


def test_options_that_cannot_be(mixture):
    with pytest.raises(br.InputError, match="stands in over and beside it"):
        br.sensitivity(*mixture, over={"prior": ["uniform"]}, prior="uniform")
    with pytest.raises(br.InputError, match="colour= is not known"):
        br.sensitivity(*mixture, over={"m": [1]}, colour="red")
    with pytest.raises(br.InputError, match="not offered by DPMPM"):
        br.sensitivity(*mixture, over={"evidence": ["exact"]})


def test_results_do_not_have_what_was_not_swept(swept):
    with pytest.raises(br.InputError, match="factor='colour' was not varied"):
        swept.plot("colour")
    with pytest.raises(br.InputError, match="measure='colour'"):
        swept.tornado("colour")


@quiet
@pytest.mark.slow
def test_sampled_regressions_are_reweighted_as_a_new_fit_would_have_it():
    """A Poisson regression by NUTS: slopes believed to be half as large."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    table = pd.DataFrame({"x": x, "w": rng.poisson(np.exp(0.5 + 0.5 * x))})

    def fit_of(slopes, seed):
        prior = RegressionPrior(slopes=slopes)
        model = br.models.Regression({"w": "1 + x"}, {"w": "poisson"}, prior=prior)
        return model.fit(table, draws=400, tune=300, chains=2, random_seed=seed)

    fit, again = fit_of(0.6, 1), fit_of(0.3, 5)
    release = fit.synthesize(m=1, random_seed=2)
    how = {"guesses": br.Grid(bounds=(0, 9), n=10, truth="add"), "random_seed": 3}
    how |= {"refit_budget": 0}
    ours = gathered(fit, release, EvidenceOptions(**how), under=fit.under(again.model)).found
    theirs = gathered(again, release, EvidenceOptions(**how)).found
    assert (ours.khat < 0.7).mean() > 0.8
    gap = (ours.log_evidence - theirs.log_evidence).sum(axis=0)
    spread = np.hypot(ours.mcse(), theirs.mcse())
    z = gap[spread > 0] / spread[spread > 0]
    assert np.sqrt((z**2).mean()) < 2.0
