"""Evidence of several releases, added: enumeration, closed form, limits, calibration, refusals."""

import tracemalloc
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import chi2

import bayes_risk as br
from bayes_risk._core.batches import in_batches, variance_by_fit
from bayes_risk.data.variables import Number
from bayes_risk.evidence.modes import Modes
from bayes_risk.models import DPMPM, Marginals
from bayes_risk.risk.aligned import _value_hash
from bayes_risk.risk.join import joined_evidence
from bayes_risk.risk.published import _digest
from tests.oracles import three_records as three
from tests.oracles.regression_oracle import Normal, log_evidence

LEVELS = ["x", "y", "z"]


def table(values, levels=LEVELS, **more):
    return pd.DataFrame({"a": pd.Categorical(list(values), levels)} | more)


def released(*tables, maker="one", **how):
    return br.Release(datasets=[*tables], synthesized=["a"], maker=maker, **how)


def gathered(fit, release, **how):
    return br.attribute_evidence(fit, release, **{"random_seed": 1, **how})


def log_p(prior, tables, values, levels=LEVELS):
    """log p(Z | y) of one column, its tables from one share: Dirichlet-multinomial."""
    a = np.array([prior + list(values).count(v) for v in levels])
    z = np.array([sum(list(t).count(v) for t in tables) for v in levels])
    return (gammaln(a + z) - gammaln(a)).sum() + gammaln(a.sum()) - gammaln((a + z).sum())


def by_value(risk, i):
    return risk.posterior(i).set_index("a")["probability"]


def test_all_releases_of_two_mechanisms_by_enumeration():
    """Every pair of releases: Bayes' rule by hand; summed over them, the posterior is the prior."""
    levels, y = ["x", "y"], "xxy"
    fits = {p: Marginals(p).fit(table(y, levels)) for p in (0.7, 3.0)}
    files = ["".join(z) for z in product(levels, repeat=3)]
    evidence = {
        (p, z): gathered(fit, released(table(z, levels), maker=str(p)), targets=[0])
        for p, fit in fits.items()
        for z in files
    }
    total = {v: 0.0 for v in levels}
    mass = 0.0
    prior = {"x": 0.3, "y": 0.7}
    weights = [prior["x"], prior["y"]]  # of guesses: the truth first
    for one, two in product(files, files):
        risk = br.join([evidence[0.7, one], evidence[3.0, two]], prior=weights)
        logs = {
            v: np.log(prior[v])
            + sum(log_p(p, [z], v + y[1:], levels) for p, z in ((0.7, one), (3.0, two)))
            for v in levels
        }
        joint = np.exp([logs[v] for v in levels])
        found = by_value(risk, 0)
        np.testing.assert_allclose(found.loc[levels], joint / joint.sum(), rtol=1e-9)
        mass += joint.sum()
        for v in levels:
            total[v] += joint.sum() * found[v]
    # p(Z | y) is that of the counts in some order: its sum over all files is one
    assert abs(mass - 1) < 1e-12
    np.testing.assert_allclose([total[v] for v in levels], [prior[v] for v in levels], rtol=1e-9)


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(4)
    df = pd.DataFrame({"a": rng.choice(LEVELS, 40), "b": rng.choice(["u", "v"], 40)})
    fits = Marginals(0.7).fit(df), Marginals(2.0).fit(df)
    releases = fits[0].synthesize(2, random_seed=1), fits[1].synthesize(3, random_seed=2)
    return [
        gathered(f, z, random_seed=k) for k, (f, z) in enumerate(zip(fits, releases, strict=True))
    ]


def test_two_fits_in_closed_form(pair):
    """The joined posterior is that of Dirichlet-multinomial sums over both releases."""
    risk, df = br.join(pair, prior="uniform"), pair[0].microdata.decode(pair[0].microdata.codes)
    for i in (0, 7, 39):
        found = risk.posterior(i)
        logs = []
        for a, b in zip(found["a"], found["b"], strict=True):
            total = 0.0
            for prior, one in zip((0.7, 2.0), pair, strict=True):
                for column, value in (("a", a), ("b", b)):
                    values = df[column].to_list()
                    values[i] = value
                    of = sorted(set(df[column]))
                    total += sum(
                        log_p(prior, [list(z[column])], values, of) for z in one.release.datasets
                    )
            logs.append(total)
        exact = np.exp(np.array(logs) - logsumexp(logs))
        np.testing.assert_allclose(found["probability"], exact, rtol=1e-9)
    assert risk.is_exact and len(risk.log_evidence) == 5


def test_two_regressions_in_closed_form():
    """Normal regressions of two designs: log marginals of both, added."""
    df = pd.DataFrame({"x": list("uvuvuv"), "pay": [1.0, 1.4, 3.2, 2.5, 0.7, 2.9]})
    designs = {
        "1 + C(x)": lambda c: np.column_stack([np.ones(len(c["x"])), c["x"] == "v"]),
        "1": lambda c: np.ones((len(c["pay"]), 1)),
    }
    each = []
    for k, formula in enumerate(designs):
        fit = br.models.Regression({"pay": formula}).fit(df, draws=20, random_seed=1)
        grid = br.Grid(percent=10, n=5)
        each.append(gathered(fit, fit.synthesize(2, random_seed=k), guesses=grid))
    risk = br.join(each, prior="uniform")
    for i in (0, 3):
        found, logs = risk.posterior(i), 0.0
        for design, one in zip(designs.values(), each, strict=True):
            files = one.release.datasets
            of = [
                log_evidence([Normal("pay", design)], df, files, i, {"pay": v})
                for v in found["pay"]
            ]
            logs = logs + np.array(of)
        exact = np.exp(logs - logsumexp(logs))
        np.testing.assert_allclose(found["probability"], exact, rtol=1e-9)
    assert risk.is_exact


def test_a_mixture_and_margins_within_the_error():
    """Sampled evidence and exact evidence: both by brute force over labels and in closed form."""
    with pytest.warns(br.TruncationWarning):
        mixture = three.fitted()
    how, w = {"guesses": br.Neighbourhood(2)}, three.Z2
    one = gathered(mixture, three.released([three.Z1], maker="mixture"), **how)
    margins = Marginals(1.0).fit(three.table(three.Y))
    two = gathered(margins, three.released([w], maker="margins"), **how)
    for evidence in ([one, two], [two, one]):
        risk = br.join(evidence, prior="uniform", warn=False)
        for i in range(3):
            logs = {}
            for g in three.CELLS:
                own = three.Y.copy()
                own[i] = g
                of_margins = sum(log_p(1.0, [w[:, j]], own[:, j], [0, 1]) for j in range(2))
                logs[g] = three.log_evidence([three.Z1], i, g) + of_margins
            exact = np.exp(logs[tuple(three.Y[i])] - logsumexp([*logs.values()]))
            row = risk.records.loc[i]
            assert row["mcse"] > 0
            assert abs(row["probability"] - exact) < 4 * row["mcse"] + 1e-9


@pytest.mark.check
def test_memory_grows_by_less_than_800_bytes_a_record():
    """Three releases, ten guesses a record, two priors; a million: 0.8 GB beside the evidence."""

    def peak(n):
        rows = np.arange(n)
        df = pd.DataFrame({"a": rows % 10, "k": rows // 1600, "l": rows // 40 % 40, "o": rows % 40})
        fit = Marginals().fit(df.astype(str))
        one = gathered(fit, fit.synthesize(1, ["a"], random_seed=1))
        each = [replace(one, release=replace(one.release, maker=str(k))) for k in range(3)]
        tracemalloc.start()
        try:
            risk = br.join(each)
            assert [risk.log_prior.shape, *risk.priors] == [(10, n), "predictive"]
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert (peak(12_000) - peak(4_000)) / 8_000 < 800


def test_a_null_release_adds_nothing(pair):
    df = pair[0].microdata.decode(pair[0].microdata.codes)
    null = Marginals(1e9).fit(df)
    nothing = gathered(null, null.synthesize(3, random_seed=9))
    alone, both = (
        br.join(e, prior="uniform").records["probability"] for e in (pair[:1], [pair[0], nothing])
    )
    np.testing.assert_allclose(alone, both, rtol=1e-6)


def test_order_changes_nothing(pair):
    three = [*pair, gathered(*second(pair[0], 5))]
    records = [
        br.join([three[k] for k in order], prior="marginal").records
        for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0])
    ]
    for other in records[1:]:
        pd.testing.assert_frame_equal(records[0], other, rtol=1e-10)


def second(one, seed, prior=0.4):
    """Another fit of the same table, and its release."""
    fit = Marginals(prior).fit(one.microdata.decode(one.microdata.codes))
    return fit, fit.synthesize(1, random_seed=seed)


@pytest.mark.parametrize("prior", [None, "uniform", br.TruthFactor(3.0)])
def test_of_one_it_is_its_own_risk(pair, prior):
    own, joint = pair[0].risk(prior), br.join(pair[:1], prior=prior)
    assert own.dataset.identical(joint.dataset)
    assert own.dataset.to_netcdf() == joint.dataset.to_netcdf()


def test_the_predictive_prior_is_that_of_the_last_model(pair):
    risk = br.join(pair)
    last = pair[1].risk()
    np.testing.assert_allclose(
        risk.priors["predictive"].log_prior, last.priors["predictive"].log_prior
    )
    by_hand = br.join(pair, prior="predictive")
    assert by_hand.records["probability"].equals(risk.priors["predictive"].records["probability"])


def calibration(tables, seed):
    """Sums, over tables whose target is drawn from the prior, of scores with mean 0; and sd."""
    rng, levels = np.random.default_rng(seed), list("wxyz")
    scores, variances = [], []
    for k in range(tables):
        values = rng.choice(levels, 12, p=[0.1, 0.2, 0.3, 0.4])
        prior = np.array([0.4, 0.3, 0.2, 0.1])
        values[0] = rng.choice(levels, p=prior)
        df = table(values, levels)
        each = []
        for level_prior, m in ((0.3, 3), (1.0, 2)):
            fit = Marginals(level_prior).fit(df)
            release = fit.synthesize(m, random_seed=int(rng.integers(2**31)))
            release = replace(release, maker=f"{level_prior} {k}")
            each.append(gathered(fit, release, targets=[0]))
        believed = dict(zip(levels, prior, strict=True))
        risk = br.join(each, prior=lambda g, b=believed: np.array([b[v] for v in g["a"]]))
        found = risk.posterior(0)
        p, truth = found["probability"].to_numpy(), found["is_truth"].to_numpy()
        scores.append(((truth - p) * p).sum())
        variances.append((p**3).sum() - (p**2).sum() ** 2)
    return np.sum(scores), np.sqrt(np.sum(variances))


@pytest.mark.check
def test_joined_posteriors_are_calibrated():
    """300 tables: the truth is each guess as often as the posteriors say."""
    score, sd = calibration(300, seed=11)
    assert abs(score) < 4 * sd
    assert sd > 0.5  # posteriors that say something


def differ_as_stated(runs):
    """Probabilities and errors of 16 audits with other seeds, shape (16, ..., 2)."""
    p, mcse = np.moveaxis(np.array(runs), -1, 0)
    z2 = ((p - p.mean(axis=0)) ** 2).sum(axis=0) / (mcse**2).mean(axis=0)
    low, high = chi2.ppf([1e-5, 1 - 1e-5], 15)
    # errors of few chains are wider by Student's factor, so that z may be smaller
    assert (z2 < high).all(), z2
    assert (z2 > low / 9).all(), z2


@pytest.mark.slow
def test_stated_errors_are_those_of_repetition():
    """Audits of both releases with other seeds differ as the stated errors say."""
    rng = np.random.default_rng(2)
    df = pd.DataFrame({c: rng.choice(list("pqr"), 50) for c in "abc"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DPMPM(n_classes=3)
        fits = [model.fit(df, draws=150, tune=100, chains=c, random_seed=c) for c in (2, 4)]
        releases = [fit.synthesize(1, random_seed=3) for fit in fits]
        found = []
        for seed in range(16):
            each = [
                gathered(f, z, random_seed=seed, targets=[0, 1, 2, 3])
                for f, z in zip(fits, releases, strict=True)
            ]
            found.append(br.join(each, prior="uniform", warn=False).records)
    differ_as_stated([one[["probability", "mcse"]].to_numpy() for one in found])


@pytest.mark.parametrize(("own", "B"), [(8, 4), (10, 4), (8, 2), (16, 6), (3, 2)])
def test_fewer_batches_keep_the_variance(own, B):
    rng, n = np.random.default_rng(1), 40_000
    x = rng.normal(size=(1, own, 1, n)).astype(np.float32)
    x -= x.mean(axis=1, keepdims=True)
    whole, part = (variance_by_fit(v.astype(float))[0, 0] for v in (x, in_batches(x, B)))
    halves = lambda v: v.var(axis=0, ddof=1) / len(v)  # noqa: E731 - of iid batches
    error = np.hypot(whole.std(), part.std()) / np.sqrt(n)
    assert abs(halves(in_batches(x, B)[0, :, 0]).mean() - 1 / own) < 5 * error + 2e-3 / own
    assert part.mean() >= 1 / own - 5 * error


def test_guesses_are_aligned_by_value(pair):
    """Another order of levels, another list of guesses: the same posterior where both have them."""
    df = pair[0].microdata.decode(pair[0].microdata.codes)
    turned = df.assign(a=pd.Categorical(df["a"], LEVELS[::-1]), b=df["b"].astype("category"))
    fit = Marginals(2.0).fit(turned[["b", "a"]])
    release = br.Release(
        datasets=[z[["b", "a"]] for z in pair[1].release.datasets], synthesized=["b", "a"]
    )
    all_pairs = {"a": "levels", "b": "levels"}
    same, wider = (gathered(fit, release, guesses=g) for g in (None, br.JointGrid(all_pairs)))
    expected = br.join(pair, prior="uniform")
    for last in (same, wider):
        for order in ([pair[0], last], [last, pair[0]]):
            found = br.join(order, prior="uniform")
            np.testing.assert_allclose(
                found.records["probability"], expected.records["probability"], rtol=1e-9
            )
    said = br.join([pair[0], wider], prior="uniform").assumptions["guesses"]
    assert "of 6.0 guesses a record, 2.0 are not in every release's evidence" in said


def test_records_that_one_lacks_are_said(pair):
    fit, release = second(pair[0], 6)
    some = gathered(fit, release, targets=[3, 1, 8])
    risk = br.join([some, pair[1]], prior="uniform")
    assert risk.index.to_list() == [1, 3, 8]
    assert "37 records that are not in all of it are left out" in risk.assumptions["guesses"]
    assert risk.sample == (40, False)
    whole = br.join([gathered(fit, release), pair[1]], prior="uniform").records.loc[[1, 3, 8]]
    pd.testing.assert_frame_equal(risk.records, whole, rtol=1e-12)


def test_waves_of_other_tables(pair):
    """People of two years: by label; whose value changed is left out."""
    df = pair[0].microdata.decode(pair[0].microdata.codes)
    later = df.copy()
    later.loc[5, "a"] = next(v for v in LEVELS if v != df.loc[5, "a"])
    later = later.drop(index=[0, 1])
    fit = Marginals(1.5).fit(later)
    last = gathered(fit, fit.synthesize(2, random_seed=8))
    risk = br.join([pair[0], last], prior="uniform", same_table=False)
    assert risk.index.to_list() == [i for i in df.index if i not in (0, 1, 5)]
    logs = pair[0].risk("uniform").posterior(9).set_index(["a", "b"])["log_evidence"]
    logs = logs + last.risk("uniform").posterior(9).set_index(["a", "b"])["log_evidence"]
    found = risk.posterior(9).set_index(["a", "b"])["log_evidence"]
    np.testing.assert_allclose(found.loc[logs.index], logs, atol=1e-9)
    with pytest.raises(br.InputError, match="their records have other labels; .*same_table=False"):
        br.join([pair[0], last])


def test_modes_left_open_are_spanned(pair):
    """Two modes of one release and one of another: two joint modes, each by hand."""
    one, two = pair
    shift = np.zeros_like(one.found.log_evidence)
    shift[0, 1:] = 0.5
    apart = (one.found, replace(one.found, log_evidence=one.found.log_evidence + shift))
    modes = Modes.__new__(Modes)
    object.__setattr__(modes, "mode", np.zeros(2))
    open_ = replace(one, found=replace(one.found, apart=apart))
    risk = br.join([open_, two], prior="uniform", warn=False)
    by_hand = [
        br.join([replace(one, found=f), two], prior="uniform", warn=False).records["probability"]
        for f in apart
    ]
    np.testing.assert_allclose(risk.by_mode[:, risk.case], by_hand)
    assert (risk.interval[0] <= risk.by_mode.min(axis=0)).all()


def test_many_priors_of_joined_evidence(pair):
    both = joined_evidence(pair)
    assert "joined" in repr(both)
    assert both.compare({"a": "uniform", "b": "marginal"}).notna().all(axis=None)
    with pytest.raises(br.InputError, match="does not come release by release"):
        both.first(1)
    with pytest.raises(br.InputError, match="needs one release"):
        both.risk("release")
    assert both.balance() is None


# --- what is refused -----------------------------------------------------------------------------


def test_what_is_no_list_of_evidence(pair):
    for given in (pair[0], "2024.nc", 3):
        with pytest.raises(br.InputError, match="is not a list"):
            br.join(given)
    for given in ([], {}):
        with pytest.raises(br.InputError, match="is empty"):
            br.join(given)
    with pytest.raises(br.InputError, match="number 2 of evidence is a AttributeRisk; give what"):
        br.join([pair[0], pair[1].risk("uniform")])


def test_the_same_files_twice(pair):
    df = pair[0].microdata.decode(pair[0].microdata.codes)
    again = br.Release(datasets=pair[0].release.datasets[1:], synthesized=["a", "b"])
    other = gathered(Marginals(9.0).fit(df), again)
    with pytest.raises(br.InputError, match="data set 1 of evidence 2 is data set 2 of evidence 1"):
        br.join([pair[0], other])
    mixed = [z.sample(frac=1, random_state=1) for z in again.datasets]
    other = gathered(Marginals(9.0).fit(df), replace(again, datasets=mixed))
    with pytest.raises(br.InputError, match="it adds nothing; leave it out"):
        br.join([other, pair[0]])
    with pytest.raises(br.InputError, match="adds nothing"):
        br.join([pair[0], pair[0]])
    numbers = np.random.default_rng(1).normal(size=9)  # in a file of four bytes a number
    two = (
        _value_hash(Number("y", False, np.dtype(float)), x)
        for x in (numbers, numbers.astype(np.float32))
    )
    np.testing.assert_array_equal(*two)
    # other files, of which single precision leaves one number
    far = (
        _value_hash(Number("y", False, np.dtype(float)), 1e12 + sign * numbers) for sign in (1, -1)
    )
    assert not set(next(far)) & set(next(far))


def test_another_table(pair):
    df = pair[0].microdata.decode(pair[0].microdata.codes)
    df.loc[3, "b"] = "u" if df.loc[3, "b"] == "v" else "v"
    other = gathered(*second(replace(pair[0], microdata=br.Microdata.from_frame(df)), 5))
    with pytest.raises(
        br.InputError, match=r"another table than evidence 2: column 'b' differs in 1 of 40"
    ):
        br.join([pair[0], other])


def test_other_records(pair):
    df = pair[0].microdata.decode(pair[0].microdata.codes)
    named = df.set_axis([f"P{k}" for k in range(40)])
    fit = Marginals().fit(named)
    other = gathered(fit, fit.synthesize(1, random_seed=1))
    with pytest.raises(br.InputError, match="no record label in common"):
        br.join([pair[0], other], same_table=False)
    fit, release = second(pair[0], 7)
    some = gathered(fit, release, targets=[1]), gathered(*second(pair[0], 8), targets=[2])
    with pytest.raises(br.InputError, match="no record label in common"):
        br.join(some)


def test_other_columns(pair):
    fit, release = second(pair[0], 5)
    for intruder in (br.Intruder(knows_columns=["b"]),):
        other = gathered(fit, release, intruder=intruder)
        with pytest.raises(
            br.InputError,
            match="evidence 1 guesses a, b, and evidence 2 guesses a; .*knows_columns",
        ):
            br.join([pair[0], other])


def test_other_intruders(pair):
    fit, release = second(pair[0], 5)
    half = gathered(fit, release, intruder=br.Intruder([0, 1, 2, 3]))
    with pytest.raises(br.InputError, match="an intruder who knows other records"):
        br.join([pair[0], half])
    other = gathered(*second(pair[0], 6), intruder=br.Intruder([0, 1, 2, 4]))
    with pytest.raises(br.InputError, match="name the known records"):
        br.join([half, other])
    same = gathered(*second(pair[0], 6), intruder=br.Intruder([0, 1, 2, 3]))
    said = br.join([half, same], prior="uniform").assumptions["evidence"]
    assert said.endswith("as if these did not share the unknown records")


def test_searched_guesses_and_joined_evidence(pair):
    searched = replace(pair[0], searched="uniform")
    with pytest.raises(br.InputError, match="guesses of evidence 1 were searched .*larger budget"):
        br.join([searched, pair[1]])
    third = gathered(*second(pair[0], 5))
    with pytest.raises(br.InputError, match="evidence 1 was joined before"):
        br.join([joined_evidence(pair), third])


def test_no_guess_in_common():
    values = pd.DataFrame({"income": np.linspace(1.0, 90.0, 40)})
    fit = br.models.Regression({"income": "1"}).fit(values, random_seed=1)
    each = [
        gathered(
            fit,
            fit.synthesize(1, random_seed=k),
            guesses=br.Grid(percent=10 * k, n=5, truth="add"),
            targets=[3, 4],
        )
        for k in (1, 3)
    ]
    with pytest.raises(br.InputError, match="no guess but the truth is in all evidence"):
        br.join(each)


def test_a_file_and_published_tables_by_enumeration():
    """A guess changes one cell of each: two likelihoods, multiplied and normalised by hand."""
    rng, n = np.random.default_rng(0), 60
    df = pd.DataFrame({"job": rng.choice(list("xyz"), n), "region": rng.choice(list("pq"), n)})
    fit = Marginals(level_prior=1.0).fit(df, random_seed=1)
    release = fit.synthesize(1, ["job"], random_seed=2)
    true = df.groupby(["region", "job"]).size()
    noisy = true + rng.geometric(0.5, len(true)) - rng.geometric(0.5, len(true))
    tables = br.Published(noisy, noise="geometric", scale=1 / np.log(2))
    each = gathered(fit, release), tables.evidence(df, columns=["job"])
    risk = br.join(each, prior="uniform")
    counts = df["job"].value_counts()[list("xyz")]
    made = release.datasets[0]["job"].value_counts().reindex(list("xyz"), fill_value=0)

    def log_ascending(a, k):
        return np.log(a + np.arange(k)).sum()

    for row in (0, 17, 42):
        region, job = df["region"][row], df["job"][row]
        log_p = []
        for guess in "xyz":
            left = counts.copy()
            left[job] -= 1
            left[guess] += 1
            log_file = sum(log_ascending(left[v] + 1.0, made[v]) for v in "xyz")
            cells = true.copy()
            cells[region, job] -= 1
            cells[region, guess] += 1
            log_p.append(log_file - np.abs(noisy - cells).sum() * np.log(2))
        p = np.exp(np.array(log_p) - max(log_p))
        right = (p / p.sum())["xyz".index(job)]
        assert risk.records["probability"].iloc[row] == pytest.approx(right, rel=1e-9)
    turned = noisy.reorder_levels([1, 0]).iloc[::-1]  # the same cells, with those of another table
    assert _digest(turned) == _digest(noisy)
    assert _digest(turned) != _digest(turned.rename_axis(["region", "rank"]))  # of another column
    more = br.Published([df["job"].value_counts(), turned], noise="geometric", scale=1.0)
    for again in (each[1], more.evidence(df, columns=["job"])):
        with pytest.raises(br.InputError, match="evidence 3 is of a table of evidence 2"):
            br.join([*each, again])


def test_an_intruder_who_is_not_certain_that_the_target_is_in_the_file():
    df = pd.DataFrame({"job": list("xyzx") * 5, "region": list("pqqpp") * 4})
    fit = br.models.DPMPM(n_classes=1).fit(df, draws=20, tune=10, chains=1, random_seed=1)
    who = br.Intruder(in_file=0.1)
    each = [gathered(fit, fit.synthesize(1, random_seed=k), intruder=who) for k in (1, 2)]
    with pytest.raises(br.InputError, match="not certain .* does not add; leave in_file out"):
        br.join(each)
