"""Published noisy tables: laws of noise, enumeration of outcomes, bounds, limits, refusals."""

from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayes_risk as br
from bayes_risk.release.noise import Noise

# rows: true counts 0, 1, 2 and more
P_TABLE = pd.DataFrame(
    [[0.0, 0.0, 0.7, 0.3, 0.0], [0.0, 0.2, 0.5, 0.2, 0.1], [0.1, 0.2, 0.4, 0.2, 0.1]],
    columns=[-2, -1, 0, 1, 2],
)
FULL = pd.DataFrame([[0.2, 0.6, 0.2], [0.25, 0.5, 0.25], [0.3, 0.4, 0.3]], columns=[-1, 0, 1])
KINDS = {
    "geometric": {"scale": 0.8},
    "discrete-gaussian": {"scale": 1.3},
    "laplace": {"scale": 0.8},
    "gaussian": {"scale": 1.3},
    "cell-key": {"p_table": P_TABLE},
    "random-rounding": {"base": 3},
    "rounding": {"base": 3},
}


@cache
def by_hand(kind, t, f):
    """P(t | f) by SciPy, by a sum, or by counting on fingers."""
    setting = KINDS[kind]
    if kind == "geometric":
        return stats.dlaplace(1 / setting["scale"], loc=f).pmf(t)
    if kind == "laplace":
        return stats.laplace(f, setting["scale"]).pdf(t)
    if kind == "gaussian":
        return stats.norm(f, setting["scale"]).pdf(t)
    if kind == "discrete-gaussian":
        weights = {k: np.exp(-(k**2) / (2 * setting["scale"] ** 2)) for k in range(-60, 61)}
        return weights.get(t - f, 0.0) / sum(weights.values())
    if kind == "cell-key":
        table = setting["p_table"]
        return table.loc[min(f, 2)].get(t - f, 0.0)
    b = setting["base"]
    if kind == "rounding":
        return float(t == {0: 0, 1: 0, 2: 3}[f % b] + f - f % b)
    below, above = f // b * b, f // b * b + b
    return (above - f) / b if t == below else (f - below) / b if t == above else 0.0


# --- the laws ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_law_of_a_cell(kind):
    law = Noise(kind, **KINDS[kind])
    t = np.arange(-40.0, 60.0)
    for f in range(8):
        p = np.exp(law.log_p(t, np.full(len(t), float(f))))
        assert p == pytest.approx([by_hand(kind, int(x), f) for x in t], abs=1e-14)
        if kind in ("laplace", "gaussian"):
            line = np.linspace(-60, 70, 260_001)
            density = np.exp(law.log_p(line, np.full(len(line), float(f))))
            assert np.trapezoid(density, line) == pytest.approx(1, abs=1e-6)
        else:
            assert p.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 0.1, 0.5, 0.999, 1.0, 1.001, 7.0, 300.0])
@pytest.mark.parametrize("kind", ["geometric", "discrete-gaussian"])
def test_laws_add_up_at_every_scale(kind, scale):
    reach = int(50 * scale) + 50
    t = np.arange(-reach, reach + 1.0)
    p = np.exp(Noise(kind, scale).log_p(t, np.zeros(len(t))))
    assert p.sum() == pytest.approx(1, abs=1e-12)


def test_a_half_is_rounded_up():
    t = np.arange(0.0, 13.0)
    law = Noise("rounding", base=4)
    published = [t[np.exp(law.log_p(t, np.full(13, f))) == 1][0] for f in range(8)]
    assert published == [0, 0, 4, 4, 4, 4, 8, 8]


# --- posteriors: every outcome -------------------------------------------------------------------

DF = pd.DataFrame({"sex": list("ffmmf"), "ill": list("ynnny")}, index=[f"p{i}" for i in range(5)])
LEVELS = {"sex": list("fm"), "ill": list("ny")}
LISTED = br.Listed(pd.DataFrame({"ill": list("ny")}))


def counts_of(df, names):
    """Counts of all combinations, zeros too."""
    index = pd.MultiIndex.from_product([LEVELS[n] for n in names], names=names)
    return df.value_counts(names).reindex(index, fill_value=0)


def brute(kind, t, label, prior):
    """Posterior over the target's ill by counting the table again for each value."""
    weights = []
    for value in "ny":
        changed = DF.copy()
        changed.loc[label, "ill"] = value
        f = counts_of(changed, list(t.index.names)).reindex(t.index)
        weights.append(np.prod([by_hand(kind, int(a), int(b)) for a, b in zip(t, f, strict=True)]))
    p = prior * np.array(weights)
    return p / p.sum()


def probabilities(tables, labels, prior, df=DF):
    """Of n and y, for the records of these labels."""
    risk = tables.evidence(df, columns=["ill"], guesses=LISTED).risk(prior)
    assert risk.reliable.all() and not risk.mcse.any()
    cases = risk.case[risk.index.get_indexer(labels)]
    return np.exp(risk.log_probability[:, cases]).T


@pytest.mark.parametrize("kind", KINDS)
def test_every_outcome_of_a_margin(kind):
    """One table of two cells: all published pairs that the data can give; by brute force."""
    prior, f = np.array([0.3, 0.7]), counts_of(DF, ["ill"])
    seen, total = 0, 0.0
    for pair in product(range(-2, 6), repeat=2):
        t = pd.Series(pair, index=f.index)
        chance = np.prod([by_hand(kind, a, b) for a, b in zip(pair, f, strict=True)])
        total += chance
        if chance == 0:
            with pytest.raises(br.InputError, match="cannot come from this confidential table"):
                br.Published(t, kind, **KINDS[kind]).evidence(DF, columns=["ill"])
            continue
        seen += 1
        if kind in ("laplace", "gaussian"):
            t = t + 0.0
        tables = br.Published(t, kind, **KINDS[kind])
        exact = [brute(kind, t, label, prior) for label in ("p0", "p1")]
        found = probabilities(tables, ["p0", "p1"], prior)
        assert found == pytest.approx(np.array(exact), abs=1e-13)
    assert seen and (kind in ("laplace", "gaussian") or total > 0.9)


@pytest.mark.parametrize("kind", KINDS)
def test_cross_tables_with_cells_that_were_not_published(kind):
    """Two tables of one noise, the second without two of its cells: their evidence adds."""
    rng, prior = np.random.default_rng(1), np.array([0.5, 0.5])
    cross = counts_of(DF, ["sex", "ill"])
    some = cross.drop([("f", "n"), ("m", "y")])
    for _ in range(5):
        drawn = [noisy(kind, one, rng) for one in (cross, some)]
        tables = br.Published(drawn, kind, **KINDS[kind])
        for label in ("p0", "p2"):
            of = brute_of_numbers if kind in ("laplace", "gaussian") else brute
            each = [of(kind, t, label, prior) for t in drawn]
            both = each[0] * each[1] / (each[0] @ each[1])
            assert probabilities(tables, [label], prior)[0] == pytest.approx(both, abs=1e-12)


def noisy(kind, counts, rng):
    """A published table, drawn from the law by hand."""
    t = np.arange(-12, 20)
    if kind in ("laplace", "gaussian"):
        law = rng.laplace if kind == "laplace" else rng.normal
        return counts + law(0, KINDS[kind]["scale"], len(counts))
    drawn = []
    for f in counts:
        p = np.array([by_hand(kind, int(x), int(f)) for x in t])
        drawn.append(rng.choice(t, p=p / p.sum()))
    return pd.Series(drawn, index=counts.index)


def by_density(kind, t, f):
    """The density of a published number that is not whole."""
    law = stats.laplace if kind == "laplace" else stats.norm
    return law(f, KINDS[kind]["scale"]).pdf(t)


def brute_of_numbers(kind, t, label, prior):
    """As `brute`, of densities at numbers that are not whole."""
    weights = []
    for value in "ny":
        changed = DF.copy()
        changed.loc[label, "ill"] = value
        f = counts_of(changed, list(t.index.names)).reindex(t.index)
        weights.append(np.prod(by_density(kind, t.to_numpy(), f.to_numpy())))
    p = prior * np.array(weights)
    return p / p.sum()


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_numbers_that_are_not_whole(kind):
    rng, prior = np.random.default_rng(2), np.array([0.2, 0.8])
    for _ in range(10):
        t = noisy(kind, counts_of(DF, ["sex", "ill"]), rng)
        exact = brute_of_numbers(kind, t, "p1", prior)
        tables = br.Published(t, kind, **KINDS[kind])
        assert probabilities(tables, ["p1"], prior)[0] == pytest.approx(exact, abs=1e-12)


@pytest.mark.check
def test_calibration():
    """The truth drawn from the prior, the table with noise: beliefs come true as often."""
    rng, prior, found = np.random.default_rng(3), np.array([0.3, 0.7]), []
    for _ in range(300):
        df = DF.copy()
        df.loc["p0", "ill"] = rng.choice(list("ny"), p=prior)
        t = noisy("geometric", counts_of(df, ["sex", "ill"]), rng)
        p = probabilities(br.Published(t, "geometric", scale=0.8), ["p0"], prior, df)[0]
        found.append((p[1], df.loc["p0", "ill"] == "y"))
    p, truth = np.array(found, dtype=float).T
    error = np.sqrt((p * (1 - p)).sum())
    assert abs(p.sum() - truth.sum()) < 4 * error
    sure = p > 0.8  # and among those who seem sure
    assert abs((p - truth)[sure].sum()) < 4 * np.sqrt((p * (1 - p))[sure].sum())


# --- the bound of differential privacy -----------------------------------------------------------


@pytest.mark.parametrize("kind", ["geometric", "laplace", "cell-key"])
def test_no_record_breaks_the_bound(kind):
    """Random tables of 200 records: the gap of every record is below epsilon, and some reach it."""
    rng, setting = np.random.default_rng(4), dict(KINDS[kind])
    if kind == "cell-key":
        setting = {"p_table": FULL}
    df = pd.DataFrame({c: pd.Categorical(rng.choice(list("abc"), 200)) for c in "xyz"})
    margins = [df.value_counts(["x", "y"]), df.value_counts(["z"])]
    drawn = []
    for one in margins:
        if kind == "cell-key":
            change = [rng.choice([-1, 0, 1], p=FULL.loc[2]) for _ in one]
        else:
            noise = stats.dlaplace(1 / 0.8) if kind == "geometric" else stats.laplace(0, 0.8)
            change = noise.rvs(len(one), random_state=rng)
        drawn.append(one + change)
    tables = br.Published(drawn, kind, **setting)
    if kind == "cell-key":
        assert tables.epsilon == np.inf  # a change by 1 lies outside the table of the next count
    else:
        assert tables.epsilon == pytest.approx(4 / 0.8)
    evidence = tables.evidence(df, guesses=br.Neighbourhood(3))
    loss = br.privacy_loss(evidence).records["privacy_loss"]
    assert len(loss) == 200 and (loss <= tables.epsilon + 1e-9).all() and loss.max() > 0
    gap = f"differs by at most {loss.max():.3g}"
    assert gap in evidence.words["evidence"]
    said = "by no more than epsilon = 5 for any data"
    assert (said in evidence.words["evidence"]) == (kind != "cell-key")


def test_the_sensitivity_is_two():
    """Largest log ratio over all tables of three records, changes of one, and outcomes."""
    law, worst = Noise("geometric", 0.5), 0.0
    values = list(product("ny", repeat=3))
    for y in values:
        for i, other in product(range(3), "ny"):
            z = (*y[:i], other, *y[i + 1 :])
            f = [np.array([v.count("n"), v.count("y")], dtype=float) for v in (y, z)]
            for t in product(np.arange(-3.0, 7.0), repeat=2):
                a, b = (law.log_p(np.array(t), one).sum() for one in f)
                worst = max(worst, abs(a - b))
    assert worst == pytest.approx(2 * law.epsilon) == pytest.approx(2 / 0.5)


def test_the_bound_of_a_cell_key():
    """Where every count reaches the same published ones, it is the largest ratio of rows."""
    table = pd.DataFrame([[0.5, 0.5, 0.0], [0.0, 0.4, 0.6]], columns=[0, 1, 2])
    assert Noise("cell-key", p_table=table).epsilon == np.inf
    assert Noise("random-rounding", base=3).epsilon == np.inf
    assert Noise("gaussian", scale=1.0).epsilon == np.inf


# --- limits and invariance -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["geometric", "laplace", "gaussian", "discrete-gaussian"])
def test_limits(kind):
    prior, f = np.array([0.3, 0.7]), counts_of(DF, ["sex", "ill"])
    wide = br.Published(f + 1, kind, scale=1e7)
    assert probabilities(wide, ["p1"], prior)[0] == pytest.approx(prior, abs=1e-6)
    exact = br.Published(f, kind, scale=0.02)
    assert probabilities(exact, ["p1"], prior)[0] == pytest.approx([1, 0], abs=1e-12)


def test_rounding_says_all_or_nothing():
    """One record at the edge of a class of the rounding is disclosed, the others' gain is none."""
    f = counts_of(DF, ["ill"])  # n: 3, y: 2
    tables = br.Published(pd.Series([3, 3], index=f.index), "rounding", base=3)
    risk = tables.evidence(DF, columns=["ill"]).risk("uniform")
    assert set(np.round(np.exp(risk.log_probability), 12).ravel()) <= {0.0, 0.5, 1.0}
    # one y less is 1, rounded to 0; one n less is 2 and one y more is 3, rounded as before
    known = risk.records["probability"]
    assert known[DF.ill == "y"].tolist() == [1, 1] and known[DF.ill == "n"].tolist() == [0.5] * 3
    assert risk.certain()["ill"].tolist() == (DF.ill == "y").tolist()


def test_order_and_form_change_nothing():
    rng, names = np.random.default_rng(5), ["sex", "ill"]
    t = noisy("geometric", counts_of(DF, names), rng)
    plain = br.Published(t, "geometric", scale=0.8).evidence(DF, columns=["ill"])
    forms = [t.iloc[::-1], t.unstack("ill"), t.unstack("sex"), t.to_frame("n"), t.swaplevel()]
    for form in forms:
        other = br.Published([form], "geometric", scale=0.8).evidence(DF, columns=["ill"])
        assert other.found.log_evidence.tobytes() == plain.found.log_evidence.tobytes()
    order = rng.permutation(5)
    moved = br.Published(t, "geometric", scale=0.8).evidence(DF.iloc[order], columns=["ill"])
    table, other = (e.risk("uniform").records["probability"] for e in (plain, moved))
    assert (other[table.index] == table).all()


def test_a_column_in_no_table_has_no_evidence():
    df = DF.assign(job=pd.Categorical(list("abcab")))
    t = counts_of(DF, ["ill"])
    tables = br.Published(t, "geometric", scale=0.8)
    risk = tables.evidence(df, columns=["job"]).risk("uniform")
    assert risk.log_probability == pytest.approx(risk.log_prior)
    both = tables.evidence(df, columns=["ill", "job"], guesses=br.Neighbourhood(2))
    known = tables.evidence(df, columns=["ill", "job"], intruder=br.Intruder(knows_columns=["job"]))
    assert known.words["columns"] == "guessed: ill"
    alone = np.exp(known.risk("uniform").log_probability)
    assert both.risk("uniform").log_probability.shape[0] == 6 and alone.shape[0] == 2


def test_targets_and_what_the_result_has():
    t = counts_of(DF, ["sex", "ill"])
    tables = br.Published(t, "geometric", scale=0.8)
    some = tables.evidence(DF, targets=["p3", "p0"]).risk("uniform")
    assert list(some.records.index) == ["p3", "p0"] and some.sample == (5, False)
    drawn = tables.evidence(DF, targets=2, random_seed=1).risk("uniform")
    assert len(drawn.records) == 2 and drawn.sample == (5, True)
    every = tables.evidence(DF, targets="all").risk()
    assert every.sample is None and "predictive prior is not there" in every.assumptions["prior"]
    assert every.summary().loc["unreliable", "value"] == 0
    assert every.assumptions["releases"] == "tables of counts; no synthetic file"
    assert every.assumptions["evidence"].startswith("published: the exact probability")
    data = br.Microdata.from_frame(DF)
    same = tables.evidence(data).risk()
    assert same.log_probability.tobytes() == every.log_probability.tobytes()
    assert tables.evidence(DF).balance() is None
    with pytest.raises(br.InputError, match="does not come release by release"):
        tables.evidence(DF).first(1)
    with pytest.raises(br.InputError, match="needs one release"):
        tables.evidence(DF).risk("release")


# --- refusals ------------------------------------------------------------------------------------

T = counts_of(DF, ["sex", "ill"])
GEOMETRIC = {"noise": "geometric", "scale": 1.0}


@pytest.mark.parametrize(
    ("table", "how", "words"),
    [
        (T, {"noise": "uniform"}, "noise='uniform' is not known"),
        (T, {"noise": "geometric"}, "needs scale; give a positive number"),
        (T, {"noise": "laplace", "scale": -1.0}, "scale"),
        (T, {"noise": "gaussian", "scale": 0}, "scale"),
        (T, {"noise": "rounding", "base": 1}, "base"),
        (T, {"noise": "rounding", "base": 5, "scale": 1.0}, "scale has no effect"),
        (T, {"noise": "cell-key"}, "needs p_table"),
        (T, {"noise": "cell-key", "p_table": 0.5}, "p_table is not a table"),
        (T, {"noise": "cell-key", "p_table": P_TABLE * 0.9}, "row 0 adds up to 0.9"),
        (T, {"noise": "cell-key", "p_table": P_TABLE - 0.1}, "negative or missing entries"),
        (T, {"noise": "cell-key", "p_table": P_TABLE.iloc[1:]}, "not the true counts 0, 1, 2"),
        (T, {"noise": "cell-key", "p_table": P_TABLE.astype(str) + "x"}, "p_table holds text"),
        (
            T,
            {"noise": "cell-key", "p_table": P_TABLE.set_axis([-2, -1, 0, 1, 1], axis=1)},
            "names a change twice",
        ),
        ([], GEOMETRIC, "table is an empty list"),
        (T.to_numpy(), GEOMETRIC, "table 1 is not a table of counts with named columns"),
        ([T, T.reset_index()], GEOMETRIC, "table 2 is not a table of counts with named columns"),
        (pd.concat([T, T]), GEOMETRIC, "has a cell twice"),
        (T.astype(str) + "x", GEOMETRIC, "table 1 holds text"),
        (T + 0.5, GEOMETRIC, "missing, infinite, or not whole"),
        (T.astype(float).mask(T == 0), GEOMETRIC, "missing, infinite, or not whole"),
    ],
)
def test_what_is_no_table_or_no_noise(table, how, words):
    with pytest.raises(br.InputError, match=words):
        br.Published(table, **how)


@pytest.mark.parametrize(
    ("table", "how", "words"),
    [
        (T.rename_axis(["sex", "job"]), {}, "job"),
        (
            T.rename({"m": "x"}, level="sex"),
            {},
            "2 cells have a value of 'sex' that the confidential table",
        ),
        (pd.crosstab(DF.sex, DF.ill, margins=True), {}, "3 cells have a value of 'sex'.*totals"),
        (T, {"columns": ["job"]}, "job"),
        (T, {"columns": []}, "columns"),
        (T, {"intruder": br.Intruder(knows_columns=["sex", "ill"])}, "at least one to be guessed"),
        (T, {"intruder": br.Intruder("none")}, "knows no record.*Published offers no evidence"),
        (T, {"intruder": br.Intruder(0.5)}, "half of the records.*offers no evidence for that"),
        (T, {"intruder": br.Intruder(in_file=0.5)}, "not certain.*offers no evidence for that"),
        (T, {"targets": ["p9"]}, "targets"),
    ],
)
def test_what_the_confidential_table_refuses(table, how, words):
    with pytest.raises(br.InputError, match=words):
        br.Published(table, **GEOMETRIC).evidence(DF, **how)


def test_numbers_cannot_be_counted():
    df = DF.assign(pay=[1.5, 2.5, 3.5, 4.5, 5.5])
    data = br.Microdata.from_frame(df, numbers=["pay"])
    with pytest.raises(br.InputError, match=r"\['pay'\] are numbers.*pandas.cut"):
        br.Published(T, **GEOMETRIC).evidence(data, columns=["pay"])
