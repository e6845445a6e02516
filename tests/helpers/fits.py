"""One small fit of every model, and a release of it: made once, for all tests that need any."""

import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk.release.release import EncodedRelease

N, M = 48, 2


class Example(NamedTuple):
    """A model's declaration, the table it is fitted to, and how it is fitted and guessed."""

    model: Any
    table: pd.DataFrame
    fitting: dict[str, Any]
    guesses: Any


def people() -> pd.DataFrame:
    """Three categories, two counts and two numbers of 48 labelled people."""
    rng = np.random.default_rng(11)
    sex = rng.choice(["f", "m"], N)
    job = np.where(rng.random(N) < 0.6, np.where(sex == "f", "clerk", "pilot"), "smith")
    area = rng.choice(["east", "north", "south", "west"], N)
    age = rng.normal(40.0, 9.0, N).round(1)
    table = {"sex": sex, "area": area, "job": job}
    counts = {"staff": rng.poisson(6, N), "visits": rng.poisson(3, N)}
    numbers = {"age": age, "pay": (10 + 0.2 * age + rng.normal(size=N)).round(2)}
    return pd.DataFrame(
        table | counts | numbers, index=pd.Index([f"P{k:02d}" for k in range(N)], name="p")
    )


def _ones_own() -> Any:
    def build(table):
        import pymc as pm

        with pm.Model() as model:
            slope = pm.Normal("slope", 0.0, 1.0)
            age, pay = pm.Data("age", table["age"]), pm.Data("pay", table["pay"])
            pm.Normal("pay_", slope * age, 2.0, observed=pay)
        return model

    return br.models.PyMCModel(build, columns=["pay"])


def resampled_jobs(df: pd.DataFrame, m: int, seed: int) -> list[pd.DataFrame]:
    """A generator: jobs of people of the same sex."""
    rng = np.random.default_rng(seed)
    jobs = {sex: part.to_numpy() for sex, part in df.groupby("sex")["job"]}
    return [df.assign(job=[rng.choice(jobs[sex]) for sex in df["sex"]]) for _ in range(m)]


@cache
def example(name: str) -> Example:
    """What is fitted in the name of a model."""
    table, near = people(), br.Grid(percent=10, n=5)
    seed = {"random_seed": 1}
    short = seed | {"draws": 40, "tune": 20, "chains": 2}
    if name == "DPMPM":
        made = Example(br.models.DPMPM(n_classes=3), table[["sex", "job"]], short, None)
    elif name == "Marginals":
        made = Example(br.models.Marginals(), table[["sex", "job"]], {}, None)
    elif name == "PoissonMixture":
        made = Example(
            br.models.PoissonMixture(n_classes=3),
            table[["staff", "visits"]],
            short,
            br.Grid(additive=2, n=5),
        )
    elif name == "Mixture":
        grids = {"staff": br.Grid(additive=1, n=3), "pay": near}
        families = {"staff": "count", "pay": "normal"}
        model = br.models.Mixture(families=families, n_classes=3)
        made = Example(model, table[["sex", "staff", "pay"]], short, grids)
    elif name == "Regression":
        formulas = {"age": "1 + sex", "pay": "1 + age"}
        numbers = table[["sex", "age", "pay"]]
        guesses = dict.fromkeys(formulas, near)
        made = Example(br.models.Regression(formulas), numbers, short, guesses)
    elif name == "CART":
        trees = br.models.CART(["job", "age"], min_leaf=4)
        mixed = {"job": br.Levels(), "age": near}
        made = Example(trees, table[["sex", "staff", "job", "age"]], seed, mixed)
    elif name == "Chain":
        parts = [br.models.CART(["job"], min_leaf=4), br.models.Regression({"age": "1 + job"})]
        mixed = {"job": br.Levels(), "age": near}
        made = Example(br.models.Chain(parts), table[["sex", "job", "age"]], short, mixed)
    elif name == "NestedDPMPM":
        persons = table[["sex", "area"]].assign(hid=np.arange(N) // 2 % 20)
        relate = np.where(persons["hid"].duplicated(), "other", "head")
        own = br.Households("hid", relate="relate", head="head")
        nested = br.models.NestedDPMPM(own, n_classes=3, n_members=2)
        made = Example(nested, persons.assign(relate=relate), short, None)
    elif name == "Forest":
        forest = br.models.Forest(["job"], n_trees=8)
        made = Example(forest, table[["sex", "area", "job"]], seed, None)
    elif name == "Simulator":
        made = Example(
            br.models.Simulator(resampled_jobs, columns=["job"], runs=8, share=0.3),
            table[["sex", "area", "job"]],
            {},
            None,
        )
    elif name == "PMM":
        sizes = sorted(table["sex"].value_counts())
        matching = br.models.PMM(["pay"], identifying=["sex"], threshold=sizes[0])
        made = Example(matching, table[["sex", "age", "pay"]], {}, {"pay": near})
    else:
        made = Example(_ones_own(), table[["age", "pay"]], short, {"pay": near})
    return made


def fitted(name: str) -> Any:
    """A fit of the example, anew."""
    made = example(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # short fits
        return made.model.fit(made.table, **made.fitting)


@cache
def fit_of(name: str) -> Any:
    """The fit, made once."""
    return fitted(name)


@cache
def release_of(name: str) -> br.Release:
    """Two data sets of it, made once."""
    release: br.Release = fit_of(name).synthesize(M, random_seed=2)
    return release


def encoded(fit: Any, release: br.Release) -> EncodedRelease:
    """The release read against the table of a fit."""
    return EncodedRelease.of(release, fit.microdata)


def offered(fit: Any, release: br.Release, **knows: Any) -> frozenset[str]:
    """Ways to the evidence that a fit offers an intruder."""
    methods: frozenset[str] = fit.capabilities(encoded(fit, release), br.Intruder(**knows)).methods
    return methods


def evidence_of(risk: Any, i: int) -> dict[tuple[float, ...], tuple[float, float]]:
    """Log evidence of each guess of record i by its codes, relative to the truth, and its error."""
    u = risk.case[i]
    total = risk.log_evidence[:, :, u].sum(axis=0)
    keys = [tuple(x) for x in risk.guesses[:, u].tolist()]
    return dict(zip(keys, zip(total, risk.mcse_log_evidence[:, u], strict=True), strict=True))
