"""Intruders who know no member of the target's household: against sums over all guesses of it."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp

import bayes_risk as br
from bayes_risk.evidence.contract import Targets
from bayes_risk.evidence.household import HouseholdPredictive
from bayes_risk.evidence.runner import EvidenceRunner
from bayes_risk.intruder.guesses import GuessSet
from bayes_risk.models.nested.posterior import NestedHouseholds
from tests.helpers.against import agree, each
from tests.models.test_nested import FILES, LONG, Y, nested, released, with_rules
from tests.oracles.nested_households import PriorDraws, log_marginal, mass, possible, probability
from tests.oracles.nested_households import table as persons
from tests.oracles.regression_oracle import Normal, columns_of, guess_values, with_values

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # short fits
GUESSES = [("own", "head", 50), ("own", "child", 10), ("own", "spouse", 70)]
SHORT = {"draws": 20, "tune": 10, "chains": 2, "random_seed": 1}


def audited(fit, release, household, targets, columns=("tenure", "relate", "age"), **more):
    listed = br.Listed(pd.DataFrame(GUESSES, columns=["tenure", "relate", "age"])[[*columns]])
    return br.attribute_risk(
        fit,
        release,
        guesses=br.Listed(listed.table.drop_duplicates(), add_truth=True),
        intruder=br.Intruder(household=household),
        targets=targets,
        random_seed=3,
        **more,
    )


def wholes(household, composition, rules=lambda one: True):
    """All guesses of a household by name of what its persons have: the head first."""
    tenure, head, members = household
    truth = [("head", head), *members]
    options = []
    for relation, age in truth:
        some = [(relation, a) if composition else (r, a) for _, r, a in GUESSES]
        some = [x for x in some if (x[0] == "head") == (relation == "head")]
        options.append(sorted({(relation, age), *some}))
    tenures = sorted({tenure, *(t for t, _, _ in GUESSES)})
    found = {}
    for t, chosen in product(tenures, product(*options)):
        one = (t, chosen[0][1], tuple(chosen[1:]))
        if rules(one) and all((t, *c) in allowed(tenure, truth, j) for j, c in enumerate(chosen)):
            found[(t, *chosen)] = one
    return found


def allowed(tenure, truth, j):
    """Guesses of person j: listed values with the own relation too, and the truth."""
    each = {(t, r, a) for t, r, a in GUESSES} | {(t, truth[j][0], a) for t, _, a in GUESSES}
    return each | {(tenure, *truth[j])}


def summed(before, after, own):
    """Log evidence by a person's guess, of logs before and after the release, all guesses."""
    out = {}
    for guess in set(own):
        at = [k for k, one in enumerate(own) if one == guess]
        out[guess] = logsumexp(after[at]) - logsumexp(before[at])
    return out


def against(risk, member, before, after, names, errors=0.0):
    """The evidence of an audit of one person beside what is right, in standard errors."""
    exact = summed(before, after, [(name[0], *name[1 + member]) for name in names])
    labels = [v.name for v in risk.variables]
    true = int(risk.truth[0])
    frame = risk.posterior(risk.index[0])
    rows = {}
    for g in np.flatnonzero(np.isfinite(risk.log_prior[:, 0])):
        levels = [v.levels[int(c)] for v, c in zip(risk.variables, risk.guesses[g, 0], strict=True)]
        rows[g] = dict(zip(labels, levels, strict=True))
    assert len(rows) == len(exact) == len(frame)
    own = rows[true]

    def key(row):
        return next(k for k in exact if all(v in k for v in row.values()))

    checked = 0
    for g, row in rows.items():
        if g != true:
            gap = risk.log_evidence.sum(axis=0)[g, 0] - (exact[key(row)] - exact[key(own)])
            assert abs(gap) < 4 * np.hypot(risk.mcse_log_evidence[g, 0], errors)
            checked += 1
    assert checked


@pytest.mark.slow
@pytest.mark.parametrize("household", ["unknown", "composition"])
def test_members_who_are_not_known_are_summed_out(household, monkeypatch):
    """Three households of one to three persons, two classes of each kind; m = 1 and 2."""
    fit, composition = nested().fit(persons(Y), **LONG), household == "composition"
    columns = ("tenure", "age") if composition else ("tenure", "relate", "age")
    for i, labels in ((1, (1, 2)), (2, (3, 4, 5))):
        every = wholes(Y[i], composition)
        tables = [[*Y[:i], one, *Y[i + 1 :]] for one in every.values()]
        before = np.array([log_marginal(one) for one in tables])
        seen = np.array([[log_marginal([*one, *file]) for one in tables] for file in FILES])
        for m in (1, 2):
            after = before + (seen[:m] - before).sum(axis=0)
            for member, label in enumerate(labels):
                risk = audited(fit, released(FILES[:m]), household, [label], columns)
                against(risk, member, before, after, list(every))
                if household == "unknown":  # and by fits without the household
                    with monkeypatch.context() as patch:
                        patch.setattr(EvidenceRunner, "threshold", -1.0)
                        risk = audited(fit, released(FILES[:m]), household, [label], columns)
                    assert (risk.khat == 0).all()
                    against(risk, member, before, after, list(every))


def test_households_with_poor_weights_are_left_out_of_fits(monkeypatch):
    monkeypatch.setattr(EvidenceRunner, "threshold", -1.0)
    fit = with_rules().fit(persons(Y), **SHORT)
    how = {"household": "unknown", "targets": [1, 2, 3, 4]}
    one, again, none = (
        audited(fit, released(), refit_budget=budget, **how) for budget in (2, 2, 0)
    )
    assert (one.khat == 0).sum() == 2 and (none.khat != 0).all()
    same = one.khat != 0
    assert np.array_equal(one.log_evidence, again.log_evidence)
    assert np.array_equal(one.log_evidence[..., same], none.log_evidence[..., same])
    assert not np.array_equal(one.log_evidence[..., ~same], none.log_evidence[..., ~same])


@pytest.mark.slow
def test_rules_between_members_who_are_not_known():
    prior = PriorDraws(150_000, (1, 2, 3), np.random.default_rng(7))
    fit, every = with_rules().fit(persons(Y), **LONG), wholes(Y[2], True, possible)
    logs = np.array([prior.log_p([*Y[:2], one]) for one in every.values()])
    files = np.array([prior.log_p(file) for file in FILES])
    for m in (1, 2):

        def sums(part, m=m):
            before = logsumexp(logs[:, part], axis=1)
            each = [logsumexp(logs[:, part] + file[part], axis=1) for file in files[:m]]
            return before, before + sum(one - before for one in each)

        parts = np.array_split(np.arange(logs.shape[1]), 20)
        moved = [np.subtract(*sums(part)[::-1]) for part in parts]
        error = np.std([x - x[0] for x in moved], axis=0).max() / 20**0.5
        for member, label in enumerate((3, 4, 5)):
            risk = audited(fit, released(FILES[:m]), "composition", [label], ("tenure", "age"))
            against(risk, member, *sums(np.arange(logs.shape[1])), list(every), error)


def test_densities_of_households_are_those_of_plain_sums():
    fit = with_rules().fit(persons(Y), **SHORT)
    number = persons(Y)["hid"].to_numpy()
    joint = NestedHouseholds(fit.posterior.model, number, "relate")
    profiles = fit.microdata.codes[number == 2]
    columns = np.array([1, 2, 3])
    codes = np.repeat(profiles[None][:, :, columns], 4, axis=0)
    codes[1:, :, 2] = [[0], [1], [2]]  # ages
    members = Targets(
        profiles=profiles,
        record=np.flatnonzero(number == 2),
        columns=columns,
        guesses=GuessSet.of(codes),
    )
    index = np.array(list(product(range(4), repeat=3)))
    (terms,) = joint.terms(fit.posterior, members)
    part = HouseholdPredictive(terms, index, 0, terms.batch)
    ages, H = (70, 50, 30), fit.n_draws
    expected = np.empty((H, len(index)))
    for h in range(H):
        theta = fit.posterior.draws.theta(h)
        below = mass(3, theta, 2, True)
        for a, row in enumerate(index):
            head, s, c = ((ages[j], 10, 30, 50)[k] for j, k in enumerate(row))
            one = ("own", head, (("spouse", s), ("child", c)))
            expected[h, a] = probability(one, theta, 2) / below
    np.testing.assert_allclose(part.log_truth(slice(0, 1))[:, 0], np.log(expected[:, 0]))
    sums = part.log_sums(slice(0, 1), np.log(np.arange(1.0, H + 1))[:, None])[:, :, 0]
    weighted = expected / expected[:, :1] * np.arange(1.0, H + 1)[:, None]
    right = np.stack([weighted[terms.batch == b].sum(axis=0) for b in range(4)])
    np.testing.assert_allclose(sums, np.log(right))


def test_of_persons_who_live_alone_it_is_the_usual_audit():
    fits = [nested(), br.models.DPMPM(n_classes=1)]
    df = persons(Y)
    for model, more in zip(fits, ({}, {"households": df["hid"]}), strict=True):
        data = df if more == {} else df.drop(columns="hid")
        fit = model.fit(data, **SHORT)
        release = fit.synthesize(2, parameters="independent", random_seed=2)
        usual = br.Intruder(knows_columns=["relate"])
        unknown = br.Intruder(knows_columns=["relate"], household="unknown", **more)
        how = {"targets": [0], "random_seed": 4, "evidence": "predictive", "refit_budget": 0}
        one, other = (
            br.attribute_risk(fit, release, intruder=who, guesses=br.Neighbourhood(1), **how)
            for who in (usual, unknown)
        )
        if more == {}:  # both at the drawn parameters
            np.testing.assert_allclose(other.log_evidence[0], one.log_evidence.sum(axis=0))
            np.testing.assert_allclose(other.mcse_log_evidence, one.mcse_log_evidence, rtol=1e-4)
        assert "but those of the target's household" in other.assumptions["records"]


@pytest.mark.check
def test_persons_of_one_class_against_the_closed_form():
    """Dirichlet-multinomial: two members, two columns, each with all its guesses; m = 1 and 2."""
    rng = np.random.default_rng(5)
    df = pd.DataFrame({"sex": rng.choice([*"fm"], 30), "job": rng.choice([*"abc"], 30)})
    hid = pd.Series(np.repeat(np.arange(15), 2))
    fit = br.models.DPMPM(n_classes=1).fit(df, draws=500, tune=50, chains=8, thin=1, random_seed=1)
    release = fit.synthesize(2, parameters="independent", random_seed=2)
    codes = [fit.microdata.encode(one, "a release", ["sex", "job"]) for one in release.datasets]
    own = fit.microdata.codes

    def log_dm(*tables):
        rows, out = np.concatenate(tables), 0.0
        for j, d in enumerate((2, 3)):
            counts = np.bincount(rows[:, j].astype(int), minlength=d) + 1.0
            out += gammaln(counts).sum() - gammaln(counts.sum())
        return out

    cells = list(product(range(2), range(3)))
    joint = list(product(cells, cells))
    tables = [np.concatenate([np.array(one), own[2:]]) for one in joint]
    before = np.array([log_dm(t) for t in tables])
    for m in (1, 2):
        after = before + sum(np.array([log_dm(t, z) for t in tables]) - before for z in codes[:m])
        risk = br.attribute_risk(
            fit,
            br.Release(
                datasets=release.datasets[:m],
                synthesized=["sex", "job"],
                parameters="independent",
            ),
            guesses=br.Neighbourhood(2),
            intruder=br.Intruder(household="unknown", households=hid),
            targets=[0, 1],
            random_seed=3,
        )
        exact = [summed(before, after, [one[u] for one in joint]) for u in range(2)]
        agree(risk, each(lambda i, guess, exact=exact: exact[i][guess]))


def test_persons_of_a_regression_against_the_closed_form():
    """A normal regression, twelve records in households of two, three values each; m = 1 and 2."""
    rng = np.random.default_rng(6)
    df = pd.DataFrame({"x": rng.normal(size=12).round(1)})
    df["y"] = (1 + 2 * df["x"] + rng.normal(size=12)).round(1)
    hid = pd.Series(np.repeat(np.arange(6), 2))
    prior = br.models.RegressionPrior(intercept=2.0, slopes=1.0, sigma2=(3.0, 2.0))
    fit = br.models.Regression({"y": "1 + x"}, priors={"y": prior}).fit(
        df, draws=4000, random_seed=1
    )
    files = [df.assign(y=(df["y"] + rng.normal(size=12)).round(1)) for _ in range(2)]
    of_rows = Normal(
        "y",
        lambda c: np.column_stack([np.ones(len(c["x"])), c["x"]]),
        intercept=2.0,
        slopes=1.0,
        a=3.0,
        b=2.0,
    )
    table = columns_of(df)
    for m in (1, 2):
        risk = br.attribute_risk(
            fit,
            br.Release(datasets=files[:m], synthesized=["y"], parameters="independent"),
            guesses={"y": br.Grid(additive=1.5, n=3)},
            intruder=br.Intruder(household="unknown", households=hid),
            targets=[2, 3],
            random_seed=2,
        )
        assert (risk.khat < 0.7).all()
        values = [[one["y"] for one in guess_values(risk, int(u))] for u in risk.case]
        joint = list(product(*values))
        both = [with_values(with_values(table, 2, {"y": a}), 3, {"y": b}) for a, b in joint]
        before = np.array([of_rows.log_marginal(table, one) for one in both])
        seen = [[of_rows.log_marginal(table, one, columns_of(z)) for one in both] for z in files]
        after = before + (np.array(seen[:m]) - before).sum(axis=0)
        exact = [summed(before, after, [one[k] for one in joint]) for k in range(2)]
        _, error = agree(risk, each(lambda i, guess, exact=exact: exact[i - 2][guess[0]]))
        assert 10 * error.max() < min(np.ptp(list(of.values())) for of in exact)


@pytest.mark.parametrize("bootstrap", ["bayesian", "none"])
@pytest.mark.parametrize("size", [2, 3])
def test_members_under_known_trees_against_counts_of_whole_tables(bootstrap, size):
    """Two trees, the second split by what the first makes; households share leaves; m = 1 and 2."""
    rng, n = np.random.default_rng(size), 42
    df = pd.DataFrame({c: rng.choice([*"abc"][:d], n) for c, d in (("x", 3), ("s", 2), ("j", 3))})
    df["j"] = np.where(rng.random(n) < 0.7, df["s"], df["j"])
    df = df.sort_values("x", ignore_index=True)  # members stand in the same leaves
    hid, columns = pd.Series(np.repeat(np.arange(n // size), size)), ["s", "j"]
    fit = br.models.CART(columns, min_leaf=4, bootstrap=bootstrap).fit(df, random_seed=1)
    release, own = fit.synthesize(2, random_seed=2), fit.microdata.codes.astype(int)
    codes = [fit.microdata.encode(one, "a release", ["x", "s", "j"]) for one in release.datasets]
    assert all(tree.n_leaves > 1 for tree in fit.trees)

    def log_p(y, z):
        total = 0.0
        for tree in fit.trees:
            of_y, of_z = tree.leaf(y), tree.node(z)
            for node in np.unique(of_z):
                a, b = (
                    np.bincount(t[at == node, tree.column].astype(int), minlength=3)
                    for t, at in ((y, of_y), (z, of_z))
                )
                if (b[a == 0] > 0).any():
                    return -np.inf
                a, b = a[a > 0].astype(float), b[a > 0]
                if bootstrap == "none":
                    total += (b * np.log(a / a.sum())).sum()
                else:
                    total += (gammaln(a + b) - gammaln(a)).sum()
                    total += gammaln(a.sum()) - gammaln(a.sum() + b.sum())
        return total

    def log_prior(y, record, others):
        total, known = 0.0, np.setdiff1d(np.arange(n), others)
        for tree, d in zip(fit.trees, (2, 3), strict=True):
            same = tree.leaf(y[known]) == tree.leaf(y[[record]])
            agree = same & (y[known, tree.column] == y[record, tree.column])
            total += np.log((agree.sum() + 1 / d) / (same.sum() + 1))
        return total

    cells = list(product(range(2), range(3)))
    for first in (0, 3 * size):
        rows = np.arange(first, first + size)
        joint, before, seen = list(product(cells, repeat=size)), [], []
        for one in joint:
            y = own.copy()
            y[rows, 1:] = one
            before.append(sum(log_prior(y, i, rows) for i in rows))
            seen.append([log_p(y, z.astype(int)) for z in codes])
        for m in (1, 2):
            risk = br.attribute_risk(
                fit,
                replace(release, datasets=release.datasets[:m]),
                guesses=br.Neighbourhood(4),
                intruder=br.Intruder(household="unknown", households=hid),
                targets=rows.tolist(),
            )
            assert risk.assumptions["evidence"].startswith("household-exact")
            after = np.array(before) + np.array(seen)[:, :m].sum(axis=1)
            exact = [summed(np.array(before), after, [x[k] for x in joint]) for k in range(size)]
            gap, error = agree(risk, each(lambda i, g, of=exact, at=first: of[i - at][g]))
            assert not error.any() and len(gap) >= size


def test_persons_who_live_alone_under_known_trees_are_the_usual_audit():
    """Whatever the trees are of: categories that may be missing, and numbers."""
    rng, n = np.random.default_rng(3), 60
    df = pd.DataFrame({"x": rng.choice([*"abc"], n), "s": rng.choice([*"fm"], n)})
    df = df.assign(age=rng.integers(20, 60, n))
    df.loc[3, "s"] = None
    fit = br.models.CART(["s", "age"]).fit(df, missing="level", random_seed=1)
    release, guesses = fit.synthesize(2, random_seed=2), {"age": br.Grid(additive=4, n=3)}
    one, other = (
        br.attribute_risk(fit, release, guesses=guesses, intruder=who).records
        for who in (None, br.Intruder(household="unknown", households=pd.Series(np.arange(n))))
    )
    np.testing.assert_allclose(one["probability"], other["probability"], rtol=1e-12)
    assert one["probability"].nunique() > 5


def test_what_the_intruder_knows_is_checked(monkeypatch):
    monkeypatch.setattr("bayes_risk.evidence.household.MOST", 1_000)
    df = persons(Y)
    fit = nested().fit(df, sample=False)
    plain = br.models.DPMPM(n_classes=2).fit(df.drop(columns="hid"), sample=False)
    both = {"household": "unknown", "households": df["hid"]}
    refused = {
        "is not known; give one of": lambda: br.Intruder(household="none"),
        "leave out knows_records and in_file": lambda: br.Intruder(
            knows_records="none", household="unknown"
        ),
        "households has no effect": lambda: br.Intruder(households=df["hid"]),
        "must be a Series": lambda: br.Intruder(household="unknown", households=[1]),
        "needs the household of each record": lambda: asked(plain, household="unknown"),
        "has no relations": lambda: asked(plain, **{**both, "household": "composition"}),
        "households differs from column 'hid' of the model; leave it out": lambda: asked(
            fit, household="unknown", households=df["hid"].replace({0: 1})
        ),
        "more than 1,000 guesses": lambda: asked(fit, br.Neighbourhood(3), household="unknown"),
        "evidence='refit' is not offered|evidence=\"refit\"": lambda: asked(
            fit, br.Neighbourhood(1), "refit", household="unknown"
        ),
    }
    for words, ask in refused.items():
        with pytest.raises(br.InputError, match=words):
            ask()
    other = br.models.Marginals().fit(df.drop(columns="hid"))
    with pytest.raises(br.InputError, match="Marginals does not offer household="):
        asked(other, **both)


def test_what_is_known_of_the_household_is_a_sentence_of_its_own():
    assert br.Intruder(household="composition", knows_columns=["sex"]).in_words() == (
        "The intruder knows every record but those of the target's household and the target's sex. "
        "Of that household the size and the relations to the head are known."
    )


def asked(fit, guesses=None, evidence=None, **knows):
    who = br.Intruder(**knows)
    release = released(FILES[:1])
    if "hid" not in fit.microdata.columns:
        data = [one.drop(columns="hid") for one in release.datasets]
        release = br.Release(
            datasets=data, synthesized=release.synthesized, parameters="independent"
        )
    return br.attribute_risk(
        fit, release, intruder=who, guesses=guesses, evidence=evidence, targets=[5]
    )
