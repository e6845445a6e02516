"""Chains of models: membership, and intruders who do not know all records, by enumeration."""

from itertools import combinations_with_replacement, product

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp

import bayes_risk as br
from bayes_risk.models import CART, DPMPM, Chain, Marginals, Regression
from tests.helpers.fits import encoded
from tests.oracles.regression_oracle import Normal, columns_of, with_values
from tests.oracles.weaker_oracle import grid

pytestmark = pytest.mark.filterwarnings("ignore::bayes_risk.TruncationWarning")

SHORT = {"draws": 40, "tune": 20, "chains": 2, "random_seed": 1}
SMALL = pd.DataFrame({"a": list("xxyyx"), "b": list("uvvvu")})
CELLS = [*product("xy", "uv")]
MARGINS = [DPMPM(1, columns=["a"]), DPMPM(1, columns=["b"])]
PAID = pd.DataFrame({"a": list("xxyyxy"), "pay": [1.0, 1.4, 3.2, 2.5, 0.7, 2.9]})
PAY = [DPMPM(1, columns=["a"]), Regression({"pay": "1 + C(a)"})]


def share(values, levels, more=()):
    """Log probability of values of a column with a uniform Dirichlet prior, of ``more`` given."""
    before = np.array([1.0 + list(more).count(v) for v in levels])
    after = before + [list(values).count(v) for v in levels]
    both = [gammaln(x).sum() - gammaln(x.sum()) for x in (after, before)]
    return both[0] - both[1]


def margins(values, more=()):
    """The same of rows (a, b), the columns independent."""
    return sum(
        share([r[c] for r in values], levels, [r[c] for r in more])
        for c, levels in enumerate(("xy", "uv"))
    )


def rows(df):
    return [tuple(row) for row in df.to_numpy()]


@pytest.mark.parametrize(
    ("m", "known"), [(1, [0, 2]), (1, []), pytest.param(2, [0, 2], marks=pytest.mark.check)]
)
def test_rows_that_are_not_known_are_summed_over(m, known):
    """p(Z^(1..m) | y*, y_A) by all values of the unknown records; of two files they are shared."""
    fit = Chain(MARGINS).fit(SMALL, **SHORT | {"draws": 200 * m})
    release = fit.synthesize(m, parameters="independent", random_seed=3)
    who = br.Intruder(knows_records=known or "none")
    how = {"guesses": br.Neighbourhood(2), "intruder": who, "random_seed": 1}
    evidence = br.attribute_evidence(fit, release, **how)
    y, files = rows(SMALL), [rows(z) for z in release.datasets]
    value, mcse = evidence.found.log_evidence.sum(axis=0), evidence.found.mcse()
    for i, u in enumerate(evidence.case):
        told = [y[j] for j in known if j != i]
        others = len(y) - len(told) - 1
        want = []
        for code in evidence.cases.guesses.codes[:, u]:
            given = [("xy"[code[0]], "uv"[code[1]]), *told]
            terms = [
                margins(some, given) + sum(margins(z, [*some, *given]) for z in files)
                for some in product(CELLS, repeat=others)
            ]
            want.append(logsumexp(terms))
        truth = int(evidence.cases.guesses.truth[u])
        gap = np.abs(value[:, u] - (np.array(want) - want[truth]))
        assert (gap <= 1e-9 + 5 * mcse[:, u]).all()
    assert mcse.max() < (1e-9 if m == 1 else 0.1)


def test_a_regression_on_a_column_that_is_not_known_adds():
    """One file: the unknown record's level is summed over, and its number integrated."""
    fit = Chain(PAY).fit(PAID, **SHORT)
    release = fit.synthesize(1, random_seed=3)
    known, i = [0, 1, 3, 4], 5  # record 2 is not known
    guesses = {"a": br.Levels(), "pay": br.Grid(percent=20, n=3)}
    how = {"intruder": br.Intruder(knows_records=known), "guesses": guesses, "random_seed": 1}
    evidence = br.attribute_evidence(fit, release, targets=[i], **how)
    table, z = columns_of(PAID), columns_of(release.datasets[0])
    model = Normal("pay", lambda c: np.column_stack([np.ones(len(c["a"])), c["a"] == "y"]))
    points, log_widths = grid(2.0, 0.3, 120)
    want = []
    for code in evidence.cases.guesses.codes[:, 0]:
        star = with_values(table, i, {"a": "xy"[int(code[0])], "pay": code[1]})
        seen = {c: v[[*known, i]] for c, v in star.items()}
        a = list(seen["a"])
        before, terms = model.log_marginal(table, seen), []
        for level in "xy":
            of_a = share([level], "xy", a) + share(z["a"], "xy", [level, *a])
            row = {"a": np.array([level])}
            of_pay = [
                model.log_marginal(table, seen, row | {"pay": np.array([x])}, z) for x in points
            ]
            terms.append(of_a + logsumexp(np.array(of_pay) + log_widths))
        want.append(logsumexp(terms) - before)
    found = evidence.found.log_evidence[0, :, 0]
    truth = int(evidence.cases.guesses.truth[0])
    np.testing.assert_allclose(found, np.array(want) - want[truth], atol=1e-6)
    assert evidence.way == "parts" and evidence.found.deviations.shape[0] == 2


@pytest.mark.parametrize("m", [1, 2])
def test_membership_is_that_of_enumeration(m):
    """Bayes factors against all people whom the model would draw, who are the same in all files."""
    fit = Chain(MARGINS).fit(SMALL, **SHORT)
    release = fit.synthesize(m, parameters="independent", random_seed=3)
    others = pd.DataFrame(CELLS, columns=["a", "b"], index=[f"o{k}" for k in range(4)])
    found = br.membership(fit, release, others=others, random_seed=1)
    y, files = rows(SMALL), [rows(z) for z in release.datasets]
    log_bf = {}
    for i in range(len(y)):
        rest = y[:i] + y[i + 1 :]
        ratio = np.array([sum(margins(z, [c, *rest]) for z in files) for c in CELLS])
        log_p = [margins([c], rest) for c in CELLS]
        log_bf[i] = ratio - logsumexp(ratio + log_p)
    own = [log_bf[i][CELLS.index(y[i])] for i in range(len(y))]
    theirs = np.mean([log_bf[i] for i in range(len(y))], axis=0)
    np.testing.assert_allclose(found.log_bayes_factor, [*own, *theirs], atol=1e-9)


def test_membership_adds_over_a_regression():
    """Of one file: exact ratios of shares and of normal regressions, within Monte Carlo error."""
    fit = Chain(PAY).fit(PAID, **SHORT | {"draws": 500})
    release = fit.synthesize(1, random_seed=3)
    found = br.membership(fit, release, random_seed=1, refit_budget=0)
    table, z = columns_of(PAID), columns_of(release.datasets[0])
    model = Normal("pay", lambda c: np.column_stack([np.ones(len(c["a"])), c["a"] == "y"]))
    want = []
    for i in range(len(PAID)):
        rest = {c: np.delete(v, i) for c, v in table.items()}
        a = list(rest["a"])
        of_a = share(z["a"], "xy", list(table["a"])) - share(z["a"], "xy", a)
        with_i = model.log_marginal(table, table, z) - model.log_marginal(table, table)
        want.append(
            of_a + with_i - model.log_marginal(table, rest, z) + model.log_marginal(table, rest)
        )
    gap = (found.log_bayes_factor - want) / found.mcse
    assert (np.abs(gap) < 4).all() and found.mcse.max() < 0.6


@pytest.mark.parametrize("known", [None, 0.5])
def test_a_chain_of_one_part_is_the_part(known):
    """To the byte: the same fits, predictives and refits from the same seed."""
    chain = Chain([DPMPM(2, columns=["a", "b"])]).fit(SMALL, **SHORT)
    release, alone = chain.synthesize(2 - (known is not None), random_seed=3), chain.parts[0].fit
    who = None if known is None else br.Intruder(knows_records=known)
    both = [
        br.membership(fit, release, intruder=who, others=SMALL.iloc[:2], random_seed=1)
        for fit in (alone, chain)
    ]
    for name in ("log_bayes_factor", "mcse", "khat", "ess", "measures"):
        np.testing.assert_array_equal(*(getattr(of, name) for of in both))


def refused(parts, df, message, m=1, more=(), **how):
    """Of who knows nobody; ``more``: other questions of the same fit."""
    fit = Chain(parts).fit(df, **SHORT)
    release = fit.synthesize(m, random_seed=1, **how)
    nobody = br.Intruder(knows_records="none")
    for ask, words, who in [(br.attribute_risk, message, nobody), *more]:
        with pytest.raises(br.InputError, match=words):
            ask(fit, release, intruder=who)


@pytest.mark.check
def test_what_does_not_add_is_refused_with_its_reason():
    tree = [DPMPM(1, columns=["a"]), CART(["b"], min_leaf=2)]
    lacking = r"part 2 of the chain \(CART\) has no predictives, which {} needs; use"
    more = [
        (br.membership, lacking.format("membership"), None),
        (br.attribute_risk, lacking.format("in_file"), br.Intruder(in_file=0.1)),
    ]
    refused(tree, SMALL, r"part 2 of the chain \(CART\) shows how many records lie", more=more)
    shared = r"part 2 of the chain \(Regression\) is given 'a', and m = 2 data sets share"
    refused(PAY, PAID, shared, m=2)
    kept = "column 'a' of a part stays as it is, and reveals something of the other columns"
    refused(PAY, PAID, kept, columns=["pay"])
    counts = [Marginals(columns=["a"]), Marginals(columns=["b"])]
    refused(counts, SMALL, r"part 1 of the chain \(Marginals\): m = 2 data sets", m=2)
    logit = [DPMPM(1, columns=["a"]), Regression({"b": "1 + C(k)"})]
    kept = SMALL.assign(k=list("ppqqp"))
    refused(logit, kept, r"part 2 of the chain \(Regression\) cannot impute", m=2)


def test_a_part_that_made_nothing_is_counted_in_the_number_of_another():
    fit = Chain([Marginals(columns=["a"]), CART(["b"], min_leaf=2)]).fit(SMALL, **SHORT)
    release = encoded(fit, fit.synthesize(1, columns=["b"], random_seed=1))
    can = fit.capabilities(release, br.Intruder(in_file=0.1))
    assert can["predictive"].refusal.startswith("part 2 of the chain (CART) has no predictives")


# --- a target who may not be in the file ----------------------------------------------------------


@pytest.mark.parametrize(("m", "releases"), [pytest.param(1, 10, marks=pytest.mark.check), (2, 1)])
def test_who_may_not_be_in_the_file_by_enumeration(m, releases):
    """pi p(Z|y*,A) + (1-pi) sum over y' of p(y'|A) p(Z|y',A): all files (m = 1), one pair."""
    df, pi = SMALL.iloc[[0, 2]], 0.2
    fit, y = Chain(MARGINS).fit(df, **SHORT), rows(df)
    files = [*combinations_with_replacement(CELLS, len(df))]
    several = [[z] for z in files] if m == 1 else [*zip(files, files[4:], strict=False)]
    who, cells = br.Intruder(in_file=pi), br.Listed(pd.DataFrame(CELLS, columns=["a", "b"]))
    for tables in several[:releases]:
        shown = [pd.DataFrame(z, columns=["a", "b"]) for z in tables]
        release = br.Release(datasets=shown, synthesized=["a", "b"], parameters="independent")
        how = {"intruder": who, "guesses": cells, "random_seed": 1}
        risk = br.attribute_risk(fit, release, prior="uniform", **how)
        for i, u in enumerate(risk.case):
            rest = y[:i] + y[i + 1 :]
            own = np.array([sum(margins(z, [c, *rest]) for z in tables) for c in CELLS])
            other = logsumexp(own + [margins([c], rest) for c in CELLS])
            want = np.logaddexp(np.log(pi) + own, np.log1p(-pi) + other)
            of = [CELLS.index(("xy"[a], "uv"[b])) for a, b in risk.guesses[:, u]]
            want = np.exp(want - logsumexp(want))[of]
            np.testing.assert_allclose(np.exp(risk.log_probability[:, u]), want, atol=1e-12)
        assert risk.mcse.max() < 1e-9


@pytest.mark.parametrize("m", [1, pytest.param(2, marks=pytest.mark.check)])
def test_who_may_not_be_in_the_file_over_a_regression(m):
    """The other person's number is integrated; evidence within its Monte Carlo error."""
    fit, pi = Chain(PAY).fit(PAID, **SHORT | {"draws": 500}), 0.3
    release = fit.synthesize(m, parameters="independent", random_seed=3)
    guesses = {"a": br.Levels(), "pay": br.Grid(percent=20, n=3)}
    how = {"guesses": guesses, "intruder": br.Intruder(in_file=pi), "random_seed": 1}
    evidence = br.attribute_evidence(fit, release, targets=[1, 4], **how)
    table, files = columns_of(PAID), [columns_of(z) for z in release.datasets]
    model = Normal("pay", lambda c: np.column_stack([np.ones(len(c["a"])), c["a"] == "y"]))
    points, log_widths = grid(2.0, 0.3, 120)
    for i, u in zip([1, 4], evidence.case, strict=True):
        rest = {c: np.delete(v, i) for c, v in table.items()}

        def log_p(level, x, rest=rest):
            """Log p(y'|A), and sum over files of log p(Z|y',A)."""
            one = {"a": np.array([level]), "pay": np.array([x])}
            a, before = [*rest["a"], level], model.log_marginal(table, rest)
            both = model.log_marginal(table, rest, one)
            at = share([level], "xy", rest["a"].tolist()) + both - before
            of = [
                share(z["a"], "xy", a) + model.log_marginal(table, rest, one, z) - both
                for z in files
            ]
            return at, sum(of)

        every = [log_p(level, x) for level in "xy" for x in points]
        other = logsumexp([sum(both) for both in every] + np.tile(log_widths, 2))
        want = []
        for code in evidence.cases.guesses.codes[:, u]:
            own = log_p("xy"[int(code[0])], code[1])[1]
            want.append(np.logaddexp(np.log(pi) + own, np.log1p(-pi) + other))
        found = evidence.found.log_evidence.sum(axis=0)[:, u]
        truth = int(evidence.cases.guesses.truth[u])
        gap = np.abs(found - (np.array(want) - want[truth]))
        assert (gap <= 1e-9 + 4 * evidence.found.mcse()[:, u]).all()
    assert evidence.way == "in-file" and evidence.found.mcse().max() < 0.4


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_a_chain_of_one_part_is_the_part_for_who_may_not_be_in_the_file():
    """To the byte, refitted too; sampled on, its lots of chains are put together another way."""
    chain = Chain([DPMPM(2, columns=["a", "b"])]).fit(SMALL, **SHORT)
    release = chain.synthesize(2, random_seed=3)
    how = {"intruder": br.Intruder(in_file=0.3), "target_mcse": 1e-6, "refit_budget": 2}
    for doublings in (0, 1):
        one, other = (
            br.attribute_risk(fit, release, max_doublings=doublings, random_seed=1, **how)
            for fit in (chain.parts[0].fit, chain)
        )
        if not doublings:
            for name in ("log_probability", "deviations", "khat", "ess"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    moved = np.abs(one.records["probability"] - other.records["probability"])
    assert 0 < moved.max() and (moved < 0.5 * one.records["mcse"]).all()
