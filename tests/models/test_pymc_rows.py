"""PyMC models read row by row: guesses that cannot be, and models that cannot be read so."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.scan.basic import scan

import bayes_risk as br
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import Targets
from bayes_risk.intruder.guesses import GuessSet
from bayes_risk.models.pymc.density import Builder, Engine, PyMCPredictive
from tests.helpers.pymc_models import AREAS, build_two, engine_of, two_columns

# --- guesses that cannot be ------------------------------------------------------------------


def predictive_of(build, table, theta, guesses):
    """Guesses for the first record of a one-column table, at given draws."""
    engine = engine_of(build, list(table), table)
    codes = np.asarray(guesses, dtype=float)[:, None, None]
    targets = Targets(
        profiles=engine.builder.microdata.codes[:1],
        record=np.array([0]),
        columns=np.array([0]),
        guesses=GuessSet(
            codes, np.array([0]), np.ones((len(codes), 1), bool), np.arange(len(codes))[:, None]
        ),
    )
    batch = np.repeat([0, 1], len(next(iter(theta.values()))) // 2)
    return PyMCPredictive(engine=engine, theta=theta, targets=targets, batch=batch)


def build_waiting(table):
    with pm.Model() as model:
        pm.Exponential("t_", pm.Gamma("rate", 1, 1), observed=pm.Data("t", table["t"]))
    return model


def test_impossible_guesses_have_no_evidence_and_do_no_harm():
    theta = {"rate": np.random.default_rng(1).gamma(2, 1, 6)}
    table = pd.DataFrame({"t": [0.7, 1.5, 0.2]})
    predictive = predictive_of(build_waiting, table, theta, [0.7, -1.0, 2.0])
    log_w = np.log(np.random.default_rng(2).random((6, 1)))
    sums = predictive.log_sums(slice(0, 1), log_w)
    rate = theta["rate"]
    terms = np.exp(log_w[:, 0] - rate * 2.0 + rate * 0.7)
    assert np.allclose(sums[:, 0, 0], np.log(np.exp(log_w[:, 0]).reshape(2, 3).sum(axis=1)))
    assert (sums[:, 1, 0] == -np.inf).all()
    assert np.allclose(sums[:, 2, 0], np.log(terms.reshape(2, 3).sum(axis=1)))


def test_densities_that_are_no_numbers_are_errors():
    def build(table):
        with pm.Model() as model:
            mean, u = pm.Normal("mean"), pt.sqrt(pm.Data("u", table["u"]))
            pm.Normal("t_", mean * u, 1, observed=pm.Data("t", table["t"]))
        return model

    table = pd.DataFrame({"t": [0.7, 1.5, 0.2], "u": [1.0, 2.0, 3.0]})
    engine = engine_of(build, ["t"], table)
    codes = np.array([[0.5, 1.0], [0.5, -1.0]])
    with pytest.raises(br.ModelError, match="the log density nan"):
        engine.log_p(codes, {"mean": np.ones(4)}, ("t",))


# --- models that cannot be evaluated row by row ----------------------------------------------


def normal(table, mean=None, observed=None, **shape):
    """A normal x given what ``mean`` makes of the parameter and the columns' data."""
    with pm.Model() as model:
        data = {c: pm.Data(c, table[c]) for c in ("x", "w")}
        theta = pm.Normal("theta", **shape)
        mu = theta if mean is None else mean(theta, data)
        pm.Normal("x_", mu, 1, observed=observed(data) if observed else data["x"])
    return model


def baked(table, *, data=(), mean=lambda t, table: t * table["w"].to_numpy()):
    """The same with what the table holds as constants; ``data``: columns in pm.Data."""
    with pm.Model() as model:
        held = {c: pm.Data(c, table[c]) for c in data}
        mu = mean(pm.Normal("theta"), table)
        name = "x_" if "x" in held else "x"
        pm.Normal(name, mu, 1, observed=held.get("x", table["x"]))
    return model


def by_shown_areas(table):
    shown, area = np.unique(table["area"].astype(str), return_inverse=True)
    return normal(table, lambda theta, data: theta[area], shape=len(shown))


def no_parameters(table):
    with pm.Model() as model:
        pm.Normal("x_", 0, 1, observed=pm.Data("x", table["x"]))
    return model


def with_branches(table):
    return normal(table, lambda t, data: t if table["area"].nunique() > 1 else pt.exp(t))


def with_potential(table):
    model = normal(table)
    with model:
        pm.Potential("more", (model["theta"] * model["w"]).sum())
    return model


def with_closure(table):
    with pm.Model() as model:
        theta, w = pm.Normal("theta"), table["w"].to_numpy()
        x = pm.Data("x", table["x"])
        pm.CustomDist("x_", theta, logp=lambda x, t: -((x - t - w) ** 2), observed=x)
    return model


def within_an_op(table):
    area = table["area"].cat.codes.to_numpy()

    def step(k, theta):
        return theta * pt.as_tensor(area)[k]

    def mean(theta, data):
        return scan(step, pt.arange(len(AREAS)), non_sequences=theta, return_updates=False).sum()

    return normal(table, mean)


def one_density(table):
    with pm.Model() as model:
        x = pm.Data("x", table["x"])
        pm.MvNormal("x_", pm.Normal("theta") + pt.zeros(x.shape[0]), pt.eye(x.shape[0]), observed=x)
    return model


X = "    x = pm.Data\\('x', table\\['x'\\]\\)\n    pm.Normal\\('x_', ..., observed=x\\)"
W = "    w = pm.Data\\('w', table\\['w'\\]\\)"
AREA = "    area = pm.Data\\('area', table\\['area'\\].cat.codes\\)\n"

REFUSED = {
    "no model": (lambda table: None, "build returned a NoneType"),
    "baked in": (baked, f"bakes values of 'w', 'x' into the model.*\n{W}\n{X}\nBesides"),
    "a predictor": (lambda t: baked(t, data=["x"]), f"bakes values of 'w' into the model.*\n{W}"),
    "a category": (
        lambda t: baked(
            t, data=["x"], mean=lambda b, t: pt.stack([b, 0, 1, 2])[t["area"].cat.codes.to_numpy()]
        ),
        f"bakes values of 'area' into the model.*\n{AREA}",
    ),
    "another name": (
        lambda t: normal(t, lambda b, data: b * pm.Data("predictor", t["w"])),
        f"bakes values of 'w' into the model.*\n{W}",
    ),
    "another scale": (
        lambda t: normal(t.assign(x=t["x"] * 2)),
        f"pm.Data\\('x'\\) does not hold the column as it stands. Write\n{X}\n",
    ),
    "not observed": (
        lambda t: normal(t, observed=lambda data: data["w"]),
        "pm.Data\\('x'\\) has to be observed as it stands",
    ),
    "observed on another scale": (
        lambda t: normal(t, observed=lambda data: pt.exp(data["x"])),
        "pm.Data\\('x'\\) has to be observed as it stands",
    ),
    "no parameters": (no_parameters, "the parameters are \\[\\] for one table"),
    "a value per row": (
        lambda t: normal(t, shape=len(t)),
        "'theta' has a value for every row of the table \\(shape \\(60,\\)\\).* integrate it out",
    ),
    "levels of the rows": (
        by_shown_areas,
        "'theta' has shape \\(4,\\) for one table and .*categor",
    ),
    "the number of rows": (
        lambda t: normal(t, lambda theta, data: theta / len(t)),
        "build puts the number of rows into the model",
    ),
    "structure": (with_branches, "bakes values of 'area' into the model"),
    "a mean": (
        lambda t: normal(t, lambda theta, data: theta * (data["w"] - t["w"].mean())),
        "bakes values of 'w' .*before the fit, outside build",
    ),
    "a mean of the data": (
        lambda t: normal(t, lambda theta, data: theta * (data["w"] - data["w"].mean())),
        "the density of a row changes with the rows beside it; .* before the fit, outside build",
    ),
    "prior": (lambda t: normal(t, mu=t["x"].mean()), "bakes values of 'x' into the model"),
    "potential": (with_potential, "the table \\(\\['w'\\]\\) enters a prior, a Potential"),
    "itself": (
        lambda t: normal(t, lambda theta, data: theta * data["x"]),
        "'x' depends on \\['x'\\], which columns does not name before it",
    ),
    "caught by a density": (with_closure, f"bakes values of 'w' into the model.*\n{W}"),
    "within an op": (within_an_op, f"bakes values of 'area' into the model.*\n{AREA}"),
    "one density for all": (
        one_density,
        "has 0 dimensions; every column needs one density per row",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_models_that_cannot_be_evaluated_row_by_row(case):
    build, words = REFUSED[case]
    with pytest.raises(br.ModelError, match=f"(?s){words}"):
        engine_of(build, ["x"], two_columns())


def test_order_of_columns():
    with pytest.raises(br.ModelError, match="'k' depends on \\['x'\\]"):
        engine_of(build_two, ["k", "x"], two_columns())


def test_a_column_without_data():
    with pytest.raises(br.ModelError, match="(?s)no pm.Data named 'g'.*\n    g = pm.Data\\('g', "):
        engine_of(build_two, ["x", "g"], two_columns().assign(g=1.5))


def test_drawn_values_must_be_levels():
    table = two_columns()

    def build(table):
        with pm.Model() as model:
            area = pm.Data("area", table["area"].cat.codes)
            pm.Poisson("area_", pm.Gamma("rate", 1, 1), observed=area)
        return model

    engine = engine_of(build, ["area"], table)
    with pytest.raises(br.ModelError, match="which has levels 0 to 3"):
        engine.draw(
            "area",
            engine.builder.microdata.codes,
            {"rate": np.array(50.0)},
            np.random.default_rng(1),
        )


def test_declaration():
    with pytest.raises(br.InputError, match="build is a str; give a function"):
        br.models.PyMCModel("model", columns=["x"])
    with pytest.raises(br.InputError, match="columns is empty"):
        br.models.PyMCModel(build_two, columns=[])
    with pytest.raises(br.InputError, match="single string"):
        br.models.PyMCModel(build_two, columns="x")
    with pytest.raises(br.InputError, match="'income', which the table does not have"):
        br.models.PyMCModel(build_two, columns=["income"]).fit(two_columns())


def test_whole_numbers_stay_whole_where_the_model_counts():
    table = two_columns()
    data = Microdata.from_frame(
        table.assign(x=table["x"].round().astype(int)), numbers=["w", "x", "k"]
    )
    engine = Engine.of(Builder.of(build_two, ("x", "k"), data))
    table = engine.builder.table(data.codes)
    assert table.dtypes[["x", "k"]].tolist() == [float, np.int64]
    for bad in (0.5, 1e12):  # pm.Data holds whole numbers in 32 bits
        with pytest.raises(br.InputError, match="column 'k' holds whole numbers .* 60 that int"):
            engine.values(data.codes + np.array([0, 0, 0, bad]))
    large = Microdata.from_frame(table.assign(k=table["k"] + 2**33), numbers=["w", "x", "k"])
    assert (
        Builder(build=build_two, columns=(), microdata=large).table(large.codes)["k"].dtype == float
    )
