"""Nested mixtures: labels against a twin, posteriors and evidence against sums over all labels."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln, gammaln, logsumexp
from scipy.stats import chisquare

import bayes_risk as br
from bayes_risk.evidence.contract import Targets
from bayes_risk.evidence.problem import AuditProblem
from bayes_risk.intruder.guesses import GuessSet
from bayes_risk.models.nested.completion import completed
from bayes_risk.models.nested.household_moves import move_households
from bayes_risk.models.nested.masses import Theta
from bayes_risk.models.nested.posterior import NestedHouseholds
from bayes_risk.models.nested.sampler import (
    add_counts,
    draw_nested_labels,
    impossible_by_size,
    sticks,
)
from bayes_risk.risk.membership.households import (
    HouseholdsPosterior,
    households_by_size,
    in_one_row,
)
from tests.models.test_nested_rules import HOUSEHOLD, coded
from tests.oracles.nested_households import (
    AGES,
    RELATE,
    RULES,
    TENURE,
    PriorDraws,
    drawn_theta,
    every,
    log_marginal,
    mass,
    possible,
    probability,
    table,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # short fits
Y = [("own", 50, ()), ("rent", 30, (("child", 10),)), ("own", 70, (("spouse", 50), ("child", 30)))]
FILES = [
    [("rent", 50, ()), ("own", 50, (("child", 30),)), ("own", 70, (("spouse", 50), ("child", 10)))],
    [("own", 30, ()), ("own", 30, (("spouse", 50),)), ("own", 50, (("spouse", 50), ("child", 10)))],
]
LONG = {"draws": 500, "tune": 100, "chains": 8, "thin": 2, "random_seed": 1}


def nested(**more):
    return br.models.NestedDPMPM(HOUSEHOLD, n_classes=2, n_members=2, **more)


def with_rules(rules=RULES):
    return nested(spouse="spouse", impossible=br.Impossible(rules))


def released(files=FILES):
    tables = [table(one) for one in files]
    return br.Release(
        datasets=tables, synthesized=["tenure", "relate", "age"], parameters="independent"
    )


def changed(household, member, **values):
    """A household, one of its persons with other values; member -1 is the head."""
    tenure, head, members = household
    if member < 0:
        return (values.get("tenure", tenure), values["age"], members)
    one = (values["relate"], values["age"])
    return (tenure, head, (*members[:member], one, *members[member + 1 :]))


def test_labels_and_counts_are_those_of_a_plain_twin():
    rng = np.random.default_rng(4)
    layout, _, persons = coded(Y * 5, None)
    theta, n, N = drawn_theta(rng, 3, F=3, M=2), len(persons.household), len(persons.member)
    u, v = rng.random(n), rng.random(N)
    label, classes = np.empty(n, np.int64), np.empty(N, np.int64)
    draw_nested_labels(u, v, persons[:4], theta, label, classes)
    counts = Theta(*(np.zeros(x.shape) for x in theta))
    add_counts(persons[:4], label, classes, counts)
    assert counts.pi.sum() == n and counts.phi.sum() == 2 * N and counts.lam.sum() == 2 * n
    each = theta.omega * theta.phi[persons.member].prod(axis=1)  # (N, F, M)
    of = np.repeat(np.arange(n), np.diff(persons.first))
    for i in range(n):
        w = theta.pi[persons.size[i]] * theta.lam[persons.household[i]].prod(axis=0)
        w = w * each[of == i].sum(axis=2).prod(axis=0)
        assert label[i] == np.searchsorted(np.cumsum(w / w.sum()), u[i])
        for j in np.flatnonzero(of == i):
            m = each[j, label[i]]
            assert classes[j] == np.searchsorted(np.cumsum(m / m.sum()), v[j])


def test_moves_of_households_leave_the_distribution_of_their_labels():
    """Three classes, four households, two that lack columns, as impossible ones do: against all."""
    more = [("rent", 50, (("child", 10), ("child", 30))), ("own", 70, ()), ("rent", 30, Y[1][2])]
    layout, _, persons = coded([*Y, *more], None)
    persons.household[4:, 0] = persons.member[5:, 1] = -1
    rng, (S, F, M) = np.random.default_rng(7), (3, 3, 2)
    classes, starts = np.array([0, 1, 0, 1, 1, 0]), (layout.of_household, layout.of_member)
    level, alpha, beta = prior = (0.7, 1.3, 0.4)

    def log_levels(rows, starts):
        total = 0.0
        for q in range(len(starts) - 1):
            n = np.array([(rows[:, q] == v).sum() for v in range(starts[q], starts[q + 1])]) + level
            total += gammaln(n).sum() - gammaln(n.sum())
            total += gammaln(level * len(n)) - len(n) * gammaln(level)
        return total

    def log_weights(n, a):
        after = n[::-1].cumsum()[::-1] - n
        return (betaln(1 + n[:-1], a + after[:-1]) - betaln(1, a)).sum()

    def log_p(labels):
        of = np.repeat(labels, np.diff(persons.first))
        sizes = [np.bincount(labels[persons.size == s], minlength=F) for s in range(S)]
        total = sum(log_weights(n, alpha) for n in sizes)
        for g in range(F):
            total += log_levels(persons.household[labels == g], starts[0])
            total += log_weights(np.bincount(classes[of == g], minlength=M), beta)
            for m in range(M):
                total += log_levels(persons.member[(of == g) & (classes == m)], starts[1])
        return total

    every = np.array(list(product(range(F), repeat=6)))
    of_data = [set(one[4:]) <= set(one[:4]) for one in every]  # classes of others alone stay so
    p = np.exp([log_p(one) for one in every]) * of_data
    label, seen, n, batches = np.zeros(6, np.int64), np.zeros((20, F**6)), 60_000, 20
    for t in range(n):
        move_households(rng, 5, 4, persons[:4], classes, (S, F, M), starts, prior, label)
        seen[t * batches // n, np.ravel_multi_index(label, (F,) * 6)] += batches / n
    assert (seen[:, ~np.array(of_data)] == 0).all()
    p = p / p.sum()
    often = p * n > 100
    z = (seen.mean(axis=0) - p)[often] / (seen.std(axis=0, ddof=1)[often] / batches**0.5)
    assert often.sum() > 100 and np.sqrt((z**2).mean()) < 1.3 and np.abs(z).max() < 6


def test_sticks_have_the_means_of_betas():
    counts = np.tile([5.0, 0.0, 2.0], (40_000, 1))
    weights, left = sticks(np.random.default_rng(5), counts, 0.5)
    first, second = 6 / 8.5, 1 / 3.5
    expected = [first, (1 - first) * second, (1 - first) * (1 - second)]
    error = weights.std(axis=0) / 200
    assert (np.abs(weights.mean(axis=0) - expected) < 4 * error).all()
    np.testing.assert_allclose(np.exp(left).prod(axis=1), weights[:, 2])


def test_open_columns_are_drawn_given_all_others():
    """Ages given tenure and relations; three persons, of whom one is the partner."""
    rng, many = np.random.default_rng(6), 20_000
    layout, rules, persons = coded([("own", 50, ()), Y[2]])
    theta = drawn_theta(rng, 2)
    chosen = persons._replace(
        household=np.repeat(persons.household[1:], many, axis=0),
        member=np.tile(persons.member, (many, 1)),
        first=2 * np.arange(many + 1),
        size=np.ones(many, np.int64),
    )
    columns = np.array([False, False, False, True])  # hid, tenure, relate, age
    made = completed(theta, rules, layout, chosen, columns, rng=rng)
    assert (made.member[:, 0] == chosen.member[:, 0]).all()
    ages = np.column_stack([made.household[:, 1] - 2, (made.member[:, 1] - 3).reshape(-1, 2)])
    counts = np.bincount(np.ravel_multi_index(ages.T, (4, 4, 4)), minlength=64)
    each = [
        ("own", head, (("spouse", a), ("child", b))) for head in AGES for a in AGES for b in AGES
    ]
    p = np.array([probability(one, theta, 1) * possible(one) for one in each])
    assert counts[p == 0].sum() == 0
    p, counts = p[p > 0] / p.sum(), counts[p > 0]
    big = p * many > 5
    assert (
        chisquare(
            np.append(counts[big], counts[~big].sum() + 1),
            (many + 1) * np.append(p[big], p[~big].sum() + 1 / (many + 1)) / (1 + 1 / (many + 1)),
        ).pvalue
        > 1e-4
    )


def test_predictives_are_sums_over_draws_of_whole_households():
    """Guesses that change one column or all; heads, also one who lives alone, and members."""
    fit = with_rules().fit(table(Y), draws=6, tune=5, chains=2, random_seed=1)
    values = list(product(TENURE, RELATE, AGES))
    listed = br.Listed(pd.DataFrame(values, columns=["tenure", "relate", "age"]))
    rng = np.random.default_rng(2)
    how = {"choose": rng, "knowing": rng}
    problem = AuditProblem.prepare(fit, released(FILES[:1]), None, listed, [0, 3, 4, 5], **how)
    (found,) = fit.posterior.predictives(problem.cases, rng=rng)
    weights, block = rng.random((12, 4)), slice(0, 4)
    log_own, log_sums = found.log_truth(block), found.log_sums(block, np.log(weights))
    theta = [fit.posterior.draws.theta(h) for h in range(12)]
    codes, counted = problem.cases.guesses.codes, problem.cases.guesses.counted
    for u, (i, member) in enumerate([(0, -1), (2, -1), (2, 0), (2, 1)]):
        own = np.array([probability(Y[i], t, len(Y[i][2])) for t in theta])
        each = [changed(Y[i], member, relate=r, age=a) for r in RELATE[1:] for a in AGES]
        if member < 0:  # of who lives alone the tenure too
            each = [changed(Y[i], -1, tenure=t, age=a) for t in TENURE for a in AGES]
            each = [one for one in each if i == 0 or one[0] == Y[i][0]]
        each = [one for one in each if possible(one)]
        whole = sum(np.array([probability(one, t, len(one[2])) for t in theta]) for one in each)
        np.testing.assert_allclose(log_own[:, u], np.log(own / whole), rtol=1e-5)
        assert counted[:, u].sum() > 1
        for a in np.flatnonzero(counted[:, u]):
            tenure, relation, age = codes[a, u]
            more = {"tenure": TENURE[tenure], "relate": RELATE[relation], "age": AGES[age]}
            one = changed(Y[i], member, **more)
            ratio = np.array([probability(one, t, len(one[2])) for t in theta]) / own
            sums = [(weights[b, u] * ratio[b]).sum() for b in np.split(np.arange(12), 4)]
            np.testing.assert_allclose(np.exp(log_sums[:, a, u]), sums, rtol=1e-9)


@pytest.mark.parametrize("with_them", [True, False])
def test_log_density_of_the_pymc_model_is_that_of_each_household(with_them):
    from bayes_risk.models.nested.pymc_nested import pymc_of_nested

    declared = replace(with_rules() if with_them else nested(), concentration_prior=(1.0, 1.0))
    fit = declared.fit(table(Y), sample=False)
    model, persons = fit.posterior.model, fit.posterior.persons
    logp = pymc_of_nested(model, persons, transformed=False).compile_logp(mode="FAST_COMPILE")
    rng = np.random.default_rng(3)
    theta = drawn_theta(rng, 3)
    alpha, beta = rng.gamma(2.0, size=2)
    v, w = theta.pi[:, :1], theta.omega[:, :1]
    lam, phi = np.split(theta.lam.T, [2], axis=1), np.split(np.moveaxis(theta.phi, 0, 2), [3], 2)
    point = {"concentration": alpha, "member_concentration": beta, "stick": v, "member_stick": w}
    point |= {f"levels_{k}": x for k, x in enumerate(lam)}
    point |= {f"member_levels_{k}": x for k, x in enumerate(phi)}
    by_hand = -alpha - beta
    by_hand += np.log(alpha * (1 - v) ** (alpha - 1)).sum()
    by_hand += np.log(beta * (1 - w) ** (beta - 1)).sum()
    by_hand += 2 * (gammaln(2) + gammaln(4)) + 4 * (gammaln(3) + gammaln(4))  # flat Dirichlets
    for s, one in enumerate(Y):
        by_hand += np.log(probability(one, theta, s))
        by_hand -= np.log(mass(1 + len(one[2]), theta, s, True)) if with_them else 0.0
    assert logp(point) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("rules", [RULES, RULES[:-1]])  # the last alone names the tenure
def test_nuts_agrees_with_sweeps(rules):
    fits = [
        with_rules(rules).fit(table(Y), **{**LONG, "draws": 1500, "chains": 16}),
        with_rules(rules).fit(
            table(Y), draws=800, tune=500, chains=4, random_seed=1, sampler="nuts"
        ),
    ]
    more = [("own", 50, ()), ("own", 30, (("child", 10),)), ("own", 70, (("spouse", 70),))]
    (one, first), (two, second) = (np.array(predictive(f, [*Y, *more])).T for f in fits)
    assert (np.abs(one - two) < 4 * np.hypot(first, second)).all()


@pytest.mark.check
def test_the_posterior_is_that_of_all_labels():
    fit = nested().fit(table(Y), **LONG)
    more = [("own", 50, ()), ("rent", 70, (("child", 10),))]
    exact = [log_marginal([*Y, one]) - log_marginal(Y) for one in more]
    found = predictive(fit, more)
    for value, (mean, error) in zip(exact, found, strict=True):
        assert abs(mean / np.exp(value) - 1) < 4 * error / mean


def predictive(fit, households):
    """Mean of p(household | theta) over draws, and its error between chains."""
    sizes = list(fit.posterior.model.layout.sizes)
    out = []
    for one in households:
        p = [
            probability(one, fit.posterior.draws.theta(h), sizes.index(1 + len(one[2])))
            for h in range(fit.n_draws)
        ]
        chains = np.array(p).reshape(fit.posterior.draws.n_chains, -1).mean(axis=1)
        out.append((chains.mean(), chains.std(ddof=1) / len(chains) ** 0.5))
    return out


def audited(fit, m, label, guesses, evidence):
    listed = br.Listed(pd.DataFrame(guesses, columns=["tenure", "relate", "age"]))
    return br.attribute_risk(
        fit,
        released(FILES[:m]),
        guesses=listed,
        targets=[label],
        evidence=evidence,
        random_seed=3,
    )


def test_households_are_targets_in_one_row():
    """Log densities of whole households, and sums over draws of those of others."""
    fit = with_rules().fit(table(Y), draws=6, tune=5, chains=2, random_seed=1)
    data, model = fit.microdata, fit.posterior.model
    whole = NestedHouseholds(model, fit._number, HOUSEHOLD)
    columns = np.array([1, 2, 3])
    (rows,) = (
        households_by_size(fit._number, whole.later(data.codes), data.codes[:, columns])[h]
        for h in (3,)
    )
    more = [("own", 70, (("spouse", 70), ("child", 10))), ("rent", 50, (("child", 10),) * 2)]
    people, number = whole.outside(table(more).iloc[::-1], data)
    others = in_one_row(
        people, households_by_size(number, whole.later(people), people[:, columns])[3], columns
    )
    profiles = in_one_row(data.codes, rows, columns)
    guesses = GuessSet.of(others[:, None])
    cases = Targets(profiles=profiles, record=rows[:, 0], columns=np.arange(9), guesses=guesses)
    (found,) = HouseholdsPosterior(fit.posterior, whole, 3, columns, 4).predictives(
        cases, rng=np.random.default_rng(1)
    )
    theta = [fit.posterior.draws.theta(h) for h in range(12)]
    own, *each = (
        np.array([probability(one, t, 2) / mass(3, t, 2, True) for t in theta])
        for one in (Y[2], *more)
    )
    block, weights = slice(0, 1), np.random.default_rng(2).random((12, 1))
    np.testing.assert_allclose(found.log_truth(block)[:, 0], np.log(own), rtol=1e-9)
    sums = np.exp(found.log_sums(block, np.log(weights)))[..., 0]
    for a, p in enumerate(each[::-1]):  # the rows of others stand in reverse order
        by_batch = [(weights[b, 0] * p[b] / own[b]).sum() for b in np.split(np.arange(12), 4)]
        np.testing.assert_allclose(sums[:, a], by_batch, rtol=1e-9)


@pytest.mark.slow
def test_membership_of_a_household_is_that_of_draws_of_the_prior():
    """Against all possible households of two persons, for one data set and for two."""
    prior = PriorDraws(150_000, (1, 2, 3), np.random.default_rng(7))
    fit = with_rules().fit(table(Y), **LONG)
    candidates = [Y[1], ("own", 70, (("spouse", 70),))]
    known = prior.log_p([Y[0], Y[2]])
    every_one = [one for one in every(2) if possible(one)]
    files = [prior.log_p(file) for file in FILES]

    def log_predictive(one, file, part):
        after = known[part] + file[part]
        return logsumexp(after + prior.log_p([one])[part]) - logsumexp(after)

    def exact(one, m, part):
        nothing = np.zeros(len(known))

        def log_r(y):
            base = log_predictive(y, nothing, part)
            return sum(log_predictive(y, file, part) - base for file in files[:m]), base

        mean = logsumexp([r + p for r, p in map(log_r, every_one)])
        return log_r(one)[0] - mean

    for m in (1, 2):
        who, others = br.Intruder(household="unknown"), table(candidates[1:])
        how = {"records": [1], "others": others, "alternatives": 2000, "random_seed": 3}
        found = br.membership(fit, released(FILES[:m]), intruder=who, **how).records
        assert found["member"].tolist() == [True, False]
        parts = np.array_split(np.arange(len(known)), 10)
        for k, one in enumerate(candidates):
            spread = np.std([exact(one, m, part) for part in parts]) / 10**0.5
            gap = found["log_bayes_factor"].iloc[k] - exact(one, m, np.arange(len(known)))
            assert abs(gap) < 4 * np.hypot(found["mcse"].iloc[k], spread), (m, k, gap)


def test_households_whose_persons_stand_in_another_order_are_the_same():
    """So that others who are the members are found out; the head's values come first."""
    codes, number = np.random.default_rng(5).integers(0, 9, (60, 3)), np.repeat(np.arange(20), 3)
    later, columns = np.tile([0, 1, 1], 20), np.arange(3)
    mixed = np.random.default_rng(6).permutation(60)
    one, other = (
        in_one_row(codes[at], households_by_size(number[at], later[at], codes[at])[3], columns)
        for at in (np.arange(60), mixed)
    )
    assert (one == other).all() and (one[:, :3] == codes[::3]).all()


def test_membership_of_households_and_what_it_refuses():
    df = table(Y * 4)
    fit = with_rules().fit(df, draws=20, tune=20, chains=2, random_seed=1)
    release, who = fit.synthesize(2, random_seed=1), br.Intruder(household="unknown")
    how = {"random_seed": 1, "alternatives": 10}
    others = table([("own", 30, ()), ("rent", 50, (("child", 10),)), *Y[2:]])
    found = br.membership(fit, release, intruder=who, records=[0, 2, 4], others=others, **how)
    assert found.records.index.tolist() == [0, 1, 3, 0, 1, 3]  # first persons; none twice
    assert found.summary().loc["members", "value"] == 3 and "others" not in found.assumptions
    some = br.membership(fit, release, intruder=who, records=[0, 2, 4], others=others[:3], **how)
    assert some.assumptions["others"] == "none of 3 persons"
    rates = some.records["false_positive_rate"]
    none = br.membership(fit, release, intruder=who, records=[0], others=others.iloc[:0], **how)
    assert none.member.all()
    assert rates.iloc[2] == 0.5  # three persons: compared with nobody, not in the curve
    assert some.summary().loc["auc", "value"] == pytest.approx(1 - rates.iloc[:2].mean())
    plain = br.models.DPMPM(3).fit(df.drop(columns="hid"), draws=20, tune=20, random_seed=1)
    of = br.Intruder(household="unknown", households=df["hid"])
    alone = br.membership(
        plain, plain.synthesize(2, random_seed=1), intruder=of, records=[0, 2], **how
    )
    assert alone.records.index.tolist() == [0, 1]
    for right, more in (
        ('give household="unknown"', {}),
        ("no household of as many", {"others": table([("own", 50, (("child", 10),) * 3)])}),
        ("others lacks column 'hid'", {"others": others.drop(columns="hid")}),
        ("exclude 1 households of others", {"others": table([("rent", 70, ())] + Y)}),
        ('"composition" is not offered', {"intruder": br.Intruder(household="composition")}),
    ):
        with pytest.raises(br.InputError, match=right):
            br.membership(fit, release, **({"intruder": who} if "others" in more else {}), **more)
    with pytest.raises(br.InputError, match="others is not offered for households"):
        br.membership(plain, plain.synthesize(1), intruder=of, others=df)


@pytest.mark.slow
@pytest.mark.parametrize("evidence", ["predictive", "refit"])
def test_evidence_is_that_of_all_labels(evidence):
    """The last member of the third household, for one data set and for two."""
    fit = nested().fit(table(Y), **LONG)
    guesses = [("own", "child", 30), ("own", "grandchild", 70)]
    each = [[*Y[:2], changed(Y[2], 1, relate=r, age=a)] for _, r, a in guesses]
    base = [log_marginal(one) for one in each]
    with_files = [[log_marginal([*one, *file]) for file in FILES] for one in each]
    for m in (1, 2):
        risk = audited(fit, m, 5, guesses, evidence)
        exact = [sum(w[:m]) - m * b for w, b in zip(with_files, base, strict=True)]
        gap = risk.log_evidence.sum(axis=0)[:, 0] - (np.array(exact) - exact[0])
        truth = int(risk.truth[0])
        assert truth == 0
        assert abs(gap[1]) < 4 * risk.mcse_log_evidence[1, 0]


@pytest.mark.slow
def test_evidence_under_rules_is_that_of_draws_of_the_prior():
    """A head, a partner and a child: the rules bind, and the mass of what is possible enters."""
    prior = PriorDraws(150_000, (1, 2, 3), np.random.default_rng(7))
    fit = with_rules().fit(table(Y), **LONG)
    cases = {  # label: household, member and its guesses
        3: (2, -1, [("own", "head", 70), ("own", "head", 50)]),
        4: (2, 0, [("own", "spouse", 50), ("own", "spouse", 70)]),
        5: (2, 1, [("own", "child", 30), ("own", "grandchild", 30)]),
    }
    files = [prior.log_p(file) for file in FILES]
    for label, (i, member, guesses) in cases.items():
        each = []
        for _, relation, age in guesses:
            one = changed(Y[i], member, relate=relation, age=age)
            assert possible(one)
            each.append(prior.log_p([*Y[:i], one, *Y[i + 1 :]]))
        for m in (1, 2):
            risk = audited(fit, m, label, guesses, "predictive")
            exact, error = prior_evidence(each, files[:m])
            other = 1 - int(risk.truth[0])  # listed guesses are sorted
            gap = risk.log_evidence.sum(axis=0)[other, 0] - exact
            assert abs(gap) < 4 * np.hypot(risk.mcse_log_evidence[other, 0], error)


def prior_evidence(each, files, batches=20):
    """Log evidence of the second guess against the first, and its error, by batches of draws."""

    def value(part):
        total = 0.0
        for log_p, sign in zip(each, (-1, 1), strict=True):
            own = logsumexp(log_p[part])
            total += sign * sum(logsumexp(log_p[part] + file[part]) - own for file in files)
        return total

    parts = np.array_split(np.arange(len(each[0])), batches)
    return value(np.arange(len(each[0]))), np.std([value(p) for p in parts]) / batches**0.5


@pytest.mark.slow
def test_persons_who_live_alone_are_audited_as_a_dpmpm_does():
    rng = np.random.default_rng(8)
    people = pd.DataFrame(
        {"hid": np.arange(60), "sex": rng.choice(["f", "m"], 60), "job": rng.choice([*"abc"], 60)}
    )
    alone = people.assign(relate=pd.Categorical(["head"] * 60, ["head", "other"]))
    own = br.Households("hid", relate="relate", head="head")
    how = {"draws": 300, "tune": 100, "chains": 4, "thin": 2, "random_seed": 2}
    fits = [
        br.models.NestedDPMPM(own, n_classes=4).fit(alone, **how),
        br.models.DPMPM(n_classes=4).fit(people[["sex", "job"]], **how),
    ]
    released = fits[1].synthesize(2, parameters="independent", random_seed=3)
    files = [alone.assign(**data) for data in released.datasets]
    columns = ["sex", "job", "relate"]
    other = br.Release(datasets=files, synthesized=columns, parameters="independent")
    guesses = br.Neighbourhood(1)
    risks = [
        br.attribute_risk(
            fit,
            release,
            targets=[0, 1, 2, 3],
            guesses=guesses,
            intruder=br.Intruder(knows_columns=known),
            evidence="predictive",
            random_seed=4,
        )
        for fit, release, known in ((fits[0], other, ["relate"]), (fits[1], released, ()))
    ]
    sums = [risk.log_evidence.sum(axis=0) for risk in risks]
    errors = [risk.mcse_log_evidence for risk in risks]
    sums, errors = (
        [x[:, risk.case] for x, risk in zip(y, risks, strict=True)] for y in (sums, errors)
    )
    gap, error = sums[0] - sums[1], np.hypot(*errors)
    assert (np.abs(gap) <= 4 * error).all()


def test_guesses_that_the_household_excludes_do_not_count():
    fit = with_rules().fit(table(Y), draws=20, tune=10, chains=2, random_seed=1)
    risk = br.attribute_risk(fit, released(FILES[:1]), targets=[3, 4, 5], random_seed=3)
    for label, member in ((3, -1), (4, 0), (5, 1)):
        for _, tenure, relation, age in risk.posterior(label)[
            ["tenure", "relate", "age"]
        ].itertuples():
            assert tenure == "own" and (relation == "head") == (member < 0)
            assert possible(changed(Y[2], member, relate=relation, age=age))


@pytest.mark.parametrize("columns", [None, ["age"]])
def test_releases_keep_sizes_and_rules(columns):
    df = table(Y * 6).sample(frac=1, random_state=1)
    df["hid"] = pd.Categorical(df["hid"], range(40)) if columns else df["hid"]
    fit = with_rules().fit(df, draws=20, tune=20, chains=2, random_seed=1)
    for made in fit.synthesize(2, columns, random_seed=2).datasets:
        assert (made["hid"] == df["hid"].to_numpy()).all()
        assert made["hid"].dtype.name == df["hid"].dtype.name
        assert ((made["relate"] == "head") == (df["relate"] == "head")).all()
        if columns:
            pd.testing.assert_frame_equal(made[["tenure", "relate"]], df[["tenure", "relate"]])
        for _, part in made.groupby("hid", observed=True):
            head = part[part["relate"] == "head"].iloc[0]
            rest = part[part["relate"] != "head"]
            members = tuple(zip(rest["relate"], rest["age"], strict=True))
            assert part["tenure"].nunique() == 1
            assert possible((head["tenure"], head["age"], members))


def test_chains_go_on_twice_as_far_apart_in_the_same_memory():
    one = with_rules().fit(table(Y), draws=9, tune=10, chains=2, random_seed=1).posterior
    two = one.doubled(rng=np.random.default_rng(2), n_jobs=2)
    assert two.thin == 2 * one.thin and two.n_draws == one.n_draws
    old, new = (x.draws.alpha.reshape(2, 9, 2) for x in (one, two))
    np.testing.assert_array_equal(new[:, :4], old[:, 1::2])
    assert (new[:, 4:] != old[:, 4:]).all()


REFUSED = {
    "is a str; give br.Households": lambda: br.models.NestedDPMPM("hid"),  # type: ignore[arg-type]
    "is a list; give Impossible": lambda: nested(impossible=[{"age": [10]}]),
    "a function is not offered": lambda: fitted(br.Impossible(lambda df: df["age"] == 10)),
    "impossible: rule 1 names 'mother.age'": lambda: fitted({"mother.age": [10]}),
    "difference as two numbers": lambda: fitted({"relate": "child", "age - head.age": [3]}),
    "give spouse, the partner's relation": lambda: fitted({"spouse.age": [10], "age": [10]}),
    "spouse='wife' is not a relation": lambda: nested(spouse="wife").fit(table(Y), sample=False),
    "spouse='head' is not a relation": lambda: nested(spouse="head").fit(table(Y), sample=False),
    "exclude 1 households of the original, one with": lambda: fitted(
        {"relate": "child", "head.age": [30]}
    ),
    "n_members": lambda: br.models.NestedDPMPM(HOUSEHOLD, n_members=0),
    "no column but households": lambda: br.models.NestedDPMPM(
        br.Households("hid", relate="relate", head="head")
    ).fit(table(Y)[["hid", "relate"]]),
}


def fitted(rule):
    rules = rule if isinstance(rule, br.Impossible) else br.Impossible([rule])
    return nested(impossible=rules).fit(table(Y), sample=False)


@pytest.mark.parametrize("words", REFUSED)
def test_refusals_say_what_is_right(words):
    with pytest.raises(br.InputError, match=words.replace("(", r"\(")):
        REFUSED[words]()


def test_releases_of_other_kinds_are_refused():
    fit = nested().fit(table(Y), sample=False)
    with pytest.raises(br.InputError, match="records is not offered"):
        fit.synthesize(1, records=[0, 1])
    part = fit.synthesize(1, ["age"], random_seed=1)
    with pytest.raises(br.InputError, match="the release keeps .'tenure', 'relate'."):
        br.attribute_risk(fit, part, targets=[0])
    heads = table(FILES[0])
    heads.loc[3, "relate"] = "child"
    with pytest.raises(br.InputError, match="release 1 has other heads than the original"):
        br.attribute_risk(fit, wrong(heads), targets=[0])
    two = table(FILES[0])
    two.loc[2, "tenure"] = "rent"
    with pytest.raises(br.InputError, match="two values of a household variable"):
        br.attribute_risk(fit, wrong(two), targets=[0])


def wrong(data):
    return br.Release(
        datasets=[data], synthesized=["tenure", "relate", "age"], parameters="independent"
    )


def test_a_probability_of_what_is_possible_may_be_rounded_above_one():
    posterior, rng = nested().fit(table(Y), sample=False).posterior, np.random.default_rng(1)

    class Rounded:
        def by_size(self):
            return np.full(len(posterior.model.layout.sizes), np.nextafter(1.0, 2.0))

    assert not impossible_by_size(posterior.model, posterior.persons, Rounded(), rng).any()
