"""Evidence of smoothed leaves: allocations by enumeration, kernels by SciPy, and their limits."""

from itertools import product
from math import factorial, gamma

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

import bayes_risk as br
from bayes_risk.models.trees.kernel_evidence import BATCHES, changes
from bayes_risk.models.trees.kernels import (
    _log_between,
    bandwidth,
    beta_rule,
    log_shown,
    of_node,
    points_for,
    reference,
)

pytestmark = pytest.mark.check


def kernels(y, z, whole):
    """K(z_r | y_i), shape (R, N): a Gaussian cut off at the range of y, or its rounded values."""
    low, high, h = y.min(), y.max(), bandwidth(y)
    x = z[:, None]
    if whole:
        ends = np.minimum(x + 0.5, high), np.maximum(x - 0.5, low)
        mass = norm.cdf((ends[0] - y) / h) - norm.cdf((ends[1] - y) / h)
    else:
        mass = norm.pdf((x - y) / h) / h
    inside = (x >= low) & (x <= high)
    return np.where(inside, mass, 0.0) / (norm.cdf((high - y) / h) - norm.cdf((low - y) / h))


def enumerated(y, z, whole):
    """log E prod_r sum_i w_i K(z_r | y_i) with w ~ Dirichlet(1): every allocation of R values."""
    K, N, R = kernels(y, z, whole), len(y), len(z)
    total = 0.0
    for a in product(range(N), repeat=R):
        counts = np.bincount(a, minlength=N)
        weight = gamma(N) / gamma(N + R) * np.prod([gamma(1 + n) for n in counts])
        total += weight * np.prod(K[np.arange(R), list(a)])
    return np.log(total) if total > 0 else -np.inf


def simulated(y, z, *, whole=False, plain=False, atom=False, particles=4000, seed=3):
    """Log of the mean over batches, and its relative standard error."""
    out = np.empty(BATCHES)
    simulation = (np.uint64(seed), BATCHES, particles)
    of_node(y.astype(float), z.astype(float), (whole, plain, atom), simulation, 0, out)
    if out.max() == -np.inf:
        return -np.inf, 0.0
    w = np.exp(out - out.max())
    return out.max() + np.log(w.mean()), w.std(ddof=1) / np.sqrt(BATCHES) / w.mean()


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_allocations_by_enumeration(whole, seed):
    rng = np.random.default_rng(seed)
    y = rng.lognormal(2, 0.8, rng.integers(2, 6)).round()
    z = rng.uniform(y.min(), y.max(), rng.integers(1, 5))
    z = np.round(z) if whole else z
    value, error = simulated(y, z, whole=whole)
    assert abs(value - enumerated(y, z, whole)) < 4 * error + 1e-10


def test_one_value_and_plain_draws_need_no_simulation():
    y, z = np.array([1.0, 2.0, 4.0, 9.0]), np.array([1.5, 3.0, 8.0])
    assert simulated(y, z[:1])[0] == pytest.approx(np.log(kernels(y, z[:1], False).mean()))
    value, error = simulated(y, z, plain=True)
    assert value == pytest.approx(np.log(kernels(y, z, False).mean(axis=1)).sum())
    assert error == 0


def test_equal_values_are_atoms():
    """Nodes without a range show their value; with one they show it with probability zero."""
    five = np.full(4, 5.0)
    assert simulated(five, np.array([5.0, 5.0]))[0] == 0
    assert simulated(five, np.array([5.0, 5.1]))[0] == -np.inf
    assert simulated(np.array([5.0, 5, 6]), np.array([5.0]), atom=True)[0] == -np.inf
    assert simulated(np.array([5.0, 5, 6]), np.array([6.5]))[0] == -np.inf  # beyond the range


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (-1.0, 2.0, np.log(norm.cdf(2) - norm.cdf(-1))),
        (3.0, 4.0, np.log(norm.sf(3) - norm.sf(4))),
        (-4.0, -3.0, np.log(norm.sf(3) - norm.sf(4))),
        (49.0, 50.0, norm.logsf(49.0)),
        (29.0, 31.0, norm.logsf(29.0)),
    ],
)
def test_tails_keep_their_logs(a, b, expected):
    assert _log_between(a, b) == pytest.approx(expected, rel=1e-9)


# --- ratios: a target replaced, gone or come -----------------------------------------------------

GONE = -np.inf


def changed(y, z, pairs, *, whole=False, kept=500, seed=1):
    """Change of log p for pairs of own and guessed value, its errors, and effective draws."""
    old, new = np.array(pairs, dtype=float).T
    gain, off, ess = np.empty(len(old)), np.zeros((len(old), BATCHES)), np.empty(len(old))
    questions = np.ascontiguousarray(old), np.ascontiguousarray(new)
    changes(
        y.astype(float),
        np.sort(z),
        whole,
        (BATCHES, kept, np.uint64(seed)),
        questions,
        (gain, off, ess),
    )
    return gain, off.std(axis=1, ddof=1) / np.sqrt(BATCHES), ess


def under(y, own, guess):
    """Values of a node's records when the target is replaced, goes or comes."""
    others = y if own == GONE else np.delete(y, np.argmax(y == own))
    return others if guess == GONE else np.append(others, guess)


def leaf(N, seed, whole=False):
    """Values of N records, and as many released from them by the smoothed bootstrap."""
    rng = np.random.default_rng(seed)
    y = rng.normal(45, 15, N).round(0 if whole else 2)
    z = rng.choice(y, N, p=rng.dirichlet(np.ones(N))) + bandwidth(y) * rng.normal(size=N)
    z = np.clip(z, y.min(), y.max())
    return y, np.sort(z.round() if whole else z)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(1, 6))]
)
def test_ratios_by_enumeration(whole, seed):
    rng = np.random.default_rng(seed)
    y = rng.lognormal(2, 0.8, rng.integers(3, 6)).round()
    y[-1] = y[0] if seed % 2 else y[-1]  # two records alike: their weight is shared
    inner = np.sort(y)[[0, -1]] + [1, -1]
    z = rng.uniform(*inner, rng.integers(2, 6))
    z = np.round(z) if whole else z
    guess = float(np.round(rng.uniform(*inner)))
    pairs = [(y[0], guess), (y[1], GONE), (GONE, guess), (y[0], y[0]), (GONE, y.max() + 3)]
    gain, error, _ = changed(y, z, pairs, whole=whole)
    before = enumerated(y, z, whole)
    expected = np.array([enumerated(under(y, *pair), z, whole) - before for pair in pairs])
    counted = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(gain), counted)
    assert gain[3] == 0
    assert (np.abs(gain[counted] - expected[counted]) < 4.5 * error[counted] + 1e-10).all()


def test_ratios_of_a_record_by_itself():
    """One record, and nobody else: it goes, it changes, another comes."""
    y, z = np.array([5.0]), np.array([5.0, 5.0, 5.0])
    pairs = [(GONE, 7.0), (5.0, GONE), (5.0, 6.0), (5.0, 5.0)]
    gain, error, _ = changed(y, z, pairs, whole=True)
    assert gain.tolist()[1:] == [-np.inf, -np.inf, 0.0]
    assert gain[0] == pytest.approx(enumerated(np.array([5.0, 7.0]), z, True))
    assert error[0] < 1e-9


@pytest.mark.parametrize("whole", [False, True])
def test_ratios_equal_those_of_many_allocations(whole):
    """N = R = 30: sequential allocation with 64,000 particles for each of the two tables."""
    y, z = leaf(30, 2, whole)
    own, other = np.sort(y)[[10, 20]]
    pairs = [(own, own + 15.0), (own, GONE), (other, own), (GONE, 30.0)]
    gain, error, _ = changed(y, z, pairs, whole=whole)
    before, noise = simulated(y, z, whole=whole, particles=8000)
    for g, pair in enumerate(pairs):
        after, more = simulated(under(y, *pair), z, whole=whole, particles=8000, seed=5)
        assert abs(gain[g] - after + before) < 4.5 * np.sqrt(error[g] ** 2 + noise**2 + more**2)


def test_errors_of_ratios_are_those_between_seeds():
    y, z = leaf(60, 3, whole=True)
    pairs = [(own, own + step) for own in np.unique(y)[2:-2:6] for step in (-5.0, GONE, 5.0)]
    runs = [changed(y, z, pairs, whole=True, kept=16, seed=s)[:2] for s in range(24)]
    gains, errors = (np.stack(x) for x in zip(*runs, strict=True))
    ratio = np.sqrt(gains.var(axis=0, ddof=1) / (errors**2).mean(axis=0))
    assert (ratio < 2.0).all() and (ratio > 0.5).all()
    assert errors.max() < 0.1


def integral(x, n):
    """log E_b prod_r (1 - b + b x_r), b ~ Beta(1, n): elementary symmetric polynomials of x."""
    R, e = len(x), np.concatenate([[0.0], np.full(len(x), -np.inf)])
    for value in x:
        e[1:] = np.logaddexp(e[1:], e[:-1] + np.log(value))
    k = np.arange(R + 1)
    return logsumexp(e + np.log(n) + gammaln(k + 1) + gammaln(n + R - k) - gammaln(n + R + 1))


@pytest.mark.parametrize("n", [1.0, 2.0, 7.0, 400.0, 1e5])
def test_rules_are_exact_for_powers(n):
    at, weight = beta_rule(n, 8)
    for k in range(16):
        expected = factorial(k) / np.prod(n + 1.0 + np.arange(k))  # E b^k
        assert (weight * at**k).sum() == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("N", "R"), [(5, 5), (12, 40), (40, 40), (300, 300), (100, 320)])
def test_integrals_over_one_weight(N, R):
    """Twin of the loops in NumPy: SciPy's kernels, and the polynomial integrated term by term."""
    y, _ = leaf(N, N)
    z = np.sort(np.random.default_rng(R).choice(leaf(300, N)[1], R))
    z = np.clip(z, y.min(), y.max())
    node = reference(y, z, False, (2, 3), np.uint64(1))
    W, share = node[4]
    values, points = node[1][0], points_for(N, R)
    for mine in (0, 1, len(values) // 2, len(values) - 2):
        rule = beta_rule(N - 1.0, points)
        own, guess = values[mine], float(np.median(y))
        if mine == 0:
            guess = y.min()  # the range stays
        out = np.empty(len(W))
        assert log_shown(node, False, (mine, guess), rule, out) is None
        held = under(y, own, guess)
        place = np.append(np.searchsorted(values, held[:-1]), -1)
        K = kernels(held, z, False)
        for s in range(len(W)):
            w = W[s] / np.unique(y, return_counts=True)[1]
            alone = np.flatnonzero(place[:-1] == mine)
            w_held = w[place[:-1]]
            if len(alone):
                w_held[alone] = W[s, mine] * (1 - share[s, mine]) / len(alone)
            f = K[:, :-1] @ w_held / w_held.sum()
            expected = np.log(f).sum() + integral(K[:, -1] / f, N - 1.0)
            assert out[s] == pytest.approx(expected, abs=2e-4)


def test_a_bandwidth_is_that_of_differences_in_any_order():
    """Of values as large as 1e12, whose mean has a rounding of 1e-4."""
    rng = np.random.default_rng(8)
    for n in (5, 26, 200):
        apart = rng.integers(0, 2**16, n) / 2**13  # which large values hold without rounding
        wanted = bandwidth(apart)
        for _ in range(20):
            assert bandwidth(1e12 + rng.permutation(apart)) == pytest.approx(wanted, rel=1e-14)


def test_bandwidths_between_those_kept():
    """Interpolated mixtures are those summed kernel by kernel."""
    y, z = leaf(80, 4, whole=True)
    node = reference(y, z, True, (2, 8), np.uint64(1))
    bare = (*node[:5], (np.empty((0, 0)), node[5][1]))
    rule = beta_rule(79.0, points_for(80, 80))
    one, two = np.empty(16), np.empty(16)
    for mine in range(1, len(node[1][0]) - 1, 5):
        for through, guess in ((True, 31.0), (True, 60.0), (False, 0.0)):
            log_shown(node, True, (mine, guess if through else -np.inf), rule, one)
            log_shown(bare, True, (mine, guess if through else -np.inf), rule, two)
            np.testing.assert_allclose(one, two, atol=1e-4)


def test_guesses_far_from_all_released_values():
    """Improbable and not impossible, however many released values only the target explains."""
    y = np.concatenate([np.linspace(0.0, 1.0, 20), [60.0, 100.0]])
    z = np.concatenate([np.linspace(0.0, 1.0, 20), np.full(6, 60.0)])
    gain, _, _ = changed(y, z, [(60.0, 30.0), (60.0, 61.0)])
    assert np.isfinite(gain).all()
    assert gain[0] < -1000 < gain[1]


# --- whole audits --------------------------------------------------------------------------------


def table(n=60, seed=1):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    pay = rng.lognormal(3, 0.4, n) * np.where(group == "a", 1.0, 2.0)
    kids = rng.poisson(np.where(group == "a", 1.0, 2.5))
    return pd.DataFrame({"group": pd.Categorical(group), "pay": pay.round(2), "kids": kids})


def audit(fit, release, **options):
    defaults = {"guesses": {"pay": br.Grid(percent=30, n=5)}, "random_seed": 5}
    return br.attribute_risk(fit, release, **(defaults | options))


def by_tables(fit, release, risk, log_p):
    """log p(Z | y with the guess) less that of the truth, summed over leaves: shape (G, U)."""
    tree = fit.trees[0]
    codes = fit.microdata.codes
    j, out = tree.column, np.zeros(risk.log_evidence.shape[1:])
    y = codes[:, j].astype(float)
    for l in range(release.m):
        z = release.codes(fit.microdata, l)
        nodes = tree.node(z)
        for u in range(out.shape[1]):
            row = int(np.flatnonzero(risk.case == u)[0])
            for node in np.unique(nodes):
                held = tree.donors[tree.begin[node] : tree.end[node]]
                if row not in held:
                    continue
                before = log_p(y[held], z[nodes == node, j])
                for g in range(len(out)):
                    mine = y.copy()
                    mine[row] = risk.guesses[g, u, 0]
                    out[g, u] += log_p(mine[held], z[nodes == node, j]) - before
    return out


@pytest.mark.slow
@pytest.mark.parametrize("column", ["pay", "kids"])
def test_plain_smoothed_draws_are_exact(column):
    df = table()
    model = br.models.CART(order=[column], min_leaf=8, bootstrap="none", smoothing="kde")
    fit = model.fit(df, random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    grid = br.Grid(percent=30, n=5) if column == "pay" else br.Grid(additive=1, n=3)
    risk = audit(fit, release, guesses={column: grid})
    assert risk.assumptions["evidence"].startswith("exact")
    assert not risk.mcse.any()

    def log_p(y, z):
        with np.errstate(divide="ignore"):
            return np.log(kernels(y, z, column == "kids").mean(axis=1)).sum()

    expected = by_tables(fit, release, risk, log_p)
    found = risk.log_evidence.sum(axis=0)
    counted = np.isfinite(risk.log_prior)
    np.testing.assert_allclose(found[counted], expected[counted], atol=1e-9)


def test_the_bootstrap_is_integrated_and_its_error_is_told():
    """Against allocations of many more particles; errors are those between seeds."""
    df = table()
    fit = br.models.CART(order=["pay"], min_leaf=8, smoothing="kde").fit(df, random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    risks = [audit(fit, release, targets=list(df.index[:12]), random_seed=s) for s in range(8)]
    assert risks[0].assumptions["evidence"].startswith("monte-carlo")
    assert risks[0].reliable.all()

    more = [
        by_tables(
            fit, release, risks[0], lambda y, z, s=s: simulated(y, z, particles=3000, seed=s)[0]
        )
        for s in (11, 12)
    ]
    expected = np.mean(more, axis=0)
    found = np.stack([r.log_evidence.sum(axis=0) for r in risks])
    possible = np.isfinite(expected)
    assert (np.isfinite(found) == possible).all()
    reported = np.stack([r.mcse_log_evidence for r in risks])[:, possible]
    away = (found - np.where(possible, expected, 0.0))[:, possible]
    of_expected = np.sqrt((np.diff(np.stack(more)[:, possible], axis=0) ** 2).mean()) / 2
    scale = np.hypot(np.sqrt((reported**2).mean(axis=0) / 8), of_expected)
    assert (np.abs(away.mean(axis=0)) <= 4.5 * scale).all()
    ratio = np.sqrt((away**2).mean() / (reported**2).mean())
    assert 0.5 < ratio < 2.0  # eight seeds: a standard error within a factor of two


def test_known_splits_equal_refits_where_nothing_can_split():
    """A tree of one leaf is the same tree under every guess."""
    df = table(n=14)
    for bootstrap in ("none", "bayesian"):
        model = br.models.CART(order=["pay"], min_leaf=14, bootstrap=bootstrap, smoothing="kde")
        fit = model.fit(df, random_seed=1)
        release = fit.synthesize(m=1, random_seed=2)
        known, anew = (
            audit(fit, release, targets=[0, 1], evidence=way)
            for way in ("exact" if bootstrap == "none" else "monte-carlo", "refit")
        )
        error = np.hypot(known.mcse_log_evidence, anew.mcse_log_evidence)
        found = known.log_evidence[0], anew.log_evidence[0]
        both = np.isfinite(found[0])
        assert (both == np.isfinite(found[1])).all()
        assert (np.abs(found[0] - found[1])[both] <= 4.5 * error[both] + 1e-9).all()


def test_a_value_beyond_all_others_gives_the_largest_away():
    """The leaf's range was the largest record's: only guesses that reach as far are possible."""
    df = pd.DataFrame({"x": ["a"] * 12, "y": [1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 40]})
    df["x"] = pd.Categorical(df["x"], ["a", "b"])
    fit = br.models.CART(order=["y"], min_leaf=12, smoothing="kde").fit(df, random_seed=1)
    released = df.assign(y=[2.0, 3, 3.5, 4, 5, 6, 7, 8, 9, 10, 11, 35])
    release = br.Release(datasets=[released], synthesized=["y"])
    risk = audit(
        fit, release, guesses={"y": br.Grid(values=[10.0, 20, 30, 34, 36, 40])}, targets=[11]
    )
    possible = np.isfinite(risk.log_evidence[0, :, 0])
    assert risk.guesses[possible, 0, 0].tolist() == [36.0, 40.0]


def test_seeds_and_batches_are_kept():
    df = table(n=30)
    fit = br.models.CART(order=["pay"], smoothing="kde").fit(df, random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    one, two = (audit(fit, release, random_seed=9) for _ in range(2))
    np.testing.assert_array_equal(one.log_evidence, two.log_evidence)


def test_a_release_that_other_trees_made_is_refused():
    df = table(n=30)
    fit = br.models.CART(order=["pay"], smoothing="kde").fit(df, random_seed=1)
    strange = br.Release(datasets=[df.assign(pay=df["pay"] + 1000)], synthesized=["pay"])
    with pytest.raises(br.InputError, match="30 values of column 'pay' .* beyond the range"):
        audit(fit, strange)
    plain = br.models.CART(order=["pay"]).fit(df, random_seed=1)
    with pytest.raises(br.InputError, match="column 'pay' .* that no record of it holds"):
        audit(plain, strange)
