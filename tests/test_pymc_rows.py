"""PyMC models read row by row: guesses that cannot be, and models that cannot be read so."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest

import bayes_risk as br
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import Targets
from bayes_risk.intruder.guesses import GuessSet
from bayes_risk.models.pymc.predictive import PyMCPredictive
from bayes_risk.models.pymc.rows import Builder
from tests.pymc_models import build_two, engine_of, two_columns

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
        pm.Exponential("t", pm.Gamma("rate", 1, 1), observed=table["t"])
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
            mean, u = pm.Normal("mean"), np.sqrt(np.maximum(table["u"], 0)).to_numpy()
            pm.Normal("t", mean / u * u, 1, observed=table["t"])
        return model

    table = pd.DataFrame({"t": [0.7, 1.5, 0.2], "u": [1.0, 2.0, 3.0]})
    engine = engine_of(build, ["t"], table)
    codes = np.array([[0.5, 1.0], [0.5, 0.0]])
    with pytest.raises(br.ModelError, match="the log density nan"):
        engine.log_p(codes, {"mean": np.ones(4)}, ("t",))


# --- models that cannot be evaluated row by row ----------------------------------------------


def normal(table, mean=0.0, name="x", **shape):
    with pm.Model() as model:
        theta = pm.Normal("theta", **shape)
        pm.Normal(name, mean(theta, table) if callable(mean) else theta, 1, observed=table["x"])
    return model


def by_shown_areas(table):
    shown, area = np.unique(table["area"].astype(str), return_inverse=True)
    return normal(table, lambda theta, table: theta[area], shape=len(shown))


def no_parameters(table):
    with pm.Model() as model:
        pm.Normal("x", 0, 1, observed=table["x"])
    return model


def with_branches(table):
    return normal(table, lambda t, table: t if table["area"].nunique() > 1 else pt.exp(t))


def with_potential(table):
    model = normal(table)
    with model:
        pm.Potential("more", (model["theta"] * table["w"].to_numpy()).sum())
    return model


def with_closure(table):
    with pm.Model() as model:
        theta, w = pm.Normal("theta"), table["w"].to_numpy()
        pm.CustomDist("x", theta, logp=lambda x, t: -((x - t - w) ** 2), observed=table["x"])
    return model


REFUSED = {
    "no model": (lambda table: None, "build returned a NoneType"),
    "not observed": (lambda t: normal(t, name="y"), "observes \\['y'\\] and not column 'x'"),
    "no parameters": (no_parameters, "the parameters are \\[\\] for one table"),
    "a value per row": (
        lambda t: normal(t, shape=len(t)),
        "'theta' has a value for every row of the table \\(shape \\(60,\\)\\).* integrate it out",
    ),
    "levels of the rows": (
        by_shown_areas,
        "'theta' has shape \\(4,\\) for one table and .*categor",
    ),
    "structure": (with_branches, "models of different structure for different tables"),
    "a mean": (
        lambda t: normal(t, lambda theta, t: theta * (t["w"] - t["w"].mean()).to_numpy()),
        "of the same row, as the rows beside it change; .* before the fit, outside build",
    ),
    "prior": (lambda t: normal(t, mu=t["x"].mean()), "build takes .* from one table and"),
    "potential": (with_potential, "the table enters a prior, a Potential"),
    "itself": (
        lambda t: normal(t, lambda theta, t: theta * t["x"].to_numpy()),
        "'x' depends on \\['x'\\], which columns= does not name before it",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_models_that_cannot_be_evaluated_row_by_row(case):
    build, words = REFUSED[case]
    with pytest.raises(br.ModelError, match=words):
        engine_of(build, ["x"], two_columns())


def test_order_of_columns():
    with pytest.raises(br.ModelError, match="'k' depends on \\['x'\\]"):
        engine_of(build_two, ["k", "x"], two_columns())


def test_values_caught_by_a_density_are_found():
    engine = engine_of(with_closure, ["x"], two_columns())
    with pytest.raises(br.ModelError, match="pass them to pm.CustomDist"):
        engine.log_p(engine.builder.microdata.codes, {"theta": np.ones(2)}, ("x",))


def test_a_table_that_turns_out_different_later():
    def build(table):
        high = table["w"].max() > 10
        return normal(table, lambda theta, table: theta + float(high))

    engine = engine_of(build, ["x"], two_columns())
    codes = engine.builder.microdata.codes
    engine.log_p(codes, {"theta": np.ones(2)}, ("x",))
    codes = codes + np.array([0.0, 20.0, 0.0, 0.0])
    with pytest.raises(br.ModelError, match="build takes 0 from one table and 1"):
        engine.log_p(codes, {"theta": np.ones(2)}, ("x",))


def test_drawn_values_must_be_levels():
    table = two_columns()

    def build(table):
        with pm.Model() as model:
            pm.Poisson("area", pm.Gamma("rate", 1, 1), observed=table["area"].cat.codes)
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
    builder = Builder.of(build_two, ("x", "k"), data)
    assert builder.table(data.codes).dtypes[["x", "k"]].tolist() == [float, np.int64]
    with pytest.raises(br.InputError, match="column 'k' holds whole numbers .* fractions"):
        builder.table(data.codes + np.array([0, 0, 0, 0.5]))
