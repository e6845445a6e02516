"""Chains of models: evidence of the parts added, against enumeration of all releases."""

from dataclasses import replace
from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.app.run import run_study, run_sweep
from bayes_risk.app.study.study import parse_study
from bayes_risk.models import CART, DPMPM, Chain, Marginals, Mixture, Regression

PRIOR = 0.5

# --- an oracle: Polya's urns --------------------------------------------------------------------


def urn(weights, drawn):
    """Log probability of draws one after another from shares that are Dirichlet (weights)."""
    return _urn(tuple(sorted(weights.items())), tuple(sorted(drawn)))  # in any order: exchangeable


@cache
def _urn(weights, drawn):
    weights, log_p = dict(weights), 0.0
    for value in drawn:
        total = sum(weights.values())
        if not weights.get(value, 0):
            return -np.inf
        log_p += np.log(weights[value] / total)
        weights[value] += 1
    return log_p


def in_leaves(y, tables, column, leaf):
    """Values drawn by the Bayesian bootstrap among the records of a leaf, tables of one share."""
    log_p, rows = 0.0, [row for z in tables for row in z]
    for where in {leaf(row) for row in rows}:
        held = [row[column] for row in y if leaf(row) == where]
        weights = {v: held.count(v) for v in held}
        log_p += urn(weights, [row[column] for row in rows if leaf(row) == where])
    return log_p


def of_margin(y, tables, column, levels="xy"):
    """Values drawn from the shares of a column, whose prior is Dirichlet."""
    own = [row[column] for row in y]
    weights = {v: PRIOR + own.count(v) for v in levels}
    return urn(weights, [row[column] for z in tables for row in z])


def of_k(row):
    return row["k"]


def of_a(row):
    return row["a"]


SMALL = pd.DataFrame({"a": list("xxyy"), "b": list("uvvv")})
KEPT = pd.DataFrame({"k": list("ppqq"), "a": list("xyyy"), "b": list("uvvu")})
SIX = pd.DataFrame({"k": list("pqpqpq"), "a": list("xxxyyy"), "b": list("uuvvvv")})
CHAINS = {  # table, parts, log p(Z | y) of tables of one share, leaves that the trees must have
    "margin, tree on it": (
        SMALL,
        [Marginals(PRIOR, ["a"]), CART(["b"], min_leaf=1)],
        lambda y, z: of_margin(y, z, "a") + in_leaves(y, z, "b", of_a),
        {1: of_a},
    ),
    "tree, margin": (
        KEPT,
        [CART(["a"], min_leaf=2), Marginals(PRIOR, ["b"])],
        lambda y, z: in_leaves(y, z, "a", of_k) + of_margin(y, z, "b", "uv"),
        {0: of_k},
    ),
    "two trees": (
        SIX,
        [CART(["a"], min_leaf=6), CART(["b"], min_leaf=3)],
        lambda y, z: in_leaves(y, z, "a", lambda row: 0) + in_leaves(y, z, "b", of_a),
        {0: lambda row: 0, 1: of_a},
    ),
}


def rows_of(table):
    return table.to_dict("records")


def releases_of(df, parts):
    """All releases of a small table; of a larger one those of a seed."""
    if len(df) > 4:
        return Chain(parts).fit(df, random_seed=1).synthesize(25, random_seed=2).datasets
    cells = list(product("xy", "uv"))
    every = product(cells, repeat=len(df))
    return [df.assign(a=[a for a, _ in z], b=[b for _, b in z]) for z in every]


@pytest.mark.parametrize("parameters", ["independent", "shared"])
@pytest.mark.parametrize("name", ["margin, tree on it", "tree, margin", "two trees"])
def test_evidence_is_that_of_enumeration(name, parameters):
    """Every release of four records (m = 1, all in one audit); pairs from one share (m = 2)."""
    df, parts, log_p, leaves = CHAINS[name]
    fit, y = Chain(parts).fit(df, random_seed=1), rows_of(df)
    for k, leaf in leaves.items():
        tree = fit.parts[k].fit.trees[0]
        pairs = {*zip(tree.node(fit.parts[k].table(fit.microdata.codes)), map(leaf, y))}  # noqa: B905
        assert len(pairs) == len({leaf(row) for row in y})
    files = [z for z in releases_of(df, parts) if log_p(y, [rows_of(z)]) > -np.inf]
    draws = [[z] for z in files]
    if parameters == "shared":
        draws = [[one, two] for one, two in zip(files[::17], files[5::17], strict=False)][:3]
    for tables in [files] if parameters == "independent" else draws:
        release = br.Release(datasets=tables, synthesized=["a", "b"], parameters=parameters)
        evidence = br.attribute_evidence(fit, release, guesses=br.Neighbourhood(2), random_seed=1)
        assert evidence.way == "parts" and evidence.found.log_evidence.shape[0] == (
            len(files) if parameters == "independent" else 1
        )
        rows = [rows_of(z) for z in tables]
        shown = [[z] for z in rows] if parameters == "independent" else [rows]
        for i, u in enumerate(evidence.case):
            guesses = evidence.cases.guesses.codes[:, u]
            decoded = [dict(zip("ab", ("xy"[a], "uv"[b]), strict=True)) for a, b in guesses]
            of_y = [y[:i] + [y[i] | values] + y[i + 1 :] for values in decoded]
            for l, z in enumerate(shown[:: 1 if i == 0 else 5]):
                each = [log_p(one, z) for one in of_y]
                want = np.array(each) - each[int(evidence.cases.guesses.truth[u])]
                np.testing.assert_allclose(
                    evidence.found.log_evidence[l * (1 if i == 0 else 5), :, u], want, atol=1e-9
                )


# --- models that a chain must equal --------------------------------------------------------------

PEOPLE = pd.DataFrame(
    {
        "sex": list("fmfmffmmfmfm"),
        "job": list("aabbcabcabca"),
        "area": list("xyxxyyxyxxyx"),
        "pay": [3.1, 2.0, 5.5, 4.1, 2.2, 6.3, 3.7, 4.4, 5.0, 2.9, 3.3, 4.8],
        "tax": [1.0, 0.7, 1.9, 1.2, 0.9, 2.2, 1.1, 1.6, 1.4, 1.2, 0.8, 1.7],
    },
    index=[f"P{k}" for k in range(12)],
)
JOBS = PEOPLE[["sex", "job", "area"]]
PAY = PEOPLE[["sex", "pay", "tax"]]
NEAR = {"pay": br.Grid(percent=10, n=3), "tax": br.Grid(percent=10, n=3)}
SHORT = {"draws": 40, "tune": 20, "chains": 2, "random_seed": 1}


def cart(*order):
    return CART(order, min_leaf=3)


EQUAL = {  # a model, a chain that is the same model, table, guesses, how both are fitted
    "one part": (cart("job", "area"), [cart("job", "area")], JOBS, None, {"random_seed": 1}),
    "trees": (cart("job", "area"), [cart("job"), cart("area")], JOBS, None, {"random_seed": 1}),
    "margins": (
        Marginals(),
        [Marginals(columns=["area"]), Marginals(columns=["job", "sex"])],
        JOBS,
        None,
        {},
    ),
    "mixtures of one class": (
        Marginals(),
        [
            DPMPM(1, columns=["sex"]),
            DPMPM(1, columns=["job"]),
            Mixture(n_classes=1, columns=["area"]),
        ],
        JOBS,
        None,
        SHORT,
    ),
    "regressions": (
        Regression({"pay": "1 + sex", "tax": "1 + pay"}),
        [Regression({"pay": "1 + sex"}), Regression({"tax": "1 + pay"})],
        PAY,
        NEAR,
        SHORT,
    ),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.check) if n.startswith("mix") else n for n in EQUAL],
)
def test_a_chain_of_the_columns_of_a_model_is_the_model(name):
    model, parts, df, guesses, how = EQUAL[name]
    one = model.fit(df, **(how if name != "mixtures of one class" else {}))
    chain = Chain(parts).fit(df, **how)
    release = one.synthesize(2, Chain(parts).synthesizes(list(df)), random_seed=1)
    how = {"guesses": guesses or br.Neighbourhood(2), "random_seed": 1}
    both = [br.attribute_evidence(fit, release, **how) for fit in (one, chain)]
    for prior in ("uniform", "predictive"):
        mine, theirs = (of.risk(prior) for of in both)
        p = mine.records["probability"], theirs.records["probability"]
        np.testing.assert_allclose(*p, rtol=1e-9)
        if theirs.by_column is not None and mine.by_column is not None:
            pd.testing.assert_frame_equal(
                mine.by_column, theirs.by_column.loc[mine.by_column.index]
            )
    assert (theirs.by_column is None) == (mine.by_column is None)


def test_rows_of_nobody_are_taken_as_the_parts_take_them():
    """Any number of rows, all columns drawn: of margins to the digit."""
    one = Marginals().fit(JOBS)
    chain = Chain([Marginals(columns=["sex", "area"]), Marginals(columns=["job"])]).fit(JOBS)
    release = chain.synthesize(2, n=20, random_seed=1)
    risks = [br.attribute_risk(fit, release, random_seed=1) for fit in (one, chain)]
    np.testing.assert_allclose(*(r.records["probability"] for r in risks), rtol=1e-9)
    with pytest.raises(br.InputError, match="column 'sex' stays"):
        Chain([Marginals(columns=["job"]), cart("area")]).fit(JOBS).synthesize(1, n=20)


def test_a_guess_of_a_predictor_moves_later_parts():
    """A tree on the guessed column alone: its evidence is not that of the first part."""
    df = JOBS[["job", "area"]]
    chain = Chain([Marginals(columns=["job"]), CART(["area"], min_leaf=1)]).fit(df, random_seed=1)
    release = chain.synthesize(1, random_seed=3)
    evidence = br.attribute_evidence(chain, release, guesses=br.Neighbourhood(2), random_seed=1)
    assert evidence.factors == ("job", "area")
    of_job, of_area = evidence.found.by_column[:, 0]  # (G, U)
    guesses = evidence.cases.guesses
    own = guesses.codes[guesses.truth, np.arange(len(evidence.cases)), 1]
    other_job = (guesses.codes[..., 1] == own) & (guesses.codes[..., 0] != guesses.codes[0, :, 0])
    assert other_job.any() and np.ptp(of_area - of_area[0], axis=0)[other_job.any(axis=0)].max() > 0
    together = of_job + of_area
    np.testing.assert_allclose(evidence.found.log_evidence[0], together - together[0], atol=1e-12)


# --- releases -----------------------------------------------------------------------------------


def test_parts_draw_on_the_released_columns_before_them():
    """Trees with one record a leaf hand the released job of a record on to its twin."""
    df = JOBS.assign(twin=JOBS["job"])[["job", "twin"]]
    chain = Chain([Marginals(columns=["job"]), CART(["twin"], min_leaf=1)]).fit(df, random_seed=1)
    for table in chain.synthesize(3, random_seed=5).datasets:
        assert (table["twin"].astype(str) == table["job"].astype(str)).all()
        assert (table["job"] != df["job"]).any()


def test_seeds_records_and_columns_of_a_release():
    chain = Chain([cart("job"), Regression({"pay": "1 + job"})]).fit(PEOPLE, **SHORT)
    first, again = (chain.synthesize(2, random_seed=4) for _ in range(2))
    pd.testing.assert_frame_equal(first.datasets[1], again.datasets[1])
    some = chain.synthesize(1, records=["P3", "P7"], random_seed=4)
    table = some.datasets[0]
    changed = table.index[(table["pay"] != PEOPLE.loc[table.index, "pay"])]
    assert set(changed) == {"P3", "P7"} and some.records.sum() == 2
    later = chain.synthesize(1, columns=["pay"], random_seed=4)
    assert list(later.synthesized) == ["pay"]
    risk = br.attribute_risk(chain, later, guesses={"pay": NEAR["pay"]}, random_seed=1)
    assert risk.by_column is None and risk.is_exact
    assert (
        "P3"
        in br.attribute_risk(
            chain, some, guesses={"job": br.Levels(), "pay": NEAR["pay"]}, random_seed=1
        ).records.index
    )


def test_missing_values_and_levels_that_nobody_has():
    df = JOBS.assign(job=JOBS["job"].where(JOBS.index != "P2"))
    chain = Chain([cart("job"), Marginals(columns=["area"])])
    fit = chain.fit(df, missing="level", levels={"area": list("xyz")}, random_seed=1)
    assert dict(zip(fit.microdata.columns, fit.microdata.n_levels, strict=True))["area"] == 3
    risk = br.attribute_risk(fit, fit.synthesize(2, random_seed=1), random_seed=1)
    assert np.isfinite(risk.records["probability"]).all()


def test_a_mixture_is_led_by_the_release_as_it_is_alone():
    """The evidence of the mixture's column is its own, and so are its modes."""
    chain = Chain([DPMPM(2, columns=["job"]), cart("area")])
    with pytest.warns(br.TruncationWarning):
        fit = chain.fit(JOBS, **SHORT)
    release = fit.synthesize(2, random_seed=1)
    assert release.parameters == "one-mode" == fit.parameters[0]
    evidence = br.attribute_evidence(fit, release, random_seed=1)
    assert evidence.found.modes is not None and evidence.found.deviations.shape[0] == 3
    assert "job predictive; area exact" in evidence.words["evidence"]
    assert evidence.factors == ("job", "area") and fit.diagnostics["draws"] == 40


# --- refusals ------------------------------------------------------------------------------------

PARTS = {
    "parts; give a list of models": lambda: Chain([]),
    r"parts; give a list": lambda: Chain(cart("job")),
    "column 'job' is drawn by part 1 too": lambda: Chain([cart("job"), Marginals(columns=["job"])]),
    r"part 1 of the chain \(PMM\): cannot be in a chain": lambda: Chain(
        [br.models.PMM(["job"], identifying=["sex"])]
    ),
    "names no columns": lambda: Chain([cart("job"), DPMPM()]),
    "impossible is not offered in a chain": lambda: Chain(
        [DPMPM(columns=["job"], impossible=br.Impossible([{"job": "a"}]))]
    ),
    "exposure is not offered in a chain": lambda: Chain(
        [Mixture(families={"pay": "normal"}, exposure="tax", columns=["pay", "tax"])]
    ),
    "is for a DataFrame": lambda: Marginals(columns=["sex"]).fit(br.Microdata.from_frame(JOBS)),
    "parts names column 'nope'": lambda: Chain([cart("nope")]).fit(PEOPLE),
    "which sees sex, area, pay, tax: formulas names column 'job'": lambda: Chain(
        [Regression({"pay": "1 + job"}), cart("job")]
    ).fit(PEOPLE),
    "column 'pay' is a category to part 1 of the chain and a number to part 2": lambda: Chain(
        [DPMPM(columns=["job"]), cart("area")]
    ).fit(PEOPLE, sample=False),
    "draw parameters in no common way": lambda: Chain(
        [CART(["job"], bootstrap="none", floor=0.01), DPMPM(columns=["area"])]
    ).fit(JOBS, sample=False),
}


@pytest.mark.parametrize("message", PARTS)
def test_parts_that_do_not_fit_are_refused_by_name(message):
    with pytest.raises(br.InputError, match=message):
        PARTS[message]()


def test_what_parts_lack_is_refused_by_name():
    columns = [Marginals(columns=["area", "sex"]), cart("job")]
    fit = Chain(columns).fit(JOBS, random_seed=1)
    release = fit.synthesize(1, random_seed=1)
    for ask in (br.full_table_risk, br.likeliest):
        with pytest.raises(br.InputError, match="Chain"):
            ask(fit, release, targets=["P0"])
    with pytest.raises(br.InputError, match="not offered by Chain"):
        br.attribute_risk(fit, release, evidence="refit")
    with pytest.raises(br.InputError, match='classes="own" and groups are not offered'):
        br.attribute_risk(fit, replace(release, classes="own"))


STUDY = {
    "model": {
        "kind": "Chain",
        "parts": [
            {"kind": "CART", "order": ["limited"], "min_leaf": 50},
            {"kind": "DPMPM", "columns": ["health"], "n_classes": 1},
        ],
        "draws": 20,
        "tune": 10,
        "chains": 2,
    },
    "data": {"demo": "visits", "columns": ["coinsurance", "limited", "health"]},
    "release": {"m": 1},
    "attribute": {"targets": 20},
}


def test_a_study_names_the_parts():
    run = run_study(parse_study(STUDY))
    assert "part 2 (health)" in run.attribute.assumptions["synthesis"]
    for part, message in (
        ({"kind": "PMM"}, "Marginals"),
        ({"kind": "CART", "order": ["health"], "draws": 3}, "no key 'draws'"),
    ):
        wrong = STUDY | {"model": {"kind": "Chain", "parts": [part]}}
        with pytest.raises(br.InputError, match=message):
            parse_study(wrong)


def test_the_budget_of_refits_is_that_of_the_audit(monkeypatch):
    """What the caller gives reaches each part; the wanted error is divided among them."""
    from bayes_risk.models import chain as module

    rng = np.random.default_rng(1)
    df = pd.DataFrame({c: rng.choice(list("ab"), 30) for c in "axy"})
    fit = br.models.Chain([br.models.CART(["x"]), br.models.CART(["y"])]).fit(df, random_seed=1)
    release, seen = fit.synthesize(1, random_seed=2), []
    choose = module.choose_method

    def chosen(problem):
        way = choose(problem)
        run = lambda runner, cases, budget: seen.append(budget) or way.run(runner, cases, budget)  # noqa: E731
        return SimpleNamespace(name=way.name, offer=way.offer, run=run)

    monkeypatch.setattr(module, "choose_method", chosen)
    br.attribute_risk(fit, release, refit_budget=3, target_mcse=0.02, max_doublings=2)
    assert seen and {tuple(one) for one in seen} == {(0.02 / 2**0.5, 2, 3)}


# --- sweeps ---------------------------------------------------------------------------------------


def test_a_sweep_of_a_chain_is_audits_of_it():
    """Fewer data sets, other knowledge, and other parts, which are fitted anew."""
    parts = [cart("job"), Marginals(columns=["area"])]
    larger = [CART(["job"], min_leaf=12), Marginals(columns=["area"])]
    fits = [Chain(of).fit(JOBS, random_seed=1) for of in (parts, larger)]
    release = fits[0].synthesize(2, random_seed=2)
    found = br.sensitivity(
        fits[0],
        release,
        over={
            "m": [1, 2],
            "knows_columns": {"no": (), "job": ("job",)},
            "hyper": {"parts": {"own": parts, "larger": larger}},
        },
        refit=lambda model: model.fit(JOBS, random_seed=1),
        random_seed=4,
    ).dataset["mean_probability"]
    base = {"m": 2, "knows_columns": "no", "hyper parts": "own"}
    assert dict(found.sizes) == {name: 2 for name in base} and int(found.notnull().sum()) == 4
    for setting, fit, files, who in (
        ({}, fits[0], release, None),
        ({"m": 1}, fits[0], release.first(1), None),
        ({"knows_columns": "job"}, fits[0], release, br.Intruder(knows_columns=["job"])),
        ({"hyper parts": "larger"}, fits[1], release, None),
    ):
        how = {"intruder": who, "prior": "uniform", "random_seed": 4}
        risk = br.attribute_risk(fit, files, **how)
        own = risk.summary().loc["mean_probability", "value"]
        assert float(found.sel(base | setting)) == pytest.approx(own, rel=1e-12)
    assert len(np.unique(found.to_numpy()[found.notnull()].round(9))) == 4


def test_a_study_sweeps_over_a_chain():
    parts = [{"kind": "CART", "order": ["limited"]}, {"kind": "Marginals", "columns": ["health"]}]
    sweep = {"m": [1, 2], "priors": ["uniform", "predictive"], "knows_columns": [[], ["health"]]}
    model = {"kind": "Chain", "parts": parts}
    study = STUDY | {"model": model, "release": {"m": 2}, "sweep": sweep}
    found = run_sweep(parse_study(study), progress=False).sensitivity
    assert dict(found.dataset.sizes) == {"m": 2, "prior": 2, "knows_columns": 2}
    with pytest.raises(br.InputError, match="knows no record: part 1 of the chain"):
        parse = parse_study(study | {"sweep": {"knows_records": ["all-but-target", "none"]}})
        run_sweep(parse, progress=False)
