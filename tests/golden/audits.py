"""Small audits over every model, intruder and kind of evidence: record their numbers, check them.

Not a test of pytest's: numbers to the last digit depend on the machine and on installed versions.
They are recorded before code is moved, on the machine where it is moved, and checked after each
step. Only the public face is used, and the command line, but for the small fits that tests share::

    python tests/golden/audits.py record [NAME ...] [--file PATH]
    python tests/golden/audits.py check [NAME ...] [--file PATH]
    python tests/golden/audits.py list

An audit is a function of `AUDITS`: what it returns is taken apart into arrays, of each of which the
shape, a hash of all values, their sum and the first few are kept.
"""

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import time
import tomllib
import warnings
from functools import cache, partial
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
from tests.helpers import every_result, fits  # noqa: E402

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


# --- every model, intruder and kind of evidence -----------------------------------------------

KNOWS = ("all-but-target", 0.5, "none")


def tried(function, *given, **options):
    """What it gives, or the words in which it refuses."""
    try:
        return function(*given, **options)
    except (br.InputError, TypeError) as error:  # TypeError: the model has no such option
        return str(error)


def of_model(name):
    """All evidence offered to every intruder, of several releases."""
    made, fit, release = fits.example(name), fits.fit_of(name), fits.release_of(name)
    last = [release.synthesized[-1]]
    weighted = tried(made.model.fit, made.table, **made.fitting, weights=weights(len(made.table)))
    audited = {
        "two": (fit, release),
        "one": (fit, tried(fit.synthesize, 1, random_seed=4)),
        "last column": (fit, tried(fit.synthesize, 2, last, random_seed=4)),
        "some records": (fit, tried(fit.synthesize, 2, records=range(9), random_seed=4)),
    }
    for way in ("shared", "independent", "one-mode", "plug-in"):
        audited[way] = fit, tried(fit.synthesize, 2, parameters=way, random_seed=4)
    if not isinstance(weighted, str):
        audited["weights"] = weighted, weighted.synthesize(2, random_seed=2)
    found = {"weights": weighted if isinstance(weighted, str) else "", "release": release}
    for what, (of, files) in audited.items():
        if isinstance(files, str):
            found[what] = files
            continue
        for knows in KNOWS:
            for way in sorted(fits.offered(of, files, knows_records=knows)):
                found[f"{what}, {knows}, {way}"] = one(made, of, files, knows, way)
    return found


def one(made, fit, release, knows, way):
    guesses = made.guesses
    if isinstance(guesses, dict):
        guesses = {name: guesses[name] for name in release.synthesized if name in guesses}
    options = {} if guesses is None else {"guesses": guesses}
    intruder = {"knows_records": knows}
    return tried(risk, fit, release, intruder, evidence=way, targets=3, **options)


for _name in br.models.BUILT_IN:
    AUDITS[_name] = partial(of_model, _name)
AUDITS["every kind of result"] = every_result.every


# --- priors and guesses of latent classes ------------------------------------------------------


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


# --- competitors ------------------------------------------------------------------------------


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


# --- regressions by NUTS ------------------------------------------------------------------------

NEAR = br.Grid(additive=3, n=7)
GRID = {"age": br.Grid(percent=10, n=5), "pay": br.Grid(percent=10, n=5)}


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


for _name in ("lognormal", "student", "negative-binomial", "ordered", "categorical", "binomial"):
    AUDITS[f"regression {_name}"] = partial(family_audit, _name)


# --- matching -----------------------------------------------------------------------------------


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


# --- a whole study ----------------------------------------------------------------------------


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


def study(text, *commands):
    """What the command line writes of a study: tables, arrays, and the numbers of its summary."""
    found = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        people().to_csv(folder / "people.csv")
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
