"""Trees and intruders who know only some records: against sums over all that the others hold."""

from dataclasses import replace
from functools import lru_cache, partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp

import bayes_risk as br
from bayes_risk.data.variables import Number
from bayes_risk.models.trees.cart_known import IN_WORDS
from bayes_risk.models.trees.tree import BAYESIAN, PLAIN
from tests.helpers.against import gaps
from tests.helpers.fits import offered

pytestmark = pytest.mark.check

N = 8


def table(seed, columns):
    """Few records, so that all that the unknown ones may hold can be listed."""
    rng = np.random.default_rng(seed)
    made = {
        "group": rng.choice(list("uv"), N),
        "w": rng.normal(size=N),
        "a": rng.choice(list("xyz"), N),
        "num": rng.choice([20, 21, 23], N),
        "b": rng.choice(list("pq"), N),
    }
    df = pd.DataFrame({c: made[c] for c in ("group", "w", *columns)})
    df["a"] = pd.Categorical(made["a"], list("xyzt"))
    return df[["group", "w", *columns]]


def log_belief(held, n_certain, support):
    """log of the chance of the values held beyond the certain ones, one after another.

    Polya's urn: a record's weight for the values of the support in all, and one for each seen.
    """
    total = np.zeros(len(held))
    for k in range(n_certain, held.shape[1]):
        seen = (held[:, :k] == held[:, [k]]).sum(axis=1)
        weight = np.isin(held[:, k], support) / len(support)
        total += np.log((weight + seen) / (1 + k))
    return total


def log_shown(held, shown, kind):
    """log of the chance of one data set's values of a node, given those held there (rows)."""
    N, R, total = held.shape[1], len(shown), np.zeros(len(held))
    for v in set(shown):
        n, r = (held == v).sum(axis=1), shown.count(v)
        with np.errstate(divide="ignore"):
            weight = r * np.log(n) if kind == PLAIN else gammaln(n + r) - gammaln(np.maximum(n, 1))
        total += np.where(n > 0, weight, -np.inf)
    if not R or not N:
        return total
    return total - (R * np.log(N) if kind == PLAIN else gammaln(N + R) - gammaln(N))


def kind_of(fit):
    """How the values of a leaf are drawn."""
    return PLAIN if fit.parameters[0] == "plug-in" else BAYESIAN


def below(tree, leaf, node):
    while leaf >= 0 and leaf != node:
        leaf = tree.parent[leaf]
    return leaf == node


@lru_cache
def codes_of(fit, release):
    """Codes of all data sets."""
    return release.codes(fit.microdata)


@lru_cache
def support(fit, release, column):
    variable = fit.microdata.variables[column]
    if not isinstance(variable, Number):
        return list(range(variable.n_levels))
    return np.unique(codes_of(fit, release)[:, :, column]).tolist()


def of_node(tree, node, fit, release, known, target, codes):
    """log p of what a node shows in all data sets, summed over what its unknown records hold."""
    j, levels = tree.column, support(fit, release, tree.column)
    leaf = tree.leaf(fit.microdata.codes)
    others = [k for k in range(N) if k != target and below(tree, leaf[k], node)]
    certain = [codes[k, j] for k in others if known[k]]
    if below(tree, tree.leaf(codes[[target]])[0], node):
        certain.append(codes[target, j])
    shown = []
    for l in range(release.m):
        z = codes_of(fit, release)[l]
        shown.append(z[tree.node(z) == node, j].tolist())
    if not any(shown):
        return 0.0
    values = sorted({*levels, *certain})
    guesses = list(product(values, repeat=sum(not known[k] for k in others)))
    held = np.array([[*certain, *guess] for guess in guesses], dtype=float)
    belief = log_belief(held, len(certain), levels)
    return logsumexp(belief + sum(log_shown(held, values, kind_of(fit)) for values in shown))


def enumerated(fit, release, known, columns, target, guesses):
    """log p(Z | y*, y_A) node by node, shape (G,)."""
    trees, out = fit._made(release), []
    for guess in guesses:
        codes = fit.microdata.codes.copy()
        codes[target, columns] = guess
        out.append(
            sum(
                of_node(tree, node, fit, release, known, target, codes)
                for tree in trees
                for node in range(tree.n_nodes)
            )
        )
    return np.array(out)


def guesses_of(columns):
    return {c: br.Grid(values=[20, 21, 22, 23]) if c == "num" else br.Levels() for c in columns}


def compare(fit, release, known, columns, **options):
    if known.any():
        intruder = br.Intruder(knows_records=known)
    else:
        intruder = br.Intruder(knows_records="none")
    risk = br.attribute_risk(
        fit, release, guesses=guesses_of(columns), intruder=intruder, **options
    )
    places = [fit.microdata.columns.index(v.name) for v in risk.variables]
    exact = partial(enumerated, fit, release, known, places)
    gap, _ = gaps(risk, exact, range(0, N, 2))
    assert np.abs(gap).max() < 1e-10
    return risk


KNOWN = {
    "none": np.zeros(N, dtype=bool),
    "some": np.arange(N) % 3 == 0,
    "most": np.arange(N) % 4 != 1,
    "all": np.ones(N, dtype=bool),
}


@pytest.mark.parametrize(("m", "bootstrap"), [(1, "none"), (3, "bayesian")])
@pytest.mark.parametrize("knows", list(KNOWN))
@pytest.mark.parametrize("column", ["a", "num"])
def test_evidence_is_the_sum_over_all_unknown_values(column, knows, m, bootstrap):
    fit = br.models.CART([column], min_leaf=3, bootstrap=bootstrap).fit(
        table(3, [column]), random_seed=1
    )
    release = fit.synthesize(m=m, random_seed=2)
    assert offered(fit, release, knows_records="none") == {"exact"}
    risk = compare(fit, release, KNOWN[knows], [column])
    assert (risk.mcse_log_evidence == 0).all()


# --- several trees -----------------------------------------------------------------------------


def sequence(seed, min_leaf=2, bootstrap="bayesian"):
    model = br.models.CART(["a", "b"], min_leaf=min_leaf, bootstrap=bootstrap)
    return model.fit(table(seed, ["a", "b"]).drop(columns="w"), random_seed=1)


@pytest.mark.parametrize("bootstrap", ["bayesian", "none"])
@pytest.mark.parametrize("knows", list(KNOWN))
def test_trees_that_split_on_synthesised_columns_are_summed_node_by_node(knows, bootstrap):
    fit = sequence(5, min_leaf=1, bootstrap=bootstrap)
    release = fit.synthesize(m=2, random_seed=4)
    assert offered(fit, release, knows_records="none") == {"independent-releases"}
    compare(fit, release, KNOWN[knows], ["a", "b"])


def shared(fit, release, known, target, columns, guesses):
    """log p(Z | y*, y_A) summed over whole records, which all trees share."""
    trees, data = fit._made(release), fit.microdata.codes
    shown = [(tree, tree.node(z), z[:, tree.column]) for l in range(release.m)
             for z in [codes_of(fit, release)[l]] for tree in trees]  # fmt: skip
    unknown = [k for k in range(N) if not known[k] and k != target]
    values = list(product(*[support(fit, release, j) for j in columns]))
    out = []
    for guess in guesses:
        codes = data.copy()
        codes[target, columns] = guess
        terms = []
        for held in product(values, repeat=len(unknown)):
            for k, row in zip(unknown, held, strict=True):
                codes[k, columns] = row
            terms.append(of_table(fit, trees, shown, known, target, codes, release))
        out.append(logsumexp(terms))
    return np.array(out)


def of_table(fit, trees, shown, known, target, codes, release):
    """log p(unknown values, Z | known values, y*) of one table."""
    total, certain = 0.0, known.copy()
    certain[target] = True
    leaves = {id(tree): tree.leaf(codes) for tree in trees}
    for tree in trees:
        leaf, levels = leaves[id(tree)], support(fit, release, tree.column)
        for node in np.unique(leaf):
            order = np.concatenate(
                [
                    np.flatnonzero((leaf == node) & certain),
                    np.flatnonzero((leaf == node) & ~certain),
                ]
            )
            n = int((certain & (leaf == node)).sum())
            total += log_belief(codes[order, tree.column][None].astype(float), n, levels)[0]
    for tree, nodes, z in shown:
        for node in np.unique(nodes):
            there = [k for k in range(N) if below(tree, leaves[id(tree)][k], node)]
            held = codes[there, tree.column][None].astype(float)
            total += log_shown(held, z[nodes == node].tolist(), kind_of(fit))[0]
    return total


def posterior(log_evidence):
    with np.errstate(divide="ignore"):
        p = np.exp(log_evidence - logsumexp(log_evidence))
    return p


def test_the_product_over_trees_is_nearer_to_the_shared_sum_than_the_worst_case():
    product_off, worst_off = [], []
    known = np.arange(N) % 4 != 1  # two are not known
    for seed in range(3, 7):
        fit = sequence(seed, min_leaf=3)
        release = fit.synthesize(m=2, random_seed=seed)
        part = br.attribute_risk(fit, release, intruder=br.Intruder(knows_records=known))
        worst = br.attribute_risk(fit, release)
        places = [fit.microdata.columns.index(v.name) for v in part.variables]
        for i in (1, 2):
            u, w = part.case[i], worst.case[i]
            exact = posterior(shared(fit, release, known, i, places, part.guesses[:, u]))
            found = posterior(part.log_evidence[:, :, u].sum(axis=0))
            overrated = posterior(worst.log_evidence[:, :, w].sum(axis=0))
            product_off.append(np.abs(found - exact).sum() / 2)
            worst_off.append(np.abs(overrated - exact).sum() / 2)
    assert np.mean(product_off) < np.mean(worst_off) / 2


# --- limits and invariance ---------------------------------------------------------------------


def larger(seed=1, n=300):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "w": rng.normal(size=n).round(1),
            "a": rng.choice(list("uvwxyz"), n, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.05]),
            "num": rng.integers(20, 30, n),
            "b": rng.choice(list("pqr"), n),
        }
    )


MANY = {"a": br.Levels(), "num": br.Grid(values=range(20, 30)), "b": br.Levels()}


@pytest.mark.parametrize(("m", "bootstrap"), [(1, "none"), (3, "bayesian")])
def test_who_knows_all_is_the_worst_case(m, bootstrap):
    model = br.models.CART(["a", "num", "b"], min_leaf=3, bootstrap=bootstrap)
    fit = model.fit(larger(), random_seed=1)
    release = fit.synthesize(m=m, random_seed=2)
    everybody = br.Intruder(knows_records=np.ones(300, dtype=bool))
    how = {"guesses": MANY, "targets": list(range(60))}
    found = br.attribute_risk(fit, release, intruder=everybody, **how)
    worst = br.attribute_risk(fit, release, **how)
    a, b = (risk.log_evidence.sum(axis=0)[:, risk.case] for risk in (found, worst))
    assert (np.isfinite(a) == np.isfinite(b)).all()
    possible = np.isfinite(a)
    assert np.abs(a[possible] - b[possible]).max() < 1e-9


@pytest.mark.parametrize("bootstrap", ["bayesian", "none"])
@pytest.mark.parametrize("known", [0, 5, 600])
def test_a_large_leaf_is_summed_term_by_term(known, bootstrap):
    """Two levels and one leaf: a sum over how many of the unknown records hold the first."""
    n = 700
    rng = np.random.default_rng(8)
    df = pd.DataFrame({"w": np.zeros(n), "a": rng.choice(list("xy"), n, p=[0.9, 0.1])})
    fit = br.models.CART(["a"], bootstrap=bootstrap).fit(df, random_seed=1)
    release = fit.synthesize(m=3, random_seed=2)
    mask = np.arange(n) < known
    intruder = br.Intruder(knows_records=mask if known else "none")
    risk = br.attribute_risk(fit, release, intruder=intruder, targets=[0, 1, n - 1])
    y = fit.microdata.codes[:, 1]
    for place, i in enumerate([0, 1, n - 1]):
        others = (np.arange(n) != i) & mask
        unknown = n - 1 - others.sum()
        expected = []
        for guess in risk.guesses[:, risk.case[place], 0]:
            c = np.array([(y[others] == v).sum() + (guess == v) for v in (0, 1)])
            u = np.arange(unknown + 1)
            held = np.stack([c[0] + u, c[1] + unknown - u], axis=1)
            believed = gammaln(held + 0.5) - gammaln(held - c[None] + 1) - gammaln(c + 0.5)
            terms = believed.sum(axis=1) + gammaln(unknown + 1) + gammaln(1 + c.sum())
            terms -= gammaln(n + 1)
            for l in range(release.m):
                r = np.bincount(release.codes(fit.microdata, l)[:, 1].astype(int), minlength=2)
                with np.errstate(divide="ignore"):
                    weight = (
                        r * np.log(held)
                        if kind_of(fit) == PLAIN
                        else gammaln(held + r) - gammaln(np.maximum(held, 1))
                    )
                terms += np.where((held > 0) | (r == 0), weight, -np.inf).sum(axis=1)
            expected.append(logsumexp(terms))
        u = risk.case[place]
        found = risk.log_evidence[0, :, u]
        assert np.abs(found - (expected - np.array(expected)[risk.truth[u]])).max() < 1e-9


def test_values_of_unknown_records_do_not_matter():
    fit = br.models.CART(["a"], min_leaf=5).fit(larger(), random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    known = np.random.default_rng(3).random(300) < 0.5
    tree, j = fit.trees[0], fit.microdata.columns.index("a")
    other = fit.microdata.codes.copy()
    leaf, nodes = tree.leaf(other), tree.node(other)
    for node in np.unique(leaf):
        hidden = np.flatnonzero((leaf == node) & ~known)
        shown = np.concatenate(
            [release.codes(fit.microdata, l)[nodes == node, j] for l in range(2)]
        )
        missing = np.setdiff1d(shown, other[(leaf == node) & known, j])
        other[hidden, j] = 0
        other[hidden[: len(missing)], j] = missing
    changed = replace(fit, microdata=replace(fit.microdata, codes=other))
    assert (other != fit.microdata.codes).any()
    found = []
    for each in (fit, changed):
        risk = br.attribute_risk(
            each,
            release,
            guesses={"a": br.Levels()},
            intruder=br.Intruder(knows_records=known),
            targets=~known,
        )
        log_evidence = risk.log_evidence[0][:, risk.case]
        found.append(np.exp(log_evidence - log_evidence.max(axis=0)))
    assert np.abs(found[0] - found[1]).max() < 1e-9


def test_records_released_unchanged_are_known():
    fit = br.models.CART(["a", "b"], min_leaf=5).fit(larger(), random_seed=1)
    replaced = np.arange(300) < 150
    release = fit.synthesize(m=2, records=replaced, random_seed=2)
    guesses = {"a": br.Levels(), "b": br.Levels()}
    options = {"guesses": guesses, "prior": "marginal"}
    audits = [
        br.attribute_risk(fit, release, intruder=br.Intruder(knows_records=known), **options)
        for known in ("none", ~replaced)
    ]
    for name in ("log_evidence", "log_prior"):
        assert np.array_equal(*[getattr(risk, name)[..., risk.case] for risk in audits])
    most = [larger()[c][150:].value_counts().max() + 1 for c in ("a", "b")]
    assert np.isclose(np.exp(audits[0].log_prior).max(), most[0] / 156 * most[1] / 153)


def test_knowing_more_records_tells_more_of_the_others():
    """Averaged over the guesses' prior, more knowledge cannot lower the truth's expected score."""
    fit = br.models.CART(["a"], min_leaf=5).fit(larger(n=2000), random_seed=1)
    release = fit.synthesize(m=5, random_seed=2)
    means = []
    for share in ("none", 0.5, "all-but-target"):
        intruder = br.Intruder(knows_records=share)
        risk = br.attribute_risk(fit, release, intruder=intruder, random_seed=4)
        means.append(risk.summary()["value"]["mean_probability"])
    assert means == sorted(means)


# --- errors ------------------------------------------------------------------------------------


def test_smoothed_numbers_are_refused_by_name():
    fit = br.models.CART(["num"], smoothing="kde").fit(larger(), random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    with pytest.raises(br.InputError, match="'num' is smoothed .* no smoothing, or give knows_"):
        br.attribute_risk(
            fit, release, guesses=br.Grid(percent=5), intruder=br.Intruder(knows_records=0.5)
        )


def test_a_release_of_other_trees_is_refused():
    fit = br.models.CART(["a"], min_leaf=5).fit(larger(), random_seed=1)
    release = br.models.CART(["a"], min_leaf=5).fit(larger(2), random_seed=1).synthesize(m=1)
    table = larger()
    table["a"] = release.datasets[0]["a"].to_numpy()
    strange = br.Release(datasets=[table], synthesized=["a"])
    with pytest.raises(br.InputError, match="column 'a' in a leaf .* that no record of it holds"):
        br.attribute_risk(fit, strange, intruder=br.Intruder(knows_records="none"))


def test_the_belief_is_said_in_words():
    assert all(
        "the weight of one record" in IN_WORDS[way] for way in ("exact", "independent-releases")
    )
    assert "(an approximation)" in IN_WORDS["independent-releases"]
