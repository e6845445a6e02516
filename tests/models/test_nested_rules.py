"""Households that cannot be: the mass of all others in closed form, and draws of both kinds."""

import numpy as np
import pytest
from scipy.stats import chisquare

import bayes_risk as br
from bayes_risk.models.nested.masses import Masses, Theta, drawn_households, drawn_impossible
from bayes_risk.models.nested.rules import (
    coded_households,
    household_layout,
    households_in,
    rules_of,
)
from bayes_risk.models.nested.sampler import add_counts
from tests.oracles.nested_households import (
    AGES,
    RELATE,
    RULES,
    TENURE,
    drawn_theta,
    every,
    mass,
    possible,
    probability,
    table,
)

HOUSEHOLD = br.Households("hid", relate="relate", head="head", variables=["tenure"])


def coded(households, impossible=RULES, spouse="spouse"):
    data = coded_households(table(households), HOUSEHOLD)
    layout = household_layout(data, HOUSEHOLD, np.bincount(data.codes[:, 0]))
    rules = rules_of(data, layout, impossible and br.Impossible(impossible), spouse)
    return layout, rules, households_in(data.codes, layout, data.codes[:, 0])


def test_rules_are_those_of_python():
    households = [*every(1), *every(2), *every(3)]
    some = np.random.default_rng(1).choice(len(households), 900, replace=False)
    chosen = [households[k] for k in some]
    _, rules, persons = coded(chosen)
    expected = [possible(one) for one in chosen]
    np.testing.assert_array_equal(rules.allow(persons), expected)
    assert 50 < np.sum(expected) < 850


def test_cells_that_the_rest_of_a_household_allows():
    one = ("own", 50, (("child", 10), ("spouse", 30)))
    layout, rules, persons = coded([one, ("own", 50, ())])
    names = rules.members.levels()  # relation without the head, age
    for j in range(2):
        found = rules.allowed(persons, 0, j)
        for c, (r, a) in enumerate(names):
            members = list(one[2])
            members[j] = (("spouse", "child", "grandchild")[r], (10, 30, 50, 70)[a])
            assert found[c] == possible((one[0], one[1], tuple(members)))
    heads = rules.heads.levels()
    for b, (tenure, age) in enumerate(heads):
        with_head = (("own", "rent")[tenure], (10, 30, 50, 70)[age], one[2])
        assert rules.allowed(persons, 0, None)[b] == possible(with_head)


@pytest.mark.parametrize("with_rules", [True, False])
def test_the_mass_of_possible_households_is_the_sum_of_all(with_rules):
    sizes = (1, 2, 3, 4, 5)
    layout, rules, _ = coded([every(h)[0] for h in sizes], RULES if with_rules else None)
    theta = drawn_theta(np.random.default_rng(2), len(sizes))
    found = Masses.of(theta, rules, layout).by_size()
    for s, h in enumerate(sizes):
        if with_rules or h < 5:
            assert found[s] == pytest.approx(mass(h, theta, s, with_rules), rel=1e-12)


def test_households_are_drawn_as_often_as_they_are_probable():
    rng, some = np.random.default_rng(3), [every(h)[0] for h in (1, 2, 3)]
    layout, rules, _ = coded(some)
    theta, n = drawn_theta(rng, 3), 40_000
    many = np.array([n, n, n])
    found = drawn_households(Masses.of(theta, rules, layout), many, rng=rng)
    household, member = found.household - layout.of_household[:-1], found.member
    member = member - layout.of_member[:-1]
    for s, h in enumerate((1, 2, 3)):
        inside = np.flatnonzero(found.size == s)
        codes = [household[inside, 0] * 4 + household[inside, 1]]
        for j in range(h - 1):
            at = member[found.first[inside] + j]
            codes.append(at[:, 0] * 4 + at[:, 1])
        shape = (8, *[12] * (h - 1))
        counts = np.bincount(np.ravel_multi_index(codes, shape), minlength=np.prod(shape))
        p = np.array([probability(x, theta, s) * possible(x) for x in every(h)])
        assert counts[p == 0].sum() == 0
        order = np.argsort(p)[::-1]
        top = order[p[order] * n / p.sum() > 8]
        rest = np.setdiff1d(np.flatnonzero(p), top)
        seen = [*counts[top], counts[rest].sum()] if len(rest) else counts[top]
        share = [*p[top], p[rest].sum()] if len(rest) else p[top]
        assert chisquare(seen, n * np.array(share) / p.sum()).pvalue > 1e-4


@pytest.mark.parametrize(("size", "of_tenure"), [(1, True), (2, True), (3, True), (3, False)])
def test_impossible_households_are_counted_up_to_the_member_by_whom_they_are(size, of_tenure):
    """A column that no rule names is not counted at all."""
    rng, n = np.random.default_rng(4), 40_000
    layout, rules, _ = coded([every(h)[0] for h in (1, 2, 3)], RULES if of_tenure else RULES[:-1])
    theta = drawn_theta(rng, 3)
    masses, many = Masses.of(theta, rules, layout), n * (np.arange(3) == size - 1)
    found, *more = drawn_impossible(masses, many, True, rng=rng)
    again = Theta(*(np.zeros(x.shape) for x in theta))
    add_counts(more[0][:4], *more[1:], again)
    for x, y in zip(found, again, strict=True):
        np.testing.assert_array_equal(x, y)
    expected, total = [], 0.0
    for one in every(size):
        if possible(one, of_tenure):
            continue
        tenure, head, members = one
        seen = next(t for t in range(size) if not possible((tenure, head, members[:t]), of_tenure))
        own = [TENURE.index(tenure), 2 + AGES.index(head)]
        rows = [(RELATE.index(r) - 1, 3 + AGES.index(a)) for r, a in members]
        each = [theta.omega * theta.phi[r] * theta.phi[a] for r, a in rows]  # (F, M)
        p = theta.pi[size - 1] * theta.lam[own].prod(axis=0)
        p = p * np.prod([x.sum(axis=1) for x in each], axis=0)
        counts = type(theta)(*(np.zeros(x.shape) for x in theta))
        counts.pi[size - 1] = p
        counts.lam[own if of_tenure else own[1:]] = p
        for (r, a), x in zip(rows[:seen], each[:seen], strict=True):
            share = p[:, None] * x / x.sum(axis=1, keepdims=True)
            counts.omega[:] += share
            counts.phi[r] += share
            counts.phi[a] += share
        expected.append(counts)
        total += p.sum()
    for k, name in enumerate(theta._fields):
        p = np.sum([x[k] for x in expected], axis=0) / total
        error = np.sqrt(max(size - 1, 1) * p / n)  # of a count of at most so many
        assert (np.abs(found[k] / n - p) <= 5 * error).all(), name
