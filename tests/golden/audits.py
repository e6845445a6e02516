"""Small audits over every model, intruder and kind of evidence: record their numbers, check them.

Not a test of pytest's: numbers to the last digit depend on the machine and on installed versions.
They are recorded before code is moved, on the machine where it is moved, and checked after each
step. Only the public face is used, and the command line, so that moving modules changes nothing
here::

    python tests/golden/audits.py record [NAME ...] [--file PATH]
    python tests/golden/audits.py check [NAME ...] [--file PATH]
    python tests/golden/audits.py list

An audit is a function of `AUDITS`: what it returns is taken apart into arrays, of each of which the
shape, a hash of all values, their sum and the first few are kept.
"""

import argparse
import gzip
import hashlib
import json
import math
import os
import subprocess
import sys
import time
import tomllib
import warnings
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")  # sums in one order

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
import bayes_risk as br  # noqa: E402

FILE = Path(__file__).with_name("numbers.json")
LEADING = 12  # values kept of each array
AUDITS: dict[str, Any] = {}


def audit(function):
    """An audit by the name of its function."""
    AUDITS[function.__name__] = function
    return function


# --- tables ----------------------------------------------------------------------------------


@cache
def people(n=60):
    """Categories, counts and numbers of labelled people."""
    rng = np.random.default_rng(11)
    sex = rng.choice(["f", "m"], n)
    job = np.where(rng.random(n) < 0.6, np.where(sex == "f", "clerk", "pilot"), "smith")
    age = rng.normal(40.0, 9.0, n).round(1)
    table = {
        "sex": sex,
        "area": rng.choice(["east", "north", "south", "west"], n, p=[0.4, 0.3, 0.2, 0.1]),
        "job": job,
        "staff": rng.poisson(6, n),
        "visits": rng.poisson(np.where(sex == "f", 2.0, 5.0)),
        "age": age,
        "pay": (10 + 0.2 * age + rng.normal(size=n)).round(2),
        "hours": rng.uniform(0.5, 2.0, n).round(2),
    }
    table["union"] = np.where(rng.random(n) < 1 / (1 + np.exp(-0.1 * (age - 40))), "yes", "no")
    return pd.DataFrame(table, index=pd.Index([f"P{k:02d}" for k in range(n)], name="p"))


WORDS = ["sex", "area", "job"]
SHORT = {"draws": 40, "tune": 40, "chains": 2, "random_seed": 1}
HALF = {"knows_records": 0.5}


def weights(n=60):
    return np.where(np.arange(n) % 3 == 0, 0.3, 1.0)


def plants(largest=(420, 300, 120, 100, 80)):
    """A few large ones among small ones."""
    rng = np.random.default_rng(5)
    w = [*rng.poisson(20, 30), *largest]
    v = [*rng.poisson(40, 30), *[700] * 5]
    return pd.DataFrame({"w": w, "v": v}, index=[f"r{i}" for i in range(35)])


def risk(fit, release, intruder=None, **options):
    """An audit's evidence and posteriors."""
    given = None if intruder is None else br.Intruder(**intruder)
    options = {"random_seed": 3, "refit_budget": 1} | options
    return br.attribute_risk(fit, release, intruder=given, **options)


# --- latent classes --------------------------------------------------------------------------


@cache
def classes(m=2, columns=None, records=None, how="", parameters=None, **declared):
    """A fit of latent classes, and a release of it."""
    fitting = {"weights": {"weights": weights()}, "whole": {"splits": 0}}.get(how, {})
    if how == "zeros":
        table = people()[~((people()["sex"] == "f") & (people()["job"] == "pilot"))]
        rules = br.Impossible([{"sex": "f", "job": "pilot"}])
        fit = br.models.DPMPM(n_classes=4, impossible=rules).fit(table[WORDS], **SHORT)
    else:
        model = br.models.DPMPM(**{"n_classes": 4} | declared)
        fit = model.fit(people()[WORDS], **SHORT | fitting)
    making = {"records": None if records is None else list(people().index[:records])}
    making |= {"classes": "own"} if how == "own" else {}
    making |= {"columns": None if columns is None else list(columns), "parameters": parameters}
    return fit, fit.synthesize(m, **making, random_seed=2)


@audit
def dpmpm():
    fit, release = classes()
    found = risk(fit, release)
    return {
        "risk": found,
        "release": release,
        "posterior": found.posterior(found.index[3]),
        "marginal": found.marginal_probability(),
        "first release": br.attribute_evidence(fit, release, random_seed=3).first(1).risk(),
    }


@audit
def dpmpm_without_splits():
    return {"risk": risk(*classes(how="whole"))}


@audit
def dpmpm_priors():
    priors = {name: name for name in ("uniform", "marginal", "predictive", "release")}
    priors |= {"joint": "release-joint", "factor": br.TruthFactor(10)}
    priors |= {"mixture": br.MixedPrior({"predictive": 0.8, "uniform": 0.2})}
    kept = br.attribute_evidence(*classes(), random_seed=3)
    return kept.risks(priors) | {
        "compared": kept.compare(priors),
        "privacy loss": br.privacy_loss(kept),
    }


@audit
def dpmpm_weights():
    return {"risk": risk(*classes(how="weights"))}


@audit
def dpmpm_zeros():
    fit, release = classes(how="zeros")
    fit_1, release_1 = fit, fit.synthesize(1, random_seed=4)
    return {
        "risk": risk(fit, release),
        "half known, one release": risk(fit_1, release_1, HALF),
        "half known": risk(fit, release, HALF, evidence="independent-releases"),
    }


@audit
def dpmpm_kept_columns():
    fit, release = classes(columns=("area", "job"))
    return {
        "risk": risk(fit, release),
        "knows job": risk(fit, release, {"knows_columns": ["job"]}),
        "some targets": risk(fit, release, targets=["P03", "P10", "P11"]),
        "drawn targets": risk(fit, release, targets=7),
    }


@audit
def dpmpm_kept_records():
    return {"risk": risk(*classes(records=25))}


@audit
def dpmpm_own_classes():
    return {
        "risk": risk(*classes(how="own")),
        "kept": risk(*classes(how="own", columns=("job",))),
    }


@audit
def dpmpm_partly_known():
    fit, release = classes()
    one = fit.synthesize(1, random_seed=4)
    few = {"targets": 12}
    return {
        "imputed": risk(fit, release, HALF, **few),
        "product": risk(fit, release, HALF, evidence="independent-releases", **few),
        "nobody": risk(fit, release, {"knows_records": "none"}, **few),
        "one release": risk(fit, one, HALF, **few),
        "named": risk(fit, one, {"knows_records": list(people().index[:20])}, **few),
        "kept columns": risk(*classes(columns=("area", "job")), HALF, **few),
    }


@audit
def dpmpm_parameters():
    ways = ("shared", "independent", "one-mode")
    return {way: risk(*classes(parameters=way)) for way in ways}


@audit
def dpmpm_ways():
    fit, release = classes()
    return {
        "refit": risk(fit, release, evidence="refit", targets=3),
        "reuse": risk(fit, release, evidence="importance"),
        "on to an error": risk(fit, release, target_mcse=0.1, max_doublings=1),
    }


@audit
def dpmpm_guesses():
    fit, release = classes()
    table = people()[WORDS].drop_duplicates()
    return {
        "two apart": risk(fit, release, guesses=br.Neighbourhood(2)),
        "hamming": risk(fit, release, guesses=br.Neighbourhood(2)),
        "all apart": risk(fit, release, guesses=br.Neighbourhood(3), targets=10),
        "listed": risk(fit, release, guesses=br.Listed(table), targets=10),
        "levels": risk(fit, release, guesses=dict.fromkeys(WORDS, br.Levels()), targets=10),
    }


@audit
def dpmpm_full_table():
    fit, release = classes()
    one = fit.synthesize(1, random_seed=4)
    return {
        "table": br.full_table_risk(fit, release, targets=8, random_seed=5),
        "marginal": br.full_table_risk(
            fit, release, targets=4, prior="marginal", draws=20, random_seed=5
        ),
        "half known": br.full_table_risk(
            fit, release, targets=4, intruder=br.Intruder(**HALF), random_seed=5
        ),
        "likeliest": br.likeliest(fit, release, targets=4, k=5, random_seed=5),
        "likeliest of one": br.likeliest(fit, one, targets=4, k=5, random_seed=5),
    }


@audit
def dpmpm_missing():
    table = people()[WORDS].copy()
    table.loc[table.index[::7], "job"] = None
    fit = br.models.DPMPM(n_classes=3).fit(table, missing="level", **SHORT)
    return {"risk": risk(fit, fit.synthesize(2, random_seed=2))}


@audit
def dpmpm_nuts():
    how = SHORT | {"draws": 15, "tune": 15}
    fit = br.models.DPMPM(n_classes=2).fit(people()[["sex", "job"]], sampler="nuts", **how)
    return {"risk": risk(fit, fit.synthesize(2, random_seed=2), targets=5)}


# --- counts ----------------------------------------------------------------------------------


@cache
def counts(*extra, m=2, weighted=False, own=False, **declared):
    """A fit of Poisson mixtures, and a release of it."""
    given = {"weights": weights()} if weighted else {}
    table = people()[["staff", "visits", *extra]]
    fit = br.models.PoissonMixture(n_classes=4, **declared).fit(table, **SHORT | given)
    how = {"classes": "own"} if own else {}
    return fit, fit.synthesize(m, **how, random_seed=2)


NEAR = br.Grid(additive=3, n=7)


@audit
def poisson():
    fit, release = counts()
    found = risk(fit, release, guesses=NEAR)
    return {
        "risk": found,
        "release": release,
        "closeness": found.closeness("staff", within=[1, 2]),
        "on average": found.closeness_summary(),
        "between": found.probability_between(found.index[2], "visits", 1, 4),
        "reuse": risk(fit, release, guesses=NEAR, evidence="importance"),
        "refit": risk(fit, release, guesses=NEAR, evidence="refit", targets=2),
        "shared": risk(fit, fit.synthesize(2, parameters="shared", random_seed=2), guesses=NEAR),
        "one mode": risk(
            fit, fit.synthesize(2, parameters="one-mode", random_seed=2), guesses=NEAR
        ),
    }


@audit
def poisson_exposure():
    return {"risk": risk(*counts("hours", exposure="hours"), guesses=NEAR)}


@audit
def poisson_zeros():
    return {"risk": risk(*counts(zeros=(1.0, 2.0)), guesses=NEAR)}


@audit
def poisson_covariates():
    fit, release = counts("sex", "area", own=True, covariates=("sex", "area"))
    return {
        "risk": risk(fit, release, guesses=NEAR),
        "half known": risk(fit, release, HALF, guesses=NEAR, targets=8),
    }


@audit
def poisson_weights():
    return {"risk": risk(*counts(weighted=True), guesses=NEAR)}


@audit
def poisson_own_classes():
    return {"risk": risk(*counts(own=True), guesses=NEAR)}


@audit
def poisson_partly_known():
    fit, release = counts()
    few = {"guesses": NEAR, "targets": 8}
    return {
        "half known": risk(fit, release, HALF, **few),
        "product": risk(fit, release, HALF, evidence="independent-releases", **few),
        "nobody": risk(fit, release, {"knows_records": "none"}, **few),
    }


@cache
def business(kind):
    """A mixture fitted to plants, and a release of it."""
    declared = {"quantile": 0.9} if kind == "TCMM" else {}
    model = br.models.PoissonMixture(n_classes=6, kind=kind, **declared)
    table = plants((330, 325, 320, 310, 300)) if kind == "MM" else plants()  # of one component
    fit = model.fit(table, draws=40, tune=60, chains=2, random_seed=1)
    return fit, fit.synthesize(2, random_seed=2)


SECOND = {"knows_records": "second-largest", "largest": "w"}
VALUE = {"knows_records": "second-largest-value", "largest": "w"}
TWO = {"knows_records": "all-but-two", "other": "r31", "knows_totals": True, "largest": "w"}
UP = {"guesses": br.Grid(bounds=(300, 500), n=201)}


def business_audits(kind):
    fit, release = business(kind)
    believed = br.Interval(320, 440, probability=0.8)
    return {
        "second": risk(fit, release, SECOND, **UP),
        "value": risk(fit, release, VALUE, **UP),
        "two": risk(fit, release, TWO, **UP),
        "totals": risk(fit, release, SECOND | {"knows_totals": True}, **UP),
        "believed": risk(fit, release, SECOND, prior=believed, **UP),
        "columns": risk(fit, release, SECOND | {"knows_columns": ["v"]}, **UP),
    }


@audit
def business_mp():
    return business_audits("MP")


@audit
def business_mm():
    fit, release = business("MM")
    every = {"guesses": {"w": br.Grid(percent=10, n=5), "v": br.Grid(percent=10, n=3)}}
    return business_audits("MM") | {
        "inferred": risk(fit, release, SECOND | {"groups": "inferred"}, **UP),
        "all others": risk(fit, release, targets=["r30", "r31", "r3"], **every),
        "alone": fit.singletons(release),
    }


@audit
def business_tcmm():
    from scipy import stats

    fit, release = business("TCMM")
    others = SECOND | {"others": stats.loguniform(100, 300)}
    return business_audits("TCMM") | {"others": risk(fit, release, others, **UP)}


# --- regressions -----------------------------------------------------------------------------


LINES = {"age": "1 + sex", "pay": "1 + age"}
GRID = {"age": br.Grid(percent=10, n=5), "pay": br.Grid(percent=10, n=5)}


@cache
def lines(parameters=None, weighted=False, m=2):
    given = {"weights": weights()} if weighted else {}
    fit = br.models.Regression(LINES).fit(people()[["sex", "age", "pay"]], **SHORT | given)
    return fit, fit.synthesize(m, parameters=parameters, random_seed=2)


@audit
def regression():
    fit, release = lines()
    found = risk(fit, release, guesses=GRID)
    return {
        "risk": found,
        "release": release,
        "closeness": found.closeness("pay", percent=5),
        "geography": found.geography("age", "pay"),
        "predictive": risk(fit, release, guesses=GRID, evidence="predictive"),
        "reuse": risk(fit, release, guesses=GRID, evidence="importance"),
        "refit": risk(fit, release, guesses=GRID, evidence="refit", targets=3),
        "knows age": risk(fit, release, {"knows_columns": ["age"]}, guesses={"pay": GRID["pay"]}),
        "pay alone": risk(
            fit, fit.synthesize(2, ["pay"], random_seed=2), guesses={"pay": GRID["pay"]}
        ),
    }


@audit
def regression_parameters():
    ways = ("independent", "shared", "plug-in")
    return {way: risk(*lines(way), guesses=GRID) for way in ways}


@audit
def regression_weights():
    return {"risk": risk(*lines(weighted=True), guesses=GRID)}


@audit
def regression_partly_known():
    fit, release = lines()
    one = fit.synthesize(1, random_seed=4)
    few = {"guesses": GRID, "targets": 6}
    return {
        "half known": risk(fit, release, HALF, **few),
        "product": risk(fit, release, HALF, evidence="independent-releases", **few),
        "one release": risk(fit, one, HALF, **few),
    }


@audit
def regression_density():
    from scipy import stats

    fit, release = lines()
    believed = br.Density({"pay": stats.norm(18, 4), "age": stats.norm(40, 9)})
    return {"risk": risk(fit, release, guesses=GRID, prior=believed)}


@audit
def regression_searched_grid():
    fit, release = lines()
    fine = {name: br.Grid(percent=20, n=41) for name in LINES}
    grid = br.JointGrid(fine, budget=300)
    return {"risk": risk(fit, release, guesses=grid, targets=4, evidence="exact")}


@cache
def generalized():
    """A Poisson and a logistic regression, by NUTS."""
    formulas = {"visits": "1 + sex", "union": "1 + age"}
    model = br.models.Regression(formulas, {"visits": "poisson", "union": "bernoulli"})
    table = people()[["sex", "age", "visits", "union"]]
    fit = model.fit(table, **SHORT | {"draws": 60, "tune": 100})
    return fit, fit.synthesize(2, random_seed=2)


BOTH = {"visits": NEAR, "union": br.Levels()}


@audit
def regression_nuts():
    fit, release = generalized()
    return {
        "draws": {k: v.to_numpy() for k, v in fit.idata.posterior.data_vars.items()},
        "risk": risk(fit, release, guesses=BOTH),
        "half known": risk(fit, release, HALF, guesses=BOTH, targets=3),
        "reuse": risk(fit, release, guesses=BOTH, evidence="importance"),
    }


@audit
def regression_brought_draws():
    rng = np.random.default_rng(8)
    held = {"Intercept": rng.normal(10, 0.4, 50), "age": rng.normal(0.2, 0.01, 50)}
    held |= {"sigma": rng.uniform(0.9, 1.2, 50)}
    model = br.models.Regression({"pay": "1 + age"})
    fit = model.from_draws(people()[["age", "pay"]], {"pay": pd.DataFrame(held)})
    release = fit.synthesize(2, random_seed=2)
    return {"risk": risk(fit, release, guesses={"pay": GRID["pay"]}, evidence="importance")}


@cache
def family(name):
    """A regression of one family, and a release of it; predictors synthesised and not."""
    table = people()[["sex", "age", "pay", "staff", "visits", "area"]].copy()
    table["wage"] = np.exp(table["pay"] / 20).round(3)
    table["rank"] = pd.Categorical(
        np.where(table["age"] < 35, "low", np.where(table["pay"] < 19, "mid", "top")),
        categories=["low", "mid", "top"],
        ordered=True,
    )
    table["trials"] = table["staff"] + 6
    formula, given = "1 + sex + age", {}
    column = {"lognormal": "wage", "student": "pay", "negative-binomial": "visits"}.get(name, "")
    if name == "ordered":
        column, formula = "rank", "sex + age"
    elif name == "categorical":
        column = "area"
    elif name.startswith("binomial"):
        column, trials = "visits", 40 if name.endswith("fixed") else "trials"
        table["trials"] = np.maximum(table["trials"], table["visits"])
        given = {column: br.models.Binomial(trials=trials)}
    model = br.models.Regression({column: formula}, given or {column: name})
    columns = ["sex", "age", column, *(["trials"] if name == "binomial" else [])]
    fit = model.fit(table[columns], **SHORT | {"draws": 60, "tune": 100})
    numbers = {"wage": br.Grid(percent=10, n=5), "pay": GRID["pay"], "visits": NEAR}
    return fit, fit.synthesize(2, random_seed=2), {column: numbers.get(column, br.Levels())}


def family_audit(name):
    fit, release, guesses = family(name)
    again = {"evidence": "importance", "guesses": guesses}
    found = {
        "draws": {k: v.to_numpy() for k, v in fit.idata.posterior.data_vars.items()},
        "release": release,
        "risk": risk(fit, release, guesses=guesses),
        "reuse": risk(fit, release, **again),
        "half known": risk(fit, release, HALF, guesses=guesses, targets=3),
    }
    external = fit.model.from_draws(fit.microdata.decode(fit.microdata.codes), fit.idata)
    return found | {"external draws": risk(external, release, **again)}


@audit
def regression_lognormal():
    fit, release, guesses = family("lognormal")
    one = fit.synthesize(1, random_seed=4)
    return family_audit("lognormal") | {
        "exact": risk(fit, release, guesses=guesses, evidence="exact"),
        "one release": risk(fit, one, HALF, guesses=guesses, targets=6),
        "plug-in": risk(
            fit, fit.synthesize(2, parameters="plug-in", random_seed=2), guesses=guesses
        ),
    }


@audit
def regression_student():
    return family_audit("student")


@audit
def regression_negative_binomial():
    return family_audit("negative-binomial")


@audit
def regression_ordered():
    return family_audit("ordered")


@audit
def regression_categorical():
    return family_audit("categorical")


@audit
def regression_binomial():
    fit, release, guesses = family("binomial fixed")
    return family_audit("binomial") | {"fixed": risk(fit, release, guesses=guesses)}


# --- trees, forests, matching, a model of one's own ----------------------------------------------


@cache
def trees(parameters=None, m=2, **declared):
    """Trees of a category and a number, and a release of them."""
    given = {"weights": weights()} if declared.pop("weighted", False) else {}
    model = br.models.CART(["job", "age"], **{"min_leaf": 6} | declared)
    fit = model.fit(people()[["sex", "staff", "job", "age"]], random_seed=1, **given)
    return fit, fit.synthesize(m, parameters=parameters, random_seed=2)


MIXED = {"job": br.Levels(), "age": br.Grid(percent=10, n=5)}


def held_values(column="age"):
    """Values that leaves hold, so that they are possible."""
    return br.Grid(values=sorted(people()[column].unique())[::3], truth="add")


def staff_and_visits():
    """Trees of which the second splits on what the first made."""
    table = people()[["sex", "staff", "visits"]]
    table = table.assign(visits=table["staff"] // 2 + table["visits"] % 2)
    fit = br.models.CART(["staff", "visits"], min_leaf=8).fit(table, random_seed=1)
    return fit, fit.synthesize(2, random_seed=2)


@audit
def cart():
    fit, release = trees()
    some = {"job": br.Levels(), "age": held_values()}
    return {
        "risk": risk(fit, release, guesses=MIXED),
        "release": release,
        "held": risk(fit, release, guesses=some),
        "refit": risk(fit, release, guesses=some, evidence="refit", targets=3),
        "plain draws": risk(*trees(bootstrap="none"), guesses=some),
        "weights": risk(*trees(weighted=True), guesses=some),
        "shared": risk(*trees("shared"), guesses=some),
        "plug-in": risk(*trees("plug-in"), guesses=some),
        "half known": risk(fit, release, HALF, guesses=some, targets=6),
        "nobody": risk(fit, release, {"knows_records": "none"}, guesses=some, targets=6),
        "split on synthetic values": risk(*staff_and_visits(), HALF, guesses=NEAR, targets=6),
        "job alone": risk(fit, fit.synthesize(2, ["job"], random_seed=2), HALF, targets=6),
    }


@audit
def cart_smoothed():
    smoothed = {"smoothing": "kde", "min_leaf": 15}
    few = {"guesses": MIXED, "targets": 3}
    return {
        "simulated": risk(*trees(**smoothed), **few),
        "exact": risk(*trees(bootstrap="none", **smoothed), **few),
    }


@audit
def cart_files():
    """Trees assumed for files that are not theirs."""
    _, release = trees()
    table = people()[["sex", "staff", "job", "age"]]
    model = br.models.CART(["job", "age"], min_leaf=6, bootstrap="none", floor=0.001)
    fit = model.fit(table, releases=release.datasets, random_seed=1)
    files = br.Release(datasets=release.datasets, synthesized=["job", "age"])
    return {
        "risk": risk(fit, files, guesses={"job": br.Levels(), "age": held_values()}),
        "check": br.check_mechanism(fit, files, n_simulated=19, random_seed=5).table,
        "mismatch": fit.report_mismatch(),
    }


def rpart():
    """An export of one tree of 8 people: jobs by sex, as R writes it."""
    leaf = {"var": "<leaf>", "ncompete": 0, "nsurrogate": 0, "yval": 1}
    root = {"var": "sex", "ncompete": 0, "nsurrogate": 0, "yval": 1}
    split = {"var": "sex", "count": 0, "ncat": 2, "improve": 1.0, "index": 1, "adj": 0}
    frame = [{"node": 1, "n": 8} | root, *({"node": k, "n": 4} | leaf for k in (2, 3))]
    tree = {"kind": "rpart", "method": "class", "frame": frame, "splits": [split]}
    tree |= {"csplit": [[3, 1]], "xlevels": {"sex": ["f", "m"]}, "ylevels": ["a", "b", "c"]}
    said = {"m": 1, "method": {"sex": "", "age": "", "job": "cart"}, "proper": False}
    said |= {"visit_sequence": ["sex", "age", "job"], "smoothing": ["", "", ""]}
    return said | {"models": [{"sex": None, "age": None, "job": tree}]}


@audit
def cart_of_rpart():
    table = pd.DataFrame(
        {"sex": list("ffffmmmm"), "age": [20, 30, 40, 50, 25, 35, 45, 55], "job": list("aabcbcca")}
    )
    with TemporaryDirectory() as folder:
        models = Path(folder) / "models.json.gz"
        models.write_bytes(gzip.compress(json.dumps(rpart()).encode()))
        table.assign(job=list("abacbccb")).to_csv(Path(folder) / "syn_1.csv", index=False)
        made = br.read_synthpop(folder, original=table, models=models)
    fit = br.models.CART.from_rpart(made.models, table, releases=made.datasets)
    return {"risk": risk(fit, made.release(), guesses={"job": br.Levels()})}


@cache
def forest(**declared):
    model = br.models.Forest(["job", "area"], **{"n_trees": 8} | declared)
    fit = model.fit(people()[WORDS], random_seed=1)
    return fit, fit.synthesize(2, random_seed=2)


@audit
def forests():
    fit, release = forest()
    return {
        "risk": risk(fit, release),
        "release": release,
        "smoothed": risk(*forest(dirichlet=0.5)),
        "out of bag": risk(*forest(votes="out-of-bag", dirichlet=0.1, n_trees=30)),
        "earlier only": risk(*forest(chain="earlier-only", dirichlet=0.1, min_leaf=3)),
        "refit": risk(*forest(dirichlet=0.5), evidence="refit", targets=2),
    }


@audit
def forest_by_amount():
    model = br.models.Forest("amount", n_trees=8, dirichlet=0.2)
    records = {"job": list(people().index[:20]), "area": list(people().index[10:40])}
    fit = model.fit(people()[WORDS], records=records, random_seed=1)
    return {"risk": risk(fit, fit.synthesize(2, random_seed=2))}


def matched(order, **declared):
    size = int(people()["sex"].value_counts().min())
    model = br.models.PMM(order, identifying=["sex"], threshold=size, **declared)
    fit = model.fit(people()[["sex", "job", "age", "pay"]])
    return fit, fit.synthesize(2, random_seed=2)


@audit
def pmm():
    some = {"pay": held_values("pay")}
    fit, release = matched(["pay"])
    return {
        "risk": risk(fit, release, guesses=some),
        "release": release,
        "donors": risk(*matched(["pay"], donors=3), guesses=some),
        "filled": risk(
            *matched(["job", "pay"], later="filled", donors=3),
            guesses=some | {"job": br.Levels()},
            targets=6,
        ),
        "hidden": risk(*matched(["pay"], selection="hidden"), guesses=some, targets=2),
    }


def line_of_pay(table):
    import pymc as pm

    with pm.Model() as model:
        age, pay = pm.Data("age", table["age"]), pm.Data("pay", table["pay"])
        slope, sd = pm.Normal("slope", 0.0, 1.0), pm.HalfNormal("sd", 5.0)
        pm.Normal("pay_", 10 + slope * age, sd, observed=pay)
    return model


@audit
def model_of_ones_own():
    fit = br.models.PyMCModel(line_of_pay, columns=["pay"]).fit(people()[["age", "pay"]], **SHORT)
    release = fit.synthesize(2, random_seed=2)
    how = {"guesses": {"pay": GRID["pay"]}}
    return {
        "risk": risk(fit, release, **how),
        "release": release,
        "reuse": risk(fit, release, evidence="importance", **how),
        "refit": risk(fit, release, evidence="refit", targets=1, **how),
        "shared": risk(fit, fit.synthesize(2, parameters="shared", random_seed=2), **how),
    }


# --- identification, and what needs no model ----------------------------------------------------


@cache
def made():
    """A table, and data sets of trees."""
    table = people()[["sex", "area", "job", "age", "pay"]]
    fit = br.models.CART(["job", "age"], min_leaf=6).fit(table, random_seed=1)
    return table, fit.synthesize(3, random_seed=2)


KEYS = {"known": ["sex"], "synthesized": ["job", "age"]}
JOBS = {"known": ["sex", "area"], "synthesized": ["job"]}


def matching(**options):
    table, release = made()
    return br.identification_risk(table, release, **KEYS | options)


@audit
def identification():
    table, release = made()
    ages = {"radius": {"age": 0.1}}
    within = {"age": br.Absolute(3.0)}
    around = {"known": ["sex", "pay"], "synthesized": ["age"]}
    both = {"age": br.SD(0.5, groups=2), "pay": br.Relative(0.1)}
    return {
        "exact": matching(),
        "one": br.identification_risk(table, release.datasets[0], **KEYS),
        "radius": matching(**ages),
        "open": matching(radius=within, closed=False),
        "quantile": matching(radius={"age": br.Quantile(0.1)}, fallback=False),
        "ellipse": br.identification_risk(table, release, radius=both, shape="ellipse", **around),
        "box": br.identification_risk(table, release, radius=both, **around),
        "targets": matching(targets=["P03", "P10"], **ages),
    }


@audit
def identification_population():
    table, release = made()
    keys = {"known": ["sex", "area"], "synthesized": ["job"]}
    larger = pd.concat([table] * 4 + [table.iloc[:20]], ignore_index=True)
    counted = br.Population.counted(larger, keys["known"] + keys["synthesized"])
    weighted = br.Population.weighted(
        table.assign(w=7.5), keys["known"] + keys["synthesized"], weights="w"
    )
    F = table.groupby(["sex", "area", "job"])["pay"].transform("size").to_numpy() * 3.0

    def found(**options):
        return br.identification_risk(table, release, **keys | options)

    return {
        "counts": found(population=F),
        "by release": found(population=[F, F + 1, F + 2]),
        "counted": found(population=counted, strategy="likeliest"),
        "weighted": found(population=weighted, strategy=0.4),
        "log-linear": found(
            population=br.Population.log_linear(
                table, ["sex", "area", "job"], fraction=0.2, interactions=1, draws=20, random_seed=4
            )
        ),
        "uniqueness": br.uniqueness(table, ["sex", "area", "job"], fraction=0.1),
        "uniqueness counted": br.uniqueness(table, ["sex", "area", "job"], population=counted),
    }


@audit
def identification_further():
    table, release = made()
    fit = br.models.CART(["job"], min_leaf=6).fit(table, random_seed=1)
    drawn = br.replicates(fit.synthesize(2, random_seed=2), fit, n_tables=4, random_seed=3)
    return {
        "sweep": br.identification_sweep(
            table, release, over={"fallback": [True, False], "radius": {"age": [0.05, 0.1]}}, **KEYS
        ),
        "replicates": br.identification_risk(table, drawn, **JOBS),
        "redacted": br.redact(br.identification_risk(table, release, **JOBS)).table,
    }


@audit
def identification_files():
    table, release = made()
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{l}.parquet" for l in range(4)]
        for path, part in zip(paths, [table, *release.datasets], strict=True):
            part.reset_index(drop=True).to_parquet(path)
        held = {"known": ["sex", "area"], "synthesized": ["job"]}
        return {
            "several": br.identification_risk_of_files(paths[0], paths[1:], **held),
            "no fallback": br.identification_risk_of_files(
                paths[0], paths[1], fallback=False, **held
            ),
            "numbers": br.identification_risk_of_files(paths[0], paths[1:], batch=16, **KEYS),
        }


@audit
def membership():
    fit = br.models.DPMPM(n_classes=3).fit(people()[WORDS].iloc[:48], **SHORT)
    others = people()[WORDS].iloc[48:]
    line = br.models.Regression({"age": "1", "pay": "1 + age"})
    line = line.fit(people()[["age", "pay"]].iloc[:48], **SHORT)
    apart = people()[["age", "pay"]].iloc[48:]
    rates = br.models.PoissonMixture(n_classes=3).fit(people()[["staff", "visits"]], **SHORT)
    half = br.Intruder(**HALF)
    how = {"records": 12, "random_seed": 4, "refit_budget": 1}

    def asked(fit, m, **options):
        return br.membership(fit, fit.synthesize(m, random_seed=2), **how | options)

    return {
        "latent classes": asked(fit, 2, others=others),
        "drawn": asked(fit, 2, others=others, alternatives=10),
        "one, half known": asked(fit, 1, others=others, intruder=half, records=6),
        "counts": asked(rates, 2),
        "lines": asked(line, 2, others=apart, alternatives=20),
    }


@audit
def exposure():
    table, release = made()
    found = br.exposure(table, release)
    return {
        "counts": found,
        "most": found.most(),
        "keys": br.exposure(table, release, keys=["sex"]),
    }


@audit
def mechanism():
    fit, release = classes()
    line, lined = lines()
    return {
        "own": br.check_mechanism(fit, release, n_simulated=19, random_seed=5).table,
        "files": br.check_mechanism(
            fit,
            br.Release(datasets=list(release.datasets), synthesized=WORDS),
            n_simulated=19,
            random_seed=5,
        ).table,
        "lines": br.check_mechanism(line, lined, n_simulated=19, random_seed=5).table,
        "audited": risk(fit, br.Release(datasets=list(release.datasets), synthesized=WORDS)),
    }


@audit
def sensitivity():
    fit, release = classes()
    line, lined = lines()
    nuts, sampled = generalized()
    tight = br.models.RegressionPrior(slopes=2.0)
    over = {
        "prior": {"flat": "uniform", "leaning": br.TruthFactor(5)},
        "m": [1, 2],
        "guesses": [1, 2],
        "knows_columns": [[], ["sex"]],
        "knows_records": ["all-but-target", 0.5],
    }
    hyper = {"hyper": {"level_prior": [1.05, 2.0], "power": [1.1]}}
    how = {"random_seed": 3, "refit_budget": 0, "targets": 8}
    return {
        "cross": br.sensitivity(fit, release, over=over, **how),
        "tornado": br.sensitivity(fit, release, over=over, **how).tornado(),
        "hyper-priors": br.sensitivity(fit, release, over=hyper, **how),
        "hyper-priors of lines": br.sensitivity(
            line, lined, over={"hyper": {"prior": {"tight": tight}}}, guesses=GRID, **how
        ),
        "hyper-priors by weights": br.sensitivity(
            nuts, sampled, over={"hyper": {"prior": {"tight": tight}}}, guesses=BOTH, **how
        ),
    }


@audit
def compare():
    candidates = {
        "fine": br.models.CART(["job"], min_leaf=4),
        "coarse": br.Candidate(br.models.CART(["job"], min_leaf=20), m=2),
        "mixture": br.Candidate(
            br.models.DPMPM(n_classes=3),
            m=2,
            columns=["job"],
            fit={"draws": 20, "tune": 20, "chains": 2},
        ),
    }
    found = br.compare(
        candidates,
        people()[WORDS],
        attribute={"targets": 10, "guesses": {"job": br.Levels()}},
        identification={"known": ["sex"], "synthesized": ["job"]},
        utility={"permutations": 3},
        replicates=2,
        random_seed=5,
    )
    return {"comparison": found, "each": found.replicates, "pareto": found.pareto()}


def mean_pay(table):
    error = table["pay"].std() / np.sqrt(len(table))
    return pd.DataFrame({"estimate": [table["pay"].mean()], "std_error": [error]}, index=["pay"])


@audit
def utility():
    table, release = made()
    found = br.utility(table, release, permutations=4, random_seed=3)
    bounds = br.release_bounds(table, synthesized=["job", "age"], m=2, random_seed=6)
    return {
        "utility": found,
        "margins": found.margins,
        "pairs": found.pairs,
        "context": br.context_measures(table, release, keys=["sex"], target="job", random_seed=4),
        "bounds": [*bounds.minimum.datasets, *bounds.maximum.datasets],
        "combined": br.combine([1.0, 1.2, 0.9], [0.04, 0.05, 0.03]).table,
        "analyses": br.utility(
            table, release, analyses={"pay": mean_pay}, permutations=2, random_seed=3
        ),
        "dominance": br.dominance(plants().assign(g="a"), "w", "g"),
    }


@audit
def reweighting():
    how = {"fit": {"draws": 40, "tune": 40, "chains": 2}, "synthesis": {"m": 2}, "rounds": 2}
    audited = {"audit": {"guesses": GRID, "targets": 10}}
    table = people()[["sex", "age", "pay"]]
    return {
        "classes": br.reweight(
            br.models.DPMPM(n_classes=3), people()[WORDS], until=0.3, random_seed=7, **how
        ),
        "lines": br.reweight(
            br.models.Regression(LINES), table, until=0.3, random_seed=7, **how | audited
        ),
        "trees": br.reweight(
            br.models.CART(["job"], min_leaf=6),
            people()[WORDS],
            until=0.3,
            random_seed=7,
            **how | {"fit": {}},
        ),
    }


# --- whole studies ---------------------------------------------------------------------------


STUDY_OF_CLASSES = """
random_seed = 3
[data]
path = "people.csv"
index = "p"
columns = ["sex", "area", "job"]
[model]
kind = "DPMPM"
n_classes = 3
draws = 40
tune = 40
chains = 2
[release]
m = 2
[attribute]
targets = 20
refit_budget = 1
privacy_loss = true
[identification]
known = []
synthesized = ["sex", "area", "job"]
[membership]
held_out = 0.2
records = 10
[full_table]
targets = 4
[utility]
permutations = 3
[context]
keys = ["sex"]
target = "job"
[sweep]
priors = ["uniform", "marginal", { truth_factor = 10 }]
knows_columns = [[], ["job"]]
m = [1, 2]
[sweep.model]
level_prior = [1, 2]
[compare]
replicates = 2
[compare.as-it-is]
[compare.more-files]
release = { m = 3 }
[compare.trees]
model = { kind = "CART", order = ["job", "area"] }
release = { columns = ["job", "area"] }
"""
STUDY_OF_TREES = """
random_seed = 3
[data]
path = "people.csv"
index = "p"
columns = ["sex", "staff", "job", "age"]
[model]
kind = "CART"
order = ["job", "age"]
min_leaf = 6
[release]
m = 2
[attribute]
[attribute.guesses]
job = "levels"
age = { bounds = [20, 60], n = 41, truth = "add" }
[identification]
known = ["sex"]
synthesized = ["job", "age"]
radius = { age = 0.1 }
[utility]
permutations = 3
"""
STUDY_OF_PLANTS = """
random_seed = 3
[data]
path = "plants.csv"
index = "label"
[model]
kind = "PoissonMixture"
synthesizer = "TCMM"
quantile = 0.9
n_classes = 6
draws = 40
tune = 40
chains = 2
[release]
m = 2
[attribute.intruder]
knows_records = "second-largest"
largest = "w"
[attribute.guesses]
w = { bounds = [300, 500], n = 201 }
[attribute.prior]
interval = [380, 460]
probability = 0.8
[identification]
known = []
synthesized = ["w", "v"]
radius = { w = 0.1, v = 0.1 }
"""


def study(text, *commands):
    """What the command line writes of a study: tables, arrays, and the numbers of its summary."""
    found = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        people().to_csv(folder / "people.csv")
        plants().to_csv(folder / "plants.csv", index_label="label")
        (folder / "study.toml").write_text(text)
        for command in commands:
            run(folder, command, "study.toml", "--output", command, "--jobs", "1")
            for path in sorted((folder / command).rglob("*")):
                found |= {f"{command} {path.name}": part for part in content(path)}
    return found


def run(folder, *arguments):
    """The console script of the project file, as it stands in this checkout."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["bayes-risk"].partition(":")
    code = f"import sys; from {module} import {function}; sys.argv[0] = 'bayes-risk'; {function}()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"bayes-risk {arguments[0]}: {done.stderr[-2000:]}")


def content(path):
    """A table and its bytes, the numbers of a summary, labelled arrays; nothing of other files."""
    if path.suffix == ".csv":
        yield {"bytes": [path.read_text()], "table": pd.read_csv(path)}
    elif path.name == "summary.json":
        yield dict(leaves(json.loads(path.read_text())))
    elif path.suffix == ".nc":
        import xarray as xr

        groups = xr.open_groups(path, engine="h5netcdf")
        yield {name: arrays.load() for name, arrays in groups.items()}


def leaves(node, name=""):
    """Numbers of nested lists and mappings; words, times and versions are left out."""
    if isinstance(node, dict | list):
        inside = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in inside:
            if key not in ("seconds", "versions", "created", "memory", "manifest"):
                yield from leaves(value, f"{name}.{key}" if name else str(key))
    elif isinstance(node, int | float) or node is None:
        yield name, math.nan if node is None else float(node)


@audit
def study_of_classes():
    return study(STUDY_OF_CLASSES, "audit", "sweep", "compare")


@audit
def study_of_trees():
    return study(STUDY_OF_TREES, "audit")


@audit
def study_of_plants():
    return study(STUDY_OF_PLANTS, "audit")


# --- results taken apart ---------------------------------------------------------------------

# What is taken of a result besides ``summary()`` and ``records``, where it has it.
PARTS = (
    *("guesses", "truth", "log_evidence", "log_prior", "log_probability", "mcse_log_evidence"),
    *("deviations", "mcse", "khat", "ess", "interval", "by_column", "priors", "best", "rank"),
    *("loss", "low", "bounds", "extremes", "c", "T", "K", "F", "pooled_c", "pooled_T", "pooled_K"),
    *("pooled_F", "outside", "pooled_outside", "baseline", "pooled_mcse", "each", "pooled"),
    *("n_profiles", "baseline_expected_match_risk", "log_bayes_factor", "measures", "weights"),
    *("standard_error", "mcse_of_measures", "values", "errors", "found", "unseen"),
    *("bound", "scores", "margin_measures", "pair_measures", "combined", "value", "of", "risk"),
    *("identical", "alone", "unique", "replicated", "datasets", "groups", "draw_index"),
)


def taken_apart(name, thing):
    """Arrays of a result by name: pairs of a name, and numbers or words."""
    if thing is None or callable(thing) and not hasattr(thing, "summary"):
        return
    if isinstance(thing, str | bool | int | float | np.generic):
        yield name, np.atleast_1d(np.asarray(thing))
    elif isinstance(thing, np.ndarray):
        yield name, thing
    elif isinstance(thing, pd.Series):
        yield from taken_apart(name, thing.to_frame(str(thing.name)))
    elif isinstance(thing, pd.DataFrame):
        yield f"{name} rows", np.array([str(label) for label in thing.index])
        for place, column in enumerate(thing.columns):
            yield f"{name}[{column}]", thing.iloc[:, place].to_numpy()
    elif hasattr(thing, "data_vars"):
        for key in thing.data_vars:
            yield f"{name}[{key}]", np.asarray(thing[key])
    elif isinstance(thing, dict) or hasattr(thing, "items"):
        for key, value in thing.items():
            yield from taken_apart(f"{name} / {key}" if name else str(key), value)
    elif isinstance(thing, list | tuple):
        if all(isinstance(part, str | int | float) for part in thing):
            yield name, np.array(thing)
        else:
            for place, part in enumerate(thing):
                yield from taken_apart(f"{name} {place}", part)
    else:
        yield from of_result(name, thing)


def of_result(name, result):
    summary = getattr(result, "summary", None)
    if callable(summary):
        yield from taken_apart(f"{name}.summary", summary())
    table = None if isinstance(result, br.Release) else getattr(result, "records", None)
    yield from taken_apart(f"{name}.records", table)
    for part in PARTS if table is not None else (*PARTS, "dataset"):
        yield from taken_apart(f"{name}.{part}", getattr(result, part, None))


def kept(array):
    """What is written down of an array; numbers of any type compare as double precision."""
    if array.dtype.kind in "biufc" or all(isinstance(v, int | float) for v in array.flat):
        values = np.asarray(array, dtype=np.float64) + 0.0  # one zero
        values = np.where(np.isnan(values), np.nan, values)  # one NaN
        finite = values[np.isfinite(values)]
        digest, first = values.tobytes(), values.ravel()[:LEADING].tolist()
        total = math.fsum(finite)
    else:
        words = [str(value) for value in array.flat]
        digest, first = "\x1f".join(words).encode(), [w[:40] for w in words[:LEADING]]
        total = None
    found = {"shape": list(array.shape), "sha256": hashlib.sha256(digest).hexdigest()[:20]}
    return found | {"sum": total, "first": first}


def numbers_of(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {key: kept(array) for key, array in taken_apart("", AUDITS[name]())}


# --- recording and checking ------------------------------------------------------------------


def difference(old, new):
    """In words: what two arrays differ in."""
    if old["shape"] != new["shape"]:
        return f"shape {old['shape']} became {new['shape']}"
    pairs = list(zip(old["first"], new["first"], strict=True))
    told = [(k, a, b) for k, (a, b) in enumerate(pairs) if a != b and not (a != a and b != b)]
    if told and not isinstance(told[0][1], str):
        k, a, b = max(told, key=lambda t: abs(t[1] - t[2]) if math.isfinite(t[1] - t[2]) else 9e99)
        return f"value {k} was {a!r}, is {b!r}, by {b - a:.3g}; {len(told)} of the first differ"
    if told:
        k, a, b = told[0]
        return f"value {k} was {a!r}, is {b!r}"
    by = "" if old["sum"] is None else f"; their sum by {new['sum'] - old['sum']:.3g}"
    return f"the first {len(pairs)} values agree, later ones do not{by}"


def compared(name, old, new):
    """Lines that say what differs in an audit; and what is only called otherwise, or new."""
    lines, news = [], []
    unknown = {new[key]["sha256"]: key for key in new if key not in old}
    for key, was in old.items():
        if key not in new and was["sha256"] in unknown:
            news.append(f"{name}: {key}: is called {unknown[was['sha256']]!r} now, numbers equal")
        elif key not in new:
            lines.append(f"{name}: {key}: is gone")
        elif (was["sha256"], was["shape"]) != (new[key]["sha256"], new[key]["shape"]):
            lines.append(f"{name}: {key}: {difference(was, new[key])}")
    gone = any(key not in new for key in old)
    news += [f"{name}: {key}: is new" for key in unknown.values() if not gone]
    return lines, news


def ran(name):
    """The numbers of an audit, or None and why."""
    started = time.perf_counter()
    try:
        found, said = numbers_of(name), ""
    except Exception as error:
        found, said = None, f"{type(error).__name__}: {error}"
    print(f"{time.perf_counter() - started:7.1f} s  {name}", file=sys.stderr, flush=True)
    return SimpleNamespace(found=found, said=said)


def record(names, path):
    whole = json.loads(path.read_text()) if path.exists() and set(names) != set(AUDITS) else {}
    failed = 0
    for name in names:
        result = ran(name)
        if result.found is None:
            failed += 1
            print(f"{name}: {result.said}")
        else:
            whole[name] = result.found
    path.write_text(json.dumps(whole, indent=0) + "\n")
    print(f"{len(whole)} audits, {sum(map(len, whole.values()))} arrays in {path}")
    return failed


def check(names, path):
    whole = json.loads(path.read_text())
    failed = []
    for name in names:
        result = ran(name)
        if result.found is None:
            lines, news = [f"{name}: {result.said}"], []
        elif name not in whole:
            lines, news = [f"{name}: is not recorded"], []
        else:
            lines, news = compared(name, whole[name], result.found)
        failed += [name] if lines else []
        print(*lines, *news, sep="\n", end="\n" if lines or news else "")
    print(f"{len(names) - len(failed)} of {len(names)} audits agree with {path}")
    if failed:
        print("differ:", *failed)
    return len(failed)


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=["record", "check", "list"])
    parser.add_argument("names", nargs="*", metavar="NAME", help="audits; all by default")
    parser.add_argument("--file", type=Path, default=FILE, help="where the numbers are kept")
    given = parser.parse_intermixed_args()
    if not Path(br.__file__).is_relative_to(ROOT):
        parser.error(f"bayes_risk comes from {br.__file__}, not from {ROOT}")
    if unknown := [name for name in given.names if name not in AUDITS]:
        parser.error(f"no audits: {unknown}; there are {list(AUDITS)}")
    names = given.names or list(AUDITS)
    if given.what == "list":
        print(*names, sep="\n")
        return 0
    return bool({"record": record, "check": check}[given.what](names, given.file))


if __name__ == "__main__":
    sys.exit(main())
