"""Values that change over waves: all paths by brute force, limits, errors, refusals."""

import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln

import bayes_risk as br
from bayes_risk._core.batches import in_batches, standard_error
from bayes_risk.models import DPMPM, Marginals
from bayes_risk.risk.join import check_earlier, joined_evidence
from tests.evidence.test_join import LEVELS, differ_as_stated, gathered, log_p, table
from tests.evidence.test_join import released as release_of

MOVES = pd.DataFrame(
    [[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.3, 0.3, 0.4]], index=LEVELS, columns=LEVELS
)
PRIORS = (0.7, 1.5, 3.0)


def released(values, k, levels=LEVELS):
    return release_of(table(values, levels), maker=f"wave {k}")


def by_paths(tables, files, i, first, moves, levels=LEVELS, seen=(0, 1, 2)):
    """Posterior of record i at every wave: the sum over all paths."""
    found = np.zeros((len(tables), len(levels)))
    for path in product(range(len(levels)), repeat=len(tables)):
        log_w = np.log(first[path[0]])
        for s, step in enumerate(moves):
            log_w = log_w + np.log(step[path[s], path[s + 1]])
        for t in seen:
            values = list(tables[t])
            values[i] = levels[path[t]]
            log_w += log_p(PRIORS[t], [files[t]], values, levels)
        for t, g in enumerate(path):
            found[t, g] += np.exp(log_w)
    return found / found.sum(axis=1, keepdims=True)


def by_value(risk, i, levels=LEVELS, name="probability"):
    return risk.posterior(i).set_index("a")[name].loc[levels].to_numpy()


TABLES, FILES = ["xxyz", "xyyz", "zyyx"], ["xyyz", "yyyx", "zzyx"]
FIRST = {"x": 0.2, "y": 0.5, "z": 0.3}


def of_first(guesses):
    return np.array([FIRST[v] for v in guesses["a"]])


@pytest.fixture(scope="module")
def waves():
    each = zip(PRIORS, TABLES, FILES, strict=True)
    return [
        gathered(Marginals(p).fit(table(y)), released(z, k)) for k, (p, y, z) in enumerate(each)
    ]


@pytest.mark.parametrize("given", ["one table", "a table for each step", "file"])
def test_every_wave_by_all_paths(waves, given, tmp_path):
    """Four records, three values, three waves: the posterior at each given all releases."""
    steps = [MOVES, MOVES]
    if given == "a table for each step":
        steps = [MOVES, MOVES.T.div(MOVES.T.sum(axis=1), axis=0)]
    how = steps if given == "a table for each step" else {"a": MOVES}
    if given == "file":  # in another order
        MOVES.loc[LEVELS[::-1], LEVELS[::-1]].to_csv(tmp_path / "m.csv")
        how = pd.read_csv(tmp_path / "m.csv", index_col=0)
    for i in range(4):
        exact = by_paths(
            TABLES, FILES, i, [FIRST[v] for v in LEVELS], [m.to_numpy() for m in steps]
        )
        before = np.array([FIRST[v] for v in LEVELS])
        for wave in (1, 2, 3):
            risk = br.join(waves, prior=of_first, transition=how, wave=wave)
            np.testing.assert_allclose(by_value(risk, i), exact[wave - 1], rtol=1e-9)
            np.testing.assert_allclose(by_value(risk, i, name="prior"), before, rtol=1e-9)
            truth = LEVELS.index(TABLES[wave - 1][i])
            assert risk.records["probability"][i] == pytest.approx(exact[wave - 1, truth])
            if wave < 3:
                before = before @ steps[wave - 1].to_numpy()
    last = br.join(waves, prior=of_first, transition=how)
    assert last.records.equals(risk.records)
    assert last.is_exact and last.microdata is waves[2].microdata


def log_panel(pairs, levels):
    """log p(changes) with 1 / d for each new value of an old one: Dirichlet-multinomial by row."""
    d, total = len(levels), 0.0
    for old in levels:
        counts = np.array([pairs.count((old, new)) for new in levels])
        total += (gammaln(counts + 1 / d) - gammaln(1 / d)).sum() - gammaln(counts.sum() + 1.0)
    return total


def test_a_panel_is_that_of_the_other_records(waves):
    """Each record's changes under the others', by marginal likelihoods of all changes."""
    mixed = [replace(waves[0], index=waves[0].index), *waves[1:]]
    for i in range(4):
        moves = []
        for s in (0, 1):
            others = [p for k, p in enumerate(zip(TABLES[s], TABLES[s + 1], strict=True)) if k != i]
            log_w = [[log_panel([*others, (a, b)], LEVELS) for b in LEVELS] for a in LEVELS]
            moves.append(np.exp(np.array(log_w) - log_panel(others, LEVELS)))
            np.testing.assert_allclose(moves[-1].sum(axis=1), 1.0)
        exact = by_paths(TABLES, FILES, i, [1 / 3] * 3, moves)
        for wave in (1, 2, 3):
            risk = br.join(mixed, prior="uniform", transition="panel", wave=wave)
            np.testing.assert_allclose(by_value(risk, i), exact[wave - 1], rtol=1e-9)
    said = risk.assumptions["prior"]
    assert "at the first wave, from which on values change as those of the other records" in said
    assert "counts of changes, with a prior of one record for each old value" in said
    assert "Markov chain over 3 waves" in risk.assumptions["evidence"]


def test_summed_over_all_releases_the_posterior_is_the_prior():
    """All files of three waves, by their counts: probabilities sum to one, posteriors to v_3."""
    levels, tables = ["x", "y"], ["xx", "xy", "yy"]
    moves = pd.DataFrame([[0.8, 0.2], [0.3, 0.7]], levels, levels)
    files = ["xx", "xy", "yy"]
    each = []
    for t, (p, y) in enumerate(zip(PRIORS, tables, strict=True)):
        fit = Marginals(p).fit(table(y, levels))
        made = [released(z, f"{t} {z}", levels) for z in files]
        each.append([gathered(fit, z, targets=[0]) for z in made])
    first, mass, total = np.array([0.6, 0.4]), 0.0, np.zeros(2)
    for ks in product(range(3), repeat=3):
        joint = np.zeros(2)  # p(Z, y_3), by all paths; two files have the counts 1 and 1
        for path in product((0, 1), repeat=3):
            log_w = np.log(first[path[0]])
            for s in (0, 1):
                log_w += np.log(moves.to_numpy()[path[s], path[s + 1]])
            for t, k in enumerate(ks):
                log_w += log_p(PRIORS[t], [files[k]], levels[path[t]] + tables[t][1:], levels)
                log_w += np.log(1 + (k == 1))
            joint[path[2]] += np.exp(log_w)
        chosen = [of[k] for of, k in zip(each, ks, strict=True)]
        risk = br.join(chosen, prior=[0.6, 0.4], transition=moves)  # of guesses: the truth first
        np.testing.assert_allclose(by_value(risk, 0, levels), joint / joint.sum(), rtol=1e-9)
        mass += joint.sum()
        total += joint.sum() * by_value(risk, 0, levels)
    assert mass == pytest.approx(1.0)
    np.testing.assert_allclose(total, first @ np.linalg.matrix_power(moves.to_numpy(), 2))


@pytest.fixture(scope="module")
def pair():
    """Two columns of one table, and mechanisms of two kinds."""
    rng = np.random.default_rng(4)
    df = pd.DataFrame({"a": rng.choice(LEVELS, 30), "b": rng.choice(["u", "v"], 30)})
    fits = Marginals(0.7).fit(df), Marginals(2.0).fit(df)
    return [
        gathered(f, f.synthesize(2, random_seed=k), random_seed=k, guesses=br.Neighbourhood(2))
        for k, f in enumerate(fits)
    ]


def stays(values):
    return pd.DataFrame(np.eye(len(values)), values, values)


def test_values_that_stay_are_joined_as_one_table(pair):
    steps = {"b": stays(["u", "v"]), "a": stays(LEVELS)}
    for prior in ("uniform", "marginal", br.TruthFactor(3.0)):
        chain = br.join(pair, prior=prior, transition=steps)
        for wave in (1, 2):
            chain = br.join(pair, prior=prior, transition=steps, wave=wave)
            expected = br.join(pair[::-1] if wave == 1 else pair, prior=prior).records
            for name in ("prior", "probability", "rank", "log_bayes_factor"):
                np.testing.assert_allclose(chain.records[name], expected[name], rtol=1e-9)


def test_independent_waves_leave_the_last_one(pair):
    """Rows that are all equal: the last release under that row as the prior."""
    rows = {"a": [0.5, 0.2, 0.3], "b": [0.9, 0.1]}
    levels = {"a": LEVELS, "b": ["u", "v"]}
    steps = {c: pd.DataFrame([row] * len(row), levels[c], levels[c]) for c, row in rows.items()}
    p = {(a, b): x * y for a, x in zip(LEVELS, rows["a"], strict=True)
         for b, y in zip("uv", rows["b"], strict=True)}  # fmt: skip
    row = lambda g: np.array([p[pair] for pair in zip(g["a"], g["b"], strict=True)])  # noqa: E731
    chain = br.join(pair, prior="uniform", transition=steps)
    alone = pair[1].risk(row)
    for name in ("prior", "probability", "log_bayes_factor"):
        np.testing.assert_allclose(chain.records[name], alone.records[name], rtol=1e-9)


def test_more_waves_than_the_guesses_of_each():
    """Guesses centred on each wave's truth: paths through others are left out, and that is said."""
    rng = np.random.default_rng(1)
    tables = [
        pd.DataFrame({c: rng.choice(["u", "v"], 8) for c in "abc"}).astype("category")
        for _ in range(2)
    ]
    each = [
        gathered(f := Marginals().fit(y), f.synthesize(1, random_seed=k))
        for k, y in enumerate(tables)
    ]
    move = np.array([[0.8, 0.2], [0.4, 0.6]])
    steps = dict.fromkeys("abc", pd.DataFrame(move, ["u", "v"], ["u", "v"]))
    risk = br.join(each, prior="uniform", transition=steps)
    lost = []
    for i in range(8):
        own = [tuple("uv".index(v) for v in y.iloc[i]) for y in tables]
        near = [[c for c in product((0, 1), repeat=3) if sum(np.abs(np.subtract(c, y))) <= 1]
                for y in own]  # fmt: skip
        logs = [
            {tuple("uv".index(v) for v in row[list("abc")]): row["log_evidence"]
             for _, row in one.risk("uniform").posterior(i).iterrows()} for one in each
        ]  # fmt: skip
        p = dict.fromkeys(near[1], 0.0)
        for old, new in product(*near):
            change = np.prod([move[a, b] for a, b in zip(old, new, strict=True)])
            p[new] += change * np.exp(logs[0][old] + logs[1][new])
        assert risk.records["probability"][i] == pytest.approx(p[own[1]] / sum(p.values()))
        lost.append(1 - sum(np.prod([move[a, b] for a, b in zip(own[0], new, strict=True)])
                            for new in near[1]))  # fmt: skip
    said = f"and {100 * np.mean(lost):.1f} % of the changes from true values are to others"
    assert said in risk.assumptions["guesses"]


def test_people_of_some_waves_and_the_order_of_records(waves):
    """Labels decide; who is not in all waves is left out, and that is said."""
    order = [2, 0, 3, 1]
    later = [
        gathered(Marginals(p).fit(table(np.array(list(y))[order]).set_axis(order)), released(z, k))
        for k, (p, y, z) in enumerate(zip(PRIORS, TABLES, FILES, strict=True))
    ]
    whole = br.join(waves, prior="uniform", transition="panel").records
    turned = br.join([waves[0], later[1], waves[2]], prior="uniform", transition="panel").records
    pd.testing.assert_frame_equal(whole, turned, rtol=1e-9)
    some = gathered(Marginals(1.5).fit(table(TABLES[1])), released(FILES[1], 1), targets=[3, 1])
    risk = br.join([waves[0], some, waves[2]], prior="uniform", transition="panel")
    pd.testing.assert_frame_equal(risk.records, whole.loc[risk.index], rtol=1e-9)
    said = "2 records that are not in wave 3, or not audited in each that has them, are left out"
    assert said in risk.assumptions["guesses"]


ROTATING = ["ABCD", "ACE", "ABCEF"]


@pytest.mark.parametrize("given", ["table", "panel"])
def test_a_rotating_panel_by_all_paths(given):
    """Records that miss waves, at either end or between: every value there, and no evidence."""
    tables = ["xxyz", "xyz", "zyyxx"]
    files = ["xyyz", "yyx", "zzyxy"]
    tables = [dict(zip(who, y, strict=True)) for who, y in zip(ROTATING, tables, strict=True)]
    each = [
        gathered(Marginals(p).fit(table(y.values()).set_axis([*y])), released(z, k))
        for k, (p, y, z) in enumerate(zip(PRIORS, tables, files, strict=True))
    ]
    how = {"prior": of_first, "transition": MOVES if given == "table" else "panel"}
    moved = False
    for wave in (1, 2, 3):
        risk = br.join(each, wave=wave, **how)
        assert [*risk.index] == [*ROTATING[wave - 1]]
        for i in risk.index:
            own = [t for t in range(3) if i in tables[t]]
            steps = [MOVES.to_numpy()] * 2
            if given == "panel":
                steps = [np.full((3, 3), 1 / 3) for _ in range(2)]
                for step, old, new in zip(steps, tables, tables[1:], strict=False):
                    for k in set(old) & set(new) - {i}:
                        step[LEVELS.index(old[k]), LEVELS.index(new[k])] += 1
                    step /= step.sum(axis=1, keepdims=True)
            p = np.zeros(3)
            for path in product(range(3), repeat=3 - own[0]):
                at = dict(zip(range(own[0], 3), path, strict=True))
                w = FIRST[LEVELS[path[0]]]
                for s in range(own[0], 2):
                    w *= steps[s][at[s], at[s + 1]]
                for t in own:
                    values = [LEVELS[at[t]] if k == i else v for k, v in tables[t].items()]
                    w *= np.exp(log_p(PRIORS[t], [files[t]], values))
                p[at[wave - 1]] += w
            np.testing.assert_allclose(by_value(risk, i), p / p.sum(), rtol=1e-9)
            moved |= not np.allclose(p / p.sum(), by_value(each[wave - 1].risk(of_first), i))
    assert moved
    said = risk.assumptions
    assert "of 5 records 2 are not in wave 1, 2 are not in wave 2" in said["guesses"]
    assert "at the first wave that has the record" in said["prior"]
    gone = br.join(each, wave=2, **how).assumptions["guesses"]
    assert "3 records that are not in wave 2, or not audited in each that has them" in gone
    assert br.join(each[:2], wave=1, **how).mcse.max() == 0


def test_known_records_alone_are_counted():
    """An intruder who knows some records counts the changes of these."""
    rng = np.random.default_rng(0)
    tables = [table(rng.choice(LEVELS, 12)) for _ in range(2)]
    who = br.Intruder([0, 1, 2, 3, 4, 5])
    each = [
        gathered(f := Marginals().fit(y), f.synthesize(1, random_seed=k), intruder=who)
        for k, y in enumerate(tables)
    ]
    risk = br.join(each, prior="uniform", transition="panel")
    for i in (2, 9):
        seen = [k for k in range(6) if k != i]
        moves = np.full((3, 3), 1 / 3)
        for k in seen:
            moves[LEVELS.index(tables[0]["a"][k]), LEVELS.index(tables[1]["a"][k])] += 1
        moves /= moves.sum(axis=1, keepdims=True)
        first, last = (np.exp(by_value(e.risk("uniform"), i, name="log_evidence")) for e in each)
        p = (first @ moves) * last
        np.testing.assert_allclose(by_value(risk, i), p / p.sum(), rtol=1e-9)


# --- Monte Carlo errors --------------------------------------------------------------------------


def with_errors(exact, lacking):
    """Waves of which two have errors, as of fits with two and with four chains."""
    rng = np.random.default_rng(2)
    tables = [pd.DataFrame({c: rng.choice(list("pqr"), 14) for c in "ab"}) for _ in range(3)]
    each = []
    for k, (y, without) in enumerate(zip(tables, lacking, strict=True)):
        fit = Marginals().fit(y.drop(index=without))
        who = [i for i in range(4) if i not in without]
        one = gathered(fit, fit.synthesize(2, random_seed=k), targets=who)
        if k == exact:
            each.append(one)
            continue
        G, U = one.found.log_evidence.shape[1:]
        moved = 0.1 * rng.normal(size=(3, 4 + 2 * k, G, U)).astype(np.float32)
        moved -= moved[:, :, :1]  # the truth is the first guess
        moved -= moved.mean(axis=1, keepdims=True)
        base = one.base - one.base[0]
        found = replace(one.found, deviations=moved, base=base)
        each.append(replace(one, base=base, found=found))
    return each


@pytest.fixture(scope="module")
def sampled():
    return with_errors(1, [[], [], []])


def shifted(one, f, b, size):
    """The evidence as batch b of fit f alone would have it, but for a small size of the step."""
    found, base = one.found, (one.found.base, one.base)
    moved = size * found.deviations[f, b].astype(float) / len(found.log_evidence)
    if not f:
        base = [x + size * found.moved_base()[b] for x in base]
    found = replace(found, log_evidence=found.log_evidence + moved, base=base[0])
    return replace(one, base=base[1], found=found)


MIXED = br.MixedPrior([(0.5, "predictive"), (0.5, "uniform")])


@pytest.mark.parametrize(
    ("prior", "wave"), [("uniform", 2), ("predictive", 1), ("predictive", 3), (MIXED, 2)]
)
def test_errors_are_carried_along_the_chain(sampled, prior, wave):
    check_errors(sampled, prior, wave)


@pytest.mark.parametrize("exact", [0, 1])
@pytest.mark.check
def test_errors_of_records_that_miss_waves(exact):
    """The prior is that of the first wave of each: another fit moves it."""
    check_errors(with_errors(exact, [[0], [1], [2]]), "predictive", 3)


def check_errors(sampled, prior, wave):
    """Deviations of probability and log Bayes factor: finite differences of the whole join."""
    how = {"prior": prior, "transition": "panel", "wave": wave, "warn": False}
    risk, size = br.join(sampled, **how), 1e-4
    at, changed, B = risk.records, [], risk.deviations.shape[1]
    for t, one in enumerate(sampled):
        if not one.found.deviations.any():
            continue
        few = in_batches(one.found.deviations, B)  # the first wave has fewer chains
        one = replace(one, found=replace(one.found, deviations=few))
        for f in range(len(few)):
            rows = []
            for b in range(B):
                found = br.join([*sampled[:t], shifted(one, f, b, size), *sampled[t + 1 :]], **how)
                rows.append(found.records[["probability", "log_bayes_factor"]] - at[
                    ["probability", "log_bayes_factor"]])  # fmt: skip
            changed.append(rows)
    moved, change = np.moveaxis(np.array(changed) / size, 3, 0)  # shape (F, B, n)
    np.testing.assert_allclose(risk.deviations[..., risk.case], moved, atol=2e-3, rtol=2e-2)
    error = standard_error(change, few=risk.few_chains)
    np.testing.assert_allclose(at["mcse_log_bayes_factor"], error, rtol=0.02)
    assert (at["mcse"] > 0).all()


@pytest.mark.parametrize("prior", ["uniform", "predictive", MIXED])
def test_each_mode_is_the_chain_through_it(sampled, prior):
    """Modes of a wave, of which some have fewer chains, are joined as if each were all there is."""
    first, how = sampled[0], {"prior": prior, "transition": "panel", "warn": False}
    rng, found = np.random.default_rng(4), first.found
    moved = 0.3 * rng.normal(size=found.log_evidence.shape)
    other = replace(
        found,
        log_evidence=found.log_evidence + moved - moved[:, :1],
        deviations=in_batches(found.deviations, 2),
    )
    modes = (replace(found, deviations=in_batches(found.deviations, 2)), other)
    risk = br.join([replace(first, found=replace(found, apart=modes)), *sampled[1:]], **how)
    alone = [br.join([replace(first, found=one), *sampled[1:]], **how) for one in modes]
    for p, one in zip(risk.by_mode, alone, strict=True):
        np.testing.assert_allclose(p[risk.case], one.records["probability"], rtol=1e-6)
    assert np.abs(risk.by_mode[0] - risk.by_mode[1]).max() > 1e-3


@pytest.mark.slow
def test_stated_errors_are_those_of_repetition():
    """Audits of three waves with other seeds differ as the stated errors say."""
    rng = np.random.default_rng(2)
    tables = [pd.DataFrame({c: rng.choice(list("pqr"), 40) for c in "abc"})]
    for _ in range(2):
        moved = rng.random((40, 3)) < 0.2
        tables.append(tables[-1].mask(moved, rng.choice(list("pqr"), (40, 3))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [
            DPMPM(n_classes=3).fit(y, draws=150, tune=100, chains=c, random_seed=c)
            for y, c in zip(tables, (2, 4, 2), strict=True)
        ]
        releases = [fit.synthesize(1, random_seed=3) for fit in fits]
        found = []
        for seed in range(16):
            each = [
                gathered(f, z, random_seed=seed, targets=[0, 1, 2, 3])
                for f, z in zip(fits, releases, strict=True)
            ]
            for prior in ("uniform", "predictive"):
                risk = br.join(each, prior=prior, transition="panel", warn=False)
                found.append(risk.records[["probability", "mcse"]].to_numpy())
    differ_as_stated(np.array(found).reshape(16, 2, 4, 2))


# --- calibration ---------------------------------------------------------------------------------


def panel_scores(panels, seed):
    """Sums, over panels whose target follows the chain, of scores with mean 0; and their sd."""
    rng, scores, variances = np.random.default_rng(seed), [], []
    move, first = MOVES.to_numpy(), np.array([0.2, 0.5, 0.3])
    for k in range(panels):
        state, each = rng.choice(3, size=10, p=first), []
        for t in range(3):
            if t:
                state = np.array([rng.choice(3, p=move[v]) for v in state])
            fit = Marginals(PRIORS[t]).fit(table(np.array(LEVELS)[state]))
            release = fit.synthesize(2, random_seed=int(rng.integers(2**31)))
            each.append(gathered(fit, replace(release, maker=f"{k} {t}"), targets=[0]))
        risk = br.join(each, prior=of_first, transition=MOVES, wave=1 + k % 3)
        found = risk.posterior(0)
        p, truth = found["probability"].to_numpy(), found["is_truth"].to_numpy()
        scores.append(((truth - p) * p).sum())
        variances.append((p**3).sum() - (p**2).sum() ** 2)
    return np.sum(scores), np.sqrt(np.sum(variances))


@pytest.mark.parametrize(
    "panels", [pytest.param(40, marks=pytest.mark.check), pytest.param(600, marks=pytest.mark.slow)]
)
def test_posteriors_of_panels_are_calibrated(panels):
    """The truth is each value as often as the posteriors say, at the first, second, last wave."""
    score, sd = panel_scores(panels, seed=7)
    assert abs(score) < 4 * sd
    assert sd > 0.01 * np.sqrt(panels)  # posteriors that say something


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (MOVES * 0.9, "of 'a' from wave 1 to wave 2 has 3 rows whose probabilities do not sum to"),
        (MOVES - 0.2, "has negative, infinite or missing probabilities"),
        (MOVES.where(MOVES < 0.9), "has negative, infinite or missing probabilities"),
        (MOVES.astype(object).replace(0.7, "0.7 or so"), "holds values that are not numbers"),
        (MOVES.drop(index="y"), "lacks 1 of the 3 values among its rows"),
        (MOVES.drop(columns="x"), "lacks 1 of the 3 values among its columns"),
        (MOVES.set_axis(["x", "x", "z"]), "names some values twice among its rows"),
        ([MOVES], "has 1 tables, and 3 waves have 2 steps"),
        ([MOVES, MOVES, MOVES], "has 3 tables, and 3 waves have 2 steps"),
        ({"b": MOVES}, "is of b, and a are guessed"),
        ({}, "is of no column, and a are guessed; give a mapping of each"),
        (MOVES.to_numpy(), "of 'a' is a ndarray; give \"panel\", a DataFrame"),
        ("panels", "of 'a' is a str; give \"panel\""),
    ],
)
def test_what_is_no_transition(waves, given, words):
    with pytest.raises(br.InputError, match=rf"transition.*{words}"):
        br.join(waves, transition=given)


def test_waves_out_of_order(waves):
    """Times are those that are given; in their order nothing changes."""
    first, second = waves[:2]
    for year in (2024, "2026"):
        with pytest.raises(br.InputError, match=f"waves out of order: 2025, {year}; give the earl"):
            br.join({2025: second, year: first}, transition="panel")
    one, other = (
        br.join(of, transition="panel") for of in ({2024: first, 2025: second}, [first, second])
    )
    pd.testing.assert_frame_equal(one.records, other.records)


def test_which_wave(waves):
    for wave, words in (
        (0, "too small"),
        (4, "from 1 to 3"),
        (1.5, "whole number"),
        (True, "whole"),
    ):
        with pytest.raises(br.InputError, match=f"wave.*{words}"):
            br.join(waves, transition="panel", wave=wave)
    with pytest.raises(br.InputError, match="wave.*needs transition"):
        br.join(waves, wave=1, same_table=False)


def test_one_table_for_several_columns_and_numbers(pair):
    with pytest.raises(
        br.InputError, match="is of a, and a, b are guessed; give a mapping of each"
    ):
        br.join(pair, transition=MOVES)


def test_numbers_have_no_chain(waves):
    numbers = br.Microdata.from_frame(pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]}), numbers=["a"])
    with pytest.raises(br.InputError, match="'a' is a number; cut it into classes"):
        br.join([waves[0], replace(waves[1], microdata=numbers)], transition="panel")


def test_panels_without_people_in_common(waves):
    alone = "from wave 1 to wave 2: the tables have no record"
    for labels, words in (([7, 8, 9, 10], "no record label in common"), ([0, 7, 8, 9], alone)):
        fit = Marginals().fit(table("xyzx").set_axis(labels))
        other = gathered(fit, fit.synthesize(1, random_seed=1))
        with pytest.raises(br.InputError, match=words):
            br.join([waves[0], other], transition="panel")


def test_a_change_that_the_table_rules_out(waves):
    """No mass on the truth: its probability is 0, and the assumptions say of how many records."""
    moves = MOVES.assign(x=0.0)
    moves = moves.div(moves.sum(axis=1), axis=0)
    risk = br.join(waves, prior="uniform", transition=moves, warn=False)
    assert risk.records["probability"].eq(0).tolist() == [v == "x" for v in TABLES[2]]
    assert "(no mass on the truth of 1 records)" in risk.assumptions["prior"]
    assert risk.summary().loc["mean_probability", "value"] > 0


def test_joined_waves_under_other_priors(waves):
    both = joined_evidence(waves, transition="panel")
    assert both.compare({"a": "uniform", "b": of_first}).notna().all(axis=None)
    with pytest.raises(br.InputError, match="needs one release"):
        both.risk("release")
    assert both.balance() is None and "joined" in repr(both)
    assert br.join(waves[:1], transition="panel").records.equals(waves[0].risk().records)
    assert br.privacy_loss(br.join(waves, transition="panel")).summary() is not None


def test_a_new_table_is_checked_before_its_audit(waves):
    """Of any size and columns: what a table lacks is refused, what comes later is not."""
    some = [gathered(f := Marginals().fit(table("xyzzx")), f.synthesize(1, random_seed=1),
                     intruder=br.Intruder([0, 1, 2]))]  # fmt: skip
    larger = br.Microdata.from_frame(table("xyzxyzx"))
    for before in (some, waves):
        check_earlier(before, larger, same_table=True, transition="panel")
        with pytest.raises(br.InputError, match="lacks 1 of the 3 values"):
            check_earlier(before, larger, same_table=True, transition=MOVES.drop(index="x"))
    other = br.Microdata.from_frame(pd.DataFrame({"b": list("uvuv")}))
    check_earlier(waves, other, same_table=True, transition="panel")
