"""Structural zeros: declarations, disjoint boxes, the sampler, synthesis and evidence."""

import itertools
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayes_risk as br
from bayes_risk._core.disjoint_boxes import disjoint, rows_in, sizes
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.evidence.problem import cases_of
from bayes_risk.models.mixture.sampler import run_chains, start_at
from bayes_risk.models.mixture.state import Prior, ZeroLayout, n_normalised
from bayes_risk.models.mixture.zeros import (
    log_possible,
    log_possible_given,
    possible_rows,
)
from tests.helpers.against import agree, each
from tests.helpers.fits import encoded
from tests.oracles import zeros_oracle as oracle
from tests.oracles.latent_classes import draws_of, random_theta, units_of

RULES = [{"x0": ["b"], "x1": ["b"]}, {"x1": "b", "x2": ["b"]}]
NAMES = ["x0", "x1", "x2"]
QUIET = pytest.mark.filterwarnings(
    "ignore::bayes_risk.TruncationWarning", "ignore::bayes_risk.UnreliableWeightsWarning"
)


def table(codes):
    return pd.DataFrame(
        {n: pd.Categorical.from_codes(codes[:, j], ["a", "b"]) for j, n in enumerate(NAMES)}
    )


# --- boxes -----------------------------------------------------------------------------------


@st.composite
def unions(draw):
    levels = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    starts = np.concatenate([[0], np.cumsum(levels)])
    sides = [st.lists(st.booleans(), min_size=d, max_size=d).filter(any) for d in levels]
    boxes = draw(st.lists(st.tuples(*sides), min_size=1, max_size=8))
    return np.array([list(itertools.chain(*b)) for b in boxes]), starts


@settings(max_examples=40)
@given(unions())
def test_disjoint_boxes_cover_the_union_once(union):
    boxes, starts = union
    cells = np.array(list(itertools.product(*(range(d) for d in np.diff(starts)))))
    rows = cells + starts[:-1]
    inside = boxes[:, rows].all(axis=2)  # shape (B, cells)
    out = disjoint(boxes, starts)
    covered = out[:, rows].all(axis=2).sum(axis=0)
    assert (covered == inside.any(axis=0)).all()
    assert sizes(out, starts).sum() == inside.any(axis=0).sum()
    assert (rows_in(boxes, rows) == inside.any(axis=0)).all()


def test_too_many_disjoint_boxes_are_named():
    rng = np.random.default_rng(1)
    starts = np.arange(0, 41, 4)
    boxes = rng.random((60, 40)) < 0.6
    boxes[:, starts[:-1]] = True
    with pytest.raises(br.InputError, match="more than 50 disjoint boxes; give fewer"):
        disjoint(boxes, starts, most=50)


# --- declarations ----------------------------------------------------------------------------


def region(rules, codes=oracle.Y):
    return br.Impossible(rules).region(Microdata.from_frame(table(codes)))


def by_function(t):
    return (t.x1 == "b") & ((t.x0 == "b") | (t.x2 == "b"))


FRAME = pd.DataFrame(
    {"x0": ["b", None], "x1": ["b", "b"], "x2": [None, "b"]}, dtype=object
)  # missing: any value


@pytest.mark.parametrize(
    "rules", [RULES, FRAME, by_function], ids=["mappings", "table", "function"]
)
def test_three_ways_to_say_the_same(rules):
    assert (region(rules).holds(oracle.CELLS) == oracle.ZERO).all()


def test_missing_is_a_level_that_none_names():
    df = pd.DataFrame({"u": ["a", "b", None, "a"], "v": ["p", "p", "q", "q"]})
    data = Microdata.from_frame(df, missing="level")
    found = br.Impossible([{"u": [None], "v": "p"}]).region(data)
    assert found.holds(np.array([[2, 0], [2, 1], [0, 0]])).tolist() == [True, False, False]


ERRORS = {
    "no rule": ([], "no rule; give at least one"),
    "one mapping": ({"x0": ["a"]}, "give a list of mappings"),
    "empty rule": ([{}], "rule 1 names no column, and so excludes everything"),
    "no level": ([{"x0": []}], "no level of column 'x0', and so excludes nothing"),
    "unknown column": ([{"age": ["b"]}], "names column 'age', which the table does not have"),
    "unknown level": (
        [{"x0": ["c"]}],
        r"names 'c', which is not a level of column 'x0'; check its spelling",
    ),
    "all levels": (
        [{"x0": ["a", "b"]}],
        "exclude every combination.*not every level of its columns",
    ),
    "everything": ([{"x0": ["a"]}, {"x0": ["b"]}], "together exclude every combination"),
    "empty row": (pd.DataFrame({"x0": [None]}, dtype=object), "rule 1 names no column"),
    "observed": (
        [{"x0": ["b"], "x1": ["b"]}, {"x0": "a", "x1": "a"}],
        r"excludes 2 records of the original by 1 .* rule 2 \(x0 'a' and x1 'a'\) excludes "
        r"2; correct",
    ),
    "wrong function": (lambda t: t.x0, "return one True or False for each"),
    "nothing": (lambda t: np.zeros(len(t), bool), "calls every combination possible"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_the_rule(case):
    rules, message = ERRORS[case]
    with pytest.raises(br.InputError, match=message):
        region(rules)


def test_a_function_is_not_asked_about_too_many_cells():
    rng = np.random.default_rng(2)
    df = pd.DataFrame({f"v{j}": rng.integers(0, 10, 200).astype(str) for j in range(7)})
    with pytest.raises(br.InputError, match="10,000,000 combinations, too many"):
        br.Impossible(by_function).region(Microdata.from_frame(df))


def test_numbers_are_refused():
    data = Microdata.from_frame(pd.DataFrame({"x0": [1.0, 2.0]}), numbers=["x0"])
    with pytest.raises(
        br.InputError, match="impossible is about categories, and columns .* are numbers"
    ):
        br.Impossible([{"x0": [1.0]}]).region(data)


# --- masses and synthesis, by summing over all cells -------------------------------------------

LEVELS = (3, 2, 4)
EVERY = np.array(list(itertools.product(*(range(d) for d in LEVELS))))
STARTS = np.concatenate([[0], np.cumsum(LEVELS)]).astype(np.int64)


def random_zeros(rng):
    """Three overlapping boxes that leave every level some room."""
    boxes = np.ones((3, STARTS[-1]), dtype=bool)
    boxes[0, [1, 2, 3]] = False
    boxes[1, [3, 5, 6]] = False
    boxes[2, [0, 7, 8]] = False
    zero = boxes[:, EVERY + STARTS[:-1]].all(axis=2).any(axis=0)
    return ZeroLayout.of_boxes(disjoint(boxes, STARTS), STARTS), zero


def cell_probabilities(pi, phi):
    return sum(
        pi[k] * np.prod([phi[k][j][EVERY[:, j]] for j in range(3)], axis=0) for k in range(len(pi))
    )


def test_mass_of_what_is_possible():
    rng = np.random.default_rng(3)
    zeros, zero = random_zeros(rng)
    thetas = [random_theta(rng, 4) for _ in range(5)]
    draws = draws_of(np.stack([t[0] for t in thetas]), np.stack([t[2] for t in thetas]))
    total, parts = log_possible(zeros, draws), {}
    for known in ([0], [1, 2], [2]):
        flags = np.isin(np.arange(3), known)
        parts[tuple(known)] = log_possible_given(zeros, draws, EVERY + STARTS[:-1], flags)
    for h, (pi, phi, _) in enumerate(thetas):
        p = cell_probabilities(pi, phi)
        assert np.isclose(total[h], np.log(p[~zero].sum()), rtol=1e-10)
        for known, found in parts.items():
            for c, row in enumerate(EVERY):
                same = (EVERY[:, known] == row[list(known)]).all(axis=1)
                share = p[same & ~zero].sum() / p[same].sum()
                if share > 1e-9:
                    assert np.isclose(found[h, c], np.log(share), atol=1e-9)


@pytest.mark.parametrize("known", [[], [1], [0, 2]], ids=["all", "one kept", "two kept"])
def test_synthesis_has_the_conditional_distribution_of_what_is_possible(known):
    rng = np.random.default_rng(4)
    zeros, zero = random_zeros(rng)
    pi, phi, rows = random_theta(rng, 3)
    n, flags = 40_000, np.isin(np.arange(3), known)
    columns = np.flatnonzero(~flags)
    p = np.where(zero, 0.0, cell_probabilities(pi, phi))
    start = EVERY[int(np.flatnonzero(~zero)[3])]
    p[~(EVERY[:, known] == start[known]).all(axis=1)] = 0.0
    p /= p.sum()
    given_rows = np.tile((start + STARTS[:-1])[flags], (n, 1)).astype(np.int32)
    how = {"n_classes": 2, "concentration": (1.0, 1.0), "level": 1.0, "starts": STARTS}
    prior = Prior(**how, zeros=zeros)
    out = possible_rows(prior, given_rows, flags, pi, rows, columns, rng=rng)
    codes = np.tile(start, (n, 1))
    codes[:, columns] = out
    found = np.bincount(np.ravel_multi_index(codes.T, LEVELS), minlength=len(EVERY))
    error = np.sqrt(n * p * (1 - p))
    assert (found[p == 0] == 0).all()
    assert (np.abs(found - n * p)[p > 0] < 4 * error[p > 0] + 1e-9).all()


# --- the sampler -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fits():
    """Fits of the little table with one and two classes."""
    return {K: little(K, draws=2500, tune=200, thin=4) for K in (1, 2)}


@pytest.fixture(scope="module")
def short_fits():
    """The same with fewer draws."""
    return {K: little(K, draws=600, tune=100, thin=3) for K in (1, 2)}


def little(K, **options):
    model = br.models.DPMPM(
        n_classes=K, concentration_prior=(0.5, 0.5), impossible=br.Impossible(RULES)
    )
    return _quiet(lambda: model.fit(table(oracle.Y), chains=4, random_seed=5, **options))


def _quiet(call):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def within(found, draws_, exact, error=0.0):
    """Mean of correlated draws (H,) within four standard errors of the exact value."""
    ess, _ = ess_and_rhat(draws_[:, None], found)
    standard = draws_.std() / np.sqrt(ess[0])
    assert abs(draws_.mean() - exact) < 4 * np.hypot(standard, error), (draws_.mean(), exact)


def check_moments(draws, zeros, w, f):
    """Means of pi_0, of its square, of each possible cell and of each margin of one class."""
    p, w = oracle.possible(f), w / w.sum()
    mass = -np.expm1(log_possible(zeros, draws))
    exact = f[:, oracle.ZERO].sum(axis=1)
    within(4, mass, (w * exact).sum())
    within(4, mass**2, (w * exact**2).sum())
    phi = draws.phi[:, :-1, 0].reshape(-1, 3, 2)
    for j in range(3):
        within(4, phi[:, j, 1], (w * f[:, oracle.CELLS[:, j] == 1].sum(axis=1)).sum())
    for c, row in enumerate(oracle.CELLS):
        if not oracle.ZERO[c]:
            mine = np.prod([phi[:, j, x] for j, x in enumerate(row)], axis=0) / (1 - mass)
            within(4, mine, (w * p[:, c]).sum())
    return mass


def test_zero_mass_and_cells_against_quadrature(short_fits):
    (f, w), fit = oracle.one_class(30), short_fits[1]
    p = oracle.possible(f)
    w = w * np.prod([p[:, oracle.cell(y)] for y in oracle.Y], axis=0)
    mass = check_moments(fit.posterior.draws, fit.posterior.prior.zeros, w, f)
    assert np.allclose(fit.idata.posterior["zero_mass"].to_numpy().ravel(), mass)


@pytest.mark.parametrize("synthesized", [[0, 1, 2], [1, 2], [2]], ids=["all", "two", "one"])
@pytest.mark.slow
def test_posterior_after_a_release_against_quadrature(fits, synthesized):
    (f, w), fit = oracle.one_class(60), fits[1]
    p = oracle.possible(f)
    w = w * np.prod([p[:, oracle.cell(y)] for y in oracle.Y], axis=0)
    w = w * oracle.release_density(p, oracle.Y, oracle.Z, synthesized)
    after = fit.augmented(encoded(fit, release_of(synthesized)), 0, rng=np.random.default_rng(17))
    check_moments(after.draws, after.prior.zeros, w, f)


def test_the_pymc_model_is_the_same_density(short_fits):
    """Its log density at two points differs as the formula says."""
    from bayes_risk.models.mixture.pymc_mixture import pymc_of_mixture

    fit = short_fits[2]
    post = fit.posterior
    model = pymc_of_mixture(fit.microdata, post.columns, post.prior, post.units, transformed=False)
    logp = model.compile_logp(mode="FAST_COMPILE")
    values, expected = [], []
    for h in (10, 500):
        draws = post.draws
        stick = -np.expm1(draws.log_left[h])
        point = {"alpha": draws.alpha[h], "stick": stick}
        for j, name in enumerate(NAMES):
            point[f"levels_{name}"] = draws.phi[h, 2 * j : 2 * j + 2].T
        values.append(float(logp(point)))
        f = np.ones((2, 8))
        for j in range(3):
            f *= draws.phi[h, 2 * j : 2 * j + 2].T[:, oracle.CELLS[:, j]]
        p = oracle.possible((draws.pi[h] @ f)[None])[0]
        a = draws.alpha[h]
        prior = -0.5 * np.log(a) - 0.5 * a + np.log(a) + (a - 1) * np.log1p(-stick[0])
        expected.append(prior + sum(np.log(p[oracle.cell(y)]) for y in oracle.Y))
    assert np.isclose(values[1] - values[0], expected[1] - expected[0], rtol=1e-8)


# --- evidence against quadrature and draws from the prior --------------------------------------


@cache
def exact_theta(K):
    if K == 1:
        return oracle.one_class(60)
    return oracle.from_prior(2, 400_000, np.random.default_rng(6))


def release_of(synthesized):
    z = np.where(np.isin(np.arange(3), synthesized), oracle.Z, oracle.Y)
    return br.Release(datasets=[table(z)], synthesized=[NAMES[j] for j in synthesized])


@QUIET
@pytest.mark.parametrize("evidence", ["predictive", "refit", "importance"])
@pytest.mark.parametrize("synthesized", [[0, 1, 2], [1, 2], [2]], ids=["all", "two", "one"])
@pytest.mark.parametrize("K", [1, 2])
@pytest.mark.slow
def test_evidence_is_exact(fits, K, synthesized, evidence):
    check_evidence(fits[K], K, synthesized, evidence)


@pytest.mark.check
@QUIET
@pytest.mark.parametrize(
    ("synthesized", "evidence"),
    [([0, 1, 2], "predictive"), ([1, 2], "predictive"), ([1, 2], "refit")],
)
def test_evidence_is_exact_with_one_class(short_fits, synthesized, evidence):
    check_evidence(short_fits[1], 1, synthesized, evidence, oracle.one_class(30))


def check_evidence(fit, K, synthesized, evidence, theta=None):
    f, w = theta or exact_theta(K)
    release = release_of(synthesized)
    risk = br.attribute_risk(
        fit, release, guesses=br.Neighbourhood(3), evidence=evidence, random_seed=7
    )

    @cache
    def by_draws(i):
        rows = np.tile(oracle.Y[i], (risk.n_guesses, 1))
        rows[:, synthesized] = risk.guesses[:, risk.case[i]]
        impossible = np.array([oracle.ZERO[oracle.cell(r)] for r in rows])
        assert (np.isneginf(risk.log_prior[:, risk.case[i]]) == impossible).all()
        exact, error = np.where(impossible, -np.inf, 0.0), np.zeros(len(rows))
        exact[~impossible], error[~impossible] = oracle.log_evidence(
            f, w, i, rows[~impossible], synthesized
        )
        return exact, error * (K == 2)

    exact, noise = (lambda i, _, k=k: by_draws(i)[k] for k in range(2))
    agree(risk, exact, 1e-4 if K == 1 else 1e-9, noise=noise)


@QUIET
@pytest.mark.parametrize("how", ["before", "after all", "after two"])
@pytest.mark.parametrize("K", [1, 2])
@pytest.mark.slow
def test_predictives_are_normalised_over_what_is_possible(fits, K, how):
    """1 / E[1 / p_h(y_i)], the target among the data, and E[p_h(y_i)] where it is not."""
    fit, (f, w) = fits[K], exact_theta(K)
    synthesized = [1, 2] if how == "after two" else [0, 1, 2]
    release, rng = release_of(synthesized), np.random.default_rng(8)
    cases, case = cases_of(encoded(fit, release), br.Intruder(), br.Neighbourhood(1), np.arange(4))
    posterior = (
        fit.posterior if how == "before" else fit.augmented(encoded(fit, release), 0, rng=rng)
    )
    log_p = posterior.predictives(cases, rng=rng)[0].log_truth(slice(0, len(cases)))
    for i in range(4):
        after = () if how == "before" else (synthesized,)
        exact, error = oracle.log_predictive(f, w, i, *after, after=how != "before")
        error = error if K == 2 else 1e-5
        within(4, np.exp(-log_p[:, case[i]] + exact), 1.0, error)
        if i < 2:
            z = None if how == "before" else encoded(fit, release)
            start = fit.without(i, z, 0, start=posterior, rng=rng)
            only = cases.only(np.array([case[i]]))
            alone = start.predictives(only, rng=rng)[0].log_truth(slice(0, 1))[:, 0]
            within(4, np.exp(alone - exact), 1.0, error)


@QUIET
@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.slow
def test_an_intruder_who_knows_some_records(fits, m):
    """Known records only: their number is what is normalised. Several releases: as a product."""
    known = np.array([True, True, False, False])
    release = release_of([0, 1, 2])
    release = br.Release(datasets=list(release.datasets) * m, synthesized=release.synthesized)
    risk = br.attribute_risk(
        fits[1],
        release,
        intruder=br.Intruder(knows_records=known),
        guesses=br.Neighbourhood(3),
        random_seed=9,
    )
    f, w = oracle.one_class(60)
    p = oracle.possible(f)
    seen = oracle.release_density(p, oracle.Y, oracle.Z, [0, 1, 2])

    def exact(i, guess):
        if oracle.ZERO[c := oracle.cell(guess)]:
            return -np.inf
        others = [p[:, oracle.cell(y)] for j, y in enumerate(oracle.Y) if known[j] and j != i]
        before = w * np.prod(others, axis=0) * p[:, c]
        return m * np.log((before * seen).sum() / before.sum())

    agree(risk, each(exact), 1e-4)


# --- what is refused, limits, whole runs -------------------------------------------------------


def test_refusals(short_fits):
    fit, z = short_fits[2], oracle.Z.copy()
    z[0] = [1, 1, 0]
    with pytest.raises(
        br.InputError, match=r"excludes 1 records of release 1 by .* rule 1 \(x0 'b'"
    ):
        br.attribute_risk(fit, br.Release(datasets=[table(z)], synthesized=NAMES))
    with pytest.raises(br.InputError, match="not offered together with impossible"):
        fit.synthesize(m=1, classes="own")
    with pytest.raises(br.InputError, match="impossible is a list; give"):
        br.models.DPMPM(impossible=RULES)
    with pytest.raises(br.InputError, match="weights are not offered together with impossible"):
        fit.model.fit(table(oracle.Y), weights=np.full(4, 0.5))
    with pytest.raises(br.InputError, match="offers"):
        br.attribute_risk(fit, release_of([1, 2]), intruder=br.Intruder(knows_records="none"))


def sample(n, seed, zeros=True):
    rng = np.random.default_rng(seed)
    z = rng.random(n) < 0.5
    codes = (rng.random((n, 3)) < np.where(z[:, None], 0.7, 0.2)).astype(int)
    keep = ~oracle.ZERO[np.ravel_multi_index(codes.T, (2, 2, 2))] if zeros else slice(None)
    return codes[keep]


@QUIET
def test_released_files_hold_nothing_impossible_and_seeds_repeat():
    codes = sample(200, 10)
    model = br.models.DPMPM(n_classes=4, impossible=br.Impossible(RULES))
    options = {"draws": 60, "tune": 60, "chains": 2, "random_seed": 11}
    fit, again = (model.fit(table(codes), n_jobs=1, **options) for _ in range(2))
    assert np.array_equal(fit.posterior.draws.phi, again.posterior.draws.phi)
    assert 0 < fit.diagnostics["zero_mass_mean"] < 1
    for columns in (None, ["x1"], ["x2", "x0"]):
        release = fit.synthesize(m=3, columns=columns, random_seed=12)
        for l in range(3):
            assert not fit.microdata.impossible.holds(release.codes(fit.microdata, l)).any()


@QUIET
def test_a_region_of_no_weight_changes_nothing():
    """Two levels of small probability cross in no record, whether or not they could."""
    rng = np.random.default_rng(13)
    n = 600
    df = pd.DataFrame(
        {"u": rng.choice(list("ab"), n), "v": rng.choice(list("pqr"), n, p=[0.5, 0.48, 0.02])}
    )
    df.loc[:2, "u"] = "c"
    df.loc[(df.u == "c") & (df.v == "r"), "v"] = "p"
    release, risks = None, []
    for zeros in (None, br.Impossible([{"u": ["c"], "v": ["r"]}])):
        model = br.models.DPMPM(n_classes=1, impossible=zeros)
        fit = model.fit(df, draws=150, tune=50, chains=4, random_seed=14)
        if zeros is None:
            release = fit.synthesize(m=1, parameters="independent", random_seed=15)
        listed = br.Listed(pd.DataFrame({"u": list("abab"), "v": list("ppqq")}), add_truth=True)
        risks.append(br.attribute_risk(fit, release, guesses=listed, targets=20, random_seed=16))
        mass = fit.diagnostics.get("zero_mass_mean", 0.0)
    change = np.abs(risks[1].log_evidence - risks[0].log_evidence)[0]
    assert 0 < n * mass < 0.1
    # one class without zeros is exact; what the region's n_0 ~ n pi_0 records may change is n pi_0
    assert (change[np.isfinite(change)] <= 4 * risks[1].mcse_log_evidence.max() + n * mass).all()


def ranks(seed, n, columns):
    """Rank of the true probability of each possible cell among draws, tables from the prior."""
    rng = np.random.default_rng(seed)
    f, _ = oracle.from_prior(2, 1, rng, concentration=(1.0, 1.0))
    p = oracle.possible(f)[0]
    codes = oracle.CELLS[rng.choice(8, size=n, p=p)]
    starts = np.array([0, 2, 4, 6], dtype=np.int64)
    boxes = np.array([[0, 1, 0, 1, 1, 1], [1, 1, 0, 1, 0, 1]], dtype=bool)
    prior = Prior(
        n_classes=2,
        concentration=(1.0, 1.0),
        level=1.0,
        starts=starts,
        zeros=ZeroLayout.of_boxes(disjoint(boxes, starts), starts),
    )
    units = units_of((codes + starts[:-1]).astype(np.int32))
    assert n_normalised(units) == n
    start = np.ones((7, 2))
    start[:6] = 0.5
    draws = run_chains(prior, units, [start_at(start)], draws=199, tune=200, thin=15, rng=rng)
    mine = np.zeros((199, 8))
    for k in range(2):
        part = draws.pi[:, [k]] * np.ones(8)
        for j in range(3):
            part = part * draws.phi[:, 2 * j + oracle.CELLS[:, j], k]
        mine += part
    return (oracle.possible(mine) < p).sum(axis=0)[columns]


def check_ranks(tables, n):
    """Means and variances of ranks 0 .. 199 over tables, within four standard errors."""
    possible = np.flatnonzero(~oracle.ZERO)
    r = (np.array([ranks(100 + t, n, possible) for t in range(tables)]) + 0.5) / 200
    assert (np.abs(r.mean(axis=0) - 0.5) < 4 * np.sqrt(1 / 12 / tables)).all(), r.mean(axis=0)
    assert (np.abs(r.var(axis=0) - 1 / 12) < 4 * np.sqrt(1 / 180 / tables)).all(), r.var(axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 60])
def test_cell_probabilities_are_calibrated_over_many_tables(n):
    check_ranks(tables=1000, n=n)


def test_the_zeros_of_the_acs(shared_data):
    """20,000 records of New York and their 60 rules: no record is excluded."""
    df = pd.read_csv(shared_data / "ny_acs_structural_zeros_20000.csv.gz")
    rules = pd.read_csv(shared_data / "ny_acs_structural_zeros_MCZ.csv.gz")
    found = br.Impossible(rules).region(Microdata.from_frame(df, missing="level"))
    assert len(found.words) == len(rules)
    assert len(found.boxes) < len(rules)
